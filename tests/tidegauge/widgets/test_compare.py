"""Answers of the compare view. No Spark."""

import datetime as dt
import math

import pytest

import tidegauge as tg
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.repository.testing import commit, day, measurement, spec
from tidegauge.widgets import compare as comparison

FIRST, LAST = {"partition": "ds=2013-01-01"}, {"partition": "ds=2013-01-09"}


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as made:
        commit(made, *(day(n, rows=10 + n) for n in range(1, 10)))
        yield made


def compare_answer(repo, baseline, current):
    return comparison.compare(repo, {"dataset": "d", "baseline": baseline, "current": current})


def test_sides_are_listed_with_the_newest_first(repo):
    answer = comparison.sides(repo, {"dataset": "d"})
    assert answer.payload["partitions"] == [f"ds=2013-01-0{n}" for n in range(9, 0, -1)]
    assert answer.payload["segments"] == [""] * 9
    seconds = dt.datetime(2013, 1, 9, tzinfo=dt.UTC).timestamp()
    assert answer.arrays["times"][0] == seconds


def test_names_of_sides_are_not_truncated(repo):
    name = "ds=2013-01-10/key=" + "k" * 300
    repo.record("long", "x", 1.0, partition=name)
    assert comparison.sides(repo, {"dataset": "long"}).payload["partitions"] == [name]


def test_runs_that_measured_nothing_are_not_sides(repo):
    run = commit(repo, day(9, rows=30, fingerprint="b"))
    repo.store.open_run(spec())
    runs = comparison.sides(repo, {"dataset": "d"}).payload["runs"]
    assert [one["id"] for one in runs] == [run, 1]
    assert [one["partition_count"] for one in runs] == [1, 9]


def test_partitions_without_time_come_last(repo):
    repo.record("loose", "x", 1.0, partition="batch=1")
    answer = comparison.sides(repo, {"dataset": "loose"})
    assert answer.payload["partitions"] == ["batch=1"]
    assert math.isnan(answer.arrays["times"][0])


def test_every_metric_has_the_id_of_its_series(repo):
    answer = compare_answer(repo, FIRST, LAST)
    texts, arrays = answer.payload["strings"], answer.arrays
    row = texts["name"].index("Size")
    assert arrays["baseline"][row] == 11
    assert arrays["current"][row] == 19
    assert answer.payload["total"] == answer.payload["rows"] == len(arrays["ids"])
    assert len(set(arrays["ids"].tolist())) == answer.payload["rows"]
    number = arrays["ids"][row]
    with repo.database.read() as connection:
        query = "select s.name from series s where s.id = ?"
        found = connection.exec_driver_sql(query, (int(number),)).scalar_one()
    assert found == "Size"
    ratios = {name for name, one in zip(texts["name"], arrays["ratio"], strict=True) if one}
    assert {"Completeness", "Histogram.ratio.a"} <= ratios
    assert not {"Size", "Mean", "Histogram.abs.a"} & ratios


def test_a_stored_anomaly_is_sent_even_if_its_change_is_the_least_surprising(repo, monkeypatch):
    monitor = tg.Monitor({"name": "Size"}, "SimpleThreshold(18)")
    repo.detect("d", [monitor])
    whole = compare_answer(repo, FIRST, LAST)
    assert whole.payload["unusual"] == 0
    monkeypatch.setattr(comparison, "MAX_COMPARED_ROWS", 1)
    answer = compare_answer(repo, FIRST, LAST)
    assert answer.payload["strings"]["name"] == ["Size"]
    assert answer.arrays["unusual"].tolist() == [0]
    assert answer.arrays["anomaly"].tolist() == [1]
    assert (answer.payload["rows"], answer.payload["total"]) == (1, whole.payload["total"])


def test_selected_sides_are_compared():
    assert comparison.side({"partition": "p"}) == "p"
    assert comparison.side({"run": 3}) == 3
    assert comparison.side({"since": "2013-01-01", "until": ""}) == ("2013-01-01", None)
    with pytest.raises(tg.HistoryError, match="Invalid side"):
        comparison.side(None)


def default_rows(repo, **asked):
    row = comparison.compare_frame(repo, {"dataset": "d", **asked}).set_index("name").loc["Size"]
    return row["baseline"], row["current"]


def test_the_default_sides_are_the_newest_partition_and_the_one_a_week_earlier(repo):
    assert default_rows(repo, kind="partitions", sort="surprise") == (12, 19)  # 2 and 9 January
    commit(repo, day(17, rows=99))
    assert default_rows(repo) == (19, 99)  # 10 January does not exist: the partition before it
    repo.record("loose", "Size", {"batch=1": 1.0, "batch=2": 2.0})
    assert default_rows(repo, dataset="loose") == (2, 1)  # without times, in listed order
    repo.record("lonely", "Size", 1.0, partition="batch=1")
    with pytest.raises(tg.HistoryError, match="'lonely' has fewer than two partitions"):
        default_rows(repo, dataset="lonely")


@pytest.mark.parametrize("given", [{"baselin", "current"}, {"current"}, {"baselin"}])
def test_missing_and_misspelt_sides_are_named(repo, given):
    with pytest.raises(tg.HistoryError, match="needs baseline and current") as raised:
        default_rows(repo, **dict.fromkeys(given, FIRST))
    assert str(raised.value).endswith(f"; it has: {', '.join(sorted(given))}")


EARLY = {"since": "2013-01-01", "until": "2013-01-03"}
LATE = {"since": "2013-01-07", "until": "2013-01-09"}


