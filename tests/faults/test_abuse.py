"""Hostile strings and bytes, tried on every entry point that needs no Spark.

`test_abuse_of_spark` tries the same strings on the other entry points.
"""

import csv
import hashlib
import io
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import yaml
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tests.conftest import soak
from tests.paths import ROOT
from tests.support.crafted import hll_sketches
from tests.support.hostile import TEXTS
from tests.support.in_time import run_in_time
from tests.support.integrity import check
from tidegauge.analyzers.core.errors import StateError
from tidegauge.analyzers.core.formatting import for_terminal
from tidegauge.analyzers.core.registry import STATE_MODULES
from tidegauge.analyzers.core.state import READERS, read_state
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.checks.suggestions import rules_yaml
from tidegauge.cli.main import run_command
from tidegauge.cli.output import SafeTerminal
from tidegauge.files.rules_files import load_rules
from tidegauge.files.suite_files import load_suite
from tidegauge.profiler import Choice, Profile
from tidegauge.repository.exchange import (
    csv_file,
    openlineage_event,
    parquet_file,
    prometheus_text,
)
from tidegauge.repository.store import schema, stored_states
from tidegauge.repository.store.stored_states import Payload
from tidegauge.repository.testing import commit, day, judged, measurement
from tidegauge.rules.record_counts import RecordCounts
from tidegauge.widgets.backend import DashboardConfig, DashboardSource

EVERY_DAY = {"sql", "html", "formula", "terminal", "null"}


@pytest.fixture(
    params=[
        pytest.param(text, id=name, marks=() if name in EVERY_DAY else pytest.mark.soak)
        for name, text in TEXTS.items()
    ]
)
def text(request):
    return request.param


