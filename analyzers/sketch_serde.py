"""How summaries in tuple sketches are written. Imports datasketches, so import it where it is needed."""

from __future__ import annotations

import struct

from datasketches import PyObjectSerDe

_SUMMARY = struct.Struct("<iB")
"""A count, and how Spark adds counts."""


class OnceOrMore(PyObjectSerDe):  # type: ignore[misc]  # the package has no types
    """Reads counts that Spark wrote, and keeps whether each is 1 or more, which is all that is asked."""

    def get_size(self, item: int) -> int:  # noqa: ARG002
        """Return the bytes that a summary takes."""
        return _SUMMARY.size

    def to_bytes(self, item: int) -> bytes:
        """Write a summary."""
        return _SUMMARY.pack(min(item, 2), 0)

    def from_bytes(self, data: bytes, offset: int) -> tuple[int, int]:
        """Read a summary, and return the bytes that it took."""
        count, _ = _SUMMARY.unpack_from(data, offset)
        return (1 if count == 1 else 2), _SUMMARY.size
