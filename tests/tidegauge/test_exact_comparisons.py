"""Comparisons of columns with values of another type, in both ANSI modes. Expected results are computed in Python."""

import operator
import re
from contextlib import contextmanager
from decimal import Decimal

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.conditions import compare_exactly
from tidegauge.analyzers.core.schema import Schema

SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
    "<>": operator.ne,
}
NUMBERS = {
    "0": Decimal(0),
    "5": Decimal(5),
    "-1": Decimal(-1),
    "5.5BD": Decimal("5.5"),
    "-0.5D": Decimal("-0.5"),
    "1e3": Decimal(1000),
    "9007199254740992": Decimal(2**53),
    "7L": Decimal(7),
}
TEXTS = {
    **{
        text: Decimal(text)
        for text in ("5", "5.0", "5.9", "-0.5", "0", "-0", "+7", ".5", "2.", "1e3")
    },
    **{text: Decimal(text) for text in ("5.000000000000000000000000000001", "9007199254740993")},
    **{text: Decimal(text) for text in ("1E-30", "123456789012345678901234567890123456789012")},
    **{text: Decimal(text.strip()) for text in (" 5 ", "-1 ", "1000.00")},
    **dict.fromkeys(
        ("", " ", "abc", "5d", "0x10", "1,000", "NaN", "Infinity", "1 2", "--1", "5.5.5")
    ),
}
"""Strings and the numbers that they represent, or None."""


@contextmanager
def setting(spark, name, value):
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def in_both_modes(spark):
    for ansi in ("false", "true"):
        with setting(spark, "spark.sql.ansi.enabled", ansi):
            yield ansi


def satisfied(sign, number, bound):
    """Return whether a string that represents a number, or None, satisfies a comparison."""
    return sign == "<>" if number is None else SIGNS[sign](number, bound)


@pytest.mark.spark
def test_strings_are_compared_by_the_number_that_they_represent(spark):
    conditions = {f"t {s} {n}": (s, b) for n, b in NUMBERS.items() for s in SIGNS}
    data = spark.createDataFrame([(text,) for text in [*TEXTS, None]], "t string")
    schema = Schema.from_frame(data)
    cells = [f"{compare_exactly(c, schema)} AS c{i}" for i, c in enumerate(conditions)]
    cells.append(compare_exactly("5 > t", schema) + " AS turned")
    cells.append(compare_exactly("t BETWEEN -1 AND 5", schema) + " AS between")
    cells.append(compare_exactly("t NOT IN (5, 'abc', 1000)", schema) + " AS outside")
    for ansi in in_both_modes(spark):
        for row in data.selectExpr("t", *cells).collect():
            if row.t is None:
                assert set(row) == {None}, ansi
                continue
            number = TEXTS[row.t]
            for i, (sign, bound) in enumerate(conditions.values()):
                assert row[f"c{i}"] is satisfied(sign, number, bound), (ansi, row.t, sign, bound)
            known = number is not None
            assert row.turned is (known and number < 5), (ansi, row.t)
            assert row.between is (known and -1 <= number <= 5), (ansi, row.t)
            outside = number not in {Decimal(5), Decimal(1000)} and row.t != "abc"
            assert row.outside is outside, (ansi, row.t)


