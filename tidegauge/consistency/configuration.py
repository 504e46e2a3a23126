"""Configuration of a join's consistency: keys, group-bys, backfills and tolerances.

A backfill is a table, query or function with the features computed offline for the queries that
were logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SourceError, SuiteError, UnknownNameError, message_of
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.consistency.compare.distributions import (
    LARGEST_K,
    LONGEST,
    QUANTILES,
    SMALLEST_K,
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    ConsistencyTexts,
    K,
)
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.compare.join import DAY
from tidegauge.consistency.compare.measures import (
    ConsistencyCells,
    ConsistencyKeys,
    ConsistencyNumbers,
    ConsistencyRows,
)
from tidegauge.consistency.log.query import GROUP_BY, JOIN, check_type, is_day, threshold
from tidegauge.consistency.log.schemas import OWN_COLUMNS, LogSchema
from tidegauge.repository.distributions.drift import RECORDED_OF
from tidegauge.repository.distributions.stored import CATEGORICAL, NUMERIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TIME = "ts"
"""Time column of flattened logs and backfills: when a query was made."""
VIEW = "logged_keys"
"""View that backfill queries read: the logged keys and times."""


@dataclass(frozen=True)
class TableBackfill:
    """A table that already holds the keys, the time and the features.

    Attributes
    ----------
    table : str

    Examples
    --------
    >>> print(TableBackfill("offline.features"))
    the table offline.features
    """

    table: str

    def __str__(self) -> str:
        """Return a short description."""
        return f"the table {self.table}"


@dataclass(frozen=True)
class QueryBackfill:
    """A query over the view ``logged_keys`` (keys and ``ts``) that returns these and the features.

    Attributes
    ----------
    sql : str

    Examples
    --------
    >>> print(QueryBackfill("SELECT user, ts, age FROM logged_keys JOIN users USING (user)"))
    a query
    """

    sql: str

    def __str__(self) -> str:
        """Return a short description."""
        return "a query"


@dataclass(frozen=True)
class CallableBackfill:
    """A function from a DataFrame with the keys and ``ts`` to one that also has the features.

    Attributes
    ----------
    function : callable
    name : str
        Identifies the function; days are recomputed when it changes.

    Examples
    --------
    >>> def ages(asked):
    ...     return asked.join(asked.sparkSession.table("users"), "user")
    >>> print(CallableBackfill(ages, "ages/1"))
    the function ages/1
    """

    function: Callable[[DataFrame], DataFrame]
    name: str

    def __str__(self) -> str:
        """Return a short description."""
        return f"the function {self.name}"


Backfill = TableBackfill | QueryBackfill | CallableBackfill


def identity(backfill: Backfill) -> list[str]:
    """Return the identity of a backfill, without reading data."""
    match backfill:
        case TableBackfill(table):
            return ["table", table]
        case QueryBackfill(sql):
            return ["query", sql]
        case CallableBackfill(_, name):
            return ["callable", name]


def logged_keys(logged: DataFrame, keys: Sequence[str], lag_ms: int = 0) -> DataFrame:
    """Return the distinct keys and times of logged queries, with times shifted back by a lag.

    Parameters
    ----------
    logged : DataFrame
        Logged queries with the keys and a timestamp ``ts``.
    keys : sequence of str
    lag_ms : int
        Write lag: values served at a time are those written at least this long before.
    """
    columns = [*map(quote, keys), f"{shifted(TIME, -lag_ms)} AS {TIME}"]
    return logged.selectExpr(*columns).distinct()


def shifted(sql: str, millis: int) -> str:
    """Return SQL for a timestamp shifted forward by some milliseconds."""
    return f"timestampadd(MILLISECOND, {millis}, {sql})" if millis else sql


def backfilled(backfill: Backfill, asked: DataFrame, views: Views, whose: str = "") -> DataFrame:
    """Return the backfilled features of queries, or for a table all its rows; evaluated lazily.

    Parameters
    ----------
    backfill : Backfill
    asked : DataFrame
        As returned by `logged_keys`.
    views : Views
        Holds the view; must stay open until the result has been read.
    whose : str
        Of which group-bys it is, for errors, as in `` of 'prices'``.

    Raises
    ------
    SourceError
        If a query is invalid, or a function does not return a DataFrame.
    """
    match backfill:
        case TableBackfill(table):
            return asked.sparkSession.table(table)
        case QueryBackfill(sql):
            views.add(VIEW, asked)
            try:
                return views.query(sql.rstrip().removesuffix(";"))
            except Exception as error:
                said = message_of(error)
                msg = f"the query of the backfill{whose} cannot be read: {said}"
                raise SourceError(msg) from error
        case CallableBackfill(function, name):
            found = function(asked)
            if not hasattr(found, "selectExpr"):
                kind = type(found).__name__
                raise SourceError(f"{name}{whose} returns a DataFrame of features, not {kind}")
            return found


def unshifted(found: DataFrame, lag_ms: int) -> DataFrame:
    """Return features with times shifted forward by a lag, back to those of the queries."""
    if not lag_ms:
        return found
    schema = Schema.from_frame(found)
    moved: Mapping[str, str] = {}
    if TIME.casefold() in {name.casefold() for name in schema.names}:
        field = schema.field(TIME)
        later = f"{field.sql} + {lag_ms}L" if field.kind in INTEGRAL else shifted(field.sql, lag_ms)
        moved = {TIME: later}
    kept = [quote(name) for name in schema.names if name.casefold() != TIME.casefold()]
    return found.selectExpr(*kept, *(f"{sql} AS {name}" for name, sql in moved.items()))


_TAKEN = frozenset(
    [
        *("ds", "hr_minute", "ts", "group_by_name", "feature_name", "metric_name"),
        *("histogram", "number", "row_presence", "row_copy", "row_null_key"),
    ]
)
"""Column names reserved for the tables of comparisons."""


OF_LOG = "QueryLog."
"""Prefix of the metrics of a query log itself."""
REQUIRED_MONITORS: tuple[Mapping[str, Any], ...] = (
    {
        "series": {"name": "Consistency.row_unmatched"},
        "detector": "SimpleThreshold(0.5)",
        "severity": "error",
    },
    *(
        {
            "series": {"name": f"Consistency.{metric}"},
            "detector": "SimpleThreshold(0.5)",
            "severity": "error",
        }
        for metric in ("missing", "extra")
    ),
    {
        "series": {"name": f"{OF_LOG}unreadable_share"},
        "detector": "SimpleThreshold(0.05)",
        "severity": "error",
    },
    {"detector": "EmptyMetrics()"},
)
"""Monitors of what leaves other metrics without a value.

