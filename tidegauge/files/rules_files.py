"""Rules files: YAML with a table's rules, fixes, policies, and quarantine and publish targets.

Rules, fixes and policies are read with the line of each; suite files have them, too. Text arguments
(columns, conditions, names, options) are always read as text. Values, which data is compared with or repaired
by, have the types of JSON: a plain ``1``, ``0.5``, ``true`` or ``null`` has its type, and so has a date or time
in ISO format; everything else and everything in quotes is text, so ``"01"`` and ``NO`` are.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field

from tidegauge.analyzers.core.errors import RuleError, SuiteError, UnknownNameError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.sql import is_folder
from tidegauge.analyzers.sources.opening import check_disjoint_locations
from tidegauge.files.yaml_file import (
    TableDocument,
    TimeFields,
    YamlFile,
    check_verdict_names,
    find_files,
    line_of,
    load_each,
    located,
    verdict_name,
)
from tidegauge.rules import policies
from tidegauge.rules.columns import (
    BoundFix,
    BoundRule,
    ForeignKeyRule,
    FormatFix,
    FormatRule,
    NotNullFix,
    NotNullRule,
    SetFix,
    SetRule,
    UniqueRule,
)
from tidegauge.rules.definition import BROKEN
from tidegauge.rules.dqm import DQM
from tidegauge.rules.policies import DQMPolicy, DQMTaskPolicy, FailParserCountPolicy
from tidegauge.rules.tasks import DQMRule, Fix, Rule
from tidegauge.suite import Suite, privacy_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.rules.file_parser import ParserValidation


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
        from tidegauge.rules.file_parser import ParserValidation

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
    from tidegauge.rules.file_parser import ParserValidation

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
