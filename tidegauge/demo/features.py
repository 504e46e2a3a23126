"""Generate a feature consistency case: online and offline features that differ by known faults.

The synthetic shop data, user events and the features served, are deterministic for a seed and made without
Spark; the case is written to tables and a query log from them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.sql import quote
from tidegauge.consistency.configuration import Configuration
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.consistency.log.table import create_log_table, log_folder, sync_log_table, table_of
from tidegauge.files.consistency_files import load_configuration

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

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


JOIN = "search"
TABLES = ("users", "clicks", "prices", "searches")
_FEATURES: Mapping[str, Any] = {
    "clicks_1h": "long",
    "clicks_7d": "long",
    "last_item": ["null", "string"],
    "price_index": "double",
    "offers": {"type": "array", "items": "string"},
    "discounts": {"type": "map", "values": "double"},
    "searches_1d": ["null", "long"],
    "last_search": ["null", "string"],
}


@dataclass(frozen=True)
class FeatureCase:
    """A query log with its source tables and ground truth.

    Attributes
    ----------
    namespace : str
    configuration : Configuration
    yaml : str
        The text of the configuration file.
    days : tuple of str
    broken : tuple of str
        The partitions in which search features were served as null.
    """

    namespace: str
    configuration: Configuration
    yaml: str
    days: tuple[str, ...]
    broken: tuple[str, ...]


def make_features(
    spark: SparkSession,
    namespace: str,
    *,
    days: int = 10,
    users: int = 200,
    queries: int = 1500,
    seed: int = 6,
) -> FeatureCase:
    """Generate the query log of a shop's join ``search``, and tables for backfilling its features.

    Clicks were served with a lag of 45 minutes, prices from 90 minutes after midnight UTC, searches
    with a lag of two seconds; and for two hours of the third day from the end a broken deploy
    served nulls for searches.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        The database, created unless it exists; it must not have tables of the names used here.
    days : int
        From 2023-01-02 on.
    users : int
    queries : int
        Approximate number per day.
    seed : int
        Equal seeds give equal cases.

    Returns
    -------
    FeatureCase
    """
    shop = Shop(days, users, queries, seed)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote(namespace)}").collect()
    _write_tables(spark, namespace, shop)
    create_log_table(spark, namespace)
    with QueryLog(log_folder(spark, namespace), query_source="web") as log:
        key, value = _record("Key", {"user": "long"}), _record("Value", _FEATURES)
        log.register(LogSchema.from_schemas(JOIN, key, value))
        for one in shop.answers():
            log.log(JOIN, {"user": one.user}, one.features, ts_millis=one.at)
    names = {name: table_of(namespace, name) for name in TABLES}
    template = files("tidegauge.demo").joinpath("features.yml").read_text("utf-8")
    text = template.format(namespace=json.dumps(namespace), **names)
    return FeatureCase(
        namespace=namespace,
        configuration=_read(text),
        yaml=text,
        days=shop.days,
        broken=tuple(f"ds={shop.days[shop.broken]}/hr_minute={hour}-00" for hour in BROKEN_HOURS),
    )


def log_search(spark: SparkSession, namespace: str, *, clients: int = 1) -> None:
    """Create a query log in which each client logged one query of the join ``search``.

    It was asked on 2023-01-05 for user 7, and answered with ``clicks`` 3.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        The database, created unless it exists.
    clients : int
        Each writes a file of its own.

    Examples
    --------
    >>> from tidegauge.spark.session import spark_session
    >>> spark = spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> spark.table("shop.query_logs").select("ds", "join_name").collect()  # doctest: +SKIP
    [Row(ds='2023-01-05', join_name='search')]
    """
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote(namespace)}").collect()
    create_log_table(spark, namespace)
    key, value = _record("Key", {"user": "long"}), _record("Value", {"clicks": "int"})
    for _ in range(clients):
        with QueryLog(log_folder(spark, namespace)) as log:
            log.register(LogSchema.from_schemas(JOIN, key, value))
            log.log(JOIN, {"user": 7}, {"clicks": 3}, ts_millis=1_672_909_200_000)
    sync_log_table(spark, namespace)


def _read(text: str) -> Configuration:
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        file = Path(folder) / "features.yml"
        file.write_text(text, "utf-8")
        return load_configuration(file)


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    told = [{"name": field, "type": of} for field, of in fields.items()]
    return {"type": "record", "name": name, "fields": told}


def _write_tables(spark: SparkSession, namespace: str, shop: Shop) -> None:
    import pandas as pd

    users = pd.DataFrame({"user": range(len(shop.segment)), "segment": shop.segment})
    columns = ["since_ms", "segment", "price_index", "offers", "discounts"]
    rows = [(since, of, p.index, p.offers, p.discounts) for since, of, p in shop.prices()]
    prices = pd.DataFrame(rows, columns=columns)
    priced = (
        "since_ms long, segment long, price_index double, offers array<string>,"
        " discounts map<string, double>"
    )
    found: dict[str, tuple[pd.DataFrame, str]] = {
        "users": (users, "user long, segment long"),
        "clicks": (shop.clicks.frame("item"), "user long, at_ms long, item string"),
        "prices": (prices, priced),
        "searches": (shop.searches.frame("words"), "user long, at_ms long, words string"),
    }
    for name, (data, schema) in found.items():
        made = spark.createDataFrame(data, schema)
        # Convert from milliseconds, so that times do not depend on the session's time zone.
        cells = [
            f"timestamp_millis({column}) AS {column.removesuffix('_ms')}"
            if column.endswith("_ms")
            else column
            for column in made.columns
        ]
        made.selectExpr(*cells).coalesce(1).write.saveAsTable(table_of(namespace, name))
