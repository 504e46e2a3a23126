"""Analyzers of string columns row by row, and once for each distinct value, by the number of values.

The table is whole, or has ten partitions whose rows are mixed in each file. "A lie" is a column
with 100,000 values, although the history predicts ten. Both variants run in one session, in turns,
after one round to warm up; their states are compared. The times cover `scan`, including reading.

    python -m benchmarks.few_values [--rows 6000000] [--rounds 3] [--json FILE]
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

import tidegauge as tg
from tidegauge.analyzers.scan.plan import UNKNOWN, Expectation
from tidegauge.analyzers.scan.scan import scan

DISTINCT_VALUES = {"c8": 8, "c60": 60, "c1000": 1_000, "c4000": 4_000, "c100k": 100_000}


def analyzers_of(columns):
    """Return the analyzers of a profile of strings, and a pattern."""
    return [
        tg.Size(),
        *(kind(c) for c in columns for kind in (tg.Completeness, tg.DataType, tg.MinLength)),
        *(kind(c) for c in columns for kind in (tg.MaxLength, tg.ApproxCountDistinct)),
        *(tg.PatternMatch(c, "^[a-z]+-[0-9]+$") for c in columns),
    ]


CASES = {
    "8 values": (["c8"], {"c8": 8}),
    "60 values": (["c60"], {"c60": 60}),
    "1,000 values": (["c1000"], {"c1000": 1_000}),
    "4,000 values": (["c4000"], {"c4000": 4_000}),
    "8 and 60 values": (["c8", "c60"], {"c8": 8, "c60": 60}),
    "a lie: 100,000 values": (["c100k"], {"c100k": 10}),
}


def make(spark, path, rows):
    """Write and read a table of strings."""
    texts = [
        f"concat('value-', pmod(xxhash64(id, {n}), {values})) AS {name}"
        for n, (name, values) in enumerate(DISTINCT_VALUES.items())
    ]
    spark.range(0, rows, numPartitions=8).selectExpr(
        *texts, "concat('p', id % 10) AS ds"
    ).write.parquet(path)
    return spark.read.parquet(path)


def states(data, analyzers, group_columns, expected):
    """Return the states of every group."""
    groups = scan(data, analyzers, group_columns, expected=expected)
    return {key: group.states for key, group in groups.groups.items()}


def measure(data, rows, case, group_columns, rounds):
    """Time both variants in turns; their states have to be equal."""
    columns, expectations = CASES[case]
    analyzers = analyzers_of(columns)
    expected = Expectation(rows, rows / (10 if group_columns else 1), expectations)
    seconds = {"rows": [], "values": []}
    for turn in range(rounds + 1):
        answers = []
        for variant, distinct_counts in (("rows", UNKNOWN), ("values", expected)):
            started = time.perf_counter()
            answers.append(states(data, analyzers, group_columns, distinct_counts))
            if turn:
                seconds[variant].append(time.perf_counter() - started)
        assert answers[0] == answers[1], case
    ratios = [a / b for a, b in zip(seconds["rows"], seconds["values"], strict=True)]
    return {
        "case": case,
        "partitions": 10 if group_columns else 1,
        "rows_s": statistics.median(seconds["rows"]),
        "values_s": statistics.median(seconds["values"]),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def main():
    """Measure all cases, and print and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    spark = tg.spark_session()
    with tempfile.TemporaryDirectory() as folder:
        data = make(spark, f"{folder}/table", args.rows)
        results = [
            measure(data, args.rows, case, group_columns, args.rounds)
            for group_columns in ((), ("ds",))
            for case in CASES
        ]
    table = Table("column", "partitions", "row by row, s", "each value once, s", "times as fast")
    for row in results:
        spread = f"{row['ratio']:.2f} ({row['least']:.2f} to {row['most']:.2f})"
        times = [f"{row[key]:.2f}" for key in ("rows_s", "values_s")]
        table.add_row(row["case"], str(row["partitions"]), *times, spread)
    Console(width=110).print(table)
    if args.json:
        args.json.write_text(json.dumps({"rows": args.rows, "cases": results}, indent=2))


if __name__ == "__main__":
    main()
