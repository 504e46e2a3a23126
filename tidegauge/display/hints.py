"""Help at a prompt: readable signatures, and hints for unknown names.

Signatures show types without quotation marks, for ``?`` in Jupyter and `help`. For a name of Deequ or Great
Expectations, the hint is the equivalent code.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

_CODE_BY_FOREIGN_NAME = {
    "AnalysisRunner": "tg.calculate(data, [tg.Size(), ...])",
    "AnalyzerContext": "tg.calculate(data, analyzers).frame() or .json()",
    "AnomalyCheckConfig": "tg.Check(...).is_usual(analyzer, detector)",
    "Checkpoint": "tg.verify(data, check), or tidegauge check suite.yml",
    "CheckLevel": "tg.Check(name, 'error') or 'warning'",
    "ColumnProfilerRunner": "tg.profile(table)",
    "ConstraintSuggestionRunner": "tg.suggest(data)",
    "DataSynchronization": "tg.ColumnMatch(columns, table, keys) or tg.DatasetMatch(columns, table)",
    "DatasetMatchAnalyzer": "tg.DatasetMatch(columns, table) or tg.ColumnMatch(columns, table, keys)",
    "Distance": "repo.drift(dataset, column, before, after)",
    "ExpectationSuite": "tg.Check(name)",
    "FileSystemMetricsRepository": "tg.Repository('sqlite:///metrics.db')",
    "HdfsStateProvider": "tg.FileSystemStateProvider('hdfs://...')",
    "InMemoryMetricsRepository": "tg.Repository('sqlite://')",
    "PatternMatchRegex": "tg.PatternMatch(column, 'EMAIL')",
    "RateOfChange": "tg.AbsoluteChange or tg.RelativeRateOfChange",
    "ResultKey": "tg.analyze(data, suite, partition={'ds': '2024-01-05'}, tags={...})",
    "VerificationResult": "tg.verify(data, check).frame()",
    "VerificationSuite": "tg.verify(data, tg.Check(name).is_complete('id'))",
    "UnexpectedRowsExpectation": "tg.Check(name).satisfies(condition, name); found.rows(check)",
    "addConstraint": "with_constraint(constraint)",
    "customSql": "has(tg.CustomSql(query), assertion)",
    "doesDatasetMatch": "has_column_match(columns, table, keys), or has(tg.DatasetMatch(columns, table), 1)",
    "get_context": "tg.Repository('sqlite:///metrics.db')",
    "isNewestPointNonAnomalous": "is_usual(analyzer, detector)",
    "kllSketchSatisfies": "has(tg.KLLSketch(column), assertion)",
}
_METHOD_BY_EXPECTATION = {
    "column_to_exist": "has_column(column)",
    "column_values_to_not_be_null": "is_complete(column)",
    "column_values_to_be_unique": "is_unique(column)",
    "column_values_to_be_null": "has_completeness(column, (0, 0))",
    "column_values_to_not_match_regex": "has(tg.PatternMatch(column, pattern), (0, 0))",
    "column_values_to_be_of_type": "has_schema('column TYPE')",
    "column_values_to_be_in_type_list": "has_schema('column TYPE')",
    "column_value_lengths_to_be_between": "has_min_length(column, n) and has_max_length(column, (0, n))",
    "column_value_lengths_to_equal": "has_min_length(column, n) and has_max_length(column, (0, n))",
    "column_distinct_values_to_be_in_set": "is_contained_in(column, values)",
    "column_distinct_values_to_contain_set": "has_values(column, values)",
    "column_distinct_values_to_equal_set": "is_contained_in(column, values) and has_values(column, values)",
    "column_unique_value_count_to_be_between": "has_number_of_distinct_values(column, (lower, upper))",
    "column_proportion_of_unique_values_to_be_between": "has_distinctness(column, (lower, upper))",
    "column_quantile_values_to_be_between": "has_exact_quantile(column, quantile, (lower, upper))",
    "column_kl_divergence_to_be_less_than": "has_not_drifted(column, '28d', 'js', (0, 0.1))",
    "column_pair_values_to_be_equal": "satisfies('a <=> b', name)",
    "column_pair_values_a_to_be_greater_than_b": "is_greater_than(a, b)",
    "compound_columns_to_be_unique": "are_unique(columns)",
    "column_values_to_be_in_set": "is_contained_in(column, values)",
    "column_values_to_be_between": "is_contained_in(column, lower=, upper=)",
    "column_values_to_match_regex": "has_pattern(column, pattern)",
    "table_row_count_to_be_between": "has_size((lower, upper))",
    "table_row_count_to_equal": "has_size(number)",
    "table_row_count_to_equal_other_table": "has_size_of(table)",
    "table_columns_to_match_ordered_list": "has_schema(columns, extra=False, ordered=True)",
    "table_columns_to_match_set": "has_schema(columns, extra=False)",
    "table_column_count_to_equal": "has_column_count(number)",
    "table_column_count_to_be_between": "has_column_count((lower, upper))",
    "query_results_to_match_comparison": "has_same_result(query, other)",
    "column_mean_to_be_between": "has_mean(column, (lower, upper))",
    "column_min_to_be_between": "has_min(column, (lower, upper))",
    "column_max_to_be_between": "has_max(column, (lower, upper))",
    "column_sum_to_be_between": "has_sum(column, (lower, upper))",
    "column_stdev_to_be_between": "has_standard_deviation(column, (lower, upper))",
    "column_median_to_be_between": "has_exact_quantile(column, 0.5, (lower, upper))",
}


def hint(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: the equivalent code, or the nearest name; empty if there is none.

    Examples
    --------
    >>> hint("VerificationSuite", [])
    "write tg.verify(data, tg.Check(name).is_complete('id'))"
    >>> hint("ExpectColumnValuesToNotBeNull", [])
    'write tg.Check(name).is_complete(column)'
    >>> hint("Completness", ["Compliance", "Completeness"])
    "did you mean 'Completeness'?"
    >>> hint("isComplete", ["is_complete", "is_unique"])
    "did you mean 'is_complete'?"
    """
    from tidegauge.analyzers.core.errors import (
        nearest,  # imported late: `import tidegauge` does not need it
    )

    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if snake.startswith("expect_"):
        method = _METHOD_BY_EXPECTATION.get(snake.removeprefix("expect_"))
        return (
            f"write tg.Check(name).{method}" if method else "expectations are methods of tg.Check"
        )
    code = _CODE_BY_FOREIGN_NAME.get(name) or _CODE_BY_FOREIGN_NAME.get(
        name.removesuffix("Strategy")
    )
    if code:
        return f"write {code}"
    names = list(names)
    if snake in names:
        return f"did you mean {snake!r}?"
    close = nearest(name, names) or nearest(name.removesuffix("Strategy"), names)
    return f"did you mean {close!r}?" if close else ""


