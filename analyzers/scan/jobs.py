"""Spark jobs of a scan. Each kind of job computes similar requests in one pass.

`jobs_for` packs the requests into jobs. Two kinds of requests have a job of their own. `Comparing`
compares the scanned data with another table, by key and column; `Querying` runs users' queries over it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from tidegauge.analyzers.core.analyzer import (
    SIDES,
    Aggregate,
    CustomRequest,
    Frequencies,
    Lookup,
    Match,
    Request,
    Sketch,
    WorkerRequest,
)
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.registry import resolve
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import count_rows, names_in, where_holds
from tidegauge.analyzers.measures.counts import KeyedComparison
from tidegauge.analyzers.measures.custom import CustomQuery
from tidegauge.analyzers.measures.frequencies import COUNT, FrequenciesAndNumRows, GroupSizes
from tidegauge.analyzers.measures.histogram import ADDENDS, SUM
from tidegauge.analyzers.scan.capabilities import Capabilities, mostly_distinct, to_arrow
from tidegauge.analyzers.scan.grouping import Groups, Key, filter_partitions, split_by_groups
from tidegauge.analyzers.scan.sketch_worker import PARTIAL_SCHEMA, sketch_builder, sketch_merger
from tidegauge.analyzers.scan.user_sql import Views

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


R = TypeVar("R")
Answers = dict[Request, dict[Key, Any]]

COLUMN_PREFIX = "__tidegauge_"
TARGET_BUFFERS = 60
"""Number of buffer fields up to which a job of plain aggregates is filled with further columns. The JIT
compiles smaller programs better: on a wide table, jobs of 60 took a fifth less CPU than jobs of 90."""
MAX_BUFFERS = 90
"""Number of buffer fields up to which a job takes further aggregates of columns that it already reads. On a
narrow table a second pass costs more. At about a hundred fields, Spark's code becomes too large to be
compiled, and the job takes 2 to 7 times the CPU."""
MAX_NARROW_COLUMNS = 8
"""Up to this number of columns, a single job of `MAX_BUFFERS` reads them all. Measured: on 8 columns a
second pass costs more than the larger program; on 40 columns two jobs took a sixth less CPU than one."""
MAX_SMALL_REQUESTS = 150
"""Maximum number of aggregates and sketches in the single job for small data."""
MAX_JOB_SKETCHES = 24
"""Maximum number of sketches in one job. It bounds executor memory, since sketches hold objects rather
than buffer fields."""

_OUTER_FUNCTION = re.compile(r"\(*(?:(?:CAST|unix_micros|unix_date)\(+)*(\w+)\(")
_BUFFERS_BY_FUNCTION = {
    "avg": 2, "count": 1, "count_if": 1, "max": 1, "min": 1, "sum": 1, "try_sum": 2, "var_pop": 3,
    "skewness": 4, "kurtosis": 5, "regr_count": 1, "regr_sxx": 3, "regr_sxy": 4, "regr_syy": 3,
}  # fmt: skip
_UNKNOWN_BUFFERS = 6


@dataclass(frozen=True)
class ScanJob(ABC):
    """Requests of one kind that are computed by one Spark action.

    Attributes
    ----------
    requests : tuple of Request
        The requests.
    kind : str
        Name of the kind of job, for display.
    """

    requests: tuple[Any, ...]
    kind: ClassVar[str]

    def only(self, requests: Iterable[Request]) -> Self:
        """Return the same job restricted to the given requests."""
        return replace(self, requests=tuple(requests))

    @abstractmethod
    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Compute all requests by group. Errors of Spark are raised unchanged."""

    def check(self, data: DataFrame) -> None:  # noqa: B027 - most requests are checked together
        """Raise Spark's error if the requests cannot be resolved, without reading data.

        The base class does nothing.
        """


