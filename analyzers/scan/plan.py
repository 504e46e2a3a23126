"""Scan planning: check analyzers against the schema and group their requests into Spark jobs.

Some aggregates are planned over distinct values and their counts. Patterns, data types, lengths and
conditions depend on one value at a time. If a column has few distinct values, the rows are first grouped by
it, and each value is evaluated once. The results are equal to the bit. (Sketches are excluded, since their
estimates depend on the number of merged sketches.) The number of distinct values is estimated from the
table's history, or from its first rows. A wrong estimate costs time but does not change results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.core.analyzer import (
    ROWS,
    Aggregate,
    AnyAnalyzer,
    Frequencies,
    Lookup,
    Request,
    Sketch,
    WorkerRequest,
)
from tidegauge.analyzers.core.errors import DslError, UnresolvedExpressionError, describe
from tidegauge.analyzers.core.metric import Failure, attempt
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import NAMELESS_PATTERN, count_rows, quote
from tidegauge.analyzers.measures.counts import Compliance
from tidegauge.analyzers.measures.frequencies import GroupSizeAnalyzer
from tidegauge.analyzers.scan.capabilities import (
    Capabilities,
    PlanCost,
    capabilities,
    distinct_in_first_rows,
    workers_are_equipped,
)
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import (
    COLUMN_PREFIX,
    Answers,
    ScanJob,
    aggregated,
    jobs_for,
    own_job,
)
from tidegauge.analyzers.scan.spark_errors import handled_errors, is_data_error
from tidegauge.analyzers.scan.user_sql import unparsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MAX_GROUPS = 5_000
"""Maximum number of groups per partition: this many fit into the processor's cache."""
MIN_ROWS_PER_GROUP = 20
"""Minimum expected rows per group: with fewer, shuffling the groups costs as much as the rows."""
MIN_FIRST_ROWS_PER_VALUE = 20
"""A column has few values if each occurs at least this often, on average, in the first rows."""
MAX_SAMPLED_COLUMNS = 80
"""Maximum number of columns whose first rows are read to count distinct values."""
COLUMN_NANOSECONDS = 60
"""CPU time to group a row by one more column; the first column counts twice. Measured, as are the
`_EXPRESSION_NANOSECONDS`, by `benchmarks.few_values`."""
JOB_NANOSECONDS = 2e8
"""CPU time of one more job, without its work on the rows."""

_GROUPABLE_KINDS = frozenset({"string", "boolean", "date", *INTEGRAL})
"""Types in which values form one group if and only if they are indistinguishable. This excludes floats (0.0
and -0.0, NaN) and strings with a collation. Decimals would qualify, but no analyzer of decimals would gain."""

_EXPRESSION_NANOSECONDS = (
    (re.compile(rf"\bRLIKE\s+(?:{NAMELESS_PATTERN})", re.DOTALL), 250),
    (re.compile(rf"\bLIKE\s+(?:{NAMELESS_PATTERN})", re.DOTALL), 60),
    (re.compile(r"\b(?:char|octet)_length\([^()]*\)"), 20),
)
"""Expensive expressions, and the CPU time to evaluate one on a row. Spark evaluates equal expressions once."""
_DEFAULT_NANOSECONDS = 3

_AGGREGATE_CALL = re.compile(r"(count|count_if|min|max)\((.*)\)", re.DOTALL)
_SQL_TOKEN = re.compile(
    rf"(?P<nameless>{NAMELESS_PATTERN})|`(?P<quoted>(?:[^`]|``)*)`|(?P<number>\d+(?:\.\d+)?\w*)"
    r"|(?P<bare>\w+)(?P<called>(?=\s*\())?|(?P<mark>[\s(),=<>!+*/%|-])",
    re.DOTALL,
)
_PURE_FUNCTIONS = frozenset({
    "abs", "btrim", "cast", "char_length", "coalesce", "concat", "contains", "endswith", "if",
    "ifnull", "isnotnull", "isnull", "len", "length", "lower", "ltrim", "nullif", "nvl",
    "octet_length", "regexp_like", "replace", "reverse", "rtrim", "startswith", "substr",
    "substring", "trim", "try_cast", "upper", "xxhash64",
})  # fmt: skip
"""Functions that return equal results for equal arguments, unlike ``rand`` and aggregates."""
_SQL_WORDS = frozenset({
    "and", "as", "between", "bigint", "boolean", "case", "date", "double", "else", "end", "escape",
    "false", "in", "int", "is", "like", "not", "null", "or", "rlike", "string", "then", "true",
    "when",
})  # fmt: skip
"""Words of conditions and types. A word that is also a column's name counts as the column."""


