"""Analyzers: frozen descriptions of what to measure, and the registry that knows them by name.

An analyzer says which aggregations it needs (`ScanAnalyzer`) or which columns it groups by
(`analyzers.frequencies.GroupingAnalyzer`), turns the results into a state, and a state into a
metric. It holds names and numbers only, so it is a dictionary key, reads back from its own text, and
means the same on a cluster and on a laptop without Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import Field as Option
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, dataclass_transform

from analyzers.description import Description, Registry, canonical_json
from analyzers.errors import EmptyStateError, MetricError
from analyzers.metric import Entity, Failure, Intervals, Metric, Scale, Success, attempt
from analyzers.requests import Aggregate, Request
from analyzers.schema import Field, Schema
from analyzers.sql import where_holds
from analyzers.state import State, as_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.providers import StateLoader, StatePersister

S = TypeVar("S", bound=State)
T = TypeVar("T")
A = TypeVar("A", bound="type[Analyzer[Any, Any]]")

ANALYZERS: Registry[Analyzer[Any, Any]] = Registry("analyzer")


@dataclass(frozen=True, repr=False)
class Analyzer(Description, ABC, Generic[S, T]):
    """What to measure. Subclasses are made with the `analyzer` decorator.

    Class attributes
    ----------------
    scale : Scale
        How the values behave; `scale_of` refines it for composite metrics.
    state_type : type of State
        The state's class; its default is the state of no data.
    state_bytes : int
        About how many bytes one state takes, for bounding the memory of a batch.
    """

    scale: ClassVar[Scale]
    state_type: ClassVar[type[State]]
    state_bytes: ClassVar[int] = 64
    where: ClassVar[str | None] = None  # a field in Filterable

    # what is measured

    @property
    @abstractmethod
    def entity(self) -> Entity:
        """What the metric is about."""

    if TYPE_CHECKING:  # a property here would keep a subclass from having it as a field

        @property
        def instance(self) -> str:
            """Which column, columns or rule the metric is about."""

    @property
    def name(self) -> str:
        """The metric's name, before flattening."""
        return type(self).__name__

    def scale_of(self, metric_name: str) -> Scale:  # noqa: ARG002 - composite analyzers look at it
        """Return how the values of one flattened metric behave."""
        return self.scale

    # how it is measured

    def preconditions(self, schema: Any) -> None:
        """Raise a `PreconditionError` if a table of this schema cannot be measured.

        Parameters
        ----------
        schema : Schema or StructType
        """
        self.check_parameters()
        self.check_schema(Schema.of(schema))

    def check_schema(self, schema: Schema) -> None:
        """Raise a `PreconditionError` if the columns do not suit; nothing to check by default."""

    @abstractmethod
    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Return what a scan must find out for the state."""

    @abstractmethod
    def fold(self, cells: Sequence[Any]) -> S:
        """Return the state from the answers to `requests`, in their order."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The other tables that are read; a change of one makes every partition a changed one."""
        return ()

    @abstractmethod
    def measure(self, state: S) -> T:
        """Return the metric's value.

        Raises
        ------
        EmptyStateError
            If the state holds no data for it.
        """

    @abstractmethod
    def weight(self, state: S) -> float:
        """Return the rows behind the value."""

    def statistic(self) -> str:
        """Return canonical JSON of what the state is determined by.

        Analyzers with equal statistics share one state, in the scan and in the repository. It names
        the filter, so a state never answers for other rows than it was built from.
        """
        return self.canonical()

    def canonical(self) -> str:
        """Return canonical JSON of the name with all options; equal descriptions give equal text.

        Examples
        --------
        >>> from analyzers.counts import Completeness
        >>> Completeness("email").canonical()
        '{"analyzer":"Completeness","column":"email","where":null}'
        """
        return canonical_json({"analyzer": type(self).__name__, **self.options()})

    # the verbs

    def compute_state_from(self, data: DataFrame) -> S:
        """Read a DataFrame and return the state of it.

        Raises
        ------
        MetricError
            If the data does not suit the analyzer or the computation fails.
        """
        # The one import against the direction of the layers: it is what lets an analyzer be used alone.
        from analyzers.scan import scan  # noqa: PLC0415

        outcome: Any = scan(data, [self]).whole.states[self]
        if isinstance(outcome, Failure):
            raise outcome.error
        return cast("S", outcome.value)

    def compute_metric_from(self, state: S | None) -> Metric[T]:
        """Return the metric of a state; None is the state of no data."""
        known: Any = self.state_type() if state is None else as_state(self.state_type, state)
        outcome = attempt(lambda: self.measure(known))
        interval = self.interval(known) if isinstance(outcome, Success) else None
        weight = self.weight(known)
        return Metric(self.entity, self.instance, self.name, outcome, weight, interval)

    def calculate_metric(
        self,
        state: S | None,
        aggregate_with: StateLoader | None = None,
        save_states_with: StatePersister | None = None,
    ) -> Metric[T]:
        """Return the metric of a state, added to a stored one and stored again where asked for."""
        loaded: Any = aggregate_with.load(self) if aggregate_with else None
        if state is not None and loaded is not None:
            state = state + loaded
        elif state is None:
            state = loaded
        if save_states_with and state is not None:
            save_states_with.persist(self, state)
        return self.compute_metric_from(state)

    def calculate(
        self,
        data: DataFrame,
        aggregate_with: StateLoader | None = None,
        save_states_with: StatePersister | None = None,
    ) -> Metric[T]:
        """Measure a DataFrame; a failure is a failed metric, never an exception."""
        try:
            state = self.compute_state_from(data)
        except MetricError as error:
            return self.to_failure_metric(error)
        return self.calculate_metric(state, aggregate_with, save_states_with)

    def load_state_and_compute_metric(self, source: StateLoader) -> Metric[T]:
        """Return the metric of a stored state; without one, the metric of no data."""
        return self.compute_metric_from(_loaded(self, source))

    def aggregate_state_to(
        self, source_a: StateLoader, source_b: StateLoader, target: StatePersister
    ) -> None:
        """Store the sum of two stored states; a missing one is no data yet."""
        states = [s for s in (_loaded(self, source_a), _loaded(self, source_b)) if s is not None]
        if states:
            target.persist(self, self.state_type.merge(states))

    def copy_state_to(self, source: StateLoader, target: StatePersister) -> None:
        """Store a stored state elsewhere; nothing if there is none."""
        state = _loaded(self, source)
        if state is not None:
            target.persist(self, state)

    def interval(self, state: S) -> Intervals:  # noqa: ARG002 - exact analyzers have none
        """Return the bounds within which the exact value lies; None where the value is exact.

        Asked for only where there is a value. A keyed metric has them by key.
        """
        return None

    def to_failure_metric(self, error: BaseException) -> Metric[T]:
        """Return the failed metric for an error."""
        outcome = Failure(MetricError.of(error))
        return Metric(self.entity, self.instance, self.name, outcome)

    def no_data(self) -> EmptyStateError:
        """Return the error for a state that holds no data for this metric."""
        return EmptyStateError(f"{self!r}: no non-null value to compute it from")


