"""Record rules in one pass, against the bare write, a hand-written aggregate, `observe`, and single counts.

20 million rows of ten columns, 20 rules and 5 fixes; about one value in a hundred breaks each rule. All ways
run in one session, in turns, after a round to warm up; the table tells medians, and ratios to the aggregate.

    python benchmarks/rules.py [--rows 20000000] [--rounds 3] [--partitions 30] [--json FILE]

- hand-written aggregate: one `agg` with a `count_if` for each rule that is false, each that is null, and each
  fix. It tells neither which records are rejected nor which rule is charged.
- by partition: the same two, grouped by a partition column.
- observe and write: `attach`, then the caller's own write, then `check(rows=)`.
- one count per rule: a `where` and a `count` for each.
- many rejects: each value breaks a rule with a chance of one in four, so records break very many combinations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from functools import reduce
from pathlib import Path

from rich.console import Console
from rich.table import Table
from wide import cpu_seconds

import tidegauge as tg
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.rules.tally import tally

COLUMNS, RULES, FIXES = 10, 20, 5


def rules(often):
    """Return 20 conditions; the share of values that break one is about ``often``."""
    return [f"c{i % COLUMNS} < {int(1000 * (1 - often)) + i // 2}" for i in range(RULES)]


def fixes():
    """Return a condition, a column and a replacement for each fix."""
    return [(f"c{i} < {5 + i}", f"c{i}", "5") for i in range(FIXES)]


def dqm_of(conditions):
    """Return the rules and fixes as a `DQM`."""
    made = reduce(lambda d, rule: d.add(tg.Rule(rule)), conditions, tg.DQM())
    return reduce(lambda d, fix: d.add(tg.Fix(*fix)), fixes(), made)


def aggregate(conditions):
    """Return the counts as one would write them by hand."""
    from pyspark.sql import functions as F

    texts = [f"count_if(NOT ({rule}))" for rule in conditions]
    texts += [f"count_if(({rule}) IS NULL)" for rule in conditions]
    texts += [f"count_if({when})" for when, _, _ in fixes()]
    return [F.expr(text).alias(f"n{i}") for i, text in enumerate(["count(1)", *texts])]


def ways(data, folder):
    """Return what is timed, by name."""
    few, many = rules(0.01), rules(0.25)
    dqm, worse = dqm_of(few), dqm_of(many)

    def attached():
        step = dqm.attach(data)
        step.data.write.mode("overwrite").format("noop").save()
        return step.check(rows=ROWS)

    def counted_singly():
        return [data.where(f"NOT ({rule})").count() for rule in few]

    def applied():
        return dqm.apply(data, keys=["id"])

    by = Groups(("ds",))
    return {
        "bare write": lambda: data.write.mode("overwrite").format("noop").save(),
        "write to Parquet": lambda: data.write.mode("overwrite").parquet(folder),
        "hand-written aggregate": lambda: data.agg(*aggregate(few)).collect(),
        "our pass": lambda: tally(data, dqm.tasks),
        "our pass and samples (apply)": applied,
        "hand-written aggregate, by partition": lambda: (
            data.groupBy("ds").agg(*aggregate(few)).collect()
        ),
        "our pass, by partition": lambda: tally(data, dqm.tasks, by),
        "hand-written aggregate, many rejects": lambda: data.agg(*aggregate(many)).collect(),
        "our pass, many rejects": lambda: tally(data, worse.tasks),
        "observe and bare write": attached,
        "one count per rule": counted_singly,
    }


ROWS = 0


def main():
    """Print a table and write JSON."""
    global ROWS  # noqa: PLW0603 - what the ways close over
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/rules.json"))
    asked = parser.parse_args()
    ROWS = asked.rows
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        spark = tg.spark_session(Path(name))
        path = str(Path(name) / "records")
        cells = [
            f"CASE WHEN rand({i}) >= 0.01 THEN CAST(rand({i + 50}) * 1000 AS INT) END AS c{i}"
            for i in range(COLUMNS)
        ]
        keyed = spark.range(asked.rows).selectExpr("id", f"id % {asked.partitions} AS ds", *cells)
        keyed.write.parquet(path)
        data = spark.read.parquet(path)
        todo = ways(data, str(Path(name) / "written"))
        taken = {way: [] for way in todo}
        for turn in range(asked.rounds + 1):
            for way in list(todo) if turn % 2 else list(todo)[::-1]:
                started, used = time.perf_counter(), cpu_seconds()
                todo[way]()
                if turn:
                    taken[way].append((time.perf_counter() - started, cpu_seconds() - used))
    results = []
    middle = {w: [statistics.median(run[i] for run in t) for i in (0, 1)] for w, t in taken.items()}
    for way, (wall, cpu) in middle.items():
        of = way.partition(", ")[2]
        base = middle[f"hand-written aggregate{', ' if of else ''}{of}"]
        results.append(
            {
                "way": way,
                "wall s": round(wall, 2),
                "cpu s": round(cpu, 2),
                "by the aggregate, wall": round(wall / base[0], 2),
                "by the aggregate, cpu": round(cpu / base[1], 2),
            }
        )
    table = Table(title=f"{RULES} rules and {FIXES} fixes on {asked.rows:,} rows")
    for column in results[0]:
        table.add_column(column, justify="left" if column == "way" else "right")
    for result in results:
        table.add_row(*map(str, result.values()))
    Console(width=120).print(table)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=1))
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
