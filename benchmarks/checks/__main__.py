"""Time of 200 constraints on one frame: Tidegauge, Deequ, Great Expectations and DQX.

    python -m benchmarks.checks [--rows 2000000] [--rounds 3] [--cases NAME ...] [--sides NAME ...]
        [--folder DIR] [--json FILE]

Each side is one process for the whole benchmark, with the settings of `benchmarks.deequ`. The
peers run on Spark 3.5, which Deequ needs; Tidegauge runs on Spark 3.5 and on the newest Spark.
They take turns on the same Parquet files. The order is reversed each round, and the first round
warms up. A side gets its constraints before the timing, which lasts from reading the frame to the
last verdict. All verdicts are compared with the verdicts that follow from how the table is made.

Each side gets its best reasonable usage and returns only verdicts: ``examples=False`` for
Tidegauge, ``BOOLEAN_ONLY`` for Great Expectations, and one pass over DQX's marked frame, whose
rules its observer counts. In ``values80`` the sides that can name bad values of failed constraints
do so: Tidegauge by default, Great Expectations with ``SUMMARY``.
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
    DEEQU_RELEASE,
    DRIVER_MEMORY,
    SPARK_SETTINGS,
    THEIR_SPARK,
    Worker,
    WorkerError,
    their_worker,
)
from tests.services.environments import environment
from tidegauge.spark.session import find_java

OUR_SIDES = ("ours-3.5", "ours-newest")
PEER_SIDES = ("deequ", "gx", "dqx")
SIDES_WITHOUT_VALUES = ("deequ", "dqx")
"""The sides whose verdicts contain no bad values."""
PEERS_LOCK_NAME = "peers"
"""Name of the lock file of the environment that Great Expectations and DQX share."""


def start(name: str, folder: Path) -> Worker:
    """Start the process of one side."""
    if name == "deequ":
        return their_worker(folder)
    side, _, spark = name.partition("-")
    if side != "ours":
        python = environment(PEERS_LOCK_NAME)
    elif spark == "newest":
        python = Path(sys.executable)
    else:
        python = environment(f"spark-{THEIR_SPARK}")
    settings = {
        **SPARK_SETTINGS,
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.ui.showConsoleProgress": "false",
    }
    command = [str(python), "-m", "benchmarks.checks.worker", side, str(folder / name)]
    return Worker(name, [*command, json.dumps(settings)], folder)


def play(name: str, workers: list[Worker], path: str, rounds: int) -> dict:
    """Run one case; return the seconds of each side and round, errors, and unexpected verdicts."""
    constraints, values = CASES[name], name in WITH_VALUES
    workers = [worker for worker in workers if not (values and worker.name in SIDES_WITHOUT_VALUES)]
    verify_request = {"op": "verify", "constraints": constraints, "values": values}
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
        ask(worker, "prepare", case=verify_request, path=path)
    for turn in range(rounds + 1):
        for worker in workers[:: -1 if turn % 2 else 1]:
            ask(worker, "before")
            answer = ask(worker, "run")
            if answer and turn:
                seconds.setdefault(worker.name, []).append(answer["seconds"])
    for worker in workers:
        answer = ask(worker, "values")
        if answer:
            pairs = zip(constraints, answer["values"], strict=True)
            wrong[worker.name] = [[c, passed] for c, passed in pairs if passed != expected(c)]
    return {"case": name, "seconds": seconds, "errors": errors, "unexpected verdicts": wrong}


def ratios(result: dict) -> dict[str, dict[str, float]]:
    """Return, for each of our sides, how many times as long each peer takes, as the median of the rounds."""
    seconds = result["seconds"]
    return {
        side: {
            peer: statistics.median(
                t / o for t, o in zip(seconds[peer], seconds[side], strict=True)
            )
            for peer in PEER_SIDES
            if peer in seconds
        }
        for side in OUR_SIDES
        if side in seconds
    }


def show(results: list[dict], sides: list[str], console: Console) -> None:
    """Print the table, errors, and unexpected verdicts."""
    table = Table(title="Seconds, and times as long as ours on Spark 3.5 / on the newest")
    for title in ("case", *sides):
        table.add_column(title, justify="left" if title == "case" else "right")
    for result in results:
        row = [result["case"]]
        for side in sides:
            seconds = result["seconds"].get(side)
            cell = f"{statistics.median(seconds):.2f}" if seconds else "-"
            side_ratios = [
                f"{by_side[side]:.1f}" for by_side in result["ratios"].values() if side in by_side
            ]
            row.append(f"{cell} ({' / '.join(side_ratios)})" if side_ratios else cell)
        table.add_row(*row)
    console.print(table)
    for result in results:
        for side, error in result["errors"].items():
            console.print(f"{result['case']}, {side}: {error}", highlight=False, markup=False)
        for side, wrong in result["unexpected verdicts"].items():
            if wrong:
                message = f"{result['case']}, {side}: {len(wrong)} verdicts unexpected: {wrong[:3]}"
                console.print(message, highlight=False, markup=False)


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everyone = [*PEER_SIDES, *OUR_SIDES]
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sides", nargs="+", choices=everyone, default=everyone)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmark-checks"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/checks.json"))
    args = parser.parse_args()
    folder = args.folder.absolute()
    path = folder / f"rows-{args.rows}"
    os.environ.setdefault("JAVA_HOME", str(Path(find_java() or "java").parents[1]))
    workers: list[Worker] = []
    console = Console(width=160)
    try:
        workers += [start(name, folder / "workers") for name in args.sides]
        versions = {worker.name: worker.ask("hello") for worker in workers}
        if "deequ" in versions:
            versions["deequ"]["version"] = DEEQU_RELEASE
        if not (path / "_SUCCESS").exists():
            writer = next((w for w in workers if w.name != "deequ"), None)
            if writer is None:
                parser.error("Deequ's side cannot write the table: name another one as well")
            writer.ask("data", path=str(path), rows=args.rows)
        report = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": versions,
            "rows": args.rows,
            "cases": [],
        }
        args.json.parent.mkdir(parents=True, exist_ok=True)
        for name in args.cases:
            result = play(name, workers, str(path), args.rounds)
            report["cases"].append({**result, "ratios": ratios(result)})
            args.json.write_text(json.dumps(report, indent=1))
    finally:
        for worker in workers:
            worker.close()
    show(report["cases"], args.sides, console)
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
