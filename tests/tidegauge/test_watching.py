"""Watching all tables below a folder by their metadata, without Spark."""

import importlib.util
import json
import os
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

import tidegauge as tg
from tests.analyzers.columnar.test_table_logs import iceberg_catalog
from tidegauge import watching
from tidegauge.analyzers.columnar.engines import LazySession
from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, SuiteError
from tidegauge.analyzers.runs.recording import Silent
from tidegauge.analyzers.sources import lake
from tidegauge.cli.main import app
from tidegauge.report_page import write_report
from tidegauge.watching import Coverage, watch

NIGHT = timedelta(hours=26)
"""The loads of a day are written at two o'clock of the next day."""


def rows(count, nulls=0, **columns):
    names = pa.array([None] * nulls + ["a"] * (count - nulls))
    return pa.table({"id": pa.array(range(count), pa.int64()), "name": names, **columns})


def write(folder, table, time=None):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "part-0.parquet"
    pq.write_table(table, file)
    if time is not None:
        os.utime(file, (time.timestamp(),) * 2)
    return file


def last_days(count):
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return [today - timedelta(days=n) for n in range(count, 0, -1)]


def write_days(table, days, count=lambda _: 50, **options):
    for i, day in enumerate(days):
        time = min(day + NIGHT, datetime.now(UTC))
        write(table / f"ds={day:%Y-%m-%d}", rows(count(i), **options), time)


def no_spark():
    raise AssertionError("Spark was started")


def coverage(result):
    return {table.dataset: table.coverage for table in result.tables}


def values_of(repo, dataset, partition):
    metrics = repo.metrics(dataset)
    metrics = metrics[metrics["partition"] == partition]
    return {(m.name, m.instance): m.value for m in metrics.itertuples()}


def data_values(repo, dataset, partition):
    """Return the metrics without the numbers of files and bytes."""
    values = values_of(repo, dataset, partition)
    return {key: value for key, value in values.items() if key[0] not in {"Files", "Bytes"}}


@pytest.fixture
def repo(tmp_path):
    with tg.Repository(f"sqlite:///{tmp_path}/repo.db") as repository:
        yield repository


@pytest.fixture
def lake_folder(tmp_path):
    return tmp_path / "lake"


def test_rows_nulls_and_extremes_are_measured_for_each_partition(repo, lake_folder):
    day = pa.array([datetime(2026, 1, 5, 7, tzinfo=UTC)] * 4, pa.timestamp("us", tz="UTC"))
    write(lake_folder / "sales.db" / "orders" / "ds=2026-01-05", rows(4, nulls=1, at=day))
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {"sales.orders": Coverage.MEASURED}
    values = values_of(repo, "sales.orders", "ds=2026-01-05")
    file = lake_folder / "sales.db" / "orders" / "ds=2026-01-05" / "part-0.parquet"
    seconds = datetime(2026, 1, 5, 7, tzinfo=UTC).timestamp()
    assert values == {
        ("Size", "*"): 4,
        ("Completeness", "id"): 1,
        ("Completeness", "name"): 0.75,
        ("Completeness", "at"): 1,
        ("Minimum", "id"): 0,
        ("Maximum", "id"): 3,
        ("MinTime", "at"): seconds,
        ("MaxTime", "at"): seconds,
        ("Files", "*"): 1,
        ("Bytes", "*"): file.stat().st_size,
    }


def test_a_suite_goes_on_from_the_watched_series(repo, lake_folder):
    """The suite measures only what the watch did not; it does not restate partitions."""
    table = lake_folder / "orders"
    write_days(table, last_days(3))
    watch(str(lake_folder), repository=repo)
    suite = tg.Suite("orders", [tg.Size(), tg.Completeness("name"), tg.Mean("id")])
    session = LazySession(no_spark)
    run = tg.analyze(str(table), suite, repository=repo, spark=session, progress=Silent())
    assert set(run.changes.values()) == {"added"}
    assert set(run.metrics()["name"]) == {"Mean"}
    assert set(repo.partitions("orders")["version"]) == {1}
    assert coverage(watch(str(lake_folder), repository=repo)) == {"orders": Coverage.BY_SUITE}


def test_a_profiled_suite_goes_on_from_the_watched_series_without_a_jump(repo, spark, lake_folder):
    """The suite of a profile measures the same numbers as the watch, and stores them in the same series."""
    days = last_days(4)
    moment = pa.array([datetime(2026, 1, 5, 7, tzinfo=UTC)] * 4, pa.timestamp("us", tz="UTC"))
    for n, day in enumerate(days[:3]):
        folder = lake_folder / "sales" / "orders" / f"ds={day:%Y-%m-%d}"
        write(folder, rows(4, nulls=n, at=moment, price=pa.array([1.5, None, 2.5, 9.0])))
    watch(str(lake_folder), repository=repo)
    identity = ["segment", "name", "instance", "analyzer"]
    keys = [*identity, "partition"]
    before = repo.metrics("sales.orders").set_index(keys)["value"]
    suite = tg.profile(str(lake_folder / "sales/orders"), "sales.orders", spark=spark).suite

    def run():
        folder = str(lake_folder / "sales" / "orders")
        return tg.analyze(folder, suite, repository=repo, spark=spark, progress=Silent())

    run()
    after = repo.metrics("sales.orders").set_index(keys)["value"]
    assert after.index.is_unique
    assert after[before.index].equals(before)
    assert len(after) > len(before)
    # Nothing of the watch is measured again, and the whole past would be measured as it is.
    assert set(repo.partitions("sales.orders")["version"]) == {1}
    again = tg.Repository("sqlite://")
    folder = str(lake_folder / "sales" / "orders")
    tg.analyze(folder, suite, repository=again, spark=spark, progress=Silent())
    scanned = again.metrics("sales.orders").set_index(keys)["value"]
    common = scanned.index.intersection(before.index)
    assert {"Size", "Completeness"} <= set(common.get_level_values("name"))
    assert scanned[common].equals(before[common])
    # The next partition is measured in the same series.
    write(lake_folder / "sales" / "orders" / f"ds={days[3]:%Y-%m-%d}", rows(5, nulls=1))
    run()
    series = repo.metrics("sales.orders", name="Completeness", instance="name")
    assert len(series.drop_duplicates(identity)) == 1
    assert series["value"].tolist() == [1, 0.75, 0.5, 0.8]
    again.close()


