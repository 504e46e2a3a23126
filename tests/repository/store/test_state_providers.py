"""One contract for all providers of states: memory, files and the repository."""

import re
import threading

import pytest

import tidegauge as tg
from tests.analyzers.core.state_strategies import hll, kll
from tidegauge.analyzers.core.analyzer import _checksum
from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    FileSystemError,
    UnknownStateTagError,
)
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import SumAndCount
from tidegauge.rules.verdicts import VerdictFiles

STATES = {
    tg.Size(): tg.NumMatches(3),
    tg.Size(where="x > 1"): tg.NumMatches(2),
    tg.Completeness("x"): NumMatchesAndCount(1, 3),
    tg.Mean("x"): SumAndCount(2**70, 3),
    tg.ApproxCountDistinct("x"): hll([1, 2, 3]),
    tg.ApproxQuantile("x", 0.5): kll([1.0, 2.0, 3.0]),
    tg.Uniqueness("x"): FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 2)], 1),
}


@pytest.fixture(params=["memory", "files", "S3", "fsspec", "repository"])
def make(request, tmp_path, repo):
    """Return a function that opens a provider by name; the same name is the same location."""
    memories, files = {}, tg.FileSystemStateProvider
    if request.param == "S3":
        bucket = request.getfixturevalue("bucket")
        return lambda name: files(f"s3a://{bucket}/states/a b=%2F/{name}")
    return {
        "memory": lambda name: memories.setdefault(name, tg.InMemoryStateProvider()),
        "files": lambda name: files(tmp_path / "states" / name),
        "fsspec": lambda name: files(f"memory://{tmp_path.name}/{name}"),
        "repository": repo.states,
    }[request.param]


@pytest.mark.parametrize("analyzer", STATES, ids=repr)
def test_a_state_is_returned_as_stored(make, analyzer):
    assert make("a").load(analyzer) is None
    make("a").persist(analyzer, STATES[analyzer])
    assert make("a").load(analyzer).agrees_with(STATES[analyzer])
    assert make("b").load(analyzer) is None


def test_analyzers_with_equal_states_share_them(make):
    for analyzer, state in STATES.items():
        make("a").persist(analyzer, state)
    assert make("a").load(tg.Size()) == tg.NumMatches(3)
    assert make("a").load(tg.Size(where="x > 1")) == tg.NumMatches(2)
    assert make("a").load(tg.Sum("x")).total == 2**70  # Sum and Mean have the same state
    assert make("a").load(tg.Size(where="x > 2")) is None


def test_a_later_state_replaces_an_earlier_one(make):
    make("a").persist(tg.Size(), tg.NumMatches(3))
    make("a").persist(tg.Size(), tg.NumMatches(5))
    assert make("a").load(tg.Size()) == tg.NumMatches(5)


def test_an_empty_state_is_stored_and_differs_from_a_missing_one(make):
    make("a").persist(tg.Mean("x"), SumAndCount())
    assert make("a").load(tg.Mean("x")) == SumAndCount()
    assert tg.Mean("x").load_state_and_compute_metric(make("a")).empty


def test_persist_load_and_merge(make):
    size = tg.Size()
    # no data yet, which is not an error
    assert size.load_state_and_compute_metric(make("a")).value == 0
    size.aggregate_state_to(make("a"), make("b"), make("sum"))
    size.copy_state_to(make("a"), make("copy"))
    assert make("sum").load(size) is make("copy").load(size) is None
    make("a").persist(size, tg.NumMatches(3))
    size.aggregate_state_to(make("a"), make("b"), make("sum"))  # one is still missing
    assert make("sum").load(size) == tg.NumMatches(3)
    make("b").persist(size, tg.NumMatches(4))
    size.aggregate_state_to(make("a"), make("b"), make("sum"))
    size.copy_state_to(make("sum"), make("copy"))
    assert size.load_state_and_compute_metric(make("copy")).value == 7
    assert make("a").load(size) == tg.NumMatches(3)
    metric = size.calculate_metric(
        tg.NumMatches(1), aggregate_with=make("copy"), save_states_with=make("all")
    )
    assert metric.value == 8
    assert make("all").load(size) == tg.NumMatches(8)


def test_a_state_of_another_kind_is_refused(make):
    make("a").persist(tg.Size(), NumMatchesAndCount(1, 2))
    with pytest.raises(tg.StateMismatchError, match="expected a NumMatches"):
        tg.Size().load_state_and_compute_metric(make("a"))


