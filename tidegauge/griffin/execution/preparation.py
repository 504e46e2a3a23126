"""Prepare rules before any rule runs: parse, bind, lower, and register their steps as views.

`lower` binds a rule and lowers it to SQL steps. `select_measure` returns the analyzer that measures
the rule with a mergeable state, if such an analyzer exists.
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
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.binding import bind, notices
from tidegauge.griffin.dsl.nodes import Rule, known_functions
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.execution.loader import operate
from tidegauge.griffin.execution.user_sql import (
    group_labels,
    plan_error,
    query_text,
    refuse_bad_patterns,
)
from tidegauge.griffin.measures import keys, profiling, rows, timeliness
from tidegauge.griffin.measures.base import (
    GriffinMeasure,
    Hazards,
    LoweringContext,
    MetricTable,
    RulePlan,
    Step,
    hazards,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.core.analyzer import Analyzer


KIND_BY_RULE_TYPE = {
    kind.dq_type: kind for kind in (*keys.KINDS, *profiling.KINDS, *rows.KINDS, *timeliness.KINDS)
}


def select_measure(
    config: RuleConfig, scope: Scope, group_by: tuple[str, ...] = ()
) -> GriffinMeasure[Any] | None:
    """Return the analyzer that measures a rule with a mergeable state, or None.

    Only the profiling queries of `GriffinProfiling` have an analyzer. No analyzer exists for keys that are
    looked up in another source, or for Griffin's own null matching. The analyzer's metric equals the result
    of the metric step in the rule's plan.

    Parameters
    ----------
    config : RuleConfig
        The rule.
    scope : Scope
        Source and schema; for accuracy also the target.
    group_by : tuple of str
        Group-by columns; excluded from a key of all columns.

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
    kind = KIND_BY_RULE_TYPE.get(str(config.dq_type)) if config.dsl_type == "griffin-dsl" else None
    analyzer = None if kind is None else kind.measure
    if analyzer is None:
        return None
    extra = {"target": scope.target} if config.dq_type == "accuracy" and scope.target else {}
    expression = config.rule.strip()
    if config.dq_type == "duplication" and expression in {"", "*"}:
        expression = ", ".join(
            quote(n) for n in scope.schema(scope.source).names if n not in group_by
        )
    try:
        measure = analyzer(
            config.name, expression, scope.source, _read_details(analyzer, config), **extra
        )
    except IllegalAnalyzerParameterError:  # Griffin's own null matching
        return None
    return measure if measure.adds(config, scope) else None


def _read_details(analyzer: type[GriffinMeasure[Any]], config: RuleConfig) -> str:
    """Return the details that the analyzer reads, except names equal to the default."""
    keys_read = analyzer.details_read()
    details = {
        key: value
        for key, value in config.details.items()
        if key in keys_read and value not in (key, None, "")
    }
    output = config.output("metric")
    if "flatten" in keys_read and output is not None:
        details |= {"flatten": output.flatten} if output.flatten else {}
        details |= {"name": output.name} if output.name else {}
    if "error.confs" in keys_read and config.errors:
        details["error.confs"] = [
            {"column.name": error.column, "type": error.kind, "values": list(error.values)}
            for error in config.errors
        ]
    return canonical_json(details)


