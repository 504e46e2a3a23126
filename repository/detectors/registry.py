"""Registry of the built-in detectors, by the module that defines them."""

DETECTOR_MODULES: dict[str, tuple[str, ...]] = {
    "tidegauge.repository.detectors.arrivals": (
        "Late",
        "MissingPartition",
    ),
    "tidegauge.repository.detectors.changes": (
        "ChangePoint",
        "SlowDrift",
        "VolatilityShift",
    ),
    "tidegauge.repository.detectors.contents": (
        "EmptyMetrics",
        "Multivariate",
        "Restatement",
        "SchemaChange",
        "StalePartition",
    ),
    "tidegauge.repository.detectors.deequ": (
        "AbsoluteChange",
        "BatchNormal",
        "OnlineNormal",
        "RelativeRateOfChange",
        "SimpleThreshold",
    ),
    "tidegauge.repository.detectors.drift": ("Drift",),
    "tidegauge.repository.detectors.holt_winters": ("HoltWinters",),
    "tidegauge.repository.detectors.novelty": ("Novelty",),
    "tidegauge.repository.detectors.seasonal": ("Seasonal",),
}
"""Detector names by module; list a new detector here."""
MISSING_PARTITION = "MissingPartition"
"""The name of its detector and series; readers of history compare it without importing the detector."""
