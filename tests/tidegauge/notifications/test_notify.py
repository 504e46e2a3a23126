"""Notifications: each sink gets each incident once, no run waits for a sink, and secrets are not shown."""

import datetime as dt
import json
import logging
import socketserver
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from email import message_from_bytes, policy
from types import SimpleNamespace

import pytest

import tidegauge as tg
from tests.test_plugins import ROOT, run
from tests.tidegauge.notifications.web import web
from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    ReadOnlyError,
    SuiteError,
    UnknownDatasetError,
)
from tidegauge.notifications import claims
from tidegauge.notifications import notify as module
from tidegauge.notifications.claims import claim
from tidegauge.notifications.messages import verdict_message
from tidegauge.notifications.sinks import Mask, identity, read_sink, redact
from tidegauge.repository.repository import Repository
from tidegauge.repository.store.config import dashboard_url, notify_settings

pytest.importorskip("apprise")

SECRET = "T0pS3cretToken"
HOSTILE = (
    "a @Everyone\r\nInjected: x\u202e<img src=x onerror=alert(1)> <!channel>\x1b[31m" + "x" * 10_000
)  # the longest allowed name; the name of a dataset is shorter


def add_incident(
    repository, dataset="orders", name="revenue", severity="warning", monitors=None, month=1
):
    """Create an open incident and return its id. Incidents of several datasets in one month are a group."""
    first = dt.date(2013, month, 1)
    days = [f"ds={first + dt.timedelta(days=n)}" for n in range(60)]
    values = {day: 1000.0 + n % 7 for n, day in enumerate(days)}
    values[days[-1]] = 90_000.0
    repository.record(dataset, name, values, scale="positive")
    repository.detect(dataset, monitors or [tg.Monitor({}, "Seasonal", severity)])
    incidents = repository.incidents(dataset, status="open")
    assert len(incidents) == 1
    return int(incidents["id"][0])


def notices(repository):
    with repository.database.read() as connection:
        rows = connection.exec_driver_sql(
            "SELECT incident_id, sink, attempts, sent_at, error FROM notice"
        )
        return rows.all()


def everything_stored(repository):
    with closing(sqlite3.connect(repository.database.file)) as connection:
        return "\n".join(connection.iterdump())


def test_a_webhook_is_notified_once(repo):
    of = add_incident(repo)
    with web() as server:
        sink = f"json://{server.at}/"
        (notice,) = tg.notify(repo, [sink])
        assert notice == tg.Notice(identity(sink), of)
        assert tg.notify(repo, [sink, sink]) == []
        assert len(server.got) == 1
        assert (
            tg.notify(repo, f"json://{server.at}/other")[0].error == ""
        )  # another sink is notified
    path, body, _ = server.got[0]
    assert path == "/"
    assert body["title"] == "Tidegauge: ▲ warning in orders"
    lines = body["message"].splitlines()
    assert lines[0] == repo.incidents()["headline"][0]
    assert lines[1] == f"- {repo.anomalies()['explanation'][0]}"
    assert lines[-1] == f"See: tidegauge anomalies show {of}"
    assert notices(repo)[0][:3] == (of, identity(sink), 1)


@pytest.mark.parametrize("scheme", ["http", "json+http"])
def test_the_address_of_a_webhook_is_not_changed(repo, scheme):
    add_incident(repo)
    with web() as server:
        tg.notify(repo, f"{scheme}://me:pw@{server.at}/a%20b?token=AbC&x=")
    path, _, headers = server.got[0]
    assert path == "/a%20b?token=AbC&x="
    assert headers["Authorization"].startswith("Basic ")


def test_addresses_of_services_are_recognized():
    apprise = pytest.importorskip("apprise")
    from tidegauge.notifications.sinks import _service

    address = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    read_sink("json://localhost").open()  # loads its plug-ins
    asset = apprise.AppriseAsset()
    assert _service(apprise, address, asset).service_name == "Slack"
    hook = _service(apprise, "json+https://[::1]:8443/x", asset)
    assert (hook.host, hook.port, hook.secure, hook.fullpath) == ("[::1]", 8443, True, "/x")


WEBHOOK = "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


