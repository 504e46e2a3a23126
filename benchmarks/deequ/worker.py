"""Worker of our side: one JSON request per input line, one marked JSON answer per output line.

    python -m benchmarks.deequ.worker FOLDER SETTINGS auto|spark

It does the same as ``Driver.scala`` on Deequ's side: a case is prepared once; ``before`` prepares
each round, and only ``run`` is timed.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import shutil
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

import pyspark

import tidegauge as tg
from benchmarks.deequ import data
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Entity, Failure, Metric, Success, flatten
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec
from tidegauge.analyzers.runs.recording import recording

DAILY_RUNS = 60
"""The last partitions of a history, which are measured one by one, as Deequ measures all of them.

Otherwise its code is compiled when the rounds begin, and ours is not.
"""


def numbers(metrics):
    """Return the numbers of a metric by the part of the name after the metric's own name."""
    parts = {name.partition(".")[2]: value for name, value in metrics}
    counts = {part: value for part, value in parts.items() if part.startswith("count.")}
    return counts or parts  # the edges of a KLL sketch follow from the extremes


def numbers_of(metric):
    """Return a metric's numbers, or its error."""
    if metric.failed:
        return {"error": str(metric.outcome.error)}
    return numbers((part.name, part.value) for part in flatten(metric))


class Job:
    """A case, and the location of its data."""

    def __init__(self, spark, request, engine):
        self.spark, self.request, self.engine = spark, request, engine
        case = request["case"]
        calls = case["ours"] or case["analyzers"]
        self.analyzers = [getattr(tg, name)(*arguments) for name, *arguments in calls]

    def before(self, request):
        """Prepare a round."""


class Calculate(Job):
    """Metrics of a folder."""

    def run(self):
        """Read and measure it."""
        path = self.request["path"]
        if self.engine == "spark":
            self.metrics = tg.calculate(self.spark.read.parquet(path), self.analyzers)
        else:
            self.metrics = tg.calculate(path, self.analyzers, spark=self.spark)

    def values(self):
        """Return the metrics."""
        return [numbers_of(metric) for metric in self.metrics]


class Analyze(Job):
    """Partitions of a Hive table or a folder, measured into a new repository or after a history."""

    def __init__(self, spark, request, engine):
        super().__init__(spark, request, engine)
        self.name = request["case"]["name"].replace("-", "_")
        self.root = Path(request["folder"]) / "table"
        self.is_folder = request["case"]["folder"]
        self.table = str(self.root) if self.is_folder else f"benchmark.{self.name}"
        if not self.is_folder:
            self.create_table(request["schema"])
        self.suite = tg.Suite(self.name, self.analyzers, partition_by=["ds"])
        self.url = f"sqlite:///{request['folder']}/metrics.db"
        self.history = request.get("history")
        self.add(self.history or request["partitions"])
        if self.history:
            first = len(self.history) - DAILY_RUNS
            days = [f"ds={ds}" for ds, _ in self.history]
            self.analyze(days[:first])
            for day in days[first:]:
                self.analyze([day])

    def create_table(self, file):
        """Create the Hive table, with the columns of a file."""
        self.spark.sql("CREATE DATABASE IF NOT EXISTS benchmark")
        fields = ", ".join(
            f"{field.name} {field.dataType.simpleString()}"
            for field in self.spark.read.parquet(file).schema
        )
        self.spark.sql(
            f"CREATE TABLE {self.table} ({fields}, ds STRING) USING parquet"
            f" PARTITIONED BY (ds) LOCATION '{self.root}'"
        )

    def add(self, partitions):
        """Add partitions; their files are linked into the table's folder, as is usual."""
        for ds, path in partitions:
            (self.root / f"ds={ds}").mkdir(parents=True)
            for file in Path(path).glob("*.parquet"):
                (self.root / f"ds={ds}" / file.name).hardlink_to(file)
        if not self.is_folder:
            clauses = " ".join(f"PARTITION (ds='{ds}')" for ds, _ in partitions)
            self.spark.sql(f"ALTER TABLE {self.table} ADD {clauses}")

    def before(self, request):
        """Add the round's partition after the history, or start with an empty repository."""
        self.days = [ds for ds, _ in request["partitions"]]
        self.chosen = "new"
        if self.history:
            self.add(request["partitions"])
        else:
            self.url = f"sqlite:///{request['folder']}/metrics.db"
            tg.Repository(self.url).close()
            if len(self.days) < len(self.request["partitions"]):
                self.chosen = [f"ds={ds}" for ds in self.days]

    def analyze(self, partitions):
        """Open the repository and measure partitions."""
        with tg.Repository(self.url) as repo:
            return tg.analyze(
                self.table,
                self.suite,
                repository=repo,
                partitions=partitions,
                spark=self.spark,
                engine=self.engine,
            )

    def run(self):
        """Measure the new partitions."""
        run = self.analyze(self.chosen)
        assert len(run.changes) == len(self.days), run

    def values(self):
        """Return the metrics of the round's partitions by day."""
        with tg.Repository(self.url) as repo:
            frame = repo.metrics(self.name)
        metrics_by_day = {}
        for partition, text, name, value in frame[
            ["partition", "analyzer", "name", "value"]
        ].itertuples(index=False):
            day = partition.partition("=")[2]
            metrics_by_day.setdefault(day, {}).setdefault(text, []).append((name, value))
        return {
            ds: [numbers(metrics_by_day[ds][repr(a)]) for a in self.analyzers] for ds in self.days
        }