def test_later_watches_measure_only_tables_whose_listing_moved(repo, lake_folder):
    days = last_days(4)
    for name in ("a", "b"):
        write_days(lake_folder / name, days[:3])
    watch(str(lake_folder), repository=repo)
    write_days(lake_folder / "b", days[3:])
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {"a": Coverage.UNCHANGED, "b": Coverage.MEASURED}
    (run,) = [table.run for table in result.tables if table.run]
    assert dict(run.changes) == {f"ds={days[3]:%Y-%m-%d}": "new"}
    assert len(repo.runs("a")) == 1


def test_the_next_watch_reads_the_facts_of_changed_tables_only(repo, lake_folder):
    """A scan of a table of facts reads the history of all tables, once for each changed table."""
    days = last_days(42)[:40]
    for name in ("a", "b"):
        write_days(lake_folder / name, days[:-1], lambda i: 1000 + 13 * (i % 7))
    watch(str(lake_folder), repository=repo)
    late = days[-1] + NIGHT + timedelta(hours=20)
    write(lake_folder / "b" / f"ds={days[-1]:%Y-%m-%d}", rows(500), late)
    statements = {}
    engine = repo.database.engine

    def remember(_connection, _cursor, statement, parameters, _context, many):
        statements[statement] = parameters[0] if many else parameters

    sa.event.listen(engine, "before_cursor_execute", remember)
    result = watch(str(lake_folder), repository=repo)
    sa.event.remove(engine, "before_cursor_execute", remember)
    (incident,) = (i for i in result.incidents if i["dataset"] == "b")
    assert "volume" in incident["headline"]
    assert "arrived" in incident["headline"]
    facts = {"metric", "score", "state", "partition_version"}
    with engine.connect() as connection:
        for statement, parameters in statements.items():
            if statement.startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                steps = [step.split() for *_, step in plan]
                assert not any(s[0] == "SCAN" and s[1] in facts for s in steps), statement


def test_changed_and_removed_partitions_are_noticed(repo, lake_folder):
    days = last_days(3)
    write_days(lake_folder / "t", days)
    watch(str(lake_folder), repository=repo)
    write(lake_folder / "t" / f"ds={days[0]:%Y-%m-%d}", rows(7))
    shutil.rmtree(lake_folder / "t" / f"ds={days[1]:%Y-%m-%d}")
    watch(str(lake_folder), repository=repo)
    partitions = repo.partitions("t").set_index("partition")
    assert partitions.loc[f"ds={days[0]:%Y-%m-%d}", ["version", "rows"]].tolist() == [2, 7]
    assert partitions["gone_at"].notna().tolist() == [False, True, False]


def test_the_first_watch_measures_the_newest_partitions_and_later_ones_all_since(repo, lake_folder):
    days = last_days(9)
    write_days(lake_folder / "t", days[:5])
    watch(str(lake_folder), repository=repo, sample=2)
    assert len(repo.partitions("t")) == 2
    write_days(lake_folder / "t", days[5:])
    watch(str(lake_folder), repository=repo, sample=2)
    assert len(repo.partitions("t")) == 6


def planted(lake_folder):
    """Write six tables of sixty days, five with a fault in the newest."""
    days = last_days(60)

    def usual(i):
        return 1000 + 13 * (i % 7) + (i * 7919) % 11

    for name in ("fine", "half", "empty", "nulls", "dropped", "typed"):
        write_days(lake_folder / name, days, usual)
    faults = {
        "half": rows(500),
        "empty": rows(1).slice(1),
        "nulls": rows(1040, nulls=400),
        "dropped": rows(1040).drop_columns("name"),
        "typed": rows(1040).set_column(0, "id", pa.array(["x"] * 1040)),
    }
    for name, table in faults.items():
        write(lake_folder / name / f"ds={days[-1]:%Y-%m-%d}", table, days[-1] + timedelta(hours=24))
    write_days(lake_folder / "stopped", days[:-5], usual)


def test_planted_faults_are_incidents(repo, lake_folder):
    planted(lake_folder)
    result = watch(str(lake_folder), repository=repo)
    headlines = {i["dataset"]: i["headline"] for i in result.incidents}
    assert headlines.keys() == {"half", "empty", "nulls", "dropped", "typed", "stopped"}
    assert "volume -5" in headlines["half"]
    assert "name" in headlines["dropped"]
    assert result.status() == 0
    screen = result.text()
    assert "7 tables: 7 measured" in screen
    assert "stopped: " in screen
    # The other faults are of different kinds, so they have different causes.
    grouped = {i["dataset"] for i in result.incidents if i["group"] is not None}
    assert grouped == {"half", "empty"}
    assert "fewer rows in 2 tables: " in screen
    assert "5 open incidents in 6 tables" in screen


def test_a_table_without_changes_is_reported_when_a_partition_is_overdue(repo, lake_folder):
    days = last_days(40)
    write_days(lake_folder / "t", days[:-5])
    result = watch(str(lake_folder), repository=repo)
    assert [i["dataset"] for i in result.incidents] == ["t"]
    (table,) = watch(str(lake_folder), repository=repo).tables
    assert (table.coverage, table.is_due) == (Coverage.UNCHANGED, True)
    write_days(lake_folder / "t", days[-5:])
    watch(str(lake_folder), repository=repo)
    (table,) = watch(str(lake_folder), repository=repo).tables
    assert (table.coverage, table.is_due) == (Coverage.UNCHANGED, False)


def test_an_unpartitioned_table_has_a_point_for_each_day_on_which_it_changed(repo, lake_folder):
    for day in (3, 4, 5):
        for hour, count in ((1, 10), (2, 10 * day)):  # the last change of a day counts
            write(lake_folder / "t", rows(count), datetime(2026, 1, day, hour, tzinfo=UTC))
            watch(str(lake_folder), repository=repo)
    sizes = repo.metrics("t.snapshots")
    sizes = sizes[sizes["name"] == "Size"]
    assert sizes[["partition", "value"]].to_numpy().tolist() == [
        ["snapshot=2026-01-03", 30],
        ["snapshot=2026-01-04", 40],
        ["snapshot=2026-01-05", 50],
    ]
    assert repo.partitions("t.snapshots")["gone_at"].isna().all()


