"""In-memory run store and verdicts: datasets, versions, facts and commits in dictionaries and lists."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    DatasetMismatchError,
    HistoryError,
    LeaseError,
    UnknownDatasetError,
)
from tidegauge.analyzers.core.metric import Entity, Metric, Success, flatten
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.runs.ledger import (
    ALL_PARTITIONS,
    SOURCE_VERSION,
    AnalyzerKeys,
    Case,
    Change,
    Decision,
    LedgerEntry,
    MeasuredPartition,
    Measurement,
    RunSpec,
    RunStatus,
    VerdictKey,
    decide,
    mismatch_text,
)
from tidegauge.repository.store.batch import is_new_version, outcome, same_metrics, stored_value
from tidegauge.repository.store.dimensions import Recorded, visible
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.labels import STATUS_OF
from tidegauge.repository.store.queries import AsOf, view_of
from tidegauge.repository.store.user_metrics import Record
from tidegauge.repository.store.verdicts import VERDICT_COLUMNS, Verdict, checked
from tidegauge.repository.store.windows import WindowScheme

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Lifetime:
    """A record that is valid from one commit until another."""

    commit: int
    superseded: int | None = field(default=None, kw_only=True)

    def holds(self, commit: int | None) -> bool:
        """Return whether the record is valid now, or was valid after a commit."""
        if commit is None:
            return self.superseded is None
        return self.commit <= commit and (self.superseded is None or self.superseded > commit)


@dataclass
class Fact(Lifetime):
    """A metric of one version of a partition; a replaced failure has the negative version number."""

    measure: Any
    segment: str
    partition: str
    version: int
    metric: Metric[float]
    outcome: tuple[float | None, str, float | None, str | None]

    @property
    def series(self) -> tuple[str, str, str, str]:
        """The series' key: segment, measure, name and instance."""
        return self.segment, self.measure.canonical(), self.metric.name, self.metric.instance


@dataclass
class Version(Lifetime):
    """One version of a partition, with its states by segment and statistic."""

    measured: MeasuredPartition
    version: int
    fingerprint: str | None
    keys: AnalyzerKeys
    states: dict[tuple[str, str], State] = field(default_factory=dict)
    removed: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Incident:
    """A group of anomalies: its last partition so far, whether it is over, and its labels."""

    last: str = ""
    over: bool = False
    said: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class MemoryAnomaly:
    """An anomaly and its labels, as pairs of a growing number and the label."""

    id: int
    found: bool = True
    said: list[tuple[int, str]] = field(default_factory=list)
    incident: Incident | None = None

    @property
    def status(self) -> str:
        """The status set by the last label of the anomaly or its incident; ``open`` if none."""
        said = [*self.said, *(self.incident.said if self.incident else ())]
        telling = [(n, STATUS_OF[label]) for n, label in said if STATUS_OF[label] is not None]
        return str(max(telling)[1]) if telling else "open"


@dataclass
class StoredVerdict(Lifetime):
    """A stored verdict, valid until there is a newer one on the same case."""

    id: int
    case: Case
    verdict: Verdict
    run: int | None


@dataclass
class MemoryDataset:
    """All data of a dataset; its keys are None until the first measurement."""

    keys: tuple[str, ...] | None
    source: str | None
    partitions: dict[str, list[Version]] = field(default_factory=dict)
    times: dict[str, datetime | None] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    absent: dict[str, list[Lifetime]] = field(default_factory=dict)
    segments: dict[tuple[str, ...], SegmentSet] = field(default_factory=dict)
    anomalies: dict[Any, MemoryAnomaly] = field(default_factory=dict)
    windows: set[WindowScheme] = field(default_factory=set)
    folded: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    measures: dict[tuple[str, str], AnyAnalyzer] = field(default_factory=dict)
    verdicts: list[StoredVerdict] = field(default_factory=list)


def place_of(data: MemoryDataset, partition: str) -> tuple[bool, float, str]:
    """Return the sort key of a partition: by time, those without one last, then by name."""
    time = data.times[partition]
    return time is None, time.timestamp() if time else 0.0, partition


