"""The command for checks of suite files."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.cli.options import (
    AllowEmpty,
    ArtifactsOption,
    Db,
    Variables,
    open_repository,
    pairs,
)
from tidegauge.cli.output import data_output
from tidegauge.cli.spark import SparkOptions, takes_spark_options
from tidegauge.display.fail_on import FailOnLevel


class CheckFormat(StrEnum):
    """A format for the results of checks."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


@takes_spark_options()
def check(
    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Files, folders, globs.")
    ],
    db: Db = None,
    artifacts: ArtifactsOption = None,
    partitions: Annotated[
        str, typer.Option(help="new, all, or conditions such as 'ds>=2013-02-01'.")
    ] = "new",
    var: Variables = None,
    allow_empty: AllowEmpty = False,
    tag: Annotated[list[str] | None, typer.Option(help="key=value; may be repeated.")] = None,
    fail_on: Annotated[
        FailOnLevel, typer.Option(help="Exit with 2 if a check fails, if one warns, or never.")
    ] = FailOnLevel.ERROR,
    form: Annotated[CheckFormat, typer.Option("--format", help="How to tell it.")] = (
        CheckFormat.TEXT
    ),
    output: Annotated[
        Path | None, typer.Option(help="Output file; defaults to standard output.")
    ] = None,
    *,
    session: SparkOptions,
) -> int:
    """Measure new and changed partitions, and evaluate the checks of suite files on them."""
    from tidegauge.files.check_runs import run_checks

    with open_repository(db, artifacts) as repository:
        summary = run_checks(
            suites,
            repository,
            partitions,
            pairs("--var", var or []),
            session.start,
            pairs("--tag", tag or []),
            allow_empty=allow_empty,
        )
    match form:
        case CheckFormat.TEXT:
            told = summary.text()
        case CheckFormat.JSON:
            told = summary.json(fail_on)
        case CheckFormat.JUNIT:
            told = summary.junit(fail_on)
    if output is None:
        print(told, file=sys.stdout if form is CheckFormat.TEXT else data_output())
    else:
        write_output(output, told + "\n")
    return summary.status(fail_on)
