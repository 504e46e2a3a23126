"""Stored distributions of a column: quantiles or category counts, from the states of any suitable analyzer.

`StoredColumn` reads the states of a column as distributions, without Spark. Distributions of numbers are
`Quantiles`; distributions of categories are counters of values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    HistoryError,
    StateError,
    StateMismatchError,
    UnknownNameError,
    nearest,
)
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.frequencies import COUNT, FrequenciesAndNumRows
from tidegauge.analyzers.measures.histogram import counts_by_key, escaped
from tidegauge.analyzers.measures.quantiles import (
    RANK_TOLERANCE,
    KllState,
    KllUnion,
    ReqState,
    SketchPairs,
)
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.consistency_series import PREFIX, QUANTILES, TOP_SUFFIX
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.queries import AsOf, StoredState, Window, dataset_id, stored_states
from tidegauge.repository.store.stored_states import Artifacts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sqlalchemy.engine import Connection

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Empirical distribution of numbers: a step function that rises at each value.

    Nulls and NaN are left out, infinities are included. Equal values form one step. Create it with
    `from_values`.

    Attributes
    ----------
    values : array of float
        Strictly increasing.
    cumulative : array of float
        Number of rows with at most each value; the last is the number of rows.
    error : float
        Rank error: maximum error of a share, at the sketch's confidence; 0 if exact.

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
            Values in any order.
        weights : array of float, optional
            Number of rows with each value; 1 if not given. Values without rows are left out.
        error : float
            Rank error.
        """
        numbers = np.asarray(values, dtype=float)
        rows = np.ones(numbers.shape) if weights is None else np.asarray(weights, dtype=float)
        is_counted = ~np.isnan(numbers) & (rows > 0)
        numbers, rows = numbers[is_counted], rows[is_counted]
        order = np.argsort(numbers, kind="stable")  # fast if parts are already sorted
        numbers = numbers[order]
        is_last = np.append(numbers[1:] != numbers[:-1], True)[: numbers.size]  # of equal values
        return cls(numbers[is_last], np.cumsum(rows[order])[is_last], error)

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """Merge distributions of disjoint rows without loss; rank errors are weighted by rows."""
        nonempty = [part for part in parts if part.rows]
        if len(nonempty) < 2:
            return nonempty[0] if nonempty else cls.from_values([])
        rows = sum(part.rows for part in nonempty)
        error = sum(part.error * part.rows for part in nonempty) / rows
        values = np.concatenate([part.values for part in nonempty])
        return cls.from_values(values, np.concatenate([part.weights for part in nonempty]), error)

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
        """Return quantiles: for each share, the smallest value that at least this share of rows does not exceed.

        NaN without rows.
        """
        target_rows = np.asarray(ranks, dtype=float) * self.rows * (1 - RANK_TOLERANCE)
        if not self.rows:
            return np.full(target_rows.shape, np.nan)
        index = np.searchsorted(self.cumulative, target_rows)
        return self.values[np.minimum(index, self.values.size - 1)]

    def _before(self, values: ArrayLike, side: str) -> Floats:
        index = np.searchsorted(self.values, np.asarray(values, dtype=float), side=side)  # type: ignore[call-overload]
        counts: Floats = np.concatenate([[0.0], self.cumulative])[index]
        return counts


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

    A sketch is read as its retained values, weighted by the number of rows that each represents. So
    sketches of different sizes can be merged, in any order with the same result.

    Raises
    ------
    StateMismatchError
        If the state does not contain a numeric distribution.

    Examples
    --------
    >>> quantiles_of(FrequenciesAndNumRows.from_groups([((2,), 3), ((5,), 1)])).cumulative.tolist()
    [3.0, 4.0]
    """
    if isinstance(state, KllState | KllUnion | ReqState):
        items = np.array(list(state.retained_values()), dtype=float).reshape(-1, 2)
        is_exact = bool(np.all(items[:, 1] == 1))
        return Quantiles.from_values(
            items[:, 0], items[:, 1], 0.0 if is_exact else state.rank_error()
        )
    if isinstance(state, FrequenciesAndNumRows):
        if not state.num_groups:
            return Quantiles.from_values([])
        if is_numeric(state):
            values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
            return Quantiles.from_values(values, state.frequencies[COUNT].to_numpy())
    msg = f"the state {type(state).__name__} does not contain quantiles of numbers"
    raise StateMismatchError(msg)


def categories_of(state: State | KllUnion) -> Counter[str]:
    """Return row counts by value, as a string as in `Histogram`; nulls are left out.

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
        counts = {escaped(value): bounds.lower for value, bounds in state.top().items()}
        if sum(counts.values()) < state.count:
            msg = (
                "the column has more values than TopValues tracked;"
                " raise its parameter tracked, or add a Histogram"
            )
            raise StateMismatchError(msg)
        return Counter(counts)
    if not isinstance(state, FrequenciesAndNumRows):
        msg = f"the state {type(state).__name__} does not contain the counts of values"
        raise StateMismatchError(msg)
    return Counter(dict(counts_by_key(state)))


