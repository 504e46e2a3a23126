"""Deequ and ours, side by side: scans, backfills, daily runs, merged states, repositories.

    python -m benchmarks.deequ [--rounds 5] [--cases NAME ...] [--sparks 3.5 newest] [--scale 1.0]
        [--before CHECKOUT] [--folder DIR] [--json FILE]

Deequ's newest release runs on its own Spark, ours on that one and on the newest, each in one
process that lives as long as the benchmark: ``local[2]``, 4 GB of heap, the same Java, 8 shuffle
partitions, adaptive execution as Spark has it by default, no user interface. They take turns; the
order is reversed each round. The first rounds warm up: three, or one where that is long. Wall time
is taken in the worker around the case itself; CPU time is that of the worker's whole process tree.
What counts is the ratio of each round, and its median. With a checkout of an earlier commit, that one takes
part, too, on the last of the Sparks.

Deequ gets its best reasonable usage: the schema of a partition is known, so no job reads it; each
partition has a state provider of its own, and a backfill one repository, which then parses its file
once. Ours reads the same files as Hive tables, which are made outside of the timing, as new
repositories are. The last sixty partitions of a history are measured by runs of their own. A daily run opens its repository, which counts on both sides: it is a new job. The
metrics of both sides are compared, those of the last round.
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
from benchmarks.deequ.cases import CASES, KNOWN, Case
from benchmarks.deequ.workers import DEEQU, SETTINGS, WorkerError, our_worker, their_worker
from tests.paths import ROOT
from tidegauge.spark.session import find_java, java_version

LONG_SECONDS = 10.0
"""A case that takes longer warms up once, others three times."""
LEAST = {"wall": 0.0, "cpu": 0.1}
"""Seconds from which a ratio says something: CPU time is counted in hundredths."""
TOLERANCE = 1e-9
UNEXPLAINED = "unexplained"


class Contest:
    """One case, played by all workers in turns.

    Parameters
    ----------
    case : Case
    workers : list of Worker
        Deequ first.
    folder : Path
        Holds the tables; what rounds write goes into a folder below, which is emptied.
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
        """Prepare, warm up, play, and return what came of it."""
        case = self.case
        kept = hashlib.sha256(json.dumps([DEEQU, case.analyzers]).encode()).hexdigest()[:12]
        about = {"schema": str(self._any_file()), "path": str(self.folder / case.table)}
        if case.history:
            about["history"] = self.listed[: case.history]
        for worker in self.workers[:]:
            folder = self._new_folder(worker.name)
            about["kept"] = str(self.folder / f"history-{kept}")
            self._try(
                worker, "prepare", case=asdict(case), partitions=self.listed, folder=folder, **about
            )
        slowest = 0.0
        for turn in range(1 if case.warmup else 3):
            if slowest < LONG_SECONDS:
                timed = self._round(turn, warming=True)
                slowest = max([found["wall"] for found in timed.values()], default=0.0)
        for turn in range(3, 3 + min(rounds, case.rounds or rounds)):
            self.played.append(self._round(turn))
        for worker in self.workers[:]:
            found = self._try(worker, "values")
            if found:
                self.values[worker.name] = found["values"]
        shutil.rmtree(self.runs, ignore_errors=True)
        return self._result()

    def _round(self, turn: int, *, warming: bool = False) -> dict[str, dict[str, float]]:
        """Let each worker run once; return the wall and CPU seconds of those that could."""
        timed = {}
        some = self.spares[turn : turn + 1] or self.listed
        if warming and self.case.warmup:
            some = some[: self.case.warmup]
        for worker in self.workers[:: 1 if turn % 2 else -1]:
            folder = self._new_folder(f"{worker.name}-{turn}")
            if self._try(worker, "before", partitions=some, folder=folder) is None:
                continue
            load, used = os.getloadavg()[0], worker.cpu()
            found = self._try(worker, "run")
            if found:
                cpu = worker.cpu() - used
                timed[worker.name] = {"wall": found["seconds"], "cpu": cpu, "load": load}
        return timed

    def _try(self, worker, stage: str, **request) -> dict | None:
        """Ask a worker; one that fails is out of the contest."""
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
        for name in {name: None for found in self.played for name in found}:
            about = result[name] = {}
            for kind, least in LEAST.items():
                timed = [found for found in self.played if name in found]
                about[kind] = statistics.median(found[name][kind] for found in timed)
                both = [(f["deequ"][kind], f[name][kind]) for f in timed if "deequ" in f]
                ratios = [one / other for one, other in both if min(one, other) > least]
                if name != "deequ" and ratios:
                    about[f"{kind} ratio"] = [statistics.median(ratios), min(ratios), max(ratios)]
            if name != "deequ" and {"deequ", name} <= self.values.keys():
                about["values"] = self._differences(self.values["deequ"], self.values[name])
        return result

    def _differences(self, theirs, ours) -> dict:
        """Return how many numbers were compared, and those that differ, by the analyzer's name."""
        flat = {}
        for side, values in (("theirs", theirs), ("ours", ours)):
            for key, value in self._numbers(values):
                flat.setdefault(key, {})[side] = value
        found: dict[str, dict] = {}
        for (window, name, part), pair in flat.items():
            off = _difference(pair.get("theirs"), pair.get("ours"))
            if off <= TOLERANCE:
                continue
            kind = name.partition("(")[0]
            about = found.setdefault(kind, {"why": None, "count": 0, "most": 0.0, "worst": None})
            about["count"] += 1
            if off > about["most"]:
                about |= {"most": off, "worst": [f"{window} {name} {part}".strip(), pair]}
        sketches = [name for name, *_ in self.case.ours or ()]
        for kind, about in found.items():
            reasons = (KNOWN[name] for name in (kind, *sketches) if name in KNOWN)
            known = (why for allowed, why in reasons if about["most"] <= allowed)
            about["why"] = next(known, UNEXPLAINED)
        return {"compared": len(flat), "differ": found}

    def _numbers(self, values):
        """Yield ((window, analyzer, part of the metric), number)."""
        if isinstance(values, list):
            values = {"": values}
        for window, found in values.items():
            if not isinstance(found, list):
                yield (window, "result", ""), found
                continue
            for (name, *arguments), parts in zip(self.case.analyzers, found, strict=True):
                for part, number in parts.items():
                    yield (window, f"{name}({', '.join(map(str, arguments))})", part), number


