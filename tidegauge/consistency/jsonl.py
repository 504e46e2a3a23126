"""Export and import of consistency metrics as JSON Lines, for serving from a key-value store.

A line is one day of a join: ``{"key": "<join>", "metrics": {...}, "ts": <milliseconds>}``. ``ts`` is the
start of the day in UTC. A line has a summary without states, which can be viewed but not
merged::

    {"dataset": "<namespace>.<join>", "partitions": ["ds=2023-01-05/hr_minute=07-00", ...],
     "times": [<milliseconds>, ...],
     "segments": {"": {"<group_by>": {"rows": {"row_missing": [...]},
                                      "features": {"<feature>": {"mismatch": [...], "delta":
                                      [...]}}}}}}

Lists have one entry for each partition: a number, or for a distribution a list of its minimum, p5, p25,
p50, p75, p95 and maximum; null if no number is finite. The weight of a feature's metric is its ``total``.
Other weights, and weights of row metrics, are in the group-by's ``weights``, in the form of its metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError, SourceError, TidegaugeError
from tidegauge.analyzers.core.filesystems import output_file
from tidegauge.analyzers.core.metric import Scale
from tidegauge.consistency.compare.distributions import ConsistencyTexts
from tidegauge.repository.distributions.drift import RECORDED_OF
from tidegauge.repository.distributions.stored import CATEGORICAL_KIND, NUMERIC_KIND
from tidegauge.repository.history.feature_consistency import (
    WEIGHT_METRIC,
    ConsistencyIndex,
    PartitionColumns,
    measures,
    moments,
    values,
)
from tidegauge.repository.store.consistency_series import OF_ROWS, PREFIX, QUANTILES
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.queries import Moment, Window
from tidegauge.repository.store.user_metrics import Record, write_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.repository import Repository


_PARTITIONS_PER_BATCH = 24
"""Partitions in a batch of days. A day with more partitions is read as a whole."""

Line = Mapping[str, Any]


def export_consistency(
    repository: Repository,
    dataset: str,
    target: TextIO,
    *,
    since: Moment = None,
    until: Moment = None,
) -> int:
    """Write the consistency metrics of a dataset as JSON Lines, one line for each day.

    Parameters
    ----------
    repository : Repository
        The repository to read.
    dataset : str
        Dataset name, such as ``<namespace>.<join>``.
    target : text file
        The file to write to.
    since, until : str, date or datetime, optional
        Inclusive bounds on the partition's time.

    Returns
    -------
    int
        Number of days written.

    Raises
    ------
    UnknownDatasetError
        If the dataset does not exist.
    HistoryError
        If the dataset has no consistency metrics, or partitions without a time.

    Examples
    --------
    >>> import sys, tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     rate = {"ds=2023-01-05": 0.25}
    ...     repo.record("shop.search", "Consistency.mismatch", rate, instance="clicks.n")
    ...     export_consistency(repo, "shop.search", sys.stdout)
    1
    {"key":"search","metrics":{"dataset":"shop.search","partitions":["ds=2023-01-05"],"times":[1672876800000],"segments":{"":{"clicks":{"rows":{},"features":{"n":{"mismatch":[0.25]}}}}}},"ts":1672876800000}
    1
    """
    count = 0
    for line in _read_lines(repository, dataset, Window.between(since, until)):
        # Serialize the whole line; iterative encoding is many times slower.
        serialized = json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        target.write(f"{serialized}\n")
        count += 1
    return count


def consistency_file(
    repository: Repository,
    dataset: str,
    file: str | Path,
    *,
    since: Moment = None,
    until: Moment = None,
) -> int:
    """Write consistency metrics to a JSON Lines file; see `export_consistency`.

    Parameters
    ----------
    repository : Repository
        The repository to read.
    dataset : str
        Dataset name, such as ``<namespace>.<join>``.
    file : str or Path
        Path of the file.
    since, until : str, date or datetime, optional
        Inclusive bounds on the partition's time.

    Raises
    ------
    DatabaseAccessError
        If the file is not writable.
    """
    with (
        output_file(Path(file)) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as target,
    ):
        return export_consistency(repository, dataset, target, since=since, until=until)


def _read_lines(repository: Repository, dataset: str, window: Window) -> Iterator[Line]:
    with repository.database.read() as connection:
        columns = moments(connection, dataset, window)
        first_index = measures(connection, dataset)
        if not first_index.subjects:
            msg = f"{dataset!r} has no consistency metrics"
            raise HistoryError(msg)
        if any(time != time for time in columns.times.tolist()):  # noqa: PLR0124 - NaN
            msg = f"{dataset!r} has partitions without a time, so they belong to no day"
            raise HistoryError(msg)
        indexes = [first_index] + [
            measures(connection, dataset, segment)
            for segment in first_index.segments
            if segment != first_index.segment
        ]
        for days in _batch_days(columns):
            batch_columns = _column_range(columns, range(days[0].start, days[-1].stop))
            values_by_segment = [
                [
                    values(
                        connection,
                        index,
                        batch_columns,
                        list(index.series),
                        range(len(index.subjects)),
                        weights=kind,
                    )
                    for kind in (False, True)
                ]
                for index in indexes
            ]
            for day in days:
                day_columns = _column_range(columns, day)
                in_batch = slice(day.start - days[0].start, day.stop - days[0].start)
                pairs = zip(indexes, values_by_segment, strict=True)
                metrics = {
                    "dataset": dataset,
                    "partitions": list(day_columns.labels),
                    "times": [round(1000 * time) for time in day_columns.times.tolist()],
                    "segments": {
                        index.segment: _summary(
                            index, numbers[..., in_batch], weights[..., in_batch]
                        )
                        for index, (numbers, weights) in pairs
                    },
                }
                begin = 1000 * _day(float(day_columns.times[0]))
                yield {"key": dataset.partition(".")[2] or dataset, "metrics": metrics, "ts": begin}


def _batch_days(partitions: PartitionColumns) -> Iterator[list[range]]:
    """Yield batches of days, each day as a range of columns."""
    days: list[range] = []
    for _, columns in groupby(
        range(len(partitions.times)), key=lambda n: _day(float(partitions.times[n]))
    ):
        day_columns = list(columns)
        days.append(range(day_columns[0], day_columns[-1] + 1))
        if days[-1].stop - days[0].start >= _PARTITIONS_PER_BATCH:
            yield days
            days = []
    if days:
        yield days


def _day(seconds: float) -> int:
    return int(seconds // 86400) * 86400


def _column_range(partitions: PartitionColumns, columns: range) -> PartitionColumns:
    """Return a contiguous range of columns."""
    start, end = columns.start, columns.stop
    mask = (partitions.column >= start) & (partitions.column < end)
    return PartitionColumns(
        partitions.partitions[mask],
        partitions.column[mask] - start,
        partitions.labels[start:end],
        partitions.times[start:end],
    )


def _summary(
    index: ConsistencyIndex, numbers: NDArray[np.float64], weights: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the metrics of each group-by, except metrics without a finite value."""
    plain, distributions = _split_distributions(list(index.series))
    row_of = {metric: n for n, metric in enumerate(index.series)}
    parts = {metric: [row_of[metric]] for metric in plain}
    parts |= {metric: [row_of[f"{metric}-{q}"] for q in QUANTILES] for metric in distributions}
    groups: dict[str, Any] = {}
    for m, subject in enumerate(index.subjects):
        metrics: dict[str, list[Any]] = {}
        weighed: dict[str, list[Any]] = {}
        for metric, rows in parts.items():
            lines = numbers[rows, m]
            if not np.isfinite(lines).any():
                continue
            entries = _none_unless_finite(lines).T.tolist()
            if metric in distributions:
                metrics[metric] = [None if set(entry) == {None} else entry for entry in entries]
            else:
                metrics[metric] = [entry for (entry,) in entries]
            weighed[metric] = _none_unless_finite(weights[rows[0], m]).tolist()
        group = groups.setdefault(subject.group_by, {"rows": {}, "features": {}})
        usual = default_weights(metrics, subject.feature, numbers.shape[-1])
        unusual = {metric: lines for metric, lines in weighed.items() if lines != usual}
        if subject.feature is None:
            group["rows"] = metrics
        elif metrics:
            group["features"][subject.feature] = metrics
        if unusual:
            group_weights = group.setdefault("weights", {"rows": {}, "features": {}})
            if subject.feature is None:
                group_weights["rows"] = unusual
            else:
                group_weights["features"][subject.feature] = unusual
    return groups


