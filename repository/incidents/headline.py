"""Summarize an incident in one line, and explain an anomaly in one sentence.

Consistency metrics are summarized by group-by, with the affected features and the worst rate.
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


_REASON_PHRASES = {
    Reason.DRIFT: "{side} its level of a few weeks ago, after the largest slow drift so far",
    Reason.CONSTANT: "{side} {expected}, its value in nearly all partitions",
    Reason.NOVELTY: "unlike all earlier values",
}
_WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def explain(
    metric: str,
    partition: str,
    weekday: int | None,
    value: float,
    earlier: Sequence[float],
    expected: float,
    lower: float,
    upper: float,
    reason: Reason = Reason.LEVEL,
    unusual_count: int = 0,
    *,
    scale: str = "",
    after: bool = False,
    grave: bool = False,
) -> str:
    """Explain an anomaly: the value, the usual range, and whether it is a record.

    Parameters
    ----------
    metric : str
        The metric, such as ``Completeness of dep_time``.
    partition : str
        Name of the partition; empty for an unpartitioned table.
    weekday : int or None
        0 is Monday.
    value : float
        The metric's value.
    earlier : sequence of float
        The values of earlier partitions.
    expected, lower, upper : float
        The detector's expected value and band; NaN if there is none.
    reason : Reason
        The kind of deviation.
    unusual_count : int
        Number of other metrics that are anomalies in the partition. A value inside its band is an anomaly if
        other metrics are anomalies, if the previous value was one, if it is grave, or if the rule is stricter
        than the band.
    scale : str
        The metric's scale, as in `Scale`. Ratios are shown in per cent.
    after : bool
        Whether the metric was an anomaly in the previous partition.
    grave : bool
        Whether the deviation is so large that it needs less evidence.

    Examples
    --------
    >>> explain("Completeness of email", "ds=2013-02-08", 4, 0.5, [0.97], 0.975, 0.95, 0.99, scale="ratio")
    'Completeness of email in ds=2013-02-08 (a Friday) is 50%, below the usual 95% to 99% (expected 97.5%): the lowest of 2 partitions.'
    >>> explain("Size", "ds=2013-02-08", None, 960, [], 1000, 950, 1050, after=True)
    'Size in ds=2013-02-08 is 960, low within the usual 950 to 1,050 (expected 1,000), and the previous value was an anomaly.'
    >>> explain("Size", "ds=2013-02-08", None, 960, [], 1000, 950, 1050, unusual_count=2)
    'Size in ds=2013-02-08 is 960, low within the usual 950 to 1,050 (expected 1,000), and 2 other metrics are also unusual.'
    """
    number = partial(measured, scale=scale)
    day = "" if weekday is None else f" (a {_WEEKDAY_NAMES[weekday]})"
    side = "below" if direction(value, expected, lower, upper) == "low" else "above"
    if reason in _REASON_PHRASES:
        usual = _REASON_PHRASES[reason].format(side=side, expected=number(expected))
    elif isnan(lower) and isnan(upper):
        usual = f"far {side} the expected {number(expected)}"
    elif isnan(lower) or isnan(upper):
        bound_name, limit = ("minimum", lower) if isnan(upper) else ("maximum", upper)
        usual = f"{side} the allowed {bound_name}, {number(limit)}"
    else:
        band = f"{number(lower)} to {number(upper)}"
        dated = ", as on this day of other months or years" if reason is Reason.CALENDAR else ""
        centre = "" if isnan(expected) else f" (expected {number(expected)}{dated})"
        usual = f"{side} the {'allowed' if reason is Reason.BOUND else 'usual'} {band}{centre}"
        if lower <= value <= upper:
            inside = {"below": "low within", "above": "high within"}[side]
            usual = f"{inside} the usual {band}{centre}, {_explain_inside_band(unusual_count, after=after, grave=grave)}"
    past = [v for v in earlier if not isnan(v)]
    record = ""
    if past and side == "below" and value < min(past):
        record = f": the lowest of {len(past) + 1} partitions"
    elif past and side == "above" and value > max(past):
        record = f": the highest of {len(past) + 1} partitions"
    text = f"{metric} in {partition or 'the table'}{day} is {number(value)}, {usual}{record}."
    return one_line(text)


LOADED_TWICE = "probably loaded twice"


def explain_double_load(explanation: str, column: str) -> str:
    """Return the explanation of a row count with the column that shows that the rows were loaded twice.

    Examples
    --------
    >>> explain_double_load("Size in ds=2026-11-16 is 1,210, above the usual 366 to 1,077.", "user")
    'Size in ds=2026-11-16 is 1,210, above the usual 366 to 1,077. user has no more distinct values than usual, so the rows were probably loaded twice.'
    """
    reason = f"{column} has no more distinct values than usual, so the rows were {LOADED_TWICE}."
    return one_line(f"{explanation} {reason}")


def _explain_inside_band(unusual_count: int, *, after: bool, grave: bool) -> str:
    """Return why a value inside its band is an anomaly."""
    if unusual_count:
        return f"and {unusual_count} other metric{'s are' if unusual_count > 1 else ' is'} also unusual"
    if after:
        return "and the previous value was an anomaly"
    if grave:
        return "and a deviation this large needs less evidence"
    return "and the monitor's rule is stricter than that"


def direction(value: float, expected: float, lower: float, upper: float) -> str:
    """Return ``low`` or ``high``."""
    reference = expected
    if isnan(reference):
        reference = lower if not isnan(lower) and value < lower else upper
    return "low" if value < reference else "high"


_MATCHED_ROW_METRICS = frozenset({*CELLS, "both_null"})
"""Metrics that are shares of the matched rows."""
_ROW_METRIC_PREFIX = "row_"
"""Prefix of metrics on a group-by's rows instead of a feature."""
_EMPTY_NAMES = frozenset({"", "*"})


