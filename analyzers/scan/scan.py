"""Scanning: one pass over the data for all partitions, segments and analyzers.

`scan` runs the jobs of a plan concurrently, each grouped by the partition columns, and folds every
group into states. Failures are isolated: an analyzer that fails does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import ROWS, AnyAnalyzer, Request
from tidegauge.analyzers.core.metric import Failure, Metric, Success, attempt
from tidegauge.analyzers.core.partitions import SegmentSet, Values
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import Schema, check_frame
from tidegauge.analyzers.measures.frequencies import GroupSizeAnalyzer, GroupSizes
from tidegauge.analyzers.scan.capabilities import activate, plan_cost, worker_error
from tidegauge.analyzers.scan.grouping import Groups, Key, filter_partitions
from tidegauge.analyzers.scan.jobs import ScanJob
from tidegauge.analyzers.scan.plan import (
    UNKNOWN,
    Expectation,
    Plan,
    candidates,
    expected_by_first_rows,
    plan,
    worthwhile,
)
from tidegauge.analyzers.scan.spark_errors import (
    explained_read_errors,
    find_failures,
    handled_errors,
    is_data_error,
    try_groups,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Outcome = Success[Any] | Failure
"""A state, or the sizes of groups if only the metric is needed; otherwise an error."""
Results = dict[Request, dict[Key, Any] | Failure]

MAX_CONCURRENT_JOBS = 4


@dataclass(frozen=True)
class Group:
    """The states of one group: a partition, a segment of a partition, or the whole data.

    Attributes
    ----------
    rows : int
        Number of rows.
    states : mapping of Analyzer to Success or Failure
        Every analyzer's state or failure.
    segments : mapping of str to Group
        Groups of the segments that have rows, by name.
    """

    rows: int
    states: Mapping[AnyAnalyzer, Outcome]
    segments: Mapping[str, Group] = field(default_factory=dict)


@dataclass(frozen=True)
class Scan:
    """The result of a scan.

    Attributes
    ----------
    groups : mapping of tuple of str to Group
        Groups that have rows, by the values of the partition columns as text. Null and the empty string
        belong to Hive's default partition.
    nothing : Group
        The result for a group without rows.
    """

    groups: Mapping[Values, Group]
    nothing: Group

    @property
    def single_group(self) -> Group:
        """The only group of a scan without partition columns."""
        return self.groups.get((), self.nothing)


def scan(
    data: DataFrame,
    analyzers: Iterable[AnyAnalyzer],
    group_by: Sequence[str] = (),
    keep: Callable[[Values], bool] = lambda _: True,
    segments: Sequence[SegmentSet] = (),
    private: Privacy = PUBLIC,
    *,
    small: bool = False,
    expected: Expectation = UNKNOWN,
    needs_rows: bool = True,
) -> Scan:
    """Compute the states of all analyzers in one pass, grouped by partition columns.

    Parameters
    ----------
    data : DataFrame
        The data.
    analyzers : iterable of Analyzer
        The analyzers; equal ones are measured once.
    group_by : sequence of str
        The partition columns; empty for the whole data as one group.
    keep : callable
        Predicate on a group's values as text; other groups are dropped.
    segments : sequence of SegmentSet
        Segments to compute within every group as well.
    private : Privacy
        Columns whose values go into no state and no error. Analyzers that would hold them fail, and errors
        in the data lose their messages.
    small : bool
        Whether the data has at most about `SMALL_BYTES`.
    expected : Expectation
        Expected rows and distinct values. They affect how states are computed, not the results.
    needs_rows : bool
        Whether to count rows even if no analyzer fits the schema. If False, no data is read in this case.

    Returns
    -------
    Scan
        The states by group.

    Raises
    ------
    SourceError
        If the data is not a Spark DataFrame, or is a stream.
    """
    check_frame(data)
    activate(data.sparkSession)
    scan_plan = plan(data, analyzers, private, small=small, expected=expected)
    if not scan_plan.requests and not needs_rows:
        return Scan({}, Group(0, dict(scan_plan.failures)))
    groups = Groups(tuple(group_by), tuple(segments))
    results = _run(data, scan_plan, groups)
    rows = _rows(results)
    keys = sorted(key for key in rows if keep(key[0]))
    if group_by:
        _isolate(data, scan_plan, results, groups, sorted({values for values, _ in keys}))
    if private and private.columns_of(Schema.from_frame(data)):
        results = _without_values(results, private)
    parts: dict[Values, dict[str, Group]] = {}
    for key in keys:
        if key[1]:
            parts.setdefault(key[0], {})[key[1]] = _fold(scan_plan, results, key)
    partitions = {
        key[0]: _fold(scan_plan, results, key, parts.get(key[0], {})) for key in keys if not key[1]
    }
    return Scan(partitions, _fold(scan_plan, results, None))


def measure(data: DataFrame, analyzers: Iterable[AnyAnalyzer]) -> dict[AnyAnalyzer, Metric[Any]]:
    """Compute the metrics of all rows in one pass, without their states.

    If metrics need only the sizes of groups, the values of the groups stay in Spark.

    Parameters
    ----------
    data : DataFrame
        The data.
    analyzers : iterable of Analyzer
        The analyzers; equal ones are measured once.

    Raises
    ------
    SourceError
        If the data is not a Spark DataFrame, or is a stream.
    """
    check_frame(data)
    activate(data.sparkSession)
    scan_plan = plan(data, analyzers, states=False)
    by_value = candidates(scan_plan.all_requests, scan_plan.schema)
    profitable = worthwhile(by_value, inf)
    if len(scan_plan.jobs) > 1 or profitable:
        cost = plan_cost(data)
        scan_plan.small, scan_plan.sampled = cost.small, cost.sampled
        if profitable and cost.plain and not cost.small:
            scan_plan.expected = expected_by_first_rows(data, by_value, cost)
    results = _run(data, scan_plan, Groups())
    outcomes = _fold(scan_plan, results, next(iter(_rows(results)), None)).states
    return {analyzer: metric_of(analyzer, outcome) for analyzer, outcome in outcomes.items()}


def _rows(results: Results) -> dict[Key, Any]:
    """Return the number of rows by group; raise the error if the data cannot be read at all."""
    rows = results[ROWS]
    if isinstance(rows, Failure):
        raise rows.error
    return rows


def _without_values(results: Results, private: Privacy) -> Results:
    def redacted(cell: Any) -> Any:
        if isinstance(cell, Failure):
            return Failure(private.without_values(cell.error))
        # Counts of rules contain the errors of failed rules.
        return cell.without_values(private) if hasattr(cell, "without_values") else cell

    return {
        request: redacted(answer)
        if isinstance(answer, Failure)
        else {key: redacted(cell) for key, cell in answer.items()}
        for request, answer in results.items()
    }


def _fold(
    plan: Plan, results: Results, key: Key | None, segments: Mapping[str, Group] | None = None
) -> Group:
    """Fold one group's results into states; for the key None, return the states of no rows."""
    states: dict[AnyAnalyzer, Outcome] = dict(plan.failures)
    for analyzer, requests in plan.requests.items():
        cells = [_cell(results, request, key) for request in requests]
        failed = next((cell for cell in cells if isinstance(cell, Failure)), None)
        if failed or key is None:
            states[analyzer] = failed or Success(analyzer.state_type())
        else:
            states[analyzer] = attempt(partial(analyzer.fold, cells))
    return Group(_cell(results, ROWS, key) or 0, states, segments or {})


