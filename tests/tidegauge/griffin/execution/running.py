"""Running plans step by step, as a job does, for tests."""

from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.griffin.bind.expressions import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.execution.preparation import lower


def config(dq_type, rule="", errors=(), **details):
    """A rule with details, whose names have dots where keywords have double underscores."""
    details = {key.replace("__", "."): value for key, value in details.items()}
    return RuleConfig(1, "griffin-dsl", rule, dq_type, details=details, errors=tuple(errors))


class Ran:
    """What the steps of a plan give, by name."""

    def __init__(self, plan, views):
        self.plan, self.views = plan, views

    def rows(self, step):
        return [row.asDict(recursive=True) for row in self.views.frame(step).collect()]

    @property
    def metric(self):
        """The one row of the metric's first step."""
        (row,) = self.rows(self.plan.metrics[0].step)
        return row

    def sorted(self, step):
        return sorted(self.rows(step), key=repr)


def run(spark, rule, what, frames, by=(), older=None, target="target"):
    """Lower a rule, given as text or tree, over frames and give its steps their names."""
    views = Views(spark)
    for name, frame in frames.items():
        views.add(name, frame)
    tables = {name: Schema.from_frame(frame) for name, frame in frames.items()}
    known = target if target in frames and target != "source" else None
    text = rule if isinstance(rule, str) else ""
    scope = Scope(tables, "source", known, None, text)
    tree = parse(rule, dq_type=what.dq_type) if isinstance(rule, str) else rule
    plan = lower(tree, what, scope, by, older=older)
    for step in plan.steps:
        frame = views.query(step.sql)
        for name in (step.name, *step.also):
            views.add(name, frame)
    return Ran(plan, views)
