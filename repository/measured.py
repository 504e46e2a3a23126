"""The part of a repository that remembers what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isnan, nan
from typing import TYPE_CHECKING, Any, overload

from analyzers.errors import HistoryError
from analyzers.metric import Metric
from repository import history
from repository.charts import CHART_COLUMNS, chart_rows, fact_pages
from repository.clean import Age, Cleaned, clean
from repository.facts import read_facts, read_newest
from repository.frames import frame_of
from repository.history import AnyAnalyzer, AsOf, MetricQuery, Moment, Window
from repository.opened import Opened
from repository.record import Record, Values, by_name, write_record
from repository.recorded import Recorded
from repository.restatements import (
    RESTATEMENT_COLUMNS,
    VERSION_COLUMNS,
    restatement_rows,
    version_rows,
)
from repository.rolled import rolled_windows, rollup_rows
from repository.rollups import roll_up
from repository.states import WINDOW_COLUMNS, HistoricStates, NamedStates, window_rows
from repository.windows import Windows

if TYPE_CHECKING:
    import pandas as pd


class Measured(Opened):
    """What was measured: metrics, versions, roll-ups, states."""

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
        value: Values,
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
        value : float or mapping of str or Partition to float
            The value, or values by partition. NaN and infinities are kept as such. A partition whose value
            holds a slash or a percent sign cannot be told by its name.
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
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.record("orders", "revenue", 1250.5, partition="ds=2013-02-08")
        ...     repo.metrics("orders")["value"].tolist()
        1
        [1250.5]
        """
        many = isinstance(value, Mapping)
        if many and (partition is not None or time is not None):
            msg = "values by partition take no partition= and no time="
            raise HistoryError(msg)
        values, known = by_name(value, partition)
        what = Recorded(name, instance=instance, entity=entity, scale=scale)
        times = {} if many else {partition or "": time}
        weight = None if weight is None or isnan(weight) else float(weight)
        if time is not None and time.tzinfo is None:
            times = dict.fromkeys(times, time.replace(tzinfo=UTC))
        record = Record(dataset, what, segment, values, times, weight, known)
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
            with all that belongs to them, and verdicts. Views as of earlier moments are refused from then
            on. What unsettled anomalies are about stays.
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
        >>> with tg.Repository("sqlite://") as repo:
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
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.states("nightly").persist(tg.Size(), tg.NumMatches(3))
        ...     tg.Size().load_state_and_compute_metric(repo.states("nightly")).value
        3.0
        """
        return NamedStates(self.database, self.artifacts, name)
