"""Where results go, beside the repository: sinks by the name of their type, more under ``tidegauge.griffin.sinks``.

An entry point of this group names a class like `analyzers.griffin.sinks.sink.Sink`: made of its name and configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzers.errors import GriffinConfigError
from analyzers.griffin.config import Env, SinkConfig
from analyzers.griffin.kinds import SINKS, suggested
from analyzers.griffin.sinks.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sink", "open_sinks"]


def open_sinks(
    env: Env, names: Sequence[str] | None = None, spark: SparkSession | None = None
) -> dict[str, Sink]:
    """Return sinks of an environment that can write, by name.

    Parameters
    ----------
    env : Env
    names : sequence of str, optional
        Those that a job names, letter case aside; None, where it says nothing of sinks, for all.
    spark : SparkSession, optional
        By which those that need it write.

    Raises
    ------
    GriffinConfigError
        If the environment has no sink of a name, a key of one is missing, or says what cannot be.
    SetupError
        If a package is missing, naming it.

    Examples
    --------
    >>> env = Env(sinks=(SinkConfig("Out", "console"), SinkConfig("files", "hdfs", {"path": "/tmp"})))
    >>> list(open_sinks(env, ["out"]))
    ['Out']
    >>> open_sinks(env, ["fils"])
    Traceback (most recent call last):
        ...
    analyzers.errors.GriffinConfigError: the environment has no sink 'fils'; did you mean 'files'?
    """
    opened = {}
    for config in _named(env, names):
        sink: Sink = SINKS.load(config.type)(config.name, config.config)
        sink.spark = spark
        sink.check()
        opened[config.name] = sink
    return opened


def _named(env: Env, names: Sequence[str] | None) -> list[SinkConfig]:
    if names is None:
        return list(env.sinks)
    there = {sink.name.casefold(): sink for sink in env.sinks}
    for name in names:
        if name.casefold() not in there:
            hint = suggested(name, [sink.name for sink in env.sinks]) if there else "it has none"
            msg = f"the environment has no sink {name!r}; {hint}"
            raise GriffinConfigError(msg)
    return [there[name] for name in dict.fromkeys(name.casefold() for name in names)]
