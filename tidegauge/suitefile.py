"""Suite files: YAML that says what to measure, read with the line of everything in it.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from analyzers.catalogue import ANALYZERS
from analyzers.errors import PreconditionError, SuiteError, TidegaugeError
from analyzers.rules.dqm import DQM
from analyzers.segments import MAX_SEGMENTS
from repository.anomalies.monitor import Monitor
from tidegauge.dqmfile import read_dqm
from tidegauge.suite import AnyAnalyzer, Suite
from tidegauge.yamlfile import Time, YamlFile, as_folder, find_files, line_of


class _DQM(BaseModel):
    """The rules of a suite."""

    model_config = ConfigDict(extra="forbid")

    name: str = "dqm"
    rules: list[Any] = []
    fixes: list[Any] = []
    policies: list[Any] = []


class _File(BaseModel):
    """The fields of a suite file."""

    model_config = ConfigDict(extra="forbid")

    dataset: str
    table: str | None = None
    path: str | None = None
    format: str = "parquet"
    options: dict[str, str] = {}
    partition_by: list[str] | None = None
    time: Time | None = None
    segments: list[list[str]] = []
    analyzers: list[Any] = []
    monitors: list[dict[str, Any]] = []
    windows: list[str] = []
    tags: dict[str, str] = {}
    max_segments: int = MAX_SEGMENTS
    holidays: str | dict[str, str] | None = None
    notify: list[str] = []
    dqm: _DQM | None = None


@dataclass(frozen=True)
class SuiteFile:
    """A suite, what it is to be run on, and where in the file each analyzer stands.

    Attributes
    ----------
    path : Path
    suite : Suite
    table : str
        A table's name, or a folder.
    format : str
    options : mapping of str to str
    lines : mapping of Analyzer to int
    """

    path: Path
    suite: Suite
    table: str
    format: str
    options: Mapping[str, str]
    lines: Mapping[AnyAnalyzer, int]

    def explain(self, analyzer: AnyAnalyzer, error: TidegaugeError) -> str:
        """Say what failed, with the line that asked for it."""
        line = self.lines.get(analyzer)  # none for what the rules count
        return f"{self.path}{f':{line}' if line else ''}: {analyzer!r}: {error}"


def load_suite(path: str | Path) -> SuiteFile:
    """Read a suite file.

    Raises
    ------
    SuiteError
        Naming file and line, what is wrong, and the nearest name that there is.
    """
    return _Reader(YamlFile.read(path, "suite file")).read()


class _Reader:
    """Turns a file's nodes into a suite, and knows the line of each."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file

    def read(self) -> SuiteFile:
        file = self.file
        fields = file.fields(_File, {"time": Time, "dqm": _DQM})
        if (fields.table is None) == (fields.path is None):
            raise file.error(file.node, "a suite file names either a table or a path")
        lines: dict[AnyAnalyzer, int] = {}
        for item in file.items("analyzers"):
            lines.setdefault(self._analyzer(item), line_of(item))
        monitors = [self._monitor(item) for item in file.items("monitors")]
        dqm = None if fields.dqm is None else self._rules(fields.dqm.name)
        try:
            suite = Suite(
                dataset=fields.dataset,
                analyzers=list(lines),
                partition_by=fields.partition_by,
                time=fields.time.model_dump(exclude_none=True) if fields.time else None,
                segments=fields.segments,
                monitors=monitors,
                windows=fields.windows,
                tags=fields.tags,
                max_segments=fields.max_segments,
                holidays=fields.holidays,
                notify=fields.notify,
                dqm=dqm,
            )
        except SuiteError as error:
            raise file.error(file.node, error) from error
        table = fields.table or as_folder(str(fields.path))
        return SuiteFile(file.path, suite, table, fields.format, fields.options, lines)

    def _analyzer(self, item: yaml.Node) -> AnyAnalyzer:
        plain = self.file.plain(item)
        try:
            if isinstance(plain, str):
                return ANALYZERS.parse(plain)
            if not isinstance(plain, Mapping) or len(plain) != 1:
                msg = "an analyzer is a name, or a name with its column or options"
                raise SuiteError(msg)  # noqa: TRY301 - given its line below like the others
            ((name, given),) = plain.items()
            if isinstance(given, Mapping):
                return ANALYZERS.build(name, given)
            return ANALYZERS.build(name, {}, [] if given in ("", None) else [given])
        except (SuiteError, PreconditionError) as error:
            raise self.file.error(item, error) from error

    def _rules(self, name: str) -> DQM:
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


def find_suites(patterns: Sequence[str]) -> list[Path]:
    """Return the suite files that paths, folders and globs name, each once.

    Raises
    ------
    SuiteError
        If one names nothing.
    """
    return find_files(patterns, "suite file")
