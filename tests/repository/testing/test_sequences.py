"""SQL stores and the dictionary store give the same answers after any sequence of operations."""

import datetime as dt
import math

import pytest
import sqlalchemy as sa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tests.conftest import soak
from tests.support.integrity import check
from tests.support.memory import MemoryRepository
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import (
    COMPLETE,
    HIST,
    MEAN,
    SIZE,
    UNIQUE,
    commit,
    day,
    judged,
    spec,
)

# A sequence may select anomalies of sizes before any is stored.
pytestmark = [
    pytest.mark.filterwarnings("ignore:'d' has no series of"),
    pytest.mark.filterwarnings("ignore:'d' has no partition between"),
    pytest.mark.filterwarnings("ignore:d. the roll-up .* cleaned away"),
]
TOMORROW = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
MONITOR = tg.Monitor({"name": "Size"}, tg.SimpleThreshold(12.0, lower_bound=1.0))
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: a sequence is short, and shrinking takes minutes."""
BEFORE = "before the horizon"
LABELS = ("acknowledged", "expected", "resolved", "reopened", "bad")

days = st.integers(1, 4)
GROUPS = (None, {("a",): 3}, {("a",): 2, (None,): 1})
ONLY = (None, None, (SIZE,), (SIZE, MEAN), (UNIQUE, COMPLETE))
saved = st.tuples(
    days,
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([0, 7, 10, 20]),
    st.integers(0, len(GROUPS) - 1),
    st.integers(0, len(ONLY) - 1),
)


def measured(number, fingerprint, rows, groups, only):
    return day(number, fingerprint, rows, GROUPS[groups], only=ONLY[only])


steps = st.one_of(
    st.tuples(st.just("save"), st.lists(saved, max_size=3, unique_by=lambda m: m[0])),
    st.tuples(st.just("save"), st.lists(saved, min_size=1, max_size=1)),
    st.tuples(st.just("record"), days, st.sampled_from([1.0, 2.0, math.nan])),
    st.tuples(st.just("gone"), days),
    st.tuples(st.just("label"), st.integers(0, 3), st.sampled_from(LABELS)),
    st.tuples(st.just("judge"), st.sampled_from("ab"), st.booleans()),
    st.tuples(st.just("roll up")),
    st.tuples(st.just("clean versions")),
    st.tuples(st.just("clean states"), days),
)


def apply(repository, step):
    match step:
        case ["save", found]:
            commit(repository, *(measured(*one) for one in found))
        case ["record", number, value]:
            repository.record("d", "revenue", value, partition=f"ds=2013-01-0{number}")
        case ["gone", number]:
            run = repository.store.open_run(spec())
            if f"ds=2013-01-0{number}" in repository.store.ledger("d"):
                repository.store.mark_gone(run, [f"ds=2013-01-0{number}"])
        case ["label", place, label]:
            frame = repository.detect("d", [MONITOR]).sort_values("partition")
            if place < len(frame):
                repository.label(int(frame["id"].iloc[place]), label)
        case ["judge", fingerprint, passed]:
            judged(repository, fingerprint, passed=passed)
        case ["roll up"]:
            repository.roll_up("d", ["2d"])
        case ["clean versions"]:
            repository.clean(versions=TOMORROW)
        case ["clean states", number]:
            repository.clean(states=dt.datetime(2013, 1, number, tzinfo=dt.UTC))


def comparable_rows(frame, *columns):
    """Return comparable rows: NaN as a string, floats with twelve digits."""

    def plain(value):
        if isinstance(value, float):
            return f"{value:.12g}"
        return str(value)

    return sorted(tuple(plain(row[c]) for c in columns) for _, row in frame.iterrows())


def answers(repository, runs, *, windows):
    """Return the answers of a repository to all queries."""
    columns = ("segment", "partition", "name", "instance", "value", "status", "weight", "version")
    actual = {"now": comparable_rows(repository.metrics("d"), *columns, "run_id")}
    actual["latest"] = comparable_rows(repository.latest("d"), *columns)
    actual["ledger"] = comparable_rows(
        repository.partitions("d"), "partition", "version", "rows", "fingerprint"
    )
    actual["gone"] = sorted(
        (n, k.gone, k.analyzers) for n, k in repository.store.ledger("d").items()
    )
    actual["restated"] = comparable_rows(
        repository.restatements("d"), "partition", "name", "instance", "old", "new"
    )
    detected = repository.detect("d", [MONITOR])
    actual["anomalies"] = comparable_rows(detected, "partition", "name", "detector", "status")
    verdict = ("id", "fingerprint", "passed")
    actual["verdicts"] = comparable_rows(repository.verdicts("d"), *verdict)
    for run in range(1, runs + 1):
        try:
            actual["verdicts", run] = comparable_rows(repository.verdicts("d", as_of=run), *verdict)
            actual[run] = comparable_rows(repository.metrics("d", as_of=run), *columns)
            actual["ledger", run] = comparable_rows(
                repository.partitions("d", as_of=run), "partition", "version"
            )
        except tg.HistoryError:
            actual[run] = actual["ledger", run] = actual["verdicts", run] = BEFORE
    for analyzer in (SIZE, COMPLETE, MEAN, UNIQUE, HIST):
        for options in ({}, {"since": "2013-01-02"}, {"allow_missing": True}):
            try:
                metric = repository.merge("d", analyzer, **options)
            except tg.HistoryError:
                actual[repr(analyzer), str(options)] = "not on all"
                continue
            actual[repr(analyzer), str(options)] = sorted(
                (m.name, m.weight, f"{m.value:.12g}" if not m.failed else "failed")
                for m in tg.flatten(metric)
            )
    repository.roll_up("d", ["2d"])
    for window in windows:
        frame = repository.metrics("d", window=window)
        actual[window] = comparable_rows(
            frame, "segment", "time", "name", "instance", "value", "status"
        )
    return actual


def compare(repository, sequence):
    model = MemoryRepository()
    for each in (model, repository):
        each.store.open_run(spec())
    cleaned = any(step[0] == "clean states" for step in sequence)
    for step in sequence:
        apply(model, step)
        apply(repository, step)
    # Windows whose states were removed keep their values; a model that does not store them cannot.
    windows = [] if cleaned else ["2d", "month", "total"]
    if windows:
        repository.roll_up("d", ["2d", "month"])
    runs = len(model.store.runs)
    left = answers(repository, runs, windows=windows)
    right = answers(model, runs, windows=windows)
    versions_cleaned = ("clean versions",) in sequence
    rolled_up = [n for n, step in enumerate(sequence) if step[0] == "roll up"]
    removed = [n for n, step in enumerate(sequence) if step[0] == "clean states"]
    kept_by_rollups = bool(rolled_up and removed) and rolled_up[0] < removed[-1]
    for key in right:
        if left.get(key) == BEFORE and versions_cleaned:
            continue  # SQL counts more commits, for roll-ups and detections
        if isinstance(key, tuple) and isinstance(key[1], str) and kept_by_rollups:
            continue  # a roll-up replaces states that were removed; the model stores none
        assert left[key] == right[key], key
    assert check(repository.database, repository.artifacts) == []


@pytest.mark.soak
def test_sqlite_gives_the_answers_of_the_dictionary_store():
    @settings(max_examples=soak(20, 300), deadline=None, phases=PHASES)
    @given(st.lists(steps, max_size=12))
    def run(sequence):
        with tg.Repository("sqlite://") as repository:
            compare(repository, sequence)

    run()


@pytest.mark.soak
@pytest.mark.postgres
def test_postgresql_gives_the_answers_of_the_dictionary_store(postgres, tmp_path):
    with tg.Repository(postgres.database(), artifacts=tmp_path) as repository:

        @settings(
            max_examples=soak(12, 100), deadline=None, phases=[Phase.explicit, Phase.generate]
        )
        @given(st.lists(steps, max_size=12))
        def run(sequence):
            with repository.database.transaction() as connection:
                tables = ", ".join(f'"{t.name}"' for t in s.metadata.sorted_tables)
                connection.execute(sa.text(f"TRUNCATE {tables} RESTART IDENTITY CASCADE"))
                connection.execute(sa.insert(s.clock).values(id=1, commits=0, findings=0))
            repository.database.engine.dispose()
            compare(repository, sequence)

        run()
