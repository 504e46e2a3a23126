"""Severity of anomalies by size and reach, without a database."""

import math

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.detectors.rules import severity_steps
from tidegauge.repository.store.rows import Severity


def series(kind, scale, part=""):
    return {"kind": kind, "scale": scale, "filter": part, "segment": ""}


@pytest.mark.parametrize(
    ("of", "value", "expected", "severity"),
    [
        (series("Completeness", "ratio"), 0.43, 0.995, "error"),
        (series("Completeness", "ratio"), 0.97, 0.995, "warning"),
        (series("Completeness", "ratio"), 0.99, 0.995, "info"),
        (series("Completeness", "ratio", "a = 1"), 0.43, 0.995, "warning"),
        (series("Completeness", "ratio"), 0.966, 0.7, "info"),  # fewer missing values than usual
        (series("Size", "count"), 0, 1000, "error"),
        (series("Size", "count"), 1500, 1000, "error"),
        (series("Size", "count"), 900, 1000, "warning"),
        (series("Size", "count"), 1050, 1000, "info"),
        (series("Size", "count"), 3, 0, "warning"),
        (series("Size", "count"), 30, 0, "error"),
        (series("Histogram", "count"), 1, 2, "info"),
        (series("CountDistinct", "count", "a = 1"), 1050, 1000, "info"),
        (series("Maximum", "signed"), 99999, 4983, "info"),
        (series("Mean", "positive"), 16, 10, "warning"),
        (series("Mean", "positive"), 14, 10, "info"),
        (series("Mean", "signed"), 14, 0, "warning"),
        (series("Mean", "signed"), math.inf, 3, "warning"),
        (series("Mean", "signed"), 14, math.nan, "warning"),
        (series("Drift", "distance"), 0.9, 0.1, "warning"),
        # off by a factor of ten
        (series("Mean", "signed"), 2000, 20, "error"),
        (series("Mean", "signed"), 0.2, 20, "error"),
        (series("Mean", "positive"), 199, 20, "warning"),
        (series("Mean", "signed"), -200, 20, "error"),
        (series("Mean", "signed"), 0, 20, "error"),
        (series("Sum", "signed", "a = 1"), 2000, 20, "warning"),
        (series("Maximum", "positive"), 2000, 20, "info"),
        (series("MaxTime", "time"), 2000, 20, "info"),
        # a missing part of the table
        (series("Size", "count", "country = 'DE'"), 0, 3000, "error"),
        (series("Size", "count", "country = 'DE'"), 0, 12, "error"),
        (series("Size", "count", "country = 'DE'"), 0, 9, "info"),
        (series("Size", "count", "country = 'DE'"), 1, 3000, "warning"),
        (series("Histogram", "count"), 0, 3000, "error"),
        (series("Histogram", "ratio"), 0, 0.3, "error"),
        (series("Histogram", "ratio"), 0, 0.005, "info"),
        ({**series("Histogram", "count"), "name": "Histogram.bins"}, 0, 30, "warning"),
        (series("CountDistinct", "count", "country = 'DE'"), 0, 3000, "warning"),
    ],
)
def test_severity_depends_on_size_and_reach(of, value, expected, severity):
    steps = severity_steps([of], np.array([[value]]), np.array([[expected]]))
    assert list(Severity)[steps[0, 0]] == severity


def test_a_monitor_can_set_the_severity():
    assert tg.Monitor().to_dict() == {"series": {}, "detector": "Seasonal()"}
    assert tg.Monitor(severity="info").to_dict()["severity"] == "info"


def test_a_repository_reports_errors_and_information():
    with tg.Repository("sqlite://") as repo:
        days = [f"ds={np.datetime64('2024-01-01') + d}" for d in range(56)]
        for name, last in (("rows", 30_000), ("others", 109_000)):
            values = {day: 100_000 + 13 * (k % 5) for k, day in enumerate(days)}
            repo.record("t", name, values | {days[-1]: last}, scale="count")
        repo.detect("t")
        found = repo.anomalies("t")
        last = found[found["partition"] == days[-1]].set_index("name")["severity"].to_dict()
        assert last == {"rows": "error", "others": "info"}
        assert repo.incidents("t")["severity"].iloc[0] == "error"
