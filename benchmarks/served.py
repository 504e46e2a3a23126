"""Opening the served dashboard: the first page after its start, later ones, and twenty at once.

    python benchmarks/served.py FILE.db [--pages 20] [--rounds 3] [--against CHECKOUT] [--json FILE]

Each round starts a server on the repository, whose file is dropped from memory, and asks over HTTP what a page
asks until its first screen, with the tables and the lines of those that are seen: the page and its script,
catalogue and tables at once, then the values of 30 rows. Told are the seconds until then of the first page
(cold), of later ones (warm), and of many that open together; the seconds that the server's process computed for
it, which other work on the machine does not change as much; and its memory. With ``--against`` servers of
another checkout take turns with ours, so that both see the same machine. No browser: what a page draws is
measured by `benchmarks/dashboard.py`, which also makes repositories of a thousand tables (``--folder``).
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

ROWS = 30
STATIC = ("dashboard.css", "dashboard.js", "page.js")
WARM = 5
"""Pages that are opened one after the other."""


def get(url: str) -> bytes:
    """Return what is at an address."""
    with urllib.request.urlopen(url, timeout=600) as answer:
        found: bytes = answer.read()
    return found


def ask(url: str, question: str, catalogue: int | None = None, **about: Any) -> dict[str, Any]:
    """Ask the server as a page does, and return what is told and the arrays."""
    message = {"id": "1", "ask": question, "about": about, "catalogue": catalogue}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}ask", json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        body = answer.read()
    (length,) = struct.unpack("<I", body[:4])
    said = json.loads(body[4 : 4 + length])
    if "error" in said:
        raise RuntimeError(said["error"])
    found, start = dict(said["told"]), 4 + length
    for name, kind, shape in said["arrays"]:
        count = int(np.prod(shape))
        found[name] = np.frombuffer(body, f"<{kind}", count, start).reshape(shape)
        start += count * np.dtype(kind).itemsize
    return found


def page(url: str) -> tuple[float, float]:
    """Open a page; return the seconds until its tables are there, and until their lines are."""
    begun = time.perf_counter()
    get(url)
    with ThreadPoolExecutor(len(STATIC)) as pool:
        list(pool.map(get, [f"{url}static/{name}" for name in STATIC]))
        told = pool.submit(ask, url, "tables")
        known = ask(url, "catalogue")
        tables = told.result()
    first = time.perf_counter() - begun
    sizes = tables["size_series"]
    seen = sizes[~np.isnan(sizes)][:ROWS] if len(sizes) else sizes
    rows = np.flatnonzero(np.isin(known["ids"], seen)).tolist() or list(range(ROWS))
    ask(url, "rows", known["catalogue"], rows=rows)
    return first, time.perf_counter() - begun


def measure(folder: Path, file: Path, checkout: Path, pages: int) -> dict[str, float]:
    """Start a server, and open pages of it."""
    forget(file)
    begun = time.perf_counter()
    url, place = f"sqlite:///{file}", {"PYTHONPATH": str(checkout)}
    with dashboard_server(folder, url, "--read-only", **place) as (server, address):
        found = {"server started, s": time.perf_counter() - begun}
        process = psutil.Process(server.process.pid)

        def computed() -> float:
            times = process.cpu_times()
            return float(times.user + times.system)

        def told(name: str, opened: list[tuple[float, float]], before: float) -> None:
            firsts, wholes = zip(*opened, strict=True)
            found[f"{name}: tables, median, s"] = statistics.median(firsts)
            if len(firsts) > 1:
                found[f"{name}: tables, p95, s"] = float(np.percentile(firsts, 95))
            found[f"{name}: lines, median, s"] = statistics.median(wholes)
            found[f"{name}: server computed for each, s"] = (computed() - before) / len(opened)

        before = computed()
        told("cold", [page(address)], before)
        before = computed()
        told("warm", [page(address) for _ in range(WARM)], before)
        before = computed()
        with ThreadPoolExecutor(pages) as pool:
            told(f"{pages} at once", list(pool.map(page, [address] * pages)), before)
        found["server's memory, MB"] = process.memory_info().rss / 1e6
    return found


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
    found = {
        name: {key: statistics.median(one[key] for one in some) for key in some[0]}
        for name, some in rounds.items()
    }
    for name, figures in found.items():
        show(f"{name}, {options.file.name}, median of {options.rounds} rounds", figures)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
