"""A server of MongoDB's wire protocol for tests, and its client package, both fetched once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from tests.services import maven
from tests.services.environments import environment
from tests.services.java import GATEWAY, java

PROJECT = maven.pom("de.bwaldvogel:mongo-java-server:1.47.0", GATEWAY)


def fetch() -> str | None:
    """Fetch the jars unless they exist; return the reason for a failure, or None."""
    return maven.fetch(PROJECT)


def packages() -> Path:
    """Return the folder of pymongo; install it unless it exists."""
    (actual,) = environment("mongo").parents[1].glob("lib/python*/site-packages")
    return actual


@contextlib.contextmanager
def mongo():
    """Start a server that stores documents in memory; yield its port, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-mongo-"))
    try:
        with java(PROJECT, folder, "-Xmx256m") as (_, classes):
            package = classes.de.bwaldvogel.mongo
            database = package.MongoServer(package.backend.memory.MemoryBackend())
            yield database.bind().getPort()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
