"""Spark session of a job, with the settings of its environment."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.griffin.config import Env


def session_for(env: Env, spark: SparkSession | None, warehouse: str | None = None) -> SparkSession:
    """Return the given or active session, else a new one with the environment's settings.

    Settings that a running session cannot change cause a warning.
    """
    session = spark or spark_session(warehouse, settings=env.spark)
    late = []
    for key, value in env.spark.items():
        if session.conf.get(key, None) == value:
            continue
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        else:
            late.append(key)
    if late:
        warnings.warn(
            f"the Spark session is already running and cannot change these settings: {', '.join(sorted(late))}",
            stacklevel=3,
        )
    return session
