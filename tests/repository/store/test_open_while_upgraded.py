"""Databases of older releases: open writers, dry runs and checks do not change them unasked."""

import contextlib
import os
import re

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.kept import put_kept
from tidegauge.cli.main import run_command
from tidegauge.repository.store.database import Database
from tidegauge.repository.testing import commit, day


def take_down(url, revision="0006"):
    with contextlib.closing(Database.unchecked(url)) as database:
        database.migrate(revision)


def revision(url):
    with contextlib.closing(Database.unchecked(url)) as database:
        return database.revision()


def test_an_open_writer_notices_a_migration(empty_url, tmp_path):
    with tg.Repository(empty_url, artifacts=tmp_path) as repo:
        commit(repo, day(1))
        take_down(empty_url)  # stands for a newer release that upgrades it
        with pytest.raises(
            tg.DatabaseVersionError, match="from revision 0008 to 0006 while it was"
        ):
            commit(repo, day(2))
        with pytest.raises(tg.DatabaseVersionError, match="open it again"):
            repo.record("d", "rows", {"ds=2013-01-01": 1.0})
    with contextlib.closing(Database.unchecked(empty_url)) as database:
        assert database.row_counts()["partition_version"] == 1


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def empty_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'r.db'}"
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def older(tmp_path):
    """A SQLite file of the previous release, with one day; its URL."""
    url = f"sqlite:///{tmp_path}/old.db"
    with tg.Repository(url) as repo:
        commit(repo, day(1))
    take_down(url)
    return url


@pytest.mark.parametrize(
    "command",
    [
        ["db", "clean"],
        ["db", "forget", "--value", "a"],
        ["dataset", "drop", "d"],
        ["dataset", "rename", "d", "e"],
    ],
)
def test_a_dry_run_only_reads(older, tmp_path, capsys, command):
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run_command([*command, "--dry-run", "--db", older]) == 1
    assert "run: tidegauge db upgrade" in capsys.readouterr().err
    assert revision(older) == "0006"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert run_command([*command, "--dry-run", "--db", f"sqlite:///{tmp_path}/new.db"]) == 1
    assert "no database at" in capsys.readouterr().err
    assert not (tmp_path / "new.db").exists()


def test_an_upgrade_by_a_write_names_the_backup(older, tmp_path, caplog):
    with tg.Repository(older):
        pass
    (backup,) = tmp_path.glob("old.*.backup.db")
    assert (
        f"old.db was upgraded from revision 0006 to 0008; the old one is kept in {backup}"
        in caplog.text
    )


def test_a_check_reads_an_upgraded_copy(older, tmp_path, capsys):
    assert run_command(["db", "check", "--db", older]) == 0
    said = capsys.readouterr().out
    assert "is at revision 0006; an upgraded copy is checked" in said
    assert "no problems found" in said
    assert revision(older) == "0006"
    with (
        contextlib.closing(Database.unchecked(older)) as database,
        database.engine.begin() as connection,
    ):
        connection.exec_driver_sql("UPDATE state SET checksum = 'x'")
    assert run_command(["db", "check", "--db", older]) == 1


@pytest.mark.parametrize("name", ["0005", pytest.param("0006", marks=pytest.mark.soak)])
def test_a_check_of_older_databases_changes_nothing(name, bare_url, tmp_path, capsys):
    put_kept(name, bare_url, tmp_path / "artifacts")
    command = ["db", "check", "--db", bare_url, "--artifacts", str(tmp_path / "artifacts")]
    before = everything(bare_url)
    assert run_command(command) == 0
    said = capsys.readouterr().out
    assert f"is at revision {name}; an upgraded copy is checked" in said
    assert said.rstrip().endswith("no problems found")
    assert everything(bare_url) == before

    with (
        contextlib.closing(Database.unchecked(bare_url)) as database,
        database.engine.connect().execution_options(tidegauge_write=True) as connection,
        connection.begin(),
    ):
        connection.exec_driver_sql("UPDATE state SET checksum = 'x'")
    assert run_command(command) == 1
    assert "checksum differs" in capsys.readouterr().out


def everything(url):
    """Return the definitions and the rows of all tables, of any schema."""
    with (
        contextlib.closing(Database.unchecked(url)) as database,
        database.engine.connect() as connection,
    ):
        inspector = sa.inspect(connection)
        return {
            (schema, name): (
                str(inspector.get_columns(name, schema)),
                sorted(index["name"] for index in inspector.get_indexes(name, schema)),
                sorted(
                    map(repr, connection.execute(sa.text(f'SELECT * FROM "{schema}"."{name}"')))
                ),
            )
            for schema in inspector.get_schema_names()
            if schema != "information_schema"
            for name in inspector.get_table_names(schema)
        }


