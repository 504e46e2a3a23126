"""Expressions of rules and fixes: Spark SQL text, Columns, and functions that return either.

An expression is a sequence of pieces. Text is used as it is; a Column has no text that can be
embedded in SQL, so each gets a hidden column of its own first; a function is called with the frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from tidegauge.analyzers.core.errors import RuleError, UnresolvedExpressionError
from tidegauge.analyzers.core.sql import column_sql, constant, without_literals
from tidegauge.rules.code_identity import source_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ExpressionInput = Union[str, "Column", Callable[["DataFrame"], "str | Column"]]
"""User input: Spark SQL, a Column, or a function of the frame that returns either."""


COLUMN_PLACEHOLDER: Any = object()
"""Placeholder for the column that an expression is about."""


@dataclass(frozen=True)
class KeyLookup:
    """Piece of an expression: whether a key is in another table; found by a join, null for a null key.

    Attributes
    ----------
    columns, others : tuple of str
        The key's columns in the data and in the other table, as Spark SQL.
    table : str
        The other table or view.
    """

    columns: tuple[str, ...]
    table: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        """Return the same condition as a subquery, which tells what is meant."""
        own = ", ".join(self.columns)
        own = f"({own})" if len(self.columns) > 1 else own
        known = " AND ".join(f"{other} IS NOT NULL" for other in self.others)
        return f"{own} IN (SELECT {', '.join(self.others)} FROM {self.table} WHERE {known})"  # noqa: S608 - shown, and never run


@dataclass(frozen=True)
class UniqueKey:
    """Piece of an expression: whether no other record of the partition has the key; null for a null key.

    Attributes
    ----------
    columns : tuple of str
        The key's columns, as Spark SQL.
    where : str or None
        A condition on the records among which the key is unique.
    """

    columns: tuple[str, ...]
    where: str | None = None

    def within(self, by: Sequence[str]) -> str:
        """Return the condition as Spark SQL, with the partition columns."""
        key = [*by, *self.columns]
        counted = "1" if self.where is None else f"CASE WHEN {self.where} THEN 1 END"
        known = " AND ".join(f"{column} IS NOT NULL" for column in self.columns)
        unique = f"count({counted}) OVER (PARTITION BY {', '.join(key)}) <= 1"
        return f"CASE WHEN {known} THEN {unique} END"

    def __str__(self) -> str:
        """Return the condition on a whole table."""
        return self.within(())


@dataclass(frozen=True, eq=False)
class Expression:
    """SQL expression composed of pieces.

    Attributes
    ----------
    pieces : tuple
        SQL text, Columns, functions of the frame, and pieces that need other records.
    hashes : tuple of str
        Source hashes of the functions of a restored expression, which are not available.
    """

    pieces: tuple[Any, ...]
    hashes: tuple[str, ...] = ()

    @classmethod
    def from_input(cls, given: ExpressionInput, owner: str) -> Expression:
        """Make an expression of user input.

        Raises
        ------
        RuleError
            If the input is empty text, or neither text, a Column nor a function.
        """
        if isinstance(given, str):
            if not given.strip():
                msg = f"{owner}: an expression is Spark SQL such as 'age < 150', not an empty text"
                raise RuleError(msg)
            return cls((f"(\n{given.strip()}\n)",))
        if is_column(given) or callable(given):
            return cls((given,))
        msg = f"{owner}: an expression is Spark SQL, a Column or a function of the frame, not {given!r}"
        raise RuleError(msg)

    @classmethod
    def from_column_pieces(cls, column: str | Column, pieces: Sequence[Any]) -> Expression:
        """Make an expression about a column from SQL pieces; `COLUMN_PLACEHOLDER` stands for the column."""
        if not isinstance(column, str) and not is_column(column):
            msg = f"a rule is about one column, by its name or as a Column, not {column!r}; add a rule for each"
            raise RuleError(msg)
        subject = column_sql(column) if isinstance(column, str) else column
        return cls(tuple(subject if piece is COLUMN_PLACEHOLDER else piece for piece in pieces))

    def among(self, where: Expression) -> Expression:
        """Return the condition for some records only; it is true for all others."""
        return Expression(("CASE WHEN ", *where.pieces, " THEN ", *self.pieces, " ELSE true END"))

    @classmethod
    def from_identity(cls, identity: Sequence[str]) -> Expression:
        """Restore an expression from its `identity`."""
        text, *hashes = identity
        return cls((text,), tuple(hashes))

    @property
    def text(self) -> str:
        """The text of all pieces: SQL as it is, Columns as they print, functions by name."""
        return "".join(
            shown_text(piece) if not isinstance(piece, str) else piece for piece in self.pieces
        ).strip()

    @property
    def predicate(self) -> str:
        """The text without the parentheses added around user input."""
        text = self.text
        whole = text.startswith("(\n") and text.endswith("\n)") and text.count("(\n") == 1
        return text[2:-2] if whole else text

    @property
    def shown(self) -> str:
        """The predicate on one line."""
        return " ".join(self.predicate.split())

    def identity(self) -> list[str]:
        """Return the text and the source hashes of the functions."""
        functions = [piece for piece in self.pieces if _is_function(piece)]
        return [self.text, *self.hashes, *map(source_hash, functions)]


UNSTEADY = (
    "gives another answer each time, so the records that are counted and judged would not be those that are"
    " written; compute it into a column first"
)
_RANDOM = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id"
    r"|reflect|try_reflect|java_method)\s*\(",  # the last three call any function of Java
    re.IGNORECASE,
)
"""Functions that may give another answer whenever a record is read."""
_WINDOW = re.compile(
    r"\bover\s*\((?:\s*partition\s+by\s+(?P<by>(?:[\w.]+|`[^`]*`)(?:\s*,\s*(?:[\w.]+|`[^`]*`))*))?",
    re.IGNORECASE,
)
_SUBQUERY = re.compile(
    r"\(\s*(?:with\s+\w+\s+as\s*\(|table\s+[\w`]"
    r"|select\s+(?!(?:is|in|not|between|like|rlike|and|or)\b)[\w`'(*-].*?\bfrom\s+[\w`(])",
    re.IGNORECASE | re.DOTALL,
)
"""A query in parentheses; a column may be called ``select``."""


def check_deterministic(text: str) -> None:
    """Raise an `UnresolvedExpressionError` if an expression may differ each time it is evaluated."""
    found = _RANDOM.search(without_literals(text))
    if found is not None:
        raise UnresolvedExpressionError(f"{found[1]}() {UNSTEADY}")


def check_record_by_record(text: str, by: Sequence[str]) -> None:
    """Raise an `UnresolvedExpressionError` if a condition reads beyond a record's own partition.

    Partitions are counted when they are new, a few at a time: a window over several of them would
    see what happens to be read together, and changes of another table would go unnoticed.

    Parameters
    ----------
    text : str
        Spark SQL, or a Column as it prints.
    by : sequence of str
        The partition columns; a window that is partitioned by all of them is allowed. If there are
        none, the data is always read as a whole, and any window is.
    """
    text = without_literals(text)
    whole = {name.casefold() for name in by}
    for window in _WINDOW.finditer(text):
        names = {name.strip().strip("`").casefold() for name in (window["by"] or "").split(",")}
        if not whole <= names:
            msg = (
                "it looks at other records by a window, which would see those of the partitions that"
                f" are read together; add PARTITION BY {', '.join(by)} to the window, measure"
                " Uniqueness instead, or apply the DQM to the whole frame"
            )
            raise UnresolvedExpressionError(msg)
    if _SUBQUERY.search(text):
        msg = (
            "it reads another table by a subquery, whose changes would not be noticed when only new"
            " partitions are counted; measure ReferentialIntegrity instead, or apply the DQM to the"
            " whole frame"
        )
        raise UnresolvedExpressionError(msg)


def is_column(value: Any) -> bool:
    """Return whether a value is a Spark Column, classic or Connect; imports neither."""
    return any(
        t.__name__ == "Column" and t.__module__.startswith("pyspark.sql")
        for t in type(value).__mro__
    )


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, str) and not is_column(value)


def shown_text(value: Any) -> str:
    """Return the display text of a Column, a function or any other value."""
    if is_column(value):
        return str(value).removeprefix("Column<'").removesuffix("'>")
    if _is_function(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return str(value)


def value_sql(value: Any) -> str:
    r"""Return the SQL literal of a Python value; None is null.

    Raises
    ------
    RuleError
        If its type has no literal.

    Examples
    --------
    >>> value_sql("it's"), value_sql(None)
    ("'it\\'s'", 'NULL')
    """
    try:
        return "NULL" if value is None else constant(value)
    except TypeError as error:
        raise RuleError(str(error)) from error


def given_sql(value: Any, owner: str) -> Expression:
    """Return the expression of a replacement: text is SQL, other Python values are literals."""
    if isinstance(value, str) or is_column(value) or callable(value):
        return Expression.from_input(value, owner)
    return Expression((value_sql(value),))
