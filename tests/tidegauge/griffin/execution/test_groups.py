"""Columns of a result that tell its rows apart, by the text of the query."""

import pytest
from tidegauge.griffin.execution.user_sql import group_labels

QUERIES = [
    ("select city, max(n) as m from t group by (city)", "city m", ("city",)),
    ("select (city) as c, max(n) m from t group by ((city))", "c m", ("c",)),
    ("select (city), max(n) m from t group by city", "city m", ("city",)),
    ("select upper(city) u, max(n) m from t group by (upper(city))", "u m", ("u",)),
    ("select city, max(n) m from t group by (1)", "city m", ("city",)),
    ("select (a) + b as s, (t.city), count(*) n from t group by (a) + b, (t.city)", "s city n", ("s", "city")),
    ("select c from (select (city) c, count(*) n from t group by (city))", "c", ("c",)),
    ("select city, count(*) n from t group by city", "city n", ("city",)),
    ("SELECT t.city AS c, n FROM t GROUP BY city, n", "c n", ("c", "n")),
    ("select upper(city) as c, max(`n`) from t group by upper(city)", "c max(n)", ("c",)),
    ("select upper(city) c, 1 as one from t group by 1 order by 2", "c one", ("c",)),
    ("select c as d, count(*) as n from t group by d having n > 1", "d n", ("d",)),
    ("with x as (select a from t group by a) select count(*) as n from x", "n", None),
    ("select n from (select a, count(*) n from t group by a)", "n", None),
    ("select city, ok, count(*) n from t group by rollup (city, ok)", "city ok n", ("city", "ok")),
    ("select city, grouping(city) as g, count(*) n from t group by rollup (city)", "city g n", ("city", "g")),
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
    ("from t select city, count(*) n where n > 1 group by city", "city n", ("city",)),
    ("from cities select kind, half select half, kind", "kind half", None),
    ("from cities select kind, half", "kind half", ("kind",)),
    ("select city, n from (from t select city, count(*) n group by city)", "city n", ("city",)),
    ("(" * 60 + "select city from t group by city" + ")" * 60, "city", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "columns", "labels"), QUERIES)
def test_columns_of_group_by(query, columns, labels):
    groups = {"cities": frozenset({"kind"}), "towns": frozenset({"name"})}
    assert group_labels(query, columns.split(" "), groups) == labels