@dataclass(frozen=True)
class Expectation:
    """Expected size of the data of a scan, and numbers of distinct values.

    Attributes
    ----------
    rows : float
        Total number of rows.
    group_rows : float
        Number of rows in each partition.
    distinct : mapping of str to float
        Number of distinct values in each partition, by column in lower case.
    """

    rows: float = 0
    group_rows: float = 0
    distinct: Mapping[str, float] = field(default_factory=dict)


UNKNOWN = Expectation()
"""The expectation without any information: all requests are answered row by row."""


@dataclass(frozen=True)
class CountedAggregation(ScanJob):
    """Aggregates that are computed from the distinct values of columns with their counts.

    Attributes
    ----------
    requests : tuple of Aggregate
        The aggregates, each of a form that `weighted` supports.
    columns : tuple of str
        The columns to group by.
    """

    columns: tuple[str, ...] = ()
    kind: ClassVar[str] = "distinct values"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Group the rows by group and value, and aggregate the values by group."""
        from pyspark.sql import functions as F

        values = map(quote, self.columns)
        counted = groups.with_keys(data).groupBy(*groups.names, *values)
        distinct_values = counted.agg(F.expr("count(1)").alias(_COUNT_COLUMN))
        return aggregated(
            distinct_values, groups, self.requests, list(map(weighted, self.requests))
        )


_COUNT_COLUMN = f"{COLUMN_PREFIX}n"


def weighted(request: Aggregate) -> str:
    """Return the SQL aggregate over distinct values and their counts that answers a request.

    Minima and maxima do not depend on the counts, so their SQL stays the same.

    Examples
    --------
    >>> weighted(Aggregate("max(char_length(`s`))"))
    'max(char_length(`s`))'
    >>> weighted(Aggregate("count(`s`)"))
    'coalesce(sum(CASE WHEN (`s`) IS NOT NULL THEN __tidegauge_n END), 0)'
    """
    call = _AGGREGATE_CALL.fullmatch(request.text)
    match call and call.groups():
        case ("count", counted):
            is_counted = f"({counted}) IS NOT NULL"
        case (
            "count_if",
            condition,
        ):  # count_if casts its argument; a condition of CASE is not cast
            is_counted = f"CAST(({condition}) AS BOOLEAN)"
        case _:
            return request.text
    return f"coalesce(sum(CASE WHEN {is_counted} THEN {_COUNT_COLUMN} END), 0)"


def candidates(requests: Iterable[Request], schema: Schema) -> dict[Aggregate, frozenset[str]]:
    """Return the requests that distinct values can answer, each with the columns it reads, in lower case."""
    all_columns = frozenset(name.casefold() for name in schema.names)
    columns = _columns(schema)
    columns_by_request: dict[Aggregate, frozenset[str]] = {}
    for request in dict.fromkeys(requests):
        match request:
            case Aggregate(text, None) if call := _AGGREGATE_CALL.fullmatch(text):
                read = _columns_read(call[2], all_columns)
                if read and read <= columns.keys():
                    columns_by_request[request] = read
    return columns_by_request


def worthwhile(
    requests: Mapping[Aggregate, frozenset[str]], rows: float
) -> dict[str, list[Aggregate]]:
    """Return the columns that save time if they have few values, each with the requests that read only it."""
    by_column: dict[str, list[Aggregate]] = {}
    for request, read in requests.items():
        if len(read) == 1:
            by_column.setdefault(min(read), []).append(request)
    return {
        c: column_requests
        for c, column_requests in by_column.items()
        if _saved_nanoseconds(column_requests, rows, 1) > 0
    }


def counted_jobs(
    requests: Iterable[Request], schema: Schema, expected: Expectation
) -> list[CountedAggregation]:
    """Return the jobs that evaluate each distinct value once, if that is expected to save time.

    Columns share a job as long as their combinations form few groups. Requests that are in none of the jobs
    are answered row by row.
    """
    if not expected.distinct:
        return []
    by_request = candidates(requests, schema)
    packs = list(_packs(worthwhile(by_request, expected.rows), expected))
    pack_by_column = {column: i for i, pack in enumerate(packs) for column in pack}
    pack_requests: list[list[Aggregate]] = [[] for _ in packs]
    for request, read in by_request.items():
        pack_numbers = {pack_by_column.get(column, -1) for column in read}
        if len(pack_numbers) == 1 and -1 not in pack_numbers:
            pack_requests[min(pack_numbers)].append(request)
    columns = _columns(schema)
    return [
        CountedAggregation(tuple(members), tuple(columns[c] for c in pack))
        for members, pack in zip(pack_requests, packs, strict=True)
        if _saved_nanoseconds(members, expected.rows, len(pack)) > 0
    ]


@handled_errors()
def expected_by_first_rows(
    data: DataFrame, columns_by_request: Mapping[Aggregate, frozenset[str]], cost: PlanCost
) -> Expectation:
    """Return the distinct values in the first rows of the columns of `candidates` that have few values.

    If the first rows cannot be read, return `UNKNOWN`. The jobs then raise the reason.

    Parameters
    ----------
    data : DataFrame
        The data.
    columns_by_request : mapping of Aggregate to frozenset of str
        The result of `candidates`.
    cost : PlanCost
        Spark's estimate of the data.
    """
    schema = Schema.from_frame(data)
    rows = cost.rows(len(schema.names))
    columns = _columns(schema)
    sampled = list(worthwhile(columns_by_request, rows))[:MAX_SAMPLED_COLUMNS]
    if not sampled:
        return UNKNOWN
    try:
        read, distinct = distinct_in_first_rows(data, [quote(columns[c]) for c in sampled])
    except Exception as error:
        if is_data_error(error):
            return UNKNOWN
        raise
    few_values = {
        column: values
        for column, values in zip(sampled, distinct, strict=True)
        if 0 < values * MIN_FIRST_ROWS_PER_VALUE <= read
    }
    return Expectation(rows, rows, few_values)


def _packs(columns: Iterable[str], expected: Expectation) -> Iterator[tuple[str, ...]]:
    """Yield the columns of each job, beginning with the columns that have the fewest values."""
    limit = min(MAX_GROUPS, expected.group_rows / MIN_ROWS_PER_GROUP)
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


def _saved_nanoseconds(requests: Sequence[Aggregate], rows: float, columns: int) -> float:
    """Return the CPU time in nanoseconds that is saved by first grouping rows by a number of columns."""
    row_nanoseconds = _DEFAULT_NANOSECONDS * len(requests)
    for expression, cost in _EXPRESSION_NANOSECONDS:
        row_nanoseconds += cost * len({m[0] for r in requests for m in expression.finditer(r.text)})
    return rows * (row_nanoseconds - COLUMN_NANOSECONDS * (columns + 1)) - JOB_NANOSECONDS


def _columns(schema: Schema) -> dict[str, str]:
    """Return the names of the columns that can be grouped by, by their names in lower case."""
    count = Counter(name.casefold() for name in schema.names)
    return {
        name.casefold(): name
        for name in schema.names
        if count[name.casefold()] == 1
        and not name.casefold().startswith(COLUMN_PREFIX)
        and (field := schema.field(quote(name))).kind in _GROUPABLE_KINDS
        and not field.collated
    }


def _columns_read(sql: str, columns: Collection[str]) -> frozenset[str] | None:
    """Return all columns, in lower case, that an SQL expression reads.

    A word that is a column's name always counts as the column. Return None if the SQL has unknown parts, or
    is not a single expression that depends on columns only.
    """
    read: set[str] = set()
    end = depth = 0
    for token in _SQL_TOKEN.finditer(sql):
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
    """Return the token's name in lower case if it can be a column's; an empty string for other tokens."""
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
        return word in _SQL_WORDS or (token["called"] is not None and word in _PURE_FUNCTIONS)
    # Comments can end elsewhere in Spark, and double quotes can enclose a name.
    return not (token["nameless"] or "").startswith(('"', "--", "/*"))


@dataclass
class Plan:
    """The execution plan of a scan.

    Attributes
    ----------
    session : Capabilities
        Capabilities of the Spark session.
    schema : Schema
        The data's columns.
    failures : dict
        Failures of the analyzers that are rejected before any data is read.
    requests : dict
        Requests of all other analyzers.
    small : bool
        Whether the data is so small that fewer jobs are faster; see `jobs_for`.
    sampled : bool
        Whether jobs can read the first rows beforehand.
    expected : Expectation
        Expected rows and distinct values. Columns with few values are grouped first.
    """

    session: Capabilities
    schema: Schema
    failures: dict[AnyAnalyzer, Failure] = field(default_factory=dict)
    requests: dict[AnyAnalyzer, tuple[Request, ...]] = field(default_factory=dict)
    small: bool = False
    sampled: bool = False
    expected: Expectation = UNKNOWN

    @property
    def all_requests(self) -> list[Request]:
        """All requests, the row count first; requests can be repeated."""
        return [
            ROWS,
            *(r for analyzer_requests in self.requests.values() for r in analyzer_requests),
        ]

    @property
    def jobs(self) -> list[ScanJob]:
        """The jobs, each one pass and one Spark action."""
        counted = counted_jobs(self.all_requests, self.schema, self.expected)
        answered: set[Request] = {request for job in counted for request in job.requests}
        columns = frozenset(name.casefold() for name in self.schema.names)
        row_jobs = jobs_for(
            (request for request in self.all_requests if request not in answered),
            self.session,
            columns,
            small=self.small,
            sampled=self.sampled,
        )
        return [*row_jobs, *counted]

    def owners(self) -> dict[Request, tuple[AnyAnalyzer, ...]]:
        """Return the analyzers that need each request."""
        owners: dict[Request, tuple[AnyAnalyzer, ...]] = {}
        for analyzer, requests in self.requests.items():
            for request in dict.fromkeys(requests):
                owners[request] = (*owners.get(request, ()), analyzer)
        return owners


def plan(
    data: DataFrame,
    analyzers: Iterable[AnyAnalyzer],
    private: Privacy = PUBLIC,
    *,
    small: bool = False,
    states: bool = True,
    expected: Expectation = UNKNOWN,
) -> Plan:
    """Check every analyzer against the schema and plan the scan, without reading data.

    Analyzers whose states would hold values of private columns fail. All expressions are resolved in one
    step, and one by one only if that fails, to find the analyzers that Spark cannot resolve.

    Parameters
    ----------
    data : DataFrame
        The data.
    analyzers : iterable of Analyzer
        The analyzers; equal ones are measured once.
    private : Privacy
        Columns whose values go into no state.
    small : bool
        Whether the data has at most about `SMALL_BYTES`.
    states : bool
        Whether states are needed. If not, frequencies whose values no metric needs become group sizes.
    expected : Expectation
        Expected rows and distinct values.
    """
    schema = Schema.from_frame(data)
    schema = schema.without(schema.keys_only)
    result = Plan(capabilities(data.sparkSession), schema, small=small, expected=expected)
    for analyzer in dict.fromkeys(analyzers):
        checked = attempt(partial(requests_of, analyzer, schema, private))
        if isinstance(checked, Failure):
            result.failures[analyzer] = checked
        else:
            result.requests[analyzer] = checked.value
    _replace_worker_requests(result, data)
    if not states:
        _leave_out_values(result)
    _drop_unresolved(result, data)
    return result


def _drop_unresolved(plan: Plan, data: DataFrame) -> None:
    """Move analyzers whose expressions do not parse or resolve to the plan's failures."""
    sources = {a: _user_expressions(a, requests) for a, requests in plan.requests.items()}
    if unparsed(data, [sql for expressions in sources.values() for sql in expressions]) is not None:
        for analyzer, expressions in sources.items():
            _drop(plan, analyzer, unparsed(data, expressions))
    probes = {a: _probes(a, requests, plan.session) for a, requests in plan.requests.items()}
    if (
        _unresolved(data, [sql for expressions in probes.values() for sql in expressions])
        is not None
    ):
        for analyzer, expressions in probes.items():
            problem = _unresolved(data, expressions)
            _drop(plan, analyzer, problem and (_condition_error(data, analyzer) or problem))
    for analyzer, requests in list(plan.requests.items()):
        for request in requests:
            job = own_job(request)
            if job is not None:
                _drop(plan, analyzer, _unreadable(data, job))


