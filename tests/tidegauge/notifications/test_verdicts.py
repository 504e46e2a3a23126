"""Notifications of verdicts: each sink is notified once of a failing check and once of its recovery. No Spark."""

import datetime as dt

import pytest

import tidegauge as tg
from tests.tidegauge.notifications.web import web
from tidegauge.repository.repository import Repository
from tidegauge.repository.store.rows import Severity
from tidegauge.repository.testing import commit, day, spec
from tidegauge.rules.judging import close_verdicts, current_failures
from tidegauge.rules.verdicts import CheckResult

pytest.importorskip("apprise")


def store_verdict(repo, partition="", failed=(), print_="a", dataset="flights", warned=(), **key):
    """Store the verdict on a partition with the names of failing and warning constraints."""
    names, warnings = ([one] if isinstance(one, str) else one for one in (failed, warned))
    result = CheckResult(
        not names,
        tuple((name, f"{name} is wrong") for name in names),
        warnings=tuple((name, f"{name} is odd") for name in warnings),
    )
    identity = {"name": "checks", "specification": "s", "fingerprint": print_, **key}
    repo.keep_verdict(
        dataset, partition=partition, passed=not names, result=result.to_json(), **identity
    )


def logged_messages(caplog):
    """Return the messages logged since the last call."""
    actual = [r.getMessage() for r in caplog.records if r.name == "tidegauge.incidents"]
    caplog.clear()
    return actual


@pytest.fixture(autouse=True)
def all_levels(caplog):
    caplog.set_level("INFO", "tidegauge.incidents")


def test_a_failure_and_its_recovery_are_notified_once(repo, caplog):
    store_verdict(repo, "ds=1")
    assert tg.notify(repo, "log") == []
    store_verdict(repo, "ds=1", "size", print_="b")
    store_verdict(repo, "ds=2", ["size", "mean"])
    (notice,) = tg.notify(repo, "log")
    assert notice == tg.Notice("log", None, checks="checks of flights")
    assert str(notice) == "checks of flights to log: sent"
    assert logged_messages(caplog) == [
        "Tidegauge: checks failed in flights\n"
        "2 partitions fail\n"
        "- ds=1: size: size is wrong\n"
        "- ds=2: size: size is wrong\n"
        "- ds=2: mean: mean is wrong\n"
        "See: tidegauge rules history flights --failed"
    ]
    assert tg.notify(repo, "log") == []
    store_verdict(repo, "ds=2", print_="b")
    assert len(tg.notify(repo, "log")) == 1
    assert logged_messages(caplog) == [
        "Tidegauge: checks pass again in flights\n"
        "1 partition passes again\n"
        "- ds=2 passes again\n"
        "See: tidegauge rules history flights --failed"
    ]
    assert tg.notify(repo, "log") == []


def test_other_failing_constraints_are_notified_and_other_numbers_are_not(repo, caplog):
    store_verdict(repo, failed="size")
    assert len(tg.notify(repo, "log")) == 1
    again = CheckResult(False, (("size", "another number"),)).to_json()
    identity = {"name": "checks", "specification": "s", "fingerprint": "b"}
    repo.keep_verdict("flights", **identity, passed=False, result=again)
    assert tg.notify(repo, "log") == []
    store_verdict(repo, failed=["size", "mean"], print_="c")
    assert len(tg.notify(repo, "log")) == 1
    assert logged_messages(caplog)[-1].splitlines()[:2] == [
        "Tidegauge: checks failed in flights",
        "- size: size is wrong",
    ]


def test_warnings_are_notified_once_and_again_if_other_constraints_warn(repo, caplog):
    store_verdict(repo, "ds=1", warned="mean")
    store_verdict(repo, "ds=2", "size", warned="mean")
    store_verdict(repo, "ds=3")
    assert len(tg.notify(repo, "log")) == 1
    assert logged_messages(caplog) == [
        "Tidegauge: checks failed in flights\n"
        "1 partition fails, 1 warns\n"
        "- ds=2: size: size is wrong\n"
        "- ds=2: warning: mean: mean is odd\n"
        "- ds=1: warning: mean: mean is odd\n"
        "See: tidegauge rules history flights --failed"
    ]
    assert tg.notify(repo, "log") == []
    store_verdict(repo, "ds=1", warned=["mean", "sum"], print_="b")
    store_verdict(repo, "ds=2", warned="mean", print_="b")
    assert len(tg.notify(repo, "log")) == 1
    assert logged_messages(caplog) == [
        "Tidegauge: checks warn in flights\n"
        "2 partitions warn\n"
        "- ds=1: warning: mean: mean is odd\n"
        "- ds=1: warning: sum: sum is odd\n"
        "- ds=2: warning: mean: mean is odd\n"
        "See: tidegauge rules history flights"
    ]
    store_verdict(repo, "ds=1", print_="c")
    assert len(tg.notify(repo, "log")) == 1
    assert logged_messages(caplog)[0].splitlines()[:3] == [
        "Tidegauge: checks pass again in flights",
        "1 partition passes again",
        "- ds=1 passes again",
    ]
    assert tg.notify(repo, "log") == []


