"""Analyzers as descriptions: reprs, keys, errors, methods. No Spark."""

import contextlib
import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tests.analyzers.core.state_strategies import STATES, kll, numbers
from tests.paths import DATA
from tidegauge.analyzers.core.analyzer import ANALYZERS, Filterable, InMemoryStateProvider
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import RangeState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import SumAndCount
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.consistency.compare.distributions import (
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    ConsistencyTexts,
)
from tidegauge.consistency.compare.measures import (
    ConsistencyCells,
    ConsistencyKeys,
    ConsistencyNumbers,
    ConsistencyRows,
)
from tidegauge.griffin.measures.base import Parts
from tidegauge.rules.record_counts import Tasks

text = st.text(min_size=1, max_size=12).filter(str.strip)
where = st.one_of(st.none(), text)
columns = st.lists(text, min_size=1, max_size=3)
ranks = st.floats(0, 1)
errors = st.floats(0.001, 0.5)
nulls = st.sampled_from(["ignore", "empty", "fail"])
sizes = st.integers(5, 20)
tolerances = [st.floats(0, 9)] * 2
even = st.integers(2, 99).map(lambda k: 2 * k)


def of_features(cls, *options):
    return st.builds(cls, st.sampled_from(list(cls.metrics)), text, text, *options)


steps = st.fixed_dictionaries({"step.size": st.integers(1, 9), "total": text}).map(json.dumps)
arrays = st.fixed_dictionaries({"duplication.array": text}).map(json.dumps)
types = st.lists(text, min_size=1, max_size=2).map(
    lambda names: json.dumps({"expr": [{"column": name, "type": "int"} for name in names]})
)


NO_DETAILS = st.just("{}")


def griffin(kind, expressions, details=NO_DETAILS, **options):
    """Return a strategy of Griffin rules of one kind, with expressions of some form."""
    of = ANALYZERS[f"Griffin{kind}"]
    return st.builds(of, text, st.sampled_from(expressions), text, details, **options)


