"""Estimation of the write lag at which logged and backfilled features are most consistent.

The log is compared with backfills at many candidate lags. The estimate is the lag with the fewest
differences. It has a bootstrap interval, significance tests and a curve.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    PreconditionError,
    SourceError,
    SuiteError,
    UnknownNameError,
)
from tidegauge.analyzers.core.formatting import Markup, number, plain, plural
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.jobs import TARGET_BUFFERS
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.consistency.compare.equality import NO_TOLERANCE, RESERVED_PREFIX, Tolerance, same
from tidegauge.consistency.compare.join import AlignedPart, Alignment, Layout, require_comparable
from tidegauge.consistency.configuration import (
    TIME_COLUMN,
    Configuration,
    GroupBy,
    TableBackfill,
    logged_keys,
)
from tidegauge.consistency.log.query import bucket_sql
from tidegauge.consistency.pipeline import ComparisonInputs, flattened_days
from tidegauge.display.html import Rows, card, heading, note, table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    Counts = npt.NDArray[np.int64]

BOOTSTRAP_DRAWS = 400
MIN_KEY_GROUPS = 5
"""Fewer groups of keys agree by chance more often than `SIGNIFICANCE_LEVEL`."""
SIGNIFICANCE_LEVEL = 0.05
"""The conventional level."""
_TAIL_PROBABILITY = 0.05
"""Probability in each tail of the 90% interval."""
_ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True)
class LagCounts:
    """Counts of one group-by at each shift, over the same rows.

    Attributes
    ----------
    lags : tuple of int
        The shifts in milliseconds, ascending from 0.
    compared : array of int
        Number of compared values in each group of keys; positive.
    unequal : array of int
        Number of unequal values, by group of keys (rows) and shift (columns).
    matched : tuple of int
        Number of rows with a backfill, by shift.
    """

    lags: tuple[int, ...]
    compared: Counts
    unequal: Counts
    matched: tuple[int, ...]


@dataclass(frozen=True)
class BestShift:
    """The shift with the fewest differences, with its interval and significance.

    Attributes
    ----------
    at : int
        Index of the shift in the grid; the middle index for ties.
    low, high : int
        Index bounds of the 90% bootstrap interval.
    p_value : float
        Probability that a shift fits at least this much better than no shift by chance.
    p_worse : float
        Probability that a shift fits at least this much worse than no shift by chance.
    """

    at: int
    low: int
    high: int
    p_value: float
    p_worse: float


def best_shift(counts: LagCounts, seed: int = 0) -> BestShift:
    """Return the shift with the fewest differences, its bootstrap interval, and p-values.

    Groups of keys are resampled instead of queries, because queries with the same key differ together.
    Among equally good shifts the lower bound uses the first and the upper bound the last. The p-values
    come from a sign-flip test on the differences of each group of keys. The largest standardized effect
    over all shifts is compared with the largest effect under random signs, which corrects for the number
    of shifts.

    Parameters
    ----------
    counts : LagCounts
        Counts of at least one group of keys.
    seed : int
        Random seed of the bootstrap and the test.

    Examples
    --------
    >>> import numpy as np
    >>> unequal = np.array([[9, 4, 0, 3]] * 8)
    >>> found = best_shift(LagCounts((0, 60, 120, 180), np.full(8, 20), unequal, (80, 80, 80, 80)))
    >>> found.at, found.low, found.high, found.p_value < SIGNIFICANCE_LEVEL
    (2, 2, 2, True)
    """
    import numpy as np

    # Total differences, and the best shifts.
    random = np.random.default_rng(seed)
    groups = len(counts.compared)
    total = counts.unequal.sum(axis=0)
    (tied,) = np.nonzero(total == total.min())
    # Bootstrap: the first and the last best shift of each resample.
    drawn = random.multinomial(groups, [1 / groups] * groups, size=BOOTSTRAP_DRAWS) @ counts.unequal
    is_best = drawn == drawn.min(axis=1, keepdims=True)
    first, last = is_best.argmax(axis=1), is_best.shape[1] - 1 - is_best[:, ::-1].argmax(axis=1)
    index = int(tied[(len(tied) - 1) // 2])
    low = int(np.quantile(first, _TAIL_PROBABILITY, method="lower"))
    high = int(np.quantile(last, 1 - _TAIL_PROBABILITY, method="higher"))
    # Sign-flip test of the standardized improvement over no shift.
    better = counts.unequal[:, :1] - counts.unequal
    size = np.sqrt((better.astype(float) ** 2).sum(axis=0))
    size[size == 0] = 1  # no difference from the unshifted count is no effect
    signs = random.choice([-1, 1], size=(BOOTSTRAP_DRAWS, groups))
    random_effects = ((signs @ better) / size).max(axis=1)
    observed = better.sum(axis=0) / size
    # The observed signs are also a possible draw, so use 1 + n; no p-value is 0.
    exceeding = [
        int((random_effects >= effect - _ROUNDING_TOLERANCE).sum())
        for effect in (observed.max(), -observed.min())
    ]
    return BestShift(
        index,
        min(low, index),
        max(high, index),
        *((1 + n) / (1 + BOOTSTRAP_DRAWS) for n in exceeding),
    )


_DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


@dataclass(frozen=True)
class LagPoint:
    """Comparison counts at one lag.

    Attributes
    ----------
    lag_ms : int
        The lag: features are from this time before each query.
    compared : int
        Number of compared feature values; the same at every lag.
    unequal : int
        Number of values that differ or exist on one side only.
    matched : int
        Number of logged rows with a backfill. Rows without a backfill count as nulls.
    """

    lag_ms: int
    compared: int
    unequal: int
    matched: int

    @property
    def share(self) -> float:
        """The share of unequal values."""
        return self.unequal / self.compared


@dataclass(frozen=True)
class LagEstimate:
    """Estimated write lag of a group-by.

    Attributes
    ----------
    group_by : str
        Name of the group-by.
    lag_ms : int or None
        The lag with the best consistency; None if the data is inconclusive.
    low_ms, high_ms : int or None
        Bounds of the 90% confidence interval. ``high_ms`` is None if the lag may be longer than the
        longest candidate.
    step_ms : int
        Step between the candidate lags.
    now_ms : int
        The configured lag.
    share_now : float
        Share of unequal values at the configured lag.
    share_best : float or None
        Share of unequal values at the estimate; None without an estimate.
    p_value : float
        Probability that a lag fits at least this much better than no lag by chance.
    note : str
        Reason for a missing estimate, or a caveat; otherwise empty.
    curve : tuple of LagPoint
        The counts at all candidate lags.

    Examples
    --------
    Eight samples have 20 queries each. In each, 9 differ without a lag, 4 at 60 ms, 0 at 120 ms and 3 at 180 ms:

    >>> import numpy as np
    >>> unequal = np.array([[9, 4, 0, 3]] * 8)
    >>> counts = LagCounts((0, 60, 120, 180), np.full(8, 20), unequal, (80, 80, 80, 80))
    >>> found = LagEstimate.from_counts("clicks", counts, step_ms=60)
    >>> found.lag_ms, found.share_now, found.share_best
    (120, 0.45, 0.0)
    """

    group_by: str
    lag_ms: int | None
    low_ms: int
    high_ms: int | None
    step_ms: int
    now_ms: int
    share_now: float
    share_best: float | None
    p_value: float
    note: str
    curve: tuple[LagPoint, ...]

    @classmethod
    def from_counts(
        cls, group_by: str, counts: LagCounts, *, step_ms: int, now_ms: int = 0, seed: int = 0
    ) -> LagEstimate:
        """Estimate the lag from counts of shifted comparisons.

        The estimate is the lag with the smallest share of unequal values. For ties, such as a time without
        writes, it is the middle lag, which minimizes the maximum error. Lags that differ only by chance
        widen the interval but do not change the estimate: curves rise at different rates on both sides,
        so the middle of all nearly optimal lags is not a better guess than the best lag.

        The data shows nothing about lags between two candidates. The interval therefore extends one lag beyond the
        bootstrap bounds on each side, and is at least one step wide.

        If no lag is significantly better than no lag at all, the estimate is 0 if the interval contains 0
        and other lags are significantly worse. Otherwise the curve is too flat, or there are too few keys,
        and the estimate is None.

        Parameters
        ----------
        group_by : str
            Name of the group-by.
        counts : LagCounts
            Counts at all candidate lags.
        step_ms : int
            Step between the candidate lags.
        now_ms : int
            The configured lag, which must be a candidate.
        seed : int
            Random seed of the bootstrap.

        Examples
        --------
        >>> import numpy as np
        >>> unequal = np.array([[9, 4, 0, 3]] * 8)
        >>> counts = LagCounts((0, 60, 120, 180), np.full(8, 20), unequal, (80, 80, 80, 80))
        >>> found = LagEstimate.from_counts("clicks", counts, step_ms=60)
        >>> found.lag_ms, found.low_ms, found.high_ms, found.share_now, found.share_best
        (120, 60, 180, 0.45, 0.0)
        """
        lags, compared = counts.lags, int(counts.compared.sum())
        total = counts.unequal.sum(axis=0).tolist()
        curve = tuple(
            LagPoint(lag, compared, unequal, matched)
            for lag, unequal, matched in zip(lags, total, counts.matched, strict=True)
        )
        shift = best_shift(counts, seed)
        low = lags[max(0, shift.low - 1)]
        high = lags[shift.high + 1] if shift.high + 1 < len(lags) else None
        index: int | None = shift.at
        reason = ""
        if not any(counts.matched):
            index, reason = None, "the backfill has none of the logged keys and times"
        elif len(counts.compared) < MIN_KEY_GROUPS:
            index, low, high = None, 0, None
            reason = f"fewer than {MIN_KEY_GROUPS} groups of keys are not enough to distinguish a lag from chance"
        elif shift.p_value > SIGNIFICANCE_LEVEL:
            index, reason = _estimate_without_effect(low, high, shift)
        elif high is None:
            longest = format_duration(lags[-1])
            reason = f"the lag may be longer than {longest}, the longest candidate; try longer lags"
        shares = {point.lag_ms: point.share for point in curve}
        return cls(
            group_by, None if index is None else lags[index], low, high, step_ms, now_ms, shares[now_ms],
            None if index is None else curve[index].share, shift.p_value, reason, curve,
        )  # fmt: skip

    def __str__(self) -> str:
        """Return a one-line summary."""
        now = f"{_percent(self.share_now)} with the current lag {format_duration(self.now_ms)}"
        if self.lag_ms is None or self.share_best is None:
            return f"{plain(self.group_by)}: no estimate, {self.note}; unequal values: {now}"
        summary = f"{plain(self.group_by)}: {format_duration(self.lag_ms)} ({self.interval})"
        summary = f"{summary}; unequal values: {_percent(self.share_best)}, and {now}"
        return f"{summary}; {self.note}" if self.note else summary

    @property
    def interval(self) -> str:
        """The confidence interval as a string."""
        if self.high_ms is None:
            return f"{format_duration(self.low_ms)} or more"
        return f"{format_duration(self.low_ms)} to {format_duration(self.high_ms)}"


def _estimate_without_effect(
    low: int, high: int | None, shift: BestShift
) -> tuple[int | None, str]:
    """Return the index of the estimate and a note, if no lag is significantly better than no lag at all."""
    if low == 0 and high is not None and shift.p_worse <= SIGNIFICANCE_LEVEL:
        return 0, "no lag improves the consistency"
    chance = f"chance alone has the same effect in {_percent(shift.p_value)} of cases"
    if low == 0:
        return None, f"all lags are about as consistent as no lag: {chance}"
    return None, f"some lags look better than no lag, but {chance}; use more keys"


@dataclass(frozen=True, repr=False)
class LagEstimates(Mapping[str, LagEstimate]):
    """Lag estimates of group-bys, by name.

    Attributes
    ----------
    dataset : str
        Dataset of the join.
    days : tuple of str
        Days of the log.
    queries : int
        Number of compared queries.
    of_queries : int
        Number of logged queries. If it exceeds ``queries``, keys were sampled.
    estimates : mapping of str to LagEstimate
        The estimates by group-by.
    left_out : tuple of str
        Group-bys without an estimate because their backfill is a table.

    Examples
    --------
    >>> import numpy as np
    >>> unequal = np.array([[9, 4, 0, 3]] * 8)
    >>> counts = LagCounts((0, 60, 120, 180), np.full(8, 20), unequal, (80, 80, 80, 80))
    >>> one = LagEstimate.from_counts("clicks", counts, step_ms=60)
    >>> found = LagEstimates("shop.search", ("2023-01-05",), 80, 80, {"clicks": one})
    >>> print(found)
    shop.search: 80 of 80 queries of 1 day, lags from 0 to 180 ms
    clicks: 120 ms (60 ms to 180 ms); unequal values: 0%, and 45% with the current lag 0
    >>> found.settings()
    {'clicks': {'lag_ms': 120}}
    """

    dataset: str
    days: tuple[str, ...]
    queries: int
    of_queries: int
    estimates: Mapping[str, LagEstimate]
    left_out: tuple[str, ...] = ()

    def __getitem__(self, group_by: str) -> LagEstimate:
        """Return the estimate of a group-by.

        Raises
        ------
        UnknownNameError
            If the group-by has no estimate; the message suggests the nearest name.
        """
        if group_by not in self.estimates:
            raise UnknownNameError("group-by", group_by, self.estimates)
        return self.estimates[group_by]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def settings(self) -> dict[str, dict[str, int]]:
        """Return the ``group_bys`` settings of a configuration for all group-bys with an estimate.

        A group-by whose lag may be longer than the longest candidate has no setting. Lags are set for named
        group-bys; if the configuration names none, list them there first.
        """
        return {
            name: {"lag_ms": estimate.lag_ms}
            for name, estimate in self.items()
            if estimate.lag_ms is not None and estimate.high_ms is not None
        }

    def frame(self) -> pd.DataFrame:
        """Return the estimates as a frame, one row per group-by.

        Returns
        -------
        pandas.DataFrame
            The attributes of `LagEstimate` except the curve. Lags are nullable integers (``NA``).

        Examples
        --------
        >>> import numpy as np
        >>> counts = LagCounts((0, 60), np.full(8, 20), np.array([[9, 0]] * 8), (80, 80))
        >>> one = LagEstimate.from_counts("clicks", counts, step_ms=60)
        >>> found = LagEstimates("shop.search", ("2023-01-05",), 80, 80, {"clicks": one})
        >>> found.frame()[["group_by", "now_ms", "share_now"]].to_numpy().tolist()
        [['clicks', 0, 0.45]]
        """
        import pandas as pd

        names = [
            "group_by", "lag_ms", "low_ms", "high_ms", "step_ms", "now_ms",
            "share_now", "share_best", "p_value", "note",
        ]  # fmt: skip
        rows = [[getattr(estimate, name) for name in names] for estimate in self.values()]
        types = {name: "Int64" for name in names if name.endswith("_ms")}
        return pd.DataFrame(rows, columns=names).astype(types | {"share_best": float})

    def curve(self) -> pd.DataFrame:
        """Return all curves as a frame, one row per group-by and lag.

        Returns
        -------
        pandas.DataFrame
            ``group_by``, ``lag_ms``, ``compared``, ``unequal``, ``share``, ``matched``; see `LagPoint`.

        Examples
        --------
        >>> import numpy as np
        >>> counts = LagCounts((0, 60), np.full(8, 20), np.array([[9, 0]] * 8), (80, 80))
        >>> one = LagEstimate.from_counts("clicks", counts, step_ms=60)
        >>> found = LagEstimates("shop.search", ("2023-01-05",), 80, 80, {"clicks": one})
        >>> found.curve()[["lag_ms", "share"]].to_numpy().tolist()
        [[0.0, 0.45], [60.0, 0.0]]
        """
        import pandas as pd

        rows = [
            (name, point.lag_ms, point.compared, point.unequal, point.share, point.matched)
            for name, estimate in self.items()
            for point in estimate.curve
        ]
        names = ["group_by", "lag_ms", "compared", "unequal", "share", "matched"]
        return pd.DataFrame(rows, columns=names)

    def __str__(self) -> str:
        """Return a summary with one line per group-by."""
        return "\n".join(
            [f"{plain(self.dataset)}: {self._tried}", *map(str, self.values()), *self._skipped]
        )

    def __repr__(self) -> str:
        """Return a short summary of the size."""
        return f"<LagEstimates of {len(self)} group-bys of {plain(self.dataset)}>"

    @property
    def _tried(self) -> str:
        tried = next(iter(self.values())).curve
        lags = (
            f"lags from {format_duration(tried[0].lag_ms)} to {format_duration(tried[-1].lag_ms)}"
        )
        return f"{self.queries:,} of {plural(self.of_queries, 'query', 'queries')} of {plural(len(self.days), 'day')}, {lags}"

    @property
    def _skipped(self) -> list[str]:
        return [f"{plain(name)}: skipped because its backfill is a table" for name in self.left_out]

    def _repr_html_(self) -> str:
        """Return a small table for notebooks, with all text escaped."""
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Write lag estimates of"), self.dataset)
        yield note(self._tried)
        rows = [
            (
                estimate.group_by,
                "" if estimate.lag_ms is None else format_duration(estimate.lag_ms),
                estimate.interval,
                None if estimate.share_best is None else _percent(estimate.share_best),
                format_duration(estimate.now_ms),
                _percent(estimate.share_now),
                estimate.note,
            )
            for estimate in self.values()
        ]
        names = [
            "group-by",
            "lag",
            "90% interval",
            "unequal",
            "configured",
            "unequal (configured)",
            "note",
        ]
        yield table(names, Rows.first_of(rows, max_rows), width)
        for skipped in self._skipped[:max_rows]:
            yield note(skipped)


def _percent(share: float) -> str:
    return f"{number(100 * share)}%"


def format_duration(millis: int) -> str:
    """Format a duration in milliseconds for display.

    Examples
    --------
    >>> format_duration(2_700_000), format_duration(100_000), format_duration(5_400_250), format_duration(0)
    ('45 min', '1 min 40 s', '1 h 30 min 250 ms', '0')
    """
    terms = []
    for size, unit in _DURATION_UNITS:
        count, millis = divmod(millis, size)
        if count:
            terms.append(f"{count} {unit}")
    return " ".join(terms) or "0"


MAX_LAGS = 500
"""Each candidate lag adds one backfill request for each query."""
KEY_GROUPS = 64
"""Groups of keys that are counted separately for the bootstrap."""
_LAG_COLUMN, _GROUP_COLUMN = f"{RESERVED_PREFIX}lag", f"{RESERVED_PREFIX}group"


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

    Each backfill is queried once for the features at all candidate lags before each logged query. The
    estimate is the lag with the fewest differing values; see `LagEstimate.from_counts`. Values are compared
    as in a run. A logged row without a backfill counts as a backfill of nulls, so the same values are
    compared at every lag. Among several rows with the same key and time, the first of each side counts.
    """
    grid = lag_grid(longest_ms, step_ms)
    if rows < 1:
        raise SuiteError(f"rows is {rows}; it must be at least 1")
    names, left_out = shiftable(configuration, group_bys)
    now = {name: _configured(configuration, name).lag_ms for name in names}
    lags = tuple(sorted({*grid, *now.values()}))
    flattened, days = flattened_days(spark, configuration, until, since)
    views = Views(spark)
    lagless = _without_lags(configuration, names)
    try:
        sides = _Shifted(spark, lagless, flattened, views, tuple(days), lags, rows)
        if not days or not sides.queries:
            raise SourceError(f"{configuration.dataset} has no logged queries in these days")
        counts: dict[str, LagCounts] = {}
        compared = 0
        for part in sides.parts:
            compared, part_counts = _count_differences(sides, part)
            counts |= part_counts
    finally:
        views.drop()
    estimates = {
        name: LagEstimate.from_counts(
            name, counts[name], step_ms=step_ms, now_ms=now[name], seed=seed
        )
        for name in names
    }
    queries = (compared, sides.queries)
    return LagEstimates(configuration.dataset, tuple(days), *queries, estimates, left_out)


