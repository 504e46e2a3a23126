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
        The instance of its metrics, ``<group_by>.<feature>``: a number, or a map of numbers.
    at : str or pair
        The name of a partition, or a window ``(since, until)`` on the partitions' time, whose
        partitions are merged.
    segment : str, optional
        All segments by default.
    record : bool
        Store the distances of a partition as metrics ``Consistency.psi``, ``js``, ``ks`` and
        ``wasserstein`` of the feature, to be watched.

    Returns
    -------
    Drifted
        With the backfilled values as its baseline, and the logged ones as its current side; the
        distances are NaN if one of them has no values.

    Raises
    ------
    HistoryError
        If no distributions of the feature are stored, or there is no such partition.

    Examples
    --------
    For an hour of the search join::

        found = drift(repo, "shop.search", "prices.index", "ds=2023-01-05/hr_minute=07-00")
        found.psi, found.ks
    """
    logged = StoredColumn(repository.database, repository.artifacts, dataset, feature, segment)
    backfilled = replace(logged, of="backfilled")
    found = drift_of(logged, at, at, record=record, against=backfilled, prefix=PREFIX)
    return replace(
        found, baseline=f"backfilled, {found.baseline}", current=f"logged, {found.current}"
    )