Nothing matches, nothing is read, or nothing can be compared, as a left join without matches gives rows
of nulls: from the first day on. A metric that had values has none: once it had eight.
"""

DEFAULT_MONITORS: tuple[Mapping[str, Any], ...] = (
    *(
        {"series": {"name": f"Consistency.{metric}"}}
        for metric in ("row_matched", "mismatch", "missing", "extra")
    ),
    {"detector": "StalePartition()"},
    {"detector": "MissingPartition()"},
    {"detector": "Late()"},
    {"detector": "SchemaChange()"},
)
"""Monitors of a join that has none of its own: rates and rows, not quantiles, which vary in small hours."""


METRICS: tuple[str, ...] = (
    *(
        f"Consistency.{metric}"
        for measure in (
            ConsistencyRows,
            ConsistencyCells,
            ConsistencyNumbers,
            ConsistencyTexts,
            ConsistencyKeys,
            ConsistencyEdits,
            ConsistencyEditsSkipped,
        )
        for metric in measure.metrics
    ),
    *(
        f"Consistency.{metric}-{quantile}"
        for metric in ConsistencyDistribution.metrics
        for quantile in QUANTILES
    ),
    *(
        f"Consistency.{distance}"
        for distance in dict.fromkeys((*RECORDED_OF[NUMERIC], *RECORDED_OF[CATEGORICAL]))
    ),
    *(f"{OF_LOG}{metric}" for metric in ("read", "empty", "unreadable", "unreadable_share")),
)
"""Names of all metrics of a run; those of distributions end in a quantile, as ``Consistency.delta-p50``."""


def require_day(what: str, text: str) -> None:
    """Raise `SuiteError` unless a text is a day.

    Examples
    --------
    >>> require_day("since", "2023-01-05")
    """
    if not is_day(text):
        raise SuiteError(f"{what} is a day such as 2023-01-05, not {text!r}")


@dataclass(frozen=True)
class GroupBy:
    """Features that are computed and written together.

    Attributes
    ----------
    features : tuple of str
    lag_ms : int
        Write lag: milliseconds until written values are served. The backfill is queried at this
        long before each query.
    backfill : Backfill, optional
        Defaults to the join's backfill.

    Examples
    --------
    >>> clicks = GroupBy(("clicks_1h", "clicks_1d"), lag_ms=45 * 60_000)
    >>> clicks.features, clicks.lag_ms, clicks.backfill
    (('clicks_1h', 'clicks_1d'), 2700000, None)
    """

    features: tuple[str, ...]
    lag_ms: int = 0
    backfill: Backfill | None = None


@dataclass(frozen=True)
class Configuration:
    """Configuration for comparing a join's logged features with backfilled ones.

    Attributes
    ----------
    namespace : str
        Database of the query log and of the tables derived from it.
    name : str
        Name of the join, or of the group-by if ``type`` is ``groupBy``.
    keys : tuple of str
        Columns by which rows are joined, besides the time.
    backfill : Backfill, optional
        Default for group-bys without their own.
    group_bys : mapping of str to GroupBy
        If empty, all common features form one group-by, named ``*``, or for a single group-by its
        own name.
    type : str
        ``join`` or ``groupBy``, as in the query log.
    time : str
        Time column of backfills, when a query was made: a timestamp, or milliseconds since 1970.
    payload : tuple of str
        Log fields that accompany a request, such as a session id; kept, and not compared.
    schemas : tuple of LogSchema
        Schema versions of keys and values, earliest first; by default those stored beside the log.
    dataset : str
        Dataset name in the repository; ``<namespace>.<name>`` by default.
    tolerance : mapping of str to Tolerance
        By feature.
    logged_as : mapping of str to str
        Names of features in the log, if they differ.
    bucket_minutes : int or None
        Width of the time buckets; None for no buckets.
    sample_percent : float
        Percentage of keys to sample; all queries of a sampled key are compared.
    query_sources : tuple of str
        Query sources to include; all if empty.
    segment_by : tuple of str
        Columns of the flattened log, such as ``query_source``, by which results are segmented.
    since : str, optional
        The first day.
    monitors : tuple of mapping
        Monitors of the metrics, in the form of suite files, besides `REQUIRED_MONITORS`; by default `DEFAULT_MONITORS`.
    k, longest : int
        As for `compare`.

    Raises
    ------
    SuiteError
        For the first invalid setting.

    Examples
    --------
    >>> from tidegauge.consistency.configuration import QueryBackfill
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
    monitors: tuple[Mapping[str, Any], ...] | None = None
    k: int = K
    longest: int = LONGEST

    def __post_init__(self) -> None:
        if not self.name or not self.namespace:
            raise SuiteError("a comparison needs a namespace, and a join or a group_by")
        check_type(self.type)
        if not self.keys:
            raise SuiteError("keys are the columns by which queries are joined with the backfill")
        if not self.dataset:
            object.__setattr__(self, "dataset", f"{self.namespace}.{self.name}")
        threshold(self.sample_percent)
        self._check_numbers()
        self._check_columns()
        self._check_names()
        self._check_monitors()
        for name, group_by in self.group_bys.items():
            self._check(name, group_by)
        if not self.group_bys:
            self.backfill_of(self.whole)

    def _check_numbers(self) -> None:
        """Raise `SuiteError` for what the steps of a run would refuse only when they come to it."""
        width = self.bucket_minutes
        if width is not None and (width < 1 or DAY % width):
            raise SuiteError(f"bucket_minutes is {width}, which does not divide a day")
        if self.k % 2 or not SMALLEST_K <= self.k <= LARGEST_K:
            raise SuiteError(
                f"k is {self.k}; it is an even number from {SMALLEST_K} to {LARGEST_K}"
            )
        if self.longest < 1:
            raise SuiteError(f"longest is {self.longest}; it is a length above 0")
        if self.since is not None:
            require_day("since", self.since)

    def _check_columns(self) -> None:
        """Raise `SuiteError` for keys and features that are one column with another, in whatever case."""
        features = self.features
        for name, count in Counter(features).items():
            if count > 1:
                raise SuiteError(f"feature {name!r} is of two group-bys; it can be of one")
        taken = {name: f"the log's own {name!r}" for name in OWN_COLUMNS}
        for what, names in (("key", self.keys), ("feature", features)):
            for name in names:
                other = taken.get(name.casefold())
                if other is not None:
                    raise SuiteError(f"{what} {name!r} is one column with {other}; rename it")
                taken[name.casefold()] = f"the {what} {name!r}"

    def _check_names(self) -> None:
        """Raise `SuiteError` for ambiguous or unknown names."""
        features = self.features
        for name in self.payload:
            if name in self.keys or name in features:
                what = "a key" if name in self.keys else "a feature"
                raise SuiteError(f"{name!r} is payload and {what}; it can be one of them")
        for name in self.segment_by:
            if name in features:
                raise SuiteError(f"segment_by cannot name the feature {name!r}")
            if name.casefold() in _TAKEN or name in self.keys:
                raise SuiteError(f"segment_by cannot name {name!r}, which results have already")
        for name in (*self.tolerance, *self.logged_as) if self.group_bys else ():
            if name not in features:
                raise UnknownNameError("feature", name, features)

    def _check_monitors(self) -> None:
        """Raise `UnknownNameError` for monitors of metrics or instances that no comparison has."""
        from tidegauge.repository.detectors.monitor import selects

        instances = [
            name
            for group_by, one in self.group_bys.items()
            for name in (group_by, *(f"{group_by}.{feature}" for feature in one.features))
        ]
        for monitor in self.monitors or ():
            series = dict(monitor.get("series", {}))
            name, instance = (str(series.get(key) or "") for key in ("name", "instance"))
            if name and not any(selects(name, metric) for metric in METRICS):
                raise UnknownNameError("metric of a monitor", name, METRICS)
            of_comparison = instance and not name.startswith(OF_LOG)
            if of_comparison and instances and not any(selects(instance, i) for i in instances):
                raise UnknownNameError("instance of a monitor", instance, instances)

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
        """The features of all group-bys; empty if none are named."""
        return tuple(name for one in self.group_bys.values() for name in one.features)

    @property
    def watched(self) -> tuple[Mapping[str, Any], ...]:
        """The monitors, or `DEFAULT_MONITORS`, and those of `REQUIRED_MONITORS` that no own one takes over.

        One takes over that watches the same series, and not some of their instances; where they are all
        series, it has the same detector.
        """
        if self.monitors is None:
            return (*DEFAULT_MONITORS, *REQUIRED_MONITORS)
        own = set(map(_subject, self.monitors))
        others = (one for one in REQUIRED_MONITORS if _subject(one) not in own)
        return (*self.monitors, *others)

    @property
    def whole(self) -> str:
        """The name of the group-by of all features if none is configured."""
        return self.name if self.type == GROUP_BY else "*"

    def backfill_of(self, group_by: str) -> Backfill:
        """Return the backfill of a group-by, or the default one.

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


def _subject(monitor: Mapping[str, Any]) -> str:
    """Return the series that a monitor watches, as JSON; for all series the name of its detector."""
    series = monitor.get("series")
    return (
        canonical_json(dict(series)) if series else str(monitor.get("detector")).partition("(")[0]
    )
