"""What all tests of notifications share: no settings of this machine, and a clock that stands still."""

import datetime as dt
from types import SimpleNamespace

import pytest

from tidegauge.notifications import notify

SETTINGS = (
    "TIDEGAUGE_NOTIFY",
    "TIDEGAUGE_CONFIG",
    "TIDEGAUGE_DASHBOARD_URL",
    "HTTP_PROXY",
    "http_proxy",
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """No sinks but those of a test, no configuration, no proxy."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def clock(monkeypatch):
    """The time, which stands still until a test moves it."""
    at = SimpleNamespace(now=dt.datetime.now(dt.UTC))
    monkeypatch.setattr(notify, "_now", lambda: at.now)
    return at