@dataclass(frozen=True)
class Aggregation(ScanJob):
    """Aggregate expressions over the rows that pass one filter; for small data, sketches as well."""

    kind: ClassVar[str] = "aggregate"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Compute the aggregates by group."""
        filters = {r.rows for r in self.requests if isinstance(r, Aggregate)}
        # Sketches share a job only with unfiltered aggregates.
        rows = filters.pop() if filters else None
        data = data if rows is None else data.where(rows)
        expressions = [request.text for request in self.requests]
        return aggregated(groups.with_keys(data), groups, self.requests, expressions)


@dataclass(frozen=True)
class NativeSketching(ScanJob):
    """Sketches that Spark's own aggregate functions build. The results are lists of bytes."""

    kind: ClassVar[str] = "sketches"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Build the sketches by group.

        Their values are computed as columns of a projection, for which Spark generates code. Expressions
        inside the functions would be interpreted, which took up to half as long again.
        """
        values = list(dict.fromkeys(request.values for request in self.requests))
        names = {value: f"{COLUMN_PREFIX}v{i}" for i, value in enumerate(values)}
        columns = (f"{value} AS {name}" for value, name in names.items())
        expressions = [
            replace(request, values=names[request.values]).text for request in self.requests
        ]
        return aggregated(groups.with_keys(data, *columns), groups, self.requests, expressions)


def aggregated(
    keyed: DataFrame,
    groups: Groups,
    requests: Sequence[Aggregate | Sketch],
    expressions: Sequence[str],
) -> Answers:
    """Compute the aggregates that answer requests by group, in one action.

    Parameters
    ----------
    keyed : DataFrame
        The data, with the grouping columns of ``groups``.
    groups : Groups
        The grouping.
    requests : sequence of Aggregate or Sketch
        The requests.
    expressions : sequence of str
        For each request, the SQL aggregate that answers it.
    """
    from pyspark.sql import functions as F

    cells = [F.expr(sql).alias(f"{COLUMN_PREFIX}c{i}") for i, sql in enumerate(expressions)]
    rows = groups.aggregated(keyed, cells).collect()
    keys = [groups.key_of(row) for row in rows]
    width = len(groups.names)
    columns = zip(*(row[width:] for row in rows), strict=True)
    answers: Answers = {request: {} for request in requests}
    for request, column in zip(requests, columns, strict=False):
        values = map(_sketch_list, column) if isinstance(request, Sketch) else column
        answers[request] = dict(zip(keys, values, strict=True))
    return answers


def _sketch_list(sketch: Any) -> list[bytes]:
    return [] if sketch is None else [bytes(sketch)]


@dataclass(frozen=True)
class Grouping(ScanJob):
    """Frequencies of the same expressions, one count per filter, in one shuffle."""

    kind: ClassVar[str] = "frequencies"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the distinct values and split the counts by group."""
        from pyspark.sql import functions as F

        expressions = self.requests[0].expressions
        columns = [f"{COLUMN_PREFIX}g{i}" for i in range(len(expressions))]
        keyed = groups.with_keys(
            data, *(f"{e} AS {n}" for e, n in zip(expressions, columns, strict=True))
        )
        cells = [
            F.expr(sql).alias(f"{COLUMN_PREFIX}{name}{i}")
            for i, request in enumerate(self.requests)
            for name, sql in _group_cells(request).items()
        ]
        table = to_arrow(groups.aggregated(keyed, cells, columns))
        parts = [(groups.key_of(key), rows) for key, rows in split_by_groups(table, groups.names)]
        return {
            request: {key: _read_frequencies(rows, request, i) for key, rows in parts}
            for i, request in enumerate(self.requests)
        }


