"""Reading env.json and dq.json: every key, every spelling, and refused values."""

import copy
import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import soak
from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinDeprecationWarning
from tidegauge.griffin.config import ErrorCondition, Output, StreamStore
from tidegauge.griffin.dsl.grammar import milliseconds
from tidegauge.griffin.reading import read_env, read_job

HIVE = {"type": "hive", "config": {"table.name": "t"}}
SOURCE = {"name": "source", "connector": HIVE}


def job(rule=None, source=None, **more):
    rule = {"dq.type": "profiling", "rule": "count(*)", **(rule or {})}
    return {
        "name": "job",
        "data.sources": [{**SOURCE, **(source or {})}],
        "evaluate.rule": {"rules": [rule]},
        **more,
    }


def rule_of(**rule):
    return read_job(job(rule)).rules[0]


TIMES = [
    ("10", 10), ("0", 0), ("10ms", 10), ("7msec", 7), ("7MilliSec", 7), ("7millisecond", 7), ("15s", 15_000),
    ("15SEC", 15_000), ("1second", 1_000), ("10m", 600_000), ("1Min", 60_000), ("1minute", 60_000), ("2h", 7_200_000),
    ("2hr", 7_200_000), ("1hour", 3_600_000), ("3D", 259_200_000), ("3day", 259_200_000), ("-2m", -120_000), ("+5s", 5_000),
    ("-5 min", -300_000), ("10 MSEC", 10), (" 7 ", 7), (7, 7),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_durations_are_parsed(text, expected):
    assert milliseconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "2 Hours",
        None,
        "1.5s",
        "2days",
        "10seconds",
        "1w",
        "٣s",
        "1e3",
        "--1s",
        True,
        "9" * 5000,
    ],
)
def test_invalid_durations_are_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [("spark-sql", "spark-sql"), ("SPARK-SQL", "spark-sql"), ("sparksql", "spark-sql"), ("df-opr", "df-opr"),
     ("df-ops", "df-opr"), ("DF-Operations", "df-opr"), ("dfopr", "df-opr"), ("griffin-dsl", "griffin-dsl")],
)  # fmt: skip
def test_spellings_of_dsl_types_are_recognized(spelled, expected):
    assert rule_of(**{"dsl.type": spelled}).dsl_type == expected


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [("Duplicate", "uniqueness"), ("uniqueness", "uniqueness"), ("distinct", "distinct"), ("distinctness", "distinct"),
     ("ACCURACY", "accuracy"), ("time-liness", "timeliness"), ("completeness", "completeness"), ("profiling", "profiling"),
     ("duplication", "duplication"), ("schema-conformance", "schema-conformance")],
)  # fmt: skip
def test_spellings_of_dq_types_are_recognized(spelled, expected):
    assert rule_of(**{"dq.type": spelled}).dq_type == expected


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ({"type": "metric", "name": "m", "flatten": "list"}, Output("metric", "m", "array")),
        ({"type": "METRIC", "flatten": "Array"}, Output("metric", None, "array")),
        ({"type": "record", "name": "r"}, Output("record", "r")),
        ({"type": "records", "table": "db.t"}, Output("record", None, None, "db.t")),
        ({"type": "dsc-update", "name": "source"}, Output("dsc-update", "source")),
        ({"type": "dscupdate"}, Output("dsc-update")),
        ({"type": "metric", "flatten": "default"}, Output("metric", None, "default")),
        ({"type": "metric", "flatten": "entries"}, Output("metric", None, "entries")),
        ({"type": "metric", "flatten": "map"}, Output("metric", None, "map")),
    ],
)
def test_outputs_are_read(out, expected):
    assert rule_of(out=[out]).outputs == (expected,)


def test_only_the_first_output_of_each_type_is_used_with_a_notice():
    read = read_job(
        job({"out": [{"type": "metric", "name": "a"}, {"type": "metric", "name": "b"}]})
    )
    assert read.rules[0].outputs == (Output("metric", "a"),)
    assert read.notices == (
        "$['evaluate.rule'].rules[0]: only the first out of type 'metric' is used",
    )


