"""Tidegauge: measure tables once, remember for ever, and tell a storm surge from a spring tide.

>>> import tidegauge as tg
>>> tg.Completeness("email")
Completeness('email')

Names are looked up when they are first used, so importing this takes neither Spark nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzers.analyzer import Analyzer as Analyzer
    from analyzers.cardinality import ApproxCountDistinct as ApproxCountDistinct
    from analyzers.counts import Completeness as Completeness
    from analyzers.counts import Compliance as Compliance
    from analyzers.counts import NumMatches as NumMatches
    from analyzers.counts import NumMatchesAndCount as NumMatchesAndCount
    from analyzers.counts import Size as Size
    from analyzers.extremes import Maximum as Maximum
    from analyzers.extremes import Minimum as Minimum
    from analyzers.frequencies import FrequenciesAndNumRows as FrequenciesAndNumRows
    from analyzers.histogram import Histogram as Histogram
    from analyzers.metric import DoubleMetric as DoubleMetric
    from analyzers.metric import Entity as Entity
    from analyzers.metric import Failure as Failure
    from analyzers.metric import KeyedDoubleMetric as KeyedDoubleMetric
    from analyzers.metric import Metric as Metric
    from analyzers.metric import Scale as Scale
    from analyzers.metric import Success as Success
    from analyzers.metric import flatten as flatten
    from analyzers.moments import Mean as Mean
    from analyzers.moments import StandardDeviation as StandardDeviation
    from analyzers.moments import Sum as Sum
    from analyzers.providers import InMemoryStateProvider as InMemoryStateProvider
    from analyzers.quantiles import ApproxQuantile as ApproxQuantile
    from analyzers.quantiles import ApproxQuantiles as ApproxQuantiles
    from analyzers.scan import calculate as calculate
    from analyzers.state import DoubleValuedState as DoubleValuedState
    from analyzers.state import State as State
    from analyzers.uniqueness import CountDistinct as CountDistinct
    from analyzers.uniqueness import Distinctness as Distinctness
    from analyzers.uniqueness import Uniqueness as Uniqueness
    from repository.anomalies.monitor import Monitor as Monitor
    from repository.anomalies.seasonal import Seasonal as Seasonal
    from repository.anomalies.simple import OnlineNormal as OnlineNormal
    from repository.anomalies.simple import SimpleThreshold as SimpleThreshold
    from repository.repository import Repository as Repository
    from tidegauge.analysis import Run as Run
    from tidegauge.analysis import analyze as analyze
    from tidegauge.session import spark_session as spark_session
    from tidegauge.suite import Suite as Suite
    from tidegauge.suitefile import load_suite as load_suite

__version__ = "0.1.0"

_HOMES = {
    "analyzers.analyzer": ["Analyzer"],
    "analyzers.cardinality": ["ApproxCountDistinct"],
    "analyzers.counts": ["Completeness", "Compliance", "NumMatches", "NumMatchesAndCount", "Size"],
    "analyzers.errors": [
        "CorruptStateError",
        "DatabaseAccessError",
        "DatabaseVersionError",
        "DatasetMismatchError",
        "EmptyStateError",
        "HistoryError",
        "IllegalAnalyzerParameterError",
        "MetricError",
        "MetricRuntimeError",
        "NoColumnsSpecifiedError",
        "NoSuchColumnError",
        "NoSuchTableError",
        "NotOurDatabaseError",
        "PartitionColumnError",
        "PartitionSelectionError",
        "PreconditionError",
        "RepositoryError",
        "SourceError",
        "StateError",
        "StateMismatchError",
        "SuiteError",
        "TidegaugeError",
        "UnknownDatasetError",
        "UnknownNameError",
        "UnknownStateTagError",
        "UnresolvedExpressionError",
        "WrongColumnTypeError",
    ],
    "analyzers.extremes": ["Maximum", "Minimum"],
    "analyzers.frequencies": ["FrequenciesAndNumRows"],
    "analyzers.histogram": ["Histogram"],
    "analyzers.metric": [
        "DoubleMetric",
        "Entity",
        "Failure",
        "KeyedDoubleMetric",
        "Metric",
        "Scale",
        "Success",
        "flatten",
    ],
    "analyzers.moments": ["Mean", "StandardDeviation", "Sum"],
    "analyzers.providers": ["InMemoryStateProvider"],
    "analyzers.quantiles": ["ApproxQuantile", "ApproxQuantiles"],
    "analyzers.scan": ["calculate"],
    "analyzers.state": ["DoubleValuedState", "State"],
    "analyzers.uniqueness": ["CountDistinct", "Distinctness", "Uniqueness"],
    "repository.anomalies.monitor": ["Monitor"],
    "repository.anomalies.seasonal": ["Seasonal"],
    "repository.anomalies.simple": ["OnlineNormal", "SimpleThreshold"],
    "repository.repository": ["Repository"],
    "tidegauge.analysis": ["Run", "analyze"],
    "tidegauge.session": ["spark_session"],
    "tidegauge.suite": ["Suite"],
    "tidegauge.suitefile": ["load_suite"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605 - a list of text, made of the table above


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'tidegauge' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