@dataclass(frozen=True)
class SizeCounting(ScanJob):
    """Sizes of the groups by some expressions, and by subsets of these expressions.

    Spark counts the groups by their size, so that it returns few rows regardless of the number of groups. Groups
    by a subset are derived from the full groups, in a shuffle that Spark reuses, so the data is read once.
    If nearly all rows differ, they are shuffled before they are grouped: grouping within each task first
    would not reduce them, and took 1.7 times the CPU for a key of 6M rows.

    Attributes
    ----------
    requests : tuple of Frequencies
        The requests.
    sampled : bool
        Whether to read the first rows beforehand to find out whether most rows differ.
    """

    sampled: bool = False
    kind: ClassVar[str] = "group sizes"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the groups by size."""
        from pyspark.sql import functions as F

        distinct_expressions = dict.fromkeys(
            e for request in self.requests for e in request.expressions
        )
        columns = {e: f"{COLUMN_PREFIX}g{i}" for i, e in enumerate(distinct_expressions)}
        filters = dict.fromkeys(request.where for request in self.requests)
        sizes = {where: f"{COLUMN_PREFIX}c{i}" for i, where in enumerate(filters)}
        keyed = groups.with_keys(data, *(f"{e} AS {name}" for e, name in columns.items()))
        keyed = keyed.where(_not_all_null(columns.values()))
        if self.sampled and mostly_distinct(keyed, list(columns.values())):
            keyed = keyed.repartition(*columns.values())
        counts = [F.expr(count_rows(where)).alias(size) for where, size in sizes.items()]
        counted = groups.aggregated(keyed, counts, list(columns.values()))
        # Each part has all counts, needed or not: parts with different aggregates would not share a shuffle.
        sums = [F.sum(size).alias(size) for size in sizes.values()]
        parts: dict[tuple[str, ...], DataFrame] = {}
        for expressions in dict.fromkeys(request.expressions for request in self.requests):
            names = [columns[e] for e in expressions]
            part = counted
            if len(names) < len(columns):
                part = part.where(_not_all_null(names)).groupBy(*groups.names, *names).agg(*sums)
            by_size = part.groupBy(*groups.names, *sizes.values())
            part_number = F.lit(len(parts)).alias(_PART_COLUMN)
            parts[expressions] = by_size.agg(F.expr("count(1)").alias(COUNT)).select(
                "*", part_number
            )
        rows = reduce(lambda a, b: a.unionAll(b), parts.values()).collect()
        numbers = {expressions: i for i, expressions in enumerate(parts)}
        answers: Answers = {}
        for request in self.requests:
            number, size = numbers[request.expressions], sizes[request.where]
            cells: dict[Key, Counter[int]] = {}
            for row in rows:
                if row[_PART_COLUMN] == number and row[size]:
                    cells.setdefault(groups.key_of(row), Counter())[row[size]] += row[COUNT]
            answers[request] = {key: GroupSizes.from_counts(cell) for key, cell in cells.items()}
        return answers


_PART_COLUMN = f"{COLUMN_PREFIX}part"


def _not_all_null(columns: Iterable[str]) -> str:
    return " OR ".join(f"{name} IS NOT NULL" for name in columns)


def nested(requests: Iterable[Frequencies]) -> list[tuple[Frequencies, ...]]:
    """Group requests so that the expressions of the first request in each group include those of all others."""
    nests: list[list[Frequencies]] = []
    for request in sorted(requests, key=lambda r: len(r.expressions), reverse=True):
        expressions = set(request.expressions)
        wider = next(
            (members for members in nests if expressions <= set(members[0].expressions)), None
        )
        if wider is None:
            nests.append([request])
        else:
            wider.append(request)
    return [tuple(members) for members in nests]


@dataclass(frozen=True)
class WorkerSketching(ScanJob):
    """Sketches that Python workers build. The results are lists of bytes.

    Each task builds one sketch per group and request. The sketches are shuffled by group and merged, so that
    the driver receives one of each, regardless of the number of tasks.
    """

    kind: ClassVar[str] = "Python sketches"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Build the sketches by group."""
        names = groups.names
        values = [
            f"{request.values} AS {COLUMN_PREFIX}v{i}" for i, request in enumerate(self.requests)
        ]
        keyed = groups.with_keys(data, *values, as_text=True)
        keyed = keyed.select(*names, *(f"{COLUMN_PREFIX}v{i}" for i in range(len(values))))
        parameters = [(request.kind, request.size) for request in self.requests]
        build = sketch_builder(len(groups.columns), len(groups.segments), parameters)
        partial = keyed.mapInArrow(build, PARTIAL_SCHEMA).repartition("key", "request")
        merged = partial.mapInArrow(sketch_merger(parameters), PARTIAL_SCHEMA)
        answers: Answers = {request: {} for request in self.requests}
        for key, number, sketch in merged.collect():
            answers[self.requests[number]][groups.key_of(key)] = [bytes(sketch)]
        return answers


