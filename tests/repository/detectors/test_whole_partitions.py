"""Anomalies of whole partitions, from stored metrics to anomaly and incident, without Spark."""

import datetime as dt
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analyzers.core.errors import NoSuchColumnError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.detection import detect
from tidegauge.repository.detectors.base import History
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.testing import (
    COMPLETE,
    MEAN,
    SIZE,
    UNIQUE,
    day,
    measurement,
    spec,
)

NOW = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = 60
FIRST = NOW - dt.timedelta(days=DAYS)
"""Partitions end today, so that none is overdue."""
WHOLE = {
    "StalePartition()",
    "EmptyMetrics()",
    "VolatilityShift()",
    "MissingPartition()",
    "Late()",
    "SchemaChange()",
}
TWO = '[["x","long"],["s","string"]]'


def moment(n):
    return FIRST + dt.timedelta(days=n)


def name(n):
    return f"ds={moment(n):%Y-%m-%d}"


def partition(n, delay=2.0, schema=TWO, rows=None, total=None, fingerprint="a", groups=None):
    """Return a normal partition of day n, counted from the first; it arrived two hours after its end."""
    draw = np.random.default_rng(n)
    rows = int(1000 * np.exp(0.05 * draw.standard_normal())) if rows is None else rows
    total = rows * (50 + draw.standard_normal()) if total is None else total
    one = int(rows * (0.5 + 0.02 * draw.standard_normal()))
    groups = {("a",): rows - one, ("b",): one} if groups is None else groups
    made = day(1, fingerprint, rows, groups, total=total, only=(SIZE, COMPLETE, MEAN, UNIQUE))
    return replace(
        made,
        partition=Partition(("ds",), (name(n)[3:],)),
        time=moment(n),
        arrived_at=moment(n) + dt.timedelta(days=1, hours=delay + 0.1 * draw.standard_normal()),
        schema=schema,
    )


def store(repo, partitions, suite="{}"):
    run = repo.store.open_run(spec(suite=suite))
    repo.store.commit_batch(run, list(partitions))


def store_normal_days(repo, days=range(DAYS)):
    store(repo, [partition(n) for n in days])


def detect_whole(repo, monitors=None):
    anomalies = repo.detect("d", monitors)
    wanted = WHOLE if monitors is None else {repr(m.detector) for m in monitors}
    return anomalies[anomalies["detector"].isin(wanted)]


def the_only_anomaly(repo, monitors=None):
    """Return the only anomaly of a whole partition, and its incident."""
    one = detect_whole(repo, monitors)
    assert len(one) == 1
    incidents = repo.incidents("d").set_index("id")
    return one.iloc[0], incidents.loc[one["incident_id"].item()]


def test_normal_partitions_raise_no_anomalies(repo):
    store_normal_days(repo)
    every = ["Restatement", "ChangePoint", "SlowDrift"]
    assert detect_whole(repo).empty
    watch = [tg.Monitor(detector=one) for one in (*sorted(WHOLE), *every)]
    assert repo.detect("d", watch).empty
    assert repo.incidents("d").empty
    scores = repo.scores("d")
    assert set(scores["detector"]) >= {"ChangePoint()", "SlowDrift()"}


# Copies


def test_a_copy_of_the_day_before_is_stale(repo):
    store_normal_days(repo, range(40))
    before = partition(39)
    again = replace(before, partition=partition(40).partition, time=moment(40), fingerprint="b")
    store(repo, [replace(again, arrived_at=partition(40).arrived_at)])
    store(repo, [partition(n) for n in range(41, DAYS)])
    one, incident = the_only_anomaly(repo)
    assert (one["partition"], one["detector"], one["name"]) == (
        name(40),
        "StalePartition()",
        "StalePartition",
    )
    assert one["explanation"] == f"{name(40)} repeats the previous partition in all of its metrics."
    assert (one["value"], one["upper"], one["direction"]) == (1.0, 0.6, "high")
    assert incident["status"] == "resolved"
    assert (incident["first"], incident["last"]) == (name(40), name(40))


def test_a_table_that_never_changes_is_not_stale(repo):
    store(repo, [partition(n, rows=1000, total=5e4, groups={("a",): 1000}) for n in range(DAYS)])
    assert detect_whole(repo).empty


def test_two_equal_metrics_do_not_prove_a_copy(repo):
    for metric in ("x", "y"):
        values = {name(n): float(np.random.default_rng(n).normal()) for n in range(DAYS)}
        values[name(40)] = values[name(39)]
        repo.record("d", metric, values)
    watch = [tg.Monitor(detector="StalePartition")]
    assert detect_whole(repo, watch).empty
    values = {name(n): float(np.random.default_rng(n).normal()) for n in range(DAYS)}
    values[name(40)] = values[name(39)]
    repo.record("d", "z", values)
    assert detect_whole(repo, watch)["partition"].tolist() == [name(40)]


