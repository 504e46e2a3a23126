"""States of columns that changed their type, and states that were cleaned up, in roll-ups and merges."""

import datetime as dt

import pytest

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.repository.testing import COMPLETE, HIST, SIZE, commit, day

FEBRUARY = dt.datetime(2013, 2, 1, tzinfo=dt.UTC)


@pytest.fixture
def shared(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        yield repository
        assert check(repository.database, repository.artifacts) == []


def number_day(number, fingerprint="a"):
    """Return a day on which ``s`` is a column of numbers: nine 7 and one 8."""
    return day(number, fingerprint, kind="integer", groups={(7,): 9, (8,): 1})


def rolled(repository, analyzer, window):
    """Return value or status of an analyzer's roll-ups, and the notes and errors."""
    metrics = repository.metrics("d", analyzer=analyzer, window=window)
    values = [
        value if status == "finite" else status
        for value, status in zip(metrics["value"], metrics["status"], strict=True)
    ]
    return values, metrics["error"].tolist()


# Which states can be merged


@pytest.mark.parametrize(
    ("analyzer", "kind", "generation"),
    [
        (tg.Histogram("s"), "short", "s is a number"),
        (tg.Histogram("s"), "decimal(9,2)", "s is a number"),
        (tg.Histogram("s"), "varchar(3)", "s is a text"),
        (tg.ApproxCountDistinct("s"), "date", "s is a date"),
        (tg.MinTime("s"), "timestamp_ntz", "s is a timestamp_ntz"),
        (tg.Uniqueness(["s", "gone"]), "string", "s is a text, gone is missing"),
        (tg.ApproxUniqueness(["s"]), "boolean", "s is a boolean"),
        (tg.TopValues("s"), "string", "s is a text"),
        (tg.Completeness("s"), "string", ""),
        (tg.DataType("s"), "string", ""),
        (tg.Size(), "string", ""),
    ],
)
def test_only_states_that_contain_values_depend_on_types(analyzer, kind, generation):
    assert analyzer.generation(Schema.from_types({"s": kind})) == generation


def test_each_change_of_type_starts_a_generation(shared):
    commit(shared, day(1), day(2), number_day(3), day(4))
    generations = shared.generations("d")
    assert set(generations["analyzer"]) == {repr(HIST), "Uniqueness('s')"}
    own = generations[generations["analyzer"] == repr(HIST)]
    assert own[["generation", "first", "last", "partitions"]].values.tolist() == [
        ["s is a text", "ds=2013-01-01", "ds=2013-01-02", 2],
        ["s is a number", "ds=2013-01-03", "ds=2013-01-03", 1],
        ["s is a text", "ds=2013-01-04", "ds=2013-01-04", 1],
    ]


# Roll-ups


def test_a_type_that_changes_for_a_day_affects_only_the_windows_of_its_series(shared):
    commit(shared, *(day(n) for n in range(1, 4)), number_day(4), *(day(n) for n in range(5, 9)))
    shared.roll_up("d", ["2d"])
    values, errors = rolled(shared, tg.Uniqueness(["s"]), "2d")
    assert values == [0.1, 0, 0, "failed", "failed", 0, 0, 0]
    assert errors[3] == (
        "MetricRuntimeError: s is a text in 1 partition, s is a number in 1 (ds=2013-01-04);"
        " states of different types are not merged"
    )
    assert rolled(shared, SIZE, "2d")[0] == [10] + [20] * 7
    assert rolled(shared, COMPLETE, "2d")[0] == [0.9] * 8


def test_the_total_continues_without_the_day_of_another_type(shared):
    commit(shared, *(day(n) for n in range(1, 4)))
    shared.roll_up("d")
    commit(shared, number_day(4))
    shared.roll_up("d")
    # The newest partition decides: one 8 among ten rows is unique.
    values, errors = rolled(shared, tg.Uniqueness(["s"]), "total")
    assert values == [0.1]
    assert errors == [
        "leaves out 3 partitions: s is a text in 3 partitions, s is a number in 1 (ds=2013-01-04);"
        " states of different types are not merged"
    ]
    commit(shared, day(5))
    shared.roll_up("d")
    values, errors = rolled(shared, tg.Uniqueness(["s"]), "total")
    assert values == [0.0]  # four rows each of a and b
    assert errors[0].startswith("leaves out 1 partition: s is a text in 4 partitions")
    assert rolled(shared, SIZE, "total") == ([50], [None])
    commit(shared, day(4, "repaired"))
    shared.roll_up("d")
    assert rolled(shared, tg.Uniqueness(["s"]), "total") == ([0.0], [None])
    assert shared.merge("d", HIST).value["a"].absolute == 45


def test_totals_do_not_depend_on_the_order_of_runs(shared, tmp_path):
    days = [day(1), number_day(2), day(3), number_day(4), day(5)]
    for measured in days:
        commit(shared, measured)
        shared.roll_up("d", ["3d"])
    with tg.Repository("sqlite://", artifacts=tmp_path / "other") as at_once:
        commit(at_once, *reversed(days))
        at_once.roll_up("d", ["3d"])
        for window in ("total", "3d"):
            for analyzer in (HIST, tg.Uniqueness(["s"]), SIZE):
                assert rolled(shared, analyzer, window) == rolled(at_once, analyzer, window)


# Merges


def test_merges_name_the_partitions_with_another_type(shared):
    commit(shared, day(1), day(2), number_day(3))
    with pytest.raises(tg.HistoryError) as raised:
        shared.merge("d", HIST)
    assert str(raised.value) == (
        "Histogram('s') on 'd': s is a text in 2 partitions, s is a number in 1 (ds=2013-01-03);"
        " states of different types are not merged; narrow the window, or pass allow_missing=True"
        " for the newest type only"
    )
    assert shared.merge("d", HIST, until="2013-01-02").value["a"].absolute == 18
    with pytest.warns(
        tg.RepositoryWarning, match="only partitions where s is a number were merged"
    ):
        newest = shared.merge("d", HIST, allow_missing=True)
    assert newest.value["7"].absolute == 9
    months = shared.merge("d", tg.Uniqueness(["s"]), every="month")
    assert months["status"].tolist() == ["failed"]


# Cleaned states


def test_cleaning_merges_each_type_separately(shared):
    commit(shared, day(1), number_day(2), day(3), number_day(4), *(day(n) for n in range(32, 36)))
    shared.roll_up("d")
    before = rolled(shared, tg.Uniqueness(["s"]), "total")
    removed = shared.clean(states=FEBRUARY)
    assert removed.states == 4 * 4  # size, completeness, mean, and the frequencies
    assert removed.kept_unmerged == 0
    commit(shared, day(36))
    shared.roll_up("d")
    assert rolled(shared, SIZE, "total")[0] == [90]
    values, errors = rolled(shared, tg.Uniqueness(["s"]), "total")
    assert (values, before[0]) == ([0.0], [0.0])
    assert errors[0].startswith("leaves out 2 partitions: s is a text in 7 partitions")
    commit(shared, number_day(37))
    shared.roll_up("d")
    assert rolled(shared, tg.Uniqueness(["s"]), "total")[0] == [0.0]  # 7 and 8 in three days


def test_states_that_cannot_be_merged_do_not_stop_cleaning(shared):
    """The schema has one type for both, but the states still differ."""
    odd = day(2, groups={(dt.date(2013, 1, 2),): 10})
    commit(shared, day(1), odd, *(day(n) for n in range(32, 36)))
    shared.roll_up("d", ["2d"])
    assert rolled(shared, tg.Uniqueness(["s"]), "2d")[0][:2] == [0.1, "failed"]
    assert "cannot add states" in rolled(shared, tg.Uniqueness(["s"]), "total")[1][0]
    assert rolled(shared, SIZE, "total")[0] == [60]
    removed = shared.clean(states=FEBRUARY)
    assert (removed.states, removed.kept_unmerged) == (6, 2)
    with pytest.raises(tg.HistoryError, match="cannot be merged: cannot add states"):
        shared.merge("d", HIST)


def test_a_late_rewrite_after_cleaning_keeps_the_last_good_values(shared):
    commit(shared, *(day(n) for n in range(1, 41)))
    shared.roll_up("d", ["7d"])
    windows = rolled(shared, SIZE, "7d")
    assert shared.clean(states=FEBRUARY).states > 0
    commit(shared, day(5, "late", rows=11))
    with pytest.warns(tg.RepositoryWarning, match="cleaned away"):
        shared.roll_up("d")
    values, notes = rolled(shared, SIZE, "7d")
    assert values == windows[0]
    noted = [number for number, note in enumerate(notes, 1) if note]
    assert noted == list(range(5, 12))
    assert notes[4] == (
        "not updated: states of 4 partitions (first ds=2013-01-01) were cleaned away before a partition"
        " was measured again"
    )
    assert rolled(shared, SIZE, "total") == (
        [400],
        [
            "does not show the newest version of 1 partition (first ds=2013-01-05), because states were"
            " cleaned away before; measure all partitions again to correct it"
        ],
    )
    commit(shared, day(41))
    shared.roll_up("d")  # the note is not new
    assert rolled(shared, SIZE, "total")[0] == [410]


def test_measuring_all_partitions_again_restores_their_states(shared):
    days = [day(n) for n in range(1, 41)]
    commit(shared, *days)
    shared.roll_up("d", ["7d"])
    shared.clean(states=FEBRUARY)
    days[4] = day(5, "late", rows=11)
    commit(shared, days[4])
    with pytest.warns(tg.RepositoryWarning, match="cleaned away"):
        shared.roll_up("d")
    commit(shared, *days[:20])
    with pytest.warns(tg.RepositoryWarning, match="cleaned away"):
        shared.roll_up("d")
    assert rolled(shared, SIZE, "7d")[0][4:7] == [51, 61, 71]
    assert rolled(shared, SIZE, "total")[0] == [400]  # the removed states are still one sum
    commit(shared, *days)
    shared.roll_up("d")
    assert rolled(shared, SIZE, "total") == ([401], [None])
    assert rolled(shared, SIZE, "7d")[1] == [None] * 40
    assert shared.merge("d", HIST).value["a"].absolute == 361
    assert set(shared.partitions("d", versions="all")["version"]) == {1, 2}


def test_frequencies_of_equal_groups_have_equal_bytes():
    one = FrequenciesAndNumRows.from_groups([(("b",), 1), ((None,), 2), (("a",), 3)])
    other = FrequenciesAndNumRows.from_groups([(("a",), 3), (("b",), 1), ((None,), 2)])
    assert one.pack() == other.pack()
