"""Tables of compared rows and of metrics, updated by whole days."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.ddl import type_sql
from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.partitions import NULL
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.capabilities import from_arrow
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.sources.catalog_tables import open_table
from tidegauge.analyzers.sources.targets import TableTarget, replace
from tidegauge.consistency.compare.alignment import BUCKET, DATE
from tidegauge.consistency.compare.comparison import Comparison
from tidegauge.consistency.compare.equality import shape
from tidegauge.consistency.compare.measures import (
    COPY,
    LOGGED,
    NULL_KEY,
    PRESENCE,
    compared_as_floats,
)
from tidegauge.consistency.log.avro_types import promoted
from tidegauge.consistency.log.table import join_table
from tidegauge.consistency.log.widening import finish_widening, widen

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COMPARED = "tidegauge.compared."
"""Property prefix of the comparison table: fingerprint of each day's inputs."""
_GROUP_BY = "group_by_name"


@dataclass(frozen=True)
class ComparisonTable:
    """Table ``<namespace>.<join>_comparison``: logged beside backfilled rows, partitioned by ds."""

    spark: SparkSession
    name: str

    @classmethod
    def for_join(cls, spark: SparkSession, namespace: str, join: str) -> ComparisonTable:
        """Return the comparison table of a join, which may not exist yet.

        Raises
        ------
        SourceError
            If a table of that name exists and is not a comparison table.
        """
        found = cls(spark, join_table(namespace, join, "comparison"))
        finish_widening(spark, found.name)
        if found.exists() and not {PRESENCE, COPY, NULL_KEY, DATE} <= set(found._columns()):
            raise SourceError(f"{found.name} was not made by a comparison; rename it")
        return found

    def marks(self) -> dict[str, str]:
        """Return the input fingerprint of each day; empty if the table does not exist."""
        if not self.exists():
            return {}
        found: dict[str, str] = dict(self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect())
        return {
            key.removeprefix(_COMPARED): mark
            for key, mark in found.items()
            if key.startswith(_COMPARED)
        }

    def features(self) -> tuple[str, ...]:
        """Return the features with logged and backfilled values, in lower case."""
        columns = [name.casefold() for name in self._columns()]
        return tuple(name for name in columns if LOGGED + name in columns)

    def notices(self) -> tuple[str, ...]:
        """Return a line if features are compared as floats, because one side has no more digits."""
        if not self.exists():
            return ()
        return compared_as_floats(Schema.from_frame(self.spark.table(self.name)))

    def read(self, days: Collection[str]) -> DataFrame:
        """Return the rows of the given days."""
        return filter_partitions(self.spark.table(self.name), (DATE,), [(day,) for day in days])

    def write(self, data: DataFrame, marks: Mapping[str, str]) -> None:
        """Replace days, and store their input fingerprints.

        Parameters
        ----------
        data : DataFrame
        marks : mapping of str to str
            Input fingerprints by day. Days without rows are emptied.

        Raises
        ------
        SourceError
            If a column's type has changed.
        """
        if self.exists():
            data = self._fitted(data)
            # Clear the marks first: a run killed while writing leaves days in an unknown state.
            keys = ", ".join(literal(_COMPARED + day) for day in marks)
            self.spark.sql(
                f"ALTER TABLE {self.name} UNSET TBLPROPERTIES IF EXISTS ({keys})"
            ).collect()
        else:
            self._create(_types(data))
        before = self._fingerprints()
        target = TableTarget(self.spark, self.name)
        target.write(data, "partitions", [DATE], ())
        # Writing replaces only days that have rows; days with unchanged files have none any more.
        after = self._fingerprints()
        target.drop([(day,) for day in marks if day in before and before[day] == after.get(day)])
        told = ", ".join(f"{literal(_COMPARED + d)} = {literal(m)}" for d, m in marks.items())
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({told})").collect()

    def _create(self, types: Mapping[str, Any]) -> None:
        """Create the table in one step; Spark makes one of a frame in several, between which to die."""
        columns = ", ".join(f"{quote(n)} {type_sql(t)}" for n, t in types.items() if n != DATE)
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns}) USING parquet PARTITIONED BY ({DATE} STRING)"
        ).collect()

    def exists(self) -> bool:
        """Return whether the table exists."""
        return self.spark.catalog.tableExists(self.name)

    def _columns(self) -> list[str]:
        return self.spark.table(self.name).columns

    def _fitted(self, data: DataFrame) -> DataFrame:
        """Return rows with all columns of the table, which first gets new columns and wider numbers."""
        types, there = _types(data), _types(self.spark.table(self.name))
        known = {name.casefold(): (name, of) for name, of in there.items()}
        wider, cast = {}, {}
        for name, of in types.items():
            named, before = known.get(name.casefold(), (name, of))
            if shape(of) == shape(before):
                continue
            found = promoted(before, of)
            if found is None:
                raise SourceError(
                    f"{name!r} is {shape(of)} now and {shape(before)} in {self.name}: drop that table, and"
                    " its days are compared again"
                )
            cast[name] = type_sql(found)
            if shape(found) != shape(before):
                wider[named] = found
        if wider:
            widen(self.spark, self.name, wider, DATE)
        data = data.selectExpr(
            *(
                f"CAST({quote(n)} AS {cast[n]}) AS {quote(n)}" if n in cast else quote(n)
                for n in types
            )
        )
        new = [f"{quote(n)} {type_sql(t)}" for n, t in types.items() if n.casefold() not in known]
        if new:
            self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})").collect()
        given = {name.casefold() for name in types}
        lacking = (
            f"CAST(NULL AS {type_sql(t)}) AS {quote(n)}"
            for n, t in there.items()
            if n.casefold() not in given
        )
        return data.selectExpr("*", *lacking)

    def _fingerprints(self) -> dict[str, str | None]:
        if not self.exists():
            return {}
        listed = open_table(self.spark, self.name).list_partitions()
        return {one.partition.value(DATE): one.fingerprint for one in listed}