def test_a_sink_for_errors_is_not_notified_of_warnings(repo, caplog):
    store_verdict(repo, "ds=1", warned="mean")
    store_verdict(repo, "ds=2", "size", warned="mean")
    assert len(tg.notify(repo, "log", severity="error")) == 1
    assert logged_messages(caplog)[0].splitlines()[1:-1] == [
        "1 partition fails",
        "- ds=2: size: size is wrong",
    ]
    # The same sink with warnings: only these are new to it.
    assert len(tg.notify(repo, "log", severity="warning")) == 1
    assert logged_messages(caplog)[0].splitlines()[0] == "Tidegauge: checks failed in flights"
    # And the other way round, without news.
    assert tg.notify(repo, "log", severity="error") == tg.notify(repo, "log") == []
    # For this sink, a check that only warns passes.
    store_verdict(repo, "ds=2", warned="mean", print_="b")
    assert len(tg.notify(repo, "log", severity="error")) == 1
    assert logged_messages(caplog)[0].splitlines()[:2] == [
        "Tidegauge: checks pass again in flights",
        "1 partition passes again",
    ]
    assert tg.notify(repo, "log") == []


def test_the_severity_of_a_message_is_the_worst_of_its_partitions(repo):
    from tidegauge.notifications.claims import due_verdicts

    def severities(least):
        now = dt.datetime.now(dt.UTC)
        return [str(one.severity) for one in due_verdicts(repo.database, "x", None, least, now)]

    store_verdict(repo, "ds=1", warned="mean")
    assert severities(Severity.WARNING) == severities(Severity.INFO) == ["warning"]
    assert severities(Severity.ERROR) == []
    store_verdict(repo, "ds=2", failed="mean")
    assert severities(Severity.WARNING) == severities(Severity.ERROR) == ["error"]


def test_each_check_is_notified_to_each_sink(repo):
    store_verdict(repo, failed="size")
    store_verdict(repo, failed="fare", name="dqm")
    store_verdict(repo, failed="fare", dataset="other")
    with web() as server:
        sinks = ["log", f"json://{server.at}/"]
        actual = [notice.checks for notice in tg.notify(repo, sinks, dataset="flights")]
        assert actual == ["checks of flights", "dqm of flights"] * 2
        assert [n.checks for n in tg.notify(repo, sinks)] == ["checks of other"] * 2
        assert len(server.got) == 3


def test_only_verdicts_on_current_content_are_current(repo):
    """A verdict on replaced content or on a removed partition is not current."""
    commit(repo, day(1), day(2))
    ledger = repo.partitions("d")
    (one, other), prints = ledger["partition"], list(ledger["fingerprint"])
    store_verdict(repo, one, "size", print_="of before", dataset="d")
    store_verdict(repo, other, "size", print_=prints[1], dataset="d")
    assert [row["partition"] for row in current_failures(repo, "d")] == [other]
    # A partition with the content of an older verdict is judged by that verdict.
    store_verdict(repo, one, print_="of before", dataset="d")
    store_verdict(repo, one, "mean", print_=prints[0], dataset="d")
    store_verdict(repo, one, print_="between", dataset="d")
    actual = current_failures(repo, "d")
    assert [(row["dataset"], row["partition"], row["passed"]) for row in actual] == [
        ("d", one, False),
        ("d", other, False),
    ]
    assert actual[0]["time"] == ledger["time"][0].to_pydatetime()
    repo.store.mark_gone(repo.store.open_run(spec("d")), [one, other])
    assert current_failures(repo, "d") == []
    assert tg.notify(repo, "log") == []


def test_failed_messages_are_retried_and_then_sent_daily(repo, clock):
    store_verdict(repo, failed="size")
    with web(status=500) as server:
        sink = f"json://{server.at}/"
        tries = []
        for minutes in (0, 0.9, 0.2, 5, 30, 120, 1439, 1, 1440):
            clock.now += dt.timedelta(minutes=minutes)
            tries.append(len(tg.notify(repo, sink)))
        assert tries == [1, 0, 1, 1, 1, 1, 0, 1, 1]
        clock.now += dt.timedelta(days=1)
        store_verdict(repo)
        assert tg.notify(repo, sink) == []  # passes, of which the sink is never notified
        store_verdict(repo, failed="size")
        server.server.status = 200
        (notice,) = tg.notify(repo, sink)
        assert not notice.error


