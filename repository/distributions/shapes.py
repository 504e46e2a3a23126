"""Distribution of a column's values from stored states: quantiles or category counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from tidegauge.analyzers.core.errors import StateMismatchError
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.frequencies import COUNT, FrequenciesAndNumRows
from tidegauge.analyzers.measures.histogram import counts_by_key, escaped
from tidegauge.analyzers.measures.quantiles import ROUNDING, KllState, KllUnion
from tidegauge.analyzers.measures.req import ReqState
from tidegauge.analyzers.measures.top_values import FrequentItemsState

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Empirical distribution of numbers: a step function that rises at each value.

    Nulls and NaN are left out, infinities stay. Equal values are one step. Create it with `from_values`.

    Attributes
    ----------
    values : array of float
        Strictly increasing.
    cumulative : array of float
        Number of rows with at most each value; the last is the number of rows.
    error : float
        Rank error: by how much a share may be off, at the sketch's confidence; 0 if exact.

    Examples
    --------
    >>> q = Quantiles.from_values([3, 1, 3, float("nan")])
    >>> q.rows, q.count_at_most([1, 2, 3]).tolist(), q.at([0, 0.5, 1]).tolist()
    (3.0, [1.0, 1.0, 3.0], [1.0, 3.0, 3.0])
    """

    values: Floats
    cumulative: Floats
    error: float = 0.0

    @classmethod
    def from_values(
        cls, values: ArrayLike, weights: ArrayLike | None = None, error: float = 0.0
    ) -> Self:
        """Create a distribution from values in any order.

        Parameters
        ----------
        values : array of float
        weights : array of float, optional
            Number of rows that each value stands for; one if not given. Values of no rows are left
            out.
        error : float
        """
        found = np.asarray(values, dtype=float)
        rows = np.ones(found.shape) if weights is None else np.asarray(weights, dtype=float)
        kept = ~np.isnan(found) & (rows > 0)
        found, rows = found[kept], rows[kept]
        order = np.argsort(found, kind="stable")  # fast if parts are already sorted
        found = found[order]
        last = np.append(found[1:] != found[:-1], True)[: found.size]  # of equal values
        return cls(found[last], np.cumsum(rows[order])[last], error)

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """Merge distributions of disjoint rows without loss; rank errors are weighted by rows."""
        some = [part for part in parts if part.rows]
        if len(some) < 2:
            return some[0] if some else cls.from_values([])
        rows = sum(part.rows for part in some)
        error = sum(part.error * part.rows for part in some) / rows
        values = np.concatenate([part.values for part in some])
        return cls.from_values(values, np.concatenate([part.weights for part in some]), error)

    @property
    def rows(self) -> float:
        """Number of values."""
        return float(self.cumulative[-1]) if self.cumulative.size else 0.0

    @property
    def weights(self) -> Floats:
        """Number of rows with each value."""
        return np.diff(self.cumulative, prepend=0.0)

    def count_at_most(self, values: ArrayLike) -> Floats:
        """Return the number of rows with at most each of the given values."""
        return self._before(values, "right")

    def count_below(self, values: ArrayLike) -> Floats:
        """Return the number of rows with less than each of the given values."""
        return self._before(values, "left")

    def at(self, ranks: ArrayLike) -> Floats:
        """Return quantiles: the least value that each share of rows does not exceed, or NaN."""
        wanted = np.asarray(ranks, dtype=float) * self.rows * (1 - ROUNDING)
        if not self.rows:
            return np.full(wanted.shape, np.nan)
        place = np.searchsorted(self.cumulative, wanted)
        return self.values[np.minimum(place, self.values.size - 1)]

    def _before(self, values: ArrayLike, side: str) -> Floats:
        place = np.searchsorted(self.values, np.asarray(values, dtype=float), side=side)  # type: ignore[call-overload]
        found: Floats = np.concatenate([[0.0], self.cumulative])[place]
        return found


def is_numeric(state: State | KllUnion) -> bool:
    """Return whether a state is a quantile sketch, or frequencies of a numeric column."""
    if not isinstance(state, FrequenciesAndNumRows):
        return isinstance(state, KllState | KllUnion | ReqState)
    import pyarrow as pa

    t = pa.types
    kind = state.frequencies.schema.field(0).type
    return state.frequencies.num_columns == 2 and any(
        test(kind) for test in (t.is_integer, t.is_floating, t.is_decimal)
    )


def quantiles_of(state: State | KllUnion) -> Quantiles:
    """Return the numeric distribution of a KLL or REQ sketch, or of frequencies.

    A sketch is read as its retained values, each weighted by the rows it stands for. So sketches of
    any size merge, always with the same result.

    Raises
    ------
    StateMismatchError
        If the state holds no numeric distribution.

    Examples
    --------
    >>> quantiles_of(FrequenciesAndNumRows.from_groups([((2,), 3), ((5,), 1)])).cumulative.tolist()
    [3.0, 4.0]
    """
    if isinstance(state, KllState | KllUnion | ReqState):
        kept = np.array(list(state.kept()), dtype=float).reshape(-1, 2)
        whole = bool(np.all(kept[:, 1] == 1))
        return Quantiles.from_values(kept[:, 0], kept[:, 1], 0.0 if whole else state.rank_error())
    if isinstance(state, FrequenciesAndNumRows):
        if not state.num_groups:
            return Quantiles.from_values([])
        if is_numeric(state):
            values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
            return Quantiles.from_values(values, state.frequencies[COUNT].to_numpy())
    msg = f"a {type(state).__name__} does not tell the quantiles of numbers"
    raise StateMismatchError(msg)


def categories_of(state: State | KllUnion) -> Counter[str]:
    """Return row counts by value, as text as in `Histogram`; nulls are left out.

    Raises
    ------
    StateMismatchError
        If the state is neither frequencies nor a sketch that tracked every value.

    Examples
    --------
    >>> categories_of(FrequenciesAndNumRows.from_groups([(("a",), 3), ((None,), 1)], num_nulls=2))
    Counter({'a': 3})
    """
    if isinstance(state, FrequentItemsState):
        found = {escaped(value): top.lower for value, top in state.top().items()}
        if sum(found.values()) < state.count:
            msg = "there were more values than were tracked; raise tracked= of TopValues, or add a Histogram"
            raise StateMismatchError(msg)
        return Counter(found)
    if not isinstance(state, FrequenciesAndNumRows):
        msg = f"a {type(state).__name__} does not tell how often each value occurs"
        raise StateMismatchError(msg)
    return Counter(dict(counts_by_key(state)))
