"""Causes of anomalies: contributing parts, companions and explained incidents. No Spark."""

import json
import re
from dataclasses import replace
from html import unescape
from math import fsum, inf, nan

import numpy as np
import pytest

import tidegauge as tg
from tests.support.pages import shown
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.partitions import SegmentSet
from tidegauge.analyzers.measures.counts import Completeness, NumMatches, NumMatchesAndCount, Size
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.repository.incidents.contributions import (
    additive_parts,
    best_first,
    part_of,
    ratio_parts,
    unmeasured_breakdowns,
)
from tidegauge.repository.store.facts import dimensions_of
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.testing import COMPLETE, SIZE, commit, day, measurement

LIMIT = tg.SimpleThreshold(1000.0, lower_bound=60.0)
LOW = tg.Monitor({"analyzer": "Size()", "segment": ""}, LIMIT)


def shares(dimension):
    return {part.name: part.share for part in dimension.parts}


def test_the_parts_of_a_sum_add_up_to_its_change():
    found = additive_parts("origin", (50, 100), {"EWR": (10, 50), "JFK": (40, 50)})
    assert shares(found) == {"EWR": 0.8, "JFK": 0.2}
    assert found.rest == 0
    assert [part.usual for part in found.parts] == [0.5, 0.5]
    assert found.concentration == pytest.approx(0.64 + 0.04 - 0.5)
    assert fsum([*shares(found).values(), found.rest]) == 1


def test_a_change_in_no_part_is_left_over():
    """100 became 60: EWR lost 20 of these 40, the other rows belong to no part."""
    found = additive_parts("origin", (60, 100), {"EWR": (30, 50)})
    assert (shares(found), found.rest) == ({"EWR": 0.5}, 0.5)
    assert str(found) == (
        "By origin: EWR lost 40%; EWR alone accounts for 50% of it; 50% is in no part."
    )


def test_a_part_can_move_against_the_total():
    found = additive_parts("origin", (90, 100), {"EWR": (30, 50), "JFK": (60, 50)})
    assert shares(found) == {"EWR": 2, "JFK": -1}
    assert found.rest == 0
    assert str(found) == "By origin: EWR lost 40%; EWR alone accounts for 200% of it."


def test_a_ratio_has_a_mix_effect():
    """Half and half at 1 and 0.8 make 0.9. Now A has 60 of 100 rows at 0.8: A contributes 0.6 * -0.2 of -0.1.

    The rows that moved to A, the better part, contribute 0.1 * 1 - 0.1 * 0.8 = 0.02.
    """
    found = ratio_parts("origin", (0.8, 0.9, 100), {"A": (0.8, 1.0, 60), "B": (0.8, 0.8, 40)})
    assert shares(found) == pytest.approx({"A": 1.2, "B": 0.0})
    assert found.rest == pytest.approx(-0.2)
    assert fsum([*shares(found).values(), found.rest]) == 1
    assert str(found) == (
        "By origin: A fell from 1 to 0.8; A alone accounts for 120% of it;"
        " 20% the other way is a shift between parts, or in none."
    )


def test_a_shift_of_weights_alone_is_a_pure_mix_effect():
    """No part changed; only the weights did."""
    found = ratio_parts("o", (0.6, 0.5, 100), {"A": (1.0, 1.0, 60), "B": (0.0, 0.0, 40)})
    assert (shares(found), found.rest) == ({"A": 0, "B": 0}, 1)


def test_parts_that_moved_equally_are_reported_together():
    parts = {"EWR": (51, 100), "JFK": (50, 100), "LGA": (40, 80)}
    found = additive_parts("origin", (141, 280), parts)
    assert str(found) == (
        "By origin: JFK, EWR and LGA each lost about half; JFK alone accounts for 36% of it."
    )
    assert abs(found.concentration) < 0.001


