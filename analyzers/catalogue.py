"""All analyzers by name: importing this module registers them.

To add an analyzer, write its module and name it here.
"""

from analyzers.analyzer import ANALYZERS, Analyzer
from analyzers.cardinality import ApproxCountDistinct
from analyzers.counts import Completeness, Compliance, Size
from analyzers.extremes import Maximum, Minimum
from analyzers.histogram import Histogram
from analyzers.moments import Mean, StandardDeviation, Sum
from analyzers.quantiles import ApproxQuantile, ApproxQuantiles
from analyzers.uniqueness import CountDistinct, Distinctness, Uniqueness

__all__ = [
    "ANALYZERS",
    "Analyzer",
    "ApproxCountDistinct",
    "ApproxQuantile",
    "ApproxQuantiles",
    "Completeness",
    "Compliance",
    "CountDistinct",
    "Distinctness",
    "Histogram",
    "Maximum",
    "Mean",
    "Minimum",
    "Size",
    "StandardDeviation",
    "Sum",
    "Uniqueness",
]
