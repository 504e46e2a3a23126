"""Configuration files of comparisons, and the commands that use them."""

import json
import uuid

import pytest

import tidegauge as tg
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.cli.main import run_command
from tidegauge.consistency import pipeline
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.configuration import (
    CallableBackfill,
    GroupBy,
    QueryBackfill,
    TableBackfill,
)
from tidegauge.files.consistency_files import load_configuration

D5 = 1_672_876_800_000  # 2023-01-05T00:00Z
WHOLE = """
namespace: shop
join: team/search
keys: [user, site]
backfill:
  query: SELECT * FROM logged_keys JOIN offline USING (user, site, ts)
group_bys:
  clicks: {features: [clicks, no], lag_ms: 45m}
  prices:
    features: [price]
    backfill: {callable: "json:loads"}
tolerance: {price: {rel: 1e-6}, clicks: 2}
logged_as: {price: price_usd}
bucket_minutes: 30
sample_percent: 12.5
query_source: web
segment_by: [query_source]
since: 2023-01-02
time: asked_at
payload: [session]
dataset: served
schemas:
  - {key: key.avsc, value: '{"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}', hash: h1}
monitors:
  - {series: {name: Consistency.mismatch}, detector: SimpleThreshold(0.05), severity: error}
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
        (tmp_path / "key.avsc").write_text(json.dumps(key))
        file = tmp_path / "search.yml"
        file.write_text(text)
        return file

    return write_file


def test_variables_are_replaced_and_must_be_declared(write):
    text = WHOLE.replace("SELECT *", "SELECT ${wanted}")
    declared = text + "variables: {wanted: clicks}\n"
    for given, sql in ({}, "SELECT clicks FROM"), ({"wanted": "price"}, "SELECT price FROM"):
        backfill = load_configuration(write(declared), given).backfill
        assert backfill.sql.startswith(sql)
    with pytest.raises(SuiteError, match=r"search.yml:6: no variable 'wanted'; declare it:"):
        load_configuration(write(text))


def test_a_file_with_all_fields_is_read(write):
    configuration = load_configuration(write(WHOLE))
    assert (configuration.dataset, configuration.type, configuration.keys) == (
        "served",
        "join",
        ("user", "site"),
    )
    assert (configuration.name, configuration.time, configuration.payload) == (
        "team/search",
        "asked_at",
        ("session",),
    )
    (schema,) = configuration.schemas
    assert (schema.join, schema.hash, dict(schema.keys)) == ("team/search", "h1", {"user": "long"})
    assert isinstance(configuration.backfill, QueryBackfill)
    assert configuration.group_bys == {
        "clicks": GroupBy(("clicks", "no"), 2_700_000),
        "prices": GroupBy(("price",), 0, CallableBackfill(json.loads, "json:loads")),
    }
    assert configuration.tolerance == {"price": Tolerance(0, 1e-6), "clicks": Tolerance(2)}
    assert (configuration.bucket_minutes, configuration.sample_percent, configuration.since) == (
        30,
        12.5,
        "2023-01-02",
    )
    assert (configuration.query_sources, configuration.segment_by) == (("web",), ("query_source",))
    (monitor,) = configuration.monitors
    assert (monitor["series"], monitor["severity"]) == ({"name": "Consistency.mismatch"}, "error")
    assert configuration.logged_as == {"price": "price_usd"}


def test_a_file_with_few_fields_has_defaults(write):
    text = "namespace: shop\ngroup_by: clicks\nkeys: [user]\nbackfill: {table: shop.offline}\nbucket_minutes:\n"
    configuration = load_configuration(write(text))
    assert (configuration.name, configuration.type, configuration.all_features_name) == (
        "clicks",
        "groupBy",
        "clicks",
    )
    assert (configuration.dataset, configuration.time, configuration.schemas) == (
        "shop.clicks",
        "ts",
        (),
    )
    assert configuration.backfill == TableBackfill("shop.offline")
    assert (configuration.bucket_minutes, configuration.group_bys, configuration.query_sources) == (
        None,
        {},
        (),
    )


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("bucket_minutes: 7", "bucket_minutes is 7"),
        ("k: 13", "k is 13"),
        ("monitors: [{series: {name: Consistency.mismach}}]", "unknown metric of a monitor"),
        (
            "monitors: [{detector: SimpleThrehold(0.1)}]",
            "unknown detector 'SimpleThrehold'; did you",
        ),
        (
            "group_bys: {a: {features: [x], lag_ms: soon}}",
            "group_bys: lag_ms: 'soon' is not a duration",
        ),
        ("group_bys: {a: {feature: [x]}}", "unknown field 'feature'; did you mean 'features'"),
        ("tolerance: {x: {rell: 1}}", "unknown field 'rell'; did you mean 'rel'"),
        ("tolerance: {float: {rel: a}}", "tolerance.float.rel: Input should be a valid number"),
        ("tolerance: {x: -1}", "a tolerance must be a finite number"),
        ("tolerance: {x: much}", "tolerance.x: Input should be a valid number"),
    ],
)
def test_an_error_has_the_line_of_its_field(tmp_path, field, problem):
    file = tmp_path / "search.yml"
    head = "namespace: shop\njoin: search\nkeys: [user]\nbackfill: {query: SELECT 1}\n"
    file.write_text(f"{head}{field}\n")
    with pytest.raises(SuiteError) as caught:
        load_configuration(file)
    assert str(caught.value).startswith(f"{file}:5: {problem}")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("join: team/search", "joins: x"), r"yml:3: unknown field 'joins'; did you mean 'join'"),
        (("join: team/search\n", ""), "names either a join or a group_by"),
        (("keys: [user, site]", "keys: user"), r"yml:4: keys: Input should be a valid list"),
        (("  query:", "  querry:"), "unknown field 'querry'; did you mean 'query'"),
        (("  query:", "  table: t\n  query:"), "a backfill is one of table, query and callable"),
        (
            ("json:loads", "json"),
            "callable 'json' is not a function; write 'module:function', such as 'features.offline:backfill'",
        ),
        (("json:loads", "no_such_module:f"), "callable 'no_such_module:f': No module named"),
        (("lag_ms: 45m", "lag_ms: -1"), "lag_ms of 'clicks' is -1"),
        (("lag_ms: 45m", "lag_ms: soon"), "lag_ms: 'soon' is not a duration"),
        (("lag_ms: 45m", "lag: 1"), "unknown field 'lag'"),
        (("[price]", "[clicks]"), "feature 'clicks' is in two group-bys"),
        (("clicks: 2}", "click: 2}"), "unknown feature 'click'; did you mean 'clicks'"),
        (("12.5", "101"), "101"),
        (("key.avsc", "keys.avsc"), "cannot read the Avro schema 'keys.avsc'"),
        (("key.avsc", "'{}'"), "not an Avro schema"),
        (("payload: [session]", "payload: [site]"), "'site' is both payload and a key"),
        (("payload: [session]", "payload: price"), "'price' is both payload and a feature"),
        (
            ("join: team/search", "join: s\ntype: table"),
            "type must be one of 'join', 'groupBy', not 'table'",
        ),
        (
            ("join: team/search", "group_by: s\ntype: join"),
            "a group_by is of type groupBy, not 'join'",
        ),
        (("SimpleThreshold(0.05)", "Seasonl"), "did you mean 'Seasonal'"),
        (
            ("name: Consistency.mismatch", "instance: prises.*"),
            r"yml:\d+: unknown instance of a monitor 'prises\.\*'; did you mean 'prices",
        ),
        (("rel: 1e-6", "rel: -1"), "a tolerance must be a finite number of at least 0"),
    ],
)
def test_invalid_files_are_refused(write, change, problem):
    with pytest.raises(SuiteError, match=problem):
        load_configuration(write(WHOLE.replace(*change)))


def test_a_file_that_is_not_a_mapping_is_refused(write):
    with pytest.raises(SuiteError, match="one mapping that begins with 'namespace: name'"):
        load_configuration(write("- a"))


def avro(name, **fields):
    columns = [{"name": n, "type": t} for n, t in fields.items()]
    return {"type": "record", "name": name, "fields": columns}


@pytest.mark.parametrize("instance", ["prices", "prices.price", "clicks.*"])
def test_a_monitor_of_an_existing_instance_is_accepted(write, instance):
    text = WHOLE.replace("name: Consistency.mismatch", f"instance: '{instance}'")
    assert load_configuration(write(text)).monitors[0]["series"] == {"instance": instance}


@pytest.mark.parametrize(("rate", "status"), [(0.9, 2), (0.0, 0)])
def test_fail_on_anomaly_sets_the_exit_status(write, tmp_path, monkeypatch, rate, status):
    from tidegauge.cli.options import SparkOptions
    from tidegauge.consistency.log.flattening import Flattened
    from tidegauge.consistency.log.schemas import Columns
    from tidegauge.consistency.pipeline import ConsistencyRun

    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repo:
        days = {f"ds=2023-01-{day:02}": 0.0 for day in range(1, 29)}
        repo.record(
            "served", "Consistency.mismatch", {**days, "ds=2023-01-29": rate}, scale="ratio"
        )
    flattened = Flattened("shop.search_logged", Columns({}, {}, {}), (), (), ())
    done = ConsistencyRun("served", flattened, (), (), "t", "served.log")
    monkeypatch.setattr(pipeline, "run", lambda *_, **__: done)
    monkeypatch.setattr(SparkOptions, "start", lambda _: object())
    arguments = ["consistency", "run", str(write(WHOLE)), "--db", url]
    assert run_command([*arguments, "--fail-on-anomaly"]) == status
    assert run_command(arguments) == 0


@pytest.mark.soak
@pytest.mark.spark
def test_the_commands_log_compare_and_report(spark, write, tmp_path, capsys):
    from tidegauge.consistency.log.client import QueryLog
    from tidegauge.consistency.log.schemas import LogSchema
    from tidegauge.consistency.log.table import append_queries, create_log_table, log_folder

    def run(*arguments):
        status = run_command(["consistency", *map(str, arguments)])
        return status, *capsys.readouterr()

    namespace = f"commands_{uuid.uuid4().hex[:10]}"
    spark.sql(f"CREATE DATABASE {namespace}").collect()
    try:
        create_log_table(spark, namespace)
        with QueryLog(log_folder(spark, namespace)) as log:
            log.register(
                LogSchema.from_schemas("search", avro("K", user="long"), avro("V", n="int"))
            )
            for user in (1, 2):
                log.log("search", {"user": user}, {"n": 1}, ts_millis=D5)
                log.flush()
        bad = [(b"\x02", b"", D5)]
        columns = "key_bytes binary, value_bytes binary, ts_millis long"
        append_queries(spark.createDataFrame(bad, columns), namespace, "search")
        file = write(
            f"namespace: {namespace}\njoin: search\nkeys: [user]\n"
            "backfill: {query: 'SELECT user, ts, CAST(user AS INT) AS n FROM logged_keys'}\n"
            "monitors: [{series: {name: Consistency.mismatch}, detector: SimpleThreshold(0.2)}]\n"
        )
        db = ("--db", f"sqlite:///{tmp_path / 'c.db'}")
        status, out, _ = run("run", file, *db, "--until", "2023-01-05")
        assert status == 0
        assert f"{namespace}.search: 1 new" in out
        assert out.splitlines()[-1].startswith("  2023-01-05")  # the incident
        status, out, _ = run("run", file, *db)
        assert (status, out.splitlines()[-1]) == (0, f"{namespace}.search: nothing new")
        target = tmp_path / "x.jsonl"
        assert run("export", target, *db)[0] == 0
        (line,) = map(json.loads, target.read_text().splitlines())
        assert (line["key"], line["ts"]) == ("search", D5)
        cells = line["metrics"]["segments"][""]["*"]["features"]["n"]
        assert (cells["mismatch"], cells["total"]) == ([0.5], [2])
        status, out, err = run("clean", namespace, "--dry-run")
        assert (status, out) == (0, "ds=2023-01-05/join_name=search\n")
        assert "would drop 1 partition older than 90 days" in err
        status, _, err = run("clean", namespace, "--dry-run", "--compact", *db)
        assert status == 0
        assert "would join 2 files of 1 partition into 1" in err
    finally:
        spark.sql(f"DROP DATABASE {namespace} CASCADE").collect()


def test_a_run_that_fails_before_it_starts_is_stored(monkeypatch):
    def loses(*_, **__):
        raise tg.NoSuchTableError("no query log `shop`.`query_logs`")

    monkeypatch.setattr(pipeline, "run", loses)
    backfill = tg.consistency.QueryBackfill("SELECT user, ts, 3 AS clicks FROM logged_keys")
    search = tg.consistency.Configuration("shop", "search", ("user",), backfill)
    with tg.Repository("sqlite://") as repo:
        with pytest.raises(tg.NoSuchTableError, match="no query log"):
            tg.consistency.run(search, repository=repo, spark=object(), since="2023-01-05")
        (run,) = repo.runs("shop.search").to_dict("records")
        assert run["status"] == "failed"
        assert run["selection"] == "2023-01-05.."
