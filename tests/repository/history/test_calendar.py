"""The ledger as a calendar: partitions that arrived, were late, restated, missing or removed.

No Spark.
"""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.testing import SIZE, commit, day

NOW = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
HOUR = dt.timedelta(hours=1)


def arrived_day(n, hours=2.0, **options):
    """Return a day of 2013 whose data arrived the given number of hours after its end."""
    made = day(n, only=[SIZE], **options)
    return replace(made, arrived_at=made.time + 24 * HOUR + hours * HOUR)


def hour(n, keys=("ds", "hr"), segment=""):
    """Return an hour of 2013 whose data arrived half an hour after its end."""
    time = dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + n * HOUR
    texts = (f"{time:%Y-%m-%d}", f"{time:%H}")
    return replace(
        day(1, only=[SIZE]),
        partition=Partition(keys, texts),
        time=time,
        arrived_at=time + 1.5 * HOUR,
        segment=segment,
    )


def calendar(repo, until="2013-03-31", **options):
    """Return the calendar to the end of March, before which nothing is overdue."""
    return repo.calendar("d", until=until, **options)


def statuses(found):
    """Return the days with a status other than measured."""
    some = found[found["status"] != "measured"]
    return dict(zip(some["time"].dt.strftime("%m-%d"), some["status"], strict=True))


def test_measured_and_missing_partitions(repo):
    commit(repo, *(arrived_day(n) for n in range(1, 41) if n not in {20, 21, 3}))
    rows = calendar(repo, until="2013-02-09")
    # The third day is missing before the calendar can know that it is expected.
    assert statuses(rows) == {"01-20": "missing", "01-21": "missing"}
    assert rows["time"].is_monotonic_increasing
    assert len(rows) == 39
    gap = rows[rows["status"] == "missing"].iloc[0]
    nothing = [
        "partition",
        "version",
        "rows",
        "first_seen_at",
        "arrived_at",
        "measured_at",
        "delay",
    ]
    assert gap[[*nothing, "gone_at", "worst"]].isna().all()
    assert (gap["anomalies"], gap["late"], gap["restated"]) == (0, False, False)
    first = rows.iloc[0]
    assert (first["partition"], first["version"], first["rows"]) == ("ds=2013-01-01", 1, 10)
    assert first["arrived_at"] == pd.Timestamp("2013-01-02T02:00Z")
    assert set(rows["delay"].dropna()) == {7200.0}
    assert list(rows.columns) == [
        *("segment", "partition", "time", "status", "late", "restated", "version", "rows"),
        *("first_seen_at", "arrived_at", "measured_at", "gone_at", "delay", "anomalies", "worst"),
    ]


def test_missing_partitions_are_those_that_the_detector_counts(repo):
    """Weekends never have data and are not missing; a Tuesday is missing."""
    working = [n for n in range(1, 60) if n % 7 < 5]  # 2013 began on a Tuesday
    commit(repo, *(arrived_day(n) for n in working if n != 50))
    repo.detect("d", [tg.Monitor(detector="MissingPartition")])
    rows = calendar(repo, until="2013-02-28")
    late = rows[
        (rows["status"] == "missing") & (rows["time"] > pd.Timestamp("2013-02-01", tz="UTC"))
    ]
    assert late["time"].dt.strftime("%m-%d").tolist() == ["02-19"]


def test_overdue_partitions(repo):
    """The last day ended five days ago.

    Data usually arrive within two hours, so they are due after four.
    """
    days = [arrived_day(n, 2) for n in range(1, 30)]
    shift = NOW - dt.timedelta(days=5) - (days[-1].time + 24 * HOUR)
    moved = [
        replace(
            one,
            partition=Partition(("ds",), (f"{one.time + shift:%Y-%m-%d}",)),
            time=one.time + shift,
            arrived_at=one.arrived_at + shift,
        )
        for one in days
    ]
    commit(repo, *moved)
    rows = repo.calendar("d")
    due = rows[rows["status"] == "missing"]["time"]
    assert len(due) in {4, 5}  # by the time of day
    first = NOW - dt.timedelta(days=5)
    assert due.tolist() == [pd.Timestamp(first + dt.timedelta(days=n)) for n in range(len(due))]


