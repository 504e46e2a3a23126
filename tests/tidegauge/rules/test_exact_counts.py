"""Counts cover all records, whatever the caller's actions read.

In each of these situations, counters inside transformations are wrong.
"""

import os
import subprocess
import sys
import textwrap

import pytest

import tidegauge as tg
from tests.conftest import CONNECT
from tests.support.spark_actions import counted

pytestmark = [pytest.mark.spark, pytest.mark.classic]  # counts actions or writes to Hive

N = 1000
"""Number of records, numbered from 0. Numbers below 100 break the rule, and one in ten of the others is repaired."""


@pytest.fixture(scope="module")
def data(spark):
    return spark.range(N, numPartitions=3).selectExpr("id AS n", "id % 10 AS digit", "0 AS unread")


DQM = (
    tg.DQM()
    .add(tg.Rule("n >= 100", "large"), tg.FailCount(101))
    .add(tg.Fix("digit = 0", column="digit", value=10, name="ten"), tg.FailCount(91))
    .add(tg.Fix("n % 2 = 0", column="unread", value=1, name="even"))
)
TRUE = {"records": N, "rejects": 100, "large": 100, "ten": 90, "even": 450}


def counts(state):
    return {
        "records": state.records,
        "rejects": state.rejects,
        "large": state.rule_count("large"),
        "ten": state.fix_count("ten"),
        "even": state.fix_count("even"),
    }


def join_small(data):
    small = data.sparkSession.range(200, 210).withColumnRenamed("id", "k")
    return data.join(small, data["n"] == small["k"])


SITUATIONS = {
    # the action of the caller, and whether it reads all records
    "once": (lambda d: d.collect(), True),
    "twice": (lambda d: (d.collect(), d.collect()), True),
    "sort": (lambda d: d.orderBy("digit").collect(), True),
    "union": (lambda d: d.union(d).collect(), True),
    "limit": (lambda d: d.limit(5).collect(), False),
    "show": (lambda d: d.show(2), False),
    "filter": (lambda d: d.where("n BETWEEN 500 AND 509").collect(), True),
    "join": (lambda d: join_small(d).collect(), True),
    "join of a hash": (lambda d: join_small(d.hint("shuffle_hash")).collect(), True),
    "join of a merge": (lambda d: join_small(d.hint("merge")).collect(), True),
    "unread column": (lambda d: d.select("n").count(), True),
    "count": (lambda d: d.count(), True),
    "grouped": (lambda d: d.groupBy("digit").count().collect(), True),
    "repartitioned": (lambda d: d.repartition(5, "digit").collect(), True),
    "written": (lambda d: d.write.format("noop").mode("overwrite").save(), True),
    "a part, then all": (lambda d: (d.limit(3).collect(), d.collect()), False),
    "all, then a part": (lambda d: (d.collect(), d.limit(3).collect()), True),
}


@pytest.mark.newest
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(
            name, marks=() if name in {"unread column", "a part, then all"} else pytest.mark.soak
        )
        for name in SITUATIONS
    ],
)
def test_counts_do_not_depend_on_what_is_read(data, what):
    act, reads_all = SITUATIONS[what]
    attached = DQM.attach(data)
    act(attached.data)
    if reads_all:
        with pytest.raises(tg.RuleError, match=f"{N} records were observed, not {N - 1}"):
            attached.check(rows=N - 1)
        result = attached.check(rows=N)
    else:
        with pytest.raises(tg.RuleError, match="the action did not read"):
            attached.check(rows=N)
        result = attached.check()
    assert counts(attached.state) == TRUE
    assert result.passed
    act(attached.data)
    assert attached.check() is result  # the judged data does not change
    assert counts(attached.state) == TRUE


@pytest.mark.newest
def test_a_failed_action_is_not_observed(data):
    attached = DQM.attach(data)
    with pytest.raises(Exception, match="stop here"):
        attached.data.selectExpr("raise_error('stop here')").collect()
    with pytest.raises(tg.RuleError, match="did not read"):  # nor is the next one
        attached.check(rows=N)
    attached.check()
    assert counts(attached.state) == TRUE


@pytest.mark.soak
@pytest.mark.parametrize("ends", ["inner join", "other side"])
def test_rules_on_a_join_count_the_rows_of_the_join(data, spark, ends):
    small = spark.range(95, 105).withColumnRenamed("id", "k")
    joined = data.join(small, data["n"] == small["k"])
    if ends == "other side":
        joined = small.join(data, data["n"] == small["k"]).select(*data.columns, "k")
    want = {"records": 10, "rejects": 5, "large": 5, "ten": 1, "even": 3}
    assert counts(DQM.apply(joined).state) == want
    attached = DQM.attach(joined)
    assert attached.data.count() == 5
    attached.check(rows=10)
    assert counts(attached.state) == want
    attached = DQM.attach(joined)
    attached.check()
    assert counts(attached.state) == want


