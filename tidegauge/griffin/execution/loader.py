"""Load the sources of a job as frames: open connectors, pre-process, and add the timestamp.

Pre-processing has rules in SQL and frame operations, ``df-opr``, which are extensible by
registration or entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

from tidegauge.analyzers.core.errors import (
    DslError,
    GriffinConfigError,
    NoSuchColumnError,
    SourceError,
    TidegaugeError,
    UnresolvedQueryError,
    describe,
    message_of,
)
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.core.partitions import TMST, Partition
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.analyzers.sources.sources import FrameSource, ListedPartition, Source
from tidegauge.griffin.config import ConnectorConfig, RuleConfig, SourceConfig
from tidegauge.griffin.connectors import Connector
from tidegauge.griffin.execution.user_sql import plan_error, query_text, refuse_bad_patterns
from tidegauge.griffin.plugins import CONNECTOR_REGISTRY, PluginRegistry, suggested
from tidegauge.spark.session import read_json, schema_from_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ConnectorBatch:
    """Rows of a connector.

    Attributes
    ----------
    frame : DataFrame
        The rows.
    connector : Connector
        The connector. Call its ``finish`` after the rows were measured.
    """

    frame: DataFrame
    connector: Connector


def open_batch(
    connector: ConnectorConfig, spark: SparkSession, source: str = "", *, columns_only: bool = False
) -> ConnectorBatch:
    """Read a connector as a batch frame.

    Parameters
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    spark : SparkSession
        The session that reads the rows.
    source : str
        The source's name, for messages.
    columns_only : bool
        Whether the rows are not needed, as for a check.

    Raises
    ------
    SourceError
        If it cannot be read; never returns an empty frame instead.
    """
    with _opened(connector, spark, source) as opened:
        frame = opened.columns(spark) if columns_only else opened.batch(spark)
        _ = frame.schema  # on Spark Connect a missing path raises here
        return ConnectorBatch(frame, opened)


def open_stream(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> DataFrame:
    """Read a connector as a streaming frame.

    Parameters
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    spark : SparkSession
        The session that reads the rows.
    source : str
        The source's name, for messages.

    Raises
    ------
    SourceError
        If it cannot be read as a stream.
    """
    with _opened(connector, spark, source) as opened:
        frame = opened.stream(spark)
        _ = frame.schema
        return frame


@contextmanager
def _opened(connector: ConnectorConfig, spark: SparkSession, source: str) -> Iterator[Connector]:
    """Yield the checked connector; errors become a `SourceError` that names source and connector."""
    try:
        opened: Connector = CONNECTOR_REGISTRY.load(connector.type)(connector.config)
        opened.check(spark)
        yield opened
    except Exception as error:
        prefix = f"source {source!r}: " if source else ""
        msg = f"{prefix}connector {connector.type!r}: {message_of(error)}"
        raise SourceError(hide_secrets(msg, connector.config)) from error


def open_partitioned(
    connector: ConnectorConfig,
    spark: SparkSession,
    keys: Sequence[str],
    source: str = "",
    keep: Callable[[Connector], None] | None = None,
) -> Source:
    """Open a connector as a partitioned source.

    Metastore tables and single folders of files have partition fingerprints; anything filtered or
    read otherwise has none, and is measured again.

    Parameters
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    spark : SparkSession
        The session that reads the rows.
    keys : sequence of str
        The partition columns.
    source : str
        The source's name, for messages.
    keep : callable, optional
        Called with the connector. Call its ``finish`` after the rows were measured.

    Raises
    ------
    SourceError
        If it cannot be read, or has other partition columns.
    """
    with _opened(connector, spark, source) as opened:
        if keep is not None:
            keep(opened)
        return opened.partitioned(spark, keys) or FrameSource(opened.batch(spark), tuple(keys))


def listable(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> Source | None:
    """Return the table or folder of a connector, without reading it; None if it is neither.

    Raises
    ------
    SourceError
        If it is not there.
    """
    with _opened(connector, spark, source) as opened:
        return opened.partitioned(spark, ())


Operation = Callable[["DataFrame", Mapping[str, Any]], "DataFrame"]
"""Maps a frame and the rule's details to a frame."""