ODD = {
    "csvs": ("a.csv", b"a\n1\n"),
    "broken": ("a.parquet", b"nope"),
    "delta/_delta_log": ("00000000000000000000.json", b"{}"),
    "ice/metadata": ("v1.metadata.json", b"{}"),
}


def test_tables_that_cannot_be_read_are_listed_with_the_reason(repo, lake_folder):
    for folder, (name, content) in ODD.items():
        (lake_folder / folder).mkdir(parents=True)
        (lake_folder / folder / name).write_bytes(content)
    (lake_folder / "nothing" / "ds=2026-01-01").mkdir(parents=True)
    (lake_folder / "README.md").write_text("the lake")
    write(lake_folder / "mixed" / "ds=2026-01-01", rows(1))
    write(lake_folder / "mixed" / "country=DE", rows(1))
    write(lake_folder / "outer", rows(1))
    write(lake_folder / "outer" / "inner", rows(1))
    types = lake_folder / "types" / "ds=2026-01-01"
    write(types, rows(1), datetime(2026, 1, 1, tzinfo=UTC))  # the columns of newer files come first
    pq.write_table(pa.table({"id": ["a"]}), types / "b.parquet")
    result = watch(str(lake_folder), repository=repo)
    reasons = {t.dataset: t.reason for t in result.tables if t.coverage is Coverage.UNSUPPORTED}
    assert reasons.keys() == {"csvs"}
    assert reasons["csvs"].startswith("its format is csv")
    failed = dict(line.split(": ", 1) for line in result.failed)
    assert failed == {
        "broken": failed["broken"],
        "delta": failed["delta"],
        "ice": failed["ice"],
        "mixed": "its files are under different partition columns: country and ds",
        "outer": "its folder has data files, and also contains 1 other table such as outer/inner;"
        " move the files into a folder of their own",
        "types": "ds=2026-01-01 cannot be read: its files have different types of 'id': string and long",
    }
    assert "Delta" in failed["delta"]
    assert "Iceberg" in failed["ice"]
    assert failed["broken"].endswith("a.parquet: it is not a complete Parquet file")
    assert result.status() == 1


def test_a_partition_that_cannot_be_read_does_not_hide_the_others(repo, lake_folder):
    days = last_days(3)
    write_days(lake_folder / "t", days)
    (lake_folder / "t" / f"ds={days[1]:%Y-%m-%d}" / "part-0.parquet").write_bytes(b"nope")
    result = watch(str(lake_folder), repository=repo)
    assert len(repo.partitions("t")) == 2
    assert result.status() == 1
    assert f"t: ds={days[1]:%Y-%m-%d} cannot be read: part-0.parquet" in result.text()
    write(lake_folder / "t" / f"ds={days[1]:%Y-%m-%d}", rows(3))
    assert watch(str(lake_folder), repository=repo).status() == 0
    assert len(repo.partitions("t")) == 3


def test_folders_without_permission_do_not_hide_the_others(repo, lake_folder, monkeypatch):
    """Tests can run as root, who may list everything, so the listing is refused here."""
    write(lake_folder / "open" / "ds=2026-01-01", rows(1))
    write(lake_folder / "shut" / "ds=2026-01-01", rows(1))
    list_below = lake._list_below

    class Guarded:
        def __init__(self, system):
            self.system = system

        def get_file_info(self, selector):
            infos = self.system.get_file_info(selector)
            shut = str(lake_folder / "shut")
            base = getattr(selector, "base_dir", "")
            covers = base == shut or (
                getattr(selector, "recursive", False) and shut.startswith(base)
            )
            if covers:
                raise PermissionError(13, f"Permission denied: {shut}")
            return infos

    monkeypatch.setattr(lake, "_list_below", lambda system, root: list_below(Guarded(system), root))
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {"open": Coverage.MEASURED}
    assert result.failed == ["shut: cannot list its files: permission denied"]


@pytest.mark.parametrize("column", ["a b", "x.y", "ü", "`q`", "select"])
def test_columns_can_have_any_name(repo, lake_folder, column):
    table = pa.table({column: pa.array([1, None], pa.int64())})
    write(lake_folder / "my table" / "v1.2" / "ds=2026-01-01", table)
    watch(str(lake_folder), repository=repo)
    values = data_values(repo, "my table.v1.2", "ds=2026-01-01")
    assert {name: value for (name, _), value in values.items()} == {
        "Size": 2,
        "Completeness": 0.5,
        "Minimum": 1,
        "Maximum": 1,
    }


def test_nested_columns_of_other_writers_show_in_the_schema(repo, lake_folder):
    days = last_days(20)
    for day in days:
        value = {"a": 1 if day < days[-1] else "x"}
        table = pa.table({"s": [value], "l": [[1]], "n": pa.array([1], pa.timestamp("ns"))})
        write(lake_folder / "t" / f"ds={day:%Y-%m-%d}", table, day + timedelta(hours=24))
    result = watch(str(lake_folder), repository=repo)
    assert result.status() == 0
    assert set(repo.metrics("t")["name"]) == {"Size", "Files", "Bytes"}
    (incident,) = result.incidents
    assert "schema" in incident["headline"]


def test_tables_with_the_same_name_get_different_datasets(repo, lake_folder):
    write(lake_folder / "a.b" / "c" / "ds=2026-01-01", rows(1))
    write(lake_folder / "a" / "b.c" / "ds=2026-01-01", rows(2))
    first = coverage(watch(str(lake_folder), repository=repo))
    assert first.keys() == {"a.b.c", "a/b.c"}
    assert coverage(watch(str(lake_folder), repository=repo)).keys() == first.keys()


def test_a_retired_dataset_is_not_measured(repo, lake_folder):
    write(lake_folder / "t" / "ds=2026-01-01", rows(1))
    watch(str(lake_folder), repository=repo)
    repo.retire("t")
    write(lake_folder / "t" / "ds=2026-01-02", rows(1))
    assert coverage(watch(str(lake_folder), repository=repo)) == {"t": Coverage.RETIRED}


