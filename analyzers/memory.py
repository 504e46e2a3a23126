"""A store in memory, for runs that nobody needs to remember and for tests without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from analyzers.errors import DatasetMismatchError
from analyzers.ledger import (
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
from analyzers.metric import Success
from analyzers.segments import SegmentSet
from analyzers.state import State


class MemoryRunStore:
    """Keeps runs, ledger and current measurements in dictionaries.

    Attributes
    ----------
    runs : list of RunSpec
    statuses : dict of int to RunStatus
    current : dict
        The measurements of each partition's current version, by dataset and partition.
    """

    def __init__(self) -> None:
        self.runs: list[RunSpec] = []
        self.statuses: dict[int, RunStatus] = {}
        self.current: dict[tuple[str, str], list[Measurement]] = {}
        self._known: dict[str, dict[str, Known]] = {}
        self._sources: dict[str, str] = {}
        self._segments: dict[str, dict[tuple[str, ...], SegmentSet]] = {}

    def open_run(self, spec: RunSpec) -> int:
        """Begin a run."""
        source = self._sources.get(spec.dataset)
        if source and spec.source and source != spec.source and not spec.rename:
            raise DatasetMismatchError(mismatch_text(spec, source))
        if spec.source:
            self._sources[spec.dataset] = spec.source
        self.runs.append(spec)
        self.statuses[len(self.runs)] = RunStatus.RUNNING
        return len(self.runs)

    def ledger(self, dataset: str) -> Mapping[str, Known]:
        """Return what is known of each partition."""
        return dict(self._known.get(dataset, {}))

    def segment_sets(self, dataset: str) -> Mapping[tuple[str, ...], SegmentSet]:
        """Return the last choice for each set of columns."""
        return dict(self._segments.get(dataset, {}))

    def keep_segments(self, run: int, chosen: Sequence[SegmentSet]) -> None:
        """Remember a choice."""
        known = self._segments.setdefault(self.runs[run - 1].dataset, {})
        for segments in chosen:
            before = known.get(segments.columns)
            if before is None or before.generation < segments.generation:
                known[segments.columns] = segments

    def commit_batch(self, run: int, found: Sequence[Measured]) -> list[Decision]:
        """Store a batch."""
        return [self._commit(self.runs[run - 1].dataset, measured) for measured in found]

    def _commit(self, dataset: str, found: Measured) -> Decision:
        ledger, name = self._known.setdefault(dataset, {}), found.partition.name
        before = self.current.get((dataset, name), [])
        states = {
            (m.segment, m.analyzer): m.outcome.value
            for m in before
            if isinstance(m.outcome, Success)
        }

        def stored(m: Measurement) -> State | None:
            return states.get((m.segment, m.analyzer))

        known = ledger.get(name)
        decision = decide(known, found, stored)
        same = known is not None and decision.version == known.version
        kept = [*(before if same else []), *decision.measurements]
        self.current[dataset, name] = kept
        keys = frozenset(m.key for m in kept)
        before_it = known.fingerprint if known is not None and same else None
        seen = united(before_it, found.fingerprint)
        ledger[name] = Known(decision.version, seen, keys)
        return decision

    def mark_gone(self, run: int, gone: Sequence[str], back: Sequence[str] = ()) -> None:
        """Mark partitions as gone, or as there again."""
        ledger = self._known[self.runs[run - 1].dataset]
        for name in (*gone, *back):
            ledger[name] = replace(ledger[name], gone=name in gone)

    def close_run(
        self,
        run: int,
        status: RunStatus,
        counts: Mapping[str, int],  # noqa: ARG002 - nobody asks for them here
        error: str | None = None,  # noqa: ARG002
    ) -> None:
        """End a run."""
        self.statuses[run] = status
