"""Suite files: YAML that defines what to measure and check, read with line numbers for errors.

Every scalar is read as a string and converted by the type of its field, so ``hr: 07`` and ``NO`` stay strings.

Checks are lists of constraints with the names and arguments of `Check`'s methods. An assertion is a limit
(``at_least``, ``at_most``, ``more_than``, ``less_than`` or ``exactly``), a number, which is the minimum, or a list
of two bounds. ``warn`` takes a stricter assertion of the same form, ``where`` a filter. ``level: warning`` turns
a failure into a warning, and ``on_empty`` sets the outcome without data.
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
from tidegauge.files import models, yaml_file
from tidegauge.files.rules_files import DQM_NAME, TaskFields, read_dqm
from tidegauge.repository.detection.judge import monitor_of
from tidegauge.repository.detectors.monitor import Sensitivity
from tidegauge.rules.dqm import DQM
from tidegauge.suite import Suite

LIMIT_NAMES = ("at_least", "at_most", "more_than", "less_than", "exactly")


class _Limits(models.Document):
    """Bounds of an assertion by their names."""

    unknown = "unknown limit"
    at_least: float | None = None
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    exactly: float | None = None


_BOUND_COUNT = 2
_Pair = Annotated[
    list[float | None],
    Field(json_schema_extra={"minItems": _BOUND_COUNT, "maxItems": _BOUND_COUNT}),
]
_NUMBER_TYPE: TypeAdapter[Any] = TypeAdapter(float)
_ASSERTION_TYPE: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Annotated[float, models.SCALAR_TAG]
        | Annotated[_Pair, models.LIST_TAG]
        | Annotated[_Limits, models.MAPPING_TAG],
        models.forms("a number, two bounds [1, null] or limits {at_least: 1}"),
    ]
)
_VALUES_TYPE: TypeAdapter[Any] = TypeAdapter(list[models.Value])
_SHARED_OPTIONS: models.Options = {
    "where": (models.STRING_TYPE, None),
    "warn": (_ASSERTION_TYPE, None),
    "level": (TypeAdapter(Annotated[str, models.one_of(Level)]), Level.ERROR),
    "on_empty": (TypeAdapter(Annotated[str, models.one_of(OnEmpty)]), None),
}
"""Options that all checks have."""
_CHECK_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "float": _NUMBER_TYPE,
    "bool": TypeAdapter(models.Flag),
    "AnyAnalyzer | str": TypeAdapter(models.AnalyzerItem),
    "AssertionLike": _ASSERTION_TYPE,
    "AssertionLike | None": _ASSERTION_TYPE,
    "Columns": TypeAdapter(models.Names),
    "Iterable[Any]": _VALUES_TYPE,
    "Iterable[Any] | None": _VALUES_TYPE,
    "Any": TypeAdapter(models.Value),
}
"""Types of the parameters of methods of `Check` by annotation; others are strings."""


def _methods() -> dict[str, Any]:
    """Return the methods of `Check` that a file can call, which excludes the method that takes only a function."""
    classes = (RowMethods, MetricMethods, HistoryMethods, ComparisonMethods)
    methods = {name: method for kind in classes for name, method in vars(kind).items()}
    del methods["has_histogram_values"]
    return {"has": Check.has} | {name: m for name, m in methods.items() if not name.startswith("_")}


def _check_options(method: Any) -> models.Options:
    options = models.options_of(method, _CHECK_TYPES)
    limits = LIMIT_NAMES if "assertion" in options else ()
    return options | dict.fromkeys(limits, (_NUMBER_TYPE, None)) | _SHARED_OPTIONS


CHECK_METHODS = models.Catalogue(
    "check",
    "is_complete: {column: email, at_least: 0.95}",
    _methods(),
    _check_options,
    {"assertion": LIMIT_NAMES},
)


@dataclass(frozen=True)
class ReadChecks:
    """Checks read from a file.

    Attributes
    ----------
    checks : tuple of Check
        At most one of level ``error`` and one of level ``warning``; checks without constraints are omitted.
    lines : mapping of str to int
        Line of each constraint, by its `identity`.
    """

    checks: tuple[Check, ...]
    lines: Mapping[str, int]


def read_checks(
    file: yaml_file.YamlFile, calls: Sequence[tuple[str, dict[str, Any]]], name: str
) -> ReadChecks:
    """Build the checks of a file.

    Parameters
    ----------
    file : YamlFile
        The file, for the lines.
    calls : sequence of (str, dict)
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
    for (method, options), node in file.located(calls, "checks"):
        with file.errors_at(node):
            single_check = _with_constraint(
                Check(name, options.get("level", Level.ERROR)), method, options
            )
        (constraint,) = single_check.constraints
        checks[Level(single_check.level)] = checks[Level(single_check.level)].with_constraint(
            constraint
        )
        lines[constraint.identity] = yaml_file.line_of(node)
    return ReadChecks(tuple(check for check in checks.values() if check.constraints), lines)


