"""Which partitions, at which versions, went into a sum; short, because most follow each other."""

from __future__ import annotations

import json
from collections.abc import Mapping

from analyzers.description import canonical_json


def inputs_text(versions: Mapping[int, int]) -> str:
    """Return partitions and their versions as they are stored: first and last of a row, version.

    Examples
    --------
    >>> inputs_text({1: 1, 2: 1, 3: 2, 5: 2})
    '[[1,2,1],[3,3,2],[5,5,2]]'
    """
    rows: list[list[int]] = []
    for partition, version in sorted(versions.items()):
        if rows and rows[-1][1] == partition - 1 and rows[-1][2] == version:
            rows[-1][1] = partition
        else:
            rows.append([partition, partition, version])
    return canonical_json(rows)


def inputs_of(text: str) -> dict[int, int]:
    """Read what `inputs_text` wrote.

    Examples
    --------
    >>> inputs_of("[[1,2,1],[3,3,2]]")
    {1: 1, 2: 1, 3: 2}
    """
    rows = json.loads(text)
    return {p: version for first, last, version in rows for p in range(first, last + 1)}