def _replace_worker_requests(plan: Plan, data: DataFrame) -> None:
    """If Spark's Python workers lack a package, replace their requests by requests without workers."""
    for analyzer, requests in plan.requests.items():
        if any(isinstance(request, WorkerRequest) for request in requests):
            if workers_are_equipped(data.sparkSession):
                return
            plan.requests[analyzer] = tuple(
                request.instead if isinstance(request, WorkerRequest) else request
                for request in requests
            )


def _leave_out_values(plan: Plan) -> None:
    """Replace frequencies whose values no analyzer reads by group sizes."""
    read = {
        request.expressions
        for analyzer, requests in plan.requests.items()
        for request in requests
        if isinstance(request, Frequencies) and not isinstance(analyzer, GroupSizeAnalyzer)
    }
    for analyzer, requests in plan.requests.items():
        plan.requests[analyzer] = tuple(
            replace(request, values=False)
            if isinstance(request, Frequencies) and request.expressions not in read
            else request
            for request in requests
        )


def _drop(plan: Plan, analyzer: AnyAnalyzer, problem: Exception | None) -> None:
    if problem is not None and analyzer in plan.requests:
        message = problem if isinstance(problem, UnresolvedExpressionError) else describe(problem)
        error = UnresolvedExpressionError(f"{analyzer!r}: {message}")
        plan.failures[analyzer] = Failure(error)
        del plan.requests[analyzer]


