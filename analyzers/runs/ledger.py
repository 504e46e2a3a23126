"""Protocols between runs and a store: the ledger of measured partitions, and verdicts on them.

The runner accesses stores only through `RunStore`; `tidegauge.repository.store.runs` implements it. In all
stores, `decide` determines whether a measured partition is new, restated, extended or unchanged. A
`VerdictStore` stores the verdicts of rules on data, each under a `Case` as its key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, TypedDict, Unpack

from tidegauge.analyzers.core.errors import MetricError
from tidegauge.analyzers.core.metric import Failure, Metric, Success
from tidegauge.analyzers.core.partitions import (
    UNTRACKED_PREFIX,
    Partition,
    SegmentSet,
    TimeFormat,
    joined,
)
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.sql import is_folder

if TYPE_CHECKING:
    from tidegauge.analyzers.core.analyzer import AnyAnalyzer
    from tidegauge.analyzers.core.state import State


class RunStatus(StrEnum):
    """Status of a run."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


FAILED_RUNS = frozenset({RunStatus.FAILED, RunStatus.INTERRUPTED})
"""Statuses of runs that ended before completion."""


class Change(StrEnum):
    """Change of a measured partition relative to the ledger."""

    NEW = "new"
    RESTATED = "restated"
    ADDED = "added"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    source : str or None
        The table or path; None for a DataFrame.
    keys : tuple of str
        The partition columns.
    suite : str
        The suite's canonical JSON.
    selection : str
        The requested partitions.
    tags : mapping of str to str
        Names and values that are stored with the run.
    rename : bool
        True to allow the dataset's history to continue with another table.
    """

    dataset: str
    source: str | None
    keys: tuple[str, ...]
    suite: str = "{}"
    selection: str = "new"
    tags: Mapping[str, str] = field(default_factory=dict)
    rename: bool = False


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A ledger entry: the current version of a partition.

    Attributes
    ----------
    version : int
        Number of the version, from 1.
    fingerprint : str or None
        Fingerprint of the partition's files; None if it has none.
    analyzers : frozenset of str
        Keys (`analyzer_key`) of all analyzers that are not measured again while the files are the same.
    gone : bool
        True if the partition was missing from the table when last listed.
    source_version : str or None
        For a table with versions, the newest table version in which the partition is known to contain the
        measured rows.
    rows : int or None
        Number of rows; None if it was not measured.
    commit : int
        The commit that stored this version. Later commits have higher numbers.
    failed : frozenset of str
        The keys in ``analyzers`` whose analyzers failed because of the data.
    retries : frozenset of str
        Keys of analyzers that failed for another reason; the next run measures them again.
    schema : str or None
        Hash of the columns (`key_of` their canonical JSON); None if it was not stored.
    """

    version: int
    fingerprint: str | None
    analyzers: frozenset[str]
    gone: bool = False
    source_version: str | None = None
    rows: int | None = None
    commit: int = 0
    failed: frozenset[str] = frozenset()
    retries: frozenset[str] = frozenset()
    schema: str | None = None


@dataclass(frozen=True)
class Measurement:
    """The result of one analyzer on one partition, or on one segment of it.

    Attributes
    ----------
    analyzer : Analyzer
        The analyzer.
    outcome : Success or Failure
        The state, or the error.
    metric : Metric
        The metric of the state, or of the error.
    segment : str
        The segment's name, from non-time partition keys and column values; empty for all rows.
    segments : SegmentSet or None
        The segment set, for a segment of column values.
    """

    analyzer: AnyAnalyzer
    outcome: Success[State] | Failure
    metric: Metric[Any]
    segment: str = ""
    segments: SegmentSet | None = None

    @property
    def key(self) -> str:
        """The key under which the ledger records the measurement (`analyzer_key`)."""
        return analyzer_key(self.analyzer, self.segments)

    @property
    def error(self) -> MetricError | None:
        """The error of a failure; None if there is a state, or a metric without one."""
        if isinstance(self.outcome, Failure) and self.metric.failed:
            return self.outcome.error
        return None


