"""Metric of a rule, in Griffin's layout and as scalars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self

Row = Mapping[str, Any]
Metric = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """The metric of a rule.

    Attributes
    ----------
    metric : mapping
        In Griffin's layout: numbers by name, and lists of mappings. None where a number is
        undefined.
    more : mapping of str to float
        Additional numbers that Griffin does not have.
    labels : frozenset of str
        Keys that identify a mapping within a list; the other keys are numbers.
    rows : tuple of mapping or None
        The rows of a query, independent of the metric's layout.

    Examples
    --------
    >>> report = Report({"total": 4, "dups": [{"dup": 1, "num": 2}]}, labels=frozenset({"dup"}))
    >>> dict(report.scalars())
    {'total': 4.0, 'dups.1': 2.0}
    """

    metric: Mapping[str, Any]
    more: Mapping[str, float] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    rows: tuple[Row, ...] | None = None

    @classmethod
    def from_rows(
        cls, rows: Sequence[Row], flatten: str, name: str, labels: Iterable[str] | None = None
    ) -> Self:
        """Build the metric of a query's rows.

        Parameters
        ----------
        rows : sequence of mapping
        flatten : str
            As for `flattened`.
        name : str
        labels : iterable of str, optional
            Columns that identify rows. By default those of texts, booleans and dates; if there are
            none and several rows, the first column.

        Examples
        --------
        >>> made = Report.from_rows([{"city": "Rome", "n": 2}], "default", "cities")
        >>> made.metric, dict(made.scalars())
        ({'city': 'Rome', 'n': 2}, {'n.Rome': 2.0})
        """
        told = set(_label_columns(rows)) if labels is None else set(labels)
        return cls(flattened(rows, flatten, name), labels=frozenset(told), rows=tuple(rows))

    def beside(self, other: Self) -> Report:
        """Merge two reports into one metric."""
        more = dict(self.cells()) | dict(other.cells())
        return Report({**self.metric, **other.metric}, more, rows=())

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield each number by name: ``column.label`` for query rows, ``name.label`` for lists.

        If the mappings of a list hold several numbers, the name is ``name.label.column``.
        """
        for name, value in self.cells():
            if _is_number(value):
                yield name, float(value)

    def cells(self) -> Iterator[tuple[str, Any]]:
        """Yield each value by name, texts included, labels excluded."""
        if self.rows is not None:
            for row in self.rows:
                of = self._label(row)
                yield from ((".".join([n, *of]), v) for n, v in self._values(row).items())
        else:
            for name, value in self.metric.items():
                match value:
                    case list():
                        yield from self._of_rows(name, value)
                    case Mapping():
                        yield from self._of_rows(name, [value])
                    case _:
                        yield name, value
        yield from self.more.items()

    def _of_rows(self, name: str, rows: Sequence[Row]) -> Iterator[tuple[str, Any]]:
        for row in rows:
            path = ".".join([name, *self._label(row)])
            values = self._values(row)
            for key, value in values.items():
                yield (path if len(values) == 1 else f"{path}.{key}"), value

    def _label(self, row: Row) -> list[str]:
        return ["null" if row[key] is None else str(row[key]) for key in row if key in self.labels]

    def _values(self, row: Row) -> Metric:
        return {key: value for key, value in row.items() if key not in self.labels}


def flattened(rows: Sequence[Row], flatten: str, name: str) -> Metric:
    """Return rows as a metric in one of Griffin's layouts.

    Parameters
    ----------
    rows : sequence of mapping
    flatten : str
        ``default``: a single row as it is, an empty mapping for no rows, else a list; ``entries``:
        the first row; ``array``: a list; ``map``: the first row under the name.
    name : str
        Name of the list or the map.

    Examples
    --------
    >>> flattened([{"n": 1}], "default", "rows"), flattened([{"n": 1}], "array", "rows")
    ({'n': 1}, {'rows': [{'n': 1}]})
    """
    first = dict(rows[0]) if rows else {}
    if flatten == "array" or (flatten == "default" and len(rows) > 1):
        return {name: [dict(row) for row in rows]}
    return {name: first} if flatten == "map" else first


def _label_columns(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the columns that identify rows."""
    found = [c for c in (rows[0] if rows else ()) if any(isinstance(r[c], _LABELS) for r in rows)]
    yield from found or (list(rows[0])[:1] if len(rows) > 1 else ())


_LABELS = (str, bool, dt.date)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal)