O = TypeVar("O", bound=Operation)  # noqa: E741 - an operation

OPERATION_REGISTRY = PluginRegistry("operation", "tidegauge.griffin.operations", {})
CORRUPT_COLUMN = "_corrupt_record"
_PARSE_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def frame_operation(name: str) -> Callable[[O], O]:
    """Register a function as an operation of ``df-opr`` rules.

    Parameters
    ----------
    name : str
        Case-insensitive name; an existing operation is replaced.

    Examples
    --------
    >>> @frame_operation("first_rows")
    ... def first_rows(frame, details):
    ...     return frame.limit(details["rows"])
    >>> "first_rows" in OPERATION_REGISTRY
    True
    """

    def register(function: O) -> O:
        OPERATION_REGISTRY.entries[name.lower()] = function
        return function

    return register


def operate(name: str, frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Apply an operation to a frame.

    Parameters
    ----------
    name : str
        Name of the operation: the rule's text.
    frame : DataFrame
        The frame to change.
    details : mapping
        The rule's details.

    Raises
    ------
    GriffinConfigError
        If the operation does not exist, suggesting the nearest, or details are invalid.
    NoSuchColumnError
        If a required column does not exist.
    """
    operation: Operation = OPERATION_REGISTRY.load(name.strip())
    return operation(frame, details)


@frame_operation("from_json")
def from_json(frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Parse a column of JSON text into columns.

    Parameters
    ----------
    frame : DataFrame
        The frame to change.
    details : mapping
        ``col.name``, the text column (default: the first); ``schema``, the fields as DDL (default:
        inferred by reading the strings once, which a stream does not support); ``mode``, the handling
        of invalid JSON: ``PERMISSIVE`` keeps it in ``_corrupt_record``, ``DROPMALFORMED`` drops it,
        ``FAILFAST`` raises; ``keep.columns``, true or a list of other columns to keep.

    Raises
    ------
    GriffinConfigError
        If details are invalid, or a stream has no ``schema``.
    NoSuchColumnError
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType

    column = _column(frame, str(details.get("col.name") or frame.columns[0]))
    mode = str(details.get("mode") or "PERMISSIVE").upper()
    if mode not in _PARSE_MODES:
        raise GriffinConfigError(f"unknown mode {mode!r}; {suggested(mode, _PARSE_MODES)}")
    strings = frame.select(sf.col(quote(column)).cast("string").alias("value"))
    schema = _schema(strings, details.get("schema"))
    fields = [field.name for field in schema if field.name != CORRUPT_COLUMN]
    has_corrupt_column = CORRUPT_COLUMN in schema.names or bool(details.get("schema"))
    if CORRUPT_COLUMN not in schema.names:
        schema = schema.add(CORRUPT_COLUMN, StringType())
    options = {
        "mode": "FAILFAST" if mode == "FAILFAST" else "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT_COLUMN,
    }
    read = "__json"
    kept_columns = _columns_to_keep(
        frame, column, details.get("keep.columns"), {*fields, CORRUPT_COLUMN}
    )
    parsed = sf.from_json(sf.col(quote(column)).cast("string"), schema, options).alias(read)
    rows = frame.select(*[quote(name) for name in kept_columns], parsed)
    if mode == "DROPMALFORMED":
        rows = rows.where(f"{quote(read)}.{quote(CORRUPT_COLUMN)} IS NULL")
    selected = [*fields, *([CORRUPT_COLUMN] if has_corrupt_column and mode == "PERMISSIVE" else [])]
    return rows.select(
        *[quote(name) for name in kept_columns],
        *[sf.col(f"{quote(read)}.{quote(name)}").alias(name) for name in selected],
    )


@frame_operation("accuracy")
def accuracy(frame: DataFrame, details: Mapping[str, Any]) -> DataFrame:
    """Compute the matched rows and their fraction from the counts of missed and of all rows.

    One row for each row of the frame with a total above 0: ``__tmst`` if present, ``miss``,
    ``total``, ``matched``, ``matchedFraction``; ``__record``, true if its records are written,
    which they always are; ``__empty``, true if there are none.

    Parameters
    ----------
    frame : DataFrame
        Counts in the columns ``miss`` (null is 0) and ``total``.
    details : mapping
        Other names of the four columns.

    Raises
    ------
    NoSuchColumnError
    """
    name = {
        key: str(details.get(key) or key) for key in ("miss", "total", "matched", "matchedFraction")
    }
    miss, total = (quote(_column(frame, name[key])) for key in ("miss", "total"))
    counted = frame.selectExpr(
        *([quote(TMST)] if TMST in frame.columns else []),
        f"coalesce(CAST({miss} AS BIGINT), 0L) AS {quote(name['miss'])}",
        f"CAST({total} AS BIGINT) AS {quote(name['total'])}",
    ).where(f"{quote(name['total'])} > 0")
    miss, total = quote(name["miss"]), quote(name["total"])
    return counted.selectExpr(
        "*",
        f"{total} - {miss} AS {quote(name['matched'])}",
        f"({total} - {miss}) / CAST({total} AS DOUBLE) AS {quote(name['matchedFraction'])}",
        "true AS `__record`",
        f"{miss} = 0 AS `__empty`",
    )


@frame_operation("clear")
def clear(frame: DataFrame, _: Mapping[str, Any]) -> DataFrame:
    """Return an empty frame with the same columns."""
    return frame.limit(0)


def _column(frame: DataFrame, name: str) -> str:
    """Return a column's name as the frame spells it, ignoring case."""
    spelled = next((c for c in frame.columns if c.casefold() == name.casefold()), None)
    if spelled is None:
        raise NoSuchColumnError(name, frame.columns)
    return spelled


def _schema(strings: DataFrame, configured: object) -> StructType:
    """Return the given schema of JSON text, or infer it by reading the column."""
    from pyspark.errors import PySparkException

    if configured:
        try:
            return schema_from_ddl(strings.sparkSession, str(configured))
        except PySparkException as error:
            msg = f"'schema' is not a list of columns: {literal(str(configured))}"
            raise GriffinConfigError(msg) from error
    if strings.isStreaming:
        msg = "a stream cannot be read to infer its columns; set the 'schema' of its JSON in the details"
        raise GriffinConfigError(msg)
    return read_json(strings).schema


def _columns_to_keep(
    frame: DataFrame, column: str, setting: object, replaced: set[str]
) -> list[str]:
    """Return the columns to keep; JSON fields of the same name replace them."""
    if isinstance(setting, list | tuple):
        names = [_column(frame, str(name)) for name in setting]
    else:
        everything = setting is True or str(setting).lower() == "true"
        names = [c for c in frame.columns if (everything and c != column) or c == TMST]
    return [name for name in names if name not in replaced]


class Loader:
    """Load the sources of a job.

    The views behind its frames live as long as this object.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the sources.
    timestamp : int
        Timestamp of the rows, in milliseconds since 1970.
    columns_only : bool
        Whether only the columns of the sources matter, as for a check.
    """

    def __init__(self, spark: SparkSession, timestamp: int, *, columns_only: bool = False) -> None:
        self.spark, self.timestamp, self.columns_only = spark, timestamp, columns_only
        self._held: list[Views] = []
        self._opened: dict[tuple[str, int], Connector] = {}

    def load(self, config: SourceConfig) -> DataFrame:
        """Return the rows of a source, with their timestamp as ``__tmst``.

        Rows of several connectors are concatenated, with the columns that all of them have.

        Raises
        ------
        SourceError
            If the source has no connector, one cannot be read, or they share no column.
        """
        frames = []
        for number, connector in enumerate(config.connectors):
            opened = open_batch(connector, self.spark, config.name, columns_only=self.columns_only)
            self.keep(config.name, opened.connector, number)
            frames.append(self.prepared(opened.frame, connector, config.name))
        if not frames:
            raise SourceError(f"source {config.name!r} has no connector")
        return self.timed(reduce(_below, frames))

    def keep(self, source: str, connector: Connector, number: int = 0) -> None:
        """Register a connector of a source, whose `finish` is called after its rows were measured."""
        self._opened[source, number] = connector

    def finish(self) -> None:
        """Call `finish` of all connectors, after their rows were measured."""
        for connector in self._opened.values():
            connector.finish()

    def prepared(self, frame: DataFrame, connector: ConnectorConfig, source: str = "") -> DataFrame:
        """Apply a connector's pre-processing rules to a frame, and return the result of the last.

        Each rule can read the frames of the rules before it by name. A rule without names reads the
        connector's frame and replaces it.

        Raises
        ------
        SourceError
            If a rule is invalid; the message names the source and the rule.
        """
        if not connector.pre_proc:
            return frame
        views = Views(self.spark)
        self._held.append(views)
        views.add(connector.frame, frame)
        for rule in connector.pre_proc:
            try:
                frame = _prepared_frame(rule, views, connector.frame)
                views.add(rule.out_name or connector.frame, frame)
            except Exception as error:
                is_own = isinstance(error, TidegaugeError) or rule.dsl_type == "df-opr"
                query = isinstance(error, UnresolvedQueryError)
                reported = error if is_own and not query else plan_error(error, rule)
                if isinstance(reported, DslError):
                    reported.rule = None  # it is named by its source and number
                message = reported if isinstance(reported, TidegaugeError) else describe(error)
                msg = f"source {source!r}: pre.proc rule {rule.number}: {message}"
                raise SourceError(msg) from error
        return frame

    def timed(self, frame: DataFrame) -> DataFrame:
        """Return a frame with the timestamp in all of its rows."""
        from pyspark.sql import functions as F

        return frame.withColumn(TMST, F.lit(self.timestamp).cast("long"))


def _prepared_frame(rule: RuleConfig, views: Views, default: str) -> DataFrame:
    if rule.dsl_type == "df-opr":
        return operate(rule.rule, views.frame(rule.in_name or default), rule.details)
    frame = views.query(query_text(rule))
    refuse_bad_patterns(None, rule, views.spark)
    return frame


def _below(a: DataFrame, b: DataFrame) -> DataFrame:
    common = [name for name in a.columns if name in b.columns]
    if not common:
        raise SourceError(
            f"connectors of one source have no column in common: {a.columns} and {b.columns}"
        )
    return a.select(*common).unionByName(b.select(*common))


@dataclass(frozen=True)
class PreparedSource:
    """A partitioned table or folder after pre-processing.

    Attributes
    ----------
    source : Source
        The source to read.
    connector : ConnectorConfig
        The connector with the pre-processing rules.
    loader : Loader
        The loader that applies the rules.
    called : str
        Name of the source in the job.
    """

    source: Source
    connector: ConnectorConfig
    loader: Loader
    called: str = ""

    @classmethod
    def from_config(
        cls, config: SourceConfig, keys: Sequence[str], loader: Loader
    ) -> PreparedSource:
        """Create the source of a configuration.

        Raises
        ------
        SourceError
            If it is not a single table or folder with these partition columns.
        """
        if len(config.connectors) != 1:
            raise SourceError(
                f"source {config.name!r} has {len(config.connectors)} connectors; only one is measured by partitions"
            )
        (connector,) = config.connectors
        keep = partial(loader.keep, config.name)
        source = open_partitioned(connector, loader.spark, keys, config.name, keep)
        return cls(source, connector, loader, config.name)

    @property
    def name(self) -> str | None:
        """Name of the table or folder."""
        return self.source.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns."""
        return self.source.keys

    def list_partitions(self) -> list[ListedPartition]:
        """List the current partitions."""
        return self.source.list_partitions()

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of the given partitions, or of all."""
        frame = self.loader.prepared(self.source.read(partitions), self.connector, self.called)
        missing = set(self.keys) - set(frame.columns)
        if missing:
            raise SourceError(
                f"the source has no column {min(missing)!r} after its pre.proc rules, but is partitioned by it"
            )
        return self.loader.timed(frame)

    def partition_of(self, key: Sequence[str]) -> Partition | None:
        """Return the listed partition for the key values of a scan, or None."""
        return self.source.partition_of(tuple(key))
