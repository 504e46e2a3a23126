"""Options that commands share, and groups of commands.

Groups import a command only when it runs; ``--help`` needs only names and summaries. A command has all options
of a dataclass, such as `SparkOptions` or `RepositoryLocation`, if one of its parameters has this type.
"""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from tidegauge.analyzers.columnar.engines import LazySession, MeasuringEngine
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
    """A command cannot run with its options and arguments."""


@dataclass(frozen=True)
class CommandEntry:
    """A command's location, and its line in the help.

    Attributes
    ----------
    target : str
        ``module:attribute`` of a function or a `typer.Typer`.
    summary : str
        First line of the docstring or help of the target; a test compares them.
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
    """Commands by name; each command is imported when it is looked up."""

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
    """A group that prints its help if it is called without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help and exit with 1 if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit(1)
        return super().parse_args(ctx, args)


class LazyGroup(CommandGroup):
    """A group that lists its commands in panels of its help, and imports them when they run."""

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


class Commands(typer.Typer):
    """An application of commands whose parameters can be groups of options, such as `SparkOptions`."""

    def command(self, *args: Any, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a command, as for Typer."""
        register = super().command(*args, **settings)
        return lambda function: register(expand_options(function))


def expand_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that has the fields of its groups of options as parameters of its own.

    A group of options is a parameter whose type is a dataclass. Typer reads the parameters of a command
    from its signature.
    """
    signature = inspect.signature(function, eval_str=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, list[str]]] = {}
    for parameter in signature.parameters.values():
        group = parameter.annotation
        members = [parameter]
        if isinstance(group, type) and is_dataclass(group):
            members = list(inspect.signature(group, eval_str=True).parameters.values())
            groups[parameter.name] = (group, [member.name for member in members])
        parameters += [member.replace(kind=member.KEYWORD_ONLY) for member in members]
    if not groups:
        return function

    @wraps(function)
    def command(**arguments: Any) -> Any:
        for name, (group, fields) in groups.items():
            arguments[name] = group(**{field: arguments.pop(field) for field in fields})
        return function(**arguments)

    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def new_app(
    summary: str | None = None, *, name: str | None = None, group: type[TyperGroup] = CommandGroup
) -> Commands:
    """Return an application of commands; its help is plain text, because importing Rich takes 0.15 s."""
    return Commands(
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
        help="Database URL of the repository (default: TIDEGAUGE_DB, else tidegauge.toml, else sqlite:///tidegauge.db).",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
ResultFormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="Output format of the results.")
]
ResultOutput = Annotated[Path | None, typer.Option(help="Output file (default: standard output).")]
Dataset = Annotated[str | None, typer.Argument(help="Dataset name (default: the only dataset).")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--var",
        help="Value of a variable in the files, as name=value; can be repeated (default: the values in the files).",
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, max=64, help="Number of tables to measure at the same time.")
]
EngineOption = Annotated[
    MeasuringEngine,
    typer.Option(
        "--engine",
        envvar="TIDEGAUGE_ENGINE",
        help="auto measures folders of Parquet files without Spark where the results are exactly the same; spark"
        " measures everything by Spark SQL.",
    ),
]
AllowEmpty = Annotated[
    bool,
    typer.Option(
        "--allow-empty", help="Pass if there is no data, and ignore on_empty in the files."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(help="First partition time, such as 2026-01-01 (default: no limit)."),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        help="Show the state at a UTC time, such as 2026-01-31T12:00, or after a run number (default: now).",
    ),
]
AnomalyId = Annotated[
    int,
    typer.Argument(
        metavar="ID", help="ID of an anomaly or incident, as printed by `anomalies list`."
    ),
]
Note = Annotated[str | None, typer.Option(help="Reason to store (default: none).")]
Author = Annotated[
    str | None, typer.Option("--by", help="Author to store (default: your user name).")
]
Until = Annotated[
    str | None,
    typer.Option(help="Last partition time, inclusive (default: no limit)."),
]


