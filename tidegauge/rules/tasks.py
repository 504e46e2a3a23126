"""Rules, which are conditions on records, and fixes, which repair single cells.

A rule keeps the records for which it is true. If it is false for a record, the record violates it;
if it is null, the record is unknown, which is counted separately and handled by ``on_null``. A fix
replaces a value where its condition is true and keeps the record.

Both are written as expressions: Spark SQL, Columns, and functions that return either. An expression is a
sequence of pieces. SQL is used as it is. A Column cannot be embedded in SQL, so it becomes a hidden column
first. A function is called with the frame. Users' functions and classes are identified by hashes of their
source code, which are stable across processes.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from enum import Enum
from numbers import Number
from typing import TYPE_CHECKING, Any, Union

from tidegauge.analyzers.core.errors import RuleError, UnresolvedExpressionError
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.sql import column_sql, constant, without_literals

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_MOVED_NAMES = {
    "analysis explanation": "Explanation explain",
    "analyzers.core.analyzer analyzers.core.state_providers": "FileSystemStateProvider InMemoryStateProvider",
    "analyzers.measures.cardinality analyzers.measures.tuples": "ApproxDistinctness ApproxUniqueValueRatio ApproxUniqueness",
    "analyzers.measures.counts analyzers.measures.columns": "ColumnCount ColumnExists SchemaMatch",
    "analyzers.measures.counts analyzers.measures.references": "ColumnMatch DatasetMatch ReferentialIntegrity",
    "analyzers.measures.extremes analyzers.measures.times": "Freshness MaxTime MinTime",
    "analyzers.measures.frequencies analyzers.measures.exact_quantiles": "ExactQuantile InterquartileRange",
    "analyzers.measures.frequencies analyzers.measures.information": "Entropy MutualInformation",
    "analyzers.measures.frequencies analyzers.measures.uniqueness": "CountDistinct Distinctness DuplicateRowCount UniqueValueRatio Uniqueness",
    "analyzers.measures.histogram analyzers.measures.bins": "BinnedDistribution BucketDistribution HistogramBinned KLLSketch",
    "analyzers.measures.histogram analyzers.measures.group_sums": "HistogramOfSums",
    "analyzers.measures.moments analyzers.measures.sums": "Mean RatioOfSums Sum",
    "analyzers.measures.quantiles analyzers.measures.req": "ReqQuantile",
    "analyzers.sources.sources analyzers.sources.fingerprints": "frame_fingerprint",
    "checks.rows analyzers.scan.row_level": "row_level_results",
    "checks.suggest checks.suggesting": "suggest",
    "checks.verification checks.verifying": "verify",
    "consistency.compare.comparison consistency.compare.measuring": "compare",
    "consistency.compare.comparison consistency.compare.pairs": "value_pairs",
    "consistency.compare.comparison consistency.drift": "drift",
    "consistency.compare.comparison consistency.recording": "record",
    "consistency.configuration consistency.backfill": "CallableBackfill QueryBackfill TableBackfill",
    "consistency.jsonl consistency.export_jsonl": "export_consistency",
    "consistency.jsonl consistency.import_jsonl": "import_consistency open_consistency",
    "consistency.lag_estimation consistency.lag.estimates": "LagEstimate LagEstimates",
    "consistency.log.flattening consistency.log.flatten": "flatten",
    "consistency.log.query consistency.log.sampling": "sample",
    "consistency.log.table consistency.log.retention": "clean",
    "files.consistency_files files.consistency": "load_configuration",
    "files.rules_files files.rules": "RulesFile load_rules",
    "files.suite_files files.suite": "load_suite",
    "griffin.measures.rows griffin.measures.accuracy": "GriffinAccuracy",
    "griffin.running griffin.checking": "check",
    "repository.detectors.changes repository.detectors.drift": "Drift",
    "repository.detectors.deequ repository.detectors.holt_winters": "HoltWinters",
    "repository.detectors.whole_partitions repository.detectors.arrivals": "Late MissingPartition",
    "repository.detectors.whole_partitions repository.detectors.contents": "EmptyMetrics Multivariate Restatement SchemaChange StalePartition",
    "repository.store.dimensions repository.store.recorded": "Recorded",
    "rules.columns rules.column_fixes": "BoundFix FormatFix NotNullFix SetFix",
    "rules.columns rules.column_rules": "BoundRule ForeignKeyRule FormatRule NotNullRule SetRule UniqueRule",
    "rules.definition rules.applied": "Applied",
    "rules.dqm rules.attached": "Attached",
    "rules.dqm rules.datasets": "Dataset dataset",
    "rules.file_parser rules.parsing.parser": "Parsed ParserCounts ParserValidation",
    "rules.judging rules.outcome.judging": "judge",
    "rules.known_failures rules.outcome.known": "accept_failures",
    "rules.measures rules.parsing.measures": "ParserRejects ParserRejectsRatio",
    "rules.record_counts rules.state": "DQMState RecordCounts",
    "rules.verdicts rules.outcome.result": "CheckResult",
    "rules.verdicts rules.outcome.validation": "ValidationSet ValidationTask",
    "rules.verdicts rules.outcome.verdicts": "RepositoryVerdicts VerdictFiles",
}
"""Public names by their current module and their module in stored hashes, both relative to tidegauge."""
_HASHED_NAMES = {
    f"tidegauge.{now}.{name}": f"tidegauge.{then}.{name}"
    for (now, then), names in (
        (modules.split(), names.split()) for modules, names in _MOVED_NAMES.items()
    )
    for name in names
}
"""Names in hashes by current name, so that data is not judged again after a class has moved."""
_PLAIN_TYPES = (str, bytes, Number, date, time, timedelta, Enum, type(None))


def source_hash(value: Any) -> str:
    """Return a hash of the behavior of a function, a class or an object.

    It covers the source, the closure, the defaults and the attributes of objects, and recursively
    the functions, classes and plain values of the same module that it names. Imports from other modules
    are identified by name only.
    """
    digest = hashlib.sha256()
    for line in _SourceTraversal(_defining_module(value)).describe(value):
        digest.update(line.encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _defining_module(thing: Any) -> str:
    """Return the module that defines a function, class or object."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    is_defined_in_module = isinstance(thing, type | types.FunctionType | types.MethodType)
    return str((thing if is_defined_in_module else type(thing)).__module__)


