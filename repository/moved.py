"""The part of a repository that compares distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repository.history import AsOf, Moment, Window
from repository.opened import Opened

if TYPE_CHECKING:
    import pandas as pd

    from repository.drift import Drifted, Side


class Moved(Opened):
    """How far columns have drifted, from stored sketches and frequencies."""

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
    ) -> Drifted:
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
        Drifted
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
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
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
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, groups={("a",): 5, ("b",): 5}) for n in range(1, 10)))
        ...     repo.drifts("d", "s")["psi"].tolist()
        [0.0, 0.0]
        """
        from repository.columns import Column  # noqa: PLC0415 - numpy
        from repository.drift import drifts  # noqa: PLC0415 - numpy and scipy

        of = Column(self.database, self.artifacts, dataset, column, segment, where, as_of, kind)
        window = Window.of(since, until)
        return drifts(of, baseline, window, at_least=at_least, record=record)
