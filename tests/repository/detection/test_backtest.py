"""Detectors tried on the stored history, and how often each was wrong, computed by hand without Spark."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.repository.store import schema as s
from tidegauge.repository.testing import commit, day

LIMIT = "SimpleThreshold(1000.0, lower_bound=50)"
COLUMNS = [
    *("detector", "rule", "series", "points", "anomalies", "per_1000", "incidents", "found", "missed"),
    *("false", "false_share", "precision", "recall", "seconds", "per_month"),
]  # fmt: skip
LOW_DAYS = (10, 20, 30)


@pytest.fixture
def low(repo):
    """Return a repository with 100 rows on each of 40 days, except for 10 on three of them."""
    commit(repo, *(day(n, rows=10 if n in LOW_DAYS else 100) for n in range(1, 41)))
    return repo


def backtest_outcomes(repo, detectors=LIMIT, **options):
    return repo.backtest("d", detectors, **{"name": "Size", **options}).iloc[0]


def stored_content(repo):
    with repo.database.read() as connection:
        return [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for table in (s.anomaly, s.score, s.incident, s.commit, s.scored, s.series)
        ]


def test_a_backtest_returns_what_would_be_detected_and_stores_nothing(low):
    before = stored_content(low)
    results = low.backtest("d", LIMIT, name="Size")
    assert list(results.columns) == COLUMNS
    row = results.iloc[0]
    assert row["detector"] == "SimpleThreshold(1000.0, lower_bound=50.0)"
    assert row["rule"] == "OutsideBand()"
    assert (row["series"], row["points"], row["anomalies"], row["incidents"]) == (1, 40, 3, 3)
    assert row["per_1000"] == 75
    assert (row["found"], row["missed"], row["false"]) == (0, 0, 0)
    assert results[["precision", "recall", "false_share"]].isna().all().all()
    assert stored_content(low) == before


def test_a_backtest_finds_the_anomalies_of_detect(low):
    monitors = [tg.Monitor(), tg.Monitor({"name": "Size"}, "OnlineNormal(2, 2)")]
    actual = low.detect("d", monitors).sort_values(["detector", "id"])
    again = low.backtest("d", monitors, details=True)
    columns = ["detector", "partition", "name", "instance", "analyzer", "value", "score"]
    keys = [
        sorted(map(tuple, frame[columns].round(6).to_numpy().tolist())) for frame in (actual, again)
    ]
    assert keys[0] == keys[1] != []
    rates = low.backtest("d", monitors)
    assert rates["anomalies"].tolist() == [
        (actual["detector"] == detector).sum() for detector in rates["detector"]
    ]
    assert rates["points"].sum() == len(low.scores("d"))
    assert rates["incidents"].iloc[0] <= len(low.incidents("d"))


def test_labels_decide_what_is_found_missed_and_false(low):
    """Day 10 is bad, day 20 expected, day 30 unlabeled. Day 5 is bad, but was not detected."""
    actual = low.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)]).set_index("partition")
    low.label(int(actual["incident_id"]["ds=2013-01-10"]), "acknowledged")
    low.label(int(actual["incident_id"]["ds=2013-01-20"]), "expected")
    low.label_range("d", "bad", since="2013-01-05", until="2013-01-05", name="Size")
    row = backtest_outcomes(low)
    assert (row["anomalies"], row["found"], row["missed"], row["false"]) == (3, 1, 1, 1)
    assert (row["false_share"], row["precision"], row["recall"]) == (0.5, 0.5, 0.5)
    none = backtest_outcomes(low, "SimpleThreshold(1000.0)")
    assert (none["found"], none["missed"], none["recall"]) == (0, 2, 0)
    assert np.isnan(none["precision"])
    assert np.isnan(none["false_share"])
    said = low.backtest("d", LIMIT, name="Size", details=True)
    assert said["said"].tolist() == ["real", "false", None]
    assert said["incident"].tolist() == [1, 2, 3]
    late = backtest_outcomes(low, since="2013-01-15")
    assert (late["points"], late["anomalies"], late["found"], late["missed"]) == (26, 2, 0, 0)
    other = backtest_outcomes(low, name="Mean")
    assert (other["found"], other["missed"], other["false"]) == (0, 0, 0)


def test_ignored_anomalies_are_found_and_false(low):
    actual = low.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)]).set_index("partition")
    low.label(int(actual["id"]["ds=2013-01-10"]), "ignore")
    assert len(low.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)])) == 2
    row = backtest_outcomes(low)
    assert (row["anomalies"], row["false"], row["false_share"]) == (3, 1, 1.0)


def test_the_last_label_of_a_person_counts(low):
    actual = low.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)]).set_index("partition")
    anomaly, incident = (int(actual[c]["ds=2013-01-10"]) for c in ("id", "incident_id"))
    low.label(incident, "expected")
    low.label(incident, "resolved")  # neither confirms nor rejects
    assert backtest_outcomes(low)["false"] == 1
    low.label(anomaly, "bad")
    assert (backtest_outcomes(low)["false"], backtest_outcomes(low)["found"]) == (0, 1)
    low.label(anomaly, "reopened")
    assert (backtest_outcomes(low)["false"], backtest_outcomes(low)["found"]) == (1, 0)
    low.label(incident, "expected", by="tidegauge")  # an automatic label
    assert low.alarm_rates("d")["false"].tolist() == [1, 1]
    low.label(incident, "reopened")
    assert (backtest_outcomes(low)["false"], backtest_outcomes(low)["found"]) == (0, 0)


def test_an_incident_and_its_anomaly_count_once(low):
    actual = low.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)]).set_index("partition")
    low.label(int(actual["id"]["ds=2013-01-10"]), "bad")
    low.label(int(actual["incident_id"]["ds=2013-01-10"]), "bad")
    row = backtest_outcomes(low)
    assert (row["found"], row["missed"], row["recall"]) == (1, 0, 1)


def test_detectors_reprs_monitors_and_rules_can_be_tried(low):
    detector = tg.SimpleThreshold(1000.0, lower_bound=50)
    several = [LIMIT, detector, tg.Monitor({"instance": "*"}, LIMIT), tg.Monitor({"name": "x"})]
    assert low.backtest("d", several, name="Size")["anomalies"].tolist() == [3, 3, 3, 0]
    assert backtest_outcomes(low, detector)["anomalies"] == 3
    normal = "OnlineNormal(ignore_start_percentage=0)"
    strict = backtest_outcomes(low, normal, rule="Threshold(299)")
    assert strict["rule"] == "Threshold(score=299.0)"
    assert strict["anomalies"] <= backtest_outcomes(low, normal)["anomalies"]
    assert backtest_outcomes(low, tg.Monitor(direction="high", detector=LIMIT))["anomalies"] == 0


def test_detectors_of_whole_partitions_can_be_tried(repo):
    """The gap of five days is one anomaly, on the day after it, whatever series are selected."""
    commit(repo, *(day(n) for n in (*range(1, 20), *range(25, 40))))
    monitor = tg.Monitor(detector="MissingPartition()")
    frame = repo.detect("d", [monitor]).sort_values("partition")
    again = repo.backtest("d", monitor, details=True)
    columns = ["partition", "name", "value", "score", "explanation"]
    assert again[columns].to_numpy().tolist() == frame[columns].to_numpy().tolist() != []
    repo.label(int(frame["incident_id"].iloc[0]), "bad")
    row = repo.backtest("d", [monitor, "Multivariate()"], name="Size").iloc[0]
    assert (row["series"], row["found"], row["missed"], row["precision"]) == (1, 1, 0, 1)


def test_labels_also_keep_partitions_out_of_the_training_of_a_backtest(repo):
    """Ten late days that are labeled do not make late days usual."""
    came = {n: 40 if 40 <= n < 50 else 2 + n % 3 / 10 for n in range(1, 60)}
    commit(
        repo,
        *(
            replace(day(n), arrived_at=day(n).time + dt.timedelta(days=1, hours=hours))
            for n, hours in came.items()
        ),
    )
    repo.label_range("d", "bad", since="2013-02-09", until="2013-02-18")
    monitor = tg.Monitor(detector="Late")
    late = sorted(repo.detect("d", [monitor])["partition"])
    assert len(late) == 10
    assert sorted(repo.backtest("d", monitor, details=True)["partition"]) == late


def test_errors_name_valid_alternatives(low):
    with pytest.raises(UnknownNameError, match="did you mean 'OnlineNormal'"):
        low.backtest("d", ["Seasonal()", "OnlineNorml(2, 2)"])
    with pytest.raises(UnknownNameError, match="did you mean 'Threshold'"):
        low.backtest("d", "Seasonal()", rule="Treshold(3)")
    with pytest.raises(SuiteError, match="at least one detector"):
        low.backtest("d", [])
    with pytest.raises(SuiteError, match="not 3"):
        low.backtest("d", [3])
    with pytest.raises(tg.UnknownDatasetError, match="did you mean"):
        low.backtest("dd", "Seasonal()")


def test_a_backtest_without_points_is_empty(repo, low):
    row = backtest_outcomes(low, until="2012-01-01")
    assert (row["points"], row["anomalies"], row["incidents"]) == (0, 0, 0)
    assert np.isnan(row["per_1000"])
    assert low.backtest("d", LIMIT, until="2012-01-01", details=True).empty
    with pytest.raises(tg.HistoryError, match="no series of 'd' has name='no such'"):
        backtest_outcomes(low, name="no such")


def test_alarm_rates_count_labels_by_detector(low):
    assert low.alarm_rates()["detector"].tolist() == ["in all"]
    monitors = [tg.Monitor({"name": "Size"}, LIMIT), tg.Monitor({"name": "Mean"}, LIMIT)]
    actual = low.detect("d", monitors[:1]).set_index("partition")
    low.label(int(actual["id"]["ds=2013-01-10"]), "bad")
    low.label(int(actual["incident_id"]["ds=2013-01-20"]), "expected")
    low.label_range("d", "expected", since="2013-01-30", until="2013-01-30", name="Size")
    rates = low.alarm_rates("d")
    assert list(rates.columns) == [
        *("detector", "anomalies", "labelled", "real", "false", "false_share", "points", "per_1000")
    ]
    assert rates.drop(columns="detector").to_numpy().tolist() == [[3, 3, 1, 2, 2 / 3, 40, 75]] * 2
    assert low.alarm_rates().equals(rates)
    low.detect("d", monitors)
    assert low.alarm_rates("d")["points"].tolist() == [80, 80]
    with pytest.raises(tg.UnknownDatasetError):
        low.alarm_rates("e")


def test_anomalies_are_counted_by_month_or_week(low):
    low.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)])
    months = low.anomaly_counts("d")
    assert list(months.columns) == [
        *("start", "end", "name", "instance", "anomalies", "series", "partitions", "incidents")
    ]
    assert months["start"].dt.strftime("%Y-%m-%d").tolist() == ["2013-01-01"]
    assert months["end"].dt.strftime("%Y-%m-%d").tolist() == ["2013-02-01"]
    assert months[["anomalies", "series", "partitions", "incidents"]].iloc[0].tolist() == [
        3,
        1,
        3,
        3,
    ]
    weeks = low.anomaly_counts("d", "1w", since="2013-01-15")
    assert weeks["start"].dt.strftime("%Y-%m-%d").tolist() == ["2013-01-14", "2013-01-28"]
    assert weeks["anomalies"].tolist() == [1, 1]
    assert low.anomaly_counts("d", name="Mean").empty
    with pytest.raises(tg.HistoryError, match="invalid window"):
        low.anomaly_counts("d", "fortnight")
    low.record("t", "rows", {"": 5.0})
    low.detect("t", [tg.Monitor({}, "SimpleThreshold(1.0)")])
    timeless = low.anomaly_counts("t")
    assert timeless["start"].isna().all()
    assert timeless["anomalies"].tolist() == [1]


def test_every_database_gives_the_same_backtest(url, tmp_path):
    with tg.Repository(url, artifacts=tmp_path / "states") as repo:
        groups = {("p",): 60, ("q",): 40}
        days = [day(n, rows=100, groups=groups) for n in range(1, 20)]
        commit(repo, *days, day(20, rows=40, groups={("q",): 40}))
        anomalies = repo.detect("d", [tg.Monitor({"name": "Size"}, LIMIT)])
        repo.label(int(anomalies["id"][0]), "bad")
        rates = repo.alarm_rates("d").set_index("detector").loc["in all"]
        assert rates.to_dict() == {
            **{"anomalies": 1, "labelled": 1, "real": 1, "false": 0, "false_share": 0.0},
            **{"points": 20, "per_1000": 50.0},
        }
        assert backtest_outcomes(repo)["recall"] == 1
        assert repo.anomaly_counts("d", "1w")["anomalies"].tolist() == [1]
        text = repo.incident(int(anomalies["incident_id"][0])).explain()
        assert "By s: p lost 100%; p alone accounts for 100% of it." in text
        assert repo.anomalies(incident=int(anomalies["incident_id"][0]), where="").equals(
            repo.anomalies("d")
        )
