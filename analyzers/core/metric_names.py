"""Names of metrics and series in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegauge.analyzers.core.formatting import DURATION

_HISTOGRAM = re.compile(r"Histogram\.(?P<of>abs|ratio)\.(?P<value>.+)", re.DOTALL)
_QUANTILE = re.compile(r"(?:Approx|Exact|Req)Quantiles?-([0-9.]+)")
_DURATIONS = frozenset({"Freshness"})
"""Metrics that are lengths of time in seconds."""
_TIMES = {"MinTime": "earliest", "MaxTime": "latest"}
_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


def written_scale(name: str, scale: str) -> str:
    """Return the scale by which values of a metric are written: `DURATION` for lengths of time.

    Examples
    --------
    >>> written_scale("Freshness", "signed"), written_scale("Size", "count")
    ('duration', 'count')
    """
    return DURATION if name in _DURATIONS else scale


def subject(series: Mapping[str, Any]) -> str:
    """Describe a series in text: metric, instance, filter and segment.

    Examples
    --------
    >>> row = {"name": "Completeness", "instance": "dep_time", "filter": "origin = 'EWR'", "segment": ""}
    >>> subject(row)
    "Completeness of dep_time where origin = 'EWR'"
    """
    where = f" where {series['filter']}" if series["filter"] else ""
    among = f" in {series['segment']}" if series["segment"] else ""
    return f"{metric_text(series['name'], series['instance'])}{where}{among}"


def metric_text(name: str, instance: str) -> str:
    """Describe a metric of a column, or of several or all.

    Examples
    --------
    >>> metric_text("Mean", "dep_delay")
    'Mean of dep_delay'
    >>> metric_text("ApproxQuantile-0.5", "dep_delay"), metric_text("ApproxQuantiles-0.9", "dep_delay")
    ('median dep_delay', '90th percentile of dep_delay')
    >>> metric_text("Histogram.abs.EV", "carrier"), metric_text("Histogram.ratio.EV", "carrier")
    ('rows with carrier EV', 'share of rows with carrier EV')
    >>> metric_text("MaxTime", "created_at")
    'latest created_at'
    """
    histogram = _HISTOGRAM.fullmatch(name)
    if histogram:
        share = "share of " if histogram["of"] == "ratio" else ""
        return f"{share}rows with {instance} {histogram['value']}"
    if name == "Histogram.bins":
        return f"distinct values of {instance}"
    if name in _TIMES:
        return f"{_TIMES[name]} {instance}"
    quantile = _QUANTILE.fullmatch(name)
    if quantile:
        percent = float(quantile[1]) * 100
        if percent == 50:
            return f"median {instance}"
        return f"{_ordinal(percent)} percentile of {instance}"
    return name if instance == "*" else f"{name} of {instance}"


def _ordinal(number: float) -> str:
    special = number % 1 or 10 < number % 100 < 14
    return f"{number:g}{'th' if special else _ORDINALS.get(int(number) % 10, 'th')}"