def requests_of(analyzer: AnyAnalyzer, schema: Schema, private: Privacy) -> tuple[Request, ...]:
    """Return an analyzer's requests for data with a schema.

    Raises
    ------
    PreconditionError
        If the analyzer does not fit the schema.
    PrivateColumnError
        If its state would hold values of private columns.
    """
    analyzer.preconditions(schema)
    requests = analyzer.with_exact_comparisons(schema).requests(schema)
    private.check(requests, schema)
    return requests


def _user_expressions(analyzer: AnyAnalyzer, requests: Iterable[Request]) -> list[str]:
    """Return the analyzer's options that are SQL expressions, as the user wrote them."""
    if any(own_job(request) is not None for request in requests):
        return []  # a query rather than expressions; its job checks it
    return list(analyzer.expressions())


def _probes(analyzer: AnyAnalyzer, requests: Iterable[Request], session: Capabilities) -> list[str]:
    """Return aggregates that resolve if and only if the requests do."""
    probes = [] if analyzer.where is None else [f"count_if({analyzer.where}\n)"]
    for request in requests:
        match request:
            case Aggregate(text):
                probes.append(text)
            case Frequencies(expressions) | Lookup(expressions):
                probes += [f"count({expression})" for expression in expressions]
                probes.append(count_rows(request.where))
            case Sketch():
                probes.append(request.text if session.is_native(request) else request.probe)
    return probes


