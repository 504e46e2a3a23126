"""Databases through time: the tables, up and down with data, kept databases of every revision."""

import contextlib
import gzip
import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from analyzers.ledger import RunStatus
from repository import schema as s
from repository.check import check
from repository.database import VERSION_TABLE, Database, all_revisions, head_revision
from repository.testing import day, judged, spec

KEPT = Path(__file__).parents[1] / "data" / "kept"
RELEASED = sorted(file.name.removesuffix(".db.gz") for file in KEPT.glob("*.db.gz"))


def test_every_released_revision_is_kept():
    assert set(RELEASED) == set(all_revisions()) - {head_revision()}


def test_tables_are_those_that_migrations_make(url):
    """What `alembic check` would say: nothing to do."""
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
        for table in s.metadata.sorted_tables:  # names, too: a downgrade goes by them
            inspector = sa.inspect(connection)
            named = {c.name for c in table.constraints if c.name and "pk_" not in str(c.name)}
            found = {
                entry["name"]
                for read in ("get_unique_constraints", "get_foreign_keys", "get_check_constraints")
                for entry in getattr(inspector, read)(table.name)
            }
            assert {str(name) for name in named} == found, table.name


def kept(name, url, tmp_path):
    """Put a kept database in the place of an empty one; return a repository's arguments."""
    if url.startswith("sqlite"):
        content = gzip.decompress((KEPT / f"{name}.db.gz").read_bytes())
        Path(url.removeprefix("sqlite:///")).write_bytes(content)
    else:
        import psycopg

        text = gzip.decompress((KEPT / f"{name}.sql.gz").read_bytes()).decode()
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute(text)
    folder = tmp_path / "artifacts"
    shutil.copytree(KEPT / "artifacts", folder, dirs_exist_ok=True)
    return {"url": url, "artifacts": folder}


def upgraded(name, url, tmp_path):
    given = kept(name, url, tmp_path)
    if not url.startswith("sqlite"):
        with pytest.raises(tg.DatabaseVersionError, match="tidegauge db upgrade"):
            tg.Repository(**given)
        database = Database.unchecked(url)
        database.upgrade()
        database.close()
    return tg.Repository(**given)


def said(name):
    return json.loads(gzip.decompress((KEPT / "expected.json.gz").read_bytes()))[name]


def same(found, columns, rows):
    """Compare a frame with kept rows, whatever their order; numbers to the last digits but one."""
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


@pytest.mark.parametrize("name", RELEASED)
def test_a_kept_database_is_upgraded_with_all_that_was_in_it(name, url, tmp_path):
    expected = said(name)
    columns = expected["columns"]
    with upgraded(name, url, tmp_path) as repo:
        assert repo.database.revision() == head_revision()
        assert check(repo.database, repo.artifacts) == []
        same(repo.runs(), columns["runs"], expected["runs"])
        for dataset, answers in expected["datasets"].items():
            rows = answers["metric_rows"]
            metrics = columns["metrics"]
            same(repo.metrics(dataset), metrics, [rows[i] for i in answers["metrics"]])
            for run, places in answers["metrics_as_of"].items():
                past = repo.metrics(dataset, as_of=int(run))
                same(past, metrics, [rows[i] for i in places])
            ledger = repo.partitions(dataset)
            ledger["gone"] = ledger["gone_at"].notna()
            same(ledger, columns["partitions"], answers["partitions"])
            same(repo.anomalies(dataset), columns["anomalies"], answers["anomalies"])
            same(repo.scores(dataset), columns["scores"], answers["scores"])
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
        run = repo.store.open_run(spec("d"))  # and it goes on
        repo.store.commit_batch(run, [day(21), day(20, "changed", rows=3)])
        assert check(repo.database, repo.artifacts) == []


@pytest.mark.parametrize("name", RELEASED)
def test_a_kept_database_goes_up_down_and_up(name, url, tmp_path):
    """Down to where it came from, nothing is lost that it had; and up again."""
    with upgraded(name, url, tmp_path) as repo:
        before = {d: repo.metrics(d) for d in repo.datasets()}
        past = {d: repo.metrics(d, as_of=6) for d in repo.datasets()}
        found = {d: repo.anomalies(d) for d in repo.datasets()}
        ledger = {d: repo.partitions(d) for d in repo.datasets()}
        repo.database.migrate(name)
        assert repo.database.revision() == name
        repo.database.migrate()
        assert check(repo.database, repo.artifacts) == []
        for dataset in repo.datasets():
            pd.testing.assert_frame_equal(repo.metrics(dataset), before[dataset])
            pd.testing.assert_frame_equal(repo.metrics(dataset, as_of=6), past[dataset])
            pd.testing.assert_frame_equal(repo.anomalies(dataset), found[dataset])
            pd.testing.assert_frame_equal(repo.partitions(dataset), ledger[dataset])


