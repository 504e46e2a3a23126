"""Partitions whose files were only rewritten, according to the table's log, are not read in any run."""

from dataclasses import dataclass, field

import pytest

import tidegauge as tg
from tests.support.memory import MemoryRepository
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.ledger import SOURCE_VERSION, table_fingerprints, with_references
from tidegauge.analyzers.runs.runner import run_incremental
from tidegauge.analyzers.sources.sources import ListedPartition
from tidegauge.repository.testing import MEAN, SIZE, commit, day, spec

FIRST = "ds=2013-01-01"
ANALYZERS = [SIZE, MEAN]


@dataclass
class LoggedSource:
    """A table with versions and one partition; reading it fails."""

    version: str
    fingerprint: str
    rewritten: bool = True
    asked: list = field(default_factory=list)
    name: str = "db.t"
    keys: tuple = ("ds",)

    def list_partitions(self):
        return [ListedPartition(Partition.from_name(FIRST), self.fingerprint)]

    def only_rewritten(self, since):
        self.asked.append(dict(since))
        return set(since) if self.rewritten else set()

    def read(self, partitions=None):
        raise AssertionError(partitions)


@pytest.fixture(params=["memory", "sqlite"])
def repository(request):
    if request.param == "memory":
        yield MemoryRepository()
    else:
        with tg.Repository("sqlite://") as repository:
            yield repository


def run(repository, source):
    return run_incremental(source, spec(), ANALYZERS, repository.store)


def test_each_run_updates_the_version_that_later_runs_compare_with(repository):
    commit(repository, day(1, only=ANALYZERS), tags={SOURCE_VERSION: "log 1"})
    # The same version of the table has the same content, regardless of its files.
    source = LoggedSource("log 1", "b")
    assert (run(repository, source).scanned, source.asked) == (0, [])
    # Compaction: the log shows that files were only rewritten.
    source = LoggedSource("log 2", "c")
    assert (run(repository, source).scanned, source.asked) == (0, [{FIRST: "log 1"}])
    entry = repository.store.ledger("d")[FIRST]
    assert (entry.version, entry.fingerprint, entry.source_version) == (1, "c", "log 2")
    # The log is not read once the new files are known, even if it no longer reaches back.
    source = LoggedSource("log 3", "c", rewritten=False)
    assert (run(repository, source).scanned, source.asked) == (0, [])
    # The next compaction is compared with the last run, and not with the run that measured.
    source = LoggedSource("log 4", "d")
    assert (run(repository, source).scanned, source.asked) == (0, [{FIRST: "log 3"}])
    assert repository.store.ledger("d")[FIRST].fingerprint == "d"


def test_a_changed_partition_is_read(repository):
    commit(repository, day(1, only=ANALYZERS), tags={SOURCE_VERSION: "log 1"})
    with pytest.raises(AssertionError):
        run(repository, LoggedSource("log 2", "b", rewritten=False))
    # That run failed, so the next one compares with the measured version.
    source = LoggedSource("log 3", "b")
    assert (run(repository, source).scanned, source.asked) == (0, [{FIRST: "log 1"}])


def test_fingerprints_of_referenced_tables_are_kept(repository):
    measured = day(1, with_references("a", {"db.keys": "1"}), only=ANALYZERS)
    commit(repository, measured, tags={SOURCE_VERSION: "log 1"})
    assert run(repository, LoggedSource("log 2", "b")).scanned == 0
    fingerprint = repository.store.ledger("d")[FIRST].fingerprint
    assert fingerprint.startswith("b")
    assert table_fingerprints(fingerprint) == {"db.keys": "1"}
