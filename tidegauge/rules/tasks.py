"""Rules, which are conditions on records, and fixes, which repair single cells.

A rule keeps the records for which it is true. If it is false for a record, the record violates it;
if it is null, the record is unknown, which is counted separately and handled by ``on_null``. A fix
replaces a value where its condition is true and keeps the record.

Both are written as expressions: Spark SQL text, Columns, and functions that return either. An expression is a
sequence of pieces. Text is used as it is; a Column has no text that can be embedded in SQL, so each gets a
hidden column of its own first; a function is called with the frame. Users' functions and classes are
identified by hashes of their source code, stable across processes.
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


_MOVED = {
    "analysis explanation": "Explanation explain",
    "analyzers.core.analyzer analyzers.core.state_providers": "FileSystemStateProvider InMemoryStateProvider",
    "analyzers.measures.cardinality analyzers.measures.tuples": "ApproxDistinctness ApproxUniqueValueRatio ApproxUniqueness",
    "analyzers.measures.counts analyzers.measures.columns": "ColumnCount ColumnExists SchemaMatch",
    "analyzers.measures.counts analyzers.measures.references": "ColumnMatch DatasetMatch ReferentialIntegrity",
    "analyzers.measures.extremes analyzers.measures.times": "Freshness MaxTime MinTime",
    "analyzers.measures.frequencies analyzers.measures.exact_quantiles": "ExactQuantile InterquartileRange",
    "analyzers.measures.frequencies analyzers.measures.information": "Entropy MutualInformation",
    "analyzers.measures.frequencies analyzers.measures.uniqueness": "CountDistinct Distinctness DuplicateRowCount UniqueValueRatio Uniqueness",
    "analyzers.measures.histogram analyzers.measures.group_sums": "HistogramOfSums",
    "analyzers.measures.moments analyzers.measures.sums": "Mean RatioOfSums Sum",
    "analyzers.measures.quantiles analyzers.measures.req": "ReqQuantile",
    "checks.rows analyzers.scan.row_level": "row_level_results",
    "checks.suggest checks.suggesting": "suggest",
    "checks.verification checks.verifying": "verify",
    "consistency.compare.comparison consistency.drift": "drift",
    "consistency.compare.comparison consistency.recording": "record",
    "consistency.compare.measuring consistency.compare.pairs": "value_pairs",
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
"""Public names by their module below tidegauge and the one in which they entered stored hashes."""
_HASHED_NAMES = {
    f"tidegauge.{now}.{name}": f"tidegauge.{then}.{name}"
    for (now, then), names in (
        (modules.split(), names.split()) for modules, names in _MOVED.items()
    )
    for name in names
}
"""Names that hashes keep, so that moving a class judges no data again."""
_PLAIN = (str, bytes, Number, date, time, timedelta, Enum, type(None))


def source_hash(thing: Any) -> str:
    """Return a hash of the behaviour of a function, a class or an object.

    It covers the source, the closure, the defaults and the attributes of objects, and recursively
    the functions, classes and plain values of the same module that it names. Imports from elsewhere
    are identified by name only.
    """
    digest = hashlib.sha256()
    for line in _Walk(_home(thing)).told(thing):
        digest.update(line.encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _home(thing: Any) -> str:
    """Return the module that defines a function, class or object."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    own = isinstance(thing, type | types.FunctionType | types.MethodType)
    return str((thing if own else type(thing)).__module__)


