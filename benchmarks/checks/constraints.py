"""A table of 40 columns and constraints on it as data: ``[kind, column, arguments...]``.

The columns of a kind are similar, but the constraints on each tenth column fail. Values are hashes
of the row's number, so they depend on neither a generator nor the number of tasks.
"""

from __future__ import annotations

Constraints = list[list]

FILE_COUNT = 8
NULL_SHARE = 0.02
"""Share of nulls in every column."""
NUMBER_COLUMNS = [f"{kind}{i}" for kind in "id" for i in range(10)]
CATEGORY_COLUMNS = [f"c{i}" for i in range(10)]
EMAIL_COLUMNS = [f"e{i}" for i in range(10)]
COUNTRY_NAMES = [f"C{i:02}" for i in range(50)]
EMAIL_PATTERN = r"^[a-z0-9]+@[a-z]+\.com$"
NOT_BLANK = r"\S"


def table(spark, path: str, rows: int) -> None:
    """Write the table."""

    def hash_sql(salt: int, below: int) -> str:
        return f"pmod(xxhash64(id, {salt}), {below})"

    values = {
        "i": "CAST({0} AS INT)",
        "d": "{0} / 1.0D + 0.25D",
        "c": "concat('C', lpad(pmod({0}, 50), 2, '0'))",
        # One address in a hundred is malformed.
        "e": "concat('user', {0}, IF({0} % 100 = 0, '.', '@'), 'example.com')",
    }
    cells = [
        f"IF({hash_sql(2 * n, 100)} < {NULL_SHARE * 100:.0f}, NULL, {values[name[0]].format(hash_sql(2 * n + 1, 1000))})"
        f" AS {name}"
        for n, name in enumerate([*NUMBER_COLUMNS, *CATEGORY_COLUMNS, *EMAIL_COLUMNS])
    ]
    data = spark.range(0, rows, numPartitions=FILE_COUNT).selectExpr(*cells)
    data.write.mode("overwrite").parquet(path)


def _fails(column: str) -> bool:
    return column.endswith("9")


def _complete(column: str) -> list:
    return ["complete", column, 1.0 if _fails(column) else 0.95]


def _rows() -> Constraints:
    """Return 80 constraints on single rows."""
    return [
        *map(_complete, [*NUMBER_COLUMNS, *CATEGORY_COLUMNS, *EMAIL_COLUMNS]),
        *(["range", c, 0, 500 if _fails(c) else 990, 0.95] for c in NUMBER_COLUMNS),
        *(["set", c, COUNTRY_NAMES[: 25 if _fails(c) else 50], 0.95] for c in CATEGORY_COLUMNS),
        *(["pattern", c, EMAIL_PATTERN, 1.0 if _fails(c) else 0.95] for c in EMAIL_COLUMNS),
    ]


def _metrics() -> Constraints:
    """Return 100 constraints on metrics of a plain aggregation."""
    return [
        *(["min", c, 1 if _fails(c) else 0] for c in NUMBER_COLUMNS),
        *(["max", c, 500 if _fails(c) else 1000] for c in NUMBER_COLUMNS),
        *(["mean", c, 400, 450 if _fails(c) else 600] for c in NUMBER_COLUMNS),
        *(["min_length", c, 4 if _fails(c) else 3] for c in [*CATEGORY_COLUMNS, *EMAIL_COLUMNS]),
        *(["max_length", c, 2 if _fails(c) else 30] for c in [*CATEGORY_COLUMNS, *EMAIL_COLUMNS]),
    ]


ROW_CONSTRAINTS = _rows()
SCAN_CONSTRAINTS = [
    *ROW_CONSTRAINTS,
    *_metrics(),
    *(["pattern", c, NOT_BLANK, 0.95] for c in [*CATEGORY_COLUMNS, *EMAIL_COLUMNS]),
]
MIXED_CONSTRAINTS = [
    *SCAN_CONSTRAINTS[:-20],
    *(["distinct", c, 40 if _fails(c) else 60] for c in CATEGORY_COLUMNS),
    *SCAN_CONSTRAINTS[-10:],
]
CASES = {
    "rows80": ROW_CONSTRAINTS,
    "values80": ROW_CONSTRAINTS,
    "scan200": SCAN_CONSTRAINTS,
    "mixed200": MIXED_CONSTRAINTS,
}
"""Row constraints only, twice; constraints that one scan computes; the same with ten distinct counts."""
WITH_VALUES = ("values80",)
"""The cases in which the verdicts contain the bad values of failed constraints."""


def expected(constraint: list) -> bool:
    """Return whether a constraint holds, from how the table is made; no address is short."""
    kind, column, *_ = constraint
    if not _fails(column):
        return True
    return constraint[2] == NOT_BLANK or (kind == "min_length" and column in EMAIL_COLUMNS)
