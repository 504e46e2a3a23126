"""Monitors: the detector, decision rule and severity for a selection of series."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.analyzers.core.registry import Registry, key_of
from tidegauge.repository.detectors.base import DETECTORS, Detector, Scores
from tidegauge.repository.detectors.rules import RULES, DecisionRule, FalseDiscoveryRate
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.store.queries import canonical_of
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

SERIES_SELECTORS = ("name", "instance", "segment", "where", "analyzer")


_INVALID_LEAST_EFFECT = "least_effect must be a share of the expected value, such as 0.1"


class Sensitivity(StrEnum):
    """Sensitivity of a monitor: the evidence that `FalseDiscoveryRate` requires for an anomaly.

    Expected false anomalies per month for a table of fourteen daily metrics, and the share of incidents
    that are found, on the synthetic histories of ``benchmarks/histories.py`` (seeds 6 and 7, 30 tables
    each, ``--sensitivities``): low 0.11 and 84%, normal 0.38 and 92%, high 1.33 and 97%.
    """

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def rule(self) -> DecisionRule:
        """The rule of this sensitivity."""
        return RULES.parse(_SENSITIVITY_RULES[self])


_SENSITIVITY_RULES = {
    Sensitivity.LOW: "FalseDiscoveryRate(0.01)",
    Sensitivity.NORMAL: "FalseDiscoveryRate()",
    Sensitivity.HIGH: "FalseDiscoveryRate(0.3, 150)",
}


class Direction(StrEnum):
    """Side of the expected value on which deviations count."""

    BOTH = "both"
    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True)
class Monitor:
    """A detector, rule and severity applied to a selection of series.

    Parameters
    ----------
    series : mapping of str to str
        Selector by ``name``, ``instance``, ``segment``, ``where`` and ``analyzer``; all series if
        empty. In ``name``, ``instance`` and ``segment``, ``*`` matches any characters, as in
        ``prices.*``, and ``|`` separates choices, as in ``Size|Completeness``. A single ``*`` is the instance of whole datasets.
    detector : Detector or str
        The detector, or its description, such as ``OnlineNormal(2, 2)``.
    severity : str, optional
        ``info``, ``warning`` or ``error``; if not given, the size of each deviation decides, see
        `severity_steps`.
    rule : DecisionRule or str, optional
        Decision rule, such as ``Threshold(4)``, ``PValue(0.001)``, ``FalseDiscoveryRate(0.05)`` or
        ``OutsideBand()``; the detector's default if not given.
    direction : str
        ``high`` counts only values above the expected value, ``low`` only values below it, ``both``
        counts all values.
    least_effect : float
        Minimum deviation that counts, as a share of the expected value: 0.1 for a tenth.
    sensitivity : str, optional
        ``low``, ``normal`` or ``high`` instead of a rule, for detectors whose rule is
        `FalseDiscoveryRate`; the suite's sensitivity if neither is given.

    Examples
    --------
    >>> Monitor({"name": "Completeness"}, "OnlineNormal", "error").detector
    OnlineNormal()
    """

    series: Mapping[str, str] = field(default_factory=dict)
    detector: Detector = field(default_factory=Seasonal)
    severity: str | None = None
    rule: DecisionRule | None = None
    direction: str = Direction.BOTH
    least_effect: float = 0.0
    sensitivity: str | None = None

    def __post_init__(self) -> None:
        for selector, pattern in self.series.items():
            if selector not in SERIES_SELECTORS:
                raise UnknownNameError("selector of series", selector, SERIES_SELECTORS)
            if not isinstance(pattern, str):
                msg = f"series: {selector} must be a string, not {pattern!r}"
                raise SuiteError(msg)
            if selector == "analyzer":
                canonical_of(pattern)
        self._complete()

    def _complete(self) -> None:
        """Parse parameters given as strings, and validate the others."""
        set_ = object.__setattr__
        if isinstance(self.detector, str):
            set_(self, "detector", DETECTORS.parse(self.detector))
        if isinstance(self.rule, str):
            set_(self, "rule", RULES.parse(self.rule))
        self._apply_sensitivity()
        if self.rule is None:
            set_(self, "rule", RULES.parse(self.detector.rule))
        if self.severity is not None and self.severity not in list(Severity):
            raise UnknownNameError("severity", self.severity, list(Severity))
        if self.direction not in list(Direction):
            raise UnknownNameError("direction", self.direction, list(Direction))
        try:
            set_(self, "least_effect", float(self.least_effect))
        except (TypeError, ValueError) as error:
            raise SuiteError(_INVALID_LEAST_EFFECT) from error
        if not self.least_effect >= 0:
            raise SuiteError(_INVALID_LEAST_EFFECT)

    def _apply_sensitivity(self) -> None:
        """Set the rule of the sensitivity, if one is given."""
        if self.sensitivity is None:
            return
        if self.sensitivity not in list(Sensitivity):
            raise UnknownNameError("sensitivity", self.sensitivity, list(Sensitivity))
        rule = Sensitivity(self.sensitivity).rule
        if not self.has_sensitivity:
            msg = (
                f"sensitivity {str(self.sensitivity)!r} does not apply to {self.detector!r}, which decides by"
                f" {self.detector.rule}: set the options of the detector or a rule"
            )
            raise SuiteError(msg)
        if self.rule is not None and self.rule != rule:
            msg = (
                "a monitor has a rule or a sensitivity, not both:"
                f" {self.rule!r}, {self.sensitivity!r}"
            )
            raise SuiteError(msg)
        object.__setattr__(self, "rule", rule)

    @property
    def weighs(self) -> bool:
        """True if large deviations need less evidence: no severity is set, and the rule uses weights."""
        assert self.rule is not None
        return self.severity is None and self.rule.weighted

    @property
    def has_sensitivity(self) -> bool:
        """True if a sensitivity can set the detector's rule."""
        return isinstance(RULES.parse(self.detector.rule), FalseDiscoveryRate)

    def with_default(self, sensitivity: str | None) -> Monitor:
        """Return the monitor with a sensitivity, if it has none and no rule of its own."""
        has_own_rule = self.sensitivity or repr(self.rule) != repr(RULES.parse(self.detector.rule))
        if sensitivity is None or has_own_rule or not self.has_sensitivity:
            return self
        return replace(self, rule=None, sensitivity=sensitivity)

    def watches(self, row: Mapping[str, Any]) -> bool:
        """Return whether a metric row belongs to a monitored series.

        Examples
        --------
        >>> monitor = Monitor({"name": "Completeness"})
        >>> monitor.watches({"name": "Completeness", "kind": "Completeness"})
        True
        >>> monitor.watches({"name": "Size", "kind": "Size"})
        False
        """
        if not self.detector.reads(row):
            return False
        for selector, pattern in self.series.items():
            if selector == "name":
                matches = selects(pattern, row["name"]) or selects(pattern, row["kind"])
            elif selector == "analyzer":
                matches = key_of(canonical_of(pattern)) == row["key"]
            elif selector == "where":
                matches = (pattern.strip() or None) == row["filter"]
            else:
                matches = selects(pattern, row[selector])
            if not matches:
                return False
        return True

    def decide(
        self,
        values: Floats,
        scores: Scores,
        may_alert: NDArray[np.bool_] | None = None,
        previous_sides: Floats | None = None,
        weights: Floats | None = None,
        earlier_scores: Floats | None = None,
    ) -> NDArray[np.bool_]:
        """Return a mask of the anomalies; all arrays are of shape (series, partitions).

        Parameters
        ----------
        values : array of float
            Values of the metrics.
        scores : Scores
            Scores of the monitor's detector.
        may_alert : array of bool, optional
            Mask of the points that may be anomalies; all if not given.
        previous_sides : array of float, shape (series,), optional
            As for `DecisionRule.decide`.
        weights : array of float, optional
            Importance of each deviation. Rules that use weights divide p-values by them.
        earlier_scores : array of float, optional
            Scores of the partitions before. From these and ``scores``, `FalseDiscoveryRate` learns which
            series deviate together.
        """
        assert self.rule is not None
        may_alert = np.ones(values.shape, dtype=bool) if may_alert is None else may_alert.copy()
        with np.errstate(invalid="ignore", over="ignore"):
            if self.direction != Direction.BOTH:
                high = values > np.where(np.isnan(scores.expected), scores.upper, scores.expected)
                may_alert &= high if self.direction == Direction.HIGH else ~high
            if self.least_effect:
                departure = np.abs(values - scores.expected)
                may_alert &= ~(departure < self.least_effect * np.abs(scores.expected))
            score = scores.score
            if weights is not None and self.rule.weighted:
                score = np.where(score > 0, np.maximum(score + np.log10(weights), 0.0), score)
        score = np.where(may_alert, score, np.minimum(score, 0.0))
        weighed = replace(scores, score=score)
        if not isinstance(self.rule, FalseDiscoveryRate):
            return self.rule.decide(values, weighed, previous_sides) & may_alert
        past = scores.score if earlier_scores is None else np.hstack([earlier_scores, scores.score])
        return self.rule.decide(values, weighed, previous_sides, past) & may_alert

    def to_dict(self) -> dict[str, Any]:
        """Return the monitor as stored in a suite; defaults are omitted.

        Examples
        --------
        >>> Monitor({"name": "Size"}, severity="error", direction="low").to_dict()
        {'series': {'name': 'Size'}, 'detector': 'Seasonal()', 'severity': 'error', 'direction': 'low'}
        """
        stored: dict[str, Any] = {
            "series": dict(self.series),
            "detector": repr(self.detector),
        }
        if self.severity is not None:
            stored["severity"] = str(self.severity)
        if self.sensitivity is not None:
            stored["sensitivity"] = str(self.sensitivity)
        elif repr(self.rule) != repr(RULES.parse(self.detector.rule)):
            stored["rule"] = repr(self.rule)
        if self.direction != Direction.BOTH:
            stored["direction"] = str(self.direction)
        if self.least_effect:
            stored["least_effect"] = self.least_effect
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Monitor:
        """Create a monitor from the output of `to_dict`, or from an entry of a suite file.

        Examples
        --------
        >>> Monitor.from_dict({"series": {"name": "Size"}, "detector": "Novelty()"}).rule
        Threshold(score=2.0)
        """
        options = tuple(option.name for option in fields(cls))
        for name in stored:
            if name not in options:
                raise UnknownNameError("option of a monitor", name, options)
        series = stored.get("series", {})
        if not isinstance(series, Mapping):
            msg = f"series must be a mapping such as {{name: Completeness}}, not {series!r}"
            raise SuiteError(msg)
        detector = _build(DETECTORS, stored.get("detector", "Seasonal"))
        rule = _build(RULES, stored["rule"]) if stored.get("rule") else None
        return cls(
            dict(series),
            detector,
            stored.get("severity"),
            rule,
            stored.get("direction", Direction.BOTH),
            stored.get("least_effect", 0.0),
            stored.get("sensitivity"),
        )


