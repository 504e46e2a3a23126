"""Repeated and late messages, and messages about closed incidents. No Spark."""

import datetime as dt
import logging
from importlib.util import find_spec

import pytest

import tidegauge as tg
from tidegauge.repository.repository import Repository

LIMIT = [tg.Monitor({}, tg.SimpleThreshold(100.0, lower_bound=0.0))]
SEASONAL = [tg.Monitor()]


@pytest.fixture
def repo():
    with Repository("sqlite://") as repository:
        yield repository


@pytest.fixture
def sent(caplog, repo):
    """Return a function that sends due messages and returns the lines of each."""
    caplog.set_level(logging.INFO, "tidegauge.incidents")

    def send(**options):
        caplog.clear()
        tg.notify(repo, ["log"], **options)
        records = [r for r in caplog.records if r.name == "tidegauge.incidents"]
        return [record.getMessage().split("\n") for record in records]

    return send


def ds(n):
    return f"ds={dt.date(2013, 1, 1) + dt.timedelta(days=n - 1)}"


def measure(repo, values, first=61, dataset="d", monitors=SEASONAL):
    days = {ds(n): v for n, v in enumerate(values, first)}
    repo.record(dataset, "rows", days, scale="count")
    repo.detect(dataset, monitors)


def measure_ordinary_days(repo, dataset="d"):
    """Measure sixty days of about a thousand rows; 500 is a loss of more than half."""
    measure(repo, [999 + n % 5 for n in range(60)], 1, dataset)


def incident_id(repo):
    return int(repo.incidents("d")["id"].iloc[0])


def headlines(messages):
    return [lines[1] for lines in messages]


# measured again


def test_late_rows_are_not_notified_again(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [1700])
    assert headlines(sent()) == ["2013-03-02: rows +70%"]
    for value in (1701, 1703, 1650):
        measure(repo, [value])
        assert sent() == []


def test_late_rows_that_make_an_incident_worse_are_notified_once(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [700])
    sent()
    measure(repo, [400])
    ((title, headline, note, *_),) = sent()
    assert title == "Tidegauge: ◆ error in d"
    assert headline == "2013-03-02: rows -60%"
    assert note == "It has become worse since it was sent."
    measure(repo, [399])
    assert sent() == []


def test_a_closed_incident_is_reported_to_the_sinks_that_were_notified(repo, sent, caplog):
    measure_ordinary_days(repo)
    measure(repo, [1700])
    sent()
    incident = incident_id(repo)
    measure(repo, [1001])
    ((title, headline, note, see),) = sent()
    assert title == "Tidegauge: closed in d"
    assert headline == "2013-03-02: rows +70%"
    assert note.startswith("Withdrawn on ")
    assert note.endswith("because ds=2013-03-02 was measured again and looks normal.")
    assert see == f"See: tidegauge anomalies show {incident}"
    assert repo.incident(incident).closing_note == note
    assert sent() == []
    if find_spec("apprise"):
        assert tg.notify(repo, ["json://localhost:1/"]) == []  # never notified
    measure(repo, [1702])
    ((_, headline, note, *_),) = sent()
    assert (headline, note) == ("2013-03-02: rows +70%", "It is back.")
    assert incident_id(repo) == incident


def test_a_closed_incident_is_not_reported_to_other_sinks(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [1700])
    repo.label(incident_id(repo), "acknowledged", by="ann")
    measure(repo, [1001])
    assert repo.incidents("d")["status"].tolist() == ["resolved"]
    assert sent() == []


def test_an_incident_that_is_closed_and_reopened_between_two_sends_is_not_notified(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [1700])
    sent()
    for value in (1001, 1702):
        measure(repo, [value])
    assert sent() == []


def test_a_failing_sink_is_notified_later_that_an_incident_was_closed(
    repo, sent, clock, monkeypatch
):
    measure_ordinary_days(repo)
    measure(repo, [1700])
    sent()
    measure(repo, [1001])
    from tidegauge.notifications import notify

    with monkeypatch.context() as broken:
        broken.setattr(notify, "attempt", lambda *_: "it is down")
        assert [one.error for one in tg.notify(repo, "log")] == ["it is down"]
        assert tg.notify(repo, "log") == []  # not before a minute has passed
    assert sent() == []
    clock.now += dt.timedelta(minutes=1)
    assert [lines[0] for lines in sent()] == ["Tidegauge: closed in d"]
    clock.now += dt.timedelta(days=1)
    assert sent() == []


# labels


@pytest.mark.parametrize("label", ["expected", "acknowledged", "resolved", "snoozed"])
@pytest.mark.parametrize("quiet", [False, True])
def test_an_incident_that_exceeds_its_label_is_notified_once(repo, sent, label, quiet):
    measure_ordinary_days(repo)
    measure(repo, [500])
    sent()
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=3) if label == "snoozed" else None
    repo.label(incident_id(repo), label, by="ann", until=until)
    assert sent() == []
    if quiet:
        measure(repo, [1001], 62)
        assert sent() == []
    measure(repo, [0], 62 + quiet)
    ((_, headline, note, *_),) = sent()
    assert headline.endswith("rows -100%")
    assert note == "It goes beyond the label."
    assert sent() == []
    measure(repo, [0], 63 + quiet)
    assert sent() == []