@dataclass(frozen=True)
class Joining(ScanJob):
    """A lookup of keys in another table.

    The result contains the number of rows found and the number of rows with a key.
    """

    kind: ClassVar[str] = "join"

    def check(self, data: DataFrame) -> None:
        """Raise Spark's error if the join cannot be resolved."""
        self.joined(data, Groups()).schema  # noqa: B018 - forces resolution

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Left join with the distinct keys of the other table, and count the matches."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        joined = self.joined(data, groups)
        has_key = f"{COLUMN_PREFIX}known"
        counts = [
            f"count_if({where_holds(request.where, f'{COLUMN_PREFIX}found AND {has_key}')})",
            f"count_if({where_holds(request.where, has_key)})",
        ]
        cells = [F.expr(count).alias(f"{COLUMN_PREFIX}c{i}") for i, count in enumerate(counts)]
        rows = groups.aggregated(joined, cells).collect()
        return {request: {groups.key_of(row): tuple(row[-2:]) for row in rows}}

    def joined(self, data: DataFrame, groups: Groups) -> DataFrame:
        """Return the data with flags for whether each row has a key and whether it was found."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        n = len(request.expressions)
        reference_columns = [
            f"{column} AS {COLUMN_PREFIX}r{i}" for i, column in enumerate(request.columns)
        ]
        reference = data.sparkSession.table(request.table).selectExpr(*reference_columns).distinct()
        key_columns = [f"{e} AS {COLUMN_PREFIX}x{i}" for i, e in enumerate(request.expressions)]
        not_null = " AND ".join(f"{e} IS NOT NULL" for e in request.expressions)
        has_key = "true" if request.nulls else not_null
        keyed = groups.with_keys(data, *key_columns, f"({has_key}) AS {COLUMN_PREFIX}known")
        same = "<=>" if request.nulls else "="
        condition = " AND ".join(
            f"{COLUMN_PREFIX}x{i} {same} {COLUMN_PREFIX}r{i}" for i in range(n)
        )
        return keyed.join(
            reference.selectExpr("*", f"true AS {COLUMN_PREFIX}found"), F.expr(condition), "left"
        )


@dataclass(frozen=True)
class Matching(ScanJob):
    """Rows that match a row of another table. The result contains the number of matches and the number of rows.

    The job uses ``EXISTS``, so duplicates in the other table count once. Among Spark's equivalent forms it
    takes the least CPU. It sorts, so tables can exceed memory.
    """

    kind: ClassVar[str] = "match"

    def check(self, data: DataFrame) -> None:
        """Raise Spark's error if the condition cannot be resolved."""
        self.joined(data, Groups()).schema  # noqa: B018

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the rows that have a match."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        counts = (f"count_if({COLUMN_PREFIX}found)", "count(1)")
        cells = [F.expr(count).alias(f"{COLUMN_PREFIX}c{i}") for i, count in enumerate(counts)]
        rows = groups.aggregated(self.joined(data, groups), cells).collect()
        return {request: {groups.key_of(row): tuple(row[-2:]) for row in rows}}

    def joined(self, data: DataFrame, groups: Groups) -> DataFrame:
        """Return the data with a flag for whether each row has a match."""
        (request,) = self.requests
        other = data.sparkSession.table(request.table)
        condition = request.condition(Schema.from_frame(data), Schema.from_frame(other))
        condition = condition.replace("{", "{{").replace("}", "}}")  # sql() formats braces
        data_alias, other_alias = SIDES
        sql = (
            f"SELECT {data_alias}.*, EXISTS (SELECT 1 FROM {{other}} AS {other_alias} WHERE {condition})"  # noqa: S608 - the condition is quoted
            f" AS {COLUMN_PREFIX}found FROM {{data}} AS {data_alias}"
        )
        return data.sparkSession.sql(sql, data=groups.with_keys(data), other=other)


def own_job(request: Request) -> ScanJob | None:
    """Return the job of a request that needs a job of its own; None for all other requests."""
    match request:
        case WorkerRequest():
            return None
        case Lookup():
            return Joining((request,))
        case Match():
            return Matching((request,))
        case CustomRequest():
            job: ScanJob = resolve(request.job)((request,))
            return job
    return None


