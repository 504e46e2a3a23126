"""Servers in Java for tests, controlled by py4j."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.services import maven
from tests.services.servers import Server, free_port
from tidegauge.spark.session import ensure_java

GATEWAY = "net.sf.py4j:py4j:0.10.9.9!"
"""The package that a project of `java` must have."""


@contextlib.contextmanager
def java(project: str, folder: Path, *options: str) -> Iterator[tuple[Server, Any]]:
    """Start Java with the jars of a Maven project; yield the process and its py4j gateway."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    port = free_port()
    jars = f"{maven.folder_of(project)}/*"
    command = [ensure_java(), *options, "-cp", jars, "py4j.GatewayServer", str(port)]
    server = Server(command, folder, dict(os.environ))
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        deadline = time.monotonic() + 120
        while not _listens(port):
            assert server.process.poll() is None, server.output
            assert time.monotonic() < deadline, server.output
            time.sleep(0.1)
        yield server, gateway.jvm
    finally:
        gateway.close()
        server.end()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
