"""Parse the checks of suite files: constraints by the names and arguments of `Check`'s methods.

An assertion is given by ``at_least``, ``at_most``, ``more_than``, ``less_than`` or ``exactly``, by a
number, which is the least value, or by a list of two bounds. ``warn`` takes a stricter one of the
same form, ``where`` a filter, ``level: warning`` makes a failure less grave, and ``on_empty`` says what no
data counts as.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tidegauge.analyzers.core.errors import PreconditionError, SuiteError, UnknownNameError
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check, Level
from tidegauge.checks.comparisons import ComparisonMethods
from tidegauge.checks.history_constraints import AnomalyConstraint
from tidegauge.checks.history_methods import HistoryMethods
from tidegauge.checks.metric_methods import MetricMethods
from tidegauge.checks.row_methods import RowMethods
from tidegauge.files.analyzers import read_analyzer
from tidegauge.files.dqm import value_of
from tidegauge.files.yaml_file import YamlFile, line_of
from tidegauge.repository.detection.judge import monitor_of

LIMITS = ("at_least", "at_most", "more_than", "less_than", "exactly")
_SHARED = ("where", "warn", "level", "on_empty")
_METHODS = {
    "has",
    *(
        name
        for methods in (RowMethods, MetricMethods, HistoryMethods, ComparisonMethods)
        for name in vars(methods)
        if not name.startswith("_") and name != "has_histogram_values"  # takes a function only
    ),
}


@dataclass(frozen=True)
class ReadChecks:
    """Checks read from a file.

    Attributes
    ----------
    checks : tuple of Check
        One of level ``error`` and one of level ``warning``, as far as they have constraints.
    lines : mapping of str to int
        Line of each constraint, by its `identity`.
    """

    checks: tuple[Check, ...]
    lines: Mapping[str, int]


def read_checks(file: YamlFile, name: str) -> ReadChecks:
    """Parse the list ``checks``.

    Parameters
    ----------
    file : YamlFile
    name : str
        Name of the checks.

    Raises
    ------
    SuiteError
        With the line, the problem, and the nearest valid name.
    """
    checks = {level: Check(name, level) for level in Level}
    lines: dict[str, int] = {}
    for item in file.items("checks"):
        try:
            level, checks_of_level = _with_constraint(file, item, checks)
        except (SuiteError, PreconditionError) as error:
            located = str(error).startswith(f"{file.path}:")
            raise (error if located else file.error(item, error)) from error
        checks[level] = checks_of_level
        lines[checks_of_level.constraints[-1].identity] = line_of(item)
    order = (Level.ERROR, Level.WARNING)
    return ReadChecks(tuple(checks[one] for one in order if checks[one].constraints), lines)


def _with_constraint(
    file: YamlFile, item: yaml.Node, checks: Mapping[Level, Check]
) -> tuple[Level, Check]:
    """Return the check of an item's level with the item's constraint."""
    method, node = _named(file, item)
    if method not in _METHODS:
        raise UnknownNameError("check", method, sorted(_METHODS))
    given, shared = _arguments(file, method, node)
    text = file.plain(shared["level"]) if "level" in shared else Level.ERROR
    if text not in list(Level):
        raise UnknownNameError("level of a check", str(text), [str(one) for one in Level])
    level = Level(text)
    made: Check = getattr(checks[level], method)(**given)
    if isinstance(constraint := made.constraints[-1], AnomalyConstraint):
        # A misspelt detector is an error of its line.
        monitor_of(constraint.usual, constraint.analyzer)
    if "where" in shared:
        made = made.where(_text(file, "where", shared["where"]))
    if "warn" in shared:
        made = made.warn(_assertion(file, "warn", shared["warn"]))
    if "on_empty" in shared:
        made = made.on_empty(_text(file, "on_empty", shared["on_empty"]))
    return level, made


def _arguments(
    file: YamlFile, method: str, node: yaml.Node | None
) -> tuple[dict[str, Any], dict[str, yaml.Node]]:
    """Return the arguments of a method, and the nodes of the options that all items take."""
    known = inspect.signature(getattr(Check, method)).parameters
    kinds = {n: str(p.annotation) for n, p in known.items() if n not in {"self", "part"}}
    limits = LIMITS if "assertion" in kinds else ()
    if not isinstance(node, yaml.MappingNode):
        nodes = {} if node is None else {next(iter(kinds)): node}
    else:
        nodes = dict(file.pairs(node))
    shared = {name: value for name, value in nodes.items() if name in _SHARED}
    bounds = {n: v for n, v in nodes.items() if n in limits and n not in kinds}
    given = {}
    for name, value in nodes.items():
        if name in kinds:
            given[name] = _argument(file, name, kinds[name], value)
        elif name not in shared and name not in bounds:
            raise UnknownNameError(f"option of {method}", name, [*kinds, *limits, *_SHARED])
    if bounds:
        given["assertion"] = _between(file, bounds)
    missing = [name for name in kinds if known[name].default is known[name].empty]
    told = [
        "a limit such as at_least" if name == "assertion" else repr(name)
        for name in missing
        if name not in given
    ]
    if told:
        msg = f"{method} needs {' and '.join(told)}"
        raise SuiteError(msg)
    return given, shared


def _named(file: YamlFile, item: yaml.Node) -> tuple[str, yaml.Node | None]:
    """Return the method's name, and the node of its arguments; None if it is the name alone."""
    found = file.single(item)
    if found is None:
        msg = "a check is one name with its options, such as is_complete: {column: email, at_least: 0.95}"
        raise SuiteError(msg)
    return found