@pytest.mark.parametrize("usual", [0.5, 0.7, 1.0])
def test_small_counts_that_repeat_by_chance_are_not_a_copy(repo, usual):
    """On one day in a hundred, nine or more of 14 counts are as on the day before."""
    random = np.random.default_rng(5)
    for metric in range(14):
        counts = random.poisson(usual, 300).tolist()
        repo.record("d", f"x{metric}", {name(n): v for n, v in enumerate(counts)}, scale="count")
    assert len(detect_whole(repo, [tg.Monitor(detector="StalePartition")])) <= 1


# Empty metrics


def test_an_empty_partition_has_empty_metrics(repo):
    store(repo, [partition(n, rows=0 if n == 40 else None, total=0) for n in range(DAYS)])
    watch = [tg.Monitor(detector="EmptyMetrics")]
    one, incident = the_only_anomaly(repo, watch)
    assert (one["partition"], one["detector"], one["value"]) == (name(40), "EmptyMetrics()", 3)
    said = "no longer has a value of Completeness of x, Mean of x, Uniqueness of s"
    assert one["explanation"] == f"{name(40)} {said}."
    assert said in incident["headline"]


@pytest.mark.parametrize(
    ("without", "told"),
    [
        ([40], [40]),
        ([40, 41], [40, 41]),
        (range(40, 50), [40, 41, 42, 43]),  # usual from then on
        ([20, 40], [20]),  # the second time in a quarter is no longer rare
        ([5], []),  # after five values nothing is known
    ],
)
def test_a_metric_that_becomes_nan_is_reported_as_empty(repo, without, told):
    values = {name(n): float("nan") if n in without else 10.0 + n % 3 for n in range(DAYS)}
    repo.record("d", "x", values)
    assert sorted(detect_whole(repo)["partition"]) == [name(n) for n in told]


def test_a_metric_measured_every_second_day_is_scored_like_a_daily_one(repo):
    values = {name(n): 10.0 + n % 3 for n in range(DAYS)}
    repo.record("d", "y", values)
    nothing = {name(n): float("nan") for n in (40, 42, 44, 46, 48)}
    repo.record("d", "x", {name(n): 10.0 + n % 3 for n in range(0, 40, 2)} | nothing)
    some = detect_whole(repo, [tg.Monitor(detector="EmptyMetrics")])
    assert sorted(some["partition"]) == [name(n) for n in (40, 42, 44, 46)]


def test_a_metric_that_is_often_empty_is_not_reported(repo):
    repo.record("d", "x", {name(n): float("nan") if n % 9 == 6 else 10.0 for n in range(DAYS)})
    assert detect_whole(repo).empty


def test_a_metric_that_fails_or_is_not_measured_is_not_empty(repo):
    failed = measurement(MEAN, NoSuchColumnError("x", ["y"]))
    days = [partition(n) for n in range(DAYS)]
    days[40] = replace(
        days[40],
        measurements=[failed if one.analyzer == MEAN else one for one in days[40].measurements],
    )
    days[50] = replace(
        days[50], measurements=[one for one in days[50].measurements if one.analyzer != MEAN]
    )
    store(repo, days)
    assert detect_whole(repo).empty


# Noise


def noisy(seed, factors, metrics=30):
    """Return metrics of 190 days with their own weekends; the noise is multiplied from day 150 on."""
    noise = np.random.default_rng(seed).normal(0, 0.05, (metrics, 190))
    noise[:, 150:] *= factors
    week = np.where(np.arange(190) % 7 >= 5, -0.8, 0)
    return 1e5 * np.exp(week + noise)


def days_of_noise(values):
    days = (np.datetime64("2024-01-01") + np.arange(values.shape[1])).astype("M8[s]")
    scales = [Scale.POSITIVE] * len(values)
    scores = tg.VolatilityShift().score(History(days, values, values, scales))
    return np.flatnonzero(scores.score[0] >= 3).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_table_that_becomes_noisier_is_reported_for_four_days(seed):
    found = days_of_noise(noisy(seed, 3))
    assert len(found) == 4
    assert 152 <= found[0] <= found[-1] <= 165


def test_a_new_level_an_outlier_and_less_noise_are_not_noise():
    for factors in (1, 0.4):
        assert days_of_noise(noisy(1, factors)) == []
    level, days = noisy(1, 1), noisy(1, 1)
    level[:, 150:] *= 3
    days[:, [152, 154]] /= 10
    assert days_of_noise(level) == days_of_noise(days) == []


