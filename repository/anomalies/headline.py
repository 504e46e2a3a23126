"""An incident in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzers.display import number, one_line

if TYPE_CHECKING:
    from datetime import datetime

    from repository.anomalies.anomaly import Anomaly

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MOST = 3
"""Metrics that a headline names."""
CLEAR = 20.0
"""A score above which another is not clearer."""
LONGEST = 100
"""Characters that a partition as a whole is told in."""
_PLAIN = frozenset({"Completeness", "Size"})
_ROWS = {"Size": "volume"}
_VALUE = re.compile(r"\w+\s*=\s*'([^']*)'")


def headline(anomalies: Sequence[Anomaly]) -> str:
    """Return when it was, and the clearest of what stood out.

    A metric is told once, at its clearest point, with the filters and segments for which it holds alike.

    Parameters
    ----------
    anomalies : sequence of Anomaly
        In order of time; at least one.
    """
    topics: dict[tuple[str, str], list[Anomaly]] = {}
    for one in anomalies:
        topics.setdefault((one.name, one.instance), []).append(one)
    ranked = sorted(topics.values(), key=lambda some: -_weight(some))
    told = [_told(some) for some in ranked[:MOST]]
    more = len(ranked) - len(told)
    if more:
        told.append(f"and {more} more metric{'s' if more > 1 else ''}")
    return one_line(f"{_when(anomalies)}: {'; '.join(told)}")


def _weight(some: Sequence[Anomaly]) -> float:
    """How much a metric tells: missing values and rows come first, all rows before some of them."""
    whole = any(not one.filter and not one.segment for one in some)
    plain = some[0].name in _PLAIN
    parts = min(len({_among(one) for one in some}), MOST + 1)
    return min(max(one.score for one in some), CLEAR) + 3.0 * whole + CLEAR * plain + parts


def _told(some: Sequence[Anomaly]) -> str:
    whole = [one for one in some if not one.filter and not one.segment]
    clearest = max(whole or some, key=lambda one: one.score)
    parts = sorted({_among(one) for one in some if one.filter or one.segment})
    said = _said(clearest)
    if whole and parts:
        said += f" ({_listed(parts)}{' alike' if len(parts) > 1 else ''})"
    elif parts:
        said += f" for {_listed(parts)}"
    return said


def _said(one: Anomaly) -> str:
    whole = f"{one.partition_name or 'the table'} "
    if one.explanation.startswith(whole):  # what is said of a partition as a whole
        text = one.explanation.removeprefix(whole).removesuffix(".")
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    value, expected = one.value, one.expected
    if value is None:
        return f"{one.name} of {one.instance} is no number"
    if one.name == "Completeness" and expected is not None:
        return (
            f"{_share(1 - value)} of rows have no {one.instance} (usually {_share(1 - expected)})"
        )
    subject = _ROWS.get(one.name) or (
        one.name if one.instance == "*" else f"{one.name} of {one.instance}"
    )
    if expected is None:
        return f"{subject} is {number(value)}"
    if one.scale == "count" and expected > 0:
        return f"{subject} {(value / expected - 1) * 100:+.0f} %"
    return f"{subject} is {number(value)} instead of {number(expected)}"


def _among(one: Anomaly) -> str:
    simple = _VALUE.fullmatch(one.filter)
    return " ".join(text for text in (simple[1] if simple else one.filter, one.segment) if text)


def _listed(parts: Sequence[str]) -> str:
    shown = list(parts[:MOST])
    if len(parts) > MOST:
        shown.append(f"{len(parts) - MOST} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _share(share: float) -> str:
    """Return a share as a percentage.

    Examples
    --------
    >>> _share(0.5213), _share(0.0021), _share(0)
    ('52 %', '0.21 %', '0 %')
    """
    percent = 100 * max(share, 0.0)
    if percent == 0 or percent >= 10:  # noqa: PLR2004 - two digits are enough
        return f"{percent:.0f} %"
    return f"{percent:.2g} %"


def _when(anomalies: Sequence[Anomaly]) -> str:
    first, last = anomalies[0], anomalies[-1]
    if first.time is None or last.time is None:
        names = dict.fromkeys([first.partition_name, last.partition_name])
        return " to ".join(name or "the table" for name in names)
    return span(first.time, last.time)


def span(first: datetime, last: datetime) -> str:
    """Return days, or hours where they are no whole days, as one says them.

    Examples
    --------
    >>> from datetime import datetime
    >>> span(datetime(2013, 2, 8), datetime(2013, 2, 9))
    '8-9 Feb 2013'
    >>> span(datetime(2013, 12, 31), datetime(2014, 1, 1))
    '31 Dec 2013 to 1 Jan 2014'
    >>> span(datetime(2013, 2, 8, 7), datetime(2013, 2, 8, 7))
    '8 Feb 2013 07:00'
    """
    whole = all((t.hour, t.minute) == (0, 0) for t in (first, last))
    if not whole:
        ends = [f"{_day(t)} {t.year} {t:%H:%M}" for t in (first, last)]
        return ends[0] if first == last else " to ".join(ends)
    if first == last:
        return f"{_day(first)} {first.year}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}-{_day(last)} {last.year}"
    if first.year == last.year:
        return f"{_day(first)} to {_day(last)} {last.year}"
    return f"{_day(first)} {first.year} to {_day(last)} {last.year}"


def _day(time: datetime) -> str:
    return f"{time.day} {_MONTHS[time.month - 1]}"