class _SourceTraversal:
    """Traversal of everything that code of one module refers to; each value is visited once."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.visited: dict[int, Any] = {}

    def describe(self, value: Any) -> Iterator[str]:
        """Yield lines that describe a value, independent of memory addresses and the order of sets."""
        if isinstance(value, _PLAIN_TYPES):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, re.Pattern):
            yield f"pattern {value.flags} {value.pattern!r}"
        elif id(value) not in self.visited:
            self.visited[id(value)] = value
            yield from self._compound(value)

    def _compound(self, value: Any) -> Iterator[str]:
        match value:
            case list() | tuple():
                yield from self._all("sequence", value)
            case set() | frozenset():
                yield from sorted("\n".join(self.describe(item)) for item in value)
            case dict():
                yield from self._all("mapping", [part for item in value.items() for part in item])
            case functools.partial():
                yield from self._all("partial", [value.func, value.args, value.keywords])
            case types.MethodType():
                yield from self._all("method", [value.__func__, value.__self__])
            case types.CodeType():
                yield from self._all("code", [value.co_code, value.co_names, value.co_consts])
            case types.FunctionType() | type():
                name = f"{value.__module__}.{value.__qualname__}"
                yield _HASHED_NAMES.get(name, name)
                if value.__module__ == self.module:
                    yield from self._code(value)
            case _:
                yield from self.describe(type(value))
                if type(value).__module__ == self.module:
                    yield from self._all("object", sorted(getattr(value, "__dict__", {}).items()))

    def _all(self, kind: str, values: Sequence[Any]) -> Iterator[str]:
        yield f"{kind} of {len(values)}"
        for value in values:
            yield from self.describe(value)

    def _code(self, thing: types.FunctionType | type) -> Iterator[str]:
        """Yield the source of a function or class, and everything it refers to."""
        try:
            yield inspect.getsource(thing)
        except (OSError, TypeError):  # source unavailable, e.g. entered at a plain console
            if isinstance(thing, types.FunctionType):
                yield from self.describe(thing.__code__)
        if isinstance(thing, type):
            yield from self._all("bases", thing.__bases__)
            parts = (getattr(part, "__func__", part) for part in vars(thing).values())
            for part in parts:
                if isinstance(part, types.FunctionType):
                    yield from self._describe_globals(part)
            return
        yield from self._describe_globals(thing)
        defaults = [thing.__defaults__, thing.__kwdefaults__]
        yield from self._all("values", [*defaults, *_closed_over(thing)])

    def _describe_globals(self, function: types.FunctionType) -> Iterator[str]:
        module_globals = function.__globals__
        for name in _names(function.__code__):
            if name in module_globals and not isinstance(module_globals[name], types.ModuleType):
                yield from self.describe(module_globals[name])


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is still unbound
            yield None


def _names(code: types.CodeType) -> list[str]:
    """Return the names that code reads, including its nested functions."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [*code.co_names, *(name for c in inner for name in _names(c))]


