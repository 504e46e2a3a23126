"""Repository: the versioned history of metrics, states, anomalies and labels in a SQL database."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    HistoryError,
    RepositoryWarning,
    SuiteError,
    UnknownNameError,
)
from tidegauge.analyzers.core.registry import Rendered
from tidegauge.repository.store.config import artifacts_of, settings
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.frames import Kind, frame_of
from tidegauge.repository.store.listing import (
    PARTITION_COLUMNS,
    RUN_COLUMNS,
    dataset_names,
    partition_rows,
    run_rows,
    set_retired,
)
from tidegauge.repository.store.queries import (
    METRIC_COLUMNS,
    AsOf,
    HistoryFilter,
    MetricQuery,
    Moment,
    NamedHistoryFilter,
    NamedSeriesFilter,
    SeriesFilter,
    Window,
    as_analyzer,
    dataset_id,
    moment_of,
    partition_id,
    require_measured,
    selected,
    series_filter,
)
from tidegauge.repository.store.rows import (
    AnomalyRow,
    BacktestDetailRow,
    BacktestRow,
    CalendarRow,
    CountRow,
    GroupedIncidentRow,
    OverviewRow,
    RateRow,
    ScoreRow,
    SensitivityRow,
)

if TYPE_CHECKING:
    import pandas as pd
    import sqlalchemy as sa

    from tidegauge.analyzers.core.metric import Metric
    from tidegauge.analyzers.runs.ledger import VerdictKey
    from tidegauge.repository.detectors.base import Detector
    from tidegauge.repository.detectors.monitor import MonitorLike
    from tidegauge.repository.detectors.rules import DecisionRule
    from tidegauge.repository.distributions.drift import Drifted
    from tidegauge.repository.distributions.drift import Side as DriftSide
    from tidegauge.repository.history.comparison import Side
    from tidegauge.repository.history.series import Plot
    from tidegauge.repository.incidents.causes import Causes
    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.maintenance.dropping import Dropped
    from tidegauge.repository.maintenance.forgetting import Forgotten
    from tidegauge.repository.maintenance.retention import Age, Cleaned
    from tidegauge.repository.store.user_metrics import Values
    from tidegauge.repository.store.windows import HistoricStates, NamedStates


Names = str | Sequence[str] | None
"""Metric names, or an analyzer's name for all metrics that it measures; None is any."""


