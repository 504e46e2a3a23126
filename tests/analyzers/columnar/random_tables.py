"""Random tables for tests of routes: columns of all types, nulls, special values, and several files of a partition.

They are drawn from a seed: strategies of Hypothesis would need too many choices for one scan by Spark.
"""

import datetime as dt
import decimal
from inspect import signature

import pyarrow as pa
import pyarrow.parquet as pq

import tidegauge as tg

OPTIONS_OF_NEW_PYARROW = {"store_decimal_as_integer"} & set(signature(pq.write_table).parameters)
DOUBLES = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-35, 1.5, 1e15]
TEXTS = [
    "", " ", "true", "false", "True", "true ", "1", "-1", "+ 1", "- 1.5", "1e5", "1E-5", "1.", ".5", "1\n",
    "\n1", "١", "é", "😀", "a\x00b", "0x1", "1_000", "NaN", "1e", "--1", "aaaaaaaaaaaaaaaaaaaaaaaaa", "falsefalse",
]  # fmt: skip


def doubles(random):
    """Return a special double, or any."""
    return random.choice(DOUBLES) if random.random() < 0.2 else random.uniform(-1e6, 1e6)


def singles(random):
    """Return a double that a float holds."""
    return pa.scalar(doubles(random), pa.float32()).as_py()


def texts(random):
    """Return a string that tests have met, or a random one."""
    if random.random() < 0.5:
        return random.choice(TEXTS)
    return "".join(
        chr(random.choice([random.randrange(32, 127), 0x20AC, 0x1F600])) for _ in range(5)
    )


def times(random):
    """Return a time between 1900 and 2200."""
    start = dt.datetime(1900, 1, 1)
    return start + dt.timedelta(microseconds=random.randrange(300 * 365 * 86_400_000_000))


