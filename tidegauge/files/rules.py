"""Rules files: YAML with a table's rules, fixes, policies, and quarantine and publish targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from tidegauge.analysis import privacy_of
from tidegauge.analyzers.core.errors import RuleError, SuiteError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.sql import is_folder
from tidegauge.analyzers.sources.locations import check_disjoint_locations
from tidegauge.files.dqm import DQM_NAME, ReadDQM, read_dqm
from tidegauge.files.yaml_file import (
    TableDocument,
    TimeFields,
    YamlFile,
    check_verdict_names,
    find_files,
    load_each,
    located,
    verdict_name,
)
from tidegauge.rules.applied import BROKEN
from tidegauge.rules.dqm import DQM
from tidegauge.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.rules.parsing.parser import ParserValidation

_OF_PARSER = ("date_format", "timestamp_format", "lenient_dates", "fail_at_parsing_error")
"""Fields that apply only to files parsed by a schema."""


class _File(TableDocument):
    """The fields of a rules file."""

    keys: list[str] = []
    name: str | None = None
    rules: list[Any] = []
    fixes: list[Any] = []
    policies: list[Any] = []
    quarantine: str | None = None
    broken_rules: str = BROKEN
    reasons: str | None = None
    publish: str | None = None
    notify: list[str] = []
    private: list[str] = []
    variables: dict[str, str | None] = {}
    schema_: str | None = Field(None, alias="schema")
    date_format: str | None = None
    timestamp_format: str | None = None
    fail_at_parsing_error: bool = True
    lenient_dates: bool = False
    on_empty: OnEmpty = OnEmpty.FAIL


@dataclass(frozen=True)
class RulesFile:
    """A rules file: rules, the table to check, and the targets of records.

    Attributes
    ----------
    path : Path
    suite : Suite
        The dataset, its partitions, and the rules as ``suite.dqm``; it has no other analyzers.
    table : str
        A table's name, or a folder or file.
    format : str
    options : mapping of str to str
    keys : tuple of str
        Columns that identify a record, for the samples.
    quarantine, publish : str or None
        Tables or folders for rejected records and for the remaining ones.
    parsed : mapping of str to object, or None
        Arguments of `ParserValidation`, if a file is parsed by a schema.
    lines : mapping of str to int
        Line of each rule, fix and policy, by its name.
    broken_rules : str
        Name of the column of rejected records that tells the rules they break.
    reasons : str or None
        Name of one more column of them, with messages, the run and the time.
    on_empty : OnEmpty
        What a partition without records counts as, and a table without partitions.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = "{dataset: people, path: /in/people, rules: [{NotNullRule: email}]}"
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.yml"
    ...     _ = file.write_text(text)
    ...     found = load_rules(file)
    >>> found.table, found.suite.dataset, found.dqm
    ('/in/people', 'people', DQM(1 rule, 0 fixes, 0 policies))
    """

    path: Path
    suite: Suite
    table: str
    format: str
    options: Mapping[str, str] = field(repr=False)  # of Spark's reader: may hold passwords
    keys: tuple[str, ...]
    quarantine: str | None
    publish: str | None
    parsed: Mapping[str, Any] | None = field(repr=False)
    lines: Mapping[str, int]
    broken_rules: str = BROKEN
    reasons: str | None = None
    on_empty: OnEmpty = OnEmpty.FAIL

    @property
    def dqm(self) -> DQM:
        """The rules, fixes and policies."""
        assert self.suite.dqm is not None
        return self.suite.dqm

    def place(self, name: str) -> str:
        """Return the location of a rule, fix or policy: the file, and the line if it is known."""
        line = self.lines.get(name)
        return f"{self.path}{f':{line}' if line else ''}"

    def check_places(self, spark: SparkSession | None = None) -> None:
        """Check that no target is the source, nor the other target.

        Parameters
        ----------
        spark : SparkSession, optional
            Resolves the current database and the folders of tables. Without it names are compared,
            and the database is ``default``.

        Raises
        ------
        SuiteError
        """
        read = "path" if is_folder(self.table) else "table"
        places = {read: self.table, "publish": self.publish, "quarantine": self.quarantine}
        try:
            check_disjoint_locations(places, spark)
        except SuiteError as error:
            msg = f"{self.path}: {error}"
            raise SuiteError(msg) from error

    def parser(self, spark: SparkSession) -> ParserValidation | None:
        """Return the parser of the file; None if it is not parsed by a schema."""
        if self.parsed is None:
            return None
        from tidegauge.rules.parsing.parser import ParserValidation

        made = ParserValidation(self.table, **self.parsed, spark=spark)
        return made.hiding(privacy_of(self.suite, self.table))


def load_rules(path: str | Path, variables: Mapping[str, str] | None = None) -> RulesFile:
    r"""Read a rules file.

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
    >>> from tempfile import TemporaryDirectory
    >>> text = "dataset: people\ntable: people\nrules:\n  - NotNullRule: email\n"
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.yml"
    ...     _ = file.write_text(text)
    ...     print(load_rules(file).dqm)
    DQM(1 rule, 0 fixes, 0 policies)
    """
    file = YamlFile.read(path, "rules file", variables=variables)
    fields = file.fields(_File, {"time": TimeFields})
    table = fields.source(file, "rules file")
    name = fields.name
    if name is None:
        name = verdict_name(file.path, fields.dataset, "rules", DQM_NAME)
    read = read_dqm(file, name=name)
    parsed = _parsed(file, fields, read)
    dqm = read.dqm
    if not dqm.needs_action:
        if parsed is None:
            raise file.error(file.node, "a rules file has a rule or a fix at least")
        dqm = dqm.add_action()
    try:
        suite = Suite(
            fields.dataset,
            [],
            partition_by=fields.partition_by,
            time=fields.time_options(),
            tags=fields.tags,
            notify=fields.notify,
            private=fields.private,
            dqm=dqm,
        )
    except SuiteError as error:
        raise file.about(error) from error
    loaded = RulesFile(
        path=file.path,
        suite=suite,
        table=table,
        format=fields.format,
        options=fields.options,
        keys=tuple(fields.keys),
        quarantine=_target(fields.quarantine, file.path),
        publish=_target(fields.publish, file.path),
        parsed=parsed,
        lines=read.lines,
        broken_rules=fields.broken_rules,
        reasons=fields.reasons,
        on_empty=fields.on_empty,
    )
    loaded.check_places()
    return loaded


def find_rules(patterns: Sequence[str]) -> list[Path]:
    """Find rules files by paths, folders and globs, without duplicates.

    Raises
    ------
    SuiteError
        If one matches nothing.
    """
    return find_files(patterns, "rules file")


def _target(name: str | None, file: Path) -> str | None:
    """Return a target's table, or its folder as seen from the working directory."""
    return located(name, file) if name is not None and is_folder(name) else name


