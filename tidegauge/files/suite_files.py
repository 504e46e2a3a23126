"""Suite files: YAML that defines what to measure and check, read with line numbers for errors.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` are not converted.

Checks are lists of constraints by the names and arguments of `Check`'s methods. An assertion is given by
``at_least``, ``at_most``, ``more_than``, ``less_than`` or ``exactly``, by a number, which is the least value, or
by a list of two bounds. ``warn`` takes a stricter one of the same form, ``where`` a filter, ``level: warning``
makes a failure less grave, and ``on_empty`` says what no data counts as.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError, TidegaugeError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.partitions import MAX_SEGMENTS
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check, Level, MetricMethods, RowMethods
from tidegauge.checks.comparisons import ComparisonMethods
from tidegauge.checks.history_constraints import AnomalyConstraint, HistoryMethods
from tidegauge.files.models import (
    LIST,
    MAPPING,
    SCALAR,
    TEXT,
    AnalyzerItem,
    Catalogue,
    Document,
    Flag,
    MonitorFields,
    Names,
    Options,
    TableFields,
    Value,
    forms,
    one_of,
    options_of,
    read_monitors,
)
from tidegauge.files.rules_files import DQM_NAME, TaskFields, read_dqm
from tidegauge.files.yaml_file import (
    YamlFile,
    check_verdict_names,
    find_files,
    line_of,
    load_each,
    verdict_name,
)
from tidegauge.repository.detection.judge import monitor_of
from tidegauge.repository.detectors.monitor import Sensitivity
from tidegauge.rules.dqm import DQM
from tidegauge.suite import Suite

LIMITS = ("at_least", "at_most", "more_than", "less_than", "exactly")


class _Limits(Document):
    """Bounds of an assertion by their names."""

    unknown = "unknown limit"
    at_least: float | None = None
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    exactly: float | None = None


_BOUNDS = 2
_Pair = Annotated[
    list[float | None], Field(json_schema_extra={"minItems": _BOUNDS, "maxItems": _BOUNDS})
]
_NUMBER: TypeAdapter[Any] = TypeAdapter(float)
_ASSERTION: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Annotated[float, SCALAR] | Annotated[_Pair, LIST] | Annotated[_Limits, MAPPING],
        forms("a number, two bounds [1, null] or limits {at_least: 1}"),
    ]
)
_VALUES: TypeAdapter[Any] = TypeAdapter(list[Value])
_SHARED: Options = {
    "where": (TEXT, None),
    "warn": (_ASSERTION, None),
    "level": (TypeAdapter(Annotated[str, one_of(Level)]), Level.ERROR),
    "on_empty": (TypeAdapter(Annotated[str, one_of(OnEmpty)]), None),
}
"""Options that all checks have."""
_CHECK_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "float": _NUMBER,
    "bool": TypeAdapter(Flag),
    "AnyAnalyzer | str": TypeAdapter(AnalyzerItem),
    "AssertionLike": _ASSERTION,
    "AssertionLike | None": _ASSERTION,
    "Columns": TypeAdapter(Names),
    "Iterable[Any]": _VALUES,
    "Iterable[Any] | None": _VALUES,
    "Any": TypeAdapter(Value),
}
"""Types of the parameters of methods of `Check`, by their annotations; all others are texts."""


def _methods() -> dict[str, Any]:
    """Return the methods of `Check` that a file can call: all but the one that takes a function only."""
    classes = (RowMethods, MetricMethods, HistoryMethods, ComparisonMethods)
    methods = {name: method for kind in classes for name, method in vars(kind).items()}
    del methods["has_histogram_values"]
    return {"has": Check.has} | {name: m for name, m in methods.items() if not name.startswith("_")}


def _check_options(method: Any) -> Options:
    options = options_of(method, _CHECK_TYPES)
    limits = LIMITS if "assertion" in options else ()
    return options | dict.fromkeys(limits, (_NUMBER, None)) | _SHARED


CHECK_METHODS = Catalogue(
    "check",
    "is_complete: {column: email, at_least: 0.95}",
    _methods(),
    _check_options,
    {"assertion": LIMITS},
)


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


def read_checks(
    file: YamlFile, given: Sequence[tuple[str, dict[str, Any]]], name: str
) -> ReadChecks:
    """Build the checks of a file.

    Parameters
    ----------
    file : YamlFile
    given : sequence of (str, dict)
        Methods and their options.
    name : str
        Name of the checks.

    Raises
    ------
    SuiteError
        With the line and the problem.
    """
    checks = {level: Check(name, level) for level in (Level.ERROR, Level.WARNING)}
    lines: dict[str, int] = {}
    for (method, options), node in file.located(given, "checks"):
        with file.errors_at(node):
            made = _with_constraint(Check(name, options.get("level", Level.ERROR)), method, options)
        (constraint,) = made.constraints
        checks[Level(made.level)] = checks[Level(made.level)].with_constraint(constraint)
        lines[constraint.identity] = line_of(node)
    return ReadChecks(tuple(check for check in checks.values() if check.constraints), lines)


def _with_constraint(check: Check, method: str, options: dict[str, Any]) -> Check:
    """Return a check with one more constraint."""
    known = inspect.signature(getattr(check, method)).parameters
    arguments = {name: value for name, value in options.items() if name in known}
    limits = {n: v for n, v in options.items() if n in LIMITS and n not in known}
    if limits:
        arguments["assertion"] = _between(limits)
    elif "assertion" in arguments:
        arguments["assertion"] = _as_between(arguments["assertion"])
    made: Check = getattr(check, method)(**arguments)
    if isinstance(constraint := made.constraints[-1], AnomalyConstraint):
        # A misspelt detector is an error of its line.
        monitor_of(constraint.usual, constraint.analyzer)
    if "where" in options:
        made = made.where(options["where"])
    if "warn" in options:
        made = made.warn(_as_between(options["warn"]))
    if "on_empty" in options:
        made = made.on_empty(options["on_empty"])
    return made


def _as_between(assertion: _Limits | list[float | None] | float) -> Between:
    """Return the bounds of an assertion: limits by name, two bounds, or the least value."""
    if isinstance(assertion, _Limits):
        return _between(assertion.model_dump(exclude_none=True))
    if isinstance(assertion, list) and len(assertion) != _BOUNDS:
        msg = f"an assertion has two bounds such as [1, null], not {assertion}"
        raise SuiteError(msg)
    low, high = assertion if isinstance(assertion, list) else (assertion, None)
    return Between(low, high)


def _between(limits: Mapping[str, float]) -> Between:
    """Return the bounds that named limits are."""
    for inclusive, exclusive in (("at_least", "more_than"), ("at_most", "less_than")):
        if inclusive in limits and exclusive in limits:
            msg = f"give {inclusive} or {exclusive}, not both"
            raise SuiteError(msg)
    if "exactly" in limits:
        if len(limits) > 1:
            msg = "exactly stands alone"
            raise SuiteError(msg)
        return Between(limits["exactly"], limits["exactly"])
    lower, upper = "more_than" not in limits, "less_than" not in limits
    closed = {(True, True): "both", (True, False): "lower", (False, True): "upper"}
    return Between(
        limits.get("at_least", limits.get("more_than")),
        limits.get("at_most", limits.get("less_than")),
        closed.get((lower, upper), "neither"),
    )


class _DQM(TaskFields):
    """The rules of a suite."""

    name: str | None = None


class SuiteFields(TableFields):
    """A suite file: what to measure and check of a table, and when to notify.

    Attributes
    ----------
    segments : list of list of str
        Sets of columns by whose values partitions are measured, too.
    analyzers : list
        The analyzers to measure.
    monitors : list
        Detectors and the series that they watch.
    sensitivity : str
        How little evidence makes an anomaly.
    windows : list of str
        Windows that are rolled up, such as ``7d``, ``month`` and ``total``.
    max_segments : int
        Number of segments of a partition from which on it fails.
    holidays : str or dict
        A calendar such as ``US``, or names of holidays by their days.
    dqm : dict
        Rules, fixes and policies.
    checks : list
        Constraints on the metrics.
    on_empty : str
        What no data counts as.
    """

    segments: list[list[str]] = []
    analyzers: list[AnalyzerItem] = []
    monitors: list[MonitorFields] = []
    sensitivity: Annotated[str, one_of(Sensitivity)] = Sensitivity.NORMAL
    windows: list[str] = []
    max_segments: int = MAX_SEGMENTS
    holidays: (
        Annotated[
            Annotated[str, SCALAR] | Annotated[dict[str, str], MAPPING],
            forms("a calendar or names by days"),
        ]
        | None
    ) = None
    dqm: _DQM | None = None
    checks: list[Annotated[Any, CHECK_METHODS]] = []
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
    fields = file.fields(SuiteFields)
    table = fields.source(file, "suite file")
    lines: dict[AnyAnalyzer, int] = {}
    for analyzer, node in file.located(fields.analyzers, "analyzers"):
        lines.setdefault(analyzer, line_of(node))
    name = verdict_name(file.path, fields.dataset, CHECKS) if fields.name is None else fields.name
    if not name.strip():
        raise file.error(file.node, "name: the checks need a name that is not empty")
    read = read_checks(file, fields.checks, name)
    for check in read.checks:
        for constraint in check.constraints:
            lines.setdefault(constraint.analyzer, read.lines[constraint.identity])
    monitors = read_monitors(file, fields.monitors)
    dqm = None if fields.dqm is None else _rules(file, fields.dqm, fields.dataset)
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


def _rules(file: YamlFile, fields: _DQM, dataset: str) -> DQM:
    """Return the rules of a suite."""
    name = fields.name
    if name is None:
        name = verdict_name(file.path, dataset, "rules", DQM_NAME)
    read = read_dqm(file, fields, "dqm", name=name)
    for policy in read.of_parser:
        msg = f"{policy.name} is about files that are parsed, which rules files do"
        raise SuiteError(f"{file.path}:{read.lines[policy.name]}: {msg}")
    return read.dqm


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
