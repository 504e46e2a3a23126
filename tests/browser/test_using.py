"""Using the dashboard, in Lab and in the served page: opening anomalies, labeling incidents, hostile names."""

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta

import pandas as pd
import pytest

from tests.browser.coast import BAD_PARTITION, MARKUP, PLAIN
from tests.browser.conftest import leave, open_lab, open_served, wait_until
from tests.services.servers import dashboard_server
from tidegauge.repository.repository import Repository

VIEWS = {
    "Tables": "home",
    "Heat map": "overview",
    "Series": "series",
    "Compare": "compare",
    "Distribution": "distribution",
    "Consistency": "consistency",
    "Incidents": "incidents",
    "Partitions": "partitions",
}
FIND = """([dataset, title]) => {
  const {catalogue} = document.querySelector('.tidegauge').tidegauge;
  for (let row = 0; row < catalogue.rows; row++)
    if (catalogue.keyValue('dataset', row) === dataset && catalogue.title(row) === title) return catalogue.ids[row];
}"""
PLACE = """([id, label]) => document.querySelector('.tidegauge').tidegauge.view('overview').locate(id, label)"""


@pytest.fixture(params=[pytest.param("lab", marks=pytest.mark.soak), "served"])
def root(request, page, coast_copy):
    """The dashboard of a copy, drawn in Lab and in the served page."""
    if request.param == "lab":
        lab = request.getfixturevalue("lab")
        name = f"{request.node.name.translate(str.maketrans('[]', '--'))}.ipynb"
        cells = (
            f"import tidegauge as tg\nrepo = tg.Repository({coast_copy!r})",
            "tg.Dashboard(repo, by='ann')",
        )
        yield open_lab(page, lab, lab.write(name, *cells))
        return
    yield open_served(page, request.getfixturevalue("served_of_copy"))
    leave(page)


@pytest.fixture(scope="module")
def reset(tmp_path_factory, coast):
    """Return the URL of a copy, and a function that resets it; one file, so that one server serves it."""
    file = tmp_path_factory.mktemp("using") / "coast.db"

    def fill():
        with (
            closing(sqlite3.connect(coast.removeprefix("sqlite:///"))) as old,
            closing(sqlite3.connect(file)) as new,
        ):
            old.backup(new)
        return f"sqlite:///{file}"

    artifacts = coast.removeprefix("sqlite:///") + ".artifacts"
    if os.path.exists(artifacts):
        shutil.copytree(artifacts, f"{file}.artifacts")
    return fill


@pytest.fixture
def coast_copy(reset):
    return reset()


@pytest.fixture(scope="module")
def served_of_copy(tmp_path_factory, reset):
    with dashboard_server(tmp_path_factory.mktemp("jupyter"), reset()) as (_, url):
        yield url


@pytest.fixture
def repo(coast_copy):
    with Repository(coast_copy) as repository:
        yield repository


def turn(root, view):
    root.get_by_role("tab", name=view, exact=True).click()
    drawn(root, VIEWS[view])


def drawn(root, view):
    root.page.locator(f".tidegauge[data-view={view}][data-state=drawn]").wait_for()


def press_cell(root, dataset, title, label):
    """Click a cell of the heat map with the mouse."""
    page = root.page
    series = page.evaluate(FIND, [dataset, title])
    place = page.evaluate(PLACE, [series, label])
    page.mouse.click(place["x"], place["y"])


def focus(root):
    """Return the moment that the series view marks."""
    return root.page.evaluate(
        "document.querySelector('.tidegauge').tidegauge.options('series').focus"
    )


def open_incident(root, repo):
    """Turn to the incidents; return the open incident that is selected."""
    turn(root, "Incidents")
    root.locator(".tg-incident").get_by_role("button", name="Acknowledge").wait_for()
    looked = "document.querySelector('.tidegauge').tidegauge.options('incidents').id"
    number = root.page.evaluate(looked) or int(repo.incidents(PLAIN, status="open")["id"][0])
    assert status(repo, number) == "open"
    return number


