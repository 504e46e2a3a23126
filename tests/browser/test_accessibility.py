"""Each page passes axe-core without serious findings, in both themes, and works without a pointer."""

import pytest
from hatch_build import WIDGETS

from tests.browser.coast import BAD_PARTITION, PLAIN
from tests.browser.conftest import leave, wait_for_state

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
    """All rules, which are of the page, in one theme; of colours in the other, too."""
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


def test_the_page_has_landmarks_and_headings(page, served):
    page.goto(served)
    root = wait_for_state(page, "drawn")
    assert root.locator("main").count() == 1
    assert root.get_by_role("heading", level=1).inner_text() == "Tables – Tidegauge"
    panel = root.get_by_role("tabpanel", name="Tables")
    assert root.get_by_role("tab", name="Tables").get_attribute(
        "aria-controls"
    ) == panel.get_attribute("id")
    leave(page)
