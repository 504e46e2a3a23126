"""Analyzers: their requests, base classes, and registry.

An analyzer declares the aggregations it needs (`ScanAnalyzer`) or the columns it groups by
(`tidegauge.analyzers.measures.frequencies.GroupingAnalyzer`), folds the results into a state, and
computes a metric from a state. An analyzer holds only names and numbers. An analyzer is hashable, can be
parsed from its repr, and works without Spark until it scans data.

The module begins with the requests. Equal requests are computed once, and similar requests share a Spark
job. It ends with Deequ's state providers, in memory and on the file system. The state providers of the
repository are in `tidegauge.repository.store.windows`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import Field as Option
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from tidegauge.analyzers.core.columnar import Kernel
from tidegauge.analyzers.core.conditions import compare_exactly
from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    EmptyStateError,
    MetricError,
    PreconditionError,
    SuiteError,
)
from tidegauge.analyzers.core.filesystems import child, file_system, read_file, write_file
from tidegauge.analyzers.core.metric import (
    Entity,
    Failure,
    Intervals,
    Metric,
    Scale,
    Success,
    attempt,
)
from tidegauge.analyzers.core.registry import (
    ANALYZER_MODULES,
    Description,
    Registry,
    canonical_json,
    explained,
    key_of,
    resolve,
)
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import State, as_state, read_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        Spark SQL of the values to group by.
    where : str or None
        A row filter.
    numbers : str or None
        Spark SQL of doubles or decimals to add up in each group; the result is then a `GroupSums`.
    values : bool
        Whether the values are needed; if not, the result is only the `GroupSizes`.
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
        Name of the function.
    call : str
        A call of the function, as a format string with ``values`` and ``size``.
    purpose : str
        The use of the sketch, in a few words.
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
"""Kinds of sketches that new versions of Spark build. All come from Apache DataSketches, so sketches built by
Spark and by Python workers can be merged."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Request for one or more serialized sketches of an expression's values, which are merged.

    If there are no values, the result is None or an empty list.

    Attributes
    ----------
    kind : str
        ``hll``: distinct counts of longs. ``kll``: quantiles of doubles. ``frequent``: most frequent
        strings. ``tuple``: a sample of distinct longs with their numbers of occurrences. ``req-high``
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
        """The call of Spark's own function, if it exists; otherwise `probe`."""
        native = NATIVE_SKETCHES.get(self.kind)
        if native is None or self.elements:
            return self.probe
        return native.call.format(values=self.values, size=self.size)

    @property
    def probe(self) -> str:
        """A plain aggregate that Spark can resolve if and only if it can resolve the values."""
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
        The other table's key columns, as Spark SQL, in the order of the expressions.
    nulls : bool
        True for null-safe equality (null equals null); False to ignore rows where an expression is null.
    where : str or None
        A row filter on the data.
    """

    expressions: tuple[str, ...]
    table: str
    columns: tuple[str, ...]
    nulls: bool
    where: str | None


SIDES = "__tidegauge_data", "__tidegauge_other"
"""Aliases of the two tables in a `Condition`. They are reserved: columns must not have these names."""


class Condition(Protocol):
    """A join condition on a row of the data and a row of another table; comparable with ==."""

    def __call__(self, data: Schema, other: Schema) -> str:
        """Return the condition as Spark SQL, with each column qualified by one of `SIDES`."""


@dataclass(frozen=True, slots=True)
class Match:
    """Request for the number of rows that satisfy a join condition with a row of another table.

    The result also contains the total number of rows.

    Attributes
    ----------
    condition : Condition
        The join condition.
    table : str
        The other table or view.
    """

    condition: Condition
    table: str


class CustomRequest(ABC):
    """A request defined outside of `tidegauge.analyzers`, with its own kind of job.

    Subclasses are frozen dataclasses, so that equal requests are answered once.

    Class attributes
    ----------------
    job : str
        The `tidegauge.analyzers.scan.jobs.ScanJob` that answers the request, as ``module:class``.
    """

    job: ClassVar[str]

    @property
    @abstractmethod
    def texts(self) -> tuple[str, ...]:
        """The request's Spark SQL over the data."""


