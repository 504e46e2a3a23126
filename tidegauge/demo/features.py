"""Generate a feature consistency case: online and offline features that differ by known faults.

The user events and served features of a synthetic shop depend only on a seed, and need no Spark.
Spark writes them to tables and a query log.
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
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
WEEK_MS = 7 * DAY_MS
CLICKS_LAG_MS = 45 * MINUTE_MS
"""The count of served clicks lags behind by 45 minutes."""
SEARCHES_LAG_MS = 2 * SECOND_MS
"""The count of served searches lags behind by 2 seconds."""
PRICES_LAG_MS = 90 * MINUTE_MS
"""Prices of a day are served from 90 minutes after midnight UTC."""
BROKEN_HOURS = (13, 14)
"""In these hours of one day search features were null: a broken deploy that was rolled back."""
SEGMENT_COUNT = 5
DAILY_CLICKS, DAILY_SEARCHES = 12, 4
"""Mean numbers per user and day."""
EARLY_QUERY_SHARE = 0.004
"""Extra queries within two seconds of a search by the same user, as a share of all other queries."""
UNCHANGED_RATE, DISCOUNT_RATE = 0.4, 2 / 3
"""Probabilities that offers or discounts stay the same on the next day, and that a kind has a discount."""
_HOURLY_ACTIVITY = 1 + 0.5 * np.sin(2 * np.pi * (np.arange(24) - 9) / 24)
"""By hour of day, relative to the mean: highest at 15:00, lowest at 03:00."""
_ITEM_NAMES = np.array([f"item-{n}" for n in range(40)])
_SEARCH_WORDS = np.array(
    [f"{adjective} {noun}" for adjective in ("red", "warm", "new") for noun in ("shoes", "hat")]
)
_ITEM_KINDS = ("shoes", "hats", "coats")


@dataclass(frozen=True)
class Stream:
    """A stream of user events.

    Attributes
    ----------
    user, ms : array of int
        User and time in milliseconds since 1970: sorted distinct pairs.
    events : array of str
        Clicked items or searched words.
    """

    user: Ints
    ms: Ints
    events: NDArray[np.str_]

    def count_before(self, user: Ints, ms: Ints, span: int) -> tuple[Ints, Ints]:
        """Count the events of users in a span up to given times.

        Parameters
        ----------
        user, ms : array of int
            Users and times in milliseconds since 1970.
        span : int
            Length of the span in milliseconds.

        Returns
        -------
        tuple of array of int
            Number of events, and index of the last event up to the time.
        """
        stop, start = (
            np.searchsorted(self._order, _sort_keys(user, time), side="right")
            for time in (ms, ms - span)
        )
        return stop - start, stop - 1

    @cached_property
    def _order(self) -> Ints:
        return _sort_keys(self.user, self.ms)

    def frame(self, column: str) -> pd.DataFrame:
        """Return the stream as a frame with the columns user and at_ms, and the events as ``column``."""
        import pandas as pd

        return pd.DataFrame({"user": self.user, "at_ms": self.ms, column: self.events})


@dataclass(frozen=True)
class ServedAnswer:
    """A query and the features that the service returned.

    Attributes
    ----------
    user : int
        User of the query.
    ms : int
        Time of the query in milliseconds since 1970.
    features : mapping of str to Any
        Served features by name.
    """

    user: int
    ms: int
    features: dict[str, Any]


@dataclass(frozen=True)
class Price:
    """Prices of a segment, valid from a midnight on.

    Attributes
    ----------
    index : float
        Price index.
    offers : list of str
        Offered items.
    discounts : mapping of str to float
        Discount of each discounted kind of items.
    """

    index: float
    offers: list[str]
    discounts: dict[str, float]


class Shop:
    """Events and queries of a synthetic shop over several days.

    Parameters
    ----------
    days : int
        Number of days.
    users : int
        Number of users.
    queries : int
        Approximate number of queries per day.
    seed : int
        Seed of the random numbers.

    Attributes
    ----------
    days : tuple of str
        Dates.
    segment : array of int
        Segment of each user.
    clicks, searches : Stream
        User events.
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
        self.start = (FIRST_DAY - date(1970, 1, 1)).days * DAY_MS
        self.segment = rng.integers(SEGMENT_COUNT, size=users)
        # Clicks start a week and searches a day earlier, so that the windows of the first features
        # are full.
        click_times = _random_times(rng, np.repeat(np.arange(-7, days), users * DAILY_CLICKS))
        search_times = _random_times(rng, np.repeat(np.arange(-1, days), users * DAILY_SEARCHES))
        self.clicks, self.searches = (
            self._stream(rng, times, words)
            for times, words in ((click_times, _ITEM_NAMES), (search_times, _SEARCH_WORDS))
        )
        self._query_users, self._query_ms = self._draw_queries(rng, queries)
        # Prices start one day earlier: they are served until the prices of the first day arrive.
        self._prices = _prices(rng, days + 1)

    def _stream(self, rng: np.random.Generator, times: Ints, words: NDArray[np.str_]) -> Stream:
        users = rng.integers(len(self.segment), size=len(times))
        user, ms = np.unique(np.stack([users, self.start + times]), axis=1)
        return Stream(user, ms, rng.choice(words, len(user)))

    def _draw_queries(self, rng: np.random.Generator, queries: int) -> tuple[Ints, Ints]:
        """Return users and times of queries, in order of time; a few follow directly after a search."""
        times = self.start + _random_times(rng, np.repeat(np.arange(len(self.days)), queries))
        users = rng.integers(len(self.segment), size=len(times))
        searches, end = self.searches, self.start + len(self.days) * DAY_MS
        # Use only searches within a day of the user's previous search: features are stale, not null.
        is_repeated = (np.diff(searches.user, prepend=-1) == 0) & (
            np.diff(searches.ms, prepend=0) < DAY_MS - MINUTE_MS
        )
        eligible = np.flatnonzero(
            is_repeated & (searches.ms >= self.start) & (searches.ms < end - MINUTE_MS)
        )
        early = rng.choice(eligible, round(EARLY_QUERY_SHARE * len(times)))
        user = np.concatenate([users, searches.user[early]])
        ms = np.concatenate(
            [times, searches.ms[early] + rng.integers(1, SEARCHES_LAG_MS, len(early))]
        )
        ms, user = np.unique(np.stack([ms, user]), axis=1)
        return user, ms

    def prices(self) -> Iterator[tuple[int, int, Price]]:
        """Yield the start of validity in milliseconds, the segment, and its prices."""
        for day, by_segment in enumerate(self._prices, -1):
            for segment, price in enumerate(by_segment):
                yield self.start + day * DAY_MS, segment, price

    def answers(self) -> Iterator[ServedAnswer]:
        """Yield each query with its served features, in order of time."""
        user, ms = self._query_users, self._query_ms
        click_limit = ms - CLICKS_LAG_MS
        hourly_clicks, _ = self.clicks.count_before(user, click_limit, HOUR_MS)
        weekly_clicks, last_click = self.clicks.count_before(user, click_limit, WEEK_MS)
        searches, last_search = self.searches.count_before(user, ms - SEARCHES_LAG_MS, DAY_MS)
        price_day = (
            ms - PRICES_LAG_MS - self.start
        ) // DAY_MS + 1  # index 0 is the day before the first
        hours = (ms - self.start) // HOUR_MS
        is_broken = np.isin(hours, [24 * self.broken + hour_of_day for hour_of_day in BROKEN_HOURS])
        for index in range(len(ms)):
            price = self._prices[price_day[index]][self.segment[user[index]]]
            features = {
                "clicks_1h": int(hourly_clicks[index]),
                "clicks_7d": int(weekly_clicks[index]),
                "last_item": str(self.clicks.events[last_click[index]])
                if weekly_clicks[index]
                else None,
                "price_index": price.index,
                "offers": price.offers,
                "discounts": price.discounts,
                "searches_1d": int(searches[index]),
                "last_search": str(self.searches.events[last_search[index]])
                if searches[index]
                else None,
            }
            if is_broken[index]:
                features |= {"searches_1d": None, "last_search": None}
            yield ServedAnswer(int(user[index]), int(ms[index]), features)


