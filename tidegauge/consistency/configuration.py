"""Configuration of a join's consistency: keys, group-bys, backfills and tolerances.

A backfill is a table, query or function that computes the features of the logged queries offline.
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
from tidegauge.consistency.compare import distributions, measures
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.compare.join import DAY_MINUTES
from tidegauge.consistency.log.query import GROUP_BY, JOIN, check_type, is_day, threshold
from tidegauge.consistency.log.schemas import OWN_COLUMNS, LogSchema
from tidegauge.repository.distributions.drift import RECORDED_OF
from tidegauge.repository.distributions.stored import CATEGORICAL_KIND, NUMERIC_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TIME_COLUMN = "ts"
"""Time column of flattened logs and backfills: when a query was made."""
LOGGED_KEYS_VIEW = "logged_keys"
"""View that backfill queries read: the logged keys and times."""


@dataclass(frozen=True)
class TableBackfill:
    """A table that already has the keys, the time and the features.

    Attributes
    ----------
    table : str
        Name of the table.

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
    """A query over the view ``logged_keys`` (keys and ``ts``) that returns its columns and the features.

    Attributes
    ----------
    sql : str
        The query.

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
    """A function that gets a DataFrame with the keys and ``ts`` and returns it with the features.

    Attributes
    ----------
    function : callable
        The function.
    name : str
        Identifies the function; days are recomputed when it changes.

    Examples
    --------
    >>> def ages(logged_keys):
    ...     return logged_keys.join(logged_keys.sparkSession.table("users"), "user")
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
    """Return the identity of a backfill without reading data."""
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
        Names of the key columns.
    lag_ms : int
        Write lag: served values were written at least this long before the query.
    """
    columns = [*map(quote, keys), f"{shifted(TIME_COLUMN, -lag_ms)} AS {TIME_COLUMN}"]
    return logged.selectExpr(*columns).distinct()


def shifted(sql: str, millis: int) -> str:
    """Return SQL for a timestamp shifted forward by some milliseconds."""
    return f"timestampadd(MILLISECOND, {millis}, {sql})" if millis else sql


def backfilled(
    backfill: Backfill, logged_pairs: DataFrame, views: Views, owners: str = ""
) -> DataFrame:
    """Return the backfilled features of queries, or all rows of a table. Evaluation is lazy.

    Parameters
    ----------
    backfill : Backfill
        The backfill to evaluate.
    logged_pairs : DataFrame
        The result of `logged_keys`.
    views : Views
        Owns the view; must stay open until the result has been read.
    owners : str
        The backfill's group-bys, for errors, as in `` of 'prices'``.

    Raises
    ------
    SourceError
        If a query is invalid, or a function does not return a DataFrame.
    """
    match backfill:
        case TableBackfill(table):
            return logged_pairs.sparkSession.table(table)
        case QueryBackfill(sql):
            views.add(LOGGED_KEYS_VIEW, logged_pairs)
            try:
                return views.query(sql.rstrip().removesuffix(";"))
            except Exception as error:
                reason = message_of(error)
                msg = f"the query of the backfill{owners} cannot be read: {reason}"
                raise SourceError(msg) from error
        case CallableBackfill(function, name):
            features = function(logged_pairs)
            if not hasattr(features, "selectExpr"):
                kind = type(features).__name__
                raise SourceError(f"{name}{owners} must return a DataFrame of features, not {kind}")
            return features


def unshifted(features: DataFrame, lag_ms: int) -> DataFrame:
    """Return features with times shifted forward by a lag, to the times of the queries."""
    if not lag_ms:
        return features
    schema = Schema.from_frame(features)
    moved: Mapping[str, str] = {}
    if TIME_COLUMN.casefold() in {name.casefold() for name in schema.names}:
        field = schema.field(TIME_COLUMN)
        shifted_sql = (
            f"{field.sql} + {lag_ms}L" if field.kind in INTEGRAL else shifted(field.sql, lag_ms)
        )
        moved = {TIME_COLUMN: shifted_sql}
    other_columns = [
        quote(name) for name in schema.names if name.casefold() != TIME_COLUMN.casefold()
    ]
    return features.selectExpr(*other_columns, *(f"{sql} AS {name}" for name, sql in moved.items()))


_RESERVED_COLUMNS = frozenset(
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
"""Monitors for failures that leave other metrics without a value.

Some failures are reported from the first day: nothing matches, nothing can be read, or nothing can be
compared, such as a left join without matches that returns null rows. Metrics that become empty are
reported after eight values.
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
"""Monitors of a join without monitors of its own.

Quantiles are not included, because they vary in hours with few rows.
"""


