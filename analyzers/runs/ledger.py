"""The protocols between runs and a store: the ledger of measured partitions, and verdicts on them.

The runner accesses stores only through `RunStore`; `tidegauge.repository.store.runs` implements it. The
decision whether a measured partition is new, restated, added to or unchanged is made here, in `decide`,
for all stores. Verdicts of rules on data have a
key, and a `VerdictStore` keeps them.
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
"""Statuses of runs that ended before they were complete."""


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
    source : str or None
        The table or path; None for a DataFrame.
    keys : tuple of str
        The partition columns.
    suite : str
        The suite's canonical JSON.
    selection : str
        The requested partitions.
    tags : mapping of str to str
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
    fingerprint : str or None
    analyzers : frozenset of str
        Keys of all analyzers that are not measured on it again while its files are the same
        (`analyzer_key`).
    gone : bool
        True if it was missing from the table when last listed.
    source_version : str or None
        The newest version of the table in which its rows are known to be those that were measured, where
        the table has versions.
    rows : int or None
        Its number of rows; None if that was not measured.
    commit : int
        The commit by which this version was stored: a higher one is later.
    failed : frozenset of str
        Keys, among the analyzers, of those that failed because of the data.
    retries : frozenset of str
        Keys of analyzers that failed for another reason: the next run measures them again.
    schema : str or None
        The hash of its columns (`key_of` the canonical JSON); None if that was not stored.
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
    outcome : Success or Failure
        The state, or the error.
    metric : Metric
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
    time : datetime or None
        The partition's time, parsed from its keys.
    fingerprint : str or None
    arrived_at : datetime or None
    schema : str
        Names and types of the columns, as canonical JSON.
    rows : int
    measurements : tuple of Measurement
    segment : str
        The segment's name from the non-time partition keys; empty if there are none.
    added_to : int or None
        For a backfill of missing analyzers only: the version they are added to.
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
        """Return a partition with its time and segment, which its measurements get as well.

        Parameters
        ----------
        partition : Partition
        measurements : iterable of Measurement
            Their segments are those of column values alone.
        time_format : TimeFormat or None
            The keys that hold the time; None if none does.
        time, segment : datetime and str, optional
            In place of those that the keys give.
        fingerprint, arrived_at, schema, rows, added_to
            As the attributes.

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
        Those that are not measured again while the files are the same.
    failed : frozenset of str
        Those among the measured that failed because of the data.
    retries : frozenset of str
        Those that failed for another reason.

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
        """Return the keys of measurements; a key fails if it fails in any segment."""
        keys = frozenset(m.key for m in measurements)
        errors = [(m.key, m.error) for m in measurements if m.error is not None]
        retries = frozenset(key for key, error in errors if error.is_retriable)
        return cls(keys - retries, frozenset(key for key, _ in errors) - retries, retries)

    @classmethod
    def from_json(cls, text: str) -> AnalyzerKeys:
        """Read the keys as `to_json` writes them."""
        stored = json.loads(text)
        failed = frozenset(key[1:] for key in stored if key[0] == _FAILED)
        retries = frozenset(key[1:] for key in stored if key[0] == _RETRIED)
        measured = frozenset(key for key in stored if key[0] not in {_FAILED, _RETRIED})
        return cls(measured | failed, failed, retries)

    def to_json(self) -> str:
        """Return the keys as canonical JSON; a mark tells those that failed."""
        failed = {_FAILED + key for key in self.failed}
        retries = {_RETRIED + key for key in self.retries}
        return canonical_json(sorted((self.measured - self.failed) | failed | retries))

    def updated(self, later: AnalyzerKeys) -> AnalyzerKeys:
        """Return these keys after later measurements of some analyzers."""
        again = later.measured | later.retries
        return AnalyzerKeys(
            (self.measured - later.retries) | later.measured,
            (self.failed - again) | later.failed,
            (self.retries - again) | later.retries,
        )

    def without(self, keys: Collection[str]) -> AnalyzerKeys:
        """Return these keys without some."""
        gone = frozenset(keys)
        return AnalyzerKeys(self.measured - gone, self.failed - gone, self.retries - gone)


_FAILED = "~"
_RETRIED = "!"
"""Marks of stored keys; those of analyzers are hexadecimal hashes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The version of a measured partition, and the results to store for it.

    Attributes
    ----------
    change : Change
    version : int
        The partition's version from here on.
    measurements : tuple of Measurement
        The measurements to store under this version. An unchanged partition has some if analyzers
        failed again, perhaps with another error.
    fingerprint : str or None
        The fingerprint of this version from here on.
    restored : tuple of Measurement
        The measurements whose states were cleaned away: only these are to be stored again.
    """

    change: Change
    version: int
    measurements: tuple[Measurement, ...]
    fingerprint: str | None = None
    restored: tuple[Measurement, ...] = ()


def analyzer_key(analyzer: AnyAnalyzer, segments: SegmentSet | None = None) -> str:
    """Return the ledger's key of an analyzer, measured on the whole partition or by a segment set."""
    return ledger_key(analyzer.canonical(), segments)


