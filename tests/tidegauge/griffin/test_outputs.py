"""Results for sinks and for the repository, with and without `out`."""

import json

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import NOW, job, read, rows, rule, values
from tidegauge.analyzers.core.errors import (
    DslError,
    GriffinDeprecationWarning,
    GriffinError,
    SourceError,
)
from tidegauge.griffin import results
from tidegauge.griffin.sinks import Sink

pytestmark = pytest.mark.spark
SOURCE = rows("src", "id int, name string", (1, "a"), (2, "b"), (2, "b"), (3, None))
TARGET = rows("tgt", "id int, name string", (1, "a"), (2, "x"))


class FileSink(Sink):
    """A sink that writes its input to a file."""

    def metrics(self, timestamp, values):
        self._write({"metrics": values})

    def records(self, name, frame, timestamp):
        self._write({"records": name, "rows": frame.count()})

    def _write(self, what):
        with open(self.config["path"], "a") as file:
            file.write(json.dumps(what) + "\n")


def sink_lines(tmp_path, spark, sources, rules, **more):
    path = tmp_path / "sink"
    sink = {
        "name": "s",
        "type": "custom",
        "config": {"class": f"{__name__}:FileSink", "path": str(path)},
    }
    dq = job(sources, rules)
    for one in dq["evaluate.rule"]["rules"]:
        if not one["out"]:
            del one["out"]
    result = tg.griffin.run({"sinks": [sink]}, {**dq, **more}, spark=spark)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return result, lines[0]["metrics"], {one["records"]: one["rows"] for one in lines[1:]}


def test_dsl_rules_without_out_send_metric_and_records(spark, tmp_path):
    rules = [
        rule("src.id = tgt.id and src.name = tgt.name", "accuracy", "acc", out=()),
        rule("id", "uniqueness", "ids", out=({"type": "record", "name": "twice"},),
             details={"duplication.array": "dups"}),
        rule("select count(*) as n from src", name="sql", out=()),
        rule("select count(*) as m from src", name="asked"),
    ]  # fmt: skip
    _, metrics, records = sink_lines(tmp_path, spark, [SOURCE, TARGET], rules)
    assert metrics == {
        "total": 4, "miss": 3, "matched": 1, "matchedFraction": 0.25,
        "ids": {"total": 4, "unique": 2, "uniqueFraction": 0.5, "dups": [{"dup": 1, "num": 1}]},
        "m": 4,
    }  # fmt: skip
    assert records == {"acc": 3, "twice": 1}


def test_measures_send_the_outputs_and_layout_of_their_out(spark, tmp_path):
    out = [{"type": "metric", "name": "nested", "flatten": "map"}]
    measures = [
        {"name": "dup", "type": "duplication", "config": {"expr": "id"}, "out": out},
        {"name": "acc", "type": "accuracy", "config": {"ref.source": "tgt", "expr": [{"source.col": "id", "ref.col": "id"}]}},
        {"name": "prof", "type": "profiling", "config": {"expr": "id"},
         "out": [{"type": "metric", "name": "profile", "flatten": "map"}]},
    ]  # fmt: skip
    result, metrics, records = sink_lines(
        tmp_path, spark, [SOURCE, TARGET], [rule("select 1 as one", name="one", out=())],
        measures=measures,
    )  # fmt: skip
    assert metrics["nested"] == {
        "total": 4, "duplicate": 1, "unique": 2, "non_unique": 1, "distinct": 3}  # fmt: skip
    assert [one["column_name"] for one in metrics["profile"]["column_details"]] == ["id"]
    assert set(metrics) == {"nested", "profile"}
    assert records == {}
    found = result.metrics().set_index("name")["value"]
    assert found["Griffin.dup.duplicate"] == 1
    assert found["Griffin.prof.total.id"] == 4


def test_series_in_the_repository_have_names_without_values(spark, repo):
    rules = [
        rule("select max(id) as latest, 40 < 50 as ok, max(name) as last, date'1970-01-02' as day "
             "from src", name="res"),
        rule("select id, count(*) as n from src group by id", name="by_id"),
        rule("name, count(*) as n group by name", "profiling", "by_name"),
    ]  # fmt: skip
    tg.griffin.run({}, job([SOURCE], rules), spark=spark, repository=repo)
    found = repo.metrics("job")
    assert dict(zip(found["name"], found["value"], strict=True)) == {
        "Griffin.res.latest": 3, "Griffin.res.ok": 1, "Griffin.res.day": 86_400,
        "Griffin.by_id.n.1": 1, "Griffin.by_id.n.2": 2, "Griffin.by_id.n.3": 1,
        "Griffin.by_name.n.a": 1, "Griffin.by_name.n.b": 2, "Griffin.by_name.n.null": 1,
    }  # fmt: skip


