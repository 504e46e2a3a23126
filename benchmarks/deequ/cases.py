"""Benchmark cases as data: analyzers as ``[name, arguments...]``, which both sides translate."""

from __future__ import annotations

from dataclasses import dataclass

Analyzers = list[list]

NUMBERS = ("quantity", "price", "discount")
COLUMNS = ("id", *NUMBERS, "status", "country", "email", "amount_text")
KNOWN = {
    "ApproxCountDistinct": (0.2, "HyperLogLog of 512 registers in Deequ, of 4,096 in ours"),
    "KLLSketch": (0.6, "KLL sketches of size 2,048 on both sides keep values chosen by chance"),
    "ApproxUniqueness": (0.2, "tuple sketch in ours, exact in Deequ"),
}
"""Metrics that may differ, by how much of their value, and why; more than that is unexplained.

It is some three standard errors of the worse sketch; for KLL, of a bucket that holds a hundredth.
"""

CHEAP: Analyzers = [
    ["Size"],
    *(["Completeness", column] for column in COLUMNS),
    *([name, c] for name in ("Mean", "StandardDeviation", "Sum") for c in NUMBERS),
    ["Compliance", "expensive", "price > 500"],
    ["Compliance", "many and cheap", "quantity >= 10 AND discount < 0.5"],
    ["Compliance", "new or open", "status IN ('new', 'open')"],
    ["Correlation", "quantity", "price"],
    ["Correlation", "quantity", "discount"],
    ["Correlation", "price", "discount"],
]
SCAN40: Analyzers = [
    *CHEAP,
    *([name, c] for name in ("Minimum", "Maximum") for c in NUMBERS),
    *(["ApproxCountDistinct", column] for column in ("id", "country", "email")),
    ["DataType", "amount_text"],
    ["PatternMatch", "email", r"^[a-z0-9.]+@[a-z0-9]+\.[a-z]+$"],
    ["PatternMatch", "amount_text", r"^-?[0-9]+\.[0-9][0-9]$"],
    *([name, c] for name in ("MinLength", "MaxLength") for c in ("status", "email")),
]
GROUPING: Analyzers = [
    ["Uniqueness", ["email"]],
    ["Distinctness", ["country"]],
    ["Entropy", "status"],
    ["Uniqueness", ["status", "country"]],
]
MIXED: Analyzers = [
    *SCAN40[::2],
    *GROUPING,
    ["Histogram", "status"],
    ["Histogram", "country"],
    ["KLLSketch", "price"],
]
KLL: Analyzers = [["KLLSketch", column] for column in ("price", "discount", "quantity", "id")]
SERIES: Analyzers = [["Completeness", f"column_{i}"] for i in range(35)]


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Attributes
    ----------
    name : str
    goal : float or None
        Wall time of Deequ divided by ours that is aimed at, if any is.
    op : str
        ``calculate`` metrics of a folder; ``analyze`` partitions and keep states and metrics;
        ``merge`` stored states; ``append`` a result to a repository; ``read`` a series from it.
    analyzers : list
    ours : list, optional
        Our analyzers, where they are others.
    table : str
        Where the rows are: a table of `data.TABLES`.
    spare : str
        The table that a round takes one more partition from, beside the history.
    history : int
        Number of partitions that are measured before the first round.
    memory : bool
        Whether Deequ keeps everything in memory and measures two partitions at a time.
    rounds : int, optional
        Most rounds.
    warmup : int, optional
        Number of partitions that the only round to warm up takes.
    results : int
        Results that a repository holds at first.
    held : bool
        Whether the repository is opened once. Otherwise each round opens it, as a new job does.
    """

    name: str
    goal: float | None
    op: str
    analyzers: Analyzers
    ours: Analyzers | None = None
    table: str = "wide6"
    spare: str = ""
    history: int = 0
    memory: bool = False
    rounds: int | None = None
    warmup: int | None = None
    results: int = 0
    held: bool = False


CASES = [
    Case("whole40", 3, "calculate", SCAN40),
    Case("cheap", 1.5, "calculate", CHEAP),
    Case("backfill30", 5, "analyze", SCAN40, table="days30"),
    Case("backfill30-memory", 3, "analyze", SCAN40, table="days30", memory=True),
    Case("backfill365", 40, "analyze", SCAN40, table="days365", rounds=2, warmup=30),
    Case("daily5k", 1.5, "analyze", SCAN40, table="days365", spare="spare5k", history=364),
    Case("daily200k", 2, "analyze", SCAN40, table="days365", spare="spare200k", history=364),
    Case("mixed", 5, "calculate", MIXED),
    Case("grouping4", 2, "calculate", GROUPING),
    Case("uniqueness", 1.2, "calculate", [["Uniqueness", ["id"]]]),
    Case(
        "uniqueness-approx",
        4,
        "calculate",
        [["Uniqueness", ["id"]]],
        ours=[["ApproxUniqueness", ["id"]]],
    ),
    Case("kll4", 30, "calculate", KLL),
    Case("merge-files", 20, "merge", SCAN40, table="days365", history=365),
    Case("merge-memory", 1, "merge", SCAN40, table="days365", history=365, memory=True),
    Case("repository-append", 30, "append", SERIES, results=1000),
    Case("repository-read", 30, "read", SERIES, results=1000),
    Case("repository-append-held", None, "append", SERIES, results=1000, held=True),
    Case("repository-read-held", None, "read", SERIES, results=1000, held=True),
]
