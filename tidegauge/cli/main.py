"""The ``tidegauge`` command-line interface.

Exit status: 0 on success, 1 if tidegauge failed or was misused, 2 if the data failed.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import redirect_stdout
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer

from tidegauge import __version__
from tidegauge.analyzers.core.errors import TidegaugeError, describe
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import for_terminal
from tidegauge.cli.anomalies import anomalies_app, backtest, detect
from tidegauge.cli.checks import check
from tidegauge.cli.consistency import consistency_app
from tidegauge.cli.dashboard import dashboard
from tidegauge.cli.datasets import datasets_app
from tidegauge.cli.db import db_app
from tidegauge.cli.griffin import griffin_app
from tidegauge.cli.limits import TimeLimitReached, time_limit
from tidegauge.cli.notebooks import notebooks
from tidegauge.cli.options import (
    TOOL_FAILED,
    AllowEmpty,
    ArtifactsOption,
    AsOfOption,
    Dataset,
    Db,
    FormatOption,
    Since,
    Table,
    Until,
    Variables,
    Warehouse,
    moment,
    open_repository,
    pairs,
    repeated,
    say,
    the_dataset,
)
from tidegauge.cli.output import Format, SafeTerminal, data_output, print_frame
from tidegauge.cli.report import report
from tidegauge.cli.rules import rules_app

app = typer.Typer(
    name="tidegauge",
    help="Measure data quality, store metric history, and detect anomalies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
import_app = typer.Typer(help="Import metrics from other tools.", no_args_is_help=True)


def main() -> None:
    """Run the command line and exit with its status."""
    warnings.showwarning = _print_warning
    sys.exit(run_command(sys.argv[1:], ends_process=True))


def run_command(arguments: list[str], *, ends_process: bool = False) -> int:
    """Run one command and return its exit status; errors are printed on one line.

    Parameters
    ----------
    arguments : list of str
    ends_process : bool
        Whether the process has nothing to do but the command: a time limit then ends it, too.
    """
    try:
        with redirect_stdout(cast("TextIO", SafeTerminal(sys.stdout))):
            status = app(arguments, prog_name="tidegauge", standalone_mode=False, obj=ends_process)
    except typer.TyperException as error:  # typer would exit with 2, reserved for data failures
        text = error.format_message().rstrip(".")
        if text:  # without arguments the help is already shown
            say(f"{text}; --help says more")
        return TOOL_FAILED
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted; what was committed stays, the next run goes on behind it")
        return TOOL_FAILED
    except TimeLimitReached as over:
        say(f"{over}; what was committed stays, the next run goes on behind it")
        return TOOL_FAILED
    except TidegaugeError as error:
        say(f"error: {error}")
        return TOOL_FAILED
    except Exception as error:
        if os.environ.get("TIDEGAUGE_TRACE"):
            raise
        say(f"error: {describe(error)} (TIDEGAUGE_TRACE=1 shows where)")
        return TOOL_FAILED
    return status if isinstance(status, int) else 0


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on one line; where in Python it was raised helps nobody at a command line."""
    print(for_terminal(f"warning: {message}"), file=sys.stderr if file is None else file)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"tidegauge {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="MINUTES",
            min=0,
            help="End the command after so long; what was committed stays.",
        ),
    ] = None,
) -> None:
    """Measure data quality, store metric history, and detect anomalies."""
    context.with_resource(time_limit(minutes, ends_process=bool(context.obj)))


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
    warehouse: Warehouse = None,
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
) -> int:
    """Measure new and changed partitions of the suites' tables, and detect anomalies."""
    from tidegauge.files.runs import run_suites
    from tidegauge.spark.session import spark_session

    with open_repository(db, artifacts) as repository:
        summary = run_suites(
            suites,
            repository,
            partitions,
            pairs("--tag", tag or []),
            lambda: spark_session(warehouse),
            variables=pairs("--var", var or []),
            allow_empty=allow_empty,
            rename=rename,
            resegment=resegment,
            jobs=jobs,
        )
        for line in summary.lines(repeated(db)):
            print(line)
        return summary.status(fail_on_anomaly=fail_on_anomaly)


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
    warehouse: Warehouse = None,
) -> None:
    """Profile a table and propose a suite file, and rules, with a comment on each choice."""
    from tidegauge.checks.suggesting import suggest
    from tidegauge.profiler import profile as propose
    from tidegauge.spark.session import spark_session

    for file in (output, rules):
        if file is not None and file.exists():
            msg = f"{file} is there already; name another file"
            raise typer.BadParameter(msg)
    options = pairs("--option", option or [])
    spark = spark_session(warehouse)
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


def explain(
    suites: Annotated[
        list[str], typer.Argument(metavar="SUITE.yml...", help="Files, folders, globs.")
    ],
    var: Variables = None,
    warehouse: Warehouse = None,
) -> None:
    """Show the plan of measuring all of the suites' tables: jobs, passes, columns, bytes of states."""
    from tidegauge.explanation import explain as plan_of
    from tidegauge.files.runs import tables_of
    from tidegauge.files.suite import find_suites, load_suite
    from tidegauge.spark.session import spark_session

    variables = pairs("--var", var or [])
    files = [load_suite(path, variables) for path in find_suites(suites)]
    spark = spark_session(warehouse)
    for file in files:
        for one in tables_of(spark, file):
            print(plan_of(one, spark=spark))


