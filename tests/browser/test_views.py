"""The content of each view of the dashboard, on the served page."""

import json
from dataclasses import replace

import pytest

import tidegauge as tg
from tests.browser.coast import MARKUP, PLAIN
from tests.browser.conftest import leave, open_served, wait_for_state, wait_until
from tests.services.servers import dashboard_server
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import COMPLETE, SIZE, commit, day, judged


@pytest.fixture(scope="module")
def harbour(tmp_path_factory):
    """The URL of 40 days of 1,000 rows.

    The last day was rewritten with half of its rows and a new column.
    """
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
    """Open an address of the page, and return the root once it is drawn."""
    open_served(page, f"{url}{address}")
    return wait_for_state(page, "drawn")


def test_an_incident_is_explained_from_its_causes_to_its_details(page, harbour_served):
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


def test_the_heat_map_lists_incidents_and_one_click_opens_one(page, harbour_served):
    root = go(page, harbour_served, "#/overview")
    listed = root.get_by_role("complementary", name="Incidents, the worst first")
    listed.get_by_role("button").first.click()
    root.get_by_role("heading", name="What happened").wait_for()
    wait_until(page, "location.hash.startsWith('#/incidents/')")
    leave(page)


def test_charts_explain_their_lines_and_marks(page, harbour_served):
    root = go(page, harbour_served, "#/incidents")
    legend = root.locator(".tg-evidence-legend").inner_text()
    assert legend.startswith("▒ usual range, ╌ expected · ▲▼ anomaly")
    root.get_by_role("button", name="Open series: Size").first.click()
    foot = root.locator(".tg-series .tg-foot")
    foot.get_by_text("▒ usual range, ╌ expected · ▲▼ anomaly").wait_for()
    root.get_by_label("Expected").uncheck()
    root.get_by_role("button", name="More", exact=True).click()
    root.get_by_label("Lay over").select_option("7")
    foot.get_by_text("┈ a week earlier · ▲▼ anomaly").wait_for()
    assert "usual range" not in foot.inner_text()
    assert page.title() == "Size – Tidegauge", "one series, although its past is laid over"
    root = go(page, harbour_served, "#/overview")
    foot = root.locator(".tg-overview .tg-foot")
    foot.get_by_text("p-value of the score · ● anomaly").wait_for()
    root.get_by_role("button", name="More", exact=True).click()
    root.get_by_label("Color").select_option("change")
    foot.get_by_text("change from the previous value; blank: fewer than two values").wait_for()
    leave(page)


@pytest.mark.parametrize(
    ("view", "text", "action"),
    [
        ("home", "No table matches the search.", "Show all tables"),
        ("overview", "No series matches the filter.", "Clear the filter"),
        ("compare", "No metric matches the filter.", "Show all metrics"),
    ],
)
def test_a_view_without_matches_offers_to_show_everything(page, served, view, text, action):
    root = go(page, served, f"#/{view}?filter=zzz")
    shown = root.locator(f".tg-{view}")
    shown.get_by_text(text).wait_for()
    shown.get_by_role("button", name=action).click()
    shown.get_by_text(text).wait_for(state="hidden")
    assert shown.get_by_role("searchbox").first.input_value() == ""
    assert "zzz" not in page.evaluate("location.hash")
    leave(page)


def test_a_comparison_has_one_row_of_controls_and_says_what_it_shows(page, served):
    sides = "&".join(
        f"{name}=%7B%22since%22%3A%222013-02-0{first}%22%2C%22until%22%3A%222013-02-0{first + 2}%22%7D"
        for name, first in (("baseline", 1), ("current", 4))
    )
    root = go(page, served, f"#/compare?dataset={PLAIN}&kind=windows&{sides}")
    card = root.locator(".tg-compare-card")
    card.get_by_text("2013-02-04 to 2013-02-06 compared with 2013-02-01 to 2013-02-03").wait_for()
    card.get_by_text("values of the whole window").wait_for()
    tools = root.locator(".tg-compare > .tg-tools")
    assert tools.count() == 1
    assert not root.get_by_label("Values of").is_visible()
    tools.get_by_role("button", name="More", exact=True).click()
    root.get_by_label("Values of").select_option("median")
    card.get_by_text("values of a typical partition (median)").wait_for()
    leave(page)


FIRST_ROWS = """() => {
  const {currentCatalogue: own, order, marks} = document.querySelector('.tidegauge').tidegauge.view('overview');
  return [...order].slice(0, 3).map(row => [own.keyValue('dataset', row), marks.has(row)]);
}"""


def test_the_heat_map_starts_with_the_worst_series(page, served):
    """Only the series of one of two datasets have anomalies; by name, rows would be folded."""
    root = go(page, served, "#/overview")
    assert root.get_by_label("Sort by").input_value() == "worst"
    assert page.evaluate(FIRST_ROWS) == [[PLAIN, True]] * 3
    page.goto("about:blank")
    root = go(page, served, "#/overview?group=dataset")
    assert root.get_by_label("Sort by").input_value() == "name", "as before rows were sorted"
    leave(page)


SHOWN = """() => {
  const {currentCatalogue: own, heatmap} = document.querySelector('.tidegauge').tidegauge.view('overview');
  const [first, end] = heatmap.visibleColumns(own.columns);
  return [own.labels[first], own.labels[end - 1]];
}"""


