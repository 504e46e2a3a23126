"""A table of 40 columns and constraints on it as data: ``[kind, column, arguments...]``.

The columns of a kind are alike, but each tenth column has constraints that do not hold. Values are
hashes of the row's number, so they depend on neither a generator nor the number of tasks.
"""

from __future__ import annotations

Constraints = list[list]

FILES = 8
NULLS = 0.02
"""Share of nulls in every column."""
NUMBERS = [f"{kind}{i}" for kind in "id" for i in range(10)]
CATEGORIES = [f"c{i}" for i in range(10)]
EMAILS = [f"e{i}" for i in range(10)]
COUNTRIES = [f"C{i:02}" for i in range(50)]
EMAIL = r"^[a-z0-9]+@[a-z]+\.com$"
NOT_BLANK = r"\S"


def table(spark, path: str, rows: int) -> None:
    """Write the table."""

    def of(salt: int, below: int) -> str:
        return f"pmod(xxhash64(id, {salt}), {below})"

    values = {
        "i": "CAST({0} AS INT)",
        "d": "{0} / 1.0D + 0.25D",
        "c": "concat('C', lpad(pmod({0}, 50), 2, '0'))",
        # One address in a hundred is malformed.
        "e": "concat('user', {0}, IF({0} % 100 = 0, '.', '@'), 'example.com')",
    }
    cells = [
        f"IF({of(2 * n, 100)} < {NULLS * 100:.0f}, NULL, {values[name[0]].format(of(2 * n + 1, 1000))})"
        f" AS {name}"
        for n, name in enumerate([*NUMBERS, *CATEGORIES, *EMAILS])
    ]
    data = spark.range(0, rows, numPartitions=FILES).selectExpr(*cells)
    data.write.mode("overwrite").parquet(path)


def _fails(column: str) -> bool:
    return column.endswith("9")


def _complete(column: str) -> list:
    return ["complete", column, 1.0 if _fails(column) else 0.95]


def _rows() -> Constraints:
    """Return 80 constraints on single rows."""
    return [
        *map(_complete, [*NUMBERS, *CATEGORIES, *EMAILS]),
        *(["range", c, 0, 500 if _fails(c) else 990, 0.95] for c in NUMBERS),
        *(["set", c, COUNTRIES[: 25 if _fails(c) else 50], 0.95] for c in CATEGORIES),
        *(["pattern", c, EMAIL, 1.0 if _fails(c) else 0.95] for c in EMAILS),
    ]


def _metrics() -> Constraints:
    """Return 100 constraints on numbers that a plain aggregation gives."""
    return [
        *(["min", c, 1 if _fails(c) else 0] for c in NUMBERS),
        *(["max", c, 500 if _fails(c) else 1000] for c in NUMBERS),
        *(["mean", c, 400, 450 if _fails(c) else 600] for c in NUMBERS),
        *(["min_length", c, 4 if _fails(c) else 3] for c in [*CATEGORIES, *EMAILS]),
        *(["max_length", c, 2 if _fails(c) else 30] for c in [*CATEGORIES, *EMAILS]),
    ]


ROWS = _rows()
SCAN = [*ROWS, *_metrics(), *(["pattern", c, NOT_BLANK, 0.95] for c in [*CATEGORIES, *EMAILS])]
MIXED = [
    *SCAN[:-20],
    *(["distinct", c, 40 if _fails(c) else 60] for c in CATEGORIES),
    *SCAN[-10:],
]
CASES = {"rows80": ROWS, "values80": ROWS, "scan200": SCAN, "mixed200": MIXED}
"""Single rows only, twice; what one scan can tell; the same with ten counts of distinct values."""
WITH_VALUES = ("values80",)
"""The cases in which bad values of what fails are asked for, too."""


def expected(constraint: list) -> bool:
    """Return whether a constraint holds, by how the table is made; no address is short."""
    kind, column, *_ = constraint
    if not _fails(column):
        return True
    return constraint[2] == NOT_BLANK or (kind == "min_length" and column in EMAILS)
