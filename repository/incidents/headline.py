"""Summary of an incident in one line, and explanation of an anomaly in one sentence.

Consistency metrics are summarised by group-by, with the affected features and the worst rate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.formatting import (
    measured,
    number,
    one_line,
    percent,
    percent_change,
    plural,
)
from tidegauge.analyzers.core.metric import metric_text, written_scale
from tidegauge.repository.detectors.base import Reason
from tidegauge.repository.incidents.anomaly import ONE_DAY, is_missing, missing_span, span
from tidegauge.repository.store.consistency_series import CELLS, PREFIX, parse_instance

if TYPE_CHECKING:
    from datetime import timedelta

    from tidegauge.repository.incidents.anomaly import Anomaly


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


_OF_MATCHED = frozenset({*CELLS, "both_null"})
"""Metrics that are shares of the matched rows."""
_OF_ROWS = "row_"
"""Prefix of metrics on a group-by's rows instead of a feature."""
_NO_NAME = frozenset({"", "*"})


@dataclass(frozen=True)
class ConsistencyTopic:
    """A headline topic: a group-by's metric over all its features, in one direction.

    Attributes
    ----------
    group_by, metric, direction : str
    """

    group_by: str
    metric: str
    direction: str

    @classmethod
    def from_anomaly(cls, one: Anomaly, group_bys: Collection[str]) -> ConsistencyTopic | None:
        """Return the topic of an anomaly; None if it is not of a consistency metric.

        Parameters
        ----------
        one : Anomaly
        group_bys : collection of str
            Known names of group-bys, which may contain dots.
        """
        if not one.name.startswith(PREFIX):
            return None
        metric = one.name.removeprefix(PREFIX)
        if metric.startswith(_OF_ROWS):
            return cls(one.instance, metric, one.direction)
        found = parse_instance(one.instance, set(group_bys))
        return cls(found.group_by, metric, one.direction)

    @property
    def wrong(self) -> bool:
        """True for a high mismatch rate, from which changes in other metrics follow."""
        return self.metric in CELLS and self.direction == "high"

    def said(self, some: Sequence[Anomaly]) -> str:
        """Return the topic's anomalies as a clause of a headline.

        Parameters
        ----------
        some : sequence of Anomaly
            At least one.
        """
        ordered = sorted(some, key=self.size)
        clearest, worst = {one.instance: one for one in ordered}, ordered[-1]
        feature = worst.instance.removeprefix(f"{self.group_by}.")
        what = " ".join(name for name in (self.group_by, self.metric) if name not in _NO_NAME)
        # A limit says what is wrong, and not what is usual: another detector of the series may.
        usual = {one.instance: one.expected for one in ordered if one.expected is not None}
        amounts = {name: self._amount(one, usual.get(name)) for name, one in clearest.items()}
        amount = amounts[worst.instance]
        alike = set(amounts.values()) == {amount}
        if self.metric.startswith(_OF_ROWS):
            return f"{what} ({amount})"
        if len(clearest) == 1:
            return f"{what} in {feature} ({amount})"
        if alike:
            return f"{what} in {plural(len(clearest), 'feature')} alike ({amount})"
        most = "most" if self.wrong else "clearest"
        return f"{what} in {plural(len(clearest), 'feature')}, {most} in {feature} ({amount})"

    def size(self, one: Anomaly) -> tuple[float, float]:
        """Return an anomaly's deviation as a sort key, comparable within the topic."""
        off = abs((one.value or 0.0) - (one.expected or 0.0)) if self.metric in _OF_MATCHED else 0.0
        return off, one.score

    def _amount(self, one: Anomaly, expected: float | None) -> str:
        value = one.value
        if value is None:
            return "no number"
        if self.metric in _OF_MATCHED:
            usual = "" if expected is None else f", usually {percent(expected)}"
            return f"{percent(value)} of rows{usual}"
        if expected is None:
            return measured(value, one.scale)
        return f"{measured(value, one.scale)} instead of {measured(expected, one.scale)}"


MOST = 3
"""Maximum number of metrics that a headline names."""
CLEAR = 20.0
"""Scores are capped here for ranking."""
LONGEST = 100
"""Maximum number of characters for an anomaly of a whole partition."""
Topic = ConsistencyTopic | tuple[str, str]
"""Topic of a headline: a group-by's metrics, or a metric's name and instance."""
Topics = list[Topic]