def lag_grid(longest_ms: int, step_ms: int) -> tuple[int, ...]:
    """Return the candidate lags, starting at 0.

    Raises
    ------
    SuiteError
        If the arguments give no lags or too many.

    Examples
    --------
    >>> lag_grid(60_000, 25_000)
    (0, 25000, 50000)
    """
    if step_ms < 1 or longest_ms < step_ms:
        msg = f"no lags are possible up to {longest_ms} ms in steps of {step_ms} ms; a step must be 1 ms or more"
        raise SuiteError(f"{msg} and not exceed the longest lag")
    lags = range(0, longest_ms + 1, step_ms)
    if len(lags) > MAX_LAGS:
        msg = f"lags up to {longest_ms} ms in steps of {step_ms} ms are {len(lags):,} lags"
        raise SuiteError(f"{msg}, but at most {MAX_LAGS} are possible; use a longer step")
    return tuple(lags)


def shiftable(
    configuration: Configuration, group_bys: Collection[str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the group-bys whose backfill can be shifted in time, and the group-bys with a table.

    Raises
    ------
    SuiteError
        If a named group-by or all group-bys have a table as backfill.

    Examples
    --------
    >>> from tidegauge.consistency.configuration import QueryBackfill
    >>> both = {"a": GroupBy(("x",)), "b": GroupBy(("y",), 0, TableBackfill("offline"))}
    >>> query = QueryBackfill("SELECT user, ts, 1 AS x FROM logged_keys")
    >>> shiftable(Configuration("shop", "search", ("user",), query, both))
    (('a',), ('b',))
    """
    all_names = tuple(configuration.group_bys) or (configuration.all_features_name,)
    for name in group_bys or ():
        if name not in all_names:
            raise UnknownNameError("group-by", name, all_names)
    names = (
        all_names if group_bys is None else tuple(name for name in all_names if name in group_bys)
    )
    tables = [n for n in names if isinstance(configuration.backfill_of(n), TableBackfill)]
    if names and tables and (group_bys is not None or len(tables) == len(names)):
        backfill = configuration.backfill_of(tables[0])
        raise SuiteError(
            f"the backfill of {tables[0]!r} is {backfill}, which is already computed; to estimate a lag, use"
            " a query over logged_keys or a callable"
        )
    if not names:
        raise SuiteError("group_bys is empty; name at least one group-by")
    return tuple(name for name in names if name not in tables), tuple(tables)


def _configured(configuration: Configuration, group_by: str) -> GroupBy:
    """Return the configured group-by, or an empty group-by if none are named."""
    return configuration.group_bys.get(group_by, GroupBy(()))


def _without_lags(configuration: Configuration, names: Sequence[str]) -> Configuration:
    """Return the configuration of the given group-bys, without lags."""
    if not configuration.group_bys:
        return configuration
    group_bys = {name: replace(configuration.group_bys[name], lag_ms=0) for name in names}
    features = {name for group_by in group_bys.values() for name in group_by.features}
    return replace(
        configuration,
        group_bys=group_bys,
        tolerance={k: v for k, v in configuration.tolerance.items() if k in features},
        logged_as={k: v for k, v in configuration.logged_as.items() if k in features},
    )


@dataclass(frozen=True)
class _Shifted(ComparisonInputs):
    """Both sides, with backfills at all candidate lags before each query.

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
        """The logged rows of the first buckets of keys that fit into the limit; at least one bucket."""
        if self.queries <= self.rows:
            return self.chosen
        bucket = bucket_sql(Schema.from_frame(self.chosen), self.configuration.keys)
        counts = self.chosen.selectExpr(f"{bucket} AS bucket").groupBy("bucket").count().collect()
        last, total = -1, 0
        for bucket_number, count in sorted(map(tuple, counts)):
            total += count
            if last >= 0 and total > self.rows:
                break
            last = bucket_number
        return self.chosen.where(f"{bucket} <= {last}")

    def backfill_pairs(self, lag_ms: int = 0) -> DataFrame:
        """Return the (key, timestamp) pairs to backfill at all lags."""
        keys = self.configuration.keys
        rows = self.at_all_lags(self.sampled.select(*map(quote, (*keys, TIME_COLUMN))))
        moved = rows.selectExpr(
            *map(quote, keys), f"{shifted_by_lag(TIME_COLUMN)} AS {TIME_COLUMN}"
        )
        return logged_keys(moved, keys, lag_ms)

    def at_all_lags(self, rows: DataFrame) -> DataFrame:
        """Return the cross product of rows and lags."""
        lags = ", ".join(f"{lag}L" for lag in self.lags)
        return rows.selectExpr("*", f"explode(array({lags})) AS {_LAG_COLUMN}")


def shifted_by_lag(time: str) -> str:
    """Return SQL for a time shifted back by the row's lag."""
    return f"timestampadd(MILLISECOND, -{_LAG_COLUMN}, {time})"


def _count_differences(sides: _Shifted, part: AlignedPart) -> tuple[int, dict[str, LagCounts]]:
    """Return the number of compared rows and the counts of each group-by of a backfill."""
    group_by_of = {
        name: group_by for group_by, features in part.group_bys.items() for name in features
    }
    if not group_by_of:
        raise PreconditionError("the log and the backfill have no feature in common")
    names = list(part.group_bys)
    unlike = _difference_flags(sides, part)
    if len(part.features) > TARGET_BUFFERS:
        unlike = sides.views.cached(unlike)
    counts: dict[tuple[int, int], list[int]] = {}
    for start in range(0, len(part.features), TARGET_BUFFERS):
        features: dict[str, list[str]] = {}
        for i, name in enumerate(part.features[start : start + TARGET_BUFFERS], start):
            features.setdefault(group_by_of[name], []).append(f"count_if({RESERVED_PREFIX}u{i})")
        expressions = [
            "count(1)",
            f"count_if({RESERVED_PREFIX}there)",
            *(" + ".join(features.get(n, ["0"])) for n in names),
        ]
        for lag, group, rows, matched, *sums in _aggregate_counts(unlike, expressions):
            totals = counts.setdefault((lag, group), [rows, matched, *[0] * len(names)])
            totals[2:] = [a + b for a, b in zip(totals[2:], sums, strict=True)]
    return _as_counts(sides.lags, counts, part.group_bys)


def _aggregate_counts(rows: DataFrame, expressions: Sequence[str]) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    cells = [
        F.expr(expression).alias(f"{RESERVED_PREFIX}c{i}")
        for i, expression in enumerate(expressions)
    ]
    return [tuple(row) for row in rows.groupBy(_LAG_COLUMN, _GROUP_COLUMN).agg(*cells).collect()]


def _as_counts(
    lags: tuple[int, ...],
    totals: Mapping[tuple[int, int], Sequence[int]],
    group_bys: Mapping[str, Sequence[str]],
) -> tuple[int, dict[str, LagCounts]]:
    import numpy as np

    groups = sorted({group for _, group in totals})
    cells = np.array([[totals[lag, group] for lag in lags] for group in groups], dtype=np.int64)
    rows, matched = cells[:, 0, 0], tuple(cells[:, :, 1].sum(axis=0).tolist())
    counts = {
        name: LagCounts(lags, rows * len(features), cells[:, :, 2 + i], matched)
        for i, (name, features) in enumerate(group_bys.items())
    }
    return int(rows.sum()), counts


def _difference_flags(sides: _Shifted, part: AlignedPart) -> DataFrame:
    """Return, for each logged row and lag, flags of the features that differ from the backfill."""
    from pyspark.sql import functions as F

    conf, features = sides.configuration, part.features
    schemas = [Schema.from_frame(sides.sampled), Schema.from_frame(part.data)]
    pairs = Alignment(conf.keys, features, TIME_COLUMN, (), None, conf.logged_as)
    require_comparable(pairs, schemas[0], schemas[1:], [part])
    layout = Layout(schemas, pairs)
    logged = layout.logged(sides.sampled, [features]).where(f"{RESERVED_PREFIX}a0n = 1")
    keys = [f"{RESERVED_PREFIX}k.k{i}" for i in range(len(conf.keys))]
    time = shifted_by_lag(f"{RESERVED_PREFIX}k.k{len(keys)}")
    parts = ", ".join(f"'k{i}', {sql}" for i, sql in enumerate([*keys, time]))
    moved = sides.at_all_lags(logged).selectExpr(
        _LAG_COLUMN,
        f"pmod(xxhash64({', '.join(keys)}), {KEY_GROUPS}) AS {_GROUP_COLUMN}",
        f"named_struct({parts}) AS {RESERVED_PREFIX}k",
        *(f"{RESERVED_PREFIX}a0v{i}" for i in range(len(features))),
    )
    backfilled = layout.backfilled(part.data, 0, features).where(f"{RESERVED_PREFIX}b0n = 1")
    joined = moved.join(
        backfilled, F.expr(f"{RESERVED_PREFIX}k = {RESERVED_PREFIX}b0k"), "left_outer"
    )
    return joined.selectExpr(
        _LAG_COLUMN,
        _GROUP_COLUMN,
        f"{RESERVED_PREFIX}b0k IS NOT NULL AS {RESERVED_PREFIX}there",
        *(
            f"NOT {_same_sql(i, *_field_pair(schemas, pairs, name), conf.tolerance.get(name, NO_TOLERANCE))} AS {RESERVED_PREFIX}u{i}"
            for i, name in enumerate(features)
        ),
    )


def _field_pair(schemas: Sequence[Schema], pairs: Alignment, feature: str) -> tuple[Field, Field]:
    return schemas[0].field(quote(pairs.in_log(feature))), schemas[1].field(quote(feature))


def _same_sql(i: int, a: Field, b: Field, tolerance: Tolerance) -> str:
    return same(f"{RESERVED_PREFIX}a0v{i}", f"{RESERVED_PREFIX}b0v{i}", (a.type, b.type), tolerance)
