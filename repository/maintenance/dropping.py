"""Drop a dataset, a partition, series or a generation from a repository, in all versions.

Totals, windows, scores and incidents that contain the dropped data are also removed. The next
roll-up and detection recompute them from the remaining data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import HistoryError, did_you_mean
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.runs.ledger import AnalyzerKeys, ledger_key
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import find_newest, hashed_ids
from tidegauge.repository.store.bulk import chunks, delete_rows
from tidegauge.repository.store.database import Database, lock_clock, next_commit
from tidegauge.repository.store.queries import dataset_id
from tidegauge.repository.store.runs import stored_segment_sets
from tidegauge.repository.store.stored_states import (
    REMOVED_STATE,
    TOTAL_STATE,
    Artifacts,
    Generations,
    decode_inputs,
)
from tidegauge.repository.store.windows import END_OF_TIME

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_STATE_TABLES = (s.state, s.named_state, s.folded_state)


@dataclass(frozen=True)
class Dropped:
    """Counts of dropped objects, or of objects that a dry run would drop.

    Attributes
    ----------
    partitions, series, metrics, states, incidents, runs : int
        The number of each.
    dry_run : bool
        True if nothing was actually dropped.

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     _ = repo.record("shop", "revenue", {"ds=2026-01-01": 10.0})
    ...     found = repo.drop("shop", dry_run=True)
    >>> found.partitions, found.metrics, found.dry_run
    (1, 1, True)
    """

    partitions: int = 0
    series: int = 0
    metrics: int = 0
    states: int = 0
    incidents: int = 0
    runs: int = 0
    dry_run: bool = False

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        counts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "dry_run"}
        words = [
            plural(count, name if name == "series" else name.removesuffix("s"), name)
            for name, count in counts.items()
        ]
        return ("would drop " if self.dry_run else "dropped ") + ", ".join(words)


def drop(
    database: Database,
    artifacts: Artifacts,
    dataset: str,
    *,
    partition: str | None = None,
    analyzer: str | None = None,
    segment: str | None = None,
    generation: str | None = None,
    dry_run: bool = False,
) -> Dropped:
    """Drop a dataset, or one partition, series of an analyzer or a generation of it.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    dataset : str
    partition : str, optional
        Its name.
    analyzer : str, optional
        Its repr; all its series are dropped.
    segment : str, optional
        Only the analyzer's series of this segment; an empty string for the series of all rows.
    generation : str, optional
        Only the analyzer's metrics and states of this generation.
    dry_run : bool
        Only count.

    Raises
    ------
    UnknownDatasetError, HistoryError
        The message suggests the nearest name.
    """
    if partition is not None and analyzer is not None:
        msg = "drop either a partition or an analyzer: partition= (--partition) or analyzer= (--analyzer)"
        raise HistoryError(msg)
    if analyzer is None and not (segment is None and generation is None):
        msg = "a segment or generation belongs to an analyzer: set analyzer= (--analyzer)"
        raise HistoryError(msg)
    done: list[_Dropper] = []

    def work(connection: Connection) -> None:
        done[:] = [_Dropper(connection, dataset_id(connection, dataset), dry_run=dry_run)]
        if partition is not None:
            done[0].drop_partition(dataset, partition)
        elif analyzer is not None:
            done[0].drop_analyzer(dataset, analyzer, segment, generation)
        else:
            done[0].drop_dataset(dataset)

    if dry_run:
        with database.read() as connection:
            work(connection)
        return Dropped(**done[0].counts, dry_run=True)
    database.write(work)
    database.write(lambda connection: _remove_files(connection, artifacts, done[0].files))
    return Dropped(**done[0].counts, dry_run=False)


def rename(database: Database, dataset: str, name: str, *, dry_run: bool = False) -> None:
    """Give a dataset another name; see `Repository.rename`."""
    if not name.strip():
        msg = f"{name!r} is not a valid name of a dataset"
        raise HistoryError(msg)

    def check(connection: Connection) -> int:
        number = dataset_id(connection, dataset)
        if (
            connection.execute(sa.select(s.dataset.c.id).where(s.dataset.c.name == name)).scalar()
            is not None
        ):
            msg = f"dataset {name!r} already exists; drop it first, or choose another name"
            raise HistoryError(msg)
        return number

    def work(connection: Connection) -> None:
        lock_clock(connection)
        number = check(connection)
        connection.execute(sa.update(s.dataset).where(s.dataset.c.id == number).values(name=name))

    if dry_run:
        with database.read() as connection:
            check(connection)
    else:
        database.write(work)


def _remove_files(connection: Connection, artifacts: Artifacts, files: Collection[str]) -> None:
    """Remove the files of dropped states that no other state refers to."""
    lock_clock(connection)  # keeps out batches whose commit could refer to one of them
    columns = [table.c.artifact for table in _STATE_TABLES]
    used = {
        name
        for column in columns
        for chunk in chunks(sorted(files))
        for name in connection.execute(sa.select(column).where(column.in_(chunk))).scalars()
    }
    for name in sorted(set(files) - used):
        artifacts.remove(name)


def _unshared_statistics(rows: Sequence[Any], doomed: Sequence[Any]) -> list[int]:
    """Return the statistics that only the doomed analyzers read."""
    ids = {row.id for row in doomed}
    shared = {row.statistic_id for row in rows if row.id not in ids}
    return sorted({row.statistic_id for row in doomed} - shared - {None})


class _Dropper:
    """Deletes rows of one dataset inside one transaction, and counts them; a dry run only counts.

    No query depends on earlier deletions, so that a dry run counts the same.
    """

    def __init__(self, connection: Connection, dataset: int, *, dry_run: bool) -> None:
        self.connection, self.dataset, self.dry_run = connection, dataset, dry_run
        if not dry_run:
            lock_clock(connection)
        self.counts: dict[str, int] = {}
        self.files: set[str] = set()
        in_dataset = s.partition.c.dataset_id == dataset
        self.partitions = sa.select(s.partition.c.id).where(in_dataset)
        self.analyzers = sa.select(s.analyzer.c.id).where(s.analyzer.c.dataset_id == dataset)
        self.series = sa.select(s.series.c.id).where(s.series.c.analyzer_id.in_(self.analyzers))
        self.statistics = sa.select(s.statistic.c.id).where(s.statistic.c.dataset_id == dataset)

    def drop_dataset(self, name: str) -> None:
        """Delete the dataset and all rows that refer to it."""
        dataset = self.dataset
        incidents = sa.select(s.incident.c.id).where(s.incident.c.dataset_id == dataset)
        anomalies = sa.select(s.anomaly.c.id).where(s.anomaly.c.partition_id.in_(self.partitions))
        runs = sa.select(s.run.c.id).where(s.run.c.dataset_id == dataset)
        in_partitions = [
            (table, table.c.partition_id.in_(self.partitions))
            for table in (s.score, s.newest_metric, s.absence, s.partition_version)
        ]
        self._delete(s.notice, s.notice.c.incident_id.in_(incidents))
        self._delete(s.verdict_notice, s.verdict_notice.c.dataset_id == dataset)
        self._delete(s.label, s.label.c.dataset_id == dataset)
        self._delete(s.finding, s.finding.c.anomaly_id.in_(anomalies))
        self._delete(s.course, s.course.c.incident_id.in_(incidents))
        self._delete(s.incident, s.incident.c.dataset_id == dataset, "incidents")
        self._delete(s.anomaly, s.anomaly.c.partition_id.in_(self.partitions))
        self._delete(s.scored, s.scored.c.dataset_id == dataset)
        self._delete(s.rollup, s.rollup.c.series_id.in_(self.series))
        self._delete(s.rolled, s.rolled.c.dataset_id == dataset)
        self._delete_states(s.folded_state, s.folded_state.c.statistic_id.in_(self.statistics))
        self._delete_states(s.state, s.state.c.statistic_id.in_(self.statistics), "states")
        self._delete(s.metric, s.metric.c.partition_id.in_(self.partitions), "metrics")
        for table, condition in in_partitions:
            self._delete(table, condition)
        self._delete(s.verdict, s.verdict.c.dataset_id == dataset)
        self._delete(s.partition, s.partition.c.dataset_id == dataset, "partitions")
        self._delete(s.segment_set, s.segment_set.c.dataset_id == dataset)
        self._delete(s.series, s.series.c.analyzer_id.in_(self.analyzers), "series")
        self._delete(s.analyzer, s.analyzer.c.dataset_id == dataset)
        self._delete(s.statistic, s.statistic.c.dataset_id == dataset)
        self._delete(s.run_tag, s.run_tag.c.run_id.in_(runs))
        self._update(sa.update(s.commit).where(s.commit.c.run_id.in_(runs)).values(run_id=None))
        self._delete(s.run, s.run.c.dataset_id == dataset, "runs")
        self._delete(s.lease, s.lease.c.dataset == f"records of {name}")
        self._delete(s.dataset, s.dataset.c.id == dataset)

    def drop_partition(self, dataset: str, name: str) -> None:
        """Delete all versions of a partition, and all values computed from them."""
        partition = s.partition.c
        query = sa.select(partition.id, partition.key, partition.time).where(
            partition.dataset_id == self.dataset
        )
        row = self.connection.execute(query.where(partition.key == key_of(name))).one_or_none()
        if row is None:
            names = sa.select(partition.name).where(partition.dataset_id == self.dataset)
            known_names = self.connection.execute(names).scalars().all()
            msg = f"{dataset!r} has no partition {name!r}{did_you_mean(name, known_names)}"
            raise HistoryError(msg)
        self._forget_anomalies(s.anomaly.c.partition_id == row.id)
        course = s.course.c
        self._delete(
            s.course, (course.first_partition_id == row.id) | (course.last_partition_id == row.id)
        )
        self._delete(s.label, s.label.c.partition_id == row.id)
        newest_metric = s.newest_metric.c
        newest = sa.select(newest_metric.series_id).where(newest_metric.partition_id == row.id)
        stale = self.connection.execute(newest).scalars().all()
        self._delete_states(s.state, s.state.c.partition_id == row.id, "states")
        self._delete(s.metric, s.metric.c.partition_id == row.id, "metrics")
        self._delete(s.newest_metric, newest_metric.partition_id == row.id)
        self._find_newest(stale)
        for table in (s.score, s.absence, s.partition_version):
            self._delete(table, table.c.partition_id == row.id)
        verdict = s.verdict.c
        self._delete(
            s.verdict, (verdict.dataset_id == self.dataset) & (verdict.partition_key == row.key)
        )
        self._delete_rollups(row.id, self.series)
        self._delete_folds_of(row.id, self.statistics)
        self._delete(s.partition, partition.id == row.id, "partitions")
        self._compute_anew()

    def drop_analyzer(
        self, dataset: str, text: str, segment: str | None, generation: str | None
    ) -> None:
        """Delete all series of an analyzer, only a segment's series, or only a generation's values.

        If a suite still names the analyzer, the next run measures it again. A segment is not
        measured again in existing partitions.
        """
        rows = self._analyzer_rows()
        doomed = [row for row in rows if text in {row.text, row.canonical}]
        if not doomed:
            known_texts = sorted({row.text for row in rows})
            msg = f"{dataset!r} has no analyzer {text!r}{did_you_mean(text, known_texts)}"
            raise HistoryError(msg)
        if segment is not None:
            segments = sorted({row.segment for row in doomed})
            doomed = [row for row in doomed if row.segment == segment]
            if not doomed:
                hint = did_you_mean(segment, segments)
                raise HistoryError(f"{text} of {dataset!r} has no segment {segment!r}{hint}")
        if generation is None:
            self._drop_analyzers(rows, doomed, keep_ledger=bool(segment))
        else:
            self._drop_generation(dataset, doomed, generation, keep_ledger=bool(segment))
        self._compute_anew()

    def _analyzer_rows(self) -> list[Any]:
        analyzer = s.analyzer.c
        query = sa.select(
            analyzer.id, analyzer.text, analyzer.canonical, analyzer.segment, analyzer.statistic_id
        )
        return list(self.connection.execute(query.where(analyzer.dataset_id == self.dataset)))

    def _drop_analyzers(
        self, rows: Sequence[Any], doomed: Sequence[Any], *, keep_ledger: bool
    ) -> None:
        """Delete those analyzers among all ``rows`` that are to be dropped, with their series."""
        ids = sorted(row.id for row in doomed)
        is_doomed = s.analyzer.c.id.in_(ids)
        series = sa.select(s.series.c.id).where(s.series.c.analyzer_id.in_(ids))
        self._forget_anomalies(s.anomaly.c.series_id.in_(series))
        self._delete(s.label, s.label.c.series_id.in_(series))
        in_dataset = s.metric.c.partition_id.in_(self.partitions)
        self._delete(s.metric, in_dataset & s.metric.c.series_id.in_(series), "metrics")
        for table in (s.newest_metric, s.rollup):
            self._delete(table, table.c.series_id.in_(series))
        self._delete(s.score, s.score.c.partition_id.in_(self.partitions))
        self._delete(s.series, s.series.c.analyzer_id.in_(ids), "series")
        self._delete(s.analyzer, is_doomed)
        for chunk in chunks(_unshared_statistics(rows, doomed)):
            self._delete_states(s.state, s.state.c.statistic_id.in_(chunk), "states")
            self._delete_states(s.folded_state, s.folded_state.c.statistic_id.in_(chunk))
            self._delete(s.statistic, s.statistic.c.id.in_(chunk))
        if not keep_ledger:
            self._leave_out_of_ledger({row.canonical for row in doomed}, self.partitions)

    def _drop_generation(
        self,
        dataset: str,
        doomed: Sequence[Any],
        generation: str,
        *,
        keep_ledger: bool,
    ) -> None:
        """Delete the metrics and states of analyzers in the partitions of a generation."""
        partitions, other_generations = self._partitions_of(doomed[0].text, generation)
        if not partitions:
            hint = did_you_mean(generation, sorted(other_generations))
            msg = f"{doomed[0].text} of {dataset!r} has no generation {generation!r}{hint}"
            raise HistoryError(msg)
        ids = sorted(row.id for row in doomed)
        statistics = {row.statistic_id for row in doomed} - {None}
        query = sa.select(s.series.c.id).where(s.series.c.analyzer_id.in_(ids))
        series = self.connection.execute(query).scalars().all()
        for partition in partitions:
            of_series = s.anomaly.c.series_id.in_(query)
            self._forget_anomalies((s.anomaly.c.partition_id == partition) & of_series)
            for table, counted in ((s.metric, "metrics"), (s.label, None), (s.newest_metric, None)):
                condition = (table.c.partition_id == partition) & table.c.series_id.in_(query)
                self._delete(table, condition, counted)
            alone = sorted(statistics - self._statistics_read_in(partition, besides=ids))
            condition = (s.state.c.partition_id == partition) & s.state.c.statistic_id.in_(alone)
            self._delete_states(s.state, condition, "states")
            self._delete_rollups(partition, query)
            self._delete_folds_of(partition, alone)
        self._find_newest(series)
        self._delete(s.score, s.score.c.partition_id.in_(self.partitions))
        if not keep_ledger:
            self._leave_out_of_ledger({row.canonical for row in doomed}, sorted(partitions))

    def _partitions_of(self, text: str, generation: str) -> tuple[set[int], set[str]]:
        """Return the ids of the partitions of an analyzer's generation, and the other generations."""
        analyzer = ANALYZERS.parse(text)
        partition_version = s.partition_version.c
        query = sa.select(partition_version.partition_id, partition_version.table_schema_id).where(
            s.holds(s.partition_version), partition_version.partition_id.in_(self.partitions)
        )
        schemas = {row[0]: row[1] for row in self.connection.execute(query)}
        by_schema = Generations(self.connection).find(analyzer, schemas.values())
        partitions = {
            partition for partition, schema in schemas.items() if by_schema[schema] == generation
        }
        return partitions, {*by_schema.values()} - {"", generation}

    def _statistics_read_in(self, partition: int, *, besides: Sequence[int]) -> set[int]:
        """Return the statistics whose states have metrics of other analyzers in a partition."""
        query = (
            sa.select(s.analyzer.c.statistic_id)
            .join_from(s.metric, s.series, s.series.c.id == s.metric.c.series_id)
            .join(s.analyzer)
            .where(s.metric.c.partition_id == partition, s.analyzer.c.id.not_in(besides))
        )
        return set(self.connection.execute(query.distinct()).scalars()) - {None}

    def _leave_out_of_ledger(
        self, canonicals: Collection[str], partitions: sa.Select[tuple[int]] | Sequence[int]
    ) -> None:
        """Remove analyzers, by canonical JSON, from the ledger of all versions of partitions."""
        if self.dry_run:
            return
        partition_version, analyzer_set = s.partition_version.c, s.analyzer_set.c
        segments = stored_segment_sets(self.connection, self.dataset)
        doomed = {
            ledger_key(canonical, chosen)
            for canonical in canonicals
            for chosen in (None, *segments)
        }
        used = (
            sa.select(partition_version.analyzer_set_id)
            .where(partition_version.partition_id.in_(partitions))
            .distinct()
        )
        sets = self.connection.execute(
            sa.select(analyzer_set.id, analyzer_set.analyzers).where(analyzer_set.id.in_(used))
        ).all()
        texts = {row.id: AnalyzerKeys.from_json(row.analyzers).without(doomed) for row in sets}
        stored = {number: keys.to_json() for number, keys in texts.items()}
        ids = hashed_ids(
            self.connection,
            s.analyzer_set,
            "analyzers",
            {key_of(text): text for text in stored.values()},
        )
        for number, text in stored.items():
            change = sa.update(s.partition_version).where(
                partition_version.analyzer_set_id == number
            )
            change = change.where(partition_version.partition_id.in_(partitions))
            self.connection.execute(change.values(analyzer_set_id=ids[key_of(text)]))

    def _forget_anomalies(self, condition: sa.ColumnElement[bool]) -> None:
        """Delete anomalies, and the incidents named after them; the next detection regroups the others."""
        anomalies = sa.select(s.anomaly.c.id).where(condition)
        incidents = sa.select(s.incident.c.id).where(s.incident.c.anomaly_id.in_(anomalies))
        doomed = self.connection.execute(incidents).scalars().all()
        for chunk in chunks(doomed):
            detach = sa.update(s.finding).where(s.finding.c.incident_id.in_(chunk))
            self._update(detach.values(incident_id=None))
            self._delete(s.notice, s.notice.c.incident_id.in_(chunk))
            self._delete(s.label, s.label.c.incident_id.in_(chunk))
            self._delete(s.course, s.course.c.incident_id.in_(chunk))
            self._delete(s.incident, s.incident.c.id.in_(chunk), "incidents")
        self._delete(s.label, s.label.c.anomaly_id.in_(anomalies))
        self._delete(s.finding, s.finding.c.anomaly_id.in_(anomalies))
        self._delete(s.anomaly, condition)

    def _delete_rollups(self, partition: int, series: sa.Select[tuple[int]]) -> None:
        """Delete the roll-ups of series over windows that contain a partition."""
        query = sa.select(s.partition.c.time).where(s.partition.c.id == partition)
        time = self.connection.execute(query).scalar_one()
        rollup = s.rollup.c
        contains_partition = rollup.window_end == END_OF_TIME
        if time is not None:
            contains_partition |= (rollup.window_start <= time) & (rollup.window_end >= time)
        self._delete(s.rollup, rollup.series_id.in_(series) & contains_partition)

    def _delete_folds_of(
        self, partition: int, statistics: sa.Select[tuple[int]] | Sequence[int]
    ) -> None:
        """Delete folded states that contain a partition: a fold does not support subtraction."""
        folded_state = s.folded_state.c
        query = (
            sa.select(folded_state.statistic_id, folded_state.fold, s.input_set.c.inputs)
            .join_from(s.folded_state, s.input_set)
            .where(folded_state.statistic_id.in_(statistics))
            .where((folded_state.fold == TOTAL_STATE) | folded_state.fold.startswith(REMOVED_STATE))
        )
        for statistic, fold, inputs in self.connection.execute(query).all():
            if partition in decode_inputs(inputs):
                same = (folded_state.statistic_id == statistic) & (folded_state.fold == fold)
                self._delete_states(s.folded_state, same)

    def _compute_anew(self) -> None:
        """Make the next roll-up compute all windows, and the next detection score all partitions."""
        if not self.dry_run:
            next_commit(self.connection, None)
        reset = sa.update(s.rolled).where(s.rolled.c.dataset_id == self.dataset)
        self._update(reset.values(analyzer_id=0))
        self._delete(s.scored, s.scored.c.dataset_id == self.dataset)

    def _delete_states(
        self, table: sa.Table, condition: sa.ColumnElement[bool], counted: str | None = None
    ) -> None:
        query = sa.select(table.c.artifact).where(condition, table.c.artifact.is_not(None))
        self.files.update(self.connection.execute(query).scalars())
        self._delete(table, condition, counted)

    def _delete(
        self, table: sa.Table, condition: sa.ColumnElement[bool], counted: str | None = None
    ) -> None:
        removed = delete_rows(self.connection, table, condition, dry_run=self.dry_run)
        if counted is not None:
            self.counts[counted] = self.counts.get(counted, 0) + removed

    def _update(self, statement: sa.Update) -> None:
        if not self.dry_run:
            self.connection.execute(statement)

    def _find_newest(self, series: Sequence[int]) -> None:
        if not self.dry_run:
            find_newest(self.connection, series)