def jobs_for(
    requests: Iterable[Request],
    session: Capabilities,
    columns: frozenset[str],
    *,
    small: bool = False,
    sampled: bool = False,
) -> list[ScanJob]:
    """Group requests into jobs that the session can run.

    Plain aggregates are packed by columns. Sketches are kept separate, because Spark generates no code for a
    job with a sketch. Frequencies of the same expressions share a shuffle. On small data a job costs more to
    plan than to run, so plain aggregates and sketches share a job.

    Parameters
    ----------
    requests : iterable of Request
        The requests; equal ones are computed once.
    session : Capabilities
        Capabilities of the Spark session.
    columns : frozenset of str
        Names of the data's columns, in lower case.
    small : bool
        Whether the data has at most about `SMALL_BYTES`.
    sampled : bool
        Whether jobs can read the first rows beforehand.
    """
    plain: dict[str | None, list[Aggregate]] = {}
    frequencies: dict[tuple[str, ...], list[Frequencies]] = {}
    sizes: list[Frequencies] = []
    native: list[Sketch] = []
    python: list[Sketch] = []
    workers: dict[type[WorkerRequest], list[WorkerRequest]] = {}
    jobs: list[ScanJob] = []
    for request in dict.fromkeys(requests):
        own_request_job = own_job(request)
        if own_request_job is not None:
            jobs.append(own_request_job)
        match request:
            case WorkerRequest():
                workers.setdefault(type(request), []).append(request)
            case Aggregate(_, rows):
                plain.setdefault(rows, []).append(request)
            case Frequencies(expressions):
                if request.values:
                    frequencies.setdefault(expressions, []).append(request)
                else:
                    sizes.append(request)
            case Sketch():
                (native if session.is_native(request) else python).append(request)
    packed: list[ScanJob] = []
    if small and len(plain.get(None, ())) + len(native) <= MAX_SMALL_REQUESTS:
        packed.append(Aggregation((*plain.pop(None, ()), *native)))
        native = []
    packed += [
        Aggregation(tuple(pack))
        for members in plain.values()
        for pack in packed_by_columns(members, columns)
    ]
    packed += map(NativeSketching, _chunks(native, MAX_JOB_SKETCHES))
    packed += [Grouping(tuple(members)) for members in frequencies.values()]
    packed += [SizeCounting(members, sampled) for members in nested(sizes)]
    packed += map(WorkerSketching, _chunks(python, MAX_JOB_SKETCHES))
    for worker_type, worker_requests in workers.items():
        packed += map(resolve(worker_type.job), _chunks(worker_requests, worker_type.max_per_job))
    return packed + jobs


@dataclass
class _Pack:
    """Aggregates of one job, the columns that it reads, and its number of buffer fields."""

    requests: list[Aggregate]
    columns: frozenset[str]
    buffers: int

    def add(self, other: _Pack) -> None:
        self.requests += other.requests
        self.columns |= other.columns
        self.buffers += other.buffers


def packed_by_columns(
    requests: Sequence[Aggregate], columns: frozenset[str]
) -> list[list[Aggregate]]:
    """Pack aggregates into jobs, grouped by their columns, so that few columns are read twice.

    A narrow table is read once. Otherwise the aggregates are spread evenly over jobs of at most
    `TARGET_BUFFERS`. A job takes up to `MAX_BUFFERS` if the additional aggregates read only columns that it
    already reads. Jobs of whole columns tend to have the same layout, so that Spark generates, and the JIT
    compiles, a single program; this took a third less CPU.

    Parameters
    ----------
    requests : sequence of Aggregate
        The aggregates.
    columns : frozenset of str
        Names of the data's columns, in lower case.
    """
    # Bundle the aggregates that read the same columns.
    bundles: dict[frozenset[str], list[Aggregate]] = {}
    for request in requests:
        bundles.setdefault(columns & names_in(request.text), []).append(request)
    total = sum(map(buffer_count, requests))
    if total <= MAX_BUFFERS and len(frozenset().union(*bundles)) <= MAX_NARROW_COLUMNS:
        return [list(requests)] if requests else []
    limit = ceil(total / ceil(total / TARGET_BUFFERS)) if total else 0
    # Fill the packs: first one that already reads the columns, else the last one, else a new one.
    packs: list[_Pack] = []
    for read, bundle in bundles.items():
        for part in _split_bundle(bundle, read, limit):
            same_columns = (p for p in packs if read <= p.columns and _fits(p, part, MAX_BUFFERS))
            pack = next(same_columns, None)
            if pack is None and packs and _fits(packs[-1], part, limit):
                pack = packs[-1]
            if pack is None:
                packs.append(part)
            else:
                pack.add(part)
    # Merge a small last pack into the one before, to save a pass over the data.
    if len(packs) > 1:
        *_, wide, last_pack = packs
        if last_pack.buffers < limit / 2 and _fits(wide, last_pack, MAX_BUFFERS):
            wide.add(packs.pop())
    return [pack.requests for pack in packs]


