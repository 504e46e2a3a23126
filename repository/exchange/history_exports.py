"""Exports of stored metrics and verdicts: CSV, Parquet, Prometheus text, OpenLineage events.

CSV and Parquet files are written page by page. The Prometheus text holds the newest metrics. An
OpenLineage event has data quality facets and is built by hand from the specification
(https://openlineage.io/spec/2-0-2/OpenLineage.json and the facets DataQualityMetricsInputDatasetFacet
1-0-3 and DataQualityAssertionsDatasetFacet 1-1-0). JSON cannot represent numbers that are not
finite, so they are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from uuid import NAMESPACE_URL, uuid5

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import HistoryError, RepositoryError, UnknownNameError
from tidegauge.analyzers.core.filesystems import output_file
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.facts import read_facts
from tidegauge.repository.store.frames import spreadsheet
from tidegauge.repository.store.queries import MetricQuery, dataset_id, partition_id

if TYPE_CHECKING:
    import pandas as pd
    from prometheus_client.core import Metric as Family

    from tidegauge.repository.repository import Repository


def write_csv(pages: Iterator[pd.DataFrame], target: TextIO) -> int:
    """Write pages of metrics as CSV and return the number of rows.

    Text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    rows = 0
    for number, page in enumerate(pages):
        spreadsheet(page).to_csv(target, index=False, header=number == 0)
        rows += len(page)
    return rows


def csv_file(pages: Iterator[pd.DataFrame], file: Path) -> int:
    """Write pages of metrics as a CSV file and return the number of rows."""
    with output_file(file) as partial, partial.open("w", encoding="utf-8", newline="") as target:
        return write_csv(pages, target)


def parquet_file(pages: Iterator[pd.DataFrame], file: Path) -> int:
    """Write pages of metrics as one Parquet file and return the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("dataset", "segment", "partition")),
            ("time", pa.timestamp("us", tz="UTC")),
            *((name, pa.string()) for name in ("entity", "name", "instance")),
            *((name, pa.float64()) for name in ("value", "weight")),
            *((name, pa.string()) for name in ("status", "error")),
            *((name, pa.int64()) for name in ("version", "run_id")),
            ("analyzed_at", pa.timestamp("us", tz="UTC")),
            *((name, pa.string()) for name in ("analyzer", "where")),
        ]
    )
    rows = 0
    with (
        output_file(file) as partial,
        pq.ParquetWriter(partial, schema, compression="zstd") as writer,
    ):
        for page in pages:
            writer.write_table(pa.Table.from_pandas(page, schema=schema, preserve_index=False))
            rows += len(page)
    return rows


_PROMETHEUS_LABELS = ("dataset", "segment", "name", "instance", "analyzer", "partition")


def prometheus_text(repository: Repository, datasets: Sequence[str] | None = None) -> str:
    """Return gauges: newest value by series; newest partition time and open anomalies by dataset.

    Parameters
    ----------
    repository : Repository
    datasets : sequence of str, optional
        Default: all datasets.

    Raises
    ------
    RepositoryError
        If ``prometheus-client`` is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector
    except ImportError as error:
        msg = "Prometheus' text needs a library: pip install 'tidegauge[prometheus]'"
        raise RepositoryError(msg) from error
    names = repository.datasets(retired=False) if datasets is None else list(datasets)

    class Newest(Collector):
        def collect(self) -> Iterator[Family]:
            return _families(repository, names)

    registry = CollectorRegistry()
    registry.register(Newest())
    return generate_latest(registry).decode()


