"""Profiles of tables as HTML cards: one row for each column, with a picture of its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.formatting import Markup, number, plural
from tidegauge.display.html import Rows, card, heading, note, table
from tidegauge.repository.history.svg import svg

if TYPE_CHECKING:
    from tidegauge.profiler import Profile

WIDTH, HEIGHT = 120, 26
BARS = 12
"""Maximum number of bars of the most frequent values."""
_HEAD = ("column", "type", "not null", "distinct", "least", "greatest", "mean", "values", "")
_FEWEST = 0.5
"""Least height of a bar in pixels, so that a rare value is seen to be there."""


def render_profile(profile: Profile) -> str:
    """Return a profile as an HTML card."""
    return card(lambda rows, width: _pieces(profile, rows, width))


def _pieces(profile: Profile, most: int, width: int) -> Iterator[Markup]:
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
        drawn = picture([count for *_, count in buckets], "distribution from least to greatest")
        told = ""
    else:
        some = dict(list(common.items())[:BARS])
        drawn = picture(list(some.values()), "rows of the most frequent values") if some else ""
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


def picture(heights: Sequence[float], label: str) -> str:
    """Return bars as a small SVG, the highest as high as the picture.

    Examples
    --------
    >>> picture([1, 2], "two bars").count("M")
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