_UNQUOTED_MODULES: set[str] = set()


class _UnquotedAnnotation(str):
    """An annotation whose repr has no quotation marks; `typing.get_type_hints` reads it like a string."""

    __slots__ = ()
    __repr__ = str.__str__


def readable(get_attribute: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that also makes the signatures of a name's module readable.

    Annotations are strings, because their types are imported only when they are used. `inspect.signature`
    would show each of them in quotation marks.

    Examples
    --------
    >>> import inspect, tidegauge as tg
    >>> inspect.signature(tg.Completeness)
    <Signature (column: str, *, where: str | None = None) -> None>
    """

    def attribute(name: str) -> Any:
        value = get_attribute(name)
        for kind in getattr(value, "__mro__", (value,)):
            module = getattr(kind, "__module__", None)
            if isinstance(module, str) and module.startswith("tidegauge"):
                _unquote_module(module)
        return value

    return attribute


def with_hints(
    get_attribute: Callable[[str], Any], package: str, public: list[str]
) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` whose error for an unknown name ends with a hint.

    Examples
    --------
    >>> import tidegauge as tg
    >>> tg.consistency.cmpare
    Traceback (most recent call last):
    AttributeError: tidegauge.consistency has no 'cmpare'; did you mean 'compare'?
    """
    get_readable = readable(get_attribute)

    def attribute(name: str) -> Any:
        try:
            return get_readable(name)
        except AttributeError as error:
            suggestion = "" if name.startswith("_") else hint(name, public)
            if not suggestion:
                raise
            msg = f"{package} has no {name!r}; {suggestion}"
            raise AttributeError(msg, name=name) from error

    return attribute


def _unquote_module(name: str) -> None:
    if name in _UNQUOTED_MODULES:
        return
    _UNQUOTED_MODULES.add(name)
    defined_here = [
        value for value in vars(sys.modules[name]).values() if _module_of(value) == name
    ]
    for value in defined_here:
        members = vars(value).values() if inspect.isclass(value) else (value,)
        for member in members:
            _unquote(member)


def _module_of(value: object) -> object:
    return getattr(value, "__module__", None)


def _unquote(member: Any) -> None:
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, functools.cached_property):
        member = member.func
    member = getattr(member, "__func__", member)
    signature = getattr(member, "__signature__", None)
    if isinstance(signature, inspect.Signature):  # methods that list their filters as keywords
        parameters = [
            p.replace(annotation=_without_quotes(p.annotation))
            for p in signature.parameters.values()
        ]
        returned = _without_quotes(signature.return_annotation)
        member.__signature__ = signature.replace(parameters=parameters, return_annotation=returned)
    function = inspect.unwrap(member)
    if inspect.isfunction(function):
        types = function.__annotations__
        types.update({name: _without_quotes(annotation) for name, annotation in types.items()})


def _without_quotes(annotation: Any) -> Any:
    return _UnquotedAnnotation(annotation) if type(annotation) is str else annotation
