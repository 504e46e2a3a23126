"""Griffin's own jobs on its own sample data, from JSON to metric."""

import json

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import DATA, NOW, job, read, rule, values
from tidegauge.analyzers.core.errors import DslError

pytestmark = pytest.mark.spark
SRC = read("src", "file", {"format": "avro", "paths": [str(DATA / "users_info_src.avro")]})
TGT = read("tgt", "file", {"format": "avro", "paths": [str(DATA / "users_info_target.avro")]})
FEW = {
    "dataframe.name": "this",
    "pre.proc": [{"dsl.type": "spark-sql", "rule": "select * from this where user_id < 10014"}],
}
COLUMNS = ("user_id", "last_name", "address", "email", "phone", "post_code")
SAME = (
    " AND ".join(f"src.{c} = tgt.{c}" for c in COLUMNS)
    + " AND upper(src.first_name) = upper(tgt.first_name)"
)
CRIME = {
    "dataframe.name": "this",
    "pre.proc": [
        "select split(value, ',') as part from this",
        "select part[0] as date_time, part[1] as incident, part[2] as address, part[3] as city, part[4] as zipcode_str"
        " from this",
        "select *, try_cast(zipcode_str as int) as zipcode from this",
    ],
}  # fmt: skip
SOURCES = [
    read("crime", "file", {"format": "text", "paths": [str(DATA / "crime_report.csv.gz")]}, **CRIME),
    read("truth", "file",
         {"format": "csv", "options": {"header": "true"}, "paths": [str(DATA / "crime_report_truth.csv")]}),
]  # fmt: skip
GOOD_ZIP = """SELECT crime.*, good.zipcode IS NULL AS bad FROM crime LEFT JOIN
(SELECT zipcode FROM crime GROUP BY zipcode HAVING count(DISTINCT city) = 1) AS good ON crime.zipcode = good.zipcode"""


@pytest.fixture(scope="module")
def users(spark, tmp_path_factory):
    """Return one job of many rules over the users, from files, with Griffin's spelling."""
    folder = tmp_path_factory.mktemp("users")
    rules = [
        rule(SAME, "accuracy", "matches", out=["metric", {"type": "record", "name": "missRecords"}]),
        rule(SAME.replace("src.", "S.").replace("tgt.", "src.").replace("S.", "tgt."), "accuracy", "backwards",
             details={"source": "tgt", "target": "src"}),
        rule(SAME.replace("src.", "S.").replace("tgt.", "src.").replace("S.", "tgt."), "accuracy", "backwards in sql",
             details={"source": "tgt", "target": "src", "null.match": "sql"}),
        rule("user_id", "distinct", "distinct ids", details={"source": "src", "duplication.array": "dup"}),
        rule("user_id, count(*) as cnt from few group by user_id", "profiling", "few ids",
             out=[{"type": "metric", "name": "few ids", "flatten": "array"}], details={"source": "few"}),
        rule("select count(*) as cnt, count(distinct post_code) as `dis-cnt`, max(user_id) as max from src", name="sql"),
        rule("select post_code, count(*) as cnt from src group by post_code order by cnt desc", name="sql groups",
             out=[{"type": "metric", "name": "post_group", "flatten": "array"}]),
    ]  # fmt: skip
    few = {**SRC, "name": "few", "connector": {**SRC["connector"], **FEW}}
    dq, env = folder / "dq.json", folder / "env.json"
    dq.write_text(json.dumps(job([SRC, TGT, few], rules, "users")))
    sinks = [{"name": "out", "type": "hdfs", "config": {"path": str(folder / "sink")}}]
    env.write_text(json.dumps({"spark": {"log.level": "WARN"}, "sinks": sinks}))
    return tg.griffin.run(env, dq, spark=spark), folder / "sink" / "users" / str(NOW)


def test_accuracy_counts_misses_of_users(users):
    result, sink = users
    expected = {"total": 50, "miss": 4, "matched": 46, "matchedFraction": 0.92}
    assert values(result, "matches") == expected
    misses = result.records("matches")
    ids = sorted(row.user_id for row in misses.select("user_id").collect())
    assert ids == [10039, 10044, 10050, 10050]
    # A rule keeps its own records, although a later rule has steps of the same names.
    first_names = {row.first_name for row in misses.select("first_name").collect()}
    assert "Tom0" in first_names
    lines = (sink / "missRecords").read_text().splitlines()
    assert sorted(json.loads(line)["user_id"] for line in lines) == ids
    assert values(result, "backwards")["miss"] == 4
    assert values(result, "backwards in sql") == {
        "total": 50, "miss": 5, "matched": 45, "matchedFraction": 0.9,
    }  # fmt: skip


