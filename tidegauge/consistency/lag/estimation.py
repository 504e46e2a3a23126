"""Lag estimation: compare the log with backfills at many candidate lags."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    PreconditionError,
    SourceError,
    SuiteError,
    UnknownNameError,
)
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.jobs import PLAIN_BUFFERS
from tidegauge.analyzers.scan.views import Views
from tidegauge.consistency.backfill import TIME, TableBackfill, logged_keys
from tidegauge.consistency.compare.alignment import AlignedPart, Alignment, require_comparable
from tidegauge.consistency.compare.equality import EXACTLY, OWN, Tolerance, same
from tidegauge.consistency.compare.inputs import ComparisonInputs
from tidegauge.consistency.compare.join import Layout
from tidegauge.consistency.configuration import Configuration, GroupBy
from tidegauge.consistency.lag.bootstrap import LagCounts
from tidegauge.consistency.lag.estimates import LagEstimate, LagEstimates
from tidegauge.consistency.log.sampling import bucket_sql
from tidegauge.consistency.pipeline import flattened_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_LAGS = 500
"""Most lags in a grid; each adds one backfill request per query."""
GROUPS = 64
"""Groups of keys that are counted separately, for the bootstrap."""
_LAG, _GROUP = f"{OWN}lag", f"{OWN}group"


def estimate_lag(
    spark: SparkSession,
    configuration: Configuration,
    *,
    until: str | None = None,
    since: str | None = None,
    longest_ms: int = 2 * 3_600_000,
    step_ms: int = 300_000,
    rows: int = 20_000,
    seed: int = 0,
    group_bys: Collection[str] | None = None,
) -> LagEstimates:
    """Estimate the write lag of each group-by; see `tidegauge.consistency.estimate_lag`.

    Each backfill is queried once for the features at all candidate lags before each logged query.
    The estimate is the lag at which the fewest logged values differ; see `LagEstimate.from_counts`. Values
    differ as in a run. A logged row without a backfill counts as a backfill of nulls, so at every
    lag the same values are compared; among several rows of one key and time, the first of each side
    counts.
    """
    grid = lag_grid(longest_ms, step_ms)
    if rows < 1:
        raise SuiteError(f"rows is {rows}; at least one query has to be compared")
    wanted, left_out = shiftable(configuration, group_bys)
    now = {name: _configured(configuration, name).lag_ms for name in wanted}
    lags = tuple(sorted({*grid, *now.values()}))
    flattened, days = flattened_days(spark, configuration, until, since)
    views = Views(spark)
    some = _unlagged(configuration, wanted)
    try:
        sides = _Shifted(spark, some, flattened, views, tuple(days), lags, rows)
        if not days or not sides.queries:
            raise SourceError(f"no queries of {configuration.dataset} are logged in these days")
        counts: dict[str, LagCounts] = {}
        taken = 0
        for part in sides.parts:
            taken, found = _counted(sides, part)
            counts |= found
    finally:
        views.drop()
    estimates = {
        name: LagEstimate.from_counts(
            name, counts[name], step_ms=step_ms, now_ms=now[name], seed=seed
        )
        for name in wanted
    }
    queries = (taken, sides.queries)
    return LagEstimates(configuration.dataset, tuple(days), *queries, estimates, left_out)


def lag_grid(longest_ms: int, step_ms: int) -> tuple[int, ...]:
    """Return the candidate lags, from 0.

    Raises
    ------
    SuiteError
        If there are no lags, or too many.

    Examples
    --------
    >>> lag_grid(60_000, 25_000)
    (0, 25000, 50000)
    """
    if step_ms < 1 or longest_ms < step_ms:
        msg = (
            f"lags up to {longest_ms} ms in steps of {step_ms} ms are none; a step is 1 ms or more"
        )
        raise SuiteError(f"{msg}, and not longer than the longest lag")
    lags = range(0, longest_ms + 1, step_ms)
    if len(lags) > MOST_LAGS:
        msg = f"lags up to {longest_ms} ms in steps of {step_ms} ms are {len(lags):,}"
        raise SuiteError(f"{msg}, and at most {MOST_LAGS} are tried; make the step longer")
    return tuple(lags)


def shiftable(
    configuration: Configuration, group_bys: Collection[str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the group-bys whose backfill can be shifted in time, and those with a table.

    Raises
    ------
    SuiteError
        If a named group-by has a table as backfill, or all do.

    Examples
    --------
    >>> from tidegauge.consistency.backfill import QueryBackfill
    >>> both = {"a": GroupBy(("x",)), "b": GroupBy(("y",), 0, TableBackfill("offline"))}
    >>> query = QueryBackfill("SELECT user, ts, 1 AS x FROM logged_keys")
    >>> shiftable(Configuration("shop", "search", ("user",), query, both))
    (('a',), ('b',))
    """
    known = tuple(configuration.group_bys) or (configuration.whole,)
    for name in group_bys or ():
        if name not in known:
            raise UnknownNameError("group-by", name, known)
    asked = known if group_bys is None else tuple(name for name in known if name in group_bys)
    tables = [n for n in asked if isinstance(configuration.backfill_of(n), TableBackfill)]
    if asked and tables and (group_bys is not None or len(tables) == len(asked)):
        backfill = configuration.backfill_of(tables[0])
        raise SuiteError(
            f"the backfill of {tables[0]!r} is {backfill}, computed already: to estimate a lag it needs a"
            " query over logged_keys, or a callable"
        )
    if not asked:
        raise SuiteError("name one group-by or more whose lag is to be estimated")
    return tuple(name for name in asked if name not in tables), tuple(tables)


