"""One pass over the data for all partitions, all segments and all analyzers.

`scan` runs the jobs of a plan side by side, each grouped by the partition columns, and folds every
group into states. What one analyzer does wrong is its own failure and nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.culprits import find_failures, is_data_error
from analyzers.groups import Groups, Key, only_groups
from analyzers.jobs import Job
from analyzers.metric import Failure, Metric, Success, attempt
from analyzers.plan import Plan, plan
from analyzers.requests import ROWS, Request
from analyzers.segments import SegmentSet, Values
from analyzers.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AnyAnalyzer = Analyzer[Any, Any]
Outcome = Success[State] | Failure
Results = dict[Request, dict[Key, Any] | Failure]

JOBS_AT_ONCE = 4
ISOLATING_JOBS = 24
"""How many more jobs may look for the groups in which one analyzer's expressions fail."""


@dataclass(frozen=True)
class Group:
    """What was found in one group: a partition, a segment of one, or the whole data.

    Attributes
    ----------
    rows : int
        Number of rows.
    states : mapping of Analyzer to Success or Failure
        Every analyzer's state, or why it has none.
    segments : mapping of str to Group
        The same for each segment that has rows, by its name.
    """

    rows: int
    states: Mapping[AnyAnalyzer, Outcome]
    segments: Mapping[str, Group] = field(default_factory=dict)


@dataclass(frozen=True)
class Scan:
    """What a scan found.

    Attributes
    ----------
    groups : mapping of tuple of str to Group
        By the values of the partition columns as text; null and the empty text are Hive's default
        partition. Only groups that have rows.
    nothing : Group
        What holds for a group without rows.
    """

    groups: Mapping[Values, Group]
    nothing: Group

    @property
    def whole(self) -> Group:
        """The only group of a scan that was not grouped."""
        return self.groups.get((), self.nothing)


def scan(
    data: DataFrame,
    analyzers: Iterable[AnyAnalyzer],
    by: Sequence[str] = (),
    keep: Callable[[Values], bool] = lambda _: True,
    segments: Sequence[SegmentSet] = (),
) -> Scan:
    """Measure data in one pass, grouped by some columns.

    Parameters
    ----------
    data : DataFrame
    analyzers : iterable of Analyzer
        Equal ones are measured once.
    by : sequence of str
        The partition columns; none for the whole data.
    keep : callable
        Which groups to fold, by their values as text.
    segments : sequence of SegmentSet
        For whose values every group is measured, too.
    """
    made = plan(data, analyzers)
    groups = Groups(tuple(by), tuple(segments))
    results = _run(data, made, groups)
    rows = results[ROWS]
    if isinstance(rows, Failure):  # counting rows cannot fail by what the rows hold
        raise rows.error
    wanted = sorted(key for key in rows if keep(key[0]))
    if by:
        _isolate(data, made, results, groups, sorted({values for values, _ in wanted}))
    parts: dict[Values, dict[str, Group]] = {}
    for key in wanted:
        if key[1]:
            parts.setdefault(key[0], {})[key[1]] = _fold(made, results, key)
    found = {
        key[0]: _fold(made, results, key, parts.get(key[0], {})) for key in wanted if not key[1]
    }
    return Scan(found, _fold(made, results, None))


def _fold(
    made: Plan, results: Results, key: Key | None, segments: Mapping[str, Group] | None = None
) -> Group:
    """Fold one group's cells into states; None is a group without rows."""
    states: dict[AnyAnalyzer, Outcome] = dict(made.failures)
    for analyzer, asked in made.requests.items():
        cells = [_cell(results, request, key) for request in asked]
        failed = next((cell for cell in cells if isinstance(cell, Failure)), None)
        if failed or key is None:
            states[analyzer] = failed or Success(analyzer.state_type())
        else:
            states[analyzer] = attempt(partial(analyzer.fold, cells))
    return Group(_cell(results, ROWS, key) or 0, states, segments or {})


