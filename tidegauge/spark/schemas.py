"""Schemas of text, declared as DDL or inferred from JSON, on each release of Spark."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, cast

from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def schema_from_ddl(spark: SparkSession, text: str) -> StructType:
    """Return the schema that a text such as ``id INT, at DATE`` declares.

    `StructType.fromDDL` is of Spark 4 alone, and needs a classic session by default.

    Raises
    ------
    AnalysisException
        If it is none.
    """
    read = spark.sql(f"SELECT from_json('', {literal(text)}) AS row")
    return cast("StructType", read.schema["row"].dataType)


def read_json(texts: DataFrame) -> DataFrame:
    """Return the rows of JSON texts, one object each, with the columns that they have together.

    Parameters
    ----------
    texts : DataFrame
        Of one text column; nulls are skipped.

    Raises
    ------
    SourceError
        On Spark Connect before Spark 4, which reads JSON from files alone.
    """
    from pyspark.errors import PySparkNotImplementedError

    spark, texts = texts.sparkSession, texts.dropna()
    if not spark.version.startswith("3."):
        return spark.read.json(texts)
    try:
        lines = texts.rdd
    except PySparkNotImplementedError as error:
        msg = "Spark Connect infers no schema of JSON texts before Spark 4; declare one, or use a classic session"
        raise SourceError(msg) from error
    return spark.read.json(lines.map(itemgetter(0)))