WRONG = [
    ("dsl.type spark", job({"dsl.type": "spark"}), "$['evaluate.rule'].rules[0]['dsl.type']: unknown dsl.type 'spark'; did you mean 'spark-sql'?"),
    ("dq.type accu", job({"dq.type": "accu"}), "unknown dq.type 'accu'; did you mean 'accuracy'?"),
    ("dq.type with a space", job({"dq.type": "timeliness "}), "unknown dq.type 'timeliness '; did you mean 'timeliness'?"),
    ("dq.type of many letters", job({"dq.type": "n" * 30_000}), f"unknown dq.type '{'n' * 39}…'; there are"),
    ("dq.type empty", job({"dq.type": ""}), "unknown dq.type ''"),
    ("dq.type missing", job({"dq.type": None}), "$['evaluate.rule'].rules[0]: 'dq.type' is missing"),
    ("out type", job({"out": [{"type": "dsc-calc"}]}), "$['evaluate.rule'].rules[0].out[0].type: unknown type of out 'dsc-calc'; did you mean 'dsc-update'?"),
    ("flatten", job({"out": [{"type": "metric", "flatten": "entry"}]}), "unknown flatten 'entry'; did you mean 'entries'?"),
    ("rule missing", job({"rule": None}), "'rule' is missing"),
    ("rule blank", job({"rule": "  "}), "$['evaluate.rule'].rules[0].rule: is empty"),
    ("key of a rule", job({"detials": {}}), "unknown key 'detials'; did you mean 'details'?"),
    ("key of a job", job(proces=1), "$: unknown key 'proces'"),
    ("key of a source", job(source={"base.line": True}), "$['data.sources'][0]: unknown key 'base.line'; did you mean 'baseline'?"),
    ("key of a connector", job(source={"connector": {**HIVE, "conf": {}}}), "$['data.sources'][0].connector: unknown key 'conf'; did you mean 'config'?"),
    ("type of a connector", job(source={"connector": {"type": "hiv"}}), "unknown connector 'hiv'; did you mean 'hive'?"),
    ("no connector", job(source={"connector": None}), "'connector' is missing"),
    ("two connectors", job(source={"connectors": [HIVE]}), "'connector' and 'connectors' mean the same"),
    ("two sources", {**job(), "data.sources": [SOURCE, {**SOURCE, "name": "Source"}]}, "$['data.sources'][1]: two sources have the name 'Source'"),
    ("process.type", job(**{"process.type": "stream"}), "unknown process.type 'stream'; did you mean 'streaming'?"),
    ("name", job(name=None), "$: 'name' is missing"),
    ("name a number", job(name=5), "$.name: must be text, not a number"),
    ("timestamp", job(timestamp="yesterday"), "$.timestamp: must be milliseconds since 1970"),
    ("timestamp below 0", job(timestamp=-1), "$.timestamp: must be milliseconds"),
    ("no sources", {**job(), "data.sources": []}, "'data.sources' is missing or empty"),
    ("no rules", {**job(), "evaluate.rule": {"rules": []}}, "the job has no rules"),
    ("neither rules nor measures", {"name": "j", "data.sources": [SOURCE]}, "'evaluate.rule' and 'measures' are both missing"),
    ("time of a store", job(source={"checkpoint": {"ready.time.interval": "2mins"}}), "$['data.sources'][0].checkpoint['ready.time.interval']: '2mins' is not a duration"),
    ("range of a store", job(source={"checkpoint": {"time.range": ["0", "-2m"]}}), "must not end before it begins"),
    ("half a range", job(source={"checkpoint": {"time.range": ["0"]}}), "must be a begin and an end"),
    ("format of a store", job(source={"checkpoint": {"type": "paquet"}}), "unknown type 'paquet'; did you mean 'parquet'?"),
    ("griffin-dsl before measuring", job(source={"connector": {**HIVE, "pre.proc": [{"dsl.type": "griffin-dsl", "dq.type": "accuracy", "rule": "a"}]}}), "must have the dsl.type 'spark-sql' or 'df-opr'"),
    ("condition", job({"error.confs": [{"column.name": "a", "type": "regexp", "values": ["x"]}]}), "unknown type of error.confs 'regexp'; did you mean 'regex'?"),
    ("condition without values", job({"error.confs": [{"column.name": "a", "type": "regex"}]}), "'values' is missing"),
    ("a list for a mapping", job(source={"connector": [HIVE]}), "$['data.sources'][0].connector: must be a mapping, not a list"),
    ("a text for a list", job(sinks="console"), "$.sinks: must be a list, not text"),
    ("no truth", job({"cache": "yes"}), "must be true or false, not text"),
    ("not a mapping", [], "$: must be a mapping, not a list"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_invalid_jobs_are_refused(what, message):
    with pytest.raises(GriffinConfigError) as caught:
        read_job(what)
    assert message in str(caught.value)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(GriffinConfigError) as caught:
        read_job(job({"dq.type": "accu", "rule": ""}, tiemstamp=1, timestamp="x"))
    assert len(str(caught.value).splitlines()) == 5


def test_a_rule_with_all_keys_is_read():
    rule = rule_of(
        **{
            "dsl.type": "griffin-dsl",
            "dq.type": "completeness",
            "in.dataframe.name": "a",
            "out.dataframe.name": "b",
            "rule": "id, name",
            "details": {"source": "source", "anything": [1, {"x": None}]},
            "cache": "true",
            "out": [{"type": "record"}, {"type": "metric", "name": "m"}],
            "error.confs": [
                {"column.name": "id", "type": "Enumeration", "values": [1, "hive_none"]}
            ],
        }
    )
    assert (rule.number, rule.name, rule.in_name, rule.cache) == (1, "b", "a", True)
    assert rule.details == {"source": "source", "anything": [1, {"x": None}]}
    assert rule.errors == (ErrorCondition("id", "enumeration", ("1", "hive_none")),)
    assert [o.kind for o in rule.outputs] == ["record", "metric"]


def test_a_job_can_set_the_default_dsl_type():
    what = job({"dsl.type": None, "rule": "select 1 a"})
    what["evaluate.rule"]["dsl.type"] = "spark-sql"
    assert read_job(what).rules[0].dsl_type == "spark-sql"


def test_baselines_come_first_and_a_timestamp_of_0_means_now():
    sources = [{**SOURCE, "name": "a"}, {**SOURCE, "name": "b", "baseline": True}]
    read = read_job({**job(timestamp=0), "data.sources": sources, "sinks": ["Console"]})
    assert [source.name for source in read.sources] == ["b", "a"]
    assert (read.timestamp, read.sinks, read.streaming) == (None, ("Console",), False)
    assert read_job(job(timestamp="17")).timestamp == 17
    assert read_job(job()).sinks is None
    assert read_job(job(sinks=[])).sinks == ()


def test_keys_of_the_griffin_service_are_ignored():
    what = job(
        {"id": 1},
        {"id": 2, "connector": {**HIVE, "id": 3, "name": "c", "version": "1.2", "data.unit": "1day", "predicates": []}},
        **{"measure.type": "griffin", "id": 1, "owner": "x", "deleted": False, "dq.type": "PROFILING"},
    )  # fmt: skip
    assert read_job(what).notices == (
        "$['data.sources'][0].connector.predicates: a job does not wait for them; the scheduler does",
    )


def test_rules_before_measuring_form_a_chain():
    rules = [
        "select a from this",
        {"dsl.type": "df-opr", "rule": "from_json", "out.dataframe.name": "parsed"},
        {"rule": "select b from parsed"},
    ]
    (connector,) = (
        read_job(job(source={"connector": {**HIVE, "pre.proc": rules}})).sources[0].connectors
    )
    assert [(r.dsl_type, r.in_name, r.out_name) for r in connector.pre_proc] == [
        ("spark-sql", "this", "this"),
        ("df-opr", "this", "parsed"),
        ("spark-sql", "parsed", "parsed"),
    ]


def test_a_stream_with_a_store_is_read():
    store = {
        "type": "ORC", "file.path": "hdfs:///x", "info.path": "source", "ready.time.interval": "10s", "ready.time.delay": "0",
        "time.range": ["-5m", "1m"], "updatable": True, "read.only": "false",
    }  # fmt: skip
    read = read_job(job(source={"checkpoint": store}, **{"process.type": "STREAMING"}))
    assert read.streaming
    assert read.sources[0].store == StreamStore(
        "orc", "hdfs:///x", 10_000, 0, (-300_000, 0), True, False
    )
    bare = read_job(job(source={"checkpoint": {}}, **{"process.type": "streaming"}))
    assert bare.sources[0].store == StreamStore("parquet", None, 60_000, 60_000, (-120_000, 0))


OLD = [
    ("connectors", job(source={"connector": None, "connectors": [HIVE]}), "'connectors' is an old spelling; write 'connector'"),
    ("cache", job(source={"cache": {}}), "'cache' is an old spelling; write 'checkpoint'"),
    ("name of a rule", job({"name": "n"}), "'name' is an old spelling; write 'out.dataframe.name'"),
    ("metric", job({"metric": {"name": "m"}}), "'metric' is an old spelling; write 'out'"),
    ("global", job({"global": True}), "'global' is ignored"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "message"), [w[1:] for w in OLD], ids=[w[0] for w in OLD])
def test_old_spellings_are_read_with_a_warning(what, message):
    with pytest.warns(GriffinDeprecationWarning) as caught:
        read_job(what)
    assert any(message in str(w.message) for w in caught)


def without_warnings(read, what):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GriffinDeprecationWarning)
        return read(what)


def test_a_rule_of_griffin_0_2_is_read():
    what = job(
        {
            "name": "accu",
            "metric": {"name": "m", "collect.type": "list"},
            "record": {"name": "missed", "data.source.cache": "source"},
            "details": {"df.name": "json", "miss": "miss_count"},
        }
    )
    (rule,) = without_warnings(read_job, what).rules
    assert (rule.out_name, rule.in_name, rule.details) == ("accu", "json", {"miss": "miss_count"})
    assert rule.outputs == (
        Output("metric", "m", "array"),
        Output("record", "missed"),
        Output("dsc-update", "source"),
    )


def test_a_rule_of_griffin_0_1_6_is_read():
    details = {"persist.type": "record", "update.data.source": "source"}
    (rule,) = without_warnings(read_job, job({"name": "missed", "details": details})).rules
    assert rule.outputs == (Output("record", "missed"), Output("dsc-update", "source"))
    assert rule.details == {}
    (rule,) = without_warnings(read_job, job({"ds.update": {"ds.name": "target"}})).rules
    assert rule.outputs == (Output("dsc-update", "target"),)


def test_records_of_another_frame_are_assigned_to_its_rule():
    rules = [
        {"dsl.type": "spark-sql", "name": "missed", "rule": "select 1 a"},
        {"dsl.type": "spark-sql", "name": "f", "rule": "select 2 b", "record": {"name": "r", "origin.DF": "missed"}},
    ]  # fmt: skip
    first, second = without_warnings(read_job, {**job(), "evaluate.rule": {"rules": rules}}).rules
    assert first.outputs == (Output("record", "r"),)
    assert second.outputs == ()
    rules[1]["record"]["origin.DF"] = "mised"
    with pytest.raises(GriffinConfigError, match="no rule has the output name 'mised'"):
        read_job({**job(), "evaluate.rule": {"rules": rules}})


def test_names_in_braces_of_griffin_0_1_are_read():
    rules = [
        {"dsl.type": "df-opr", "name": "${s1}", "rule": "from_json", "details": {"df.name": "${this}"}},
        {"dsl.type": "spark-sql", "name": "${this}", "rule": "select name, '${s1}' from ${s1}"},
    ]  # fmt: skip
    connector = {**HIVE, "pre.proc": rules}
    first, second = (
        without_warnings(read_job, job(source={"connector": connector}))
        .sources[0]
        .connectors[0]
        .pre_proc
    )
    assert (first.in_name, first.out_name, second.out_name) == ("this", "s1", "this")
    assert second.rule == "select name, '${s1}' from `s1`"


def test_the_oldest_form_of_a_job_is_read():
    what = {
        "name": "accu1",
        "type": "accuracy",
        "process.type": "batch",
        "source": {"type": "hive", "version": "1.2", "config": {"table.name": "users_src"}},
        "target": {"type": "hive", "version": "1.2", "config": {"table.name": "users_target"}},
        "evaluateRule": {
            "sampleRatio": 0.2,
            "rules": "$source.id = $target.id AND $source.name = '$source'",
        },
    }
    read = without_warnings(read_job, what)
    assert [source.name for source in read.sources] == ["source", "target"]
    assert read.sources[1].connectors[0].config == {"table.name": "users_target"}
    (rule,) = read.rules
    assert (rule.dq_type, rule.rule) == (
        "accuracy",
        "source.id = target.id AND source.name = '$source'",
    )
    what["evaluateRule"]["rules"] = "$source.json().id = $target.id"
    with pytest.raises(GriffinConfigError, match="give the connector a 'pre.proc' of 'from_json'"):
        read_job(what)


def test_a_store_of_griffin_0_1_5_has_keys_one_level_deeper():
    old = {
        "type": "text",
        "config": {"file.path": "/x", "ready.time.delay": "5s"},
        "time.range": ["-1m", "0"],
    }
    store = without_warnings(read_job, job(source={"cache": old})).sources[0].store
    assert store == StreamStore("json", "/x", 60_000, 5_000, (-60_000, 0))


@pytest.mark.parametrize(
    ("kind", "config", "ignored"),
    [
        ("df", {"cache.level": "MEMORY_AND_DISK"}, ["['cache.level']"]),
        ("hive", {"database": "d", "table.name": "t", "info.path": "s"}, [".database", "['table.name']"]),
    ],
)  # fmt: skip
def test_rows_that_griffin_0_1_5_kept_in_memory_or_tables_are_stored_in_files(
    kind, config, ignored
):
    old = {"type": kind, "version": 1.2, "config": {**config, "ready.time.interval": "10s"}}
    read = without_warnings(read_job, job(source={"cache": old}))
    assert read.sources[0].store == StreamStore("parquet", None, 10_000)
    assert [n.split("].cache")[1] for n in read.notices] == [f"{key}: ignored; rows are kept in files" for key in ignored]  # fmt: skip


def measure(**more):
    measure = {"name": "m", "type": "accuracy", **more}
    return {"name": "j", "data.sources": [SOURCE, {**SOURCE, "name": "ref"}], "measures": [measure]}


MEASURES = [
    (
        "accuracy",
        {"ref.source": "ref", "expr": [{"source.col": "a`b", "ref.col": "c"}, {"source.col": "d", "ref.col": "d"}]},
        ("accuracy", "`source`.`a``b` = `ref`.`c` AND `source`.`d` = `ref`.`d`"),
        {"target": "ref", "null.match": "sql", "matched": "accurate", "miss": "inaccurate"},
    ),
    ("completeness", {"expr": "zip is not null"}, ("completeness", "zip is not null"), {"expr": "zip is not null"}),
    ("duplication", {"bad.record.definition": "non_unique"}, ("duplication", ""), {"bad.record.definition": "non_unique"}),
    ("Duplication", {"expr": "a, `b,c` , d"}, ("duplication", "`a`, `b,c`, `d`"), {}),
    ("Duplication", {"expr": "`b``,c`,, d e "}, ("duplication", "`b``,c`, `d e`"), {}),
    (
        "profiling",
        {"expr": ["a"], "round.scale": 2, "dataset.sample": 0.5, "approx.distinct.count": False},
        ("column-profiling", "`a`"),
        {"round.scale": 2, "dataset.sample": 0.5, "approx.distinct.count": False},
    ),
    ("profiling", {}, ("column-profiling", ""), {"round.scale": 3, "dataset.sample": 1.0, "approx.distinct.count": True}),
    (
        "schemaConformance",
        {"expr": [{"source.col": "a", "type": "int"}]},
        ("schema-conformance", "`a`"),
        {"expr": [{"column": "a", "type": "int"}]},
    ),
    (
        "sparkSQL",
        {"expr": "select *, a > 1 as bad from source", "bad.record.definition": "bad"},
        ("record-check", "select *, a > 1 as bad from source"),
        {"expr": "select *, a > 1 as bad from source", "bad.record.definition": "bad"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "config", "expected", "details"), MEASURES)
def test_measures_are_read_as_rules(kind, config, expected, details):
    (rule,) = read_job(
        measure(type=kind, config=config, out=[{"type": "metric", "name": "n"}])
    ).rules
    assert (rule.dq_type, rule.rule) == expected
    assert rule.details == {"source": "source", **details}
    assert (rule.out_name, rule.dsl_type, rule.outputs) == (
        "m",
        "griffin-dsl",
        (Output("metric", "n"),),
    )


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("accuracy", {"expr": []}, "'expr' names no columns"),
        ("duplication", {"expr": " , "}, "config.expr: names no columns"),
        ("duplication", {"expr": "a, `b"}, "config.expr: has a quote that does not enclose a name"),
        ("duplication", {"expr": "a`b`, c"}, "config.expr: has a quote that does not enclose a name"),
        ("accuracy", {"expr": [{"source.col": "a", "ref.col": "a"}]}, "$.measures[0].config: 'ref.source' is missing"),
        ("duplication", {"bad.record.definition": "bad"}, "unknown bad.record.definition 'bad'"),
        ("profiling", {"dataset.sample": 2}, "must be a number from 0 to 1"),
        ("sparkSQL", {"expr": "select 1"}, "'bad.record.definition' is missing"),
        ("completness", {}, "unknown type of measure 'completness'; did you mean 'completeness'?"),
        ("completeness", {"exp": "a", "expr": "a"}, "unknown key 'exp'; did you mean 'expr'?"),
    ],
)  # fmt: skip
def test_invalid_measures_are_refused(kind, config, message):
    with pytest.raises(GriffinConfigError) as caught:
        read_job(measure(type=kind, config=config))
    assert message in str(caught.value)


