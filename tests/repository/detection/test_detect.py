"""From stored metrics to stored anomalies, without Spark."""

import json

import numpy as np
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import commit, day, measurement, spec

SPIKE = 30


@pytest.fixture
def spiky(repo):
    run = repo.store.open_run(spec())
    rows = [1000 + 10 * (n % 3) for n in range(1, 41)]
    rows[SPIKE - 1] = 300
    repo.store.commit_batch(run, [day(n, rows=r) for n, r in enumerate(rows, 1)])
    repo.store.close_run(run, RunStatus.COMPLETE, {})
    return repo


def test_anomalies_are_stored_and_listed(spiky):
    anomalies = spiky.detect("d")
    assert list(anomalies.columns) == [
        "id", "dataset", "segment", "partition", "time", "name", "instance", "analyzer", "value", "expected",
        "lower", "upper", "direction", "score", "p_value", "detector", "severity", "status", "incident_id",
        "version", "explanation", "detected_at", "where",
    ]  # fmt: skip
    size = anomalies[anomalies["name"] == "Size"].iloc[0]
    assert (size["partition"], size["value"], size["direction"], size["status"]) == (
        "ds=2013-01-30",
        300,
        "low",
        "resolved",  # the next day was normal
    )
    assert size["lower"] < 1010 < size["upper"]
    assert size["detector"] == "Seasonal()"
    assert "below the usual" in size["explanation"]
    assert "(a Wednesday)" in size["explanation"]
    assert spiky.anomalies("d").equals(anomalies)
    assert spiky.anomalies().equals(anomalies)
    assert spiky.anomalies("d", status="acknowledged").empty
    assert spiky.anomalies("d", until="2013-01-29").empty
    with pytest.raises(tg.UnknownDatasetError):
        spiky.anomalies("e")


def test_every_scored_point_is_stored(spiky):
    spiky.detect("d", [tg.Monitor({"name": "Size"})])
    scores = spiky.scores("d", name="Size")
    assert len(scores) == len(spiky.scores("d")) == 40 - 7
    assert (scores["lower"] < scores["expected"]).all()
    assert (scores["expected"] < scores["upper"]).all()
    assert scores.loc[scores["score"].idxmax(), "partition"] == "ds=2013-01-30"
    spiky.detect("d", [tg.Monitor({"name": "Size"}, "OnlineNormal")])
    assert set(spiky.scores("d", since="2013-01-30", until="2013-01-30")["detector"]) == {
        "Seasonal()",
        "OnlineNormal()",
    }


def test_each_detector_scores_a_point_once_however_often_it_runs(spiky):
    watch = [tg.Monitor({"name": "Size"})]
    spiky.detect("d", watch)
    with spiky.database.transaction() as connection:
        forged = sa.update(s.score).values(
            lower=s.score.c.score
        )  # as if an older release had scored the point
        connection.execute(forged)
    spiky.detect("d", watch)
    assert (spiky.scores("d")["lower"] < 100).any()  # there are no new points to score
    spiky.detect("d", watch, replay=True)
    assert len(spiky.scores("d")) == 33
    assert (spiky.scores("d")["lower"] > 100).all()


def test_an_anomaly_that_is_scored_again_is_updated_under_its_id(spiky):
    first = spiky.detect("d")
    with spiky.database.transaction() as connection:
        connection.execute(sa.update(s.finding).values(explanation="as an older release said it"))
    assert spiky.detect("d", replay=True).equals(first)


def test_monitors_choose_series_detector_and_severity(spiky):
    monitors = [
        tg.Monitor({"name": "Size"}, tg.SimpleThreshold(2000.0, lower_bound=500.0), "error"),
        tg.Monitor({"analyzer": "Mean('x')"}, "OnlineNormal(2, 2)"),
    ]
    anomalies = spiky.detect("d", monitors)
    assert set(anomalies[anomalies["name"] == "Size"]["partition"]) == {"ds=2013-01-30"}
    assert set(anomalies[anomalies["name"] == "Size"]["severity"]) == {"error"}
    assert set(anomalies["name"]) <= {"Size", "Mean"}
    assert (
        anomalies[anomalies["name"] == "Size"]["detector"].item()
        == "SimpleThreshold(2000.0, lower_bound=500.0)"
    )


