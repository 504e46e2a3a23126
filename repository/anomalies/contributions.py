"""How much each part of a whole contributed to its change. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, isnan, nan
from typing import TYPE_CHECKING

from analyzers.display import number, plain
from repository.frames import frame_of

if TYPE_CHECKING:
    import pandas as pd

MOST = 3
"""Parts that a text names."""
ENOUGH = 0.8
"""Share of the change that the parts named first make, if there are not too many."""
ALIKE = 0.15
"""Relative changes that differ by no more are told as one."""
STEP = 0.05
"""Concentrations that differ by less are alike."""
LEFT = 0.1
"""A share left over from which on it is told."""
_WORDS = ((0.45, 0.55, "half"), (0.97, 1.0, "all"))
PART_COLUMNS = ("dimension", "part", "value", "expected", "change", "usual", "share")


@dataclass(frozen=True)
class Part:
    """One part of a whole.

    Attributes
    ----------
    name : str
        The value of the dimension, as in ``EWR``.
    value, expected : float
        NaN where there is none.
    usual : float
        The part's share of the whole itself: of what was expected, or for a ratio of its rows now.
    share : float
        Its share of the whole's change. Negative if it went against it.
    """

    name: str
    value: float
    expected: float
    usual: float
    share: float

    @property
    def change(self) -> float:
        """The value less what was expected."""
        return self.value - self.expected


@dataclass(frozen=True)
class Dimension:
    """A way to cut a whole into parts, the largest contribution first.

    The shares of the parts and ``rest`` add up to 1.

    Attributes
    ----------
    name : str
        The column or columns, as in ``origin`` or ``origin, carrier``.
    parts : tuple of Part
    rest : float
        The share that no part explains: what lies in no part, and what is expected of the whole but not
        of its parts. For a ratio also that the parts' weights moved, the mix effect.
    additive : bool
        Whether the parts' values add up to the whole's; else it is their weighted mean.
    """

    name: str
    parts: tuple[Part, ...]
    rest: float
    additive: bool

    @property
    def concentration(self) -> float:
        """How much more the change sits in few parts than the whole does; 0 if all moved alike."""
        total = fsum(abs(part.share) for part in self.parts) + abs(self.rest)
        usual = max(fsum(abs(part.usual) for part in self.parts), 1.0)
        found = fsum((part.share / total) ** 2 for part in self.parts) if total else 0.0
        return found - fsum((part.usual / usual) ** 2 for part in self.parts)

    def frame(self) -> pd.DataFrame:
        """Return a row for each part, with the columns dimension, part, value, expected, change, usual, share."""
        rows = [
            {
                "dimension": self.name,
                "part": part.name,
                **{name: getattr(part, name) for name in PART_COLUMNS[2:]},
            }
            for part in self.parts
        ]
        return frame_of(rows, PART_COLUMNS)

    def __str__(self) -> str:
        """Say it in one sentence."""
        named = self._named()
        told = _alike(named, additive=self.additive) or _each(named, additive=self.additive)
        first = named[0]
        if len(self.parts) > 1 or first.share < 1 - LEFT:
            told += f"; {plain(first.name)} alone makes {percent(first.share)} of it"
        if abs(self.rest) >= LEFT:
            way = " the other way" if self.rest < 0 else ""
            where = "in no part" if self.additive else "a shift between parts, or in none"
            told += f"; {percent(abs(self.rest))}{way} is {where}"
        return f"By {plain(self.name)}: {told}."

    def _named(self) -> Sequence[Part]:
        found: list[Part] = []
        for part in self.parts[:MOST]:
            if found and (fsum(x.share for x in found) >= ENOUGH or part.share <= 0):
                break
            found.append(part)
        return found


def additive_parts(
    name: str,
    whole: tuple[float, float],
    parts: Mapping[str, tuple[float, float]],
) -> Dimension | None:
    """Cut the change of a sum; None where there is nothing to cut.

    Parameters
    ----------
    name : str
        Of the dimension.
    whole : pair of float
        Value and expected value.
    parts : mapping of str to pair of float
        The same of each part. One with NaN is left out.

    Examples
    --------
    >>> print(additive_parts("origin", (50, 100), {"EWR": (10, 50), "JFK": (40, 50)}))
    By origin: EWR lost 80 %; EWR alone makes 80 % of it.
    """
    change = whole[0] - whole[1]
    known = {key: pair for key, pair in parts.items() if all(map(isfinite, pair))}
    if not known or not isfinite(change) or change == 0:
        return None
    size = fsum(abs(expected) for _, expected in known.values())
    size = max(size, abs(whole[1]))
    found = [
        Part(
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
) -> Dimension | None:
    """Cut the change of a weighted mean; None where there is nothing to cut.

    A part contributes its change times its share of the rows. What is left over is the mix effect: rows
    moved between parts that differ.

    Parameters
    ----------
    name : str
        Of the dimension.
    whole : triple of float
        Value, expected value and weight.
    parts : mapping of str to triple of float
        The same of each part. One with NaN is left out.

    Examples
    --------
    >>> parts = {"EWR": (0.5, 1.0, 50), "JFK": (1.0, 1.0, 50)}
    >>> print(ratio_parts("origin", (0.75, 1.0, 100), parts))
    By origin: EWR fell from 1 to 0.5; EWR alone makes 100 % of it.
    """
    change, weight = whole[0] - whole[1], whole[2]
    known = {key: of for key, of in parts.items() if all(map(isfinite, of)) and of[2] > 0}
    if not known or not isfinite(change) or change == 0 or not (isfinite(weight) and weight > 0):
        return None
    found = [
        Part(key, value, expected, rows / weight, rows / weight * (value - expected) / change + 0.0)
        for key, (value, expected, rows) in known.items()
    ]
    return _ordered(name, found, additive=False)


def _ordered(name: str, parts: Sequence[Part], *, additive: bool) -> Dimension:
    ordered = tuple(sorted(parts, key=lambda part: (-part.share, part.name)))
    rest = 1.0 - fsum(part.share for part in ordered)
    if abs(rest) < 1e-12:  # noqa: PLR2004 - rounding
        rest = 0.0
    return Dimension(name, ordered, rest, additive)


def best_first(dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Return the dimension first in which the change sits in few parts; of those alike the one of fewer parts."""
    return tuple(
        sorted(dimensions, key=lambda d: (-round(d.concentration / STEP), len(d.parts), d.name))
    )