def print_message(text: str) -> None:
    """Print a message to standard error, without control characters and without passwords in URLs."""
    print(f"tidegauge: {for_terminal(hide_secrets(text))}", file=sys.stderr)


def parse_pairs(option: str, values: list[str]) -> dict[str, str]:
    """Parse the values of an option, which have the form ``key=value``.

    Raises
    ------
    CommandError
        If a value has no equals sign.
    """
    for pair in values:
        if "=" not in pair:
            msg = f"Invalid value {pair!r} of {option}: use the form key=value."
            raise CommandError(msg)
    return dict(pair.split("=", 1) for pair in values)


def check_target_file(file: Path | None, *, replaces: bool = True) -> Path | None:
    """Check that an output file can be written, and create its folder, before any work is done.

    Raises
    ------
    CommandError
        If the file cannot be written, or exists and must not be replaced.
    """
    if file is None:
        return None
    if file.is_dir():
        msg = f"cannot write {file}: it is a folder; use a file, such as {file / 'results'}"
        raise CommandError(msg)
    if file.exists() and not replaces:
        msg = f"cannot write {file}: it already exists; use another file"
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
    result: JobResult[Any],
    gate: Gate,
    output_format: ResultFormat,
    output: Path | None,
    options: str,
) -> int:
    """Print the result of a job, or write it to a file; return the exit status.

    Parameters
    ----------
    result : JobResult
    gate : Gate
        The problems of the data that fail the command.
    output_format : ResultFormat
    output : Path or None
        Output file; None for standard output.
    options : str
        Options that are appended to commands in the output.
    """
    match output_format:
        case ResultFormat.TEXT:
            output_text = result.text(options)
        case ResultFormat.JSON:
            output_text = result.json(gate)
        case ResultFormat.JUNIT:
            output_text = result.junit(gate)
    if output is None:
        print(output_text, file=sys.stdout if output_format is ResultFormat.TEXT else data_output())
    else:
        write_output(output, output_text + "\n")
    return result.status(gate)


NO_DATASETS_MESSAGE = "the repository has no datasets; measure a table with `tidegauge run`"


def resolve_dataset(
    repository: Repository, name: str | None, allowed: Sequence[str] | None = None
) -> str:
    """Return the named dataset, or the only dataset of the repository.

    Parameters
    ----------
    repository : Repository
    name : str or None
        Value of the argument; returned if given.
    allowed : sequence of str, optional
        Datasets to choose from; default: all.

    Raises
    ------
    CommandError
        If no name is given and there are several datasets, or none.
    """
    if name is not None:
        return name
    candidates = repository.datasets() if allowed is None else allowed
    if len(candidates) != 1:
        msg = (
            f"there are several datasets; name one: {', '.join(candidates)}"
            if candidates
            else NO_DATASETS_MESSAGE
        )
        raise CommandError(msg)
    return candidates[0]


@dataclass(frozen=True)
class RepositoryLocation:
    """Options of a command's repository.

    Attributes
    ----------
    db : str, optional
        URL of the database.
    artifacts : str, optional
        Folder for large states.
    """

    db: Db = None
    artifacts: Annotated[
        str | None,
        typer.Option(
            help="Folder for large states (default: TIDEGAUGE_ARTIFACTS, else tidegauge.toml, else next to the SQLite file)."
        ),
    ] = None

    @contextmanager
    def open(
        self,
        *,
        read_only: bool = False,
        dry_run: bool = False,
        create: bool = False,
        or_empty: bool = False,
    ) -> Iterator[Repository]:
        """Open the repository, and close it at the end.

        If the command writes but the user has read access only, the command fails before it does any work.

        Parameters
        ----------
        read_only, dry_run : bool
            Whether the command only reads.
        create : bool
            Whether to create a missing SQLite file. Commands that need a history do not create it, because a
            missing file is a mistyped name.
        or_empty : bool
            Whether to open an empty repository in memory if the SQLite file is missing.

        Raises
        ------
        DatabaseAccessError
            If the file is missing; the message suggests the nearest name.
        """
        from tidegauge.repository.repository import Repository
        from tidegauge.repository.store import engines
        from tidegauge.repository.store.config import settings

        read_only = read_only or dry_run
        db = self.db
        if not create:
            url = settings(self.db, None)[0]
            file = engines.sqlite_file_of(engines.parse_address(url))
            if or_empty and file is not None and not file.exists():
                db, read_only = "sqlite://", False
            else:
                engines.check_file_exists(file)
        with Repository(db, artifacts=self.artifacts, read_only=read_only) as repository:
            if not read_only:
                repository.database.check_writable()
            yield repository

    @property
    def option(self) -> str:
        """The ``--db`` option for commands in messages, without passwords.

        Examples
        --------
        >>> RepositoryLocation("sqlite:///orders.db").option, RepositoryLocation().option
        (' --db sqlite:///orders.db', '')
        """
        return "" if self.db is None else f" --db {shlex.quote(hide_secrets(self.db))}"


