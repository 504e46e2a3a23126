"""Base class of analyzers for Griffin rules."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import Analyzer, S
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.griffin.bind.rules import bind
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.config import ErrorCondition, RuleConfig
from tidegauge.griffin.dsl.aliases import aliases
from tidegauge.griffin.dsl.nodes import Accuracy, DistinctItem, Rule
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.measures.report import Report


@dataclass(frozen=True, repr=False)
class GriffinMeasure(Analyzer[S, Report]):
    """A rule of the Griffin DSL, measured by a mergeable state.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The rule's text.
    source : str
        Name of the data in the text.
    details : str
        The rule's details as JSON: names of its numbers, and options.

    Class attributes
    ----------------
    dq_type : str
        The rule type.
    read : tuple of str
        Details that the rule type reads.
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
        """Dataset: a rule may read many columns."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The name of the source."""
        return self.source

    @property
    def name(self) -> str:
        """The rule's name prefixed with ``Griffin.``."""
        return f"Griffin.{self.rule}"

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of one of the rule's metrics."""
        return self.column_scale(metric_name.removeprefix(f"{self.name}."))

    def column_scale(self, column: str) -> Scale:
        """Return the scale of one of the rule's numbers."""
        return self.scale

    def said(self) -> Mapping[str, Any]:
        """Return the details as a mapping."""
        return read_details(self.details)

    def key(self, name: str) -> str:
        """Return the output name of a number."""
        return str(self.said().get(name, name))

    def check_parameters(self) -> None:
        """Raise unless the details are a JSON object and the text parses."""
        try:
            known = isinstance(self.said(), dict)
        except ValueError:
            known = False
        if not known:
            msg = f"{self!r}: details must be an object of JSON, not {self.details!r}"
            raise IllegalAnalyzerParameterError(msg)
        self.parsed()

    def config(self) -> RuleConfig:
        """Return the equivalent job configuration of the rule."""
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
        """Return the name scope of the rule."""
        return Scope({self.source: schema}, self.source, None, None, self.expression, self.rule)

    def parsed(self) -> Rule:
        """Return the rule's syntax tree."""
        return parse(self.expression, self.dq_type, self.rule)

    def bound(self, schema: Schema) -> Rule:
        """Return the rule's syntax tree bound to the data's columns."""
        return bind(self.parsed(), self.scope(schema))

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return whether a mergeable state can measure the rule as configured in a job."""
        self.bound(scope.schema(self.source))
        return True

    def aliases(self) -> tuple[str, ...]:
        """Return the aliases of the rule's expressions."""
        rule = self.parsed()
        items = () if isinstance(rule, Accuracy) else rule.items
        named = [item.of if isinstance(item, DistinctItem) else item for item in items]
        return aliases(named, {self.source.casefold()})

    def statistic(self) -> str:
        """Return the state's identity, which leaves out the rule's name."""
        return canonical_json({"griffin": self.dq_type, **self.options(), "rule": None})

    @abstractmethod
    def measure(self, state: S) -> Report:
        """Return the metric; an empty state has a total of 0."""


@lru_cache(maxsize=1024)
def read_details(details: str) -> Mapping[str, Any]:
    """Parse details from JSON."""
    found: Mapping[str, Any] = json.loads(details)
    return found
