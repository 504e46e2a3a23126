"""Lowering of a rule to its plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegauge.analyzers.core.errors import did_you_mean
from tidegauge.griffin.bind.hazards import Hazards, hazards
from tidegauge.griffin.bind.rules import Scope, bind, notices
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Accuracy, Distinct, Listing, Profiling, Rule
from tidegauge.griffin.lower.accuracy import lower_accuracy
from tidegauge.griffin.lower.column_profiling import lower_column_profiling
from tidegauge.griffin.lower.completeness import lower_completeness
from tidegauge.griffin.lower.conformance import lower_conformance
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.distinctness import lower_distinctness
from tidegauge.griffin.lower.duplication import lower_duplication
from tidegauge.griffin.lower.plan import RulePlan
from tidegauge.griffin.lower.profiling import lower_profiling
from tidegauge.griffin.lower.record_check import lower_record_check
from tidegauge.griffin.lower.timeliness import lower_timeliness
from tidegauge.griffin.lower.uniqueness import lower_uniqueness


def lower(
    rule: Rule | None,
    config: RuleConfig,
    scope: Scope,
    by: tuple[str, ...] = (),
    *,
    older: str | None = None,
) -> RulePlan:
    """Bind a rule and lower it to SQL steps.

    Parameters
    ----------
    rule : Rule or None
        Bound or not; None for rule types that are defined by their details alone.
    config : RuleConfig
        Its ``dq_type``, options and outputs.
    scope : Scope
    by : tuple of str
        Group-by columns of the source, kept by all steps.
    older : str or None
        For distinctness: the frame of earlier rows.

    Raises
    ------
    DslError
        If the rule does not bind, or an option is invalid.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Name
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> scope = Scope({"source": Schema.from_types({"id": "long"})}, "source")
    >>> config = RuleConfig(1, "griffin-dsl", "id", "completeness")
    >>> [step.name for step in lower(Listing((Name("id"),)), config, scope).steps]
    ['incomplete_records', 'total_count', 'incomplete_count', 'complete_count']
    """
    work = LoweringContext(config, scope, tuple(by), older)
    # Rules in SQL or in details alone are not bound.
    needs = (
        config.dq_type not in {"record-check", "schema-conformance"}
        and "expr" not in config.details
    )
    bound = bind(rule, scope) if rule is not None and needs else None
    plan = _lowered(bound, work)
    said = () if bound is None else notices(bound, config.rule)
    may_fail = Hazards() if bound is None else hazards(bound)
    return replace(plan, notices=(*plan.notices, *said, *_unknown(config)), hazards=may_fail)


def _unknown(config: RuleConfig) -> Iterator[str]:
    """Yield a notice for each detail that the rule type does not read, as it may be misspelt."""
    known = DETAILS[str(config.dq_type)] | _OF_ALL
    for key in config.details:
        if key not in known:
            hint = did_you_mean(str(key), known)
            yield f"unknown detail {key!r} for dq.type {config.dq_type!r}{hint}"


def _lowered(rule: Rule | None, work: LoweringContext) -> RulePlan:  # noqa: PLR0911 - one for each kind of rule
    match work.config.dq_type, rule:
        case "accuracy", Accuracy():
            return lower_accuracy(rule, work)
        case "profiling", Profiling():
            return lower_profiling(rule, work)
        case "uniqueness", Listing():
            return lower_uniqueness(rule, work)
        case "distinct", Distinct():
            return lower_distinctness(rule, work)
        case "timeliness", Listing():
            return lower_timeliness(rule, work)
        case kind, Listing() | None if kind in _LISTS:
            return _LISTS[kind](rule, work)
        case "schema-conformance", _:
            return lower_conformance(work)
        case "record-check", _:
            return lower_record_check(work)
        case kind, _:
            raise work.error(f"a rule of this form cannot be of dq.type {kind!r}")


_OF_ALL = frozenset({"source", "target", "expr", "df.name"})
_SHARES = frozenset({"total", "complete", "incomplete"})
_DUPLICATES = frozenset({"total", "dup", "num", "duplication.array"})
DETAILS = {
    "accuracy": frozenset({"miss", "total", "matched", "matchedFraction", "null.match"}),
    "profiling": frozenset(),
    "uniqueness": _DUPLICATES | {"unique", "uniqueFraction", "null.match"},
    "distinct": _DUPLICATES
    | {"distinct", "accu_dup", "with.accumulate", "record.enable", "null.match"},
    "timeliness": frozenset(
        {"latency", "total", "avg", "min", "max", "late", "unmeasurable", "threshold", "step"}
    )
    | {"count", "step.size", "percentile", "percentile.values"},
    "completeness": _SHARES | {"completeFraction"},
    "duplication": frozenset({"total", "duplicate", "unique", "non_unique", "distinct"})
    | {"bad.record.definition"},
    "schema-conformance": _SHARES,
    "column-profiling": frozenset(
        {"round.scale", "dataset.sample", "approx.distinct.count", "column_details"}
    ),
    "record-check": _SHARES | {"bad.record.definition"},
}
"""Details that each rule type reads."""

_LISTS = {
    "completeness": lower_completeness,
    "duplication": lower_duplication,
    "column-profiling": lower_column_profiling,
}
