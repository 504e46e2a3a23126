"""A server of MongoDB's wire protocol, for tests, and the package that speaks to it; fetched once."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

from tidegauge.spark.java import ensure_java

from tests import maven
from tests.environments import environment
from tests.servers import Server, free_port

PROJECT = maven.pom("de.bwaldvogel:mongo-java-server:1.47.0", "net.sf.py4j:py4j:0.10.9.9!")


def fetch() -> str | None:
    """Fetch the jars if they are not there; return why it cannot be, or None."""
    return maven.fetch(PROJECT)


def packages() -> Path:
    """Return the folder of pymongo; make it if it is not there."""
    (found,) = environment("mongo").parents[1].glob("lib/python*/site-packages")
    return found


@contextlib.contextmanager
def mongo():
    """Start a server that keeps documents in memory; yield its port, and stop it."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    folder = Path(tempfile.mkdtemp(prefix="tidegauge-mongo-"))
    port = free_port()
    command = [
        ensure_java(),
        "-Xmx256m",
        "-cp",
        f"{maven.folder_of(PROJECT)}/*",
        "py4j.GatewayServer",
    ]
    server = Server([*command, str(port)], folder, dict(os.environ))
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert server.process.poll() is None, server.said
            assert time.monotonic() < deadline, server.said
            time.sleep(0.1)
        package = gateway.jvm.de.bwaldvogel.mongo
        database = package.MongoServer(package.backend.memory.MemoryBackend())
        yield database.bind().getPort()
    finally:
        gateway.close()
        server.end()
        shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
