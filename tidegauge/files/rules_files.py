"""Rules files: YAML with a table's rules, fixes, policies, and quarantine and publish targets.

The line of each rule, fix and policy is stored for messages; suite files also contain them. Columns, conditions,
names and options are always strings. Values to compare data with, or to repair data by, have the types of JSON:
an unquoted ``1``, ``0.5``, ``true`` or ``null`` has its type, and so has a date or time in ISO format. Everything
else, and everything in quotes, is a string, such as ``"01"`` and ``NO``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from tidegauge.analyzers.core.errors import RuleError, SuiteError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.sql import is_folder
from tidegauge.analyzers.sources.opening import check_disjoint_locations
from tidegauge.files import models, yaml_file
from tidegauge.rules import columns, policies
from tidegauge.rules.definition import BROKEN_RULES_COLUMN
from tidegauge.rules.dqm import DQM
from tidegauge.rules.policies import DQMPolicy, FailParserCountPolicy
from tidegauge.rules.tasks import DQMRule, Fix, Rule
from tidegauge.suite import Suite, privacy_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.rules.file_parser import ParserValidation


DQM_NAME = "dqm"
"""Default name of the verdicts of rules, for a file that is named like its dataset."""
_VALUE_TYPE: TypeAdapter[Any] = TypeAdapter(models.Value)
_SOME_NAMES: TypeAdapter[Any] = TypeAdapter(models.SomeNames)
_OPTIONAL_TEXT: TypeAdapter[Any] = TypeAdapter(str | None)
_KEY_TYPE: TypeAdapter[Any] = TypeAdapter(models.Names)
_TASK_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "Any": _VALUE_TYPE,
    "bool": TypeAdapter(models.Flag),
    "str | None": _OPTIONAL_TEXT,
    "ExpressionInput | None": _OPTIONAL_TEXT,
    "Sequence[Any]": TypeAdapter(list[models.Value]),
    "Sequence[str]": _SOME_NAMES,
    "str | Sequence[str]": _KEY_TYPE,
    "str | Sequence[str] | None": _KEY_TYPE,
    "int": TypeAdapter(int),
    "float": TypeAdapter(float),
}
"""Types of the parameters of rules, fixes and policies by annotation; others are strings.

A string as the ``value`` of a `Fix` is SQL, as in Python."""
_RULE_CLASSES = (
    Rule,
    columns.BoundRule,
    columns.SetRule,
    columns.FormatRule,
    columns.NotNullRule,
    columns.ForeignKeyRule,
    columns.UniqueRule,
)
_FIX_CLASSES = (Fix, columns.BoundFix, columns.SetFix, columns.FormatFix, columns.NotNullFix)
_TASK_POLICIES = (policies.FailNone, policies.FailAny, policies.FailCount, policies.FailPercent)
_DATA_POLICIES = (
    policies.FailTotalRuleCountPolicy,
    policies.FailTotalRulePercentPolicy,
    policies.FailTotalFixCountPolicy,
    policies.FailTotalFixPercentPolicy,
    policies.FailParserCountPolicy,
)


class _Policies(models.Catalogue):
    """Policies: a name, or a name with its limit. The field's values are their instances."""

    def __init__(self, kind: str, example: str, classes: Sequence[type]) -> None:
        entries = {policy.__name__: policy for policy in classes}
        super().__init__(kind, example, entries, partial(models.options_of, types=_TASK_TYPES))

    def read(self, item: Any) -> Any:
        """Return the policy that a file names."""
        name, limit = self.item(item)
        limit = None if limit == {} else limit
        if not self.needs(name):
            if limit is not None:
                raise models.problem(f"{name} has no limit")
            return self.entries[name]()
        ((kind, _),) = self.options(name).values()
        try:
            return self.entries[name](kind.validate_python(limit))
        except RuleError as error:
            raise models.problem(error) from error
        except ValidationError:
            is_count = kind is _TASK_TYPES["int"]
            expected = "a whole number" if is_count else "a share such as 0.05"
            shown_limit = "nothing" if limit is None else repr(limit)
            example = f"{{{name}: {10 if is_count else 0.05}}}"
            raise models.problem(f"{name} takes {expected}, not {shown_limit}: {example}") from None

    def argument_schemas(self, name: str, handler: Any) -> list[Any]:
        """Return the JSON Schema of the limit, or of null for a policy without limit."""
        return (
            super().argument_schemas(name, handler)[:1] if self.needs(name) else [{"type": "null"}]
        )


