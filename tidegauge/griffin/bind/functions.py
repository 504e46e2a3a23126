"""Aggregate functions of Spark, and functions that rules may not call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_construct_agg",
        "bitmap_and_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_json_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "var_pop",
        "var_samp",
        "variance",
    ]
)
"""Aggregate functions, in lower case."""

REFUSED = frozenset({
    "java_method", "reflect", "try_reflect",  # call any method of the JVM
    "ai_query", "http_request", "remote_query",  # of extensions: reach out of the session
})  # fmt: skip
"""Functions with effects beyond computation."""

SYNTAX = {
    "case": "if(condition, a, b)",
    "cast": "a type's name as a function, as in int(x) or string(x)",
    "extract": "date_part('year', x)",
}
"""Names in Spark's function list with their own syntax, and the function call to use instead."""


def known_functions(spark: SparkSession) -> frozenset[str]:
    """Return the session's function names in lower case, user-defined ones included."""
    return frozenset(row[0].casefold() for row in spark.sql("SHOW FUNCTIONS").collect())
