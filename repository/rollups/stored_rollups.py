"""Stored roll-ups: update them from changed states, and read them.

Only windows that contain a partition whose states changed since the last roll-up are recomputed.
Only results that differ from the stored ones are written, so a roll-up can be interrupted anywhere
and restarted.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, RepositoryWarning
from tidegauge.analyzers.core.metric import flatten
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.core.state import State
from tidegauge.repository.rollups.compute import (
    NOT_CURRENT,
    Part,
    RollupComputation,
    RollupResult,
    RollupWindow,
)
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import OUTCOME_COLUMNS, hashed_ids, outcome
from tidegauge.repository.store.bulk import Row, chunks, insert_rows, upsert
from tidegauge.repository.store.database import Database, lock_clock, next_commit
from tidegauge.repository.store.dimensions import Dimensions
from tidegauge.repository.store.queries import AsOf, MetricQuery, commit_as_of, dataset_id
from tidegauge.repository.store.rows import number_of
from tidegauge.repository.store.stored_states import TOTAL_STATE, Artifacts
from tidegauge.repository.store.windows import END_OF_TIME, WindowScheme

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_BATCH_STATISTICS = 200
"""All states of a batch are in memory, and its results are written in one transaction."""


class _OvertakenError(Exception):
    """Another writer changed the dataset after its states were read."""


def roll_up(
    database: Database,
    artifacts: Artifacts,
    dataset: str,
    names: Sequence[str],
    run: int | None = None,
) -> int:
    """Update the total and the named windows of a dataset; return the number of metrics written.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    dataset : str
    names : sequence of str
        Windows, such as ``7d`` or ``month``; the total is always included.
    run : int, optional
        The run that the commits belong to.
    """
    schemes = {
        window.name: window
        for window in map(WindowScheme.from_name, dict.fromkeys((TOTAL_STATE, *names)))
    }
    while (written := _attempt(database, artifacts, dataset, schemes, run)) is None:
        pass
    return written


def _attempt(
    database: Database,
    artifacts: Artifacts,
    dataset: str,
    schemes: Mapping[str, WindowScheme],
    run: int | None,
) -> int | None:
    """Compute and write roll-ups; return None if another writer changed the dataset meanwhile."""
    with database.read() as connection:
        read_commit = connection.execute(sa.select(s.clock.c.commits)).scalar_one()
        dataset_number = dataset_id(connection, dataset)
        work = _plan_windows(connection, dataset_number, schemes)
        statistics = _statistics(connection, dataset_number)
        last_analyzer = connection.execute(sa.select(sa.func.max(s.analyzer.c.id))).scalar() or 0
    written = 0
    outdated: set[str] = set()
    try:
        for start in range(0, len(statistics), _BATCH_STATISTICS):
            batch = statistics[start : start + _BATCH_STATISTICS]
            with database.read() as connection:
                computation = RollupComputation(connection, artifacts, work, batch)
                results = list(computation.results())
            written += database.write(
                _RollupWriter(
                    dataset_number, read_commit, run, work, batch, results, computation
                ).write
            )
            outdated |= computation.outdated
    except _OvertakenError:
        return None
    if outdated:
        remainder = f" (and {len(outdated) - 1} more)" if len(outdated) > 1 else ""
        warnings.warn(f"{dataset}: {min(outdated)}{remainder}", RepositoryWarning, stacklevel=4)
    database.write(
        lambda connection: _mark(
            connection, dataset_number, list(schemes), read_commit, last_analyzer
        )
    )
    return written


def _plan_windows(
    connection: Connection, dataset: int, schemes: Mapping[str, WindowScheme]
) -> dict[str, RollupWindow]:
    partition, partition_version, rolled = s.partition.c, s.partition_version.c, s.rolled.c
    query = (
        sa.select(
            partition.id,
            partition_version.version,
            partition.time,
            partition.segment,
            partition_version.table_schema_id,
            partition.name,
        )
        .join_from(s.partition, s.partition_version)
        .where(partition.dataset_id == dataset, s.holds(s.partition_version))
        .order_by(partition.time.is_(None), partition.time, partition.name)
    )
    parts = [Part(*row) for row in connection.execute(query)]
    marks = sa.select(rolled.window_name, rolled.commit_id, rolled.analyzer_id).where(
        rolled.dataset_id == dataset
    )
    marked = {row[0]: (row[1], row[2]) for row in connection.execute(marks)}
    work = {}
    for name, scheme in schemes.items():
        since, last_analyzer = marked.get(name, (0, 0))
        changed = _changed(connection, dataset, since)
        window_parts = (
            parts if name == TOTAL_STATE else [part for part in parts if part.time is not None]
        )
        times = [part.time or END_OF_TIME for part in window_parts]
        spans = scheme.spans([END_OF_TIME] * len(window_parts) if name == TOTAL_STATE else times)
        touched = [part.id in changed for part in window_parts]
        changed_spans = [span for span in spans if any(touched[span.first : span.last])]
        work[name] = RollupWindow(scheme, window_parts, spans, changed_spans, last_analyzer)
    return work


def _changed(connection: Connection, dataset: int, since: int) -> set[int]:
    """Return the partitions with new states, or new or superseded versions, since a commit."""
    partition, partition_version, state = s.partition.c, s.partition_version.c, s.state.c
    states = (
        sa.select(state.partition_id)
        .join_from(s.state, s.partition, partition.id == state.partition_id)
        .where(partition.dataset_id == dataset, state.commit_id > since)
        .distinct()
    )
    versions = (
        sa.select(partition_version.partition_id)
        .join_from(s.partition_version, s.partition)
        .where(partition.dataset_id == dataset)
        .where(
            (partition_version.commit_id > since) | (partition_version.superseded_commit_id > since)
        )
    )
    return {*connection.execute(states).scalars(), *connection.execute(versions).scalars()}


def _statistics(connection: Connection, dataset: int) -> list[tuple[int, str]]:
    statistic = s.statistic.c
    query = (
        sa.select(statistic.id, statistic.segment)
        .where(statistic.dataset_id == dataset)
        .order_by(statistic.id)
    )
    return [(row[0], row[1]) for row in connection.execute(query)]


_ROLLUP_COLUMNS = (
    "series_id",
    "window_name",
    "window_end",
    "commit_id",
    "window_start",
    "newest_at",
    *OUTCOME_COLUMNS,
    "input_set_id",
)


_StoredRollup = tuple[int, Row]
"""The statistic and the columns of a stored roll-up after its key and commit."""


def _with_note(
    values: tuple[float | None, str, float | None, str | None], note: str | None
) -> tuple[float | None, str, float | None, str | None]:
    """Return an outcome as stored, with a note unless it has an error."""
    value, status, weight, error = values
    return value, status, weight, note if status not in {"failed", "empty"} else error


ERROR_COLUMN = 2 + OUTCOME_COLUMNS.index("error")
"""Position of the error or note in the columns of a roll-up after its key and commit."""


class _RollupWriter:
    """Writes the differences from the stored roll-ups in one transaction."""

    def __init__(
        self,
        dataset: int,
        seen_commit: int,
        run: int | None,
        work: Mapping[str, RollupWindow],
        statistics: Sequence[tuple[int, str]],
        results: Sequence[RollupResult],
        computation: RollupComputation,
    ) -> None:
        self.dataset, self.seen_commit, self.run, self.work = dataset, seen_commit, run, work
        self.statistics, self.results, self.computation = statistics, results, computation

    def write(self, connection: Connection) -> int:
        lock_clock(connection)
        _require_unchanged(connection, self.dataset, self.seen_commit)
        stored = self._stored(connection)
        computed = self._rows(connection) | self._kept_rows(stored)
        current = {key: row for key, (_, row) in stored.items()}
        changed = [key for key, row in computed.items() if current.get(key) != row]
        self.computation.outdated |= {
            f"the roll-up {key[1]!r} {error}"
            for key in changed
            if (error := computed[key][ERROR_COLUMN])
            and NOT_CURRENT in error
            and (key not in current or current[key][ERROR_COLUMN] != error)
        }
        ended = [key for key in stored if key not in computed or key in set(changed)]
        if (
            not changed
            and not ended
            and not self.computation.folds
            and not self.computation.obsolete
        ):
            return 0
        commit, _ = next_commit(connection, self.run)
        self._end(connection, ended, commit)
        rows = [(*key, commit, *computed[key]) for key in sorted(changed)]
        insert_rows(connection, s.rollup, _ROLLUP_COLUMNS, rows)
        self._keep_folds(connection, commit)
        for statistic, name in self.computation.obsolete:
            folded_state = s.folded_state.c
            is_fold = (folded_state.statistic_id == statistic) & (folded_state.fold == name)
            connection.execute(sa.delete(s.folded_state).where(is_fold))
        return len(rows)

    def _rows(self, connection: Connection) -> dict[tuple[int, str, datetime], Row]:
        flat = [(r, metric) for r in self.results for metric in flatten(r.metric)]
        series = Dimensions(connection, self.dataset).series(
            {(r.analyzer_id, m.name, m.instance): (r.analyzer, m) for r, m in flat}
        )
        sets = _input_sets(connection, {r.inputs for r in self.results})
        return {
            (series[r.analyzer_id, m.name, m.instance], r.window, r.span.end): (
                r.span.start,
                r.newest,
                *_with_note(outcome(m), r.note),
                sets[r.inputs],
            )
            for r, m in flat
        }

    def _kept_rows(
        self, stored: Mapping[tuple[int, str, datetime], _StoredRollup]
    ) -> dict[tuple[int, str, datetime], Row]:
        """Return the rows of windows that keep their values, with the reasons as notes."""
        rows: dict[tuple[int, str, datetime], Row] = {}
        for key, (statistic, row) in stored.items():
            note = self.computation.kept.get((statistic, *key[1:]))
            if note is not None:
                start, newest, value, status, weight, error, inputs = row
                rows[key] = (
                    start,
                    newest,
                    *_with_note((value, status, weight, error), note),
                    inputs,
                )
        return rows

    def _stored(self, connection: Connection) -> dict[tuple[int, str, datetime], _StoredRollup]:
        """Return the current rows of these statistics in the windows that are computed or kept."""
        analyzer = s.analyzer.c
        stored = {}
        for chunk in chunks([statistic for statistic, _ in self.statistics]):
            query = (
                sa.select(analyzer.statistic_id, *(s.rollup.c[c] for c in _ROLLUP_COLUMNS))
                .join_from(s.rollup, s.series, s.series.c.id == s.rollup.c.series_id)
                .join(s.analyzer)
                .where(
                    analyzer.statistic_id.in_(chunk),
                    s.rollup.c.window_name.in_(self.work),
                    s.holds(s.rollup),
                )
            )
            for statistic, series, name, end, _, *row in connection.execute(query):
                is_kept = (statistic, name, end) in self.computation.kept
                if is_kept or end in self.computation.ends[statistic, name]:
                    stored[series, name, end] = (statistic, tuple(row))
        return stored

    def _end(
        self, connection: Connection, keys: Sequence[tuple[int, str, datetime]], commit: int
    ) -> None:
        if keys:
            change = (
                sa.update(s.rollup)
                .where(
                    s.rollup.c.series_id == sa.bindparam("of_series"),
                    s.rollup.c.window_name == sa.bindparam("of_window"),
                    s.rollup.c.window_end == sa.bindparam("of_end"),
                    s.holds(s.rollup),
                )
                .values(superseded_commit_id=commit)
            )
            parameters = [
                dict(zip(("of_series", "of_window", "of_end"), k, strict=True)) for k in keys
            ]
            connection.execute(change, parameters)

    def _keep_folds(self, connection: Connection, commit: int) -> None:
        keep_folds(
            connection, self.computation.artifacts, TOTAL_STATE, self.computation.folds, commit
        )


def keep_folds(
    connection: Connection,
    artifacts: Artifacts,
    name: str,
    folds: Sequence[tuple[int, State, str]],
    commit: int,
) -> None:
    """Store folded states (statistic, state, inputs), replacing earlier ones of the same name."""
    sets = _input_sets(connection, {inputs for _, _, inputs in folds})
    rows = []
    for statistic, state, inputs in sorted(folds, key=lambda fold: fold[0]):
        p = artifacts.pack(state)
        content = (p.tag, p.payload, p.artifact, p.checksum)
        rows.append((statistic, name, *content, sets[inputs], commit))
    columns = (
        "statistic_id",
        "fold",
        "tag",
        "payload",
        "artifact",
        "checksum",
        "input_set_id",
        "commit_id",
    )
    upsert(connection, s.folded_state, columns, rows)


def _input_sets(connection: Connection, inputs: set[str]) -> dict[str, int]:
    ids = hashed_ids(connection, s.input_set, "inputs", {key_of(text): text for text in inputs})
    return {text: ids[key_of(text)] for text in inputs}


def _require_unchanged(connection: Connection, dataset: int, read_commit: int) -> None:
    """Raise `_OvertakenError` if the dataset changed after its states were read."""
    if _changed(connection, dataset, read_commit):
        raise _OvertakenError


def _mark(
    connection: Connection, dataset: int, names: Sequence[str], read_commit: int, last_analyzer: int
) -> None:
    rows = [(dataset, name, read_commit, last_analyzer) for name in sorted(names)]
    columns = ("dataset_id", "window_name", "commit_id", "analyzer_id")
    upsert(connection, s.rolled, columns, rows)


def rolled_windows(connection: Connection, dataset: str) -> list[str]:
    """Return the names of the windows for which a dataset has roll-ups."""
    rolled = s.rolled.c
    query = sa.select(rolled.window_name).where(
        rolled.dataset_id == dataset_id(connection, dataset)
    )
    return sorted(connection.execute(query).scalars())


def rollup_rows(
    connection: Connection, dataset: str, window: str, query: MetricQuery, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Return roll-ups as rows with the columns of `Repository.metrics`.

    Raises
    ------
    HistoryError
        If no roll-ups are stored for the window.
    """
    name = WindowScheme.from_name(window).name
    dataset_number, commit = dataset_id(connection, dataset), commit_as_of(connection, as_of)
    windows = rolled_windows(connection, dataset)
    if name not in windows:
        msg = (
            f"{dataset!r} has no roll-ups {window!r} (there are: {', '.join(windows) or 'none'});"
            f" add it to the suite's windows, or call repo.roll_up({dataset!r}, [{window!r}])"
        )
        raise HistoryError(msg)
    analyzer, series = s.analyzer.c, s.series.c
    moment = sa.func.coalesce(s.rollup.c.newest_at, s.rollup.c.window_end, type_=s.UtcDateTime())
    span = [moment >= t for t in (query.window.since,) if t is not None]
    span += [moment <= t for t in (query.window.until,) if t is not None]
    select = (
        sa.select(
            analyzer.segment,
            series.entity,
            series.name,
            series.instance,
            analyzer.text.label("analyzer"),
            sa.func.coalesce(analyzer.filter, "").label("where"),
            s.rollup.c.window_start,
            s.rollup.c.window_end,
            s.rollup.c.newest_at,
            *(s.rollup.c[c] for c in OUTCOME_COLUMNS),
            s.commit.c.run_id,
            s.commit.c.committed_at,
        )
        .join_from(s.rollup, s.series, series.id == s.rollup.c.series_id)
        .join(s.analyzer)
        .join(s.commit, s.commit.c.id == s.rollup.c.commit_id)
        .where(
            analyzer.dataset_id == dataset_number,
            s.rollup.c.window_name == name,
            s.holds(s.rollup, commit),
            *span,
        )
        .where(query.series_condition())
        .order_by(s.rollup.c.window_end, series.name, series.instance, series.id)
    )
    return [
        {
            **row._asdict(),
            "dataset": dataset,
            "partition": _label(row.window_start, row.window_end),
            "time": row.newest_at,
            "value": number_of(row.value, row.status),
            "version": None,
            "analyzed_at": row.committed_at,
        }
        for row in connection.execute(select)
    ]


def _label(start: datetime | None, end: datetime) -> str:
    if start is None:
        return TOTAL_STATE
    days = start.time() == end.time() == datetime.min.time()
    bounds = [t.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M") for t in (start, end)]
    return "/".join(bounds)