def _sort_keys(user: Ints, ms: Ints) -> Ints:
    """Return keys that sort by user and then by time."""
    keys: Ints = (user << 42) + ms
    return keys


def _random_times(rng: np.random.Generator, days: Ints) -> Ints:
    """Return a random time on each day, in milliseconds since the first day."""
    hours = rng.choice(24, size=len(days), p=_HOURLY_ACTIVITY / _HOURLY_ACTIVITY.sum())
    times: Ints = (days * 24 + hours) * HOUR_MS + rng.integers(HOUR_MS, size=len(days))
    return times


def _prices(rng: np.random.Generator, days: int) -> list[list[Price]]:
    """Return prices by day and segment. The index changes daily, offers and discounts less often."""
    base = rng.uniform(80, 120, SEGMENT_COUNT)
    prices: list[list[Price]] = []
    for _ in range(days):
        previous = prices[-1] if prices else [None] * SEGMENT_COUNT
        prices.append(
            [
                _price(rng, segment_base, previous_price)
                for segment_base, previous_price in zip(base, previous, strict=True)
            ]
        )
    return prices


def _price(rng: np.random.Generator, base: float, previous: Price | None) -> Price:
    offers = [str(item) for item in rng.choice(_ITEM_NAMES, 3, replace=False)]
    discounts = {
        kind: int(rng.integers(1, 4)) / 10 for kind in _ITEM_KINDS if rng.random() < DISCOUNT_RATE
    }
    if previous is not None and rng.random() < UNCHANGED_RATE:
        offers = previous.offers
    if previous is not None and rng.random() < UNCHANGED_RATE:
        discounts = previous.discounts
    return Price(round(base * (1 + float(rng.normal(0, 0.01))), 4), offers, discounts)


