"""Accuracy: rows with a match in another source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import SIDES, Match, Request
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.griffin.bind.rules import bind
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Accuracy
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.lower.matching import matched_condition
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.report import Report

_NUMBERS = ("total", "miss", "matched", "matchedFraction")
NULL_MATCHES = ("null-safe", "sql")
"""Supported modes; ``griffin`` leaves some rows out and is lowered to SQL instead."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """Match condition between a source row and a target row.

    Attributes
    ----------
    text, rule : str
        The rule's text and name.
    source, target : str
        Names of source and target in the rule.
    nulls : str
        ``null-safe`` or ``sql``.
    """

    text: str
    rule: str
    source: str
    target: str
    nulls: str

    def __call__(self, data: Schema, other: Schema) -> str:
        """Return the condition as SQL.

        Raises
        ------
        DslError
            If the rule does not bind to the columns.
        """
        frames = {self.source: data, self.target: other}
        scope = Scope(frames, self.source, self.target, None, self.text, self.rule)
        rule = bind(parse(self.text, "accuracy", self.rule), scope, self.text)
        assert isinstance(rule, Accuracy)
        return matched_condition(rule, scope, self.nulls, SIDES)


@analyzer
class GriffinAccuracy(GriffinMeasure[NumMatchesAndCount]):
    """Griffin's accuracy: count source rows that have a matching target row.

    A row counts once, however many rows match it. Null equals null and differs from the empty text;
    with ``"null.match": "sql"`` in the details null equals nothing. In the text the target is
    ``target``.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The condition.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``null.match``; ``total``, ``miss``, ``matched``, ``matchedFraction`` to rename
        these.
    target : str
        The other table or view. A change to it marks every partition as changed.

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
    """View of the target's rows in a job; set on the instance, not part of its identity."""

    target: str = "target"

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return true if the rule can be bound: a state can measure it."""
        bind(self.parsed(), scope, self.expression)
        return True

    def compared_with(self, view: str) -> Self:
        """Set the target's view and return self, for a job whose rules use the target's own name.

        Parameters
        ----------
        view : str
            The view of the target's rows.
        """
        object.__setattr__(self, "view", view)
        return self

    @property
    def nulls(self) -> str:
        """The null matching mode."""
        return str(self.said().get("null.match", NULL_MATCHES[0]))

    def check_parameters(self) -> None:
        """Raise unless nulls match in a way that depends on single rows alone."""
        super().check_parameters()
        if self.nulls not in NULL_MATCHES:
            msg = f"{self!r}: null.match is one of {', '.join(NULL_MATCHES)}, not {self.nulls!r}"
            raise IllegalAnalyzerParameterError(msg)

    @property
    def reads(self) -> tuple[str, ...]:
        """The target."""
        return (self.view or self.target,)

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: ratio for the fraction, else count."""
        return Scale.RATIO if column == self.key("matchedFraction") else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number of matching rows."""
        target = "target" if self.view is None else self.target
        condition = RuleCondition(self.expression, self.rule, self.source, target, self.nulls)
        return (Match(condition, self.view or self.target),)

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Build the state from both counts."""
        return NumMatchesAndCount(*(cells[0] or ()))

    def measure(self, state: NumMatchesAndCount) -> Report:
        """Return counts of rows, misses and matches, and the matched fraction; 1 for no rows."""
        total, matched = state.count, state.num_matches
        found = (total, total - matched, matched, matched / total if total else 1.0)
        return Report(dict(zip(map(self.key, _NUMBERS), found, strict=True)))
