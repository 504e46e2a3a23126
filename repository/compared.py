"""The part of a repository that looks at its history side by side, and as a calendar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repository.frames import frame_of
from repository.history import AnyAnalyzer, AsOf, MetricQuery, Moment, Window
from repository.opened import Opened

if TYPE_CHECKING:
    import pandas as pd

    from repository.comparing import Side


class Compared(Opened):
    """What differs between two runs, partitions or windows, and what came when."""

    def compare(
        self,
        dataset: str,
        baseline: Side,
        current: Side,
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return two sides of a dataset's history, series by series, the most surprising difference first.

        The value of a side is that of its partition; of several partitions the median of their finite
        values. Two runs that measured some of the same partitions (a restatement) are compared on these
        alone, partition by partition.

        Parameters
        ----------
        dataset : str
        baseline, current : int, str or pair
            Both of one kind: ids of runs, which stand for the partitions that they measured, with the values
            as they left them; names of partitions; or windows ``(since, until)`` on the partitions' time, both
            included, each may be None.
        name, instance, analyzer, where, segment
            Only these series, as for `metrics`.
        as_of : datetime or int, optional
            As for `metrics`. Of runs, what they measured later is left out.

        Returns
        -------
        pandas.DataFrame
            One row for each series that one of the sides has, with the columns

            - segment, name, instance, analyzer;
            - baseline, current: NaN where there is no value; a single partition's may be infinite;
            - change: their difference in the metric's unit, of two measurements of the same partitions the
              median of the differences; 0 if it is but rounding, NaN unless both are finite;
            - relative: change as a share of the baseline's size; NaN if that is 0;
            - surprise: how unusual such a difference is for this series, as a robust z from 0 to 300: on the
              scale of the metric's kind (logarithm of counts, arcsine of the root of ratios, ...) its distance
              from the median of the differences that are usual between two such sides, divided by their
              spread: 1.4826 times their median distance from it or, if that is more, the 90th percentile of
              the distances by 1.645; and never by less than is believed of a metric of this kind. Usual is
              what the sides show when both are moved along the history, as far from each other as they
              are, to where they touch no partition of their own; where that gives fewer than 6 differences,
              what neighbouring partitions show, less by how many values the medians are of. For measurements
              of the same partitions it is always the latter. 300 for a series that never moved and now
              does; 0 for equal sides; NaN if fewer than 6 differences are known, or there is none to judge;
            - unusual: whether the surprise is above 4, or, of single partitions, a stored anomaly stands in
              the current one;
            - baseline_partitions, current_partitions: how many of them the series was measured in;
            - status: ``both``; ``only baseline`` or ``only current`` if the other side was not measured; else
              what the current side is in place of a finite number (``failed``, ``empty``, ``NaN``,
              ``+inf``, ``-inf``; of several partitions the last), or ``was failed``, ... if only the baseline
              is none.

            Those of unknown surprise come after all others but equal ones.

        Raises
        ------
        HistoryError
            If the sides are of different kinds, or there is no such run, partition, or nothing in a window.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=50 if n == 20 else 100 + n % 2) for n in range(1, 21)))
        ...     row = repo.compare("d", "ds=2013-01-19", "ds=2013-01-20", name="Size").iloc[0]
        ...     print(row["baseline"], row["current"], row["change"], row["unusual"])
        101.0 50.0 -51.0 True
        """
        from repository.comparing import compare  # noqa: PLC0415 - numpy

        query = MetricQuery(name, instance, segment, where, analyzer)
        with self.database.read() as connection:
            return compare(connection, dataset, baseline, current, query, as_of)

    def calendar(
        self, dataset: str, *, since: Moment = None, until: Moment = None, as_of: AsOf = None
    ) -> pd.DataFrame:
        """Return all partitions in order of time, and those that should be there and are not.

        What is missing is what `MissingPartition` misses: places between two partitions, and overdue ones after
        the last, whose like (the same weekday or hour) usually was there; none before the eighth partition, and
        none without a grid of hours or days. Of a gap longer than 14 seasons it counts as many. What is late
        is what `Late` finds with its own rule, whoever watches and whatever was said.

        Parameters
        ----------
        dataset : str
        since, until
            Only partitions whose time lies between, both included; the whole history still says what is usual.
        as_of : datetime or int, optional
            As for `metrics`; what was overdue then.

        Returns
        -------
        pandas.DataFrame
            One row for each partition, those without a time last, with the columns

            - segment, partition, time: the name is missing where the partition is;
            - status: the first that holds of ``missing``; ``gone`` (it is no longer in the table);
              ``unmeasured`` (there is no version of it, only numbers that were recorded); ``restated`` (its
              version is above 1); ``late``; ``measured``;
            - late, restated: whether they hold, whatever comes before them;
            - version, rows, first_seen_at, arrived_at, measured_at, gone_at: as `partitions` has them,
              missing where unknown; arrived_at is when the data of this version came;
            - delay: seconds from the end of the partition's hour (of hourly ones) or day until then, below 0
              if it came earlier; NaN if unknown;
            - anomalies: how many stand in it; worst: the highest severity among them, or None.

        Raises
        ------
        UnknownDatasetError
        HistoryError
            If a time cannot be read, or lies in a past that was cleaned away.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n) for n in range(1, 12) if n != 9))
        ...     found = repo.calendar("d", since="2013-01-08", until="2013-01-10")
        ...     found["status"].tolist(), found["delay"].tolist()
        (['measured', 'missing', 'measured'], [7200.0, nan, 7200.0])
        """
        from repository.ledger_calendar import CALENDAR_COLUMNS, calendar_rows  # noqa: PLC0415

        window = Window.of(since, until)
        with self.database.read() as connection:
            rows = calendar_rows(connection, dataset, window, as_of)
        frame = frame_of(rows, CALENDAR_COLUMNS)
        for name in ("late", "restated"):  # also where there are no rows
            frame[name] = frame[name].astype(bool)
        return frame
