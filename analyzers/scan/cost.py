"""Estimates of what a DataFrame costs to read, from Spark's plan and from its first rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from tidegauge.analyzers.scan.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_BYTES = 2**20
"""Size of files up to which data is small: then the number of jobs matters, not their speed."""
SAMPLE_ROWS = 10_000
SAMPLE_VALUES = 8 * SAMPLE_ROWS
"""Most rows, and values of all columns, that are read beforehand."""
COLUMN_BYTES = 5
"""Bytes of a value in Parquet, roughly: between one of few texts and a double."""
_UNKNOWN_SIZE = 2.0**60
"""Size from which on Spark knows none: rows of the driver are said to take eight exabytes."""

_SIZE = re.compile(r"Statistics\(sizeInBytes=(\d+(?:\.\d+)?(?:E\+?\d{1,2})?) ((?:[KMGTPE]i)?)B\b")
"""Names of columns stand in the same text, so it is strict; one that looks like a size costs only time."""
_COLUMNAR = re.compile(r"Scan (?:parquet|orc)\b|\(branch=", re.IGNORECASE)
_COMPUTED = re.compile(
    r"(?:Aggregate|Exchange|Generate|Join|Python|Window)\b|\bFilter\b|Scan (?:csv|json|text|hive)\b"
)
"""Parts of a physical plan. A name of a column that looks like one only costs time."""
_FACTORS = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)} | {"": 1.0}


@dataclass(frozen=True)
class PlanCost:
    """Spark's estimate of a DataFrame.

    Attributes
    ----------
    size : float
        Bytes; infinite if Spark gives none.
    shuffles : bool
        Whether reading the first rows computes more than those rows: the plan has a shuffle.
    plain : bool
        Whether columns and first rows are read alone: the data are files of columns, as they are.
    """

    size: float
    shuffles: bool
    plain: bool = False

    @property
    def small(self) -> bool:
        """Whether the data are so small that fewer jobs are better than faster ones."""
        return self.size <= SMALL_BYTES

    @property
    def sampled(self) -> bool:
        """Whether the first rows cost little beside all rows."""
        return not self.small and not self.shuffles

    def rows(self, columns: int) -> float:
        """Return a rough number of rows; zero if Spark knows no size."""
        return self.size / (COLUMN_BYTES * columns) if self.size < _UNKNOWN_SIZE else 0.0


def plan_cost(data: DataFrame) -> PlanCost:
    """Estimate the cost of reading a DataFrame, without a job: Spark explains its plan.

    Its text is the only interface to its statistics that Spark Connect has, too.
    """
    from pyspark.errors import AnalysisException

    views = Views(data.sparkSession)
    try:
        views.add("data", data)
        sql = f"EXPLAIN COST SELECT * FROM {views.view('data')}"  # noqa: S608 - a name of ours
        ((text,),) = data.sparkSession.sql(sql).collect()
    except AnalysisException:  # such as files that are gone: the scan tells of it
        return PlanCost(inf, shuffles=True)
    finally:
        views.drop()
    logical, _, physical = text.partition("== Physical Plan ==")
    found = _SIZE.search(logical)
    size = float(found[1]) * _FACTORS[found[2]] if found else inf
    scans, other = _COLUMNAR.search(physical), _COMPUTED.search(physical)
    return PlanCost(size, "Exchange" in physical, bool(scans) and not other)


def mostly_distinct(data: DataFrame, columns: Sequence[str]) -> bool:
    """Return whether most of the first rows differ in some columns."""
    head = data.selectExpr(f"xxhash64({', '.join(columns)})").limit(SAMPLE_ROWS).collect()
    return 2 * len(set(head)) > len(head)


def distinct_in_first_rows(data: DataFrame, columns: Sequence[str]) -> tuple[int, list[int]]:
    """Return how many of the first rows were read, and the number of distinct values in each column."""
    rows = min(SAMPLE_ROWS, SAMPLE_VALUES // len(columns))
    hashes = [f"xxhash64({column})" for column in columns]
    head = data.selectExpr(*hashes).limit(rows).collect()
    return len(head), [len({row[i] for row in head}) for i in range(len(columns))]
