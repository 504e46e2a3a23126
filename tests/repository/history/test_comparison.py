"""Comparison of two runs, partitions or windows. No Spark."""

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.testing import SIZE, commit, day

inf, nan = np.inf, np.nan


def ds(n):
    return str(np.datetime64("2013-01-01") + np.timedelta64(n - 1, "D"))


def record(repo, values, name="x", first=1, **options):
    numbers = {f"ds={ds(first + n)}": v for n, v in enumerate(values)}
    repo.record("d", name, numbers, **{"scale": "signed", **options})


def only_row(repo, baseline, current, **options):
    comparison = repo.compare("d", baseline, current, **options)
    assert len(comparison) == 1
    return comparison.iloc[0]


def days(first, last=None):
    if last is None:
        return f"ds={ds(first)}"
    return (ds(first), ds(last))


STEPS = [0, 1, 3, 6, 10, 15, 21]
"""Steps of 1 to 6: their median is 3.5, and the median distance from it 1.5."""


def test_two_partitions_are_compared_with_usual_differences(repo):
    record(repo, [*STEPS, 28, 48])
    row = only_row(repo, days(8), days(9))
    assert list(row.index) == [
        *("dataset", "segment", "name", "instance", "where", "analyzer"),
        *("baseline", "current", "change", "relative", "surprise", "unusual", "anomaly"),
        *("summary", "baseline_partitions", "current_partitions", "status"),
    ]
    assert row["surprise"] == pytest.approx((20 - 3.5) / (1.4826 * 1.5))
    assert (row["baseline"], row["current"], row["change"]) == (28, 48, 20)
    assert row["relative"] == pytest.approx(20 / 28)
    assert (row["unusual"], row["status"]) == (True, "both")
    assert (row["baseline_partitions"], row["current_partitions"]) == (1, 1)
    assert (row["segment"], row["name"], row["instance"]) == ("", "x", "*")
    usual = only_row(repo, days(9), days(8))
    assert usual["surprise"] == pytest.approx((20 - 3.5) / (1.4826 * 1.5))  # -20, usually -3.5


def test_fewer_than_six_usual_differences_are_not_used(repo):
    record(repo, [*STEPS[:-1], 21, 48])
    row = only_row(repo, days(7), days(8))
    assert np.isnan(row["surprise"])
    assert not row["unusual"]
    assert row["change"] == 27


def test_usual_differences_have_the_same_distance_in_time(repo):
    """Every second day has 100 more.

    This is usual between neighbors, and never happened over two days.
    """
    record(repo, [*(100 * (n % 2) + 0.1 * (n % 5) for n in range(38)), 0, 100, 100])
    assert only_row(repo, days(39), days(40))["surprise"] < 4
    assert only_row(repo, days(39), days(41))["surprise"] > 100


def test_histories_too_short_for_the_distance_are_compared_by_neighbours(repo):
    """The steps 1 to 8 of 9 touch neither day, and no pair of days is as far apart."""
    record(repo, [1, *np.cumsum([5, 1, 2, 3, 4, 5, 6, 7, 50])])
    row = only_row(repo, days(1), days(10))  # the steps 1 to 7 remain: MAD 2
    assert row["surprise"] == pytest.approx((83 - 1) / (1.4826 * 2))


def test_frequent_differences_are_usual(repo):
    """Nine steps rise by 2, and eight fall by 2. So the median distance is 0, and 4 is common."""
    record(repo, [*([10, 12] * 9), 10, 21])
    row = only_row(repo, days(19), days(20))
    assert row["surprise"] == pytest.approx((11 - 2) / (4 / 1.645))


def test_mostly_equal_differences_are_compared_by_their_mean_distance(repo):
    """One day has 4, so two of 38 steps differ from 0."""
    record(repo, [*([0] * 10), 4, *([0] * 29), 1])
    row = only_row(repo, days(40), days(41))
    assert row["surprise"] == pytest.approx(1 / (1.2533 * 8 / 38))


