"""Sinks, which receive results, by type name.

The entry point group ``tidegauge.griffin.sinks`` adds more; each entry point is a class like
`tidegauge.griffin.sinks.base.Sink`, called with its name and configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import GriffinConfigError
from tidegauge.griffin.config import Env, SinkConfig
from tidegauge.griffin.plugins import SINK_REGISTRY, suggested
from tidegauge.griffin.sinks.base import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sink", "open_sinks"]


def open_sinks(
    env: Env, names: Sequence[str] | None = None, spark: SparkSession | None = None
) -> dict[str, Sink]:
    """Return validated sinks of an environment by name.

    Parameters
    ----------
    env : Env
        The environment that configures the sinks.
    names : sequence of str, optional
        Case-insensitive names of the job's sinks; None for all, if the job configures none.
    spark : SparkSession, optional
        Session for sinks that write with Spark.

    Raises
    ------
    GriffinConfigError
        If the environment has no sink of a name, or a key of one is missing or invalid.
    SetupError
        If a package is missing; the message names it.

    Examples
    --------
    >>> env = Env(sinks=(SinkConfig("Out", "console"), SinkConfig("files", "hdfs", {"path": "/tmp"})))
    >>> list(open_sinks(env, ["out"]))
    ['Out']
    >>> open_sinks(env, ["fils"])
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.GriffinConfigError: the environment has no sink 'fils'; did you mean 'files'?
    """
    opened = {}
    for config in _select_sinks(env, names):
        sink: Sink = SINK_REGISTRY.load(config.type)(config.name, config.config)
        sink.spark = spark
        sink.check()
        opened[config.name] = sink
    return opened


def _select_sinks(env: Env, names: Sequence[str] | None) -> list[SinkConfig]:
    if names is None:
        return list(env.sinks)
    sinks = {sink.name.casefold(): sink for sink in env.sinks}
    for name in names:
        if name.casefold() not in sinks:
            hint = suggested(name, [sink.name for sink in env.sinks]) if sinks else "it has none"
            msg = f"the environment has no sink {name!r}; {hint}"
            raise GriffinConfigError(msg)
    return [sinks[name] for name in dict.fromkeys(name.casefold() for name in names)]
