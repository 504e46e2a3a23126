"""Aggregates over distinct values and their counts, for columns that have few.

Patterns, data types, lengths and conditions look at one value at a time. Where a column has few values,
the rows are grouped by it first, and each value is looked at once; the answers are the same to the bit.
(Sketches are not: what they estimate depends on how many of them were merged.) How many values there
are is expected from the history of the table, or from its first rows. An expectation that is wrong
costs time and changes no answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.core.requests import Aggregate, Request
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import NAMELESS, quote
from tidegauge.analyzers.scan.bisect import is_data_error
from tidegauge.analyzers.scan.cost import PlanCost, distinct_in_first_rows
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX, Answers, ScanJob, aggregated
from tidegauge.analyzers.scan.query_logs import handled_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPS = 5_000
"""Most groups that the rows of a partition are grouped into: so many stay in the processor's cache."""
ROWS_FOR_A_GROUP = 20
"""Fewest rows of a group: with fewer, the groups that are shuffled are as much work as the rows."""
FIRST_ROWS_FOR_A_VALUE = 20
"""Fewest of the first rows for each of their values, by which a column has few."""
MOST_ASKED = 80
"""Most columns of which the first rows are asked."""
COLUMN_NANOSECONDS = 60
"""CPU time to group a row by one more column, the first one counting twice; by `benchmarks.few_values`,
as are the `_COSTS`."""
JOB_NANOSECONDS = 2e8
"""CPU time of one more job, but for what it does with the rows."""

_KINDS = frozenset({"string", "boolean", "date", *INTEGRAL})
"""Types whose values are one group if and only if nothing tells them apart. Zeros, NaN and text with a
collation are not such; decimals are, and have no analyzers that would gain."""

_COSTS = (
    (re.compile(rf"\bRLIKE\s+(?:{NAMELESS})", re.DOTALL), 250),
    (re.compile(rf"\bLIKE\s+(?:{NAMELESS})", re.DOTALL), 60),
    (re.compile(r"\b(?:char|octet)_length\([^()]*\)"), 20),
)
"""Expressions, and the CPU time in nanoseconds to evaluate one on a row. Equal ones are evaluated once."""
_OTHER_COST = 3

_CALL = re.compile(r"(count|count_if|min|max)\((.*)\)", re.DOTALL)
_TOKEN = re.compile(
    rf"(?P<nameless>{NAMELESS})|`(?P<quoted>(?:[^`]|``)*)`|(?P<number>\d+(?:\.\d+)?\w*)"
    r"|(?P<bare>\w+)(?P<called>(?=\s*\())?|(?P<mark>[\s(),=<>!+*/%|-])",
    re.DOTALL,
)
_FUNCTIONS = frozenset({
    "abs", "btrim", "cast", "char_length", "coalesce", "concat", "contains", "endswith", "if",
    "ifnull", "isnotnull", "isnull", "len", "length", "lower", "ltrim", "nullif", "nvl",
    "octet_length", "regexp_like", "replace", "reverse", "rtrim", "startswith", "substr",
    "substring", "trim", "try_cast", "upper", "xxhash64",
})  # fmt: skip
"""Functions of which equal arguments have equal results, unlike ``rand`` and unlike aggregates."""
_WORDS = frozenset({
    "and", "as", "between", "bigint", "boolean", "case", "date", "double", "else", "end", "escape",
    "false", "in", "int", "is", "like", "not", "null", "or", "rlike", "string", "then", "true",
    "when",
})  # fmt: skip
"""Words of conditions and types; one that is a column's name counts as the column."""


@dataclass(frozen=True)
class Expectation:
    """Expected size of the data of a scan, and numbers of distinct values.

    Attributes
    ----------
    rows : float
        Number of rows in all.
    group_rows : float
        Number of rows in each partition.
    distinct : mapping of str to float
        Number of distinct values in each partition, by column in lower case.
    """

    rows: float = 0
    group_rows: float = 0
    distinct: Mapping[str, float] = field(default_factory=dict)


