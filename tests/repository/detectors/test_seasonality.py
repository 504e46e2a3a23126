"""Seasons in words: those that were learned and those that are configured. No stored database."""

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import DETECTORS, History
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.seasonal import learned_seasons

HOUR, DAY = np.timedelta64(1, "h"), np.timedelta64(1, "D")
MONDAY = np.datetime64("2021-02-01T00", "s")


def times_of(step, days):
    return np.arange(MONDAY, MONDAY + days * DAY, step).astype("M8[s]")


def history_of(times, values, scale=Scale.COUNT, noise=0.01):
    noise = np.exp(np.random.default_rng(0).normal(0, noise, len(times)))
    values = (np.asarray(values, dtype=float) * noise)[None, :]
    return History(times, values, np.full_like(values, 1e6), [scale])


def phrases(times, values, scale=Scale.COUNT, seasons=("auto",), noise=0.01):
    return learned_seasons(history_of(times, values, scale, noise), tg.Seasonal(seasons=seasons))[0]


def hour_of(times):
    return (times - times.astype("M8[D]")) / HOUR


def last_of_month(times):
    days = times.astype("M8[D]")
    return days + 1 == (days.astype("M8[M]") + 1).astype("M8[D]")


def test_weekdays_and_days_of_the_month_are_reported_by_name():
    times = times_of(DAY, 300)
    weekday = np.arange(300) % 7
    factor = np.where(weekday == 5, 0.55, 1.0) * np.where(last_of_month(times), 2.5, 1.0)
    words = phrases(times, 1e5 * factor)
    assert words == "month ends 2.5 times as high; Saturdays 45% lower"


def test_parts_of_the_day_are_reported_by_the_clock():
    times = times_of(HOUR, 28)
    office = (hour_of(times) >= 9) & (hour_of(times) < 17)
    words = phrases(times, 1e5 * np.where(office, 5.0, 1.0))
    assert words == "09:00 to 17:00 5.0 times as high"


def test_month_ends_of_parts_of_the_day_are_reported_as_days():
    times = times_of(6 * HOUR, 150)
    factor = np.where(hour_of(times) < 6, 0.5, 1.0) * np.where(last_of_month(times), 2.5, 1.0)
    words = phrases(times, 1e5 * factor)
    assert words == "month ends 2.5 times as high; 00:00 to 06:00 50% lower"


def test_shares_are_reported_in_points_and_months_by_name():
    times = times_of(DAY, 120)
    sundays = np.arange(120) % 7 == 6
    words = phrases(times, np.where(sundays, 0.9, 0.95), Scale.RATIO, noise=0.001)
    assert words == "Sundays 5 points lower"
    months = (np.datetime64("2016-01", "M") + np.arange(72)).astype("M8[s]")
    words = phrases(months, np.where(np.arange(72) % 12 == 11, 3e5, 1e5))
    assert words in {"December 3.0 times as high", "December 2.9 times as high"}


def test_weeks_of_the_year_are_reported_by_number():
    weeks = np.arange("2016-01-04", "2021-01-01", 7, dtype="M8[D]").astype("M8[s]")
    thursday = weeks.astype("M8[D]") + np.timedelta64(3, "D")
    of_year = (thursday - thursday.astype("M8[Y]").astype("M8[D]")).astype(int)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.01, len(weeks)))
    december = noise * np.where(of_year >= 48 * 7, 2100.0, 1000.0)[None, :]
    (told,) = learned_seasons(History(weeks, december, december, [Scale.COUNT]), tg.Seasonal())
    assert told == "weeks 49 to 52 of years 2.1 times as high"


def test_noise_is_not_reported():
    assert phrases(times_of(DAY, 200), np.full(200, 1e5), noise=0.1) == ""
    assert phrases(times_of(DAY, 5), np.full(5, 1e5)) == ""


@pytest.mark.soak
def test_only_the_configured_seasons_are_learned():
    times = times_of(DAY, 300)
    factor = np.where(np.arange(300) % 7 == 5, 0.55, 1.0) * np.where(last_of_month(times), 2.5, 1)
    assert phrases(times, 1e5 * factor, seasons=["week"]) == "Saturdays 45% lower"
    assert "Saturdays" not in phrases(times, 1e5 * factor, seasons=["month"], noise=0.01)
    assert phrases(times, 1e5 * factor, seasons=[]) == ""


def test_a_configured_month_is_used_from_the_first_repetition():
    times = times_of(DAY, 100)
    history = history_of(times, 1e5 * np.where(last_of_month(times), 2.5, 1.0))
    ends = np.flatnonzero(last_of_month(times))  # 28 February, 31 March, 30 April
    assert ends.tolist() == [27, 58, 88]
    for seasons, found in ((("auto",), [27, 58]), (("auto", "month"), [27])):
        detector = tg.Seasonal(seasons=seasons)
        flags = Monitor(detector=detector).decide(history.values, detector.score(history))
        assert np.flatnonzero(flags[0]).tolist() == found


def test_seasons_are_part_of_the_repr():
    told = tg.Seasonal(seasons=["week", "month"])
    assert repr(told) == "Seasonal(seasons=['week', 'month'])"
    for one in (told, tg.Seasonal(seasons=[]), tg.Seasonal(seasons="month"), tg.Seasonal()):
        assert DETECTORS.parse(repr(one)) == one
    with pytest.raises(tg.SuiteError, match="unknown season 'moth'; did you mean 'month'"):
        tg.Seasonal(seasons=["moth"])


def test_a_repository_reports_the_seasons_of_its_series():
    days = times_of(DAY, 70).astype("M8[D]")
    sizes = {f"ds={day}": 1000 if np.is_busday(day) else 400 for day in days}
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "rows", sizes, scale="count")
        repo.record("t", "others", dict.fromkeys(sizes, 7), scale="count")
        found = repo.seasons("t").set_index("name")["seasons"].to_dict()
        assert found == {"rows": "Saturdays and Sundays 60% lower", "others": ""}
        assert repo.seasons("t", name="rows", detector="Seasonal(seasons='month')").shape == (1, 5)
        with pytest.raises(tg.SuiteError, match="learns no seasons; use Seasonal"):
            repo.seasons("t", detector="OnlineNormal()")
