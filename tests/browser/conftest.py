"""Fixtures for tests in a real browser: a repository with hostile names, Lab, the served page, a watched page."""

import contextlib
import os
import re
import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.services.servers import dashboard_server, jupyter_environment, lab_server

WAIT = 30_000
"""Timeout in milliseconds; if all is well, no test waits that long."""
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
SCHEMES = {"data", "blob", "about"}
"""Addresses that send no request."""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def chromium():
    """Debian's Chromium, one for all tests here.

    It ends after them, because Playwright holds the event loop.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def coast(tmp_path_factory):
    """The URL of a repository with hostile names. Tests may not change it."""
    from tests.browser.coast import make_coast

    return make_coast(tmp_path_factory.mktemp("coast") / "coast.db")


@pytest.fixture
def coast_copy(coast, tmp_path):
    """The URL of a copy that a test may change."""
    file = coast.removeprefix("sqlite:///")
    shutil.copy(file, tmp_path / "coast.db")
    if os.path.exists(file + ".artifacts"):
        shutil.copytree(file + ".artifacts", tmp_path / "coast.db.artifacts")
    return f"sqlite:///{tmp_path / 'coast.db'}"


@pytest.fixture(scope="package")
def lab(tmp_path_factory, coast):
    """JupyterLab, whose kernels have the repository as TIDEGAUGE_DB."""
    with lab_server(tmp_path_factory.mktemp("jupyter"), TIDEGAUGE_DB=coast) as (server, url):
        yield Lab(server, url, coast)


@pytest.fixture(scope="package")
def served(tmp_path_factory, coast):
    """The address of `tidegauge dashboard` on the repository."""
    with dashboard_server(tmp_path_factory.mktemp("jupyter"), coast) as (_, url):
        yield url


class Lab:
    """A running JupyterLab, and the folder of its notebooks."""

    def __init__(self, server, url, database):
        self.server, self.url, self.database = server, url, database
        self.folder = server.log.parents[1] / "notebooks"

    def write(self, name, *cells):
        """Create a notebook of some code cells, and return its name."""
        import nbformat

        new = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(new, self.folder / name)
        return name

    def execute(self, name, *, with_widgets=True):
        """Run a notebook in a kernel that then ends, save it with the state of its widgets or without, and trust it."""
        import nbformat
        from nbclient import NotebookClient
        from nbformat.sign import NotebookNotary

        environment = jupyter_environment(self.folder.parent, TIDEGAUGE_DB=self.database)
        notebook = nbformat.read(self.folder / name, as_version=4)
        client = NotebookClient(notebook, timeout=120, store_widget_state=with_widgets)
        client.execute(env=environment)
        nbformat.write(notebook, self.folder / name)
        NotebookNotary(data_dir=environment["JUPYTER_DATA_DIR"]).sign(notebook)


class PageLog:
    """Forbidden requests, sockets and errors of a page; a test fails if there are any."""

    def __init__(self):
        self.foreign, self.errors = [], []

    def route(self, route):
        address = urlsplit(route.request.url)
        if address.scheme in SCHEMES or address.hostname in LOOPBACK:
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def socket(self, socket):
        if urlsplit(socket.url).hostname not in LOOPBACK:
            self.foreign.append(socket.url)

    def console(self, message):
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def failed(self, error):
        self.errors.append(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Save a screenshot of the page if a test fails."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if call.when == "call" and report.failed and page is not None:
        picture = item.funcargs["tmp_path"] / "failed.png"
        page.screenshot(path=picture, full_page=True)
        print(f"the page looked like this: {picture}")
    return report


@pytest.fixture
def page(chromium, tmp_path):
    """A page that may only send requests to this machine and may have no errors; failures leave a screenshot."""
    watched = PageLog()
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    context.set_default_timeout(WAIT)
    context.route("**/*", watched.route)
    page = context.new_page()
    page.watched = watched
    page.on("websocket", watched.socket)
    page.on("console", watched.console)
    page.on("pageerror", watched.failed)
    yield page
    leave(page)
    context.close()
    assert not watched.foreign, f"asked other hosts: {watched.foreign}"
    assert not watched.errors, f"errors on the page: {watched.errors}"


def wait_until(page, script):
    """Wait until an expression is true.

    Playwright's own waiting needs ``eval``, which our pages forbid.
    """
    deadline = time.monotonic() + WAIT / 1000
    while not page.evaluate(script):
        assert time.monotonic() < deadline, f"never true: {script}"
        page.wait_for_timeout(50)


def leave(page):
    """Leave the page."""
    # requests that a page sends as it closes would be lost if it were inspected
    page.context.unroute_all()
    page.goto("about:blank")


def open_served(page, url, *, theme=None, state="drawn"):
    """Open the served dashboard, and return its root once it is drawn."""
    page.goto(url if theme is None else f"{url}?theme={theme}")
    return wait_for_state(page, state)


def open_lab(page, lab, notebook, *, state="drawn"):
    """Open a notebook in Lab, run all its cells, and return the dashboard's root once it is drawn."""
    from playwright.sync_api import TimeoutError

    workspace = notebook.partition(".")[0]
    page.goto(f"{lab.url}/lab/workspaces/{workspace}/tree/{notebook}")
    page.wait_for_selector(".jp-NotebookPanel .jp-Notebook .jp-Cell")
    page.get_by_text("| Idle").wait_for()
    ran = page.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).first
    for _ in range(5):  # Lab reports idle a moment before it is; cells run in that moment are lost
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        with contextlib.suppress(TimeoutError):
            ran.wait_for(timeout=WAIT / 6)
            break
    return wait_for_state(page, state)


def wait_for_state(page, state):
    """Wait until the dashboard is in a state, and return its root."""
    root = page.locator(f".tidegauge[data-state='{state}']").first
    root.wait_for()
    return root
