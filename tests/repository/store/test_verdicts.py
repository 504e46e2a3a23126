"""Stored verdicts of rules, looked up by everything they depend on. No Spark."""

import datetime as dt
import json
import threading

import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.analyzers.runs.ledger import RunSpec, RunStatus
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.verdicts import standing_verdicts
from tidegauge.repository.testing import commit, day, judged, spec

OF = {"name": "c", "specification": "s", "fingerprint": "a"}
TOMORROW = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
EVIL = 'it\'s "e"; DROP TABLE verdict; -- %s :x <b>\x00\n\U0001f30a'


@pytest.fixture
def shared(url, tmp_path):
    """A repository on SQLite and on PostgreSQL."""
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        yield repository
        assert check(repository.database, repository.artifacts) == []


def commits(repo):
    with repo.database.read() as connection:
        return connection.execute(sa.select(s.clock.c.commits)).scalar_one()


# one verdict


def test_an_equal_verdict_writes_nothing(shared):
    first = judged(shared, passed=False)
    before = commits(shared)
    assert judged(shared, passed=False) == first
    assert commits(shared) == before
    second = judged(shared, passed=False, result="[]")
    third = judged(shared, passed=True, result="[]")
    fourth = judged(shared, passed=False)  # equal to the first, but not to the last verdict
    assert first < second < third < fourth
    assert commits(shared) == before + 3
    assert shared.verdict("d", **OF) == "{}"


def test_keys_that_are_equal_when_joined_are_different(shared):
    judged(shared, "b", name="a", specification='c","d')
    assert shared.verdict("d", name="a", specification="c", fingerprint='d","b') is None
    assert shared.verdict("d", name="a", specification='c","d', fingerprint="b") == "{}"


def test_a_verdict_as_of_a_moment(shared):
    moments = []
    for result in ("1", "2"):
        judged(shared, result=result)
        moments.append(shared.verdicts("d")["checked_at"][0].to_pydatetime())
    early = moments[0] - dt.timedelta(days=1)
    actual = [shared.verdict("d", **OF, as_of=at) for at in (early, *moments)]
    assert actual == [None, "1", "2"]
    assert [shared.verdicts("d", as_of=at)["result"].tolist() for at in (early, *moments)] == [
        [],
        ["1"],
        ["2"],
    ]
    with pytest.raises(tg.HistoryError, match="the run does not exist"):
        shared.verdict("d", **OF, as_of=99)


def test_strings_are_stored_unchanged(shared):
    result = json.dumps({"message": EVIL, "passed": False}, ensure_ascii=False, indent=1)
    of = {"name": EVIL, "specification": EVIL, "fingerprint": EVIL, "partition": EVIL}
    dataset = EVIL.replace("\x00", "")
    shared.keep_verdict(dataset, **of, passed=False, result=result)
    judged(shared, dataset=dataset)
    assert shared.verdict(dataset, **of) == result
    for option in ("name", "partition"):
        row = shared.verdicts(dataset, **{option: EVIL}).iloc[0]
        assert (row["dataset"], row["result"]) == (dataset, result)
        assert row[option] == EVIL.replace("\x00", "\\x00")


