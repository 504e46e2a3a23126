"""Observed writes: aggregates that Spark computes while a DataFrame is written, by its `Observation`.

An expression that fails on a value would fail the write. So only analyzers whose expressions accept every value
are observed. A run uses the results for a partition only if the partition has as many rows as were observed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.columnar.engines import Route
from tidegauge.analyzers.columnar.footers import read_footers
from tidegauge.analyzers.columnar.planner import ColumnarResult, kernel_of
from tidegauge.analyzers.core.analyzer import ROWS, Aggregate, AnyAnalyzer, Request, Sketch
from tidegauge.analyzers.core.conditions import LikeCondition, known_sql, parse_condition
from tidegauge.analyzers.core.metric import Success, attempt
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.texts import PatternMatch
from tidegauge.analyzers.scan.capabilities import Capabilities, activate
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX
from tidegauge.analyzers.scan.plan import plan, requests_of
from tidegauge.analyzers.scan.scan import scan
from tidegauge.analyzers.sources.sources import FrameSource, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_REPORT_SECONDS = 30.0
"""Time to wait for the results of a write. Spark reports them after the write, within milliseconds unless its
listeners are far behind; without a write it never does."""

LOSSLESS_FORMATS = frozenset({"parquet", "orc", "delta", "iceberg"})
"""Formats that return every value as it was written. In text formats, for example, an empty string can become
null."""

_MEASURES = "tidegauge.analyzers.measures."
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class ObservedRows:
    """The aggregates of an observed write.

    Attributes
    ----------
    partition : Partition
        The partition that was written.
    schema : Schema
        The columns that were written, without the partition columns.
    cells : mapping of Request to object
        The result of each request, the row count among them.
    written : int or None
        The number of rows that were written, if the caller knows it.
    """

    partition: Partition
    schema: Schema
    cells: Mapping[Request, Any]
    written: int | None = None

    @property
    def rows(self) -> int:
        """The number of observed rows."""
        return int(self.cells[ROWS])

    def answer(
        self, source: Source, analyzers: Iterable[AnyAnalyzer], private: Privacy
    ) -> ColumnarResult | None:
        """Return the states that a scan of the partition would give; None if it must be scanned.

        An analyzer is answered if its requests for the columns of the source were all observed.

        Parameters
        ----------
        source : Source
            The table that was written, or a `FrameSource` of the written data.
        analyzers : iterable of Analyzer
            The analyzers of the run.
        private : Privacy
            Columns whose values go into no state.
        """
        if not self._was_written_to(source):
            return None
        schema = Schema.from_frame(source.read([self.partition]))
        measured = schema.without(schema.keys_only)
        outcomes: dict[AnyAnalyzer, Success[Any]] = {}
        if self.rows and _columns(schema, source.keys) == _columns(self.schema, source.keys):
            for analyzer in analyzers:
                requests = attempt(partial(requests_of, analyzer, measured, private))
                if isinstance(requests, Success) and self.cells.keys() >= set(requests.value):
                    cells = [self.cells[request] for request in requests.value]
                    state = attempt(partial(analyzer.fold, cells))
                    if isinstance(state, Success):
                        outcomes[analyzer] = state
        if not outcomes:
            return None
        return ColumnarResult(schema, self.rows, outcomes, dict.fromkeys(outcomes, Route.WRITE))

    def _was_written_to(self, source: Source) -> bool:
        """Return whether the partition consists of the observed rows, as far as their number shows."""
        written = self.written
        if not isinstance(source, FrameSource):
            if format_of(source) not in LOSSLESS_FORMATS:
                return False
            written = count_rows_of(source, self.partition) if written is None else written
        if written is None or written == self.rows:
            return True
        name = self.partition.name or "the table"
        _LOGGER.warning(
            "%s has %d rows, but %d were observed: it is measured again", name, written, self.rows
        )
        return False


@dataclass
class Observer:
    """A DataFrame whose rows are aggregated while it is written.

    Attributes
    ----------
    frame : DataFrame
        The DataFrame to write.
    schema : Schema
        Its columns, without the partition columns.
    requests : tuple of Request
        The observed requests, the row count first.
    analyzers : tuple of Analyzer
        The analyzers whose requests are all observed.
    """

    frame: DataFrame
    schema: Schema
    requests: tuple[Request, ...]
    analyzers: tuple[AnyAnalyzer, ...]
    _observation: Any = field(repr=False, default=None)

    @classmethod
    def of_frame(
        cls,
        data: DataFrame,
        analyzers: Iterable[AnyAnalyzer],
        keys: Sequence[str] = (),
        *,
        reads_files: bool = False,
    ) -> Observer:
        """Observe a DataFrame.

        Parameters
        ----------
        data : DataFrame
            The data of one partition.
        analyzers : iterable of Analyzer
            The analyzers; those that cannot be observed are left out.
        keys : sequence of str
            The partition columns, which the data can contain.
        reads_files : bool
            Whether the written files are Parquet and will be measured. Analyzers that need no Spark SQL then
            are left out, because reading columns takes a fraction of the CPU time of Spark's expressions. If no
            analyzer is left, nothing is observed.
        """
        from pyspark.sql import functions as F

        activate(data.sparkSession)
        rows = data.drop(*keys)
        scan_plan = plan(rows, analyzers)
        table_schema = _with_keys(scan_plan.schema, keys)
        observed = {
            analyzer: sql
            for analyzer, requests in scan_plan.requests.items()
            if accepts_every_value(analyzer, scan_plan.schema)
            and not (
                reads_files and _is_measured_by_files(analyzer, table_schema, data.sparkSession)
            )
            # With partition columns, a table has more columns than the written rows.
            and attempt(partial(requests_of, analyzer, table_schema, PUBLIC)) == Success(requests)
            and (sql := _observable_sql(requests, scan_plan.session)) is not None
        }
        schema = Schema.from_frame(rows)
        if reads_files and not observed:
            return cls(data, schema, (), ())
        sql_by_request: dict[Request, str] = {ROWS: ROWS.text}
        for sql in observed.values():
            sql_by_request |= sql
        cells = [F.expr(sql).alias(_cell_name(i)) for i, sql in enumerate(sql_by_request.values())]
        observation = _observation_for(data)
        frame = data.observe(observation, *cells)
        return cls(frame, schema, tuple(sql_by_request), tuple(observed), observation)

    def results(self) -> dict[Request, Any] | None:
        """Return the results of the first write; None if Spark reports none.

        Outside of Spark Connect, Spark's method waits forever if the frame is not written.
        """
        if self._observation is None:
            return None
        reported: list[Mapping[str, Any]] = []
        thread = Thread(target=lambda: reported.append(_reported(self._observation)), daemon=True)
        thread.start()
        thread.join(MAX_REPORT_SECONDS)
        values = reported[0] if reported else {}
        if _cell_name(0) not in values:
            return None
        return {
            request: _sketches(values[_cell_name(i)])
            if isinstance(request, Sketch)
            else values[_cell_name(i)]
            for i, request in enumerate(self.requests)
        }


def _observable_sql(
    requests: Iterable[Request], session: Capabilities
) -> dict[Request, str] | None:
    """Return the aggregates that answer requests; None if an observation cannot compute one of them."""
    sql: dict[Request, str] = {}
    for request in requests:
        match request:
            case Aggregate(text, None):
                sql[request] = text
            case Sketch() if session.is_native(request):
                sql[request] = request.text
            case _:
                return None
    return sql


def _is_measured_by_files(analyzer: AnyAnalyzer, schema: Schema, spark: SparkSession) -> bool:
    """Return whether an analyzer will need no Spark SQL once the rows are written as Parquet."""
    kernel = attempt(partial(kernel_of, analyzer, schema))
    if not isinstance(kernel, Success) or kernel.value is None:
        return False
    time_type = str(spark.conf.get("spark.sql.parquet.outputTimestampType", "INT96"))
    # Only Spark reads INT96 as Spark does.
    return time_type.upper() != "INT96" or all(
        schema.field_type(column) != "timestamp" for column in kernel.value.columns
    )


def accepts_every_value(analyzer: AnyAnalyzer, schema: Schema) -> bool:
    """Return whether an analyzer's expressions succeed on every value, so that they cannot fail a write.

    This holds for the analyzers of Tidegauge if users' conditions compare a column with constants of its type.
    Regular expressions of users are excluded: an invalid one fails, and Java's can exceed the stack on long
    strings.

    Examples
    --------
    >>> import tidegauge as tg
    >>> schema = Schema.from_types({"x": "long", "s": "string"})
    >>> accepts_every_value(tg.Mean("x", where="x > 0"), schema)
    True
    >>> accepts_every_value(tg.Compliance("share", "1 / x < 2"), schema)
    False
    >>> accepts_every_value(tg.PatternMatch("s", "(a|b)*"), schema)
    False
    """
    return (
        type(analyzer).__module__.startswith(_MEASURES)
        and not isinstance(analyzer, PatternMatch)
        and all(
            known_sql(sql, schema) != sql and not isinstance(parse_condition(sql), LikeCondition)
            for sql in analyzer.expressions()
        )
    )


def format_of(source: Source) -> str:
    """Return the format of a source's files, in lower case; empty if it is unknown.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> format_of(SimpleNamespace(format="Parquet"))
    'parquet'
    >>> format_of(SimpleNamespace(description=SimpleNamespace(provider="orc")))
    'orc'
    """
    provider = getattr(getattr(source, "description", None), "provider", "")
    return str(getattr(source, "format", provider)).casefold()


def is_measured_by_files(source: Source) -> bool:
    """Return whether the partitions of a table are measured by their files; False if it has no partitions.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> is_measured_by_files(SimpleNamespace(format="csv"))
    False
    """
    list_files = getattr(source, "parquet_files", None)
    if list_files is None:
        return False
    partitions = [listed.partition for listed in source.list_partitions()][:1]
    return bool(list_files(partitions))


def count_rows_of(source: Source, partition: Partition) -> int:
    """Return the number of rows of a partition, from the footers of its files if they are Parquet.

    Otherwise Spark counts the rows, for which it needs no column of most formats.
    """
    list_files = getattr(source, "parquet_files", None)
    files = list_files([partition]) if list_files else {}
    footers = read_footers(files[partition].files) if partition in files else None
    if footers is not None:
        return sum(footer.metadata.num_rows for footer in footers)
    is_exact = getattr(source, "reads_exactly", False)
    groups = scan(source.read([partition]), [], () if is_exact else source.keys).groups
    return sum(
        group.rows
        for key, group in groups.items()
        if is_exact or source.partition_of(key) == partition
    )


def _columns(schema: Schema, keys: Iterable[str]) -> set[tuple[str, str]]:
    """Return the names and types of the columns that are not partition columns."""
    key_names = {key.casefold() for key in keys}
    return {
        (column["name"], str(column["type"]))
        for column in schema.struct["fields"]
        if column["name"].casefold() not in key_names
    }


def _with_keys(schema: Schema, keys: Sequence[str]) -> Schema:
    """Return a schema with additional columns."""
    added = Schema.from_types(dict.fromkeys(keys, "string")).struct["fields"]
    columns = [*schema.struct["fields"], *added]
    return Schema({**schema.struct, "fields": columns}, schema.case_sensitive)


def _cell_name(number: int) -> str:
    return f"{COLUMN_PREFIX}o{number}"


def _sketches(sketch: Any) -> list[bytes]:
    return [] if sketch is None else [bytes(sketch)]


def _observation_for(data: DataFrame) -> Any:
    """Return an observation of the same kind as a DataFrame: classic, or Connect."""
    if type(data).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.observation import Observation as ConnectObservation

        return ConnectObservation()
    from pyspark.sql import Observation

    return Observation()


def _reported(observation: Any) -> Mapping[str, Any]:
    """Return the reported values; none if the write failed."""
    try:
        return dict(observation.get)
    except Exception as error:  # noqa: BLE001 - the run then measures the partition
        _LOGGER.info("Spark reported no observation: %s", error)
        return {}
