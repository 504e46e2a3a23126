"""Dashboard rendering time: 10,000 series over a year, in JupyterLab and a real browser.

    python benchmarks/dashboard.py [--series 10000] [--large 100000] [--tables 1000] [--folder DIR]
    [--json FILE]

The script creates a repository of five tables (facts, scores, incidents), drops its file from
memory, and opens it in Lab with a fresh kernel, in Chromium. It measures the time from
`tg.Dashboard(repo)` until the first screen is drawn (the visible rows, the newest 90 partitions)
and until all data are loaded, the parts of that time, the time to draw 200 turns of the wheel, and
the bytes sent. For comparison it draws the same numbers as heat maps in ten plotly FigureWidgets.
Then it measures more series over a quarter of a year, the heat map of 300 tables and the page of a
thousand tables of 20 series each, and the time from opening the address of a served dashboard until it is drawn.

Each measurement has a separate kernel. With ``--folder`` the repositories are kept and reused.
Needs Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

import nbformat
import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.synthetic.wide_repository import make
from tests.services.servers import dashboard_server, lab_server

TIMEOUT_MS = 300_000
IMPORT_CELL = "import time, json, pathlib\nbegun = time.time()\nimport tidegauge as tg\ntg.Dashboard\nimported = time.time()"
OPEN_CELL = """requested = time.time()
repo = tg.Repository({url!r}, read_only=True)
dashboard = tg.Dashboard(repo, view={view!r})
pathlib.Path({times_file!r}).write_text(json.dumps([begun, imported, requested, time.time()]))
dashboard"""
FIGURES_CELL = """import numpy as np, plotly.graph_objects as go, ipywidgets
parts = np.array_split(tg.Dashboard(tg.Repository({url!r}, read_only=True), view="overview").data.to_numpy(), 10)
requested = time.time()
figures = [go.FigureWidget(go.Heatmap(z=part)) for part in parts]
pathlib.Path({times_file!r}).write_text(json.dumps([begun, imported, requested, time.time()]))
ipywidgets.VBox(figures)"""
ALL_FIGURES = "document.querySelectorAll('.js-plotly-plot .heatmaplayer image').length === 10"
WHEEL_SCRIPT = """async () => {
  const canvas = document.querySelector('.tg-heatmap'), frame = () => new Promise(requestAnimationFrame);
  const {x, y, width, height} = canvas.getBoundingClientRect();
  const turns = [{deltaY: 300}, {deltaY: 240, ctrlKey: true}, {deltaX: -200}, {deltaY: -120, ctrlKey: true}];
  const found = [];
  for (let n = 0; n < 200; n++) {
    const begun = performance.now();
    canvas.dispatchEvent(new WheelEvent('wheel', {bubbles: true, cancelable: true,
      clientX: x + width * 0.6, clientY: y + height * 0.5, ...turns[Math.floor(n / 5) % 4]}));
    await frame(); await frame();
    found.push(performance.now() - begun);
  }
  return found;
}"""

SEARCH_SCRIPT = """async () => {
  const field = document.querySelector('[aria-label="Search tables"]'), frame = () => new Promise(requestAnimationFrame);
  const rows = () => document.querySelector('.tg-home .tg-row [data-column=dataset]').textContent;
  const begun = performance.now();
  field.value = 'table_0777'; field.dispatchEvent(new Event('input'));
  while (rows() !== 'table_0777') await frame();
  return performance.now() - begun;
}"""


class Notebook:
    """A page of Lab that runs some cells, and counts the bytes that it receives."""

    def __init__(self, page: Page, url: str, folder: Path, name: str, *cells: str) -> None:
        self.page, self.bytes = page, 0
        page.set_default_timeout(TIMEOUT_MS)
        page.on("websocket", lambda socket: socket.on("framereceived", self._received))
        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        code = [nbformat.v4.new_code_cell(cell) for cell in cells]
        notebook = nbformat.v4.new_notebook(cells=code, metadata=metadata)
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")
        page.goto(f"{url}/lab/workspaces/{name}/tree/{name}.ipynb")
        page.wait_for_selector(".jp-NotebookPanel .jp-Notebook .jp-Cell")
        page.get_by_text("| Idle").wait_for()
        time.sleep(2)  # Lab reports idle a moment before it is
        self.bytes = 0
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()

    def _received(self, payload: str | bytes) -> None:
        self.bytes += len(payload)

    def mark(self, name: str) -> float:
        """Return the moment of a mark, in seconds since 1970."""
        script = f"() => performance.getEntriesByName({name!r})[0]?.startTime"
        self.page.wait_for_function(f"performance.getEntriesByName({name!r}).length > 0")
        origin = self.page.evaluate("performance.timeOrigin")
        return float(origin + self.page.evaluate(script)) / 1000

    def close(self, url: str) -> None:
        """End its kernel and the page."""
        for kernel in self.page.request.get(f"{url}/api/kernels").json():
            self.page.request.delete(f"{url}/api/kernels/{kernel['id']}")
        self.page.context.close()


def forget(file: Path) -> None:
    """Drop a file from memory."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_dashboard(page: Page, url: str, folder: Path, file: Path) -> dict[str, Any]:
    """Measure the dashboard on one repository."""
    forget(file)
    times_file = folder / "times.json"
    opened = OPEN_CELL.format(url=f"sqlite:///{file}", times_file=str(times_file), view="overview")
    notebook = Notebook(page, url, folder, file.stem, IMPORT_CELL, opened)
    first, complete = notebook.mark("tidegauge:first:score"), notebook.mark("tidegauge:whole:score")
    page.wait_for_selector(".tidegauge[data-state=drawn]")
    begun, imported, requested, created = json.loads(times_file.read_text())
    started = notebook.mark("tidegauge:start")
    sent = notebook.bytes
    log = page.evaluate("document.querySelector('.tidegauge').tidegauge.link.log")
    wheel = page.evaluate(WHEEL_SCRIPT)
    paints = page.evaluate(
        "performance.getEntriesByName('tidegauge:paint').slice(-200).map(m => m.duration)"
    )
    parts = {
        "opened, widget made (kernel)": created - requested,
        "script on the page": started - created,
    }
    firsts = {entry["question"]: entry for entry in reversed(log)}
    for question, seconds in firsts.items():
        parts[f"first {question}"] = seconds["milliseconds"] / 1000
        parts[f"first {question}, of it in the kernel"] = seconds["kernel"] / 1000
    pieces = [entry for entry in log if entry["question"] == "levels"][1:]
    parts["all levels, in the kernel"] = sum(entry["kernel"] for entry in pieces) / 1000
    shown = page.evaluate("performance.getEntriesByName('tidegauge:first:score')[0].startTime")
    needed = [entry for entry in log if entry["startedAt"] + entry["milliseconds"] <= shown]
    notebook.close(url)
    return {
        "first screen, requests": len(needed),
        "first screen, round trips in turn": round_trips(needed),
        "first screen, in the kernel, ms": sum(entry["kernel"] for entry in needed),
        "imports, s": imported - begun,
        "first screen, s": first - requested,
        "whole matrix, s": complete - requested,
        "wheel to second frame, p50, ms": float(np.percentile(wheel, 50)),
        "wheel to second frame, p95, ms": float(np.percentile(wheel, 95)),
        "painting, p95, ms": float(np.percentile(paints, 95)),
        "sent, MB": sent / 1e6,
        "parts, s": parts,
    }


