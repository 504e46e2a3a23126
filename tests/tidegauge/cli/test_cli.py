"""The command line: output and exit status."""

import csv
import io
import json
import threading
from importlib.util import find_spec

import pandas as pd
import pytest

import tidegauge as tg
from tests.support.kept import put_kept
from tidegauge import __version__
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.cli.main import run_command
from tidegauge.cli.output import SafeTerminal
from tidegauge.files.runs import SuiteResult
from tidegauge.repository.testing import commit, day, measurement, spec


@pytest.fixture
def url(repo):
    run = repo.store.open_run(spec())
    rows = [1000] * 29 + [300]
    repo.store.commit_batch(run, [day(n, rows=r) for n, r in enumerate(rows, 1)])
    repo.detect("d")
    return str(repo.database.url)


def test_metrics_are_printed_as_table_csv_and_json(url, capsys):
    assert (
        run_command(["metrics", "d", "--db", url, "--name", "Size", "--since", "2013-01-29"]) == 0
    )
    out = capsys.readouterr().out
    assert "ds=2013-01-30" in out
    assert "ds=2013-01-28" not in out
    assert "Size()" in out
    assert run_command(["metrics", "--db", url, "--name", "Size", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 30
    assert rows[-1]["value"] == "300.0"
    assert rows[-1]["dataset"] == "d"
    assert run_command(["metrics", "d", "--db", url, "--instance", "nope", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert {row["status"] for row in content} == {"failed"}
    assert content[0]["value"] is None
    assert content[0]["time"].startswith("2013-01-01T00:00:00")


def test_json_keeps_all_digits_of_small_numbers(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'small.db'}"
    values = {
        "ds=2013-01-01": 1.2345678901234567e-10,
        "ds=2013-01-02": 0.1 + 0.2,
        "ds=2013-01-03": 1e300,
    }
    with tg.Repository(url) as repo:
        repo.record("d", "n", {**values, "ds=2013-01-04": float("nan")})
    assert run_command(["metrics", "d", "--db", url, "--format", "json"]) == 0
    actual = {row["partition"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert actual == {**values, "ds=2013-01-04": None}


READING = [
    ["metrics", "d"],
    ["metrics", "d", "--window", "7d"],
    ["report"],
    ["anomalies", "list"],
    ["anomalies", "show", "1"],
    ["backtest", "Seasonal"],
    ["rules", "history", "d"],
    ["export", "csv"],
    ["consistency", "export", "days.jsonl"],
    ["dataset", "list"],
]
"""Commands that only read the repository."""


@pytest.mark.parametrize(
    "command",
    [
        *READING,
        pytest.param(
            ["dashboard"],
            marks=pytest.mark.skipif(
                find_spec("tornado") is None, reason="Tornado is not installed"
            ),
        ),
    ],
)
def test_reading_does_not_upgrade_an_older_database(tmp_path, capsys, command):
    file = tmp_path / "r.db"
    put_kept("0006", f"sqlite:///{file}", tmp_path / "artifacts")
    before = file.read_bytes()
    assert run_command([*command, "--db", f"sqlite:///{file}"]) == 1
    err = capsys.readouterr().err
    assert "is at revision '0006', older than '0008'" in err
    assert "tidegauge db upgrade" in err
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("*.backup.db"))


@pytest.mark.parametrize("command", [["backup"], ["downgrade", "0005"]])
def test_maintenance_creates_no_file_for_a_mistyped_name(tmp_path, capsys, command):
    file = tmp_path / "nope.db"
    assert run_command(["db", *command, "--db", f"sqlite:///{file}"]) == 1
    assert "no database at" in capsys.readouterr().err
    assert not file.exists()


def test_lines_are_escaped_for_the_terminal():
    terminal = io.StringIO()
    SafeTerminal(terminal).writelines(["a\x1b]0;x\x07", "b"])
    assert terminal.getvalue() == "a\\x1b]0;x\\x07b"


def test_only_open_incidents_fail_a_detection(url, capsys):
    command = ["detect", "d", "--db", url, "--fail-on-anomaly"]
    assert run_command(command) == 2
    with tg.Repository(url) as repo:
        for incident in repo.incidents("d", status="open")["id"]:
            repo.label(int(incident), "expected")
    assert run_command(command) == 0
    assert "ds=2013-01-30" in capsys.readouterr().out  # the closed incident is still listed


def test_an_incident_is_snoozed_until_a_future_time(url, capsys):
    run_command(["detect", "d", "--db", url])
    with tg.Repository(url) as repo:
        number = int(repo.incidents("d")["id"].iloc[0])
    command = ["anomalies", "label", str(number), "snoozed", "--db", url]
    assert run_command(command) == 1
    assert "snoozed needs an end" in capsys.readouterr().err
    for until, problem in (("soon", "Invalid time 'soon'"), ("2013-01-01", "it is in the past")):
        assert run_command([*command, "--until", until]) == 1
        assert problem in capsys.readouterr().err
    assert run_command([*command, "--until", "2033-12-24T08:00"]) == 0
    assert (
        run_command(
            ["anomalies", "label", str(number), "bad", "--until", "2033-12-24", "--db", url]
        )
        == 1
    )
    assert "only snoozed has an end" in capsys.readouterr().err
    with tg.Repository(url) as repo:
        assert repo.labels("d")["until"].tolist() == [pd.Timestamp("2033-12-24T08:00Z")]


def test_metrics_are_selected_by_filter(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'filtered.db'}"
    some = tg.Size(where="x > 1")
    with tg.Repository(url) as repo:
        commit(repo, day(1, rows=10, extra=[measurement(some, NumMatches(4))]))

    def values(*options):
        command = ["metrics", "d", "--db", url, "--name", "Size", "--format", "json", *options]
        assert run_command(command) == 0
        return sorted(row["value"] for row in json.loads(capsys.readouterr().out))

    assert values() == [4, 10]
    assert values("--where", "") == [10]
    assert values("--where", "x > 1") == [4]


def test_detect_without_a_dataset_scores_all_datasets(url, capsys):
    with tg.Repository(url) as repo:
        sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        repo.record("revenue", "total", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
    assert run_command(["detect", "--db", url, "--format", "json"]) == 0
    assert {one["dataset"] for one in json.loads(capsys.readouterr().out)} == {"d", "revenue"}


def test_a_dataset_that_cannot_be_scored_does_not_stop_the_others(url):
    """For example a detector of a later version, or of a plugin that is not installed."""
    with tg.Repository(url) as repo:
        sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
        repo.record("revenue", "total", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        monitor = tg.Monitor(detector="SimpleThreshold(50)").to_dict()
        suite = json.dumps({"monitors": [monitor]}).replace("SimpleThreshold", "Clairvoyant")
        with repo.database.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE run SET suite = ? WHERE dataset_id ="
                " (SELECT id FROM dataset WHERE name = 'd')",
                (suite,),
            )
        with pytest.raises(tg.HistoryError, match=r"1 of 2 datasets: 'd': .*Clairvoyant"):
            repo.detect()
        assert repo.anomalies("revenue")["partition"].tolist() == ["ds=2026-01-29"]


def test_an_error_of_the_repository_is_reported_once(url):
    with tg.Repository(url, read_only=True) as repo, pytest.raises(tg.ReadOnlyError):
        repo.detect()


def test_an_empty_repository_has_nothing_to_detect(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/empty.db"
    assert run_command(["db", "upgrade", "--db", url]) == 0
    capsys.readouterr()
    assert run_command(["detect", "--db", url]) == 1
    assert "the repository has no datasets" in capsys.readouterr().err


def test_metrics_are_listed_as_of_an_earlier_time(url, capsys):
    assert (
        run_command(
            ["metrics", "d", "--db", url, "--as-of", "1", "--name", "Size", "--format", "json"]
        )
        == 0
    )
    assert len(json.loads(capsys.readouterr().out)) == 30
    assert (
        run_command(["metrics", "d", "--db", url, "--as-of", "2000-01-01", "--format", "json"]) == 0
    )
    assert json.loads(capsys.readouterr().out) == []
    assert run_command(["metrics", "d", "--db", url, "--as-of", "soon"]) == 1


def test_anomalies_are_listed_and_detected(url, capsys):
    assert run_command(["anomalies", "list", "--db", url]) == 0
    assert "Size in ds=2013-01-30" in capsys.readouterr().out
    assert run_command(["detect", "d", "--db", url, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["partition"] == "ds=2013-01-30"
    assert run_command(["detect", "d", "--db", url, "--fail-on-anomaly"]) == 2
    assert (
        run_command(
            [
                "detect",
                "d",
                "--db",
                url,
                "--since",
                "2014-01-01",
                "--format",
                "csv",
                "--fail-on-anomaly",
            ]
        )
        == 0
    )


def test_anomalies_are_listed_with_their_addresses(url, repo, monkeypatch, capsys):
    (number,) = repo.incidents("d")["id"].tolist()
    listing = ["anomalies", "list", "--db", url, "--format", "json"]
    assert run_command(listing) == 0
    assert "address" not in json.loads(capsys.readouterr().out)[0]
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", "https://desk.example/")
    address = f"https://desk.example/#/incidents/{number}"
    for more in ([], ["--incidents"]):
        assert run_command([*listing, *more]) == 0
        assert json.loads(capsys.readouterr().out)[0]["address"] == address
    assert run_command(["anomalies", "list", "--incidents", "--db", url]) == 0
    assert address in capsys.readouterr().out
    assert run_command(["anomalies", "list", "--db", url, "--status", "resolved"]) == 0


def test_a_run_ends_with_the_addresses_of_its_incidents(url, repo):
    anomalies = repo.anomalies("d")
    (number,) = repo.incidents("d")["id"].tolist()
    lines = SuiteResult(
        anomalies=[anomalies, anomalies.head(0)], url="https://desk.example/"
    ).lines()
    assert [line for line in lines if "see:" in line] == [
        f"  see: https://desk.example/#/incidents/{number}"
    ]
    assert lines[-1].startswith("  see:")
    assert (
        SuiteResult(anomalies=[anomalies]).lines()[-1]
        == f"  details: tidegauge anomalies show {number}"
    )


def test_a_run_shows_the_ten_gravest_anomalies_and_where_to_find_the_others(url, repo):
    import pandas as pd

    actual = pd.concat([repo.anomalies("d").head(1)] * 13, ignore_index=True)
    actual["severity"] = ["info"] * 10 + ["warning", "error", "error"]
    actual["explanation"] = [str(n) for n in range(13)]
    actual["incident_id"] = [7] * 11 + [8, 9]
    assert SuiteResult(anomalies=[actual]).lines() == [
        "  error: 11",
        "  error: 12",
        "  warning: 10",
        *(f"  info: {n}" for n in range(7)),
        "  and 3 more anomalies",
        "  details: tidegauge anomalies show 8",
        "  all 3 incidents: tidegauge anomalies list d --incidents",
    ]


def test_lists_say_whether_an_id_is_an_anomaly_or_an_incident(url, repo, capsys):
    """Both share one sequence of ids."""
    (incident,) = repo.incidents("d")["id"].tolist()
    anomaly = repo.anomalies("d")["id"].tolist()[0]
    assert run_command(["anomalies", "list", "--db", url]) == 0
    assert capsys.readouterr().out.split()[:3] == ["anomaly", "incident", "dataset"]
    assert run_command(["anomalies", "list", "--incidents", "--db", url]) == 0
    assert capsys.readouterr().out.split()[:2] == ["incident", "dataset"]
    assert run_command(["anomalies", "list", "--format", "json", "--db", url]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["id"], row["incident_id"]) == (anomaly, incident)
    for number, first in ((incident, f"Incident {incident} of d: "), (anomaly, f"Anomaly {anomaly} belongs to incident {incident}.")):  # fmt: skip
        assert run_command(["anomalies", "show", str(number), "--db", url]) == 0
        assert capsys.readouterr().out.startswith(first)
    for number, kind in ((incident, "incident"), (anomaly, "anomaly")):
        words = ["anomalies", "label", str(number), "snoozed", "--until", "2999-01-01"]
        assert run_command([*words, "--db", url]) == 0
        assert capsys.readouterr().out == f"{kind} {number}: snoozed\n"


def test_db_commands_migrate_and_report(url, capsys):
    assert run_command(["db", "current", "--db", url]) == 0
    assert capsys.readouterr().out == "0008 (newest: 0008)\n"
    assert run_command(["db", "check", "--db", url]) == 0
    assert "no problems found" in capsys.readouterr().out
    assert run_command(["db", "upgrade", "--db", url]) == 0
    assert "the newest" in capsys.readouterr().out
    assert run_command(["db", "backup", "--db", url]) == 0
    copy = capsys.readouterr().out.strip()
    assert run_command(["metrics", "d", "--db", f"sqlite:///{copy}", "--format", "csv"]) == 0


def test_db_upgrade_creates_an_empty_database(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert run_command(["db", "current", "--db", url]) == 0
    assert "empty" in capsys.readouterr().out
    assert not (tmp_path / "new.db").exists()
    assert run_command(["db", "upgrade", "--db", url]) == 0
    assert "upgraded from None to 0008" in capsys.readouterr().out
    assert run_command(["db", "check", "--db", url]) == 0


@pytest.mark.parametrize("command", [["db", "check"], *READING])
def test_reading_a_mistyped_database_reports_it_and_creates_no_file(tmp_path, capsys, command):
    file = tmp_path / "mistyped.db"
    assert run_command([*command, "--db", f"sqlite:///{file}"]) == 1
    assert f"no database at {file}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [[], ["--incidents"]])
def test_a_misspelt_status_is_an_error(url, repo, capsys, more):
    repo.close()
    assert run_command(["anomalies", "list", "--status", "opne", *more, "--db", url]) == 1
    assert "did you mean 'open'" in capsys.readouterr().err


def test_db_check_reports_damage(url, repo, capsys):
    with repo.database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM newest_metric WHERE series_id = 1")
    assert run_command(["db", "check", "--db", url]) == 1
    assert "missing from the newest" in capsys.readouterr().out


def test_the_database_url_is_read_from_the_environment(url, monkeypatch, capsys):
    monkeypatch.setenv("TIDEGAUGE_DB", url)
    assert run_command(["anomalies", "list", "d"]) == 0
    assert "ds=2013-01-30" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["metrics", "e"], "no dataset 'e' in this repository; there are: 'd'"),
        (["metrics", "d", "--since", "lately"], "since='lately' is not a time"),
        (["metrics", "d", "--format", "xml"], "xml"),
        (["metrics", "d", "--nam", "x"], "--nam"),
        (["measure"], "measure"),
        (["run"], "Missing argument 'SUITE.yml...'"),
        (["run", "/no/such.yml"], "no suite file at '/no/such.yml'"),
    ],
)
def test_invalid_arguments_exit_with_1_and_a_reason(url, arguments, message, capsys):
    options = [] if arguments[0] == "measure" or arguments == ["run"] else ["--db", url]
    assert run_command([*arguments, *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "sqlite:////no/such/folder/x.db",
            "no database at /no/such/folder/x.db: the folder /no/such/folder does not exist",
        ),
        ("nonsense", "not the URL of a database"),
        ("postgresql+psycopg://nobody@127.0.0.1:1/none", "cannot open or write"),
    ],
)
def test_databases_that_cannot_be_opened_exit_with_1(url, message, capsys):
    assert run_command(["metrics", "--db", url]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_not_a_database_exits_with_1(tmp_path, capsys):
    (tmp_path / "x.db").write_text("these are notes, not a database; " * 20)
    assert run_command(["metrics", "--db", f"sqlite:///{tmp_path / 'x.db'}"]) == 1
    assert "not a SQLite database" in capsys.readouterr().err


def test_without_a_command_the_help_is_printed(capsys):
    assert run_command([]) == 1
    assert "demo" in capsys.readouterr().out
    assert run_command(["--help"]) == 0
    assert "doctor" in capsys.readouterr().out


def test_doctor_reports_the_installation(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "ok       Python: 3." in out
    assert "does not exist yet" in out
    assert not list(tmp_path.iterdir())
    (tmp_path / "tidegauge.db").write_text(
        "notes, and enough of them to be no SQLite file at all " * 9
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run_command(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "wrong    the repository" in out
    assert f"missing  Java, for measuring tables: JAVA_HOME={tmp_path} has no bin/java" in out
    assert "fix: " in out


@pytest.mark.soak
@pytest.mark.spark
def test_run_measures_several_files_in_one_session(spark, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spark.sql("CREATE DATABASE IF NOT EXISTS cli")
    rows = [(1, f"2013-01-{d:02}") for d in range(1, 31) for _ in range(100)] + [
        (None, "2013-01-31")
    ] * 100
    spark.createDataFrame(rows, "x int, ds string").write.partitionBy("ds").mode(
        "overwrite"
    ).saveAsTable("cli.fact_a")
    spark.createDataFrame([(1,)], "y int").write.mode("overwrite").saveAsTable("cli.fact_b")
    (tmp_path / "one.yml").write_text(
        "dataset: a\ntable: cli.fact_a\nanalyzers:\n  - Size\n  - Completeness: x\ntags: {team: ops}\n"
    )
    (tmp_path / "two.yml").write_text("dataset: all\ntable: cli.fact_*\nanalyzers:\n  - Size\n")
    (tmp_path / "three.yml").write_text("dataset: c\ntable: cli.fact_c\nanalyzers:\n  - Size\n")
    db = ["--db", f"sqlite:///{tmp_path / 'r.db'}"]

    assert run_command(["run", "one.yml", *db, "--tag", "env=test", "--fail-on-anomaly"]) == 2
    out = capsys.readouterr().out
    assert "a: 31 partition scanned, 31 new, 0 skipped" in out
    assert "Completeness of x in ds=2013-01-31" in out
    assert (
        run_command(["run", "one.yml", *db, "--fail-on-anomaly"]) == 0
    )  # no new partition and no anomaly
    assert "0 partitions scanned, 31 skipped" in capsys.readouterr().out

    assert run_command(["run", "*.yml", *db]) == 1  # one table is missing; the others are measured
    out = capsys.readouterr().out
    assert "failed: three.yml: no table 'cli.fact_c'; did you mean 'cli.fact_" in out
    assert "all.fact_a: 31 partition scanned" in out
    assert "all.fact_b: 1 partition scanned" in out
    assert "3 tables measured, 1 failed" in out

    (tmp_path / "bad.yml").write_text(
        "dataset: a\ntable: cli.fact_a\nanalyzers:\n  - Size\n  - Sise\n"
    )
    assert run_command(["run", "*.yml", *db]) == 1
    assert "bad.yml:5: unknown analyzer 'Sise'; did you mean 'Size'?" in capsys.readouterr().err
    (tmp_path / "bad.yml").write_text(
        "dataset: a\ntable: cli.fact_a\nanalyzers:\n  - Size\n  - Mean: xx\n"
    )
    assert run_command(["run", "bad.yml", *db]) == 1
    assert "bad.yml:5: Mean('xx'): no column 'xx'; did you mean 'x'?" in capsys.readouterr().out
    assert run_command(["run", "one.yml", *db, "--partitions", "day=1"]) == 1
    assert "no partition key 'day'" in capsys.readouterr().out
    assert run_command(["run", "one.yml", *db, "--tag", "env"]) == 1
    assert run_command(["db", "check", *db]) == 0
    spark.sql("DROP DATABASE cli CASCADE")


@pytest.mark.spark
def test_tables_are_measured_concurrently(spark, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("a", "b", "c")
    for number, name in enumerate(names, 1):
        frame = spark.range(number).selectExpr("id", "'2024-01-01' AS ds")
        frame.write.partitionBy("ds").parquet(str(tmp_path / name))
        text = f"dataset: {name}\ntable: {tmp_path / name}\nanalyzers:\n  - Size\n"
        (tmp_path / f"{name}.yml").write_text(text)
    (tmp_path / "d.yml").write_text("dataset: d\ntable: ./nowhere\nanalyzers:\n  - Size\n")
    together = threading.Barrier(len(names))

    def analyze_together(*args, **options):
        together.wait(60)  # fails unless all three tables are measured at the same time
        return tg.analyze(*args, **options)

    monkeypatch.setattr("tidegauge.files.runs.analyze", analyze_together)
    assert run_command(["run", "*.yml", "--db", "sqlite:///r.db", "--jobs", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    measured = [line for line in lines if "scanned" in line]  # in the order in which they finish
    expected = [f"{name}: 1 partition scanned, 1 new, 0 skipped" for name in names]
    assert sorted(measured) == expected
    assert lines[-2:] == [
        f"failed: d.yml: no data files under './nowhere': {tmp_path / 'nowhere'} does not exist",
        "3 tables measured, 1 failed, 0 anomalies",
    ]
    with tg.Repository("sqlite:///r.db") as repo:
        assert [repo.value(name, "Size") for name in names] == [1, 2, 3]


def test_the_version_is_printed(capsys):
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"tidegauge {__version__}\n"


@pytest.mark.parametrize(
    "command",
    [
        *READING,
        ["metrics"],
        ["detect"],
        ["dataset", "drop", "d"],
        ["dataset", "retire", "d"],
        ["dataset", "rename", "d", "e"],
        ["dataset", "label", "d", "bad", "--since", "2026-01-01"],
        ["dataset", "accept", "d", "ds=2026-01-01"],
        ["anomalies", "label", "1", "expected"],
        ["db", "check"],
        ["db", "clean"],
        ["db", "backup"],
        ["db", "downgrade", "0005"],
    ],
)
def test_every_command_prints_the_same_message_for_a_missing_database(tmp_path, capsys, command):
    (tmp_path / "orders.db").touch()
    file = tmp_path / "oders.db"
    assert run_command([*command, "--db", f"sqlite:///{file}"]) == 1
    assert capsys.readouterr().err == (
        f"tidegauge: error: no database at {file}; did you mean 'orders.db'?\n"
    )
    assert not file.exists()


def test_only_usage_errors_point_to_the_help(tmp_path, url, capsys):
    assert run_command(["export", "parquet", "d", "--db", url]) == 1
    assert "help" not in capsys.readouterr().err
    assert run_command(["export", "parquet", "d", "--nope"]) == 1
    assert "see `tidegauge export --help`" in capsys.readouterr().err


def test_an_interrupted_command_says_what_is_kept(url, monkeypatch, capsys):
    def press_ctrl_c(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tg.Repository, "detect", press_ctrl_c)
    assert run_command(["detect", "d", "--db", url]) == 1
    assert capsys.readouterr().err == (
        "tidegauge: Interrupted. Committed batches are kept; the next run resumes after them.\n"
    )
