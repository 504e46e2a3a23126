"""What names of a rule can mean, and errors that show where one stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analyzers.errors import DslError, nearest
from analyzers.griffin.nodes import Node
from analyzers.schema import Schema


@dataclass(frozen=True)
class Scope:
    """What names of a rule can mean.

    Attributes
    ----------
    tables : mapping of str to Schema
        All frames that there are: sources first, then those of earlier steps.
    source : str
        The frame that is measured.
    target : str or None
        What it is compared with.
    functions : frozenset of str or None
        Functions of the session in small letters; None where they are not checked.
    text, rule : str
        The rule and its name, for errors.

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
        """Return a frame's name as it is spelled, or None; letter case does not matter."""
        return next((one for one in self.tables if one.casefold() == name.casefold()), None)

    def schema(self, name: str) -> Schema:
        """Return a frame's schema.

        Raises
        ------
        DslError
            Naming the nearest frame.
        """
        found = self.frame(name)
        if found is None:
            raise self.error(f"there is no source {name!r}", None, "bind", near(name, self.tables))
        return self.tables[found]

    def error(self, message: str, node: Node | None, phase: str, hint: str | None) -> DslError:
        """Return an error that shows where a node stands."""
        said: dict[str, Any] = {"text": self.text, "phase": phase, "hint": hint, "rule": self.rule}
        if node is None:
            return DslError(message, **said)
        span = node.span
        end = span.column + max(1, span.end - span.start)
        return DslError(message, line=span.line, column=span.column, end_column=end, **said)


def near(name: str, among: Iterable[str]) -> str | None:
    """Return a hint at the nearest name."""
    found = nearest(name, among)
    return f"did you mean {found!r}?" if found else None