EXAMPLES = {
    "Size": st.builds(tg.Size, where=where),
    "Completeness": st.builds(tg.Completeness, text, where=where),
    "Compliance": st.builds(tg.Compliance, text, text, where=where),
    "Minimum": st.builds(tg.Minimum, text, where=where),
    "Maximum": st.builds(tg.Maximum, text, where=where),
    "Mean": st.builds(tg.Mean, text, where=where),
    "Sum": st.builds(tg.Sum, text, where=where),
    "StandardDeviation": st.builds(tg.StandardDeviation, text, where=where),
    "ApproxCountDistinct": st.builds(tg.ApproxCountDistinct, text, where=where),
    "ApproxQuantile": st.builds(tg.ApproxQuantile, text, ranks, errors, where=where),
    "ApproxQuantiles": st.builds(
        tg.ApproxQuantiles, text, st.lists(ranks, min_size=1, max_size=3), errors, where=where
    ),
    "Uniqueness": st.builds(tg.Uniqueness, columns, where=where),
    "Distinctness": st.builds(tg.Distinctness, columns, where=where),
    "CountDistinct": st.builds(tg.CountDistinct, columns, where=where),
    "Histogram": st.builds(
        tg.Histogram,
        text,
        st.integers(1, 1000),
        binning=where,
        ratios=st.booleans(),
        where=where,
    ),
    "HistogramOfSums": st.builds(
        tg.HistogramOfSums,
        text,
        text,
        st.integers(1, 1000),
        binning=where,
        ratios=st.booleans(),
        where=where,
    ),
    "ZerosCount": st.builds(tg.ZerosCount, text, where=where),
    "PatternMatch": st.builds(tg.PatternMatch, text, text, nulls, where=where),
    "MinLength": st.builds(tg.MinLength, text, nulls, where=where),
    "MaxLength": st.builds(tg.MaxLength, text, nulls, where=where),
    "DataType": st.builds(tg.DataType, text, where=where),
    "Range": st.builds(tg.Range, text, where=where),
    "Variance": st.builds(tg.Variance, text, where=where),
    "Skewness": st.builds(tg.Skewness, text, where=where),
    "Kurtosis": st.builds(tg.Kurtosis, text, where=where),
    "Correlation": st.builds(tg.Correlation, text, text, where=where),
    "RatioOfSums": st.builds(tg.RatioOfSums, text, text, where=where),
    "ExactQuantile": st.builds(tg.ExactQuantile, text, ranks, where=where),
    "InterquartileRange": st.builds(tg.InterquartileRange, text, where=where),
    "HistogramBinned": st.builds(tg.HistogramBinned, text, st.integers(3, 9), where=where)
    | st.builds(
        tg.HistogramBinned,
        text,
        custom_edges=st.sets(st.floats(-9, 9), min_size=2, max_size=4).map(sorted),
        include_overflow_bins=st.booleans(),
        where=where,
    ),
    "KLLSketch": st.builds(
        tg.KLLSketch, text, st.integers(8, 4096), st.integers(1, 100), where=where
    ),
    "CustomSql": st.builds(
        tg.CustomSql,
        text.map(lambda t: f"max({t})"),
        text,
        st.sampled_from(["none", "sum", "min", "max"]),
        where=where,
    )
    | st.builds(
        tg.CustomSql, st.just("SELECT max(x) FROM rows"), text, view=st.just("rows"), where=where
    ),
    "ColumnCount": st.builds(tg.ColumnCount, where=where),
    "ColumnExists": st.builds(tg.ColumnExists, text, where=where),
    "SchemaMatch": st.builds(
        tg.SchemaMatch,
        st.sampled_from(["id BIGINT, name", "x DECIMAL(9,2)"]),
        st.booleans(),
        st.booleans(),
        where=where,
    ),
    "ReferentialIntegrity": st.builds(tg.ReferentialIntegrity, text, text, text, where=where),
    "ColumnMatch": st.builds(
        tg.ColumnMatch, st.lists(text, min_size=2, max_size=2), text, columns, where=where
    ),
    "DatasetMatch": st.builds(tg.DatasetMatch, columns, text, where=where),
    "UniqueValueRatio": st.builds(tg.UniqueValueRatio, columns, where=where),
    "DuplicateRowCount": st.builds(tg.DuplicateRowCount, st.lists(text, max_size=2), where=where),
    "Entropy": st.builds(tg.Entropy, text, where=where),
    "MutualInformation": st.builds(
        tg.MutualInformation, st.lists(text, min_size=2, max_size=2), where=where
    ),
    "ApproxUniqueness": st.builds(tg.ApproxUniqueness, columns, sizes, where=where),
    "ApproxDistinctness": st.builds(tg.ApproxDistinctness, columns, sizes, where=where),
    "ApproxUniqueValueRatio": st.builds(tg.ApproxUniqueValueRatio, columns, sizes, where=where),
    "ReqQuantile": st.builds(
        tg.ReqQuantile,
        text,
        ranks,
        st.integers(2, 99).map(lambda k: 2 * k),
        st.booleans(),
        where=where,
    ),
    "TopValues": st.builds(tg.TopValues, text, st.integers(1, 9), st.integers(9, 999), where=where),
    "MinTime": st.builds(tg.MinTime, text, where=where),
    "MaxTime": st.builds(tg.MaxTime, text, where=where),
    "Freshness": st.builds(tg.Freshness, text, where, where=where),
    "RuleViolations": st.builds(tg.RuleViolations, text, text, where),
    "RuleViolationsRatio": st.builds(tg.RuleViolationsRatio, text, text, where),
    "RuleUnknown": st.builds(tg.RuleUnknown, text, text, where),
    "RuleUnknownRatio": st.builds(tg.RuleUnknownRatio, text, text, where),
    "RuleRejects": st.builds(tg.RuleRejects, text, text, text),
    "RuleRejectsRatio": st.builds(tg.RuleRejectsRatio, text, text, text),
    "ParserRejects": st.builds(tg.ParserRejects, text),
    "ParserRejectsRatio": st.builds(tg.ParserRejectsRatio, text),
    "FixCount": st.builds(tg.FixCount, text, text),
    "FixCountRatio": st.builds(tg.FixCountRatio, text, text),
    "GriffinAccuracy": griffin("Accuracy", ["a.b = c.d", "a != b or c"], target=text),
    "GriffinCompleteness": griffin("Completeness", ["a, b", "upper(`x y`)"]),
    "GriffinConformance": griffin("Conformance", ["a"], types),
    "GriffinUniqueness": griffin("Uniqueness", ["a, b", "upper(a)"], arrays),
    "GriffinDistinctness": griffin("Distinctness", ["a", "b.c, d"], arrays),
    "GriffinDuplication": griffin("Duplication", ["a", "b, c"]),
    "GriffinTimeliness": griffin("Timeliness", ["a", "b, c"], steps),
    "GriffinProfiling": griffin(
        "Profiling", ["count(*)", "sum(a), count(b)", "a, count(*) as n group by a"]
    ),
    "ConsistencyRows": st.builds(
        ConsistencyRows, st.sampled_from(list(ConsistencyRows.metrics)), text
    ),
    "ConsistencyCells": of_features(ConsistencyCells, *tolerances),
    "ConsistencyNumbers": of_features(ConsistencyNumbers),
    "ConsistencyKeys": of_features(ConsistencyKeys, *tolerances),
    "ConsistencyDistribution": of_features(ConsistencyDistribution, even),
    "ConsistencyTexts": of_features(ConsistencyTexts, st.integers(1, 999)),
    "ConsistencyEdits": of_features(ConsistencyEdits, *tolerances, st.integers(1, 999), even),
    "ConsistencyEditsSkipped": of_features(
        ConsistencyEditsSkipped, *tolerances, st.integers(1, 999)
    ),
    # a fix of two sides makes four counts, like the counts of the states
    "RecordRules": text.map(
        lambda name: tg.RecordRules(Tasks((), (tg.BoundFix(name, 0, 9),)).identity)
    ),
}
COUNTS = {
    "Size",
    "ApproxCountDistinct",
    "CountDistinct",
    "DuplicateRowCount",
    "RuleViolations",
    "RuleUnknown",
    "RuleRejects",
    "FixCount",
    "ParserRejects",
    "ConsistencyRows",
}
COUNT_METRICS = {"total", "not_finite", "logged_nan", "backfilled_nan"}
any_analyzer = st.one_of(*EXAMPLES.values())