@pytest.mark.parametrize("scale", ["signed", "count", "ratio", "positive", "distance"])
def test_a_constant_that_changes(repo, scale):
    record(repo, [*([0.5] * 20), 0.501], scale=scale)
    assert only_row(repo, days(20), days(21))["surprise"] == 300
    assert only_row(repo, days(1, 19), days(21, 21))["surprise"] == 300
    equal = only_row(repo, days(1), days(2))
    assert (equal["surprise"], equal["change"], equal["relative"]) == (0, 0, 0)


def test_a_straight_line_that_continues_or_breaks(repo):
    record(repo, [*range(30), 30, 99])
    assert only_row(repo, days(30), days(31))["surprise"] == 0
    assert only_row(repo, days(31), days(32))["surprise"] == 300
    assert only_row(repo, days(26, 28), days(29, 31))["surprise"] == 0
    assert np.isnan(only_row(repo, days(1, 15), days(16, 31))["surprise"])


def test_rounding_errors_are_not_differences(repo):
    record(repo, [*([0.3] * 20), 0.1 + 0.2])
    row = only_row(repo, days(20), days(21))
    assert (row["surprise"], row["change"], row["unusual"]) == (0, 0, False)


def test_kinds_of_metrics_have_their_own_scales(repo):
    """Both change by a tenth. Neither is assumed to be steadier than its number of rows allows."""
    record(repo, [*([0.5, 0.50001] * 10), 0.5, 0.55], "r", scale="ratio", weight=400)
    record(repo, [*([2500, 2500.01] * 10), 2500, 2750], "c", scale="count")
    actual = repo.compare("d", days(21), days(22)).set_index("name")["surprise"]
    share = np.arcsin(np.sqrt(0.55)) - np.arcsin(np.sqrt(0.5))
    assert actual["r"] == pytest.approx(share / (np.sqrt(2) * 0.5 / 20), rel=1e-3)
    assert actual["c"] == pytest.approx(np.log(2751 / 2501) / (np.sqrt(2) / 50), rel=1e-3)


def test_windows_too_long_to_be_shifted(repo):
    """Steps 1 to 7: MAD 2. Medians of four, 2 and 18, count as means of 8 / pi."""
    record(repo, [*STEPS, 28])
    row = only_row(repo, days(1, 4), days(5, 8))
    assert (row["baseline"], row["current"], row["change"]) == (2, 18, 16)
    assert row["surprise"] == pytest.approx(16 / (1.4826 * 2 * np.sqrt(np.pi / 8)))
    assert (row["baseline_partitions"], row["current_partitions"]) == (4, 4)
    open_ends = only_row(repo, (None, ds(4)), (ds(5), None))
    assert open_ends["surprise"] == row["surprise"]


def test_windows_are_shifted_along_the_history(repo):
    """Earlier means of two squares, two days apart: 6, 10, ..., 30; the median is 18, the MAD 8."""
    record(repo, [*(n * n for n in range(12)), 500, 500])
    row = only_row(repo, days(11, 12), days(13, 14))
    assert (row["baseline"], row["current"]) == (110.5, 500)
    assert row["surprise"] == pytest.approx((389.5 - 18) / (1.4826 * 8))


def test_constant_medians_are_not_constant_series(repo):
    values = [0, 0, 0, 1, 0, 0, 2] * 12
    record(repo, [*values, *([1] * 7)])
    row = only_row(repo, days(78, 84), days(85, 91))
    assert (row["baseline"], row["current"]) == (0, 1)
    assert 0 < row["surprise"] < 300


def test_a_window_of_one_partition_equals_that_partition(repo):
    record(repo, [*STEPS, 28, 48])
    a, b = only_row(repo, days(8, 8), days(9, 9)), only_row(repo, days(8), days(9))
    assert a["surprise"] == b["surprise"]


# Runs


def sizes(repo, *numbers, first=1, fingerprint="a"):
    made = (day(first + n, fingerprint, rows, only=[SIZE]) for n, rows in enumerate(numbers))
    return commit(repo, *made)


def test_two_runs_are_compared(repo):
    first, second = sizes(repo, 10, 30, 20), sizes(repo, 50, 40, first=4)
    row = only_row(repo, first, second, summary="median")
    assert (row["baseline"], row["current"], row["change"]) == (20, 45, 25)
    assert row["summary"] == "median"
    row = only_row(repo, first, second)
    assert (row["baseline"], row["current"], row["change"]) == (60, 90, 30)
    assert (row["summary"], row["relative"]) == ("merged", 0.5)
    assert (row["baseline_partitions"], row["current_partitions"]) == (3, 2)


