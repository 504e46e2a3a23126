"""Entry points for consistency: `tg.consistency.run`, and lag estimation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.analyzers.runs.recording import recording_failed_start
from tidegauge.consistency import lag_estimation as lag
from tidegauge.consistency import pipeline
from tidegauge.consistency.compare.comparison import is_of_log
from tidegauge.consistency.configuration import Configuration
from tidegauge.consistency.log import flattening
from tidegauge.files.consistency_files import load_configuration
from tidegauge.repository.repository import as_repository
from tidegauge.spark.session import spark_session

__all__ = ["compact", "estimate_lag", "load_configuration", "run"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.consistency.lag_estimation import LagEstimates
    from tidegauge.consistency.log.flattening import Compacted
    from tidegauge.consistency.pipeline import ConsistencyRun
    from tidegauge.repository.repository import Repository


def run(
    configuration: Configuration | str | Path,
    *,
    repository: Repository | str,
    spark: SparkSession | None = None,
    until: str | None = None,
    since: str | None = None,
    recompute: bool = False,
    dataset: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> ConsistencyRun:
    """Flatten, backfill, compare and measure days that are new or whose logs or backfill changed.

    Anomalies are detected by the configuration's monitors, or else in rates and numbers of rows
    that are unlike their past, and in any case where more than half of the rows are on one side
    only or more than 5 % of a day's queries could not be read. How many were read is kept by day in a dataset of its own,
    ``<dataset>.log``. Every step completes whole days, and a day left unfinished by a killed run is
    finished by the next. With a table as backfill, a day is compared again when the table's files
    of that day change; inputs of a query or a callable are not tracked, so set ``recompute`` when
    they change.

    Parameters
    ----------
    configuration : Configuration, str or Path
        A configuration, or the path of its file.
    repository : Repository or str
        A repository, or its URL.
    spark : SparkSession, optional
        By default the active one, or a local one with Hive.
    until : str, optional
        The last day, as ``2023-01-05``; by default yesterday in UTC.
    since : str, optional
        The first day; by default the configuration's, else the first of the log.
    recompute : bool
        Compare and measure all days again.
    dataset : str, optional
        Dataset name in the repository; by default the configuration's.
    tags : mapping, optional
        Tags of the runs, besides ``sample_percent`` and ``query_source``.

    Returns
    -------
    ConsistencyRun

    Raises
    ------
    PreconditionError
        If the sides are not comparable; lists all mismatches.
    NoSuchTableError, SuiteError, SourceError
        As for `flatten`; if ``since`` or ``until`` is not a day; if an existing table of the same
        name has other columns.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> backfill = tg.consistency.QueryBackfill("SELECT user, ts, 3 AS clicks FROM logged_keys")
    >>> search = tg.consistency.Configuration("shop", "search", ("user",), backfill)
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     done = tg.consistency.run(search, repository=repo, spark=spark, until="2023-01-05")
    ...     repo.metrics("shop.search", "Consistency.mismatch")["value"].tolist()
    [0.0]
    """
    from tidegauge.repository.detectors.monitor import Monitor

    repository = as_repository(repository)
    told = as_configuration(configuration)
    told = told if dataset is None else replace(told, dataset=dataset)
    selection = f"{since or ''}..{until or ''}" if since or until else "all" if recompute else "new"
    spec = RunSpec(told.dataset, None, (), selection=selection, tags=dict(tags or {}))
    with recording_failed_start(repository.store, spec):
        done = pipeline.run(
            spark or spark_session(), told, repository,
            until=until, since=since, recompute=recompute, tags=tags,
        )  # fmt: skip
    of_log = [Monitor.from_dict(one) for one in told.watched if is_of_log(one)]
    found: dict[str, tuple[str, ...]] = {}
    known = repository.datasets()
    # Also where nothing is new: the run before may have been killed after it had recorded.
    for name, monitors in ((told.dataset, None), (done.log_dataset, of_log)):
        if name in known:
            before = repository.anomalies(name)["id"]
            after = repository.detect(name, monitors)
            found[name] = tuple(after.loc[~after["id"].isin(before), "partition"])
    return replace(done, found=found)


def compact(
    namespace: str,
    *,
    repository: Repository | str,
    spark: SparkSession | None = None,
    now: datetime | None = None,
    dry_run: bool = False,
) -> Compacted:
    """Join the small files that clients wrote to a query log on past days.

    No query changes, so days are not flattened or compared again. Runs of the same joins on the same
    repository wait meanwhile; another reader of the log may for a moment see queries twice. What a
    killed compaction leaves is finished by the next one, or by the next run.

    Parameters
    ----------
    namespace : str
        The database of the query log, as in the configuration.
    repository : Repository or str
        The repository of the runs, or its URL.
    spark : SparkSession, optional
        By default the active one, or a local one with Hive.
    now : datetime, optional
        Days before its day in UTC are past; now by default.
    dry_run : bool
        Count the files, and join none.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    OSError
        If files cannot be read or written.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop", clients=2)  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     print(tg.consistency.compact("shop", repository=repo, spark=spark))
    `shop`.`query_logs`: joined 2 files of 1 partition into 1
    """
    return flattening.compact(
        spark or spark_session(), namespace, as_repository(repository), now, dry_run=dry_run
    )


def estimate_lag(
    configuration: Configuration | str | Path,
    *,
    spark: SparkSession | None = None,
    until: str | None = None,
    since: str | None = None,
    longest_ms: int = 2 * 3_600_000,
    step_ms: int = 300_000,
    rows: int = 20_000,
    seed: int = 0,
    group_bys: Collection[str] | None = None,
) -> LagEstimates:
    """Estimate the write lag of each group-by whose backfill is a query or a callable.

    Each backfill is queried once for the features at all candidate lags before each logged query.
    The estimate is the lag at which the fewest logged values differ. Nothing is recorded.

    Parameters
    ----------
    configuration : Configuration, str or Path
        A configuration, or the path of its file. Its configured lags are tried, too.
    spark : SparkSession, optional
        By default the active one, or a local one with Hive.
    until : str, optional
        The last day, as ``2023-01-05``; by default yesterday in UTC.
    since : str, optional
        The first day; by default the configuration's, else the first of the log.
    longest_ms, step_ms : int
        Longest lag to try, and the step between lags, in milliseconds.
    rows : int
        Approximate upper limit of compared queries: all queries of some keys, always the same ones.
    seed : int
        Random seed of the bootstrap.
    group_bys : collection of str, optional
        Group-bys to estimate; by default all whose backfill is not a table.

    Returns
    -------
    LagEstimates
        Its ``settings()`` are ready for the configuration.

    Raises
    ------
    SuiteError
        If a group-by's backfill is a table, or there are no lags to try.
    PreconditionError
        If the sides are not comparable; lists all mismatches.
    NoSuchTableError, SourceError
        As for `flatten`, and if nothing was logged.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> backfill = tg.consistency.QueryBackfill("SELECT user, ts, 3 AS clicks FROM logged_keys")
    >>> search = tg.consistency.Configuration("shop", "search", ("user",), backfill)
    >>> times = {"longest_ms": 120_000, "step_ms": 60_000, "until": "2023-01-05"}
    >>> found = tg.consistency.estimate_lag(search, spark=spark, **times)  # doctest: +SKIP
    >>> found.curve()["share"].tolist()  # 3 at each lag, as was served: nothing to tell them by  # doctest: +SKIP
    [0.0, 0.0, 0.0]
    """
    return lag.estimate_lag(
        spark or spark_session(), as_configuration(configuration),
        until=until, since=since, longest_ms=longest_ms, step_ms=step_ms,
        rows=rows, seed=seed, group_bys=group_bys,
    )  # fmt: skip


def as_configuration(given: Configuration | str | Path) -> Configuration:
    """Return a configuration, loaded from its file if given a path."""
    return given if isinstance(given, Configuration) else load_configuration(given)
