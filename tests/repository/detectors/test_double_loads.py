"""Partitions that were loaded twice: twice the rows, and no more distinct values. No Spark."""

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.detection.findings import apply_rules
from tidegauge.repository.detectors.base import History, Scores
from tidegauge.repository.detectors.inputs import Matrix
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.rules import double_loads


def series(name, instance="*", filter=None, segment=""):
    scale = "count"
    return {"kind": name, "name": name, "instance": instance, "filter": filter, "segment": segment,
            "scale": scale, "key": f"{name}{instance}{filter}"}  # fmt: skip


ROWS, USERS = series("Size"), series("CountDistinct", "user")


@pytest.mark.parametrize(
    "rows, users, usual_users, is_double",
    [
        pytest.param(1210, 443, 446, True, id="twice the rows, the same users"),
        pytest.param(1100, 480, 446, True, id="twice the rows of a quiet hour"),
        pytest.param(1210, 660, 446, False, id="twice the rows, more users"),
        pytest.param(1210, 200, 446, False, id="twice the rows, fewer users"),
        pytest.param(900, 446, 446, False, id="half more rows"),
        pytest.param(1800, 446, 446, False, id="three times the rows"),
        pytest.param(1210, 50, 50, False, id="a column of few values"),
    ],
)
def test_unchanged_distinct_counts_show_a_double_load(rows, users, usual_users, is_double):
    values, expected = np.array([[rows], [users]], float), np.array([[605], [usual_users]], float)
    assert double_loads([ROWS, USERS], values, expected) == ({(0, 0): "user"} if is_double else {})


def test_only_counts_of_the_same_rows_are_compared():
    values, expected = np.array([[1210.0], [443.0]]), np.array([[605.0], [446.0]])
    for other in (
        series("CountDistinct", "user", filter="country = 'DE'"),
        series("CountDistinct", "user", segment="country=DE"),
        series("Mean", "user"),
    ):
        assert double_loads([ROWS, other], values, expected) == {}
    recorded = USERS | {"kind": "Recorded"}
    assert double_loads([ROWS | {"kind": "Recorded"}, recorded], values, expected)
    assert double_loads([ROWS, USERS], values, np.full((2, 1), np.nan)) == {}


@pytest.mark.parametrize("hours", [1, 24])
def test_a_double_load_needs_less_evidence_and_is_an_error(hours):
    """With a score of 2.5, twice the rows alone are no anomaly."""
    times = np.datetime64("2026-11-02", "s") + np.arange(10) * np.timedelta64(hours, "h")
    values = np.array([[605.0] * 9 + [1210.0], [446.0] * 10])
    scores = Scores.unscored(values.shape)
    scores.score[:], scores.expected[:] = 0.1, values[:, :1]
    scores.score[0, 9] = 2.5
    for rows, severity in (([ROWS, USERS], 2), ([ROWS, series("Mean", "user")], -1)):
        history = History(times, values, values, ["count"] * 2)
        matrix = Matrix(rows, [{}] * 10, history, np.ones(values.shape, dtype=np.int64))
        found, severities = apply_rules([Monitor()], matrix, scores, 0, np.ones(values.shape, bool))
        assert (int(severities[0, 9]), int(found.sum())) == (severity, int(severity > 0))


def test_an_hour_delivered_twice_is_named():
    random = np.random.default_rng(1)
    hours = np.arange("2026-11-02", "2026-11-16T11", dtype="M8[h]")
    of_day = (hours - hours.astype("M8[D]")).astype(int)
    rows = random.poisson(400 * (1 + 0.6 * np.sin((of_day - 6) / 12 * np.pi))).astype(float)
    users = np.round(900 * (1 - np.exp(-rows / 900)))
    rows[-1] *= 2
    names = [f"ds={hour.astype('M8[D]')}/hr={k:02}" for hour, k in zip(hours, of_day, strict=True)]
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "Size", dict(zip(names, rows, strict=True)), scale="count")
        repo.record(
            "t",
            "CountDistinct",
            dict(zip(names, users, strict=True)),
            scale="count",
            instance="user",
        )
        repo.detect("t")
        (incident,) = repo.incidents("t").query("last == @names[-1]").itertuples()
        assert (incident.severity, incident.first) == ("error", names[-1])
        assert incident.headline.endswith(", probably loaded twice")
        (anomaly,) = repo.anomalies("t").query("partition == @names[-1]").itertuples()
        assert anomaly.explanation.endswith(
            "user has no more distinct values than usual, so the rows were probably loaded twice."
        )
