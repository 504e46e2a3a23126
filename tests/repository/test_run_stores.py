"""The contract of run stores, which every implementation passes."""

import pytest

from analyzers.errors import DatasetMismatchError
from analyzers.ledger import Change, RunStatus, analyzer_key

from repository.repository import Repository
from tests.repository.builders import COMPLETE, HIST, MEAN, SIZE, UNIQUE, day, measurement, spec


@pytest.fixture(params=["sqlite file", "sqlite memory"])
def store(request, tmp_path):
    if request.param == "memory":
        yield MemoryRunStore()
        return
    url = "sqlite://" if request.param == "sqlite memory" else f"sqlite:///{tmp_path / 'r.db'}"
    with Repository(url) as repo:
        yield repo.store


def changes(store, run, *found):
    return [decision.change for decision in store.commit_batch(run, found)]


def test_an_unknown_dataset_has_an_empty_ledger(store):
    assert dict(store.ledger("d")) == {}


def test_what_is_committed_is_in_the_ledger(store):
    run = store.open_run(spec())
    assert changes(store, run, day(1), day(2)) == [Change.NEW, Change.NEW]
    known = store.ledger("d")
    assert set(known) == {"ds=2013-01-01", "ds=2013-01-02"}
    entry = known["ds=2013-01-01"]
    assert (entry.version, entry.fingerprint, entry.gone) == (1, "a", False)
    assert len(entry.analyzers) == 6
    assert analyzer_key(SIZE) in entry.analyzers


def test_the_same_again_writes_nothing(store):
    run = store.open_run(spec())
    changes(store, run, day(1))
    before = dict(store.ledger("d"))
    assert changes(store, store.open_run(spec()), day(1)) == [Change.UNCHANGED]
    assert dict(store.ledger("d")) == before


def test_other_files_make_a_new_version(store):
    run = store.open_run(spec())
    changes(store, run, day(1))
    assert changes(store, run, day(1, "b", rows=5)) == [Change.RESTATED]
    assert changes(store, run, day(1, "c", rows=6)) == [Change.RESTATED]
    assert store.ledger("d")["ds=2013-01-01"].version == 3


def test_the_same_files_with_other_content_are_a_new_version(store):
    run = store.open_run(spec())
    changes(store, run, day(1))
    assert changes(store, run, day(1, rows=11)) == [Change.RESTATED]


def test_rounding_is_not_other_content(store):
    run = store.open_run(spec())
    changes(store, run, day(1, total=10.0))
    assert changes(store, run, day(1, total=10.0 + 1e-12)) == [Change.UNCHANGED]
    assert changes(store, run, day(1, total=10.1)) == [Change.RESTATED]


def test_without_a_fingerprint_all_is_new(store):
    run = store.open_run(spec(source=None))
    assert changes(store, run, day(1, None)) == [Change.NEW]
    assert changes(store, run, day(1, None)) == [Change.RESTATED]


def test_an_analyzer_added_later_joins_the_version_that_is_there(store):
    run = store.open_run(spec())
    changes(store, run, day(1, only=[SIZE, COMPLETE, UNIQUE]))
    assert changes(store, run, day(1, only=[MEAN])) == [Change.ADDED]
    assert changes(store, run, day(1, only=[HIST])) == [Change.ADDED]  # its state is there already
    known = store.ledger("d")["ds=2013-01-01"]
    assert known.version == 1
    assert known.analyzers == {analyzer_key(a) for a in (SIZE, COMPLETE, UNIQUE, MEAN, HIST)}
    assert changes(store, run, day(1)) == [Change.ADDED]  # the one that fails
    assert changes(store, run, day(1)) == [Change.UNCHANGED]


def test_a_new_version_forgets_the_analyzers_of_the_old(store):
    run = store.open_run(spec())
    changes(store, run, day(1))
    changes(store, run, day(1, "b", only=[SIZE]))
    assert store.ledger("d")["ds=2013-01-01"].analyzers == {analyzer_key(SIZE)}


def test_an_analyzer_that_failed_and_now_works_is_other_content(store):
    from analyzers.catalogue import Mean
    from analyzers.sums import SumAndCount

    run = store.open_run(spec())
    changes(store, run, day(1))
    works = day(1, only=[SIZE], extra=[])
    mended = measurement(Mean("nope"), SumAndCount(3.0, 2))
    works = type(works)(**{**vars(works), "measurements": (*works.measurements, mended)})
    assert changes(store, run, works) == [Change.RESTATED]


def test_an_analyzer_added_without_fingerprints_joins_the_version_it_was_measured_for(store):
    from dataclasses import replace

    run = store.open_run(spec(source=None))
    changes(store, run, day(1, None, only=[SIZE, COMPLETE]))
    added = replace(day(1, None, only=[MEAN]), added_to=1)
    assert changes(store, run, added) == [Change.ADDED]
    known = store.ledger("d")["ds=2013-01-01"]
    assert (known.version, len(known.analyzers)) == (1, 3)
    changes(store, run, day(1, None))  # another run measures all anew meanwhile
    assert changes(store, run, replace(added, measurements=day(1, only=[HIST]).measurements)) == [
        Change.UNCHANGED
    ]
    assert store.ledger("d")["ds=2013-01-01"].version == 2


def test_gone_and_back(store):
    run = store.open_run(spec())
    changes(store, run, day(1), day(2))
    store.mark_gone(run, ["ds=2013-01-02"])
    assert {name: k.gone for name, k in store.ledger("d").items()} == {
        "ds=2013-01-01": False,
        "ds=2013-01-02": True,
    }
    store.mark_gone(run, [], ["ds=2013-01-02"])
    assert not store.ledger("d")["ds=2013-01-02"].gone


def test_a_dataset_is_of_one_table(store):
    store.open_run(spec())
    with pytest.raises(DatasetMismatchError, match="history of 'db.t', not of 'db.u'"):
        store.open_run(spec(source="db.u"))
    store.open_run(spec(source=None))  # a frame may be of any
    store.open_run(spec(source="db.u", rename=True))
    with pytest.raises(DatasetMismatchError):
        store.open_run(spec(source="db.t"))


def test_datasets_do_not_touch_each_other(store):
    a, b = store.open_run(spec("a")), store.open_run(spec("b"))
    changes(store, a, day(1))
    assert changes(store, b, day(1, rows=99)) == [Change.NEW]
    assert store.ledger("a") != {}
    store.close_run(a, RunStatus.COMPLETE, {})
    store.close_run(b, RunStatus.FAILED, {}, "because")


def test_an_empty_batch_is_nothing(store):
    assert changes(store, store.open_run(spec())) == []
