"""Options that commands share, of the repository and of the Spark session, and groups of commands.

Groups import their commands when they run; ``--help`` needs only their names and summaries. Each command
that starts Spark has the same options of the session.
"""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import for_terminal, hide_secrets
from tidegauge.cli.output import Format, ResultFormat, data_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.job import JobResult
    from tidegauge.outcome import Gate
    from tidegauge.repository.repository import Repository


class CommandError(TidegaugeError):
    """A command cannot do what its options and arguments ask for."""


@dataclass(frozen=True)
class CommandEntry:
    """Where a command is, and its line in the help.

    Attributes
    ----------
    target : str
        ``module:attribute`` of a function or a `typer.Typer`.
    summary : str
        The first line of its docstring or help; tests compare the two.
    """

    target: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command and build it."""
        module, _, attribute = self.target.partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            group = get_group(command)
            group.name = name
            return group
        single = new_app()
        single.command(name)(command)
        return get_command(single)


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name, each imported when it is looked up."""

    def __init__(self, entries: Mapping[str, CommandEntry]) -> None:
        self._entries = entries
        self._commands: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._commands:
            self._commands[name] = self._entries[name].load(name)
        return self._commands[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._entries, **self._commands})

    def __len__(self) -> int:
        return len(self._entries.keys() | self._commands.keys())


class CommandGroup(TyperGroup):
    """A group that prints its help if no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help and exit with 1 if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit(1)
        return super().parse_args(ctx, args)


class LazyGroup(CommandGroup):
    """A group whose commands are listed by panels of its help, and imported when they run."""

    panels: ClassVar[Mapping[str, Mapping[str, CommandEntry]]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        entries = {name: entry for panel in self.panels.values() for name, entry in panel.items()}
        self.commands = LazyCommands(entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and summaries of the commands, a section for each panel."""
        width = max(len(name) for name in self.commands)
        for panel, entries in self.panels.items():
            with formatter.section(panel):
                formatter.write_dl(
                    [(name.ljust(width), entry.summary) for name, entry in entries.items()]
                )


