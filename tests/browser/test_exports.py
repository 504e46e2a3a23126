"""Pages are saved as images and tables, and as Python code that returns the same data."""

import io
import struct
from xml.etree import ElementTree

import pandas as pd
import pytest

from tests.browser.coast import BAD_PARTITION, MARKUP, PLAIN
from tests.browser.conftest import leave, open_served, wait_for_state
from tidegauge.repository.repository import Repository
from tidegauge.widgets.answers import csv

SVG = "{http://www.w3.org/2000/svg}"
SIDES = {
    "baseline": {"since": "2013-02-01", "until": "2013-02-14"},
    "current": {"partition": BAD_PARTITION},
}
SEEN = {
    "home": ({"filter": "coast", "sort": "dataset", "reverse": True}, None),
    "overview": (
        {"table": PLAIN, "by": "change", "group": "analyzer", "filter": "ratio"},
        None,
    ),
    "series": ({"ids": [1, 2], "since": 1359676800, "until": 1361145600, "past": 7}, None),
    "compare": (
        {
            "kind": "partitions",
            "baseline": {"partition": "ds=2013-01-02"},
            "current": {"partition": BAD_PARTITION},
            "filter": "histogram",
            "sort": "relative",
            "down": False,
        },
        PLAIN,
    ),
    "distribution": ({"column": "s", **SIDES, "segment": ""}, PLAIN),
    "incidents": ({"status": "open", "filter": "overdue", "table": PLAIN}, None),
    "partitions": ({"partition": BAD_PARTITION}, PLAIN),
}
"""Options of each view that filter it, and its dataset; consistency has no data here."""
TEXTS = {
    "home": {"Incidents", PLAIN, "failed analyzers"},
    "overview": {"2 of 16 series · 60 partitions"},
    "series": {"Uniqueness s"},
    "compare": {"Metric", "Histogram.abs.b", "Surprise"},
    "distribution": {"Jensen-Shannon", "Category"},
    "incidents": {"What happened", "MissingPartition"},
    "partitions": {"Feb 2013", "19"},
}
CONTROLS = {
    "Color",
    "change ▾",
    "Lay over",
    "Acknowledge",
    "Open series",
    "Compare with a week earlier",
}
"""Texts of controls, which no exported or printed page shows."""
CANVASES = """view => [...document.querySelectorAll('.tg-page canvas')]
  .filter(canvas => canvas.width > 1 && canvas.checkVisibility()).length"""


@pytest.fixture
def root(page, served):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield open_served(page, served)
    leave(page)


def show(root, view):
    options, dataset = SEEN[view]
    root.page.evaluate(
        "given => document.querySelector('.tidegauge').tidegauge.go(...given)",
        [view, options, *([dataset] if dataset else [])],
    )
    root.page.locator(f".tidegauge[data-view={view}][data-state=drawn]").wait_for()
    root.page.wait_for_timeout(400)


def export(root, kind):
    """Choose a menu entry, and return the saved file."""
    root.get_by_text("Export", exact=True).click()
    with root.page.expect_download() as download:
        root.get_by_role("button", name=kind, exact=True).click()
    return download.value.path().read_bytes()


@pytest.mark.parametrize("view", SEEN)
def test_a_page_is_saved_as_an_image_with_its_text(root, view):
    show(root, view)
    if view == "distribution":
        root.get_by_text("Click a point to select its partition.").wait_for()  # drift comes last
    picture = ElementTree.fromstring(export(root, "SVG of the picture"))
    assert not {one.tag for one in picture.iter() if not one.tag.startswith(SVG)}
    texts = {one.text for one in picture.iter(f"{SVG}text")}
    assert TEXTS[view] - texts == set()
    assert not CONTROLS & texts
    assert len(list(picture.iter(f"{SVG}image"))) == root.page.evaluate(CANVASES)
    size = [int(picture.get(name)) for name in ("width", "height")]
    box = root.locator(".tg-page").bounding_box()
    assert size == [round(box["width"]), round(box["height"]) + 26]
    bitmap = export(root, "PNG of the picture")
    assert bitmap.startswith(b"\x89PNG")
    assert list(struct.unpack(">II", bitmap[16:24])) == size


def test_a_card_is_saved_as_an_image_without_its_tools(root):
    show(root, "series")
    card = root.locator(".tg-series-card")
    width = round(card.bounding_box()["width"])
    with root.page.expect_download() as download:
        root.get_by_role("button", name="Save as PNG: 2 series").click()
    bitmap = download.value.path().read_bytes()
    assert download.value.suggested_filename == "tidegauge-2-series.png"
    assert bitmap.startswith(b"\x89PNG")
    assert struct.unpack(">I", bitmap[16:20]) == (width,)


def test_only_the_visible_part_is_drawn(root):
    show(root, "partitions")
    pane = root.locator(".tg-partition")
    pane.evaluate("e => { e.style.height = '120px'; e.scrollTop = 0; }")
    texts = {one.text for one in ElementTree.fromstring(export(root, "SVG of the picture")).iter()}
    assert any(BAD_PARTITION in (text or "") for text in texts), "its heading"
    last = pane.locator("li").last.inner_text().splitlines()[-1]
    assert last not in texts