def _configured(configuration: Configuration, group_by: str) -> GroupBy:
    """Return the configured group-by; an empty one if none are named."""
    return configuration.group_bys.get(group_by, GroupBy(()))


def _unlagged(configuration: Configuration, wanted: Sequence[str]) -> Configuration:
    """Return the configuration of the given group-bys, without lags."""
    if not configuration.group_bys:
        return configuration
    some = {name: replace(configuration.group_bys[name], lag_ms=0) for name in wanted}
    features = {name for one in some.values() for name in one.features}
    return replace(
        configuration,
        group_bys=some,
        tolerance={k: v for k, v in configuration.tolerance.items() if k in features},
        logged_as={k: v for k, v in configuration.logged_as.items() if k in features},
    )


@dataclass(frozen=True)
class _Shifted(ComparisonInputs):
    """Both sides, with backfills queried at all candidate lags before each query.

    Attributes
    ----------
    lags : tuple of int
        Candidate lags in milliseconds.
    rows : int
        Approximate upper limit of queries.
    """

    lags: tuple[int, ...]
    rows: int

    @cached_property
    def queries(self) -> int:
        """Number of logged queries."""
        return int(self.chosen.count())

    @cached_property
    def sampled(self) -> DataFrame:
        """The logged rows of as many buckets of keys as fit into the limit, at least one."""
        if self.queries <= self.rows:
            return self.chosen
        bucket = bucket_sql(Schema.from_frame(self.chosen), self.configuration.keys)
        counts = self.chosen.selectExpr(f"{bucket} AS bucket").groupBy("bucket").count().collect()
        last, total = -1, 0
        for number, count in sorted(map(tuple, counts)):
            total += count
            if last >= 0 and total > self.rows:
                break
            last = number
        return self.chosen.where(f"{bucket} <= {last}")

    def backfill_pairs(self, lag_ms: int = 0) -> DataFrame:
        """Return the (key, timestamp) pairs to backfill."""
        keys = self.configuration.keys
        rows = self.at_all_lags(self.sampled.select(*map(quote, (*keys, TIME))))
        moved = rows.selectExpr(*map(quote, keys), f"{before(TIME)} AS {TIME}")
        return logged_keys(moved, keys, lag_ms)

    def at_all_lags(self, rows: DataFrame) -> DataFrame:
        """Return the cross product of rows and lags."""
        lags = ", ".join(f"{lag}L" for lag in self.lags)
        return rows.selectExpr("*", f"explode(array({lags})) AS {_LAG}")


def before(time: str) -> str:
    """Return SQL for a time shifted back by the row's lag."""
    return f"timestampadd(MILLISECOND, -{_LAG}, {time})"