def test_every_analyzer_is_tested():
    assert set(EXAMPLES) == set(ANALYZERS)


@given(any_analyzer)
def test_an_analyzer_is_restored_from_its_repr(analyzer):
    assert ANALYZERS.parse(repr(analyzer)) == analyzer


@given(any_analyzer)
def test_an_analyzer_is_restored_from_its_options(analyzer):
    stored = json.loads(analyzer.canonical())
    assert ANALYZERS.build(stored.pop("analyzer"), stored) == analyzer


@given(any_analyzer)
def test_an_analyzer_is_restored_from_options_as_yaml_strings(analyzer):
    options = {
        k: [str(x) for x in v] if isinstance(v, tuple) else (v if v is None else str(v))
        for k, v in analyzer.options().items()
    }
    assert ANALYZERS.build(type(analyzer).__name__, options) == analyzer


@given(any_analyzer, any_analyzer)
def test_equal_analyzers_have_equal_keys_and_different_ones_different_keys(a, b):
    assert (a == b) == (a.canonical() == b.canonical())
    assert pickle.loads(pickle.dumps(a)) == a  # noqa: S301 - for Spark's workers, never stored


@given(any_analyzer)
def test_analyzers_that_share_a_statistic_share_filter_and_state(a):
    if isinstance(a, Filterable):
        assert json.dumps(a.where, ensure_ascii=False) in a.statistic()


