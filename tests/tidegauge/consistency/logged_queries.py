"""Helpers for tests of logged queries."""

import datetime as dt
import uuid
from contextlib import contextmanager

from tidegauge.consistency.log.query import bucket, threshold
from tidegauge.consistency.log.table import create_log_table

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
D5 = 1_672_876_800_000
"""2023-01-05T00:00Z, in milliseconds."""


def record(name, **fields):
    """Return the Avro schema of a record."""
    columns = [{"name": n, "type": t} for n, t in fields.items()]
    return {"type": "record", "name": name, "fields": columns}


def time(millis):
    """Return a time in UTC."""
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC)


def is_sampled(key, percent):
    """Return whether the key is in a sample of this percentage of the keys."""
    return bucket(key) < threshold(percent)


@contextmanager
def log_of_its_own(spark):
    """Create a database with a query log, and drop it with everything that was added to it."""
    name = f"consistency_{uuid.uuid4().hex[:10]}"
    spark.sql(f"CREATE DATABASE {name}").collect()
    try:
        create_log_table(spark, name)
        yield name
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE").collect()