_TASK_POLICY = _Policies("task policy", "{FailCount: 10}", _TASK_POLICIES)
_DATA_POLICY = _Policies("policy", "FailTotalRuleCountPolicy: 30", _DATA_POLICIES)
_TASK_POLICY_TYPE: TypeAdapter[Any] = TypeAdapter(Annotated[Any, _TASK_POLICY])


def _task_options(source: Any) -> models.Options:
    """Return the options of a rule or fix: its own, the options of all rules, and options for files only."""
    options = models.options_of(source, _TASK_TYPES)
    if issubclass(source, DQMRule):
        shared = models.options_of(DQMRule, _TASK_TYPES)
        del shared["expr"]
        options |= {name: option for name, option in shared.items() if name not in options}
    for bound in {"lower", "upper"} & options.keys():  # a file can omit one of them
        options[bound] = (_VALUE_TYPE, None)
    if "column" in options:
        options["columns"] = (_SOME_NAMES, None)
    return options | {"policy": (_TASK_POLICY_TYPE, None)}


def _tasks(kind: str, example: str, classes: Sequence[type]) -> models.Catalogue:
    entries = {task.__name__: task for task in classes}
    return models.Catalogue(kind, example, entries, _task_options, {"column": ("columns",)})


RULE_CATALOGUE = _tasks("rule", "BoundRule: {column: age, lower: 1, upper: 150}", _RULE_CLASSES)
FIX_CATALOGUE = _tasks("fix", "NotNullFix: {column: carrier, default: unknown}", _FIX_CLASSES)


class TaskFields(models.Document):
    """Rules, fixes and policies.

    Attributes
    ----------
    rules : list
        Conditions that records must meet.
    fixes : list
        Repairs of single values.
    policies : list
        Limits on the numbers of rejected records and repaired values.
    """

    rules: list[Annotated[Any, RULE_CATALOGUE]] = []
    fixes: list[Annotated[Any, FIX_CATALOGUE]] = []
    policies: list[Annotated[Any, _DATA_POLICY]] = []


@dataclass(frozen=True)
class ReadDQM:
    """Rules, fixes and policies read from a file.

    Attributes
    ----------
    dqm : DQM
        The rules of the file.
    lines : mapping of str to int
        Line of each rule, fix and policy, by its name.
    parser_policies : tuple of DQMPolicy
        Policies on parsing errors, to be passed to the parser.
    """

    dqm: DQM
    lines: Mapping[str, int] = field(default_factory=dict)
    parser_policies: tuple[DQMPolicy, ...] = ()


def read_dqm(
    file: yaml_file.YamlFile, fields: TaskFields, *path: str, name: str = DQM_NAME
) -> ReadDQM:
    """Build the rules, fixes and policies of a file.

    Parameters
    ----------
    file : YamlFile
        The file, for the lines.
    fields : TaskFields
        The lists of rules, fixes and policies.
    path : str
        Path of the fields that contain the lists; empty for the top level.
    name : str
        Name of the `DQM`.

    Raises
    ------
    SuiteError
        With the line and the problem.
    """
    with file.errors_at(file.node):
        dqm = DQM(name)
    lines: dict[str, int] = {}
    parser_policies: list[DQMPolicy] = []
    for catalogue, tasks, key in (
        (RULE_CATALOGUE, fields.rules, "rules"),
        (FIX_CATALOGUE, fields.fixes, "fixes"),
    ):
        for (kind, options), node in file.located(tasks, *path, key):
            policy = options.pop("policy", None)
            with file.errors_at(node):
                for task in _make_tasks(catalogue.entries[kind], options):
                    dqm = dqm.add(task, policy)
                    lines[task.name] = yaml_file.line_of(node)
    for policy, node in file.located(fields.policies, *path, "policies"):
        if isinstance(policy, FailParserCountPolicy):
            parser_policies.append(policy)
        else:
            with file.errors_at(node):
                dqm = dqm.add(policy)
        lines[policy.name] = yaml_file.line_of(node)
    return ReadDQM(dqm, lines, tuple(parser_policies))


