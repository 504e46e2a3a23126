"""Random rules and fixes on random records, compared with a loop over the records.

The loop implements three-valued logic and the order of NaN, but none of the counting code.
"""

import math
import random
import re
from collections import Counter
from operator import ge, gt, le, lt

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tidegauge as tg
from tests.analyzers.core.state_strategies import record_counts
from tests.conftest import soak
from tidegauge.analyzers.core.partitions import NULL, Partition
from tidegauge.rules.record_counts import RecordCounts

PHASES = [Phase.explicit, Phase.generate]
SCHEMA = "id int, p string, i int, d double, s string"
COLUMNS = ("i", "d", "s")
TEXTS = [None, "", "a", "ab", "A1", "it's", "b\\c", 'q"q', "ünï", "a\nb", "${x}"]
NUMBERS = [None, -3.0, -0.5, 0.0, 0.5, 1.0, 2.0, 7.25, math.nan, math.inf, -math.inf]
PATTERNS = ["a", "a|ab", "[a-z]+", "[A-Z][0-9]?", "", "b.c", "(?s)a.b", "it's|ünï"]


# three-valued logic, and an order in which NaN is above all numbers


def rank(x):
    return (1, 0.0) if isinstance(x, float) and math.isnan(x) else (0, x)


def compare(test, a, b):
    return None if a is None or b is None else test(rank(a), rank(b))


def equal(a, b):
    return None if a is None or b is None else rank(a) == rank(b)


def negate(a):
    return None if a is None else not a


def both(*values):
    return False if False in values else None if None in values else True


def either(*values):
    return negate(both(*map(negate, values)))


def among(x, values):
    known = [v for v in values if v is not None]
    actual = either(*(equal(x, v) for v in known)) if known else False
    return either(x is None, actual) if len(known) < len(values) else actual


def inside(x, lower, upper, closed):
    above = {"left": ge, "both": ge}.get(closed, gt)
    below = {"right": le, "both": le}.get(closed, lt)
    sides = [(above, lower), (below, upper)]
    return both(*(compare(test, x, bound) for test, bound in sides if bound is not None))


def matches(x, pattern):
    # Java's dot excludes more line ends than Python's, but TEXTS has none of those
    return None if x is None else re.fullmatch(pattern, x) is not None


# conditions and values as SQL and as Python functions


def half(x):
    return None if x is None else x / 2


CONDITIONS = [
    ("i % 2 = 0", lambda r: None if r["i"] is None else r["i"] % 2 == 0),
    ("i < 3 OR s = 'a'", lambda r: either(compare(lt, r["i"], 3), equal(r["s"], "a"))),
    ("NOT (d > i) AND i > 0", lambda r: both(negate(compare(gt, r["d"], r["i"])), compare(gt, r["i"], 0))),
    ("s IS NULL OR i > 0", lambda r: either(r["s"] is None, compare(gt, r["i"], 0))),
    ("d = d -- always, or null", lambda r: equal(r["d"], r["d"])),
    ("s <=> 'a'", lambda r: r["s"] == "a"),
    ("i BETWEEN -1 AND 4", lambda r: inside(r["i"], -1, 4, "both")),
]  # fmt: skip
VALUES = {
    "i": [
        ("i - 1", lambda r: None if r["i"] is None else r["i"] - 1),
        ("NULL", lambda r: None),
        ("4", lambda r: 4),
        (5, lambda r: 5),
        ("length(s)", lambda r: None if r["s"] is None else len(r["s"])),
    ],
    "d": [
        ("d / 2", lambda r: half(r["d"])),
        ("i", lambda r: None if r["i"] is None else float(r["i"])),
        (-0.25, lambda r: -0.25),
        ("(\n d\n) / 2", lambda r: half(r["d"])),
    ],
    "s": [
        ("concat(s, 'z')", lambda r: None if r["s"] is None else r["s"] + "z"),
        ("'it\\'s'", lambda r: "it's"),
        ("CAST(i AS STRING)", lambda r: None if r["i"] is None else str(r["i"])),
        ("`s`", lambda r: r["s"]),
    ],
}


