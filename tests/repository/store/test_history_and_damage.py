"""The repository: history, bitemporal views, merging, damage, invalid databases. No Spark."""

import datetime as dt
import math
import re
import sqlite3
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check
from tidegauge.analyzers.measures.extremes import Maximum, MaxState
from tidegauge.analyzers.measures.frequencies import CountDistinct, FrequenciesAndNumRows
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import (
    COMPLETE,
    HIST,
    MEAN,
    SIZE,
    UNIQUE,
    day,
    measurement,
    spec,
)


def filled(repo, *batches, **kwargs):
    ids = []
    for batch in batches:
        run = repo.store.open_run(spec(**kwargs))
        repo.store.commit_batch(run, batch)
        repo.store.close_run(run, RunStatus.COMPLETE, {"measured": len(batch)})
        ids.append(run)
    return ids


def sound(repo):
    return check(repo.database, repo.artifacts) == []


def test_metrics_are_a_tidy_frame(repo):
    filled(repo, [day(2), day(1)])
    frame = repo.metrics("d")
    assert list(frame["partition"].unique()) == ["ds=2013-01-01", "ds=2013-01-02"]
    assert str(frame["time"].dt.tz) == "UTC"
    row = frame[(frame["name"] == "Completeness") & (frame["partition"] == "ds=2013-01-01")].iloc[0]
    assert (row["dataset"], row["entity"], row["instance"], row["value"], row["weight"]) == (
        "d",
        "Column",
        "x",
        0.9,
        10,
    )
    assert (row["status"], row["version"], row["analyzer"], row["segment"]) == (
        "finite",
        1,
        "Completeness('x')",
        "",
    )
    failed = frame[frame["status"] == "failed"]
    assert set(failed["error"]) == {"NoSuchColumnError: no column 'nope'; there are: 'x', 's'"}
    assert failed["value"].isna().all()


def test_metrics_are_selected_by_filters(repo):
    filtered = measurement(tg.Size(where="a = 'b'"), tg.NumMatches(3))
    filled(repo, [day(n, extra=[filtered]) for n in (1, 2, 3)])
    assert len(repo.metrics("d", name="Size")) == 6
    assert len(repo.metrics("d", name="Size", where="")) == 3
    assert len(repo.metrics("d", where="a = 'b'")) == 3
    assert len(repo.metrics("d", analyzer=SIZE)) == 3
    assert len(repo.metrics("d", analyzer="""Size(where="a = 'b'")""")) == 3
    assert len(repo.metrics("d", name=["Size", "Completeness"], where="")) == 6
    assert set(repo.metrics("d", name="Histogram")["name"]) > {"Histogram.bins", "Histogram.abs.a"}
    assert len(repo.metrics("d", name="Histogram.abs.a")) == 3
    assert len(repo.metrics("d", instance="s", name="Uniqueness")) == 3
    none = repo.metrics("d", name="Uniqueness", since="2014-01-01")
    assert none.empty
    assert list(none.columns) == list(repo.metrics("d").columns)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"name": "Completness"}, "name='Completness'; did you mean 'Completeness'?"),
        ({"name": ["Size", "Sise"]}, "name='Sise'; did you mean 'Size'?"),
        ({"instance": "S"}, "instance='S'; did you mean 's'?"),
        ({"segment": "country=US"}, "segment='country=US'"),
        (
            {"name": "Uniqueness", "instance": "*"},
            "name='Uniqueness', instance='*' together; with name='Uniqueness' there is instance='s'",
        ),
        ({"analyzer": SIZE, "instance": "s"}, "instance='s', analyzer=Size() together; with"),
    ],
)
@pytest.mark.parametrize("method", ["metrics", "latest", "chart", "anomalies", "scores"])
def test_unknown_names_of_series_are_errors(repo, method, asked, hint):
    filled(repo, [day(1)])
    with pytest.raises(tg.HistoryError, match=re.escape(f"no series of 'd' has {hint}")):
        getattr(repo, method)("d", **asked)