def test_names_that_dots_make_ambiguous_keep_their_numbers(spark, repo):
    """Labels contain dots, and dots separate the names of rules and columns."""
    pairs = rows("src", "a string, b string", ("x.y", "z"), ("x", "y.z"), ("x", "y.z"))
    rules = [
        rule("select a, b, count(*) as n from src group by a, b order by a desc", name="r"),
        rule("select 7 as a", name="s.n"),
        rule("select 'a' || left(b, 0) as c, count(*) as n from src group by c", name="s"),
    ]
    tg.griffin.run({}, job([pairs], rules), spark=spark, repository=repo)
    found = repo.metrics("job")
    assert dict(zip(found["name"], found["value"], strict=True)) == {
        "Griffin.r.n.x.y.z": 1, "Griffin.r.n.x.y.z_2": 2,
        "Griffin.s.n.a": 7, "Griffin.s.n.a_2": 3,
    }  # fmt: skip


def test_totals_next_to_groups_of_null_cause_a_notice(spark, repo):
    rules = [
        rule("select name, count(*) as n from src group by rollup (name) order by n", name="r"),
        rule("from src select name, grouping(name) as whole, count(*) as n group by rollup (name)", name="g"),
    ]  # fmt: skip
    result = tg.griffin.run({}, job([SOURCE], rules), spark=spark, repository=repo)
    (said,) = (one for one in result.notices if "have the same labels" in one)
    assert said.startswith("r: ")
    found = repo.metrics("job")
    numbers = dict(zip(found["name"], found["value"], strict=True))
    assert {name: n for name, n in numbers.items() if name.startswith("Griffin.g")} == {
        "Griffin.g.n.a.0": 1, "Griffin.g.n.b.0": 2, "Griffin.g.n.null.0": 1, "Griffin.g.n.null.1": 4,
    }  # fmt: skip


def test_groups_beyond_the_limit_cause_a_notice_and_are_chosen_consistently(
    spark, repo, monkeypatch
):
    monkeypatch.setattr(results, "MAX_RECORDED_NUMBERS", 20)
    many = "select id % 1500 as k, count(*) as n from range(3000) group by k"
    source = rows("src", "a string", ("x",))
    for _ in range(2):
        done = tg.griffin.run(
            {}, job([source], [rule(many, name="m")]), spark=spark, repository=repo
        )
        assert (
            "m: only the first 20 of 1,500 numbers of a partition, by name, are recorded"
            in done.notices
        )
    names = set(repo.metrics("job")["name"])
    assert names == set(sorted(f"Griffin.m.n.{k}" for k in range(1500))[:20])


def test_series_have_the_groups_of_the_frame_that_a_rule_reads(spark, repo):
    rules = [
        rule("select name, count(*) as n from src group by all", name="g"),
        rule("with w as (select id, count(*) as n from src group by id) select id, n * 2 as d from w", name="cte"),
        rule("select 'rows' as what, count(*) as n from src union all select 'ids', count(distinct id) from src", name="u"),
        rule("select name as who, n / 4 as share from g", name="later"),
        rule("select name, n + 1 as more from g where n > 1", "profiling", "dsl"),
        rule("select upper(name) as up, n from g where name is not null order by n", name="unknown"),
        rule("count(*) as n group by name having n > 1", "profiling", "one"),
        rule("count(*) as n group by id order by n desc", "profiling", "unselected"),
    ]  # fmt: skip
    result = tg.griffin.run({}, job([SOURCE], rules), spark=spark, repository=repo)
    found = repo.metrics("job")
    assert dict(zip(found["name"], found["value"], strict=True)) == {
        "Griffin.g.n.a": 1, "Griffin.g.n.b": 2, "Griffin.g.n.null": 1,
        "Griffin.cte.d.1": 2, "Griffin.cte.d.2": 4, "Griffin.cte.d.3": 2,
        "Griffin.u.n.rows": 4, "Griffin.u.n.ids": 3,
        "Griffin.later.share.a": 0.25, "Griffin.later.share.b": 0.5, "Griffin.later.share.null": 0.25,
        "Griffin.dsl.more.b": 3,
        "Griffin.unknown.n": 1, "Griffin.unknown.n.2": 2, "Griffin.one.n": 2,
        "Griffin.unselected.n": 2, "Griffin.unselected.n.2": 1, "Griffin.unselected.n.3": 1,
    }  # fmt: skip
    said = "its result has several rows, and no GROUP BY on columns that it selects"
    assert [one.split(":")[0] for one in result.notices if said in one] == ["unknown", "unselected"]