def test_a_restatement_is_compared_partition_by_partition(repo):
    """Neighbors differ by ln(1.1), up or down.

    Two restated days fell by two and by three times that.
    """
    up = 1.1
    raw = [1000 * up ** (n % 2) for n in range(10)]
    first = sizes(repo, *(int(round(x)) - 1 for x in raw))
    second = sizes(repo, 909, 999, 2000, first=9, fingerprint="b")
    sizes(repo, 5, first=10, fingerprint="c")
    row = only_row(repo, first, second, summary="median")
    assert (row["baseline"], row["current"]) == (1049, 954)
    assert row["change"] == -95  # of -90 and -100
    assert row["relative"] == pytest.approx(-95 / 1049)
    assert (row["baseline_partitions"], row["current_partitions"]) == (2, 2)
    whole = only_row(repo, first, second)
    assert (whole["baseline"], whole["current"], whole["change"]) == (2098, 1908, -190)
    assert whole["surprise"] == row["surprise"]
    earlier = only_row(repo, first, first, summary="median")
    assert (earlier["change"], earlier["baseline_partitions"]) == (0, 10)
    assert earlier["baseline"] == 1049


def test_a_restatement_is_compared_with_the_differences_of_neighbours(repo):
    """The steps are 1, 2, ... 8. Without those that touch the restated day, 1 to 7 remain."""
    record(repo, np.cumsum([0, 1, 2, 3, 4, 5, 6, 7]), "x")  # to have a second series
    first = sizes(repo, 100, 200, 100, 200, 100, 200, 100, 200, 100, 200)
    second = sizes(repo, 150, first=10, fingerprint="b")
    row = only_row(repo, first, second, name="Size")
    # Eight steps of ln(201 / 101), half of them down: the median is 0, and the MAD that step.
    step = np.log(201 / 101)
    assert row["surprise"] == pytest.approx(np.log(201 / 151) / (1.4826 * step))


def test_runs_are_compared_as_known_at_their_time(repo):
    first, second = sizes(repo, 10, 20), sizes(repo, 40, first=2, fingerprint="b")
    assert only_row(repo, first, second)["change"] == 20
    with pytest.raises(tg.HistoryError, match=f"run {second} of 'd' measured no partition"):
        repo.compare("d", first, second, as_of=first)


# Whole windows


def test_windows_are_compared_by_all_their_rows(repo):
    # 1 of the rows of each day is incomplete; the median day has 12 rows, and then 10.
    commit(repo, *(day(n, rows=rows) for n, rows in enumerate([10, 12, 14, 10, 10, 31], 1)))
    early, late = days(1, 3), days(4, 6)
    whole = repo.compare("d", early, late).set_index(["name", "instance"])
    typical = repo.compare("d", early, late, summary="median").set_index(["name", "instance"])
    size = whole.loc["Size", "*"]
    assert (size["baseline"], size["current"], size["change"]) == (36, 51, 15)
    assert typical.loc[("Size", "*"), ["baseline", "current"]].tolist() == [12, 10]
    complete = whole.loc["Completeness", "x"]
    assert complete["baseline"] == pytest.approx(33 / 36)
    assert complete["current"] == pytest.approx(48 / 51)
    assert set(typical["summary"]) == {"median"}
    for window, column in ((early, "baseline"), (late, "current")):
        since, until = window
        for analyzer in ("Size()", "Completeness('x')", "Mean('x')", "Uniqueness(['s'])"):
            merged = repo.merge("d", analyzer, since=since, until=until)
            assert whole.loc[(merged.name, merged.instance), column] == merged.value


def test_series_without_a_state_in_each_partition_have_medians_on_both_sides(repo):
    sizes(repo, 10, 30, 20, 40)
    record(repo, [1, 5, 2, 8], "revenue")
    complete = tg.Completeness("x")
    commit(repo, day(4, only=[complete], fingerprint="b"))
    found = repo.compare("d", days(1, 2), days(3, 4)).set_index("name")
    assert found.loc["revenue", ["baseline", "current"]].tolist() == [3, 5]
    assert found.loc["revenue", "summary"] == "median"


