"""The nightly `tidegauge run`: cold from a shell, over many folders of Parquet files with a small partition a day.

Each step is a new process: a run with nothing new, and a run with one new partition in each folder. A step's seconds
and CPU seconds (of the process and the children that it waits for, not of a database server) are medians of the
rounds. One more process for each step counts imported modules and SQL statements, and CPU seconds by phase.
A phase excludes the imports and the phases within it.

    python -m benchmarks.daily [--folders 40] [--days 30] [--rows 2000] [--databases sqlite postgresql]
        [--engine auto] [--rounds 3] [--checkout DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import builtins
import datetime as dt
import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

FIRST_DAY = dt.date(2026, 1, 1)
ANALYZERS = """\
  - Size()
  - Completeness('amount')
  - Completeness('status')
  - Mean('amount')
  - Minimum('amount')
  - Maximum('amount')
  - StandardDeviation('amount')
  - Mean('price')
  - StandardDeviation('price')
  - ApproxCountDistinct('city')
  - Distinctness('status')
  - MaxLength('city')
  - Compliance('positive', 'amount > 0')
  - ApproxQuantile('amount', 0.5)
"""
PHASES = {
    "tidegauge.files.suite_files:load_suites": "suite files",
    "tidegauge.repository.repository:Repository.__init__": "opening the repository",
    "tidegauge.analyzers.sources.path_source:PathSource.__post_init__": "listing folders",
    "tidegauge.analyzers.sources.path_source:PathSource.list_partitions": "listing folders",
    "tidegauge.analyzers.sources.path_source:PathSource.parquet_files": "listing folders",
    "tidegauge.analyzers.runs.runner:run_incremental": "lease, run and ledger",
    "tidegauge.analyzers.columnar.planner:ColumnarPlanner.plan": "footers and columns",
    "tidegauge.analyzers.columnar.planner:ColumnarPlanner.scan": "footers and columns",
    "tidegauge.analyzers.runs.recording:Recording.commit": "commits",
    "tidegauge.repository.repository:Repository.roll_up": "roll-ups",
    "tidegauge.files.runs:_detect_anomalies": "detection",
}
"""The phase of each function; a function that a checkout lacks is left out."""
RUN = "import sys; from tidegauge.cli.main import main; main()"
PROFILED_RUN = f"import runpy; runpy.run_path({__file__!r})['profiled_run']()"
COUNTS_VARIABLE = "TIDEGAUGE_BENCHMARK_COUNTS"


class Phases:
    """CPU seconds and SQL statements by phase; the innermost phase counts."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self.waiting = dict(PHASES)
        self._stack = ["other"]
        self._since = time.process_time()

    @contextmanager
    def phase(self, name):
        """Count the block as a phase."""
        self._switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    def _switch(self):
        now = time.process_time()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def count_statement(self, *_):
        """Count a SQL statement."""
        self.statements[self._stack[-1]] += 1

    def importing(self, function):
        """Return a function that imports modules as a phase, and then wraps those of the other phases."""

        @functools.wraps(function)
        def wrapped(*args, **options):
            with self.phase("imports"):
                module = function(*args, **options)
            for target in [t for t in self.waiting if _is_imported(t.partition(":")[0])]:
                self._wrap(target)
            return module

        return wrapped

    def _wrap(self, target):
        module_name, _, path = target.partition(":")
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, sys.modules[module_name])
        original = vars(owner)[name]
        phase = self.waiting.pop(target)

        @functools.wraps(original)
        def wrapped(*args, **options):
            with self.phase(phase):
                return original(*args, **options)

        setattr(owner, name, wrapped)

    def finish(self, file):
        """Write the counts as JSON."""
        self._switch()
        counts = {
            "modules": len(sys.modules),
            "packages": sorted(
                {"numpy", "pandas", "pyarrow", "pyspark", "scipy"} & sys.modules.keys()
            ),
            "seconds": dict(self.seconds),
            "statements": dict(self.statements),
        }
        Path(file).write_text(json.dumps(counts))


def _is_imported(name):
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def profiled_run():
    """Run the command line, and write its counts to the file in the environment."""
    phases = Phases()
    builtins.__import__ = phases.importing(builtins.__import__)
    importlib.import_module = phases.importing(importlib.import_module)
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(Engine, "before_cursor_execute", phases.count_statement)
    from tidegauge.cli.main import main

    try:
        main()
    finally:
        phases.finish(os.environ[COUNTS_VARIABLE])


