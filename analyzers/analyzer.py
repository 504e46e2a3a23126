"""Analyzers: frozen descriptions of what to measure, and the registry that knows them by name.

An analyzer says which aggregations it needs (`ScanAnalyzer`) or which columns it groups by
(`analyzers.frequencies.GroupingAnalyzer`), turns the results into a state, and a state into a
metric. It holds names and numbers only, so it is a dictionary key, reads back from its own text, and
means the same on a cluster and on a laptop without Spark.
"""

from __future__ import annotations

import ast
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform

from analyzers.errors import (
    EmptyStateError,
    IllegalAnalyzerParameterError,
    MetricError,
    SuiteError,
    UnknownNameError,
)
from analyzers.metric import Entity, Failure, Metric, Scale, attempt
from analyzers.schema import Schema
from analyzers.state import State, as_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.providers import StateLoader, StatePersister

S = TypeVar("S", bound=State)
T = TypeVar("T")
A = TypeVar("A", bound="type[Analyzer[Any, Any]]")

ANALYZERS: dict[str, type[Analyzer[Any, Any]]] = {}


@dataclass(frozen=True, repr=False)
class Analyzer(ABC, Generic[S, T]):
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

    def __post_init__(self) -> None:
        for option in fields(self):
            value = _typed(type(self).__name__, option, getattr(self, option.name))
            object.__setattr__(self, option.name, value)

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

    def check_parameters(self) -> None:
        """Raise `IllegalAnalyzerParameterError` if an option has a value that it cannot have."""

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

        outcome = scan(data, [self]).whole.states[self]
        if isinstance(outcome, Failure):
            raise outcome.error
        state: S = outcome.value
        return state

    def compute_metric_from(self, state: S | None) -> Metric[T]:
        """Return the metric of a state; None is the state of no data."""
        if state is None:
            state = as_state(self.state_type, self.state_type())  # type: ignore[assignment]
        assert state is not None
        outcome = attempt(lambda: self.measure(state))
        return Metric(self.entity, self.instance, self.name, outcome, self.weight(state))

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

    def to_failure_metric(self, error: BaseException) -> Metric[T]:
        """Return the failed metric for an error."""
        outcome = Failure(MetricError.of(error))
        return Metric(self.entity, self.instance, self.name, outcome)

    def no_data(self) -> EmptyStateError:
        """Return the error for a state that holds no data for this metric."""
        return EmptyStateError(f"{self!r}: no non-null value to compute it from")

    # what it is called

    def options(self) -> dict[str, Any]:
        """Return all options by name.

        An option that came after the analyzer's first release says so in its field's metadata
        (``{"since": "0.2"}``) and is left out while it has its default, so stored keys stay valid.
        """
        kept = [f for f in fields(self) if "since" not in f.metadata or not _is_default(self, f)]
        return {f.name: getattr(self, f.name) for f in kept}

    def canonical(self) -> str:
        """Return canonical JSON of the analyzer with its options; equal analyzers give equal text.

        Examples
        --------
        >>> from analyzers.counts import Completeness
        >>> Completeness("email").canonical()
        '{"analyzer":"Completeness","column":"email","where":null}'
        """
        return canonical_json({"analyzer": type(self).__name__, **self.options()})

    def __repr__(self) -> str:
        """Return text that `parse_analyzer` reads back."""
        words = []
        for option in sorted(fields(self), key=lambda option: option.kw_only):
            value = getattr(self, option.name)
            if isinstance(value, tuple):
                value = list(value) if len(value) != 1 else value[0]
            if not _is_default(self, option):
                required = option.default is MISSING and not option.kw_only
                words.append(repr(value) if required else f"{option.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"


@dataclass(frozen=True, repr=False)
class Filterable:
    """Gives an analyzer ``where``: a Spark SQL condition on the rows that count; null is false."""

    where: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, repr=False)
