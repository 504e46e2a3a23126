"""Export results of checks as an OpenLineage facet."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.metric import Entity
from tidegauge.checks.constraints import (
    Constraint,
    ConstraintResult,
    MetricConstraint,
)
from tidegauge.repository.exchange.openlineage import assertions_facet

if TYPE_CHECKING:
    from tidegauge.checks.check import Check
    from tidegauge.checks.constraints import PartitionResult

SEVERITIES = {"error": "error", "warning": "warn"}


def assertions_facet_of(
    judged: Sequence[PartitionResult],
    checks: Sequence[Check],
    names: Sequence[str],
    dataset: str | None,
    partition: str | None,
    segment: str | None,
) -> dict[str, Any]:
    """Return the OpenLineage facet of one partition; see `Verification.openlineage`."""
    meant = [
        one
        for one in judged
        if dataset in {None, one.dataset}
        and partition in {None, one.partition}
        and segment in {None, one.segment}
    ]
    places = dict.fromkeys((one.dataset, one.partition, one.segment) for one in meant)
    if len(places) != 1:
        raise SuiteError(_which(list(places)))
    return assertions_facet([_assertion(one, checks[one.check], names[one.check]) for one in meant])


def _which(places: Sequence[tuple[str, ...]]) -> str:
    if not places:
        return "nothing that was verified is meant by dataset=, partition= and segment="
    known = "; ".join(" ".join(filter(None, place)) for place in places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return f"a facet is about one partition: say which, by dataset=, partition= or segment=: {known}{more}"


def _expected(constraint: Constraint) -> str:
    """Return the assertion on the value as text."""
    if isinstance(constraint, MetricConstraint):
        return str(constraint.assertion)
    return constraint.description.rpartition(": ")[2]


def _level(check: Check, result: ConstraintResult) -> str:
    return "warning" if result.warned else str(check.level)


def _assertion(one: PartitionResult, check: Check, name: str) -> dict[str, Any]:
    result = one.result
    constraint = result.constraint
    analyzer = constraint.analyzer
    told: dict[str, Any] = {
        "assertion": type(analyzer).__name__,
        "name": f"{name}: {constraint.description}",
        "success": result.passed,
        "severity": SEVERITIES[_level(check, result)],
        "expected": _expected(constraint),
    }
    if analyzer.entity is Entity.COLUMN and hasattr(analyzer, "column"):
        told["column"] = analyzer.column
    if result.value is not None and isfinite(result.value):
        told["actual"] = f"{result.value:.6g}"
    if result.message:
        told["description"] = result.message
    return told
