"""Generate a feature consistency case: online and offline features that differ by known faults."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.sql import quote
from tidegauge.consistency.configuration import Configuration
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.consistency.log.table import create_log_table, log_folder, sync_log_table, table_of
from tidegauge.demo.shop import BROKEN_HOURS, CLICKS_LAG_MS, PRICES_LAG_MS, SEARCHES_LAG_MS, Shop
from tidegauge.files.consistency import load_configuration

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

JOIN = "search"
TABLES = ("users", "clicks", "prices", "searches")
LAGS_MS = {"clicks": CLICKS_LAG_MS, "prices": PRICES_LAG_MS, "searches": SEARCHES_LAG_MS}
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
    lags_ms : mapping of str to int
        Serving lag after an event by group-by; with these as `GroupBy.lag_ms` everything is
        consistent except for the broken deploy. Prices change at midnight UTC, so their lag shows
        only until 01:30.
    late_hours : tuple of str
        The buckets ``hr_minute`` of each day in which prices of the day before were served.
    broken : tuple of str
        The partitions in which search features were served as null.
    """

    namespace: str
    configuration: Configuration
    yaml: str
    days: tuple[str, ...]
    lags_ms: Mapping[str, int]
    late_hours: tuple[str, ...]
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
        lags_ms=LAGS_MS,
        late_hours=("00-00", "01-00"),
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