def test_concurrent_writers_leave_one_complete_state(make):
    states = [FrequenciesAndNumRows.from_groups([((str(i),), i + 1)]) for i in range(8)]
    provider = make("a")
    threads = [
        threading.Thread(target=provider.persist, args=(tg.Uniqueness("x"), s)) for s in states
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make("a").load(tg.Uniqueness("x")) in states


def test_damaged_files_are_reported(tmp_path):
    provider = tg.FileSystemStateProvider(tmp_path)
    provider.persist(tg.Size(), tg.NumMatches(3))
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for damaged in (content[:-1], b"", content.replace(b"num-matches/1", b"num-matches/9")):
        file.write_bytes(damaged)
        with pytest.raises(CorruptStateError, match="damaged"):
            provider.load(tg.Size())


def test_a_tag_that_is_not_text_is_unknown(tmp_path):
    """It has a valid checksum, as if written by a program with its own tags."""
    states = tg.FileSystemStateProvider(str(tmp_path))
    states.persist(tg.Size(), NumMatches(3))
    (file,) = tmp_path.iterdir()
    magic, _, rest = file.read_bytes().partition(NumMatches.tag.encode())
    payload = rest.split(b"\n", 2)[2]
    file.write_bytes(magic + b"\xff\n" + _checksum(b"\xff", payload) + b"\n" + payload)
    with pytest.raises(UnknownStateTagError, match=r"tagged '\\\\xff'"):
        states.load(tg.Size())


def test_an_unreachable_store_is_reported_in_one_line(monkeypatch):
    def connect(address):
        raise OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm) failed\ndlopen(/opt) failed")

    monkeypatch.setattr("tidegauge.analyzers.core.filesystems._connect", connect)
    with pytest.raises(FileSystemError) as caught:
        tg.FileSystemStateProvider("hdfs://nn:8020/states")
    assert str(caught.value) == "cannot reach 'hdfs://nn:8020/states': Unable to load libjvm"


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("no-such-scheme://bucket/states", "no file system for 'no-such-scheme://bucket/states'"),
        ("s3a:bucket/states", "is neither a path nor a URI such as s3://bucket/folder"),
    ],
)
def test_an_address_without_a_filesystem_is_refused(folder, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileSystemError, match=re.escape(reason)):
        tg.FileSystemStateProvider(folder)
    with pytest.raises(FileSystemError, match=re.escape(reason)):
        VerdictFiles(folder)
    with pytest.raises(FileSystemError, match=re.escape(reason)):
        tg.Repository("sqlite:///r.db", artifacts=folder)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_missing_bucket_is_an_error_on_write(bucket):
    with pytest.raises(OSError, match="does not exist"):
        tg.FileSystemStateProvider("s3://no-such-bucket/states").persist(
            tg.Size(), tg.NumMatches(3)
        )


def test_a_damaged_state_in_the_repository_is_reported_by_a_check(repo):
    from tests.support.integrity import check

    repo.states("nightly").persist(tg.Size(), tg.NumMatches(3))
    assert check(repo.database, repo.artifacts) == []
    with repo.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE named_state SET payload = x'00'")
    (problem,) = check(repo.database, repo.artifacts)
    assert "the state named 'nightly'" in problem


@pytest.mark.spark
def test_the_states_of_a_window_can_be_loaded(measured_copy):
    mean = tg.Mean("arr_delay")
    states = measured_copy.window_states("flights", since="2013-02-01", until="2013-02-28")
    actual = mean.load_state_and_compute_metric(states)
    assert actual == measured_copy.merge("flights", mean, since="2013-02-01", until="2013-02-28")
    assert tg.Mean("nope").load_state_and_compute_metric(states).empty
    mean.copy_state_to(states, measured_copy.states("february"))
    assert mean.load_state_and_compute_metric(measured_copy.states("february")) == actual


@pytest.mark.parametrize("make", [tg.FileSystemStateProvider, VerdictFiles])
def test_a_local_folder_with_a_host_is_refused(make):
    """file://tmp/states is the folder /states of a machine named tmp, and not a folder in /tmp."""
    with pytest.raises(FileSystemError, match=r"three slashes: file:///tmp/states"):
        make("file://tmp/states")
