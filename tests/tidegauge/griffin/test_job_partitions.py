"""Jobs by partition: measured partitions, and their results in the repository."""

import os
import shutil

import pytest

import tidegauge as tg
from tests.support.spark_actions import counted
from tests.tidegauge.griffin.jobs import NOW, job, read, rows, rule, values
from tidegauge.analyzers.core.errors import DslError, GriffinError, SourceError, SuiteError
from tidegauge.griffin.execution import engine as partitioned

pytestmark = pytest.mark.spark
NULL = "__HIVE_DEFAULT_PARTITION__"
RULES = [
    rule("src.id = tgt.id", "accuracy", "acc", out=["metric", {"type": "record", "name": "misses"}]),
    rule("src.name, count(*) as n group by src.name having n > 0", "profiling", "byname",
         out=[{"type": "metric", "flatten": "array"}]),
    rule("select ds, hr, count(*) as n from src group by ds, hr", name="sql"),
    rule("name", "completeness", "names"),
]  # fmt: skip
HOURS = {
    ("2024-01-01", "06"): [(1, "a"), (2, "b")],
    ("2024-01-01", "07"): [(3, None), (9, "a")],
    ("2024-01-02", "07"): [(1, "c")],
}


def write(root, ds, hr, some):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = root / f"ds={ds}" / f"hr={hr}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    columns = list(zip(*some, strict=True)) if some else [[], []]
    table = pa.table(
        {"id": pa.array(columns[0], pa.int32()), "name": pa.array(columns[1], pa.string())}
    )
    pq.write_table(table, folder / f"part-{len(some)}.parquet")


def actions(spark, run):
    with counted(spark) as found:
        result = run()
    return result, len([e for e in found if e["successJobIds"]])


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "hours"
    for (ds, hr), some in HOURS.items():
        write(root, ds, hr, some)
    return root


