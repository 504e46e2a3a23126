"""Commands for rules files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import (
    TOOL_FAILED,
    AllowEmpty,
    ArtifactsOption,
    AsOfOption,
    Dataset,
    Db,
    FormatOption,
    Jobs,
    ResultFormatOption,
    ResultOutput,
    SparkOptions,
    Variables,
    new_app,
    open_repository,
    pairs,
    print_result,
    repeated,
    takes_spark_options,
    target_file,
    the_dataset,
)
from tidegauge.cli.output import Format, ResultFormat, print_frame
from tidegauge.outcome import FailOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tidegauge.files.rules_files import RulesFile
    from tidegauge.rules.tasks import DQMRule

rules_app = new_app("Validate and repair records with rules, fixes and policies.")
_SHOWN = 5
"""Most sample records of a failed verdict that the history shows."""


Specs = Annotated[list[str], typer.Argument(metavar="SPEC.yml...", help="Files, folders, globs.")]


@rules_app.command()
@takes_spark_options()
def run(
    specs: Specs,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    partitions: Annotated[
        str, typer.Option(help="new, all, or conditions such as 'ds>=2013-02-01'.")
    ] = "new",
    var: Variables = None,
    allow_empty: AllowEmpty = False,
    samples: Annotated[int, typer.Option(min=0, help="Records of each rule to show.")] = 10,
    jobs: Jobs = 1,
    fail_on: Annotated[
        FailOn,
        typer.Option(help="Exit with 2 if a policy fails, if any record is rejected, or never."),
    ] = FailOn.POLICY,
    form: ResultFormatOption = ResultFormat.TEXT,
    output: ResultOutput = None,
    *,
    session: SparkOptions,
) -> int:
    """Run rules, fixes and policies on new and changed partitions; publish and quarantine records."""
    from tidegauge.rules.run import run_rules

    target_file(output)
    with open_repository(db, artifacts, create=True) as repository:
        result = run_rules(
            specs,
            repository,
            partitions,
            session.start,
            samples,
            pairs("--var", var or []),
            allow_empty=allow_empty,
            jobs=jobs,
        )
    return print_result(result, fail_on.gate(), form, output, repeated(db))


@rules_app.command()
@takes_spark_options()
def check(specs: Specs, var: Variables = None, *, session: SparkOptions) -> int:
    """Check rules files against their tables and print their steps in order, without reading data."""
    from tidegauge.files.rules_files import load_all_rules

    files, errors = load_all_rules(specs, pairs("--var", var or []))
    spark = session.start()
    for error in errors:
        print(error)
    problems = len(errors)
    for file in files:
        for line, good in _plan(file, spark):
            print(line)
            problems += not good
    return TOOL_FAILED if problems else 0


@rules_app.command()
def history(
    dataset: Dataset = None,
    db: Db = None,
    artifacts: ArtifactsOption = None,
    as_of: AsOfOption = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what failed.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print the latest verdict of each partition."""
    with open_repository(db, artifacts, read_only=True) as repository:
        frame = repository.verdicts(
            the_dataset(repository, dataset), passed=False if failed else None, as_of=as_of
        )
    told = [_in_words(result) for result in frame["result"]]
    shown = ["partition", "name", "verdict", "checked_at", "run_id"]
    print_frame(frame.assign(verdict=told), form, shown)


def _in_words(result: str) -> str:
    """Format a stored verdict as one line. The verdict of another program is returned unchanged."""
    from tidegauge.analyzers.core.errors import RuleError
    from tidegauge.rules.verdicts import CheckResult

    try:
        found = CheckResult.from_json(result)
    except RuleError:
        return result
    if not found.outcomes:
        return "; ".join(found.check_log) or str(found)
    samples = [] if found.passed else found.samples
    told = [str(found), *samples[:_SHOWN]]
    return "\n  ".join([*told, "..."] if len(samples) > _SHOWN else told)


def _plan(file: RulesFile, spark: SparkSession) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a plan, each with True, or False for a problem."""
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
    by = f" by {', '.join(source.keys)}" if source.keys else ""
    yield f"{file.path}: {file.suite.dataset}, {source.name}{by}", True
    yield from ((line, True) for line in _steps(file))
    for name, problem in mask(data, file.dqm.tasks, by=source.keys).failures.items():
        yield f"{file.place(name)}: {problem}", False


def _steps(file: RulesFile) -> Iterator[str]:
    """Yield the steps in order."""
    from tidegauge.rules.policies import FailNone

    dqm = file.dqm
    for rule in dqm.tasks.before:
        yield f"  rule {rule.name} ({_options(rule)}): {rule.expression.shown}"
    for fix in dqm.tasks.fixes:
        for arm in fix.arms:
            yield f"  fix {fix.name}: {fix.column} = {arm.value.shown} where {arm.condition.shown}"
    for rule in dqm.tasks.after:
        yield f"  rule {rule.name} ({_options(rule)}, after fixes): {rule.expression.shown}"
    for task, policy in dqm.task_policies:
        if not isinstance(policy, FailNone):
            yield f"  policy of {task.name}: {policy!r}"
    for whole in dqm.policies:
        yield f"  policy {whole.name}"
    for what, table in (("rejects", file.quarantine), ("records that are left", file.publish)):
        if table is not None:
            yield f"  {what} go to {table}"


def _options(rule: DQMRule) -> str:
    return f"{rule.severity}, null: {rule.on_null}"
