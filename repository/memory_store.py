"""Where a repository in dictionaries keeps what runs measure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from analyzers.errors import DatasetMismatchError, HistoryError, LeaseError, UnknownDatasetError
from analyzers.ledger import (
    AnyAnalyzer,
    Change,
    Decision,
    Known,
    Measured,
    Measurement,
    RunSpec,
    RunStatus,
    decide,
    mismatch_text,
    united,
)
from analyzers.metric import Entity, Metric, Success, flatten
from analyzers.segments import SegmentSet
from analyzers.state import State
from repository.batch import outcome, stored_value
from repository.history import AsOf
from repository.labels import STATUS_OF
from repository.record import Record
from repository.recorded import Recorded
from repository.verdicts import Case, Verdict
from repository.windows import Windows


@dataclass
class Lifetime:
    """What holds from one commit until another."""

    commit: int
    superseded: int | None = field(default=None, kw_only=True)

    def holds(self, commit: int | None) -> bool:
        """Whether it holds now, or held after a commit."""
        if commit is None:
            return self.superseded is None
        return self.commit <= commit and (self.superseded is None or self.superseded > commit)


@dataclass
class Fact(Lifetime):
    """A metric of one version of a partition."""

    measure: Any
    segment: str
    partition: str
    version: int
    metric: Metric[float]
    outcome: tuple[float | None, str, float | None, str | None]

    @property
    def series(self) -> tuple[str, str, str, str]:
        """Segment, measure, name and instance."""
        return self.segment, self.measure.canonical(), self.metric.name, self.metric.instance


@dataclass
class Version(Lifetime):
    """One content of a partition, with its states by segment and statistic."""

    measured: Measured
    version: int
    fingerprint: str | None
    keys: frozenset[str]
    states: dict[tuple[str, str], State] = field(default_factory=dict)
    removed: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Incident:
    """Anomalies that belong together, and the last of their partitions that it was told of."""

    last: str = ""
    over: bool = False
    said: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Anomaly:
    """What stood out, and what was said of it: a number that grows with each label, and the label."""

    id: int
    found: bool = True
    said: list[tuple[int, str]] = field(default_factory=list)
    incident: Incident | None = None

    @property
    def status(self) -> str:
        """What the last telling label says, of it or its incident."""
        said = [*self.said, *(self.incident.said if self.incident else ())]
        telling = [(n, STATUS_OF[label]) for n, label in said if STATUS_OF[label] is not None]
        return str(max(telling)[1]) if telling else "open"


@dataclass
class Kept(Lifetime):
    """A verdict, until there is a newer one on the same."""

    id: int
    case: Case
    verdict: Verdict
    run: int | None


@dataclass
class Dataset:
    """All that is kept of a dataset; it has no keys before anything was measured of it."""

    keys: tuple[str, ...] | None
    source: str | None
    partitions: dict[str, list[Version]] = field(default_factory=dict)
    times: dict[str, datetime | None] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    absent: dict[str, list[Lifetime]] = field(default_factory=dict)
    segments: dict[tuple[str, ...], SegmentSet] = field(default_factory=dict)
    anomalies: dict[Any, Anomaly] = field(default_factory=dict)
    windows: set[Windows] = field(default_factory=set)
    folded: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    measures: dict[tuple[str, str], AnyAnalyzer] = field(default_factory=dict)
    verdicts: list[Kept] = field(default_factory=list)


class MemoryRunStore:
    """Keeps what runs measure in dictionaries. Implements `analyzers.ledger.RunStore`.

    Attributes
    ----------
    datasets : dict
    runs : list of RunSpec
    statuses : dict of int to RunStatus
    commits : list of tuple
        The run, if any, and the moment of each commit, in order.
    """

    def __init__(self) -> None:
        self.datasets: dict[str, Dataset] = {}
        self.runs: list[RunSpec] = []
        self.begun: list[int] = []
        self.statuses: dict[int, RunStatus] = {}
        self.commits: list[tuple[int | None, datetime]] = []
        self.horizon = 0
        self._leases: dict[str, threading.Lock] = {}
        self._fences = 0
        self._verdicts = 0

    def dataset(self, name: str) -> Dataset:
        """Return a dataset that is there."""
        if name not in self.datasets:
            raise UnknownDatasetError(name, self.datasets)
        return self.datasets[name]

    def as_of(self, asked: AsOf) -> int | None:
        """Return the last commit that belongs to a view; None for the view of now."""
        if asked is None:
            return None
        if isinstance(asked, datetime):
            found = sum(at <= asked for _, at in self.commits)
        else:
            if not 1 <= asked <= len(self.runs):
                msg = f"as_of={asked}: there is no such run"
                raise HistoryError(msg)
            own = [n for n, (run, _) in enumerate(self.commits, 1) if run == asked]
            found = own[-1] if own else self.begun[asked - 1]
        if found < self.horizon:
            msg = f"as_of={asked!s} lies before the horizon: what was known then was cleaned away"
            raise HistoryError(msg)
        return found

    @contextmanager
    def hold(self, dataset: str, wait: float) -> Iterator[int]:
        """Let no other run measure the dataset meanwhile."""
        lock = self._leases.setdefault(dataset, threading.Lock())
        if not lock.acquire(timeout=max(wait, 0)):
            msg = f"{dataset!r} is being measured by another thread"
            raise LeaseError(msg)
        try:
            self._fences += 1
            yield self._fences
        finally:
            lock.release()

    def open_run(self, spec: RunSpec, fence: int | None = None) -> int:
        """Begin a run."""
        del fence  # nobody can take a lease from a thread
        data = self.datasets.setdefault(spec.dataset, Dataset(spec.keys, spec.source))
        if data.source and spec.source and data.source != spec.source and not spec.rename:
            raise DatasetMismatchError(mismatch_text(spec, data.source))
        self._bind(spec.dataset, data, spec.keys)
        data.source = spec.source or data.source
        self.runs.append(spec)
        self.begun.append(len(self.commits))
        self.statuses[len(self.runs)] = RunStatus.RUNNING
        return len(self.runs)

    def close_run(
        self,
        run: int,
        status: RunStatus,
        counts: Mapping[str, int],
        error: str | None = None,
    ) -> None:
        """End a run."""
        del counts, error  # nobody asks for them here
        self.statuses[run] = status

    def ledger(self, dataset: str) -> Mapping[str, Known]:
        """Return what is known of each partition."""
        data = self.datasets.get(dataset)
        found = {}
        for name, versions in data.partitions.items() if data else ():
            current = self._current(versions)
            if data is not None and current is not None:
                gone = any(a.holds(None) for a in data.absent.get(name, ()))
                found[name] = Known(current.version, current.fingerprint, current.keys, gone)
        return found

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the last choice for each set of columns."""
        data = self.datasets.get(dataset)
        return dict(data.segments) if data else {}

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Remember a choice."""
        self._commit(run)
        known = self._of(run).segments
        for segments in chosen:
            before = known.get(segments.columns)
            if before is None or before.generation < segments.generation:
                known[segments.columns] = segments

    def mark_gone(self, run: int, gone: Sequence[str], back: Sequence[str] = ()) -> None:
        """Mark partitions as gone, or as there again."""
        commit, data = self._commit(run), self._of(run)
        for name in back:
            for absence in data.absent.get(name, ()):
                absence.superseded = absence.superseded or commit
        for name in gone:
            absences = data.absent.setdefault(name, [])
            if not any(a.holds(None) for a in absences):
                absences.append(Lifetime(commit))

    def commit_batch(self, run: int, found: Sequence[Measured]) -> list[Decision]:
        """Store a batch."""
        commit = self._commit(run)
        return [self._store(self._of(run), measured, commit) for measured in found]

    def _of(self, run: int) -> Dataset:
        return self.datasets[self.runs[run - 1].dataset]

    def _commit(self, run: int | None) -> int:
        last = self.commits[-1][1] if self.commits else datetime.min.replace(tzinfo=UTC)
        self.commits.append((run, max(last, datetime.now(UTC))))
        return len(self.commits)

    @staticmethod
    def _bind(name: str, data: Dataset, keys: tuple[str, ...]) -> None:
        if data.keys not in {None, keys}:
            msg = f"dataset {name!r} was measured by {data.keys}, not by {keys}"
            raise DatasetMismatchError(msg)
        data.keys = keys

    @staticmethod
    def _current(versions: Sequence[Version]) -> Version | None:
        return next((v for v in versions if v.holds(None)), None)

    def _store(self, data: Dataset, found: Measured, commit: int) -> Decision:
        name = found.partition.name
        data.times.setdefault(name, found.time)
        versions = data.partitions.setdefault(name, [])
        current = self._current(versions)
        known = None
        if current is not None:
            known = Known(current.version, current.fingerprint, current.keys)
        decision = decide(known, found, _stored(current))
        if decision.change is Change.UNCHANGED:
            return decision
        keys = frozenset(m.key for m in decision.measurements)
        if decision.change is Change.ADDED and current is not None:
            current.keys |= keys
            current.fingerprint = united(current.fingerprint, found.fingerprint)
            version = current
        else:
            self._supersede(data, name, current, commit)
            measured = replace(found, time=data.times[name])
            version = Version(commit, measured, decision.version, found.fingerprint, keys)
            versions.append(version)
        self._add(data, version, decision.measurements, commit)
        return decision

    @staticmethod
    def _supersede(data: Dataset, name: str, current: Version | None, commit: int) -> None:
        if current is not None:
            current.superseded = commit
        for fact in data.facts:
            own = fact.partition == name and not isinstance(fact.measure, Recorded)
            if own and fact.holds(None):
                fact.superseded = commit

    @staticmethod
    def _add(
        data: Dataset, version: Version, measurements: Sequence[Measurement], commit: int
    ) -> None:
        name = version.measured.partition.name
        there = {(f.series, f.version) for f in data.facts if f.partition == name}
        for m in measurements:
            data.measures[m.segment, m.analyzer.canonical()] = m.analyzer
            if isinstance(m.outcome, Success):
                key = (m.segment, m.analyzer.statistic())
                version.states.setdefault(key, m.outcome.value)
                version.removed.discard(key)  # an added analyzer brings it back
            for flat in flatten(m.metric):
                told = outcome(flat)
                fact = Fact(commit, m.analyzer, m.segment, name, version.version, flat, told)
                if (fact.series, fact.version) not in there:
                    data.facts.append(fact)

    def write_record(self, record: Record) -> int:
        """Store values that users bring, each under a new version unless it is what is stored."""
        measured, what = record.partitions(), record.what
        if not measured:
            return 0
        keys = measured[0].partition.keys
        data = self.datasets.setdefault(record.dataset, Dataset(keys, None))
        self._bind(record.dataset, data, keys)
        commit, new = self._commit(None), 0
        for found in measured:
            name = found.partition.name
            data.times.setdefault(name, found.time)
            value, status = stored_value(float(record.numbers[name]))
            told = (value, status, record.weight, None)
            metric = Metric(Entity(what.entity), what.instance, what.metric, Success(0.0))
            fact = Fact(commit, what, record.segment, name, 1, metric, told)
            same = [f for f in data.facts if f.partition == name and f.series == fact.series]
            last = next((f for f in same if f.holds(None)), None)
            if last is not None:
                if last.outcome == told:
                    continue
                last.superseded, fact.version = commit, last.version + 1
            data.facts.append(fact)
            new += 1
        return new

    def write_verdict(self, dataset: str, case: Case, verdict: Verdict, run: int | None) -> int:
        """Store a verdict unless it is what was said last; return its id, or that of the last."""
        verdict.check()
        known = run is None or (0 < run <= len(self.runs) and self.runs[run - 1].dataset == dataset)
        if not known:
            msg = f"run={run}: there is no such run, or it is not of {dataset!r}"
            raise HistoryError(msg)
        data = self.datasets.setdefault(dataset, Dataset(None, None))
        last = next((k for k in data.verdicts if k.case == case and k.holds(None)), None)
        if last is not None and last.verdict == verdict:
            return last.id
        commit = self._commit(None)
        if last is not None:
            last.superseded = commit
        self._verdicts += 1
        data.verdicts.append(Kept(commit, self._verdicts, case, verdict, run))
        return self._verdicts


def _stored(current: Version | None) -> Callable[[Measurement], State | None]:
    def state(m: Measurement) -> State | None:
        assert current is not None
        key = (m.segment, m.analyzer.statistic())
        known = current.states.get(key)
        if key in current.removed and isinstance(m.outcome, Success):
            return m.outcome.value  # cleaned away: equal files are taken for equal content
        return known

    return state
