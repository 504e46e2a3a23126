"""Command line options for the Spark session."""

import inspect
from dataclasses import dataclass

import pytest
from typer.main import get_command

import tidegauge as tg
from tidegauge.cli.main import app, run_command
from tidegauge.cli.options import CommandError, SparkOptions, expand_options
from tidegauge.spark import session as sessions

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
WITH_SPARK = (
    "demo", "doctor", "profile", "explain", "run", "check", "rules run", "rules check",
    "griffin run", "griffin check", "consistency run", "consistency clean",
)  # fmt: skip


@pytest.mark.parametrize("path", WITH_SPARK)
def test_every_command_that_starts_spark_has_the_options(path):
    command = get_command(app)
    for name in path.split():
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--conf", "--packages", "--master"} <= options


@dataclass
class Limits:
    """A group of options."""

    rows: int
    seconds: float = 1.5


def test_fields_of_a_group_are_parameters_of_the_command():
    def command(name: str, limits: Limits, dry: bool = False):
        return name, limits, dry

    expanded = expand_options(command)
    parameters = inspect.signature(expanded).parameters.values()
    assert [(p.name, p.annotation) for p in parameters] == [
        ("name", str), ("rows", int), ("seconds", float), ("dry", bool),
    ]  # fmt: skip
    assert [p.default for p in parameters][2:] == [1.5, False]
    assert expanded(name="a", rows=3, seconds=2.0, dry=True) == ("a", Limits(3, 2.0), True)


def test_a_command_without_a_group_stays_as_it_is():
    def command(name: str):
        return name

    assert expand_options(command) is command


def test_options_become_settings():
    options = SparkOptions(
        spark_conf=["spark.jars.packages=a:b:1", "spark.x=y=z"], packages=DELTA, master="local[2]"
    )
    assert options.settings() == {
        "spark.jars.packages": f"a:b:1,{DELTA}",
        "spark.x": "y=z",
        "spark.master": "local[2]",
    }
    assert SparkOptions().settings() == {}
    assert not SparkOptions().is_given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spark_conf": ["spark.x"]}, "Invalid value 'spark.x' of --conf: use the form key=value"),
        ({"spark_conf": ["sql.ansi.enabled=true"]}, "names of Spark settings begin with 'spark.'"),
        ({"packages": "delta-spark"}, "Invalid package 'delta-spark' of --packages"),
        ({"packages": f"{DELTA},"}, "Invalid package '' of --packages"),
        ({"packages": ""}, "Invalid package '' of --packages"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(CommandError, match=message):
        SparkOptions(**options).settings()


def test_an_invalid_setting_is_an_error_before_anything_is_measured(tmp_path, capsys):
    file = tmp_path / "s.yml"
    file.write_text("dataset: d\ntable: a.b\nanalyzers: [Size]\n")
    database = f"sqlite:///{tmp_path / 'r.db'}"
    assert run_command(["run", str(file), "--db", database, "--conf", "x=1"]) == 1
    assert "names of Spark settings begin with 'spark.'" in capsys.readouterr().err


def test_settings_that_only_a_connect_server_can_change_are_refused(monkeypatch):
    class NoSession:
        getActiveSession = staticmethod(lambda: None)

    monkeypatch.setattr("pyspark.sql.SparkSession", NoSession)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(tg.SourceError, match=r"cannot set spark.jars.packages: .* SPARK_REMOTE"):
        sessions.spark_session(settings={"spark.jars.packages": DELTA})
    with pytest.raises(tg.SourceError, match="cannot set spark.master"):
        sessions.spark_session(settings={"spark.master": "local[2]"})


class Running:
    """A session with a dictionary of settings, which cannot change its master."""

    def __init__(self):
        self.settings = {"spark.master": "local[1]", "spark.a": "1"}
        self.conf = self

    def get(self, key, default):
        return self.settings.get(key, default)

    def isModifiable(self, key):
        return key != "spark.master"

    def set(self, key, value):
        self.settings[key] = value


def test_a_running_session_takes_the_settings_that_it_can_change():
    session = Running()
    sessions.apply_settings(session, {"spark.a": "2", "spark.master": "local[1]"})
    assert session.settings["spark.a"] == "2"
    with pytest.warns(UserWarning, match=r"already running and cannot change .*: spark.master$"):
        sessions.apply_settings(session, {"spark.master": "local[2]"})
