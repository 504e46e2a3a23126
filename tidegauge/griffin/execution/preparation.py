"""Prepare rules before any of them runs: parse, bind, lower, and register their steps as views.

`lower` binds a rule and lowers it to SQL steps. `select_measure` returns the analyzer that measures
the rule by a mergeable state, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    DslError,
    IllegalAnalyzerParameterError,
    SuiteError,
    did_you_mean,
)
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote, words_in
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.griffin.bind.expressions import Scope
from tidegauge.griffin.bind.rules import bind, notices
from tidegauge.griffin.bind.types import known_functions
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Accuracy, Distinct, Listing, Profiling, Rule
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.execution.user_sql import (
    group_labels,
    plan_error,
    query_text,
    refuse_bad_patterns,
)
from tidegauge.griffin.frame_operations import operate
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.keys import (
    GriffinDistinctness,
    GriffinDuplication,
    GriffinUniqueness,
    lower_distinctness,
    lower_duplication,
    lower_uniqueness,
)
from tidegauge.griffin.measures.plan import (
    Hazards,
    LoweringContext,
    MetricTable,
    RulePlan,
    Step,
    hazards,
)
from tidegauge.griffin.measures.profiling import (
    GriffinProfiling,
    lower_column_profiling,
    lower_profiling,
)
from tidegauge.griffin.measures.rows import (
    GriffinAccuracy,
    GriffinCompleteness,
    GriffinConformance,
    lower_accuracy,
    lower_completeness,
    lower_conformance,
    lower_record_check,
)
from tidegauge.griffin.measures.timeliness import GriffinTimeliness, lower_timeliness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.core.analyzer import Analyzer


KINDS: dict[str, type[GriffinMeasure[Any]]] = {
    kind.dq_type: kind
    for kind in (
        GriffinAccuracy,
        GriffinCompleteness,
        GriffinConformance,
        GriffinDistinctness,
        GriffinDuplication,
        GriffinProfiling,
        GriffinTimeliness,
        GriffinUniqueness,
    )
}


def select_measure(
    config: RuleConfig, scope: Scope, by: tuple[str, ...] = ()
) -> GriffinMeasure[Any] | None:
    """Return the analyzer that measures a rule by a mergeable state, or None.

    There is none for profiling queries beyond `GriffinProfiling`, for keys looked up in another
    source, and for Griffin's own null matching. The analyzer's metric equals that of the metric
    step in the rule's plan.

    Parameters
    ----------
    config : RuleConfig
    scope : Scope
        Source and schema; for accuracy the target, too.
    by : tuple of str
        Group-by columns; left out of a key of all columns.

    Raises
    ------
    DslError
        If the rule cannot be parsed or bound.

    Examples
    --------
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> scope = Scope({"users": Schema.from_types({"id": "long"})}, "users")
    >>> config = RuleConfig(1, "griffin-dsl", "id", "uniqueness", out_name="ids")
    >>> select_measure(config, scope)
    GriffinUniqueness('ids', 'id', source='users')
    """
    kind = KINDS.get(str(config.dq_type)) if config.dsl_type == "griffin-dsl" else None
    if kind is None:
        return None
    more = {"target": scope.target} if kind is GriffinAccuracy and scope.target else {}
    text = config.rule.strip()
    if kind is GriffinDuplication and text in {"", "*"}:
        text = ", ".join(quote(n) for n in scope.schema(scope.source).names if n not in by)
    try:
        made = kind(config.name, text, scope.source, _details(kind, config), **more)
    except IllegalAnalyzerParameterError:  # Griffin's own null matching
        return None
    return made if made.adds(config, scope) else None


def _details(kind: type[GriffinMeasure[Any]], config: RuleConfig) -> str:
    """Return the details that the analyzer reads, without names equal to the default."""
    said = config.details
    found = {
        key: said[key] for key in kind.read if key in said and said[key] not in (key, None, "")
    }
    output = config.output("metric")
    if "flatten" in kind.read and output is not None:
        found |= {"flatten": output.flatten} if output.flatten else {}
        found |= {"name": output.name} if output.name else {}
    if "error.confs" in kind.read and config.errors:
        found["error.confs"] = [
            {"column.name": one.column, "type": one.kind, "values": list(one.values)}
            for one in config.errors
        ]
    return canonical_json(found)


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