ExpressionInput = Union[str, "Column", Callable[["DataFrame"], "str | Column"]]
"""User input: Spark SQL, a Column, or a function of the frame that returns either."""


COLUMN_PLACEHOLDER: Any = object()
"""Placeholder for the column that an expression is about."""


@dataclass(frozen=True)
class KeyLookup:
    """Piece of an expression: whether a key is in another table, evaluated by a join; null for a null key.

    Attributes
    ----------
    columns, other_columns : tuple of str
        The key's columns in the data and in the other table, as Spark SQL.
    table : str
        The other table or view.
    """

    columns: tuple[str, ...]
    table: str
    other_columns: tuple[str, ...]

    def __str__(self) -> str:
        """Return the same condition as a subquery, for display and identity."""
        key = ", ".join(self.columns)
        key = f"({key})" if len(self.columns) > 1 else key
        is_not_null = " AND ".join(f"{other} IS NOT NULL" for other in self.other_columns)
        return f"{key} IN (SELECT {', '.join(self.other_columns)} FROM {self.table} WHERE {is_not_null})"  # noqa: S608 - shown, and never run


@dataclass(frozen=True)
class UniqueKey:
    """Piece of an expression: whether no other record of the partition has the key; null for a null key.

    Attributes
    ----------
    columns : tuple of str
        The key's columns, as Spark SQL.
    where : str or None
        A condition on the records among which the key is unique.
    """

    columns: tuple[str, ...]
    where: str | None = None

    def within(self, partition_columns: Sequence[str]) -> str:
        """Return the condition as Spark SQL, with the partition columns."""
        key = [*partition_columns, *self.columns]
        counted = "1" if self.where is None else f"CASE WHEN {self.where} THEN 1 END"
        is_not_null = " AND ".join(f"{column} IS NOT NULL" for column in self.columns)
        unique = f"count({counted}) OVER (PARTITION BY {', '.join(key)}) <= 1"
        return f"CASE WHEN {is_not_null} THEN {unique} END"

    def __str__(self) -> str:
        """Return the condition on a whole table."""
        return self.within(())


@dataclass(frozen=True, eq=False)
class Expression:
    """SQL expression composed of pieces.

    Attributes
    ----------
    pieces : tuple
        SQL, Columns, functions of the frame, and pieces that need other records.
    hashes : tuple of str
        Source hashes of the functions of a restored expression, which are not available.
    """

    pieces: tuple[Any, ...]
    hashes: tuple[str, ...] = ()

    @classmethod
    def from_input(cls, user_input: ExpressionInput, owner: str) -> Expression:
        """Create an expression from user input.

        Raises
        ------
        RuleError
            If the input is an empty string, or not a string, Column or function.
        """
        if isinstance(user_input, str):
            if not user_input.strip():
                msg = (
                    f"{owner}: an expression is Spark SQL such as 'age < 150', not an empty string"
                )
                raise RuleError(msg)
            return cls((f"(\n{user_input.strip()}\n)",))
        if is_column(user_input) or callable(user_input):
            return cls((user_input,))
        msg = f"{owner}: an expression is Spark SQL, a Column or a function of the frame, not {user_input!r}"
        raise RuleError(msg)

    @classmethod
    def from_column_pieces(cls, column: str | Column, pieces: Sequence[Any]) -> Expression:
        """Build an expression on a column from pieces of SQL, in which the column replaces `COLUMN_PLACEHOLDER`."""
        if not isinstance(column, str) and not is_column(column):
            msg = f"a rule takes one column, as a name or a Column, not {column!r}; add a rule for each column"
            raise RuleError(msg)
        subject = column_sql(column) if isinstance(column, str) else column
        return cls(tuple(subject if piece is COLUMN_PLACEHOLDER else piece for piece in pieces))

    def among(self, where: Expression) -> Expression:
        """Restrict the condition to some records; it is true for all other records."""
        return Expression(("CASE WHEN ", *where.pieces, " THEN ", *self.pieces, " ELSE true END"))

    @classmethod
    def from_identity(cls, identity: Sequence[str]) -> Expression:
        """Restore an expression from its `identity`."""
        string, *hashes = identity
        return cls((string,), tuple(hashes))

    @property
    def text(self) -> str:
        """The expression as a string: SQL as it is, Columns as they print, functions by name."""
        return "".join(
            shown_text(piece) if not isinstance(piece, str) else piece for piece in self.pieces
        ).strip()

    @property
    def predicate(self) -> str:
        """The string without the parentheses added around user input."""
        string = self.text
        is_wrapped = (
            string.startswith("(\n") and string.endswith("\n)") and string.count("(\n") == 1
        )
        return string[2:-2] if is_wrapped else string

    @property
    def display_text(self) -> str:
        """The predicate on one line."""
        return " ".join(self.predicate.split())

    def identity(self) -> list[str]:
        """Return the string and the source hashes of the functions."""
        functions = [piece for piece in self.pieces if _is_function(piece)]
        return [self.text, *self.hashes, *map(source_hash, functions)]


