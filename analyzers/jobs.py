"""The kinds of Spark jobs that a scan is made of. Each answers like requests in one pass."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from analyzers.frequencies import COUNT, FrequenciesAndNumRows
from analyzers.groups import Groups, Key, slices
from analyzers.requests import (
    SIDES,
    Aggregate,
    Frequencies,
    Lookup,
    Masks,
    Match,
    ReqSketch,
    Request,
)
from analyzers.schema import Schema
from analyzers.sketch_worker import sketch_builder
from analyzers.sql import count_rows, names_in, where_holds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

R = TypeVar("R")
Answers = dict[Request, dict[Key, Any]]

OWN = "__tidegauge_"
PLAIN_BUFFERS = 60
"""Buffer fields of one job of plain aggregations. Above about a hundred Spark stops generating code
for the aggregate, which was measured to cost 1.6 to 2 times the CPU; below, Java compiles smaller
programs better: jobs of 60 took a fifth less than jobs of 90."""
SKETCHES = 24
"""Sketches of one job; they keep objects, not buffer fields, and are bounded for executor memory."""

_FUNCTION = re.compile(r"\(*(?:(?:CAST|unix_micros|unix_date)\(+)*(\w+)\(")
_BUFFERS = {
    "avg": 2, "count": 1, "count_if": 1, "max": 1, "min": 1, "sum": 1, "try_sum": 2, "var_pop": 3,
    "skewness": 4, "kurtosis": 5, "regr_count": 1, "regr_avgx": 2, "regr_avgy": 2,
}  # fmt: skip
_MOST_BUFFERS = 6
_SKETCH = re.compile(r"\w+_sketch_agg|approx_top_k")


@dataclass(frozen=True)
class Job(ABC):
    """Requests that one Spark action answers.

    Attributes
    ----------
    requests : tuple of Request
        All of one kind.
    """

    requests: tuple[Any, ...]
    kind: ClassVar[str]

    def only(self, requests: Iterable[Request]) -> Self:
        """Return the job for some of the requests."""
        return replace(self, requests=tuple(requests))

    @abstractmethod
    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Answer all requests, or raise what Spark does."""


@dataclass(frozen=True)
class Aggregation(Job):
    """Aggregate expressions over the rows that one condition lets through."""

    kind: ClassVar[str] = "aggregate"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Compute them, grouped."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

        rows = self.requests[0].rows
        data = data if rows is None else data.where(rows)
        cells = [
            F.expr(request.text).alias(f"{OWN}c{i}") for i, request in enumerate(self.requests)
        ]
        found = groups.aggregated(groups.keyed(data), cells).collect()
        keys = [groups.key_of(row) for row in found]
        width = len(groups.names)
        columns = zip(*(row[width:] for row in found), strict=True)
        answers: Answers = {request: {} for request in self.requests}
        for request, column in zip(self.requests, columns, strict=False):
            answers[request] = dict(zip(keys, column, strict=True))
        return answers


@dataclass(frozen=True)
class Grouping(Job):
    """Frequencies of the same expressions, once for each filter; one shuffle."""

    kind: ClassVar[str] = "frequencies"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the groups, and cut them into those of each partition."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        expressions = self.requests[0].expressions
        columns = [f"{OWN}g{i}" for i in range(len(expressions))]
        keyed = groups.keyed(
            data, *(f"{e} AS {n}" for e, n in zip(expressions, columns, strict=True))
        )
        counts = [
            F.expr(count_rows(request.where)).alias(f"{OWN}c{i}")
            for i, request in enumerate(self.requests)
        ]
        table = groups.aggregated(keyed, counts, columns).toArrow()
        parts = [(groups.key_of(key), rows) for key, rows in slices(table, groups.names)]
        return {
            request: {key: _frequencies(rows, len(columns), f"{OWN}c{i}") for key, rows in parts}
            for i, request in enumerate(self.requests)
        }


