"""Passwords, tokens and keys appear in no output, error, repr, stored row or process argument."""

import os
import shutil
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegauge as tg
from tests.paths import ROOT
from tests.support.in_time import run_in_time
from tidegauge.analyzers.core.errors import describe
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.cli.main import run_command
from tidegauge.griffin.config import ConnectorConfig, Env, SinkConfig
from tidegauge.griffin.execution.loader import open_batch
from tidegauge.griffin.sinks import open_sinks
from tidegauge.repository.testing import commit, day, judged
from tidegauge.spark.session import java_arguments

SECRET = "T0pS3cret4711"


def files_with_secret(folder):
    """Return the files that contain the secret."""
    actual = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in actual if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"s3a://key:{SECRET}@bucket/t", "s3a://key:***@bucket/t"),
        (f"jdbc:postgresql://h/d?user=a&password={SECRET}&ssl=on", "user=a&password=***&ssl=on"),
        (f"user=a,password={SECRET},{SECRET},ssl=on", "user=a,password=***,ssl=on"),
        (f"with password={SECRET},{SECRET}, it failed", "with password=***, it failed"),
        (f"password={{a;{SECRET}}};ssl=on", "password=***;ssl=on"),
        (f'{{"password": "a\\"{SECRET}"}}', '{"password": "***"}'),
        (
            f"x-api-key: {SECRET}, Authorization: token {SECRET}",
            "x-api-key: ***, Authorization: token ***",
        ),
        (f"password: {SECRET}", "password: ***"),
        (f"jdbc:sqlserver://h;user=a;password={SECRET};ssl=on", "user=a;password=***;ssl=on"),
        (f"jdbc:oracle:thin:scott/{SECRET}@//h:1521/x", "jdbc:oracle:thin:scott/***@//h:1521/x"),
        (f"https://h/t?X-Amz-Signature={SECRET}", "https://h/t?X-Amz-Signature=***"),
        (f"fs.s3a.secret.key={SECRET} is wrong", "fs.s3a.secret.key=*** is wrong"),
        (f"DefaultEndpointsProtocol=https;AccountKey={SECRET}", "https;AccountKey=***"),
        (f"mongodb://me:p@{SECRET}@h/db", "mongodb://me:***@h/db"),
        (
            f"fs.azure.account.key.mine.dfs.core.windows.net={SECRET} is wrong",
            "fs.azure.account.key.mine.dfs.core.windows.net=*** is wrong",
        ),
        (f'{{"fs.azure.account.key.mine": "{SECRET}"}}', '{"fs.azure.account.key.mine": "***"}'),
        (
            f"POST https://hooks.slack.com/services/T0/B0/{SECRET}",
            "POST https://hooks.slack.com/***",
        ),
        (f"https://discord.com/api/webhooks/1/{SECRET}", "https://discord.com/api/webhooks/***"),
        (f"https://acme.webhook.office.com/webhookb2/{SECRET}", "acme.webhook.office.com/***"),
        (f"https://api.telegram.org/bot1:{SECRET}/send", "https://api.telegram.org/***"),
        (f"slack://T0/B0/{SECRET}", "slack://***"),
    ],
)
def test_secrets_in_addresses_are_hidden(text, shown):
    assert shown in hide_secrets(text)
    assert SECRET not in describe(ValueError(f"cannot open {text}"))


def test_long_words_are_searched_in_linear_time():
    """An error may quote a value of megabytes; a new search from each letter would take hours."""
    run_in_time("""
        from tidegauge.analyzers.core.formatting import hide_secrets, is_secret

        for text in ("a" * 3_000_000, "jdbc:oracle:a:" * 10_000, "-" * 1_000_000, "a://b:" * 20_000):
            assert hide_secrets(text) == text and not is_secret(text, "")
    """)


@pytest.mark.parametrize(
    "text",
    [
        "kafka://broker:9092/topic",
        "no column 'token'; there are: 'secret', 'password'",
        "Compliance('token', \"token = 'a'\")",
        "user@example.org, ds=2013-02-08, 12:30:00",
        "https://discord.com/channels/1 and https://slack.com/help",
    ],
)
def test_other_strings_are_unchanged(text):
    assert hide_secrets(text) == text


@pytest.mark.parametrize(
    "url",
    [
        f"sqlite://me:{SECRET}@host/file.db",
        f"oracle://me:{SECRET}@host/d",
        f"postgresql+nodriver://me:{SECRET}@host/d",
        f"postgresql+psycopg://me:{SECRET}@host:port/d",
        f"postgresql+psycopg://me:a@b:{SECRET}@host/d",
        f"postgresql+psycopg://me:a@{SECRET}@host/d",
        f"postgresql+psycopg//me:{SECRET}@host/d",
        f"nothing?password={SECRET}",
        f"me:{SECRET}@host/d",
        f"me@work:a/b:{SECRET}@host/d",
        f"postgresql:me:{SECRET}@host/d",
        f"postgresql:/me:{SECRET}@host/d",
        f"https://hooks.slack.com/services/T0/B0/{SECRET}",
        f"postgresql+psycopg://me:{SECRET}@127.0.0.1:1/d",
        f"postgresql+psycopg://me@127.0.0.1:1/d?password={SECRET}",
    ],
)
def test_the_error_for_an_invalid_url_hides_its_password(url, capsys):
    assert run_command(["db", "current", "--db", url]) == 1
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "error: " in said.err
    assert "ValueError" not in said.err


