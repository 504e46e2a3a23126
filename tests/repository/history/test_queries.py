"""Queries of a repository beyond the contract, settings, safety and maintenance."""

import datetime as dt
import math
import os
import sqlite3
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.paths import ROOT
from tests.support.integrity import check
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.maintenance.backups import back_up, restore
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, head_revision
from tidegauge.repository.store.windows import WindowScheme
from tidegauge.repository.testing import (
    COMPLETE,
    HIST,
    SIZE,
    commit,
    day,
    judged,
    measurement,
    spec,
)

EVIL = """x'); DROP TABLE metric; -- " ` %s {0} ü \u2028"""


@pytest.fixture
def shared(url, tmp_path):
    """A repository on SQLite and on PostgreSQL."""
    with tg.Repository(url, artifacts=tmp_path / "artifacts") as repository:
        yield repository
        assert check(repository.database, repository.artifacts) == []


# Windows


@pytest.mark.parametrize(
    ("every", "spans"),
    [
        ("1w", [("2012-12-31", "2013-01-07"), ("2013-01-28", "2013-02-04")]),
        ("week", [("2012-12-31", "2013-01-07"), ("2013-01-28", "2013-02-04")]),
        ("2d", [("2013-01-01", "2013-01-03"), ("2013-01-31", "2013-02-02")]),
        ("1mo", [("2013-01-01", "2013-02-01"), ("2013-02-01", "2013-03-01")]),
        ("quarter", [("2013-01-01", "2013-04-01")]),
        ("1y", [("2013-01-01", "2014-01-01")]),
        ("12h", [("2013-01-01", "2013-01-01"), ("2013-02-01", "2013-02-01")]),
    ],
)
def test_windows_follow_the_calendar(every, spans):
    times = [dt.datetime(2013, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 2, 1, tzinfo=dt.UTC)]
    actual = WindowScheme.from_interval(every).spans(times)
    assert [(str(x.start.date()), str(x.end.date())) for x in actual] == spans


@pytest.mark.parametrize("text", ["", "7", "d7", "0d", "7 fortnights", "-1d", "total2"])
def test_the_error_for_an_invalid_window_lists_valid_ones(text):
    with pytest.raises(tg.HistoryError, match="invalid window .*: use 7d"):
        WindowScheme.from_name(text)