class Merge(Analyze):
    """Stored states of all partitions, merged analyzer by analyzer."""

    def before(self, request):
        """Do nothing: the history is the only input."""

    def run(self):
        """Open the repository and merge."""
        with tg.Repository(self.url) as repo:
            self.metrics = [repo.merge(self.name, analyzer) for analyzer in self.analyzers]

    def values(self):
        """Return the merged metrics."""
        return [numbers_of(metric) for metric in self.metrics]


class Append(Job):
    """Record one more result."""

    def __init__(self, spark, request, engine):
        super().__init__(spark, request, engine)
        self.url = f"sqlite:///{request['folder']}/metrics.db"
        self.held = tg.Repository(self.url)
        self.count = request["case"]["results"]
        self.record(self.held, range(self.count))

    def repository(self):
        """Return a context with the repository: the open one, or a newly opened one."""
        return nullcontext(self.held) if self.request["case"]["held"] else tg.Repository(self.url)

    def record(self, repo, days):
        """Record results with the calls that runs use."""
        size = len(self.analyzers)
        no_state = Failure(MetricRuntimeError("the benchmark keeps no state"))
        batch = []
        for number in days:
            day = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number)
            measurements = []
            for i, analyzer in enumerate(self.analyzers):
                value = Success(i / size)
                metric = Metric(Entity.COLUMN, analyzer.column, "Completeness", value)
                measurements.append(Measurement(analyzer, no_state, metric))
            name = Partition(("ds",), (f"{day:%Y-%m-%d}",))
            batch.append(MeasuredPartition(name, day, "f", day, "[]", 1000, tuple(measurements)))
        with recording(repo.store, RunSpec("results", "table", ("ds",))) as run:
            run.commit(batch)

    def run(self):
        """Record one result."""
        with self.repository() as repo:
            self.record(repo, [self.count])
        self.count += 1

    def values(self):
        """Return the number of results."""
        return {"results": len(self.held.partitions("results"))}


class Read(Append):
    """Read one series."""

    def run(self):
        """Read the series as pairs of time and value."""
        analyzer = self.analyzers[len(self.analyzers) // 2]
        with self.repository() as repo:
            frame = repo.metrics("results", analyzer=analyzer)
        self.series = list(zip(frame["time"], frame["value"], strict=True))

    def values(self):
        """Return the same summary as Deequ's side."""
        last = max(moment for moment, _ in self.series)
        total = sum(value for _, value in self.series)
        return {"results": len(self.series), "last": int(last.timestamp() * 1000), "sum": total}


JOBS = {"calculate": Calculate, "analyze": Analyze, "merge": Merge, "append": Append, "read": Read}


def main():
    """Answer requests until the input ends."""
    folder, settings, engine = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    # Answers go to the original standard output; all other output goes to the log.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    shutil.rmtree(folder, ignore_errors=True)
    spark = tg.spark_session(folder, settings=settings)
    job = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        try:
            match request["stage"]:
                case "hello":
                    answer = {"spark": pyspark.__version__, "python": sys.version.split()[0]}
                case "data":
                    data.make(spark, Path(request["folder"]), request["scale"])
                case "prepare":
                    job = JOBS[request["case"]["op"]](spark, request, engine)
                case "before":
                    job.before(request)
                    gc.collect()
                    spark._jvm.System.gc()  # noqa: SLF001
                case "run":
                    started = time.perf_counter()
                    job.run()
                    answer = {"seconds": time.perf_counter() - started}
                case "values":
                    answer = {"values": job.values()}
        except Exception as error:  # noqa: BLE001 - the error is the answer
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print("@@" + json.dumps(answer), file=out, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
