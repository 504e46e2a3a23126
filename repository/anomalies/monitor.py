"""Monitors: which detector watches which series, what counts as an anomaly, and how grave it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.description import Registry, key_of
from analyzers.errors import SuiteError, UnknownNameError
from repository.anomalies.catalogue import DETECTORS
from repository.anomalies.detector import Detector, Scores
from repository.anomalies.rules import RULES, Rule
from repository.anomalies.seasonal import Seasonal
from repository.history import canonical_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

SELECTORS = ("name", "instance", "segment", "where", "analyzer")


_EFFECT = "least_effect is a share of the expected value, such as 0.1"


class Severity(StrEnum):
    """How grave an anomaly is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Direction(StrEnum):
    """Which departures count."""

    BOTH = "both"
    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True)
class Monitor:
    """A detector on some series.

    Parameters
    ----------
    series : mapping of str to str
        Which series, by ``name``, ``instance``, ``segment``, ``where`` and ``analyzer``; all if empty.
    detector : Detector or str
        The detector, or its text, as in ``OnlineNormal(2, 2)``.
    severity : str
        ``info``, ``warning`` or ``error``.
    rule : Rule or str, optional
        What counts as an anomaly, as in ``Threshold(4)``, ``PValue(0.001)``, ``FalseDiscoveryRate(0.05)``
        or ``OutsideBand()``; the detector's own if not given.
    direction : str
        ``both``, ``high`` or ``low``: whether values count that are above what was expected, below, or
        either.
    least_effect : float
        Smaller departures do not count: a share of the expected value, 0.1 for a tenth.

    Examples
    --------
    >>> Monitor({"name": "Completeness"}, "OnlineNormal", "error").detector
    OnlineNormal()
    """

    series: Mapping[str, str] = field(default_factory=dict)
    detector: Detector = field(default_factory=Seasonal)
    severity: str = Severity.WARNING
    rule: Rule | None = None
    direction: str = Direction.BOTH
    least_effect: float = 0.0

    def __post_init__(self) -> None:
        for selector, wanted in self.series.items():
            if selector not in SELECTORS:
                raise UnknownNameError("selector of series", selector, SELECTORS)
            if not isinstance(wanted, str):
                msg = f"series: {selector} is one text, not {wanted!r}"
                raise SuiteError(msg)
            if selector == "analyzer":
                canonical_of(wanted)
        self._complete()

    def _complete(self) -> None:
        """Read what was given as text, and check the rest."""
        set_ = object.__setattr__
        if isinstance(self.detector, str):
            set_(self, "detector", DETECTORS.parse(self.detector))
        if isinstance(self.rule, str):
            set_(self, "rule", RULES.parse(self.rule))
        elif self.rule is None:
            set_(self, "rule", RULES.parse(self.detector.rule))
        if self.severity not in list(Severity):
            raise UnknownNameError("severity", self.severity, list(Severity))
        if self.direction not in list(Direction):
            raise UnknownNameError("direction", self.direction, list(Direction))
        try:
            set_(self, "least_effect", float(self.least_effect))
        except (TypeError, ValueError) as error:
            raise SuiteError(_EFFECT) from error
        if not self.least_effect >= 0:
            raise SuiteError(_EFFECT)

    def watches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of metrics belongs to a series that is watched."""
        if not self.detector.reads(row):
            return False
        for selector, wanted in self.series.items():
            if selector == "name":
                matches = wanted in {row["name"], row["kind"]}
            elif selector == "analyzer":
                matches = key_of(canonical_of(wanted)) == row["key"]
            elif selector == "where":
                matches = (wanted.strip() or None) == row["filter"]
            else:
                matches = row[selector] == wanted
            if not matches:
                return False
        return True

    def decide(
        self,
        values: Floats,
        scores: Scores,
        may: NDArray[np.bool_] | None = None,
        before: Floats | None = None,
    ) -> NDArray[np.bool_]:
        """Return which points are anomalies; all arrays are of shape (series, partitions).

        Parameters
        ----------
        values : array of float
        scores : Scores
        may : array of bool, optional
            Which points may be anomalies at all.
        before : array of float, shape (series,), optional
            As for `Rule.decide`.
        """
        assert self.rule is not None
        may = np.ones(values.shape, dtype=bool) if may is None else may.copy()
        with np.errstate(invalid="ignore", over="ignore"):
            if self.direction != Direction.BOTH:
                high = values > np.where(np.isnan(scores.expected), scores.upper, scores.expected)
                may &= high if self.direction == Direction.HIGH else ~high
            if self.least_effect:
                off = np.abs(values - scores.expected)
                may &= ~(off < self.least_effect * np.abs(scores.expected))
        score = np.where(may, scores.score, np.minimum(scores.score, 0.0))
        return self.rule.decide(values, replace(scores, score=score), before) & may

    def to_dict(self) -> dict[str, Any]:
        """Return it as a suite stores it."""
        stored: dict[str, Any] = {
            "series": dict(self.series),
            "detector": repr(self.detector),
            "severity": str(self.severity),
        }
        if repr(self.rule) != repr(RULES.parse(self.detector.rule)):
            stored["rule"] = repr(self.rule)
        if self.direction != Direction.BOTH:
            stored["direction"] = str(self.direction)
        if self.least_effect:
            stored["least_effect"] = self.least_effect
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Monitor:
        """Read what `to_dict` wrote, or a suite file says."""
        known = ("series", "detector", "severity", "rule", "direction", "least_effect")
        for name in stored:
            if name not in known:
                raise UnknownNameError("option of a monitor", name, known)
        series = stored.get("series", {})
        if not isinstance(series, Mapping):
            msg = f"series is a mapping such as {{name: Completeness}}, not {series!r}"
            raise SuiteError(msg)
        detector = _built(DETECTORS, stored.get("detector", "Seasonal"))
        rule = _built(RULES, stored["rule"]) if stored.get("rule") else None
        return cls(
            dict(series),
            detector,
            stored.get("severity", Severity.WARNING),
            rule,
            stored.get("direction", Direction.BOTH),
            stored.get("least_effect", 0.0),
        )


def _built(registry: Registry[Any], given: Any) -> Any:
    """Return what a text, or a mapping of one name to options, describes."""
    if not isinstance(given, Mapping):
        return registry.parse(given) if isinstance(given, str) else given
    if len(given) != 1:
        msg = f"a {registry.kind} is one name with options, not {given!r}"
        raise SuiteError(msg)
    ((name, options),) = given.items()
    return registry.build(name, options or {})