NONDETERMINISTIC_PROBLEM = (
    "returns different values each time, so the written records would differ from the counted records; compute"
    " it into a column first"
)
_RANDOM_CALL = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id"
    r"|reflect|try_reflect|java_method)\s*\(",  # the last three call any function of Java
    re.IGNORECASE,
)
"""Functions that can return a different value each time a record is read."""
_WINDOW_CALL = re.compile(
    r"\bover\s*\((?:\s*partition\s+by\s+(?P<by>(?:[\w.]+|`[^`]*`)(?:\s*,\s*(?:[\w.]+|`[^`]*`))*))?",
    re.IGNORECASE,
)
_SUBQUERY = re.compile(
    r"\(\s*(?:with\s+\w+\s+as\s*\(|table\s+[\w`]"
    r"|select\s+(?!(?:is|in|not|between|like|rlike|and|or)\b)[\w`'(*-].*?\bfrom\s+[\w`(])",
    re.IGNORECASE | re.DOTALL,
)
"""A query in parentheses, which is not a column named ``select``."""


def check_deterministic(sql: str) -> None:
    """Raise an `UnresolvedExpressionError` if an expression can differ each time it is evaluated."""
    random_call = _RANDOM_CALL.search(without_literals(sql))
    if random_call is not None:
        raise UnresolvedExpressionError(f"{random_call[1]}() {NONDETERMINISTIC_PROBLEM}")


def check_record_by_record(sql: str, partition_by: Sequence[str]) -> None:
    """Raise an `UnresolvedExpressionError` if a condition reads beyond a record's own partition.

    Only new partitions are counted, several in one scan. The result of a window over several partitions would
    depend on the partitions in the scan, and changes of another table would go unnoticed.

    Parameters
    ----------
    sql : str
        Spark SQL, or a Column as it prints.
    partition_by : sequence of str
        The partition columns. A window is allowed if it is partitioned by all of them. Without partition
        columns the data is always read as a whole, and every window is allowed.
    """
    sql = without_literals(sql)
    partition_columns = {name.casefold() for name in partition_by}
    for window in _WINDOW_CALL.finditer(sql):
        names = {name.strip().strip("`").casefold() for name in (window["by"] or "").split(",")}
        if not partition_columns <= names:
            msg = (
                "it reads other records by a window, whose result would depend on the partitions that are"
                f" read together; add PARTITION BY {', '.join(partition_by)} to the window, measure"
                " Uniqueness instead, or apply the DQM to the whole frame"
            )
            raise UnresolvedExpressionError(msg)
    if _SUBQUERY.search(sql):
        msg = (
            "it reads another table by a subquery, whose changes would not be noticed when only new"
            " partitions are counted; measure ReferentialIntegrity instead, or apply the DQM to the"
            " whole frame"
        )
        raise UnresolvedExpressionError(msg)


def is_column(value: Any) -> bool:
    """Return whether a value is a Spark Column, classic or Connect; imports neither."""
    return any(
        t.__name__ == "Column" and t.__module__.startswith("pyspark.sql")
        for t in type(value).__mro__
    )


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, str) and not is_column(value)


