"""Job files in the forms of Griffin's releases, guides and service. All of them mean the same job."""

import itertools
import json
import warnings

import pytest

from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinDeprecationWarning
from tidegauge.griffin.config import Output
from tidegauge.griffin.reading import read_job

HIVE = {"database": "default", "table.name": "users"}

# The connector of a source by release: 0.1.4 to 0.2 in a list, with a version; the first service as a string.
CONNECTORS = {
    "0.6": {"connector": {"type": "hive", "config": HIVE}},
    "0.3": {"connectors": [{"type": "HIVE", "version": "1.2", "config": HIVE}]},
    "0.1.5 service": {
        "connectors": [{"id": 4, "type": "HIVE", "version": "1.2", "config": json.dumps(HIVE)}]
    },
    "0.2 service": {
        "id": 9,
        "connectors": [
            {"id": 5, "name": "source_1", "type": "HIVE", "version": "1.2", "predicates": [],
             "data.unit": "1day", "data.time.zone": "UTC", "config": HIVE, "pre.proc": None},
        ],
    },
    "0.2 cache": {
        "connectors": [{"type": "hive", "version": "1.2", "config": HIVE}],
        "cache": {"file.path": "hdfs:///c", "info.path": "source", "ready.time.interval": "10s",
                  "ready.time.delay": "0", "time.range": ["-5m", "0"], "init.clear": True},
    },
}  # fmt: skip

# Outputs of a rule: the metric `accu`, the records `missing`.
OUTPUTS = {
    "out": {
        "out.dataframe.name": "accu",
        "out": [{"type": "metric", "name": "accu"}, {"type": "record", "name": "missing"}],
    },
    "out of the service": {
        "out.dataframe.name": "accu",
        "out": [{"id": 1, "type": "METRIC", "name": "accu", "flatten": None},
                {"id": 2, "type": "RECORD", "name": "missing"}],
    },
    "0.2": {"name": "accu", "metric": {"name": "accu"}, "record": {"name": "missing"}},
    "0.1.6": {
        "details": {
            "miss.records": {"name": "missing", "persist.type": "record"},
            "accuracy": {"name": "accu", "persist.type": "metric"},
        }
    },
    "0.1.6 of the rule, beside a table": {
        "name": "accu",
        "persist.type": "metric",
        "details": {"missing": {"persist.type": "record"}},
    },
    "0.1.6 by persist.name": {
        "details": {
            "persist.type": "metric",
            "persist.name": "accu",
            "miss.records": {"persist.name": "missing", "persist.type": "record"},
        }
    },
    "0.1.6 by their keys": {
        "details": {
            "missing": {"persist.type": "record"},
            "accu": {"persist.type": "metric"},
        }
    },
}  # fmt: skip

JOBS = {
    "0.6": ("evaluate.rule", {}),
    "0.1.6": ("evaluateRule", {}),
    "0.1.6 service": (
        "evaluateRule",
        {"id": 1, "description": "test", "organization": "org", "owner": "test", "type": "accuracy",
         "deleted": False},
    ),
    "0.2 service": (
        "evaluate.rule",
        {"id": 1, "description": None, "organization": None, "measure.type": "griffin",
         "type": "griffin", "dq.type": "ACCURACY", "owner": "test", "deleted": False},
    ),
}  # fmt: skip

RULES = {
    "0.6": {"dsl.type": "griffin-dsl", "dq.type": "accuracy"},
    "service": {"id": 7, "dsl.type": "griffin-dsl", "dq.type": "ACCURACY", "description": "d",
                "rule.description": {"details": []}},
    "without dsl.type": {"dq.type": "ACCURACY"},
}  # fmt: skip
PROCESS = ("batch", "BATCH")

FORMS = list(itertools.product(JOBS, CONNECTORS, OUTPUTS, RULES, PROCESS))


