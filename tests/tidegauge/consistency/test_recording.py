"""Comparisons stored in a repository: buckets as partitions, weights, and new versions for late logs."""

import datetime as dt

import pytest

from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.consistency.compare.comparison import compare, record, time_format

pytestmark = pytest.mark.spark
SCHEMA = "id int, ts timestamp, age int, tags array<string>, country string"


def at(hour):
    return dt.datetime(2023, 1, 5, hour, 20, tzinfo=dt.UTC)


def frames(spark, late=()):
    rows = [(i, at(7 + i % 2), i, ["a"] * i, "de") for i in range(4)]
    logged = [(0, at(7), 5, ["a"], "de"), *rows[1:3], *late]
    return [spark.createDataFrame(some, SCHEMA) for some in (logged, rows)]


def compare_frames(spark, late=()):
    groups = {"user": ["age", "tags"], "place": ["country"]}
    return compare(*frames(spark, late), ["id"], group_bys=groups)


def test_a_comparison_is_stored(spark, repository):
    report = record(compare_frames(spark), repository, "ns.join", tags={"by": "test"})
    names = ["ds=2023-01-05/hr_minute=07-00", "ds=2023-01-05/hr_minute=08-00"]
    assert {name: change.value for name, change in report.changes.items()} == dict.fromkeys(
        names, "new"
    )
    assert list(repository.partitions("ns.join").partition) == names
    assert [t.hour for t in repository.partitions("ns.join").time] == [7, 8]
    facts = repository.metrics("ns.join")
    actual = {
        (f.partition[-5:], f.instance, f.name): (f.value, f.weight) for f in facts.itertuples()
    }
    assert actual["07-00", "user.age", "Consistency.mismatch"] == (0.5, 2)
    assert actual["07-00", "user.age", "Consistency.delta-min"] == (-5.0, 2)
    assert actual["07-00", "user.tags", "Consistency.edit_delete-max"] == (1.0, 2)
    assert actual["08-00", "user", "Consistency.row_missing"] == (1.0, 2)
    assert actual["08-00", "place", "Consistency.row_missing"] == (1.0, 2)
    assert actual["08-00", "place.country", "Consistency.mismatch"] == (0.0, 1)


def test_the_comparison_is_recorded_in_the_given_repository(spark, repository):
    comparison = compare(*frames(spark), ["id"], repository=repository, dataset="ns.join")
    facts = repository.metrics("ns.join", name="Consistency.mismatch", instance="*.age")
    assert list(facts.value) == [0.5, 0.0]
    assert len(comparison.groups) == 2
    with pytest.raises(PreconditionError, match="set both or neither"):
        compare(*frames(spark), ["id"], repository=repository)


@pytest.mark.soak
def test_late_logs_make_a_new_version(spark, repository):
    record(compare_frames(spark), repository, "ns.join")
    again = record(compare_frames(spark), repository, "ns.join")
    assert {change.value for change in again.changes.values()} == {"unchanged"}
    late = record(compare_frames(spark, [(3, at(8), 3, ["a"] * 3, "de")]), repository, "ns.join")
    assert [change.value for _, change in sorted(late.changes.items())] == ["unchanged", "restated"]
    versions = repository.partitions("ns.join")
    assert list(versions.version) == [1, 2]


def test_unchanged_hours_are_not_stored_again(spark, repository):
    """The hour with a late row gets a new version. All hours of the changed day get its fingerprint."""
    hours = [f"ds=2023-01-05/hr_minute=0{h}-00" for h in (6, 7, 8)]

    def logged(late):
        rows = [(i, at(6 + i % 3), i, ["a"], "de") for i in range(6)]
        served = [*rows, *([(9, at(8), 9, ["a"], "de")] if late else [])]
        sides = [spark.createDataFrame(some, SCHEMA) for some in (served, rows)]
        return compare(*sides, ["id"], group_bys={"user": ["age", "tags"]})

    record(logged(late=False), repository, "ns.join", fingerprints=dict.fromkeys(hours, "a"))
    late = record(logged(late=True), repository, "ns.join", fingerprints=dict.fromkeys(hours, "b"))
    changes = [late.changes[hour].value for hour in hours]
    assert changes == ["unchanged", "unchanged", "restated"]
    marks = {entry.fingerprint for entry in repository.store.ledger("ns.join").values()}
    assert marks == {"b"}


def test_a_failing_comparison_closes_the_run_as_failed(spark, repository, monkeypatch):
    store = repository.store
    monkeypatch.setattr(type(store), "commit_batch", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        record(compare_frames(spark), repository, "ns.join")
    assert list(repository.runs().status) == ["failed"]


def test_partitions_have_times():
    assert time_format(("hr_minute",)) is None
    assert time_format(("ds",)).keys == ("ds",)
    assert time_format(("ds", "query_source", "hr_minute")).keys == ("ds", "hr_minute")
