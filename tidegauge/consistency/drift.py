"""Drift between the logged and the backfilled values of a feature, from stored states. No Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.repository.distributions.drift import Drifted, Side
from tidegauge.repository.distributions.drift import drift as drift_of
from tidegauge.repository.distributions.stored import StoredColumn
from tidegauge.repository.store.consistency_series import PREFIX

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository


def drift(
    repository: Repository,
    dataset: str,
    feature: str,
    at: Side,
    *,
    segment: str | None = None,
    record: bool = False,
) -> Drifted:
    """Compare the distribution of a feature as it was logged with that of its backfill.

    Rows are not matched one by one, so this tells whether a model sees other values than those that
    it was trained on, also where many rows differ a little. For the drift of logged values from one
    time to another use `Repository.drift`, with the feature as the column.

    Parameters
    ----------
    repository : Repository
    dataset : str
        ``<namespace>.<join>``.
    feature : str
        The instance of its metrics, ``<group_by>.<feature>``: a number, a map of numbers, or text with
        no more different values than are counted exactly, about 190.
    at : str or pair
        The name of a partition, or a window ``(since, until)`` on the partitions' time, whose
        partitions are merged.
    segment : str, optional
        All segments by default.
    record : bool
        Store the distances of a partition as metrics ``Consistency.psi``, ``js``, ``ks`` and
        ``wasserstein`` of the feature, of text ``psi``, ``js``, ``unseen`` and ``lost``, to be watched.

    Returns
    -------
    Drifted
        With the backfilled values as its baseline, and the logged ones as its current side; the
        distances are NaN if one of them has no values.

    Raises
    ------
    HistoryError
        If no distributions of the feature are stored, or there is no such partition.
    StateMismatchError
        If a text has more values than are counted exactly.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     report = tg.consistency.record(found, repo, "shop.search")
    ...     hour = repo.metrics("shop.search")["partition"].iloc[0]
    ...     tg.consistency.drift(repo, "shop.search", "*.age", hour).ks
    1.0
    """
    logged = StoredColumn(repository.database, repository.artifacts, dataset, feature, segment)
    backfilled = replace(logged, of="backfilled")
    found = drift_of(logged, at, at, record=record, against=backfilled, prefix=PREFIX)
    return replace(
        found, baseline=f"backfilled, {found.baseline}", current=f"logged, {found.current}"
    )