def test_keys_of_the_first_release_stay():
    """A changed key would separate every stored series from its history."""
    kept = json.loads((DATA / "keys.json").read_text())
    assert {text: key_of(ANALYZERS.parse(text).canonical()) for text in kept} == kept
    assert {ANALYZERS.parse(text).__class__.__name__ for text in kept} == set(ANALYZERS)


def test_an_option_added_later_is_left_out_while_it_has_its_default():
    from dataclasses import dataclass, field

    @dataclass(frozen=True, repr=False)
    class Later(tg.Completeness):
        mode: str = field(default="plain", kw_only=True, metadata={"since": "0.2"})

    assert "mode" not in Later("x").canonical()
    assert "mode" in Later("x", mode="fancy").canonical()


def test_reprs_are_parsed_in_the_form_in_which_people_paste_them():
    assert repr(tg.Size(where="origin = 'EWR'")) == """Size(where="origin = 'EWR'")"""
    assert repr(tg.Uniqueness("a")) == "Uniqueness('a')"
    assert repr(tg.Uniqueness(["a", "b"])) == "Uniqueness(['a', 'b'])"
    assert ANALYZERS.parse("Size") == tg.Size()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Compleetness('x')", "unknown analyzer 'Compleetness'; did you mean 'Completeness'?"),
        (
            "Completeness('x', wher='y')",
            "unknown option of Completeness 'wher'; did you mean 'where'?",
        ),
        ("Completeness()", "Completeness needs 'column'"),
        ("Completeness('x', 'y')", "takes at most 1"),
        ("Completeness('x', column='y')", "got 'column' twice"),
        ("__import__('os').system('true')", "cannot read"),
        ("Size(where=open('x'))", "cannot read"),
        ("Size(", "cannot read"),
        ("1 + 1", "cannot read"),
    ],
)
def test_errors_for_invalid_reprs_suggest_a_fix(text, message):
    with pytest.raises(tg.SuiteError, match=message.replace("(", r"\(").replace("?", r"\?")):
        ANALYZERS.parse(text)


@given(st.text(max_size=40))
def test_parsing_any_string_gives_an_analyzer_or_our_error(text):
    with contextlib.suppress(tg.SuiteError, tg.PreconditionError):
        assert repr(ANALYZERS.parse(text))


@pytest.mark.parametrize(
    "build",
    [
        lambda: tg.ApproxQuantile("x", "half"),
        lambda: tg.Completeness(3),
        lambda: tg.Completeness(" "),
        lambda: tg.Histogram("x", 2.5),
        lambda: tg.Uniqueness([1]),
        lambda: tg.Uniqueness({"a": "b"}),
        lambda: tg.Size(where=""),
    ],
)
def test_an_option_of_the_wrong_type_is_an_error(build):
    with pytest.raises(tg.IllegalAnalyzerParameterError):
        build()


SCHEMA = Schema.from_types(
    {
        "n": "long",
        "s": "string",
        "d": "date",
        "b": "boolean",
        "dec": "decimal(9,2)",
        "a.b": "long",
        "list": {"type": "array", "elementType": "long", "containsNull": True},
        "addr": {
            "type": "struct",
            "fields": [{"name": "zip", "type": "string", "nullable": True, "metadata": {}}],
        },
    }
)


