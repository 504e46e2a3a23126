"""`verify`: evaluate checks on a DataFrame, a run or a repository, and the `Verification` that it returns.

Results are shown in notebooks, returned as frames and JSON, and exported as an OpenLineage facet.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    CheckFailedError,
    RepositoryWarning,
    SuiteError,
    UnknownDatasetError,
    UnknownNameError,
    nearest,
)
from tidegauge.analyzers.core.evidence import NO_DATA, Evidence, Measurements, as_on_empty
from tidegauge.analyzers.core.formatting import Markup, one_line, plural
from tidegauge.analyzers.core.metric import Entity, Failure, Metric
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import Schema, is_frame, kind_of
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.checks.check import Check, Level, status_of
from tidegauge.checks.comparison_inputs import Comparer
from tidegauge.checks.comparisons import ComparedEvidence, DriftConstraint
from tidegauge.checks.constraints import (
    Constraint,
    ConstraintResult,
    ConstraintStatus,
    MetricConstraint,
    PartitionResult,
    resolve_no_data,
)
from tidegauge.checks.history_constraints import AnomalyConstraint, HistoryConstraint
from tidegauge.checks.rows import BadRows, examples_of, failing_rows, make_unique, row_level_frame
from tidegauge.display.html import Rows, card, heading, marked, note, sentence, table
from tidegauge.repository.detection.judge import UNSTORED_ID, monitor_of
from tidegauge.repository.exchange.history_exports import assertions_facet
from tidegauge.repository.history.evidence import CheckTarget, View, load_evidence, placed_by_name
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.queries import AsOf, Moment, Window

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.sources.sources import Source


SEVERITIES = {"error": "error", "warning": "warn"}


def assertions_facet_of(
    judged: Sequence[PartitionResult],
    checks: Sequence[Check],
    names: Sequence[str],
    dataset: str | None,
    partition: str | None,
    segment: str | None,
) -> dict[str, Any]:
    """Return the OpenLineage facet of one partition; see `Verification.openlineage`."""
    meant = [
        one
        for one in judged
        if dataset in {None, one.dataset}
        and partition in {None, one.partition}
        and segment in {None, one.segment}
    ]
    places = dict.fromkeys((one.dataset, one.partition, one.segment) for one in meant)
    if len(places) != 1:
        raise SuiteError(_which(list(places)))
    return assertions_facet([_assertion(one, checks[one.check], names[one.check]) for one in meant])


def _which(places: Sequence[tuple[str, ...]]) -> str:
    if not places:
        return "nothing that was verified is meant by dataset=, partition= and segment="
    known = "; ".join(" ".join(filter(None, place)) for place in places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return f"a facet is about one partition: say which, by dataset=, partition= or segment=: {known}{more}"


def _expected(constraint: Constraint) -> str:
    """Return the assertion on the value as text."""
    if isinstance(constraint, MetricConstraint):
        return str(constraint.assertion)
    return constraint.description.rpartition(": ")[2]


def _level(check: Check, result: ConstraintResult) -> str:
    return "warning" if result.warned else str(check.level)


def _assertion(one: PartitionResult, check: Check, name: str) -> dict[str, Any]:
    result = one.result
    constraint = result.constraint
    analyzer = constraint.analyzer
    told: dict[str, Any] = {
        "assertion": type(analyzer).__name__,
        "name": f"{name}: {constraint.description}",
        "success": result.passed,
        "severity": SEVERITIES[_level(check, result)],
        "expected": _expected(constraint),
    }
    if analyzer.entity is Entity.COLUMN and hasattr(analyzer, "column"):
        told["column"] = analyzer.column
    if result.value is not None and isfinite(result.value):
        told["actual"] = f"{result.value:.6g}"
    if result.message:
        told["description"] = result.message
    return told


COLUMNS = columns(
    "check level dataset segment partition time:time constraint status value:number"
    " message hint analyzer"
)
MOST_LINES = 20
"""Maximum number of printed failures."""


@dataclass(frozen=True, repr=False)
class Verification:
    """Results of checks by constraint and partition; returned by `verify`.

    Attributes
    ----------
    checks : sequence of Check
    judged : sequence of PartitionResult
    data : DataFrame or None
        The verified data, if the source was a DataFrame.

    Examples
    --------
    >>> import tidegauge as tg
    >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
    >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
    >>> found = tg.verify(people, check)  # doctest: +SKIP
    >>> found.passed, found.status, found.frame()["status"].tolist()  # doctest: +SKIP
    (False, 'error', ['failure', 'success'])
    >>> found.rows("people").count()  # doctest: +SKIP
    1
    """

    checks: Sequence[Check]
    judged: Sequence[PartitionResult]
    data: Any = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the checks; repeated names are numbered."""
        return make_unique([check.name for check in self.checks])

    @property
    def status(self) -> str:
        """The most severe level of a failed check, ``error`` or ``warning``; else ``success``."""
        found = {self.status_of(place) for place in range(len(self.checks))}
        return next(
            (str(level) for level in (Level.ERROR, Level.WARNING) if level in found), "success"
        )

    @property
    def passed(self) -> bool:
        """True if no check failed, of either level."""
        return self.status == "success"

    def status_of(self, check: Check | str | int) -> str:
        """Return ``success``, or the check's level if it failed in any partition.

        Parameters
        ----------
        check : Check, str or int
            The check, its name as in `names`, or its index.

        Raises
        ------
        UnknownNameError
            If it is not one of the verified checks.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email")
        >>> found = tg.verify(people, [check, tg.Check("size").has_size((2, 2))])  # doctest: +SKIP
        >>> found.status_of("people"), found.status_of("size")  # doctest: +SKIP
        ('error', 'success')
        """
        place = self._place(check)
        results = [one.result for one in self.judged if one.check == place]
        return status_of(self.checks[place].level, results)

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row per constraint and partition.

        Returns
        -------
        pandas.DataFrame
            With the columns check, level, dataset, segment, partition, time, constraint, status
            (``success``, ``failure``, ``warning``, ``no data`` if there was no row or value,
            ``no history`` if there was no earlier value), value (NaN if it is not a number), message, hint, analyzer.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> found = tg.verify(people, check)  # doctest: +SKIP
        >>> found.frame()[["constraint", "status", "value"]].values.tolist()  # doctest: +SKIP
        [["Completeness('email'): at least 1", 'failure', 0.5], ['Size(): exactly 2', 'success', 2.0]]
        """
        return self._frame(self.judged)

    @property
    def failures(self) -> pd.DataFrame:
        """The failed constraints, in the format of `frame`."""
        return self._frame(self._failed())

    def raise_if_failed(self, level: str = "error") -> None:
        """Raise an error if a check failed.

        Parameters
        ----------
        level : str
            ``error``, or ``warning`` to include checks of that level.

        Raises
        ------
        CheckFailedError
            Carries this object.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> found = tg.verify(people, check)  # doctest: +SKIP
        >>> found.raise_if_failed()  # doctest: +SKIP
        Traceback (most recent call last):
        tidegauge.analyzers.core.errors.CheckFailedError: ...
        """
        if level not in list(Level):
            raise UnknownNameError("level of a check", level, list(Level))
        grave = {"error"} if level == Level.ERROR else {"error", "warning"}
        if self.status in grave:
            raise CheckFailedError(self)

    def rows(
        self,
        check: Check | str | int,
        data: DataFrame | None = None,
        limit: int | None = None,
        column: str = "broken",
    ) -> DataFrame:
        """Return the rows that violate a check, with a column of the violated constraints.

        Covers constraints on completeness, conditions, patterns and uniqueness, and bounds of
        minimum and maximum values and lengths. Rows excluded by a filter violate nothing. A
        constraint with ``at_least`` lists every failing row, even if the share is reached. A
        constraint that cannot be evaluated is left out, with a warning.

        Parameters
        ----------
        check : Check, str or int
            The check, its name as in `names`, or its index.
        data : DataFrame, optional
            The verified DataFrame if not given.
        limit : int, optional
            Maximum number of rows; Spark chooses which.
        column : str
            Name of the new column, an array of text.

        Raises
        ------
        SuiteError
            If no constraint applies to single rows, there is no data, or the data already has such
            a column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> found = tg.verify(people, check)  # doctest: +SKIP
        >>> found.rows("people").collect()  # doctest: +SKIP
        [Row(email=None, broken=["Completeness('email'): at least 1"])]
        """
        failed = self._not_evaluated(check) if data is None else {}
        return failing_rows(self._data(data), self._check(check), column, limit, failed)

    def row_level(self, check: Check | str | int, data: DataFrame | None = None) -> DataFrame:
        """Return the data with a boolean column per constraint: true if the row satisfies it.

        Parameters
        ----------
        check, data
            As for `rows`.

        Returns
        -------
        DataFrame
            The new columns are named by the constraints' descriptions, with a number if two are
            equal. Constraints that do not apply to single rows have none, nor have those that cannot
            be evaluated, of which a warning tells.

        Raises
        ------
        SuiteError
            As for `rows`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> found = tg.verify(people, check)  # doctest: +SKIP
        >>> found.row_level("people").where("email IS NULL").first()  # doctest: +SKIP
        Row(email=None, Completeness('email'): at least 1=False)
        """
        failed = self._not_evaluated(check) if data is None else {}
        return row_level_frame(self._data(data), self._check(check), failed)

    def openlineage(
        self, dataset: str | None = None, partition: str | None = None, segment: str | None = None
    ) -> dict[str, Any]:
        """Return the results as OpenLineage's data quality assertions facet.

        Parameters
        ----------
        dataset, partition, segment : str, optional
            Selection if several were verified; a facet describes one partition.

        Returns
        -------
        dict
            ``{"dataQualityAssertions": facet}``, to be put among the facets of an input or output
            dataset of an event. Each assertion has the analyzer as ``assertion``, the ``column`` if
            it is about one, ``success``, ``severity``, ``name``, and, if known, ``expected``,
            ``actual`` and ``description``, which is the message.

        Raises
        ------
        SuiteError
            If the selection matches several partitions, or none.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> found = tg.verify(people, check)  # doctest: +SKIP
        >>> facet = found.openlineage()["dataQualityAssertions"]  # doctest: +SKIP
        >>> [(one["assertion"], one["success"]) for one in facet["assertions"]]  # doctest: +SKIP
        [('Completeness', False), ('Size', True)]
        """
        return assertions_facet_of(
            self.judged, self.checks, self.names, dataset, partition, segment
        )

    def _not_evaluated(self, check: Check | str | int) -> dict[int, str]:
        """Return why constraints could not be evaluated on the verified data, by place."""
        place = self._place(check)
        results = ((one.place, one.result.metric) for one in self.judged if one.check == place)
        return {
            at: str(metric.outcome.error)
            for at, metric in results
            if metric and isinstance(metric.outcome, Failure) and not metric.empty
        }

    def _check(self, check: Check | str | int) -> Check:
        return self.checks[self._place(check)]

    def _place(self, check: Check | str | int) -> int:
        names = self.names
        if isinstance(check, Check):
            same = [n for n, one in enumerate(self.checks) if one is check]
            found = same or [n for n, one in enumerate(self.checks) if one == check]
            if found:
                return found[0]
        elif isinstance(check, str) and check in names:
            return names.index(check)
        elif isinstance(check, int) and 0 <= check < len(names):
            return check
        raise UnknownNameError("check", getattr(check, "name", str(check)), names)

    def _data(self, data: DataFrame | None) -> DataFrame:
        found = self.data if data is None else data
        if found is None:
            msg = "nothing was scanned, so there are no rows; give them as data="
            raise SuiteError(msg)
        return found

    def _failed(self) -> list[PartitionResult]:
        return [one for one in self.judged if not one.result.passed]

    def level_of(self, one: PartitionResult) -> str:
        """Return the level of a result: the check's, or ``warning`` if the constraint only warns.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people", "warning").is_complete("email").has_size((2, 2))
        >>> found = tg.verify(people, check)  # doctest: +SKIP
        >>> [found.level_of(one) for one in found.judged]  # doctest: +SKIP
        ['warning', 'warning']
        """
        if one.result.warned:
            return str(Level.WARNING)
        return str(self.checks[one.check].level)

    def _frame(self, judged: Sequence[PartitionResult]) -> pd.DataFrame:
        names = self.names
        return frame_of([self._row(one, names[one.check]) for one in judged], COLUMNS)

    def _row(self, one: PartitionResult, name: str) -> dict[str, Any]:
        result = one.result
        return {
            "check": name,
            "level": self.level_of(one),
            "dataset": one.dataset,
            "segment": one.segment,
            "partition": one.partition,
            "time": one.time,
            "constraint": result.constraint.description,
            "status": str(result.status),
            "value": nan if result.value is None else result.value,
            "message": result.message,
            "hint": result.constraint.hint,
            "analyzer": repr(result.constraint.analyzer),
        }

    def _summary(self) -> str:
        failed = self._failed()
        places = {(one.dataset, one.partition, one.segment) for one in self.judged}
        bad = {(one.dataset, one.partition, one.segment) for one in failed}
        if not self.judged:
            return "nothing to verify"
        no_data = sum(one.result.status is ConstraintStatus.NO_DATA for one in self.judged)
        by_value = sum(one.result.status is not ConstraintStatus.NO_DATA for one in failed)
        told = f"{by_value} of {plural(len(self.judged), 'constraint')} failed"
        told += f", {no_data} had {NO_DATA}" if no_data else ""
        untold = sum(one.result.status is ConstraintStatus.NO_HISTORY for one in self.judged)
        told += f", {untold} had no history to compare with" if untold else ""
        if len(places) > 1:
            return f"{told}, in {len(bad)} of {plural(len(places), 'partition')}"
        (place,) = places
        return " in ".join(filter(None, (told, place[1])))

    def __str__(self) -> str:
        """Return a text for logs: the failures and their messages."""
        names, failed = self.names, self._failed()
        lines = [f"{self.status}: {self._summary()}"]
        for one in failed[:MOST_LINES]:
            where = " ".join(filter(None, (one.dataset, one.partition, one.segment)))
            of = f"{names[one.check]} ({self.level_of(one)})"
            lines.append("  " + one_line(f"{of}{where and f', {where}'}: {one.result.sentence}"))
        if len(failed) > MOST_LINES:
            lines.append(f"and {len(failed) - MOST_LINES} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Verification({self.status!r}, {self._summary()!r})"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Verification"), marked(self.status), self._summary())
        names, failed = self.names, self._failed()
        shown = failed or [one for one in self.judged if one.result.message]
        lines = (
            (
                names[one.check],
                Markup() if one.result.passed else marked(self.level_of(one)),
                one.partition,
                one.result.constraint.description,
                marked(str(one.result.status)),
                one.result.value,
                sentence(one.result.message, 4 * width) if one.result.message else None,
            )
            for one in shown
        )
        columns = ["check", "level", "partition", "constraint", "status", "value", "message"]
        if shown:
            yield table(columns, Rows.first_of(lines, most // 2, len(shown)), width)
        yield note(
            "frame(): all constraints; failures: failed constraints; rows(check): violating rows",
            width * 4,
        )


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