def give_name(root):
    """Enter the user name on a page that does not know it."""
    field = root.locator(".tg-incident").get_by_label("Your name")
    if field.is_visible():
        field.fill("ann")


def status(repo, number):
    return repo.incidents().set_index("id")["status"][number]


def test_a_click_on_a_bad_cell_opens_its_series(root):
    turn(root, "Heat map")
    root.locator(".tg-heatmap").scroll_into_view_if_needed()
    press_cell(root, PLAIN, "Size", BAD_PARTITION.removeprefix("ds="))
    drawn(root, "series")
    root.get_by_text("Size", exact=True).first.wait_for()
    assert focus(root) == BAD_PARTITION.removeprefix("ds=")
    assert root.locator(".u-over").count() == 1


@pytest.mark.soak
def test_the_keyboard_opens_the_series_of_a_cell(root):
    turn(root, "Heat map")
    heat = root.locator(".tg-heatmap")
    heat.focus()
    for key in ("ArrowDown", "ArrowLeft", "ArrowUp"):
        heat.press(key)
    wait_until(root.page, "document.querySelector('.tg-status').textContent.includes('2013-')")
    heat.press("Enter")
    drawn(root, "series")


def test_a_label_of_an_incident_is_stored(root, repo):
    number = open_incident(root, repo)
    root.get_by_label("Note", exact=True).fill(f"on it {MARKUP}")
    give_name(root)
    root.locator(".tg-incident").get_by_role("button", name="Acknowledge").click()
    root.get_by_role("button", name="Reopen").wait_for()
    assert status(repo, number) == "acknowledged"
    said = repo.incident(number).labels.iloc[-1]
    assert (said["label"], said["note"], said["by"]) == ("acknowledged", f"on it {MARKUP}", "ann")
    assert not root.locator("img[src='x']").count()


ACTIONS = [
    ("Comment", [("comment", "why")], "open", None),
    ("Assign", [("assigned", "Bob"), ("comment", "why")], "open", None),
    ("Snooze", [("snoozed", "why")], "open", None),
    ("Acknowledge", [("acknowledged", "why")], "acknowledged", "training does not change"),
    ("Reopen", [("reopened", "why")], "open", "undo its effects on training"),
    ("Expected", [("expected", "why")], "expected", "excluded from training"),
    ("Reopen", [("reopened", "why")], "open", None),
    ("False alarm", [("ignore", "why"), ("resolved", None)], "resolved", "excluded from training"),
    ("Reopen", [("reopened", "why")], "open", None),
    (
        "Bad data",
        [("acknowledged", "why"), ("bad", None)],
        "acknowledged",
        "excluded from training",
    ),
    ("Reopen", [("reopened", "why")], "open", None),
    ("New normal", [("rebaseline", "why"), ("resolved", None)], "resolved", "Training restarts"),
    ("Reopen", [("reopened", "why")], "open", None),
    ("Resolve", [("resolved", "why")], "resolved", "Training does not change"),
]
"""Actions in order: the labels and notes that each stores, the resulting status, and its description."""


def test_each_action_stores_its_labels(root, repo):
    from playwright.sync_api import expect

    number = open_incident(root, repo)
    pane = root.locator(".tg-incident")
    give_name(root)
    for action, labels, then, description in ACTIONS:
        before = len(repo.labels())
        events = pane.locator(".tg-timeline").evaluate("list => list.children.length")
        pane.get_by_label("Note", exact=True).fill("why")
        if action == "Assign":
            pane.get_by_label("Assignee").fill("Bob")
        if action == "Snooze":
            pane.get_by_label("Snooze for").select_option("7 d")
        press = pane.get_by_role("button", name=action, exact=True)
        press.hover()
        told = pane.locator(".tg-action-help").inner_text()
        assert told.startswith(f"{action}: ")
        assert description is None or description in told
        press.click()
        root.get_by_text(f"{action}: saved for incident {number}.").wait_for()
        said = repo.labels().iloc[before:]
        notes = [None if pd.isna(note) else note for note in said["note"]]
        assert list(zip(said["label"], notes, strict=True)) == labels, action
        assert set(said["by"]) == {"ann"}
        assert set(said["incident_id"]) == {number}
        assert status(repo, number) == then, action
        expect(pane.locator(".tg-inbox-status").first).to_have_text(then)
        expect(pane.locator(".tg-timeline li")).to_have_count(events + len(labels))  # drawn again
        pane.locator(".tg-timeline li").last.get_by_text("by ann").wait_for()
    snooze = repo.labels().query("label == 'snoozed'").iloc[-1]
    assert snooze["until"] - snooze["created_at"] == pytest.approx(
        timedelta(days=7), abs=timedelta(minutes=1)
    )
    expect(pane.locator(".tg-incident-facts").get_by_text("assigned to Bob")).to_be_visible()


