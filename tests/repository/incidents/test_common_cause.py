"""Incidents of several tables with a common cause: which are grouped, and which coincide by chance.

No Spark.
"""

import datetime as dt

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.detectors.whole_partitions import schema_changes
from tidegauge.repository.incidents.common_cause import (
    ALL_TABLES,
    Candidate,
    TableScope,
    WatchedTable,
    departs_together,
    group_by_cause,
    kinds_of,
    poisson_tail,
)
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import SIZE, commit, day

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FEWER, LATE = "fewer rows", "late"


def day_of(days):
    return START + dt.timedelta(days=days)


def tables(count, upstream_of=None):
    upstream_of = upstream_of or {}
    names = (f"t{n}" for n in range(count))
    return {name: WatchedTable(START, frozenset(upstream_of.get(name, ()))) for name in names}


def incidents(days, numbers, *kinds, first=0):
    """Return one incident for each of some tables, all beginning on one day."""
    return [
        Candidate(first + n, f"t{n}", None if days is None else day_of(days), frozenset(kinds))
        for n in numbers
    ]


def summaries(groups):
    return [(group.since, group.kind, group.scope.name, group.datasets) for group in groups]


def test_tables_that_lost_rows_on_one_day_are_a_group():
    (group,) = group_by_cause(incidents(120, [3, 1, 2], FEWER), tables(50))
    assert (group.kind, group.scope, group.id) == (FEWER, ALL_TABLES, 1)
    assert group.datasets == ("t1", "t2", "t3")
    # None of 50 tables did so in the 90 days before; one in 30 days of one table is assumed.
    assert group.expected == pytest.approx(50 * 1 / (50 * 90 + 30))


def test_incidents_of_different_days_or_without_a_time_are_not_grouped():
    alone = [
        *incidents(120, [1], FEWER),
        *incidents(121, [2], FEWER),
        *incidents(None, [3, 4], FEWER),
    ]
    assert group_by_cause(alone, tables(50)) == []


def test_several_incidents_of_one_table_are_not_grouped():
    segments = [Candidate(n, "t1", day_of(120), frozenset({FEWER})) for n in range(5)]
    assert group_by_cause(segments, tables(50)) == []
    (group,) = group_by_cause([*segments, *incidents(120, [7, 8], FEWER, first=100)], tables(50))
    assert group.datasets == ("t1", "t7", "t8")
    assert len(group.incidents) == 7


def test_two_incidents_in_new_tables_can_be_chance():
    """Three tables without a history: one incident a month each, 0.1 on any day; P(N >= 2) = 0.0047."""
    assert poisson_tail(2, 0.1) == pytest.approx(0.00467884)
    assert group_by_cause(incidents(0, [0, 1], FEWER), tables(3)) == []
    # P(N >= 3) = 0.000155.
    assert summaries(group_by_cause(incidents(0, [0, 1, 2], FEWER), tables(3))) == [
        (START, FEWER, "", ("t0", "t1", "t2"))
    ]


def test_frequent_incidents_are_not_grouped():
    """Every day another of fifty tables loses rows, so two do on one day in four."""
    frequent = [one for n in range(120) for one in incidents(n, [n % 50], FEWER, first=100 * n)]
    pair = incidents(120, [1, 2], FEWER, first=50_000)
    assert group_by_cause([*frequent, *pair], tables(50)) == []
    late = incidents(120, [1, 2], LATE, first=50_000)
    assert summaries(group_by_cause([*frequent, *late], tables(50))) == [
        (day_of(120), LATE, "", ("t1", "t2"))
    ]


def warehouse(schemas, per_schema, **options):
    names = (f"db{n}.t{k}" for n in range(schemas) for k in range(per_schema))
    return {name: WatchedTable(START, **options) for name in names}


def incidents_of(names, *kinds, first=0):
    return [
        Candidate(first + n, name, day_of(120), frozenset(kinds)) for n, name in enumerate(names)
    ]