@pytest.mark.parametrize(
    ("analyzer", "error", "message"),
    [
        (tg.Mean("s"), tg.WrongColumnTypeError, "is of type string, but must be numeric"),
        (tg.Minimum("d"), tg.WrongColumnTypeError, "date"),
        (tg.Maximum("b"), tg.WrongColumnTypeError, "boolean"),
        (tg.CountDistinct("list"), tg.WrongColumnTypeError, "array"),
        (tg.Uniqueness(["s", "addr"]), tg.WrongColumnTypeError, "struct"),
        (tg.Completeness("nn"), tg.NoSuchColumnError, "did you mean 'n'"),
        (tg.Completeness("a.b"), tg.NoSuchColumnError, "write a name with dots as '`a.b`'"),
        (tg.Completeness("addr.zap"), tg.NoSuchColumnError, "no column 'addr.zap'"),
    ],
)
def test_preconditions_name_the_problem(analyzer, error, message):
    with pytest.raises(error, match=message):
        analyzer.preconditions(SCHEMA)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: tg.Uniqueness([]), tg.NoColumnsSpecifiedError, "at least one column"),
        (lambda: tg.ApproxUniqueness([]), tg.NoColumnsSpecifiedError, "at least one column"),
        (
            lambda: tg.MutualInformation("a"),
            tg.NumberOfSpecifiedColumnsError,
            "two columns, not 1",
        ),
        (lambda: tg.ApproxQuantile("n", 50), tg.IllegalAnalyzerParameterError, "between 0 and 1"),
        (lambda: tg.ApproxQuantiles("n", []), tg.IllegalAnalyzerParameterError, "at least one"),
        (
            lambda: tg.ApproxQuantile("n", 0.5, relative_error=1e-9),
            tg.IllegalAnalyzerParameterError,
            "for an exact quantile, use ExactQuantile",
        ),
        (
            lambda: tg.HistogramBinned("n", bin_count=0),
            tg.IllegalAnalyzerParameterError,
            "either bin_count, at least 1, or custom_edges",
        ),
        (
            lambda: tg.ApproxQuantile("n", 0.5, 0),
            tg.IllegalAnalyzerParameterError,
            "relative_error must be between 5e-05 and 1; for an exact quantile, use ExactQuantile",
        ),
        (lambda: tg.Histogram("s", 1001), tg.IllegalAnalyzerParameterError, "1 and 1000"),
        (
            lambda: tg.MaxLength("s", null_behavior="Fail"),
            tg.IllegalAnalyzerParameterError,
            "null_behavior must be one of",
        ),
    ],
)
def test_options_are_checked_when_an_analyzer_is_built(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tg.PatternMatch("a", pattern_regex="x"), "PatternMatch 'pattern_regex'; did you mean 'pattern'"),
        (lambda: tg.ApproxQuantile("a", 0.5, relativeError=0.1), "did you mean 'relative_error'"),
        (lambda: tg.Histogram("a", maxDetailBins=5), "did you mean 'max_detail_bins'"),
        (lambda: tg.Size("x > 1"), "Size takes at most 0 values without a name, got 1; give where= by name"),
        (lambda: tg.Compliance("rule", "x > 1", ["x"]), "at most 2 values without a name, got 3"),
    ],
)  # fmt: skip
def test_the_error_for_an_unknown_option_lists_the_valid_ones(build, message):
    with pytest.raises(tg.SuiteError, match=message):
        build()


def test_the_error_for_a_missing_option_is_pythons():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'column'"):
        tg.Completeness()


@pytest.mark.parametrize(
    "analyzer",
    [
        tg.Mean("dec"),
        tg.Mean("N"),
        tg.Completeness("`a.b`"),
        tg.Completeness("addr.zip"),
        tg.Completeness("list"),
        tg.Completeness("addr"),
        tg.Histogram("d"),
    ],
)
def test_preconditions_accept_suitable_columns(analyzer):
    analyzer.preconditions(SCHEMA)