def test_names_values_labels_and_tags_are_stored_and_shown_unchanged(text, tmp_path, capsys):
    """They are also data in every output: CSV, JSON, HTML and tables on the terminal."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    name = text.replace("\x00", "")
    stored = text.replace("\x00", "\\x00")
    with tg.Repository(url) as repository:
        days = {"ds=2013-01-01": 10.0, "ds=2013-01-02": 10.0, "ds=2013-01-03": 99.0}
        repository.record(name, text, days, instance=text, segment=f"s={text}")
        repository.detect(name, [tg.Monitor({}, tg.SimpleThreshold(50))])
        (anomaly,) = repository.anomalies(name)["id"]
        repository.label(int(anomaly), "expected", note=text, by=text)
        judged(repository, dataset=name, name=text, result=json.dumps({"x": text}))
        frame = repository.metrics(name, name=stored, instance=stored, segment=f"s={stored}")
        assert len(frame) == 3
        assert repository.datasets() == [name]
        assert repository.labels(name)["note"].tolist() == [stored]
        assert check(repository.database, repository.artifacts) == []
    page = tmp_path / "page.html"
    for command in (
        ["metrics", name, "--db", url, "--format", "csv"],
        ["anomalies", "list", name, "--db", url],
        ["report", name, "--db", url, "--html", str(page)],
        ["metrics", name, "--db", url, "--format", "json"],
    ):
        assert run_command(command) == 0, command
        said = capsys.readouterr()
        assert said.err == ""
        if "csv" in command:
            rows = list(csv.DictReader(io.StringIO(said.out)))
            assert len(rows) == 3
            assert not [
                cell for row in rows for cell in row.values() if cell.startswith(("=", "@", "\t"))
            ]
            assert not [cell for row in rows for cell in row.values() if cell.startswith("+cmd")]
        if "json" in command:
            assert {row["name"] for row in json.loads(said.out)} == {stored}
    html = page.read_text()
    assert "<img src=x" not in html
    assert "<script>alert" not in html


def record_named(repository, text):
    """Record a dataset whose names are all the given string; return its name and the stored string."""
    name = text.replace("\x00", "")
    days = {"ds=2013-01-01": 10.0, "ds=2013-01-02": 10.0, "ds=2013-01-03": 99.0}
    repository.record(name, text, days, instance=text, segment=f"s={text}")
    repository.detect(name, [tg.Monitor({}, tg.SimpleThreshold(50))])
    return name, text.replace("\x00", "\\x00")


def test_exports_contain_hostile_strings_as_data(text, repo, tmp_path):
    """Readers of Prometheus, JSON, CSV and Parquet get them back; CSV escapes formulas."""
    from prometheus_client.parser import text_string_to_metric_families

    name, stored = record_named(repo, text)
    families = {f.name: f for f in text_string_to_metric_families(prometheus_text(repo))}
    (sample,) = families["tidegauge_metric"].samples
    labels = [sample.labels[key] for key in ("dataset", "name", "instance", "segment")]
    assert labels == [name, stored, stored, f"s={stored}"]
    repo.record(name, text, {"ds=2013-01-03": 1.0}, instance=f"all {text}")
    event = json.loads(json.dumps(openlineage_event(repo, name), allow_nan=False))
    assert event["inputs"][0]["name"] == name
    for write, read in ((csv_file, pd.read_csv), (parquet_file, pd.read_parquet)):
        assert write(repo.pages(name, segment=f"s={stored}"), tmp_path / "metrics") == 3
        actual = read(tmp_path / "metrics")
        assert set(actual["instance"].str.lstrip("'")) == {stored.lstrip("'")}
        if write is csv_file:
            assert not actual["instance"].str.startswith(("=", "+", "@")).any()


def test_log_messages_stay_on_one_line(text, repo, caplog):
    record_named(repo, text)
    with caplog.at_level("INFO", "tidegauge.incidents"):
        (notice,) = tg.notify(repo, "log", severity="info")
    assert not notice.error
    said = caplog.records[-1].getMessage()
    assert not set("\x00\x07\x1b\x9b\u202e") & set(said)
    assert "\n2026-01-01 INFO" not in said


def test_errors_on_terminals_hold_no_control_characters(text, tmp_path, capsys):
    """The errors quote arguments, missing files and values of suite files."""
    suite = tmp_path / "suite.yml"
    suite.write_text(yaml.safe_dump({"dataset": "d", "path": "/t", "analyzers": [text]}))
    db = ["--db", f"sqlite:///{tmp_path / 'r.db'}"]
    url = text.replace("\x00", "")
    for command in (
        ["metrics", text, *db],
        ["metrics", "d", "--as-of", text, *db],
        ["db", "current", "--db", url],
        ["db", "restore", url, *db],
        ["import", "deequ", url, "--dataset", text, *db],
        ["rules", "check", str(suite)],
        [text],
    ):
        assert run_command(command) == 1, command
        said = capsys.readouterr()
        assert said.err
        assert not set("\x00\x07\x1b\x9b\u202e") & set(said.out + said.err), command


def test_suite_files_return_hostile_strings_unchanged(text, tmp_path):
    file = tmp_path / "suite.yml"
    written = text.replace("${", "$${")  # so that it is a literal and not a variable
    entry = {"Mean": {"column": written, "where": written}}
    file.write_text(yaml.safe_dump({"dataset": written, "path": "/t", "analyzers": [entry]}))
    (actual,) = load_suite(file).suite.analyzers
    assert (actual.column, actual.where) == (text, text.strip())


def test_proposed_rules_files_accept_any_name(text, tmp_path):
    check = tg.Check("c").is_unique(text).has_pattern(text, "a")
    file = tmp_path / "rules.yml"
    actual = [(one, f"of {text}") for one in check.constraints]
    place = f"/in/{text}".replace("\0", "")
    file.write_text(rules_yaml(text, place, actual))
    unique, pattern = load_rules(file).dqm.tasks.rules
    assert (unique, pattern) == (tg.UniqueRule([text]), tg.FormatRule(text, "a", whole=False))
    assert (load_rules(file).suite.dataset, load_rules(file).table) == (text, place)


def test_proposed_suites_accept_any_name(text, tmp_path):
    suite = tg.Suite(text, [tg.Mean(text, where=text)], partition_by=[text])
    choices = tuple(Choice(one, f"of {text}") for one in suite.analyzers)
    actual = Profile(suite, f"/in/{text}", 1, choices, options={text: text}, left_out={text: text})
    file = tmp_path / "suite.yml"
    file.write_text(actual.to_yaml())
    read = load_suite(file)
    assert (read.suite.dataset, read.suite.analyzers) == (text, suite.analyzers)
    assert (read.suite.partition_by, read.table, read.options) == (
        (text,),
        f"/in/{text}",
        {text: text},
    )


def test_variables_in_files_cannot_expand_without_limit(tmp_path):
    """Aliases of one string share one value; the expanded strings may not exceed the limit of a file."""
    file = tmp_path / "rules.yml"

    def rules_of(variables, *rules):
        lines = ["dataset: d", "table: t", f"variables: {variables}", "rules:", *rules]
        file.write_text("\n".join(lines))
        return load_rules(file).dqm.tasks.rules

    first, second = "- Rule: {expr: &c \"x = '$${v}'\", name: a}", "- Rule: {expr: *c, name: b}"
    one, other = rules_of("{v: '1'}", first, second)
    assert one.expression.text == other.expression.text == "(\nx = '${v}'\n)"
    many = [f"- Rule: {{expr: *c, name: r{i}}}" for i in range(40)]
    doubled = rules_of("{v: '$${v}$${v}'}", "- Rule: {expr: &c 'x = ${v}', name: a}", *many)
    assert {rule.expression.text for rule in doubled} == {"(\nx = ${v}${v}\n)"}
    long = f"{{v: '{'x' * 200_000}'}}"
    for rule in (f"- Rule: {'${v}' * 50_000}", *[[f"- Rule: 'a{i} ${{v}}'" for i in range(60)]]):
        with pytest.raises(tg.SuiteError, match="more than 10,000,000 characters"):
            rules_of(long, *([rule] if isinstance(rule, str) else rule))
    with pytest.raises(tg.SuiteError, match="the variable 'v' must be a string"):
        rules_of("{v: [1]}", "- Rule: x")


def test_tables_in_pipes_are_escaped_and_exports_are_not(text, tmp_path, capfd):
    """A pager or a job log eventually shows the tables on a terminal."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repo:
        name, stored = record_named(repo, text)
    for command in (
        ["report"],
        ["anomalies", "list", name],
        ["anomalies", "list", name, "--incidents"],
        ["metrics", name],
        ["dataset", "list"],
    ):
        assert run_command([*command, "--db", url]) == 0, command
        output = capfd.readouterr()
        assert not set("\x00\x07\x1b\x9b\u202e") & set(output.out + output.err), command
    for command in (["export", "csv", name], ["metrics", name, "--format", "csv"]):
        assert run_command([*command, "--db", url]) == 0
        rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out, newline="")))
        assert {row["instance"].lstrip("'") for row in rows} == {stored.lstrip("'")}
    assert run_command(["metrics", name, "--format", "json", "--db", url]) == 0
    assert {row["instance"] for row in json.loads(capfd.readouterr().out)} == {stored}