class ScanAnalyzer(Filterable, Analyzer[S, T]):
    """An analyzer whose state folds from aggregations, so that any number share one pass."""

    @abstractmethod
    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the aggregations as Spark SQL text; equal texts are computed once."""

    @abstractmethod
    def fold(self, cells: Sequence[Any]) -> S:
        """Return the state from the results of `aggregations`, in their order."""


@dataclass(frozen=True, repr=False)
class ColumnAnalyzer(ScanAnalyzer[S, T]):
    """A scan analyzer of one column."""

    column: str

    @property
    def entity(self) -> Entity:
        """A column."""
        return Entity.COLUMN

    @property
    def instance(self) -> str:
        """The column."""
        return self.column


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def analyzer(cls: A) -> A:
    """Make a class a frozen dataclass and register it as an analyzer under its name.

    Raises
    ------
    ValueError
        If the name is taken.
    """
    made = dataclass(frozen=True, repr=False)(cls)
    if cls.__name__ in ANALYZERS:
        msg = f"an analyzer named {cls.__name__} is already registered"
        raise ValueError(msg)
    ANALYZERS[cls.__name__] = made
    return made


def canonical_json(value: Any) -> str:
    """Return JSON that is equal for equal values: sorted keys, no spaces, tuples as lists."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def key_of(canonical: str) -> str:
    """Return the hash by which a repository knows a canonical text."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def build_analyzer(name: str, options: Mapping[str, Any], positional: Sequence[Any] = ()) -> Analyzer[Any, Any]:
    """Make an analyzer from its name and options; numbers may come as text.

    Raises
    ------
    UnknownNameError
        If there is no such analyzer or option, with the nearest that there is.
    SuiteError
        If an option is missing, given twice, or there are too many.
    IllegalAnalyzerParameterError
        If an option's value cannot be.

    Examples
    --------
    >>> from analyzers.catalogue import build_analyzer
    >>> build_analyzer("ApproxQuantile", {"column": "delay", "quantile": "0.5"})
    ApproxQuantile('delay', 0.5)
    """
    if name not in ANALYZERS:
        raise UnknownNameError("analyzer", name, ANALYZERS)
    known = {option.name: option for option in fields(ANALYZERS[name])}
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    order = [option.name for option in known.values() if not option.kw_only]
    if len(positional) > len(order):
        msg = f"{name} takes at most {len(order)} values without a name, got {len(positional)}"
        raise SuiteError(msg)
    given = dict(zip(order, positional, strict=False))
    if twice := given.keys() & options.keys():
        msg = f"{name} got {min(twice)!r} twice"
        raise SuiteError(msg)
    given.update(options)
    missing = [n for n, option in known.items() if n not in given and _required(option)]
    if missing:
        msg = f"{name} needs {' and '.join(map(repr, missing))}"
        raise SuiteError(msg)
    made = ANALYZERS[name](**given)
    made.check_parameters()
    return made


def parse_analyzer(text: str) -> Analyzer[Any, Any]:
    """Read an analyzer from the text that it prints as; nothing is evaluated but literals.

    Raises
    ------
    SuiteError
        If the text is not one call with literal arguments.

    Examples
    --------
    >>> from analyzers.catalogue import parse_analyzer
    >>> parse_analyzer('''Size(where="origin = 'EWR'")''')
    Size(where="origin = 'EWR'")
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return build_analyzer(node.id, {})
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ValueError(text)  # noqa: TRY301 - one sentence for all that cannot be read
        positional = [ast.literal_eval(argument) for argument in node.args]
        options = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
    except (SyntaxError, ValueError) as error:
        msg = f"cannot read {text!r} as an analyzer; write it as in Completeness('email')"
        raise SuiteError(msg) from error
    return build_analyzer(node.func.id, options, positional)


def _required(option: Field[Any]) -> bool:
    return option.default is MISSING and option.default_factory is MISSING


def _is_default(owner: object, option: Field[Any]) -> bool:
    return option.default is not MISSING and getattr(owner, option.name) == option.default


def _loaded(owner: Analyzer[Any, Any], source: StateLoader) -> Any:
    state = source.load(owner)
    return None if state is None else as_state(owner.state_type, state)


# Options arrive from Python, YAML (all text) and stored JSON; each is typed by its annotation.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text")
    return value


def _filter(value: Any) -> str | None:
    return None if value is None else _text(value).strip()


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("a number")  # noqa: TRY004 - one kind for all that cannot be read
    return float(value)


def _integer(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError("a whole number")
    return int(value)


def _names(value: Any) -> tuple[str, ...]:
    return (_text(value),) if isinstance(value, str) else tuple(map(_text, value))


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(map(_number, value)) if isinstance(value, list | tuple) else (_number(value),)


_TYPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a text that is not empty", _text),
    "str | None": ("a Spark SQL condition", _filter),
    "float": ("a number", _number),
    "int": ("a whole number", _integer),
    "tuple[str, ...]": ("a column or a list of columns", _names),
    "tuple[float, ...]": ("a list of numbers", _numbers),
}


def _typed(owner: str, option: Field[Any], value: Any) -> Any:
    wanted, convert = _TYPES[str(option.type)]
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        msg = f"{owner}: {option.name} must be {wanted}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg) from error
