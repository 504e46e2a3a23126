"""Data profiling: propose a suite for a table from its schema and a sample of its rows.

The sample is random. `sample_analyzers` are measured on each column; their results decide which
analyzers are proposed. `tidegauge.checks.suggest` uses the same samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from tidegauge.analysis import open_source
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import NoSuchColumnError
from tidegauge.analyzers.core.formatting import for_yaml, one_line
from tidegauge.analyzers.core.metric import Metric
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.registry import Rendered
from tidegauge.analyzers.core.schema import (
    INTEGRAL,
    NUMERIC,
    TEMPORAL,
    TEXT,
    Schema,
    check_distinct_columns,
)
from tidegauge.analyzers.core.sql import column_sql, folder_of, is_folder, quote
from tidegauge.analyzers.measures.cardinality import (
    ApproxCountDistinct,
    ApproxUniqueness,
    ApproxUniqueValueRatio,
)
from tidegauge.analyzers.measures.counts import Completeness, Compliance, Size, non_negative
from tidegauge.analyzers.measures.extremes import Maximum, MaxTime, Minimum, MinTime
from tidegauge.analyzers.measures.histogram import Histogram, KLLSketch
from tidegauge.analyzers.measures.moments import Mean, StandardDeviation
from tidegauge.analyzers.measures.quantiles import ApproxQuantiles, sketch_size
from tidegauge.analyzers.measures.texts import (
    PATTERNS,
    DataType,
    MaxLength,
    MinLength,
    PatternMatch,
)
from tidegauge.analyzers.measures.top_values import TopDistribution, TopValues
from tidegauge.analyzers.scan.scan import metric_of, scan
from tidegauge.analyzers.scan.spark_errors import explained_read_errors
from tidegauge.files.yaml_file import relative_to
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.suite import Suite, privacy_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.sources.sources import Source


SAMPLE_ROWS = 100_000
_IDENTIFIER_NAME = re.compile(r"(?:^|_)(?i:id|key|no|nr|num|number|seq)$|[a-z](?:Id|ID|Key|No)$")
"""Names of columns whose numbers only identify rows or things."""


@dataclass(frozen=True)
class TableSample:
    """A random sample of a table, or the whole table if it is small.

    Attributes
    ----------
    data : DataFrame
        Rows of the sample.
    columns : tuple of (str, str)
        Measurable columns with their kinds, without partition columns.
    total : int
        Number of rows of the table.
    is_complete : bool
        True if the sample is the whole table.
    private : Privacy
        Columns whose values are never shown.
    """

    data: DataFrame
    columns: tuple[tuple[str, str], ...]
    total: int
    is_complete: bool
    private: Privacy = PUBLIC

    def measure(self, analyzers: Iterable[AnyAnalyzer]) -> dict[AnyAnalyzer, Metric[Any]]:
        """Compute the metrics of the analyzers on the sample, in one scan."""
        states = scan(self.data, analyzers, private=self.private).single_group.states
        return {analyzer: metric_of(analyzer, state) for analyzer, state in states.items()}


@contextmanager
def sample_table(
    source: Source, sample_rows: int = SAMPLE_ROWS, private: Privacy = PUBLIC
) -> Iterator[TableSample]:
    """Context manager: draw a cached random sample of a table.

    Parameters
    ----------
    source : Source
        Table to sample.
    sample_rows : int
        Approximate number of rows. A table with at most this many rows is used whole, and not cached.
    private : Privacy
        Columns whose values are never shown.
    """
    data = source.read(None)
    check_distinct_columns(data)
    schema = Schema.from_spark(data.schema).without(set(source.keys))
    columns = tuple(columns_of(schema))
    total = data.count()
    if total <= sample_rows:  # the frame can be the user's, who decides about caching
        yield TableSample(data, columns, total, is_complete=True, private=private)
        return
    drawn = data.sample(fraction=sample_rows / total, seed=1).persist()
    try:
        yield TableSample(drawn, columns, total, is_complete=False, private=private)
    finally:
        drawn.unpersist()


def name_of(table: str | DataFrame) -> str:
    """Return the default dataset name: the table's name without the database, or the folder's name.

    Parameters
    ----------
    table : str or DataFrame
        Table or folder.

    Examples
    --------
    >>> name_of("shop.orders"), name_of("/data/orders/"), name_of("delta.`/data/orders`")
    ('orders', 'orders', 'orders')
    """
    name = table if isinstance(table, str) else "table"
    name = folder_of(name) or name
    return name.rstrip("/").rpartition("/")[2].rpartition(".")[2]


def is_identifier(column: str, kind: str) -> bool:
    """Return True if a column's numbers only identify things, so that their size has no meaning.

    The name decides: a foreign key has repeated values, and an identifier with nulls can be a double.

    Parameters
    ----------
    column : str
        Path of the column.
    kind : str
        Kind of the column's type.

    Examples
    --------
    >>> [is_identifier(c, "long") for c in ("customer_id", "buyer.userId", "paid", "amount")]
    [True, True, False, False]
    """
    return kind in NUMERIC and _IDENTIFIER_NAME.search(column.rpartition(".")[2]) is not None


def columns_of(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield the path and kind of every column and struct field.

    The path of an array or map is ``size(...)``.
    """
    stack: list[tuple[tuple[str, ...], Any]]
    stack = [((name,), schema.field(quote(name)).type) for name in reversed(schema.names)]
    while stack:
        path, type_ = stack.pop()
        if isinstance(type_, Mapping) and type_["type"] == "struct":
            fields = reversed(type_["fields"])
            stack += [((*path, f["name"]), f["type"]) for f in fields]
        else:
            column = ".".join(part if part.isidentifier() else quote(part) for part in path)
            kind = schema.field(column).kind
            yield (f"size({column})" if kind in {"array", "map"} else column), kind