@dataclass(frozen=True)
class MeasuredPartition:
    """The measurements of one partition.

    Attributes
    ----------
    partition : Partition
        The partition.
    time : datetime or None
        The partition's time, parsed from its keys.
    fingerprint : str or None
        Fingerprint of the partition's files; None if it has none.
    arrived_at : datetime or None
        The time at which the newest data of the partition was written.
    schema : str
        Names and types of the columns, as canonical JSON.
    rows : int
        Number of rows.
    measurements : tuple of Measurement
        The results of the analyzers.
    segment : str
        The segment's name from the non-time partition keys; empty if there are none.
    added_to : int or None
        For a backfill of missing analyzers: the version to which they are added. Otherwise None.
    """

    partition: Partition
    time: datetime | None
    fingerprint: str | None
    arrived_at: datetime | None
    schema: str
    rows: int
    measurements: tuple[Measurement, ...]
    segment: str = ""
    added_to: int | None = None

    @classmethod
    def from_measurements(
        cls,
        partition: Partition,
        measurements: Iterable[Measurement] = (),
        time_format: TimeFormat | None = None,
        *,
        time: datetime | None = None,
        segment: str | None = None,
        fingerprint: str | None = None,
        arrived_at: datetime | None = None,
        schema: str = "[]",
        rows: int = 0,
        added_to: int | None = None,
    ) -> MeasuredPartition:
        """Return a partition with its time and segment. The measurements get the segment as well.

        Parameters
        ----------
        partition : Partition
            The partition.
        measurements : iterable of Measurement
            The measurements. Their ``segment`` names column values only.
        time_format : TimeFormat or None
            Format of the keys with the time; None if the keys have no time.
        time : datetime, optional
            Overrides the time that is parsed from the keys.
        segment : str, optional
            Overrides the segment that is formed from the keys.
        fingerprint, arrived_at, schema, rows, added_to
            See the attributes.

        Examples
        --------
        >>> keys = Partition.from_name("ds=2013-02-08/country=US")
        >>> measured = MeasuredPartition.from_measurements(keys, (), TimeFormat(("ds",), ("%Y-%m-%d",)))
        >>> str(measured.time), measured.segment
        ('2013-02-08 00:00:00+00:00', 'country=US')
        """
        if segment is None:
            segment = time_format.segment_of(partition) if time_format else ""
        if segment:
            measurements = (replace(m, segment=joined(segment, m.segment)) for m in measurements)
        if time is None and time_format is not None:
            time = time_format.time_of(partition)
        return cls(
            partition,
            time,
            fingerprint,
            arrived_at,
            schema,
            rows,
            tuple(measurements),
            segment,
            added_to,
        )


