"""Histogram of distinct values: Histogram."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import singledispatch
from math import isfinite, isnan
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Metric, Scale
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows, GroupingAnalyzer

NULL_KEY = "NullValue"
MAX_DETAIL_BINS = 1000
LONGEST_KEY = 200
"""Characters of a value in its bin key; a longer value ends with a digest."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # no database accepts all of them


@dataclass(frozen=True, slots=True)
class DistributionValue:
    """Count of one value, and its share of all rows."""

    absolute: int
    ratio: float


@dataclass(frozen=True)
class Distribution:
    """Value of a Histogram or DataType metric.

    Attributes
    ----------
    values : mapping of str to DistributionValue
        The most frequent values, most frequent first.
    number_of_bins : int
        Number of distinct values, null included.
    tail_count : int
        Number of rows whose values are not in `values`.
    """

    values: Mapping[str, DistributionValue]
    number_of_bins: int
    tail_count: int = 0

    def __getitem__(self, key: str) -> DistributionValue:
        return self.values[key]

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``bins``, ``abs.value`` and ``ratio.value`` per value, and any ``tailCount``."""
        yield "bins", self.number_of_bins
        for key, value in self.values.items():
            yield f"abs.{key}", value.absolute
            yield f"ratio.{key}", value.ratio
        if self.tail_count:
            yield "tailCount", self.tail_count

    def tabulated(self) -> tuple[Sequence[str], int, Iterator[tuple[str, int, str]]]:
        """Return the notebook table: each value with its count and share."""
        rows = ((k, v.absolute, f"{100 * v.ratio:.3g} %") for k, v in self.values.items())
        return ("value", "rows", "share"), self.number_of_bins, rows


HistogramMetric = Metric[Distribution]


@singledispatch
def bin_key(value: Any) -> str:
    r"""Return the bin key of a value as text: what Spark's CAST gives, and so Deequ's key.

    Null is ``NullValue``. Floats are written as ``0.1`` and ``1.0E20``, timestamps in UTC as
    ``2020-01-01 10:00:00.5``, binary as lower-case hexadecimal digits. A text equal to ``NullValue``,
    or beginning with a backslash, is escaped by a leading backslash, so that no two values share a
    bin. Control characters are written as ``\x00``. Of a text of more than 200 characters, the first
    200 and a digest are the key.

    Examples
    --------
    >>> [bin_key(v) for v in (None, "NullValue", 1.0, True, b"\x01")]
    ['NullValue', '\\NullValue', '1.0', 'true', '01']
    """
    return str(value)


@bin_key.register
def _(value: None) -> str:
    return NULL_KEY


@bin_key.register
def _(value: str) -> str:
    return escaped(_shortened(value))


def escaped(text: str) -> str:
    r"""Escape a text that is no longer than a key may be, as in `bin_key`.

    Examples
    --------
    >>> print(escaped("a\nb"), escaped("NullValue"))
    a\x0ab \NullValue
    """
    text = "\\" + text if text == NULL_KEY or text.startswith("\\") else text
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_KEY:
        return text
    return f"{text[:LONGEST_KEY]}~{key_of(text)[:16]}"


@bin_key.register
def _(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


@bin_key.register
def _(value: float) -> str:
    return _float_text(value, repr(value))


@bin_key.register
def _(value: Decimal) -> str:
    return f"{value:f}"


@bin_key.register
def _(value: bytes) -> str:
    return _shortened(value.hex())


@bin_key.register
def _(value: dt.date) -> str:
    return value.isoformat()


@bin_key.register
def _(value: dt.datetime) -> str:
    utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return utc.isoformat(" ").rstrip("0") if utc.microsecond else utc.isoformat(" ")


def _float_text(value: float, shortest: str) -> str:
    """Lay the shortest digits of a float out as Java and Spark do."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, numbers, exponent = Decimal(shortest).as_tuple()
    digits = "".join(map(str, numbers)).rstrip("0") or "0"
    point = len(numbers) + int(exponent)
    minus = "-" if sign else ""
    if value and not _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    digits = digits.rjust(len(digits) - point + 1, "0") if point < 1 else digits.ljust(point, "0")
    point = max(point, 1)
    return f"{minus}{digits[:point]}.{digits[point:] or '0'}"


_PLAIN = (1e-3, 1e7)
"""Where floats are written without an exponent."""


def counts_by_key(state: FrequenciesAndNumRows) -> Iterator[tuple[str, int]]:
    """Yield the bin key and the number of rows of each value of a single column, nulls left out.

    Floats of 32 bits have fewer digits than the doubles that Python makes of them.

    Examples
    --------
    >>> list(counts_by_key(FrequenciesAndNumRows.of([((1e20,), 2), ((0.1,), 1)])))
    [('1.0E20', 2), ('0.1', 1)]
    """
    if str(state.frequencies.schema.types[0]) == "float":
        import numpy as np

        for (value,), count in state.groups():
            if value is not None:
                shortest = np.format_float_scientific(np.float32(value))
                yield _float_text(value, shortest), count
        return
    yield from ((bin_key(value), count) for (value,), count in state.groups() if value is not None)


@analyzer
class Histogram(GroupingAnalyzer[Distribution]):
    """Count and share of each value of a column, null being a value. No bins for no rows.

    Shares are relative to the rows where the filter is true.

    Parameters
    ----------
    column : str
    max_detail_bins : int
        Number of values to keep, by descending count and then by value: 1 to 1000. The others are
        counted together.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.of([(("a",), 1), (("b",), 3)], num_nulls=1)
    >>> metric = Histogram("x", max_detail_bins=2).compute_metric_from(state)
    >>> metric.value["b"], metric.value.number_of_bins, metric.value.tail_count
    (DistributionValue(absolute=3, ratio=0.6), 3, 1)
    """

    scale: ClassVar[Scale] = Scale.COUNT

    column: str
    max_detail_bins: int = MAX_DETAIL_BINS

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def scale_of(self, metric_name: str) -> Scale:
        """Return the ratio scale for shares, count otherwise."""
        return Scale.RATIO if metric_name.startswith("Histogram.ratio.") else Scale.COUNT

    def check_parameters(self) -> None:
        """Require a number of bins from 1 to 1000."""
        if not 1 <= self.max_detail_bins <= MAX_DETAIL_BINS:
            msg = f"{self!r}: max_detail_bins lies between 1 and {MAX_DETAIL_BINS}"
            raise IllegalAnalyzerParameterError(msg)

    def measure(self, state: FrequenciesAndNumRows) -> Distribution:
        """Rank the groups by count and keep the most frequent."""
        counts = list(counts_by_key(state))
        if state.num_nulls:
            counts.append((NULL_KEY, state.num_nulls))
        counts.sort(key=lambda pair: (-pair[1], pair[0]))
        kept, tail = counts[: self.max_detail_bins], counts[self.max_detail_bins :]
        rows = self.weight(state)
        values = {key: DistributionValue(count, count / rows) for key, count in kept}
        return Distribution(values, len(counts), sum(count for _, count in tail))

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows, nulls included."""
        return state.num_rows + state.num_nulls