class Repository(Rendered):
    """History of metrics, states, anomalies and labels in a SQL database. Needs no Spark.

    Parameters
    ----------
    url : str or Path, optional
        ``sqlite:///file.db``, created if it does not exist, or the file's path; ``sqlite://``, in
        memory; or ``postgresql+psycopg://user@host/database``. Default: ``TIDEGAUGE_DB`` in the environment, else
        ``db`` in ``tidegauge.toml`` (here or in the user's configuration folder), else
        ``sqlite:///tidegauge.db``.
    artifacts : str or Path, optional
        Folder for states too large for the database. Default for a SQLite file:
        ``file.db.artifacts`` in the same folder. PostgreSQL needs one to measure, to merge large
        states and for maintenance.
    read_only : bool
        Refuse all writes, for dashboards. The database itself enforces it.
    upgrade : bool
        Upgrade an older SQLite file, after a backup. If False it is refused, as an older PostgreSQL
        database always is.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError
        If the database belongs to another program, has an unusable revision, or cannot be opened.

    Notes
    -----
    Many methods take these filters on series as keywords. Each narrows the result; None matches any:

    - name (str or sequence of str): metric names, or an analyzer's name for all metrics that it measures;
    - instance (str): the column, columns or rule;
    - analyzer (Analyzer or str): exactly this analyzer, with all its options;
    - where (str): exactly this row filter; an empty string for metrics without one;
    - segment (str): as in ``origin=EWR``.

    Filters by time:

    - since, until (str, date or datetime): bounds on the partition's time, both inclusive; a date as
      ``until`` covers its whole day;
    - as_of (str, date, datetime or int): the history as it was known at a UTC moment, as for ``since``,
      or after the run with this id; a date means its first moment.

    Examples
    --------
    >>> with Repository("sqlite://") as repo:
    ...     repo.datasets()
    []
    """

    renderer: ClassVar[str] = "tidegauge.display.cards:render_repository"

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        artifacts: str | Path | None = None,
        read_only: bool = False,
        upgrade: bool = True,
    ) -> None:
        from tidegauge.repository.store.runs import SqlRunStore

        if isinstance(url, Path):
            url = f"sqlite:///{url}"
        if url is not None and not isinstance(url, str):
            msg = f"{url!r} is not the URL of a database, such as sqlite:///tidegauge.db"
            raise DatabaseAccessError(msg)
        url, artifacts = settings(url, artifacts)
        self.database = Database(url, upgrade=upgrade, read_only=read_only)
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
        """Name the database without its password."""
        return f"Repository({self.database.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close database connections and delete temporary files.

        Examples
        --------
        >>> repo = Repository("sqlite://")
        >>> repo.close()  # as the end of `with Repository(...)` does
        """
        self.database.close()
        if hasattr(self, "_temporary"):
            self._temporary.cleanup()

    # datasets, partitions, runs

    def datasets(self, *, retired: bool | None = None) -> list[str]:
        """Return the names of all datasets, sorted.

        Parameters
        ----------
        retired : bool, optional
            True for those that are retired, False for those that are not.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "revenue", 12.5, partition="ds=2026-01-01")
        ...     repo.datasets()
        ['orders']
        """
        with self.database.read() as connection:
            return dataset_names(connection, retired=retired)

    def partitions(
        self, dataset: str, *, versions: str = "current", as_of: AsOf = None
    ) -> pd.DataFrame:
        """Return the ledger: one row for each partition.

        Parameters
        ----------
        dataset : str
        versions : str
            ``current``, or ``all`` for every version that a partition ever had.
        as_of : str, date, datetime or int, optional
            See the class notes.

        Returns
        -------
        pandas.DataFrame
            With the columns partition, time, segment, version, rows, fingerprint, first_seen_at,
            arrived_at, measured_at, gone_at, run_id.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, "a", rows=10)), commit(repo, day(1, "b", rows=12))
        ...     repo.partitions("d", versions="all")[["partition", "version", "rows"]].values.tolist()
        [['ds=2013-01-01', 1, 10], ['ds=2013-01-01', 2, 12]]
        """
        if versions not in {"current", "all"}:
            raise UnknownNameError("versions", versions, ["current", "all"])
        with self.database.read() as connection:
            rows = partition_rows(connection, dataset, as_of, every=versions == "all")
        return frame_of(rows, PARTITION_COLUMNS)

    def runs(self, dataset: str | None = None) -> pd.DataFrame:
        """Return all runs, newest first.

        Returns
        -------
        pandas.DataFrame
            With the columns run_id, dataset, status, selection, measured, skipped, failed, gone,
            started_at, finished_at, error, tags.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1), day(2))
        ...     repo.runs("d")[["status", "measured"]].values.tolist()
        [['complete', 2]]
        """
        with self.database.read() as connection:
            return frame_of(run_rows(connection, dataset), RUN_COLUMNS)

    def overview(self, dataset: str | None = None, *, since: Moment = None) -> pd.DataFrame:
        """Return a summary of each dataset: newest partition, open incidents, last run.

        Parameters
        ----------
        dataset : str, optional
            Default: all.
        since
            Count only incidents, late or missing partitions, and failed checks at or after this partition time.

        Returns
        -------
        pandas.DataFrame
            One row for each dataset, the worst first, with the columns dataset, partitions (how many exist), newest, time,
            measured_at and rows (of the newest partition), series; errors, warnings and infos (open incidents by
            severity); missing (partitions in open gaps, and overdue ones) and late; run_id, status and
            started_at of the last run; failed (analyzers that failed when last measured); failing
            (failed verdicts of rules and checks on the current data) and failing_known (failures of
            past partitions that earlier runs reported, or that were labelled since).

        Raises
        ------
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1), day(2, rows=12))
        ...     print(repo.overview()[["dataset", "partitions", "newest", "rows", "failed"]])
          dataset  partitions         newest  rows  failed
        0       d           2  ds=2013-01-02    12       1
        """
        from tidegauge.repository.history.health import read_overview

        return frame_of(read_overview(self.database, dataset, since), OverviewRow)

    def calendar(
        self, dataset: str, *, since: Moment = None, until: Moment = None, as_of: AsOf = None
    ) -> pd.DataFrame:
        """Return all partitions in order of time, with missing and late ones.

        Missing partitions are those that the `MissingPartition` detector reports: gaps between two
        partitions, and overdue ones after the last, where partitions of the same weekday or hour
        usually exist. Nothing is missing before the eighth partition, in the first week of tables
        with several partitions a day, or without a grid of days, parts of days, weeks or months. At
        most the first 14
        seasons of a gap are listed. Late partitions are those that `Late` reports with its own
        rule, regardless of monitors and labels.

        Parameters
        ----------
        dataset : str
        since, until
            Return only partitions in this range; the whole history still determines usual arrivals.
        as_of : str, date, datetime or int, optional
            See the class notes; also determines which partitions were overdue then.

        Returns
        -------
        pandas.DataFrame
            One row for each partition, those without a time last, with the columns

            - segment, partition, time: the name is missing where the partition is;
            - status: the first that applies of ``missing``; ``gone`` (no longer in the table);
              ``unmeasured`` (only recorded numbers, no version); ``restated`` (version above 1); ``late``;
              ``measured``;
            - late, restated: whether they apply, whatever the status;
            - version, rows, first_seen_at, arrived_at, measured_at, gone_at: as in `partitions`, missing
              where unknown; arrived_at is when the first version arrived, missing if that was
              cleaned away;
            - delay: seconds from the end of the partition's hour, day or month to that arrival,
              negative if it came earlier; NaN if unknown;
            - anomalies: how many are in it; worst: the highest severity among them, or None.

        Raises
        ------
        UnknownDatasetError
        HistoryError
            If a time cannot be parsed, or is before the history that cleaning has kept.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n) for n in range(1, 12) if n != 9))
        ...     found = repo.calendar("d", since="2013-01-08", until="2013-01-10")
        ...     found["status"].tolist(), found["delay"].tolist()
        (['measured', 'missing', 'measured'], [7200.0, nan, 7200.0])
        """
        from tidegauge.repository.history.calendar import calendar_rows

        window = Window.between(since, until)
        with self.database.read() as connection:
            rows = calendar_rows(connection, dataset, window, as_of)
        return frame_of(rows, CalendarRow)

    # metrics

    @series_filter(NamedHistoryFilter)
    def metrics(
        self,
        dataset: str,
        name: Names = None,
        instance: str | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        window: str | None = None,
        wide: bool = False,
        **series: Unpack[NamedHistoryFilter],
    ) -> pd.DataFrame:
        """Return the metrics of all partitions, current or as of a past commit.

        Parameters
        ----------
        dataset : str
        name : str or sequence of str, optional
            Metric names, or an analyzer's name for all metrics that it measures.
        instance : str, optional
            The column, columns or rule.
        tags : mapping, optional
            Only of runs that have at least these tags and values.
        window : str, optional
            Return roll-ups instead of partitions: ``7d``, ``month``, ``total`` or another window of
            the suite. Their ``partition`` is the window's start and end, their ``time`` is the
            newest partition's time, and they have no version.
        wide : bool
            Return one column for each series, for ``.plot()`` and the like.
        analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each metric of each partition, with the columns dataset, segment, partition,
            time, entity, name, instance, value, weight, status, error, version, run_id, analyzed_at,
            analyzer. ``value`` is NaN where the status is failed or empty. With ``wide`` the values
            alone, a row for each partition, indexed by time (by partition where one has no time, or
            several have the same), and a column for each series: its name, and the fields that
            distinguish it from the other columns.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     repo.metrics("d", "Size")["value"].tolist()
        [10.0, 12.0]
        """
        from tidegauge.repository.history.series import wide_frame
        from tidegauge.repository.rollups.stored_rollups import rollup_rows
        from tidegauge.repository.store.facts import read_facts

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters, tags) as (connection, query, as_of):
            if window is None:
                frame = read_facts(connection, dataset, query, as_of).frame()
                return wide_frame(frame) if wide else frame
            if tags:
                msg = "roll-ups are of no run: tags= does not go with window="
                raise HistoryError(msg)
            rows = rollup_rows(connection, dataset, window, query, as_of)
        frame = frame_of(rows, METRIC_COLUMNS)
        return wide_frame(frame) if wide else frame

    @series_filter(NamedSeriesFilter)
    def value(
        self,
        dataset: str,
        name: str,
        instance: str | None = None,
        *,
        partition: str | None = None,
        as_of: AsOf = None,
        **series: Unpack[NamedSeriesFilter],
    ) -> float:
        """Return one number: a metric's value in a partition.

        Parameters
        ----------
        dataset : str
        name : str
        instance : str, optional
            The column, columns or rule.
        partition : str, optional
            As in ``ds=2013-02-08``; by default the newest in which the metric was measured.
        analyzer, where, segment, as_of
            Filters; see the class notes. If several series share the name, the series of whole
            partitions without a filter is used.

        Returns
        -------
        float
            NaN where the metric failed, or had no data.

        Raises
        ------
        HistoryError
            If no series or partition matches, or several series do; the message lists them.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     repo.value("d", "Size"), repo.value("d", "Size", partition="ds=2013-01-01")
        (12.0, 10.0)
        """
        from tidegauge.repository.history.series import read_value

        filters: SeriesFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, _):
            return read_value(connection, dataset, query, partition, as_of)

    def series(self, dataset: str) -> pd.DataFrame:
        """Return the series of a dataset: the names and instances that `metrics`, `value` and `plot` take.

        Returns
        -------
        pandas.DataFrame
            One row for each, with the columns segment, name, instance, where, analyzer.

        Raises
        ------
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10))
        ...     "Size()" in set(repo.series("d")["analyzer"])
        True
        """
        from tidegauge.repository.history.series import SERIES_COLUMNS, series_rows

        with self.database.read() as connection:
            return frame_of(series_rows(connection, dataset), SERIES_COLUMNS)

    @series_filter(NamedSeriesFilter)
    def latest(
        self,
        dataset: str,
        name: Names = None,
        instance: str | None = None,
        *,
        as_of: AsOf = None,
        **series: Unpack[NamedSeriesFilter],
    ) -> pd.DataFrame:
        """Return each series at its newest partition, with the columns of `metrics`.

        A partition without a time is the newest only of series that have no other.
        Fast: the newest value of each series is kept apart. With ``as_of`` the whole history is read.

        Parameters
        ----------
        dataset : str
        name, instance, analyzer, where, segment, as_of
            Filters; see the class notes.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     repo.latest("d", "Size")[["partition", "value"]].values.tolist()
        [['ds=2013-01-02', 12.0]]
        """
        from tidegauge.repository.store.facts import read_facts, read_newest

        filters: SeriesFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, _):
            if as_of is not None:
                return read_facts(connection, dataset, query, as_of).newest().frame()
            return read_newest(connection, dataset, query).frame()

    @series_filter(HistoryFilter)
    def pages(
        self, dataset: str, *, rows: int = 100_000, **series: Unpack[HistoryFilter]
    ) -> Iterator[pd.DataFrame]:
        """Yield the result of `metrics` in pages of whole partitions.

        With ``as_of`` the view stays the same over all pages; without it each page is of now.

        Parameters
        ----------
        dataset : str
        rows : int
            Approximate number of rows in a page.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1), day(2), day(3))
        ...     [page["partition"].unique().tolist() for page in repo.pages("d", rows=1, name="Size")]
        [['ds=2013-01-01'], ['ds=2013-01-02'], ['ds=2013-01-03']]
        """
        from tidegauge.repository.history.series import fact_pages

        with self._selected(dataset, series) as (connection, query, as_of):
            pages = fact_pages(connection, dataset, query, as_of, rows)
            if self.database.is_shared:
                yield from (facts.frame() for facts in pages)
                return
            # A database in memory has one connection, so read all pages before others need it.
            stored_pages = list(pages)
        yield from (facts.frame() for facts in stored_pages)

    @series_filter(HistoryFilter)
    def chart(
        self, dataset: str, *, points: int = 500, **series: Unpack[HistoryFilter]
    ) -> pd.DataFrame:
        """Return series downsampled by the database for drawing; extremes are kept.

        Parameters
        ----------
        dataset : str
        points : int
            At most this many time intervals of equal length for each series.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each series and interval with a finite value, with the columns segment, name,
            instance, analyzer, start and end (the first and last partition's time in it), low, high,
            mean, count. Partitions without a time are left out.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=n) for n in range(1, 5)))
        ...     repo.chart("d", points=2, name="Size")[["low", "high", "count"]].values.tolist()
        [[1.0, 2.0, 2.0], [3.0, 4.0, 2.0]]
        """
        from tidegauge.repository.history.series import CHART_COLUMNS, chart_rows

        with self._selected(dataset, series) as (connection, query, as_of):
            rows = chart_rows(connection, dataset, query, points, as_of)
        return frame_of(rows, CHART_COLUMNS)

    @series_filter(SeriesFilter)
    def versions(
        self,
        dataset: str,
        partition: str,
        *,
        as_of: AsOf = None,
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Return the versions of a partition side by side.

        Parameters
        ----------
        dataset : str
        partition : str
            As in ``ds=2013-02-08``.
        name, instance, analyzer, where, segment, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each series, with the columns segment, name, instance, analyzer, and one for
            each version, under its number; NaN where a version has no value.

        Raises
        ------
        HistoryError
            If the partition does not exist.

        Examples
        --------
        >>> from tidegauge.repository.repository import Repository
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with Repository("sqlite://") as repo:
        ...     runs = [commit(repo, day(1, "a", rows=10)), commit(repo, day(1, "b", rows=12))]
        ...     print(repo.versions("d", "ds=2013-01-01", name="Size")[[1, 2]].to_numpy().tolist())
        [[10.0, 12.0]]
        """
        from tidegauge.repository.history.versions import VERSION_COLUMNS, version_rows

        with self._selected(dataset, series) as (connection, query, _):
            id_ = partition_id(connection, dataset, partition)
            rows = version_rows(connection, dataset, id_, query, as_of)
        numbers = sorted({row["version"] for row in rows})
        wide: dict[tuple[Any, ...], dict[Any, Any]] = {}
        for row in rows:
            key = {column: row[column] for column in VERSION_COLUMNS}
            unknown = dict.fromkeys(numbers, nan)
            entry = wide.setdefault(tuple(key.values()), {**key, **unknown})
            entry[row["version"]] = row["value"]
        columns = {**VERSION_COLUMNS, **dict.fromkeys(numbers, Kind.ANY)}
        return frame_of(list(wide.values()), columns)

    @series_filter(HistoryFilter)
    def restatements(self, dataset: str, **series: Unpack[HistoryFilter]) -> pd.DataFrame:
        """Return the changes of metrics when partitions were measured again with other content.

        Parameters
        ----------
        dataset : str
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each series that a new version of a partition changed, the latest first, with the
            columns dataset, segment, partition, time, name, instance, analyzer, old, new, change,
            old_status, new_status, old_version, new_version, old_run, new_run, restated_at.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, "a", rows=10)), commit(repo, day(1, "b", rows=12))
        ...     repo.restatements("d", name="Size")[["partition", "old", "new"]].values.tolist()
        [['ds=2013-01-01', 10.0, 12.0]]
        """
        from tidegauge.repository.history.versions import RESTATEMENT_COLUMNS, restatement_rows

        with self._selected(dataset, series) as (connection, query, as_of):
            rows = restatement_rows(connection, dataset, query, as_of)
        return frame_of(rows, RESTATEMENT_COLUMNS)

    def record(
        self,
        dataset: str,
        name: str,
        value: Values,
        *,
        partition: str | None = None,
        time: Moment = None,
        instance: str = "*",
        segment: str = "",
        entity: str = "Dataset",
        scale: str = "signed",
        weight: float | None = None,
    ) -> int:
        """Store a custom metric, which detectors watch like any other.

        Parameters
        ----------
        dataset : str
            Created if it does not exist.
        name : str
        value : float, mapping of str or Partition to float, or Series
            The value, or values by partition. NaN and infinities are stored as such. A partition whose
            value holds a slash or a percent sign cannot be given by name.
        partition : str, optional
            For a single value: ``ds=2013-02-08``; default: the whole dataset.
        time : datetime, date or str, optional
            The partition's time, where its name does not give it, as for ``since``. A partition that
            has one keeps it, with a warning if it is another.
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
            Number of new values. A stored value is not written again. A different value is a new
            version of the metric, and the old version is kept.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.record("orders", "revenue", 1250.5, partition="ds=2013-02-08")
        ...     repo.metrics("orders")["value"].tolist()
        1
        [1250.5]
        """
        from tidegauge.repository.store.user_metrics import (
            Record,
            values_by_partition_name,
            write_record,
        )

        is_mapping = hasattr(value, "items")  # a mapping, or a pandas Series
        if is_mapping and (partition is not None or time is not None):
            msg = "values by partition take no partition= and no time="
            raise HistoryError(msg)
        values, partition_keys = values_by_partition_name(value, partition)
        metric = Recorded(name, instance=instance, entity=entity, scale=scale)
        times = {} if is_mapping else {partition or "": moment_of(time, "time")}
        weight = None if weight is None or isnan(weight) else float(weight)
        record = Record(dataset, metric, segment, values, times, weight, partition_keys)
        return write_record(self.database, record)

    # states

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
        """Compute an analyzer's metric over many partitions from their stored states. Needs no Spark.

        Any analyzer works whose state was stored: another quantile of a sketch, the distinctness where
        only the uniqueness was measured.

        Parameters
        ----------
        dataset : str
        analyzer : Analyzer or str
        since, until, as_of, segment
            Filters; see the class notes.
        allow_missing : bool
            Leave out partitions without a state, because the analyzer failed there or was never
            measured, and damaged ones, each with a `RepositoryWarning`.
        every : str, optional
            Merge by windows of this length instead: ``1w`` (from Monday), ``7d``, ``12h``, ``1mo``,
            ``1q``, ``1y``. Partitions without a time are left out.

        Returns
        -------
        Metric or pandas.DataFrame
            With ``every`` a frame, one row for each window that holds a partition and number of the
            flattened metric, with the columns start, end (exclusive), partitions, entity, name, instance,
            value, weight, status, error.

        Raises
        ------
        HistoryError
            If the analyzer was never measured, not on all partitions of the window, or if there are
            none in it.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     repo.merge("d", tg.Size()).value, repo.merge("d", tg.Size(), until="2013-01-01").value
        (22.0, 10.0)
        """
        from tidegauge.repository.store.windows import WINDOW_COLUMNS, WindowScheme, window_rows

        parsed = as_analyzer(analyzer)
        with self.database.read() as connection:
            require_measured(connection, dataset, parsed)
        states = self.window_states(
            dataset,
            since=since,
            until=until,
            as_of=as_of,
            segment=segment,
            allow_missing=allow_missing,
        )
        if every is None:
            return parsed.load_state_and_compute_metric(states)
        return frame_of(
            window_rows(states, parsed, WindowScheme.from_interval(every)), WINDOW_COLUMNS
        )

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
        """Return a `StateLoader` of a dataset's states, merged over a window.

        Parameters
        ----------
        dataset, since, until, as_of, segment, allow_missing
            As for `merge`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.window_states("flights", since="2013-02-01").window.until
        """
        from tidegauge.repository.store.windows import HistoricStates

        window = Window.between(since, until)
        return HistoricStates(
            self.database, self.artifacts, dataset, window, segment, as_of, allow_missing
        )

    def states(self, name: str) -> NamedStates:
        """Return a `StateLoader` and `StatePersister` of states kept under a name.

        They belong to no dataset and no run: a place for the states of single analyzers.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.states("nightly").persist(tg.Size(), tg.NumMatches(3))
        ...     tg.Size().load_state_and_compute_metric(repo.states("nightly")).value
        3.0
        """
        from tidegauge.repository.store.windows import NamedStates

        return NamedStates(self.database, self.artifacts, name)

    def generations(self, dataset: str) -> pd.DataFrame:
        """Return the generations of states: each change of a column's type starts a new one.

        Distinct counts, histograms, top values and first and last times depend on the type of their
        columns. Their states are merged only within a generation: a roll-up that holds several has no
        value, and the total covers the newest partition's generation. Types of numbers are one
        generation, and so are types of text.

        Returns
        -------
        pandas.DataFrame
            With the columns analyzer, segment, generation, first, last, partitions: a row for each
            sequence of partitions of one generation, in order of time. Empty if no state depends on types.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1), day(2, kind="long", groups={(7,): 10}))
        ...     found = repo.generations("d")
        >>> found[["analyzer", "generation", "first"]].tail(2).values.tolist()
        [["Uniqueness('s')", 's is a text', 'ds=2013-01-01'], ["Uniqueness('s')", 's is a number', 'ds=2013-01-02']]
        """
        from tidegauge.repository.store.stored_states import GENERATION_COLUMNS, generation_rows

        with self.database.read() as connection:
            rows = generation_rows(connection, dataset_id(connection, dataset))
        return frame_of(rows, GENERATION_COLUMNS)

    def roll_up(
        self, dataset: str, windows: Sequence[str] | None = None, *, run: int | None = None
    ) -> int:
        """Update the total and the roll-ups of a dataset; every run does so itself.

        Parameters
        ----------
        dataset : str
        windows : sequence of str, optional
            ``7d``, ``24h`` (rolling); ``day``, ``week``, ``month``, ``quarter``, ``year``. Default: those
            that were made before.
        run : int, optional
            The run that the roll-ups are recorded with.

        Returns
        -------
        int
            Number of metrics written.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     _ = repo.roll_up("d", ["month"])
        ...     repo.metrics("d", "Size", window="month")["value"].tolist()
        [22.0]
        """
        from tidegauge.repository.rollups.stored_rollups import roll_up, rolled_windows

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
        vacuum: bool = False,
    ) -> Cleaned:
        """Delete data past its retention, and files that nothing refers to.

        Parameters
        ----------
        versions : str, timedelta or datetime, optional
            Delete versions superseded longer ago than this (``90d``, ``12w``, ``6mo``, ``2y``) or before
            this moment, with all their data, and verdicts. Later, views ``as_of`` earlier moments
            are refused. Data of unresolved anomalies stays.
        states : str, timedelta or datetime, optional
            Delete states of partitions older than this. They are added to the total first, so the
            total continues. States that windows still need stay, and so do metrics.
        runs : str, timedelta or datetime, optional
            Delete runs that ended longer ago than this and left nothing behind.
        dry_run : bool
            Only count.
        vacuum : bool
            Also shrink a SQLite file by rewriting it without its free pages, which needs as much
            free disk space again. Otherwise, later writes reuse the free pages. PostgreSQL vacuums
            by itself.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, "a", rows=10)), commit(repo, day(1, "b", rows=12))
        ...     repo.clean(versions="0d", dry_run=True).versions
        1
        """
        from tidegauge.repository.maintenance.retention import clean

        if not dry_run:
            self.artifacts.require_folder()
        return clean(
            self.database,
            self.artifacts,
            versions=versions,
            states=states,
            runs=runs,
            dry_run=dry_run,
            vacuum=vacuum,
        )

    def retire(
        self,
        dataset: str,
        *,
        note: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Retire a dataset whose table is no longer measured.

        Its history stays readable. `overview`, `tables`, reports, notifications and detection in
        all datasets skip it, its incidents are closed, and a run on it raises a
        `RetiredDatasetError`. `revive` brings it back as it was.

        Parameters
        ----------
        dataset : str
        note : str, optional
            Why.
        by : str, optional
            The author.
        dry_run : bool
            Only check that there is such a dataset.

        Raises
        ------
        UnknownDatasetError

        Examples
        --------
        >>> with Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "revenue", 12.5, partition="ds=2026-01-01")
        ...     repo.retire("orders", note="replaced by orders_v2")
        ...     repo.datasets(retired=False), repo.datasets(retired=True)
        ([], ['orders'])
        """
        set_retired(self.database, dataset, note, by, retired=True, dry_run=dry_run)

    def revive(
        self,
        dataset: str,
        *,
        note: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Bring a retired dataset back; parameters as for `retire`.

        Examples
        --------
        >>> with Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "revenue", 12.5, partition="ds=2026-01-01")
        ...     repo.retire("orders")
        ...     repo.revive("orders")
        ...     repo.datasets(retired=True)
        []
        """
        set_retired(self.database, dataset, note, by, retired=False, dry_run=dry_run)

    def rename(self, dataset: str, name: str, *, dry_run: bool = False) -> None:
        """Give a dataset another name, with all of its history.

        Suites, monitors and notifications that name the dataset have to be changed as well: a run of a
        suite with the old name begins a new history.

        Parameters
        ----------
        dataset : str
        name : str
            The new name, which no other dataset has.
        dry_run : bool
            Only check the names.

        Raises
        ------
        UnknownDatasetError
        HistoryError
            If another dataset has the new name, or it is empty.
        LeaseError
            If a run measures the dataset.

        Examples
        --------
        >>> with Repository("sqlite://") as repo:
        ...     _ = repo.record("shop", "revenue", {"ds=2026-01-01": 10.0})
        ...     repo.rename("shop", "sales")
        ...     repo.datasets()
        ['sales']
        """
        from tidegauge.repository.maintenance.dropping import rename

        with self._hold_lease(dataset, dry_run=dry_run), self._hold_lease(name, dry_run=dry_run):
            rename(self.database, dataset, name, dry_run=dry_run)

    def _hold_lease(self, dataset: str, *, dry_run: bool) -> AbstractContextManager[Any]:
        """Hold the lease of a dataset, without waiting for it; a dry run writes none."""
        return nullcontext() if dry_run else self.store.hold(dataset, 0)

    def drop(
        self,
        dataset: str,
        *,
        partition: str | None = None,
        analyzer: AnyAnalyzer | str | None = None,
        segment: str | None = None,
        generation: str | None = None,
        dry_run: bool = False,
    ) -> Dropped:
        """Drop a dataset, or one partition, series or a generation of it, in all versions and for good.

        Totals, windows, scores and incidents are recomputed from the remaining data. The next run
        measures a partition again if its files are still in the table, and an analyzer if the suite
        still names it. A segment is measured again only in new and changed partitions.

        Parameters
        ----------
        dataset : str
        partition : str, optional
            Its name, such as ``ds=2026-01-01``.
        analyzer : Analyzer or str, optional
            All series of an analyzer, in all segments: ``Histogram('k')``.
        segment : str, optional
            Only the analyzer's series of this segment, such as ``country=US``; an empty string for
            the series of all rows.
        generation : str, optional
            Only the analyzer's metrics and states of this generation, such as ``k is a text``; see
            `generations`.
        dry_run : bool
            Only count.

        Returns
        -------
        Dropped

        Raises
        ------
        UnknownDatasetError, HistoryError
            If the dataset has nothing with this name.
        LeaseError
            If a run measures the dataset.

        Examples
        --------
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with Repository("sqlite://") as repo:
        ...     run = commit(repo, day(1), day(2))
        ...     dropped = repo.drop("d", partition="ds=2013-01-02")
        ...     repo.partitions("d")["partition"].tolist(), dropped.partitions
        (['ds=2013-01-01'], 1)
        """
        from tidegauge.repository.maintenance.dropping import drop

        if not dry_run:
            self.artifacts.require_folder()
        analyzer_text = (
            analyzer if analyzer is None or isinstance(analyzer, str) else repr(analyzer)
        )
        with self._hold_lease(dataset, dry_run=dry_run):
            return drop(
                self.database,
                self.artifacts,
                dataset,
                partition=partition,
                analyzer=analyzer_text,
                segment=segment,
                generation=generation,
                dry_run=dry_run,
            )

    def forget(self, values: str | Sequence[str], *, dry_run: bool = False) -> Forgotten:
        """Replace values of the data by tokens in states, names of series and messages.

        Counts and shares do not change. Delete the values from the table first: partitions that
        still contain them bring them back when they are measured again.

        Parameters
        ----------
        values : str or sequence of str
            As text, as `Histogram` writes them: ``ann@example.org``, ``42``, ``2013-02-08``.
        dry_run : bool
            Only count.

        Returns
        -------
        Forgotten
            Counts of the changes, and the places that cannot be changed: names of partitions and
            segments, filters, and sketches that may hold a number.

        Raises
        ------
        HistoryError
            If a value is empty.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.histogram import Histogram
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with Repository("sqlite://") as repo:
        ...     run = commit(repo, day(1, groups={("ann",): 1, ("bob",): 9}))
        ...     done = repo.forget("ann")
        ...     names = list(repo.merge("d", Histogram("s")).value.values)
        >>> "ann" in names, "bob" in names, len(names)
        (False, True, 2)
        """
        from tidegauge.repository.maintenance.forgetting import forget

        strings = [values] if isinstance(values, str) else list(values)
        if not dry_run:
            self.artifacts.require_folder()
        return forget(self.database, self.artifacts, strings, dry_run=dry_run)

    # distributions

    def drift(
        self,
        dataset: str,
        column: str,
        baseline: DriftSide,
        current: DriftSide,
        *,
        segment: str | None = None,
        where: str | None = None,
        as_of: AsOf = None,
        kind: str | None = None,
        record: bool = False,
    ) -> Drifted:
        """Compare a column's distribution between two partitions or windows.

        Reads stored states, whichever analyzer stored them, without Spark: a quantile sketch
        (`ApproxQuantile`, `KLLSketch`, `ReqQuantile`), else the frequencies of the values (`Histogram`,
        `Uniqueness`, ...), else a `TopValues` that tracked them all. Nulls and NaN are left out.

        Parameters
        ----------
        dataset, column : str
        baseline, current : str or pair
            The name of a partition, or a window ``(since, until)`` on the partitions' time: both
            inclusive, each may be None.
        segment, as_of
            As for `merge`.
        where : str, optional
            Exactly this filter (default: metrics without a filter).
        kind : str, optional
            ``categorical`` to compare numbers as categories; frequencies must be stored.
        record : bool
            Store the distances as metrics of ``current``, which then is a partition, as `drifts` does.
            A view ``as_of`` the past is not recorded.

        Returns
        -------
        Drifted
            With ``psi``, ``js``, ``ks``, ``wasserstein``, ... as in
            `tidegauge.repository.distributions.distances.Distances`, NaN if a side has no values; and a
            ``frame()`` of both distributions.

        Raises
        ------
        HistoryError
            If a partition does not exist or has no suitable state; the message names the analyzer
            to add.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     days = [day(1, groups={("a",): 5, ("b",): 5}), day(2, groups={("a",): 10})]
        ...     _ = commit(repo, *days)
        ...     repo.drift("d", "s", "ds=2013-01-01", "ds=2013-01-02").lost
        0.5
        """
        from tidegauge.repository.distributions.drift import drift
        from tidegauge.repository.distributions.stored import StoredColumn

        stored_column = StoredColumn(
            self.database, self.artifacts, dataset, column, segment, where, as_of, kind
        )
        return drift(stored_column, baseline, current, record=record)

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
        """Compare each partition's distribution with the partitions before it, and store the distances.

        The metrics are named ``Drift.psi``, ``Drift.js``, ``Drift.ks`` and ``Drift.wasserstein``, of
        categories ``Drift.psi``, ``Drift.js``, ``Drift.unseen`` and ``Drift.lost``, with the column as
        instance; `detect` compares them with their own past. There is one series of each for a column,
        segment and filter: another baseline makes new versions of the same. Unchanged values are not
        written again.

        Parameters
        ----------
        dataset, column, segment, where, as_of, kind
            As for `drift`. A view ``as_of`` the past is not recorded.
        baseline : str or int
            The time before each partition that it is compared with (``28d``, ``24h``), or the number of
            partitions before it.
        at_least : int
            How many of them must hold values; earlier partitions are left out.
        since, until
            Compare only partitions in this range; earlier ones still are the baseline.
        record : bool

        Returns
        -------
        pandas.DataFrame
            One row for each partition with a time and a state, with the columns segment, partition,
            time, psi, js, ks, wasserstein, wasserstein_iqr, unseen, lost, rows, baseline_rows. Distances
            are NaN where a partition holds no values, or where they are of the other kind.

        Raises
        ------
        HistoryError
            If nothing suitable is stored; the message names the analyzer to add.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, groups={("a",): 5, ("b",): 5}) for n in range(1, 10)))
        ...     repo.drifts("d", "s")["psi"].tolist()
        [0.0, 0.0]
        """
        from tidegauge.repository.distributions.drift import drifts
        from tidegauge.repository.distributions.stored import StoredColumn

        stored_column = StoredColumn(
            self.database, self.artifacts, dataset, column, segment, where, as_of, kind
        )
        window = Window.between(since, until)
        return drifts(stored_column, baseline, window, at_least=at_least, record=record)

    @series_filter(SeriesFilter)
    def compare(
        self,
        dataset: str,
        baseline: Side,
        current: Side,
        *,
        as_of: AsOf = None,
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Compare two runs, partitions or windows series by series, the most surprising change first.

        The value of a side is its partition's value, or the median of the finite values of several
        partitions. Two runs that measured some of the same partitions (a restatement) are compared
        on these
        alone, partition by partition.

        Parameters
        ----------
        dataset : str
        baseline, current : int, str or pair
            Two sides of the same kind. Ids of runs select the partitions that they measured, with
            the values right after the run. The alternatives are names of partitions, or windows
            ``(since, until)`` on the partitions' time,
            both inclusive, each may be None.
        as_of : str, date, datetime or int, optional
            See the class notes. What a run measured later is left out.
        name, instance, analyzer, where, segment
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each series that one of the sides has, with the columns

            - segment, name, instance, analyzer;
            - baseline, current: NaN without a value; a single partition's value may be infinite;
            - change: their difference in the metric's unit, of two measurements of the same partitions the
              median of the differences; 0 if it is only rounding, NaN unless both are finite;
            - relative: change as a share of the baseline's size; NaN if that is 0;
            - surprise: how unusual the difference is for this series, as a robust z-score from 0 to 300: on
              the scale of the metric's kind (logarithm of counts, arcsine of the root of ratios, ...) its
              distance from the median of the usual differences between two such sides, divided by their
              spread: 1.4826 times the median distance from it or, if that is more, the 90th percentile of
              the distances divided by 1.645; never less than a floor by kind of metric. The usual differences
              are those that the sides show when both are moved along the history, at the same
              distance, to positions that share no partition with them. If there are fewer than 6,
              differences between neighbouring partitions are used, scaled by the number of values
              behind the medians. For measurements of the same partitions, neighbouring partitions
              are always used. 300 for a constant series that changed; 0 for equal
              sides; NaN if fewer than 6 differences are known, or there is none to judge;
            - unusual: whether the surprise is above 4;
            - anomaly: whether an anomaly is stored in the current partition; False of runs and windows.
              The difference can still be usual, such as between two holidays;
            - baseline_partitions, current_partitions: how many of them the series was measured in;
            - status: ``both``; ``only baseline`` or ``only current`` if the other side was not measured; else
              what the current side is in place of a finite number (``failed``, ``empty``, ``NaN``,
              ``+inf``, ``-inf``; of several partitions the last), or ``was failed``, ... if only the
              baseline is not finite.

            Series of unknown surprise come after all others but equal ones.

        Raises
        ------
        HistoryError
            If the sides are of different kinds, a run or partition does not exist, or a window is empty.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=50 if n == 20 else 100 + n % 2) for n in range(1, 21)))
        ...     row = repo.compare("d", "ds=2013-01-19", "ds=2013-01-20", name="Size").iloc[0]
        ...     print(row["baseline"], row["current"], row["change"], row["unusual"])
        101.0 50.0 -51.0 True
        """
        from tidegauge.repository.history.comparison import compare

        with self._selected(dataset, series) as (connection, query, _):
            return compare(connection, dataset, baseline, current, query, as_of)

    @series_filter(NamedHistoryFilter)
    def plot(
        self,
        dataset: str,
        name: Names = None,
        instance: str | None = None,
        **series: Unpack[NamedHistoryFilter],
    ) -> Plot:
        """Plot up to eight series with their expected bands and anomalies, as static SVG.

        Parameters
        ----------
        dataset : str
        name : str or sequence of str, optional
            Metric names, or an analyzer's name for all metrics that it measures.
        instance : str, optional
            The column, columns or rule.
        analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        Plot
            A notebook shows it: values as lines, with gaps where a partition has none; the band from
            ``lower`` to ``upper`` and the expected value (dotted) of the first detector that has a band;
            anomalies as triangles that point up or down, each with a tooltip. Series of one metric with
            similar values share a panel, more than two without bands; all panels share one axis: time, or
            the partitions in order if not all have a time. It has ``svg`` (text, below 50 KB), ``data`` (a
            tidy frame of all points) and ``save("file.svg")``, which also writes ``.html``.

        Raises
        ------
        HistoryError
            If no series matches, or more than eight do; the message gives the number and how to narrow it.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     plot = repo.plot("d", name="Size")
        >>> plot.data["value"].tolist(), plot.svg[:4]
        ([10.0, 12.0], '<svg')
        """
        from tidegauge.repository.history.series import read_plot

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
            return read_plot(connection, dataset, query, as_of)

    def _selected(
        self,
        dataset: str | None,
        series: HistoryFilter | SeriesFilter,
        tags: Mapping[str, str] | None = None,
        **window: Moment,
    ) -> AbstractContextManager[tuple[sa.Connection, MetricQuery, AsOf]]:
        return selected(self.database, dataset, series, tags, **window)

    # anomalies and incidents

    def detect(
        self,
        dataset: str | None = None,
        monitors: MonitorLike | Sequence[MonitorLike] | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
        replay: bool = False,
    ) -> pd.DataFrame:
        """Score new metrics, store scores, anomalies and incidents, and return the anomalies.

        Scoring restarts at the first partition that was measured or labelled since the last detection.

        Parameters
        ----------
        dataset : str, optional
            Default: all datasets, one after the other.
        monitors : Monitor, Detector, str, or sequence of these, optional
            Which detector watches which series; a detector alone watches all series. Default: the
            monitors of the dataset's last suite, or the seasonal detector on all series. A
            `RepositoryWarning` names monitors that match no series.
        since, until
            Only points in this window can become anomalies; all earlier ones still train detectors.
        replay : bool
            Score the whole history again. The result is the same unless the detectors changed.

        Returns
        -------
        pandas.DataFrame
            As `anomalies` returns.

        Raises
        ------
        UnknownDatasetError
        HistoryError
            If some datasets cannot be scored; all others are scored first.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     repo.detect("orders")[["partition", "value", "direction"]].values.tolist()
        [['ds=2026-01-29', 7.0, 'low']]
        """
        from tidegauge.repository.detection.detect import detect, detect_each
        from tidegauge.repository.detectors.monitor import monitors_of

        window = Window.between(since, until)
        watching = None if monitors is None else monitors_of(monitors)
        if dataset is None:
            names = self.datasets(retired=False)
            idle = detect_each(
                self.database, self.artifacts, names, watching, window, replay=replay
            )
        else:
            idle = detect(self.database, self.artifacts, dataset, watching, window, replay=replay)
        for monitor in idle:
            where = "no dataset has a" if dataset is None else f"{dataset!r} has no"
            message = f"{where} series of {dict(monitor.series)}, so that {monitor.detector!r} watches nothing"
            warnings.warn(message, RepositoryWarning, stacklevel=2)
        return self.anomalies(dataset, since=since, until=until)

    @series_filter(HistoryFilter)
    def anomalies(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        incident: int | None = None,
        **series: Unpack[HistoryFilter],
    ) -> pd.DataFrame:
        """Return stored anomalies, the worst first.

        Parameters
        ----------
        dataset : str, optional
            Default: all.
        status : str, optional
            ``open`` for unresolved ones.
        incident : int, optional
            Only anomalies of this incident.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes. ``as_of`` also applies to labels.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, segment, partition, time, name, instance, analyzer, value,
            expected, lower, upper, direction, score, p_value, detector, severity, status,
            incident_id, version, explanation, detected_at.

        Raises
        ------
        HistoryError
            If the incident does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     _ = repo.detect("orders")
        ...     repo.anomalies("orders", status="open")[["partition", "severity"]].values.tolist()
        [['ds=2026-01-29', 'error']]
        """
        from tidegauge.repository.incidents.listing import anomaly_rows

        with self._selected(dataset, series) as (connection, query, as_of):
            rows = anomaly_rows(connection, dataset, status, query, as_of, incident)
        return frame_of(rows, AnomalyRow)

    @series_filter(SeriesFilter)
    def anomaly_counts(
        self,
        dataset: str | None = None,
        every: str = "1mo",
        *,
        since: Moment = None,
        until: Moment = None,
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Count anomalies by windows of the partitions' time and by metric.

        Parameters
        ----------
        dataset : str, optional
            Default: all.
        every : str
            Length of the windows: ``1w``, ``7d``, ``12h``, ``1mo``, ``1q``, ``1y``, ...
        name, instance, analyzer, where, segment, since, until
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each window and metric that had anomalies, with the columns start, end, name,
            instance, anomalies, series, partitions, incidents (how many of each). Start and end are
            missing for partitions without a time.

        Raises
        ------
        HistoryError
            If ``every`` is not a window.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     len(repo.anomaly_counts(every="1w"))
        0
        """
        from tidegauge.repository.incidents.feedback import count_rows

        with self._selected(dataset, series, since=since, until=until) as (connection, query, _):
            rows = count_rows(connection, dataset, every, query)
        return frame_of(rows, CountRow)

    def alarm_rates(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the alarm rate of each detector, and the share of false alarms by user labels.

        Parameters
        ----------
        dataset : str, optional
            Default: all.

        Returns
        -------
        pandas.DataFrame
            One row for each detector and a last one ``in all``, with the columns detector, anomalies,
            labelled, real (last labelled ``bad`` or ``acknowledged``), false (``expected`` or ``ignore``),
            false_share (of those labelled; NaN if none is), points (scored), per_1000 (anomalies in a
            thousand of them; NaN if there are none). Labels that tidegauge set itself do not count.

        Raises
        ------
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.alarm_rates()["detector"].tolist()
        ['in all']
        """
        from tidegauge.repository.incidents.feedback import rate_rows

        with self.database.read() as connection:
            rows = rate_rows(connection, dataset)
        return frame_of(rows, RateRow)

    @series_filter(SeriesFilter)
    def backtest(
        self,
        dataset: str,
        detectors: MonitorLike | Sequence[MonitorLike],
        *,
        since: Moment = None,
        until: Moment = None,
        rule: DecisionRule | str | None = None,
        details: bool = False,
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Run detectors over the stored history and compare their anomalies with labels. Stores nothing.

        Detectors train as they would now: points labelled ``expected``, ``bad`` or ``ignore`` are left
        out, holidays are known. An anomaly on an ignored point counts as a false alarm.

        Parameters
        ----------
        dataset : str
        detectors : Detector, Monitor, str, or sequence of these
            A string is parsed as a detector, as in ``OnlineNormal(2, 2)``.
        since, until
            Only points in this window count; all earlier ones still train.
        rule : DecisionRule or str, optional
            The decision rule, in place of each detector's own.
        details : bool
            Return the anomalies themselves instead.
        name, instance, analyzer, where, segment
            Filters; see the class notes. Rules that count series see only these.

        Returns
        -------
        pandas.DataFrame
            One row for each detector, with the columns detector, rule, series and points (scored),
            anomalies, per_1000 (anomalies in a thousand points; NaN without any), incidents, found and
            missed (of those labelled ``bad`` or ``acknowledged``: an incident, an anomaly of none, or a
            range), false (anomalies on points labelled ``expected`` or ``ignore``), false_share (of the
            labelled anomalies), precision (share of real ones among the labelled incidents), recall (found
            by found and missed), seconds, per_month (incidents in thirty days; NaN where partitions have
            no times). The shares are NaN without labels. Anomalies of a detector of whole
            partitions are judged by their partition.

            With ``details``: one row for each anomaly, by detector and in order of time, with the columns
            detector, rule, segment, partition, time, name, instance, analyzer, value, expected, lower,
            upper, direction, score, p_value, severity, incident (counted for each detector), said
            (``real``, ``false`` or missing), explanation.

        Raises
        ------
        UnknownNameError
            If the detector or rule is unknown; the message suggests the nearest name.
        SuiteError
            If no detector is given, or an argument is not a detector.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=9 if n == 30 else 100 + n % 2) for n in range(1, 32)))
        ...     tried = ["OnlineNormal()", "SimpleThreshold(1000.0, lower_bound=50)"]
        ...     repo.backtest("d", tried, name="Size")["anomalies"].tolist()
        [1, 1]
        """
        from tidegauge.repository.detection import backtest
        from tidegauge.repository.detection.backtest import BacktestHistory
        from tidegauge.repository.detectors.monitor import monitors_of

        monitors = monitors_of(detectors, rule)
        if not monitors:
            msg = "a backtest tries at least one detector, such as 'Seasonal()'"
            raise SuiteError(msg)
        with self._selected(dataset, series, since=since, until=until) as (connection, query, _):
            past = BacktestHistory.read(connection, dataset, query)
        replays = [backtest.BacktestResult.from_history(past, monitor) for monitor in monitors]
        if details:
            rows = [row for replay in replays for row in replay.details(past)]
            return frame_of(rows, BacktestDetailRow)
        return frame_of([replay.row(past) for replay in replays], BacktestRow)

    @series_filter(SeriesFilter)
    def sensitivities(
        self,
        dataset: str,
        *,
        detector: Detector | str = "Seasonal()",
        since: Moment = None,
        until: Moment = None,
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Compare sensitivities by the labels on incidents, and suggest one. Stores nothing.

        Each sensitivity is backtested. The suggestion is the sensitivity with the highest F1 over
        the labelled incidents, or `normal` if there are fewer than five relevant labels. Unlabelled
        incidents do not count, so also label missed incidents (`label_range`).

        Parameters
        ----------
        dataset : str
        detector : Detector or str
            A detector whose rule is `FalseDiscoveryRate`.
        since, until
            Only points in this window count; all earlier ones still train.
        name, instance, analyzer, where, segment
            Filters; see the class notes. Rules that count series see only these.

        Returns
        -------
        pandas.DataFrame
            One row for each sensitivity, with the columns sensitivity, per_month (incidents in thirty
            days), found and missed (of those labelled ``bad`` or ``acknowledged``), false (those
            labelled ``expected`` or ``ignore``), precision, recall, f1 (NaN without labels),
            suggested (True in one row).

        Raises
        ------
        SuiteError
            If the detector's rule has no sensitivity.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{day:02}": 1000 + 7 * (day % 5) for day in range(1, 31)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", sizes, scale="count")
        ...     found = repo.sensitivities("orders")
        >>> found.loc[found["suggested"], "sensitivity"].item()  # nobody has labelled anything
        'normal'
        """
        from tidegauge.repository.detection.backtest import (
            BacktestHistory,
            monitor_with_sensitivity,
            sensitivity_rows,
        )

        monitor = monitor_with_sensitivity(detector)
        with self._selected(dataset, series, since=since, until=until) as (connection, query, _):
            past = BacktestHistory.read(connection, dataset, query)
        return frame_of(sensitivity_rows(past, monitor), SensitivityRow)

    @series_filter(SeriesFilter)
    def seasons(
        self,
        dataset: str,
        *,
        detector: Detector | str = "Seasonal()",
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Return the seasons that `Seasonal` has learned, in words: hours, weekdays, days of the month, months.

        Differences are relative to the usual hour, weekday or month of the series: a percentage or
        a multiple for counts and positive numbers, percentage points for shares. Effects below the
        series' noise are left out.

        Parameters
        ----------
        dataset : str
        detector : Seasonal or str
            The detector, with its options.
        name, instance, analyzer, where, segment
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each series of at least eight points, with the columns segment, name, instance,
            analyzer, seasons; the last is empty where nothing was learned.

        Raises
        ------
        SuiteError
            If the detector is not `Seasonal`.
        UnknownDatasetError

        Examples
        --------
        >>> import datetime as dt
        >>> import tidegauge as tg
        >>> days = [dt.date(2026, 1, 5) + dt.timedelta(days=n) for n in range(63)]
        >>> sizes = {f"ds={day}": 1000 if day.weekday() < 5 else 550 for day in days}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", sizes, scale="count")
        ...     repo.seasons("orders")["seasons"].tolist()
        ['Saturdays and Sundays 45 % lower']
        """
        from tidegauge.repository.detection.backtest import (
            SEASON_COLUMNS,
            BacktestHistory,
            season_rows,
            seasonal_of,
        )

        seasonal = seasonal_of(detector)
        with self._selected(dataset, series) as (connection, query, _):
            past = BacktestHistory.read(connection, dataset, query)
        return frame_of(season_rows(past, seasonal), SEASON_COLUMNS)

    def incidents(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return incidents, groups of related anomalies, the newest first.

        Parameters
        ----------
        dataset : str, optional
            Default: all.
        status : str, optional
            ``open``, ``acknowledged``, ``expected`` or ``resolved``.
        since, until
            Only those that overlap this range of partition times; both inclusive.
        as_of : str, date, datetime or int, optional
            See the class notes.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, headline, severity, first, last (partitions), series (how many),
            status, updated_at (the time of the last detection or label), group: incidents of several tables
            that share a cause have one number, the smallest id among them; null for the others.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     _ = repo.detect("orders")
        ...     repo.incidents("orders")[["first", "status"]].values.tolist()
        [['ds=2026-01-29', 'open']]
        """
        from tidegauge.repository.incidents.common_cause import grouped_incident_rows

        with self.database.read() as connection:
            window = Window.between(since, until)
            rows, _ = grouped_incident_rows(connection, dataset, status, window, as_of)
        return frame_of(rows, GroupedIncidentRow)

    def incident(self, id: int) -> IncidentDetails:
        """Return an incident with its anomalies, labels and causes.

        Parameters
        ----------
        id : int
            Of the incident, or of one of its anomalies; they share one sequence of numbers.

        Returns
        -------
        IncidentDetails
            With ``row``, ``anomalies``, ``labels``, ``started``, ``firsts``, ``peaks`` (the highest score of
            each series), ``causes``, ``timeline``, ``context`` (run, runbook, downstream datasets),
            ``revision`` (for `label`), and ``explain()``, which returns a summary.

        Raises
        ------
        HistoryError
            If the incident does not exist, or all its anomalies were withdrawn.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.incident(1)
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.HistoryError: incident 1 does not exist; repo.incidents() lists the ids
        """
        from tidegauge.repository.incidents.details import incident_details

        with self.database.read() as connection:
            return incident_details(connection, id)

    def causes(self, id: int) -> Causes:
        """Return the likely causes of an anomaly or incident: segments, filters, related series.

        Parameters
        ----------
        id : int
            Of an anomaly or an incident; they share one sequence.

        Returns
        -------
        Causes
            With ``moves``: metrics broken down into parts, which are segments, filters such as
            ``origin = 'EWR'`` and, for ``Size``, the bins of histograms; and ``companions``: series that
            moved along. Both are empty where nothing is known. ``frame()`` has a row for each part, and
            ``str()`` is a summary. The expected value comes from the anomaly's detector; otherwise it
            is the median of the last eight values of the same weekday (and hour).

        Raises
        ------
        HistoryError
            If the anomaly or incident does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.detectors.monitor import Monitor
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     days = [day(n, rows=10, groups={("a",): 6, ("b",): 4}) for n in range(1, 9)]
        ...     _ = commit(repo, *days, day(9, rows=7, groups={("a",): 3, ("b",): 4}))
        ...     found = repo.detect("d", [Monitor({"name": "Size"}, "SimpleThreshold(99, 8)")])
        ...     print(repo.causes(found["id"][0]))
        Size in ds=2013-01-09 is 7 instead of 10. By s: a lost 50 %; a alone accounts for 100 % of it.
        """
        from tidegauge.repository.incidents.details import causes_of

        with self.database.read() as connection:
            return causes_of(connection, id)

    @series_filter(HistoryFilter)
    def scores(self, dataset: str, **series: Unpack[HistoryFilter]) -> pd.DataFrame:
        """Return the detectors' scores of all points, anomalies or not.

        Detectors of whole partitions score series without metrics. Request these by name:
        ``name="MissingPartition"``.

        Parameters
        ----------
        dataset : str
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, segment, partition, time, name, instance, analyzer, detector,
            score, p_value, expected, lower, upper, version; the bounds are NaN where a detector
            has none.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     _ = repo.detect("orders")
        ...     scores = repo.scores("orders", name="rows").set_index("partition")["score"]
        ...     bool(scores["ds=2026-01-28"] < 1), bool(scores["ds=2026-01-29"] > 6)
        (True, True)
        """
        from tidegauge.repository.incidents.listing import score_rows

        with self._selected(dataset, series) as (connection, query, as_of):
            rows = score_rows(connection, dataset, query, as_of)
        return frame_of(rows, ScoreRow)

    # labels

    def label(
        self,
        id: int,
        label: str,
        *,
        note: str | None = None,
        by: str | None = None,
        revision: int | None = None,
        until: Moment = None,
    ) -> None:
        """Label an anomaly or incident. Labels are only added.

        Parameters
        ----------
        id : int
            Id of an anomaly or incident; both share one sequence.
        label : str
            The last of ``acknowledged``, ``expected``, ``resolved`` and ``reopened`` sets the
            status. ``expected``, ``bad``, ``ignore`` and ``rebaseline`` exclude points from
            training. The other labels have neither effect: ``comment`` stores the note,
            ``assigned`` names the assignee in the note (nobody without a note), and ``snoozed``
            ends at ``until``.
        note : str, optional
            Reason or other text.
        by : str, optional
            Author of the label.
        revision : int, optional
            The ``revision`` of the incident that you read, 0 if it had no label. The label is not
            written if a person or tidegauge has labeled the incident or its anomalies since then.
            For an anomaly outside of incidents, only its own labels are compared. By default, the
            label is always written.
        until : str, date or datetime, optional
            End of ``snoozed``, required for this label and refused for all others. A string or
            date without a time zone is in UTC; a datetime must have a time zone.

        Raises
        ------
        UnknownNameError
            If the label does not exist.
        HistoryError
            If the anomaly or incident does not exist, or if a parameter does not fit the label.
        ConflictError
            If others have added labels since the revision.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing.samples import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=99))
        ...     _ = repo.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
        ...     incident = repo.incident(repo.incidents("d")["id"][0])
        ...     repo.label(incident.id, "acknowledged", by="ann", revision=incident.revision)
        ...     try:
        ...         repo.label(incident.id, "expected", by="bob", revision=incident.revision)
        ...     except tg.ConflictError as error:
        ...         [(label["by"], label["label"]) for label in error.labels]
        [('ann', 'acknowledged')]
        """
        from tidegauge.repository.store.labels import add_label

        add_label(self.database, id, label, note, by, revision, until)

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
        dry_run: bool = False,
    ) -> None:
        """Label all points in a time range, anomalies or not.

        Parameters
        ----------
        dataset : str
        label : str
            ``expected`` or ``bad``: exclude the points from training. ``ignore``: exclude them from
            training and from alerting. ``rebaseline``: a new level begins with the first point.
            ``reopened``: take back earlier labels. The newest label of a point counts.
        since, until
            Bounds on the partition's time, both inclusive; one of them may be left open.
        name, instance, segment : str, optional
            Only these series; default: all.
        note, by : str, optional
            The reason, and the author.
        dry_run : bool
            Only check the label, and warn if it would apply to nothing.

        Raises
        ------
        UnknownNameError, HistoryError, UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     repo.label_range("orders", "ignore", since="2026-01-29", note="stocktaking")
        ...     len(repo.detect("orders", [tg.Monitor({"name": "rows"})]))
        0
        """
        from tidegauge.repository.store.labels import add_range

        series = {"name": name, "instance": instance, "segment": segment}
        window = Window.between(since, until)
        add_range(self.database, dataset, label, window, series, note, by, dry_run=dry_run)

    def labels(self, dataset: str | None = None, *, as_of: AsOf = None) -> pd.DataFrame:
        """Return all labels in the order in which they were added.

        Parameters
        ----------
        dataset : str, optional
            Default: all.
        as_of : str, date, datetime or int, optional
            See the class notes.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, anomaly_id, incident_id, partition, name, instance, since, until, label,
            note, by, created_at.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     found = repo.detect("orders")
        ...     repo.label(found["incident_id"][0], "acknowledged", by="ann")
        ...     repo.labels("orders")[["label", "by"]].values.tolist()
        [['acknowledged', 'ann']]
        """
        from tidegauge.repository.store.labels import LABEL_COLUMNS, label_rows

        with self.database.read() as connection:
            rows = label_rows(connection, dataset, as_of)
        return frame_of(rows, LABEL_COLUMNS)

    # verdicts

    def keep_verdict(
        self,
        dataset: str,
        *,
        passed: bool,
        result: str,
        run: int | None = None,
        **key: Unpack[VerdictKey],
    ) -> int:
        """Store the verdict of rules on data, so that the same data is not judged again.

        A verdict on the same name, specification, fingerprint and partition supersedes the previous
        one, which stays visible ``as_of`` earlier moments. An equal verdict is not written again,
        unless the check has a different, later verdict on the partition.

        Parameters
        ----------
        dataset : str
            Created if it does not exist; it may be measured by any partitions later.
        passed : bool
        result : str
            JSON text, kept as it is.
        run : int, optional
            The run in which it was found.
        name : str
            Of the check: a dataset may have several.
        specification : str
            A hash of its rules: with other rules the verdict is another.
        fingerprint : str
            Of the data, as in `partitions`: on other data the verdict is another.
        partition : str
            Its name, ``ds=2013-02-08``; default: the whole dataset.

        Returns
        -------
        int
            The verdict's id; the stored verdict's id if it is equal.

        Raises
        ------
        HistoryError
            If name, specification or fingerprint is empty, the result is not JSON, or the dataset
            does not have this run.
        ReadOnlyError

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     of = {"name": "prices", "specification": "5e1f", "fingerprint": "a93c"}
        ...     _ = repo.keep_verdict("orders", **of, passed=False, result='{"failed": ["price > 0"]}')
        ...     repo.verdict("orders", **of)
        '{"failed": ["price > 0"]}'
        """
        from tidegauge.analyzers.runs.ledger import Case
        from tidegauge.repository.store.verdicts import Verdict, add_verdict

        return add_verdict(self.database, dataset, Case(**key), Verdict(passed, result), run)

    def verdict(self, dataset: str, *, as_of: AsOf = None, **key: Unpack[VerdictKey]) -> str | None:
        """Return the last verdict of rules on data.

        Parameters
        ----------
        dataset : str
        as_of : str, date, datetime or int, optional
            See the class notes.
        name, specification, fingerprint, partition
            As they were given to `keep_verdict`.

        Returns
        -------
        str or None
            The result as it was stored; None if these rules never judged this data, or there is no such
            dataset.

        Raises
        ------
        HistoryError
            If name, specification or fingerprint is empty.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     of = {"name": "prices", "specification": "5e1f"}
        ...     _ = repo.keep_verdict("orders", **of, fingerprint="a93c", passed=True, result="{}")
        ...     print(repo.verdict("orders", **of, fingerprint="b770"))
        None
        """
        from tidegauge.analyzers.runs.ledger import Case
        from tidegauge.repository.store.verdicts import find_verdict

        with self.database.read() as connection:
            return find_verdict(connection, dataset, Case(**key), as_of)

    def verdicts(
        self,
        dataset: str,
        *,
        name: str | None = None,
        partition: str | None = None,
        passed: bool | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return the last verdict of rules on each data that they judged, the newest first.

        Parameters
        ----------
        dataset : str
        name : str, optional
            Only verdicts of this check.
        partition : str, optional
            Only those on this partition; empty for those on the whole dataset.
        passed : bool, optional
            Only those that passed, or failed.
        as_of : str, date, datetime or int, optional
            See the class notes.

        Returns
        -------
        pandas.DataFrame
            One row for each name, specification, fingerprint and partition, with the columns id, dataset,
            name, partition, time (of the partition, missing if it is not known), fingerprint,
            specification, passed, checked_at, run_id, result (JSON text).

        Raises
        ------
        UnknownDatasetError
        HistoryError
            If the partition was neither judged nor measured, or nothing was judged under the name; the
            message suggests the nearest.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     of = {"name": "prices", "specification": "5e1f"}
        ...     _ = repo.keep_verdict("orders", **of, fingerprint="a93c", passed=True, result="{}")
        ...     _ = repo.keep_verdict("orders", **of, fingerprint="b770", passed=False, result="{}")
        ...     repo.verdicts("orders")["passed"].tolist()
        [False, True]
        """
        from tidegauge.repository.store.verdicts import (
            VERDICT_COLUMNS,
            check_judged_name,
            check_judged_partition,
            verdict_rows,
        )

        with self.database.read() as connection:
            if partition:  # an empty string is the whole dataset
                check_judged_partition(connection, dataset, partition)
            if name is not None:
                check_judged_name(connection, dataset, name)
            rows = verdict_rows(connection, dataset, name, partition, passed, as_of)
        return frame_of(rows, VERDICT_COLUMNS)


@overload
def as_repository(repository: Repository | str | Path) -> Repository: ...
@overload
def as_repository(repository: Repository | str | Path | None) -> Repository | None: ...
def as_repository(repository: Repository | str | Path | None) -> Repository | None:
    """Return a repository unchanged; open a URL or the path of a SQLite file.

    Examples
    --------
    >>> with as_repository("sqlite://") as repository:
    ...     as_repository(repository) is repository
    True
    """
    return (
        repository
        if repository is None or isinstance(repository, Repository)
        else Repository(repository)
    )
