"""Weights of deviations by size in the decision, without a database."""

import numpy as np
import pytest

from tidegauge.repository.detection.findings import apply_rules
from tidegauge.repository.detectors.base import History, Scores
from tidegauge.repository.detectors.inputs import Matrix
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.rules import FalseDiscoveryRate

NULLS = {"kind": "Completeness", "name": "Completeness", "instance": "a", "scale": "ratio"}
LARGEST = {"kind": "Maximum", "name": "Maximum", "instance": "a", "scale": "signed"}
WHOLE = {"filter": None, "segment": "", "key": "k"}


def scored(score, value, expected):
    """Return scores of one point, and its value."""
    scores = Scores.unscored((1, 1))
    scores.score[:], scores.expected[:] = score, expected
    return scores, np.array([[value]])


def flags(series, score, value, expected, monitor=None):
    scores, values = scored(score, value, expected)
    history = History(np.array(["2024-01-01"], "M8[s]"), values, values, [series["scale"]])
    one = Matrix([{**series, **WHOLE}], [{}], history, np.ones((1, 1), dtype=np.int64))
    found, _ = apply_rules([monitor or Monitor()], one, scores, 0, np.ones((1, 1), dtype=bool))
    return bool(found[0, 0])


# A single p-value of 0.1 / 450, a score of 3.653, is an anomaly. For an error, half of the p-value
# counts: from 3.352. For information, four times the p-value counts: from 4.255.
@pytest.mark.parametrize(
    ("series", "score", "value", "expected", "anomaly"),
    [
        pytest.param(NULLS, 3.36, 0.80, 0.99, True, id="error"),
        pytest.param(NULLS, 3.34, 0.80, 0.99, False, id="error, likelier"),
        pytest.param(NULLS, 3.66, 0.95, 0.99, True, id="warning"),
        pytest.param(NULLS, 3.64, 0.95, 0.99, False, id="warning, likelier"),
        pytest.param(LARGEST, 4.26, 900.0, 300.0, True, id="information"),
        pytest.param(LARGEST, 4.24, 900.0, 300.0, False, id="information, likelier"),
    ],
)
def test_large_departures_need_less_evidence_than_small_ones(
    series, score, value, expected, anomaly
):
    assert flags(series, score, value, expected) is anomaly


ROWS = {"kind": "Size", "name": "Size", "instance": "*", "scale": "count"}


def decided(scores, values, step, start=0):
    """Return the anomalies of series over partitions of a length, from the partition ``start`` on."""
    times = np.datetime64("2024-01-01", "s") + np.arange(values.shape[1]) * np.timedelta64(
        step, "m"
    )
    history = History(times, values, values, ["count"] * len(values))
    versions = np.ones(values.shape, dtype=np.int64)
    matrix = Matrix([{**ROWS, **WHOLE}] * len(values), [{}] * values.shape[1], history, versions)
    before = Scores(
        *(getattr(scores, n)[:, :start] for n in ("score", "expected", "lower", "upper", "reason"))
    )
    sides = (
        np.where(
            decided(scores, values, step)[:, start - 1], np.sign(values - 100)[:, start - 1], 0
        )
        if start
        else None
    )
    may_alert = np.ones((len(values), values.shape[1] - start), dtype=bool)
    found, _ = apply_rules(
        [Monitor()], matrix, scores.since(start), start, may_alert, sides, before
    )
    return found


def rows_at(score, values):
    scores = Scores.unscored(np.shape(values))
    scores.score[:], scores.expected[:] = score, 100.0
    return scores, np.array(values, dtype=float)


DAY, HOUR, QUARTER = 1440, 60, 15


@pytest.mark.parametrize("step, tests_a_day", [(DAY, 1), (HOUR, 24), (QUARTER, 96)])
def test_partitions_of_a_day_share_its_tests(step, tests_a_day):
    """A loss of a fifth of the rows is a warning: its limit is 0.1 / 450 in a day."""
    limit = np.log10(4500 * tests_a_day)
    usual = [[100.0] * 9 + [80.0] + [100.0] * 4]
    for score, is_anomaly in ((limit - 0.01, False), (limit + 0.01, True)):
        by_partition = np.where(np.equal(usual, 80), score, 0.1)
        assert decided(*rows_at(by_partition, usual), step)[0, 9] == is_anomaly


