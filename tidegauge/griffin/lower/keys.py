"""SQL over keys: the values of a rule's expressions in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.dsl.nodes import Aliased
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import Step
from tidegauge.griffin.lower.sql import expression_sql


@dataclass(frozen=True)
class KeyColumns:
    """The columns of a key, and the group-by columns.

    Attributes
    ----------
    work : LoweringContext
    items : sequence of Aliased
        Bound; all steps refer to them by alias.
    """

    work: LoweringContext
    items: Sequence[Aliased]

    @property
    def names(self) -> list[str]:
        """The aliases, quoted."""
        return [quote(item.alias) for item in self.items]

    @property
    def all(self) -> str:
        """Group-by columns and key columns, for SELECT and GROUP BY."""
        return ", ".join([*map(quote, self.work.by), *self.names])

    def rows(self) -> str:
        """Return a query for the key of each source row."""
        cells = ", ".join(map(expression_sql, self.items))
        return f"SELECT {self.work.group_columns}{cells} FROM {self.work.table}"

    def counted(self, rows: str, count: str) -> str:
        """Return a query for the distinct keys of some rows with their counts."""
        return f"SELECT {self.all}, count(1) AS {count} FROM ({rows}) GROUP BY {self.all}"

    def same(self, left: str, right: str, by: Sequence[str] = ()) -> str:
        """Return a null-safe equality condition on the key columns."""
        names = dict.fromkeys([*map(quote, by), *self.names])
        return " AND ".join(f"{left}.{name} <=> {right}.{name}" for name in names)


def total_count(work: LoweringContext, total: str) -> Step:
    """Return the step that counts all rows."""
    query = (
        f"SELECT {work.group_columns}count(1) AS {total} FROM {work.table}{work.group_by_clause()}"
    )
    return Step(work.step("total_count"), query, ("__totalCount", "__totalMetric"))