def test_an_environment_with_all_keys_is_read():
    env = read_env(
        {
            "spark": {
                "log.level": "warn",
                "checkpoint.dir": "hdfs:///cp",
                "batch.interval": "2s",
                "process.interval": "10S",
                "init.clear": True,
                "config": {"spark.task.maxFailures": 5, "spark.x": True},
            },
            "sinks": [
                {"name": "a", "type": "Log", "config": {"numRows": 5}},
                {"type": "HDFS", "config": {"path": "/x"}},
            ],
            "griffin.checkpoint": [
                {"type": "zk", "config": {"hosts": "localhost:2181", "mode": "persist"}}
            ],
        }
    )
    assert env.spark == {"spark.task.maxFailures": "5", "spark.x": "true"}
    assert (env.log_level, env.checkpoint, env.init_clear) == ("WARN", "hdfs:///cp", True)
    assert (env.batch_interval, env.process_interval) == (2_000, 10_000)
    assert [(s.name, s.type) for s in env.sinks] == [("a", "console"), ("HDFS", "hdfs")]
    assert "lease" in env.notices[0]
    assert read_env({}).batch_interval == 60_000


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [("Console", "console"), ("Log", "console"), ("Es", "elasticsearch"), ("ElasticSearch", "elasticsearch"),
     ("Http", "elasticsearch"), ("MongoDB", "mongo"), ("mongo", "mongo"), ("hdfs", "hdfs"), ("JDBC", "jdbc"), ("custom", "custom")],
)  # fmt: skip
def test_spellings_of_sinks_are_recognized(spelled, expected):
    assert read_env({"sinks": [{"name": "s", "type": spelled}]}).sinks[0].type == expected


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"sinks": [{"name": "a", "type": "consol"}]}, "$.sinks[0].type: unknown sink 'consol'; did you mean 'console'?"),
        ({"sinks": [{"name": "a", "type": ".*"}]}, "unknown sink '.*'"),
        ({"sinks": [{"name": "a", "type": "log"}, {"name": "A", "type": "log"}]}, "two sinks have the name 'A'"),
        ({"spark": {"batch.interval": "soon"}}, "$.spark['batch.interval']: 'soon' is not a duration"),
        ({"spark": {"process.interval": "-1s"}}, "must be longer than 0"),
        ({"spark": {"loglevel": "WARN"}}, "unknown key 'loglevel'; did you mean 'log.level'?"),
        ({"griffin.checkpoint": [{"type": "redis"}]}, "unknown type 'redis'"),
    ],
)  # fmt: skip
def test_invalid_environments_are_refused(env, message):
    with pytest.raises(GriffinConfigError) as caught:
        read_env(env)
    assert message in str(caught.value)


