"""Each page passes axe-core without serious findings, in both themes, and works without a pointer."""

import pytest
from hatch_build import WIDGETS

import tidegauge as tg
from tests.browser.coast import BAD_PARTITION, PLAIN
from tests.browser.conftest import leave, wait_for_state
from tests.services.servers import dashboard_server
from tests.support import features
from tidegauge.repository.testing import SIZE, commit, day, judged

AXE = WIDGETS / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async (rules) => {
  const options = {resultTypes: ['violations'], ...(rules.length ? {runOnly: rules} : {})};
  const {violations} = await axe.run(document.querySelector('.tidegauge'), options);
  return violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html, any}) => `${html.slice(0, 160)} (${any.map(({message}) => message).join('; ').slice(0, 200)})`).join(' | ')}`);
}"""
PAGES = {
    "home": "#/home",
    "overview": "#/overview",
    "series": "#/series?ids=%5B1,2%5D",
    "compare": f"#/compare?dataset={PLAIN}",
    "distribution": f"#/distribution?dataset={PLAIN}",
    "consistency": f"#/consistency?dataset={PLAIN}",
    "incidents": "#/incidents?status=",
    "partitions": f"#/partitions?dataset={PLAIN}&partition={BAD_PARTITION.replace('=', '%3D')}",
}


@pytest.mark.parametrize(
    ("theme", "rules"),
    [("light", []), pytest.param("dark", ["color-contrast"], marks=pytest.mark.soak)],
)
def test_axe_finds_nothing_serious_on_any_page(page, served, theme, rules):
    """All rules in one theme, and the rules about colors in the other theme as well."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make widgets")
    page.goto(f"{served}?theme={theme}#/home")
    wait_for_state(page, "drawn")
    page.evaluate(AXE.read_text())  # the page allows no inline script
    found = {}
    for name, address in PAGES.items():
        page.evaluate("address => { location.hash = address; }", address)
        page.locator(f".tidegauge[data-view={name}][data-state=drawn]").wait_for()
        page.wait_for_timeout(400)
        if problems := page.evaluate(RUN, rules):
            found[name] = problems
        if name == "overview":
            page.get_by_role("button", name="Data", exact=True).click()
            table = page.get_by_role("dialog", name="Data table")
            assert PLAIN in table.locator("tbody").inner_text()
            if problems := page.evaluate(RUN, rules):
                found["data table"] = problems
            page.keyboard.press("Escape")
    leave(page)
    assert found == {}


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """The address of features, and of three tables with one bad day and one failing check."""
    folder = tmp_path_factory.mktemp("busy")
    url = features.make_features(folder / "busy.db")
    with tg.Repository(url) as repo:
        for name in ("d", "e", "f"):
            rows = enumerate([10, 10, 10, 99], 1)
            commit(repo, *(day(n, str(n), rows=r, only=[SIZE]) for n, r in rows), dataset=name)
            repo.detect(name, [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
        judged(repo, "4", name="enough rows", passed=False, partition="ds=2013-01-04")
    with dashboard_server(folder / "page", url) as (_, address):
        yield address


def test_axe_finds_nothing_serious_in_groups_features_and_failures(page, busy):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make widgets")
    page.goto(f"{busy}#/incidents?status=")
    root = wait_for_state(page, "drawn")
    page.evaluate(AXE.read_text())
    root.get_by_text("3 incidents in 3 tables").wait_for()
    found = {"group": page.evaluate(RUN, [])}
    page.evaluate("location.hash = '#/home?failed=d'")
    root.get_by_role("heading", name="1 failed check").wait_for()
    found["failures"] = page.evaluate(RUN, [])
    page.keyboard.press("Escape")
    page.evaluate(f"location.hash = '#/consistency?dataset={features.JOIN}'")
    root.locator(".tg-fan .u-over").first.wait_for()
    found["features"] = page.evaluate(RUN, [])
    leave(page)
    assert found == dict.fromkeys(found, [])


def test_each_page_has_landmarks_and_headings(page, served):
    page.goto(served)
    root = wait_for_state(page, "drawn")
    assert root.locator("main").count() == 1
    assert root.get_by_role("heading", level=1).inner_text() == "Tables – Tidegauge"
    panel = root.get_by_role("tabpanel", name="Tables")
    assert root.get_by_role("tab", name="Tables").get_attribute(
        "aria-controls"
    ) == panel.get_attribute("id")
    leave(page)
