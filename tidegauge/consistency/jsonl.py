"""Export and import of consistency metrics as JSON Lines, for serving from a key-value store.

A line is one day of a join: ``{"key": "<join>", "metrics": {...}, "ts": <milliseconds>}``, where
``ts`` is the day's start in UTC. It holds a summary without states, which can be viewed but not
merged::

    {"dataset": "<namespace>.<join>", "partitions": ["ds=2023-01-05/hr_minute=07-00", ...],
     "times": [<milliseconds>, ...],
     "segments": {"": {"<group_by>": {"rows": {"row_missing": [...]},
                                      "features": {"<feature>": {"mismatch": [...], "delta":
                                      [...]}}}}}}

Lists have one entry per partition: a number, or for a distribution a list of its minimum, p5, p25,
p50, p75, p95 and maximum; null if there is no finite number. The weight of a feature's metric is its
``total``; where it is another, and for rows, a group-by has ``weights``, in the form of its metrics.
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
from tidegauge.repository.distributions.stored import CATEGORICAL, NUMERIC
from tidegauge.repository.history.feature_consistency import (
    WEIGHT,
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


_COLUMNS = 24
"""Partitions read per batch; a longer day is read whole."""

Line = Mapping[str, Any]


def export_consistency(
    repository: Repository,
    dataset: str,
    target: TextIO,
    *,
    since: Moment = None,
    until: Moment = None,
) -> int:
    """Write the consistency metrics of a dataset as JSON Lines, one line per day.

    Parameters
    ----------
    repository : Repository
    dataset : str
        ``<namespace>.<join>``.
    target : text file
    since, until : str, date or datetime, optional
        Inclusive bounds on the partition's time.

    Returns
    -------
    int
        Number of days written.

    Raises
    ------
    UnknownDatasetError
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
    for line in _lines(repository, dataset, Window.between(since, until)):
        # As a whole: piece by piece it is many times slower.
        text = json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        target.write(f"{text}\n")
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


def _lines(repository: Repository, dataset: str, window: Window) -> Iterator[Line]:
    with repository.database.read() as connection:
        at = moments(connection, dataset, window)
        first = measures(connection, dataset)
        if not first.subjects:
            msg = f"{dataset!r} has no consistency metrics"
            raise HistoryError(msg)
        if any(time != time for time in at.times.tolist()):  # noqa: PLR0124 - NaN
            msg = f"{dataset!r} has partitions without a time: they are of no day"
            raise HistoryError(msg)
        all_of = [first] + [
            measures(connection, dataset, segment)
            for segment in first.segments
            if segment != first.segment
        ]
        for days in _together(at):
            whole = _taken(at, range(days[0].start, days[-1].stop))
            found = [
                [
                    values(
                        connection,
                        of,
                        whole,
                        list(of.series),
                        range(len(of.subjects)),
                        weights=kind,
                    )
                    for kind in (False, True)
                ]
                for of in all_of
            ]
            for day in days:
                some = _taken(at, day)
                here = slice(day.start - days[0].start, day.stop - days[0].start)
                pairs = zip(all_of, found, strict=True)
                metrics = {
                    "dataset": dataset,
                    "partitions": list(some.labels),
                    "times": [round(1000 * time) for time in some.times.tolist()],
                    "segments": {
                        of.segment: _summary(of, numbers[..., here], weights[..., here])
                        for of, (numbers, weights) in pairs
                    },
                }
                begin = 1000 * _day(float(some.times[0]))
                yield {"key": dataset.partition(".")[2] or dataset, "metrics": metrics, "ts": begin}


def _together(at: PartitionColumns) -> Iterator[list[range]]:
    """Yield batches of days, each day as a range of columns."""
    days: list[range] = []
    for _, columns in groupby(range(len(at.times)), key=lambda n: _day(float(at.times[n]))):
        found = list(columns)
        days.append(range(found[0], found[-1] + 1))
        if days[-1].stop - days[0].start >= _COLUMNS:
            yield days
            days = []
    if days:
        yield days


