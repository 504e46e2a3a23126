"""Commands that measure tables: profile, explain, run, check and watch."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tidegauge.analyzers.columnar.engines import MeasuringEngine
from tidegauge.analyzers.core.errors import message_of
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli import options
from tidegauge.cli.output import ResultFormat
from tidegauge.outcome import FailOnLevel, Gate

if TYPE_CHECKING:
    from tidegauge.analyzers.runs.recording import Progress
    from tidegauge.files.runs import SuiteResult


@dataclass(frozen=True)
class SuiteOptions:
    """Options of the commands that measure the tables of suites."""

    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Suite files, folders or globs.")
    ]
    partitions: Annotated[
        str,
        typer.Option(
            help="Partitions to measure: new, all, or conditions such as 'ds>=2013-02-01'."
        ),
    ] = "new"
    var: options.Variables = None
    allow_empty: options.AllowEmpty = False
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Tag of the runs, as key=value; can be repeated (default: none)."),
    ] = None
    jobs: options.Jobs = 1
    engine: options.EngineOption = MeasuringEngine.AUTO
    output_format: options.ResultFormatOption = ResultFormat.TEXT
    output: options.ResultOutput = None

    def measure(
        self,
        measure: Callable[..., SuiteResult],
        gate: Gate,
        location: options.RepositoryLocation,
        session: options.SparkOptions,
        report: Callable[[Sequence[str]], None] | None = None,
        progress: Callable[[], Progress] | None = None,
    ) -> int:
        """Measure with `run_suites` or `run_checks`, print the result, and return the exit status."""
        options.check_target_file(self.output)
        with location.open(create=True) as repository:
            result = measure(
                self.suites,
                repository,
                self.partitions,
                tags=options.parse_pairs("--tag", self.tag or []),
                session=partial(session.start_lazily, self.engine),
                variables=options.parse_pairs("--var", self.var or []),
                allow_empty=self.allow_empty,
                jobs=self.jobs,
                engine=self.engine,
                report=report,
                progress=progress,
                options=location.option,
            )
        if report is not None and self.is_live:
            _print_lines(sys.stdout, result.closing_lines(location.option))
            return result.status(gate)
        return options.print_result(result, gate, self.output_format, self.output, location.option)

    @property
    def is_live(self) -> bool:
        """Whether text on standard output reports each table as soon as it is finished."""
        return self.output_format is ResultFormat.TEXT and self.output is None


def run(
    suite_options: SuiteOptions,
    location: options.RepositoryLocation,
    rename: Annotated[
        bool,
        typer.Option(
            "--rename", help="Accept that the tables were renamed, and continue their history."
        ),
    ] = False,
    resegment: Annotated[
        bool, typer.Option("--resegment", help="Choose again which values become segments.")
    ] = False,
    fail_on_anomaly: Annotated[
        bool,
        typer.Option(
            "--fail-on-anomaly",
            help="Exit with 2 if the newest measured partitions have anomalies without a label.",
        ),
    ] = False,
    fail_on: Annotated[
        FailOnLevel,
        typer.Option(
            help="Exit with 2 if a check or policy fails (error), also if one warns (warning), or never."
        ),
    ] = FailOnLevel.ERROR,
    *,
    session: options.SparkOptions,
) -> int:
    """Measure new and changed partitions, detect anomalies, and evaluate the suites' checks."""
    from tidegauge.display.progress import LineProgress
    from tidegauge.files.runs import run_suites

    return suite_options.measure(
        partial(run_suites, rename=rename, resegment=resegment),
        fail_on.gate(anomalies=fail_on_anomaly),
        location,
        session,
        report=partial(_print_lines, sys.stdout if suite_options.is_live else sys.stderr),
        progress=None if sys.stderr.isatty() else LineProgress,
    )


def _print_lines(stream: TextIO, lines: Sequence[str]) -> None:
    """Print the lines on a table and flush, so that a log shows them when the table is finished."""
    for line in lines:
        print(line, file=stream)
    stream.flush()


