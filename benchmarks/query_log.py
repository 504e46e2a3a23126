"""Duration of `log()` of a query log under many threads, while storage answers and while it hangs.

    python benchmarks/query_log.py [--threads 64] [--rate 50] [--seconds 30] [--rounds 3] [--json
    FILE]

Each thread logs queries at a steady rate: first with storage that answers, then with storage whose
first write hangs for all except the first two seconds. Each round does both, in one process. Times
are wall-clock times of every call. Stored queries are counted in the files, so that stored and
dropped queries add up to the calls.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

# the folder of this script also contains repository.py
sys.path[0] = str(Path(__file__).resolve().parents[1])

from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema

KEY_TYPES = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "user", "type": "long"}, {"name": "session", "type": "string"}],
}
VALUE_TYPES = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": f"f{i}", "type": ["null", "double"]} for i in range(20)],
}
RUNNING_UP = 2.0
"""Seconds before storage begins to hang, which are not timed."""


def run(threads, rate, seconds, *, hangs):
    """Log from all threads; return each call's time in seconds, and the counts of stored and dropped queries."""
    values = {f"f{i}": i / 7 for i in range(20)}
    write, answers = parquet.write_table, threading.Event()

    def hang(*args, **options):
        answers.wait()
        write(*args, **options)

    took = [[] for _ in range(threads)]
    calls = [0] * threads
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        with QueryLog(folder) as log:
            log.register(LogSchema.from_schemas("search", KEY_TYPES, VALUE_TYPES))
            began = time.perf_counter() + 0.1

            def serve(thread):
                at = began + thread / threads / rate
                while at < began + RUNNING_UP + seconds:
                    time.sleep(max(0.0, at - time.perf_counter()))
                    start = time.perf_counter()
                    log.log("search", {"user": thread, "session": "abcdef"}, values)
                    end = time.perf_counter()
                    calls[thread] += 1
                    if at >= began + RUNNING_UP:
                        took[thread].append(end - start)
                    at += 1 / rate

            every = [threading.Thread(target=serve, args=[i]) for i in range(threads)]
            for worker in every:
                worker.start()
            time.sleep(RUNNING_UP)
            if hangs:
                parquet.write_table = hang
            for worker in every:
                worker.join()
            parquet.write_table = write
            answers.set()
        files = Path(folder).rglob("*.parquet")
        stored = sum(parquet.read_metadata(file).num_rows for file in files)
    return np.concatenate(took), {"calls": sum(calls), "kept": stored, "dropped": log.dropped}


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--rate", type=float, default=50, help="queries a second of each thread")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/query_log.json"))
    args = parser.parse_args()
    runs = {"answers": [], "hangs": []}
    for _ in range(args.rounds):
        for storage, done in runs.items():
            done.append(run(args.threads, args.rate, args.seconds, hangs=storage == "hangs"))
    results = []
    for storage, done in runs.items():
        took = np.concatenate([times for times, _ in done]) * 1e6
        p50, p99, longest = (float(np.quantile(took, rank)) for rank in (0.5, 0.99, 1.0))
        counted = {
            name: sum(counts[name] for _, counts in done) for name in ("calls", "kept", "dropped")
        }
        results.append({
            "storage": storage, "p50 us": round(p50), "p99 us": round(p99), "most ms": round(longest / 1000, 1),
            **counted, "adds up": counted["kept"] + counted["dropped"] == counted["calls"],
        })  # fmt: skip
    ratio = round(results[1]["p99 us"] / results[0]["p99 us"], 2)
    table = Table(*results[0])
    for result in results:
        table.add_row(*map(str, result.values()))
    console = Console()
    console.print(table)
    console.print(f"p99 while storage hangs, by p99 while it answers: {ratio}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"p99 ratio": ratio, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
