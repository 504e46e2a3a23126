"""Griffin DSL parsing time by length, by depth, and in the worst case.

    python benchmarks/griffin_parsing.py [--strings 10000] [--json FILE]

Times are milliseconds of CPU. Rules get longer (chains of AND, sums in brackets, lists of columns)
and deeper (nested calls); their times should grow with their lengths. Then come random strings, and
rules with letters and words lost, doubled, swapped or inserted, of up to 4 KiB, because invalid
rules also take time. The longest time is printed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import time
from pathlib import Path

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from tests.tidegauge.griffin.dsl.mutations import mutated
from tidegauge.analyzers.core.errors import DslError
from tidegauge.griffin.dsl.parser import parse

MAX_MILLISECONDS = 50.0
ROUND_COUNT = 5
SLOWEST_COUNT = 50
DQ_TYPES = ("accuracy", "profiling", "uniqueness", "distinct")


def time_parsing(text: str, dq_type: str) -> tuple[float, bool]:
    """Return the milliseconds of CPU to parse a string, and whether it is a rule."""
    started, is_rule = time.process_time(), True
    try:
        parse(text, dq_type)
    except DslError:
        is_rule = False
    return (time.process_time() - started) * 1000, is_rule


def best(text: str, dq_type: str = "accuracy") -> float:
    """Return the shortest of some times."""
    return min(time_parsing(text, dq_type)[0] for _ in range(ROUND_COUNT))


def growth() -> dict[str, dict[int, float]]:
    """Return times by the size of similar rules."""
    return {
        "calls within calls": {n: best("upper(" * n + "a" + ")" * n) for n in (1, 5, 8, 20, 50)},
        "brackets within brackets": {n: best("(" * n + "a" + ")" * n) for n in (1, 10, 50)},
        "terms of AND": {
            n: best(" AND ".join(f"source.c{i} = target.c{i}" for i in range(n)))
            for n in (10, 100, 1000)
        },
        "values of IN": {n: best(f"a IN ({', '.join(['1'] * n)})") for n in (10, 100, 1000)},
        "columns": {n: best(",".join(["a"] * n), "uniqueness") for n in (10, 100, 1000, 2048)},
    }


def longest(strings: int) -> tuple[float, int, str]:
    """Return the longest time of many strings, the number of rules among them, and the slowest string.

    The slowest strings are measured several times, because garbage collection can affect any
    string.
    """
    draw = random.Random(20130208)
    slowest: list[tuple[float, str, str]] = []
    rules = 0
    for _ in range(strings):
        text, dq_type = mutated(draw), draw.choice(DQ_TYPES)
        milliseconds, is_rule = time_parsing(text, dq_type)
        rules += is_rule
        heapq.heappush(slowest, (milliseconds, text, dq_type))
        if len(slowest) > SLOWEST_COUNT:
            heapq.heappop(slowest)
    worst, slowest_rule = max((best(text, dq_type), text) for _, text, dq_type in slowest)
    return worst, rules, slowest_rule


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.process_time()
    parse("a = b")
    first = (time.process_time() - started) * 1000
    print(f"the first rule, with the tables of the parser: {first:.0f} ms")
    growth_times = growth()
    for name, times in growth_times.items():
        print(f"{name:26}", "  ".join(f"{n}: {ms:.2f} ms" for n, ms in times.items()))
    worst, rules, slowest_rule = longest(options.strings)
    print(f"{options.strings} texts, {rules} of them rules; the longest took {worst:.1f} ms")
    print(
        f"  (goal: {MAX_MILLISECONDS:.0f} ms; {len(slowest_rule)} letters: {slowest_rule[:60]!r} ...)"
    )
    if options.json:
        report = {
            "first": first,
            "growth": growth_times,
            "strings": options.strings,
            "rules": rules,
        }
        options.json.write_text(json.dumps(report | {"longest": worst}, indent=2) + "\n")


if __name__ == "__main__":
    main()