class WorkerRequest(CustomRequest):
    """A `CustomRequest` that Python workers answer; several requests share a job.

    Class attributes
    ----------------
    max_per_job : int
        Maximum number of requests in one job.

    Attributes
    ----------
    instead : Aggregate or Sketch
        A request with the same answer, for sessions whose workers lack a package.
    """

    max_per_job: ClassVar[int]
    instead: Aggregate | Sketch

    @property
    def texts(self) -> tuple[str, ...]:
        """The Spark SQL of the request in ``instead``."""
        return texts_of(self.instead)


Request = Aggregate | Frequencies | Sketch | Lookup | Match | CustomRequest
ROWS = Aggregate("count(1)")
"""The row count, which every scan requests."""


def texts_of(request: Request) -> tuple[str, ...]:
    """Return a request's Spark SQL over the data, with user-written filters on separate lines."""
    match request:
        case Aggregate(text, rows):
            texts: tuple[str | None, ...] = (text, rows and f"(\n{rows}\n)")
        case Frequencies(expressions, where, numbers):
            texts = (*expressions, numbers, where and f"(\n{where}\n)")
        case Lookup(expressions=expressions, where=where):
            texts = (*expressions, where and f"(\n{where}\n)")
        case Sketch(_, values):
            texts = (values,)
        case CustomRequest():
            texts = request.texts
        case Match():  # the condition can read any column
            texts = ()
    return tuple(text for text in texts if text)


S = TypeVar("S", bound=State)
T = TypeVar("T")
A = TypeVar("A", bound="type[Analyzer[Any, Any]]")

SCANNER = "tidegauge.analyzers.scan.scan:state_outcome"
"""The function that computes one analyzer's state from a DataFrame: an analyzer can be used alone."""

ANALYZERS: Registry[Analyzer[Any, Any]] = Registry("analyzer", ANALYZER_MODULES)


class StateLoader(Protocol):
    """Protocol for loading stored states.

    Examples
    --------
    Any object with this method qualifies:

    >>> import tidegauge as tg
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> class Yesterday:
    ...     def load(self, analyzer):
    ...         return NumMatches(3)
    >>> tg.Size().load_state_and_compute_metric(Yesterday()).value
    3.0
    """

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if none is stored yet."""


class StatePersister(Protocol):
    """Protocol for storing states.

    Examples
    --------
    Any object with this method qualifies:

    >>> import tidegauge as tg
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> class Printed:
    ...     def persist(self, analyzer, state):
    ...         print(analyzer, state)
    >>> tg.Size().calculate_metric(NumMatches(3), save_states_with=Printed()).value
    Size() NumMatches(num_matches=3)
    3.0
    """

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state, replacing an earlier one."""


def check_provider(provider: object, method: str, option: str) -> None:
    """Check that an argument, unless it is None, has the method of a state provider.

    Raises
    ------
    SuiteError
    """
    if provider is not None and not callable(getattr(provider, method, None)):
        msg = (
            f"{option} takes a state provider such as tg.InMemoryStateProvider() or"
            f" tg.FileSystemStateProvider(folder), not {provider!r}"
        )
        raise SuiteError(msg)