@dataclass(frozen=True, slots=True)
class AnalyzerKeys:
    """Ledger keys of the analyzers of a partition version, by how their last measurement ended.

    Attributes
    ----------
    measured : frozenset of str
        Analyzers that are not measured again while the files are the same.
    failed : frozenset of str
        The measured analyzers that failed because of the data.
    retries : frozenset of str
        Analyzers that failed for another reason.

    Examples
    --------
    >>> keys = AnalyzerKeys.from_json('["a", "!b", "~c"]')
    >>> sorted(keys.measured), keys.failed, keys.retries
    (['a', 'c'], frozenset({'c'}), frozenset({'b'}))
    """

    measured: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    retries: frozenset[str] = frozenset()

    @classmethod
    def from_measurements(cls, measurements: Sequence[Measurement]) -> AnalyzerKeys:
        """Return the keys of measurements. A key counts as failed if it failed in any segment."""
        keys = frozenset(m.key for m in measurements)
        errors = [(m.key, m.error) for m in measurements if m.error is not None]
        retries = frozenset(key for key, error in errors if error.is_retriable)
        return cls(keys - retries, frozenset(key for key, _ in errors) - retries, retries)

    @classmethod
    def from_json(cls, keys_json: str) -> AnalyzerKeys:
        """Read the keys as `to_json` writes them."""
        stored = json.loads(keys_json)
        failed = frozenset(key[1:] for key in stored if key[0] == _FAILED_MARK)
        retries = frozenset(key[1:] for key in stored if key[0] == _RETRY_MARK)
        measured = frozenset(key for key in stored if key[0] not in {_FAILED_MARK, _RETRY_MARK})
        return cls(measured | failed, failed, retries)

    def to_json(self) -> str:
        """Return the keys as canonical JSON; a prefix marks the keys of failed analyzers."""
        failed = {_FAILED_MARK + key for key in self.failed}
        retries = {_RETRY_MARK + key for key in self.retries}
        return canonical_json(sorted((self.measured - self.failed) | failed | retries))

    def updated(self, later: AnalyzerKeys) -> AnalyzerKeys:
        """Return these keys after later measurements of some analyzers."""
        remeasured = later.measured | later.retries
        return AnalyzerKeys(
            (self.measured - later.retries) | later.measured,
            (self.failed - remeasured) | later.failed,
            (self.retries - remeasured) | later.retries,
        )

    def without(self, keys: Collection[str]) -> AnalyzerKeys:
        """Return these keys without the given keys."""
        gone = frozenset(keys)
        return AnalyzerKeys(self.measured - gone, self.failed - gone, self.retries - gone)


_FAILED_MARK = "~"
_RETRY_MARK = "!"
"""Prefixes of stored keys. They cannot begin a key, since keys are hexadecimal hashes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The version of a measured partition, and the results to store for it.

    Attributes
    ----------
    change : Change
        How the partition changed.
    version : int
        The partition's new version, or its current version if that stays.
    measurements : tuple of Measurement
        The measurements to store under this version. For an unchanged partition, these are analyzers that
        failed again, perhaps with another error.
    fingerprint : str or None
        The fingerprint to store with this version.
    restored : tuple of Measurement
        Repeated measurements whose stored states were removed by a cleanup: only the states are stored again.
    """

    change: Change
    version: int
    measurements: tuple[Measurement, ...]
    fingerprint: str | None = None
    restored: tuple[Measurement, ...] = ()


def analyzer_key(analyzer: AnyAnalyzer, segments: SegmentSet | None = None) -> str:
    """Return the ledger's key of an analyzer on whole partitions, or on the segments of a set."""
    return ledger_key(analyzer.canonical(), segments)


def ledger_key(canonical: str, segments: SegmentSet | None = None) -> str:
    """Return the ledger's key for an analyzer's canonical JSON; see `analyzer_key`."""
    if segments is None:
        return key_of(canonical)
    identity = {
        "analyzer": canonical,
        "segments": segments.columns,
        "generation": segments.generation,
    }
    return key_of(canonical_json(identity))


class StoredResults(Protocol):
    """The stored results of a partition's current version."""

    def state(self, measurement: Measurement) -> State | None:
        """Return the stored state; None if the measurement failed or the state was removed by a cleanup."""

    def is_cleaned(self, measurement: Measurement) -> bool:
        """Return whether the state was stored and later removed by a cleanup."""

    def has_metrics_of(self, measurement: Measurement) -> bool:
        """Return whether the stored metrics or errors equal the measurement's."""