def _counted(sides: _Shifted, part: AlignedPart) -> tuple[int, dict[str, LagCounts]]:
    """Return the number of compared rows, and the counts of each group-by of a backfill."""
    of = {name: group_by for group_by, some in part.group_bys.items() for name in some}
    if not of:
        raise PreconditionError("the log and the backfill have no feature in common")
    names = list(part.group_bys)
    unlike = _unlike(sides, part)
    if len(part.features) > PLAIN_BUFFERS:
        unlike = sides.views.cached(unlike)
    found: dict[tuple[int, int], list[int]] = {}
    for at in range(0, len(part.features), PLAIN_BUFFERS):
        some: dict[str, list[str]] = {}
        for i, name in enumerate(part.features[at : at + PLAIN_BUFFERS], at):
            some.setdefault(of[name], []).append(f"count_if({OWN}u{i})")
        texts = [
            "count(1)",
            f"count_if({OWN}there)",
            *(" + ".join(some.get(n, ["0"])) for n in names),
        ]
        for lag, group, rows, there, *sums in _aggregated(unlike, texts):
            known = found.setdefault((lag, group), [rows, there, *[0] * len(names)])
            known[2:] = [a + b for a, b in zip(known[2:], sums, strict=True)]
    return _as_counts(sides.lags, found, part.group_bys)


def _aggregated(rows: DataFrame, texts: Sequence[str]) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    cells = [F.expr(text).alias(f"{OWN}c{i}") for i, text in enumerate(texts)]
    return [tuple(row) for row in rows.groupBy(_LAG, _GROUP).agg(*cells).collect()]


def _as_counts(
    lags: tuple[int, ...],
    found: Mapping[tuple[int, int], Sequence[int]],
    group_bys: Mapping[str, Sequence[str]],
) -> tuple[int, dict[str, LagCounts]]:
    import numpy as np

    groups = sorted({group for _, group in found})
    cells = np.array([[found[lag, group] for lag in lags] for group in groups], dtype=np.int64)
    rows, there = cells[:, 0, 0], tuple(cells[:, :, 1].sum(axis=0).tolist())
    counts = {
        name: LagCounts(lags, rows * len(features), cells[:, :, 2 + i], there)
        for i, (name, features) in enumerate(group_bys.items())
    }
    return int(rows.sum()), counts


def _unlike(sides: _Shifted, part: AlignedPart) -> DataFrame:
    """Return, for each logged row and lag, flags of the features that differ from the backfill."""
    from pyspark.sql import functions as F

    conf, features = sides.configuration, part.features
    schemas = [Schema.from_frame(sides.sampled), Schema.from_frame(part.data)]
    pairs = Alignment(conf.keys, features, TIME, (), None, conf.logged_as)
    require_comparable(pairs, schemas[0], schemas[1:], [part])
    layout = Layout(schemas, pairs)
    logged = layout.logged(sides.sampled, [features]).where(f"{OWN}a0n = 1")
    keys = [f"{OWN}k.k{i}" for i in range(len(conf.keys))]
    time = before(f"{OWN}k.k{len(keys)}")
    parts = ", ".join(f"'k{i}', {sql}" for i, sql in enumerate([*keys, time]))
    moved = sides.at_all_lags(logged).selectExpr(
        _LAG,
        f"pmod(xxhash64({', '.join(keys)}), {GROUPS}) AS {_GROUP}",
        f"named_struct({parts}) AS {OWN}k",
        *(f"{OWN}a0v{i}" for i in range(len(features))),
    )
    found = layout.backfilled(part.data, 0, features).where(f"{OWN}b0n = 1")
    joined = moved.join(found, F.expr(f"{OWN}k = {OWN}b0k"), "left_outer")
    return joined.selectExpr(
        _LAG,
        _GROUP,
        f"{OWN}b0k IS NOT NULL AS {OWN}there",
        *(
            f"NOT {_same(i, *_types(schemas, pairs, name), conf.tolerance.get(name, EXACTLY))} AS {OWN}u{i}"
            for i, name in enumerate(features)
        ),
    )


def _types(schemas: Sequence[Schema], pairs: Alignment, feature: str) -> tuple[Field, Field]:
    return schemas[0].field(quote(pairs.in_log(feature))), schemas[1].field(quote(feature))


def _same(i: int, a: Field, b: Field, tolerance: Tolerance) -> str:
    return same(f"{OWN}a0v{i}", f"{OWN}b0v{i}", (a.type, b.type), tolerance)
