"""Commands for rules files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli import options
from tidegauge.cli.output import Format, ResultFormat, print_frame
from tidegauge.outcome import FailOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tidegauge.files.rules_files import RulesFile
    from tidegauge.rules.tasks import DQMRule

rules_app = options.new_app("Validate and repair records with rules, fixes and policies.")
_MAX_SAMPLES = 5
"""Maximum number of sample records of a failed verdict in the history."""


Specs = Annotated[
    list[str], typer.Argument(metavar="SPEC.yml...", help="Rules files, folders or globs.")
]


@rules_app.command()
def run(
    specs: Specs,
    location: options.RepositoryLocation,
    partitions: Annotated[
        str,
        typer.Option(
            help="Partitions to run on: new, all, or conditions such as 'ds>=2013-02-01'."
        ),
    ] = "new",
    var: options.Variables = None,
    allow_empty: options.AllowEmpty = False,
    samples: Annotated[
        int, typer.Option(min=0, help="Maximum number of sample records per rule.")
    ] = 10,
    jobs: options.Jobs = 1,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            help="Exit with 2 if a policy fails (policy), also if a record is rejected (reject), or never."
        ),
    ] = FailOn.POLICY,
    output_format: options.ResultFormatOption = ResultFormat.TEXT,
    output: options.ResultOutput = None,
    *,
    session: options.SparkOptions,
) -> int:
    """Run rules, fixes and policies on new and changed partitions; publish and quarantine records."""
    from tidegauge.rules.run import run_rules

    options.check_target_file(output)
    with location.open(create=True) as repository:
        result = run_rules(
            specs,
            repository,
            partitions,
            session.start,
            samples,
            options.parse_pairs("--var", var or []),
            allow_empty=allow_empty,
            jobs=jobs,
        )
    return options.print_result(result, fail_on.gate(), output_format, output, location.option)


@rules_app.command()
def check(specs: Specs, var: options.Variables = None, *, session: options.SparkOptions) -> int:
    """Check rules files against their tables and print their steps in order, without reading data."""
    from tidegauge.files.rules_files import load_all_rules

    files, errors = load_all_rules(specs, options.parse_pairs("--var", var or []))
    spark = session.start()
    for error in errors:
        print(error)
    problems = len(errors)
    for file in files:
        for line, is_valid in _plan_lines(file, spark):
            print(line)
            problems += not is_valid
    return options.TOOL_FAILED if problems else 0


@rules_app.command()
def history(
    location: options.RepositoryLocation,
    dataset: options.Dataset = None,
    as_of: options.AsOfOption = None,
    failed: Annotated[bool, typer.Option("--failed", help="Print only failed verdicts.")] = False,
    output_format: options.FormatOption = Format.TABLE,
) -> None:
    """Print the latest verdict of each partition."""
    with location.open(read_only=True) as repository:
        frame = repository.verdicts(
            options.resolve_dataset(repository, dataset),
            passed=False if failed else None,
            as_of=as_of,
        )
    verdicts = [_describe_verdict(result) for result in frame["result"]]
    columns = ["partition", "name", "verdict", "checked_at", "run_id"]
    print_frame(frame.assign(verdict=verdicts), output_format, columns)


def _describe_verdict(result: str) -> str:
    """Return a stored verdict as text. Verdicts of other programs are returned unchanged."""
    from tidegauge.analyzers.core.errors import RuleError
    from tidegauge.rules.verdicts import CheckResult

    try:
        verdict = CheckResult.from_json(result)
    except RuleError:
        return result
    if not verdict.outcomes:
        return "; ".join(verdict.check_log) or str(verdict)
    samples = [] if verdict.passed else verdict.samples
    lines = [str(verdict), *samples[:_MAX_SAMPLES]]
    return "\n  ".join([*lines, "..."] if len(samples) > _MAX_SAMPLES else lines)


def _plan_lines(file: RulesFile, spark: SparkSession) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a plan, each with False if it reports a problem, else True."""
    from tidegauge.analyzers.core.errors import TidegaugeError
    from tidegauge.rules.masks import mask
    from tidegauge.rules.run import open_rules_source
    from tidegauge.rules.tally import resolve_columns

    try:
        file.check_places(spark)
        source = open_rules_source(file, spark)
        data = source.read(None)
        resolve_columns(data, file.keys)
    except TidegaugeError as error:
        yield f"{file.path}: {error}", False
        return
    partitioned_by = f" by {', '.join(source.keys)}" if source.keys else ""
    yield f"{file.path}: {file.suite.dataset}, {source.name}{partitioned_by}", True
    yield from ((line, True) for line in _step_lines(file))
    for name, problem in mask(data, file.dqm.tasks, partition_by=source.keys).failures.items():
        yield f"{file.location(name)}: {problem}", False


def _step_lines(file: RulesFile) -> Iterator[str]:
    """Yield the steps of a rules file in order, as lines."""
    from tidegauge.rules.policies import FailNone

    dqm = file.dqm
    for rule in dqm.tasks.before:
        yield f"  rule {rule.name} ({_options(rule)}): {rule.expression.display_text}"
    for fix in dqm.tasks.fixes:
        for arm in fix.arms:
            yield f"  fix {fix.name}: {fix.column} = {arm.value.display_text} where {arm.condition.display_text}"
    for rule in dqm.tasks.after:
        yield f"  rule {rule.name} ({_options(rule)}, after fixes): {rule.expression.display_text}"
    for task, policy in dqm.task_policies:
        if not isinstance(policy, FailNone):
            yield f"  policy of {task.name}: {policy!r}"
    for policy_of_all in dqm.policies:
        yield f"  policy {policy_of_all.name}"
    for records, table in (
        ("rejected records", file.quarantine),
        ("accepted records", file.publish),
    ):
        if table is not None:
            yield f"  {records} go to {table}"


def _options(rule: DQMRule) -> str:
    return f"{rule.severity}, null: {rule.on_null}"