def test_an_environment_of_griffin_0_1_is_read():
    old = {
        "persist": [{"type": "log"}],
        "info.cache": [{"type": "zookeeper"}],
        "cleaner": {},
        "mail": {},
    }
    with pytest.warns(GriffinDeprecationWarning) as caught:
        env = read_env(old)
    assert [sink.type for sink in env.sinks] == ["console"]
    assert len(env.notices) == 3
    assert {str(w.message) for w in caught} == {
        "env.json: $: 'persist' is an old spelling; write 'sinks'",
        "env.json: $: 'info.cache' is an old spelling; write 'griffin.checkpoint'",
    }


def test_jobs_are_read_from_files_strings_and_dicts(tmp_path):
    text = json.dumps(job())
    (tmp_path / "dq.json").write_text("\ufeff" + text)
    assert read_job(text) == read_job(job()) == read_job(str(tmp_path / "dq.json"))
    assert read_job(tmp_path / "dq.json").name == "job"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.json", "cannot read nowhere.json"),
        ("{", "cannot read dq.json"),
        ('{"name": "a", "name": "b"}', "'name' occurs twice"),
        ('{"timestamp": NaN}', "NaN is not a JSON number"),
        ('{"a":' * 100_000, "cannot read dq.json"),
        ("a\0b", "cannot read"),
    ],
)
def test_unreadable_input_is_refused(text, message):
    with pytest.raises(GriffinConfigError) as caught:
        read_job(text)
    assert message in str(caught.value)


