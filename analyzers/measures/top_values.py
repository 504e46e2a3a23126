"""Approximate, mergeable most frequent values (top-k): TopValues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, Sketch, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Interval, Metric, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import TEXT, Field, Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import State, register_state
from tidegauge.analyzers.measures.histogram import MAX_KEY_CHARS, escaped
from tidegauge.analyzers.measures.serialized_layouts import require_frequent_items

if TYPE_CHECKING:
    from datasketches import frequent_strings_sketch

EVICTION_LOAD = 0.75
"""Load factor at which a sketch starts to evict rare values."""
MAX_TRACKED = 10_000


def _read(sketch: bytes) -> frequent_strings_sketch:
    from datasketches import frequent_strings_sketch

    return frequent_strings_sketch.deserialize(bytes(sketch))


@dataclass(frozen=True, slots=True)
class TopValue:
    """Estimated number of occurrences of a value, and guaranteed bounds."""

    estimate: int
    lower: int
    upper: int


@register_state("frequent-items/1")
@dataclass(frozen=True, slots=True)
class FrequentItemsState(State):
    """An Apache DataSketches frequent-items sketch of strings. Empty bytes are the empty sketch.

    The error of a count is at most 3.5 / slots of all values (Anderson et al., 2017). Sketches of any size
    can be merged; their errors add up.
    """

    depends_on_types: ClassVar[bool] = True
    sketch: bytes = b""

    @classmethod
    def from_sketches(cls, sketches: Iterable[bytes] | None) -> Self:
        """Build a state from serialized sketches, of Spark or of its Python workers."""
        read = map(_read, sketches or ())
        return cls.merge(cls(sketch.serialize()) for sketch in read if not sketch.is_empty())

    def combine(self, other: Self) -> Self:
        """Merge the sketches."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge all sketches, in the order of their bytes: which values are dropped depends on it."""
        filled = [state for state in states if state.sketch]
        if len(filled) < 2:
            return filled[0] if filled else cls()
        merged, *others = (_read(sketch) for sketch in sorted(state.sketch for state in filled))
        for sketch in others:
            merged.merge(sketch)
        return cls(merged.serialize())

    @property
    def count(self) -> int:
        """The number of values."""
        return int(_read(self.sketch).total_weight) if self.sketch else 0

    def top(self, number: int | None = None) -> dict[str, TopValue]:
        """Return the values with the greatest estimates, greatest first."""
        if not self.sketch:
            return {}
        from datasketches import frequent_items_error_type as kind

        items = _read(self.sketch).get_frequent_items(kind.NO_FALSE_NEGATIVES, 0)
        items = sorted(items, key=lambda item: (-item[1], item[0]))[:number]
        return {value: TopValue(estimate, low, high) for value, estimate, low, high in items}

    def greatest(self) -> TopValue:
        """Return the greatest count of a value; its lower bound is 0 if no value was retained."""
        top_value = next(iter(self.top(1).values()), None)
        return top_value or TopValue(0, 0, _read(self.sketch).get_upper_bound(""))

    def agrees_with(self, other: Self) -> bool:
        """Return whether the counts are equal and the bounds of each value overlap."""
        if self.count != other.count:
            return False
        if not self.sketch:
            return True
        own_top, other_top = self.top(), other.top()
        a, b = _read(self.sketch), _read(other.sketch)
        return all(
            a.get_lower_bound(value) <= b.get_upper_bound(value)
            and b.get_lower_bound(value) <= a.get_upper_bound(value)
            for value in {*own_top, *other_top}
        )

    def forget(self, value: str, token: str) -> Self:
        """Replace a value by a token in the sketch's bytes; its counts and bounds do not change.

        The sketch has no operation for it. Its format is 32 bytes, a count of 8 bytes for each value,
        and the values in the same order, each after its length.
        """
        if value.encode() not in self.sketch:
            return self
        (number,) = unpack_from("<I", self.sketch, 8)
        at = head = 32 + 8 * number
        texts = []
        for _ in range(number):
            (length,) = unpack_from("<I", self.sketch, at)
            texts.append(self.sketch[at + 4 : at + 4 + length])
            at += 4 + length
        if at != len(self.sketch) or value.encode() not in texts:
            return self
        items = (token.encode() if text == value.encode() else text for text in texts)
        changed = b"".join(pack("<I", len(text)) + text for text in items)
        return type(self)(self.sketch[:head] + changed)

    def pack(self) -> bytes:
        """Return the sketch's own bytes."""
        return self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        if payload:
            require_frequent_items(payload)
            _read(payload)  # raises an error if the bytes are damaged
        return cls(payload)