def test_patterns_choose_tables(repo, lake_folder):
    for name in ("eu/orders", "eu/items", "us/orders", "us/tmp_orders"):
        write(lake_folder / name / "ds=2026-01-01", rows(1))
    plan = watch(str(lake_folder), repository=repo, include=["us.*"], dry_run=True)
    assert coverage(plan).keys() == {"us.orders", "us.tmp_orders"}
    plan = watch(str(lake_folder), repository=repo, exclude=["*.tmp_*"], dry_run=True)
    assert coverage(plan).keys() == {"eu.orders", "eu.items", "us.orders"}
    plan = watch(f"{lake_folder}/*/orders", repository=repo, dry_run=True)
    assert coverage(plan).keys() == {"eu.orders", "us.orders"}
    plan = watch(f"{lake_folder}/e*", repository=repo, dry_run=True)
    assert coverage(plan).keys() == {"eu.orders", "eu.items"}
    plan = watch([f"{lake_folder}/eu", f"{lake_folder}/us"], repository=repo, dry_run=True)
    assert len(plan.tables) == 4
    assert {t.coverage for t in plan.tables} == {Coverage.PLANNED}
    assert repo.datasets() == []


def test_a_failed_detection_is_repeated_by_the_next_watch(repo, lake_folder, monkeypatch):
    for name in ("a", "b"):
        write_days(lake_folder / name, last_days(40)[:-5])
    detect = watching.detect

    def fail_b(database, artifacts, names, *settings):
        done = detect(database, artifacts, [n for n in names if n != "b"], *settings)
        return replace(done, failed={"b": ValueError("no memory")})

    monkeypatch.setattr(watching, "detect", fail_b)
    result = watch(str(lake_folder), repository=repo)
    assert result.failed == ["detection in b: ValueError: no memory"]
    assert result.status() == 1
    monkeypatch.undo()
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {"a": Coverage.UNCHANGED, "b": Coverage.MEASURED}
    assert {incident["dataset"] for incident in result.incidents} == {"a", "b"}


def test_limits_stop_before_the_next_table_and_the_next_watch_resumes(repo, lake_folder):
    for name in "ab":
        write(lake_folder / name / "ds=2026-01-01", rows(1))
    result = watch(str(lake_folder), repository=repo, minutes=1e-9)
    assert set(coverage(result).values()) == {Coverage.NOT_REACHED}
    assert "the time limit" in result.stopped
    result = watch(str(lake_folder), repository=repo, memory_mb=1)
    assert "1 MiB" in result.stopped
    assert "the next watch resumes" in result.text()
    result = watch(str(lake_folder), repository=repo, jobs=2)
    assert set(coverage(result).values()) == {Coverage.MEASURED}


@pytest.mark.parametrize("limit", ["sample", "minutes", "memory_mb"])
def test_limits_are_positive(repo, lake_folder, limit):
    with pytest.raises(SuiteError, match=f"Invalid {limit}=-1: use a number above 0"):
        watch(str(lake_folder), repository=repo, **{limit: -1})


def test_a_folder_has_one_location(repo, lake_folder, monkeypatch):
    write(lake_folder / "t" / "ds=2026-01-01", rows(1))
    watch(str(lake_folder), repository=repo)
    monkeypatch.chdir(lake_folder / "t")
    for folder in ("..", f"{lake_folder}//", f"{lake_folder}/../lake/.", f"file://{lake_folder}"):
        assert coverage(watch(folder, repository=repo)) == {"t": Coverage.UNCHANGED}


def test_a_table_whose_partition_columns_changed_gets_another_dataset(repo, lake_folder):
    table = lake_folder / "t"
    for folder, dataset in (
        ("ds=2026-01-01", "t"),
        ("", "t.snapshots"),
        ("day=2026-01-01", "t.by_day"),
        ("ds=2026-01-01", "t"),
    ):
        shutil.rmtree(table, ignore_errors=True)
        write(table / folder, rows(1))
        assert coverage(watch(str(lake_folder), repository=repo)) == {dataset: Coverage.MEASURED}
        assert coverage(watch(str(lake_folder), repository=repo)) == {dataset: Coverage.UNCHANGED}
    shutil.rmtree(table)
    write(table, rows(1))
    repo.rename("t.snapshots", "t.daily")
    assert coverage(watch(str(lake_folder), repository=repo)) == {"t.daily": Coverage.MEASURED}


