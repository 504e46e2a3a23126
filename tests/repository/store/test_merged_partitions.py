"""Merges of chosen partitions and weekdays, and of an analyzer with a filter. No Spark."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.repository.testing import SIZE, commit, day, measurement

EWR = tg.Size(where="origin = 'EWR'")


@pytest.fixture(scope="module")
def repo():
    with tg.Repository("sqlite://") as made:
        # 1 January 2013 is a Tuesday; day n has n rows, and twice as many of them from EWR.
        days = (
            day(n, rows=n, only=[SIZE, EWR], extra=[measurement(EWR, NumMatches(2 * n))])
            for n in range(1, 22)
        )
        commit(made, *days)
        yield made


def merged(repo, analyzer=SIZE, **options):
    return repo.merge("d", analyzer, **options).value


@pytest.mark.parametrize("weekday", ["Monday", "monday", "Mon", "mo", ["Monday"]])
def test_a_weekday_selects_its_partitions(repo, weekday):
    assert merged(repo, weekday=weekday) == 7 + 14 + 21


def test_several_weekdays_are_combined_with_a_window(repo):
    assert merged(repo, weekday=["Sat", "Sunday"], since="2013-01-08") == 12 + 13 + 19 + 20


@pytest.mark.parametrize("weekday", ["M", "day", "Montag", 1, "", []])
def test_other_weekdays_are_refused(repo, weekday):
    with pytest.raises(tg.HistoryError, match="weekday"):
        merged(repo, weekday=weekday)


@pytest.mark.parametrize(
    ("partitions", "total"),
    [
        (["ds=2013-01-03", "ds=2013-01-05"], 8),
        ("ds=2013-01-03", 3),
        ("ds in (2013-01-03, 2013-01-05)", 8),
        ("ds >= 2013-01-20", 41),
    ],
)
def test_partitions_are_chosen_by_name_or_condition(repo, partitions, total):
    assert merged(repo, partitions=partitions) == total


def test_partitions_that_do_not_exist_are_reported(repo):
    with pytest.raises(tg.HistoryError, match="no partition 'ds=2013-01-30'"):
        merged(repo, partitions=["ds=2013-01-30"])
    with pytest.raises(tg.HistoryError, match="matches none of 21 partitions"):
        merged(repo, partitions="ds = 2013-01-30")


def test_a_selection_without_partitions_is_reported(repo):
    with pytest.raises(tg.HistoryError, match="has no partition.*on weekday Monday"):
        merged(repo, weekday="Monday", until="2013-01-05")


def test_where_is_the_filter_of_the_analyzer(repo):
    assert merged(repo, where="origin = 'EWR'", weekday="Monday") == 2 * (7 + 14 + 21)
    assert merged(repo, EWR, where="origin = 'EWR'") == merged(repo, EWR)
    assert merged(repo, where="") == merged(repo) == 231
    with pytest.raises(tg.HistoryError, match="has another filter"):
        merged(repo, EWR, where="origin = 'JFK'")
    with pytest.raises(tg.HistoryError, match="was never measured"):
        merged(repo, where="origin = 'JFK'")


def test_windows_contain_only_the_chosen_partitions(repo):
    weeks = repo.merge("d", SIZE, every="1w", weekday="Monday")
    assert weeks["value"].tolist() == [7, 14, 21]
    assert weeks["partitions"].tolist() == [1, 1, 1]
