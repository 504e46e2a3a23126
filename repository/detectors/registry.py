"""Registry of the built-in detectors, by the module that defines them."""

DETECTOR_MODULES: dict[str, tuple[str, ...]] = {
    "tidegauge.repository.detectors.changes": (
        "ChangePoint",
        "Drift",
        "SlowDrift",
        "VolatilityShift",
    ),
    "tidegauge.repository.detectors.deequ": (
        "AbsoluteChange",
        "BatchNormal",
        "HoltWinters",
        "OnlineNormal",
        "RelativeRateOfChange",
        "SimpleThreshold",
    ),
    "tidegauge.repository.detectors.novelty": ("Novelty",),
    "tidegauge.repository.detectors.seasonal": ("Seasonal",),
    "tidegauge.repository.detectors.whole_partitions": (
        "EmptyMetrics",
        "Late",
        "MissingPartition",
        "Multivariate",
        "Restatement",
        "SchemaChange",
        "StalePartition",
    ),
}
"""Detector names by module; list a new detector here."""
MISSING_PARTITION = "MissingPartition"
"""The name of its detector and series; readers of history compare it without importing the detector."""
