"""Parse rules, fixes and policies from YAML files, with the line of each.

Text arguments (columns, conditions, names, options) are always read as text. Values, which data is
compared with or repaired by, have the types of JSON: a plain ``1``, ``0.5``, ``true`` or ``null``
has its type, and so has a date or time in ISO format; everything else and everything in quotes is
text, so ``"01"`` and ``NO`` are.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tidegauge.analyzers.core.errors import RuleError, SuiteError, UnknownNameError
from tidegauge.files.yaml_file import YamlFile, line_of
from tidegauge.rules import policies
from tidegauge.rules.column_fixes import BoundFix, FormatFix, NotNullFix, SetFix
from tidegauge.rules.column_rules import (
    BoundRule,
    ForeignKeyRule,
    FormatRule,
    NotNullRule,
    SetRule,
    UniqueRule,
)
from tidegauge.rules.dqm import DQM
from tidegauge.rules.policies import DQMPolicy, DQMTaskPolicy, FailParserCountPolicy
from tidegauge.rules.tasks import DQMRule, Fix, Rule

DQM_NAME = "dqm"
"""Name of the verdicts of rules, unless a file or its name say otherwise."""
_RULES = {
    kind.__name__: kind
    for kind in (Rule, BoundRule, SetRule, FormatRule, NotNullRule, ForeignKeyRule, UniqueRule)
}
_FIXES = {kind.__name__: kind for kind in (Fix, BoundFix, SetFix, FormatFix, NotNullFix)}
_MINDED: dict[str, tuple[type, Callable[[str], Any] | None]] = {
    "FailNone": (policies.FailNone, None),
    "FailAny": (policies.FailAny, None),
    "FailCount": (policies.FailCount, int),
    "FailPercent": (policies.FailPercent, float),
}
_POLICIES: dict[str, tuple[type, Callable[[str], Any] | None]] = {
    "FailTotalRuleCountPolicy": (policies.FailTotalRuleCountPolicy, int),
    "FailTotalRulePercentPolicy": (policies.FailTotalRulePercentPolicy, float),
    "FailTotalFixCountPolicy": (policies.FailTotalFixCountPolicy, int),
    "FailTotalFixPercentPolicy": (policies.FailTotalFixPercentPolicy, float),
    "FailParserCountPolicy": (policies.FailParserCountPolicy, int),
}
_VALUES = frozenset({"lower", "upper", "default", "value", "whole"})
"""Arguments read as values; a text as the ``value`` of a `Fix` is SQL, as in Python."""
_OPTIONAL = {"lower": None, "upper": None}
"""Bounds that a file may omit."""
_KEYS = ("columns", "reference_columns")
"""Arguments that take one column or several."""
_SHARED = ("name", "on_null", "severity", "stage", "where", "message", "description", "tags")
"""Options of all predefined rules."""

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(?P<fraction>\.\d+)?(?P<power>[eE][+-]?\d+)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True)
class ReadDQM:
    """Rules, fixes and policies read from a file.

    Attributes
    ----------
    dqm : DQM
    lines : mapping of str to int
        Line of each rule, fix and policy, by its name.
    of_parser : tuple of DQMPolicy
        Policies on parsing errors, to be passed to the parser.
    """

    dqm: DQM
    lines: Mapping[str, int] = field(default_factory=dict)
    of_parser: tuple[DQMPolicy, ...] = ()


def read_dqm(file: YamlFile, *place: str, name: str = DQM_NAME) -> ReadDQM:
    """Parse the lists ``rules``, ``fixes`` and ``policies``.

    Parameters
    ----------
    file : YamlFile
    place : str
        Path of the fields that contain the lists; none for the top level.
    name : str
        Name of the `DQM`.

    Raises
    ------
    SuiteError
        With the line, the problem, and the nearest valid name.
    """
    try:
        dqm = DQM(name)
    except RuleError as error:
        raise file.error(file.node, error) from error
    lines: dict[str, int] = {}
    of_parser: list[DQMPolicy] = []
    for what, kinds in (("rule", _RULES), ("fix", _FIXES)):
        for item in file.items(*place, "fixes" if what == "fix" else "rules"):
            try:
                made, minded = _tasks(file, item, what, kinds)
                for task in made:
                    dqm = dqm.add(task, minded)
                    lines[task.name] = line_of(item)
            except (RuleError, UnknownNameError) as error:
                raise file.error(item, error) from error
    for item in file.items(*place, "policies"):
        try:
            policy = _limited(file, item, "policy", _POLICIES)
            if isinstance(policy, FailParserCountPolicy):
                of_parser.append(policy)
            else:
                dqm = dqm.add(policy)
        except (RuleError, UnknownNameError) as error:
            raise file.error(item, error) from error
        lines[policy.name] = line_of(item)
    return ReadDQM(dqm, lines, tuple(of_parser))


def value_of(node: yaml.ScalarNode) -> Any:
    """Convert a scalar node to a typed value, as the module docstring defines.

    Examples
    --------
    >>> read = lambda text: value_of(yaml.compose(text, Loader=yaml.SafeLoader))
    >>> [read(text) for text in ("1", "-2.5", "1e3", "'1'", "01", "NO", "true", "null")]
    [1, -2.5, 1000.0, '1', '01', 'NO', True, None]
    >>> read("2013-02-08"), read("2013-02-08 06:30")
    (datetime.date(2013, 2, 8), datetime.datetime(2013, 2, 8, 6, 30))
    """
    text = str(node.value)
    if node.style is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number:
        return float(text) if number["fraction"] or number["power"] else int(text)
    try:
        if _DAY.fullmatch(text):
            return dt.date.fromisoformat(text)
        return dt.datetime.fromisoformat(text) if _TIME.fullmatch(text) else text
    except ValueError:  # an invalid date such as 31 February is text
        return text


def _tasks(
    file: YamlFile, item: yaml.Node, what: str, kinds: Mapping[str, type]
) -> tuple[list[Any], Any]:
    """Parse a rule or fix, or one for each of several columns, and its policy."""
    kind, node = _named(file, item, what)
    if kind not in kinds:
        raise UnknownNameError(what, kind, kinds)
    made = kinds[kind]
    known = _parameters(made)
    minded, columns = None, None
    if not isinstance(node, yaml.MappingNode):
        given = {next(iter(known)): _argument(file, next(iter(known)), node)}
    else:
        given = {}
        for name, value in file.pairs(node):
            if name == "policy":
                minded = _task_policy(file, value)
            elif name == "columns" and "column" in known:
                columns = _texts(file, name, value, "[email, phone]")
            elif name not in known:
                raise UnknownNameError(f"option of {kind}", name, [*known, "policy"])
            else:
                given[name] = _argument(file, name, value)
    given = {name: value for name, value in _OPTIONAL.items() if name in known} | given
    if columns is not None and "column" in given:
        msg = "give column or columns, not both"
        raise RuleError(msg)
    several = [given] if columns is None else [_for_column(given, column) for column in columns]
    given = several[0]
    missing = [name for name, needed in known.items() if needed and name not in given]
    if missing:
        msg = f"{kind} needs {' and '.join(map(repr, missing))}"
        raise RuleError(msg)
    return [made(**options) for options in several], minded


def _texts(file: YamlFile, name: str, node: yaml.Node, shown: str) -> list[str]:
    found = file.plain(node)
    if not isinstance(found, list) or not found or not all(isinstance(c, str) for c in found):
        msg = f"{name} is a list: {shown}"
        raise RuleError(msg)
    return found


def _for_column(given: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Return the arguments for one of several columns; the column is told in a name that is given."""
    named = {"name": f"{given['name']} ({column})"} if "name" in given else {}
    return {**given, **named, "column": column}