def test_a_missing_partition_is_refused(shared):
    commit(shared, day(1), day(2), dataset="d")
    shared.keep_verdict("d", **OF, partition="ds=2013-02-01", passed=True, result="{}")
    assert shared.verdicts("d", partition="ds=2013-01-02").empty  # it was measured
    assert len(shared.verdicts("d", partition="ds=2013-02-01")) == 1
    with pytest.raises(tg.HistoryError, match="no partition 'ds=2013-01-03'; did you mean"):
        shared.verdicts("d", partition="ds=2013-01-03")
    assert shared.verdicts("d", partition="").empty
    with pytest.raises(
        tg.HistoryError, match="no verdict of 'd' has the name 'cc'; did you mean 'c'"
    ):
        shared.verdicts("d", name="cc")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "the name of a verdict must not be empty"),
        ({"specification": " "}, "the specification of a verdict must not be empty"),
        ({"fingerprint": ""}, "the fingerprint of a verdict must not be empty"),
        ({"fingerprint": None}, "the fingerprint of a verdict must be a string, not NoneType"),
        ({"partition": None}, "the partition of a verdict must be a string, not NoneType"),
        ({"name": "\ud800"}, "the name of a verdict is not valid Unicode"),
        ({"passed": "no"}, "passed must be True or False, not 'no'"),
        ({"result": {"passed": True}}, "the result of a verdict must be a string, not dict"),
        ({"result": "passed"}, "the result of a verdict must be JSON: Expecting value"),
        ({"result": ""}, "the result of a verdict must be JSON"),
        ({"result": '{"mean": NaN}'}, "NaN is not JSON; write null"),
        ({"result": "[" * 100_000}, "the result of a verdict must be JSON"),
        ({"run": 1}, "run=1: the run does not exist"),
    ],
)
def test_invalid_verdicts_are_refused(repo, given, said):
    with pytest.raises(tg.HistoryError, match=said):
        repo.keep_verdict("d", **{**OF, "passed": True, "result": "{}", **given})
    assert repo.datasets() == []


def test_a_run_of_another_dataset_and_invalid_names_are_refused(shared):
    run = commit(shared, day(1), dataset="e")
    with pytest.raises(tg.HistoryError, match="it is not a run of 'd'"):
        judged(shared, run=run)
    with pytest.raises(tg.SuiteError, match="null character"):
        judged(shared, dataset="a\x00")
    with pytest.raises(tg.HistoryError, match="fingerprint of a verdict must not be empty"):
        shared.verdict("d", **{**OF, "fingerprint": ""})
    assert shared.datasets() == ["e"]


# Datasets


def test_a_dataset_first_checked_can_be_measured_by_any_partitions(shared):
    judged(shared, partition="hr=01")
    judged(shared)
    assert shared.metrics("d").empty
    commit(shared, day(1))
    with pytest.raises(tg.DatasetMismatchError, match="was measured by"):
        shared.store.open_run(RunSpec("d", None, ("hr",)))
    with pytest.raises(tg.DatasetMismatchError, match="not of 'db.u'"):
        shared.store.open_run(spec(source="db.u"))
    assert len(shared.verdicts("d")) == 2


def test_a_dataset_first_measured_keeps_its_partition_keys(shared):
    commit(shared, day(1))
    judged(shared, partition="hr=01")
    commit(shared, day(2))
    with pytest.raises(tg.DatasetMismatchError):
        shared.store.open_run(RunSpec("d", None, ()))


def test_a_dataset_first_checked_can_be_recorded(shared):
    judged(shared)
    shared.record("d", "revenue", 1.0, partition="ds=2013-01-01")
    commit(shared, day(2))
    assert shared.metrics("d", name="revenue")["value"].tolist() == [1.0]


def test_queries_of_a_missing_dataset_are_errors(shared):
    assert shared.verdict("d", **OF) is None
    judged(shared, dataset="orders")
    with pytest.raises(tg.UnknownDatasetError, match="did you mean 'orders'"):
        shared.verdicts("order")


# The frame


def test_an_empty_frame_has_the_same_column_types(shared):
    run = commit(shared, day(1))
    nothing = shared.verdicts("d")
    for number in range(3):
        partition = f"ds=2013-01-0{number + 1}"
        judged(shared, str(number), partition=partition, run=run, passed=number > 0)
    frame = shared.verdicts("d")
    assert list(frame) == [
        *("id", "dataset", "name", "partition", "time", "fingerprint", "specification"),
        *("passed", "checked_at", "run_id", "result"),
    ]
    numeric = ["id", "time", "passed", "checked_at", "run_id"]
    assert nothing.dtypes[numeric].equals(frame.dtypes[numeric])
    assert str(frame["checked_at"].dtype) == "datetime64[us, UTC]"
    assert frame["fingerprint"].tolist() == ["2", "1", "0"]
    assert frame["passed"].tolist() == [True, True, False]
    assert frame["run_id"].tolist() == [run] * 3
    known = pd.Timestamp("2013-01-01", tz="UTC")
    assert frame["time"].tolist() == [pd.NaT, pd.NaT, known]  # the other days were not measured
    assert shared.verdicts("d", partition="ds=2013-01-02")["fingerprint"].tolist() == ["1"]


