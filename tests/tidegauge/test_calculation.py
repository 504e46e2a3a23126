"""Metrics without a repository: the list of metrics, shared scans with states, and names of other tools."""

import json

import pandas as pd
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.analyzer import InMemoryStateProvider
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.moments import SumAndCount

SIZE, FULL, MEAN, SUM = tg.Size(), tg.Completeness("a"), tg.Mean("a"), tg.Sum("a")


def collection():
    return tg.Metrics(
        {
            SIZE: SIZE.compute_metric_from(NumMatches(4)),
            FULL: FULL.compute_metric_from(NumMatchesAndCount(3, 4)),
            MEAN: MEAN.compute_metric_from(None),
        },
        [FULL, SIZE, MEAN, SIZE],
    )


def test_metrics_are_a_list_in_the_requested_order():
    metrics = collection()
    assert isinstance(metrics, list)
    assert [metric.name for metric in metrics] == ["Completeness", "Size", "Mean", "Size"]
    assert metrics[0].value == metrics[FULL].value == 0.75
    assert metrics[-1] == metrics[SIZE]
    assert len(metrics[1:]) == 3
    with pytest.raises(tg.UnknownNameError, match=r"did you mean .Completeness\('a'\)"):
        metrics[tg.Completeness("b")]


def test_metrics_convert_to_a_frame_and_to_json():
    frame = collection().frame()
    assert frame.columns.tolist() == [
        *("entity", "instance", "name", "value", "weight", "error", "analyzer")
    ]
    assert frame["value"].tolist()[:2] == [0.75, 4.0]
    assert frame["value"].isna().tolist() == [False, False, True, False]
    assert "no non-null value" in frame["error"][2]
    rows = json.loads(collection().json())
    assert rows[1] == {
        "entity": "Dataset",
        "instance": "*",
        "name": "Size",
        "value": 4.0,
        "weight": 4,
        "error": None,
        "analyzer": "Size()",
    }
    assert rows[2]["value"] is None
    assert "Completeness" in collection()._repr_html_()


def test_numbers_that_json_lacks_are_strings():
    maximum = tg.Maximum("a")
    states = {maximum: maximum.compute_metric_from(maximum.state_type(float("inf"), 1))}
    assert json.loads(tg.Metrics(states).json())[0]["value"] == "inf"


def test_states_of_several_providers_are_added():
    """Means of 4 / 2 and 8 / 2: 12 / 4. Sum and mean share a state, which is stored once."""
    days, target = [InMemoryStateProvider(), InMemoryStateProvider()], InMemoryStateProvider()
    for day, total in zip(days, (4, 8), strict=True):
        day.persist(MEAN, SumAndCount(total, 2))
    metrics = tg.merge_states(days, [MEAN, SUM, SIZE], save_states_with=target)
    assert [metrics[MEAN].value, metrics[SUM].value, metrics[SIZE].value] == [3.0, 12.0, 0.0]
    assert target.load(SUM) == SumAndCount(12, 4)
    assert target.load(SIZE) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            pd.DataFrame({"a": [1]}),
            r"not a DataFrame of pandas; convert it with spark.createDataF",
        ),
        (None, "expected a Spark DataFrame, not None"),
        (("flights",), "expected a Spark DataFrame, not a tuple"),
    ],
)
def test_data_that_is_not_a_spark_data_frame_is_refused(data, message):
    with pytest.raises(tg.SourceError, match=message):
        tg.calculate(data, [SIZE])


SUITE = tg.Suite("d", [SIZE])


def analyze_data(data):
    with tg.Repository("sqlite://") as repo:
        return tg.analyze(data, SUITE, repository=repo)


