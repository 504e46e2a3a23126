"""Check methods that compare a metric with its history."""

from __future__ import annotations

from typing import Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.evidence import AnomalySettings
from tidegauge.checks.assertions import AssertionLike, Between, as_assertion
from tidegauge.checks.builder import ConstraintBuilder
from tidegauge.checks.history_constraints import AnomalyConstraint, Baseline, HistoryConstraint


class HistoryMethods(ConstraintBuilder):
    """Constraints that compare a metric with earlier partitions of the same segment.

    Never with the partition itself, in any version, and never with later ones: partitions are
    ordered by their own time. If there is nothing to compare with, the constraint passes and its
    message says so, unless ``missing="fail"``.
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
        """Assert that a metric has not dropped by more than ``by`` against its baseline.

        Parameters
        ----------
        analyzer : Analyzer or str
        ago : str
            The baseline. ``7d`` (or hours, ``h``, or weeks, ``w``): the partition exactly that long
            before. ``previous``: the partition before. ``mean of 28d`` (or median, min, max): all
            partitions within that time before.
        by : float
            Allowed drop in the metric's unit: 0.05 is five percentage points of a share.
        missing : str
            ``pass`` or ``fail``: the result without an earlier value.
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
        """Assert that a metric has not risen by more than ``by``; see `not_below`."""
        wanted = Between(upper=_amount(by))
        return self.compared(analyzer, ago, wanted, missing=missing, hint=hint)

    def compared(
        self,
        analyzer: AnyAnalyzer | str,
        ago: str,
        assertion: AssertionLike,
        how: str = "difference",
        *,
        missing: str = "pass",
        hint: str = "",
    ) -> Self:
        """Assert on the difference to, or the ratio with, a baseline.

        Parameters
        ----------
        analyzer, ago, missing, hint
            As for `not_below`.
        assertion : callable, float, pair of float, or Between
        how : str
            ``difference`` (now minus then) or ``ratio`` (now divided by then; 0 / 0 is 1).

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
        """Assert that a metric is not an anomaly compared with its history.

        Parameters
        ----------
        analyzer : Analyzer or str
        detector : Detector or str
            Such as ``OnlineNormal(2, 2)``.
        rule, direction, least_effect
            As for `Monitor`; the rule is the detector's own if not given.
        missing : str
            ``pass`` or ``fail``: the result if the history is too short for the detector.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("flights").is_usual(tg.Size()).constraints[0].description
        'Size(): usual for Seasonal()'
        """
        told = None if rule is None else str(rule)
        usual = AnomalySettings(str(detector), told, direction, least_effect)
        of = self.read(analyzer)
        return self.with_constraint(AnomalyConstraint(of, usual=usual, missing=missing, hint=hint))


def _amount(by: float) -> float:
    amount = Between(by).lower
    if amount is None or amount < 0:
        msg = f"by is how much a value may change, at least 0, not {by!r}"
        raise SuiteError(msg)
    return amount or 0.0  # never -0.0