def test_an_error_and_a_departure_that_lasts_need_less_evidence():
    calm = [100.0] * 9
    limit = np.log10(4500 * 24)
    error = np.log10(4500 * np.sqrt(24) / 2)
    for values, score, is_anomaly in (
        ([40.0], error + 0.01, True),
        ([40.0], error - 0.01, False),
        ([80.0, 80.0], limit / 1.5 + 0.01, True),
        ([80.0, 80.0], limit / 1.5 - 0.01, False),
        ([80.0, 120.0], limit / 1.5 + 0.01, False),  # it does not last
    ):
        series = [calm + values]
        by_partition = np.where(np.equal(series, 100), 0.1, score)
        assert decided(*rows_at(by_partition, series), HOUR)[0, -1] == is_anomaly


@pytest.mark.parametrize("step", [DAY, HOUR])
def test_decisions_do_not_depend_on_where_detection_starts(step):
    random = np.random.default_rng(2)
    values = 100 + 40 * random.choice([-1.0, 0.0, 1.0], size=(3, 60))
    scores, values = rows_at(random.gamma(2, 1.2, size=values.shape), values)
    whole = decided(scores, values, step)
    assert whole.any()
    for start in range(8, 60):
        np.testing.assert_array_equal(decided(scores, values, step, start), whole[:, start:])


MEAN = {"kind": "Mean", "name": "Mean", "instance": "a", "scale": "positive"}


def together(series, scores):
    """Return which of some doubled series are anomalies, by their scores."""
    said = Scores.unscored((len(scores), 1))
    said.score[:, 0], said.expected[:] = scores, 100.0
    values = np.full(said.score.shape, 200.0)
    history = History(
        np.array(["2024-01-01"], "M8[s]"), values, values, [series["scale"]] * len(values)
    )
    rows = [{**series, **WHOLE}] * len(values)
    one = Matrix(rows, [{}], history, np.ones(values.shape, dtype=np.int64))
    found, _ = apply_rules([Monitor()], one, said, 0, np.ones(values.shape, dtype=bool))
    return found[:, 0].tolist()


# A twentieth of the weight: from a score of 4.954. Doubled rows are an error even if they depart
# alone.
@pytest.mark.parametrize(
    ("series", "scores", "anomalies"),
    [
        pytest.param(MEAN, [4.9, 0.3, 1.3, 0.2, 0.1, 0.0], 0, id="alone"),
        pytest.param(MEAN, [5.0, 0.3, 1.3, 0.2, 0.1, 0.0], 1, id="alone, unlikelier"),
        pytest.param(MEAN, [3.7, 0.3, 2.1, 0.2, 0.1, 0.0], 2, id="in company"),
        pytest.param(MEAN, [3.7, 0.3, 1.3, 0.2, 0.1], 1, id="of few"),
        pytest.param(MEAN, [3.7, 0.3, 1.3, 0.2, 0.1, np.nan], 1, id="of few that are known"),
        pytest.param(
            {**MEAN, "kind": "Size", "scale": "count"}, [3.7, 0.3, 1.0, 0.2, 0.1, 0.0], 1, id="rows"
        ),
    ],
)
def test_a_metric_that_departs_alone_needs_more_evidence(series, scores, anomalies):
    assert sum(together(series, scores)) == anomalies


@pytest.mark.parametrize("unknown", [0, 40, 6000])
def test_series_without_a_value_do_not_count_as_tests(unknown):
    """Retired metrics stay in the history; they do not affect the other series."""
    scores = Scores.unscored((3 + unknown, 1))
    scores.score[:3, 0] = 6.0, 0.3, 0.05
    found = FalseDiscoveryRate().decide(np.ones((3 + unknown, 1)), scores)
    assert np.flatnonzero(found).tolist() == [0]
    scores.score[0] = 1.1
    assert not FalseDiscoveryRate().decide(np.ones((3 + unknown, 1)), scores).any()


def test_a_monitor_with_a_severity_uses_no_weights():
    for severity in ("info", "error"):
        monitor = Monitor(severity=severity)
        assert flags(LARGEST, 3.66, 900.0, 300.0, monitor)
        assert not flags(NULLS, 3.64, 0.80, 0.99, monitor)


def test_a_rule_on_the_score_alone_uses_no_weights():
    assert flags(LARGEST, 3.51, 900.0, 300.0, Monitor(rule="Threshold(3.5)"))
    assert not flags(NULLS, 3.49, 0.80, 0.99, Monitor(rule="Threshold(3.5)"))
