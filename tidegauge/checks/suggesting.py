"""`suggest`: propose checks from rows and from history, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegauge.analysis import open_source
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.measures.counts import Size
from tidegauge.analyzers.scan.read_errors import explained_read_errors
from tidegauge.checks.constraints import Constraint, MetricConstraint
from tidegauge.checks.from_data import suggest_from_data
from tidegauge.checks.from_history import suggest_from_history
from tidegauge.checks.suggestions import Suggestion, Suggestions
from tidegauge.checks.verifying import resolve_dataset
from tidegauge.repository.repository import as_repository
from tidegauge.sampling import SAMPLE_ROWS, name_of, sample_table
from tidegauge.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository


def suggest(
    table: str | DataFrame | None = None,
    *,
    repository: Repository | str | None = None,
    dataset: str | None = None,
    segment: str = "",
    partition_by: Sequence[str] | None = None,
    sample_rows: int = SAMPLE_ROWS,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Suggestions:
    """Propose checks from a table's rows, from its history in a repository, or from both.

    Rows give constraints on nulls, keys, categories, patterns, types and ranges. History gives
    limits: the 1 % and the 99 % quantile with half their distance as a margin; for shares, a
    minimum at their 1 % quantile less the sampling uncertainty of its rows (Wilson, rounded down to
    two decimals), and a largest drop against the week before, the 99 % quantile of weekly drops;
    and the normal range of the seasonal detector. Limits need 20 partitions, the detector 28. If
    history limits a metric, rows do not limit it again.

    Every suggestion was verified: on the rows read, where it holds; or in all partitions, where it
    holds in the newest and in at least 95 %, as its reason states. Rejected ones are in
    `Suggestions.left_out`.

    Parameters
    ----------
    table : str or DataFrame, optional
        As for `analyze`; without it nothing is scanned, and Spark is not needed.
    repository : Repository or str, optional
        Repository, or its URL, that holds the history of the dataset, if any.
    dataset : str, optional
        The table's name without its database if not given; without a table, the only dataset of the
        repository.
    segment : str
        Segment whose history is used instead of that of whole partitions: ``origin=EWR``.
    partition_by : sequence of str, optional
        As for `Suite`; nothing is suggested for these columns.
    sample_rows : int
        Approximate number of rows to read. They are read two or three times.
    spark, format, options
        As for `analyze`.

    Returns
    -------
    Suggestions

    Raises
    ------
    SuiteError
        If there is neither a table nor a repository.
    UnknownDatasetError
        If there is no table, and the repository has no such dataset.
    SourceError
        If the table cannot be read.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().range(1000).selectExpr("id", "id % 7 AS amount")  # doctest: +SKIP
    >>> found = tg.suggest(orders, dataset="orders")  # doctest: +SKIP
    >>> any(one.code == ".is_complete('id')" for one in found)  # doctest: +SKIP
    True
    >>> tg.verify(orders, found.check()).passed  # doctest: +SKIP
    True
    """
    repository = as_repository(repository)
    if table is None and repository is None:
        msg = "suggest takes a table, a repository with its history, or both"
        raise SuiteError(msg)
    past: list[Suggestion] = []
    left_out: dict[str, str] = {}
    if table is not None:
        dataset = dataset or name_of(table)
    if repository is not None and (table is None or dataset in repository.datasets()):
        dataset = resolve_dataset(repository, dataset)
        past, left_out = suggest_from_history(repository, dataset, segment)
    assert dataset is not None
    if table is None:
        return Suggestions(dataset, tuple(past), left_out)

    suite = Suite(dataset, [Size()], partition_by=partition_by)
    source = open_source(table, suite, spark, format, options)
    with explained_read_errors(), sample_table(source, sample_rows) as sample:
        seen, refused = suggest_from_data(sample)
    limited = {one.constraint.analyzer for one in past if _limits(one.constraint)}
    new = [one for one in seen if one.constraint.analyzer not in limited]
    return Suggestions(dataset, (*past, *new), {**left_out, **refused})


def _limits(constraint: Constraint) -> bool:
    return isinstance(constraint, MetricConstraint) and constraint.part is None