def test_one_noisy_metric_is_not_noise_of_the_table():
    values = noisy(1, 1)
    values[:3] = noisy(2, 5, metrics=3)
    assert days_of_noise(values) == []


@pytest.mark.parametrize("minutes", [15, 60, 360])
def test_nights_and_weekends_of_parts_of_days_are_not_noise(minutes):
    """Twelve metrics with flatter weekends, and few rows at night; in the last week, five times the noise."""
    draw = np.random.default_rng(minutes)
    times = np.arange("2026-03-02", "2026-05-04", minutes, dtype="M8[m]").astype("M8[s]")
    hour = (times - times.astype("M8[D]")).astype(int) / 3600
    swing = np.where(np.is_busday(times.astype("M8[D]")), 2.5, 1)
    rows = 1000 * np.exp(-swing * np.cos(2 * np.pi * (hour - 2) / 24))
    noise = draw.normal(size=(12, len(times))) * np.hypot(0.02, 1 / np.sqrt(rows))
    noisier = np.where(times >= times[-1] - np.timedelta64(7, "D"), 5, 1) * noise
    quiet, loud = (
        tg.VolatilityShift().score(
            History(times, rows * np.exp(changes), rows + 0 * changes, [Scale.POSITIVE] * 12)
        )
        for changes in (noise, noisier)
    )
    assert not (quiet.score[0] >= 3).any()
    assert (loud.score[0] >= 3).any()


@pytest.mark.soak
def test_noise_is_a_separate_incident(repo):
    for i, values in enumerate(noisy(3, 3)):
        repo.record(
            "d",
            f"m{i}",
            dict(zip((name(n - 130) for n in range(190)), values.tolist(), strict=True)),
        )
    some = detect_whole(repo)
    assert some["detector"].unique().tolist() == ["VolatilityShift()"]
    assert some["incident_id"].nunique() == 1
    assert re.search(
        r" is noisier than before: its metrics vary [1-3]\.\d times as much\.$",
        some["explanation"].iloc[0],
    )


# Schemas


def test_a_new_schema_is_reported_with_its_columns(repo):
    other = '[["x","double"],["t","string"]]'
    store(repo, [partition(n, schema=other if n >= 40 else TWO) for n in range(DAYS)])
    one, incident = the_only_anomaly(repo)
    assert (one["partition"], one["value"]) == (name(40), 3)
    assert one["explanation"] == (
        f"{name(40)} has a changed schema: s is gone, t is new, x is double, not long."
    )
    assert (
        "has a changed schema: s is gone, t is new, x is double, not long" in incident["headline"]
    )


def test_many_new_columns_are_counted(repo):
    wide = json.dumps([["x", "long"], ["s", "string"], *([f"c{n}", "int"] for n in range(9))])
    store(repo, [partition(n, schema=wide if n >= 40 else TWO) for n in range(DAYS)])
    one, _ = the_only_anomaly(repo)
    assert one["explanation"].endswith("c5 is new and 3 more.")


def test_a_missing_schema_is_not_a_change(repo):
    store(repo, [partition(n, schema="[]" if n in {30, 31} else TWO) for n in range(DAYS)])
    assert detect_whole(repo).empty


def test_a_column_missing_for_a_day_is_reported_twice(repo):
    store(repo, [partition(n, schema='[["x","long"]]' if n == 40 else TWO) for n in range(DAYS)])
    some = detect_whole(repo).sort_values("partition")
    assert some["partition"].tolist() == [name(40)]  # the second change is no longer that rare
    watch = [tg.Monitor(detector="SchemaChange", rule="Threshold(1)")]
    assert detect_whole(repo, watch)["partition"].nunique() == 2


# Restatements


def test_a_restated_partition_is_reported(repo):
    store_normal_days(repo)
    watch = [tg.Monitor(detector="Restatement")]
    assert detect_whole(repo, watch).empty
    store(repo, [partition(40, rows=1010, fingerprint="b")])
    one, incident = the_only_anomaly(repo, watch)
    assert (one["partition"], one["value"]) == (name(40), 1)
    assert one["explanation"] == f"{name(40)} was restated once."
    assert "was restated once" in incident["headline"]
    store(repo, [partition(40, rows=1020, fingerprint="c")])
    one, _ = the_only_anomaly(repo, watch)
    assert one["explanation"] == f"{name(40)} was restated 2 times."
    store(repo, [partition(40, rows=1020, fingerprint="c")])
    assert the_only_anomaly(repo, watch)[0]["value"] == 2


