"""Synthetic shop data: user events and the features served, with known faults.

Deterministic for a seed, and without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

FIRST_DAY = date(2023, 1, 2)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
WEEK = 7 * DAY
CLICKS_LAG_MS = 45 * MINUTE
"""Lag with which clicks are served."""
SEARCHES_LAG_MS = 2 * SECOND
"""Lag with which searches are served."""
PRICES_LAG_MS = 90 * MINUTE
"""Delay after midnight UTC until the prices of the day before are available."""
BROKEN_HOURS = (13, 14)
"""Hours of one day in which search features were null: a broken deploy, rolled back."""
SEGMENTS = 5
CLICKS, SEARCHES = 12, 4
"""Mean number per user and day."""
HASTY = 0.004
"""Extra queries within two seconds of a search of their user, as a share of all others."""
KEPT, DISCOUNTED = 0.4, 2 / 3
"""Probabilities that offers or discounts stay as on the day before, and that a kind has a discount."""
_BUSY = 1 + 0.5 * np.sin(2 * np.pi * (np.arange(24) - 9) / 24)
"""Relative activity by hour of day: most at 15:00, least at 03:00."""
_ITEMS = np.array([f"item-{n}" for n in range(40)])
_WORDS = np.array([f"{how} {what}" for how in ("red", "warm", "new") for what in ("shoes", "hat")])
_KINDS = ("shoes", "hats", "coats")


@dataclass(frozen=True)
class Stream:
    """A stream of user events.

    Attributes
    ----------
    user, ms : array of int
        User and time in milliseconds since 1970; sorted, and each pair once.
    what : array of str
        The item clicked or the words searched.
    """

    user: Ints
    ms: Ints
    what: NDArray[np.str_]

    def before(self, user: Ints, at: Ints, span: int) -> tuple[Ints, Ints]:
        """Return each user's number of events in a span up to a time, and the index of the last one."""
        stop, start = (
            np.searchsorted(self._order, _ordered(user, moment), side="right")
            for moment in (at, at - span)
        )
        return stop - start, stop - 1

    @cached_property
    def _order(self) -> Ints:
        return _ordered(self.user, self.ms)

    def frame(self, what: str) -> pd.DataFrame:
        """Return the stream with the columns user, at_ms and one for the events, named ``what``."""
        import pandas as pd

        return pd.DataFrame({"user": self.user, "at_ms": self.ms, what: self.what})


@dataclass(frozen=True)
class ServedAnswer:
    """A query, and the features that the service returned.

    Attributes
    ----------
    user, at : int
    features : mapping of str to Any
    """

    user: int
    at: int
    features: dict[str, Any]


@dataclass(frozen=True)
class Price:
    """A segment's prices from a midnight on.

    Attributes
    ----------
    index : float
    offers : list of str
    discounts : mapping of str to float
    """

    index: float
    offers: list[str]
    discounts: dict[str, float]


