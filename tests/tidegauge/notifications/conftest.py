"""Fixtures for tests of notifications: no settings from this machine, and a clock that tests control."""

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
def empty_environment(monkeypatch, tmp_path):
    """Remove sinks, configuration and proxies of the environment."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def clock(monkeypatch):
    """Return the current time, which changes only when a test sets it."""
    at = SimpleNamespace(now=dt.datetime.now(dt.UTC))
    monkeypatch.setattr(notify, "_now", lambda: at.now)
    return at
