"""Records of a query, and which of them are bad."""

from __future__ import annotations

from analyzers.griffin.lowering.completeness import counts
from analyzers.griffin.lowering.work import Work
from analyzers.griffin.plan import Plan, Step
from analyzers.sql import quote


def lower_record_check(work: Work) -> Plan:
    """Return the steps ``checked_records``, with a ``__status`` of ``bad`` or ``good``, and ``record_metric``.

    Query and condition are the user's own SQL. They stand on lines of their own, so that a comment at their end
    stays one.
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
    return Plan(steps, (work.metric(metric),), (records,), work.source, work.by)