def _families(repository: Repository, datasets: Sequence[str]) -> Iterator[Family]:
    from prometheus_client.core import GaugeMetricFamily

    values = GaugeMetricFamily(
        "tidegauge_metric", "Newest value of a series.", labels=_PROMETHEUS_LABELS
    )
    times = GaugeMetricFamily(
        "tidegauge_newest_partition_timestamp_seconds",
        "Time of the newest measured partition.",
        labels=("dataset",),
    )
    anomalies = GaugeMetricFamily(
        "tidegauge_open_anomalies", "Number of open anomalies.", labels=("dataset",)
    )
    for dataset in datasets:
        frame = repository.latest(dataset)
        for row in frame[~frame["status"].isin(["failed", "empty"])].to_dict("records"):
            values.add_metric([row[label] for label in _PROMETHEUS_LABELS], row["value"])
        moments = [moment for moment in frame["time"] if isinstance(moment, datetime)]
        valid = [moment for moment in moments if moment == moment]  # noqa: PLR0124 - drops NaT
        if valid:
            times.add_metric([dataset], max(valid).timestamp())
        anomalies.add_metric([dataset], float(len(repository.anomalies(dataset, status="open"))))
    yield from (values, times, anomalies)


PRODUCER_URI = "urn:tidegauge"
_SPEC_URL = "https://openlineage.io/spec"
_COLUMN_FACTS = {
    "CountDistinct": "distinctCount",
    "ApproxCountDistinct": "distinctCount",
    "Sum": "sum",
    "Minimum": "min",
    "Maximum": "max",
}
_INTEGER_FACTS = frozenset({"distinctCount"})


def openlineage_event(
    repository: Repository, dataset: str, partition: str | None = None, namespace: str = "tidegauge"
) -> dict[str, Any]:
    """Return the OpenLineage event of the run that measured a partition last, as JSON data.

    Parameters
    ----------
    repository : Repository
    dataset : str
    partition : str, optional
        Default: the newest partition.
    namespace : str
        The namespace of the job and the dataset, such as ``hive://metastore:9083``.

    Returns
    -------
    dict
        The event has the partition's metrics without a filter, an assertion for each scored series,
        which fails if there is an open anomaly, and an assertion for each rule and constraint in
        the newest verdicts.
    """
    if partition is None:
        ordered = repository.latest(dataset, segment="").sort_values(["time", "partition"])
        if ordered.empty:
            msg = f"no metrics of the whole dataset {dataset!r} yet"
            raise HistoryError(msg)
        partition = str(ordered["partition"].iloc[-1])
    metrics, time = _partition_metrics(repository, dataset, partition)
    source, measured_at = _source_and_time(repository, dataset, metrics)
    facets = {
        "dataQualityMetrics": _facet(
            "DataQualityMetricsInputDatasetFacet", "1-0-3", _quality(metrics)
        ),
        **assertions_facet(
            [
                *_assertions(repository, dataset, partition, time),
                *_verdicts(repository, dataset, partition),
            ]
        ),
    }
    run = uuid5(NAMESPACE_URL, f"{repository.database.name}/{dataset}/{partition}/{measured_at}")
    return {
        "eventType": "COMPLETE",
        "eventTime": measured_at,
        "producer": PRODUCER_URI,
        "schemaURL": f"{_SPEC_URL}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(run)},
        "job": {"namespace": namespace, "name": f"tidegauge.{dataset}"},
        "inputs": [{"namespace": namespace, "name": source or dataset, "inputFacets": facets}],
        "outputs": [],
    }