@pytest.mark.soak
@pytest.mark.postgres
def test_no_command_reveals_the_password_of_its_database(
    postgres, tmp_path, capsys, caplog, monkeypatch
):
    """It is not in standard output, errors, logs, arguments of child processes or written files."""
    monkeypatch.chdir(tmp_path)
    url = postgres.database().replace("tester@", f"tester:{SECRET}@")
    reported = tmp_path / "arguments"
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pg_dump", "pg_restore"):
        real = shutil.which(name) or str(postgres.binaries / name)
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $@" >> {reported}\nexec {real} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TIDEGAUGE_DB", url)
    monkeypatch.setenv("TIDEGAUGE_ARTIFACTS", str(tmp_path / "artifacts"))
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        commit(repository, *(day(n, rows=10 if n < 30 else 900) for n in range(1, 31)))
        judged(repository)
        shown = [repr(repository), repr(repository.database.name), str(repository.database)]
    commands = [
        "db current",
        "db check",
        "db backup --to kept.zip",
        "db clean --versions 90d --dry-run",
        "db forget --value nobody",
        "detect d",
        "metrics d",
        "anomalies list d",
        "export csv d --output out.csv",
        "export openlineage d --output out.json",
        "report d --html out.html",
        "doctor",
        "metrics nothing",
        "db restore kept.zip",
    ]
    done = {command: run_command(command.split()) for command in commands}
    assert {command for command, status in done.items() if status} <= {"doctor", "metrics nothing"}
    said = capsys.readouterr()
    assert "ds=2013-01-30" in said.out
    assert SECRET not in said.out + said.err + caplog.text + "".join(shown)
    assert files_with_secret(tmp_path) == []
    assert "pg_dump " in reported.read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", SECRET),
        ("spark.hadoop.fs.s3a.session.token", SECRET),
        ("spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net", SECRET),
        ("spark.ssl.keyStorePassword", SECRET),
        ("spark.authenticate.secret", SECRET),
        ("spark.sql.catalog.c.uri", f"jdbc:postgresql://h/d?user=a&password={SECRET}"),
        ("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:oracle:thin:scott/{SECRET}@//h/x"),
        ("spark.sql.catalog.c.uri", f"https://me:{SECRET}@host/"),
    ],
)
def test_secrets_in_spark_settings_are_not_arguments_of_java(name, value):
    others = {"spark.master": "local[2]", "spark.driver.extraJavaOptions": "-Dpassword=needed"}
    assert java_arguments({**others, name: value}) == others


def test_reprs_hide_the_settings_of_connectors_and_sinks():
    settings = {"url": f"jdbc:x://h/d?password={SECRET}", "password": SECRET}
    made = [
        ConnectorConfig("jdbc", settings),
        SinkConfig("s", "jdbc", settings),
        Env({"spark.hadoop.fs.s3a.secret.key": SECRET}),
    ]
    assert SECRET not in repr(made)


@pytest.mark.spark
def test_errors_of_sources_and_sinks_hide_secrets(spark, tmp_path, capsys, caplog, monkeypatch):
    """Griffin's sources over JDBC and HTTP, and folders with keys in their addresses; no secret is stored."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'r.db'}"
    address = f"jdbc:nothing://h/d?user=a&password={SECRET}"
    settings = {"url": address, "user": "me", "password": SECRET}
    connector = ConnectorConfig("jdbc", {**settings, "tablename": "t"})
    sinks = (
        SinkConfig("db", "jdbc", {**settings, "table": "t"}),
        SinkConfig("web", "elasticsearch", {"api": f"http://m:{SECRET}@127.0.0.1:1/", "retry": 0}),
    )
    errors = []
    with pytest.raises(tg.SourceError) as failed:
        open_batch(connector, spark, "src")
    errors.append(failed.value)
    for sink in open_sinks(Env(sinks=sinks), spark=spark).values():
        sink.start("job", 0, "app")
        with pytest.raises(tg.SinkError) as failed:
            sink.metrics(0, {"x": 1})
        errors.append(failed.value)
    suite = tg.Suite("s", [tg.Size()])
    with pytest.raises(tg.TidegaugeError) as failed:
        tg.analyze(f"nowhere://key:{SECRET}@host/t", suite, repository=url, spark=spark)
    errors.append(failed.value)
    said = capsys.readouterr()
    assert SECRET not in "".join(map(str, errors)) + said.out + said.err + caplog.text
    assert files_with_secret(tmp_path) == []


def test_the_table_and_the_error_of_a_run_are_stored_without_secrets(tmp_path):
    """A custom source whose name and errors contain a password."""

    class Failing:
        name = f"s3a://key:{SECRET}@bucket/t"
        keys = ("ds",)

        def list_partitions(self):
            raise OSError(f"403 for {self.name}")

    url = f"sqlite:///{tmp_path / 'r.db'}"
    with (
        tg.Repository(url) as repository,
        pytest.raises(OSError, match="403"),
    ):
        tg.analyze(Failing(), tg.Suite("s", [tg.Size()]), repository=repository)
    with tg.Repository(url) as repository:
        assert repository.runs("s")["error"].tolist() == ["OSError: 403 for s3a://key:***@bucket/t"]
    assert files_with_secret(tmp_path) == []


JOB = """
import os, sys
from tests.tidegauge.griffin.jobs import job, read, rule
import tidegauge as tg
from tidegauge.cli.main import run_command

