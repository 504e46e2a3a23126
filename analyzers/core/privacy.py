"""Private columns, whose values are not stored in states, series, segments, samples or errors."""

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

_HASHED_KINDS = frozenset({"hll", "tuple"})
"""Kinds of sketches that hold hashes of values; all others hold values."""
_ALL_COLUMNS = re.compile(r"(?<!count)[(,]\s*(?:[\w`]+\.)?\*", re.IGNORECASE)
"""All columns, as in ``struct(*)``; not the rows of ``count(*)``."""
PARTITIONS, SEGMENTS = "partitions", "segments"
"""Kinds of names that contain values of columns."""
_ERROR_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\]|[\w.]+(?=: )")


@dataclass(frozen=True)
class Privacy:
    """Patterns and tags of private columns.

    Attributes
    ----------
    columns : tuple of str
        Patterns of column names, such as ``*email*``, ignoring case. A nested field is private if its
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
    >>> private.for_dataset("staff", "hr.people").covers("city")
    True
    """

    columns: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any column can be private."""
        return bool(self.columns or self.tables or self.tags)

    def for_dataset(self, *names: str | None, tags: Mapping[str, str] | None = None) -> Privacy:
        """Return the privacy of one dataset, by its names and tags."""
        is_private = any(_matches(name, self.tables) for name in names if name)
        is_private = is_private or _is_tagged(tags or {}, self.tags)
        return replace(self, columns=("*",) if is_private else self.columns, tables=())

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
        """Return the names of columns that are private or contain a private field."""
        private = self.columns_of(schema) if self else frozenset()
        if not private:
            return private
        return private | {
            str(field["name"]).casefold()
            for field in schema.struct["fields"]
            if any(str(inner["name"]).casefold() in private for _, inner in _fields(field["type"]))
        }

    def check(self, requests: Iterable[Request], schema: Schema) -> None:
        """Raise if the results of requests would hold values of private columns.

        Parameters
        ----------
        requests : iterable of Request
            The requests of an analyzer.
        schema : Schema
            The schema of the data.

        Raises
        ------
        PrivateColumnError
            If a result would hold such values.
        """
        private = self.columns_of(schema) if self else frozenset()
        holders = self.holders_of(schema)
        for request in requests if private else ():
            expressions_held: tuple[str, ...] = ()
            match request.instead if isinstance(request, WorkerRequest) else request:
                case Frequencies(expressions):
                    expressions_held = expressions
                case Sketch(kind, values) if kind not in _HASHED_KINDS:
                    expressions_held = (
                        without_filters(values),
                    )  # a filter's columns are read, but not held
            columns = private & set().union(*map(words_in, expressions_held))
            columns |= {name for sql in expressions_held for name in _columns_taken(sql, holders)}
            if columns:
                raise PrivateColumnError(min(columns))

    def refuse_names(
        self,
        columns: Iterable[str],
        kind: str,
        schema: Schema | None = None,
        time: TimeFormat | None = None,
    ) -> None:
        """Raise if names of partitions or segments would contain values of private columns.

        Parameters
        ----------
        columns : iterable of str
            The columns to partition or segment by.
        kind : str
            ``partitions`` or ``segments``.
        schema : Schema, optional
            Its metadata shows private columns.
        time : TimeFormat, optional
            The keys that hold the partition time (default: detected from their names). These keys are allowed
            if all columns of the table are private.

        Raises
        ------
        SuiteError
            If a column is private.
        """
        columns = tuple(columns) if self else ()
        allowed: set[str] = set()
        if self.covers_all and kind == PARTITIONS:
            time = time or recognise_time(columns)
            allowed = {key.casefold() for key in time.keys} if time else allowed
        for column in columns:
            if column.casefold() not in allowed and self.covers(column, schema):
                msg = (
                    f"{column!r} is a private column: the names of {kind} would contain its values"
                )
                if kind == PARTITIONS:
                    msg += "; partition by other columns (partition_by=[...]), or do not partition (partition_by=[])"
                raise SuiteError(msg)

    def without_values(self, error: MetricError) -> MetricError:
        """Return an error of the same kind without its message, which can quote values."""
        kind = _ERROR_CONDITION.match(str(error))
        label = kind[0] if kind else type(error).__name__
        return error.with_text(
            f"{label}: the message is left out, since it can quote values of private columns"
        )


PUBLIC = Privacy()
"""Nothing is private."""


def _columns_taken(sql: str, holders: Iterable[str]) -> Iterator[str]:
    """Yield the columns whose complete value an expression takes, not only a field."""
    stripped = without_literals(sql)
    if _ALL_COLUMNS.search(stripped):
        yield from holders
        return
    for name in holders:
        word = re.escape(name)
        pattern = rf"(?:`{word}`|(?<![\w.`]){word}(?![\w`]))(?!\s*\.)"
        if re.search(pattern, stripped, re.IGNORECASE):
            yield name


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def _is_tagged(tags: Mapping[str, Any], patterns: Iterable[str]) -> bool:
    for tag in patterns:
        key, equals, value = tag.partition("=")
        if key in tags:
            is_set = str(tags[key]).casefold() not in {"", "false", "no", "none", "0"}
            if str(tags[key]) == value if equals else is_set:
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