def column_of(text):
    """Return the expression as a string, as a Column, and as functions that return one of these."""
    from pyspark.sql import functions as F

    return [text, F.expr(text), lambda frame: text, lambda frame: F.expr(text)]


def sublist(rng, values, low, high):
    return [rng.choice(values) for _ in range(rng.randint(low, high))]


def bounds(rng):
    lower, upper = sorted(sublist(rng, [-2, -0.5, 0, 1, 2, 3.5, 6], 2, 2))
    return rng.choice([(lower, upper), (None, upper), (lower, None)])


def random_rule(rng, name):
    """Return a random rule, and a function that evaluates it on a record."""
    options = {
        "on_null": rng.choice(["fail", "pass", "unknown"]),
        "severity": rng.choice(["error", "error", "warning"]),
        "stage": rng.choice(["before", "after"]),
        "name": name,
    }
    kind = rng.randrange(5)
    if kind == 0:
        lower, upper = bounds(rng)
        # For a single value only closed="both" is a valid range.
        closed = "both" if lower == upper else rng.choice(["left", "right", "both", "neither"])
        column = rng.choice("id")
        reported = lambda r: inside(r[column], lower, upper, closed)
        return tg.BoundRule(column, lower, upper, closed, **options), reported
    if kind == 1:
        column = rng.choice(COLUMNS)
        values = sublist(rng, {"i": [None, -1, 0, 1, 2], "d": NUMBERS, "s": TEXTS}[column], 1, 4)
        return tg.SetRule(column, values, **options), lambda r: among(r[column], values)
    if kind == 2:
        pattern = rng.choice(PATTERNS)
        return tg.FormatRule("s", pattern, **options), lambda r: matches(r["s"], pattern)
    if kind == 3:
        column = rng.choice(COLUMNS)
        return tg.NotNullRule(column, **options), lambda r: r[column] is not None
    text, reported = rng.choice(CONDITIONS)
    return tg.Rule(rng.choice(column_of(text)), **options), reported


def random_fix(rng, name):
    """Return a random fix, and a condition and a value for each way in which it repairs."""
    kind, column = rng.randrange(5), rng.choice(COLUMNS)
    default = {"i": 9, "d": 9.5, "s": "${HOME}'"}[column]
    if kind == 0 and column != "s":
        lower, upper = bounds(rng)
        # For a single value only closed="both" is a valid range.
        closed = "both" if lower == upper else rng.choice(["left", "right", "both", "neither"])
        if column == "i":
            lower, upper = (None if b is None else math.floor(b) for b in (lower, upper))
        given = rng.choice([None, default])
        arms = []
        for bound, test, sides in ((lower, lt, (lower, None)), (upper, gt, (None, upper))):
            if bound is None:
                continue
            if given is None:
                nan = lambda x: isinstance(x, float) and math.isnan(x)
                outside = lambda r, t=test, b=bound, nan=nan: (
                    not nan(r[column]) and compare(t, r[column], b)
                )
            else:
                outside = lambda r, s=sides: negate(inside(r[column], *s, closed))
            arms.append((outside, lambda r, b=bound: b if given is None else given))
        return tg.BoundFix(column, lower, upper, given, closed, name), column, arms
    if kind == 1:
        values = sublist(rng, {"i": [None, 0, 1, 2, 3], "d": NUMBERS, "s": TEXTS}[column], 1, 4)
        arm = (lambda r: negate(among(r[column], values)), lambda r: default)
        return tg.SetFix(column, values, default, name), column, [arm]
    if kind == 2:
        pattern, default = rng.choice(PATTERNS), "x\\'\"y"
        arm = (lambda r: negate(matches(r["s"], pattern)), lambda r: default)
        return tg.FormatFix("s", pattern, default, name), "s", [arm]
    if kind == 3:
        return (
            tg.NotNullFix(column, default, name),
            column,
            [(lambda r: r[column] is None, lambda r: default)],
        )
    text, reported = rng.choice(CONDITIONS)
    value, made = rng.choice(VALUES[column])
    if isinstance(value, str):
        value = rng.choice(column_of(value))
    spelled = rng.choice([column, f"`{column}`", column.upper()])
    return tg.Fix(rng.choice(column_of(text)), spelled, value, name), column, [(reported, made)]


