"""Comparing as a configuration says: `tg.consistency.run`, and what lags to set in one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.consistency import lag, pipeline
from analyzers.consistency.configuration import Configuration
from tidegauge.consistency.conffile import load_configuration
from tidegauge.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analyzers.consistency.lag_estimates import LagEstimates
    from analyzers.consistency.pipeline import ConsistencyRun
    from repository.repository import Repository


def run(
    configuration: Configuration | str | Path,
    *,
    repository: Repository,
    spark: SparkSession | None = None,
    until: str | None = None,
    since: str | None = None,
    recompute: bool = False,
    dataset: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> ConsistencyRun:
    """Flatten, backfill, compare and measure the days that are new, or whose logs or backfill changed.

    Where the configuration has monitors, what stands out is detected, too.
    Every step leaves whole days, and a day that a killed run did not finish is finished by the next. Of a
    backfill that is a table, a day is compared again when the table's files of that day change; what a query or a
    callable reads is not known, so ``recompute`` says that it changed.

    Parameters
    ----------
    configuration : Configuration, str or Path
        One, or the path of its file.
    repository : Repository
    spark : SparkSession, optional
        The active one, or a local one with Hive, unless given.
    until : str, optional
        The last day, as ``2023-01-05``; yesterday in UTC, unless given.
    since : str, optional
        The first; the configuration's, unless given, and else the first of the log.
    recompute : bool
        Whether all days are compared and measured again.
    dataset : str, optional
        What the history is called; the configuration's, unless given.
    tags : mapping, optional
        Tags of the runs, beside ``sample_percent`` and ``query_source``.

    Returns
    -------
    ConsistencyRun

    Raises
    ------
    PreconditionError
        If the sides cannot be compared, naming all that does not fit.
    NoSuchTableError, SuiteError, SourceError
        As `flatten` says, where ``since`` or ``until`` is no day, and where a table of the names of ours is there
        and has other columns.
    """
    told = as_configuration(configuration)
    told = told if dataset is None else replace(told, dataset=dataset)
    done = pipeline.run(
        spark or spark_session(), told, repository,
        until=until, since=since, recompute=recompute, tags=tags,
    )  # fmt: skip
    if told.monitors and done.reports:
        repository.detect(told.dataset)
    return done


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
    """Estimate how long writes take until they are served, for each group-by with a query or a callable.

    Each backfill is asked once for the features of all times that lie one of the lags before a logged query. The
    lag with which the fewest of the logged values differ is the estimate. Nothing is recorded.

    Parameters
    ----------
    configuration : Configuration, str or Path
        One, or the path of its file. The lags that it has are tried, too.
    spark : SparkSession, optional
        The active one, or a local one with Hive, unless given.
    until : str, optional
        The last day, as ``2023-01-05``; yesterday in UTC, unless given.
    since : str, optional
        The first; the configuration's, unless given, and else the first of the log.
    longest_ms, step_ms : int
        The longest lag that is tried, and how far they lie apart, in milliseconds.
    rows : int
        How many queries are compared, about, at most: all of some keys, and always the same.
    seed : int
        Of the draws from which the interval is known.
    group_bys : collection of str, optional
        The group-bys; all whose backfill is no table, unless given.

    Returns
    -------
    LagEstimates
        Its ``settings()`` is what to set in the configuration.

    Raises
    ------
    SuiteError
        If a group-by's backfill is a table, or no lags are to be tried.
    PreconditionError
        If the sides cannot be compared, naming all that does not fit.
    NoSuchTableError, SourceError
        As `flatten` says, and if nothing was logged.

    Examples
    --------
    What the file of a join should say, and how the share of values that differ goes with the lag::

        found = estimate_lag("search.yml", step_ms=60_000)
        found.settings()
        found.curve().pivot(index="lag_ms", columns="group_by", values="share")
    """
    return lag.estimate_lag(
        spark or spark_session(), as_configuration(configuration),
        until=until, since=since, longest_ms=longest_ms, step_ms=step_ms,
        rows=rows, seed=seed, group_bys=group_bys,
    )  # fmt: skip


def as_configuration(given: Configuration | str | Path) -> Configuration:
    """Return a configuration, read from its file if it is a path."""
    return given if isinstance(given, Configuration) else load_configuration(given)
