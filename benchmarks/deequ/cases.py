"""Benchmark cases as data: analyzers as ``[name, arguments...]``, which both sides translate."""

from __future__ import annotations

from dataclasses import dataclass

Analyzers = list[list]

NUMBER_COLUMNS = ("quantity", "price", "discount")
ALL_COLUMNS = ("id", *NUMBER_COLUMNS, "status", "country", "email", "amount_text")
KNOWN_DIFFERENCES = {
    "ApproxCountDistinct": (0.2, "HyperLogLog of 512 registers in Deequ, of 4,096 in ours"),
    "KLLSketch": (0.6, "KLL sketches of size 2,048 on both sides keep values chosen by chance"),
    "ApproxUniqueness": (0.2, "tuple sketch in ours, exact in Deequ"),
}
"""Metrics that may differ, by the maximum relative difference and the reason; larger ones are unexplained.

The maximum is about three standard errors of the worse sketch; for KLL, of a bucket with a
hundredth of the values.
"""

COMPLETENESS_ANALYZERS: Analyzers = [
    ["Size"],
    *(["Completeness", column] for column in ALL_COLUMNS),
]
CHEAP_ANALYZERS: Analyzers = [
    *COMPLETENESS_ANALYZERS,
    *([name, c] for name in ("Mean", "StandardDeviation", "Sum") for c in NUMBER_COLUMNS),
    ["Compliance", "expensive", "price > 500"],
    ["Compliance", "many and cheap", "quantity >= 10 AND discount < 0.5"],
    ["Compliance", "new or open", "status IN ('new', 'open')"],
    ["Correlation", "quantity", "price"],
    ["Correlation", "quantity", "discount"],
    ["Correlation", "price", "discount"],
]
SCAN40_ANALYZERS: Analyzers = [
    *CHEAP_ANALYZERS,
    *([name, c] for name in ("Minimum", "Maximum") for c in NUMBER_COLUMNS),
    *(["ApproxCountDistinct", column] for column in ("id", "country", "email")),
    ["DataType", "amount_text"],
    ["PatternMatch", "email", r"^[a-z0-9.]+@[a-z0-9]+\.[a-z]+$"],
    ["PatternMatch", "amount_text", r"^-?[0-9]+\.[0-9][0-9]$"],
    *([name, c] for name in ("MinLength", "MaxLength") for c in ("status", "email")),
]
GROUPING_ANALYZERS: Analyzers = [
    ["Uniqueness", ["email"]],
    ["Distinctness", ["country"]],
    ["Entropy", "status"],
    ["Uniqueness", ["status", "country"]],
]
MIXED_ANALYZERS: Analyzers = [
    *SCAN40_ANALYZERS[::2],
    *GROUPING_ANALYZERS,
    ["Histogram", "status"],
    ["Histogram", "country"],
    ["KLLSketch", "price"],
]
KLL_ANALYZERS: Analyzers = [
    ["KLLSketch", column] for column in ("price", "discount", "quantity", "id")
]
SERIES_ANALYZERS: Analyzers = [["Completeness", f"column_{i}"] for i in range(35)]


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Attributes
    ----------
    name : str
    goal : float or None
        Goal for the wall time and the CPU time of Deequ divided by ours, if there is one.
    op : str
        ``calculate`` metrics of a folder; ``analyze`` partitions and keep states and metrics;
        ``merge`` stored states; ``append`` a result to a repository; ``read`` a series from it.
    analyzers : list
    ours : list, optional
        Our analyzers, if they differ.
    table : str
        The table of `data.TABLES` with the rows.
    spare : str
        The table from which each round takes one more partition, in addition to the history.
    history : int
        Number of partitions that are measured before the first round.
    memory : bool
        Whether Deequ keeps everything in memory and measures two partitions at a time.
    rounds : int, optional
        Maximum number of rounds.
    warmup : int, optional
        Number of partitions of the only round to warm up.
    results : int
        Number of results in the repository at first.
    held : bool
        Whether the repository is opened once. Otherwise each round opens it, as a new job does.
    folder : bool
        Whether Tidegauge reads partitions as a folder, as Deequ does, rather than as a Hive table.
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
    folder: bool = False


CASES = [
    Case("whole40", 6, "calculate", SCAN40_ANALYZERS),
    Case("cheap", 3, "calculate", CHEAP_ANALYZERS),
    Case("completeness", 10, "calculate", COMPLETENESS_ANALYZERS),
    Case("backfill30", 12, "analyze", SCAN40_ANALYZERS, table="days30"),
    Case("backfill30-memory", 5, "analyze", SCAN40_ANALYZERS, table="days30", memory=True),
    Case("backfill365", 60, "analyze", SCAN40_ANALYZERS, table="days365", rounds=2, warmup=30),
    *(
        Case(
            f"{name}{'-folder' * folder}",
            4,
            "analyze",
            SCAN40_ANALYZERS,
            table="days365",
            spare=spare,
            history=364,
            folder=folder,
        )
        for name, spare in (("daily5k", "spare5k"), ("daily200k", "spare200k"))
        for folder in (False, True)
    ),
    Case("mixed", 8, "calculate", MIXED_ANALYZERS),
    Case("grouping4", 5, "calculate", GROUPING_ANALYZERS),
    Case("uniqueness", 1.5, "calculate", [["Uniqueness", ["id"]]]),
    Case(
        "uniqueness-approx",
        4,
        "calculate",
        [["Uniqueness", ["id"]]],
        ours=[["ApproxUniqueness", ["id"]]],
    ),
    Case("kll4", 40, "calculate", KLL_ANALYZERS),
    Case("merge-files", 20, "merge", SCAN40_ANALYZERS, table="days365", history=365),
    Case("merge-memory", 1, "merge", SCAN40_ANALYZERS, table="days365", history=365, memory=True),
    Case("repository-append", 30, "append", SERIES_ANALYZERS, results=1000),
    Case("repository-read", 30, "read", SERIES_ANALYZERS, results=1000),
    Case("repository-append-held", None, "append", SERIES_ANALYZERS, results=1000, held=True),
    Case("repository-read-held", None, "read", SERIES_ANALYZERS, results=1000, held=True),
]