def test_hours_are_rolled_up_to_each_hour_with_a_partition():
    hours = [dt.datetime(2013, 1, 1 + n // 24, n % 24, tzinfo=dt.UTC) for n in (0, 1, 24)]
    spans = WindowScheme.from_name("24h").spans(hours)
    assert [(span.first, span.last) for span in spans] == [(0, 1), (0, 2), (1, 3)]
    assert str(spans[-1].end) == "2013-01-02 01:00:00+00:00"


def test_the_last_representable_day_has_windows():
    end = [dt.datetime(9999, 12, 31, tzinfo=dt.UTC)]
    for name in ("7d", "month", "year", "week", "total"):
        (span,) = WindowScheme.from_name(name).spans(end)
        assert (span.first, span.last) == (0, 1)


@pytest.mark.in_python
def test_merging_by_week_and_by_month(shared):
    commit(shared, *(day(n, rows=n) for n in range(1, 41)))
    weeks = shared.merge("d", SIZE, every="1w")
    assert weeks["value"].tolist()[:2] == [sum(range(1, 7)), sum(range(7, 14))]
    assert weeks["partitions"].tolist() == [6, 7, 7, 7, 7, 6]
    months = shared.merge("d", HIST, every="month", until="2013-02-03")
    assert set(months["name"]) >= {"Histogram.abs.a", "Histogram.abs.b"}
    by_name = months[months["name"] == "Histogram.abs.b"]
    assert by_name["value"].tolist() == [31, 3]
    assert str(by_name["start"].iloc[1]) == "2013-02-01 00:00:00+00:00"
    with pytest.raises(tg.HistoryError, match="invalid window"):
        shared.merge("d", SIZE, every="sometimes")


def test_large_frequencies_are_merged_file_by_file(repo, monkeypatch):
    """Only one file is in memory next to the sum."""
    from tidegauge.analyzers.measures import frequencies

    monkeypatch.setattr("tidegauge.repository.store.stored_states.MAX_DATABASE_BYTES", 100)
    monkeypatch.setattr(frequencies, "_HELD_ROWS", 500)
    counted = tg.CountDistinct("k")

    def keys(n):
        return FrequenciesAndNumRows.from_groups(((f"{i}",), 1) for i in range(n, n + 200))

    for n in range(1, 31):
        one = measurement(counted, keys(n))
        commit(repo, day(n, only=[counted], extra=[one]))
    assert len(repo.artifacts.files()) == 30
    held = []
    real = frequencies._united

    def watched(tables):
        held.append(sum(t.num_rows for t in tables))
        return real(tables)

    monkeypatch.setattr(frequencies, "_united", watched)
    assert repo.merge("d", counted).value == 229
    assert max(held) <= 500 + 2 * 229
    assert len(held) > 5


# Roll-ups


@pytest.mark.in_python
def test_only_changed_windows_are_rolled_up_again(shared):
    commit(shared, *(day(n) for n in range(1, 31)))
    assert shared.roll_up("d", ["7d"]) > 30
    assert shared.roll_up("d") == 0
    commit(shared, day(31))
    once = shared.roll_up("d")
    commit(shared, day(10, "b", rows=3))
    again = shared.roll_up("d")
    assert 0 < once < again < 9 * once
    with shared.database.read() as connection:
        u = s.rollup.c
        ended = sa.select(sa.func.count()).where(u.superseded_commit_id.is_not(None))
        windows = ended.where(u.window_name == "7d")
        assert connection.execute(windows).scalar() > 0
    known = shared.metrics("d", name="Size", window="7d", since="2013-01-10", until="2013-01-16")
    assert set(known["value"]) == {63.0}


@pytest.mark.in_python
def test_merging_everything_uses_the_state_of_the_last_roll_up(shared, monkeypatch):
    """One state is read instead of all.

    By hand: 10 + 10 + 10 rows, and a mean of 1, 2, 3 by tens.
    """
    commit(shared, day(1), day(2), day(3))
    shared.roll_up("d")
    read, real = [], shared.artifacts.unpack
    monkeypatch.setattr(
        "tidegauge.repository.store.stored_states.Artifacts.unpack",
        lambda self, packed: read.append(packed.tag) or real(packed),
    )

    def merged(analyzer, reads, **filters):
        read.clear()
        actual = shared.merge("d", analyzer, **filters)
        assert len(read) == reads
        return actual.value

    assert merged(SIZE, 1) == 30
    assert merged(tg.Mean("x"), 1) == 2.0
    assert merged(SIZE, 2, since="2013-01-02") == 20
    assert merged(SIZE, 3, as_of=dt.datetime.now(dt.UTC)) == 30
    commit(shared, day(4))  # newer than the roll-up
    assert merged(SIZE, 4) == 40
    shared.roll_up("d")
    commit(shared, day(2, "b", rows=50))  # measured again
    assert merged(SIZE, 4) == 80
    shared.roll_up("d")
    assert merged(SIZE, 1) == 80


def test_a_damaged_total_is_computed_again(shared):
    commit(shared, day(1), day(2))
    shared.roll_up("d")
    with shared.database.transaction() as connection:
        connection.execute(sa.update(s.folded_state).values(checksum="0" * 64))
    assert shared.merge("d", SIZE).value == 20
    with shared.database.transaction() as connection:  # so that the check of the fixture passes
        connection.execute(sa.delete(s.folded_state))


def test_an_earlier_view_shows_earlier_roll_ups(shared):
    commit(shared, day(1), day(2))
    shared.roll_up("d", ["month"])
    before = dt.datetime.now(dt.UTC)
    commit(shared, day(2, "b", rows=50), day(3))
    shared.roll_up("d")
    assert shared.metrics("d", name="Size", window="month")["value"].tolist() == [70]
    past = shared.metrics("d", name="Size", window="month", as_of=before)
    assert past["value"].tolist() == [20]
    assert past["partition"].tolist() == ["2013-01-01/2013-02-01"]
    with pytest.raises(tg.HistoryError, match="has no roll-ups '2d' .*month, total.*roll_up"):
        shared.metrics("d", window="2d")


def test_an_analyzer_that_shares_a_state_is_rolled_up_for_all_windows(shared):
    commit(shared, *(day(n, only=[HIST]) for n in range(1, 5)))
    shared.roll_up("d", ["2d"])
    commit(shared, *(day(n) for n in range(1, 5)))  # adds Uniqueness, whose state is stored
    shared.roll_up("d")
    assert len(shared.metrics("d", name="Uniqueness", window="2d")) == 4


def test_a_window_without_a_state_is_reported_as_failed(shared):
    works = measurement(tg.Mean("y"), tg.Mean("y").state_type(4.0, 2))
    fails = measurement(tg.Mean("y"), tg.NoSuchColumnError("y"))
    commit(shared, day(1, extra=[works]), day(2, extra=[fails]), day(3, extra=[works]))
    shared.roll_up("d", ["2d"])
    metrics = shared.metrics("d", analyzer=tg.Mean("y"), window="2d")
    assert metrics["status"].tolist() == ["finite", "failed", "failed"]
    assert "no state for 1 of 2 partitions" in metrics["error"].iloc[1]


def test_segments_are_rolled_up_separately(shared):
    from dataclasses import replace

    from tidegauge.analyzers.core.partitions import Partition
    from tidegauge.analyzers.runs.ledger import Measurement

    def of(number, country, rows):
        whole = day(number, rows=rows)
        named = tuple(
            Measurement(m.analyzer, m.outcome, m.metric, f"country={country}")
            for m in whole.measurements
        )
        date = whole.partition.values[0]
        partition = Partition(("ds", "country"), (date, country))
        return replace(whole, partition=partition, measurements=named, segment=f"country={country}")

    from tidegauge.analyzers.runs.ledger import RunSpec

    run = shared.store.open_run(RunSpec("d", "t", ("ds", "country")))
    shared.store.commit_batch(run, [of(1, "US", 5), of(2, "US", 6), of(1, "DE", 7)])
    shared.roll_up("d", ["7d"])
    actual = shared.metrics("d", name="Size", window="total").set_index("segment")["value"]
    assert actual.to_dict() == {"country=US": 11, "country=DE": 7}
    assert shared.metrics("d", name="Size", window="7d", segment="country=US")[
        "value"
    ].tolist() == [
        5,
        11,
    ]


# Charts, pages, restatements, versions


def test_charts_keep_extremes(shared):
    commit(shared, *(day(n, rows=1000 if n == 77 else n) for n in range(1, 201)))
    chart = shared.chart("d", name="Size", points=10)
    assert len(chart) == 10
    assert chart["high"].max() == 1000
    assert chart["low"].min() == 1
    assert chart["count"].sum() == 200
    assert chart["mean"].iloc[0] == pytest.approx(sum(range(1, 21)) / 20)
    assert (chart["start"].iloc[0].day, chart["end"].iloc[-1].dayofyear) == (1, 200)
    assert chart.equals(shared.chart("d", name="Size", points=10, as_of=dt.datetime.now(dt.UTC)))
    one = shared.chart("d", analyzer=COMPLETE, points=1, since="2013-02-01", until="2013-02-02")
    assert one["count"].tolist() == [2]
    assert shared.chart("d", since="2014-01-01").empty
    with pytest.raises(tg.HistoryError, match="number of points 0"):
        shared.chart("d", points=0)


def test_versions_of_a_partition_are_listed_in_order(shared):
    commit(shared, day(1))
    commit(shared, day(1, "b", rows=20))
    commit(shared, day(1, "c", rows=30, only=[SIZE]))
    frame = shared.versions("d", "ds=2013-01-01", where="").set_index("analyzer")
    assert frame.loc["Size()", [1, 2, 3]].tolist() == [10, 20, 30]
    assert math.isnan(frame.loc["Completeness('x')", 3])
    ledger = shared.partitions("d", versions="all")
    assert ledger["version"].tolist() == [1, 2, 3]
    assert ledger["rows"].tolist() == [10, 20, 30]
    with pytest.raises(tg.HistoryError, match="no partition 'ds=2013-01-02'; did you mean"):
        shared.versions("d", "ds=2013-01-02")


def test_an_earlier_view_shows_earlier_latest_values_and_versions(shared):
    first = commit(shared, day(1), day(2))
    newest = shared.latest("d")
    commit(shared, day(2, "b", rows=20), day(3))
    past = shared.latest("d", as_of=first)
    assert past.equals(newest)
    assert set(shared.latest("d")["partition"]) == {"ds=2013-01-03"}
    wide = shared.versions("d", "ds=2013-01-02", as_of=first)
    assert list(wide.columns)[5:] == [1]


def test_restatements_name_runs_and_respect_filters(shared):
    first = commit(shared, day(1), day(2))
    second = commit(shared, day(1, "b", rows=20), day(2, "b"))
    third = commit(shared, day(1, "c", rows=30))
    restatements = shared.restatements("d", analyzer=SIZE)
    assert restatements[["old", "new", "change"]].values.tolist() == [[20, 30, 10], [10, 20, 10]]
    assert restatements[["old_run", "new_run"]].values.tolist() == [
        [second, third],
        [first, second],
    ]
    assert shared.restatements("d", analyzer=SIZE, as_of=second)["new"].tolist() == [20]
    assert shared.restatements("d", since="2013-01-02").empty
    assert set(shared.restatements("d", name="Completeness")["partition"]) == {"ds=2013-01-01"}
    shared.record("d", "revenue", 1.0, partition="ds=2013-01-01")
    shared.record("d", "revenue", 2.0, partition="ds=2013-01-01")
    assert shared.restatements("d", name="revenue")["new"].tolist() == [2.0]


# Labels


def test_labels_are_added_and_the_last_one_sets_the_status(shared):
    commit(shared, *(day(n, rows=1000 if n < 30 else 9) for n in range(1, 31)))
    number = int(shared.detect("d", [tg.Monitor({"name": "Size"})])["id"].iloc[0])
    before = dt.datetime.now(dt.UTC)
    shared.label(number, "acknowledged", by="anna")
    shared.label(number, "bad", note=EVIL)
    assert shared.anomalies("d")["status"].tolist() == ["acknowledged"]
    shared.label(number, "resolved")
    assert shared.anomalies("d", status="open").empty
    assert shared.anomalies("d", as_of=before)["status"].tolist() == ["open"]
    shared.label(number, "reopened")
    assert shared.anomalies("d", status="open")["id"].tolist() == [number]
    assert shared.labels("d")["label"].tolist() == ["acknowledged", "bad", "resolved", "reopened"]
    assert shared.labels()["note"].tolist()[1] == EVIL
    assert shared.labels("d", as_of=before).empty
    with pytest.raises(tg.UnknownNameError, match="did you mean 'expected'"):
        shared.label(number, "expectd")
    with pytest.raises(tg.HistoryError, match="no anomaly or incident has the id 99"):
        shared.label(99, "expected")


def test_an_earlier_view_shows_earlier_anomalies_and_scores(shared):
    commit(shared, *(day(n, rows=1000 if n < 30 else 9) for n in range(1, 31)))
    monitors = [tg.Monitor({"name": "Size"})]
    shared.detect("d", monitors)
    before = dt.datetime.now(dt.UTC)
    known, scored = shared.anomalies("d"), shared.scores("d")
    commit(shared, day(30, "b", rows=1000))
    assert shared.detect("d", monitors).empty
    assert shared.anomalies("d", as_of=before).equals(known)
    assert shared.scores("d", as_of=before).equals(scored)


# Retention


def test_cleaning_keeps_unsettled_anomalies_and_a_dry_run_counts_the_same(shared):
    commit(shared, *(day(n, rows=1000 if n != 20 else 9) for n in range(1, 31)))
    shared.detect("d", [tg.Monitor({"name": "Size"})])
    number = int(shared.anomalies("d")["id"].iloc[0])
    shared.label(number, "reopened")  # it had been resolved automatically
    commit(shared, day(20, "b", rows=1000), day(3, "b", rows=999))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    looked = shared.clean(versions=later, dry_run=True)
    assert (looked.versions, looked.kept_for_anomalies) == (1, 1)
    assert len(shared.partitions("d", versions="all")) == 32
    done = shared.clean(versions=later)
    assert str(done) == str(looked).replace("would remove", "removed")
    assert shared.partitions("d", versions="all")["version"].tolist().count(2) == 2
    assert len(shared.versions("d", "ds=2013-01-20").columns) == 7  # both versions exist
    shared.label(number, "resolved")
    assert shared.clean(versions=later).versions == 1


@pytest.mark.in_python
def test_cleaning_states_keeps_the_states_of_unfinished_windows(shared):
    commit(shared, *(day(n) for n in range(1, 41)))
    shared.roll_up("d", ["7d", "month"])
    rolled = shared.metrics("d", window="7d")
    done = shared.clean(states=dt.datetime(2013, 2, 3, tzinfo=dt.UTC))
    assert done.kept_for_windows == 6  # the seven days that are not over, and February
    commit(shared, day(41))
    shared.roll_up("d")
    assert shared.metrics("d", name="Size", window="month")["value"].tolist() == [310, 100]
    assert shared.metrics("d", window="7d", until="2013-02-09").equals(rolled)
    assert shared.metrics("d", name="Size", window="total")["value"].tolist() == [410]
    commit(shared, day(5, "b", rows=1))
    with pytest.warns(tg.RepositoryWarning, match="cleaned away"):
        shared.roll_up("d")
    (total,) = shared.metrics("d", name="Size", window="total")["error"]
    assert total.startswith("does not show the newest version of 1 partition (first ds=2013-01-05)")


@pytest.mark.in_python
def test_cleaning_keeps_the_windows_of_a_table_that_lags_the_clock(shared):
    """All of its partitions are old. The next one is in a window with the last ones."""
    commit(shared, *(day(n) for n in range(1, 41)))
    shared.roll_up("d", ["7d", "month"])
    assert (
        shared.clean(states="1d").kept_for_windows == 9
    )  # from 1 February, the month of 9 February
    commit(shared, day(41))
    shared.roll_up("d")
    assert shared.metrics("d", name="Size", window="month")["value"].tolist() == [310, 100]
    assert (shared.metrics("d", name="Size", window="7d")["status"] == "finite").all()


def test_runs_have_their_routes(shared):
    run = shared.store.open_run(spec())
    shared.store.close_run(run, RunStatus.COMPLETE, {}, routes={"metadata": 31, "Spark SQL": 9})
    commit(shared, day(1))
    assert shared.runs()["routes"].tolist() == [None, {"metadata": 31, "Spark SQL": 9}]


def test_cleaning_runs_removes_those_without_results(shared):
    first = commit(shared, day(1), tags={"a": "b"})
    idle = shared.store.open_run(spec(tags={"a": "b"}))
    shared.store.close_run(idle, RunStatus.COMPLETE, {})
    assert shared.clean(runs="0d").runs == 1
    assert shared.runs()["run_id"].tolist() == [first]


def test_unreferenced_files_are_removed_once_no_writer_can_use_them(repo, monkeypatch):
    monkeypatch.setattr("tidegauge.repository.store.stored_states.MAX_DATABASE_BYTES", 10)
    commit(repo, day(1))
    used = repo.artifacts.files()
    state = FrequenciesAndNumRows.from_groups([(("orphan",), 1)])
    orphan = repo.artifacts.pack(state).artifact
    assert repo.clean().files == 0  # it is too new
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(days=2)).timestamp()
    os.utime(repo.artifacts.root / orphan, (old, old))
    running = repo.store.open_run(spec())
    with repo.database.transaction() as connection:
        long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=3)
        connection.execute(sa.update(s.run).values(started_at=long_ago))
    assert repo.clean().files == 0  # an active writer may have started before the file was written
    repo.store.close_run(running, RunStatus.COMPLETE, {})
    assert repo.clean(dry_run=True).files == 1
    assert orphan in repo.artifacts.files()
    assert repo.clean().files == 1
    assert repo.artifacts.files() == used