OTHERS = [
    # column, type, values that satisfy the condition, values that do not, condition
    ("INT", ["5"], ["6"], "c <= '5.9'"),
    ("INT", [], ["5"], "c = '5.9'"),
    ("INT", ["5"], ["6"], "c IN ('abc', '5.0')"),
    ("BIGINT", ["9007199254740993"], ["9007199254740992"], "c IN ('9007199254740993')"),
    ("DOUBLE", ["1"], ["2"], "c IN ('1', 'one')"),
    ("DECIMAL(9,2)", ["1.00"], ["1.01"], "c <= '1.005'"),
    ("BOOLEAN", ["true"], ["false"], "c IN ('yes', 'perhaps')"),
    ("STRING", ["true", "T", "yes"], ["false", "maybe", ""], "c = true"),
    (
        "STRING",
        ["2024-01-05", "2024-1-5"],
        ["2024-01-05 00:00:01", "soon"],
        "c <= DATE'2024-01-05'",
    ),
    ("STRING", ["2024-01-05T10:00:00"], ["2024-01-05", "10"], "c > TIMESTAMP'2024-01-05 09:00:00'"),
    (
        "STRING",
        ["2024-01-05T10:00:00Z"],
        ["2024-01-05T10:00:00+02:00"],
        "c > TIMESTAMP'2024-01-05 09:00:00Z'",
    ),
    ("DATE", ["2024-01-06"], ["2024-01-05"], "c >= '2024-01-05 12:00'"),
    ("DATE", ["2024-01-05"], ["2024-01-06"], "c IN ('2024-1-5', 'soon')"),
    ("TIMESTAMP", ["2024-01-05 00:00:00"], ["2024-01-05 01:00:00"], "c IN ('2024-01-05', 'soon')"),
    ("TIMESTAMP_NTZ", ["2024-01-05 00:00:00"], ["2024-01-05 01:00:00"], "c IN ('2024-01-05')"),
    ("STRING", ["M", "38", "38.0"], ["L", ""], "c IN (38, 'M')"),
]


@pytest.mark.spark
def test_other_types_are_compared_by_their_common_representation(spark):
    columns = [
        f"CAST({cell} AS {kind}) AS c{i}_{j}"
        for i, (kind, good, bad, _) in enumerate(OTHERS)
        for j, cell in enumerate([*(f"'{v}'" for v in [*good, *bad]), "NULL"])
    ]
    for ansi in in_both_modes(spark):
        data = spark.sql(f"SELECT {', '.join(columns)}")
        schema = Schema.from_frame(data)
        names = [name for name in data.columns]
        conditions = [
            re.sub(r"\bc\b", name, OTHERS[int(name[1:].split("_")[0])][3]) for name in names
        ]
        row = data.selectExpr(*(compare_exactly(c, schema) for c in conditions)).first()
        expected = [
            v
            for _, good, bad, _ in OTHERS
            for v in [*[True] * len(good), *[False] * len(bad), None]
        ]
        wrong = [(c, e, v) for c, e, v in zip(conditions, expected, row, strict=True) if e is not v]
        assert wrong == [], ansi


@pytest.mark.spark
def test_checks_rules_and_filters_read_numbers_in_strings_alike(spark):
    data = spark.createDataFrame(
        [("2.5",), ("5",), ("5.9",), ("-0.5",), ("abc",), (None,)], "x string"
    )
    check = (
        tg.Check("text")
        .is_contained_in("x", lower=0, upper=5)  # 2.5, 5 and null
        .is_non_negative("x")  # 2.5, 5, 5.9 and null
        .is_positive("x")
        .satisfies("x <= 5", "small")  # 2.5, 5 and -0.5
        .has_size(lambda n: n == 2)
    )
    sizes = [tg.Size(where="x > 5"), tg.Size(where="x <= 5"), tg.Completeness("x", where="x < 0")]
    rules = {  # number of records, without null, that break them
        tg.BoundRule("x", 0, 5, closed="both", on_null="pass"): 3,
        tg.Rule("x <= 5", "small", on_null="pass"): 2,
        tg.SetRule("x", [5, 5.9, "abc"], on_null="pass"): 2,
    }
    for ansi in in_both_modes(spark):
        values = list(tg.verify(data, check).frame()["value"])
        assert values[:4] == [3 / 6, 4 / 6, 4 / 6, 3 / 6], ansi
        metrics = tg.calculate(data, sizes)
        assert [metrics[size].value for size in sizes] == [1, 3, 1], ansi
        for rule, violations in rules.items():
            applied = tg.DQM().add(rule).apply(data, samples=0)
            assert applied.state.violations(rule.name) == violations, (ansi, rule)
