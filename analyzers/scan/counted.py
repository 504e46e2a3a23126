"""Aggregates over distinct values and their counts, for columns that have few.

Patterns, data types, lengths and distinct counts look at one value at a time. Where a column has few
values, the rows are grouped by it first, and each value is looked at once; the answers are the same to
the bit. How many values there are is expected from the history of the table, or from its first rows.
An expectation that is wrong costs time and changes no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.core.requests import (
    ROWS,
    Aggregate,
    Request,
    Sketch,
    texts_of,
)
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import NAMELESS, names_in, quote
from tidegauge.analyzers.scan.capabilities import Capabilities
from tidegauge.analyzers.scan.cost import PlanCost, distinct_in_first_rows
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX, Answers, ScanJob, aggregated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPS = 5_000
"""Most groups that rows are grouped into: a table of so many stays in the processor's cache."""
ROWS_FOR_A_GROUP = 20
"""Fewest rows of a group: with fewer, the groups that are shuffled are as much work as the rows."""
COLUMN_NANOSECONDS = 60
"""CPU time to group a row by one more column, the first one counting twice; by `benchmarks.few_values`,
as are the `_COSTS`."""
JOB_NANOSECONDS = 2e8
"""CPU time that one more job takes, whatever its rows."""

_KINDS = frozenset({"string", "boolean", "date", *INTEGRAL})
"""Types whose values are one group if and only if nothing tells them apart. Zeros, NaN and text with a
collation are not such; decimals are, and have no analyzers that would gain."""

