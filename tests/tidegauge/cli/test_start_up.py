"""Imports of the command line, which take most of the time of a short command."""

import json
import subprocess
import sys

import pytest
from typer.main import get_command

import tidegauge as tg
from tests.paths import ROOT
from tidegauge.cli.main import COMMAND_PANELS, app
from tidegauge.rules.verdicts import CheckResult

ARRAYS = {"numpy", "pandas", "pyarrow", "scipy", "pyspark"}
COMMANDS = {
    "--help": ({*ARRAYS, "sqlalchemy", "pydantic", "yaml", "rich"}, 300),
    "doctor": ({*ARRAYS, "yaml", "rich"}, 510),
    "report": ({*ARRAYS, "yaml", "rich"}, 520),
    "anomalies list": ({*ARRAYS, "yaml", "rich"}, 520),
    "anomalies list --incidents": ({*ARRAYS, "yaml", "rich"}, 520),
    "dataset list": ({*ARRAYS, "yaml", "rich"}, 520),
    "metrics shop": ({*ARRAYS, "yaml", "rich"} - {"numpy"}, 630),
}
"""Packages that a command must not import, and the highest number of modules that it imports in all."""
CODE = """
import json, sys
from tidegauge.cli.main import run_command
status = run_command(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a repository of one anomaly and one failing check."""
    path = tmp_path_factory.mktemp("start")
    sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
    with tg.Repository(f"sqlite:///{path / 'tidegauge.db'}") as repo:
        repo.record("shop", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        assert len(repo.detect("shop")) == 1
        repo.keep_verdict(
            "shop",
            partition="ds=2026-01-29",
            name="checks",
            specification="1",
            fingerprint="a",
            passed=False,
            result=CheckResult(False, (("has_size", "7 rows, 100 needed"),)).to_json(),
        )
    return path


def run(folder, *arguments):
    """Run a command in its own process and return its output and its imported modules."""
    environment = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=folder, env=environment
    )
    *printed, modules = done.stdout.splitlines()
    status, names = json.loads(modules)
    assert status == 0, done.stderr
    return printed, names


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_little(folder, command):
    if command == "doctor":
        run(folder, command)  # the first command imports packages to check that they fit together
    printed, names = run(folder, *command.split())
    assert printed
    unwanted, most = COMMANDS[command]
    assert {name.partition(".")[0] for name in names} & unwanted == set()
    assert len(names) <= most


def test_the_summaries_of_the_help_equal_the_help_of_the_commands():
    """A summary is the first line of a command's own help, which is not imported for it."""
    commands = get_command(app).commands
    summaries = {
        name: entry.summary for panel in COMMAND_PANELS.values() for name, entry in panel.items()
    }
    assert summaries == {name: commands[name].help.splitlines()[0] for name in commands}
