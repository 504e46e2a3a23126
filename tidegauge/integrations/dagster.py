"""Dagster assets and asset checks that measure tables by their suite files.

It needs ``pip install 'tidegauge[dagster]'``, or ``'tidegauge[dagster,postgres]'`` for a repository in PostgreSQL.
"""

# No `from __future__ import annotations` here: Dagster reads the annotations of `context` as types.
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    Failure,
    MaterializeResult,
    MetadataValue,
    PartitionsDefinition,
    asset,
    multi_asset_check,
)

from tidegauge.integrations.measuring import MeasurementResult, MeasurementTask
from tidegauge.outcome import Cause, Outcome
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK_DESCRIPTIONS = {
    "checks": "The suite's checks hold; known failures of past partitions do not count.",
    "policies": "The policies of the suite's rules hold; known failures of past partitions do not count.",
    "anomalies": "The measured partitions have no anomalies.",
}
"""The asset checks, with their descriptions in Dagster."""
_CHECK_CAUSES = {"checks": Cause.CHECK, "policies": Cause.POLICY, "anomalies": Cause.ANOMALY}
"""The cause of the problems that each asset check reports."""


def asset_checks(
    asset: str | Sequence[str] | AssetKey,
    suites: str | Sequence[str],
    *,
    partition: str = "new",
    partitions_def: PartitionsDefinition[str] | None = None,
    db: str | None = None,
    artifacts: str | None = None,
    fail_on_anomaly: bool = False,
    blocking: bool = False,
    dashboard_url: str | None = None,
    session: Callable[[], "SparkSession"] = spark_session,
) -> AssetChecksDefinition:
    """Return the asset checks ``checks``, ``policies`` and ``anomalies`` of a table that another asset produces.

    Parameters
    ----------
    asset : str, sequence of str or AssetKey
        The asset that produces the table.
    suites : str or sequence of str
        Suite files, folders or globs.
    partition : str
        The table's partition for a Dagster partition. ``{partition_key}`` is replaced by Dagster's partition
        key, such as in ``"ds={partition_key}"``. Without Dagster partitions, as for `analyze`.
    partitions_def : PartitionsDefinition, optional
        Dagster's partitions of the checks. Dagster warns that this feature is a preview.
    db, artifacts : str, optional
        As for `Repository`.
    fail_on_anomaly : bool
        Whether open anomalies in the partitions that were measured last are errors; otherwise they are warnings.
    blocking : bool
        Whether downstream assets wait for the checks, and are skipped if a check is an error.
    dashboard_url : str, optional
        Address of the dashboard, as metadata.
    session : callable
        Returns the Spark session. By default, it starts a session that the environment configures.

    Returns
    -------
    AssetChecksDefinition

    Raises
    ------
    dagster.Failure
        In its run, if a table or an analyzer cannot be measured. Retries are safe: stored partitions are not
        measured again.

    Examples
    --------
    >>> asset_checks("orders", "suites/orders.yml", partition="ds={partition_key}")  # doctest: +SKIP
    """
    key = AssetKey.from_coercible(asset)
    measurement = MeasurementTask(suites, db, artifacts, fail_on_anomaly, dashboard_url, session)

    @multi_asset_check(
        specs=_specs(key, partitions_def, blocking=blocking),
        name=f"tidegauge_{key.to_python_identifier()}",
    )
    def checks(context: AssetCheckExecutionContext) -> Iterable[AssetCheckResult]:
        result = _measure(context, measurement, partition)
        yield from _results(result, key)

    return checks


def measured_asset(
    name: str,
    suites: str | Sequence[str],
    *,
    deps: Iterable[str | Sequence[str] | AssetKey] = (),
    partition: str = "new",
    partitions_def: PartitionsDefinition[str] | None = None,
    db: str | None = None,
    artifacts: str | None = None,
    fail_on_anomaly: bool = False,
    dashboard_url: str | None = None,
    session: Callable[[], "SparkSession"] = spark_session,
    **options: Any,
) -> AssetsDefinition:
    """Return an asset for the metrics of tables, with the checks ``checks``, ``policies`` and ``anomalies``.

    Parameters
    ----------
    name : str
        Name of the asset.
    suites, partition, partitions_def, db, artifacts, fail_on_anomaly, dashboard_url, session
        As for `asset_checks`.
    deps : iterable of str, sequence of str or AssetKey
        The assets that produce the tables.
    **options
        Further arguments of ``dagster.asset``, such as ``group_name`` or ``retry_policy``.

    Returns
    -------
    AssetsDefinition
        Its materialization has the run's summary as metadata.

    Raises
    ------
    dagster.Failure
        As for `asset_checks`.

    Examples
    --------
    >>> measured_asset("orders_quality", "suites/orders.yml", deps=["orders"])  # doctest: +SKIP
    """
    measurement = MeasurementTask(suites, db, artifacts, fail_on_anomaly, dashboard_url, session)

    @asset(
        name=name,
        deps=list(deps),
        partitions_def=partitions_def,
        check_specs=_specs(AssetKey(name), None, blocking=False),
        kinds={"spark"},
        **options,
    )
    def measured(context: AssetExecutionContext) -> MaterializeResult:
        result = _measure(context, measurement, partition)
        return MaterializeResult(
            metadata=_metadata(result), check_results=list(_results(result, AssetKey(name)))
        )

    return measured


def _specs(
    key: AssetKey, partitions_def: PartitionsDefinition[str] | None, *, blocking: bool
) -> list[AssetCheckSpec]:
    partitioned: Any = {} if partitions_def is None else {"partitions_def": partitions_def}
    return [
        AssetCheckSpec(name, asset=key, description=text, blocking=blocking, **partitioned)
        for name, text in _CHECK_DESCRIPTIONS.items()
    ]


def _measure(
    context: AssetExecutionContext | AssetCheckExecutionContext,
    measurement: MeasurementTask,
    partition: str,
) -> MeasurementResult:
    """Measure the partitions of a Dagster run in one pass."""
    partitioned = context.has_partition_key or context.has_partition_key_range
    keys = list(context.partition_keys) if partitioned else []
    has_placeholder = "{partition_key}" in partition
    names = [partition.replace("{partition_key}", key) for key in keys if has_placeholder]
    result = measurement.run(names or partition, {"dagster_run_id": context.run.run_id})
    context.log.info(result.text)
    if result.outcome is Outcome.ERROR:
        raise Failure(result.text, metadata=_metadata(result))
    return result


def _metadata(result: MeasurementResult) -> Mapping[str, MetadataValue[Any]]:
    summary = result.as_json()
    values: dict[str, MetadataValue[Any]] = {
        "outcome": MetadataValue.text(summary["outcome"]),
        "datasets": MetadataValue.json(summary["datasets"]),
        "anomalies": MetadataValue.int(summary["anomalies"]),
        "summary": MetadataValue.text(result.text),
    }
    if "dashboard" in summary:
        values["dashboard"] = MetadataValue.url(summary["dashboard"])
    return values


def _results(result: MeasurementResult, key: AssetKey) -> Iterable[AssetCheckResult]:
    """Yield the results of the asset checks. Warnings have severity WARN, so they do not block assets."""
    for name, cause in _CHECK_CAUSES.items():
        outcome = result.outcome_by(cause)
        is_warning = outcome is Outcome.WARNING
        yield AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=outcome is Outcome.PASSED,
            severity=AssetCheckSeverity.WARN if is_warning else AssetCheckSeverity.ERROR,
            description=None if outcome is Outcome.PASSED else result.text,
            metadata={**_metadata(result), "outcome": MetadataValue.text(str(outcome))},
        )
