"""Static SVG charts of series: values, expected bands and anomalies. Pure.

Charts are self-contained: no script, no style sheet, no font. Lines take the page's colour or one of
the Okabe-Ito palette, which works on light and dark backgrounds and for the colour-blind; anomalies
are also marked by shape. Names are untrusted input, and are escaped.

An `Axis` scales values to pixels and has ticks for values, times or names. `panels_of` groups lines by
their value ranges into panels, and points are thinned where a panel has more than it can show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, datetime, timedelta
from math import ceil, floor, inf, isfinite, log10, nan
from typing import Final

from tidegauge.analyzers.core.formatting import LARGEST_CARD, escaped, number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS: Final = (
    *(1, 5, 15, 30),
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14)),
)
"""Tick intervals in seconds, up to two weeks; longer ones are months."""
_MONTHS: Final = (1, 2, 3, 6, 12)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = 28 * _DAY
"""Seconds of the shortest month."""
_ROUNDING = 1e-9

Tick = tuple[float, str]


@dataclass(frozen=True)
class Axis:
    """Linear axis that maps values from ``low``..``high`` to pixels ``start``..``end``.

    Attributes
    ----------
    low, high : float
        Not equal.
    start, end : float
        In pixels.
    ticks : tuple of pair of float and str
        Tick values with their labels.

    Examples
    --------
    >>> Axis(0.0, 10.0, 100.0, 300.0).at(2.5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[Tick, ...] = ()

    def at(self, value: float) -> float:
        """Return the pixel of a value; values outside are clipped to the edge."""
        low, high = self.low / 2, self.high / 2  # whose difference is finite
        share = (value / 2 - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def step_of(span: float, most: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten with at most ``most`` intervals.

    Examples
    --------
    >>> step_of(10, 5), step_of(0.13, 4), step_of(36, 4)
    (2.0, 0.05, 10.0)
    """
    power = 10.0 ** floor(log10(span / most))
    step = next(m for m in (1, 2, 5, 10) if m * power * most >= span * (1 - _ROUNDING))
    return float(f"{step * power:.12g}")


def value_ticks(low: float, high: float, most: int = 5, *, percent: bool = False) -> list[Tick]:
    """Return round tick values from ``low`` to ``high``, with the digits that distinguish them.

    Examples
    --------
    >>> value_ticks(0.35, 1.0, percent=True)
    [(0.4, '40 %'), (0.6, '60 %'), (0.8, '80 %'), (1.0, '100 %')]
    >>> [text for _, text in value_ticks(-1500, 2500)]
    ['-1,000', '0', '1,000', '2,000']
    """
    finite = isfinite(high - low)
    step = step_of(high - low, most) if finite else 2 * step_of(high / 2 - low / 2, most)
    scale, unit = (100.0, " %") if percent else (1.0, "")
    digits = max(0, -floor(log10(step * scale) + _ROUNDING))
    great = max(abs(low), abs(high)) * scale
    form = ",.4g" if great >= 1e9 or digits > 6 else f",.{digits}f"
    first, last = ceil(low / step - _ROUNDING), floor(high / step + _ROUNDING)
    places = [float(f"{n * step:.12g}") for n in range(first, last + 1)]
    return [(place, f"{place * scale:{form}}{unit}") for place in places]


def time_ticks(low: float, high: float, most: int = 8) -> list[Tick]:
    """Return ticks at round times with their labels.

    Parameters
    ----------
    low, high : float
        Seconds since 1970, in UTC.
    most : int
        Approximate maximum number of ticks.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> ends = [datetime(2013, m, 1, tzinfo=timezone.utc).timestamp() for m in (1, 12)]
    >>> [text for _, text in time_ticks(*ends, most=4)]
    ['Jan 2013', 'Apr', 'Jul', 'Oct']
    """
    step = next((s for s in _STEPS if (high - low) / s <= most), None)
    if step is None:
        return [
            (seconds_of(time), _month(time, n)) for n, time in enumerate(_months(low, high, most))
        ]
    found: list[Tick] = []
    monday = 4 * _DAY if step > _DAY else 0  # the first day of 1970 is a Thursday
    place = ceil((low - monday) / step) * step + monday
    while place <= high:
        found.append((float(place), _moment(EPOCH + timedelta(seconds=place), step, not found)))
        place += step
    return found


def order_ticks(names: Sequence[str], most: int = 6) -> list[Tick]:
    """Return ticks at evenly spaced indices of ordered names.

    Examples
    --------
    >>> order_ticks(["a", "b", "c", "d"], most=2)
    [(0.0, 'a'), (2.0, 'c')]
    """
    step = max(1, ceil(len(names) / most))
    return [(float(n), names[n]) for n in range(0, len(names), step)]


def seconds_of(time: datetime) -> float:
    """Return seconds since 1970 (UTC)."""
    return (time - EPOCH).total_seconds()


def _months(low: float, high: float, most: int) -> Iterator[datetime]:
    by = next((m for m in _MONTHS if (high - low) / (m * _MONTH) <= most), None)
    if by is None:
        by = 12 * max(1, round(step_of((high - low) / (12 * _MONTH), most)))
    start = EPOCH + timedelta(seconds=low)
    month = ceil((12 * start.year + start.month - 1) / by) * by
    while month // 12 <= MAXYEAR:
        time = datetime(max(month // 12, 1), month % 12 + 1, 1, tzinfo=UTC)
        if seconds_of(time) > high:
            return
        if seconds_of(time) >= low:
            yield time
        month += by


def _month(time: datetime, number: int) -> str:
    year = f" {time.year}" if number == 0 or time.month == 1 else ""
    return f"{_NAMES[time.month - 1]}{year}"


def _moment(time: datetime, step: int, first: bool) -> str:  # noqa: FBT001 - private
    day = f"{time.day} {_NAMES[time.month - 1]}{f' {time.year}' if first else ''}"
    if step >= _DAY:
        return day
    clock = f"{time:%H:%M:%S}" if step < _MINUTE else f"{time:%H:%M}"
    midnight = time.hour == time.minute == time.second == 0
    return f"{day} {clock}" if first else day if midnight else clock


ALIKE = 2.5
"""Maximum height of a shared panel, as a multiple of each line's own range."""
TOGETHER = 6
"""Maximum number of lines in a panel."""


@dataclass(frozen=True)
class Mark:
    """Marker of an anomalous point.

    Attributes
    ----------
    place : int
        Index of the point in the line.
    high : bool
        True if it is above the expected value.
    told : str
        Explanation, shown as a tooltip.
    """

    place: int
    high: bool
    told: str


@dataclass(frozen=True)
class PlotLine:
    """A plotted series; sequences are as long as ``xs``, NaN or infinite where there is nothing.

    Attributes
    ----------
    title : str
    xs, values : sequence of float
    lower, upper, expected : sequence of float
        Empty if nothing was expected anywhere. A band with one bound extends to the panel's edge.
    marks : sequence of Mark
        Strongest first.
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

    def reach(self) -> tuple[float, float]:
        """Return the plotted value range; a band that is much wider than the values is cut."""
        known = [v for v in (*self.values, *self.expected) if isfinite(v)]
        if not known:
            return 0.0, 1.0
        low, high = min(known), max(known)
        room = (high - low) / 2 or abs(high) / 10 or 1.0
        least = min((v for v in self.lower if isfinite(v)), default=low)
        most = max((v for v in self.upper if isfinite(v)), default=high)
        if self.percent:
            least, most = max(least, 0.0), min(most, 1.0)
        low, high = min(low, max(least, low - room)), max(high, min(most, high + room))
        if high > low:
            return low, high
        ends = low - room, high + room
        return (max(ends[0], 0.0), min(ends[1], 1.0)) if self.percent and 0 <= low <= 1 else ends

    def thinned(self, most: int) -> list[int]:
        """Return about ``most`` indices at most: each stretch's extremes, one gap, and the marks.

        Only the first ``most // 2`` marks are kept.

        Examples
        --------
        >>> PlotLine("x", range(8), [0, 5, 1, 2, 9, 3, 4, 4]).thinned(4)
        [0, 1, 4, 5]
        """
        count = len(self.xs)
        if count <= most:
            return list(range(count))
        size = ceil(2 * count / most)
        kept = {mark.place for mark in self.marks[: most // 2]}
        for start in range(0, count, size):
            stretch = range(start, min(start + size, count))
            known = [n for n in stretch if isfinite(self.values[n])]
            if known:
                kept |= {min(known, key=self.values.__getitem__)}
                kept |= {max(known, key=self.values.__getitem__)}
            if len(known) < len(stretch):
                kept.add(next(n for n in stretch if not isfinite(self.values[n])))
        return sorted(kept)


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
            ends = [one.reach() for one in (*panel, line)]
            whole = max(high for _, high in ends) - min(low for low, _ in ends)
            alike = all(whole <= ALIKE * (high - low) for low, high in ends)
            if alike and line.kind == panel[0].kind and len(panel) < TOGETHER:
                panel.append(line)
                break
        else:
            panels.append([line])
    return panels


WIDTH = 900
LEFT, RIGHT, BOTTOM, LINE = 76, 14, 24, 17
"""Margins of a panel in pixels: left (value labels), right, bottom (time labels); line height."""
TALL, LOW = 190, 110
"""Height of a single panel, and of one of several, in pixels."""
PALETTE = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "currentColor")
ALARM = "#d55e00"
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")
BANDS = 2
"""Maximum number of lines in a panel with bands; more would cover each other."""
_DETAIL = ((1200, 120), (1200, 40), (900, 30), (700, 30), (500, 20), (250, 12), (120, 6), (80, 3))
"""Numbers of points and explanations, tried in order until the size limit is met."""
_TITLE = 110
_TOLD = 240
_MARKS = 4
"""Maximum number of marks per explanation; the strongest are kept."""


def picture(
    lines: Sequence[PlotLine],
    ticks: Callable[[float, float], Sequence[Tick]],
    *,
    together: bool = False,
    tall: int | None = None,
    largest: int = LARGEST_CARD - 5000,
) -> str:
    """Render lines over a shared axis as SVG, lines with similar values in one panel.

    Parameters
    ----------
    lines : sequence of PlotLine
        At least one.
    ticks : callable
        Function of the axis' ends that returns its ticks.
    together : bool
        True to draw all lines in one panel.
    tall : int, optional
        Height of each panel in pixels; `TALL` or `LOW` if not given.
    largest : int
        Maximum size in bytes: long series are thinned out, extremes and marks kept, and
        explanations left out.
    """
    panels = [list(lines)] if together else panels_of(lines)
    xs = [x for line in lines for x in (*line.xs[:1], *line.xs[-1:])]
    low, high = (min(xs), max(xs)) if xs else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    across = Axis(low, high, LEFT, WIDTH - RIGHT, tuple(ticks(low, high)))
    tall = tall or (TALL if len(panels) == 1 else LOW)
    drawn = ""
    for points, told in _DETAIL:
        detail = max(8, points // max(1, len(lines))), max(1, told // max(1, len(lines)))
        drawn = _svg(panels, across, tall, detail)
        if len(drawn.encode()) < largest:
            break
    return drawn


def _svg(
    panels: Sequence[Sequence[PlotLine]], across: Axis, tall: int, detail: tuple[int, int]
) -> str:
    parts: list[str] = []
    top = 2
    for panel in panels:
        top += LINE * len(panel)
        parts += _panel(panel, across, (top, top + tall), detail)
        top += tall + 10
    bottom = top - 10
    parts += [
        f'<text x="{across.at(x):.0f}" y="{bottom + 16}" text-anchor="{_anchor(across, x)}" opacity=".75">'
        f"{escaped(name, 24)}</text>"
        for x, name in across.ticks
    ]
    return svg(WIDTH, bottom + BOTTOM, parts, "; ".join(line.title for p in panels for line in p))


def svg(width: int, height: int, parts: Iterable[str], label: str) -> str:
    """Wrap parts in an SVG element with an accessible label."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="{escaped(label, 400)}" fill="currentColor"'
        f' font-family="system-ui,sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def _anchor(across: Axis, x: float) -> str:
    share = (across.at(x) - across.start) / (across.end - across.start)
    return "end" if share > 0.95 else "start" if share < 0.02 else "middle"


def _panel(
    panel: Sequence[PlotLine], across: Axis, ends: tuple[int, int], detail: tuple[int, int]
) -> Iterator[str]:
    top, bottom = ends
    reaches = [line.reach() for line in panel]
    low, high = min(low for low, _ in reaches), max(high for _, high in reaches)
    up = Axis(low, high, bottom - 3, top + 6)
    for n, line in enumerate(panel):
        yield from _legend(line.title, n, top - LINE * (len(panel) - n) + 12, alone=len(panel) == 1)
    grid = [
        (round(up.at(v), 1), text) for v, text in value_ticks(low, high, percent=panel[0].percent)
    ]
    path = "".join(f"M{across.start:g},{y:g}H{across.end:g}" for y, _ in grid)
    yield f'<path d="{path}" stroke="currentColor" opacity=".18" fill="none"/>'
    for y, text in grid:
        yield f'<text x="{LEFT - 8}" y="{y + 4:g}" text-anchor="end" opacity=".75">{text}</text>'
    for n, line in enumerate(panel):
        yield from _line(line, n, across, up, detail, banded=len(panel) <= BANDS)
    for line in panel:
        yield from _marks(line, across, up, detail)


def _legend(title: str, number_: int, y: int, *, alone: bool) -> Iterator[str]:
    colour, dash = PALETTE[number_ % len(PALETTE)], DASHES[number_ % len(DASHES)]
    start = LEFT
    if not alone:
        yield (
            f'<path d="M{LEFT},{y - 4}h24" stroke="{colour}" stroke-width="2"'
            f' stroke-dasharray="{dash or "none"}"/>'
        )
        start += 32
    yield f'<text x="{start}" y="{y}" font-weight="600">{escaped(title, _TITLE)}</text>'


def _line(
    line: PlotLine, number_: int, across: Axis, up: Axis, detail: tuple[int, int], *, banded: bool
) -> Iterator[str]:
    colour, dash = PALETTE[number_ % len(PALETTE)], DASHES[number_ % len(DASHES)]
    places = line.thinned(detail[0])
    at = {n: across.at(line.xs[n]) for n in places}
    if banded and (line.lower or line.upper):
        bounds = [
            (line.lower[n] if line.lower else nan, line.upper[n] if line.upper else nan)
            for n in places
        ]
        area = band([at[n] for n in places], bounds, up)
        yield f'<path d="{area}" fill="{colour}" opacity=".18"/>'
    if line.expected:
        usual = path([at[n] for n in places], [line.expected[n] for n in places], up)
        yield (
            f'<path d="{usual}" fill="none" stroke="{colour}" stroke-dasharray="1 3"'
            ' stroke-linecap="round" opacity=".9"/>'
        )
    drawn = path([at[n] for n in places], [line.values[n] for n in places], up)
    dashed = f' stroke-dasharray="{dash}"' if dash else ' stroke-linecap="round"'
    yield f'<path d="{drawn}" fill="none" stroke="{colour}" stroke-width="1.5"{dashed}/>'


def _marks(line: PlotLine, across: Axis, up: Axis, detail: tuple[int, int]) -> Iterator[str]:
    for n, mark in enumerate(line.marks[: _MARKS * detail[1]]):
        value = line.values[mark.place]
        expected = line.expected[mark.place] if line.expected else nan
        known = next((v for v in (value, expected) if isfinite(v)), up.low)
        x, y, way = across.at(line.xs[mark.place]), up.at(known), -1 if mark.high else 1
        shape = f"M{x:.1f},{y + 5 * way:.1f}l5,{-9 * way}h-10z"
        told = f"<title>{escaped(mark.told, _TOLD)}</title>" if n < detail[1] else ""
        yield f'<path d="{shape}" fill="{ALARM}" stroke="currentColor" stroke-width=".6">{told}</path>'


def path(xs: Sequence[float], values: Sequence[float], up: Axis) -> str:
    """Return a line as SVG path data, interrupted where values are missing.

    Examples
    --------
    >>> path([0, 10, 20, 30], [1, float("nan"), 3, 4], Axis(0, 4, 4, 0))
    'M0,3h0M20,1L30,0'
    """
    parts: list[str] = []
    for run in _runs([isfinite(v) for v in values]):
        points = [f"{xs[n]:.4g},{up.at(values[n]):.4g}" for n in run]
        parts.append(f"M{'L'.join(points)}{'h0' if len(points) == 1 else ''}")  # h0 is a dot
    return "".join(parts)


def band(xs: Sequence[float], bounds: Sequence[tuple[float, float]], up: Axis) -> str:
    """Return the band between bounds as SVG path data; it extends to the edge without a bound.

    Examples
    --------
    >>> band([0, 10], [(1, 2), (1, float("nan"))], Axis(0, 4, 4, 0))
    'M0,2L10,0L10,3L0,3z'
    """
    parts: list[str] = []
    for run in _runs([isfinite(low) or isfinite(high) for low, high in bounds]):
        upper = [(xs[n], _or(bounds[n][1], inf)) for n in run]
        lower = [(xs[n], _or(bounds[n][0], -inf)) for n in reversed(run)]
        edge = "L".join(f"{x:.4g},{up.at(v):.4g}" for x, v in (*upper, *lower))
        parts.append(f"M{edge}z")
    return "".join(parts)


def _or(value: float, otherwise: float) -> float:
    return value if isfinite(value) else otherwise


def _runs(there: Sequence[bool]) -> Iterator[range]:
    start = None
    for n, known in enumerate((*there, False)):
        if known and start is None:
            start = n
        elif not known and start is not None:
            yield range(start, n)
            start = None


def sparkline(values: Sequence[float], marks: Iterable[int] = (), width: int = 130) -> str:
    """Render a series as a sparkline without axes, with anomalies as dots."""
    height = 22
    line = PlotLine("", range(len(values)), values)
    up = Axis(*line.reach(), height - 4, 4)
    across = Axis(0, max(len(values) - 1, 1), 4, width - 4)
    places = line.thinned(100)
    drawn = path([across.at(n) for n in places], [values[n] for n in places], up)
    dots = "".join(
        f"M{across.at(n):.4g},{up.at(values[n]):.4g}h0" for n in marks if isfinite(values[n])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" aria-hidden="true" fill="none" stroke-linecap="round">'
        f'<path d="{drawn}" stroke="currentColor" stroke-width="1.2"/>'
        f'<path d="{dots}" stroke="{ALARM}" stroke-width="4"/></svg>'
    )


def bars(names: Sequence[str], sides: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Render shares as a horizontal bar chart, with one bar per name and side.

    Parameters
    ----------
    names : sequence of str
    sides : sequence of pair of str and sequence of float
        Title and shares, from 0 to 1, of each side.
    """
    left, thick, wide = 160, 11, 380
    parts: list[str] = []
    for n, (title, _) in enumerate(sides):
        parts.append(_box(left, LINE * n + 4, 12, n))
        parts.append(f'<text x="{left + 18}" y="{LINE * n + 14}">{escaped(title, _TITLE)}</text>')
    most = max((v for _, shares in sides for v in shares if isfinite(v)), default=0.0) or 1.0
    top = LINE * len(sides) + 8
    for k, name in enumerate(names):
        y = top + k * (len(sides) * thick + 8)
        middle = y + len(sides) * thick // 2 + 4
        parts.append(
            f'<text x="{left - 8}" y="{middle}" text-anchor="end">{escaped(name, 24)}</text>'
        )
        for n, (_, shares) in enumerate(sides):
            share = shares[k] if isfinite(shares[k]) else 0.0
            parts.append(_box(left, y + n * thick, wide * share / most, n, thick - 1))
            end = left + wide * share / most + 5
            text = f"{number(100 * share)} %"
            parts.append(
                f'<text x="{end:.0f}" y="{y + n * thick + 8}" font-size="10">{text}</text>'
            )
    height = top + len(names) * (len(sides) * thick + 8)
    return svg(left + wide + 80, height, parts, " and ".join(title for title, _ in sides))


def _box(x: float, y: float, width: float, side: int, height: int = 9) -> str:
    colour = PALETTE[side % len(PALETTE)]
    opacity = ".5" if side else "1"
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height}" fill="{colour}" opacity="{opacity}"/>'
