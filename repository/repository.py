"""The repository: one object through which everything remembered is written, read and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, overload

import sqlalchemy as sa

from analyzers.errors import DatabaseAccessError, HistoryError
from analyzers.metric import Metric
from repository import history
from repository import schema as s
from repository.artifacts import Artifacts
from repository.charts import CHART_COLUMNS, chart_rows, fact_pages
from repository.clean import Age, Cleaned, clean
from repository.config import settings
from repository.database import Database
from repository.facts import read_facts, read_newest
from repository.frames import frame_of
from repository.history import AnyAnalyzer, AsOf, MetricQuery, Moment, Window
from repository.labels import LABEL_COLUMNS, add_label, add_range, label_rows
from repository.record import Record, write_record
from repository.recorded import Recorded
from repository.restatements import (
    RESTATEMENT_COLUMNS,
    VERSION_COLUMNS,
    restatement_rows,
    version_rows,
)
from repository.rollups import roll_up, rolled_windows, rollup_rows
from repository.states import WINDOW_COLUMNS, HistoricStates, NamedStates, window_rows
from repository.store import SqlRunStore
from repository.windows import Windows

if TYPE_CHECKING:
    import pandas as pd

    from repository.anomalies.monitor import Monitor
    from repository.drift import Drift, Side


class Repository:
    """The memory of what was measured, in a SQL database. Needs no Spark.

    Parameters
    ----------
    url : str, optional
        ``sqlite:///file.db``, made if it is not there; ``sqlite://``, in memory; or
        ``postgresql+psycopg://user@host/database``. If not given: the environment's ``TIDEGAUGE_DB``,
        else ``db`` in ``tidegauge.toml``, here or in the user's configuration, else
        ``sqlite:///tidegauge.db``.
    artifacts : str or Path, optional
        The folder for states too large for the database. For a SQLite file it is ``file.db.artifacts``
        beside it; for PostgreSQL it must be given.

    read_only : bool
        Whether nothing may be written: for dashboards. The database itself refuses it.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError

    Examples
    --------
    >>> with Repository("sqlite://") as repo:
    ...     repo.datasets()
    []
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        artifacts: str | Path | None = None,
        read_only: bool = False,
    ) -> None:
        url, artifacts = settings(url, artifacts)
        self.database = Database(url, read_only=read_only)
        if artifacts is None and not self.database.is_shared:
            self._temporary = TemporaryDirectory(prefix="tidegauge-")
            artifacts = self._temporary.name
        try:
            self.artifacts = artifacts_of(self.database, artifacts)
        except BaseException:
            self.database.close()
            raise
        self.store = SqlRunStore(self.database, self.artifacts)

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

    def partitions(
        self, dataset: str, *, versions: str = "current", as_of: AsOf = None
    ) -> pd.DataFrame:
        """Return the ledger: what is known of each partition.

        Parameters
        ----------
        dataset : str
        versions : str
            ``current``, or ``all`` for every content that a partition ever had.
        as_of : datetime or int, optional
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            With the columns partition, time, segment, version, rows, fingerprint, first_seen_at,
            arrived_at, measured_at, gone_at, run_id.
        """
        p, v = s.partition.c, s.partition_version.c
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
            s.commit.c.committed_at.label("gone_at"),
            v.run_id,
        )
        with self.database.read() as connection:
            of = history.dataset_id(connection, dataset)
            commit = history.commit_as_of(connection, as_of)
            holds = s.holds(s.partition_version, commit)
            if versions == "all":
                holds = sa.true() if commit is None else v.commit_id <= commit
            query = (
                sa.select(*columns)
                .join_from(s.partition, s.partition_version)
                .outerjoin(
                    s.absence,
                    (s.absence.c.partition_id == p.id) & s.holds(s.absence, commit),
                )
                .outerjoin(s.commit, s.commit.c.id == s.absence.c.commit_id)
                .where(p.dataset_id == of, holds)
                .order_by(p.time.is_(None), p.time, p.name, v.version)
            )
            rows = [row._asdict() for row in connection.execute(query)]
        return frame_of(rows, [c.key for c in columns])

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
        return frame_of(rows, [*(c.key for c in columns), "tags"])

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
        window: str | None = None,
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
        window : str, optional
            Roll-ups instead of partitions: ``7d``, ``month``, ``total``, ..., of those that the suite
            names. Their ``partition`` is the window's start and end, their ``time`` the newest
            partition's in it, and they have no version.

        Returns
        -------
        pandas.DataFrame
            One row for each metric of each partition, with the columns dataset, segment, partition,
            time, entity, name, instance, value, weight, status, error, version, run_id, analyzed_at,
            analyzer. ``value`` is NaN where the status is failed or empty.
        """
        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until), tags)
        with self.database.read() as connection:
            if window is not None:
                if tags:
                    msg = "roll-ups are of no run: tags= does not go with window="
                    raise HistoryError(msg)
                rows = rollup_rows(connection, dataset, window, query, as_of)
                return frame_of(rows, history.METRIC_COLUMNS)
            return read_facts(connection, dataset, query, as_of).frame()

    def latest(
        self,
        dataset: str,
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return each series at its newest partition, as `metrics` does, from a copy kept for that.

        Parameters
        ----------
        dataset, name, instance, analyzer, where, segment, as_of
            As for `metrics`. A past view is not copied, and reads the whole history.
        """
        query = MetricQuery(name, instance, segment, where, analyzer)
        with self.database.read() as connection:
            if as_of is not None:
                return read_facts(connection, dataset, query, as_of).newest().frame()
            return read_newest(connection, dataset, query).frame()

    def pages(
        self,
        dataset: str,
        *,
        rows: int = 100_000,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
    ) -> Iterator[pd.DataFrame]:
        """Yield what `metrics` returns in pieces of about so many rows, whole partitions each.

        A view as of a moment stays the same over all pages; without ``as_of`` it is the one of now.

        Parameters
        ----------
        dataset, name, instance, since, until, as_of, analyzer, where, segment
            As for `metrics`.
        rows : int
            How many rows to hold at a time.
        """
        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            pages = fact_pages(connection, dataset, query, as_of, rows)
            if self.database.is_shared:
                yield from (facts.frame() for facts in pages)
                return
            held = list(pages)  # nothing else can be asked meanwhile, and all of it is in memory
        yield from (facts.frame() for facts in held)

    def chart(
        self,
        dataset: str,
        *,
        points: int = 500,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
    ) -> pd.DataFrame:
        """Return series thinned out by the database for drawing, extremes kept.

        Parameters
        ----------
        dataset, name, instance, since, until, as_of, analyzer, where, segment
            As for `metrics`.
        points : int
            At most so many intervals of equal length of time for each series.

        Returns
        -------
        pandas.DataFrame
            One row for each series and interval that has a finite value, with the columns segment, name,
            instance, analyzer, start and end (the first and last partition's time in it), low, high,
            mean, count. Partitions without a time are left out.
        """
        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            rows = chart_rows(connection, dataset, query, points, as_of)
        return frame_of(rows, CHART_COLUMNS)

    def versions(
        self,
        dataset: str,
        partition: str,
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return the versions of a partition side by side.

        Parameters
        ----------
        dataset, name, instance, analyzer, where, segment, as_of
            As for `metrics`.
        partition : str
            Its name, as in ``ds=2013-02-08``.

        Returns
        -------
        pandas.DataFrame
            One row for each series, with the columns segment, name, instance, analyzer, and one for
            each version, under its number; NaN where a version has no value.

        Raises
        ------
        HistoryError
            If there is no such partition.
        """
        query = MetricQuery(name, instance, segment, where, analyzer)
        with self.database.read() as connection:
            of = history.partition_id(connection, dataset, partition)
            rows = version_rows(connection, dataset, of, query, as_of)
        numbers = sorted({row["version"] for row in rows})
        wide: dict[tuple[Any, ...], dict[Any, Any]] = {}
        for row in rows:
            series: dict[Any, Any] = {column: row[column] for column in VERSION_COLUMNS}
            unknown = dict.fromkeys(numbers, nan)
            entry = wide.setdefault(tuple(series.values()), {**series, **unknown})
            entry[row["version"]] = row["value"]
        return frame_of(list(wide.values()), [*VERSION_COLUMNS, *numbers])

    def restatements(
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
    ) -> pd.DataFrame:
        """Return what changed when partitions were measured again with other content.

        Parameters
        ----------
        dataset, name, instance, since, until, as_of, analyzer, where, segment
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            One row for each series that a new version of a partition changed, the latest first, with the
            columns dataset, segment, partition, time, name, instance, analyzer, old, new, change,
            old_status, new_status, old_version, new_version, old_run, new_run, restated_at.
        """
        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            rows = restatement_rows(connection, dataset, query, as_of)
        return frame_of(rows, RESTATEMENT_COLUMNS)

    def record(
        self,
        dataset: str,
        name: str,
        value: float | Mapping[str, float],
        *,
        partition: str | None = None,
        time: datetime | None = None,
        instance: str = "*",
        segment: str = "",
        entity: str = "Dataset",
        scale: str = "signed",
        weight: float | None = None,
    ) -> int:
        """Remember a number of one's own; it is a metric like the rest, and is watched like them.

        Parameters
        ----------
        dataset : str
            Made if there is none.
        name : str
        value : float or mapping of str to float
            The value, or values by partition. NaN and infinities are kept as such.
        partition : str, optional
            For a single value: ``ds=2013-02-08``; the whole dataset if not given.
        time : datetime, optional
            The partition's, where its name does not tell it.
        instance : str
            The column or rule that it is about.
        segment, entity : str
        scale : str
            How values behave: ``count``, ``ratio``, ``positive``, ``signed``, ``distance``, ``time`` or
            ``flag``.
        weight : float, optional
            The number of rows behind it.

        Returns
        -------
        int
            How many values were new. What is stored already is not written again; another value is a new
            version of the metric, and the old one stays.

        Examples
        --------
        >>> with Repository("sqlite://") as repo:
        ...     repo.record("orders", "revenue", 1250.5, partition="ds=2013-02-08")
        ...     repo.metrics("orders")["value"].tolist()
        1
        [1250.5]
        """
        many = isinstance(value, Mapping)
        if many and (partition is not None or time is not None):
            msg = "values by partition take no partition= and no time="
            raise HistoryError(msg)
        values = value if isinstance(value, Mapping) else {partition or "": value}
        what = Recorded(name, instance=instance, entity=entity, scale=scale)
        times = {} if many else {partition or "": time}
        weight = None if weight is None or isnan(weight) else float(weight)
        if time is not None and time.tzinfo is None:
            times = dict.fromkeys(times, time.replace(tzinfo=UTC))
        record = Record(dataset, what, segment, values, times, weight)
        return write_record(self.database, record)

    def roll_up(
        self, dataset: str, windows: Sequence[str] | None = None, *, run: int | None = None
    ) -> int:
        """Bring the total and the roll-ups of a dataset up to date; every run does so itself.

        Parameters
        ----------
        dataset : str
        windows : sequence of str, optional
            ``7d``, ``24h`` (rolling); ``day``, ``week``, ``month``, ``quarter``, ``year``. Those that
            were made before if not given.
        run : int, optional
            The run for which it is done.

        Returns
        -------
        int
            How many metrics were written.
        """
        with self.database.read() as connection:
            names = windows if windows is not None else rolled_windows(connection, dataset)
        return roll_up(self.database, self.artifacts, dataset, names, run)

    def clean(
        self,
        *,
        versions: Age = None,
        states: Age = None,
        runs: Age = None,
        dry_run: bool = False,
    ) -> Cleaned:
        """Remove what is too old, and files to which nothing refers.

        Parameters
        ----------
        versions : str, timedelta or datetime, optional
            Versions that were superseded so long ago (``90d``, ``12w``, ``6mo``, ``2y``) or before then,
            with all that belongs to them. Views as of earlier moments are refused from then on. What
            unsettled anomalies are about stays.
        states : str, timedelta or datetime, optional
            States of partitions of so long ago. They are added up before, so the total goes on; what
            windows still need stays. Metrics stay.
        runs : str, timedelta or datetime, optional
            Runs that ended so long ago and left nothing behind.
        dry_run : bool
            Only count.
        """
        return clean(
            self.database,
            self.artifacts,
            versions=versions,
            states=states,
            runs=runs,
            dry_run=dry_run,
        )

    @overload
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
        every: None = None,
    ) -> Metric[Any]: ...

    @overload
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
        every: str,
    ) -> pd.DataFrame: ...

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
        every: str | None = None,
    ) -> Metric[Any] | pd.DataFrame:
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
            measured, may be left out; also damaged ones, each with a `RepositoryWarning`.
        every : str, optional
            Cut the time into windows of this length instead: ``1w`` (from Monday), ``7d``, ``12h``,
            ``1mo``, ``1q``, ``1y``. Partitions without a time are left out.

        Returns
        -------
        Metric or pandas.DataFrame
            With ``every`` a frame, one row for each window that holds a partition and number of the
            flattened metric, with the columns start, end (excluded), partitions, entity, name, instance,
            value, weight, status, error.

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
        if every is None:
            return asked.load_state_and_compute_metric(states)
        return frame_of(window_rows(states, asked, Windows.every(every)), WINDOW_COLUMNS)

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

    # what moved

    def drift(
        self,
        dataset: str,
        column: str,
        baseline: Side,
        current: Side,
        *,
        segment: str | None = None,
        where: str | None = None,
        as_of: AsOf = None,
        kind: str | None = None,
        record: bool = False,
    ) -> Drift:
        """Return how a column's distribution differs between two partitions or windows.

        From stored states, whichever analyzer stored them, without Spark: a quantile sketch
        (`ApproxQuantile`, `KLLSketch`, `ReqQuantile`), else the frequencies of the values (`Histogram`,
        `Uniqueness`, ...), else a `TopValues` that tracked them all. Nulls and NaN are left out.

        Parameters
        ----------
        dataset, column : str
        baseline, current : str or pair
            The name of a partition, or a window ``(since, until)`` on the partitions' time: both
            included, each may be None.
        segment, as_of
            As for `merge`.
        where : str, optional
            Exactly this filter; what was measured without one if not given.
        kind : str, optional
            ``categorical`` to compare numbers as categories, of which frequencies must be stored.
        record : bool
            Whether to store the distances as metrics of ``current``, which then is a partition, as
            `drifts` does. A view as of the past is not recorded.

        Returns
        -------
        Drift
            With ``psi``, ``js``, ``ks``, ``wasserstein``, ... as in
            `repository.anomalies.distances.Distances`, NaN if a side has no values; and a ``frame()`` of
            both distributions.

        Raises
        ------
        HistoryError
            If nothing suitable is stored, which says what to add, or not for all partitions; or if
            there is no such partition.

        Examples
        --------
        >>> from repository.testing import commit, day
        >>> with Repository("sqlite://") as repo:
        ...     days = [day(1, groups={("a",): 5, ("b",): 5}), day(2, groups={("a",): 10})]
        ...     _ = commit(repo, *days)
        ...     repo.drift("d", "s", "ds=2013-01-01", "ds=2013-01-02").lost
        0.5
        """
        from repository.columns import Column  # noqa: PLC0415 - numpy
        from repository.drift import drift  # noqa: PLC0415 - numpy and scipy

        of = Column(self.database, self.artifacts, dataset, column, segment, where, as_of, kind)
        return drift(of, baseline, current, record=record)

    def drifts(
        self,
        dataset: str,
        column: str,
        *,
        baseline: str | int = "28d",
        at_least: int = 7,
        since: Moment = None,
        until: Moment = None,
        segment: str | None = None,
        where: str | None = None,
        as_of: AsOf = None,
        kind: str | None = None,
        record: bool = True,
    ) -> pd.DataFrame:
        """Compare each partition with those before it, and remember the distances as metrics.

        They are named ``Drift.psi``, ``Drift.js``, ``Drift.ks`` and ``Drift.wasserstein``, of categories
        ``Drift.psi``, ``Drift.js``, ``Drift.unseen`` and ``Drift.lost``, with the column as instance;
        `detect` compares them with their own past. There is one series of each for a column, segment and
        filter: another baseline makes new versions of the same. What did not change is not written
        again.

        Parameters
        ----------
        dataset, column, segment, where, as_of, kind
            As for `drift`. A view as of the past is not recorded.
        baseline : str or int
            The time before each partition that it is compared with (``28d``, ``24h``), or the number of
            partitions before it.
        at_least : int
            How many of them must hold values; earlier partitions are left out.
        since, until
            Which partitions to compare; earlier ones still are the baseline.
        record : bool

        Returns
        -------
        pandas.DataFrame
            One row for each partition with a time and a state, with the columns segment, partition,
            time, psi, js, ks, wasserstein, wasserstein_iqr, unseen, lost, rows, baseline_rows. Distances
            are NaN where it holds no values, or where they are of the other kind.

        Raises
        ------
        HistoryError
            If nothing suitable is stored, which says what to add.

        Examples
        --------
        >>> from repository.testing import commit, day
        >>> with Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, groups={("a",): 5, ("b",): 5}) for n in range(1, 10)))
        ...     repo.drifts("d", "s")["psi"].tolist()
        [0.0, 0.0]
        """
        from repository.columns import Column  # noqa: PLC0415 - numpy
        from repository.drift import drifts  # noqa: PLC0415 - numpy and scipy

        of = Column(self.database, self.artifacts, dataset, column, segment, where, as_of, kind)
        window = Window.of(since, until)
        return drifts(of, baseline, window, at_least=at_least, record=record)

    # what stands out

    def detect(
        self,
        dataset: str,
        monitors: Sequence[Monitor] | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
        replay: bool = False,
    ) -> pd.DataFrame:
        """Score what is new, store scores, anomalies and incidents, and return the anomalies.

        Scored again is what comes after the first partition that was measured, or of which something
        was said, since the last detection.

        Parameters
        ----------
        dataset : str
        monitors : sequence of Monitor, optional
            Which detector watches which series; those of the dataset's last suite if not given, and
            the seasonal detector on everything if it has none.
        since, until
            Only points in this window can become anomalies; all earlier ones still teach.
        replay : bool
            Whether to score the whole history again. It gives the same, unless the detectors changed.

        Returns
        -------
        pandas.DataFrame
            As `anomalies` returns.
        """
        from repository.anomalies.detection import detect  # noqa: PLC0415 - numpy and scipy

        detect(self.database, dataset, monitors, Window.of(since, until), replay=replay)
        return self.anomalies(dataset, since=since, until=until)

    def anomalies(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
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
        as_of : datetime or int, optional
            What was known then, and what people had said of it.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, segment, partition, time, name, instance, analyzer, value,
            expected, lower, upper, direction, score, p_value, detector, severity, status,
            incident_id, version, explanation, detected_at.
        """
        from repository.anomalies.listing import ANOMALY_COLUMNS, anomaly_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = anomaly_rows(connection, dataset, status, Window.of(since, until), as_of)
        return frame_of(rows, ANOMALY_COLUMNS)

    def incidents(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return anomalies that belong together, as incidents, the newest first.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        status : str, optional
            ``open``, ``acknowledged``, ``expected`` or ``resolved``.
        since, until
            Only those that overlap this range of partitions' times; both included.
        as_of : datetime or int, optional
            As they were known then.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, headline, severity, first, last (partitions), series (how many),
            status, updated_at.
        """
        from repository.anomalies.listing import INCIDENT_COLUMNS, incident_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = incident_rows(connection, dataset, status, Window.of(since, until), as_of)
        return frame_of(rows, INCIDENT_COLUMNS)

    def label_range(
        self,
        dataset: str,
        label: str,
        *,
        since: Moment = None,
        until: Moment = None,
        name: str | None = None,
        instance: str | None = None,
        segment: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say something of all points in a range of time, whether there are anomalies or not.

        Parameters
        ----------
        dataset : str
        label : str
            ``expected`` or ``bad``: its points are no example for later ones. ``ignore``: nor are they
            anomalies. ``rebaseline``: a new level begins with its first.
        since, until
            Bounds on the partition's time, both included; one of them may be left open.
        name, instance, segment : str, optional
            Only these series; all if not given.
        note, by : str, optional
            Why, and who says so.

        Raises
        ------
        UnknownNameError, HistoryError, UnknownDatasetError
        """
        series = {"name": name, "instance": instance, "segment": segment}
        add_range(self.database, dataset, label, Window.of(since, until), series, note, by)

    def label(
        self,
        id: int,  # noqa: A002 - as users say it
        label: str,
        *,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say something of an anomaly or incident. Labels add up, and the last one tells the status.

        Parameters
        ----------
        id : int
            Of an anomaly or an incident; they share one sequence.
        label : str
            ``acknowledged``, ``expected``, ``bad``, ``ignore``, ``resolved``, ``reopened`` or
            ``rebaseline``.
        note, by : str, optional
            Why, and who says so.

        Raises
        ------
        UnknownNameError, HistoryError
        """
        add_label(self.database, id, label, note, by)

    def labels(self, dataset: str | None = None, *, as_of: AsOf = None) -> pd.DataFrame:
        """Return everything that was said, in order.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        as_of : datetime or int, optional
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, anomaly_id, incident_id, partition, name, instance, since, until, label,
            note, by, created_at.
        """
        with self.database.read() as connection:
            rows = label_rows(connection, dataset, as_of)
        return frame_of(rows, LABEL_COLUMNS)

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
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return what detectors said of every point that they scored, anomaly or not.

        Parameters
        ----------
        dataset, name, instance, since, until, analyzer, where, segment, as_of
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
            rows = score_rows(connection, dataset, query, as_of)
        return frame_of(rows, SCORE_COLUMNS)


def artifacts_of(database: Database, folder: str | Path | None) -> Artifacts:
    """Return the folder of a database's large states: beside a SQLite file if nobody says where.

    Raises
    ------
    DatabaseAccessError
        If nobody says where, and it is PostgreSQL.
    """
    if folder is not None:
        return Artifacts(Path(folder))
    if database.file is not None:
        return Artifacts(database.file.with_name(database.file.name + ".artifacts"))
    if database.is_sqlite:
        return Artifacts(None)
    msg = (
        f"{database.name} needs a folder for large states that all who use it can reach:"
        " Repository(url, artifacts='/shared/folder'), or --artifacts on the command line"
    )
    raise DatabaseAccessError(msg)