def test_the_most_severe_of_two_monitors_counts(spiky):
    watch = {"name": "Size"}
    limit = tg.SimpleThreshold(2000.0, lower_bound=500.0)
    anomalies = spiky.detect(
        "d", [tg.Monitor(watch, limit, "error"), tg.Monitor(watch, limit, "info")]
    )
    assert anomalies["severity"].tolist() == ["error"]


def test_a_restated_partition_removes_its_anomaly(spiky):
    first = spiky.detect("d", [tg.Monitor({"name": "Size"})])
    assert len(first) == 1
    run = spiky.store.open_run(spec())
    spiky.store.commit_batch(run, [day(SPIKE, "b", rows=1005)])
    assert spiky.anomalies("d").empty  # it belonged to the old version
    assert spiky.detect("d", [tg.Monitor({"name": "Size"})]).empty


def test_a_withdrawn_anomaly_returns_under_its_id(spiky):
    limit = tg.Monitor({"name": "Size"}, tg.SimpleThreshold(2000.0, lower_bound=500.0))
    first = spiky.detect("d", [limit])
    never = tg.Monitor(limit.series, limit.detector, rule=tg.Threshold(1000))
    assert spiky.detect("d", [never]).empty
    assert spiky.incidents("d").empty
    assert spiky.detect("d", [limit])["id"].tolist() == first["id"].tolist()


def test_anomalies_of_a_removed_monitor_are_withdrawn(spiky):
    spiky.detect("d", [tg.Monitor({"name": "Size"}, tg.SimpleThreshold(5.0))])
    assert set(spiky.anomalies("d")["detector"]) == {"SimpleThreshold(5.0)"}
    now = spiky.detect("d")["detector"]  # the present monitors of the suite
    assert set(now) == {"Seasonal()", "MissingPartition()"}


def test_a_single_normal_series_raises_no_anomaly(repo):
    import numpy as np

    draw = np.random.default_rng(1)
    run = repo.store.open_run(spec())
    repo.store.commit_batch(
        run, [day(n, rows=int(1e5 * (1 + 0.02 * draw.standard_normal()))) for n in range(1, 200)]
    )
    anomalies = repo.detect("d", [tg.Monitor({"name": "Size"})])
    assert len(anomalies) <= 2
    assert (
        (anomalies["value"] < anomalies["lower"]) | (anomalies["value"] > anomalies["upper"])
    ).all()


def test_an_infinite_value_exceeds_every_bound(repo):
    from tidegauge.analyzers.measures.extremes import Maximum, MaxState

    run = repo.store.open_run(spec())
    values = [1.0, float("inf"), 2.0]
    repo.store.commit_batch(
        run,
        [
            day(n, extra=[measurement(Maximum("x"), MaxState(v, 1))])
            for n, v in enumerate(values, 1)
        ],
    )
    monitors = [
        tg.Monitor({"name": "Maximum"}, tg.SimpleThreshold(10.0)),
        tg.Monitor({"name": "Maximum"}, "OnlineNormal"),
    ]
    anomalies = repo.detect("d", monitors)
    assert anomalies["partition"].tolist() == ["ds=2013-01-02"] * 2


def test_infinite_bounds_are_restored(repo):
    limit = tg.SimpleThreshold(float("inf"), lower_bound=0)
    suite = tg.Suite("d", [tg.Size()], monitors=[tg.Monitor({"name": "Size"}, limit)])
    run = repo.store.open_run(spec(suite=suite.canonical()))
    repo.store.commit_batch(run, [day(1)])
    assert repo.detect("d").empty
    assert tg.Monitor(detector=repr(limit)).detector == limit
    with pytest.raises(tg.SuiteError, match="name must be a string"):
        tg.Monitor({"name": ["a", "b"]})


def test_a_window_limits_the_anomalies_but_not_the_training(spiky):
    assert spiky.detect("d", since="2013-01-31", until="2013-02-02").empty
    assert spiky.anomalies("d").empty
    anomalies = spiky.detect("d", since="2013-01-30", until="2013-01-30")
    assert set(anomalies["partition"]) == {"ds=2013-01-30"}


