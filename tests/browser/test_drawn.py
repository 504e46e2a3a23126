"""The dashboard is drawn in Lab and in Voila, asks nobody, has no errors, and runs nobody's names."""

import pytest

from tests.browser.coast import MARKUP, PLAIN
from tests.browser.conftest import leave, open_lab, open_voila, wait_for_state
from tests.servers import dashboard_server

CELLS = (
    "import tidegauge as tg\nrepo = tg.Repository(read_only=True)",
    "tg.Dashboard(repo)",
)


def test_it_is_drawn_in_lab(page, lab):
    root = open_lab(page, lab, lab.write("drawn.ipynb", *CELLS))
    assert root.get_attribute("data-view") == "home"
    assert PLAIN in root.get_by_label("Dataset", exact=True).text_content()
    assert page.title() != "owned"


@pytest.mark.parametrize("theme", [None, "dark"])
def test_it_is_drawn_in_voila_and_nothing_else_is(page, voila, theme):
    root = open_voila(page, voila, theme=theme)
    assert root.get_attribute("data-view") == "home"
    assert page.title() == "Tables – Tidegauge"
    light = page.locator("body").get_attribute("data-jp-theme-light")
    assert light == ("false" if theme == "dark" else "true")
    box = root.bounding_box()
    assert box["x"] <= 16
    assert box["width"] >= 1280 - 32
    assert not page.locator(".jp-InputArea:visible, .jp-InputPrompt:visible").count()


def test_names_are_text(page, voila):
    root = open_voila(page, voila)
    assert MARKUP in root.get_by_label("Dataset", exact=True).text_content()
    assert not page.locator("img[src='x']").count()
    assert page.title() == "Tables – Tidegauge"


@pytest.mark.soak
def test_a_page_that_is_left_ends_its_kernel(page, tmp_path, coast):
    with dashboard_server(tmp_path, coast) as (server, url):
        open_voila(page, url)
        (kernel,) = server.children()
        leave(page)
        kernel.wait(30)


@pytest.mark.soak
def test_what_goes_wrong_later_is_a_sentence_on_the_page(page, tmp_path, coast_copy):
    with dashboard_server(tmp_path, coast_copy, "--read-only") as (_, url):
        (tmp_path / "coast.db").unlink()
        page.goto(url)
        shown = wait_for_state(page, "error").inner_text()
        leave(page)  # before there is no server
        assert shown == f"there is no database {tmp_path / 'coast.db'} to read"