def sample_analyzers(column: str, kind: str) -> list[AnyAnalyzer]:
    """Return the analyzers to run on a column of the sample, by the column's kind."""
    if kind in {"array", "map"}:
        return [Completeness(column)]
    if kind in {"variant", "struct"}:
        return []
    analyzers: list[AnyAnalyzer] = [Completeness(column), ApproxCountDistinct(column)]
    if kind in NUMERIC:
        analyzers += [Minimum(column), Maximum(column)]
    if kind in TEXT or kind in INTEGRAL:
        analyzers.append(ApproxUniqueValueRatio((column,)))
    if kind in TEXT:
        analyzers += [
            DataType(column),
            *(PatternMatch(column, pattern, "ignore") for pattern in PATTERNS),
        ]
    return analyzers


MAX_CATEGORIES = 50
"""A categorical column has at most 50 distinct values, with ten rows or more each on average."""
_UNNAMED_COLUMN = re.compile(r"_c\d+")
_ROW_INDEX_COLUMN = re.compile(r"__index_level_\d+__")
ROWS_BY_CATEGORY = 10
MIN_COMPLETENESS = 0.7
"""Minimum share of non-null values to propose a check of completeness."""
UNIQUE_REASON = "No value occurs twice in the sample. This check counts each value: delete it if it is too slow."
MIN_MATCHING_SHARE = 0.99
"""Minimum share of values that match a pattern, or are unique, to propose an analyzer."""
MIN_ROWS_TO_INFER = 20
"""Minimum number of rows or values to infer patterns, uniqueness and ranges."""
QUANTILE_RANKS = (0.05, 0.25, 0.5, 0.75, 0.95)
RANK_ERROR = 0.025
BUCKET_COUNT = 24
"""Number of bars in the chart of a numeric column."""


