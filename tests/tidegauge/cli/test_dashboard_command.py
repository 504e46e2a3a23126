"""`tidegauge dashboard`: what it refuses, where it listens, how it ends. What it shows: tests/browser."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest
from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.cli.main import run_command
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing.samples import commit, day
from tidegauge.widgets.served import Problem, Shown, _user

from tests.servers import Server, dashboard_server, jupyter_environment, tidegauge_command

served = pytest.mark.skipif(find_spec("voila") is None, reason="Voila is not installed")


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with Repository(url) as repo:
        commit(repo, day(1))
    return url


def refusal(capsys, *arguments):
    assert run_command(["dashboard", "--no-browser", *arguments]) == 1
    return capsys.readouterr().err


@served
def test_a_database_that_cannot_be_shown_is_refused_before_anything_starts(url, tmp_path, capsys):
    missing = tmp_path / "nope.db"
    assert f"there is no database {missing}" in refusal(capsys, "--db", f"sqlite:///{missing}")
    assert not missing.exists()
    assert "in memory" in refusal(capsys, "--db", "sqlite://")
    assert "not supported" in refusal(capsys, "--db", "mysql://someone:secret@host/d")
    said = refusal(capsys, "--db", url, "--dataset", "dd")
    assert "no dataset 'dd'" in said
    assert "did you mean 'd'?" in said
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough")
    assert "not a SQLite database" in refusal(capsys, "--db", f"sqlite:///{tmp_path / 'text.db'}")


def test_without_the_extra_it_says_what_to_install(url, capsys, monkeypatch):
    monkeypatch.setattr(
        "tidegauge.cli.dashboard.find_spec", lambda name: None if name == "voila" else object()
    )
    assert refusal(capsys, "--db", url) == (
        "tidegauge: error: the dashboard needs voila: pip install 'tidegauge[notebook]'\n"
    )


@pytest.mark.soak
@served
def test_a_port_that_is_asked_for_must_be_free(url, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            tidegauge_command("dashboard", "--db", url, "--no-browser", "--port", str(port)),
            capture_output=True,
            text=True,
            check=False,
            env=jupyter_environment(tmp_path),
            timeout=60,
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr


@pytest.mark.soak
@served
def test_two_find_ports_of_their_own_and_end_with_their_kernels(url, tmp_path):
    with (
        dashboard_server(tmp_path / "1", url) as (one, first),
        dashboard_server(tmp_path / "2", url, "--read-only", "--theme", "dark") as (two, second),
    ):
        assert first != second
        assert "<title>Tidegauge</title>" in read(first)
        page = read(second)
        assert 'data-jp-theme-light="false"' in page
        assert "https://" not in page
        (kernel,) = two.children()
        assert not {word for word in kernel.cmdline() if "sqlite" in word}
        assert json.loads(kernel.environ()["TIDEGAUGE_DASHBOARD"]) == {
            "db": url,
            "artifacts": None,
            "dataset": None,
            "read_only": True,
            "user_header": None,
        }
        assert two.interrupt() == 0
        kernel.wait(30)
        started = one.children()
        one.process.terminate()
        assert one.process.wait(30) == 0
        for kernel in started:
            kernel.wait(30)
        assert "Traceback" not in one.said + two.said


@pytest.mark.soak
@served
def test_it_opens_the_browser_at_its_address(url, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path / "opened.partial"}\n'
        f"mv {tmp_path / 'opened.partial'} {tmp_path / 'opened'}\n"
    )
    browser.chmod(0o755)
    server = Server(
        tidegauge_command("dashboard", "--db", url),
        tmp_path / "voila",
        jupyter_environment(tmp_path, BROWSER=str(browser)),
    )
    try:
        address = server.wait_for(r"Dashboard at (http://\S+)")[1]
        deadline = time.monotonic() + 30
        while not (tmp_path / "opened").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (tmp_path / "opened").read_text() == address + "\n"
        read(address)
        assert server.interrupt() == 0
    finally:
        server.end()


@pytest.mark.soak
@served
def test_names_of_other_machines_are_refused(url, tmp_path):
    """A page elsewhere could give its own name this machine's address, and read what is shown."""
    with dashboard_server(tmp_path, url) as (server, address):
        asked = urllib.request.Request(address, headers={"Host": "elsewhere.example"})
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(asked)
        refused.value.close()
        assert not server.children()


@pytest.mark.soak
@served
def test_a_relative_database_is_the_one_of_the_folder_in_which_it_was_started(url, tmp_path):
    (tmp_path / "voila").mkdir()
    (tmp_path / "r.db").rename(tmp_path / "voila" / "r.db")
    with dashboard_server(tmp_path, "sqlite:///r.db") as (server, address):
        read(address)
        (kernel,) = server.children()
        shown = Shown.from_environment(kernel.environ())
    assert shown.db == f"sqlite:///{tmp_path / 'voila' / 'r.db'}"


def read(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def test_what_is_shown_goes_by_the_environment():
    environment = {}
    shown = Shown("postgresql+psycopg://a:secret@host/d", "/large", 'a "name"', read_only=True)
    shown.put(environment)
    assert Shown.from_environment(environment) == shown


def test_the_user_is_the_one_that_the_proxy_names():
    assert _user("X-Forwarded-User", {"HTTP_X_FORWARDED_USER": " ann "}) == "ann"
    for environment in ({}, {"HTTP_X_FORWARDED_USER": " "}):
        with pytest.raises(TidegaugeError, match="the request has no header X-Forwarded-User"):
            _user("X-Forwarded-User", environment)


@served
def test_a_name_that_is_no_header_is_refused(url, capsys):
    assert "no name of an HTTP header" in refusal(capsys, "--db", url, "--user-header", "X User")


def test_a_problem_is_text():
    assert "&lt;img" in Problem("no dataset '<img>'")._repr_html_()


def test_importing_the_command_line_does_not_import_voila():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, tidegauge.cli.main; print('voila' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert done.stdout == "False\n"
