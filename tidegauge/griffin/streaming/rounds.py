"""Rounds of a streaming job: measure the windows that are ready and new or changed.

The persistent state of a round is its results, in the repository's ledger, and the marks. A job
that was killed at any point therefore resumes with the next round: a window whose files match the
ledger's fingerprint is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.ledger import LedgerEntry, differ
from tidegauge.griffin.streaming.clock import Clock, horizon
from tidegauge.griffin.streaming.ingest import Inflow
from tidegauge.griffin.streaming.marks import Marks, read_marks, remove_files, write_marks
from tidegauge.griffin.streaming.windows import (
    ConnectorFiles,
    Preparation,
    Windows,
    partition_of_window,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Measure = Callable[[Mapping[str, "DataFrame"], Mapping[Partition, str], int], Any]
"""Measures frames at a timestamp, grouped by window, and commits the windows it is given fingerprints of."""
Scope = tuple[tuple[str, tuple[int, ...]], ...]
"""Windows of each source in which rows of a window may find their matches."""
MOST_WINDOWS = 100
"""Maximum number of windows measured together."""


@dataclass(frozen=True)
class RoundReport:
    """Report of a round.

    Attributes
    ----------
    time : int
        Start of the round, in milliseconds since 1970.
    measured : tuple of int
        The measured windows, in order.
    horizon : int or None
        Windows before it are not measured again.
    late : mapping of str to int
        Number of late rows of each source, which are in no result.
    removed : int
        Number of files removed as no longer needed.
    results : tuple
        Results of measuring, one for each group of windows.
    """

    time: int
    measured: tuple[int, ...] = ()
    horizon: int | None = None
    late: Mapping[str, int] = field(default_factory=dict)
    removed: int = 0
    results: tuple[Any, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about late rows."""
        return tuple(
            f"{count} rows of {name!r} arrived after their windows were closed, and are in no"
            " result; use a longer time.range to include late rows"
            for name, count in self.late.items()
        )


