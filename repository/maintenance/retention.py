"""Retention: removal of superseded versions, old states, old runs and orphaned files.

Versions superseded before a cutoff can be removed, because no as-of view since then shows them; the
last commit before the cutoff becomes the horizon: earlier views are refused. States of old
partitions can also be removed. They are added up first, so that the total continues. Data that
windows and unsettled anomalies still need is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    HistoryError,
    IllegalAnalyzerParameterError,
    StateError,
    SuiteError,
)
from tidegauge.analyzers.core.formatting import bytes_text, plural
from tidegauge.analyzers.core.state import State
from tidegauge.repository.rollups.compute import merged
from tidegauge.repository.rollups.stored_rollups import keep_folds
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import recorded_series
from tidegauge.repository.store.bulk import chunks, delete_rows
from tidegauge.repository.store.database import Database, free_bytes, lock_clock, next_commit
from tidegauge.repository.store.labels import status_of, statuses
from tidegauge.repository.store.queries import moment_of
from tidegauge.repository.store.runs import oldest_running_start
from tidegauge.repository.store.stored_states import (
    REMOVED_STATE,
    TOTAL_STATE,
    Artifacts,
    Generations,
    Payload,
    decode_inputs,
    encode_inputs,
    fold_generation,
)
from tidegauge.repository.store.verdicts import superseded
from tidegauge.repository.store.windows import WindowScheme

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

Age = str | timedelta | date | None
"""Retention age: ``90d``, ``12w``, ``6mo`` (30 days each), ``2y`` (365 days each), or a cutoff."""

_MIN_ORPHAN_AGE = timedelta(days=1)
UNSETTLED_STATUSES = frozenset({"open", "acknowledged"})
"""Statuses of anomalies that still need attention."""

_DAYS_BY_UNIT = {"d": 1, "w": 7, "mo": 30, "y": 365}


@dataclass(frozen=True)
class Cleaned:
    """Counts of rows and files that a cleanup removed, or would remove.

    Attributes
    ----------
    versions, metrics, scores, states, rollups, verdicts, runs, files : int
        The number of each.
    kept_for_anomalies, kept_for_windows : int
        Versions, and partitions with their states, that were old enough but were kept.
    kept_unmerged : int
        States that were old enough but were kept, because they cannot be added to each other.
    dry_run : bool
        True if nothing was actually removed.
    free_bytes : int
        Free bytes of a SQLite file afterwards, which later writes reuse; a dry run counts only
        bytes of states.
    vacuumed_bytes : int or None
        Bytes that vacuuming saved, or would save at least; None if it was not requested, or the
        database vacuums by itself.

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     _ = repo.record("shop", "revenue", {"ds=2026-01-01": 10.0})
    ...     found = repo.clean(versions="90d", dry_run=True)
    >>> found.versions, found.dry_run
    (0, True)
    """

    versions: int = 0
    metrics: int = 0
    scores: int = 0
    states: int = 0
    rollups: int = 0
    verdicts: int = 0
    runs: int = 0
    files: int = 0
    kept_for_anomalies: int = 0
    kept_for_windows: int = 0
    kept_unmerged: int = 0
    dry_run: bool = False
    free_bytes: int = 0
    vacuumed_bytes: int | None = None

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        counts = {
            f.name.replace("_", " "): getattr(self, f.name)
            for f in fields(self)
            if f.name not in {"dry_run", "free_bytes", "vacuumed_bytes"}
        }
        words = [
            plural(count, name if name.startswith("kept") else name.removesuffix("s"), name)
            for name, count in counts.items()
        ]
        text = ("would remove " if self.dry_run else "removed ") + ", ".join(words)
        if self.vacuumed_bytes == 0:
            text += "; no page of the file is free, so vacuuming does not make it smaller"
        elif self.vacuumed_bytes is not None:
            verb = "would be at least" if self.dry_run else "is"
            text += f"; the file {verb} {bytes_text(self.vacuumed_bytes)} smaller"
        elif self.free_bytes:
            verb = "would be" if self.dry_run else "are"
            text += f"; {bytes_text(self.free_bytes)} of the file {verb} free and used again"
        return text


def since(age: Age) -> datetime | None:
    """Return the cutoff time of an age; None without an age.

    Raises
    ------
    HistoryError
        If the string is not an age.
    """
    if age is None:
        return None
    match = re.fullmatch(r"(\d{1,5})\s*(d|w|mo|y)", age.strip()) if isinstance(age, str) else None
    if match is not None:
        span = timedelta(days=int(match[1]) * _DAYS_BY_UNIT[match[2]])
    elif isinstance(age, timedelta):
        span = age
    else:
        try:
            return moment_of(age, "age")
        except HistoryError as error:
            msg = (
                f"invalid age {age!r}: use a number and a unit, such as 90d, 12w, 6mo or 2y, or a time"
                " such as 2026-01-31"
            )
            raise HistoryError(msg) from error
    try:
        return datetime.now(UTC) - span
    except OverflowError as error:
        msg = f"an age of {span.days} days reaches back before the year 1"
        raise HistoryError(msg) from error


def clean(
    database: Database,
    artifacts: Artifacts,
    *,
    versions: Age = None,
    states: Age = None,
    runs: Age = None,
    dry_run: bool = False,
    vacuum: bool = False,
) -> Cleaned:
    """Remove old data; without any age, only files that nothing refers to.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    versions : age, optional
        Remove partition versions superseded before then, with their metrics, scores and states, and
        verdicts and roll-ups superseded before then.
    states : age, optional
        Remove states of partitions before then.
    runs : age, optional
        Remove runs that ended before then and that nothing refers to.
    dry_run : bool
        Only count.
    vacuum : bool
        Rewrite a SQLite file without its free pages. PostgreSQL vacuums by itself.
    """
    counts: dict[str, Any] = {}

    def work(connection: Connection) -> _Cleaner:
        counts.clear()
        cleaner = _Cleaner(connection, artifacts, counts, dry_run=dry_run)
        cleaner.versions(since(versions))
        cleaner.states(since(states))
        cleaner.runs(since(runs))
        counts["files"] = len(cleaner.orphans())
        return cleaner

    if dry_run:
        with database.read() as connection:
            cleaner = work(connection)
            counts["free_bytes"] = free_bytes(connection, cleaner.bytes_of_states)
        would_vacuum = counts["free_bytes"] if vacuum and database.is_sqlite else None
        return replace(Cleaned(dry_run=True), **counts, vacuumed_bytes=would_vacuum)
    database.write(work)
    database.write(lambda connection: _remove_files(connection, artifacts))
    free = database.free_bytes()
    if not vacuum or not database.is_sqlite:
        return replace(Cleaned(), **counts, free_bytes=free)
    if free:
        database.compact()
    remaining = database.free_bytes()
    return replace(Cleaned(), **counts, free_bytes=remaining, vacuumed_bytes=free - remaining)


def _remove_files(connection: Connection, artifacts: Artifacts) -> None:
    # The clock's lock keeps out batches whose commit could refer to one of them.
    for name in _Cleaner(connection, artifacts, {}, dry_run=False).orphans():
        artifacts.remove(name)


@dataclass(frozen=True)
class _Fold:
    """States that were cleaned away, added up, with their partition versions and generation."""

    state: State | None
    inputs: dict[int, int]
    generation: str | None


class _Cleaner:
    """Removes old rows inside one transaction and counts them; a dry run only counts.

    No query depends on earlier removals, so that a dry run counts the same. Two steps may remove
    the same state and its file, so a dry run remembers removed states.
    """

    def __init__(
        self,
        connection: Connection,
        artifacts: Artifacts,
        counts: dict[str, int],
        *,
        dry_run: bool,
    ) -> None:
        self.connection, self.artifacts, self.counts = connection, artifacts, counts
        self.dry_run = dry_run
        if not dry_run:
            lock_clock(
                connection
            )  # keeps out batches that would be compared with rows being removed
        self._generations = Generations(connection)
        self._going_states: dict[tuple[int, ...], tuple[str | None, int]] = {}  # file and bytes
        self._added_bytes = 0
        self._replaced_files: Counter[str] = Counter()
        self._removed_verdicts: sa.ColumnElement[bool] = sa.false()

    def versions(self, cutoff: datetime | None) -> None:
        if cutoff is None:
            return
        commit = s.commit.c
        query = sa.select(sa.func.max(commit.id)).where(commit.committed_at < cutoff)
        horizon = self.connection.execute(query).scalar() or 0
        partition_version = s.partition_version.c
        ended = sa.select(partition_version.partition_id, partition_version.version).where(
            partition_version.superseded_commit_id <= horizon
        )
        old = {(row[0], row[1]) for row in self.connection.execute(ended)}
        unsettled = set(self._unsettled())
        protected = old & {(partition, version) for partition, version, _ in unsettled}
        self.counts["versions"] = len(old) - len(protected)
        self.counts["kept_for_anomalies"] = len(protected)
        for partition, version in sorted(old - protected):
            self._remove_version(partition, version)
        replaced = (s.metric.c.version < 0) & (s.metric.c.superseded_commit_id <= horizon)
        self._delete(s.metric, replaced, "metrics")
        self._remove_records(horizon, unsettled)
        self._delete(s.rollup, s.rollup.c.superseded_commit_id <= horizon, "rollups")
        self._delete(s.absence, s.absence.c.superseded_commit_id <= horizon, None)
        self._delete(s.score, s.score.c.superseded_commit_id <= horizon, "scores")
        self._removed_verdicts = superseded(horizon)
        self._delete(s.verdict, self._removed_verdicts, "verdicts")
        if self.dry_run:
            return
        used = sa.union(
            sa.select(s.rollup.c.input_set_id), sa.select(s.folded_state.c.input_set_id)
        )
        self._delete(s.input_set, s.input_set.c.id.not_in(used), None)
        later = sa.case((s.clock.c.horizon > horizon, s.clock.c.horizon), else_=horizon)
        self.connection.execute(sa.update(s.clock).values(horizon=later))

    def _unsettled(self) -> Iterator[tuple[int, int, int]]:
        """Yield partition, version and series of unsettled anomalies."""
        anomaly, finding = s.anomaly.c, s.finding.c
        query = sa.select(
            anomaly.id,
            anomaly.partition_id,
            anomaly.version,
            anomaly.series_id,
            finding.incident_id,
        ).join_from(s.anomaly, s.finding, (finding.anomaly_id == anomaly.id) & s.holds(s.finding))
        status_by_id = statuses(self.connection)
        for row in self.connection.execute(query):
            if status_of(status_by_id, row.id, row.incident_id) in UNSETTLED_STATUSES:
                yield row.partition_id, row.version, row.series_id

    def _remove_version(self, partition: int, version: int) -> None:
        for table, counted in (
            (s.metric, "metrics"),
            (s.state, "states"),
            (s.partition_version, None),
        ):
            is_version = (table.c.partition_id == partition) & (table.c.version == version)
            if table is s.metric:  # recorded values have versions of their own
                is_version &= table.c.series_id.not_in(recorded_series())
            self._delete(table, is_version, counted)

    def _remove_records(self, horizon: int, unsettled: set[tuple[int, int, int]]) -> None:
        """Remove recorded values superseded by the horizon, except values of unsettled anomalies."""
        metric = s.metric.c
        query = sa.select(metric.partition_id, metric.series_id, metric.version).where(
            metric.series_id.in_(recorded_series()),
            metric.superseded_commit_id <= horizon,
            metric.version >= 0,
        )
        for partition, series, version in self.connection.execute(query).all():
            if (partition, version, series) not in unsettled:
                is_record = (
                    (metric.partition_id == partition)
                    & (metric.series_id == series)
                    & (metric.version == version)
                )
                self._delete(s.metric, is_record, "metrics")

    def states(self, cutoff: datetime | None) -> None:
        if cutoff is None:
            return
        for dataset in self.connection.execute(sa.select(s.dataset.c.id)).scalars().all():
            start = min([cutoff, *self._windows_around(dataset, cutoff)])
            old = self._partitions(dataset, cutoff)
            doomed = [(i, version) for i, version, moment in old if moment < start]
            self.counts["kept_for_windows"] = (
                self.counts.get("kept_for_windows", 0) + len(old) - len(doomed)
            )
            if doomed:
                self._fold(dataset, doomed)

    def _windows_around(self, dataset: int, cutoff: datetime) -> Iterator[datetime]:
        """Yield the start of each window that contains the cutoff, or the newest partition if it is older."""
        rolled, partition = s.rolled.c, s.partition.c
        newest = sa.select(sa.func.max(partition.time)).where(partition.dataset_id == dataset)
        last = self.connection.execute(newest).scalar()
        if last is not None and last < cutoff:  # the next partition is in a window with the last
            cutoff = last
        names = self.connection.execute(
            sa.select(rolled.window_name).where(rolled.dataset_id == dataset)
        )
        for name in names.scalars():
            if name != TOTAL_STATE:
                (span,) = WindowScheme.from_name(name).spans([cutoff])
                if span.start is not None:
                    yield span.start

    def _partitions(self, dataset: int, cutoff: datetime) -> list[tuple[int, int, datetime]]:
        """Return the partitions before a cutoff, by their time or, without one, by the time of measurement."""
        partition, partition_version = s.partition.c, s.partition_version.c
        moment = sa.func.coalesce(
            partition.time, partition_version.measured_at, type_=s.UtcDateTime()
        )
        query = (
            sa.select(partition.id, partition_version.version, moment)
            .join_from(s.partition, s.partition_version)
            .where(partition.dataset_id == dataset, s.holds(s.partition_version), moment < cutoff)
        )
        return [(row[0], row[1], row[2]) for row in self.connection.execute(query)]

    def _fold(self, dataset: int, doomed: Sequence[tuple[int, int]]) -> None:
        """Add the states of some partitions to the fold of removed ones, and remove them."""
        versions = dict(doomed)
        statistics = (
            sa.select(s.statistic.c.id)
            .where(s.statistic.c.dataset_id == dataset)
            .order_by(s.statistic.c.id)
        )
        folds: dict[str, list[tuple[int, State, str]]] = {}
        for statistic in self.connection.execute(statistics).scalars().all():
            states = dict(self._states(statistic, versions))
            if not states:
                continue
            by_generation: dict[str, dict[int, State]] = {}
            for partition, generation in self._generations_of(statistic, list(states)).items():
                by_generation.setdefault(generation, {})[partition] = states[partition]
            removed_folds = self._removed(statistic)
            for generation, generation_states in by_generation.items():
                self._fold_generation(
                    statistic, generation, generation_states, versions, removed_folds, folds
                )
        if self.dry_run:
            folded_state = s.folded_state.c
            for name, new_folds in folds.items():
                query = sa.select(folded_state.artifact).where(
                    folded_state.fold == name, folded_state.artifact.is_not(None)
                )
                self._added_bytes += sum(len(state.pack()) for _, state, _ in new_folds)
                for ids in chunks([statistic for statistic, _, _ in new_folds]):
                    replaced = query.where(folded_state.statistic_id.in_(ids))
                    self._replaced_files.update(self.connection.execute(replaced).scalars())
        elif folds:
            commit, _ = next_commit(self.connection, None)
            for name, new_folds in folds.items():
                keep_folds(self.connection, self.artifacts, name, new_folds, commit)

    def _fold_generation(
        self,
        statistic: int,
        generation: str,
        states: dict[int, State],
        versions: Mapping[int, int],
        removed_folds: dict[str, _Fold],
        folds: dict[str, list[tuple[int, State, str]]],
    ) -> None:
        """Add states to the fold of their generation, and remove them."""
        name = next(
            (n for n, fold in removed_folds.items() if fold.generation in {None, generation}), None
        )
        if name is None:
            name = (
                REMOVED_STATE if not removed_folds else f"{REMOVED_STATE} {len(removed_folds) + 1}"
            )
        previous = removed_folds.get(name, _Fold(None, {}, generation))
        # States restated after they were folded stay: a fold does not support subtraction.
        new = {p: state for p, state in states.items() if p not in previous.inputs}
        removed = new.keys() | {p for p in states if previous.inputs.get(p) == versions[p]}
        if new:
            addends = [] if previous.state is None else [previous.state]
            try:
                total = merged([*addends, *new.values()])
            except StateError:  # they are kept; other series are cleaned
                self.counts["kept_unmerged"] = self.counts.get("kept_unmerged", 0) + len(new)
                return
            assert total is not None
            inputs = previous.inputs | {partition: versions[partition] for partition in new}
            removed_folds[name] = _Fold(total, inputs, generation)
            folds.setdefault(name, []).append((statistic, total, encode_inputs(inputs)))
        for chunk in chunks(sorted(removed)):
            is_removed = (s.state.c.statistic_id == statistic) & s.state.c.partition_id.in_(chunk)
            self._delete(s.state, is_removed, "states")

    def _generations_of(self, statistic: int, partitions: Sequence[int]) -> dict[int, str]:
        """Return the generation of a statistic's state in each partition."""
        schemas: dict[int, int] = {}
        for chunk in chunks(sorted(partitions)):
            query = sa.select(
                s.partition_version.c.partition_id, s.partition_version.c.table_schema_id
            ).where(s.partition_version.c.partition_id.in_(chunk), s.holds(s.partition_version))
            schemas.update((row[0], row[1]) for row in self.connection.execute(query))
        generations = self._generations.find(self._analyzer_of(statistic), schemas.values())
        return {partition: generations[schema] for partition, schema in schemas.items()}

    def _analyzer_of(self, statistic: int) -> AnyAnalyzer | None:
        """Return an analyzer that reads a statistic; None if the package that defines it is gone."""
        analyzer = s.analyzer.c
        texts = sa.select(analyzer.text).where(analyzer.statistic_id == statistic)
        for text in self.connection.execute(texts).scalars():
            with suppress(SuiteError, IllegalAnalyzerParameterError):
                return ANALYZERS.parse(text)
        return None

    def _states(self, statistic: int, versions: dict[int, int]) -> Iterator[tuple[int, State]]:
        state = s.state.c
        for chunk in chunks(sorted(versions)):
            query = sa.select(state.partition_id, state.version, *s.payload_of(s.state)).where(
                state.statistic_id == statistic, state.partition_id.in_(chunk)
            )
            for partition, version, *payload in self.connection.execute(query):
                if versions[partition] == version:
                    try:
                        yield partition, self.artifacts.unpack(Payload(*payload))
                    except StateError:
                        continue  # keep it, so that `db check` reports it

    def _removed(self, statistic: int) -> dict[str, _Fold]:
        """Return the folds of removed states by name."""
        folded_state = s.folded_state.c
        query = (
            sa.select(folded_state.fold, *s.payload_of(s.folded_state), s.input_set.c.inputs)
            .join_from(s.folded_state, s.input_set)
            .where(
                folded_state.statistic_id == statistic, folded_state.fold.startswith(REMOVED_STATE)
            )
            .order_by(folded_state.fold)
        )
        analyzer = self._analyzer_of(statistic)
        folds = {}
        for name, *payload, text in self.connection.execute(query).all():
            inputs = decode_inputs(text)
            generation = fold_generation(self.connection, self._generations, analyzer, inputs)
            folds[name] = _Fold(self.artifacts.unpack(Payload(*payload)), inputs, generation)
        return folds

    def runs(self, cutoff: datetime | None) -> None:
        if cutoff is None:
            return
        run = s.run.c
        used = sa.union(
            sa.select(s.commit.c.run_id).where(s.commit.c.run_id.is_not(None)),
            sa.select(s.partition_version.c.run_id),
            sa.select(s.segment_set.c.run_id),
            sa.select(s.verdict.c.run_id).where(
                s.verdict.c.run_id.is_not(None), sa.not_(self._removed_verdicts)
            ),
        )
        is_doomed = (run.finished_at < cutoff) & run.id.not_in(used)
        doomed = sa.select(run.id).where(is_doomed)
        self._delete(s.run_tag, s.run_tag.c.run_id.in_(doomed), None)
        self._delete(s.run, is_doomed, "runs")

    def orphans(self) -> list[str]:
        """Return files that nothing refers to, older than a day and than every run still open."""
        files = self.artifacts.files() | self.artifacts.unfinished()
        if not files:
            return []
        references: Counter[str] = Counter()
        for table in (s.state, s.named_state, s.folded_state):
            c = table.c.artifact
            references.update(self.connection.execute(sa.select(c).where(c.is_not(None))).scalars())
        doomed = Counter(file for file, _ in self._going_states.values() if file is not None)
        files -= (references - doomed - self._replaced_files).keys()
        cutoff = datetime.now(UTC) - _MIN_ORPHAN_AGE
        live = oldest_running_start(self.connection)
        cutoff = cutoff if live is None else min(cutoff, live)
        return sorted(name for name in files if self._modified(name) < cutoff)

    def _modified(self, name: str) -> datetime:
        try:
            return self.artifacts.modified(name)
        except FileNotFoundError:  # its writer has just completed it
            return datetime.now(UTC)

    def _delete(
        self, table: sa.Table, condition: sa.ColumnElement[bool], counted: str | None
    ) -> None:
        if self.dry_run and table is s.state:
            removed = self._remember(condition)
        else:
            removed = delete_rows(self.connection, table, condition, dry_run=self.dry_run)
        if counted is not None:
            self.counts[counted] = self.counts.get(counted, 0) + removed

    @property
    def bytes_of_states(self) -> int:
        """Bytes of states in the database that an actual run would free at least."""
        return max(sum(size for _, size in self._going_states.values()) - self._added_bytes, 0)

    def _remember(self, condition: sa.ColumnElement[bool]) -> int:
        """Remember states that would be removed, and return the number of new ones."""
        size = sa.func.coalesce(sa.func.length(s.state.c.payload), 0)
        query = sa.select(*s.state.primary_key, s.state.c.artifact, size).where(condition)
        previous = len(self._going_states)
        self._going_states.update(
            (tuple(key), (file, size)) for *key, file, size in self.connection.execute(query)
        )
        return len(self._going_states) - previous
