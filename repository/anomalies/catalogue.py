"""All detectors by name: importing this module registers them.

To add a detector, write its module and name it here.
"""

from repository.anomalies.detector import DETECTORS, Detector
from repository.anomalies.seasonal import Seasonal
from repository.anomalies.simple import OnlineNormal, SimpleThreshold

__all__ = ["DETECTORS", "Detector", "OnlineNormal", "Seasonal", "SimpleThreshold"]
