"""Incidents: which anomalies are grouped, how long an incident lasts, and its labels. No Spark."""

import datetime as dt
import threading

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.conftest import soak
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.incidents.anomaly import Anomaly
from tidegauge.repository.incidents.grouping import group_anomalies
from tidegauge.repository.repository import Repository
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import COMPLETE, MEAN, SIZE, commit, day, spec

LIMIT = [tg.Monitor({}, tg.SimpleThreshold(100.0, lower_bound=0.0))]


SQL_DIFFERS_ELSEWHERE = [pytest.mark.postgres, pytest.mark.soak]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=SQL_DIFFERS_ELSEWHERE)])
def url(request, empty_repository):
    """Incidents are the same on every database, so PostgreSQL is for soak tests."""
    return empty_repository(request.param)


@pytest.fixture
def repo(url, tmp_path):
    with Repository(url, artifacts=tmp_path / "artifacts") as repository:
        yield repository


def ds(n):
    return f"ds={dt.date(2013, 1, 1) + dt.timedelta(days=n - 1)}"


def record(repo, name, values, first=1, **kwargs):
    """Record a value for each day, starting with the first; None is a day without a value."""
    days = {ds(n): v for n, v in enumerate(values, first) if v is not None}
    repo.record("d", name, days, **kwargs)


def spans(repo, **kwargs):
    """Return the first and last day of each incident, in order."""
    found = repo.incidents("d", **kwargs)[::-1]
    return [(int(a[-2:]), int(b[-2:])) for a, b in zip(found["first"], found["last"], strict=True)]


def statuses(repo, **kwargs):
    return repo.incidents("d", **kwargs)["status"].tolist()[::-1]


def content(repo):
    """Return all anomalies, incidents and scores, without ids and moments."""
    anomalies = repo.anomalies("d").drop(columns=["id", "incident_id", "detected_at"])
    incidents = repo.incidents("d").drop(columns=["id", "updated_at"])
    columns = ["partition", "detector", "name", "instance", "segment"]
    return (
        anomalies.sort_values(columns, ignore_index=True),
        incidents.sort_values(["first", "headline"], ignore_index=True),
        repo.scores("d").sort_values([*columns, "analyzer"], ignore_index=True),
    )


def assert_same_content(one, other):
    for a, b in zip(content(one), content(other), strict=True):
        pd.testing.assert_frame_equal(a, b, rtol=1e-9, atol=1e-9)


def content_with_ids(repo):
    """Return all anomalies, incidents, scores and labels, with ids."""
    return repo.anomalies("d"), repo.incidents("d"), repo.scores("d"), repo.labels("d")


def assert_unchanged(before, after):
    for a, b in zip(before, after, strict=True):
        pd.testing.assert_frame_equal(a, b)


# Grouping


def anomaly(number, place, name="Size", instance="*", within="", filter=""):
    return Anomaly(
        number, number, place, place, "", within, None, name, instance, filter, "", Scale.COUNT,
        "warning", "high", 2.0, 1.0, 5.0, "", None,
    )  # fmt: skip


def grouped_ids(*anomalies):
    return [[a.id for a in group] for group in group_anomalies(anomalies)]


def test_anomalies_of_a_partition_are_grouped():
    assert grouped_ids(anomaly(1, 5), anomaly(2, 5, "Mean", "x"), anomaly(3, 5, "Mean", "y")) == [
        [1, 2, 3]
    ]
    assert group_anomalies([]) == []


def test_anomalies_of_consecutive_partitions_are_grouped_across_one_normal_partition():
    assert grouped_ids(anomaly(1, 5), anomaly(2, 6), anomaly(3, 8), anomaly(4, 11)) == [
        [1, 2, 3],
        [4],
    ]


