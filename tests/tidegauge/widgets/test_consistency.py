"""Answers of the consistency view. No Spark, no browser."""

import datetime as dt

import numpy as np
import pytest

import tidegauge as tg
from tests.support import features
from tidegauge.repository.history.feature_consistency import measures, values
from tidegauge.repository.store.consistency_series import PREFIX, parse_instance
from tidegauge.widgets import consistency
from tidegauge.widgets.consistency import Consistency

JOIN = features.JOIN


@pytest.fixture(scope="module")
def repo():
    with tg.Repository("sqlite://") as found:
        features.record(found)
        found.record("alone", "revenue", 1.0, partition="ds=2023-01-05")
        yield found


@pytest.fixture
def view(repo):
    return Consistency(repo)


def ranked(view, dataset=JOIN, **asked):
    return view.ranking({"dataset": dataset, **asked})


def at(day, bucket):
    hour, minute = map(int, bucket.split("-"))
    return dt.datetime.fromisoformat(f"{day}T{hour:02}:{minute:02}:00+00:00").timestamp()


def test_the_worst_feature_comes_first(view):
    found = ranked(view)
    told, arrays = found.payload, found.arrays
    assert told["features"][:4] == ["spend", "visits", features.MARKUP, "clicks"]
    assert set(told["features"][4:]) == {"attributes", "tags"}
    assert [told["groups"][n] for n in arrays["group"][:4]] == [
        "batch",
        "batch",
        "team.ads",
        "stream",
    ]
    np.testing.assert_allclose(arrays["worst"], [0.9, 0.3 + 0.25, 0.4, 0.02, 0, 0])
    assert arrays["times"][arrays["column"][0]] == at("2023-01-05", "00-00")
    assert (told["metric"], told["range"]) == ("wrong", "7")


def test_rates_are_shares_of_all_compared_rows(view):
    """Each night has 300 rows in each of 3 buckets and 100 rows in each of 45 buckets."""
    arrays = ranked(view).arrays
    share = 900 / 5400
    np.testing.assert_allclose(arrays["mismatch"], [0.9 * share, 0.3 * share, 0, 0.02, 0, 0])
    np.testing.assert_allclose(arrays["missing"], [0, 0.25 * share, 0.4, 0, 0, 0])
    assert not arrays["extra"].any()


def test_features_are_ranked_by_the_selected_metric(view):
    by = ranked(view, metric="missing")
    assert by.payload["features"][:2] == [features.MARKUP, "visits"]
    assert by.arrays["worst"][:3].tolist() == [0.4, 0.25, 0]
    smape = ranked(view, metric="smape")
    assert smape.payload["features"][0] == "clicks"
    # Features without a value come last.
    assert np.isnan(smape.arrays["worst"][1:]).all()
    assert (smape.arrays["column"][1:] == -1).all()
    assert ranked(view, metric="delta-p5").arrays["worst"][0] == 3
    assert {"wrong", "smape", "delta-p50", "missing_keys"} <= set(by.payload["metric_choices"])
    assert not {"total", "delta-max", "row_missing"} & set(by.payload["metric_choices"])
    with pytest.raises(tg.UnknownNameError, match="smape"):
        ranked(view, metric="smap")


def test_features_are_ranked_within_the_window(view):
    day = {"since": at("2023-01-05", "01-30"), "until": at("2023-01-05", "23-30")}
    found = ranked(view, **day)
    assert found.payload["features"][:2] == [features.MARKUP, "clicks"]
    assert len(found.arrays["times"]) == 45
    assert found.payload["range"] == ""
    lines = view.sparklines({"dataset": JOIN, "ids": found.arrays["ids"][:1], **day})
    assert lines.arrays["values"].shape == (1, 45)
    with pytest.raises(tg.UnknownNameError):
        ranked(view, range="8")


def test_a_quarter_is_shown_by_day_and_a_week_by_hour():
    days = [dt.date(2023, 1, 1) + dt.timedelta(n) for n in range(100)]
    with tg.Repository("sqlite://") as repo:
        name = f"{PREFIX}mismatch"
        repo.record("daily", name, {f"ds={day}": 0.1 for day in days}, instance="g.f")
        hours = [f"ds={day}/hr_minute={hour:02}-00" for day in days[:9] for hour in range(24)]
        repo.record("hourly", name, dict.fromkeys(hours, 0.1), instance="g.f")
        view = Consistency(repo)
        assert len(ranked(view, "daily").arrays["times"]) == 90
        assert len(ranked(view, "daily", range="30").arrays["times"]) == 30
        assert len(ranked(view, "daily", range="all").arrays["times"]) == 100
        assert len(ranked(view, "hourly").arrays["times"]) == 7 * 24


