"""Suite files: YAML that defines what to measure and check, read with line numbers for errors.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` are not converted.

Checks are lists of constraints by the names and arguments of `Check`'s methods. An assertion is given by
``at_least``, ``at_most``, ``more_than``, ``less_than`` or ``exactly``, by a number, which is the least value, or
by a list of two bounds. ``warn`` takes a stricter one of the same form, ``where`` a filter, ``level: warning``
makes a failure less grave, and ``on_empty`` says what no data counts as.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    PreconditionError,
    SuiteError,
    TidegaugeError,
    UnknownNameError,
)
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.partitions import MAX_SEGMENTS
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check, Level, MetricMethods, RowMethods
from tidegauge.checks.comparisons import ComparisonMethods
from tidegauge.checks.history_constraints import AnomalyConstraint, HistoryMethods
from tidegauge.files.rules_files import DQM_NAME, read_dqm, value_of
from tidegauge.files.yaml_file import (
    Document,
    TableDocument,
    TimeFields,
    YamlFile,
    check_verdict_names,
    find_files,
    line_of,
    load_each,
    verdict_name,
)
from tidegauge.repository.detection.judge import monitor_of
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.rules.dqm import DQM
from tidegauge.suite import Suite


def read_analyzer(file: YamlFile, item: yaml.Node) -> AnyAnalyzer:
    """Parse an analyzer: its name, or its name with a column or a mapping of options.

    Raises
    ------
    SuiteError
        With the line, the problem, and the nearest valid name.
    """
    plain = file.plain(item)
    try:
        if isinstance(plain, str):
            return ANALYZERS.parse(plain)
        if not isinstance(plain, Mapping) or len(plain) != 1:
            msg = "an analyzer is a name, or a name with its column or options"
            raise SuiteError(msg)  # noqa: TRY301 - located below like the others
        ((name, given),) = plain.items()
        if isinstance(given, Mapping):
            return ANALYZERS.build(name, given)
        return ANALYZERS.build(name, {}, [] if given in ("", None) else [given])
    except (SuiteError, PreconditionError) as error:
        raise file.error(item, error) from error


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


class _DQM(Document):
    """The rules of a suite."""

    name: str | None = None
    rules: list[Any] = []
    fixes: list[Any] = []
    policies: list[Any] = []


class _File(TableDocument):
    """The fields of a suite file."""

    name: str | None = None
    segments: list[list[str]] = []
    analyzers: list[Any] = []
    monitors: list[dict[str, Any]] = []
    sensitivity: str = Sensitivity.NORMAL
    windows: list[str] = []
    max_segments: int = MAX_SEGMENTS
    holidays: str | dict[str, str] | None = None
    notify: list[str] = []
    dqm: _DQM | None = None
    checks: list[Any] = []
    private: list[str] = []
    variables: dict[str, str | None] = {}
    on_empty: OnEmpty | None = None


CHECKS = "checks"
"""Name of the verdicts of a file's checks, unless the file says otherwise."""


@dataclass(frozen=True)
class SuiteFile:
    """A suite file: the suite, its table, and the line of each analyzer.

    Attributes
    ----------
    path : Path
    suite : Suite
    table : str
        A table's name, or a folder.
    format : str
    options : mapping of str to str
    lines : mapping of Analyzer to int
    checks : tuple of Check
        What the metrics are wanted to be; the suite measures what they need.
    check_lines : mapping of str to int
        Line of each constraint, by its description.
    name : str
        Name under which the verdicts of the checks are kept.
    on_empty : OnEmpty or None
        What a partition without data counts as for constraints that do not say so; None for the
        default of `resolve_no_data`.
    allow_empty : bool
        Whether all of them pass without data, whatever they say.
    of_pattern : bool
        Whether the table is one of those that the file names by a pattern.
    """

    path: Path
    suite: Suite
    table: str
    format: str
    options: Mapping[str, str] = field(repr=False)  # of Spark's reader: may hold passwords
    lines: Mapping[AnyAnalyzer, int]
    checks: tuple[Check, ...] = ()
    check_lines: Mapping[str, int] = field(default_factory=dict)
    name: str = CHECKS
    of_pattern: bool = False
    on_empty: OnEmpty | None = None
    allow_empty: bool = False

    @property
    def on_no_records(self) -> OnEmpty:
        """The outcome of rules in a partition without records, or of a table without partitions."""
        return OnEmpty.PASS if self.allow_empty else self.on_empty or OnEmpty.FAIL

    def explain(self, analyzer: AnyAnalyzer, error: TidegaugeError) -> str:
        """Describe an analyzer's failure, with its file and line."""
        line = self.lines.get(analyzer)  # none for analyzers of the rules
        return f"{self.path}{f':{line}' if line else ''}: {analyzer!r}: {error}"