def test_distinct_users_are_counted(users):
    found = values(users[0], "distinct ids")
    assert (found["total"], found["distinct"], found["dup"]) == (50, 49, [{"dup": 1, "num": 1}])


def test_profiling_covers_the_filtered_rows(users):
    found = values(users[0], "few ids")["few ids"]
    assert sorted((row["user_id"], row["cnt"]) for row in found) == [
        (10000 + i, 1) for i in range(1, 14)
    ]


def test_spark_sql_rules_are_measured(users):
    result, sink = users
    assert values(result, "sql") == {"cnt": 50, "dis-cnt": 1, "max": 10050}
    groups = {"post_group": [{"post_code": "94022", "cnt": 49}, {"post_code": None, "cnt": 1}]}
    assert values(result, "sql groups") == groups
    document = json.loads((sink / "_METRICS").read_text())
    assert (document["name"], document["tmst"]) == ("users", NOW)
    # The metrics of all rules are one document. Names that are in use are nested under the rule.
    assert document["value"]["miss"] == 4
    assert document["value"]["backwards in sql"]["miss"] == 5
    assert document["value"]["post_group"] == groups["post_group"]
    assert (sink / "_FINISH").exists()


def test_an_invalid_rule_ends_the_job_before_anything_runs(spark, tmp_path, repo):
    sinks = [{"name": "out", "type": "hdfs", "config": {"path": str(tmp_path / "sink")}}]
    rules = [rule("user_id", "uniqueness", "fine"), rule("abc", "profiling", "malformed")]
    with pytest.raises(DslError, match="(?s)rule 'malformed'.*abc"):
        tg.griffin.run({"sinks": sinks}, job([SRC], rules), spark=spark, repository=repo)
    assert not (tmp_path / "sink").exists()
    assert repo.datasets() == []


@pytest.fixture(scope="module")
def crime(spark):
    """Return the result of Griffin's newest measures on the crime report."""
    accuracy = {"ref.source": "truth", "expr": [{"source.col": "city", "ref.col": "city_name"}]}
    duplication = {"expr": "incident", "bad.record.definition": "duplicate"}
    records = {"expr": GOOD_ZIP, "bad.record.definition": "bad"}
    out = [{"type": "metric"}, {"type": "record"}]
    measures = [
        {"name": name, "type": kind, "data.source": "crime", "config": config, "out": out}
        for name, kind, config in (
            ("cities", "accuracy", accuracy),
            ("incidents", "duplication", duplication),
            ("zip codes", "sparkSQL", records),
        )
    ]
    dq = {"name": "crime", "timestamp": NOW, "data.sources": SOURCES, "measures": measures}
    return tg.griffin.run({}, json.dumps(dq), spark=spark)


def test_accuracy_duplication_and_sql_of_the_crime_report(crime):
    cities = values(crime, "cities")
    assert (cities["total"], cities["accurate"], cities["inaccurate"]) == (4617, 4511, 106)
    expected = {"duplicate": 4363, "unique": 58, "non_unique": 196, "distinct": 254}
    assert values(crime, "incidents") == {"total": 4617, **expected}
    assert values(crime, "zip codes") == {"total": 4617, "complete": 1983, "incomplete": 2634}
    assert crime.records("zip codes").where("__status = 'bad'").count() == 2634


def test_a_column_is_profiled(spark):
    few = {**SRC, "connector": {**SRC["connector"], **FEW}}
    config = {"expr": "user_id", "round.scale": 2, "approx.distinct.count": False}
    measure = {"name": "profile", "type": "profiling", "data.source": "src", "config": config, "out": [{"type": "metric"}]}  # fmt: skip
    dq = {"name": "profile", "data.sources": [few], "measures": [measure]}
    result = tg.griffin.run({}, dq, spark=spark)
    (found,) = values(result, "profile")["column_details"]
    assert found["column_name"] == "user_id"
    assert (found["total"], found["distinct_count"], found["null_count"]) == (13, 13, 0)
    numbers = (found["avg"], found["variance"], found["std_dev"], found["kurtosis"])
    assert numbers == (10007.0, 15.17, 3.89, -1.21)