def _with_constraint(check: Check, method: str, options: dict[str, Any]) -> Check:
    """Return a check with one more constraint."""
    parameters = inspect.signature(getattr(check, method)).parameters
    arguments = {name: value for name, value in options.items() if name in parameters}
    limits = {n: v for n, v in options.items() if n in LIMIT_NAMES and n not in parameters}
    if limits:
        arguments["assertion"] = _between(limits)
    elif "assertion" in arguments:
        arguments["assertion"] = _as_between(arguments["assertion"])
    extended: Check = getattr(check, method)(**arguments)
    if isinstance(constraint := extended.constraints[-1], AnomalyConstraint):
        # Raise an error about a misspelled detector here, so that it has the line of the check.
        monitor_of(constraint.usual, constraint.analyzer)
    if "where" in options:
        extended = extended.where(options["where"])
    if "warn" in options:
        extended = extended.warn(_as_between(options["warn"]))
    if "on_empty" in options:
        extended = extended.on_empty(options["on_empty"])
    return extended


def _as_between(assertion: _Limits | list[float | None] | float) -> Between:
    """Return the bounds of an assertion: named limits, two bounds, or a minimum."""
    if isinstance(assertion, _Limits):
        return _between(assertion.model_dump(exclude_none=True))
    if isinstance(assertion, list) and len(assertion) != _BOUND_COUNT:
        msg = f"invalid assertion {assertion}; write two bounds, such as [1, null]"
        raise SuiteError(msg)
    low, high = assertion if isinstance(assertion, list) else (assertion, None)
    return Between(low, high)


def _between(limits: Mapping[str, float]) -> Between:
    """Return the bounds for named limits."""
    for inclusive, exclusive in (("at_least", "more_than"), ("at_most", "less_than")):
        if inclusive in limits and exclusive in limits:
            msg = f"give {inclusive} or {exclusive}, not both"
            raise SuiteError(msg)
    if "exactly" in limits:
        if len(limits) > 1:
            msg = "exactly cannot be combined with other limits"
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


class SuiteFields(models.TableFields):
    """A suite file: what to measure and check of a table, and when to notify.

    Attributes
    ----------
    segments : list of list of str
        Sets of columns whose values divide partitions into segments, which are also measured.
    analyzers : list
        The analyzers to measure.
    monitors : list
        Detectors and the series that they watch.
    sensitivity : str
        Sensitivity of anomaly detection.
    windows : list of str
        Windows that are rolled up, such as ``7d``, ``month`` and ``total``.
    max_segments : int
        Number of segments at which a partition fails.
    holidays : str or dict
        A calendar such as ``US``, or names of holidays by day.
    time_zone : str
        Time zone in which partitions are named.
    dqm : dict
        Rules, fixes and policies.
    checks : list
        Constraints on the metrics.
    on_empty : str
        Outcome of constraints without data.
    """

    segments: list[list[str]] = []
    analyzers: list[models.AnalyzerItem] = []
    monitors: list[models.MonitorFields] = []
    sensitivity: Annotated[str, models.one_of(Sensitivity)] = Sensitivity.NORMAL
    windows: list[str] = []
    max_segments: int = MAX_SEGMENTS
    holidays: (
        Annotated[
            Annotated[str, models.SCALAR_TAG] | Annotated[dict[str, str], models.MAPPING_TAG],
            models.forms("a calendar or names by days"),
        ]
        | None
    ) = None
    time_zone: str | None = None
    dqm: _DQM | None = None
    checks: list[Annotated[Any, CHECK_METHODS]] = []
    on_empty: OnEmpty | None = None


CHECKS_NAME = "checks"
"""Default name of the verdicts of a file's checks."""


