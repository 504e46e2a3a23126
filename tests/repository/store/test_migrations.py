"""Databases of all revisions: the tables, upgrades and downgrades with data, kept databases."""

import contextlib
import gzip
import json
import math
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tests.support.kept import KEPT, put_kept
from tidegauge import migrations
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.maintenance.backups import back_up, restore
from tidegauge.repository.store import database
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import (
    Database,
    all_revisions,
    head_revision,
)
from tidegauge.repository.store.engines import VERSION_TABLE
from tidegauge.repository.testing import commit, day, spec

RELEASED = sorted(file.name.removesuffix(".db.gz") for file in KEPT.glob("*.db.gz"))


def test_every_revision_is_kept():
    assert set(RELEASED) == set(all_revisions())


def test_the_tables_are_those_that_migrations_create(url):
    """`alembic check` would report no differences."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with contextlib.closing(Database(url)) as database, database.read() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "version_table": VERSION_TABLE,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, s.metadata) == []
        for table in s.metadata.sorted_tables:  # including names, which a downgrade uses
            inspector = sa.inspect(connection)
            named = {c.name for c in table.constraints if c.name and "pk_" not in str(c.name)}
            actual = {
                entry["name"]
                for read in ("get_unique_constraints", "get_foreign_keys", "get_check_constraints")
                for entry in getattr(inspector, read)(table.name)
            }
            assert {str(name) for name in named} == actual, table.name


@pytest.fixture
def url(bare_url):
    """A database without tables: the migrations or the restored backup create them."""
    return bare_url


def kept(name, url, tmp_path):
    """Replace an empty database by a kept one; return the arguments of its repository."""
    put_kept(name, url, tmp_path / "artifacts")
    return {"url": url, "artifacts": tmp_path / "artifacts"}


def opened(name, url, tmp_path):
    """Open a kept database. One of PostgreSQL is upgraded first, as its owner does."""
    options = kept(name, url, tmp_path)
    if not url.startswith("sqlite"):
        with contextlib.closing(Database.unchecked(url)) as older:
            older.upgrade()
    return tg.Repository(**options)


def said(name):
    return json.loads(gzip.decompress((KEPT / "expected.json.gz").read_bytes()))[name]


def assert_same_rows(found, columns, rows):
    """Compare a frame with kept rows in any order; numbers may differ in the last digits."""
    left = [tuple(map(plain, row)) for row in found[columns].itertuples(index=False)]
    right = [tuple(map(plain, row)) for row in rows]
    assert len(left) == len(right)
    for a, b in zip(sorted(left, key=repr), sorted(right, key=repr), strict=True):
        assert a == b


def plain(value):
    if value is None or value is pd.NaT or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bool | str | dict):
        return value
    return float(f"{float(value):.12g}")


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.soak) for name in RELEASED[:-1]), RELEASED[-1]]
)
def test_a_kept_database_opens_with_its_whole_content(name, url, tmp_path):
    expected = said(name)
    columns = expected["columns"]
    with opened(name, url, tmp_path) as repo:
        assert repo.database.revision() == head_revision()
        assert check(repo.database, repo.artifacts) == []
        assert_same_rows(repo.runs(), columns["runs"], expected["runs"])
        for dataset, answers in expected["datasets"].items():
            rows = answers["metric_rows"]
            metrics = columns["metrics"]
            assert_same_rows(repo.metrics(dataset), metrics, [rows[i] for i in answers["metrics"]])
            for run, places in answers["metrics_as_of"].items():
                past = repo.metrics(dataset, as_of=int(run))
                assert_same_rows(past, metrics, [rows[i] for i in places])
            ledger = repo.partitions(dataset)
            ledger["gone"] = ledger["gone_at"].notna()
            assert_same_rows(ledger, columns["partitions"], answers["partitions"])
            assert_same_rows(repo.anomalies(dataset), columns["anomalies"], answers["anomalies"])
            assert_same_rows(repo.scores(dataset), columns["scores"], answers["scores"])
            for merged in answers["merged"]:
                if "error" in merged:
                    with pytest.raises(getattr(tg, merged["error"])):
                        repo.merge(dataset, merged["analyzer"], **merged["options"])
                else:
                    metric = repo.merge(dataset, merged["analyzer"], **merged["options"])
                    assert plain(metric.value) == plain(merged["value"])
            chosen = sorted(
                ({"columns": list(x.columns), "kept": [list(v) for v in x.kept],
                  "generation": x.generation} for x in repo.store.segment_sets(dataset).values()),
                key=lambda x: x["columns"],
            )  # fmt: skip
            assert chosen == sorted(answers.get("segment_sets", []), key=lambda x: x["columns"])
        for state, values in expected["states"].items():
            for text, value in values.items():
                analyzer = tg.Size() if text == "Size()" else tg.CountDistinct("k")
                loaded = analyzer.load_state_and_compute_metric(repo.states(state))
                assert loaded.value == value
        newest = repo.latest("d", name="Size", where="", segment="")
        assert newest["partition"].tolist() == ["ds=2013-01-20"]
        run = repo.store.open_run(spec("d"))  # and it can be written
        repo.store.commit_batch(run, [day(21), day(20, "changed", rows=3)])
        assert check(repo.database, repo.artifacts) == []


def test_a_downgrade_of_the_first_revision_removes_all_tables(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        run = repo.store.open_run(spec())
        repo.store.commit_batch(run, [day(n) for n in (1, 2, 3)])
        repo.store.close_run(run, RunStatus.COMPLETE, {})
        repo.database.migrate("base")
        with repo.database.read() as connection:
            inspector = sa.inspect(connection)
            assert inspector.get_view_names() == []
            assert set(inspector.get_table_names()) <= {VERSION_TABLE}


@pytest.mark.parametrize("revision", ["0001", "0004"])
def test_a_database_of_a_development_version_is_refused_with_instructions(revision, tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repo:
        repo.record("d", "x", 1.0)
    with contextlib.closing(sqlite3.connect(tmp_path / "r.db")) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
        connection.commit()
    with pytest.raises(
        tg.DatabaseVersionError, match="tidegauge db upgrade of the version that wrote it"
    ):
        tg.Repository(url)


@pytest.fixture
def next_revision(tmp_path, monkeypatch):
    """A revision after the newest, so that there is something to upgrade to."""
    folder = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, folder)
    (folder / "versions" / "9999_next.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision, down_revision = '9999', '{head_revision()}'\n"
        "branch_labels = depends_on = None\n"
        "def upgrade():\n    op.add_column('label', sa.Column('next', sa.Integer()))\n"
        "def downgrade():\n    op.drop_column('label', 'next')\n"
    )

    def use():
        monkeypatch.setattr(database, "MIGRATIONS_FOLDER", folder)

    return use


def test_an_older_sqlite_file_is_backed_up_before_it_is_upgraded(tmp_path, next_revision):
    url, older = f"sqlite:///{tmp_path / 'r.db'}", head_revision()
    with tg.Repository(url) as repo:
        repo.record("d", "x", 1.0)
    next_revision()
    with tg.Repository(url) as repo:
        assert repo.database.revision() == "9999"
        assert repo.metrics("d")["value"].tolist() == [1.0]
        repo.database.migrate(older)
        assert repo.database.revision() == older
    (backup,) = tmp_path.glob("*.backup.db")
    old = Database.unchecked(f"sqlite:///{backup}")
    assert old.revision() == older
    old.close()


@pytest.mark.postgres
def test_an_older_postgresql_database_is_refused_naming_the_command(
    postgres, tmp_path, next_revision
):
    url = postgres.database()
    tg.Repository(url, artifacts=tmp_path / "a").close()
    next_revision()
    with pytest.raises(tg.DatabaseVersionError, match="tidegauge db upgrade"):
        tg.Repository(url, artifacts=tmp_path / "a")
    with contextlib.closing(Database.unchecked(url)) as older:
        older.upgrade()
    tg.Repository(url, artifacts=tmp_path / "a").close()


def test_an_upgrade_that_fails_changes_nothing(url, tmp_path, monkeypatch, next_revision):
    from alembic import command

    older = head_revision()
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        repo.record("d", "x", 1.0)
    next_revision()
    real = command.upgrade

    def fail(config, revision):
        real(config, revision)
        raise RuntimeError("the power went")

    store = Database.unchecked(url)
    with monkeypatch.context() as patch:
        patch.setattr(command, "upgrade", fail)
        with pytest.raises(RuntimeError):
            store.migrate()
    assert store.revision() == older
    store.migrate()
    assert store.revision() == head_revision() == "9999"
    store.close()


@pytest.mark.soak
def test_a_backup_of_an_older_revision_is_restored(url, tmp_path, monkeypatch, next_revision):
    """The backup from before an upgrade is the important one."""
    monkeypatch.chdir(tmp_path)
    older = head_revision()
    with tg.Repository(url, artifacts=tmp_path / "a") as repository:
        commit(repository, day(1))
        old = back_up(repository.database, repository.artifacts, tmp_path / "old")
        next_revision()
        repository.database.migrate()
        commit(repository, day(2))
        repository.database.engine.dispose()
        restore(repository.database, repository.artifacts, old)
        assert repository.database.revision() == older
        repository.database.engine.dispose()
        repository.database.migrate()
        assert repository.partitions("d")["partition"].tolist() == ["ds=2013-01-01"]
        assert check(repository.database, repository.artifacts) == []


@pytest.mark.soak
def test_the_command_line_downgrades_and_upgrades_a_database(
    tmp_path, capsys, monkeypatch, next_revision
):
    from tidegauge.cli.main import run_command

    monkeypatch.chdir(tmp_path)
    db = ["--db", f"sqlite:///{tmp_path / 'r.db'}"]

    def said(*arguments):
        assert run_command(["db", *arguments, *db]) == 0
        return capsys.readouterr().out

    older = head_revision()
    next_revision()
    said("upgrade")
    assert f"downgraded from 9999 to {older}" in said("downgrade", older)
    assert f"{older} (newest: 9999)" in said("current")
    assert f"upgraded from {older} to 9999" in said("upgrade")
