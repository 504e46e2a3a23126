"""Streams of files: windows, late rows, late matches, and continuation after a kill at any moment."""

from dataclasses import replace
from threading import Event

import pytest

import tidegauge as tg
from tests.tidegauge.griffin import jobs
from tests.tidegauge.griffin.streams import MINUTE, Minutes
from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinError
from tidegauge.griffin.config import ConnectorConfig, Env, Job, RuleConfig, SourceConfig
from tidegauge.griffin.execution.engine import Engine
from tidegauge.griffin.reading import read_job
from tidegauge.griffin.stream_jobs import StreamingJob, read_marks, run_stream, write_marks

pytestmark = pytest.mark.spark


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as repository:
        yield repository


@pytest.fixture
def minutes(spark, tmp_path, repo):
    return lambda **options: Minutes(spark, tmp_path, repo, **options)


def test_a_window_is_measured_once_after_it_ends(minutes):
    job = minutes(delay=0.5)
    job.send("source", [(1, 1, "a"), (1.99, 2, "b"), (2, 3, "c")])
    assert job.run(2.4) == [0]
    assert job.run(2.5) == [1]
    assert job.results == {0: (1, 0), 1: (2, 0)}
    assert job.run(3.4) == []
    assert job.run(60) == [2]
    assert job.run(60) == []
    assert set(job.versions.values()) == {1}


def test_late_rows_make_a_new_version_of_their_window_only(minutes):
    job = minutes()
    job.send("source", [(1, 1, "a"), (2, 2, "b"), (3, 3, "c")])
    job.run(10)
    job.send("source", [(2.5, 4, "d")])
    assert job.run(10) == [2]
    assert job.results == {0: (1, 0), 1: (1, 0), 2: (2, 0), 3: (1, 0)}
    assert job.versions == {0: 1, 1: 1, 2: 2, 3: 1}


def test_rows_after_the_horizon_are_counted_and_reported_once(minutes):
    job = minutes(back=2)
    job.send("source", [(m, m, "a") for m in range(1, 10)])
    job.run(20)
    assert job.report.horizon == 7 * MINUTE
    assert job.kept() == [7, 8, 9]
    before = job.results
    job.send("source", [(3, 1, "x"), (6.9, 1, "y"), (7, 1, "z"), (9, 1, "z")])
    assert job.run(20) == [7, 9]
    assert job.report.late == {"source": 2}
    assert "2 rows of 'source' arrived after" in job.report.notices[0]
    assert job.results == before | {7: (2, 0), 9: (2, 0)}
    assert job.kept() == [7, 8, 9]
    job.run(20)
    assert job.report.notices == ()
    assert read_marks(str(job.folder / "kept" / "job")).late == {"source": 2}


@pytest.mark.soak
def test_a_late_match_improves_the_windows_that_wait_for_it(minutes):
    job = minutes(target="target", back=1)
    job.send("source", [(m, m, "a") for m in (1, 2, 3, 4)])
    job.send("target", [(1, 1, "a"), (4, 4, "a")])
    job.run(10)
    assert job.results == {0: (1, 0), 1: (1, 0), 2: (1, 1), 3: (1, 1), 4: (1, 0)}
    job.send(
        "target", [(4, 3, "a"), (4, 2, "a")]
    )  # too late for the row of minute 2, as configured
    assert job.run(10) == [3, 4]
    assert job.results == {0: (1, 0), 1: (1, 0), 2: (1, 1), 3: (1, 0), 4: (1, 0)}
    assert job.versions == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2}


@pytest.mark.soak
def test_windows_are_measured_in_one_round(minutes):
    job = minutes(target="target", back=60)
    job.send("source", [(m, m, "a") for m in range(1, 20)])
    job.send("target", [(m, m, "a") for m in range(1, 20, 2)])
    assert len(job.run(60)) == 20
    assert len(job.counting.asked) == 1
    assert sum(miss for _, miss in job.results.values()) == 9