def parts_of(analyzer, data):
    """Draw several states of the types that the analyzer uses."""
    of = {
        "GriffinTimeliness": [
            *(NumMatchesAndCount, SumAndCount, RangeState),
            *(NumMatches, FrequenciesAndNumRows, KllState),
        ],
        "GriffinCompleteness": [NumMatchesAndCount] * 3,
        "GriffinConformance": [NumMatchesAndCount] * 3,
        "count(*)": [NumMatches],
        "sum(a), count(b)": [SumAndCount, NumMatches],
        "a, count(*) as n group by a": [FrequenciesAndNumRows],
    }
    drawn = []
    for kind in of.get(type(analyzer).__name__) or of[analyzer.expression]:
        if kind is FrequenciesAndNumRows:
            drawn.append(FrequenciesAndNumRows.from_groups([((1,), 2), ((7,), 1)], 3))
        elif kind is SumAndCount:
            drawn.append(data.draw(st.builds(SumAndCount, st.integers(), st.integers(0, 9))))
        else:
            drawn.append(data.draw(STATES[kind]))
    return Parts(tuple(drawn))


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
def test_every_analyzer_measures_every_state_of_its_type(name, data):
    analyzer = data.draw(EXAMPLES[name])
    if name == "Histogram":
        state = FrequenciesAndNumRows.from_groups([(("a",), 2), (("b",), 1)], 3)
    elif name in {"ExactQuantile", "InterquartileRange", "HistogramBinned"}:
        groups = st.dictionaries(st.tuples(numbers), st.integers(1, 9), max_size=5)
        state = FrequenciesAndNumRows.from_groups(data.draw(groups).items(), 3)
    elif analyzer.state_type is Parts:
        state = parts_of(analyzer, data)
    else:
        state = data.draw(STATES[analyzer.state_type])
    metric = analyzer.compute_metric_from(state)
    assert metric.empty or not metric.failed
    assert metric.weight >= 0
    for flat in tg.flatten(metric):
        assert flat.failed or isinstance(flat.value, float)
        assert flat.weight == metric.weight
        assert isinstance(analyzer.scale_of(flat.name), tg.Scale)


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
def test_without_rows_metrics_are_empty_and_counts_are_zero(name, data):
    """As in Deequ, sizes, counts and histograms of no rows are 0, and all other metrics have no value."""
    analyzer = data.draw(EXAMPLES[name])
    metric = analyzer.compute_metric_from(None)
    if name in COUNTS or getattr(analyzer, "metric", None) in COUNT_METRICS:
        assert metric.value == 0.0
    elif name in {"Histogram", "HistogramOfSums"}:
        assert metric.value.number_of_bins == 0
    elif name.startswith("Griffin"):  # as in Griffin
        assert metric.weight == 0
        assert {v for _, v in metric.value.scalars()} <= {0.0, 1.0}
    else:
        assert metric.failed
        assert metric.empty
        with pytest.raises(tg.EmptyStateError):
            _ = metric.value


def test_the_methods_for_stored_states():
    a, b, target = InMemoryStateProvider(), InMemoryStateProvider(), InMemoryStateProvider()
    mean = tg.Mean("x")
    from tidegauge.analyzers.measures.moments import SumAndCount

    assert mean.load_state_and_compute_metric(a).empty  # no data yet, which is not an error
    mean.aggregate_state_to(a, b, target)
    assert target.load(mean) is None
    a.persist(mean, SumAndCount(6.0, 3))
    mean.aggregate_state_to(a, b, target)
    assert mean.load_state_and_compute_metric(target).value == 2.0
    b.persist(mean, SumAndCount(2.0, 1))
    mean.aggregate_state_to(a, b, target)
    assert mean.load_state_and_compute_metric(target).value == 2.0
    assert tg.Sum("x").load_state_and_compute_metric(target).value == 8.0  # one state for both
    mean.copy_state_to(target, a)
    assert (
        mean.calculate_metric(SumAndCount(12.0, 1), aggregate_with=a, save_states_with=b).value
        == 4.0
    )
    assert b.load(mean) == SumAndCount(20.0, 5)
    # merging did not change its arguments
    assert mean.load_state_and_compute_metric(a).value == 2.0