@dataclass(frozen=True)
class ConsistencyTopic:
    """A headline topic: a metric of a group-by over all of its features, in one direction.

    Attributes
    ----------
    group_by, metric, direction : str
        Metric without its prefix, and ``low`` or ``high``.
    """

    group_by: str
    metric: str
    direction: str

    @classmethod
    def from_anomaly(cls, anomaly: Anomaly, group_bys: Collection[str]) -> ConsistencyTopic | None:
        """Return the topic of an anomaly; None if its metric is not a consistency metric.

        Parameters
        ----------
        anomaly : Anomaly
        group_bys : collection of str
            Known names of group-bys. They can contain dots.
        """
        if not anomaly.name.startswith(PREFIX):
            return None
        metric = anomaly.name.removeprefix(PREFIX)
        if metric.startswith(_ROW_METRIC_PREFIX):
            return cls(anomaly.instance, metric, anomaly.direction)
        parsed = parse_instance(anomaly.instance, set(group_bys))
        return cls(parsed.group_by, metric, anomaly.direction)

    @property
    def is_mismatch(self) -> bool:
        """True for a high mismatch rate, which also changes other metrics."""
        return self.metric in CELLS and self.direction == "high"

    def describe(self, anomalies: Sequence[Anomaly]) -> str:
        """Return the topic's anomalies as a clause of a headline.

        Parameters
        ----------
        anomalies : sequence of Anomaly
            Anomalies of the topic; at least one.
        """
        ordered = sorted(anomalies, key=self.size)
        clearest, worst = {anomaly.instance: anomaly for anomaly in ordered}, ordered[-1]
        feature = worst.instance.removeprefix(f"{self.group_by}.")
        title = " ".join(name for name in (self.group_by, self.metric) if name not in _EMPTY_NAMES)
        # A limit has no expected value, but another detector of the series can have one.
        usual = {
            anomaly.instance: anomaly.expected
            for anomaly in ordered
            if anomaly.expected is not None
        }
        amounts = {
            name: self._amount(anomaly, usual.get(name)) for name, anomaly in clearest.items()
        }
        amount = amounts[worst.instance]
        all_equal = set(amounts.values()) == {amount}
        if self.metric.startswith(_ROW_METRIC_PREFIX):
            return f"{title} ({amount})"
        if len(clearest) == 1:
            return f"{title} in {feature} ({amount})"
        if all_equal:
            return f"{title} in {plural(len(clearest), 'feature')} alike ({amount})"
        superlative = "most" if self.is_mismatch else "clearest"
        return (
            f"{title} in {plural(len(clearest), 'feature')}, {superlative} in {feature} ({amount})"
        )

    def size(self, anomaly: Anomaly) -> tuple[float, float]:
        """Return an anomaly's deviation as a sort key that is comparable within the topic."""
        difference = (
            abs((anomaly.value or 0.0) - (anomaly.expected or 0.0))
            if self.metric in _MATCHED_ROW_METRICS
            else 0.0
        )
        return difference, anomaly.score

    def _amount(self, anomaly: Anomaly, expected: float | None) -> str:
        value = anomaly.value
        if value is None:
            return "no number"
        if self.metric in _MATCHED_ROW_METRICS:
            usual = "" if expected is None else f", usually {percent(expected)}"
            return f"{percent(value)} of rows{usual}"
        if expected is None:
            return measured(value, anomaly.scale)
        return f"{measured(value, anomaly.scale)} instead of {measured(expected, anomaly.scale)}"


