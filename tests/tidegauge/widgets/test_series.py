"""Answers of the series and distribution views. No Spark, no browser."""

import datetime as dt
import math
from dataclasses import replace

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.repository.testing import commit, day, measurement
from tidegauge.widgets import compare
from tidegauge.widgets import compare as comparison
from tidegauge.widgets import series as charts
from tidegauge.widgets.series import Overview

CITY = tg.Histogram("city")


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as found:
        yield found


def cities(number, **counts):
    state = FrequenciesAndNumRows.from_groups([((name,), count) for name, count in counts.items()])
    return day(number, only=[CITY], extra=[measurement(CITY, state)])


def test_the_drift_of_a_column_with_a_weekly_season_is_compared_with_the_same_weekday(repo):
    weekday, weekend = {("a",): 50, ("b",): 50}, {("a",): 5, ("b",): 95}
    weeks = [weekday] * 4 + [weekend] * 2 + [weekday]
    commit(repo, *(day(n, groups=weeks[(n - 1) % 7]) for n in range(1, 71)), dataset="weekly")
    commit(repo, *(day(n, groups=weekday) for n in range(1, 71)), dataset="steady")
    answers = {
        name: compare.drifts(repo, {"dataset": name, "column": "s"})
        for name in ("weekly", "steady")
    }
    assert answers["weekly"].payload["same_weekday"]
    assert max(answers["weekly"].arrays["psi"]) == 0
    assert not answers["steady"].payload["same_weekday"]
    piece = {"dataset": "weekly", "column": "s", "since": "2013-03-09", "until": "2013-03-09"}
    assert not compare.drifts(repo, piece).payload["same_weekday"], "one partition cannot tell"
    assert compare.drifts(repo, {**piece, "same_weekday": True}).arrays["psi"].tolist() == [0]
    assert compare.drifts(repo, {**piece, "same_weekday": False}).arrays["psi"][0] > 0.25
    assert answers["steady"].payload["thresholds"] == (0.1, 0.25)


def test_series_show_versions_and_replaced_values(repo):
    repo.record("orders", "revenue", {"ds=2013-02-08": 10.0, "ds=2013-02-09": 20.0})
    repo.record("orders", "revenue", {"ds=2013-02-09": 25.0, "ds=2013-02-10": math.nan})
    overview = Overview(repo)
    ids = overview.catalogue().arrays["ids"].tolist()
    told = charts.series(overview, {"ids": ids})
    assert told.arrays["value"][0, :2].tolist() == [10, 25]
    assert told.arrays["version"].tolist() == [[1, 2, 1]]
    assert [told.payload["statuses"][n] for n in told.arrays["status"][0]] == [
        "finite",
        "finite",
        "NaN",
    ]
    assert told.arrays["restatements"].tolist() == [[0, 1, 1, 20]]


def test_an_overlay_adds_the_same_series_of_another_dataset(repo):
    for dataset, name in (("orders", "revenue"), ("orders_eu", "revenue"), ("orders_eu", "cost")):
        repo.record(dataset, name, 10.0, partition="ds=2013-02-08")
    overview = Overview(repo)
    catalogue = overview.catalogue()
    first = int(catalogue.arrays["ids"][0])
    told = charts.series(overview, {"ids": [first], "overlay": "orders_eu"})
    assert [(one["dataset"], one["name"]) for one in told.payload["series"]] == [
        ("orders", "revenue"),
        ("orders_eu", "revenue"),
    ]
    assert told.arrays["version"].shape == (2, 1)


def test_recorded_points_have_no_version(repo):
    repo.record("orders", "revenue", 1.0, partition="ds=2013-02-08")
    repo.record("visits", "count", 2.0, partition="ds=2013-02-09")
    overview = Overview(repo)
    answer = charts.series(overview, {"ids": overview.catalogue().arrays["ids"].tolist()})
    assert answer.arrays["version"].tolist() == [[1, 0], [0, 1]]


def test_columns_with_a_stored_distribution_are_listed(repo):
    commit(repo, *(cities(n, a=3, b=n) for n in (1, 2, 3)))
    assert compare.columns(repo, {"dataset": "d"}).payload == {"names": ["city"]}


def test_drift_of_a_window_equals_drift_of_the_whole_history(repo):
    commit(repo, *(cities(n, a=30, b=n) for n in range(1, 11)))
    question = {"dataset": "d", "column": "city"}
    whole = compare.drifts(repo, question)
    # A partition is compared with at least seven earlier ones.
    assert whole.payload["strings"]["partition"] == [
        "ds=2013-01-08",
        "ds=2013-01-09",
        "ds=2013-01-10",
    ]
    last = compare.drifts(repo, {**question, "since": "2013-01-10", "until": "2013-01-10T00:00:00"})
    assert last.payload["strings"]["partition"] == ["ds=2013-01-10"]
    assert last.arrays["js"].tolist() == whole.arrays["js"].tolist()[2:]
    none = compare.drifts(repo, {**question, "since": "2014-01-01"})
    assert none.payload["strings"]["partition"] == []