def profile(
    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Table names, patterns such as 'warehouse.*', or folders (with a slash).",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="New file for the suite, or a folder for a file of each table (default: standard output)."
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Dataset name, for a single table (default: the table's name)."),
    ] = None,
    sample_rows: Annotated[
        int, typer.Option(min=1, help="Approximate number of rows to sample.")
    ] = 100_000,
    source_format: Annotated[
        str, typer.Option("--format", help="Spark format of the files in a folder.")
    ] = "parquet",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Option of Spark's reader, such as header=true; can be repeated (default: none).",
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            help="New file for record rules, or a folder for a file of each table (default: no rules)."
        ),
    ] = None,
    *,
    session: options.SparkOptions,
) -> int:
    """Profile tables, and propose suite files and rules with a comment on each choice."""
    from tidegauge.files.runs import is_pattern, matching_tables
    from tidegauge.profiler import name_of

    several = len(table) > 1 or is_pattern(table[0])
    if several and dataset is not None:
        msg = "--dataset requires a single table; datasets of several tables have the names of the tables"
        raise options.CommandError(msg)
    for name, file in (("--output", output), ("--rules", rules)):
        _check_proposal(name, file, several=several)
    reader_options = options.parse_pairs("--option", option or [])
    spark = session.start()
    names = [
        name
        for pattern in table
        for name in (
            [full for _, full in matching_tables(spark, pattern)]
            if is_pattern(pattern)
            else [pattern]
        )
    ]
    short_name_counts = Counter(name_of(name) for name in names)
    failed = False
    for name in names:
        unique_name = (
            name_of(name)
            if short_name_counts[name_of(name)] == 1
            else name.strip("/").replace("/", ".")
        )
        try:
            _propose(
                name,
                dataset or (unique_name if several else None),
                _file_in(output, unique_name, ".yml"),
                _file_in(rules, unique_name, ".rules.yml"),
                skips_existing=several,
                sample_rows=sample_rows,
                spark=spark,
                format=source_format,
                options=reader_options,
            )
        except Exception as error:
            if not several:
                raise
            failed = True
            options.print_message(f"{name}: {message_of(error)}")
    return options.TOOL_FAILED if failed else 0


def _is_folder(file: Path | None) -> bool:
    return file is not None and (file.is_dir() or not file.suffix)


def _file_in(target: Path | None, name: str, suffix: str) -> Path | None:
    """Return the file for a table's proposal; in a folder, it has the table's name."""
    return target / f"{name}{suffix}" if target is not None and _is_folder(target) else target


def _check_proposal(option: str, target: Path | None, *, several: bool) -> None:
    """Check that an option's target can be written, before a table is read."""
    if target is None and several and option == "--output":
        msg = "several tables need a folder for their suite files: --output suites/"
        raise options.CommandError(msg)
    if target is None:
        return
    if not _is_folder(target):
        if several:
            msg = f"{option} {target}: several tables need a folder, such as {option} suites/"
            raise options.CommandError(msg)
        options.check_target_file(target, replaces=False)
    else:
        options.check_target_file(target / ".tidegauge")


def _propose(
    table: str,
    dataset: str | None,
    output: Path | None,
    rules: Path | None,
    *,
    skips_existing: bool,
    **source: Any,
) -> None:
    """Profile one table, and write or print its proposals.

    Existing files are an error, or are kept with ``skips_existing``.
    """
    from tidegauge.checks.suggest import suggest
    from tidegauge.files.yaml_file import relative_to
    from tidegauge.profiler import profile as propose

    existing = [file for file in (output, rules) if file is not None and file.exists()]
    for file in existing:
        if not skips_existing:
            msg = f"cannot write {file}: it already exists; use another file"
            raise options.CommandError(msg)
        print(f"{file} already exists and was not changed")
    if output not in existing:
        proposal = propose(table, dataset, **source)
        if proposal.lacks_header:
            options.print_message(
                "the columns have no names: if the first line of each file contains them, add"
                " --option header=true --option inferSchema=true"
            )
        suite_yaml = proposal.to_yaml("" if output is None else output.parent)
        if output is None:
            print(suite_yaml, end="")
        else:
            write_output(output, suite_yaml)
            count = len(proposal.suite.analyzers)
            checks = suite_yaml.count("\n  - ") - count
            print(f"{output}: {plural(count, 'analyzer')}, {checks} checks", flush=True)
    if rules is not None and rules not in existing:
        suggestions = suggest(table, dataset=dataset, **source)
        if not suggestions:
            options.print_message(f"{rules} was not written: the sampled rows suggest no rule")
            return
        proposed = suggestions.to_rules(relative_to(table, rules.parent) if "/" in table else table)
        write_output(rules, proposed)
        print(f"{rules}: {proposed.count('  - ')} rules", flush=True)


