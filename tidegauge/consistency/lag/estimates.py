"""Lag estimates of group-bys, with confidence intervals and curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import UnknownNameError
from tidegauge.analyzers.core.formatting import Markup, number, plain, plural
from tidegauge.consistency.lag.bootstrap import CHANCE, FEWEST, BestShift, LagCounts, best
from tidegauge.display.html import Rows, card, heading, note, table

if TYPE_CHECKING:
    import pandas as pd

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


@dataclass(frozen=True)
class LagPoint:
    """Comparison counts at one lag.

    Attributes
    ----------
    lag_ms : int
        The lag: features are taken from this long before each query.
    compared : int
        Number of compared feature values; the same at every lag.
    unequal : int
        Number of values that differ or are on one side only.
    matched : int
        Logged rows with a backfill. The others count as rows of nulls.
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
    lag_ms : int or None
        The lag with the best consistency; None if the data are inconclusive.
    low_ms, high_ms : int or None
        Bounds of the 90 % confidence interval; ``high_ms`` is None if the lag may be longer than
        all that were tried.
    step_ms : int
        Step between the lags that were tried.
    now_ms : int
        The configured lag.
    share_now : float
        Share of unequal values at the configured lag.
    share_best : float or None
        Share of unequal values at the estimate; None without an estimate.
    p_value : float
        Probability that some lag fits at least this much better than none by chance.
    note : str
        Reason for a missing estimate, or a caveat; else empty.
    curve : tuple of LagPoint

    Examples
    --------
    Of 20 queries in each of eight samples, 9 differ at no lag, 4 at 60 ms, none at 120 ms, 3 at 180 ms:

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

        The estimate is the lag with the smallest share of unequal values. For ties, as when nothing
        was written for a while, it is the middle one, which minimizes the maximum error. Lags that
        differ only by chance widen the interval and do not move the estimate: curves rise at
        different rates on either side, so the middle of all nearly optimal lags is no better guess
        than the best one.

        Between two tried lags nothing is known, so the interval extends one lag beyond the
        bootstrap bounds on each side, and is at least one step wide.

        If no lag is significantly better than none, the estimate is 0 if the interval contains 0
        and others are significantly worse than none. Otherwise the curve is too flat, or the keys
        are too few, and the estimate is None.

        Parameters
        ----------
        group_by : str
        counts : LagCounts
        step_ms : int
        now_ms : int
            One of the lags.
        seed : int

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
        found = best(counts, seed)
        low = lags[max(0, found.low - 1)]
        high = lags[found.high + 1] if found.high + 1 < len(lags) else None
        at: int | None = found.at
        said = ""
        if not any(counts.matched):
            at, said = None, "the backfill has none of the logged keys and times"
        elif len(counts.compared) < FEWEST:
            at, low, high = None, 0, None
            said = (
                f"fewer than {FEWEST} groups of keys are too few to distinguish a lag from chance"
            )
        elif found.p_value > CHANCE:
            at, said = _without_effect(low, high, found)
        elif high is None:
            longest = format_duration(lags[-1])
            said = (
                f"the lag may be longer than {longest}, the longest that was tried; try longer ones"
            )
        shares = {point.lag_ms: point.share for point in curve}
        return cls(
            group_by, None if at is None else lags[at], low, high, step_ms, now_ms, shares[now_ms],
            None if at is None else curve[at].share, found.p_value, said, curve,
        )  # fmt: skip

    def __str__(self) -> str:
        """Return a one-line summary."""
        now = f"{_percent(self.share_now)} with {format_duration(self.now_ms)}, which is set now"
        if self.lag_ms is None or self.share_best is None:
            return f"{plain(self.group_by)}: no estimate, {self.note}; unequal are {now}"
        told = f"{plain(self.group_by)}: {format_duration(self.lag_ms)} ({self.interval})"
        told = f"{told}; unequal are {_percent(self.share_best)}, and {now}"
        return f"{told}; {self.note}" if self.note else told

    @property
    def interval(self) -> str:
        """The confidence interval as text."""
        if self.high_ms is None:
            return f"{format_duration(self.low_ms)} or more"
        return f"{format_duration(self.low_ms)} to {format_duration(self.high_ms)}"


