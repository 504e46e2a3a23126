"""Contribution analysis: the share of each part in the change of a total. Pure functions.

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
from tidegauge.analyzers.core.metric import subject
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.rows import SeriesIdentity, SeriesRow

if TYPE_CHECKING:
    import pandas as pd


ADDITIVE_ANALYZERS = frozenset({"Size", "Sum", "ZerosCount"})
WEIGHTED_ANALYZERS = frozenset(
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
"""Means over rows or values, weighted by the number of rows or values."""
_ABSOLUTE_INFIX, _RATIO_INFIX = ".abs.", ".ratio."
_HISTOGRAM_PREFIX, _SUMS_PREFIX = "Histogram.abs.", "HistogramOfSums.sum."
_EQUALITY_FILTER = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*=\s*'((?:[^'\\]|\\.)*)'\s*")


def is_additive(row: SeriesIdentity) -> bool:
    """Return whether a series is the sum of its parts."""
    return (
        row["kind"] in ADDITIVE_ANALYZERS
        or _ABSOLUTE_INFIX in row["name"]
        or row["name"].startswith(_SUMS_PREFIX)
    )


def is_weighted(row: SeriesIdentity) -> bool:
    """Return whether a series is the weighted mean of its parts."""
    return row["kind"] in WEIGHTED_ANALYZERS or (
        _RATIO_INFIX in row["name"] and row["kind"] != "HistogramOfSums"
    )


def part_of(total: SeriesIdentity, row: SeriesIdentity) -> Iterator[tuple[str, str]]:
    """Yield dimension and part name if a series is a part of another."""
    is_same_metric = (row["name"], row["instance"], row["kind"]) == (
        total["name"],
        total["instance"],
        total["kind"],
    )
    if is_same_metric and row["filter"] == total["filter"] and row["segment"] != total["segment"]:
        prefix = f"{total['segment']}/" if total["segment"] else ""
        if row["segment"].startswith(prefix) and identity(row) == identity(total):
            part = Partition.from_path(row["segment"][len(prefix) :])
            # A metric of a column says nothing about rows with the same value of that column.
            if total["instance"] in part.keys:
                return
            yield ", ".join(part.keys), ", ".join(part.values)
    elif (
        is_same_metric
        and row["segment"] == total["segment"]
        and not total["filter"]
        and row["filter"]
    ):
        equals = _EQUALITY_FILTER.fullmatch(row["filter"])
        if equals and identity(row) == identity(total):
            yield equals[1] or equals[2], re.sub(r"\\(.)", r"\1", equals[3])
    elif (
        total["kind"] == "Size"
        and row["name"].startswith(_HISTOGRAM_PREFIX)
        and (row["filter"], row["segment"]) == (total["filter"], total["segment"])
    ):
        yield row["instance"], row["name"].removeprefix(_HISTOGRAM_PREFIX)


@lru_cache(maxsize=4096)
def _unfiltered(analyzer: str) -> str:
    try:
        return replace(ANALYZERS.parse(analyzer), where=None).canonical()  # type: ignore[call-arg]
    except (TidegaugeError, TypeError):
        return analyzer  # recorded, or from a plug-in that is not installed


def identity(row: SeriesIdentity) -> str:
    """Return a key of analyzer and metric that ignores the filter."""
    return f"{_unfiltered(row['analyzer'])} {row['name']}"


MAX_PARTS = 3
EXPLAINED_SHARE = 0.8
"""A sentence names no further parts once those named explain this share of the change."""
SAME_CHANGE_TOLERANCE = 0.15
"""Relative changes within this range are reported as one change."""
CONCENTRATION_STEP = 0.05
"""Dimensions whose concentrations round to the same step are ranked by the number of parts."""
MIN_REPORTED_REST = 0.1
_SHARE_WORDS = ((0.45, 0.55, "half"), (0.97, 1.0, "all"))
PART_COLUMNS = columns(
    "dimension part value:number expected:number change:number usual:number share:number"
)


@dataclass(frozen=True)
class ContributionPart:
    """One part of a total, and its contribution to the change.

    Attributes
    ----------
    name : str
        The value of the dimension, such as ``EWR``.
    value, expected : float
        Value and expected value of the part; NaN if unknown.
    usual : float
        The part's share of the total's expected value; for a ratio, its share of the current rows.
    share : float
        The part's share of the change of the total; negative if it moved in the opposite direction.
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
    """A breakdown of a total into parts, the largest contribution first.

    The shares of the parts and ``rest`` add up to 1.

    Attributes
    ----------
    name : str
        The column or columns, such as ``origin`` or ``origin, carrier``.
    parts : tuple of ContributionPart
    rest : float
        The unexplained share: values outside all parts, and the difference between the expected total
        and the sum of the expected parts. For a ratio it includes the mix effect, the shift of weights
        between parts.
    additive : bool
        True if the values of the parts add up to the total; otherwise the total is their weighted mean.
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
        """Concentration of the change minus concentration of the total; 0 if all parts moved alike."""
        total = fsum(abs(part.share) for part in self.parts) + abs(self.rest)
        usual = max(fsum(abs(part.usual) for part in self.parts), 1.0)
        concentration = fsum((part.share / total) ** 2 for part in self.parts) if total else 0.0
        return concentration - fsum((part.usual / usual) ** 2 for part in self.parts)

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
        named_parts = self._select_parts()
        sentence = self._alike(named_parts) or listed(
            [f"{plain(p.name)} {self._moved(p)}" for p in named_parts]
        )
        first = named_parts[0]
        if len(self.parts) > 1 or first.share < 1 - MIN_REPORTED_REST:
            sentence += f"; {plain(first.name)} alone accounts for {percent(first.share)} of it"
        if abs(self.rest) >= MIN_REPORTED_REST:
            direction = " the other way" if self.rest < 0 else ""
            explanation = "in no part" if self.additive else "a shift between parts, or in none"
            sentence += f"; {percent(abs(self.rest))}{direction} is {explanation}"
        return f"By {plain(self.name)}: {sentence}."

    def _select_parts(self) -> Sequence[ContributionPart]:
        """Return the parts that the sentence names."""
        selected: list[ContributionPart] = []
        for part in self.parts[:MAX_PARTS]:
            if selected and (fsum(x.share for x in selected) >= EXPLAINED_SHARE or part.share <= 0):
                break
            selected.append(part)
        return selected

    def _alike(self, parts: Sequence[ContributionPart]) -> str:
        """Describe parts that changed alike in one phrase; empty if they did not."""
        changes = [_relative_change(part, additive=self.additive) for part in parts]
        if (
            len(parts) == 1
            or any(isnan(x) for x in changes)
            or max(changes) - min(changes) > SAME_CHANGE_TOLERANCE
        ):
            return ""
        if min(changes) * max(changes) <= 0 or (
            not self.additive and max(map(abs, changes)) <= SAME_CHANGE_TOLERANCE
        ):
            return ""
        middle = fsum(changes) / len(changes)
        names = listed([plain(part.name) for part in parts])
        if self.additive:
            return f"{names} each {'lost' if middle < 0 else 'gained'} about {_format_share(abs(middle))}"
        size = f"{abs(middle):.2g}"
        if self.scale == "ratio":
            size = f"{100 * abs(middle):.2g} percentage points"
        elif self.scale == DURATION:
            size = measured(abs(middle), self.scale)
        return f"{names} each {'fell' if middle < 0 else 'rose'} by about {size}"

    def _moved(self, part: ContributionPart) -> str:
        if not self.additive or not part.expected:
            verb = "fell" if part.change < 0 else "rose"
            before, after = (measured(x, self.scale) for x in (part.expected, part.value))
            return f"{verb} from {before} to {after}"
        change = part.change / abs(part.expected)
        return f"{'lost' if change < 0 else 'gained'} {percent(abs(change))}"


def additive_parts(
    name: str,
    total: tuple[float, float],
    parts: Mapping[str, tuple[float, float]],
) -> Dimension | None:
    """Break down the change of a sum; return None without a change or a part.

    Parameters
    ----------
    name : str
        Name of the dimension.
    total : pair of float
        Value and expected value of the total.
    parts : mapping of str to pair of float
        Value and expected value of each part. Parts that are not finite are left out.

    Examples
    --------
    >>> print(additive_parts("origin", (50, 100), {"EWR": (10, 50), "JFK": (40, 50)}))
    By origin: EWR lost 80%; EWR alone accounts for 80% of it.
    """
    change = total[0] - total[1]
    finite = {key: pair for key, pair in parts.items() if all(map(isfinite, pair))}
    if not finite or not isfinite(change) or change == 0:
        return None
    size = fsum(abs(expected) for _, expected in finite.values())
    size = max(size, abs(total[1]))
    contributions = [
        ContributionPart(
            key,
            value,
            expected,
            abs(expected) / size if size else 0.0,
            (value - expected) / change + 0.0,
        )
        for key, (value, expected) in finite.items()
    ]
    return _build_dimension(name, contributions, additive=True)


def ratio_parts(
    name: str,
    total: tuple[float, float, float],
    parts: Mapping[str, tuple[float, float, float]],
    scale: str = "",
) -> Dimension | None:
    """Break down the change of a weighted mean; return None without a change or a part.

    A part contributes its change times its share of the rows. The remainder is the mix effect: rows
    that moved between parts with different values.

    Parameters
    ----------
    name : str
        Name of the dimension.
    total : triple of float
        Value, expected value and weight of the total.
    parts : mapping of str to triple of float
        Value, expected value and weight of each part. Parts that are not finite or without weight
        are left out.
    scale : str
        The metric's scale. Ratios are shown in per cent.

    Examples
    --------
    >>> parts = {"EWR": (0.5, 1.0, 50), "JFK": (1.0, 1.0, 50)}
    >>> print(ratio_parts("origin", (0.75, 1.0, 100), parts, "ratio"))
    By origin: EWR fell from 100% to 50%; EWR alone accounts for 100% of it.
    """
    change, weight = total[0] - total[1], total[2]
    weighted = {
        key: triple for key, triple in parts.items() if all(map(isfinite, triple)) and triple[2] > 0
    }
    if not weighted or not isfinite(change) or change == 0 or not (isfinite(weight) and weight > 0):
        return None
    contributions = [
        ContributionPart(
            key, value, expected, rows / weight, rows / weight * (value - expected) / change + 0.0
        )
        for key, (value, expected, rows) in weighted.items()
    ]
    return _build_dimension(name, contributions, additive=False, scale=scale)


def _build_dimension(
    name: str, parts: Sequence[ContributionPart], *, additive: bool, scale: str = ""
) -> Dimension:
    ordered = tuple(sorted(parts, key=lambda part: (-part.share, part.name)))
    rest = 1.0 - fsum(part.share for part in ordered)
    if abs(rest) < 1e-12:
        rest = 0.0
    return Dimension(name, ordered, rest, additive, scale)


def unmeasured_breakdowns(total: SeriesRow, rows: Sequence[SeriesRow]) -> list[str]:
    """Return the breakdowns that other series of a dataset have and a series lacks, in sentences.

    Parameters
    ----------
    total : mapping
        A series of whole partitions. If it has no contributions, such as a quantile, nothing is missing.
    rows : sequence of mapping
        All series of the dataset.
    """
    if not (is_additive(total) or is_weighted(total)):
        return []
    measured = {dimension for row in rows for dimension, _ in part_of(total, row)}
    known = {dimension for row in rows for dimension in _dimensions_of_part(row)}
    missing = sorted(known - measured - {total["instance"]})
    return [
        f"{subject(total)} is not measured by {dimension}: add segments: [[{dimension}]] to the suite."
        for dimension in missing
    ]


def _dimensions_of_part(row: SeriesRow) -> set[str]:
    """Return the columns by which a series is a part of a whole: of its segment, filter or histogram."""
    size: SeriesRow = {**row, "name": "Size", "kind": "Size", "instance": "*", "analyzer": "Size()"}
    totals: list[SeriesRow] = [{**row, "segment": ""}, {**row, "filter": None}, size]
    return {dimension for total in totals for dimension, _ in part_of(total, row)}


def best_first(dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Sort dimensions by concentration of the change, the highest first, then by number of parts."""
    return tuple(
        sorted(
            dimensions,
            key=lambda d: (-round(d.concentration / CONCENTRATION_STEP), len(d.parts), d.name),
        )
    )


def _relative_change(part: ContributionPart, *, additive: bool) -> float:
    if not additive:
        return part.change
    return part.change / abs(part.expected) if part.expected else nan


def _format_share(moved: float) -> str:
    return next((word for low, high, word in _SHARE_WORDS if low <= moved <= high), percent(moved))


def listed(strings: Sequence[str]) -> str:
    """Join strings into a list for a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return strings[0] if len(strings) == 1 else f"{', '.join(strings[:-1])} and {strings[-1]}"