_PLAIN = frozenset({"Completeness", "Size"})
_ROWS = {"Size": "volume"}
VOLUME = ("Size", "*")
SAME = 0.1
"""Difference of two factors that are said to be the same change; of increases, relative to the smaller."""
MANY_TIMES = 10
"""Factor from which on an increase is told as one, not in per cent."""
_VALUE = re.compile(r"\w+\s*=\s*'([^']*)'")


def headline(
    anomalies: Sequence[Anomaly],
    step: timedelta | None = ONE_DAY,
    group_bys: Collection[str] = (),
) -> str:
    """Return an incident's time span and its most significant metrics.

    Segments that lost all of their rows come first, unless the whole table did. A metric is listed once,
    at its largest departure, with the filters and segments that share the anomaly. Columns that lack
    values in as many rows are listed together. Sums and counts that changed as the number of rows did
    say nothing more than that. Consistency metrics are listed by group-by; mismatch rates take precedence over metrics that
    follow from them. A gap is told by the time of the first partition that is missing.

    Parameters
    ----------
    anomalies : sequence of Anomaly
        In order of time; at least one.
    step : timedelta, optional
        Length of partitions, as `step_of` returns it.
    group_bys : collection of str
        Names of the group-bys of consistency metrics.
    """
    only_missing = all(is_missing(one.name) for one in anomalies)
    if only_missing and (gap := missing_span(anomalies[0].explanation)):
        within = f", {anomalies[0].within}" if anomalies[0].within else ""
        return one_line(f"{span(gap.first, gap.first, _start_step(step))}{within}: {gap.text}")
    vanished = _vanished(anomalies)
    topics: dict[Topic, list[Anomaly]] = {}
    for one in anomalies:
        if _is_empty(one) and one.segment in vanished:
            continue
        topic = ConsistencyTopic.from_anomaly(one, group_bys) or (one.name, one.instance)
        topics.setdefault(topic, []).append(one)
    wrong = {of.group_by for of in topics if isinstance(of, ConsistencyTopic) and of.wrong}
    clear = [of for of in topics if isinstance(of, tuple) or of.wrong or of.group_by not in wrong]
    ranked = sorted(clear, key=lambda of: -_weight(of, topics[of]))
    volume = _factor(topics.get(VOLUME, ()))
    same = [of for of in ranked if of != VOLUME and _follows(volume, topics[of])]
    shown = _together([of for of in ranked if of not in same], topics)[:MOST]
    told = [f"no rows with {_listed(vanished, 'or')}"] if vanished else []
    told += [_told(some, topics) for some in shown]
    told_of = [of for some in (*shown, same) for of in some]
    named = {(one.name, one.instance) for of in told_of for one in topics[of]}
    named |= {VOLUME} if vanished else set()
    more = len({(one.name, one.instance) for one in anomalies} - named)
    if more:
        told.append(f"and {plural(more, 'more metric')}")
    utc = any(isinstance(of, ConsistencyTopic) for of in topics)  # consistency buckets are in UTC
    within = anomalies[0].within
    where = f", {within}" if within and all(one.segment != within for one in anomalies) else ""
    return one_line(f"{_when(anomalies, step, utc=utc)}{where}: {'; '.join(told)}")


def _start_step(step: timedelta | None) -> timedelta | None:
    """Return the step by which a time is told as the start of a partition, not as the whole of it."""
    return step if step == ONE_DAY else None


def _vanished(anomalies: Sequence[Anomaly]) -> list[str]:
    """Return the segments that have no rows in a partition in which the table has some, by their names."""
    empty = {one.position for one in anomalies if _is_empty(one) and not one.segment}
    found = {one.segment for one in anomalies if _is_empty(one) and one.position not in empty}
    return sorted(found - {""})


def _is_empty(one: Anomaly) -> bool:
    """Return whether an anomaly says that there are no rows, though some were expected."""
    return (one.name, one.instance, one.filter, one.value) == (*VOLUME, "", 0) and one.expected != 0


