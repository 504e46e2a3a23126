"""A suite on the flights: a backfill, a second run, a rewritten partition, and the detected anomalies."""

import os
import shutil

import pytest

import tidegauge as tg
from tests.docs.pages import assert_printed
from tests.support.integrity import check
from tests.support.spark_actions import counted
from tidegauge.demo.flights import demo_suite

pytestmark = pytest.mark.spark


def set_aside_name(path):
    """Return the hidden name under which a data file is set aside."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.kept")


@pytest.fixture
def folder(spark, flights):
    """Return the folder of the table."""
    from tidegauge.analyzers.core.filesystems import plain_path
    from tidegauge.analyzers.sources.hive_table import describe_table

    return plain_path(describe_table(spark, flights).location)


@pytest.fixture
def rewritten(folder, spark):
    """Rewrite a partition with half of its rows. Restore its files with their times at the end."""
    import pyarrow.parquet as pq

    changed = []

    def halve(partition):
        (name,) = [
            n for n in os.listdir(f"{folder}/{partition}") if n.endswith(".parquet") and n[0] != "."
        ]
        path = f"{folder}/{partition}/{name}"
        shutil.copy2(path, set_aside_name(path))
        changed.append(path)
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.slice(0, table.num_rows // 2), path)
        for crc in (f"{folder}/{partition}/.{name}.crc",):
            if os.path.exists(crc):
                os.remove(crc)
        return table.num_rows

    yield halve
    for path in changed:
        os.replace(set_aside_name(path), path)
    spark.catalog.refreshTable("tidegauge_demo.flights")


def test_the_backfill_measures_all_partitions(measured_copy):
    frame = measured_copy.metrics("flights")
    assert list(frame.columns) == [
        "dataset", "segment", "partition", "time", "entity", "name", "instance", "value", "weight",
        "status", "error", "version", "run_id", "analyzed_at", "analyzer", "where",
    ]  # fmt: skip
    assert frame["partition"].nunique() == 365
    assert frame["analyzer"].nunique() == len(demo_suite().suite.analyzers) >= 25
    assert set(frame["version"]) == {1}
    assert (frame["status"] == "failed").sum() == 0
    sizes = frame[(frame["name"] == "Size") & (frame["analyzer"] == "Size()")]
    assert sizes["value"].sum() == 336_776
    assert check(measured_copy.database, measured_copy.artifacts) == []
    ledger = measured_copy.partitions("flights")
    assert ledger["rows"].sum() == 336_776
    assert ledger["fingerprint"].nunique() == 365
    assert ledger["arrived_at"].notna().all()


def test_metrics_of_the_blizzard_equal_counts_of_the_csv(measured_copy):
    """Counted by hand: 930 flights were scheduled on 2013-02-08, and 458 departed."""
    day = measured_copy.metrics("flights", since="2013-02-08", until="2013-02-08").set_index(
        "analyzer"
    )
    assert day.loc["Size()", "value"] == 930
    assert day.loc["Completeness('dep_time')", "value"] == pytest.approx(458 / 930)
    assert day.loc["Completeness('dep_time')", "weight"] == 930


def test_the_blizzard_and_thanksgiving_are_detected_and_explained(measured_copy):
    anomalies = measured_copy.detect("flights")
    shares = measured_copy.metrics("flights", "Completeness", "dep_time", where="")
    worst = shares.nsmallest(15, "value")["partition"]  # 11% or more were canceled
    assert set(worst) <= set(anomalies.loc[anomalies["instance"] == "dep_time", "partition"])

    def days(analyzer):
        return set(anomalies.loc[anomalies["analyzer"] == analyzer, "partition"])

    storms = "02-08 02-09 03-06 03-07 03-08 05-23 12-05 12-10 12-14"
    assert {f"ds=2013-{day}" for day in storms.split()} <= days("Completeness('dep_time')")
    holidays = "07-04 11-28 11-29 12-24 12-25"
    assert {f"ds=2013-{day}" for day in holidays.split()} <= days("Size()")
    text = anomalies[
        (anomalies["analyzer"] == "Completeness('dep_time')")
        & (anomalies["partition"] == "ds=2013-02-08")
        & (anomalies["detector"] == "Seasonal()")
    ]
    assert (
        text["explanation"]
        .item()
        .startswith(
            "Completeness of dep_time in ds=2013-02-08 (a Friday) is 49.2%, below the usual "
        )
    )
    assert text["direction"].item() == "low"
    assert anomalies["partition"].nunique() < 73  # one day in five would be noise
    incidents = measured_copy.incidents("flights")
    # Usually 27; quantile sketches choose at random, so a run can differ by one or two.
    assert (incidents["status"] != "expected").sum() <= 29
    status = anomalies.drop_duplicates("partition").set_index("partition")["status"]
    assert {status[f"ds=2013-{day}"] for day in holidays.split()} == {"expected"}
    assert {status[f"ds=2013-{day}"] for day in storms.split()} == {"resolved"}
    (blizzard,) = incidents.loc[incidents["first"] == "ds=2013-02-08", "headline"]
    assert blizzard.startswith(
        "2013-02-08 to 2013-02-11: 57% of rows have no dep_time, arr_delay or dep_delay"
    )
    assert "EWR, JFK and LGA alike" in blizzard


def test_detecting_again_writes_nothing_and_keeps_the_ids(measured_copy):
    first = measured_copy.detect("flights")
    with measured_copy.database.read() as connection:
        commits = connection.exec_driver_sql('SELECT count(*) FROM "commit"').scalar()
    again = measured_copy.detect("flights")
    with measured_copy.database.read() as connection:
        assert connection.exec_driver_sql('SELECT count(*) FROM "commit"').scalar() == commits
    assert first.equals(again)


@pytest.mark.soak
def test_a_second_run_opens_no_file_and_a_rewritten_partition_costs_one_file(
    spark, flights, folder, measured_copy, rewritten
):
    suite = demo_suite().suite
    repo = measured_copy
    before = repo.metrics("flights")

    with counted(spark) as actual:
        run = tg.analyze(flights, suite, repository=repo, spark=spark)
    assert (run.report.scanned, run.report.skipped) == (0, 365)
    assert all(not e["successJobIds"] for e in actual)  # SHOW PARTITIONS and DESCRIBE, no job

    # No data file was opened: nothing changes although the content of all files is destroyed.
    for name in (p for p in _data_files(folder)[:40]):
        stat = os.stat(name)
        shutil.copy2(name, set_aside_name(name))
        with open(name, "r+b") as file:
            file.write(b"\0" * stat.st_size)
        os.utime(name, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    try:
        assert tg.analyze(flights, suite, repository=repo, spark=spark).report.scanned == 0
    finally:
        for name in _data_files(folder):
            if os.path.exists(set_aside_name(name)):
                os.replace(set_aside_name(name), name)

    last = run.id
    rows = rewritten("ds=2013-05-05")
    run = tg.analyze(flights, suite, repository=repo, spark=spark)
    assert dict(run.changes) == {"ds=2013-05-05": "restated"}
    assert set(run.metrics()["partition"]) == {"ds=2013-05-05"}

    def size(as_of=None):
        frame = repo.metrics(
            "flights", analyzer="Size()", since="2013-05-05", until="2013-05-05", as_of=as_of
        )
        return frame["value"].item(), frame["version"].item()

    assert size() == (rows // 2, 2)
    assert size(as_of=last) == (rows, 1)
    assert size(as_of=run.id) == (rows // 2, 2)
    assert (
        repo.metrics("flights", as_of=last)
        .drop(columns="run_id")
        .equals(before.drop(columns="run_id"))
    )
    whole = repo.merge("flights", tg.Size()).value
    assert whole == 336_776 - rows + rows // 2
    assert repo.merge("flights", tg.Size(), as_of=last).value == 336_776
    assert check(repo.database, repo.artifacts) == []


def _data_files(folder):
    return sorted(
        os.path.join(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if name.endswith(".parquet") and not name.startswith(".")
    )


@pytest.mark.soak
def test_measuring_all_unchanged_partitions_writes_nothing(spark, flights, measured_copy):
    before = measured_copy.metrics("flights")
    run = tg.analyze(
        flights, demo_suite().suite, repository=measured_copy, partitions="all", spark=spark
    )
    assert set(run.changes.values()) == {"unchanged"}
    assert run.report.scanned == 365
    assert measured_copy.metrics("flights").equals(before)


@pytest.mark.soak
def test_only_an_added_analyzer_is_backfilled(spark, flights, measured_copy):
    suite = tg.Suite("flights", [*demo_suite().suite.analyzers, tg.Maximum("air_time")], ["ds"])
    with counted(spark) as actual:
        run = tg.analyze(flights, suite, repository=measured_copy, spark=spark)
    assert set(run.changes.values()) == {"added"}
    assert not [e for e in actual if e["successJobIds"]]  # the column is read without Spark
    assert set(run.metrics()["analyzer"]) == {"Maximum('air_time')"}
    assert set(measured_copy.metrics("flights")["version"]) == {1}
    assert check(measured_copy.database, measured_copy.artifacts) == []


def test_merged_states_answer_new_questions_without_a_scan(measured_copy):
    repo = measured_copy
    assert repo.merge("flights", tg.Sum("arr_delay")).value == pytest.approx(2257174.0)
    february = repo.merge(
        "flights", "Completeness('dep_time')", since="2013-02-01", until="2013-02-28"
    )
    assert february.weight == 24_951
    # Not in the suite, but a sketch of arr_delay and the frequencies of tailnum are stored.
    assert -6 <= repo.merge("flights", tg.ApproxQuantile("arr_delay", 0.5)).value <= -4
    assert repo.merge("flights", tg.CountDistinct("tailnum")).value == 4043
    with pytest.raises(tg.HistoryError, match="never measured"):
        repo.merge("flights", tg.Mean("hour"))


def test_the_demonstration_runs(spark, flights, tmp_path, capsys, monkeypatch):
    from tidegauge.cli.main import run_command

    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'demo.db'}"
    assert run_command(["demo", "--db", url, "--folder", str(tmp_path / "w")]) == 0
    out = capsys.readouterr().out
    assert_printed("demonstration", out[out.index("Measure") :])
    assert "365 partitions scanned, 0 unchanged" in out
    assert "2013-02-08 to 2013-02-11: 57% of rows have no dep_time" in out
    assert "2013-11-28" in out
    assert "expected]" in out
    assert run_command(["demo", "--db", url, "--folder", str(tmp_path / "w")]) == 0
    out = capsys.readouterr().out
    assert "0 partitions scanned, 365 unchanged" in out
    assert "Nothing changed" in out
    assert run_command(["db", "check", "--db", url]) == 0