@dataclass(frozen=True)
class Sketching(Job):
    """REQ sketches, which each task builds of its rows in Python. The answers are lists of bytes."""

    kind: ClassVar[str] = "Python sketches"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Build the sketches, one for each task and group."""
        names = groups.names
        values = [f"{request.values} AS {OWN}v{i}" for i, request in enumerate(self.requests)]
        keyed = groups.keyed(data, *values, as_text=True)
        keyed = keyed.select(*names, *(f"{OWN}v{i}" for i in range(len(values))))
        parameters = [(request.k, request.high_ranks) for request in self.requests]
        build = sketch_builder(len(groups.by), len(groups.segments), parameters)
        made = keyed.mapInArrow(build, "key array<string>, request int, sketch binary")
        answers: Answers = {request: {} for request in self.requests}
        for key, number, sketch in made.collect():
            cell = answers[self.requests[number]]
            cell.setdefault(groups.key_of(key), []).append(bytes(sketch))
        return answers


@dataclass(frozen=True)
class Joining(Job):
    """A lookup in another table. The answer is how many rows were found, of how many."""

    kind: ClassVar[str] = "join"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Join the distinct rows of the other table, and count what found one."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        (request,) = self.requests
        joined = self.joined(data, groups)
        known = f"{OWN}known"
        counts = [
            f"count_if({where_holds(request.where, f'{OWN}found AND {known}')})",
            f"count_if({where_holds(request.where, known)})",
        ]
        cells = [F.expr(count).alias(f"{OWN}c{i}") for i, count in enumerate(counts)]
        found = groups.aggregated(joined, cells).collect()
        return {request: {groups.key_of(row): tuple(row[-2:]) for row in found}}

    def joined(self, data: DataFrame, groups: Groups) -> DataFrame:
        """Return the data with whether each row has a key, and whether it was found."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        (request,) = self.requests
        n = len(request.expressions)
        other = [f"{column} AS {OWN}r{i}" for i, column in enumerate(request.columns)]
        reference = data.sparkSession.table(request.table).selectExpr(*other).distinct()
        own = [f"{e} AS {OWN}x{i}" for i, e in enumerate(request.expressions)]
        there = " AND ".join(f"{e} IS NOT NULL" for e in request.expressions)
        known = "true" if request.nulls else there
        keyed = groups.keyed(data, *own, f"({known}) AS {OWN}known")
        same = "<=>" if request.nulls else "="
        condition = " AND ".join(f"{OWN}x{i} {same} {OWN}r{i}" for i in range(n))
        return keyed.join(
            reference.selectExpr("*", f"true AS {OWN}found"), F.expr(condition), "left"
        )


@dataclass(frozen=True)
class Matching(Job):
    """Rows that match in another table. The answer is how many do, of how many.

    Whether there is a match is asked for each row, so rows of the other table that are equal count once. Of
    the forms that Spark has for it this takes the least CPU, and it sorts, so tables may exceed the memory.
    """

    kind: ClassVar[str] = "match"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Look for a match of each row, and count."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        (request,) = self.requests
        counts = (f"count_if({OWN}found)", "count(1)")
        cells = [F.expr(count).alias(f"{OWN}c{i}") for i, count in enumerate(counts)]
        found = groups.aggregated(self.joined(data, groups), cells).collect()
        return {request: {groups.key_of(row): tuple(row[-2:]) for row in found}}

    def joined(self, data: DataFrame, groups: Groups) -> DataFrame:
        """Return the data with whether each row has a match."""
        (request,) = self.requests
        other = data.sparkSession.table(request.table)
        condition = request.condition(Schema.of_frame(data), Schema.of_frame(other))
        condition = condition.replace("{", "{{").replace("}", "}}")  # braces name frames
        own, others = SIDES
        sql = (
            f"SELECT {own}.*, EXISTS (SELECT 1 FROM {{other}} AS {others} WHERE {condition})"  # noqa: S608 - quoted by whoever made it
            f" AS {OWN}found FROM {{data}} AS {own}"
        )
        return data.sparkSession.sql(sql, data=groups.keyed(data), other=other)