def load_all_rules(
    patterns: Sequence[str], variables: Mapping[str, str] | None = None
) -> tuple[list[RulesFile], list[str]]:
    """Read the rules files that paths, folders and globs select; return the errors of broken ones, too.

    Raises
    ------
    SuiteError
        If none can be read, or two write to one place or keep verdicts under one name.
    """
    files, errors = load_each(find_rules(patterns), lambda path: load_rules(path, variables))
    check_verdict_names((file.path, file.suite.dataset, file.dqm.name) for file in files)
    check_shared_targets(files)
    return files, errors


def check_shared_targets(files: Sequence[RulesFile], spark: SparkSession | None = None) -> None:
    """Check that no two rules files write to one place: each would replace the other's partitions.

    Raises
    ------
    SuiteError
    """
    places = {
        f"{file.path}: {what}": table
        for file in files
        for what, table in (("quarantine", file.quarantine), ("publish", file.publish))
    }
    check_disjoint_locations(places, spark)


def _parsed(file: YamlFile, fields: _File, read: ReadDQM) -> dict[str, Any] | None:
    """Return the arguments of the parser; None without a schema.

    Raises
    ------
    SuiteError
        If there are parser options but no schema, or they are invalid.
    """
    told = [name for name in _OF_PARSER if name in fields.model_fields_set]
    told += [policy.name for policy in read.of_parser]
    if fields.schema_ is None:
        if told:
            raise file.error(file.node, f"{told[0]} is about files that are parsed: give schema:")
        return None
    if fields.path is None or fields.format not in {"csv", "json"}:
        raise file.error(file.node, "schema is for a path: of format: csv or json")
    if fields.partition_by:
        raise file.error(
            file.node, "files that are parsed by a schema are one partition; leave partition_by out"
        )
    parsed: dict[str, Any] = {
        "schema": fields.schema_,
        "format": fields.format,
        "options": fields.options,
        "date_format": fields.date_format,
        "timestamp_format": fields.timestamp_format,
        "fail_at_parsing_error": _fails_at_any(fields, read),
        "lenient_dates": fields.lenient_dates,
        "policies": read.of_parser,
    }
    if read.dqm.name != DQM_NAME:
        parsed["name"] = f"parser of {fields.path}, {read.dqm.name}"
    from tidegauge.rules.parsing.parser import ParserValidation

    try:
        ParserValidation(str(fields.path), **parsed)
    except RuleError as error:
        raise file.error(file.node, error) from error
    return parsed


def _fails_at_any(fields: _File, read: Any) -> bool:
    """Return whether a single unreadable record fails the file.

    As ``fail_at_parsing_error`` says; if it is not set, a parser policy replaces it.
    """
    if "fail_at_parsing_error" in fields.model_fields_set or not read.of_parser:
        return fields.fail_at_parsing_error
    return False
