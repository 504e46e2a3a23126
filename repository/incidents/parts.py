"""Part-whole relations between series: by segment, filter or histogram bin. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.repository.store.rows import SeriesIdentity

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
