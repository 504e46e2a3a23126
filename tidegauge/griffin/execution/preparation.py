"""Prepare rules before any of them runs: parse, bind, lower, and register their steps as views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import DslError, SuiteError, did_you_mean
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import words_in
from tidegauge.analyzers.scan.views import Views
from tidegauge.griffin.bind.functions import known_functions
from tidegauge.griffin.bind.rules import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.execution.explaining import plan_error, query_text
from tidegauge.griffin.frame_operations import operate
from tidegauge.griffin.lower import lower
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.measures.accuracy import GriffinAccuracy
from tidegauge.griffin.measures.selection import select_measure
from tidegauge.griffin.sql.groups import group_labels
from tidegauge.griffin.sql.patterns import refuse_bad_patterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.core.analyzer import Analyzer


@dataclass(frozen=True)
class Prepared:
    """A prepared rule, ready to run.

    Attributes
    ----------
    config : RuleConfig
    plan : RulePlan
    measure : Analyzer or None
        Analyzer that computes the metric in one pass and keeps a state; None if the steps compute
        it.
    views : mapping of str to str
        Views of the plan's source and steps, unaffected by later rules that reuse their names.
    """

    config: RuleConfig
    plan: RulePlan
    measure: Analyzer[Any, Any] | None = None
    views: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.config.name

    @property
    def measured(self) -> bool:
        """Return whether the rule has a metric: always for the DSL, else if it outputs one."""
        return self.config.dsl_type == "griffin-dsl" or self.config.output("metric") is not None


def prepare(
    rules: Iterable[RuleConfig], views: Views, sources: Sequence[str], by: Sequence[str] = ()
) -> list[Prepared]:
    """Prepare rules in order; only schemas are read.

    Parameters
    ----------
    rules : iterable of RuleConfig
    views : Views
        Views of the sources; the rules' steps are added.
    sources : sequence of str
        The names of the sources, baselines first.
    by : sequence of str
        Partition columns.

    Raises
    ------
    DslError
        If rules are invalid: the error of the first, with those of the rest in ``others``.
    """
    ready, wrong = [], []
    functions = known_functions(views.spark)
    names: set[str] = set()
    groups: dict[str, frozenset[str]] = {}
    for config in rules:
        try:
            _refuse_twice(config, names)
            one = _prepared(config, views, sources, tuple(by), functions)
            ready.append(_grouped(one, views, groups))
        except DslError as error:
            wrong.append(_of_rule(error, config))
        except (SuiteError, KeyError) as error:
            wrong.append(DslError(str(error.args[0]), rule=config.name, phase="plan"))
        except Exception as error:  # noqa: BLE001 - any Spark error in a query
            wrong.append(plan_error(error, config))
    if wrong:
        first = wrong[0]
        first.others = tuple(wrong[1:])
        raise first
    return ready


def _grouped(one: Prepared, views: Views, groups: dict[str, frozenset[str]]) -> Prepared:
    """Return a rule whose results have the groups of what they read, and note those of its frames.

    Parameters
    ----------
    one : Prepared
    views : Views
    groups : dict of str to frozenset of str
        Columns that identify the rows of frames, by the frames' names; all in lower case.
    """
    sql = {step.name: step.sql for step in one.plan.steps}
    tables = []
    for table in one.plan.metrics:
        labels = table.labels
        if labels is None:
            columns = views.spark.table(one.views[table.step]).columns
            labels = group_labels(sql[table.step], columns, groups)
        tables.append(replace(table, labels=labels))
    by_step = {table.step: frozenset(map(str.casefold, table.labels or ())) for table in tables}
    for step in one.plan.steps:
        for name in (step.name, *step.also, f"{one.name}_{step.name}"):
            groups[name.casefold()] = by_step.get(step.name, frozenset())
    whole = by_step[tables[0].step] if tables else frozenset()
    update = one.config.output("dsc-update")
    for name in (one.name, *([str(update.name)] if update else [])):
        groups[name.casefold()] = whole
    return replace(one, plan=replace(one.plan, metrics=tuple(tables)))


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
            whole = _whole(config, views, views.query(query_text(config)), sources, by)
            refuse_bad_patterns(None, config, views.spark)
            return whole
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
    """Return a rule whose single frame is both metric and records."""
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
    output = config.metric
    table = MetricTable(
        config.name,
        output.flatten or "default",
        str(output.name),
        None,
    )
    records = (config.name,) if config.output("record") else ()
    plan = RulePlan((step,), (table,), records, source, by)
    return Prepared(config, plan, views={config.name: view})


def _name(config: RuleConfig, views: Views, frame: DataFrame) -> str:
    """Register the rule's frame under its name, and as an updated source; return its view.

    A rule named after its metric does not hide an existing frame of that name.
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
    """Return the name of the source that a frame replaces."""
    if source is None:
        raise SuiteError("its output dsc-update must name the source that it takes the place of")
    if str(source) not in views:
        hint = did_you_mean(str(source), views)
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
    refuse_bad_patterns(tree, config, views.spark)
    source = _side("source", config, views, sources[:1])
    target = _side("target", config, views, [s for s in sources if s != source][:1])
    tables = {name: Schema.from_frame(views.frame(name)) for name in views}
    scope = Scope(tables, source or "", target, functions, config.rule, config.name)
    plan = lower(tree, config, scope, by)
    _refuse_ungrouped(plan.source, scope, by)
    other = views.view(target) if target else ""
    own = _register(config, plan, views)
    as_sql = config.dq_type == "completeness" and "expr" in config.details
    # Scan expressions cannot refer to such columns: Spark substitutes ${...} by settings.
    read = [scope.schema(name) for name in (plan.source, target) if name]
    as_sql |= any("${" in column for schema in read for column in schema.names)
    measure = None if as_sql else select_measure(config, scope, by)
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
    """Return whether the rule has DSL text; some kinds are defined by details or by all columns."""
    other = config.dq_type in {"record-check", "schema-conformance"} or "expr" in config.details
    every = config.dq_type in {"duplication", "column-profiling"} and not config.rule.strip()
    return not (other or every)


def _side(side: str, config: RuleConfig, views: Views, default: Sequence[str]) -> str | None:
    """Return the name of the rule's source or target frame."""
    named = config.details.get(side)
    if not named:
        return default[0] if default else None
    if str(named) not in views:
        hint = did_you_mean(str(named), views)
        raise SuiteError(f"its {side} {named!r} is no source and no frame of a rule before{hint}")
    return str(named)


def _register(config: RuleConfig, plan: RulePlan, views: Views) -> dict[str, str]:
    """Register the steps as views: by name, by prefixed name, and the metric by the rule's name.

    Returns the views of the source and of the steps.
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