def explain(
    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Suite files, folders or globs.")
    ],
    var: options.Variables = None,
    *,
    session: options.SparkOptions,
) -> None:
    """Show the measurement plan of the suites' tables: jobs, passes, columns and state sizes."""
    from tidegauge.analysis import explain as plan_of
    from tidegauge.files.runs import tables_of
    from tidegauge.files.suite_files import find_suites, load_suite

    variables = options.parse_pairs("--var", var or [])
    files = [load_suite(path, variables) for path in find_suites(suites)]
    spark = session.start()
    for file in files:
        for suite in tables_of(spark, file):
            print(plan_of(suite, spark=spark))


def check(
    suite_options: SuiteOptions,
    location: options.RepositoryLocation,
    fail_on: Annotated[
        FailOnLevel,
        typer.Option(
            help="Exit with 2 if a check fails (error), also if one warns (warning), or never."
        ),
    ] = FailOnLevel.ERROR,
    *,
    session: options.SparkOptions,
) -> int:
    """Measure new and changed partitions, and evaluate the checks of suite files on them."""
    from tidegauge.files.runs import run_checks

    return suite_options.measure(run_checks, fail_on.gate(), location, session)


def watch(
    pattern: Annotated[
        list[str],
        typer.Argument(
            metavar="PATTERN...",
            help="Folders with tables below them, patterns such as '/lake/*/orders', or names in Spark's catalog such as"
            " 'warehouse.*'.",
        ),
    ],
    location: options.RepositoryLocation,
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of datasets to watch, such as 'sales.*'; can be repeated (default: all)."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of datasets not to watch, such as '*.tmp_*'; can be repeated (default: none)."
        ),
    ] = None,
    jobs: options.Jobs = 1,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the tables that would be measured, and store nothing."
        ),
    ] = False,
    sample: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of partition times that the first watch of a table measures, the newest; 0 for all.",
        ),
    ] = 90,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            min=0,
            help="Start no more tables after this time; the next watch resumes there (default: no limit).",
        ),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            metavar="MIB",
            min=0,
            help="Start no more tables when the process has used this much memory (default: no limit).",
        ),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SINK",
            help="Sink of notifications, such as log or ${SLACK}; can be repeated (default: as configured).",
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with tables to include and exclude, owners, tiers and muted tables (default: none)."
        ),
    ] = None,
    fail_on_incident: Annotated[
        bool,
        typer.Option(
            "--fail-on-incident", help="Exit with 2 if a watched table has an open incident."
        ),
    ] = False,
    output_format: options.ResultFormatOption = ResultFormat.TEXT,
    output: options.ResultOutput = None,
    *,
    session: options.SparkOptions,
) -> int:
    """Watch all tables of folders or catalogs by their metadata, without scanning data or writing suites."""
    from tidegauge.analyzers.core.sql import is_folder
    from tidegauge.watching import watch as watch_tables

    options.check_target_file(output)
    needs_spark = any(not is_folder(name) and not Path(name).is_dir() for name in pattern)
    spark = session.start() if needs_spark else None
    with location.open(create=not dry_run, dry_run=dry_run, or_empty=dry_run) as repository:
        result = watch_tables(
            pattern,
            repository=repository,
            include=include or (),
            exclude=exclude or (),
            jobs=jobs,
            dry_run=dry_run,
            sample=sample or None,
            minutes=time_limit,
            memory_mb=memory_limit,
            notify=notify or (),
            spark=spark,
            settings=settings,
        )
        gate = Gate(anomalies=fail_on_incident)
        return options.print_result(result, gate, output_format, output, location.option)