Distribution = Quantiles | Counter[str]
NUMERIC_KIND, CATEGORICAL_KIND = "numeric", "categorical"
_TAGS_BY_KIND = {
    NUMERIC_KIND: ("kll", "req", "sketch-pairs", "frequencies"),
    CATEGORICAL_KIND: ("frequencies", "frequent-items"),
}
"""Tags of states that contain a distribution of each kind, in order of preference."""


@dataclass(frozen=True)
class StoredColumn:
    """A column of a dataset whose stored states are read as distributions.

    Attributes
    ----------
    database : Database
        Database of the repository.
    artifacts : Artifacts
        Stored states outside the database.
    dataset, name : str
        Names of the dataset and the column.
    segment : str or None
        Segment; all segments of partition keys if None.
    where : str or None
        Exactly this filter; unfiltered if None.
    as_of : str, date, datetime, int or None
        Read the states that were stored at this time.
    kind : str or None
        ``numeric`` or ``categorical``; inferred from the states if None.
    side : str
        Side of a compared feature: ``logged`` or ``backfilled``.
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    name: str
    segment: str | None = None
    where: str | None = None
    as_of: AsOf = None
    kind: str | None = None
    side: str = "logged"

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", (self.where or "").strip() or None)
        if self.kind not in {None, *_TAGS_BY_KIND}:
            raise UnknownNameError("kind of distribution", str(self.kind), _TAGS_BY_KIND)

    def stored(self, connection: Connection, window: Window) -> list[StoredState]:
        """Return a reference to the preferred stored state of the column for each partition.

        Raises
        ------
        HistoryError
            If no stored state contains a distribution of the column.
        """
        preferred: list[StoredState] = []
        for analyzer in self._analyzers(connection):
            states = stored_states(
                connection, self.dataset, analyzer, window, self.segment, self.as_of
            )
            pairs = zip(preferred or states, states, strict=True)
            preferred = [a if a.payload is not None else b for a, b in pairs]
            if all(state.payload is not None for state in preferred):
                break
        return preferred

    def distributions(
        self, stored: Sequence[StoredState]
    ) -> Iterator[tuple[StoredState, Distribution]]:
        """Read states lazily, all as numbers or all as categories; skip partitions without one."""
        available = [reference for reference in stored if reference.payload is not None]
        read = quantiles_of if self.kind_of_all(available) == NUMERIC_KIND else categories_of
        yield from ((reference, self._read(reference, read)) for reference in available)

    def kind_of_all(self, stored: Sequence[StoredState]) -> str:
        """Return the kind of distribution that all of these states are read as."""
        available = [reference for reference in stored if reference.payload is not None]
        tags = {
            reference.payload.tag.partition("/")[0] for reference in available if reference.payload
        }
        if self.kind is not None or tags & {"kll", "req", "sketch-pairs"}:
            return self.kind or NUMERIC_KIND
        return next(
            filter(None, (self._read(reference, _kind_of_state) for reference in available)),
            CATEGORICAL_KIND,
        )

    def _read(self, reference: StoredState, function: Any) -> Any:
        assert reference.payload is not None
        try:
            state = self.artifacts.unpack(reference.payload)
            return function(
                state.distribution(self.side) if isinstance(state, SketchPairs) else state
            )
        except StateError as error:
            raise type(error)(f"{self.dataset!r}, {reference.partition!r}: {error}") from error

    def _analyzers(self, connection: Connection) -> list[AnyAnalyzer]:
        """Return one analyzer per statistic that contains the distribution, in order of preference."""
        analyzer, canonical = s.analyzer.c, s.statistic.c.canonical
        dataset_key = dataset_id(connection, self.dataset)
        query = (
            sa.select(canonical, sa.func.min(analyzer.text))
            .join_from(s.analyzer, s.statistic)
            .where(
                analyzer.dataset_id == dataset_key, analyzer.filter.is_not_distinct_from(self.where)
            )
            .where(canonical.contains('"state":'))
            .group_by(canonical)
        )
        stored = [(_statistic(row[0]), row[1]) for row in connection.execute(query)]
        column_analyzers = [
            (statistic, text) for statistic, text in stored if statistic.get("column") == self.name
        ]
        for kind in [self.kind] if self.kind else _TAGS_BY_KIND:
            candidates = [
                (_TAGS_BY_KIND[kind].index(statistic["state"]), -statistic["size"], text)
                for statistic, text in column_analyzers
                if statistic["state"] in _TAGS_BY_KIND[kind]
            ]
            if candidates:
                return [ANALYZERS.parse(text) for *_, text in sorted(candidates)]
        if sketched := self._of_feature(connection):
            return [ANALYZERS.parse(text) for _, text in sorted(sketched)]
        raise HistoryError(self._nothing(connection))

    def _of_feature(self, connection: Connection) -> list[tuple[int, str]]:
        """Return the negative sizes and descriptions of the analyzers of a compared feature."""
        series_names = (f"{PREFIX}{self.side}-{QUANTILES[0]}", f"{PREFIX}{self.side}{TOP_SUFFIX}")
        analyzer, series, canonical = s.analyzer.c, s.series.c, s.statistic.c.canonical
        query = (
            sa.select(canonical, sa.func.min(analyzer.text))
            .join_from(s.analyzer, s.statistic)
            .join(s.series, series.analyzer_id == analyzer.id)
            .where(
                analyzer.dataset_id == dataset_id(connection, self.dataset),
                series.instance == self.name,
            )
            .where(series.name.in_(series_names), analyzer.filter.is_(None))
            .group_by(canonical)
        )
        rows = connection.execute(query).all() if self.where is None else []
        stored = [(_statistic(canonical), text) for canonical, text in rows]
        return [
            (-statistic["size"], text)
            for statistic, text in stored
            if any(statistic["state"] in tags for tags in _TAGS_BY_KIND.values())
        ]

    def _nothing(self, connection: Connection) -> str:
        filtered = f", where={self.where!r}" if self.where else ""
        numbers = f"ApproxQuantile({self.name!r}, 0.5{filtered}) or "
        message = f"no stored state of {self.dataset!r} describes the distribution of {self.name!r}{filtered}"
        columns = columns_with_distribution(connection, self.dataset)
        close = None if self._is_measured(connection) else nearest(self.name, columns)
        if close is not None and close != self.name:
            return f"{message}; did you mean {close!r}?"
        return (
            f"{message}; add {'' if self.kind == CATEGORICAL_KIND else numbers}"
            f"Histogram({self.name!r}{filtered}) to the suite"
        )

    def _is_measured(self, connection: Connection) -> bool:
        """Return whether the column has any metric. If so, its name is not misspelled."""
        dataset_key = dataset_id(connection, self.dataset)
        query = (
            sa.select(s.series.c.id)
            .join_from(s.series, s.analyzer)
            .where(s.analyzer.c.dataset_id == dataset_key, s.series.c.instance == self.name)
        )
        return connection.execute(query.limit(1)).first() is not None


def columns_with_distribution(connection: Connection, dataset: str) -> list[str]:
    """Return the columns with a stored distribution, with any filter."""
    columns, dataset_key = s.statistic.c, dataset_id(connection, dataset)
    query = sa.select(columns.canonical).where(
        columns.dataset_id == dataset_key, columns.canonical.contains('"state":')
    )
    statistics = [
        _statistic(canonical) for canonical in connection.execute(query.distinct()).scalars()
    ]
    tags = {tag for kind_tags in _TAGS_BY_KIND.values() for tag in kind_tags}
    return sorted(
        {
            statistic["column"]
            for statistic in statistics
            if statistic["column"] and statistic["state"] in tags
        }
    )


def _statistic(canonical: str) -> dict[str, Any]:
    """Parse a statistic: its state tag, column and sketch size. Missing entries are None, sizes 0."""
    document = json.loads(canonical)
    if "columns" in document and len(document["columns"]) == 1 and "edges" not in document:
        document["column"] = document["columns"][0]
    size = document.get("k") or document.get("lg_slots") or 0
    return {"state": document.get("state"), "column": document.get("column"), "size": size}


def _kind_of_state(state: State) -> str | None:
    """Return ``numeric`` or ``categorical`` for a state; None if it is empty."""
    if isinstance(state, FrequenciesAndNumRows) and not state.num_groups:
        return None
    return NUMERIC_KIND if is_numeric(state) else CATEGORICAL_KIND


def merged(parts: Sequence[Distribution]) -> Distribution:
    """Merge distributions of one kind, at least one."""
    numbers = [part for part in parts if isinstance(part, Quantiles)]
    if numbers:
        return Quantiles.merge(numbers)
    total: Counter[str] = Counter()
    for part in parts:
        assert isinstance(part, Counter)
        total.update(part)
    return total


def rows_of(part: Distribution) -> int:
    """Return the number of values."""
    return round(part.rows) if isinstance(part, Quantiles) else part.total()


def kind_of(part: Distribution) -> str:
    """Return ``numeric`` or ``categorical``."""
    return NUMERIC_KIND if isinstance(part, Quantiles) else CATEGORICAL_KIND
