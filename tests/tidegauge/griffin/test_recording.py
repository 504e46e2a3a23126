"""How the results of a round are stored, in which order."""

from types import SimpleNamespace

import pytest
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.griffin.recording import RoundRecord, keep

from tidegauge.griffin import recording


def test_samples_are_stored_before_the_ledger_and_one_that_fails_leaves_the_others(
    repo, monkeypatch
):
    """What the ledger knows is not measured again, so a kill after it would leave no samples."""
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

    monkeypatch.setattr(recording, "sampled", sampled)
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
