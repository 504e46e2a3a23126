"""Jobs from rules to sinks: rules that read each other, private names, records in tables, and failures."""

import gc
import json
import threading

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import NOW, job, read, rows, rule, values
from tidegauge.analyzers.core.errors import DslError, GriffinConfigError, GriffinError, SourceError
from tidegauge.griffin.sinks import Sink

pytestmark = pytest.mark.spark
USERS = rows("src", "id int, name string", (1, "a"), (2, "b"), (3, None), (4, "d"))
TRUTH = rows("tgt", "id int, name string", (1, "a"), (2, "x"), (3, None))
SAME = "src.id = tgt.id and src.name = tgt.name"


def names(spark):
    gc.collect()  # without views that earlier tests left
    return {table.name for table in spark.catalog.listTables()}


@pytest.fixture(scope="module")
def chained(spark):
    """Return a job whose rules read each other. A table and a view of the session have the names of its frames."""
    spark.range(7).createOrReplaceTempView("src")
    spark.range(9).createOrReplaceTempView("miss_items")
    spark.sql("CREATE TABLE accuracy AS SELECT 'table' AS id")
    before = names(spark)
    rules = [
        rule(SAME, "accuracy", "acc", out=["metric", {"type": "record", "name": "misses"}]),
        rule("select count(*) as n, max(id) as last from miss_items", name="of_misses"),
        rule("select total, miss from accuracy", name="of_accuracy", cache=True),
        rule("select a.miss + o.n as both from acc a cross join of_misses o", name="of_names"),
        rule("id, name", "completeness", "complete", details={"source": "miss_items"}),
        rule("count(miss_items.id) as n from miss_items", "profiling", "prof", details={"source": "miss_items"}),
        # From here on, steps of the same names and the source are different frames.
        rule("src.id = tgt.id", "accuracy", "ids", out=["metric", "record"]),
        rule("select id from src where id < 3", name="fewer", out=[{"type": "dsc-update", "name": "src"}, "record"]),
        rule("id", "uniqueness", "after", details={"source": "src", "duplication.array": "dup"}),
        rule("select count(*) as n from miss_items", name="of_ids"),
    ]  # fmt: skip
    result = tg.griffin.run({}, job([USERS, TRUTH], rules), spark=spark)
    yield result, before
    for name in ("src", "miss_items"):
        spark.catalog.dropTempView(name)
    spark.sql("DROP TABLE accuracy")


def test_rules_read_frames_of_earlier_rules(chained):
    result, _ = chained
    assert values(result, "acc") == {"total": 4, "miss": 2, "matched": 2, "matchedFraction": 0.5}
    assert values(result, "of_misses") == {"n": 2, "last": 4}
    assert values(result, "of_accuracy") == {"total": 4, "miss": 2}
    assert values(result, "of_names") == {"both": 4}
    assert values(result, "complete") == {"total": 2, "incomplete": 0, "complete": 2}
    assert values(result, "prof") == {"n": 2}
    assert values(result, "of_ids") == {"n": 1}


def test_a_rule_keeps_its_frames_when_later_rules_reuse_their_names(chained):
    result, _ = chained
    assert values(result, "ids")["total"] == 4
    assert values(result, "after")["total"] == 2
    assert sorted(row.id for row in result.records("acc").collect()) == [2, 4]
    assert [row.id for row in result.records("ids").collect()] == [4]
    assert sorted(row.id for row in result.records("fewer").collect()) == [1, 2]
    assert result.rule("fewer").reports == {}


def test_names_of_the_session_are_neither_read_nor_changed(spark, chained):
    assert spark.table("src").count() == 7
    assert spark.table("miss_items").count() == 9
    assert [row.id for row in spark.table("accuracy").collect()] == ["table"]


@pytest.mark.soak
def test_a_result_leaves_no_views_behind(spark):
    before = names(spark)
    # A rule whose metric has the name of a source does not hide the source.
    metric = [{"type": "metric", "name": "src"}]
    rules = [rule("id", "uniqueness", out=metric), rule("name", "completeness", "c")]
    result = tg.griffin.run({}, job([USERS], rules), spark=spark)
    assert names(spark) > before
    assert result.status == "complete"
    assert repr(result) == "job: 2 rules, 1 partition"
    assert (values(result, "src")["unique"], values(result, "c")["incomplete"]) == (4, 1)
    del result
    assert names(spark) == before


