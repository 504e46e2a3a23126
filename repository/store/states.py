"""State loaders and persisters on the repository: named states, and partition states by window."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.errors import (
    HistoryError,
    MixedTypesError,
    RepositoryWarning,
    StateError,
    StateMismatchError,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import flatten
from tidegauge.analyzers.core.state import State
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.artifacts import Artifacts, Payload
from tidegauge.repository.store.batch import outcome
from tidegauge.repository.store.bulk import upsert
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.folds import mixed_types_text
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import (
    AsOf,
    StoredState,
    Window,
    has_measurements,
    stored_states,
    stored_total,
)
from tidegauge.repository.store.rows import number_of
from tidegauge.repository.store.windows import WindowScheme

if TYPE_CHECKING:
    from tidegauge.analyzers.core.analyzer import Analyzer


@dataclass(frozen=True)
class NamedStates:
    """States stored under a user's name, outside any run; a `StateLoader` and a `StatePersister`.

    Created by `Repository.states`.
    """

    database: Database
    artifacts: Artifacts
    name: str

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if none is stored yet."""
        t = s.named_state.c
        query = sa.select(t.tag, t.payload, t.artifact, t.checksum).where(
            t.name == self.name, t.key == key_of(analyzer.statistic())
        )
        with self.database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else self.artifacts.unpack(Payload(*row))

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state, replacing an earlier one."""
        self.database.require_writable()
        packed = self.artifacts.pack(state)
        key = {"name": self.name, "key": key_of(analyzer.statistic())}
        content = {
            "canonical": analyzer.statistic(),
            "tag": packed.tag,
            "payload": packed.payload,
            "artifact": packed.artifact,
            "checksum": packed.checksum,
            "stored_at": datetime.now(UTC),
        }
        row = {**key, **content}
        self.database.write(
            lambda connection: upsert(connection, s.named_state, tuple(row), [tuple(row.values())])
        )


@dataclass(frozen=True)
class HistoricStates:
    """The states of a dataset's partitions, merged over a window; a `StateLoader`.

    Created by `Repository.window_states`.
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    window: Window
    segment: str | None = None
    as_of: AsOf = None
    allow_missing: bool = False

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's states merged into one, or None if it was never measured.

        The state of the whole that the last roll-up has stored is returned as it is, unless a partition
        has changed since. Sums of floating-point numbers depend on the order of addition in their last
        digits.

        Raises
        ------
        HistoryError
            If there are no partitions, or some have no state, and ``allow_missing`` is not set; or if
            states do not fit together for another reason than types.
        MixedTypesError
            If the column had different types, and ``allow_missing`` is not set. With it, only states of
            the newest type are merged, with a warning.
        CorruptStateError, UnknownStateTagError
            If a state is damaged or unreadable; with ``allow_missing`` it is skipped with a warning.
        """
        if self.window == Window() and self.segment is None and self.as_of is None:
            with self.database.read() as connection:
                whole = stored_total(connection, self.dataset, analyzer)
            if whole is not None:
                with suppress(StateError):  # damaged; the states of the partitions may be sound
                    return self.artifacts.unpack(whole)
        stored = self.stored(analyzer)
        if stored is None:
            return None
        if not stored and not self.allow_missing:
            msg = f"{self.dataset!r} has no partition{self._selection()}: there is nothing to merge"
            raise HistoryError(msg)
        return self.total(analyzer, stored)

    def _selection(self) -> str:
        """Return what the partitions are selected by, in words."""
        chosen: dict[str, object] = {"since": self.window.since, "until": self.window.until}
        chosen |= {"in segment": self.segment, "known as of": self.as_of}
        return "".join(f" {name} {value}" for name, value in chosen.items() if value is not None)

    def stored(self, analyzer: Analyzer[Any, Any]) -> list[StoredState] | None:
        """Return references to the states in order of time, or None if it was never measured."""
        with self.database.read() as connection:
            if not has_measurements(connection, self.dataset, analyzer):
                return None
            return stored_states(
                connection, self.dataset, analyzer, self.window, self.segment, self.as_of
            )

    def total(self, analyzer: Analyzer[Any, Any], stored: Sequence[StoredState]) -> State:
        """Merge some of the states, reading them one at a time; see `load` for what it raises."""
        missing = [found.partition for found in stored if found.payload is None]
        if missing and not self.allow_missing:
            msg = (
                f"{analyzer!r} has no state for {len(missing)} of {plural(len(stored), 'partition')},"
                f" first {missing[0]!r}: it failed there, was not measured, or the state was cleaned"
                " away; narrow the window, or pass allow_missing=True"
            )
            raise HistoryError(msg)
        stored = self._of_one_generation(analyzer, stored)
        try:
            return analyzer.state_type.merge(self._read(stored))
        except StateMismatchError as error:
            msg = f"the states of {analyzer!r} on {self.dataset!r} cannot be merged: {error}"
            raise HistoryError(msg) from error

    def _of_one_generation(
        self, analyzer: Analyzer[Any, Any], stored: Sequence[StoredState]
    ) -> Sequence[StoredState]:
        """Return the states of the newest generation; raise a `MixedTypesError` for several."""
        measured = [state for state in stored if state.payload is not None]
        generations = [state.generation for state in measured]
        if len(set(generations)) <= 1:
            return stored
        text = mixed_types_text(generations, [state.partition for state in measured])
        if not self.allow_missing:
            msg = (
                f"{analyzer!r} on {self.dataset!r}: {text}; narrow the window, or pass"
                " allow_missing=True for the newest type only"
            )
            raise MixedTypesError(msg)
        warnings.warn(
            f"{analyzer!r} on {self.dataset!r}: {text}; only those where {generations[-1]} were merged",
            RepositoryWarning,
            stacklevel=2,
        )
        return [state for state in measured if state.generation == generations[-1]]

    def _read(self, stored: Sequence[StoredState]) -> Iterator[State]:
        for found in stored:
            if found.payload is None:
                continue
            try:
                yield self.artifacts.unpack(found.payload)
            except StateError as error:
                text = f"{self.dataset!r}, {found.partition!r}: {error}"
                if not self.allow_missing:
                    raise type(error)(text) from error
                warnings.warn(f"{text}; it was left out", RepositoryWarning, stacklevel=2)


WINDOW_COLUMNS = columns(
    "start:time end:time partitions entity name instance value:number weight:number status error"
)


def window_rows(
    states: HistoricStates, analyzer: Analyzer[Any, Any], windows: WindowScheme
) -> list[dict[str, Any]]:
    """Return an analyzer's metric, flattened, for each window that contains a partition."""
    timed = [found for found in states.stored(analyzer) or () if found.time is not None]
    rows = []
    for span in windows.spans([found.time for found in timed if found.time is not None]):
        members = timed[span.first : span.last]
        try:
            metric = analyzer.compute_metric_from(states.total(analyzer, members))
        except MixedTypesError as mixed:
            metric = analyzer.to_failure_metric(mixed)
        about = {"start": span.start, "end": span.end, "partitions": len(members)}
        for flat in flatten(metric):
            value, status, weight, error = outcome(flat)
            told = {"entity": flat.entity.value, "name": flat.name, "instance": flat.instance}
            number = number_of(value, status)
            rest = {"value": number, "weight": weight, "status": status, "error": error}
            rows.append({**about, **told, **rest})
    return rows
