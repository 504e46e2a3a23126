"""Holiday calendars: by country, or as names by day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

from tidegauge.analyzers.core.errors import SuiteError

COUNTRY = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,4})?")

Calendar = str | Mapping[str, str] | None
"""A country as in ``US`` or ``US-NY``, names by day as in ``2013-07-04``, or None."""


def check_calendar(given: Calendar) -> None:
    """Raise `SuiteError` if the value is not a valid calendar."""
    if isinstance(given, str) and not COUNTRY.fullmatch(given):
        msg = f"holidays {given!r}: write a country as US or US-NY, or names by day"
        raise SuiteError(msg)
    if isinstance(given, Mapping):
        for day in given:
            try:
                plain = date.fromisoformat(day).isoformat() == day
            except (TypeError, ValueError):
                plain = False
            if not plain:
                msg = f"holidays: {day!r} is no day; write it as 2013-07-04"
                raise SuiteError(msg)


DATES = "holiday_dates"
"""Member of a stored suite that holds a country's holidays as dates: by year, and names by day."""


def suite_holidays(suite: Mapping[str, Any], times: Iterable[datetime | None]) -> Mapping[str, str]:
    """Return the holidays of a stored suite: its dates where they were stored, as `holidays_of`."""
    return holidays_of(suite.get("holidays"), times, suite.get(DATES))


def new_dates(
    suite: Mapping[str, Any], times: Iterable[datetime | None]
) -> dict[str, dict[str, str]]:
    """Return the holidays of a suite's country in years that are not stored yet, as in `DATES`.

    Empty if the package ``holidays`` is not installed, or does not know the country.
    """
    country = suite.get("holidays")
    lacking = _years_of(times) - set(map(int, suite.get(DATES, {})))
    if not isinstance(country, str) or not lacking:
        return {}
    try:
        return {str(year): days for year, days in _of_country(country, lacking).items()}
    except SuiteError:
        return {}


def holidays_of(
    given: Calendar,
    times: Iterable[datetime | None],
    stored: Mapping[str, Mapping[str, str]] | None = None,
) -> Mapping[str, str]:
    """Return holiday names by day, for the years of the given times and the years next to them.

    Parameters
    ----------
    given : str or mapping, optional
        Calendar of a suite. A country's holidays come from the package ``holidays``, except for the
        years that are stored.
    times : iterable of datetime
    stored : mapping, optional
        Names by day, by year, as in `DATES`.

    Raises
    ------
    SuiteError
        If the package is needed and not installed, or does not know the country.

    Examples
    --------
    >>> holidays_of({"2013-02-08": "Blizzard"}, [])
    {'2013-02-08': 'Blizzard'}
    >>> dates = {year: {f"{year}-07-04": "Independence Day"} for year in ("2012", "2013", "2014")}
    >>> holidays_of("US", [datetime(2013, 2, 8)], dates)["2013-07-04"]
    'Independence Day'
    """
    if not isinstance(given, str):
        return dict(given or {})
    known = {int(year): dict(days) for year, days in (stored or {}).items()}
    lacking = _years_of(times) - known.keys()
    if lacking:
        known |= _of_country(given, lacking)
    return {day: name for year in sorted(known) for day, name in known[year].items()}


def _years_of(times: Iterable[datetime | None]) -> set[int]:
    years = {time.year for time in times if time is not None}
    return {year + n for year in years for n in (-1, 0, 1)}


def _of_country(given: str, years: set[int]) -> dict[int, dict[str, str]]:
    """Return a country's holidays, names by day, by year."""
    try:
        from holidays import country_holidays
    except ImportError as error:
        msg = f"holidays {given!r} need a calendar: pip install 'tidegauge[holidays]'"
        raise SuiteError(msg) from error
    country, _, part = given.partition("-")
    try:
        found = country_holidays(country, subdiv=part or None, years=years)
    except NotImplementedError as error:  # raised by the package for an unknown country
        msg = f"holidays {given!r}: {error}"
        raise SuiteError(msg) from error
    by_year: dict[int, dict[str, str]] = {year: {} for year in years}
    for day, name in sorted(found.items()):
        by_year.setdefault(day.year, {})[day.isoformat()] = name
    return by_year