@pytest.mark.soak
def test_a_refused_or_failing_job_leaves_no_views_behind(spark):
    before = names(spark)
    with pytest.raises(DslError):
        tg.griffin.run({}, job([USERS], [rule("select nothing from src")]), spark=spark)
    failing = [rule("select raise_error('no') as x from src", name="bad")]
    with pytest.raises(GriffinError, match="bad: .*no"):
        tg.griffin.run({}, job([USERS], failing), spark=spark)
    assert names(spark) == before


def test_two_jobs_run_concurrently(spark):
    found = {}

    def run(name, *ids):
        source = rows("src", "id int, name string", *((i, "n") for i in ids))
        rules = [
            rule(SAME, "accuracy", "acc", out=["metric", "record"]),
            rule("select count(*) as n from miss_items", name="n", cache=True),
        ]
        found[name] = tg.griffin.run({}, job([source, TRUTH], rules, name), spark=spark)

    threads = [threading.Thread(target=run, args=("a", 7, 8)), threading.Thread(target=run, args=("b", 1, 2, 9))]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, ids in (("a", [7, 8]), ("b", [1, 2, 9])):
        assert values(found[name], "n") == {"n": len(ids)}
        assert sorted(row.id for row in found[name].records("acc").collect()) == ids


FLATTEN = [
    ("default", {"many": [{"id": 1}, {"id": 2}], "one": [], "id": 9}),
    ("entries", {"id": 1}),
    ("list", {"all": [{"id": 1}, {"id": 2}], "one": [{"id": 9}], "none": []}),
    ("map", {"all": {"id": 1}, "one": {"id": 9}, "none": {}}),
]


def test_sinks_receive_metrics_in_each_layout(spark, tmp_path, capsys):
    """Every layout of rows, with names that several rules use, for two sinks."""
    sinks = [
        {"name": "Files", "type": "HDFS", "config": {"path": str(tmp_path)}},
        {"name": "screen", "type": "console", "config": {"numRows": 1}},
    ]
    queries = {"many": "select id from src where id < 3 order by id", "one": "select 9 as id", "none": "select 1 as id where 1 = 0"}  # fmt: skip
    rules = [
        rule(text, name=f"{flatten} {name}", out=[{"type": "metric", "name": f"{flatten} {name}", "flatten": flatten}])
        for flatten in ("default", "entries", "list", "map")
        for name, text in queries.items()
    ]  # fmt: skip
    rules += [
        rule("select id, name from src where id = 4", name="r1", out=[{"type": "record", "name": "same"}]),
        rule("select id, name from src where id = 3", name="r2", out=[{"type": "record", "name": "same"}]),
        rule("select 1 as x", name="m1", out=[{"type": "metric", "name": "same"}]),
        rule("select 2 as y", name="m2", out=[{"type": "metric", "name": "same"}]),
    ]  # fmt: skip
    result = tg.griffin.run({"sinks": sinks}, job([USERS], rules, sinks=["files", "SCREEN"]), spark=spark)  # fmt: skip
    two, nine = [{"id": 1}, {"id": 2}], {"id": 9}
    expected = {
        "default many": {"default many": two}, "default one": nine, "default none": {},
        "entries many": {"id": 1}, "entries one": nine, "entries none": {},
        "list many": {"list many": two}, "list one": {"list one": [nine]}, "list none": {"list none": []},
        "map many": {"map many": {"id": 1}}, "map one": {"map one": nine}, "map none": {"map none": {}},
    }  # fmt: skip
    assert {name: values(result, name) for name in expected} == expected
    folder = tmp_path / "job" / str(NOW)
    document = json.loads((folder / "_METRICS").read_text())
    value = document["value"]
    assert (document["name"], document["tmst"]) == ("job", NOW)
    assert value["default many"] == two
    assert value["map none"] == {}
    assert (value["x"], value["y"]) == (1, 2)
    # Records of one name do not replace each other.
    assert [json.loads(line)["id"] for line in (folder / "same").read_text().splitlines()] == [4]
    assert json.loads((folder / "same_2").read_text())["name"] is None
    printed = capsys.readouterr().out
    assert json.loads(printed.splitlines()[0])["value"] == value
    assert "records same:" in printed