def lower(
    rule: Rule | None, config: RuleConfig, scope: Scope, group_by: tuple[str, ...] = ()
) -> RulePlan:
    """Bind a rule and lower it to SQL steps.

    Parameters
    ----------
    rule : Rule or None
        The parsed rule; None for rule types that are defined only by their details.
    config : RuleConfig
        The rule's ``dq_type``, options and outputs.
    scope : Scope
        The tables and columns that the rule can use.
    group_by : tuple of str
        Group-by columns of the source. All steps keep them.

    Raises
    ------
    DslError
        If the rule cannot be bound, or an option is invalid.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Listing, Name
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> scope = Scope({"source": Schema.from_types({"id": "long"})}, "source")
    >>> config = RuleConfig(1, "griffin-dsl", "id", "completeness")
    >>> [step.name for step in lower(Listing((Name("id"),)), config, scope).steps]
    ['incomplete_records', 'total_count', 'incomplete_count', 'complete_count']
    """
    context = LoweringContext(config, scope, tuple(group_by))
    # Rules that are SQL or only details are not bound.
    needs = (
        config.dq_type not in {"record-check", "schema-conformance"}
        and "expr" not in config.details
    )
    bound = bind(rule, scope) if rule is not None and needs else None
    plan = _lower_rule(bound, context)
    rule_notices = () if bound is None else notices(bound, config.rule)
    may_fail = Hazards() if bound is None else hazards(bound)
    return replace(
        plan, notices=(*plan.notices, *rule_notices, *_unknown_details(config)), hazards=may_fail
    )


def _unknown_details(config: RuleConfig) -> Iterator[str]:
    """Yield a notice for each detail that the rule type does not read; it may be misspelled."""
    readable = KIND_BY_RULE_TYPE[str(config.dq_type)].details | _COMMON_DETAILS
    for key in config.details:
        if key not in readable:
            hint = did_you_mean(str(key), readable)
            yield f"unknown detail {key!r} for dq.type {config.dq_type!r}{hint}"


def _lower_rule(rule: Rule | None, context: LoweringContext) -> RulePlan:
    kind = KIND_BY_RULE_TYPE.get(str(context.config.dq_type))
    if kind is None or not isinstance(rule, kind.trees):
        raise context.error(f"a rule of this form cannot have dq.type {context.config.dq_type!r}")
    return kind.lower(rule, context)


_COMMON_DETAILS = frozenset({"source", "target", "expr", "df.name"})


