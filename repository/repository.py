"""Repository: the versioned history of metrics, states, anomalies and labels in a SQL database."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    DetectionError,
    HistoryError,
    RepositoryWarning,
    SuiteError,
    UnknownNameError,
)
from tidegauge.analyzers.core.registry import Rendered
from tidegauge.repository.store.config import artifacts_of, settings
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.frames import Kind, columns_of, frame_of
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
    from tidegauge.repository.history.charts import Chart, LayerChart, VConcatChart
    from tidegauge.repository.history.comparison import Side
    from tidegauge.repository.incidents.causes import Causes
    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.maintenance.dropping import Dropped
    from tidegauge.repository.maintenance.forgetting import Forgotten
    from tidegauge.repository.maintenance.retention import Age, Cleaned
    from tidegauge.repository.store.user_metrics import Values
    from tidegauge.repository.store.windows import HistoricStates, NamedStates


Names = str | Sequence[str] | None
"""Metric names, or an analyzer's name for all metrics that it measures; None matches any metric."""


class Repository(Rendered):
    """History of metrics, states, anomalies and labels in a SQL database. Needs no Spark.

    Parameters
    ----------
    url : str or Path, optional
        ``sqlite:///file.db`` or the path of the file, which is created if needed; ``sqlite://``
        for a database in memory; or ``postgresql+psycopg://user@host/database``. The default is the
        environment variable ``TIDEGAUGE_DB``, else ``db`` in ``tidegauge.toml`` (in the working
        directory or in the user's configuration folder), else ``sqlite:///tidegauge.db``.
    artifacts : str or Path, optional
        Folder for states that are too large for the database. The default for a SQLite file is
        ``file.db.artifacts`` in the same folder. PostgreSQL needs a folder to measure, to merge
        large states and for maintenance.
    read_only : bool
        True to refuse all writes, for dashboards. The database enforces it.
    upgrade : bool
        True to upgrade an older SQLite file after a backup, False to refuse it. An older PostgreSQL
        database is always refused.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError
        If the database belongs to another program, has an unusable revision, or cannot be opened.

    Notes
    -----
    Many methods take these filters on series as keywords. Each filter narrows the result, and None
    matches everything:

    - name (str or sequence of str): metric names, or an analyzer's name for all metrics that it measures;
    - instance (str or sequence of str): columns or rules;
    - analyzer (Analyzer or str): exactly this analyzer, with all its options;
    - where (str or sequence of str): exactly these row filters; an empty string for metrics without a filter;
    - segment (str or sequence of str): segments, such as ``origin=EWR``.

    Filters by time:

    - since, until (str, date or datetime): bounds on the partition's time, both inclusive; a date as
      ``until`` includes its whole day;
    - as_of (str, date, datetime or int): the history as it was known at a UTC time, or after the run
      with this id; a date means its first moment.

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
            True for only retired datasets, False for only datasets in use (default: all).

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
            Name of the dataset.
        versions : str
            ``current``, or ``all`` for all versions of each partition.
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now).

        Returns
        -------
        pandas.DataFrame
            With the columns partition, time, segment, version, rows, fingerprint, first_seen_at,
            arrived_at, measured_at, gone_at, run_id.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, "a", rows=10)), commit(repo, day(1, "b", rows=12))
        ...     repo.partitions("d", versions="all")[["partition", "version", "rows"]].values.tolist()
        [['ds=2013-01-01', 1, 10], ['ds=2013-01-01', 2, 12]]
        """
        if versions not in {"current", "all"}:
            raise UnknownNameError("versions", versions, ["current", "all"])
        with self.database.read() as connection:
            rows = partition_rows(connection, dataset, as_of, all_versions=versions == "all")
        return frame_of(rows, PARTITION_COLUMNS)

    def runs(self, dataset: str | None = None) -> pd.DataFrame:
        """Return all runs, newest first.

        Parameters
        ----------
        dataset : str, optional
            Name of the dataset (default: all datasets).

        Returns
        -------
        pandas.DataFrame
            With the columns run_id, dataset, status, selection, measured, skipped, failed, gone,
            started_at, finished_at, error, tags, routes. ``routes`` is a dict of the numbers of
            measurements by route, as `RunReport.routes`; None if the run counted none, or was stored by
            an earlier release.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
            Name of the dataset (default: all datasets).
        since
            Earliest partition time of counted incidents, late or missing partitions, and failed checks.

        Returns
        -------
        pandas.DataFrame
            One row per dataset, the worst first, with the columns dataset, partitions (number of
            existing partitions), newest, time, measured_at and rows (of the newest partition), series;
            errors, warnings and infos (open incidents by severity); missing (partitions in open gaps, and
            overdue partitions) and late; run_id, status and started_at of the last run; failed (analyzers
            that failed in their newest partition); failing (failed verdicts of rules and checks on the
            current data) and failing_known (failures of past partitions that earlier runs reported or
            that were labeled since).

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        """Return all partitions in order of time, including missing and late partitions.

        The `MissingPartition` detector determines missing partitions: gaps between two partitions, and
        overdue partitions after the last one, if partitions of the same weekday or hour usually exist.
        No partition is missing before the eighth partition, in the first week of tables with several
        partitions a day, or if the times follow no grid of days, parts of days, weeks or months. At most
        the first 14 seasons of a gap are listed. `Late` determines late partitions by its default rule,
        regardless of monitors and labels.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        since, until
            Bounds on the time of returned partitions. The whole history determines usual arrivals.
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now). It also determines which partitions were overdue.

        Returns
        -------
        pandas.DataFrame
            One row per partition, with partitions without a time last, and the columns

            - segment, partition, time; a missing partition has no name;
            - status: the first of ``missing``, ``gone`` (no longer in the table), ``unmeasured`` (only
              recorded numbers, no version), ``restated`` (version above 1), ``late`` and ``measured``
              that applies;
            - late, restated: True if they apply, for any status;
            - version, rows, first_seen_at, arrived_at, measured_at, gone_at: as in `partitions`, missing
              if unknown; arrived_at is the arrival of the first version, missing if it was cleaned;
            - delay: seconds from the end of the partition's hour, day or month to the arrival,
              negative for an earlier arrival; NaN if unknown;
            - anomalies: number of anomalies in the partition;
            - worst: their highest severity, or None.

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.
        HistoryError
            If a time cannot be parsed, or if ``as_of`` is before the oldest view that `clean` kept.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        instance: Names = None,
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
            Name of the dataset.
        name : str or sequence of str, optional
            Metric names, or an analyzer's name for all metrics that it measures.
        instance : str or sequence of str, optional
            Columns or rules of the metrics.
        tags : mapping, optional
            Only metrics of runs with at least these tags and values.
        window : str, optional
            Return roll-ups instead of partitions: ``7d``, ``month``, ``total`` or another window of
            the suite. Their ``partition`` is the window's start and end, their ``time`` is the
            newest partition's time, and they have no version.
        wide : bool
            True to return one column per series, for example for ``.plot()``.
        analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per metric and partition, with the columns dataset, segment, partition, time,
            entity, name, instance, value, weight, status, error, version, run_id, analyzed_at,
            analyzer, where. ``where`` is the row filter, empty without one. ``value`` is NaN if the status is failed or empty. With ``wide``, only the values:
            one row per partition, indexed by time (by partition if times are missing or repeated), and
            one column per series, such as ``Mean of fare in country=DE where paid``. Columns that would have
            equal names also have their analyzer.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
                msg = "window= cannot be combined with tags=, because roll-ups belong to no run"
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

        If several series share the name, the series of whole partitions without a filter is used.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name : str
            Name of the metric.
        instance : str or sequence of str, optional
            Columns or rules of the metrics.
        partition : str, optional
            Name, such as ``ds=2013-02-08`` (default: the newest partition with the metric).
        analyzer, where, segment, as_of
            Filters; see the class notes.

        Returns
        -------
        float
            The value; NaN if the metric failed or had no data.

        Raises
        ------
        HistoryError
            If no series, several series or no partition matches; the message lists several series.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        """Return the series of a dataset: names and instances for `metrics`, `value` and `plot`.

        Series of whole-partition detectors, which have scores but no metrics, are left out.

        Parameters
        ----------
        dataset : str
            Name of the dataset.

        Returns
        -------
        pandas.DataFrame
            One row per series, with the columns segment, name, instance, where, analyzer.

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        instance: Names = None,
        *,
        as_of: AsOf = None,
        **series: Unpack[NamedSeriesFilter],
    ) -> pd.DataFrame:
        """Return the newest metric of each series, with the columns of `metrics`.

        A partition without a time is the newest only if a series has no other partition. This is fast,
        because the newest values are also stored separately; ``as_of`` reads the whole history.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name, instance, analyzer, where, segment, as_of
            Filters; see the class notes.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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

    @series_filter(NamedHistoryFilter)
    def pages(
        self,
        dataset: str,
        name: Names = None,
        instance: Names = None,
        *,
        rows: int = 100_000,
        **series: Unpack[NamedHistoryFilter],
    ) -> Iterator[pd.DataFrame]:
        """Yield the result of `metrics` in pages of whole partitions.

        With ``as_of``, all pages show the same view. Without it, each page shows the current view.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        rows : int
            Approximate number of rows in a page.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1), day(2), day(3))
        ...     [page["partition"].unique().tolist() for page in repo.pages("d", rows=1, name="Size")]
        [['ds=2013-01-01'], ['ds=2013-01-02'], ['ds=2013-01-03']]
        """
        from tidegauge.repository.history.series import fact_pages

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
            pages = fact_pages(connection, dataset, query, as_of, rows)
            if self.database.is_shared:
                yield from (facts.frame() for facts in pages)
                return
            # A database in memory has one connection, so read all pages before others need it.
            stored_pages = list(pages)
        yield from (facts.frame() for facts in stored_pages)

    @series_filter(NamedHistoryFilter)
    def chart(
        self,
        dataset: str,
        name: Names = None,
        instance: Names = None,
        *,
        points: int = 500,
        **series: Unpack[NamedHistoryFilter],
    ) -> pd.DataFrame:
        """Return series downsampled by the database for drawing. Extremes are kept.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        points : int
            Maximum number of time intervals per series; intervals have equal length.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per series and interval with a finite value, with the columns segment, name,
            instance, analyzer, where, start and end (times of the interval's first and last partition), low,
            high, mean, count. Partitions without a time are left out.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=n) for n in range(1, 5)))
        ...     repo.chart("d", points=2, name="Size")[["low", "high", "count"]].values.tolist()
        [[1.0, 2.0, 2.0], [3.0, 4.0, 2.0]]
        """
        from tidegauge.repository.history.series import CHART_COLUMNS, chart_rows

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
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
            Name of the dataset.
        partition : str
            Name, such as ``ds=2013-02-08``.
        name, instance, analyzer, where, segment, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per series, with the columns segment, name, instance, analyzer, where, and one column
            per version, named by its number. The value is NaN if a version has none.

        Raises
        ------
        HistoryError
            If the partition does not exist.

        Examples
        --------
        >>> from tidegauge.repository.repository import Repository
        >>> from tidegauge.repository.testing import commit, day
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

    @series_filter(NamedHistoryFilter)
    def restatements(
        self,
        dataset: str,
        name: Names = None,
        instance: Names = None,
        **series: Unpack[NamedHistoryFilter],
    ) -> pd.DataFrame:
        """Return changes of metrics by restatements: partitions that were measured again.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per series that a new version of a partition changed, latest first, with the columns
            dataset, segment, partition, time, name, instance, analyzer, where, old, new, change, old_status,
            new_status, old_version, new_version, old_run, new_run, restated_at.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, "a", rows=10)), commit(repo, day(1, "b", rows=12))
        ...     repo.restatements("d", name="Size")[["partition", "old", "new"]].values.tolist()
        [['ds=2013-01-01', 10.0, 12.0]]
        """
        from tidegauge.repository.history.versions import RESTATEMENT_COLUMNS, restatement_rows

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
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
        """Store a custom metric. Detectors watch it like any other metric.

        Parameters
        ----------
        dataset : str
            Created if it does not exist.
        name : str
            Name of the metric.
        value : float, mapping of str or Partition to float, or Series
            The value, or values by partition. NaN and infinities are stored as they are. Use a
            Partition instead of a name if a key's value contains a slash or a percent sign.
        partition : str, optional
            Partition of a single value, such as ``ds=2013-02-08`` (default: the whole dataset).
        time : datetime, date or str, optional
            Time of the partition, if its name does not contain it. A stored time is not changed; a
            different time causes a `RepositoryWarning`.
        instance : str
            Column or rule that the metric describes.
        segment : str
            Segment that the metric describes; empty for the whole partition.
        entity : str
            Kind of the instance, such as ``Dataset`` or ``Column``.
        scale : str
            Behavior of the values: ``count``, ``ratio``, ``positive``, ``signed``, ``distance``,
            ``time`` or ``flag``.
        weight : float, optional
            Number of rows behind the value.

        Returns
        -------
        int
            Number of new values. An equal value is not written again. A different value is a new
            version of the metric; the old version is kept.

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
            msg = "partition= and time= cannot be combined with values by partition"
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
        where: str | None = None,
        partitions: str | Sequence[str] | None = None,
        weekday: str | Sequence[str] | None = None,
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
        where: str | None = None,
        partitions: str | Sequence[str] | None = None,
        weekday: str | Sequence[str] | None = None,
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
        where: str | None = None,
        partitions: str | Sequence[str] | None = None,
        weekday: str | Sequence[str] | None = None,
        allow_missing: bool = False,
        every: str | None = None,
    ) -> Metric[Any] | pd.DataFrame:
        """Compute a metric over many partitions from their stored states. Needs no Spark.

        The analyzer need not have been measured itself if its state was stored by another analyzer: merge
        another quantile of a sketch, or the distinctness from the states of the uniqueness.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        analyzer : Analyzer or str
            Analyzer of the metric.
        since, until : str, date or datetime, optional
            Bounds on the partition's time, both inclusive; a date as ``until`` includes its whole day.
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id.
        segment : str, optional
            Only this segment, such as ``origin=EWR`` (default: all rows).
        where : str, optional
            The row filter of the analyzer, as in ``tg.Size(where="origin = 'EWR'")``.
        partitions : str or sequence of str, optional
            Names of partitions, or a condition such as ``ds in (2013-02-08, 2013-02-09)``.
        weekday : str or sequence of str, optional
            Only partitions whose time in UTC is on these weekdays, such as ``Monday`` or
            ``["Sat", "Sun"]``.
        allow_missing : bool
            True to leave out partitions without a state (the analyzer failed or was never measured)
            or with a damaged state. Each causes a `RepositoryWarning`.
        every : str, optional
            Length of the windows to merge separately: ``1w`` (from Monday), ``7d``, ``12h``, ``1mo``,
            ``1q``, ``1y`` (default: merge all partitions). Partitions without a time are left out.

        Returns
        -------
        Metric or pandas.DataFrame
            With ``every``, a frame with one row per window with partitions and per number of the
            flattened metric, and the columns start, end (exclusive), partitions, entity, name, instance,
            value, weight, status, error.

        Raises
        ------
        HistoryError
            If the window has no partitions, or if not all of its partitions have a state.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     repo.merge("d", tg.Size()).value, repo.merge("d", tg.Size(), until="2013-01-01").value
        (22.0, 10.0)
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=n) for n in range(1, 15)))
        ...     repo.merge("d", tg.Size(), weekday="Monday").value  # 7 and 14 January 2013
        21.0
        """
        from tidegauge.repository.store.windows import WINDOW_COLUMNS, WindowScheme, window_rows

        parsed = _with_filter(as_analyzer(analyzer), where)
        with self.database.read() as connection:
            require_measured(connection, dataset, parsed)
        states = self.window_states(
            dataset,
            since=since,
            until=until,
            as_of=as_of,
            segment=segment,
            partitions=partitions,
            weekday=weekday,
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
        partitions: str | Sequence[str] | None = None,
        weekday: str | Sequence[str] | None = None,
        allow_missing: bool = False,
    ) -> HistoricStates:
        """Return a `StateLoader` that merges a dataset's states over a window.

        Parameters
        ----------
        dataset, since, until, as_of, segment, partitions, weekday, allow_missing
            As for `merge`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.window_states("flights", since="2013-02-01").window.until
        """
        from tidegauge.repository.store.windows import HistoricStates, weekday_numbers

        weekday_numbers(weekday)  # raises an error if invalid
        window = Window.between(since, until)
        return HistoricStates(
            self.database,
            self.artifacts,
            dataset,
            window,
            segment,
            as_of,
            allow_missing,
            partitions,
            weekday,
        )

    def states(self, name: str) -> NamedStates:
        """Return a `StateLoader` and `StatePersister` of states stored under a name.

        The states belong to no dataset and no run. Use it for states of single analyzers.

        Parameters
        ----------
        name : str
            Name of the states.

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
        columns. Their states are merged only within a generation: a roll-up over several generations has
        no value, and the total covers the generation of the newest partition. All types of numbers are
        one generation, and all types of text are another.

        Parameters
        ----------
        dataset : str
            Name of the dataset.

        Returns
        -------
        pandas.DataFrame
            One row per sequence of partitions of one generation, in order of time, with the columns
            analyzer, segment, generation, first, last, partitions. Empty if no state depends on types.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        """Update the total and the roll-ups of a dataset. Every run also does this.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        windows : sequence of str, optional
            ``7d``, ``24h`` (rolling); ``day``, ``week``, ``month``, ``quarter``, ``year`` (default: all
            windows that have roll-ups).
        run : int, optional
            Run to which the roll-ups belong.

        Returns
        -------
        int
            Number of metrics written.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        """Delete data past its retention, and unused files.

        Parameters
        ----------
        versions : str, timedelta or datetime, optional
            Delete versions that were superseded longer ago than this (``90d``, ``12w``, ``6mo``, ``2y``)
            or before this time, with their data and verdicts. Afterwards, views ``as_of`` earlier times
            are refused. Data of unresolved anomalies is kept.
        states : str, timedelta or datetime, optional
            Delete states of partitions older than this. They are added to the total first, so that the
            total stays complete. Metrics are kept, and states that windows still need.
        runs : str, timedelta or datetime, optional
            Delete runs that ended longer ago than this and have no remaining data.
        dry_run : bool
            True to count without deleting.
        vacuum : bool
            True to shrink a SQLite file by rewriting it without free pages, which temporarily doubles
            the disk space. Otherwise, later writes reuse the free pages. PostgreSQL vacuums by itself.

        Returns
        -------
        Cleaned
            Counts of deleted data.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
            Name of the dataset.
        note : str, optional
            Reason.
        by : str, optional
            Author.
        dry_run : bool
            True to check only that the dataset exists.

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.

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
        """Bring a retired dataset back into use.

        Parameters
        ----------
        dataset, note, by, dry_run
            As for `retire`.

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
        """Rename a dataset with all of its history.

        Also change the name in suites, monitors and notifications: a run of a suite with the old name
        starts a new history.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name : str
            New name, which no other dataset has.
        dry_run : bool
            True to check only the names.

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.
        HistoryError
            If the new name is empty, or another dataset has it.
        LeaseError
            If a run is measuring the dataset.

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
        """Acquire the lease of a dataset without waiting; a dry run acquires none."""
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
        """Permanently delete a dataset, or a partition, series or generation of it, in all versions.

        Totals, windows, scores and incidents are recomputed from the remaining data. The next run
        measures a partition again if its files are still in the table, and an analyzer if the suite
        still names it. A segment is measured again only in new and changed partitions.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        partition : str, optional
            Delete only this partition, such as ``ds=2026-01-01``.
        analyzer : Analyzer or str, optional
            Delete only the series of this analyzer, in all segments: ``Histogram('k')``.
        segment : str, optional
            Delete only the analyzer's series of this segment, such as ``country=US``; an empty string
            for the series of all rows.
        generation : str, optional
            Delete only the analyzer's metrics and states of this generation, such as ``k is a text``;
            see `generations`.
        dry_run : bool
            True to count without deleting.

        Returns
        -------
        Dropped
            Counts of deleted data.

        Raises
        ------
        UnknownDatasetError, HistoryError
            If the dataset, partition, analyzer, segment or generation does not exist.
        LeaseError
            If a run is measuring the dataset.

        Examples
        --------
        >>> from tidegauge.repository.testing import commit, day
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

        Counts and shares do not change. Delete the values from the table first: if a partition still
        contains them, measuring it again stores them again.

        Parameters
        ----------
        values : str or sequence of str
            Values as strings, in the format of `Histogram`: ``ann@example.org``, ``42``, ``2013-02-08``.
        dry_run : bool
            True to count without replacing.

        Returns
        -------
        Forgotten
            Counts of the changes, and the values that cannot be replaced: in names of partitions and
            segments, in filters, and in sketches that can contain a number.

        Raises
        ------
        HistoryError
            If a value is empty.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.histogram import Histogram
        >>> from tidegauge.repository.testing import commit, day
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

        It reads stored states of any analyzer, without Spark: a quantile sketch (`ApproxQuantile`,
        `KLLSketch`, `ReqQuantile`), else the frequencies of the values (`Histogram`, `Uniqueness`, ...),
        else a `TopValues` that tracked all values. Nulls and NaN are left out.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        column : str
            Column whose values are compared.
        baseline, current : str or pair
            Name of a partition, or a window ``(since, until)`` on the partitions' time. Both bounds are
            inclusive; None is unbounded.
        segment, as_of
            As for `merge`.
        where : str, optional
            Exactly this filter (default: metrics without a filter).
        kind : str, optional
            ``categorical`` to compare numbers as categories, which needs stored frequencies.
        record : bool
            True to store the distances as metrics of the partition ``current``, as `drifts` does. Past
            views (``as_of``) are not recorded.

        Returns
        -------
        Drifted
            Distances ``psi``, ``js``, ``ks``, ``wasserstein``, ... (see
            `tidegauge.repository.distributions.distances.Distances`), NaN if a side has no values, and
            a ``frame()`` of both distributions.

        Raises
        ------
        HistoryError
            If a partition does not exist or has no suitable state; the message names the analyzer
            to add.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
        baseline: str | int | None = None,
        at_least: int = 7,
        same_weekday: bool = False,
        since: Moment = None,
        until: Moment = None,
        segment: str | None = None,
        where: str | None = None,
        as_of: AsOf = None,
        kind: str | None = None,
        record: bool = False,
    ) -> pd.DataFrame:
        """Compare each partition's distribution with the partitions before it.

        With ``record=True``, the distances are stored as metrics. They are ``Drift.psi``, ``Drift.js``, ``Drift.ks`` and ``Drift.wasserstein`` for numbers, and
        ``Drift.psi``, ``Drift.js``, ``Drift.unseen`` and ``Drift.lost`` for categories, with the column as
        instance. `detect` compares them with their own past, and the detector `Drift` records them by itself.
        Each column, segment and filter has one series per metric: a different baseline writes new versions
        of it. Unchanged values are not written again.

        Parameters
        ----------
        dataset, column, segment, where, as_of, kind
            As for `drift`.
        baseline : str or int, optional
            Time span before each partition (``28d``, ``24h``), or number of partitions before it, that
            the partition is compared with (default: 28 days; 8 weeks with ``same_weekday``).
        at_least : int
            Minimum number of baseline partitions with values. Partitions with fewer are left out.
        same_weekday : bool
            True to compare each partition only with partitions of the same weekday (UTC): a Saturday
            with Saturdays. Otherwise a column that differs on Saturdays drifts every Saturday.
        since, until
            Bounds on the time of compared partitions. Earlier partitions still belong to the baseline.
        record : bool
            True to store the distances as metrics. Past views (``as_of``) are not recorded.

        Returns
        -------
        pandas.DataFrame
            One row per partition with a time and a state, with the columns dataset, segment, partition,
            time, instance (the column), psi, js, ks, wasserstein, wasserstein_iqr, unseen, lost, rows, baseline_rows. A distance is
            NaN if the partition has no values, or if the distance does not apply to the column's kind.

        Raises
        ------
        HistoryError
            If no suitable state is stored; the message names the analyzer to add.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, groups={("a",): 5, ("b",): 5}) for n in range(1, 10)))
        ...     repo.drifts("d", "s")["psi"].tolist()
        [0.0, 0.0]
        """
        from tidegauge.repository.distributions.drift import BASELINE, SAME_WEEKDAY_BASELINE, drifts
        from tidegauge.repository.distributions.stored import StoredColumn

        stored_column = StoredColumn(
            self.database, self.artifacts, dataset, column, segment, where, as_of, kind
        )
        window = Window.between(since, until)
        if baseline is None:
            baseline = SAME_WEEKDAY_BASELINE if same_weekday else BASELINE
        return drifts(
            stored_column,
            baseline,
            window,
            at_least=at_least,
            same_weekday=same_weekday,
            record=record,
        )

    @series_filter(SeriesFilter)
    def compare(
        self,
        dataset: str,
        baseline: Side,
        current: Side,
        *,
        summary: str = "merged",
        as_of: AsOf = None,
        **series: Unpack[SeriesFilter],
    ) -> pd.DataFrame:
        """Compare two runs, partitions or windows by series, with the most surprising change first.

        The value of a side with several partitions is the metric of all their rows, from the merged states:
        the size of a month is its number of rows. With ``summary="median"``, it is the median of the
        partitions: the size of a typical day. If two runs measured the same partitions (a restatement),
        only these partitions are compared.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        baseline, current : int, str or pair
            Two sides of the same kind: ids of runs, names of partitions, or windows ``(since, until)``
            on the partitions' time. A run selects the partitions that it measured, with the values
            directly after the run. Bounds of windows are inclusive; None is unbounded.
        summary : str
            ``merged`` for the metric of the whole window, ``median`` for a typical partition. Metrics whose
            states are not stored for each partition, such as recorded numbers, always have medians.
            ``merged`` reads all states of both sides; ``median`` is fast.
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now). Later measurements of a run are left out.
        name, instance, analyzer, where, segment
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per series that was measured in a side, with the columns

            - dataset, segment, name, instance, where, analyzer;
            - baseline, current: value of each side; NaN without a value; a single value can be infinite;
            - change: difference of the values, in the metric's unit. For medians of a restatement, the
              median of the partitions' differences. 0 if only rounding differs; NaN unless both are finite;
            - relative: change divided by the absolute baseline; NaN if the baseline is 0;
            - surprise: robust z-score of the difference of medians, from 0 to 300. On the scale of
              the metric (logarithm of counts, arcsine of the root of ratios, ...), it is the distance of
              the difference from the median of the *usual differences*, divided by their spread. To find
              usual differences, both sides are shifted along the history together, to positions without
              their own partitions. The spread is 1.4826 times the median distance or, if larger, the 90th
              percentile of the distances divided by 1.645, but at least a floor by kind of metric. With
              fewer than 6 usual differences, and for restatements, the differences between neighboring
              partitions are used, scaled by the number of values behind the medians. The surprise is 300
              for a constant series that changed, 0 for equal sides, and NaN if fewer than 6 differences
              are known or the difference is unknown;
            - unusual: True if the surprise is above 4;
            - anomaly: True if an anomaly is stored for the current partition; False for runs and
              windows. Its difference can still be usual, such as between two holidays;
            - summary: ``merged`` or ``median``, for both sides; ``value`` if a side is one partition;
            - baseline_partitions, current_partitions: number of partitions with the series;
            - status: ``both``; ``only baseline`` or ``only current`` if the other side was not measured;
              ``failed``, ``empty``, ``NaN``, ``+inf`` or ``-inf`` if the current side is not finite (the
              status of its last partition); ``was failed``, ... if only the baseline is not finite.

            Series with an unknown surprise follow other changed series; equal series are last.

        Raises
        ------
        HistoryError
            If the sides have different kinds, a run or partition does not exist, or a window is empty.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=50 if n == 20 else 100 + n % 2) for n in range(1, 21)))
        ...     row = repo.compare("d", "ds=2013-01-19", "ds=2013-01-20", name="Size").iloc[0]
        ...     print(row["baseline"], row["current"], row["change"], row["unusual"])
        101.0 50.0 -51.0 True
        """
        from tidegauge.repository.history.comparison import compare

        with self._selected(dataset, series) as (connection, query, _):
            return compare(
                connection,
                self.artifacts,
                dataset,
                baseline,
                current,
                query,
                as_of,
                summary=summary,
            )

    # charts

    @series_filter(NamedHistoryFilter)
    def plot(
        self,
        dataset: str,
        name: Names = None,
        instance: Names = None,
        *,
        weekday: str | Sequence[str] | None = None,
        title: str | None = None,
        width: int | None = None,
        height: int | None = None,
        log: bool = False,
        **series: Unpack[NamedHistoryFilter],
    ) -> LayerChart | VConcatChart | Chart:
        """Draw up to eight series with expected ranges, anomalies, labels and revisions, as an Altair chart.

        This needs ``pip install 'tidegauge[charts]'``.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name : str or sequence of str, optional
            Metric names, or an analyzer's name for all metrics that it measures.
        instance : str or sequence of str, optional
            Columns or rules of the metrics.
        weekday : str or sequence of str, optional
            Only partitions whose time in UTC is on these weekdays, such as ``Monday``.
        title : str, optional
            Title (default: the metric and the dataset).
        width, height : int, optional
            Size of each panel in pixels (default: 720, and 220 for a single panel or else 130).
        log : bool
            True for a logarithmic scale. Values that are not positive are gaps.
        analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        altair.LayerChart or altair.VConcatChart
            A notebook displays the chart, without a network. ``save("size.png")`` also writes ``.svg``,
            ``.html`` and ``.json``; ``properties(title=...)``, ``chart + other`` and all other methods of
            Altair work. All series of one metric and unit share a panel; several panels share the axis of
            time (UTC), or the order of the partitions if one has no time.

            Values are lines, with gaps at missing values. The band and the dotted line are the expected
            range and value of the first detector with a band; a band much wider than the values is clipped.
            Anomalies are triangles that point up or down, filled by severity, gray if they are labeled
            ``expected``. Flags are labels, shaded ranges are labeled ranges, and rings are values before the
            partition was measured again. Each has a tooltip.

            ``chart.data`` is the drawn frame of a chart with one panel, with the columns time, dataset,
            partition, name, instance, segment, where, series (as in the legend), value, expected, lower, upper,
            score, status. It has at most 5,000 rows: longer series keep the extremes of each stretch, a gap and
            the anomalies.
            If no partition is selected, the chart is a sentence.

        Raises
        ------
        SetupError
            If Altair is not installed.
        HistoryError
            If no series or more than eight series match; the message lists examples and filters.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     chart = repo.plot("d", "Size", title="Rows", width=400)
        >>> chart.data["value"].tolist(), chart.width, chart.to_dict()["title"]["text"]
        ([10.0, 12.0], 400, 'Rows')
        """
        from tidegauge.repository.history.charts import series_chart
        from tidegauge.repository.history.series import read_plot

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
            plot = read_plot(connection, dataset, query, as_of, weekday)
        return series_chart(plot, title=title, width=width, height=height, log=log)

    def plot_distribution(
        self,
        dataset: str,
        column: str,
        *sides: DriftSide,
        segment: str | None = None,
        where: str | None = None,
        weekday: str | Sequence[str] | None = None,
        as_of: AsOf = None,
        kind: str | None = None,
        curve: bool = False,
        bins: int = 30,
        title: str | None = None,
        width: int | None = None,
        height: int | None = None,
        log: bool = False,
    ) -> LayerChart | VConcatChart | Chart:
        """Draw the distribution of a column in partitions or windows, from stored states, as an Altair chart.

        This needs ``pip install 'tidegauge[charts]'``. The states are those of `drift`.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        column : str
            Column whose values are drawn, without nulls and NaN.
        *sides : str or pair
            Names of partitions, or windows ``(since, until)`` on the partitions' time, both inclusive; None is
            unbounded. Without any, all partitions are merged.
        segment, where, as_of, kind
            As for `drift`.
        weekday : str or sequence of str, optional
            Only partitions whose time in UTC is on these weekdays, such as ``Monday``.
        curve : bool
            True for the value of each rank (quantiles) instead of a histogram.
        bins : int
            Maximum number of bins between the 1st and the 99th percentile of all sides; each has a round
            width. At most 200.
        title, width, height
            As for `plot`.
        log : bool
            True for a logarithmic vertical axis.

        Returns
        -------
        altair.Chart
            Histograms over each other as shares of each side's values, without the lowest and the highest
            1% of all sides; quantile curves; or bars of the 20 most frequent categories. If no side has
            values, the chart is a sentence.

        Raises
        ------
        SetupError
            If Altair is not installed.
        HistoryError
            If a partition does not exist or has no suitable state; the message names the analyzer to add.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     days = [day(1, groups={("a",): 5, ("b",): 5}), day(2, groups={("a",): 10})]
        ...     _ = commit(repo, *days)
        ...     chart = repo.plot_distribution("d", "s", "ds=2013-01-01", "ds=2013-01-02")
        >>> list(zip(chart.data["category"], chart.data["share"]))
        [('a', 0.5), ('a', 1.0), ('b', 0.5), ('b', 0.0)]
        """
        from tidegauge.repository.distributions.drift import read_distributions
        from tidegauge.repository.distributions.stored import StoredColumn
        from tidegauge.repository.history.charts import distribution_chart

        stored_column = StoredColumn(
            self.database, self.artifacts, dataset, column, segment, where, as_of, kind
        )
        distributions = read_distributions(stored_column, sides or ((None, None),), weekday)
        filters = [text for text in (segment, where) if text]
        return distribution_chart(
            f"{', '.join([column, *filters])} ({dataset})",
            distributions,
            curve=curve,
            bins=bins,
            log=log,
            title=title,
            width=width,
            height=height,
        )

    @series_filter(NamedHistoryFilter)
    def heat_map(
        self,
        dataset: str,
        name: Names = None,
        instance: Names = None,
        *,
        by: str = "score",
        title: str | None = None,
        width: int | None = None,
        height: int | None = None,
        **series: Unpack[NamedHistoryFilter],
    ) -> LayerChart | VConcatChart | Chart:
        """Draw the scores or changes of a dataset's series over time, as an Altair chart.

        This needs ``pip install 'tidegauge[charts]'``.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name : str or sequence of str, optional
            Metric names, or an analyzer's name for all metrics that it measures.
        instance : str or sequence of str, optional
            Columns or rules of the metrics.
        by : str
            ``score`` for the highest score of all detectors, ``change`` for the relative change from the
            previous value, from -1 to 1.
        title, width, height
            As for `plot`; by default, the height follows the number of series.
        analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        altair.LayerChart
            A row of cells for each series, with a dot in each cell with an anomaly. At most 50 series are
            drawn, those with the strongest cells. If there are more than 5,000 cells, each shows the strongest
            of several partitions. The subtitle tells both. `scores` returns all numbers.

        Raises
        ------
        SetupError
            If Altair is not installed.
        UnknownNameError
            If ``by`` is another word.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=5))
        ...     chart = repo.heat_map("d", "Size", by="change")
        >>> list(zip(chart.data["partition"], chart.data["number"]))
        [('2013-01-02', -0.5)]
        """
        from tidegauge.repository.history.charts import heat_map_chart
        from tidegauge.repository.history.heatmap import drawn_heatmap

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
            heatmap = drawn_heatmap(connection, dataset, query, by, as_of)
        return heat_map_chart(dataset, heatmap, by, title=title, width=width, height=height)

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
        dataset: str | Sequence[str] | None = None,
        monitors: MonitorLike | Sequence[MonitorLike] | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
        replay: bool = False,
    ) -> pd.DataFrame:
        """Score new metrics, store scores, anomalies and incidents, and return the anomalies.

        Scoring starts at the first partition that was measured or labeled since the last detection. Several
        datasets are scored together, which is much faster than one after the other, with the same results.

        Parameters
        ----------
        dataset : str or sequence of str, optional
            Names of the datasets (default: all datasets that are not retired).
        monitors : Monitor, Detector, str, or sequence of these, optional
            Detectors and the series that they watch. A detector without a monitor watches all series
            (default: the monitors of the dataset's last suite, or `Seasonal` on all series). A
            `RepositoryWarning` names monitors that match no series.
        since, until
            Only points in this window can become anomalies. All earlier points train detectors.
        replay : bool
            True to score the whole history again. The result is the same unless detectors changed.

        Returns
        -------
        pandas.DataFrame
            Anomalies, as `anomalies` returns them.

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.
        DetectionError
            If some of several datasets cannot be scored; all other datasets are scored first.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        ...     repo.detect("orders")[["partition", "value", "direction"]].values.tolist()
        [['ds=2026-01-29', 7.0, 'low']]
        """
        from tidegauge.repository.detection.together import detect
        from tidegauge.repository.detectors.monitor import monitors_of

        window = Window.between(since, until)
        watching = None if monitors is None else monitors_of(monitors)
        selected = self.datasets(retired=False) if dataset is None else dataset
        names = [selected] if isinstance(selected, str) else list(selected)
        outcome = detect(self.database, self.artifacts, names, watching, window, replay=replay)
        if outcome.failed:
            reason = next(iter(outcome.failed.values()))
            if isinstance(dataset, str):
                raise reason
            raise DetectionError(outcome.failed, len(names)) from reason
        for monitor in outcome.idle:
            owner = f"{dataset!r} has no" if isinstance(dataset, str) else "no dataset has a"
            message = (
                f"{owner} series of {dict(monitor.series)}: {monitor.detector!r} watches no series"
            )
            warnings.warn(message, RepositoryWarning, stacklevel=2)
        if dataset is None or isinstance(dataset, str):
            return self.anomalies(dataset, since=since, until=until)
        anomalies = self.anomalies(since=since, until=until)
        return anomalies[anomalies["dataset"].isin(names)].reset_index(drop=True)

    @series_filter(NamedHistoryFilter)
    def anomalies(
        self,
        dataset: str | None = None,
        name: Names = None,
        instance: Names = None,
        *,
        status: str | None = None,
        incident: int | None = None,
        **series: Unpack[NamedHistoryFilter],
    ) -> pd.DataFrame:
        """Return stored anomalies, the worst first; ``as_of`` also applies to their labels.

        Parameters
        ----------
        dataset : str, optional
            Name of the dataset (default: all datasets).
        status : str, optional
            ``open``, ``acknowledged``, ``expected``, ``resolved`` or ``new level``.
        incident : int, optional
            Only anomalies of this incident.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, segment, partition, time, name, instance, analyzer, value,
            expected, lower, upper, direction, score, p_value, detector, severity, status,
            incident_id, version, explanation, detected_at, where.

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

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
            rows = anomaly_rows(connection, dataset, status, query, as_of, incident)
        return frame_of(
            [{**row, "where": row["filter"] or ""} for row in rows],
            {**columns_of(AnomalyRow), "where": Kind.ANY},
        )

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
            Name of the dataset (default: all datasets).
        every : str
            Length of the windows: ``1w``, ``7d``, ``12h``, ``1mo``, ``1q``, ``1y``, ...
        name, instance, analyzer, where, segment, since, until
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per window and metric with anomalies, with the columns start, end, name, instance,
            and the numbers of anomalies, series, partitions and incidents. Start and end are missing for
            partitions without a time.

        Raises
        ------
        HistoryError
            If ``every`` is not a valid length.

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
            Name of the dataset (default: all datasets).

        Returns
        -------
        pandas.DataFrame
            One row per detector and a last row ``in all``, with the columns detector, anomalies, labeled,
            real (last label ``bad`` or ``acknowledged``), false (last label ``expected`` or ``ignore``),
            false_share (false divided by labeled; NaN without labels), points (scored points), per_1000
            (anomalies per thousand points; NaN without points). Labels by tidegauge are not counted.

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.

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

        Rules that count series count only matching series.
        Detectors train with the current labels and holidays: points labeled ``expected``, ``bad`` or
        ``ignore`` are left out. An anomaly on an ignored point counts as a false alarm.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        detectors : Detector, Monitor, str, or sequence of these
            Detectors to run. A string is parsed as a detector, such as ``OnlineNormal(2, 2)``.
        since, until
            Only points in this window are counted. All earlier points train detectors.
        rule : DecisionRule or str, optional
            Decision rule (default: the rule of each detector).
        details : bool
            True to return the anomalies instead of a summary.
        name, instance, analyzer, where, segment
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per detector, with the columns

            - detector, rule;
            - series, points: numbers of scored series and points;
            - anomalies, incidents: number of each;
            - per_1000: anomalies per thousand points; NaN without points;
            - found, missed: incidents, single anomalies and ranges labeled ``bad`` or ``acknowledged``;
            - false: anomalies on points labeled ``expected`` or ``ignore``;
            - false_share: share of false anomalies among labeled anomalies;
            - precision: share of real incidents among labeled incidents;
            - recall: found divided by the sum of found and missed;
            - seconds: run time;
            - per_month: incidents per thirty days; NaN if partitions have no times.

            Shares are NaN without labels. Labels on a partition apply to anomalies of whole-partition
            detectors in it.

            With ``details``, one row per anomaly, by detector and in order of time, with the columns
            detector, rule, segment, partition, time, name, instance, analyzer, value, expected, lower,
            upper, direction, score, p_value, severity, incident (numbered per detector), said (``real``,
            ``false`` or missing), explanation.

        Raises
        ------
        UnknownNameError
            If the detector or rule is unknown; the message suggests the nearest name.
        SuiteError
            If no detector is given, or an argument is not a detector.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.testing import commit, day
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
            msg = "No detectors to backtest: give at least one detector, such as 'Seasonal()'"
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
        """Backtest each sensitivity, and suggest one by the labels on incidents. Stores nothing.

        The suggestion is the sensitivity with the highest F1 over the labeled incidents, or `normal` if
        there are fewer than five relevant labels. Incidents without a label are not counted, so also
        label missed incidents (`label_range`).

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        detector : Detector or str
            Detector with the rule `FalseDiscoveryRate`.
        since, until
            Only points in this window are counted. All earlier points train the detector.
        name, instance, analyzer, where, segment
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per sensitivity, with the columns sensitivity, per_month (incidents per thirty days),
            found and missed (incidents labeled ``bad`` or ``acknowledged``), false (incidents labeled
            ``expected`` or ``ignore``), precision, recall, f1 (NaN without labels), suggested (True in one
            row).

        Raises
        ------
        SuiteError
            If the detector's rule has no sensitivity.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> sizes = {f"ds=2026-01-{day:02}": 1000 + 7 * (day % 5) for day in range(1, 31)}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", sizes, scale="count")
        ...     found = repo.sensitivities("orders")
        >>> found.loc[found["suggested"], "sensitivity"].item()  # the default, without labels
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
        """Describe the seasons that `Seasonal` has learned: hours, weekdays, days of the month, months.

        Differences are relative to the usual hour, weekday or month of the series: a percentage or a
        multiple for counts and positive numbers, percentage points for shares. Effects smaller than the
        noise of the series are left out.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        detector : Seasonal or str
            Detector with its options.
        name, instance, analyzer, where, segment
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            One row per series with at least eight points, with the columns segment, name, instance,
            analyzer, seasons (empty if the series has no seasons).

        Raises
        ------
        SuiteError
            If the detector is not `Seasonal`.
        UnknownDatasetError
            If the dataset does not exist.

        Examples
        --------
        >>> import datetime as dt
        >>> import tidegauge as tg
        >>> days = [dt.date(2026, 1, 5) + dt.timedelta(days=n) for n in range(63)]
        >>> sizes = {f"ds={day}": 1000 if day.weekday() < 5 else 550 for day in days}
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = repo.record("orders", "rows", sizes, scale="count")
        ...     repo.seasons("orders")["seasons"].tolist()
        ['Saturdays and Sundays 45% lower']
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
        """Return incidents (groups of related anomalies), newest first.

        Parameters
        ----------
        dataset : str, optional
            Name of the dataset (default: all datasets).
        status : str, optional
            ``open``, ``acknowledged``, ``expected``, ``resolved`` or ``new level``.
        since, until
            Only incidents that overlap this range of partition times; both bounds are inclusive.
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now).

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, headline, severity, first and last (partitions), series (number of
            series), status, updated_at (time of the last detection or label), group. Incidents of several
            tables with a common cause have the same group, the smallest of their ids; other incidents have
            none.

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
            Id of the incident or of one of its anomalies; both share one sequence.

        Returns
        -------
        IncidentDetails
            Its attributes are ``row``, ``anomalies``, ``labels``, ``started``, ``firsts``, ``peaks`` (the
            highest score of each series), ``causes``, ``timeline``, ``context`` (run, runbook, downstream
            datasets) and ``revision`` (for `label`). ``explain()`` returns a summary.

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
            Id of an anomaly or incident; both share one sequence.

        Returns
        -------
        Causes
            ``moves`` are metrics broken down into parts: segments, filters such as ``origin = 'EWR'`` and,
            for ``Size``, the bins of histograms. ``companions`` are series that changed at the same time.
            Both are empty if no cause is known. ``frame()`` returns one row per part, and ``str()`` a
            summary. The expected value comes from the anomaly's detector, or else is the median of the last
            eight values of the same weekday (and hour).

        Raises
        ------
        HistoryError
            If the anomaly or incident does not exist.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from tidegauge.repository.detectors.monitor import Monitor
        >>> from tidegauge.repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     days = [day(n, rows=10, groups={("a",): 6, ("b",): 4}) for n in range(1, 9)]
        ...     _ = commit(repo, *days, day(9, rows=7, groups={("a",): 3, ("b",): 4}))
        ...     found = repo.detect("d", [Monitor({"name": "Size"}, "SimpleThreshold(99, 8)")])
        ...     print(repo.causes(found["id"][0]))
        Size in ds=2013-01-09 is 7 instead of 10. By s: a lost 50%; a alone accounts for 100% of it.
        """
        from tidegauge.repository.incidents.details import causes_of

        with self.database.read() as connection:
            return causes_of(connection, id)

    @series_filter(NamedHistoryFilter)
    def scores(
        self,
        dataset: str,
        name: Names = None,
        instance: Names = None,
        **series: Unpack[NamedHistoryFilter],
    ) -> pd.DataFrame:
        """Return the scores of all points, including points without an anomaly.

        Whole-partition detectors score series without metrics. Request them by name:
        ``name="MissingPartition"``.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name, instance, analyzer, where, segment, since, until, as_of
            Filters; see the class notes.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, segment, partition, time, name, instance, analyzer, detector,
            score, p_value, expected, lower, upper, reason, version, where. The bounds are NaN if the detector
            has none. The reason says what the score is based on, such as ``level``, ``drift`` or ``calendar``;
            ``usual`` marks a value outside its band that is no surprise, because earlier deviations to this
            side were as large; ``recurring`` one that is like several earlier incidents, or like one that
            was labeled as harmless; ``none`` is a value as expected.

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
        from tidegauge.repository.history.series import series_rows
        from tidegauge.repository.incidents.listing import score_rows

        filters: HistoryFilter = {"name": name, "instance": instance, **series}
        with self._selected(dataset, filters) as (connection, query, as_of):
            rows = score_rows(connection, dataset, query, as_of)
            where = {row["analyzer"]: row["where"] for row in series_rows(connection, dataset)}
        return frame_of(
            [{**row, "where": where.get(row["analyzer"], "")} for row in rows],
            {**columns_of(ScoreRow), "where": Kind.ANY},
        )

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
            For an anomaly outside of incidents, only its own labels are compared. Without a
            revision, the label is always written.
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
        >>> from tidegauge.repository.testing import commit, day
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
        """Label all points in a time range, including points without an anomaly.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        label : str
            ``expected`` or ``bad``: exclude the points from training. ``ignore``: exclude them from
            training and from alerting. ``rebaseline``: a new level begins with the first point.
            ``reopened``: withdraw earlier labels. The newest label of a point is used.
        since, until
            Bounds on the partition's time, both inclusive. At least one is required.
        name, instance, segment : str, optional
            Filters on series (default: all series).
        note : str, optional
            Reason.
        by : str, optional
            Author.
        dry_run : bool
            True to check the label only, and to warn if it would apply to no point.

        Raises
        ------
        UnknownNameError
            If the label does not apply to ranges.
        HistoryError
            If the range has no bound, or a bound is invalid.
        UnknownDatasetError
            If the dataset does not exist.

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
            Name of the dataset (default: all datasets).
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now).

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
        """Store the verdict of rules on data, so that the same data need not be judged again.

        A verdict with the same name, specification, fingerprint and partition supersedes the previous
        verdict, which stays visible ``as_of`` earlier times. An equal verdict is not written again,
        unless the check has a different, later verdict on the partition.

        Parameters
        ----------
        dataset : str
            Name of the dataset, which is created if needed.
        passed : bool
            True if the data passed.
        result : str
            Result as JSON, stored unchanged.
        run : int, optional
            Run that judged the data.
        name : str
            Name of the check. A dataset can have several checks.
        specification : str
            Hash of the rules. Verdicts of different rules are separate.
        fingerprint : str
            Fingerprint of the data, as in `partitions`. Verdicts on different data are separate.
        partition : str
            Name of the partition, such as ``ds=2013-02-08`` (default: the whole dataset).

        Returns
        -------
        int
            Id of the verdict, or of the equal stored verdict.

        Raises
        ------
        HistoryError
            If name, specification or fingerprint is empty, the result is not JSON, or the dataset
            does not have this run.
        ReadOnlyError
            If the repository is read-only.

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
            Name of the dataset.
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now).
        name, specification, fingerprint, partition
            As for `keep_verdict`.

        Returns
        -------
        str or None
            The stored result; None if these rules never judged this data, or if the dataset does not exist.

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
        """Return the last verdict of each check on each version of data, newest first.

        Parameters
        ----------
        dataset : str
            Name of the dataset.
        name : str, optional
            Only verdicts of this check.
        partition : str, optional
            Only verdicts on this partition; empty for verdicts on the whole dataset.
        passed : bool, optional
            True for passed, False for failed verdicts (default: both).
        as_of : str, date, datetime or int, optional
            The history as it was known at a UTC time, or after the run with this id (default: now).

        Returns
        -------
        pandas.DataFrame
            One row per name, specification, fingerprint and partition, with the columns id, dataset, name,
            partition, time (of the partition, missing if unknown), fingerprint, specification, passed,
            checked_at, run_id, result (JSON).

        Raises
        ------
        UnknownDatasetError
            If the dataset does not exist.
        HistoryError
            If the partition was neither judged nor measured, or if no verdict has the name; the message
            suggests the nearest name.

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


def _with_filter(analyzer: AnyAnalyzer, where: str | None) -> AnyAnalyzer:
    """Return an analyzer with a row filter; raise an error if it cannot have one, or has another."""
    if where is None or where == (analyzer.where or ""):
        return analyzer
    names = {field.name for field in fields(analyzer)}
    if analyzer.where is not None or "where" not in names:
        problem = "has another filter" if "where" in names else "takes no filter"
        msg = f"Invalid where={where!r}: {analyzer!r} {problem}. Write the filter only once."
        raise HistoryError(msg)
    return replace(analyzer, where=where)  # type: ignore[call-arg]


@overload
def as_repository(repository: Repository | str | Path) -> Repository: ...
@overload
def as_repository(repository: Repository | str | Path | None) -> Repository | None: ...
def as_repository(repository: Repository | str | Path | None) -> Repository | None:
    """Return a repository unchanged, or open a URL or the path of a SQLite file.

    Parameters
    ----------
    repository : Repository, str, Path or None
        Repository, its URL or its path; None returns None.

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
