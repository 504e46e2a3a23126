"""What tests of logged queries have in common."""

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
    """Return whether a sample of a percentage of the keys includes this one."""
    return bucket(key) < threshold(percent)


@contextmanager
def log_of_its_own(spark):
    """Make a database with a query log, and drop it with all that came into it."""
    name = f"consistency_{uuid.uuid4().hex[:10]}"
    spark.sql(f"CREATE DATABASE {name}").collect()
    try:
        create_log_table(spark, name)
        yield name
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE").collect()