def _argument(file: YamlFile, name: str, kind: str, node: yaml.Node) -> Any:
    """Parse an argument by the annotation of the method's parameter; text unless it says otherwise."""
    return _READERS.get(kind, _text)(file, name, node)


def _assertion(file: YamlFile, name: str, node: yaml.Node) -> Between:
    """Parse an assertion: limits by name, the least value, or a list of two bounds."""
    if isinstance(node, yaml.MappingNode):
        limits = dict(file.pairs(node))
        for limit in limits.keys() - set(LIMITS):
            raise UnknownNameError("limit", limit, LIMITS)
        return _between(file, limits)
    if isinstance(node, yaml.SequenceNode) and len(node.value) == 2:
        low, high = (
            None if file.plain(one) is None else _number(file, "a bound", one) for one in node.value
        )
        return Between(low, high)
    return Between(_number(file, name, node))


def _between(file: YamlFile, limits: Mapping[str, yaml.Node]) -> Between:
    """Return the bounds that named limits are."""
    found = {name: _number(file, name, node) for name, node in limits.items()}
    for one, other in (("at_least", "more_than"), ("at_most", "less_than")):
        if one in found and other in found:
            msg = f"give {one} or {other}, not both"
            raise SuiteError(msg)
    if "exactly" in found:
        if len(found) > 1:
            msg = "exactly stands alone"
            raise SuiteError(msg)
        return Between(found["exactly"], found["exactly"])
    lower, upper = "more_than" not in found, "less_than" not in found
    closed = {(True, True): "both", (True, False): "lower", (False, True): "upper"}
    return Between(
        found.get("at_least", found.get("more_than")),
        found.get("at_most", found.get("less_than")),
        closed.get((lower, upper), "neither"),
    )


def _number(file: YamlFile, name: str, node: yaml.Node) -> float:
    text = file.plain(node)
    try:
        return float(text) if isinstance(text, str) else float("nan")
    except ValueError:
        msg = f"{name} is a number, not {text!r}"
        raise SuiteError(msg) from None


def _text(file: YamlFile, name: str, node: yaml.Node) -> str:
    text = file.plain(node)
    if not isinstance(text, str):
        msg = f"{name} is a text"
        raise SuiteError(msg)
    return text


def _columns(file: YamlFile, name: str, node: yaml.Node) -> str | list[str]:
    found = file.plain(node)
    return found if isinstance(found, list) else _text(file, name, node)


def _flag(file: YamlFile, name: str, node: yaml.Node) -> bool:
    found = _value(file, name, node)
    if not isinstance(found, bool):
        msg = f"{name} is true or false"
        raise SuiteError(msg)
    return found


def _values(file: YamlFile, name: str, node: yaml.Node) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode):
        msg = f"{name} is a list: [N, Y]"
        raise SuiteError(msg)
    return [_value(file, name, one) for one in node.value]


def _value(file: YamlFile, name: str, node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        msg = f"{name} is a number, a text, a date, a time, true or false"
        raise SuiteError(msg)
    return value_of(node)


_READERS: Mapping[str, Callable[[YamlFile, str, yaml.Node], Any]] = {
    "float": _number,
    "bool": _flag,
    "AnyAnalyzer | str": lambda file, _, node: read_analyzer(file, node),
    "AssertionLike": _assertion,
    "AssertionLike | None": _assertion,
    "Columns": _columns,
    "Iterable[Any]": _values,
    "Iterable[Any] | None": _values,
    "Any": _value,
}
