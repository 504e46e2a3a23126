"""Series to draw, and small static SVG drawings that need no package: sparklines and plain charts.

Plain charts are for pages without Altair; `charts` draws everything else.

Drawings are self-contained: they need no script, style sheet or font. Lines and text have the color of
the page or a color that is readable on light and dark pages, also for color-blind readers. Names are
untrusted input and are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING, Any, Final

from tidegauge.analyzers.core.formatting import escaped, number

if TYPE_CHECKING:
    from tidegauge.repository.store.rows import PlotRow

LINE_COLORS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#b0578d"),
    *("#8a6d00", "#2b88c9", "#767676", "#9b5fc0"),
)
"""Colors of lines, after Okabe and Ito; equal to the light ``--tg-line-1`` to ``-8`` in widgets/src/ui/tokens.css.

Each has a contrast of at least 3 on a white and on a nearly black page (WCAG 2.2, 1.4.11).
"""
ANOMALY_COLOR = "#d0433a"
_WIDTH, _PANEL_HEIGHT, _LINE_HEIGHT, _LEFT_MARGIN = 900, 110, 17, 76
_MAX_POINTS, _MAX_EXPLANATIONS = 1000, 30
_MAX_TITLE_LENGTH, _MAX_EXPLANATION_LENGTH = 110, 240
_SPARKLINE_HEIGHT, _SPARKLINE_POINTS = 22, 100


@dataclass(frozen=True)
class PlottedSeries:
    """A series to draw.

    Attributes
    ----------
    row : mapping
        The series: name, instance, segment, filter, analyzer and scale.
    points : sequence of mapping
        Points in order, with a point for each partition between the first and the last.
    revisions : sequence of mapping
        Rows of `Repository.restatements`.
    """

    row: Mapping[str, Any]
    points: Sequence[PlotRow]
    revisions: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class PlotData:
    """Series of a dataset to draw, with their expected ranges, anomalies, labels and revisions.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    series : sequence of PlottedSeries
        Series to draw; empty if there is no value in the window.
    timed : bool
        True if the horizontal axis shows time; False if it shows the partitions in order.
    partitions : sequence of str
        Names of the partitions in order.
    ranges : sequence of mapping
        Labels of ranges of time, as rows of `Repository.labels`.
    empty : str
        Sentence to show if there are no series.
    """

    dataset: str
    series: Sequence[PlottedSeries]
    timed: bool = True
    partitions: Sequence[str] = ()
    ranges: Sequence[Mapping[str, Any]] = ()
    empty: str = ""


@dataclass(frozen=True)
class PlainLine:
    """A series of a plain chart. All its sequences have the length of ``values``.

    Attributes
    ----------
    title : str
        Text above the panel.
    values : sequence of float
        Values in order; NaN or infinite if missing.
    lower, upper : sequence of float
        Expected range, NaN or infinite if unknown; empty if it is unknown at all points.
    names : sequence of str
        Names of the points; the first and the last are shown.
    anomalies : mapping of int to pair of bool and str
        Whether the point at an index is too high, and an explanation that is shown as a tooltip.
    percent : bool
        True if values are shares.
    """

    title: str
    values: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()
    names: Sequence[str] = ()
    anomalies: Mapping[int, tuple[bool, str]] = field(default_factory=dict)
    percent: bool = False


def value_range(
    values: Iterable[float], lower: Iterable[float] = (), upper: Iterable[float] = ()
) -> tuple[float, float]:
    """Return the plotted range of values; a band that is much wider than the values is clipped.

    Examples
    --------
    >>> value_range([10.0, 20.0], [-1e9], [22.0]), value_range([float("nan")])
    ((5.0, 22.0), (0.0, 1.0))
    """
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    margin = high / 2 - low / 2 or abs(high) / 10 or 1.0
    band_low = min((bound for bound in lower if isfinite(bound)), default=low)
    band_high = max((bound for bound in upper if isfinite(bound)), default=high)
    low, high = min(low, max(band_low, low - margin)), max(high, min(band_high, high + margin))
    return (low, high) if high > low else (low - margin, high + margin)


def thinned(values: Sequence[float], kept: Iterable[int], max_points: int) -> list[int]:
    """Return the indices of points to draw: the extremes and one gap of each stretch, and some others.

    Parameters
    ----------
    values : sequence of float
        Values in order; NaN or infinite if missing.
    kept : iterable of int
        Indices of points to draw in any case, the most important first; at most half of ``max_points``.
    max_points : int
        Maximum number of points, at least 8.

    Examples
    --------
    >>> thinned([0, 5, 1, 2, 9, 3, 4, 4, 4, 4], [6], 8)
    [0, 4, 5, 6]
    """
    count = len(values)
    if count <= max_points:
        return list(range(count))
    indices = set(list(dict.fromkeys(kept))[: max_points // 2])
    # Each stretch adds up to three points.
    stretches = max(1, (max_points - len(indices)) // 3)
    length = ceil(count / stretches)
    for start in range(0, count, length):
        stretch = range(start, min(start + length, count))
        finite = [n for n in stretch if isfinite(values[n])]
        if finite:
            indices |= {
                min(finite, key=values.__getitem__),
                max(finite, key=values.__getitem__),
            }
        if len(finite) < len(stretch):
            indices.add(next(n for n in stretch if not isfinite(values[n])))
    return sorted(indices)


def svg(width: int, height: int, parts: Iterable[str], label: str) -> str:
    """Wrap parts in an SVG element with an accessible label.

    Parameters
    ----------
    width, height : int
        Size in pixels.
    parts : iterable of str
        SVG elements.
    label : str
        Description for screen readers; escaped and shortened here.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="{escaped(label, 400)}" fill="currentColor"'
        f' font-family="system-ui,sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def plain_chart(lines: Sequence[PlainLine]) -> str:
    """Draw each line in a panel of its own, with its band, its anomalies and the ends of its axes.

    Parameters
    ----------
    lines : sequence of PlainLine
        At least one.
    """
    parts: list[str] = []
    for n, line in enumerate(lines):
        parts += _panel(line, n * (_PANEL_HEIGHT + 2 * _LINE_HEIGHT + 6) + _LINE_HEIGHT)
    height = len(lines) * (_PANEL_HEIGHT + 2 * _LINE_HEIGHT + 6)
    return svg(_WIDTH, height, parts, "; ".join(line.title for line in lines))


