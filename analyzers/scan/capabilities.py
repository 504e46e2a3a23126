"""Capabilities of a Spark session and the cost of reading a DataFrame, both determined before a scan.

Platforms run Spark 3.5 to 4.3 with additional functions, or without some of Spark's functions. So the
version does not decide: each session is probed once for native functions, and fallbacks replace missing
ones. Costs are estimated from Spark's plan of a DataFrame and from its first rows.
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


MIN_SPARK_VERSION = "3.5"
"""Oldest release line of Spark that has all required functions."""


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
        """Return the fallbacks for missing functions, by the purpose of the function."""
        workers = "in Python workers, with datasketches"
        fallbacks = {
            NATIVE_SKETCHES[kind].purpose: workers
            for kind in NATIVE_SKETCHES
            if kind not in self.sketches
        }
        if not self.smallest_rows:
            fallbacks["samples of rejected records"] = "by sorting"
        return fallbacks


RANK_COLUMN, SET_COLUMN = "__tidegauge_rank", "__tidegauge_set"
_CAPABILITIES_BY_SESSION: WeakKeyDictionary[SparkSession, Capabilities] = WeakKeyDictionary()


def capabilities(spark: SparkSession) -> Capabilities:
    """Return the capabilities of a session; each session is probed once.

    Raises
    ------
    UnsupportedSparkError
        If the session's Spark is older than 3.5.
    """
    result = _CAPABILITIES_BY_SESSION.get(spark)
    if result is None:
        result = _CAPABILITIES_BY_SESSION[spark] = _detect_capabilities(spark)
    return result


def _detect_capabilities(spark: SparkSession) -> Capabilities:
    exists = spark.catalog.functionExists
    native = frozenset(
        kind for kind, native_sketch in NATIVE_SKETCHES.items() if exists(native_sketch.function)
    )
    if "hll" not in native:
        msg = (
            f"Spark {spark.version} is too old: tidegauge needs {MIN_SPARK_VERSION} or later; "
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
    """Make a session the active session of this thread.

    Before Spark 4, expressions take the settings of the thread's active session when they are created.
    Without an active session, ANSI mode is off and a division by zero returns null. Creating a DataFrame is
    the public call that sets the active session.
    """
    if not hasattr(_frame_class(), "groupingSets"):
        spark.createDataFrame([], "x int")


def aggregate_by_sets(
    data: DataFrame, sets: Sequence[Sequence[str]], columns: Sequence[str], cells: Sequence[Column]
) -> DataFrame:
    """Aggregate by grouping sets.

    The grouping columns come first in the result; a column is null in the rows of sets without it. Before
    Spark 4, each row is repeated for each set, as Spark's own operator does.

    Parameters
    ----------
    data : DataFrame
        The data.
    sets : sequence of sequence of str
        The columns of each grouping set.
    columns : sequence of str
        All grouping columns.
    cells : sequence of Column
        The aggregates.
    """
    if hasattr(data, "groupingSets"):
        return data.groupingSets(sets, *columns).agg(*cells)
    number = f"explode(array({', '.join(map(str, range(len(sets))))})) AS {SET_COLUMN}"
    cased = []
    for column in columns:
        numbers = ", ".join(str(i) for i, members in enumerate(sets) if column in members)
        cased.append(f"CASE WHEN {SET_COLUMN} IN ({numbers}) THEN {column} END AS {column}")
    other_columns = [quote(column) for column in data.columns if column not in columns]
    spread = data.selectExpr("*", number).selectExpr(*other_columns, SET_COLUMN, *cased)
    return spread.groupBy(SET_COLUMN, *columns).agg(*cells).drop(SET_COLUMN)


def smallest(data: DataFrame, key: str, value: str, order_column: str, number: int) -> DataFrame:
    """Return one row per key, with an array of the values of the first rows in the order of a column.

    If ``min_by`` cannot return several rows, the rows are sorted, so that memory stays bounded.

    Parameters
    ----------
    data : DataFrame
        The data.
    key : str
        The column to group by.
    value : str
        The column whose values are returned.
    order_column : str
        The column that decides which rows are first.
    number : int
        Maximum number of values per key.
    """
    from pyspark.sql import functions as F

    if capabilities(data.sparkSession).smallest_rows:
        return data.groupBy(key).agg(F.expr(f"min_by({value}, {order_column}, {number})"))
    rank = f"row_number() OVER (PARTITION BY {key} ORDER BY {order_column}) AS {RANK_COLUMN}"
    ranked = data.selectExpr(key, value, rank).where(f"{RANK_COLUMN} <= {number}")
    pairs = F.expr(f"array_sort(collect_list(struct({RANK_COLUMN}, {value} AS v)))")
    return ranked.groupBy(key).agg(pairs.alias(RANK_COLUMN)).selectExpr(key, f"{RANK_COLUMN}.v")


_WORKER_PACKAGES = ("pyarrow", "numpy", "datasketches")
"""Packages that Python workers import to build sketches."""
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


def worker_error(error: BaseException) -> UnsupportedSparkError | None:
    """Return an error that names the package that Spark's Python workers lack; None for other errors."""
    match = _MISSING_MODULE.search(str(error))
    if match is None:
        return None
    return UnsupportedSparkError(
        f"Spark's Python workers have no {match[1]}. On a cluster, ship an environment that has it with"
        " spark.archives, or install it on every worker (docs/deployment.md). In local mode, set"
        f" PYSPARK_PYTHON={sys.executable} before Spark starts."
    )