def _parameters(made: type) -> dict[str, bool]:
    """Return the arguments of a rule or fix, and whether each is required."""
    found = inspect.signature(made).parameters.values()
    known = {
        p.name: p.default is inspect.Parameter.empty for p in found if p.kind is not p.VAR_KEYWORD
    }
    options = dict.fromkeys(_SHARED, False) if issubclass(made, DQMRule) else {}
    return known | options


def _argument(file: YamlFile, name: str, node: yaml.Node | None) -> Any:
    if node is None:
        msg = f"{name!r} is missing"
        raise RuleError(msg)
    if name == "values":
        if not isinstance(node, yaml.SequenceNode):
            msg = "values is a list: [N, Y]"
            raise RuleError(msg)
        return [_value(name, item) for item in node.value]
    if name == "tags" or (name in _KEYS and isinstance(node, yaml.SequenceNode)):
        return _texts(file, name, node, "[pii]" if name == "tags" else "[order_id, line]")
    if name in _VALUES:
        return _value(name, node)
    text = file.plain(node)
    if not isinstance(text, str):
        msg = f"{name} is a text"
        raise RuleError(msg)
    return text


def _value(name: str, node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        msg = f"{name} is a number, a text, a date, a time, true, false or null"
        raise RuleError(msg)
    return value_of(node)


def _task_policy(file: YamlFile, node: yaml.Node) -> DQMTaskPolicy:
    made: DQMTaskPolicy = _limited(file, node, "task policy", _MINDED)
    return made


def _limited(
    file: YamlFile,
    node: yaml.Node,
    what: str,
    kinds: Mapping[str, tuple[type, Callable[[str], Any] | None]],
) -> Any:
    """Parse a policy: its name, and its limit if it has one."""
    kind, limit = _named(file, node, what)
    if kind not in kinds:
        raise UnknownNameError(what, kind, kinds)
    made, read = kinds[kind]
    text = None if limit is None else file.plain(limit)
    if read is None:
        if text is not None:
            msg = f"{kind} has no limit"
            raise RuleError(msg)
        return made()
    try:
        number = read(text) if isinstance(text, str) else None
    except ValueError:
        number = None
    if number is None:
        wanted = "a whole number" if read is int else "a share such as 0.05"
        told = "nothing" if text is None else repr(text)
        msg = f"{kind} takes {wanted}, not {told}: {{{kind}: {10 if read is int else 0.05}}}"
        raise RuleError(msg)
    return made(number)


def _named(file: YamlFile, node: yaml.Node, what: str) -> tuple[str, yaml.Node | None]:
    """Return the name of an item, and the node of its argument; None if it is the name alone."""
    found = file.single(node)
    if found is None:
        msg = f"a {what} is one name with its options, such as {_SHOWN[what]}"
        raise SuiteError(f"{file.path}:{line_of(node)}: {msg}")
    return found


_SHOWN = {
    "rule": "BoundRule: {column: age, lower: 1, upper: 150}",
    "fix": "NotNullFix: {column: carrier, default: unknown}",
    "policy": "FailTotalRuleCountPolicy: 30",
    "task policy": "{FailCount: 10}",
}