def new_app(
    summary: str | None = None, *, name: str | None = None, group: type[TyperGroup] = CommandGroup
) -> typer.Typer:
    """Return an application of commands; its help is plain text, since importing Rich takes .15 s."""
    return typer.Typer(
        name=name,
        help=summary,
        cls=group,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


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
Jobs = Annotated[int, typer.Option(min=1, max=64, help="Tables to measure at the same time.")]
AllowEmpty = Annotated[
    bool,
    typer.Option("--allow-empty", help="Pass without data, and ignore on_empty: in the files."),
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
            raise CommandError(msg)
    return dict(pair.split("=", 1) for pair in given)


def target_file(file: Path | None, *, replaces: bool = True) -> Path | None:
    """Check that an output file can be written, and make its folder, before any work is done for it.

    Raises
    ------
    CommandError
        If the file cannot be written, or is there and must not be replaced.
    """
    if file is None:
        return None
    if file.is_dir():
        msg = f"{file} is a folder; name a file, such as {file / 'results'}"
        raise CommandError(msg)
    if file.exists() and not replaces:
        msg = f"{file} is there already; name another file"
        raise CommandError(msg)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            file.open("ab").close()
        else:
            TemporaryFile(dir=file.parent).close()
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror}"
        raise CommandError(msg) from error
    return file


def print_result(
    result: JobResult[Any], gate: Gate, form: ResultFormat, output: Path | None, options: str
) -> int:
    """Print the result of a job, or write it to a file; return the exit status.

    Parameters
    ----------
    result : JobResult
    gate : Gate
        The problems that fail the command.
    form : ResultFormat
    output : Path or None
        The file; None for standard output.
    options : str
        Options appended to the commands in the text.
    """
    match form:
        case ResultFormat.TEXT:
            text = result.text(options)
        case ResultFormat.JSON:
            text = result.json(gate)
        case ResultFormat.JUNIT:
            text = result.junit(gate)
    if output is None:
        print(text, file=sys.stdout if form is ResultFormat.TEXT else data_output())
    else:
        write_output(output, text + "\n")
    return result.status(gate)


@contextmanager
def open_repository(
    url: str | None,
    artifacts: str | None,
    *,
    read_only: bool = False,
    dry_run: bool = False,
    create: bool = False,
) -> Iterator[Repository]:
    """Open the repository that the options name, and close it at the end.

    A dry run only reads. Any other command that is not ``read_only`` writes: if the user may only read,
    it fails before it does any work.

    Parameters
    ----------
    url, artifacts : str or None
    read_only, dry_run : bool
    create : bool
        Create a missing SQLite file. Commands that need a history leave it out: for them a missing file
        is a mistyped name.

    Raises
    ------
    DatabaseAccessError
        If the file is missing; the message suggests the nearest name.
    """
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.config import settings
    from tidegauge.repository.store.engines import (
        check_file_exists,
        parse_address,
        sqlite_file_of,
    )

    read_only = read_only or dry_run
    if not create:
        check_file_exists(sqlite_file_of(parse_address(settings(url, None)[0])))
    with Repository(url, artifacts=artifacts, read_only=read_only) as repository:
        if not read_only:
            repository.database.check_writable()
        yield repository


EMPTY = "the repository has no datasets; measure a table with `tidegauge run`"


def the_dataset(
    repository: Repository, name: str | None, among: Sequence[str] | None = None
) -> str:
    """Return the named dataset, or the only one, of all or of some."""
    if name is not None:
        return name
    there = repository.datasets() if among is None else among
    if len(there) != 1:
        msg = f"name a dataset; there are: {', '.join(there)}" if there else EMPTY
        raise CommandError(msg)
    return there[0]


def repeated(db: str | None) -> str:
    """Return the --db option for commands in messages, without passwords.

    Examples
    --------
    >>> repeated("sqlite:///orders.db"), repeated(None)
    (' --db sqlite:///orders.db', '')
    """
    return "" if db is None else f" --db {shlex.quote(hide_secrets(db))}"


@dataclass(frozen=True)
class SparkOptions:
    """Options of a command's Spark session.

    Attributes
    ----------
    warehouse : str, optional
    spark_conf : list of str, optional
        Settings as ``KEY=VALUE``.
    packages, master : str, optional
    """

    warehouse: Annotated[
        str | None, typer.Option(help="Folder of a local warehouse with its metastore.")
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="KEY=VALUE",
            help="A Spark setting, such as spark.driver.memory=4g; may be repeated.",
        ),
    ] = None
    packages: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP:ARTIFACT:VERSION,...",
            help="Maven packages for Spark, for example for Delta Lake or Iceberg.",
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs, such as local[4], spark://host:7077, yarn or sc://host"
            " (default: as Spark is configured, else on this machine).",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether any option is given."""
        return self != SparkOptions()

    def settings(self) -> dict[str, str]:
        """Return the Spark settings of the options.

        Raises
        ------
        CommandError
            If a setting or a package is written in another form than the options'.

        Examples
        --------
        >>> SparkOptions(spark_conf=["spark.sql.ansi.enabled=false"], master="local[2]").settings()
        {'spark.sql.ansi.enabled': 'false', 'spark.master': 'local[2]'}
        """
        settings = pairs("--conf", self.spark_conf or [])
        for key in settings:
            if not key.startswith("spark."):
                msg = f"--conf {key}: Spark reads only settings whose names begin with 'spark.'"
                raise CommandError(msg)
        for package in (self.packages or "").split(",") if self.packages is not None else ():
            if package.count(":") != 2 or not all(package.split(":")):
                msg = f"--packages {package!r}: write GROUP:ARTIFACT:VERSION, several with commas"
                raise CommandError(msg)
        if self.packages is not None:
            listed = (settings.get("spark.jars.packages"), self.packages)
            settings["spark.jars.packages"] = ",".join(filter(None, listed))
        if self.master is not None:
            settings["spark.master"] = self.master
        return settings

    def start(self, defaults: Mapping[str, str] | None = None) -> SparkSession:
        """Return the active session, or start one, with the options and, below them, other settings."""
        from tidegauge.spark.session import apply_settings, spark_session

        settings = {**(defaults or {}), **self.settings()}
        session = spark_session(self.warehouse, settings=settings)
        apply_settings(session, settings)
        return session


_HINTS = get_type_hints(SparkOptions, include_extras=True)


def takes_spark_options(
    without: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of `SparkOptions`, which it takes as its parameter ``session``.

    Parameters
    ----------
    without : collection of str
        Options that the command does not have.
    """
    names = [name for name in _HINTS if name not in without]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function, eval_str=True)
        own = [p for name, p in signature.parameters.items() if name != "session"]
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [p.replace(kind=keyword) for p in own]
        added = [
            inspect.Parameter(name, keyword, default=None, annotation=_HINTS[name])
            for name in names
        ]

        @wraps(function)
        def command(**arguments: Any) -> Any:
            given = {name: arguments.pop(name) for name in names}
            return function(session=replace(SparkOptions(), **given), **arguments)

        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        return command

    return decorate
