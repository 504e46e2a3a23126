"""The way from a rule to its plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from analyzers.errors import nearest
from analyzers.griffin.binding import Scope, bind, notices
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.lowering.accuracy import lower_accuracy
from analyzers.griffin.lowering.column_profiling import lower_column_profiling
from analyzers.griffin.lowering.completeness import lower_completeness
from analyzers.griffin.lowering.conformance import lower_conformance
from analyzers.griffin.lowering.distinctness import lower_distinctness
from analyzers.griffin.lowering.duplication import lower_duplication
from analyzers.griffin.lowering.profiling import lower_profiling
from analyzers.griffin.lowering.record_check import lower_record_check
from analyzers.griffin.lowering.timeliness import lower_timeliness
from analyzers.griffin.lowering.uniqueness import lower_uniqueness
from analyzers.griffin.lowering.work import Work
from analyzers.griffin.nodes import Accuracy, Distinct, Listing, Profiling, Rule
from analyzers.griffin.plan import Plan


def lower(
    rule: Rule | None,
    config: RuleConfig,
    scope: Scope,
    by: tuple[str, ...] = (),
    *,
    older: str | None = None,
) -> Plan:
    """Return the steps of SQL that a rule comes down to.

    Parameters
    ----------
    rule : Rule or None
        Bound or not; None for kinds whose details say all.
    config : RuleConfig
        Its ``dq_type``, options and outputs.
    scope : Scope
    by : tuple of str
        Columns of the source by which everything is grouped, and which all steps keep.
    older : str or None
        For distinctness: the frame of rows that came before.

    Raises
    ------
    DslError
        If the rule cannot be bound, or its options cannot be.

    Examples
    --------
    >>> from analyzers.griffin.nodes import Name
    >>> from analyzers.schema import Schema
    >>> scope = Scope({"source": Schema.from_types({"id": "long"})}, "source")
    >>> config = RuleConfig(1, "griffin-dsl", "id", "completeness")
    >>> [step.name for step in lower(Listing((Name("id"),)), config, scope).steps]
    ['incomplete_records', 'total_count', 'incomplete_count', 'complete_count']
    """
    work = Work(config, scope, tuple(by), older)
    # What is no DSL needs no binding.
    needs = (
        config.dq_type not in {"record-check", "schema-conformance"}
        and "expr" not in config.details
    )
    bound = bind(rule, scope) if rule is not None and needs else None
    plan = _lowered(bound, work)
    said = () if bound is None else notices(bound)
    return replace(plan, notices=(*plan.notices, *said, *_unknown(config)))


def _unknown(config: RuleConfig) -> Iterator[str]:
    """Tell of details that mean nothing to a kind of rule: they may be misspelt."""
    known = DETAILS[str(config.dq_type)] | _OF_ALL
    for key in config.details:
        if key not in known:
            near = nearest(str(key), known)
            hint = f"; did you mean {near!r}?" if near else ""
            yield f"the detail {key!r} means nothing to a rule of {config.dq_type!r}{hint}"


def _lowered(rule: Rule | None, work: Work) -> Plan:  # noqa: PLR0911 - one for each kind of rule
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
"""The details that each kind of rule reads."""

_LISTS = {
    "completeness": lower_completeness,
    "duplication": lower_duplication,
    "column-profiling": lower_column_profiling,
}