def test_duplicates_with_earlier_rows_keep_all_numbers(spark, repo):
    new = rows("new", "k string", *[(k,) for k in "AABBCD"])
    old = rows("old", "k string", *[(k,) for k in "AABC"])
    details = {"source": "new", "target": "old", "duplication.array": "dups"}
    rules = [rule("k", "distinct", "r", details=details)]
    result = tg.griffin.run({}, job([new, old], rules), spark=spark, repository=repo)
    assert values(result, "r") == {
        "total": 6, "distinct": 1, "dups": [{"dup": 1, "num": 1}, {"dup": 2, "num": 2}]}  # fmt: skip
    found = repo.metrics("job")
    assert dict(zip(found["name"], found["value"], strict=True)) == {
        "Griffin.r.total": 6, "Griffin.r.distinct": 1, "Griffin.r.dups.1": 1, "Griffin.r.dups.2": 2,
    }  # fmt: skip


def test_folders_are_marked_as_read_only_after_they_were_measured(spark, tmp_path):
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "lines").write_text("a\nb\n")
    source = read("src", "text-dir", {"dir.path": str(tmp_path)})
    good = job([source], [rule("select count(*) as n from src", name="n")])
    misspelt = job([source], [rule("cuont(*)", "profiling", "n")])
    fails = job([source], [rule("select raise_error('no') as n from src", name="n")])
    with pytest.warns(GriffinDeprecationWarning):
        tg.griffin.check(good, spark=spark)
        with pytest.raises(DslError):
            tg.griffin.run({}, misspelt, spark=spark)
        with pytest.raises(GriffinError):
            tg.griffin.run({}, fails, spark=spark)
        assert not (tmp_path / "_DONE").exists()
        assert values(tg.griffin.run({}, good, spark=spark), "n") == {"n": 2}
        assert (tmp_path / "_DONE").exists()
        (tmp_path / "_DONE").unlink()
        unique = job([source], [rule("value", "uniqueness", "u", details={"source": "src"})])
        tg.griffin.run({}, unique, spark=spark, partition_by="value")
    assert (tmp_path / "_DONE").exists()


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("not coalesce(src.id, 1) = tgt.id", "accuracy", "write not (a = b)"),
        ("coalesce(src.id, tgt.id)", "accuracy", "true or false for each pair of rows"),
        ("count(*) as n where coalesce(id, 1)", "profiling", "a condition must be true or false"),
    ],
)
def test_functions_with_types_known_only_to_spark_have_a_hint(spark, text, kind, hint):
    target = rows("tgt", "id int", (1,))
    details = {"source": "src"} if kind == "profiling" else {"source": "src", "target": "tgt"}
    with pytest.raises(DslError) as caught:
        tg.griffin.check(
            job([SOURCE, target], [rule(text, kind, "r", details=details)]), spark=spark
        )
    assert hint in str(caught.value)


PLACES = {
    "select *\nfrom nowhere": (2, 6, "nowhere"),
    "select 1 as a; select 2 as a": (1, 14, "one query"),
    "select id\nfrom src where (id = 1": (2, 23, "ends too early"),
    "select id,\n  idd from src": (2, 3, "idd"),
}


@pytest.mark.parametrize("text", PLACES)
def test_sql_errors_have_their_position_in_the_rule(spark, text):
    line, column, message = PLACES[text]
    with pytest.raises(DslError) as caught:
        tg.griffin.check(job([SOURCE], [rule(text, name="r")]), spark=spark)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in caught.value.message
    assert " pos " not in str(caught.value)


