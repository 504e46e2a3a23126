"""Sensitivity of monitors and suites, without stored data."""

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.repository.detection.detect import stored_monitors
from tidegauge.repository.detectors.monitor import Monitor


def test_a_sensitivity_stands_for_a_rule():
    assert repr(Monitor(sensitivity="low").rule) == "FalseDiscoveryRate(rate=0.01)"
    assert Monitor(sensitivity="normal").rule == Monitor().rule
    assert Monitor.from_dict(Monitor(sensitivity="high").to_dict()) == Monitor(sensitivity="high")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sensitivity": "hihg"}, "did you mean 'high'"),
        ({"sensitivity": "low", "rule": "PValue(0.1)"}, "a rule or a sensitivity, not both"),
        ({"sensitivity": "low", "detector": "OnlineNormal()"}, "does not apply to"),
    ],
)
def test_invalid_sensitivities_are_refused(options, told):
    with pytest.raises(tg.TidegaugeError, match=told):
        Monitor(**options)


def test_a_suite_has_a_sensitivity_for_monitors_without_one():
    own = Monitor(rule="PValue(0.01)")
    suite = tg.Suite("d", [tg.Size()], monitors=[Monitor(), own], sensitivity="low")
    assert tg.Suite.from_json(suite.canonical()) == suite
    stored = {"monitors": [Monitor().to_dict(), own.to_dict()], "sensitivity": "low"}
    assert stored_monitors(stored) == [Monitor(sensitivity="low"), own]
    default = stored_monitors({"sensitivity": "high"})
    assert [m.sensitivity for m in default] == ["high", *[None] * 6]
    with pytest.raises(tg.TidegaugeError, match="did you mean 'normal'"):
        tg.Suite("d", [tg.Size()], sensitivity="nromal")


@pytest.fixture
def labelled():
    """Two series with three deviations each: detected by all, by normal and high, by high only."""
    values = 1e5 + np.random.default_rng(4).normal(0, 500, 120)
    places = (60, 75, 90)
    values[list(places)] += [6000, 2200, 2600]
    days = [f"ds={np.datetime64('2024-01-01') + d}" for d in range(120)]
    with tg.Repository("sqlite://") as repo:
        for later, name in enumerate("xy"):
            rolled = np.roll(values, later).tolist()
            repo.record("t", name, dict(zip(days, rolled, strict=True)))

        def add_label(place, label):
            for later, name in enumerate("xy"):
                at = days[place + later].removeprefix("ds=")
                repo.label_range("t", label, since=at, until=at, name=name)

        yield repo, places, add_label


@pytest.mark.parametrize(
    ("real", "suggested"),
    [
        (1, "low"),
        (2, "normal"),
        (3, "high"),
        (0, "normal"),  # without real incidents the recall is unknown
    ],
)
def test_the_sensitivity_that_agrees_with_the_labels_is_suggested(labelled, real, suggested):
    repo, places, say = labelled
    for n, place in enumerate(places):
        say(place, "bad" if n < real else "ignore")
    found = repo.sensitivities("t")
    assert found["sensitivity"].tolist() == ["low", "normal", "high"]
    assert found.loc[found["suggested"], "sensitivity"].tolist() == [suggested]


def test_few_labels_suggest_the_default(labelled):
    repo, places, say = labelled
    say(places[-1], "bad")
    found = repo.sensitivities("t").set_index("sensitivity")
    assert found.loc["high", "recall"] == 1 > found.loc["normal", "recall"]
    assert found.index[found["suggested"]].tolist() == ["normal"]
    with pytest.raises(tg.TidegaugeError, match="does not apply to"):
        repo.sensitivities("t", detector="OnlineNormal")


def test_a_backtest_shows_how_often_each_sensitivity_would_alert():
    draw = np.random.default_rng(4)
    values = 1e5 + draw.normal(0, 500, 120)
    # 12, 4.4 and 5.2 standard deviations; the second makes the tail heavier
    values[[60, 75, 90]] += [6000, 2200, 2600]
    days = [f"ds={np.datetime64('2024-01-01') + d}" for d in range(120)]
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "x", dict(zip(days, values.tolist(), strict=True)))
        levels = ("low", "normal", "high")
        found = repo.backtest("t", [Monitor(sensitivity=level) for level in levels])
    assert found["incidents"].tolist() == [1, 2, 3]
    assert found["per_month"].tolist() == (found["incidents"] / 4).tolist()
