"""The life cycle of runs that complete, fail or are interrupted, and its records. No Spark."""

from types import SimpleNamespace

import pytest

from tests.support.memory import MemoryRepository
from tidegauge.analyzers.columnar.engines import Route
from tidegauge.analyzers.core.errors import (
    DatasetMismatchError,
    NoSuchColumnError,
    NoSuchTableError,
    SuiteError,
)
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.ledger import Change, RunStatus
from tidegauge.analyzers.runs.recording import recording, recording_failed_start
from tidegauge.griffin.results import RoundRecord, keep
from tidegauge.repository.testing import day, spec


@pytest.fixture
def store(monkeypatch):
    """A store that remembers how runs were closed."""
    kept = MemoryRepository().store
    kept.closed = []
    real = kept.close_run

    def close(run, status, counts, error=None, routes=None):
        kept.closed.append((status, dict(counts), error))
        kept.routes = routes
        real(run, status, counts, error, routes)

    monkeypatch.setattr(kept, "close_run", close)
    return kept


def test_a_run_that_ends_is_complete_with_its_counts(store):
    with recording(store, spec()) as run:
        assert dict(run.ledger()) == {}
        run.commit([day(1), day(2)])
        run.commit([day(1)])
    assert run.report.status is RunStatus.COMPLETE
    assert run.report.changes == {"ds=2013-01-01": Change.UNCHANGED, "ds=2013-01-02": Change.NEW}
    assert [type(error) for error in run.report.failed.values()] == [NoSuchColumnError]
    assert store.closed == [
        (RunStatus.COMPLETE, {"measured": 2, "skipped": 0, "failed": 1, "gone": 0}, None)
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("no luck"), RunStatus.FAILED),
        (KeyboardInterrupt(), RunStatus.INTERRUPTED),
        (SystemExit(1), RunStatus.INTERRUPTED),
    ],
)
def test_an_error_that_stops_a_run_is_recorded_with_the_committed_partitions(store, error, status):
    with pytest.raises(type(error)), recording(store, spec()) as run:
        run.commit([day(1)])
        raise error
    assert run.report.status is status
    (closed,) = store.closed
    assert closed[0] is status
    assert closed[1]["measured"] == 1
    assert closed[2] == f"{type(error).__name__}: {error}"


def test_the_routes_of_a_run_are_stored_with_it(store):
    with recording(store, spec()) as run:
        run.count_routes({Route.METADATA: 2, Route.SPARK: 0})
        run.count_routes({Route.METADATA: 1, Route.COLUMNS: 1})
    assert store.routes == {"metadata": 3, "a columnar scan": 1}


def test_failures_that_stop_nothing_make_the_run_failed(store):
    with recording(store, spec()) as run:
        run.errors += ["one: a", "two: b"]
    (closed,) = store.closed
    assert closed[0] is RunStatus.FAILED
    assert closed[1]["failed"] == 2
    assert closed[2] == "one: a\ntwo: b"


def test_an_interrupted_griffin_round_is_interrupted_and_not_failed(store, monkeypatch):
    """It once was recorded as failed."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "commit_batch", interrupted)
    whole = Partition((), ())
    actual = RoundRecord("d", "{}", (), (whole,), {}, "[]", {whole: 1})
    with pytest.raises(KeyboardInterrupt):
        keep(actual, [], set(), SimpleNamespace(store=store), lambda _, act, *of: act(*of))
    assert [closed[0] for closed in store.closed] == [RunStatus.INTERRUPTED]


def test_a_run_that_fails_before_it_starts_is_stored(store):
    error = NoSuchTableError("no folder 't02'", "; did you mean 't32'?")
    for _ in range(2):
        with (
            pytest.raises(NoSuchTableError, match="did you mean 't32'"),  # never measured
            recording_failed_start(store, spec()),
        ):
            raise error
    assert list(store.statuses.values()) == [RunStatus.FAILED] * 2
    with recording(store, spec()) as run:
        run.commit([day(1)])
    with pytest.raises(NoSuchTableError) as actual, recording_failed_start(store, spec()):
        raise error
    assert str(actual.value) == (
        "no folder 't02'; 'd' was measured before: restore the table, or retire the dataset with"
        " `tidegauge dataset retire d`"
    )
    assert list(store.statuses.values())[-2:] == [RunStatus.COMPLETE, RunStatus.FAILED]


def test_an_error_of_a_run_is_recorded_once(store):
    start = recording_failed_start(store, spec())
    with pytest.raises(ValueError, match="lost"), start, recording(store, spec()):
        raise ValueError("lost")
    start = recording_failed_start(store, spec())
    with pytest.raises(DatasetMismatchError), start, recording(store, spec(source="db.u")):
        pass
    assert list(store.statuses.values()) == [RunStatus.FAILED, RunStatus.FAILED]


def test_an_invalid_suite_is_no_run(store):
    with pytest.raises(SuiteError), recording_failed_start(store, spec()):
        raise SuiteError
    assert store.runs == []


def test_a_run_on_another_table_is_stored_as_failed(store):
    with recording(store, spec()):
        pass
    with pytest.raises(DatasetMismatchError), recording(store, spec(source="db.u")):
        pass
    assert list(store.statuses.values()) == [RunStatus.COMPLETE, RunStatus.FAILED]