def test_a_window_that_ends_before_it_begins_is_an_error(repo):
    filled(repo, [day(1)])
    for ask in (repo.metrics, partial(repo.merge, analyzer=SIZE)):
        with pytest.raises(
            tg.HistoryError, match="since=2013-03-01 is later than until=2013-02-01"
        ):
            ask("d", since="2013-03-01", until="2013-02-01")


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        (None, None, [1, 2, 3]),
        ("2013-01-02", None, [2, 3]),
        (None, "2013-01-02", [1, 2]),
        ("2013-01-02", "2013-01-02", [2]),
        (dt.date(2013, 1, 2), dt.date(2013, 1, 2), [2]),
        (dt.datetime(2013, 1, 1, 12), None, [2, 3]),
        ("2013-01-01T12:00", "2013-01-02T00:00:00+00:00", [2]),
        (None, dt.datetime(2013, 1, 2, tzinfo=dt.UTC), [1, 2]),
    ],
)
def test_since_and_until_are_both_included(repo, since, until, days):
    filled(repo, [day(n) for n in (1, 2, 3)])
    metrics = repo.metrics("d", name="Size", since=since, until=until)
    assert [t.day for t in metrics["time"]] == days


def test_nan_infinite_and_missing_values_are_returned(repo):
    values = [math.nan, math.inf, -math.inf, 1.5]
    filled(
        repo,
        [
            day(n, extra=[measurement(Maximum("x"), MaxState(v, 1))])
            for n, v in enumerate(values, 1)
        ],
    )
    metrics = repo.metrics("d", name="Maximum")
    assert list(metrics["status"]) == ["NaN", "+inf", "-inf", "finite"]
    assert math.isnan(metrics["value"][0])
    assert list(metrics["value"][1:]) == values[1:]
    with repo.database.read() as connection:
        stored = connection.execute(
            sa.select(s.metric.c.value).where(s.metric.c.status != "finite")
        )
        assert set(stored.scalars()) == {None}
    assert sound(repo)


def test_views_as_of_a_run_and_as_of_a_moment(repo):
    first, second = filled(repo, [day(1), day(2)], [day(1, "b", rows=20), day(3)])
    moment = repo.metrics("d", as_of=first)["analyzed_at"].max().to_pydatetime()

    def sizes(**kwargs):
        return list(repo.metrics("d", name="Size", **kwargs)["value"])

    assert sizes() == sizes(as_of=second) == [20, 10, 10]
    assert sizes(as_of=first) == sizes(as_of=moment) == [10, 10]
    assert sizes(as_of=moment - dt.timedelta(seconds=1)) == []
    assert sizes(as_of=dt.datetime.now(dt.UTC)) == [20, 10, 10]
    assert repo.merge("d", SIZE, as_of=first).value == 20
    assert repo.merge("d", SIZE).value == 40
    with pytest.raises(tg.HistoryError, match="the run does not exist"):
        sizes(as_of=99)
    with pytest.raises(tg.HistoryError, match="neither"):
        sizes(as_of="yesterday")


def test_an_analyzer_added_later_is_missing_from_earlier_views(repo):
    first, _ = filled(repo, [day(1, only=[SIZE])], [day(1, only=[COMPLETE])])
    assert set(repo.metrics("d")["name"]) == {"Size", "Completeness"}
    assert set(repo.metrics("d", as_of=first)["name"]) == {"Size"}
    with pytest.raises(tg.HistoryError, match="no state for 1 of 1"):
        repo.merge("d", COMPLETE, as_of=first)


def test_a_value_missing_from_the_newest_version_is_not_the_latest(repo):
    first, _ = filled(
        repo, [day(1, groups={("a",): 9, ("b",): 1})], [day(1, "b", groups={("a",): 10})]
    )
    names = set(repo.metrics("d", name="Histogram")["name"])
    assert names == {"Histogram.bins", "Histogram.abs.a", "Histogram.ratio.a"}
    assert "Histogram.abs.b" in set(repo.metrics("d", name="Histogram", as_of=first)["name"])
    assert sound(repo)


def test_windows_are_merged(repo):
    filled(repo, [day(n, rows=10 * n) for n in (1, 2, 3)])
    assert repo.merge("d", SIZE).value == 60
    assert repo.merge("d", "Size()", since="2013-01-02").value == 50
    merged = repo.merge("d", COMPLETE, until="2013-01-02")
    assert (merged.value, merged.weight) == (28 / 30, 30)
    assert repo.merge("d", UNIQUE).value == 0.0
    assert repo.merge("d", HIST).value["b"].absolute == 3
    # never measured, but with the same frequencies
    assert repo.merge("d", CountDistinct("s")).value == 2
    with pytest.raises(tg.HistoryError, match="'d' has no partition since 2014-01-01"):
        repo.merge("d", MEAN, since="2014-01-01")
    with pytest.raises(tg.HistoryError, match="was never measured on 'd'; there are: .*Size"):
        repo.merge("d", tg.Sum("y"))
    with pytest.raises(
        tg.HistoryError, match=re.escape("there are: Mean('x'), ")
    ):  # the most similar name
        repo.merge("d", tg.Mean("y"))


