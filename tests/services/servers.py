"""Real servers for tests. The tests start installed programs privately and stop them."""

import contextlib
import functools
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

import psutil

_COLUMNS = (
    "SELECT relname, relkind, attname, atttypid, attnotnull FROM pg_class JOIN pg_attribute ON attrelid = oid"
    " WHERE relnamespace = 'public'::regnamespace AND attnum > 0 AND relkind IN ('r', 'v')"
    " ORDER BY relname, attnum"
)
"""Query of the columns of all tables and views of a database."""


class Postgres:
    """A private PostgreSQL server on a free port."""

    def __init__(self, folder: Path) -> None:
        self.binaries = self._program_folder()
        self.folder = folder
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._names = 0
        self._free: list[str] = []

    @staticmethod
    def _program_folder() -> Path | None:
        installed = sorted(
            Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[4])
        )
        on_path = shutil.which("initdb")
        actual = Path(on_path).resolve() if on_path else (installed[-1] if installed else None)
        return actual.parent if actual else None

    def _run(self, command: str, *arguments: str) -> None:
        # The server refuses to run as root, so root starts it as the user that its package creates.
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
            "initdb", "-N", "-D", f"{self.folder}/data", "-A", "trust", "-U", "tester", "-E", "UTF8"
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

    def database(self, template: str = "template1") -> str:
        """Return the URL of a new database, empty or copied from another."""
        self._names += 1
        name = f"t{os.getpid()}_{self._names}"
        with self._connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return f"{self.url}/{name}"

    def repository(self) -> str:
        """Return the URL of an empty repository: a returned one, or a copy of a migrated database."""
        return self._free.pop() if self._free else self.database(self._migrated)

    def give_back(self, url: str) -> None:
        """Empty a repository for the next test; keep it out of use if its tables have changed.

        A copy has six hundred files; creating and removing them takes longer than most tests.
        """
        import psycopg

        with self._connect(url.rpartition("/")[2]) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            if connection.execute(_COLUMNS).fetchall() != self._columns:
                return
            # truncates the tables in any order
            connection.execute("SET session_replication_role = replica")
            for table, rows in self._rows.items():
                name = psycopg.sql.Identifier(table)
                connection.execute(psycopg.sql.SQL("DELETE FROM {}").format(name))
                for row in rows:
                    values = psycopg.sql.SQL(", ").join(row)
                    insert = psycopg.sql.SQL("INSERT INTO {} VALUES ({})").format(name, values)
                    connection.execute(insert)
            connection.execute("SELECT setval(seqrelid, 1, false) FROM pg_sequence")
        self._free.append(url)

    def _connect(self, database: str):
        import psycopg

        about = f"host=127.0.0.1 port={self.port} user=tester dbname={database}"
        return psycopg.connect(about, autocommit=True)

    @functools.cached_property
    def _migrated(self) -> str:
        from tidegauge.repository.store.database import Database

        url = self.database()
        Database(url).close()
        return url.rpartition("/")[2]

    @functools.cached_property
    def _columns(self) -> list[tuple]:
        with self._connect(self._migrated) as connection:
            return connection.execute(_COLUMNS).fetchall()

    @functools.cached_property
    def _rows(self) -> dict[str, list[tuple]]:
        """The rows that each table has after the migrations."""
        tables = dict.fromkeys(table for table, kind, *_ in self._columns if kind == "r")
        with self._connect(self._migrated) as connection:
            return {t: connection.execute(f"SELECT * FROM {t}").fetchall() for t in tables}


@contextlib.contextmanager
def postgres():
    """Start a server; yield it, or None if PostgreSQL is not installed."""
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


class S3:
    """A server of S3's interface, by moto, in a child process."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self.server = Server(command, folder, dict(os.environ))
        self.server.wait_for("Running on")

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for its clients."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """Create a bucket, and return its name."""
        name = f"t-{uuid.uuid4().hex}"
        url = f"{self.address}/{name}"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT")) as answer:
            assert answer.status == 200
        return name


def kill(process, *, within: float = 30.0) -> None:
    """Kill a process that we started, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + within
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def jupyter_environment(folder: Path, *paths: Path, **more: str) -> dict[str, str]:
    """Return an environment in which Jupyter uses only our configuration, kernels and extensions.

    Python imports from ``paths`` first.
    """
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "TIDEGAUGE"))
    }
    places = {
        "HOME": "home",
        "IPYTHONDIR": "ipython",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "XDG_CACHE_HOME": "cache",
        "XDG_CONFIG_HOME": "xdg",
    }
    for name, place in places.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        environment[name] = str(folder / place)
    actual = [*map(str, paths), str(Path(__file__).parents[2])]  # kernels run in other folders
    environment["PYTHONPATH"] = os.pathsep.join(actual)
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    return environment | more


def free_port() -> int:
    """Return a free port of this machine."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Server:
    """A server in a child process, and the kernels that it starts."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{folder.name}.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """The output so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, *, within: float = 60.0) -> re.Match[str]:
        """Wait until the output matches a pattern, and return the match."""
        deadline = time.monotonic() + within
        while (match := re.search(pattern, self.output)) is None:
            assert self.process.poll() is None, f"it ended: {self.output}"
            assert time.monotonic() < deadline, f"nothing like {pattern!r} in: {self.output}"
            time.sleep(0.05)
        return match

    def children(self) -> list[psutil.Process]:
        """The child processes of the server, which are its kernels."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def interrupt(self, *, within: float = 30.0) -> int:
        """Stop the server as Ctrl-C does, and return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(within)

    def end(self) -> None:
        """Kill the server and its child processes in any state."""
        started = self.children()
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            kill(self.process)
        # psutil distinguishes a process from a later one with the same number
        for child in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def tidegauge_command(*arguments: str) -> list[str]:
    """Return the command line that runs tidegauge with this Python."""
    return [sys.executable, "-c", "from tidegauge.cli.main import main; main()", *arguments]


@contextlib.contextmanager
def dashboard_server(folder: Path, url: str, *arguments: str, **environment: str):
    """Serve a repository's dashboard; yield the server and its address."""
    command = tidegauge_command("dashboard", "--no-browser", "--db", url, *arguments)
    server = Server(command, folder / "page", jupyter_environment(folder, **environment))
    try:
        yield server, server.wait_for(r"Dashboard at (http://\S+)")[1]
    finally:
        server.end()


@contextlib.contextmanager
def lab_server(folder: Path, **environment: str):
    """Start JupyterLab on a folder ``notebooks`` in ``folder``; yield the server and its address."""
    notebooks = folder / "notebooks"
    notebooks.mkdir(parents=True, exist_ok=True)
    (params := folder / "settings" / "@jupyterlab" / "apputils-extension").mkdir(parents=True)
    nothing = {"fetchNews": "false", "checkForUpdates": False}
    (params / "notification.jupyterlab-settings").write_text(json.dumps(nothing))
    port = free_port()
    settings = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "ServerApp.root_dir": str(notebooks),
        "IdentityProvider.token": "",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
    }
    options = [f"--{key}={value}" for key, value in settings.items()]
    server = Server(
        [sys.executable, "-m", "jupyterlab", *options],
        folder / "lab",
        jupyter_environment(
            folder, JUPYTERLAB_SETTINGS_DIR=str(folder / "settings"), **environment
        ),
    )
    try:
        server.wait_for(r"is running at:")
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.end()