@dataclass(frozen=True, repr=False)
class Filterable:
    """Gives an analyzer ``where``: a Spark SQL condition on the rows that count; null is false."""

    where: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, repr=False)
class ScanAnalyzer(Filterable, Analyzer[S, T]):
    """An analyzer whose state folds from aggregations, so that any number share one pass.

    Class attributes
    ----------------
    filters_rows : bool
        Whether the aggregations do not hold the filter themselves and must be given filtered rows, at
        the price of a job for each filter.
    """

    filters_rows: ClassVar[bool] = False

    @abstractmethod
    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the aggregations as Spark SQL text; equal texts are computed once."""

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the aggregations."""
        rows = self.where if self.filters_rows else None
        return tuple(Aggregate(text, rows) for text in self.aggregations(schema))


@dataclass(frozen=True, repr=False)
class DatasetAnalyzer(ScanAnalyzer[S, T]):
    """A scan analyzer of all columns together."""

    @property
    def entity(self) -> Entity:
        """The data set."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """All of it."""
        return "*"


@dataclass(frozen=True, repr=False)
class OfColumn(Filterable, Analyzer[S, T]):
    """An analyzer of one column.

    Class attributes
    ----------------
    accepts : str
        Which columns suit: the method of `Schema` that finds one.
    """

    accepts: ClassVar[str] = "plain"

    column: str

    @property
    def entity(self) -> Entity:
        """A column."""
        return Entity.COLUMN

    @property
    def instance(self) -> str:
        """The column."""
        return self.column

    def check_schema(self, schema: Schema) -> None:
        """The column is there and suits."""
        self.field(schema)

    def field(self, schema: Schema) -> Field:
        """Find the column."""
        return cast("Field", getattr(schema, self.accepts)(self.column))

    def values(self, schema: Schema) -> str:
        """Return SQL for the values that count."""
        return where_holds(self.where, self.field(schema).sql)

    def doubles(self, schema: Schema) -> str:
        """Return SQL for the values that count, as doubles."""
        return where_holds(self.where, f"CAST({self.field(schema).sql} AS DOUBLE)")


@dataclass(frozen=True, repr=False)
class ColumnAnalyzer(OfColumn[S, T], ScanAnalyzer[S, T]):
    """A scan analyzer of one column."""


@dataclass_transform(frozen_default=True, field_specifiers=(field, Option))
def analyzer(cls: A) -> A:
    """Make a class a frozen dataclass and register it as an analyzer under its name.

    Raises
    ------
    ValueError
        If the name is taken.
    """
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return ANALYZERS.add(cls)


def _loaded(owner: Analyzer[Any, Any], source: StateLoader) -> Any:
    state = source.load(owner)
    return None if state is None else as_state(owner.state_type, state)
