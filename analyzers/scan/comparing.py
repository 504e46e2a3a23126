"""Comparison of the data of a scan with another table, by key and column, as a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.measures.references import KeyedComparison
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX, Answers, ScanJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Comparing(ScanJob):
    """A join by key with another table. The result counts the equal rows by column, and all joined."""

    requests: tuple[KeyedComparison, ...]
    kind: ClassVar[str] = "comparison"

    def check(self, data: DataFrame) -> None:
        """Raise Spark's error if keys or columns cannot be compared."""
        self.joined(data, Groups()).schema  # noqa: B018 - forces resolution

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Join, and count the equal values of each column."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        width = len(request.columns)
        flags = [*(f"{COLUMN_PREFIX}e{i}" for i in range(width)), "true"]
        counts = [f"count_if({where_holds(request.where, flag)})" for flag in flags]
        cells = [F.expr(count).alias(f"{COLUMN_PREFIX}c{i}") for i, count in enumerate(counts)]
        found = groups.aggregated(self.joined(data, groups), cells).collect()
        return {request: {groups.key_of(row): tuple(row[-width - 1 :]) for row in found}}

    def joined(self, data: DataFrame, groups: Groups) -> DataFrame:
        """Return the rows whose key was found, with a flag for each column that is equal.

        The other table has one row for each key then: the least value of each column, and whether all
        its values are equal, null being a value. So no row is counted twice.
        """
        from pyspark.sql import functions as F

        (request,) = self.requests
        width = range(len(request.columns))
        keys = [f"{k} AS {COLUMN_PREFIX}r{i}" for i, k in enumerate(request.reference_keys)]
        values = [f"{c} AS {COLUMN_PREFIX}o{i}" for i, c in enumerate(request.reference_columns)]
        others = [f"{COLUMN_PREFIX}o{i}" for i in width]
        least = [F.expr(f"min({o})").alias(o) for o in others]
        alike = [
            F.expr(f"min({o}) <=> max({o}) AND count({o}) IN (0, count(1))").alias(f"{o}_alike")
            for o in others
        ]
        reference = (
            data.sparkSession.table(request.table)
            .selectExpr(*keys, *values)
            .groupBy(*(f"{COLUMN_PREFIX}r{i}" for i in range(len(keys))))
            .agg(*least, *alike)
        )
        own = [f"{k} AS {COLUMN_PREFIX}x{i}" for i, k in enumerate(request.keys)]
        mine = [f"{c} AS {COLUMN_PREFIX}v{i}" for i, c in enumerate(request.columns)]
        same = " AND ".join(f"{COLUMN_PREFIX}x{i} = {COLUMN_PREFIX}r{i}" for i in range(len(own)))
        equal = [
            f"({COLUMN_PREFIX}v{i} <=> {o} AND {o}_alike) AS {COLUMN_PREFIX}e{i}"
            for i, o in enumerate(others)
        ]
        joined = groups.with_keys(data, *own, *mine).join(reference, F.expr(same))
        return joined.selectExpr("*", *equal)