@dataclass(frozen=True)
class TopDistribution:
    """Value of a TopValues metric.

    Attributes
    ----------
    values : mapping of str to TopValue
        Most frequent first.
    count : int
        Number of non-null values.

    Examples
    --------
    >>> found = TopDistribution({"EWR": TopValue(3, 3, 3), "JFK": TopValue(1, 1, 1)}, count=4)
    >>> found.estimates(), dict(found.scalars())["ratio.EWR"]
    ({'EWR': 3, 'JFK': 1}, 0.75)
    """

    values: Mapping[str, TopValue]
    count: int

    def __getitem__(self, key: str) -> TopValue:
        return self.values[key]

    def estimates(self) -> dict[str, int]:
        """Return the estimated number of occurrences of each value."""
        return {key: value.estimate for key, value in self.values.items()}

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``abs.value`` and ``ratio.value`` for each value."""
        for key, value in self.values.items():
            yield f"abs.{key}", value.estimate
            yield f"ratio.{key}", value.estimate / self.count


TopValuesMetric = Metric[TopDistribution]


_EPOCH_SQL = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def _text(field: Field) -> str:
    """Return SQL for a value as a string, which is the same in all sessions; see `bin_key`."""
    if field.kind in TEXT:
        return field.uncollated_sql
    if field.kind == "binary":
        return f"lower(hex({field.sql}))"
    if field.kind == "decimal":
        return field.decimal_text_sql
    if field.kind == "timestamp":  # the cast of one depends on the session's time zone
        value = f"({_EPOCH_SQL} + unix_micros({field.sql}) * INTERVAL '0.000001' SECOND)"
    else:
        value = field.zero_normalized_sql
    return f"CAST({value} AS STRING)"


def bounded_text(field: Field) -> str:
    """Return SQL for a value as a string. A long value becomes its first 200 characters and a digest."""
    text = _text(field)
    if field.kind not in {*TEXT, "binary"}:
        return text
    digest = f"concat(left({text}, {MAX_KEY_CHARS}), '~', left(sha2({text}, 256), 16))"
    return f"CASE WHEN char_length({text}) > {MAX_KEY_CHARS} THEN {digest} ELSE {text} END"


@analyzer
class TopValues(ColumnAnalyzer[FrequentItemsState, TopDistribution]):
    """Most frequent values of a column, with estimated counts and shares of all non-null values.

    It needs bounded memory and no shuffle, for any number of values. The counts are exact if all distinct
    values are tracked. The metric's interval holds guaranteed bounds. Empty
    metric if there are no values. Values are written as in `Histogram`; a long string is stored as its first
    200 characters and a digest. Sketches of earlier versions, which wrote timestamps and binary values
    differently, still merge. Such values then occur in both forms. Numbers of different types are different
    strings: 1 and 1.0, or 1.50 and 1.500 for decimals with two and three places.

    Parameters
    ----------
    column : str
        The column.
    k : int
        Number of values to report.
    tracked : int
        Number of values to track, at most 10,000. A count is off by at most about 2.6 / ``tracked`` of the
        number of all values.

    Examples
    --------
    >>> TopValues("city", k=3)
    TopValues('city', k=3)
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = FrequentItemsState
    state_bytes: ClassVar[int] = 1 << 13

    k: int = 10
    tracked: int = 300

    def scale_of(self, metric_name: str) -> Scale:
        """Return the ratio scale for shares, count otherwise."""
        return Scale.RATIO if metric_name.startswith("TopValues.ratio.") else Scale.COUNT

    def check_parameters(self) -> None:
        """Require 1 <= k <= tracked <= 10 000."""
        if not 1 <= self.k <= self.tracked <= MAX_TRACKED:
            msg = f"{self!r}: 1 <= k <= tracked <= {MAX_TRACKED} must hold"
            raise IllegalAnalyzerParameterError(msg)

    def statistic(self) -> str:
        """Return the statistic key of the sketch, whose number of slots is a power of two."""
        return canonical_json(
            {
                "state": "frequent-items",
                "column": self.column,
                "lg_slots": ceil(log2(self.tracked / EVICTION_LOAD)),
                "where": self.where,
            }
        )

    def aggregations(self, schema: Schema) -> Sequence[Sketch]:
        """Return the sketch of the values as strings of bounded length."""
        values = where_holds(self.where, bounded_text(self.field(schema)))
        return (Sketch("frequent", values, self.tracked),)

    def fold(self, cells: Sequence[Any]) -> FrequentItemsState:
        """Return the state of the sketch."""
        return FrequentItemsState.from_sketches(cells[0])

    def measure(self, state: FrequentItemsState) -> TopDistribution:
        """Return the most frequent values."""
        if not state.sketch:
            raise self.no_data()
        top_by_value = {escaped(value): top for value, top in state.top(self.k).items()}
        return TopDistribution(top_by_value, state.count)

    def interval(self, state: FrequentItemsState) -> Mapping[str, Interval]:
        """Return the sketch's own bounds of each count and share."""
        distribution, intervals = self.measure(state), {}
        for key, top in distribution.values.items():
            intervals[f"abs.{key}"] = Interval(top.lower, top.upper, 1.0)
            low, high = top.lower / distribution.count, top.upper / distribution.count
            intervals[f"ratio.{key}"] = Interval(low, high, 1.0)
        return intervals
