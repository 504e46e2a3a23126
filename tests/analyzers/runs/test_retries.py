"""Failures that a retry can cure are measured again; failures of the data stay until the files change."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.analyzers.core.errors import (
    EmptyStateError,
    MetricEnvironmentError,
    MetricError,
    MetricRuntimeError,
    NoSuchColumnError,
    PrivateColumnError,
    UnresolvedQueryError,
    WrongColumnTypeError,
)
from tidegauge.analyzers.core.partitions import Partition, recognise_time
from tidegauge.analyzers.runs.ledger import AnalyzerKeys, LedgerEntry, analyzer_key
from tidegauge.analyzers.runs.runner import _batches, _StandingFailures, _Task
from tidegauge.analyzers.sources.sources import ListedPartition


class SparkError(Exception):
    """An error with a condition and an SQLSTATE, as pyspark raises it."""

    def __init__(self, state, text="no"):
        super().__init__(text)
        self.state = state

    def getCondition(self):
        return "CONDITION"

    def getSqlState(self):
        return self.state


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (SparkError("22018"), False),  # an invalid cast in the rows
        (SparkError("22012"), False),  # a division by zero
        (SparkError("P0001"), False),  # raise_error
        (SparkError("21000"), False),  # a scalar subquery of several rows
        (SparkError("42501"), True),  # permission denied
        (SparkError("42P01"), True),  # no such table
        (SparkError("42883"), True),  # no such function
        (SparkError("38000"), True),  # a user's function raised an error
        (SparkError("0A000"), True),  # unsupported by this Spark
        (SparkError(None), True),
        (SparkError(None, "most recent failure: Lost task (TID 0): java.lang.ArithmeticException: x"), False),
        (ZeroDivisionError("division by zero"), False),
        (ValueError("no number"), False),
        (ModuleNotFoundError("no scipy"), True),
        (PermissionError("denied"), True),
        (TimeoutError("timed out"), True),
        (ConnectionError("refused"), True),
        (MemoryError(), True),
    ],
)  # fmt: skip
def test_which_errors_a_retry_can_cure(error, retriable):
    assert MetricError.from_exception(error).is_retriable is retriable


def test_errors_before_anything_is_read_are_retried():
    for error in (
        NoSuchColumnError("b"),
        WrongColumnTypeError("b", "string", "numeric"),
        UnresolvedQueryError("no table"),
        PrivateColumnError("email"),
    ):
        assert error.is_retriable
    assert not EmptyStateError("no rows").is_retriable
    assert MetricEnvironmentError("x").with_text("y").is_retriable
    assert not MetricRuntimeError("x").with_text("y").is_retriable


KEYS = st.sets(st.sampled_from(["0a", "1b", "2c", "3d", "4e"]))


@st.composite
def analyzer_keys(draw):
    measured = draw(KEYS)
    failed = draw(KEYS) & measured
    return AnalyzerKeys(frozenset(measured), frozenset(failed), frozenset(draw(KEYS) - measured))


@given(analyzer_keys(), analyzer_keys())
def test_keys_are_stored_and_updated(before, later):
    assert AnalyzerKeys.from_json(before.to_json()) == before
    after = before.updated(later)
    assert after.failed <= after.measured
    assert not after.measured & after.retries
    assert after.measured | after.retries == (
        before.measured | before.retries | later.measured | later.retries
    )
    assert later.measured <= after.measured
    assert later.retries <= after.retries
    assert after.updated(later) == after


B, SIZE = tg.Completeness("b"), tg.Size()
KEYS_OF = {a: frozenset({analyzer_key(a)}) for a in (B, SIZE)}
NO_COLUMN = "NoSuchColumnError: no column 'b'; there are: 'a'"


def listed(day):
    return ListedPartition(Partition(("ds",), (f"2026-03-{day:02d}",)), "f")


def name(day):
    return listed(day).partition.name


def failures(errors, days):
    """Return failures of ``B`` in some days, as stored; the other days have values."""
    key, size = analyzer_key(B), analyzer_key(SIZE)
    ledger = {}
    for day in days:
        error = errors.get(day)
        retried = error is not None and not error.startswith("MetricRuntimeError")
        measured = frozenset({size} if retried else {size, key})
        failed = frozenset({key} if error and not retried else ())
        retries = frozenset({key} if retried else ())
        ledger[name(day)] = LedgerEntry(1, "f", measured, failed=failed, retries=retries)
    stored = {(name(day), B.canonical()): frozenset({text}) for day, text in errors.items()}
    standing = {name(day): {B} for day in errors}
    return _StandingFailures(ledger, KEYS_OF, stored, standing)


def standing_errors(errors, days, selected=None):
    actual = failures(errors, days).errors(
        [listed(day) for day in days],
        {name(day) for day in (selected or days)},
        recognise_time(["ds"]),
    )
    return {analyzer: str(error) for analyzer, error in actual.items()}


def test_a_failure_of_the_data_stays_until_its_files_change():
    text = "MetricRuntimeError: [CAST_INVALID_INPUT] 'x'"
    assert standing_errors({2: text}, [1, 2, 3]) == {
        B: "[CAST_INVALID_INPUT] 'x' (in ds=2026-03-02, by its data: measured again when its files change)"
    }
    assert standing_errors({2: text}, [1, 2, 3], selected=[3]) == {}


def test_a_column_added_later_is_not_missing_from_earlier_partitions():
    assert standing_errors({1: NO_COLUMN, 2: NO_COLUMN}, [1, 2, 3]) == {}
    assert B in standing_errors({2: NO_COLUMN}, [1, 2, 3])  # missing on one day
    assert B in standing_errors({3: NO_COLUMN}, [1, 2, 3])  # dropped
    assert B in standing_errors({1: NO_COLUMN, 2: NO_COLUMN}, [1, 2])  # never present


def test_retries_start_with_the_newest_partition_and_stop_at_the_first_repeated_failure():
    tasks = [_Task(listed(day), None, (B,), 1, True) for day in (1, 2, 3)]
    tasks.append(_Task(listed(4), None, (B,)))
    batches = list(_batches(tasks, 1000, 0))
    assert [[t.listed.partition.name for t in batch] for batch in batches] == [
        [name(3)],
        [name(1), name(2)],
        [name(4)],
    ]
    other = "UnresolvedExpressionError: no function"
    known = failures({1: other, 2: NO_COLUMN, 3: NO_COLUMN}, [1, 2, 3, 4])
    known.hopeless.add((B, NO_COLUMN))
    left = [known.without_hopeless(batch) for batch in batches]
    assert [[t.listed.partition.name for t in batch] for batch in left] == [
        [],
        [name(1)],
        [name(4)],
    ]


def write(root, day, **columns):
    folder = root / f"ds=2026-03-{day:02d}"
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "part.parquet")


@pytest.mark.spark
def test_a_function_that_is_registered_later_is_measured_by_the_next_run(spark, repo, tmp_path):
    for day in (1, 2, 3):
        write(tmp_path / "t", day, x=[1, 2, 3, 4], s=["1", "2", "x" if day == 2 else "3", "4"])
    odd, number = tg.Compliance("odd", "retried_odd(x)"), tg.CustomSql("sum(cast(s AS int))")
    suite = tg.Suite("t", [tg.Size(), odd, number], partition_by=["ds"])

    def run():
        return tg.analyze(f"{tmp_path}/t", suite, repository=repo, spark=spark)

    first = run()
    assert (first.report.scanned, set(first.failed)) == (3, {odd, number})
    again = run()
    assert (again.report.scanned, again.report.skipped, set(again.failed)) == (0, 3, {odd, number})
    assert "Cannot resolve" in str(again.failed[odd]) or "cannot resolve" in str(again.failed[odd])
    assert "by its data" in str(again.failed[number])
    spark.udf.register("retried_odd", lambda x: x % 2 == 1, "boolean")
    cured = run()
    assert (set(map(str, cured.changes.values())), set(cured.failed)) == ({"added"}, {number})
    frame = repo.metrics("t", analyzer=odd)
    assert frame["value"].tolist() == [0.5, 0.5, 0.5]
    assert frame["version"].tolist() == [1, 1, 1]
    assert repo.metrics("t", analyzer=odd, as_of=first.id)["status"].tolist() == ["failed"] * 3
    assert check(repo.database, repo.artifacts) == []
    last = run()
    assert (last.report.scanned, set(last.failed)) == (0, {number})