def round_trips(log: list[dict[str, Any]]) -> int:
    """Return how often the page waited for an answer before it sent the next requests."""
    trips, answered = 0, -1.0
    for entry in sorted(log, key=lambda entry: entry["startedAt"]):
        if entry["startedAt"] >= answered:
            trips += 1
            answered = entry["startedAt"] + entry["milliseconds"]
    return trips


def home(page: Page, url: str, folder: Path, file: Path) -> dict[str, Any]:
    """Measure the page of all tables."""
    forget(file)
    times_file = folder / "times.json"
    opened = OPEN_CELL.format(url=f"sqlite:///{file}", times_file=str(times_file), view="home")
    notebook = Notebook(page, url, folder, f"home_{file.stem}", IMPORT_CELL, opened)
    first, started = notebook.mark("tidegauge:first:home"), notebook.mark("tidegauge:start")
    page.wait_for_selector(".tidegauge[data-view=home][data-state=drawn]")
    requested = json.loads(times_file.read_text())[2]
    log = page.evaluate("document.querySelector('.tidegauge').tidegauge.link.log")
    kernel = {entry["question"]: entry["kernel"] / 1000 for entry in log}
    search = page.evaluate(SEARCH_SCRIPT)
    notebook.close(url)
    return {
        "first screen, s": first - requested,
        "first screen from the script's start, s": first - started,
        "tables, in the kernel, s": kernel["tables"],
        "catalogue, in the kernel, s": kernel["catalogue"],
        "search as one types, ms": search,
    }