KEYS = st.sampled_from(
    [
        "name",
        "timestamp",
        "process.type",
        "data.sources",
        "evaluate.rule",
        "measures",
        "sinks",
        "rules",
        "rule",
        "dsl.type",
        "dq.type",
        "details",
        "out",
        "type",
        "flatten",
        "connector",
        "connectors",
        "config",
        "cache",
        "checkpoint",
        "time.range",
        "pre.proc",
        "error.confs",
        "values",
        "expr",
        "source",
        "target",
        "evaluateRule",
        "metric",
        "record",
        "ds.update",
        "persist",
        "spark",
        "batch.interval",
        "griffin.checkpoint",
        "ref.source",
    ]
)
WORDS = st.sampled_from(
    ["accuracy", "griffin-dsl", "hive", "2s", "-1", "source", "metric", "${this}"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=40,
)


@pytest.mark.soak
@settings(max_examples=soak(30, 5_000))
@given(st.dictionaries(KEYS, VALUES, max_size=8), st.sampled_from([read_env, read_job]))
def test_random_input_is_read_or_refused(what, read):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GriffinDeprecationWarning)
        try:
            read(what)
        except GriffinConfigError as error:
            assert len(str(error).splitlines()) > 1


@settings(max_examples=soak(30, 5_000))
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.data())
def test_a_valid_job_with_one_replaced_value_is_read_or_refused(more, data):
    what = job({"out": [{"type": "metric"}]}, {"checkpoint": {"time.range": ["-1m", "0"]}})
    place = what = copy.deepcopy(what)
    while data.draw(st.booleans()) and isinstance(place, dict | list) and place:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        if not isinstance(place[key], dict | list):
            place[key] = data.draw(VALUES)
            break
        place = place[key]
    if isinstance(place, dict):
        place.update(more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GriffinDeprecationWarning)
        try:
            read_job(what)
        except GriffinConfigError as error:
            assert len(str(error).splitlines()) > 1
