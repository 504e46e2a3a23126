"""The tables of compared rows and of metrics, brought up to date a day at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzers.consistency.avro_types import ddl
from analyzers.consistency.comparison import Comparison
from analyzers.consistency.equality import shape
from analyzers.consistency.log_table import join_table
from analyzers.consistency.measures import COPY, LOGGED, NULL_KEY, PRESENCE
from analyzers.consistency.pairs import BUCKET, DATE
from analyzers.errors import SourceError
from analyzers.groups import only_groups
from analyzers.partitions import NULL
from analyzers.rules.targets import TableTarget, replace
from analyzers.sql import literal, quote
from analyzers.tables import open_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COMPARED = "tidegauge.compared."
"""Property of the comparison table: of what each day was made."""
_GROUP_BY = "group_by_name"


@dataclass(frozen=True)
class ComparisonTable:
    """``<namespace>.<join>_comparison``: logged rows beside backfilled ones, partitioned by ds."""

    spark: SparkSession
    name: str

    @classmethod
    def of(cls, spark: SparkSession, namespace: str, join: str) -> ComparisonTable:
        """Return that of a join.

        Raises
        ------
        SourceError
            If a table of that name is there which is none of compared rows.
        """
        found = cls(spark, join_table(namespace, join, "comparison"))
        if found.exists() and not {PRESENCE, COPY, NULL_KEY, DATE} <= set(found._columns()):
            raise SourceError(f"{found.name} was not made by a comparison; rename it")
        return found

    def marks(self) -> dict[str, str]:
        """Return of what each day was made; none if the table is not there."""
        if not self.exists():
            return {}
        found: dict[str, str] = dict(self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect())
        return {
            key.removeprefix(_COMPARED): mark
            for key, mark in found.items()
            if key.startswith(_COMPARED)
        }

    def features(self) -> tuple[str, ...]:
        """Return the features whose logged and backfilled values it holds, in small letters."""
        columns = [name.casefold() for name in self._columns()]
        return tuple(name for name in columns if LOGGED + name in columns)

    def read(self, days: Collection[str]) -> DataFrame:
        """Return the rows of some days."""
        return only_groups(self.spark.table(self.name), (DATE,), [(day,) for day in days])

    def write(self, data: DataFrame, marks: Mapping[str, str]) -> None:
        """Replace some days, and remember of what they were made.

        Parameters
        ----------
        data : DataFrame
        marks : mapping of str to str
            By day. Days that have no rows are emptied.

        Raises
        ------
        SourceError
            If a column's type is another than before.
        """
        before = self._fingerprints()
        if self.exists():
            data = self._fitted(data)
            # A run that is killed while it writes leaves days of which nobody knows what they are.
            keys = ", ".join(literal(_COMPARED + day) for day in marks)
            self.spark.sql(
                f"ALTER TABLE {self.name} UNSET TBLPROPERTIES IF EXISTS ({keys})"
            ).collect()
        target = TableTarget(self.spark, self.name)
        target.write(data, "partitions", [DATE], ())
        # Writing replaces days that have rows; those whose files are the same have none any more.
        after = self._fingerprints()
        target.drop([(day,) for day in marks if day in before and before[day] == after.get(day)])
        told = ", ".join(f"{literal(_COMPARED + d)} = {literal(m)}" for d, m in marks.items())
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({told})").collect()

    def exists(self) -> bool:
        """Whether it is there."""
        return self.spark.catalog.tableExists(self.name)

    def _columns(self) -> list[str]:
        return self.spark.table(self.name).columns

    def _fitted(self, data: DataFrame) -> DataFrame:
        """Return rows with the columns that the table has; those that are new are appended to it first."""
        types, there = _types(data), _types(self.spark.table(self.name))
        known = {name.casefold(): shape(of) for name, of in there.items()}
        for name, of in types.items():
            now, before = shape(of), known.get(name.casefold())
            if before is not None and now != before:
                raise SourceError(
                    f"{name!r} is {now} now and {before} in {self.name}: drop that table, and its days"
                    " are compared again"
                )
        new = [f"{quote(n)} {ddl(t)}" for n, t in types.items() if n.casefold() not in known]
        if new:
            self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})").collect()
        given = {name.casefold() for name in types}
        lacking = (
            f"CAST(NULL AS {ddl(t)}) AS {quote(n)}"
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
    """Write the metrics of some days in long form as ``<namespace>.<join>_consistency_metrics``.

    The table has the columns feature_name, metric_name, those by which results are told apart beside the time,
    histogram and number, of which exactly one is not null; it is partitioned by ds, hr_minute and
    group_by_name. What it had of these days is replaced.

    Returns
    -------
    str
        The table's full name, quoted.

    Raises
    ------
    SourceError
        If the table is there and has other columns.
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
        data = spark.createDataFrame(_arrow(rows[expected])).coalesce(1)
        replace(target, data, "partitions", keys, holds, before | holds)
    elif before:
        target.drop(before)
    return name


def _types(data: DataFrame) -> dict[str, Any]:
    fields: list[dict[str, Any]] = data.schema.jsonValue()["fields"]
    return {one["name"]: one["type"] for one in fields}


def _arrow(rows: pd.DataFrame) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - heavy

    kinds = {"histogram": pa.list_(pa.float64()), "number": pa.float64()}
    fields = [pa.field(name, kinds.get(name, pa.string())) for name in rows.columns]
    return pa.Table.from_pandas(rows, pa.schema(fields), preserve_index=False)
