"""The vocabulary of checks: what a metric is wanted to be beside its own past."""

from __future__ import annotations

from typing import Self

from analyzers.checks.assertions import Between, Wanted, as_assertion
from analyzers.checks.builder import Builder
from analyzers.checks.evidence import AnyAnalyzer, Usual
from analyzers.checks.historic import Baseline, HistoryConstraint, UsualConstraint
from analyzers.errors import SuiteError


class OfPast(Builder):
    """Constraints that compare with partitions before, of the same segment.

    Never with the partition itself, in whatever version, and never with later ones: what counts as
    before is the partition's own time. Where there is nothing to compare with, the constraint passes
    and says so, unless ``missing="fail"``.
    """

    def not_below(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str = "7d",
        by: float = 0.0,
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Want a metric not to be lower than it was, by more than a number.

        Parameters
        ----------
        analyzer : Analyzer or str
        ago : str
            ``7d`` (or hours, ``h``, or weeks, ``w``): in the partition exactly so long before.
            ``previous``: in the partition before. ``mean of 28d`` (or median, min, max): in all
            partitions within so long before.
        by : float
            In the metric's unit: 0.05 is five points of a share. So much is still allowed.
        missing : str
            ``pass`` or ``fail``: what becomes of it without an earlier value.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").not_below(tg.Completeness("dep_time"), "7d", by=0.05)
        >>> check.constraints[0].description
        "Completeness('dep_time'): not below 7d before by more than 0.05"
        """
        wanted = Between(lower=-_amount(by))
        return self.compared(analyzer, ago, wanted, missing=missing, hint=hint)

    def not_above(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str = "7d",
        by: float = 0.0,
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Want a metric not to be higher than it was, by more than a number; see `not_below`."""
        wanted = Between(upper=_amount(by))
        return self.compared(analyzer, ago, wanted, missing=missing, hint=hint)

    def compared(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str,
        assertion: Wanted,
        how: str = "difference",
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Want the difference to, or the ratio with, an earlier value to be something.

        Parameters
        ----------
        analyzer, ago, missing, hint
            As for `not_below`.
        assertion : callable, float, pair of float, or Between
        how : str
            ``difference`` (now less then) or ``ratio`` (now by then; 0 by 0 is 1).

        Examples
        --------
        >>> import tidegauge as tg
        >>> check = tg.Check("flights").compared(tg.Size(), "mean of 28d", (0.8, 1.2), "ratio")
        >>> check.constraints[0].description
        'Size(): ratio to mean of 28d at least 0.8 and at most 1.2'
        """
        return self.with_constraint(
            HistoryConstraint(
                self.read(analyzer),
                as_assertion(assertion),
                baseline=Baseline(ago),
                how=how,
                missing=missing,
                hint=hint,
            )
        )

    def is_usual(
        self,
        analyzer: AnyAnalyzer | str,
        detector: object = "Seasonal()",
        *,
        rule: object | None = None,
        direction: str = "both",
        least_effect: float = 0.0,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Want a metric to be no anomaly among the partitions before.

        Parameters
        ----------
        analyzer : Analyzer or str
        detector : Detector or str
            Such as ``OnlineNormal(2, 2)``.
        rule, direction, least_effect
            As for `Monitor`; the rule is the detector's own if not given.
        missing : str
            ``pass`` or ``fail``: what becomes of it where the detector knows too little.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("flights").is_usual(tg.Size()).constraints[0].description
        'Size(): usual for Seasonal()'
        """
        told = None if rule is None else str(rule)
        usual = Usual(str(detector), told, direction, least_effect)
        of = self.read(analyzer)
        return self.with_constraint(UsualConstraint(of, usual=usual, missing=missing, hint=hint))


def _amount(by: float) -> float:
    amount = Between(by).lower
    if amount is None or amount < 0:
        msg = f"by is how much a value may change, at least 0, not {by!r}"
        raise SuiteError(msg)
    return amount or 0.0  # never -0.0