class _Walk:
    """Traversal of everything that code of one module refers to; each value is visited once."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.seen: dict[int, Any] = {}

    def told(self, value: Any) -> Iterator[str]:
        """Yield lines that describe a value, independent of addresses and of the order of sets."""
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, re.Pattern):
            yield f"pattern {value.flags} {value.pattern!r}"
        elif id(value) not in self.seen:
            self.seen[id(value)] = value
            yield from self._compound(value)

    def _compound(self, value: Any) -> Iterator[str]:
        match value:
            case list() | tuple():
                yield from self._all("sequence", value)
            case set() | frozenset():
                yield from sorted("\n".join(self.told(item)) for item in value)
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
                if value.__module__ == self.home:
                    yield from self._code(value)
            case _:
                yield from self.told(type(value))
                if type(value).__module__ == self.home:
                    yield from self._all("object", sorted(getattr(value, "__dict__", {}).items()))

    def _all(self, kind: str, values: Sequence[Any]) -> Iterator[str]:
        yield f"{kind} of {len(values)}"
        for value in values:
            yield from self.told(value)

    def _code(self, thing: types.FunctionType | type) -> Iterator[str]:
        """Yield the source of a function or class, and everything it refers to."""
        try:
            yield inspect.getsource(thing)
        except (OSError, TypeError):  # source unavailable, e.g. entered at a plain console
            if isinstance(thing, types.FunctionType):
                yield from self.told(thing.__code__)
        if isinstance(thing, type):
            yield from self._all("bases", thing.__bases__)
            parts = (getattr(part, "__func__", part) for part in vars(thing).values())
            for part in parts:
                if isinstance(part, types.FunctionType):
                    yield from self._named(part)
            return
        yield from self._named(thing)
        given = [thing.__defaults__, thing.__kwdefaults__]
        yield from self._all("values", [*given, *_closed_over(thing)])

    def _named(self, function: types.FunctionType) -> Iterator[str]:
        known = function.__globals__
        for name in _names(function.__code__):
            if name in known and not isinstance(known[name], types.ModuleType):
                yield from self.told(known[name])


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is still unbound
            yield None


def _names(code: types.CodeType) -> list[str]:
    """Return the names that code reads, including those in nested functions."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [*code.co_names, *(name for c in inner for name in _names(c))]


ExpressionInput = Union[str, "Column", Callable[["DataFrame"], "str | Column"]]
"""User input: Spark SQL, a Column, or a function of the frame that returns either."""


COLUMN_PLACEHOLDER: Any = object()
"""Placeholder for the column that an expression is about."""


@dataclass(frozen=True)
class KeyLookup:
    """Piece of an expression: whether a key is in another table; found by a join, null for a null key.

    Attributes
    ----------
    columns, others : tuple of str
        The key's columns in the data and in the other table, as Spark SQL.
    table : str
        The other table or view.
    """

    columns: tuple[str, ...]
    table: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        """Return the same condition as a subquery, which tells what is meant."""
        own = ", ".join(self.columns)
        own = f"({own})" if len(self.columns) > 1 else own
        known = " AND ".join(f"{other} IS NOT NULL" for other in self.others)
        return f"{own} IN (SELECT {', '.join(self.others)} FROM {self.table} WHERE {known})"  # noqa: S608 - shown, and never run


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

    def within(self, by: Sequence[str]) -> str:
        """Return the condition as Spark SQL, with the partition columns."""
        key = [*by, *self.columns]
        counted = "1" if self.where is None else f"CASE WHEN {self.where} THEN 1 END"
        known = " AND ".join(f"{column} IS NOT NULL" for column in self.columns)
        unique = f"count({counted}) OVER (PARTITION BY {', '.join(key)}) <= 1"
        return f"CASE WHEN {known} THEN {unique} END"

    def __str__(self) -> str:
        """Return the condition on a whole table."""
        return self.within(())


