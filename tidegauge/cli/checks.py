"""The command for checks of suite files."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.options import (
    AllowEmpty,
    ArtifactsOption,
    Db,
    ResultFormatOption,
    ResultOutput,
    Variables,
    open_repository,
    pairs,
    repeated,
    target_file,
    write_results,
)
from tidegauge.cli.output import ResultFormat
from tidegauge.cli.spark import SparkOptions, takes_spark_options
from tidegauge.display.fail_on import FailOnLevel


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
    form: ResultFormatOption = ResultFormat.TEXT,
    output: ResultOutput = None,
    *,
    session: SparkOptions,
) -> int:
    """Measure new and changed partitions, and evaluate the checks of suite files on them."""
    from tidegauge.files.check_runs import run_checks

    target_file(output)
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
        case ResultFormat.TEXT:
            told = summary.text(repeated(db))
        case ResultFormat.JSON:
            told = summary.json(fail_on)
        case ResultFormat.JUNIT:
            told = summary.junit(fail_on)
    write_results(told, output, form)
    return summary.status(fail_on)
