"""Checks that compare distributions with earlier ones, by stored states. Only the frame needs Spark."""

import pytest
from datasketches import kll_doubles_sketch

import tidegauge as tg
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.repository.testing import commit, day, measurement


def sketched(*values):
    made = kll_doubles_sketch(200)
    for value in values:
        made.update(value)
    return [measurement(tg.ApproxQuantile("x", 0.5), KllState(made.serialize()))]


def letters(number, a, b):
    return day(number, rows=a + b, groups={("a",): a, ("b",): b})


def outcomes(repo, check, partitions):
    frame = tg.verify(repo, check, dataset="d", partitions=partitions).frame()
    return list(zip(frame["status"], frame["message"], strict=True))


def test_categories_are_compared_with_earlier_days(repo):
    # Two weeks with equal counts of a and b. Then 40 a, where 20 are expected: chi-square is 2 x 20² / 20 = 40;
    # and 22 a and 18 b: 2 x 2² / 20 = 0.4, at one degree of freedom.
    days = [letters(n, 20, 20) for n in range(1, 15)]
    commit(repo, *days, letters(15, 40, 0))
    commit(repo, letters(40, 20, 20), letters(41, 22, 18), letters(42, 10, 30), letters(43, 1, 1))
    chi = tg.Check("d").has_not_drifted("s", "28d", "chi_square")
    (first,) = outcomes(repo, chi, ["ds=2013-01-01"])
    assert first == ("no history", "no earlier distribution to compare with")
    ((status, message),) = outcomes(repo, chi, ["ds=2013-01-15"])
    assert status == "failure"
    assert message.endswith(", at least 0.003 required")
    assert outcomes(repo, chi, ["ds=2013-01-14", "ds=2013-02-10"]) == [("success", "")] * 2
    ((status, message),) = outcomes(repo, chi, ["ds=2013-02-12"])
    assert (status, message.partition(",")[0]) == ("no history", "too few values")
    # The previous partition has shares of .55 and .45, this one of .25 and .75:
    # PSI = -.3 ln(.25 / .55) + .3 ln(.75 / .45) = 0.38978.
    psi = tg.Check("d").has_not_drifted("s", "previous", "psi", categorical=True)
    assert outcomes(repo, psi, ["ds=2013-02-11"]) == [
        ("failure", "PSI of s is 0.3898, at least 0 and at most 0.2 required")
    ]
    strict = tg.Check("d").has_not_drifted("s", "1d", "chi_square", missing="fail")
    assert outcomes(repo, strict, ["ds=2013-02-09"]) == [
        ("failure", "s: no earlier distribution to compare with")
    ]


def test_new_categories_are_a_drift(repo):
    commit(repo, *(letters(n, 20, 20) for n in (1, 2)), day(3, groups={("c",): 10}))
    check = tg.Check("d").has_not_drifted("s", distance="chi_square")
    assert outcomes(repo, check, ["ds=2013-01-03"]) == [("failure", "s: no value occurred before")]


def test_numbers_are_compared_by_their_sketches(repo):
    """Kolmogorov-Smirnov: a shift by 50 is a distance of 0.05, within the errors of 1,000 values."""
    for number, start in ((1, 0), (2, 0), (3, 50), (4, 500)):
        extra = sketched(*range(start, start + 1000))
        commit(repo, day(number, extra=extra))
    check = tg.Check("d").has_not_drifted("x", "2d")
    assert outcomes(repo, check, ["ds=2013-01-02", "ds=2013-01-03"]) == [("success", "")] * 2
    frame = tg.verify(repo, check, dataset="d", partitions=["ds=2013-01-04"]).frame()
    assert frame["status"].tolist() == ["failure"]
    # Below 500 are half of the values of one earlier day, 450 of the other, and none of this day.
    assert frame["value"][0] == pytest.approx(0.475, abs=0.03)
    assert frame["message"][0].endswith(", which is significant")
    tight = tg.Check("d").has_not_drifted("x", "previous", assertion=(0, 0.02))
    ((status, message),) = outcomes(repo, tight, ["ds=2013-01-03"])
    assert status == "failure"
    assert message.endswith(", at least 0 and at most 0.02 required")


def test_a_missing_state_is_reported(repo):
    commit(repo, day(1), day(2))
    ((status, message),) = outcomes(repo, tg.Check("d").has_not_drifted("x"), ["ds=2013-01-02"])
    assert status == "failure"
    assert "ApproxQuantile('x', 0.5) was not measured" in message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: c.has_not_drifted("x", "mean of 28d"), "invalid baseline"),
        (lambda c: c.has_not_drifted("x", distance="kss"), "did you mean 'ks'"),
        (lambda c: c.has_not_drifted("x", categorical=True), "ks compares only numbers"),
        (lambda c: c.has_not_drifted("x", missing="skip"), "'skip'"),
        (lambda c: c.has_not_drifted(" "), "column must be a string"),
    ],
)
def test_invalid_drift_parameters_are_refused(make, message):
    with pytest.raises(tg.TidegaugeError, match=message):
        make(tg.Check("d"))


def test_a_frame_is_compared_with_the_history(spark, repo):
    frame = spark.sql("SELECT CAST(id AS DOUBLE) AS x FROM range(1000)")
    suite = tg.Suite("d", [tg.ApproxQuantile("x", 0.5)])
    tg.analyze(frame, suite, repository=repo, partition="ds=2013-01-01")
    check = tg.Check("d").has_not_drifted("x", "7d")
    for shift, passed in ((0, True), (500, False)):
        moved = frame.selectExpr(f"x + {shift} AS x")
        result = tg.verify(
            moved, check, repository=repo, dataset="d", partition="ds=2013-01-05", examples=False
        )
        assert result.passed is passed
        assert result.frame()["value"][0] == pytest.approx(shift / 1000, abs=0.03)
