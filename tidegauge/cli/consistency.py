"""Commands for feature consistency."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.analyzers.core.formatting import plural
from tidegauge.cli.options import (
    ArtifactsOption,
    CommandError,
    Dataset,
    Db,
    Since,
    SparkOptions,
    Until,
    Variables,
    new_app,
    open_repository,
    pairs,
    say,
    takes_spark_options,
    the_dataset,
)
from tidegauge.outcome import Cause, FailOnLevel, Problem, outcome_of

if TYPE_CHECKING:
    from tidegauge.consistency import Configuration

consistency_app = new_app("Compare online (logged) with offline (backfilled) features.")
ConfFile = Annotated[
    Path, typer.Argument(metavar="CONF.yml", help="Consistency configuration file.")
]


@consistency_app.command()
@takes_spark_options()
def run(
    conf: ConfFile,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Annotated[str | None, typer.Option(help="The first day, as 2023-01-05.")] = None,
    until: Annotated[str | None, typer.Option(help="The last day; yesterday if left out.")] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Compare all days again, not only what changed.")
    ] = False,
    lag: Annotated[
        bool,
        typer.Option(
            "--estimate-lag",
            help="Only estimate the write lag of each group-by that maximises consistency.",
        ),
    ] = False,
    longest_lag: Annotated[
        str, typer.Option(metavar="TIME", help="The longest lag that is tried, as 2h or 90m.")
    ] = "2h",
    lag_step: Annotated[
        str, typer.Option(metavar="TIME", help="Step between the lags to try, such as 5m or 250ms.")
    ] = "5m",
    fail_on_anomaly: Annotated[
        bool, typer.Option("--fail-on-anomaly", help="Exit with 2 if this run found anomalies.")
    ] = False,
    var: Variables = None,
    *,
    session: SparkOptions,
) -> int:
    """Flatten, backfill, compare and measure new and changed days, and store the metrics."""
    from tidegauge.consistency import load_configuration
    from tidegauge.consistency import run as run_consistency

    configuration = load_configuration(conf, pairs("--var", var or []))
    if lag:
        return _estimate_lag(configuration, since, until, longest_lag, lag_step, session)
    with open_repository(db, artifacts, create=True) as repository:
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
        for bad in done.flattened.samples:
            say(f"could not be read, {bad.ds}: {bad.reason} ({bad.part or 'the query'})")
    gate = FailOnLevel.ERROR.gate(anomalies=fail_on_anomaly)
    return outcome_of(problems, gate).exit_status


@consistency_app.command()
@takes_spark_options()
def clean(
    namespace: Annotated[str, typer.Argument(help="The database of the query log.")],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print what would be dropped, and joined."),
    ] = False,
    compact: Annotated[
        bool,
        typer.Option(
            "--compact", help="Also join the small files of past days; needs the repository."
        ),
    ] = False,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    *,
    session: SparkOptions,
) -> int:
    """Drop the days of a query log, and of tables made of it, that are past their retention."""
    from tidegauge.consistency import clean as clean_log
    from tidegauge.consistency import compact as compact_log

    spark = session.start()
    done = clean_log(spark, namespace, dry_run=dry_run)
    for name in done.dropped:
        print(name)
    for one in done.derived:
        for name in one.dropped:
            print(f"{one.table} {name}")
    say(str(done))
    if compact:
        with open_repository(db, artifacts, dry_run=dry_run) as repository:
            say(str(compact_log(namespace, repository=repository, spark=spark, dry_run=dry_run)))
    return 0


@consistency_app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Where to write.")],
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    since: Since = None,
    until: Until = None,
) -> int:
    """Export metrics as JSON lines, one per day, to serve from a key-value store."""
    from tidegauge.consistency.jsonl import consistency_file
    from tidegauge.repository.history.feature_consistency import datasets_with_consistency

    with open_repository(db, artifacts, read_only=True) as repository:
        with repository.database.read() as connection:
            compared = datasets_with_consistency(connection)
        name = the_dataset(repository, dataset, compared)
        count = consistency_file(repository, name, file, since=since, until=until)
        say(f"{file}: {plural(count, 'day')} of {name}")
    return 0


def _estimate_lag(
    configuration: Configuration,
    since: str | None,
    until: str | None,
    longest: str,
    step: str,
    session: SparkOptions,
) -> int:
    from tidegauge.consistency import estimate_lag
    from tidegauge.griffin.dsl.grammar import milliseconds

    try:
        longest_ms, step_ms = milliseconds(longest), milliseconds(step)
    except ValueError as error:
        raise CommandError(str(error)) from error
    found = estimate_lag(
        configuration, spark=session.start(),
        since=since, until=until, longest_ms=longest_ms, step_ms=step_ms,
    )  # fmt: skip
    print(found)
    settings = found.settings()
    if settings and not configuration.group_bys:
        say("a lag is set of a group-by; list the features of one under group_bys")
    elif settings:
        import yaml

        print("\nTo be set in the configuration:\n")
        print(yaml.safe_dump({"group_bys": settings}, sort_keys=False, allow_unicode=True), end="")
    return 0