MAX_HEADLINE_METRICS = 3
"""More metrics make a headline too long for a chat message."""
MAX_RANKED_SCORE = 20.0
"""Scores above are equally significant in a ranking."""
MAX_EXPLANATION_LENGTH = 100
"""Longer explanations of whole partitions are cut in headlines."""
Topic = ConsistencyTopic | tuple[str, str]
"""Topic of a headline: metrics of a group-by, or name and instance of a metric."""
Topics = list[Topic]

_LEADING_METRICS = frozenset({"Completeness", "Size"})
_METRIC_SUBJECTS = {"Size": "volume"}
VOLUME_TOPIC = ("Size", "*")
SAME_CHANGE_TOLERANCE = 0.1
"""Two factors are the same change if they differ by at most a tenth (of the smaller factor, for increases)."""
MIN_REPORTED_FACTOR = 10
"""From this factor on, an increase is shown as "12 times as high" instead of a percentage."""
_EQUALITY_FILTER = re.compile(r"\w+\s*=\s*'([^']*)'")


def headline(
    anomalies: Sequence[Anomaly],
    step: timedelta | None = ONE_DAY,
    group_bys: Collection[str] = (),
) -> str:
    """Return an incident's time span and its most significant metrics.

    Segments that lost all of their rows come first, unless the whole table lost its rows. A metric is
    listed once, at its largest deviation, with the filters and segments that share the anomaly. Columns
    that lack values in the same number of rows are listed together. Sums and counts that changed with the
    number of rows are left out. Consistency metrics are listed by group-by; mismatch rates take precedence
    over metrics that follow from them. A gap is shown at the time of the first missing partition.

    Parameters
    ----------
    anomalies : sequence of Anomaly
        Anomalies of the incident in order of time; at least one.
    step : timedelta, optional
        Length of partitions, as `step_of` returns it.
    group_bys : collection of str
        Names of the group-bys of consistency metrics.
    """
    only_missing = all(is_missing(anomaly.name) for anomaly in anomalies)
    if only_missing and (gap := missing_span(anomalies[0].explanation)):
        within = f", {anomalies[0].within}" if anomalies[0].within else ""
        return one_line(f"{span(gap.first, gap.first, _start_step(step))}{within}: {gap.text}")
    # Collect the anomalies of each topic. Mismatch rates hide other metrics of the same group-by.
    vanished = _vanished_segments(anomalies)
    topics: dict[Topic, list[Anomaly]] = {}
    for anomaly in anomalies:
        if _is_empty(anomaly) and anomaly.segment in vanished:
            continue
        topic = ConsistencyTopic.from_anomaly(anomaly, group_bys) or (
            anomaly.name,
            anomaly.instance,
        )
        topics.setdefault(topic, []).append(anomaly)
    mismatched = {
        entry.group_by
        for entry in topics
        if isinstance(entry, ConsistencyTopic) and entry.is_mismatch
    }
    independent = [
        entry
        for entry in topics
        if isinstance(entry, tuple) or entry.is_mismatch or entry.group_by not in mismatched
    ]
    # Rank the topics, and describe the most significant ones.
    ranked = sorted(independent, key=lambda entry: -_topic_rank(entry, topics[entry]))
    volume = _change_factor(topics.get(VOLUME_TOPIC, ()))
    following = [
        entry
        for entry in ranked
        if entry != VOLUME_TOPIC and _follows_volume(volume, topics[entry])
    ]
    named_groups = _group_topics([entry for entry in ranked if entry not in following], topics)[
        :MAX_HEADLINE_METRICS
    ]
    clauses = [f"no rows with {_join_names(vanished, 'or')}"] if vanished else []
    clauses += [_describe_topics(group, topics) for group in named_groups]
    named_topics = [entry for group in (*named_groups, following) for entry in group]
    named_metrics = {
        (anomaly.name, anomaly.instance) for entry in named_topics for anomaly in topics[entry]
    }
    named_metrics |= {VOLUME_TOPIC} if vanished else set()
    unnamed = len({(anomaly.name, anomaly.instance) for anomaly in anomalies} - named_metrics)
    if unnamed:
        clauses.append(f"and {plural(unnamed, 'more metric')}")
    is_utc = any(
        isinstance(entry, ConsistencyTopic) for entry in topics
    )  # consistency buckets are in UTC
    within = anomalies[0].within
    location = (
        f", {within}" if within and all(anomaly.segment != within for anomaly in anomalies) else ""
    )
    return one_line(
        f"{_format_time_span(anomalies, step, utc=is_utc)}{location}: {'; '.join(clauses)}"
    )