def _cell(results: Results, request: Request, key: Key | None) -> Any:
    """Return a request's result for one group, or its failure."""
    answer = results[request]
    if isinstance(answer, Failure):
        return answer
    return None if key is None else answer.get(key)


def _run(data: DataFrame, plan: Plan, groups: Groups) -> Results:
    """Run the jobs concurrently; return the results by request, then by group."""
    results: Results = {}
    jobs, owners = plan.jobs, plan.owners()
    start = partial(activate, data.sparkSession)
    with ThreadPoolExecutor(min(MAX_CONCURRENT_JOBS, len(jobs)), "tidegauge-scan", start) as pool:
        for answers in pool.map(lambda job: _run_alone(data, job, groups, owners), jobs):
            results.update(answers)
    return results


@handled_errors()
def _run_alone(
    data: DataFrame, job: ScanJob, groups: Groups, owners: Mapping[Request, Hashable]
) -> Results:
    """Run one job. If an expression fails on the data, bisect to find it, and run all others.

    In Spark's ANSI mode, one bad cast or division fails every expression in its job. Requests of the same
    analyzers succeed or fail together.
    """
    try:
        return dict(job.run(data, groups))
    except Exception as error:
        lacking = worker_error(error)
        if lacking is not None:
            raise lacking from error
        if not is_data_error(error):
            raise
        units: dict[Hashable, list[Request]] = {}
        for (
            request
        ) in job.requests:  # the row count forms its own unit, since it cannot fail on values
            owner = request if request == ROWS else owners.get(request)
            units.setdefault(owner, []).append(request)

        def answer(batch: Sequence[tuple[Request, ...]]) -> dict[tuple[Request, ...], Any]:
            answers = job.only(request for unit in batch for request in unit).run(data, groups)
            return {unit: {request: answers[request] for request in unit} for unit in batch}

        results = find_failures([tuple(unit) for unit in units.values()], answer, error)
        return {
            request: result if isinstance(result, Failure) else result[request]
            for unit, result in results.items()
            for request in unit
        }