def test_the_dimension_with_the_change_in_the_fewest_parts_comes_first():
    """If two dimensions are equal, the one with fewer parts comes first, in any order of input."""
    whole = (80, 100)
    alike = additive_parts("a", whole, {x: (16, 20) for x in "vwxyz"})
    two = additive_parts("b", whole, {x: (40, 50) for x in "xy"})
    few = additive_parts("c", whole, {"x": (0, 20), **{x: (20, 20) for x in "vwyz"}})
    assert [d.name for d in best_first([alike, two, few])] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ((1, 1), {"a": (1, 2)}),
        ((nan, 1), {"a": (1, 2)}),
        ((inf, 1), {"a": (1, 2)}),
        ((1, 2), {}),
        ((1, 2), {"a": (nan, 1)}),
    ],
)
def test_without_parts_there_are_no_moves(whole, parts):
    assert additive_parts("x", whole, parts) is None
    weighed = {name: (*pair, 1.0) for name, pair in parts.items()}
    assert ratio_parts("x", (*whole, 1.0), weighed) is None
    assert ratio_parts("x", (1, 2, 0.0), {"a": (1, 2, 0.0)}) is None


def test_new_and_missing_parts():
    found = additive_parts("o", (5, 10), {"new": (5, 0), "gone": (0, 10)})
    assert shares(found) == {"gone": 2, "new": -1}
    assert str(additive_parts("o", (5, 0), {"new": (5, 0)})) == "By o: new rose from 0 to 5."
    half = {"a": (0.5, 1.0, 50), "b": (0.5, 1.0, 50)}
    told = str(ratio_parts("o", (0.5, 1.0, 100), half, "ratio"))
    assert (
        told
        == "By o: a and b each fell by about 50 percentage points; a alone accounts for 50% of it."
    )


def test_hostile_names_are_plain_strings():
    name = "a\n\x1b[31m{x}%s"
    found = additive_parts(name, (5, 10), {name: (0, 5), "": (5, 5)})
    assert "\n" not in str(found)
    assert "\x1b" not in str(found)
    assert str(found) == (
        r"By a\n\x1b[31m{x}%s: a\n\x1b[31m{x}%s lost 100%; a\n\x1b[31m{x}%s alone accounts for 100% of it."
    )
    assert found.frame()["part"].tolist() == [name, ""]
    assert plain("") == "''"


def series(analyzer, segment="", filter=None, kind="Size", name="Size", instance="*"):
    return {
        "analyzer": analyzer,
        "segment": segment,
        "filter": filter,
        "kind": kind,
        "name": name,
        "instance": instance,
    }


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (series("Size()", "origin=EWR"), [("origin", "EWR")]),
        (series("Size()", "a=x%2Fy/b=2"), [("a, b", "x/y, 2")]),
        (series("Size(where=\"o = 'E'\")", filter="o = 'E'"), [("o", "E")]),
        (series("Size(where=\"`a b`='it\\\\'s'\")", filter="`a b`='it\\'s'"), [("a b", "it's")]),
        (series("Size(where=\"o = 'E' or 1 = 1\")", filter="o = 'E' or o = 'F'"), []),
        (series("Size(where=\"o > 'E'\")", filter="o > 'E'"), []),
        (series("Size()"), []),
        (series("Histogram('o')", "", None, "Histogram", "Histogram.abs.E", "o"), [("o", "E")]),
        (series("Histogram('o')", "", None, "Histogram", "Histogram.ratio.E", "o"), []),
        (series("Sum('x')", "origin=EWR", None, "Sum", "Sum", "x"), []),
    ],
)
def test_parts_of_a_series_share_its_metric_and_options(row, expected):
    assert list(part_of(series("Size()"), row)) == expected


def test_series_with_another_option_are_not_parts():
    whole = series("PatternMatch('x', 'a')", kind="PatternMatch", name="PatternMatch", instance="x")
    other = {**whole, "analyzer": "PatternMatch('x', 'b')", "segment": "o=1"}
    same = {**whole, "segment": "o=1"}
    assert list(part_of(whole, other)) == []
    assert list(part_of(whole, same)) == [("o", "1")]