def job_file(job, connector, outputs, rule, process):
    key, more = JOBS[job]
    out = dict(OUTPUTS[outputs])
    details = {"source": "src", "target": "tgt", **out.pop("details", {})}
    return {
        "name": "accu_job",
        "process.type": process,
        **more,
        "data.sources": [{"name": name, **CONNECTORS[connector]} for name in ("src", "tgt")],
        key: {"rules": [{**RULES[rule], "rule": "src.id = tgt.id", "details": details, **out}]},
    }


def test_all_forms_are_the_same_job():
    assert len(FORMS) == 840
    for form in FORMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = read_job(json.dumps(job_file(*form)))
        (rule,) = read.rules
        assert [(s.name, s.connectors[0].type) for s in read.sources] == [
            ("src", "hive"), ("tgt", "hive")], form  # fmt: skip
        assert read.sources[0].connectors[0].config == HIVE, form
        assert (rule.name, rule.dq_type, rule.rule) == ("accu", "accuracy", "src.id = tgt.id"), form
        assert rule.details == {"source": "src", "target": "tgt"}, form
        assert set(rule.outputs) == {Output("metric", "accu"), Output("record", "missing")}, form


def test_a_cache_of_0_2_is_read_with_a_notice_about_init_clear():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = read_job(job_file("0.6", "0.2 cache", "out", "0.6", "batch"))
    assert read.sources[0].store.ready_interval == 10_000
    assert "['data.sources'][0].cache['init.clear']: ignored" in read.notices[0]


def test_records_of_0_1_6_that_update_a_source_are_read():
    job = job_file("0.1.6", "0.6", "0.1.6", "0.6", "batch")
    records = job["evaluateRule"]["rules"][0]["details"]["miss.records"]
    job["evaluateRule"]["rules"][0]["details"]["miss.records"] = {
        **records, "update.data.source": "src"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (rule,) = read_job(job).rules
    assert rule.output("dsc-update") == Output("dsc-update", "src")


@pytest.mark.parametrize(
    ("rule", "outputs", "cached"),
    [
        ({"persist.type": "record"}, [Output("record", "r")], False),
        ({"persist.type": "METRIC"}, [Output("metric", "r")], False),
        ({"persist.type": "none"}, [], False),
        ({"persist.type": "cache"}, [], True),
        ({"persist.type": "none", "cache": True}, [], True),
        ({"details": {"persist.type": "metric", "persist.name": "m"}}, [Output("metric", "m")], False),
        ({"persist.type": "metric", "details": {"persist.name": "m"}}, [Output("metric", "m")], False),
        ({"details": {"persist.type": "metric", "collect.type": "array"}}, [Output("metric", "r", "array")], False),
        ({"details": {"persist.type": "metric", "collect.type": "list"}}, [Output("metric", "r", "array")], False),
        ({"persist.type": "metric", "details": {"collect.type": "map"}}, [Output("metric", "r", "map")], False),
        ({"details": {"groups": {"persist.type": "metric"}, "as.array": True}}, [Output("metric", "groups", "array")], False),
        ({"details": {"groups": {"persist.type": "metric"}, "as.array": False}}, [Output("metric", "groups")], False),
        ({"details": {"groups": {"persist.name": "g", "persist.type": "metric", "collect.type": "entries"}}},
         [Output("metric", "g", "entries")], False),
        ({"details": {"missed": {"persist.type": "record", "collect.type": "array", "cache.data.source": "src"}}},
         [Output("record", "missed"), Output("dsc-update", "src")], False),
    ],
)  # fmt: skip
def test_outputs_of_a_rule_before_0_2_are_read(rule, outputs, cached):
    job = job_file("0.1.6", "0.6", "0.2", "0.6", "batch")
    job["evaluateRule"]["rules"] = [
        {"dsl.type": "spark-sql", "name": "r", "rule": "select 1", **rule}
    ]
    with pytest.warns(GriffinDeprecationWarning) as caught:
        (read,) = read_job(job).rules
    assert list(read.outputs) == outputs
    assert read.cache is cached
    assert read.details == {}
    old = [
        key
        for key in ("persist.type", "persist.name", "collect.type", "as.array")
        if key in str(rule)
    ]
    assert all(any(repr(key) in str(warning.message) for warning in caught) for key in old)  # fmt: skip


def test_rules_before_measuring_were_cached_by_their_persist_type():
    job = job_file("0.1.6", "0.6", "0.1.6", "0.6", "batch")
    rules = [
        {"dsl.type": "df-opr", "name": "${s}", "rule": "from_json", "persist.type": "cache"},
        {"dsl.type": "spark-sql", "name": "${this}", "rule": "select id from ${s}"},
    ]
    job["data.sources"][0]["connector"] = {"type": "hive", "config": HIVE, "pre.proc": rules}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed, chosen = read_job(job).sources[0].connectors[0].pre_proc
    assert (parsed.cache, chosen.cache) == (True, False)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"persist.type": "metrics"}, "['persist.type']: unknown persist.type 'metrics'; did you mean 'metric'?"),
        ({"persist.type": 3}, "['persist.type']: unknown persist.type 3"),
        ({"details": {"persist.type": "metrics"}}, ".details: unknown persist.type 'metrics'"),
        ({"details": {"persist.type": "metric", "collect.type": "lst"}}, ".details: unknown collect.type 'lst'"),
        ({"details": {"persist.type": "metric", "persist.name": 3}}, ".details: 'persist.name' must be text"),
    ],
)  # fmt: skip
def test_invalid_outputs_before_0_2_are_refused(rule, message):
    job = job_file("0.1.6", "0.6", "0.2", "0.6", "batch")
    job["evaluateRule"]["rules"] = [
        {"dsl.type": "spark-sql", "name": "r", "rule": "select 1", **rule}
    ]
    with pytest.raises(GriffinConfigError) as caught:
        read_job(job)
    assert message in str(caught.value)


