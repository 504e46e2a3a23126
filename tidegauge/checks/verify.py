"""`verify`: judge checks by what a DataFrame, a run or a repository holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.checks.check import Check
from analyzers.checks.evidence import AnyAnalyzer, Evidence, Measurements
from analyzers.checks.historic import HistoryConstraint, UsualConstraint
from analyzers.errors import SuiteError
from analyzers.metric import Metric
from repository.anomalies.judging import FRESH, monitor_of
from repository.evidence import remember
from repository.history import AsOf, Moment, Window
from repository.repository import Repository
from repository.targets import Target, View
from tidegauge.analysis import Run
from tidegauge.checks.verification import Judged, Verification

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def verify(
    source: DataFrame | Run | Repository,
    checks: Check | Iterable[Check],
    *,
    dataset: str | None = None,
    partitions: str | Sequence[str] | None = None,
    segment: str = "",
    as_of: AsOf = None,
    repository: Repository | None = None,
    partition: str = "",
    time: Moment = None,
) -> Verification:
    """Judge checks.

    A DataFrame is scanned once, for all that the checks need. From a run or a repository nothing is
    scanned: numbers are read as they were stored, all others are made of stored states.

    Parameters
    ----------
    source : DataFrame, Run or Repository
        Of a run, the partitions that it measured, as it left them.
    checks : Check or iterable of Check
    dataset : str, optional
        Of a repository; the check's own if not given, or the only one that there is.
    partitions : str or sequence of str, optional
        Of a repository or run: ``all``, conditions on partition keys, or names. Of a repository the
        newest if not given.
    segment : str
        A segment in place of whole partitions: ``origin=EWR``. With a DataFrame, the one whose history
        it is compared with.
    as_of : datetime or int, optional
        The repository as it was known then.
    repository : Repository, optional
        With a DataFrame: where the history of ``dataset`` lies that constraints compare with.
    partition : str
        With a DataFrame: which partition it is, ``ds=2013-02-08``.
    time : str, date or datetime, optional
        With a DataFrame: the partition's time, where its name does not tell it.

    Returns
    -------
    Verification

    Raises
    ------
    SuiteError
        If there is no check, or what was given does not go with the source.
    UnknownDatasetError, PartitionSelectionError
        If the repository has no such dataset or partition.

    Examples
    --------
    >>> import tidegauge as tg
    >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.95).has_size((600, None))
    >>> result = tg.verify(flights, check)  # doctest: +SKIP
    >>> result.passed, result.failures["message"].tolist()  # doctest: +SKIP
    (False, ["0.91 is not at least 0.95"])
    """
    several = (checks,) if isinstance(checks, Check) else tuple(checks)
    _look_at(several)
    if isinstance(source, Run | Repository):
        if repository is not None or partition or time is not None:
            msg = "repository=, partition= and time= say whose history a DataFrame is compared with"
            raise SuiteError(msg)
        if isinstance(source, Run):
            dataset = source.dataset if dataset is None else dataset
            partitions = tuple(source.changes) if partitions is None else partitions
            as_of = source.id if as_of is None else as_of
            source = source.repository
        return Verification(several, _stored(source, several, dataset, partitions, segment, as_of))
    if not hasattr(source, "selectExpr"):
        msg = f"verify takes a DataFrame of Spark, a run or a repository, not {source!r}"
        raise SuiteError(msg)
    if partitions is not None:
        msg = "partitions= is of a run or a repository; partition= says which one a DataFrame is"
        raise SuiteError(msg)
    from analyzers.scan import calculate  # noqa: PLC0415 - only data needs it

    wanted = list(dict.fromkeys(a for check in several for a in check.analyzers))
    metrics = dict(zip(wanted, calculate(source, wanted), strict=True)) if wanted else {}
    of = Target(FRESH, partition, Window.of(time, None).since, segment=segment)
    found: list[Judged] = []
    for place, check in enumerate(several):
        name = dataset or check.dataset or ""
        evidence: Evidence = Measurements(metrics)
        if repository is not None and _historic([check]):
            view = View(repository, the_dataset(repository, name or None), as_of)
            evidence, of = _beside(view, check, of, metrics)
            name = view.dataset
        found += _judged(place, check, name, of, evidence)
    return Verification(several, tuple(found), source)


def _look_at(checks: Sequence[Check]) -> None:
    """Find mistakes before anything is read."""
    if not checks or not all(isinstance(check, Check) for check in checks):
        msg = "verify takes at least one check, such as tg.Check('flights').has_size(600)"
        raise SuiteError(msg)
    for check in checks:
        if not check.constraints:
            msg = f"check {check.name!r} has no constraints; add one, such as .has_size(600)"
            raise SuiteError(msg)
        for constraint in check.constraints:
            if isinstance(constraint, UsualConstraint):
                monitor_of(constraint.usual, constraint.analyzer)


def _stored(
    repository: Repository,
    checks: Sequence[Check],
    dataset: str | None,
    partitions: str | Sequence[str] | None,
    segment: str,
    as_of: AsOf,
) -> tuple[Judged, ...]:
    """Judge checks by a repository, those of one dataset together."""
    of_dataset: dict[str, list[int]] = {}
    for place, check in enumerate(checks):
        name = the_dataset(repository, dataset or check.dataset)
        of_dataset.setdefault(name, []).append(place)
    found: dict[int, list[Judged]] = {place: [] for place in range(len(checks))}
    for name, places in of_dataset.items():
        view = View(repository, name, as_of)
        targets = view.targets(partitions, segment)
        some = [checks[place] for place in places]
        analyzers = list(dict.fromkeys(a for check in some for a in check.analyzers))
        known = remember(view, targets, analyzers, _historic(some))
        for target in targets:
            for place in places:
                found[place] += _judged(place, checks[place], name, target, known.of(target))
    return tuple(one for place in sorted(found) for one in found[place])


def _judged(place: int, check: Check, dataset: str, of: Target, evidence: Evidence) -> list[Judged]:
    return [
        Judged(place, number, dataset, of.partition, of.time, of.segment, result)
        for number, result in enumerate(check.evaluate(evidence))
    ]


def the_dataset(repository: Repository, named: str | None) -> str:
    """Return the dataset that is named, or the only one that there is."""
    if named is not None:
        return named
    there = repository.datasets()
    if len(there) == 1:
        return there[0]
    known = ", ".join(map(repr, there)) or "none"
    msg = f"say which dataset is meant, by dataset= or in the check; there are: {known}"
    raise SuiteError(msg)


def _historic(checks: Iterable[Check]) -> tuple[AnyAnalyzer, ...]:
    """Return what is compared with the past."""
    kinds = HistoryConstraint | UsualConstraint
    found = (c.analyzer for check in checks for c in check.constraints if isinstance(c, kinds))
    return tuple(dict.fromkeys(found))


def _beside(
    view: View, check: Check, of: Target, metrics: Mapping[AnyAnalyzer, Metric[Any]]
) -> tuple[Evidence, Target]:
    """Return a DataFrame's metrics with the history that they are compared with, and where it stands there."""
    target = view.placed(of)
    if target.time is None:
        msg = (
            f"check {check.name!r} compares with history: say which partition the data are, as in"
            " partition='ds=2013-02-08', or time='2013-02-08'"
        )
        raise SuiteError(msg)
    own = {analyzer: metrics[analyzer] for analyzer in check.analyzers}
    known = remember(view, [target], check.analyzers, _historic([check]), own)
    return known.of(target), target