class MemoryRunStore:
    """In-memory run store. Implements `tidegauge.analyzers.runs.ledger.RunStore`.

    Only `hold` locks. Other calls are not synchronized, and a batch that fails is not rolled back.

    Attributes
    ----------
    datasets : dict
    runs : list of RunSpec
    statuses : dict of int to RunStatus
    commits : list of tuple
        The run, if any, and the time of each commit, in order.
    """

    def __init__(self) -> None:
        self.datasets: dict[str, MemoryDataset] = {}
        self.runs: list[RunSpec] = []
        self.begun: list[int] = []
        self.statuses: dict[int, RunStatus] = {}
        self.commits: list[tuple[int | None, datetime]] = []
        self.horizon = 0
        self._leases: dict[str, threading.Lock] = {}
        self._fences = 0
        self._verdicts = 0

    def dataset(self, name: str) -> MemoryDataset:
        """Return an existing dataset; raise an `UnknownDatasetError` if there is none."""
        if name not in self.datasets:
            raise UnknownDatasetError(name, self.datasets)
        return self.datasets[name]

    def as_of(self, asked: AsOf) -> int | None:
        """Return the last commit that belongs to an as-of view; None for the current view."""
        view = view_of(asked)
        if view is None:
            return None
        if isinstance(view, datetime):
            found = sum(at <= view for _, at in self.commits)
        else:
            if not 1 <= view <= len(self.runs):
                msg = f"as_of={asked}: the run does not exist"
                raise HistoryError(msg)
            own = [n for n, (run, _) in enumerate(self.commits, 1) if run == view]
            found = own[-1] if own else self.begun[view - 1]
        if found < self.horizon:
            msg = f"as_of={asked!s} lies before the horizon: what was known then was cleaned away"
            raise HistoryError(msg)
        return found

    @contextmanager
    def hold(self, dataset: str, wait: float) -> Iterator[int]:
        """Hold the dataset's lock, so that no other run measures it; yield a fence."""
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
        """Open a run and return its id."""
        del fence  # a lock held by a thread is never taken over
        data = self.datasets.setdefault(spec.dataset, MemoryDataset(spec.keys, spec.source))
        if data.source and spec.source and data.source != spec.source and not spec.rename:
            raise DatasetMismatchError(mismatch_text(spec, data.source))
        self._bind(spec.dataset, data, spec.keys)
        data.source = spec.source or data.source
        self.runs.append(spec)
        self.begun.append(len(self.commits))
        self.statuses[len(self.runs)] = RunStatus.RUNNING
        return len(self.runs)

    def fail_run(self, spec: RunSpec, error: str) -> int:
        """Store a run that failed before it could be opened, and return its id."""
        del error  # never read here
        self.datasets.setdefault(spec.dataset, MemoryDataset(None, None))
        self.runs.append(spec)
        self.begun.append(len(self.commits))
        self.statuses[len(self.runs)] = RunStatus.FAILED
        return len(self.runs)

    def tag_run(self, run: int, tags: Mapping[str, str]) -> None:
        """Add tags to a run; its existing tags are kept."""
        spec = self.runs[run - 1]
        self.runs[run - 1] = replace(spec, tags={**tags, **spec.tags})

    def close_run(
        self,
        run: int,
        status: RunStatus,
        counts: Mapping[str, int],
        error: str | None = None,
        routes: Mapping[str, int] | None = None,
    ) -> None:
        """Close a run with its status."""
        del counts, error, routes  # never read here
        self.statuses[run] = status

    def ledger(self, dataset: str) -> Mapping[str, LedgerEntry]:
        """Return the current ledger entry of each partition, by name."""
        data = self.datasets.get(dataset)
        found = {}
        last_run, last_version = self._last_compared(dataset)
        for name, versions in data.partitions.items() if data else ():
            current = self._current(versions)
            if data is not None and current is not None:
                gone = any(a.holds(None) for a in data.absent.get(name, ()))
                run, _ = self.commits[current.commit - 1]
                tags = {} if run is None else self.runs[run - 1].tags
                compared = not gone and run is not None and last_run >= run
                own = tags.get(SOURCE_VERSION)
                found[name] = replace(
                    _entry(current),
                    gone=gone,
                    source_version=last_version if compared else own,
                )
        return found

    def failures(
        self, dataset: str, partitions: Collection[str]
    ) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return the errors of failed analyzers by partition and canonical analyzer."""
        data = self.datasets.get(dataset)
        found: dict[tuple[str, str], frozenset[str]] = {}
        for fact in data.facts if data else ():
            _, status, _, error = fact.outcome
            if fact.partition in partitions and status == "failed" and fact.holds(None):
                subject = (fact.partition, fact.measure.canonical())
                found[subject] = found.get(subject, frozenset()) | {str(error)}
        return found

    def _last_compared(self, dataset: str) -> tuple[int, str | None]:
        """Return the last run that compared all partitions with a version of the table, and that version."""
        for number in range(len(self.runs), 0, -1):
            spec = self.runs[number - 1]
            complete = self.statuses[number] is RunStatus.COMPLETE
            compared = complete and spec.selection in ALL_PARTITIONS
            if spec.dataset == dataset and compared and SOURCE_VERSION in spec.tags:
                return number, spec.tags[SOURCE_VERSION]
        return -1, None

    def newest_values(
        self, dataset: str, names: Collection[str]
    ) -> Mapping[tuple[str, str], float]:
        """Return the maximum newest value of each metric without a filter, by name and instance."""
        data = self.datasets.get(dataset)
        if data is None:
            return {}
        newest: dict[Any, tuple[Any, Fact]] = {}
        for fact in data.facts:
            place = place_of(data, fact.partition)
            wanted = fact.metric.name in names and getattr(fact.measure, "where", None) is None
            if wanted and fact.holds(None) and newest.get(fact.series, (place,))[0] <= place:
                newest[fact.series] = (place, fact)
        found: dict[tuple[str, str], float] = {}
        for _, fact in newest.values():
            value, key = fact.outcome[0], (fact.metric.name, fact.metric.instance)
            if value is not None:
                found[key] = max(value, found.get(key, value))
        return found

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the newest segment set for each tuple of columns."""
        data = self.datasets.get(dataset)
        return dict(data.segments) if data else {}

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Store segment sets of a higher generation than those stored."""
        self._commit(run)
        known = self._of(run).segments
        for segments in chosen:
            before = known.get(segments.columns)
            if before is None or before.generation < segments.generation:
                known[segments.columns] = segments

    def mark_gone(self, run: int, gone: Sequence[str], back: Sequence[str] = ()) -> None:
        """Mark partitions as gone, or as back."""
        commit, data = self._commit(run), self._of(run)
        for name in back:
            for absence in data.absent.get(name, ()):
                absence.superseded = absence.superseded or commit
        for name in gone:
            absences = data.absent.setdefault(name, [])
            if not any(a.holds(None) for a in absences):
                absences.append(Lifetime(commit))

    def commit_batch(self, run: int, found: Sequence[MeasuredPartition]) -> list[Decision]:
        """Store a batch and return the decision on each partition."""
        commit = self._commit(run)
        return [self._store(self._of(run), measured, commit) for measured in found]

    def _of(self, run: int) -> MemoryDataset:
        return self.datasets[self.runs[run - 1].dataset]

    def _commit(self, run: int | None) -> int:
        last = self.commits[-1][1] if self.commits else datetime.min.replace(tzinfo=UTC)
        self.commits.append((run, max(last, datetime.now(UTC))))
        return len(self.commits)

    @staticmethod
    def _bind(name: str, data: MemoryDataset, keys: tuple[str, ...]) -> None:
        if data.keys not in {None, keys}:
            msg = f"dataset {name!r} was measured by {data.keys}, not by {keys}"
            raise DatasetMismatchError(msg)
        data.keys = keys

    @staticmethod
    def _current(versions: Sequence[Version]) -> Version | None:
        return next((v for v in versions if v.holds(None)), None)

    def _store(self, data: MemoryDataset, found: MeasuredPartition, commit: int) -> Decision:
        name = found.partition.name
        data.times.setdefault(name, found.time)
        versions = data.partitions.setdefault(name, [])
        current = self._current(versions)
        known = None if current is None else _entry(current)
        decision = decide(known, found, _Stored(data, current))
        keys = AnalyzerKeys.from_measurements(decision.measurements)
        if current is not None and not is_new_version(decision):
            if decision.change is Change.ADDED:
                current.keys = current.keys.updated(keys)
            self._rename(data, current, decision.fingerprint)
            version = current
        else:
            self._supersede(data, name, current, commit)
            measured = replace(found, time=data.times[name])
            version = Version(commit, measured, decision.version, decision.fingerprint, keys)
            versions.append(version)
        self._add(data, version, decision.measurements, commit)
        version.removed -= {(m.segment, m.analyzer.statistic()) for m in decision.restored}
        return decision

    def replace_fingerprints(self, run: int, fingerprints: Mapping[str, str]) -> None:
        """Give current versions, by partition, the fingerprint of other files with the same content."""
        self._commit(run)
        data = self._of(run)
        for name, fingerprint in fingerprints.items():
            self._rename(data, self._current(data.partitions.get(name, [])), fingerprint)

    @staticmethod
    def _rename(data: MemoryDataset, version: Version | None, fingerprint: str | None) -> None:
        """Change the fingerprint of a version, and of the verdicts on its content."""
        if version is None or version.fingerprint == fingerprint:
            return
        of = (version.measured.partition.name, version.fingerprint)
        version.fingerprint = fingerprint
        if fingerprint is None:
            return
        for kept in data.verdicts:
            if (kept.case.partition, kept.case.fingerprint) == of:
                kept.case = replace(kept.case, fingerprint=fingerprint)

    @staticmethod
    def _supersede(data: MemoryDataset, name: str, current: Version | None, commit: int) -> None:
        if current is not None:
            current.superseded = commit
        for fact in data.facts:
            own = fact.partition == name and not isinstance(fact.measure, Recorded)
            if own and fact.holds(None):
                fact.superseded = commit

    @staticmethod
    def _add(
        data: MemoryDataset, version: Version, measurements: Sequence[Measurement], commit: int
    ) -> None:
        name = version.measured.partition.name
        _replace_failures(data, version, measurements, commit)
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
        """Store values, each as a new version unless unchanged; return the number of new ones."""
        measured, what = record.partitions(), record.metric
        if not measured:
            return 0
        keys = measured[0].partition.keys
        data = self.datasets.setdefault(record.dataset, MemoryDataset(keys, None))
        self._bind(record.dataset, data, keys)
        commit, new = self._commit(None), 0
        for found in measured:
            name = found.partition.name
            data.times.setdefault(name, found.time)
            value, status = stored_value(float(record.numbers[name]))
            told = (value, status, record.weight_of(name), None)
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
        """Store a verdict and return its id, or the id of an identical current one."""
        verdict.check()
        known = run is None or (0 < run <= len(self.runs) and self.runs[run - 1].dataset == dataset)
        if not known:
            msg = f"run={run}: the run does not exist, or it is not a run of {dataset!r}"
            raise HistoryError(msg)
        data = self.datasets.setdefault(dataset, MemoryDataset(None, None))
        last = next((k for k in data.verdicts if k.case == case and k.holds(None)), None)
        of = (case.name, case.partition)
        newest = [k for k in data.verdicts if (k.case.name, k.case.partition) == of][-1:]
        if last is not None and last.verdict == verdict and newest == [last]:
            return last.id
        commit = self._commit(None)
        if last is not None:
            last.superseded = commit
        self._verdicts += 1
        data.verdicts.append(StoredVerdict(commit, self._verdicts, case, verdict, run))
        return self._verdicts


def _replace_failures(
    data: MemoryDataset, version: Version, measurements: Sequence[Measurement], commit: int
) -> None:
    """End stored failures of a version that differ from new measurements of the same analyzer."""
    name = version.measured.partition.name
    errors = {
        (m.segment, m.analyzer.canonical(), flat.name, flat.instance): outcome(flat)[3]
        for m in measurements
        for flat in flatten(m.metric)
    }
    measured = {key[:2] for key in errors}
    ended = [
        fact
        for fact in data.facts
        if (fact.partition, fact.version) == (name, version.version)
        and fact.holds(None)
        and fact.outcome[1] == "failed"
        and fact.series[:2] in measured
        and errors.get(fact.series) != fact.outcome[3]
    ]
    for fact in ended:
        before = [
            f
            for f in data.facts
            if (f.partition, f.series, f.version) == (name, fact.series, -fact.version)
        ]
        data.facts = [f for f in data.facts if f not in before]
        fact.commit = min([fact.commit, *(f.commit for f in before)])
        fact.version, fact.superseded = -fact.version, commit


def _entry(version: Version) -> LedgerEntry:
    return LedgerEntry(
        version=version.version,
        fingerprint=version.fingerprint,
        analyzers=version.keys.measured,
        rows=version.measured.rows,
        commit=version.commit,
        failed=version.keys.failed,
        retries=version.keys.retries,
        schema=key_of(version.measured.schema),
    )


@dataclass
class _Stored:
    """The stored results of a partition's current version; see `StoredResults`."""

    data: MemoryDataset
    version: Version | None

    def state(self, measurement: Measurement) -> State | None:
        """Return the stored state; None if the measurement failed, or if it was cleaned away."""
        assert self.version is not None
        key = (measurement.segment, measurement.analyzer.statistic())
        return None if key in self.version.removed else self.version.states.get(key)

    def is_cleaned(self, measurement: Measurement) -> bool:
        """Return whether the state was stored and later cleaned away."""
        assert self.version is not None
        key = (measurement.segment, measurement.analyzer.statistic())
        return key in self.version.removed

    def has_metrics_of(self, measurement: Measurement) -> bool:
        """Return whether the measurement has the stored metrics or errors."""
        assert self.version is not None
        of = (measurement.segment, measurement.analyzer.canonical())
        version = (self.version.measured.partition.name, self.version.version)
        stored = {}
        for fact in self.data.facts:
            if (fact.partition, fact.version, fact.series[:2]) == (*version, of):
                value, status, _, error = fact.outcome
                stored[fact.series[2:]] = (value, status, error)
        return same_metrics(measurement.metric, stored)