STATISTIC_ANALYZERS: Mapping[str, Callable[[str], AnyAnalyzer]] = {
    "completeness": Completeness,
    "distinct": ApproxCountDistinct,
    "minimum": Minimum,
    "maximum": Maximum,
    "mean": Mean,
    "standard_deviation": StandardDeviation,
    "quantiles": lambda column: ApproxQuantiles(column, QUANTILE_RANKS, RANK_ERROR),
    "min_length": MinLength,
    "max_length": MaxLength,
    "min_time": MinTime,
    "max_time": MaxTime,
    "top_values": TopValues,
}
"""Analyzer of each statistic in `Profile.columns`."""
_KIND_STATISTICS = {
    **dict.fromkeys(NUMERIC, ("mean", "standard_deviation", "quantiles", "top_values")),
    **dict.fromkeys(TEXT, ("min_length", "max_length", "top_values")),
    **dict.fromkeys(TEMPORAL, ("min_time", "max_time", "top_values")),
    "boolean": ("top_values",),
    "array": ("minimum", "maximum", "mean"),
    "map": ("minimum", "maximum", "mean"),
}
"""Statistics measured for each kind of column, in addition to `sample_analyzers`."""
PROFILE_COLUMNS = columns(
    "column type completeness:number distinct:number minimum:number maximum:number mean:number"
    " standard_deviation:number quantiles min_length:number max_length:number min_time:time"
    " max_time:time top_values"
)


def _bucket_analyzer(column: str) -> KLLSketch:
    """Return the analyzer of a numeric column's distribution, which shares the quantiles' sketch."""
    return KLLSketch(column, sketch_size(RANK_ERROR), BUCKET_COUNT)


def _column_analyzers(column: str, kind: str) -> list[AnyAnalyzer]:
    """Return the analyzers to run on a column of the sample."""
    statistics = [STATISTIC_ANALYZERS[name](column) for name in _KIND_STATISTICS.get(kind, ())]
    if kind in NUMERIC:
        statistics.append(_bucket_analyzer(column))
    return [*sample_analyzers(column, kind), *statistics]


