"""HTML cards of results for notebooks: metrics, profiles, datasets, drift, causes and incidents.

The card of a profile has one row for each column, with a picture of the column's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
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
from tidegauge.repository.distributions.stored import CATEGORICAL_KIND, NUMERIC_KIND
from tidegauge.repository.history.health import SEVERITY_COLUMNS, overview_rows
from tidegauge.repository.history.series import has_charts
from tidegauge.repository.history.svg import LINE_COLORS, svg
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
    return card(lambda rows, width: _render_metric_parts(metric, rows, width))


def _render_metric_parts(metric: Metric[Any], max_rows: int, width: int) -> Iterator[Markup]:
    """Yield the HTML fragments of a metric's notebook display."""
    subject = () if metric.instance == "*" else (Markup("of"), metric.instance)
    yield heading(metric.name, *subject)
    interval = metric.interval if isinstance(metric.interval, Interval) else None
    match metric.outcome:
        case Failure(error):
            yield Markup(f"<p>{marked('empty' if metric.empty else 'failed')}</p>")
            yield sentence(error)
        case Success(Mapping() as keyed):
            intervals = metric.interval if isinstance(metric.interval, Mapping) else {}
            lines = (
                (key, value, _format_interval(intervals.get(key))) for key, value in keyed.items()
            )
            columns = ["key", "value", "exact value in"] if intervals else ["key", "value"]
            rows = Rows.first_of(lines, max_rows, len(keyed))
            yield table(
                columns, Rows([row[: len(columns)] for row in rows.first], (), rows.between), width
            )
        case Success(Tabular() as value):
            head, count, parts = value.tabulated()
            yield table(head, Rows.first_of(parts, max_rows, count), width)
        case Success(Composite() as value):
            yield table(["key", "value"], Rows.first_of(list(value.scalars()), max_rows), width)
        case Success(value):
            yield pairs([("value", value)], width)
    yield pairs([("exact value in", _format_interval(interval)), ("rows", metric.weight)], width)
    yield note(f"about: {metric.entity.value.lower()}", width)


def _format_interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    text = f"{number(interval.lower)} to {number(interval.upper)}"
    return f"{text} ({100 * interval.confidence:.4g}%)"


PICTURE_WIDTH, PICTURE_HEIGHT = 120, 26
MAX_BARS = 12
"""Maximum number of bars in a picture of the most frequent values."""
_PROFILE_COLUMNS = (
    "column",
    "type",
    "not null",
    "distinct",
    "minimum",
    "maximum",
    "mean",
    "values",
    "",
)
_MIN_BAR_HEIGHT = 0.5
"""Minimum height of a bar in pixels, so that rare values are visible."""


def render_profile(profile: Profile) -> str:
    """Return a profile as an HTML card."""
    return card(lambda rows, width: _render_profile_parts(profile, rows, width))


def _render_profile_parts(profile: Profile, max_rows: int, width: int) -> Iterator[Markup]:
    yield heading("Profile of", profile.table or profile.suite.dataset)
    columns = profile.columns.astype(object).to_dict("records")
    lines = [_profile_row(row, profile.buckets(str(row["column"]))) for row in columns]
    yield table(_PROFILE_COLUMNS, Rows.first_of(lines, max_rows), width)
    summary = f"{plural(profile.rows, 'row')} sampled; {plural(len(profile.choices), 'analyzer')} proposed; see to_yaml() and suite"
    yield note(summary, width)


def _profile_row(
    row: Mapping[Any, Any], buckets: Sequence[tuple[float, float, float]]
) -> tuple[Any, ...]:
    """Return the table row of a column: its statistics, a picture, and the values of the picture's bars."""
    share = row["completeness"]
    counts_by_value = row["top_values"] if isinstance(row["top_values"], Mapping) else {}
    low, high = (
        _first_value(row[name] for name in names)
        for names in (("minimum", "min_time"), ("maximum", "max_time"))
    )
    if buckets:
        drawn = values_picture(
            [count for *_, count in buckets], "distribution from minimum to maximum"
        )
        values_text = ""
    else:
        most_frequent = dict(list(counts_by_value.items())[:MAX_BARS])
        drawn = (
            values_picture(list(most_frequent.values()), "rows of the most frequent values")
            if most_frequent
            else ""
        )
        values_text = ", ".join(str(value) for value in most_frequent)
    not_null = "" if share is None or share != share else f"{number(100 * share)}%"  # noqa: PLR0124
    return (
        row["column"],
        row["type"],
        not_null,
        row["distinct"],
        low,
        high,
        row["mean"],
        Markup(drawn),
        values_text,
    )


