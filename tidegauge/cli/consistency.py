"""Commands for feature consistency."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli import options
from tidegauge.outcome import Cause, FailOnLevel, Problem, outcome_of

if TYPE_CHECKING:
    from tidegauge.consistency import Configuration

consistency_app = options.new_app("Compare online (logged) with offline (backfilled) features.")
ConfFile = Annotated[
    Path, typer.Argument(metavar="CONF.yml", help="Consistency configuration file.")
]


@consistency_app.command()
def run(
    conf: ConfFile,
    location: options.RepositoryLocation,
    since: Annotated[
        str | None,
        typer.Option(
            help="First day, such as 2023-01-05 (default: as configured, else the first day of the log)."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Last day (default: yesterday).")] = None,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute", help="Compare all days again (default: only new and changed days)."
        ),
    ] = False,
    lag: Annotated[
        bool,
        typer.Option(
            "--estimate-lag",
            help="Only estimate, for each group-by, the write lag with the highest consistency.",
        ),
    ] = False,
    longest_lag: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="With --estimate-lag: longest lag to try, such as 2h or 90m."
        ),
    ] = "2h",
    lag_step: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="With --estimate-lag: step between the lags, such as 5m or 250ms."
        ),
    ] = "5m",
    fail_on_anomaly: Annotated[
        bool, typer.Option("--fail-on-anomaly", help="Exit with 2 if this run detects anomalies.")
    ] = False,
    var: options.Variables = None,
    *,
    session: options.SparkOptions,
) -> int:
    """Flatten, backfill, compare and measure new and changed days, and store the metrics."""
    from tidegauge.consistency import load_configuration
    from tidegauge.consistency import run as run_consistency

    configuration = load_configuration(conf, options.parse_pairs("--var", var or []))
    if lag:
        return _estimate_lag(configuration, since, until, longest_lag, lag_step, session)
    with location.open(create=True) as repository:
        done = run_consistency(
            configuration, repository=repository, spark=session.start(),
            since=since, until=until, recompute=recompute,
        )  # fmt: skip
        print(done)
        problems = []
        for dataset, partitions in done.judged.items():
            for headline in repository.incidents(dataset, status="open").headline:
                print(f"  {headline}")
            anomalies = repository.anomalies(dataset, status="open")["partition"]
            problems += [Problem(Cause.ANOMALY, dataset)] * int(anomalies.isin(partitions).sum())
        for unreadable in done.flattened.samples:
            options.print_message(
                f"could not read {unreadable.part or 'the query'} of {unreadable.ds}: {unreadable.reason}"
            )
    gate = FailOnLevel.ERROR.gate(anomalies=fail_on_anomaly)
    return outcome_of(problems, gate).exit_status


@consistency_app.command()
def clean(
    namespace: Annotated[str, typer.Argument(help="Database of the query log.")],
    location: options.RepositoryLocation,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print the days to drop and the files to merge."),
    ] = False,
    compact: Annotated[
        bool,
        typer.Option(
            "--compact", help="Also merge the small files of past days; needs the repository."
        ),
    ] = False,
    *,
    session: options.SparkOptions,
) -> int:
    """Drop days past their retention from a query log and from tables derived from it."""
    from tidegauge.consistency import clean as clean_log
    from tidegauge.consistency import compact as compact_log

    spark = session.start()
    done = clean_log(spark, namespace, dry_run=dry_run)
    for name in done.dropped:
        print(name)
    for derived_table in done.derived:
        for name in derived_table.dropped:
            print(f"{derived_table.table} {name}")
    options.print_message(str(done))
    if compact:
        with location.open(dry_run=dry_run) as repository:
            options.print_message(
                str(compact_log(namespace, repository=repository, spark=spark, dry_run=dry_run))
            )
    return 0


@consistency_app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Output file.")],
    location: options.RepositoryLocation,
    dataset: options.Dataset = None,
    since: options.Since = None,
    until: options.Until = None,
) -> int:
    """Export metrics as JSON lines, one per day, to serve from a key-value store."""
    from tidegauge.consistency.jsonl import consistency_file
    from tidegauge.repository.history.feature_consistency import datasets_with_consistency

    with location.open(read_only=True) as repository:
        with repository.database.read() as connection:
            compared = datasets_with_consistency(connection)
        name = options.resolve_dataset(repository, dataset, compared)
        count = consistency_file(repository, name, file, since=since, until=until)
        options.print_message(f"{file}: {plural(count, 'day')} of {name}")
    return 0


def _estimate_lag(
    configuration: Configuration,
    since: str | None,
    until: str | None,
    longest: str,
    step: str,
    session: options.SparkOptions,
) -> int:
    from tidegauge.consistency import estimate_lag
    from tidegauge.griffin.dsl.grammar import milliseconds

    try:
        longest_ms, step_ms = milliseconds(longest), milliseconds(step)
    except ValueError as error:
        raise options.CommandError(str(error)) from error
    estimate = estimate_lag(
        configuration, spark=session.start(),
        since=since, until=until, longest_ms=longest_ms, step_ms=step_ms,
    )  # fmt: skip
    print(estimate)
    settings = estimate.settings()
    if settings and not configuration.group_bys:
        options.print_message(
            "a lag applies to a group-by; list its features under group_bys in the configuration"
        )
    elif settings:
        import yaml

        print("\nAdd to the configuration:\n")
        print(yaml.safe_dump({"group_bys": settings}, sort_keys=False, allow_unicode=True), end="")
    return 0