def ledger_key(canonical: str, segments: SegmentSet | None = None) -> str:
    """Return the ledger's key for an analyzer's canonical JSON; see `analyzer_key`."""
    if segments is None:
        return key_of(canonical)
    of = {"analyzer": canonical, "segments": segments.columns, "generation": segments.generation}
    return key_of(canonical_json(of))


class StoredResults(Protocol):
    """The stored results of a partition's current version."""

    def state(self, measurement: Measurement) -> State | None:
        """Return the stored state; None if the measurement failed, or if the state was cleaned away."""

    def is_cleaned(self, measurement: Measurement) -> bool:
        """Return whether the state was stored and later cleaned away."""

    def has_metrics_of(self, measurement: Measurement) -> bool:
        """Return whether the stored metrics, or errors, are those of the measurement."""


def decide(known: LedgerEntry | None, found: MeasuredPartition, stored: StoredResults) -> Decision:
    """Decide whether a measured partition is new, restated, added to or unchanged.

    The version stays if the content is the same: if the files are, or if other files gave the same
    number of rows, columns, states and metrics. Analyzers that were not measured before, or failed, are
    then added to it. If a repeated measurement disagrees with the stored state, the content has changed,
    even if the files have not, and the partition gets a new version. A failure that a retry can cure says
    nothing about the content of the same files, so the stored state stays.

    Parameters
    ----------
    known : LedgerEntry or None
        The ledger entry, read in the same transaction.
    found : MeasuredPartition
    stored : StoredResults
    """
    if known is None:
        return Decision(Change.NEW, 1, found.measurements, found.fingerprint)
    if found.added_to is not None and found.added_to != known.version:
        # It was superseded meanwhile; the next run measures it.
        return Decision(Change.UNCHANGED, known.version, (), known.fingerprint)
    settled = known.analyzers - known.failed
    again = [m for m in found.measurements if m.key in settled]
    if found.added_to is not None or _same_files(found, known):
        is_same = all(_agrees(m, stored) for m in again)
    else:
        is_same = _same_content(found, known, again, stored)
    if not is_same:
        return Decision(Change.RESTATED, known.version + 1, found.measurements, found.fingerprint)
    added = tuple(m for m in found.measurements if m.key not in settled)
    restored = tuple(m for m in again if isinstance(m.outcome, Success) and stored.is_cleaned(m))
    keys = AnalyzerKeys.from_measurements(added)
    failed_again = (known.failed | known.retries) & (keys.failed | keys.retries)
    is_added = bool((keys.measured | keys.retries) - failed_again)
    change = Change.ADDED if is_added else Change.UNCHANGED
    fingerprint = merge_fingerprints(known.fingerprint, found.fingerprint)
    return Decision(change, known.version, added, fingerprint, restored)


def _same_files(found: MeasuredPartition, known: LedgerEntry) -> bool:
    return found.fingerprint is not None and not differ(found.fingerprint, known.fingerprint)


def _same_content(
    found: MeasuredPartition,
    known: LedgerEntry,
    again: Sequence[Measurement],
    stored: StoredResults,
) -> bool:
    """Return whether other files gave the same results, by the analyzers that did not fail before.

    All analyzers of the version must be measured again: the results of the others would be those of
    other files. An analyzer that failed because of the data must fail again: if it has a value, somebody
    repaired the data. Data without files to compare, such as a DataFrame, is new content each time.
    """
    fingerprints = (found.fingerprint, known.fingerprint)
    if any(text is None or text.startswith(UNTRACKED_PREFIX) for text in fingerprints):
        return False
    return (
        known.analyzers <= {m.key for m in found.measurements}
        and known.rows in {None, found.rows}
        and known.schema in {None, key_of(found.schema)}
        and any(isinstance(m.outcome, Success) for m in again)
        and all(_agrees_without_files(m, stored) for m in again)
        and all(m.error is not None for m in found.measurements if m.key in known.failed)
    )


ALL_PARTITIONS = ("new", "all")
"""Selections by which a run compares all partitions of a table with the ledger."""

SOURCE_VERSION = "source_version"
"""The tag of runs that names the version of the table."""


