"""Capabilities of a Spark session, and the cost of reading a DataFrame, both asked of Spark before a scan.

Platforms run Spark 3.5 to 4.3, with functions of their own and without some of Spark's. So nothing
here is concluded from a version: the session is asked, once, what it has natively; the rest is computed in
another way. Costs are estimated from Spark's plan of a DataFrame and from its first rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tidegauge.analyzers.core.analyzer import NATIVE_SKETCHES, Sketch
from tidegauge.analyzers.core.errors import UnsupportedSparkError
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.spark_errors import handled_errors
from tidegauge.analyzers.scan.user_sql import Views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


OLDEST = "3.5"
"""Oldest release line of Spark whose functions suffice."""


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a session.

    Attributes
    ----------
    sketches : frozenset of str
        Kinds of `Sketch` that Spark's own functions build; Python workers build the others.
    smallest_rows : bool
        Whether ``min_by`` accepts the number of rows to return.
    """

    sketches: frozenset[str]
    smallest_rows: bool

    def is_native(self, sketch: Sketch) -> bool:
        """Return whether one of Spark's own functions builds a sketch."""
        return sketch.kind in self.sketches and not sketch.elements

    def fallbacks(self) -> dict[str, str]:
        """Return what is computed in another way, by what it is used for."""
        workers = "in Python workers, by datasketches"
        found = {
            NATIVE_SKETCHES[kind].purpose: workers
            for kind in NATIVE_SKETCHES
            if kind not in self.sketches
        }
        if not self.smallest_rows:
            found["samples of rejected records"] = "by sorting"
        return found


RANK, SET = "__tidegauge_rank", "__tidegauge_set"
_KNOWN: WeakKeyDictionary[SparkSession, Capabilities] = WeakKeyDictionary()


def capabilities(spark: SparkSession) -> Capabilities:
    """Return what a session can do; it is asked once.

    Raises
    ------
    UnsupportedSparkError
        If its Spark is older than 3.5.
    """
    found = _KNOWN.get(spark)
    if found is None:
        found = _KNOWN[spark] = _ask(spark)
    return found


def _ask(spark: SparkSession) -> Capabilities:
    exists = spark.catalog.functionExists
    native = frozenset(kind for kind, own in NATIVE_SKETCHES.items() if exists(own.function))
    if "hll" not in native:
        msg = (
            f"Spark {spark.version} is too old: tidegauge needs {OLDEST} or later; "
            "run it on a cluster with a later Spark, or pip install 'tidegauge[spark]'"
        )
        raise UnsupportedSparkError(msg)
    return Capabilities(
        native,
        smallest_rows=_resolves(spark, "SELECT min_by(1, 1, 1)"),
    )