def random_rows(rng, size):
    parts = ["x", "y", "z'z", None, ""]
    return [
        {
            "id": n,
            "p": rng.choice(parts),
            "i": rng.choice([None, *range(-4, 9)]),
            "d": rng.choice(NUMBERS),
            "s": rng.choice(TEXTS),
        }
        for n in range(size)
    ]


def naive_result(rows, rules, fixes):
    """Return counts, kept records and rejected records, record by record."""
    counts, kept, rejected, combined = Counter(), {}, {}, Counter()
    for row in rows:
        now = dict(row)
        stages = {s: [(rule, reported) for rule, reported in rules if rule.stage == s] for s in ("before", "after")}  # fmt: skip
        counts["records", ""] += 1
        broken, rejecting, said = [], [], {"violated": [], "unknown": [], "fixed": []}

        def ask(stage, record, broken=broken, rejecting=rejecting, said=said, stages=stages):
            for rule, reported in stages[stage]:
                answer = reported(record)
                if answer is None:
                    said["unknown"].append(rule.name)
                elif not answer:
                    said["violated"].append(rule.name)
                if answer is False or (answer is None and rule.on_null == "fail"):
                    broken.append(rule.name)
                    if rule.severity == "warning":
                        counts["charged", rule.name] += 1
                    else:
                        rejecting.append(rule.name)

        ask("before", now)
        if not rejecting:
            for fix, column, arms in fixes:
                names = list(fix.counters())
                for name, (when, value) in zip(names, arms, strict=True):
                    if when(now):
                        now[column] = value(now)
                        said["fixed"].append(name)
                        break
            ask("after", now)
        if rejecting:
            counts["charged", rejecting[0]] += 1
            rejected[row["id"]] = (plain(row), broken)
        else:
            counts["kept", ""] += 1
            kept[row["id"]] = plain(now)
        for kind, names in said.items():
            counts.update((kind, name) for name in names)
        combined[tuple(tuple(names) for names in said.values())] += 1
    return counts, kept, rejected, combined


def plain(row):
    cells = (row[c] for c in ("p", *COLUMNS))
    return tuple("NaN" if isinstance(c, float) and math.isnan(c) else c for c in cells)


def by_id(frame, *more):
    return {
        row["id"]: (plain(row), *(list(row[m]) for m in more)) if more else plain(row)
        for row in frame.collect()
    }


def nonzero_counts(dqm, state):
    return Counter({k: n for k, n in dqm.tasks.counts_by_task(state).items() if n})