def decide(
    previous: LedgerEntry | None, measured: MeasuredPartition, stored: StoredResults
) -> Decision:
    """Decide whether a measured partition is new, restated, extended or unchanged.

    The version stays if the content is the same: the files are the same, or different files gave the same
    number of rows, columns, states and metrics. Analyzers that are new, or failed before, are then added
    to the version. If a repeated measurement disagrees with the stored state, the content has changed even
    if the files have not, and the partition gets a new version. After a retriable failure on the same
    files, the stored state stays, since such a failure does not depend on the content.

    Parameters
    ----------
    previous : LedgerEntry or None
        The ledger entry, read in the same transaction; None for a new partition.
    measured : MeasuredPartition
        The new measurements.
    stored : StoredResults
        The stored results of the current version.
    """
    if previous is None:
        return Decision(Change.NEW, 1, measured.measurements, measured.fingerprint)
    if measured.added_to is not None and measured.added_to != previous.version:
        # Another writer has superseded the version; the next run measures the new one.
        return Decision(Change.UNCHANGED, previous.version, (), previous.fingerprint)
    succeeded_before = previous.analyzers - previous.failed
    remeasured = [m for m in measured.measurements if m.key in succeeded_before]
    if measured.added_to is not None or _same_files(measured, previous):
        is_same = all(_agrees(m, stored) for m in remeasured)
    else:
        is_same = _same_content(measured, previous, remeasured, stored)
    if not is_same:
        return Decision(
            Change.RESTATED, previous.version + 1, measured.measurements, measured.fingerprint
        )
    added = tuple(m for m in measured.measurements if m.key not in succeeded_before)
    restored = tuple(
        m for m in remeasured if isinstance(m.outcome, Success) and stored.is_cleaned(m)
    )
    keys = AnalyzerKeys.from_measurements(added)
    failed_again = (previous.failed | previous.retries) & (keys.failed | keys.retries)
    is_added = bool((keys.measured | keys.retries) - failed_again)
    change = Change.ADDED if is_added else Change.UNCHANGED
    fingerprint = merge_fingerprints(previous.fingerprint, measured.fingerprint)
    return Decision(change, previous.version, added, fingerprint, restored)


def _same_files(measured: MeasuredPartition, previous: LedgerEntry) -> bool:
    return measured.fingerprint is not None and not differ(
        measured.fingerprint, previous.fingerprint
    )


def _same_content(
    measured: MeasuredPartition,
    previous: LedgerEntry,
    remeasured: Sequence[Measurement],
    stored: StoredResults,
) -> bool:
    """Return whether different files gave the same results, judged by analyzers that succeeded before.

    All analyzers of the version must be measured again; otherwise the version would keep results of the
    old files. An analyzer that failed because of the data must fail again: a value means that the data was
    repaired. Data without files to compare, such as a DataFrame, is new content each time.
    """
    fingerprints = (measured.fingerprint, previous.fingerprint)
    if any(
        fingerprint is None or fingerprint.startswith(UNTRACKED_PREFIX)
        for fingerprint in fingerprints
    ):
        return False
    return (
        previous.analyzers <= {m.key for m in measured.measurements}
        and previous.rows in {None, measured.rows}
        and previous.schema in {None, key_of(measured.schema)}
        and any(isinstance(m.outcome, Success) for m in remeasured)
        and all(_agrees_without_files(m, stored) for m in remeasured)
        and all(m.error is not None for m in measured.measurements if m.key in previous.failed)
    )


ALL_PARTITIONS = ("new", "all")
"""Selections that make a run compare all partitions of a table with the ledger."""

SOURCE_VERSION = "source_version"
"""Name of the run tag whose value is the version of the table."""


def own_part(fingerprint: str | None) -> str | None:
    """Return a partition's fingerprint without the fingerprints of referenced tables."""
    return None if fingerprint is None else fingerprint.partition(_REFERENCE_SEPARATOR)[0]


def with_references(fingerprint: str | None, tables: Mapping[str, str]) -> str | None:
    """Append the fingerprints of referenced tables to a partition's fingerprint."""
    if fingerprint is None or not tables:
        return fingerprint
    return f"{fingerprint}{_REFERENCE_SEPARATOR}{canonical_json(dict(tables))}"


def table_fingerprints(fingerprint: str | None) -> dict[str, str]:
    """Return the fingerprints of referenced tables, by table, from a partition's fingerprint."""
    _, _, tables = (fingerprint or "").partition(_REFERENCE_SEPARATOR)
    return dict(json.loads(tables)) if tables else {}


