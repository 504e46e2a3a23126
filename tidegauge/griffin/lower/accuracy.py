"""SQL for accuracy: count source rows with a match in the target."""

from __future__ import annotations

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.dsl.nodes import Accuracy
from tidegauge.griffin.lower.context import LoweringContext, fraction
from tidegauge.griffin.lower.matching import (
    NULL_MATCHES,
    matched_condition,
    side_names,
    skipped_condition,
)
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step


def lower_accuracy(rule: Accuracy, work: LoweringContext) -> RulePlan:
    """Return the steps ``miss_items``, ``miss_count``, ``total_count`` and ``accuracy``.

    The last step reads source and target once, and none of the other steps.
    """
    null_match = null_match_of(work)
    sides = side_names(work.scope)
    source, target = (quote(side) for side in sides)
    matched = matched_condition(rule, work.scope, null_match, sides)
    skipped = skipped_condition(rule, work.scope, null_match, sides[0])
    of = f"{work.table} AS {source}"
    other = f"{quote(str(work.scope.frame(work.scope.target or '')))} AS {target}"
    miss, total = work.output_column("miss"), work.output_column("total")
    items, counted = work.step("miss_items"), work.step("miss_count")
    found = f"EXISTS (SELECT 1 FROM {other} WHERE {matched})"
    if skipped:
        found = f"({found} OR ({skipped}))"
    rows = f"SELECT {work.group_columns}{found} AS `__matched` FROM {of}"
    misses = f"SELECT * FROM {of} LEFT ANTI JOIN {other} ON {matched}"
    steps = (
        Step(items, f"{misses} WHERE NOT ({skipped})" if skipped else misses, ("__missRecords",)),
        Step(
            counted,
            f"SELECT {work.group_columns}count(1) AS {miss} FROM {quote(items)}{work.group_by_clause()}",
            ("__missCount",),
        ),
        Step(
            work.step("total_count"),
            f"SELECT {work.group_columns}count(1) AS {total} FROM {work.table}{work.group_by_clause()}",
            ("__totalCount",),
        ),
        Step(
            work.step("accuracy"),
            f"SELECT {work.group_columns}`__total` AS {total}, `__miss` AS {miss}, "
            f"`__total` - `__miss` AS {work.output_column('matched')}, "
            f"{fraction('`__total` - `__miss`', '`__total`')} AS {work.output_column('matchedFraction')} "
            f"FROM (SELECT {work.group_columns}count(1) AS `__total`, count_if(NOT `__matched`) AS `__miss` "
            f"FROM ({rows}){work.group_by_clause()})",
            ("__accuracy",),
        ),
    )
    return RulePlan(steps, (MetricTable(steps[-1].name),), (items,), work.source, work.by)


def null_match_of(work: LoweringContext) -> str:
    """Return the ``null.match`` mode from the rule's details."""
    said = work.option("null.match", NULL_MATCHES[0])
    if said not in NULL_MATCHES:
        raise work.error(f"null.match is one of {', '.join(NULL_MATCHES)}; not {said!r}")
    return str(said)
