"""Names of the numbers that a rule's result is kept under."""

import datetime as dt

import pytest
from tidegauge.griffin.group_by import group_labels
from tidegauge.griffin.measures.report import Report


def numbers(rows, labels=None):
    return dict(Report.from_rows(rows, "default", "p", labels).scalars())


def test_values_of_one_row_are_no_part_of_a_name():
    for ok, number in ((True, 1.0), (False, 0.0)):
        assert numbers([{"n": 5, "who": "Joey", "ok": ok}]) == {"n": 5.0, "ok": number}


def test_a_date_is_its_seconds_since_1970():
    noon = dt.datetime(1970, 1, 2, 12, tzinfo=dt.UTC)
    row = {"day": dt.date(1970, 1, 2), "at": noon}
    assert numbers([row]) == {"day": 86_400.0, "at": 129_600.0}


def test_labels_are_those_of_group_by_also_of_one_row():
    row = {"city": "Rome", "open": True, "best": "Anna", "n": 2}
    assert numbers([row], ["city"]) == {"open.Rome": 1.0, "n.Rome": 2.0}
    assert numbers([row], ["city", "open"]) == {"n.Rome.True": 2.0}


def test_several_rows_without_known_labels_are_told_apart_by_texts_or_the_first_column():
    assert numbers([{"city": "Rome", "n": 2}, {"city": "Oslo", "n": 3}]) == {
        "n.Rome": 2.0, "n.Oslo": 3.0}  # fmt: skip
    assert numbers([{"n": 2}, {"n": 3}]) == {"n": 2.0, "n.2": 3.0}
    assert numbers([{"age": 7, "n": 2}, {"age": 8, "n": 3}]) == {"n.7": 2.0, "n.8": 3.0}


def test_rows_with_the_same_labels_do_not_overwrite_each_other():
    rows = [{"city": "Rome", "n": n} for n in (1, 2, 3)] + [{"city": "Rome_2", "n": 4}]
    assert numbers(rows, ["city"]) == {
        "n.Rome": 1.0, "n.Rome_2": 2.0, "n.Rome_3": 3.0, "n.Rome_2_2": 4.0}  # fmt: skip
    assert numbers([{"n": 1}, {"n": 2}], []) == {"n": 1.0, "n.2": 2.0}


def test_a_layout_changes_no_names():
    report = Report({"total": 4, "dups": [{"dup": 1, "num": 2}]}, labels=frozenset({"dup"}))
    nested = report.shaped("map", "ids")
    assert nested.metric == {"ids": {"total": 4, "dups": [{"dup": 1, "num": 2}]}}
    assert dict(nested.scalars()) == dict(report.scalars()) == {"total": 4.0, "dups.1": 2.0}
    assert report.shaped("array", "ids").metric == {"ids": [report.metric]}
    assert report.shaped("default", "ids") is report


QUERIES = [
    ("select city, count(*) n from t group by city", "city n", ("city",)),
    ("SELECT t.city AS c, n FROM t GROUP BY city, n", "c n", ("c", "n")),
    ("select upper(city) as c, max(`n`) from t group by upper(city)", "c max(n)", ("c",)),
    ("select upper(city) c, 1 as one from t group by 1 order by 2", "c one", ("c",)),
    ("select c as d, count(*) as n from t group by d having n > 1", "d n", ("d",)),
    ("with x as (select a from t group by a) select count(*) as n from x", "n", None),
    ("select n from (select a, count(*) n from t group by a)", "n", None),
    ("select city, ok, count(*) n from t group by rollup (city, ok)", "city ok n", ("city", "ok")),
    ("select city, n from t group by grouping sets ((city, n), (city))", "city n", ("city", "n")),
    ("select 'group by city' as city, max(n) from t -- group by city", "city n", None),
    ("select percentile_cont(0.5) within group (order by n) as m from t", "m", None),
    ("select distinct city, count(*) n from t group by city", "city n", ("city",)),
    ("select *, count(*) n from t group by city", "city n", ("city",)),
    ("select max(day) as latest, count(*) as n, true as ok from t", "latest n ok", None),
    ("select count(*) n from t group by city", "n", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "columns", "labels"), QUERIES)
def test_columns_of_group_by(query, columns, labels):
    assert group_labels(query, columns.split(" ")) == labels
