"""The dashboard in JupyterLab: state in traits, the mouse wheel, and separate styles of outputs."""

import json

import pytest

from tests.browser.coast import BAD_PARTITION, MARKUP, PLAIN
from tests.browser.conftest import open_lab, wait_for_state

pytestmark = pytest.mark.soak  # each test needs JupyterLab and a kernel

OPEN = "import json, pathlib\nimport tidegauge as tg\nrepo = tg.Repository(read_only=True)"
TOLD = """d = tg.Dashboard(repo)
def tell(_):
    pathlib.Path({told!r}).write_text(json.dumps([d.view, d.dataset, d.options]))
d.observe(tell)
d"""
RESTORED = """d = tg.Dashboard(repo, {dataset!r}, view={view!r})
d.options = json.loads({options!r})
d"""
STATE = "e => {const {model} = e.tidegauge; return [model.get('view'), model.get('dataset'), model.get('options')[model.get('view')]];}"
SIDES = {
    "baseline": {"partition": "ds=2013-01-02"},
    "current": {"partition": BAD_PARTITION},
}
PLACES = {
    "home": {"filter": "coast", "health": "", "sort": "dataset", "reverse": True},
    "overview": {"table": PLAIN, "by": "change", "group": "segment", "filter": "size"},
    "series": {"ids": [1, 2], "since": 1359676800, "until": 1361145600, "log": False},
    "compare": {"kind": "partitions", **SIDES, "filter": "size", "unusual": False},
    "distribution": {"column": "s", **SIDES, "segment": ""},
    "consistency": {"filter": "x"},
    "incidents": {"status": "", "filter": "volume", "group": "none", "table": PLAIN},
    "partitions": {"partition": BAD_PARTITION, "highlight": "anomalies"},
}
"""Options of each view, as our page saved them."""
SEEN = {
    "home": {"Search tables": "coast"},
    "overview": {"Filter series": "size", "Color": "change", "Group by": "segment"},
    "series": {"From": "2013-02-01", "To": "2013-02-18"},
    "compare": {"Filter metrics": "size"},
    "distribution": {"Column": "s"},
    "incidents": {"Search incidents": "volume", "Group by": "none"},
}
"""The content of its fields with these options."""


def test_each_view_is_restored_from_traits(page, lab, tmp_path):
    told = tmp_path / "told.json"
    root = open_lab(page, lab, lab.write("told.ipynb", OPEN, TOLD.format(told=str(told))))
    saved = {}
    for view, options in PLACES.items():
        root.evaluate("(e, given) => e.tidegauge.go(...given)", [view, options, PLAIN])
        page.locator(f".tidegauge[data-view={view}][data-state=drawn]").wait_for()
        page.wait_for_timeout(500)  # until the kernel has received it
        name, dataset, all_options = json.loads(told.read_text())
        assert (name, dataset) == (view, PLAIN)
        assert {**all_options[view], **options} == all_options[view]
        saved[view] = all_options

    cells = [
        RESTORED.format(dataset=PLAIN, view=view, options=json.dumps(options))
        for view, options in saved.items()
    ]
    open_lab(page, lab, lab.write("restored.ipynb", OPEN, *cells))
    for view, options in saved.items():
        root = page.locator(f".tidegauge[data-view={view}]")
        root.scroll_into_view_if_needed()
        page.locator(f".tidegauge[data-view={view}][data-state=drawn]").wait_for()
        assert root.evaluate(STATE) == [view, PLAIN, options[view]]
        for field, text in SEEN.get(view, {}).items():
            assert root.get_by_label(field, exact=view == "series").first.input_value() == text, (
                view,
                field,
            )
    shown = page.locator(".tidegauge[data-view=partitions]").inner_text()
    assert BAD_PARTITION in shown
    assert "tidegauge" not in page.evaluate("location.hash")  # the address belongs to Lab


def test_the_wheel_scrolls_the_notebook_until_the_map_has_the_focus(page, lab):
    cells = (
        OPEN,
        f"d = tg.Dashboard(repo, view='overview', height=500)\n"
        f"d.options = {{'overview': {{'table': {MARKUP!r}, 'group': ''}}}}\nd",
        "print('\\n' * 300)",
    )
    root = open_lab(page, lab, lab.write("wheel.ipynb", *cells))
    heat = root.locator(".tg-heatmap")
    heat.scroll_into_view_if_needed()

    def places():
        top = root.evaluate("e => e.tidegauge.view('overview').heatmap.viewport.top")
        return heat.bounding_box()["y"], top

    def turn(pixels):
        box = heat.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, max(box["y"], 60) + 100)
        page.mouse.wheel(0, pixels)
        page.wait_for_timeout(300)

    (height, top) = places()
    turn(120)
    assert places()[0] == pytest.approx(height - 120, abs=2)
    assert places()[1] == top
    heat.focus()
    height, _ = places()
    turn(60)
    assert places()[1] > top
    assert places()[0] == pytest.approx(height, abs=2)
    turn(100_000)  # the rest of the map, and no further
    turn(120)  # at its end the notebook continues to scroll
    assert places()[0] < height