_COSTS = (
    (re.compile(rf"\S+ RLIKE (?:{NAMELESS})", re.DOTALL), 250),
    (re.compile(rf"\S+ LIKE (?:{NAMELESS})", re.DOTALL), 60),
    (re.compile(r"(?:char|octet)_length\([^()]*\)"), 20),
)
"""Expressions, and the CPU time in nanoseconds to evaluate one on a row. Equal ones are evaluated once."""
_SKETCH_COST, _OTHER_COST = 120, 3

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
    """Aggregates and sketches that are computed from the distinct values of columns with their counts.

    Attributes
    ----------
    requests : tuple of Aggregate or Sketch
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


def weighted(request: Aggregate | Sketch) -> str:
    """Return the aggregate over distinct values, each with its count, that gives a request's answer.

    Examples
    --------
    >>> weighted(Aggregate("max(char_length(`s`))"))
    'max(char_length(`s`))'
    >>> weighted(Aggregate("count(`s`)"))
    'coalesce(sum(CASE WHEN (`s`) IS NOT NULL THEN __tidegauge_n END), 0)'
    """
    call = None if isinstance(request, Sketch) else _CALL.fullmatch(request.text)
    match call and call.groups():
        case ("count", counted):
            held = f"({counted}) IS NOT NULL"
        case ("count_if", condition):
            held = condition
        case _:  # a minimum, a maximum or a set of values: no matter how often there is one
            return request.text
    return f"coalesce(sum(CASE WHEN {held} THEN {_COUNT} END), 0)"


def candidates(
    requests: Iterable[Request], schema: Schema, session: Capabilities
) -> dict[Request, frozenset[str]]:
    """Return the requests that distinct values can answer, with the columns that they read, in lower case."""
    columns = _columns(schema)
    found: dict[Request, frozenset[str]] = {}
    for request in dict.fromkeys(requests):
        match request:
            case Aggregate(text, None) if request != ROWS and (call := _CALL.fullmatch(text)):
                sql = call[2]
            case Sketch("hll", sql, elements=False) if session.is_native(request):
                pass
            case _:
                continue
        read = names_in(sql) & columns.keys()
        if read and _looks_at_values(sql, columns):
            found[request] = frozenset(read)
    return found


def worthwhile(requests: Mapping[Request, frozenset[str]], rows: float) -> dict[str, list[Request]]:
    """Return the columns that save time if they have few values, with the requests that read only them."""
    own: dict[str, list[Request]] = {}
    for request, read in requests.items():
        if len(read) == 1:
            own.setdefault(min(read), []).append(request)
    return {c: some for c, some in own.items() if _saved(some, rows, 1) > 0}


def counted_jobs(
    requests: Iterable[Request], schema: Schema, session: Capabilities, expected: Expectation
) -> list[CountedAggregation]:
    """Return the jobs that look at each distinct value once, where that is expected to save time.

    Columns are grouped by together as long as there are few groups. The requests that no job has are
    answered row by row.
    """
    if not expected.distinct:
        return []
    found = candidates(requests, schema, session)
    columns, jobs = _columns(schema), []
    for pack in _packs(worthwhile(found, expected.rows), expected):
        own = [request for request, read in found.items() if read <= pack]
        if _saved(own, expected.rows, len(pack)) > 0:
            names = tuple(columns[c] for c in sorted(pack))
            jobs.append(CountedAggregation(tuple(own), names))
    return jobs


def expected_by_first_rows(
    data: DataFrame, requests: Sequence[Request], session: Capabilities, cost: PlanCost
) -> Expectation:
    """Expect the columns to have as many values as in the first rows, if those are few."""
    schema = Schema.from_frame(data)
    rows = cost.rows(len(schema.names))
    columns = _columns(schema)
    asked = list(worthwhile(candidates(requests, schema, session), rows))
    if not asked:
        return UNKNOWN
    read, found = distinct_in_first_rows(data, [quote(columns[c]) for c in asked])
    few = {c: n for c, n in zip(asked, found, strict=True) if n * ROWS_FOR_A_GROUP <= read}
    return Expectation(rows, rows, few)


def _packs(columns: Iterable[str], expected: Expectation) -> Iterator[frozenset[str]]:
    """Yield columns to group by together, those of the fewest values first."""
    limit = min(GROUPS, expected.group_rows / ROWS_FOR_A_GROUP)
    pack: list[str] = []
    product = 1.0
    for column in sorted(columns, key=lambda c: (expected.distinct.get(c, inf), c)):
        values = expected.distinct.get(column, inf) + 1  # and null
        if values > limit:
            break
        if pack and product * values > limit:
            yield frozenset(pack)
            pack, product = [], 1.0
        pack.append(column)
        product *= values
    if pack:
        yield frozenset(pack)


def _saved(requests: Sequence[Request], rows: float, columns: int) -> float:
    """Return the CPU time in nanoseconds that is saved when rows are grouped by some columns first."""
    texts = [text for request in requests for text in texts_of(request)]
    sketches = sum(isinstance(request, Sketch) for request in requests)
    each = _OTHER_COST * len(texts) + _SKETCH_COST * sketches
    for expression, cost in _COSTS:
        each += cost * len({m[0] for text in texts for m in expression.finditer(text)})
    return rows * (each - COLUMN_NANOSECONDS * (columns + 1)) - JOB_NANOSECONDS


def _columns(schema: Schema) -> dict[str, str]:
    """Return the columns whose values can stand for their rows, by their names in lower case."""
    every = [name.casefold() for name in schema.names]
    fields = (schema.field(quote(name)) for name in schema.names)
    return {
        name: actual
        for name, actual, of in zip(every, schema.names, fields, strict=True)
        if of.kind in _KINDS and not of.collated and every.count(name) == 1
    }


def _looks_at_values(sql: str, columns: Mapping[str, str]) -> bool:
    """Return whether SQL is one expression that depends on the values of these columns alone."""
    end = depth = 0
    for token in _TOKEN.finditer(sql):
        if token.start() != end or not _is_known(token, columns):
            return False
        end = token.end()
        depth += (token["mark"] == "(") - (token["mark"] == ")")
        if depth < 0 or (depth == 0 and token["mark"] == ","):
            return False
    return end == len(sql)


def _is_known(token: re.Match[str], columns: Mapping[str, str]) -> bool:
    if token["quoted"] is not None:
        return token["quoted"].replace("``", "`").casefold() in columns
    if token["bare"]:
        word = token["bare"].casefold()
        return word in _WORDS or word in (_FUNCTIONS if token["called"] is not None else columns)
    # A text in double quotes is a name where a setting says so.
    return not (token["nameless"] or "").startswith('"')
