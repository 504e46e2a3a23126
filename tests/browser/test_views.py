"""What each view of the dashboard says of what it shows. On the served page."""

import json
from dataclasses import replace

import pytest
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing.samples import COMPLETE, SIZE, commit, day, judged

import tidegauge as tg
from tests.browser.conftest import leave, open_served, wait_for_state
from tests.servers import dashboard_server


@pytest.fixture(scope="module")
def harbour(tmp_path_factory):
    """The URL of 40 days of 1,000 rows, the last of which was rewritten: half of its rows, and a new column."""
    folder = tmp_path_factory.mktemp("harbour")
    url = f"sqlite:///{folder / 'harbour.db'}"
    wide = json.dumps([["x", "long"], ["s", "string"], ["berth", "string"]])
    with Repository(url) as repo:
        commit(repo, *(day(n, rows=1000 + n % 3, only=[SIZE, COMPLETE]) for n in range(1, 40)))
        commit(repo, day(40, rows=1000, only=[SIZE, COMPLETE]))
        half = day(40, "b", rows=500, only=[SIZE, COMPLETE])
        commit(repo, replace(half, schema=wide))
        limits = [
            tg.Monitor({"name": "Size"}, "SimpleThreshold(2000, 900)"),
            tg.Monitor({"name": "Completeness"}, "SimpleThreshold(1, 0.9985)"),
        ]
        repo.detect("d", limits)
        judged(repo, "b", name="enough rows", passed=False, partition="ds=2013-02-09")
    return url


@pytest.fixture(scope="module")
def harbour_served(harbour, tmp_path_factory):
    with dashboard_server(tmp_path_factory.mktemp("served"), harbour) as (_, url):
        yield url


def go(page, url, address):
    """Open an address of the page, and return the root when it is drawn."""
    open_served(page, f"{url}{address}")
    return wait_for_state(page, "drawn")


def test_an_incident_is_told_from_what_happened_to_its_causes_and_then_the_rest(
    page, harbour_served
):
    root = go(page, harbour_served, "#/incidents")
    root.get_by_role("heading", name="Timeline").wait_for()
    titles = root.locator(".tg-incident-body h3").all_inner_texts()
    assert titles == [
        "What happened",
        "Measured again",
        "Failed checks",
        "Schema changes",
        "Further series",
        "Timeline",
    ]
    again = root.get_by_text("ds=2013-02-09 was measured again on")
    assert again.inner_text().endswith("version 2 has 500 rows instead of 1,000.")
    leave(page)


def test_charts_tell_what_their_lines_and_marks_mean(page, harbour_served):
    root = go(page, harbour_served, "#/incidents")
    legend = root.locator(".tg-evidence-legend").inner_text()
    assert legend.startswith("▒ usual range, ╌ expected · ▲▼ anomaly")
    root.get_by_role("button", name="Open series: Size").first.click()
    foot = root.locator(".tg-series .tg-foot")
    foot.get_by_text("▒ usual range, ╌ expected · ▲▼ anomaly").wait_for()
    root.get_by_label("Expected").uncheck()
    root.get_by_label("Lay over").select_option("7")
    foot.get_by_text("┈ a week earlier · ▲▼ anomaly").wait_for()
    assert "usual range" not in foot.inner_text()
    assert page.title() == "Size – Tidegauge", "one series, although its past is laid over"
    root = go(page, harbour_served, "#/overview")
    foot = root.locator(".tg-overview .tg-foot")
    foot.get_by_text("p-value of the score; blank: not scored · ● anomaly").wait_for()
    root.get_by_label("Colour").select_option("change")
    foot.get_by_text("change from the value before; blank: fewer than two values").wait_for()
    leave(page)
