"""The part of a repository that shows: pictures, and what there is at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repository.frames import frame_of
from repository.history import AnyAnalyzer, AsOf, MetricQuery, Moment, Window
from repository.opened import Opened

if TYPE_CHECKING:
    import pandas as pd

    from repository.plotting import Plot


class Seen(Opened):
    """What can be looked at without a dashboard."""

    def plot(
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
    ) -> Plot:
        """Draw up to eight series with what was expected and what stood out.

        Parameters
        ----------
        dataset, name, instance, since, until, as_of, analyzer, where, segment
            As for `metrics`.

        Returns
        -------
        Plot
            A notebook shows it: values as lines, with gaps where a partition has none; the band from
            ``lower`` to ``upper`` and what was expected (dotted) as the first detector that has a band says;
            anomalies as triangles that point up or down, each explained where the pointer rests. Series of one
            metric whose values lie alike share a panel, more than two without bands; all panels stand above
            one axis: time, or the partitions in order if not all have a time. It has ``svg`` (text, below 50 KB), ``data`` (a tidy frame of all points)
            and ``save("file.svg")``, which writes ``.html``, too.

        Raises
        ------
        HistoryError
            If no series matches, or more than eight, with how many and how to narrow it.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=12))
        ...     plot = repo.plot("d", name="Size")
        >>> plot.data["value"].tolist(), plot.svg[:4]
        ([10.0, 12.0], '<svg')
        """
        from repository.plotting import read_plot  # noqa: PLC0415 - numpy

        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            return read_plot(connection, dataset, query, as_of)

    def overview(self, dataset: str | None = None, *, since: Moment = None) -> pd.DataFrame:
        """Return what there is and what is open, at a glance.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        since
            Only incidents and arrivals that reach to this partition time or later.

        Returns
        -------
        pandas.DataFrame
            One row for each dataset, with the columns dataset, partitions (how many are there), newest, time
            and rows (of the newest partition), series; errors, warnings and infos (open incidents by
            severity); missing (gaps and overdue partitions that nobody settled) and late; run_id, status and
            started_at of the last run; failed (analyzers that failed when they were measured last).

        Raises
        ------
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1), day(2, rows=12))
        ...     print(repo.overview()[["dataset", "partitions", "newest", "rows", "failed"]])
          dataset  partitions         newest  rows  failed
        0       d           2  ds=2013-01-02    12       1
        """
        from repository.overview import OVERVIEW_COLUMNS, overview_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = overview_rows(connection, dataset, Window.of(since, None))
        return frame_of(rows, OVERVIEW_COLUMNS)

    def _repr_html_(self) -> str:
        from analyzers.display import card  # noqa: PLC0415
        from repository.overview import overview_pieces, overview_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = overview_rows(connection)
        return card(lambda most, width: overview_pieces(self.database.name, rows, most, width))