def _difference(one, other) -> float:
    """Return the relative difference of two numbers; infinity if they are none and differ."""
    if one == other:
        return 0.0
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return inf
    return abs(one - other) / max(abs(one), abs(other))


def judgement(about: dict) -> str:
    """Return what is said of the values of one side: equal, or how many differ and why."""
    differ = about.get("values", {}).get("differ")
    if not differ:
        return "-" if differ is None else "equal"
    told = [f"{name} {'?!' * (f['why'] == UNEXPLAINED)}".strip() for name, f in differ.items()]
    return f"{sum(f['count'] for f in differ.values())} differ: {', '.join(told)}"


def show(results: list[dict], ours: list[str], console: Console) -> None:
    """Print the table, what differs and why, and errors."""
    table = Table(title="Deequ / ours: medians in seconds, and ratios (least to most)")
    table.add_column("case")
    table.add_column("Deequ", justify="right")
    for name in ours:
        for title in (name, "wall", "CPU"):
            table.add_column(title, justify="right")
    table.add_column("goal", justify="right")
    table.add_column("values")
    for result in results:
        row = [result["case"], _seconds(result.get("deequ"))]
        for name in ours:
            about = result.get(name)
            row.append(_seconds(about))
            for kind in ("wall", "cpu"):
                ratio = (about or {}).get(f"{kind} ratio")
                reached = kind == "wall" and ratio and ratio[0] >= (result["goal"] or 0)
                text = f"{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})" if ratio else "-"
                row.append(f"[green]{text}[/]" if reached else text)
        told = dict.fromkeys(judgement(result[name]) for name in ours if name in result)
        goal = f"{result['goal']:g}" if result["goal"] else "-"
        table.add_row(*row, goal, "; ".join(told))
    console.print(table)
    for result in results:
        for name, error in result["errors"].items():
            console.print(f"[red]{result['case']}, {name}: {error}", highlight=False)
    differing = [
        f"{name}: {about['why']}"
        + f" ({result['case']}: {about['worst']})" * (about["why"] == UNEXPLAINED)
        for result in results
        for worker in ours
        for name, about in result.get(worker, {}).get("values", {}).get("differ", {}).items()
    ]
    for line in dict.fromkeys(differing):
        console.print(line, highlight=False)


def _seconds(about: dict | None) -> str:
    return f"{about['wall']:.3g}" if about else "-"


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
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--folder", type=Path, default=Path("build/benchmark-deequ"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/deequ.json"))
    asked = parser.parse_args()
    most = data.TABLES["spare5k"][0] - 3
    if asked.rounds > most:
        parser.error(f"there are spare partitions for {most} rounds")
    folder = asked.folder.absolute()
    tables = folder / f"scale-{asked.scale:g}"
    tables.mkdir(parents=True, exist_ok=True)
    workers = [their_worker(folder / "workers")]
    ours = [our_worker(spark, folder / "workers") for spark in asked.sparks]
    if asked.before:
        ours.insert(0, our_worker(asked.sparks[-1], folder / "workers", asked.before.absolute()))
    workers += ours
    console = Console(width=210)
    try:
        versions = {worker.name: worker.ask("hello") for worker in workers}
        for name, checkout in {"tidegauge": ROOT, "before": asked.before}.items():
            if checkout:
                commit = ["git", "-C", checkout, "describe", "--always", "--dirty"]
                versions[name] = subprocess.check_output(commit, text=True).strip()
        ours[-1].ask("data", folder=str(tables), scale=asked.scale)
        report = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": {
                "deequ": DEEQU,
                "processes": versions,
                "java": java_version(find_java() or "java"),
            },
            "settings": SETTINGS,
            "scale": asked.scale,
            "cases": [],
        }
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        for case in CASES:
            if asked.cases and case.name not in asked.cases:
                continue
            began = dt.datetime.now(dt.UTC)
            found = Contest(case, workers, tables).play(asked.rounds)
            took = (dt.datetime.now(dt.UTC) - began).total_seconds()
            console.print(f"{case.name}: {took:.0f} s in all", highlight=False)
            report["cases"].append({**found, "seconds in all": round(took, 1)})
            asked.json.write_text(json.dumps(report, indent=1))
    finally:
        for worker in workers:
            worker.close()
    show(report["cases"], [worker.name for worker in ours], console)
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