def test_scores_of_restated_and_rescored_points_are_packed(url, tmp_path):
    """Series of one block with two versions, and scored twice, come to lie in rows of their own."""
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        run = repo.store.open_run(spec())
        repo.store.commit_batch(run, [day(1), day(2)])
        repo.store.commit_batch(run, [day(1, "b", rows=5)])
        repo.database.migrate("0003")
        columns = "partition_id, series_id, version, detector, commit_id, score, expected"
        rows = [
            (1, 1, 1, 1, 1.0),
            (1, 2, 1, 1, 2.0),
            (1, 1, 1, 2, 3.0),
            (1, 1, 2, 2, 4.0),
            (1, 2, 2, 2, 5.0),
        ]
        with repo.database.transaction() as connection:
            for partition, series, version, commit, score in rows:
                connection.exec_driver_sql(
                    f"INSERT INTO score ({columns}) VALUES"
                    f" ({partition}, {series}, {version}, 'x', {commit}, {score}, NULL)"
                )
        repo.database.migrate()
        from repository.anomalies import scorebook

        with repo.database.read() as connection:
            now = scorebook.read(connection, 1, "x")
            found = zip(now.series.tolist(), now.version.tolist(), now.score.tolist(), strict=True)
            assert sorted(found) == [(1, 1, 3.0), (1, 2, 4.0), (2, 1, 2.0), (2, 2, 5.0)]
            then = scorebook.read(connection, 1, "x", commit=1)
            assert sorted(then.score.tolist()) == [1.0, 2.0]
        repo.database.migrate("0003")
        with repo.database.read() as connection:
            old = connection.exec_driver_sql(
                "SELECT series_id, version, commit_id, score FROM score"
            )
            assert sorted(map(tuple, old)) == [
                (1, 1, 1, 1.0),
                (1, 1, 2, 3.0),
                (1, 2, 2, 4.0),
                (2, 1, 1, 2.0),
                (2, 2, 2, 5.0),
            ]
        repo.database.migrate()


def test_what_this_revision_added_goes_down_to_the_first_and_nothing_breaks(url, tmp_path):
    """A database full of what only this revision knows can be taken down, and the old rest stays."""
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        run = repo.store.open_run(spec())
        repo.store.commit_batch(run, [day(n) for n in (1, 2, 3)])
        repo.store.commit_batch(run, [day(2, "b", rows=5)])
        repo.store.mark_gone(run, ["ds=2013-01-03"])
        repo.store.close_run(run, RunStatus.COMPLETE, {})
        repo.record("d", "revenue", 5.0, partition="ds=2013-01-01")
        repo.roll_up("d", ["7d"])
        judged(repo, run=run)
        judged(repo, dataset="only judged")
        monitor = tg.Monitor({}, tg.SimpleThreshold(1.0))
        for found in repo.detect("d", [monitor])["id"]:
            repo.label(found, "expected", note="it was so")
        before = repo.metrics("d", segment="")
        measured = before[before["name"] != "revenue"].reset_index(drop=True)
        repo.database.migrate("0001")
        repo.database.migrate()
        assert check(repo.database, repo.artifacts) == []
        after = repo.metrics("d")
        pd.testing.assert_frame_equal(after, measured.astype({"run_id": "int64"}))
        assert repo.partitions("d")["gone_at"].notna().sum() == 1
        assert repo.datasets() == ["d"]
        repo.database.migrate("base")
        with repo.database.read() as connection:
            inspector = sa.inspect(connection)
            assert inspector.get_view_names() == []
            assert set(inspector.get_table_names()) <= {VERSION_TABLE}


def test_datasets_of_which_only_verdicts_are_known_go_down(url, tmp_path):
    """The older code measures those that are gone by any partitions; what people said keeps a dataset."""
    with tg.Repository(url, artifacts=tmp_path / "a") as repo:
        judged(repo, dataset="only judged")
        judged(repo, dataset="labelled")
        repo.label_range("labelled", "ignore", since="2013-01-01")
        repo.database.migrate("0004")
        with repo.database.read() as connection:
            found = connection.exec_driver_sql("SELECT name, keys FROM dataset")
            assert list(map(tuple, found)) == [("labelled", "[]")]
        repo.database.migrate()
        assert repo.verdicts("labelled").empty
        assert len(repo.labels("labelled")) == 1
        assert judged(repo, dataset="only judged") == 1


def test_an_older_sqlite_is_backed_up_before_it_is_upgraded(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    upgraded("0001", url, tmp_path).close()
    (backup,) = tmp_path.glob("*.backup.db")
    old = Database.unchecked(f"sqlite:///{backup}")
    assert old.revision() == "0001"
    old.close()


def test_an_upgrade_that_fails_leaves_everything_as_it_was(url, tmp_path, monkeypatch):
    from alembic import command

    given = kept("0001", url, tmp_path)
    real = command.upgrade

    def fail(config, revision):
        real(config, revision)
        raise RuntimeError("the power went")

    database = Database.unchecked(given["url"])
    monkeypatch.setattr(command, "upgrade", fail)
    with pytest.raises(RuntimeError):
        database.migrate()
    assert database.revision() == "0001"
    monkeypatch.undo()
    database.migrate()
    assert database.revision() == head_revision()
    database.close()