def _isolate(
    data: DataFrame, plan: Plan, results: Results, groups: Groups, values: Sequence[Values]
) -> None:
    """Limit failures of expressions on the data to the groups in which they fail.

    One bad row then costs one analyzer one group. Requests of the same analyzers are isolated together.
    """
    if len(values) < 2:
        return
    owners = plan.owners()
    for job in plan.jobs:
        units: dict[Hashable, list[Request]] = {}
        for request in job.requests:
            if isinstance(results[request], Failure):
                units.setdefault(owners.get(request), []).append(request)
        for unit in units.values():
            results.update(
                _find_failing_groups(data, job.only(unit), groups, values, results[unit[0]])
            )


@handled_errors()
def _find_failing_groups(
    data: DataFrame, job: ScanJob, groups: Groups, values: Sequence[Values], failure: Any
) -> Results:
    """Bisect to find the groups in which requests fail. Groups that are not reached also count as failed."""
    answers: dict[Request, dict[Key, Any]] = {request: {} for request in job.requests}
    failures: dict[Values, Failure] = dict.fromkeys(values, failure)

    def run(subset: Sequence[Values]) -> None:
        for request, answer in job.run(
            filter_partitions(data, groups.columns, subset), groups
        ).items():
            answers[request].update(answer)
        for value in subset:
            failures.pop(value, None)

    failures.update(try_groups(values, run, failure.error))
    names = ["", *(name for s in groups.segments for name in s.names())]
    bad = {(value, name): reason for value, reason in failures.items() for name in names}
    return {request: {**answer, **bad} for request, answer in answers.items()}


def state_outcome(data: DataFrame, analyzer: AnyAnalyzer) -> Outcome:
    """Compute one analyzer's state from a DataFrame, or its failure."""
    with explained_read_errors():
        return scan(data, [analyzer]).single_group.states[analyzer]


def metric_of(analyzer: AnyAnalyzer, outcome: Outcome) -> Metric[Any]:
    """Compute an analyzer's metric from the outcome of a scan."""
    match outcome:
        case Success(GroupSizes() as sizes) if isinstance(analyzer, GroupSizeAnalyzer):
            return analyzer.metric_of_sizes(sizes)
        case Success(state):
            return analyzer.compute_metric_from(state)
        case Failure(error):
            return analyzer.to_failure_metric(error)
