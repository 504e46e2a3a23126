"""Regressions: each test shows in a few lines the correct result of a case that once was wrong."""

import datetime as dt
import gc
import math
import threading

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.runs.ledger import Measurement
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import (
    HIST,
    SIZE,
    UNIQUE,
    changes,
    commit,
    day,
    measurement,
    spec,
)

SECOND = dt.datetime(2013, 1, 2, tzinfo=dt.UTC)


@pytest.fixture
def shared(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        yield repository
        assert check(repository.database, repository.artifacts) == []


def total(repository, name):
    return repository.metrics("d", name=name, window="total")[["status", "value"]].values.tolist()


@pytest.mark.in_python
def test_a_state_restated_after_it_was_merged_is_never_counted_twice(shared):
    commit(shared, day(1), day(2))
    shared.roll_up("d")
    shared.clean(states=SECOND)
    commit(shared, day(1, "b", rows=100))
    shared.roll_up("d")
    # The only state that was cleaned up exists again, in its new version.
    assert total(shared, "Size") == [["finite", 110.0]]
    shared.clean(states=SECOND)
    commit(shared, day(3))
    shared.roll_up("d")
    assert total(shared, "Size") == [["finite", 120.0]]


@pytest.mark.in_python
def test_a_state_restored_by_an_added_analyzer_is_never_counted_twice(shared):
    commit(shared, day(1, only=[UNIQUE]), day(2, only=[UNIQUE]))
    shared.clean(states=SECOND)
    commit(shared, day(1, only=[HIST]), day(2, only=[HIST]))
    shared.clean(states=SECOND)
    shared.roll_up("d")
    assert total(shared, "Histogram.abs.a") == [["finite", 18.0]]


def test_an_analyzer_added_after_cleaning_leaves_finished_roll_ups_unchanged(shared):
    commit(shared, *(day(n, only=[UNIQUE]) for n in (1, 2, 40, 41)))
    shared.roll_up("d", ["month"])
    before = shared.metrics("d", name="Uniqueness", window="month")
    shared.clean(states=dt.datetime(2013, 2, 5, tzinfo=dt.UTC))
    shared.roll_up("d")
    commit(shared, day(41, only=[HIST]))
    shared.roll_up("d")
    assert shared.metrics("d", name="Uniqueness", window="month").equals(before)


def test_cleaning_keeps_the_scores_of_recorded_values(shared):
    commit(shared, *(day(n) for n in range(1, 41)))
    values = {day(n).partition.name: 100.0 + n % 7 for n in range(1, 41)}
    shared.record("d", "revenue", values)
    shared.detect("d")
    scored = len(shared.scores("d", name="revenue"))
    assert scored > 20
    commit(shared, *(day(n, "b", rows=11) for n in range(20, 31)))
    shared.clean(versions="0d")
    assert len(shared.scores("d", name="revenue")) == scored


def test_a_recorded_value_of_an_open_anomaly_is_kept(shared):
    shared.record("d", "revenue", {day(n).partition.name: 1.0 for n in range(1, 10)})
    shared.record("d", "revenue", 99.0, partition="ds=2013-01-05")
    anomalies = shared.detect("d", [tg.Monitor({}, tg.SimpleThreshold(50.0))])
    for number in anomalies["incident_id"].unique():
        shared.label(int(number), "reopened")  # they had been resolved automatically
    shared.record("d", "revenue", 1.5, partition="ds=2013-01-05")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    shared.clean(versions=later)
    wide = shared.versions("d", "ds=2013-01-05")
    assert (wide[2].item(), wide[3].item()) == (99.0, 1.5)
    assert 1 not in wide  # without an anomaly


def test_a_segment_chosen_again_keeps_its_fact_and_its_newest_value(repo):
    shared = repo
    run = shared.store.open_run(spec(source=None))

    def of(generation, rows):
        chosen = SegmentSet(("origin",), (("EWR",),), generation)
        actual = measurement(SIZE, tg.NumMatches(rows))
        return Measurement(SIZE, actual.outcome, actual.metric, "origin=EWR", chosen)

    from dataclasses import replace

    shared.store.keep_segments(run, [SegmentSet(("origin",), (("EWR",),), 1)])
    changes(shared, run, replace(day(1, None, only=[SIZE]), measurements=(of(1, 5),)))
    shared.store.keep_segments(run, [SegmentSet(("origin",), (("EWR",),), 2)])
    again = replace(day(1, None, only=[SIZE]), measurements=(of(2, 6),), added_to=1)
    changes(shared, run, again)
    assert shared.metrics("d", segment="origin=EWR")["value"].tolist() == [5.0]
    assert shared.latest("d", segment="origin=EWR")["value"].tolist() == [5.0]
    assert "newest" not in str(check(repo.database, repo.artifacts))


def test_a_filter_by_name_keeps_existing_restatements(shared):
    commit(shared, day(1))
    commit(shared, day(1, "b", groups={("a",): 10}))
    whole = shared.restatements("d")
    assert "Histogram.abs.b" in set(whole["name"])
    only = shared.restatements("d", name="Histogram.abs.b")
    assert only["new_status"].tolist() == ["absent"]
    assert only.equals(whole[whole["name"] == "Histogram.abs.b"].reset_index(drop=True))


@pytest.mark.in_python
def test_numbers_from_our_own_frames_are_accepted(shared):
    commit(shared, *(day(n, rows=1000 if n < 30 else 9) for n in range(1, 31)))
    run = shared.runs()["run_id"].iloc[0]
    assert len(shared.metrics("d", name="Size", as_of=run)) == 30
    anomalies = shared.detect("d", [tg.Monitor({"name": "Size"})])["id"].iloc[0]
    shared.label(anomalies, "expected")
    rows = shared.partitions("d")["rows"].iloc[0]
    shared.record("d", "x", rows, partition="ds=2013-01-01", weight=rows)
    assert shared.metrics("d", name="x")["weight"].tolist() == [1000.0]
    assert shared.record("d", "y", 1.0, partition="ds=2013-01-01", weight=math.nan) == 1
    assert shared.record("d", "y", 1.0, partition="ds=2013-01-01", weight=math.nan) == 0


def test_frames_have_the_same_types_when_they_are_empty(shared):
    commit(shared, day(1))
    for full, empty in (
        (shared.metrics("d"), shared.metrics("d", since="2014-01-01")),
        (
            shared.partitions("d"),
            shared.partitions("d", as_of=dt.datetime(2000, 1, 1, tzinfo=dt.UTC)),
        ),
    ):
        for column in ("version", "run_id", "time"):
            assert full[column].dtype == empty[column].dtype, column


def test_a_commit_whose_answer_was_lost_is_looked_up(shared, monkeypatch):
    """The commit takes effect, the server then stops, is unavailable for one more try, and restarts."""
    from tidegauge.repository.store import database as module

    commit(shared, day(1, None))
    run = shared.store.open_run(spec())
    real_run, real_has, lost = module._Attempt.run, module.Database._has_committed, []

    def error():
        cause = sa.exc.OperationalError("COMMIT", None, Exception("the connection broke"))
        cause.connection_invalidated = True
        return cause

    def committed_and_lost(self, engine, work):
        result = real_run(self, engine, work)
        if not lost:
            lost.append("answer")
            raise error()
        return result

    def away_once(self, taken):
        if len(lost) < 2:
            lost.append("look")
            raise error()
        return real_has(self, taken)

    monkeypatch.setattr(module._Attempt, "run", committed_and_lost)
    monkeypatch.setattr(module.Database, "_has_committed", away_once)
    decisions = shared.store.commit_batch(run, [day(1, None)])
    assert [str(d.change) for d in decisions] == ["restated"]
    assert lost == ["answer", "look"]
    assert shared.partitions("d", versions="all")["version"].tolist() == [1, 2]


@pytest.mark.soak
@pytest.mark.postgres
def test_a_timeout_on_a_locked_table_is_reported_in_one_sentence(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr("tidegauge.repository.store.database._RETRY_SECONDS", 0.5)
    url = postgres.database()
    with tg.Repository(url, artifacts=tmp_path) as repository:
        commit(repository, day(1))
        with (
            tg.Repository(f"{url}?options=-c lock_timeout=100ms", artifacts=tmp_path) as other,
            repository.database.transaction() as connection,
        ):
            connection.execute(sa.text("LOCK TABLE metric"))
            with pytest.raises(tg.DatabaseAccessError, match="lock timeout"):
                other.store.commit_batch(1, [day(2)])


def test_a_database_in_memory_serves_threads_and_pages():
    with tg.Repository("sqlite://") as repository:
        commit(repository, *(day(n) for n in range(1, 11)))
        for page in repository.pages("d", rows=20):
            assert len(repository.metrics("d", name="Size")) == 10
            assert len(page)
        errors = []

        def write(number):
            try:
                for n in range(20):
                    repository.record("d", f"thread {number}", float(n), partition="ds=2013-01-01")
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        with repository.database.read() as connection:
            count = sa.select(sa.func.count()).where(s.metric.c.version <= 20)
            records = connection.execute(
                count.where(s.metric.c.series_id.in_(_recorded()))
            ).scalar()
        assert records == 80


def _recorded():
    return sa.select(s.series.c.id).where(s.series.c.name.like("thread %"))


@pytest.mark.in_python
def test_a_series_of_one_point_has_one_point(shared):
    for first in range(1, 40, 3):
        commit(shared, day(first), day(first + 7), dataset=f"d{first}")
        chart = shared.chart(f"d{first}", name="Size", points=1)
        assert chart["count"].tolist() == [2]


def test_a_process_of_many_runs_does_not_keep_analyzers_of_ended_runs(repo):
    """Each run of a service may read its suite again; the strings of its analyzers were never freed."""
    analyzer = tg.Size(where="x > 1")
    commit(repo, day(1, extra=[measurement(analyzer, NumMatches(3))]))
    gc.collect()
    held = [one for one in gc.get_referrers(analyzer) if isinstance(one, list)]
    assert held == []


def test_a_scale_that_an_earlier_version_stored_wrongly_is_corrected(shared):
    """Latencies once were stored as times, and compared with the days of their partitions."""

    def scales():
        with shared.database.read() as connection:
            query = sa.select(s.series.c.name, s.series.c.scale)
            return {row.name: row.scale for row in connection.execute(query)}

    commit(shared, day(1))
    expected = scales()
    assert expected["Size"] == "count"
    change = sa.update(s.series).values(scale="time")
    shared.database.write(lambda connection: connection.execute(change))
    assert set(scales().values()) == {"time"}
    commit(shared, day(2))
    assert scales() == expected