def test_rules_before_measuring_form_a_chain(spark):
    chain = [
        {"dsl.type": "spark-sql", "rule": "select split(value, ',') as part from this", "out.dataframe.name": "parts"},
        {"dsl.type": "spark-sql", "in.dataframe.name": "parts", "out.dataframe.name": "named",
         "rule": "select part[0] as date_time, part[1] as incident, part[3] as city, part[4] as zip from parts"},
        {"dsl.type": "spark-sql", "in.dataframe.name": "named",
         "rule": "select cast(date_time as timestamp) as date_time, incident, city, cast(zip as int) as zip from named"},
    ]  # fmt: skip
    source = read("crime", "file", {"format": "text", "paths": [str(DATA / "crime_report_test.csv")]},
                  **{"dataframe.name": "this", "pre.proc": chain})  # fmt: skip
    rules = [
        rule("select * from crime", name="records", out=[{"type": "record"}]),
        rule("count(*) as n, min(crime.zip) as low, max(crime.zip) as high", "profiling", "numbers"),
    ]  # fmt: skip
    result = tg.griffin.run({}, job([source], rules), spark=spark)
    records = result.records("records")
    types = [("date_time", "timestamp"), ("incident", "string"), ("city", "string"), ("zip", "int")]
    assert records.dtypes == [*types, ("__tmst", "bigint")]
    assert {row["__tmst"] for row in records.collect()} == {NOW}
    assert values(result, "numbers") == {"n": 10, "low": 94301, "high": 94306}


def test_timeliness_finds_late_records(spark):
    source = read("source", "file", {"format": "avro", "paths": [str(DATA / "timeliness_data.avro")]})  # fmt: skip
    details = {
        "threshold": "3m", "step.size": "2m", "percentile.values": ["0.29", 0.99, 0.999],
        "latency": "lat", "total": "all",
    }  # fmt: skip
    out = ["metric", {"type": "record", "name": "late"}]
    result = tg.griffin.run(
        {}, job([source], [rule("ts, end_ts", "timeliness", "latencies", out, details=details)]), spark=spark
    )  # fmt: skip
    found = values(result, "latencies")
    assert (found["all"], found["avg"]) == (10, 276_000)
    steps = {row["step"]: row["count"] for row in found["step"]}
    assert steps == {0: 6, 3: 1, 4: 1, 5: 2}
    assert sorted(key for key in found if key.startswith("percentile")) == [
        "percentile_29", "percentile_99", "percentile_99_9",
    ]  # fmt: skip
    late = {(row.name, row.lat) for row in result.records("latencies").collect()}
    assert late == {("dun", 560_000), ("sid", 660_000), ("fain", 660_000), ("yosh", 440_000)}


def test_csv_files_with_schemas_are_measured(spark):
    people = read("people", "file", {
        "format": "csv", "paths": [str(DATA / "person_table.csv")],
        "schema": [{"name": "name", "type": "string", "nullable": True}, {"name": "age", "type": "int"}],
    })  # fmt: skip
    twins = read("twins", "file", {
        "format": "csv", "paths": [str(DATA / "duplicates_users_info_src.csv")],
        "options": {"ignoreTrailingWhiteSpace": "true"},
        "schema": [{"name": name, "type": "string"} for name in ("id", "name", "gender")],
    })  # fmt: skip
    rules = [
        rule("name, age", "completeness", "complete"),
        rule("name", "uniqueness", "twins_by_name", details={"source": "twins", "duplication.array": "dup"}),
        rule("id", "completeness", "listed ids", details={"source": "twins"},
             **{"error.confs": [{"column.name": "id", "type": "enumeration", "values": ["1", "hive_none", "3", "foo,bar"]}]}),
        rule("id", "completeness", "numeric ids", details={"source": "twins"},
             **{"error.confs": [{"column.name": "id", "type": "regex", "values": [r"^\d+$"]}]}),
    ]  # fmt: skip
    result = tg.griffin.run({}, job([people, twins], rules), spark=spark)
    assert values(result, "complete") == {"total": 2, "incomplete": 0, "complete": 2}
    found = values(result, "twins_by_name")
    assert (found["total"], found["unique"], found["dup"]) == (4, 2, [{"dup": 1, "num": 1}])
    assert values(result, "listed ids") == {"total": 4, "incomplete": 2, "complete": 2}
    assert values(result, "numeric ids") == {"total": 4, "incomplete": 4, "complete": 0}