def metrics(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    name: Annotated[
        str | None, typer.Option(help="A metric, or an analyzer for all of its metrics.")
    ] = None,
    instance: Annotated[str | None, typer.Option(help="A column, columns or rule.")] = None,
    where: Annotated[
        str | None,
        typer.Option(help="A filter of analyzers; '' for the metrics of all rows."),
    ] = None,
    segment: Annotated[str | None, typer.Option(help="A segment, as in country=US.")] = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfOption = None,
    window: Annotated[
        str | None, typer.Option(help="Roll-ups instead of partitions: 7d, month, total.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print the metric history of a dataset."""
    with open_repository(db, artifacts) as repository:
        frame = repository.metrics(
            the_dataset(repository, dataset),
            name=name,
            instance=instance,
            where=where,
            segment=segment,
            since=since,
            until=until,
            as_of=moment(as_of),
            window=window,
        )
    shown = [
        "partition",
        "segment",
        "name",
        "instance",
        "value",
        "weight",
        "status",
        "version",
        "analyzer",
    ]
    if (frame["segment"] == "").all():
        shown.remove("segment")
    print_frame(frame, form, shown)


@import_app.command()
def deequ(
    file: Annotated[Path, typer.Argument(help="The JSON of a FileSystemMetricsRepository.")],
    dataset: Annotated[str, typer.Option(help="The dataset to import into.")],
    by: Annotated[
        list[str] | None, typer.Option(help="A tag whose values are segments; may be repeated.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="The table's partition column for the date; may be repeated."),
    ] = None,
    date_format: Annotated[
        str | None, typer.Option("--format", help="How it writes the date: %Y-%m-%d.")
    ] = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
) -> None:
    """Import metrics from a Deequ or PyDeequ repository."""
    from tidegauge.repository.exchange.deequ import KEY, import_deequ

    with open_repository(db, artifacts) as repository:
        done = import_deequ(repository, file, dataset, by or (), key=key or KEY, format=date_format)
    print(
        f"{done.dataset}: {done.results} results with {done.metrics} metrics read, {done.new} new"
    )
    for reason in done.skipped:
        say(f"left out: {reason}")


class ExportFormat(StrEnum):
    """An export format."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENLINEAGE = "openlineage"
    PROMETHEUS = "prometheus"


def export(
    form: Annotated[ExportFormat, typer.Argument(metavar="csv|parquet|openlineage|prometheus")],
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Output file; defaults to standard output, required for parquet."),
    ] = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOfOption = None,
    partition: Annotated[
        str | None, typer.Option(help="For openlineage; the newest if left out.")
    ] = None,
) -> None:
    """Export metrics: the history as csv or parquet, the newest as openlineage or prometheus."""
    import json

    from tidegauge.repository.exchange import files
    from tidegauge.repository.exchange.openlineage import openlineage_event
    from tidegauge.repository.exchange.prometheus import prometheus_text

    with open_repository(db, artifacts, read_only=True) as repository:
        if form is ExportFormat.PROMETHEUS:
            _write(prometheus_text(repository, None if dataset is None else [dataset]), output)
            return
        name = the_dataset(repository, dataset)
        if form is ExportFormat.OPENLINEAGE:
            event = openlineage_event(repository, name, partition)
            _write(json.dumps(event, indent=1, allow_nan=False) + "\n", output)
            return
        if form is ExportFormat.PARQUET and output is None:
            msg = "parquet needs a file: --output metrics.parquet"
            raise typer.BadParameter(msg)
        pages = repository.pages(name, since=since, until=until, as_of=moment(as_of))
        if output is None:
            files.write_csv(pages, data_output())
            return
        write = files.csv_file if form is ExportFormat.CSV else files.parquet_file
        print(f"{output}: {write(pages, output)} rows")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        data_output().write(text)
    else:
        print(write_output(output, text))


def doctor(
    db: Db = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start a session, too, and ask what it can do.")
    ] = False,
) -> int:
    """Check the installation: report each part's status, with fixes for problems."""
    from tidegauge.doctor import WRONG, examine, examine_spark
    from tidegauge.repository.store.config import settings

    wrong = False
    findings = examine(settings(db, None)[0])
    if spark:
        from tidegauge.spark.session import spark_session

        findings = chain(findings, examine_spark(spark_session()))
    for finding in findings:
        wrong |= finding.status == WRONG
        print(f"{finding.status:<8} {finding.what}: {finding.found}")
        if finding.cure:
            print(f"{'':<8} cure: {finding.cure}")
    return TOOL_FAILED if wrong else 0


def demo(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    folder: Annotated[Path, typer.Option(help="Where the demonstration keeps its table.")] = Path(
        "tidegauge-demo"
    ),
) -> int:
    """Run a demonstration on real data: every flight from New York in 2013."""
    from tidegauge.demo.show import show

    started = time.monotonic()
    with open_repository(db, artifacts) as repository:
        status = show(repository, folder)
    print(f"\nDone in {time.monotonic() - started:.0f} s. Look around:")
    command = sys.argv[0] if "/" in sys.argv[0] else "tidegauge"
    if Path(command).name == "__main__.py":
        command = f"{sys.executable} -m tidegauge"
    option = "" if db is None else f" --db {db}"
    print(f"  {command} dashboard{option}")
    print(f"  {command} metrics flights --name Completeness --instance dep_time --where ''{option}")
    print(f"  {command} anomalies list flights --incidents{option}")
    print("Run it again: nothing is new then, so nothing is scanned.")
    return status


PANELS = {
    "Begin": (demo, doctor, notebooks),
    "Measure": (profile, explain, run, check),
    "Look": (report, dashboard, metrics, detect, backtest, export),
}
GROUPS = {
    "Look": {"anomalies": anomalies_app},
    "Maintain": {"dataset": datasets_app, "db": db_app, "import": import_app},
    "Other jobs": {"rules": rules_app, "griffin": griffin_app, "consistency": consistency_app},
}
"""Commands and groups of commands, as ``--help`` shows them."""
for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
for _panel, _groups in GROUPS.items():
    for _name, _group in _groups.items():
        app.add_typer(_group, name=_name, rich_help_panel=_panel)