class MemoryVerdicts:
    """The verdicts of a `Repository`, found by scanning all of them."""

    def __init__(self) -> None:
        self.store = MemoryRunStore()

    def keep_verdict(
        self,
        dataset: str,
        *,
        passed: bool,
        result: str,
        run: int | None = None,
        **key: Unpack[VerdictKey],
    ) -> int:
        """Store a verdict, as `Repository.keep_verdict` does."""
        return self.store.write_verdict(dataset, checked(Case(**key)), Verdict(passed, result), run)

    def verdict(self, dataset: str, *, as_of: AsOf = None, **key: Unpack[VerdictKey]) -> str | None:
        """Return the last verdict of a case."""
        case = checked(Case(**key))
        commit, data = self.store.as_of(as_of), self.store.datasets.get(dataset)
        every = data.verdicts if data else ()
        return next((k.verdict.result for k in every if k.case == case and k.holds(commit)), None)

    def verdicts(
        self,
        dataset: str,
        *,
        name: str | None = None,
        partition: str | None = None,
        passed: bool | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return the newest verdict of each case, newest first."""
        data, commit = self.store.dataset(dataset), self.store.as_of(as_of)
        wanted = [of if of is None else visible(of) for of in (name, partition)]
        rows = []
        for kept in data.verdicts:
            case, verdict = kept.case, kept.verdict
            pairs = zip((case.name, case.partition, verdict.passed), (*wanted, passed), strict=True)
            if kept.holds(commit) and all(b is None or a == b for a, b in pairs):
                time = data.times.get(case.partition)
                at = self.store.commits[kept.commit - 1][1]
                about = {**asdict(case), **vars(verdict), "dataset": dataset, "time": time}
                rows.append({**about, "id": kept.id, "checked_at": at, "run_id": kept.run})
        return frame_of(rows[::-1], VERDICT_COLUMNS)
