"""Rounds of a streaming job: windows that are ready and not yet measured as they are now, are measured.

What is kept of a round are its results, in the repository's ledger, and the marks. So a job that was killed
anywhere goes on with the next round: a window whose files are those that the ledger knows is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.description import canonical_json, key_of
from analyzers.griffin.streaming.clock import Clock, horizon
from analyzers.griffin.streaming.ingest import Inflow
from analyzers.griffin.streaming.marks import Marks, read_marks, remove_files, write_marks
from analyzers.griffin.streaming.windows import Part, Preparation, Windows, partition_of_window
from analyzers.ledger import Known, differ
from analyzers.partitions import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Measure = Callable[[Mapping[str, "DataFrame"], Mapping[Partition, str], int], Any]
"""Measures frames at a time, grouped by window, and commits the windows that it is given fingerprints of."""
Scope = tuple[tuple[str, tuple[int, ...]], ...]
"""Windows of each source in which rows of a window may find theirs."""
MOST_WINDOWS = 100
"""Windows that are measured at once."""


@dataclass(frozen=True)
class RoundReport:
    """What a round did.

    Attributes
    ----------
    time : int
        When it began, in milliseconds since 1970.
    measured : tuple of int
        The windows that were measured, in order.
    horizon : int or None
        Windows before it are measured no more.
    late : mapping of str to int
        Rows of each source that came after that, and so are in no result.
    removed : int
        Files that were no longer needed.
    results : tuple
        What measuring returned.
    """

    time: int
    measured: tuple[int, ...] = ()
    horizon: int | None = None
    late: Mapping[str, int] = field(default_factory=dict)
    removed: int = 0
    results: tuple[Any, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """What users should know."""
        return tuple(
            f"{count} rows of {name!r} came when their windows were measured no more, and are in no"
            " result; a longer time.range waits for them"
            for name, count in self.late.items()
        )


@dataclass(frozen=True)
class Rounds:
    """Measures what the streams of a job have written.

    Attributes
    ----------
    spark : SparkSession
    folder : str
        Where the marks are kept.
    streams : mapping of str to sequence of Inflow
        The streaming sources.
    measure : callable
    ledger : callable
        Returns what is known of each window, by its partition's name.
    prepare : callable
        The rules before measuring.
    tables : callable
        Returns the sources that are no streams.
    order : tuple of str
        The names of all sources as the job has them.
    measured, met : frozenset of str
        Streams that rules measure; those in which rules look for the rows of other streams.
    """

    spark: SparkSession
    folder: str
    streams: Mapping[str, Sequence[Inflow]]
    measure: Measure
    ledger: Callable[[], Mapping[str, Known]]
    prepare: Preparation
    tables: Callable[[], Mapping[str, DataFrame]]
    order: tuple[str, ...]
    measured: frozenset[str]
    met: frozenset[str]

    def clock(self, name: str) -> Clock:
        """Return a stream's clock."""
        return Clock.of(self.streams[name][0].store)

    def round(self, now: int) -> RoundReport:
        """Measure what is due."""
        marks = read_marks(self.folder)
        removed = remove_files(marks.removing)  # a killed round may have left some
        looks = {
            name: Windows(
                name,
                self.clock(name),
                tuple(Part(self.spark, inflow) for inflow in inflows),
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
            # Each has a time of its own, or sinks would put one in the place of another.
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
        """Return the windows of each stream that are over, for all streams."""
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
        """Yield the windows that are not measured as they are now, with their scope and fingerprint."""
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
        """Return the windows of streams in which rows of a window may find theirs."""
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
        """Put windows together that may find their rows in the same windows."""
        groups: dict[Scope, list[tuple[Partition, str]]] = {}
        for scope, window, found in due:
            groups.setdefault(scope, []).append((partition_of_window(window), found))
        for scope, some in groups.items():
            for begin in range(0, len(some), MOST_WINDOWS):
                yield scope, dict(some[begin : begin + MOST_WINDOWS])

    def _frames(
        self, looks: Mapping[str, Windows], windows: Sequence[int], scope: Scope
    ) -> dict[str, DataFrame]:
        """Return all sources in the job's order: the windows, and those in which their rows find theirs."""
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
        """Return for each stream how many rows came too late, and their files."""
        found = {}
        for name, look in looks.items():
            if marks.horizon is None or self._read_only(name):
                continue
            before = marks.horizon if name in self.measured else marks.limits.get(name)
            if before is None:  # a stream that is new to the job
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
        """Return what the next round should know."""
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
