"""Checks: a name, a severity level, and constraints added one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from tidegauge.analyzers.core.analyzer import ANALYZERS, Analyzer, AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.analyzers.core.evidence import Evidence, as_on_empty
from tidegauge.analyzers.core.formatting import Markup, plural
from tidegauge.checks.assertions import AssertionLike, as_assertion
from tidegauge.checks.comparisons import ComparisonMethods, QueryConstraint
from tidegauge.checks.constraints import (
    Constraint,
    ConstraintResult,
    MetricComponent,
    MetricConstraint,
)
from tidegauge.checks.history_methods import HistoryMethods
from tidegauge.checks.metric_methods import MetricMethods
from tidegauge.checks.row_methods import RowMethods
from tidegauge.display.html import Rows, card, heading, marked, pairs, table
from tidegauge.spellings import hint


class Level(StrEnum):
    """Severity of a failed check."""

    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, repr=False)
class Check(RowMethods, MetricMethods, HistoryMethods, ComparisonMethods):
    """Assertions on the metrics of one dataset. Each method returns a new check.

    Constraints are evaluated on metrics alone, so they can be evaluated again for any measured
    partition, and row by row if they apply to single rows. ``analyzers`` lists the metrics they
    need.

    An assertion is a function of the value, a minimum, a pair of bounds (both inclusive, None for
    open), or a `Between`. Shares are between 0 and 1; ``at_least=0.99`` lets one row in a hundred
    fail. Every method takes ``hint=``, a text added to the failure message.

    Parameters
    ----------
    name : str
    level : str
        ``error`` or ``warning``.
    dataset : str, optional
        The dataset to verify in a repository if `verify` is given none.
    constraints : sequence of Constraint
        The constraints added by the methods.

    Raises
    ------
    SuiteError
        If the name is empty or the level is unknown.

    Examples
    --------
    >>> import tidegauge as tg
    >>> check = (
    ...     tg.Check("flights")
    ...     .is_complete("dep_time", at_least=0.95)
    ...     .has_size(lambda n: n > 600, hint="the feed was cut off")
    ...     .is_unique("id").where("origin = 'EWR'")
    ... )
    >>> for constraint in check.constraints:
    ...     print(constraint.description)
    Completeness('dep_time'): at least 0.95
    Size(): n > 600
    Uniqueness('id', where="origin = 'EWR'"): at least 1
    """

    name: str
    level: str = Level.ERROR
    _: KW_ONLY
    dataset: str | None = None
    constraints: Sequence[Constraint] = ()

    def __post_init__(self) -> None:
        if not str(self.name).strip():
            msg = "a check needs a name"
            raise SuiteError(msg)
        if self.level not in list(Level):
            raise UnknownNameError(
                "level of a check", str(self.level), [str(level) for level in Level]
            )
        object.__setattr__(self, "level", Level(self.level))
        object.__setattr__(self, "constraints", tuple(self.constraints))

    @property
    def analyzers(self) -> tuple[AnyAnalyzer, ...]:
        """The analyzers that the check needs, without duplicates; a suite accepts them."""
        return tuple(dict.fromkeys(constraint.analyzer for constraint in self.constraints))

    def has(
        self,
        analyzer: AnyAnalyzer | str,
        assertion: AssertionLike,
        *,
        hint: str = "",
        part: MetricComponent | None = None,
    ) -> Check:
        """Assert on any metric.

        Parameters
        ----------
        analyzer : Analyzer or str
        assertion : callable, float, pair of float, or Between
            For a composite metric, a function is given the whole value.
        hint : str
        part : MetricComponent, optional
            The number to take from a composite value.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("fares").has(tg.RatioOfSums("tip", "fare"), (0, 1)).constraints[0].description
        "RatioOfSums('tip', 'fare'): at least 0 and at most 1"
        """
        of, wanted = self.read(analyzer), as_assertion(wanted=assertion)
        return self.with_constraint(MetricConstraint(of, wanted, hint=hint, part=part))

    def where(self, condition: str) -> Check:
        """Restrict the last constraint to rows where a Spark SQL condition is true.

        If no such row has a value, the status of the constraint is ``no data``; see `on_empty`.

        Raises
        ------
        SuiteError
            If there is no constraint yet, or the last one has a filter already or takes none.
        """
        if not self.constraints:
            msg = f"check {self.name!r}: where() is about the constraint before it; there is none"
            raise SuiteError(msg)
        *others, last = self.constraints
        if isinstance(last, QueryConstraint):
            msg = f"check {self.name!r}: a query has its own WHERE; where() is not for {last.description}"
            raise SuiteError(msg)
        if last.analyzer.where is not None:
            msg = f"check {self.name!r}: {last.analyzer!r} has a filter already; join both by AND"
            raise SuiteError(msg)
        if "where" not in {option.name for option in fields(last.analyzer)}:
            msg = f"check {self.name!r}: {last.analyzer!r} takes no filter"
            raise SuiteError(msg)
        filtered = replace(last, analyzer=replace(last.analyzer, where=condition))  # type: ignore[call-arg]
        return replace(self, constraints=(*others, filtered))

    def on_empty(self, action: str) -> Check:
        """Set what the last constraint counts as in a partition that has no data for it.

        By default it fails; it only warns if its filter matches rows of another partition.

        Parameters
        ----------
        action : str
            ``pass``, ``warn`` or ``fail``.

        Raises
        ------
        SuiteError
            If there is no constraint yet, or the action is unknown.

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").is_complete("dep_time").where("origin = 'EWR'").on_empty("pass")
        >>> str(check.constraints[0].on_empty)
        'pass'
        """
        if not self.constraints:
            msg = (
                f"check {self.name!r}: on_empty() is about the constraint before it; there is none"
            )
            raise SuiteError(msg)
        changed = replace(self.constraints[-1], on_empty=as_on_empty(action))
        return replace(self, constraints=(*self.constraints[:-1], changed))

    def warn(self, assertion: AssertionLike) -> Check:
        """Give the last constraint a stricter assertion, which only warns.

        If it does not hold while the constraint itself does, the status of the constraint is
        ``warning``, and so is that of the check, whatever its level.

        Parameters
        ----------
        assertion : callable, float, pair of float, or Between

        Raises
        ------
        SuiteError
            If there is no constraint yet, or the last one is compared with history.

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").is_complete("dep_time", at_least=0.9).warn(0.95)
        >>> check.constraints[0].description
        "Completeness('dep_time'): at least 0.9, warns unless at least 0.95"
        """
        last = self.constraints[-1] if self.constraints else None
        if not isinstance(last, MetricConstraint):
            msg = f"check {self.name!r}: warn() is about the constraint on a metric before it; there is none"
            raise SuiteError(msg)
        warned = replace(last, warning=as_assertion(assertion))
        return replace(self, constraints=(*self.constraints[:-1], warned))

    def with_constraint(self, constraint: Constraint) -> Check:
        """Return the check with one more constraint, of any kind."""
        return replace(self, constraints=(*self.constraints, constraint))

    def read(self, analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
        """Return an analyzer with valid options, parsed if it is given as text.

        Raises
        ------
        SuiteError, IllegalAnalyzerParameterError
        """
        found = ANALYZERS.parse(analyzer) if isinstance(analyzer, str) else analyzer
        if not isinstance(found, Analyzer):
            msg = f"check {self.name!r}: {found!r} is not an analyzer such as tg.Size()"
            raise SuiteError(msg)
        found.check_parameters()
        return found

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError that names the method, for the spellings of other tools."""
        told = (
            "" if name.startswith("_") else hint(name, [m for m in dir(type(self)) if m[0] != "_"])
        )
        msg = f"a Check has no {name!r}" + (f"; {told}" if told else "")
        raise AttributeError(msg, name=name, obj=self)

    def evaluate(self, evidence: Evidence) -> tuple[ConstraintResult, ...]:
        """Evaluate each constraint on the measured metrics, in order."""
        return tuple(constraint.evaluate(evidence) for constraint in self.constraints)

    def __repr__(self) -> str:
        level = "" if self.level == Level.ERROR else f", {str(self.level)!r}"
        return f"Check({self.name!r}{level}) of {plural(len(self.constraints), 'constraint')}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Check"), self.name, marked(self.level))
        yield pairs([("dataset", self.dataset)], width)
        lines = [(c.description, c.hint) for c in self.constraints]
        yield table(["constraint", "hint"], Rows.first_of(lines, most), width)


def status_of(level: str, results: Sequence[ConstraintResult]) -> str:
    """Return ``success``, the check's level if a constraint failed, or ``warning`` if one warns."""
    if any(result.failed for result in results):
        return str(level)
    return str(Level.WARNING) if any(result.warned for result in results) else "success"
