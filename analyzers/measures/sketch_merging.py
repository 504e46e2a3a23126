"""Merges of serialized KLL and REQ sketches of doubles whose results depend on nothing but the sketches.

`build_kll` builds a KLL sketch of values in the same way.

The library that reads the sketches draws random numbers when it merges them, and they cannot be seeded. Merging
the same sketches twice then gives two answers. The functions here merge all sketches in one step: they join the
values of each level and halve a level that is too full once, from the lowest to the highest. Which half stays is
decided by a bit of the hash of all sketches, in the order of their bytes. So the result is the same in each
process, and for each order of the sketches.

A level is halved as in the papers and in the library, only less often than by merging one after the other. The
bounds on the errors of ranks remain. Karnin, Lang, Liberty: Optimal Quantile Approximation in Streams (2016).
Cormode, Karnin, Liberty, Thaler, Veselý: Relative Error Streaming Quantiles (2021), section 5.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.analyzers.core.errors import CorruptStateError
from tidegauge.analyzers.measures.serialized_layouts import kll_capacity, read_kll, read_req

Values = npt.NDArray[np.float64]
_KLL_HEAD = struct.Struct("<4BHBx")
"""Four-byte words of the preamble, version, family, flags, k and the least size of a level."""
_KLL_COUNTS = struct.Struct("<QHBx")
"""Number of values, least k of the merged sketches, number of levels."""
_KLL_FAMILY, _KLL_LEAST_LEVEL = 15, 8
_KLL_SORTED, _KLL_SINGLE = 2, 4
_REQ_HEAD = struct.Struct("<4BHBB")
_REQ_COUNTS = struct.Struct("<Q2d")
_REQ_LEVEL = struct.Struct("<QfBBxxI")
"""Number of compactions as a state, size of a section, logarithm of the weight, sections, number of values."""
_REQ_FAMILY = 17
_REQ_HIGH_RANKS, _REQ_RAW, _REQ_SORTED = 8, 16, 32
_REQ_MAX_RAW_VALUES = 4
_REQ_MIN_SECTIONS, _REQ_MIN_SECTION = 3, 4
_MAX_VALUES = 1 << 63
"""The library counts values in 64 bits."""


def merge_kll(sketches: Sequence[bytes], k: int) -> bytes:
    """Merge filled KLL sketches into one of size ``k``, which is at most the size of the largest.

    Parameters
    ----------
    sketches : sequence of bytes
        Valid sketches that hold values. Their sizes may differ.
    k : int
        Size of the merged sketch.

    Examples
    --------
    >>> from datasketches import kll_doubles_sketch
    >>> sketch = kll_doubles_sketch(8)
    >>> sketch.update(7.0)
    >>> merged = kll_doubles_sketch.deserialize(merge_kll([sketch.serialize()] * 3, 8))
    >>> merged.n, merged.get_max_value()
    (3, 7.0)
    """
    ordered = sorted(sketches)
    keeps_second = _Coin(ordered)
    layouts = [read_kll(sketch) for sketch in ordered]
    levels = _joined([layout.levels for layout in layouts])
    total = _number_of_values([len(values) for values in levels])
    least_k = min([k, *(layout.least_k for layout in layouts if len(layout.levels) > 1)])
    ends = min(layout.low for layout in layouts), max(layout.high for layout in layouts)
    return _pack_kll(_halved(levels, k, keeps_second), total, k, least_k, ends)


def build_kll(values: Values, k: int) -> bytes:
    """Build a KLL sketch of values, of which there is at least one and none is NaN.

    The result depends on nothing but the values: they are a level that is too full.

    Examples
    --------
    >>> from datasketches import kll_doubles_sketch
    >>> sketch = kll_doubles_sketch.deserialize(build_kll(np.arange(100_000.0), 200))
    >>> sketch.n, sketch.get_max_value(), abs(sketch.get_rank(50_000) - 0.5) < 0.0133
    (100000, 99999.0, True)
    """
    ordered = np.sort(values)
    levels = _halved([ordered], k, _Coin([ordered.tobytes()]))
    return _pack_kll(levels, len(ordered), k, k, (float(ordered[0]), float(ordered[-1])))


def _halved(levels: list[Values], k: int, keeps_second: _Coin) -> list[Values]:
    """Halve each level that is too full, from the lowest to the highest, until all values fit."""
    levels = list(levels)
    retained = sum(map(len, levels))
    level = 0
    while level < len(levels):
        capacities = [
            kll_capacity(k, _KLL_LEAST_LEVEL, depth) for depth in reversed(range(len(levels)))
        ]
        values = levels[level]
        if retained >= sum(capacities) and len(values) >= capacities[level]:
            if level + 1 == len(levels):
                levels.append(np.zeros(0))
            odd = len(values) % 2  # one value of an odd number stays
            promoted = values[odd + keeps_second(level) :: 2]
            levels[level] = values[:odd]
            levels[level + 1] = _sorted(levels[level + 1], promoted)
            retained -= len(promoted)
        level += 1
    return levels


def _pack_kll(
    levels: Sequence[Values], total: int, k: int, least_k: int, ends: tuple[float, float]
) -> bytes:
    if total == 1:
        head = _KLL_HEAD.pack(2, 2, _KLL_FAMILY, _KLL_SORTED | _KLL_SINGLE, k, _KLL_LEAST_LEVEL)
        return head + struct.pack("<d", ends[0])
    head = _KLL_HEAD.pack(5, 1, _KLL_FAMILY, _KLL_SORTED, k, _KLL_LEAST_LEVEL)
    counts = _KLL_COUNTS.pack(total, least_k, len(levels))
    # Free space comes first, then the levels.
    sizes = [len(values) for values in levels]
    space = sum(kll_capacity(k, _KLL_LEAST_LEVEL, depth) for depth in range(len(levels)))
    starts = space - sum(sizes) + np.cumsum([0, *sizes[:-1]])
    values = np.concatenate(levels).astype("<f8").tobytes()
    return head + counts + starts.astype("<u4").tobytes() + struct.pack("<2d", *ends) + values


@dataclass(frozen=True)
class _ReqLevel:
    """The parameters of a level that has been halved, as a binary counter, ``state`` times."""

    section: np.float32
    sections: int

    @classmethod
    def from_state(cls, k: int, state: int) -> _ReqLevel:
        """Return the parameters: each doubling of the sections divides their size by the root of 2."""
        section, sections = np.float32(k), _REQ_MIN_SECTIONS
        while state >= 1 << (sections - 1):
            smaller = np.float32(section / np.float32(np.sqrt(2)))
            if _nearest_even(smaller) < _REQ_MIN_SECTION:
                break
            section, sections = smaller, 2 * sections
        return cls(section, sections)

    @property
    def capacity(self) -> int:
        """The number of values from which on the level is halved."""
        return 2 * self.sections * _nearest_even(self.section)

    def protected(self, state: int) -> int:
        """Return how many values at the accurate end stay when the level is halved."""
        trailing_ones = (state ^ (state + 1)).bit_length() - 1
        compacted = min(trailing_ones + 1, self.sections)
        return self.capacity // 2 + (self.sections - compacted) * _nearest_even(self.section)


def _nearest_even(size: np.float32) -> int:
    return 2 * int(np.floor(float(size) / 2 + 0.5))


def merge_req(sketches: Sequence[bytes]) -> bytes:
    """Merge filled REQ sketches of one size and one accurate end.

    Parameters
    ----------
    sketches : sequence of bytes
        Valid sketches that hold values.

    Examples
    --------
    >>> from datasketches import PyDoublesSerDe, req_items_sketch
    >>> sketch = req_items_sketch(12, True)
    >>> sketch.update(7.0)
    >>> packed = sketch.serialize(PyDoublesSerDe())
    >>> req_items_sketch.deserialize(merge_req([packed] * 3), PyDoublesSerDe()).n
    3
    """
    ordered = sorted(sketches)
    keeps_second = _Coin(ordered)
    layouts = [read_req(sketch) for sketch in ordered]
    k, high_ranks = layouts[0].k, layouts[0].high_ranks
    levels = _joined([layout.levels for layout in layouts])
    states = [0] * len(levels)
    for layout in layouts:
        for level, state in enumerate(layout.states):
            states[level] |= state
    total = _number_of_values([len(values) for values in levels])
    retained = sum(map(len, levels))
    level = 0
    while level < len(levels):
        parameters = [_ReqLevel.from_state(k, state) for state in states]
        if retained < sum(parameter.capacity for parameter in parameters):
            break
        values, parameter = levels[level], parameters[level]
        if len(values) >= parameter.capacity:
            if level + 1 == len(levels):
                levels.append(np.zeros(0))
                states.append(0)
            halved = (len(values) - parameter.protected(states[level])) // 2 * 2
            start = 0 if high_ranks else len(values) - halved
            promoted = values[start : start + halved][keeps_second(level) :: 2]
            levels[level] = values[halved:] if high_ranks else values[:start]
            levels[level + 1] = _sorted(levels[level + 1], promoted)
            states[level] += 1
            retained -= len(promoted)
        level += 1
    ends = min(layout.low for layout in layouts), max(layout.high for layout in layouts)
    return _pack_req(levels, states, total, k, ends, high_ranks=high_ranks)


def _pack_req(
    levels: Sequence[Values],
    states: Sequence[int],
    total: int,
    k: int,
    ends: tuple[float, float],
    *,
    high_ranks: bool,
) -> bytes:
    flags = _REQ_SORTED | (_REQ_HIGH_RANKS if high_ranks else 0)
    if total <= _REQ_MAX_RAW_VALUES:
        head = _REQ_HEAD.pack(2, 1, _REQ_FAMILY, flags | _REQ_RAW, k, 1, total)
        return head + levels[0].astype("<f8").tobytes()
    estimates = len(levels) > 1
    parts = [_REQ_HEAD.pack(4 if estimates else 2, 1, _REQ_FAMILY, flags, k, len(levels), 0)]
    if estimates:
        parts.append(_REQ_COUNTS.pack(total, *ends))
    for level, (values, state) in enumerate(zip(levels, states, strict=True)):
        parameter = _ReqLevel.from_state(k, state)
        level_head = _REQ_LEVEL.pack(
            state, float(parameter.section), level, parameter.sections, len(values)
        )
        parts += [level_head, values.astype("<f8").tobytes()]
    return b"".join(parts)


class _Coin:
    """Decides for each level which of two neighbours stays, by the hash of all sketches."""

    def __init__(self, ordered: Sequence[bytes]) -> None:
        digest = hashlib.sha256()
        for sketch in ordered:
            digest.update(sketch)
        self._bits = int.from_bytes(digest.digest(), "little")

    def __call__(self, level: int) -> int:
        return self._bits >> level & 1


def _joined(sketches: Sequence[Sequence[Any]]) -> list[Values]:
    """Return the sorted values of each level, over all sketches."""
    levels = range(max(map(len, sketches)))
    return [
        _sorted(*(sketch[level] for sketch in sketches if level < len(sketch))) for level in levels
    ]


def _sorted(*parts: Any) -> Values:
    """Return all values in order; 0.0 and -0.0 are equal, and keep the order of the parts."""
    return np.sort(np.concatenate([np.asarray(part, np.float64) for part in parts]), kind="stable")


def _number_of_values(sizes: Sequence[int]) -> int:
    total = sum(size << level for level, size in enumerate(sizes))
    if total >= _MAX_VALUES:
        msg = "sketches of 2 ** 63 values or more cannot be merged"
        raise CorruptStateError(msg)
    return total