def halves(number, ewr, jfk, complete=None):
    """A day of flights from two airports, by filter, segment and (as ``s``) histogram."""
    rows = ewr + jfk
    found = []
    for origin, size in (("EWR", ewr), ("JFK", jfk)):
        where = f"origin = '{origin}'"
        found.append(measurement(Size(where=where), NumMatches(size)))
        there = complete[origin] if complete else size
        found.append(measurement(Completeness("x", where=where), NumMatchesAndCount(there, size)))
        part = SegmentSet(("carrier",), (("UA",), ("a/b",)))
        name = part.name_of(("UA",) if origin == "EWR" else ("a/b",))
        one = measurement(Size(), NumMatches(rows // 2))
        found.append(replace(one, segment=name, segments=part))
    groups = {("p",): rows // 2, ("q",): rows - rows // 2}
    whole = day(number, rows=rows, groups=groups, extra=found)
    if complete is None:
        return whole
    sums = NumMatchesAndCount(sum(complete.values()), rows)
    kept = [m for m in whole.measurements if repr(m.analyzer) != "Completeness('x')"]
    return replace(whole, measurements=(*kept, measurement(Completeness("x"), sums)))


@pytest.fixture
def fell(repo):
    """60 and 40 flights each day, then EWR has 10."""
    commit(repo, *(halves(n, 60, 40) for n in range(1, 30)), halves(30, 10, 40))
    repo.detect("d", [LOW])
    return repo


def test_an_incident_names_the_part_that_moved_it(fell):
    found = fell.incident(int(fell.incidents("d")["id"].iloc[0]))
    (move,) = found.causes.moves
    assert (move.value, move.expected, move.subject) == (50, 100, "Size")
    assert [d.name for d in move.dimensions] == ["origin", "carrier", "s"]
    assert shares(move.dimensions[0]) == {"EWR": 1, "JFK": 0}
    assert shares(move.dimensions[1]) == {"UA": 0.5, "a/b": 0.5}
    assert shares(move.dimensions[2]) == {"p": 0.5, "q": 0.5}
    assert str(move) == (
        "Size in ds=2013-01-30 is 50 instead of 100. By origin: EWR lost 83%;"
        " EWR alone accounts for 100% of it."
    )
    frame = found.causes.frame()
    assert list(frame.columns) == [
        *("metric", "partition", "dimension", "part"),
        *("value", "expected", "change", "usual", "share"),
    ]
    assert frame.groupby("dimension")["share"].sum().to_dict() == dict.fromkeys(
        ["carrier", "origin", "s"], 1
    )


def test_an_incident_is_explained(fell):
    number = int(fell.incidents("d")["id"].iloc[0])
    fell.label(number, "acknowledged", note="a\nb\x1b", by="me")
    found = fell.incident(number)
    assert (found.id, found.dataset, found.started) == (number, "d", "ds=2013-01-30")
    assert len(found.firsts) == len(found.anomalies) == found.row["series"]
    text = found.explain()
    assert text.startswith(f"Incident {number} of d: 2013-01-30")
    assert "Status acknowledged, severity warning" in text
    assert "\nContributions:\n  Size in" in text
    assert text.endswith(r"acknowledged by me: a\nb\x1b")
    assert found.labels["label"].tolist() == ["acknowledged"]
    with pytest.raises(AttributeError):
        found.row = {}


def test_a_detectors_expectation_comes_before_the_median(fell):
    fell.detect("d", [tg.Monitor({"name": "Size"}, "OnlineNormal(ignore_anomalies=False)")])
    detector = "OnlineNormal(ignore_anomalies=False)"
    mine = {"analyzer": "Size()", "segment": ""}
    whole = fell.anomalies("d", **mine).set_index("detector")["id"][detector]
    scores = fell.scores("d", **mine, since="2013-01-30").set_index("detector")
    move = fell.causes(int(whole)).moves[0]
    assert move.expected == scores["expected"][detector] < 99
    assert sum(shares(move.dimensions[0]).values()) == pytest.approx(1)


def test_a_missing_bin_counts_as_zero(repo):
    days = [day(n, rows=90, groups={("p",): 60, ("q",): 30}) for n in range(1, 30)]
    commit(repo, *days, day(30, rows=30, groups={("q",): 30}))
    repo.detect("d", [LOW])
    found = repo.causes(int(repo.anomalies("d", name="Size")["id"].iloc[0])).moves[0]
    assert shares(found.dimensions[0]) == {"p": 1, "q": 0}


def test_a_ratio_is_broken_down_by_its_filters(repo):
    """EWR has 60 of 100 rows; 30 of them have no x: 0.6 * -0.5 = -0.3, the whole change."""
    days = [halves(n, 60, 40, {"EWR": 60, "JFK": 40}) for n in range(1, 30)]
    commit(repo, *days, halves(30, 60, 40, {"EWR": 30, "JFK": 40}))
    repo.detect("d", [tg.Monitor({"name": "Completeness"}, tg.SimpleThreshold(1.0, 0.8))])
    found = repo.causes(int(repo.incidents("d")["id"].iloc[0])).moves[0]
    assert found.subject == "Completeness of x"
    (origin,) = found.dimensions
    assert shares(origin) == pytest.approx({"EWR": 1, "JFK": 0})
    assert origin.rest == 0


def test_the_median_is_taken_over_the_same_weekday(repo):
    """Mondays have 40 rows, other days 100. A Monday with 10 rows lost 30, not 90."""
    rows = [40 if n % 7 == 0 else 100 for n in range(1, 36)]
    rows[34] = 10  # the 35th day, like days 7, 14, 21 and 28
    commit(repo, *(day(n, rows=r, groups={("p",): r}) for n, r in enumerate(rows, 1)))
    repo.detect("d", [tg.Monitor({"name": "Size"}, tg.SimpleThreshold(1000.0, 20.0))])
    move = repo.causes(int(repo.anomalies("d")["id"].iloc[0])).moves[0]
    assert (move.value, move.expected) == (10, 40)


def test_an_anomaly_without_parts_has_no_moves(repo):
    commit(repo, *(day(n, total=1000.0 if n == 30 else 10.0) for n in range(1, 31)))
    repo.detect("d", [tg.Monitor({"name": "Mean"}, tg.SimpleThreshold(50.0))])
    found = repo.causes(int(repo.anomalies("d")["id"].iloc[0]))
    assert found.moves == ()
    assert found.frame().empty
    assert found.unmeasured == (
        "Mean of x is not measured by s: add segments: [[s]] to the suite.",
    )
    assert str(found) == "\n".join(map(str, (*found.companions, *found.unmeasured)))
    assert "Contributions" not in repo.incident(int(repo.incidents("d")["id"].iloc[0])).explain()


def test_series_that_moved_along_are_reported(repo):
    """Mean follows Size. A series with an anomaly is not a companion."""
    sizes = np.random.default_rng(7).integers(90, 110, 40).tolist()
    sizes[-1] = 20
    commit(repo, *(day(n, rows=r, total=float(r * r)) for n, r in enumerate(sizes, 1)))
    repo.detect("d", [tg.Monitor({"name": "Size"}, tg.SimpleThreshold(1000.0, 50.0))])
    found = repo.causes(int(repo.anomalies("d")["id"].iloc[0])).companions
    along = {one.subject: one for one in found}
    assert along["Mean of x"].correlation == 1
    assert np.isnan(along["Mean of x"].score)
    assert str(along["Mean of x"]) == "Mean of x usually moves with it (rank correlation 1.00)."
    assert "Size" not in along
    scored = [
        tg.Monitor({"name": "Size"}, tg.SimpleThreshold(1000.0, 50.0)),
        tg.Monitor({"name": "Mean"}, "Seasonal", rule="Threshold(299)"),
    ]
    repo.detect("d", scored)
    size = repo.anomalies("d", name="Size")["id"].iloc[0]
    best = repo.causes(int(size)).companions[0]
    assert best.subject == "Mean of x"
    assert best.score >= 1.5
    assert "was also unusual" in str(best)


def test_an_anomaly_of_a_whole_partition_is_explained(repo):
    commit(repo, *(day(n) for n in (*range(1, 20), *range(25, 40))))
    repo.detect("d", [tg.Monitor(detector="MissingPartition()")])
    anomalies = repo.anomalies("d").set_index("partition")
    found = repo.incident(int(anomalies.loc["ds=2013-01-25", "incident_id"]))
    assert found.causes.moves == ()
    assert "follows a gap of 5 days from 2013-01-20 on" in found.explain()


def test_errors_name_unknown_ids(fell):
    with pytest.raises(tg.HistoryError, match="incident 999 does not exist; repo.incidents"):
        fell.incident(999)
    with pytest.raises(tg.HistoryError, match="incident 999 does not exist"):
        fell.anomalies("d", incident=999)
    with pytest.raises(tg.HistoryError, match="no anomaly or incident has the id 999"):
        fell.causes(999)


def test_the_error_for_an_incident_without_anomalies(fell):
    number = int(fell.incidents("d")["id"].iloc[0])
    fell.detect("d", [tg.Monitor({"name": "Mean"}, LIMIT)], since="2013-02-01")
    fell.detect("d", [tg.Monitor({"name": "Completeness"}, LIMIT, direction="high")])
    with pytest.raises(tg.HistoryError, match=f"incident {number} has no anomalies left"):
        fell.incident(number)
    assert fell.causes(number).moves == ()


def test_anomalies_are_selected_by_incident_detector_and_series(fell):
    fell.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)], since="2013-01-30")

    def found(**options):
        return sorted(fell.anomalies("d", **options)["value"].tolist())

    assert found() == found(name="Size") == found(name=["Size", "Mean"]) == [10, 25, 25, 40, 50]
    assert found(name="Mean") == found(instance="x") == []
    assert found(where="") == [25, 25, 50]
    assert found(where="origin = 'EWR'") == [10]
    assert found(segment="carrier=UA") == [25]
    assert found(analyzer="Size()", segment="") == [50]
    number = int(fell.incidents("d")["id"].iloc[0])
    assert found(incident=number) == found()
    assert found(incident=number, segment="carrier=UA") == [25]


