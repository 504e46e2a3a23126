"""Commands for Apache Griffin jobs."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.cli import options
from tidegauge.cli.output import Format, print_frame

griffin_app = options.new_app("Run Apache Griffin jobs from their JSON files.")
EnvFile = Annotated[
    Path, typer.Argument(metavar="ENV.json", help="Environment file: Spark, sinks and checkpoints.")
]
JobFile = Annotated[Path, typer.Argument(metavar="DQ.json", help="Job file: sources and rules.")]


@griffin_app.command()
def run(
    env: EnvFile,
    dq: JobFile,
    location: options.RepositoryLocation,
    dataset: Annotated[
        str | None,
        typer.Option(help="Dataset name of the stored history (default: the job's name)."),
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="Partition column; can be repeated (default: none).")
    ] = None,
    partitions: Annotated[
        str,
        typer.Option(
            help="Partitions to measure: new, all, or conditions such as 'ds>=2013-02-01'."
        ),
    ] = "new",
    timestamp: Annotated[
        int | None,
        typer.Option(
            help="Time of the run in milliseconds since 1970 (default: the job's timestamp, else now)."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="For a stream: measure the available data and exit.")
    ] = False,
    output_format: options.FormatOption = Format.TABLE,
    *,
    session: options.SparkOptions,
) -> int:
    """Run a job, print its metrics, and store them."""
    from tidegauge.analyzers.core.errors import GriffinError
    from tidegauge.griffin.reading import read_env
    from tidegauge.griffin.running import run as run_job

    spark = session.start(read_env(env).spark) if session.is_given else None
    with location.open(create=True) as repository:
        failed: GriffinError | None = None
        try:
            # Output of console sinks must not mix with JSON or CSV.
            with nullcontext() if output_format is Format.TABLE else redirect_stdout(sys.stderr):
                result = run_job(
                    env, dq, spark=spark, repository=repository, dataset=dataset,
                    partition_by=partition_by or (), partitions=partitions, timestamp=timestamp, once=once,
                )  # fmt: skip
        except GriffinError as error:
            if error.result is None:
                raise
            failed, result = error, error.result
        for notice in result.notices:
            options.print_message(notice)
        print_frame(
            result.metrics(),
            output_format,
            ["partition", "rule", "source", "column", "value", "text"],
        )
        if failed is not None:
            options.print_message(f"error: {failed}")
            return options.TOOL_FAILED
    return 0


@griffin_app.command()
def check(
    dq: JobFile,
    env: Annotated[
        Path | None,
        typer.Option(help="Environment file with the Spark configuration (default: none)."),
    ] = None,
    *,
    session: options.SparkOptions,
) -> int:
    """Parse, bind and plan all rules, and print their SQL, without reading data."""
    from tidegauge.griffin.reading import read_env
    from tidegauge.griffin.running import check as check_job

    environment = read_env({} if env is None else env)
    spark = session.start(environment.spark) if session.is_given else None
    for line in check_job(dq, env, spark=spark).lines():
        print(line)
    return 0
