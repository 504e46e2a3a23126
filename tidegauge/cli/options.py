"""Options that commands share, and opening the repository."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import for_terminal
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.cli.output import Format, ResultFormat, data_output

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

TOOL_FAILED, DATA_FAILED = 1, 2

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The repository's database; else TIDEGAUGE_DB, tidegauge.toml, sqlite:///tidegauge.db.",
    ),
]
ArtifactsOption = Annotated[
    str | None,
    typer.Option("--artifacts", help="Folder for large states; else TIDEGAUGE_ARTIFACTS."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
ResultFormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="How to print the results.")
]
ResultOutput = Annotated[
    Path | None, typer.Option(help="Output file; defaults to standard output.")
]
Dataset = Annotated[
    str | None, typer.Argument(help="The dataset; may be left out if there is one.")
]
Variables = Annotated[
    list[str] | None, typer.Option("--var", help="A variable, name=value; may be repeated.")
]
AllowEmpty = Annotated[
    bool,
    typer.Option("--allow-empty", help="Pass without data, whatever on_empty: in the files says."),
]
Since = Annotated[str | None, typer.Option(help="From this partition time on.")]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        help="As known at a UTC time, as in 2026-01-31T12:00, or after the run of a number.",
    ),
]
AnomalyId = Annotated[
    int,
    typer.Argument(
        metavar="ID", help="The number of an anomaly or an incident, as `anomalies list` prints it."
    ),
]
Note = Annotated[str | None, typer.Option(help="Why.")]
By = Annotated[str | None, typer.Option(help="Author of the label; defaults to the user's name.")]
Until = Annotated[str | None, typer.Option(help="Up to this partition time, included.")]


def say(text: str) -> None:
    """Print a message to standard error, without control characters and passwords of addresses."""
    print(f"tidegauge: {for_terminal(hide_secrets(text))}", file=sys.stderr)


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """Parse the values of an option that are written as ``key=value``."""
    for pair in given:
        if "=" not in pair:
            msg = f"{option} {pair!r}: write key=value"
            raise typer.BadParameter(msg)
    return dict(pair.split("=", 1) for pair in given)


def target_file(file: Path | None, *, replaces: bool = True) -> Path | None:
    """Check that an output file can be written, and make its folder, before any work is done for it.

    Raises
    ------
    typer.BadParameter
        If the file cannot be written, or is there and must not be replaced.
    """
    if file is None:
        return None
    if file.is_dir():
        msg = f"{file} is a folder; name a file, such as {file / 'results'}"
        raise typer.BadParameter(msg)
    if file.exists() and not replaces:
        msg = f"{file} is there already; name another file"
        raise typer.BadParameter(msg)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            file.open("ab").close()
        else:
            TemporaryFile(dir=file.parent).close()
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror}"
        raise typer.BadParameter(msg) from error
    return file


def write_results(text: str, output: Path | None, form: ResultFormat) -> None:
    """Print results, or write them to a file."""
    if output is None:
        print(text, file=sys.stdout if form is ResultFormat.TEXT else data_output())
    else:
        write_output(output, text + "\n")


@contextmanager
def open_repository(
    url: str | None, artifacts: str | None, *, read_only: bool = False, dry_run: bool = False
) -> Iterator[Repository]:
    """Open the repository that the options name; close it at the end.

    A dry run only reads. Any other command that is not ``read_only`` writes: if the user may only read,
    it fails before it does any work.
    """
    from tidegauge.repository.repository import Repository

    read_only = read_only or dry_run
    with Repository(url, artifacts=artifacts, read_only=read_only) as repository:
        if not read_only:
            repository.database.check_writable()
        yield repository


EMPTY = "the repository is empty"


def the_dataset(
    repository: Repository, name: str | None, among: Sequence[str] | None = None
) -> str:
    """Return the named dataset, or the only one, of all or of some."""
    if name is not None:
        return name
    there = repository.datasets() if among is None else among
    if len(there) != 1:
        msg = f"name a dataset; there are: {', '.join(there)}" if there else EMPTY
        raise typer.BadParameter(msg)
    return there[0]


def repeated(db: str | None) -> str:
    """Return the option by which a command that is told finds the same repository, without passwords.

    Examples
    --------
    >>> repeated("sqlite:///orders.db"), repeated(None)
    (' --db sqlite:///orders.db', '')
    """
    return "" if db is None else f" --db {shlex.quote(hide_secrets(db))}"
