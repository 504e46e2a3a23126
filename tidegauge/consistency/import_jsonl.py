"""Import of consistency metrics from JSON Lines written by `tidegauge.consistency.export_jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SourceError, TidegaugeError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.consistency.compare.texts import ConsistencyTexts
from tidegauge.consistency.export_jsonl import Line, default_weights
from tidegauge.repository.distributions.drift import RECORDED_OF
from tidegauge.repository.distributions.stored import CATEGORICAL, NUMERIC
from tidegauge.repository.store.consistency_series import OF_ROWS, PREFIX, QUANTILES
from tidegauge.repository.store.recorded import Recorded
from tidegauge.repository.store.user_metrics import Record, write_records

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

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
    >>> from tidegauge.consistency.export_jsonl import consistency_file
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
    >>> from tidegauge.consistency.export_jsonl import consistency_file
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