@pytest.mark.spark
@settings(max_examples=soak(5, 60), phases=PHASES, deadline=None, derandomize=False)
@given(seed=st.integers(0, 2**48))
def test_counts_and_records_equal_those_of_a_loop(spark, seed):
    rng = random.Random(seed)
    rows = random_rows(rng, rng.choice([0, 1, 60, 60, 60]))
    rules = [random_rule(rng, f"r{n}") for n in range(rng.randint(0, 6))]
    fixes = [random_fix(rng, f"f{n}") for n in range(rng.randint(0, 5))]
    dqm = tg.DQM()
    for task in rng.sample([*rules, *fixes], len(rules) + len(fixes)):
        dqm = dqm.add(task[0])
    rules = [next(r for r in rules if r[0] is rule) for rule in dqm.tasks.rules]
    fixes = [next(f for f in fixes if f[0] is fix) for fix in dqm.tasks.fixes]
    counts, kept, rejected, combined = naive_result(rows, rules, fixes)
    data = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    data = data.repartition(rng.randint(1, 3))

    done = dqm.apply(data, partition_by=["p"], samples=0)
    assert not done.state.errors
    assert nonzero_counts(dqm, done.counts) == counts
    assert by_id(done.data) == kept
    assert by_id(done.rejects, "broken_rules") == rejected
    assert (done.state.records, done.state.rejects) == (len(rows), len(rejected))
    for rule, _ in rules:
        name = rule.name
        actual = done.state.rule_count(name), done.state.violations(name), done.state.unknown(name)
        assert actual == tuple(counts[k, name] for k in ("charged", "violated", "unknown"))
    for fix, _, _ in fixes:
        names = list(fix.counters())
        assert done.state.fix_count(fix.name) == sum(counts["fixed", n] for n in names)
    reported = done.combinations().itertuples(index=False)
    order = {t.name: n for n, t in enumerate([*dqm.tasks.before, *dqm.tasks.after])}
    sort = lambda names: tuple(sorted(names, key=lambda n: order.get(n, -1)))
    assert {
        (sort(r.violated), sort(r.unknown), r.fixed): r.records for r in reported if r.records
    } == combined

    # each partition, read back from bytes, and all partitions together
    parts = {name: RecordCounts.unpack(s.pack()) for name, s in done.partitions().items()}
    for value in {row["p"] or None for row in rows}:
        mine = [row for row in rows if (row["p"] or None) == value]
        name = Partition(("p",), (NULL if value is None else value,)).name
        assert nonzero_counts(dqm, parts[name]) == naive_result(mine, rules, fixes)[0]
    assert RecordCounts.merge(list(parts.values())) == done.counts

    # the same in two steps, where the caller's action counts
    attached = dqm.attach(data)
    assert by_id(attached.data) == kept
    attached.check(rows=len(rows) if dqm.needs_action else None)
    assert (attached.state.records, attached.state.rejects) == (
        len(rows) if dqm.needs_action else 0,
        len(rejected),
    )
    assert [attached.state.rule_count(r.name) for r, _ in rules] == [
        counts["charged", r.name] for r, _ in rules
    ]


@settings(max_examples=soak(60, 2000), deadline=None)
@given(st.lists(record_counts(3), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_too_many_combinations_are_dropped_in_any_order(some, rng):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.rules.record_counts.MAX_MASKS", 3)
        totals = []
        for _ in range(3):
            left = list(some)
            rng.shuffle(left)
            while len(left) > 1:
                a, b = left.pop(rng.randrange(len(left))), left.pop(rng.randrange(len(left)))
                left.append(a + b)
            totals += left
        assert all(total == totals[0] for total in totals)
    sums = [sum(column) for column in zip(*(s.counts for s in some if s.counts), strict=True)]
    assert totals[0].counts == tuple(sums)
    union = {m for s in some for m in s.masks or ()}
    known = all(s.masks is not None for s in some) and len(union) <= 3
    assert (totals[0].masks is not None) == known
    assert totals[0] == RecordCounts.unpack(totals[0].pack())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x between 1 and", "line 1, pos 15"),
        ("x = = 1", "line 1, pos 4"),
        ("x > 0) OR (true", "line 1, pos 5"),
        ("x > 0;", "line 1, pos 5"),
        ("x > 0 AS big", "'x > 0 AS big' has an alias; remove it"),
    ],
)
def test_syntax_errors_have_the_position_in_the_written_rule(spark, text, message):
    applied = (
        tg.DQM()
        .add(tg.Rule(text, "bad"))
        .add(tg.Rule("x > 0", "good"))
        .apply(spark.range(3).selectExpr("id x"))
    )
    assert message in applied.state.errors["bad"]
    assert applied.state.violations("good") == 1


def test_a_column_that_is_not_a_condition_is_reported_as_it_prints(spark):
    from pyspark.sql import functions as F

    dqm = tg.DQM().add(tg.Rule(F.col("x"), "number")).add(tg.Rule("nope > 0", "unknown"))
    errors = dqm.apply(spark.range(3).selectExpr("id x")).state.errors
    assert errors["number"] == "rule 'number': x is of type bigint, not a condition"
    assert "nope" in errors["unknown"]
    assert "__tidegauge" not in errors["unknown"]