def test_merging_failed_analyzers_is_an_error_unless_allowed(repo):
    from tidegauge.analyzers.measures.moments import SumAndCount

    works = measurement(tg.Mean("y"), SumAndCount(4.0, 2))
    fails = measurement(tg.Mean("y"), tg.NoSuchColumnError("y"))
    filled(repo, [day(1, extra=[fails]), day(2, extra=[works])])
    with pytest.raises(
        tg.HistoryError, match="no state for 1 of 2 partitions, first 'ds=2013-01-01'"
    ):
        repo.merge("d", tg.Mean("y"))
    assert repo.merge("d", tg.Mean("y"), allow_missing=True).value == 2.0
    assert repo.merge("d", tg.Mean("y"), since="2013-01-02").value == 2.0


def test_large_frequencies_are_stored_next_to_the_database(repo, tmp_path):
    import hashlib

    keys = [(hashlib.sha256(str(i).encode()).hexdigest(),) for i in range(12_000)]
    big = measurement(CountDistinct("k"), FrequenciesAndNumRows.from_groups((k, 1) for k in keys))
    small = measurement(
        CountDistinct("k"), FrequenciesAndNumRows.from_groups((k, 1) for k in keys[:3])
    )
    filled(repo, [day(1, extra=[big]), day(2, extra=[small])])
    (name,) = repo.artifacts.files()
    file = tmp_path / "repo.db.artifacts" / name
    assert file.stat().st_size > 256 * 1024
    import pyarrow.parquet as pq

    assert pq.read_table(file).num_rows == 12_000  # plain Parquet, which anyone can read
    assert repo.merge("d", CountDistinct("k")).value == 12_000
    assert sound(repo)
    file.write_bytes(b"damaged")
    with pytest.raises(tg.CorruptStateError, match="checksum"):
        repo.merge("d", CountDistinct("k"))
    file.unlink()
    with pytest.raises(tg.CorruptStateError, match="cannot be read"):
        repo.merge("d", CountDistinct("k"))
    assert len(check(repo.database, repo.artifacts)) == 1


def test_a_damaged_state_is_detected(repo):
    filled(repo, [day(1)])
    with repo.database.transaction() as connection:
        connection.execute(
            sa.update(s.state).where(s.state.c.tag == "num-matches/1").values(payload=b"x" * 8)
        )
    with pytest.raises(tg.CorruptStateError, match="num-matches/1"):
        repo.merge("d", SIZE)
    (problem,) = check(repo.database, repo.artifacts)
    assert "checksum" in problem


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("DELETE FROM metric WHERE series_id = 1", "the ledger lists"),
        ("DELETE FROM newest_metric WHERE series_id = 1", "missing from the newest"),
        ("UPDATE newest_metric SET value = value + 7 WHERE value IS NOT NULL", "newest metrics"),
        (
            "UPDATE metric SET superseded_commit_id = 1 WHERE series_id = 1",
            "has a different lifetime",
        ),
        ("UPDATE metric SET commit_id = 99 WHERE series_id = 1", "refers to commit 99"),
        (
            "INSERT INTO score VALUES (99, 'x', 1, 1, 1, NULL, '', '', '', '', '', '')",
            "refers to partition 99",
        ),
        ("DROP INDEX ix_state_partition_id", "index"),
        ("UPDATE clock SET commits = 0", "the clock is at 0"),
    ],
)
def test_check_reports_manual_changes_of_the_database(repo, damage, says):
    filled(repo, [day(1), day(2)])
    assert sound(repo)
    with repo.database.transaction() as connection:
        connection.exec_driver_sql(damage)
    assert says in "\n".join(check(repo.database, repo.artifacts))


def test_a_batch_that_cannot_be_written_leaves_nothing(repo, monkeypatch):
    filled(repo, [day(1)])
    before = repo.metrics("d")
    from tidegauge.repository.store.batch import Batch

    def fail(*_):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(Batch, "_series_ids", fail)
    run = repo.store.open_run(spec())
    with pytest.raises(RuntimeError):
        repo.store.commit_batch(run, [day(2), day(3)])
    monkeypatch.undo()
    assert repo.metrics("d").equals(before)
    assert set(repo.store.ledger("d")) == {"ds=2013-01-01"}
    assert sound(repo)
    repo.store.commit_batch(run, [day(2), day(3)])
    assert len(repo.metrics("d", name="Size")) == 3