@handled_errors()
def _resolves(spark: SparkSession, query: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        spark.sql(query).schema  # noqa: B018 - forces resolution
    except AnalysisException:
        return False
    return True


def activate(spark: SparkSession) -> None:
    """Make a session the active one of this thread.

    Before Spark 4, expressions are bound to the settings of the thread's active session when they are
    written: without one, ANSI mode was off and a division by zero was null. Creating a DataFrame is
    the public call that sets it.
    """
    if not hasattr(_frame_class(), "groupingSets"):
        spark.createDataFrame([], "x int")


def aggregate_by_sets(
    data: DataFrame, sets: Sequence[Sequence[str]], columns: Sequence[str], cells: Sequence[Column]
) -> DataFrame:
    """Aggregate by grouping sets; the grouping columns come first, null where a set lacks them.

    Before Spark 4, a row is repeated for each set, which is what Spark's own operator does.
    """
    if hasattr(data, "groupingSets"):
        return data.groupingSets(sets, *columns).agg(*cells)
    number = f"explode(array({', '.join(map(str, range(len(sets))))})) AS {SET}"
    cased = []
    for column in columns:
        there = ", ".join(str(i) for i, some in enumerate(sets) if column in some)
        cased.append(f"CASE WHEN {SET} IN ({there}) THEN {column} END AS {column}")
    others = [quote(column) for column in data.columns if column not in columns]
    spread = data.selectExpr("*", number).selectExpr(*others, SET, *cased)
    return spread.groupBy(SET, *columns).agg(*cells).drop(SET)


def smallest(data: DataFrame, key: str, value: str, by: str, number: int) -> DataFrame:
    """Return a row for each key, with an array of the values of the rows that are smallest by a column.

    Where ``min_by`` returns one row only, rows are sorted, so that memory stays bounded.
    """
    from pyspark.sql import functions as F

    if capabilities(data.sparkSession).smallest_rows:
        return data.groupBy(key).agg(F.expr(f"min_by({value}, {by}, {number})"))
    rank = f"row_number() OVER (PARTITION BY {key} ORDER BY {by}) AS {RANK}"
    ranked = data.selectExpr(key, value, rank).where(f"{RANK} <= {number}")
    pairs = F.expr(f"array_sort(collect_list(struct({RANK}, {value} AS v)))")
    return ranked.groupBy(key).agg(pairs.alias(RANK)).selectExpr(key, f"{RANK}.v")


_PACKAGES = ("pyarrow", "numpy", "datasketches")
"""Packages that Python workers import to build sketches."""
_NOT_THERE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


def worker_error(error: BaseException) -> UnsupportedSparkError | None:
    """Return the error that says which package Spark's Python workers lack; None if it is another."""
    found = _NOT_THERE.search(str(error))
    if found is None:
        return None
    return UnsupportedSparkError(
        f"Spark's Python workers have no {found[1]}. On a cluster, ship an environment that has it by"
        " spark.archives, or install it on every worker (docs/deployment.md). In local mode, set"
        f" PYSPARK_PYTHON={sys.executable} before Spark starts."
    )


def worker_versions(spark: SparkSession) -> dict[str, str | None]:
    """Return the versions of the packages in Spark's Python workers; None for those that are missing."""
    from pyspark.sql import functions as F

    packages = _PACKAGES

    def version(name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Spark would read them
        from importlib import metadata

        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    frame = spark.createDataFrame([(name,) for name in packages], "name string")
    asked = frame.select("name", F.udf(version, "string")("name")).collect()
    return {name: found for name, found in asked}  # noqa: C416 - rows are tuples


_EQUIPPED: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


@handled_errors()
def workers_are_equipped(spark: SparkSession) -> bool:
    """Return whether a session has Python workers with all packages; they are asked once."""
    found = _EQUIPPED.get(spark)
    if found is None:
        try:
            found = all(worker_versions(spark).values())
        except Exception:  # noqa: BLE001 - no Python, another version, functions that are forbidden
            found = False
        _EQUIPPED[spark] = found
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    options: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )
    found: pa.Schema = to_arrow_schema(schema, **options)
    return found


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Make a DataFrame of an Arrow table without maps; before Spark 4, row by row."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if hasattr(_frame_class(), "toArrow"):
        return spark.createDataFrame(table)
    schema = from_arrow_schema(table.schema)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(rows, schema)


def _frame_class() -> type[DataFrame]:
    from pyspark.sql import DataFrame

    return DataFrame


def to_arrow(frame: DataFrame) -> pa.Table:
    """Collect a DataFrame as an Arrow table; before Spark 4, its batches travel as bytes."""
    import pyarrow as pa

    if hasattr(frame, "toArrow"):
        table: pa.Table = frame.toArrow()
        return table
    batches = [
        batch
        for (packed,) in frame.mapInArrow(_batch_packer(), "packed binary").collect()
        for batch in pa.ipc.open_stream(bytes(packed))
    ]
    if batches:
        return pa.Table.from_batches(batches)
    return arrow_schema(frame.schema).empty_table()


def _batch_packer() -> Any:
    """Return a function for ``mapInArrow`` that serializes batches; self-contained for the workers."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.RecordBatch.from_pydict({"packed": [sink.getvalue().to_pybytes()]})

    return pack


_SET: WeakKeyDictionary[SparkSession, dict[str, tuple[str | None, int]]] = WeakKeyDictionary()
"""Settings that are set temporarily: the value before, and the number of threads that rely on them."""
_SETTING = Lock()


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Context manager: set session settings temporarily, and restore them on exit.

    Threads may set the same ones: the last to leave restores what was there before the first.
    """
    held, entered = _SET.setdefault(spark, {}), []
    try:
        with _SETTING:
            for key, value in settings.items():
                before, users = held.get(key) or (spark.conf.get(key, None), 0)
                spark.conf.set(key, value)
                held[key] = before, users + 1
                entered.append(key)
        yield
    finally:
        with _SETTING:
            for key in entered:
                before, users = held.pop(key)
                if users > 1:
                    held[key] = before, users - 1
                elif before is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, before)