def _without_effect(low: int, high: int | None, found: BestShift) -> tuple[int | None, str]:
    """Return the index of the estimate and a note, if no lag is significantly better than none."""
    if low == 0 and high is not None and found.p_worse <= CHANCE:
        return 0, "no lag is more consistent than none"
    chance = f"chance alone has the same effect in {_percent(found.p_value)} of cases"
    if low == 0:
        return None, f"all lags are about as consistent as none: {chance}"
    return None, f"some lags look better than none, but {chance}; use more keys"


@dataclass(frozen=True, repr=False)
class LagEstimates(Mapping[str, LagEstimate]):
    """Lag estimates of group-bys, by name.

    Attributes
    ----------
    dataset : str
    days : tuple of str
        Days of the log.
    queries : int
        Number of compared queries.
    of_queries : int
        Number of logged queries; if larger than ``queries``, some keys were sampled.
    estimates : mapping of str to LagEstimate
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
    clicks: 120 ms (60 ms to 180 ms); unequal are 0 %, and 45 % with 0, which is set now
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
            If there is no estimate for the group-by; names the nearest one.
        """
        if group_by not in self.estimates:
            raise UnknownNameError("group-by", group_by, self.estimates)
        return self.estimates[group_by]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def settings(self) -> dict[str, dict[str, int]]:
        """Return the settings for ``group_bys`` of a configuration, for all that have an estimate.

        None is proposed where the lag may be longer than the longest that was tried. Lags are set per named group-by; if the configuration names none, list them there first.
        """
        return {
            name: {"lag_ms": one.lag_ms}
            for name, one in self.items()
            if one.lag_ms is not None and one.high_ms is not None
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
        rows = [[getattr(one, name) for name in names] for one in self.values()]
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
            (name, p.lag_ms, p.compared, p.unequal, p.share, p.matched)
            for name, one in self.items()
            for p in one.curve
        ]
        names = ["group_by", "lag_ms", "compared", "unequal", "share", "matched"]
        return pd.DataFrame(rows, columns=names)

    def __str__(self) -> str:
        """Return a summary with one line per group-by."""
        return "\n".join(
            [f"{plain(self.dataset)}: {self._asked}", *map(str, self.values()), *self._rest]
        )

    def __repr__(self) -> str:
        """Return a short summary of the size."""
        return f"<LagEstimates of {len(self)} group-bys of {plain(self.dataset)}>"

    @property
    def _asked(self) -> str:
        tried = next(iter(self.values())).curve
        lags = (
            f"lags from {format_duration(tried[0].lag_ms)} to {format_duration(tried[-1].lag_ms)}"
        )
        return f"{self.queries:,} of {plural(self.of_queries, 'query', 'queries')} of {plural(len(self.days), 'day')}, {lags}"

    @property
    def _rest(self) -> list[str]:
        return [
            f"{plain(name)}: left out, because its backfill is a table" for name in self.left_out
        ]

    def _repr_html_(self) -> str:
        """Return a small table for notebooks, with all text escaped."""
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Write lag estimates of"), self.dataset)
        yield note(self._asked)
        rows = [
            (
                one.group_by,
                "" if one.lag_ms is None else format_duration(one.lag_ms),
                one.interval,
                None if one.share_best is None else _percent(one.share_best),
                format_duration(one.now_ms),
                _percent(one.share_now),
                one.note,
            )
            for one in self.values()
        ]
        names = [
            "group-by",
            "lag",
            "90 % interval",
            "unequal",
            "configured",
            "unequal (configured)",
            "note",
        ]
        yield table(names, Rows.first_of(rows, most), width)
        for said in self._rest[:most]:
            yield note(said)


def _percent(share: float) -> str:
    return f"{number(100 * share)} %"


def format_duration(millis: int) -> str:
    """Format a duration in milliseconds for people.

    Examples
    --------
    >>> format_duration(2_700_000), format_duration(100_000), format_duration(5_400_250), format_duration(0)
    ('45 min', '1 min 40 s', '1 h 30 min 250 ms', '0')
    """
    told = []
    for size, unit in _UNITS:
        count, millis = divmod(millis, size)
        if count:
            told.append(f"{count} {unit}")
    return " ".join(told) or "0"