def test_a_reader_sees_a_batch_completely_or_not_at_all(repo):
    filled(repo, [day(1)])
    with repo.database.read() as connection:
        count = sa.select(sa.func.count()).select_from(s.metric)
        before = connection.execute(count).scalar()
        filled(repo, [day(2)])
        assert connection.execute(count).scalar() == before
    with repo.database.read() as connection:
        assert connection.execute(count).scalar() == 2 * before


def test_runs_and_ledger_as_frames(repo):
    filled(repo, [day(1)], tags={"env": "prod"})
    runs = repo.runs()
    assert runs["status"].tolist() == ["complete"]
    assert runs["tags"].tolist() == [{"env": "prod"}]
    ledger = repo.partitions("d")
    assert ledger[["partition", "version", "rows", "fingerprint"]].values.tolist() == [
        ["ds=2013-01-01", 1, 10, "a"]
    ]
    assert ledger["arrived_at"][0].isoformat() == "2013-01-02T02:00:00+00:00"


def test_a_dead_run_is_marked_as_interrupted(repo):
    run = repo.store.open_run(spec())
    with repo.database.transaction() as connection:
        connection.execute(sa.update(s.run).values(pid=2**22 + 1))  # above any process id
    filled(repo, [day(1)])
    assert repo.runs().set_index("run_id").loc[run, "status"] == "interrupted"


def test_the_error_for_an_unknown_dataset_names_the_nearest(repo):
    filled(repo, [day(1)], dataset="flights")
    with pytest.raises(tg.UnknownDatasetError, match="did you mean 'flights'"):
        repo.metrics("flihts")


def test_foreign_strings_are_data(repo):
    evil = "x'); DROP TABLE metric; --"
    bad = measurement(tg.Size(where=evil), tg.NumMatches(1))
    filled(repo, [day(1, extra=[bad])], dataset=evil, tags={evil: evil})
    assert repo.metrics(evil, where=evil, tags={evil: evil})["value"].tolist() == [1.0]
    assert repo.datasets() == [evil]
    assert sound(repo)


# Databases


def test_the_views_can_be_read_by_any_client(repo):
    filled(repo, [day(1)], [day(1, "b", rows=20)])
    with sqlite3.connect(repo.database.file) as plain:
        rows = plain.execute(
            "SELECT partition, value, version FROM v_metric WHERE name = 'Size' ORDER BY version"
        )
        assert rows.fetchall() == [("ds=2013-01-01", 10.0, 1), ("ds=2013-01-01", 20.0, 2)]
        rows = plain.execute(
            "SELECT dataset, value, analyzer FROM v_latest_metric WHERE name = 'Size'"
        )
        assert rows.fetchall() == [("d", 20.0, "Size()")]
        assert plain.execute("SELECT count(*) FROM v_anomaly").fetchone() == (0,)
    plain.close()


def test_a_foreign_database_is_refused_and_unchanged(tmp_path):
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as plain:
        plain.execute("CREATE TABLE invoices (id INTEGER)")
    plain.close()
    before = file.read_bytes()
    with pytest.raises(
        tg.NotOurDatabaseError,
        match=r"not a tidegauge repository: it holds other tables \(invoices\)",
    ):
        tg.Repository(f"sqlite:///{file}")
    assert file.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.db"]


def test_a_file_that_is_not_a_database_is_refused_and_unchanged(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database, and longer than a hundred bytes " * 9)
    with pytest.raises(tg.NotOurDatabaseError, match="not a SQLite database"):
        tg.Repository(f"sqlite:///{file}")
    assert file.read_text().startswith("not a database")


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        (
            "sqlite:////no/such/folder/r.db",
            tg.DatabaseAccessError,
            "the folder /no/such/folder does not exist",
        ),
        ("sqlite:////proc/r.db", tg.DatabaseAccessError, "cannot open or write"),
        ("flights.db", tg.DatabaseAccessError, "not the URL of a database; write sqlite:///"),
        ("mysql://user@host/db", tg.DatabaseAccessError, "not the URL|not supported"),
        ("nonsense://x", tg.DatabaseAccessError, "not the URL"),
        ("sqlite://x.db", tg.DatabaseAccessError, "has a third slash: sqlite:///x.db"),
        (
            "sqlite:////proc",
            tg.DatabaseAccessError,
            "/proc is a folder; use a file in it, such as",
        ),
        (Path("/proc"), tg.DatabaseAccessError, "/proc is a folder"),
        (5, tg.DatabaseAccessError, "5 is not the URL of a database"),
    ],
)
def test_invalid_urls_are_refused(url, error, says):
    with pytest.raises(error, match=says):
        tg.Repository(url).record("d", "x", 1.0)


