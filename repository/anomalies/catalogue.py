"""All detectors by name: importing this module registers them.

To add a detector, write its module and name it here.
"""

from repository.anomalies.arrivals import Late, MissingPartition
from repository.anomalies.changes import ChangePoint, SlowDrift
from repository.anomalies.contents import Multivariate, Restatement, SchemaChange, StalePartition
from repository.anomalies.deequ import (
    AbsoluteChange,
    BatchNormal,
    OnlineNormal,
    RelativeRateOfChange,
    SimpleThreshold,
)
from repository.anomalies.detector import DETECTORS, Detector
from repository.anomalies.drifting import Drift
from repository.anomalies.holt_winters import HoltWinters
from repository.anomalies.novelty import Novelty
from repository.anomalies.seasonal import Seasonal

__all__ = [
    "DETECTORS",
    "AbsoluteChange",
    "BatchNormal",
    "ChangePoint",
    "Detector",
    "Drift",
    "HoltWinters",
    "Late",
    "MissingPartition",
    "Multivariate",
    "Novelty",
    "OnlineNormal",
    "RelativeRateOfChange",
    "Restatement",
    "SchemaChange",
    "Seasonal",
    "SimpleThreshold",
    "SlowDrift",
    "StalePartition",
]