@handled_errors()
def _unresolved(data: DataFrame, expressions: Sequence[str]) -> Exception | None:
    from pyspark.errors import AnalysisException

    try:
        data.selectExpr(*dict.fromkeys(expressions), ROWS.text).schema  # noqa: B018 - forces resolution
    except AnalysisException as error:  # includes ParseException
        return error
    return None


@handled_errors()
def _condition_error(data: DataFrame, analyzer: AnyAnalyzer) -> UnresolvedExpressionError | None:
    """Return an error for the analyzer's first condition that is not boolean; None if all can be boolean."""
    from pyspark.errors import AnalysisException

    conditions = (analyzer.where, analyzer.predicate if isinstance(analyzer, Compliance) else None)
    for condition in filter(None, conditions):
        try:
            kind = data.selectExpr(f"(\n{condition}\n)").schema.fields[0].dataType.simpleString()
        except AnalysisException:
            continue
        if kind != "boolean":
            return UnresolvedExpressionError(f"{condition} is of type {kind}, not a condition")
    return None


@handled_errors()
def _unreadable(data: DataFrame, job: ScanJob) -> Exception | None:
    from pyspark.errors import AnalysisException

    try:
        job.check(data)
    except (AnalysisException, DslError, UnresolvedExpressionError) as error:
        return error
    return None
