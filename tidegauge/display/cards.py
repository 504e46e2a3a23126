"""Results as HTML cards: metrics, profiles, and what a repository knows.

A profile has one row for each column, with a picture of its values. Of a repository there are cards of its
datasets, drift, causes and incidents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.formatting import (
    DURATION,
    Markup,
    measured,
    number,
    plain,
    plural,
    signed_number,
)
from tidegauge.analyzers.core.metric import Composite, Failure, Interval, Metric, Success, Tabular
from tidegauge.display.html import Rows, card, heading, marked, note, pairs, sentence, table
from tidegauge.repository.distributions.stored import CATEGORICAL, NUMERIC
from tidegauge.repository.history.health import SEVERITY_COLUMNS, overview_rows
from tidegauge.repository.history.svg import PlotLine, bars, picture, svg, value_ticks
from tidegauge.repository.incidents.details import label_text

if TYPE_CHECKING:
    from tidegauge.profiler import Profile
    from tidegauge.repository.distributions.drift import Drifted
    from tidegauge.repository.incidents.causes import Causes
    from tidegauge.repository.incidents.contributions import ContributionPart
    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository


def render_metric(metric: Metric[Any]) -> str:
    """Return a metric as an HTML card: its value, keys or table, or the error."""
    return card(lambda rows, width: _metric_pieces(metric, rows, width))


def _metric_pieces(metric: Metric[Any], most: int, width: int) -> Iterator[Markup]:
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


WIDTH, HEIGHT = 120, 26
BARS = 12
"""Maximum number of bars of the most frequent values."""
_HEAD = ("column", "type", "not null", "distinct", "least", "greatest", "mean", "values", "")
_FEWEST = 0.5
"""Least height of a bar in pixels, so that a rare value is seen to be there."""


def render_profile(profile: Profile) -> str:
    """Return a profile as an HTML card."""
    return card(lambda rows, width: _profile_pieces(profile, rows, width))


def _profile_pieces(profile: Profile, most: int, width: int) -> Iterator[Markup]:
    yield heading("Profile of", profile.table or profile.suite.dataset)
    found = profile.columns.astype(object).to_dict("records")
    lines = [_line(row, profile.buckets(str(row["column"]))) for row in found]
    yield table(_HEAD, Rows.first_of(lines, most), width)
    told = f"{plural(profile.rows, 'row')} sampled; {plural(len(profile.choices), 'analyzer')} proposed: to_yaml(), suite"
    yield note(told, width)


def _line(row: Mapping[Any, Any], buckets: Sequence[tuple[float, float, float]]) -> tuple[Any, ...]:
    """Return a row of the table: the statistics of a column, a picture, and what it shows."""
    share = row["completeness"]
    common = row["top_values"] if isinstance(row["top_values"], Mapping) else {}
    low, high = (
        _first(row[name] for name in names)
        for names in (("minimum", "min_time"), ("maximum", "max_time"))
    )
    if buckets:
        drawn = values_picture(
            [count for *_, count in buckets], "distribution from least to greatest"
        )
        told = ""
    else:
        some = dict(list(common.items())[:BARS])
        drawn = (
            values_picture(list(some.values()), "rows of the most frequent values") if some else ""
        )
        told = ", ".join(str(value) for value in some)
    known = "" if share is None or share != share else f"{number(100 * share)} %"  # noqa: PLR0124
    return (
        row["column"],
        row["type"],
        known,
        row["distinct"],
        low,
        high,
        row["mean"],
        Markup(drawn),
        told,
    )


def _first(values: Iterable[Any]) -> Any:
    """Return the first value that is neither None nor NaN."""
    return next((value for value in values if value is not None and value == value), None)  # noqa: PLR0124


def values_picture(heights: Sequence[float], label: str) -> str:
    """Return bars as a small SVG, the highest as high as the picture.

    Examples
    --------
    >>> values_picture([1, 2], "two bars").count("M")
    2
    """
    top = max(heights, default=0) or 1
    step = WIDTH / max(len(heights), 1)
    bars = "".join(
        f"M{i * step:.1f},{HEIGHT}v-{max(HEIGHT * h / top, _FEWEST):.1f}h{step - 1:.1f}V{HEIGHT}"
        for i, h in enumerate(heights)
        if h > 0
    )
    return svg(WIDTH, HEIGHT, [f'<path d="{bars}" fill="#0072b2"/>'], label)


_DISTANCES = {
    NUMERIC: ("psi", "js", "ks", "ks_significant", "wasserstein", "wasserstein_iqr"),
    CATEGORICAL: ("psi", "js", "unseen", "lost", "l_infinity", "chi_square_p"),
}
DATASET_COLUMNS = (
    "dataset",
    "partitions",
    "newest",
    "rows",
    "series",
    "open incidents",
    "failing checks",
    "last run",
)
_DIMENSIONS = 2
"""Dimensions shown for each metric that moved."""


def render_repository(repository: Repository) -> str:
    """Return a repository as a table of its datasets."""
    with repository.database.read() as connection:
        rows = overview_rows(connection)
    return render_datasets(repository.database.name, rows)


def render_datasets(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a repository's name and its overview rows as a table."""
    return card(lambda most, width: _repository(name, rows, most, width))


def _repository(
    name: str, rows: Sequence[Mapping[str, Any]], most: int, width: int
) -> Iterator[Markup]:
    yield heading("Repository", name)
    if not rows:
        yield note(
            "It is empty. tg.analyze(table, suite, repository=repo) measures a table into it."
        )
        return
    cells = (dataset_cells(row, marked) for row in rows)
    yield table(DATASET_COLUMNS, Rows.first_of(cells, most, len(rows)), width)