def _make_tasks(task: Any, options: dict[str, Any]) -> list[Any]:
    """Return a rule or fix, or one for each of several columns, with the column added to its name."""
    parameters = inspect.signature(task).parameters
    options = {bound: None for bound in ("lower", "upper") if bound in parameters} | options
    if "column" not in parameters or "columns" not in options:
        return [task(**options)]
    if "column" in options:
        msg = "give column or columns, not both"
        raise RuleError(msg)
    options_by_column = [{**options, "column": column} for column in options.pop("columns")]
    if "name" in options:
        options_by_column = [
            {**column_options, "name": f"{column_options['name']} ({column_options['column']})"}
            for column_options in options_by_column
        ]
    return [task(**column_options) for column_options in options_by_column]


_PARSER_FIELDS = ("date_format", "timestamp_format", "lenient_dates", "fail_at_parsing_error")
"""Fields that apply only to files parsed with a schema."""


class RulesFields(models.TableFields, TaskFields):
    """A rules file: conditions on the records of a table, and where records go.

    Attributes
    ----------
    keys : list of str
        Columns that identify a record, for the samples.
    quarantine : str
        Table or folder for rejected records.
    publish : str
        Table or folder for the other records.
    broken_rules : str
        Name of the column of rejected records that lists the rules they break.
    reasons : str
        Name of another column of rejected records, with messages, the run and the time.
    schema : str
        Columns and types for parsing a CSV or JSON file.
    date_format : str
        Format of dates in a parsed file.
    timestamp_format : str
        Format of timestamps in a parsed file.
    fail_at_parsing_error : bool
        Whether one unreadable record fails the file.
    lenient_dates : bool
        Whether dates in other formats are also read.
    on_empty : str
        Outcome of a partition without records.
    """

    keys: list[str] = []
    quarantine: str | None = None
    broken_rules: str = BROKEN_RULES_COLUMN
    reasons: str | None = None
    publish: str | None = None
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
        Path of the file.
    suite : Suite
        The dataset, its partitions, and the rules as ``suite.dqm``; it has no other analyzers.
    table : str
        A table's name, or a folder or file.
    format : str
        Format of the data.
    options : mapping of str to str
        Options of the reader.
    keys : tuple of str
        Columns that identify a record, for the samples.
    quarantine, publish : str or None
        Tables or folders for rejected records and for the remaining ones.
    parsed : mapping of str to object, or None
        Arguments of `ParserValidation`; None if the file is not parsed with a schema.
    lines : mapping of str to int
        Line of each rule, fix and policy, by its name.
    broken_rules : str
        Name of the column of rejected records that lists the rules they break.
    reasons : str or None
        Name of another column of rejected records, with messages, the run and the time.
    on_empty : OnEmpty
        Outcome of a partition without records, or of a table without partitions.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = "{dataset: people, path: /in/people, rules: [{NotNullRule: email}]}"
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.yml"
    ...     _ = file.write_text(text)
    ...     rules_file = load_rules(file)
    >>> rules_file.table, rules_file.suite.dataset, rules_file.dqm
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
    broken_rules: str = BROKEN_RULES_COLUMN
    reasons: str | None = None
    on_empty: OnEmpty = OnEmpty.FAIL

    @property
    def dqm(self) -> DQM:
        """The rules, fixes and policies."""
        assert self.suite.dqm is not None
        return self.suite.dqm

    def location(self, name: str) -> str:
        """Return the location of a rule, fix or policy: the file, and the line if it is known."""
        line = self.lines.get(name)
        return f"{self.path}{f':{line}' if line else ''}"

    def check_places(self, spark: SparkSession | None = None) -> None:
        """Check that no target is the source, nor the other target.

        Parameters
        ----------
        spark : SparkSession, optional
            Resolves the current database and the folders of tables. Without a session, names are compared
            and the current database is ``default``.

        Raises
        ------
        SuiteError
            If two of them are the same or overlap.
        """
        source_kind = "path" if is_folder(self.table) else "table"
        locations = {
            source_kind: self.table,
            "publish": self.publish,
            "quarantine": self.quarantine,
        }
        try:
            check_disjoint_locations(locations, spark)
        except SuiteError as error:
            msg = f"{self.path}: {error}"
            raise SuiteError(msg) from error

    def parser(self, spark: SparkSession) -> ParserValidation | None:
        """Return the parser of the file; None if it is not parsed with a schema."""
        if self.parsed is None:
            return None
        from tidegauge.rules.file_parser import ParserValidation

        parser = ParserValidation(self.table, **self.parsed, spark=spark)
        return parser.hiding(privacy_of(self.suite, self.table))


