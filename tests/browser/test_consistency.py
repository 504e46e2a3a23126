"""The consistency view in a real browser: features are ranked, selected, drawn and filtered, and names are escaped."""

import pytest

from tests.browser.conftest import leave, open_served, wait_until
from tests.services.servers import dashboard_server
from tests.support import features

DRAWN = ".tidegauge[data-view=consistency][data-state=drawn]"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a dashboard on features. Tests may not change them."""
    folder = tmp_path_factory.mktemp("features")
    with dashboard_server(folder / "page", features.make_features(folder / "f.db")) as (_, address):
        yield address


@pytest.fixture
def root(page, served):
    root = open_served(page, served)
    root.get_by_role("tab", name="Consistency", exact=True).click()
    page.locator(DRAWN).wait_for()
    yield root
    leave(page)


def names(root):
    """Return the names of the listed features, also of those that are shortened to their cell."""
    root.page.wait_for_timeout(200)
    return root.locator(".tg-features-list .tg-row").evaluate_all(
        "rows => rows.map((row) => [...row.querySelectorAll('.tg-name')].map((name) => name.title || name.textContent).join(' '))"
    )


def charts(root):
    """Return the titles of the charts, after they are drawn."""
    root.locator(".tg-fan .u-over").first.wait_for()
    return root.locator(".tg-fan figcaption b").all_inner_texts()


def heads(root):
    return root.locator(".tg-feature-title h3").all_inner_texts()


def options(root):
    return root.page.evaluate(
        "document.querySelector('.tidegauge').tidegauge.options('consistency')"
    )


def test_features_are_ranked_selected_and_drawn(root):
    page = root.page
    # The first dataset has no such metrics, and the page names the one that has them.
    assert "no consistency metrics" in root.locator(".tg-state:visible").inner_text()
    root.get_by_role("button", name=features.JOIN).click()
    row = root.locator(".tg-features-list .tg-row")
    row.first.wait_for()
    assert names(root)[:4] == [
        "batch spend",
        "batch visits",
        f"team.ads {features.MARKUP}",
        "stream clicks",
    ]
    assert row.first.inner_text().split("\n")[2:5] == ["90%", "15%", "0%"]
    assert heads(root) == ["batch spend", "Rows of batch"]
    assert charts(root)[0] == "rates"
    line = row.first.locator("canvas")
    line.wait_for()
    assert line.bounding_box()["width"] == 96

    # Another feature is selected with the mouse, one more is added; the charts of both are shown.
    row.nth(3).click()
    root.get_by_role("heading", name="stream clicks").wait_for()
    assert "delta: backfilled − logged" in charts(root)
    row.filter(has_text="tags").get_by_role("button").click()
    root.get_by_role("heading", name="stream tags").wait_for()
    assert heads(root) == ["stream clicks", "stream tags", "Rows of stream"]
    assert len(options(root)["ids"]) == 2

    # With another metric.
    root.get_by_label("Rank by").select_option("missing")
    wait_until(
        page, "document.querySelector('.tg-feature-head').innerText.includes('Worst missing')"
    )
    assert names(root)[:2] == [f"team.ads {features.MARKUP}", "batch visits"]
    root.get_by_label("Group-by").select_option("stream")
    assert set(names(root)) == {"stream clicks", "stream tags", "stream attributes"}
    root.get_by_label("Filter features").fill("TAG")
    wait_until(page, "document.querySelectorAll('.tg-features-list .tg-row').length === 1")
    root.get_by_label("Filter features").fill("nothing at all")
    root.get_by_text("No feature matches the filter.").wait_for()
    assert page.title() == "Consistency – Tidegauge"
    assert not page.locator("img[src='x']").count()


def test_the_view_is_restored_from_its_address(root):
    page = root.page
    root.get_by_label("Dataset", exact=True).fill(features.JOIN)
    root.locator(".tg-features-list .tg-row").first.wait_for()
    root.get_by_label("Group-by").select_option("stream")
    root.locator(".tg-consistency .tg-tools select").nth(1).select_option("30")
    root.locator(".tg-features-list .tg-row", has_text="clicks").click()
    root.get_by_role("heading", name="stream clicks").wait_for()
    before = options(root)
    assert (before["group"], before["range"], len(before["ids"])) == ("stream", "30", 1)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(DRAWN).wait_for()
    root.get_by_role("heading", name="stream clicks").wait_for()
    assert options(root) == before
    assert set(names(root)) == {"stream clicks", "stream tags", "stream attributes"}
    root.get_by_role("button", name="Data", exact=True).click()
    tables = root.get_by_role("dialog", name="Data table").locator("table")
    tables.nth(1).wait_for()
    assert tables.nth(0).locator("tbody tr").count() == 3
    charted = tables.nth(1).locator("tbody").inner_text()
    assert "clicks" in charted
    assert "tags" not in charted
    page.keyboard.press("Escape")
    root.get_by_role("tab", name="Tables", exact=True).click()
    page.locator(".tidegauge[data-view=home][data-state=drawn]").wait_for()
    page.go_back()
    page.locator(DRAWN).wait_for()
    assert options(root) == before


def test_the_keyboard_selects_features_and_dragging_sets_the_window(root):
    page = root.page
    root.get_by_label("Dataset", exact=True).fill(features.JOIN)
    rows = root.locator(".tg-features-list .tg-rows")
    root.locator(".tg-features-list .tg-row").first.wait_for()
    rows.focus()
    rows.press("ArrowDown")
    root.get_by_role("heading", name="batch visits").wait_for()
    pane = root.locator(".tg-features-pane")
    pane.focus()
    pane.press("ArrowRight")
    told = root.locator(".tg-status").inner_text()
    assert told == "2023-01-05: mismatch 30%, missing 25%, extra 0%, both_null 0%"
    assert "mismatch 30%" in root.locator(".tg-fan figcaption").first.inner_text()
    pane.press("ArrowRight")
    assert root.locator(".tg-features-cursor").inner_text() == "2023-01-05 00:30"

    # Dragged over the afternoon of the first day: mismatches at night are no longer counted.
    box = root.locator(".tg-fan .u-over").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.30 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.45 * box["width"], y, steps=4)
    page.mouse.up()
    wait_until(
        page, "document.querySelector('.tg-features-list .tg-row').innerText.includes('team.ads')"
    )
    assert {"since", "until"} <= set(options(root))
    page.locator(".tg-fan .u-over").first.dblclick()
    wait_until(
        page, "document.querySelector('.tg-features-list .tg-row').innerText.includes('spend')"
    )
    assert "since" not in options(root)