def test_other_metrics_are_another_incident():
    assert grouped_ids(anomaly(1, 5), anomaly(2, 6, "Mean", "x")) == [[1], [2]]
    some = [anomaly(n, 6, f"m{n}") for n in range(2, 6)]
    # a fifth of the metrics is shared
    assert grouped_ids(anomaly(1, 5), anomaly(6, 6), *some) == [[1, 2, 3, 4, 5, 6]]
    some.append(anomaly(7, 6, "m7"))
    assert grouped_ids(anomaly(1, 5), anomaly(6, 6), *some) == [[1], [2, 3, 4, 5, 6, 7]]


def test_another_filter_or_segment_is_the_same_metric():
    assert grouped_ids(anomaly(1, 5), anomaly(2, 6, filter="a = 1")) == [[1, 2]]


def test_partitions_of_different_segments_are_not_grouped():
    assert grouped_ids(anomaly(1, 5, within="x"), anomaly(2, 5, within="y")) == [[1], [2]]
    assert grouped_ids(
        anomaly(1, 5, within="x"), anomaly(2, 6, within="y"), anomaly(3, 6, within="x")
    ) == [
        [1, 3],
        [2],
    ]


def test_the_order_of_anomalies_does_not_matter():
    some = [anomaly(n, n // 2, f"m{n % 3}") for n in range(30)]
    mixed = [some[k] for k in np.random.default_rng(0).permutation(30)]
    assert grouped_ids(*some) == grouped_ids(*mixed)


def test_the_anomalies_of_one_table_become_incidents(repo):
    record(repo, "x", [1, 500, 500, 1, 500, 1, 1, 500, 1])
    record(repo, "y", [1, 500, 1, 1, 1, 1, 1, 1, 1])
    repo.detect("d", LIMIT)
    assert spans(repo) == [(2, 5), (8, 8)]
    found = repo.incidents("d")
    assert found["series"].tolist() == [1, 2]
    assert statuses(repo) == ["resolved", "resolved"]
    assert repo.anomalies("d")["incident_id"].nunique() == 2


def test_an_incident_has_the_highest_severity_of_its_anomalies(repo):
    record(repo, "x", [1, 500])
    record(repo, "y", [1, 500])
    watch = [
        tg.Monitor({"name": "x"}, LIMIT[0].detector, "info"),
        tg.Monitor({"name": "y"}, LIMIT[0].detector, "error"),
    ]
    repo.detect("d", watch)
    assert repo.incidents("d")["severity"].tolist() == ["error"]


# Life cycle


def test_an_incident_that_continues_in_a_wider_one_is_not_over(repo):
    others = [f"m{n}" for n in range(6)]
    record(repo, "x", [1, 1, 500])
    repo.detect("d", LIMIT)
    for name in ("x", *others):
        record(repo, name, [500], first=4)
    repo.detect("d", LIMIT)
    assert spans(repo) == [(3, 3), (4, 4)]  # a seventh of the metrics is not similar
    assert statuses(repo) == ["open", "open"]
    for name in others:
        record(repo, name, [1], first=5)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["open", "resolved"]  # x has no new values
    record(repo, "x", [1], first=5)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["resolved", "resolved"]


def test_an_incident_is_resolved_when_the_series_is_normal_and_reopened_when_it_continues(repo):
    record(repo, "x", [1, 1, 500])
    repo.detect("d", LIMIT)
    (number,) = repo.incidents("d")["id"]
    assert statuses(repo) == ["open"]
    record(repo, "x", [1], first=4)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["resolved"]
    assert set(repo.anomalies("d")["status"]) == {"resolved"}
    record(repo, "x", [500], first=5)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["open"]
    assert spans(repo) == [(3, 5)]
    record(repo, "x", [1, 1], first=6)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["resolved"]
    assert repo.incidents("d")["id"].tolist() == [number]
    assert repo.labels("d")["label"].tolist() == ["resolved", "reopened", "resolved"]
    assert set(repo.labels("d")["by"]) == {"tidegauge"}


def test_another_abnormal_series_does_not_resolve_an_incident(repo):
    record(repo, "x", [1, 1, 500])
    record(repo, "y", [1, 1, 1])
    repo.detect("d", LIMIT)
    record(repo, "y", [1], first=4)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["open"]


def test_an_acknowledged_incident_stays_acknowledged_until_it_is_over(repo):
    record(repo, "x", [1, 1, 500])
    repo.detect("d", LIMIT)
    (number,) = repo.incidents("d")["id"]
    repo.label(number, "acknowledged", note="on it", by="ann")
    assert statuses(repo) == ["acknowledged"]
    record(repo, "x", [500], first=4)
    repo.detect("d", LIMIT)
    assert (spans(repo), statuses(repo)) == ([(3, 4)], ["acknowledged"])
    record(repo, "x", [1], first=5)
    repo.detect("d", LIMIT)
    assert statuses(repo) == ["resolved"]


@pytest.mark.parametrize(
    "label, status",
    [("reopened", "open"), ("acknowledged", "acknowledged"), ("expected", "expected")],
)
def test_a_label_after_the_end_of_an_incident_stays(repo, label, status):
    record(repo, "x", [1, 1, 500, 1])
    repo.detect("d", LIMIT)
    repo.label(int(repo.incidents("d")["id"].item()), label, by="ann")
    for n in range(5, 8):
        record(repo, "x", [1], first=n)
        repo.detect("d", LIMIT)
        assert statuses(repo) == [status]
    repo.detect("d", LIMIT, replay=True)
    assert statuses(repo) == [status]


def test_detecting_again_writes_nothing(repo):
    record(repo, "x", [1, 1, 500, 1, 500])
    repo.detect("d")
    repo.detect("d", LIMIT)
    before = content_with_ids(repo)
    commits = count(repo)
    repo.detect("d", LIMIT)
    repo.detect("d", LIMIT, replay=True)
    assert_unchanged(before, content_with_ids(repo))
    assert count(repo) == commits


def count(repo):
    tables = (s.commit, s.finding, s.course, s.label, s.score, s.anomaly, s.incident)
    with repo.database.read() as connection:
        return [
            connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one()
            for t in tables
        ]


def test_a_withdrawn_incident_returns_under_its_id(repo):
    record(repo, "x", [1, 1, 500, 500, 1])
    repo.detect("d", LIMIT)
    before = repo.incidents("d")
    never = [tg.Monitor({}, LIMIT[0].detector, rule=tg.Threshold(1000))]
    repo.detect("d", never)
    assert repo.incidents("d").empty
    repo.detect("d", LIMIT)
    assert repo.incidents("d")["id"].tolist() == before["id"].tolist()


def test_a_late_partition_joins_two_incidents(repo):
    record(repo, "x", [1, 500, None, 1, 1, 500, 1])
    repo.detect("d", LIMIT)
    first, second = repo.incidents("d")["id"].tolist()[::-1]
    record(repo, "x", [500], first=3)
    repo.detect("d", LIMIT)
    assert spans(repo) == [(2, 3), (6, 6)]
    record(repo, "x", [500], first=4)
    repo.detect("d", LIMIT)
    assert spans(repo) == [(2, 6)]
    assert repo.incidents("d")["id"].tolist() == [first]
    record(repo, "x", [1], first=4)
    record(repo, "x", [1], first=3)
    repo.detect("d", LIMIT)
    assert spans(repo) == [(2, 2), (6, 6)]
    assert repo.incidents("d")["id"].tolist()[::-1] == [first, second]


# Day by day


def story(seed, days=120):
    """Return measured values in the order of their arrival: spikes, a shift, gaps, restatements."""
    draw = np.random.default_rng(seed)
    rows = 1000 * np.exp(0.03 * draw.standard_normal(days + 1))
    rows *= np.where(np.arange(days + 1) % 7 >= 5, 0.6, 1)
    rows[draw.integers(70, 90) :] *= 2
    spikes = draw.choice(np.arange(10, days), 6, replace=False)
    rows[spikes] *= draw.choice([0.1, 0.4, 5], 6)
    rows[100:103] *= 0.3
    missing = set(draw.choice(np.arange(10, days - 1), 5, replace=False).tolist())
    events = []
    few = {"only": (SIZE, MEAN, COMPLETE)}
    for n in range(1, days + 1):
        if n not in missing:
            mean = 50 + draw.standard_normal()
            events.append([day(n, rows=int(rows[n]), total=float(int(rows[n]) * mean), **few)])
        if n > 20 and draw.random() < 0.06:
            old = n - int(draw.integers(1, 15))
            again = int(1000 * draw.choice([1, 3]))
            events.append([day(old, f"again{n}", rows=again, total=again * 50.0, **few)])
    if missing:  # one arrives later after all
        late = min(missing)
        events.append([day(late, rows=int(rows[late]), total=rows[late] * 50.0, **few)])
    return events


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(soak(1, 10)))
def test_day_by_day_detection_equals_one_detection_at_the_end(tmp_path, seed):
    with Repository("sqlite://") as daily, Repository("sqlite://") as once:
        runs = [(repo, repo.store.open_run(spec())) for repo in (daily, once)]
        for event in story(seed):
            for repo, run in runs:
                repo.store.commit_batch(run, event)
            daily.detect("d")
        once.detect("d")
        assert len(once.incidents("d")) >= 3  # there is something to compare
        assert_same_content(daily, once)
        before = content_with_ids(daily)
        daily.detect("d", replay=True)
        assert_unchanged(before, content_with_ids(daily))


@pytest.mark.soak
def test_day_by_day_detection_with_two_monitors_of_one_detector():
    """The continuation of an anomaly needs less evidence, for each monitor separately."""
    draw = np.random.default_rng(42)
    values = 100 + draw.standard_normal((3, 40))
    values[:, 30:] += draw.choice([3.0, -3.0], (1, 1)) * np.linspace(0.6, 1.2, 10)
    watch = [
        tg.Monitor({}, "Seasonal", "info", tg.FalseDiscoveryRate(0.2, least=10)),
        tg.Monitor({}, "Seasonal", "error", tg.FalseDiscoveryRate(0.02, least=10)),
    ]
    with Repository("sqlite://") as daily, Repository("sqlite://") as once:
        for n in range(40):
            for repo in (daily, once):
                for k in range(3):
                    record(repo, f"x{k}", [float(values[k, n])], first=n + 1)
            daily.detect("d", watch)
        once.detect("d", watch)
        assert_same_content(daily, once)


# Labels


def noisy(repo, days=70, spike=40, factor=1.2, shift=None, seed=1):
    """Some weeks of a series with one spike, or with a new level."""
    values = 1000 + 10 * np.random.default_rng(seed).standard_normal(days)
    values[spike - 1] *= factor
    if shift is not None:
        values[shift - 1 :] *= 1.2
    record(repo, "x", values.tolist(), scale="positive")
    repo.detect("d")


def anomalies_on(repo, n):
    found = repo.anomalies("d")
    return found[found["partition"] == ds(n)]


def detect_replayed(repo):
    before = content(repo)
    repo.detect("d", replay=True)
    for a, b in zip(before, content(repo), strict=True):
        pd.testing.assert_frame_equal(a, b, rtol=1e-9)


def test_an_ignored_anomaly_is_removed_and_stays_removed(repo):
    noisy(repo)
    (number,) = anomalies_on(repo, 40)["id"]
    repo.label(number, "ignore", note="a test", by="ann")
    repo.detect("d")
    assert anomalies_on(repo, 40).empty
    record(repo, "x", [1000.0], first=71, scale="positive")
    repo.detect("d")
    detect_replayed(repo)
    assert anomalies_on(repo, 40).empty
    repo.label(number, "reopened")
    repo.detect("d")
    assert anomalies_on(repo, 40)["id"].tolist() == [number]
    detect_replayed(repo)


@pytest.mark.soak
def test_an_ignored_incident_stays_removed(repo):
    noisy(repo)
    (number,) = anomalies_on(repo, 40)["incident_id"]
    repo.label(number, "ignore")
    repo.detect("d")
    assert anomalies_on(repo, 40).empty
    assert number not in set(repo.incidents("d")["id"])
    repo.detect("d")
    detect_replayed(repo)
    assert anomalies_on(repo, 40).empty


@pytest.mark.parametrize("label", ["expected", "bad"])
def test_expected_and_bad_anomalies_stay_and_are_not_used_for_training(repo, label):
    noisy(repo)
    (number,) = anomalies_on(repo, 40)["id"]
    repo.label(number, label)
    repo.detect("d")
    assert anomalies_on(repo, 40)["id"].tolist() == [number]
    assert anomalies_on(repo, 40)["status"].item() == (
        "expected" if label == "expected" else "resolved"
    )
    detect_replayed(repo)


@pytest.mark.soak
def test_a_bad_range_changes_later_scores(repo):
    noisy(repo, spike=1, factor=1)
    before = repo.scores("d")
    repo.label_range("d", "bad", since="2013-02-01", until="2013-02-10", name="x")
    repo.detect("d")
    after = repo.scores("d")
    assert len(after) == len(before)
    changed = after["lower"] != before["lower"]
    assert after.loc[changed, "partition"].min() == ds(33)  # the day after the first one
    assert (after["expected"] != before["expected"]).any()
    detect_replayed(repo)


def test_the_newest_label_of_a_range_counts(repo):
    record(repo, "x", [1, 1, 500])
    repo.label_range("d", "ignore", since="2013-01-01")
    assert repo.detect("d", LIMIT).empty
    repo.label_range("d", "reopened", since="2013-01-01")
    assert len(repo.detect("d", LIMIT)) == 1
    repo.label_range("d", "ignore", since="2013-01-01")
    assert repo.detect("d", LIMIT).empty
    repo.label_range("d", "bad", since="2013-01-03")
    assert len(repo.detect("d", LIMIT)) == 1


@pytest.mark.parametrize("later", ["ignore", "rebaseline"])
def test_a_new_level_and_labels_of_its_points_are_compatible(repo, later):
    """A level begins with the first point of its range. A day after it can still be ignored."""
    record(repo, "x", [1] * 20 + [50] * 20)
    record(repo, "x", [500], first=36)
    ranges = {"ignore": ("2013-02-05", "2013-02-05"), "rebaseline": ("2013-01-21", None)}
    for label in sorted(ranges, key=lambda one: one == later):
        repo.label_range("d", label, since=ranges[label][0], until=ranges[label][1])
    assert repo.detect("d", LIMIT).empty
    assert repo.detect("d", [tg.Monitor()]).empty
    repo.label_range("d", "reopened", since="2013-01-21")
    assert len(repo.detect("d", LIMIT)) == 1
    assert "2013-01-21" in "".join(repo.detect("d", [tg.Monitor()], replay=True)["partition"])


@pytest.mark.parametrize(("eu", "status"), [(40, "open"), (41, "resolved"), (59, "resolved")])
def test_an_incident_of_a_segment_depends_only_on_partitions_of_that_segment(repo, eu, status):
    """Partitions of another segment do not matter, however many there are."""
    values = {f"{ds(n)}/region=us": 1000.0 + n % 5 for n in range(1, 61)}
    values |= {f"{ds(n)}/region=eu": 1000.0 + n % 5 for n in range(1, eu + 1)}
    repo.record("d", "rows", values | {f"{ds(40)}/region=eu": 100.0}, scale="count")
    repo.detect("d")
    (incident,) = repo.incidents("d").to_dict("records")
    assert incident["headline"] == "2013-02-09, region=eu: rows -90%"
    assert incident["status"] == status


@pytest.mark.parametrize("label", ["ignore", "bad", "expected"])
def test_a_new_level_begins_after_days_excluded_from_training(repo, label):
    record(repo, "x", [1000.0 + n % 5 for n in range(60)], scale="count")
    record(repo, "x", [2000.0 + n % 5 for n in range(10)], first=61, scale="count")
    record(repo, "x", [500.0], first=61, scale="count")
    repo.label_range("d", "rebaseline", since=ds(61)[3:])
    repo.label_range("d", label, since=ds(61)[3:], until=ds(61)[3:])
    found = repo.detect("d", [tg.Monitor()])["partition"].tolist()
    assert found == ([] if label == "ignore" else [ds(61)])


@pytest.mark.soak
def test_an_ignored_range_raises_no_anomalies(repo):
    noisy(repo, spike=40, factor=3)
    repo.label_range("d", "ignore", since="2013-02-09", until="2013-02-09")
    repo.detect("d")
    assert anomalies_on(repo, 40).empty
    detect_replayed(repo)
    record(repo, "x", [5.0], first=40, scale="positive")
    repo.detect("d")
    assert anomalies_on(repo, 40).empty
    repo.label_range("d", "ignore", since="2013-05-01")  # including future days
    record(repo, "x", [5.0], first=130, scale="positive")
    repo.detect("d")
    assert anomalies_on(repo, 130).empty


def test_a_new_level_from_an_anomaly_on(repo):
    noisy(repo, spike=1, factor=1, shift=50)
    assert len(anomalies_on(repo, 51)) == 1
    (number,) = anomalies_on(repo, 50)["id"]
    repo.label(number, "rebaseline", by="ann")
    repo.detect("d")
    found = repo.anomalies("d")
    assert found[found["partition"] >= ds(50)].query("name == 'x'").empty
    scores = repo.scores("d", name="x").set_index("partition")
    assert ds(50) not in scores.index  # the first day of a new level is not scored
    assert abs(scores.loc[ds(51), "expected"] - 1200) < 50
    detect_replayed(repo)
    record(repo, "x", [1200.0, 1195.0], first=71, scale="positive")
    repo.detect("d")
    assert (
        scores.loc[ds(70), "score"] == repo.scores("d").set_index("partition").loc[ds(70), "score"]
    )
    assert anomalies_on(repo, 72).empty
    detect_replayed(repo)


def test_a_new_level_from_a_day_on(repo):
    noisy(repo, spike=1, factor=1, shift=50)
    repo.label_range("d", "rebaseline", since=ds(50)[3:])
    repo.detect("d")
    found = repo.anomalies("d").query("name == 'x'")
    assert found[found["partition"] >= ds(50)].empty
    detect_replayed(repo)


@pytest.mark.soak
def test_a_new_level_can_be_announced_before_its_first_day(repo):
    noisy(repo, days=49, spike=1, factor=1)
    repo.label_range("d", "rebaseline", since=ds(50)[3:])
    for n in range(50, 60):
        record(repo, "x", [1200.0 + n % 3], first=n, scale="positive")
        repo.detect("d")
        assert repo.anomalies("d").query("name == 'x'").empty
    detect_replayed(repo)


def test_a_new_level_after_another(repo):
    noisy(repo, spike=1, factor=1, shift=50)
    repo.label_range("d", "rebaseline", since=ds(20)[3:])
    repo.label_range("d", "rebaseline", since=ds(50)[3:])
    repo.detect("d")
    found = repo.anomalies("d").query("name == 'x'")
    assert found[found["partition"] >= ds(50)].empty


def test_a_new_level_can_begin_on_a_day_without_a_value(repo):
    values = 1000 + 10 * np.random.default_rng(1).standard_normal(70)
    values[49:] *= 1.2
    record(repo, "y", [1.0] * 70)
    record(
        repo,
        "x",
        [v if n != 50 else None for n, v in enumerate(values.tolist(), 1)],
        scale="positive",
    )
    repo.label_range("d", "rebaseline", since=ds(50)[3:])
    found = repo.detect("d").query("name == 'x'")
    assert found[found["partition"] >= ds(50)].empty


def test_labels_before_the_first_detection_count(repo):
    values = [1000.0 + n % 5 for n in range(1, 61)]
    values[39] = 3000.0
    record(repo, "x", values)
    repo.label_range("d", "ignore", since=ds(40)[3:], until=ds(40)[3:])
    repo.detect("d")
    assert anomalies_on(repo, 40).empty
    detect_replayed(repo)


@pytest.mark.parametrize(("value", "is_anomaly"), [(1500.0, False), (500.0, True), (4000.0, True)])
def test_an_ignored_incident_hides_only_similar_anomalies(repo, value, is_anomaly):
    noisy(repo, days=40, spike=40, factor=1.5)
    repo.label(int(anomalies_on(repo, 40)["incident_id"].item()), "ignore")
    for n in range(41, 44):
        record(repo, "x", [value], first=n, scale="positive")
        repo.detect("d")
    assert anomalies_on(repo, 41).empty is not is_anomaly
    detect_replayed(repo)


def test_an_incident_can_grow_after_it_was_labelled_expected(repo):
    draw = np.random.default_rng(1)
    x, y = 1000 + 10 * draw.standard_normal((2, 60))
    x[39:44] = y[39] = 1500
    for metric, values in (("x", x), ("y", y)):
        record(repo, metric, values[:40].tolist(), scale="positive")
    repo.detect("d")
    repo.label(int(anomalies_on(repo, 40)["incident_id"].iloc[0]), "expected")
    for metric, values in (("x", x), ("y", y)):
        record(repo, metric, values[40:].tolist(), first=41, scale="positive")
    repo.detect("d")
    detect_replayed(repo)


# Earlier views


def test_an_earlier_view_shows_the_anomalies_and_labels_of_that_time(repo):
    record(repo, "x", [1, 1, 500])
    repo.detect("d", LIMIT)
    first = dt.datetime.now(dt.UTC)
    old = [f(as_of=first) for f in views(repo)]
    number = int(repo.incidents("d")["id"].item())
    repo.label(number, "acknowledged")
    record(repo, "x", [400, 1], first=4)
    repo.detect("d", LIMIT)
    record(repo, "x", [1], first=3)
    repo.detect("d", LIMIT)
    assert spans(repo) == [(4, 4)]
    for view, was in zip(views(repo), old, strict=True):
        pd.testing.assert_frame_equal(view(as_of=first), was)
    assert spans(repo, as_of=first) == [(3, 3)]
    assert statuses(repo, as_of=first) == ["open"]
    assert repo.anomalies("d", as_of=first)["value"].tolist() == [500]
    assert repo.scores("d", as_of=first)["version"].tolist() == [1, 1, 1]
    assert repo.scores("d")["version"].tolist() == [1, 1, 2, 1, 1]
    long_ago = first - dt.timedelta(days=1)
    assert all(view(as_of=long_ago).empty for view in views(repo))


def views(repo):
    def of(name):
        return lambda **kwargs: getattr(repo, name)("d", **kwargs)

    return [of(name) for name in ("anomalies", "incidents", "scores", "labels")]


def test_a_restated_partition_that_is_still_abnormal(repo):
    record(repo, "x", [1, 1, 500])
    repo.detect("d", LIMIT)
    record(repo, "x", [501], first=3)
    repo.detect("d", LIMIT)
    assert (spans(repo), statuses(repo)) == ([(3, 3)], ["open"])
    assert repo.anomalies("d")["value"].tolist() == [501]
    replayed_with_limit = content(repo)
    repo.detect("d", LIMIT, replay=True)
    for a, b in zip(replayed_with_limit, content(repo), strict=True):
        pd.testing.assert_frame_equal(a, b)


def test_a_restated_partition_that_is_still_abnormal_keeps_its_incident(repo):
    """A few late rows do not undo its labels."""
    record(repo, "x", [1, 1, 500])
    repo.detect("d", LIMIT)
    number = int(repo.incidents("d")["id"].item())
    repo.label(number, "acknowledged", by="ann")
    record(repo, "x", [501], first=3)
    repo.detect("d", LIMIT)
    assert repo.incidents("d")["id"].item() == number
    assert statuses(repo) == ["acknowledged"]


# Concurrency


def test_two_detections_at_once_lose_nothing(tmp_path):
    url = f"sqlite:///{tmp_path / 'both.db'}"
    values = [1000.0 + n % 5 for n in range(60)]
    values[40] = values[50] = 5000.0
    with Repository(url) as repo, Repository("sqlite://") as alone:
        for one in (repo, alone):
            record(one, "x", values)
            record(one, "y", [2 * v for v in values])
        failed = []
        start = threading.Barrier(3)

        def work():
            try:
                with Repository(url) as mine:
                    start.wait(20)
                    for n in range(3):
                        mine.detect("d", replay=n == 2)
            except BaseException as error:
                failed.append(error)

        def write():
            try:
                with Repository(url) as mine:
                    start.wait(20)
                    for n in range(61, 64):
                        record(mine, "x", [9000.0], first=n)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=f) for f in (work, work, write)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failed == []
        record(alone, "x", [9000.0] * 3, first=61)
        repo.detect("d")
        alone.detect("d")
        assert not repo.anomalies("d").duplicated(["partition", "analyzer", "detector"]).any()
        assert_same_content(repo, alone)