def test_a_recovery_before_the_failure_was_sent_is_not_notified(repo, clock):
    store_verdict(repo, failed="size")
    with web(status=500) as server:
        assert tg.notify(repo, f"json://{server.at}/")[0].error
        store_verdict(repo)
        clock.now += dt.timedelta(days=1)
        assert tg.notify(repo, f"json://{server.at}/") == []


def test_a_claim_has_one_owner_and_is_taken_over_after_an_hour(repo, clock):
    from tidegauge.notifications.claims import due_verdicts

    store_verdict(repo, "ds=1", "size")
    (one,) = due_verdicts(repo.database, "log", None, Severity.WARNING, clock.now)
    (other,) = due_verdicts(repo.database, "log", None, Severity.WARNING, clock.now)
    store_verdict(repo, "ds=2", "size")
    assert one.claim(clock.now)
    assert not other.claim(clock.now)
    assert tg.notify(repo, "log")[0].error == ""  # of ds=2
    clock.now += dt.timedelta(minutes=59)
    assert tg.notify(repo, "log") == []
    clock.now += dt.timedelta(minutes=1)
    assert len(tg.notify(repo, "log")) == 1


def test_many_failures_are_counted_and_hostile_names_are_cut(repo, caplog):
    for number in range(7):
        store_verdict(repo, f"ds={number}", "a @everyone\n" + "x" * 999, dataset="d @here")
    tg.notify(repo, "log")
    title, first, *lines, rest, see = logged_messages(caplog)[0].splitlines()
    assert title == "Tidegauge: checks failed in d @ here"
    assert (first, rest) == ("7 partitions fail", "and 2 more")
    assert len(lines) == 5
    assert all(len(line) < 410 and "@everyone" not in line for line in lines)
    assert see.startswith("See: tidegauge rules history")


def test_a_message_links_to_the_table_in_the_dashboard(repo, monkeypatch, caplog):
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", "https://quality.example/desk/")
    store_verdict(repo, failed="size")
    tg.notify(repo, "log")
    link = "See: https://quality.example/desk/#/overview?table=flights"
    assert logged_messages(caplog)[0].splitlines()[-1] == link


def test_a_verdict_of_the_user_is_notified_without_its_content(repo, caplog):
    identity = {"name": "prices", "specification": "s", "fingerprint": "a"}
    repo.keep_verdict("flights", **identity, passed=False, result='{"n": 3}')
    tg.notify(repo, "log")
    assert logged_messages(caplog)[0].splitlines()[:2] == [
        "Tidegauge: prices failed in flights",
        "- failed",
    ]


@pytest.mark.postgres
def test_verdicts_are_claimed_on_both_databases(url, tmp_path):
    with Repository(url, artifacts=tmp_path) as repo:
        store_verdict(repo, failed="size")
        assert len(tg.notify(repo, "log")) == 1
        assert tg.notify(repo, "log") == []
        store_verdict(repo, print_="b")
        assert len(tg.notify(repo, "log")) == 1


def test_failures_under_an_earlier_name_are_closed(repo):
    """Only failures of the same rules are closed. A file of the old name has other rules or fails again."""
    store_verdict(repo, "ds=1", "size", specification="mine")
    store_verdict(repo, "ds=2", "size", specification="another's")
    store_verdict(repo, "ds=3", "size", specification="mine", name="dqm")
    for now in ("checks", "nightly checks", "nightly checks"):
        close_verdicts(repo, "flights", "checks", "mine", now)
        actual = {(row["name"], row["partition"]) for row in current_failures(repo, "flights")}
        still = {("checks", "ds=1")} if now == "checks" else set()
        assert actual == {("checks", "ds=2"), ("dqm", "ds=3")} | still
    store_verdict(repo, "ds=1", "size", specification="mine")
    assert len(current_failures(repo, "flights")) == 3


def test_a_failed_run_and_the_next_complete_run_are_notified_once(repo, caplog):
    commit(repo, day(1), dataset="flights")
    assert tg.notify(repo, "log") == []
    for _ in range(2):
        repo.store.fail_run(spec("flights"), "NoSuchTableError: no folder 't02'")
        tg.notify(repo, "log")
    assert logged_messages(caplog) == [
        "Tidegauge: run failed in flights\n"
        "- run: NoSuchTableError: no folder 't02'\n"
        "See: tidegauge report"
    ]
    overview = repo.overview().iloc[0]
    assert (overview["status"], overview["failing"]) == ("failed", 0)
    commit(repo, day(2), dataset="flights")
    (notice,) = tg.notify(repo, "log")
    assert str(notice) == "run of flights to log: sent"
    assert logged_messages(caplog)[0].startswith("Tidegauge: run is complete again in flights")
    assert tg.notify(repo, "log") == []
