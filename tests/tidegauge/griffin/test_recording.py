"""The order in which the results of a round are stored."""

from types import SimpleNamespace

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.runs.ledger import Measurement
from tidegauge.griffin import results, running
from tidegauge.griffin.results import RoundRecord, keep
from tidegauge.repository.testing import SIZE


def test_samples_are_stored_before_the_ledger_and_a_failing_sample_leaves_the_others(
    repo, monkeypatch
):
    """Partitions in the ledger are not measured again, so a kill right after it would lose the samples."""
    day = Partition(("ds",), ("2026-01-01",))
    found = RoundRecord(
        "job", "{}", ("ds",), (day,), {}, "[]", {day: 3}, fingerprints={day: "f"}
    )  # fmt: skip
    rules = [
        SimpleNamespace(name=name, records=frame, error=None, reports={}, source="src")
        for name, frame in (("a", [1]), ("broken", "x"), ("c", [3]))
    ]
    failed = []

    def attempt(what, work, *about):
        try:
            work(*about)
        except TypeError:
            failed.append(what)

    def sampled(frame, *_):
        return [{"id": frame[0] + 0}]

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "sampled", sampled)
    with monkeypatch.context() as patched:
        patched.setattr(type(repo.store), "commit_batch", killed)
        with pytest.raises(KeyboardInterrupt):
            keep(found, rules, set(), repo, attempt)
    assert sorted(repo.verdicts("job")["name"]) == ["Griffin.a", "Griffin.c"]
    assert not repo.store.ledger("job")
    keep(found, rules, set(), repo, attempt)
    assert len(repo.verdicts("job")) == 2
    assert list(repo.store.ledger("job")) == [day.name]
    assert failed == ["samples of broken"] * 2


def test_partitions_of_one_day_have_their_own_series(repo):
    days = [Partition(("ds", "country"), ("2026-01-01", country)) for country in ("DK", "SE")]
    counts = {
        day: [
            Measurement(SIZE, Success(NumMatches(rows)), SIZE.compute_metric_from(NumMatches(rows)))
        ]
        for day, rows in zip(days, (3, 5), strict=True)
    }
    record = RoundRecord(
        "job", "{}", ("ds", "country"), tuple(days), {}, "[]", {days[0]: 3, days[1]: 5}, counts
    )
    keep(record, [], set(), repo, lambda *_: None)
    stored = repo.metrics("job", name="Size")
    assert dict(zip(stored["segment"], stored["value"], strict=True)) == {
        "country=DK": 3.0,
        "country=SE": 5.0,
    }


def test_a_job_that_fails_before_it_starts_is_a_failed_run(monkeypatch):
    def loses(*_):
        raise tg.SourceError("no folder 'riders'")

    for name, value in (("session_for", lambda *_: None), ("_batch", loses)):
        monkeypatch.setattr(running, name, value)
    job = {
        "name": "riders",
        "process.type": "batch",
        "data.sources": [{"name": "source", "connector": {"type": "file", "config": {}}}],
        "evaluate.rule": {
            "rules": [{"dsl.type": "griffin-dsl", "dq.type": "completeness", "rule": "age"}]
        },
    }
    with tg.Repository("sqlite://") as repo:
        with pytest.raises(tg.SourceError, match="riders"):
            tg.griffin.run({}, job, repository=repo, partition_by="ds", tags={"by": "cron"})
        (run,) = repo.runs("riders").to_dict("records")
        assert (run["status"], run["error"]) == ("failed", "SourceError: no folder 'riders'")
        assert repo.overview("riders")["status"].tolist() == ["failed"]
