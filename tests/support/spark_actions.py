"""Count Spark's SQL executions, using the pages that Spark serves."""

import json
import time
from contextlib import contextmanager
from urllib.request import urlopen


def executions(spark, after=0, plans=False):
    """Return Spark's executions by their ids, without the first ones; include the long plans only if requested."""
    context = spark.sparkContext
    base = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/sql"
    options = f"details=false&planDescription={str(plans).lower()}&offset={after}&length=100000"
    with urlopen(f"{base}?{options}", timeout=30) as answer:  # noqa: S310
        return {entry["id"]: entry for entry in json.load(answer)}


@contextmanager
def counted(spark):
    """Yield a list that contains the executions of the block, with their plans, after it has ended."""
    before = executions(spark)
    found = []
    yield found
    previous = None
    for _ in range(100):  # Spark lists its executions a little later
        now = executions(spark, after=len(before), plans=True)
        fresh = [e for i, e in now.items() if i not in before]
        if fresh == previous and all(e["status"] != "RUNNING" for e in fresh):
            break
        previous = fresh
        time.sleep(0.1)
    found.extend(fresh)
