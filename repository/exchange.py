"""Exports of stored metrics and verdicts, and the import of a history from Deequ.

CSV and Parquet files are written page by page. The Prometheus text holds the newest metrics. An
OpenLineage event has data quality facets and is built by hand from the specification
(https://openlineage.io/spec/2-0-2/OpenLineage.json and the facets DataQualityMetricsInputDatasetFacet
1-0-3 and DataQualityAssertionsDatasetFacet 1-1-0). JSON cannot represent numbers that are not
finite, so they are left out.

`import_deequ` reads the JSON file of Deequ's and PyDeequ's ``FileSystemMetricsRepository``. Every result
becomes the partition of its date, and every metric a metric of the corresponding analyzer, if there is
one. The file has no states, so imported metrics can be compared and monitored but not merged. Deequ
does not write the filter of some analyzers; two entries that differ only by it are ambiguous and are
left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite, isinf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from uuid import NAMESPACE_URL, uuid5

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    HistoryError,
    MetricRuntimeError,
    RepositoryError,
    SourceError,
    TidegaugeError,
    UnknownNameError,
)
from tidegauge.analyzers.core.filesystems import output_file
from tidegauge.analyzers.core.metric import Entity, Failure, Metric, Success
from tidegauge.analyzers.core.partitions import NULL, Partition
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.measures.histogram import (
    Bin,
    BinnedDistribution,
    BucketDistribution,
    Distribution,
    DistributionValue,
    HistogramOfSums,
    SumDistribution,
)
from tidegauge.analyzers.runs.ledger import Change, MeasuredPartition, Measurement, RunSpec
from tidegauge.analyzers.runs.recording import recording
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
            ("analyzer", pa.string()),
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


DATE_KEY = "dataset_date"
"""The partition column for Deequ's ``dataSetDate``."""

_OPTION_NAMES = {
    "firstColumn": "first",
    "secondColumn": "second",
    "relativeError": "relative_error",
    "maxDetailBins": "max_detail_bins",
    "binCount": "bin_count",
    "customEdges": "custom_edges",
    "includeOverflowBins": "include_overflow_bins",
    "sketchSize": "sketch_size",
    "numberOfBuckets": "number_of_buckets",
}
_FIRST_VIEW = re.compile(r"\bFROM\s+([^\W\d]\w*)\b(?!\.)", re.IGNORECASE)
"""The first view that a query reads: in Deequ, the view of the data."""
_NULL_BEHAVIORS = {"Ignore": "ignore", "EmptyString": "empty", "Fail": "fail"}
_MIN_MILLISECONDS = 100_000_000_000  # in milliseconds that is 1973, in seconds the year 5138
_NO_STATE = Failure(MetricRuntimeError("imported from Deequ, which keeps no states"))


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes
    ----------
    dataset : str
    results, metrics : int
        Number read from the file.
    new : int
        Number of partitions that were new or had changed.
    skipped : tuple of str
        Metrics that were not imported, each with the reason.
    """

    dataset: str
    results: int
    metrics: int
    new: int
    skipped: tuple[str, ...] = field(default=())


def import_deequ(
    repository: Repository,
    file: str | Path,
    dataset: str,
    segment_tags: Sequence[str] = (),
    *,
    key: str | Sequence[str] = DATE_KEY,
    format: str | None = None,
) -> Imported:
    """Import a Deequ metrics file into a repository.

    To continue the history with `tidegauge.analyze`, give the partition columns of the table and
    their date format: ``key="ds", format="%Y-%m-%d"``.

    Parameters
    ----------
    repository : Repository
        Repository to write to.
    file : str or Path
        Deequ metrics file.
    dataset : str
        Dataset to which the history is added. Importing the same file again writes nothing.
    segment_tags : sequence of str
        Tags that distinguish results of one date. Each of their values is a segment. All other tags
        become tags of the run.
    key : str or sequence of str
        Partition columns for Deequ's ``dataSetDate``.
    format : str, optional
        Format of the date in UTC, as for `strftime` (default: ``2026-01-31T00:00:00.000Z``). Values of
        several columns are separated by one space: ``key=["ds", "hr"], format="%Y-%m-%d %H"``.

    Raises
    ------
    SourceError
        If the file is not a Deequ metrics repository, if ``format`` does not give a value for each
        key, or if no segment tag distinguishes two results of one date.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    dates = _Dates(keys, format)
    results = [_Result(entry, tuple(segment_tags), dates) for entry in _read(Path(file))]
    result_by_partition: dict[str, _Result] = {}
    for result in results:
        first = result_by_partition.setdefault(result.partition.name, result)
        if first is not result:
            tags = sorted(k for k in result.tags if result.tags[k] != first.tags.get(k))
            hint = f"; use some of these tags: {', '.join(tags)}" if tags else ""
            if result.time != first.time:
                hint = f"; {first.time} is the same date in format={format!r}"
            msg = f"{file} has two results of {result.time} that no segment tag distinguishes{hint}"
            raise SourceError(msg)
    skipped: list[str] = []
    spec = RunSpec(dataset, None, (*keys, *segment_tags), selection=f"import of {Path(file).name}")
    new = metrics = 0
    for shared, group in _by_tags(results):
        with recording(repository.store, replace(spec, tags=dict(shared))) as run:
            partitions = [result.measured(skipped) for result in group]
            decisions = run.commit(partitions)
        new += sum(decision.change is not Change.UNCHANGED for decision in decisions)
        metrics += sum(len(measured.measurements) for measured in partitions)
    return Imported(dataset, len(results), metrics, new, tuple(dict.fromkeys(skipped)))


