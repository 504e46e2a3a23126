"""A Cassandra server of one node, for tests, and its CQL client: jars that Maven fetches once."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.services import maven
from tests.services.environments import environment
from tests.services.servers import Server, free_port
from tidegauge.spark.session import ensure_java

PROJECT = maven.pom("org.apache.cassandra:cassandra-all:5.0.5")
CONNECTOR = maven.pom("com.datastax.spark:spark-cassandra-connector_2.13:3.5.1")
ACCOUNT = {"user": "tester", "password": "secret"}
FIRST = ("cassandra", "cassandra")
"""The superuser of every new server."""
ROLE = "CREATE ROLE tester WITH PASSWORD = 'secret' AND LOGIN = true AND SUPERUSER = true"
SETTINGS = """
cluster_name: tests
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
authenticator: PasswordAuthenticator
role_manager: CassandraRoleManager
commitlog_sync: periodic
commitlog_sync_period: 10000ms
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/saved
hints_directory: {folder}/hints
cdc_raw_directory: {folder}/cdc
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "127.0.0.1:{storage}"}}]
listen_address: 127.0.0.1
storage_port: {storage}
rpc_address: 127.0.0.1
native_transport_port: {port}
memtable_allocation_type: heap_buffers
"""
OPENED = {
    "java.base": (
        *("java.io", "java.lang", "java.lang.reflect", "java.nio", "java.util", "sun.nio.ch"),
        *("jdk.internal.loader", "jdk.internal.math", "jdk.internal.misc", "jdk.internal.ref"),
        *("jdk.internal.reflect", "jdk.internal.util.jar"),
    ),
    "java.rmi": (
        "sun.rmi.registry",
        "sun.rmi.server",
        "sun.rmi.transport",
        "sun.rmi.transport.tcp",
    ),
    "jdk.management": ("com.sun.management.internal",),
}
"""Packages of Java's modules that the server accesses."""
SHELL = """
import sys
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

port, user, password = sys.argv[1:]
with Cluster(["127.0.0.1"], port=int(port), auth_provider=PlainTextAuthProvider(user, password)) as cluster:
    session = cluster.connect()
    for statement in filter(str.strip, sys.stdin.read().split(";")):
        session.execute(statement)
"""


def fetch() -> str | None:
    """Fetch the jars unless they exist; return the reason for a failure, or None."""
    return maven.fetch(PROJECT) or maven.fetch(CONNECTOR)


def submit_arguments() -> str:
    """Return PYSPARK_SUBMIT_ARGS for a session that reads from Cassandra."""
    jars = sorted(map(str, maven.folder_of(CONNECTOR).glob("*.jar")))
    return f"--jars {','.join(jars)} pyspark-shell"


class Cassandra:
    """A server on free ports that requires a password."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        settings = folder / "cassandra.yaml"
        settings.write_text(SETTINGS.format(folder=folder, storage=free_port(), port=self.port))
        opened = [f"{m}/{name}=ALL-UNNAMED" for m, names in OPENED.items() for name in names]
        options = {
            "cassandra.config": settings.as_uri(),
            "cassandra.storagedir": folder,
            "cassandra-foreground": "yes",
            "cassandra.jmx.local.port": 0,
            "cassandra.ring_delay_ms": 0,
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.superuser_setup_delay_ms": 0,
            "jdk.attach.allowAttachSelf": "true",
        }
        command = [
            *(ensure_java(), "-Xmx768m", "-XX:TieredStopAtLevel=1"),
            *(word for place in opened for word in ("--add-opens", place, "--add-exports", place)),
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-cp", f"{maven.folder_of(PROJECT)}/*"),
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        self.server = Server(command, folder / "log", dict(os.environ))

    def fill(self, statements: str) -> None:
        """Wait until the server answers, and create some tables."""
        self.server.wait_for("Startup complete", within=180.0)
        self.execute(ROLE, within=30.0)  # the superuser is created a little later
        self.execute(statements)

    def execute(self, statements: str, *, within: float = 0.0) -> None:
        """Run CQL statements, with retries for some seconds."""
        deadline = time.monotonic() + within
        while True:
            done = subprocess.run(
                [environment("cassandra"), "-c", SHELL, str(self.port), *FIRST],
                input=statements,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.5)


@contextlib.contextmanager
def cassandra(statements: str):
    """Start a server with some tables, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-cassandra-"))
    server = Cassandra(folder)
    try:
        server.fill(statements)
        yield server
    finally:
        server.server.end()
        shutil.rmtree(folder, ignore_errors=True)
