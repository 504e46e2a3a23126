"""Worker processes of both sides, their Spark settings, and the CPU time of their process trees."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.paths import ROOT
from tests.services import maven
from tests.services.environments import environment
from tidegauge.spark.session import find_java

DEEQU = "2.1.0-spark-3.5"
THEIR_SPARK = "3.5"
MARK = "@@"
MEMORY = "4g"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
"""Spark settings of both sides; most are those of `tidegauge.spark_session` anyway."""

OPENED = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util"
    " java.util.concurrent java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs"
    " sun.security.action sun.util.calendar"
)
"""Packages that Spark's own launcher opens on Java 17."""


class WorkerError(Exception):
    """A worker ended, or could not do what it was asked."""


class Worker:
    """A long-lived process that answers requests.

    Parameters
    ----------
    name : str
    command : list of str
    folder : Path
        Where it runs and keeps its log.
    before : Path, optional
        A checkout whose packages come first.
    """

    def __init__(
        self, name: str, command: list[str], folder: Path, before: Path | None = None
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        folder.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(map(str, filter(None, (before, ROOT))))
        pythonpath = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **pythonpath, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
        )

    def ask(self, stage: str, **request) -> dict:
        """Send a request and return its answer."""
        try:
            self.process.stdin.write(json.dumps({"stage": stage, **request}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerError(f"{self.name} has ended; see {self.log}") from error
        for line in self.process.stdout:
            if line.startswith(MARK):
                answer = json.loads(line.removeprefix(MARK))
                if "error" in answer:
                    raise WorkerError(answer["error"])
                return answer
        raise WorkerError(f"{self.name} has ended; see {self.log}")

    def cpu(self) -> float:
        """Return the CPU seconds of the process and its children, ended ones included."""
        own = psutil.Process(self.process.pid)
        total = 0.0
        for process in (own, *own.children(recursive=True)):
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
        return total

    def close(self) -> None:
        """Let it end: its input is closed."""
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def our_worker(spark: str, folder: Path, before: Path | None = None) -> Worker:
    """Start our worker on a Spark of the matrix, or on the ``newest``, that of this Python.

    Of a checkout of ``before`` it runs the packages; the worker itself is that of now.
    """
    name = f"{'before' if before else 'ours'}-{spark}"
    python = sys.executable if spark == "newest" else environment(f"spark-{spark}")
    settings = json.dumps({**SETTINGS, "spark.driver.memory": MEMORY})
    command = [
        str(python),
        "-m",
        "benchmarks.deequ.worker",
        str(folder / name),
        settings,
    ]
    return Worker(name, command, folder, before)


def their_worker(folder: Path) -> Worker:
    """Compile the driver if it changed, and start it."""
    spark = environment(f"spark-{THEIR_SPARK}").parents[1]
    (jars,) = spark.glob("lib/python*/site-packages/pyspark/jars")
    # Alone: all that it needs to run, Breeze and Gson, comes with Spark.
    (deequ,) = maven.jars_of(f"com.amazon.deequ:deequ:{DEEQU}!")
    java = find_java() or "java"
    source = Path(__file__).with_name("Driver.scala")
    mark = hashlib.sha256(f"{DEEQU} {source.read_text()}".encode()).hexdigest()[:12]
    classes = folder / f"driver-{mark}"
    path = f"{deequ}:{jars}/*"
    if not (classes / "Driver.class").exists():
        classes.mkdir(parents=True, exist_ok=True)
        compiler = [java, "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
        subprocess.run([*compiler, "-d", classes, source], check=True)
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED.split()]
    told = {**SETTINGS, "spark.sql.warehouse.dir": folder / "warehouse"}
    told["log4j2.configurationFile"] = ROOT / "tidegauge" / "spark" / "log4j2.properties"
    options = [f"-Xmx{MEMORY}", *opened, *(f"-D{key}={value}" for key, value in told.items())]
    return Worker("deequ", [java, *options, "-cp", f"{classes}:{path}", "Driver"], folder)