@dataclass(frozen=True, repr=False)
class Analyzer(Description, ABC, Generic[S, T]):
    """Base class of analyzers. Define subclasses with the `analyzer` decorator.

    Class attributes
    ----------------
    scale : Scale
        Scale of the metric's values; `scale_of` refines it for composite metrics.
    state_type : type of State
        The state's class; its default-constructed instance is the state of no data.
    earlier_state_types : tuple of type of State
        Classes of states that earlier versions stored. The metric can also be computed from them.
    state_bytes : int
        Approximate size of one state in bytes, to bound the memory of a batch.
    sql_options : tuple of str
        The options that are SQL expressions. Syntax errors quote the expression.

    Examples
    --------
    >>> import tidegauge as tg
    >>> mean = tg.Mean("fare", where="paid")
    >>> isinstance(mean, tg.Analyzer), mean.name, mean.instance, str(mean.scale)
    (True, 'Mean', 'fare', 'signed')
    """

    scale: ClassVar[Scale]
    state_type: ClassVar[type[State]]
    earlier_state_types: ClassVar[tuple[type[State], ...]] = ()
    state_bytes: ClassVar[int] = 64
    where: ClassVar[str | None] = None  # a field in Filterable
    sql_options: ClassVar[tuple[str, ...]] = ("where",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_parameters()

    # metric identity

    @property
    @abstractmethod
    def entity(self) -> Entity:
        """The metric's entity: dataset, column or multicolumn."""

    if TYPE_CHECKING:  # a property here would prevent a subclass from declaring it as a field

        @property
        def instance(self) -> str:
            """The column, columns or rule that the metric describes."""

    @property
    def name(self) -> str:
        """The metric's name before flattening: the class name by default."""
        return type(self).__name__

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of one flattened metric."""
        return self.scale

    # computation

    def preconditions(self, schema: Any) -> None:
        """Raise a `PreconditionError` if the analyzer cannot run on a table of this schema.

        Parameters
        ----------
        schema : Schema or StructType
            The columns of the data.
        """
        self.check_schema(Schema.from_spark(schema))

    def check_schema(self, schema: Schema) -> None:
        """Raise a `PreconditionError` if columns are missing or have the wrong type.

        The base class accepts all columns.
        """

    @abstractmethod
    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Return the scan requests that the state is folded from."""

    def kernel(self, schema: Schema) -> Kernel[S] | None:
        """Return the computation of the state from Parquet files; None if only Spark computes it.

        The kernel returns the state that `fold` returns for Spark's answers, without regard to ``where``, which the
        planner applies to the rows. It is used only for analyzers of the same module as the kernel: a subclass
        elsewhere may compute something else.
        """
        return None

    def fold(self, cells: Sequence[Any]) -> S:
        """Return the state, whose fields are by default the answers to `requests` in the same order."""
        return cast("S", self.state_type(*cells))

    @property
    def reads(self) -> tuple[str, ...]:
        """Other tables that are read; a change in one of them marks every partition as changed.

        Spark finds the tables in subqueries of `expressions`.
        """
        return ()

    def expressions(self) -> tuple[str, ...]:
        """Return the options that are SQL expressions, as the user wrote them."""
        options = (getattr(self, name) for name in self.sql_options)
        return tuple(text for text in options if text is not None)

    def with_exact_comparisons(self, schema: Schema) -> Self:
        """Return the analyzer with exact comparisons in its SQL options; see `compare_exactly`."""
        options = {name: getattr(self, name) for name in self.sql_options}
        exact = {n: compare_exactly(sql, schema) for n, sql in options.items() if sql is not None}
        changed = {name: sql for name, sql in exact.items() if sql != options[name]}
        return replace(self, **changed) if changed else self

    @property
    def data_name(self) -> str | None:
        """The name by which a query in `expressions` refers to the measured data."""
        return None

    @abstractmethod
    def measure(self, state: S) -> T:
        """Compute the metric's value from a state.

        Raises
        ------
        EmptyStateError
            If the state holds no data for the metric.
        """

    def weight(self, state: S) -> float:
        """Return the number of rows behind the value; by default the state's ``count``."""
        count: float = cast("Any", state).count
        return count

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns whose values or hashes the state may hold; see `generation`."""
        return ()

    def generation(self, schema: Schema) -> str:
        """Return the types of the columns on which the state depends; empty if it depends on none.

        States of different generations are not merged: a 1 and a ``'1'`` would be two distinct values,
        and a histogram of numbers cannot contain dates. All numeric types are one generation, and so are
        all string types. A column that the schema does not have is ``missing``.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.histogram import Histogram
        >>> Histogram("k").generation(Schema.from_types({"k": "integer"}))
        'k is a number'
        >>> Histogram("k").generation(Schema.from_types({"k": "string"}))
        'k is a text'
        """
        if not self.state_type.depends_on_types:
            return ""
        return ", ".join(f"{column} is {_family(schema, column)}" for column in self.value_columns)

    def statistic(self) -> str:
        """Return the state's key: canonical JSON of everything that determines the state.

        Analyzers with equal statistics share one state, in the scan and in the repository. It includes
        the filter, so a state is never used for rows other than those it was built from.
        """
        return self.canonical()

    def canonical(self) -> str:
        """Return canonical JSON of the name and all options, which is equal for equal analyzers.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import Completeness
        >>> Completeness("email").canonical()
        '{"analyzer":"Completeness","column":"email","where":null}'
        """
        return canonical_json({"analyzer": type(self).__name__, **self.options()})

    # operations on data and states

    def compute_state_from(self, data: DataFrame) -> S:
        """Scan a DataFrame and return its state.

        Raises
        ------
        MetricError
            If a precondition or the computation fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> numbers = tg.spark_session().range(5)  # doctest: +SKIP
        >>> tg.Size().compute_state_from(numbers)  # doctest: +SKIP
        NumMatches(num_matches=5)
        """
        outcome: Any = resolve(SCANNER)(data, self)
        if isinstance(outcome, Failure):
            raise outcome.error
        return cast("S", outcome.value)

    def compute_metric_from(self, state: S | None) -> Metric[T]:
        """Compute the metric from a state; None means the state of no data.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.moments import Mean, SumAndCount
        >>> Mean("amount").compute_metric_from(SumAndCount(10.0, 4)).value
        2.5
        >>> Mean("amount").compute_metric_from(None).failed
        True
        """
        known_state: Any = self.state_type() if state is None else state
        if not isinstance(known_state, self.earlier_state_types):
            known_state = as_state(self.state_type, known_state)
        outcome = attempt(lambda: self.measure(known_state))
        interval = self.interval(known_state) if isinstance(outcome, Success) else None
        weight = self.weight(known_state)
        return Metric(self.entity, self.instance, self.name, outcome, weight, interval)

    def calculate_metric(
        self,
        state: S | None,
        aggregate_with: StateLoader | None = None,
        save_states_with: StatePersister | None = None,
    ) -> Metric[T]:
        """Compute the metric from a state, optionally merged with a stored state and stored again.

        Raises
        ------
        SuiteError
            If ``aggregate_with`` or ``save_states_with`` is not a state provider.

        Examples
        --------
        >>> from tidegauge.analyzers.core.analyzer import InMemoryStateProvider
        >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
        >>> monday = InMemoryStateProvider()
        >>> monday.persist(Size(), NumMatches(3))
        >>> Size().calculate_metric(NumMatches(4), aggregate_with=monday).value
        7.0
        """
        check_provider(aggregate_with, "load", "aggregate_with")
        check_provider(save_states_with, "persist", "save_states_with")
        loaded: Any = aggregate_with.load(self) if aggregate_with is not None else None
        if state is not None and loaded is not None:
            state = state + loaded
        elif state is None:
            state = loaded
        if save_states_with is not None and state is not None:
            save_states_with.persist(self, state)
        return self.compute_metric_from(state)

    def calculate(
        self,
        data: DataFrame,
        aggregate_with: StateLoader | None = None,
        save_states_with: StatePersister | None = None,
    ) -> Metric[T]:
        """Compute the metric of a DataFrame; a failed computation becomes a failed metric.

        Raises
        ------
        SourceError
            If ``data`` is not a Spark DataFrame, or is a stream.
        SuiteError
            If ``aggregate_with`` or ``save_states_with`` is not a state provider.
        StateError, OSError
            If the stored state cannot be read or the new one cannot be written.

        Examples
        --------
        >>> import tidegauge as tg
        >>> numbers = tg.spark_session().range(5)  # doctest: +SKIP
        >>> tg.Mean("id").calculate(numbers).value  # doctest: +SKIP
        2.0
        """
        check_provider(aggregate_with, "load", "aggregate_with")
        check_provider(save_states_with, "persist", "save_states_with")
        try:
            state = self.compute_state_from(data)
        except MetricError as error:
            return self.to_failure_metric(error)
        return self.calculate_metric(state, aggregate_with, save_states_with)

    def load_state_and_compute_metric(self, source: StateLoader) -> Metric[T]:
        """Compute the metric from a stored state; without one, the metric of no data.

        Examples
        --------
        >>> from tidegauge.analyzers.core.analyzer import InMemoryStateProvider
        >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
        >>> states = InMemoryStateProvider()
        >>> states.persist(Size(), NumMatches(3))
        >>> Size().load_state_and_compute_metric(states).value
        3.0
        """
        return self.compute_metric_from(_loaded(self, source))

    def aggregate_state_to(
        self, source_a: StateLoader, source_b: StateLoader, target: StatePersister
    ) -> None:
        """Merge two stored states and store the result; a missing one counts as no data.

        Examples
        --------
        >>> from tidegauge.analyzers.core.analyzer import InMemoryStateProvider
        >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
        >>> monday, tuesday, both = (InMemoryStateProvider() for _ in range(3))
        >>> monday.persist(Size(), NumMatches(3))
        >>> tuesday.persist(Size(), NumMatches(4))
        >>> Size().aggregate_state_to(monday, tuesday, both)
        >>> both.load(Size())
        NumMatches(num_matches=7)
        """
        states = [s for s in (_loaded(self, source_a), _loaded(self, source_b)) if s is not None]
        if states:
            target.persist(self, self.state_type.merge(states))

    def copy_state_to(self, source: StateLoader, target: StatePersister) -> None:
        """Copy a stored state to another provider, if the state exists.

        Examples
        --------
        >>> from tidegauge.analyzers.core.analyzer import InMemoryStateProvider
        >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
        >>> monday, copy = InMemoryStateProvider(), InMemoryStateProvider()
        >>> monday.persist(Size(), NumMatches(3))
        >>> Size().copy_state_to(monday, copy)
        >>> copy.load(Size())
        NumMatches(num_matches=3)
        """
        state = _loaded(self, source)
        if state is not None:
            target.persist(self, state)

    def interval(self, state: S) -> Intervals:
        """Return the error bounds of an approximate value; None if the value is exact.

        Called only if there is a value. For a keyed metric, a mapping by key.
        """
        return None

    def to_failure_metric(self, error: BaseException) -> Metric[T]:
        """Return the failed metric for an error."""
        outcome = Failure(MetricError.from_exception(error))
        return Metric(self.entity, self.instance, self.name, outcome)

    def no_data(self) -> EmptyStateError:
        """Return the error for a state that holds no data for this metric."""
        return EmptyStateError(f"{self!r}: no non-null value to compute it from")


AnyAnalyzer: TypeAlias = Analyzer[Any, Any]
"""An analyzer with any state and value."""


@dataclass(frozen=True, repr=False)
class Filterable:
    """Mixin that adds ``where``: a Spark SQL filter on the rows to measure; null counts as false."""

    where: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, repr=False)
class ScanAnalyzer(Filterable, Analyzer[S, T]):
    """An analyzer whose state is folded from SQL aggregates, so many analyzers share one scan."""

    @abstractmethod
    def aggregations(self, schema: Schema) -> Sequence[str | Sketch]:
        """Return the aggregates as Spark SQL, or sketches. Equal aggregates are computed once."""

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the aggregates."""
        return tuple(
            Aggregate(aggregation) if isinstance(aggregation, str) else aggregation
            for aggregation in self.aggregations(schema)
        )


@dataclass(frozen=True, repr=False)
class DatasetAnalyzer(ScanAnalyzer[S, T]):
    """A scan analyzer of the whole dataset rather than one column."""

    @property
    def entity(self) -> Entity:
        """The entity ``Dataset``."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The instance ``*``."""
        return "*"


@dataclass(frozen=True, repr=False)
class SingleColumnAnalyzer(Filterable, Analyzer[S, T]):
    """Base class of analyzers of one column.

    Class attributes
    ----------------
    accepts : str
        Name of the `Schema` method that looks the column up and checks its type.
    """

    accepts: ClassVar[str] = "plain"

    column: str

    @property
    def entity(self) -> Entity:
        """The entity ``Column``."""
        return Entity.COLUMN

    @property
    def instance(self) -> str:
        """The column's name."""
        return self.column

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def check_schema(self, schema: Schema) -> None:
        """Raise a `PreconditionError` if the column is missing or of an unsupported type."""
        self.field(schema)

    def field(self, schema: Schema) -> Field:
        """Look the column up in a schema."""
        return cast("Field", getattr(schema, self.accepts)(self.column))

    def values(self, schema: Schema) -> str:
        """Return SQL for the column's value; null where the filter does not hold."""
        return where_holds(self.where, self.field(schema).sql)

    def doubles(self, schema: Schema) -> str:
        """Return SQL for the column's value as a double; null where the filter does not hold."""
        return where_holds(self.where, f"CAST({self.field(schema).sql} AS DOUBLE)")


@dataclass(frozen=True, repr=False)
class ColumnAnalyzer(SingleColumnAnalyzer[S, T], ScanAnalyzer[S, T]):
    """A scan analyzer of one column."""


@dataclass_transform(frozen_default=True, field_specifiers=(field, Option))
def analyzer(cls: A) -> A:
    """Class decorator: make a frozen dataclass and register it as an analyzer under its name.

    Raises
    ------
    ValueError
        If the name is taken.
    """
    dataclass(frozen=True, repr=False)(cls)  # modifies the class in place
    cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]
    return ANALYZERS.add(cls)


