"""Explain an anomaly in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isnan

from tidegauge.analyzers.core.formatting import measured, one_line
from tidegauge.repository.detectors.base import Reason

_WORDS = {
    Reason.DRIFT: "{side} its level of weeks ago, after the largest slow drift so far",
    Reason.CONSTANT: "{side} the {expected} that it nearly always is",
    Reason.NOVELTY: "unlike all earlier values",
}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def explain(
    what: str,
    partition: str,
    weekday: int | None,
    value: float,
    earlier: Sequence[float],
    expected: float,
    lower: float,
    upper: float,
    reason: Reason = Reason.LEVEL,
    others: int = 0,
    *,
    scale: str = "",
    after: bool = False,
    grave: bool = False,
) -> str:
    """Explain an anomaly: the value, the usual range, and whether it is a record.

    Parameters
    ----------
    what : str
        The metric, such as ``Completeness of dep_time``.
    partition : str
    weekday : int or None
        0 is Monday.
    value : float
    earlier : sequence of float
        The values of earlier partitions.
    expected, lower, upper : float
        The detector's expected value and band; NaN where it gives none.
    reason : Reason
        The kind of deviation.
    others : int
        Number of other metrics that are anomalies in the partition. A value inside its band is one
        for their sake, as that of the partition before was, because it is grave, or by a rule that is
        stricter than the band.
    scale : str
        The metric's scale, as in `Scale`; ratios are told in per cent.
    after : bool
        Whether the metric was an anomaly in the partition before.
    grave : bool
        Whether the departure is so large that it needs less evidence.

    Examples
    --------
    >>> explain("Completeness of email", "ds=2013-02-08", 4, 0.5, [0.97], 0.975, 0.95, 0.99, scale="ratio")
    'Completeness of email in ds=2013-02-08 (a Friday) is 50 %, below the usual 95 % to 99 % (expected 97.5 %): the lowest of 2 partitions.'
    >>> explain("Size", "ds=2013-02-08", None, 960, [], 1000, 950, 1050, after=True)
    'Size in ds=2013-02-08 is 960, low within the usual 950 to 1,050 (expected 1,000), and an anomaly went before.'
    >>> explain("Size", "ds=2013-02-08", None, 960, [], 1000, 950, 1050, others=2)
    'Size in ds=2013-02-08 is 960, low within the usual 950 to 1,050 (expected 1,000), and 2 other metrics are unusual, too.'
    """
    number = partial(measured, scale=scale)
    day = "" if weekday is None else f" (a {_WEEKDAYS[weekday]})"
    side = "below" if direction(value, expected, lower, upper) == "low" else "above"
    if reason in _WORDS:
        usual = _WORDS[reason].format(side=side, expected=number(expected))
    elif isnan(lower) and isnan(upper):
        usual = f"far {side} the expected {number(expected)}"
    elif isnan(lower) or isnan(upper):
        bound, limit = ("least", lower) if isnan(upper) else ("most", upper)
        usual = f"{side} the {bound} allowed, {number(limit)}"
    else:
        band = f"{number(lower)} to {number(upper)}"
        dated = ", as on this day of other months or years" if reason is Reason.CALENDAR else ""
        centre = "" if isnan(expected) else f" (expected {number(expected)}{dated})"
        usual = f"{side} the {'allowed' if reason is Reason.BOUND else 'usual'} {band}{centre}"
        if lower <= value <= upper:
            inside = {"below": "low within", "above": "high within"}[side]
            usual = (
                f"{inside} the usual {band}{centre}, {_joined(others, after=after, grave=grave)}"
            )
    past = [v for v in earlier if not isnan(v)]
    record = ""
    if past and side == "below" and value < min(past):
        record = f": the lowest of {len(past) + 1} partitions"
    elif past and side == "above" and value > max(past):
        record = f": the highest of {len(past) + 1} partitions"
    text = f"{what} in {partition or 'the table'}{day} is {number(value)}, {usual}{record}."
    return one_line(text)


def _joined(others: int, *, after: bool, grave: bool) -> str:
    """Return why a value inside its band is an anomaly."""
    if others:
        return f"and {others} other metric{'s are' if others > 1 else ' is'} unusual, too"
    if after:
        return "and an anomaly went before"
    if grave:
        return "and so large a departure needs less evidence"
    return "and the monitor's rule is stricter than that"


def direction(value: float, expected: float, lower: float, upper: float) -> str:
    """Return ``low`` or ``high``."""
    reference = expected
    if isnan(reference):
        reference = lower if not isnan(lower) and value < lower else upper
    return "low" if value < reference else "high"
