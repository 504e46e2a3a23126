"""SQL strings: names, filters, constants. No Spark."""

import datetime as dt

import pytest

from tidegauge.analyzers.core.sql import (
    constant,
    count_rows,
    names_in,
    where_holds,
    without_filters,
)


@pytest.mark.parametrize(
    "where",
    [
        "a IN (\n1\n)\nAND b > 2",
        "a = ')' AND\n(b > 1\n)",
        "a > 1 -- )\nAND `b` > 2 /* (\n) */",
        "a = 'it\\'s (' AND b = 1",
    ],
)
def test_filters_of_several_lines_are_parsed_completely(where):
    text = f"max({where_holds(where, '`x)`')}) + {count_rows(where)}"
    assert {"a", "b", "x)"} <= names_in(text)
    assert without_filters(text) == "max(CASE WHEN  THEN `x)` END) + count(CASE WHEN  THEN 1 END)"


def test_dates_of_early_years_have_four_digits():
    assert constant(dt.date(33, 4, 3)) == "DATE'0033-04-03'"
    assert constant(dt.datetime(33, 4, 3, 15)) == "TIMESTAMP'0033-04-03 15:00:00'"
