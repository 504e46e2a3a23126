"""Detection in many datasets at once: the results of each dataset alone, whatever the others are."""

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tests.conftest import soak
from tidegauge.repository.detection import detect, together
from tidegauge.repository.detectors.seasonal import Seasonal

DAYS = [f"ds=2026-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(46)]
TABLES = ("a", "b", "c", "d")


def record(repo, seed, days):
    """Record a few series of each table; some tables begin later, and some have a bad day."""
    draw = np.random.default_rng(seed)
    for number, table in enumerate(TABLES):
        first = int(draw.choice([0, 0, 9]))
        for k in range(1 + number):
            values = np.round(1000 * (k + 1) + 30 * draw.standard_normal(len(DAYS)))
            if draw.random() < 0.6:
                values[draw.integers(30, len(DAYS))] *= 3
            chosen = {
                day: float(value)
                for n, (day, value) in enumerate(zip(DAYS, values, strict=True))
                if n in days and n >= first
            }
            repo.record(table, f"m{k}", chosen, scale="count")


def change(repo, seed):
    """Label days of some tables and measure others again, so that each detects another part of its history."""
    draw = np.random.default_rng(seed)
    for table in TABLES:
        action, day = draw.integers(4), int(draw.integers(20, 43))
        if action == 0:
            repo.label_range(table, "expected", since=DAYS[day][3:], until=DAYS[day + 1][3:])
        elif action == 1:
            repo.label_range(table, "rebaseline", since=DAYS[day][3:])
        elif action == 2:
            repo.record(table, "m0", {DAYS[day]: float(draw.integers(10, 5000))}, scale="count")


def stored(repo, table):
    """Return all that detection stored of a table, without ids and times of detection."""
    ids = ["id", "incident_id", "detected_at"]
    anomalies = repo.anomalies(table).drop(columns=ids).sort_values(["detector", "time", "name"])
    scores = repo.scores(table).sort_values(["detector", "time", "name"])
    incidents = repo.incidents(table).drop(columns=["id", "updated_at", "group"])
    columns = ["headline", "severity", "status", "first", "last"]
    return (
        anomalies.to_dict("tight", index=False),
        scores.to_dict("tight", index=False),
        sorted(map(str, incidents[columns].to_dict("records"))),
    )


def assert_equal(one, other):
    assert str(one) == str(other)


@settings(max_examples=soak(3, 40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    groups=st.lists(st.sampled_from(TABLES), min_size=4, max_size=4, unique=True),
    cut=st.integers(0, 4),
    most=st.sampled_from([0, 300, 2**18]),
)
def test_any_grouping_of_datasets_stores_the_same(seed, groups, cut, most):
    with (
        pytest.MonkeyPatch.context() as patch,
        tg.Repository("sqlite://") as alone,
        tg.Repository("sqlite://") as grouped,
    ):
        patch.setattr(together, "MAX_POINTS_TOGETHER", most)
        for days in (range(44), range(44, 46)):
            record(alone, seed, days)
            record(grouped, seed, days)
            for table in TABLES:
                alone.detect(table)
            for names in (groups[:cut], groups[cut:]):
                grouped.detect(names)
            for repo in (alone, grouped):
                change(repo, seed)
            for table in TABLES:
                alone.detect(table)
            grouped.detect()
            for table in TABLES:
                assert_equal(stored(grouped, table), stored(alone, table))
        before = [stored(grouped, table) for table in TABLES]
        grouped.detect(replay=True)
        assert_equal([stored(grouped, table) for table in TABLES], before)


def fail_for(monkeypatch, series):
    """Let `Seasonal` fail for histories with this number of series, alone and together with others."""
    score = Seasonal.score_together

    def fails(detector, requests):
        if any(len(request.history.values) == series for request in requests):
            message = "this table is too much"
            raise RuntimeError(message)
        return score(detector, requests)

    monkeypatch.setattr(Seasonal, "score_together", fails)


def test_a_dataset_that_cannot_be_scored_does_not_stop_the_others(repo, monkeypatch):
    record(repo, 1, range(46))
    fail_for(monkeypatch, 3)
    with pytest.raises(
        tg.DetectionError, match="1 of 4 datasets: 'c': RuntimeError: this"
    ) as error:
        repo.detect()
    assert list(error.value.failed) == ["c"]
    assert [bool(len(repo.scores(table))) for table in TABLES] == [True, True, False, True]
    monkeypatch.undo()
    repo.detect()
    assert len(repo.scores("c"))


def test_a_dataset_that_cannot_be_written_does_not_stop_the_others(repo, monkeypatch):
    record(repo, 1, range(46))
    write = together.write_results

    def fails(connection, detections):
        written = write(connection, detections)
        if "b" in detections:
            raise ZeroDivisionError
        return written

    monkeypatch.setattr(together, "write_results", fails)
    with pytest.raises(tg.DetectionError, match="1 of 4 datasets: 'b': ZeroDivisionError"):
        repo.detect()
    assert [bool(len(repo.scores(table))) for table in TABLES] == [True, False, True, True]


def test_a_dataset_that_cannot_be_read_does_not_stop_the_others(repo, monkeypatch):
    record(repo, 1, range(46))
    read, sizes = detect.read_values, []

    def fails(connection, datasets, partitions):
        sizes.append(len(datasets))
        if "c" in [name for name, _ in datasets.values()]:
            raise ZeroDivisionError
        return read(connection, datasets, partitions)

    monkeypatch.setattr(detect, "read_values", fails)
    with pytest.raises(tg.DetectionError, match="1 of 4 datasets: 'c': ZeroDivisionError"):
        repo.detect()
    assert sizes == [4, 1, 1, 1, 1]
    assert [bool(len(repo.scores(table))) for table in TABLES] == [True, True, False, True]


def test_the_number_of_statements_to_read_does_not_grow_with_the_datasets(repo):
    def statements(names):
        executed = []
        listen = (sa.engine.Engine, "before_cursor_execute", lambda *args: executed.append(args[2]))
        sa.event.listen(*listen)
        try:
            repo.detect(names)
        finally:
            sa.event.remove(*listen)
        return sum(statement.startswith("SELECT") for statement in executed)

    record(repo, 1, range(44))
    repo.detect()
    record(repo, 1, range(44, 45))
    few = statements(["a", "b"])
    record(repo, 1, range(45, 46))
    # The sizes of groups and the incidents of the two other datasets take a few more.
    assert statements([*TABLES]) <= few + 4


def test_the_error_of_a_single_dataset_is_raised_as_it_is(repo, monkeypatch):
    record(repo, 1, range(46))
    fail_for(monkeypatch, 3)
    with pytest.raises(RuntimeError, match="this table is too much"):
        repo.detect("c")
    with pytest.raises(tg.UnknownDatasetError):
        repo.detect("e")
    with pytest.raises(tg.DetectionError, match="1 of 2 datasets: 'e'"):
        repo.detect(["a", "e"])
    assert len(repo.scores("a"))


def test_only_the_named_datasets_are_scored_and_returned(repo):
    record(repo, 1, range(46))
    anomalies = repo.detect(["b", "d", "b"])
    assert set(anomalies["dataset"]) <= {"b", "d"}
    assert [bool(len(repo.scores(table))) for table in TABLES] == [False, True, False, True]
    assert repo.detect([]).empty


def test_results_are_written_again_if_another_process_detected_meanwhile(repo, monkeypatch):
    record(repo, 1, range(46))
    write, calls = together.write_results, []

    def interrupted(connection, detections):
        calls.append(sorted(detections))
        if len(calls) == 1:
            return write(connection, {name: detections[name] for name in "ac"})
        return write(connection, detections)

    monkeypatch.setattr(together, "write_results", interrupted)
    repo.detect()
    assert calls == [["a", "b", "c", "d"], ["b", "d"]]
    assert all(len(repo.scores(table)) for table in TABLES)