@pytest.mark.postgres
def test_a_check_of_an_older_database_without_rights_explains_the_fix(postgres, tmp_path, capsys):
    url = postgres.database()
    put_kept("0006", url, tmp_path / "artifacts")
    role, name = "checks_without_create", url.rpartition("/")[2]
    with postgres._connect(name) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    url = url.replace("tester@", f"{role}@")
    command = ["db", "check", "--db", url, "--artifacts", str(tmp_path / "artifacts")]
    assert run_command(command) == 1
    problem = capsys.readouterr().err
    assert "its role may not create a schema. GRANT CREATE ON DATABASE" in problem
    with postgres._connect(name) as connection:
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO {role}")
        # Foreign tables and views next to ours are unchanged.
        connection.execute("CREATE TABLE theirs (x int)")
        connection.execute("CREATE VIEW v_theirs AS SELECT x FROM theirs")
    assert run_command(command) == 0  # SELECT and CREATE are enough


def test_a_cleanup_reports_the_free_space_and_vacuums_on_request(tmp_path, capsys):
    url, file = f"sqlite:///{tmp_path}/r.db", tmp_path / "r.db"
    groups = {(f"value {n}",): 1 for n in range(3000)}
    with tg.Repository(url) as repo:
        for version in range(12):
            commit(repo, day(1, str(version), rows=3000 + version, groups=groups))
    clean = ["db", "clean", "--versions", "0d", "--db", url]
    size = os.path.getsize(file)
    assert run_command(clean) == 0
    assert "kB of the file are free and used again" in capsys.readouterr().out
    assert os.path.getsize(file) >= size * 0.9
    assert run_command([*clean, "--vacuum", "--dry-run"]) == 0
    before = capsys.readouterr().out
    assert run_command([*clean, "--vacuum"]) == 0
    after = capsys.readouterr().out
    assert "; the file is " in after
    assert os.path.getsize(file) < 0.6 * size
    assert before.replace("would be at least", "is").replace("would remove", "removed") == after
    for more in ([], ["--dry-run"]):
        assert run_command([*clean, "--vacuum", *more]) == 0
        assert "no page of the file is free, so vacuuming does not" in capsys.readouterr().out


def test_a_dry_run_reports_the_space_that_would_be_free(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/r.db"
    groups = {(f"value {n}",): 1 for n in range(3000)}
    with tg.Repository(url) as repo:
        for version in range(12):
            commit(repo, day(1, str(version), rows=3000 + version, groups=groups))
    clean = ["db", "clean", "--versions", "0d", "--db", url]
    assert run_command([*clean, "--dry-run"]) == 0
    free = re.search(r"; (.+ kB) of the file would be free and used", capsys.readouterr().out)[1]
    assert run_command([*clean, "--vacuum", "--dry-run"]) == 0
    assert f"; the file would be at least {free} smaller" in capsys.readouterr().out
    size = os.path.getsize(tmp_path / "r.db")
    assert run_command([*clean, "--vacuum"]) == 0
    kilobytes = (size - os.path.getsize(tmp_path / "r.db")) / 1000
    assert kilobytes >= 0.9 * float(free.removesuffix(" kB").replace(",", ""))


@pytest.mark.postgres
def test_vacuuming_postgresql_is_reported_as_unnecessary(postgres, tmp_path, capsys):
    url = postgres.database()
    with tg.Repository(url, artifacts=tmp_path):
        pass
    for more in ([], ["--dry-run"]):
        clean = ["db", "clean", "--vacuum", "--db", url, "--artifacts", str(tmp_path), *more]
        assert run_command(clean) == 0
        assert "--vacuum has no effect: PostgreSQL vacuums automatically" in capsys.readouterr().out


@pytest.mark.parametrize(
    "stem", ["r", "r.2026", "a long name of a file, longer than that of a copy"]
)
def test_files_of_a_killed_upgrade_are_reported_and_removed_later(
    tmp_path, capsys, stem, monkeypatch
):
    file = tmp_path / f"{stem}.db"
    url = f"sqlite:///{file}"
    with tg.Repository(url) as repo:
        commit(repo, day(1))
    take_down(url)
    copy, left = Database.copy, []

    def killed(self, target):
        copy(self, target)
        left.append(tmp_path / target.name)
        os.link(target, tmp_path / "kept")  # stands for a kill; otherwise the file would be removed
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(Database, "copy", killed)
        assert run_command(["db", "upgrade", "--db", url]) == 1
    (tmp_path / "kept").rename(left[0])
    other = tmp_path / f".{stem}.html-0123456789abcdef"  # an output with the same name
    other.write_text("")
    capsys.readouterr()
    message = f"{left[0]} is an unfinished file of a backup or upgrade; delete it unless one is run"
    for command in ("check", "upgrade"):
        assert run_command(["db", command, "--db", url]) == 0
        out = capsys.readouterr().out
        assert message in out
        assert str(other) not in out
    os.utime(left[0], (0, 0))
    take_down(url)
    assert run_command(["db", "upgrade", "--db", url]) == 0
    assert not left[0].exists()
    assert other.exists()
