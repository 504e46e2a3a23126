"""Heat map of all series: rows, columns, and a byte for each point. No Spark."""

import datetime as dt

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.history import heatmap
from tidegauge.repository.history.heatmap import change_levels, panorama, score_levels, values
from tidegauge.repository.incidents.listing import anomalous_points

DAYS = [f"ds=2013-01-{n:02}" for n in range(1, 32)]


def look(repo, read, first=None, last=None, rows=None, **options):
    with repo.database.read() as connection:
        known = panorama(connection, **options)
        count, columns = known.shape
        rows = np.arange(count) if rows is None else np.array(rows)
        first = 0 if first is None else first
        return read(connection, known, first, columns if last is None else last, rows)


def index_of(repo, **options):
    with repo.database.read() as connection:
        return panorama(connection, **options)


@pytest.fixture
def two(repo):
    """Two tables: one of three days, one of hours and of partitions without a time."""
    repo.record("b", "revenue", {DAYS[0]: 1.0, DAYS[1]: 2.0, DAYS[2]: 1.5})
    repo.record("a", "clicks", {DAYS[1]: 8.0, DAYS[2]: 8.0}, instance="x")
    repo.record("a", "clicks", {DAYS[2]: 5.0}, instance="w")
    repo.record("c", "visits", {"part=z": 3.0, "part=m": -1.0})
    return repo


def test_rows_are_ordered_by_dataset_column_and_name_and_columns_by_time_and_name(two):
    index = index_of(two)
    keys = [index.key(row) for row in range(4)]
    reported = [(key["dataset"], key["instance"], key["name"]) for key in keys]
    assert reported == [
        ("a", "w", "clicks"),
        ("a", "x", "clicks"),
        ("b", "*", "revenue"),
        ("c", "*", "visits"),
    ]
    assert keys[0]["analyzer"] == "Recorded('clicks', instance='w')"
    assert list(index.labels) == ["2013-01-01", "2013-01-02", "2013-01-03", "part=m", "part=z"]
    first = dt.datetime(2013, 1, 1, tzinfo=dt.UTC).timestamp()
    assert index.times[:3].tolist() == [first, first + 86_400, first + 2 * 86_400]
    assert np.isnan(index.times[3:]).all()


def test_hours_are_labelled_with_their_time(repo):
    repo.record("d", "n", {"ds=2013-01-01/hr=00": 1.0, "ds=2013-01-01/hr=07": 1.0})
    assert list(index_of(repo).labels) == ["2013-01-01", "2013-01-01 07:00"]


def test_values_are_at_their_series_and_partition(two):
    actual = look(two, values)
    nan = np.nan
    expected = [
        [nan, nan, 5, nan, nan],
        [nan, 8, 8, nan, nan],
        [1, 2, 1.5, nan, nan],
        [nan, nan, nan, -1, 3],
    ]
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(
        look(two, values, 1, 3, [2, 0]), [[2, 1.5], [nan, 5]]
    )  # rows in the requested order, columns up to the one before the last


def test_an_empty_repository_has_an_empty_heat_map(repo):
    assert index_of(repo).shape == (0, 0)
    assert look(repo, values).shape == (0, 0)
    assert look(repo, score_levels).shape == (0, 0)


def test_changes_are_roots_of_relative_changes(repo):
    # 100 -> 75 is a quarter less, the root of which is a half: 128 - 63.5. The gap is skipped.
    days = dict(zip(DAYS, [100.0, 75.0, 75.0, 0.0, 5.0, -5.0], strict=False))
    repo.record("d", "n", days)
    assert look(repo, change_levels)[0].tolist() == [0, 64, 128, 1, 255, 1]
    assert look(repo, change_levels, 2, 4)[0].tolist() == [128, 1]


def test_changes_skip_gaps_of_at_most_a_week(repo):
    near, far = 1 + 7, 1 + 7 + 9
    filler = dict.fromkeys(DAYS[: far + 1], 1.0)
    repo.record("d", "all", filler)
    repo.record("d", "some", {DAYS[0]: 4.0, DAYS[near]: 4.0, DAYS[far]: 4.0})
    actual = look(repo, change_levels, near, near + 1)[1]
    assert actual.tolist() == [128]
    assert look(repo, change_levels, far, far + 1)[1].tolist() == [0]


