"""Commands that measure tables: profile, explain and run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.cli.options import (
    AllowEmpty,
    ArtifactsOption,
    Db,
    ResultFormatOption,
    ResultOutput,
    Table,
    Variables,
    open_repository,
    pairs,
    repeated,
    say,
    target_file,
    write_results,
)
from tidegauge.cli.output import ResultFormat
from tidegauge.cli.spark import SparkOptions, takes_spark_options
from tidegauge.display.fail_on import FailOnLevel


@takes_spark_options()
def run(
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
    rename: Annotated[bool, typer.Option("--rename", help="The tables were renamed.")] = False,
    resegment: Annotated[
        bool, typer.Option("--resegment", help="Choose the values that are segments again.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="Tables to measure at the same time.")
    ] = 1,
    fail_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--fail-on-anomaly", help="Exit with 2 for anomalies in what was measured last."
        ),
    ] = False,
    fail_on: Annotated[
        FailOnLevel,
        typer.Option(help="Exit with 2 if a check or policy fails, if one warns, or never."),
    ] = FailOnLevel.ERROR,
    form: ResultFormatOption = ResultFormat.TEXT,
    output: ResultOutput = None,
    *,
    session: SparkOptions,
) -> int:
    """Measure new and changed partitions of the suites' tables, and detect anomalies."""
    from tidegauge.display.progress import LineProgress
    from tidegauge.files.runs import run_suites

    target_file(output)
    live = form is ResultFormat.TEXT and output is None
    with open_repository(db, artifacts) as repository:
        summary = run_suites(
            suites,
            repository,
            partitions,
            pairs("--tag", tag or []),
            session.start,
            variables=pairs("--var", var or []),
            allow_empty=allow_empty,
            rename=rename,
            resegment=resegment,
            jobs=jobs,
            report=partial(_print_lines, sys.stdout if live else sys.stderr),
            progress=None if sys.stderr.isatty() else LineProgress,
        )
        options = repeated(db)
    match form:
        case ResultFormat.TEXT if live:
            _print_lines(sys.stdout, summary.closing_lines(options))
        case ResultFormat.TEXT:
            write_results("\n".join(summary.lines(options)), output, form)
        case ResultFormat.JSON:
            told = summary.json(fail_on_anomaly=fail_on_anomaly, fail_on=fail_on)
            write_results(told, output, form)
        case ResultFormat.JUNIT:
            told = summary.junit(fail_on_anomaly=fail_on_anomaly, fail_on=fail_on)
            write_results(told, output, form)
    return summary.status(fail_on_anomaly=fail_on_anomaly, fail_on=fail_on)


def _print_lines(stream: TextIO, lines: Sequence[str]) -> None:
    """Print the lines on a table at once, so that a log shows them when the table is finished."""
    for line in lines:
        print(line, file=stream)
    stream.flush()


@takes_spark_options()
def profile(
    table: Table,
    output: Annotated[
        Path | None, typer.Option(help="A file for the suite, not overwritten.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="The dataset's name.")] = None,
    sample_rows: Annotated[
        int, typer.Option(min=1, help="About how many rows to look at.")
    ] = 100_000,
    source_format: Annotated[
        str, typer.Option("--format", help="How a folder is read.")
    ] = "parquet",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of Spark's reader: header=true."),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="A file for record rules, not overwritten.")
    ] = None,
    *,
    session: SparkOptions,
) -> None:
    """Profile a table and propose a suite file, and rules, with a comment on each choice."""
    from tidegauge.checks.suggesting import suggest
    from tidegauge.profiler import profile as propose

    for file in (output, rules):
        if file is not None and file.exists():
            msg = f"{file} is there already; name another file"
            raise typer.BadParameter(msg)
    options = pairs("--option", option or [])
    spark = session.start()
    of = {"sample_rows": sample_rows, "spark": spark, "format": source_format, "options": options}
    found = propose(table, dataset, **of)  # type: ignore[arg-type]
    if found.lacks_header:
        say(
            "the columns have no names: if the first line of each file has them, add"
            " --option header=true --option inferSchema=true"
        )
    text = found.to_yaml()
    if output is None:
        print(text, end="")
    else:
        write_output(output, text)
        print(f"{output}: {text.count('# ')} comments, {text.count('  - ')} analyzers")
    if rules is not None:
        suggestions = suggest(table, dataset=dataset, **of)  # type: ignore[arg-type]
        if not suggestions:
            say(f"{rules} was not written: the rows that were looked at suggest no rule")
            return
        proposed = suggestions.to_rules(table)
        write_output(rules, proposed)
        print(f"{rules}: {proposed.count('  - ')} rules")


@takes_spark_options()
def explain(
    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Files, folders, globs.")
    ],
    var: Variables = None,
    *,
    session: SparkOptions,
) -> None:
    """Show the plan of measuring all of the suites' tables: jobs, passes, columns, bytes of states."""
    from tidegauge.explanation import explain as plan_of
    from tidegauge.files.runs import tables_of
    from tidegauge.files.suite import find_suites, load_suite

    variables = pairs("--var", var or [])
    files = [load_suite(path, variables) for path in find_suites(suites)]
    spark = session.start()
    for file in files:
        for one in tables_of(spark, file):
            print(plan_of(one, spark=spark))
