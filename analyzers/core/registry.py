"""Lazy registries of analyzers and detectors by name, and the modules of the built-in ones.

A module is imported when one of its names is first looked up, so reading a history does not import
packages (`tidegauge.griffin`, `tidegauge.consistency`, ...) whose analyzers it does not contain.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, Generic, TypeVar

from tidegauge.analyzers.core.description import (
    OPTION_TYPES,
    Description,
    check_positional,
    is_supported_type,
)
from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.analyzers.core.plugins import guard, load_plugins

D = TypeVar("D", bound="Description")
C = TypeVar("C", bound="type[Description]")

ANALYZER_MODULES: dict[str, tuple[str, ...]] = {
    "tidegauge.analyzers.measures.bins": (
        "HistogramBinned",
        "KLLSketch",
    ),
    "tidegauge.analyzers.measures.cardinality": ("ApproxCountDistinct",),
    "tidegauge.analyzers.measures.columns": (
        "ColumnCount",
        "ColumnExists",
        "SchemaMatch",
    ),
    "tidegauge.analyzers.measures.counts": (
        "Completeness",
        "Compliance",
        "Size",
        "ZerosCount",
    ),
    "tidegauge.analyzers.measures.custom": ("CustomSql",),
    "tidegauge.analyzers.measures.exact_quantiles": (
        "ExactQuantile",
        "InterquartileRange",
    ),
    "tidegauge.analyzers.measures.extremes": (
        "Maximum",
        "Minimum",
        "Range",
    ),
    "tidegauge.analyzers.measures.group_sums": ("HistogramOfSums",),
    "tidegauge.analyzers.measures.histogram": ("Histogram",),
    "tidegauge.analyzers.measures.information": (
        "Entropy",
        "MutualInformation",
    ),
    "tidegauge.analyzers.measures.moments": (
        "Correlation",
        "Kurtosis",
        "Skewness",
        "StandardDeviation",
        "Variance",
    ),
    "tidegauge.analyzers.measures.quantiles": (
        "ApproxQuantile",
        "ApproxQuantiles",
    ),
    "tidegauge.analyzers.measures.references": (
        "ColumnMatch",
        "DatasetMatch",
        "ReferentialIntegrity",
    ),
    "tidegauge.analyzers.measures.req": ("ReqQuantile",),
    "tidegauge.analyzers.measures.sums": (
        "Mean",
        "RatioOfSums",
        "Sum",
    ),
    "tidegauge.analyzers.measures.texts": (
        "DataType",
        "MaxLength",
        "MinLength",
        "PatternMatch",
    ),
    "tidegauge.analyzers.measures.times": (
        "Freshness",
        "MaxTime",
        "MinTime",
    ),
    "tidegauge.analyzers.measures.top_values": ("TopValues",),
    "tidegauge.analyzers.measures.tuples": (
        "ApproxDistinctness",
        "ApproxUniqueValueRatio",
        "ApproxUniqueness",
    ),
    "tidegauge.analyzers.measures.uniqueness": (
        "CountDistinct",
        "Distinctness",
        "DuplicateRowCount",
        "UniqueValueRatio",
        "Uniqueness",
    ),
    "tidegauge.consistency.compare.distributions": (
        "ConsistencyDistribution",
        "ConsistencyEdits",
        "ConsistencyEditsSkipped",
    ),
    "tidegauge.consistency.compare.maps": ("ConsistencyKeys",),
    "tidegauge.consistency.compare.measures": (
        "ConsistencyCells",
        "ConsistencyRows",
    ),
    "tidegauge.consistency.compare.numbers": ("ConsistencyNumbers",),
    "tidegauge.consistency.compare.texts": ("ConsistencyTexts",),
    "tidegauge.griffin.measures.accuracy": ("GriffinAccuracy",),
    "tidegauge.griffin.measures.keys": (
        "GriffinDistinctness",
        "GriffinDuplication",
        "GriffinUniqueness",
    ),
    "tidegauge.griffin.measures.profiling": ("GriffinProfiling",),
    "tidegauge.griffin.measures.rows": (
        "GriffinCompleteness",
        "GriffinConformance",
    ),
    "tidegauge.griffin.measures.timeliness": ("GriffinTimeliness",),
    "tidegauge.rules.measures": (
        "FixCount",
        "FixCountRatio",
        "RecordRules",
        "RuleRejects",
        "RuleRejectsRatio",
        "RuleUnknown",
        "RuleUnknownRatio",
        "RuleViolations",
        "RuleViolationsRatio",
    ),
    "tidegauge.rules.parsing.measures": (
        "ParserRejects",
        "ParserRejectsRatio",
    ),
}
"""Names of the built-in analyzers, by the module that defines them. Add new analyzers here."""

STATE_MODULES: dict[str, tuple[str, ...]] = {
    "tidegauge.analyzers.measures.cardinality": ("hll",),
    "tidegauge.analyzers.measures.columns": (
        "column-count",
        "column-exists",
        "schema-match",
    ),
    "tidegauge.analyzers.measures.counts": ("compliance", "num-matches", "num-matches-and-count"),
    "tidegauge.analyzers.measures.custom": ("custom-sql",),
    "tidegauge.analyzers.measures.extremes": ("max", "min", "range"),
    "tidegauge.analyzers.measures.frequencies": ("frequencies",),
    "tidegauge.analyzers.measures.group_sums": ("group-sums",),
    "tidegauge.analyzers.measures.moments": (
        "central-moments-2",
        "central-moments-4",
        "co-moments",
    ),
    "tidegauge.analyzers.measures.quantiles": ("kll",),
    "tidegauge.analyzers.measures.references": ("column-matches",),
    "tidegauge.analyzers.measures.req": ("req",),
    "tidegauge.analyzers.measures.sketch_pairs": ("sketch-pairs",),
    "tidegauge.analyzers.measures.sums": ("sum-and-count", "two-sums"),
    "tidegauge.analyzers.measures.texts": ("data-type",),
    "tidegauge.analyzers.measures.times": ("freshness", "time-range"),
    "tidegauge.analyzers.measures.top_values": ("frequent-items",),
    "tidegauge.analyzers.measures.tuples": ("tuple",),
    "tidegauge.consistency.compare.states": (
        "consistency-cells",
        "consistency-keys",
        "consistency-numbers",
        "consistency-rows",
    ),
    "tidegauge.griffin.measures.parts": ("griffin-parts",),
    "tidegauge.rules.state": ("record-counts",),
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
        """Build an instance from a class name and options; numbers may be given as text.

        Raises
        ------
        UnknownNameError
            If there is no such name or option; the message suggests the closest.
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
        known = {option.name: option for option in fields(cls)}
        for option in options:
            if option not in known:
                kind = f"option of {name}"
                raise UnknownNameError(kind, option, known)
        order = check_positional(name, positional, list(known.values()))
        given = dict(zip(order, positional, strict=False))
        if twice := given.keys() & options.keys():
            msg = f"{name} got {min(twice)!r} twice"
            raise SuiteError(msg)
        given.update(options)
        missing = [n for n, option in known.items() if n not in given and option.default is MISSING]
        if missing:
            msg = f"{name} needs {' and '.join(map(repr, missing))}"
            raise SuiteError(msg)
        made = cls(**given)
        made.check_parameters()
        return made

    def parse(self, text: str) -> D:
        """Parse a description from its repr; only literals are evaluated.

        Raises
        ------
        SuiteError
            If the text is not a single name or a call with literal arguments.

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