def test_the_monitors_of_the_last_suite_are_used(repo):
    suite = tg.Suite(
        "d", [tg.Size()], monitors=[tg.Monitor({"name": "Size"}, tg.SimpleThreshold(5.0), "info")]
    )
    run = repo.store.open_run(spec(suite=suite.canonical()))
    repo.store.commit_batch(run, [day(1, rows=3), day(2, rows=9)])
    anomalies = repo.detect("d")
    assert anomalies["detector"].tolist() == ["SimpleThreshold(5.0)"]
    assert json.loads(suite.canonical())["monitors"][0]["severity"] == "info"


def test_failed_and_empty_values_count_as_missing(repo):
    run = repo.store.open_run(spec())
    repo.store.commit_batch(
        run,
        [day(n, rows=0 if n == 20 else 100, groups={} if n == 20 else None) for n in range(1, 25)],
    )
    anomalies = repo.detect("d")
    assert "Mean" not in set(anomalies["name"])
    assert ("ds=2013-01-20" in set(anomalies[anomalies["name"] == "Size"]["partition"])) is True


def test_detecting_in_an_unknown_dataset_is_an_error(repo):
    with pytest.raises(tg.UnknownDatasetError):
        repo.detect("nope")


LIMIT = tg.Monitor({}, tg.SimpleThreshold(100.0, lower_bound=0.0))


def recorded(repo, **series):
    for name, values in series.items():
        numbers = {f"ds=2013-01-{n:02}": float(v) for n, v in enumerate(values, 1)}
        repo.record("r", name, numbers)


def test_a_window_stores_nothing_that_a_replay_would_not(repo):
    recorded(repo, x=[1, 1, 1, 500, 1, 500])
    assert len(repo.detect("r", [LIMIT], since="2013-01-06")) == 1
    assert len(repo.scores("r", name="x")) == 6
    other = tg.Monitor({}, LIMIT.detector, rule="Threshold(400)")
    assert repo.detect("r", [other], until="2013-01-05").query("partition < 'ds=2013-01-05'").empty
    anomalies = repo.detect("r", [LIMIT])
    assert anomalies["partition"].tolist() == ["ds=2013-01-04", "ds=2013-01-06"]
    assert repo.detect("r", [LIMIT], replay=True).equals(anomalies)


def test_a_monitor_that_returns_finds_its_earlier_anomalies(repo):
    recorded(repo, x=[1, 1, 500, 1])
    first = repo.detect("r", [LIMIT])
    assert len(first) == 1
    assert repo.detect("r").query("name == 'x'").empty
    assert repo.detect("r", [LIMIT])["id"].tolist() == first["id"].tolist()


def test_an_incident_that_splits_keeps_its_id_with_its_first_anomaly(repo):
    off = {"a": [9], "b": [5, 7, 9]}
    series = {name: [500 if n in days else 1 for n in range(1, 12)] for name, days in off.items()}
    recorded(repo, **series)
    anomalies = repo.detect("r", [LIMIT])
    assert anomalies["incident_id"].nunique() == 1
    repo.label(int(anomalies[anomalies["partition"] == "ds=2013-01-07"]["id"].item()), "ignore")
    after = repo.detect("r", [LIMIT])
    assert after["incident_id"].nunique() == 2
    first = anomalies.loc[anomalies["id"].idxmin(), "incident_id"]
    assert first in set(after["incident_id"])
    assert repo.detect("r", [LIMIT], replay=True).equals(after)


@pytest.mark.parametrize("label", ["reopened", "expected", "bad"])
def test_an_ignored_incident_can_be_labelled_again(repo, label):
    """The next label applies to the anomalies that ignoring withdrew."""
    recorded(repo, x=[500 if n == 5 else 1 for n in range(1, 13)])
    incident = int(repo.detect("r", [LIMIT])["incident_id"].item())
    repo.label(incident, "ignore")
    assert repo.detect("r", [LIMIT]).empty
    repo.label(incident, label)
    again = repo.detect("r", [LIMIT])
    assert again["partition"].tolist() == ["ds=2013-01-05"]
    assert repo.detect("r", [LIMIT], replay=True).equals(again)


