"""Record rules in one pass, compared with the bare write, a hand-written aggregate, `observe`, and single counts.

The table has 20 million rows of ten columns; there are 20 rules and 5 fixes. About one value in a
hundred violates each rule. All variants run in one session, in turns, after a round to warm up. The
table shows medians, and ratios to the aggregate.

    python benchmarks/rules.py [--rows 20000000] [--rounds 3] [--partitions 30] [--json FILE]

- hand-written aggregate: one `agg` with a `count_if` for each rule that is false, each that is
null, and
  each fix. It shows neither which records are rejected nor the rule that rejects them.
- by partition: the same two, grouped by a partition column.
- observe and write: `attach`, then the caller's own write, then `check(rows=)`.
- one count per rule: a `where` and a `count` for each.
- many rejects: each value violates a rule with probability 1/4, so records violate many
combinations.
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

COLUMN_COUNT, RULE_COUNT, FIX_COUNT = 10, 20, 5


def rules(often):
    """Return 20 conditions; a share ``often`` of values violates each."""
    return [f"c{i % COLUMN_COUNT} < {int(1000 * (1 - often)) + i // 2}" for i in range(RULE_COUNT)]


def fixes():
    """Return a condition, a column and a replacement for each fix."""
    return [(f"c{i} < {5 + i}", f"c{i}", "5") for i in range(FIX_COUNT)]


def dqm_of(conditions):
    """Return the rules and fixes as a `DQM`."""
    dqm = reduce(lambda d, rule: d.add(tg.Rule(rule)), conditions, tg.DQM())
    return reduce(lambda d, fix: d.add(tg.Fix(*fix)), fixes(), dqm)


def aggregate(conditions):
    """Return the hand-written counts."""
    from pyspark.sql import functions as F

    texts = [f"count_if(NOT ({rule}))" for rule in conditions]
    texts += [f"count_if(({rule}) IS NULL)" for rule in conditions]
    texts += [f"count_if({when})" for when, _, _ in fixes()]
    return [F.expr(text).alias(f"n{i}") for i, text in enumerate(["count(1)", *texts])]


def variants(data, folder):
    """Return the timed functions by name."""
    few_bad, many_bad = rules(0.01), rules(0.25)
    dqm, worse = dqm_of(few_bad), dqm_of(many_bad)

    def attached():
        step = dqm.attach(data)
        step.data.write.mode("overwrite").format("noop").save()
        return step.check(rows=ROW_COUNT)

    def counted_singly():
        return [data.where(f"NOT ({rule})").count() for rule in few_bad]

    def applied():
        return dqm.apply(data, keys=["id"])

    groups = Groups(("ds",))
    return {
        "bare write": lambda: data.write.mode("overwrite").format("noop").save(),
        "write to Parquet": lambda: data.write.mode("overwrite").parquet(folder),
        "hand-written aggregate": lambda: data.agg(*aggregate(few_bad)).collect(),
        "our pass": lambda: tally(data, dqm.tasks),
        "our pass and samples (apply)": applied,
        "hand-written aggregate, by partition": lambda: (
            data.groupBy("ds").agg(*aggregate(few_bad)).collect()
        ),
        "our pass, by partition": lambda: tally(data, dqm.tasks, groups),
        "hand-written aggregate, many rejects": lambda: data.agg(*aggregate(many_bad)).collect(),
        "our pass, many rejects": lambda: tally(data, worse.tasks),
        "observe and bare write": attached,
        "one count per rule": counted_singly,
    }


ROW_COUNT = 0


def main():
    """Print a table and write JSON."""
    global ROW_COUNT  # noqa: PLW0603 - the variants close over it
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/rules.json"))
    args = parser.parse_args()
    ROW_COUNT = args.rows
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        spark = tg.spark_session(Path(name))
        path = str(Path(name) / "records")
        cells = [
            f"CASE WHEN rand({i}) >= 0.01 THEN CAST(rand({i + 50}) * 1000 AS INT) END AS c{i}"
            for i in range(COLUMN_COUNT)
        ]
        keyed = spark.range(args.rows).selectExpr("id", f"id % {args.partitions} AS ds", *cells)
        keyed.write.parquet(path)
        data = spark.read.parquet(path)
        todo = variants(data, str(Path(name) / "written"))
        durations = {variant: [] for variant in todo}
        for turn in range(args.rounds + 1):
            for variant in list(todo) if turn % 2 else list(todo)[::-1]:
                started, used = time.perf_counter(), cpu_seconds()
                todo[variant]()
                if turn:
                    durations[variant].append((time.perf_counter() - started, cpu_seconds() - used))
    results = []
    middle = {
        w: [statistics.median(run[i] for run in t) for i in (0, 1)] for w, t in durations.items()
    }
    for variant, (wall, cpu) in middle.items():
        baseline = variant.partition(", ")[2]
        base = middle[f"hand-written aggregate{', ' if baseline else ''}{baseline}"]
        results.append(
            {
                "way": variant,
                "wall s": round(wall, 2),
                "cpu s": round(cpu, 2),
                "by the aggregate, wall": round(wall / base[0], 2),
                "by the aggregate, cpu": round(cpu / base[1], 2),
            }
        )
    table = Table(title=f"{RULE_COUNT} rules and {FIX_COUNT} fixes on {args.rows:,} rows")
    for column in results[0]:
        table.add_column(column, justify="left" if column == "way" else "right")
    for result in results:
        table.add_row(*map(str, result.values()))
    Console(width=120).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