def _start_step(step: timedelta | None) -> timedelta | None:
    """Return the step by which `span` formats the start of a partition, not its whole length."""
    return step if step == ONE_DAY else None


def _vanished_segments(anomalies: Sequence[Anomaly]) -> list[str]:
    """Return the names of segments without rows in a partition in which the table has rows."""
    empty = {
        anomaly.position for anomaly in anomalies if _is_empty(anomaly) and not anomaly.segment
    }
    segments = {
        anomaly.segment
        for anomaly in anomalies
        if _is_empty(anomaly) and anomaly.position not in empty
    }
    return sorted(segments - {""})


def _is_empty(anomaly: Anomaly) -> bool:
    """Return whether an anomaly reports no rows where some were expected."""
    return (anomaly.name, anomaly.instance, anomaly.filter, anomaly.value) == (
        *VOLUME_TOPIC,
        "",
        0,
    ) and anomaly.expected != 0


def _topic_rank(topic: Topic, anomalies: Sequence[Anomaly]) -> float:
    """Return a metric's rank: missing values and row counts come first, totals before parts."""
    has_total = any(not anomaly.filter and not anomaly.segment for anomaly in anomalies)
    score = max(anomaly.score for anomaly in anomalies)
    parts = len({_part_name(anomaly) for anomaly in anomalies})
    if not isinstance(topic, ConsistencyTopic):
        return prominence(anomalies[0].name, score, is_total=has_total, parts=parts)
    mismatch = topic.is_mismatch * (1.0 + max(topic.size(anomaly)[0] for anomaly in anomalies))
    return (
        min(score, MAX_RANKED_SCORE)
        + 3.0 * has_total
        + MAX_RANKED_SCORE * mismatch
        + min(parts, MAX_HEADLINE_METRICS + 1)
    )


def prominence(name: str, score: float, *, is_total: bool, parts: int = 1) -> float:
    """Return the rank of a metric: missing values and row counts come first, totals before parts.

    The rank grows with the number of ``parts`` (filters and segments, including the total) that are
    anomalies.

    Examples
    --------
    >>> prominence("Size", 8.0, is_total=True) > prominence("Mean", 60.0, is_total=True)
    True
    """
    return (
        min(score, MAX_RANKED_SCORE)
        + 3.0 * is_total
        + MAX_RANKED_SCORE * (name in _LEADING_METRICS)
        + min(parts, MAX_HEADLINE_METRICS + 1)
    )


def _group_topics(
    ranked: Sequence[Topic], topics: Mapping[Topic, Sequence[Anomaly]]
) -> list[Topics]:
    """Group topics that share a clause: columns without values in the same number of rows, to a tenth."""
    groups: list[Topics] = []
    lost_shares: list[tuple[float, int]] = []
    for topic in ranked:
        lost = _lost_share(topic, topics[topic])
        match = next(
            (n for size, n in lost_shares if abs(lost - size) <= SAME_CHANGE_TOLERANCE * size), None
        )
        if match is None:
            lost_shares.append((lost, len(groups)))
            groups.append([topic])
        else:
            groups[match].append(topic)
    return groups


def _lost_share(topic: Topic, anomalies: Sequence[Anomaly]) -> float:
    """Return the share of all rows that lost a column's value; NaN for other topics."""
    if isinstance(topic, ConsistencyTopic) or topic[0] != "Completeness":
        return nan
    anomaly = _clearest_anomaly(anomalies)
    if anomaly.filter or anomaly.segment or anomaly.value is None or anomaly.expected is None:
        return nan
    return anomaly.expected - anomaly.value


