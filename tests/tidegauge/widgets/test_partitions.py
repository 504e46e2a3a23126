"""Answers of the partitions view. No Spark."""

import datetime as dt
from dataclasses import replace

import pytest

import tidegauge as tg
from tidegauge.repository.testing import SIZE, commit, day
from tidegauge.widgets import tables as ledger

HOUR = dt.timedelta(hours=1)


def late_day(n, hours=2, **options):
    """Return a day of 2013 whose data arrived a number of hours after its end."""
    made = day(n, only=[SIZE], **options)
    return replace(made, arrived_at=made.time + 24 * HOUR + hours * HOUR)


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as made:
        yield made


def test_missing_partitions_have_no_name(repo):
    commit(repo, *(late_day(n) for n in range(1, 21) if n != 15))
    answer = ledger.partitions(repo, {"dataset": "d"})
    names = answer.payload["partitions"]
    assert names[13:16] == ["ds=2013-01-14", None, "ds=2013-01-16"]
    assert answer.payload["strings"]["status"][13:16] == ["measured", "missing", "measured"]
    assert answer.arrays["delay"][13] == 7200
    assert "partition" not in answer.payload["columns"]


def test_at_most_two_months_of_overdue_partitions_are_sent(repo):
    commit(repo, *(late_day(n) for n in range(1, 21)))
    answer = ledger.partitions(repo, {"dataset": "d"})
    assert answer.payload["rows"] == 20 + ledger.MAX_OVERDUE_PARTITIONS
    assert answer.payload["partitions"][20:] == [None] * ledger.MAX_OVERDUE_PARTITIONS
    whole = len(repo.calendar("d"))
    assert answer.payload["overdue"] == {"": whole - answer.payload["rows"]}


def test_partitions_without_times_are_never_overdue(repo):
    repo.record("loose", "x", 1.0, partition="batch=1")
    answer = ledger.partitions(repo, {"dataset": "loose"})
    assert answer.payload["partitions"] == ["batch=1"]
    assert answer.payload["overdue"] == {"": 0}


def test_a_day_has_its_anomalies_and_versions(repo):
    commit(repo, *(late_day(n, rows=99 if n == 3 else 10) for n in range(1, 6)))
    commit(repo, late_day(3, 30, rows=98, fingerprint="b"))
    repo.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    told = ledger.partition(repo, {"dataset": "d", "partition": "ds=2013-01-03"}).payload
    [found] = told["anomalies"]
    assert (found["name"], found["severity"], found["status"]) == ("Size", "warning", "resolved")
    assert found["incident_id"] == repo.incidents("d")["id"].item()
    assert told["total"] == 1
    assert [(one["version"], one["rows"]) for one in told["versions"]] == [(1, 99), (2, 98)]
    assert told["versions"][1]["arrived_at"] == dt.datetime(2013, 1, 5, 6, tzinfo=dt.UTC)
    other = ledger.partition(repo, {"dataset": "d", "partition": "ds=2013-01-04"}).payload
    assert other["anomalies"] == []
    assert len(other["versions"]) == 1


def test_a_day_that_no_longer_exists_is_empty(repo):
    commit(repo, late_day(1))
    answer = ledger.partition(repo, {"dataset": "d", "partition": "ds=1999-01-01"}).payload
    assert answer == {"anomalies": [], "total": 0, "versions": []}
