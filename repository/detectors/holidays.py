"""Holiday calendars: by country, or as names by day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime

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


def holidays_of(given: Calendar, times: Iterable[datetime | None]) -> Mapping[str, str]:
    """Return holiday names by day, for the years of the given times and the years next to them.

    Parameters
    ----------
    given : str or mapping, optional
        Calendar of a suite. A country's holidays come from the package ``holidays``.
    times : iterable of datetime

    Raises
    ------
    SuiteError
        If the package is not installed, or does not know the country.

    Examples
    --------
    >>> holidays_of({"2013-02-08": "Blizzard"}, [])
    {'2013-02-08': 'Blizzard'}
    """
    if not isinstance(given, str):
        return dict(given or {})
    years = {time.year for time in times if time is not None}
    try:
        from holidays import country_holidays
    except ImportError as error:
        msg = f"holidays {given!r} need a calendar: pip install 'tidegauge[holidays]'"
        raise SuiteError(msg) from error
    country, _, part = given.partition("-")
    wanted = {year + n for year in years for n in (-1, 0, 1)}
    try:
        found = country_holidays(country, subdiv=part or None, years=wanted)
    except NotImplementedError as error:  # raised by the package for an unknown country
        msg = f"holidays {given!r}: {error}"
        raise SuiteError(msg) from error
    return {day.isoformat(): name for day, name in sorted(found.items())}