def test_late_partitions(repo):
    commit(repo, *(arrived_day(n, 30 if n == 35 else 2 + n % 3 / 10) for n in range(1, 41)))
    rows = calendar(repo, until="2013-02-09")
    assert statuses(rows) == {"02-04": "late"}
    row = rows[rows["late"]].iloc[0]
    assert (row["delay"], row["status"]) == (30 * 3600, "late")
    repo.detect("d")
    row = calendar(repo, until="2013-02-09").iloc[34]
    assert (row["anomalies"], row["worst"]) == (1, "warning")


def test_an_early_arrival_is_a_negative_delay_and_an_unknown_one_has_none(repo):
    commit(repo, arrived_day(1, -1), replace(arrived_day(2), arrived_at=None))
    rows = calendar(repo, until="2013-01-02")
    np.testing.assert_equal(rows["delay"].to_numpy(), [-3600.0, np.nan])
    assert rows["status"].tolist() == ["measured", "measured"]


def test_a_partition_can_be_restated_and_late(repo):
    commit(repo, *(arrived_day(n, 30 if n == 35 else 2 + n % 3 / 10) for n in range(1, 41)))
    commit(repo, arrived_day(35, 400, fingerprint="b", rows=11))
    rows = calendar(repo, until="2013-02-09")
    assert statuses(rows) == {"02-04": "restated"}
    row = rows.iloc[34]
    assert (row["version"], row["restated"], row["late"], row["rows"]) == (2, True, True, 11)


def test_the_arrival_of_a_restated_partition_is_that_of_its_first_version(repo):
    commit(repo, *(arrived_day(n, 2) for n in range(1, 41)))
    commit(repo, arrived_day(35, 400, fingerprint="b", rows=11))
    row = calendar(repo, until="2013-02-09").iloc[34]
    assert (row["restated"], row["late"], row["delay"]) == (True, False, 2 * 3600)
    assert repo.detect("d", [tg.Monitor(detector="Late")]).empty
    repo.clean(versions="0d")  # the arrival of the first version is no longer known
    row = calendar(repo, until="2013-02-09").iloc[34]
    assert (row["late"], np.isnan(row["delay"])) == (False, True)
    assert repo.detect("d", [tg.Monitor(detector="Late")], replay=True).empty


def test_removed_partitions(repo):
    run = commit(repo, *(arrived_day(n) for n in range(1, 11)))
    repo.store.mark_gone(run, ["ds=2013-01-05"], [])
    rows = calendar(repo, until="2013-01-10")
    assert statuses(rows) == {"01-05": "gone"}
    assert rows["gone_at"].notna().tolist() == [n == 5 for n in range(1, 11)]
    assert rows["version"].tolist() == [1] * 10


def test_partitions_with_recorded_values_only(repo):
    commit(repo, arrived_day(1))
    repo.record("d", "x", {"ds=2013-01-01": 1, "ds=2013-01-02": 2})
    rows = repo.calendar("d")
    assert rows["status"].tolist() == ["measured", "unmeasured"]
    assert rows["partition"].tolist() == ["ds=2013-01-01", "ds=2013-01-02"]
    assert rows["version"].isna().tolist() == [False, True]


def test_partitions_without_a_time_come_last_and_only_without_bounds(repo):
    repo.record("whole", "y", 3)
    repo.record("e", "y", {"region=b": 3, "region=a": 4})
    whole = repo.calendar("whole")
    assert whole[["partition", "status"]].to_numpy().tolist() == [["", "unmeasured"]]
    rows = repo.calendar("e")
    assert rows["partition"].tolist() == ["region=a", "region=b"]
    assert rows["time"].isna().all()
    assert rows["delay"].isna().all()
    assert repo.calendar("e", since="2013-01-01").empty