def test_a_closed_repository_neither_reads_nor_writes(tmp_path):
    for url in ("sqlite://", f"sqlite:///{tmp_path / 'r.db'}"):
        with tg.Repository(url) as repo:
            repo.record("d", "x", 1.0)
        repo.close()  # closing again is not an error
        with pytest.raises(tg.RepositoryError, match="is closed; open it again"):
            repo.metrics("d")
        with pytest.raises(tg.RepositoryError, match="is closed; open it again"):
            repo.record("d", "x", 2.0)


@pytest.mark.parametrize("list_them", [tg.Repository.anomalies, tg.Repository.incidents])
def test_a_misspelled_status_is_refused(list_them):
    with tg.Repository("sqlite://") as repo:
        repo.record("d", "x", 1.0)
        assert len(list_them(repo, status="expected")) == 0
        with pytest.raises(tg.UnknownNameError, match="unknown status 'opne'; did you mean 'open'"):
            list_them(repo, status="opne")


def test_a_newer_database_can_be_read_and_not_written(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with tg.Repository(url) as repo:
        filled(repo, [day(1)])
    with sqlite3.connect(tmp_path / "r.db") as plain:
        plain.execute("UPDATE tidegauge_revision SET version_num = '9999'")
    plain.close()
    with tg.Repository(url) as repo:
        assert len(repo.metrics("d", name="Size")) == 1
        with pytest.raises(
            tg.DatabaseVersionError, match="a newer one and can only be read; upgrade tidegauge"
        ):
            filled(repo, [day(2)])


def test_the_last_representable_day_is_a_valid_partition(repo):
    from dataclasses import replace

    end = replace(day(1), time=dt.datetime(9999, 12, 31, tzinfo=dt.UTC))
    filled(repo, [day(2), end])
    assert repo.metrics("d", name="Size")["time"].iloc[-1].year == 9999
    assert repo.partitions("d")["time"].iloc[-1].year == 9999
    repo.detect("d")


@pytest.mark.soak
def test_two_processes_create_one_database(tmp_path):
    import subprocess
    import sys

    code = f"import tidegauge as tg; tg.Repository('sqlite:///{tmp_path / 'r.db'}').close()"
    started = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)
    ]
    for process in started:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repo:
        assert sound(repo)


def test_reading_creates_no_file_and_reports_a_missing_one(tmp_path, caplog):
    with tg.Repository(f"sqlite:///{tmp_path}/flights.db") as repo:
        filled(repo, [day(1)])
    for read_only in (False, True):
        with pytest.raises(
            tg.TidegaugeError, match=r"no file .*fligths\.db|no database .*fligths\.db"
        ):
            tg.Repository(f"sqlite:///{tmp_path}/fligths.db", read_only=read_only).metrics("d")
    with tg.Repository(f"sqlite:///{tmp_path}/fligths.db") as repo:
        assert repo.datasets() == []
        assert repo.overview().empty
        assert "fligths.db; did you mean 'flights.db'?: the repository is empty" in caplog.text
        with pytest.raises(tg.UnknownDatasetError, match=r"did you mean 'flights\.db'"):
            repo.latest("d")
        assert [path.name for path in tmp_path.glob("fl*")] == ["flights.db"]
        filled(repo, [day(1)])
        assert len(repo.datasets()) == 1
    with tg.Repository(f"sqlite:///{tmp_path}/fligths.db") as repo:
        assert len(repo.metrics("d", name="Size")) == 1


def test_a_file_that_another_process_creates_is_read(tmp_path):
    url = f"sqlite:///{tmp_path}/later.db"
    with tg.Repository(url) as reader, tg.Repository(url) as writer:
        assert reader.datasets() == []
        filled(writer, [day(1)])
        assert len(reader.datasets()) == 1