def own_part(fingerprint: str | None) -> str | None:
    """Return a partition's fingerprint without those of referenced tables."""
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

    So an analyzer that reads another table can be added without measuring everything again.

    Examples
    --------
    >>> one, other = with_references("p", {"r": "1"}), with_references("p", {"r": "2", "s": "1"})
    >>> differ(one, other), differ(one, "p"), differ("p", "q"), differ(None, "p")
    (True, False, True, True)
    """
    if a is None or b is None:
        return a is not b
    ours, theirs = table_fingerprints(a), table_fingerprints(b)
    return own_part(a) != own_part(b) or any(
        ours[table] != theirs[table] for table in ours.keys() & theirs.keys()
    )


def merge_fingerprints(known: str | None, found: str | None) -> str | None:
    """Merge the fingerprints of a remeasured version: the new files, and all referenced tables."""
    if found is None or known is None:
        return known if found is None else found
    return with_references(
        own_part(found),
        table_fingerprints(known) | table_fingerprints(found),
    )


_REFERENCE_SEPARATOR = "+"


def _agrees(found: Measurement, stored: StoredResults) -> bool:
    """Return whether a repeated measurement agrees with what is stored of the same files."""
    state = stored.state(found)
    match found.outcome:
        case Success(value):
            # A state that was cleaned away is taken to agree: equal files have equal content.
            return stored.is_cleaned(found) if state is None else value.agrees_with(state)
        case Failure(error):
            return state is None or error.is_retriable


def _agrees_without_files(found: Measurement, stored: StoredResults) -> bool:
    """Return whether a measurement of other files shows the content that is stored.

    It does by its state; where there is none, as of a failure, by its metrics.
    """
    state = stored.state(found)
    if isinstance(found.outcome, Success) and state is not None:
        return found.outcome.value.agrees_with(state)
    return stored.has_metrics_of(found)


def stored_error(error: MetricError) -> str:
    """Return an error as a store keeps it: with its class.

    Examples
    --------
    >>> stored_error(MetricError("no rows"))
    'MetricError: no rows'
    """
    return f"{type(error).__name__}: {error}"


def error_reason(text: str) -> str:
    """Return a stored error without Spark's suggestions, whose order differs from plan to plan.

    Examples
    --------
    >>> error_reason("no column `e_mail`. Did you mean one of the following? [`ds`, `age`]. SQLSTATE: 42703")
    'no column `e_mail`.'
    """
    return text.partition(" Did you mean")[0]


def is_same_source(stored: str | None, given: str | None) -> bool:
    """Return whether two names are of one table; an unknown one is of any.

    A folder may be named from another working directory: of an absolute and a relative name, or one that
    leads out of the folder, the shorter has to be the end of the longer.

    Examples
    --------
    >>> is_same_source("data/orders/", "/srv/shop/data/orders"), is_same_source("/a/orders", "/b/orders")
    (True, False)
    """
    if not stored or not given or stored == given:
        return True
    if not (is_folder(stored) and is_folder(given)):
        return False
    places = [PurePosixPath(name) for name in (stored, given)]
    if all(place.is_absolute() or "://" in str(place) for place in places):
        return places[0] == places[1]
    if not any(place.is_absolute() or ".." in place.parts for place in places):
        return places[0] == places[1]
    short, long = sorted(
        ([part for part in place.parts if part not in ("..", "/")] for place in places), key=len
    )
    return bool(short) and long[-len(short) :] == short


def mismatch_text(spec: RunSpec, source: str) -> str:
    """Return the message of a `DatasetMismatchError`."""
    return (
        f"dataset {spec.dataset!r} holds the history of {source!r}, not of {spec.source!r};"
        " choose another name; if the table was renamed or moved, go on with its history by"
        " --rename (in Python: rename=True)"
    )


class RunStore(Protocol):
    """Protocol of the store that runs write to."""

    def hold(self, dataset: str, wait: float) -> AbstractContextManager[int]:
        """Acquire the dataset's exclusive lease for the duration of a context.

        The context value is a fencing token for `open_run`, higher than that of any earlier holder.

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

        A dataset that is new is bound to no table and no partition columns yet.
        """

    def tag_run(self, run: int, tags: Mapping[str, str]) -> None:
        """Add tags to a run; those that it has are kept."""

    def ledger(self, dataset: str) -> Mapping[str, LedgerEntry]:
        """Return the ledger: the current entry of each partition, by name."""

    def failures(
        self, dataset: str, partitions: Collection[str]
    ) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return the errors of failed analyzers by partition and canonical analyzer, of all segments."""

    def newest_values(
        self, dataset: str, names: Collection[str]
    ) -> Mapping[tuple[str, str], float]:
        """Return the newest values of metrics of these names, by name and instance.

        Of several segments the greatest value. Metrics with a filter, and those without a value, are
        left out.
        """

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the latest segment set for each set of columns that has one."""

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Store segment sets; one that another writer stored in the meantime is kept."""

    def commit_batch(self, run: int, found: Sequence[MeasuredPartition]) -> list[Decision]:
        """Commit a batch atomically and return the decision for each partition."""

    def replace_fingerprints(self, run: int, fingerprints: Mapping[str, str]) -> None:
        """Give current versions, by partition, the fingerprint of other files with the same content."""

    def mark_gone(self, run: int, gone: Sequence[str], back: Sequence[str] = ()) -> None:
        """Mark partitions as gone from the table, and others as present again."""

    def close_run(
        self, run: int, status: RunStatus, counts: Mapping[str, int], error: str | None = None
    ) -> None:
        """End a run with its final status and counts."""


class VerdictKey(TypedDict):
    """The fields of a `Case`, as keyword arguments."""

    name: str
    specification: str
    fingerprint: str
    partition: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Case:
    """The key of a verdict: everything that it depends on.

    Attributes
    ----------
    name : str
        Of the check.
    specification : str
        Hash of the rules, fixes and policies, and of the source of users' functions.
    fingerprint : str
        Of the data.
    partition : str
        Its name; empty for all of the data.
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
        """Store a verdict, which supersedes the last one of its case; return its id."""

    def verdict(self, dataset: str, **key: Unpack[VerdictKey]) -> str | None:
        """Return the last verdict of a case, or None."""
