"""The part of a repository that remembers which data passed which rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repository.frames import frame_of
from repository.history import AsOf
from repository.opened import Opened
from repository.verdicts import (
    VERDICT_COLUMNS,
    Case,
    Verdict,
    add_verdict,
    find_verdict,
    verdict_rows,
)

if TYPE_CHECKING:
    import pandas as pd


class Judged(Opened):
    """Verdicts of rules on data, so that what was judged is not read again."""

    def keep_verdict(
        self,
        dataset: str,
        *,
        name: str,
        specification: str,
        fingerprint: str,
        passed: bool,
        result: str,
        partition: str = "",
        run: int | None = None,
    ) -> int:
        """Remember what rules said of data, whether it passed or failed.

        A verdict on the same (name, specification, fingerprint and partition) takes the place of the last
        one, which stays to be seen ``as_of`` then. If it says the same, nothing is written.

        Parameters
        ----------
        dataset : str
            It is made if there is none, and may be measured by any partitions later.
        name : str
            Of the check: a dataset may have several.
        specification : str
            A hash of its rules: with other rules the verdict is another.
        fingerprint : str
            Of the data, as `partitions` has it: of other data the verdict is another.
        passed : bool
        result : str
            JSON text, kept as it is.
        partition : str
            Its name, ``ds=2013-02-08``; empty for the whole dataset.
        run : int, optional
            The run in which it was found.

        Returns
        -------
        int
            The verdict's id; that of the old one if it said the same.

        Raises
        ------
        HistoryError
            If name, specification or fingerprint is empty, the result is not JSON, or there is no such
            run of the dataset.
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
        case = Case.of(name, specification, fingerprint, partition)
        return add_verdict(self.database, dataset, case, Verdict(passed, result), run)

    def verdict(
        self,
        dataset: str,
        *,
        name: str,
        specification: str,
        fingerprint: str,
        partition: str = "",
        as_of: AsOf = None,
    ) -> str | None:
        """Return what rules said last of data.

        Parameters
        ----------
        dataset, name, specification, fingerprint, partition
            Exactly as they were given to `keep_verdict`.
        as_of : datetime or int, optional
            As for `metrics`.

        Returns
        -------
        str or None
            The result as it was kept; None if these rules never judged this data, or there is no such
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
        case = Case.of(name, specification, fingerprint, partition)
        with self.database.read() as connection:
            return find_verdict(connection, dataset, case, as_of)

    def verdicts(
        self,
        dataset: str,
        *,
        name: str | None = None,
        partition: str | None = None,
        passed: bool | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return what rules said last of all data that they judged, the newest first.

        Parameters
        ----------
        dataset : str
        name : str, optional
            Only those of this check.
        partition : str, optional
            Only those on this partition; empty for those on the whole dataset.
        passed : bool, optional
            Only those that passed, or failed, when they were judged last.
        as_of : datetime or int, optional
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            One row for each name, specification, fingerprint and partition, with the columns id, dataset,
            name, partition, time (of the partition, missing if it is not known), fingerprint,
            specification, passed, checked_at, run_id, result (JSON text).

        Raises
        ------
        UnknownDatasetError

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
        with self.database.read() as connection:
            rows = verdict_rows(connection, dataset, name, partition, passed, as_of)
        return frame_of(rows, VERDICT_COLUMNS)
