"""Entry points for consistency: `tg.consistency.run`, and lag estimation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.analyzers.runs.recording import recording_failed_start
from tidegauge.consistency import lag_estimation as lag
from tidegauge.consistency import pipeline
from tidegauge.consistency.compare.comparison import is_of_log
from tidegauge.consistency.configuration import Configuration
from tidegauge.consistency.log import flattening
from tidegauge.files.consistency_files import load_configuration
from tidegauge.repository.repository import as_repository
from tidegauge.spark.session import spark_session

__all__ = ["compact", "estimate_lag", "load_configuration", "run"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.consistency.lag_estimation import LagEstimates
    from tidegauge.consistency.log.flattening import Compacted
    from tidegauge.consistency.pipeline import ConsistencyRun
    from tidegauge.repository.repository import Repository


def run(
    configuration: Configuration | str | Path,
    *,
    repository: Repository | str,
    spark: SparkSession | None = None,
    until: str | None = None,
    since: str | None = None,
    recompute: bool = False,
    dataset: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> ConsistencyRun:
    """Flatten, backfill, compare and measure days that are new or have a changed log or backfill.

    The configuration's monitors detect anomalies. By default they detect unusual rates and numbers of
    rows. An anomaly is always reported if more than half of the rows are on one side only, or if more
    than 5% of a day's queries could not be read. Daily counts of read queries are stored in the dataset
    ``<dataset>.log``. Every step completes whole days, and the next run finishes days that a killed run
    did not finish. If the backfill is a table, a day is compared again when the table's files of that
    day change. Inputs of a query or a callable are not tracked, so set ``recompute`` when they change.

    Parameters
    ----------
    configuration : Configuration, str or Path
        A configuration, or the path of its file.
    repository : Repository or str
        A repository, or its URL.
    spark : SparkSession, optional
        By default the active session, or a local session with Hive.
    until : str, optional
        The last day, as ``2023-01-05``; by default yesterday in UTC.
    since : str, optional
        The first day (default: ``since`` of the configuration, or the first day of the log).
    recompute : bool
        Compare and measure all days again.
    dataset : str, optional
        Dataset name in the repository; by default the configuration's dataset.
    tags : mapping, optional
        Tags of the runs, in addition to ``sample_percent`` and ``query_source``.

    Returns
    -------
    ConsistencyRun
        The compared days, the reports and the notices.

    Raises
    ------
    PreconditionError
        If the sides are not comparable; the message lists all problems.
    NoSuchTableError, SuiteError, SourceError
        As for `flatten`; if ``since`` or ``until`` is not a day; or if an existing table with the same
        name has other columns.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> backfill = tg.consistency.QueryBackfill("SELECT user, ts, 3 AS clicks FROM logged_keys")
    >>> search = tg.consistency.Configuration("shop", "search", ("user",), backfill)
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     done = tg.consistency.run(search, repository=repo, spark=spark, until="2023-01-05")
    ...     repo.metrics("shop.search", "Consistency.mismatch")["value"].tolist()
    [0.0]
    """
    from tidegauge.repository.detectors.monitor import Monitor

    repository = as_repository(repository)
    settings = as_configuration(configuration)
    settings = settings if dataset is None else replace(settings, dataset=dataset)
    selection = f"{since or ''}..{until or ''}" if since or until else "all" if recompute else "new"
    spec = RunSpec(settings.dataset, None, (), selection=selection, tags=dict(tags or {}))
    with recording_failed_start(repository.store, spec):
        done = pipeline.run(
            spark or spark_session(), settings, repository,
            until=until, since=since, recompute=recompute, tags=tags,
        )  # fmt: skip
    of_log = [Monitor.from_dict(monitor) for monitor in settings.watched if is_of_log(monitor)]
    anomalous: dict[str, tuple[str, ...]] = {}
    datasets = repository.datasets()
    # Detect even without new metrics, because the previous run may have been killed after recording.
    for name, monitors in ((settings.dataset, None), (done.log_dataset, of_log)):
        if name in datasets:
            previous_ids = repository.anomalies(name)["id"]
            anomalies = repository.detect(name, monitors)
            anomalous[name] = tuple(anomalies.loc[~anomalies["id"].isin(previous_ids), "partition"])
    return replace(done, anomalies=anomalous)


def compact(
    namespace: str,
    *,
    repository: Repository | str,
    spark: SparkSession | None = None,
    now: datetime | None = None,
    dry_run: bool = False,
) -> Compacted:
    """Join the small files that clients wrote to a query log on past days.

    No query changes, so days are not flattened or compared again. Runs of the same joins on the same
    repository wait. Another reader of the log can briefly see queries twice. The next compaction or the
    next run finishes a killed compaction.

    Parameters
    ----------
    namespace : str
        The database of the query log, as in the configuration.
    repository : Repository or str
        The repository of the runs, or its URL.
    spark : SparkSession, optional
        By default the active session, or a local session with Hive.
    now : datetime, optional
        Days before this time's UTC day are compacted (default: now).
    dry_run : bool
        Only count the files.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    OSError
        If files cannot be read or written.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop", clients=2)  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     print(tg.consistency.compact("shop", repository=repo, spark=spark))
    `shop`.`query_logs`: joined 2 files of 1 partition into 1
    """
    return flattening.compact(
        spark or spark_session(), namespace, as_repository(repository), now, dry_run=dry_run
    )


def estimate_lag(
    configuration: Configuration | str | Path,
    *,
    spark: SparkSession | None = None,
    until: str | None = None,
    since: str | None = None,
    longest_ms: int = 2 * 3_600_000,
    step_ms: int = 300_000,
    rows: int = 20_000,
    seed: int = 0,
    group_bys: Collection[str] | None = None,
) -> LagEstimates:
    """Estimate the write lag of each group-by whose backfill is a query or a callable.

    Each backfill is queried once for the features at all candidate lags before each logged query.
    The estimate is the lag with the fewest differing values. Nothing is recorded.

    Parameters
    ----------
    configuration : Configuration, str or Path
        A configuration, or the path of its file. Its configured lags are also tried.
    spark : SparkSession, optional
        By default the active session, or a local session with Hive.
    until : str, optional
        The last day, as ``2023-01-05``; by default yesterday in UTC.
    since : str, optional
        The first day (default: ``since`` of the configuration, or the first day of the log).
    longest_ms, step_ms : int
        Longest lag to try, and the step between lags, in milliseconds.
    rows : int
        Approximate limit of compared queries: all queries of a fixed sample of keys.
    seed : int
        Random seed of the bootstrap.
    group_bys : collection of str, optional
        Group-bys to estimate; by default all whose backfill is not a table.

    Returns
    -------
    LagEstimates
        The estimates; ``settings()`` returns them in the form of the configuration.

    Raises
    ------
    SuiteError
        If a group-by's backfill is a table, or there are no lags to try.
    PreconditionError
        If the sides are not comparable; the message lists all problems.
    NoSuchTableError, SourceError
        As for `flatten`, or if nothing was logged.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> backfill = tg.consistency.QueryBackfill("SELECT user, ts, 3 AS clicks FROM logged_keys")
    >>> search = tg.consistency.Configuration("shop", "search", ("user",), backfill)
    >>> times = {"longest_ms": 120_000, "step_ms": 60_000, "until": "2023-01-05"}
    >>> found = tg.consistency.estimate_lag(search, spark=spark, **times)  # doctest: +SKIP
    >>> found.curve()["share"].tolist()  # each lag gives 3, as served  # doctest: +SKIP
    [0.0, 0.0, 0.0]
    """
    return lag.estimate_lag(
        spark or spark_session(), as_configuration(configuration),
        until=until, since=since, longest_ms=longest_ms, step_ms=step_ms,
        rows=rows, seed=seed, group_bys=group_bys,
    )  # fmt: skip


def as_configuration(configuration: Configuration | str | Path) -> Configuration:
    """Return a configuration, or load it from the file at a path."""
    return (
        configuration
        if isinstance(configuration, Configuration)
        else load_configuration(configuration)
    )
