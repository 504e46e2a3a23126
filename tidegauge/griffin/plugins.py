"""Registry of connectors, sinks and operations: built-in, from entry points, or by class name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegauge.analyzers.core.errors import GriffinConfigError, SetupError, describe, nearest
from tidegauge.analyzers.core.formatting import middle_cut
from tidegauge.analyzers.core.registry import guard, load_plugins

_MAX_SUGGESTED_CHARS = 100
"""Length from which names get no suggestion, as searching for one takes long."""


def suggested(name: object, candidates: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest known name, or all of them.

    Examples
    --------
    >>> suggested("tabel.name", ["database", "table.name"])
    "did you mean 'table.name'?"
    """
    names = list(dict.fromkeys(candidates))
    close = (
        nearest(name, names) if isinstance(name, str) and len(name) < _MAX_SUGGESTED_CHARS else None
    )
    return f"did you mean {close!r}?" if close else f"there are: {', '.join(names)}"


@dataclass
class PluginRegistry:
    """Registry of objects by name, imported on demand.

    Attributes
    ----------
    kind : str
        Kind of the objects, for messages.
    group : str
        Entry point group of other packages' objects.
    entries : mapping of str to object
        Built-in and registered objects, or their location ``module:name``.
    aliases : mapping of str to str
        Aliases, in lower case.
    """

    kind: str
    group: str
    entries: dict[str, Any]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        guard(self.entries)

    def __iter__(self) -> Iterator[str]:
        yield from self.entries
        yield from (plugin.name for plugin in load_plugins(self.group) if not plugin.problem)

    def spelled(self, name: str) -> str | None:
        """Return the registered name for a case-insensitive name or alias, or None.

        Examples
        --------
        >>> SINK_REGISTRY.spelled("ElasticSearch"), SINK_REGISTRY.spelled("Log"), SINK_REGISTRY.spelled("logs")
        ('elasticsearch', 'console', None)
        """
        folded = self.aliases.get(name.lower(), name.lower())
        if folded in self.entries:
            return folded
        return next((registered for registered in self if registered.lower() == folded), None)

    def unknown(self, name: str) -> str:
        """Return the error message for an unknown name."""
        return f"unknown {self.kind} {middle_cut(repr(name), 200)}; {suggested(name, [*self, *self.aliases])}"

    def load(self, name: str) -> Any:
        """Return an object by name, importing it if necessary.

        Raises
        ------
        GriffinConfigError
            If the name is unknown.
        """
        spelled = self.spelled(name)
        if spelled is None:
            raise GriffinConfigError(self.unknown(name))
        if spelled not in self.entries:
            return next(p.value for p in load_plugins(self.group) if p.name == spelled)
        target = self.entries[spelled]
        return load_class(target) if isinstance(target, str) else target


def load_class(name: object) -> Any:
    """Import the object at ``module:name``.

    Raises
    ------
    GriffinConfigError
        If the name is not of this form; JVM classes are not.
    SetupError
        If the import fails.

    Examples
    --------
    >>> load_class("fractions:Fraction")
    <class 'fractions.Fraction'>
    >>> load_class("org.apache.griffin.MySink")
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.GriffinConfigError: 'org.apache.griffin.MySink' is not a Python class; write 'module:Class' (classes of the JVM are not run)
    """
    module, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not (colon and module and attribute.isidentifier()):
        msg = (
            f"{name!r} is not a Python class; write 'module:Class' (classes of the JVM are not run)"
        )
        raise GriffinConfigError(msg)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # third-party code may raise anything
        raise SetupError(f"cannot import {name!r}: {describe(error)}") from error


_CONNECTORS_PACKAGE = "tidegauge.griffin.connectors"
CONNECTOR_REGISTRY = PluginRegistry(
    "connector",
    "tidegauge.griffin.connectors",
    {
        "file": f"{_CONNECTORS_PACKAGE}.files:FileConnector",
        "avro": f"{_CONNECTORS_PACKAGE}.files:AvroConnector",
        "text-dir": f"{_CONNECTORS_PACKAGE}.files:TextDirConnector",
        "hive": f"{_CONNECTORS_PACKAGE}.databases:HiveConnector",
        "jdbc": f"{_CONNECTORS_PACKAGE}.databases:JdbcConnector",
        "mysql": f"{_CONNECTORS_PACKAGE}.databases:MysqlConnector",
        "cassandra": f"{_CONNECTORS_PACKAGE}.databases:CassandraConnector",
        "elasticsearch": f"{_CONNECTORS_PACKAGE}.databases:ElasticsearchConnector",
        "kafka": f"{_CONNECTORS_PACKAGE}.databases:KafkaConnector",
        "custom": f"{_CONNECTORS_PACKAGE}:custom",
    },
    {"textdir": "text-dir"},
)
_SINKS_PACKAGE = "tidegauge.griffin.sinks"
SINK_REGISTRY = PluginRegistry(
    "sink",
    "tidegauge.griffin.sinks",
    {
        "console": f"{_SINKS_PACKAGE}:ConsoleSink",
        "hdfs": f"{_SINKS_PACKAGE}:FolderSink",
        "elasticsearch": f"{_SINKS_PACKAGE}:HttpSink",
        "mongo": f"{_SINKS_PACKAGE}:MongoSink",
        "jdbc": f"{_SINKS_PACKAGE}:DatabaseSink",
        "custom": f"{_SINKS_PACKAGE}:custom",
    },
    {"log": "console", "es": "elasticsearch", "http": "elasticsearch", "mongodb": "mongo"},
)