def load_rules(path: str | Path, variables: Mapping[str, str] | None = None) -> RulesFile:
    r"""Read a rules file.

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
    >>> from tempfile import TemporaryDirectory
    >>> text = "dataset: people\ntable: people\nrules:\n  - NotNullRule: email\n"
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.yml"
    ...     _ = file.write_text(text)
    ...     print(load_rules(file).dqm)
    DQM(1 rule, 0 fixes, 0 policies)
    """
    file = yaml_file.YamlFile.read(path, "rules file", variables=variables)
    fields = file.fields(RulesFields)
    table = fields.source(file, "rules file")
    name = fields.name
    if name is None:
        name = yaml_file.verdict_name(file.path, fields.dataset, "rules", DQM_NAME)
    read = read_dqm(file, fields, name=name)
    parsed = _parser_arguments(file, fields, read)
    dqm = read.dqm
    if not dqm.needs_action:
        if parsed is None:
            raise file.error(file.node, "a rules file needs at least one rule or fix")
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
        raise file.locate(error) from error
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
        If a pattern matches no file.
    """
    return yaml_file.find_files(patterns, "rules file")


def _target(name: str | None, file: Path) -> str | None:
    """Return a target's table, or its folder as seen from the working directory."""
    return yaml_file.located(name, file) if name is not None and is_folder(name) else name


def load_all_rules(
    patterns: Sequence[str], variables: Mapping[str, str] | None = None
) -> tuple[list[RulesFile], list[str]]:
    """Read the rules files that paths, folders and globs select, and return them with the errors of invalid files.

    Raises
    ------
    SuiteError
        If no file is valid, or two files write to one location or store verdicts under one name.
    """
    files, errors = yaml_file.load_each(
        find_rules(patterns), lambda path: load_rules(path, variables)
    )
    yaml_file.check_verdict_names((file.path, file.suite.dataset, file.dqm.name) for file in files)
    check_shared_targets(files)
    return files, errors


def check_shared_targets(files: Sequence[RulesFile], spark: SparkSession | None = None) -> None:
    """Check that no two rules files write to one location, where they would replace each other's partitions.

    Raises
    ------
    SuiteError
        If two targets are the same or overlap.
    """
    locations = {
        f"{file.path}: {target_kind}": table
        for file in files
        for target_kind, table in (("quarantine", file.quarantine), ("publish", file.publish))
    }
    check_disjoint_locations(locations, spark)


def _parser_arguments(
    file: yaml_file.YamlFile, fields: RulesFields, read: ReadDQM
) -> dict[str, Any] | None:
    """Return the arguments of the parser; None without a schema.

    Raises
    ------
    SuiteError
        If there are parser options but no schema, or they are invalid.
    """
    parser_options = [name for name in _PARSER_FIELDS if name in fields.model_fields_set]
    parser_options += [policy.name for policy in read.parser_policies]
    if fields.schema_ is None:
        if parser_options:
            raise file.error(
                file.node, f"{parser_options[0]} applies only to parsed files: add schema:"
            )
        return None
    if fields.path is None or fields.format not in {"csv", "json"}:
        raise file.error(file.node, "schema needs a path: with format: csv or json")
    if fields.partition_by:
        raise file.error(
            file.node, "a file parsed with a schema is one partition; remove partition_by"
        )
    arguments: dict[str, Any] = {
        "schema": fields.schema_,
        "format": fields.format,
        "options": fields.options,
        "date_format": fields.date_format,
        "timestamp_format": fields.timestamp_format,
        "fail_at_parsing_error": _fails_at_any_error(fields, read),
        "lenient_dates": fields.lenient_dates,
        "policies": read.parser_policies,
    }
    if read.dqm.name != DQM_NAME:
        arguments["name"] = f"parser of {fields.path}, {read.dqm.name}"
    from tidegauge.rules.file_parser import ParserValidation

    try:
        ParserValidation(str(fields.path), **arguments)
    except RuleError as error:
        raise file.error(file.node, error) from error
    return arguments


def _fails_at_any_error(fields: RulesFields, read: Any) -> bool:
    """Return whether a single unreadable record fails the file.

    If ``fail_at_parsing_error`` is not set, parser policies decide instead.
    """
    if "fail_at_parsing_error" in fields.model_fields_set or not read.parser_policies:
        return fields.fail_at_parsing_error
    return False
