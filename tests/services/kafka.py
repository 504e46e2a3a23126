"""A Kafka broker for tests, and Spark's jars for Kafka and databases; Maven fetches them once."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.services import maven
from tests.services.servers import Server, free_port, kill
from tidegauge.spark.session import ensure_java

# A broker for one machine, and Spark's connector. Jars that Spark itself contains are left out.
PROJECT = maven.pom(
    "org.apache.kafka:kafka_2.13:4.1.0",
    "org.apache.kafka:kafka-clients:4.1.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0!",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0!",
    "org.apache.commons:commons-pool2:2.12.1",
    "org.apache.spark:spark-avro_2.13:4.1.1!",
    "org.postgresql:postgresql:42.7.7!",
    "com.mysql:mysql-connector-j:9.1.0!",
    "org.mariadb.jdbc:mariadb-java-client:3.5.1!",
)
JARS = maven.folder_of(PROJECT)
FOR_SPARK = ("commons-pool2-", "kafka-clients-", "mariadb-", "mysql-", "postgresql-", "spark-")

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
    """Return PYSPARK_SUBMIT_ARGS for Kafka and Avro. Connect accepts jars in no other way.

    Until the jars are fetched, sessions start without them.
    """
    jars = [str(jar) for jar in JARS.glob("*.jar") if jar.name.startswith(FOR_SPARK)]
    if "TIDEGAUGE_MATRIX" in os.environ:
        jars = []  # they fit the Spark of development, not older ones
    return f"--jars {','.join(sorted(jars))} pyspark-shell" if jars else "pyspark-shell"


def fetch() -> str | None:
    """Fetch the jars unless they exist; return the reason for a failure, or None."""
    return maven.fetch(PROJECT)


class Kafka:
    """A broker for one machine on free ports; the first write to a topic creates it."""

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
            assert self.server.process.poll() is None, f"it ended: {self.server.output}"
            assert time.monotonic() < deadline, f"it does not answer: {self.server.output}"
            time.sleep(0.05)

    def stop(self) -> None:
        # a normal stop would wait ten seconds for a log that nobody reads
        kill(self.server.process)

    def send(self, frame, topic: str) -> None:
        """Write a frame with a column ``value``, and optionally ``key`` and ``partition``."""
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