def test_a_link_to_a_folder_above_is_not_followed(repo, lake_folder):
    """Two such links would be followed 2 ** 40 times."""
    write(lake_folder / "eu" / "t" / "ds=2026-01-01", rows(1))
    (lake_folder / "us").mkdir()
    for link, target in (("all", "."), ("eu/up", ".."), ("eu/us", "../us"), ("us/eu", "../eu")):
        os.symlink(target, lake_folder / link, target_is_directory=True)
    os.symlink("missing", lake_folder / "broken")
    os.symlink("eu/t", lake_folder / "copy", target_is_directory=True)
    assert coverage(watch(str(lake_folder), repository=repo, dry_run=True)).keys() == {
        "eu.t",
        "us.eu.t",
        "copy",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_not_utf_8_does_not_hide_the_other_tables(repo, lake_folder):
    write(lake_folder / "a" / "t" / "ds=2026-01-01", rows(1))
    (lake_folder / "b").mkdir()
    os.makedirs(os.fsencode(lake_folder / "b") + b"/\xff")
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {"a.t": Coverage.MEASURED}
    reason = "cannot list its files: the name of a file or folder in it is not UTF-8"
    assert result.failed == [f"b: {reason}"]


def test_a_folder_with_brackets_in_its_name_is_not_a_pattern(repo, lake_folder):
    write(lake_folder / "t[1]" / "ds=2026-01-01", rows(1))
    write(lake_folder / "t1" / "ds=2026-01-01", rows(1))
    assert coverage(watch(f"{lake_folder}/t[1]", repository=repo)).keys() == {"t[1]"}
    assert coverage(watch(f"{lake_folder}/t[1-2]", repository=repo)).keys() == {"t1"}
    with pytest.raises(NoSuchTableError, match=r"no table matches '.*t\[3-4\]'"):
        watch(f"{lake_folder}/t[3-4]", repository=repo)


def test_a_missing_folder_is_an_error(repo, tmp_path):
    with pytest.raises(NoSuchTableError, match="no folder '.*missing'"):
        watch(str(tmp_path / "missing"), repository=repo)


def test_private_columns_have_no_extremes(repo, lake_folder, monkeypatch, tmp_path):
    (tmp_path / "tidegauge.toml").write_text('[private]\ncolumns = ["id"]\n')
    monkeypatch.chdir(tmp_path)
    write(lake_folder / "t" / "ds=2026-01-01", rows(3))
    watch(str(lake_folder), repository=repo)
    names = set(repo.metrics("t")["name"])
    assert names == {"Size", "Completeness", "Files", "Bytes"}


def test_the_command_prints_one_screen(lake_folder, tmp_path):
    planted(lake_folder)
    arguments = ["watch", str(lake_folder), "--db", f"sqlite:///{tmp_path}/new.db"]
    runner = CliRunner()
    plan = runner.invoke(app, [*arguments, "--dry-run"])
    assert plan.exit_code == 0, plan.output
    assert "7 to be measured" in plan.output
    assert f"dropped: {lake_folder}/dropped" in plan.output
    assert "no open incidents" not in plan.output
    assert not (tmp_path / "new.db").exists()
    first = runner.invoke(app, [*arguments, "--fail-on-incident"], standalone_mode=False)
    assert first.return_value == 2
    assert "7 tables: 7 measured" in first.output
    again = runner.invoke(app, [*arguments, "--format", "json"], standalone_mode=False)
    results = json.loads(again.output)
    assert again.return_value == 0
    assert {t["coverage"] for t in results["tables"]} == {"unchanged"}
    assert {i["dataset"] for i in results["incidents"]} > {"half", "stopped"}
    junit = runner.invoke(app, [*arguments, "--format", "junit"], standalone_mode=False)
    assert junit.output.count("<testsuite ") == 8


@pytest.fixture
def catalog(tmp_path):
    with iceberg_catalog(tmp_path, tmp_path / "lake") as catalog:
        yield catalog


def two_days(nulls=0):
    days = pa.array(["2026-01-01"] * 4 + ["2026-01-02"] * 6)
    return rows(10, nulls, ds=days)


FIRST_DAY = {
    ("Size", "*"): 4,
    ("Completeness", "id"): 1,
    ("Completeness", "name"): 0.5,
    ("Minimum", "id"): 0,
    ("Maximum", "id"): 3,
}
"""The metrics of the first of `two_days` with two nulls."""


def test_delta_partitions_are_measured_by_the_log(repo, lake_folder):
    location = lake_folder / "db" / "t"
    write_deltalake(location, two_days(nulls=2), partition_by=["ds"])
    assert coverage(watch(str(lake_folder), repository=repo)) == {"db.t": Coverage.MEASURED}
    assert data_values(repo, "db.t", "ds=2026-01-01") == FIRST_DAY
    arrived = repo.partitions("db.t")["arrived_at"]
    assert coverage(watch(str(lake_folder), repository=repo)) == {"db.t": Coverage.UNCHANGED}
    session = LazySession(no_spark)
    suite = tg.Suite("db.t", [tg.Size()], partition_by=["ds"])
    run = tg.analyze(str(location), suite, repository=repo, spark=session, progress=Silent())
    assert run.report.scanned == 0
    # Compaction rewrites files, but it is no arrival.
    write_deltalake(location, two_days().slice(4), mode="append")
    DeltaTable(location).optimize.compact()
    watch(str(lake_folder), repository=repo)
    now = repo.partitions("db.t")["arrived_at"]
    assert now[0] == arrived[0]


def test_a_compacted_delta_partition_keeps_its_arrival_and_version(repo, lake_folder):
    location = lake_folder / "t"
    for _ in range(2):
        write_deltalake(location, two_days(), partition_by=["ds"], mode="append")
    watch(str(lake_folder), repository=repo)
    before = repo.partitions("t")
    DeltaTable(location).optimize.compact()
    assert coverage(watch(str(lake_folder), repository=repo)) == {"t": Coverage.MEASURED}
    after = repo.partitions("t")
    assert after["version"].tolist() == [1, 1]
    assert after["arrived_at"].tolist() == before["arrived_at"].tolist()


def delta_at(location, table, time, version, **options):
    """Write a version of a Delta table as if at a time."""
    write_deltalake(location, table, mode="overwrite", **options)
    commit = location / "_delta_log" / f"{version:020}.json"
    stamp = int(time.timestamp() * 1000)
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = stamp
    commit.write_text("\n".join(map(json.dumps, actions)))
    os.utime(commit, (time.timestamp(),) * 2)


def test_an_unpartitioned_delta_table_has_a_past_on_the_first_day(repo, lake_folder):
    for version, (day, count) in enumerate([(1, 10), (2, 20), (2, 25), (4, 40)]):
        time = datetime(2026, 1, day, 3 + version, tzinfo=UTC)
        delta_at(lake_folder / "t", rows(count), time, version)
    watch(str(lake_folder), repository=repo)
    sizes = repo.metrics("t.snapshots", name="Size")
    assert sizes[["partition", "value"]].to_numpy().tolist() == [
        ["snapshot=2026-01-01", 10],
        ["snapshot=2026-01-02", 25],
        ["snapshot=2026-01-04", 40],
    ]
    completeness = repo.metrics("t.snapshots", name="Completeness")
    assert set(completeness["partition"]) == {"snapshot=2026-01-04"}
    arrived = repo.partitions("t.snapshots")["arrived_at"]
    assert arrived.dt.hour.tolist() == [3, 5, 6]


def test_iceberg_partitions_are_measured_by_their_manifests(repo, lake_folder, catalog):
    table = catalog.create_table("db.t", schema=two_days().schema)
    with table.update_spec() as spec:
        spec.add_identity("ds")
    table.append(two_days(nulls=2))
    assert coverage(watch(str(lake_folder), repository=repo)) == {"db.t": Coverage.MEASURED}
    assert data_values(repo, "db.t", "ds=2026-01-01") == FIRST_DAY
    assert repo.partitions("db.t")["arrived_at"].notna().all()
    assert coverage(watch(str(lake_folder), repository=repo)) == {"db.t": Coverage.UNCHANGED}
    table.append(two_days().slice(4))
    watch(str(lake_folder), repository=repo)
    assert values_of(repo, "db.t", "ds=2026-01-02")["Size", "*"] == 12
    assert repo.partitions("db.t")["version"].tolist() == [1, 2]


def test_an_unpartitioned_iceberg_table_has_a_point_for_a_day(repo, lake_folder, catalog):
    table = catalog.create_table("db.t", schema=rows(1).schema)
    for count in (10, 20):
        table.append(rows(count, nulls=3))
    watch(str(lake_folder), repository=repo)
    (partition,) = repo.partitions("db.t.snapshots")["partition"]
    values = values_of(repo, "db.t.snapshots", partition)
    assert values["Size", "*"] == 30
    assert values["Completeness", "name"] == 0.8


@pytest.mark.parametrize("package", ["deltalake", "pyiceberg"])
def test_a_missing_package_is_named(repo, lake_folder, monkeypatch, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    log = {"deltalake": "delta/_delta_log", "pyiceberg": "ice/metadata"}[package]
    name, content = ODD[log]
    (lake_folder / log).mkdir(parents=True)
    (lake_folder / log / name).write_bytes(content)
    (line,) = watch(str(lake_folder), repository=repo).failed
    assert f"the package {package} is not installed" in line


def test_a_catalog_pattern_needs_a_session(repo, monkeypatch):
    monkeypatch.setattr(watching, "active_session", lambda: None)
    with pytest.raises(SourceError, match="pattern of Spark's catalog, which needs a session"):
        watch("warehouse.*", repository=repo)


def test_a_catalog_is_watched_without_scanning(repo, spark, tmp_path):
    """Views and tables that cannot be read are listed, and a suite goes on under the name of the table."""
    spark.sql("DROP DATABASE IF EXISTS watched CASCADE")
    spark.sql("CREATE DATABASE watched")
    days = "VALUES (1L, 'a', '2026-01-01'), (2L, NULL, '2026-01-01'), (3L, 'c', '2026-01-02') AS t(id, name, ds)"
    try:
        spark.sql(
            f"CREATE TABLE watched.orders USING parquet PARTITIONED BY (ds) AS SELECT * FROM {days}"
        )
        spark.sql("CREATE TABLE watched.texts USING csv AS SELECT 1 AS a")
        spark.sql(f"CREATE TABLE watched.lost (a INT) USING parquet LOCATION '{tmp_path}/lost'")
        shutil.rmtree(tmp_path / "lost", ignore_errors=True)
        spark.sql("CREATE VIEW watched.seen AS SELECT 1 AS a")
        for form in ("PARQUET", "ORC"):
            name = f"watched.hive_{form.lower()}"
            spark.sql(
                f"CREATE TABLE {name} (id BIGINT) PARTITIONED BY (ds STRING) STORED AS {form}"
            )
            spark.sql(f"INSERT INTO {name} PARTITION (ds='2026-01-01') VALUES (7L), (NULL)")
        result = watch("watched.*", repository=repo, spark=spark)
        assert coverage(result) == {
            "watched.orders": Coverage.MEASURED,
            "watched.hive_parquet": Coverage.MEASURED,
            "watched.hive_orc": Coverage.UNSUPPORTED,
            "watched.texts": Coverage.UNSUPPORTED,
            "watched.seen": Coverage.UNSUPPORTED,
        }
        (failed,) = result.failed
        assert failed.startswith("watched.lost: ")
        assert data_values(repo, "watched.orders", "ds=2026-01-01") == {
            ("Size", "*"): 2,
            ("Completeness", "id"): 1,
            ("Completeness", "name"): 0.5,
            ("Minimum", "id"): 1,
            ("Maximum", "id"): 2,
        }
        of_hive = data_values(repo, "watched.hive_parquet", "ds=2026-01-01")
        assert {name: value for (name, _), value in of_hive.items()} == {
            "Size": 2,
            "Completeness": 0.5,
            "Minimum": 7,
            "Maximum": 7,
        }
        spark.sql("DROP TABLE watched.hive_parquet")
        dropped = coverage(watch("watched.*", repository=repo, spark=spark))
        assert dropped["watched.hive_parquet"] is Coverage.NOT_SEEN
        assert dropped["watched.orders"] is Coverage.UNCHANGED
        suite = tg.Suite("watched.orders", [tg.Size(), tg.Completeness("name")])
        run = tg.analyze("watched.orders", suite, repository=repo, spark=spark)
        assert run.report.scanned == 0
    finally:
        spark.sql("DROP DATABASE watched CASCADE")


SETTINGS = """
exclude: ["*.tmp_*"]
tables:
  "*": {owner: data@example.org, tier: 2}
  sales.*: {tier: 1}
  sales.old: {muted: true}
  raw.*: {exclude: true}
"""


def test_a_file_names_owners_tiers_exclusions_and_muted_tables(repo, lake_folder, tmp_path):
    file = tmp_path / "watch.yml"
    file.write_text(SETTINGS)
    days = last_days(40)
    for name in ("sales/old", "sales/new", "sales/tmp_x", "raw/events"):
        write_days(lake_folder / name, days[:-5])
    result = watch(str(lake_folder), repository=repo, settings=file)
    assert coverage(result) == {"sales.old": Coverage.MEASURED, "sales.new": Coverage.MEASURED}
    (run,) = repo.runs("sales.old")["tags"]
    assert {**run, "watch": ""} == {
        "owner": "data@example.org",
        "tier": "1",
        "muted": "true",
        "watch": "",
    }
    assert [i["dataset"] for i in result.incidents] == ["sales.new"]
    assert [i["dataset"] for i in result.muted_incidents] == ["sales.old"]
    assert "muted: 1 open incident in sales.old" in result.text()
    # The tag of the last run counts if no file says otherwise.
    again = watch(str(lake_folder), repository=repo)
    assert {t.dataset: t.is_muted for t in again.tables if t.dataset == "sales.old"} == {
        "sales.old": True
    }


def test_settings_of_an_unpartitioned_table_name_the_table_or_its_dataset(
    repo, lake_folder, tmp_path
):
    for name in ("a", "b", "c"):
        write(lake_folder / name, rows(1))
    file = tmp_path / "watch.yml"
    file.write_text("tables:\n  a: {muted: true}\n  b.snapshots: {muted: true}\n")
    for _ in range(2):  # measured, and unchanged
        result = watch(str(lake_folder), repository=repo, settings=file)
        muted = {table.dataset for table in result.tables if table.is_muted}
        assert muted == {"a.snapshots", "b.snapshots"}


def test_including_no_table_is_an_error(repo, lake_folder, tmp_path):
    """A watch with a misspelled pattern would pass forever."""
    for name in "abcdef":
        write(lake_folder / name / "ds=2026-01-01", rows(1))
    message = "no table is included by 'x', 'y'; there are: a, b, c, d, e and 1 more$"
    with pytest.raises(NoSuchTableError, match=message):
        watch(str(lake_folder), repository=repo, include=["x", "y"])
    (tmp_path / "watch.yml").write_text("include: [x]\n")
    with pytest.raises(NoSuchTableError, match="no table is included by 'x'"):
        watch(str(lake_folder), repository=repo, settings=tmp_path / "watch.yml")
    assert watch(str(lake_folder), repository=repo, exclude=["*"]).tables == []


def test_notifications_leave_out_muted_tables(repo, lake_folder, tmp_path, caplog):
    file = tmp_path / "watch.yml"
    file.write_text("notify: [log]\ntables:\n  quiet: {muted: true}\n")
    for name in ("loud", "quiet"):
        write_days(lake_folder / name, last_days(40)[:-5])
    result = watch(str(lake_folder), repository=repo, settings=file)
    (notice,) = result.notices
    assert (notice.error, notice.incident) == ("", result.incidents[0]["id"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tables: {a: {muted: maybe}}", "muted"),
        ("tables: {a: {owners: x}}", "owner"),
        ("includes: [a]", "include"),
    ],
)
def test_errors_in_the_file_name_the_line(repo, lake_folder, tmp_path, text, problem):
    lake_folder.mkdir()
    file = tmp_path / "watch.yml"
    file.write_text(text)
    with pytest.raises(SuiteError, match=rf"watch.yml:1: .*{problem}"):
        watch(str(lake_folder), repository=repo, settings=file)


def test_properties_of_a_table_are_settings(repo, lake_folder, catalog):
    for name, properties in {
        "muted": {"tidegauge.muted": "true", "tidegauge.owner": "ann"},
        "left": {"tidegauge.exclude": "true"},
        "wrong": {"tidegauge.muted": "perhaps"},
    }.items():
        table = catalog.create_table(f"db.{name}", two_days().schema, properties=properties)
        table.append(two_days())
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {
        "db.muted.snapshots": Coverage.MEASURED,
        "db.left.snapshots": Coverage.EXCLUDED,
    }
    assert [t.dataset for t in result.tables if t.is_muted] == ["db.muted.snapshots"]
    assert repo.runs("db.muted.snapshots")["tags"][0]["owner"] == "ann"
    assert result.failed == [
        "db.wrong: invalid property tidegauge.muted='perhaps': use true or false"
    ]


def test_a_table_that_disappeared_is_listed(repo, lake_folder):
    for name in ("a", "b"):
        write_days(lake_folder / name, last_days(2))
    watch(str(lake_folder), repository=repo)
    shutil.rmtree(lake_folder / "b")
    result = watch(str(lake_folder), repository=repo)
    assert coverage(result) == {"a": Coverage.UNCHANGED, "b": Coverage.NOT_SEEN}
    assert "b: its folder has no table anymore" in result.text()
    again = watch(str(lake_folder), repository=repo)
    assert "1 not seen" in again.text()
    assert "its folder has no table" not in again.text()
    write_days(lake_folder / "b", last_days(2))
    assert coverage(watch(str(lake_folder), repository=repo))["b"] is Coverage.MEASURED
    shutil.rmtree(lake_folder / "b")
    watch(str(lake_folder), repository=repo)
    repo.retire("b")
    assert coverage(watch(str(lake_folder), repository=repo)) == {"a": Coverage.UNCHANGED}


@pytest.mark.parametrize("log", [False, True])
def test_patterns_name_unpartitioned_tables_with_or_without_their_ending(repo, lake_folder, log):
    if log:
        write_deltalake(lake_folder / "db" / "flat", rows(3))
    else:
        write(lake_folder / "db" / "flat", rows(3))
    write(lake_folder / "db" / "parted" / "ds=2026-01-01", rows(3))

    def names(**patterns):
        tables = watch(str(lake_folder), repository=repo, **patterns).tables
        return sorted(t.dataset for t in tables if t.coverage is not Coverage.EXCLUDED)

    both = ["db.flat.snapshots", "db.parted"]
    assert names(exclude=["*.snapshots"]) == ["db.parted"]
    assert names(exclude=["db.parted.snapshots"]) == both
    for name in ("db.flat", "db.flat.snapshots"):
        assert names(exclude=[name]) == ["db.parted"]
        assert names(include=[name]) == ["db.flat.snapshots"]


class FakeCatalog:
    """A session whose catalog answers listings from a dictionary of databases; an error replaces a database."""

    def __init__(self, databases):
        self.databases = databases
        self.catalog = SimpleNamespace(currentDatabase=lambda: "a", currentCatalog=lambda: "lake")

    def sql(self, query):
        if query.startswith("SHOW NAMESPACES"):
            rows = [(name,) for name in self.databases]
        elif query.startswith("SHOW VIEWS"):
            raise RuntimeError("catalog lake does not support views")
        else:
            tables = self.databases[query.rpartition(".")[2].strip("`")]
            if isinstance(tables, Exception):
                raise tables
            rows = [{"tableName": name, "isTemporary": False} for name in tables]
        return SimpleNamespace(collect=lambda: rows)


@pytest.fixture
def described(monkeypatch, lake_folder):
    """Describe each table of a catalog as a folder."""

    def describe(_spark, table):
        location = str(lake_folder / table.path)
        (found,) = lake.find_tables(location)
        return replace(found, path=table.path, catalog_name=table.catalog_name)

    monkeypatch.setattr(lake, "_described", describe)
    for name in ("a/x", "a/y", "b/x"):
        write_days(lake_folder / name, last_days(2))


@pytest.mark.usefixtures("described")
def test_a_table_dropped_from_a_catalog_is_listed_once(repo):
    databases = {"a": ["x", "y"], "b": ["x"]}
    spark = FakeCatalog(databases)
    assert len(watch("*.*", repository=repo, spark=spark).tables) == 3
    databases["a"] = ["x"]
    assert "a.y" not in coverage(watch("*.x", repository=repo, spark=spark))
    assert "a.y" not in coverage(watch("b.*", repository=repo, spark=spark))
    result = watch("*.*", repository=repo, spark=spark)
    assert coverage(result)["a.y"] is Coverage.NOT_SEEN
    assert "a.y: the catalog does not have it anymore; retire it" in result.text()
    result = watch("*.*", repository=repo, spark=spark)
    assert "1 not seen" in result.text()
    assert "a.y" not in result.text()
    databases["b"] = []
    assert coverage(watch("b.*", repository=repo, spark=spark)) == {"b.x": Coverage.NOT_SEEN}
    with pytest.raises(NoSuchTableError, match="no table of Spark's catalog matches 'b.z'"):
        watch("b.z", repository=repo, spark=spark)
    with pytest.raises(NoSuchTableError, match="no database of catalog lake matches 'c'"):
        watch("c.*", repository=repo, spark=spark)


@pytest.mark.usefixtures("described")
def test_a_database_that_cannot_be_listed_does_not_hide_the_others(repo):
    databases = {"a": ["x", "y"], "b": ["x"]}
    spark = FakeCatalog(databases)
    watch("*.*", repository=repo, spark=spark)
    databases["a"] = PermissionError("ann may not list a")
    result = watch("*.*", repository=repo, spark=spark)
    assert coverage(result) == {"b.x": Coverage.UNCHANGED}
    assert result.failed == ["a: cannot list its tables: PermissionError: ann may not list a"]


def test_tables_that_disappeared_are_listed_only_where_the_watch_looked(
    repo, lake_folder, monkeypatch
):
    for name in ("eu/a", "us/a", "us/b.c"):
        write(lake_folder / name / "ds=2026-01-01", rows(1))
    watch(str(lake_folder), repository=repo)
    shutil.rmtree(lake_folder / "us" / "a")
    unseen = {"us.a": Coverage.NOT_SEEN}
    assert unseen.items() <= coverage(watch(f"{lake_folder}/u*", repository=repo)).items()
    assert "us.a" not in coverage(watch(f"{lake_folder}/*/b*", repository=repo))
    assert "us.a" not in coverage(watch(str(lake_folder), repository=repo, exclude=["*.a"]))
    assert coverage(watch(str(lake_folder), repository=repo, include=["us.a"])) == unseen
    denied = lake.LakeTable("us", f"{lake_folder}/us", problem="permission denied")
    monkeypatch.setattr(watching, "find_tables", lambda pattern: [denied])
    assert coverage(watch(str(lake_folder), repository=repo)) == {"eu.a": Coverage.NOT_SEEN}


def test_suites_are_proposed_with_reasons(repo, lake_folder):
    days = last_days(10)
    write_days(lake_folder / "swings", days, lambda i: 10 if i % 2 else 200, nulls=3)
    write_days(lake_folder / "calm", days)
    result = watch(str(lake_folder), repository=repo)
    location = lake_folder / "swings"
    assert result.proposals == [
        "swings: rows vary by 90%; 30% of name is null; id may be a key: tidegauge profile"
        f" {location} --dataset swings"
    ]


def test_the_report_shows_the_coverage(repo, lake_folder, tmp_path):
    for name in ("watched", "suited", "gone"):
        write_days(lake_folder / name, last_days(2))
    watch(str(lake_folder), repository=repo)
    suite = tg.Suite("suited", [tg.Size()])
    session = LazySession(no_spark)
    folder = str(lake_folder / "suited")
    tg.analyze(folder, suite, repository=repo, spark=session, progress=Silent())
    repo.keep_verdict(
        "suited", name="check", specification="s", fingerprint="f", passed=True, result="{}"
    )
    shutil.rmtree(lake_folder / "gone")
    watch(str(lake_folder), repository=repo)
    words = "1 watched, 1 measured, 1 checked, 1 not seen (gone)"
    screen = CliRunner().invoke(app, ["report", "--db", f"sqlite:///{tmp_path}/repo.db"])
    assert f"coverage: {words}" in screen.output
    page = write_report(repo, tmp_path / "report.html").read_text()
    assert f"Coverage of tables: {words}." in page


def test_files_and_bytes_have_the_segments_of_other_keys(repo, lake_folder):
    for country in ("DE", "a%2Fb"):
        write(lake_folder / "t" / f"country={country}" / "ds=2026-01-01", rows(2))
    watch(str(lake_folder), repository=repo)
    files = repo.metrics("t", name="Files", segment=None)
    assert sorted(files["segment"]) == ["country=DE", "country=a/b"]
    assert set(files["segment"]) == set(repo.metrics("t", name="Size")["segment"])


def test_a_suite_of_an_unpartitioned_table_is_proposed_under_its_own_dataset(repo, lake_folder):
    """The snapshots have other partitions than a suite."""
    write(lake_folder / "flat", rows(10, nulls=3))
    (proposal,) = watch(str(lake_folder), repository=repo).proposals
    assert proposal.startswith("flat.snapshots: 30% of name is null; id may be a key")
    assert proposal.endswith(f"{lake_folder / 'flat'} --dataset flat")


def incident_row(number, dataset, severity, group=None):
    headline = f"2026-02-0{number}: volume -{number}0%"
    row = {"id": number, "dataset": dataset, "severity": severity, "headline": headline}
    return {**row, "group": group, "first": "", "last": ""}


def test_the_screen_shows_what_happened_in_each_table_of_a_group():
    result = watching.WatchResult(
        pattern="lake",
        incidents=[
            incident_row(3, "c", "error", 1),
            incident_row(6, "other", "error"),
            *(incident_row(n, name, "warning", 1) for n, name in ((5, "e"), (4, "d"), (1, "a"))),
        ],
        headlines={1: "2026-02-01: incidents in 4 tables: c, a, d and e"},
    )
    assert result.lines()[1:] == [
        "2 open incidents in 5 tables:",
        "  error: 2026-02-01: incidents in 4 tables: c, a, d and e",
        "    c: 2026-02-03: volume -30%",
        "    e: 2026-02-05: volume -50%",
        "    d: 2026-02-04: volume -40%",
        "    and 1 more",
        "  error: other: 2026-02-06: volume -60%",
        "  details: tidegauge anomalies show 3",
    ]
    two = watching.WatchResult(
        incidents=[incident_row(n, f"t{n}", "error", 1) for n in (2, 1)], headlines={1: "shared"}
    )
    assert two.lines()[2:5] == [
        "  error: shared",
        "    t2: 2026-02-02: volume -20%",
        "    t1: 2026-02-01: volume -10%",
    ]