@dataclass(frozen=True)
class Rounds:
    """Measure the stored windows of a job's streams.

    Attributes
    ----------
    spark : SparkSession
    folder : str
        Folder of the marks.
    streams : mapping of str to sequence of Inflow
        The streaming sources.
    measure : callable
    ledger : callable
        Returns the ledger: the state of each window by partition name.
    prepare : callable
        Applies the pre-processing rules.
    tables : callable
        Returns the sources that are not streams.
    order : tuple of str
        Names of all sources in the job's order.
    measured, met : frozenset of str
        Streams that rules measure, and streams in which rules look for matches of other streams'
        rows.
    """

    spark: SparkSession
    folder: str
    streams: Mapping[str, Sequence[Inflow]]
    measure: Measure
    ledger: Callable[[], Mapping[str, LedgerEntry]]
    prepare: Preparation
    tables: Callable[[], Mapping[str, DataFrame]]
    order: tuple[str, ...]
    measured: frozenset[str]
    met: frozenset[str]

    def clock(self, name: str) -> Clock:
        """Return a stream's clock."""
        return Clock.from_store(self.streams[name][0].store)

    def round(self, now: int) -> RoundReport:
        """Measure the windows that are due."""
        marks = read_marks(self.folder)
        removed = remove_files(marks.removing)  # leftovers of a killed round
        looks = {
            name: Windows(
                name,
                self.clock(name),
                tuple(ConnectorFiles(self.spark, inflow) for inflow in inflows),
                self.prepare,
                marks.limits.get(name),
            )
            for name, inflows in self.streams.items()
        }
        late = self._late(looks, marks)
        ready = self._ready(looks, now)
        results, done = [], []
        groups = self._groups(self._due(looks, ready, marks))
        for number, (scope, prints) in enumerate(groups):
            windows = [int(partition.values[0]) for partition in prints]
            # Each group has a timestamp of its own, or sinks would overwrite one with the next.
            frames = self._frames(looks, windows, scope)
            results.append(self.measure(frames, prints, now + number))
            done += windows
        newest = [max(ready[name], default=None) for name in looks]
        clocks = [self.clock(name) for name in self.measured]
        first = horizon(newest, clocks, marks.horizon)
        left = self._left(looks, first, marks, late)
        if left != marks:
            write_marks(self.folder, left)
        removed += remove_files(left.removing)
        counts = {name: count for name, (count, _) in late.items()}
        return RoundReport(now, tuple(sorted(done)), first, counts, removed, tuple(results))

    def _ready(self, looks: Mapping[str, Windows], now: int) -> dict[str, list[int]]:
        """Return the windows of each stream that are ready by the longest delay of all streams."""
        delay = max(self.clock(name).delay for name in looks)
        size = max(self.clock(name).size for name in self.measured)
        clock = Clock(size, delay)
        return {
            name: [window for window in look.all if clock.ready(window, now)]
            for name, look in looks.items()
        }

    def _due(
        self, looks: Mapping[str, Windows], ready: Mapping[str, Collection[int]], marks: Marks
    ) -> Iterator[tuple[Scope, int, str]]:
        """Yield the new or changed windows, with their scope and fingerprint."""
        ledger = self.ledger()
        windows = {w for name in self.measured for w in ready[name]}
        for window in sorted(windows):
            if marks.horizon is not None and window < marks.horizon:
                continue
            scope = self._scope(looks, window)
            files = {
                name: looks[name].listed({*others, window}).fingerprint
                for name, others in {**dict.fromkeys(self.measured, ()), **dict(scope)}.items()
            }
            found = f"windows/1:{key_of(canonical_json(files))}"
            known = ledger.get(partition_of_window(window).name)
            if known is None or differ(found, known.fingerprint):
                yield scope, window, found

    def _scope(self, looks: Mapping[str, Windows], window: int) -> Scope:
        """Return the windows of other streams in which rows of a window may find their matches."""
        found = []
        for name in sorted(self.met):
            clocks = [self.clock(other) for other in self.measured if other != name]
            their = looks[name]
            windows = [w for w in their.all if any(c.meets(window, their.clock, w) for c in clocks)]
            found.append((name, tuple(windows)))
        return tuple(found)

    @staticmethod
    def _groups(
        due: Iterator[tuple[Scope, int, str]],
    ) -> Iterator[tuple[Scope, dict[Partition, str]]]:
        """Group windows with the same scope, in batches."""
        groups: dict[Scope, list[tuple[Partition, str]]] = {}
        for scope, window, found in due:
            groups.setdefault(scope, []).append((partition_of_window(window), found))
        for scope, some in groups.items():
            for begin in range(0, len(some), MOST_WINDOWS):
                yield scope, dict(some[begin : begin + MOST_WINDOWS])

    def _frames(
        self, looks: Mapping[str, Windows], windows: Sequence[int], scope: Scope
    ) -> dict[str, DataFrame]:
        """Return all sources in the job's order, restricted to the windows and their scope."""
        others = dict(scope)
        tables = self.tables()
        frames = {}
        for name in self.order:
            if name in looks:
                own = set(windows) if name in self.measured else set()
                wanted = sorted(own | set(others.get(name, ())))
                frames[name] = looks[name].read([partition_of_window(w) for w in wanted])
            else:
                frames[name] = tables[name]
        return frames

    def _late(
        self, looks: Mapping[str, Windows], marks: Marks
    ) -> dict[str, tuple[int, frozenset[str]]]:
        """Return the number of late rows of each stream, and their files."""
        found = {}
        for name, look in looks.items():
            if marks.horizon is None or self._read_only(name):
                continue
            before = marks.horizon if name in self.measured else marks.limits.get(name)
            if before is None:  # a new stream of the job
                continue
            known, count, files = set(marks.closed.get(name, ())), 0, set()
            for part in look.parts:
                new = set(part.kept(before)) - known
                count += part.count(new)
                files |= new
            if files:
                found[name] = (count, frozenset(files))
        return found

    def _left(
        self,
        looks: Mapping[str, Windows],
        first: int | None,
        marks: Marks,
        late: Mapping[str, tuple[int, frozenset[str]]],
    ) -> Marks:
        """Return the marks for the next round."""
        if first is None:
            return marks
        limits, closed, removing = {}, {}, []
        for name, look in looks.items():
            limit = self.clock(name).limit(first, met=name in self.met)
            limits[name] = max(limit, marks.limits.get(name, limit))
            if self._read_only(name):
                continue
            for part in look.parts:
                removing += part.kept(limits[name])
            if name in self.measured and limits[name] < first:
                gone = set(removing)
                kept = [file for part in look.parts for file in part.kept(first)]
                closed[name] = sorted(file for file in kept if file not in gone)
        told = {name: marks.late.get(name, 0) + count for name, (count, _) in late.items()}
        return Marks(first, limits, closed, {**marks.late, **told}, sorted(removing))

    def _read_only(self, name: str) -> bool:
        return self.streams[name][0].store.read_only