def _relative(part: Part, *, additive: bool) -> float:
    if not additive:
        return part.change
    return part.change / abs(part.expected) if part.expected else nan


def _alike(parts: Sequence[Part], *, additive: bool) -> str:
    """Say of parts that moved alike how; empty if they did not."""
    moved = [_relative(part, additive=additive) for part in parts]
    if len(parts) == 1 or any(isnan(x) for x in moved) or max(moved) - min(moved) > ALIKE:
        return ""
    if min(moved) * max(moved) <= 0 or (not additive and max(map(abs, moved)) <= ALIKE):
        return ""
    middle = fsum(moved) / len(moved)
    names = listed([plain(part.name) for part in parts])
    if not additive:
        return f"{names} each {'fell' if middle < 0 else 'rose'} by about {abs(middle):.2g}"
    return f"{names} each {'lost' if middle < 0 else 'gained'} about {_amount(abs(middle))}"


def _each(parts: Sequence[Part], *, additive: bool) -> str:
    return listed([f"{plain(part.name)} {_moved(part, additive=additive)}" for part in parts])


def _moved(part: Part, *, additive: bool) -> str:
    if not additive or not part.expected:
        fell = "fell" if part.change < 0 else "rose"
        return f"{fell} from {number(part.expected)} to {number(part.value)}"
    moved = part.change / abs(part.expected)
    return f"{'lost' if moved < 0 else 'gained'} {percent(abs(moved))}"


def _amount(moved: float) -> str:
    return next((word for low, high, word in _WORDS if low <= moved <= high), percent(moved))


def percent(share: float) -> str:
    """Return a share as a percentage.

    Examples
    --------
    >>> percent(0.413)
    '41 %'
    """
    return f"{100 * share:.0f} %"


def listed(texts: Sequence[str]) -> str:
    """Return texts as a list in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
