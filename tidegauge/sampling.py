"""Random samples of tables for profiling and suggestions, and first analyzers for each column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.frames import check_distinct_columns
from tidegauge.analyzers.core.metric import Metric
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEXT, Schema
from tidegauge.analyzers.core.sql import folder_of, quote
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.counts import Completeness
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.texts import PATTERNS, DataType, PatternMatch
from tidegauge.analyzers.measures.tuples import ApproxUniqueValueRatio
from tidegauge.analyzers.scan.scan import metric_of, scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.sources.sources import Source

SAMPLE_ROWS = 100_000
_IDENTIFIER = re.compile(r"(?:^|_)(?i:id|key|no|nr|num|number|seq)$|[a-z](?:Id|ID|Key|No)$")
"""Names of columns whose numbers only tell rows or things apart."""


@dataclass(frozen=True)
class TableSample:
    """A random sample of a table, or the whole table if it is small.

    Attributes
    ----------
    data : DataFrame
    columns : tuple of (str, str)
        Measurable columns with their kinds, without partition columns.
    total : int
        Number of rows of the table.
    whole : bool
        True if the sample is the whole table.
    private : Privacy
        Columns of which no values are shown.
    """

    data: DataFrame
    columns: tuple[tuple[str, str], ...]
    total: int
    whole: bool
    private: Privacy = PUBLIC

    def measure(self, analyzers: Iterable[AnyAnalyzer]) -> dict[AnyAnalyzer, Metric[Any]]:
        """Compute the metrics of the analyzers on the sample, in one scan."""
        states = scan(self.data, analyzers, private=self.private).whole.states
        return {analyzer: metric_of(analyzer, state) for analyzer, state in states.items()}


@contextmanager
def sample_table(
    source: Source, sample_rows: int = SAMPLE_ROWS, private: Privacy = PUBLIC
) -> Iterator[TableSample]:
    """Context manager: draw a cached random sample of about ``sample_rows`` rows of a table."""
    data = source.read(None)
    check_distinct_columns(data)
    schema = Schema.from_spark(data.schema).without(set(source.keys))
    columns = tuple(columns_of(schema))
    total = data.count()
    if total <= sample_rows:  # the caller's frame: caching is up to the caller
        yield TableSample(data, columns, total, whole=True, private=private)
        return
    drawn = data.sample(fraction=sample_rows / total, seed=1).persist()
    try:
        yield TableSample(drawn, columns, total, whole=False, private=private)
    finally:
        drawn.unpersist()


def name_of(table: str | DataFrame) -> str:
    """Return the default dataset name: the table's name without the database, or the folder's name.

    Examples
    --------
    >>> name_of("shop.orders"), name_of("/data/orders/"), name_of("delta.`/data/orders`")
    ('orders', 'orders', 'orders')
    """
    name = table if isinstance(table, str) else "table"
    name = folder_of(name) or name
    return name.rstrip("/").rpartition("/")[2].rpartition(".")[2]


def is_identifier(column: str, kind: str) -> bool:
    """Return whether a column's numbers only tell things apart, so that their size means nothing.

    Its name says so: also of a foreign key, whose values repeat, and of a number with nulls that was
    written as a double.

    Examples
    --------
    >>> [is_identifier(c, "long") for c in ("customer_id", "buyer.userId", "paid", "amount")]
    [True, True, False, False]
    """
    return kind in NUMERIC and _IDENTIFIER.search(column.rpartition(".")[2]) is not None


def columns_of(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield the path and kind of every column and struct field; ``size(...)`` for arrays and maps."""
    stack: list[tuple[tuple[str, ...], Any]]
    stack = [((name,), schema.field(quote(name)).type) for name in reversed(schema.names)]
    while stack:
        path, type_ = stack.pop()
        if isinstance(type_, Mapping) and type_["type"] == "struct":
            fields = reversed(type_["fields"])
            stack += [((*path, f["name"]), f["type"]) for f in fields]
        else:
            column = ".".join(p if p.isidentifier() else quote(p) for p in path)
            kind = schema.field(column).kind
            yield (f"size({column})" if kind in {"array", "map"} else column), kind


def sample_analyzers(column: str, kind: str) -> list[AnyAnalyzer]:
    """Return the analyzers to run on a column of the sample, by the column's kind."""
    if kind in {"array", "map"}:
        return [Completeness(column)]
    if kind in {"variant", "struct"}:
        return []
    found: list[AnyAnalyzer] = [Completeness(column), ApproxCountDistinct(column)]
    if kind in NUMERIC:
        found += [Minimum(column), Maximum(column)]
    if kind in TEXT or kind in INTEGRAL:
        found.append(ApproxUniqueValueRatio((column,)))
    if kind in TEXT:
        found += [DataType(column), *(PatternMatch(column, p, "ignore") for p in PATTERNS)]
    return found