@dataclass(frozen=True)
class Prepared:
    """A prepared rule, ready to run.

    Attributes
    ----------
    config : RuleConfig
        The rule as configured.
    plan : RulePlan
        The rule's SQL steps.
    measure : Analyzer or None
        Analyzer that computes the metric in one pass and keeps a state; None if the steps compute
        the metric.
    views : mapping of str to str
        Views of the plan's source and steps. Later rules that reuse their names do not change them.
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
        """Whether the rule has a metric. Rules of the DSL always have one, others if they output it."""
        return self.config.dsl_type == "griffin-dsl" or self.config.output("metric") is not None


def prepare(
    rules: Iterable[RuleConfig], views: Views, sources: Sequence[str], group_by: Sequence[str] = ()
) -> list[Prepared]:
    """Prepare rules in order. Only schemas are read.

    Parameters
    ----------
    rules : iterable of RuleConfig
        The rules of the job.
    views : Views
        Views of the sources; the steps of the rules are added.
    sources : sequence of str
        The names of the sources, baselines first.
    group_by : sequence of str
        Partition columns.

    Raises
    ------
    DslError
        If rules are invalid. The error is for the first invalid rule; ``others`` has the errors of the rest.
    """
    preparer, ready, errors = _Preparer(views, sources, tuple(group_by)), [], []
    for config in rules:
        try:
            ready.append(preparer.prepare(config))
        except DslError as error:
            error.rule = error.rule or config.name
            error.text = error.text or config.rule
            errors.append(error)
        except (SuiteError, KeyError) as error:
            errors.append(DslError(str(error.args[0]), rule=config.name, phase="plan"))
        except Exception as error:  # noqa: BLE001 - any error that Spark raises for a query
            errors.append(plan_error(error, config))
    if errors:
        first = errors[0]
        first.others = tuple(errors[1:])
        raise first
    return ready


class _Preparer:
    """Prepares the rules of a job in order, and registers their frames.

    Parameters
    ----------
    views : Views
        Views of the sources; the steps of the rules are added.
    sources : sequence of str
        The names of the sources, baselines first.
    group_by : tuple of str
        Partition columns.
    """

    def __init__(self, views: Views, sources: Sequence[str], group_by: tuple[str, ...]) -> None:
        self.views, self.sources, self.group_by = views, sources, group_by
        self.functions = known_functions(views.spark)
        self.used_names: set[str] = set()
        self.groups: dict[str, frozenset[str]] = {}
        """Columns that identify the rows of frames, by frame name; all in lower case."""

    def prepare(self, config: RuleConfig) -> Prepared:
        """Return a rule with the labels of its metrics."""
        self._refuse_duplicates(config)
        match config.dsl_type:
            case "spark-sql":
                prepared = self._from_frame(config, self.views.query(query_text(config)))
                refuse_bad_patterns(None, config, self.views.spark)
            case "df-opr":
                frame = self.views.frame(config.in_name or self._only_source(config))
                prepared = self._from_frame(config, operate(config.rule, frame, config.details))
            case _:
                prepared = self._from_dsl(config)
        return self._with_labels(prepared)

    def _refuse_duplicates(self, config: RuleConfig) -> None:
        if config.name.casefold() in self.used_names:
            raise SuiteError(
                f"two rules have the name {config.name!r}; set a different out.dataframe.name for each"
            )
        self.used_names.add(config.name.casefold())
        output = config.output("record")
        if output is not None and output.table is not None:
            table = f"table {output.table.casefold()}"
            if table in self.used_names:
                raise SuiteError(
                    f"another rule also writes its records to {output.table!r}, and each would replace the"
                    " other's; use a different table for each rule"
                )
            self.used_names.add(table)

    def _with_labels(self, prepared: Prepared) -> Prepared:
        """Return a rule with the labels of its metrics, and remember the labels of its frames."""
        sql = {step.name: step.sql for step in prepared.plan.steps}
        tables = []
        for table in prepared.plan.metrics:
            labels = table.labels
            if labels is None:
                columns = self.views.spark.table(prepared.views[table.step]).columns
                labels = group_labels(sql[table.step], columns, self.groups)
            tables.append(replace(table, labels=labels))
        by_step = {table.step: frozenset(map(str.casefold, table.labels or ())) for table in tables}
        for step in prepared.plan.steps:
            for name in (step.name, *step.aliases, f"{prepared.name}_{step.name}"):
                self.groups[name.casefold()] = by_step.get(step.name, frozenset())
        rule_labels = by_step[tables[0].step] if tables else frozenset()
        update = prepared.config.output("dsc-update")
        for name in (prepared.name, *([str(update.name)] if update else [])):
            self.groups[name.casefold()] = rule_labels
        return replace(prepared, plan=replace(prepared.plan, metrics=tuple(tables)))

    def _missing_column(self, columns: Iterable[str]) -> str | None:
        """Return the first partition column that is not among the columns, ignoring case."""
        present = {column.casefold() for column in columns}
        return next((name for name in self.group_by if name.casefold() not in present), None)

    def _from_frame(self, config: RuleConfig, frame: DataFrame) -> Prepared:
        """Return a rule whose frame is both its metric and its records."""
        missing = self._missing_column(frame.columns)
        if missing and (config.output("metric") or config.output("record")):
            raise SuiteError(
                f"its rows have no column {missing!r}, so their partition is unknown:"
                f" select and group by {missing}"
            )
        view = self._register_frame(config, frame)
        words = words_in(config.rule)
        mentioned = [name for name in self.sources if name.casefold() in words]
        default = (mentioned or [*self.sources, ""])[0]
        source = config.in_name or str(config.details.get("source") or default)
        step, output = Step(config.name, config.rule), config.metric
        table = MetricTable(config.name, output.flatten or "default", str(output.name), None)
        records = (config.name,) if config.output("record") else ()
        plan = RulePlan((step,), (table,), records, source, self.group_by)
        return Prepared(config, plan, views={config.name: view})

    def _register_frame(self, config: RuleConfig, frame: DataFrame) -> str:
        """Register the rule's frame under its name, and as an updated source. Return the view's name.

        A rule without ``out.dataframe.name`` does not hide an existing frame with its name.
        """
        frame = self.views.cached(frame) if config.cache else frame
        hides = config.out_name is None and config.name in self.views
        name = f"rule_{config.number}" if hides else config.name
        self.views.add(name, frame)
        view = self.views.view(name)
        update = config.output("dsc-update")
        if update is not None:
            updated = update.name or config.details.get("source")
            self.views.add(self._updated_source(updated), frame)
        return view

    def _updated_source(self, source: object) -> str:
        """Return the name of the source that a frame replaces."""
        if source is None:
            raise SuiteError("its output dsc-update must name the source that it replaces")
        if str(source) not in self.views:
            hint = did_you_mean(str(source), self.views)
            raise SuiteError(f"its output dsc-update names {source!r}, which is not a source{hint}")
        return str(source)

    def _only_source(self, config: RuleConfig) -> str:
        if len(self.sources) != 1:
            raise SuiteError(
                f"{config.rule!r} needs in.dataframe.name; set it to one of {', '.join(map(repr, self.sources))}"
            )
        return self.sources[0]

    def _from_dsl(self, config: RuleConfig) -> Prepared:
        views = self.views
        tree = parse(config.rule, config.dq_type or "", config.name) if has_text(config) else None
        refuse_bad_patterns(tree, config, views.spark)
        source = self._select_frame("source", config, self.sources)
        target = self._select_frame("target", config, [s for s in self.sources if s != source])
        tables = {name: Schema.from_frame(views.frame(name)) for name in views}
        scope = Scope(tables, source or "", target, self.functions, config.rule, config.name)
        plan = lower(tree, config, scope, self.group_by)
        if missing := self._missing_column(scope.schema(plan.source).names):
            raise SuiteError(
                f"its source {plan.source!r} has no column {missing!r}, but the job is partitioned by this column"
            )
        target_view = views.view(target) if target else ""
        step_views = self._register_steps(config, plan)
        as_sql = config.dq_type == "completeness" and "expr" in config.details
        # Scan expressions cannot refer to such columns, because Spark replaces ${...} with settings.
        read = [scope.schema(name) for name in (plan.source, target) if name]
        as_sql |= any("${" in column for schema in read for column in schema.names)
        measure = None if as_sql else select_measure(config, scope, self.group_by)
        if isinstance(measure, rows.GriffinAccuracy) and target_view:
            measure = measure.compared_with(target_view)
        return Prepared(config, plan, measure, step_views)

    def _select_frame(self, side: str, config: RuleConfig, defaults: Sequence[str]) -> str | None:
        """Return the name of the rule's source or target frame."""
        name = config.details.get(side)
        if not name:
            return defaults[0] if defaults else None
        if str(name) not in self.views:
            hint = did_you_mean(str(name), self.views)
            raise SuiteError(
                f"its {side} {name!r} is neither a source nor the frame of an earlier rule{hint}"
            )
        return str(name)

    def _register_steps(self, config: RuleConfig, plan: RulePlan) -> dict[str, str]:
        """Register the steps as views: by name, by prefixed name, and the metric by the rule's name.

        Return the views of the source and of the steps.
        """
        step_views = {plan.source: self.views.view(plan.source)}
        metric = plan.metrics[0].step if plan.metrics else plan.steps[-1].name
        for step in plan.steps:
            frame = self.views.query(step.sql)
            for name in dict.fromkeys((step.name, *step.aliases, f"{config.name}_{step.name}")):
                self.views.add(name, frame)
            step_views[step.name] = self.views.view(step.name)
        self._register_frame(config, self.views.frame(metric))
        return step_views


def has_text(config: RuleConfig) -> bool:
    """Return whether the rule has DSL text. Some rules are defined by their details or by all columns."""
    if config.dq_type in {"record-check", "schema-conformance"} or "expr" in config.details:
        return False
    return config.dq_type not in {"duplication", "column-profiling"} or bool(config.rule.strip())
