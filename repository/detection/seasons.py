"""Seasons of stored series, as a detector has learned them."""

from __future__ import annotations

from typing import Any

from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.repository.detection.replay import BacktestHistory
from tidegauge.repository.detectors.base import DETECTORS, Detector
from tidegauge.repository.detectors.matrices import group_by_segment, matrix
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.detectors.seasonality import learned_seasons
from tidegauge.repository.rollups.compute import within as is_within
from tidegauge.repository.store.frames import columns

SEASON_COLUMNS = columns("segment name instance analyzer seasons")


def seasonal_of(given: Detector | str) -> Seasonal:
    """Return a detector, or that of a text, if it is `Seasonal`.

    Raises
    ------
    SuiteError
        If it is another.
    UnknownNameError
        If there is no such detector.
    """
    found = DETECTORS.parse(given) if isinstance(given, str) else given
    if not isinstance(found, Seasonal):
        msg = f"{found!r} learns no seasons; take Seasonal(), with options if any"
        raise SuiteError(msg)
    return found


def season_rows(past: BacktestHistory, detector: Seasonal) -> list[dict[str, Any]]:
    """Return the seasons of each series that is long enough to be scored, as in `SEASON_COLUMNS`."""
    found = []
    for within, places in group_by_segment(past.facts.partitions).items():
        one = matrix(past.facts, places, detector.reads, detector.least, past.teaching)
        for row, seasons in zip(one.series, learned_seasons(one.history, detector), strict=True):
            nested = is_within(row["segment"], within)
            segment = row["segment"] if nested else f"{within}/{row['segment']}".rstrip("/")
            told = (segment, row["name"], row["instance"], row["analyzer"], seasons)
            found.append(dict(zip(SEASON_COLUMNS, told, strict=True)))
    return found
