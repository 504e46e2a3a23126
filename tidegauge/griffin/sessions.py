"""Spark session of a job, with the settings of its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.spark.session import apply_settings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.griffin.config import Env


def session_for(env: Env, spark: SparkSession | None, warehouse: str | None = None) -> SparkSession:
    """Return the given or active session, else a new one with the environment's settings.

    Settings that a running session cannot change cause a warning.
    """
    session = spark or spark_session(warehouse, settings=env.spark)
    apply_settings(session, env.spark)
    return session
