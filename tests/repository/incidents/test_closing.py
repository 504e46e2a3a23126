"""Incidents whose partitions are measured again keep their labels or are closed, without Spark."""

import datetime as dt

import numpy as np
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.conftest import soak
from tidegauge.repository.repository import Repository
from tidegauge.repository.store import schema as s

LIMIT = [tg.Monitor({}, tg.SimpleThreshold(100.0, lower_bound=0.0))]
NEVER = [tg.Monitor({}, LIMIT[0].detector, rule=tg.Threshold(1000))]
UNTIL = dt.datetime(2033, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def repo():
    with Repository("sqlite://") as repository:
        yield repository


def ds(n):
    return f"ds={dt.date(2013, 1, 1) + dt.timedelta(days=n - 1)}"


def record(repo, name, values, first=1, monitors=LIMIT):
    repo.record("d", name, {ds(n): v for n, v in enumerate(values, first)})
    repo.detect("d", monitors)


def the_only_incident(repo):
    (row,) = repo.incidents("d").to_dict("records")
    return row


def send(repo, number):
    """Log all news, and assert that an incident is reported."""
    assert number in {
        n for one in tg.notify(repo, "log") for n in (one.incident, *one.other_incidents)
    }


@pytest.mark.parametrize(
    ("label", "status"),
    [
        ("acknowledged", "acknowledged"),
        ("expected", "expected"),
        ("resolved", "resolved"),
        ("bad", "open"),
        ("snoozed", "open"),
        ("assigned", "open"),
    ],
)
def test_labels_survive_late_rows(repo, label, status):
    """The partition is measured again three times, and is as unusual as before."""
    record(repo, "x", [1, 1, 500])
    number = the_only_incident(repo)["id"]
    repo.label(number, label, note="ann", by="ann", until=UNTIL if label == "snoozed" else None)
    revision = repo.incident(number).revision
    for value in (501, 503, 502):
        record(repo, "x", [value], first=3)
        assert (the_only_incident(repo)["id"], the_only_incident(repo)["status"]) == (
            number,
            status,
        )
        assert repo.anomalies("d")["value"].tolist() == [value]
    details = repo.incident(number)
    assert details.labels["label"].tolist() == [label]
    assert details.revision == revision  # nobody has to read the incident again


def test_the_label_of_an_anomaly_survives_late_rows(repo):
    record(repo, "x", [1, 1, 500])
    number, anomaly = the_only_incident(repo)["id"], int(repo.anomalies("d")["id"].item())
    repo.label(anomaly, "expected", note="campaign", by="ann")
    record(repo, "x", [501], first=3)
    assert repo.anomalies("d")["status"].tolist() == ["expected"]
    assert repo.incident(number).labels["note"].tolist() == ["campaign"]
    labelled_at = repo.labels("d")["created_at"].max()
    assert repo.incidents("d")["updated_at"].item() >= labelled_at


def test_an_incident_continues_with_its_partitions_that_are_still_unusual(repo):
    record(repo, "x", [1, 500, 500, 500])
    number = the_only_incident(repo)["id"]
    repo.label(number, "expected", by="ann")
    record(repo, "x", [1, 501, 502], first=2)
    row = the_only_incident(repo)
    assert (row["id"], row["status"], row["first"]) == (number, "expected", ds(3))


def test_an_incident_neither_sent_nor_labelled_is_withdrawn(repo):
    record(repo, "x", [1, 1, 500])
    record(repo, "x", [1], first=3)
    assert repo.incidents("d").empty


def test_an_incident_that_was_sent_is_closed_and_stays_readable(repo):
    record(repo, "x", [1, 1, 500])
    number = the_only_incident(repo)["id"]
    send(repo, number)
    record(repo, "x", [1], first=3)
    row = the_only_incident(repo)
    assert (row["id"], row["status"], row["series"], row["first"]) == (number, "resolved", 0, ds(3))
    details = repo.incident(number)
    assert details.anomalies.empty
    assert details.closing_note in details.explain()
    assert details.closing_note.startswith("Withdrawn on 20")
    reason = f"because {ds(3)} was measured again and looks normal."
    assert details.closing_note.endswith(reason)
    assert reason in details._repr_html_().replace("&#61;", "=")
    assert repo.overview()[["errors", "warnings", "infos"]].to_numpy().sum() == 0
    for replay in (False, True):
        repo.detect("d", LIMIT, replay=replay)
        assert len(repo.labels("d")) == 1


def test_a_labelled_incident_is_closed_and_keeps_the_label(repo):
    record(repo, "x", [1, 1, 500])
    number = the_only_incident(repo)["id"]
    repo.label(number, "expected", note="campaign", by="ann")
    record(repo, "x", [1], first=3)
    assert the_only_incident(repo)["status"] == "expected"
    assert "measured again" in repo.incident(number).closing_note
    record(repo, "x", [500], first=3)  # unusual again
    row = the_only_incident(repo)
    assert (row["id"], row["status"], row["series"]) == (number, "expected", 1)


def test_an_ignored_incident_is_removed(repo):
    record(repo, "x", [1, 1, 500])
    repo.label(the_only_incident(repo)["id"], "ignore", by="ann")
    repo.detect("d", LIMIT)
    assert repo.incidents("d").empty


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_closed_incident_that_recurs_is_open_under_its_id(repo, acknowledged):
    record(repo, "x", [1, 1, 500])
    number = the_only_incident(repo)["id"]
    if acknowledged:
        repo.label(number, "acknowledged", by="ann")
    else:
        send(repo, number)
    record(repo, "x", [1], first=3)
    assert the_only_incident(repo)["status"] == "resolved"
    record(repo, "x", [501], first=3)
    assert (the_only_incident(repo)["id"], the_only_incident(repo)["status"]) == (number, "open")
    assert repo.incident(number).closing_note is None


def test_the_closing_note_names_the_partitions_measured_again(repo):
    record(repo, "x", [1, 500, 500, 500, 500, 500])
    number = the_only_incident(repo)["id"]
    send(repo, number)
    record(repo, "x", [1, 1], first=2)
    assert the_only_incident(repo)["series"] == 1  # three days are left
    record(repo, "x", [1, 1, 1], first=4)
    names = f"{ds(4)}, {ds(5)} and {ds(6)}"
    assert f"because {names} were measured again and look normal" in repo.incident(number).explain()


def test_other_monitors_can_close_an_incident(repo):
    record(repo, "x", [1, 1, 500])
    number = the_only_incident(repo)["id"]
    send(repo, number)
    repo.detect("d", NEVER)
    reason = f"because {ds(3)} looks normal given the current history, labels and monitors"
    assert reason in repo.incident(number).explain()


def test_an_incident_merged_into_another_says_so(repo):
    record(repo, "x", [1, 500, 1, 1, 500, 1])
    second, first = repo.incidents("d")["id"].tolist()
    repo.label(second, "acknowledged", by="ann")
    record(repo, "x", [500], first=3)  # of two normal days between them, one is left
    assert repo.incidents("d")["series"].tolist() == [0, 1]
    assert f"because it continues in incident {first}" in repo.incident(second).explain()
    record(repo, "x", [1], first=3)
    assert repo.incidents("d")["id"].tolist() == [second, first]
    assert repo.incidents("d")["series"].tolist() == [1, 1]


def test_an_earlier_view_shows_a_closed_incident_as_open(repo):
    record(repo, "x", [1, 1, 500])
    number = the_only_incident(repo)["id"]
    send(repo, number)
    then = dt.datetime.now(dt.UTC)
    record(repo, "x", [1], first=3)
    (old,) = repo.incidents("d", as_of=then).to_dict("records")
    assert (old["id"], old["status"], old["series"]) == (number, "open", 1)


# Beyond the label


def rows(repo, values, first):
    repo.record("d", "rows", {ds(n): v for n, v in enumerate(values, first)}, scale="count")
    repo.detect("d", [tg.Monitor()])


@pytest.fixture
def halved(repo):
    """Return a repository whose sixty-first day has half of its rows, and the incident."""
    rows(repo, [1000 + n % 5 for n in range(60)] + [500], 1)
    return repo, the_only_incident(repo)["id"]


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("label", ["expected", "acknowledged", "snoozed", "resolved"])
def test_a_departure_beyond_the_label_reopens_the_incident(halved, label, quiet):
    repo, number = halved
    repo.label(number, label, by="ann", until=UNTIL if label == "snoozed" else None)
    if quiet:
        rows(repo, [1002], 62)
    rows(repo, [0], 62 + quiet)
    assert (the_only_incident(repo)["id"], the_only_incident(repo)["status"]) == (number, "open")
    note = repo.labels("d")["note"].tolist()[-1]
    assert note.startswith("beyond what was labelled: 2013-03-02 to ")
    assert note.endswith("rows -100%")
    repo.detect("d", [tg.Monitor()], replay=True)
    assert repo.labels("d")["note"].tolist().count(note) == 1


@pytest.mark.parametrize(
    ("label", "status"), [("expected", "expected"), ("acknowledged", "acknowledged")]
)
def test_a_continuation_of_the_labelled_departure_stays_labelled(halved, label, status):
    repo, number = halved
    repo.label(number, label, by="ann")
    rows(repo, [510, 490], 62)
    assert (the_only_incident(repo)["id"], the_only_incident(repo)["status"]) == (number, status)


def test_a_departure_beyond_the_label_that_is_over_is_resolved(halved):
    repo, number = halved
    repo.label(number, "expected", by="ann")
    rows(repo, [0, 1001, 1002], 62)
    assert (the_only_incident(repo)["id"], the_only_incident(repo)["status"]) == (
        number,
        "resolved",
    )


def test_a_new_label_covers_the_departures_beyond_the_old_one(halved):
    repo, number = halved
    repo.label(number, "expected", by="ann")
    rows(repo, [0], 62)
    repo.label(number, "expected", by="ann")
    rows(repo, [0], 63)
    assert the_only_incident(repo)["status"] == "expected"


@pytest.mark.parametrize("seed", range(soak(1, 10)))
def test_incidents_that_were_sent_stay_readable_after_random_rewrites(repo, seed):
    """After repeated measurements and labels in any order, a replay gives the same current state."""
    draw = np.random.default_rng(seed)
    record(repo, "x", [1.0] * 12)
    sent = set()
    for _ in range(soak(10, 40)):
        day, value = int(draw.integers(1, 13)), float(draw.choice([1, 500, 501]))
        record(repo, "x", [value], first=day)
        sent |= {n for one in tg.notify(repo, "log") for n in (one.incident, *one.other_incidents)}
        known = repo.incidents("d")
        if len(known) and draw.random() < 0.3:
            number = int(draw.choice(known["id"]))
            repo.label(number, str(draw.choice(["expected", "acknowledged", "reopened"])), by="ann")
        for number in sent:
            details = repo.incident(number)
            assert details.id == number
            assert (details.closing_note is None) == (len(details.anomalies) > 0)
        before = repo.incidents("d"), repo.anomalies("d"), repo.labels("d")
        repo.detect("d", LIMIT, replay=True)
        for one, other in zip(
            before, (repo.incidents("d"), repo.anomalies("d"), repo.labels("d")), strict=True
        ):
            assert one.equals(other)
    with repo.database.read() as connection:
        f = s.finding.c
        twice = sa.select(f.anomaly_id).where(s.holds(s.finding)).group_by(f.anomaly_id)
        assert connection.execute(twice.having(sa.func.count() > 1)).all() == []
