"""How the values of a column are distributed, from stored states: quantiles or categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from analyzers.errors import StateMismatchError
from analyzers.frequencies import COUNT, FrequenciesAndNumRows
from analyzers.histogram import bin_key
from analyzers.quantiles import KllState
from analyzers.req import ReqState
from analyzers.state import State
from analyzers.top_values import FrequentItemsState

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_ROUNDING = 1e-12
"""What a rank may exceed a share by, and still be the same: 0.7 * 10 is more than 7."""


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A distribution of numbers: a step function that rises at each value.

    Nulls and NaN are left out, infinities stay. Equal values are one step. Made by `of`.

    Attributes
    ----------
    values : array of float
        Strictly rising.
    cumulative : array of float
        How many rows have at most each value; the last is the number of rows.
    error : float
        By how much a share may be off, at the confidence of the sketch: 0 if it is exact.

    Examples
    --------
    >>> q = Quantiles.of([3, 1, 3, float("nan")])
    >>> q.rows, q.upto([1, 2, 3]).tolist(), q.at([0, 0.5, 1]).tolist()
    (3.0, [1.0, 1.0, 3.0], [1.0, 3.0, 3.0])
    """

    values: Floats
    cumulative: Floats
    error: float = 0.0

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None, error: float = 0.0) -> Self:
        """Make one of values in any order.

        Parameters
        ----------
        values : array of float
        weights : array of float, optional
            How many rows each stands for; one if not given. Those of no rows are left out.
        error : float
        """
        found = np.asarray(values, dtype=float)
        rows = np.ones(found.shape) if weights is None else np.asarray(weights, dtype=float)
        kept = ~np.isnan(found) & (rows > 0)
        found, rows = found[kept], rows[kept]
        order = np.argsort(found, kind="stable")  # quick where parts are in order already
        found = found[order]
        last = np.append(found[1:] != found[:-1], True)[: found.size]  # of equal ones
        return cls(found[last], np.cumsum(rows[order])[last], error)

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Add up distributions of disjoint rows, without a loss: errors are weighted by rows."""
        some = [part for part in parts if part.rows]
        if len(some) < 2:  # noqa: PLR2004
            return some[0] if some else cls.of([])
        rows = sum(part.rows for part in some)
        error = sum(part.error * part.rows for part in some) / rows
        values = np.concatenate([part.values for part in some])
        return cls.of(values, np.concatenate([part.weights for part in some]), error)

    @property
    def rows(self) -> float:
        """The number of values."""
        return float(self.cumulative[-1]) if self.cumulative.size else 0.0

    @property
    def weights(self) -> Floats:
        """How many rows have each value."""
        return np.diff(self.cumulative, prepend=0.0)

    def upto(self, values: ArrayLike) -> Floats:
        """Return how many rows have at most each of some values."""
        return self._before(values, "right")

    def below(self, values: ArrayLike) -> Floats:
        """Return how many rows have less than each of some values."""
        return self._before(values, "left")

    def at(self, ranks: ArrayLike) -> Floats:
        """Return the least value that at least each share of rows does not exceed; NaN without rows."""
        wanted = np.asarray(ranks, dtype=float) * self.rows * (1 - _ROUNDING)
        if not self.rows:
            return np.full(wanted.shape, np.nan)
        place = np.searchsorted(self.cumulative, wanted)
        return self.values[np.minimum(place, self.values.size - 1)]

    def _before(self, values: ArrayLike, side: str) -> Floats:
        place = np.searchsorted(self.values, np.asarray(values, dtype=float), side=side)  # type: ignore[call-overload]
        found: Floats = np.concatenate([[0.0], self.cumulative])[place]
        return found


def is_numeric(state: State) -> bool:
    """Whether a state tells numbers: a quantile sketch, or frequencies of a numeric column."""
    if not isinstance(state, FrequenciesAndNumRows):
        return isinstance(state, KllState | ReqState)
    import pyarrow as pa  # noqa: PLC0415 - heavy, and sketches do not need it

    t = pa.types
    kind = state.frequencies.schema.field(0).type
    return state.frequencies.num_columns == 2 and any(  # noqa: PLR2004
        test(kind) for test in (t.is_integer, t.is_floating, t.is_decimal)
    )


def quantiles_of(state: State) -> Quantiles:
    """Return the numbers that a state tells: of a KLL or REQ sketch, or of frequencies.

    A sketch is read as the values that it keeps, each for as many rows as it stands for. So sketches
    of any size add up, always with the same result.

    Raises
    ------
    StateMismatchError
        If it does not tell any.

    Examples
    --------
    >>> quantiles_of(FrequenciesAndNumRows.of([((2,), 3), ((5,), 1)])).cumulative.tolist()
    [3.0, 4.0]
    """
    if isinstance(state, KllState | ReqState):
        kept = np.array(list(state.kept()), dtype=float).reshape(-1, 2)
        whole = bool(np.all(kept[:, 1] == 1))
        return Quantiles.of(kept[:, 0], kept[:, 1], 0.0 if whole else state.rank_error())
    if isinstance(state, FrequenciesAndNumRows):
        if not state.num_groups:
            return Quantiles.of([])
        if is_numeric(state):
            values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
            return Quantiles.of(values, state.frequencies[COUNT].to_numpy())
    msg = f"a {type(state).__name__} does not tell the quantiles of numbers"
    raise StateMismatchError(msg)


def categories_of(state: State) -> Counter[str]:
    """Return how many rows have each value, by its text as in `Histogram`; nulls are left out.

    Raises
    ------
    StateMismatchError
        If it is neither of frequencies nor a sketch that tracked every value.

    Examples
    --------
    >>> categories_of(FrequenciesAndNumRows.of([(("a",), 3), ((None,), 1)], num_nulls=2))
    Counter({'a': 3})
    """
    if isinstance(state, FrequentItemsState):
        found = {bin_key(value): top.lower for value, top in state.top().items()}
        if sum(found.values()) < state.count:
            msg = (
                "there were more values than TopValues tracked; raise tracked=, or add a Histogram"
            )
            raise StateMismatchError(msg)
        return Counter(found)
    if not isinstance(state, FrequenciesAndNumRows):
        msg = f"a {type(state).__name__} does not tell how often each value occurs"
        raise StateMismatchError(msg)
    return Counter({bin_key(key): n for (key,), n in state.groups() if key is not None})