def served(page: Page, folder: Path, file: Path, times: int = 5) -> dict[str, Any]:
    """Measure opening the address of a served dashboard, several times."""
    durations = []
    with dashboard_server(folder / "served", f"sqlite:///{file}", "--read-only") as (_, address):
        time.sleep(5)  # the server is warm, as for every user except the first
        for _ in range(times):
            begun = time.perf_counter()
            page.goto(address)
            page.wait_for_selector(".tidegauge[data-state=drawn]")
            durations.append(time.perf_counter() - begun)
            page.goto("about:blank")
            time.sleep(5)
    page.context.close()
    return {
        "opened until drawn, median, s": float(np.median(durations)),
        "the slowest, s": max(durations),
    }


def figures(page: Page, url: str, folder: Path, file: Path) -> dict[str, Any]:
    """Measure ten FigureWidgets of the same numbers, which were read before."""
    times_file = folder / "figures.json"
    cell = FIGURES_CELL.format(url=f"sqlite:///{file}", times_file=str(times_file))
    notebook = Notebook(page, url, folder, "figures", IMPORT_CELL, cell)
    page.wait_for_function(ALL_FIGURES)
    drawn, sent = time.time(), notebook.bytes
    begun, imported, requested, _ = json.loads(times_file.read_text())
    notebook.close(url)
    return {"imports, s": imported - begun, "drawn, s": drawn - requested, "sent, MB": sent / 1e6}


def repository(folder: Path, series: int, days: int, tables: int | None = None) -> Path:
    """Return the file of a repository, which is created unless it exists."""
    file = folder / f"wide_{series}_{days}{'' if tables is None else f'_{tables}'}.db"
    names = {} if tables is None else {"datasets": [f"table_{n:04}" for n in range(tables)]}
    if not file.exists():
        started = time.perf_counter()
        making = file.with_suffix(".making")
        make(f"sqlite:///{making}", series, days, **names)
        making.rename(file)
        print(
            f"made {series:,} series x {days} partitions in {time.perf_counter() - started:.0f} s"
        )
    return file


def show(title: str, results: dict[str, Any]) -> None:
    """Print the results."""
    print(f"\n{title}")
    for name, value in results.items():
        for part, number in value.items() if isinstance(value, dict) else [(name, value)]:
            indent = "    " if isinstance(value, dict) else "  "
            print(f"{indent}{part:<{52 - len(indent)}}{number:>9.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__)[0])
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--large", type=int, default=100_000, help="0 leaves them out")
    parser.add_argument("--large-days", type=int, default=90)
    parser.add_argument("--tables", type=int, default=1000, help="0 leaves them out")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data_folder = options.folder or folder
        data_folder.mkdir(parents=True, exist_ok=True)
        usual = repository(data_folder, options.series, options.days)
        large = (
            repository(data_folder, options.large, options.large_days) if options.large else None
        )
        each = 20
        tables = options.tables and repository(
            data_folder, each * options.tables, options.days, options.tables
        )
        middle = options.tables and repository(data_folder, 300 * each, 180, 300)
        results: dict[str, Any] = {}
        with sync_playwright() as playwright, lab_server(folder) as (_, url):
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=arguments
            )

            def page() -> Page:
                return browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()

            results["dashboard"] = time_dashboard(page(), url, folder, usual)
            show(f"{options.series:,} series x {options.days} partitions", results["dashboard"])
            results["figures"] = figures(page(), url, folder, usual)
            show("the same in ten plotly FigureWidgets", results["figures"])
            dashboard, figures_times = results["dashboard"], results["figures"]
            results["ratios"] = {
                "time until all is drawn": figures_times["drawn, s"] / dashboard["whole matrix, s"],
                "time until the first screen": figures_times["drawn, s"]
                / dashboard["first screen, s"],
                "bytes": figures_times["sent, MB"] / dashboard["sent, MB"],
            }
            show("FigureWidgets by the dashboard", results["ratios"])
            if large is not None:
                results["large"] = time_dashboard(page(), url, folder, large)
                show(
                    f"{options.large:,} series x {options.large_days} partitions", results["large"]
                )
            if middle:
                results["300 tables"] = time_dashboard(page(), url, folder, middle)
                show("300 tables x 20 series x 180 partitions", results["300 tables"])
            if tables:
                results["home"] = home(page(), url, folder, tables)
                show(f"{options.tables:,} tables x {each} series", results["home"])
            results["served"] = served(page(), folder, usual)
            show("a served address", results["served"])
            browser.close()
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
