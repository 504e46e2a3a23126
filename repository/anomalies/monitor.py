"""Monitors: which detector watches which series, and how grave it is when it finds something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from analyzers.description import key_of
from analyzers.errors import SuiteError, UnknownNameError
from repository.anomalies.catalogue import DETECTORS
from repository.anomalies.detector import Detector
from repository.anomalies.rules import FalseDiscoveryRate, OutsideBand, Rule
from repository.anomalies.seasonal import Seasonal
from repository.history import canonical_of

SELECTORS = ("name", "instance", "segment", "where", "analyzer")


class Severity(StrEnum):
    """How grave an anomaly is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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

    Examples
    --------
    >>> Monitor({"name": "Completeness"}, "OnlineNormal", "error").detector
    OnlineNormal()
    """

    series: Mapping[str, str] = field(default_factory=dict)
    detector: Detector = field(default_factory=Seasonal)
    severity: str = Severity.WARNING

    def __post_init__(self) -> None:
        for selector, wanted in self.series.items():
            if selector not in SELECTORS:
                raise UnknownNameError("selector of series", selector, SELECTORS)
            if not isinstance(wanted, str):
                msg = f"series: {selector} is one text, not {wanted!r}"
                raise SuiteError(msg)
            if selector == "analyzer":
                canonical_of(wanted)
        if isinstance(self.detector, str):
            object.__setattr__(self, "detector", DETECTORS.parse(self.detector))
        if self.severity not in list(Severity):
            raise UnknownNameError("severity", self.severity, list(Severity))

    @property
    def rule(self) -> Rule:
        """The rule that decides: the seasonal detector's p-values share one, others have a band."""
        return FalseDiscoveryRate() if isinstance(self.detector, Seasonal) else OutsideBand()

    def watches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of metrics belongs to a series that is watched."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return it as a suite stores it."""
        return {
            "series": dict(self.series),
            "detector": repr(self.detector),
            "severity": str(self.severity),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Monitor:
        """Read what `to_dict` wrote, or a suite file says."""
        known = ("series", "detector", "severity")
        for name in stored:
            if name not in known:
                raise UnknownNameError("option of a monitor", name, known)
        series = stored.get("series", {})
        if not isinstance(series, Mapping):
            msg = f"series is a mapping such as {{name: Completeness}}, not {series!r}"
            raise SuiteError(msg)
        detector = stored.get("detector", "Seasonal")
        if isinstance(detector, Mapping):
            if len(detector) != 1:
                msg = f"a detector is one name with options, not {detector!r}"
                raise SuiteError(msg)
            ((name, options),) = detector.items()
            detector = DETECTORS.build(name, options or {})
        return cls(dict(series), detector, stored.get("severity", Severity.WARNING))
