"""Results of checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import CheckFailedError, SuiteError, UnknownNameError
from tidegauge.analyzers.core.evidence import NO_DATA
from tidegauge.analyzers.core.formatting import Markup, one_line, plural
from tidegauge.analyzers.core.metric import Failure
from tidegauge.checks.check import Check, Level, status_of
from tidegauge.checks.constraints import ConstraintStatus, PartitionResult
from tidegauge.checks.export_openlineage import assertions_facet_of
from tidegauge.checks.rows import failing_rows, make_unique, row_level_frame
from tidegauge.display.html import Rows, card, heading, marked, note, sentence, table
from tidegauge.repository.store.frames import columns, frame_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

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