# Gaps


def test_a_gap_is_reported_and_withdrawn_once_its_days_arrive(repo):
    store_normal_days(repo, [n for n in range(DAYS) if n not in {40, 41}])
    one, incident = the_only_anomaly(repo)
    assert (one["partition"], one["detector"], one["value"]) == (name(42), "MissingPartition()", 2)
    since = f"{moment(40):%Y-%m-%d}"
    assert one["explanation"] == f"{name(42)} follows a gap of 2 days from {since} on."
    assert incident["status"] == "open"  # later days do not fill the gap
    assert incident["headline"] == f"{since}: 2 days in a row are missing"
    assert (incident["first"], incident["last"]) == (name(40), name(41))
    store(repo, [partition(40), partition(41)])
    assert detect_whole(repo).empty  # they arrived after all
    assert repo.incidents("d").empty


def test_weekends_of_a_weekday_table_are_not_gaps(repo):
    store_normal_days(repo, [n for n in range(DAYS) if moment(n).weekday() < 5])
    assert detect_whole(repo).empty
    assert repo.incidents("d").empty


@pytest.mark.parametrize("weekday", range(5))
def test_a_missing_weekday_between_weekdays_is_a_gap(repo, weekday):
    (gone,) = [n for n in range(40, 47) if moment(n).weekday() == weekday]
    store_normal_days(repo, [n for n in range(DAYS) if moment(n).weekday() < 5 and n != gone])
    some = detect_whole(repo)
    late = some[some["partition"] > name(20)]
    assert late["partition"].tolist() == [name(gone + (3 if weekday == 4 else 1))]
    assert late["value"].tolist() == [1]


def test_a_table_loaded_years_later_is_not_overdue(repo):
    loaded = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    old = [replace(day(n, total=float(n)), arrived_at=loaded) for n in range(1, 40)]
    store(repo, old)
    watch = [tg.Monitor(detector=one) for one in ("MissingPartition", "Late")]
    assert detect_whole(repo, watch).empty


def test_a_table_that_stopped_long_ago_is_overdue_until_it_continues(repo):
    store_normal_days(repo, range(DAYS - 5))
    one, incident = the_only_anomaly(repo)
    assert one["partition"] == name(DAYS - 6)
    # In the first hours of a day, yesterday's partition is not overdue yet.
    assert re.search("is the newest, the next [45] days are overdue: ", one["explanation"])
    assert incident["status"] == "open"
    store(repo, [partition(n) for n in range(DAYS - 5, DAYS)])
    assert detect_whole(repo).empty
    assert repo.incidents("d").empty


def test_overdue_partitions_and_the_gap_they_leave_are_one_incident(repo, monkeypatch):
    now = SimpleNamespace(now=lambda _: clock)
    monkeypatch.setattr(detect, "datetime", now)
    watch = [tg.Monitor(detector="MissingPartition")]
    store(repo, [partition(n) for n in range(DAYS)])
    clock = moment(DAYS + 4)
    detect_whole(repo, watch)
    (incident,) = repo.incidents("d")["id"]
    repo.label(int(incident), "acknowledged")
    store(repo, [partition(DAYS + 3)])
    clock = moment(DAYS + 5)
    one, told = the_only_anomaly(repo, watch)
    since = f"{moment(DAYS):%Y-%m-%d}"
    assert one["explanation"] == f"{name(DAYS + 3)} follows a gap of 3 days from {since} on."
    assert (told.name, told["status"]) == (incident, "acknowledged")


# Late partitions


def test_a_late_partition_is_reported(repo):
    store(repo, [partition(n, delay=14.0 if n == 40 else 2.0) for n in range(DAYS)])
    one, incident = the_only_anomaly(repo)
    assert (one["partition"], one["detector"]) == (name(40), "Late()")
    assert one["value"] == pytest.approx(14, abs=0.5)
    assert one["explanation"].startswith(f"{name(40)} arrived 1")
    assert one["explanation"].endswith(" hours after its end.")
    assert incident["headline"].split(": ")[1].startswith("the partition arrived 1")
    assert "hours after its end" in incident["headline"]


def test_early_and_slightly_late_partitions_are_normal(repo):
    odd = {30: 0.0, 40: 3.5, 50: -10.0}
    store(repo, [partition(n, delay=odd.get(n, 2.0)) for n in range(DAYS)])
    assert detect_whole(repo).empty


def points(repo, detector):
    """Return the stored scores of a detector, in order of partitions."""
    with repo.database.read() as connection:
        ids = connection.execute(sa.select(s.partition.c.id).order_by(s.partition.c.id)).scalars()
        found = scorebook.read(connection, 1, detector, ids.all())
    order = np.argsort(found.partition)
    return np.stack([getattr(found, name)[order] for name in (*scorebook.SCORE_COLUMNS, "reason")])


