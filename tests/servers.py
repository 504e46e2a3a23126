"""Real servers for tests, started from what is installed, private to the tests, and stopped by them."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


class Postgres:
    """A PostgreSQL server of our own on a free port."""

    def __init__(self, folder: Path) -> None:
        self.binaries = self._found()
        self.folder = folder
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._names = 0

    @staticmethod
    def _found() -> Path | None:
        installed = sorted(
            Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[4])
        )
        on_path = shutil.which("initdb")
        found = Path(on_path).resolve() if on_path else (installed[-1] if installed else None)
        return found.parent if found else None

    def _run(self, command: str, *arguments: str) -> None:
        # It refuses to run as root; where we are, it runs as the user that its package made.
        user = {"user": "postgres"} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [str(self.binaries / command), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            check=False,
            **user,
        )
        assert done.returncode == 0, done.stderr

    def make(self) -> None:
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._run(
            "initdb", "-D", f"{self.folder}/data", "-A", "trust", "-U", "tester", "-E", "UTF8"
        )
        self.start()

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -F"
        log = f"{self.folder}/log"
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", mode, "stop")

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://tester@127.0.0.1:{self.port}"

    def database(self) -> str:
        """Return the URL of a new, empty database."""
        import psycopg

        self._names += 1
        name = f"t{os.getpid()}_{self._names}"
        with psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=tester dbname=postgres", autocommit=True
        ) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{self.url}/{name}"


@contextlib.contextmanager
def postgres():
    """Start a server; yield it, or None where PostgreSQL is not installed."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-postgres-"))
    folder.chmod(0o755)
    server = Postgres(folder)
    if server.binaries is None:
        yield None
        return
    server.make()
    try:
        yield server
    finally:
        with contextlib.suppress(AssertionError):
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def kill(process, *, within: float = 30.0) -> None:
    """Kill a process that we started, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + within
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