ALL_METRICS: tuple[str, ...] = (
    *(
        f"Consistency.{metric}"
        for measure in (
            measures.ConsistencyRows,
            measures.ConsistencyCells,
            measures.ConsistencyNumbers,
            distributions.ConsistencyTexts,
            measures.ConsistencyKeys,
            distributions.ConsistencyEdits,
            distributions.ConsistencyEditsSkipped,
        )
        for metric in measure.metrics
    ),
    *(
        f"Consistency.{metric}-{quantile}"
        for metric in distributions.ConsistencyDistribution.metrics
        for quantile in distributions.RANK_BY_QUANTILE
    ),
    *(
        f"Consistency.{distance}"
        for distance in dict.fromkeys((*RECORDED_OF[NUMERIC_KIND], *RECORDED_OF[CATEGORICAL_KIND]))
    ),
    *(f"{OF_LOG}{metric}" for metric in ("read", "empty", "unreadable", "unreadable_share")),
)
"""Names of all metrics of a run; metrics of distributions end in a quantile, as in ``Consistency.delta-p50``."""


def require_day(setting: str, value: str) -> None:
    """Raise `SuiteError` unless a string is a day.

    Examples
    --------
    >>> require_day("since", "2023-01-05")
    """
    if not is_day(value):
        raise SuiteError(f"{setting} must be a day such as 2023-01-05, not {value!r}")