def _day(seconds: float) -> int:
    return int(seconds // 86400) * 86400


def _taken(at: PartitionColumns, columns: range) -> PartitionColumns:
    """Return a contiguous range of columns."""
    first, end = columns.start, columns.stop
    here = (at.column >= first) & (at.column < end)
    return PartitionColumns(
        at.partitions[here], at.column[here] - first, at.labels[first:end], at.times[first:end]
    )


def _summary(
    of: ConsistencyIndex, found: NDArray[np.float64], weights: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the metrics of each group-by, without those that have no finite value."""
    plain, distributions = _split(list(of.series))
    place = {metric: n for n, metric in enumerate(of.series)}
    parts = {metric: [place[metric]] for metric in plain}
    parts |= {metric: [place[f"{metric}-{q}"] for q in QUANTILES] for metric in distributions}
    told: dict[str, Any] = {}
    for m, subject in enumerate(of.subjects):
        own: dict[str, list[Any]] = {}
        weighed: dict[str, list[Any]] = {}
        for metric, places in parts.items():
            lines = found[places, m]
            if not np.isfinite(lines).any():
                continue
            entries = _finite(lines).T.tolist()
            if metric in distributions:
                own[metric] = [None if set(one) == {None} else one for one in entries]
            else:
                own[metric] = [one for (one,) in entries]
            weighed[metric] = _finite(weights[places[0], m]).tolist()
        group = told.setdefault(subject.group_by, {"rows": {}, "features": {}})
        usual = default_weights(own, subject.feature, found.shape[-1])
        other = {metric: lines for metric, lines in weighed.items() if lines != usual}
        if subject.feature is None:
            group["rows"] = own
        elif own:
            group["features"][subject.feature] = own
        if other:
            kept = group.setdefault("weights", {"rows": {}, "features": {}})
            if subject.feature is None:
                kept["rows"] = other
            else:
                kept["features"][subject.feature] = other
    return told


def default_weights(
    metrics: Mapping[str, Sequence[Any]], feature: str | None, partitions: int
) -> Sequence[Any]:
    """Return the weights of metrics that ``weights`` does not name: a feature's total, else none."""
    nothing = [None] * partitions
    return nothing if feature is None else metrics.get(WEIGHT, nothing)


def _finite(numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers as objects, with None for those that are not finite."""
    found = numbers.astype(object)
    found[~np.isfinite(numbers)] = None
    return found


def _split(metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate scalar metrics from distributions, which have one series per quantile.

    Examples
    --------
    >>> _split(["smape", *(f"delta-{q}" for q in QUANTILES), "odd-p50"])
    (['smape', 'odd-p50'], ['delta'])
    """
    there = set(metrics)
    bases = dict.fromkeys(metric.rpartition("-")[0] for metric in metrics if "-" in metric)
    whole = [base for base in bases if all(f"{base}-{q}" in there for q in QUANTILES)]
    parts = {f"{base}-{q}" for base in whole for q in QUANTILES}
    return [metric for metric in metrics if metric not in parts], whole


_RATES = frozenset(
    {"mismatch", "missing", "extra", "both_null", "smape", "smape_mean", "row_unmatched"}
).union(ConsistencyTexts.metrics)
_SIGNED = frozenset({"delta", "logged", "backfilled"})
_DISTANCES = frozenset(RECORDED_OF[NUMERIC] + RECORDED_OF[CATEGORICAL])
_COUNTS = frozenset({"total", *OF_ROWS})
_AT_ONCE = 1_000_000
"""Numbers written per commit; a larger day is written whole."""

_Series = tuple[str, str, str]
"""Segment, instance and metric."""
_Numbers = tuple[dict[str, float], dict[str, float]]
"""Values and weights by partition."""


def import_consistency(repository: Repository, file: str | Path) -> list[str]:
    """Import exported consistency metrics into a repository; a repeated import writes nothing.

    Parameters
    ----------
    repository : Repository
    file : str or Path

    Returns
    -------
    list of str
        The imported datasets.

    Raises
    ------
    SourceError
        If the file is not readable, or a line is invalid; gives the line number.

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
    waiting: dict[str, _Waiting] = {}
    size = 0
    for number, line in enumerate(_read(Path(file)), start=1):
        try:
            dataset, times, found = _parse_line(line)
        except (
            TidegaugeError, KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError
        ) as error:  # fmt: skip
            msg = f"{file}, line {number}: no consistency metrics of a day: {error!r}"
            raise SourceError(msg) from error
        datasets[dataset] = None
        waiting.setdefault(dataset, _Waiting()).add(times, found)
        size += len(found) * len(times)
        if size >= _AT_ONCE:
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


def _read(file: Path) -> Iterator[Line]:
    try:
        with file.open(encoding="utf-8") as opened:
            for number, text in enumerate(opened, start=1):
                try:
                    yield json.loads(text)
                except (ValueError, RecursionError) as error:  # also a number of too many digits
                    msg = f"{file}, line {number}: no JSON: {error}"
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
    found: dict[_Series, _Numbers] = {}
    for segment, groups in metrics["segments"].items():
        for group, told in groups.items():
            weights = told.get("weights", {"rows": {}, "features": {}})
            subjects = [(None, told["rows"], weights["rows"])]
            subjects += [
                (name, lines, weights["features"].get(name, {}))
                for name, lines in told["features"].items()
            ]
            for feature, lines, own in subjects:
                instance = ".".join(filter(None, (group, feature)))
                usual = default_weights(lines, feature, len(partitions))
                for metric, entries in lines.items():
                    weighed = _there(partitions, own.get(metric, usual))
                    for name, numbers in _flat(metric, entries):
                        found[segment, instance, name] = _there(partitions, numbers), weighed
    return dataset, times, found


def _there(partitions: Sequence[str], numbers: Sequence[Any]) -> dict[str, float]:
    """Return the numbers by partition, without those that are null."""
    pairs = zip(partitions, numbers, strict=True)
    return {at: float(one) for at, one in pairs if one is not None}


def _flat(metric: str, entries: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the series of a metric: one, or one per quantile."""
    if not any(isinstance(one, list) for one in entries):
        yield metric, entries
        return
    rows = [[None] * len(QUANTILES) if one is None else one for one in entries]
    for quantile, numbers in zip(QUANTILES, zip(*rows, strict=True), strict=True):
        yield f"{metric}-{quantile}", numbers


def _scale(metric: str) -> str:
    """Return the scale of a metric.

    Examples
    --------
    >>> _scale("mismatch"), _scale("logged_top"), _scale("lost"), _scale("delta")
    ('ratio', 'ratio', 'distance', 'signed')
    """
    if metric in _RATES:
        return Scale.RATIO.value
    if metric in _COUNTS:
        return Scale.COUNT.value
    if metric in _DISTANCES:
        return Scale.DISTANCE.value
    return (Scale.SIGNED if metric in _SIGNED else Scale.POSITIVE).value


class _Waiting:
    """Days of one dataset queued for one commit."""

    def __init__(self) -> None:
        self.times: dict[str, datetime] = {}
        self.numbers: dict[_Series, _Numbers] = {}

    def add(self, times: Mapping[str, datetime], found: Mapping[_Series, _Numbers]) -> None:
        """Add the content of a line."""
        self.times |= times
        for series, some in found.items():
            for kept, new in zip(self.numbers.setdefault(series, ({}, {})), some, strict=True):
                kept.update(new)

    def records(self, dataset: str) -> list[Record]:
        """Return all values to record, the first with all partitions, as some may have no value."""
        found: list[Record] = []
        for (segment, instance, name), (numbers, weights) in self.numbers.items():
            scale = _scale(name.rpartition("-")[0] or name)
            what = Recorded(PREFIX + name, instance=instance, entity="Column", scale=scale)
            times = {} if found else self.times
            found.append(Record(dataset, what, segment, numbers, times, weights))
        return found


def _write(repository: Repository, waiting: dict[str, _Waiting]) -> None:
    """Write the queued days."""
    for dataset in list(waiting):
        write_records(repository.database, waiting.pop(dataset).records(dataset))