def test_scores_of_whole_partitions_are_selected_by_name(repo):
    days = [day(n) for n in range(1, 41) if n != 30]
    commit(repo, *days)
    repo.detect("d")
    assert "MissingPartition()" not in set(repo.scores("d")["detector"])
    scores = repo.scores("d", name="MissingPartition").set_index("partition")["score"]
    (gap,) = repo.anomalies("d", name="MissingPartition", until="2013-02-08")["partition"]
    assert scores.idxmax() in {gap, "ds=2013-02-09"}
    assert scores[gap] >= 3
    assert len(scores) == len(days) - 7


def test_a_user_named_like_the_automatic_author_is_not_automatic(repo):
    recorded(repo, x=[500 if n == 5 else 1 for n in range(1, 13)])
    incident = int(repo.detect("r", [LIMIT])["incident_id"].item())
    repo.label(incident, "expected", by="tidegauge")
    assert repo.detect("r", [LIMIT])["status"].tolist() == ["expected"]
    assert repo.labels("r")["by"].tolist()[-1] == "tidegauge (user)"


def test_a_label_of_a_range_warns_of_missing_series(repo):
    recorded(repo, rows=[1, 2, 3])
    with pytest.warns(
        tg.RepositoryWarning, match=r"no series of the name 'rowz'; did you mean 'rows'\? yet"
    ):
        repo.label_range("r", "ignore", since="2013-01-01", name="rowz")


def test_a_label_applies_to_the_points_its_incident_had(repo):
    recorded(repo, x=[500 if n in {5, 10} else 1 for n in range(1, 13)])
    repo.detect("r", [LIMIT])
    first = int(repo.incidents("r")["id"].min())
    repo.label(first, "expected", by="ann")
    recorded(repo, x=[500 if n in {5, 7, 9, 10} else 1 for n in range(1, 13)])
    repo.detect("r", [LIMIT])
    assert len(repo.incidents("r")) == 1
    from tidegauge.repository.store.labels import training_labels

    with repo.database.read() as connection:
        (said,) = training_labels(connection, 1)
    assert len(said.points) == 1


def test_an_anomaly_inside_its_band_is_explained(repo):
    """Ten metrics are a fifth lower, each within its band, on a day on which one is halved."""
    logs = np.random.default_rng(8).normal(0, 0.05, (12, 90))
    logs[:11, -1] = [-0.2] * 10 + [-0.5]
    days = [f"ds={np.datetime64('2024-01-01') + n}" for n in range(90)]
    for number, values in enumerate(1e5 * np.exp(logs)):
        sizes = dict(zip(days, values.tolist(), strict=True))
        repo.record("t", f"m{number:02}", sizes, scale="count")
    anomalies = repo.detect("t")
    last = anomalies[anomalies["partition"] == days[-1]].set_index("name")
    assert sorted(last.index) == [f"m{number:02}" for number in range(11)]
    for name, one in last.iterrows():
        inside = one["lower"] <= one["value"] <= one["upper"]
        assert inside == (name != "m10")
        assert ("low within the usual" in one["explanation"]) == inside
        assert ("and 10 other metrics are also unusual" in one["explanation"]) == inside


@pytest.mark.parametrize("more", [{}, {"severity": "error"}])
def test_an_anomaly_by_a_rule_stricter_than_the_band_is_explained(repo, more):
    logs = np.random.default_rng(8).normal(0, 0.05, 90)
    logs[-1] = -0.2
    days = [f"ds={np.datetime64('2024-01-01') + n}" for n in range(90)]
    values = (1e5 * np.exp(logs)).tolist()
    repo.record("t", "m", dict(zip(days, values, strict=True)), scale="count")
    monitor = tg.Monitor({"name": "m"}, rule=tg.Threshold(1.5), **more)
    actual = repo.detect("t", [monitor]).set_index("partition")
    assert actual["lower"][days[-1]] < actual["value"][days[-1]]
    assert "and the monitor's rule is stricter than that" in actual["explanation"][days[-1]]