# Headlines


HOSTILE = [
    "<script>alert(1)</script>",
    "{0} {name} %s %(x)s",
    "'; DROP TABLE incident; --",
    "[bold]x[/]",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_plain_strings(repo, name):
    record(repo, name, [1, 1, 500], instance=name)
    found = repo.detect("d", LIMIT)
    assert repo.incidents("d")["headline"].item() == f"2013-01-03: {name} of {name} is 500"
    assert f"{name} of {name} in {ds(3)}" in found["explanation"].item()


def test_newlines_in_names_do_not_break_the_headline(repo):
    record(repo, "a\nb\x1b[31m\u202e", [1, 1, 500])
    repo.detect("d", LIMIT)
    headline = repo.incidents("d")["headline"].item()
    assert headline.isprintable()


def test_headlines_of_infinite_values(repo):
    record(repo, "x", [1, 1, float("inf"), -float("inf")], scale="count")
    record(repo, "Completeness", [1, 1, 1e308, -1.0], instance="y", scale="ratio")
    repo.detect("d", LIMIT)
    for headline in repo.incidents("d")["headline"]:
        assert headline
        assert "nan" not in headline


def test_the_whole_table_has_a_headline(repo):
    repo.record("d", "x", 500.0)
    repo.detect("d", LIMIT)
    assert repo.incidents("d")["headline"].item() == "the table: x is 500"


def test_an_incident_is_updated_by_each_label_of_it_or_its_anomalies(repo):
    """The times of labels come from the repository's clock, so each is later than the previous one."""
    commit(repo, *(day(n, rows=rows, only=[SIZE]) for n, rows in enumerate([10, 10, 99], 1)))
    repo.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
    number, anomaly = int(repo.incidents("d")["id"].item()), int(repo.anomalies("d")["id"].item())
    seen = [repo.incidents("d")["updated_at"].item()]
    until = dt.datetime(2033, 1, 1, tzinfo=dt.UTC)
    for of, label, options in (
        (number, "comment", {"note": "looking"}),
        (anomaly, "bad", {}),
        (number, "snoozed", {"until": until}),
    ):
        repo.label(of, label, by="ann", **options)
        seen.append(repo.incidents("d")["updated_at"].item())
        assert seen[-1] == repo.labels("d")["created_at"].max()
    assert seen == sorted(set(seen))
    earlier = repo.incidents("d", as_of=seen[1])["updated_at"].item()
    assert earlier == seen[1]
