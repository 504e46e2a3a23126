"""Scan requests of analyzers. Equal requests are computed once; similar ones share a Spark job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from tidegauge.analyzers.core.schema import Schema


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Request for the value of a Spark SQL aggregate expression.

    Attributes
    ----------
    text : str
        The expression.
    rows : str or None
        A row filter to apply before aggregating, if the expression does not include it.
    """

    text: str
    rows: str | None = None


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Request for the `FrequenciesAndNumRows` of grouping expressions.

    Attributes
    ----------
    expressions : tuple of str
        Spark SQL.
    where : str or None
    numbers : str or None
        Spark SQL of doubles or decimals to add up in each group; the answer is then a `GroupSums`.
    values : bool
        Whether the values are needed; otherwise the answer is only the `GroupSizes`.
    """

    expressions: tuple[str, ...]
    where: str | None
    numbers: str | None = None
    values: bool = True


@dataclass(frozen=True, slots=True)
class NativeSketch:
    """The Spark SQL aggregate function that builds a kind of sketch.

    Attributes
    ----------
    function : str
    call : str
        Its call, a format string of ``values`` and ``size``.
    purpose : str
        What it is used for, in a few words.
    """

    function: str
    call: str
    purpose: str


NATIVE_SKETCHES = {
    "hll": NativeSketch("hll_sketch_agg", "hll_sketch_agg({values}, {size})", "distinct counts"),
    "kll": NativeSketch(
        "kll_sketch_agg_double", "kll_sketch_agg_double({values}, {size})", "KLL quantiles"
    ),
    "frequent": NativeSketch(
        "approx_top_k_accumulate",
        "approx_top_k_accumulate({values}, {size}).sketch",
        "most frequent values",
    ),
    "tuple": NativeSketch(
        "tuple_sketch_agg_integer",
        "tuple_sketch_agg_integer({values}, 1, {size}, 'sum')",
        "approximate uniqueness",
    ),
}
"""Kinds of sketches that Spark builds if it is new enough, all from Apache DataSketches, so that the
bytes of its sketches and of those built in Python workers merge with each other."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Request for the serialized sketches of an expression's values, one or more, to be merged.

    None, or an empty list, if there are no values.

    Attributes
    ----------
    kind : str
        ``hll``: distinct counts of longs. ``kll``: quantiles of doubles. ``frequent``: most frequent
        texts. ``tuple``: a sample of distinct longs with their numbers of occurrences. ``req-high``
        and ``req-low``: quantiles of doubles that are accurate at high or low ranks.
    values : str
        Spark SQL; nulls and NaN are ignored.
    size : int
        The sketch's size parameter: k, the number of tracked values, or log2 of the sample's size.
    elements : bool
        Whether the values are arrays, each of whose elements counts; Python workers build these.
    """

    kind: str
    values: str
    size: int
    elements: bool = False

    @property
    def text(self) -> str:
        """The call of Spark's own function, if there is one; else a probe that resolves alike."""
        native = NATIVE_SKETCHES.get(self.kind)
        if native is None or self.elements:
            return self.probe
        return native.call.format(values=self.values, size=self.size)

    @property
    def probe(self) -> str:
        """A plain aggregate that resolves if and only if the values do."""
        return f"count({self.values})"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Request for the number of rows with an equal key in another table, and the number of rows.

    Attributes
    ----------
    expressions : tuple of str
        Key expressions over the data, as Spark SQL.
    table : str
        The other table or view.
    columns : tuple of str
        Its key columns, as Spark SQL, in the order of the expressions.
    nulls : bool
        True for null-safe equality (null equals null); False to ignore rows where an expression is null.
    where : str or None
    """

    expressions: tuple[str, ...]
    table: str
    columns: tuple[str, ...]
    nulls: bool
    where: str | None


SIDES = "__tidegauge_data", "__tidegauge_other"
"""Aliases of the two tables in a `Condition`; reserved, no column may have these names."""


class Condition(Protocol):
    """A join condition on a row of the data and a row of another table; comparable by equality."""

    def __call__(self, data: Schema, other: Schema) -> str:
        """Return the condition as Spark SQL, with each column qualified by one of `SIDES`."""


@dataclass(frozen=True, slots=True)
class Match:
    """Request for the number of rows that satisfy a join condition with a row of another table.

    The result also has the number of rows.

    Attributes
    ----------
    condition : Condition
    table : str
        The other table or view.
    """

    condition: Condition
    table: str


class CustomRequest(ABC):
    """A request of a product, answered by a job of its own.

    Subclasses are frozen dataclasses: equal requests are answered once.

    Class attributes
    ----------------
    job : str
        The `tidegauge.analyzers.scan.jobs.ScanJob` that answers one, as ``module:class``.
    """

    job: ClassVar[str]

    @property
    @abstractmethod
    def texts(self) -> tuple[str, ...]:
        """The Spark SQL over the data that it holds."""


class WorkerRequest(CustomRequest):
    """A request of a product that Python workers answer; several share a job.

    Class attributes
    ----------------
    most : int
        Number of requests that share one.

    Attributes
    ----------
    instead : Aggregate or Sketch
        A request with the same answer, for sessions whose workers lack a package.
    """

    most: ClassVar[int]
    instead: Aggregate | Sketch

    @property
    def texts(self) -> tuple[str, ...]:
        """The Spark SQL of the request in its place."""
        return texts_of(self.instead)


Request = Aggregate | Frequencies | Sketch | Lookup | Match | CustomRequest
ROWS = Aggregate("count(1)")
"""The row count, which every scan requests."""


def texts_of(request: Request) -> tuple[str, ...]:
    """Return a request's Spark SQL over the data, with user-written filters on separate lines."""
    match request:
        case Aggregate(text, rows):
            found: tuple[str | None, ...] = (text, rows and f"(\n{rows}\n)")
        case Frequencies(expressions, where, numbers):
            found = (*expressions, numbers, where and f"(\n{where}\n)")
        case Lookup(expressions=expressions, where=where):
            found = (*expressions, where and f"(\n{where}\n)")
        case Sketch(_, values):
            found = (values,)
        case CustomRequest():
            found = request.texts
        case Match():  # it may read any column
            found = ()
    return tuple(text for text in found if text)