def test_the_total_is_explained_even_if_its_parts_are_anomalies(fell):
    fell.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)], since="2013-01-30")
    (move,) = fell.incident(int(fell.incidents("d")["id"].iloc[0])).causes.moves
    assert (move.subject, move.value) == ("Size", 50)
    part = fell.anomalies("d", segment="carrier=UA")["id"].iloc[0]
    assert fell.causes(int(part)).moves[0].subject == "Size"  # it has no parts


def plain_text(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


def with_columns(number, rows, *columns):
    return replace(day(number, rows=rows, only=[Size()]), schema=json.dumps(columns))


def test_a_schema_change_is_reported_at_its_first_partition(repo):
    old, new = [("x", "long"), ("s", "string")], [("x", "double"), ("y", "int")]
    commit(repo, *(with_columns(n, 100, *old) for n in range(1, 4)))
    repo.record("d", "revenue", 1.0, partition="ds=2013-01-04")  # a partition that was not measured
    commit(repo, *(with_columns(n, 50, *new) for n in (5, 6)))
    repo.detect("d", [LOW])
    (difference,) = repo.incident(int(repo.incidents("d")["id"].iloc[0])).causes.schema
    assert (difference.partition, difference.before) == ("ds=2013-01-05", "ds=2013-01-03")
    assert difference.changes == ("s is gone", "y is new", "x is double, not long")
    told = (
        "The schema changed from ds=2013-01-03 to ds=2013-01-05:"
        " s is gone, y is new, x is double, not long."
    )
    details = repo.incident(int(repo.incidents("d")["id"].iloc[0]))
    assert f"Schema changes:\n  {told}" in details.explain()
    assert told in str(details.causes)
    assert told in plain_text(details.causes._repr_html_())
    (fourth,) = repo.anomalies("d")["id"][repo.anomalies("d")["partition"] == "ds=2013-01-06"]
    assert repo.causes(int(fourth)).schema == (), "its schema is that of the day before"


def test_a_partition_measured_again_is_reported_with_its_earlier_rows(repo):
    """Thirty days of 100 rows.

    Then the last one is rewritten with 50 rows, below the limit of 60.
    """
    rows = {n: day(n, rows=100, only=[Size()]) for n in range(1, 31)}
    commit(repo, *rows.values())
    commit(repo, day(30, "b", rows=50, only=[Size()]), day(29, "b", rows=90, only=[Size()]))
    repo.detect("d", [LOW])
    details = repo.incident(int(repo.incidents("d")["id"].item()))
    (again,) = details.causes.restated
    assert (again.partition, again.version) == ("ds=2013-01-30", 2)
    assert (again.rows, again.before) == (50, 100)
    told = f"on {again.measured_at:%Y-%m-%d %H:%M} UTC: version 2 has 50 rows instead of 100."
    assert f"Measured again:\n  ds=2013-01-30 was measured again {told}" in details.explain()
    assert told in str(details.causes)
    assert told in plain_text(details._repr_html_())


def test_partitions_measured_once_are_not_a_cause(repo):
    commit(repo, *(day(n, rows=n, only=[Size()]) for n in range(1, 4)))
    repo.detect("d", [LOW])
    assert repo.incident(int(repo.incidents("d")["id"].item())).causes.restated == ()


def test_only_the_first_of_many_schema_changes_are_reported(repo):
    kinds = ("long", "int", "double", "string", "date")
    commit(repo, *(with_columns(n, 50, ("x", kind)) for n, kind in enumerate(kinds, 1)))
    repo.detect("d", [LOW])
    schema = repo.incident(int(repo.incidents("d")["id"].iloc[0])).causes.schema
    assert [one.partition for one in schema] == [f"ds=2013-01-0{n}" for n in (2, 3, 4)]


def test_a_column_is_not_broken_down_by_its_own_values():
    whole = series(
        "Completeness('team')", kind="Completeness", name="Completeness", instance="team"
    )
    assert list(part_of(whole, {**whole, "segment": "team=sales"})) == []
    assert list(part_of(whole, {**whole, "segment": "shop=1"})) == [("shop", "1")]


def test_missing_breakdowns_name_what_to_add():
    """The sentences are part of the causes, and so of every explanation of the incident."""
    ewr, histogram = tg.Completeness("x", where="origin = 'EWR'"), tg.Histogram("carrier")
    carriers = FrequenciesAndNumRows.from_groups([(("AA",), 6), (("UA",), 4)])

    def measured(number, complete):
        extra = [
            measurement(COMPLETE, NumMatchesAndCount(complete, 10)),
            measurement(ewr, NumMatchesAndCount(complete // 2, 5)),
            measurement(histogram, carriers),
        ]
        return day(number, rows=10, only=[SIZE, COMPLETE, ewr, histogram], extra=extra)

    sentence = (
        "Completeness of x is not measured by carrier: add segments: [[carrier]] to the suite."
    )
    with tg.Repository("sqlite://") as repo:
        commit(repo, *(measured(n, 2 if n == 9 else 10) for n in range(1, 10)))
        monitor = tg.Monitor({"analyzer": "Completeness('x')"}, "SimpleThreshold(2, 0.5)")
        (number,) = set(repo.detect("d", [monitor])["incident_id"])
        details = repo.incident(int(number))
        assert details.causes.unmeasured == (sentence,)
        assert f"Not measured:\n  {sentence}" in details.explain()
        assert str(repo.causes(int(number))).splitlines()[-1] == sentence
        assert sentence in shown(details)
        assert sentence in shown(details.causes)
        with repo.database.read() as connection:
            rows = dimensions_of(connection, dataset_id(connection, "d"), MetricQuery())[0]
    (size,) = [row for row in rows if row["name"] == "Size"]
    assert unmeasured_breakdowns(size, rows) == [
        "Size is not measured by origin: add segments: [[origin]] to the suite."
    ]
    # A quantile has no contributions: measuring its parts would explain nothing.
    median = {**size, "name": "ApproxQuantile-0.5", "kind": "ApproxQuantile", "instance": "x"}
    assert unmeasured_breakdowns(median, rows) == []
