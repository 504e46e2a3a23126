"""The messages and explanations on pages are the printed ones; see `pages.assert_printed`."""

import datetime as dt
import importlib.util
import logging
import re

import pytest

import tidegauge as tg
from tests.docs.pages import PAGES, assert_printed, blocks, name_of
from tests.paths import ROOT

LOGGER = "tidegauge.incidents"


def test_every_text_block_is_output_or_gives_a_reason():
    """If a block is printed elsewhere, a test compares it: its name appears in the code of the test."""
    texts = [(page, b) for page in PAGES for b in blocks(page) if b.language == "text"]
    assert [
        f"{name_of(page)}:{b.line}" for page, b in texts if not b.printed and not b.why_not
    ] == []
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = [b.printed for _, b in texts if b.printed]
    assert len(names) == len(set(names))
    assert [name for name in names if f'assert_printed("{name}"' not in tests] == []


@pytest.mark.spark
def test_the_explanation_on_the_page_is_printed(measured_copy):
    anomalies = measured_copy.detect("flights")
    point = (anomalies["analyzer"] == "Completeness('dep_time')") & (
        anomalies["partition"] == "ds=2013-02-08"
    )
    point &= anomalies["detector"].str.startswith(
        "Seasonal"
    )  # another monitor also reports the day
    assert_printed("explanation", anomalies.loc[point, "explanation"].item())


@pytest.mark.spark
def test_the_message_of_failed_checks_is_as_shown(measured_copy, caplog):
    """One day failed, was reported, and passes now; another day fails."""
    caplog.set_level(logging.INFO, LOGGER)
    check = tg.Check("flights").is_complete("dep_time", at_least=0.95)
    failure = tg.verify(measured_copy, check, dataset="flights", partitions=["ds=2013-02-08"])
    (message,) = (
        str(line).partition("flights ds=2013-02-08: ")[2] for line in str(failure).splitlines()[1:]
    )
    name = check.constraints[0].description
    keep_verdict(measured_copy, "ds=2013-02-07", (name, "0 is too low"))
    assert len(tg.notify(measured_copy, "log")) == 1
    keep_verdict(measured_copy, "ds=2013-02-07")
    keep_verdict(measured_copy, "ds=2013-02-08", (name, message))
    assert len(tg.notify(measured_copy, "log")) == 1
    assert_printed("failed-checks", caplog.records[-1].getMessage())


def keep_verdict(repo, partition, *failed):
    """Store a verdict of the check ``checks`` on the metrics of a partition."""
    ledger = repo.partitions("flights").set_index("partition")
    result = tg.CheckResult(not failed, tuple(failed)).to_json()
    of = {"name": "checks", "specification": str(failed), "partition": partition}
    fingerprint = ledger.loc[partition, "fingerprint"]
    repo.keep_verdict("flights", **of, fingerprint=fingerprint, passed=not failed, result=result)


def test_the_message_of_a_common_cause_is_as_shown(repo, caplog):
    """Three tables of about a thousand rows have seven on 30 January."""
    caplog.set_level(logging.INFO, LOGGER)
    for name in ("orders", "returns", "users"):
        days = {f"ds={dt.date(2013, 1, 1 + n)}": 1000.0 + n % 3 for n in range(29)}
        repo.record(name, "Size", {**days, "ds=2013-01-30": 7.0}, scale="count")
        repo.detect(name)
    first = repo.incidents()["id"].min()
    tg.notify(repo, "log")
    (record,) = caplog.records
    assert_printed("common-cause", record.getMessage().replace(f"show {first}", "show 4"))


@pytest.mark.soak
def test_the_first_message_of_the_on_call_walk_is_as_shown(tmp_path, caplog, monkeypatch):
    """It is about the first table that is measured; its job cannot know the others."""
    caplog.set_level(logging.INFO, LOGGER)
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", "https://quality.example.org/")
    spec = importlib.util.spec_from_file_location("desk", ROOT / "docs" / "desk.py")
    desk = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(desk)
    tell = tg.notify
    monkeypatch.setattr(
        desk.tg, "notify", lambda repo, sinks: tell(repo, sinks, dataset="sales_orders")
    )
    desk.make_desk(f"sqlite:///{tmp_path / 'desk.db'}", until=dt.date(2026, 11, 21))
    (message,) = (r.getMessage() for r in caplog.records if r.name == LOGGER)
    assert_printed("message", re.sub(r"incidents/\d+$", "incidents/337", message))


@pytest.mark.spark
def test_the_bad_values_in_a_message_are_as_shown(spark):
    """Three of four strings are not e-mail addresses, and two of them differ."""
    data = spark.sql("VALUES ('a@b.example'), ('x'), ('x'), ('') AS t(email)")
    result = tg.verify(data, tg.Check("orders").has_pattern("email", "@"))
    (message,) = result.failures["message"]
    assert_printed("bad-values", message)