class Shop:
    """Events and queries of a synthetic shop over some days.

    Parameters
    ----------
    days, users, queries : int
        Queries are per day.
    seed : int

    Attributes
    ----------
    days : tuple of str
    segment : array of int
        Segment of each user.
    clicks, searches : Stream
    broken : int
        Index of the day with the broken deploy.

    Examples
    --------
    >>> shop = Shop(days=4, users=10, queries=20, seed=1)
    >>> shop.days[shop.broken], len(list(shop.answers()))
    ('2023-01-03', 80)
    """

    def __init__(self, days: int, users: int, queries: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.days = tuple(str(FIRST_DAY + timedelta(days=n)) for n in range(days))
        self.broken = max(days - 3, 0)
        self.start = (FIRST_DAY - date(1970, 1, 1)).days * DAY
        self.segment = rng.integers(SEGMENTS, size=users)
        # Start clicks a week and searches a day earlier, so that the windows of the first features
        # are full.
        clicked = _moments(rng, np.repeat(np.arange(-7, days), users * CLICKS))
        searched = _moments(rng, np.repeat(np.arange(-1, days), users * SEARCHES))
        self.clicks, self.searches = (
            self._stream(rng, moments, words)
            for moments, words in ((clicked, _ITEMS), (searched, _WORDS))
        )
        self._user, self._at = self._asked(rng, queries)
        # From the day before the first, whose prices are served until the first day's arrive.
        self._prices = _prices(rng, days + 1)

    def _stream(self, rng: np.random.Generator, moments: Ints, words: NDArray[np.str_]) -> Stream:
        who = rng.integers(len(self.segment), size=len(moments))
        user, at = np.unique(np.stack([who, self.start + moments]), axis=1)
        return Stream(user, at, rng.choice(words, len(user)))

    def _asked(self, rng: np.random.Generator, queries: int) -> tuple[Ints, Ints]:
        """Return users and times of queries, in order of time; a few come right after a search."""
        moments = self.start + _moments(rng, np.repeat(np.arange(len(self.days)), queries))
        who = rng.integers(len(self.segment), size=len(moments))
        of, end = self.searches, self.start + len(self.days) * DAY
        # Only searches within a day of the user's previous one: their features are stale, not null.
        again = (np.diff(of.user, prepend=-1) == 0) & (np.diff(of.ms, prepend=0) < DAY - MINUTE)
        within = np.flatnonzero(again & (of.ms >= self.start) & (of.ms < end - MINUTE))
        hasty = rng.choice(within, round(HASTY * len(moments)))
        user = np.concatenate([who, of.user[hasty]])
        at = np.concatenate([moments, of.ms[hasty] + rng.integers(1, SEARCHES_LAG_MS, len(hasty))])
        at, user = np.unique(np.stack([at, user]), axis=1)
        return user, at

    def prices(self) -> Iterator[tuple[int, int, Price]]:
        """Yield start of validity (ms), segment and prices."""
        for day, some in enumerate(self._prices, -1):
            for segment, one in enumerate(some):
                yield self.start + day * DAY, segment, one

    def answers(self) -> Iterator[ServedAnswer]:
        """Yield each query with the features served, in order of time."""
        user, at = self._user, self._at
        seen = at - CLICKS_LAG_MS
        hour, _ = self.clicks.before(user, seen, HOUR)
        week, last_click = self.clicks.before(user, seen, WEEK)
        searched, last_search = self.searches.before(user, at - SEARCHES_LAG_MS, DAY)
        priced = (at - PRICES_LAG_MS - self.start) // DAY + 1  # index 0 is the day before the first
        hours = (at - self.start) // HOUR
        broken = np.isin(hours, [24 * self.broken + one for one in BROKEN_HOURS])
        for n in range(len(at)):
            price = self._prices[priced[n]][self.segment[user[n]]]
            features = {
                "clicks_1h": int(hour[n]),
                "clicks_7d": int(week[n]),
                "last_item": str(self.clicks.what[last_click[n]]) if week[n] else None,
                "price_index": price.index,
                "offers": price.offers,
                "discounts": price.discounts,
                "searches_1d": int(searched[n]),
                "last_search": str(self.searches.what[last_search[n]]) if searched[n] else None,
            }
            if broken[n]:
                features |= {"searches_1d": None, "last_search": None}
            yield ServedAnswer(int(user[n]), int(at[n]), features)


def _ordered(user: Ints, at: Ints) -> Ints:
    """Return sort keys: by user, then by time."""
    order: Ints = (user << 42) + at
    return order


def _moments(rng: np.random.Generator, day: Ints) -> Ints:
    """Return a random time on each of some days, in milliseconds since the first day."""
    hour = rng.choice(24, size=len(day), p=_BUSY / _BUSY.sum())
    moments: Ints = (day * 24 + hour) * HOUR + rng.integers(HOUR, size=len(day))
    return moments


def _prices(rng: np.random.Generator, days: int) -> list[list[Price]]:
    """Return each day's prices by segment; the index changes daily, the rest on many days."""
    base = rng.uniform(80, 120, SEGMENTS)
    found: list[list[Price]] = []
    for _ in range(days):
        before = found[-1] if found else [None] * SEGMENTS
        found.append([_price(rng, of, last) for of, last in zip(base, before, strict=True)])
    return found


def _price(rng: np.random.Generator, base: float, before: Price | None) -> Price:
    offers = [str(one) for one in rng.choice(_ITEMS, 3, replace=False)]
    discounts = {kind: int(rng.integers(1, 4)) / 10 for kind in _KINDS if rng.random() < DISCOUNTED}
    if before is not None and rng.random() < KEPT:
        offers = before.offers
    if before is not None and rng.random() < KEPT:
        discounts = before.discounts
    return Price(round(base * (1 + float(rng.normal(0, 0.01))), 4), offers, discounts)