@pytest.fixture
def target(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = tmp_path / "truth"
    root.mkdir()

    def fill(*ids):
        for old in root.iterdir():
            old.unlink()
        pq.write_table(pa.table({"id": pa.array(ids, pa.int32())}), root / f"p{len(ids)}.parquet")
        return root

    fill(1, 2, 3)
    return fill


def dq(folder, truth, rules=RULES, **more):
    sources = [
        read("src", "file", {"format": "parquet", "paths": [str(folder)]}, **more),
        read("tgt", "file", {"format": "parquet", "paths": [str(truth)]}),
    ]
    return job(sources, rules, "hours")


def misses_by_partition(repo):
    frame = repo.metrics("hours", name="Griffin.acc.miss")
    return dict(zip(frame["partition"], frame["value"].astype(int), strict=True))


@pytest.fixture
def run(spark, repo, folder, target, tmp_path):
    """Run the job on the folder by hours."""

    def run(rules=RULES, **more):
        options = {"partition_by": ("ds", "hr"), **more}
        truth = tmp_path / "truth"
        return tg.griffin.run({}, dq(folder, truth, rules), spark=spark, repository=repo, **options)

    return run


def measured_names(result):
    return sorted(p.name for p in result.rule("acc").reports)


def test_only_new_and_changed_partitions_of_a_folder_are_measured(spark, repo, folder, target, run):
    one, two, three = (f"ds={ds}/hr={hr}" for ds, hr in HOURS)
    result, first = actions(spark, run)
    assert measured_names(result) == [one, two, three]
    assert values(result, "acc", two) == {"total": 2, "miss": 1, "matched": 1, "matchedFraction": 0.5}  # fmt: skip
    assert values(result, "sql", two) == {"n": 2}
    found = values(result, "byname", two)["byname"]
    assert sorted(found, key=repr) == [{"name": "a", "n": 1}, {"name": None, "n": 1}]
    assert misses_by_partition(repo) == {one: 0, two: 1, three: 0}
    times = repo.metrics("hours", name="Griffin.acc.miss")["time"]
    assert [f"{time:%Y-%m-%d %H}" for time in times] == [
        "2024-01-01 06", "2024-01-01 07", "2024-01-02 07",
    ]  # fmt: skip
    named = repo.metrics("hours", name="Griffin.byname.n.a")
    assert dict(zip(named["partition"], named["value"], strict=True)) == {one: 1, two: 1}
    whole = repo.merge("hours", repo.metrics("hours", name="Griffin.acc.miss")["analyzer"][0])
    assert whole.value.metric["miss"] == 1

    again, none = actions(spark, run)
    assert measured_names(again) == []
    assert none < first / 2
    assert again.metrics().empty

    write(folder, "2024-01-02", "07", [(1, "c"), (8, "d"), (8, "e")])
    write(folder, "2024-01-02", "08", [])
    four = "ds=2024-01-02/hr=08"
    result = run()
    assert measured_names(result) == [three, four]
    assert values(result, "acc", three)["miss"] == 2
    assert values(result, "acc", four) == {"total": 0, "miss": 0, "matched": 0, "matchedFraction": 1}  # fmt: skip
    assert measured_names(run()) == []  # a partition without rows is also stored

    target(1, 2, 3, 8)
    result = run()
    assert measured_names(result) == [one, two, three, four]
    assert misses_by_partition(repo) == {one: 0, two: 1, three: 0, four: 0}


def test_another_source_without_a_file_list_changes_nothing(spark, repo, folder, target, tmp_path):
    sources = [
        read("src", "file", {"format": "parquet", "paths": [str(folder)]}),
        read("tgt", "file", {
            "format": "parquet", "paths": [str(tmp_path / "truth")],
            "schema": [{"name": "id", "type": "int"}],
        }),
    ]  # fmt: skip
    found = [
        tg.griffin.run(
            {},
            job(sources, RULES[:1], "hours"),
            spark=spark,
            repository=repo,
            partition_by=("ds", "hr"),
        )
        for _ in range(2)
    ]
    assert [len(measured_names(result)) for result in found] == [3, 0]


@pytest.mark.soak
def test_requested_partitions_and_partitions_without_a_state_are_measured(repo, folder, run):
    one, two, three = (f"ds={ds}/hr={hr}" for ds, hr in HOURS)
    four = "ds=2024-01-02/hr=08"
    write(folder, "2024-01-02", "08", [])
    assert measured_names(run()) == [one, two, three, four]
    assert measured_names(run()) == []

    # A rule without a state is measured if it is new or changed.
    other = [*RULES[:2], rule("select ds, hr, 2 * count(*) as n from src group by ds, hr", name="sql"), RULES[3]]  # fmt: skip
    result = run(other)
    assert values(result, "sql", three) == {"n": 2}
    kept = repo.metrics("hours", name="Griffin.sql.n")
    assert dict(zip(kept["partition"], kept["value"], strict=True))[three] == 2

    assert measured_names(run(other, partitions="all")) == [one, two, three, four]
    assert measured_names(run(other, partitions="ds>=2024-01-02")) == [three, four]
    assert measured_names(run(other, partitions=[one])) == [one]
    assert len(set(repo.runs("hours")["status"])) == 1


@pytest.mark.soak
def test_partitions_of_a_hive_table_with_special_characters_are_measured(spark, repo):
    table = "griffin_cities"
    spark.sql(f"CREATE TABLE {table} (id INT, city STRING) USING parquet PARTITIONED BY (city)")
    cities = ("a/b=c", "Köln %41", None)
    try:
        for number, city in enumerate(cities):
            spark.createDataFrame([(number, city), (9, city)], "id int, city string").write.mode("append").insertInto(table)  # fmt: skip
        source = read("src", "hive", {"database": "default", "table.name": table})
        rules = [
            rule("id", "uniqueness", "ids", out=["metric", "record"]),
            rule("src.id, count(*) as n where src.id < 9 group by src.id", "profiling", "low"),
            rule("select city, count(*) as n from src group by city", name="sql"),
        ]
        whole = job([source], rules, "cities")

        def run():
            return tg.griffin.run({}, whole, spark=spark, repository=repo, partition_by="city")

        result = run()
        expected = {"city=a/b=c", "city=Köln %41", f"city={NULL}"}
        assert {p.name for p in result.rule("ids").reports} == expected
        assert {p.name for p in result.rule("low").reports} == expected
        assert values(result, "low", "city=a/b=c") == {"id": 0, "n": 1}
        assert values(result, "low", f"city={NULL}") == {"id": 2, "n": 1}
        assert set(repo.metrics("cities", name="Griffin.ids.unique")["value"]) == {2}
        assert set(repo.metrics("cities", name="Griffin.ids.unique")["partition"]) == expected
        kept = repo.metrics("cities", name="Griffin.sql.n")
        assert {(p, n) for p, n in zip(kept["partition"], kept["value"], strict=True)} == {
            (name, 2) for name in expected
        }
        assert run().rule("ids").reports == {}
    finally:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.soak
def test_records_are_written_by_partition_of_a_partitioned_target(spark, repo):
    tables = ("griffin_days", "griffin_regions", "griffin_day_misses")
    days, regions, misses = tables

    def fill(table, key, **contents):
        for value, ids in contents.items():
            frame = spark.createDataFrame([(i, value) for i in ids], f"id int, {key} string")
            frame.createOrReplaceTempView("filled")
            some = f"PARTITION ({key} = '{value}')"
            spark.sql(f"INSERT OVERWRITE {table} {some} SELECT id FROM filled")
        spark.catalog.dropTempView("filled")

    for table, key in ((days, "ds"), (regions, "region")):
        spark.sql(f"CREATE TABLE {table} (id INT, {key} STRING) USING parquet PARTITIONED BY ({key})")  # fmt: skip
    sources = [read("src", "hive", {"table.name": days}), read("tgt", "hive", {"table.name": regions})]  # fmt: skip
    out = ["metric", {"type": "record", "table": misses}]
    whole = job(sources, [rule("src.id = tgt.id", "accuracy", "acc", out)], "days")

    def run():
        """Run the job; return the misses of each measured partition, and the contents of the table."""
        result = tg.griffin.run({}, whole, spark=spark, repository=repo, partition_by="ds")
        found = {p.values[0]: r.metric["miss"] for p, r in result.rule("acc").reports.items()}
        return found, sorted((row.ds, row.id) for row in spark.table(misses).collect())

    try:
        fill(regions, "region", north=[1], south=[2])
        fill(days, "ds", d1=[1, 8], d2=[2, 9])
        assert run() == ({"d1": 1, "d2": 1}, [("d1", 8), ("d2", 9)])
        fill(days, "ds", d2=[1, 2])
        assert run() == ({"d2": 0}, [("d1", 8)])
        fill(regions, "region", south=[2, 8])
        assert run() == ({"d1": 0, "d2": 0}, [])
        assert run() == ({}, [])
    finally:
        for table in tables:
            spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.soak
def test_each_batch_is_committed_when_it_ends(spark, repo, folder, target, tmp_path, monkeypatch):
    """A run that is stopped in its second batch keeps the first. The next run continues after it."""
    monkeypatch.setattr(partitioned, "BATCH_PARTITIONS", 1)
    sinks = {"sinks": [{"name": "f", "type": "hdfs", "config": {"path": str(tmp_path / "sink")}}]}
    whole, by = dq(folder, tmp_path / "truth"), {"partition_by": ("ds", "hr")}
    engine_run, count = partitioned.Engine.run, []

    def ended(self, this):
        if len(count) == 1:
            raise KeyboardInterrupt
        count.append(this)
        return engine_run(self, this)

    monkeypatch.setattr(partitioned.Engine, "run", ended)
    with pytest.raises(KeyboardInterrupt):
        tg.griffin.run(sinks, whole, spark=spark, repository=repo, **by)
    one, two, three = (f"ds={ds}/hr={hr}" for ds, hr in HOURS)
    assert misses_by_partition(repo) == {one: 0}
    monkeypatch.setattr(partitioned.Engine, "run", engine_run)
    result = tg.griffin.run(sinks, whole, spark=spark, repository=repo, **by)
    assert {p.name for p in result.rule("acc").reports} == {two, three}
    assert misses_by_partition(repo) == {one: 0, two: 1, three: 0}
    # Sinks receive every batch, and none replaces another.
    records = sorted((tmp_path / "sink" / "hours").glob("*/misses"))
    assert [len(file.read_text().splitlines()) for file in records] == [1, 0]


@pytest.mark.soak
def test_a_rule_that_fails_is_measured_again(spark, repo, folder, target, tmp_path):
    bad = rule("select ds, hr, max(cast(name as int)) as n from src group by ds, hr", name="cast")
    whole = dq(folder, tmp_path / "truth", [RULES[0], bad])
    for _ in range(2):
        with pytest.raises(GriffinError, match="cast: .*CAST_INVALID_INPUT") as raised:
            tg.griffin.run({}, whole, spark=spark, repository=repo, partition_by=["ds", "hr"])
        assert len(raised.value.result.rule("acc").reports) == 3
    assert set(repo.runs("hours")["status"]) == {"failed"}


def test_partitions_of_the_same_time_are_reported_separately(spark, tmp_path):
    import json

    sinks = [{"name": "f", "type": "hdfs", "config": {"path": str(tmp_path / "sink")}}]
    source = rows("src", "id int, city string", (1, "Rome"), (2, "Oslo"), (2, "Oslo"))
    whole = job([source], [rule("id", "uniqueness", "u")])
    tg.griffin.run({"sinks": sinks}, whole, spark=spark, partition_by="city")
    value = json.loads((tmp_path / "sink" / "job" / str(NOW) / "_METRICS").read_text())["value"]
    assert {city: found["total"] for city, found in value.items()} == {"city=Rome": 1, "city=Oslo": 2}  # fmt: skip


WRONG = {
    "two sources": ([RULES[0], rule("id", "uniqueness", "u", details={"source": "again"})], ("ds", "hr"), SuiteError, "one source"),
    "a rule without keys": ([rule("select count(*) as n from src", name="n")], ("ds", "hr"), DslError, "select and group by ds"),
    "a source without keys": ([rule("id", "uniqueness", "u", details={"source": "tgt"})], ("ds", "hr"), DslError, "'tgt' has no column 'ds'"),
    "no such key": ([RULES[0]], ("day",), SuiteError, "day"),
    "expression": ([RULES[0]], ("ds", "hr"), SourceError, "parts"),
    "pre": ([RULES[0]], ("ds", "hr"), DslError, "'src' has no column 'hr'"),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "by", "kind", "said"), WRONG.values(), ids=WRONG)
def test_jobs_that_cannot_be_measured_by_partition_are_refused(
    spark, folder, target, tmp_path, rules, by, kind, said
):
    more = {"pre.proc": ["select id, ds from this"]} if "'hr'" in said else {}
    chosen = {"partitions": "parts>>3"} if said == "parts" else {}
    whole = dq(folder, tmp_path / "truth", rules, **more)
    whole["data.sources"].append(
        read("again", "file", {"format": "parquet", "paths": [str(folder)]})
    )
    with pytest.raises(kind, match=said):
        tg.griffin.run({}, whole, spark=spark, partition_by=by, **chosen)