def assertions_facet(assertions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data quality assertions facet of a dataset, under its key among facets."""
    body = {"assertions": list(assertions)}
    return {"dataQualityAssertions": _facet("DataQualityAssertionsDatasetFacet", "1-1-0", body)}


def _facet(name: str, version: str, body: Mapping[str, Any]) -> dict[str, Any]:
    url = f"{_SPEC_URL}/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER_URI, "_schemaURL": url, **body}


def _partition_metrics(
    repository: Repository, dataset: str, partition: str
) -> tuple[pd.DataFrame, datetime | None]:
    """Return a partition's finite metrics without a filter, and its time."""
    with repository.database.read() as connection:
        number = partition_id(connection, dataset, partition)
        facts = read_facts(connection, dataset, MetricQuery(segment="", where=""), None, [number])
        time = connection.execute(sa.select(s.partition.c.time).where(s.partition.c.id == number))
        moment = time.scalar()
    frame = facts.frame()
    return frame[frame["status"] == "finite"], moment


def _source_and_time(
    repository: Repository, dataset: str, metrics: pd.DataFrame
) -> tuple[str | None, str]:
    with repository.database.read() as connection:
        in_dataset = s.dataset.c.id == dataset_id(connection, dataset)
        source = connection.execute(sa.select(s.dataset.c.source).where(in_dataset)).scalar()
    moments = [moment for moment in metrics["analyzed_at"] if isinstance(moment, datetime)]
    when = (max(moments) if moments else datetime.now(UTC)).isoformat()
    return source, when


def _quality(metrics: pd.DataFrame) -> dict[str, Any]:
    facet: dict[str, Any] = {"columnMetrics": {}}
    for row in metrics.to_dict("records"):
        value, kind = row["value"], _kind(row["analyzer"])
        if kind == "Size":
            facet["rowCount"] = int(value)
        if row["entity"] != "Column" or not isfinite(value):
            continue
        column = facet["columnMetrics"].setdefault(row["instance"], {})
        if kind in _COLUMN_FACTS and row["name"] == kind:
            fact = _COLUMN_FACTS[kind]
            column[fact] = int(value) if fact in _INTEGER_FACTS else value
        elif kind == "Completeness" and isfinite(row["weight"]):
            column["nullCount"] = round((1 - value) * row["weight"])
        elif kind in {"ApproxQuantile", "ApproxQuantiles", "ExactQuantile", "ReqQuantile"}:
            quantile = row["name"].rpartition("-")[2] if "-" in row["name"] else None
            quantile = quantile or _quantile(row["analyzer"])
            if quantile is not None:
                column.setdefault("quantiles", {})[quantile] = value
    return facet


def _kind(analyzer: str) -> str:
    return analyzer.partition("(")[0]


def _quantile(analyzer: str) -> str | None:
    try:
        quantile = getattr(ANALYZERS.parse(analyzer), "quantile", None)
    except UnknownNameError:
        return None
    return None if quantile is None else str(quantile)


_SCORE_KEY = ("name", "instance", "analyzer", "detector")


def _assertions(
    repository: Repository, dataset: str, partition: str, time: datetime | None
) -> list[dict[str, Any]]:
    scores = repository.scores(dataset, segment="", since=time, until=time)
    anomalies = repository.anomalies(dataset, status="open", since=time, until=time)
    anomalies = anomalies[anomalies["segment"] == ""]
    open_ = {
        tuple(row[c] for c in _SCORE_KEY): row
        for row in anomalies[anomalies["partition"] == partition].to_dict("records")
    }
    assertions = []
    for row in scores[scores["partition"] == partition].to_dict("records"):
        anomaly = open_.get(tuple(row[c] for c in _SCORE_KEY))
        assertion: dict[str, Any] = {
            "assertion": "usual",
            "name": f"{row['name']}({row['instance']})",
            "success": anomaly is None,
        }
        if row["instance"] != "*":
            assertion["column"] = row["instance"]
        if isfinite(row["lower"]) and isfinite(row["upper"]):
            assertion["expected"] = f"[{row['lower']:.6g}, {row['upper']:.6g}]"
        if anomaly is not None:
            assertion["actual"] = f"{anomaly['value']:.6g}"
            assertion["severity"] = "error" if anomaly["severity"] == "error" else "warn"
            assertion["description"] = anomaly["explanation"]
        assertions.append(assertion)
    return assertions


def _verdicts(repository: Repository, dataset: str, partition: str) -> Iterator[dict[str, Any]]:
    """Yield an assertion for each outcome in the newest verdicts on a partition."""
    verdicts = repository.verdicts(dataset, partition=partition).drop_duplicates("name")
    for row in verdicts.to_dict("records"):
        try:
            verdict = json.loads(row["result"])
            outcomes, messages = dict(verdict["outcomes"]), dict(verdict["errorMessages"])
            warnings = dict(verdict.get("warnings", ()))
        except (ValueError, KeyError, TypeError):  # of another release
            continue
        for name, passed in (outcomes | dict.fromkeys(warnings, False)).items():
            assertion = {"assertion": row["name"], "name": name, "success": passed}
            if name in messages:
                assertion |= {"severity": "error", "description": messages[name]}
            elif name in warnings:
                assertion |= {"severity": "warn", "description": warnings[name]}
            yield assertion
