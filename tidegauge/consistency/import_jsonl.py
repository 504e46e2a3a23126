"""Import of consistency metrics from JSON Lines written by `tidegauge.consistency.export_jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SourceError, TidegaugeError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.consistency.export_jsonl import Line
from tidegauge.repository.store.consistency_series import OF_ROWS, PREFIX, QUANTILES
from tidegauge.repository.store.recorded import Recorded
from tidegauge.repository.store.user_metrics import Record, write_records

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

_RATES = frozenset({"mismatch", "missing", "extra", "both_null", "smape", "smape_mean"})
_SIGNED = frozenset({"delta", "logged", "backfilled"})
_COUNTS = frozenset({"total", *OF_ROWS})
_AT_ONCE = 1_000_000
"""Numbers written per commit; a larger day is written whole."""

_Series = tuple[str, str, str]
"""Segment, instance and metric."""
_Numbers = dict[str, float]
"""Values by partition."""


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
    """
    datasets: dict[str, None] = {}
    waiting: dict[str, _Waiting] = {}
    size = 0
    for number, line in enumerate(_read(Path(file)), start=1):
        try:
            dataset, times, found = _parse_line(line)
        except (TidegaugeError, KeyError, TypeError, ValueError, AttributeError) as error:
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
                except json.JSONDecodeError as error:
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
            features = told["features"].items()
            named = [(f"{group}.{name}" if group else name, one) for name, one in features]
            for instance, lines in [(group, told["rows"]), *named]:
                for metric, entries in lines.items():
                    for name, numbers in _flat(metric, entries):
                        pairs = zip(partitions, numbers, strict=True)
                        there = {at: float(one) for at, one in pairs if one is not None}
                        found[segment, instance, name] = there
    return dataset, times, found


def _flat(metric: str, entries: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the series of a metric: one, or one per quantile."""
    if not any(isinstance(one, list) for one in entries):
        yield metric, entries
        return
    rows = [[None] * len(QUANTILES) if one is None else one for one in entries]
    for quantile, numbers in zip(QUANTILES, zip(*rows, strict=True), strict=True):
        yield f"{metric}-{quantile}", numbers


def _scale(metric: str) -> str:
    """Return the scale of a metric."""
    if metric in _RATES:
        return Scale.RATIO.value
    if metric in _COUNTS:
        return Scale.COUNT.value
    return (Scale.SIGNED if metric in _SIGNED else Scale.POSITIVE).value


class _Waiting:
    """Days of one dataset queued for one commit."""

    def __init__(self) -> None:
        self.times: dict[str, datetime] = {}
        self.numbers: dict[_Series, _Numbers] = {}

    def add(self, times: Mapping[str, datetime], found: Mapping[_Series, _Numbers]) -> None:
        """Add the content of a line."""
        self.times |= times
        for series, numbers in found.items():
            self.numbers.setdefault(series, {}).update(numbers)

    def records(self, dataset: str) -> list[Record]:
        """Return all values to record, the first with all partitions, as some may have no value."""
        found: list[Record] = []
        for (segment, instance, name), numbers in self.numbers.items():
            scale = _scale(name.rpartition("-")[0] or name)
            what = Recorded(PREFIX + name, instance=instance, entity="Column", scale=scale)
            found.append(Record(dataset, what, segment, numbers, {} if found else self.times))
        return found


def _write(repository: Repository, waiting: dict[str, _Waiting]) -> None:
    """Write the queued days."""
    for dataset in list(waiting):
        write_records(repository.database, waiting.pop(dataset).records(dataset))