@pytest.mark.parametrize(
    ("address", "channel"),
    [
        (f"slack://{WEBHOOK}/#quality", "#quality"),
        (f"https://hooks.slack.com/services/{WEBHOOK}", None),
    ],
)
def test_slack_is_notified_as_in_the_cookbook(repo, monkeypatch, address, channel):
    """Webhooks have two forms: Apprise's form, and the address that Slack shows."""
    from apprise.plugins.slack import NotifySlack

    incident = add_incident(repo)
    monkeypatch.setenv("SLACK", address)
    with web(answer=b"ok") as server:
        monkeypatch.setattr(NotifySlack, "webhook_url", f"http://{server.at}/services")
        (sent,) = tg.notify(repo, "${SLACK}")
    assert (sent.incident, sent.error) == (incident, "")
    ((path, body, _),) = server.got
    assert path == f"/services/{WEBHOOK}"
    assert body.get("channel") == channel
    (message,) = body["attachments"]
    assert "orders" in message["title"]
    assert "revenue" in message["text"]
    assert WEBHOOK.rpartition("/")[2] not in str(everything_stored(repo))


@pytest.mark.soak
def test_concurrent_threads_and_processes_send_one_message(repo, tmp_path):
    add_incident(repo)
    url = f"sqlite:///{repo.database.file}"
    code = (
        "import sys\nfrom tidegauge.repository.repository import Repository\n"
        "from tidegauge.notifications.notify import notify\n"
        "with Repository(sys.argv[1]) as repo:\n"
        "    print('ready', flush=True); sys.stdin.readline()\n"
        "    print(len(notify(repo, sys.argv[2])))\n"
    )
    with web() as server:
        sink = f"json://{server.at}/"
        others = [
            subprocess.Popen(
                [sys.executable, "-c", code, url, sink],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for other in others:
            assert other.stdout.readline() == "ready\n"
        sent = []

        def notify_in_thread():
            with Repository(url) as mine:
                sent.append(len(tg.notify(mine, sink)))

        threads = [threading.Thread(target=notify_in_thread) for _ in range(4)]
        for thread in threads:
            thread.start()
        sent += [int(other.communicate("\n", timeout=60)[0]) for other in others]
        for thread in threads:
            thread.join()
    assert sorted(sent) == [0, 0, 0, 0, 0, 1]
    assert len(server.got) == 1


def test_failed_messages_are_retried_later_and_then_daily(repo, clock, caplog):
    of = add_incident(repo)
    with web(status=500) as server:
        sink = f"json://{server.at}/"
        tries = [0]
        for minutes in (0, 0.9, 0.2, 4, 1, 29, 1, 119, 1, 1439, 1, 1439, 1):
            clock.now += dt.timedelta(minutes=minutes)
            tries.append(tries[-1] + len(tg.notify(repo, sink)))
        assert tries == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7]
        ((incident, _, attempts, sent, error),) = notices(repo)
        assert (incident, attempts, sent) == (of, 7, None)
        assert error.endswith("error=500.")
        server.server.status = 200
        clock.now += dt.timedelta(days=1)
        assert tg.notify(repo, sink)[0].error == ""
        clock.now += dt.timedelta(days=1)
        assert tg.notify(repo, sink) == []
    assert f"notification failed: incident {of} to json:" in caplog.text


def test_a_message_is_not_sent_again_after_a_successful_retry(repo, clock):
    add_incident(repo)
    with web(status=503) as server:
        sink = f"json://{server.at}/"
        assert tg.notify(repo, sink)[0].error
        server.server.status = 200
        clock.now += dt.timedelta(minutes=1)
        assert not tg.notify(repo, sink)[0].error
        clock.now += dt.timedelta(days=1)
        assert tg.notify(repo, sink) == []
    ((_, _, attempts, sent, error),) = notices(repo)
    assert (attempts, error) == (2, None)
    assert sent is not None


def test_a_claim_whose_owner_died_is_taken_over_after_an_hour(repo, clock):
    from tidegauge.notifications.claims import claim

    incident = add_incident(repo)
    assert claim(repo.database, incident, "log", clock.now)
    clock.now += dt.timedelta(minutes=59)
    assert tg.notify(repo, "log") == []
    clock.now += dt.timedelta(minutes=1)
    assert tg.notify(repo, "log") == [tg.Notice("log", incident)]


@pytest.mark.soak
def test_a_hanging_server_is_tried_once_and_not_waited_for(repo, clock):
    for month, dataset in enumerate(("a", "b", "c"), 1):
        add_incident(repo, dataset, month=month)
    with web(hang=threading.Event()) as server:
        sent = tg.notify(repo, [f"json://{server.at}/", "log"], seconds=0.5)
        assert server.answered == []
    assert [notice.error for notice in sent] == ["no answer within 0.5 s", "", "", ""]
    assert [row[2] for row in notices(repo) if row[1] != "log"] == [1]


def test_only_open_incidents_of_sufficient_severity_are_notified(repo):
    quiet, loud = (
        add_incident(repo, "quiet", severity="info"),
        add_incident(repo, "loud", severity="error"),
    )
    expected = add_incident(repo, "known")
    repo.label(expected, "expected")
    over = add_incident(repo, "over")
    repo.record(
        "over", "revenue", {f"ds=2013-03-{n:02}": 1000.0 for n in range(2, 9)}, scale="positive"
    )
    repo.detect("over", [tg.Monitor({}, "Seasonal")])
    assert repo.incidents("over")["status"].tolist() == ["resolved"]
    assert over not in repo.incidents(status="open")["id"].tolist()
    assert tg.notify(repo, "log", dataset="quiet") == []
    assert [n.incident for n in tg.notify(repo, "log")] == [loud]
    assert [
        n.incident for n in tg.notify(repo, "log", severity="info", dataset=["quiet", "known"])
    ] == [quiet]
    with pytest.raises(UnknownDatasetError, match="did you mean 'quiet'"):
        tg.notify(repo, "log", dataset="quite")
    with pytest.raises(SuiteError, match="unknown severity 'grave'"):
        tg.notify(repo, "log", severity="grave")


@pytest.mark.parametrize(("resolved", "messages"), [(5, 5), (6, 1)])
def test_many_resolved_incidents_of_a_first_run_are_one_message_and_open_ones_stay_single(
    resolved, messages
):
    row = {"series": 1, "group": None, "status": "resolved"}
    over = [row | {"id": n, "dataset": f"t{n}"} for n in range(resolved)]
    open_rows = [row | {"id": 100 + n, "dataset": "t0", "status": "open"} for n in range(9)]
    grouped = [row | {"id": 200 + n, "dataset": f"g{n}", "group": 200} for n in range(9)]
    sizes = sorted(map(len, claims._messages([*over, *open_rows, *grouped])))
    assert sizes == sorted([resolved // messages] * messages + [1] * 9 + [9])


def test_a_read_only_repository_refuses_to_notify(repo):
    add_incident(repo)
    with (
        Repository(f"sqlite:///{repo.database.file}", read_only=True) as reader,
        pytest.raises(ReadOnlyError),
    ):
        tg.notify(reader, "log")


def test_the_log_level_is_the_severity(repo, caplog):
    add_incident(repo, severity="error")
    tg.notify(repo, ["log"])
    (record,) = [r for r in caplog.records if r.name == "tidegauge.incidents"]
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("Tidegauge: ◆ error in orders\n2013-03-01: ")


def test_secrets_are_not_shown(repo, clock, caplog, capfd, monkeypatch):
    caplog.set_level(logging.DEBUG)
    add_incident(repo)
    monkeypatch.setenv("HOOK", SECRET)
    with web(status=404) as server:
        sinks = [
            f"json://me:{SECRET}@{server.at}/services/{SECRET}?-key={SECRET}",
            f"json+http://{server.at}/${{HOOK}}",
            f"http://{server.at}/x?token={SECRET}",
            f"json://localhost:1/{SECRET}",  # no server listens here
            f"jsons://{server.at}/{SECRET}",  # no TLS here
            f"nosuch://{SECRET}@host",
            f"https://localhost:{SECRET}/",
            f"{SECRET}/{SECRET}",
            f"nosuch:{SECRET}",
            f"slack://{SECRET}",
        ]
        suite = tg.Suite("orders", [tg.Size()], notify=sinks)
        sent = [notice for _ in range(2) for notice in tg.notify(repo, sinks)]
        sent += module.notify_all(repo, {"orders": sinks})
        assert len(server.got) == 3
        assert all(SECRET in str(path) for path, *_ in server.got)
    assert all(notice.error for notice in sent)
    assert any("error=404" in notice.error for notice in sent)
    out, err = capfd.readouterr()
    seen = [everything_stored(repo), caplog.text, out, err, *map(repr, sent), *map(str, sent)]
    seen += [module.summarize(sent), repr(suite), suite.canonical()]
    for text in seen:
        assert SECRET.lower() not in text.lower()
    assert "${HOOK}" in suite.canonical()


def test_secrets_in_addresses_are_masked():
    mask = Mask("slack://T1/a%2Fb/Key-1?x=p+q")
    assert mask.hide("KEY-1 and a/b, a%2Fb or p+q at slack") == "*** and ***, *** or p+q at slack"
    assert Mask("log").hide("log") == "log"
    assert redact("slack://abc/${TOKEN}") == "slack://***${TOKEN}"
    assert redact("a b") == "***"
    assert identity("slack://a") != identity("slack://b")
    assert "abc" not in repr(read_sink("json://abc"))


def test_hostile_names_are_escaped(repo, caplog):
    add_incident(repo, f"d{HOSTILE}"[:1000], f"n{HOSTILE}")
    with web() as server:
        tg.notify(repo, [f"json://{server.at}/", "log"])
    (_, body, _) = server.got[0]
    assert len(body["title"]) < 200
    assert len(body["message"]) < 1200
    assert len(body["message"].splitlines()) == 3
    for text in (body["title"], body["message"], caplog.records[-1].getMessage()):
        assert "@Everyone" not in text
        assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize(("form", "shown"), [("text", "<img"), ("html", "&lt;img")])
def test_mail_is_sent_as_plain_text_or_escaped_html(repo, form, shown):
    add_incident(
        repo, "d<img src=x onerror=alert(1)>", "n\r\nBcc: x@y <img src=x onerror=alert(1)>"
    )
    mails = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(
                    b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 ok\r\n"
                )

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        sink = f"mailto://localhost:{server.server_address[1]}?from=us@example.org&to=you@example.org&format={form}"
        (notice,) = tg.notify(repo, sink)
        server.shutdown()
    assert notice.error == ""
    mail = message_from_bytes(mails[0], policy=policy.default)
    assert mail["Subject"].startswith("Tidegauge: ▲ warning in d<img")
    assert mail["Bcc"] is None
    body = mail.get_body(("html",) if form == "html" else ("plain",)).get_content()
    body = body.replace("&nbsp;", " ")
    assert f"n Bcc: x@y {shown} src=x" in body
    assert ("<img" in body) == (form == "text")


def test_unknown_sinks_are_reported_and_the_others_are_notified(repo, caplog, monkeypatch):
    add_incident(repo)
    reported = tg.notify(repo, ["lug", "nosuch://host", "${NO_SUCH}", "log"])
    assert [notice.sink.partition(":")[0] for notice in reported] == [
        "lug",
        "nosuch",
        "${NO_SUCH}",
        "log",
    ]
    assert reported[0].error == "unknown sink 'lug'; did you mean 'log'?"
    assert reported[1].error
    assert (
        reported[2].error
        == "the sink ${NO_SUCH} needs the environment variable NO_SUCH, which is not set"
    )
    assert reported[3].error == ""
    assert "notification failed: lug: unknown sink" in caplog.text
    assert len(notices(repo)) == 1  # a sink that was never tried uses up no attempt
    monkeypatch.setattr("tidegauge.notifications.sinks.find_spec", lambda _: None)
    (notice,) = tg.notify(repo, "slack://a/b/c")
    assert notice.error == "the sink slack://*** needs apprise: pip install 'tidegauge[notify]'"


@pytest.mark.soak
def test_apprise_is_imported_only_when_it_is_used():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, tidegauge as tg, tidegauge.files.runs\n"
            "with tg.Repository('sqlite://') as repo:\n"
            "    print(tg.notify(repo, ['log', 'slack://a/b/c']), 'apprise' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout == "[] False\n"


PAGER = """
told = []
def page(title, body, argument):
    print(argument, title)
    if argument == "fails":
        raise SystemExit("no " + argument)
"""


def install(folder, package, target, text):
    (folder / f"{target.partition(':')[0]}.py").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    name = target.partition("_")[0]
    (info / "entry_points.txt").write_text(f"[tidegauge.sinks]\n{name} = {target}\n")


@pytest.mark.soak
def test_sinks_of_other_packages_are_used(repo, tmp_path):
    add_incident(repo)
    install(tmp_path, "pager-sink", "pager_sink:page", PAGER)
    install(tmp_path, "broken-sink", "broken_sink:page", "import no_such_module")
    install(tmp_path, "odd-sink", "odd_sink:page", "page = 7")
    sinks = ["pager:team", "pager:fails", "broken:x", "odd", "pagr"]
    done = run(
        tmp_path,
        "import tidegauge as tg\n"
        f"with tg.Repository('sqlite:///{repo.database.file}') as repo:\n"
        f"    for notice in tg.notify(repo, {sinks!r}):\n"
        "        print(notice.sink.partition(':')[0], '|', notice.error)\n",
    )
    assert done.stdout.splitlines() == [
        "team Tidegauge: ▲ warning in orders",
        "fails Tidegauge: ▲ warning in orders",
        "pager | ",
        "pager | SystemExit: no ***",
        "broken | cannot use sink 'broken' of broken-sink:"
        " ModuleNotFoundError: No module named 'no_such_module'",
        "odd | cannot use sink 'odd' of odd-sink: it is not a function",
        "pagr | unknown sink 'pagr'; did you mean 'pager'?",
    ]
    assert "plug-in 'broken' of broken-sink was skipped" in done.stderr


def test_sinks_are_read_from_the_environment_or_a_file(monkeypatch, tmp_path):
    assert notify_settings() == []
    file = tmp_path / "tidegauge.toml"
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(file))
    file.write_text('notify = ["log", "${SLACK}"]\n')
    assert notify_settings() == ["log", "${SLACK}"]
    monkeypatch.setenv("TIDEGAUGE_NOTIFY", " json://a\n log ")
    assert notify_settings() == ["json://a", "log"]
    monkeypatch.setenv("TIDEGAUGE_NOTIFY", "")
    assert notify_settings() == []
    monkeypatch.delenv("TIDEGAUGE_NOTIFY")
    for wrong in (f'"{SECRET}"', f'["{SECRET}", 7]'):
        file.write_text(f"notify = {wrong}\n")
        with pytest.raises(DatabaseAccessError, match="notify must be a list of strings") as caught:
            notify_settings()
        assert SECRET not in str(caught.value)
    file.write_text('db = "sqlite://"\nnotify = []\n')
    with Repository() as repository:
        assert repository.datasets() == []


def test_suites_can_name_sinks(tmp_path):
    plain = tg.Suite("d", [tg.Size()])
    assert "notify" not in json.loads(plain.canonical())
    file = tmp_path / "suite.yml"
    text = "dataset: d\ntable: t\nanalyzers: [Size]\nnotify:\n  - log\n  - ${SLACK}\n"
    file.write_text(text)
    suite = tg.load_suite(file).suite
    assert suite.notify == ("log", "${SLACK}")
    assert tg.Suite.from_json(suite.canonical()) == suite
    for wrong in ("log", [7], [" "]):
        with pytest.raises(SuiteError, match="notify must be a list of strings"):
            tg.Suite("d", [tg.Size()], notify=wrong)


def fake_run(monkeypatch, repository, tmp_path, notify):
    """Run a suite file for a dataset as if Spark had measured it."""
    from tidegauge.files import runs

    file = tmp_path / "suite.yml"
    file.write_text(f"dataset: orders\ntable: t\nanalyzers: [Size]\nnotify: {json.dumps(notify)}\n")
    ran = SimpleNamespace(
        dataset="orders", changes={}, failed={}, unreadable={}, checks={}, passed=True, routes=""
    )
    monkeypatch.setattr(runs, "open_file", lambda *_: None)
    monkeypatch.setattr(runs, "analyze", lambda *_, **__: ran)
    return runs.run_suites([str(file)], repository, session=lambda: None)


def test_a_run_notifies_and_never_fails_because_of_a_sink(repo, monkeypatch, tmp_path, caplog):
    incident = add_incident(repo)
    assert fake_run(monkeypatch, repo, tmp_path, []).notices == []  # off by default
    assert notices(repo) == []
    summary = fake_run(monkeypatch, repo, tmp_path, ["log", "lug"])
    assert summary.notices[0] == tg.Notice("log", incident)
    assert (
        "notifications: 1 sent (to log: incident 2), 1 failed (lug: unknown sink 'lug'; did you mean 'log'?)"
        in summary.lines()
    )
    assert summary.status() == 0
    monkeypatch.setenv("TIDEGAUGE_NOTIFY", "json://localhost:1/")
    (notice,) = fake_run(monkeypatch, repo, tmp_path, ["log"]).notices
    assert notice.error == "A Connection error occurred sending JSON notification to ***."
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.delenv("TIDEGAUGE_NOTIFY")
    summary = fake_run(monkeypatch, repo, tmp_path, ["log"])
    assert summary.notices[0].error.startswith("cannot read the configuration")
    assert summary.status() == 0


@pytest.mark.postgres
def test_incidents_are_claimed_on_both_databases(url, tmp_path, clock):
    with Repository(url, artifacts=tmp_path) as repository:
        incident = add_incident(repository)
        assert tg.notify(repository, "log") == [tg.Notice("log", incident)]
        assert tg.notify(repository, "log") == []


def test_a_message_links_to_the_incident_in_the_dashboard(repo, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", "https://quality.example/desk/")
    of = add_incident(repo)
    with web() as server:
        tg.notify(repo, f"json://{server.at}/")
    (_, body, _) = server.got[0]
    assert body["message"].splitlines()[-1] == f"See: https://quality.example/desk/#/incidents/{of}"


def test_the_address_of_the_dashboard_is_read_from_the_environment_or_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGAUGE_DASHBOARD_URL", raising=False)
    monkeypatch.delenv("TIDEGAUGE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    assert dashboard_url() is None
    (tmp_path / "tidegauge.toml").write_text('dashboard_url = "https://a.example/"')
    assert dashboard_url() == "https://a.example/"
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", "http://b.example")
    assert dashboard_url() == "http://b.example"
    for wrong in ("javascript:alert(1)", "quality.example", "https://a.example/#/home"):
        monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", wrong)
        with pytest.raises(tg.DatabaseAccessError, match="use an address such as https://host/"):
            dashboard_url()


def test_a_snoozed_incident_is_notified_when_the_snooze_ends(repo):
    incident = add_incident(repo)
    repo.label(incident, "snoozed", until=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1), by="ann")
    assert tg.notify(repo, ["log"]) == []
    repo.label(incident, "reopened", by="ann")
    assert [notice.incident for notice in tg.notify(repo, ["log"])] == [incident]


def outage(repository, *names, last=7):
    """Record tables that lost their rows on the same day, and return their incidents."""
    for name in names:
        rows = [1000 + n % 3 for n in range(29)] + [last]
        days = {f"ds={dt.date(2013, 1, 1 + n)}": float(count) for n, count in enumerate(rows)}
        repository.record(name, "Size", days, scale="count")
        repository.detect(name)
    return sorted(repository.incidents()["id"].tolist())


def test_incidents_of_several_tables_with_one_cause_are_one_message(repo, caplog):
    ids = outage(repo, "orders", "returns", "users")
    caplog.set_level(logging.INFO, "tidegauge.incidents")
    assert tg.notify(repo, "log") == [tg.Notice("log", ids[0], other_incidents=tuple(ids[1:]))]
    (record,) = caplog.records
    assert record.getMessage().splitlines() == [
        "Tidegauge: ◆ error in 3 tables",
        "2013-01-30: fewer rows in 3 tables: orders, returns and users",
        "- orders: 2013-01-30: volume -99%",
        "- returns: 2013-01-30: volume -99%",
        "- users: 2013-01-30: volume -99%",
        f"See: tidegauge anomalies show {ids[0]}",
    ]
    assert [sent is not None for _, _, _, sent, _ in notices(repo)] == [True] * 3
    assert tg.notify(repo, "log") == []


def test_a_table_that_joins_a_group_later_is_notified_as_part_of_it(repo, caplog):
    outage(repo, "orders", "returns", "users")
    tg.notify(repo, "log")
    number = max(outage(repo, "visits"))
    caplog.set_level(logging.INFO, "tidegauge.incidents")
    assert tg.notify(repo, "log") == [tg.Notice("log", number)]
    text = caplog.text
    assert "Tidegauge: ◆ error in visits" in text
    assert (
        "Part of a group: 2013-01-30: fewer rows in 4 tables: orders, returns, users and visits"
        in text
    )


def test_members_of_a_group_that_another_process_claimed_are_left_out(repo):
    ids = outage(repo, "orders", "returns", "users")
    assert claim(repo.database, ids[0], "log", dt.datetime.now(dt.UTC))
    assert tg.notify(repo, "log") == [tg.Notice("log", ids[1], other_incidents=(ids[2],))]


@pytest.mark.soak
def test_many_tables_are_named_in_few_lines(repo, caplog):
    outage(repo, *(f"t{n}" for n in range(8)))
    caplog.set_level(logging.INFO, "tidegauge.incidents")
    assert len(tg.notify(repo, "log")) == 1
    assert "and in t5, t6, t7" in caplog.messages[0].splitlines()


def test_commands_in_messages_can_be_pasted_into_a_shell():
    _, body = verdict_message("a;rm -rf ~", "checks", {"": ["no rows"]}, [])
    assert body.endswith("See: tidegauge rules history 'a;rm -rf ~' --failed")
