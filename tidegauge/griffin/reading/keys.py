"""Validating reader for JSON mappings: collects errors, and reports unknown keys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidegauge.analyzers.core.formatting import middle_cut
from tidegauge.griffin.dsl.errors import shorten
from tidegauge.griffin.dsl.grammar import milliseconds
from tidegauge.griffin.plugins import suggested

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


def step(path: str, key: object) -> str:
    """Return the JSON path of a key or index below a path.

    Examples
    --------
    >>> step("$", "name"), step("$", "data.sources"), step("$", 0)
    ('$.name', "$['data.sources']", '$[0]')
    """
    if isinstance(key, str) and _PLAIN_NAME.fullmatch(key):
        return f"{path}.{key}"
    return f"{path}[{key!r}]"


def spellings(*names: str, **synonyms: str) -> dict[str, str]:
    """Return canonical names by their spelling in lower case, without hyphens and underscores.

    Examples
    --------
    >>> spellings("record", "dsc-update", records="record")
    {'record': 'record', 'dscupdate': 'dsc-update', 'records': 'record'}
    """
    return {re.sub("[-_]", "", name).lower(): name for name in names} | synonyms


@dataclass
class ReadLog:
    """Messages collected while reading a file.

    Attributes
    ----------
    problems, old, notices : list of str
        Errors; old spellings; differences from Griffin.
    """

    problems: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def problem(self, path: str, message: str) -> None:
        """Record an error at a path."""
        self.problems.append(middle_cut(f"{path}: {message}", 1000))

    def renamed(self, path: str, old: str, new: str) -> None:
        """Record an old spelling and its new one."""
        self.old.append(f"{path}: {old!r} is an old spelling; write {new!r}")

    def one_of(self, path: str, kind: str, name: object, names: Mapping[str, str]) -> str:
        """Return the canonical name for a spelling; letter case and hyphens do not matter.

        Parameters
        ----------
        path, kind : str
            JSON path and description, for messages.
        name : object
            The given value.
        names : mapping of str to str
            Canonical names by spelling, in lower case and without hyphens.
        """
        canonical = names.get(name.replace("-", "").lower()) if isinstance(name, str) else None
        if canonical is None:
            self.problem(path, f"unknown {kind} {shorten(name)}; {suggested(name, names.values())}")
        return canonical or next(iter(names.values()))


class MappingReader:
    """Reader for a JSON mapping at a path.

    A value of the wrong type is an error and read as missing; null is read as missing, without an
    error.

    Parameters
    ----------
    value : object
        The expected mapping.
    path : str
        Its JSON path.
    log : ReadLog
        Collects the messages.
    """

    def __init__(self, value: object, path: str, log: ReadLog) -> None:
        self.path, self.log = path, log
        if not isinstance(value, Mapping):
            log.problem(path, f"must be a mapping, not {_value_kind(value)}")
            value = {}
        self.value: Mapping[Any, Any] = value
        self._known: dict[str, None] = {}

    def at(self, key: str) -> str:
        """Return the path of a key."""
        return step(self.path, key)

    def problem(self, message: str, key: str | None = None) -> None:
        """Record an error for a key, or for the mapping."""
        self.log.problem(self.path if key is None else self.at(key), message)

    def take(self, key: str, *old: str) -> tuple[str, Any]:
        """Return the key or old spelling that is present, and its value."""
        self._known.update(dict.fromkeys([key, *old]))
        present = [name for name in (key, *old) if self.value.get(name) is not None]
        if len(present) > 1:
            self.problem(f"{present[0]!r} and {present[1]!r} mean the same; write only {key!r}")
        if not present:
            return key, None
        if present[0] != key:
            self.log.renamed(self.path, present[0], key)
        return present[0], self.value[present[0]]

    def _wrong(self, key: str, value: object, expected: str) -> None:
        self.problem(f"must be {expected}, not {_value_kind(value)}", key)

    def text(self, key: str, *old: str, required: bool = False) -> str | None:
        """Return a non-blank string, or None."""
        name, value = self.take(key, *old)
        if value is None:
            if required:
                self.problem(f"{key!r} is missing")
        elif not isinstance(value, str):
            self._wrong(name, value, "text")
        elif not value.strip():
            self.problem("is empty", name)
        else:
            return value
        return None

    def truth(self, key: str, *, default: bool) -> bool:
        """Return a boolean, which may be quoted."""
        name, value = self.take(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        spelled = {"true": True, "false": False}.get(str(value).lower())
        if spelled is None:
            self._wrong(name, value, "true or false")
        return default if spelled is None else spelled

    def time(self, key: str, default: int) -> int:
        """Return a duration in milliseconds."""
        name, value = self.take(key)
        return default if value is None else self.as_time(name, value, default)

    def as_time(self, key: str, value: object, default: int) -> int:
        """Return a given value of a key as a duration in milliseconds."""
        if not isinstance(value, str | int) or isinstance(value, bool):
            self._wrong(key, value, "a time, as in '10s'")
            return default
        try:
            return milliseconds(value)
        except ValueError as error:
            self.problem(str(error), key)
            return default

    def items(self, key: str, *old: str) -> list[tuple[str, Any]]:
        """Return the items of a list with their paths."""
        name, value = self.take(key, *old)
        if value is None:
            return []
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._wrong(name, value, "a list")
            return []
        return [(step(self.at(name), number), item) for number, item in enumerate(value)]

    def texts(self, key: str) -> list[str]:
        """Return a list of strings."""
        strings = []
        for path, item in self.items(key):
            if isinstance(item, str) and item.strip():
                strings.append(item)
            else:
                self.log.problem(path, f"must be text, not {_value_kind(item)}")
        return strings

    def each(self, key: str, *old: str) -> list[MappingReader]:
        """Return the items of a list of mappings as readers."""
        return [MappingReader(item, path, self.log) for path, item in self.items(key, *old)]

    def inner(self, key: str, *old: str) -> MappingReader | None:
        """Return a reader for a nested mapping, or None."""
        name, value = self.take(key, *old)
        return None if value is None else MappingReader(value, self.at(name), self.log)

    def free(self, key: str) -> dict[str, Any]:
        """Return a free-form mapping, without null values.

        Griffin's first service stored it as a JSON string, which is also read.
        """
        value = self.take(key)[1]
        if isinstance(value, str):
            with suppress(ValueError):  # other text is reported below
                value = json.loads(value)
        mapping = {} if value is None else MappingReader(value, self.at(key), self.log).value
        return {str(name): value for name, value in mapping.items() if value is not None}

    def ignored(self, *keys: str) -> list[str]:
        """Mark keys as known but unused, and return those that are present."""
        self._known.update(dict.fromkeys(keys))
        return [key for key in keys if self.value.get(key) is not None]

    def done(self) -> None:
        """Record an error for each key that was not read; null is read as missing."""
        for key, value in self.value.items():
            if key not in self._known and value is not None:
                self.problem(f"unknown key {key!r}; {suggested(key, self._known)}")


def _value_kind(value: object) -> str:
    kinds = {
        type(None): "null",
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    return kinds.get(type(value), type(value).__name__)
