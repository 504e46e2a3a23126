"""Rows that are as they should be: completeness and conformance to a schema."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from analyzers.analyzer import analyzer
from analyzers.counts import NumMatchesAndCount
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.griffin.binder import Binder
from analyzers.griffin.lowering.completeness import error_condition
from analyzers.griffin.lowering.conformance import conformance_tests
from analyzers.griffin.lowering.work import Work
from analyzers.griffin.measures.base import GriffinMeasure
from analyzers.griffin.measures.parts import Parts
from analyzers.griffin.measures.report import Report
from analyzers.griffin.measures.trees import on_rows, row_sql
from analyzers.griffin.nodes import Aliased, Listing, Name, Rule
from analyzers.metric import Scale
from analyzers.requests import ROWS, Aggregate, Request
from analyzers.schema import Schema
from analyzers.sql import quote
from analyzers.state import State

_NUMBERS = ("total", "incomplete", "complete")
_SHARE = "completeFraction"


@dataclass(frozen=True, repr=False)
class _RowMeasure(GriffinMeasure[Parts]):
    """Counts rows for which any of some tests is true, and for each test."""

    state_type: ClassVar[type[State]] = Parts
    each: ClassVar[str]
    """What stands before the columns that are counted one by one."""

    @abstractmethod
    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return conditions as SQL: for the row, and for each column."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Return what the columns are called."""

    def column_scale(self, column: str) -> Scale:
        """The fraction is a ratio, all else is counted."""
        return Scale.RATIO if column == _SHARE else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Count."""
        row, columns = self.tests(schema)
        texts = [ROWS.text, *(f"count_if({test})" for test in (row, *columns))]
        return tuple(map(Aggregate, texts))

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Take the counts."""
        total, *found = cells
        return Parts(tuple(NumMatchesAndCount(count, total) for count in found))

    def weight(self, state: Parts) -> float:
        """Return the rows."""
        return float(state.parts[0].count) if state.parts else 0.0

    def measure(self, state: Parts) -> Report:
        """Return how many rows there are, and how many fail and hold."""
        row, *columns = state.parts or (NumMatchesAndCount(),)
        complete = row.count - row.num_matches
        counts = (row.count, row.num_matches, complete)
        more = {_SHARE: complete / row.count if row.count else 1.0}
        pairs = zip(self.columns(), columns, strict=False)
        more |= {f"{self.each}.{name}": float(c.num_matches) for name, c in pairs}
        return Report(dict(zip(map(self.key, _NUMBERS), counts, strict=True)), more)


@analyzer
class GriffinCompleteness(_RowMeasure):
    """Griffin's completeness: how many rows have a null in one of some columns, or an error of those listed.

    Also the share of the others, ``completeFraction``, and how many nulls each column has, ``nulls.<column>``.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The columns.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``error.confs``, a list of ``column.name``, ``type`` and ``values``; ``total``,
        ``incomplete``, ``complete`` for other names.

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
        """Return the rule's tree; of nothing where the details say in SQL what is complete."""
        return Listing(()) if "expr" in self.said() else super().parsed()

    def columns(self) -> Sequence[str]:
        """Return the aliases."""
        return self.aliases()

    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return when a row is incomplete, and when each column is null."""
        scope, config = self.scope(schema), self.config()
        bound = self.bound(schema)
        named = bound.items if isinstance(bound, Listing) else ()
        items = [Aliased(on_rows(i.of), i.alias) for i in named if isinstance(i, Aliased)]
        nulls = [f"({row_sql(item)}) IS NULL" for item in items]
        known = {item.alias.casefold() for item in items}
        binder = Binder(scope, (self.source,))
        for error in config.errors:  # columns that the rule does not name
            if error.column.casefold() not in known:
                column = on_rows(binder.bind(Name(error.column)))
                items.append(Aliased(column, error.column))
                known.add(error.column.casefold())
        return error_condition(Listing(tuple(items)), config, scope), nulls


@analyzer
class GriffinConformance(_RowMeasure):
    """Griffin's schema conformance: how many rows have a value that is not one of its column's type.

    Null is not one. Also the share of the others, ``completeFraction``, and how many such values each column
    has, ``nonconforming.<column>``.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The columns.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``expr``, a list of ``column`` and ``type``; ``total``, ``incomplete``, ``complete`` for other names.

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
        """Each column has a type."""
        super().check_parameters()
        if not self.columns():
            msg = f"{self!r}: details list columns and types as 'expr'"
            raise IllegalAnalyzerParameterError(msg)

    def columns(self) -> Sequence[str]:
        """Return the columns that have a type."""
        return [str(pair["column"]) for pair in self.said().get("expr", ())]

    def bound(self, schema: Schema) -> Rule:
        """Return the columns; they and their types are there."""
        conformance_tests(Work(self.config(), self.scope(schema)))
        return self.parsed()

    def tests(self, schema: Schema) -> tuple[str, Sequence[str]]:
        """Return when a row, and when each column, has a value that is not of its type."""
        good = conformance_tests(Work(self.config(), self.scope(schema)))
        # A scan knows columns without the source before them, which comes first in each test.
        bad = [f"NOT ({test.replace(f'{quote(self.source)}.', '', 1)})" for test in good.values()]
        return " OR ".join(bad), bad
