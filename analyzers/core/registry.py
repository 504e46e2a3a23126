"""Descriptions, registered by name and imported when they are first used.

Analyzers and detectors are descriptions: frozen, hashable dataclasses of options with a repr that can be
parsed back. A description can be a dictionary key, be stored as JSON under a stable hash, be written in a
suite file, and be printed as Python source.

A `Registry` finds their classes by name. A module is imported when one of its names is first looked up, so
reading a history does not import packages (`tidegauge.griffin`, `tidegauge.consistency`, ...) whose
analyzers it does not contain. Single objects are named as ``module:attribute`` and imported by `resolve`;
`Rendered` results name the function that shows them in notebooks.

Plug-ins from other packages are discovered by entry points. A package lists its modules under the groups
``tidegauge.analyzers`` or ``tidegauge.detectors``; importing a module registers its definitions, as for
built-in modules. The group ``tidegauge.sinks`` lists functions that take a message's title, its body, and the
part of the sink's address after its name. A plug-in that cannot be imported, or registers a name that is
taken, is skipped as a whole with a warning; everything else continues.
"""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Generic, TypeVar

from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    PluginWarning,
    SuiteError,
    UnknownNameError,
    describe,
)


def resolve(name: str) -> Any:
    """Import the object that ``module:attribute`` names.

    Lower layers refer to higher layers by name (the scan, jobs of other packages, rendering in notebooks).
    So layers import only lower layers, and modules are imported when they are first used.

    Examples
    --------
    >>> resolve("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


class Rendered:
    """Base of results that notebooks show as HTML.

    The HTML is written by `tidegauge.display`, which is imported when a result is shown.

    Class attributes
    ----------------
    renderer : str
        A function from the object to HTML, as ``module:function``.
    """

    __slots__ = ()
    renderer: ClassVar[str]

    def _repr_html_(self) -> str:
        html: str = resolve(self.renderer)(self)
        return html


_GUARDED_REGISTRIES: list[tuple[dict[str, Any], Callable[[], object]]] = []


@dataclass(frozen=True)
class Plugin:
    """A loaded entry point, or the reason why it could not be loaded.

    Attributes
    ----------
    name : str
        The entry point's name.
    package : str
        The package that provides it.
    problem : str
        The error; empty if it was loaded.
    value : object
        The object that the entry point refers to.
    """

    name: str
    package: str
    problem: str = ""
    value: Any = None


def guard(registry: dict[str, Any], complete: Callable[[], object] = lambda: None) -> None:
    """Register a registry for rollback: it is restored if a plug-in fails while loading.

    Parameters
    ----------
    registry : dict
        The registry to protect.
    complete : callable, optional
        Imports all built-in entries. It is called before the first plug-in is loaded, so that the
        restored snapshot includes them: a module that is already imported does not register again.
    """
    _GUARDED_REGISTRIES.append((registry, complete))


@cache
def load_plugins(group: str) -> tuple[Plugin, ...]:
    """Import all plug-ins of a group, once, and return each with its value or its problem."""
    plugins = []
    points = sorted(entry_points(group=group), key=lambda point: point.name)
    for _, complete in list(_GUARDED_REGISTRIES) if points else ():
        complete()
    for point in points:
        package = point.dist.name if point.dist else "an unknown package"
        snapshots = [(registry, dict(registry)) for registry, _ in _GUARDED_REGISTRIES]
        try:
            value = point.load()
        except Exception as error:  # noqa: BLE001 - third-party code may raise anything
            for registry, entries in snapshots:
                registry.clear()
                registry.update(entries)
            plugins.append(Plugin(point.name, package, describe(error)))
            msg = f"plug-in {point.name!r} of {package} was skipped: {describe(error)}"
            warnings.warn(msg, PluginWarning, stacklevel=2)
        else:
            plugins.append(Plugin(point.name, package, value=value))
    return tuple(plugins)


@dataclass(frozen=True, repr=False)
class Description:
    """Base class: a frozen dataclass of options. Text values are converted to the option's type."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = _typed(type(self).__name__, option, getattr(self, option.name))
            object.__setattr__(self, option.name, value)

    def check_parameters(self) -> None:
        """Raise `IllegalAnalyzerParameterError` if an option has an invalid value.

        The base class accepts all values.
        """

    def options(self) -> dict[str, Any]:
        """Return all options by name.

        An option added after the first release has ``{"since": "0.2"}`` in its field's metadata and is
        omitted while it has its default, so that stored keys stay valid.
        """
        written = [f for f in fields(self) if "since" not in f.metadata or not _is_default(self, f)]
        return {f.name: getattr(self, f.name) for f in written}

    def __repr__(self) -> str:
        """Return a string that `Registry.parse` can parse."""
        words = []
        for option in sorted(fields(self), key=lambda option: bool(option.kw_only)):
            value = getattr(self, option.name)
            if isinstance(value, tuple):
                value = list(value) if len(value) != 1 else value[0]
            if not _is_default(self, option):
                required = option.default is MISSING and not option.kw_only
                words.append(repr(value) if required else f"{option.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap a description's ``__init__``: the error for an unknown option suggests the nearest option."""

    @wraps(init)
    def checked(self: Description, *values: Any, **options: Any) -> None:
        try:
            init(self, *values, **options)
        except TypeError as error:
            name, options_by_name = (
                type(self).__name__,
                {option.name: option for option in fields(self)},
            )
            for option in options:
                if option not in options_by_name:
                    raise UnknownNameError(f"option of {name}", option, options_by_name) from error
            check_positional(name, values, list(options_by_name.values()))
            raise

    return checked


def check_positional(name: str, values: Sequence[Any], options: Sequence[Field[Any]]) -> list[str]:
    """Return the names of options that are given by position.

    Raises
    ------
    SuiteError
        If more values are given.
    """
    order = [option.name for option in options if not option.kw_only]
    if len(values) > len(order):
        keyword_only = [option.name for option in options if option.kw_only]
        hint = (
            f"; give {', '.join(f'{option}=' for option in keyword_only)} by name"
            if keyword_only
            else ""
        )
        msg = f"{name} takes at most {len(order)} values without a name, got {len(values)}{hint}"
        raise SuiteError(msg)
    return order


def check_choice(owner: Description, option: str, values: Sequence[str]) -> None:
    """Raise `IllegalAnalyzerParameterError` unless an option has one of the allowed values."""
    value = getattr(owner, option)
    if value not in values:
        choices = ", ".join(map(repr, values))
        msg = f"{type(owner).__name__}: {option} must be one of {choices}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg)


def canonical_json(value: Any) -> str:
    """Serialize to canonical JSON: sorted keys, no spaces, tuples as lists."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def key_of(canonical: str) -> str:
    """Return the SHA-256 hex digest of a canonical string. Repositories use it as the key of the string."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def _is_default(owner: object, option: Field[Any]) -> bool:
    return option.default is not MISSING and bool(getattr(owner, option.name) == option.default)


# Options come from Python, YAML (all text) and stored JSON; each is converted by its annotation.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def _filter(value: Any) -> str | None:
    return None if value is None else _text(value).strip()


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - one exception type for everything unreadable
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _integer(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError(value)
    return int(value)


def _flag(value: Any) -> bool:
    flags = {True: True, False: False, "true": True, "false": False}
    return flags[value.casefold() if isinstance(value, str) else value]


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        raise ValueError(value)  # noqa: TRY004 - one exception type for everything unreadable
    return (_text(value),) if isinstance(value, str) else tuple(map(_text, value))


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(map(_number, value)) if isinstance(value, list | tuple) else (_number(value),)


OPTION_TYPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a non-empty string", _text),
    "str | None": ("Spark SQL", _filter),
    "float": ("a number", _number),
    "float | None": ("a number or nothing", _number_or_none),
    "int": ("a whole number", _integer),
    "bool": ("true or false", _flag),
    "tuple[str, ...]": ("a name or a list of names", _names),
    "tuple[float, ...]": ("a list of numbers", _numbers),
}


def _annotation(option: Field[Any]) -> str:
    """Return an option's type annotation as text."""
    if isinstance(option.type, type) and not hasattr(option.type, "__args__"):
        return option.type.__name__
    return str(option.type)


def is_supported_type(option: Field[Any]) -> bool:
    """Return whether an option's type can be read from text, YAML and JSON."""
    return _annotation(option) in OPTION_TYPES


def _typed(owner: str, option: Field[Any], value: Any) -> Any:
    expected, convert = OPTION_TYPES[_annotation(option)]
    try:
        return convert(value)
    except (TypeError, ValueError, KeyError) as error:
        msg = f"{owner}: {option.name} must be {expected}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg) from error


D = TypeVar("D", bound="Description")
C = TypeVar("C", bound="type[Description]")

ANALYZER_MODULES: dict[str, tuple[str, ...]] = {
    "tidegauge.analyzers.measures.cardinality": (
        "ApproxCountDistinct",
        "ApproxDistinctness",
        "ApproxUniqueValueRatio",
        "ApproxUniqueness",
    ),
    "tidegauge.analyzers.measures.counts": (
        "ColumnCount",
        "ColumnExists",
        "ColumnMatch",
        "Completeness",
        "Compliance",
        "DatasetMatch",
        "ReferentialIntegrity",
        "SchemaMatch",
        "Size",
        "ZerosCount",
    ),
    "tidegauge.analyzers.measures.custom": ("CustomSql",),
    "tidegauge.analyzers.measures.extremes": (
        "Freshness",
        "MaxTime",
        "Maximum",
        "MinTime",
        "Minimum",
        "Range",
    ),
    "tidegauge.analyzers.measures.frequencies": (
        "CountDistinct",
        "Distinctness",
        "DuplicateRowCount",
        "Entropy",
        "ExactQuantile",
        "InterquartileRange",
        "MutualInformation",
        "UniqueValueRatio",
        "Uniqueness",
    ),
    "tidegauge.analyzers.measures.histogram": (
        "Histogram",
        "HistogramBinned",
        "HistogramOfSums",
        "KLLSketch",
    ),
    "tidegauge.analyzers.measures.moments": (
        "Correlation",
        "Kurtosis",
        "Mean",
        "RatioOfSums",
        "Skewness",
        "StandardDeviation",
        "Sum",
        "Variance",
    ),
    "tidegauge.analyzers.measures.quantiles": (
        "ApproxQuantile",
        "ApproxQuantiles",
        "ReqQuantile",
    ),
    "tidegauge.analyzers.measures.texts": (
        "DataType",
        "MaxLength",
        "MinLength",
        "PatternMatch",
    ),
    "tidegauge.analyzers.measures.top_values": ("TopValues",),
    "tidegauge.consistency.compare.distributions": (
        "ConsistencyDistribution",
        "ConsistencyEdits",
        "ConsistencyEditsSkipped",
        "ConsistencyTexts",
    ),
    "tidegauge.consistency.compare.measures": (
        "ConsistencyCells",
        "ConsistencyKeys",
        "ConsistencyNumbers",
        "ConsistencyRows",
    ),
    "tidegauge.griffin.measures.keys": (
        "GriffinDistinctness",
        "GriffinDuplication",
        "GriffinUniqueness",
    ),
    "tidegauge.griffin.measures.profiling": ("GriffinProfiling",),
    "tidegauge.griffin.measures.rows": (
        "GriffinAccuracy",
        "GriffinCompleteness",
        "GriffinConformance",
    ),
    "tidegauge.griffin.measures.timeliness": ("GriffinTimeliness",),
    "tidegauge.rules.measures": (
        "FixCount",
        "FixCountRatio",
        "ParserRejects",
        "ParserRejectsRatio",
        "RecordRules",
        "RuleRejects",
        "RuleRejectsRatio",
        "RuleUnknown",
        "RuleUnknownRatio",
        "RuleViolations",
        "RuleViolationsRatio",
    ),
}
"""Names of the built-in analyzers, by the module that defines them. Add new analyzers here."""

STATE_MODULES: dict[str, tuple[str, ...]] = {
    "tidegauge.analyzers.measures.cardinality": (
        "hll",
        "tuple",
    ),
    "tidegauge.analyzers.measures.counts": (
        "column-count",
        "column-exists",
        "column-matches",
        "compliance",
        "num-matches",
        "num-matches-and-count",
        "schema-match",
    ),
    "tidegauge.analyzers.measures.custom": ("custom-sql",),
    "tidegauge.analyzers.measures.extremes": (
        "freshness",
        "max",
        "min",
        "range",
        "time-range",
    ),
    "tidegauge.analyzers.measures.frequencies": ("frequencies",),
    "tidegauge.analyzers.measures.histogram": ("group-sums",),
    "tidegauge.analyzers.measures.moments": (
        "central-moments-2",
        "central-moments-4",
        "co-moments",
        "sum-and-count",
        "two-sums",
    ),
    "tidegauge.analyzers.measures.quantiles": (
        "kll",
        "req",
        "sketch-pairs",
    ),
    "tidegauge.analyzers.measures.texts": ("data-type",),
    "tidegauge.analyzers.measures.top_values": ("frequent-items",),
    "tidegauge.consistency.compare.measures": (
        "consistency-cells",
        "consistency-keys",
        "consistency-numbers",
        "consistency-rows",
    ),
    "tidegauge.griffin.measures.base": ("griffin-parts",),
    "tidegauge.rules.record_counts": ("record-counts",),
}
"""Kinds of the built-in states (the tag up to the slash), by the module that reads them."""


def module_of(name: str, modules: Mapping[str, Sequence[str]]) -> str | None:
    """Return the module that defines a name in one of the tables above; None if it is not listed."""
    return next((module for module, names in modules.items() if name in names), None)


class Registry(Generic[D]):
    """Registry of description classes by name.

    Parameters
    ----------
    kind : str
        Kind of the classes, for error messages. Plug-ins register under the entry point group
        ``tidegauge.<kind>s``; they are loaded when a name is unknown or the registry is iterated.
    modules : mapping of str to sequence of str, optional
        The names of the built-in classes by module; a module is imported when one of its names is
        looked up.
    """

    def __init__(self, kind: str, modules: Mapping[str, Sequence[str]] | None = None) -> None:
        self.kind = kind
        self._modules = modules or {}
        self._classes: dict[str, type[D]] = {}
        guard(self._classes, self._import_all)

    def __iter__(self) -> Iterator[str]:
        self._import_all()
        load_plugins(f"tidegauge.{self.kind}s")
        return iter(sorted(self._classes))

    def __getitem__(self, name: str) -> type[D]:
        """Look up a class; raise `UnknownNameError` with the closest name if there is none."""
        module = module_of(name, self._modules)
        if module is not None:
            import_module(module)
        elif name not in self._classes:
            load_plugins(f"tidegauge.{self.kind}s")
        if name not in self._classes:
            self._import_all()
            raise UnknownNameError(self.kind, name, self._classes)
        return self._classes[name]

    def _import_all(self) -> None:
        for module in self._modules:
            import_module(module)

    def add(self, cls: C) -> C:
        """Register a class under its own name.

        Raises
        ------
        ValueError
            If the name is taken, or an option has a type that a suite file cannot express.
        """
        home = module_of(cls.__name__, self._modules)
        if cls.__name__ in self._classes or home not in {None, cls.__module__}:
            msg = f"the {self.kind} {cls.__name__} is already registered"
            raise ValueError(msg)
        for option in fields(cls):
            if not is_supported_type(option):
                msg = f"{cls.__name__}.{option.name} must be one of {', '.join(OPTION_TYPES)}"
                raise ValueError(msg)
        self._classes[cls.__name__] = cls  # type: ignore[assignment]  # C is a type of D by use
        return cls

    def build(self, name: str, options: Mapping[str, Any], positional: Sequence[Any] = ()) -> D:
        """Build an instance from a class name and options; numbers can be given as strings.

        Raises
        ------
        UnknownNameError
            If the name or option does not exist; the message suggests a similar name.
        SuiteError
            If an option is missing or given twice, or there are too many positional options.
        IllegalAnalyzerParameterError
            If an option's value is invalid.

        Examples
        --------
        >>> from tidegauge.analyzers.core.analyzer import ANALYZERS
        >>> ANALYZERS.build("ApproxQuantile", {"column": "delay", "quantile": "0.5"})
        ApproxQuantile('delay', 0.5)
        """
        cls = self[name]
        options_by_name = {option.name: option for option in fields(cls)}
        for option in options:
            if option not in options_by_name:
                kind = f"option of {name}"
                raise UnknownNameError(kind, option, options_by_name)
        order = check_positional(name, positional, list(options_by_name.values()))
        arguments = dict(zip(order, positional, strict=False))
        if twice := arguments.keys() & options.keys():
            msg = f"{name} got {min(twice)!r} twice"
            raise SuiteError(msg)
        arguments.update(options)
        missing = [
            n
            for n, option in options_by_name.items()
            if n not in arguments and option.default is MISSING
        ]
        if missing:
            msg = f"{name} needs {' and '.join(map(repr, missing))}"
            raise SuiteError(msg)
        instance = cls(**arguments)
        instance.check_parameters()
        return instance

    def parse(self, text: str) -> D:
        """Parse a description from its repr; only literals are evaluated.

        Raises
        ------
        SuiteError
            If the string is not a single name or a call with literal arguments.

        Examples
        --------
        >>> from tidegauge.analyzers.core.analyzer import ANALYZERS
        >>> ANALYZERS.parse('''Size(where="origin = 'EWR'")''')
        Size(where="origin = 'EWR'")
        """
        try:
            node = ast.parse(text.strip(), mode="eval").body
            if isinstance(node, ast.Name):
                node = ast.Call(node, [], [])
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                raise ValueError(text)  # noqa: TRY004, TRY301 - one message for everything unreadable
            positional = [_literal(argument) for argument in node.args]
            options = {str(k.arg): _literal(k.value) for k in node.keywords}
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            article = "an" if self.kind[0] in "aeiou" else "a"
            msg = f"cannot read {text!r} as {article} {self.kind}; write it as in Name('column', option=1)"
            raise SuiteError(msg) from error
        return self.build(node.func.id, options, positional)


def _literal(node: ast.expr) -> Any:
    """Evaluate a literal, including ``inf`` and ``-inf``, as `repr` prints them."""
    sign = -1.0 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1.0
    name = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(name, ast.Name) and name.id == "inf":
        return sign * float("inf")
    return ast.literal_eval(node)
