"""Rules, which are conditions on records, and fixes, which repair single cells.

A rule keeps the records for which it is true. If it is false for a record, the record violates it;
if it is null, the record is unknown, which is counted separately and handled by ``on_null``. A fix
replaces a value where its condition is true and keeps the record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.rules.code_identity import source_hash
from tidegauge.rules.expressions import (
    Expression,
    ExpressionInput,
    given_sql,
    shown_text,
)

if TYPE_CHECKING:
    pass

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