class Lake:
    """Folders of daily partitions, and a suite file for each."""

    def __init__(self, folder: Path, folders: int, rows: int) -> None:
        self.folder, self.folders, self.rows = folder, folders, rows
        self.day_count = 0
        self.suites = folder / "suites"
        self.suites.mkdir()
        for name in self._names():
            text = f"dataset: {name}\ntable: {folder}/lake/{name}\npartition_by: [ds]\nanalyzers:\n"
            (self.suites / f"{name}.yml").write_text(text + ANALYZERS)

    def _names(self):
        return [f"t{i:02}" for i in range(self.folders)]

    def add_day(self):
        """Write one partition of each folder."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        random = np.random.default_rng(self.day_count)
        day = FIRST_DAY + dt.timedelta(self.day_count)
        cities = np.array([f"city {i}" for i in range(50)])
        for name in self._names():
            data = pa.table(
                {
                    "id": np.arange(self.rows),
                    "amount": random.gamma(2, 10, self.rows),
                    "price": random.normal(50, 5, self.rows),
                    "status": random.choice(np.array(["new", "paid", "sent"]), self.rows),
                    "city": random.choice(cities, self.rows),
                }
            )
            folder = self.folder / "lake" / name / f"ds={day}"
            folder.mkdir(parents=True)
            pq.write_table(data, folder / "part-0.parquet")
        self.day_count += 1


class Runs:
    """Runs of one checkout in new processes, on one database."""

    def __init__(self, lake: Lake, url: str, engine: str, checkout: Path) -> None:
        self.lake, self.url, self.engine, self.checkout = lake, url, engine, checkout

    def run(self, code=RUN, scanned=None, **variables):
        """Run the command; return its seconds and CPU seconds, after checking the scanned partitions."""
        command = [sys.executable, "-c", code, "run", str(self.lake.suites), "--db", self.url]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {
            "PYTHONPATH": str(self.checkout),
            "TIDEGAUGE_ENGINE": self.engine,
            **variables,
        }
        output = self.lake.folder / "output"
        with output.open("w") as stream:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.lake.folder,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        text = output.read_text()
        assert process.returncode == 0, text
        if scanned is not None:
            assert text.count(f": {scanned} partition") == self.lake.folders, text
        return seconds, usage.ru_utime + usage.ru_stime

    def counts(self, scanned):
        """Run the command and return its modules, and its statements and CPU seconds by phase."""
        file = self.lake.folder / "counts.json"
        self.run(PROFILED_RUN, scanned, **{COUNTS_VARIABLE: str(file)})
        return json.loads(file.read_text())


@contextmanager
def database_url(kind: str, folder: Path):
    """Yield the URL of a new database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/repository.db"
        return
    from tests.services.servers import postgres

    with postgres() as server:
        assert server is not None, "PostgreSQL is not installed"
        os.environ["TIDEGAUGE_ARTIFACTS"] = str(folder / "artifacts")
        yield server.database()


def measure(kind: str, args) -> dict[str, dict]:
    """Return the results of each step on one database."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name, ExitStack() as stack:
        lake = Lake(Path(name), args.folders, args.rows)
        url = stack.enter_context(database_url(kind, lake.folder))
        runs = Runs(lake, url, args.engine, args.checkout.resolve())
        for _ in range(args.days):
            lake.add_day()
        runs.run(scanned=args.days)
        for step, scanned in {"nothing new": 0, "one new partition": 1}.items():
            times = []
            for _ in range(args.rounds):
                if scanned:
                    lake.add_day()
                times.append(runs.run(scanned=scanned))
            if scanned:
                lake.add_day()
            wall, cpu = map(statistics.median, zip(*times, strict=True))
            results[step] = {"wall": wall, "cpu": cpu, "times": times, **runs.counts(scanned)}
    return results


def show(console, kind, results, args):
    """Print a table of the steps, and the phases of each."""
    from rich.table import Table

    table = Table(title=f"{args.folders} folders, {kind}, engine {args.engine}")
    for column in ("phase", *(f"{step}: {unit}" for step in results for unit in ("CPU s", "SQL"))):
        table.add_column(column, justify="left" if column == "phase" else "right", no_wrap=True)
    names = dict.fromkeys(name for result in results.values() for name in result["seconds"])
    for name in names:
        cells = []
        for result in results.values():
            cells.append(f"{result['seconds'].get(name, 0):.2f}")
            cells.append(str(result["statements"].get(name, 0)))
        table.add_row(name, *cells)
    console.print(table)
    for step, result in results.items():
        console.print(
            f"{step}: {result['wall']:.2f} s, {result['cpu']:.2f} s of CPU, {result['modules']} modules"
            f" ({', '.join(result['packages'])}), {sum(result['statements'].values())} SQL statements"
        )


def main() -> None:
    """Print the tables and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folders", type=int, default=40)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--engine", choices=["auto", "spark"], default="auto")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    from rich.console import Console

    console, results = Console(width=130), {}
    for kind in args.databases:
        results[kind] = measure(kind, args)
        show(console, kind, results[kind], args)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