def worker_versions(spark: SparkSession) -> dict[str, str | None]:
    """Return the versions of packages in Spark's Python workers; None for a missing package."""
    from pyspark.sql import functions as F

    packages = _WORKER_PACKAGES

    def version(name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Spark reads annotations
        from importlib import metadata

        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    frame = spark.createDataFrame([(name,) for name in packages], "name string")
    rows = frame.select("name", F.udf(version, "string")("name")).collect()
    return {name: installed for name, installed in rows}  # noqa: C416 - rows are tuples


_EQUIPPED_BY_SESSION: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


@handled_errors()
def workers_are_equipped(spark: SparkSession) -> bool:
    """Return whether a session has Python workers with all packages; each session is probed once."""
    is_equipped = _EQUIPPED_BY_SESSION.get(spark)
    if is_equipped is None:
        try:
            is_equipped = all(worker_versions(spark).values())
        except Exception:  # noqa: BLE001 - no Python, another version, functions that are forbidden
            is_equipped = False
        _EQUIPPED_BY_SESSION[spark] = is_equipped
    return is_equipped


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    options: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )
    result: pa.Schema = to_arrow_schema(schema, **options)
    return result


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Create a DataFrame from an Arrow table without maps; before Spark 4, row by row."""
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
    """Collect a DataFrame as an Arrow table; before Spark 4, its batches are sent as bytes."""
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


_SAVED_SETTINGS: WeakKeyDictionary[SparkSession, dict[str, tuple[str | None, int]]] = (
    WeakKeyDictionary()
)
"""Temporarily changed settings: the original value, and the number of threads that use the setting."""
_SETTINGS_LOCK = Lock()


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Context manager: set session settings temporarily, and restore them on exit.

    Several threads can change the same settings: the last thread to leave restores the original values.
    """
    saved, entered = _SAVED_SETTINGS.setdefault(spark, {}), []
    try:
        with _SETTINGS_LOCK:
            for key, value in settings.items():
                previous, users = saved.get(key) or (spark.conf.get(key, None), 0)
                spark.conf.set(key, value)
                saved[key] = previous, users + 1
                entered.append(key)
        yield
    finally:
        with _SETTINGS_LOCK:
            for key in entered:
                previous, users = saved.pop(key)
                if users > 1:
                    saved[key] = previous, users - 1
                elif previous is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, previous)


