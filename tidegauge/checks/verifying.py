"""`verify`: evaluate checks on a DataFrame, a run or a repository."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    RepositoryWarning,
    SuiteError,
    UnknownDatasetError,
    nearest,
)
from tidegauge.analyzers.core.evidence import Evidence, Measurements, as_on_empty
from tidegauge.analyzers.core.frames import is_frame, kind_of
from tidegauge.analyzers.core.metric import Failure, Metric
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.checks.check import Check
from tidegauge.checks.comparing import Comparer
from tidegauge.checks.comparisons import ComparedEvidence, DriftConstraint
from tidegauge.checks.constraints import (
    Constraint,
    ConstraintResult,
    ConstraintStatus,
    MetricConstraint,
    PartitionResult,
    resolve_no_data,
)
from tidegauge.checks.examples import BadRows, examples_of
from tidegauge.checks.history_constraints import AnomalyConstraint, HistoryConstraint
from tidegauge.checks.verification import Verification
from tidegauge.repository.detection.judge import UNSTORED_ID, monitor_of
from tidegauge.repository.history.evidence import load_evidence
from tidegauge.repository.history.targets import CheckTarget, View, placed_by_name
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.repository.store.queries import AsOf, Moment, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.sources.sources import Source


def verify(
    source: DataFrame | Run | Repository,
    checks: Check | Iterable[Check],
    *,
    dataset: str | None = None,
    partitions: str | Sequence[str] | None = None,
    segment: str = "",
    as_of: AsOf = None,
    repository: Repository | str | None = None,
    partition: str = "",
    time: Moment = None,
    examples: bool = True,
    private: Collection[str] = (),
    on_empty: str | None = None,
) -> Verification:
    """Evaluate checks on a DataFrame, a run or a repository.

    A DataFrame is scanned once for all checks; if constraints fail, a second pass over their columns
    finds some bad values for the messages. A run or a repository is not scanned: stored numbers
    are read as they are, all others are computed from stored states.

    Parameters
    ----------
    source : DataFrame, Run or Repository
        Of a run, the partitions it measured, as it left them.
    checks : Check or iterable of Check
    dataset : str, optional
        With a repository: the dataset; the check's own if not given, or the only one stored.
    partitions : str or sequence of str, optional
        With a repository or run: ``all``, conditions on partition keys, or names. With a repository
        the newest if not given.
    segment : str
        A segment instead of whole partitions: ``origin=EWR``. With a DataFrame, the segment whose
        history it is compared with.
    as_of : str, date, datetime or int, optional
        Read the repository as of this time or run.
    repository : Repository or str, optional
        With a DataFrame: the repository, or its URL, with the history of ``dataset`` that constraints compare
        with. A dataset that it does not know yet has no history, with a warning if it knows one of a
        similar name.
    partition : str
        With a DataFrame: the partition it holds, ``ds=2013-02-08``.
    time : str, date or datetime, optional
        With a DataFrame: the partition's time, if its name does not contain it.
    examples : bool
        With a DataFrame: whether messages name bad values.
    private : collection of str
        With a DataFrame: patterns of columns whose values stand in no message, such as ``*email*``,
        besides those of the configuration file.
    on_empty : str, optional
        ``pass``, ``warn`` or ``fail``: what a constraint without data counts as, unless it says so
        itself (`Check.on_empty`). By default it fails; it only warns in a partition in which its
        filter matches no row, if it matches rows of another one.

    Returns
    -------
    Verification

    Raises
    ------
    SuiteError
        If there is no check, or an argument does not apply to the source.
    UnknownDatasetError, PartitionSelectionError
        If the repository has no such dataset or partition.

    Examples
    --------
    >>> import tidegauge as tg
    >>> flights = tg.spark_session().range(600).selectExpr("IF(id < 54, NULL, 900) AS dep_time")  # doctest: +SKIP
    >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.95).has_size((600, None))
    >>> result = tg.verify(flights, check)  # doctest: +SKIP
    >>> result.passed, result.failures["message"].tolist()  # doctest: +SKIP
    (False, ['dep_time is 91 % complete, at least 95 % needed: 54 of 600 rows'])
    """
    repository = as_repository(repository)
    several = (checks,) if isinstance(checks, Check) else tuple(checks)
    _validate_checks(several)
    default = None if on_empty is None else as_on_empty(on_empty)
    if isinstance(source, Run | Repository):
        if repository is not None or partition or time is not None:
            msg = "repository=, partition= and time= say whose history a DataFrame is compared with"
            raise SuiteError(msg)
        if isinstance(source, Run):
            dataset = source.dataset if dataset is None else dataset
            partitions = tuple(source.changes) if partitions is None else partitions
            as_of = source.id if as_of is None else as_of
            source = source.repository
        stored = verify_stored(source, several, dataset, partitions, segment, as_of)
        return Verification(several, resolve_no_data(stored, default))
    if not is_frame(source):
        msg = f"verify takes a DataFrame of Spark, a run or a repository, not {kind_of(source)}"
        raise SuiteError(msg)
    if partitions is not None:
        msg = "partitions= is of a run or a repository; partition= says which one a DataFrame is"
        raise SuiteError(msg)
    from tidegauge.calculation import calculate

    wanted = list(dict.fromkeys(a for check in several for a in check.analyzers))
    metrics = dict(zip(wanted, calculate(source, wanted), strict=True)) if wanted else {}
    of = CheckTarget(UNSTORED_ID, partition, Window.between(time, None).since, segment=segment)
    known = _privacy(private, (dataset, *(check.dataset for check in several)))
    if known.columns_of(Schema.from_frame(source)):
        metrics = {of: _without_values(metric, known) for of, metric in metrics.items()}
    comparer = Comparer(repository, lambda _: source, segment, as_of, known, examples)
    found: list[PartitionResult] = []
    for place, check in enumerate(several):
        name, target = dataset or check.dataset or "", of
        evidence: Evidence = Measurements(metrics)
        if repository is not None and _looks_back(check):
            name = resolve_dataset(repository, name or None)
            evidence, target = _with_history(repository, name, as_of, check, of, metrics)
        compared = comparer.find(check.constraints, name, [target])[target.partition]
        found += _judged(place, check, name, target, ComparedEvidence(evidence, compared))
    if examples:
        found = with_examples(found, source, known)
    return Verification(several, resolve_no_data(found, default), source)


def _without_values(metric: Metric[Any], private: Privacy) -> Metric[Any]:
    """Return a metric; one that failed on the data with an error that quotes no values."""
    if not isinstance(metric.outcome, Failure) or metric.empty:
        return metric
    return replace(metric, outcome=Failure(private.without_values(metric.outcome.error)))


def _privacy(columns: Collection[str], names: Iterable[str | None]) -> Privacy:
    """Return the private columns of a DataFrame: the given and the configured ones."""
    configured = privacy_settings()
    return replace(configured, columns=(*configured.columns, *columns)).of(*names)


def with_examples(
    judged: Sequence[PartitionResult],
    data: DataFrame,
    private: Privacy | None = None,
    source: Source | None = None,
) -> list[PartitionResult]:
    """Return results whose messages name some bad values, as far as values explain them.

    Parameters
    ----------
    judged : sequence of PartitionResult
    data : DataFrame
    private : Privacy, optional
        Columns whose values are not shown.
    source : Source, optional
        The partitioned table that the data were read from; otherwise they are one partition.
    """
    asked = [_not_held(one.result) for one in judged]
    failed = [constraint for constraint in asked if constraint is not None]
    if not failed:
        return list(judged)
    found: dict[tuple[str, Constraint], BadRows] = {}
    groups = Groups(source.keys if source else ())
    for (key, constraint), bad in examples_of(data, failed, private, groups).items():
        partition = source.partition_of(key) if source else None
        found[partition.name if partition else "", constraint] = bad
    explained = []
    for one, not_held in zip(judged, asked, strict=True):
        place = one.partition if source else ""
        known = None if not_held is None else found.get((place, not_held))
        result = one.result.with_examples(known.values, known.rows) if known else one.result
        explained.append(replace(one, result=result))
    return explained


def _not_held(result: ConstraintResult) -> MetricConstraint | None:
    """Return the constraint with the assertion that a value does not hold: its own, or that of its warning."""
    constraint = result.constraint
    if not result.failed_by_value or not isinstance(constraint, MetricConstraint):
        return None
    if result.status is ConstraintStatus.WARNING and constraint.warning is not None:
        return replace(constraint, assertion=constraint.warning)
    return constraint


def _validate_checks(checks: Sequence[Check]) -> None:
    """Validate the checks before anything is read."""
    if not checks or not all(isinstance(check, Check) for check in checks):
        msg = "verify takes at least one check, such as tg.Check('flights').has_size(600)"
        raise SuiteError(msg)
    for check in checks:
        if not check.constraints:
            msg = f"check {check.name!r} has no constraints; add one, such as .has_size(600)"
            raise SuiteError(msg)
        for constraint in check.constraints:
            if isinstance(constraint, AnomalyConstraint):
                monitor_of(constraint.usual, constraint.analyzer)


def verify_stored(
    repository: Repository,
    checks: Sequence[Check],
    dataset: str | None,
    partitions: str | Sequence[str] | None,
    segment: str = "",
    as_of: AsOf = None,
    read: Callable[[str], DataFrame] | None = None,
    private: Privacy = PUBLIC,
) -> tuple[PartitionResult, ...]:
    """Evaluate checks on a repository, those of one dataset together.

    Parameters
    ----------
    repository, checks, dataset, partitions, segment, as_of
        As for `verify`.
    read : callable, optional
        Returns the data of a partition by its name, for comparisons with what the repository does not
        know.
    private : Privacy
        Columns whose values stand in no message.
    """
    comparer = Comparer(repository, read, segment, as_of, private)
    of_dataset: dict[str, list[int]] = {}
    for place, check in enumerate(checks):
        name = resolve_dataset(repository, dataset or check.dataset)
        of_dataset.setdefault(name, []).append(place)
    found: dict[int, list[PartitionResult]] = {place: [] for place in range(len(checks))}
    for name, places in of_dataset.items():
        view = View(repository.database, repository.artifacts, name, as_of)
        targets = view.targets(partitions, segment)
        some = [checks[place] for place in places]
        analyzers = list(dict.fromkeys(a for check in some for a in check.analyzers))
        known = load_evidence(view, targets, analyzers, _history_analyzers(some))
        constraints = [constraint for check in some for constraint in check.constraints]
        compared = comparer.find(constraints, name, targets)
        for target in targets:
            evidence = ComparedEvidence(known.of(target), compared[target.partition])
            for place in places:
                found[place] += _judged(place, checks[place], name, target, evidence)
    return tuple(one for place in sorted(found) for one in found[place])


def _judged(
    place: int, check: Check, dataset: str, of: CheckTarget, evidence: Evidence
) -> list[PartitionResult]:
    return [
        PartitionResult(place, number, dataset, of.partition, of.time, of.segment, result)
        for number, result in enumerate(check.evaluate(evidence))
    ]


def resolve_dataset(repository: Repository, named: str | None) -> str:
    """Return the named dataset, or the only one in the repository."""
    if named is not None:
        return named
    there = repository.datasets()
    if len(there) == 1:
        return there[0]
    known = ", ".join(map(repr, there)) or "none"
    msg = f"say which dataset is meant, by dataset= or in the check; there are: {known}"
    raise SuiteError(msg)


def _history_analyzers(checks: Iterable[Check]) -> tuple[AnyAnalyzer, ...]:
    """Return the analyzers that are compared with history."""
    kinds = HistoryConstraint | AnomalyConstraint
    found = (c.analyzer for check in checks for c in check.constraints if isinstance(c, kinds))
    return tuple(dict.fromkeys(found))


def _looks_back(check: Check) -> bool:
    """Return whether a constraint compares with earlier partitions."""
    kinds = HistoryConstraint | AnomalyConstraint | DriftConstraint
    return any(isinstance(constraint, kinds) for constraint in check.constraints)


def _with_history(
    repository: Repository,
    dataset: str,
    as_of: AsOf,
    check: Check,
    of: CheckTarget,
    metrics: Mapping[AnyAnalyzer, Metric[Any]],
) -> tuple[Evidence, CheckTarget]:
    """Return a DataFrame's metrics with the history to compare with, and its partition and time.

    A dataset that was never measured has no history: the first run is judged like the others.
    """
    there = repository.datasets()
    view = View(repository.database, repository.artifacts, dataset, as_of)
    target = view.placed(of) if dataset in there else placed_by_name(of)
    if target.time is None:
        msg = (
            f"check {check.name!r} compares with history: say which partition the data are, as in"
            " partition='ds=2013-02-08', or time='2013-02-08'"
        )
        raise SuiteError(msg)
    if dataset not in there:
        if nearest(dataset, there):
            told = f"{UnknownDatasetError(dataset, there)} Its checks have no history."
            warnings.warn(told, RepositoryWarning, stacklevel=3)
        return Measurements(metrics), target
    own = {analyzer: metrics[analyzer] for analyzer in check.analyzers}
    known = load_evidence(view, [target], check.analyzers, _history_analyzers([check]), own)
    return known.of(target), target