@dataclass(frozen=True)
class SuiteFile:
    """A suite file: the suite, its table, and the line of each analyzer.

    Attributes
    ----------
    path : Path
        Path of the file.
    suite : Suite
        The suite that the file defines.
    table : str
        A table's name, or a folder.
    format : str
        Format of the data.
    options : mapping of str to str
        Options of the reader.
    lines : mapping of Analyzer to int
        Line of each analyzer in the file.
    checks : tuple of Check
        Constraints on the metrics; the suite measures the metrics that they need.
    check_lines : mapping of str to int
        Line of each constraint, by its description.
    name : str
        Name of the stored verdicts of the checks.
    on_empty : OnEmpty or None
        Outcome without data of constraints that do not set it; None for the default of
        `resolve_no_data`.
    allow_empty : bool
        Whether all constraints pass without data, regardless of their ``on_empty``.
    is_from_pattern : bool
        Whether the file selects the table by a pattern.
    """

    path: Path
    suite: Suite
    table: str
    format: str
    options: Mapping[str, str] = field(repr=False)  # of Spark's reader: may hold passwords
    lines: Mapping[AnyAnalyzer, int]
    checks: tuple[Check, ...] = ()
    check_lines: Mapping[str, int] = field(default_factory=dict)
    name: str = CHECKS_NAME
    is_from_pattern: bool = False
    on_empty: OnEmpty | None = None
    allow_empty: bool = False

    @property
    def on_no_records(self) -> OnEmpty:
        """The outcome of rules in a partition without records, or of a table without partitions."""
        return OnEmpty.PASS if self.allow_empty else self.on_empty or OnEmpty.FAIL

    def explain(self, analyzer: AnyAnalyzer, error: TidegaugeError) -> str:
        """Describe an analyzer's failure, with its file and line."""
        line = self.lines.get(analyzer)  # None for analyzers of the rules
        return f"{self.path}{f':{line}' if line else ''}: {analyzer!r}: {error}"


def load_suite(path: str | Path, variables: Mapping[str, str] | None = None) -> SuiteFile:
    r"""Read a suite file.

    Parameters
    ----------
    path : str or Path
        Path of the file.
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
    file = yaml_file.YamlFile.read(path, "suite file", variables=variables)
    fields = file.fields(SuiteFields)
    table = fields.source(file, "suite file")
    lines: dict[AnyAnalyzer, int] = {}
    for analyzer, node in file.located(fields.analyzers, "analyzers"):
        lines.setdefault(analyzer, yaml_file.line_of(node))
    name = (
        yaml_file.verdict_name(file.path, fields.dataset, CHECKS_NAME)
        if fields.name is None
        else fields.name
    )
    if not name.strip():
        raise file.error(file.node, "name: the checks need a name that is not empty")
    read = read_checks(file, fields.checks, name)
    for check in read.checks:
        for constraint in check.constraints:
            lines.setdefault(constraint.analyzer, read.lines[constraint.identity])
    monitors = models.read_monitors(file, fields.monitors)
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
            time_zone=fields.time_zone,
        )
    except SuiteError as error:
        raise file.locate(error) from error
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


def _rules(file: yaml_file.YamlFile, fields: _DQM, dataset: str) -> DQM:
    """Return the rules of a suite."""
    name = fields.name
    if name is None:
        name = yaml_file.verdict_name(file.path, dataset, "rules", DQM_NAME)
    read = read_dqm(file, fields, "dqm", name=name)
    for policy in read.parser_policies:
        msg = f"{policy.name} applies only to parsed files, which need a rules file"
        raise SuiteError(f"{file.path}:{read.lines[policy.name]}: {msg}")
    return read.dqm


def load_suites(
    patterns: Sequence[str],
    variables: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
) -> tuple[list[SuiteFile], list[str]]:
    """Read the suite files that paths, folders and globs select, and return them with the errors of invalid files.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs.
    variables : mapping of str to str, optional
        As for `load_suite`.
    allow_empty : bool
        Whether constraints and rules without data pass, regardless of the files.

    Raises
    ------
    SuiteError
        If no file is valid, or two store verdicts of a dataset under one name.
    """
    files, errors = yaml_file.load_each(
        find_suites(patterns), lambda path: load_suite(path, variables)
    )
    files = [replace(file, allow_empty=allow_empty) for file in files]
    files_and_names = [(file, file.name) for file in files if file.checks]
    files_and_names += [(file, file.suite.dqm.name) for file in files if file.suite.dqm is not None]
    yaml_file.check_verdict_names(
        (file.path, file.suite.dataset, name) for file, name in files_and_names
    )
    return files, errors


def find_suites(patterns: Sequence[str]) -> list[Path]:
    """Find suite files by paths, folders and globs, without duplicates.

    Raises
    ------
    SuiteError
        If a pattern matches no file.
    """
    return yaml_file.find_files(patterns, "suite file")
