"""Labels of an incident that others labeled in the meantime. No Spark."""

import threading

import pytest

import tidegauge as tg
from tidegauge.repository.testing import commit, day

LIMIT = [tg.Monitor({"name": name}, "SimpleThreshold(50)") for name in ("Size", "Mean")]


@pytest.fixture
def found(repo):
    """One incident of two anomalies: 99 rows, and a mean of 198."""
    return incident(repo)


def incident(repo):
    commit(repo, day(1), day(2, rows=99, total=9900.0))
    repo.detect("d", LIMIT)
    return repo.incident(int(repo.incidents("d")["id"].item()))


def said(repo):
    return repo.labels("d")["by"].tolist()


def test_the_revision_is_that_of_the_newest_label(repo, found):
    assert found.revision == 0
    repo.label(found.id, "acknowledged", revision=0)
    first = repo.incident(found.id).revision
    repo.label(int(found.anomalies["id"][1]), "expected", revision=first)
    second = repo.incident(found.id).revision
    assert 0 < first < second
    repo.label_range("d", "ignore", since="2013-01-01")  # a label of no incident
    assert repo.incident(found.id).revision == second


def test_a_label_based_on_an_old_revision_is_refused(repo, found):
    repo.label(found.id, "acknowledged", by="ann", note="on it", revision=0)
    with pytest.raises(tg.ConflictError) as error:
        repo.label(found.id, "expected", by="bob", revision=0)
    now = repo.incident(found.id).revision
    assert error.value.revision == now
    assert [(row["by"], row["label"], row["note"]) for row in error.value.labels] == [
        ("ann", "acknowledged", "on it")
    ]
    when = repo.labels("d")["created_at"][0]
    text = f"ann set 'acknowledged' (on it) at {when:%Y-%m-%d %H:%M:%S} UTC"
    assert text in str(error.value)
    assert f"revision={now}" in str(error.value)
    assert said(repo) == ["ann"]
    repo.label(found.id, "expected", by="bob", revision=now)
    repo.label(found.id, "bad", by="cid")
    assert said(repo) == ["ann", "bob", "cid"]


def test_labels_of_its_anomalies_count_and_other_labels_do_not(repo, found):
    one, other = (int(of) for of in found.anomalies["id"])
    repo.label(one, "bad", revision=0)
    with pytest.raises(tg.ConflictError, match="somebody set 'bad' at"):
        repo.label(other, "expected", revision=0)
    with pytest.raises(tg.ConflictError):
        repo.label(found.id, "expected", revision=0)
    commit(repo, day(1), day(2, rows=99), dataset="e")
    repo.detect("e", LIMIT)
    repo.label(int(repo.incidents("e")["id"].item()), "bad", revision=0)


def test_automatic_labels_count(repo, found):
    commit(repo, day(3))
    repo.detect("d", LIMIT)
    with pytest.raises(tg.ConflictError, match="tidegauge set 'resolved'"):
        repo.label(found.id, "bad", revision=found.revision)


def test_a_revision_needs_an_incident_or_anomaly(repo, found):
    with pytest.raises(tg.HistoryError, match="no anomaly or incident has the id 99"):
        repo.label(99, "bad", revision=0)
    with pytest.raises(TypeError):
        repo.label(found.id, "bad", revision="0")


def test_one_of_two_concurrent_labels_is_refused(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path) as repo:
        of = incident(repo)
    for turn in range(5):
        barrier, ends = threading.Barrier(2), []

        def add_label(name, barrier=barrier, ends=ends):
            with tg.Repository(url, artifacts=tmp_path) as own:
                seen = own.incident(of.id).revision
                barrier.wait(60)
                try:
                    own.label(of.id, "acknowledged", by=name, revision=seen)
                    ends.append("said")
                except tg.ConflictError as error:
                    ends.append(len(error.labels))

        both = [threading.Thread(target=add_label, args=(name,)) for name in ("ann", "bob")]
        for one in both:
            one.start()
        for one in both:
            one.join(120)
        assert sorted(ends, key=str) == [1, "said"]
        with tg.Repository(url, artifacts=tmp_path) as repo:
            assert len(repo.labels("d")) == turn + 1
