"""What a run hands to a store, and what it asks of one.

The runner knows stores only through `RunStore`; `repository.store` and `repository.memory` implement
it. What becomes of a measured partition is decided here, in `decide`, for all of them alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from analyzers.analyzer import Analyzer
from analyzers.description import canonical_json, key_of
from analyzers.metric import Failure, Metric, Success
from analyzers.partitions import Partition
from analyzers.segments import SegmentSet
from analyzers.state import State

AnyAnalyzer = Analyzer[Any, Any]


class RunStatus(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Change(StrEnum):
    """What a measured partition was to the repository."""

    NEW = "new"
    RESTATED = "restated"
    ADDED = "added"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class RunSpec:
    """What a run is about.

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
        Which partitions were asked for.
    tags : mapping of str to str
    rename : bool
        Whether the dataset may go on with another table.
    """

    dataset: str
    source: str | None
    keys: tuple[str, ...]
    suite: str = "{}"
    selection: str = "new"
    tags: Mapping[str, str] = field(default_factory=dict)
    rename: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger says of a partition's current version.

    Attributes
    ----------
    version : int
    fingerprint : str or None
    analyzers : frozenset of str
        Keys of all analyzers that were measured on it (`analyzer_key`).
    gone : bool
        Whether it was missing from the table at the last look.
    """

    version: int
    fingerprint: str | None
    analyzers: frozenset[str]
    gone: bool = False


@dataclass(frozen=True)
class Measurement:
    """What one analyzer found in one partition, or in one segment of it.

    Attributes
    ----------
    analyzer : Analyzer
    outcome : Success or Failure
        The state.
    metric : Metric
    segment : str
        The name of the segment that the partition keys and the values of columns make; empty for all.
    segments : SegmentSet or None
        The set it is one of, where it is of the values of columns.
    """

    analyzer: AnyAnalyzer
    outcome: Success[State] | Failure
    metric: Metric[Any]
    segment: str = ""
    segments: SegmentSet | None = None

    @property
    def key(self) -> str:
        """How the ledger knows that it was made."""
        return analyzer_key(self.analyzer, self.segments)