def integers(bits):
    """Return a function that draws integers, often small ones and the ends of the range."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def draw(random):
        return random.choice([low, high, 0, 1, -1, random.randint(low, high)])

    return draw


def decimals(precision, scale):
    """Return a function that draws decimals, often those at the limits."""
    largest = 10**precision - 1

    def draw(random):
        n = random.choice([0, 1, -1, largest, -largest, random.randint(-largest, largest)])
        return decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=60))

    return draw


COLUMNS = {
    "flag": (pa.bool_(), lambda r: r.random() < 0.5),
    "tiny": (pa.int8(), integers(8)),
    "small": (pa.int16(), integers(16)),
    "number": (pa.int32(), integers(32)),
    "big": (pa.int64(), integers(64)),
    "unsigned": (pa.uint32(), lambda r: r.randrange(2**32)),
    "single": (pa.float32(), singles),
    "double": (pa.float64(), doubles),
    "price": (pa.decimal128(9, 2), decimals(9, 2)),
    "amount": (pa.decimal128(18, 0), decimals(18, 0)),
    "wide": (pa.decimal128(38, 10), decimals(38, 10)),
    "day": (pa.date32(), lambda r: times(r).date()),
    "instant": (pa.timestamp("us", "UTC"), lambda r: times(r).replace(tzinfo=dt.UTC)),
    "millis": (
        pa.timestamp("ms", "Europe/Berlin"),
        lambda r: times(r).replace(microsecond=0, tzinfo=dt.UTC),
    ),
    "clock": (pa.timestamp("us"), times),
    "text": (pa.string(), texts),
    "word": (pa.dictionary(pa.int32(), pa.string()), lambda r: r.choice(["a", "bb", "1"])),
    "Long Name.x": (pa.large_string(), texts),
    "raw": (pa.binary(), lambda r: r.randbytes(r.randrange(3))),
    "constant": (pa.float64(), lambda _: 0.1),
    "nothing": (pa.int64(), lambda _: None),
}
"""Type of each column, and a function that draws a value."""
MAX_ROWS = 12


def random_table(random, columns, max_rows):
    """Return a table with nulls in some columns."""
    rows = random.choice([0, 1, max_rows, max_rows, random.randrange(max_rows)])
    arrays = {}
    for name in columns:
        kind, draw = COLUMNS[name]
        share = random.choice([0.0, 0.3])
        values = [None if random.random() < share else draw(random) for _ in range(rows)]
        arrays[name] = pa.array(values, kind)
    return pa.table(arrays)


def random_partition(random, *, same_columns, max_rows=MAX_ROWS):
    """Return the files of a partition: tables, each with options of the writer.

    Either all files have all columns in one order, or each file has some columns in any order.
    """

    def columns():
        return tuple(COLUMNS) if same_columns else random.sample(list(COLUMNS), len(COLUMNS) - 5)

    return [
        (
            random_table(random, columns(), max_rows),
            {
                "row_group_size": random.randint(max_rows // 10 + 1, max_rows),
                "use_dictionary": random.random() < 0.5,
                "write_statistics": random.random() < 0.7,
                "data_page_version": random.choice(["1.0", "2.0"]),
                "store_schema": random.random() < 0.5,
                **{name: random.random() < 0.5 for name in OPTIONS_OF_NEW_PYARROW},
            },
        )
        for _ in range(random.choice([1, 1, 2, 3]))
    ]


def write(files, folder):
    """Write the files of a partition to a folder."""
    folder.mkdir(parents=True)
    for i, (table, options) in enumerate(files):
        pq.write_table(table, folder / f"{i}.parquet", **options)


NUMBERS = (
    "tiny",
    "number",
    "big",
    "unsigned",
    "single",
    "double",
    "price",
    "amount",
    "wide",
    "constant",
    "nothing",
)
TIMES = ("day", "instant", "millis", "clock")


CONDITIONS = (
    "big > 0",
    "-1 <= big",
    "number BETWEEN -1.5 AND 1",
    "tiny >= 0 AND tiny < 127.5",
    "small IN (0, 1, 32767)",
    "big = 9223372036854775807",
    "double > 1.5",
    "double <= 1.5",
    "double >= 0 AND double < 1000.5",
    "double = 0",
    "single > 0.1",
    "single IN (1.5, 0)",
    "coalesce(double, 0) >= 0",
    "coalesce(number, 1) > 0",
    "text IN ('true', '1', 'é')",
    "text IS NULL OR text = ''",
    "`Long Name.x` = 'true '",
    "word IS NOT NULL",
    "price > 0",
    "day IS NOT NULL",
    "number >= 0 AND double < 1000.5",
    "number IS NOT NULL AND tiny BETWEEN -1 AND 1 AND text IN ('1', '', 'true')",
    "coalesce(number, 1) > 0 AND (word IS NULL OR word = 'a') AND big > 0",
)
"""Conditions, most of which have a known form."""


def analyzers():
    """Return analyzers of all columns that have a kernel, and some that have none or do not fit."""
    by_column = (
        (tg.Completeness, tg.DataType), (tg.Minimum, tg.Maximum, tg.Sum, tg.StandardDeviation, tg.ZerosCount),
        (tg.MinTime,), (tg.MinLength, tg.MaxLength),
    )  # fmt: skip
    columns = (tuple(COLUMNS), NUMBERS, TIMES, ("text", "word", "Long Name.x"))
    return [
        tg.Size(),
        tg.ColumnCount(),
        tg.Size(where="1 > 0"),
        tg.Mean("text"),
        tg.MaxTime("raw"),
        *(
            kind(f"`{name}`")
            for kinds, names in zip(by_column, columns, strict=True)
            for kind in kinds
            for name in names
        ),
        *(tg.Kurtosis(name) for name in ("number", "double", "constant", "price")),
        *(tg.Range(name) for name in ("big", "single", "wide")),
        *(
            kind("text", null_behavior=behavior)
            for kind in (tg.MinLength, tg.MaxLength)
            for behavior in ("empty", "fail")
        ),
        *(tg.ApproxCountDistinct(f"`{name}`") for name in COLUMNS),
        *(
            tg.ApproxUniqueness(name)
            for name in ("text", "word", "number", "double", "price", "day", "clock")
        ),
        *(tg.ApproxQuantile(name, 0.5) for name in NUMBERS),
        tg.KLLSketch("double"),
        *(tg.Uniqueness(name) for name in ("text", "big", "day", "nothing", "double", "wide")),
        *(tg.Histogram(name) for name in ("word", "flag", "tiny", "text")),
        *(
            tg.Uniqueness(columns)
            for columns in (["word", "flag"], ["text", "tiny", "day"], ["Flag", "double"])
        ),
        tg.CountDistinct(["word", "`Long Name.x`"], where="number IS NOT NULL"),
        tg.MutualInformation(["word", "flag"]),
        *(tg.Compliance(condition, condition) for condition in CONDITIONS),
        *(
            tg.PatternMatch("text", pattern, null_behavior=behavior)
            for pattern in ("^-?[0-9]+", "e*", "[^a-z]$")
            for behavior in ("fail", "empty", "ignore")
        ),
        tg.PatternMatch("word", "b", where="number IS NOT NULL"),
        tg.Size(where="big >= 0"),
        tg.Completeness("text", where="number > 0.5"),
        tg.Sum("number", where="tiny > 0 AND word IN ('a', 'bb')"),
        tg.Sum("price", where="word IN ('a', '1')"),
        tg.MaxLength("text", null_behavior="fail", where="double > 0"),
        tg.DataType("text", where="tiny <= 0"),
        tg.ApproxCountDistinct("day", where="number IS NOT NULL"),
        tg.Uniqueness("word", where="coalesce(single, 0) >= 0"),
        tg.Compliance("both", "text = 'true'", where="flag IS NOT NULL"),
        tg.Mean("number", where="length(text) > 1"),
        tg.ExactQuantile("number", 0.5),
        tg.Correlation("double", "number"),
        tg.Correlation("price", "constant"),
        tg.RatioOfSums("wide", "big"),
    ]
