"""`tidegauge dashboard`: refusals, address and shutdown. tests/browser tests the page itself."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec

import pytest

import tidegauge as tg
from tests.services.servers import Server, dashboard_server, jupyter_environment, tidegauge_command
from tidegauge.cli.main import run_command
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import commit, day

served = pytest.mark.skipif(find_spec("tornado") is None, reason="Tornado is not installed")


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with Repository(url) as repo:
        commit(repo, day(1))
    return url


def refusal(capsys, *arguments):
    """Run the command and return its error message."""
    assert run_command(["dashboard", "--no-browser", *arguments]) == 1
    return capsys.readouterr().err


@served
def test_a_database_that_cannot_be_read_is_refused_before_the_server_starts(url, tmp_path, capsys):
    missing = tmp_path / "nope.db"
    assert f"no database at {missing}" in refusal(capsys, "--db", f"sqlite:///{missing}")
    assert not missing.exists()
    assert "in memory" in refusal(capsys, "--db", "sqlite://")
    assert "not supported" in refusal(capsys, "--db", "mysql://someone:secret@host/d")
    said = refusal(capsys, "--db", url, "--dataset", "dd")
    assert "no dataset 'dd'" in said
    assert "did you mean 'd'?" in said
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough")
    assert "not a SQLite database" in refusal(capsys, "--db", f"sqlite:///{tmp_path / 'text.db'}")


@served
@pytest.mark.parametrize(("options", "shown"), [([], False), (["--show-samples"], True)])
def test_samples_are_served_only_on_request(url, monkeypatch, options, shown):
    given = []
    monkeypatch.setattr("tidegauge.widgets.server.serve", lambda what, **_: given.append(what))
    assert run_command(["dashboard", "--no-browser", "--db", url, *options]) == 0
    assert [what.samples for what in given] == [shown]


def test_a_missing_extra_is_reported_with_the_command_to_install_it(url, capsys, monkeypatch):
    monkeypatch.setattr("tidegauge.cli.showing.find_spec", lambda _: None)
    assert refusal(capsys, "--db", url) == (
        "tidegauge: error: the dashboard needs tornado: pip install 'tidegauge[notebook]'\n"
    )


@pytest.mark.soak
@served
def test_a_requested_port_must_be_free(url, tmp_path):
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
    assert f"Cannot listen on 127.0.0.1, port {port}" in done.stderr


@pytest.mark.soak
@served
def test_two_servers_use_different_ports_and_stop_on_a_signal(url, tmp_path):
    with (
        dashboard_server(tmp_path / "1", url) as (one, first),
        dashboard_server(tmp_path / "2", url, "--read-only", "--theme", "dark") as (two, second),
    ):
        assert first != second
        assert 'data-jp-theme-light="true"' in read(first)
        assert 'data-jp-theme-light="false"' in read(second)
        assert two.interrupt() == 0
        one.process.terminate()
        assert one.process.wait(30) == 0
        assert "Traceback" not in one.output + two.output


@pytest.mark.soak
@served
def test_the_browser_is_opened_at_the_address_of_the_server(url, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path / "opened.partial"}\n'
        f"mv {tmp_path / 'opened.partial'} {tmp_path / 'opened'}\n"
    )
    browser.chmod(0o755)
    server = Server(
        tidegauge_command("dashboard", "--db", url),
        tmp_path / "page",
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


def read(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


@served
@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ([], []),
        pytest.param(
            ["--show-samples"], ["ds=2013-01-04: fare=-3"], marks=pytest.mark.soak
        ),  # a separate server for each case
    ],
)
def test_failing_records_are_sent_only_if_samples_are_allowed(url, tmp_path, options, samples):
    with Repository(url) as repo:
        commit(repo, *(day(n, rows=rows) for n, rows in enumerate([10, 10, 99], start=2)))
        repo.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
        row = repo.partitions("d").set_index("partition").loc["ds=2013-01-04"]
        log = ("rule fare: 1 of 99 records", "  ds=2013-01-04: fare=-3")
        verdict = tg.CheckResult(False, (("fare", "1 record, none allowed"),), log)
        repo.keep_verdict(
            "d", name="fares", specification="1", passed=False, result=verdict.to_json(),
            partition="ds=2013-01-04", fingerprint=row["fingerprint"],
        )  # fmt: skip
        number = int(repo.incidents("d")["id"].item())
    question = {"id": "1", "question": "incident", "params": {"incident": number}}
    with dashboard_server(tmp_path, url, "--read-only", *options) as (_, address):
        answer = post_question(address, question)
    (check,) = answer["checks"]
    assert check["reasons"] == ["fare: 1 record, none allowed"]
    assert check["samples"] == samples


def post_question(address, question):
    """Post a question to the server of the page and return the answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}ask", json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read()
    return json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])["payload"]


@served
def test_an_invalid_header_name_is_refused(url, capsys):
    assert "Invalid HTTP header" in refusal(capsys, "--db", url, "--user-header", "X User")


def test_importing_the_command_line_imports_no_large_package():
    large = {"tornado", "pandas", "pyarrow", "scipy.stats", "scipy.optimize", "apprise", "pyspark"}
    code = f"import sys, tidegauge.cli.main; print(sorted({large} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
