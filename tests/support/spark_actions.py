"""Counting Spark's SQL executions, through the pages that Spark serves about itself."""

import json
import time
from contextlib import contextmanager
from urllib.request import urlopen


def executions(spark):
    context = spark.sparkContext
    base = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/sql"
    with urlopen(f"{base}?details=false&length=100000", timeout=30) as answer:  # noqa: S310
        return {entry["id"]: entry for entry in json.load(answer)}


@contextmanager
def counted(spark):
    """Yield a list that holds the executions of the block once it has ended."""
    before = set(executions(spark))
    found = []
    yield found
    previous = None
    for _ in range(100):  # Spark tells of its executions a little later
        now = executions(spark)
        fresh = [e for i, e in now.items() if i not in before]
        if fresh == previous and all(e["status"] != "RUNNING" for e in fresh):
            break
        previous = fresh
        time.sleep(0.1)
    found.extend(fresh)
