"""Readers for ``env.json`` and ``dq.json`` in the spellings of all Griffin versions.

All errors of a file are reported at once, each with its JSON path. Old spellings are read with a
warning that names the new one. An unknown key is an error, except in free-form mappings: the
configuration of connectors and sinks, details, and Spark settings.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinDeprecationWarning
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.griffin.config import Env, Job
from tidegauge.griffin.reading.jobs import parse_env, parse_job, upgrade_legacy_job
from tidegauge.griffin.reading.keys import MappingReader, ReadLog

__all__ = ["read_env", "read_job"]

T = TypeVar("T")
_MAX_NAME_CHARS = 200
"""Characters of a file name in a message."""


def read_env(source: Mapping[str, Any] | str | bytes | Path) -> Env:
    """Read an ``env.json``.

    Parameters
    ----------
    source : mapping, str, bytes or Path
        Content as a mapping, the path of a file, or JSON text, which begins with a brace or has quotes;
        bytes are JSON in UTF-8.

    Raises
    ------
    GriffinConfigError
        With one line per error.

    Warns
    -----
    GriffinDeprecationWarning
        For each old spelling.

    Examples
    --------
    >>> env = read_env({"sinks": [{"name": "out", "type": "Log"}], "spark": {"process.interval": "10s"}})
    >>> env.sinks[0].type, env.process_interval
    ('console', 10000)
    """
    return _read(source, "env.json", parse_env)


def read_job(source: Mapping[str, Any] | str | bytes | Path) -> Job:
    """Read a ``dq.json``.

    Parameters
    ----------
    source : mapping, str, bytes or Path
        Content as a mapping, the path of a file, or JSON text, which begins with a brace or has quotes;
        bytes are JSON in UTF-8.

    Raises
    ------
    GriffinConfigError
        With one line per error.

    Warns
    -----
    GriffinDeprecationWarning
        For each old spelling.

    Examples
    --------
    >>> users = {"type": "hive", "config": {"table.name": "users"}}
    >>> rule = {"dq.type": "Completeness", "rule": "id, name", "out.dataframe.name": "whole"}
    >>> job = read_job({
    ...     "name": "nightly",
    ...     "data.sources": [{"name": "source", "connector": users}],
    ...     "evaluate.rule": {"rules": [rule]},
    ... })
    >>> job.rules[0].dq_type, job.rules[0].name
    ('completeness', 'whole')
    >>> read_job({"name": "nightly", "process.typ": "batch"})
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.GriffinConfigError: dq.json is invalid:
      $: 'data.sources' is missing or empty
      $: 'evaluate.rule' and 'measures' are both missing
      $: unknown key 'process.typ'; did you mean 'process.type'?
    """
    return _read(
        source,
        "dq.json",
        lambda keys: parse_job(
            MappingReader(upgrade_legacy_job(keys.value, keys.log), "$", keys.log)
        ),
    )


def _read(source: object, kind: str, reader: Callable[[MappingReader], T]) -> T:
    log = ReadLog()
    name, value = _loaded(source, kind)
    if isinstance(value, list) and len(value) > 1:
        msg = f"{name} is a list of {len(value)} items; pass one of them"
        raise GriffinConfigError(msg)
    value = value[0] if isinstance(value, list) and value else value  # as the service lists them
    read = reader(MappingReader(value, "$", log))
    if log.problems:
        problems = "\n".join(f"  {problem}" for problem in dict.fromkeys(log.problems))
        msg = f"{name} is invalid:\n{problems}"
        raise GriffinConfigError(msg)
    for old in dict.fromkeys(log.old):
        warnings.warn(f"{name}: {old}", GriffinDeprecationWarning, stacklevel=3)
    return read


def _loaded(source: object, kind: str) -> tuple[str, object]:
    """Return the name of a file for messages, and its content.

    JSON text is never part of a message, as it may hold passwords.
    """
    if not isinstance(source, str | Path | bytes):
        return kind, source
    name = kind
    content = (
        source.decode(errors="replace") if isinstance(source, bytes) else str(source)
    ).lstrip("\ufeff")
    if not content.strip():
        msg = f"cannot read {kind}: it is empty"
        raise GriffinConfigError(msg)
    try:
        if not isinstance(source, bytes) and (isinstance(source, Path) or not _is_json(content)):
            public_name = hide_secrets(content)
            name = (
                public_name
                if len(public_name) <= _MAX_NAME_CHARS
                else f"{public_name[:_MAX_NAME_CHARS]}…"
            )
            content = Path(source).read_text(encoding="utf-8-sig")
        return name, json.loads(content, object_pairs_hook=_unique_keys, parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        msg = f"cannot read {name}: {reason or error}"
        raise GriffinConfigError(msg) from error


def _is_json(text: str) -> bool:
    """Return whether a string is JSON, valid or not, and not the name of a file."""
    return text.lstrip()[0] in "{[" or bool(set('\n"') & set(text))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping; Griffin's service writes some keys twice, with one value."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping and mapping[key] != value:
            msg = f"{key!r} occurs twice with different values"
            raise ValueError(msg)
        mapping[key] = value
    return mapping


def _no_number(text: str) -> float:
    msg = f"{text} is not a JSON number"
    raise ValueError(msg)