def default_weights(
    metrics: Mapping[str, Sequence[Any]], feature: str | None, partitions: int
) -> Sequence[Any]:
    """Return the weights of metrics that ``weights`` does not name: a feature's total, or None for rows."""
    nothing = [None] * partitions
    return nothing if feature is None else metrics.get(WEIGHT_METRIC, nothing)


def _none_unless_finite(numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers as objects, with None for numbers that are not finite."""
    result = numbers.astype(object)
    result[~np.isfinite(numbers)] = None
    return result


def _split_distributions(metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate scalar metrics from distributions, which have one series for each quantile.

    Examples
    --------
    >>> _split_distributions(["smape", *(f"delta-{q}" for q in QUANTILES), "odd-p50"])
    (['smape', 'odd-p50'], ['delta'])
    """
    names = set(metrics)
    bases = dict.fromkeys(metric.rpartition("-")[0] for metric in metrics if "-" in metric)
    complete = [base for base in bases if all(f"{base}-{q}" in names for q in QUANTILES)]
    parts = {f"{base}-{q}" for base in complete for q in QUANTILES}
    return [metric for metric in metrics if metric not in parts], complete


_RATE_METRICS = frozenset(
    {"mismatch", "missing", "extra", "both_null", "smape", "smape_mean", "row_unmatched"}
).union(ConsistencyTexts.metrics)
_SIGNED_METRICS = frozenset({"delta", "logged", "backfilled"})
_DISTANCE_METRICS = frozenset(RECORDED_OF[NUMERIC_KIND] + RECORDED_OF[CATEGORICAL_KIND])
_COUNT_METRICS = frozenset({"total", *OF_ROWS})
_NUMBERS_PER_COMMIT = 1_000_000
"""Numbers in a commit. A larger day is written as a whole."""

_Series = tuple[str, str, str]
"""Segment, instance and metric."""
_Numbers = tuple[dict[str, float], dict[str, float]]
"""Values and weights by partition."""


def import_consistency(repository: Repository, file: str | Path) -> list[str]:
    """Import exported consistency metrics into a repository; a repeated import writes nothing.

    Parameters
    ----------
    repository : Repository
        The repository to write to.
    file : str or Path
        Path of the file.

    Returns
    -------
    list of str
        The imported datasets.

    Raises
    ------
    SourceError
        If the file is not readable, or a line is invalid; the message has the line number.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> from tidegauge.consistency.jsonl import consistency_file
    >>> with tempfile.TemporaryDirectory() as folder, tg.Repository("sqlite://") as repo:
    ...     rate = {"ds=2023-01-05": 0.25}
    ...     repo.record("shop.search", "Consistency.mismatch", rate, instance="clicks.n")
    ...     days = consistency_file(repo, "shop.search", f"{folder}/search.jsonl")
    ...     with tg.Repository("sqlite://") as other:
    ...         import_consistency(other, f"{folder}/search.jsonl")
    ...         other.value("shop.search", "Consistency.mismatch", "clicks.n")
    1
    ['shop.search']
    0.25
    """
    datasets: dict[str, None] = {}
    waiting: dict[str, _QueuedDays] = {}
    size = 0
    for number, line in enumerate(_parse_json_lines(Path(file)), start=1):
        try:
            dataset, times, numbers = _parse_line(line)
        except (
            TidegaugeError, KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError
        ) as error:  # fmt: skip
            msg = f"{file}, line {number}: not the consistency metrics of a day: {error!r}"
            raise SourceError(msg) from error
        datasets[dataset] = None
        waiting.setdefault(dataset, _QueuedDays()).add(times, numbers)
        size += len(numbers) * len(times)
        if size >= _NUMBERS_PER_COMMIT:
            _write(repository, waiting)
            size = 0
    _write(repository, waiting)
    return list(datasets)


def open_consistency(*files: str | Path) -> Repository:
    """Return an in-memory repository of exported metrics, for viewing on a laptop.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> from tidegauge.consistency.jsonl import consistency_file
    >>> with tempfile.TemporaryDirectory() as folder, tg.Repository("sqlite://") as repo:
    ...     rate = {"ds=2023-01-05": 0.25}
    ...     repo.record("shop.search", "Consistency.mismatch", rate, instance="clicks.n")
    ...     days = consistency_file(repo, "shop.search", f"{folder}/search.jsonl")
    ...     with open_consistency(f"{folder}/search.jsonl") as here:
    ...         here.metrics("shop.search")["value"].tolist()
    1
    [0.25]
    """
    from tidegauge.repository.repository import Repository

    repository = Repository("sqlite://")
    try:
        for file in files:
            import_consistency(repository, file)
    except BaseException:
        repository.close()
        raise
    return repository


def _parse_json_lines(file: Path) -> Iterator[Line]:
    try:
        with file.open(encoding="utf-8") as opened:
            for number, source in enumerate(opened, start=1):
                try:
                    yield json.loads(source)
                except (
                    ValueError,
                    RecursionError,
                ) as error:  # ValueError also for numbers with too many digits
                    msg = f"{file}, line {number}: not JSON: {error}"
                    raise SourceError(msg) from error
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {file}: {error}"
        raise SourceError(msg) from error


def _parse_line(line: Line) -> tuple[str, dict[str, datetime], dict[_Series, _Numbers]]:
    """Parse a line into its dataset, partition times, and numbers by series and partition."""
    metrics = line["metrics"]
    dataset, partitions = str(metrics["dataset"]), [str(name) for name in metrics["partitions"]]
    moments = [datetime.fromtimestamp(ms / 1000, UTC) for ms in metrics["times"]]
    times = dict(zip(partitions, moments, strict=True))
    series: dict[_Series, _Numbers] = {}
    for segment, groups in metrics["segments"].items():
        for group, content in groups.items():
            weights = content.get("weights", {"rows": {}, "features": {}})
            subjects = [(None, content["rows"], weights["rows"])]
            subjects += [
                (name, lines, weights["features"].get(name, {}))
                for name, lines in content["features"].items()
            ]
            for feature, lines, feature_weights in subjects:
                instance = ".".join(filter(None, (group, feature)))
                usual = default_weights(lines, feature, len(partitions))
                for metric, entries in lines.items():
                    weighed = _by_partition(partitions, feature_weights.get(metric, usual))
                    for name, numbers in _flat_series(metric, entries):
                        series[segment, instance, name] = (
                            _by_partition(partitions, numbers),
                            weighed,
                        )
    return dataset, times, series


def _by_partition(partitions: Sequence[str], numbers: Sequence[Any]) -> dict[str, float]:
    """Return the numbers by partition, without nulls."""
    pairs = zip(partitions, numbers, strict=True)
    return {partition: float(value) for partition, value in pairs if value is not None}


def _flat_series(metric: str, entries: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the series of a metric: one series, or one for each quantile."""
    if not any(isinstance(entry, list) for entry in entries):
        yield metric, entries
        return
    rows = [[None] * len(QUANTILES) if entry is None else entry for entry in entries]
    for quantile, numbers in zip(QUANTILES, zip(*rows, strict=True), strict=True):
        yield f"{metric}-{quantile}", numbers


def _scale(metric: str) -> str:
    """Return the scale of a metric.

    Examples
    --------
    >>> _scale("mismatch"), _scale("logged_top"), _scale("lost"), _scale("delta")
    ('ratio', 'ratio', 'distance', 'signed')
    """
    if metric in _RATE_METRICS:
        return Scale.RATIO.value
    if metric in _COUNT_METRICS:
        return Scale.COUNT.value
    if metric in _DISTANCE_METRICS:
        return Scale.DISTANCE.value
    return (Scale.SIGNED if metric in _SIGNED_METRICS else Scale.POSITIVE).value


class _QueuedDays:
    """Days of one dataset that are queued for a commit."""

    def __init__(self) -> None:
        self.times: dict[str, datetime] = {}
        self.numbers: dict[_Series, _Numbers] = {}

    def add(self, times: Mapping[str, datetime], numbers: Mapping[_Series, _Numbers]) -> None:
        """Add the content of a line."""
        self.times |= times
        for series, both in numbers.items():
            for stored, new in zip(self.numbers.setdefault(series, ({}, {})), both, strict=True):
                stored.update(new)

    def records(self, dataset: str) -> list[Record]:
        """Return all values to record. The first record has all partitions, because some may have no value."""
        records: list[Record] = []
        for (segment, instance, name), (numbers, weights) in self.numbers.items():
            scale = _scale(name.rpartition("-")[0] or name)
            recorded = Recorded(PREFIX + name, instance=instance, entity="Column", scale=scale)
            times = {} if records else self.times
            records.append(Record(dataset, recorded, segment, numbers, times, weights))
        return records


def _write(repository: Repository, waiting: dict[str, _QueuedDays]) -> None:
    """Write the queued days."""
    for dataset in list(waiting):
        write_records(repository.database, waiting.pop(dataset).records(dataset))
