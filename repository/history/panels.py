"""Lines of a plot: thinning of points, value ranges, and grouping into panels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite

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