def test_a_label_can_be_undone(root, repo):
    """Undo restores the earlier status; the labels stay, and the note marks them as withdrawn."""
    from playwright.sync_api import expect

    number = open_incident(root, repo)
    give_name(root)
    pane = root.locator(".tg-incident")
    undo = root.get_by_role("button", name="Undo", exact=True)
    pane.get_by_role("button", name="Acknowledge").click()
    undo.wait_for()
    pane.get_by_role("button", name="Expected", exact=True).click()
    expect(pane.locator(".tg-inbox-status").first).to_have_text("expected")
    undo.click()
    root.get_by_text(f"Undone: incident {number} is acknowledged.").wait_for()
    expect(undo).to_be_hidden()
    assert status(repo, number) == "acknowledged"
    labels = repo.incident(number).labels
    assert labels["label"].tolist() == ["acknowledged", "expected", "reopened", "acknowledged"]
    assert labels["note"].iloc[2] == "withdrawn: expected"


def test_typed_text_stays_if_another_user_labels_the_incident(root, repo):
    from playwright.sync_api import expect

    number = open_incident(root, repo)
    pane = root.locator(".tg-incident")
    pane.get_by_label("Note", exact=True).fill("looking into it")
    pane.get_by_label("Assignee").fill("Bob")
    repo.label(number, "comment", by="carol", note="seen")
    pane.locator(".tg-timeline li").last.get_by_text("by carol").wait_for()
    expect(pane.get_by_label("Assignee")).to_have_value("Bob")
    expect(pane.get_by_label("Assignee")).to_be_focused()
    expect(pane.get_by_label("Note", exact=True)).to_have_value("looking into it")


def test_incidents_can_be_searched_and_labelled_together(root, repo):
    open_incident(root, repo)
    root.locator(".tg-incidents .tg-tools select").first.select_option("")
    earlier = repo.incidents().set_index("id")["status"]
    numbers = earlier.index.tolist()
    rows = root.locator(".tg-inbox-list .tg-row")
    rows.nth(len(numbers) - 1).wait_for()
    for row in rows.all():
        row.get_by_role("checkbox").check()
    bulk = root.get_by_role("group", name="Actions on the selected incidents")
    bulk.get_by_text(f"{len(numbers)} incidents selected").wait_for()
    bulk.get_by_label("Note on the selected incidents").fill("all of them")
    if bulk.get_by_label("Your name").is_visible():
        bulk.get_by_label("Your name").fill("ann")
    bulk.get_by_role("button", name="False alarm").click()
    root.get_by_text(f"False alarm: saved for {len(numbers)} incidents.").wait_for()
    assert set(repo.incidents()["status"]) == {"resolved"}
    said = repo.labels().tail(2 * len(numbers))
    assert said["label"].tolist() == ["ignore", "resolved"] * len(numbers)
    assert set(said["by"]) == {"ann"}
    assert said["note"].dropna().tolist() == ["all of them"] * len(numbers)
    before = repo.labels()
    root.get_by_role("button", name="Undo", exact=True).click()
    root.get_by_text(f"Undone for {len(numbers)} incidents.").wait_for()
    assert repo.incidents().set_index("id")["status"].equals(earlier)
    added = repo.labels().iloc[len(before) :]
    restored = added[added["by"] == "tidegauge"]  # incidents that had resolved themselves
    assert set(restored["label"]) == {"resolved"}
    notes = added.drop(restored.index)["note"].dropna()
    assert notes.tolist() == ["withdrawn: ignore, resolved"] * len(numbers)
    root.get_by_label("Search incidents").fill("volume")
    root.get_by_text("1 incident", exact=True).wait_for()
    root.locator(".tg-incident h2").get_by_text("volume -70%").wait_for()
    root.locator(".tg-incident").get_by_role("button", name="Snooze").click()
    root.locator(".tg-timeline").get_by_text("snoozed").wait_for()
    assert repo.labels()["label"].tolist()[-1] == "snoozed"