def _first_value(values: Iterable[Any]) -> Any:
    """Return the first value that is neither None nor NaN."""
    return next((value for value in values if value is not None and value == value), None)  # noqa: PLR0124


def values_picture(heights: Sequence[float], label: str) -> str:
    """Return bars as a small SVG; the highest bar has the height of the picture.

    Examples
    --------
    >>> values_picture([1, 2], "two bars").count("M")
    2
    """
    top = max(heights, default=0) or 1
    step = PICTURE_WIDTH / max(len(heights), 1)
    bars = "".join(
        f"M{i * step:.1f},{PICTURE_HEIGHT}v-{max(PICTURE_HEIGHT * h / top, _MIN_BAR_HEIGHT):.1f}h{step - 1:.1f}V{PICTURE_HEIGHT}"
        for i, h in enumerate(heights)
        if h > 0
    )
    return svg(
        PICTURE_WIDTH, PICTURE_HEIGHT, [f'<path d="{bars}" fill="{LINE_COLORS[0]}"/>'], label
    )


_DISTANCE_NAMES = {
    NUMERIC_KIND: ("psi", "js", "ks", "ks_significant", "wasserstein", "wasserstein_iqr"),
    CATEGORICAL_KIND: ("psi", "js", "unseen", "lost", "l_infinity", "chi_square_p"),
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
_MAX_DIMENSIONS = 2
"""Maximum number of dimensions shown for each metric that changed."""


def render_repository(repository: Repository) -> str:
    """Return a repository as a table of its datasets."""
    with repository.database.read() as connection:
        rows = overview_rows(connection)
    return render_datasets(repository.database.name, rows)


def render_datasets(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a repository's name and its overview rows as a table."""
    return card(lambda max_rows, width: _render_dataset_parts(name, rows, max_rows, width))


def _render_dataset_parts(
    name: str, rows: Sequence[Mapping[str, Any]], max_rows: int, width: int
) -> Iterator[Markup]:
    yield heading("Repository", name)
    if not rows:
        yield note(
            "The repository is empty. Measure a table with tg.analyze(table, suite, repository=repo)."
        )
        return
    cells = (dataset_cells(row, marked) for row in rows)
    yield table(DATASET_COLUMNS, Rows.first_of(cells, max_rows, len(rows)), width)


def dataset_cells(
    row: Mapping[str, Any], render_word: Callable[[str], str] = str
) -> tuple[Any, ...]:
    """Return the cells of `DATASET_COLUMNS` of an overview row.

    Parameters
    ----------
    row : mapping
        A row as `overview_rows` returns it.
    render_word : callable
        Renders severities and statuses. If it returns `Markup`, their cells are HTML.

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
    """Return the card of a drift: its distances and both distributions, as quantile curves or bars of categories."""
    return card(lambda max_rows, width: _render_drift_parts(drifted, max_rows, width))


def _render_drift_parts(drift: Drifted, max_rows: int, width: int) -> Iterator[Markup]:
    filters = [text for text in (drift.segment, drift.where and f"where {drift.where}") if text]
    yield heading(
        Markup("Drift of"), drift.column, Markup("of"), drift.dataset, *filters, max_length=width
    )
    sides = (
        ("baseline", drift.baseline, drift.baseline_rows),
        ("current", drift.current, drift.current_rows),
    )
    titles = [
        f"{side}: {plain(name, width)}, {plural(rows, 'value')}" for side, name, rows in sides
    ]
    yield pairs([(name, getattr(drift, name)) for name in _DISTANCE_NAMES[drift.kind]], width)
    values = (drift.baseline_values, drift.current_values)
    points = dict(zip(titles, values, strict=True))
    if drift.kind == CATEGORICAL_KIND:
        categories = [str(name) for name in drift.axis[: max(2, max_rows // 2)]]
        yield _render_categories(categories, points, width)
    else:
        yield _render_quantiles([float(rank) for rank in drift.axis], points, width)


def _render_categories(
    categories: Sequence[str], shares: Mapping[str, Sequence[float]], width: int
) -> Markup:
    """Return shares of categories as a chart, or as a table where Altair is not installed."""
    if not has_charts():
        rows = [
            (name, *(f"{number(100 * side[n])}%" for side in shares.values()))
            for n, name in enumerate(categories)
        ]
        return table(["category", *shares], Rows.first_of(rows, len(rows)), width)
    from tidegauge.repository.history.charts import bars_chart, svg_of

    bars = [
        {"side": side, "category": plain(name, width), "share": values[n]}
        for n, name in enumerate(categories)
        for side, values in shares.items()
        if isfinite(values[n])
    ]
    return Markup(svg_of(bars_chart(bars, list(shares), width=480)))


def _render_quantiles(
    ranks: Sequence[float], values: Mapping[str, Sequence[float]], width: int
) -> Markup:
    """Return quantiles as a chart without the extremes, or as a table where Altair is not installed."""
    if not has_charts():
        rows = [
            (f"{100 * ranks[n]:.0f}%", *(side[n] for side in values.values()))
            for n in range(0, len(ranks), max(1, len(ranks) // 10))
        ]
        return table(["rank", *values], Rows.first_of(rows, len(rows)), width)
    from tidegauge.repository.history.charts import quantiles_chart, svg_of

    inner = slice(1, -1)  # the extremes would flatten the rest of the curve
    curves = {name: side[inner] for name, side in values.items()}
    chart = svg_of(quantiles_chart(ranks[inner], curves))
    caption = "Quantiles: the value that each share of rows does not exceed. The lowest and highest 1% are omitted."
    return Markup(chart + note(caption))


def render_causes(causes: Causes) -> str:
    """Return the card of causes: a table of parts for each metric that changed, and related series."""
    return card(lambda max_rows, width: _render_cause_parts(causes, max_rows, width))


def _render_cause_parts(causes: Causes, max_rows: int, width: int) -> Iterator[Markup]:
    for move in causes.moves:
        yield sentence(str(move), 8 * width)
        for dimension in move.dimensions[:_MAX_DIMENSIONS]:
            rows = [
                (part.name, *_format_amounts(part, dimension.scale), f"{100 * part.share:.0f}%")
                for part in dimension.parts
            ]
            head = [dimension.name, "value", "expected", "change", "share of the change"]
            yield table(head, Rows.first_of(rows, max(2, max_rows // 8)), width)
    for companion in causes.companions[: max(2, max_rows // 4)]:
        yield sentence(str(companion), 8 * width)
    for cause in (*causes.restated, *causes.schema):
        yield sentence(str(cause), 8 * width)
    if not causes:
        yield note("No cause is known, because no parts of this metric are measured.")
    for text in causes.unmeasured:
        yield sentence(text, 8 * width)


def _format_amounts(part: ContributionPart, scale: str) -> tuple[Any, ...]:
    """Return the value, expectation and change of a part; for ratios, percentages and percentage points."""
    if scale not in {"ratio", DURATION}:
        return part.value, part.expected, part.change
    value, expected = (Markup(measured(amount, scale)) for amount in (part.value, part.expected))
    if scale == DURATION:
        return value, expected, Markup(measured(part.change, scale))
    return value, expected, Markup(f"{signed_number(100 * part.change)} points")


def render_incident(details: IncidentDetails) -> str:
    """Return the card of an incident: its first anomalies, causes and labels."""
    return card(lambda max_rows, width: _render_incident_parts(details, max_rows, width))


def _render_incident_parts(details: IncidentDetails, max_rows: int, width: int) -> Iterator[Markup]:
    row = details.row
    yield heading(Markup(f"Incident {details.id} of"), details.dataset)
    yield sentence(row["headline"], 8 * width)
    partitions = dict.fromkeys([row["first"], row["last"]])
    facts = [
        ("severity", marked(row["severity"])),
        ("status", marked(row["status"])),
        ("partitions", " to ".join(end or "the table" for end in partitions)),
        ("series", row["series"]),
    ]
    yield pairs(facts, width)
    if details.closing_note is not None:
        yield sentence(details.closing_note, 8 * width)
    if details.group is not None:
        yield sentence(f"Part of a group: {details.group.headline}.", 8 * width)
    explanations = [(sentence(text, 4 * width),) for text in details.firsts["explanation"]]
    if explanations:
        yield table(["First anomalies"], Rows.first_of(explanations, max(2, max_rows // 4)), width)
    if details.causes or details.causes.unmeasured:
        yield heading(Markup("Causes"))
        yield from _render_cause_parts(details.causes, max_rows // 2, width)
    labels = [
        (sentence(label_text(label), 4 * width),) for label in details.labels.to_dict("records")
    ]
    if labels:
        yield table(["Labels"], Rows.first_of(labels, max(2, max_rows // 4)), width)
    yield note(f"To add a label: repo.label({details.id}, 'acknowledged', note=...)")