@pytest.mark.soak
def test_delays_scored_day_by_day_equal_delays_scored_at_once(repo):
    """A weekly rhythm, single late days, a rising level, and a day that is loaded again."""
    extra = {n: 6.0 for n in range(5, DAYS, 7)} | {20: 14.0, 31: 3.5, 44: 30.0}
    extra |= {n: 9.0 + extra.get(n, 0) for n in range(48, DAYS)}
    days = [partition(n, delay=2.0 + extra.get(n, 0)) for n in range(DAYS)]
    watch = [tg.Monitor(detector="Late")]
    for n in range(0, DAYS, 4):
        store(repo, days[n : n + 4])
        repo.detect("d", watch)
    store(repo, [partition(52, delay=200.0, fingerprint="b", total=1.0)])
    told = repo.detect("d", watch)["partition"].tolist()
    by_day = points(repo, "Late()")
    assert by_day.shape[1] == DAYS - 7  # the first days are used for training
    assert repo.detect("d", watch, replay=True)["partition"].tolist() == told
    np.testing.assert_allclose(points(repo, "Late()"), by_day, rtol=1e-9)
    assert {name(20), name(44), name(48)} <= set(told)


def test_only_changed_delays_are_scored(repo, monkeypatch):
    store_normal_days(repo, range(50))
    detect_whole(repo)
    scored = []
    score = tg.Late.score_together

    def recorded(detector, requests):
        scored.extend(len(request.history.times) - request.start for request in requests)
        return score(detector, requests)

    monkeypatch.setattr(tg.Late, "score_together", recorded)
    detect_whole(repo)
    store_normal_days(repo, range(50, 52))
    detect_whole(repo)
    assert scored == [2]


# All metrics together


def record_metrics(repo, shift=None, metrics=12, days=60):
    draw = np.random.default_rng(0)
    for k in range(metrics):
        values = 1000 + 10 * draw.standard_normal(days)
        if shift:
            shift(values)
        repo.record(
            "d", f"m{k}", {name(n): float(v) for n, v in enumerate(values)}, scale="positive"
        )


def test_a_day_on_which_all_metrics_are_slightly_off_is_reported(repo):
    def off(values):
        values[40] = 1000 + 24 * np.sign(values[40] - 1000)

    record_metrics(repo, off)
    watch = [tg.Monitor(detector="Multivariate")]
    one, incident = the_only_anomaly(repo, watch)
    assert one["partition"] == name(40)
    assert one["explanation"].startswith(f"{name(40)} is unusual in ")
    assert one["explanation"].endswith(" of 12 metrics at once.")
    number = re.search(r"is unusual in (\d+) of 12 metrics at once", incident["headline"])
    assert number
    assert int(number[1]) >= 4


def test_few_normal_metrics_are_not_reported(repo):
    store_normal_days(repo)
    assert detect_whole(repo, [tg.Monitor(detector="Multivariate")]).empty


def test_chance_in_many_metrics_is_not_reported(repo):
    record_metrics(repo)
    assert detect_whole(repo, [tg.Monitor(detector="Multivariate")]).empty


# Changes


def test_a_change_of_level_is_reported_once(repo):
    def settle(values):
        values[40:] += 500

    record_metrics(repo, settle, metrics=2)
    some = detect_whole(repo, [tg.Monitor(detector="ChangePoint")])
    assert set(some["partition"]) == {name(43)}
    assert len(some) == 2
    (incident,) = repo.incidents("d").itertuples()
    assert (incident.first, incident.last, incident.status) == (name(43), name(43), "open")


def test_a_spike_is_not_a_change_of_level(repo):
    def spike(values):
        values[40:42] += 500

    record_metrics(repo, spike, metrics=2)
    assert detect_whole(repo, [tg.Monitor(detector="ChangePoint")]).empty


def test_a_slow_drift_is_reported(repo):
    def drift(values):
        values[90:] += 4.0 * np.arange(30)

    record_metrics(repo, drift, metrics=1, days=120)
    some = detect_whole(repo, [tg.Monitor(detector="SlowDrift")])
    assert len(some) >= 1
    assert some["partition"].min() > name(95)
    assert "slow drift" in some["explanation"].iloc[0]


def test_a_step_is_not_a_slow_drift(repo):
    def step(values):
        values[90:] += 500

    record_metrics(repo, step, metrics=1, days=120)
    assert detect_whole(repo, [tg.Monitor(detector="SlowDrift")]).empty
