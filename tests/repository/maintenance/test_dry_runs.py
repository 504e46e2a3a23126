"""Dry runs of maintenance only read, and count the changes of the real call. No Spark."""

import re
from datetime import UTC, datetime, timedelta

import pytest

import tidegauge as tg
from tidegauge.repository.testing import HIST, commit, day, judged

LATER = datetime.now(UTC) + timedelta(days=1)
"""A time after everything that a test stores."""


@pytest.fixture
def full(repo):
    """A repository with everything that retention removes: versions, records, verdicts, windows, scores, folds."""
    commit(repo, *(day(n, rows=5 if n == 18 else 100) for n in range(1, 21)))
    commit(repo, *(day(n, "b", rows=101) for n in range(1, 4)), tags={"owner": "ann"})
    repo.record("d", "revenue", {"ds=2013-01-01": 1.0, "ds=2013-01-02": 2.0})
    repo.record("d", "revenue", {"ds=2013-01-01": 3.0})
    judged(repo, partition="ds=2013-01-02", passed=False)
    judged(repo, partition="ds=2013-01-02", passed=True)
    repo.roll_up("d", ["7d"])
    repo.detect("d")
    return repo


def outcomes(repo, call):
    """Return the counts of a dry run, opened read-only, and of the same real call."""
    with tg.Repository(
        str(repo.database.url), artifacts=repo.artifacts.root, read_only=True
    ) as reader:
        planned = call(reader, dry_run=True)
    done = call(repo, dry_run=False)
    return [
        re.sub(r"\bwould (drop|remove|change)|dropped|removed|changed", "", str(x))
        for x in (planned, done)
    ]


@pytest.mark.parametrize(
    "ages",
    [
        {"versions": LATER, "states": LATER, "runs": LATER},
        {"states": datetime(2013, 1, 15, tzinfo=UTC)},
    ],
)
def test_a_dry_run_of_clean_counts_the_removed_rows(full, ages):
    planned, done = outcomes(full, lambda repo, **options: repo.clean(**ages, **options))
    # The freed space in the file is estimated.
    assert planned.partition(";")[0] == done.partition(";")[0]
    again = full.clean(**ages, dry_run=True)
    assert (again.versions, again.metrics, again.states, again.verdicts, again.runs) == (
        0,
        0,
        0,
        0,
        0,
    )


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"partition": "ds=2013-01-18"},
        {"analyzer": HIST},
        {"analyzer": HIST, "generation": "s is a text"},
    ],
)
def test_a_dry_run_of_drop_counts_the_removed_rows(full, what):
    planned, done = outcomes(full, lambda repo, **options: repo.drop("d", **what, **options))
    assert planned == done


def test_a_dry_run_of_forget_counts_each_message_once(repo):
    commit(repo, day(1, groups={("ann",): 1, ("bob",): 9}))
    repo.label_range("d", "bad", since="2013-01-01", note="ann and bob, said 'ann'", by="ann")
    planned, done = outcomes(repo, lambda r, **options: r.forget(["ann", "bob"], **options))
    assert planned == done