JOIN_NAME = "search"
TABLE_NAMES = ("users", "clicks", "prices", "searches")
_FEATURE_TYPES: Mapping[str, Any] = {
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
        Database of the tables.
    configuration : Configuration
        Configuration of the consistency check.
    yaml : str
        Content of the configuration file.
    days : tuple of str
        Dates of the queries.
    broken : tuple of str
        Partitions in which search features were served as null.
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

    Clicks are served with a lag of 45 minutes, prices from 90 minutes after midnight UTC, and
    searches with a lag of two seconds. For two hours of the third-to-last day, a broken deployment serves
    null for search features.

    Parameters
    ----------
    spark : SparkSession
        Session that writes the tables.
    namespace : str
        Database to write to; created if needed. It must not contain the tables `TABLE_NAMES`.
    days : int
        Number of days, from 2023-01-02 on.
    users : int
        Number of users.
    queries : int
        Approximate number of queries per day.
    seed : int
        Equal seeds give equal cases.

    Returns
    -------
    FeatureCase
        Names of the tables, configuration, and ground truth.
    """
    shop = Shop(days, users, queries, seed)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote(namespace)}").collect()
    _write_tables(spark, namespace, shop)
    create_log_table(spark, namespace)
    with QueryLog(log_folder(spark, namespace), query_source="web") as log:
        key, value = (
            _record_schema("Key", {"user": "long"}),
            _record_schema("Value", _FEATURE_TYPES),
        )
        log.register(LogSchema.from_schemas(JOIN_NAME, key, value))
        for answer in shop.answers():
            log.log(JOIN_NAME, {"user": answer.user}, answer.features, ts_millis=answer.ms)
    names = {name: table_of(namespace, name) for name in TABLE_NAMES}
    template = files("tidegauge.demo").joinpath("features.yml").read_text("utf-8")
    content = template.format(namespace=json.dumps(namespace), **names)
    return FeatureCase(
        namespace=namespace,
        configuration=_load(content),
        yaml=content,
        days=shop.days,
        broken=tuple(f"ds={shop.days[shop.broken]}/hr_minute={hour}-00" for hour in BROKEN_HOURS),
    )


def log_search(spark: SparkSession, namespace: str, *, clients: int = 1) -> None:
    """Create a query log in which each client logs one query of the join ``search``.

    The query is from 2023-01-05, for user 7, with the answer ``clicks`` = 3.

    Parameters
    ----------
    spark : SparkSession
        Session that creates the log table.
    namespace : str
        Database to write to; created if needed.
    clients : int
        Number of clients. Each client writes one file.

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
    key, value = _record_schema("Key", {"user": "long"}), _record_schema("Value", {"clicks": "int"})
    for _ in range(clients):
        with QueryLog(log_folder(spark, namespace)) as log:
            log.register(LogSchema.from_schemas(JOIN_NAME, key, value))
            log.log(JOIN_NAME, {"user": 7}, {"clicks": 3}, ts_millis=1_672_909_200_000)
    sync_log_table(spark, namespace)


def _load(content: str) -> Configuration:
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        file = Path(folder) / "features.yml"
        file.write_text(content, "utf-8")
        return load_configuration(file)


def _record_schema(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    typed_fields = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": typed_fields}


def _write_tables(spark: SparkSession, namespace: str, shop: Shop) -> None:
    import pandas as pd

    users = pd.DataFrame({"user": range(len(shop.segment)), "segment": shop.segment})
    columns = ["since_ms", "segment", "price_index", "offers", "discounts"]
    rows = [
        (since, segment, price.index, price.offers, price.discounts)
        for since, segment, price in shop.prices()
    ]
    prices = pd.DataFrame(rows, columns=columns)
    price_schema = (
        "since_ms long, segment long, price_index double, offers array<string>,"
        " discounts map<string, double>"
    )
    tables: dict[str, tuple[pd.DataFrame, str]] = {
        "users": (users, "user long, segment long"),
        "clicks": (shop.clicks.frame("item"), "user long, at_ms long, item string"),
        "prices": (prices, price_schema),
        "searches": (shop.searches.frame("words"), "user long, at_ms long, words string"),
    }
    for name, (data, schema) in tables.items():
        frame = spark.createDataFrame(data, schema)
        # Convert from milliseconds, so that times are independent of the session's time zone.
        cells = [
            f"timestamp_millis({column}) AS {column.removesuffix('_ms')}"
            if column.endswith("_ms")
            else column
            for column in frame.columns
        ]
        frame.selectExpr(*cells).coalesce(1).write.saveAsTable(table_of(namespace, name))