@dataclass(frozen=True, eq=False)
class Expression:
    """SQL expression composed of pieces.

    Attributes
    ----------
    pieces : tuple
        SQL text, Columns, functions of the frame, and pieces that need other records.
    hashes : tuple of str
        Source hashes of the functions of a restored expression, which are not available.
    """

    pieces: tuple[Any, ...]
    hashes: tuple[str, ...] = ()

    @classmethod
    def from_input(cls, given: ExpressionInput, owner: str) -> Expression:
        """Make an expression of user input.

        Raises
        ------
        RuleError
            If the input is empty text, or neither text, a Column nor a function.
        """
        if isinstance(given, str):
            if not given.strip():
                msg = f"{owner}: an expression is Spark SQL such as 'age < 150', not an empty text"
                raise RuleError(msg)
            return cls((f"(\n{given.strip()}\n)",))
        if is_column(given) or callable(given):
            return cls((given,))
        msg = f"{owner}: an expression is Spark SQL, a Column or a function of the frame, not {given!r}"
        raise RuleError(msg)

    @classmethod
    def from_column_pieces(cls, column: str | Column, pieces: Sequence[Any]) -> Expression:
        """Make an expression about a column from SQL pieces; `COLUMN_PLACEHOLDER` stands for the column."""
        if not isinstance(column, str) and not is_column(column):
            msg = f"a rule is about one column, by its name or as a Column, not {column!r}; add a rule for each"
            raise RuleError(msg)
        subject = column_sql(column) if isinstance(column, str) else column
        return cls(tuple(subject if piece is COLUMN_PLACEHOLDER else piece for piece in pieces))

    def among(self, where: Expression) -> Expression:
        """Return the condition for some records only; it is true for all others."""
        return Expression(("CASE WHEN ", *where.pieces, " THEN ", *self.pieces, " ELSE true END"))

    @classmethod
    def from_identity(cls, identity: Sequence[str]) -> Expression:
        """Restore an expression from its `identity`."""
        text, *hashes = identity
        return cls((text,), tuple(hashes))

    @property
    def text(self) -> str:
        """The text of all pieces: SQL as it is, Columns as they print, functions by name."""
        return "".join(
            shown_text(piece) if not isinstance(piece, str) else piece for piece in self.pieces
        ).strip()

    @property
    def predicate(self) -> str:
        """The text without the parentheses added around user input."""
        text = self.text
        whole = text.startswith("(\n") and text.endswith("\n)") and text.count("(\n") == 1
        return text[2:-2] if whole else text

    @property
    def shown(self) -> str:
        """The predicate on one line."""
        return " ".join(self.predicate.split())

    def identity(self) -> list[str]:
        """Return the text and the source hashes of the functions."""
        functions = [piece for piece in self.pieces if _is_function(piece)]
        return [self.text, *self.hashes, *map(source_hash, functions)]


UNSTEADY = (
    "gives another answer each time, so the records that are counted and judged would not be those that are"
    " written; compute it into a column first"
)
_RANDOM = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id"
    r"|reflect|try_reflect|java_method)\s*\(",  # the last three call any function of Java
    re.IGNORECASE,
)
"""Functions that may give another answer whenever a record is read."""
_WINDOW = re.compile(
    r"\bover\s*\((?:\s*partition\s+by\s+(?P<by>(?:[\w.]+|`[^`]*`)(?:\s*,\s*(?:[\w.]+|`[^`]*`))*))?",
    re.IGNORECASE,
)
_SUBQUERY = re.compile(
    r"\(\s*(?:with\s+\w+\s+as\s*\(|table\s+[\w`]"
    r"|select\s+(?!(?:is|in|not|between|like|rlike|and|or)\b)[\w`'(*-].*?\bfrom\s+[\w`(])",
    re.IGNORECASE | re.DOTALL,
)
"""A query in parentheses; a column may be called ``select``."""


def check_deterministic(text: str) -> None:
    """Raise an `UnresolvedExpressionError` if an expression may differ each time it is evaluated."""
    found = _RANDOM.search(without_literals(text))
    if found is not None:
        raise UnresolvedExpressionError(f"{found[1]}() {UNSTEADY}")


