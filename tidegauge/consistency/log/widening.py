"""Wider number types for columns of tables that exist, as Avro promotes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.ddl import type_sql
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.consistency.log.table import INSERTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHOLE = "tidegauge.widened"
"""Table property of a copy that has all rows."""


def widen(spark: SparkSession, name: str, types: Mapping[str, Any], by: str) -> None:
    """Give columns of a table wider types.

    Spark's catalog cannot, so that a copy takes the table's place. It is complete before the table
    is dropped; a run that is killed between the two leaves it to `finish_widening`.

    Parameters
    ----------
    spark : SparkSession
    name : str
        Quoted.
    types : mapping of str to object
        The wider types, in Spark's JSON form.
    by : str
        The partition column, a text.
    """
    copy = _copy_of(name)
    fields: list[dict[str, Any]] = spark.table(name).schema.jsonValue()["fields"]
    columns = {f["name"]: types.get(f["name"], f["type"]) for f in fields if f["name"] != by}
    kept: dict[str, str] = {
        key: value
        for key, value in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
        if key.startswith("tidegauge.")
    }
    made = ", ".join(f"{quote(column)} {type_sql(of)}" for column, of in columns.items())
    cast = [
        f"CAST({quote(column)} AS {type_sql(of)}) AS {quote(column)}"
        for column, of in columns.items()
    ]
    spark.sql(f"DROP TABLE IF EXISTS {copy}").collect()
    spark.sql(f"CREATE TABLE {copy} ({made}) USING parquet PARTITIONED BY ({by} STRING)").collect()
    with session_settings(spark, INSERTING):
        spark.table(name).selectExpr(*cast, by).write.insertInto(copy)
    told = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in {**kept, _WHOLE: "true"}.items())
    spark.sql(f"ALTER TABLE {copy} SET TBLPROPERTIES ({told})").collect()
    spark.sql(f"DROP TABLE {name}").collect()
    finish_widening(spark, name)


def finish_widening(spark: SparkSession, name: str) -> None:
    """Put a complete copy in the place of the table that it was made of, and drop any other."""
    copy = _copy_of(name)
    if not spark.catalog.tableExists(copy):
        return
    properties: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {copy}").collect())
    if _WHOLE in properties and not spark.catalog.tableExists(name):
        spark.sql(f"ALTER TABLE {copy} RENAME TO {name}").collect()
        spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ({literal(_WHOLE)})").collect()
    else:
        spark.sql(f"DROP TABLE {copy}").collect()


def _copy_of(name: str) -> str:
    return f"{name[:-1]}__wider`"