def test_an_incident_that_continues_after_it_was_resolved_is_notified(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [500])
    sent()
    repo.label(incident_id(repo), "resolved", by="ann")
    measure(repo, [500], 62)
    assert len(sent()) == 1


@pytest.mark.parametrize("label", ["expected", "acknowledged"])
def test_a_labelled_incident_that_continues_is_not_notified(repo, sent, label):
    measure_ordinary_days(repo)
    measure(repo, [500])
    sent()
    repo.label(incident_id(repo), label, by="ann")
    measure(repo, [510, 490], 62)
    assert sent() == []


@pytest.mark.parametrize(
    ("first", "then", "count"), [(500, 0, 1), (500, 420, 0), (850, 700, 1), (0, 0, 0)]
)
def test_an_unlabelled_incident_is_notified_again_only_if_it_is_clearly_worse(
    repo, sent, first, then, count
):
    measure_ordinary_days(repo)
    measure(repo, [first])
    assert len(sent()) == 1
    measure(repo, [then], 62)
    assert len(sent()) == count
    assert sent() == []


def test_an_equal_anomaly_after_a_quiet_day_is_not_notified(repo, sent):
    measure_ordinary_days(repo)
    for value, messages in ((500, 1), (1001, 0), (490, 0), (1002, 0), (0, 1)):
        measure(repo, [value], 61 + len(repo.metrics("d")) - 60)
        assert len(sent()) == messages, value


# many days at once


def test_a_run_over_many_days_notifies_each_incident_once(repo, sent):
    measure_ordinary_days(repo)
    sent()
    measure(repo, [1001, 0, 1002, 1003, 1004, 2500, 1000, 1001, 1002, 1003])
    messages = sent()
    assert headlines(messages) == ["2013-03-03: rows -100%", "2013-03-07: rows +150%"]
    assert [lines[0] for lines in messages] == ["Tidegauge: ◆ error in d"] * 2
    assert [lines[2] for lines in messages] == [
        "Back to normal since ds=2013-03-04.",
        "Back to normal since ds=2013-03-08.",
    ]
    assert set(repo.incidents("d")["status"]) == {"resolved"}
    assert sent() == []
    measure(repo, [1000], 71)
    assert sent() == []


def test_an_incident_that_got_worse_and_ended_in_one_run_is_notified_once(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [500])
    sent()
    measure(repo, [0, 1001, 1002], 62)
    ((_, _, note, *_),) = sent()
    assert note == "It has become worse since it was sent; back to normal since ds=2013-03-04."
    assert sent() == []


@pytest.mark.parametrize("label", ["expected", "resolved"])
def test_an_incident_that_exceeded_its_label_and_ended_in_one_run_is_notified_once(
    repo, sent, label
):
    measure_ordinary_days(repo)
    measure(repo, [500])
    sent()
    repo.label(incident_id(repo), label, by="ann")
    measure(repo, [0, 1001, 1002], 62)
    ((_, _, note, *_),) = sent()
    assert note == "It goes beyond the label; back to normal since ds=2013-03-04."
    assert sent() == []


def test_a_past_incident_whose_data_was_corrected_is_not_notified(repo, sent):
    measure_ordinary_days(repo)
    measure(repo, [0, 1001, 1002])
    measure(repo, [1003])
    assert sent() == []


def test_a_new_sink_is_not_notified_of_past_incidents(repo, sent, clock):
    measure_ordinary_days(repo)
    measure(repo, [0, 1001, 1002])
    clock.now += dt.timedelta(days=8)
    assert sent() == []


def test_a_sink_that_recovers_is_notified_of_an_incident_that_has_ended(
    repo, sent, clock, monkeypatch
):
    measure_ordinary_days(repo)
    measure(repo, [0])
    from tidegauge.notifications import notify

    with monkeypatch.context() as broken:
        broken.setattr(notify, "attempt", lambda *_: "it is down")
        tg.notify(repo, "log")
    measure(repo, [1001, 1002], 62)
    clock.now += dt.timedelta(minutes=2)
    ((_, _, note, *_),) = sent()
    assert note == "Back to normal since ds=2013-03-03."


def test_many_incidents_that_have_ended_are_one_message(repo, sent):
    days = [1.0, 1.0, 1.0, 500.0] * 7 + [1.0]
    measure(repo, days, 1, monitors=LIMIT)
    (lines,) = sent()
    assert lines[0] == "Tidegauge: ▲ warning in d"
    assert lines[1] == "7 incidents are resolved"
    assert lines[2] == "- 2013-01-04: rows is 500 (back to normal since ds=2013-01-05)"
    assert len(lines) == 2 + 7 + 1
    assert sent() == []