def _clearest_anomaly(anomalies: Sequence[Anomaly]) -> Anomaly:
    """Return the anomaly with the largest deviation, preferring anomalies of the whole table."""
    return max(
        [anomaly for anomaly in anomalies if not anomaly.filter and not anomaly.segment]
        or anomalies,
        key=_departure,
    )


def _describe_topics(group: Topics, topics: Mapping[Topic, Sequence[Anomaly]]) -> str:
    first_topic, anomalies = group[0], topics[group[0]]
    totals = [topic for topic in anomalies if not topic.filter and not topic.segment]
    if isinstance(first_topic, ConsistencyTopic):
        clause = first_topic.describe(totals or anomalies)
    elif first_topic[0] == "Completeness":
        clause = _describe_missing_values([_clearest_anomaly(topics[topic]) for topic in group])
    else:
        clause = _describe_anomaly(_clearest_anomaly(anomalies))
    return clause + _describe_parts(anomalies, totals)


def _describe_parts(anomalies: Sequence[Anomaly], totals: Sequence[Anomaly]) -> str:
    """Return a clause with the parts of a table that moved in the same and in the opposite direction.

    If only parts are anomalies, the headline shows the change of the clearest part. It names other parts
    together with it only if they changed by the same factor.
    """
    by_part: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies:
        if anomaly.filter or anomaly.segment:
            by_part.setdefault(_part_name(anomaly), []).append(anomaly)
    if not by_part:
        return ""
    parts = {part: max(members, key=_departure) for part, members in sorted(by_part.items())}
    clearest = _clearest_anomaly(anomalies)
    same_direction = [
        part for part, anomaly in parts.items() if anomaly.direction == clearest.direction
    ]
    opposite_parts = [
        part for part, anomaly in parts.items() if anomaly.direction != clearest.direction
    ]
    opposite_clause = f"; {_join_names(opposite_parts)} the other way" if opposite_parts else ""
    if totals:
        clause = (
            f"{_join_names(same_direction)}{' alike' if len(same_direction) > 1 else ''}"
            if same_direction
            else ""
        )
        return f" ({(clause + opposite_clause).removeprefix('; ')})"
    same_change = [
        part
        for part in same_direction
        if parts[part] is clearest or _has_same_change(parts[part], clearest)
    ]
    weaker = [part for part in same_direction if part not in same_change]
    clause = (
        f" ({_join_names(weaker)}, too{opposite_clause})"
        if weaker
        else f" ({opposite_clause[2:]})"
        if opposite_parts
        else ""
    )
    return f" for {_join_names(same_change)}{clause}"


def _has_same_change(first: Anomaly, other: Anomaly) -> bool:
    """Return whether two values changed by the same factor, as far as factors are known."""
    changes = [a.value / a.expected for a in (first, other) if a.value is not None and a.expected]
    finite = [change for change in changes if isfinite(change)]
    return len(finite) < 2 or abs(finite[0] - finite[1]) <= SAME_CHANGE_TOLERANCE * max(
        1.0, min(finite)
    )


def _departure(anomaly: Anomaly) -> tuple[float, float]:
    """Return an anomaly's distance from the expected value, then its score."""
    if anomaly.value is None or anomaly.expected is None:
        return 0.0, anomaly.score
    return abs(anomaly.value - anomaly.expected), anomaly.score


def _change_factor(anomalies: Sequence[Anomaly]) -> float | None:
    """Return the factor by which a count or sum of the whole table changed at its largest deviation."""
    anomaly = _clearest_anomaly(anomalies) if anomalies else None
    if (
        anomaly is None
        or anomaly.filter
        or anomaly.segment
        or anomaly.value is None
        or not anomaly.expected
    ):
        return None
    return anomaly.value / anomaly.expected


def _follows_volume(volume: float | None, anomalies: Sequence[Anomaly]) -> bool:
    """Return whether a sum or count changed by the same factor as the number of rows."""
    if (
        volume is None
        or not anomalies
        or (anomalies[0].scale != "count" and anomalies[0].name != "Sum")
    ):
        return False
    factor = _change_factor(anomalies)
    return factor is not None and _is_same_change(factor, volume)


