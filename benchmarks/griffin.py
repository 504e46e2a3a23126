"""Accuracy of a source against a target: our single pass, and the SQL that Apache Griffin generates for it.

Both sides have 10 million rows. An integer and two strings are compared, and one row in a hundred
differs. All variants run in one session, in turns, after a round to warm up. The table shows
medians, and ratios to Griffin's SQL.

    python benchmarks/griffin.py [--rows 10000000] [--rounds 3] [--json FILE]

- Griffin's SQL: a left join on strings coalesced with the empty string, its misses cached; a count
of
  them; a count of the source; a join of both counts. It runs without ANSI mode, as on the Spark of
  its time.
- one pass: `GriffinAccuracy` through the scan; total and misses, and a state that can be merged.
- one pass, by partition: the same for each of 30 partitions.
- the plan's steps: the SQL that `tidegauge griffin check` prints, with the metric step collected.
- anti join by hand: a `LEFT ANTI JOIN` with `<=>` counted, and the source counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from wide import cpu_seconds

import tidegauge as tg
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.griffin.config import Job, Output, RuleConfig
from tidegauge.griffin.execution.engine import Engine, Round

ACCURACY_RULE = "source.id = target.id and source.name = target.name and source.city = target.city"
JOIN_FIELDS = ("id", "name", "city")


def griffin_sql(spark):
    """Return a function that computes the accuracy as Griffin does."""
    on = " AND ".join(f"coalesce(source.{f}, '') = coalesce(target.{f}, '')" for f in JOIN_FIELDS)
    unmatched = " AND ".join(f"source.{f} IS NULL" for f in JOIN_FIELDS)
    missed = " AND ".join(f"target.{f} IS NULL" for f in JOIN_FIELDS)

    def run():
        spark.conf.set("spark.sql.ansi.enabled", "false")
        try:
            misses = spark.sql(
                f"SELECT source.* FROM source LEFT JOIN target ON {on}"
                f" WHERE (NOT ({unmatched})) AND ({missed})"
            ).cache()
            misses.createOrReplaceTempView("miss_records")
            spark.sql("SELECT COUNT(*) AS miss FROM miss_records").createOrReplaceTempView("m")
            spark.sql("SELECT COUNT(*) AS total FROM source").createOrReplaceTempView("t")
            row = spark.sql(
                "SELECT t.total AS total, coalesce(m.miss, 0) AS miss FROM t LEFT JOIN m"
            ).collect()[0]
            misses.unpersist()
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
        return row["total"], row["miss"]

    return run


def our_metrics(spark, frames, group_columns=()):
    """Return a function that computes the accuracy through the scan."""
    rule = RuleConfig(
        1, "griffin-dsl", ACCURACY_RULE, "accuracy", out_name="accu", outputs=(Output("metric"),)
    )
    engine = Engine(Job("benchmark", rules=(rule,)), spark)

    def run():
        reports = engine.run(Round(frames, 0, group_columns)).rule("accu").reports.values()
        return sum(r.metric["total"] for r in reports), sum(r.metric["miss"] for r in reports)

    return run


def steps(spark, frames):
    """Return a function that computes the accuracy by the plan's steps."""
    rule = RuleConfig(1, "griffin-dsl", ACCURACY_RULE, "accuracy", out_name="accu")
    engine = Engine(Job("benchmark", rules=(rule,)), spark)

    def run():
        views = Views(spark)
        for name, frame in frames.items():
            views.add(name, frame)
        (prepared,) = engine.check(frames)
        for step in prepared.plan.steps:
            views.add(step.name, views.query(step.sql))
        row = views.frame(prepared.plan.metrics[0].step).collect()[0]
        return row["total"], row["miss"]

    return run


def by_hand(spark):
    """Return a function that computes the accuracy by an anti join and a count."""
    on = " AND ".join(f"source.{f} <=> target.{f}" for f in JOIN_FIELDS)

    def run():
        miss = spark.sql(f"SELECT count(*) FROM source LEFT ANTI JOIN target ON {on}").collect()
        return spark.sql("SELECT count(*) FROM source").collect()[0][0], miss[0][0]

    return run


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/griffin.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        spark = tg.spark_session(Path(name))
        spark.sparkContext.setLogLevel("ERROR")
        rows = spark.range(args.rows).selectExpr(
            "id",
            "concat('name ', id % 5000000) AS name",
            "concat('city ', id % 1000) AS city",
            "id % 30 AS ds",
        )
        rows.write.parquet(f"{name}/source")
        other = "CASE WHEN id % 100 = 7 THEN 'elsewhere' ELSE city END AS city"
        rows.selectExpr("id", "name", other).write.parquet(f"{name}/target")
        frames = {side: spark.read.parquet(f"{name}/{side}") for side in ("source", "target")}
        for side, frame in frames.items():
            frame.createOrReplaceTempView(side)
        todo = {
            "Griffin's SQL": griffin_sql(spark),
            "one pass": our_metrics(spark, frames),
            "one pass, by partition": our_metrics(spark, frames, ("ds",)),
            "the plan's steps": steps(spark, frames),
            "anti join by hand": by_hand(spark),
        }
        durations = {variant: [] for variant in todo}
        metrics = {}
        for turn in range(args.rounds + 1):
            for variant in list(todo) if turn % 2 else list(todo)[::-1]:
                started, used = time.perf_counter(), cpu_seconds()
                metrics[variant] = todo[variant]()
                if turn:
                    durations[variant].append((time.perf_counter() - started, cpu_seconds() - used))
        spark.stop()
    expected = (args.rows, len(range(7, args.rows, 100)))
    wrong = {variant: result for variant, result in metrics.items() if result != expected}
    if wrong:
        raise SystemExit(f"expected {expected}, found {wrong}")
    middle = {
        w: [statistics.median(run[i] for run in t) for i in (0, 1)] for w, t in durations.items()
    }
    base = middle["Griffin's SQL"]
    results = [
        {
            "way": variant,
            "wall s": round(wall, 2),
            "cpu s": round(cpu, 2),
            "by Griffin's, wall": round(wall / base[0], 2),
            "by Griffin's, cpu": round(cpu / base[1], 2),
        }
        for variant, (wall, cpu) in middle.items()
    ]
    table = Table(title=f"{args.rows:,} by {args.rows:,} rows, {args.rounds} rounds")
    for column in results[0]:
        table.add_column(column, justify="left" if column == "way" else "right")
    for row in results:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"rows": args.rows, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