def shown_text(value: Any) -> str:
    """Return the display text of a Column, a function or any other value."""
    if is_column(value):
        return str(value).removeprefix("Column<'").removesuffix("'>")
    if _is_function(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return str(value)


def value_sql(value: Any) -> str:
    r"""Return the SQL literal of a Python value; None is null.

    Raises
    ------
    RuleError
        If its type has no literal.

    Examples
    --------
    >>> value_sql("it's"), value_sql(None)
    ("'it\\'s'", 'NULL')
    """
    try:
        return "NULL" if value is None else constant(value)
    except TypeError as error:
        raise RuleError(str(error)) from error


def replacement_sql(value: Any, owner: str) -> Expression:
    """Return the expression of a replacement: strings are SQL, other Python values are literals."""
    if isinstance(value, str) or is_column(value) or callable(value):
        return Expression.from_input(value, owner)
    return Expression((value_sql(value),))


ON_NULL = ("fail", "pass", "unknown")
RULE_SEVERITIES = ("error", "warning")
RULE_STAGES = ("before", "after")


class DQMTask(ABC):
    """Base of rules and fixes: a name, and an operation on single records.

    Attributes
    ----------
    name : str
        Name of the counts; unique among all tasks of a `DQM`.

    Examples
    --------
    >>> import tidegauge as tg
    >>> isinstance(tg.BoundRule("age", 1, 150), DQMTask), tg.Rule("age < 150", "young").name
    (True, 'young')
    """

    name: str

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return the task as JSON values; equal tasks have equal identities."""

    def _sources(self) -> list[str]:
        """Return the source hash of a user-defined class, in a list; empty for built-in classes."""
        built_in = type(self).__module__.startswith(f"{__package__}.")
        return [] if built_in else [source_hash(type(self))]

    def __eq__(self, other: object) -> bool:
        """Compare by identity."""
        return isinstance(other, DQMTask) and self.identity() == other.identity()

    def __hash__(self) -> int:
        """Hash the identity."""
        return hash(canonical_json(self.identity()))


class DQMRule(DQMTask):
    """Condition on records. Subclass it for your own rules, or use `Rule`.

    Parameters
    ----------
    expr : str, Column or callable
        A condition that is true for valid records: Spark SQL, a Column, or a function of the frame
        that returns either.
    name : str, optional
        Name of the counts (default: the condition).
    on_null : str
        Treatment of a record for which the condition is null: ``fail`` rejects it, ``pass`` keeps
        it, ``unknown`` keeps it and excludes it from the rule's shares. It is counted separately in
        each case.
    severity : str
        A rule of severity ``error`` rejects the records that break it; with ``warning`` they are counted
        and kept.
    stage : str
        ``before`` the fixes, on original values, or ``after`` them, on repaired ones.
    where : str, Column or callable, optional
        The records that the rule applies to; all others satisfy it, including records for which this is null.
    message : str
        Message about a record that breaks the rule, and about data that fails because of it.
    description : str
        Purpose of the rule.
    tags : sequence of str
        Labels of rejected records, such as the responsible team.

    Raises
    ------
    RuleError
        If an argument is invalid.

    Examples
    --------
    >>> class Even(DQMRule):
    ...     def __init__(self, column: str) -> None:
    ...         super().__init__(f"{column} % 2 = 0", name=f"{column} is even")
    >>> Even("n")
    Even('n is even')
    """

    def __init__(
        self,
        expr: ExpressionInput,
        name: str | None = None,
        *,
        on_null: str = "fail",
        severity: str = "error",
        stage: str = "before",
        where: ExpressionInput | None = None,
        message: str = "",
        description: str = "",
        tags: Sequence[str] = (),
    ) -> None:
        expression = Expression.from_input(expr, type(self).__name__)
        self._set(expression, name, on_null, severity, stage, where, message, description, tags)

    def _set(
        self,
        expression: Expression,
        name: str | None,
        on_null: str,
        severity: str,
        stage: str,
        where: ExpressionInput | None = None,
        message: str = "",
        description: str = "",
        tags: Sequence[str] = (),
    ) -> None:
        default_name = expression.display_text if name is None else name
        if where is not None:
            condition = Expression.from_input(where, type(self).__name__)
            expression = expression.among(condition)
            default_name = (
                f"{default_name} where {condition.display_text}" if name is None else default_name
            )
        self.expression = expression
        self.name = _name(default_name, self)
        self.on_null = _one_of("on_null", on_null, ON_NULL, self)
        self.severity = _one_of("severity", severity, RULE_SEVERITIES, self)
        self.stage = _one_of("stage", stage, RULE_STAGES, self)
        self.message = _note("message", message, self)
        self.description = _note("description", description, self)
        self.tags = _tags(tags, self)

    @property
    def rejects(self) -> bool:
        """Return whether records that break the rule are rejected."""
        return self.severity == "error"

    @property
    def reason(self) -> str:
        """The message, by default that the condition is not true."""
        return self.message or f"not true: {self.expression.display_text}"

    def identity(self) -> dict[str, Any]:
        """Return the rule as JSON values, without message, description and tags, which do not change the counts."""
        return {
            "rule": self.name,
            "expr": self.expression.identity(),
            "on_null": self.on_null,
            "severity": self.severity,
            "stage": self.stage,
            "source": self._sources(),
        }

    def __repr__(self) -> str:
        """Return the class and name."""
        return f"{type(self).__name__}({self.name!r})"


class Rule(DQMRule):
    """Rule with an arbitrary condition.

    Examples
    --------
    >>> Rule("age < 150", "ageLT150").name, Rule("age < 150").name
    ('ageLT150', 'age < 150')
    """


@dataclass(frozen=True, eq=False)
class Arm:
    """One alternative of a fix: a condition and a replacement.

    Attributes
    ----------
    label : str
        Name among the arms of the fix; empty for a single arm.
    condition, value : Expression
        The condition and the replacement.
    """

    label: str
    condition: Expression
    value: Expression


class DQMFix(DQMTask):
    """Repair of one column. Subclass it for your own fixes, or use `Fix`.

    Parameters
    ----------
    condition : str, Column or callable
        Selects the records whose value is replaced; null selects none.
    column : str
        The column to repair; it keeps its type.
    value : str, Column, callable, number, date ...
        The replacement. A string is Spark SQL: ``"150"``, ``"trim(name)"``, ``"'unknown'"``.
    name : str, optional
        Name of the counts (default: ``if(condition) column = value``).

    Raises
    ------
    RuleError
        If an argument is invalid.

    Examples
    --------
    >>> class PositiveFare(DQMFix):
    ...     def __init__(self):
    ...         super().__init__("fare < 0", "fare", 0, name="positive fare")
    >>> PositiveFare()
    PositiveFare('positive fare')
    """

    def __init__(
        self, condition: ExpressionInput, column: str, value: Any, name: str | None = None
    ) -> None:
        kind = type(self).__name__
        when = Expression.from_input(condition, kind)
        replacement = replacement_sql(value, kind)
        default_name = f"if({when.display_text}) {shown_text(column)} = {replacement.display_text}"
        self._set(column, name or default_name, lambda: [Arm("", when, replacement)])

    def _set(self, column: str, name: str, arms: Callable[[], list[Arm]]) -> None:
        if not isinstance(column, str) or not column.strip():  # type: ignore[redundant-expr]  # users err
            msg = f"{type(self).__name__}: column must be the name of the column to repair, not {column!r}"
            raise RuleError(msg)
        self.column = column
        self.name = _name(name, self)
        self.arms = tuple(arms())

    def counters(self) -> Iterator[str]:
        """Yield the counter name of each arm."""
        yield from (f"{self.name}.{arm.label}" if arm.label else self.name for arm in self.arms)

    def identity(self) -> dict[str, Any]:
        """Return the fix as JSON values."""
        arms = [[a.label, a.condition.identity(), a.value.identity()] for a in self.arms]
        return {"fix": self.name, "column": self.column, "arms": arms, "source": self._sources()}

    def __repr__(self) -> str:
        """Return the class and name."""
        return f"{type(self).__name__}({self.name!r})"


class Fix(DQMFix):
    """Fix with an arbitrary condition and replacement.

    Examples
    --------
    >>> Fix("age > 150", column="age", value="150", name="ageCap")
    Fix('ageCap')
    >>> Fix("age > 150", column="age", value=150).name
    'if(age > 150) age = 150'
    """


def _name(name: Any, task: DQMTask) -> str:
    if not isinstance(name, str) or not name.strip():
        msg = f"{type(task).__name__}: invalid name {name!r}; use a string that is not empty"
        raise RuleError(msg)
    return name


def _note(option: str, note: Any, task: DQMTask) -> str:
    if not isinstance(note, str):
        msg = f"{type(task).__name__}: {option} must be a string, not {note!r}"
        raise RuleError(msg)
    return note.strip()


def _tags(tags: Any, task: DQMTask) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        msg = f"{type(task).__name__}: tags must be a list of strings such as ['pii'], not {tags!r}"
        raise RuleError(msg)
    return tuple(_note("a tag", tag, task) for tag in tags)


def _one_of(option: str, value: Any, allowed: Sequence[str], task: DQMTask) -> str:
    if value not in allowed:
        msg = f"{type(task).__name__}: {option} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
        raise RuleError(msg)
    return str(value)
