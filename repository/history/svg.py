"""Static SVG charts of series: values, expected bands and anomalies. Pure.

Charts are self-contained: they need no script, style sheet or font. A line has the color of the
page or a color of the Okabe-Ito palette, which works on light and dark backgrounds and for color-blind
readers. Anomalies are also marked by shape. Names are untrusted input and are escaped.

An `Axis` scales values to pixels and has ticks for values, times or names. `panels_of` groups lines
with similar value ranges into panels. If a line has more points than a panel can show, it is thinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, datetime, timedelta
from math import ceil, floor, inf, isfinite, log10, nan
from typing import Final

from tidegauge.analyzers.core.formatting import LARGEST_CARD, escaped, number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_SECONDS, _HOUR_SECONDS, _DAY_SECONDS = 60, 3600, 86400
_TICK_STEP_SECONDS: Final = (
    *(1, 5, 15, 30),
    *(n * _MINUTE_SECONDS for n in (1, 5, 15, 30)),
    *(n * _HOUR_SECONDS for n in (1, 3, 6, 12)),
    *(n * _DAY_SECONDS for n in (1, 2, 7, 14)),
)
"""Up to two weeks; longer intervals are months."""
_TICK_STEP_MONTHS: Final = (1, 2, 3, 6, 12)
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MIN_MONTH_SECONDS = 28 * _DAY_SECONDS
"""The shortest month has 28 days."""
_ROUNDING_TOLERANCE = 1e-9

Tick = tuple[float, str]


@dataclass(frozen=True)
class Axis:
    """Linear axis that maps values from ``low``..``high`` to pixels ``start``..``end``.

    Attributes
    ----------
    low, high : float
        Values at the ends of the axis; they differ.
    start, end : float
        Pixels at the ends of the axis.
    ticks : tuple of pair of float and str
        Tick values with their labels.

    Examples
    --------
    >>> Axis(0.0, 10.0, 100.0, 300.0).pixel(2.5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[Tick, ...] = ()

    def pixel(self, value: float) -> float:
        """Return the pixel of a value; a value beyond an end is clipped to it."""
        low, high = self.low / 2, self.high / 2  # halves, so that their difference is finite
        fraction = (value / 2 - low) / (high - low)
        return self.start + min(max(fraction, 0.0), 1.0) * (self.end - self.start)


def step_of(span: float, max_intervals: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that needs few enough intervals.

    Parameters
    ----------
    span : float
        Length to split; positive.
    max_intervals : int
        Maximum number of intervals.

    Examples
    --------
    >>> step_of(10, 5), step_of(0.13, 4), step_of(36, 4)
    (2.0, 0.05, 10.0)
    """
    power = 10.0 ** floor(log10(span / max_intervals))
    step = next(
        factor
        for factor in (1, 2, 5, 10)
        if factor * power * max_intervals >= span * (1 - _ROUNDING_TOLERANCE)
    )
    return float(f"{step * power:.12g}")


def value_ticks(
    low: float, high: float, max_ticks: int = 5, *, percent: bool = False
) -> list[Tick]:
    """Return round tick values from ``low`` to ``high``, with as many digits as they need to differ.

    Parameters
    ----------
    low, high : float
        Ends of the axis.
    max_ticks : int
        Maximum number of intervals between ticks.
    percent : bool
        True to label shares as percentages.

    Examples
    --------
    >>> value_ticks(0.35, 1.0, percent=True)
    [(0.4, '40%'), (0.6, '60%'), (0.8, '80%'), (1.0, '100%')]
    >>> [label for _, label in value_ticks(-1500, 2500)]
    ['-1,000', '0', '1,000', '2,000']
    """
    finite = isfinite(high - low)
    step = step_of(high - low, max_ticks) if finite else 2 * step_of(high / 2 - low / 2, max_ticks)
    scale, unit = (100.0, "%") if percent else (1.0, "")
    digits = max(0, -floor(log10(step * scale) + _ROUNDING_TOLERANCE))
    magnitude = max(abs(low), abs(high)) * scale
    number_format = ",.4g" if magnitude >= 1e9 or digits > 6 else f",.{digits}f"
    first_step, last_step = (
        ceil(low / step - _ROUNDING_TOLERANCE),
        floor(high / step + _ROUNDING_TOLERANCE),
    )
    tick_values = [float(f"{n * step:.12g}") for n in range(first_step, last_step + 1)]
    return [(value, f"{value * scale:{number_format}}{unit}") for value in tick_values]


def time_ticks(low: float, high: float, max_ticks: int = 8) -> list[Tick]:
    """Return ticks at round times with their labels.

    Parameters
    ----------
    low, high : float
        Seconds since 1970, in UTC.
    max_ticks : int
        Approximate maximum number of ticks.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> ends = [datetime(2013, m, 1, tzinfo=timezone.utc).timestamp() for m in (1, 12)]
    >>> [label for _, label in time_ticks(*ends, max_ticks=4)]
    ['Jan 2013', 'Apr', 'Jul', 'Oct']
    """
    step = next(
        (
            seconds_per_step
            for seconds_per_step in _TICK_STEP_SECONDS
            if (high - low) / seconds_per_step <= max_ticks
        ),
        None,
    )
    if step is None:
        return [
            (seconds_of(time), _month_label(time, n))
            for n, time in enumerate(_month_starts(low, high, max_ticks))
        ]
    ticks: list[Tick] = []
    monday = 4 * _DAY_SECONDS if step > _DAY_SECONDS else 0  # the first day of 1970 is a Thursday
    seconds = ceil((low - monday) / step) * step + monday
    while seconds <= high:
        ticks.append(
            (float(seconds), _time_label(EPOCH + timedelta(seconds=seconds), step, not ticks))
        )
        seconds += step
    return ticks


def order_ticks(names: Sequence[str], max_ticks: int = 6) -> list[Tick]:
    """Return ticks at evenly spaced indices of ordered names.

    Parameters
    ----------
    names : sequence of str
        Name of each index.
    max_ticks : int
        Maximum number of ticks.

    Examples
    --------
    >>> order_ticks(["a", "b", "c", "d"], max_ticks=2)
    [(0.0, 'a'), (2.0, 'c')]
    """
    step = max(1, ceil(len(names) / max_ticks))
    return [(float(n), names[n]) for n in range(0, len(names), step)]


def seconds_of(time: datetime) -> float:
    """Return seconds since 1970 (UTC)."""
    return (time - EPOCH).total_seconds()


def _month_starts(low: float, high: float, max_ticks: int) -> Iterator[datetime]:
    step_months = next(
        (
            months
            for months in _TICK_STEP_MONTHS
            if (high - low) / (months * _MIN_MONTH_SECONDS) <= max_ticks
        ),
        None,
    )
    if step_months is None:
        step_months = 12 * max(
            1, round(step_of((high - low) / (12 * _MIN_MONTH_SECONDS), max_ticks))
        )
    start = EPOCH + timedelta(seconds=low)
    month = ceil((12 * start.year + start.month - 1) / step_months) * step_months
    while month // 12 <= MAXYEAR:
        time = datetime(max(month // 12, 1), month % 12 + 1, 1, tzinfo=UTC)
        if seconds_of(time) > high:
            return
        if seconds_of(time) >= low:
            yield time
        month += step_months


def _month_label(time: datetime, index: int) -> str:
    year = f" {time.year}" if index == 0 or time.month == 1 else ""
    return f"{_MONTH_NAMES[time.month - 1]}{year}"


def _time_label(time: datetime, step: int, with_year: bool) -> str:  # noqa: FBT001 - private
    day = f"{time.day} {_MONTH_NAMES[time.month - 1]}{f' {time.year}' if with_year else ''}"
    if step >= _DAY_SECONDS:
        return day
    clock = f"{time:%H:%M:%S}" if step < _MINUTE_SECONDS else f"{time:%H:%M}"
    midnight = time.hour == time.minute == time.second == 0
    return f"{day} {clock}" if with_year else day if midnight else clock


MAX_PANEL_RANGE_RATIO = 2.5
"""In a panel of more than 2.5 times its own range, a line looks flat."""
MAX_PANEL_LINES = 6
"""There are six colors and six dashes."""


@dataclass(frozen=True)
class Mark:
    """Marker of an anomalous point.

    Attributes
    ----------
    index : int
        Index of the point in the line.
    high : bool
        True if the point is above the expected value.
    explanation : str
        Explanation, shown as a tooltip.
    """

    index: int
    high: bool
    explanation: str


@dataclass(frozen=True)
class PlotLine:
    """A plotted series. All its sequences have the length of ``xs``.

    Attributes
    ----------
    title : str
        Label in the legend.
    xs : sequence of float
        Horizontal positions.
    values : sequence of float
        Values; NaN or infinite if missing.
    lower, upper, expected : sequence of float
        Band and expected value, NaN or infinite if unknown; empty if unknown at all points. A band
        with one bound extends to the panel's edge.
    marks : sequence of Mark
        Markers of anomalies, strongest first.
    percent : bool
        True if values are shares.
    kind : str
        Only lines of one kind share a panel.
    """

    title: str
    xs: Sequence[float]
    values: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()
    expected: Sequence[float] = ()
    marks: Sequence[Mark] = field(default=())
    percent: bool = False
    kind: str = ""

    def value_range(self) -> tuple[float, float]:
        """Return the plotted value range; a band that is much wider than the values is clipped."""
        finite = [v for v in (*self.values, *self.expected) if isfinite(v)]
        if not finite:
            return 0.0, 1.0
        low, high = min(finite), max(finite)
        margin = (high - low) / 2 or abs(high) / 10 or 1.0
        band_low = min((v for v in self.lower if isfinite(v)), default=low)
        band_high = max((v for v in self.upper if isfinite(v)), default=high)
        if self.percent:
            band_low, band_high = max(band_low, 0.0), min(band_high, 1.0)
        low, high = min(low, max(band_low, low - margin)), max(high, min(band_high, high + margin))
        if high > low:
            return low, high
        ends = low - margin, high + margin
        return (max(ends[0], 0.0), min(ends[1], 1.0)) if self.percent and 0 <= low <= 1 else ends

    def thinned_indices(self, max_points: int) -> list[int]:
        """Return the indices of points to draw: extremes and one gap of each stretch, and the marks.

        Parameters
        ----------
        max_points : int
            Approximate maximum number of points. The first ``max_points // 2`` marks are kept.

        Examples
        --------
        >>> PlotLine("x", range(8), [0, 5, 1, 2, 9, 3, 4, 4]).thinned_indices(4)
        [0, 1, 4, 5]
        """
        count = len(self.xs)
        if count <= max_points:
            return list(range(count))
        stretch_length = ceil(2 * count / max_points)
        indices = {mark.index for mark in self.marks[: max_points // 2]}
        for start in range(0, count, stretch_length):
            stretch = range(start, min(start + stretch_length, count))
            finite = [n for n in stretch if isfinite(self.values[n])]
            if finite:
                indices |= {min(finite, key=self.values.__getitem__)}
                indices |= {max(finite, key=self.values.__getitem__)}
            if len(finite) < len(stretch):
                indices.add(next(n for n in stretch if not isfinite(self.values[n])))
        return sorted(indices)


def panels_of(lines: Sequence[PlotLine]) -> list[list[PlotLine]]:
    """Group lines of one kind with similar value ranges into panels, in order.

    Examples
    --------
    >>> low, alike, high = (PlotLine(t, [0, 1], v) for t, v in (("a", [1, 2]), ("b", [1, 3]), ("c", [80, 90])))
    >>> [[line.title for line in panel] for panel in panels_of([low, high, alike])]
    [['a', 'b'], ['c']]
    """
    panels: list[list[PlotLine]] = []
    for line in lines:
        for panel in panels:
            ranges = [other.value_range() for other in (*panel, line)]
            shared_range = max(high for _, high in ranges) - min(low for low, _ in ranges)
            is_similar = all(
                shared_range <= MAX_PANEL_RANGE_RATIO * (high - low) for low, high in ranges
            )
            if is_similar and line.kind == panel[0].kind and len(panel) < MAX_PANEL_LINES:
                panel.append(line)
                break
        else:
            panels.append([line])
    return panels


CHART_WIDTH = 900
LEFT_MARGIN, RIGHT_MARGIN, BOTTOM_MARGIN, LINE_HEIGHT = 76, 14, 24, 17
"""In pixels. Value labels are in the left margin, time labels in the bottom margin."""
SINGLE_PANEL_HEIGHT, SHARED_PANEL_HEIGHT = 190, 110
"""In pixels: the height of the only panel, and of each of several panels."""
LINE_COLORS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "currentColor")
ANOMALY_COLOR = "#d55e00"
LINE_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")
MAX_BANDED_LINES = 2
"""More bands in one panel would cover each other."""
_DETAIL_LEVELS = (
    (1200, 120),
    (1200, 40),
    (900, 30),
    (700, 30),
    (500, 20),
    (250, 12),
    (120, 6),
    (80, 3),
)
"""Numbers of points and of explanations, tried in order until the image is small enough."""
_MAX_TITLE_LENGTH = 110
_MAX_EXPLANATION_LENGTH = 240
_MARKS_PER_EXPLANATION = 4
"""Further marks are dropped, the weakest first."""


def picture(
    lines: Sequence[PlotLine],
    ticks: Callable[[float, float], Sequence[Tick]],
    *,
    one_panel: bool = False,
    panel_height: int | None = None,
    max_bytes: int = LARGEST_CARD - 5000,
) -> str:
    """Render lines over a shared horizontal axis as SVG; lines with similar values share a panel.

    Parameters
    ----------
    lines : sequence of PlotLine
        Lines to draw; at least one.
    ticks : callable
        Function that returns the ticks of an axis, given its low and high end.
    one_panel : bool
        True to draw all lines in one panel.
    panel_height : int, optional
        Height of each panel in pixels (default: `SINGLE_PANEL_HEIGHT` or `SHARED_PANEL_HEIGHT`).
    max_bytes : int
        Size that the image should stay below. Long series are thinned except for extremes and
        marks, and explanations are dropped.
    """
    panels = [list(lines)] if one_panel else panels_of(lines)
    xs = [x for line in lines for x in (*line.xs[:1], *line.xs[-1:])]
    low, high = (min(xs), max(xs)) if xs else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    x_axis = Axis(low, high, LEFT_MARGIN, CHART_WIDTH - RIGHT_MARGIN, tuple(ticks(low, high)))
    panel_height = panel_height or (
        SINGLE_PANEL_HEIGHT if len(panels) == 1 else SHARED_PANEL_HEIGHT
    )
    image = ""
    for points, explanations in _DETAIL_LEVELS:
        detail = max(8, points // max(1, len(lines))), max(1, explanations // max(1, len(lines)))
        image = _render(panels, x_axis, panel_height, detail)
        if len(image.encode()) < max_bytes:
            break
    return image


def _render(
    panels: Sequence[Sequence[PlotLine]], x_axis: Axis, panel_height: int, detail: tuple[int, int]
) -> str:
    parts: list[str] = []
    top = 2
    for panel in panels:
        top += LINE_HEIGHT * len(panel)
        parts += _panel_parts(panel, x_axis, (top, top + panel_height), detail)
        top += panel_height + 10
    bottom = top - 10
    parts += [
        f'<text x="{x_axis.pixel(x):.0f}" y="{bottom + 16}" text-anchor="{_text_anchor(x_axis, x)}" opacity=".75">'
        f"{escaped(name, 24)}</text>"
        for x, name in x_axis.ticks
    ]
    return svg(
        CHART_WIDTH,
        bottom + BOTTOM_MARGIN,
        parts,
        "; ".join(line.title for p in panels for line in p),
    )


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


def _text_anchor(x_axis: Axis, x: float) -> str:
    fraction = (x_axis.pixel(x) - x_axis.start) / (x_axis.end - x_axis.start)
    return "end" if fraction > 0.95 else "start" if fraction < 0.02 else "middle"


def _panel_parts(
    panel: Sequence[PlotLine], x_axis: Axis, edges: tuple[int, int], detail: tuple[int, int]
) -> Iterator[str]:
    top, bottom = edges
    ranges = [line.value_range() for line in panel]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    y_axis = Axis(low, high, bottom - 3, top + 6)
    for n, line in enumerate(panel):
        yield from _legend_parts(
            line.title, n, top - LINE_HEIGHT * (len(panel) - n) + 12, alone=len(panel) == 1
        )
    grid = [
        (round(y_axis.pixel(v), 1), label)
        for v, label in value_ticks(low, high, percent=panel[0].percent)
    ]
    path = "".join(f"M{x_axis.start:g},{y:g}H{x_axis.end:g}" for y, _ in grid)
    yield f'<path d="{path}" stroke="currentColor" opacity=".18" fill="none"/>'
    for y, label in grid:
        yield f'<text x="{LEFT_MARGIN - 8}" y="{y + 4:g}" text-anchor="end" opacity=".75">{label}</text>'
    for n, line in enumerate(panel):
        yield from _line_parts(
            line, n, x_axis, y_axis, detail, banded=len(panel) <= MAX_BANDED_LINES
        )
    for line in panel:
        yield from _mark_parts(line, x_axis, y_axis, detail)


def _legend_parts(title: str, index: int, y: int, *, alone: bool) -> Iterator[str]:
    color, dash = LINE_COLORS[index % len(LINE_COLORS)], LINE_DASHES[index % len(LINE_DASHES)]
    start = LEFT_MARGIN
    if not alone:
        yield (
            f'<path d="M{LEFT_MARGIN},{y - 4}h24" stroke="{color}" stroke-width="2"'
            f' stroke-dasharray="{dash or "none"}"/>'
        )
        start += 32
    yield f'<text x="{start}" y="{y}" font-weight="600">{escaped(title, _MAX_TITLE_LENGTH)}</text>'


def _line_parts(
    line: PlotLine, index: int, x_axis: Axis, y_axis: Axis, detail: tuple[int, int], *, banded: bool
) -> Iterator[str]:
    color, dash = LINE_COLORS[index % len(LINE_COLORS)], LINE_DASHES[index % len(LINE_DASHES)]
    indices = line.thinned_indices(detail[0])
    pixels = {n: x_axis.pixel(line.xs[n]) for n in indices}
    if banded and (line.lower or line.upper):
        bounds = [
            (line.lower[n] if line.lower else nan, line.upper[n] if line.upper else nan)
            for n in indices
        ]
        area = band([pixels[n] for n in indices], bounds, y_axis)
        yield f'<path d="{area}" fill="{color}" opacity=".18"/>'
    if line.expected:
        expected = path([pixels[n] for n in indices], [line.expected[n] for n in indices], y_axis)
        yield (
            f'<path d="{expected}" fill="none" stroke="{color}" stroke-dasharray="1 3"'
            ' stroke-linecap="round" opacity=".9"/>'
        )
    curve = path([pixels[n] for n in indices], [line.values[n] for n in indices], y_axis)
    dash_attribute = f' stroke-dasharray="{dash}"' if dash else ' stroke-linecap="round"'
    yield f'<path d="{curve}" fill="none" stroke="{color}" stroke-width="1.5"{dash_attribute}/>'


def _mark_parts(
    line: PlotLine, x_axis: Axis, y_axis: Axis, detail: tuple[int, int]
) -> Iterator[str]:
    for index, mark in enumerate(line.marks[: _MARKS_PER_EXPLANATION * detail[1]]):
        value = line.values[mark.index]
        expected = line.expected[mark.index] if line.expected else nan
        shown_value = next((v for v in (value, expected) if isfinite(v)), y_axis.low)
        x, y, direction = (
            x_axis.pixel(line.xs[mark.index]),
            y_axis.pixel(shown_value),
            -1 if mark.high else 1,
        )
        shape = f"M{x:.1f},{y + 5 * direction:.1f}l5,{-9 * direction}h-10z"
        tooltip = (
            f"<title>{escaped(mark.explanation, _MAX_EXPLANATION_LENGTH)}</title>"
            if index < detail[1]
            else ""
        )
        yield f'<path d="{shape}" fill="{ANOMALY_COLOR}" stroke="currentColor" stroke-width=".6">{tooltip}</path>'


def path(xs: Sequence[float], values: Sequence[float], y_axis: Axis) -> str:
    """Return a line as SVG path data. A missing value interrupts the line.

    Parameters
    ----------
    xs : sequence of float
        Horizontal pixels.
    values : sequence of float
        Values; NaN or infinite if missing.
    y_axis : Axis
        Vertical axis.

    Examples
    --------
    >>> path([0, 10, 20, 30], [1, float("nan"), 3, 4], Axis(0, 4, 4, 0))
    'M0,3h0M20,1L30,0'
    """
    parts: list[str] = []
    for run in _runs([isfinite(v) for v in values]):
        points = [f"{xs[n]:.4g},{y_axis.pixel(values[n]):.4g}" for n in run]
        parts.append(f"M{'L'.join(points)}{'h0' if len(points) == 1 else ''}")  # h0 is a dot
    return "".join(parts)


def band(xs: Sequence[float], bounds: Sequence[tuple[float, float]], y_axis: Axis) -> str:
    """Return the band between bounds as SVG path data. Without a bound, it extends to the edge.

    Parameters
    ----------
    xs : sequence of float
        Horizontal pixels.
    bounds : sequence of pair of float
        Lower and upper bounds; NaN or infinite if unknown.
    y_axis : Axis
        Vertical axis.

    Examples
    --------
    >>> band([0, 10], [(1, 2), (1, float("nan"))], Axis(0, 4, 4, 0))
    'M0,2L10,0L10,3L0,3z'
    """
    parts: list[str] = []
    for run in _runs([isfinite(low) or isfinite(high) for low, high in bounds]):
        upper = [(xs[n], _finite_or(bounds[n][1], inf)) for n in run]
        lower = [(xs[n], _finite_or(bounds[n][0], -inf)) for n in reversed(run)]
        outline = "L".join(f"{x:.4g},{y_axis.pixel(v):.4g}" for x, v in (*upper, *lower))
        parts.append(f"M{outline}z")
    return "".join(parts)


def _finite_or(value: float, default: float) -> float:
    return value if isfinite(value) else default


def _runs(mask: Sequence[bool]) -> Iterator[range]:
    start = None
    for index, is_set in enumerate((*mask, False)):
        if is_set and start is None:
            start = index
        elif not is_set and start is not None:
            yield range(start, index)
            start = None


def sparkline(values: Sequence[float], marks: Iterable[int] = (), width: int = 130) -> str:
    """Render a series as a sparkline without axes, with anomalies as dots.

    Parameters
    ----------
    values : sequence of float
        Values in order; NaN or infinite if missing.
    marks : iterable of int
        Indices of anomalies.
    width : int
        Width in pixels.
    """
    height = 22
    line = PlotLine("", range(len(values)), values)
    y_axis = Axis(*line.value_range(), height - 4, 4)
    x_axis = Axis(0, max(len(values) - 1, 1), 4, width - 4)
    indices = line.thinned_indices(100)
    curve = path(
        [x_axis.pixel(index) for index in indices], [values[index] for index in indices], y_axis
    )
    dots = "".join(
        f"M{x_axis.pixel(index):.4g},{y_axis.pixel(values[index]):.4g}h0"
        for index in marks
        if isfinite(values[index])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" aria-hidden="true" fill="none" stroke-linecap="round">'
        f'<path d="{curve}" stroke="currentColor" stroke-width="1.2"/>'
        f'<path d="{dots}" stroke="{ANOMALY_COLOR}" stroke-width="4"/></svg>'
    )


def bars(names: Sequence[str], sides: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Render shares as a horizontal bar chart, with one bar per name and side.

    Parameters
    ----------
    names : sequence of str
        Label of each group of bars.
    sides : sequence of pair of str and sequence of float
        Title of each side, and its share of each name, from 0 to 1.
    """
    left_margin, bar_height, chart_width = 160, 11, 380
    parts: list[str] = []
    for n, (title, _) in enumerate(sides):
        parts.append(_bar(left_margin, LINE_HEIGHT * n + 4, 12, n))
        parts.append(
            f'<text x="{left_margin + 18}" y="{LINE_HEIGHT * n + 14}">{escaped(title, _MAX_TITLE_LENGTH)}</text>'
        )
    max_share = max((v for _, shares in sides for v in shares if isfinite(v)), default=0.0) or 1.0
    top = LINE_HEIGHT * len(sides) + 8
    for k, name in enumerate(names):
        y = top + k * (len(sides) * bar_height + 8)
        middle = y + len(sides) * bar_height // 2 + 4
        parts.append(
            f'<text x="{left_margin - 8}" y="{middle}" text-anchor="end">{escaped(name, 24)}</text>'
        )
        for n, (_, shares) in enumerate(sides):
            share = shares[k] if isfinite(shares[k]) else 0.0
            parts.append(
                _bar(
                    left_margin,
                    y + n * bar_height,
                    chart_width * share / max_share,
                    n,
                    bar_height - 1,
                )
            )
            end = left_margin + chart_width * share / max_share + 5
            percentage = f"{number(100 * share)}%"
            parts.append(
                f'<text x="{end:.0f}" y="{y + n * bar_height + 8}" font-size="10">{percentage}</text>'
            )
    height = top + len(names) * (len(sides) * bar_height + 8)
    return svg(
        left_margin + chart_width + 80, height, parts, " and ".join(title for title, _ in sides)
    )


def _bar(x: float, y: float, width: float, side: int, height: int = 9) -> str:
    color = LINE_COLORS[side % len(LINE_COLORS)]
    opacity = ".5" if side else "1"
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height}" fill="{color}" opacity="{opacity}"/>'
