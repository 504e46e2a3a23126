"""Results of a job in the repository: metrics and states by time, samples of records, and runs."""

import json

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import NOW, job, rows, rule
from tidegauge.analyzers.core.errors import GriffinError

pytestmark = pytest.mark.spark
DAY = 86_400_000
TRUTH = rows("tgt", "id int", (1,), (2,), (3,))
RULES = [
    rule("src.id = tgt.id", "accuracy", "acc", out=["metric", "record"]),
    rule("id", "distinct", "dist"),
    rule("select count(*) as n, max(id) as top from src", name="sql"),
]


def measure(spark, repo, day, *ids, **more):
    source = rows("src", "id int", *((i,) for i in ids))
    dq = job([source, TRUTH], RULES, timestamp=NOW + day * DAY)
    return tg.griffin.run({}, dq, spark=spark, repository=repo, **more)


def series(repo, name):
    return list(repo.metrics("job", name=name).sort_values("time")["value"])


def test_a_job_has_a_history(spark, repo):
    assert measure(spark, repo, 0, 1, 2, 8).run is not None
    measure(spark, repo, 1, 1, 8, 9, tags={"cluster": "test"})
    metrics = repo.metrics("job", name="Griffin.acc.miss")
    assert [f"__tmst={NOW}", f"__tmst={NOW + DAY}"] == list(metrics["partition"])
    assert [str(time)[:19] for time in metrics["time"]] == [
        "2023-11-14 22:13:20", "2023-11-15 22:13:20",
    ]  # fmt: skip
    assert list(metrics["value"]) == [1, 2]
    assert set(metrics["instance"]) == {"src"}
    assert series(repo, "Griffin.acc.matchedFraction") == [pytest.approx(2 / 3), pytest.approx(1 / 3)]  # fmt: skip
    assert series(repo, "Griffin.sql.top") == [8, 9]
    assert len(repo.metrics("job", name="Griffin.acc.miss", tags={"cluster": "test"})) == 1

    # States of both days are added.
    analyzer = metrics["analyzer"][0]
    whole = repo.merge("job", analyzer).value
    assert whole.metric == {"total": 6, "miss": 3, "matched": 3, "matchedFraction": 0.5}
    analyzer = repo.metrics("job", name="Griffin.dist.distinct")["analyzer"][0]
    assert repo.merge("job", analyzer).value.metric["distinct"] == 4

    # Equal data at the same time changes nothing. Other data replaces it, and the old version is kept.
    before = repo.runs("job")["run_id"].max()
    measure(spark, repo, 1, 1, 8, 9)
    assert series(repo, "Griffin.acc.miss") == [1, 2]
    measure(spark, repo, 1, 1, 2, 3, 4)
    assert series(repo, "Griffin.acc.miss") == [1, 1]
    assert series(repo, "Griffin.sql.n") == [3, 4]
    assert repo.merge("job", analyzer).value.metric["distinct"] == 5
    old = repo.metrics("job", name="Griffin.acc.miss", as_of=int(before))
    assert list(old["value"]) == [1, 2]

    verdicts = repo.verdicts("job", name="Griffin.acc")
    assert not verdicts["passed"].any()
    kept = {row.partition: json.loads(row.result) for row in verdicts.itertuples()}
    first = kept[f"__tmst={NOW}"]
    assert [record["id"] for record in first["records"]] == [8]
    assert (first["sampled"], first["records"][0]["__tmst"]) == (1, NOW)


def test_the_number_of_samples_is_configurable(spark, repo):
    measure(spark, repo, 0, *range(10, 30), samples=3)
    (result,) = repo.verdicts("job")["result"]
    assert len(json.loads(result)["records"]) == 3
    measure(spark, repo, 1, *range(10, 30), samples=0)
    assert len(repo.verdicts("job")) == 1


def test_a_rule_without_a_metric_has_samples(spark, repo):
    """Each time has its own verdict, and nulls are shown."""
    only = [rule("select id, name from src where name is null", name="null names", out=["record"])]
    for day, id in enumerate((5, 6)):
        source = rows("src", "id int, name string", (id, None), (7, "a"))
        dq = job([source], only, timestamp=NOW + day * DAY)
        tg.griffin.run({}, dq, spark=spark, repository=repo)
    kept = repo.verdicts("job", name="Griffin.null names")
    found = {row.partition: json.loads(row.result)["records"] for row in kept.itertuples()}
    expected = {f"__tmst={NOW + day * DAY}": [{"id": 5 + day, "name": None}] for day in (0, 1)}
    assert found == expected


@pytest.mark.soak
def test_anomalies_are_detected_in_results_of_jobs(spark, repo):
    """Similar days by a single SQL rule, and one day that differs."""
    rules = [rule("select id as n from src", name="n")]
    for day in range(24):
        source = rows("src", "id int", (5000 if day == 23 else 100 + day % 3,))
        dq = job([source], rules, timestamp=NOW + day * DAY)
        tg.griffin.run({}, dq, spark=spark, repository=repo, dataset="daily")
    found = repo.detect("daily")
    assert list(found["partition"]) == [f"__tmst={NOW + 23 * DAY}"]
    assert list(found["name"]) == ["Griffin.n.n"]


@pytest.mark.soak
def test_history_continues_after_a_failed_job(spark, repo):
    """A run without any result does not change the dataset, but is listed."""
    measure(spark, repo, 0, 1, 2)
    bad = [rule("int(src.name) = tgt.id", "accuracy", "acc")]
    dq = job([rows("src", "name string", ("x",)), TRUTH], bad, timestamp=NOW + DAY)
    with pytest.raises(
        GriffinError, match=r"acc: .*CAST_INVALID_INPUT.*casts the string 'name' in int\(\)"
    ):
        tg.griffin.run({}, dq, spark=spark, repository=repo)
    measure(spark, repo, 2, 1, 9)
    assert list(repo.runs("job").sort_values("run_id")["status"]) == [
        "complete",
        "failed",
        "complete",
    ]
    known = repo.metrics("job", name="Griffin.acc.miss").dropna(subset="value")
    assert list(known["value"]) == [0, 1]
