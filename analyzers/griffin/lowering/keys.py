"""Rules about keys, the values of some expressions in a row: what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.griffin.lowering.work import Work
from analyzers.griffin.nodes import Aliased
from analyzers.griffin.plan import Step
from analyzers.griffin.sql import expression_sql
from analyzers.sql import quote


@dataclass(frozen=True)
class Keys:
    """The columns of a key, and those that are grouped by.

    Attributes
    ----------
    work : Work
    items : sequence of Aliased
        Bound; the aliases name them in all steps.
    """

    work: Work
    items: Sequence[Aliased]

    @property
    def names(self) -> list[str]:
        """The aliases, quoted."""
        return [quote(item.alias) for item in self.items]

    @property
    def all(self) -> str:
        """Columns that are grouped by and the key, for SELECT and GROUP BY."""
        return ", ".join([*map(quote, self.work.by), *self.names])

    def rows(self) -> str:
        """Return a query of the key of each row of the source."""
        cells = ", ".join(map(expression_sql, self.items))
        return f"SELECT {self.work.lead}{cells} FROM {self.work.table}"

    def counted(self, rows: str, count: str) -> str:
        """Return a query of each key of some rows, with how many there are."""
        return f"SELECT {self.all}, count(1) AS {count} FROM ({rows}) GROUP BY {self.all}"

    def same(self, left: str, right: str, by: Sequence[str] = ()) -> str:
        """Return SQL that is true where both sides have one key; null is a value."""
        names = dict.fromkeys([*map(quote, by), *self.names])
        return " AND ".join(f"{left}.{name} <=> {right}.{name}" for name in names)


def total_count(work: Work, total: str) -> Step:
    """Return the step that counts rows."""
    query = f"SELECT {work.lead}count(1) AS {total} FROM {work.table}{work.grouped()}"
    return Step(work.step("total_count"), query, ("__totalCount", "__totalMetric"))
