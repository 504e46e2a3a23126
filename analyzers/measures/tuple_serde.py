"""Serialization of tuple sketch summaries. Imports datasketches, so import it lazily."""

from __future__ import annotations

import struct

from datasketches import PyObjectSerDe

_SUMMARY = struct.Struct("<iB")
"""A count, and the mode in which Spark adds counts."""


class SingleOrRepeatedSerDe(PyObjectSerDe):  # type: ignore[misc]  # the package has no types
    """Serializer of Spark's counts that keeps only whether a count is 1 or more than 1."""

    def get_size(self, item: int) -> int:
        """Return the size of a summary in bytes."""
        return _SUMMARY.size

    def to_bytes(self, item: int) -> bytes:
        """Serialize a summary."""
        return _SUMMARY.pack(min(item, 2), 0)

    def from_bytes(self, data: bytes, offset: int) -> tuple[int, int]:
        """Deserialize a summary; return it with its size in bytes."""
        count, _ = _SUMMARY.unpack_from(data, offset)
        return (1 if count == 1 else 2), _SUMMARY.size
