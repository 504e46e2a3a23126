"""The most frequent values, approximately and mergeably: TopValues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, analyzer
from analyzers.description import canonical_json
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.histogram import LONGEST_KEY, bin_key
from analyzers.metric import Interval, Metric, Scale
from analyzers.schema import TEXT, Schema
from analyzers.sql import one_zero, where_holds
from analyzers.state import State, register_state

if TYPE_CHECKING:
    from datasketches import frequent_strings_sketch

_FULL = 0.75
"""The share of its slots that a sketch fills before it forgets rare values."""
MOST_TRACKED = 10_000


def _read(sketch: bytes) -> frequent_strings_sketch:
    from datasketches import frequent_strings_sketch  # noqa: PLC0415 - heavy, not needed to describe

    return frequent_strings_sketch.deserialize(bytes(sketch))


@dataclass(frozen=True, slots=True)
class TopValue:
    """How often a value occurs: an estimate, and bounds that hold for certain."""

    estimate: int
    lower: int
    upper: int


@register_state("frequent-items/1")
@dataclass(frozen=True, slots=True)
class FrequentItemsState(State):
    """An Apache DataSketches frequent-items sketch of texts; no bytes are the sketch of nothing.

    The error of a count is at most 3.5 / slots of all values (Anderson and others, 2017). Sketches of
    any size add; the errors add too.
    """

    sketch: bytes = b""

    @classmethod
    def of(cls, raw: bytes | None) -> Self:
        """Make one of the bytes in what Spark's ``approx_top_k_accumulate`` returns."""
        if raw is None:
            return cls()
        sketch = _read(raw)
        return cls() if sketch.is_empty() else cls(sketch.serialize())

    def combine(self, other: Self) -> Self:
        """Merge the sketches."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge all into one accumulator."""
        filled = [state for state in states if state.sketch]
        if len(filled) < 2:  # noqa: PLR2004
            return filled[0] if filled else cls()
        merged = _read(filled[0].sketch)
        for state in filled[1:]:
            merged.merge(_read(state.sketch))
        return cls(merged.serialize())

    @property
    def count(self) -> int:
        """The number of values."""
        return int(_read(self.sketch).total_weight) if self.sketch else 0

    def top(self, number: int | None = None) -> dict[str, TopValue]:
        """Return the values with the greatest estimates, greatest first."""
        if not self.sketch:
            return {}
        from datasketches import frequent_items_error_type as kind  # noqa: PLC0415

        found = _read(self.sketch).get_frequent_items(kind.NO_FALSE_NEGATIVES, 0)
        found = sorted(found, key=lambda item: (-item[1], item[0]))[:number]
        return {value: TopValue(estimate, low, high) for value, estimate, low, high in found}

    def agrees_with(self, other: Self) -> bool:
        """Whether the numbers of values are equal, and each value's bounds meet."""
        if self.count != other.count:
            return False
        if not self.sketch:
            return True
        ours, theirs = self.top(), other.top()
        a, b = _read(self.sketch), _read(other.sketch)
        return all(
            a.get_lower_bound(value) <= b.get_upper_bound(value)
            and b.get_lower_bound(value) <= a.get_upper_bound(value)
            for value in {*ours, *theirs}
        )

    def pack(self) -> bytes:
        """Return the sketch's own bytes."""
        return self.sketch

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        if payload:
            _read(payload)  # raises on damage
        return cls(payload)


@dataclass(frozen=True)
class TopDistribution:
    """The value of a TopValues.

    Attributes
    ----------
    values : mapping of str to TopValue
        Most frequent first.
    count : int
        All values that are not null.
    """

    values: Mapping[str, TopValue]
    count: int

    def __getitem__(self, key: str) -> TopValue:
        return self.values[key]

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``abs.value`` and ``ratio.value`` for each."""
        for key, value in self.values.items():
            yield f"abs.{key}", value.estimate
            yield f"ratio.{key}", value.estimate / self.count


TopValuesMetric = Metric[TopDistribution]


@analyzer
class TopValues(ColumnAnalyzer[FrequentItemsState, TopDistribution]):
    """The most frequent values of a column with estimated counts and shares of all non-null values.

    In bounded memory and without a shuffle, however many values there are; exact while there are no
    more of them than are tracked. Bounds stand with the metric and hold for certain. Empty if there is
    no value. Values are texts as Spark casts them; of a long one the first 200 characters and a digest
    are kept.

    Parameters
    ----------
    column : str
    k : int
        How many values to report.
    tracked : int
        How many to keep count of: a count is off by at most about 2.6 / tracked of all values.

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
        """Shares are ratios, all else are counts."""
        return Scale.RATIO if metric_name.startswith("TopValues.ratio.") else Scale.COUNT

    def check_parameters(self) -> None:
        """As many are tracked as reported."""
        if not 1 <= self.k <= self.tracked <= MOST_TRACKED:
            msg = f"{self!r}: 1 <= k <= tracked <= {MOST_TRACKED} must hold"
            raise IllegalAnalyzerParameterError(msg)

    def statistic(self) -> str:
        """The sketch, whose slots are a power of two."""
        return canonical_json(
            {
                "state": "frequent-items",
                "column": self.column,
                "lg_slots": ceil(log2(self.tracked / _FULL)),
                "where": self.where,
            }
        )

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Build the sketch of the values as texts of bounded length."""
        field = self.field(schema)
        value = one_zero(field)
        text = value if field.kind in TEXT else f"CAST({value} AS STRING)"
        if field.kind in TEXT or field.kind == "binary":
            digest = f"concat(left({text}, {LONGEST_KEY}), '~', left(sha2({text}, 256), 16))"
            text = f"CASE WHEN char_length({text}) > {LONGEST_KEY} THEN {digest} ELSE {text} END"
        values = where_holds(self.where, text)
        return (f"approx_top_k_accumulate({values}, {self.tracked}).sketch",)

    def fold(self, cells: Sequence[Any]) -> FrequentItemsState:
        """Take the sketch."""
        return FrequentItemsState.of(cells[0])

    def measure(self, state: FrequentItemsState) -> TopDistribution:
        """Ask the sketch."""
        if not state.sketch:
            raise self.no_data()
        found = {bin_key(value): top for value, top in state.top(self.k).items()}
        return TopDistribution(found, state.count)

    def interval(self, state: FrequentItemsState) -> Mapping[str, Interval]:
        """The sketch's own bounds, of each count and of each share."""
        found, intervals = self.measure(state), {}
        for key, top in found.values.items():
            intervals[f"abs.{key}"] = Interval(top.lower, top.upper, 1.0)
            low, high = top.lower / found.count, top.upper / found.count
            intervals[f"ratio.{key}"] = Interval(low, high, 1.0)
        return intervals

    def weight(self, state: FrequentItemsState) -> float:
        """Return the number of values."""
        return state.count
