"""Contribution analysis: the share of each part in the change of a whole. Pure.

A series is a part of another by segment, filter or histogram bin (`part_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import fsum, isfinite, isnan, nan
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.analyzers.core.formatting import DURATION, measured, percent, plain
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.rows import SeriesIdentity

if TYPE_CHECKING:
    import pandas as pd


ADDITIVE = frozenset({"Size", "Sum", "ZerosCount"})
WEIGHTED = frozenset(
    {
        "ColumnMatch",
        "Completeness",
        "Compliance",
        "DatasetMatch",
        "Mean",
        "PatternMatch",
        "ReferentialIntegrity",
    }
)
"""Means over rows or values, whose weight is the number of these."""
_ABSOLUTE, _RATIO = ".abs.", ".ratio."
_HISTOGRAM, _SUMS = "Histogram.abs.", "HistogramOfSums.sum."
_EQUALS = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*=\s*'((?:[^'\\]|\\.)*)'\s*")


def is_additive(row: SeriesIdentity) -> bool:
    """Return whether a series is the sum of its parts."""
    return row["kind"] in ADDITIVE or _ABSOLUTE in row["name"] or row["name"].startswith(_SUMS)


def is_weighted(row: SeriesIdentity) -> bool:
    """Return whether a series is the weighted mean of its parts."""
    return row["kind"] in WEIGHTED or (_RATIO in row["name"] and row["kind"] != "HistogramOfSums")


def part_of(whole: SeriesIdentity, row: SeriesIdentity) -> Iterator[tuple[str, str]]:
    """Yield dimension and part name if a series is a part of another."""
    same = (row["name"], row["instance"], row["kind"]) == (
        whole["name"],
        whole["instance"],
        whole["kind"],
    )
    if same and row["filter"] == whole["filter"] and row["segment"] != whole["segment"]:
        prefix = f"{whole['segment']}/" if whole["segment"] else ""
        if row["segment"].startswith(prefix) and identity(row) == identity(whole):
            part = Partition.from_path(row["segment"][len(prefix) :])
            if whole["instance"] in part.keys:  # of rows that are alike in a column it says nothing
                return
            yield ", ".join(part.keys), ", ".join(part.values)
    elif same and row["segment"] == whole["segment"] and not whole["filter"] and row["filter"]:
        equals = _EQUALS.fullmatch(row["filter"])
        if equals and identity(row) == identity(whole):
            yield equals[1] or equals[2], re.sub(r"\\(.)", r"\1", equals[3])
    elif (
        whole["kind"] == "Size"
        and row["name"].startswith(_HISTOGRAM)
        and (row["filter"], row["segment"]) == (whole["filter"], whole["segment"])
    ):
        yield row["instance"], row["name"].removeprefix(_HISTOGRAM)


@lru_cache(maxsize=4096)
def _unfiltered(text: str) -> str:
    try:
        return replace(ANALYZERS.parse(text), where=None).canonical()  # type: ignore[call-arg]
    except (TidegaugeError, TypeError):
        return text  # recorded, or of a plug-in that is not installed


def identity(row: SeriesIdentity) -> str:
    """Return a key of analyzer and metric that ignores the filter."""
    return f"{_unfiltered(row['analyzer'])} {row['name']}"


MOST = 3
"""Maximum number of parts that a sentence names."""
ENOUGH = 0.8
"""Cumulative share of the change at which a sentence names no further parts."""
ALIKE = 0.15
"""Relative changes within this range are reported as one."""
STEP = 0.05
"""Resolution for comparing concentrations."""
LEFT = 0.1
"""Minimum unexplained share to report."""
_WORDS = ((0.45, 0.55, "half"), (0.97, 1.0, "all"))
PART_COLUMNS = columns(
    "dimension part value:number expected:number change:number usual:number share:number"
)


@dataclass(frozen=True)
class ContributionPart:
    """One part of a whole, and its contribution to the change.

    Attributes
    ----------
    name : str
        The value of the dimension, such as ``EWR``.
    value, expected : float
        NaN where there is none.
    usual : float
        The part's share of the whole: of its expected value, or for a ratio of its current rows.
    share : float
        The part's share of the whole's change; negative if it moved in the opposite direction.
    """

    name: str
    value: float
    expected: float
    usual: float
    share: float

    @property
    def change(self) -> float:
        """The difference between value and expected value."""
        return self.value - self.expected


@dataclass(frozen=True)
class Dimension:
    """A breakdown of a whole into parts, the largest contribution first.

    The shares of the parts and ``rest`` add up to 1.

    Attributes
    ----------
    name : str
        The column or columns, such as ``origin`` or ``origin, carrier``.
    parts : tuple of ContributionPart
    rest : float
        The unexplained share: values outside all parts, and expectations of the whole that those of
        its parts do not add up to. For a ratio also the mix effect, the shift of weights between
        parts.
    additive : bool
        True if the parts' values add up to the whole's; else the whole is their weighted mean.
    scale : str
        The metric's scale.
    """

    name: str
    parts: tuple[ContributionPart, ...]
    rest: float
    additive: bool
    scale: str = ""

    @property
    def concentration(self) -> float:
        """Excess concentration of the change over that of the whole; 0 if all parts moved alike."""
        total = fsum(abs(part.share) for part in self.parts) + abs(self.rest)
        usual = max(fsum(abs(part.usual) for part in self.parts), 1.0)
        found = fsum((part.share / total) ** 2 for part in self.parts) if total else 0.0
        return found - fsum((part.usual / usual) ** 2 for part in self.parts)

    def frame(self) -> pd.DataFrame:
        """Return one row for each part.

        Columns: dimension, part, value, expected, change, usual, share.
        """
        rows = [
            {
                "dimension": self.name,
                "part": part.name,
                **{name: getattr(part, name) for name in tuple(PART_COLUMNS)[2:]},
            }
            for part in self.parts
        ]
        return frame_of(rows, PART_COLUMNS)

    def __str__(self) -> str:
        """Return the breakdown in one sentence."""
        named = self._named()
        told = self._alike(named) or listed([f"{plain(p.name)} {self._moved(p)}" for p in named])
        first = named[0]
        if len(self.parts) > 1 or first.share < 1 - LEFT:
            told += f"; {plain(first.name)} alone accounts for {percent(first.share)} of it"
        if abs(self.rest) >= LEFT:
            way = " the other way" if self.rest < 0 else ""
            where = "in no part" if self.additive else "a shift between parts, or in none"
            told += f"; {percent(abs(self.rest))}{way} is {where}"
        return f"By {plain(self.name)}: {told}."

    def _named(self) -> Sequence[ContributionPart]:
        found: list[ContributionPart] = []
        for part in self.parts[:MOST]:
            if found and (fsum(x.share for x in found) >= ENOUGH or part.share <= 0):
                break
            found.append(part)
        return found

    def _alike(self, parts: Sequence[ContributionPart]) -> str:
        """Describe parts that changed alike in one phrase; empty if they did not."""
        moved = [_relative(part, additive=self.additive) for part in parts]
        if len(parts) == 1 or any(isnan(x) for x in moved) or max(moved) - min(moved) > ALIKE:
            return ""
        if min(moved) * max(moved) <= 0 or (not self.additive and max(map(abs, moved)) <= ALIKE):
            return ""
        middle = fsum(moved) / len(moved)
        names = listed([plain(part.name) for part in parts])
        if self.additive:
            return f"{names} each {'lost' if middle < 0 else 'gained'} about {_amount(abs(middle))}"
        size = f"{abs(middle):.2g}"
        if self.scale == "ratio":
            size = f"{100 * abs(middle):.2g} percentage points"
        elif self.scale == DURATION:
            size = measured(abs(middle), self.scale)
        return f"{names} each {'fell' if middle < 0 else 'rose'} by about {size}"

    def _moved(self, part: ContributionPart) -> str:
        if not self.additive or not part.expected:
            fell = "fell" if part.change < 0 else "rose"
            before, after = (measured(x, self.scale) for x in (part.expected, part.value))
            return f"{fell} from {before} to {after}"
        moved = part.change / abs(part.expected)
        return f"{'lost' if moved < 0 else 'gained'} {percent(abs(moved))}"


def additive_parts(
    name: str,
    whole: tuple[float, float],
    parts: Mapping[str, tuple[float, float]],
) -> Dimension | None:
    """Break down the change of a sum; None if there is no change or no part.

    Parameters
    ----------
    name : str
        Name of the dimension.
    whole : pair of float
        Value and expected value.
    parts : mapping of str to pair of float
        Value and expected value of each part. Parts that are not finite are left out.

    Examples
    --------
    >>> print(additive_parts("origin", (50, 100), {"EWR": (10, 50), "JFK": (40, 50)}))
    By origin: EWR lost 80 %; EWR alone accounts for 80 % of it.
    """
    change = whole[0] - whole[1]
    known = {key: pair for key, pair in parts.items() if all(map(isfinite, pair))}
    if not known or not isfinite(change) or change == 0:
        return None
    size = fsum(abs(expected) for _, expected in known.values())
    size = max(size, abs(whole[1]))
    found = [
        ContributionPart(
            key,
            value,
            expected,
            abs(expected) / size if size else 0.0,
            (value - expected) / change + 0.0,
        )
        for key, (value, expected) in known.items()
    ]
    return _ordered(name, found, additive=True)


def ratio_parts(
    name: str,
    whole: tuple[float, float, float],
    parts: Mapping[str, tuple[float, float, float]],
    scale: str = "",
) -> Dimension | None:
    """Break down the change of a weighted mean; None if there is no change or no part.

    A part contributes its change times its share of the rows. The remainder is the mix effect: rows
    that moved between parts with different values.

    Parameters
    ----------
    name : str
        Name of the dimension.
    whole : triple of float
        Value, expected value and weight.
    parts : mapping of str to triple of float
        Value, expected value and weight of each part. Parts that are not finite or without weight
        are left out.
    scale : str
        The metric's scale; ratios are told in per cent.

    Examples
    --------
    >>> parts = {"EWR": (0.5, 1.0, 50), "JFK": (1.0, 1.0, 50)}
    >>> print(ratio_parts("origin", (0.75, 1.0, 100), parts, "ratio"))
    By origin: EWR fell from 100 % to 50 %; EWR alone accounts for 100 % of it.
    """
    change, weight = whole[0] - whole[1], whole[2]
    known = {key: of for key, of in parts.items() if all(map(isfinite, of)) and of[2] > 0}
    if not known or not isfinite(change) or change == 0 or not (isfinite(weight) and weight > 0):
        return None
    found = [
        ContributionPart(
            key, value, expected, rows / weight, rows / weight * (value - expected) / change + 0.0
        )
        for key, (value, expected, rows) in known.items()
    ]
    return _ordered(name, found, additive=False, scale=scale)


def _ordered(
    name: str, parts: Sequence[ContributionPart], *, additive: bool, scale: str = ""
) -> Dimension:
    ordered = tuple(sorted(parts, key=lambda part: (-part.share, part.name)))
    rest = 1.0 - fsum(part.share for part in ordered)
    if abs(rest) < 1e-12:
        rest = 0.0
    return Dimension(name, ordered, rest, additive, scale)


def best_first(dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Rank dimensions by concentration of the change, the highest first; ties by the fewer parts."""
    return tuple(
        sorted(dimensions, key=lambda d: (-round(d.concentration / STEP), len(d.parts), d.name))
    )


def _relative(part: ContributionPart, *, additive: bool) -> float:
    if not additive:
        return part.change
    return part.change / abs(part.expected) if part.expected else nan


def _amount(moved: float) -> str:
    return next((word for low, high, word in _WORDS if low <= moved <= high), percent(moved))


def listed(texts: Sequence[str]) -> str:
    """Join texts into a list for a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
