"""`suggest`: propose checks from rows and from history, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analyzers.checks.constraints import Constraint, MetricConstraint
from analyzers.counts import Size
from analyzers.errors import SuiteError
from tidegauge.analysis import open_source
from tidegauge.checks.from_data import from_data
from tidegauge.checks.from_history import from_history
from tidegauge.checks.suggestions import Suggestion, Suggestions
from tidegauge.checks.verify import the_dataset
from tidegauge.sample import SAMPLE_ROWS, name_of, sampled
from tidegauge.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from repository.repository import Repository


def suggest(
    table: str | DataFrame | None = None,
    *,
    repository: Repository | None = None,
    dataset: str | None = None,
    segment: str = "",
    partition_by: Sequence[str] | None = None,
    sample_rows: int = SAMPLE_ROWS,
    spark: SparkSession | None = None,
    format: str = "parquet",  # noqa: A002 - Spark's word for it
    options: Mapping[str, str] | None = None,
) -> Suggestions:
    """Propose checks from a table's rows, from its history in a repository, or from both.

    Rows tell of nulls, keys, categories, patterns, kinds and ranges. The past tells limits: what lay between
    the 1 % and the 99 % quantile with half their distance as a margin; shares not below their 1 %
    quantile less what its rows leave uncertain (Wilson, rounded down to two decimals), nor below the week
    before by more than in 99 of 100 weeks; and what is usual for the seasonal detector. Limits need
    20 partitions, the detector 28. Where the past limits a metric, rows do not limit it again.

    Everything that is returned was judged before: by the rows that were looked at, where it holds; in all
    partitions, where it holds in the newest and in 95 % at least, as its reason says. What did not is in
    `Suggestions.left_out`.

    Parameters
    ----------
    table : str or DataFrame, optional
        As for `analyze`; without it nothing is scanned, and Spark is not needed.
    repository : Repository, optional
        Where the history of the dataset lies, if there is any.
    dataset : str, optional
        The table's name without its database if not given; without a table, the only one that there is.
    segment : str
        A segment whose history is asked in place of that of whole partitions: ``origin=EWR``.
    partition_by : sequence of str, optional
        As for `Suite`; nothing is suggested for these columns.
    sample_rows : int
        About how many rows to look at. They are looked at two or three times.
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
    >>> found = tg.suggest(repository=repo, dataset="flights")  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    >>> tg.verify(repo, found.check("flights")).passed  # doctest: +SKIP
    True
    """
    if table is None and repository is None:
        msg = "suggest takes a table, a repository with its history, or both"
        raise SuiteError(msg)
    past: list[Suggestion] = []
    left_out: dict[str, str] = {}
    if table is not None:
        dataset = dataset or name_of(table)
    if repository is not None and (table is None or dataset in repository.datasets()):
        dataset = the_dataset(repository, dataset)
        past, left_out = from_history(repository, dataset, segment)
    assert dataset is not None
    if table is None:
        return Suggestions(dataset, tuple(past), left_out)

    suite = Suite(dataset, [Size()], partition_by=partition_by)
    with sampled(open_source(table, suite, spark, format, options), sample_rows) as sample:
        seen, refused = from_data(sample)
    limited = {one.constraint.analyzer for one in past if _limits(one.constraint)}
    new = [one for one in seen if one.constraint.analyzer not in limited]
    return Suggestions(dataset, (*past, *new), {**left_out, **refused})


def _limits(constraint: Constraint) -> bool:
    return isinstance(constraint, MetricConstraint) and constraint.part is None
