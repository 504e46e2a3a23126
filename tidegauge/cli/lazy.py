"""Groups whose commands are imported when they run; ``--help`` needs only their names and summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


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
        """Print the help if there are no arguments, and exit with 1: nothing was done."""
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