def load_suite(path: str | Path, variables: Mapping[str, str] | None = None) -> SuiteFile:
    r"""Read a suite file.

    Parameters
    ----------
    path : str or Path
    variables : mapping of str to str, optional
        Values for ``${name}``, in place of those under ``variables:``.

    Raises
    ------
    SuiteError
        With file and line, the problem, and the nearest valid name.

    Examples
    --------
    >>> import tempfile
    >>> text = "dataset: flights\ntable: warehouse.flights\nanalyzers: [Size, {Completeness: dep_time}]"
    >>> with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
    ...     _ = file.write(text), file.flush()
    ...     load_suite(file.name).suite.analyzers
    (Size(), Completeness('dep_time'))
    """
    file = YamlFile.read(path, "suite file", variables=variables)
    return _Reader(file).read()


class _Reader:
    """Builder of a suite from a file's nodes, which records their lines."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file

    def read(self) -> SuiteFile:
        file = self.file
        fields = file.fields(_File, {"time": TimeFields, "dqm": _DQM})
        table = fields.source(file, "suite file")
        lines: dict[AnyAnalyzer, int] = {}
        for item in file.items("analyzers"):
            lines.setdefault(read_analyzer(file, item), line_of(item))
        name = (
            verdict_name(file.path, fields.dataset, CHECKS) if fields.name is None else fields.name
        )
        if not name.strip():
            raise file.error(file.node, "name: the checks need a name that is not empty")
        read = read_checks(file, name)
        for check in read.checks:
            for constraint in check.constraints:
                lines.setdefault(constraint.analyzer, read.lines[constraint.identity])
        monitors = [self._monitor(item) for item in file.items("monitors")]
        dqm = None if fields.dqm is None else self._rules(fields.dqm.name, fields.dataset)
        try:
            suite = Suite(
                dataset=fields.dataset,
                analyzers=list(lines),
                partition_by=fields.partition_by,
                time=fields.time_options(),
                segments=fields.segments,
                monitors=monitors,
                windows=fields.windows,
                tags=fields.tags,
                max_segments=fields.max_segments,
                holidays=fields.holidays,
                notify=fields.notify,
                dqm=dqm,
                sensitivity=fields.sensitivity,
                private=fields.private,
            )
        except SuiteError as error:
            raise file.about(error) from error
        return SuiteFile(
            file.path,
            suite,
            table,
            fields.format,
            fields.options,
            lines,
            read.checks,
            read.lines,
            name,
            on_empty=fields.on_empty,
        )

    def _rules(self, name: str | None, dataset: str) -> DQM:
        if name is None:
            name = verdict_name(self.file.path, dataset, "rules", DQM_NAME)
        read = read_dqm(self.file, "dqm", name=name)
        for policy in read.of_parser:
            msg = f"{policy.name} is about files that are parsed, which rules files do"
            raise SuiteError(f"{self.file.path}:{read.lines[policy.name]}: {msg}")
        return read.dqm

    def _monitor(self, item: yaml.Node) -> Monitor:
        try:
            return Monitor.from_dict(self.file.plain(item))
        except (SuiteError, PreconditionError) as error:
            raise self.file.error(item, error) from error


def load_suites(
    patterns: Sequence[str],
    variables: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
) -> tuple[list[SuiteFile], list[str]]:
    """Read the suite files that paths, folders and globs select; return the errors of broken ones, too.

    Parameters
    ----------
    patterns : sequence of str
    variables : mapping of str to str, optional
        As for `load_suite`.
    allow_empty : bool
        Whether what has no data passes, whatever the files say.

    Raises
    ------
    SuiteError
        If none can be read, or two keep verdicts of a dataset under one name.
    """
    files, errors = load_each(find_suites(patterns), lambda path: load_suite(path, variables))
    files = [replace(file, allow_empty=allow_empty) for file in files]
    named = [(file, file.name) for file in files if file.checks]
    named += [(file, file.suite.dqm.name) for file in files if file.suite.dqm is not None]
    check_verdict_names((file.path, file.suite.dataset, name) for file, name in named)
    return files, errors


def find_suites(patterns: Sequence[str]) -> list[Path]:
    """Find suite files by paths, folders and globs, without duplicates.

    Raises
    ------
    SuiteError
        If one matches nothing.
    """
    return find_files(patterns, "suite file")