def test_single_partitions_have_their_value(repo):
    sizes(repo, 10, 30)
    assert only_row(repo, days(1), days(2))["summary"] == "value"
    assert only_row(repo, days(1), days(2), summary="median")["summary"] == "value"


def test_an_unknown_summary_is_refused(repo):
    sizes(repo, 10, 30)
    with pytest.raises(tg.UnknownNameError, match="'mean'; did you mean 'median'"):
        repo.compare("d", days(1, 1), days(2, 2), summary="mean")


# Missing values


def test_new_and_vanished_series(repo):
    record(repo, range(20), "old", first=1)
    record(repo, [5, 6], "new", first=20)
    actual = repo.compare("d", days(19), days(21)).set_index("name")
    assert actual["status"].to_dict() == {"old": "only baseline", "new": "only current"}
    assert actual["baseline"].to_dict() == pytest.approx({"old": 18, "new": nan}, nan_ok=True)
    assert actual["current"].to_dict() == pytest.approx({"old": nan, "new": 6}, nan_ok=True)
    assert actual[["change", "relative", "surprise"]].isna().all(axis=None)
    assert not actual["unusual"].any()


def test_nan_and_infinite_values(repo):
    record(repo, [*([1, 2] * 10), nan, inf, -inf, 3])
    got = {
        (a, b): only_row(repo, days(a), days(b))[
            ["current", "change", "surprise", "status"]
        ].tolist()
        for a, b in [(20, 21), (21, 20), (22, 23), (20, 22)]
    }
    expected = {
        (20, 21): [nan, nan, nan, "NaN"],
        (21, 20): [2, nan, nan, "was NaN"],
        (22, 23): [-inf, nan, nan, "-inf"],
        (20, 22): [inf, nan, nan, "+inf"],
    }
    for key, (*numbers, status) in expected.items():
        np.testing.assert_equal(got[key][:3], numbers)
        assert got[key][3] == status
    row = only_row(repo, days(1, 20), days(20, 24))  # of 2, NaN, inf, -inf and 3
    assert (row["current"], row["status"], row["current_partitions"]) == (2.5, "both", 5)


def test_failed_and_empty_metrics(repo):
    commit(repo, day(1), day(2, rows=0, groups={}))
    actual = repo.compare("d", days(1), days(2)).set_index(["name", "instance"])
    assert actual.loc[("Mean", "nope"), "status"] == "failed"
    assert actual.loc[("Mean", "x"), "status"] == "empty"
    assert np.isnan(actual.loc[("Mean", "x"), "change"])
    back = repo.compare("d", days(2), days(1)).set_index(["name", "instance"])
    assert back.loc[("Mean", "x"), "status"] == "was empty"
    with pytest.raises(tg.HistoryError, match="has name='Size', instance='nope' together"):
        repo.compare("d", days(1), days(2), name="Size", instance="nope")


def test_a_relative_change_from_zero_is_unknown(repo):
    record(repo, [*([0] * 10), 5])
    assert np.isnan(only_row(repo, days(10), days(11))["relative"])


def test_huge_numbers_raise_no_warnings(repo):
    record(repo, [*([1e308, -1e308] * 6), 1e308])
    assert only_row(repo, days(12), days(13))["change"] == inf


# Order, segments, anomalies


def test_the_most_surprising_differences_come_first_and_equal_values_last(repo):
    record(repo, [*STEPS, 28, 48], "steps")
    record(repo, [1] * 9, "equal")
    record(repo, [*([1] * 8), 2], "constant")
    record(repo, [1, 2], "young", first=8)
    comparison = repo.compare("d", days(8), days(9))
    assert comparison["name"].tolist() == ["constant", "steps", "young", "equal"]
    assert comparison.dtypes[["surprise", "change"]].tolist() == [np.float64] * 2
    assert comparison["unusual"].dtype == bool


