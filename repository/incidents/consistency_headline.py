"""Consistency metrics in headlines: by group-by, with affected features and the worst rate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.formatting import measured, percent, plural
from tidegauge.repository.store.consistency_series import CELLS, PREFIX, parse_instance

if TYPE_CHECKING:
    from tidegauge.repository.incidents.anomaly import Anomaly

_OF_MATCHED = frozenset({*CELLS, "both_null"})
"""Metrics that are shares of the matched rows."""
_OF_ROWS = "row_"
"""Prefix of metrics on a group-by's rows instead of a feature."""
_NO_NAME = frozenset({"", "*"})


@dataclass(frozen=True)
class ConsistencyTopic:
    """A headline topic: a group-by's metric over all its features, in one direction.

    Attributes
    ----------
    group_by, metric, direction : str
    """

    group_by: str
    metric: str
    direction: str

    @classmethod
    def from_anomaly(cls, one: Anomaly, group_bys: Collection[str]) -> ConsistencyTopic | None:
        """Return the topic of an anomaly; None if it is not of a consistency metric.

        Parameters
        ----------
        one : Anomaly
        group_bys : collection of str
            Known names of group-bys, which may contain dots.
        """
        if not one.name.startswith(PREFIX):
            return None
        metric = one.name.removeprefix(PREFIX)
        if metric.startswith(_OF_ROWS):
            return cls(one.instance, metric, one.direction)
        found = parse_instance(one.instance, set(group_bys))
        return cls(found.group_by, metric, one.direction)

    @property
    def wrong(self) -> bool:
        """True for a high mismatch rate, from which changes in other metrics follow."""
        return self.metric in CELLS and self.direction == "high"

    def said(self, some: Sequence[Anomaly]) -> str:
        """Return the topic's anomalies as a clause of a headline.

        Parameters
        ----------
        some : sequence of Anomaly
            At least one.
        """
        ordered = sorted(some, key=self.size)
        clearest, worst = {one.instance: one for one in ordered}, ordered[-1]
        feature = worst.instance.removeprefix(f"{self.group_by}.")
        what = " ".join(name for name in (self.group_by, self.metric) if name not in _NO_NAME)
        # A limit says what is wrong, and not what is usual: another detector of the series may.
        usual = {one.instance: one.expected for one in ordered if one.expected is not None}
        amounts = {name: self._amount(one, usual.get(name)) for name, one in clearest.items()}
        amount = amounts[worst.instance]
        alike = set(amounts.values()) == {amount}
        if self.metric.startswith(_OF_ROWS):
            return f"{what} ({amount})"
        if len(clearest) == 1:
            return f"{what} in {feature} ({amount})"
        if alike:
            return f"{what} in {plural(len(clearest), 'feature')} alike ({amount})"
        most = "most" if self.wrong else "clearest"
        return f"{what} in {plural(len(clearest), 'feature')}, {most} in {feature} ({amount})"

    def size(self, one: Anomaly) -> tuple[float, float]:
        """Return an anomaly's deviation as a sort key, comparable within the topic."""
        off = abs((one.value or 0.0) - (one.expected or 0.0)) if self.metric in _OF_MATCHED else 0.0
        return off, one.score

    def _amount(self, one: Anomaly, expected: float | None) -> str:
        value = one.value
        if value is None:
            return "no number"
        if self.metric in _OF_MATCHED:
            usual = "" if expected is None else f", usually {percent(expected)}"
            return f"{percent(value)} of rows{usual}"
        if expected is None:
            return measured(value, one.scale)
        return f"{measured(value, one.scale)} instead of {measured(expected, one.scale)}"