def _panel(line: PlainLine, top: int) -> Iterator[str]:
    bottom, right = top + _PANEL_HEIGHT, _WIDTH - 14
    ends = value_range(line.values, line.lower, line.upper)
    x, y = (
        _scale((0, max(len(line.values) - 1, 1)), (_LEFT_MARGIN, right)),
        _scale(ends, (bottom - 3, top + 6)),
    )
    indices = thinned(line.values, line.anomalies, _MAX_POINTS)
    title = escaped(line.title, _MAX_TITLE_LENGTH)
    yield f'<text x="{_LEFT_MARGIN}" y="{top - 4}" font-weight="600">{title}</text>'
    for value, baseline in zip(ends, (bottom, top + 10), strict=True):
        text = f"{number(100 * value)}%" if line.percent else number(value)
        yield f'<text x="{_LEFT_MARGIN - 8}" y="{baseline}" text-anchor="end" opacity=".75">{text}</text>'
    if line.names:
        for name, end, anchor in (
            (line.names[0], _LEFT_MARGIN, "start"),
            (line.names[-1], right, "end"),
        ):
            yield (
                f'<text x="{end}" y="{bottom + 16}" text-anchor="{anchor}" opacity=".75">'
                f"{escaped(name, 24)}</text>"
            )
    if line.lower or line.upper:
        area = _band(line, indices, x, y, ends)
        yield f'<path d="{area}" fill="{LINE_COLORS[0]}" opacity=".18"/>'
    curve = path([(x(n), y(line.values[n])) for n in indices])
    yield f'<path d="{curve}" fill="none" stroke="{LINE_COLORS[0]}" stroke-width="1.5" stroke-linecap="round"/>'
    for n, (high, explanation) in list(line.anomalies.items())[:_MAX_EXPLANATIONS]:
        value, sign = line.values[n], -1 if high else 1
        height = y(value) if isfinite(value) else bottom - 12
        shape = f"M{x(n):.1f},{height + 5 * sign:.1f}l5,{-9 * sign}h-10z"
        tooltip = escaped(explanation, _MAX_EXPLANATION_LENGTH)
        yield f'<path d="{shape}" fill="{ANOMALY_COLOR}"><title>{tooltip}</title></path>'


