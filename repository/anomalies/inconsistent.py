"""What consistency metrics say in a headline: which group-by is wrong, in how many features and how far."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.display import number, percent
from repository.consistency import CELLS, PREFIX, subject

if TYPE_CHECKING:
    from repository.anomalies.anomaly import Anomaly

_OF_MATCHED = frozenset({*CELLS, "both_null"})
"""Metrics that are shares of the matched rows."""
_OF_ROWS = "row_"
"""How metrics begin that are of a group-by's rows, and of no feature."""
_NO_NAME = frozenset({"", "*"})


@dataclass(frozen=True)
class Unequal:
    """What is told together: a metric of a group-by, of all its features, that is too high or too low.

    Attributes
    ----------
    group_by, metric, direction : str
    """

    group_by: str
    metric: str
    direction: str

    @classmethod
    def of(cls, one: Anomaly, group_bys: Collection[str]) -> Unequal | None:
        """Return with what an anomaly is told; None if it is no consistency metric's.

        Parameters
        ----------
        one : Anomaly
        group_bys : collection of str
            Those that are known, because names may have dots.
        """
        if not one.name.startswith(PREFIX):
            return None
        metric = one.name.removeprefix(PREFIX)
        if metric.startswith(_OF_ROWS):
            return cls(one.instance, metric, one.direction)
        found = subject(one.instance, set(group_bys))
        return cls(found.group_by, metric, one.direction)

    @property
    def wrong(self) -> bool:
        """Whether it says itself that features are not the same on both sides; other metrics follow from that."""
        return self.metric in CELLS and self.direction == "high"

    def said(self, some: Sequence[Anomaly]) -> str:
        """Return its anomalies as the part of a sentence.

        Parameters
        ----------
        some : sequence of Anomaly
            At least one.
        """
        ordered = sorted(some, key=self.size)
        clearest, worst = {one.instance: one for one in ordered}, ordered[-1]
        feature = worst.instance.removeprefix(f"{self.group_by}.")
        what = " ".join(name for name in (self.group_by, self.metric) if name not in _NO_NAME)
        amount = self._amount(worst)
        alike = {self._amount(one) for one in clearest.values()} == {amount}
        if self.metric.startswith(_OF_ROWS):
            return f"{what} ({amount})"
        if len(clearest) == 1:
            return f"{what} in {feature} ({amount})"
        if alike:
            return f"{what} in {len(clearest)} features alike ({amount})"
        most = "most" if self.wrong else "clearest"
        return f"{what} in {len(clearest)} features, {most} in {feature} ({amount})"

    def size(self, one: Anomaly) -> tuple[float, float]:
        """Return how far out an anomaly is, to be compared with others of the same."""
        off = abs((one.value or 0.0) - (one.expected or 0.0)) if self.metric in _OF_MATCHED else 0.0
        return off, one.score

    def _amount(self, one: Anomaly) -> str:
        value, expected = one.value, one.expected
        if value is None:
            return "no number"
        if self.metric in _OF_MATCHED:
            usual = "" if expected is None else f", usually {percent(expected)}"
            return f"{percent(value)} of rows{usual}"
        if expected is None:
            return number(value)
        return f"{number(value)} instead of {number(expected)}"