def test_names_are_escaped_in_images(root):
    root.page.evaluate(
        "name => document.querySelector('.tidegauge').tidegauge.go('overview', {table: name})",
        MARKUP,
    )
    wait_for_state(root.page, "drawn")
    picture = ElementTree.fromstring(export(root, "SVG of the picture"))
    assert picture.find(f"{SVG}title").text == MARKUP
    assert not list(picture.iter(f"{SVG}script"))


@pytest.mark.parametrize("view", SEEN)
def test_the_table_equals_the_view_and_the_python_cell_returns_the_same(
    root, coast, view, monkeypatch, capsys
):
    show(root, view)
    saved = export(root, "CSV of the data").decode()
    root.get_by_text("Export", exact=True).click()
    root.get_by_role("button", name="Copy as Python").click()
    root.get_by_text("The Python code is copied.").wait_for()
    cell = root.page.evaluate("navigator.clipboard.readText()")
    monkeypatch.setenv("TIDEGAUGE_DB", coast)
    names = {}
    exec(cell, names)
    data = names["data"]
    assert csv(data, view).payload["content"] == saved
    table = pd.read_csv(io.StringIO(saved))
    options = SEEN[view][0]
    match view:
        case "home":
            assert table["dataset"].tolist() == [PLAIN]
        case "overview":
            assert table["name"].tolist() == ["Histogram.ratio.a", "Histogram.ratio.b"]
        case "series":
            days = table["partition"].str.removeprefix("ds=").unique().tolist()
            assert (days[0], days[-1]) == ("2013-02-01", "2013-02-18")
            assert "earlier" in table
        case "compare":
            assert set(table["name"]) == {
                "Histogram.abs.a",
                "Histogram.abs.b",
                "Histogram.bins",
                "Histogram.ratio.a",
                "Histogram.ratio.b",
            }
            assert table["relative"].abs().is_monotonic_increasing
        case "distribution":
            assert table.columns.tolist() == ["side", "category", "share"]
        case "incidents":
            assert set(table["dataset"]) == {PLAIN}
            assert set(table["status"]) == {"open"}
            assert str(options["table"]) in capsys.readouterr().out, "the incident is explained"
        case "partitions":
            assert table["partition"].iloc[0] == "ds=2013-01-01"
    names["repo"].close()


def test_a_page_names_its_exported_rows_and_columns(root):
    asked = []
    root.page.on(
        "request", lambda request: request.method == "POST" and asked.append(request.post_data_json)
    )
    for view in ("home", "overview", "series", "compare", "incidents"):
        show(root, view)
        table = pd.read_csv(io.BytesIO(export(root, "CSV of the data")))
        (question,) = (message["params"] for message in asked if message["question"] == "csv")
        asked.clear()
        if view == "series":
            assert question["columns"] == ["2013-02-01", "2013-02-18"]
            continue
        assert len(question["rows"]) == len(table)
        if view in {"home", "incidents"}:
            ids = "dataset" if view == "home" else "id"
            assert question["rows"] == table[ids].tolist()


def test_each_chart_has_a_table(root, coast):
    with Repository(coast, read_only=True) as repo:
        incidents = repo.incidents(PLAIN)
        number = int(incidents.loc[incidents["first"] == BAD_PARTITION, "id"].iloc[0])
    root.page.evaluate("location.hash = '#/incidents/" + str(number) + "'")
    root.locator(".tg-evidence-chart canvas").first.wait_for()
    root.get_by_role("button", name="Data", exact=True).click()
    dialog = root.get_by_role("dialog", name="Data table")
    tables = dialog.locator("table")
    tables.nth(1).wait_for()
    titles = tables.locator("caption").all_inner_texts()
    assert [title.partition(" (")[0] for title in titles] == ["Incidents", f"Incident {number}"]
    charted = tables.nth(1).locator("tbody").inner_text()
    names = root.locator(".tg-evidence h4").all_inner_texts()
    assert all(name.split()[0] in charted for name in names)
    assert "2013-02-19" in charted
    with root.page.expect_download() as download:
        dialog.get_by_role("button", name=f"CSV of Incident {number}").click()
    assert download.value.suggested_filename == f"tidegauge-incident-{number}.csv"
    points = pd.read_csv(download.value.path())
    # Four weeks before the 19th of February, and the ten days after it with data.
    assert points["partition"].min() == "ds=2013-01-22"
    assert points["partition"].max() == "ds=2013-03-01"
    assert 300 in set(points.query("name == 'Size'")["value"])
    root.page.keyboard.press("Escape")
    show(root, "distribution")
    root.get_by_role("button", name="Data", exact=True).click()
    drift = tables.filter(has_text="Drift (")
    drift.wait_for()
    assert drift.locator("caption").inner_text().startswith("Drift (")
    # The first partition with seven earlier ones is the eighth of January.
    assert drift.locator("tbody tr").count() == 60 - 7
    assert BAD_PARTITION in drift.inner_text()


def test_the_chart_of_one_table_is_saved_as_a_vector_image(root):
    show(root, "series")
    saved = export(root, "SVG of the chart")
    assert saved.startswith(b"<svg")
    assert b"<image" not in saved
    show(root, "home")
    root.get_by_text("Export", exact=True).click()
    root.get_by_role("button", name="SVG of the picture").wait_for()
    root.get_by_role("button", name="SVG of the chart").wait_for(state="hidden")