def dataset_cells(
    row: Mapping[str, Any], render_word: Callable[[str], str] = str
) -> tuple[Any, ...]:
    """Return the cells of `DATASET_COLUMNS` of an overview row.

    Parameters
    ----------
    row : mapping
        As of `overview_rows`.
    render_word : callable
        Renders severities and statuses; a function that returns `Markup` makes HTML of their cells.

    Examples
    --------
    >>> counts = {"partitions": 3, "rows": 90, "series": 2, "errors": 1, "warnings": 0, "infos": 2}
    >>> row = {"dataset": "shop", "newest": "ds=2013-01-03", **counts, "failing": 0, "status": None}
    >>> dataset_cells(row)
    ('shop', 3, 'ds=2013-01-03', 90, 2, '1 error, 2 info', 'none', '')
    """
    words = {severity: render_word(severity) for severity in SEVERITY_COLUMNS.values()}
    incidents = ", ".join(
        f"{row[column]} {words[severity]}"
        for column, severity in SEVERITY_COLUMNS.items()
        if row[column]
    )
    return (
        *(row[name] for name in ("dataset", "partitions", "newest", "rows", "series")),
        type(words["error"])(incidents or "none"),
        row["failing"] or "none",
        render_word(row["status"] or ""),
    )


def render_drift(drifted: Drifted) -> str:
    """Return a drift as its distances and both distributions: quantile curves, or bars of categories."""
    return card(lambda most, width: _drift(drifted, most, width))


def _drift(found: Drifted, most: int, width: int) -> Iterator[Markup]:
    among = [text for text in (found.segment, found.where and f"where {found.where}") if text]
    yield heading(Markup("Drift of"), found.column, Markup("of"), found.dataset, *among, most=width)
    sides = (
        ("baseline", found.baseline, found.baseline_rows),
        ("current", found.current, found.current_rows),
    )
    titles = [
        f"{side}: {plain(name, width)}, {plural(rows, 'value')}" for side, name, rows in sides
    ]
    yield pairs([(name, getattr(found, name)) for name in _DISTANCES[found.kind]], width)
    values = (found.baseline_values, found.current_values)
    if found.kind == CATEGORICAL:
        shown = [str(name) for name in found.axis[: max(2, most // 2)]]
        yield Markup(bars(shown, list(zip(titles, values, strict=True))))
        return
    inner = slice(1, -1)  # the tails would press the rest flat
    ranks = [float(rank) for rank in found.axis[inner]]
    curves = [PlotLine(t, ranks, v[inner]) for t, v in zip(titles, values, strict=True)]
    yield Markup(picture(curves, partial(value_ticks, percent=True), together=True))
    yield note("The value that each share of rows does not exceed, without the outermost 1 %.")


def render_causes(causes: Causes) -> str:
    """Return causes as a table of parts for each metric that moved, and the series that moved along."""
    return card(lambda most, width: _causes(causes, most, width))


def _causes(causes: Causes, most: int, width: int) -> Iterator[Markup]:
    for move in causes.moves:
        yield sentence(str(move), 8 * width)
        for dimension in move.dimensions[:_DIMENSIONS]:
            rows = [
                (part.name, *_amounts(part, dimension.scale), f"{100 * part.share:.0f} %")
                for part in dimension.parts
            ]
            head = [dimension.name, "value", "expected", "change", "share of the change"]
            yield table(head, Rows.first_of(rows, max(2, most // 8)), width)
    for companion in causes.companions[: max(2, most // 4)]:
        yield sentence(str(companion), 8 * width)
    for cause in (*causes.restated, *causes.schema):
        yield sentence(str(cause), 8 * width)
    if not causes:
        yield note("No cause is known: no parts of this metric are measured.")


def _amounts(part: ContributionPart, scale: str) -> tuple[Any, ...]:
    """Return the value, expectation and change of a part; of a ratio in per cent and points."""
    if scale not in {"ratio", DURATION}:
        return part.value, part.expected, part.change
    value, expected = (Markup(measured(one, scale)) for one in (part.value, part.expected))
    if scale == DURATION:
        return value, expected, Markup(measured(part.change, scale))
    return value, expected, Markup(f"{signed_number(100 * part.change)} points")


def render_incident(details: IncidentDetails) -> str:
    """Return an incident with its first anomalies, causes and labels."""
    return card(lambda most, width: _incident(details, most, width))


def _incident(details: IncidentDetails, most: int, width: int) -> Iterator[Markup]:
    row = details.row
    yield heading(Markup(f"Incident {details.id} of"), details.dataset)
    yield sentence(row["headline"], 8 * width)
    ends = dict.fromkeys([row["first"], row["last"]])
    facts = [
        ("severity", marked(row["severity"])),
        ("status", marked(row["status"])),
        ("partitions", " to ".join(end or "the table" for end in ends)),
        ("series", row["series"]),
    ]
    yield pairs(facts, width)
    if details.closing_note is not None:
        yield sentence(details.closing_note, 8 * width)
    if details.group is not None:
        yield sentence(f"One of a group, {details.group.headline}.", 8 * width)
    texts = [(sentence(text, 4 * width),) for text in details.firsts["explanation"]]
    if texts:
        yield table(["First anomalies"], Rows.first_of(texts, max(2, most // 4)), width)
    if details.causes:
        yield heading(Markup("Causes"))
        yield from _causes(details.causes, most // 2, width)
    labels = [
        (sentence(label_text(label), 4 * width),) for label in details.labels.to_dict("records")
    ]
    if labels:
        yield table(["Labels"], Rows.first_of(labels, max(2, most // 4)), width)
    yield note(f"repo.label({details.id}, 'acknowledged', note=...) adds a label")
