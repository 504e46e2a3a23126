"""What the measures of all kinds of Griffin rules have in common."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from analyzers.analyzer import Analyzer, S
from analyzers.description import canonical_json
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.griffin.aliases import aliases
from analyzers.griffin.binding import bind
from analyzers.griffin.config import ErrorCondition, RuleConfig
from analyzers.griffin.measures.report import Report
from analyzers.griffin.nodes import Accuracy, DistinctItem, Rule
from analyzers.griffin.parsing import parse
from analyzers.griffin.scope import Scope
from analyzers.metric import Entity, Scale
from analyzers.schema import Schema


@dataclass(frozen=True, repr=False)
class GriffinMeasure(Analyzer[S, Report]):
    """A rule of the Griffin DSL, measured by a state that adds.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        Its text.
    source : str
        What the text calls the data.
    details : str
        The rule's details as JSON: what its numbers are called, and what else it says.

    Class attributes
    ----------------
    dq_type : str
        The kind of rule.
    read : tuple of str
        The details that are read.
    """

    scale: ClassVar[Scale] = Scale.COUNT
    dq_type: ClassVar[str]
    read: ClassVar[tuple[str, ...]]

    rule: str
    expression: str
    source: str = "source"
    details: str = "{}"

    @property
    def entity(self) -> Entity:
        """The data set: a rule may read many columns."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The source."""
        return self.source

    @property
    def name(self) -> str:
        """The rule's name behind ``Griffin``."""
        return f"Griffin.{self.rule}"

    def scale_of(self, metric_name: str) -> Scale:
        """Return how one of the rule's numbers behaves."""
        return self.column_scale(metric_name.removeprefix(f"{self.name}."))

    def column_scale(self, column: str) -> Scale:  # noqa: ARG002 - most are counts
        """Return how the numbers of a column behave."""
        return self.scale

    def said(self) -> Mapping[str, Any]:
        """Return the details."""
        return read_details(self.details)

    def key(self, name: str) -> str:
        """Return what a number is called."""
        return str(self.said().get(name, name))

    def check_parameters(self) -> None:
        """The details are an object of JSON, and the text can be parsed."""
        try:
            known = isinstance(self.said(), dict)
        except ValueError:
            known = False
        if not known:
            msg = f"{self!r}: details must be an object of JSON, not {self.details!r}"
            raise IllegalAnalyzerParameterError(msg)
        self.parsed()

    def config(self) -> RuleConfig:
        """Return the rule as a job would have it."""
        said = dict(self.said())
        errors = tuple(
            ErrorCondition(one["column.name"], one["type"], tuple(one["values"]))
            for one in said.pop("error.confs", ())
        )
        return RuleConfig(
            number=1,
            dsl_type="griffin-dsl",
            rule=self.expression,
            dq_type=self.dq_type,
            out_name=self.rule,
            details=said,
            errors=errors,
        )

    def scope(self, schema: Schema) -> Scope:
        """Return what names of the rule can mean."""
        return Scope({self.source: schema}, self.source, None, None, self.expression, self.rule)

    def parsed(self) -> Rule:
        """Return the rule's tree."""
        return parse(self.expression, self.dq_type, self.rule)

    def bound(self, schema: Schema) -> Rule:
        """Return the rule's tree with the columns of the data in it."""
        return bind(self.parsed(), self.scope(schema))

    def adds(self, config: RuleConfig, scope: Scope) -> bool:  # noqa: ARG002 - most do
        """Whether the rule, as a job has it, can be measured by a state."""
        self.bound(scope.schema(self.source))
        return True

    def aliases(self) -> tuple[str, ...]:
        """Return what the rule's expressions are called."""
        rule = self.parsed()
        items = () if isinstance(rule, Accuracy) else rule.items
        named = [item.of if isinstance(item, DistinctItem) else item for item in items]
        return aliases(named, {self.source.casefold()})

    def statistic(self) -> str:
        """The rule's name does not matter to the state."""
        return canonical_json({"griffin": self.dq_type, **self.options(), "rule": None})

    @abstractmethod
    def measure(self, state: S) -> Report:
        """Return the metric; nothing is a total of 0."""


@lru_cache(maxsize=1024)
def read_details(details: str) -> Mapping[str, Any]:
    """Return details from their text."""
    found: Mapping[str, Any] = json.loads(details)
    return found
