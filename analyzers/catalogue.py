"""All analyzers by name: importing this module registers them.

To add an analyzer, write its module and name it here.
"""

from analyzers.analyzer import ANALYZERS, Analyzer
from analyzers.bins import HistogramBinned, KLLSketch
from analyzers.cardinality import ApproxCountDistinct
from analyzers.columns import ColumnCount, ColumnExists
from analyzers.consistency.distributions import (
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
)
from analyzers.consistency.maps import ConsistencyKeys
from analyzers.consistency.measures import ConsistencyCells, ConsistencyRows
from analyzers.consistency.numbers import ConsistencyNumbers
from analyzers.counts import Completeness, Compliance, Size, ZerosCount
from analyzers.custom import CustomSql
from analyzers.exact_quantiles import ExactQuantile, InterquartileRange
from analyzers.extremes import Maximum, Minimum, Range
from analyzers.griffin.measures.accuracy import GriffinAccuracy
from analyzers.griffin.measures.keys import (
    GriffinDistinctness,
    GriffinDuplication,
    GriffinUniqueness,
)
from analyzers.griffin.measures.profiling import GriffinProfiling
from analyzers.griffin.measures.rows import GriffinCompleteness, GriffinConformance
from analyzers.griffin.measures.timeliness import GriffinTimeliness
from analyzers.histogram import Histogram
from analyzers.information import Entropy, MutualInformation
from analyzers.moments import Correlation, Kurtosis, Skewness, StandardDeviation, Variance
from analyzers.quantiles import ApproxQuantile, ApproxQuantiles
from analyzers.references import DatasetMatch, ReferentialIntegrity
from analyzers.req import ReqQuantile
from analyzers.rules.measures import (
    FixCount,
    FixCountRatio,
    RecordRules,
    RuleRejects,
    RuleRejectsRatio,
    RuleUnknown,
    RuleUnknownRatio,
    RuleViolations,
    RuleViolationsRatio,
)
from analyzers.rules.parser_measures import ParserRejects, ParserRejectsRatio
from analyzers.sums import Mean, RatioOfSums, Sum
from analyzers.texts import DataType, MaxLength, MinLength, PatternMatch
from analyzers.times import Freshness, MaxTime, MinTime
from analyzers.top_values import TopValues
from analyzers.tuples import ApproxDistinctness, ApproxUniqueness, ApproxUniqueValueRatio
from analyzers.uniqueness import (
    CountDistinct,
    Distinctness,
    DuplicateRowCount,
    Uniqueness,
    UniqueValueRatio,
)

__all__ = [
    "ANALYZERS",
    "Analyzer",
    "ApproxCountDistinct",
    "ApproxDistinctness",
    "ApproxQuantile",
    "ApproxQuantiles",
    "ApproxUniqueValueRatio",
    "ApproxUniqueness",
    "ColumnCount",
    "ColumnExists",
    "Completeness",
    "Compliance",
    "ConsistencyCells",
    "ConsistencyDistribution",
    "ConsistencyEdits",
    "ConsistencyEditsSkipped",
    "ConsistencyKeys",
    "ConsistencyNumbers",
    "ConsistencyRows",
    "Correlation",
    "CountDistinct",
    "CustomSql",
    "DataType",
    "DatasetMatch",
    "Distinctness",
    "DuplicateRowCount",
    "Entropy",
    "ExactQuantile",
    "FixCount",
    "FixCountRatio",
    "Freshness",
    "GriffinAccuracy",
    "GriffinCompleteness",
    "GriffinConformance",
    "GriffinDistinctness",
    "GriffinDuplication",
    "GriffinProfiling",
    "GriffinTimeliness",
    "GriffinUniqueness",
    "Histogram",
    "HistogramBinned",
    "InterquartileRange",
    "KLLSketch",
    "Kurtosis",
    "MaxLength",
    "MaxTime",
    "Maximum",
    "Mean",
    "MinLength",
    "MinTime",
    "Minimum",
    "MutualInformation",
    "ParserRejects",
    "ParserRejectsRatio",
    "PatternMatch",
    "Range",
    "RatioOfSums",
    "RecordRules",
    "ReferentialIntegrity",
    "ReqQuantile",
    "RuleRejects",
    "RuleRejectsRatio",
    "RuleUnknown",
    "RuleUnknownRatio",
    "RuleViolations",
    "RuleViolationsRatio",
    "Size",
    "Skewness",
    "StandardDeviation",
    "Sum",
    "TopValues",
    "UniqueValueRatio",
    "Uniqueness",
    "Variance",
    "ZerosCount",
]