def _fits(pack: _Pack, other: _Pack, limit: int) -> bool:
    return pack.buffers + other.buffers <= limit


def _split_bundle(
    bundle: Sequence[Aggregate], columns: frozenset[str], limit: int
) -> Iterator[_Pack]:
    """Split a bundle into parts of at most ``limit`` buffer fields; most bundles fit into one part."""
    part = _Pack([], columns, 0)
    for request in bundle:
        buffers = buffer_count(request)
        if part.requests and part.buffers + buffers > limit:
            yield part
            part = _Pack([], columns, 0)
        part.add(_Pack([request], columns, buffers))
    yield part


def buffer_count(request: Aggregate) -> int:
    """Return the number of buffer fields of an aggregate; a high estimate if it is unknown."""
    function = _OUTER_FUNCTION.match(request.text)
    return _BUFFERS_BY_FUNCTION.get(function[1], _UNKNOWN_BUFFERS) if function else _UNKNOWN_BUFFERS


def _chunks(requests: Sequence[R], size: int) -> Iterator[tuple[R, ...]]:
    return (tuple(requests[start : start + size]) for start in range(0, len(requests), size))


def _group_cells(request: Frequencies) -> dict[str, str]:
    """Return the aggregates to compute for each group, by the letter in their column names."""
    cells = {"c": count_rows(request.where)}
    if request.numbers is not None:
        numbers = where_holds(request.where, request.numbers)
        cells |= {"s": f"try_sum({numbers})", "a": f"count({numbers})"}
    return cells


def _read_frequencies(rows: pa.Table, request: Frequencies, number: int) -> Any:
    """Return the frequencies of groups or, if the request has numbers, a table for `GroupSums.from_spark`."""
    import pyarrow.compute as pc

    count, total, addends = (f"{COLUMN_PREFIX}{name}{number}" for name in "csa")
    if request.numbers is None:
        return _frequencies(rows, len(request.expressions), count)
    counted = rows.filter(pc.greater(rows[count], 0)).combine_chunks()
    columns = counted.select([f"{COLUMN_PREFIX}g0", total, count, addends])
    return columns.rename_columns(["0", SUM, COUNT, ADDENDS])


def _frequencies(rows: pa.Table, width: int, count: str) -> FrequenciesAndNumRows:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.filter(pc.greater(rows[count], 0))
    nulls = pc.is_null(rows[f"{COLUMN_PREFIX}g0"])
    for i in range(1, width):
        nulls = pc.and_(nulls, pc.is_null(rows[f"{COLUMN_PREFIX}g{i}"]))
    groups = rows.filter(pc.invert(nulls))
    columns = {str(i): groups[f"{COLUMN_PREFIX}g{i}"].combine_chunks() for i in range(width)}
    counts = groups[count].combine_chunks().cast(pa.int64())
    num_rows = pc.sum(counts).as_py() or 0
    num_nulls = pc.sum(rows.filter(nulls)[count]).as_py() or 0
    if not num_rows:
        return FrequenciesAndNumRows(num_nulls=num_nulls)
    return FrequenciesAndNumRows(pa.table({**columns, COUNT: counts}), num_rows, num_nulls)