def test_a_query_can_end_with_a_semicolon(spark):
    asked = [rule("select ';' as mark, count(*) as n from src; ", name="r")]
    assert values(tg.griffin.run({}, job([SOURCE], asked), spark=spark), "r") == {
        "mark": ";",
        "n": 4,
    }


def test_invalid_patterns_are_refused_before_anything_runs(spark):
    conf = {"column.name": "name", "type": "regex", "values": ["["]}
    bad = [
        rule("count(*) as n where name rlike 'a(b'", "profiling", "r"),
        rule("name", "completeness", "c", **{"error.confs": [conf]}),
    ]
    with pytest.raises(DslError) as caught:
        tg.griffin.check(job([SOURCE], bad), spark=spark)
    assert "'a(b' is not a valid regular expression" in caught.value.message
    assert caught.value.column == 32
    assert "'[' is not a valid regular expression" in caught.value.others[0].message
    for call in ("regexp_replace(name, '(', '') = 'a'", "split(name, '(')[0] = 'a'"):
        with pytest.raises(DslError, match=r"'\(' is not a valid regular expression"):
            tg.griffin.check(
                job([SOURCE], [rule(f"count(*) as n where {call}", "profiling", "r")]), spark=spark
            )


SQL_PATTERNS = {
    "select count(*) as n from src where name rlike 'a(b'": (1, 48, "'a(b'"),
    "select id -- rlike '('\n  , regexp_extract(name, r'[a') as x from src": (2, 26, "r'[a'"),
    "select split(concat(name, ';'), '(')[0] as x from src": (1, 33, "'('"),
    "select not name regexp '*' as x from src": (1, 24, "'*'"),
}


@pytest.mark.parametrize("text", SQL_PATTERNS)
def test_invalid_patterns_in_sql_are_refused_before_anything_runs(spark, text):
    line, column, shown = SQL_PATTERNS[text]
    with pytest.raises(DslError) as caught:
        tg.griffin.check(job([SOURCE], [rule(text, name="r")]), spark=spark)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.message.startswith(f"{shown} is not a valid regular expression: ")
    assert caught.value.caret.count("^") == len(shown)


@pytest.mark.parametrize(
    "text",
    ["name rlike '(' || ')'", "name rlike '(' ')'", "name = 'rlike (' and name rlike '[(]'", "split(name, id) is null",
     "replace(name, '(', '') = 'a'", "name rlike concat('(', ')')", "name rlike '\\\\('", "`rlike` = '('"],
)  # fmt: skip
def test_valid_patterns_in_sql_pass(spark, text):
    rules = [
        rule(f"select count(*) as n from (select *, '' as `rlike` from src) where {text}", name="r")
    ]
    assert tg.griffin.check(job([SOURCE], rules), spark=spark)


BEFORE = {
    "select *\nfrom nowhere": "line 2, column 6: .*nowhere.*\nfrom nowhere\n     \\^",
    "select 1 as id; select 2": "line 1, column 15: a rule must be one query",
    "select id from this where name rlike '('": "line 1, column 38: '\\('.* is not a valid regular expression",
}  # fmt: skip


@pytest.mark.parametrize("text", BEFORE)
def test_errors_of_rules_before_measuring_have_their_position_in_the_rule(spark, text):
    source = rows(
        "src", "id int, name string", (1, "a"), **{"pre.proc": ["select * from this;", text]}
    )
    with pytest.raises(
        SourceError, match=f"^source 'src': pre.proc rule 2: {BEFORE[text]}"
    ) as caught:
        tg.griffin.check(job([source], [rule("id", "uniqueness")]), spark=spark)
    assert "rule 'this'" not in str(caught.value)


def test_a_string_that_is_not_a_number_fails_with_the_name_of_the_column(spark):
    rules = [rule("src.name = tgt.id", "accuracy", "r")]
    with pytest.raises(GriffinError) as caught:
        tg.griffin.run({}, job([SOURCE, TARGET], rules), spark=spark, timestamp=NOW)
    assert "compares the string 'name' with the number 'id'" in str(caught.value)
    query = rule("SELECT count(*) AS n\nFROM src WHERE CAST(name AS INT) > 3", name="q")
    with pytest.raises(GriffinError, match=r"it fails in 'CAST\(name AS INT\)'"):
        tg.griffin.run({}, job([SOURCE], [query]), spark=spark, timestamp=NOW)
