"""Comparison with Deequ: scans, backfills, daily runs, merged states, repositories.

    python -m benchmarks.deequ [--rounds 5] [--cases NAME ...] [--sparks 3.5 newest] [--engines auto spark]
        [--scale 1.0] [--before CHECKOUT] [--folder DIR] [--json FILE]

Deequ's newest release runs on its own Spark, Tidegauge on that Spark and on the newest, each in one
process for the whole benchmark: ``local[2]``, 4 GB of heap, the same Java, 8 shuffle partitions,
adaptive execution with Spark's default, no user interface. They take turns, and the order is
reversed each round. The first three rounds warm up, or one round for long cases. The worker
measures wall time around the case itself, and CPU time over its whole process tree. The result is
the median of the ratios of all rounds. With the engine ``spark``, Tidegauge measures everything by Spark SQL; a
worker with each engine on each Spark takes part. A checkout of an earlier commit can take part on the last Spark.

Deequ gets its best reasonable usage: the schema of a partition is known, so no job reads it; each
partition has a separate state provider, and a backfill one repository, which then parses its file
once. Tidegauge reads the same files as Hive tables. Tables and new repositories are created outside
of the timing. The last sixty partitions of a history are measured by separate runs. A daily run
opens its repository on both sides, because it is a new job. The metrics of the last round of both
sides are compared.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
from dataclasses import asdict
from math import inf
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.deequ import data
from benchmarks.deequ.cases import CASES, KNOWN_DIFFERENCES, Case
from benchmarks.deequ.workers import (
    DEEQU_RELEASE,
    SPARK_SETTINGS,
    WorkerError,
    our_worker,
    their_worker,
)
from tests.paths import ROOT
from tidegauge.spark.session import find_java, java_version

LONG_SECONDS = 10.0
"""Seconds from which a case warms up once; other cases warm up three times."""
RESOLUTION_SECONDS = {"wall": 1e-4, "cpu": 0.01}
"""Resolution of the seconds. Shorter times count as much, so that no ratio is overstated."""
RELATIVE_TOLERANCE = 1e-9
UNEXPLAINED_REASON = "unexplained"


class Contest:
    """One case, run by all workers in turns.

    Parameters
    ----------
    case : Case
    workers : list of Worker
        Deequ first.
    folder : Path
        Contains the tables; rounds write into a subfolder, which is emptied.
    """

    def __init__(self, case: Case, workers: list, folder: Path) -> None:
        self.case, self.workers, self.folder = case, list(workers), folder
        self.runs = folder / "runs"
        shutil.rmtree(self.runs, ignore_errors=True)
        self.listed = data.partitions(folder, case.table)
        self.spares = data.partitions(folder, case.spare) if case.spare else []
        self.errors: dict[str, str] = {}
        self.played: list[dict] = []
        self.values: dict[str, object] = {}

    def play(self, rounds: int) -> dict:
        """Prepare, warm up, run all rounds, and return the results."""
        case = self.case
        cache_key = hashlib.sha256(
            json.dumps([DEEQU_RELEASE, case.analyzers]).encode()
        ).hexdigest()[:12]
        request = {"schema": str(self._any_file()), "path": str(self.folder / case.table)}
        if case.history:
            request["history"] = self.listed[: case.history]
        for worker in self.workers[:]:
            folder = self._new_folder(worker.name)
            request["kept"] = str(self.folder / f"history-{cache_key}")
            self._try(
                worker,
                "prepare",
                case=asdict(case),
                partitions=self.listed,
                folder=folder,
                **request,
            )
        slowest = 0.0
        for turn in range(1 if case.warmup else 3):
            if slowest < LONG_SECONDS:
                timed = self._round(turn, warming=True)
                slowest = max([round_times["wall"] for round_times in timed.values()], default=0.0)
        for turn in range(3, 3 + min(rounds, case.rounds or rounds)):
            self.played.append(self._round(turn))
        for worker in self.workers[:]:
            answer = self._try(worker, "values")
            if answer:
                self.values[worker.name] = answer["values"]
        shutil.rmtree(self.runs, ignore_errors=True)
        return self._result()

    def _round(self, turn: int, *, warming: bool = False) -> dict[str, dict[str, float]]:
        """Let each worker run once; return wall and CPU seconds of the successful ones."""
        timed = {}
        partitions = self.spares[turn : turn + 1] or self.listed
        if warming and self.case.warmup:
            partitions = partitions[: self.case.warmup]
        for worker in self.workers[:: 1 if turn % 2 else -1]:
            folder = self._new_folder(f"{worker.name}-{turn}")
            if self._try(worker, "before", partitions=partitions, folder=folder) is None:
                continue
            load, used = os.getloadavg()[0], worker.cpu()
            answer = self._try(worker, "run")
            if answer:
                cpu = worker.cpu() - used
                timed[worker.name] = {"wall": answer["seconds"], "cpu": cpu, "load": load}
        return timed

    def _try(self, worker, stage: str, **request) -> dict | None:
        """Send a request to a worker; a worker that fails is excluded."""
        try:
            return worker.ask(stage, **request)
        except WorkerError as error:
            self.errors[worker.name] = f"{stage}: {error}"
            self.workers.remove(worker)
            return None

    def _new_folder(self, name: str) -> str:
        folder = self.runs / name
        folder.mkdir(parents=True)
        return str(folder)

    def _any_file(self) -> Path:
        return min((self.folder / self.case.table).rglob("*.parquet"))

    def _result(self) -> dict:
        """Return times, ratios and differences by worker."""
        case = self.case
        result = {"case": case.name, "goal": case.goal}
        result |= {"errors": self.errors, "rounds": self.played}
        for name in {name: None for played in self.played for name in played}:
            summary = result[name] = {}
            for kind, least in RESOLUTION_SECONDS.items():
                timed = [played for played in self.played if name in played]
                summary[kind] = statistics.median(played[name][kind] for played in timed)
                ratios = [
                    max(f["deequ"][kind], least) / max(f[name][kind], least)
                    for f in timed
                    if "deequ" in f
                ]
                if name != "deequ" and ratios:
                    summary[f"{kind} ratio"] = [statistics.median(ratios), min(ratios), max(ratios)]
            if name != "deequ" and {"deequ", name} <= self.values.keys():
                summary["values"] = self._differences(self.values["deequ"], self.values[name])
        return result

    def _differences(self, their_values, our_values) -> dict:
        """Return the number of compared values, and the differences by the analyzer's name."""
        flat = {}
        for side, values in (("theirs", their_values), ("ours", our_values)):
            for key, value in self._numbers(values):
                flat.setdefault(key, {})[side] = value
        differences: dict[str, dict] = {}
        for (window, name, part), pair in flat.items():
            off = _difference(pair.get("theirs"), pair.get("ours"))
            if off <= RELATIVE_TOLERANCE:
                continue
            kind = name.partition("(")[0]
            difference = differences.setdefault(
                kind, {"why": None, "count": 0, "most": 0.0, "worst": None}
            )
            difference["count"] += 1
            if off > difference["most"]:
                difference |= {"most": off, "worst": [f"{window} {name} {part}".strip(), pair]}
        sketches = [name for name, *_ in self.case.ours or ()]
        for kind, difference in differences.items():
            reasons = (
                KNOWN_DIFFERENCES[name] for name in (kind, *sketches) if name in KNOWN_DIFFERENCES
            )
            explanations = (why for allowed, why in reasons if difference["most"] <= allowed)
            difference["why"] = next(explanations, UNEXPLAINED_REASON)
        return {"compared": len(flat), "differ": differences}

    def _numbers(self, values):
        """Yield ((window, analyzer, part of the metric), number)."""
        if isinstance(values, list):
            values = {"": values}
        for window, metrics in values.items():
            if not isinstance(metrics, list):
                yield (window, "result", ""), metrics
                continue
            for (name, *arguments), parts in zip(self.case.analyzers, metrics, strict=True):
                for part, number in parts.items():
                    yield (window, f"{name}({', '.join(map(str, arguments))})", part), number


