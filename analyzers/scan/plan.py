"""Scan planning: check analyzers against the schema and group their requests into Spark jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import DslError, UnresolvedExpressionError, describe
from tidegauge.analyzers.core.metric import Failure, attempt
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.requests import (
    ROWS,
    Aggregate,
    Frequencies,
    Lookup,
    Request,
    Sketch,
    WorkerRequest,
)
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import count_rows
from tidegauge.analyzers.measures.counts import Compliance
from tidegauge.analyzers.measures.frequencies import GroupSizeAnalyzer
from tidegauge.analyzers.scan.capabilities import Capabilities, capabilities, workers_are_equipped
from tidegauge.analyzers.scan.counted import UNKNOWN, Expectation, counted_jobs
from tidegauge.analyzers.scan.jobs import ScanJob, jobs_for, own_job
from tidegauge.analyzers.scan.parsing import unparsed
from tidegauge.analyzers.scan.query_logs import handled_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Plan:
    """The execution plan of a scan.

    Attributes
    ----------
    session : Capabilities
    schema : Schema
    failures : dict
        Failures of the analyzers that are rejected before any data is read.
    requests : dict
        Requests of all other analyzers.
    small : bool
        Whether the data is so small that it takes fewer jobs; see `jobs_for`.
    sampled : bool
        Whether jobs may read the first rows beforehand.
    expected : Expectation
        What is expected of the data; if it has few values, they are grouped by first.
    """

    session: Capabilities
    schema: Schema
    failures: dict[AnyAnalyzer, Failure] = field(default_factory=dict)
    requests: dict[AnyAnalyzer, tuple[Request, ...]] = field(default_factory=dict)
    small: bool = False
    sampled: bool = False
    expected: Expectation = UNKNOWN

    @property
    def asked(self) -> list[Request]:
        """All requests, the row count first; equal ones may be there twice."""
        return [ROWS, *(r for some in self.requests.values() for r in some)]

    @property
    def jobs(self) -> list[ScanJob]:
        """The jobs, each one pass and one Spark action."""
        counted = counted_jobs(self.asked, self.schema, self.expected)
        answered: set[Request] = {request for job in counted for request in job.requests}
        columns = frozenset(name.casefold() for name in self.schema.names)
        others = jobs_for(
            (request for request in self.asked if request not in answered),
            self.session,
            columns,
            small=self.small,
            sampled=self.sampled,
        )
        return [*others, *counted]

    def owners(self) -> dict[Request, tuple[AnyAnalyzer, ...]]:
        """Return the analyzers that need each request."""
        owners: dict[Request, tuple[AnyAnalyzer, ...]] = {}
        for analyzer, asked in self.requests.items():
            for request in dict.fromkeys(asked):
                owners[request] = (*owners.get(request, ()), analyzer)
        return owners


def plan(
    data: DataFrame,
    analyzers: Iterable[AnyAnalyzer],
    private: Privacy = PUBLIC,
    *,
    small: bool = False,
    states: bool = True,
    expected: Expectation = UNKNOWN,
) -> Plan:
    """Check every analyzer against the schema and plan the scan, without reading data.

    Without ``states``, frequencies that no metric needs the values of become group sizes.

    Analyzers whose states would hold values of private columns fail. To find analyzers whose
    expressions Spark cannot resolve, all are resolved together, and one by one only if that fails.
    """
    schema = Schema.from_frame(data)
    schema = schema.without(schema.keys_only)
    made = Plan(capabilities(data.sparkSession), schema, small=small, expected=expected)
    for analyzer in dict.fromkeys(analyzers):
        checked = attempt(partial(_requests, analyzer, schema, private))
        if isinstance(checked, Failure):
            made.failures[analyzer] = checked
        else:
            made.requests[analyzer] = checked.value
    _replace_worker_requests(made, data)
    if not states:
        _leave_out_values(made)
    _drop_unresolved(made, data)
    return made


def _drop_unresolved(made: Plan, data: DataFrame) -> None:
    """Give up analyzers whose expressions do not parse or resolve."""
    written = {a: _written(a, asked) for a, asked in made.requests.items()}
    if unparsed(data, [text for texts in written.values() for text in texts]) is not None:
        for analyzer, texts in written.items():
            _drop(made, analyzer, unparsed(data, texts))
    probes = {a: _probes(a, asked, made.session) for a, asked in made.requests.items()}
    if _unresolved(data, [text for texts in probes.values() for text in texts]) is not None:
        for analyzer, texts in probes.items():
            problem = _unresolved(data, texts)
            _drop(made, analyzer, problem and (_no_condition(data, analyzer) or problem))
    for analyzer, asked in list(made.requests.items()):
        for request in asked:
            job = own_job(request)
            if job is not None:
                _drop(made, analyzer, _unreadable(data, job))


def _replace_worker_requests(made: Plan, data: DataFrame) -> None:
    """Request of Spark what its Python workers cannot answer, because they lack a package."""
    for analyzer, asked in made.requests.items():
        if any(isinstance(request, WorkerRequest) for request in asked):
            if workers_are_equipped(data.sparkSession):
                return
            made.requests[analyzer] = tuple(
                request.instead if isinstance(request, WorkerRequest) else request
                for request in asked
            )


def _leave_out_values(made: Plan) -> None:
    """Request group sizes in place of frequencies whose values no analyzer reads."""
    read = {
        request.expressions
        for analyzer, asked in made.requests.items()
        for request in asked
        if isinstance(request, Frequencies) and not isinstance(analyzer, GroupSizeAnalyzer)
    }
    for analyzer, asked in made.requests.items():
        made.requests[analyzer] = tuple(
            replace(request, values=False)
            if isinstance(request, Frequencies) and request.expressions not in read
            else request
            for request in asked
        )


def _drop(made: Plan, analyzer: AnyAnalyzer, problem: Exception | None) -> None:
    if problem is not None and analyzer in made.requests:
        told = problem if isinstance(problem, UnresolvedExpressionError) else describe(problem)
        error = UnresolvedExpressionError(f"{analyzer!r}: {told}")
        made.failures[analyzer] = Failure(error)
        del made.requests[analyzer]


def _requests(analyzer: AnyAnalyzer, schema: Schema, private: Privacy) -> tuple[Request, ...]:
    analyzer.preconditions(schema)
    requests = analyzer.with_exact_comparisons(schema).requests(schema)
    private.check(requests, schema)
    return requests


def _written(analyzer: AnyAnalyzer, asked: Iterable[Request]) -> list[str]:
    """Return the analyzer's options that are SQL expressions as the user wrote them."""
    if any(own_job(request) is not None for request in asked):
        return []  # a query rather than expressions, which its job checks
    return list(analyzer.expressions())