def test_apply_counts_the_same_whatever_follows(data):
    done = DQM.apply(data)
    assert counts(done.state) == TRUE
    sorted_data = done.data.orderBy("digit")
    assert sorted_data.union(sorted_data).count() == 1800
    assert done.data.limit(5).count() == 5
    assert done.rejects.count() == 100
    assert counts(done.state) == TRUE
    assert counts(DQM.apply(data.orderBy("n")).state) == TRUE
    both = counts(DQM.apply(data.union(data)).state)
    assert both == {name: 2 * n for name, n in TRUE.items()}


def test_cached_frames_are_counted(data):
    cached = data.cache()
    try:
        assert cached.count() == N
        assert counts(DQM.apply(cached).state) == TRUE
        attached = DQM.attach(cached)
        kept = attached.data.cache()
        try:
            assert (kept.count(), kept.count()) == (900, 900)
            attached.check(rows=N)
            assert counts(attached.state) == TRUE
        finally:
            kept.unpersist()
    finally:
        cached.unpersist()


def test_two_attached_dqms_count_in_one_action(data):
    """The second DQM sees only records that the first one kept."""
    first = DQM.attach(data)
    second = tg.DQM().add(tg.Rule("digit < 10", "digit"), tg.FailAny).attach(first.data)
    assert second.data.count() == 810
    first.check(rows=N)
    assert not second.check(rows=900).passed
    assert counts(first.state) == TRUE
    assert (second.state.records, second.state.rule_count("digit")) == (900, 90)


def test_a_check_before_any_action_does_not_wait_for_one(data, monkeypatch):
    monkeypatch.setattr("tidegauge.rules.dqm.OBSERVATION_WAIT_SECONDS", 0.05)
    attached = DQM.attach(data)
    result = attached.check(rows=N)  # nothing was observed, so the records are counted
    assert counts(attached.state) == TRUE
    attached.data.limit(1).collect()
    assert attached.check(rows=5) is result
    with pytest.raises(tg.RuleError, match="has not been checked"):
        DQM.attach(data).state  # noqa: B018


def test_final_counts_cannot_be_changed(data):
    state = DQM.apply(data).state
    with pytest.raises(tg.RuleError, match="final"):
        state.add_records(1)
    early = DQM.count(data)
    with pytest.raises(tg.RuleError, match="not final"):
        early.records  # noqa: B018


@pytest.mark.soak
@pytest.mark.newest
@pytest.mark.skipif(CONNECT, reason="executions are counted on the pages of a classic session")
def test_counting_takes_the_expected_number_of_actions(data, spark):
    clean = tg.DQM().add(tg.Rule("n >= 0", "fine")).add(tg.Fix("n < 0", "digit", 1, "none"))
    with counted(spark) as nothing:
        attached = DQM.attach(data)
    with counted(spark) as own:
        attached.data.count()
        attached.check(rows=N)
    with counted(spark) as twice:
        DQM.attach(data).check()
    with counted(spark) as one:
        clean.apply(data)
    with counted(spark) as two:
        DQM.apply(data)
    with counted(spark) as unsampled:
        DQM.apply(data, samples=0)
    with counted(spark) as none:
        tg.DQM().validate(data)
    actual = [len(some) for some in (nothing, own, twice, one, two, unsampled, none)]
    assert actual == [0, 1, 1, 1, 2, 1, 0]


RETRIED = """
    import os, sys
    from pathlib import Path
    from pyspark.sql import SparkSession, functions as F
    import tidegauge as tg

    folder = Path(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )

    # Each task fails once after it has seen all of its records but the last.
    def flaky(batches):
        from pyspark import TaskContext

        mark = folder / f"{TaskContext.get().stageId()}-{TaskContext.get().partitionId()}"
        for batch in batches:
            yield batch
        if not mark.exists():
            mark.touch()
            raise RuntimeError("lost")

    data = spark.range(1000, numPartitions=3)
    dqm = tg.DQM().add(tg.Rule("id >= 100", "large")).add(tg.Fix("id % 2 = 0", "id", "id + 1", "odd"))
    attached = dqm.attach(data)
    out = attached.data.mapInPandas(flaky, "id long")
    print("out", out.repartition(2).count())
    failed = len(list(folder.iterdir()))
    attached.check(rows=1000)
    state = attached.state
    print("attached", state.records, state.rule_count("large"), state.fix_count("odd"))

    # The same below the rules, where each count is of a stage that was tried again.
    again = data.mapInPandas(flaky, "id long")
    state = dqm.apply(again).state
    print("applied", state.records, state.rule_count("large"), state.fix_count("odd"))
    print("failures", failed >= 3, len(list(folder.iterdir())) >= 6)
"""


@pytest.mark.soak
def test_retried_tasks_count_once(tmp_path):
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    script = tmp_path / "retried.py"
    script.write_text(textwrap.dedent(RETRIED))
    marks = tmp_path / "marks"
    marks.mkdir()
    ran = subprocess.run(
        [sys.executable, script, marks],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(
                filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")])
            ),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines() == [
        "out 900",
        "attached 1000 100 450",
        "applied 1000 100 450",
        "failures True True",
    ]
