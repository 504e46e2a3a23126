"""Running plans step by step in tests, as a job does."""

from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.execution.preparation import lower


def config(dq_type, rule="", errors=(), **details):
    """Return a rule with details. Double underscores of keywords stand for dots."""
    details = {key.replace("__", "."): value for key, value in details.items()}
    return RuleConfig(1, "griffin-dsl", rule, dq_type, details=details, errors=tuple(errors))


class PlanResult:
    """The rows of the steps of a plan, by name of the step."""

    def __init__(self, plan, views):
        self.plan, self.views = plan, views

    def rows(self, step):
        return [row.asDict(recursive=True) for row in self.views.frame(step).collect()]

    @property
    def metric(self):
        """The only row of the metric's first step."""
        (row,) = self.rows(self.plan.metrics[0].step)
        return row

    def sorted(self, step):
        return sorted(self.rows(step), key=repr)


def run(spark, rule, what, frames, by=(), target="target"):
    """Run a rule, given as a string or tree, on frames, and name its steps."""
    views = Views(spark)
    for name, frame in frames.items():
        views.add(name, frame)
    tables = {name: Schema.from_frame(frame) for name, frame in frames.items()}
    known = target if target in frames and target != "source" else None
    text = rule if isinstance(rule, str) else ""
    scope = Scope(tables, "source", known, None, text)
    tree = parse(rule, dq_type=what.dq_type) if isinstance(rule, str) else rule
    plan = lower(tree, what, scope, by)
    for step in plan.steps:
        frame = views.query(step.sql)
        for name in (step.name, *step.aliases):
            views.add(name, frame)
    return PlanResult(plan, views)
