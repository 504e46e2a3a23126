"""Commands for new users: the demonstration, diagnostics, example notebooks and JSON Schemas."""

from __future__ import annotations

import json
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.analyzers.core.errors import SetupError
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.cli import options

NOTEBOOK_FOLDER = Path(__file__).parents[1] / "demo" / "notebooks"


def demo(
    location: options.RepositoryLocation,
    folder: Annotated[Path, typer.Option(help="Folder for the table of the demonstration.")] = Path(
        "tidegauge-demo"
    ),
    *,
    session: options.SessionOptions,
) -> int:
    """Run a demonstration on real data: all flights from New York in 2013."""
    from tidegauge.demo.flights import show

    started = time.monotonic()
    with location.open(create=True) as repository:
        status = show(
            repository, options.SparkOptions(**vars(session), warehouse=str(folder)).start
        )
    print(f"\nDone in {time.monotonic() - started:.0f} s. Explore the results:")
    command = sys.argv[0] if "/" in sys.argv[0] else "tidegauge"
    if Path(command).name == "__main__.py":
        command = f"{sys.executable} -m tidegauge"
    print(f"  {command} dashboard{location.option}")
    print(
        f"  {command} metrics flights --name Completeness --instance dep_time --where ''{location.option}"
    )
    print(f"  {command} anomalies list flights --incidents{location.option}")
    print("A second run scans nothing, because no partition is new.")
    return status


def doctor(
    db: options.Db = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start a Spark session and check its capabilities.")
    ] = False,
    *,
    session: options.SparkOptions,
) -> int:
    """Check each part of the installation, and suggest fixes for problems."""
    from tidegauge.installation import STATUS_WRONG, examine, examine_spark
    from tidegauge.repository.store.config import settings

    has_problem = False
    diagnoses = examine(settings(db, None)[0])
    if spark:
        diagnoses = chain(diagnoses, examine_spark(session.start()))
    for diagnosis in diagnoses:
        has_problem |= diagnosis.status == STATUS_WRONG
        print(f"{diagnosis.status:<8} {diagnosis.subject}: {diagnosis.finding}")
        if diagnosis.fix:
            print(f"{'':<8} fix: {diagnosis.fix}")
    return options.TOOL_FAILED if has_problem else 0


def notebooks(
    folder: Annotated[
        Path, typer.Argument(help="Target folder, which is created if it does not exist.")
    ] = Path("tidegauge-notebooks"),
) -> None:
    """Copy the example notebooks into a folder; existing files are not replaced."""
    sources = sorted(NOTEBOOK_FOLDER.glob("*.ipynb"))
    if not sources:
        msg = f"the notebooks are missing from {NOTEBOOK_FOLDER}; reinstall tidegauge"
        raise SetupError(msg)
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; use a folder"
        raise options.CommandError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        target = folder / source.name
        if target.exists():
            print(f"{target} already exists and was not changed")
        else:
            write_output(target, source.read_text(encoding="utf-8"))
            print(target)
    print(
        f"To open them: pip install 'tidegauge[charts,notebook]' jupyterlab, then jupyter lab {folder}"
    )


def schema(
    kind: Annotated[
        str, typer.Argument(help="suite, rules, consistency or settings (default: all).")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            help="Output file, or a folder if no kind is given (default: standard output)."
        ),
    ] = None,
) -> None:
    """Write JSON Schemas of suite, rules, consistency and settings files, for completion and checks in editors."""
    from tidegauge.files.schema import FILE_KINDS, json_schema

    if not kind and output is None:
        msg = f"name a kind of file ({', '.join(FILE_KINDS)}), or a folder for all kinds: --output schemas"
        raise options.CommandError(msg)
    for name in [kind] if kind else FILE_KINDS:
        text = json.dumps(json_schema(name), indent=1) + "\n"
        if output is None:
            print(text, end="")
            continue
        if not kind:
            output.mkdir(parents=True, exist_ok=True)
        print(write_output(output if kind else output / f"{name}.schema.json", text))
