"""Input sets of folded states: partition versions, stored as ranges: most are consecutive."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegauge.analyzers.core.description import canonical_json

TOTAL = "total"
REMOVED = "removed"
"""Names of the folded states: of all partitions, and of those whose states were cleaned away."""


def encode_inputs(versions: Mapping[int, int]) -> str:
    """Encode partition versions as stored: first and last id of a range, version.

    Examples
    --------
    >>> encode_inputs({1: 1, 2: 1, 3: 2, 5: 2})
    '[[1,2,1],[3,3,2],[5,5,2]]'
    """
    rows: list[list[int]] = []
    for partition, version in sorted(versions.items()):
        if rows and rows[-1][1] == partition - 1 and rows[-1][2] == version:
            rows[-1][1] = partition
        else:
            rows.append([partition, partition, version])
    return canonical_json(rows)


def decode_inputs(text: str) -> dict[int, int]:
    """Decode the text that `encode_inputs` wrote.

    Examples
    --------
    >>> decode_inputs("[[1,2,1],[3,3,2]]")
    {1: 1, 2: 1, 3: 2}
    """
    rows = json.loads(text)
    return {p: version for first, last, version in rows for p in range(first, last + 1)}