def test_a_failure_metric_keeps_the_error():
    metric = tg.Mean("x").to_failure_metric(ZeroDivisionError("oops"))
    assert (metric.entity, metric.instance, metric.name) == ("Column", "x", "Mean")
    assert metric.failed
    assert not metric.empty
    with pytest.raises(tg.MetricRuntimeError, match="ZeroDivisionError: oops"):
        _ = metric.value
    assert [
        m.name
        for m in tg.flatten(tg.ApproxQuantiles("x", [0.1]).to_failure_metric(ValueError("v")))
    ] == ["ApproxQuantiles"]


def test_flattened_names_equal_those_of_deequ():
    from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows

    def names(analyzer, state):
        return [m.name for m in tg.flatten(analyzer.compute_metric_from(state))]

    assert names(tg.ApproxQuantile("x", 0.5), kll([1.0])) == ["ApproxQuantile-0.5"]
    assert names(tg.ApproxQuantiles("x", [0.25, 0.5]), kll([1.0])) == [
        "ApproxQuantiles-0.25",
        "ApproxQuantiles-0.5",
    ]
    groups = FrequenciesAndNumRows.from_groups([(("a",), 2), (("b",), 1), (("c",), 1)])
    assert names(tg.Histogram("x", 2), groups) == [
        "Histogram.bins",
        "Histogram.abs.a",
        "Histogram.ratio.a",
        "Histogram.abs.b",
        "Histogram.ratio.b",
        "Histogram.tailCount",
    ]


def test_analyzers_have_the_entity_of_deequ():
    assert tg.Size().entity == "Dataset"
    assert tg.Completeness("x").entity == "Column"
    assert (tg.Uniqueness(["a", "b"]).entity, tg.Uniqueness(["a", "b"]).instance) == (
        "Multicolumn",
        "a,b",
    )


def test_sketches_have_the_documented_sizes():
    from datasketches import kll_doubles_sketch

    from tidegauge.analyzers.measures.quantiles import sketch_size

    for error in (0.2, 0.05, 0.01, 0.002, 0.001):
        assert kll_doubles_sketch(sketch_size(error)).normalized_rank_error(False) <= error
        assert kll_doubles_sketch(sketch_size(error) - 1).normalized_rank_error(False) > error


def test_quantiles_of_few_values_are_exact():
    """As in Deequ's tests of quantiles, small samples give exact values."""
    state = kll([float(i) for i in range(1, 101)])
    assert state.quantiles([0, 0.01, 0.25, 0.5, 1]) == [1, 1, 25, 50, 100]


def test_the_string_null_has_a_separate_bin():
    from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows

    state = FrequenciesAndNumRows.from_groups(
        [(("NullValue",), 2), (("\\NullValue",), 1)], num_nulls=3
    )
    values = tg.Histogram("x").compute_metric_from(state).value.values
    assert {k: v.absolute for k, v in values.items()} == {
        "NullValue": 3,
        "\\NullValue": 2,
        "\\\\NullValue": 1,
    }


def test_metrics_are_compared_by_value():
    metric = tg.DoubleMetric(tg.Entity.DATASET, "*", "Size", tg.Success(3.0))
    assert isinstance(metric, tg.Metric)
    assert metric == tg.Metric(tg.Entity.DATASET, "*", "Size", tg.Success(3.0))
    assert not math.isnan(metric.value)


@pytest.mark.parametrize("analyzer", [tg.Entropy("s"), tg.MutualInformation(["s", "t"])])
def test_the_information_of_a_constant_is_not_negative_zero(analyzer):
    columns = ("x",) if isinstance(analyzer, tg.Entropy) else ("x", "y")
    value = analyzer.compute_metric_from(tg.FrequenciesAndNumRows.from_groups([(columns, 3)])).value
    assert math.copysign(1, value) == 1
    assert value == 0