def _build(registry: Registry[Any], value: Any) -> Any:
    """Build a detector or rule from its description, or from a mapping of one name to options."""
    if not isinstance(value, Mapping):
        return registry.parse(value) if isinstance(value, str) else value
    if len(value) != 1:
        msg = f"a {registry.kind} must be one name with options, not {value!r}"
        raise SuiteError(msg)
    ((name, options),) = value.items()
    return registry.build(name, options or {})


def selects(pattern: str, name: str) -> bool:
    """Return whether a selector matches a name; ``*`` within it matches any characters, and ``|`` separates choices.

    Examples
    --------
    >>> selects("prices.*", "prices.index"), selects("prices.*", "prices"), selects("*", "prices")
    (True, False, False)
    >>> selects("Size|Completeness", "Size"), selects("Size|Completeness", "Mean"), selects("a|b", "a|b")
    (True, False, True)
    """
    if "|" in pattern and pattern != name:
        return any(selects(choice, name) for choice in pattern.split("|"))
    return pattern == name or (pattern != "*" and "*" in pattern and bool(_pattern(pattern)(name)))


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL).fullmatch


MonitorLike = Detector | Monitor | str
"""A monitor; or a detector or its description, for a monitor of all series."""


def monitors_of(
    monitors: MonitorLike | Iterable[MonitorLike], rule: DecisionRule | str | None = None
) -> list[Monitor]:
    """Convert detectors, descriptions of detectors and monitors to monitors.

    Parameters
    ----------
    monitors : Monitor, Detector, str, or iterable of these
        What to convert.
    rule : DecisionRule or str, optional
        Replaces the rule of each monitor.

    Raises
    ------
    UnknownNameError
        If a detector or rule does not exist; the message suggests the nearest name.
    SuiteError
        If an item has another type.

    Examples
    --------
    >>> [str(monitor.rule) for monitor in monitors_of(["OnlineNormal(2, 2)", "Seasonal"])]
    ['OutsideBand()', 'FalseDiscoveryRate()']
    """
    if isinstance(monitors, Detector | Monitor | str) or not isinstance(monitors, Iterable):
        monitors = [monitors]
    chosen = RULES.parse(rule) if isinstance(rule, str) else rule
    result = []
    for item in monitors:
        if not isinstance(item, Detector | Monitor | str):
            msg = f"a monitor must be a Monitor, a detector or its description, not {item!r}"
            raise SuiteError(msg)
        # Monitor parses the description of a detector.
        monitor = item if isinstance(item, Monitor) else Monitor(detector=item)  # type: ignore[arg-type]
        result.append(
            monitor if chosen is None else replace(monitor, rule=chosen, sensitivity=None)
        )
    return result
