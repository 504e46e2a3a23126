"""Bad values in the messages of failed constraints. Values worked out by hand."""

import pytest

import tidegauge as tg

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(spark):
    """Return four rows: one ``code`` matches, and two values of ``id`` are unique."""
    rows = [(1, "A1", "new"), (2, "x\n", "new"), (3, None, "odd"), (3, None, None)]
    return spark.createDataFrame(rows, "id int, code string, status string").coalesce(1)


CHECK = (
    tg.Check("orders")
    .has_pattern("code", "^[A-Z][0-9]$", hint="Codes are a letter and a digit.")
    .is_contained_in("status", ["new"], at_least=0.5)
    .warn(0.9)
    .is_unique("id")
    .has_min_length("code", 3)
    .satisfies("id < 3 OR status IS NOT NULL", "closed orders have a status")
    .is_complete("code")
    .has_min("id", 2)
    .has_size(5)
)


def messages(found):
    return [one.result.message for one in found.judged]


def test_messages_show_bad_values(orders):
    assert messages(tg.verify(orders, CHECK)) == [
        "code matches its pattern in 25% of rows, at least 100% required: 3 of 4 rows: null, 'x\\n'."
        " Codes are a letter and a digit.",
        "status is one of new: true of 75% of rows, at least 90% required: 1 of 4 rows: 'odd'",
        "id is 50% unique, at least 100% required: 2 of 4 rows: 3",
        "MinLength of code is 2, at least 3 required: 2 rows: 'A1', 'x\\n'",
        "closed orders have a status: true of 75% of rows, at least 100% required: 1 of 4 rows:"
        " (id: 3, status: null)",
        "code is 50% complete, at least 100% required: 2 of 4 rows",  # the bad value is null
        "Minimum of id is 1, at least 2 required: 1 row: 1",
        "row count is 4, at least 5 required",
    ]


def test_examples_break_the_limit_that_decides_the_status(spark):
    """Below 0 is a failure, below 10 a warning. For a failure, 5 is not a bad value."""
    data = spark.createDataFrame([(-1,), (5,), (11,)], "x int")
    check = tg.Check("c").has_min("x", 0).warn(10)
    assert messages(tg.verify(data, check)) == [
        "Minimum of x is -1, at least 0 required: 1 row: -1"
    ]
    assert messages(tg.verify(data.where("x > 0"), check)) == [
        "Minimum of x is 5, at least 10 required: 1 row: 5"
    ]


def test_private_values_are_never_shown(orders):
    lines = messages(tg.verify(orders, CHECK, private=["CODE", "id"]))
    assert lines[0] == (
        "code matches its pattern in 25% of rows, at least 100% required: 3 of 4 rows."
        " Codes are a letter and a digit."
    )
    assert lines[1].endswith("'odd'")
    assert lines[2:5] == [
        "id is 50% unique, at least 100% required: 2 of 4 rows",
        "MinLength of code is 2, at least 3 required",
        "closed orders have a status: true of 75% of rows, at least 100% required: 1 of 4 rows",
    ]
    assert messages(tg.verify(orders, CHECK, examples=False))[1].endswith("rows")


def test_many_bad_values_are_shortened_to_the_least_the_greatest_and_one_between(spark):
    data = spark.range(1, 1001).selectExpr("id", "CAST(id AS DOUBLE) / 10 AS price")
    result = tg.verify(data, tg.Check("c").is_contained_in("price", upper=0.5).has_size(1))
    (first, middle, last) = result.judged[0].result.examples
    assert (first, last) == ("0.6", "100.0")
    assert 0.6 < float(middle) < 100
    again = tg.verify(data.repartition(3), tg.Check("c").is_contained_in("price", upper=0.5))
    assert again.judged[0].result.examples == (first, middle, last)


def test_examples_of_filtered_rows_and_columns_with_odd_names(spark):
    data = spark.sql(
        "SELECT * FROM VALUES (1, 'a b', array(1), 1.50), (-2, 'c', array(2), 2.25), (-3, NULL, NULL, 2.25)"
        " AS t(n, `the name`, list, d)"
    )
    check = (
        tg.Check("c")
        .is_positive("n")
        .where("d > 2 -- of the dear")
        .has_pattern("the name", "^[a-z]$")
        .satisfies("size(list) > 1", "lists are long")
        .is_unique("d")
        .where("n < 0")
    )
    assert [one.result.examples for one in tg.verify(data, check).judged] == [
        ("-3", "-2"),
        ("null", "'a b'"),
        (),
        ("2.25",),
    ]