def test_null_equals_a_missing_key():
    job = job_file("0.6", "0.6", "out", "0.6", "batch")
    assert read_job({**job, "some.column": None}).name == "accu_job"


def test_a_list_with_one_element_and_duplicate_keys_are_read():
    text = json.dumps(
        job_file("0.2 service", "0.2 service", "out of the service", "service", "BATCH")
    )
    twice = text.replace(
        '"measure.type": "griffin"', '"measure.type": "griffin", "measure.type": "griffin"'
    )
    assert twice.count("measure.type") == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_job(f"[{twice}]") == read_job(text)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"name": "j", "measure.type": "external", "metric.name": "m"}, "an external measure has no rules"),
        ({"name": "j", "type": "streaming"}, "unknown key 'type'"),
        ("[]", "must be a mapping, not a list"),
        ('[{"name": "a"}, {"name": "b"}]', "dq.json is a list of 2 items; pass one of them"),
        ('{"name": "a", "name": "b"}', "'name' occurs twice with different values"),
        ("", "cannot read dq.json: it is empty"),
        (b"", "cannot read dq.json: it is empty"),
        (b"nowhere.json", "cannot read dq.json: Expecting value"),
        ("password=s3cret here", "cannot read password=*** here: No such file"),
        ("nowhere.json", "cannot read nowhere.json: No such file or directory"),
    ],
)  # fmt: skip
def test_invalid_jobs_are_refused(job, message):
    with pytest.raises(GriffinConfigError) as caught:
        read_job(job)
    assert message in str(caught.value)


@pytest.mark.parametrize("before", ["\ufeff", "\ufeff \n", ""])
def test_text_can_begin_with_a_byte_order_mark(before):
    text = before + json.dumps(job_file("0.6", "0.6", "out", "0.6", "batch"))
    assert read_job(text).name == read_job(text.encode()).name == "accu_job"


@pytest.mark.parametrize(
    "text",
    ['"name": "j", "password": "s3cret"', "name: j\npassword: s3cret", '{"password": "s3cret"',
     '[{"password": "s3cret"', 'x = {"password": "s3cret"}'],
)  # fmt: skip
def test_errors_do_not_show_invalid_json(text):
    with pytest.raises(GriffinConfigError) as caught:
        read_job(text)
    assert "s3cret" not in str(caught.value)
    assert "cannot read dq.json" in str(caught.value)