def _difference(first, second) -> float:
    """Return the relative difference of two numbers; infinity for other values that differ."""
    if first == second:
        return 0.0
    if not isinstance(first, int | float) or not isinstance(second, int | float):
        return inf
    return abs(first - second) / max(abs(first), abs(second))


def judgement(summary: dict) -> str:
    """Return a summary of the values of one side: equal, or the number of differences and the reasons."""
    differ = summary.get("values", {}).get("differ")
    if not differ:
        return "-" if differ is None else "equal"
    parts = [
        f"{name} {'?!' * (f['why'] == UNEXPLAINED_REASON)}".strip() for name, f in differ.items()
    ]
    return f"{sum(f['count'] for f in differ.values())} differ: {', '.join(parts)}"


def show(results: list[dict], our_names: list[str], console: Console) -> None:
    """Print the table, the differences and their reasons, and errors."""
    table = Table(
        title="Deequ / ours: medians in seconds (of wall time, of CPU time), and ratios (least to most)"
    )
    table.add_column("case")
    table.add_column("Deequ", justify="right")
    for name in our_names:
        for title in (name, "wall", "CPU"):
            table.add_column(title, justify="right")
    table.add_column("goal", justify="right")
    table.add_column("values")
    for result in results:
        row = [result["case"], _seconds(result.get("deequ"))]
        for name in our_names:
            summary = result.get(name)
            row.append(_seconds(summary))
            for kind in ("wall", "cpu"):
                ratio = (summary or {}).get(f"{kind} ratio")
                reached = ratio and ratio[0] >= (result["goal"] or 0)
                text = f"{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})" if ratio else "-"
                row.append(f"[green]{text}[/]" if reached else text)
        judgements = dict.fromkeys(judgement(result[name]) for name in our_names if name in result)
        goal = f"{result['goal']:g}" if result["goal"] else "-"
        table.add_row(*row, goal, "; ".join(judgements))
    console.print(table)
    for result in results:
        for name, error in result["errors"].items():
            console.print(f"[red]{result['case']}, {name}: {error}", highlight=False)
    differing = [
        f"{name}: {summary['why']}"
        + f" ({result['case']}: {summary['worst']})" * (summary["why"] == UNEXPLAINED_REASON)
        for result in results
        for worker in our_names
        for name, summary in result.get(worker, {}).get("values", {}).get("differ", {}).items()
    ]
    for line in dict.fromkeys(differing):
        console.print(line, highlight=False)


