"""Every page has an address: reload, back and forward restore it, and a link in a message leads to the cause."""

import json
import re

import pytest

from tests.browser.coast import BAD_PARTITION, MARKUP, PLAIN
from tests.browser.conftest import leave, open_lab, open_served, wait_for_state, wait_until
from tests.browser.fleet import BAD_PARTITION as FLEET_PARTITION
from tests.browser.fleet import STRUCK, make_fleet
from tests.services.servers import dashboard_server
from tidegauge.notifications.notify import notify
from tidegauge.repository.repository import Repository

STATE = """() => {
  const {model} = document.querySelector('.tidegauge').tidegauge, view = model.get('view');
  return [view, model.get('dataset'), model.get('options')[view]];
}"""


@pytest.fixture
def root(page, served):
    yield open_served(page, served)
    leave(page)


@pytest.fixture(scope="module")
def bad_incident(coast):
    """Return the incident of the bad day, and the series of the part that caused it."""
    with Repository(coast, read_only=True) as repo:
        incidents = repo.incidents(PLAIN)
        number = int(incidents.loc[incidents["first"] == BAD_PARTITION, "id"].iloc[0])
        move = repo.incident(number).causes.moves[0]
        part = move.dimensions[0].parts[0].name
        return number, move.part_series[move.dimensions[0].name, part], part


def address(page):
    return page.evaluate("location.hash")


def view(page, name):
    page.locator(f".tidegauge[data-view={name}][data-state=drawn]").wait_for()


def go(page, name, options, dataset=None):
    page.evaluate(
        "given => document.querySelector('.tidegauge').tidegauge.go(...given)",
        [name, options, *([dataset] if dataset else [])],
    )
    view(page, name)


def test_the_link_in_a_message_leads_to_the_segment_of_the_cause(page, served, bad_incident):
    number, series, part = bad_incident
    page.goto(f"{served}#/incidents/{number}")  # the first click, in the message
    wait_for_state(page, "drawn")
    assert page.title().startswith(f"Incident {number}: 2013-02-19: volume -70%")
    cause = page.locator(".tg-cause").first
    row = cause.locator("tbody tr").first
    assert row.locator("th").inner_text() == part
    row.get_by_role("button").click()  # the second
    view(page, "series")
    name, _, options = page.evaluate(STATE)
    assert (name, options["ids"][0]) == ("series", series)
    assert options["focus"] == BAD_PARTITION.removeprefix("ds=")
    leave(page)


@pytest.mark.soak  # 4,000 series are measured and scored
def test_with_two_hundred_tables_the_link_leads_to_the_cause_in_three_clicks(
    page, tmp_path, monkeypatch, caplog
):
    file = f"sqlite:///{tmp_path / 'fleet.db'}"
    number = make_fleet(file)
    with dashboard_server(tmp_path, file) as (_, url):
        monkeypatch.setenv("TIDEGAUGE_DASHBOARD_URL", url)
        caplog.set_level("INFO", "tidegauge.incidents")
        with Repository(file) as repo:
            assert len(repo.datasets()) == 200
            notify(repo, ["log"], dataset=STRUCK)
        (message,) = (one.getMessage() for one in caplog.records if STRUCK in one.getMessage())
        assert re.search(r"volume -4[3-7] %", message)  # nine tenths of a half, and noise
        page.goto(re.search(r"See: (\S+)", message)[1])  # the first click
        wait_for_state(page, "drawn")
        assert page.title().startswith(f"Incident {number}: 2013-02-04: volume")
        row = page.locator(".tg-cause").first.locator("tbody tr").first
        assert row.locator("th").inner_text() == "DE"
        row.get_by_role("button").click()  # the second
        view(page, "series")
        assert page.evaluate(STATE)[2]["focus"] == FLEET_PARTITION.removeprefix("ds=")
        leave(page)