def test_small_charts_show_the_metric_of_the_ranking(view):
    ids = ranked(view).arrays["ids"]
    lines = view.sparklines({"dataset": JOIN, "ids": [int(ids[1]), int(ids[0]), 10**9]})
    values = lines.arrays["values"]
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[0], [0.55, 0.55, 0.55, *[0] * 45] * 2, rtol=1e-6)
    np.testing.assert_allclose(values[1, :4], [0.9, 0.9, 0.9, 0], rtol=1e-6)
    assert np.isnan(values[2]).all()


def lines_of(answer, place):
    subject, values = answer.payload["subjects"][place], answer.arrays["values"]
    flat = values.reshape(-1, values.shape[-1])
    return {metric: flat[row] for metric, row in subject["row_by_metric"].items()}


def test_a_feature_has_the_rows_of_its_group_by(view):
    found = ranked(view)
    clicks = found.payload["features"].index("clicks")
    answer = view.features({"dataset": JOIN, "ids": [found.arrays["ids"][clicks]]})
    named = [(one["group_by"], one["feature"]) for one in answer.payload["subjects"]]
    assert named == [("stream", "clicks"), ("stream", None)]
    feature, rows = (lines_of(answer, n) for n in range(2))
    assert set(feature) == set(features.metrics()["stream.clicks"])
    assert {name: feature[f"delta-{name}"][0] for name in features.SEVEN} == features.SEVEN
    assert feature["total"][:4].tolist() == [300, 300, 300, 100]
    assert set(rows) == {"row_missing", "row_extra"}
    assert rows["row_extra"].tolist() == [1.0] * 96


def test_several_features_are_answered_together_up_to_a_limit(view):
    ids = ranked(view).arrays["ids"]
    answer = view.features({"dataset": JOIN, "ids": [*ids[:4], ids[0]]})
    assert [one["feature"] for one in answer.payload["subjects"]] == [
        "spend",
        "visits",
        features.MARKUP,
        "clicks",
        None,
        None,
        None,
    ]
    assert lines_of(answer, 2)["missing"].tolist() == [0.4] * 96
    with pytest.raises(tg.HistoryError, match="at most 6"):
        view.features({"dataset": JOIN, "ids": range(7)})
    assert view.features({"dataset": JOIN, "ids": [10**9]}).payload["subjects"] == []


def test_a_dataset_without_consistency_metrics_names_datasets_that_have_them(view):
    found = ranked(view, "alone")
    assert (found.payload["features"], found.payload["other_datasets"]) == ([], [JOIN])
    assert ranked(view).payload["other_datasets"] == []
    assert view.frame({"dataset": "alone"}).empty


def test_nothing_is_read_twice_until_something_is_written(view, monkeypatch):
    first = ranked(view)
    read = []
    monkeypatch.setattr(consistency, "values", lambda *a: read.append(a[3]) or values(*a))
    again = ranked(view, metric="mismatch")
    view.sparklines({"dataset": JOIN, "ids": first.arrays["ids"]})
    assert read == []
    assert again.payload["features"][0] == "spend"
    ranked(view, metric="smape")
    assert read == [["smape"]]


def test_new_metrics_are_shown():
    with tg.Repository("sqlite://") as repo:
        view = Consistency(repo)
        name, partition = f"{PREFIX}mismatch", "ds=2023-01-05"
        repo.record("d", name, 0.1, partition=partition, instance="g.f")
        assert ranked(view, "d").arrays["worst"].tolist() == [0.1]
        repo.record("d", name, 0.3, partition=partition, instance="g.f")
        repo.record("d", name, 0.2, partition=partition, instance="g.h")
        found = ranked(view, "d")
        assert found.payload["features"] == ["f", "h"]
        assert found.arrays["worst"].tolist() == [0.3, 0.2]


def test_the_later_of_two_series_of_one_feature_is_used():
    with tg.Repository("sqlite://") as repo:
        name = f"{PREFIX}mismatch"
        days = ["ds=2023-01-05", "ds=2023-01-06"]
        repo.record("d", name, dict.fromkeys(days, 0.1), instance="g.f", scale="signed")
        repo.record("d", name, {days[1]: 0.2}, instance="g.f", scale="ratio")
        found = ranked(Consistency(repo), "d")
        assert found.payload["features"] == ["f"]
        line = Consistency(repo).sparklines({"dataset": "d", "ids": found.arrays["ids"]})
        np.testing.assert_allclose(line.arrays["values"], [[0.1, 0.2]], rtol=1e-6)


