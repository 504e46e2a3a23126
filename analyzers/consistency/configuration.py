"""What is compared for a join: its keys, group-bys, backfills and tolerances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analyzers.consistency.backfill import TIME, Backfill, TableBackfill
from analyzers.consistency.distributions import LONGEST, K
from analyzers.consistency.equality import Tolerance
from analyzers.consistency.queries import GROUP_BY, JOIN, TYPES
from analyzers.consistency.sampling import threshold
from analyzers.consistency.schemas import LogSchema
from analyzers.errors import SuiteError, UnknownNameError

_TAKEN = frozenset(
    [
        *("ds", "hr_minute", "ts", "group_by_name", "feature_name", "metric_name"),
        *("histogram", "number", "row_presence", "row_copy", "row_null_key"),
    ]
)
"""Columns of the tables that comparisons make."""


@dataclass(frozen=True)
class GroupBy:
    """Features that are computed and written together.

    Attributes
    ----------
    features : tuple of str
    lag_ms : int
        How many milliseconds pass until what is written is served. The backfill is asked for the features of so
        long before each query.
    backfill : Backfill, optional
        One of its own; that of the join, unless given.
    """

    features: tuple[str, ...]
    lag_ms: int = 0
    backfill: Backfill | None = None


@dataclass(frozen=True)
class Configuration:
    """How the logged features of a join are compared with backfilled ones.

    Attributes
    ----------
    namespace : str
        The database of the query log, and of the tables that are made of it.
    name : str
        The join; of ``type`` ``groupBy``, the group-by.
    keys : tuple of str
        What rows are joined by, beside the time.
    backfill : Backfill, optional
        Of all group-bys that have none of their own.
    group_bys : mapping of str to GroupBy
        Without any, all features that both sides have are one, called ``*``; of a group-by by itself, by its
        name.
    type : str
        ``join`` or ``groupBy``, as in the query log.
    time : str
        The column of backfills that says when a query was asked: a timestamp, or milliseconds since 1970.
    payload : tuple of str
        Fields of the log that requests bring along, such as the id of a session: kept, and not compared.
    schemas : tuple of LogSchema
        With which keys and values were written, the earliest first; those beside the log, unless given.
    dataset : str
        What the history is called; ``<namespace>.<name>``, unless given.
    tolerance : mapping of str to Tolerance
        By feature.
    logged_as : mapping of str to str
        What features are called in the log, where that is another name.
    bucket_minutes : int or None
        The width of the buckets of time.
    sample_percent : float
        Of so many percent of the keys all queries are compared.
    query_sources : tuple of str
        Only queries from these count; all, if empty.
    segment_by : tuple of str
        Columns of the flattened log, such as ``query_source``, by whose values results are told apart.
    since : str, optional
        The first day.
    monitors : tuple of mapping
        What watches the metrics, as suite files say it.
    k, longest : int
        As for `compare`.

    Raises
    ------
    SuiteError
        Naming the first thing that does not fit.

    Examples
    --------
    >>> from analyzers.consistency.backfill import QueryBackfill
    >>> sql = "SELECT user, ts, age FROM logged_keys JOIN users USING (user)"
    >>> Configuration("shop", "search", ("user",), QueryBackfill(sql)).dataset
    'shop.search'
    """

    namespace: str
    name: str
    keys: tuple[str, ...]
    backfill: Backfill | None = None
    group_bys: Mapping[str, GroupBy] = field(default_factory=dict)
    type: str = JOIN
    time: str = TIME
    payload: tuple[str, ...] = ()
    schemas: tuple[LogSchema, ...] = ()
    dataset: str = ""
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    logged_as: Mapping[str, str] = field(default_factory=dict)
    bucket_minutes: int | None = 60
    sample_percent: float = 100.0
    query_sources: tuple[str, ...] = ()
    segment_by: tuple[str, ...] = ()
    since: str | None = None
    monitors: tuple[Mapping[str, Any], ...] = ()
    k: int = K
    longest: int = LONGEST

    def __post_init__(self) -> None:
        if not self.name or not self.namespace:
            raise SuiteError("a comparison needs a namespace, and a join or a group_by")
        if self.type not in TYPES:
            raise SuiteError(f"type is {' or '.join(TYPES)}, not {self.type!r}")
        if not self.keys:
            raise SuiteError("keys are the columns by which queries are joined with the backfill")
        if not self.dataset:
            object.__setattr__(self, "dataset", f"{self.namespace}.{self.name}")
        threshold(self.sample_percent)
        self._check_names()
        for name, group_by in self.group_bys.items():
            self._check(name, group_by)
        if not self.group_bys:
            self.backfill_of(self.whole)

    def _check_names(self) -> None:
        """Raise `SuiteError` unless each name stands for one thing, and for one that is there."""
        features = self.features
        for name, count in Counter(features).items():
            if count > 1:
                raise SuiteError(f"feature {name!r} is of two group-bys; it can be of one")
        for name in self.payload:
            if name in self.keys or name in features:
                what = "a key" if name in self.keys else "a feature"
                raise SuiteError(f"{name!r} is payload and {what}; it can be one of them")
        for name in self.segment_by:
            if name.casefold() in _TAKEN or name in self.keys:
                raise SuiteError(f"segment_by cannot name {name!r}, which results have already")
        for name in (*self.tolerance, *self.logged_as) if self.group_bys else ():
            if name not in features:
                raise UnknownNameError("feature", name, features)

    def _check(self, name: str, group_by: GroupBy) -> None:
        backfill = self.backfill_of(name)
        if not group_by.features:
            raise SuiteError(f"group-by {name!r} has no features")
        if group_by.lag_ms < 0:
            raise SuiteError(f"lag_ms of {name!r} is {group_by.lag_ms}; a lag is not negative")
        if group_by.lag_ms and isinstance(backfill, TableBackfill):
            raise SuiteError(
                f"group-by {name!r} has lag_ms {group_by.lag_ms}, but its backfill is {backfill}, computed"
                " already: a lag needs a query over logged_keys, or a callable"
            )

    @property
    def features(self) -> tuple[str, ...]:
        """The features of all group-bys; none where they are not named."""
        return tuple(name for one in self.group_bys.values() for name in one.features)

    @property
    def whole(self) -> str:
        """What the group-by is called to which all features belong, where none is named."""
        return self.name if self.type == GROUP_BY else "*"

    def backfill_of(self, group_by: str) -> Backfill:
        """Return the backfill of a group-by.

        Raises
        ------
        SuiteError
            If it has none.
        """
        own = self.group_bys.get(group_by)
        found = (own and own.backfill) or self.backfill
        if found is None:
            raise SuiteError(f"{group_by!r} needs a backfill: a table, a query or a callable")
        return found
