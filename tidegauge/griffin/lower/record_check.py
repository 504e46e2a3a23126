"""SQL for record checks: the rows of a user query, marked good or bad."""

from __future__ import annotations

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.lower.completeness import counts
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step


def lower_record_check(work: LoweringContext) -> RulePlan:
    """Return the steps ``checked_records`` and ``record_metric``.

    Records have a ``__status`` of ``bad`` or ``good``. Query and condition are the user's own SQL.
    Each is placed on its own lines, so that a trailing comment does not swallow the SQL after it.
    """
    query = work.config.rule or work.text("expr")
    bad = work.text("bad.record.definition")
    if not query.strip() or not bad.strip():
        raise work.error(
            "a record check has a query, and says in bad.record.definition what is bad"
        )
    records, metric = work.step("checked_records"), work.step("record_metric")
    steps = (
        Step(
            records,
            f"SELECT *, CASE WHEN (\n{bad}\n) THEN 'bad' ELSE 'good' END AS `__status` "
            f"FROM (\n{query}\n)",
        ),
        Step(metric, counts(work, quote(records), "(`__status` = 'bad')")),
    )
    return RulePlan(steps, (MetricTable(metric),), (records,), work.source, work.by)
