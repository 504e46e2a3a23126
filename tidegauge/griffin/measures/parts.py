"""Composite state of several states side by side."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from tidegauge.analyzers.core.state import State, mismatch, read_state, register_state

_LENGTHS = struct.Struct("<HI")


@register_state("griffin-parts/1")
@dataclass(frozen=True, slots=True)
class Parts(State):
    """States of different types over the same rows; empty for no data.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> from tidegauge.analyzers.measures.sums import SumAndCount
    >>> Parts((NumMatches(2), SumAndCount(5, 1))) + Parts((NumMatches(3), SumAndCount(7, 3)))
    Parts(parts=(NumMatches(num_matches=5), SumAndCount(total=12, count=4)))
    """

    parts: tuple[Any, ...] = ()

    def combine(self, other: Self) -> Self:
        """Merge each part with its counterpart."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge states part by part."""
        filled = [state.parts for state in states if state.parts]
        if not filled:
            return cls()
        for parts in filled:
            kinds, first = ([type(part).__name__ for part in some] for some in (parts, filled[0]))
            if kinds != first:
                raise mismatch("parts", first, kinds)
        return cls(tuple(type(column[0]).merge(column) for column in zip(*filled, strict=True)))

    def agrees_with(self, other: Self) -> bool:
        """Return whether each part agrees with its counterpart."""
        pairs = zip(self.parts, other.parts, strict=False)
        return len(self.parts) == len(other.parts) and all(a.agrees_with(b) for a, b in pairs)

    def forget(self, value: str, token: str) -> Self:
        """Replace a value by a token in each part."""
        parts = tuple(part.forget(value, token) for part in self.parts)
        same = all(new is old for new, old in zip(parts, self.parts, strict=True))
        return self if same else type(self)(parts)

    def pack(self) -> bytes:
        """Serialize each part as lengths, tag and payload."""
        return b"".join(_packed(part) for part in self.parts)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        return cls(tuple(_unpacked(payload)))


def _packed(part: State) -> bytes:
    tag, payload = part.tag.encode(), part.pack()
    return _LENGTHS.pack(len(tag), len(payload)) + tag + payload


def _unpacked(payload: bytes) -> Iterator[State]:
    at = 0
    while at < len(payload):
        of_tag, of_part = _LENGTHS.unpack_from(payload, at)
        start = at + _LENGTHS.size + of_tag
        at = start + of_part
        if at > len(payload):
            msg = "it ends within a part"
            raise ValueError(msg)
        yield read_state(payload[start - of_tag : start].decode(), payload[start:at])
