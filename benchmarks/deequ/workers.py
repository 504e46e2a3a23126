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

DEEQU_RELEASE = "2.1.0-spark-3.5"
THEIR_SPARK = "3.5"
ANSWER_MARK = "@@"
DRIVER_MEMORY = "4g"
SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
"""Spark settings of both sides; `tidegauge.spark_session` sets most of them by default."""

OPENED_PACKAGES = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util"
    " java.util.concurrent java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs"
    " sun.security.action sun.util.calendar"
)
"""Packages that Spark's own launcher opens on Java 17."""


class WorkerError(Exception):
    """A worker ended, or a request failed."""


class Worker:
    """A long-lived process that answers requests.

    Parameters
    ----------
    name : str
    command : list of str
    folder : Path
        Working directory, which also contains its log.
    before : Path, optional
        A checkout whose packages take precedence.
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
            if line.startswith(ANSWER_MARK):
                answer = json.loads(line.removeprefix(ANSWER_MARK))
                if "error" in answer:
                    raise WorkerError(answer["error"])
                return answer
        raise WorkerError(f"{self.name} has ended; see {self.log}")

    def cpu(self) -> float:
        """Return the CPU seconds of the process and its children, including ended ones."""
        worker = psutil.Process(self.process.pid)
        total = 0.0
        for process in (worker, *worker.children(recursive=True)):
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
        return total

    def close(self) -> None:
        """Close its input, and wait until it ends."""
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def our_worker(
    spark: str, folder: Path, engine: str = "auto", before: Path | None = None
) -> Worker:
    """Start our worker on a Spark of the matrix, or on the ``newest``, which this Python has.

    With ``before`` it runs the packages of that checkout; the worker itself is the present one.
    """
    name = f"{'before' if before else 'ours'}-{spark}{'-sql' * (engine == 'spark')}"
    python = sys.executable if spark == "newest" else environment(f"spark-{spark}")
    settings = json.dumps({**SPARK_SETTINGS, "spark.driver.memory": DRIVER_MEMORY})
    command = [
        str(python),
        "-m",
        "benchmarks.deequ.worker",
        str(folder / name),
        settings,
        engine,
    ]
    return Worker(name, command, folder, before)


def their_worker(folder: Path) -> Worker:
    """Compile the driver if it changed, and start it."""
    spark = environment(f"spark-{THEIR_SPARK}").parents[1]
    (jars,) = spark.glob("lib/python*/site-packages/pyspark/jars")
    # Only this jar: Spark contains its dependencies, Breeze and Gson.
    (deequ,) = maven.jars_of(f"com.amazon.deequ:deequ:{DEEQU_RELEASE}!")
    java = find_java() or "java"
    source = Path(__file__).with_name("Driver.scala")
    mark = hashlib.sha256(f"{DEEQU_RELEASE} {source.read_text()}".encode()).hexdigest()[:12]
    classes = folder / f"driver-{mark}"
    path = f"{deequ}:{jars}/*"
    if not (classes / "Driver.class").exists():
        classes.mkdir(parents=True, exist_ok=True)
        compiler = [java, "-cp", path, "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
        subprocess.run([*compiler, "-d", classes, source], check=True)
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED_PACKAGES.split()]
    settings = {**SPARK_SETTINGS, "spark.sql.warehouse.dir": folder / "warehouse"}
    settings["log4j2.configurationFile"] = ROOT / "tidegauge" / "spark" / "log4j2.properties"
    options = [
        f"-Xmx{DRIVER_MEMORY}",
        *opened,
        *(f"-D{key}={value}" for key, value in settings.items()),
    ]
    return Worker("deequ", [java, *options, "-cp", f"{classes}:{path}", "Driver"], folder)
