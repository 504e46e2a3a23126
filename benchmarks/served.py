"""Time to open the served dashboard: the first page after its start, later pages, and twenty at once.

    python benchmarks/served.py FILE.db [--pages 20] [--rounds 3] [--against CHECKOUT] [--json FILE]

Each round starts a server on the repository, whose file is dropped from memory, and sends the HTTP
requests of a page until its first screen, with the tables and the lines of the visible ones: the
page and its script, catalogue and tables at once, then the values of 30 rows. The results are the
seconds of the first page (cold), of later pages (warm), and of many pages opened together; the CPU
seconds of the server's process, which depend less on other load; and its memory. With
``--against``, servers of another checkout take turns with ours, so that both run under the same
conditions. There is no browser: `benchmarks/dashboard.py` measures drawing, and creates
repositories of a thousand tables (``--folder``).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import struct
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import psutil

from benchmarks.dashboard import forget, show
from tests.services.servers import dashboard_server

VISIBLE_ROWS = 30
STATIC_FILES = ("dashboard.css", "dashboard.js", "page.js")
WARM_PAGES = 5
"""Number of pages that are opened one after the other."""


def get(url: str) -> bytes:
    """Return the content of an address."""
    with urllib.request.urlopen(url, timeout=600) as answer:
        content: bytes = answer.read()
    return content


def ask(url: str, question: str, catalogue: int | None = None, **parameters: Any) -> dict[str, Any]:
    """Query the server as a page does, and return the answer and its arrays."""
    message = {"id": "1", "question": question, "params": parameters, "catalogue": catalogue}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}ask", json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        body = answer.read()
    (length,) = struct.unpack("<I", body[:4])
    reply = json.loads(body[4 : 4 + length])
    if "error" in reply:
        raise RuntimeError(reply["error"])
    content, start = dict(reply["payload"]), 4 + length
    for name, kind, shape in reply["arrays"]:
        count = int(np.prod(shape))
        content[name] = np.frombuffer(body, f"<{kind}", count, start).reshape(shape)
        start += count * np.dtype(kind).itemsize
    return content


def page(url: str) -> tuple[float, float]:
    """Open a page; return the seconds until its tables are loaded, and until their lines are loaded."""
    begun = time.perf_counter()
    get(url)
    with ThreadPoolExecutor(len(STATIC_FILES)) as pool:
        list(pool.map(get, [f"{url}static/{name}" for name in STATIC_FILES]))
        table_answer = pool.submit(ask, url, "tables")
        catalogue = ask(url, "catalogue")
        tables = table_answer.result()
    first = time.perf_counter() - begun
    sizes = tables["size_series"]
    visible = sizes[~np.isnan(sizes)][:VISIBLE_ROWS] if len(sizes) else sizes
    rows = np.flatnonzero(np.isin(catalogue["ids"], visible)).tolist() or list(range(VISIBLE_ROWS))
    ask(url, "sparklines", catalogue["catalogue"], rows=rows)
    return first, time.perf_counter() - begun


def measure(folder: Path, file: Path, checkout: Path, pages: int) -> dict[str, float]:
    """Start a server, and open its pages."""
    forget(file)
    begun = time.perf_counter()
    url, environment = f"sqlite:///{file}", {"PYTHONPATH": str(checkout)}
    with dashboard_server(folder, url, "--read-only", **environment) as (server, address):
        results = {"server started, s": time.perf_counter() - begun}
        process = psutil.Process(server.process.pid)

        def computed() -> float:
            times = process.cpu_times()
            return float(times.user + times.system)

        def add_times(name: str, opened: list[tuple[float, float]], before: float) -> None:
            firsts, totals = zip(*opened, strict=True)
            results[f"{name}: tables, median, s"] = statistics.median(firsts)
            if len(firsts) > 1:
                results[f"{name}: tables, p95, s"] = float(np.percentile(firsts, 95))
            results[f"{name}: lines, median, s"] = statistics.median(totals)
            results[f"{name}: server computed for each, s"] = (computed() - before) / len(opened)

        before = computed()
        add_times("cold", [page(address)], before)
        before = computed()
        add_times("warm", [page(address) for _ in range(WARM_PAGES)], before)
        before = computed()
        with ThreadPoolExecutor(pages) as pool:
            add_times(f"{pages} at once", list(pool.map(page, [address] * pages)), before)
        results["server's memory, MB"] = process.memory_info().rss / 1e6
    return results


def main() -> None:
    """Measure and print the medians of all rounds."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout, with its script built")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    checkouts = {"ours": Path(sys.path[0])}
    if options.against:
        checkouts["the other"] = options.against
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(options.rounds):
        for name, checkout in checkouts.items():
            with tempfile.TemporaryDirectory() as folder:
                file = options.file.resolve()
                rounds[name].append(measure(Path(folder), file, checkout, options.pages))
    medians = {
        name: {
            key: statistics.median(times[key] for times in rounds_of_version)
            for key in rounds_of_version[0]
        }
        for name, rounds_of_version in rounds.items()
    }
    for name, figures in medians.items():
        show(f"{name}, {options.file.name}, median of {options.rounds} rounds", figures)
    if options.json:
        options.json.write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    main()
