"""Shared context for lowering a rule: options, names, and SQL fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegauge.analyzers.core.errors import DslError
from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.aliases import free
from tidegauge.griffin.dsl.nodes import Aliased


@dataclass(frozen=True)
class LoweringContext:
    """A rule to lower, with its options and scope.

    Attributes
    ----------
    config : RuleConfig
    scope : Scope
    by : tuple of str
        Group-by columns, kept by all steps.
    older : str or None
        The frame of previously measured rows, for distinctness.
    """

    config: RuleConfig
    scope: Scope
    by: tuple[str, ...] = ()
    older: str | None = None

    @property
    def source(self) -> str:
        """The measured frame, in its own spelling."""
        self.scope.schema(self.scope.source)
        return str(self.scope.frame(self.scope.source))

    @property
    def table(self) -> str:
        """The measured frame, quoted."""
        return quote(self.source)

    @property
    def group_columns(self) -> str:
        """The group-by columns, as the start of a SELECT list."""
        return "".join(f"{quote(name)}, " for name in self.by)

    def group_by_clause(self, *more: str) -> str:
        """Return the GROUP BY clause for the group-by columns and more."""
        names = [*map(quote, self.by), *more]
        return f" GROUP BY {', '.join(names)}" if names else ""

    def output_column(self, key: str) -> str:
        """Return the name of an output column, quoted: from the details, or its key."""
        name = self.option(key, key)
        if not isinstance(name, str) or not name:
            raise self.error(f"{key!r} is the name of a column, a text; not {name!r}")
        if name.casefold() in {one.casefold() for one in self.by}:
            raise self.error(
                f"the column {name!r} is what rows are grouped by; name {key!r} otherwise"
            )
        return quote(name)

    def option(self, key: str, default: Any = None) -> Any:
        """Return an option from the rule's details."""
        return self.config.details.get(key, default)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean option; the texts "true" and "false" count, too."""
        said = self.option(key, default)
        found = {"true": True, "false": False}.get(str(said).casefold())
        if found is None:
            raise self.error(f"{key!r} is true or false, not {said!r}")
        return found

    def text(self, key: str) -> str:
        """Return a text option, empty if it is not set."""
        said = self.option(key, "")
        if not isinstance(said, str):
            raise self.error(f"{key!r} is a text, not {said!r}")
        return said

    def step(self, name: str) -> str:
        """Return a step name that no frame read by the rule has."""
        read = (self.scope.source, self.scope.target, self.older)
        return free(name, {one.casefold() for one in read if one})

    def extra_column(self, name: object) -> str:
        """Return a quoted name for an extra column, different from all columns of the source."""
        columns = self.scope.schema(self.source).names
        return quote(free(str(name), {column.casefold() for column in columns}))

    def error(self, message: str, hint: str | None = None) -> DslError:
        """Return a `DslError` of the plan phase."""
        return DslError(
            message, text=self.scope.text, phase="plan", hint=hint,
            rule=self.scope.rule or self.config.name,
        )  # fmt: skip

    def items(self, items: Sequence[object], taken: Sequence[str] = ()) -> list[Aliased]:
        """Return bound items whose aliases avoid ``taken`` (quoted) and the group-by columns."""
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
    """Return SQL for a ratio; 1 if the whole is zero or null."""
    return f"coalesce(CAST(try_divide({part}, {whole}) AS DOUBLE), 1.0D)"
