"""Commands that are killed at a random moment: the repository is intact, and the next try completes them."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import tidegauge as tg
from tests.conftest import KINDS, soak
from tests.paths import DATA
from tests.support import features
from tests.support.integrity import check
from tests.support.kept import put_kept
from tests.support.kills import random_moments
from tidegauge.repository.maintenance.backups import back_up
from tidegauge.repository.testing import commit, day

MODULES = [
    "tidegauge.cli.main",
    "tidegauge.repository.repository",
    "tidegauge.repository.testing",
    "tidegauge.repository.maintenance.backups",
    "pandas",
    "pyarrow.parquet",
]
COMMANDS = {
    "detect": ["detect", "d"],
    "forget": ["db", "forget", "--value", "a"],
    "clean": ["db", "clean", "--versions", "0d", "--states", "0d", "--runs", "0d"],
    "backup": ["db", "backup"],
    "restore": ["db", "restore", "kept.db"],
    "export": ["export", "csv", "d", "--output", "out.csv"],
    "export parquet": ["export", "parquet", "d", "--output", "out.parquet"],
    "export prometheus": ["export", "prometheus", "--output", "out.prom"],
    "export openlineage": ["export", "openlineage", "d", "--output", "out.json"],
    "report": ["report", "d", "--html", "out.html"],
    "label": ["anomalies", "label", "1", "bad", "--note", "an outage"],
    "import": ["import", "deequ", str(DATA / "deequ.json"), "--dataset", "orders"],
    "consistency export": ["consistency", "export", "out.jsonl"],
}
WRITING = ["detect", "forget", "clean", "label", "import"]
"""Commands that write into the database. The others write files next to it."""
BEFORE = {"label": ["detect", "d"]}
"""Commands that have to run before a command can be tried."""
MIGRATIONS = {
    "upgrade": ("0005", ["db", "upgrade"]),
    "downgrade": ("0008", ["db", "downgrade", "0005"]),
}
"""Kept revisions, and the commands that start from them."""


@dataclass(frozen=True)
class Place:
    """A repository and the folder that its commands run in."""

    url: str
    folder: Path

    @property
    def artifacts(self):
        return self.folder / "r.db.artifacts"

    def open(self):
        return tg.Repository(self.url, artifacts=self.artifacts)


def run(command, url, folder):
    """Run a command in a folder, in a process of its own."""
    from tidegauge.cli.main import run_command

    os.chdir(folder)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.environ["TIDEGAUGE_ARTIFACTS"] = "r.db.artifacts"
    os._exit(run_command([*command, "--db", url]))


@pytest.fixture(scope="module")
def processes():
    """Return a context that forks processes from a server with all modules imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    return context


@pytest.fixture(scope="module")
def new_place(request, tmp_path_factory):
    """Return a function that creates a repository by the kind of its database, empty or as a copy."""

    def create(kind, source=None):
        folder = tmp_path_factory.mktemp("place")
        if source is not None:
            shutil.copytree(source.folder, folder, dirs_exist_ok=True)
        if kind == "sqlite":
            return Place(f"sqlite:///{folder / 'r.db'}", folder)
        server = request.getfixturevalue("postgres")
        if source is None:
            return Place(server.repository(), folder)
        return Place(server.database(source.url.rpartition("/")[2]), folder)

    return create


@pytest.fixture(scope="module")
def filled(new_place):
    """Create the repository that all commands start from, once for each kind of database."""
    places = {}

    def fill(kind):
        place = new_place(kind)
        with place.open() as repository:
            for fingerprint in ("a", "b"):
                days = range(1, 41)
                if fingerprint == "b" and kind == "sqlite":
                    kept = place.folder / "kept.db"
                    back_up(repository.database, repository.artifacts, kept)
                commit(
                    repository,
                    *(day(n, fingerprint, rows=1000 if n < 40 else 300) for n in days),
                )
            features.record(repository)
        return place

    def given(kind):
        if kind not in places:
            places[kind] = fill(kind)
        return places[kind]

    return given


def repository_content(place):
    """Return the content of a repository without ids, times and tokens."""
    with place.open() as repository:
        assert check(repository.database, repository.artifacts) == []
        metrics = repository.metrics("d")
        numbers = metrics[["partition", "value", "weight", "status", "version"]]
        anomalies = repository.anomalies("d")[["partition", "name", "value", "severity"]]
        histogram = repository.merge("d", tg.Histogram("s"), allow_missing=True).value
        counts = sorted(value.absolute for value in histogram.values.values())
        labels = set(repository.labels("d")["label"])  # a label that was saved twice counts as one
        imported = ""
        if "orders" in repository.datasets():
            imported = repository.metrics("orders")[["partition", "name", "value"]].to_csv()
        frames = numbers.to_csv(), anomalies.to_csv(), imported
        return *frames, counts, labels, "a" in histogram.values