TABLE = """e => [...e.querySelectorAll('table, th, td')].slice(0, 40).map(one => {
  const style = getComputedStyle(one);
  return ['textAlign', 'fontFamily', 'fontSize', 'color', 'backgroundColor', 'borderBottom', 'padding', 'whiteSpace'].map(name => style[name]);
})"""
CONTROLS = """e => [e, ...e.querySelectorAll('button, select, input, summary')].slice(0, 60).map(one => {
  const style = getComputedStyle(one);
  return ['fontFamily', 'fontSize', 'color', 'backgroundColor', 'border', 'padding', 'borderRadius', 'height'].map(name => style[name]);
})"""
REMOVE_STYLES = """() => {
  const ours = [...document.querySelectorAll('style')].filter(one => one.textContent.includes('.tg-tabs'));
  ours.forEach(one => one.remove());
  return ours.length;
}"""
FRAME = f"repo.latest({PLAIN!r})"


def test_styles_of_outputs_and_dashboard_are_separate(page, lab):
    dashboard = "tg.Dashboard(repo, view='home', height=400)"
    root = open_lab(page, lab, lab.write("beside.ipynb", OPEN, FRAME, dashboard))
    output = page.locator(".tidegauge-output").first
    beside = output.evaluate(TABLE), root.evaluate(CONTROLS)
    text, number = (output.locator(f"td{name}").first for name in (":not(.number)", ".number"))
    align = "e => getComputedStyle(e).textAlign"
    assert (text.evaluate(align), number.evaluate(align)) == ("left", "right")

    assert page.evaluate(REMOVE_STYLES) > 0
    assert output.evaluate(TABLE) == beside[0]

    root = open_lab(page, lab, lab.write("alone.ipynb", OPEN, dashboard))
    assert not page.locator(".tidegauge-output").count()
    assert root.evaluate(CONTROLS) == beside[1]


DISCONNECTED = "Not connected: Python was restarted, or this notebook was opened without it. Run this cell again."


def expect_static_table(page):
    """Wait until a dashboard reports that no Python answers, above the table in the notebook."""
    root = wait_for_state(page, "disconnected")
    assert root.get_by_role("alert").inner_text() == DISCONNECTED
    assert not root.get_by_role("tab").count()  # links would lead nowhere
    table = root.get_by_role("table")
    assert "Tables on 20" in table.locator("caption").inner_text()
    assert PLAIN in table.inner_text()
    assert table.locator("tbody tr").count() > 1
    return root


def test_a_restarted_kernel_is_reported_above_the_last_picture_of_the_view(page, lab):
    notebook = lab.write(
        "restarted.ipynb", OPEN, "tg.Dashboard(repo, view='partitions', height=400)"
    )
    root = open_lab(page, lab, notebook)
    drawn = root.locator(".tg-page").inner_text()
    assert "2013" in drawn
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text("Restart Kernel\N{HORIZONTAL ELLIPSIS}", exact=True).click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    root = wait_for_state(page, "disconnected")
    assert root.get_by_role("alert").inner_text() == DISCONNECTED
    assert not root.get_by_role("tab").count()  # links would lead nowhere
    assert root.locator(".tg-page[inert]").inner_text() == drawn

    page.get_by_text("| Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    root = wait_for_state(page, "drawn")
    assert root.get_by_role("tab").count() > 5
    assert not page.locator(".tidegauge-saved").is_visible()


def test_a_saved_notebook_reports_that_no_python_answers_above_the_static_table(page, lab):
    notebook = lab.write("saved.ipynb", OPEN, "tg.Dashboard(repo, view='home', height=400)")
    lab.execute(notebook)
    page.goto(f"{lab.url}/lab/workspaces/saved/tree/{notebook}")
    expect_static_table(page)
    assert not page.locator(".tidegauge-saved").is_visible()


def test_a_notebook_saved_without_widgets_shows_the_table_instead_of_an_error(page, lab):
    """JupyterLab saves no state of widgets unless its setting says so."""
    notebook = lab.write("unsaved.ipynb", OPEN, "tg.Dashboard(repo, view='home', height=400)")
    lab.execute(notebook, with_widgets=False)
    page.goto(f"{lab.url}/lab/workspaces/unsaved/tree/{notebook}")
    saved = page.locator(".tidegauge-saved")
    saved.get_by_text("run this cell again").wait_for()
    assert PLAIN in saved.inner_text()
    page.get_by_text("Error displaying widget").wait_for(state="hidden")
    # the error of JupyterLab, which names the widget that it lacks
    page.watched.errors = [error for error in page.watched.errors if "widget" not in error.lower()]


def test_the_page_waits_for_a_busy_kernel(page, lab):
    cells = (
        OPEN,
        "d = tg.Dashboard(repo, view='home', height=400)\nd",
        "import time; time.sleep(13)",
    )
    notebook = lab.write("busy.ipynb", *cells)
    open_lab(page, lab, notebook, state="loading")
    assert page.locator(".tidegauge[data-state=disconnected]").count() == 0
    wait_for_state(page, "drawn")


def test_a_chart_from_python_needs_no_network_and_follows_the_theme(page, lab):
    """The fixture fails on a request to another host."""
    cell = f"repo.plot({PLAIN!r}, 'Size', where='', segment='')"
    page.goto(f"{lab.url}/lab/workspaces/chart/tree/{lab.write('chart.ipynb', OPEN, cell)}")
    page.get_by_text("| Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    label = page.locator(".vega-embed svg text", has_text="time (UTC)").first
    label.wait_for()
    light = label.evaluate("e => getComputedStyle(e).fill")
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).hover()
    page.get_by_text("JupyterLab Dark", exact=True).click()
    page.wait_for_timeout(3000)
    assert label.evaluate("e => getComputedStyle(e).fill") != light
