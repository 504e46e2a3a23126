"""An anomaly in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from analyzers.display import number, one_line
from repository.anomalies.detector import Reason

_WORDS = {
    Reason.DRIFT: "after moving slowly, but farther than it ever did, {side} where it was weeks ago",
    Reason.CONSTANT: "{side} the {expected} that it nearly always is",
    Reason.NOVELTY: "unlike everything before it",
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
) -> str:
    """Say what was found, what would have been usual, and whether it ever was so before.

    Parameters
    ----------
    what : str
        The metric, as in ``Completeness of dep_time``.
    partition : str
    weekday : int or None
        0 is Monday.
    value : float
    earlier : sequence of float
        The values of the partitions before.
    expected, lower, upper : float
        What the detector expected, and its band; NaN where it says nothing.
    reason : Reason
        What stood out.

    Examples
    --------
    >>> explain("Completeness of email", "ds=2013-02-08", 4, 0.5, [0.97, 0.98], 0.975, 0.95, 0.99)
    'Completeness of email in ds=2013-02-08 (a Friday) is 0.5, below the usual 0.95 to 0.99 (expected 0.975): the lowest of 3 partitions.'
    >>> explain("Size", "ds=2013-02-08", None, 960, [], 1000, 950, 1050)
    'Size in ds=2013-02-08 is 960, low within the usual 950 to 1,050 (expected 1,000).'
    """
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
        centre = "" if isnan(expected) else f" (expected {number(expected)})"
        # Many that are odd together are found, though none of them alone would be.
        inside = {"below": "low within", "above": "high within"}[side]
        usual = f"{inside if lower <= value <= upper else side} the usual {band}{centre}"
    past = [v for v in earlier if not isnan(v)]
    record = ""
    if past and side == "below" and value < min(past):
        record = f": the lowest of {len(past) + 1} partitions"
    elif past and side == "above" and value > max(past):
        record = f": the highest of {len(past) + 1} partitions"
    text = f"{what} in {partition or 'the table'}{day} is {number(value)}, {usual}{record}."
    return one_line(text)


def direction(value: float, expected: float, lower: float, upper: float) -> str:
    """Return ``low`` or ``high``."""
    reference = expected
    if isnan(reference):
        reference = lower if not isnan(lower) and value < lower else upper
    return "low" if value < reference else "high"
