"""Metrics as HTML cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegauge.analyzers.core.formatting import Markup, number
from tidegauge.analyzers.core.metric import Composite, Failure, Interval, Metric, Success, Tabular
from tidegauge.display.html import Rows, card, heading, marked, note, pairs, sentence, table


def render_metric(metric: Metric[Any]) -> str:
    """Return a metric as an HTML card: its value, keys or table, or the error."""
    return card(lambda rows, width: _pieces(metric, rows, width))


def _pieces(metric: Metric[Any], most: int, width: int) -> Iterator[Markup]:
    """Yield the HTML fragments of a metric's notebook display."""
    of = () if metric.instance == "*" else (Markup("of"), metric.instance)
    yield heading(metric.name, *of)
    interval = metric.interval if isinstance(metric.interval, Interval) else None
    match metric.outcome:
        case Failure(error):
            yield Markup(f"<p>{marked('empty' if metric.empty else 'failed')}</p>")
            yield sentence(error)
        case Success(Mapping() as keyed):
            of_key = metric.interval if isinstance(metric.interval, Mapping) else {}
            lines = ((key, value, _bounds(of_key.get(key))) for key, value in keyed.items())
            columns = ["key", "value", "exactly in"] if of_key else ["key", "value"]
            rows = Rows.first_of(lines, most, len(keyed))
            yield table(
                columns, Rows([row[: len(columns)] for row in rows.first], (), rows.between), width
            )
        case Success(Tabular() as value):
            head, count, parts = value.tabulated()
            yield table(head, Rows.first_of(parts, most, count), width)
        case Success(Composite() as value):
            yield table(["key", "value"], Rows.first_of(list(value.scalars()), most), width)
        case Success(value):
            yield pairs([("value", value)], width)
    yield pairs([("exactly in", _bounds(interval)), ("rows behind it", metric.weight)], width)
    yield note(f"about: {metric.entity.value.lower()}", width)


def _bounds(interval: Interval | None) -> str:
    if interval is None:
        return ""
    text = f"{number(interval.lower)} to {number(interval.upper)}"
    return f"{text} ({100 * interval.confidence:.4g} %)"
