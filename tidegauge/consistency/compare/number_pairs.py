"""Requests for statistics of pairs of plain numbers, which Python workers compute for many features at once.

Spark generates and compiles code for each feature: on 100 features of 50,000 rows that took most of the
time. Workers run one program for all of them, on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tidegauge.analyzers.core.requests import Aggregate, Request, Sketch, WorkerRequest
from tidegauge.analyzers.core.schema import INTEGRAL, Field

FLOATING = frozenset({"float", "double"})
COUNTS = {"cells": 5, "differences": 4}
"""Statistics of numbers, and how many of these are counts; sums follow."""
LARGEST_SKETCH = 1_000
"""Size up to which workers build sketches: those of 24 kB each, of which a batch of Arrow holds 10,000."""


@dataclass(frozen=True, slots=True)
class PairStatistic:
    """A statistic of the matched rows of two numeric columns.

    Attributes
    ----------
    kind : str
        ``cells`` and ``differences``: the numbers of `Cells`, with the number of rows in place of that of
        equal ones, and of `Differences`. ``equal``, ``logged``, ``backfilled`` and ``delta``: a sketch of
        `SketchPairs`.
    logged, backfilled : str
        The columns, as Spark SQL.
    options : tuple of float
        Of cells, the absolute and the relative tolerance; of a sketch, its size.
    """

    kind: str
    logged: str
    backfilled: str
    options: tuple[float, ...] = ()


@dataclass(frozen=True)
class OfPairs(WorkerRequest):
    """Request for one number of a statistic, or for its sketch.

    Attributes
    ----------
    instead : Aggregate or Sketch
        The same in Spark.
    of : PairStatistic
    place : int
        The number's place in the statistic.
    """

    job: ClassVar[str] = "tidegauge.consistency.compare.number_pairs_job:NumberPairs"
    # 16 for each of 40 features: up to a hundred columns Spark reads Parquet by columns, then by rows.
    most: ClassVar[int] = 640

    instead: Aggregate | Sketch
    of: PairStatistic
    place: int


def in_workers(
    asked: Sequence[Aggregate | Sketch], a: Field, b: Field, kind: str, *options: float
) -> tuple[Request, ...]:
    """Return requests for workers if both columns hold plain numbers; else the requests as they are."""
    if not plain(a.kind, b.kind):
        return tuple(asked)
    of = PairStatistic(kind, a.sql, b.sql, options)
    return tuple(OfPairs(one, of, place) for place, one in enumerate(asked))


def plain(a: str, b: str) -> bool:
    """Return whether two kinds of numbers are compared in workers as Spark compares them.

    A float and an integer are not: whether Spark compares them as floats or as doubles depends on its
    ANSI mode.

    Examples
    --------
    >>> plain("long", "double"), plain("float", "double"), plain("float", "long")
    (True, True, False)
    """
    kinds = {a, b}
    return kinds <= INTEGRAL | FLOATING and not ("float" in kinds and bool(kinds & INTEGRAL))