PLACES = {
    "home": ({"filter": "coast", "sort": "dataset", "reverse": True}, None),
    "overview": ({"table": PLAIN, "by": "change", "group": "segment", "filter": "size"}, None),
    "series": ({"ids": [1, 2], "since": 1359676800, "until": 1361145600, "log": False}, None),
    "compare": (
        {
            "kind": "partitions",
            "baseline": {"partition": "ds=2013-01-02"},
            "current": {"partition": BAD_PARTITION},
            "filter": "size",
            "unusual": False,
        },
        PLAIN,
    ),
    "distribution": (
        {
            "column": "s",
            "baseline": {"since": "2013-02-01", "until": "2013-02-14"},
            "current": {"partition": BAD_PARTITION},
            "segment": "",
            "over": "psi",
        },
        PLAIN,
    ),
    "incidents": ({"status": "", "filter": "volume", "group": "none", "table": PLAIN}, None),
    "partitions": ({"partition": BAD_PARTITION, "highlight": "anomalies"}, PLAIN),
}


@pytest.mark.soak
def test_each_page_is_restored_by_reload_back_and_forward(root):
    page = root.page
    seen = []
    for name, (options, dataset) in PLACES.items():
        go(page, name, options, dataset)
        page.wait_for_timeout(300)
        seen.append((address(page), page.evaluate(STATE)))
    assert len({hash_ for hash_, _ in seen}) == len(PLACES)
    for (name, (options, _)), (_, state) in zip(PLACES.items(), seen, strict=True):
        assert state[0] == name
        assert {**state[2], **options} == state[2], name
    for hash_, state in reversed(seen[:-1]):
        page.go_back()
        wait_until(page, f"location.hash === {json.dumps(hash_)}")
        view(page, state[0])
        assert page.evaluate(STATE)[2] == state[2], hash_
    for hash_, state in seen:
        wait_until(page, f"location.hash === {json.dumps(hash_)}")
        view(page, state[0])
        page.reload()
        wait_for_state(page, "drawn")
        name, dataset, options = page.evaluate(STATE)
        assert (address(page), name, options) == (hash_, state[0], state[2])
        assert dataset == state[1] or PLACES[name][1] is None
        page.go_forward()


def test_a_page_shows_the_state_in_its_address(page, served):
    """The address is opened in a browser without any state of the page."""
    shown = {
        "home": (".tg-home [role=gridcell][data-column=dataset]", [PLAIN]),
        "overview": (".tg-overview", ["of 16 series"]),
        "series": (".tg-series .tg-card-note", ["18 partitions"]),
        "compare": (".tg-compare", ["Wed", "Tue", "1 of 10 metrics"]),
        "distribution": (".tg-side-legend", ["2013-02-01 to 2013-02-14", BAD_PARTITION]),
        "incidents": (".tg-inbox-list", ["volume -70"]),
        "partitions": (".tg-partition h2", [BAD_PARTITION]),
    }
    addresses = {}
    root = open_served(page, served)
    for name, (options, dataset) in PLACES.items():
        go(page, name, options, dataset)
        page.wait_for_timeout(300)
        addresses[name] = address(page)
    for name, (part, texts) in shown.items():
        page.goto("about:blank")
        page.goto(f"{served}{addresses[name]}")
        view(page, name)
        drawn = root.locator(part)
        drawn.first.wait_for()
        for text in texts:
            assert text in " ".join(drawn.all_inner_texts()), name
    leave(page)


