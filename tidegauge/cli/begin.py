"""Commands to begin with: the demonstration, diagnostics, and the example notebooks."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.analyzers.core.errors import SetupError
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.cli.options import (
    TOOL_FAILED,
    ArtifactsOption,
    CommandError,
    Db,
    SparkOptions,
    open_repository,
    takes_spark_options,
)

NOTEBOOKS = Path(__file__).parents[1] / "demo" / "notebooks"


@takes_spark_options(without=["warehouse"])
def demo(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    folder: Annotated[Path, typer.Option(help="Where the demonstration keeps its table.")] = Path(
        "tidegauge-demo"
    ),
    *,
    session: SparkOptions,
) -> int:
    """Run a demonstration on real data: every flight from New York in 2013."""
    from tidegauge.demo.flights import show

    started = time.monotonic()
    with open_repository(db, artifacts, create=True) as repository:
        status = show(repository, replace(session, warehouse=str(folder)).start)
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


@takes_spark_options()
def doctor(
    db: Db = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start a Spark session and test its capabilities.")
    ] = False,
    *,
    session: SparkOptions,
) -> int:
    """Check the installation: report each part's status, with fixes for problems."""
    from tidegauge.installation import STATUS_WRONG, examine, examine_spark
    from tidegauge.repository.store.config import settings

    wrong = False
    findings = examine(settings(db, None)[0])
    if spark:
        findings = chain(findings, examine_spark(session.start()))
    for finding in findings:
        wrong |= finding.status == STATUS_WRONG
        print(f"{finding.status:<8} {finding.subject}: {finding.finding}")
        if finding.fix:
            print(f"{'':<8} cure: {finding.fix}")
    return TOOL_FAILED if wrong else 0


def notebooks(
    folder: Annotated[Path, typer.Argument(help="Where to; created if it does not exist.")] = Path(
        "tidegauge-notebooks"
    ),
) -> None:
    """Copy the example notebooks into a folder; none that is there already is replaced."""
    sources = sorted(NOTEBOOKS.glob("*.ipynb"))
    if not sources:
        msg = f"the notebooks are not in {NOTEBOOKS}; install tidegauge again"
        raise SetupError(msg)
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; name a folder"
        raise CommandError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        target = folder / source.name
        if target.exists():
            print(f"{target} is there already and stays as it is")
        else:
            write_output(target, source.read_text(encoding="utf-8"))
            print(target)
    print(f"Open them: pip install 'tidegauge[notebook]' jupyterlab, then jupyter lab {folder}")


def schema(
    kind: Annotated[
        str, typer.Argument(help="suite, rules, consistency or settings; all if not given.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(help="File to write; without a kind, the folder for a file of each kind."),
    ] = None,
) -> None:
    """Write the JSON Schema of suite, rules, consistency or settings files, for completion and checks in editors."""
    from tidegauge.files.schema import FILE_KINDS, json_schema

    if not kind and output is None:
        msg = (
            f"name a kind of file ({', '.join(FILE_KINDS)}), or a folder for all: --output schemas"
        )
        raise CommandError(msg)
    for name in [kind] if kind else FILE_KINDS:
        text = json.dumps(json_schema(name), indent=1) + "\n"
        if output is None:
            print(text, end="")
            continue
        if not kind:
            output.mkdir(parents=True, exist_ok=True)
        print(write_output(output if kind else output / f"{name}.schema.json", text))