def test_different_changes_without_a_common_upstream_are_different_causes():
    mixed = [
        *incidents(120, range(4), FEWER),
        *incidents(120, range(4, 8), "more nulls"),
        *incidents(120, [8], "new columns"),
        *incidents(120, [9], LATE),
    ]
    assert summaries(group_by_cause(mixed, tables(50))) == [
        (day_of(120), FEWER, "", ("t0", "t1", "t2", "t3")),
        (day_of(120), "more nulls", "", ("t4", "t5", "t6", "t7")),
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("causes", [1, 3, 8])
def test_a_mixed_day_has_a_group_for_each_cause_and_no_other(causes, seed):
    """A cause is a kind of change in tables of one schema, or in tables that arrived late.

    In addition, four other schemas have one incident of each kind, which are unrelated.
    """
    draw = np.random.default_rng(seed)
    kinds = [FEWER, "more rows", "more nulls", "new columns", "restated", "unchanged", "lower Mean"]
    causes_of_day = [(kinds[n % 7], f"db{n}") for n in range(causes - 1)] + [(LATE, "")]
    found, expected = [], set()
    for number, (kind, schema) in enumerate(causes_of_day):
        size = int(draw.integers(4, 15))
        if schema:
            members = [f"{schema}.t{k}" for k in draw.choice(30, size, replace=False)]
        else:
            members = [f"db{n}.t40" for n in draw.choice(40, size, replace=False)]
        found += incidents_of(members, kind, first=100 * number)
        expected.add((kind, schema, tuple(sorted(members))))
    for number, kind in enumerate(kinds):
        others = [f"db{n}.t{30 + number}" for n in range(9, 13)]
        found += incidents_of(others, kind, first=10_000 + 100 * number)
    draw.shuffle(found)
    assert {s[1:] for s in summaries(group_by_cause(found, warehouse(40, 41)))} == expected


def test_forty_late_tables_of_many_schemas_are_one_group_beside_single_faults():
    late = [f"db{n}.t{k}" for n in range(20) for k in (0, 1)]
    found = [
        *incidents_of(late, LATE),
        *incidents_of(["db1.t5"], "more nulls", first=200),
        *incidents_of(["db1.t6"], "new columns", first=300),
    ]
    (group,) = group_by_cause(found, warehouse(20, 50))
    assert set(group.datasets) == set(late)
    assert group.headline.startswith("2026-05-01: late in 40 tables: db0.t0, ")


def test_the_same_change_in_a_few_tables_of_a_large_warehouse_is_one_cause_in_a_schema_or_of_an_owner():
    """Three of a thousand tables can lose rows on one day by themselves; ten hardly can."""
    spread = [f"db{n}.t{n}" for n in range(10)]
    large = warehouse(20, 50)
    assert group_by_cause(incidents_of(spread[:3], FEWER), large) == []
    assert [g.scope for g in group_by_cause(incidents_of(spread, FEWER), large)] == [ALL_TABLES]
    same_schema = incidents_of(["db1.t1", "db1.t2", "db1.t3"], FEWER)
    (group,) = group_by_cause(same_schema, large)
    assert (
        group.headline
        == "2026-05-01: fewer rows in 3 tables of schema db1: db1.t1, db1.t2 and db1.t3"
    )
    owned = large | {name: WatchedTable(START, owner="ann") for name in spread[:3]}
    (group,) = group_by_cause(incidents_of(spread[:3], FEWER), owned)
    assert group.scope == TableScope("owner", "ann")
    one_owner = warehouse(20, 50, owner="ann")
    assert group_by_cause(incidents_of(spread[:3], FEWER), one_owner) == []


def test_a_cause_in_a_small_repository_is_not_only_of_the_owner_of_most_of_its_tables():
    few = tables(24) | {name: WatchedTable(START, owner="ann") for name in ("t1", "t2", "t4")}
    (group,) = group_by_cause(incidents(120, [1, 2, 3], FEWER), few)
    assert group.datasets == ("t1", "t2", "t3")


def test_tables_without_a_schema_have_none_in_common():
    mixed = warehouse(2, 10) | tables(10)
    (group,) = group_by_cause(incidents_of(["t1", "t2", "t3"], FEWER), mixed)
    assert group.scope == ALL_TABLES
    assert group.headline == "2026-05-01: fewer rows in 3 tables: t1, t2 and t3"


def test_different_changes_below_one_upstream_are_one_cause_only_if_they_affect_half_of_its_tables():
    upstream_of = {f"t{n}": ["raw"] for n in range(10)}
    changes = [FEWER, "more nulls", "new columns", "lower Mean", "restated"]
    mixed = [i for n, kind in enumerate(changes) for i in incidents(120, [n], kind)]
    assert group_by_cause(mixed[:4], tables(200, upstream_of)) == []
    (group,) = group_by_cause(mixed, tables(200, upstream_of))
    assert group.headline.startswith("2026-05-01: incidents in 5 tables of upstream raw: t0, ")


def test_an_unrelated_incident_is_not_in_the_group():
    noise = [one for n in range(120) for one in incidents(n, [n % 50], first=100 * n)]
    lost = [
        *incidents(120, range(10), FEWER, first=50_000),
        *incidents(120, [20], LATE, first=50_000),
    ]
    (group,) = group_by_cause([*noise, *lost], tables(50))
    assert (group.kind, len(group.datasets)) == (FEWER, 10)


def test_a_group_with_one_upstream_table_is_named_after_it():
    upstream_of = {f"t{n}": ["raw"] for n in range(5)}
    noise = [one for n in range(120) for one in incidents(n, [10 + n, 140 + n % 60], first=500 * n)]
    hit = [
        *incidents(120, range(3), FEWER, first=99_000),
        *incidents(120, [3, 4], LATE, first=99_000),
        *incidents(120, [100], FEWER, first=99_000),
    ]
    (group,) = group_by_cause([*noise, *hit], tables(210, upstream_of))
    assert (group.kind, group.scope.name) == ("", "raw")
    assert group.datasets == ("t0", "t1", "t2", "t3", "t4")
    assert " of upstream raw: t0" in group.headline


def test_a_monitored_upstream_table_belongs_to_the_group():
    upstream_of = {"t1": ["t0"], "t2": ["t0"]}
    (group,) = group_by_cause(incidents(120, [0, 1], LATE), tables(50, upstream_of))
    assert (group.scope.name, group.datasets) == ("t0", ("t0", "t1"))


def test_an_outage_of_everything_does_not_hide_the_next_group():
    first = incidents(100, range(40), LATE)
    second = incidents(110, [1, 2], LATE, first=1000)
    assert [len(group.datasets) for group in group_by_cause([*first, *second], tables(50))] == [
        40,
        2,
    ]


def test_later_incidents_do_not_change_a_group():
    first = incidents(100, [1, 2, 3], LATE)
    later = [one for n in range(101, 200) for one in incidents(n, [n % 50], LATE, first=100 * n)]
    assert group_by_cause(first, tables(50)) == group_by_cause([*first, *later], tables(50))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_false_alarms_of_two_hundred_tables_are_rarely_grouped(seed):
    """Each table has one false incident a month.

    At `LEVEL`, at most 0.37 days of a year would have a group.
    """
    draw = np.random.default_rng(seed)
    kinds = [(FEWER,), (LATE,), ("more nulls",), (), ()]
    false = [
        Candidate(1000 * n + table, f"t{table}", day_of(n), frozenset(kinds[draw.integers(5)]))
        for n in range(365)
        for table in np.flatnonzero(draw.random(200) < 1 / 30).tolist()
    ]
    assert len(group_by_cause(false, tables(200))) <= 1


def test_metrics_are_classified_by_kind():
    assert kinds_of("Restatement", "high") == {"restated"}
    assert kinds_of("Completeness", "low") == {"more nulls"}
    assert kinds_of("Completeness", "high") == {"fewer nulls"}
    assert kinds_of("Mean", "low") | kinds_of("Mean", "high") == {"lower Mean", "higher Mean"}


def test_schema_changes_are_classified_by_what_the_detector_explains():
    before = {"a": "int", "b": "int"}
    changes = {
        "dropped columns": {"a": "int"},
        "new columns": {"a": "int", "b": "int", "c": "int"},
        "changed types": {"a": "int", "b": "long"},
    }
    for kind, after in changes.items():
        (change,) = schema_changes(before, after)
        assert kinds_of("SchemaChange", "high", f"has a changed schema: {change}") == {kind}


# In a repository


@pytest.fixture
def repo():
    with Repository("sqlite://") as made:
        yield made


def lose_rows(repo, *names, last=7, **kwargs):
    for name in names:
        rows = [1000 + n % 3 for n in range(29)] + [last]
        commit(
            repo,
            *(day(n, rows=r, only=[SIZE]) for n, r in enumerate(rows, 1)),
            dataset=name,
            **kwargs,
        )
        repo.detect(
            name, [tg.Monitor({"name": "Size"}, tg.SimpleThreshold(2000.0, lower_bound=500.0))]
        )


def test_the_listing_of_one_table_names_the_group_of_its_incidents(repo):
    lose_rows(repo, "a", "b", "c")
    lose_rows(repo, "d", last=1000)
    found = repo.incidents()
    assert sorted(found["dataset"]) == ["a", "b", "c"]
    assert found["group"].tolist() == [found["id"].min()] * 3
    assert repo.incidents("b")["group"].tolist() == [found["id"].min()]
    repo.label(int(found["id"].min()), "resolved")
    assert repo.incidents(status="open")["group"].tolist() == [found["id"].min()] * 2
    details = repo.incident(int(found["id"].max()))
    assert "Part of a group: 2013-01-30: fewer rows in 3 tables: a, b and c." in details.explain()


def test_a_table_has_no_group_until_other_tables_follow(repo):
    lose_rows(repo, "a")
    found = repo.incidents()
    assert found["group"].isna().all()
    first = int(found["id"].item())
    assert repo.incident(first).group is None
    lose_rows(repo, "b", "c")
    assert repo.incident(first).group.datasets == ("a", "b", "c")


def test_the_upstream_tag_of_a_run_names_the_source_tables(repo):
    lose_rows(repo, "a", "b", "c", tags={"upstream": "raw.orders, raw.users"})
    for name in "defghi":
        commit(repo, *(day(n, rows=1000, only=[SIZE]) for n in range(1, 31)), dataset=name)
    (group,) = {repo.incident(int(number)).group for number in repo.incidents()["id"]}
    assert (group.kind, group.scope.name) == ("fewer rows", "raw.orders")  # by name


def test_tables_added_later_do_not_change_a_group():
    some = incidents(100, range(3), "missing")
    before = group_by_cause(some, tables(10))
    assert before
    new = {f"n{n}": WatchedTable(day_of(200), frozenset()) for n in range(200)}
    assert group_by_cause(some, tables(10) | new) == before


# Weak departures of many tables


@pytest.mark.parametrize("count", [6, 16, 60, 200])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_many_weak_departures_are_no_chance(count, share):
    """P-values near 0.02 are usual alone, and unlikely in half of the tables."""
    random = np.random.default_rng(count)
    affected = round(count * share)
    p_values = np.concatenate(
        [random.uniform(0.001, 0.03, affected), random.uniform(0.15, 1.0, count - affected)]
    )
    assert departs_together(p_values.tolist()) == list(range(affected))


@pytest.mark.parametrize("count", [1, 2, 6, 16, 60, 200])
def test_chance_in_many_tables_is_rarely_a_departure(count):
    """Uniform p-values depart together in at most one of a thousand partitions."""
    random = np.random.default_rng(count)
    repetitions = 2000
    found = [
        bool(departs_together(random.uniform(size=count).tolist())) for _ in range(repetitions)
    ]
    assert sum(found) <= 6  # three times the expected number


def test_tables_with_weak_departures_are_named_in_the_group():
    """Sixteen tables lose a fifth of their rows. Alone, that is an incident only in steady tables."""
    random = np.random.default_rng(5)
    names = [f"ds={dt.date(2026, 6, 1) + dt.timedelta(days=k)}" for k in range(60)]
    with tg.Repository("sqlite://") as repo:
        for number in range(16):
            spread = 0.02 if number < 4 else 0.075
            rows = 10_000 * np.exp(random.normal(0, spread, len(names)))
            rows[-1] = 8000
            if number == 15:  # this table is as usual
                rows[-1] = 10_000
            values = dict(zip(names, np.round(rows).tolist(), strict=True))
            repo.record(f"t{number:02}", "Size", values, scale="count")
            repo.detect(f"t{number:02}")
        incidents = repo.incidents()
        incidents = incidents[incidents["first"] == names[-1]]
        assert 3 <= len(incidents) < 12
        group = repo.incident(int(incidents["id"].iloc[0])).group
        # One of the eleven noisy tables may be as usual by chance.
        assert 14 <= len(group.datasets) <= 15
        assert "t15" not in group.datasets
        assert len(group.weak) == len(group.datasets) - len(incidents)
        affected = f"{len(group.datasets)} tables ({len(group.weak)} of them weakly)"
        assert f"fewer rows in {affected}" in group.headline
