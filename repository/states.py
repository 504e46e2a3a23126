"""States in the repository for the verbs of single analyzers: kept under a name, or of a history."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from analyzers.description import key_of
from analyzers.errors import HistoryError, RepositoryWarning, StateError
from analyzers.metric import flatten
from analyzers.state import State
from repository import schema as s
from repository.artifacts import Artifacts, Payload
from repository.batch import outcome
from repository.bulk import upsert
from repository.database import Database
from repository.facts import number_of
from repository.history import AsOf, StoredState, Window, is_measured, stored_states
from repository.windows import Windows

if TYPE_CHECKING:
    from analyzers.analyzer import Analyzer


@dataclass(frozen=True)
class NamedStates:
    """States kept under a name, outside of any run; a `StateLoader` and a `StatePersister`.

    Made by `Repository.states`.
    """

    database: Database
    artifacts: Artifacts
    name: str

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None: no data yet."""
        t = s.named_state.c
        query = sa.select(t.tag, t.payload, t.artifact, t.checksum).where(
            t.name == self.name, t.key == key_of(analyzer.statistic())
        )
        with self.database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else self.artifacts.unpack(Payload(*row))

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state in place of an earlier one."""
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
    """The states of a dataset's partitions, added up over a window; a `StateLoader`.

    Made by `Repository.window_states`.
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    window: Window
    segment: str | None = None
    as_of: AsOf = None
    allow_missing: bool = False

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the sum of the analyzer's states; None where it was never measured.

        Raises
        ------
        HistoryError
            If it was measured on some of the partitions only, and that is not allowed.
        CorruptStateError, UnknownStateTagError
            If a state is damaged or cannot be read, and none may be missing.
        """
        stored = self.stored(analyzer)
        return None if stored is None else self.total(analyzer, stored)

    def stored(self, analyzer: Analyzer[Any, Any]) -> list[StoredState] | None:
        """Return where the states lie, in the order of time; None where it was never measured."""
        with self.database.read() as connection:
            if not is_measured(connection, self.dataset, analyzer):
                return None
            return stored_states(
                connection, self.dataset, analyzer, self.window, self.segment, self.as_of
            )

    def total(self, analyzer: Analyzer[Any, Any], stored: Sequence[StoredState]) -> State:
        """Return the sum of some of the states, read one after the other."""
        missing = [found.partition for found in stored if found.payload is None]
        if missing and not self.allow_missing:
            msg = (
                f"{analyzer!r} has no state for {len(missing)} of {len(stored)} partitions,"
                f" first {missing[0]!r}: it failed there, was not measured, or the state was cleaned"
                " away; narrow the window, or pass allow_missing=True"
            )
            raise HistoryError(msg)
        return analyzer.state_type.merge(self._read(stored))

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


WINDOW_COLUMNS = (
    "start",
    "end",
    "partitions",
    "entity",
    "name",
    "instance",
    "value",
    "weight",
    "status",
    "error",
)


def window_rows(
    states: HistoricStates, analyzer: Analyzer[Any, Any], windows: Windows
) -> list[dict[str, Any]]:
    """Return an analyzer's metric, flattened, for each window that holds a partition."""
    timed = [found for found in states.stored(analyzer) or () if found.time is not None]
    rows = []
    for span in windows.spans([found.time for found in timed if found.time is not None]):
        members = timed[span.first : span.last]
        metric = analyzer.compute_metric_from(states.total(analyzer, members))
        about = {"start": span.start, "end": span.end, "partitions": len(members)}
        for flat in flatten(metric):
            value, status, weight, error = outcome(flat)
            told = {"entity": flat.entity.value, "name": flat.name, "instance": flat.instance}
            number = number_of(value, status)
            rest = {"value": number, "weight": weight, "status": status, "error": error}
            rows.append({**about, **told, **rest})
    return rows