def assert_outputs_are_complete(folder, whole):
    """Check that each output that exists is as good as the output of an undisturbed command."""
    for name in ("out.csv", "out.parquet", "out.prom", "out.json", "out.jsonl"):
        if (folder / name).exists():
            assert (folder / name).read_bytes() == (whole / name).read_bytes()
    if (page := folder / "out.html").exists():
        assert page.read_text().endswith("</html>\n")
    for backup in folder.glob("r.*.backup.db"):
        with tg.Repository(f"sqlite:///{backup}", read_only=True) as repository:
            assert check(repository.database, repository.artifacts) == []
            assert len(repository.partitions("d")) == 40


def starter(processes, command):
    def start(place):
        # OpenLineage names runs by the address of the database.
        url = place.url.replace(f"{place.folder}/", "")
        process = processes.Process(target=run, args=(command, url, str(place.folder)))
        process.start()
        return process

    return start


def wait_for(process):
    process.join(120)
    assert process.exitcode == 0


def kill_after(process, moment):
    process.join(moment)
    if process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("sqlite", name) for name in COMMANDS),
        *(pytest.param("postgresql", name, marks=pytest.mark.postgres) for name in WRITING),
    ],
)
def test_a_command_killed_at_any_moment_is_completed_by_the_next(
    kind, name, filled, new_place, processes
):
    start = starter(processes, COMMANDS[name])
    first = filled(kind)
    if name in BEFORE:
        first = new_place(kind, first)
        wait_for(starter(processes, BEFORE[name])(first))
    whole = new_place(kind, first)
    began = time.monotonic()
    wait_for(start(whole))
    took = time.monotonic() - began
    expected = repository_content(whole)
    draw, seed = random_moments()
    for _ in range(soak(2, 25)):
        place = new_place(kind, first)
        kill_after(start(place), draw.uniform(0, took))
        with place.open() as repository:
            assert check(repository.database, repository.artifacts) == [], f"seed {seed}"
        assert_outputs_are_complete(place.folder, whole.folder)
        wait_for(start(place))
        assert repository_content(place) == expected, f"seed {seed}"
    print(f"seed {seed}: {name} takes {took:.2f} s on {kind}")


def dump(url):
    """Return the revision of a database and all of its rows."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            ((revision,),) = connection.execute("SELECT version_num FROM tidegauge_revision")
            return revision, sorted(connection.iterdump())
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        columns = connection.execute(_COLUMNS).fetchall()
        tables = {table: connection.execute(f'SELECT * FROM "{table}"') for table, *_ in columns}
        rows = {table: sorted(map(str, actual.fetchall())) for table, actual in tables.items()}
        revision = rows["tidegauge_revision"][0].strip("(',)")
        return revision, [*map(str, columns), *rows.items()]


_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_migration_killed_at_any_moment_has_happened_or_not(
    name, kind, processes, request, tmp_path
):
    """The same holds for the backup of the database, which is made before."""
    kept, command = MIGRATIONS[name]
    start = starter(processes, command)

    def create(name):
        folder = tmp_path / name
        folder.mkdir()
        url = f"sqlite:///{folder / 'r.db'}"
        if kind == "postgresql":
            url = request.getfixturevalue("postgres").database()
        place = Place(url, folder)
        put_kept(kept, url, place.artifacts)
        return place

    before = dump(create("before").url)
    whole = create("whole")
    began = time.monotonic()
    wait_for(start(whole))
    took = time.monotonic() - began
    after = dump(whole.url)
    assert after[0] != before[0] == kept
    draw, seed = random_moments()
    left = []
    for number in range(soak(3, 25)):
        place = create(f"killed{number}")
        kill_after(start(place), draw.uniform(0, took))
        actual = dump(place.url)
        assert actual in (before, after), f"seed {seed}"
        left.append(actual[0])
        for backup in place.folder.glob("r.*.backup.db"):
            assert dump(f"sqlite:///{backup}")[1] == before[1], f"seed {seed}"
        wait_for(start(place))
        assert dump(place.url) == after, f"seed {seed}"
    print(f"seed {seed}: {name} takes {took:.2f} s on {kind}; revisions left by each kill: {left}")
