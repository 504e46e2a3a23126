"""Every number is readable at every width: a page scrolls sideways, but cuts or hides no number."""

import pytest

from tests.browser.coast import BAD_PARTITION, PLAIN
from tests.browser.conftest import leave, open_served

WIDTHS = [320, 480, 700, 900, 1024, 1440, 2560]
WINDOWS = {
    "kind": "windows",
    "baseline": {"since": "2013-01-01", "until": "2013-01-14"},
    "current": {"since": "2013-01-15", "until": "2013-02-14"},
}
VIEWS = [
    ("home", {}),
    ("overview", {}),
    ("series", {"ids": [1, 2]}),
    ("compare", {"kind": "partitions"}),
    ("compare", WINDOWS),
    ("distribution", {"column": "s", "current": {"partition": BAD_PARTITION}}),
    ("incidents", {}),
    ("partitions", {"partition": BAD_PARTITION}),
]
CUT = """
() => {
  const cut = [];
  const walker = document.createTreeWalker(document.querySelector(".tg-page"), NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const holder = text.parentElement;
    if (!/[0-9]/.test(text.data) || !holder.checkVisibility()) continue;
    if (holder.closest(".tg-name, .tg-visually-hidden, option, .uplot")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const { left, right } = range.getBoundingClientRect();
    for (let box = holder; box && !box.matches(".tg-page"); box = box.parentElement) {
      const { overflowX, display } = getComputedStyle(box);
      if (display === "inline" || overflowX === "visible") continue;
      if (["auto", "scroll"].includes(overflowX)) break;
      const frame = box.getBoundingClientRect();
      if (right > frame.right + 1 || left < frame.left - 1) cut.push(`${text.data} in ${box.className}`);
    }
  }
  return cut;
}
"""
"""Texts with digits that end outside of a box that neither shows nor scrolls them."""
HIDDEN_COLUMNS = """
() => [...document.querySelectorAll(".tg-page [role=columnheader]")]
  .filter(header => !header.checkVisibility()).map(header => header.dataset.column)
"""


@pytest.mark.parametrize(("view", "options"), VIEWS)
def test_no_number_is_cut_at_any_width(page, served, view, options):
    root = open_served(page, served)
    page.evaluate(
        "given => document.querySelector('.tidegauge').tidegauge.go(...given)",
        [view, options, PLAIN],
    )
    page.locator(f".tidegauge[data-view={view}][data-state=drawn]").wait_for()
    page.wait_for_timeout(800)  # links to distributions arrive later
    expected = None
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(200)
        assert page.evaluate(CUT) == [], width
        hidden = page.evaluate(HIDDEN_COLUMNS)
        expected = hidden if expected is None else expected
        assert hidden == expected, f"{width} shows other columns than {WIDTHS[0]}"
        assert root.evaluate("e => e.getBoundingClientRect().right <= innerWidth + 1"), width
    leave(page)


def test_the_data_dialog_breaks_no_word_and_scrolls_sideways(page, served):
    page.set_viewport_size({"width": 700, "height": 800})
    root = open_served(page, f"{served}#/compare")
    root.get_by_role("button", name="Data", exact=True).click()
    rows = root.locator(".tg-data-rows")
    rows.locator("td").first.wait_for()
    lines = rows.locator("td, th").evaluate_all(
        "cells => cells.filter(cell => cell.getBoundingClientRect().height > 32).map(cell => cell.textContent)"
    )
    assert lines == []
    assert rows.evaluate(
        "e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX === 'auto'"
    )
    leave(page)


PAPER = {"width": 718, "height": 1000}
"""A4 less the margins, in CSS pixels."""
CONTROLS_SHOWN = """
() => [...document.querySelectorAll(".tidegauge :is(input, select, textarea)")]
  .filter(control => control.checkVisibility()).length
"""
OUTSIDE = """
() => [...document.querySelectorAll(".tg-page :is(canvas, td, [role=gridcell], p, h2, h3, li)")]
  .filter(element => element.checkVisibility())
  .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
  .map(element => element.className || element.tagName)
"""


@pytest.mark.parametrize(("view", "options"), VIEWS)
def test_a_printed_page_has_no_controls_and_cuts_nothing(page, served, view, options):
    root = open_served(page, served)
    page.evaluate(
        "given => document.querySelector('.tidegauge').tidegauge.go(...given)",
        [view, options, PLAIN],
    )
    page.locator(f".tidegauge[data-view={view}][data-state=drawn]").wait_for()
    page.wait_for_timeout(800)
    shown = root.locator(".tg-row").count()
    page.set_viewport_size(PAPER)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(CONTROLS_SHOWN) == 0
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(CUT) == []
    scrolled = root.locator(":is(.tg-rows, .tg-incident, .tg-partition, .tg-page)").evaluate_all(
        "all => all.filter(e => e.checkVisibility() && e.scrollHeight > e.clientHeight + 1"
        " && getComputedStyle(e).overflowY !== 'visible').length"
    )
    assert scrolled == 0
    count = root.locator(".tg-rows[role=grid]").first
    if view == "compare":
        rows = int(count.get_attribute("aria-rowcount"))
        assert root.locator(".tg-row").count() == rows - 1 >= shown
    if view == "overview":
        drawn = "({heatmap, order}) => [heatmap.inner.height, order.length * heatmap.viewport.rowHeight]"
        height, needed = root.evaluate(f"e => ({drawn})(e.tidegauge.view('overview'))")
        assert height >= needed
        assert root.get_by_text("Incidents, the worst first").is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert root.get_by_role("tab").first.is_visible()
    leave(page)


def test_paper_is_light_also_in_the_dark_theme(page, served):
    root = open_served(page, served, theme="dark")
    background = "e => getComputedStyle(e).backgroundColor"
    assert root.evaluate(background) != "rgb(255, 255, 255)"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert root.evaluate(background) == "rgb(255, 255, 255)"
    assert not root.evaluate("e => e.tidegauge.theme.dark")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert root.evaluate("e => e.tidegauge.theme.dark")
    leave(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_paints_its_background(page, served, theme):
    root = open_served(page, served, theme=theme)
    background = root.evaluate("e => getComputedStyle(e).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 25, 31)"}[theme]
    leave(page)
