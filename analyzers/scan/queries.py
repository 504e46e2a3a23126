"""Queries of users over the data of a scan, as a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.sql import count_rows
from tidegauge.analyzers.measures.custom import CustomQuery
from tidegauge.analyzers.scan.grouping import Groups, filter_partitions
from tidegauge.analyzers.scan.jobs import Answers, ScanJob
from tidegauge.analyzers.scan.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEGMENTED = Failure(
    MetricRuntimeError("a query is not measured by segments: filter the data with where= instead")
)


@dataclass(frozen=True)
class Querying(ScanJob):
    """A query, run once for each partition. The result is its number, and the number of rows."""

    requests: tuple[CustomQuery, ...]
    kind: ClassVar[str] = "query"

    def check(self, data: DataFrame) -> None:
        """Raise an `UnresolvedQueryError` if the query cannot be resolved."""
        views = Views(data.sparkSession)
        try:
            self._result(views, data)
        finally:
            views.drop()

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the rows of all partitions, then query those that have any, one by one."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        cells = [F.expr(count_rows(request.where)).alias("rows")]
        counted = groups.aggregated(groups.with_keys(data), cells).collect()
        found: dict[Any, Any] = {}
        for row in counted:
            key, rows = groups.key_of(row), row[-1]
            if key[1]:
                found[key] = _SEGMENTED
            elif rows:
                own = filter_partitions(data, groups.by, [key[0]]) if groups.by else data
                number = self._number(own)
                found[key] = number if isinstance(number, Failure) else (number, rows)
        return {request: found}

    def _number(self, data: DataFrame) -> Any:
        """Return the query's number, or the failure of one that answers with something else."""
        views = Views(data.sparkSession)
        try:
            result = self._result(views, data)
            rows, width = result.limit(2).collect(), len(result.columns)
        finally:
            views.drop()
        if len(rows) == 1 and width == 1:
            return rows[0][0]
        size = f"{width} columns" if len(rows) == 1 else f"{len(rows) or 'no'} rows"
        size = size if len(rows) < 2 else "more than one row"
        return Failure(MetricRuntimeError(f"a query answers with one number, this one with {size}"))

    def _result(self, views: Views, data: DataFrame) -> DataFrame:
        (request,) = self.requests
        views.add(request.view, data if request.where is None else data.where(request.where))
        return views.query(request.sql)
