"""What came of checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import nan
from typing import TYPE_CHECKING, Any

from analyzers.checks.check import Check, Level, status_of
from analyzers.checks.constraints import ConstraintResult, ConstraintStatus
from analyzers.display import Markup, Rows, card, heading, marked, note, one_line, sentence, table
from analyzers.errors import CheckFailedError, SuiteError, UnknownNameError
from repository.frames import frame_of
from tidegauge.checks.lineage import facet_of
from tidegauge.checks.rows import failing_rows, judged_rows, unlike

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

COLUMNS = (
    "check",
    "level",
    "dataset",
    "segment",
    "partition",
    "time",
    "constraint",
    "status",
    "value",
    "message",
    "hint",
    "analyzer",
)
MOST_LINES = 20
"""Failures that are printed."""


@dataclass(frozen=True)
class Judged:
    """What came of one constraint in one partition.

    Attributes
    ----------
    check, place : int
        Which check, and which of its constraints.
    dataset, partition : str
    time : datetime or None
    segment : str
    result : ConstraintResult
    """

    check: int
    place: int
    dataset: str
    partition: str
    time: datetime | None
    segment: str
    result: ConstraintResult


@dataclass(frozen=True, repr=False)
class Verification:
    """What came of checks, constraint by constraint and partition by partition; made by `verify`.

    Attributes
    ----------
    checks : sequence of Check
    judged : sequence of Judged
    data : DataFrame or None
        What was verified, if it was a DataFrame.
    """

    checks: Sequence[Check]
    judged: Sequence[Judged]
    data: Any = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """The checks' names; of those with one name, each gets a number."""
        return unlike([check.name for check in self.checks])

    @property
    def status(self) -> str:
        """``error`` or ``warning`` if a check of that level failed, the graver of both; else ``success``."""
        found = {self.status_of(place) for place in range(len(self.checks))}
        return next(
            (str(level) for level in (Level.ERROR, Level.WARNING) if level in found), "success"
        )

    @property
    def passed(self) -> bool:
        """Whether no check failed, of either level."""
        return self.status == "success"

    def status_of(self, check: Check | str | int) -> str:
        """Return ``success``, or the check's level if it failed anywhere.

        Parameters
        ----------
        check : Check, str or int
            The check, its name as in `names`, or its place.

        Raises
        ------
        UnknownNameError
            If it is none of those that were verified.
        """
        place = self._place(check)
        results = [one.result for one in self.judged if one.check == place]
        return status_of(self.checks[place].level, results)

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row for each constraint in each partition.

        Returns
        -------
        pandas.DataFrame
            With the columns check, level, dataset, segment, partition, time, constraint, status
            (``success``, ``failure``, ``no data`` where a filter left nothing, ``no history`` where there
            was nothing earlier), value (NaN if it is no number), message, hint, analyzer.
        """
        return self._frame(self.judged)

    @property
    def failures(self) -> pd.DataFrame:
        """What failed, as `frame` has it."""
        return self._frame(self._failed())

    def raise_if_failed(self, level: str = "error") -> None:
        """Raise an error if a check failed.

        Parameters
        ----------
        level : str
            ``error``, or ``warning`` for checks of that level, too.

        Raises
        ------
        CheckFailedError
            It carries this object.
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
        """Return the rows that break a check, with a column of the constraints that each breaks.

        Rows are judged by completeness, conditions, patterns, uniqueness, and by bounds of least and
        greatest numbers and lengths. Those that a filter leaves out break nothing. What holds of
        ``at_least`` so many rows is told of each of the others.

        Parameters
        ----------
        check : Check, str or int
            The check, its name as in `names`, or its place.
        data : DataFrame, optional
            What was verified, if not given.
        limit : int, optional
            Rows, at most; which ones is up to Spark.
        column : str
            The name of the new column, an array of text.

        Raises
        ------
        SuiteError
            If none of the constraints tells anything of single rows, there are no data, or the data has
            such a column.
        """
        return failing_rows(self._data(data), self._check(check), column, limit)

    def row_level(self, check: Check | str | int, data: DataFrame | None = None) -> DataFrame:
        """Return the data with a column for each constraint: whether the row is as wanted.

        Parameters
        ----------
        check, data
            As for `rows`.

        Returns
        -------
        DataFrame
            The new columns have the constraints' descriptions as names, with a number where two are
            alike. Constraints that tell nothing of single rows have none.

        Raises
        ------
        SuiteError
            As for `rows`.
        """
        return judged_rows(self._data(data), self._check(check))

    def openlineage(
        self, dataset: str | None = None, partition: str | None = None, segment: str | None = None
    ) -> dict[str, Any]:
        """Return what came of it as the facet of OpenLineage that tells assertions about a dataset.

        Parameters
        ----------
        dataset, partition, segment : str, optional
            Which, where several were verified; a facet is about one.

        Returns
        -------
        dict
            ``{"dataQualityAssertions": facet}``, to be put among the facets of an input or output dataset of
            an event. Each assertion has the analyzer as ``assertion``, the ``column`` if it is about
            one, ``success``, ``severity``, ``name``, and, where they are known, ``expected``, ``actual`` and
            ``description``, which is the message.

        Raises
        ------
        SuiteError
            If several partitions are meant, or none.
        """
        return facet_of(self, dataset, partition, segment)

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

    def _failed(self) -> list[Judged]:
        return [one for one in self.judged if one.result.status is ConstraintStatus.FAILURE]

    def _frame(self, judged: Sequence[Judged]) -> pd.DataFrame:
        names = self.names
        return frame_of([self._row(one, names[one.check]) for one in judged], COLUMNS)

    def _row(self, one: Judged, name: str) -> dict[str, Any]:
        check, result = self.checks[one.check], one.result
        return {
            "check": name,
            "level": str(check.level),
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
        told = f"{len(failed)} of {len(self.judged)} constraints failed"
        untold = sum(one.result.status is ConstraintStatus.NO_HISTORY for one in self.judged)
        told += f", {untold} had no history to compare with" if untold else ""
        return told if len(places) == 1 else f"{told}, in {len(bad)} of {len(places)} partitions"

    def __str__(self) -> str:
        """Return some lines for a log: what failed, and why."""
        names, failed = self.names, self._failed()
        lines = [f"{self.status}: {self._summary()}"]
        for one in failed[:MOST_LINES]:
            where = " ".join(filter(None, (one.dataset, one.partition, one.segment)))
            of = f"{names[one.check]} ({self.checks[one.check].level})"
            what = f"{one.result.constraint.description}: {one.result.message}"
            lines.append("  " + one_line(f"{of}{where and f', {where}'}: {what}"))
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
                Markup() if one.result.passed else marked(str(self.checks[one.check].level)),
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
            yield table(columns, Rows.of(lines, most // 2, len(shown)), width)
        yield note(
            "frame(): every constraint; failures: what failed; rows(check): the rows", width * 4
        )