def _read(file: Path) -> list[Mapping[str, Any]]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read {file}: {error}"
        raise SourceError(msg) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        msg = f"{file} is not JSON: {error}"
        raise SourceError(msg) from error
    except ValueError as error:  # Python reads integers of up to 4300 digits
        msg = f"cannot read {file}: it has a number of more than 4300 digits"
        raise SourceError(msg) from error
    if not isinstance(entries, list) or not all(_is_result(entry) for entry in entries):
        msg = (
            f"{file} is not a metrics repository of Deequ: it is a list of objects with resultKey and"
            " analyzerContext.metricMap"
        )
        raise SourceError(msg)
    return entries


def _is_result(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("resultKey"), dict)
        and isinstance(entry["resultKey"].get("dataSetDate"), int)
        and isinstance(entry["resultKey"].get("tags") or {}, dict)
        and isinstance(entry.get("analyzerContext"), dict)
        and isinstance(entry["analyzerContext"].get("metricMap"), list)
        and all(
            isinstance(m, dict)
            and isinstance(m.get("analyzer"), dict)
            and isinstance(m.get("metric"), dict)
            for m in entry["analyzerContext"]["metricMap"]
        )
    )


def _by_tags(
    results: Sequence[_Result],
) -> Iterator[tuple[tuple[tuple[str, str], ...], list[_Result]]]:
    """Yield groups of results with the same tags, in order of their dates."""
    groups: dict[tuple[tuple[str, str], ...], list[_Result]] = {}
    for result in sorted(results, key=lambda result: result.partition.name):
        groups.setdefault(tuple(sorted(result.tags.items())), []).append(result)
    yield from groups.items()


@dataclass(frozen=True)
class _Dates:
    """The partition columns of a date, and the format of their values."""

    keys: tuple[str, ...]
    format: str | None

    def values(self, time: datetime) -> tuple[str, ...]:
        """Return a date's values of the columns."""
        if self.format is None:
            text = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        else:
            text = time.strftime(self.format)
        values = tuple(text.split(" "))
        if len(values) != len(self.keys) or not all(values):
            msg = (
                f"format={self.format!r} writes {time} as {text!r}: a value for each of"
                f" {', '.join(self.keys)}, separated by one space, is needed"
            )
            raise SourceError(msg)
        return values


_OTHER_FORMS = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors raised by entries that do not have Deequ's format."""


class _Result:
    """One entry of the file."""

    def __init__(
        self, entry: Mapping[str, Any], segment_tags: tuple[str, ...], dates: _Dates
    ) -> None:
        key = entry["resultKey"]
        date = key["dataSetDate"]
        try:
            seconds = date if abs(date) < _MIN_MILLISECONDS else date / 1000
            self.time = datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, ValueError, OSError) as error:
            msg = f"dataSetDate {date} is not a time in seconds or milliseconds since 1970"
            raise SourceError(msg) from error
        tags = {str(k): str(v) for k, v in (key.get("tags") or {}).items()}
        values = tuple(tags.get(name, NULL) for name in segment_tags)
        self.tags = {k: v for k, v in tags.items() if k not in segment_tags}
        self.partition = Partition(
            (*dates.keys, *segment_tags), (*dates.values(self.time), *values)
        )
        self.segment = Partition(segment_tags, values).name
        self.entries = entry["analyzerContext"]["metricMap"]

    def measured(self, skipped: list[str]) -> MeasuredPartition:
        """Return the entry as a measured partition; append the omitted metrics to ``skipped``."""
        measurement_by_key: dict[str, Measurement | None] = {}
        rows = 0
        for entry in self.entries:
            name = str(entry["analyzer"].get("analyzerName"))
            try:
                analyzer = analyzer_from_deequ(entry["analyzer"])
                metric = _metric(analyzer, entry["metric"])
            except (TidegaugeError, *_OTHER_FORMS) as error:
                reason = (
                    error if isinstance(error, TidegaugeError) else f"unlike Deequ's: {error!r}"
                )
                skipped.append(f"{name}: {reason}")
                continue
            key = key_of(analyzer.canonical())
            if key in measurement_by_key:
                measurement_by_key[key] = None
                skipped.append(f"{analyzer!r}: ambiguous duplicate; Deequ did not write the filter")
                continue
            measurement_by_key[key] = Measurement(analyzer, _NO_STATE, metric)
            if name == "Size" and analyzer.where is None and isfinite(metric.value):
                rows = int(metric.value)
        measurements = tuple(
            _weighted(m, rows) for m in measurement_by_key.values() if m is not None
        )
        content = sorted(canonical_json([e["analyzer"], e["metric"]]) for e in self.entries)
        return MeasuredPartition.from_measurements(
            self.partition,
            measurements,
            time=self.time,
            segment=self.segment,
            fingerprint=f"deequ/1:{key_of(canonical_json(content))}",
            rows=rows,
        )


