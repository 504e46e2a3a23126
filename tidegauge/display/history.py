"""Results of a repository as HTML cards: the repository itself, drift, causes, incidents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.formatting import (
    DURATION,
    Markup,
    measured,
    plain,
    plural,
    signed_number,
)
from tidegauge.display.html import Rows, card, heading, marked, note, pairs, sentence, table
from tidegauge.repository.distributions.stored import CATEGORICAL, NUMERIC
from tidegauge.repository.history.axes import value_ticks
from tidegauge.repository.history.overview import SEVERITY_COLUMNS, overview_rows
from tidegauge.repository.history.panels import PlotLine
from tidegauge.repository.history.svg import bars, picture
from tidegauge.repository.incidents.details import label_text

if TYPE_CHECKING:
    from tidegauge.repository.distributions.drift import Drifted
    from tidegauge.repository.incidents.causes import Causes
    from tidegauge.repository.incidents.contributions import ContributionPart
    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository

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