def test_a_distribution_has_its_distances(repo):
    commit(repo, cities(1, a=3, b=1), cities(2, a=1, c=1))
    sides = {"baseline": {"partition": "ds=2013-01-01"}, "current": {"partition": "ds=2013-01-02"}}
    answer = compare.distribution(repo, {"dataset": "d", "column": "city", **sides})
    assert (
        answer.payload["kind"],
        answer.payload["baseline_rows"],
        answer.payload["current_rows"],
    ) == (
        "categorical",
        4,
        2,
    )
    shares = zip(
        answer.payload["categories"],
        answer.arrays["baseline_values"].tolist(),
        answer.arrays["current_values"].tolist(),
        strict=True,
    )
    assert sorted(shares) == [("a", 0.75, 0.5), ("b", 0.25, 0.0), ("c", 0.0, 0.5)]
    assert answer.payload["distances"]["unseen"] == 0.5
    assert answer.payload["distances"]["lost"] == 0.25


def of_country(measured, country):
    name, within = measured.partition.values[0], f"country={country}"
    return replace(
        measured,
        partition=Partition(("ds", "country"), (name, country)),
        segment=within,
        measurements=tuple(replace(one, segment=within) for one in measured.measurements),
    )


def test_a_distribution_covers_one_segment_if_partition_keys_make_several(repo):
    german = [of_country(cities(n, berlin=n), "DE") for n in range(1, 9)]
    french = [of_country(cities(n, paris=1), "FR") for n in range(1, 9)]
    commit(repo, *german, *french)
    sides = comparison.sides(repo, {"dataset": "d"}).payload
    assert set(zip(sides["partitions"], sides["segments"], strict=True)) >= {
        ("ds=2013-01-08/country=DE", "country=DE"),
        ("ds=2013-01-08/country=FR", "country=FR"),
    }
    question = {
        "dataset": "d",
        "column": "city",
        "baseline": {"since": "2013-01-01", "until": "2013-01-03"},
        "current": {"since": "2013-01-04", "until": "2013-01-05"},
    }
    answer = compare.distribution(repo, {**question, "segment": "country=DE"}).payload
    assert (answer["baseline_rows"], answer["current_rows"]) == (1 + 2 + 3, 4 + 5)
    assert answer["categories"] == ["berlin"]
    both = compare.distribution(repo, {**question, "segment": None}).payload
    assert (both["baseline_rows"], both["current_rows"]) == (6 + 3, 9 + 2)
    drifts = compare.drifts(repo, {**question, "segment": "country=DE"})
    assert drifts.payload["strings"]["partition"] == ["ds=2013-01-08/country=DE"]
    assert drifts.arrays["js"].tolist() == [0]
    assert drifts.arrays["baseline_rows"].tolist() == [1 + 2 + 3 + 4 + 5 + 6 + 7]
    frame = compare.drift_frame(repo, {**question, "segment": "country=FR"})
    assert frame["partition"].tolist() == ["ds=2013-01-08/country=FR"]
    of_side = {**question, "segment": None, "current": {"partition": "ds=2013-01-08/country=DE"}}
    assert compare.drift_frame(repo, of_side)["segment"].tolist() == ["country=DE"]
    every = compare.drifts(repo, {**question, "segment": ""})
    assert every.payload["strings"]["segment"] == ["country=DE", "country=FR"]


def test_seasons_are_described_in_words(repo):
    # Weekends are 45% lower: 550 of 1000.
    days = [dt.date(2026, 1, 5) + dt.timedelta(days=n) for n in range(63)]
    sizes = {f"ds={day}": 1000 if day.weekday() < 5 else 550 for day in days}
    repo.record("orders", "rows", sizes, scale="count")
    repo.record("orders", "steady", dict.fromkeys(sizes, 3.0))
    overview = Overview(repo)
    ids = overview.catalogue().arrays["ids"].tolist()
    told = charts.seasons(overview, {"ids": ids}).payload["seasons"]
    assert told == ["Saturdays and Sundays 45% lower", ""]


def test_series_without_seasons_have_an_empty_description(repo):
    repo.record("orders", "rows", 1.0, partition="ds=2026-01-05")
    overview = Overview(repo)
    ids = overview.catalogue().arrays["ids"].tolist()
    assert charts.seasons(overview, {"ids": ids}).payload["seasons"] == [""]
    assert charts.seasons(overview, {"ids": []}).payload["seasons"] == []