def test_hourly_partitions(repo):
    # One of the two missing hours is in the first week, when the usual hours are still unknown.
    commit(repo, *(hour(n) for n in range(240) if n not in {50, 200}))
    rows = repo.calendar("d", until="2013-01-10T23:59")
    gap = rows[rows["status"] == "missing"]
    assert gap["time"].tolist() == [pd.Timestamp("2013-01-09T08:00Z")]
    assert set(rows["delay"].dropna()) == {1800.0}
    assert len(rows) == 239


def test_segments_have_separate_calendars(repo):
    made = []
    for region, missing in (("a", 20), ("b", 25)):
        for n in range(1, 31):
            one = arrived_day(n)
            named = Partition(("ds", "region"), (*one.partition.values, region))
            if n != missing:
                made.append(replace(one, partition=named, segment=f"region={region}"))
    commit(repo, *made)
    rows = calendar(repo, until="2013-01-30")
    gaps = rows[rows["status"] == "missing"]
    assert list(zip(gaps["segment"], gaps["time"].dt.day, strict=True)) == [
        ("region=a", 20),
        ("region=b", 25),
    ]
    assert len(rows) == 60


def test_an_earlier_view_does_not_know_later_arrivals(repo):
    first = commit(repo, *(arrived_day(n) for n in range(1, 31)))
    repo.record("d", "own", {"ds=2013-01-31": 1.0})
    second = commit(repo, arrived_day(32))
    commit(repo, arrived_day(31, hours=40.0))
    actual = calendar(repo, until="2013-02-01").set_index("partition")
    assert actual.loc["ds=2013-01-31", "delay"] == 40 * 3600
    then = calendar(repo, until="2013-02-01", as_of=second).set_index("partition")
    one = then.loc["ds=2013-01-31"]
    assert (one["status"], one["late"], pd.isna(one["delay"])) == ("unmeasured", False, True)
    assert pd.isna(one["arrived_at"])
    assert "ds=2013-01-31" not in set(calendar(repo, as_of=first)["partition"])


def test_bounds_and_earlier_views_of_the_calendar(repo):
    first = commit(repo, *(arrived_day(n) for n in range(1, 11)))
    commit(repo, arrived_day(5, fingerprint="b", rows=11), arrived_day(11))
    then = repo.calendar("d", until="2013-01-11", as_of=first)
    assert then["status"].tolist()[:10] == ["measured"] * 10
    assert then["status"].tolist()[10:] == ["missing"]  # overdue at that time, as now
    now = repo.calendar("d", since="2013-01-05", until="2013-01-06")
    assert now["status"].tolist() == ["restated", "measured"]
    empty = repo.calendar("d", since="2012-01-01", until="2012-01-02")
    assert empty.empty
    assert empty.dtypes.equals(then.dtypes) or set(empty.columns) == set(then.columns)
    assert repo.calendar("d", as_of=dt.datetime(2012, 1, 1)).empty  # noqa: DTZ001 - taken for UTC
    with pytest.raises(tg.UnknownDatasetError):
        repo.calendar("e")


def test_anomalies_are_counted_and_the_worst_is_named(repo):
    repo.record("d", "x", {f"ds=2013-01-{n:02}": n for n in range(1, 6)})
    repo.record("d", "y", {f"ds=2013-01-{n:02}": n for n in range(1, 6)})
    watch = [
        tg.Monitor({"name": "x"}, "SimpleThreshold(4)", severity="error"),
        tg.Monitor({"name": "y"}, "SimpleThreshold(3)", severity="info"),
    ]
    repo.detect("d", watch)
    rows = repo.calendar("d")
    assert rows["anomalies"].tolist() == [0, 0, 0, 1, 2]
    assert rows["worst"].tolist()[3:] == ["info", "error"]