def test_only_finite_values_are_shown(repo):
    repo.record("d", "n", {DAYS[0]: float("nan"), DAYS[1]: float("inf"), DAYS[2]: 2.0})
    assert np.isnan(look(repo, values)[0]).tolist() == [True, True, False]


def test_scores_are_stored_in_sixteenths(repo):
    numbers = dict(zip(DAYS, [100.0, 101.0] * 15 + [3.0], strict=False))
    repo.record("d", "n", numbers, scale="count")
    repo.detect("d")
    score = repo.scores("d", name="n")
    score = score[score["detector"].str.startswith("Seasonal")].set_index("partition")["score"]
    actual = look(repo, score_levels)
    row = [index_of(repo).key(row)["name"] for row in range(len(actual))].index("n")
    for day in DAYS:
        level = actual[row][DAYS.index(day)]
        if day in score.index and score[day] == score[day]:
            assert level == 1 + min(254, int(16 * score[day])), day
        else:
            assert level == 0
    assert actual[row][-1] > 1 + 16 * 3  # it is an anomaly
    assert actual[row].max() == actual[row][-1]


def test_anomalies_are_at_their_series_and_partition(repo):
    repo.record("d", "n", dict(zip(DAYS, [100.0, 101.0] * 15 + [3.0], strict=False)), scale="count")
    assert repo.detect("d")["partition"].tolist() == [DAYS[-1]]
    with repo.database.read() as connection:
        points = anomalous_points(connection)
    of = index_of(repo)
    assert of.columns_of(points.partition).tolist() == [30]
    assert [of.key(row)["name"] for row in of.rows_of(points.series)] == ["n"]
    assert points.score.tolist() == repo.anomalies("d")["score"].tolist()


@pytest.mark.parametrize("listed", [450, 1])
def test_any_range_of_columns_has_the_values_of_the_whole(two, monkeypatch, listed):
    """Few series of many tables are read by one query, many of one table by its partitions."""
    two.record("e", "orders", {"ds=2013-01-02/hr=07": 9.0})
    two.record("c", "more", {"part=m": 4.0})
    monkeypatch.setattr(heatmap, "_MAX_LISTED_SERIES", listed)
    whole = look(two, values)
    rows, columns = whole.shape
    assert np.isfinite(whole).sum() == 8 + 2
    for first in range(columns):
        for last in range(first, columns + 1):
            np.testing.assert_array_equal(look(two, values, first, last), whole[:, first:last])
    np.testing.assert_array_equal(look(two, values, rows=[rows - 1, 0]), whole[[rows - 1, 0]])


def test_an_earlier_view_shows_earlier_values(repo):
    repo.record("d", "n", {DAYS[0]: 1.0, DAYS[1]: 2.0})
    then = dt.datetime.now(dt.UTC)
    repo.record("d", "n", {DAYS[1]: 3.0})
    assert look(repo, values)[0].tolist() == [1, 3]
    assert look(repo, values, as_of=then)[0].tolist() == [1, 2]


def test_unknown_series_and_partitions_have_no_position(two):
    index = index_of(two)
    assert index.rows_of(np.array([10_000])).tolist() == [-1]
    assert index.columns_of(np.array([10_000])).tolist() == [-1]


def test_sqlite_and_postgresql_give_the_same_heat_map(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path) as repo:
        numbers = dict(zip(DAYS, [100.0, 101.0] * 15 + [3.0], strict=False))
        repo.record("d", "n", numbers, scale="count")
        then = dt.datetime.now(dt.UTC)
        repo.record("e", "part", 1.0, partition="part=x")
        repo.detect("d")
        index = index_of(repo)
        row = [index.key(row)["name"] for row in range(index.shape[0])].index("n")
        assert look(repo, values)[row, :31].tolist() == list(numbers.values())
        assert look(repo, score_levels)[row, 30] > 50
        assert look(repo, change_levels)[row, 30] < 128
        assert list(index.labels) == [*(day[3:] for day in DAYS), "part=x"]
        assert list(index_of(repo, as_of=then).labels) == [day[3:] for day in DAYS]
        with repo.database.read() as connection:
            points = anomalous_points(connection)
        assert index.columns_of(points.partition).tolist() == [30]