@pytest.mark.soak
def test_the_target_is_stored_as_long_as_a_row_can_need_it(minutes):
    job = minutes(target="target", back=2)
    job.send("target", [(m, m, "a") for m in range(1, 10)])
    job.send("source", [(m, m, "a") for m in range(1, 10)])
    job.run(20)
    assert (job.kept("source"), job.kept("target")) == ([7, 8, 9], [5, 6, 7, 8, 9])
    job.send("source", [(7.5, 5, "a")])  # two minutes later than its match
    assert job.run(20) == [7]
    assert job.results[7] == (2, 0)


@pytest.mark.soak
def test_a_stream_that_is_source_and_target_counts_late_rows_once(minutes):
    job = minutes(target="target", back=2)
    both = {"measured": {"source", "target"}, "looked_up": {"source", "target"}}
    for name in ("source", "target"):
        job.send(name, [(m, m, "a") for m in range(1, 10)])
    job.run(20, **both)
    assert (job.report.horizon, job.kept("source")) == (7 * MINUTE, [5, 6, 7, 8, 9])
    before = job.results
    job.send("source", [(4, 1, "x"), (5, 1, "x"), (6, 1, "x"), (9, 9, "a")])
    assert job.run(20, **both) == [7, 8, 9]  # rows of the target can match new rows
    assert job.report.late == {"source": 3}
    assert job.results == before | {9: (2, 0)}
    assert job.run(20, **both) == []
    assert job.report.late == {}


def test_a_stream_is_compared_with_a_table(minutes, spark):
    job = minutes(target="table")
    job.send("source", [(1, 1, "a"), (1, 2, None), (2, 3, "c")])
    table = spark.sql("SELECT * FROM VALUES (0L, 'first'), (1L, 'a'), (2L, NULL) AS t(id, name)")
    job.sources += (SourceConfig("table"),)
    job.run(10, tables=lambda: {"table": table})
    assert job.results == {0: (1, 0), 1: (2, 0), 2: (1, 1)}


@pytest.mark.soak
def test_a_logged_batch_is_not_written_again(minutes):
    """After a kill between the sink's write and Spark's commit, the batch runs again and changes nothing."""
    job = minutes()
    job.send("source", [(1, 1, "a"), (2, 2, "b")])
    job.run(10)
    before = job.results
    place = job.folder / "kept" / "job" / "source" / "0"
    (last,) = (place / "checkpoint" / "commits").glob("[0-9]*")
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    assert job.run(10) == []
    assert last.exists()
    job.send("source", [(2, 3, "c")])
    assert job.run(10) == [2]
    assert job.results == before | {2: (2, 0)}


@pytest.mark.soak
def test_files_of_a_killed_batch_are_ignored(minutes):
    """After a kill before the sink's log is written, the batch runs again next to the leftover files."""
    job = minutes()
    job.send("source", [(1, 1, "a"), (2, 2, "b")])
    job.run(10)
    place = job.folder / "kept" / "job" / "source" / "0"
    for file in place.glob("rows/__tmst=*/*.parquet"):
        (file.parent / f"part-of-another-{file.name}").write_bytes(file.read_bytes())
    for log in (place / "rows" / "_spark_metadata" / "0", place / "checkpoint" / "commits" / "0"):
        log.unlink()
        log.with_name(".0.crc").unlink()
    job.run(10)
    assert job.results == {0: (1, 0), 1: (1, 0), 2: (1, 0)}
    assert len(list(place.glob("rows/__tmst=*/*.parquet"))) == 9


def test_a_kill_before_files_are_removed_makes_no_late_rows(minutes):
    job = minutes(back=1)
    job.send("source", [(m, m, "a") for m in range(1, 10)])
    rows = job.folder / "kept" / "job" / "source" / "0" / "rows"
    saved = {}

    def measure(frames, prints, now):
        saved.update({f: f.read_bytes() for f in rows.glob("__tmst=*/*.parquet")})
        job.counting(frames, prints, now)

    folder = str(job.folder / "kept" / "job")
    (report,) = run_stream(
        Job("job", sources=job.sources),
        job.env,
        job.spark,
        measure,
        job.counting.ledger,
        once=True,
        now=lambda: 20 * MINUTE,
    )
    left = read_marks(folder)
    assert report.removed == len(left.removing) == 8
    for file in saved:  # as if no file had been removed yet
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(saved[file])
    assert job.run(20) == []
    assert (job.report.late, job.report.removed, job.kept()) == ({}, 8, [8, 9])


