"""Seasons of `Seasonal`: parts of days, weeks, months and years, and recurring days.

No database.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History, Reason, Scores
from tidegauge.repository.detectors.monitor import Monitor

HOUR, DAY = np.timedelta64(1, "h"), np.timedelta64(1, "D")
MONDAY = np.datetime64("2021-02-01T00", "s")


def times_of(step, days):
    return np.arange(MONDAY, MONDAY + days * DAY, step).astype("M8[s]")


def hour_of(times):
    return (times - times.astype("M8[D]")) / HOUR


def weekend(times):
    return ~np.is_busday(times.astype("M8[D]"))


def score_and_flag(times, factor, noise=0.04, seed=0):
    """Score counts around 100,000 times a factor; return the scores and the anomalies."""
    noise = np.random.default_rng(seed).normal(0, noise, len(times))
    values = np.rint(1e5 * factor * np.exp(noise))[None, :]
    history = History(times, values, np.full_like(values, np.nan), [Scale.COUNT])
    scores = tg.Seasonal().score(history)
    return scores, Monitor(detector=tg.Seasonal()).decide(values, scores)[0]


def test_office_hours_are_learned_in_two_days():
    times = times_of(HOUR, 21)
    factor = np.where((hour_of(times) >= 9) & (hour_of(times) < 17), 5.0, 1.0)
    factor[-12] = 2.5  # noon of the last day: half of the usual value, twice the value of the night
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[7 * 24 :]).tolist() == [14 * 24 - 12]


@pytest.mark.soak
def test_weekends_of_hours_are_learned_in_two_weeks():
    times = times_of(HOUR, 35)
    factor = np.where(weekend(times), 0.5, 1.0) * (1 + 0.5 * np.sin(hour_of(times) * np.pi / 12))
    factor[-60] *= 2  # a Friday noon
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[21 * 24 :]).tolist() == [14 * 24 - 60]


@pytest.mark.parametrize("hours", [6, 8, 12])
def test_parts_of_a_day_have_their_own_levels(hours):
    times = times_of(hours * HOUR, 60)
    factor = np.array([1.0, 0.5, 0.8, 0.6])[(hour_of(times) // hours).astype(int)]
    factor[-1] *= 0.5
    scores, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags).tolist() == [len(times) - 1]
    last = scores.expected[0, -24 // hours - 1]  # the value of the same part on the day before
    assert last == pytest.approx(1e5 * 2 * factor[-1], rel=0.1)


@pytest.mark.soak
def test_quarters_of_an_hour_can_be_parts_of_a_day():
    times = times_of(np.timedelta64(15, "m"), 5)
    factor = np.where((hour_of(times) >= 9) & (hour_of(times) < 17), 5.0, 1.0)
    _, flags = score_and_flag(times, factor)
    assert not flags[2 * 96 :].any()


def test_monthly_series_have_a_yearly_season():
    times = (np.datetime64("2016-01", "M") + np.arange(72)).astype("M8[s]")
    month = np.arange(72) % 12
    factor = np.where(month == 11, 2.0, 1.0)
    factor[-5] = 0.4  # August of the last year
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[36:]).tolist() == [36 - 5]


def test_weekly_series_have_a_yearly_season():
    times = times_of(7 * DAY, 7 * 290)
    thursday = times.astype("M8[D]") + 3 * DAY
    december = (thursday - thursday.astype("M8[Y]").astype("M8[D]")).astype(int) >= 48 * 7
    factor = np.where(december, 2.0, 1.0)
    factor[-36] = 1.1  # in the last December, where 2 is usual
    assert december[-36]
    scores, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[110:]).tolist() == [290 - 36 - 110]
    assert scores.expected[0, -36] == pytest.approx(2e5, rel=0.1)


def test_a_week_that_starts_earlier_than_in_other_years_is_between_its_neighbours():
    times = times_of(7 * DAY, 7 * 300)
    days = times.astype("M8[D]")[:, None] + np.arange(7)
    december = (days.astype("M8[M]").astype(int) % 12 == 11).mean(axis=1)
    _, flags = score_and_flag(times, 1 + december)  # weeks with one to six days of December
    assert not flags[110:].any()


@pytest.mark.parametrize(
    "days",
    [
        pytest.param(lambda d: d + 1 == (d.astype("M8[M]") + 1).astype("M8[D]"), id="month end"),
        pytest.param(lambda d: d == d.astype("M8[M]").astype("M8[D]") + 14, id="the fifteenth"),
        pytest.param(
            lambda d: (
                np.is_busday(d) & (np.busday_count(d.astype("M8[M]").astype("M8[D]"), d) == 0)
            ),
            id="first working day",
        ),
    ],
)
def test_days_of_the_month_are_expected_after_two_or_three(days):
    times = times_of(DAY, 260)
    booked = days(times.astype("M8[D]"))
    scores, flags = score_and_flag(times, np.where(booked, 2.5, 1.0))
    days = np.flatnonzero(booked)
    days = days[days >= 7]  # before, nothing is scored
    assert set(np.flatnonzero(flags)) <= set(days[:3])  # no other day, and no later month
    assert flags[days[0]]
    assert (scores.reason[0, days[3:]] == Reason.CALENDAR).all()


def last_of_month(times):
    days = times.astype("M8[D]")
    return days + 1 == (days.astype("M8[M]") + 1).astype("M8[D]")


def parts_and_month_ends(times, hours):
    """Return factors of parts of a day; in month ends all parts are 2.5 times as high."""
    of_day = np.array([1.0, 0.5, 0.8, 0.6])[(hour_of(times) // hours).astype(int) % 4]
    return of_day * np.where(last_of_month(times), 2.5, 1.0)


@pytest.mark.parametrize("hours", [6, 12])
def test_month_ends_of_parts_of_a_day_are_expected_after_two(hours):
    times = times_of(hours * HOUR, 150)  # until 30 June
    factor = parts_and_month_ends(times, hours)
    april = np.datetime64("2021-04-30")
    halved = np.flatnonzero(times == np.datetime64("2021-05-20"))
    factor[halved] *= 0.5
    scores, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags & (times >= april)).tolist() == halved.tolist()
    assert (scores.reason[0, last_of_month(times) & (times >= april)] == Reason.CALENDAR).all()
    # Half of a month end's value is not a month end, and the rest of its day is still expected.
    of_june = last_of_month(times) & (times >= np.datetime64("2021-06-30"))
    factor[of_june & (hour_of(times) == 0)] = 1.25
    scores, flags = score_and_flag(times, factor)
    first = np.flatnonzero(of_june)[0]
    alarms = np.flatnonzero(flags & (times >= april)).tolist()
    assert [alarm for alarm in alarms if alarm != first] == halved.tolist()
    assert scores.reason[0, first] != Reason.CALENDAR


def test_month_ends_of_parts_of_a_day_are_within_the_required_history():
    """They are scored day by day from the history that matters, as when a partition arrives."""
    times = times_of(6 * HOUR, 150)
    noise = np.random.default_rng(0).normal(0, 0.04, (3, len(times)))
    values = np.rint(1e5 * parts_and_month_ends(times, 6) * np.exp(noise))
    history = History(times, values, np.full_like(values, np.nan), [Scale.COUNT] * 3)
    whole = tg.Seasonal().score(history)
    for start in range(4 * 86, 4 * 91, 3):  # around 30 April
        newest = tg.Seasonal().score(history.part(slice(None, start + 3)), start, whole)
        for name in ("score", "expected", "reason"):
            of_whole = getattr(whole, name)[:, start : start + 3]
            np.testing.assert_allclose(getattr(newest, name), of_whole, rtol=1e-9, err_msg=name)


def test_working_days_of_the_month_exclude_holidays():
    times = times_of(DAY, 130)  # until 10 June
    days = times.astype("M8[D]")
    booked = np.isin(days, np.array(["2021-02-26", "2021-03-31", "2021-04-30", "2021-05-28"], "M8"))
    values = np.where(booked, 250_000.0, 100_000 + np.arange(130) % 7 * 900.0)[None, :]
    plain = History(times, values, np.full_like(values, np.nan), [Scale.COUNT])
    # a Monday, so that Friday is the last working day
    memorial_day = np.array(["2021-05-31"], "M8[D]")
    last = int(np.flatnonzero(booked)[-1])
    for free, reason in ((plain.free_days, Reason.LEVEL), (memorial_day, Reason.CALENDAR)):
        scores = tg.Seasonal().score(replace(plain, free_days=free))
        assert scores.reason[0, last] == reason


def test_an_incident_at_a_month_end_does_not_make_the_season_forget():
    times = times_of(DAY, 340)  # until 6 January
    factor = np.where(last_of_month(times), 2.5, 1.0)
    august = int(np.flatnonzero(times == np.datetime64("2021-08-31"))[0])
    factor[august] = 0.4
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[150:]).tolist() == [august - 150]


def test_a_month_end_without_its_peak_is_an_anomaly_once():
    """Five earlier month ends had the peak. The chart shows the usual value outside the band."""
    times = times_of(DAY, 365)
    ends = np.flatnonzero(last_of_month(times))
    factor = np.where(last_of_month(times), 2.5, 1.0)
    factor[ends[7]] = 1.0
    scores, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[ends[3] + 1 :]).tolist() == [ends[7] - ends[3] - 1]
    assert scores.lower[0, ends[7]] > 150_000
    factor[ends[7:]] = 1.0  # the season is dropped
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[ends[3] + 1 :]).tolist() == [ends[7] - ends[3] - 1]


def test_a_day_with_two_explanations_is_not_expected_where_they_differ():
    """From October 2001 on, five last days were also the last working days; 31 March 2002 was a Sunday."""
    times = np.arange("2001-09-01", "2002-04-10", dtype="M8[D]").astype("M8[s]")
    booked = last_of_month(times) & (times >= np.datetime64("2001-10-01"))
    _, flags = score_and_flag(times, np.where(booked, 2.5, 1.0))
    assert "2002-03-29" not in times[flags].astype("M8[D]").astype(str)


@pytest.mark.parametrize("roll", ["following", "preceding"])
def test_a_payday_that_moves_to_a_working_day_is_not_expected_at_a_weekend(roll):
    """From November 2000 on, five 15ths were working days; 15 April 2001 was a Sunday."""
    times = np.arange("2000-10-20", "2001-05-10", dtype="M8[D]").astype("M8[s]")
    days = times.astype("M8[D]")
    months = np.unique(days.astype("M8[M]")).astype("M8[D]")
    paid = np.isin(days, np.busday_offset(months + 14, 0, roll=roll))
    _, flags = score_and_flag(times, np.where(paid, 2.5, 1.0))
    assert "2001-04-15" not in days[flags].astype(str)


@pytest.mark.parametrize(("first", "last"), [(10, 12), (3, 5), (14, 15), (20, 22), (9, 12)])
def test_sales_of_several_days_are_not_expected_beside_weekends(first, last):
    """Every day of a sale has a high day of the month, so nothing shows that a sale moves to working days."""
    times = times_of(DAY, 330)
    days = times.astype("M8[D]")
    day = (days - days.astype("M8[M]").astype("M8[D]")).astype(int) + 1
    has_sale = (day >= first) & (day <= last)
    scores, flags = score_and_flag(times, np.where(has_sale, 2.5, 1.0))
    is_beside = ~has_sale & (first - 4 <= day) & (day <= last + 4) & (times >= times[60])
    assert not flags[is_beside].any()  # two sales are known
    assert not (scores.reason[0] == Reason.CALENDAR)[~has_sale].any()


@pytest.mark.parametrize("first", [10, 11, 20])
@pytest.mark.parametrize("seed", [3, 9, 18])
def test_sales_of_changing_size_are_not_expected_beside_weekends(first, seed):
    times = times_of(DAY, 330)
    days = times.astype("M8[D]")
    day = (days - days.astype("M8[M]").astype("M8[D]")).astype(int) + 1
    has_sale = (day >= first) & (day <= first + 2)
    size = 1.6 * np.exp(np.random.default_rng(seed).normal(0, 0.09, 330))
    scores, _ = score_and_flag(times, np.where(has_sale, size, 1.0))
    is_by_date = (scores.reason[0] == Reason.CALENDAR) & ~has_sale
    assert not (scores.score[0, is_by_date] > 2.5).any()


@pytest.mark.parametrize("roll", ["following", "preceding"])
def test_paydays_that_move_to_working_days_are_expected_after_three(roll):
    """In 2021, the 15ths of May and August are at a weekend."""
    times = times_of(DAY, 400)
    days = times.astype("M8[D]")
    months = np.unique(days.astype("M8[M]")).astype("M8[D]")
    paydays = np.busday_offset(months + 14, 0, roll=roll)
    paid = np.isin(days, paydays)
    _, flags = score_and_flag(times, np.where(paid, 2.5, 1.0))
    assert flags[paid][1]
    assert not flags[days > paydays[4]].any()


@pytest.mark.parametrize("roll", ["following", "preceding"])
def test_the_day_after_a_payday_moves_with_it(roll):
    times = times_of(DAY, 400)
    days = times.astype("M8[D]")
    months = np.unique(days.astype("M8[M]")).astype("M8[D]")
    paydays = np.busday_offset(months + 14, 0, roll=roll)
    factor = np.where(np.isin(days, paydays), 2.5, np.where(np.isin(days - 1, paydays), 1.6, 1.0))
    _, flags = score_and_flag(times, factor)
    assert flags[np.isin(days, paydays[:2] + 1)].any()
    assert not flags[days > paydays[4] + 1].any()


@pytest.mark.parametrize("roll", ["following", "preceding"])
def test_a_payday_that_moves_is_an_anomaly_without_its_peak(roll):
    """In 2021, the 15ths of May and August are at a weekend, so the way in which paydays move is known."""
    times = times_of(DAY, 320)
    days = times.astype("M8[D]")
    months = np.unique(days.astype("M8[M]")).astype("M8[D]")
    paydays = np.busday_offset(months + 14, 0, roll=roll)
    factor = np.where(np.isin(days, paydays), 2.5, 1.0)
    factor[days == paydays[8]] = 1.0
    _, flags = score_and_flag(times, factor)
    assert days[flags & (days > paydays[4])].tolist() == [paydays[8].astype(object)]


def test_days_of_the_month_are_not_taken_for_a_heavy_tail():
    times = times_of(DAY, 260)
    fifteenth = times.astype("M8[D]") == times.astype("M8[M]").astype("M8[D]") + 14
    # seven within the memory of a season
    factor = np.where(last_of_month(times) | fifteenth, 2.0, 1.0)
    factor[-8] = 0.55
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags[150:]).tolist() == [260 - 8 - 150]


@pytest.mark.soak
def test_a_season_of_the_year_is_expected_in_the_second_year():
    times = times_of(DAY, 700)
    year = (times.astype("M8[D]") - times.astype("M8[Y]").astype("M8[D]")).astype(int)
    _, flags = score_and_flag(times, np.where((year >= 332) & (year < 357), 2.0, 1.0))
    found = times[np.flatnonzero(flags)]
    assert found.size
    assert (found < np.datetime64("2022-02-01")).all()


@pytest.mark.parametrize("length", [1, 3])
def test_a_day_of_the_year_is_expected_in_the_second_year(length):
    """11 November, the day with the highest sales of shops in some countries, alone or with its neighbors."""
    times = times_of(DAY, 700)
    days = times.astype("M8[D]")
    first = np.arange("2021", "2023", dtype="M8[Y]").astype("M8[M]") + 10
    sales = np.concatenate(
        [first.astype("M8[D]") + 10 + n for n in range(-(length // 2), (length + 1) // 2)]
    )
    _, flags = score_and_flag(times, np.where(np.isin(days, sales), 2.0, 1.0))
    found = days[flags]
    assert set(found.astype(str)) == {str(day) for day in sales if day < np.datetime64("2022")}


@pytest.mark.parametrize("trade", [1.0, 1.25])
def test_days_of_a_season_are_expected_one_by_one_in_the_second_year(trade):
    """Days between the years lie between unusual days, so they are compared with the level before December."""
    times = times_of(DAY, 715)
    days = times.astype("M8[D]")
    dates = np.array([str(day)[5:] for day in days])
    factor = np.where((dates >= "12-10") & (dates < "12-24"), trade, 1.0)
    factor[(dates >= "12-24") & (dates <= "12-26")] = 0.2
    factor[dates >= "12-27"] = 0.6
    factor[dates == "01-01"] = 0.3
    _, flags = score_and_flag(times, factor)
    assert {"2021-12-24", "2022-01-01"} <= set(days[flags].astype(str))
    assert not flags[days > np.datetime64("2022-01-15")].any()
    factor[days == np.datetime64("2022-12-22")] = 0.5  # not a day of the season
    _, flags = score_and_flag(times, factor)
    assert days[flags][-1] == np.datetime64("2022-12-22")


@pytest.mark.parametrize("weeks", [2, 4])
@pytest.mark.parametrize("size", [0.6, 1.7])
def test_a_season_of_weeks_is_expected_in_the_second_year(weeks, size):
    times = times_of(DAY, 600)
    year = np.arange(600) % 365
    _, flags = score_and_flag(times, np.where((year >= 150) & (year < 150 + 7 * weeks), size, 1.0))
    assert flags[:365].any()
    assert not flags[365:].any()


@pytest.mark.parametrize("days", [1, 28])
@pytest.mark.parametrize("size", [0.65, 1.6])
def test_a_new_level_of_last_year_does_not_explain_one_of_this_year(days, size):
    """A step or a drift that stayed was no season."""
    times = times_of(DAY, 600)
    day = np.arange(600)
    last_year = size ** np.clip((day - 170) / days, 0, 1)
    scores, flags = score_and_flag(times, np.where(day >= 555, size, 1.0) * last_year)
    assert np.flatnonzero(flags[500:]).tolist() == [55, 56, 57, 58]
    assert Reason.CALENDAR not in scores.reason[0, 555:]


def test_an_unusual_day_is_unusual_again_on_another_day_of_the_month():
    times = times_of(DAY, 200)
    factor = np.ones(200)
    factor[[95, 135, 177]] = 2.5  # 7 May, 16 June, 28 July
    _, flags = score_and_flag(times, factor)
    assert np.flatnonzero(flags).tolist() == [95, 135, 177]


@pytest.mark.soak
def test_a_new_level_of_hours_is_learned_within_a_day():
    times = times_of(HOUR, 28)
    factor = np.ones(len(times))
    factor[20 * 24 :] = 3.0
    _, flags = score_and_flag(times, factor)
    found = np.flatnonzero(flags)
    assert found[0] == 20 * 24
    assert found[-1] < 21 * 24
    six_hours = np.ones(len(times))
    six_hours[20 * 24 + 6 : 20 * 24 + 12] = 3.0
    _, flags = score_and_flag(times, six_hours)
    # not a recovery
    assert np.flatnonzero(flags).tolist() == list(range(20 * 24 + 6, 20 * 24 + 12))


def test_the_first_weekend_of_a_new_table_is_not_an_anomaly():
    times = times_of(HOUR, 14)
    _, flags = score_and_flag(times, np.where(weekend(times), 0.5, 1.0))
    assert not flags.any()


def weeks_of_noise(weeks, noise):
    """Return weeks, and ten counts with a smooth season of the year."""
    draw = np.random.default_rng(3)
    season = 0.2 * np.sin(2 * np.pi * np.arange(weeks) / 52.18)
    return times_of(7 * DAY, 7 * weeks), 1e6 * np.exp(season + draw.normal(0, noise, (10, weeks)))


def test_the_band_of_weeks_follows_their_noise_from_the_second_year_on():
    """A normal deviation of 1 in 4,500 is 3.7 times the noise; a forecast from many points adds little to it."""
    times, values = weeks_of_noise(156, 0.05)
    scores = tg.Seasonal().score(History(times, values, values, [Scale.COUNT] * 10))
    reach = np.log(scores.upper / scores.lower) / 2 / 0.05
    for year in (1, 2):
        assert 3.7 < np.median(reach[:, 52 * year + 20 : 52 * year + 52]) < 5.5


def test_a_loss_of_a_third_of_a_week_is_found_in_every_year():
    times, values = weeks_of_noise(156, 0.05)
    weeks = np.array([30, 60, 85, 110, 140])
    values[:, weeks] *= 2 / 3
    scores = tg.Seasonal().score(History(times, values, values, [Scale.COUNT] * 10))
    assert (scores.score[:, weeks] > 3.65).mean() > 0.9


def test_new_weeks_are_scored_as_in_a_score_of_the_whole_history():
    times, values = weeks_of_noise(130, 0.05)
    values[0, 70:] *= 1.5  # a level that is accepted
    values[1, 40:43] *= 3
    values[2, 90] = np.nan
    history = History(times, values, values, [Scale.COUNT] * 10)
    whole = tg.Seasonal().score(history)
    known = Scores(*(getattr(whole, f.name)[:, :75] for f in fields(whole)))
    newer = tg.Seasonal().score(history, 75, known)
    np.testing.assert_allclose(newer.score, whole.score[:, 75:], rtol=1e-6)
    np.testing.assert_allclose(newer.upper, whole.upper[:, 75:], rtol=1e-6)