@pytest.mark.soak
def test_labels_saved_in_the_meantime_are_shown_before_saving(root, repo):
    number = open_incident(root, repo)
    root.get_by_label("Note", exact=True).fill("mine")
    give_name(root)
    repo.label(number, "expected", note="the storm", by="bob")
    root.locator(".tg-incident").get_by_role("button", name="Acknowledge").click()
    told = root.locator(".tg-conflict")
    told.wait_for()
    assert "bob" in told.inner_text()
    assert "the storm" in told.inner_text()
    assert root.get_by_label("Note", exact=True).input_value() == "mine"
    assert status(repo, number) == "expected"


@pytest.mark.soak
def test_changes_by_others_are_shown(root, repo):
    before = root.page.evaluate("document.querySelector('.tidegauge').tidegauge.catalogue.rows")
    repo.record(PLAIN, "brand new", 1.0, partition=BAD_PARTITION)
    more = f"document.querySelector('.tidegauge').tidegauge.catalogue.rows === {before + 1}"
    wait_until(root.page, more)


def test_hostile_names_are_harmless_in_every_view(root):
    page = root.page
    root.get_by_role("tab", name="Compare", exact=True).click()
    drawn(root, "compare")
    root.get_by_label("Dataset", exact=True).fill(MARKUP)
    for view, name in VIEWS.items():
        if view == "Consistency":  # no dataset has such metrics, so there is no tab
            assert root.get_by_role("tab", name=view, exact=True).is_hidden()
            continue
        root.get_by_role("tab", name=view, exact=True).click()
        page.locator(f".tidegauge[data-view={name}]:not([data-state=loading])").wait_for()
        page.wait_for_timeout(500)
        assert root.get_attribute("data-state") == "drawn", root.locator(".tg-alert").inner_text()
    turn(root, "Series")
    search = root.get_by_placeholder("Add a series", exact=False)
    for word in ("img", "DROP", "long", "\u05de\u05d3"):
        search.fill(word)
        page.wait_for_timeout(300)
        search.press("ArrowDown")
        search.press("Enter")
        page.wait_for_timeout(300)
    assert page.title() != "owned"
    assert not page.locator("img[src='x']").count()
    page_width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(page_width) <= 0
    width = root.bounding_box()["width"]
    assert root.evaluate("e => e.scrollWidth") <= width + 1


@pytest.mark.soak
@pytest.mark.spark
def test_a_click_on_the_day_of_the_blizzard_opens_its_series(page, measured_copy, tmp_path):
    """On the real flights, the cell of Friday, 8 February 2013, opens a series with the anomaly."""
    measured_copy.detect("flights")
    url = str(measured_copy.database.url)
    with dashboard_server(tmp_path / "page", url) as (_, address):
        root = open_served(page, address)
        root.get_by_label("Filter series").fill("completeness dep_time")
        root.get_by_text("of 79 series").wait_for()
        press_cell(root, "flights", "Completeness dep_time", "2013-02-08")
        drawn(root, "series")
        root.get_by_text("Completeness dep_time").first.wait_for()
        assert focus(root) == "2013-02-08"
        leave(page)