@pytest.mark.soak
def test_a_table_holds_the_records_of_the_last_run_of_a_time(spark):
    out = ["metric", {"type": "record", "table": "griffin_misses"}]

    def run(source, time, target=TRUTH):
        dq = job([source, target], [rule(SAME, "accuracy", "acc", out)], timestamp=time)
        tg.griffin.run({}, dq, spark=spark)
        found = spark.table("griffin_misses").collect()
        return sorted((row["__tmst"], row.id, row.name) for row in found)

    try:
        assert run(USERS, NOW) == [(NOW, 2, "b"), (NOW, 4, "d")]
        one = rows("src", "id int, name string", (8, "h"))
        assert run(one, NOW + 1) == [(NOW, 2, "b"), (NOW, 4, "d"), (NOW + 1, 8, "h")]
        assert run(one, NOW) == [(NOW, 8, "h"), (NOW + 1, 8, "h")]
        all_match = rows("src", "id int, name string", (1, "a"))
        assert run(all_match, NOW) == [(NOW + 1, 8, "h")]
        # Also for a rule without a metric.
        only = [rule("select * from src where id > 7", name="only", out=[out[1]])]
        for source in (one, all_match):
            tg.griffin.run({}, job([source], only, timestamp=NOW + 2), spark=spark)
        assert {row["__tmst"] for row in spark.table("griffin_misses").collect()} == {NOW + 1}
    finally:
        spark.sql("DROP TABLE IF EXISTS griffin_misses")


class Broken(Sink):
    """A sink that always fails."""

    def metrics(self, timestamp, values):
        raise OSError("the sink is down")


def test_failures_are_raised_after_the_other_results_were_written(spark, tmp_path, repo):
    sinks = [
        {"name": "broken", "type": "custom", "config": {"class": f"{__name__}:Broken"}},
        {"name": "files", "type": "hdfs", "config": {"path": str(tmp_path)}},
    ]
    rules = [
        rule("select raise_error('at run time') as x from src", name="bad"),
        rule("src.id = tgt.id and int(src.name) = tgt.id", "accuracy", "cast"),
        rule("id", "uniqueness", "fine", details={"source": "src"}),
        rule("max(id * 9223372036854775807) as m", "profiling", "large", details={"source": "src"}),
        rule("select raise_error('a record') as x, id from src", name="records", out=["record"]),
        rule("select id from src where id = 3", name="third", out=["record"]),
    ]
    with pytest.raises(GriffinError) as raised:
        tg.griffin.run({"sinks": sinks}, job([USERS, TRUTH], rules), spark=spark, repository=repo)
    error = raised.value
    assert {"bad", "cast", "large", "sink broken"} <= set(error.failures)
    assert "the rule reads src.id" in str(error.failures["large"])
    assert any("records" in name for name in error.failures)
    assert "fine" not in error.failures
    said = str(error)
    assert all(text in said for text in ("at run time", "the sink is down", "CAST_INVALID_INPUT", "casts the string 'name' in int()", "a record"))  # fmt: skip
    result = error.result
    assert result.status == "failed"
    assert values(result, "fine")["unique"] == 4
    assert "the sink is down" in result._repr_html_()
    value = json.loads((tmp_path / "job" / str(NOW) / "_METRICS").read_text())["value"]
    assert value["unique"] == 4
    third = (tmp_path / "job" / str(NOW) / "third").read_text()
    assert json.loads(third)["id"] == 3
    # The history also shows it.
    (run,) = repo.runs("job").to_dict("records")
    assert run["status"] == "failed"
    assert "at run time" in run["error"]
    kept = repo.metrics("job").set_index("name")["value"]
    assert kept["Griffin.fine.unique"] == 4


