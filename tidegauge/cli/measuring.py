"""Commands that measure tables: profile, explain, run and check."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tidegauge.analyzers.core.errors import message_of
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli.options import (
    TOOL_FAILED,
    AllowEmpty,
    ArtifactsOption,
    CommandError,
    Db,
    Jobs,
    ResultFormatOption,
    ResultOutput,
    SparkOptions,
    Variables,
    open_repository,
    pairs,
    print_result,
    repeated,
    say,
    takes_spark_options,
    target_file,
)
from tidegauge.cli.output import ResultFormat
from tidegauge.outcome import FailOnLevel, Gate

if TYPE_CHECKING:
    from tidegauge.analyzers.runs.recording import Progress
    from tidegauge.files.runs import SuiteResult


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
    jobs: Jobs = 1,
    fail_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--fail-on-anomaly",
            help="Exit with 2 for anomalies in the partitions that were measured last.",
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

    # As text on standard output, each table is reported when it is finished.
    live = form is ResultFormat.TEXT and output is None
    return _measure(
        partial(run_suites, rename=rename, resegment=resegment),
        fail_on.gate(anomalies=fail_on_anomaly),
        suites=suites,
        db=db,
        artifacts=artifacts,
        partitions=partitions,
        var=var,
        allow_empty=allow_empty,
        tag=tag,
        jobs=jobs,
        form=form,
        output=output,
        session=session,
        report=partial(_print_lines, sys.stdout if live else sys.stderr),
        progress=None if sys.stderr.isatty() else LineProgress,
    )


def _measure(
    measure: Callable[..., SuiteResult],
    gate: Gate,
    *,
    suites: list[str],
    db: str | None,
    artifacts: str | None,
    partitions: str,
    var: list[str] | None,
    allow_empty: bool,
    tag: list[str] | None,
    jobs: int,
    form: ResultFormat,
    output: Path | None,
    session: SparkOptions,
    report: Callable[[Sequence[str]], None] | None = None,
    progress: Callable[[], Progress] | None = None,
) -> int:
    """Measure suites by `run_suites` or `run_checks`, and print the result; return the exit status."""
    target_file(output)
    options = repeated(db)
    with open_repository(db, artifacts, create=True) as repository:
        result = measure(
            suites,
            repository,
            partitions,
            tags=pairs("--tag", tag or []),
            session=session.start,
            variables=pairs("--var", var or []),
            allow_empty=allow_empty,
            jobs=jobs,
            report=report,
            progress=progress,
            options=options,
        )
    if report is not None and form is ResultFormat.TEXT and output is None:
        _print_lines(sys.stdout, result.closing_lines(options))
        return result.status(gate)
    return print_result(result, gate, form, output, options)


def _print_lines(stream: TextIO, lines: Sequence[str]) -> None:
    """Print the lines on a table at once, so that a log shows them when the table is finished."""
    for line in lines:
        print(line, file=stream)
    stream.flush()


@takes_spark_options()
def profile(
    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Tables' names, a pattern such as 'warehouse.*', or folders (with a slash).",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="A file for the suite, not overwritten; or a folder, for a file of each table."
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The dataset's name, of a single table.")
    ] = None,
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
        Path | None,
        typer.Option(help="A file for record rules, not overwritten; or a folder, as --output."),
    ] = None,
    *,
    session: SparkOptions,
) -> int:
    """Profile tables and propose a suite file for each, and rules, with a comment on each choice."""
    from tidegauge.files.runs import is_pattern, matching_tables
    from tidegauge.profiler import name_of

    several = len(table) > 1 or is_pattern(table[0])
    if several and dataset is not None:
        msg = "--dataset names the dataset of a single table; several are named by their tables"
        raise CommandError(msg)
    for name, file in (("--output", output), ("--rules", rules)):
        _check_proposal(name, file, several=several)
    options = pairs("--option", option or [])
    spark = session.start()
    names = [
        name
        for one in table
        for name in (
            [full for _, full in matching_tables(spark, one)] if is_pattern(one) else [one]
        )
    ]
    short = Counter(name_of(name) for name in names)
    failed = False
    for name in names:
        own = name_of(name) if short[name_of(name)] == 1 else name.strip("/").replace("/", ".")
        try:
            _propose(
                name,
                dataset or (own if several else None),
                _file_in(output, own, ".yml"),
                _file_in(rules, own, ".rules.yml"),
                skips=several,
                sample_rows=sample_rows,
                spark=spark,
                format=source_format,
                options=options,
            )
        except Exception as error:
            if not several:
                raise
            failed = True
            say(f"{name}: {message_of(error)}")
    return TOOL_FAILED if failed else 0


def _is_folder(file: Path | None) -> bool:
    return file is not None and (file.is_dir() or not file.suffix)


def _file_in(place: Path | None, name: str, suffix: str) -> Path | None:
    """Return the file for a table's proposal: in a folder, the one of its name."""
    return place / f"{name}{suffix}" if place is not None and _is_folder(place) else place


