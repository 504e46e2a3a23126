"""A generated case of features that were served otherwise than they would be trained on, with known faults."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.consistency.configuration import Configuration
from analyzers.consistency.log_table import create_log_table, log_folder, table_of
from analyzers.consistency.logs import QueryLog
from analyzers.consistency.schemas import LogSchema
from analyzers.sql import quote
from tidegauge.consistency.conffile import load_configuration
from tidegauge.demo.shop import (
    BROKEN_HOURS,
    CLICKS_LAG_MS,
    PRICES_LAG_MS,
    SEARCHES_LAG_MS,
    Shop,
)

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
    """A query log with the tables that its features come from, and what is true of it.

    Attributes
    ----------
    namespace : str
    configuration : Configuration
    yaml : str
        The same as the text of a configuration file.
    days : tuple of str
    lags_ms : mapping of str to int
        By group-by how long after something happened it was served; with these as `GroupBy.lag_ms` all is
        consistent but for the broken deploy. Prices come at midnight UTC, so only until 01:30 their lag shows.
    late_hours : tuple of str
        The buckets ``hr_minute`` of each day in which prices were those of the day before.
    broken : tuple of str
        The partitions in which searches were answered with nulls.
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
    """Make the query log of a shop's join ``search``, and the tables from which its features are backfilled.

    Clicks were served 45 minutes late, prices from 90 minutes after midnight UTC, searches after two seconds; and
    for two hours of the third day from the end a broken deploy answered nulls for searches.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        The database, made unless it is there; it has no table of the names that are used here.
    days : int
        From 2023-01-02 on.
    users : int
    queries : int
        A day, about.
    seed : int
        Equal ones make equal cases.

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
        log.register(LogSchema.of(JOIN, key, value))
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


def _read(text: str) -> Configuration:
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        file = Path(folder) / "features.yml"
        file.write_text(text, "utf-8")
        return load_configuration(file)


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    told = [{"name": field, "type": of} for field, of in fields.items()]
    return {"type": "record", "name": name, "fields": told}


def _write_tables(spark: SparkSession, namespace: str, shop: Shop) -> None:
    import pandas as pd  # noqa: PLC0415 - heavy

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
        # Milliseconds, so that no session's time zone moves a moment.
        cells = [
            f"timestamp_millis({column}) AS {column.removesuffix('_ms')}"
            if column.endswith("_ms")
            else column
            for column in made.columns
        ]
        made.selectExpr(*cells).coalesce(1).write.saveAsTable(table_of(namespace, name))
