"""Several backfills for one log: each is compared as if it were the only one."""

import datetime as dt
import random
from collections import Counter, defaultdict

import pytest

from tests.conftest import soak
from tests.tidegauge.consistency import naive
from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.consistency.compare.comparison import compare, measure
from tidegauge.consistency.compare.join import AlignedPart, Alignment, pair_parts
from tidegauge.consistency.compare.measures import ConsistencyRows

pytestmark = pytest.mark.spark
N = None
DAY, HOUR = 86_400_000, 3_600_000
FEATURES = (("k", "b0k"), ("`",), ("a0n", "v 'x'"))
"""Features of three backfills, named like the columns that we add, or with names that need quotes."""


def frame(spark, names, rows, *, millis=True, ds="string"):
    """Return a frame of rows (id, milliseconds, ds, values). ds is left out if it has no type."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    columns = [("id", IntegerType()), ("ts", LongType()), ("ds", StringType())]
    columns += [(name, IntegerType()) for name in names]
    schema = StructType([StructField(*column) for column in columns])
    actual = spark.createDataFrame([(*row[:3], *row[3]) for row in rows], schema)
    actual = actual.withColumn("ds", actual.ds.cast(ds)) if ds else actual.drop("ds")
    if millis:
        return actual
    return actual.withColumn("ts", F.expr("timestamp_millis(ts)"))


def counts_of(table, group_by, names):
    """Count the rows of a group-by by bucket, number, and the values of each side or None."""
    actual = Counter()
    for row in table:
        presence = row[f"row_presence_{group_by}"]
        if presence == "other":
            continue
        logged = tuple(row[f"logged_{name}"] for name in names)
        backfilled = tuple(row[name] for name in names)
        a = logged if presence != "missing" else N
        b = backfilled if presence != "extra" else N
        actual[row.ds, row.hr_minute, row[f"row_copy_{group_by}"], a, b] += 1
    return actual


def naive_counts(logged, backfilled, shared):
    """Count the same rows of one backfill in plain Python; rows are (id, milliseconds, ds, values)."""
    sides = defaultdict(lambda: ([], []))
    for side, rows in enumerate((logged, backfilled)):
        for row in rows:
            sides[row[: 3 if shared else 2]][side].append(row)
    actual = Counter()
    for key, some in sides.items():
        a, b = (sorted(rows, key=lambda row: naive.order(row[3])) for rows in some)
        for i in range(max(len(a), len(b))):
            one, other = a[i] if i < len(a) else N, b[i] if i < len(b) else N
            ds = (one or other)[2]
            hour = N if key[1] is None else f"{key[1] // HOUR % 24:02}-00"
            actual[ds, hour, i + 1, one and one[3], other and other[3]] += 1
    return actual


def day(millis):
    return N if millis is None else str(dt.datetime.fromtimestamp(millis / 1000, dt.UTC).date())


@pytest.mark.parametrize("seed", range(soak(5, 60)))
def test_each_backfill_is_compared_as_if_it_were_the_only_one(spark, seed):
    """With nulls in keys, duplicates on all sides, unlogged rows, and ds and time columns that only some sides have."""
    rng = random.Random(seed)

    def maybe(value):
        return N if rng.random() < 0.15 else value

    # All sides have ds; one backfill; the log; the log and two backfills; none.
    has_ds = ["1111", "0100", "1000", "1101", "0000"][seed % 5]
    millis = [rng.random() < 0.5 for _ in range(4)]

    def rows(side, names, n):
        actual = []
        for _ in range(n):
            key = maybe(rng.randrange(2)), maybe(rng.choice([0, HOUR + 5, 3 * DAY]))
            own = f"ds{(key[0] or 0) if side in (0, 2) else 0}"  # some sides have another value
            ds = own if has_ds[side] == "1" else day(key[1])
            actual.append((*key, ds, tuple(maybe(rng.randrange(3)) for _ in names)))
        return actual

    every = [name for names in FEATURES for name in names]
    logged = rows(0, every, rng.randrange(12))
    backfills = [rows(p + 1, names, rng.randrange(12)) for p, names in enumerate(FEATURES)]
    sides = [
        frame(spark, names, some, millis=m, ds=N if has == "0" else "string")
        for names, some, m, has in zip(
            (every, *FEATURES), (logged, *backfills), millis, has_ds, strict=True
        )
    ]
    parts = [
        AlignedPart(data, {f"g{p}": names})
        for p, (data, names) in enumerate(zip(sides[1:], FEATURES, strict=True))
    ]
    table = pair_parts(sides[0], parts, Alignment(("id",), tuple(every))).collect()
    for p, names in enumerate(FEATURES):
        at = [every.index(name) for name in names]
        served = [(*row[:3], tuple(row[3][i] for i in at)) for row in logged]
        shared = has_ds[0] == has_ds[p + 1] == "1"
        assert counts_of(table, f"g{p}", names) == naive_counts(served, backfills[p], shared), p
    for row in table:
        presences = {row[f"row_presence_g{p}"] for p in range(3)} - {"other"}
        # A row is on at least one side, and in the log of all group-bys or of none.
        assert presences == {"missing"} or (presences and presences <= {"matched", "extra"})
        assert row.row_presence == ("matched" if "matched" in presences else presences.pop())


LOG = [(1, 0, "d", (1, 2)), (1, 0, "d", (2, 1)), (3, 0, "d", (1, 1))]
OF_A = [(1, 0, "d", (1,)), (2, 0, "d", (5,)), (4, 0, "d", (7,))]
OF_B = [*((1, 0, "d", (n,)) for n in (1, 2, 3)), (2, 0, "d", (6,))]


def log_and_parts(spark):
    a, b = frame(spark, "a", OF_A, millis=False), frame(spark, "b", OF_B)
    return frame(spark, "ab", LOG), [AlignedPart(a, {"A": "a"}), AlignedPart(b, {"B": "b"})]


def presence(comparison, group_by):
    (states,) = (group.states for group in comparison.groups.values())
    return {
        one.metric.removeprefix("row_"): one.measure(states[one].value)
        for one in comparison.measures
        if isinstance(one, ConsistencyRows) and one.group_by == group_by
    }


@pytest.mark.soak
def test_each_backfill_has_its_own_rows_and_duplicates(spark):
    logged, parts = log_and_parts(spark)
    table = pair_parts(logged, parts, Alignment(("id",), ("a", "b"))).persist()
    columns = ("id", "row_presence", "row_presence_A", "row_copy_A", "row_presence_B", "row_copy_B")
    assert sorted(map(tuple, table.select(*columns).collect()), key=str) == [
        # The log's (1, 2) is the first row by a and the second by b. Backfill b has a third row.
        (1, "matched", "extra", 2, "matched", 1),
        (1, "matched", "matched", 1, "matched", 2),
        (1, "missing", "other", 3, "missing", 3),
        (2, "missing", "missing", 1, "missing", 1),  # one row in two backfills
        (3, "extra", "extra", 1, "extra", 1),
        (4, "missing", "missing", 1, "other", 1),
    ]
    measured = measure(table, {"A": "a", "B": "b"})
    kinds = ("matched", "missing", "extra", "duplicate")
    assert [presence(measured, "A")[kind] for kind in kinds] == [1, 2, 2, 1]
    assert [presence(measured, "B")[kind] for kind in kinds] == [2, 2, 1, 3]
    metrics = measured.metrics()
    numbers = {(r.feature_name, r.metric_name): r.number for r in metrics.itertuples()}
    assert (numbers["a", "total"], numbers["b", "total"]) == (1, 2)
    assert (numbers["a", "mismatch"], numbers["b", "mismatch"]) == (0, 0)
    for part, feature in zip(parts, "ab", strict=True):
        group_bys = {feature.upper(): feature}
        single = compare(logged, part.data, "id", group_bys=group_bys)
        for key, group in single.groups.items():
            for one, outcome in group.states.items():
                assert outcome.value.agrees_with(measured.groups[key].states[one].value), one
    # Days that were compared with a single backfill do not store which backfill a row belongs to.
    before = [f"CAST(NULL AS STRING) AS row_presence_{g}" for g in "AB"]
    before += [f"CAST(NULL AS INT) AS row_copy_{g}" for g in "AB"]
    kept = table.drop("row_presence_A", "row_presence_B", "row_copy_A", "row_copy_B")
    whole = measure(kept.selectExpr("*", *before), {"A": "a", "B": "b"})
    assert presence(whole, "A") == presence(whole, "B")
    assert [presence(whole, "A")[kind] for kind in kinds] == [2, 3, 1, 3]
    table.unpersist()


def test_grouping_columns_of_different_types_are_compared_as_text(spark):
    """Only one backfill has ds, as a number. The rows of the others get the date."""
    logged = frame(spark, "ab", [(1, 0, N, (1, 2))], ds=N)
    a = frame(spark, "a", [(1, 0, "19700102", (1,)), (2, 0, "19700102", (1,))], ds="int")
    b = frame(spark, "b", [(1, 0, N, (2,)), (2, 0, N, (2,))], ds=N)
    for parts in ([("A", a), ("B", b)], [("B", b), ("A", a)]):
        made = [AlignedPart(data, {name: name.lower()}) for name, data in parts]
        table = pair_parts(logged, made, Alignment(("id",), ("a", "b")))
        rows = table.select("id", "ds", "row_presence_A", "row_presence_B").collect()
        assert sorted(map(tuple, rows)) == [
            (1, "1970-01-01", "matched", "matched"),
            (2, "1970-01-01", "other", "missing"),
            (2, "19700102", "missing", "other"),
        ]


def test_invalid_parts_are_refused(spark):
    logged, (a, b) = log_and_parts(spark)
    twice = AlignedPart(b.data.withColumnRenamed("b", "a"), {"B": "a"})
    with pytest.raises(PreconditionError, match="feature 'a' has two backfills"):
        pair_parts(logged, [a, twice], Alignment(("id",), ("a",)))
    other = AlignedPart(
        b.data.selectExpr("CAST(id AS STRING) AS id", "ts", "b"), {"B": "b", "C": ()}
    )
    with pytest.raises(PreconditionError, match="string in the backfill of B, C"):
        pair_parts(logged, [a, other], Alignment(("id",), ("a", "b")))
