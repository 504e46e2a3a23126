"""Contract tests for implementations of a repository.

Subclass `RepositoryContract` in a test and give it a fixture ``repository``::

    class TestMine(RepositoryContract):
        @pytest.fixture
        def repository(self):
            return MyRepository()

pytest collects its tests. `day` and `spec` make measured partitions without Spark.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from math import inf, isnan, nan
from typing import Any

import pytest

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import (
    DatasetMismatchError,
    HistoryError,
    MetricEnvironmentError,
    MetricError,
    MetricRuntimeError,
    NoSuchColumnError,
    UnknownDatasetError,
)
from tidegauge.analyzers.core.partitions import NULL, Partition, SegmentSet
from tidegauge.analyzers.measures.counts import NumMatches, Size
from tidegauge.analyzers.measures.frequencies import CountDistinct
from tidegauge.analyzers.measures.moments import Mean, SumAndCount
from tidegauge.analyzers.runs.ledger import (
    Change,
    MeasuredPartition,
    RunSpec,
    RunStatus,
    analyzer_key,
)
from tidegauge.repository.testing import (
    COMPLETE,
    HIST,
    MEAN,
    SIZE,
    UNIQUE,
    changes,
    commit,
    day,
    judged,
    measurement,
    spec,
    values,
)


class RepositoryContract:
    """The contract tests. A subclass provides the fixture ``repository``, an empty one."""

    # the ledger

    def test_an_unknown_dataset_is_empty_and_an_error(self, repository: Any) -> None:
        """The ledger starts empty; a query of an unknown dataset suggests the nearest name."""
        assert dict(repository.store.ledger("d")) == {}
        commit(repository, day(1), dataset="flights")
        with pytest.raises(UnknownDatasetError, match=r"did you mean 'flights'"):
            repository.metrics("flihts")

    def test_what_is_committed_is_in_the_ledger(self, repository: Any) -> None:
        """Version, fingerprint, rows and analyzers."""
        run = repository.store.open_run(spec())
        assert changes(repository, run, day(1), day(2)) == [Change.NEW, Change.NEW]
        ledger = repository.store.ledger("d")
        assert set(ledger) == {"ds=2013-01-01", "ds=2013-01-02"}
        entry = ledger["ds=2013-01-01"]
        assert (entry.version, entry.fingerprint, entry.gone, entry.rows) == (1, "a", False, 10)
        assert (len(entry.analyzers), len(entry.retries)) == (5, 1)
        assert analyzer_key(SIZE) in entry.analyzers

    def test_the_same_again_writes_nothing(self, repository: Any) -> None:
        """Writing is idempotent."""
        commit(repository, day(1))
        previous = dict(repository.store.ledger("d"))
        assert changes(repository, repository.store.open_run(spec()), day(1)) == [Change.UNCHANGED]
        assert dict(repository.store.ledger("d")) == previous

    def test_other_files_or_other_content_make_a_new_version(self, repository: Any) -> None:
        """A rounding difference does not make a new version."""
        run = repository.store.open_run(spec())
        assert changes(repository, run, day(1)) == [Change.NEW]
        assert changes(repository, run, day(1, "b", rows=5)) == [Change.RESTATED]
        assert changes(repository, run, day(1, "b", rows=6)) == [Change.RESTATED]
        changed = repository.store.ledger("d")["ds=2013-01-01"]
        assert changed.version == 3
        changes(repository, run, day(2, total=10.0))
        assert repository.store.ledger("d")["ds=2013-01-02"].commit > changed.commit > 0
        assert changes(repository, run, day(2, total=10.0 + 1e-12)) == [Change.UNCHANGED]
        assert changes(repository, run, day(2, total=10.1)) == [Change.RESTATED]

    def test_other_files_with_the_same_content_keep_the_version(self, repository: Any) -> None:
        """The fingerprint is replaced, so that the next run finds the files unchanged."""
        commit(repository, day(1), day(2))
        previous = repository.metrics("d")
        run = repository.store.open_run(spec())
        assert changes(repository, run, day(1, "b", total=10.0 + 1e-12)) == [Change.UNCHANGED]
        ledger = repository.store.ledger("d")
        entry, unchanged = ledger["ds=2013-01-01"], ledger["ds=2013-01-02"]
        assert (entry.version, entry.fingerprint, unchanged.fingerprint) == (1, "b", "a")
        assert repository.metrics("d").equals(previous)
        assert repository.restatements("d").empty

    def test_added_analyzers_join_the_version_of_the_same_content(self, repository: Any) -> None:
        """At least one analyzer must be common to both."""
        run = repository.store.open_run(spec())
        changes(repository, run, day(1, only=[SIZE, COMPLETE]))
        assert changes(repository, run, day(1, "b", only=[SIZE, COMPLETE, MEAN])) == [Change.ADDED]
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        assert (entry.version, entry.fingerprint, len(entry.analyzers)) == (1, "b", 3)

    @pytest.mark.parametrize(
        "other",
        [
            day(1, "b", rows=11),
            day(1, "b", total=11.0),
            day(1, "b", groups={("a",): 8, ("b",): 2}),
            day(1, "b", only=[SIZE, COMPLETE, MEAN]),
            replace(day(1, "b"), schema='[["x","long"],["s","string"],["new","long"]]'),
        ],
        ids=["rows", "sum", "groups", "fewer analyzers", "a new column"],
    )
    def test_other_files_of_which_anything_differs_are_restated(
        self, repository: Any, other: MeasuredPartition
    ) -> None:
        """So are files for which not every known analyzer was measured again."""
        commit(repository, day(1))
        run = repository.store.open_run(spec())
        assert changes(repository, run, other) == [Change.RESTATED]
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        assert (entry.version, entry.fingerprint) == (2, "b")

    def test_failures_say_nothing_about_the_content_of_other_files(self, repository: Any) -> None:
        """Equal values keep the version, and failures are replaced; failures alone do not count as values."""
        nope, name = Mean("nope"), "ds=2013-01-01"
        run = repository.store.open_run(spec())
        changes(repository, run, day(1), day(2, only=[nope]))
        assert changes(repository, run, day(1, "b")) == [Change.UNCHANGED]
        assert changes(repository, run, day(2, "b", only=[nope])) == [Change.RESTATED]

        def rewritten(fingerprint: str, outcome: Any) -> MeasuredPartition:
            """Return the same values in other files, with another outcome of the failed analyzer."""
            values_only = tuple(m for m in day(1).measurements if m.analyzer != nope)
            measurements = (*values_only, measurement(nope, outcome))
            return replace(day(1, fingerprint), measurements=measurements)

        late = MetricEnvironmentError("late")
        assert changes(repository, run, rewritten("c", late)) == [Change.UNCHANGED]
        entry = repository.store.ledger("d")[name]
        assert (entry.version, entry.fingerprint) == (1, "c")
        stored = repository.store.failures("d", [name])
        assert stored == {(name, nope.canonical()): {"MetricEnvironmentError: late"}}
        assert changes(repository, run, rewritten("d", SumAndCount(3.0, 2))) == [Change.ADDED]
        entry = repository.store.ledger("d")[name]
        assert (entry.version, entry.fingerprint, entry.retries) == (1, "d", frozenset())
        assert values(repository, "Mean", instance="nope")[0] == 1.5
        # Now that it has a value, other files must give the same one.
        fails = rewritten("e", MetricEnvironmentError("no time"))
        assert changes(repository, run, fails) == [Change.RESTATED]

    def test_repaired_data_is_new_content(self, repository: Any) -> None:
        """So is content without a failed analyzer that the suite has removed."""
        bad = measurement(Mean("y"), MetricRuntimeError("no number"))
        good = measurement(Mean("y"), SumAndCount(3.0, 2))
        run = repository.store.open_run(spec())
        changes(repository, run, day(1, extra=[bad]), day(2, extra=[bad]))
        assert changes(repository, run, day(1, "b", extra=[bad])) == [Change.UNCHANGED]
        assert changes(repository, run, day(1, "c", extra=[good])) == [Change.RESTATED]
        assert changes(repository, run, day(2, "c")) == [Change.RESTATED]
        first, second = (repository.store.ledger("d")[f"ds=2013-01-0{n}"] for n in (1, 2))
        assert (first.version, first.fingerprint, first.failed) == (2, "c", frozenset())
        assert (second.version, second.failed) == (2, frozenset())
        assert values(repository, "Mean", instance="y") == [1.5]

    def test_verdicts_on_the_same_content_stay(self, repository: Any) -> None:
        """Failed data does not pass because its files were rewritten."""
        commit(repository, day(1))
        judged(repository, partition="ds=2013-01-01", passed=False, result='{"n": 1}')
        judged(repository, "other", partition="ds=2013-01-01", specification="s2")
        commit(repository, day(1, "b"))
        case = {"name": "c", "specification": "s", "partition": "ds=2013-01-01"}
        assert repository.verdict("d", fingerprint="b", **case) == '{"n": 1}'
        assert repository.verdict("d", fingerprint="a", **case) is None
        assert sorted(repository.verdicts("d")["fingerprint"]) == ["b", "other"]
        run = repository.store.open_run(spec())
        repository.store.replace_fingerprints(run, {"ds=2013-01-01": "c", "ds=1999-01-01": "x"})
        assert repository.store.ledger("d")["ds=2013-01-01"].fingerprint == "c"
        assert repository.verdict("d", fingerprint="c", **case) == '{"n": 1}'

    def test_a_run_that_compared_all_partitions_is_their_newest_source_version(
        self, repository: Any
    ) -> None:
        """A run that failed, or that compared a part of them, is not; nor for partitions that were gone."""

        def run(
            number: int,
            *partitions: MeasuredPartition,
            status: Any = RunStatus.COMPLETE,
            **options: Any,
        ) -> None:
            tags = {"source_version": f"delta {number}"}
            opened = repository.store.open_run(spec(tags=tags, **options))
            repository.store.commit_batch(opened, partitions)
            repository.store.close_run(opened, status, {})

        def versions() -> list[str | None]:
            ledger = repository.store.ledger("d")
            return [ledger[name].source_version for name in sorted(ledger)]

        run(1, day(1), day(2))
        assert versions() == ["delta 1", "delta 1"]
        run(2)
        assert versions() == ["delta 2", "delta 2"]
        run(3, selection="ds=2013-01-01")
        run(4, status=RunStatus.FAILED)
        run(5, status=RunStatus.INTERRUPTED)
        run(6, day(1, rows=11), selection="ds=2013-01-01")
        assert versions() == ["delta 6", "delta 2"]
        gone = repository.store.open_run(spec())
        repository.store.mark_gone(gone, ["ds=2013-01-02"])
        run(7, selection="all")
        assert versions() == ["delta 7", "delta 1"]

    def test_without_a_fingerprint_all_is_new(self, repository: Any) -> None:
        """There is nothing to detect unchanged content by."""
        run = repository.store.open_run(spec(source=None))
        assert changes(repository, run, day(1, None)) == [Change.NEW]
        assert changes(repository, run, day(1, None)) == [Change.RESTATED]
        assert changes(repository, run, day(2, "given/1")) == [Change.NEW]
        assert changes(repository, run, day(2, "given/2")) == [Change.RESTATED]

    def test_an_analyzer_added_later_joins_the_version_that_is_there(self, repository: Any) -> None:
        """Analyzers whose state is already stored, and failing analyzers, also join."""
        run = repository.store.open_run(spec())
        changes(repository, run, day(1, only=[SIZE, COMPLETE, UNIQUE]))
        assert changes(repository, run, day(1, only=[MEAN])) == [Change.ADDED]
        assert changes(repository, run, day(1, only=[HIST])) == [Change.ADDED]
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        assert entry.version == 1
        assert entry.analyzers == {analyzer_key(a) for a in (SIZE, COMPLETE, UNIQUE, MEAN, HIST)}
        assert changes(repository, run, day(1)) == [Change.ADDED]
        assert changes(repository, run, day(1)) == [Change.UNCHANGED]

    def test_a_new_version_forgets_the_analyzers_of_the_old(self, repository: Any) -> None:
        """And its metrics."""
        commit(repository, day(1))
        commit(repository, day(1, "b", only=[SIZE]))
        assert repository.store.ledger("d")["ds=2013-01-01"].analyzers == {analyzer_key(SIZE)}
        assert repository.metrics("d")["name"].tolist() == ["Size"]

    def test_an_analyzer_that_failed_and_now_works_joins_its_version(self, repository: Any) -> None:
        """The failure is replaced, and stays in views of the past."""
        first = commit(repository, day(1))
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        nope = Mean("nope")
        assert (entry.retries, entry.failed) == ({analyzer_key(nope)}, frozenset())
        assert analyzer_key(nope) not in entry.analyzers
        works = replace(
            day(1, only=[SIZE]),
            measurements=(
                measurement(SIZE, NumMatches(10)),
                measurement(nope, SumAndCount(3.0, 2)),
            ),
        )
        run = repository.store.open_run(spec())
        assert changes(repository, run, works) == [Change.ADDED]
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        assert (entry.version, entry.retries) == (1, frozenset())
        assert analyzer_key(nope) in entry.analyzers
        assert values(repository, "Mean", instance="nope") == [1.5]
        past = repository.metrics("d", analyzer=nope, as_of=first)
        assert (past["status"].tolist(), past["version"].tolist()) == (["failed"], [1])
        assert repository.restatements("d").empty
        assert changes(repository, run, works) == [Change.UNCHANGED]
        latest = repository.latest("d")
        assert latest.set_index("analyzer").loc[repr(nope), "value"] == 1.5

    def test_a_failure_of_several_numbers_is_replaced(self, repository: Any) -> None:
        """A failed histogram is one series, its numbers are others."""
        fails = measurement(HIST, MetricEnvironmentError("no function"))
        first = commit(repository, replace(day(1, only=[SIZE]), measurements=(fails,)))
        commit(repository, day(1, only=[HIST]))
        frame = repository.metrics("d", instance="s")
        assert set(frame["status"]) == {"finite"}
        assert "Histogram.bins" in set(frame["name"])
        assert repository.metrics("d", as_of=first)["status"].tolist() == ["failed"]
        assert set(repository.latest("d")["status"]) == {"finite"}

    def test_a_failure_that_stays_is_written_once(self, repository: Any) -> None:
        """If its reason changes, only the new one is current."""

        def fails(error: MetricError) -> MeasuredPartition:
            return replace(day(1, only=[SIZE]), measurements=(measurement(MEAN, error),))

        first = commit(repository, fails(MetricEnvironmentError("no function")))
        run = repository.store.open_run(spec())
        for error in ("no function", "no package", "no table"):
            repeated = fails(MetricEnvironmentError(error))
            assert changes(repository, run, repeated) == [Change.UNCHANGED]
        assert repository.metrics("d")["error"].tolist() == ["MetricEnvironmentError: no table"]
        assert repository.metrics("d", as_of=first)["status"].tolist() == ["failed"]
        name = "ds=2013-01-01"
        stored = repository.store.failures("d", [name])
        assert stored == {(name, MEAN.canonical()): {"MetricEnvironmentError: no table"}}
        assert repository.store.failures("d", ["ds=2013-01-02"]) == {}
        assert repository.store.failures("other", [name]) == {}

    def test_a_failure_of_the_data_is_not_to_be_measured_again(self, repository: Any) -> None:
        """The ledger has it as measured, and knows that it failed."""
        bad = replace(
            day(1, only=[SIZE]),
            measurements=(measurement(MEAN, MetricRuntimeError("no number")),),
        )
        commit(repository, bad)
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        key = analyzer_key(MEAN)
        assert (entry.analyzers, entry.failed, entry.retries) == ({key}, {key}, frozenset())
        run = repository.store.open_run(spec())
        assert changes(repository, run, bad) == [Change.UNCHANGED]
        assert changes(repository, run, day(1, only=[MEAN])) == [Change.ADDED]
        assert values(repository, "Mean") == [1]

    def test_a_failure_by_the_environment_keeps_the_values_of_the_same_files(
        self, repository: Any
    ) -> None:
        """A timeout does not depend on the content."""
        commit(repository, day(1, only=[SIZE]))
        fails = replace(
            day(1, only=[SIZE]),
            measurements=(measurement(SIZE, MetricEnvironmentError("no time")),),
        )
        run = repository.store.open_run(spec())
        assert changes(repository, run, fails) == [Change.UNCHANGED]
        assert values(repository, "Size") == [10]

    def test_an_analyzer_added_without_fingerprints_joins_its_version(
        self, repository: Any
    ) -> None:
        """Unless another run restated the partition meanwhile."""
        run = repository.store.open_run(spec(source=None))
        changes(repository, run, day(1, None, only=[SIZE, COMPLETE]))
        added = replace(day(1, None, only=[MEAN]), added_to=1)
        assert changes(repository, run, added) == [Change.ADDED]
        entry = repository.store.ledger("d")["ds=2013-01-01"]
        assert (entry.version, len(entry.analyzers)) == (1, 3)
        changes(repository, run, day(1, None))
        late = replace(added, measurements=day(1, only=[HIST]).measurements)
        assert changes(repository, run, late) == [Change.UNCHANGED]
        assert repository.store.ledger("d")["ds=2013-01-01"].version == 2

    def test_gone_and_back(self, repository: Any) -> None:
        """Marking a partition as gone is idempotent."""
        commit(repository, day(1), day(2))
        run = repository.store.open_run(spec())
        for _ in range(2):
            repository.store.mark_gone(run, ["ds=2013-01-02"])
        gone = {name: ledger.gone for name, ledger in repository.store.ledger("d").items()}
        assert gone == {"ds=2013-01-01": False, "ds=2013-01-02": True}
        repository.store.mark_gone(run, [], ["ds=2013-01-02"])
        assert not repository.store.ledger("d")["ds=2013-01-02"].gone

    def test_a_dataset_is_of_one_table_and_one_partitioning(self, repository: Any) -> None:
        """Unless the table was renamed."""
        store = repository.store
        store.open_run(spec())
        with pytest.raises(DatasetMismatchError, match=r"history of 'db\.t', not of 'db\.u'"):
            store.open_run(spec(source="db.u"))
        store.open_run(spec(source=None))  # a DataFrame may come from any table
        store.open_run(spec(source="db.u", rename=True))
        with pytest.raises(DatasetMismatchError):
            store.open_run(spec(source="db.t"))
        with pytest.raises(DatasetMismatchError, match="was measured by"):
            store.open_run(RunSpec("d", None, ("hr",)))

    def test_a_run_that_failed_before_it_was_opened(self, repository: Any) -> None:
        """It is a run, of a dataset that is bound to no table; the next one may bind it."""
        store = repository.store
        failed = store.fail_run(spec(source="db.u"), "no table db.u")
        assert repository.datasets() == ["d"]
        assert dict(store.ledger("d")) == {}
        assert store.open_run(spec()) > failed
        assert store.fail_run(RunSpec("d", "db.u", ("hr",)), "it is another table") > failed
        commit(repository, day(1))
        assert values(repository, "Size") == [10]

    def test_datasets_do_not_touch_each_other(self, repository: Any) -> None:
        """An empty batch changes nothing either."""
        commit(repository, day(1), dataset="a")
        run = repository.store.open_run(spec("b"))
        assert changes(repository, run, day(1, rows=99)) == [Change.NEW]
        assert changes(repository, run) == []
        assert repository.datasets() == ["a", "b"]
        assert repository.metrics("a", name="Size")["value"].tolist() == [10.0]

    def test_segments_are_chosen_once(self, repository: Any) -> None:
        """They stay until chosen again under a higher generation."""
        run = repository.store.open_run(spec())
        first = SegmentSet(("origin",), (("EWR",), ("LGA",)), 1)
        repository.store.keep_segments(run, [first])
        repository.store.keep_segments(run, [SegmentSet(("origin",), (("JFK",),), 1)])
        assert dict(repository.store.segment_sets("d")) == {("origin",): first}
        second = SegmentSet(("origin",), (("JFK",),), 2)
        repository.store.keep_segments(run, [second])
        assert dict(repository.store.segment_sets("d")) == {("origin",): second}

    def test_a_lease_is_held_by_one_and_its_number_grows(self, repository: Any) -> None:
        """A growing fence identifies a holder that was replaced."""
        with repository.store.hold("d", 0) as first:
            assert repository.store.open_run(spec(), first) > 0
        with repository.store.hold("d", 0) as second:
            assert second > first

    # metrics

    def test_metrics_by_name_instance_filter_time_and_tags(self, repository: Any) -> None:
        """Both ends of a window are inclusive."""
        filtered = measurement(Size(where="a = 'b'"), NumMatches(3))
        commit(repository, day(1, extra=[filtered]), day(2), tags={"env": "test"})
        commit(repository, day(3), tags={"env": "prod", "team": "ops"})
        assert sorted(values(repository, "Size")) == [3, 10, 10, 10]
        assert values(repository, "Size", where="") == [10, 10, 10]
        assert values(repository, "Size", where=" a = 'b' ") == [3]
        assert values(repository, "Size", since="2013-01-02", until="2013-01-02") == [10]
        assert values(repository, "Size", tags={"env": "prod"}) == [10]
        with pytest.raises(HistoryError, match="no series of 'd' has segment='no such'"):
            values(repository, "Size", segment="no such")
        with pytest.raises(HistoryError, match="did you mean 'Size'"):
            values(repository, "Sise")
        with pytest.raises(HistoryError, match=r"where=\"a = 'c'\"; did you mean \"a = 'b'\""):
            values(repository, "Size", where="a = 'c'")
        with pytest.raises(HistoryError, match=r"analyzer=Size\(where=\"a = 'c'\"\); did you mean"):
            repository.metrics("d", analyzer=Size(where="a = 'c'"))
        with pytest.raises(HistoryError, match="has name='Size', instance='x' together"):
            values(repository, "Size", instance="x")
        with pytest.raises(
            HistoryError, match="no run of 'd' has the tag 'evn'; did you mean 'env'"
        ):
            values(repository, "Size", tags={"evn": "prod"})
        assert values(repository, "Size", tags={"env": "no such"}) == []
        assert len(repository.metrics("d", analyzer="Mean('x')")) == 3
        newest = commit(repository, day(4), tags={"env": "test"})
        repository.store.tag_run(newest, {"env": "other", "source_version": "delta 7"})
        assert values(repository, "Size", tags={"source_version": "delta 7", "env": "test"}) == [10]
        names = set(repository.metrics("d", name="Histogram", instance="s")["name"])
        assert names == {
            *("Histogram.bins", "Histogram.abs.a", "Histogram.abs.b"),
            *("Histogram.ratio.a", "Histogram.ratio.b"),
        }

    def test_failed_and_empty_are_kept(self, repository: Any) -> None:
        """With the error, and without a value."""
        commit(repository, day(1, rows=0, groups={}))
        frame = repository.metrics("d").set_index("analyzer")
        assert frame.loc["Mean('nope')", "status"] == "failed"
        assert "no column 'nope'" in frame.loc["Mean('nope')", "error"]
        assert frame.loc["Mean('x')", "status"] == "empty"
        assert isnan(frame.loc["Mean('x')", "value"])

    def test_as_of_a_run_and_as_of_a_moment(self, repository: Any) -> None:
        """The history as of that run or time."""
        first = commit(repository, day(1), day(2))
        second = commit(repository, day(1, "b", rows=20), day(3))
        moment = repository.metrics("d", as_of=first)["analyzed_at"].max().to_pydatetime()
        assert (
            values(repository, "Size") == values(repository, "Size", as_of=second) == [20, 10, 10]
        )
        assert values(repository, "Size", as_of=first) == [10, 10]
        assert values(repository, "Size", as_of=moment) == [10, 10]
        assert values(repository, "Size", as_of=moment - dt.timedelta(days=1)) == []
        assert repository.merge("d", SIZE, as_of=first).value == 20
        assert repository.partitions("d", as_of=first)["version"].tolist() == [1, 1]
        assert repository.partitions("d")["version"].tolist() == [2, 1, 1]
        with pytest.raises(HistoryError, match="the run does not exist"):
            values(repository, "Size", as_of=99)

    def test_the_latest_of_each_series(self, repository: Any) -> None:
        """Its own newest partition, whatever the order of commits."""
        commit(repository, day(3), day(1))
        commit(repository, day(2))
        commit(repository, day(4, only=[SIZE]))
        latest = repository.latest("d").set_index("analyzer")["partition"]
        assert latest["Size()"] == "ds=2013-01-04"
        assert latest["Mean('x')"] == "ds=2013-01-03"
        commit(repository, day(4, "b", only=[COMPLETE]))
        latest = repository.latest("d").set_index("analyzer")["partition"]
        assert latest["Size()"] == "ds=2013-01-03"
        assert latest["Completeness('x')"] == "ds=2013-01-04"

    def test_a_partition_without_a_time_is_the_latest_of_series_without_others(
        self, repository: Any
    ) -> None:
        """The order of writing does not matter; Hive's default partition contains rows without a key."""
        undated = replace(day(1), partition=Partition(("ds",), (NULL,)), time=None)
        commit(repository, replace(undated, measurements=day(1, only=[SIZE]).measurements))
        assert set(repository.latest("d")["partition"]) == {f"ds={NULL}"}
        first = commit(repository, day(1, only=[SIZE]))
        commit(repository, undated)
        for as_of in (None, first):
            latest = repository.latest("d", as_of=as_of).set_index("analyzer")["partition"]
            assert latest["Size()"] == "ds=2013-01-01"
        latest = repository.latest("d").set_index("analyzer")["partition"]
        assert latest["Mean('x')"] == f"ds={NULL}"

    def test_newest_values_by_name_and_instance(self, repository: Any) -> None:
        """Only series without a filter count; failures and empty metrics have no value."""
        filtered = measurement(Mean("y", where="x > 1"), SumAndCount(3.0, 3))
        commit(repository, day(2), day(1, extra=[filtered]), day(3, only=[MEAN]))
        newest = repository.store.newest_values("d", ["Mean", "Size", "CountDistinct"])
        assert newest == {("Mean", "x"): 3, ("Size", "*"): 10}  # of the third day, of the second
        commit(repository, day(2, "b", rows=0))
        assert repository.store.newest_values("d", ["Size"]) == {("Size", "*"): 0}
        assert repository.store.newest_values("other", ["Size"]) == {}

    # states

    def test_merging_windows(self, repository: Any) -> None:
        """Windows are merged from states, for any analyzer that reads a stored state."""
        commit(repository, *(day(n, rows=10 * n) for n in (1, 2, 3)))
        assert repository.merge("d", SIZE).value == 60
        assert repository.merge("d", "Size()", since="2013-01-02").value == 50
        merged = repository.merge("d", COMPLETE, until="2013-01-02")
        assert (merged.value, merged.weight) == (28 / 30, 30)
        assert repository.merge("d", UNIQUE).value == 0.0
        assert repository.merge("d", HIST).value["b"].absolute == 3
        assert repository.merge("d", CountDistinct(("s",))).value == 2
        with pytest.raises(HistoryError, match="was never measured"):
            repository.merge("d", ANALYZERS.parse("Sum('y')"))
        with pytest.raises(HistoryError, match="there is nothing to merge"):
            repository.merge("d", SIZE, since="2014-01-01")
        assert repository.merge("d", SIZE, since="2014-01-01", allow_missing=True).value == 0

    def test_merging_where_an_analyzer_failed_is_an_error_unless_allowed(
        self, repository: Any
    ) -> None:
        """A missing state is not treated as an empty one."""
        works = measurement(Mean("y"), SumAndCount(4.0, 2))
        fails = measurement(Mean("y"), NoSuchColumnError("y"))
        commit(repository, day(1, extra=[fails]), day(2, extra=[works]))
        with pytest.raises(HistoryError, match="no state for 1 of 2 partitions"):
            repository.merge("d", Mean("y"))
        assert repository.merge("d", Mean("y"), allow_missing=True).value == 2.0
        assert repository.merge("d", Mean("y"), since="2013-01-02").value == 2.0

    def test_roll_ups_are_what_merging_gives(self, repository: Any) -> None:
        """Rolling, calendar and total windows, also after a restatement."""
        commit(repository, *(day(n, rows=n) for n in range(1, 41)))
        repository.roll_up("d", ["7d", "month"])
        commit(repository, day(2, "b", rows=100), day(41, rows=41))
        repository.roll_up("d")
        week = values(repository, "Size", window="7d")
        assert week[0] == 1
        assert week[1] == 1 + 100
        assert week[-1] == sum(range(35, 42))
        assert len(week) == 41
        assert values(repository, "Size", window="month") == [
            sum(range(1, 32)) + 98,
            sum(range(32, 42)),
        ]
        assert values(repository, "Size", window="total") == [sum(range(1, 42)) + 98]
        mean = repository.metrics("d", name="Mean", instance="x", window="month")
        merged = repository.merge("d", MEAN, until="2013-01-31").value
        assert mean["value"][0] == pytest.approx(merged, rel=1e-12)
        failed = repository.metrics("d", analyzer=Mean("nope"), window="total")
        assert failed.empty  # there never was a state

    # user-recorded metrics

    def test_a_recorded_number_is_a_metric_like_the_rest(self, repository: Any) -> None:
        """It outlives its partition's versions, and has versions of its own."""
        first = commit(repository, day(1), day(2))
        assert repository.record("d", "revenue", {"ds=2013-01-01": 5, "ds=2013-01-05": inf}) == 2
        assert values(repository, "revenue") == [5.0, inf]
        assert repository.record("d", "revenue", 5.0, partition="ds=2013-01-01") == 0
        assert repository.record("d", "revenue", 6.0, partition="ds=2013-01-01") == 1
        commit(repository, day(1, "b", rows=3))
        frame = repository.metrics("d", name="revenue")
        assert frame["value"].tolist() == [6.0, inf]
        assert frame["version"].tolist() == [2, 1]
        assert frame["analyzer"].tolist() == ["Recorded('revenue')"] * 2
        assert repository.metrics("d", name="revenue", as_of=first).empty
        assert repository.record("new", "x", nan) == 1
        assert repository.metrics("new")["status"].tolist() == ["NaN"]
        with pytest.raises(HistoryError, match="partitions are written"):
            repository.record("d", "revenue", 1.0, partition="2013-01-01")
        with pytest.raises(DatasetMismatchError):
            repository.record("d", "revenue", 1.0, partition="hr=01")

    def test_what_a_restatement_changed(self, repository: Any) -> None:
        """Old and new values of the metrics that differ."""
        commit(repository, day(1, groups={("a",): 9, ("b",): 1}))
        commit(repository, day(1, "b", groups={("a",): 10}))
        changed = repository.restatements("d").set_index("name")[["old", "new"]]
        assert tuple(changed.loc["Histogram.abs.a"]) == (9.0, 10.0)
        assert changed.loc["Histogram.abs.b", "old"] == 1.0
        assert isnan(changed.loc["Histogram.abs.b", "new"])
        assert "Size" not in changed.index
        assert "Completeness" not in changed.index

    # verdicts

    def test_a_verdict_is_found_by_all_that_it_depends_on(self, repository: Any) -> None:
        """The whole case is the key; the newest verdict counts, and an identical verdict is not written again."""
        case = {"name": "c", "specification": "s", "fingerprint": "a"}
        failed = judged(repository, passed=False, result='{"n": 1}')
        assert judged(repository, passed=False, result='{"n": 1}') == failed
        assert repository.verdict("d", **case) == '{"n": 1}'
        for option in ("name", "specification", "fingerprint", "partition"):
            assert repository.verdict("d", **{**case, option: "other"}) is None
        run = commit(repository, day(1))
        assert judged(repository) > failed
        assert repository.verdict("d", **case) == "{}"
        assert repository.verdict("d", **case, as_of=run) == '{"n": 1}'

    def test_a_verdict_that_returns_is_the_newest_again(self, repository: Any) -> None:
        """After a verdict by other rules on the same partition, an identical verdict is written again."""
        first = judged(repository, passed=False)
        judged(repository, specification="weaker")
        third = judged(repository, passed=False)
        assert third > first
        assert judged(repository, passed=False) == third
        assert repository.verdicts("d")["passed"].tolist() == [False, True]

    def test_the_last_verdicts_as_a_frame(self, repository: Any) -> None:
        """Newest first; a superseded failure is not listed."""
        judged(repository, passed=False)
        run = commit(repository, day(1))
        judged(repository, "b", partition="ds=2013-01-01", run=run, passed=False)
        judged(repository, name="other")
        judged(repository)
        frame = repository.verdicts("d")
        assert frame["passed"].tolist() == [True, True, False]
        assert frame["run_id"].isna().tolist() == [True, True, False]
        assert frame["time"].iloc[2] == dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
        assert repository.verdicts("d", passed=False)["fingerprint"].tolist() == ["b"]
        assert repository.verdicts("d", as_of=run)["passed"].tolist() == [False]

    # retention

    def test_cleaning_keeps_the_last_verdicts(self, repository: Any) -> None:
        """Superseded verdicts are removed."""
        judged(repository, passed=False)
        run = commit(repository, day(1))
        judged(repository)
        repository.clean(versions=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        assert repository.verdicts("d")["passed"].tolist() == [True]
        with pytest.raises(HistoryError, match="horizon"):
            repository.verdicts("d", as_of=run)

    def test_cleaning_old_versions_moves_the_horizon(self, repository: Any) -> None:
        """The current view is unchanged; as-of views before it are refused, not wrong."""
        first = commit(repository, day(1), day(2))
        second = commit(repository, day(1, "b", rows=20))
        now = repository.metrics("d")
        repository.clean(versions=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        remaining = repository.metrics("d")
        assert remaining.equals(now)
        assert values(repository, "Size", as_of=second) == [20, 10]
        with pytest.raises(HistoryError, match="horizon"):
            values(repository, "Size", as_of=first)
        assert repository.restatements("d").empty

    def test_cleaning_states_keeps_metrics_and_the_total(self, repository: Any) -> None:
        """The total continues from the folded states."""
        commit(repository, *(day(n) for n in range(1, 11)))
        repository.roll_up("d")
        repository.clean(states=dt.datetime(2013, 1, 6, tzinfo=dt.UTC))
        assert len(values(repository, "Size")) == 10
        with pytest.raises(HistoryError, match="no state for 5 of 10"):
            repository.merge("d", SIZE)
        assert repository.merge("d", SIZE, since="2013-01-06").value == 50
        run = repository.store.open_run(spec())
        assert changes(repository, run, day(3)) == [Change.UNCHANGED]
        assert changes(repository, run, day(4, "b")) == [Change.UNCHANGED], "by its metrics"
        # Both states are stored again.
        with pytest.raises(HistoryError, match="no state for 3 of 10"):
            repository.merge("d", SIZE)
        commit(repository, day(11))
        repository.roll_up("d")
        assert values(repository, "Size", window="total") == [110]
        commit(repository, day(8, "b", rows=1))
        repository.roll_up("d")
        assert values(repository, "Size", window="total") == [101]
