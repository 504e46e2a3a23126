"""A random sample of a table, and what to ask of its columns first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.catalogue import (
    ApproxCountDistinct,
    ApproxUniqueValueRatio,
    Completeness,
    DataType,
    Maximum,
    Minimum,
    PatternMatch,
)
from analyzers.metric import Metric
from analyzers.scan import metric_of, scan
from analyzers.schema import INTEGRAL, NUMERIC, TEXT, Schema
from analyzers.sql import quote
from analyzers.texts import PATTERNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.sources import Source

AnyAnalyzer = Analyzer[Any, Any]
SAMPLE_ROWS = 100_000


@dataclass(frozen=True)
class Sample:
    """Some rows of a table, or all.

    Attributes
    ----------
    data : DataFrame
    columns : tuple of (str, str)
        What can be measured, partition columns left out, each with its kind.
    whole : bool
        Whether it is all rows.
    """

    data: DataFrame
    columns: tuple[tuple[str, str], ...]
    whole: bool

    def measure(self, analyzers: Iterable[AnyAnalyzer]) -> dict[AnyAnalyzer, Metric[Any]]:
        """Look at the rows once."""
        states = scan(self.data, analyzers).whole.states
        return {analyzer: metric_of(analyzer, state) for analyzer, state in states.items()}


@contextmanager
def sampled(source: Source, sample_rows: int = SAMPLE_ROWS) -> Iterator[Sample]:
    """Count the rows of a table and draw about so many of them, once for all who look."""
    data = source.read(None)
    schema = Schema.of(data.schema).without(set(source.keys))
    columns = tuple(columns_of(schema))
    total = data.count()
    if total <= sample_rows:  # the caller's frame, and so is its cache
        yield Sample(data, columns, whole=True)
        return
    drawn = data.sample(fraction=sample_rows / total, seed=1).persist()
    try:
        yield Sample(drawn, columns, whole=False)
    finally:
        drawn.unpersist()


def name_of(table: str | DataFrame) -> str:
    """Return what to call a table's dataset: its name without the database, or its folder's.

    Examples
    --------
    >>> name_of("shop.orders"), name_of("/data/orders/")
    ('orders', 'orders')
    """
    name = table if isinstance(table, str) else "table"
    return name.rstrip("/").rpartition("/")[2].rpartition(".")[2]


def columns_of(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield every column and every field of structs as users write them, with its kind."""
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


def looks(column: str, kind: str) -> list[AnyAnalyzer]:
    """Return what to ask of a column in the sample."""
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
