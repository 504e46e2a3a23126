"""Rules made ready: parsed, bound and lowered, their steps registered as views, before any of them runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.errors import DslError, SuiteError, describe, nearest
from analyzers.griffin.binding import Scope
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.frame_ops import operate
from analyzers.griffin.functions import known_functions
from analyzers.griffin.lowering import lower
from analyzers.griffin.measures.accuracy import GriffinAccuracy
from analyzers.griffin.measures.choosing import measure_of
from analyzers.griffin.parsing import parse
from analyzers.griffin.plan import Plan, Step, Table
from analyzers.schema import Schema
from analyzers.sql import words_in
from analyzers.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.analyzer import Analyzer


@dataclass(frozen=True)
class Prepared:
    """A rule that can run.

    Attributes
    ----------
    config : RuleConfig
    plan : Plan
    measure : Analyzer or None
        What finds the metric in one pass and keeps a state; None where the steps find it.
    views : mapping of str to str
        The views of the plan's source and steps, whatever later rules call by these names.
    """

    config: RuleConfig
    plan: Plan
    measure: Analyzer[Any, Any] | None = None
    views: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.config.name

    @property
    def measured(self) -> bool:
        """Whether the rule has a metric: rules of the DSL do, others where they say so."""
        return self.config.dsl_type == "griffin-dsl" or self.config.output("metric") is not None


def prepare(
    rules: Iterable[RuleConfig], views: Views, sources: Sequence[str], by: Sequence[str] = ()
) -> list[Prepared]:
    """Make rules ready, in their order; nothing is read but schemas.

    Parameters
    ----------
    rules : iterable of RuleConfig
    views : Views
        Which hold the sources, and get the rules' steps.
    sources : sequence of str
        The names of the sources, baselines first.
    by : sequence of str
        Columns by which everything is measured.

    Raises
    ------
    DslError
        If a rule cannot be; the first of all, with the ``others``.
    """
    ready, wrong = [], []
    functions = known_functions(views.spark)
    names: set[str] = set()
    for config in rules:
        try:
            _refuse_twice(config, names)
            ready.append(_prepared(config, views, sources, tuple(by), functions))
        except DslError as error:
            wrong.append(_of_rule(error, config))
        except (SuiteError, KeyError) as error:
            wrong.append(DslError(str(error.args[0]), rule=config.name, phase="plan"))
        except Exception as error:  # noqa: BLE001 - what Spark says of a query
            wrong.append(
                DslError(describe(error), text=config.rule, rule=config.name, phase="plan")
            )
    if wrong:
        first = wrong[0]
        first.others = tuple(wrong[1:])
        raise first
    return ready


def _refuse_twice(config: RuleConfig, names: set[str]) -> None:
    if config.name.casefold() in names:
        raise SuiteError(
            f"two rules are called {config.name!r}; give each its own out.dataframe.name"
        )
    names.add(config.name.casefold())
    output = config.output("record")
    if output is not None and output.table is not None:
        place = f"table {output.table.casefold()}"
        if place in names:
            raise SuiteError(
                f"another rule writes its records to {output.table!r}, too, and each would replace the"
                " other's; give each a table of its own"
            )
        names.add(place)


def _of_rule(error: DslError, config: RuleConfig) -> DslError:
    error.rule = error.rule or config.name
    error.text = error.text or config.rule
    return error


def _prepared(
    config: RuleConfig,
    views: Views,
    sources: Sequence[str],
    by: tuple[str, ...],
    functions: frozenset[str] | None,
) -> Prepared:
    match config.dsl_type:
        case "spark-sql":
            frame = views.query(config.rule)
            return _whole(config, views, frame, sources, by)
        case "df-opr":
            name = config.in_name or _only(sources, config)
            frame = operate(config.rule, views.frame(name), config.details)
            return _whole(config, views, frame, sources, by)
        case _:
            return _of_dsl(config, views, sources, by, functions)


def _whole(
    config: RuleConfig,
    views: Views,
    frame: DataFrame,
    sources: Sequence[str],
    by: tuple[str, ...],
) -> Prepared:
    """Return a rule whose one frame is metric and records alike."""
    missing = [column for column in by if column.casefold() not in map(str.casefold, frame.columns)]
    if missing and (config.output("metric") or config.output("record")):
        raise SuiteError(
            f"its rows do not say of which {missing[0]} they are: select and group by {missing[0]}"
        )
    view = _name(config, views, frame)
    words = words_in(config.rule)
    named = [name for name in sources if name.casefold() in words] or [*sources, ""]
    source = config.in_name or str(config.details.get("source") or named[0])
    step = Step(config.name, config.rule)
    output = config.output("metric")
    called = (output.name if output else None) or config.name
    table = Table(config.name, (output.flatten if output else None) or "default", called)
    records = (config.name,) if config.output("record") else ()
    plan = Plan((step,), (table,), records, source, by)
    return Prepared(config, plan, views={config.name: view})


def _name(config: RuleConfig, views: Views, frame: DataFrame) -> str:
    """Give the rule's frame its name, and that of the source whose rows it takes the place of; return its view.

    A rule that is called by its metric hides no frame of that name.
    """
    frame = views.cached(frame) if config.cache else frame
    hides = config.out_name is None and config.name in views
    name = f"rule_{config.number}" if hides else config.name
    views.add(name, frame)
    view = views.view(name)
    update = config.output("dsc-update")
    if update is not None:
        views.add(_updated(update.name or config.details.get("source"), views), frame)
    return view


def _updated(source: object, views: Views) -> str:
    """Return the source in whose place a frame is put."""
    if source is None:
        raise SuiteError("its output dsc-update must name the source that it takes the place of")
    if str(source) not in views:
        near = nearest(str(source), views)
        hint = f"; did you mean {near!r}?" if near else ""
        raise SuiteError(f"its output dsc-update names {source!r}, which is no source{hint}")
    return str(source)


def _only(sources: Sequence[str], config: RuleConfig) -> str:
    if len(sources) != 1:
        raise SuiteError(
            f"{config.rule!r} needs in.dataframe.name, one of: {', '.join(map(repr, sources))}"
        )
    return sources[0]


def _of_dsl(
    config: RuleConfig,
    views: Views,
    sources: Sequence[str],
    by: tuple[str, ...],
    functions: frozenset[str] | None,
) -> Prepared:
    tree = parse(config.rule, config.dq_type or "", config.name) if has_text(config) else None
    source = _side("source", config, views, sources[:1])
    target = _side("target", config, views, [s for s in sources if s != source][:1])
    tables = {name: Schema.of_frame(views.frame(name)) for name in views}
    scope = Scope(tables, source or "", target, functions, config.rule, config.name)
    plan = lower(tree, config, scope, by)
    _refuse_ungrouped(plan.source, scope, by)
    other = views.view(target) if target else ""
    own = _register(config, plan, views)
    as_sql = config.dq_type == "completeness" and "expr" in config.details
    # A scan's expressions cannot name such columns: Spark puts settings in their place.
    read = [scope.schema(name) for name in (plan.source, target) if name]
    as_sql |= any("${" in column for schema in read for column in schema.names)
    measure = None if as_sql else measure_of(config, scope, by)
    if isinstance(measure, GriffinAccuracy) and other:
        measure = measure.compared_with(other)
    return Prepared(config, plan, measure, own)


def _refuse_ungrouped(source: str, scope: Scope, by: Sequence[str]) -> None:
    there = {column.casefold() for column in scope.schema(source).names}
    missing = [column for column in by if column.casefold() not in there]
    if missing:
        raise SuiteError(
            f"its source {source!r} has no column {missing[0]!r}, by which the job measures"
        )


def has_text(config: RuleConfig) -> bool:
    """Whether the rule is text of the DSL: some kinds say all in their details, or take all columns."""
    other = config.dq_type in {"record-check", "schema-conformance"} or "expr" in config.details
    every = config.dq_type in {"duplication", "column-profiling"} and not config.rule.strip()
    return not (other or every)


def _side(side: str, config: RuleConfig, views: Views, default: Sequence[str]) -> str | None:
    """Return the frame that is the rule's source or target."""
    named = config.details.get(side)
    if not named:
        return default[0] if default else None
    if str(named) not in views:
        near = nearest(str(named), views)
        hint = f"; did you mean {near!r}?" if near else ""
        raise SuiteError(f"its {side} {named!r} is no source and no frame of a rule before{hint}")
    return str(named)


def _register(config: RuleConfig, plan: Plan, views: Views) -> dict[str, str]:
    """Give the steps their names: their own, with the rule's before it, and the rule's for its metric.

    Return the views of the source and of the steps.
    """
    own = {plan.source: views.view(plan.source)}
    metric = plan.metrics[0].step if plan.metrics else plan.steps[-1].name
    for step in plan.steps:
        frame = views.query(step.sql)
        for name in dict.fromkeys((step.name, *step.also, f"{config.name}_{step.name}")):
            views.add(name, frame)
        own[step.name] = views.view(step.name)
    _name(config, views, views.frame(metric))
    return own