@dataclass(frozen=True)
class SessionOptions:
    """Options of a command's Spark session, without its warehouse.

    Attributes
    ----------
    spark_conf : list of str, optional
        Settings as ``KEY=VALUE``.
    packages : str, optional
        Maven coordinates, separated by commas.
    master : str, optional
        URL of the Spark master or Connect server.
    """

    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="KEY=VALUE",
            help="Spark setting, such as spark.driver.memory=4g; can be repeated (default: none).",
        ),
    ] = None
    packages: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP:ARTIFACT:VERSION,...",
            help="Maven packages for Spark, such as for Delta Lake or Iceberg (default: none).",
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of the Spark master or Connect server, such as local[4], spark://host:7077, yarn or sc://host"
            " (default: as Spark is configured, else on this machine).",
        ),
    ] = None

    def settings(self) -> dict[str, str]:
        """Return the Spark settings of the options.

        Raises
        ------
        CommandError
            If a setting or a package is invalid.

        Examples
        --------
        >>> SessionOptions(spark_conf=["spark.sql.ansi.enabled=false"], master="local[2]").settings()
        {'spark.sql.ansi.enabled': 'false', 'spark.master': 'local[2]'}
        """
        settings = parse_pairs("--conf", self.spark_conf or [])
        for key in settings:
            if not key.startswith("spark."):
                msg = f"Invalid setting {key!r} of --conf: names of Spark settings begin with 'spark.'"
                raise CommandError(msg)
        for package in (self.packages or "").split(",") if self.packages is not None else ():
            if package.count(":") != 2 or not all(package.split(":")):
                msg = f"Invalid package {package!r} of --packages: use GROUP:ARTIFACT:VERSION, separated by commas."
                raise CommandError(msg)
        if self.packages is not None:
            listed = (settings.get("spark.jars.packages"), self.packages)
            settings["spark.jars.packages"] = ",".join(filter(None, listed))
        if self.master is not None:
            settings["spark.master"] = self.master
        return settings


@dataclass(frozen=True)
class SparkOptions(SessionOptions):
    """Options of a command's Spark session.

    Attributes
    ----------
    warehouse : str, optional
        Folder of a local warehouse.
    """

    warehouse: Annotated[
        str | None,
        typer.Option(
            help="Folder of a local warehouse and its metastore (default: as Spark is configured)."
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether any option is given."""
        return self != SparkOptions()

    def start(self, defaults: Mapping[str, str] | None = None) -> SparkSession:
        """Return the active session, or start a session; the options override ``defaults``."""
        from tidegauge.spark.session import apply_settings, spark_session

        settings = {**(defaults or {}), **self.settings()}
        session = spark_session(self.warehouse, settings=settings)
        apply_settings(session, settings)
        return session

    def start_lazily(self, engine: MeasuringEngine) -> SparkSession:
        """Return a session that starts when it is needed; a started session if it may have special settings.

        Parameters
        ----------
        engine : MeasuringEngine
            With ``spark``, the session starts at once.
        """
        from tidegauge.spark.session import has_default_reader

        if engine is MeasuringEngine.AUTO and has_default_reader(self.settings()):
            return cast("SparkSession", LazySession(self.start))
        return self.start()
