"""Time to open the dashboard's consistency view, to switch features, and to export it as a file.

    python benchmarks/consistency_view.py [--features 1000] [--days 90] [--hourly] [--folder DIR]
    [--json FILE]

The repository contains a join whose features have ten metrics each, three of them distributions: 28
facts for each feature and partition. The results are the time of the kernel's answers, and the time
that a user sees in Chromium, on the page of `tidegauge dashboard`: from the click on the tab until
features and charts are painted, from the click on another feature until its charts are painted, and
from the choice of another metric until features are ranked by it. Then the export as JSON lines,
the time to read it, and the first answer from it. Needs Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.synthetic.consistent import DATASET_NAME, make
from tests.services.servers import dashboard_server
from tidegauge.consistency.jsonl import consistency_file, open_consistency
from tidegauge.repository.repository import Repository
from tidegauge.widgets.consistency import Consistency

UNTIL_PAINTED = """async ([selector, event, value]) => {
  const drawn = () => performance.getEntriesByName('tidegauge:consistency:drawn').length;
  const frame = () => new Promise(requestAnimationFrame);
  const before = drawn(), begun = performance.now(), found = document.querySelectorAll(selector);
  const one = found[value.place ?? 0];
  if (value.choose) one.value = value.choose;
  one.dispatchEvent(new Event(event, {bubbles: true}));
  while (drawn() === before) await frame();
  await frame(); await frame();
  return performance.now() - begun;
}"""
ROW_SELECTOR = ".tg-features-list .tg-row"


def kernel(repo: Repository) -> dict[str, float]:
    """Return the seconds of the kernel's answers."""
    view, seconds = Consistency(repo), {}

    def timed(name: str, ask: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        answer = ask({"dataset": DATASET_NAME, **options})
        seconds[name] = time.perf_counter() - begun
        return answer

    ids = timed("ranking, first", view.ranking).arrays["ids"].tolist()
    timed("40 small lines", view.sparklines, ids=ids[:40])
    timed("a feature", view.features, ids=ids[:1])
    timed("another feature", view.features, ids=ids[1:2])
    timed("six features", view.features, ids=ids[2:8])
    timed("ranking, by smape", view.ranking, metric="smape")
    timed("ranking, again", view.ranking)
    return seconds


def browser(file: Path, folder: Path) -> dict[str, float]:
    """Return the seconds that a user sees in the browser."""
    with (
        dashboard_server(folder, f"sqlite:///{file}", "--read-only") as (_, url),
        sync_playwright() as playwright,
    ):
        opened = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = opened.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(300_000)
        page.goto(url)
        page.wait_for_selector(".tidegauge[data-state=drawn]")
        page.wait_for_timeout(3000)  # the overview fetches the parts that it did not show first

        def timed_event(selector: str, event: str = "click", **value: Any) -> float:
            return float(page.evaluate(UNTIL_PAINTED, [selector, event, value])) / 1000

        first = timed_event("[data-tab=consistency]")
        switches = [timed_event(ROW_SELECTOR, place=index) for index in (3, 7, 4, 9, 2, 6, 8, 5)]
        other = timed_event(".tg-consistency .tg-tools select", "change", choose="smape")
        opened.close()
    return {
        "first paint": first,
        "another feature, median": float(np.median(switches)),
        "another feature, worst": max(switches),
        "ranked by another metric": other,
    }


def carried(repo: Repository, file: Path) -> dict[str, float]:
    """Return the seconds to write the file, to read it, and to answer from it; and its size."""
    begun = time.perf_counter()
    consistency_file(repo, DATASET_NAME, file)
    written = time.perf_counter()
    with open_consistency(file) as view:
        read = time.perf_counter()
        Consistency(view).ranking({"dataset": DATASET_NAME})
        answered = time.perf_counter()
    return {
        "export": written - begun,
        "file, MB": file.stat().st_size / 1e6,
        "read back": read - written,
        "ranking, first": answered - read,
    }


def main() -> None:
    """Create the repository unless it exists, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--hourly", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{options.features}-{options.days}{'-hourly' if options.hourly else ''}"
        file = folder / f"{name}.db"
        if not file.exists():
            facts = make(file, options.features, options.days, hourly=options.hourly)
            print(f"{facts:,} facts, {file.stat().st_size / 1e6:.0f} MB")
        with Repository(f"sqlite:///{file}", read_only=True) as repo:
            results: dict[str, dict[str, float]] = {"kernel, s": kernel(repo)}
            results["browser, s"] = browser(file, Path(temporary) / "jupyter")
            if not options.hourly:
                results["as a file, s"] = carried(repo, Path(temporary) / "export.jsonl")
    for part, numbers in results.items():
        print(part)
        for step, number in numbers.items():
            print(f"  {step:28}{number:10.3f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