@dataclass(frozen=True)
class Measured:
    """A partition that was measured.

    Attributes
    ----------
    partition : Partition
    time : datetime or None
        The time it stands for.
    fingerprint : str or None
    arrived_at : datetime or None
    schema : str
        Names and types of the columns, as canonical JSON.
    rows : int
    measurements : tuple of Measurement
    segment : str
        The segment that the partition keys make.
    added_to : int or None
        The version that lacked these analyzers, if only they were measured.
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


@dataclass(frozen=True, slots=True)
class Decision:
    """What to store of a measured partition: under which version, and which measurements."""

    change: Change
    version: int
    measurements: tuple[Measurement, ...]


def analyzer_key(analyzer: AnyAnalyzer, segments: SegmentSet | None = None) -> str:
    """Return the hash by which the ledger knows an analyzer, measured as a whole or by segments."""
    return ledger_key(analyzer.canonical(), segments)


def ledger_key(canonical: str, segments: SegmentSet | None = None) -> str:
    """Return the same for the canonical JSON of an analyzer."""
    if segments is None:
        return key_of(canonical)
    of = {"analyzer": canonical, "segments": segments.columns, "generation": segments.generation}
    return key_of(canonical_json(of))


def decide(
    known: Known | None,
    found: Measured,
    stored: Callable[[Measurement], State | None],
) -> Decision:
    """Decide what becomes of a measured partition.

    The same files hold the same content: only what was not measured before is added, under the
    version that is there. If a repeated measurement does not agree with the stored state after all,
    the content is another, and so is the version.

    Parameters
    ----------
    known : Known or None
        What the ledger holds, read in the same transaction.
    found : Measured
    stored : callable
        Returns the stored state for a measurement, or None where it had failed.
    """
    if known is None:
        return Decision(Change.NEW, 1, found.measurements)
    if found.added_to is not None and found.added_to != known.version:
        return Decision(Change.UNCHANGED, known.version, ())  # overtaken; the next run sees to it
    if found.added_to is not None or _same_files(found, known):
        again = [m for m in found.measurements if m.key in known.analyzers]
        if all(_agrees(m, stored(m)) for m in again):
            added = tuple(m for m in found.measurements if m not in again)
            return Decision(Change.ADDED if added else Change.UNCHANGED, known.version, added)
    return Decision(Change.RESTATED, known.version + 1, found.measurements)


def _same_files(found: Measured, known: Known) -> bool:
    return found.fingerprint is not None and not differ(found.fingerprint, known.fingerprint)


def with_references(fingerprint: str | None, tables: Mapping[str, str]) -> str | None:
    """Return the fingerprint of a partition together with those of the other tables that are read."""
    if fingerprint is None or not tables:
        return fingerprint
    return f"{fingerprint}{_AND}{canonical_json(dict(tables))}"


def references_of(fingerprint: str | None) -> dict[str, str]:
    """Return the fingerprints of the other tables."""
    _, _, tables = (fingerprint or "").partition(_AND)
    return dict(json.loads(tables)) if tables else {}


def differ(a: str | None, b: str | None) -> bool:
    """Whether two fingerprints are of different data; of another table only where both know it.

    An analyzer that reads another table can so be added without anything else being measured again.

    Examples
    --------
    >>> one, other = with_references("p", {"r": "1"}), with_references("p", {"r": "2", "s": "1"})
    >>> differ(one, other), differ(one, "p"), differ("p", "q"), differ(None, "p")
    (True, False, True, True)
    """
    if a is None or b is None:
        return a is not b
    ours, theirs = references_of(a), references_of(b)
    own = a.partition(_AND)[0] != b.partition(_AND)[0]
    return own or any(ours[table] != theirs[table] for table in ours.keys() & theirs.keys())


def united(known: str | None, found: str | None) -> str | None:
    """Return the fingerprint of a version that was measured again: it knows what either knows."""
    if found is None or known is None:
        return found
    return with_references(found.partition(_AND)[0], references_of(known) | references_of(found))


_AND = "+"


def _agrees(found: Measurement, stored: State | None) -> bool:
    match found.outcome:
        case Success(state):
            return stored is not None and state.agrees_with(stored)
        case Failure():
            return stored is None


def mismatch_text(spec: RunSpec, source: str) -> str:
    """Say that a dataset has another table's history."""
    return (
        f"dataset {spec.dataset!r} holds the history of {source!r}, not of {spec.source!r};"
        " choose another name, or pass rename=True if the table was renamed"
    )


class RunStore(Protocol):
    """Where runs leave what they measured."""

    def hold(self, dataset: str, wait: float) -> AbstractContextManager[int]:
        """Let no other run measure the dataset meanwhile.

        The context is a number, higher than that of any holder before, for `open_run`.

        Raises
        ------
        LeaseError
            If another run still measures it after ``wait`` seconds.
        """

    def open_run(self, spec: RunSpec, fence: int | None = None) -> int:
        """Begin a run and return its id; with the ``fence`` of a lease it commits only while it holds it.

        Raises
        ------
        DatasetMismatchError
            If the dataset's history is of another table and ``rename`` is not set.
        """

    def ledger(self, dataset: str) -> Mapping[str, Known]:
        """Return what is known of each partition, by its name."""

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the last choice of segments for each set of columns that one was made for."""

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Remember a choice of segments; one that another writer made meanwhile stays."""

    def commit_batch(self, run: int, found: Sequence[Measured]) -> list[Decision]:
        """Store a batch, all or nothing, and return what became of each partition."""

    def mark_gone(self, run: int, gone: Sequence[str], back: Sequence[str] = ()) -> None:
        """Remember which partitions are no longer there, and which are again."""

    def close_run(
        self, run: int, status: RunStatus, counts: Mapping[str, int], error: str | None = None
    ) -> None:
        """End a run."""
