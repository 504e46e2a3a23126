"""Griffin DSL parsing time by length, by depth, and in the worst case.

    python benchmarks/griffin_parsing.py [--strings 10000] [--json FILE]

Milliseconds of CPU. Rules get longer (chains of AND, sums in brackets, lists of columns) and deeper (calls within
calls); their times should grow as their lengths do. Then random texts, and rules with letters and words lost, doubled,
swapped or put in, of up to 4 KiB: what is no rule takes its time, too. The longest of them is told.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import time
from pathlib import Path

# Beside this script is one that is named as a package of ours, which is the one to be found.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from tests.tidegauge.griffin.dsl.mutations import mutated
from tidegauge.analyzers.core.errors import DslError
from tidegauge.griffin.dsl.parser import parse

GOAL = 50.0
ROUNDS = 5
AGAIN = 50
TYPES = ("accuracy", "profiling", "uniqueness", "distinct")


def taken(text: str, dq_type: str) -> tuple[float, bool]:
    """Return the milliseconds of CPU that one text takes, and whether it is a rule."""
    started, is_rule = time.process_time(), True
    try:
        parse(text, dq_type)
    except DslError:
        is_rule = False
    return (time.process_time() - started) * 1000, is_rule


def best(text: str, dq_type: str = "accuracy") -> float:
    """Return the shortest of some times."""
    return min(taken(text, dq_type)[0] for _ in range(ROUNDS))


def growth() -> dict[str, dict[int, float]]:
    """Return times by the size of rules that are alike."""
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
    """Return the longest time of many texts, how many of them are rules, and which one took it.

    What took longest is taken again, some times each, as collecting garbage may fall upon any text.
    """
    draw = random.Random(20130208)
    slowest: list[tuple[float, str, str]] = []
    rules = 0
    for _ in range(strings):
        text, dq_type = mutated(draw), draw.choice(TYPES)
        milliseconds, is_rule = taken(text, dq_type)
        rules += is_rule
        heapq.heappush(slowest, (milliseconds, text, dq_type))
        if len(slowest) > AGAIN:
            heapq.heappop(slowest)
    worst, which = max((best(text, dq_type), text) for _, text, dq_type in slowest)
    return worst, rules, which


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
    found = growth()
    for name, times in found.items():
        print(f"{name:26}", "  ".join(f"{n}: {ms:.2f} ms" for n, ms in times.items()))
    worst, rules, which = longest(options.strings)
    print(f"{options.strings} texts, {rules} of them rules; the longest took {worst:.1f} ms")
    print(f"  (goal: {GOAL:.0f} ms; {len(which)} letters: {which[:60]!r} ...)")
    if options.json:
        told = {"first": first, "growth": found, "strings": options.strings, "rules": rules}
        options.json.write_text(json.dumps(told | {"longest": worst}, indent=2) + "\n")


if __name__ == "__main__":
    main()
