"""What analyzers ask of a scan. Equal requests are answered once, and like ones share a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from analyzers.rules.layout import Tasks
    from analyzers.schema import Schema


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The value of a Spark SQL aggregate expression.

    Attributes
    ----------
    text : str
    rows : str or None
        A condition on the rows it is given, where it does not hold one itself.
    """

    text: str
    rows: str | None = None


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The `FrequenciesAndNumRows` of some expressions.

    Attributes
    ----------
    expressions : tuple of str
        Spark SQL.
    where : str or None
    """

    expressions: tuple[str, ...]
    where: str | None


@dataclass(frozen=True, slots=True)
class ReqSketch:
    """The bytes of a REQ sketch of an expression's values, and None where there are none.

    Attributes
    ----------
    values : str
        Spark SQL that gives doubles, or arrays of them; nulls and NaN are left out.
    k : int
    high_ranks : bool
        Whether high ranks are the accurate ones, or low ones.
    """

    values: str
    k: int
    high_ranks: bool


@dataclass(frozen=True, slots=True)
class Lookup:
    """How many rows have their like in another table, of how many.

    Attributes
    ----------
    expressions : tuple of str
        Spark SQL over the data.
    table : str
        The other table or view.
    columns : tuple of str
        Its columns, as Spark SQL, in the order of the expressions.
    nulls : bool
        Whether null is like null; else rows where an expression is null are left out.
    where : str or None
    """

    expressions: tuple[str, ...]
    table: str
    columns: tuple[str, ...]
    nulls: bool
    where: str | None


SIDES = "__tidegauge_data", "__tidegauge_other"
"""What a condition of two tables calls them; no column is called so."""


class Condition(Protocol):
    """A condition on a row of the data and one of another table; equal ones say the same."""

    def __call__(self, data: Schema, other: Schema) -> str:
        """Return it as Spark SQL of columns of both, each behind one of `SIDES`."""


@dataclass(frozen=True, slots=True)
class Match:
    """How many rows have a row in another table with which a condition holds, of how many.

    Attributes
    ----------
    condition : Condition
    table : str
        The other table or view.
    """

    condition: Condition
    table: str


@dataclass(frozen=True, slots=True)
class Masks:
    """How many records each combination of broken rules and fixes made has.

    Attributes
    ----------
    tasks : Tasks
    """

    tasks: Tasks


Request = Aggregate | Frequencies | ReqSketch | Lookup | Match | Masks
ROWS = Aggregate("count(1)")
"""The number of rows, which every scan asks for."""


def texts_of(request: Request) -> tuple[str, ...]:
    """Return the Spark SQL over the data that a request holds, users' own on lines of its own."""
    match request:
        case Aggregate(text, rows):
            found: tuple[str | None, ...] = (text, rows and f"(\n{rows}\n)")
        case Frequencies(expressions, where) | Lookup(expressions=expressions, where=where):
            found = (*expressions, where and f"(\n{where}\n)")
        case ReqSketch(values):
            found = (values,)
        case Masks(tasks):
            found = tasks.texts
        case Match():  # it may read any column
            found = ()
    return tuple(text for text in found if text)
