"""The dashboard in Lab and as a page: no foreign requests, no errors, and escaped names."""

import pytest

from tests.browser.coast import MARKUP, PLAIN
from tests.browser.conftest import leave, open_lab, open_served, wait_for_state
from tests.services.servers import dashboard_server, free_port

CELLS = (
    "import tidegauge as tg\nrepo = tg.Repository(read_only=True)",
    "tg.Dashboard(repo)",
)


def datasets(root):
    """Return the names that the dataset picker suggests."""
    options = root.locator(".tg-bar datalist option")
    return options.evaluate_all("all => all.map(option => option.value)")


@pytest.mark.soak
def test_it_is_drawn_in_lab(page, lab):
    root = open_lab(page, lab, lab.write("drawn.ipynb", *CELLS))
    assert root.get_attribute("data-view") == "home"
    assert PLAIN in datasets(root)
    assert page.title() != "owned"


@pytest.mark.parametrize("theme", [None, "dark"])
def test_the_served_page_is_drawn_and_nothing_else_is_served(page, served, theme):
    root = open_served(page, served, theme=theme)
    assert root.get_attribute("data-view") == "home"
    assert page.title() == "Tables – Tidegauge"
    light = page.locator("body").get_attribute("data-jp-theme-light")
    assert light == ("false" if theme == "dark" else "true")
    box = root.bounding_box()
    assert box["x"] <= 16
    assert box["width"] >= 1280 - 32
    assert not page.locator(".jp-InputArea:visible, .jp-InputPrompt:visible").count()


def test_names_are_escaped(page, served):
    root = open_served(page, served)
    assert MARKUP in datasets(root)
    assert not page.locator("img[src='x']").count()
    assert page.title() == "Tables – Tidegauge"


def test_later_errors_are_shown_until_they_are_fixed(page, tmp_path, coast_copy):
    with dashboard_server(tmp_path, coast_copy, "--read-only") as (_, url):
        (tmp_path / "coast.db").rename(tmp_path / "away.db")
        root = open_served(page, url, state="error")
        told = root.get_by_role("alert")
        assert "no database at …/coast.db" in told.inner_text()
        (tmp_path / "away.db").rename(tmp_path / "coast.db")
        root.get_by_role("button", name="Try again").click()
        wait_for_state(page, "drawn")
        assert not told.is_visible()
        leave(page)  # before the server stops


def test_a_page_survives_a_restart_of_its_server(page, tmp_path, coast):
    port = str(free_port())  # not the ports that dashboards of other tests look for
    with dashboard_server(tmp_path / "first", coast, "--port", port) as (_, url):
        open_served(page, url)
    page.get_by_role("tab", name="Partitions").click()  # not loaded yet
    told = "The server of this page does not respond. To start it, run: tidegauge dashboard"
    page.get_by_text(told).wait_for()
    with dashboard_server(tmp_path / "second", coast, "--port", port):
        page.get_by_role("tab", name="Heat map").click()
        page.locator(".tidegauge[data-view=overview][data-state=drawn]").wait_for()
        page.watched.errors.clear()  # the browser reported a refused connection
        leave(page)


def test_charts_fit_on_a_screen_with_a_fractional_pixel_ratio(chromium, served):
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, device_scale_factor=2)
    try:
        page = context.new_page()
        page.goto(f"{served}#/series?ids=%5B1,2%5D&mode=small")
        wait_for_state(page, "drawn")
        chart = page.locator(".tg-picture")
        chart.locator("canvas").first.wait_for()
        for one in chart.all():
            assert one.locator("canvas").bounding_box() == one.bounding_box()
    finally:
        context.close()
