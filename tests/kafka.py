"""A Kafka broker of our own, and the jars by which Spark reads from it; fetched once, by Maven."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tidegauge.spark.java import ensure_java

from tests.servers import Server, free_port

POM = Path(__file__).parent / "data" / "kafka" / "pom.xml"
JARS = (
    Path(__file__).parents[1] / "build" / "jars" / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
)
FOR_SPARK = ("commons-pool2-", "kafka-clients-", "spark-")

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def submit_arguments() -> str:
    """Return PYSPARK_SUBMIT_ARGS for Kafka and Avro: Connect takes jars in no other way.

    Before the jars are fetched, sessions begin without them.
    """
    jars = [str(jar) for jar in JARS.glob("*.jar") if jar.name.startswith(FOR_SPARK)]
    if "TIDEGAUGE_MATRIX" in os.environ:
        jars = []  # they suit the Spark of development, not those before it
    return f"--jars {','.join(sorted(jars))} pyspark-shell" if jars else "pyspark-shell"


def fetch() -> str | None:
    """Fetch the jars if they are not there; return why it cannot be, or None."""
    if JARS.exists():
        return None
    maven = shutil.which("mvn")
    if maven is None:
        return "Maven is not installed"
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS.parent) as folder:
        shutil.copy(POM, folder)
        done = subprocess.run(
            [
                maven,
                "-q",
                "-B",
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                "-DoutputDirectory=jars",
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"Maven fetched nothing: {done.stdout[-2000:]}"
        with contextlib.suppress(OSError):  # another run was faster
            (Path(folder) / "jars").rename(JARS)
    return None


class Kafka:
    """A broker of one machine on free ports; topics are made when they are first written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = free_port(), free_port()
        self.settings = folder / "server.properties"
        self.settings.write_text(
            SETTINGS.format(port=self.port, controller=controller, folder=folder)
        )
        identity = self._run("random-uuid").strip()
        self._run("format", "-t", identity, "-c", str(self.settings))
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @staticmethod
    def _command(*arguments: str) -> list[str]:
        return [
            ensure_java(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{JARS}/*",
            *arguments,
        ]

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command("kafka.tools.StorageTool", *arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *, within: float = 60.0) -> None:
        self.server = Server(
            self._command("kafka.Kafka", str(self.settings)), self.folder, dict(os.environ)
        )
        deadline = time.monotonic() + within
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self.server.process.poll() is None, f"it ended: {self.server.said}"
            assert time.monotonic() < deadline, f"it does not answer: {self.server.said}"
            time.sleep(0.05)

    def stop(self) -> None:
        self.server.end()

    def send(self, frame, topic: str) -> None:
        """Write a frame with a column ``value``, and perhaps ``key`` and ``partition``."""
        options = {"kafka.bootstrap.servers": self.address, "topic": topic}
        frame.write.format("kafka").options(**options).save()


@contextlib.contextmanager
def kafka():
    """Start a broker, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-kafka-"))
    broker = Kafka(folder)
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