@pytest.mark.soak
def test_a_kill_before_the_marks_are_written_changes_nothing(minutes):
    job = minutes(target="target", back=1)
    for name in ("source", "target"):
        job.send(name, [(m, m, "a") for m in range(1, 10)])
    folder = str(job.folder / "kept" / "job")
    job.run(5)
    marks = read_marks(folder)
    job.send("source", [(8, 1, "b")])
    job.run(5.5)
    before, earlier = job.results, read_marks(folder)
    write_marks(folder, marks)
    assert job.run(5.5) == []
    assert (job.results, read_marks(folder)) == (before, earlier)


RULE = RuleConfig(1, "spark-sql", "")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT *, upper(name) AS up FROM this WHERE id > 0", {1: (2, 0), 2: (1, 0)}),
        ("SELECT id, name FROM this", {0: (1, 0), 1: (2, 0), 2: (1, 0)}),
        ("SELECT count(*) AS id, 'n' AS name FROM this", {0: (1, 0), 1: (1, 0), 2: (1, 0)}),
        ("SELECT * FROM this ORDER BY id DESC LIMIT 1", {0: (1, 0), 1: (1, 0), 2: (1, 0)}),
    ],
    ids=["keeps the window", "loses it", "adds up", "takes one"],
)
def test_rules_before_measuring_see_one_window_at_a_time(minutes, spark, sql, expected):
    job = minutes()
    job.send("source", [(1, 1, "a"), (1, 2, "b"), (2, 3, "c")])
    (source,) = job.sources
    rule = replace(RULE, rule=sql)
    connector = replace(source.connectors[0], pre_proc=(rule,))
    job.sources = (replace(source, connectors=(connector,)),)

    def prepare(frame, connector):
        frame.createOrReplaceTempView("this_stream")
        (rule,) = connector.pre_proc
        return spark.sql(rule.rule.replace("this", "this_stream"))

    job.run(10, prepare=prepare)
    assert job.results == expected


@pytest.mark.soak
def test_two_connectors_of_a_source_are_combined(minutes):
    job = minutes()
    (source,) = job.sources
    job.send("other", [(1, 1, "a"), (3, 1, "b")])
    other = ConnectorConfig("file", {"format": "json", "paths": [str(job.folder / "other")]})
    job.sources = (replace(source, connectors=(*source.connectors, other)),)
    job.send("source", [(1, 1, "a")])
    job.run(10)
    assert job.results == {0: (1, 0), 1: (2, 0), 3: (1, 0)}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("time", "window"),
    [
        ("at", 1),
        ("timestamp_millis(at)", 1),
        ("date(timestamp_millis(at))", 0),
        ("`at` + 60000", 2),
        ("CASE WHEN id = 0 THEN 0 END", None),
    ],
)
def test_times_are_read_from_columns_and_expressions(minutes, time, window):
    job = minutes(back=10**6)
    job.sources = (replace(job.sources[0], store=replace(job.store, time=time)),)
    job.send("source", [(1, 1, "a")])
    file = job.folder / "source" / f"{job.files}.json"
    job.run(10**9)
    arrived = int(file.stat().st_mtime * 1000) // MINUTE
    assert max(job.results) == (arrived if window is None else window)


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("att", "did you mean 'at'"),
        ("name", "is of type string"),
        ("at +", "nor an expression"),
    ],
)
def test_invalid_times_are_refused(minutes, time, message):
    job = minutes()
    job.sources = (replace(job.sources[0], store=replace(job.store, time=time)),)
    with pytest.raises(GriffinConfigError, match=message):
        job.run(10)


def test_a_failing_stream_ends_the_job_with_the_reason(minutes):
    job = minutes()
    time = "CAST(name AS BIGINT)"
    job.sources = (replace(job.sources[0], store=replace(job.store, time=time)),)
    with pytest.raises(GriffinError, match="first"):
        job.run(10)