def test_temporary_files_of_killed_writers_are_removed_and_others_stay(repo, monkeypatch):
    monkeypatch.setattr("tidegauge.repository.store.stored_states.MAX_DATABASE_BYTES", 10)
    commit(repo, day(1))
    names = {"young": f".{'c' * 40}-{'1' * 16}", "old": f".{'c' * 40}-{'2' * 16}", "other": ".keep"}
    (repo.artifacts.root / "cc").mkdir()
    paths = {what: repo.artifacts.root / "cc" / name for what, name in names.items()}
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(days=2)).timestamp()
    for what, path in paths.items():
        path.write_bytes(b"half of a state")
        if what != "young":
            os.utime(path, (old, old))
    assert repo.clean().files == 1
    assert {what for what, path in paths.items() if path.exists()} == {"young", "other"}
    assert check(repo.database, repo.artifacts) == []


@pytest.mark.parametrize("age", ["soon", "90", "d", "-1d", ""])
def test_the_error_for_an_invalid_age_names_the_format(repo, age):
    with pytest.raises(tg.HistoryError, match="invalid age .* such as 90d"):
        repo.clean(versions=age)


# Damage


def test_damaged_and_unknown_states_are_reported_and_skipped(shared):
    commit(shared, day(1), day(2), day(3))
    shared.roll_up("d", ["2d"])
    with shared.database.transaction() as connection:
        t = s.state
        sizes = (
            sa.select(t.c.statistic_id).join_from(t, s.statistic)
            .where(s.statistic.c.canonical.like("%Size%")).limit(1).scalar_subquery()
        )  # fmt: skip
        ids = (
            connection.execute(sa.select(s.partition.c.id).order_by(s.partition.c.name))
            .scalars()
            .all()
        )
        of = (t.c.statistic_id == sizes) & (t.c.partition_id == ids[0])
        connection.execute(sa.update(t).where(of).values(checksum="0" * 64))
        of = (t.c.statistic_id == sizes) & (t.c.partition_id == ids[1])
        connection.execute(sa.update(t).where(of).values(tag="future/9"))
    with pytest.raises(tg.CorruptStateError, match=r"'d', 'ds=2013-01-01': .*checksum"):
        shared.merge("d", SIZE, until="2013-01-01")
    with pytest.raises(tg.UnknownStateTagError, match=r"'ds=2013-01-02': no reader .*future/9"):
        shared.merge("d", SIZE, since="2013-01-02")
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        assert shared.merge("d", SIZE, since="2013-01-01", allow_missing=True).value == 10
    assert [w.category for w in reported] == [tg.RepositoryWarning] * 2
    assert "ds=2013-01-02" in str(reported[1].message)
    assert shared.merge("d", SIZE).value == 30  # the state of the last roll-up, which is intact
    problems = check(shared.database, shared.artifacts)
    assert len(problems) == 2
    commit(shared, day(4))
    shared.roll_up("d")
    assert shared.metrics("d", name="Size", window="2d")["status"].tolist()[-1] == "finite"
    with shared.database.transaction() as connection:  # so that the check of the fixture passes
        connection.execute(sa.delete(s.state))