def _family(schema: Schema, column: str) -> str:
    try:
        return f"a {schema.field(column).family}"
    except PreconditionError:
        return "missing"


def _loaded(owner: Analyzer[Any, Any], source: StateLoader) -> Any:
    state = source.load(owner)
    return None if state is None else as_state(owner.state_type, state)


_FILE_MAGIC = b"tidegauge state\n"


class InMemoryStateProvider:
    """State provider backed by a dictionary, keyed by the analyzer's statistic.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
    >>> states = InMemoryStateProvider()
    >>> states.persist(Size(), NumMatches(3))
    >>> Size().load_state_and_compute_metric(states).value
    3.0
    """

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if none is stored.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
        >>> states = InMemoryStateProvider()
        >>> states.persist(Size(), NumMatches(3))
        >>> states.load(Size())
        NumMatches(num_matches=3)
        """
        return self._states.get(analyzer.statistic())

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Store the analyzer's state, replacing an earlier one."""
        self._states[analyzer.statistic()] = state


class FileSystemStateProvider:
    """State provider backed by a folder or a prefix of an object store, with one file per state.

    The file name is a hash of the analyzer's statistic; the file holds the state's tag, a SHA-256
    checksum and the payload. Writes are atomic: a reader sees the old state or the new one.

    Parameters
    ----------
    folder : str or Path
        A path, or a URI that Arrow or fsspec can reach: ``s3://`` (``s3a://`` is the same),
        ``gs://``, ``abfss://``, ``hdfs://``. Credentials come from the environment, as for any
        program of the store. Created on the first write.

    Raises
    ------
    FileSystemError
        If no installed package knows the URI's scheme.

    Examples
    --------
    >>> import tempfile
    >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     FileSystemStateProvider(folder).persist(Size(), NumMatches(3))
    ...     FileSystemStateProvider(folder).load(Size())
    NumMatches(num_matches=3)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)
        file_system(self.folder)

    def _file(self, analyzer: Analyzer[Any, Any]) -> str:
        return child(self.folder, f"{key_of(analyzer.statistic())}.state")

    def load(self, analyzer: Analyzer[Any, Any]) -> State | None:
        """Return the analyzer's state, or None if no file exists.

        Raises
        ------
        CorruptStateError
            If the checksum does not match or the payload does not parse.
        """
        file = self._file(analyzer)
        try:
            content = read_file(file)
        except FileNotFoundError:
            return None
        head, _, rest = content.removeprefix(_FILE_MAGIC).partition(b"\n")
        checksum, _, payload = rest.partition(b"\n")
        if not content.startswith(_FILE_MAGIC) or checksum != _checksum(head, payload):
            msg = f"the state in {file} is damaged: its checksum differs"
            raise CorruptStateError(msg)
        return read_state(head.decode(errors="backslashreplace"), payload)

    def persist(self, analyzer: Analyzer[Any, Any], state: State) -> None:
        """Write the analyzer's state, replacing an earlier one."""
        payload = state.pack()
        tag = state.tag.encode()
        content = b"\n".join([_FILE_MAGIC + tag, _checksum(tag, payload), payload])
        write_file(self._file(analyzer), content)


def _checksum(tag: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(tag + b"\n" + payload).hexdigest().encode()