def write_metrics(
    spark: SparkSession, namespace: str, join: str, comparison: Comparison, days: Collection[str]
) -> str:
    """Write the metrics of days in long form as ``<namespace>.<join>_consistency_metrics``.

    The table has the columns feature_name, metric_name, the segment columns,
    histogram and number, of which exactly one is not null; it is partitioned by ds, hr_minute and
    group_by_name. Existing metrics of these days are replaced.

    Returns
    -------
    str
        The table's full name, quoted.

    Raises
    ------
    SourceError
        If the table exists with other columns.
    """
    name = join_table(namespace, join, "consistency_metrics")
    segments = [column for column in comparison.by if column not in {DATE, BUCKET}]
    columns = [
        "feature_name STRING",
        "metric_name STRING",
        *(f"{quote(segment)} STRING" for segment in segments),
        "histogram ARRAY<DOUBLE>",
        "number DOUBLE",
    ]
    keys = (DATE, BUCKET, _GROUP_BY)
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)}) USING parquet"
        f" PARTITIONED BY ({', '.join(f'{key} STRING' for key in keys)})"
    ).collect()
    there = [column.name for column in spark.catalog.listColumns(name)]
    expected = ["feature_name", "metric_name", *segments, "histogram", "number", *keys]
    if there != expected:
        raise SourceError(
            f"{name} has the columns {', '.join(there)}, not {', '.join(expected)}: rename or drop it"
        )
    rows = comparison.long()
    rows[segments] = rows[segments].replace(NULL, None)
    if BUCKET not in rows:
        rows[BUCKET] = "00-00"
    holds = set(rows[list(keys)].itertuples(index=False, name=None))
    target = TableTarget(spark, name)
    known = open_table(spark, name).list_partitions()
    parts = [one.partition for one in known]
    before = {tuple(part.value(key) for key in keys) for part in parts if part.value(DATE) in days}
    if holds:
        data = from_arrow(spark, _arrow(rows[expected])).coalesce(1)
        replace(target, data, "partitions", keys, holds, before | holds)
    elif before:
        target.drop(before)
    return name


def _types(data: DataFrame) -> dict[str, Any]:
    fields: list[dict[str, Any]] = data.schema.jsonValue()["fields"]
    return {one["name"]: one["type"] for one in fields}


def _arrow(rows: pd.DataFrame) -> pa.Table:
    import pyarrow as pa

    kinds = {"histogram": pa.list_(pa.float64()), "number": pa.float64()}
    fields = [pa.field(name, kinds.get(name, pa.string())) for name in rows.columns]
    return pa.Table.from_pandas(rows, pa.schema(fields), preserve_index=False)