def test_partitions_of_segments_have_separate_histories(repo):
    for region, values in {"a": [*STEPS, 28, 48], "b": [7] * 9}.items():
        numbers = {f"ds={ds(n)}/region={region}": v for n, v in enumerate(values, 1)}
        repo.record("d", "x", numbers, scale="signed", segment=f"region={region}")
    actual = repo.compare("d", days(8, 8), days(9, 9)).set_index("segment")
    assert actual.loc["region=a", "surprise"] == pytest.approx(16.5 / (1.4826 * 1.5))
    assert actual.loc["region=b", "surprise"] == 0
    only = repo.compare("d", f"ds={ds(8)}/region=a", f"ds={ds(9)}/region=a")
    assert only["segment"].tolist() == ["region=a"]
    two = repo.compare("d", f"ds={ds(8)}/region=a", f"ds={ds(9)}/region=b").set_index("segment")
    assert two["status"].tolist() == ["only baseline", "only current"]


def test_a_series_with_values_in_several_segments_is_one_row(repo):
    numbers = {f"ds={ds(n)}/region={r}": n for n in range(1, 9) for r in "ab"}
    repo.record("d", "x", numbers, scale="signed")
    row = only_row(repo, days(1, 4), days(5, 8))
    assert (row["baseline"], row["current"], row["baseline_partitions"]) == (2.5, 6.5, 8)


def test_a_stored_anomaly_is_shown_next_to_the_difference(repo):
    record(repo, [5, 50, 7, 60, 5, 55, 9])
    repo.detect("d", [tg.Monitor({"name": "x"}, "SimpleThreshold(8)")])
    row = only_row(repo, days(5), days(7))
    assert (row["unusual"], row["anomaly"], np.isnan(row["surprise"])) == (False, True, True)
    assert not only_row(repo, days(2), days(5))["anomaly"]
    assert not only_row(repo, days(5, 5), days(7, 7))["anomaly"]


def test_two_equal_anomalies_do_not_differ(repo):
    """Two days of 100 after steps of at most 9: both are anomalies, but they are equal."""
    record(repo, [*STEPS, 28, 36, 45, 100, 100])
    repo.detect("d", [tg.Monitor({"name": "x"}, "SimpleThreshold(90)")])
    row = only_row(repo, days(11), days(12))
    assert (row["change"], row["unusual"], row["anomaly"]) == (0, False, True)
    row = only_row(repo, days(10), days(11))
    assert (row["unusual"], row["anomaly"]) == (True, True)


def test_a_comparison_can_select_series(repo):
    commit(repo, day(1), day(2))
    comparison = repo.compare("d", days(1), days(2), analyzer="Size()")
    assert comparison["name"].tolist() == ["Size"]
    assert repo.compare("d", days(1), days(2), where="", name="Histogram").notna().any(axis=None)
    with pytest.raises(tg.HistoryError, match="no series of 'd' has where='a = 1'"):
        repo.compare("d", days(1), days(2), where="a = 1")


# Invalid input


@pytest.mark.parametrize(
    "baseline, current, message",
    [
        (1, "ds=2013-01-01", "baseline is a run and current is a partition"),
        ("ds=2013-01-01", (None, None), "baseline is a partition and current is a window"),
        ("ds=2013-01-01", "ds=2013-01-03", "no partition 'ds=2013-01-03'; did you mean"),
        (1, 99, "'d' has no run 99: the run does not exist"),
        (1, 2, "'d' has no run 2: it is a run of 'other'"),
        (1, 3, "run 3 of 'd' measured no partition"),
        ((None, None), ("2014-01-01", None), "current: 'd' has no partition in 2014-01-01 to ..."),
        ((None, "x"), (None, None), "until='x' is not a time"),
        ((5, None), (None, None), "since=5 is not a time"),
        (1.5, 1, "baseline=1.5 is neither"),
        (True, 1, "baseline=True is neither"),
        ((1, 2, 3), 1, "neither the id of a run"),
    ],
)
def test_invalid_comparisons_are_refused(repo, baseline, current, message):
    assert commit(repo, day(1), day(2)) == 1
    assert commit(repo, day(1), dataset="other") == 2
    assert commit(repo) == 3
    with pytest.raises(tg.HistoryError) as error:
        repo.compare("d", baseline, current)
    assert message in str(error.value)
    with pytest.raises(tg.UnknownDatasetError):
        repo.compare("e", baseline, "ds=2013-01-01") if isinstance(baseline, str) else repo.compare(
            "e", 1, 2
        )
