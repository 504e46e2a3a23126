"""States in the repository for the verbs of single analyzers: kept under a name, or of a history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from analyzers.description import key_of
from analyzers.errors import HistoryError
from analyzers.state import State
from repository import schema as s
from repository.artifacts import Artifacts, Payload
from repository.database import Database
from repository.history import AsOf, Window, is_measured, stored_states

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
        with self.database.write() as connection:
            insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
            row = insert(s.named_state).values({**key, **content})
            connection.execute(row.on_conflict_do_update(index_elements=list(key), set_=content))


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
        """
        with self.database.read() as connection:
            if not is_measured(connection, self.dataset, analyzer):
                return None
            stored = stored_states(
                connection, self.dataset, analyzer, self.window, self.segment, self.as_of
            )
        missing = [found.partition for found in stored if found.payload is None]
        if missing and not self.allow_missing:
            msg = (
                f"{analyzer!r} has no state for {len(missing)} of {len(stored)} partitions,"
                f" first {missing[0]!r}; measure them, narrow the window, or pass allow_missing=True"
            )
            raise HistoryError(msg)
        payloads = [found.payload for found in stored if found.payload is not None]
        return analyzer.state_type.merge([self.artifacts.unpack(p) for p in payloads])
