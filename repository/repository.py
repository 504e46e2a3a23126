"""The repository: one object through which everything remembered is written, read and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from analyzers.errors import DatabaseAccessError
from analyzers.metric import Metric
from repository import history
from repository import schema as s
from repository.artifacts import Artifacts
from repository.database import Database
from repository.history import AnyAnalyzer, AsOf, MetricQuery, Moment, Window
from repository.states import HistoricStates, NamedStates
from repository.store import SqlRunStore

if TYPE_CHECKING:
    import pandas as pd

    from repository.anomalies.monitor import Monitor

_STATUS_VALUES = {"NaN": float("nan"), "+inf": float("inf"), "-inf": float("-inf")}


class Repository:
    """The memory of what was measured, in a SQL database. Needs no Spark.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db``, made if it is not there; ``sqlite://``, in memory; or
        ``postgresql+psycopg://user@host/database``.
    artifacts : str or Path, optional
        The folder for states too large for the database. For a SQLite file it is ``file.db.artifacts``
        beside it; for PostgreSQL it must be given.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError

    Examples
    --------
    >>> with Repository("sqlite://") as repo:
    ...     repo.datasets()
    []
    """

    def __init__(self, url: str, *, artifacts: str | Path | None = None) -> None:
        self.database = Database(url)
        self.artifacts = Artifacts(self._folder(artifacts))
        self.store = SqlRunStore(self.database, self.artifacts)

    def _folder(self, given: str | Path | None) -> Path:
        if given is not None:
            return Path(given)
        if self.database.file is not None:
            return self.database.file.with_name(self.database.file.name + ".artifacts")
        if self.database.is_sqlite:
            self._temporary = TemporaryDirectory(prefix="tidegauge-")
            return Path(self._temporary.name)
        msg = (
            f"{self.database.name} needs a folder for large states that all who use it can reach:"
            " Repository(url, artifacts='/shared/folder'), or --artifacts on the command line"
        )
        raise DatabaseAccessError(msg)

    def __repr__(self) -> str:
        """Name the database, not its password."""
        return f"Repository({self.database.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back connections and temporary files."""
        self.database.close()
        if hasattr(self, "_temporary"):
            self._temporary.cleanup()

    # what there is

    def datasets(self) -> list[str]:
        """Return the names of all datasets."""
        with self.database.read() as connection:
            query = sa.select(s.dataset.c.name).order_by(s.dataset.c.name)
            return list(connection.execute(query).scalars())

    def partitions(self, dataset: str) -> pd.DataFrame:
        """Return the ledger: what is known of each partition's current version.

        Columns: partition, time, segment, version, rows, fingerprint, first_seen_at, arrived_at,
        measured_at, gone_at, run_id.
        """
        p, v = s.partition.c, s.partition_version.c
        current = history.versions_at(None)
        columns = (
            p.name.label("partition"),
            p.time,
            p.segment,
            v.version,
            v.rows,
            v.fingerprint,
            p.first_seen_at,
            v.arrived_at,
            v.measured_at,
            p.gone_at,
            v.run_id,
        )
        with self.database.read() as connection:
            of = history.dataset_id(connection, dataset)
            query = (
                sa.select(*columns)
                .join_from(s.partition, s.partition_version)
                .join(
                    current,
                    (current.c.partition_id == p.id) & (current.c.version == v.version),
                )
                .where(p.dataset_id == of)
                .order_by(p.time.is_(None), p.time, p.name)
            )
            rows = [row._asdict() for row in connection.execute(query)]
        return _frame(rows, [c.key for c in columns])

    def runs(self, dataset: str | None = None) -> pd.DataFrame:
        """Return all runs, newest first.

        Columns: run_id, dataset, status, selection, measured, skipped, failed, gone, started_at,
        finished_at, error, tags.
        """
        r = s.run.c
        columns = (
            r.id.label("run_id"),
            s.dataset.c.name.label("dataset"),
            r.status,
            r.selection,
            r.measured,
            r.skipped,
            r.failed,
            r.gone,
            r.started_at,
            r.finished_at,
            r.error,
        )
        with self.database.read() as connection:
            query = sa.select(*columns).join_from(s.run, s.dataset).order_by(r.id.desc())
            if dataset is not None:
                query = query.where(r.dataset_id == history.dataset_id(connection, dataset))
            rows = [row._asdict() for row in connection.execute(query)]
            tags: dict[int, dict[str, str]] = {}
            for run, key, value in connection.execute(sa.select(s.run_tag)):
                tags.setdefault(run, {})[key] = value
        for row in rows:
            row["tags"] = tags.get(row["run_id"], {})
        return _frame(rows, [*(c.key for c in columns), "tags"])

    # what was measured

    def metrics(
        self,
        dataset: str,
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> pd.DataFrame:
        """Return the metrics of all partitions, as they are or as they were known.

        Parameters
        ----------
        dataset : str
        name : str or sequence of str, optional
            Metric names, or an analyzer's name for all that it measures.
        instance : str, optional
            The column, columns or rule.
        since, until : str, date or datetime, optional
            Bounds on the partition's time, both included; a date as ``until`` covers its day.
        as_of : datetime or int, optional
            A moment in UTC, or a run: the history as it was known then.
        analyzer : Analyzer or str, optional
            Exactly this one, with all its options.
        where : str, optional
            Exactly this filter; the empty text for metrics without one.
        segment : str, optional
        tags : mapping, optional
            Only of runs that have at least these tags.

        Returns
        -------
        pandas.DataFrame
            One row for each metric of each partition, with the columns dataset, segment, partition,
            time, entity, name, instance, value, weight, status, error, version, run_id, analyzed_at,
            analyzer. ``value`` is NaN where the status is failed or empty.
        """
        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until), tags)
        with self.database.read() as connection:
            rows = history.metric_rows(connection, dataset, query, as_of)
        return metric_frame(rows)

    def merge(
        self,
        dataset: str,
        analyzer: AnyAnalyzer | str,
        *,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        segment: str | None = None,
        allow_missing: bool = False,
    ) -> Metric[Any]:
        """Return an analyzer's metric over many partitions at once, from their stored states.

        Any analyzer can be asked for whose state was stored: another quantile of a sketch, the
        distinctness where only the uniqueness was measured.

        Parameters
        ----------
        dataset : str
        analyzer : Analyzer or str
        since, until, as_of, segment
            As for `metrics`.
        allow_missing : bool
            Whether partitions without a state, because the analyzer failed there or was never
            measured, may be left out.

        Raises
        ------
        HistoryError
            If the analyzer was never measured, or not on all partitions of the window.
        """
        asked = history.as_analyzer(analyzer)
        with self.database.read() as connection:
            history.require_measured(connection, dataset, asked)
        states = self.window_states(
            dataset,
            since=since,
            until=until,
            as_of=as_of,
            segment=segment,
            allow_missing=allow_missing,
        )
        return asked.load_state_and_compute_metric(states)

    def window_states(
        self,
        dataset: str,
        *,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        segment: str | None = None,
        allow_missing: bool = False,
    ) -> HistoricStates:
        """Return a `StateLoader` of a dataset's states, added up over a window.

        Parameters
        ----------
        dataset, since, until, as_of, segment, allow_missing
            As for `merge`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with Repository("sqlite://") as repo:
        ...     repo.window_states("flights", since="2013-02-01").window.until
        """
        window = Window.of(since, until)
        return HistoricStates(
            self.database, self.artifacts, dataset, window, segment, as_of, allow_missing
        )

    def states(self, name: str) -> NamedStates:
        """Return a `StateLoader` and `StatePersister` of states that are kept under a name.

        They belong to no dataset and no run: a place for the states of single analyzers.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with Repository("sqlite://") as repo:
        ...     repo.states("nightly").persist(tg.Size(), tg.NumMatches(3))
        ...     tg.Size().load_state_and_compute_metric(repo.states("nightly")).value
        3.0
        """
        return NamedStates(self.database, self.artifacts, name)

    # what stands out

    def detect(
        self,
        dataset: str,
        monitors: Sequence[Monitor] | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
    ) -> pd.DataFrame:
        """Score every point of the history, store scores and anomalies, and return the anomalies.

        Parameters
        ----------
        dataset : str
        monitors : sequence of Monitor, optional
            Which detector watches which series; those of the dataset's last suite if not given, and
            the seasonal detector on everything if it has none.
        since, until
            Only points in this window can become anomalies; all earlier ones still teach.

        Returns
        -------
        pandas.DataFrame
            As `anomalies` returns.
        """
        from repository.anomalies.detection import detect  # noqa: PLC0415 - numpy and scipy

        detect(self.database, dataset, monitors, Window.of(since, until))
        return self.anomalies(dataset, since=since, until=until)

    def anomalies(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        since: Moment = None,
        until: Moment = None,
    ) -> pd.DataFrame:
        """Return what was found, the worst first.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        status : str, optional
            ``open`` for what nobody has settled.
        since, until
            Bounds on the partition's time, both included.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, segment, partition, time, name, instance, analyzer, value,
            expected, lower, upper, direction, score, p_value, detector, severity, status,
            incident_id, version, explanation, detected_at.
        """
        from repository.anomalies.listing import ANOMALY_COLUMNS, anomaly_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = anomaly_rows(connection, dataset, status, Window.of(since, until))
        return _frame(rows, ANOMALY_COLUMNS)

    def scores(
        self,
        dataset: str,
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
    ) -> pd.DataFrame:
        """Return what detectors said of every point that they scored, anomaly or not.

        Parameters
        ----------
        dataset, name, instance, since, until, analyzer, where, segment
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, segment, partition, time, name, instance, analyzer, detector,
            score, p_value, expected, lower, upper, version; the bounds are NaN where a detector
            has none.
        """
        from repository.anomalies.listing import SCORE_COLUMNS, score_rows  # noqa: PLC0415

        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            rows = score_rows(connection, dataset, query)
        return _frame(rows, SCORE_COLUMNS)


def metric_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return metric rows as a tidy frame."""
    shown = [{**{c: row[c] for c in history.METRIC_COLUMNS}, "value": _value(row)} for row in rows]
    return _frame(shown, history.METRIC_COLUMNS)


def _value(row: Mapping[str, Any]) -> float:
    value = row["value"]
    return _STATUS_VALUES.get(row["status"], float("nan")) if value is None else float(value)


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - heavy, and not needed to write

    frame = pd.DataFrame([[row[c] for c in columns] for row in rows], columns=list(columns))
    for column in columns:
        if column == "time" or column.endswith("_at"):
            # Microseconds, because nanoseconds end in 2262 and 9999-12-31 is a day of many tables.
            moments = [row[column] for row in rows]
            frame[column] = pd.Series(moments, dtype="datetime64[us, UTC]", index=frame.index)
        elif column in _NUMBERS:
            frame[column] = frame[column].astype("float64")
    return frame


_NUMBERS = {"value", "weight", "expected", "lower", "upper", "score", "p_value"}
