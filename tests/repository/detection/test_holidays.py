"""The holidays of a country are stored as dates, so that detection needs no calendar package."""

import json
import sys

import numpy as np
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.repository.detection.detect import store_holidays, stored_suite
from tidegauge.repository.detectors.inputs import HOLIDAY_DATES_KEY, suite_holidays
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import commit, day

SUITE = json.dumps({"holidays": "US"})


def suite_of(repo):
    with repo.database.read() as connection:
        of = connection.execute(sa.select(s.dataset.c.id)).scalar_one()
        return stored_suite(connection, of)


def test_detection_uses_the_stored_dates(repo, monkeypatch):
    """2013 and its neighboring years, in which the 4th of July is Independence Day."""
    pytest.importorskip("holidays")
    commit(repo, *(day(n) for n in range(180, 200)), suite=SUITE)
    store_holidays(repo.database, "d")
    assert sorted(suite_of(repo)[HOLIDAY_DATES_KEY]) == ["2012", "2013", "2014"]
    commit(repo, day(200), suite=SUITE)  # a run that stores no dates
    before = repo.runs("d")
    monkeypatch.setitem(sys.modules, "holidays", None)
    actual = suite_holidays(suite_of(repo), repo.partitions("d")["time"])
    assert {actual["2013-07-04"], actual["2014-07-04"]} == {"Independence Day"}
    assert "2013-07-05" not in actual
    repo.detect("d")
    repo.backtest("d", tg.Seasonal())
    store_holidays(repo.database, "d")  # without new partitions there is nothing to look up
    assert len(repo.runs("d")) == len(before)


def test_without_dates_and_calendar_the_error_names_what_is_missing(repo, monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    commit(repo, *(day(n) for n in range(1, 3)), suite=SUITE)
    store_holidays(repo.database, "d")
    with pytest.raises(tg.SuiteError, match=r"pip install 'tidegauge\[holidays\]'"):
        repo.detect("d")


def test_the_dates_are_those_of_the_country_of_the_suite(repo):
    pytest.importorskip("holidays")
    commit(repo, day(1), suite=SUITE)
    store_holidays(repo.database, "d")
    commit(repo, day(2), suite=json.dumps({"holidays": "NO"}))
    assert suite_of(repo)[HOLIDAY_DATES_KEY] == {}
    store_holidays(repo.database, "d")
    assert "2013-05-17" in suite_of(repo)[HOLIDAY_DATES_KEY]["2013"]  # Norway's constitution day


def test_a_suite_is_restored_without_the_dates():
    suite = tg.Suite("d", [tg.Size()], holidays="US")
    text = json.dumps({**json.loads(suite.canonical()), HOLIDAY_DATES_KEY: {"2013": {}}})
    assert tg.Suite.from_json(text) == suite


def test_a_holiday_does_not_explain_a_month(repo):
    months = [f"ds={2010 + n // 12}-{n % 12 + 1:02}-01" for n in range(25)]
    rows = {name: 1000.0 + n % 3 for n, name in enumerate(months)} | {"ds=2012-01-01": 100.0}
    suite = json.dumps({"holidays": {"2012-01-01": "New Year"}})
    commit(repo, suite=suite)
    repo.record("d", "volume", rows, scale="count")
    repo.detect("d", [tg.Monitor({"name": "volume"})])
    assert repo.incidents("d")[["last", "status"]].values.tolist() == [["ds=2012-01-01", "open"]]


CLOSED = {"2013-02-10": "Carnival"}


@pytest.mark.parametrize(
    ("complete", "status"),
    [(1.0, "expected"), (0.4, "open"), (None, "expected")],
)
def test_a_holiday_explains_more_values_but_no_missing_ones(repo, complete, status):
    """The rows double; a larger or smaller number of them than usual has a value."""
    suite = json.dumps({"holidays": CLOSED})
    commit(repo, *(day(n, only=[]) for n in range(1, 42)), suite=suite)
    days = [f"ds={np.datetime64('2013-01-01') + n}" for n in range(41)]
    repo.record("d", "rows", {one: 1000.0 for one in days} | {days[40]: 5000.0})
    values = dict.fromkeys(days, 0.9) | {days[40]: 0.9 if complete is None else complete}
    repo.record("d", "Completeness", values, instance="x", scale="ratio")
    watch = [
        tg.Monitor({"name": "rows"}, tg.SimpleThreshold(2000.0, lower_bound=0.0)),
        tg.Monitor({"name": "Completeness"}, "OnlineNormal"),
    ]
    anomalies = repo.detect("d", watch)
    assert len(anomalies[anomalies["partition"] == days[40]]) == (1 if complete is None else 2)
    last = repo.incidents("d").iloc[0]
    assert (last["first"], last["status"]) == (days[40], status)