def differ(a: str | None, b: str | None) -> bool:
    """Return whether fingerprints differ; referenced tables are compared only if both include them.

    Therefore, if you add an analyzer that reads another table, the partitions are not measured again.

    Examples
    --------
    >>> old, new = with_references("p", {"r": "1"}), with_references("p", {"r": "2", "s": "1"})
    >>> differ(old, new), differ(old, "p"), differ("p", "q"), differ(None, "p")
    (True, False, True, True)
    """
    if a is None or b is None:
        return a is not b
    tables_a, tables_b = table_fingerprints(a), table_fingerprints(b)
    return own_part(a) != own_part(b) or any(
        tables_a[table] != tables_b[table] for table in tables_a.keys() & tables_b.keys()
    )


def merge_fingerprints(stored: str | None, measured: str | None) -> str | None:
    """Merge the fingerprints of a remeasured version: the new files, and all referenced tables.

    Parameters
    ----------
    stored : str or None
        The fingerprint in the ledger.
    measured : str or None
        The fingerprint of the new measurement.
    """
    if measured is None or stored is None:
        return stored if measured is None else measured
    return with_references(
        own_part(measured),
        table_fingerprints(stored) | table_fingerprints(measured),
    )


_REFERENCE_SEPARATOR = "+"


def _agrees(measurement: Measurement, stored: StoredResults) -> bool:
    """Return whether a repeated measurement agrees with the stored results of the same files."""
    state = stored.state(measurement)
    match measurement.outcome:
        case Success(value):
            # A state that was cleaned away counts as equal, since equal files have equal content.
            return stored.is_cleaned(measurement) if state is None else value.agrees_with(state)
        case Failure(error):
            return state is None or error.is_retriable


def _agrees_without_files(measurement: Measurement, stored: StoredResults) -> bool:
    """Return whether a measurement of different files agrees with the stored results.

    The states are compared or, if a state is missing (as for a failure), the metrics.
    """
    state = stored.state(measurement)
    if isinstance(measurement.outcome, Success) and state is not None:
        return measurement.outcome.value.agrees_with(state)
    return stored.has_metrics_of(measurement)


def stored_error(error: MetricError) -> str:
    """Return an error in its stored form: the name of its class, and the message.

    Examples
    --------
    >>> stored_error(MetricError("no rows"))
    'MetricError: no rows'
    """
    return f"{type(error).__name__}: {error}"


def error_reason(error: str) -> str:
    """Return a stored error without Spark's suggestions, whose order differs from plan to plan.

    Examples
    --------
    >>> error_reason("no column `e_mail`. Did you mean one of the following? [`ds`, `age`]. SQLSTATE: 42703")
    'no column `e_mail`.'
    """
    return error.partition(" Did you mean")[0]


def is_same_source(stored: str | None, current: str | None) -> bool:
    """Return whether two names mean the same table. A missing name matches any table.

    A folder can be named relative to different working directories. So if one name is relative or
    contains ``..``, the names match if the shorter path is the end of the longer one.

    Examples
    --------
    >>> is_same_source("data/orders/", "/srv/shop/data/orders"), is_same_source("/a/orders", "/b/orders")
    (True, False)
    """
    if not stored or not current or stored == current:
        return True
    if not (is_folder(stored) and is_folder(current)):
        return False
    paths = [PurePosixPath(name) for name in (stored, current)]
    if all(path.is_absolute() or "://" in str(path) for path in paths):
        return paths[0] == paths[1]
    if not any(path.is_absolute() or ".." in path.parts for path in paths):
        return paths[0] == paths[1]
    short, long = sorted(
        ([part for part in path.parts if part not in ("..", "/")] for path in paths), key=len
    )
    return bool(short) and long[-len(short) :] == short


def mismatch_text(spec: RunSpec, source: str) -> str:
    """Return the message of a `DatasetMismatchError`."""
    return (
        f"dataset {spec.dataset!r} holds the history of {source!r}, not of {spec.source!r};"
        " choose another name or, if the table was renamed or moved, continue its history with"
        " --rename (in Python: rename=True)"
    )