def _weighted(m: Measurement, rows: int) -> Measurement:
    """Set the number of rows as the weight of an unfiltered metric, if the file gives it."""
    if m.metric.weight is not None or m.analyzer.where is not None or not rows:
        return m
    return replace(m, metric=replace(m.metric, weight=float(rows)))


def analyzer_from_deequ(entry: Mapping[str, Any]) -> AnyAnalyzer:
    """Return the analyzer for Deequ's serialized analyzer.

    Raises
    ------
    TidegaugeError
        If tidegauge has no corresponding analyzer.

    Examples
    --------
    >>> analyzer_from_deequ({"analyzerName": "Correlation", "firstColumn": "a", "secondColumn": "b"})
    Correlation('a', 'b')
    """
    options = dict(entry)
    name = str(options.pop("analyzerName"))
    function = options.pop("aggregateFunction", "count")
    if name == "Histogram" and function == "sum":
        name, options["summed"] = "HistogramOfSums", options.pop("aggregateColumn")
    elif function != "count":
        msg = f"{name} with aggregateFunction {function!r} has no counterpart here"
        raise SourceError(msg)
    options.pop("shrinkingFactor", None)
    behavior = (options.pop("analyzerOptions", None) or {}).get("nullBehavior", "Ignore")
    if name == "Compliance":
        options.pop("columns", None)
    if name == "CustomSql" and (view := _FIRST_VIEW.search(options["expression"])):
        options["view"] = view[1]
    if name in {"MinLength", "MaxLength"}:
        options["null_behavior"] = _NULL_BEHAVIORS[behavior]
    if name == "ApproxQuantiles":
        options["quantiles"] = [float(q) for q in options["quantiles"].split(",")]
    edges = options.get("customEdges")
    if edges and any(map(isinf, edges)):
        options["customEdges"] = [edge for edge in edges if not isinf(edge)]
        options["includeOverflowBins"] = True
    return ANALYZERS.build(name, {_OPTION_NAMES.get(k, k): v for k, v in options.items()})


def _metric(analyzer: AnyAnalyzer, stored: Mapping[str, Any]) -> Metric[Any]:
    """Return the metric under tidegauge's names; Deequ leaves some of its metrics unnamed."""
    kind, value = stored["metricName"], stored["value"]
    weight: float | None = None
    if kind == "HistogramMetric" and isinstance(analyzer, HistogramOfSums):
        value = _distribution(SumDistribution, value)
    elif kind == "HistogramMetric":
        value = _distribution(Distribution, value)
        weight = sum(v.absolute for v in value.values.values()) + value.tail_count  # noqa: PD011 (a mapping)
    elif kind == "HistogramBinnedMetric":
        value = _bins(value)
    elif kind == "KLLMetric":
        value = _buckets(value)
    elif kind == "KeyedDoubleMetric":
        value = {str(k): float(v) for k, v in value.items()}
    elif kind == "DoubleMetric":
        value = float(value)
    else:
        raise ValueError(kind)
    entity = Entity(analyzer.entity)
    return Metric(entity, analyzer.instance, analyzer.name, Success(value), weight)


def _distribution(kind: type[Distribution], value: Mapping[str, Any]) -> Distribution:
    values = {
        str(k): DistributionValue(int(v["absolute"]), float(v["ratio"]))
        for k, v in value["values"].items()
    }
    return kind(values, int(value["numberOfBins"]), int(value.get("tailCount", 0)))


def _bins(value: Mapping[str, Any]) -> BinnedDistribution:
    bins, nulls = [], int(value.get("nullCount", 0))
    for b in value["bins"]:
        low, high = float(b["binStart"]), float(b["binEnd"])
        if isinf(low) and low < 0 and isinf(high):  # older Deequ wrote nulls as such a bin
            nulls += int(b["frequency"])
        else:
            bins.append(Bin(low, high, float(b["frequency"]), float(b["ratio"])))
    return BinnedDistribution(tuple(bins), nulls)


def _buckets(value: Mapping[str, Any]) -> BucketDistribution:
    counts = [float(b["count"]) for b in value["buckets"]]
    total = sum(counts) or 1.0
    bounds = ((float(b["lowValue"]), float(b["highValue"])) for b in value["buckets"])
    bins = (Bin(*ends, n, n / total) for ends, n in zip(bounds, counts, strict=True))
    return BucketDistribution(tuple(bins), rank_error=nan)
