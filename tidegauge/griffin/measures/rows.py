"""Row checks: completeness and schema conformance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import ROWS, Aggregate, Request
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.griffin.bind.expressions import Binder
from tidegauge.griffin.dsl.nodes import Aliased, Listing, Name, Rule
from tidegauge.griffin.lower.completeness import error_condition
from tidegauge.griffin.lower.conformance import conformance_tests
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.parts import Parts
from tidegauge.griffin.measures.report import Report
from tidegauge.griffin.measures.trees import row_sql, unqualified

_NUMBERS = ("total", "incomplete", "complete")
_SHARE = "completeFraction"


@dataclass(frozen=True, repr=False)
class _RowMeasure(GriffinMeasure[Parts]):
    """Count rows that fail any test, and rows that fail each test."""

    state_type: ClassVar[type[State]] = Parts
    each: ClassVar[str]
    """Metric name prefix for counts per column."""

    @abstractmethod
    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return SQL conditions for a bad row, and for a bad value in each column."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Return the names of the columns."""

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: ratio for the fraction, else count."""
        return Scale.RATIO if column == _SHARE else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the row counts."""
        row, columns = self.tests(schema)
        texts = [ROWS.text, *(f"count_if({test})" for test in (row, *columns))]
        return tuple(map(Aggregate, texts))

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Build the state from the counts."""
        total, *found = cells
        return Parts(tuple(NumMatchesAndCount(count, total) for count in found))

    def weight(self, state: Parts) -> float:
        """Return the number of rows."""
        return float(state.parts[0].count) if state.parts else 0.0

    def measure(self, state: Parts) -> Report:
        """Return the counts of all, failing and passing rows."""
        row, *columns = state.parts or (NumMatchesAndCount(),)
        complete = row.count - row.num_matches
        counts = (row.count, row.num_matches, complete)
        more = {_SHARE: complete / row.count if row.count else 1.0}
        pairs = zip(self.columns(), columns, strict=False)
        more |= {f"{self.each}.{name}": float(c.num_matches) for name, c in pairs}
        return Report(dict(zip(map(self.key, _NUMBERS), counts, strict=True)), more)


@analyzer
class GriffinCompleteness(_RowMeasure):
    """Griffin's completeness: count rows with a null in a column, or with a listed error value.

    Also the share of complete rows, ``completeFraction``, and the nulls per column,
    ``nulls.<column>``.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``error.confs``, a list of ``column.name``, ``type`` and ``values``; ``total``,
        ``incomplete``, ``complete`` to rename these.

    Examples
    --------
    >>> rows = NumMatchesAndCount(3, 4), NumMatchesAndCount(1, 4)
    >>> report = GriffinCompleteness("c", "name").compute_metric_from(Parts(rows)).value
    >>> report.metric, report.more
    ({'total': 4, 'incomplete': 3, 'complete': 1}, {'completeFraction': 0.25, 'nulls.name': 1.0})
    """

    dq_type: ClassVar[str] = "completeness"
    read: ClassVar[tuple[str, ...]] = (*_NUMBERS, "error.confs", "expr")
    each: ClassVar[str] = "nulls"

    def parsed(self) -> Rule:
        """Return the rule's syntax tree; empty if the details define completeness in SQL."""
        return Listing(()) if "expr" in self.said() else super().parsed()

    def columns(self) -> Sequence[str]:
        """Return the aliases."""
        return self.aliases()

    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return SQL conditions for an incomplete row, and for a null in each column."""
        scope, config = self.scope(schema), self.config()
        bound = self.bound(schema)
        named = bound.items if isinstance(bound, Listing) else ()
        items = [Aliased(unqualified(i.of), i.alias) for i in named if isinstance(i, Aliased)]
        nulls = [f"({row_sql(item)}) IS NULL" for item in items]
        known = {item.alias.casefold() for item in items}
        binder = Binder(scope, (self.source,))
        for error in config.errors:  # columns of error conditions that the rule does not name
            if error.column.casefold() not in known:
                column = unqualified(binder.bind(Name(error.column)))
                items.append(Aliased(column, error.column))
                known.add(error.column.casefold())
        return error_condition(Listing(tuple(items)), config, scope), nulls


@analyzer
class GriffinConformance(_RowMeasure):
    """Griffin's schema conformance: count rows with a value that is not of its column's type.

    Null does not conform. Also the share of conforming rows, ``completeFraction``, and the
    nonconforming values per column, ``nonconforming.<column>``.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``expr``, a list of ``column`` and ``type``; ``total``, ``incomplete``,
        ``complete`` to rename these.

    Examples
    --------
    >>> rows = NumMatchesAndCount(3, 4), NumMatchesAndCount(3, 4)
    >>> details = '{"expr": [{"column": "zip", "type": "int"}]}'
    >>> GriffinConformance("c", "zip", details=details).compute_metric_from(Parts(rows)).value.more
    {'completeFraction': 0.25, 'nonconforming.zip': 3.0}
    """

    dq_type: ClassVar[str] = "schema-conformance"
    read: ClassVar[tuple[str, ...]] = (*_NUMBERS, "expr")
    each: ClassVar[str] = "nonconforming"

    def check_parameters(self) -> None:
        """Raise unless at least one column has a type."""
        super().check_parameters()
        if not self.columns():
            msg = f"{self!r}: details list columns and types as 'expr'"
            raise IllegalAnalyzerParameterError(msg)

    def columns(self) -> Sequence[str]:
        """Return the columns with an expected type."""
        return [str(pair["column"]) for pair in self.said().get("expr", ())]

    def bound(self, schema: Schema) -> Rule:
        """Check columns and types against the schema, and return the rule's tree."""
        conformance_tests(LoweringContext(self.config(), self.scope(schema)))
        return self.parsed()

    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return SQL conditions for a nonconforming row, and for a bad value in each column."""
        good = conformance_tests(LoweringContext(self.config(), self.scope(schema)))
        # Scans use unqualified columns; each test starts with the qualified one.
        bad = [f"NOT ({test.replace(f'{quote(self.source)}.', '', 1)})" for test in good.values()]
        return " OR ".join(bad), bad