def _weight(of: Topic, some: Sequence[Anomaly]) -> float:
    """Return a metric's rank: missing values and row counts come first, totals before parts."""
    whole = any(not one.filter and not one.segment for one in some)
    score = max(one.score for one in some)
    parts = len({_among(one) for one in some})
    if not isinstance(of, ConsistencyTopic):
        return prominence(some[0].name, score, whole=whole, parts=parts)
    plain = of.wrong * (1.0 + max(of.size(one)[0] for one in some))
    return min(score, CLEAR) + 3.0 * whole + CLEAR * plain + min(parts, MOST + 1)


def prominence(name: str, score: float, *, whole: bool, parts: int = 1) -> float:
    """Return the rank of a metric: missing values and row counts come first, totals before parts.

    The more ``parts`` (filters and segments, the total included) are anomalies, the higher.

    Examples
    --------
    >>> prominence("Size", 8.0, whole=True) > prominence("Mean", 60.0, whole=True)
    True
    """
    return min(score, CLEAR) + 3.0 * whole + CLEAR * (name in _PLAIN) + min(parts, MOST + 1)


def _together(ranked: Sequence[Topic], topics: Mapping[Topic, Sequence[Anomaly]]) -> list[Topics]:
    """Group topics that are told as one: columns without values in as many rows, to a tenth."""
    found: list[Topics] = []
    missing: list[tuple[float, int]] = []
    for of in ranked:
        lost = _lost(of, topics[of])
        like = next((n for size, n in missing if abs(lost - size) <= SAME * size), None)
        if like is None:
            missing.append((lost, len(found)))
            found.append([of])
        else:
            found[like].append(of)
    return found


def _lost(of: Topic, some: Sequence[Anomaly]) -> float:
    """Return the share of all rows that lost a column's value; NaN for other topics."""
    if isinstance(of, ConsistencyTopic) or of[0] != "Completeness":
        return nan
    one = _clearest(some)
    if one.filter or one.segment or one.value is None or one.expected is None:
        return nan
    return one.expected - one.value


def _clearest(some: Sequence[Anomaly]) -> Anomaly:
    """Return the anomaly that departs the farthest, of the whole table if there is one."""
    return max([one for one in some if not one.filter and not one.segment] or some, key=_departure)


def _told(of: Topics, topics: Mapping[Topic, Sequence[Anomaly]]) -> str:
    first, some = of[0], topics[of[0]]
    whole = [one for one in some if not one.filter and not one.segment]
    if isinstance(first, ConsistencyTopic):
        said = first.said(whole or some)
    elif first[0] == "Completeness":
        said = _without_values([_clearest(topics[one]) for one in of])
    else:
        said = _said(_clearest(some))
    return said + _of_parts(some, whole)


def _of_parts(some: Sequence[Anomaly], whole: Sequence[Anomaly]) -> str:
    """Return which parts of a table went the same way as what is told of it, and which another way.

    Of the parts alone, the number told is that of the clearest; others are named beside it only if they
    changed as much.
    """
    by_part: dict[str, list[Anomaly]] = {}
    for one in some:
        if one.filter or one.segment:
            by_part.setdefault(_among(one), []).append(one)
    if not by_part:
        return ""
    parts = {part: max(of, key=_departure) for part, of in sorted(by_part.items())}
    told = _clearest(some)
    same = [part for part, one in parts.items() if one.direction == told.direction]
    other = [part for part, one in parts.items() if one.direction != told.direction]
    opposite = f"; {_listed(other)} the other way" if other else ""
    if whole:
        alike = f"{_listed(same)}{' alike' if len(same) > 1 else ''}" if same else ""
        return f" ({(alike + opposite).removeprefix('; ')})"
    as_much = [part for part in same if parts[part] is told or _changed_alike(parts[part], told)]
    rest = [part for part in same if part not in as_much]
    alike = f" ({_listed(rest)}, too{opposite})" if rest else f" ({opposite[2:]})" if other else ""
    return f" for {_listed(as_much)}{alike}"


def _changed_alike(one: Anomaly, other: Anomaly) -> bool:
    """Return whether two values changed by the same factor, as far as factors are known."""
    changes = [a.value / a.expected for a in (one, other) if a.value is not None and a.expected]
    known = [change for change in changes if isfinite(change)]
    return len(known) < 2 or abs(known[0] - known[1]) <= SAME * max(1.0, min(known))


