"""200 constraints on one frame: ours beside Deequ, Great Expectations and DQX.

    python -m benchmarks.checks [--rows 2000000] [--rounds 3] [--cases NAME ...] [--sides NAME ...]
        [--folder DIR] [--json FILE]

Each side is a process that lives as long as the benchmark, with the settings of `benchmarks.deequ`:
the three others on Spark 3.5, which Deequ needs, ours on that one and on the newest. They take
turns on the same Parquet files; the order is reversed each round, and the first round warms up. A
side is given its constraints before; timed is from reading the frame to the last verdict. The
verdicts of all sides are compared with those that follow from how the table is made.

Each side gets its best reasonable usage and is asked for the same: verdicts alone, which are
``examples=False`` of ours, ``BOOLEAN_ONLY`` of Great Expectations, and one pass over DQX's marked
frame, whose rules its observer counts. In ``values80`` the sides that can name bad values of what
fails name them: ours as it does by default, Great Expectations by ``SUMMARY``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.checks.constraints import CASES, WITH_VALUES, expected
from benchmarks.deequ.__main__ import machine
from benchmarks.deequ.workers import (
    DEEQU,
    MEMORY,
    SETTINGS,
    THEIR_SPARK,
    Worker,
    WorkerError,
    their_worker,
)
from tests.services.environments import environment
from tidegauge.spark.session import find_java

OURS = ("ours-3.5", "ours-newest")
PEERS = ("deequ", "gx", "dqx")
NAMELESS = ("deequ", "dqx")
"""The sides whose verdicts name no bad values."""
LOCK = "peers"
"""The lock file of the environment that Great Expectations and DQX share."""


def start(name: str, folder: Path) -> Worker:
    """Start the process of one side."""
    if name == "deequ":
        return their_worker(folder)
    side, _, spark = name.partition("-")
    if side != "ours":
        python = environment(LOCK)
    elif spark == "newest":
        python = Path(sys.executable)
    else:
        python = environment(f"spark-{THEIR_SPARK}")
    told = {**SETTINGS, "spark.driver.memory": MEMORY, "spark.ui.showConsoleProgress": "false"}
    command = [str(python), "-m", "benchmarks.checks.worker", side, str(folder / name)]
    return Worker(name, [*command, json.dumps(told)], folder)


def play(name: str, workers: list[Worker], path: str, rounds: int) -> dict:
    """Play one case; return the seconds of each side and round, errors, and verdicts that differ."""
    constraints, values = CASES[name], name in WITH_VALUES
    workers = [worker for worker in workers if not (values and worker.name in NAMELESS)]
    asked = {"op": "verify", "constraints": constraints, "values": values}
    errors: dict[str, str] = {}
    seconds: dict[str, list[float]] = {}
    wrong: dict[str, list] = {}

    def ask(worker: Worker, stage: str, **request) -> dict | None:
        if worker.name in errors:
            return None
        try:
            return worker.ask(stage, **request)
        except WorkerError as error:
            errors[worker.name] = f"{stage}: {error}"
            return None

    for worker in workers:
        ask(worker, "prepare", case=asked, path=path)
    for turn in range(rounds + 1):
        for worker in workers[:: -1 if turn % 2 else 1]:
            ask(worker, "before")
            found = ask(worker, "run")
            if found and turn:
                seconds.setdefault(worker.name, []).append(found["seconds"])
    for worker in workers:
        found = ask(worker, "values")
        if found:
            pairs = zip(constraints, found["values"], strict=True)
            wrong[worker.name] = [[c, held] for c, held in pairs if held != expected(c)]
    return {"case": name, "seconds": seconds, "errors": errors, "unexpected verdicts": wrong}


def ratios(result: dict) -> dict[str, dict[str, float]]:
    """Return, for each of ours, how many times as long each peer takes: the median of the rounds."""
    seconds = result["seconds"]
    return {
        ours: {
            peer: statistics.median(
                t / o for t, o in zip(seconds[peer], seconds[ours], strict=True)
            )
            for peer in PEERS
            if peer in seconds
        }
        for ours in OURS
        if ours in seconds
    }


def show(results: list[dict], sides: list[str], console: Console) -> None:
    """Print the table, errors, and verdicts that are not as expected."""
    table = Table(title="Seconds, and times as long as ours on Spark 3.5 / on the newest")
    for title in ("case", *sides):
        table.add_column(title, justify="left" if title == "case" else "right")
    for result in results:
        row = [result["case"]]
        for side in sides:
            taken = result["seconds"].get(side)
            told = f"{statistics.median(taken):.2f}" if taken else "-"
            of = [f"{found[side]:.1f}" for found in result["ratios"].values() if side in found]
            row.append(f"{told} ({' / '.join(of)})" if of else told)
        table.add_row(*row)
    console.print(table)
    for result in results:
        for side, error in result["errors"].items():
            console.print(f"{result['case']}, {side}: {error}", highlight=False, markup=False)
        for side, wrong in result["unexpected verdicts"].items():
            if wrong:
                told = f"{result['case']}, {side}: {len(wrong)} verdicts unexpected: {wrong[:3]}"
                console.print(told, highlight=False, markup=False)


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everyone = [*PEERS, *OURS]
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sides", nargs="+", choices=everyone, default=everyone)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmark-checks"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/checks.json"))
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    path = folder / f"rows-{asked.rows}"
    os.environ.setdefault("JAVA_HOME", str(Path(find_java() or "java").parents[1]))
    workers: list[Worker] = []
    console = Console(width=160)
    try:
        workers += [start(name, folder / "workers") for name in asked.sides]
        versions = {worker.name: worker.ask("hello") for worker in workers}
        if "deequ" in versions:
            versions["deequ"]["version"] = DEEQU
        if not (path / "_SUCCESS").exists():
            writer = next((w for w in workers if w.name != "deequ"), None)
            if writer is None:
                parser.error("Deequ's side cannot write the table: name another one, too")
            writer.ask("data", path=str(path), rows=asked.rows)
        report = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": versions,
            "rows": asked.rows,
            "cases": [],
        }
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        for name in asked.cases:
            result = play(name, workers, str(path), asked.rounds)
            report["cases"].append({**result, "ratios": ratios(result)})
            asked.json.write_text(json.dumps(report, indent=1))
    finally:
        for worker in workers:
            worker.close()
    show(report["cases"], asked.sides, console)
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
