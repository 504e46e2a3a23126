"""Static SVG charts of series: values, expected bands and anomalies. Pure.

They are self-contained: no script, no style sheet, no font. Lines take the page's colour or one of
the Okabe-Ito palette, which works on light and dark backgrounds and for the colour-blind; anomalies
are also marked by shape. Names are untrusted input, and are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, isfinite, nan

from tidegauge.analyzers.core.formatting import LARGEST_CARD, escaped, number
from tidegauge.repository.history.axes import Axis, Tick, value_ticks
from tidegauge.repository.history.panels import PlotLine, panels_of

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