def test_segments_are_shown_separately():
    with tg.Repository("sqlite://") as repo:
        name = f"{PREFIX}mismatch"
        for segment, rate in (("", 0.1), ("query_source=app", 0.5)):
            repo.record("d", name, {"ds=2023-01-05": rate}, instance="g.f", segment=segment)
        view = Consistency(repo)
        assert ranked(view, "d").payload["segments"] == ["", "query_source=app"]
        assert ranked(view, "d").arrays["worst"].tolist() == [0.1]
        app = ranked(view, "d", segment="query_source=app")
        assert app.arrays["worst"].tolist() == [0.5]
        # a series of another dataset is not listed
        assert ranked(view, "d", segment="query_source=web").payload["segment"] == ""


def test_partitions_without_a_time_are_sorted_by_name():
    with tg.Repository("sqlite://") as repo:
        numbers = {"part=b": 0.2, "part=a": 0.1}
        repo.record("d", f"{PREFIX}mismatch", numbers, instance="g.f")
        found = ranked(Consistency(repo), "d")
        assert found.payload["labels"] == ["part=a", "part=b"]
        assert np.isnan(found.arrays["times"]).all()
        assert found.arrays["column"].tolist() == [1]


def test_many_series_are_read_like_few(repo, monkeypatch):
    with repo.database.read() as connection:
        series = measures(connection, JOIN)
        at = consistency.moments(connection, JOIN)
        places = series.features.tolist()
        arguments = (connection, series, at, ["mismatch", "total", "nothing"], places)
        few = values(*arguments)
        monkeypatch.setattr(
            "tidegauge.repository.history.feature_consistency._MAX_LISTED_SERIES", 3
        )
        monkeypatch.setattr(
            "tidegauge.repository.history.feature_consistency._PARTITIONS_PER_QUERY", 7
        )
        np.testing.assert_array_equal(values(*arguments), few)
    assert np.isnan(few[2]).all()
    assert not np.isnan(few[:2]).any()


@pytest.mark.parametrize(
    ("instance", "groups", "expected"),
    [
        ("g.f", set(), ("g", "f")),
        ("g.f.x", set(), ("g", "f.x")),
        ("g.f.x", {"g", "g.f"}, ("g.f", "x")),
        ("g.f", {"g.f"}, ("g.f", None)),
        ("alone", set(), ("", "alone")),
        ("gg.f", {"g"}, ("gg", "f")),
    ],
)
def test_an_instance_is_split_by_the_known_group_bys(instance, groups, expected):
    found = parse_instance(instance, groups)
    assert (found.group_by, found.feature) == expected
    assert found.instance == instance


def test_the_frame_is_the_complete_ranking(view):
    frame = view.frame({"dataset": JOIN})
    assert frame["feature"].tolist()[:3] == ["spend", "visits", features.MARKUP]
    assert frame["partition"][0] == "ds=2023-01-05/hr_minute=00-00"
    assert frame["worst"][0] == 0.9
    with pytest.raises(tg.HistoryError, match="empty"):
        view.frame({"dataset": None})


def test_the_frame_has_the_listed_features(view):
    def listed(**options):
        return view.frame({"dataset": JOIN, **options})["feature"].tolist()

    assert listed(group="batch")[:2] == ["spend", "visits"]
    assert listed(filter="STREAM click") == ["clicks"]
    assert len(listed(group="nonsense")) == 6


def test_chart_data_covers_the_selected_features(view):
    def points(**options):
        return view.charts({"dataset": JOIN, **options})

    found = points()  # of the worst features, as on the page without a selection
    assert set(found["feature"].dropna()) == {"spend"}
    assert set(found["group_by"]) == {"batch"}
    assert found["value"].notna().all()
    at_night = found.query("metric == 'mismatch' and feature == 'spend'")
    assert at_night["value"].max() == 0.9
    rows = found[found["feature"].isna()]
    assert set(rows["metric"]) <= {"row_missing", "row_extra", "total"}
    assert not rows.empty
    clicks = ranked(view).payload["features"].index("clicks")
    number = int(ranked(view).arrays["ids"][clicks])
    assert set(points(ids=[number])["feature"].dropna()) == {"clicks"}
    assert set(points(filter="visits")["feature"].dropna()) == {"visits"}
