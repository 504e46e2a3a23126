"""Suite files: YAML that defines what to measure, read with line numbers for errors.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` are not converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import PreconditionError, SuiteError, TidegaugeError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.segments import MAX_SEGMENTS
from tidegauge.checks.check import Check
from tidegauge.files.analyzers import read_analyzer
from tidegauge.files.checks import read_checks
from tidegauge.files.dqm import DQM_NAME, read_dqm
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
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.rules.dqm import DQM
from tidegauge.suite import Suite


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
