"""What rules and fixes are written in: Spark SQL text, Columns, and functions that return either.

An expression is a sequence of pieces. Text stands as it is; a Column has no text that could be put into
other text, so each gets a column of its own before the text is read; a function is called with the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from analyzers.errors import RuleError
from analyzers.rules.sources import source_of
from analyzers.sql import column_sql, constant

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Given = Union[str, "Column", Callable[["DataFrame"], "str | Column"]]
"""What users write: Spark SQL, a Column, or a function of the frame that returns either."""


SELF: Any = object()
"""The column that an expression is about, among its pieces."""


@dataclass(frozen=True, eq=False)
class Expression:
    """Pieces that make one SQL expression.

    Attributes
    ----------
    pieces : tuple
        SQL text, Columns, and functions of the frame.
    hashes : tuple of str
        Of functions that made it elsewhere and are not here.
    """

    pieces: tuple[Any, ...]
    hashes: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Given, owner: str) -> Expression:
        """Make one of what a user gave.

        Raises
        ------
        RuleError
            If it is neither text nor a Column nor a function.
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
    def about(cls, column: str | Column, pieces: Sequence[Any]) -> Expression:
        """Make one of pieces of SQL text, where `SELF` stands for the column."""
        subject = column_sql(column) if isinstance(column, str) else column
        return cls(tuple(subject if piece is SELF else piece for piece in pieces))

    @classmethod
    def kept(cls, identity: Sequence[str]) -> Expression:
        """Return what an `identity` tells."""
        text, *hashes = identity
        return cls((text,), tuple(hashes))

    @property
    def text(self) -> str:
        """What it is told by: text as it stands, Columns as they print, functions by their names."""
        return "".join(
            shown_text(piece) if not isinstance(piece, str) else piece for piece in self.pieces
        ).strip()

    @property
    def predicate(self) -> str:
        """The text without the brackets that users' own is put into."""
        text = self.text
        whole = text.startswith("(\n") and text.endswith("\n)") and text.count("(\n") == 1
        return text[2:-2] if whole else text

    @property
    def shown(self) -> str:
        """The same as one line."""
        return " ".join(self.predicate.split())

    def identity(self) -> list[str]:
        """Return what tells it from others: its text, and the source of its functions."""
        functions = [piece for piece in self.pieces if _is_function(piece)]
        return [self.text, *self.hashes, *map(source_of, functions)]


def is_column(value: Any) -> bool:
    """Whether a value is a Column of Spark, classic or Connect; imports neither."""
    return any(
        t.__name__ == "Column" and t.__module__.startswith("pyspark.sql")
        for t in type(value).__mro__
    )


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, str) and not is_column(value)


def shown_text(value: Any) -> str:
    """Return what a Column, a function or any other value prints as."""
    if is_column(value):
        return str(value).removeprefix("Column<'").removesuffix("'>")
    if _is_function(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return str(value)


def value_sql(value: Any) -> str:
    r"""Return SQL for a value of Python; None is null.

    Raises
    ------
    RuleError
        If it is of a type that has no literal.

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
    """Return the expression of a replacement: text is SQL, other values of Python are literals."""
    if isinstance(value, str) or is_column(value) or callable(value):
        return Expression.of(value, owner)
    return Expression((value_sql(value),))
