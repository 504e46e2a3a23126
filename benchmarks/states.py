"""Bytes of the states of each analyzer, and of a proposed suite of 100 columns for one partition.

The table is the table of ``wide.py``: 50 columns of numbers and 50 of strings; one partition of it.

    python benchmarks/states.py [--rows 20000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from wide import wide_table

import tidegauge as tg
from tidegauge.analyzers.measures.frequencies import GroupingAnalyzer
from tidegauge.analyzers.scan.scan import scan


def examples():
    """Return one of each analyzer, on one column of each type."""
    n, s = "n0", "s0"
    of_number = [
        "Completeness",
        "ZerosCount",
        "Minimum",
        "Maximum",
        "Range",
        "Sum",
        "Mean",
        "StandardDeviation",
        "Variance",
        "Skewness",
        "Kurtosis",
        "ApproxQuantile:0.5",
        "ReqQuantile:0.99",
        "KLLSketch",
        "ExactQuantile:0.5",
        "InterquartileRange",
        "HistogramBinned:10",
    ]
    of_text = [
        "ApproxCountDistinct",
        "ApproxUniqueness",
        "ApproxDistinctness",
        "ApproxUniqueValueRatio",
        "CountDistinct",
        "Uniqueness",
        "Distinctness",
        "UniqueValueRatio",
        "DuplicateRowCount",
        "Histogram",
        "TopValues",
        "Entropy",
        "MinLength",
        "MaxLength",
        "DataType",
        "ColumnExists",
    ]
    analyzers = [
        tg.Size(),
        tg.ColumnCount(),
        tg.PatternMatch(s, "EMAIL"),
        tg.Compliance("r", "n0 > 1"),
    ]
    for column, names in ((n, of_number), (s, of_text)):
        for name in names:
            kind, _, option = name.partition(":")
            analyzers.append(getattr(tg, kind)(column, *([float(option)] if option else [])))
    return [
        *analyzers,
        tg.ApproxQuantiles(n, [0.25, 0.5, 0.75]),
        tg.Correlation(n, "n1"),
        tg.RatioOfSums(n, "n1"),
        tg.MutualInformation([s, "s1"]),
        tg.CustomSql("max(n0)"),
        tg.MinTime("at"),
        tg.MaxTime("at"),
        tg.Freshness("at"),
        tg.ReferentialIntegrity(s, "reference", "s0"),
        tg.DatasetMatch(s, "reference", "s0"),
    ]


def main():
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/states.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as name:
        spark = tg.spark_session(Path(name))
        data = wide_table(spark, Path(name), args.rows, 50, 1)
        data = data.selectExpr("*", "timestamp'2013-01-01' AS at")
        data.select("s0").createOrReplaceTempView("reference")
        states = scan(data, examples()).single_group.states
        sizes = {repr(a): len(outcome.value.pack()) for a, outcome in states.items()}
        suite = tg.profile(data.drop("at"), "wide", partition_by=["ds"]).suite
        chosen = [a for a in suite.analyzers if not isinstance(a, GroupingAnalyzer)]
        whole_states = scan(data, chosen).single_group.states
        by_statistic = {a.statistic(): len(o.value.pack()) for a, o in whole_states.items()}
    total = sum(by_statistic.values())
    table = Table(title=f"one partition of {args.rows:,} rows")
    table.add_column("analyzer")
    table.add_column("bytes", justify="right")
    for analyzer, size in sorted(sizes.items(), key=lambda item: item[1]):
        table.add_row(analyzer, f"{size:,}")
    Console(width=100).print(table)
    print(f"proposed suite: {len(chosen)} analyzers, {len(by_statistic)} states, {total:,} bytes")
    results = {"analyzers": sizes, "suite bytes": total, "suite states": len(by_statistic)}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
