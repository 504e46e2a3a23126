"""Names of online/offline consistency series: metrics, features and group-bys.

A series is named ``Consistency.<metric>``. Its instance is ``<group_by>.<feature>``, or ``<group_by>``
for metrics of whole rows. A distribution has one series for each of `QUANTILES`, such as ``delta-p50``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.repository.store import schema as s

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PREFIX = "Consistency."
QUANTILES = ("min", "p5", "p25", "p50", "p75", "p95", "max")
TOP_SUFFIX = "_top"
"""Suffix of the metric for a string feature's distribution, after the side."""
WRONG = "wrong"
"""First ranking key of features: the sum of `CELLS`."""
CELLS = ("mismatch", "missing", "extra")
"""Rates of matched rows in which a feature differs between the two sides."""
OF_ROWS = ("row_missing", "row_extra")
"""Metrics of the rows of a group-by, independent of its features."""


@dataclass(frozen=True)
class FeatureSubject:
    """Subject of consistency metrics: a feature of a group-by, or the rows of a group-by.

    Attributes
    ----------
    group_by : str
        Empty where an instance names none.
    feature : str or None
    instance : str
        Of its series.
    """

    group_by: str
    feature: str | None
    instance: str


def parse_instance(instance: str, groups: set[str]) -> FeatureSubject:
    """Parse an instance into group-by and feature, by the known group-bys, as names may have dots.

    Examples
    --------
    >>> parse_instance("team.clicks.count_7d", {"team.clicks"})
    FeatureSubject(group_by='team.clicks', feature='count_7d', instance='team.clicks.count_7d')
    >>> parse_instance("clicks.count_7d", set()).group_by
    'clicks'
    """
    if instance in groups:
        return FeatureSubject(instance, None, instance)
    longest = max((g for g in groups if instance.startswith(f"{g}.")), key=len, default=None)
    if longest is None:
        group, dot, feature = instance.partition(".")
        return FeatureSubject(group if dot else "", feature if dot else instance, instance)
    return FeatureSubject(longest, instance[len(longest) + 1 :], instance)


def group_bys_of(connection: Connection, dataset: int) -> set[str]:
    """Return the group-bys of a dataset, given by id, that have row metrics."""
    series, analyzer = s.series.c, s.analyzer.c
    query = (
        sa.select(series.instance)
        .distinct()
        .join_from(s.series, s.analyzer)
        .where(
            analyzer.dataset_id == dataset, series.name.in_([PREFIX + metric for metric in OF_ROWS])
        )
    )
    return set(connection.execute(query).scalars())
