"""Streams from Kafka by arrival time and by their own time, and with kills at random moments."""

import random
import subprocess
import sys
import time
import uuid

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.paths import ROOT
from tests.support.kills import kill, random_moments
from tests.tidegauge.griffin.streams import MINUTE, Counting, results
from tidegauge.griffin.config import ConnectorConfig, Env, Job, SourceConfig, StreamStore
from tidegauge.griffin.stream_jobs import run_stream

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def topic_source(name, address, topic, **store):
    config = {
        "kafka.config": {"bootstrap.servers": address, "auto.offset.reset": "smallest"},
        "topics": topic,
    }
    kept = StreamStore(ready_interval=MINUTE, ready_delay=0, **store)
    return SourceConfig(name, (ConnectorConfig("kafka", config),), store=kept)


def parsed(frame, _):
    return frame.selectExpr(
        "CAST(get_json_object(value, '$.id') AS BIGINT) AS id",
        "get_json_object(value, '$.name') AS name",
        "__tmst",
    )


@pytest.fixture
def send(spark, kafka):
    """Return a function that sends rows of (minute, id, name) to a topic; null stands for a message without a body."""

    def send(topic, rows):
        texts = ", ".join(
            f'({i}, \'{{"at": {round(m * MINUTE)}, "id": {i}, "name": "{n}"}}\')'
            for m, i, n in rows
        )
        kafka.send(
            spark.sql(f"SELECT CAST(k AS STRING) AS key, value FROM VALUES {texts} AS t(k, value)"),
            topic,
        )

    return send


@pytest.fixture
def topic():
    return f"t{uuid.uuid4().hex}"


def test_the_default_time_is_the_time_of_arrival(spark, kafka, send, topic, tmp_path):
    before = int(time.time() * 1000)
    send(topic, [(1, 1, "a"), (2, 2, "b")])
    after = int(time.time() * 1000)
    with tg.Repository("sqlite://") as repo:
        counting = Counting(repo.store)
        (report,) = run_stream(
            Job("job", sources=(topic_source("source", kafka.address, topic),)),
            Env(checkpoint=str(tmp_path)),
            spark,
            counting,
            counting.ledger,
            prepare=parsed,
            once=True,
            now=lambda: after + 2 * MINUTE,
        )
        assert all(before - MINUTE < window <= after for window in report.measured)
        assert sum(total for total, _ in results(repo).values()) == 2


RUN = """
import os, sys
import tidegauge as tg
from tidegauge.griffin.config import Env, Job
from tidegauge.griffin.stream_jobs import run_stream
from tests.tidegauge.griffin.streams import MINUTE, Counting
from tests.tidegauge.griffin.test_stream_from_kafka import parsed, topic_source

address, folder, source, target, once = sys.argv[1:]
spark = tg.spark_session(folder + "/warehouse")
kept = {"time": "CAST(get_json_object(value, '$.at') AS BIGINT)", "time_range": (-1000 * MINUTE, 0)}
sources = (topic_source("source", address, source, **kept), topic_source("target", address, target, **kept))
with tg.Repository(f"sqlite:///{folder}/r.db") as repo:
    counting = Counting(repo.store, target="target")
    for report in run_stream(
        Job("job", sources=sources),
        Env(checkpoint=folder + "/kept", batch_interval=200, process_interval=300),
        spark, counting, counting.ledger, prepare=parsed, measured={"source"}, looked_up={"target"},
        once=once == "once", now=lambda: 10**6 * MINUTE,
    ):
        assert report.late == {}
        if report.measured:
            print("measured by", os.getpid(), report.measured, flush=True)
"""


class Feed:
    """Rows of two topics, sent in small parts, and the result of a batch over all of them."""

    def __init__(self, seed, send, topic):
        self.draw, self.send, self.topic = random.Random(seed), send, topic
        self.rows = {"source": [], "target": []}

    def bit(self):
        start = len(self.rows["source"])
        rows = [(self.draw.uniform(0, 5), start + i, self.draw.choice("abc")) for i in range(20)]
        known = [row for row in self.rows["source"] + rows if self.draw.random() < 0.4]
        for name, some in (("source", rows), ("target", known)):
            if some:
                self.send(f"{self.topic}-{name}", some)
            self.rows[name] += some

    @property
    def expected(self):
        there = {(i, n) for _, i, n in self.rows["target"]}
        found = {}
        for minute, i, n in self.rows["source"]:
            at = round(minute * MINUTE) // MINUTE
            total, miss = found.get(at, (0, 0))
            found[at] = (total + 1, miss + ((i, n) not in there))
        return dict(sorted(found.items()))


def start(folder, kafka, topic, how):
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                RUN,
                kafka.address,
                str(folder),
                f"{topic}-source",
                f"{topic}-target",
                how,
            ],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its Java is killed with it
        )


def job_log(folder):
    return (folder / "log").read_text(errors="replace")


def wait_until_measured(folder, process, within=300):
    """Wait for a round of this process that measured something. Its lines follow those of earlier processes."""
    name = f"measured by {process.pid}"
    deadline = time.monotonic() + within
    while name not in job_log(folder):
        waiting = process.poll() is None and time.monotonic() < deadline
        assert waiting, job_log(folder)[-3000:]
        time.sleep(0.02)


def last(folder):
    """Return the number of the last batch that a Spark checkpoint folder names."""
    numbers = [int(file.name) for file in folder.glob("[0-9]*")]
    return max(numbers, default=None)


def checkpoints(folder):
    return list((folder / "kept").glob("job/*/0/checkpoint"))


def settled(folder):
    """Return whether all started batches are committed."""
    return all(last(c / "offsets") == last(c / "commits") for c in checkpoints(folder))


def wait_until_settled(folder, within=300):
    deadline, since = time.monotonic() + within, time.monotonic()
    while time.monotonic() < since + 1:
        assert time.monotonic() < deadline, job_log(folder)[-3000:]
        if not settled(folder):
            since = time.monotonic()
        time.sleep(0.02)


def undo_last_commits(folder):
    """Leave the state of a kill between the sink's log and Spark's commit; return the number of changed streams."""
    undone = 0
    for checkpoint in checkpoints(folder):
        batch = last(checkpoint / "commits")
        if batch is not None and batch == last(checkpoint / "offsets"):
            (checkpoint / "commits" / f"{batch}").unlink()
            (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
            undone += 1
    return undone


@pytest.mark.soak
def test_a_job_that_is_killed_and_restarted_gives_the_result_of_a_batch(
    kafka, send, topic, tmp_path
):
    _, seed = random_moments()
    print(f"seed {seed}")
    feed = Feed(seed, send, topic)
    feed.bit()
    undone = 0
    for number in range(soak(2, 8)):
        process = start(tmp_path, kafka, topic, "on")
        try:
            feed.bit()
            wait_until_measured(tmp_path, process)
            feed.bit()
            if number % 2:
                time.sleep(feed.draw.uniform(0, 2))
            else:
                wait_until_settled(tmp_path)
        finally:
            kill(process)
        if number % 2 == 0:
            undone += undo_last_commits(tmp_path)
    feed.bit()
    process = start(tmp_path, kafka, topic, "once")
    assert process.wait(300) == 0, job_log(tmp_path)[-3000:]
    assert undone
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repo:
        assert results(repo) == feed.expected