def test_a_check_that_failed_and_passes_now_has_not_failed(shared):
    judged(shared, passed=False)
    moment = shared.verdicts("d")["checked_at"][0].to_pydatetime()
    judged(shared, passed=True)
    assert shared.verdicts("d", passed=False).empty
    assert shared.verdicts("d", passed=False, as_of=moment)["passed"].tolist() == [False]


# Maintenance


@pytest.mark.parametrize("same", [True, False])
def test_two_concurrent_writers_store_equal_verdicts_once(url, tmp_path, same):
    """Different verdicts are both stored. The dataset is created once."""
    rounds, ids, failed = 10, {}, []
    together = threading.Barrier(2)

    def write(who):
        try:
            with tg.Repository(url, artifacts=tmp_path / "a") as repo:
                for number in range(rounds):
                    together.wait(60)
                    result = str(number if same else [who, number])
                    ids[who, number] = judged(repo, dataset=f"d{number}", result=result)
        except BaseException as error:
            failed.append(error)
            together.abort()
            raise

    tg.Repository(url, artifacts=tmp_path / "a").close()
    writers = [threading.Thread(target=write, args=(who,)) for who in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failed
    assert len(set(ids.values())) == (rounds if same else 2 * rounds)
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        for number in range(rounds):
            last = max(ids[who, number] for who in (1, 2))
            assert repo.verdicts(f"d{number}")["id"].tolist() == [last]
        assert check(repo.database, repo.artifacts) == []


def test_cleaning_removes_verdicts_that_no_view_shows(shared):
    for number in range(3):
        judged(shared, result=str(number))
    judged(shared, "b", passed=False)
    judged(shared, dataset="e")
    third = shared.verdicts("d")["checked_at"][1].to_pydatetime()
    assert shared.clean(versions=third).verdicts == 1  # the second verdict was current until then
    assert shared.clean(versions=TOMORROW, dry_run=True).verdicts == 1
    assert shared.clean(versions=TOMORROW).verdicts == 1
    assert shared.clean(versions=TOMORROW).verdicts == 0
    assert shared.verdict("d", **OF) == "2"
    assert shared.verdicts("d")["passed"].tolist() == [False, True]
    assert len(shared.verdicts("e")) == 1


def test_the_run_of_a_verdict_is_kept(shared):
    first = shared.store.open_run(spec())
    second = shared.store.open_run(spec())
    for run in (first, second):
        shared.store.close_run(run, RunStatus.COMPLETE, {})
    judged(shared, run=first)
    assert shared.clean(runs=TOMORROW).runs == 1
    assert shared.runs("d")["run_id"].tolist() == [first]


def test_check_reports_a_verdict_that_was_changed_by_hand(repo):
    judged(repo, partition="ds=2013-01-01")
    assert check(repo.database, repo.artifacts) == []
    with repo.database.transaction() as connection:
        connection.execute(sa.update(s.verdict).values(fingerprint="b"))
    assert check(repo.database, repo.artifacts) == [
        "verdict 1 has a key that does not match its content"
    ]


def test_verdicts_of_one_dataset_are_ranked_without_those_of_others():
    """With a window over all verdicts, the time for each table grew with the number of tables."""
    query = sa.select(standing_verdicts([1]))
    plan = f"EXPLAIN QUERY PLAN {query.compile(compile_kwargs={'literal_binds': True})}"
    with tg.Repository("sqlite://") as repo, repo.database.read() as connection:
        steps = [row[-1] for row in connection.exec_driver_sql(plan)]
    assert any("SEARCH verdict USING INDEX" in step and "dataset_id=?" in step for step in steps)
    assert not any(step.startswith("SCAN verdict") for step in steps)
