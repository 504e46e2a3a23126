"""The dashboard in a notebook of JupyterLab: beside frames, and a guest of the page that it does not own."""

import pytest

from tests.browser.coast import PLAIN
from tests.browser.conftest import open_lab

CELLS = (
    "import tidegauge as tg\nrepo = tg.Repository(read_only=True)",
    f"repo.metrics({PLAIN!r}, 'Size').tail(3)",
    "tg.Dashboard(repo, view='overview')",
    "\n".join(f"# {n}" for n in range(60)),
)
STYLES = """() => [...document.querySelectorAll('.tidegauge-output')].map(output => [
  getComputedStyle(output).display,
  ...[...output.querySelectorAll('tbody tr:last-child td')].map(cell =>
    [cell.classList.contains('number'), getComputedStyle(cell).textAlign])])"""
DRAWN = "document.querySelector('.tidegauge[data-state]').tidegauge"
VIEWPORT = f"() => JSON.stringify({DRAWN}.view('overview').heatmap.viewport)"
WHEEL = """() => {
  const canvas = document.querySelector('.tg-heat'), {x, y} = canvas.getBoundingClientRect();
  const turn = new WheelEvent('wheel', {bubbles: true, cancelable: true, deltaX: -40, clientX: x + 400, clientY: y + 60});
  canvas.dispatchEvent(turn);
  return turn.defaultPrevented;
}"""


@pytest.mark.soak
def test_frames_keep_their_style_and_the_wheel_is_the_notebooks(page, lab):
    open_lab(page, lab, lab.write("guest.ipynb", *CELLS))
    ((display, *cells),) = page.evaluate(STYLES)
    assert display == "block"  # of the dashboard it is flex
    assert {tuple(cell) for cell in cells} == {(False, "left"), (True, "right")}
    before = page.evaluate(VIEWPORT)
    assert page.evaluate(WHEEL) is False
    assert page.evaluate(VIEWPORT) == before
    page.evaluate("document.querySelector('.tg-heat').focus()")
    page.evaluate(f"{DRAWN}.view('overview').zoomAtCursor(4)")
    zoomed = page.evaluate(VIEWPORT)
    assert page.evaluate(WHEEL) is True
    assert page.evaluate(VIEWPORT) != zoomed