class RunStore(Protocol):
    """Protocol of the store that runs write to."""

    def hold(self, dataset: str, wait: float) -> AbstractContextManager[int]:
        """Acquire the dataset's exclusive lease for the duration of a context.

        The context value is a fencing token for `open_run`, higher than all earlier tokens.

        Raises
        ------
        LeaseError
            If another run still holds the lease after ``wait`` seconds.
        """

    def open_run(self, spec: RunSpec, fence: int | None = None) -> int:
        """Start a run and return its id; with a fencing token, commits fail once the lease is lost.

        Raises
        ------
        DatasetMismatchError
            If the dataset's history belongs to another table and ``rename`` is not set.
        """

    def fail_run(self, spec: RunSpec, error: str) -> int:
        """Store a run that failed before it could be opened, and return its id.

        If the dataset is new, its table and partition columns stay undecided.
        """

    def tag_run(self, run: int, tags: Mapping[str, str]) -> None:
        """Add tags to a run; existing tags are kept."""

    def ledger(self, dataset: str) -> Mapping[str, LedgerEntry]:
        """Return the ledger: the current entry of each partition, by name."""

    def failures(
        self, dataset: str, partitions: Collection[str]
    ) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return the errors of failed analyzers in all segments, by partition and canonical analyzer."""

    def newest_values(
        self, dataset: str, names: Collection[str]
    ) -> Mapping[tuple[str, str], float]:
        """Return the newest values of the named metrics, by name and instance.

        If a metric has several segments, the greatest value is returned. Metrics with a filter, and
        metrics without a value, are left out.
        """

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the latest segment set for each set of columns that has one."""

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Store segment sets; keep a set if another writer has stored it in the meantime."""

    def commit_batch(self, run: int, batch: Sequence[MeasuredPartition]) -> list[Decision]:
        """Commit a batch atomically and return the decision for each partition."""

    def replace_fingerprints(self, run: int, fingerprints: Mapping[str, str]) -> None:
        """Replace the fingerprints of current versions whose files changed but not their content."""

    def mark_gone(self, run: int, gone: Sequence[str], returned: Sequence[str] = ()) -> None:
        """Mark partitions as gone from the table, and others as present again."""

    def close_run(
        self,
        run: int,
        status: RunStatus,
        counts: Mapping[str, int],
        error: str | None = None,
        routes: Mapping[str, int] | None = None,
    ) -> None:
        """End a run with its final status, its counts, and its numbers of measurements by route.

        Without ``routes``, or if it is empty, none are stored.
        """


class VerdictKey(TypedDict):
    """The fields of a `Case`, as keyword arguments."""

    name: str
    specification: str
    fingerprint: str
    partition: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Case:
    """The key of a verdict: everything that the verdict depends on.

    Attributes
    ----------
    name : str
        Name of the check.
    specification : str
        Hash of the rules, fixes and policies, and of the source code of users' functions.
    fingerprint : str
        Fingerprint of the data.
    partition : str
        Name of the partition; empty for all of the data.
    """

    name: str
    specification: str
    fingerprint: str
    partition: str = ""

    def keywords(self) -> VerdictKey:
        """Return the fields as keyword arguments of a `VerdictStore`."""
        return {
            "name": self.name,
            "specification": self.specification,
            "fingerprint": self.fingerprint,
            "partition": self.partition,
        }


class VerdictStore(Protocol):
    """A store of verdicts by case; a `Repository` is one."""

    def keep_verdict(
        self,
        dataset: str,
        *,
        passed: bool,
        result: str,
        run: int | None = None,
        **key: Unpack[VerdictKey],
    ) -> int:
        """Store a verdict and return its id. It supersedes the last verdict of the same case."""

    def verdict(self, dataset: str, **key: Unpack[VerdictKey]) -> str | None:
        """Return the last verdict of a case, or None."""
