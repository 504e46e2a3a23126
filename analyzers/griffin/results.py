"""What rules found: rows made into metrics as Griffin shapes them, and the result of a job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from analyzers.display import Markup, Rows, card, heading, marked, note, sentence, table
from analyzers.partitions import Partition

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

Document = dict[str, Any]
"""A metric as sinks get it: numbers and texts by name, arrays as lists of such."""

INTERNAL = frozenset(
    {"__tmst", "__metric", "__record", "__empty", "__begin_ts", "__end_ts", "__distinct", "__rn"}
)
"""Columns that are no part of a metric."""

COLUMNS = ("dataset", "partition", "rule", "source", "name", "column", "key", "value", "text")


def flattened(rows: Sequence[Mapping[str, Any]], how: str, name: str) -> Document:
    """Return rows as one metric.

    Parameters
    ----------
    rows : sequence of mapping
    how : str
        ``default``: nothing for no row, the row itself for one, ``{name: rows}`` for more; ``entries``: the
        first row; ``array``: ``{name: rows}``; ``map``: ``{name: first row}``.
    name : str

    Examples
    --------
    >>> one, two = {"total": 1}, {"total": 2}
    >>> flattened([one], "default", "m"), flattened([one, two], "default", "m")
    ({'total': 1}, {'m': [{'total': 1}, {'total': 2}]})
    >>> flattened([one, two], "entries", "m"), flattened([], "array", "m"), flattened([one], "map", "m")
    ({'total': 1}, {'m': []}, {'m': {'total': 1}})
    """
    shown = [{key: value for key, value in row.items() if key not in INTERNAL} for row in rows]
    first = shown[0] if shown else {}
    match how:
        case "array":
            return {name: shown}
        case "map":
            return {name: first}
        case "entries":
            return first
        case _:
            return {name: shown} if len(shown) > 1 else first


def merged(documents: Mapping[str, Document]) -> Document:
    """Return the metrics of all rules as one; a rule that would hide another's keys stands under its name.

    Examples
    --------
    >>> merged({"a": {"total": 5}, "b": {"total": 7}, "c": {"cnt": 1}})
    {'total': 5, 'b': {'total': 7}, 'cnt': 1}
    """
    whole: Document = {}
    for rule, document in documents.items():
        if whole.keys() & document.keys():
            whole[rule] = document
        else:
            whole |= document
    return whole


def cells(document: Document) -> Iterator[tuple[str, str, Any]]:
    """Yield each value of a metric with its column and, within arrays, the row's key.

    The key of a row is made of its texts, truth values and dates; where there are none, of its first value.

    Examples
    --------
    >>> list(cells({"total": 4, "dup": [{"dup": 1, "num": 2}]}))
    [('total', '', 4), ('dup.num', '1', 2)]
    >>> list(cells({"prof": [{"city": "Rome", "cnt": 2}, {"city": None, "cnt": 1}]}))
    [('cnt', 'Rome', 2), ('cnt', 'null', 1)]
    """
    for name, value in document.items():
        match value:
            case list():
                yield from _of_rows(name, value)
            case Mapping():
                yield from ((f"{name}.{column}", key, one) for column, key, one in cells(value))
            case _:
                yield name, "", value


def _of_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    groups = [c for c in (rows[0] if rows else {}) if any(_names(row[c]) for row in rows)]
    lead = "" if groups else f"{name}."
    for row in rows:
        keys = groups or list(row)[:1]
        key = ",".join("null" if row[c] is None else str(row[c]) for c in keys)
        yield from ((f"{lead}{c}", key, value) for c, value in row.items() if c not in keys)


def _names(value: Any) -> bool:
    return isinstance(value, str | bool | dt.date)


def number(value: Any) -> float | None:
    """Return a value of a metric as a number; None if it is none.

    Examples
    --------
    >>> number(3), number(Decimal("0.5")), number("x"), number(None)
    (3.0, 0.5, None, None)
    """
    return float(value) if isinstance(value, int | float | Decimal) else None


@dataclass(frozen=True)
class RuleResult:
    """What one rule found.

    Attributes
    ----------
    name : str
    source : str
        The source that it measures.
    documents : mapping of Partition to Document
        The metric of each partition.
    records : DataFrame or None
        The rule's records: the misses, the duplicates. They are read when they are looked at.
    error : Exception or None
        Why it failed.
    notices : tuple of str
        What its author should know.
    """

    name: str
    source: str
    documents: Mapping[Partition, Document] = field(default_factory=dict)
    records: DataFrame | None = None
    error: Exception | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class GriffinResult:
    """What a job found.

    Attributes
    ----------
    dataset : str
        The job's name, and that of its history.
    rules : tuple of RuleResult
    run : int or None
        The run's id in the repository.
    failures : mapping of str to Exception
        What failed, rules and sinks, by name.
    notices : tuple of str
    views : object
        What the records are read by, as long as the result is there.
    """

    dataset: str
    rules: tuple[RuleResult, ...]
    run: int | None = None
    failures: Mapping[str, Exception] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    views: object = field(default=None, repr=False, compare=False)

    @property
    def status(self) -> str:
        """``complete``, or ``failed`` if a rule or a sink failed."""
        return "failed" if self.failures else "complete"

    def rule(self, name: str) -> RuleResult:
        """Return what one rule found.

        Raises
        ------
        KeyError
            Naming the rules that there are.
        """
        for found in self.rules:
            if found.name == name:
                return found
        raise KeyError(f"no rule {name!r}; there are: {', '.join(r.name for r in self.rules)}")

    def metrics(self) -> pd.DataFrame:
        """Return all metrics as a tidy frame.

        Returns
        -------
        DataFrame
            Columns dataset, partition, rule, source, name (``Griffin.<rule>.<column>``, as in the
            repository), column, key (of a row of an array, else empty), value (NaN where it is no
            number), text (what it is where it is no number, else None).
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        rows = []
        for rule in self.rules:
            for partition, document in rule.documents.items():
                for column, key, value in cells(document):
                    found = number(value)
                    said = None if found is not None or value is None else str(value)
                    name = f"Griffin.{rule.name}.{column}"
                    of = (self.dataset, partition.name, rule.name, rule.source, name, column, key)
                    rows.append((*of, float("nan") if found is None else found, said))
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def records(self, rule: str) -> DataFrame | None:
        """Return the records of a rule as a Spark DataFrame, read when it is looked at; None where it has none.

        Raises
        ------
        KeyError
            If there is no such rule.
        """
        return self.rule(rule).records

    def _repr_html_(self) -> str:
        """Return a small table for a notebook; all text in it is escaped."""
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Griffin job"), self.dataset, Markup(marked(self.status)))
        frame = self.metrics()
        rows = [
            (
                one.partition,
                one.rule,
                one.column,
                one.key,
                one.value if one.text is None else one.text,
            )
            for one in frame.itertuples()
        ]
        yield table(
            ["partition", "rule", "column", "key", "value"], Rows.of(rows, most, len(rows)), width
        )
        for name, error in self.failures.items():
            yield Markup(f"<p>{marked('failed')}</p>")
            yield sentence(f"{name}: {error}", 4 * width)
        for said in self.notices:
            yield note(said)