def test_windows_are_compared_by_their_merged_states(repo):
    arrays = compare_answer(repo, EARLY, LATE).arrays
    names = compare_answer(repo, EARLY, LATE).payload["strings"]["name"]
    row = names.index("Size")
    assert arrays["baseline"][row] == 11 + 12 + 13
    assert arrays["current"][row] == 17 + 18 + 19
    # One row a day is incomplete: the mean of rows, not of days.
    row = names.index("Completeness")
    assert arrays["baseline"][row] == pytest.approx(33 / 36)
    assert arrays["current"][row] == pytest.approx(51 / 54)
    assert arrays["relative"][row] == pytest.approx(51 / 54 / (33 / 36) - 1)


def test_the_table_has_the_metrics_of_whole_windows_unless_medians_are_requested(repo):
    repo.record("d", "revenue", {f"ds=2013-01-0{n}": float(n) for n in range(1, 10)})
    question = {"dataset": "d", "baseline": EARLY, "current": LATE}

    def values(**options):
        answer = comparison.compare(repo, {**question, **options})
        texts, arrays = answer.payload["strings"], answer.arrays
        size, revenue = texts["name"].index("Size"), texts["name"].index("revenue")
        assert texts["summary"][revenue] == "median", "it has no states"
        assert arrays["current"][revenue] == 8
        return texts["summary"][size], arrays["baseline"][size], arrays["current"][size]

    assert values() == values(summary="merged") == ("merged", 36, 54)
    assert values(summary="median") == ("median", 12, 18)
    frame = comparison.compare_frame(repo, question)
    sides = [tuple(side.values()) for side in (EARLY, LATE)]
    assert frame.equals(repo.compare("d", *sides))


def test_many_series_have_medians_unless_whole_windows_are_requested(repo, monkeypatch):
    monkeypatch.setattr(comparison, "MAX_MERGED_SERIES", 3)
    question = {"dataset": "d", "baseline": EARLY, "current": LATE}
    assert set(comparison.compare_frame(repo, question)["summary"]) == {"median"}
    assert comparison.compare(repo, question).payload["summary"] == "median", "the page says so"
    merged = comparison.compare_frame(repo, {**question, "summary": "merged"})
    assert "merged" in set(merged["summary"])


def test_changes_are_sorted_by_size(repo):
    repo.record("d", "fall", {f"ds=2013-01-0{n}": 100.0 - 11 * n for n in range(1, 10)})
    repo.record("d", "rise", {f"ds=2013-01-0{n}": 100.0 + n for n in range(1, 10)})
    question = {"dataset": "d", "baseline": FIRST, "current": LAST, "sort": "change"}
    changes = comparison.compare_frame(repo, question)["change"]
    assert changes.iloc[0] == -88
    assert changes.dropna().abs().is_monotonic_decreasing
    rising = comparison.compare_frame(repo, {**question, "sort": "relative", "down": False})
    assert rising["relative"].dropna().abs().is_monotonic_increasing


def test_the_frame_has_the_listed_rows_in_their_order(repo):
    question = {"dataset": "d", "baseline": FIRST, "current": LAST}
    whole = comparison.compare_frame(repo, question)

    def listed(**options):
        return comparison.compare_frame(repo, {**question, **options})

    assert listed(sort="surprise", down=True)["name"].tolist() == whole["name"].tolist()
    assert set(listed(filter="MEAN x")["name"]) == {"Mean"}
    assert listed(filter="mean nothing").empty
    assert listed(filter="where").empty, "no analyzer has a filter"
    # Three metrics rise by 8; the most surprising comes first. Failed metrics come last in both directions.
    assert listed(sort="change")["name"].tolist()[:3] == ["Histogram.abs.a", "Size", "Mean"]
    assert listed(sort="change", down=False)["change"].dropna().abs().is_monotonic_increasing
    assert listed(sort="change", down=False)["change"].isna().iloc[-1]
    names = listed(sort="name", down=False)["name"].tolist()
    assert names == sorted(names, key=str.casefold)
    commit(repo, day(10, rows=9999))
    question["current"] = {"partition": "ds=2013-01-10"}
    assert "Size" in set(listed(unusual=True)["name"])
    assert len(listed(unusual=True)) < len(whole)


def test_rows_can_be_filtered_by_the_filter_of_their_analyzer():
    with tg.Repository("sqlite://") as repo:
        ewr = tg.Size(where="origin = 'EWR'")
        commit(repo, *(day(n, only=[ewr], extra=[measurement(ewr, NumMatches(n))]) for n in (1, 9)))
        question = {"dataset": "d", "baseline": FIRST, "current": LAST}
        assert comparison.compare_frame(repo, {**question, "filter": "WHERE ewr"})[
            "current"
        ].tolist() == [9.0]
        assert comparison.compare_frame(repo, {**question, "filter": "where JFK"}).empty


def test_rows_are_sorted_by_the_change_of_their_merged_states(repo):
    question = {"dataset": "d", "baseline": EARLY, "current": LATE, "sort": "relative"}
    found = comparison.compare_frame(repo, question)
    # The mean of x, which is n on day n with 10 + n rows, rises from 74/36 to 434/54. 3 of 36 rows with
    # s = b become 3 of 54; 33 of 36 rows with s = a become 51 of 54.
    names = ["Mean", "Histogram.abs.a", "Size", "Histogram.ratio.b"]
    assert found["name"].tolist()[:4] == names
    assert found["relative"].isna().iloc[-1]
