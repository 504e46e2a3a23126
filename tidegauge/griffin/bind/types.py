"""Functions of Spark and types of bound expressions, as far as rules need them.

Aggregate functions, functions that rules may not call, and type inference without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.griffin.dsl.nodes import (
    Aliased,
    Attribute,
    BetweenNode,
    Binary,
    Boolean,
    Call,
    ColumnNode,
    DurationNode,
    Expression,
    In,
    IsNaN,
    IsNull,
    LikeNode,
    NaN,
    Number,
    Text,
    Unary,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AGGREGATE_FUNCTIONS = frozenset(
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

FORBIDDEN_FUNCTIONS = frozenset({
    "java_method", "reflect", "try_reflect",  # call any method of the JVM
    "ai_query", "http_request", "remote_query",  # of extensions: reach out of the session
})  # fmt: skip
"""Functions with effects beyond computation."""

CALL_BY_SYNTAX_NAME = {
    "case": "if(condition, a, b)",
    "cast": "a type's name as a function, as in int(x) or string(x)",
    "extract": "date_part('year', x)",
}
"""Names in Spark's function list with their own syntax, and the function call to use instead."""


def known_functions(spark: SparkSession) -> frozenset[str]:
    """Return the session's function names in lower case, user-defined ones included."""
    return frozenset(row[0].casefold() for row in spark.sql("SHOW FUNCTIONS").collect())


ARITHMETIC_OPERATORS = frozenset("+-*/%")
NESTED_KINDS = frozenset({"array", "map", "struct"})
_ARGUMENT_TYPE_FUNCTIONS = frozenset({"abs", "any_value", "first", "last", "max", "min"})
_RESULT_TYPES = {
    "count": "long", "count_if": "long", "length": "integer", "size": "integer",
    "upper": "string", "lower": "string", "trim": "string",
    "string": "string", "double": "double", "int": "integer", "bigint": "long", "boolean": "boolean",
    "to_timestamp": "timestamp", "timestamp": "timestamp", "current_timestamp": "timestamp", "now": "timestamp",
    "to_date": "date", "date": "date", "current_date": "date", "unix_millis": "long", "unix_timestamp": "long",
}  # fmt: skip


def type_of(node: Expression) -> Any:  # noqa: C901, PLR0911 - one for each kind of node
    """Return a bound expression's type in Spark's JSON form, or None if it is unknown."""
    match node:
        case ColumnNode():
            return node.type
        case Aliased():
            return type_of(node.expression)
        case Attribute():
            return _field(type_of(node.container), node.name)
        case Call(name="get" | "try_element_at", arguments=(container, _)):
            inner = type_of(container)
            if isinstance(inner, Mapping):
                return inner.get("elementType", inner.get("valueType"))
            return None
        case Call():
            name = node.name.casefold()
            if name in _ARGUMENT_TYPE_FUNCTIONS and node.arguments:
                return type_of(node.arguments[0])
            return _RESULT_TYPES.get(name)
        case Text():
            return "string"
        case Number():
            return "decimal" if node.value.as_tuple().exponent != 0 else "long"
        case DurationNode():
            return "long"
        case NaN():
            return "double"
        case _:
            return _operator_type(node)


def _operator_type(node: Expression) -> Any:
    match node:
        case Boolean() | In() | BetweenNode() | LikeNode() | IsNull() | IsNaN():
            return "boolean"
        case Unary():
            return "boolean" if node.operator == "not" else type_of(node.operand)
        case Binary() if node.operator in ARITHMETIC_OPERATORS:
            return None
        case Binary():
            return "boolean"
        case _:
            return None


def kind_of(node: Expression) -> str | None:
    """Return a type without parameters, such as ``decimal`` or ``map``; None if it is unknown."""
    data_type = type_of(node)
    if isinstance(data_type, Mapping):
        return str(data_type["type"])
    return None if data_type is None else str(data_type).partition("(")[0].partition(" ")[0]


def value_kind(node: Expression) -> str | None:
    """Return what an expression is if it is certainly not true or false, else None.

    Examples
    --------
    >>> from decimal import Decimal
    >>> value_kind(Number(Decimal(1))), value_kind(Boolean(True))
    ('of type long', None)
    """
    value = node.expression if isinstance(node, Aliased) else node
    if isinstance(value, Binary) and value.operator in ARITHMETIC_OPERATORS:
        return f"the result of {value.operator}"
    if isinstance(value, Unary) and value.operator != "not":
        return "a number"
    kind = kind_of(value)
    return None if kind in {None, "boolean", "void"} else f"of type {kind}"


def fields_of(data_type: Any) -> list[str]:
    """Return the field names of a struct, or of the structs in an array."""
    if isinstance(data_type, Mapping) and data_type["type"] == "array":
        data_type = data_type["elementType"]
    if isinstance(data_type, Mapping) and data_type["type"] == "struct":
        return [field["name"] for field in data_type["fields"]]
    return []


def _field(data_type: Any, name: str) -> Any:
    if isinstance(data_type, Mapping) and data_type["type"] == "array":
        inner = _field(data_type["elementType"], name)
        return None if inner is None else {"type": "array", "elementType": inner}
    if isinstance(data_type, Mapping) and data_type["type"] == "struct":
        return next((f["type"] for f in data_type["fields"] if f["name"] == name), None)
    return None