def _cell(results: Results, what: Request, key: Key | None) -> Any:
    """Return one result for one group, or the failure for all."""
    found = results[what]
    if isinstance(found, Failure):
        return found
    return None if key is None else found.get(key)


def _run(data: DataFrame, made: Plan, groups: Groups) -> Results:
    """Run the jobs side by side; return each one's results by what they are of, then by group."""
    results: Results = {}
    jobs, owners = made.jobs, made.owners()
    with ThreadPoolExecutor(min(JOBS_AT_ONCE, len(jobs)), "tidegauge-scan") as pool:
        for found in pool.map(lambda job: _run_alone(data, job, groups, owners), jobs):
            results.update(found)
    return results


def _run_alone(
    data: DataFrame, job: Job, groups: Groups, owners: Mapping[Request, Hashable]
) -> Results:
    """Run one job; if the data makes an expression fail, find it and run all others.

    Under Spark's ANSI mode one bad cast or division fails all that share its job. What the same
    analyzers ask for stands or falls together.
    """
    try:
        return dict(job.run(data, groups))
    except Exception as error:
        if not is_data_error(error):
            raise
        units: dict[Hashable, list[Request]] = {}
        for request in job.requests:
            units.setdefault(owners.get(request), []).append(request)

        def answer(some: Sequence[tuple[Request, ...]]) -> dict[tuple[Request, ...], Any]:
            answers = job.only(request for unit in some for request in unit).run(data, groups)
            return {unit: {request: answers[request] for request in unit} for unit in some}

        found = find_failures([tuple(unit) for unit in units.values()], answer, error)
        return {
            request: result if isinstance(result, Failure) else result[request]
            for unit, result in found.items()
            for request in unit
        }


def _isolate(
    data: DataFrame, made: Plan, results: Results, groups: Groups, values: Sequence[Values]
) -> None:
    """Leave each expression that failed on the data only where it does: one dirty row is one group's.

    What the same analyzers ask for is looked for together.
    """
    if len(values) < 2:  # noqa: PLR2004
        return
    owners = made.owners()
    for job in made.jobs:
        units: dict[Hashable, list[Request]] = {}
        for request in job.requests:
            if isinstance(results[request], Failure):
                units.setdefault(owners.get(request), []).append(request)
        for unit in units.values():
            results.update(_blame(data, job.only(unit), groups, values, results[unit[0]]))


def _blame(
    data: DataFrame, job: Job, groups: Groups, values: Sequence[Values], failure: Any
) -> Results:
    """Find the groups in which requests fail; those that were not reached fail with the others."""
    answers: dict[Request, dict[Key, Any]] = {request: {} for request in job.requests}
    failures: dict[Values, Failure] = dict.fromkeys(values, failure)
    tries = ISOLATING_JOBS

    def run(some: Sequence[Values]) -> dict[Values, Any]:
        nonlocal tries
        tries -= 1
        if tries < 0:
            raise _GaveUpError
        for request, answer in job.run(only_groups(data, groups.by, some), groups).items():
            answers[request].update(answer)
        for value in some:
            failures.pop(value, None)
        return {}

    with suppress(_GaveUpError):
        failures.update(find_failures(values, run, failure.error))
    names = ["", *(name for s in groups.segments for name in s.names())]
    bad = {(value, name): reason for value, reason in failures.items() for name in names}
    return {request: {**answer, **bad} for request, answer in answers.items()}


class _GaveUpError(Exception):
    """Too many groups fail for each to be found."""


def metric_of(analyzer: AnyAnalyzer, outcome: Outcome) -> Metric[Any]:
    """Return an analyzer's metric for what a scan found."""
    match outcome:
        case Success(state):
            return analyzer.compute_metric_from(state)
        case Failure(error):
            return analyzer.to_failure_metric(error)


def calculate(data: DataFrame, analyzers: Sequence[AnyAnalyzer]) -> list[Metric[Any]]:
    """Measure a DataFrame once and return each analyzer's metric, in the order asked."""
    states = scan(data, analyzers).whole.states
    return [metric_of(analyzer, states[analyzer]) for analyzer in analyzers]
