"""What connectors, sinks and operations there are, by name: ours, those of other packages, and classes that a file names."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from analyzers.errors import GriffinConfigError, SetupError, describe, nearest
from analyzers.plugins import guard, load_plugins

_LONGEST = 100
"""Names above this are not searched for near ones, which takes long."""


def suggested(name: object, known: Iterable[str]) -> str:
    """Return the nearest of the names that there are, or all of them, as half a sentence.

    Examples
    --------
    >>> suggested("tabel.name", ["database", "table.name"])
    "did you mean 'table.name'?"
    """
    names = list(dict.fromkeys(known))
    close = nearest(name, names) if isinstance(name, str) and len(name) < _LONGEST else None
    return f"did you mean {close!r}?" if close else f"there are: {', '.join(names)}"


@dataclass
class Kinds:
    """Things by name, imported when they are asked for.

    Attributes
    ----------
    kind : str
        What they are, for messages.
    group : str
        The entry points under which packages name theirs.
    own : mapping of str to object
        Each thing, or where it is: ``module:name``.
    also : mapping of str to str
        Other spellings, in small letters.
    """

    kind: str
    group: str
    own: dict[str, Any]
    also: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        guard(self.own)

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (plugin.name for plugin in load_plugins(self.group) if not plugin.problem)

    def spelled(self, name: str) -> str | None:
        """Return the name that a spelling stands for, letter case aside; None if there is none.

        Examples
        --------
        >>> SINKS.spelled("ElasticSearch"), SINKS.spelled("Log"), SINKS.spelled("logs")
        ('elasticsearch', 'console', None)
        """
        folded = self.also.get(name.lower(), name.lower())
        if folded in self.own:
            return folded
        return next((known for known in self if known.lower() == folded), None)

    def unknown(self, name: str) -> str:
        """Return what to say of a name that is not there."""
        return f"unknown {self.kind} {name!r}; {suggested(name, [*self, *self.also])}"

    def load(self, name: str) -> Any:
        """Return a thing.

        Raises
        ------
        GriffinConfigError
            If there is none of this name.
        """
        known = self.spelled(name)
        if known is None:
            raise GriffinConfigError(self.unknown(name))
        if known not in self.own:
            return next(p.value for p in load_plugins(self.group) if p.name == known)
        found = self.own[known]
        return load_class(found) if isinstance(found, str) else found


def load_class(name: object) -> Any:
    """Return what ``module:name`` names.

    Raises
    ------
    GriffinConfigError
        If it is not written so, as classes of the JVM are not.
    SetupError
        If it cannot be imported.

    Examples
    --------
    >>> load_class("fractions:Fraction")
    <class 'fractions.Fraction'>
    >>> load_class("org.apache.griffin.MySink")
    Traceback (most recent call last):
        ...
    analyzers.errors.GriffinConfigError: 'org.apache.griffin.MySink' is no class of Python; write 'module:Class' (classes of the JVM are not run)
    """
    module, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not (colon and module and attribute.isidentifier()):
        msg = (
            f"{name!r} is no class of Python; write 'module:Class' (classes of the JVM are not run)"
        )
        raise GriffinConfigError(msg)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a stranger's module raises
        msg = f"cannot import {name!r}: {describe(error)}"
        raise SetupError(msg) from error


_CONNECTORS = "analyzers.griffin.connectors"
CONNECTORS = Kinds(
    "connector",
    "tidegauge.griffin.connectors",
    {
        "file": f"{_CONNECTORS}.files:FileConnector",
        "avro": f"{_CONNECTORS}.files:AvroConnector",
        "text-dir": f"{_CONNECTORS}.text_dir:TextDirConnector",
        "hive": f"{_CONNECTORS}.tables:HiveConnector",
        "jdbc": f"{_CONNECTORS}.tables:JdbcConnector",
        "mysql": f"{_CONNECTORS}.tables:MysqlConnector",
        "cassandra": f"{_CONNECTORS}.tables:CassandraConnector",
        "elasticsearch": f"{_CONNECTORS}.elastic:ElasticsearchConnector",
        "kafka": f"{_CONNECTORS}.kafka:KafkaConnector",
        "custom": f"{_CONNECTORS}.connector:custom",
    },
    {"textdir": "text-dir"},
)
_SINKS = "analyzers.griffin.sinks"
SINKS = Kinds(
    "sink",
    "tidegauge.griffin.sinks",
    {
        "console": f"{_SINKS}.console:ConsoleSink",
        "hdfs": f"{_SINKS}.folders:FolderSink",
        "elasticsearch": f"{_SINKS}.http:HttpSink",
        "mongo": f"{_SINKS}.mongo:MongoSink",
        "jdbc": f"{_SINKS}.database:DatabaseSink",
        "custom": f"{_SINKS}.sink:custom",
    },
    {"log": "console", "es": "elasticsearch", "http": "elasticsearch", "mongodb": "mongo"},
)
