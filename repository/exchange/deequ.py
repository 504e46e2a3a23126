"""Import from Deequ and PyDeequ: the JSON file of ``FileSystemMetricsRepository``.

Every result becomes the partition of its date, and every metric a metric of the corresponding
analyzer, if there is one. The file has no states, so imported metrics can be compared and monitored
but not
merged. Deequ does not write the filter of some analyzers; two entries that differ only by it are
ambiguous and are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite, isinf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import MetricRuntimeError, SourceError, TidegaugeError
from tidegauge.analyzers.core.metric import Entity, Failure, Metric, Success
from tidegauge.analyzers.core.partitions import NULL, Partition
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.measures.bins import Bin, BinnedDistribution, BucketDistribution
from tidegauge.analyzers.measures.histogram import (
    Distribution,
    DistributionValue,
    HistogramOfSums,
    SumDistribution,
)
from tidegauge.analyzers.runs.ledger import Change, MeasuredPartition, Measurement, RunSpec
from tidegauge.analyzers.runs.recording import recording

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

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
        weight = sum(v.absolute for v in value.values.values()) + value.tail_count
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