# Settings and safety


def test_settings_come_from_argument_environment_and_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TIDEGAUGE_DB", raising=False)

    def used(*arguments):
        with tg.Repository(*arguments) as repository:
            return repository.database.file.name

    assert used() == "tidegauge.db"
    (tmp_path / "home" / "tidegauge").mkdir(parents=True)
    (tmp_path / "home" / "tidegauge" / "tidegauge.toml").write_text('db = "sqlite:///home.db"')
    assert used() == "home.db"
    (tmp_path / "tidegauge.toml").write_text('db = "sqlite:///here.db"\nartifacts = "states"')
    assert used() == "here.db"
    with tg.Repository() as repository:
        assert repository.artifacts.root.name == "states"
    monkeypatch.setenv("TIDEGAUGE_DB", "sqlite:///environment.db")
    assert used() == "environment.db"
    assert used("sqlite:///argument.db") == "argument.db"
    monkeypatch.delenv("TIDEGAUGE_DB")
    for text, says in (
        ("db = 7", "db is a string, not 7"),
        ("url = ''", "did you mean"),
        ("db =", "cannot read the configuration"),
        ("db = " + "[" * 100_000, "cannot read the configuration"),
    ):
        (tmp_path / "tidegauge.toml").write_text(text)
        with pytest.raises(
            (tg.DatabaseAccessError, tg.UnknownNameError),
            match=says if text != "url = ''" else "url",
        ):
            used()
    monkeypatch.setenv("TIDEGAUGE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(tg.DatabaseAccessError, match="none.toml"):
        used()


def test_passwords_are_never_shown(capsys):
    from tidegauge.cli.main import run_command

    secret = "s3cr3t!"
    for url in (
        f"postgresql+psycopg://user:{secret}@127.0.0.1:1/none",
        f"postgresql+psycopg://user@127.0.0.1:1/none?password={secret}",
    ):
        with pytest.raises(tg.DatabaseAccessError) as caught:
            tg.Repository(url, artifacts="x")
        assert secret not in str(caught.value)
        assert secret not in repr(Database.unchecked(url).name)
        for command in (["metrics"], ["doctor"], ["db", "check"], ["db", "backup"]):
            run_command([*command, "--db", url])
            out = capsys.readouterr()
            assert secret not in out.out + out.err
    with pytest.raises(tg.DatabaseAccessError) as caught:
        tg.Repository(f"postgrsql://user:{secret}@host/db")
    assert secret not in str(caught.value)


def test_a_reader_can_be_used_from_many_threads(url, tmp_path):
    # Lab answers widgets in separate threads.
    with tg.Repository(url, artifacts=tmp_path) as repository:
        commit(repository, day(1))
    with (
        tg.Repository(url, artifacts=tmp_path, read_only=True) as reader,
        ThreadPoolExecutor(4) as pool,
    ):
        assert reader.datasets() == ["d"]
        assert list(pool.map(lambda _: reader.datasets(), range(20))) == [["d"]] * 20


def test_read_only_repositories_write_nothing(bare_url, tmp_path):
    with pytest.raises(tg.TidegaugeError):
        # the database does not exist yet
        tg.Repository(bare_url, artifacts=tmp_path, read_only=True)
    with tg.Repository(bare_url, artifacts=tmp_path) as repository:
        commit(repository, day(1))
    with tg.Repository(bare_url, artifacts=tmp_path, read_only=True) as reader:
        assert len(reader.metrics("d", name="Size")) == 1
        for write in (
            lambda: commit(reader, day(2)),
            lambda: reader.record("d", "x", 1.0),
            lambda: judged(reader),
            lambda: reader.detect("d"),
            lambda: reader.clean(),
        ):
            with pytest.raises(tg.ReadOnlyError, match="read_only=True"):
                write()
        with pytest.raises(sa.exc.DBAPIError), reader.database.engine.begin() as connection:
            connection.execute(sa.delete(s.metric))  # the database itself refuses


def test_a_database_in_a_read_only_folder_can_be_read(tmp_path):
    folder = tmp_path / "frozen"
    folder.mkdir()
    with tg.Repository(f"sqlite:///{folder / 'r.db'}") as repository:
        commit(repository, day(1))
    with sqlite3.connect(folder / "r.db") as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    plain.close()
    for name in ("r.db-wal", "r.db-shm"):
        (folder / name).unlink(missing_ok=True)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with tg.Repository(f"sqlite:///{folder / 'r.db'}", read_only=True) as reader:
            assert len(reader.metrics("d", name="Size")) == 1
    finally:
        folder.chmod(stat.S_IRWXU)


def test_foreign_strings_are_data(shared):
    bad = measurement(tg.Size(where=EVIL), tg.NumMatches(1))
    commit(shared, day(1, extra=[bad]), dataset=EVIL, tags={EVIL: EVIL})
    shared.record(EVIL, EVIL, 1.0, partition="ds=2013-01-01", instance=EVIL, segment=EVIL)
    assert shared.metrics(EVIL, where=EVIL, tags={EVIL: EVIL})["value"].tolist() == [1.0]
    assert shared.metrics(EVIL, name=EVIL, instance=EVIL, segment=EVIL)["value"].tolist() == [1.0]
    with pytest.raises(tg.UnknownNameError, match="unknown status"):
        shared.anomalies(EVIL, status=EVIL)
    for ask in (
        lambda: shared.metrics(EVIL, name=EVIL, since="2013-01-01"),
        lambda: shared.latest(EVIL, segment=EVIL),
        lambda: shared.chart(EVIL, instance=EVIL),
        lambda: shared.restatements(EVIL, name=EVIL),
        lambda: shared.scores(EVIL, name=EVIL),
        lambda: list(shared.pages(EVIL, name=EVIL)),
    ):
        ask()
    for ask in (
        lambda: shared.metrics(EVIL, since=EVIL),
        lambda: shared.metrics(EVIL, window=EVIL),
        lambda: shared.merge(EVIL, EVIL),
        lambda: shared.versions(EVIL, EVIL),
        lambda: shared.label(1, EVIL),
        lambda: shared.clean(versions=EVIL),
    ):
        with pytest.raises(tg.TidegaugeError):
            ask()
    assert shared.datasets() == [EVIL]


def test_names_can_have_any_length_and_any_character(shared):
    """An index cannot contain long names, and PostgreSQL has no zero character."""
    chance = "".join(chr(0x4E00 + (i * 7919) % 20000) for i in range(6000))
    groups = {(chance,): 3, ("with\0zero",): 2}
    commit(shared, day(1, groups=groups))
    shared.record("d", chance, 1.0, partition="ds=2013-01-01", instance=chance, segment=chance)
    names = set(shared.metrics("d")["name"])
    assert any(name.startswith("Histogram.abs.一泯") for name in names)
    assert "Histogram.abs.with\\x00zero" in names
    assert shared.metrics("d", name=chance, segment=chance)["value"].tolist() == [1.0]
    commit(shared, day(1, groups=groups))  # the same again is unchanged
    assert shared.partitions("d")["version"].tolist() == [1]
    with pytest.raises(tg.SuiteError, match="at most 1000 characters"):
        commit(shared, day(1), dataset="x" * 1001)


def test_no_statement_is_composed_of_values():
    """All values are bound parameters. SQL strings contain only our own names."""
    import ast

    for file in (ROOT / "repository").rglob("*.py"):
        for definition in ast.parse(file.read_text()).body:
            # `_copy_schema` copies tables with the definitions that PostgreSQL returns, with quoted
            # names.
            is_known = file.name in {"bulk.py", "database.py", "engines.py"}
            is_known = is_known or getattr(definition, "name", "") == "_copy_schema"
            for node in ast.walk(definition):
                name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
                if name in {"text", "exec_driver_sql"} and node.args:
                    is_constant = isinstance(node.args[0], ast.Constant)
                    assert is_known or is_constant, f"{file.name}:{node.lineno}"


# Maintenance


@pytest.mark.parametrize("place", ["folder", pytest.param("S3", marks=pytest.mark.soak)])
def test_a_backup_is_restored(url, place, tmp_path, monkeypatch, request):
    monkeypatch.setattr("tidegauge.repository.store.stored_states.MAX_DATABASE_BYTES", 100)
    monkeypatch.chdir(tmp_path)
    artifacts = tmp_path / "artifacts"
    if place == "S3":
        artifacts = f"s3a://{request.getfixturevalue('bucket')}/artifacts"
    with tg.Repository(url, artifacts=artifacts) as repository:
        commit(repository, day(1))
        before = repository.metrics("d")
        age = dt.datetime.now(dt.UTC) - repository.artifacts.modified(*repository.artifacts.files())
        assert abs(age) < dt.timedelta(minutes=1)
        copy = back_up(repository.database, repository.artifacts, tmp_path / "copy")
        with pytest.raises(tg.DatabaseAccessError, match="already exists"):
            back_up(repository.database, repository.artifacts, copy)
        commit(repository, day(2), day(1, "b", rows=7))
        for name in repository.artifacts.files():
            repository.artifacts.remove(name)
        with pytest.warns(tg.RepositoryWarning, match=r"lacks 2 large states: .*--artifacts"):
            back_up(repository.database, repository.artifacts, tmp_path / "incomplete")
        kept = restore(repository.database, repository.artifacts, copy)
        assert kept.exists()
        assert not list(tmp_path.glob(".*"))  # the files next to them share their names
        repository.database.engine.dispose()
        assert repository.metrics("d").equals(before)
        assert repository.merge("d", HIST).value["b"].absolute == 1
        assert check(repository.database, repository.artifacts) == []
        commit(repository, day(2))
        (tmp_path / "other").write_text("not a backup, and longer than a hundred bytes " * 9)
        with pytest.raises((tg.NotOurDatabaseError, tg.DatabaseAccessError)):
            restore(repository.database, repository.artifacts, tmp_path / "other")
        with closing(sqlite3.connect(tmp_path / "empty")) as empty:
            empty.execute("CREATE TABLE tidegauge_revision (version_num TEXT)")
            empty.execute("INSERT INTO tidegauge_revision VALUES (?)", (head_revision(),))
            empty.commit()
        with pytest.raises((tg.NotOurDatabaseError, tg.DatabaseAccessError)):
            restore(repository.database, repository.artifacts, tmp_path / "empty")
        with pytest.raises(tg.DatabaseAccessError, match="the backup .* does not exist"):
            restore(repository.database, repository.artifacts, tmp_path / "none")
        assert len(repository.metrics("d", name="Size")) == 2


def test_a_backup_that_fails_leaves_no_file(repo, tmp_path, monkeypatch):
    """It appears once its files exist.

    A restore copies the files before the rows that refer to them.
    """
    monkeypatch.setattr("tidegauge.repository.store.stored_states.MAX_DATABASE_BYTES", 10)
    commit(repo, day(1))
    copy = back_up(repo.database, repo.artifacts, tmp_path / "copy.db")
    commit(repo, day(1, "b", rows=7))
    sizes = repo.metrics("d", name="Size")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidegauge.repository.maintenance.backups._copy_files", full)
    with pytest.raises(tg.DatabaseAccessError, match="cannot write .*second.db: No space left"):
        back_up(repo.database, repo.artifacts, tmp_path / "second.db")
    assert not list(tmp_path.glob("*second*"))
    monkeypatch.setattr("tidegauge.repository.maintenance.backups.back_up", lambda *_: None)
    with pytest.raises(OSError, match="No space left"):
        restore(repo.database, repo.artifacts, copy)
    assert repo.metrics("d", name="Size").equals(sizes)


@pytest.mark.soak
def test_the_command_line_checks_cleans_and_restores_a_database(url, tmp_path, capsys, monkeypatch):
    from tidegauge.cli.main import run_command

    monkeypatch.chdir(tmp_path)
    db = ["--db", url, "--artifacts", str(tmp_path / "a")]
    with tg.Repository(url, artifacts=tmp_path / "a") as repository:
        commit(repository, day(1))
        commit(repository, day(1, "b", rows=7))

    def said(*arguments, status=0):
        assert run_command(["db", *arguments]) == status
        out = capsys.readouterr()
        return out.out + out.err

    assert "no problems found" in said("check", *db)
    assert "would remove 1 version," in said("clean", "--versions", "0d", "--dry-run", *db)
    copy = said("backup", "--to", "copy", *db).strip()
    assert "removed 1 version," in said("clean", "--versions", "0d", *db)
    assert "restored from copy" in said("restore", copy, *db)
    assert "removed 1 version," in said("clean", "--versions", "0d", *db)
    assert "revisions before 0008 are 0005, 0006, 0007" in said("downgrade", "0009", *db, status=1)
    assert "is already at revision 0008" in said("downgrade", "0008", *db)
    assert "removed, but kept in the backup: 0 rows of verdict_notice" in said(
        "downgrade", "0005", *db
    )
    said("restore", copy, *db)
    assert "0008" in said("current", "--db", url)
    assert "no problems found" in said("check", *db)
    assert "invalid age" in said("clean", "--states", "soon", *db, status=1)


# Views


def test_the_views_are_those_of_the_guide(shared):
    """Tools that read them rely on their names and columns."""
    import re

    commit(shared, day(1))
    commit(shared, day(1, "b", rows=20), day(2))
    shared.record("d", "revenue", 2.0, partition="ds=2013-01-01")
    shared.roll_up("d", ["7d"])
    for passed in (False, True):
        judged(shared, partition="ds=2013-01-02", passed=passed)
    text = (ROOT / "docs" / "sql.md").read_text()
    promised = dict(re.findall(r"\| `(v_\w+)` \| .*? \| (.*?) \|", text))
    with shared.database.read() as connection:
        views = sa.inspect(connection).get_view_names()
        assert set(promised) == set(views)
        for view, columns in promised.items():
            result = connection.exec_driver_sql(f"SELECT * FROM {view}")
            names = [f"`{name}`" for name in result.keys()]  # noqa: SIM118 - a result is not a dict
            assert names == columns.split(", ")

        def ask(query):
            return [tuple(row) for row in connection.exec_driver_sql(query)]

        assert ask("SELECT value FROM v_metric WHERE name = 'Size' ORDER BY commit_id, value") == [
            (10,), (10,), (20,),
        ]  # fmt: skip
        assert ask("SELECT value FROM v_latest_metric WHERE name = 'Size' ORDER BY value") == [
            (10,),
            (20,),
        ]
        assert ask("SELECT value FROM v_newest_metric WHERE name = 'Size'") == [(10,)]
        assert ask("SELECT old_value, new_value FROM v_restatement WHERE name = 'Size'") == [
            (10, 20)
        ]
        assert ask("SELECT value FROM v_rollup WHERE name = 'Size' AND window_name = 'total'") == [
            (30,)
        ]
        assert ask('SELECT name, passed, "time" IS NULL FROM v_verdict') == [("c", 1, False)]
        for query in re.findall(r"```sql\n(.*?)```", text, re.S):
            connection.exec_driver_sql(query)


# Filters


def test_filters_are_listed_in_signatures_and_checked_by_name(repo):
    import inspect

    names = list(inspect.signature(repo.metrics).parameters)
    assert names == [
        *("dataset", "name", "instance", "tags", "window", "wide", "analyzer", "where"),
        *("segment", "since", "until", "as_of"),
    ]
    assert "since" not in inspect.signature(repo.latest).parameters
    commit(repo, day(1))
    with pytest.raises(TypeError, match=r"metrics\(\) got .* 'nmae'; did you mean 'name'\?"):
        repo.metrics("d", nmae="Size")
    with pytest.raises(TypeError, match="'since'"):
        repo.latest("d", since="2013-01-01")


def test_examples_of_public_docstrings_do_not_need_pytest():
    """They take sample measurements from a module that does not import it."""
    import subprocess
    import sys

    code = "import sys; sys.modules['pytest'] = None; import tidegauge.repository.testing"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