def _seconds(summary: dict | None) -> str:
    return f"{summary['wall']:.3g}, {summary['cpu']:.3g}" if summary else "-"


def machine() -> dict:
    """Return cores, memory and the model of the CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), None)
    memory = round(psutil.virtual_memory().total / 2**30, 1)
    return {"cores": psutil.cpu_count(), "memory GB": memory, "CPU": model or platform.processor()}


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=[c.name for c in CASES], metavar="NAME")
    parser.add_argument("--sparks", nargs="+", default=["3.5", "newest"])
    parser.add_argument("--engines", nargs="+", default=["auto"], choices=["auto", "spark"])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--folder", type=Path, default=Path("build/benchmark-deequ"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/deequ.json"))
    args = parser.parse_args()
    max_rounds = data.TABLES["spare5k"][0] - 3
    if args.rounds > max_rounds:
        parser.error(f"there are spare partitions for {max_rounds} rounds")
    folder = args.folder.absolute()
    tables = folder / f"scale-{args.scale:g}"
    tables.mkdir(parents=True, exist_ok=True)
    workers = [their_worker(folder / "workers")]
    our_workers = [
        our_worker(spark, folder / "workers", engine)
        for spark in args.sparks
        for engine in args.engines
    ]
    if args.before:
        before = our_worker(args.sparks[-1], folder / "workers", "spark", args.before.absolute())
        our_workers.insert(0, before)
    workers += our_workers
    console = Console(width=210)
    try:
        versions = {worker.name: worker.ask("hello") for worker in workers}
        for name, checkout in {"tidegauge": ROOT, "before": args.before}.items():
            if checkout:
                commit = ["git", "-C", checkout, "describe", "--always", "--dirty"]
                versions[name] = subprocess.check_output(commit, text=True).strip()
        our_workers[-1].ask("data", folder=str(tables), scale=args.scale)
        report = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": {
                "deequ": DEEQU_RELEASE,
                "processes": versions,
                "java": java_version(find_java() or "java"),
            },
            "settings": SPARK_SETTINGS,
            "scale": args.scale,
            "cases": [],
        }
        args.json.parent.mkdir(parents=True, exist_ok=True)
        for case in CASES:
            if args.cases and case.name not in args.cases:
                continue
            began = dt.datetime.now(dt.UTC)
            result = Contest(case, workers, tables).play(args.rounds)
            took = (dt.datetime.now(dt.UTC) - began).total_seconds()
            console.print(f"{case.name}: {took:.0f} s in all", highlight=False)
            report["cases"].append({**result, "seconds in all": round(took, 1)})
            args.json.write_text(json.dumps(report, indent=1))
    finally:
        for worker in workers:
            worker.close()
    show(report["cases"], [worker.name for worker in our_workers], console)
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