@pytest.mark.parametrize(
    ("env", "sources", "message"),
    [
        (Env(), None, "checkpoint.dir"),
        (Env(checkpoint="/nowhere"), (SourceConfig("t"),), "measure no stream"),
    ],
)
def test_invalid_streaming_jobs_are_refused(minutes, env, sources, message):
    job = minutes()
    job.sources = sources or job.sources
    with pytest.raises(GriffinConfigError, match=message):
        job.run(10, env=env)


@pytest.mark.soak
def test_clearing_removes_stored_rows_and_keeps_results(minutes):
    job = minutes(back=1)
    job.send("source", [(m, m, "a") for m in range(1, 10)])
    job.run(20)
    before = job.results
    job.run(20, env=replace(job.env, init_clear=True))
    assert len(job.report.measured) == 10  # all rows are new, and no window is too old
    assert job.results == before


@pytest.mark.soak
def test_a_job_reads_the_rows_that_another_job_stores(minutes, repo):
    job = minutes(path=None)
    kept = str(job.folder / "shared")
    job.sources = (replace(job.sources[0], store=replace(job.store, path=kept)),)
    job.send("source", [(1, 1, "a"), (5, 2, "b")])
    job.run(3)
    reading = Minutes(job.spark, job.folder, repo)
    reading.env = Env(checkpoint=str(job.folder / "elsewhere"))
    reading.sources = (
        replace(job.sources[0], store=replace(job.store, path=kept, read_only=True)),
    )
    reading.counting.dataset = "reader"
    job.send("source", [(2, 3, "c")])
    assert reading.run(60) == [0, 1, 5]
    assert job.run(60) == [0, 1, 2, 5][2:]


def test_a_continuous_job_measures_new_rows_until_it_is_stopped(minutes):
    job = minutes()
    job.send("source", [(1, 1, "a")])
    stop = Event()
    env = replace(job.env, batch_interval=200, process_interval=200)
    seen = []
    for report in job.rounds(10, once=False, stop=stop, env=env):
        seen += [window / MINUTE for window in report.measured]
        if seen == [0, 1]:
            job.send("source", [(2, 1, "a")])
            seen.append("sent")
        if 2 in seen:
            stop.set()
    assert seen == [0, 1, "sent", 2]
    assert job.results == {0: (1, 0), 1: (1, 0), 2: (1, 0)}
    assert job.spark.streams.active == []


@pytest.mark.soak
def test_a_continuous_job_ends_when_a_stream_fails(minutes):
    job = minutes()
    time = "CAST(name AS BIGINT)"
    job.sources = (replace(job.sources[0], store=replace(job.store, time=time)),)
    env = replace(job.env, batch_interval=100, process_interval=100)
    with pytest.raises(GriffinError, match="source 0"):
        list(job.rounds(10, once=False, env=env))
    assert job.spark.streams.active == []


def test_a_job_without_a_repository_keeps_its_ledger_in_memory(minutes, spark):
    """So that a round measures only the windows with new rows."""
    files = minutes()  # with one row, in minute 0
    connector = {"format": "json", "paths": [str(files.folder / "source")]}
    store = {"ready.time.delay": "0", "time.range": ["-10m", "0"], "time.column": "at"}
    job = read_job(
        jobs.job(
            [{**jobs.read("source", "file", connector), "checkpoint": store}],
            [
                jobs.rule("name", "completeness", "complete"),
                jobs.rule(
                    "SELECT __tmst, count(*) AS n FROM source GROUP BY __tmst", name="counted"
                ),
            ],
            **{"process.type": "streaming"},
        )
    )
    env = replace(files.env, batch_interval=200, process_interval=200)
    rounds = StreamingJob(job, env, Engine(job, spark)).rounds(once=False)
    seen = []
    for result in rounds:
        assert result.failures == {}
        metrics = result.metrics()
        if len(metrics):
            cells = zip(metrics["partition"], metrics["column"], metrics["value"], strict=True)
            seen.append({cell for cell in cells if cell[1] in {"total", "n"}})
            if len(seen) == 2:
                break
            files.send("source", [(1, 1, "a"), (1.5, 2, "b")])
    rounds.close()
    assert seen == [
        {("__tmst=0", "total", 1), ("__tmst=0", "n", 1)},
        {("__tmst=60000", "total", 2), ("__tmst=60000", "n", 2)},
    ]
    assert spark.streams.active == []