def _departure(one: Anomaly) -> tuple[float, float]:
    """Return an anomaly's distance from what was expected, then its score."""
    if one.value is None or one.expected is None:
        return 0.0, one.score
    return abs(one.value - one.expected), one.score


def _factor(some: Sequence[Anomaly]) -> float | None:
    """Return by what factor a count or sum of the whole changed at its largest departure."""
    one = _clearest(some) if some else None
    if one is None or one.filter or one.segment or one.value is None or not one.expected:
        return None
    return one.value / one.expected


def _follows(volume: float | None, some: Sequence[Anomaly]) -> bool:
    """Return whether a sum or count changed as the number of rows did."""
    if volume is None or not some or (some[0].scale != "count" and some[0].name != "Sum"):
        return False
    factor = _factor(some)
    return factor is not None and _same_change(factor, volume)


def _same_change(one: float, other: float) -> bool:
    """Return whether two factors are the same change: near each other, and nearer than to no change.

    Examples
    --------
    >>> _same_change(0.62, 0.63), _same_change(6.3, 6.2), _same_change(0.0, 0.0)
    (True, True, True)
    >>> _same_change(0.08, 0.16), _same_change(0.95, 0.86), _same_change(0.95, 1.04)
    (False, False, False)
    """
    apart = abs(one - other)
    change = min(abs(one - 1), abs(other - 1))
    return apart <= SAME * min(one, other) and apart <= change and (one < 1) == (other < 1)


def _said(one: Anomaly) -> str:
    whole = f"{one.partition_name or 'the table'} "
    if one.explanation.startswith(whole):  # of a partition-level detector
        noun = "the partition" if one.partition_name else "the table"
        text = f"{noun} {one.explanation.removeprefix(whole).removesuffix('.')}"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    value, expected = one.value, one.expected
    if value is None:
        return f"{one.name} of {one.instance} is no number"
    subject = _ROWS.get(one.name) or metric_text(one.name, one.instance)
    scale = written_scale(one.name, one.scale)
    if expected is None:
        return f"{subject} is {measured(value, scale)}"
    if one.scale == "count" and expected > 0 and value / expected >= MANY_TIMES:
        return f"{subject} {number(round(value / expected, 0))} times as high"
    if one.scale == "count" and expected > 0:
        return f"{subject} {percent_change(value, expected)}"
    return f"{subject} is {measured(value, scale)} instead of {measured(expected, scale)}"


def _without_values(some: Sequence[Anomaly]) -> str:
    """Tell of columns that lack values in as many rows."""
    if some[0].value is None:
        return _said(some[0])
    columns = [one.instance for one in some]
    shown = columns[: MOST + 1] if len(columns) <= MOST + 1 else columns[:MOST]
    if len(columns) > len(shown):
        shown.append(f"{len(columns) - MOST} more columns")
    names = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
    told = f"{_range([1 - one.value for one in some if one.value is not None])} of rows have no {names}"
    usual = [1 - one.expected for one in some if one.expected is not None]
    return f"{told} (usually {_range(usual)})" if usual else told


def _range(shares: Sequence[float]) -> str:
    """Return the least and the largest of some shares, once if they are told alike.

    Examples
    --------
    >>> _range([0.19, 0.191]), _range([0.16, 0.17])
    ('19 %', '16 to 17 %')
    """
    least, most = percent(min(shares)), percent(max(shares))
    return most if least == most else f"{least.removesuffix(' %')} to {most}"


def _among(one: Anomaly) -> str:
    simple = _VALUE.fullmatch(one.filter)
    return " ".join(text for text in (simple[1] if simple else one.filter, one.segment) if text)


def _listed(parts: Sequence[str], last: str = "and") -> str:
    shown = list(parts[:MOST])
    if len(parts) > MOST:
        shown.append(f"{len(parts) - MOST} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def _when(anomalies: Sequence[Anomaly], step: timedelta | None, *, utc: bool) -> str:
    first, last = anomalies[0], anomalies[-1]
    if first.time is None or last.time is None:
        names = dict.fromkeys([first.partition_name, last.partition_name])
        return " to ".join(name or "the table" for name in names)
    return span(first.time, last.time, step) + (" UTC" if utc and step != ONE_DAY else "")