@dataclass(frozen=True)
class GroupBy:
    """Features that are computed and written together.

    Attributes
    ----------
    features : tuple of str
        Names of the features.
    lag_ms : int
        Write lag: milliseconds until written values are served. The backfill is queried for the time
        this long before each query.
    backfill : Backfill, optional
        The group-by's backfill (default: the join's backfill).

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
    """Configuration for comparing a join's logged features with backfilled features.

    Attributes
    ----------
    namespace : str
        Database of the query log and of the tables derived from it.
    name : str
        Name of the join, or of the group-by if ``type`` is ``groupBy``.
    keys : tuple of str
        Columns that join the rows, in addition to the time.
    backfill : Backfill, optional
        Backfill of group-bys without their own.
    group_bys : mapping of str to GroupBy
        If empty, all common features form one group-by. Its name is ``*``, or ``name`` if ``type`` is
        ``groupBy``.
    type : str
        ``join`` or ``groupBy``, as in the query log.
    time : str
        Time column of backfills, with the time of the query: a timestamp, or milliseconds since 1970.
    payload : tuple of str
        Log fields that accompany a request, such as a session id. They are stored but not compared.
    schemas : tuple of LogSchema
        Schema versions of keys and values, earliest first; by default the schemas stored with the log.
    dataset : str
        Dataset name in the repository; ``<namespace>.<name>`` by default.
    tolerance : mapping of str to Tolerance
        Tolerances by feature.
    logged_as : mapping of str to str
        Names of features in the log, if they differ from the backfill's names.
    bucket_minutes : int or None
        Width of the time buckets; None for no buckets.
    sample_percent : float
        Percentage of keys to sample; all queries of a sampled key are compared.
    query_sources : tuple of str
        Query sources to include; all if empty.
    segment_by : tuple of str
        Columns of the flattened log that segment the results, such as ``query_source``.
    since : str, optional
        The first day to compare.
    monitors : tuple of mapping
        Monitors of the metrics, in the form of suite files, in addition to `REQUIRED_MONITORS`
        (default: `DEFAULT_MONITORS`).
    k, longest : int
        Size of the quantile sketch and longest string to compare, as for `compare`.

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
    time: str = TIME_COLUMN
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
    k: int = distributions.K
    longest: int = distributions.DEFAULT_MAX_LENGTH

    def __post_init__(self) -> None:
        if not self.name or not self.namespace:
            raise SuiteError("a comparison needs a namespace, and a join or a group_by; set both")
        check_type(self.type)
        if not self.keys:
            raise SuiteError("keys are empty; set the columns that join queries with the backfill")
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
            self.backfill_of(self.all_features_name)

    def _check_numbers(self) -> None:
        """Raise `SuiteError` for invalid numbers before a run starts."""
        width = self.bucket_minutes
        if width is not None and (width < 1 or DAY_MINUTES % width):
            raise SuiteError(f"bucket_minutes is {width}, which does not divide a day")
        if self.k % 2 or not distributions.MIN_K <= self.k <= distributions.MAX_K:
            raise SuiteError(
                f"k is {self.k}; it must be an even number from {distributions.MIN_K} to {distributions.MAX_K}"
            )
        if self.longest < 1:
            raise SuiteError(f"longest is {self.longest}; it must be above 0")
        if self.since is not None:
            require_day("since", self.since)

    def _check_columns(self) -> None:
        """Raise `SuiteError` for keys and features with the same name as another column, ignoring case."""
        features = self.features
        for name, count in Counter(features).items():
            if count > 1:
                raise SuiteError(
                    f"feature {name!r} is in two group-bys; remove it from one of them"
                )
        used = {name: f"the log's own {name!r}" for name in OWN_COLUMNS}
        for role, names in (("key", self.keys), ("feature", features)):
            for name in names:
                previous = used.get(name.casefold())
                if previous is not None:
                    raise SuiteError(f"{role} {name!r} has the same name as {previous}; rename it")
                used[name.casefold()] = f"the {role} {name!r}"

    def _check_names(self) -> None:
        """Raise `SuiteError` for ambiguous or unknown names."""
        features = self.features
        for name in self.payload:
            if name in self.keys or name in features:
                role = "a key" if name in self.keys else "a feature"
                raise SuiteError(f"{name!r} is both payload and {role}; remove it from one of them")
        for name in self.segment_by:
            if name in features:
                raise SuiteError(f"segment_by cannot name the feature {name!r}")
            if name.casefold() in _RESERVED_COLUMNS or name in self.keys:
                raise SuiteError(
                    f"segment_by cannot name {name!r}, which is already a column of the results"
                )
        for name in (*self.tolerance, *self.logged_as) if self.group_bys else ():
            if name not in features:
                raise UnknownNameError("feature", name, features)

    def _check_monitors(self) -> None:
        """Raise `UnknownNameError` for monitors of unknown metrics or instances."""
        from tidegauge.repository.detectors.monitor import selects

        instances = [
            name
            for group_by, settings in self.group_bys.items()
            for name in (group_by, *(f"{group_by}.{feature}" for feature in settings.features))
        ]
        for monitor in self.monitors or ():
            series = dict(monitor.get("series", {}))
            name, instance = (str(series.get(key) or "") for key in ("name", "instance"))
            if name and not any(selects(name, metric) for metric in ALL_METRICS):
                raise UnknownNameError("metric of a monitor", name, ALL_METRICS)
            of_comparison = instance and not name.startswith(OF_LOG)
            if of_comparison and instances and not any(selects(instance, i) for i in instances):
                raise UnknownNameError("instance of a monitor", instance, instances)

    def _check(self, name: str, group_by: GroupBy) -> None:
        backfill = self.backfill_of(name)
        if not group_by.features:
            raise SuiteError(f"group-by {name!r} has no features")
        if group_by.lag_ms < 0:
            raise SuiteError(f"lag_ms of {name!r} is {group_by.lag_ms}; a lag must not be negative")
        if group_by.lag_ms and isinstance(backfill, TableBackfill):
            raise SuiteError(
                f"group-by {name!r} has lag_ms {group_by.lag_ms}, but its backfill is {backfill}, which is"
                " already computed; use a query over logged_keys or a callable"
            )

    @property
    def features(self) -> tuple[str, ...]:
        """The features of all group-bys; empty if no group-by is configured."""
        return tuple(name for group_by in self.group_bys.values() for name in group_by.features)

    @property
    def watched(self) -> tuple[Mapping[str, Any], ...]:
        """The monitors or `DEFAULT_MONITORS`, and the `REQUIRED_MONITORS` that no own monitor replaces.

        A monitor replaces a required monitor of the same series if it is not restricted to some
        instances. A monitor of all series replaces a required monitor with the same detector.
        """
        if self.monitors is None:
            return (*DEFAULT_MONITORS, *REQUIRED_MONITORS)
        own_subjects = set(map(_monitored_subject, self.monitors))
        required = (
            monitor
            for monitor in REQUIRED_MONITORS
            if _monitored_subject(monitor) not in own_subjects
        )
        return (*self.monitors, *required)

    @property
    def all_features_name(self) -> str:
        """Name of the group-by of all features, if no group-by is configured."""
        return self.name if self.type == GROUP_BY else "*"

    def backfill_of(self, group_by: str) -> Backfill:
        """Return the backfill of a group-by, or the default backfill.

        Raises
        ------
        SuiteError
            If the group-by has no backfill.
        """
        settings = self.group_bys.get(group_by)
        backfill = (settings and settings.backfill) or self.backfill
        if backfill is None:
            raise SuiteError(f"{group_by!r} needs a backfill: a table, a query or a callable")
        return backfill


def _monitored_subject(monitor: Mapping[str, Any]) -> str:
    """Return the monitored series as JSON, or the detector's name for a monitor of all series."""
    series = monitor.get("series")
    return (
        canonical_json(dict(series)) if series else str(monitor.get("detector")).partition("(")[0]
    )