UNKNOWN = Expectation()
"""The expectation where nothing is known: all requests are answered row by row."""


@dataclass(frozen=True)
class CountedAggregation(ScanJob):
    """Aggregates that are computed from the distinct values of columns with their counts.

    Attributes
    ----------
    requests : tuple of Aggregate
        Those that `weighted` has a form for.
    columns : tuple of str
    """

    columns: tuple[str, ...] = ()
    kind: ClassVar[str] = "distinct values"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Group the rows by group and value, and aggregate the values by group."""
        from pyspark.sql import functions as F

        values = map(quote, self.columns)
        counted = groups.with_keys(data).groupBy(*groups.names, *values)
        few = counted.agg(F.expr("count(1)").alias(_COUNT))
        return aggregated(few, groups, self.requests, list(map(weighted, self.requests)))


_COUNT = f"{COLUMN_PREFIX}n"


def weighted(request: Aggregate) -> str:
    """Return the aggregate over distinct values, each with its count, that gives a request's answer.

    Minima and maxima are those of the rows, however often a value is there.

    Examples
    --------
    >>> weighted(Aggregate("max(char_length(`s`))"))
    'max(char_length(`s`))'
    >>> weighted(Aggregate("count(`s`)"))
    'coalesce(sum(CASE WHEN (`s`) IS NOT NULL THEN __tidegauge_n END), 0)'
    """
    call = _CALL.fullmatch(request.text)
    match call and call.groups():
        case ("count", counted):
            held = f"({counted}) IS NOT NULL"
        case ("count_if", condition):  # casts, as a condition of CASE does not
            held = f"CAST(({condition}) AS BOOLEAN)"
        case _:
            return request.text
    return f"coalesce(sum(CASE WHEN {held} THEN {_COUNT} END), 0)"


def candidates(requests: Iterable[Request], schema: Schema) -> dict[Aggregate, frozenset[str]]:
    """Return the requests that distinct values can answer, with all columns that they read, in lower case."""
    every = frozenset(name.casefold() for name in schema.names)
    columns = _columns(schema)
    found: dict[Aggregate, frozenset[str]] = {}
    for request in dict.fromkeys(requests):
        match request:
            case Aggregate(text, None) if call := _CALL.fullmatch(text):
                read = _read_by(call[2], every)
                if read and read <= columns.keys():
                    found[request] = read
    return found


def worthwhile(
    requests: Mapping[Aggregate, frozenset[str]], rows: float
) -> dict[str, list[Aggregate]]:
    """Return the columns that save time if they have few values, with the requests that read only them."""
    own: dict[str, list[Aggregate]] = {}
    for request, read in requests.items():
        if len(read) == 1:
            own.setdefault(min(read), []).append(request)
    return {c: some for c, some in own.items() if _saved(some, rows, 1) > 0}


def counted_jobs(
    requests: Iterable[Request], schema: Schema, expected: Expectation
) -> list[CountedAggregation]:
    """Return the jobs that look at each distinct value once, where that is expected to save time.

    Columns are grouped by together as long as there are few groups. The requests that no job has are
    answered row by row.
    """
    if not expected.distinct:
        return []
    found = candidates(requests, schema)
    packs = list(_packs(worthwhile(found, expected.rows), expected))
    place = {column: i for i, pack in enumerate(packs) for column in pack}
    own: list[list[Aggregate]] = [[] for _ in packs]
    for request, read in found.items():
        places = {place.get(column, -1) for column in read}
        if len(places) == 1 and -1 not in places:
            own[min(places)].append(request)
    columns = _columns(schema)
    return [
        CountedAggregation(tuple(some), tuple(columns[c] for c in pack))
        for some, pack in zip(own, packs, strict=True)
        if _saved(some, expected.rows, len(pack)) > 0
    ]


@handled_errors()
def expected_by_first_rows(
    data: DataFrame, found: Mapping[Aggregate, frozenset[str]], cost: PlanCost
) -> Expectation:
    """Expect the columns of `candidates` to have as many values as in the first rows, if those are few.

    Nothing is expected where the first rows cannot be read: the jobs themselves find out why.
    """
    schema = Schema.from_frame(data)
    rows = cost.rows(len(schema.names))
    columns = _columns(schema)
    asked = list(worthwhile(found, rows))[:MOST_ASKED]
    if not asked:
        return UNKNOWN
    try:
        read, distinct = distinct_in_first_rows(data, [quote(columns[c]) for c in asked])
    except Exception as error:
        if is_data_error(error):
            return UNKNOWN
        raise
    few = {
        column: values
        for column, values in zip(asked, distinct, strict=True)
        if 0 < values * FIRST_ROWS_FOR_A_VALUE <= read
    }
    return Expectation(rows, rows, few)


def _packs(columns: Iterable[str], expected: Expectation) -> Iterator[tuple[str, ...]]:
    """Yield columns to group by together, those of the fewest values first."""
    limit = min(GROUPS, expected.group_rows / ROWS_FOR_A_GROUP)
    pack: list[str] = []
    product = 1.0
    for column in sorted(columns, key=lambda c: (expected.distinct.get(c, inf), c)):
        values = expected.distinct.get(column, inf) + 1  # and null
        if values > limit:
            break
        if pack and product * values > limit:
            yield tuple(sorted(pack))
            pack, product = [], 1.0
        pack.append(column)
        product *= values
    if pack:
        yield tuple(sorted(pack))


def _saved(requests: Sequence[Aggregate], rows: float, columns: int) -> float:
    """Return the CPU time in nanoseconds that is saved when rows are grouped by some columns first."""
    each = _OTHER_COST * len(requests)
    for expression, cost in _COSTS:
        each += cost * len({m[0] for r in requests for m in expression.finditer(r.text)})
    return rows * (each - COLUMN_NANOSECONDS * (columns + 1)) - JOB_NANOSECONDS


def _columns(schema: Schema) -> dict[str, str]:
    """Return the columns whose values can stand for their rows, by their names in lower case."""
    count = Counter(name.casefold() for name in schema.names)
    return {
        name.casefold(): name
        for name in schema.names
        if count[name.casefold()] == 1
        and not name.casefold().startswith(COLUMN_PREFIX)
        and (of := schema.field(quote(name))).kind in _KINDS
        and not of.collated
    }


def _read_by(sql: str, columns: Collection[str]) -> frozenset[str] | None:
    """Return all columns that SQL reads, in lower case, if it is one expression that depends on them alone.

    Every word that is a column's name counts as the column; None if there is anything unknown.
    """
    read: set[str] = set()
    end = depth = 0
    for token in _TOKEN.finditer(sql):
        name = _name_of(token)
        if token.start() != end or not (name in columns or _is_known(token)):
            return None
        if name in columns:
            read.add(name)
        end = token.end()
        depth += (token["mark"] == "(") - (token["mark"] == ")")
        if depth < 0 or (depth == 0 and token["mark"] == ","):
            return None
    return frozenset(read) if end == len(sql) else None


def _name_of(token: re.Match[str]) -> str:
    """Return what may be a column's name, in lower case; empty for all else, and for a function's."""
    if token["quoted"] is not None:
        return token["quoted"].replace("``", "`").casefold()
    if token["called"] is not None:
        return ""
    return (token["bare"] or token["number"] or "").casefold()


def _is_known(token: re.Match[str]) -> bool:
    """Return whether a token that names no column means the same on every row."""
    if token["quoted"] is not None:
        return False
    if token["bare"]:
        word = token["bare"].casefold()
        return word in _WORDS or (token["called"] is not None and word in _FUNCTIONS)
    # Comments may end elsewhere in Spark, and a text in double quotes may be a name.
    return not (token["nameless"] or "").startswith(('"', "--", "/*"))
