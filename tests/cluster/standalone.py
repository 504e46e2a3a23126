"""A standalone Spark cluster: a master and two workers.

The Python of the workers has neither tidegauge nor datasketches nor fastavro.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

from tests.services.servers import Server, free_port

BARE = ("numpy", "pandas", "pyarrow", "python-dateutil", "pytz", "six", "tzdata")
"""Packages that Spark's Python workers need."""
SHIPPED = ("datasketches", "fastavro")
"""Packages that a job ships by ``spark.archives``."""
WORKERS = 2


class Cluster:
    """A running cluster.

    Attributes
    ----------
    url : str
        The address of the master.
    workers : list of Server
    settings : dict
        Settings with which a session uses the cluster's Python and ships `SHIPPED`.
    """

    def __init__(self, url: str, workers: list[Server], settings: dict[str, str]) -> None:
        self.url, self.workers, self.settings = url, workers, settings


def top_level(package: str) -> list[Path]:
    """Return the folders and modules that a distribution put into site-packages."""
    actual = distribution(package)
    names = {file.parts[0] for file in actual.files or () if not file.parts[0].startswith("..")}
    return sorted(
        Path(str(actual.locate_file(name))) for name in names if not name.endswith("__pycache__")
    )


def bare_python(folder: Path) -> Path:
    """Create an environment that only contains links to the packages that Spark's workers need."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in BARE:
        # some only exist in newer or older releases of pandas
        with contextlib.suppress(ModuleNotFoundError):
            for path in top_level(package):
                (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def archive(folder: Path) -> Path:
    """Pack the packages that a job ships."""
    file = folder / "packages.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for package in SHIPPED:
            for path in top_level(package):
                tar.add(path, arcname=path.name)
    return file


@contextlib.contextmanager
def cluster(folder: Path):
    """Start a cluster in a folder; yield it."""
    import pyspark

    from tidegauge.spark.session import ensure_java

    ensure_java()
    home = Path(pyspark.__file__).parent
    port, python = free_port(), bare_python(folder / "python")
    environment = {
        k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYSPARK_SUBMIT_ARGS"}
    }
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    run = [str(home / "bin" / "spark-class")]
    name = "org.apache.spark.deploy"
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    started = [
        Server(
            [*run, f"{name}.master.Master", *address, "--port", str(port)],
            folder / "master",
            environment,
        )
    ]
    url = f"spark://127.0.0.1:{port}"
    try:
        started[0].wait_for("I have been elected leader")
        for number in range(WORKERS):
            command = [*run, f"{name}.worker.Worker", *address, "--cores", "1", "--memory", "1g"]
            started.append(Server([*command, url], folder / f"worker{number}", environment))
        for worker in started[1:]:
            worker.wait_for("Successfully registered with master")
        packed = archive(folder)
        yield Cluster(
            url,
            started[1:],
            {
                "spark.pyspark.python": str(python),
                "spark.pyspark.driver.python": sys.executable,
                "spark.archives": f"{packed}#packages",
                "spark.executorEnv.PYTHONPATH": "./packages",
                "spark.executor.memory": "512m",
                "spark.cores.max": str(WORKERS),
            },
        )
    finally:
        for server in reversed(started):
            server.end()
        shutil.rmtree(folder, ignore_errors=True)