def _is_same_change(first: float, second: float) -> bool:
    """Return whether two factors are the same change: closer to each other than to 1.

    Examples
    --------
    >>> _is_same_change(0.62, 0.63), _is_same_change(6.3, 6.2), _is_same_change(0.0, 0.0)
    (True, True, True)
    >>> _is_same_change(0.08, 0.16), _is_same_change(0.95, 0.86), _is_same_change(0.95, 1.04)
    (False, False, False)
    """
    apart = abs(first - second)
    change = min(abs(first - 1), abs(second - 1))
    return (
        apart <= SAME_CHANGE_TOLERANCE * min(first, second)
        and apart <= change
        and (first < 1) == (second < 1)
    )


def _describe_anomaly(anomaly: Anomaly) -> str:
    prefix = f"{anomaly.partition_name or 'the table'} "
    if anomaly.explanation.startswith(prefix):  # from a partition-level detector
        noun = "the partition" if anomaly.partition_name else "the table"
        clause = f"{noun} {anomaly.explanation.removeprefix(prefix).removesuffix('.')}"
        return (
            clause
            if len(clause) <= MAX_EXPLANATION_LENGTH
            else f"{clause[: MAX_EXPLANATION_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
        )
    value, expected = anomaly.value, anomaly.expected
    if value is None:
        return f"{anomaly.name} of {anomaly.instance} is not a number"
    subject = _METRIC_SUBJECTS.get(anomaly.name) or metric_text(anomaly.name, anomaly.instance)
    scale = written_scale(anomaly.name, anomaly.scale)
    if expected is None:
        return f"{subject} is {measured(value, scale)}"
    if anomaly.scale == "count" and expected > 0 and value / expected >= MIN_REPORTED_FACTOR:
        return f"{subject} {number(round(value / expected, 0))} times as high"
    if anomaly.scale == "count" and expected > 0:
        cause = f", {LOADED_TWICE}" if LOADED_TWICE in anomaly.explanation else ""
        return f"{subject} {percent_change(value, expected)}{cause}"
    return f"{subject} is {measured(value, scale)} instead of {measured(expected, scale)}"


def _describe_missing_values(anomalies: Sequence[Anomaly]) -> str:
    """Describe columns that lack values in the same number of rows."""
    if anomalies[0].value is None:
        return _describe_anomaly(anomalies[0])
    columns = [anomaly.instance for anomaly in anomalies]
    parts = (
        columns[: MAX_HEADLINE_METRICS + 1]
        if len(columns) <= MAX_HEADLINE_METRICS + 1
        else columns[:MAX_HEADLINE_METRICS]
    )
    if len(columns) > len(parts):
        parts.append(f"{len(columns) - MAX_HEADLINE_METRICS} more columns")
    names = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
    clause = f"{_format_range([1 - anomaly.value for anomaly in anomalies if anomaly.value is not None])} of rows have no {names}"
    usual = [1 - anomaly.expected for anomaly in anomalies if anomaly.expected is not None]
    return f"{clause} (usually {_format_range(usual)})" if usual else clause


def _format_range(shares: Sequence[float]) -> str:
    """Return the smallest and largest share; a single share if both are formatted alike.

    Examples
    --------
    >>> _format_range([0.19, 0.191]), _format_range([0.16, 0.17])
    ('19%', '16 to 17%')
    """
    low, high = percent(min(shares)), percent(max(shares))
    return high if low == high else f"{low.removesuffix('%')} to {high}"


def _part_name(anomaly: Anomaly) -> str:
    simple = _EQUALITY_FILTER.fullmatch(anomaly.filter)
    return " ".join(
        name for name in (simple[1] if simple else anomaly.filter, anomaly.segment) if name
    )


def _join_names(parts: Sequence[str], last: str = "and") -> str:
    names = list(parts[:MAX_HEADLINE_METRICS])
    if len(parts) > MAX_HEADLINE_METRICS:
        names.append(f"{len(parts) - MAX_HEADLINE_METRICS} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _format_time_span(anomalies: Sequence[Anomaly], step: timedelta | None, *, utc: bool) -> str:
    first, last = anomalies[0], anomalies[-1]
    if first.time is None or last.time is None:
        names = dict.fromkeys([first.partition_name, last.partition_name])
        return " to ".join(name or "the table" for name in names)
    return span(first.time, last.time, step) + (" UTC" if utc and step != ONE_DAY else "")