def _scale(values: tuple[float, float], pixels: tuple[float, float]) -> Callable[[float], float]:
    """Return a linear scale from values to pixels; NaN and infinite values are NaN."""
    (low, high), (start, end) = values, pixels

    def pixel(value: float) -> float:
        if not isfinite(value):
            return nan
        fraction = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves, so that these are finite
        return start + min(max(fraction, 0.0), 1.0) * (end - start)

    return pixel


def path(points: Iterable[tuple[float, float]]) -> str:
    """Return a line through points as SVG path data. A point with NaN interrupts the line.

    Examples
    --------
    >>> path([(0, 3), (10, float("nan")), (20, 1), (30, 0)])
    'M0,3h0M20,1L30,0'
    """
    runs: list[list[str]] = [[]]
    for x, y in points:
        if isfinite(y):
            runs[-1].append(f"{x:.4g},{y:.4g}")
        elif runs[-1]:
            runs.append([])
    # h0 is a dot.
    return "".join(f"M{'L'.join(run)}{'h0' if len(run) == 1 else ''}" for run in runs if run)


def _band(
    line: PlainLine,
    indices: Sequence[int],
    x: Callable[[float], float],
    y: Callable[[float], float],
    ends: tuple[float, float],
) -> str:
    """Return the expected range as SVG path data. Without a bound, it extends to the edge."""
    runs: list[list[tuple[float, float, float]]] = [[]]
    for n in indices:
        lower, upper = (bounds[n] if bounds else nan for bounds in (line.lower, line.upper))
        if isfinite(lower) or isfinite(upper):
            low, high = (
                bound if isfinite(bound) else end
                for bound, end in zip((lower, upper), ends, strict=True)
            )
            runs[-1].append((x(n), y(low), y(high)))
        elif runs[-1]:
            runs.append([])
    outlines = (
        [*((at, high) for at, _, high in run), *((at, low) for at, low, _ in reversed(run))]
        for run in runs
        if run
    )
    return "".join(f"{path(outline)}z" for outline in outlines)


def sparkline(values: Sequence[float], marks: Iterable[int] = (), width: int = 130) -> str:
    """Draw a series without axes, with anomalies as dots.

    Parameters
    ----------
    values : sequence of float
        Values in order; NaN or infinite if missing.
    marks : iterable of int
        Indices of anomalies.
    width : int
        Width in pixels.
    """
    x = _scale((0, max(len(values) - 1, 1)), (4, width - 4))
    y = _scale(value_range(values), (_SPARKLINE_HEIGHT - 4, 4))
    curve = path((x(n), y(values[n])) for n in thinned(values, (), _SPARKLINE_POINTS))
    dots = "".join(path([(x(n), y(values[n]))]) for n in marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_SPARKLINE_HEIGHT}" width="{width}"'
        f' height="{_SPARKLINE_HEIGHT}" aria-hidden="true" fill="none" stroke-linecap="round">'
        f'<path d="{curve}" stroke="currentColor" stroke-width="1.2"/>'
        f'<path d="{dots}" stroke="{ANOMALY_COLOR}" stroke-width="4"/></svg>'
    )