TABLE = read("src", "hive", {"database": "default", "table.name": "no_such_table"})
FILE = read("src", "file", {"format": "parquet", "paths": ["/no/such/file"]})
FINE = [rule("id", "uniqueness", "u")]
BEFORE = rows(
    "src",
    "id int, name string",
    (1, "a"),
    **{"pre.proc": ["select * from this", "select nope from this"]},
)
WRONG = {
    "rule before measuring": ([BEFORE], FINE, SourceError, "source 'src': pre.proc rule 2: .*nope"),
    "bad rule": ([USERS], [rule("src.id = ", "accuracy")], DslError, "rule 'rule_1'"),
    "missing table": ([TABLE], FINE, SourceError, "source 'src'.*no_such_table"),
    "missing file": ([FILE], FINE, SourceError, "source 'src'.*no/such/file"),
    "bad time": ([USERS], [rule("id", "timeliness", details={"threshold": "3 parsecs"})], DslError, "3 parsecs.* not a duration"),
    "unknown function": ([USERS], [rule("no_such(src.id) as x", "profiling")], DslError, "no_such"),
    "forbidden function": ([USERS], [rule("reflect('java.lang.System', 'exit', 1) as x", "profiling")], DslError, "reflect"),
    "unknown column": ([USERS], [rule("nam", "uniqueness")], DslError, "'name'"),
    "unknown source": ([USERS], [rule("id", "uniqueness", details={"source": "scr"})], DslError, "did you mean 'src'"),
    "no target": ([USERS], [rule("src.id = tgt.id", "accuracy")], DslError, "tgt|target"),
    "two of one name": ([USERS], [*FINE, rule("name", "uniqueness", "U")], DslError, "two rules have the name 'U'"),
    "sql": ([USERS], [rule("select frm src")], DslError, "rule_1"),
    "not a query": ([USERS], [rule("drop table src")], DslError, "rule_1"),
    "operation": ([USERS], [{"dsl.type": "df-opr", "rule": "from_jsn"}], DslError, "did you mean 'from_json'"),
    "column of an operation": ([USERS], [{"dsl.type": "df-opr", "rule": "from_json", "details": {"col.name": "nme"}}], DslError, "did you mean 'name'"),
    "unknown key": ([USERS], [{**FINE[0], "detials": {}}], GriffinConfigError, "did you mean 'details'"),
    "kind": ([USERS], [rule("id", "accu")], GriffinConfigError, "unknown dq.type 'accu'"),
    "sink": ([USERS], FINE, GriffinConfigError, "no sink 'nowhere'"),
    "several": ([USERS], [rule("nam", "uniqueness", "one"), rule("idd", "uniqueness", "two")], DslError, "(?s)rule 'one'.*rule 'two'"),
}  # fmt: skip


@pytest.mark.parametrize(("sources", "rules", "kind", "message"), WRONG.values(), ids=WRONG)
def test_every_mistake_raises_an_error(spark, repo, sources, rules, kind, message):
    more = {"sinks": ["nowhere"]} if "nowhere" in message else {}
    with pytest.raises(kind, match=message):
        tg.griffin.run({}, job(sources, rules, **more), spark=spark, repository=repo)
    assert all(repo.metrics(dataset).empty for dataset in repo.datasets())
    if kind is SourceError:  # an unreadable source is a failed run
        assert repo.runs("job")["status"].tolist() == ["failed"]


HOSTILE = "a`b'c\"d${x}; -- \n\\e.f é"


@pytest.mark.newest
def test_hostile_names_and_values_pass_through_a_whole_job(spark, tmp_path, repo, capsys):
    quoted = f"`{HOSTILE.replace('`', '``')}`"
    columns = [(HOSTILE, "string"), ("n", "integer")]
    source = rows(HOSTILE, columns, (HOSTILE, 1), ("x' or '1'='1", 2), (None, 3))
    target = rows(f"t {HOSTILE}", columns, (HOSTILE, 1), (None, 4))
    table = f"`t {HOSTILE.replace('`', '``')}`"
    said = HOSTILE.replace("\\", "\\\\").replace("'", "\\'")
    rules = [
        rule(f"{quoted}.{quoted} = {table}.{quoted}", "accuracy", f"acc {HOSTILE}",
             out=["metric", {"type": "record", "name": f"r {HOSTILE}"}]),
        rule(f"count(*) as {quoted} where {quoted} = '{said}'", "profiling", f"prof {HOSTILE}"),
        rule(f"{quoted}", "distinct", f"dist {HOSTILE}", details={"duplication.array": HOSTILE, "total": f"all {HOSTILE}"}),
        rule(f"{quoted} as {quoted}", "completeness", f"comp {HOSTILE}",
             **{"error.confs": [{"column.name": HOSTILE, "type": "enumeration", "values": [HOSTILE, "hive_none"]}]}),
    ]  # fmt: skip
    sinks = [{"name": "f", "type": "hdfs", "config": {"path": str(tmp_path / "sink")}}]
    dq = job([source, target], rules, f"job {HOSTILE}")
    result = tg.griffin.run({"sinks": sinks}, dq, spark=spark, repository=repo)
    assert values(result, f"acc {HOSTILE}")["miss"] == 1
    assert [row.n for row in result.records(f"acc {HOSTILE}").collect()] == [2]
    assert values(result, f"prof {HOSTILE}") == {HOSTILE: 1}
    assert values(result, f"dist {HOSTILE}")[f"all {HOSTILE}"] == 3
    assert values(result, f"comp {HOSTILE}")["incomplete"] == 2
    (folder,) = (tmp_path / "sink").iterdir()
    assert (folder / str(NOW) / "_METRICS").exists()
    name = f"Griffin.acc {HOSTILE}.miss"
    assert list(repo.metrics(f"job {HOSTILE}", name=name)["value"]) == [1]
    assert "<script" not in result._repr_html_()
