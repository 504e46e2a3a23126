"""Rules files: YAML that says what the records of one table must be, and where those go that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from analyzers.errors import RuleError, SuiteError
from analyzers.rules.dqm import DQM
from analyzers.rules.targets import refuse_same
from tidegauge.dqmfile import ReadDQM, read_dqm
from tidegauge.suite import Suite
from tidegauge.yamlfile import Time, YamlFile, as_folder, find_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analyzers.rules.parsing import ParserValidation

_OF_PARSER = ("date_format", "timestamp_format", "lenient_dates", "fail_at_parsing_error")
"""Fields that mean something only where a file is parsed by a schema."""


class _File(BaseModel):
    """The fields of a rules file."""

    model_config = ConfigDict(extra="forbid")

    dataset: str
    table: str | None = None
    path: str | None = None
    format: str = "parquet"
    options: dict[str, str] = {}
    partition_by: list[str] | None = None
    time: Time | None = None
    keys: list[str] = []
    name: str = "dqm"
    rules: list[Any] = []
    fixes: list[Any] = []
    policies: list[Any] = []
    quarantine: str | None = None
    publish: str | None = None
    schema_: str | None = Field(None, alias="schema")
    date_format: str | None = None
    timestamp_format: str | None = None
    fail_at_parsing_error: bool = True
    lenient_dates: bool = False
    tags: dict[str, str] = {}


@dataclass(frozen=True)
class RulesFile:
    """Rules, what they are to be asked of, and where records go.

    Attributes
    ----------
    path : Path
    suite : Suite
        The dataset, its partitions, and the rules as ``suite.dqm``; it measures nothing else.
    table : str
        A table's name, or a folder or file.
    format : str
    options : mapping of str to str
    keys : tuple of str
        Columns that tell a record from others, for the samples.
    quarantine, publish : str or None
        Tables or folders for the records that are rejected, and for those that are left.
    parsed : mapping of str to object, or None
        What `ParserValidation` is given, where a file is parsed by a schema.
    lines : mapping of str to int
        Where each rule, fix and policy stands, by its name.
    """

    path: Path
    suite: Suite
    table: str
    format: str
    options: Mapping[str, str]
    keys: tuple[str, ...]
    quarantine: str | None
    publish: str | None
    parsed: Mapping[str, Any] | None
    lines: Mapping[str, int]

    @property
    def dqm(self) -> DQM:
        """The rules, fixes and policies."""
        assert self.suite.dqm is not None
        return self.suite.dqm

    def place(self, name: str) -> str:
        """Return the file, and the line of what has a name."""
        line = self.lines.get(name)
        return f"{self.path}{f':{line}' if line else ''}"

    def check_places(self, spark: SparkSession | None = None) -> None:
        """Refuse to write to what is read, or two things to one place.

        Parameters
        ----------
        spark : SparkSession, optional
            Tells the current database, and in which folders tables lie. Without it names are compared, and
            the database is ``default``.

        Raises
        ------
        SuiteError
        """
        read = "path" if "/" in self.table else "table"
        places = {read: self.table, "publish": self.publish, "quarantine": self.quarantine}
        try:
            refuse_same(places, spark)
        except SuiteError as error:
            msg = f"{self.path}: {error}"
            raise SuiteError(msg) from error

    def parser(self, spark: SparkSession) -> ParserValidation | None:
        """Return what parses the file, if it is to be parsed by a schema."""
        if self.parsed is None:
            return None
        from analyzers.rules.parsing import ParserValidation  # noqa: PLC0415 - of Spark's side

        return ParserValidation(self.table, **self.parsed, spark=spark)


def load_rules(path: str | Path) -> RulesFile:
    r"""Read a rules file.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    SuiteError
        Naming file and line, what is wrong, and the nearest name that there is.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = "dataset: people\ntable: people\nrules:\n  - NotNullRule: email\n"
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.yml"
    ...     _ = file.write_text(text)
    ...     print(load_rules(file).dqm)
    DQM(1 rules, 0 fixes, 0 policies)
    """
    file = YamlFile.read(path, "rules file")
    fields = file.fields(_File, {"time": Time})
    if (fields.table is None) == (fields.path is None):
        raise file.error(file.node, "a rules file names either a table or a path")
    read = read_dqm(file, name=fields.name)
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
            time=fields.time.model_dump(exclude_none=True) if fields.time else None,
            tags=fields.tags,
            dqm=dqm,
        )
    except SuiteError as error:
        raise file.error(file.node, error) from error
    loaded = RulesFile(
        path=file.path,
        suite=suite,
        table=fields.table or as_folder(str(fields.path)),
        format=fields.format,
        options=fields.options,
        keys=tuple(fields.keys),
        quarantine=fields.quarantine,
        publish=fields.publish,
        parsed=parsed,
        lines=read.lines,
    )
    loaded.check_places()
    return loaded


def find_rules(patterns: Sequence[str]) -> list[Path]:
    """Return the rules files that paths, folders and globs name, each once.

    Raises
    ------
    SuiteError
        If one names nothing.
    """
    return find_files(patterns, "rules file")


def _parsed(file: YamlFile, fields: _File, read: ReadDQM) -> dict[str, Any] | None:
    """Return what a parser is given; None where there is no schema to parse by.

    Raises
    ------
    SuiteError
        If something is said of parsing, and nothing is parsed, or a parser cannot be so.
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
    from analyzers.rules.parsing import ParserValidation  # noqa: PLC0415 - seldom needed

    try:
        ParserValidation(str(fields.path), **parsed)
    except RuleError as error:
        raise file.error(file.node, error) from error
    return parsed


def _fails_at_any(fields: _File, read: Any) -> bool:
    """Whether one record that cannot be read is one too many: as the file says, or if it sets no limit."""
    if "fail_at_parsing_error" in fields.model_fields_set or not read.of_parser:
        return fields.fail_at_parsing_error
    return False