def _to_time(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    except OverflowError:  # beyond the range of datetime
        return None


@dataclass(frozen=True)
class Choice:
    """A proposed analyzer and the reason for it."""

    analyzer: AnyAnalyzer
    reason: str


@dataclass(frozen=True)
class Profile(Rendered):
    """A proposed suite with the reason for each analyzer.

    A notebook shows it as a table with one row per column, with a chart of the column's values.

    Attributes
    ----------
    suite : Suite
        The proposed suite.
    table : str or None
        The profiled table or folder; None for a DataFrame.
    rows : int
        Number of rows in the sample.
    choices : tuple of Choice
        Each analyzer of the suite with its reason.
    format : str
        Spark reader format of a folder.
    left_out : mapping of str to str
        Columns without a proposed analyzer, with the reason.
    types : mapping of str to str
        The type of each column and struct field, by path.
    metrics : mapping of Analyzer to Metric
        Metrics of the sample.
    options : mapping of str to str
        Options of the Spark reader.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().range(1000).selectExpr("id % 7 AS amount")  # doctest: +SKIP
    >>> found = tg.profile(orders, "orders")  # doctest: +SKIP
    >>> found.rows, found.suite.dataset, found.choices[0].analyzer  # doctest: +SKIP
    (1000, 'orders', Size())
    """

    renderer: ClassVar[str] = "tidegauge.display.cards:render_profile"

    suite: Suite
    table: str | None
    rows: int
    choices: tuple[Choice, ...]
    format: str = "parquet"
    left_out: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict, repr=False)
    metrics: Mapping[AnyAnalyzer, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords

    @property
    def columns(self) -> pd.DataFrame:
        """Statistics of the sample, with one row per column and struct field.

        The columns are column, type, completeness, distinct (approximate), minimum, maximum, mean,
        standard_deviation, quantiles (a mapping by rank), min_length, max_length, min_time, max_time
        and top_values (a mapping of the most frequent values to their row counts). A statistic that
        the type lacks is None or NaN. Arrays and maps are described by their size.
        """
        rows = [
            {"column": column, "type": kind}
            | {name: self._statistic(name, column, kind) for name in STATISTIC_ANALYZERS}
            for column, kind in self.types.items()
        ]
        return frame_of(rows, PROFILE_COLUMNS)

    def _statistic(self, name: str, column: str, kind: str) -> Any:
        analyzer = STATISTIC_ANALYZERS[name](column)
        metric = self.metrics.get(analyzer)
        if metric is None or metric.failed:
            return None
        value = metric.value
        if kind in TEMPORAL and name in {"min_time", "max_time"}:
            return _to_time(value)
        if isinstance(value, TopDistribution):
            return value.estimates()
        return value

    def buckets(self, column: str) -> list[tuple[float, float, float]]:
        """Return equally wide ranges of a column's numbers: start, end and number of values.

        The list is empty if the column is not numeric, has an infinite value, or has no value.

        Parameters
        ----------
        column : str
            Path of a column or struct field.

        Raises
        ------
        NoSuchColumnError
            If the profile has no such column.

        Examples
        --------
        >>> import tidegauge as tg
        >>> orders = tg.spark_session().range(1000).selectExpr("id % 7 AS amount")  # doctest: +SKIP
        >>> found = tg.profile(orders, "orders")  # doctest: +SKIP
        >>> sum(count for _, _, count in found.buckets("amount"))  # doctest: +SKIP
        1000
        """
        metric = self.metrics.get(_bucket_analyzer(column))
        if metric is None and column not in self.types:
            raise NoSuchColumnError(column, self.types)
        if metric is None or metric.failed:
            return []
        return [(bucket.low, bucket.high, bucket.absolute) for bucket in metric.value.buckets]

    def _checks(self) -> Iterator[tuple[str, str]]:
        """Yield the reason and YAML item of each proposed check. Sampled ranges yield no checks."""
        if self.rows < MIN_ROWS_TO_INFER:
            return
        yield "A partition without rows is not complete.", "has_size: {at_least: 1}"
        for choice in self.choices:
            match choice.analyzer:
                case Completeness(column):
                    share = self._statistic("completeness", column, self.types.get(column, ""))
                    if share == 1:
                        yield choice.reason, f"is_complete: {_to_scalar(column)}"
                    elif share is not None and share >= MIN_COMPLETENESS:
                        limits = {"column": column, "at_least": _completeness_limit(share)}
                        yield (
                            choice.reason,
                            f"is_complete: {_to_flow({**limits, 'level': 'warning'})}",
                        )
                case ApproxUniqueness((column,)):
                    ratio = self.metrics.get(ApproxUniqueValueRatio((column,)))
                    if ratio is not None and not ratio.failed and ratio.value == 1:
                        yield UNIQUE_REASON, f"is_unique: {_to_scalar(column)}"
                case Compliance() as rule if rule.instance.endswith(" is not negative"):
                    column = rule.instance.removesuffix(" is not negative")
                    yield choice.reason, f"is_non_negative: {_to_scalar(column)}"

    @property
    def lacks_header(self) -> bool:
        """True if Spark generated all column names: a CSV file that was read without its header."""
        option_names = {name.casefold() for name in self.options}
        return (
            self.format == "csv"
            and "header" not in option_names
            and all(_UNNAMED_COLUMN.fullmatch(column) for column in self.types)
        )

    def to_yaml(self, folder: str | Path = "") -> str:
        """Return the suite as the content of a suite file, with a comment on each analyzer.

        Parameters
        ----------
        folder : str or Path
            Folder of the file (default: the working directory). Paths are relative to it.

        Examples
        --------
        >>> import tidegauge as tg
        >>> orders = tg.spark_session().range(1000).selectExpr("id % 7 AS amount")  # doctest: +SKIP
        >>> text = tg.profile(orders, "orders").to_yaml()  # doctest: +SKIP
        >>> text.splitlines()[2]  # doctest: +SKIP
        'dataset: orders'
        """
        lines = [
            f"# Proposed from {self.rows:,} rows on {datetime.now(UTC):%Y-%m-%d}. Delete the entries you do",
            "# not need, and add your own.",
            f"dataset: {_to_scalar(self.suite.dataset)}",
        ]
        if self.table is not None and is_folder(self.table):
            path = relative_to(self.table, Path(folder))
            lines += [f"path: {_to_scalar(path)}", f"format: {_to_scalar(self.format)}"]
            if self.options:
                lines.append(f"options: {_to_flow(self.options)}")
        else:
            lines.append(f"table: {_to_scalar(self.table or 'database.table')}")
        if self.lacks_header:
            lines += [
                "# The columns have no names. If the first line of each file has them, profile again with",
                "# header=true, and inferSchema=true for types.",
            ]
        if self.suite.partition_by is not None:
            keys = ", ".join(_to_scalar(key, flow=True) for key in self.suite.partition_by)
            lines.append(f"partition_by: [{keys}]")
        histograms = (c.analyzer for c in self.choices if isinstance(c.analyzer, Histogram))
        if histogram := next(histograms, None):
            lines += [
                "# Uncomment to measure each value separately. Incidents then name the changed values.",
                f"# segments: [[{_to_scalar(histogram.column, flow=True)}]]",
            ]
        lines.append("analyzers:")
        for choice in self.choices:
            lines += [f"  # {one_line(choice.reason)}", f"  - {_item(choice.analyzer)}"]
        lines += [
            f"# {one_line(column)}: {one_line(cause)}" for column, cause in self.left_out.items()
        ]
        checks = list(self._checks())
        if checks:
            lines += [
                "# Checks of every partition; `tidegauge run` and `tidegauge check` evaluate them.",
                "checks:",
            ]
        for reason, item in checks:
            lines += [f"  # {one_line(reason)}", f"  - {item}"]
        return "\n".join(lines) + "\n"


def _completeness_limit(share: float) -> float:
    """Return a lower limit of completeness that leaves room for more nulls.

    The share of nulls can double, or rise by 5 percentage points if that is more.

    Examples
    --------
    >>> _completeness_limit(0.98), _completeness_limit(0.8)
    (0.93, 0.6)
    """
    return floor((share - max(0.05, 1 - share)) * 100 + 1e-9) / 100


def profile(
    table: str | DataFrame,
    dataset: str | None = None,
    *,
    partition_by: Sequence[str] | None = None,
    sample_rows: int = SAMPLE_ROWS,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Profile:
    """Profile a table and propose a suite for it.

    It counts the rows, scans a random sample of them once, and chooses analyzers by type, distinct
    values, patterns and ranges. Statements about values hold for the sample only.

    Parameters
    ----------
    table : str or DataFrame
        As for `analyze`.
    dataset : str, optional
        Name of the dataset (default: the table's name without its database).
    partition_by : sequence of str, optional
        As for `Suite`.
    sample_rows : int
        Approximate number of rows to sample.
    spark, format, options
        As for `analyze`.

    Returns
    -------
    Profile
        The proposed suite, with the statistics of the sample.

    Raises
    ------
    SourceError
        If the table cannot be read.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().range(1000).selectExpr("IF(id < 200, NULL, id % 7) AS amount")  # doctest: +SKIP
    >>> found = tg.profile(orders, "orders")  # doctest: +SKIP
    >>> found.columns[["column", "completeness", "minimum", "maximum"]].values.tolist()  # doctest: +SKIP
    [['amount', 0.8, 0.0, 6.0]]
    >>> print(found.to_yaml())  # a suite file, with a comment on each choice  # doctest: +SKIP
    # Proposed from 1,000 rows on ...
    dataset: orders
    ...
    """
    name = table if isinstance(table, str) else None
    dataset = dataset or name_of(table)
    requested = Suite(dataset, [Size()], partition_by=partition_by)
    source = open_source(table, requested, spark, format, options)
    with (
        explained_read_errors(),
        sample_table(source, sample_rows, privacy_of(requested, name)) as sample,
    ):
        column_analyzers = [a for c, kind in sample.columns for a in _column_analyzers(c, kind)]
        metrics = sample.measure([Size(), *column_analyzers])
    rows = int(metrics[Size()].value)
    chosen, left_out = [Choice(Size(), "The number of rows.")], {}
    for column, kind in sample.columns:
        column_profile = _ColumnProfile(
            column,
            kind,
            rows,
            sample.total,
            {a: metrics[a] for a in sample_analyzers(column, kind)},
        )
        if _ROW_INDEX_COLUMN.fullmatch(column):
            left_out[column] = "the row numbers that pandas writes, unless index=False"
            continue
        choices = list(column_profile.choices())
        chosen += choices
        if not choices:
            left_out[column] = f"no analyzer for type {kind}"
    suite = Suite(dataset, [c.analyzer for c in chosen], partition_by=source.keys or None)
    types = dict(sample.columns)
    given_options = dict(options or {})
    return Profile(
        suite, name, rows, tuple(chosen), format, left_out, types, metrics, given_options
    )


@dataclass(frozen=True)
class _ColumnProfile:
    """Metrics of one column on the sample, and the analyzers chosen from them."""

    column: str
    kind: str
    rows: int
    total: int
    metrics: Mapping[AnyAnalyzer, Any]

    def _value(self, analyzer: AnyAnalyzer) -> Any:
        metric = self.metrics.get(analyzer)
        return None if metric is None or metric.failed else metric.value

    def choices(self) -> Iterator[Choice]:
        """Yield the proposed analyzers of the column with reasons."""
        column, kind = self.column, self.kind
        completeness = self._value(Completeness(column))
        if kind in {"array", "map"}:
            yield Choice(Mean(column), f"Number of elements of the {kind}.")
        elif completeness is not None or self.metrics:
            yield Choice(Completeness(column), _completeness_reason(completeness))
            yield from self._distinct()
        if kind in NUMERIC:
            is_id = is_identifier(column, kind)
            yield from () if is_id or self._is_number_of_row else self._numbers()
        elif kind in TEXT:
            yield from self._texts()
        elif kind in TEMPORAL:
            yield Choice(MinTime(column), "Earliest time.")
            yield Choice(MaxTime(column), "Latest time.")
        elif kind == "boolean":
            yield Choice(
                Compliance(f"{column} is true", column_sql(column)), "Share of true values."
            )

    @property
    def _values(self) -> float:
        """Number of values in the sample."""
        return (self._value(Completeness(self.column)) or 0) * self.rows

    @property
    def _is_unique(self) -> bool:
        """True if almost all values are distinct."""
        distinct = self._value(ApproxCountDistinct(self.column)) or 0
        unique = self._value(ApproxUniqueValueRatio((self.column,))) or 0
        is_distinct = (
            unique >= MIN_MATCHING_SHARE and distinct >= MIN_MATCHING_SHARE * self._values * 0.95
        )
        return is_distinct and self._values >= MIN_ROWS_TO_INFER

    @property
    def _is_number_of_row(self) -> bool:
        """True if the numbers only identify rows: they are unique, in a range with few gaps."""
        if self.kind not in INTEGRAL or not self._is_unique:
            return False
        low, high = self._value(Minimum(self.column)), self._value(Maximum(self.column))
        return low is not None and high is not None and high - low < 2 * self.total

    @property
    def _is_category(self) -> bool:
        """True if there are so few distinct values that each is counted."""
        distinct = self._value(ApproxCountDistinct(self.column)) or 0
        return 0 < distinct <= min(MAX_CATEGORIES, self._values / ROWS_BY_CATEGORY)

    def _distinct(self) -> Iterator[Choice]:
        column = self.column
        distinct = self._value(ApproxCountDistinct(column)) or 0
        if self._is_unique:
            yield Choice(
                ApproxUniqueness((column,)), "Almost all values are unique: possibly a key."
            )
        elif self._is_category and self.kind != "boolean":
            yield Choice(
                Histogram(column, MAX_CATEGORIES), f"{distinct:.0f} distinct values: categorical."
            )
        elif self.kind in TEXT or self.kind in INTEGRAL:
            yield Choice(ApproxCountDistinct(column), f"About {distinct:.0f} values.")

    def _numbers(self) -> Iterator[Choice]:
        column = self.column
        low, high = self._value(Minimum(column)), self._value(Maximum(column))
        sample_range = "" if low is None else f" Sample range: {low:g} to {high:g}."
        yield Choice(Minimum(column), f"Minimum.{sample_range}")
        yield Choice(Maximum(column), "Maximum.")
        yield Choice(Mean(column), "Mean.")
        yield Choice(StandardDeviation(column), "Standard deviation.")
        yield Choice(
            ApproxQuantiles(column, QUANTILE_RANKS, RANK_ERROR), "Quantiles of the distribution."
        )
        if low is not None and low >= 0 and self.rows >= MIN_ROWS_TO_INFER:
            yield Choice(non_negative(column), "No negative values in the sample.")

    def _texts(self) -> Iterator[Choice]:
        column = self.column
        types = self._value(DataType(column))
        values = self._values
        for name in PATTERNS:
            share = self._value(PatternMatch(column, name, "ignore"))
            if share is not None and share >= MIN_MATCHING_SHARE and values >= MIN_ROWS_TO_INFER:
                reason = f"{_percent(share)} of the values match the pattern {name}."
                yield Choice(PatternMatch(column, name, "ignore"), reason)
        typed = 0 if types is None else values - types["String"].absolute
        if values >= MIN_ROWS_TO_INFER and typed >= MIN_MATCHING_SHARE * values:
            yield Choice(
                DataType(column),
                f"{_percent(typed / values)} of the strings are numbers or booleans.",
            )
        if not self._is_category:
            yield Choice(MinLength(column), "Minimum length.")
            yield Choice(MaxLength(column), "Maximum length.")


def _percent(share: float) -> str:
    """Format a share as a percentage that is 100% only for exactly 1.

    Examples
    --------
    >>> _percent(0.99999), _percent(1.0), _percent(0.5)
    ('99.99%', '100%', '50%')
    """
    if share == 1:
        return "100%"
    return f"{min(share * 100, 99.99):.4g}%"


def _completeness_reason(completeness: float | None) -> str:
    if completeness is None:
        return "Share of non-null values."
    return (
        "Never null in the sample."
        if completeness == 1
        else f"{_percent(completeness)} are not null."
    )


def _item(analyzer: AnyAnalyzer) -> str:
    """Format an analyzer as an item of a suite file, in the shortest form."""
    defaults = type(analyzer).__dataclass_fields__
    options = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in analyzer.options().items()
        if value != defaults[name].default
    }
    name = type(analyzer).__name__
    if not options:
        return name
    only_value = next(iter(options.values())) if len(options) == 1 else None
    first_name = next(parameter for parameter, option in defaults.items() if not option.kw_only)
    is_short = isinstance(only_value, str) and next(iter(options)) in {first_name, "column"}
    return f"{name}: {_to_scalar(only_value) if is_short else _to_flow(options)}"


def _to_scalar(value: Any, *, flow: bool = False) -> str:
    """Format a string as a YAML scalar, quoted if needed."""
    if flow:
        return _to_flow([str(value)])[1:-1]
    yaml_text = yaml.safe_dump(str(value), width=10**6, allow_unicode=True, explicit_end=False)
    return _on_one_line(yaml_text.removesuffix("\n...\n").strip(), str(value))


def _to_flow(value: Any) -> str:
    yaml_text: str = yaml.safe_dump(
        value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False
    )
    return _on_one_line(yaml_text.strip(), value)


def _on_one_line(yaml_text: str, value: Any) -> str:
    """Return a value's YAML, or JSON if the YAML has line ends or invisible characters."""
    return yaml_text.replace("${", "$${") if yaml_text.isprintable() else for_yaml(value)
