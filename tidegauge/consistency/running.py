"""Running a comparison as its configuration says: `tg.consistency.run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.consistency import pipeline
from analyzers.consistency.configuration import Configuration
from tidegauge.consistency.conffile import load_configuration
from tidegauge.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        As `flatten` says, and where a table of ours is there and has other columns.
    """
    told = as_configuration(configuration)
    done = pipeline.run(
        spark or spark_session(), told, repository,
        until=until, since=since, recompute=recompute, tags=tags,
    )  # fmt: skip
    if told.monitors and done.reports:
        repository.detect(told.dataset)
    return done


def as_configuration(given: Configuration | str | Path) -> Configuration:
    """Return a configuration, read from its file if it is a path."""
    return given if isinstance(given, Configuration) else load_configuration(given)