def check_record_by_record(text: str, by: Sequence[str]) -> None:
    """Raise an `UnresolvedExpressionError` if a condition reads beyond a record's own partition.

    Partitions are counted when they are new, a few at a time: a window over several of them would
    see what happens to be read together, and changes of another table would go unnoticed.

    Parameters
    ----------
    text : str
        Spark SQL, or a Column as it prints.
    by : sequence of str
        The partition columns; a window that is partitioned by all of them is allowed. If there are
        none, the data is always read as a whole, and any window is.
    """
    text = without_literals(text)
    whole = {name.casefold() for name in by}
    for window in _WINDOW.finditer(text):
        names = {name.strip().strip("`").casefold() for name in (window["by"] or "").split(",")}
        if not whole <= names:
            msg = (
                "it looks at other records by a window, which would see those of the partitions that"
                f" are read together; add PARTITION BY {', '.join(by)} to the window, measure"
                " Uniqueness instead, or apply the DQM to the whole frame"
            )
            raise UnresolvedExpressionError(msg)
    if _SUBQUERY.search(text):
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


def given_sql(value: Any, owner: str) -> Expression:
    """Return the expression of a replacement: text is SQL, other Python values are literals."""
    if isinstance(value, str) or is_column(value) or callable(value):
        return Expression.from_input(value, owner)
    return Expression((value_sql(value),))


ON_NULL = ("fail", "pass", "unknown")
SEVERITIES = ("error", "warning")
STAGES = ("before", "after")


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
        Default: the text of the condition.
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
        The records that the rule is about; all others satisfy it, also where this is null.
    message : str
        What is told of a record that breaks the rule, and of data that fails by it.
    description : str
        What the rule is for.
    tags : sequence of str
        Words by which rejected records are sorted, such as the team to ask.

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
        told = expression.shown if name is None else name
        if where is not None:
            among = Expression.from_input(where, type(self).__name__)
            expression = expression.among(among)
            told = f"{told} where {among.shown}" if name is None else told
        self.expression = expression
        self.name = _name(told, self)
        self.on_null = _one_of("on_null", on_null, ON_NULL, self)
        self.severity = _one_of("severity", severity, SEVERITIES, self)
        self.stage = _one_of("stage", stage, STAGES, self)
        self.message = _note("message", message, self)
        self.description = _note("description", description, self)
        self.tags = _tags(tags, self)

    @property
    def rejects(self) -> bool:
        """Return whether records that break the rule are rejected."""
        return self.severity == "error"

    @property
    def reason(self) -> str:
        """The message; without one, that the condition is not true."""
        return self.message or f"not true: {self.expression.shown}"

    def identity(self) -> dict[str, Any]:
        """Return the rule as JSON values: what it counts, without message, description and tags."""
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
        Name among the arms of the fix; empty if there is only one.
    condition, value : Expression
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
        Default: ``if(condition) column = value``.

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
        what = given_sql(value, kind)
        told = f"if({when.shown}) {shown_text(column)} = {what.shown}"
        self._set(column, name or told, lambda: [Arm("", when, what)])

    def _set(self, column: str, name: str, arms: Callable[[], list[Arm]]) -> None:
        if not isinstance(column, str) or not column.strip():  # type: ignore[redundant-expr]  # users err
            msg = (
                f"{type(self).__name__}: column is the name of the column to repair, not {column!r}"
            )
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
        msg = f"{type(task).__name__}: the name is a text that is not empty, not {name!r}"
        raise RuleError(msg)
    return name


def _note(option: str, text: Any, task: DQMTask) -> str:
    if not isinstance(text, str):
        msg = f"{type(task).__name__}: {option} is a text, not {text!r}"
        raise RuleError(msg)
    return text.strip()


def _tags(tags: Any, task: DQMTask) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        msg = f"{type(task).__name__}: tags is a list of texts, ['pii'], not {tags!r}"
        raise RuleError(msg)
    return tuple(_note("a tag", tag, task) for tag in tags)


def _one_of(option: str, value: Any, known: Sequence[str], task: DQMTask) -> str:
    if value not in known:
        msg = f"{type(task).__name__}: {option} is one of {', '.join(map(repr, known))}, not {value!r}"
        raise RuleError(msg)
    return str(value)
