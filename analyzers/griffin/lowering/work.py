"""What all ways to lower a rule share: the rule, its options, names, and pieces of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analyzers.errors import DslError
from analyzers.griffin.aliases import free
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.nodes import Aliased
from analyzers.griffin.plan import Table
from analyzers.griffin.scope import Scope
from analyzers.sql import quote


@dataclass(frozen=True)
class Work:
    """A rule to be lowered.

    Attributes
    ----------
    config : RuleConfig
    scope : Scope
    by : tuple of str
        Columns by which everything is grouped, and which all steps keep.
    older : str or None
        The frame of rows that were measured before, for distinctness.
    """

    config: RuleConfig
    scope: Scope
    by: tuple[str, ...] = ()
    older: str | None = None

    @property
    def source(self) -> str:
        """The frame that is measured, as it is spelled."""
        self.scope.schema(self.scope.source)
        return str(self.scope.frame(self.scope.source))

    @property
    def table(self) -> str:
        """The frame that is measured, quoted."""
        return quote(self.source)

    @property
    def lead(self) -> str:
        """The columns by which is grouped, before others of a SELECT."""
        return "".join(f"{quote(name)}, " for name in self.by)

    def grouped(self, *more: str) -> str:
        """Return the GROUP BY clause of the columns by which is grouped, and more."""
        names = [*map(quote, self.by), *more]
        return f" GROUP BY {', '.join(names)}" if names else ""

    def named(self, key: str) -> str:
        """Return what an output column is called, quoted: its key, or what the details say."""
        name = self.option(key, key)
        if not isinstance(name, str) or not name:
            raise self.error(f"{key!r} is the name of a column, a text; not {name!r}")
        if name.casefold() in {one.casefold() for one in self.by}:
            raise self.error(
                f"the column {name!r} is what rows are grouped by; name {key!r} otherwise"
            )
        return quote(name)

    def option(self, key: str, default: Any = None) -> Any:
        """Return what the rule's details say."""
        return self.config.details.get(key, default)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value of the details; texts that say one count."""
        said = self.option(key, default)
        found = {"true": True, "false": False}.get(str(said).casefold())
        if found is None:
            raise self.error(f"{key!r} is true or false, not {said!r}")
        return found

    def text(self, key: str) -> str:
        """Return a text of the details, empty where there is none."""
        said = self.option(key, "")
        if not isinstance(said, str):
            raise self.error(f"{key!r} is a text, not {said!r}")
        return said

    def step(self, name: str) -> str:
        """Return a name for a step that no frame has which the rule reads."""
        read = (self.scope.source, self.scope.target, self.older)
        return free(name, {one.casefold() for one in read if one})

    def added(self, name: object) -> str:
        """Return a name, quoted, for a column beside all those of the source."""
        columns = self.scope.schema(self.source).names
        return quote(free(str(name), {column.casefold() for column in columns}))

    def metric(self, step: str) -> Table:
        """Return the table of the rule's metric."""
        output = self.config.output("metric")
        name = (output.name if output else None) or self.config.name
        return Table(step, (output.flatten if output else None) or "default", name)

    def error(self, message: str, hint: str | None = None) -> DslError:
        """Return an error of the plan."""
        return DslError(
            message, text=self.scope.text, phase="plan", hint=hint,
            rule=self.scope.rule or self.config.name,
        )  # fmt: skip

    def items(self, items: Sequence[object], taken: Sequence[str] = ()) -> list[Aliased]:
        """Return bound items whose aliases are none of ``taken`` (quoted) and not grouped by."""
        used = {name.casefold() for name in self.by}
        used |= {name[1:-1].replace("``", "`").casefold() for name in taken}
        found = []
        for item in items:
            assert isinstance(item, Aliased)
            alias = free(item.alias, used)
            used.add(alias.casefold())
            found.append(Aliased(item.of, alias, span=item.span))
        return found


def fraction(part: str, whole: str) -> str:
    """Return SQL for a share; of nothing it is 1."""
    return f"coalesce(CAST(try_divide({part}, {whole}) AS DOUBLE), 1.0D)"
