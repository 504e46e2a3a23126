"""Private columns: no values of them are stored in states, series, segments, samples or errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from tidegauge.analyzers.core.analyzer import Frequencies, Request, Sketch, WorkerRequest
from tidegauge.analyzers.core.errors import MetricError, PrivateColumnError, SuiteError
from tidegauge.analyzers.core.partitions import TimeFormat, recognise_time
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import parts, without_filters, without_literals, words_in

_HASHED = frozenset({"hll", "tuple"})
"""Kinds of sketches that hold hashes of values; all others hold values."""
_EVERY = re.compile(r"(?<!count)[(,]\s*(?:[\w`]+\.)?\*", re.IGNORECASE)
"""All columns, as in ``struct(*)``; not the rows of ``count(*)``."""
PARTITIONS, SEGMENTS = "partitions", "segments"
"""Kinds of names that are made of values of columns."""
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\]|[\w.]+(?=: )")


@dataclass(frozen=True)
class Privacy:
    """Patterns and tags of private columns.

    Attributes
    ----------
    columns : tuple of str
        Patterns of column names, such as ``*email*``, in any case. A nested field is private if its
        path or any name in it matches: ``address`` covers ``address.zip``.
    tables : tuple of str
        Patterns of names of tables, folders and datasets; all of their columns are private.
    tags : tuple of str
        ``pii`` or ``pii=yes``: datasets with such a tag, and columns with such an entry in the
        metadata of Spark's schema, are private.

    Examples
    --------
    >>> private = Privacy(columns=("*email*",), tables=("hr.*",))
    >>> private.covers("User_Email"), private.covers("city")
    (True, False)
    >>> private.of("staff", "hr.people").covers("city")
    True
    """

    columns: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any column can be private."""
        return bool(self.columns or self.tables or self.tags)

    def of(self, *names: str | None, tags: Mapping[str, str] | None = None) -> Privacy:
        """Return the privacy of one dataset, by its names and tags."""
        whole = any(_matches(name, self.tables) for name in names if name)
        whole = whole or _is_tagged(tags or {}, self.tags)
        return replace(self, columns=("*",) if whole else self.columns, tables=())

    @property
    def covers_all(self) -> bool:
        """True if all columns are private."""
        return "*" in self.columns

    def covers(self, column: str, schema: Schema | None = None) -> bool:
        """Return whether a column or nested path is private, by its name or its schema's metadata."""
        steps = [str(step) for step in parts(column)]
        paths = {*steps, *(".".join(steps[: n + 1]) for n in range(len(steps)))}
        if any(_matches(path, self.columns) for path in paths):
            return True
        return schema is not None and not self.columns_of(schema).isdisjoint(
            step.casefold() for step in steps
        )

    def columns_of(self, schema: Schema) -> frozenset[str]:
        """Return the names of the private columns and struct fields of a schema, in lower case."""
        return frozenset(
            str(field["name"]).casefold()
            for path, field in _fields(schema.struct)
            if _matches(path, self.columns)
            or _matches(str(field["name"]), self.columns)
            or _is_tagged(field.get("metadata") or {}, self.tags)
        )

    def holders_of(self, schema: Schema) -> frozenset[str]:
        """Return the names of columns whose values hold private ones: private, or with a private field inside."""
        private = self.columns_of(schema) if self else frozenset()
        if not private:
            return private
        return private | {
            str(field["name"]).casefold()
            for field in schema.struct["fields"]
            if any(str(inner["name"]).casefold() in private for _, inner in _fields(field["type"]))
        }

    def check(self, requests: Iterable[Request], schema: Schema) -> None:
        """Refuse requests whose answers hold values of private columns.

        Raises
        ------
        PrivateColumnError
        """
        private = self.columns_of(schema) if self else frozenset()
        holders = self.holders_of(schema)
        for request in requests if private else ():
            texts: tuple[str, ...] = ()
            match request.instead if isinstance(request, WorkerRequest) else request:
                case Frequencies(expressions):
                    texts = expressions
                case Sketch(kind, values) if kind not in _HASHED:
                    texts = (without_filters(values),)  # a filter's columns are read, but not held
            found = private & set().union(*map(words_in, texts))
            found |= {name for text in texts for name in _held_whole(text, holders)}
            if found:
                raise PrivateColumnError(min(found))

    def refuse_names(
        self,
        columns: Iterable[str],
        what: str,
        schema: Schema | None = None,
        time: TimeFormat | None = None,
    ) -> None:
        """Refuse to name partitions or segments by the values of private columns.

        Parameters
        ----------
        columns : iterable of str
        what : str
            What would be named by them: ``partitions``, ``segments``.
        schema : Schema, optional
            Tells the columns that are private by their metadata.
        time : TimeFormat, optional
            Tells the keys that hold the time of a partition; detected from their names by default. They are
            allowed if all columns of the table are private.

        Raises
        ------
        SuiteError
        """
        columns = tuple(columns) if self else ()
        allowed: set[str] = set()
        if self.covers_all and what == PARTITIONS:
            time = time or recognise_time(columns)
            allowed = {key.casefold() for key in time.keys} if time else allowed
        for column in columns:
            if column.casefold() not in allowed and self.covers(column, schema):
                msg = f"{column!r} is a private column: {what} by it would be named by its values"
                if what == PARTITIONS:
                    msg += "; choose other keys (partition_by=[...]), or none (partition_by=[])"
                raise SuiteError(msg)

    def without_values(self, error: MetricError) -> MetricError:
        """Return an error of the data without its message, which quotes values; its kind stays."""
        kind = _CONDITION.match(str(error))
        said = kind[0] if kind else type(error).__name__
        return error.with_text(
            f"{said}: the message is left out, as it may quote values of private columns"
        )


PUBLIC = Privacy()
"""Nothing is private."""


def _held_whole(text: str, holders: Iterable[str]) -> Iterator[str]:
    """Yield the columns whose whole value an expression takes, not a field of it; by ``*`` all."""
    without = without_literals(text)
    if _EVERY.search(without):
        yield from holders
        return
    for name in holders:
        word = re.escape(name)
        named = rf"(?:`{word}`|(?<![\w.`]){word}(?![\w`]))(?!\s*\.)"
        if re.search(named, without, re.IGNORECASE):
            yield name


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def _is_tagged(found: Mapping[str, Any], wanted: Iterable[str]) -> bool:
    for tag in wanted:
        key, equals, value = tag.partition("=")
        if key in found:
            is_set = str(found[key]).casefold() not in {"", "false", "no", "none", "0"}
            if str(found[key]) == value if equals else is_set:
                return True
    return False


def _fields(kind: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the JSON form of every field of a type, at any depth."""
    if not isinstance(kind, Mapping):
        return
    for field in kind.get("fields", ()):
        inner = f"{path}.{field['name']}" if path else str(field["name"])
        yield inner, field
        yield from _fields(field["type"], inner)
    for part in ("elementType", "keyType", "valueType"):
        yield from _fields(kind.get(part), path)
