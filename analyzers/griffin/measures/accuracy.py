"""Rows that have their like in another source: accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from analyzers.analyzer import analyzer
from analyzers.counts import NumMatchesAndCount
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.griffin.binding import bind
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.lowering.matching import matched_condition
from analyzers.griffin.measures.base import GriffinMeasure
from analyzers.griffin.measures.report import Report
from analyzers.griffin.nodes import Accuracy
from analyzers.griffin.parsing import parse
from analyzers.griffin.scope import Scope
from analyzers.metric import Scale
from analyzers.requests import SIDES, Match, Request
from analyzers.schema import Schema
from analyzers.state import State

_NUMBERS = ("total", "miss", "matched", "matchedFraction")
NULL_MATCHES = ("null-safe", "sql")
"""Griffin's own way leaves some rows out; it is lowered to SQL."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """When a row of the source matches one of the target.

    Attributes
    ----------
    text, rule : str
        The rule, and its name.
    source, target : str
        What the rule calls the two.
    nulls : str
        ``null-safe`` or ``sql``.
    """

    text: str
    rule: str
    source: str
    target: str
    nulls: str

    def __call__(self, data: Schema, other: Schema) -> str:
        """Return it as SQL.

        Raises
        ------
        DslError
            If the rule does not suit the columns.
        """
        frames = {self.source: data, self.target: other}
        scope = Scope(frames, self.source, self.target, None, self.text, self.rule)
        rule = bind(parse(self.text, "accuracy", self.rule), scope, self.text)
        assert isinstance(rule, Accuracy)
        return matched_condition(rule, scope, self.nulls, SIDES)


@analyzer
class GriffinAccuracy(GriffinMeasure[NumMatchesAndCount]):
    """Griffin's accuracy: how many rows of a source have a row in a target for which a condition holds.

    A row counts once, however many rows match it. Null equals null, and the empty text is another value;
    with ``"null.match": "sql"`` in the details null equals nothing. In the text the target is ``target``.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The condition.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``null.match``; ``total``, ``miss``, ``matched``, ``matchedFraction`` for other names.
    target : str
        The other table or view. A change of it makes every partition one that has changed.

    Examples
    --------
    >>> rule = GriffinAccuracy("users", "source.id = target.id", target="warehouse.users")
    >>> rule.compute_metric_from(NumMatchesAndCount(46, 50)).value.metric
    {'total': 50, 'miss': 4, 'matched': 46, 'matchedFraction': 0.92}
    """

    dq_type: ClassVar[str] = "accuracy"
    read: ClassVar[tuple[str, ...]] = (*_NUMBERS, "null.match")
    state_type: ClassVar[type[State]] = NumMatchesAndCount
    view: ClassVar[str | None] = None
    """Where the rows of the target are, in a job; set on the instance, and no part of what it is."""

    target: str = "target"

    def adds(self, config: RuleConfig, scope: Scope) -> bool:  # noqa: ARG002
        """Unless nulls match in Griffin's own way."""
        bind(self.parsed(), scope, self.expression)
        return self.nulls in NULL_MATCHES

    def compared_with(self, view: str) -> Self:
        """Return the same, to be measured in a job, whose rules call the target by its own name.

        Parameters
        ----------
        view : str
            The view under which the target's rows are.
        """
        object.__setattr__(self, "view", view)
        return self

    @property
    def nulls(self) -> str:
        """How nulls compare."""
        return str(self.said().get("null.match", NULL_MATCHES[0]))

    def check_parameters(self) -> None:
        """Nulls compare in a way that depends on single rows alone."""
        super().check_parameters()
        if self.nulls not in NULL_MATCHES:
            msg = f"{self!r}: null.match is one of {', '.join(NULL_MATCHES)}, not {self.nulls!r}"
            raise IllegalAnalyzerParameterError(msg)

    @property
    def reads(self) -> tuple[str, ...]:
        """The target."""
        return (self.view or self.target,)

    def column_scale(self, column: str) -> Scale:
        """The fraction is a ratio, all else is counted."""
        return Scale.RATIO if column == self.key("matchedFraction") else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:  # noqa: ARG002 - the job binds to both
        """Ask for the rows that match."""
        target = "target" if self.view is None else self.target
        condition = RuleCondition(self.expression, self.rule, self.source, target, self.nulls)
        return (Match(condition, self.view or self.target),)

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Take both counts."""
        return NumMatchesAndCount(*(cells[0] or ()))

    def weight(self, state: NumMatchesAndCount) -> float:
        """Return the rows."""
        return state.count

    def measure(self, state: NumMatchesAndCount) -> Report:
        """Return rows, misses, matches and their share, which is 1 where there are no rows."""
        total, matched = state.count, state.num_matches
        found = (total, total - matched, matched, matched / total if total else 1.0)
        return Report(dict(zip(map(self.key, _NUMBERS), found, strict=True)))
