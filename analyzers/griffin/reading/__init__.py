"""Reading ``env.json`` and ``dq.json`` in all spellings that Griffin has had.

All that is wrong with a file is said at once, each with its JSON path. Old spellings are read with a warning
that names the new one. A key that nobody knows is an error, but for places where anything may stand: the
configuration of connectors and sinks, details, and settings of Spark.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from analyzers.errors import GriffinConfigError, GriffinDeprecationWarning
from analyzers.griffin.config import Env, Job
from analyzers.griffin.reading.environment import env_of
from analyzers.griffin.reading.first import modern
from analyzers.griffin.reading.jobs import job_of
from analyzers.griffin.reading.keys import Keys, Log, milliseconds

__all__ = ["milliseconds", "read_env", "read_job"]

T = TypeVar("T")


def read_env(what: Mapping[str, Any] | str | Path) -> Env:
    """Read an ``env.json``.

    Parameters
    ----------
    what : mapping, str or Path
        What it says, as a mapping, as the path of a file, or as JSON text, which begins with a brace.

    Raises
    ------
    GriffinConfigError
        With one line for each thing that is wrong.

    Warns
    -----
    GriffinDeprecationWarning
        Of each old spelling.

    Examples
    --------
    >>> env = read_env({"sinks": [{"name": "out", "type": "Log"}], "spark": {"process.interval": "10s"}})
    >>> env.sinks[0].type, env.process_interval
    ('console', 10000)
    """
    return _read(what, "env.json", env_of)


def read_job(what: Mapping[str, Any] | str | Path) -> Job:
    """Read a ``dq.json``.

    Parameters
    ----------
    what : mapping, str or Path
        What it says, as a mapping, as the path of a file, or as JSON text, which begins with a brace.

    Raises
    ------
    GriffinConfigError
        With one line for each thing that is wrong.

    Warns
    -----
    GriffinDeprecationWarning
        Of each old spelling.

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
    analyzers.errors.GriffinConfigError: dq.json cannot be:
      $: there are no 'data.sources'
      $: there are neither 'evaluate.rule' nor 'measures'
      $: unknown key 'process.typ'; did you mean 'process.type'?
    """
    return _read(
        what, "dq.json", lambda keys: job_of(Keys(modern(keys.value, keys.log), "$", keys.log))
    )


def _read(what: object, kind: str, reader: Callable[[Keys], T]) -> T:
    log = Log()
    name, value = _loaded(what, kind)
    read = reader(Keys(value, "$", log))
    if log.problems:
        told = "\n".join(f"  {problem}" for problem in dict.fromkeys(log.problems))
        msg = f"{name} cannot be:\n{told}"
        raise GriffinConfigError(msg)
    for old in dict.fromkeys(log.old):
        warnings.warn(f"{name}: {old}", GriffinDeprecationWarning, stacklevel=3)
    return read


def _loaded(what: object, kind: str) -> tuple[str, object]:
    """Return what a file is called in messages, and what it says."""
    if not isinstance(what, str | Path):
        return kind, what
    name, text = kind, str(what)
    try:
        if isinstance(what, Path) or not what.lstrip().startswith("{"):
            name = str(what)
            text = Path(what).read_text(encoding="utf-8-sig")
        return name, json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        msg = f"cannot read {name}: {error}"
        raise GriffinConfigError(msg) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            msg = f"{key!r} stands there twice"
            raise ValueError(msg)
        found[key] = value
    return found


def _no_number(text: str) -> float:
    msg = f"{text} is no number of JSON"
    raise ValueError(msg)