@pytest.mark.parametrize(
    "take",
    [
        lambda data: SIZE.calculate(data),
        lambda data: tg.verify(data, tg.Check("c").has_size(1)),
        lambda data: analyze_data(data),
        lambda data: tg.explain(data, SUITE),
        lambda data: tg.profile(data),
        lambda data: tg.suggest(data),
        lambda data: tg.row_level_results(data, {"x": tg.Completeness("a")}),
        lambda data: tg.frame_fingerprint(data),
        lambda data: tg.DQM().add(tg.Rule("a > 0")).apply(data),
        lambda data: tg.DQM().add(tg.Rule("a > 0")).validate(data),
        lambda data: tg.DQM().add(tg.Rule("a > 0")).attach(data),
        lambda data: tg.consistency.compare(data, data, keys="a"),
    ],
)  # fmt: skip
def test_a_pandas_frame_is_refused_by_all_functions_that_take_data(take):
    with pytest.raises(
        (tg.SourceError, tg.SuiteError), match="not a DataFrame of pandas; convert it"
    ):
        take(pd.DataFrame({"a": [1]}))


@pytest.mark.parametrize(
    "take",
    [
        lambda: tg.merge_states("states", [SIZE]),
        lambda: tg.merge_states(InMemoryStateProvider(), [SIZE]),
        lambda: tg.merge_states(["states"], [SIZE]),
        lambda: tg.calculate(None, [SIZE], aggregate_with="states"),
        lambda: tg.calculate(None, [SIZE], save_states_with="states"),
        lambda: SIZE.calculate(None, "states"),
        lambda: SIZE.calculate_metric(None, None, "states"),
    ],
)
def test_a_folder_is_not_a_state_provider(take):
    with pytest.raises(tg.SuiteError, match="state provider"):
        take()


@pytest.mark.parametrize("analyzers", [SIZE, tg.Size, "Size()", None])
def test_analyzers_must_be_a_list(analyzers):
    with pytest.raises(tg.SuiteError, match=r"as a list, as in tg.calculate\(data, \[tg.Size"):
        tg.calculate(None, analyzers)


def test_a_class_is_not_an_analyzer():
    with pytest.raises(tg.SuiteError, match=r"is not an analyzer such as tg.Size\(\)"):
        tg.calculate(None, [tg.Size])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Completness", "did you mean 'Completeness'"),
        ("AnalysisRunner", r"write tg.calculate\(data"),
        ("ResultKey", r"partition=\{'ds'"),
        ("OnlineNormalStrategy", "did you mean 'OnlineNormal'"),
        ("expect_column_values_to_be_unique", r"Check\(name\).is_unique"),
        ("expect_something_else", "methods of tg.Check"),
    ],
)
def test_names_of_other_tools_are_answered_with_ours(name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(tg, name)


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        (tg.griffin, "rnu", "tidegauge.griffin has no 'rnu'; did you mean 'run'"),
        (tg.consistency, "cmpare", "tidegauge.consistency has no 'cmpare'; did you mean 'compare'"),
    ],
)
def test_misspelt_names_get_a_suggestion(package, name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(package, name)


def test_the_path_of_a_suite_file_is_not_a_suite():
    with (
        tg.Repository("sqlite://") as repo,
        pytest.raises(tg.SuiteError, match="not 'orders.yml'; load a suite file with tg.load_su"),
    ):
        tg.analyze("orders", "orders.yml", repository=repo)


def test_private_names_get_no_suggestion():
    with pytest.raises(AttributeError) as caught:
        _ = tg._ipython_canary
    assert "did you mean" not in str(caught.value)


@pytest.mark.spark
def test_one_scan_adds_to_stored_states_and_stores_the_sum(spark):
    """3 rows then 2: 5 rows; (1 + 2 + 3) + (10 + 20) = 36. A shared state is added once although it is passed twice."""
    states = InMemoryStateProvider()
    first = spark.createDataFrame([(1,), (2,), (3,)], "a int")
    second = spark.createDataFrame([(10,), (20,)], "a int")
    analyzers = [SIZE, MEAN, SUM, tg.Mean("nope")]
    tg.calculate(first, analyzers, aggregate_with=states, save_states_with=states)
    metrics = tg.calculate(second, analyzers, aggregate_with=states, save_states_with=states)
    assert [metric.value for metric in metrics[:3]] == [5.0, 36 / 5, 36.0]
    assert metrics[3].failed
    assert states.load(SUM) == SumAndCount(36, 5)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tg.SourceError, match="streaming DataFrame cannot be measured"):
        tg.calculate(stream, [SIZE])
