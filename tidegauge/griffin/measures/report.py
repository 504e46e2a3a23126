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
    more : mapping
        Additional values by name, in no part of the metric.
    labels : frozenset of str
        Keys that identify a mapping within a list, or a row; the other keys are values.
    rows : tuple of mapping or None
        The rows of a query, independent of the metric's layout.

    Examples
    --------
    >>> report = Report({"total": 4, "dups": [{"dup": 1, "num": 2}]}, labels=frozenset({"dup"}))
    >>> dict(report.scalars())
    {'total': 4.0, 'dups.1': 2.0}
    """

    metric: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)
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
            Columns that identify rows: those of GROUP BY. Rows without any are numbered.

        Examples
        --------
        >>> made = Report.from_rows([{"city": "Rome", "n": 2}], "default", "cities", ["city"])
        >>> made.metric, dict(made.scalars())
        ({'city': 'Rome', 'n': 2}, {'n.Rome': 2.0})
        >>> dict(Report.from_rows([{"n": 2, "ok": True}], "default", "cities").scalars())
        {'n': 2.0, 'ok': 1.0}
        """
        return cls(flattened(rows, flatten, name), labels=frozenset(labels or ()), rows=tuple(rows))

    @classmethod
    def of_array(cls, rows: Sequence[Row], name: str, labels: Iterable[str]) -> Self:
        """Build a metric that is an array, such as numbers of duplicates.

        Examples
        --------
        >>> dict(Report.of_array([{"dup": 1, "num": 2}], "dups", ["dup"]).scalars())
        {'dups.1': 2.0}
        """
        return cls({name: [dict(row) for row in rows]}, labels=frozenset(labels))

    def beside(self, other: Self) -> Report:
        """Merge two reports into one metric."""
        more = dict(self.cells()) | dict(other.cells())
        return Report({**self.metric, **other.metric}, more, rows=())

    def shaped(self, flatten: str, name: str) -> Report:
        """Return the report with its whole metric in a layout; its values keep their names.

        Examples
        --------
        >>> made = Report({"total": 4}).shaped("map", "users")
        >>> made.metric, dict(made.scalars())
        ({'users': {'total': 4}}, {'total': 4.0})
        """
        if flatten not in {"array", "map"}:
            return self
        return Report(flattened([self.metric], flatten, name), dict(self.cells()), rows=())

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield each number by name: ``column.label`` for query rows, ``name.label`` for lists.

        If the mappings of a list hold several values, the name is ``name.label.column``. A truth
        value is 0 or 1, a date or timestamp its seconds since 1970 in UTC; texts are left out.
        """
        for name, value in self.cells():
            number = as_number(value)
            if number is not None:
                yield name, number

    def cells(self) -> Iterator[tuple[str, Any]]:
        """Yield each value by name, texts included, labels excluded.

        Each name is different: rows with the same labels are numbered (``n.Rome``, ``n.Rome_2``).
        """
        if self.rows is not None:
            for label, row in self._labelled(self.rows):
                yield from ((".".join([n, *label]), v) for n, v in self._values(row).items())
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
        for label, row in self._labelled(rows):
            path = ".".join([name, *label])
            values = self._values(row)
            for key, value in values.items():
                yield (path if len(values) == 1 else f"{path}.{key}"), value

    def _labelled(self, rows: Sequence[Row]) -> Iterator[tuple[list[str], Row]]:
        """Yield rows with their labels, which are made different where they are not, also when joined by dots."""
        seen: set[str] = set()
        for row in rows:
            plain = label = self._label(row)
            number = 1
            while ".".join(label) in seen:
                number += 1
                label = [*plain[:-1], f"{plain[-1]}_{number}"] if plain else [str(number)]
            seen.add(".".join(label))
            yield label, row

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


def as_number(value: Any) -> float | None:
    """Return a value as a number, or None for one that is none.

    Examples
    --------
    >>> as_number(True), as_number(Decimal("0.5")), as_number(dt.date(1970, 1, 2)), as_number("a")
    (1.0, 0.5, 86400.0, None)
    """
    match value:
        case int() | float() | Decimal():
            return float(value)
        case dt.datetime():
            return value.replace(tzinfo=value.tzinfo or dt.UTC).timestamp()
        case dt.date():
            return dt.datetime.combine(value, dt.time(), dt.UTC).timestamp()
        case _:
            return None