def test_the_dates_of_the_heat_map_are_in_its_address(page, served):
    """The table has 60 days up to 1 March 2013, and cells of at most 60 pixels."""
    root = go(page, served, f"#/overview?table={PLAIN}")
    assert page.evaluate(SHOWN) == ["2013-01-01", "2013-03-01"]
    assert "since" not in page.url
    root.get_by_role("button", name="Period: 2013-01-01 to 2013-03-01").click()
    root.get_by_role("button", name="30 days", exact=True).click()
    wait_until(page, "location.hash.includes('since=2013-01-31')")
    assert "until" not in page.url, "what is measured next is shown, too"
    assert page.evaluate(SHOWN) == ["2013-01-31", "2013-03-01"]
    assert root.get_by_label("From", exact=True).input_value() == "2013-01-31"
    page.reload()
    wait_for_state(page, "drawn")
    assert page.evaluate(SHOWN) == ["2013-01-31", "2013-03-01"]
    period = root.get_by_role("button", name="Period: ")
    assert "2013-01-31 to 2013-03-01" in period.inner_text()
    period.click()
    root.get_by_label("To", exact=True).fill("2013-02-2")
    assert "until" not in page.url, "no complete date yet"
    root.get_by_label("To", exact=True).fill("2013-02-27")
    wait_until(page, "location.hash.includes('until=2013-02-27')")
    assert page.evaluate(SHOWN) == ["2013-01-31", "2013-02-27"]
    root.get_by_role("button", name="A year earlier", exact=True).click()
    root.get_by_text("This window has no partitions.").wait_for()
    assert root.get_by_label("To", exact=True).input_value() == "2013-02-27"
    root.get_by_role("button", name="Reset", exact=True).click()
    wait_until(page, "!location.hash.includes('since')")
    page.evaluate("location.hash = '#/overview?table=coast&since=2013-02-01&until=2013-02-20'")
    wait_until(page, f"({SHOWN})()[0] === '2013-02-01'")
    assert page.evaluate(SHOWN) == ["2013-02-01", "2013-02-20"]
    root.locator("canvas.tg-heatmap").hover()
    page.mouse.wheel(-100, 0)
    wait_until(page, "!location.hash.includes('since=2013-02-01')")
    leave(page)


def test_datasets_are_searched_while_typing(page, served):
    root = go(page, served, f"#/partitions?dataset={PLAIN}")
    picker = root.get_by_label("Dataset", exact=True)
    suggested = root.locator(".tg-bar datalist option")
    picker.click()
    assert picker.input_value() == ""
    assert suggested.count() == 2
    picker.fill("IMG src")
    assert suggested.evaluate_all("all => all.map(option => option.value)") == [MARKUP]
    assert f"dataset={PLAIN}" in page.url, "no dataset has this name"
    picker.press("Escape")
    assert picker.input_value() == PLAIN
    picker.fill(MARKUP)
    wait_until(page, f"!location.hash.includes('dataset={PLAIN}')")
    root.get_by_role("tab", name="Partitions").focus()
    assert picker.input_value() == MARKUP
    leave(page)


def test_the_consistency_tab_is_shown_only_with_data(page, served):
    root = go(page, served, "#/home")
    tab = root.get_by_role("tab", name="Consistency", exact=True)
    assert tab.is_hidden()
    root.get_by_role("tab", name="Distribution").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".tidegauge[data-view=incidents][data-state=drawn]").wait_for()
    page.evaluate(f"location.hash = '#/consistency?dataset={PLAIN}'")
    root.get_by_text("tidegauge consistency run CONF.yml").wait_for()
    assert tab.is_visible()
    leave(page)


def test_the_home_page_lists_failing_checks(page, harbour_served):
    root = go(page, harbour_served, "#/home")
    root.get_by_role("button", name="1 failing", exact=True).click()
    dialog = root.get_by_role("dialog", name="Failed checks and run")
    dialog.get_by_role("heading", name="1 failed check").wait_for()
    assert "enough rows in ds=2013-02-09" in dialog.inner_text()
    page.reload()
    wait_for_state(page, "drawn")
    dialog.get_by_role("heading", name="Failures of d").wait_for()
    page.keyboard.press("Escape")
    wait_until(page, "location.hash.endsWith('failed=')")
    assert dialog.is_hidden()
    leave(page)


def test_owner_and_last_run_are_visible_at_1024_pixels(page, harbour_served):
    page.set_viewport_size({"width": 1024, "height": 768})
    root = go(page, harbour_served, "#/home")
    for column in ("owner", "run", "newest", "size"):
        assert root.locator(f".tg-home-head [data-column={column}]").is_visible(), column
    rows = root.locator(".tg-home .tg-rows")
    assert rows.evaluate("e => e.scrollWidth <= e.clientWidth")
    leave(page)


def test_a_partition_shows_each_incident_and_each_time_once(page, harbour_served):
    """Size and completeness are unusual on the last day, in one incident.

    It arrived 26 hours after its start.
    """
    root = go(page, harbour_served, "#/partitions?dataset=d&partition=ds%3D2013-02-09")
    pane = root.get_by_role("complementary", name="Partition")
    pane.get_by_role("heading", name="2 anomalies").wait_for()
    assert pane.get_by_role("button", name="Incident").count() == 1
    assert pane.get_by_role("button", name="Open series").count() == 2
    times = pane.locator("dl dd").all_inner_texts()
    assert len(times) == len(set(times))
    leave(page)
