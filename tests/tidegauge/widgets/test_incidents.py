"""What the incidents view is told, and what is said in it. No Spark."""

import datetime as dt

import pytest
from tidegauge.repository.testing.samples import SIZE, commit, day

import tidegauge as tg
from tidegauge.widgets import incidents as inbox


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as made:
        rows = [10, 10, 10, 99, 98]
        commit(made, *(day(n, rows=count, only=[SIZE]) for n, count in enumerate(rows, start=1)))
        made.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
        yield made


@pytest.fixture
def number(repo):
    return int(repo.incidents("d")["id"].item())


def looked(repo, number):
    return inbox.incident(repo, {"incident": number}).told


def test_the_list_is_of_one_dataset_or_of_all(repo, number):
    commit(repo, day(1, rows=99, only=[SIZE]), dataset="e")
    repo.detect("e", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    one = inbox.incidents(repo, {"dataset": "d"})
    assert one.arrays["id"].tolist() == [number]
    assert one.told["texts"]["status"] == ["open"]
    assert inbox.incidents(repo, {"dataset": None}).told["rows"] == 2
    assert inbox.incidents(repo, {"dataset": "d", "status": "resolved"}).told["rows"] == 0


def test_an_incident_tells_what_is_needed_to_decide(repo, number):
    told = looked(repo, number)
    assert (told["incident"], told["dataset"], told["status"]) == (number, "d", "open")
    assert (told["first"], told["last"]) == ("ds=2013-01-04", "ds=2013-01-05")
    assert (told["series"], told["anomalies"], told["revision"]) == (1, 2, 0)
    days = [dt.datetime(2013, 1, n, tzinfo=dt.UTC).timestamp() for n in (4, 5)]
    assert [told["since"], told["until"]] == days
    assert len(told["evidence"]) == len(told["first_found"]) == 1
    assert told["all_series"] == told["evidence"]
    assert "99" in told["first_found"][0]
    assert told["said"] == []


def test_what_is_said_is_told_with_who_and_why(repo, number):
    asked = {"incident": number, "label": "acknowledged", "note": "on it", "seen": 0}
    told = inbox.say(repo, asked, "ann").told
    assert told["status"] == "acknowledged"
    assert told["revision"] > 0
    [said] = told["said"]
    assert (said["label"], said["note"], said["by"]) == ("acknowledged", "on it", "ann")
    assert said["name"] is None
    assert told == looked(repo, number)


def test_what_is_said_of_one_anomaly_names_it(repo, number):
    anomaly = int(repo.anomalies("d")["id"].min())
    repo.label(anomaly, "bad", by="bob")
    [said] = looked(repo, number)["said"]
    assert (said["name"], said["instance"], said["note"]) == ("Size", "*", None)
    assert said["partition"] in {"ds=2013-01-04", "ds=2013-01-05"}


def test_nothing_is_said_once_others_spoke(repo, number):
    seen = looked(repo, number)["revision"]
    repo.label(number, "expected", by="bob")
    asked = {"incident": number, "label": "resolved", "note": "", "seen": seen}
    with pytest.raises(tg.ConflictError, match="bob"):
        inbox.say(repo, asked, "ann")
    told = looked(repo, number)
    assert [one["by"] for one in told["said"]] == ["bob"]
    after = inbox.say(repo, {**asked, "seen": told["revision"]}, "ann").told
    assert after["status"] == "resolved"
    assert after["said"][-1]["note"] is None
