"""Name scope of a rule, and errors with their position in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegauge.analyzers.core.errors import DslError, nearest
from tidegauge.analyzers.core.schema import Schema
from tidegauge.griffin.dsl.nodes import Node


@dataclass(frozen=True)
class Scope:
    """Tables and functions that a rule's names can refer to.

    Attributes
    ----------
    tables : mapping of str to Schema
        All available frames: sources first, then those of earlier steps.
    source : str
        The measured frame.
    target : str or None
        The frame it is compared with.
    functions : frozenset of str or None
        The session's functions in lower case; None to skip the check.
    text, rule : str
        The rule's text and name, for errors.

    Examples
    --------
    >>> Scope({"source": Schema.from_types({"id": "long"})}, "source").frame("SOURCE")
    'source'
    """

    tables: Mapping[str, Schema]
    source: str
    target: str | None = None
    functions: frozenset[str] | None = None
    text: str = ""
    rule: str | None = None

    def frame(self, name: str) -> str | None:
        """Return a frame's name in its own spelling, or None; letter case does not matter."""
        return next((one for one in self.tables if one.casefold() == name.casefold()), None)

    def schema(self, name: str) -> Schema:
        """Return a frame's schema.

        Raises
        ------
        DslError
            If there is no such frame; names the nearest one.
        """
        found = self.frame(name)
        if found is None:
            raise self.error(f"there is no source {name!r}", None, "bind", near(name, self.tables))
        return self.tables[found]

    def error(self, message: str, node: Node | None, phase: str, hint: str | None) -> DslError:
        """Return a `DslError` located at a node."""
        said: dict[str, Any] = {"text": self.text, "phase": phase, "hint": hint, "rule": self.rule}
        if node is None:
            return DslError(message, **said)
        span = node.span
        end = span.column + max(1, span.end - span.start)
        return DslError(message, line=span.line, column=span.column, end_column=end, **said)


def near(name: str, among: Iterable[str]) -> str | None:
    """Return a "did you mean" hint, or None."""
    found = nearest(name, among)
    return f"did you mean {found!r}?" if found else None