SMALL_BYTES = 2**20
"""Maximum size of small data, for which the number of jobs matters more than their speed."""
SAMPLE_ROWS = 10_000
SAMPLE_VALUES = 8 * SAMPLE_ROWS
"""Maximum number of rows, and of values in all columns, to read beforehand."""
COLUMN_BYTES = 5
"""Rough size of a value in Parquet, between a dictionary-encoded string and a double."""
_UNKNOWN_SIZE = 2.0**60
"""Sizes from here on mean that the size is unknown: Spark reports eight exabytes for rows of the driver."""

_SIZE_IN_PLAN = re.compile(
    r"Statistics\(sizeInBytes=(\d+(?:\.\d+)?(?:E\+?\d{1,2})?) ((?:[KMGTPE]i)?)B\b"
)
"""The same string contains column names, so the pattern is strict. A false match only costs time."""
_COLUMNAR_SCAN = re.compile(r"Scan (?:parquet|orc)\b|\(branch=", re.IGNORECASE)
_COMPUTED_STEP = re.compile(
    r"(?:Aggregate|Exchange|Generate|Join|Python|Window)\b|\bFilter\b|Scan (?:csv|json|text|hive)\b"
)
"""Steps of a physical plan. A column name that looks like a step only costs time."""
_BYTES_BY_UNIT = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)} | {
    "": 1.0
}


@dataclass(frozen=True)
class PlanCost:
    """Spark's estimate of a DataFrame.

    Attributes
    ----------
    size : float
        Size in bytes; infinite if Spark reports none.
    shuffles : bool
        Whether the plan has a shuffle, so that reading the first rows computes more than these rows.
    plain : bool
        Whether the plan only reads columnar files, so that single columns and the first rows can be read
        without the rest.
    """

    size: float
    shuffles: bool
    plain: bool = False

    @property
    def small(self) -> bool:
        """Whether the data is so small that fewer jobs are better than faster jobs."""
        return self.size <= SMALL_BYTES

    @property
    def sampled(self) -> bool:
        """Whether reading the first rows costs little compared with reading all rows."""
        return not self.small and not self.shuffles

    def rows(self, columns: int) -> float:
        """Return a rough number of rows; zero if the size is unknown."""
        return self.size / (COLUMN_BYTES * columns) if self.size < _UNKNOWN_SIZE else 0.0


def plan_cost(data: DataFrame) -> PlanCost:
    """Estimate the cost of reading a DataFrame from Spark's explained plan, without running a job.

    The explained plan is the only source of statistics that also works with Spark Connect.
    """
    from pyspark.errors import AnalysisException

    views = Views(data.sparkSession)
    try:
        views.add("data", data)
        sql = f"EXPLAIN COST SELECT * FROM {views.view('data')}"  # noqa: S608 - a name of ours
        ((explained,),) = data.sparkSession.sql(sql).collect()
    except AnalysisException:  # such as deleted files, which the scan reports
        return PlanCost(inf, shuffles=True)
    finally:
        views.drop()
    logical, _, physical = explained.partition("== Physical Plan ==")
    size_match = _SIZE_IN_PLAN.search(logical)
    size = float(size_match[1]) * _BYTES_BY_UNIT[size_match[2]] if size_match else inf
    scans, computed = _COLUMNAR_SCAN.search(physical), _COMPUTED_STEP.search(physical)
    return PlanCost(size, "Exchange" in physical, bool(scans) and not computed)


def mostly_distinct(data: DataFrame, columns: Sequence[str]) -> bool:
    """Return whether most of the first rows differ in the given columns."""
    head = data.selectExpr(f"xxhash64({', '.join(columns)})").limit(SAMPLE_ROWS).collect()
    return 2 * len(set(head)) > len(head)


def distinct_in_first_rows(data: DataFrame, columns: Sequence[str]) -> tuple[int, list[int]]:
    """Return the number of first rows that were read, and the number of distinct values in each column."""
    rows = min(SAMPLE_ROWS, SAMPLE_VALUES // len(columns))
    hashes = [f"xxhash64({column})" for column in columns]
    head = data.selectExpr(*hashes).limit(rows).collect()
    return len(head), [len({row[i] for row in head}) for i in range(len(columns))]