def _probes(analyzer: AnyAnalyzer, asked: Iterable[Request], session: Capabilities) -> list[str]:
    """Return aggregates that resolve if and only if the requests do."""
    texts = [] if analyzer.where is None else [f"count_if({analyzer.where}\n)"]
    for request in asked:
        match request:
            case Aggregate(text):
                texts.append(text)
            case Frequencies(expressions) | Lookup(expressions):
                texts += [f"count({expression})" for expression in expressions]
                texts.append(count_rows(request.where))
            case Sketch():
                texts.append(request.text if session.is_native(request) else request.probe)
    return texts


@handled_errors()
def _unresolved(data: DataFrame, texts: Sequence[str]) -> Exception | None:
    from pyspark.errors import AnalysisException

    try:
        data.selectExpr(*dict.fromkeys(texts), ROWS.text).schema  # noqa: B018 - forces resolution
    except AnalysisException as error:  # includes ParseException
        return error
    return None


@handled_errors()
def _no_condition(data: DataFrame, analyzer: AnyAnalyzer) -> UnresolvedExpressionError | None:
    """Return an error that names an analyzer's condition that is not true or false; None if all may be."""
    from pyspark.errors import AnalysisException

    conditions = (analyzer.where, analyzer.predicate if isinstance(analyzer, Compliance) else None)
    for condition in filter(None, conditions):
        try:
            kind = data.selectExpr(f"(\n{condition}\n)").schema.fields[0].dataType.simpleString()
        except AnalysisException:
            continue
        if kind != "boolean":
            return UnresolvedExpressionError(f"{condition} is of type {kind}, not a condition")
    return None


@handled_errors()
def _unreadable(data: DataFrame, job: ScanJob) -> Exception | None:
    from pyspark.errors import AnalysisException

    try:
        job.check(data)
    except (AnalysisException, DslError, UnresolvedExpressionError) as error:
        return error
    return None
