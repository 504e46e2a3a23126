"""A check: a name, how grave it is, and constraints that are added one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import StrEnum

from analyzers.analyzer import Analyzer
from analyzers.catalogue import ANALYZERS
from analyzers.checks.assertions import Wanted, as_assertion
from analyzers.checks.constraints import (
    Constraint,
    ConstraintResult,
    ConstraintStatus,
    MetricConstraint,
    Part,
)
from analyzers.checks.evidence import AnyAnalyzer, Evidence
from analyzers.checks.of_numbers import OfNumbers
from analyzers.checks.of_past import OfPast
from analyzers.checks.of_rows import OfRows
from analyzers.display import Markup, Rows, card, heading, marked, pairs, table
from analyzers.errors import SuiteError, UnknownNameError


class Level(StrEnum):
    """How grave it is if a check fails."""

    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, repr=False)
class Check(OfRows, OfNumbers, OfPast):
    """What the metrics of one dataset are wanted to be. Each method returns a new check.

    Constraints are judged by metrics alone, so they can be judged again for any partition that was
    measured, and row by row where they tell anything of rows. What they need measured is ``analyzers``.

    Where a method takes an assertion, it is a function of the value, the least value, a pair of bounds
    (both included, None for open), or a `Between`. Shares are between 0 and 1; ``at_least=0.99``
    lets one row in a hundred be otherwise. Every method takes ``hint=``, which is told with a failure.

    Parameters
    ----------
    name : str
    level : str
        ``error`` or ``warning``.
    dataset : str, optional
        Of which dataset, where a repository is asked and nothing else is said.
    constraints : sequence of Constraint
        What the methods added.

    Raises
    ------
    SuiteError
        If the name is empty, or the level is none.

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
        """What must be measured for it, each once; a suite takes them as they are."""
        return tuple(dict.fromkeys(constraint.analyzer for constraint in self.constraints))

    def has(
        self,
        analyzer: AnyAnalyzer | str,
        assertion: Wanted,
        *,
        hint: str = "",
        part: Part | None = None,
    ) -> Check:
        """Want any metric to be something.

        Parameters
        ----------
        analyzer : Analyzer or str
        assertion : callable, float, pair of float, or Between
            Of a metric made of several numbers, a function is given the whole value.
        hint : str
        part : Part, optional
            Which number of a value that is made of several.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("fares").has(tg.RatioOfSums("tip", "fare"), (0, 1)).constraints[0].description
        "RatioOfSums('tip', 'fare'): at least 0 and at most 1"
        """
        of, wanted = self.read(analyzer), as_assertion(wanted=assertion)
        return self.with_constraint(MetricConstraint(of, wanted, hint=hint, part=part))

    def where(self, condition: str) -> Check:
        """Let the constraint before count only rows where a Spark SQL condition is true.

        It passes where no such row has a value.

        Raises
        ------
        SuiteError
            If there is no constraint before, it has a filter already, or takes none.
        """
        if not self.constraints:
            msg = f"check {self.name!r}: where() is about the constraint before it; there is none"
            raise SuiteError(msg)
        *others, last = self.constraints
        if last.analyzer.where is not None:
            msg = f"check {self.name!r}: {last.analyzer!r} has a filter already; join both by AND"
            raise SuiteError(msg)
        if "where" not in {option.name for option in fields(last.analyzer)}:
            msg = f"check {self.name!r}: {last.analyzer!r} takes no filter"
            raise SuiteError(msg)
        filtered = replace(last, analyzer=replace(last.analyzer, where=condition))  # type: ignore[call-arg]
        return replace(self, constraints=(*others, filtered))

    def with_constraint(self, constraint: Constraint) -> Check:
        """Return the check with one constraint more, of whatever kind."""
        return replace(self, constraints=(*self.constraints, constraint))

    def read(self, analyzer: AnyAnalyzer | str) -> AnyAnalyzer:
        """Return an analyzer whose options can be, read from its text if need be.

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

    def evaluate(self, evidence: Evidence) -> tuple[ConstraintResult, ...]:
        """Judge each constraint by what was measured, in their order."""
        return tuple(constraint.evaluate(evidence) for constraint in self.constraints)

    def __repr__(self) -> str:
        level = "" if self.level == Level.ERROR else f", {str(self.level)!r}"
        return f"Check({self.name!r}{level}) of {len(self.constraints)} constraints"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Check"), self.name, marked(self.level))
        yield pairs([("dataset", self.dataset)], width)
        lines = [(c.description, c.hint) for c in self.constraints]
        yield table(["constraint", "hint"], Rows.of(lines, most), width)


def status_of(level: str, results: Sequence[ConstraintResult]) -> str:
    """Return ``success``, or the level of a check of which a constraint failed."""
    failed = any(result.status is ConstraintStatus.FAILURE for result in results)
    return str(level) if failed else "success"