def test_an_unpaired_surrogate_is_refused(repo, tmp_path):
    said = "it contains an unpaired surrogate"
    commit(repo, day(1))
    with pytest.raises(tg.TidegaugeError, match=said):
        repo.record("d", "m\ud800", 1.0, partition="ds=2013-01-01")
    with pytest.raises(tg.TidegaugeError, match=said):
        repo.metrics("d", name="m\ud800")
    file = tmp_path / "s.yml"
    file.write_text('"\\ud800": x\ndataset: d\n')
    with pytest.raises(tg.SuiteError, match=r"s\.yml:1: unknown field '\\ud800'"):
        load_suite(file)


def test_numbers_beyond_64_bits_are_refused(repo):
    commit(repo, day(1))
    for ask in (lambda: repo.label(10**30, "bad"), lambda: repo.metrics("d", as_of=10**30)):
        with pytest.raises(tg.TidegaugeError, match=r"64 bits|the run does not exist"):
            ask()


def test_states_can_have_any_name(text, repo):
    repo.states(text).persist(tg.Size(), NumMatches(3))
    assert repo.states(text).load(tg.Size()) == NumMatches(3)
    assert not repo.artifacts.files()


def test_every_dashboard_query_answers_hostile_parameters(text, tmp_path):
    """The answer may be an error, but it contains no path of this machine."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repository:
        name, _ = record_named(repository, text)
    source = DashboardSource(DashboardConfig(url))
    backend = source.backend()
    keys = (
        "dataset",
        "table",
        "series",
        "partition",
        "incident",
        "name",
        "author",
        "view",
        "action",
        "text",
    )
    for ask in backend.questions:
        for about in ({}, dict.fromkeys(keys, text), {"options": dict.fromkeys(keys, text)}):
            reported, _ = backend.answer({"id": text, "question": ask, "params": about}, text)
            json.dumps(reported, allow_nan=False)
            assert str(tmp_path) not in str(reported.get("error"))
    for view in ("home", "overview", "incidents"):
        about = {"view": view, "options": {}, "dataset": None}
        reported, _ = backend.answer({"id": 1, "question": "csv", "params": about}, None)
        cells = [
            cell
            for row in csv.reader(io.StringIO(reported["payload"]["content"], newline=""))
            for cell in row
        ]
        assert any(name in cell for cell in cells)
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+c", "\t", "\r"))]
    source.close()


def test_hostile_names_raise_our_errors(text, repo):
    commit(repo, day(1))
    with pytest.raises(tg.TidegaugeError):
        repo.metrics("d", name=text)
    with pytest.raises(tg.TidegaugeError):
        repo.metrics(text)
    with pytest.raises(tg.TidegaugeError):
        repo.metrics("d", since=text)
    with pytest.raises(tg.TidegaugeError):
        repo.forget(" ")


def test_control_characters_are_not_written_to_terminals():
    screen = io.StringIO()
    SafeTerminal(screen).write("".join(TEXTS.values()) + "\x1b[1mbold\x1b[0m\n")
    shown = screen.getvalue()
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert not {"\x07", "\x9b", "\u202e", "\x00"} & set(shown)
    assert shown.endswith("\x1b[1mbold\x1b[0m\n")
    for hiding in ("\x1b[8m", "\x1b[30;40m", "\x1b[1;8m", "\x1b[38;5;0m"):
        assert for_terminal(hiding) == hiding.replace("\x1b", "\\x1b")
    assert for_terminal("plain \u00fc\ttext\n") == "plain \u00fc\ttext\n"


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch {mark}']",
        "dataset: d\npath: /t\nanalyzers: [!!python/object/apply:os.system ['touch {mark}']]",
        "a: &a [x, x]\nb: &b [*a, *a]\ndataset: *b\n",
        "dataset: d\n<<: *nothing\n",
        pytest.param("[" * 2000, marks=pytest.mark.soak),
        "dataset: d\npath: /t\nanalyzers: [\"__import__('os').system('touch {mark}')\"]",
        "dataset: d\npath: /t\nanalyzers: [{{Size: {{__class__: x}}}}]",
        "\x00",
        "dataset: d\ndataset: e\npath: /t\nanalyzers: [Size]",
    ],
)
def test_yaml_tags_that_run_code_are_refused(tmp_path, text):
    mark = tmp_path / "mark"
    file = tmp_path / "suite.yml"
    file.write_text(text.replace("{mark}", str(mark)).replace("{{", "{").replace("}}", "}"))
    with pytest.raises(tg.SuiteError):
        load_suite(file)
    assert not mark.exists()


def test_errors_that_quote_long_values_are_matched_in_linear_time():
    """A damaged row of slashes blocked the driver for hours, in which it handled no signal."""
    run_in_time(r"""
        from tidegauge.analyzers.core.errors import describe
        from tidegauge.analyzers.core.partitions import Partition
        from tidegauge.analyzers.scan.spark_errors import named_partitions

        days = [Partition(("ds",), ("2024-01-02",))]
        for text in ("/", "a=", "/=", "most recent failure: ", "An error occurred while calling "):
            error = OSError(text * 100_000 + " file:/t/ds=2024-01-02/a.csv")
            assert named_partitions(error, days) == set(days)
            describe(error)
    """)


def test_sql_with_unclosed_brackets_is_parsed_in_linear_time():
    run_in_time(r"""
        from tidegauge.analyzers.core.conditions import compare_exactly
        from tidegauge.analyzers.core.schema import Schema
        from tidegauge.analyzers.core.sql import names_in, protect_names, without_filters, words_in

        schema = Schema.from_types({"x": "decimal(38,2)"})
        for text in ("/* ", "'\\", "\\'", '\"', "`", "(\n"):
            for of in (names_in, protect_names, without_filters, words_in):
                of(text * 300_000)
            compare_exactly("x > 0.1" + text * 300_000, schema)
    """)


def test_nested_aliases_are_refused(tmp_path):
    """A billion laughs: nine levels of ten aliases each, in a field that accepts strings."""
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 10) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 10)]
    file = tmp_path / "suite.yml"
    file.write_text("\n".join([*lines, "dataset: d", "path: /t", "analyzers: [Size]"]))
    with pytest.raises(tg.SuiteError, match="aliases"):
        load_suite(file)


# States


def payload(content, **changed):
    kept = {"tag": "frequencies/1", "payload": content, "artifact": None}
    return Payload(**{**kept, "checksum": hashlib.sha256(content or b"").hexdigest(), **changed})


def test_links_out_of_the_folder_of_states_are_not_followed(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.parquet").write_bytes(b"x")
    folder = tmp_path / "large"
    folder.mkdir()
    (tmp_path / "linked").symlink_to(folder)
    (folder / "file.parquet").symlink_to(tmp_path / "secret" / "a.parquet")
    (folder / "dir").symlink_to(tmp_path / "secret")
    (folder / "own.parquet").write_bytes(b"x")
    (folder / "inside.parquet").symlink_to(folder / "own.parquet")
    for root in (folder, tmp_path / "linked"):
        files = stored_states.Artifacts(root)
        for path in ("file.parquet", "dir/a.parquet"):
            for use in (files.read, files.remove, files.modified):
                with pytest.raises(tg.CorruptStateError, match="leads out of"):
                    use(path)
            with pytest.raises(tg.CorruptStateError, match="leads out of"):
                files.write(path, b"y")
        assert files.read("inside.parquet") == files.read("own.parquet") == b"x"
    assert (tmp_path / "secret" / "a.parquet").read_bytes() == b"x"


def test_db_check_names_triggers_and_tables_of_a_foreign_file(tmp_path):
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repo:
        commit(repo, day(1))
        assert check(repo.database, repo.artifacts) == []
        with repo.database.transaction() as connection:
            connection.exec_driver_sql("CREATE TABLE other (x)")
            connection.exec_driver_sql(
                "CREATE TRIGGER spy AFTER INSERT ON label BEGIN INSERT INTO other VALUES (1); END"
            )
        assert check(repo.database, repo.artifacts) == [
            "a table 'other' does not belong to Tidegauge",
            "a trigger 'spy' of label does not belong to Tidegauge, and runs when that table is written to",
        ]


@pytest.mark.parametrize("path", ["../secret.parquet", "/etc/passwd", "a/../../secret.parquet"])
def test_state_files_are_stored_inside_their_folder(tmp_path, path):
    (tmp_path / "secret.parquet").write_bytes(b"x")
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}", artifacts=tmp_path / "large") as repo:
        stored = payload(None, artifact=path, checksum=hashlib.sha256(b"x").hexdigest())
        with pytest.raises(StateError, match="leads out of"):
            repo.artifacts.unpack(stored)
        with pytest.raises(StateError, match="leads out of"):
            repo.artifacts.remove(path)
    assert (tmp_path / "secret.parquet").exists()


def test_a_small_file_of_a_billion_rows_is_refused():
    """Equal rows take a few kilobytes in Parquet; no state of distinct values looks like that."""
    one = FrequenciesAndNumRows.from_groups([(("a",), 1)])
    schema = pq.read_schema(io.BytesIO(one.pack()))
    sink = io.BytesIO()
    block = pa.table({"0": ["a"] * 10**6, "count": [1] * 10**6}, schema=schema)
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(block)
    bomb = sink.getvalue()
    assert len(bomb) < 200_000
    with pytest.raises(StateError, match="would take"):
        read_state("frequencies/1", bomb)


def test_groups_without_counts_are_refused():
    content = FrequenciesAndNumRows.from_groups([(("a",), 1)]).pack()
    with pytest.raises(StateError, match="not of groups and their counts"):
        read_state("frequencies/1", content.replace(b"count", b"gount"))


@pytest.mark.parametrize(
    ("tag", "columns"),
    [
        ("group-sums/1", {"0": ["a"], "sum": pa.array([b"x" * 32], pa.binary(32)), "count": [1]}),
        ("group-sums/1", {"0": ["a"], "sum": [1.0], "count": ["1"]}),
        ("frequencies/1", {"0": ["a"], "count": [1.5]}),
        ("frequencies/1", {"0": [["a", "b"]], "count": [1]}),
    ],
    ids=["sums of bytes", "counts of text", "counts with fractions", "a list"],
)
def test_parquet_with_other_types_is_refused(tag, columns):
    sink = io.BytesIO()
    totals = {"tidegauge.num_rows": "1", "tidegauge.num_nulls": "0"}
    pq.write_table(pa.table(columns).replace_schema_metadata(totals), sink)
    with pytest.raises(StateError, match="cannot be read: a (Parquet file|column)"):
        read_state(tag, sink.getvalue())


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        (state["tag"], state["payload"])
        for state in json.loads((ROOT / "tests/data/states.json").read_text())
    ],
)
def test_damage_is_seen_before_a_library_reads_it(tmp_path, monkeypatch, tag, content):
    """Stored bytes are compared with their checksum first, so that C++ libraries never read damage."""
    stored = payload(bytes.fromhex(content), tag=tag)
    read = []
    monkeypatch.setattr(stored_states, "read_state", lambda *state: read.append(state))
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repo:
        for place in range(len(stored.payload)):
            damaged = bytearray(stored.payload)
            damaged[place] ^= 1 << place % 8
            with pytest.raises(tg.CorruptStateError, match="checksum differs"):
                repo.artifacts.unpack(replace(stored, payload=bytes(damaged)))
        assert not read
        repo.artifacts.unpack(stored)
    assert read == [(tag, bytes.fromhex(content))]


SAMPLES = [
    (state["tag"], bytes.fromhex(state["payload"]))
    for state in json.loads((ROOT / "tests/data/states.json").read_text())
]


def test_there_is_a_sample_of_every_kind_of_state():
    _ = [module for module in STATE_MODULES if __import__(module)]
    assert {tag.partition("/")[0] for tag, _ in SAMPLES} >= {
        tag.partition("/")[0] for tag in READERS if "griffin" not in tag
    }


@pytest.mark.parametrize("content", [b"1", b"[1]", b"[[{}],null]", b"[null,3]", b"[[1],[[2]]]"])
@pytest.mark.parametrize("tag", ["record-counts/1", "schema-match/1"])
def test_json_with_another_structure_is_refused(tag, content):
    with pytest.raises(StateError, match="cannot be read"):
        read_state(tag, content)


def test_counts_of_different_rules_are_not_added():
    with pytest.raises(tg.StateMismatchError, match="numbers of counts 1 and 2"):
        _ = RecordCounts((1,)) + RecordCounts((1, 2))


@pytest.mark.parametrize(
    "mutations", [25, pytest.param(2000, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_crafted_states_do_not_end_the_process(mutations):
    """In a child process, reading, merging, comparing and measuring them raise only our errors."""
    command = [sys.executable, "-m", "tests.faults.fuzz_states", f"--mutations={mutations}"]
    fuzzed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert fuzzed.returncode == 0, fuzzed.stdout + fuzzed.stderr
    for kind in ("hll/2", "kll/1", "req/1", "tuple/2", "frequent-items/1", "frequencies/1"):
        assert kind in fuzzed.stdout


@pytest.mark.parametrize(
    "options",
    [
        ["--rounds=2", "--only=hll,kll,req,tuple,freq"],
        pytest.param([f"--rounds={soak(4, 100)}"], marks=pytest.mark.soak),
    ],
    ids=["few", "many"],
)
def test_crafted_states_in_a_repository_do_not_end_the_process(options):
    """With valid checksums, `db check`, merges, roll-ups and the dashboard refuse or use them quickly."""
    command = [sys.executable, "-m", "tests.faults.fuzz_stored_states", *options]
    fuzzed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert fuzzed.returncode == 0, fuzzed.stdout + fuzzed.stderr
    for kind in ("hll/2", "kll/1", "req/1", "tuple/2", "frequent-items/1", "frequencies/1"):
        (line,) = (one for one in fuzzed.stdout.splitlines() if one.startswith(kind))
        check_refused, check_answered, *_ = map(int, line.split()[1:])
        assert check_refused + check_answered == int(fuzzed.stdout.split()[0]), line


def test_db_check_reports_crafted_states_and_merges_refuse_them(tmp_path):
    """An HLL sketch whose register refers to a missing table ended the process, with a valid checksum."""
    distinct = tg.ApproxCountDistinct("x")
    sound = hll_sketches(12, 900)[0]
    state = HllState(sound[:40] + bytes([sound[40] | 15]) + sound[41:], 900)
    actual = [measurement(distinct, HllState(sound, 900))]
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repo:
        commit(repo, *(day(n, extra=actual, only=[distinct]) for n in (1, 2)))
        repo.database.write(
            lambda connection: connection.execute(
                sa.update(schema.state).values(
                    tag=state.tag,
                    payload=state.pack(),
                    checksum=hashlib.sha256(state.pack()).hexdigest(),
                )
            )
        )
        problems = check(repo.database, repo.artifacts)
        assert len(problems) == 2
        assert all("its exceptions does not fit its bytes" in problem for problem in problems)
        with pytest.raises(tg.CorruptStateError, match="hll/2"):
            repo.merge("d", distinct)


@given(st.sampled_from(SAMPLES), st.randoms(use_true_random=False), st.integers(1, 8))
def test_damaged_states_raise_only_our_errors(sample, draw, changes):
    tag, content = sample
    damaged = bytearray(content)
    for _ in range(changes):
        kind = draw.randrange(4)
        at = draw.randrange(len(damaged) + 1)
        if kind == 0 and at < len(damaged):
            damaged[at] = draw.randrange(256)
        elif kind == 1:
            del damaged[at:]
        elif kind == 2:
            damaged[at:at] = draw.randbytes(draw.randrange(9))
        else:
            damaged[at : at + 8] = b"\xff" * 8
    with suppress(StateError):
        read_state(tag, bytes(damaged))