@dataclass(frozen=True)
class Masking(Job):
    """Rules and fixes of a `DQM`. The answer is a `Tally`."""

    kind: ClassVar[str] = "record rules"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the combinations of broken rules."""
        from analyzers.rules.tally import tally  # noqa: PLC0415 - it needs the scan's parts

        (request,) = self.requests
        return {request: tally(data, request.tasks, groups)}


def jobs_for(requests: Iterable[Request]) -> list[Job]:
    """Sort requests into jobs.

    Plain aggregations are packed so that Spark generates code for each job, those of one column
    together, so that few columns are read twice; sketches go apart from them; frequencies of the same
    expressions share a shuffle.
    """
    plain: dict[str | None, list[Aggregate]] = {}
    sketches: dict[str | None, list[Aggregate]] = {}
    frequencies: dict[tuple[str, ...], list[Frequencies]] = {}
    python: list[ReqSketch] = []
    jobs: list[Job] = []
    for request in dict.fromkeys(requests):
        match request:
            case Aggregate(text, rows):
                kind = sketches if _SKETCH.match(text) else plain
                kind.setdefault(rows, []).append(request)
            case Frequencies(expressions):
                frequencies.setdefault(expressions, []).append(request)
            case ReqSketch():
                python.append(request)
            case Lookup():
                jobs.append(Joining((request,)))
            case Match():
                jobs.append(Matching((request,)))
            case Masks():
                jobs.append(Masking((request,)))
    made: list[Job] = []
    for some in plain.values():
        made += [Aggregation(pack) for pack in _packed(by_column(some), PLAIN_BUFFERS, buffers)]
    for some in sketches.values():
        pack = _packed([[request] for request in some], SKETCHES, lambda _: 1)
        made += map(Aggregation, pack)
    made += [Grouping(tuple(some)) for some in frequencies.values()]
    made += map(Sketching, _packed([[request] for request in python], SKETCHES, lambda _: 1))
    return made + jobs


def by_column(requests: Iterable[Aggregate]) -> list[list[Aggregate]]:
    """Sort aggregations by the columns that they read."""
    found: dict[frozenset[str], list[Aggregate]] = {}
    for request in requests:
        found.setdefault(frozenset(names_in(request.text)), []).append(request)
    return list(found.values())


def buffers(request: Aggregate) -> int:
    """Return how many buffer fields an aggregation takes; of what is not known, many."""
    function = _FUNCTION.match(request.text)
    return _BUFFERS.get(function[1], _MOST_BUFFERS) if function else _MOST_BUFFERS


def _packed(
    bundles: Iterable[Sequence[R]], limit: int, cost: Callable[[R], int]
) -> Iterator[tuple[R, ...]]:
    """Fill jobs with bundles up to a limit; only a bundle that exceeds it alone is cut.

    Jobs of whole columns read each column once. They also tend to have one layout, for which Spark
    generates, and Java compiles, one program: measured to take a third less CPU.
    """
    pack: list[R] = []
    total = 0
    for bundle in bundles:
        need = sum(map(cost, bundle))
        if pack and total + need > limit:
            yield tuple(pack)
            pack, total = [], 0
        for request in bundle:
            if pack and total + cost(request) > limit:
                yield tuple(pack)
                pack, total = [], 0
            pack.append(request)
            total += cost(request)
    if pack:
        yield tuple(pack)


def _frequencies(rows: pa.Table, width: int, count: str) -> FrequenciesAndNumRows:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    rows = rows.filter(pc.greater(rows[count], 0))
    nulls = pc.is_null(rows[f"{OWN}g0"])
    for i in range(1, width):
        nulls = pc.and_(nulls, pc.is_null(rows[f"{OWN}g{i}"]))
    groups = rows.filter(pc.invert(nulls))
    columns = {str(i): groups[f"{OWN}g{i}"].combine_chunks() for i in range(width)}
    counts = groups[count].combine_chunks().cast(pa.int64())
    num_rows = pc.sum(counts).as_py() or 0
    num_nulls = pc.sum(rows.filter(nulls)[count]).as_py() or 0
    if not num_rows:
        return FrequenciesAndNumRows(num_nulls=num_nulls)
    return FrequenciesAndNumRows(pa.table({**columns, COUNT: counts}), num_rows, num_nulls)