SMALL_BYTES = 2**20
"""Size of files up to which data is small: then the number of jobs matters, not their speed."""
SAMPLE_ROWS = 10_000
SAMPLE_VALUES = 8 * SAMPLE_ROWS
"""Most rows, and values of all columns, that are read beforehand."""
COLUMN_BYTES = 5
"""Bytes of a value in Parquet, roughly: between one of few texts and a double."""
_UNKNOWN_SIZE = 2.0**60
"""Size from which on Spark knows none: rows of the driver are said to take eight exabytes."""

_SIZE = re.compile(r"Statistics\(sizeInBytes=(\d+(?:\.\d+)?(?:E\+?\d{1,2})?) ((?:[KMGTPE]i)?)B\b")
"""Names of columns stand in the same text, so it is strict; one that looks like a size costs only time."""
_COLUMNAR = re.compile(r"Scan (?:parquet|orc)\b|\(branch=", re.IGNORECASE)
_COMPUTED = re.compile(
    r"(?:Aggregate|Exchange|Generate|Join|Python|Window)\b|\bFilter\b|Scan (?:csv|json|text|hive)\b"
)
"""Parts of a physical plan. A name of a column that looks like one only costs time."""
_FACTORS = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)} | {"": 1.0}


@dataclass(frozen=True)
class PlanCost:
    """Spark's estimate of a DataFrame.

    Attributes
    ----------
    size : float
        Bytes; infinite if Spark gives none.
    shuffles : bool
        Whether reading the first rows computes more than those rows: the plan has a shuffle.
    plain : bool
        Whether columns and first rows are read alone: the data are files of columns, as they are.
    """

    size: float
    shuffles: bool
    plain: bool = False

    @property
    def small(self) -> bool:
        """Whether the data are so small that fewer jobs are better than faster ones."""
        return self.size <= SMALL_BYTES

    @property
    def sampled(self) -> bool:
        """Whether the first rows cost little beside all rows."""
        return not self.small and not self.shuffles

    def rows(self, columns: int) -> float:
        """Return a rough number of rows; zero if Spark knows no size."""
        return self.size / (COLUMN_BYTES * columns) if self.size < _UNKNOWN_SIZE else 0.0


def plan_cost(data: DataFrame) -> PlanCost:
    """Estimate the cost of reading a DataFrame, without a job: Spark explains its plan.

    Its text is the only interface to its statistics that Spark Connect has, too.
    """
    from pyspark.errors import AnalysisException

    views = Views(data.sparkSession)
    try:
        views.add("data", data)
        sql = f"EXPLAIN COST SELECT * FROM {views.view('data')}"  # noqa: S608 - a name of ours
        ((text,),) = data.sparkSession.sql(sql).collect()
    except AnalysisException:  # such as files that are gone: the scan tells of it
        return PlanCost(inf, shuffles=True)
    finally:
        views.drop()
    logical, _, physical = text.partition("== Physical Plan ==")
    found = _SIZE.search(logical)
    size = float(found[1]) * _FACTORS[found[2]] if found else inf
    scans, other = _COLUMNAR.search(physical), _COMPUTED.search(physical)
    return PlanCost(size, "Exchange" in physical, bool(scans) and not other)


def mostly_distinct(data: DataFrame, columns: Sequence[str]) -> bool:
    """Return whether most of the first rows differ in some columns."""
    head = data.selectExpr(f"xxhash64({', '.join(columns)})").limit(SAMPLE_ROWS).collect()
    return 2 * len(set(head)) > len(head)


def distinct_in_first_rows(data: DataFrame, columns: Sequence[str]) -> tuple[int, list[int]]:
    """Return how many of the first rows were read, and the number of distinct values in each column."""
    rows = min(SAMPLE_ROWS, SAMPLE_VALUES // len(columns))
    hashes = [f"xxhash64({column})" for column in columns]
    head = data.selectExpr(*hashes).limit(rows).collect()
    return len(head), [len({row[i] for row in head}) for i in range(len(columns))]
