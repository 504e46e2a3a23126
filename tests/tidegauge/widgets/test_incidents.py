"""Answers of the incidents view, and labels set in it. No Spark."""

import datetime as dt
import json
from types import SimpleNamespace

import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analysis import Run
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.analyzers.runs.recording import RunReport
from tidegauge.files.checked import check_table
from tidegauge.files.suite_files import load_suite
from tidegauge.repository.store.labels import add_label, training_labels
from tidegauge.repository.testing import SIZE, commit, day, spec
from tidegauge.widgets import incidents as inbox
from tidegauge.widgets import script as built
from tidegauge.widgets.backend import Backend


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as made:
        rows = [10, 10, 10, 99, 98]
        commit(made, *(day(n, rows=count, only=[SIZE]) for n, count in enumerate(rows, start=1)))
        made.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
        yield made


@pytest.fixture
def incident_id(repo):
    return int(repo.incidents("d")["id"].item())


def incident_answer(repo, incident_id):
    return inbox.incident(repo, {"incident": incident_id}).payload


def test_the_list_covers_one_dataset_or_all(repo, incident_id):
    commit(repo, day(1, rows=99, only=[SIZE]), dataset="e")
    repo.detect("e", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    one = inbox.incidents(repo, {"dataset": "d"})
    assert one.arrays["id"].tolist() == [incident_id]
    assert one.payload["strings"]["status"] == ["open"]
    assert inbox.incidents(repo, {"dataset": None}).payload["rows"] == 2
    assert inbox.frame(repo, {"table": "d", "status": "resolved"}).empty
    assert inbox.frame(repo, {"dataset": "d", "status": ""})["dataset"].tolist() == ["d", "e"]


def test_the_frame_has_the_listed_incidents_in_their_order(repo, incident_id):
    for name, first in (("e", 6), ("f", 2)):
        commit(repo, day(first, rows=99, only=[SIZE]), dataset=name)
        repo.detect(name, [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    asleep = int(repo.incidents("e")["id"].item())
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    repo.label(asleep, "snoozed", by="ann", until=later)
    repo.label(incident_id, "assigned", note="Bob", by="ann")

    def listed(**options):
        return inbox.frame(repo, options)["dataset"].tolist()

    assert listed() == ["e", "d", "f"], "those that began last first"
    assert listed(status="open") == ["d", "f"]
    assert listed(status="snoozed") == ["e"]
    assert listed(filter="bob") == ["d"]
    assert listed(filter=f"#{asleep}") == ["e"]
    assert listed(filter="volume nothing") == []
    found = inbox.frame(repo, {"table": "d"})
    assert found["assignee"].tolist() == ["Bob"]
    repo.label(asleep, "snoozed", by="ann", until=dt.datetime(2013, 5, 1, tzinfo=dt.UTC))
    assert listed(status="open") == ["e", "d", "f"]


def test_an_incident_shows_the_facts_for_a_decision(repo, incident_id):
    told = incident_answer(repo, incident_id)
    assert (told["incident"], told["dataset"], told["status"]) == (incident_id, "d", "open")
    assert (told["first"], told["last"]) == ("ds=2013-01-04", "ds=2013-01-05")
    assert (told["series"], told["anomalies"], told["revision"]) == (1, 2, 0)
    days = [dt.datetime(2013, 1, n, tzinfo=dt.UTC).timestamp() for n in (4, 5)]
    assert [told["since"], told["until"]] == days
    assert len(told["evidence"]) == len(told["explanations"]) == 1
    assert told["all_series"] == told["evidence"]
    assert "99" in told["explanations"][0]
    assert told["labels"] == told["checks"] == []
    assert [event["kind"] for event in told["timeline"]] == ["found"]


@pytest.mark.parametrize(
    ("first", "step", "form", "key", "lasts"),
    [
        ("2013-12-01", "1D", "%Y-%m-%d", "ds", 8 * 86400),
        ("2013-12-01", "1h", "%Y-%m-%d-%H", "ds", 8 * 3600),
        ("2013-01-07", "7D", "%Y-%m-%d", "ds", 8 * 7 * 86400),
        ("2013-01-01", "MS", "%Y-%m", "ds", 243 * 86400),  # from December 2014 to July 2015
    ],
)
def test_an_incident_lasts_until_the_end_of_its_last_partition(first, step, form, key, lasts):
    """From the 24th to the 31st of a month are eight days."""
    times = pd.date_range(first, periods=31, freq=step)
    with tg.Repository("sqlite://") as repo:
        values = {f"{key}={time:{form}}": 500.0 if n > 22 else 1.0 for n, time in enumerate(times)}
        repo.record("d", "x", values)
        repo.detect("d", [tg.Monitor({}, tg.SimpleThreshold(100.0))])
        answer = incident_answer(repo, int(repo.incidents("d")["id"].item()))
        assert answer["duration"] == lasts


def test_a_label_is_shown_with_its_user_and_note(repo, incident_id):
    question = {"incident": incident_id, "action": "acknowledge", "note": "on it", "revision": 0}
    answer = inbox.label_incident(repo, question, "ann").payload
    assert answer["status"] == "acknowledged"
    assert answer["revision"] > 0
    [label] = answer["labels"]
    assert (label["label"], label["note"], label["by"]) == ("acknowledged", "on it", "ann")
    assert label["name"] is None
    assert answer == incident_answer(repo, incident_id)


def test_a_label_of_an_anomaly_shows_its_series(repo, incident_id):
    anomaly = int(repo.anomalies("d")["id"].min())
    repo.label(anomaly, "bad", by="bob")
    [label] = incident_answer(repo, incident_id)["labels"]
    assert (label["name"], label["instance"], label["note"]) == ("Size", "*", None)
    assert label["partition"] in {"ds=2013-01-04", "ds=2013-01-05"}


def test_a_label_is_refused_if_another_label_was_set_in_the_meantime(repo, incident_id):
    seen = incident_answer(repo, incident_id)["revision"]
    repo.label(incident_id, "expected", by="bob")
    question = {"incident": incident_id, "action": "resolve", "note": "", "revision": seen}
    with pytest.raises(tg.ConflictError, match="bob"):
        inbox.label_incident(repo, question, "ann")
    told = incident_answer(repo, incident_id)
    assert [one["by"] for one in told["labels"]] == ["bob"]
    after = inbox.label_incident(repo, {**question, "revision": told["revision"]}, "ann").payload
    assert after["status"] == "resolved"
    assert after["labels"][-1]["note"] is None


@pytest.mark.parametrize(
    ("action", "labels", "status"),
    [
        ("acknowledge", ["acknowledged"], "acknowledged"),
        ("expected", ["expected"], "expected"),
        ("false alarm", ["ignore", "resolved"], "resolved"),
        ("bad data", ["acknowledged", "bad"], "acknowledged"),
        ("new normal", ["rebaseline", "resolved"], "resolved"),
        ("resolve", ["resolved"], "resolved"),
        ("comment", ["comment"], "open"),
    ],
)
def test_each_action_adds_its_labels(repo, incident_id, action, labels, status):
    question = {"incident": incident_id, "action": action, "note": " why ", "revision": 0}
    answer = inbox.label_incident(repo, question, "ann").payload
    assert answer["status"] == status
    labels_set = repo.incident(incident_id).labels
    assert labels_set["label"].tolist() == labels
    assert labels_set["note"].tolist() == ["why", *[None] * (len(labels) - 1)]
    assert set(labels_set["by"]) == {"ann"}


def test_reopening_undoes_a_decision(repo, incident_id):
    repo.label(incident_id, "expected", by="ann")
    revision = incident_answer(repo, incident_id)["revision"]
    answer = inbox.label_incident(
        repo, {"incident": incident_id, "action": "reopen", "revision": revision}, "ann"
    ).payload
    assert answer["status"] == "open"


@pytest.mark.parametrize("earlier", [None, "acknowledge", "expected", "bad data", "new normal"])
@pytest.mark.parametrize("action", ["expected", "false alarm", "resolve", "comment", "snooze"])
def test_undo_restores_status_and_training(repo, incident_id, earlier, action):
    """New labels restore the state, and the note of the first one names the withdrawn labels."""
    before = incident_answer(repo, incident_id)
    if earlier is not None:
        question = {"incident": incident_id, "action": earlier, "revision": 0}
        before = inbox.label_incident(repo, question, "ann").payload
    training = training_of(repo)
    question = {
        "incident": incident_id,
        "action": action,
        "note": "oops",
        "revision": before["revision"],
        "until": dt.datetime(2033, 5, 1, tzinfo=dt.UTC).timestamp(),
    }
    after = inbox.label_incident(repo, question, "ann").payload
    undo = {
        "incident": incident_id,
        "action": "undo",
        "before": before["revision"],
        "revision": after["revision"],
    }
    undone = inbox.label_incident(repo, undo, "ann").payload
    for field in ("status", "assignee", "snoozed_until"):
        assert undone[field] == before[field]
    assert training_of(repo) == training
    added = undone["labels"][len(after["labels"]) :]
    assert added[0]["note"].startswith("withdrawn: ")
    assert len(undone["labels"]) > len(after["labels"])  # labels are only added
    with pytest.raises(tg.ConflictError):
        inbox.label_incident(repo, undo, "ann")


@pytest.mark.parametrize(
    ("label", "note", "status"),
    [
        ("resolved", "no further anomaly", "resolved"),
        ("resolved", "became the new level", "new level"),
        ("expected", "Christmas Day", "expected"),
    ],
)
def test_undo_restores_a_decision_of_the_detector(repo, incident_id, label, note, status):
    add_label(repo.database, incident_id, label, note, None, is_automatic=True)
    before = incident_answer(repo, incident_id)
    assert before["status"] == status
    question = {"incident": incident_id, "action": "bad data", "revision": before["revision"]}
    after = inbox.label_incident(repo, question, "ann").payload
    undo = {"action": "undo", "before": before["revision"], "revision": after["revision"]}
    undone = inbox.label_incident(repo, {"incident": incident_id, **undo}, "ann").payload
    assert undone["status"] == status
    assert [undone["labels"][-1][key] for key in ("label", "note", "by")] == [
        label,
        note,
        "tidegauge",
    ]


def test_undone_labels_are_not_drawn(repo, incident_id):
    pytest.importorskip("altair")

    def has_flags():
        return '"labeled"' in json.dumps(repo.plot("d").to_dict())

    before = incident_answer(repo, incident_id)
    for action in ("comment", "expected"):
        assert not has_flags()
        revision = incident_answer(repo, incident_id)["revision"]
        question = {
            "incident": incident_id,
            "action": action,
            "note": "hm",
            "revision": revision,
        }
        after = inbox.label_incident(repo, question, "ann").payload
        assert has_flags()
        undo = {"action": "undo", "before": revision, "revision": after["revision"]}
        inbox.label_incident(repo, {"incident": incident_id, **undo}, "ann")
    assert not has_flags()
    assert incident_answer(repo, incident_id)["status"] == before["status"] == "open"


def training_of(repo):
    """Return the training labels that are not withdrawn."""
    with repo.database.read() as connection:
        [(number,)] = connection.execute(sa.text("SELECT id FROM dataset WHERE name = 'd'"))
        effects = training_labels(connection, number)
    return [(effect.label, effect.points) for effect in effects if effect.label != "reopened"]


def test_undo_restores_the_assignee(repo, incident_id):
    bob = {"incident": incident_id, "action": "assign", "assignee": "bob", "revision": 0}
    before = inbox.label_incident(repo, bob, "ann").payload
    carl = {**bob, "assignee": "carl", "note": "knows it", "revision": before["revision"]}
    after = inbox.label_incident(repo, carl, "ann").payload
    undo = {"action": "undo", "before": before["revision"], "revision": after["revision"]}
    undone = inbox.label_incident(repo, {**carl, **undo}, "ann").payload
    assert (undone["assignee"], undone["status"]) == ("bob", "open")


def test_an_incident_is_assigned_and_unassigned(repo, incident_id):
    question = {
        "incident": incident_id,
        "action": "assign",
        "assignee": "bob",
        "note": "knows it",
        "revision": 0,
    }
    told = inbox.label_incident(repo, question, "ann").payload
    assert (told["assignee"], told["status"]) == ("bob", "open")
    assert [(one["label"], one["note"]) for one in told["labels"]] == [
        ("assigned", "bob"),
        ("comment", "knows it"),
    ]
    nobody = {**question, "assignee": " ", "note": "", "revision": told["revision"]}
    assert inbox.label_incident(repo, nobody, "ann").payload["assignee"] is None


def test_a_snooze_ends_at_its_time_or_with_the_next_decision(repo, incident_id):
    until = dt.datetime(2033, 5, 1, 12, tzinfo=dt.UTC)
    question = {
        "incident": incident_id,
        "action": "snooze",
        "until": until.timestamp(),
        "revision": 0,
    }
    answer = inbox.label_incident(repo, question, "ann").payload
    assert (answer["snoozed_until"], answer["status"]) == (until, "open")
    assert inbox.incidents(repo, {"dataset": None}).arrays["snoozed_until"] == [until.timestamp()]
    repo.label(incident_id, "comment", note="still asleep", by="ann")
    assert incident_answer(repo, incident_id)["snoozed_until"] == until
    repo.label(incident_id, "reopened", by="ann")
    assert incident_answer(repo, incident_id)["snoozed_until"] is None


def test_several_incidents_are_labelled_at_once(repo, incident_id):
    commit(repo, day(1, rows=99, only=[SIZE]), dataset="e")
    repo.detect("e", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    numbers = repo.incidents()["id"].tolist()
    question = {"incidents": [*numbers, incident_id], "action": "expected", "author": "page's own"}
    payload = inbox.label_incidents(repo, question, None).payload
    assert (payload["labelled"], payload["conflicts"]) == (2, [])
    assert [change["incident"] for change in payload["changes"]] == numbers
    assert repo.incidents()["status"].tolist() == ["expected", "expected"]
    assert set(repo.labels()["by"]) == {"page's own"}


def test_undo_of_several_incidents_restores_each_except_those_labeled_since(repo, incident_id):
    """One incident was acknowledged before, one was open, and one gets a label of another user."""
    for name in ("e", "f"):
        commit(repo, day(1, rows=99, only=[SIZE]), dataset=name)
        repo.detect(name, [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    numbers = sorted(repo.incidents()["id"].tolist())
    first, second, third = numbers
    repo.label(first, "acknowledged", by="ann")
    question = {"incidents": numbers, "action": "false alarm", "note": "all of them"}
    payload = inbox.label_incidents(repo, question, "ann").payload
    assert repo.incidents()["status"].tolist() == ["resolved"] * 3
    repo.label(third, "expected", by="bob")
    undo = {"incidents": [], "action": "undo", "changes": payload["changes"]}
    undone = inbox.label_incidents(repo, undo, "ann").payload
    assert (undone["labelled"], undone["conflicts"]) == (2, [third])
    status = repo.incidents().set_index("id")["status"]
    assert [status[number] for number in numbers] == ["acknowledged", "open", "expected"]


@pytest.mark.parametrize("moment", ["ignore", "resolved"])
def test_undo_keeps_what_another_user_says_during_the_action(
    repo, incident_id, monkeypatch, moment
):
    """Bob writes between the two labels of the action, or before its revision is read."""
    add_label = tg.Repository.label

    def label(self, number, label, **options):
        add_label(self, number, label, **options)
        if label == moment:
            add_label(self, number, "comment", note="not so fast", by="bob")

    with monkeypatch.context() as patch:
        patch.setattr(tg.Repository, "label", label)
        question = {"incidents": [incident_id], "action": "false alarm"}
        payload = inbox.label_incidents(repo, question, "ann").payload
    undo = {"incidents": [], "action": "undo", "changes": payload["changes"]}
    count = len(repo.labels())
    undone = inbox.label_incidents(repo, undo, "ann").payload
    assert (undone["labelled"], undone["conflicts"]) == (0, [incident_id])
    assert len(repo.labels()) == count


def test_a_dropped_incident_does_not_split_an_action_on_several(repo, incident_id):
    commit(repo, day(1, rows=99, only=[SIZE]), dataset="e")
    repo.detect("e", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    other = next(n for n in repo.incidents()["id"].tolist() if n != incident_id)
    question = {"incidents": [other, incident_id], "action": "expected"}
    payload = inbox.label_incidents(repo, question, "ann").payload
    repo.drop("e")
    labels = len(repo.labels())
    with pytest.raises(tg.HistoryError, match=f"No label saved: there is no incident {other}"):
        inbox.label_incidents(repo, {**question, "incidents": [incident_id, other]}, "ann")
    assert len(repo.labels()) == labels
    undo = {"incidents": [], "action": "undo", "changes": payload["changes"]}
    undone = inbox.label_incidents(repo, undo, "ann").payload
    assert (undone["labelled"], undone["conflicts"]) == (1, [other])
    assert repo.incidents()["status"].tolist() == ["open"]


def test_the_timeline_marks_comments_that_were_undone(repo, incident_id):
    question = {"incident": incident_id, "action": "comment", "note": "kept", "revision": 0}
    before = inbox.label_incident(repo, question, "ann").payload
    question = {**question, "note": "a slip", "revision": before["revision"]}
    after = inbox.label_incident(repo, question, "ann").payload
    undo = {"action": "undo", "before": before["revision"], "revision": after["revision"]}
    undone = inbox.label_incident(repo, {**question, **undo}, "ann").payload
    comments = {
        event["text"]: event["withdrawn"]
        for event in undone["timeline"]
        if event["kind"] == "comment"
    }
    assert comments == {"kept": False, "a slip": True, "withdrawn: comment": False}


def test_a_label_needs_a_user_and_the_user_of_the_server_takes_precedence(repo, incident_id):
    question = {"incident": incident_id, "action": "acknowledge", "revision": 0}
    for name in ({}, {"author": " "}):
        with pytest.raises(tg.HistoryError, match="the author is missing"):
            inbox.label_incident(repo, {**question, **name}, None)
    told = inbox.label_incident(repo, {**question, "author": "mallory"}, "ann").payload
    assert [one["by"] for one in told["labels"]] == ["ann"]


def test_invalid_actions_are_refused(repo, incident_id):
    question = {"incident": incident_id, "revision": 0}
    with pytest.raises(tg.UnknownNameError, match="did you mean 'acknowledge'"):
        inbox.label_incident(repo, {**question, "action": "acknowledged"}, "ann")
    with pytest.raises(tg.HistoryError, match="a comment needs a note"):
        inbox.label_incident(repo, {**question, "action": "comment", "note": " "}, "ann")
    with pytest.raises(tg.HistoryError, match="snoozed needs an end"):
        inbox.label_incident(repo, {**question, "action": "snooze"}, "ann")
    with pytest.raises(tg.HistoryError, match="no time zone"):
        repo.label(incident_id, "snoozed", until=dt.datetime(2033, 5, 1))
    assert repo.labels().empty


def test_the_series_of_the_headline_comes_first():
    """The headline names Completeness, although the score of the mean, and the day before, are more extreme."""
    with tg.Repository("sqlite://") as repo:
        days = [f"ds=2013-01-{n:02}" for n in range(1, 5)]
        repo.record("d", "Mean", dict(zip(days, [1.0, 1.0, 9.0, 9.0], strict=True)), instance="a")
        repo.record(
            "d", "Completeness", dict(zip(days, [1.0, 1.0, 1.0, 0.2], strict=True)), instance="a"
        )
        monitors = [
            tg.Monitor({"name": "Mean"}, "SimpleThreshold(5)"),
            tg.Monitor({"name": "Completeness"}, "SimpleThreshold(1, lower_bound=0.5)"),
        ]
        repo.detect("d", monitors)
        told = incident_answer(repo, int(repo.incidents()["id"][0]))
        assert told["explanations"][0].startswith("Completeness of a in ds=2013-01-04")


def test_the_timeline_shows_detection_notifications_labels_and_new_versions(repo, incident_id):
    repo.label(incident_id, "acknowledged", note="on it", by="ann")
    tg.notify(repo, ["log"], severity="info")
    commit(repo, day(4, "restated", rows=97, only=[SIZE]))
    repo.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    events = incident_answer(repo, incident_id)["timeline"]
    assert [event["kind"] for event in events] == ["found", "acknowledged", "restated"]
    assert events[1]["by"] == "ann"
    assert events[2]["text"] == "version 2 of ds=2013-01-04"


def test_the_timeline_shows_notified_sinks(repo, incident_id):
    tg.notify(repo, ["log"], severity="info")
    (_, event) = incident_answer(repo, incident_id)["timeline"]
    assert (event["kind"], event["by"]) == ("notified", "log")


def test_failing_checks_of_its_partitions_are_shown(repo, incident_id, tmp_path):
    """The verdicts are stored as in a run of a suite file."""
    suite = tmp_path / "d.yml"
    suite.write_text(
        "dataset: d\ntable: db.t\nanalyzers: [Size]\nchecks:\n"
        "  - has_size: {at_most: 98}\n  - has_size: {at_least: 90, level: warning}\n"
    )
    run = Run(RunReport(1, "d", RunStatus.COMPLETE), repo)
    check_table(load_suite(suite), run, SimpleNamespace(name="db.t"))
    (failed,) = incident_answer(repo, incident_id)["checks"]  # warnings and 98 rows pass
    assert (failed["name"], failed["partition"]) == ("checks", "ds=2013-01-04")
    assert failed["reasons"] == ["row count is 99, at most 98 required"]
    commit(repo, day(4, "repaired", rows=97, only=[SIZE]))
    assert incident_answer(repo, incident_id)["checks"] == [], "the verdict is of other data"


def test_its_runbook_job_and_dependent_tables_are_shown():
    """The job is from the run that measured the current version of the day, the runbook from the last run."""
    with tg.Repository("sqlite://") as made:
        first, last = "https://jobs.example.org/1", "https://jobs.example.org/2"
        days = [day(n, rows=rows, only=[SIZE]) for n, rows in enumerate([10, 10, 99], 1)]
        run = commit(made, *days, tags={"job": first, "runbook": "old"})
        commit(made, day(4, rows=10, only=[SIZE]), tags={"job": last, "runbook": "javascript:x"})
        for name, upstream in (("e", "x, d"), ("f", "e"), ("g", "x")):
            commit(made, day(1, only=[SIZE]), dataset=name, tags={"upstream": upstream})
        monitor = tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")
        made.detect("d", [monitor])
        number = int(made.incidents("d")["id"].item())
        answer = incident_answer(made, number)
        assert (answer["run"]["id"], answer["run"]["job"]) == (run, first)
        assert answer["runbook"] == "javascript:x"
        assert answer["downstream"] == ["e", "f"]
        text = made.incident(number).explain()
        assert f"Job of run {run}: {first}\nRunbook: javascript:x\nDownstream: e, f.\n" in text
        commit(made, day(3, "b", rows=98, only=[SIZE]))
        made.detect("d", [monitor])
        number = int(made.incidents("d")["id"].item())
        assert incident_answer(made, number)["run"]["job"] is None, "the day was measured again"


@pytest.fixture
def failing_incident(repo, incident_id):
    """Return an incident with a failed check in its partition, which has two samples."""
    row = repo.partitions("d").set_index("partition").loc["ds=2013-01-04"]
    log = ("rule fare: 2 of 99 records", "  ds=2013-01-04: fare=-3", "  ds=2013-01-04: fare=-1")
    verdict = tg.CheckResult(False, (("fare", "2 records, none allowed"),), log)
    repo.keep_verdict(
        "d", name="fares", specification="1", passed=False, result=verdict.to_json(),
        partition="ds=2013-01-04", fingerprint=row["fingerprint"],
    )  # fmt: skip
    return incident_id


def test_samples_of_failing_records_are_shown_only_if_allowed(repo, failing_incident, monkeypatch):
    monkeypatch.setattr(built, "problem", lambda: None)
    question = {"id": "1", "question": "incident", "params": {"incident": failing_incident}}

    def samples(backend):
        (check,) = backend.answer(question, None)[0]["payload"]["checks"]
        assert check["reasons"] == ["fare: 2 records, none allowed"]
        return check["samples"]

    assert samples(Backend(repo)) == samples(Backend(repo, samples=False)) == []
    both = ["ds=2013-01-04: fare=-3", "ds=2013-01-04: fare=-1"]
    assert samples(Backend(repo, samples=True)) == both
    assert samples(tg.Dashboard(repo).backend) == []
    assert samples(tg.Dashboard(repo, samples=True).backend) == both
    note = {
        "incident": failing_incident,
        "action": "comment",
        "note": "x",
        "author": "ann",
        "revision": 0,
    }
    answer = Backend(repo).answer({"id": "2", "question": "label_incident", "params": note}, None)[
        0
    ]
    assert "fare=-3" not in json.dumps(answer)


def test_the_failures_of_a_table_are_its_failed_checks_and_its_failed_run(repo, failing_incident):
    def told(backend=None):
        question = {"id": "1", "question": "failures", "params": {"dataset": "d"}}
        return (backend or Backend(repo)).answer(question, None)[0]["payload"]

    found = told()
    assert (found["total"], found["run"]) == (1, None)
    (check,) = found["checks"]
    assert (check["name"], check["partition"], check["samples"]) == ("fares", "ds=2013-01-04", [])
    assert check["reasons"] == ["fare: 2 records, none allowed"]
    (check,) = told(Backend(repo, samples=True))["checks"]
    assert check["samples"] == ["ds=2013-01-04: fare=-3", "ds=2013-01-04: fare=-1"]
    run = repo.store.open_run(spec("d"))
    assert told()["run"] is None, "it still runs"
    repo.store.close_run(run, RunStatus.FAILED, {}, error="no space left on device")
    failed_run = told()["run"]
    assert (failed_run["id"], failed_run["status"]) == (run, "failed")
    assert failed_run["error"] == "no space left on device"
    commit(repo, day(4, "repaired", rows=97, only=[SIZE]))
    assert told() == {"checks": [], "total": 0, "run": None}, "the run after it was complete"


def test_incidents_of_several_tables_with_one_cause_name_each_other(repo, incident_id):
    for name in ("e", "f"):
        rows = [10, 10, 10, 99]
        commit(repo, *(day(n, rows=r, only=[SIZE]) for n, r in enumerate(rows, 1)), dataset=name)
        repo.detect(name, [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    headline = "2013-01-04: more rows in 3 tables: d, e and f"
    listed = inbox.incidents(repo, {"dataset": "e"})
    assert (listed.arrays["group"].tolist(), listed.payload["strings"]["shared"]) == (
        [incident_id],
        [headline],
    )
    told = incident_answer(repo, incident_id)
    assert (told["group_headline"], [one["dataset"] for one in told["other_incidents"]]) == (
        headline,
        ["e", "f"],
    )
