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


def test_several_rows_without_groups_are_numbered_and_not_named_by_their_values():
    assert numbers([{"city": "Rome", "n": 2}, {"city": "Oslo", "n": 3}]) == {"n": 2.0, "n.2": 3.0}
    day = dt.date(1970, 1, 2)
    assert numbers([{"day": day, "n": 2}, {"day": day, "n": 3}]) == {
        "day": 86_400.0, "n": 2.0, "day.2": 86_400.0, "n.2": 3.0}  # fmt: skip
    assert numbers([{"age": 7, "n": 2}, {"age": 8, "n": 3}]) == {
        "age": 7.0, "n": 2.0, "age.2": 8.0, "n.2": 3.0}  # fmt: skip


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
    # GROUP BY ALL groups by what has no aggregate
    ("select city, upper(kind) as k, sum(x) / count(*) as mean, 'a' as a from t group by all", "city k mean a", ("city", "k")),
    ("select count(*) n from t group by all order by 1", "n", None),
    # groups of what is read
    ("with x as (select city, count(*) n from t group by city) select city as c, n / 2 as half from x", "c half", ("c",)),
    ("with x as (select city, count(*) n from t group by city), y as (select * from x) select y.* from y where n > 1", "city n", ("city",)),
    ("with recursive x as (select a from t group by a) select a, 1 as n from x", "a n", ("a",)),
    ("with x (c, n) as (select city, count(*) from t group by city) select c, n from x", "c n", None),
    ("with t as (select city from s group by city) select city, n from other", "city n", None),
    ("select city, n from (select city, count(*) n from t group by city) where n > 1", "city n", ("city",)),
    ("select q.city, q.n from (select city, count(*) n from t group by city having n > 1) as q", "city n", ("city",)),
    ("select a.city, a.n / b.n as share from (select city, count(*) n from t group by city) a cross join (select count(*) n from t) b", "city share", ("city",)),
    ("select upper(city) c, n from (select city, count(*) n from t group by city)", "c n", None),
    ("(select city, count(*) n from t group by city) order by n", "city n", ("city",)),
    ("select city, x from (select city, count(*) n from t group by city) lateral view explode(a) v as x", "city x", None),
    ("select kind, half from cities", "kind half", ("kind",)),
    ("select Kind as k, half from `Cities` c where half > 1 limit 3", "k half", ("k",)),
    ("select c.*, 1 as one from cities c left join towns on c.kind = towns.name", "kind half one", ("kind",)),
    ("select name, half from cities c, towns", "name half", ("name",)),
    ("select towns.* from cities join towns on true", "name size", ("name",)),
    ("select kind, half from db.cities", "kind half", None),
    ("select a is distinct from b as other, kind from cities", "other kind", ("kind",)),
    # parts of a UNION
    ("select city, count(*) n from t group by city union all select 'all', count(*) from t", "city n", ("city",)),
    ("select 'rows' as what, count(*) as n from t union select 'users', count(distinct id) from t", "what n", ("what",)),
    ("select null as city, count(*) n from t union all select city, count(*) from t group by city", "city n", ("city",)),
    ("select 'rows' as what, count(*) as n from t union all select name, n from u", "what n", None),
    ("select 1 as n union all select 2 as n", "n", None),
    ("select * from cities union all select * from cities", "kind half", ("kind",)),
    ("select 'a' || city as c, count(*) n from t union all select 'b', count(*) from t", "c n", None),
    ("select 'a' as kind, count(*) as n from t", "kind n", None),
    ("from t select city", "city", None),
    ("(" * 60 + "select city from t group by city" + ")" * 60, "city", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "columns", "labels"), QUERIES)
def test_columns_of_group_by(query, columns, labels):
    groups = {"cities": frozenset({"kind"}), "towns": frozenset({"name"})}
    assert group_labels(query, columns.split(" "), groups) == labels
