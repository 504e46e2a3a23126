"""`verify` evaluates checks on a DataFrame, a run or a repository, and returns a `Verification`.

Results are shown in notebooks, returned as frames and JSON, and exported as an OpenLineage facet.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run, open_named
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
from tidegauge.checks.comparisons import ComparedEvidence, Comparer, DriftConstraint
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
from tidegauge.repository.exchange import assertions_facet
from tidegauge.repository.history.evidence import (
    CheckTarget,
    View,
    complete_from_name,
    load_evidence,
)
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.queries import AsOf, Moment, Window
from tidegauge.spark.session import active_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.sources.sources import Source


OPENLINEAGE_SEVERITIES = {"error": "error", "warning": "warn"}


def assertions_facet_of(
    judged: Sequence[PartitionResult],
    checks: Sequence[Check],
    names: Sequence[str],
    dataset: str | None,
    partition: str | None,
    segment: str | None,
) -> dict[str, Any]:
    """Return the OpenLineage facet of one partition; see `Verification.openlineage`."""
    selected = [
        result
        for result in judged
        if dataset in {None, result.dataset}
        and partition in {None, result.partition}
        and segment in {None, result.segment}
    ]
    partitions = dict.fromkeys(
        (result.dataset, result.partition, result.segment) for result in selected
    )
    if len(partitions) != 1:
        raise SuiteError(_selection_problem(list(partitions)))
    return assertions_facet(
        [_assertion(result, checks[result.check], names[result.check]) for result in selected]
    )


def _selection_problem(partitions: Sequence[tuple[str, ...]]) -> str:
    if not partitions:
        return "no verified partition matches dataset=, partition= and segment="
    names = "; ".join(" ".join(filter(None, partition)) for partition in partitions[:5])
    and_more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
    return f"a facet describes one partition; select it by dataset=, partition= or segment=: {names}{and_more}"


def _expected(constraint: Constraint) -> str:
    """Return the assertion on the value as a string."""
    if isinstance(constraint, MetricConstraint):
        return str(constraint.assertion)
    return constraint.description.rpartition(": ")[2]


def _level(check: Check, result: ConstraintResult) -> str:
    return "warning" if result.warned else str(check.level)


def _assertion(judged: PartitionResult, check: Check, name: str) -> dict[str, Any]:
    result = judged.result
    constraint = result.constraint
    analyzer = constraint.analyzer
    assertion: dict[str, Any] = {
        "assertion": type(analyzer).__name__,
        "name": f"{name}: {constraint.description}",
        "success": result.passed,
        "severity": OPENLINEAGE_SEVERITIES[_level(check, result)],
        "expected": _expected(constraint),
    }
    if analyzer.entity is Entity.COLUMN and hasattr(analyzer, "column"):
        assertion["column"] = analyzer.column
    if result.value is not None and isfinite(result.value):
        assertion["actual"] = f"{result.value:.6g}"
    if result.message:
        assertion["description"] = result.message
    return assertion


FRAME_COLUMNS = columns(
    "check level dataset segment partition time:time constraint status value:number"
    " message hint analyzer"
)
MAX_PRINTED_FAILURES = 20
"""Limit on printed failures, so that a log stays readable."""


@dataclass(frozen=True, repr=False)
class Verification:
    """Results of checks by constraint and partition; returned by `verify`.

    Attributes
    ----------
    checks : sequence of Check
        The verified checks.
    judged : sequence of PartitionResult
        The result of each constraint in each partition.
    data : DataFrame, str or None
        The verified data, if the source was a DataFrame, or the name of a table or folder.

    Examples
    --------
    >>> import tidegauge as tg
    >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
    >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
    >>> result = tg.verify(people, check)  # doctest: +SKIP
    >>> result.passed, result.status, result.frame()["status"].tolist()  # doctest: +SKIP
    (False, 'error', ['failure', 'success'])
    >>> result.rows("people").count()  # doctest: +SKIP
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
        """The most severe level of a failed check, ``error`` or ``warning``; otherwise ``success``."""
        statuses = {self.status_of(index) for index in range(len(self.checks))}
        return next(
            (str(level) for level in (Level.ERROR, Level.WARNING) if level in statuses), "success"
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
            If the check was not verified.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email")
        >>> result = tg.verify(people, [check, tg.Check("size").has_size((2, 2))])  # doctest: +SKIP
        >>> result.status_of("people"), result.status_of("size")  # doctest: +SKIP
        ('error', 'success')
        """
        index = self._check_index(check)
        results = [judged.result for judged in self.judged if judged.check == index]
        return status_of(self.checks[index].level, results)

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row per constraint and partition.

        Returns
        -------
        pandas.DataFrame
            With the columns check, level, dataset, segment, partition, time, constraint, status
            (``success``, ``failure``, ``warning``, ``no data`` without a row or value,
            ``no history`` without an earlier value), value (NaN if it is not a number), message, hint, analyzer.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> result = tg.verify(people, check)  # doctest: +SKIP
        >>> result.frame()[["constraint", "status", "value"]].values.tolist()  # doctest: +SKIP
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
            ``error``, or ``warning`` to include checks of the level ``warning``.

        Raises
        ------
        CheckFailedError
            If a check failed; the error has this object as ``result``.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> result = tg.verify(people, check)  # doctest: +SKIP
        >>> result.raise_if_failed()  # doctest: +SKIP
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
        minimum and maximum values and lengths. Rows excluded by a filter do not violate a constraint. A
        constraint with ``at_least`` lists every failing row, even if the share is reached. A
        constraint that cannot be evaluated is omitted with a warning.

        Parameters
        ----------
        check : Check, str or int
            The check, its name as in `names`, or its index.
        data : DataFrame, optional
            The data (default: the verified DataFrame).
        limit : int, optional
            Maximum number of rows; Spark chooses which.
        column : str
            Name of the new column, an array of strings.

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
        >>> result = tg.verify(people, check)  # doctest: +SKIP
        >>> result.rows("people").collect()  # doctest: +SKIP
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
            equal. Constraints that do not apply to single rows are omitted, and so are constraints that
            cannot be evaluated, with a warning.

        Raises
        ------
        SuiteError
            As for `rows`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people").is_complete("email").has_size((2, 2))
        >>> result = tg.verify(people, check)  # doctest: +SKIP
        >>> result.row_level("people").where("email IS NULL").first()  # doctest: +SKIP
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
            The partition, if several were verified; a facet describes one partition.

        Returns
        -------
        dict
            ``{"dataQualityAssertions": facet}``, to be put among the facets of an input or output
            dataset of an event. Each assertion has the analyzer as ``assertion``, the ``column`` if
            it has one, ``success``, ``severity``, ``name``, and, if known, ``expected``,
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
        >>> result = tg.verify(people, check)  # doctest: +SKIP
        >>> facet = result.openlineage()["dataQualityAssertions"]  # doctest: +SKIP
        >>> [(item["assertion"], item["success"]) for item in facet["assertions"]]  # doctest: +SKIP
        [('Completeness', False), ('Size', True)]
        """
        return assertions_facet_of(
            self.judged, self.checks, self.names, dataset, partition, segment
        )

    def _not_evaluated(self, check: Check | str | int) -> dict[int, str]:
        """Return the errors of constraints that could not be evaluated on the verified data, by index."""
        index = self._check_index(check)
        results = (
            (judged.position, judged.result.metric)
            for judged in self.judged
            if judged.check == index
        )
        return {
            constraint_index: str(metric.outcome.error)
            for constraint_index, metric in results
            if metric and isinstance(metric.outcome, Failure) and not metric.empty
        }

    def _check(self, check: Check | str | int) -> Check:
        return self.checks[self._check_index(check)]

    def _check_index(self, check: Check | str | int) -> int:
        names = self.names
        if isinstance(check, Check):
            identical = [n for n, candidate in enumerate(self.checks) if candidate is check]
            indices = identical or [
                n for n, candidate in enumerate(self.checks) if candidate == check
            ]
            if indices:
                return indices[0]
        elif isinstance(check, str) and check in names:
            return names.index(check)
        elif isinstance(check, int) and 0 <= check < len(names):
            return check
        raise UnknownNameError("check", getattr(check, "name", str(check)), names)

    def _data(self, data: DataFrame | None) -> DataFrame:
        frame = self.data if data is None else data
        if frame is None:
            msg = "no data was scanned, so no rows can be listed; pass the rows as data="
            raise SuiteError(msg)
        return _read(frame)

    def _failed(self) -> list[PartitionResult]:
        return [judged for judged in self.judged if not judged.result.passed]

    def level_of(self, result: PartitionResult) -> str:
        """Return the level of a result: the level of its check, or ``warning`` if the constraint only warns.

        Examples
        --------
        >>> import tidegauge as tg
        >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
        >>> check = tg.Check("people", "warning").is_complete("email").has_size((2, 2))
        >>> result = tg.verify(people, check)  # doctest: +SKIP
        >>> [result.level_of(judged) for judged in result.judged]  # doctest: +SKIP
        ['warning', 'warning']
        """
        if result.result.warned:
            return str(Level.WARNING)
        return str(self.checks[result.check].level)

    def _frame(self, judged: Sequence[PartitionResult]) -> pd.DataFrame:
        names = self.names
        return frame_of(
            [self._row(result, names[result.check]) for result in judged], FRAME_COLUMNS
        )

    def _row(self, judged: PartitionResult, name: str) -> dict[str, Any]:
        result = judged.result
        return {
            "check": name,
            "level": self.level_of(judged),
            "dataset": judged.dataset,
            "segment": judged.segment,
            "partition": judged.partition,
            "time": judged.time,
            "constraint": result.constraint.description,
            "status": str(result.status),
            "value": nan if result.value is None else result.value,
            "message": result.message,
            "hint": result.constraint.hint,
            "analyzer": repr(result.constraint.analyzer),
        }

    def _summary(self) -> str:
        failed = self._failed()
        partitions = {(judged.dataset, judged.partition, judged.segment) for judged in self.judged}
        failed_partitions = {
            (judged.dataset, judged.partition, judged.segment) for judged in failed
        }
        if not self.judged:
            return "nothing to verify"
        no_data = sum(judged.result.status is ConstraintStatus.NO_DATA for judged in self.judged)
        by_value = sum(judged.result.status is not ConstraintStatus.NO_DATA for judged in failed)
        summary = f"{by_value} of {plural(len(self.judged), 'constraint')} failed"
        summary += f", {no_data} had {NO_DATA}" if no_data else ""
        without_history = sum(
            judged.result.status is ConstraintStatus.NO_HISTORY for judged in self.judged
        )
        summary += f", {without_history} had no history to compare with" if without_history else ""
        if len(partitions) > 1:
            return (
                f"{summary}, in {len(failed_partitions)} of {plural(len(partitions), 'partition')}"
            )
        (partition,) = partitions
        return " in ".join(filter(None, (summary, partition[1])))

    def __str__(self) -> str:
        """Return the failures and their messages, for logs."""
        names, failed = self.names, self._failed()
        lines = [f"{self.status}: {self._summary()}"]
        for judged in failed[:MAX_PRINTED_FAILURES]:
            subject = " ".join(filter(None, (judged.dataset, judged.partition, judged.segment)))
            check_name = f"{names[judged.check]} ({self.level_of(judged)})"
            lines.append(
                "  "
                + one_line(f"{check_name}{subject and f', {subject}'}: {judged.result.sentence}")
            )
        if len(failed) > MAX_PRINTED_FAILURES:
            lines.append(f"and {len(failed) - MAX_PRINTED_FAILURES} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Verification({self.status!r}, {self._summary()!r})"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Verification"), marked(self.status), self._summary())
        names, failed = self.names, self._failed()
        rows = failed or [judged for judged in self.judged if judged.result.message]
        lines = (
            (
                names[judged.check],
                Markup() if judged.result.passed else marked(self.level_of(judged)),
                judged.partition,
                judged.result.constraint.description,
                marked(str(judged.result.status)),
                judged.result.value,
                sentence(judged.result.message, 4 * width) if judged.result.message else None,
            )
            for judged in rows
        )
        columns = ["check", "level", "partition", "constraint", "status", "value", "message"]
        if rows:
            yield table(columns, Rows.first_of(lines, max_rows // 2, len(rows)), width)
        yield note(
            "frame(): all constraints; failures: failed constraints; rows(check): violating rows",
            width * 4,
        )


def verify(
    source: DataFrame | str | Run | Repository,
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
    spark: SparkSession | None = None,
) -> Verification:
    """Evaluate checks on a DataFrame, a table, a folder, a run or a repository.

    A DataFrame is scanned once for all checks; if constraints fail, a second scan of their columns
    finds some bad values for the messages. A table or folder is measured as by `calculate`, without Spark where
    that is exact. A run or a repository needs no scan: stored numbers are read, and other numbers are computed
    from stored states.

    Parameters
    ----------
    source : DataFrame, str, Run or Repository
        A text is a table's name or, with a slash, a folder. For a run, the partitions that it measured are
        verified in the state after the run.
    checks : Check or iterable of Check
        The checks to evaluate.
    dataset : str, optional
        With a repository: the dataset (default: the dataset of the check, or the only stored dataset).
    partitions : str or sequence of str, optional
        With a repository or run: ``all``, conditions on partition keys, or names (default for a
        repository: the newest partition).
    segment : str
        A segment instead of whole partitions, such as ``origin=EWR``. With a DataFrame, the segment
        with whose history it is compared.
    as_of : str, date, datetime or int, optional
        Read the repository as of this time or run.
    repository : Repository or str, optional
        With a DataFrame, table or folder: the repository, or its URL, with the history of ``dataset`` for comparisons. An
        unknown dataset has no history; if a known dataset has a similar name, there is a warning.
    partition : str
        With a DataFrame, table or folder: the partition that it contains, such as ``ds=2013-02-08``.
    time : str, date or datetime, optional
        With a DataFrame, table or folder: the partition's time, if its name does not contain it.
    examples : bool
        Whether messages name bad values of a DataFrame, table or folder. For a table or folder this needs ``spark``
        or an active session.
    private : collection of str
        With a DataFrame, table or folder: patterns of columns whose values are never shown in messages, such as
        ``*email*``, in addition to the private columns of the configuration file.
    on_empty : str, optional
        ``pass``, ``warn`` or ``fail``: the outcome of a constraint without data that does not set it
        (`Check.on_empty`). By default it fails. If its filter matches no row of the partition but rows
        of another partition, it only warns.
    spark : SparkSession, optional
        With a table or folder: the session (default: the active session). It is used only if it is needed.

    Returns
    -------
    Verification

    Raises
    ------
    SuiteError
        If no check is given, or an argument does not apply to the source.
    SourceError
        If a table or folder cannot be read.
    UnknownDatasetError, PartitionSelectionError
        If the dataset or partition does not exist.

    Examples
    --------
    >>> import tidegauge as tg
    >>> flights = tg.spark_session().range(600).selectExpr("IF(id < 54, NULL, 900) AS dep_time")  # doctest: +SKIP
    >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.95).has_size((600, None))
    >>> result = tg.verify(flights, check)  # doctest: +SKIP
    >>> result.passed, result.failures["message"].tolist()  # doctest: +SKIP
    (False, ['dep_time is 91% complete, at least 95% required: 54 of 600 rows'])
    """
    repository = as_repository(repository)
    check_list = (checks,) if isinstance(checks, Check) else tuple(checks)
    _validate_checks(check_list)
    default = None if on_empty is None else as_on_empty(on_empty)
    if isinstance(source, Run | Repository):
        if repository is not None or partition or time is not None:
            msg = "repository=, partition= and time= apply only to a DataFrame, table or folder"
            raise SuiteError(msg)
        if isinstance(source, Run):
            dataset = source.dataset if dataset is None else dataset
            partitions = tuple(source.changes) if partitions is None else partitions
            as_of = source.id if as_of is None else as_of
            source = source.repository
        stored = verify_stored(source, check_list, dataset, partitions, segment, as_of)
        return Verification(check_list, resolve_no_data(stored, default))
    is_named = isinstance(source, str)
    if not is_named and not is_frame(source):
        msg = f"verify takes a Spark DataFrame, a table's name, a folder, a run or a repository, not {kind_of(source)}"
        raise SuiteError(msg)
    if partitions is not None:
        msg = "partitions= applies only to a run or a repository; for other data, use partition="
        raise SuiteError(msg)
    from tidegauge.calculation import calculate

    analyzers = list(dict.fromkeys(a for check in check_list for a in check.analyzers))
    metrics = (
        dict(zip(analyzers, calculate(source, analyzers, spark=spark), strict=True))
        if analyzers
        else {}
    )
    given_target = CheckTarget(
        UNSTORED_ID, partition, Window.between(time, None).since, segment=segment
    )
    privacy = _privacy(private, (dataset, *(check.dataset for check in check_list)))
    if privacy.columns if is_named else privacy.columns_of(Schema.from_frame(source)):
        metrics = {
            given_target: _without_values(metric, privacy)
            for given_target, metric in metrics.items()
        }
    read = partial(_read, source, spark)
    comparer = Comparer(repository, lambda _: read(), segment, as_of, privacy, examples)
    results: list[PartitionResult] = []
    for index, check in enumerate(check_list):
        name, check_target = dataset or check.dataset or "", given_target
        evidence: Evidence = Measurements(metrics)
        if repository is not None and _looks_back(check):
            name = resolve_dataset(repository, name or None)
            evidence, check_target = _with_history(
                repository, name, as_of, check, given_target, metrics
            )
        compared = comparer.find(check.constraints, name, [check_target])[check_target.partition]
        results += _judge_partition(
            index, check, name, check_target, ComparedEvidence(evidence, compared)
        )
    if examples and any(_violated(judged.result) for judged in results):
        has_session = not is_named or (spark or active_session()) is not None
        results = with_examples(results, read(), privacy) if has_session else results
    return Verification(check_list, resolve_no_data(results, default), source)


def _read(data: DataFrame | str, spark: SparkSession | None = None) -> DataFrame:
    """Return the rows of a DataFrame, table or folder."""
    return open_named(data, spark=spark).read() if isinstance(data, str) else data


def _without_values(metric: Metric[Any], private: Privacy) -> Metric[Any]:
    """Return a metric; if it failed on the data, its error does not quote values."""
    if not isinstance(metric.outcome, Failure) or metric.empty:
        return metric
    return replace(metric, outcome=Failure(private.without_values(metric.outcome.error)))


def _privacy(columns: Collection[str], names: Iterable[str | None]) -> Privacy:
    """Return the private columns of a DataFrame: given columns and configured columns."""
    configured = privacy_settings()
    return replace(configured, columns=(*configured.columns, *columns)).for_dataset(*names)


def with_examples(
    judged: Sequence[PartitionResult],
    data: DataFrame,
    private: Privacy | None = None,
    source: Source | None = None,
) -> list[PartitionResult]:
    """Return results whose messages include some bad values, if values explain the failure.

    Parameters
    ----------
    judged : sequence of PartitionResult
        The results.
    data : DataFrame
        The verified data.
    private : Privacy, optional
        Columns whose values are not shown.
    source : Source, optional
        The partitioned table of the data (default: the data is one partition).
    """
    violated = [_violated(judged_result.result) for judged_result in judged]
    failed = [constraint for constraint in violated if constraint is not None]
    if not failed:
        return list(judged)
    bad_rows: dict[tuple[str, Constraint], BadRows] = {}
    groups = Groups(source.keys if source else ())
    for (key, constraint), rows in examples_of(data, failed, private, groups).items():
        partition = source.partition_of(key) if source else None
        bad_rows[partition.name if partition else "", constraint] = rows
    explained = []
    for judged_result, violated_constraint in zip(judged, violated, strict=True):
        partition_name = judged_result.partition if source else ""
        examples = (
            None
            if violated_constraint is None
            else bad_rows.get((partition_name, violated_constraint))
        )
        result = (
            judged_result.result.with_examples(examples.values, examples.rows)
            if examples
            else judged_result.result
        )
        explained.append(replace(judged_result, result=result))
    return explained


def _violated(result: ConstraintResult) -> MetricConstraint | None:
    """Return the constraint with the violated assertion, which is its own or its warning's; None if it holds."""
    constraint = result.constraint
    if not result.failed_by_value or not isinstance(constraint, MetricConstraint):
        return None
    if result.status is ConstraintStatus.WARNING and constraint.warning is not None:
        return replace(constraint, assertion=constraint.warning)
    return constraint


def _validate_checks(checks: Sequence[Check]) -> None:
    """Validate the checks before data is read."""
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
    """Evaluate checks on a repository; checks of one dataset are evaluated together.

    Parameters
    ----------
    repository, checks, dataset, partitions, segment, as_of
        As for `verify`.
    read : callable, optional
        Returns the data of a partition by its name, for comparisons that the repository cannot answer.
    private : Privacy
        Columns whose values are not shown in messages.
    """
    comparer = Comparer(repository, read, segment, as_of, private)
    indices_by_dataset: dict[str, list[int]] = {}
    for index, check in enumerate(checks):
        name = resolve_dataset(repository, dataset or check.dataset)
        indices_by_dataset.setdefault(name, []).append(index)
    results_by_check: dict[int, list[PartitionResult]] = {index: [] for index in range(len(checks))}
    for name, indices in indices_by_dataset.items():
        view = View(repository.database, repository.artifacts, name, as_of)
        targets = view.targets(partitions, segment)
        dataset_checks = [checks[index] for index in indices]
        analyzers = list(dict.fromkeys(a for check in dataset_checks for a in check.analyzers))
        loaded = load_evidence(view, targets, analyzers, _history_analyzers(dataset_checks))
        constraints = [constraint for check in dataset_checks for constraint in check.constraints]
        compared = comparer.find(constraints, name, targets)
        for target in targets:
            evidence = ComparedEvidence(loaded.for_target(target), compared[target.partition])
            for index in indices:
                results_by_check[index] += _judge_partition(
                    index, checks[index], name, target, evidence
                )
    return tuple(result for index in sorted(results_by_check) for result in results_by_check[index])


def _judge_partition(
    index: int, check: Check, dataset: str, target: CheckTarget, evidence: Evidence
) -> list[PartitionResult]:
    return [
        PartitionResult(
            index, constraint_index, dataset, target.partition, target.time, target.segment, result
        )
        for constraint_index, result in enumerate(check.evaluate(evidence))
    ]


def resolve_dataset(repository: Repository, dataset: str | None) -> str:
    """Return the named dataset, or the only one in the repository."""
    if dataset is not None:
        return dataset
    datasets = repository.datasets()
    if len(datasets) == 1:
        return datasets[0]
    names = ", ".join(map(repr, datasets)) or "none"
    msg = f"the dataset is ambiguous; set dataset= here or in the check. Datasets: {names}"
    raise SuiteError(msg)


def _history_analyzers(checks: Iterable[Check]) -> tuple[AnyAnalyzer, ...]:
    """Return the analyzers that are compared with history."""
    kinds = HistoryConstraint | AnomalyConstraint
    analyzers = (c.analyzer for check in checks for c in check.constraints if isinstance(c, kinds))
    return tuple(dict.fromkeys(analyzers))


def _looks_back(check: Check) -> bool:
    """Return whether a constraint compares with earlier partitions."""
    kinds = HistoryConstraint | AnomalyConstraint | DriftConstraint
    return any(isinstance(constraint, kinds) for constraint in check.constraints)


def _with_history(
    repository: Repository,
    dataset: str,
    as_of: AsOf,
    check: Check,
    given_target: CheckTarget,
    metrics: Mapping[AnyAnalyzer, Metric[Any]],
) -> tuple[Evidence, CheckTarget]:
    """Return a DataFrame's metrics with the history to compare with, and its partition and time.

    A dataset that was never measured has no history.
    """
    datasets = repository.datasets()
    view = View(repository.database, repository.artifacts, dataset, as_of)
    target = (
        view.complete(given_target) if dataset in datasets else complete_from_name(given_target)
    )
    if target.time is None:
        msg = (
            f"check {check.name!r} compares with history, so the partition or time of the data is needed:"
            " pass partition='ds=2013-02-08' or time='2013-02-08', for example"
        )
        raise SuiteError(msg)
    if dataset not in datasets:
        if nearest(dataset, datasets):
            warning = f"{UnknownDatasetError(dataset, datasets)} Its checks have no history."
            warnings.warn(warning, RepositoryWarning, stacklevel=3)
        return Measurements(metrics), target
    measured = {analyzer: metrics[analyzer] for analyzer in check.analyzers}
    loaded = load_evidence(view, [target], check.analyzers, _history_analyzers([check]), measured)
    return loaded.for_target(target), target
