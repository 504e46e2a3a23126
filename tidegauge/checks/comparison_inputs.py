"""Read the inputs of comparison constraints: metrics of other tables, results of queries, distances."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    PartitionSelectionError,
    SuiteError,
    TidegaugeError,
    message_of,
)
from tidegauge.analyzers.core.metric import Failure, Metric
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import literal
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import Outcome, scan
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.checks.comparisons import (
    MAX_QUERY_ROWS,
    ComparisonConstraint,
    DriftConstraint,
    Found,
    NothingEarlier,
    OtherTableConstraint,
    QueryConstraint,
    QueryResults,
    Row,
)
from tidegauge.checks.constraints import Constraint
from tidegauge.repository.detection.judge import UNSTORED_ID
from tidegauge.repository.distributions.drift import drift_before
from tidegauge.repository.distributions.stored import CATEGORICAL_KIND, NUMERIC_KIND, StoredColumn
from tidegauge.repository.history.evidence import CheckTarget, View, load_evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf


DATA_VIEW = "data"
"""Name of the view of the checked data in users' queries."""

Foundations = Mapping[str, Mapping[Constraint, Found]]
"""Inputs of comparisons by partition and constraint."""


@dataclass(frozen=True)
class Comparer:
    """Reader of other tables and queries for one dataset's partitions.

    Attributes
    ----------
    repository : Repository, optional
        Repository in which other tables can have metrics.
    read : callable, optional
        Returns the data of a partition by its name; without it, Spark reads no data.
    segment : str
        The checked segment; its metrics of other tables can only come from a repository.
    as_of : str, date, datetime or int, optional
        The view of the repository.
    private : Privacy
        Columns whose values are not shown.
    examples : bool
        Whether rows are shown.
    """

    repository: Repository | None = None
    read: Callable[[str], DataFrame] | None = None
    segment: str = ""
    as_of: AsOf = None
    private: Privacy = PUBLIC
    examples: bool = True

    def find(
        self, constraints: Iterable[Constraint], dataset: str, targets: Sequence[CheckTarget]
    ) -> Foundations:
        """Return the inputs of comparison constraints by partition; a string is the reason for a missing input."""
        partitions = [target.partition for target in targets]
        comparisons = [
            constraint
            for constraint in dict.fromkeys(constraints)
            if isinstance(constraint, ComparisonConstraint)
        ]
        inputs: dict[str, dict[Constraint, Found]] = {name: {} for name in partitions}
        tables: dict[str, list[OtherTableConstraint]] = {}
        for constraint in comparisons if partitions else ():
            if isinstance(constraint, OtherTableConstraint):
                tables.setdefault(constraint.other, []).append(constraint)
            elif isinstance(constraint, QueryConstraint):
                for name in partitions:
                    inputs[name][constraint] = self._results(constraint, name)
            elif isinstance(constraint, DriftConstraint):
                for target in targets:
                    inputs[target.partition][constraint] = self._drift(constraint, dataset, target)
        for table, of_table in tables.items():
            metrics = self._other(
                table, [constraint.analyzer for constraint in of_table], partitions
            )
            for name in partitions:
                for constraint in of_table:
                    inputs[name][constraint] = metrics[name, constraint.analyzer]
        return inputs

    def _other(
        self, table: str, analyzers: Sequence[AnyAnalyzer], partitions: Sequence[str]
    ) -> dict[tuple[str, AnyAnalyzer], Metric[Any] | str]:
        """Return the metrics of another table by partition, measuring partitions without stored metrics."""
        pairs = [(name, analyzer) for name in partitions for analyzer in analyzers]
        metrics: dict[tuple[str, AnyAnalyzer], Metric[Any] | str] = dict(
            self._stored(table, analyzers, partitions)
        )
        missing = [pair for pair in pairs if pair not in metrics]
        if missing:
            names = list(dict.fromkeys(name for name, _ in missing))
            try:
                metrics |= self._measured(table, analyzers, names)
            except Exception as error:  # noqa: BLE001 - a table that cannot be read fails the constraint
                message = message_of(error)
                metrics |= dict.fromkeys(missing, message)
        return metrics

    def _stored(
        self, table: str, analyzers: Sequence[AnyAnalyzer], partitions: Sequence[str]
    ) -> Iterable[tuple[tuple[str, AnyAnalyzer], Metric[Any]]]:
        """Yield the metrics that the repository has."""
        if self.repository is None or table not in self.repository.datasets():
            return
        view = View(self.repository.database, self.repository.artifacts, table, self.as_of)
        ledger = self.repository.partitions(table, as_of=self.as_of)
        current = set(ledger[ledger["gone_at"].isna()]["partition"])
        try:
            targets = view.targets([name for name in partitions if name in current], self.segment)
        except PartitionSelectionError:  # no partition has the segment
            return
        evidence = load_evidence(view, targets, analyzers)
        for target in targets:
            for analyzer in analyzers:
                metric = evidence.for_target(target).metric(analyzer)
                if metric is not None:
                    yield (target.partition, analyzer), metric

    def _measured(
        self, table: str, analyzers: Sequence[AnyAnalyzer], names: Sequence[str]
    ) -> dict[tuple[str, AnyAnalyzer], Metric[Any] | str]:
        """Measure partitions of a table or view in one scan."""
        if self.read is None or self.segment:
            segment_text = f"segment {self.segment!r} of " if self.segment else ""
            msg = f"the repository has no metric of {segment_text}{table!r} to compare with"
            raise SuiteError(msg)
        spark = self.read(names[0]).sparkSession
        if not spark.catalog.tableExists(table):
            msg = f"no dataset, table or view {table!r} to compare with"
            raise SuiteError(msg)
        data, partitions = spark.table(table), [Partition.from_name(name) for name in names]
        keys = partitions[0].keys
        spelled = {column.casefold(): column for column in data.columns}
        unknown = [key for key in keys if key.casefold() not in spelled]
        if unknown:
            msg = f"{table!r} has no column {unknown[0]!r}, which is needed to find its partitions"
            raise SuiteError(msg)
        columns = [spelled[key.casefold()] for key in keys]
        kinds = [data.schema[column].dataType.typeName() for column in columns]
        values = {partition.name: _printed(partition.values, kinds) for partition in partitions}
        keys_to_read = set(values.values())
        if columns:
            data = filter_partitions(data, columns, keys_to_read)
        result = scan(data, analyzers, columns, keep=lambda group_key: group_key in keys_to_read)
        return {
            (name, analyzer): _metric(
                analyzer, result.groups.get(partition_values, result.nothing).states[analyzer]
            )
            for name, partition_values in values.items()
            for analyzer in analyzers
        }

    def _drift(self, constraint: DriftConstraint, dataset: str, target: CheckTarget) -> Found:
        """Return the distances from earlier distributions, or the reason for a missing distance."""
        if self.repository is None:
            return (
                "earlier distributions are stored in a repository: pass repository= and partition="
            )
        if dataset not in self.repository.datasets():
            return NothingEarlier()
        if target.time is None:
            return "the partition has no time, so it has no earlier partitions"
        column = StoredColumn(
            self.repository.database,
            self.repository.artifacts,
            dataset,
            constraint.column,
            target.segment,
            constraint.analyzer.where,
            self.as_of,
            CATEGORICAL_KIND if constraint.categorical else NUMERIC_KIND,
        )
        current = None
        if target.id == UNSTORED_ID and self.read is not None:
            state = scan(self.read(target.partition), [constraint.analyzer]).single_group.states
            outcome = state[constraint.analyzer]
            if isinstance(outcome, Failure):
                return str(outcome.error)
            current = outcome.value
        try:
            distances = drift_before(
                column, target.partition, target.time, constraint.length, current
            )
        except TidegaugeError as error:
            return str(error)
        return NothingEarlier() if distances is None else asdict(distances)

    def _results(self, constraint: QueryConstraint, name: str) -> Found:
        """Return the results of both queries on a partition, or the reason for missing results."""
        if self.read is None:
            return "queries need data: verify a DataFrame, or use tidegauge check"
        if self.segment:
            return f"queries are run on whole partitions, not on a segment ({self.segment})"
        data = self.read(name)
        views = Views(data.sparkSession)
        partition = Partition.from_name(name)
        try:
            views.add(DATA_VIEW, data)
            queries = (
                with_keys(query_text, partition)
                for query_text in (constraint.query, constraint.other)
            )
            frames = [views.query(query) for query in queries]
            if len({len(frame.columns) for frame in frames}) > 1:
                counts = " and ".join(str(len(frame.columns)) for frame in frames)
                return f"the results have {counts} columns"
            left_rows, right_rows = (_rows(frame) for frame in frames)
            private = [self.private.columns_of(Schema.from_frame(f)) for f in (data, *frames)]
            return QueryResults(
                left_rows, right_rows, can_show_rows=self.examples and not any(private)
            )
        except Exception as error:  # noqa: BLE001 - a query that fails, fails the constraint
            return message_of(error)
        finally:
            views.drop()


