"""PostgreSQL behind a connection pooler, and with the rights of a writer, a reader and a BI tool."""

import contextlib
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.services.servers import Server, free_port
from tidegauge.cli.main import run_command
from tidegauge.repository.maintenance import backups
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.engines import rights_advice
from tidegauge.repository.testing import commit, day

pytestmark = pytest.mark.postgres


@contextlib.contextmanager
def pgbouncer(postgres, folder, mode):
    """Start PgBouncer in front of a server, with its mode as the only setting; yield its URL."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    port = free_port()
    (folder / "users.txt").write_text('"tester" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={postgres.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {folder}/users.txt\n"
        f"pool_mode = {mode}\ndefault_pool_size = 4\nmax_client_conn = 100\n"
    )
    user = []
    if os.geteuid() == 0:  # it refuses to run as root
        for path in (folder, *folder.parents[:2]):
            path.chmod(0o755)
        user = ["-u", "postgres"]
    server = Server([program, *user, str(folder / "pgbouncer.ini")], folder, dict(os.environ))
    try:
        for _ in range(100):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(f"host=127.0.0.1 port={port} user=tester dbname=postgres").close()
                break
            time.sleep(0.1)
        yield f"postgresql+psycopg://tester@127.0.0.1:{port}"
    finally:
        server.end()


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_threads_work_behind_pgbouncer(postgres, tmp_path, mode):
    database = postgres.database().rpartition("/")[2]
    with pgbouncer(postgres, tmp_path, mode) as address:
        url = f"{address}/{database}"

        def work(number):
            with tg.Repository(url, artifacts=tmp_path / "a") as repo:
                dataset = f"d{number % 2}"
                values = {f"ds=2026-01-{number * 3 + n:02}": 1.0 + n for n in range(1, 4)}
                assert repo.record(dataset, "rows", values) == 3
                for _ in range(8):
                    assert len(repo.metrics(dataset)) >= 3
                return repo.detect(dataset).empty

        with tg.Repository(url, artifacts=tmp_path / "a"):
            pass
        with ThreadPoolExecutor(8) as pool:
            assert len(list(pool.map(work, range(8)))) == 8
        with tg.Repository(url, read_only=True) as repo:
            assert [len(repo.metrics(d)) for d in ("d0", "d1")] == [12, 12]
            with pytest.raises(tg.ReadOnlyError):
                repo.record("d0", "rows", {"ds=2026-02-01": 1.0})
            with (
                pytest.raises(tg.DatabaseAccessError, match="standby or only allows reading"),
                repo.database.translated(),  # the server also refuses
                repo.database.engine.begin() as connection,
            ):
                connection.execute(sa.text("DELETE FROM run"))


@pytest.mark.parametrize("mode", ["direct", "transaction"])
def test_settings_in_the_url_apply_to_each_transaction(postgres, tmp_path, mode):
    base = postgres.database()
    name = base.rpartition("/")[2]
    with psycopg.connect(base.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA dq")
    bouncer = pgbouncer(postgres, tmp_path, "transaction")
    with bouncer if mode == "transaction" else contextlib.nullcontext(postgres.url) as address:
        url = f"{address}/{name}?options=-csearch_path%3Ddq,public%20-c%20work_mem%3D8MB"
        with tg.Repository(f"{url}&prepare_threshold=None", artifacts=tmp_path / "a") as repo:
            repo.record("d", "rows", {"ds=2026-01-01": 1.0})
            with repo.database.read() as connection:
                show = lambda what: connection.exec_driver_sql(f"SHOW {what}").scalar()  # noqa: E731
                actual = [show(what) for what in ("search_path", "work_mem", "jit")]
        assert actual == ["dq,public", "8MB", "off"]
    with psycopg.connect(base.replace("+psycopg", "")) as connection:
        count = connection.execute("SELECT count(*) FROM dq.metric").fetchone()
    assert count == (1,)
    with pytest.raises(
        tg.DatabaseAccessError, match="prepare_threshold=soon in the URL is neither"
    ):
        Database(f"{base}?prepare_threshold=soon")


@pytest.fixture
def roles(postgres):
    """A database that a writer created, and URLs of it by role, with the grants of the guide."""
    base = postgres.database()
    name = base.rpartition("/")[2]
    suffix = name.replace("t", "", 1)
    named = {role: f"{role}_{suffix}" for role in ("nobody", "writer", "reader", "labeler", "bi")}
    with psycopg.connect(base.replace("+psycopg", ""), autocommit=True) as admin:
        for role in named.values():
            admin.execute(f"CREATE ROLE {role} LOGIN")
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        admin.execute(f"GRANT USAGE, CREATE ON SCHEMA public TO {named['writer']}")
        urls = {role: base.replace("tester@", f"{one}@") for role, one in named.items()}
        yield SimpleNamespace(admin=admin, names=named, urls=urls)
        for role in named.values():
            admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_each_role_can_do_its_work_and_errors_name_the_missing_grant(roles, tmp_path, capsys):
    names, urls, admin = roles.names, roles.urls, roles.admin

    def lacks(role, grant):
        text = rf"{role}_\w+@.*permission denied for .*; GRANT {grant} .*TO {role}_"
        return pytest.raises(tg.DatabaseAccessError, match=text)

    with lacks("nobody", "USAGE, CREATE ON SCHEMA public"):
        tg.Repository(urls["nobody"])
    with tg.Repository(urls["writer"], artifacts=tmp_path / "a") as repo:
        commit(repo, *(day(n, rows=5 if n == 38 else 100) for n in range(1, 41)))
        repo.detect("d")
    with lacks("reader", "SELECT ON ALL TABLES"):
        tg.Repository(urls["reader"], read_only=True)

    may_only_read = pytest.raises(
        tg.ReadOnlyError, match=r"the role 'reader_\w+' may only read .*writes"
    )

    # A reader queries history from a laptop, without a folder of artifacts.
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {names['reader']}")
    for read_only in (True, False):
        with tg.Repository(urls["reader"], read_only=read_only) as repo:
            assert len(repo.metrics("d", name="Size")) == 40
            assert len(repo.incidents("d")) > 0
            assert repo.merge("d", tg.Size()).value == 39 * 100 + 5
    with tg.Repository(urls["reader"]) as repo:
        incident = int(repo.incidents("d")["id"].iloc[0])
        for write in (
            lambda: repo.record("d", "rows", {"ds=2013-01-01": 1.0}),
            lambda: repo.label(incident, "comment", note="why?"),
            lambda: repo.detect("d"),
        ):
            with may_only_read:
                write()
        # Dry runs only read, without a folder for large states.
        assert repo.drop("d", dry_run=True).partitions == 40
        assert repo.clean(versions="0d", states="0d", runs="0d", dry_run=True).states == 160
        assert not repo.forget("nobody", dry_run=True).states
    copy = tmp_path / "copy.dump"
    backup = ["db", "backup", "--db", urls["reader"], "--to", str(copy)]
    assert run_command(backup) == 1
    assert "GRANT SELECT ON ALL SEQUENCES" in capsys.readouterr().err
    admin.execute(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {names['reader']}")
    assert run_command(backup) == 0
    for dry in (
        "dataset drop d",
        "dataset label d bad --since 2013-01-01",
        "db clean",
        "dataset retire d",
    ):
        assert run_command([*dry.split(), "--dry-run", "--db", urls["reader"]]) == 0
    assert run_command(["dataset", "retire", "d", "--db", urls["reader"]]) == 1
    assert "may only read" in capsys.readouterr().err
    assert run_command(["report", "--db", urls["reader"]]) == 0
    assert run_command(["metrics", "d", "--db", urls["reader"], "--name", "Size"]) == 0
    capsys.readouterr()

    # A labeler writes to tables, measures nothing, and needs no folder either.
    role = names["labeler"]
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    with tg.Repository(urls["labeler"]) as repo:
        with pytest.raises(tg.DatabaseAccessError, match="GRANT USAGE ON ALL SEQUENCES"):
            repo.label(incident, "comment", note="why?")
        admin.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}")
        repo.label(incident, "comment", note="why?")
        with pytest.raises(tg.DatabaseAccessError, match="needs a folder for large states"):
            commit(repo, day(41))

    # A BI tool sees views, in UTC whatever the server's time zone.
    bi, name = names["bi"], urls["bi"].rpartition("/")[2]
    admin.execute(f"ALTER DATABASE {name} SET timezone = 'America/New_York'")
    admin.execute(f"GRANT SELECT ON v_latest_metric TO {bi}")
    admin.execute(f"ALTER ROLE {bi} SET timezone = 'UTC'")
    with psycopg.connect(urls["bi"].replace("+psycopg", "")) as connection:
        query = 'SELECT min("time"::date)::text FROM v_latest_metric'
        assert connection.execute(query).fetchone() == ("2013-01-01",)


def test_a_copy_names_the_missing_rights_before_anything_is_copied(roles, tmp_path, capsys):
    source = f"sqlite:///{tmp_path}/r.db"
    with tg.Repository(source) as repo:
        repo.record("d", "rows", {"ds=2026-01-01": 1.0})
    target = roles.urls["labeler"]
    command = ["db", "copy", source, target]
    command += ["--to-artifacts", str(tmp_path / "a")]
    role = roles.names["labeler"]

    def lacks(grant):
        assert run_command(command) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert target in err
        assert f"GRANT {grant}" in err
        assert len(err.splitlines()) == 1

    lacks(f"USAGE, CREATE ON SCHEMA public TO {role}")
    with tg.Repository(roles.urls["writer"]):  # the owner creates the tables, empty
        pass
    lacks(f"SELECT ON ALL TABLES IN SCHEMA ... TO {role}")
    roles.admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    assert run_command(command) == 1
    assert f"the role '{role}' may only read {target}" in capsys.readouterr().err
    roles.admin.execute(f"GRANT INSERT ON ALL TABLES IN SCHEMA public TO {role}")
    lacks(f"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ... TO {role}")
    roles.admin.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
    )
    lacks(f"USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA ... TO {role}")
    roles.admin.execute(f"GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {role}")
    assert run_command(command) == 0


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_one_copy_at_a_time_behind_pgbouncer(postgres, tmp_path, mode, monkeypatch, capsys):
    source = f"sqlite:///{tmp_path}/r.db"
    with tg.Repository(source) as repo:
        repo.record("d", "rows", {"ds=2026-01-01": 1.0})
    with pgbouncer(postgres, tmp_path, mode) as address:
        target = f"{address}/{postgres.database().rpartition('/')[2]}"
        command = ["db", "copy", source, target, "--to-artifacts", str(tmp_path / "a")]
        insert, statuses = backups.insert_rows, []

        def copy_meanwhile(*arguments):
            if not statuses:
                statuses.append(run_command(command))
            insert(*arguments)

        monkeypatch.setattr(backups, "LOCK_WAIT_SECONDS", 0)
        monkeypatch.setattr(backups, "insert_rows", copy_meanwhile)
        assert run_command(command) == 0
        assert statuses == [1]
        assert "another copy to" in capsys.readouterr().err


def test_a_standby_can_be_read_and_the_error_names_where_to_write(postgres, tmp_path):
    url = postgres.repository()
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        commit(repo, day(1))
    name = url.rpartition("/")[2]
    with psycopg.connect(postgres.url.replace("+psycopg", "") + "/postgres", autocommit=True) as c:
        c.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        assert len(repo.metrics("d", name="Size")) == 1
        with pytest.raises(tg.DatabaseAccessError, match="connect to its primary"):
            commit(repo, day(2))


def test_errors_of_other_kinds_get_no_advice():
    assert rights_advice(ValueError("permission denied for table run"), "ann") is None
    error = psycopg.errors.InsufficientPrivilege("must be owner of table run")
    assert "ann lacks a right" in rights_advice(error, "ann")