def test_links_are_copied_and_invalid_addresses_reported(page, served):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{served}#/nonsense?x=1")
    root = wait_for_state(page, "drawn")
    view(page, "home")
    assert "Unknown page #/nonsense?x=1." in root.locator(".tg-alert").inner_text()
    root.get_by_role("tab", name="Partitions").click()
    view(page, "partitions")
    root.get_by_role("button", name="Copy link").click()
    root.get_by_text("Link copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.url
    assert "#/partitions?dataset=" in copied
    root.get_by_text("Export", exact=True).click()
    root.get_by_role("button", name="Copy as Python").click()
    root.get_by_text("The Python code is copied.").wait_for()
    assert 'view="partitions"' in page.evaluate("navigator.clipboard.readText()")
    leave(page)


@pytest.mark.soak
def test_in_lab_the_state_is_in_traits(page, lab, bad_incident):
    number, *_ = bad_incident
    cells = (
        "import tidegauge as tg\nrepo = tg.Repository(read_only=True)",
        f"d = tg.Dashboard(repo, view='incidents')\nd.options = {{'incidents': {{'id': {number}}}}}\nd",
    )
    root = open_lab(page, lab, lab.write("state.ipynb", *cells))
    root.locator(".tg-incident h2").get_by_text("volume -70%").wait_for()
    assert "incidents" not in page.evaluate("location.hash")


def test_the_proxy_header_names_the_user(page, tmp_path, coast_copy):
    with dashboard_server(tmp_path, coast_copy, "--user-header", "X-Forwarded-User") as (_, url):
        page.goto(url)
        refused = wait_for_state(page, "error").inner_text()
        assert "The request has no header X-Forwarded-User" in refused
        page.set_extra_http_headers({"X-Forwarded-User": "ann@example.org"})
        page.goto(f"{url}#/incidents")
        page.reload()
        root = wait_for_state(page, "drawn")
        assert root.locator(".tg-incident .tg-author").inner_text() == "as ann@example.org"
        root.locator(".tg-incident").get_by_role("button", name="Acknowledge").click()
        root.locator(".tg-timeline").get_by_text("acknowledged").wait_for()
        leave(page)
    with Repository(coast_copy, read_only=True) as repo:
        assert repo.labels()["by"].tolist()[-1] == "ann@example.org"


def _window(since, until):
    return {"since": since, "until": until}


JANUARY, FIRST_WEEK = _window("2013-01-01", "2013-01-31"), _window("2013-01-01", "2013-01-07")
DAYS, SHORT = _window("2013-02-01", "2013-02-10"), _window("2013-02-01", "2013-02-02")
CHANGES = {
    "compare": (
        {"kind": "windows", "baseline": JANUARY, "current": DAYS},
        {"kind": "windows", "baseline": FIRST_WEEK, "current": SHORT},
    ),
    "series": ({"ids": [1, 2]}, {"ids": [1]}),
    "incidents": ({"table": MARKUP, "status": ""}, {"table": PLAIN, "status": ""}),
    "partitions": (MARKUP, PLAIN),
    "distribution": (
        {"column": "s", "baseline": JANUARY, "current": DAYS},
        {"column": "s", "baseline": FIRST_WEEK, "current": SHORT},
    ),
}
"""Views with the options (or tables) chosen first and immediately after."""


@pytest.mark.parametrize("view", CHANGES)
def test_an_answer_that_comes_late_does_not_replace_a_newer_one(page, served, view):
    open_served(page, f"{served}#/{view}")
    root = page.locator(".tidegauge")
    content = page.locator(".tg-page")
    go = "(e, [view, options, dataset]) => e.tidegauge.go(view, options, dataset)"
    first, second = (
        [view, change, PLAIN] if isinstance(change, dict) else [view, {}, change]
        for change in CHANGES[view]
    )
    root.evaluate(go, second)
    wait_for_state(page, "drawn")
    page.wait_for_timeout(500)  # until everything that the view asked for has been answered
    expected = content.inner_text()

    held = []

    def hold(route):
        if not held and json.loads(route.request.post_data)["question"] == view:
            held.append(route)
        else:
            route.fallback()

    root.evaluate(go, ["home", {}, PLAIN])
    wait_for_state(page, "drawn")
    page.route("**/ask", hold)
    root.evaluate(go, first)
    page.wait_for_timeout(200)
    assert held
    root.evaluate(go, second)
    wait_for_state(page, "drawn")
    page.wait_for_timeout(300)
    held[0].fallback()
    page.wait_for_timeout(700)
    assert content.inner_text() == expected
    assert root.get_attribute("data-state") == "drawn"
