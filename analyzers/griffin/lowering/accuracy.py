"""Accuracy: how many rows of the source have a match in the target."""

from __future__ import annotations

from analyzers.griffin.lowering.matching import (
    NULL_MATCHES,
    matched_condition,
    side_names,
    skipped_condition,
)
from analyzers.griffin.lowering.work import Work, fraction
from analyzers.griffin.nodes import Accuracy
from analyzers.griffin.plan import Plan, Step
from analyzers.sql import quote


def lower_accuracy(rule: Accuracy, work: Work) -> Plan:
    """Return the steps ``miss_items``, ``miss_count``, ``total_count`` and ``accuracy``.

    The last reads source and target once and none of the others.
    """
    null_match = null_match_of(work)
    sides = side_names(work.scope)
    source, target = (quote(side) for side in sides)
    matched = matched_condition(rule, work.scope, null_match, sides)
    skipped = skipped_condition(rule, work.scope, null_match, sides[0])
    of = f"{work.table} AS {source}"
    other = f"{quote(str(work.scope.frame(work.scope.target or '')))} AS {target}"
    miss, total = work.named("miss"), work.named("total")
    items, counted = work.step("miss_items"), work.step("miss_count")
    found = f"EXISTS (SELECT 1 FROM {other} WHERE {matched})"
    if skipped:
        found = f"({found} OR ({skipped}))"
    rows = f"SELECT {work.lead}{found} AS `__matched` FROM {of}"
    misses = f"SELECT * FROM {of} LEFT ANTI JOIN {other} ON {matched}"
    steps = (
        Step(items, f"{misses} WHERE NOT ({skipped})" if skipped else misses, ("__missRecords",)),
        Step(
            counted,
            f"SELECT {work.lead}count(1) AS {miss} FROM {quote(items)}{work.grouped()}",
            ("__missCount",),
        ),
        Step(
            work.step("total_count"),
            f"SELECT {work.lead}count(1) AS {total} FROM {work.table}{work.grouped()}",
            ("__totalCount",),
        ),
        Step(
            work.step("accuracy"),
            f"SELECT {work.lead}`__total` AS {total}, `__miss` AS {miss}, "
            f"`__total` - `__miss` AS {work.named('matched')}, "
            f"{fraction('`__total` - `__miss`', '`__total`')} AS {work.named('matchedFraction')} "
            f"FROM (SELECT {work.lead}count(1) AS `__total`, count_if(NOT `__matched`) AS `__miss` "
            f"FROM ({rows}){work.grouped()})",
            ("__accuracy",),
        ),
    )
    return Plan(steps, (work.metric(steps[-1].name),), (items,), work.source, work.by)


def null_match_of(work: Work) -> str:
    """Return how nulls are matched, as the details say."""
    said = work.option("null.match", NULL_MATCHES[0])
    if said not in NULL_MATCHES:
        raise work.error(f"null.match is one of {', '.join(NULL_MATCHES)}; not {said!r}")
    return str(said)