@dataclass(frozen=True)
class Comparing(ScanJob):
    """A join by key with another table.

    The result contains the number of equal rows for each column, and the number of joined rows.
    """

    requests: tuple[KeyedComparison, ...]
    kind: ClassVar[str] = "comparison"

    def check(self, data: DataFrame) -> None:
        """Raise Spark's error if keys or columns cannot be compared."""
        self.joined(data, Groups()).schema  # noqa: B018 - forces resolution

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Join, and count the equal values of each column."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        width = len(request.columns)
        flags = [*(f"{COLUMN_PREFIX}e{i}" for i in range(width)), "true"]
        counts = [f"count_if({where_holds(request.where, flag)})" for flag in flags]
        cells = [F.expr(count).alias(f"{COLUMN_PREFIX}c{i}") for i, count in enumerate(counts)]
        rows = groups.aggregated(self.joined(data, groups), cells).collect()
        return {request: {groups.key_of(row): tuple(row[-width - 1 :]) for row in rows}}

    def joined(self, data: DataFrame, groups: Groups) -> DataFrame:
        """Return the rows whose key exists in the other table, with a flag per column for equal values.

        The other table is first reduced to one row per key: the minimum of each column, and whether all its
        values are equal (null counts as a value). So no row is counted twice.
        """
        from pyspark.sql import functions as F

        (request,) = self.requests
        width = range(len(request.columns))
        keys = [f"{k} AS {COLUMN_PREFIX}r{i}" for i, k in enumerate(request.reference_keys)]
        values = [f"{c} AS {COLUMN_PREFIX}o{i}" for i, c in enumerate(request.reference_columns)]
        other_columns = [f"{COLUMN_PREFIX}o{i}" for i in width]
        least = [F.expr(f"min({o})").alias(o) for o in other_columns]
        all_equal = [
            F.expr(f"min({o}) <=> max({o}) AND count({o}) IN (0, count(1))").alias(f"{o}_alike")
            for o in other_columns
        ]
        reference = (
            data.sparkSession.table(request.table)
            .selectExpr(*keys, *values)
            .groupBy(*(f"{COLUMN_PREFIX}r{i}" for i in range(len(keys))))
            .agg(*least, *all_equal)
        )
        key_columns = [f"{k} AS {COLUMN_PREFIX}x{i}" for i, k in enumerate(request.keys)]
        value_columns = [f"{c} AS {COLUMN_PREFIX}v{i}" for i, c in enumerate(request.columns)]
        same_key = " AND ".join(
            f"{COLUMN_PREFIX}x{i} = {COLUMN_PREFIX}r{i}" for i in range(len(key_columns))
        )
        equal = [
            f"({COLUMN_PREFIX}v{i} <=> {o} AND {o}_alike) AS {COLUMN_PREFIX}e{i}"
            for i, o in enumerate(other_columns)
        ]
        joined = groups.with_keys(data, *key_columns, *value_columns).join(
            reference, F.expr(same_key)
        )
        return joined.selectExpr("*", *equal)


_SEGMENTED_QUERY_FAILURE = Failure(
    MetricRuntimeError("a query cannot be measured by segment: filter the data with where= instead")
)


@dataclass(frozen=True)
class Querying(ScanJob):
    """A query, run once per partition. The result is the query's number, and the number of rows."""

    requests: tuple[CustomQuery, ...]
    kind: ClassVar[str] = "query"

    def check(self, data: DataFrame) -> None:
        """Raise an `UnresolvedQueryError` if the query cannot be resolved."""
        views = Views(data.sparkSession)
        try:
            self._result(views, data)
        finally:
            views.drop()

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Count the rows of all partitions, then query each partition that has rows."""
        from pyspark.sql import functions as F

        (request,) = self.requests
        cells = [F.expr(count_rows(request.where)).alias("rows")]
        counted = groups.aggregated(groups.with_keys(data), cells).collect()
        answers: dict[Any, Any] = {}
        for row in counted:
            key, rows = groups.key_of(row), row[-1]
            if key[1]:
                answers[key] = _SEGMENTED_QUERY_FAILURE
            elif rows:
                partition_data = (
                    filter_partitions(data, groups.columns, [key[0]]) if groups.columns else data
                )
                number = self._number(partition_data)
                answers[key] = number if isinstance(number, Failure) else (number, rows)
        return {request: answers}

    def _number(self, data: DataFrame) -> Any:
        """Return the query's number, or a failure if the result is not a single number."""
        views = Views(data.sparkSession)
        try:
            result = self._result(views, data)
            rows, width = result.limit(2).collect(), len(result.columns)
        finally:
            views.drop()
        if len(rows) == 1 and width == 1:
            return rows[0][0]
        size = f"{width} columns" if len(rows) == 1 else f"{len(rows) or 'no'} rows"
        size = size if len(rows) < 2 else "more than one row"
        return Failure(
            MetricRuntimeError(f"a query must return one number, but it returned {size}")
        )

    def _result(self, views: Views, data: DataFrame) -> DataFrame:
        (request,) = self.requests
        views.add(request.view, data if request.where is None else data.where(request.where))
        return views.query(request.sql)