def _check_proposal(option: str, place: Path | None, *, several: bool) -> None:
    """Check that an option's target can be written, before a table is read."""
    if place is None and several and option == "--output":
        msg = "several tables need a folder for their files: --output suites/"
        raise CommandError(msg)
    if place is None:
        return
    if not _is_folder(place):
        if several:
            msg = f"{option} {place}: several tables need a folder, such as {option} suites/"
            raise CommandError(msg)
        target_file(place, replaces=False)
    else:
        target_file(place / ".tidegauge")


def _propose(
    table: str,
    dataset: str | None,
    output: Path | None,
    rules: Path | None,
    *,
    skips: bool,
    **source: Any,
) -> None:
    """Profile one table, and write or print its proposals; of several, files that are there stay."""
    from tidegauge.checks.suggest import suggest
    from tidegauge.files.yaml_file import relative_to
    from tidegauge.profiler import profile as propose

    existing = [file for file in (output, rules) if file is not None and file.exists()]
    for file in existing:
        if not skips:
            msg = f"{file} is there already; name another file"
            raise CommandError(msg)
        print(f"{file} is there already and stays as it is")
    if output not in existing:
        found = propose(table, dataset, **source)
        if found.lacks_header:
            say(
                "the columns have no names: if the first line of each file has them, add"
                " --option header=true --option inferSchema=true"
            )
        text = found.to_yaml("" if output is None else output.parent)
        if output is None:
            print(text, end="")
        else:
            write_output(output, text)
            count = len(found.suite.analyzers)
            checks = text.count("\n  - ") - count
            print(f"{output}: {plural(count, 'analyzer')}, {checks} checks", flush=True)
    if rules is not None and rules not in existing:
        suggestions = suggest(table, dataset=dataset, **source)
        if not suggestions:
            say(f"{rules} was not written: the rows that were looked at suggest no rule")
            return
        proposed = suggestions.to_rules(relative_to(table, rules.parent) if "/" in table else table)
        write_output(rules, proposed)
        print(f"{rules}: {proposed.count('  - ')} rules", flush=True)


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
    from tidegauge.analysis import explain as plan_of
    from tidegauge.files.runs import tables_of
    from tidegauge.files.suite_files import find_suites, load_suite

    variables = pairs("--var", var or [])
    files = [load_suite(path, variables) for path in find_suites(suites)]
    spark = session.start()
    for file in files:
        for one in tables_of(spark, file):
            print(plan_of(one, spark=spark))


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
    jobs: Jobs = 1,
    fail_on: Annotated[
        FailOnLevel, typer.Option(help="Exit with 2 if a check fails, if one warns, or never.")
    ] = FailOnLevel.ERROR,
    form: ResultFormatOption = ResultFormat.TEXT,
    output: ResultOutput = None,
    *,
    session: SparkOptions,
) -> int:
    """Measure new and changed partitions, and evaluate the checks of suite files on them."""
    from tidegauge.files.runs import run_checks

    return _measure(
        run_checks,
        fail_on.gate(),
        suites=suites,
        db=db,
        artifacts=artifacts,
        partitions=partitions,
        var=var,
        allow_empty=allow_empty,
        tag=tag,
        jobs=jobs,
        form=form,
        output=output,
        session=session,
    )