def _printed(values: Values, kinds: Sequence[str]) -> Values:
    """Return a partition's values as columns of these types print them: for integers, ``hr=07`` is 7.

    Examples
    --------
    >>> _printed(("07", "07"), ["integer", "string"])
    ('7', '07')
    """
    return tuple(
        str(int(value)) if kind in INTEGRAL and re.fullmatch(r"[+-]?\d+", value) else value
        for value, kind in zip(values, kinds, strict=True)
    )


def with_keys(query: str, partition: Partition) -> str:
    """Replace ``{key}`` in a query by the partition's value, as a literal.

    Examples
    --------
    >>> with_keys("SELECT n FROM t WHERE ds = {ds} AND x RLIKE '{2}'", Partition(("ds",), ("2013-02-08",)))
    "SELECT n FROM t WHERE ds = '2013-02-08' AND x RLIKE '{2}'"
    """
    values = dict(zip(partition.keys, partition.values, strict=True))
    return re.sub(
        r"\{(\w+)\}",
        lambda match: literal(values[match[1]]) if match[1] in values else match[0],
        query,
    )


def _rows(frame: DataFrame) -> list[Row]:
    rows = frame.limit(MAX_QUERY_ROWS + 1).collect()
    if len(rows) > MAX_QUERY_ROWS:
        msg = f"the result of a query has more than {MAX_QUERY_ROWS:,} rows; aggregate them"
        raise SuiteError(msg)
    return [tuple(row) for row in rows]


def _metric(analyzer: AnyAnalyzer, outcome: Outcome) -> Metric[Any]:
    if isinstance(outcome, Failure):
        return analyzer.to_failure_metric(outcome.error)
    return analyzer.compute_metric_from(outcome.value)
