"""Result of an online/offline comparison, feature by feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import UnknownNameError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import Failure, Metric, Success, flatten
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.scan.scan import Group, Outcome, metric_of
from tidegauge.consistency.compare.distributions import QUANTILES
from tidegauge.consistency.compare.measures import AnyMeasure, ConsistencyRows, compared_as_floats

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

ALL = "*"
"""Group-by of features without a named one, and the feature of row metrics."""
LONG_FORM = frozenset(
    [
        "mismatch",
        "missing",
        "extra",
        "both_null",
        "total",
        "smape",
        "smape_mean",
        "delta",
        "logged",
        "backfilled",
        "logged_length",
        "backfilled_length",
        "edit_insert",
        "edit_delete",
        "missing_keys",
        "extra_keys",
        "mismatched_keys",
        "left_keys",
        "right_keys",
        "row_missing",
        "row_extra",
    ]
)
"""Metrics of the long form; all others are in `Comparison.metrics` and in the repository."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of a comparison, as mergeable states.

    Attributes
    ----------
    table : DataFrame
        The comparison table, as returned by `tidegauge.consistency.compare.join.pair`.
    by : tuple of str
        Its columns by which results are partitioned.
    measures : tuple of Analyzer
        All measures.
    groups : mapping of tuple of str to Group
        The states, by the values of the ``by`` columns.
    uncompared : tuple of str
        Sentences that name the columns of one side only, if the features were not given by name.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> found  # doctest: +SKIP
    <Comparison of 1 feature in 1 row and 1 group>
    >>> metrics = found.merged().metrics().set_index("metric_name")["number"]  # doctest: +SKIP
    >>> metrics[["mismatch", "delta-p50"]].tolist()  # doctest: +SKIP
    [1.0, 1.0]
    """

    table: DataFrame
    by: tuple[str, ...]
    measures: tuple[AnyMeasure, ...]
    groups: Mapping[Values, Group]
    uncompared: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the reader: columns that were not compared, and features compared as floats."""
        return (*self.uncompared, *compared_as_floats(Schema.from_frame(self.table)))

    def __repr__(self) -> str:
        """Return a summary with the numbers of features, rows and groups, and the notices."""
        features = len({m.instance for m in self.measures if not isinstance(m, ConsistencyRows)})
        rows = sum(group.rows for group in self.groups.values())
        said = f"{plural(features, 'feature')} in {plural(rows, 'row')} and {plural(len(self.groups), 'group')}"
        return "\n".join([f"<Comparison of {said}>", *self.notices])

    def merged(self, by: Sequence[str] = ()) -> Comparison:
        """Roll up the results to fewer columns: hours into days, or everything into one group.

        Parameters
        ----------
        by : sequence of str
            The columns of `by` to keep.

        Raises
        ------
        UnknownNameError
            If one is not in `by`.
        """
        for name in by:
            if name not in self.by:
                raise UnknownNameError("column", name, self.by)
        at = [self.by.index(name) for name in by]
        parts: dict[Values, list[Group]] = {}
        for values, group in self.groups.items():
            parts.setdefault(tuple(values[i] for i in at), []).append(group)
        groups = {values: self._added(some) for values, some in parts.items()}
        return Comparison(self.table, tuple(by), self.measures, groups, self.uncompared)

    def _added(self, groups: Sequence[Group]) -> Group:
        states: dict[AnyAnalyzer, Outcome] = {}
        for measure in self.measures:
            found = [group.states[measure] for group in groups]
            failed = next((one for one in found if isinstance(one, Failure)), None)
            known = [one.value for one in found if isinstance(one, Success)]
            states[measure] = failed or Success(measure.state_type.merge(known))
        return Group(sum(group.rows for group in groups), states)

    def measured(self) -> Iterator[tuple[Values, AnyMeasure, Metric[Any]]]:
        """Yield every metric with its group and measure, in order."""
        for values in sorted(self.groups):
            states = self.groups[values].states
            for measure in self.measures:
                yield values, measure, metric_of(measure, states[measure])

    def metrics(self) -> pd.DataFrame:
        """Return all metrics as a tidy frame, one row per number.

        Returns
        -------
        pandas.DataFrame
            The columns of `by`, then ``group_by_name``, ``feature_name`` (``*`` for metrics of rows),
            ``metric_name`` (with the quantile of distributions, as in ``delta-p50``), ``number`` (NaN
            if undefined), ``weight`` (the rows behind it) and ``error`` (the reason for NaN).
        """
        import pandas as pd

        rows = [
            (*values, *_of(measure), one.name.partition(".")[2], *_value_and_error(one))
            for values, measure, metric in self.measured()
            for one in flatten(metric)
        ]
        names = ("group_by_name", "feature_name", "metric_name", "number", "weight", "error")
        return pd.DataFrame(rows, columns=[*self.by, *names])

    def long(self) -> pd.DataFrame:
        """Return the metrics in long form: one row each, with a histogram or a number.

        Metrics without a value, such as those of all-null features, have no row.

        Returns
        -------
        pandas.DataFrame
            The columns of `by`, then ``group_by_name``, ``feature_name`` (``*`` for rows),
            ``metric_name``, ``histogram`` (min, p5, p25, p50, p75, p95, max) and ``number``, of
            which exactly one is not None. ``mismatch``, ``missing``, ``extra`` and ``both_null``
            are fractions of the matched rows; ``total``, ``row_missing`` and ``row_extra`` count
            rows; map metrics are sums of keys.

        Examples
        --------
        >>> import tidegauge as tg
        >>> spark = tg.spark_session()  # doctest: +SKIP
        >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
        >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
        >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
        >>> rows = found.merged().long().set_index("metric_name")  # doctest: +SKIP
        >>> rows.loc["mismatch", "number"], rows.loc["delta", "histogram"][3]  # doctest: +SKIP
        (1.0, 1.0)
        """
        import pandas as pd

        rows = [
            (*values, *_of(measure), measure.metric, *_cells(metric.value))
            for values, measure, metric in self.measured()
            if measure.metric in LONG_FORM and not metric.failed
        ]
        names = ("group_by_name", "feature_name", "metric_name", "histogram", "number")
        return pd.DataFrame(rows, columns=[*self.by, *names], dtype=object)


def _of(measure: AnyMeasure) -> tuple[str, str]:
    return measure.group_by, getattr(measure, "feature", ALL)


def _value_and_error(metric: Metric[float]) -> tuple[float, float | None, str | None]:
    match metric.outcome:
        case Success(value):
            return value, metric.weight, None
        case Failure(error):
            return float("nan"), metric.weight, str(error)


def _cells(value: Any) -> tuple[list[float] | None, float | None]:
    if isinstance(value, Mapping):
        return [value[name] for name in QUANTILES], None
    return None, value