source = read("src", "file", {"format": "parquet", "paths": [sys.argv[1]]})
rules = [rule("id, nobody", "completeness", "whole"), rule("id", "completeness", "ids")]
secret = sys.stdin.read()
env = {
    "spark": {"config": {
        "spark.master": "local[1]",
        "spark.hadoop.fs.s3a.secret.key": secret,
        "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net": secret,
        "spark.sql.catalog.c.uri": f"jdbc:x://h/d?user=me&password={secret}",
        "spark.driver.memory": "700m",
    }},
    "sinks": [
        {"name": "said", "type": "CONSOLE", "config": {"max.log.lines": 5}},
        {"name": "web", "type": "ELASTICSEARCH", "config": {
            "api": f"http://m:{secret}@127.0.0.1:1/", "retry": 0,
            "headers": {"Authorization": secret}}},
    ],
}
from tidegauge.griffin.reading import read_env
from tidegauge.spark.session import spark_session

told = read_env(env)
print(told)
spark = spark_session("warehouse", settings=told.spark)
try:
    tg.griffin.run(env, job([source], rules), spark=spark, repository="sqlite:///r.db")
except tg.TidegaugeError as error:
    print(error)
    print(error.__cause__)
run_command(["metrics", "job", "--db", "sqlite:///r.db"])
run_command(["report", "job", "--html", "page.html", "--db", "sqlite:///r.db"])
os.environ["HOOK"] = f"json://me:{secret}@127.0.0.1:1/{secret}"
print("status", run_command(["run", "suite.yml", "--db", "sqlite:///r.db"]))
kept = spark.sparkContext.getConf()
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
print("kept:", kept.get("spark.hadoop.fs.s3a.secret.key") == secret,
      hadoop.get("fs.s3a.secret.key") == secret,
      kept.get("spark.sql.catalog.c.uri").endswith(secret), kept.get("spark.driver.memory"),
      spark._jvm.Runtime.getRuntime().maxMemory() < 800 << 20)
"""


SUITE = """
dataset: orders
path: days/
analyzers: [Size, "Mean('id')"]
checks:
  - has_size: {at_least: 99}
notify: ["${HOOK}"]
"""


def arguments_of_session(number):
    """Return the arguments of all processes of a session, which every user of the machine can read."""
    actual = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(place.name)) == number:
                actual.append((place / "cmdline").read_bytes())
    return actual


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to read")
def test_output_and_arguments_of_jobs_and_runs_hide_their_secrets(tmp_path):
    """This covers printed, logged and written output, and the arguments of child processes such as Java."""
    pytest.importorskip("apprise")
    rows = pa.table({"id": [1, 2], "nobody": ["a", None]})
    pq.write_table(rows, tmp_path / "part.parquet")
    (tmp_path / "days" / "ds=2013-02-08").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "days" / "ds=2013-02-08" / "part.parquet")
    (tmp_path / "suite.yml").write_text(SUITE)
    process = subprocess.Popen(
        [sys.executable, "-c", JOB, str(tmp_path / "part.parquet")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    process.stdin.write(SECRET)
    process.stdin.close()
    seen = set()
    with process.stdout, ThreadPoolExecutor(1) as pool:
        said = pool.submit(process.stdout.read)
        while process.poll() is None:
            seen.update(arguments_of_session(process.pid))
            time.sleep(0.05)
        said = said.result(60)
    assert "kept: True True True 700m True" in said, said[-3000:]
    assert "ids" in said, said[-3000:]
    assert "notifications: 0 sent, 1 failed (suite checks of orders" in said, said[-3000:]
    assert "status 2" in said
    assert any(b"java" in one and b"spark.driver.memory" in one for one in seen)
    assert not [one for one in seen if SECRET.encode() in one]
    assert SECRET not in said
    assert files_with_secret(tmp_path) == []
