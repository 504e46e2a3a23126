"""Scan planning: check analyzers against the schema and group their requests into Spark jobs.

Some aggregates are planned over distinct values and their counts. Patterns, data types, lengths and
conditions look at one value at a time. Where a column has few values, the rows are grouped by it first, and
each value is looked at once; the answers are the same to the bit. (Sketches are not: what they estimate
depends on how many of them were merged.) How many values there are is expected from the history of the
table, or from its first rows. An expectation that is wrong costs time and changes no answer.
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
from tidegauge.analyzers.core.sql import NAMELESS, count_rows, quote
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


@dataclass
class Plan:
    """The execution plan of a scan.

    Attributes
    ----------
    session : Capabilities
    schema : Schema
    failures : dict
        Failures of the analyzers that are rejected before any data is read.
    requests : dict
        Requests of all other analyzers.
    small : bool
        Whether the data is so small that it takes fewer jobs; see `jobs_for`.
    sampled : bool
        Whether jobs may read the first rows beforehand.
    expected : Expectation
        What is expected of the data; if it has few values, they are grouped by first.
    """

    session: Capabilities
    schema: Schema
    failures: dict[AnyAnalyzer, Failure] = field(default_factory=dict)
    requests: dict[AnyAnalyzer, tuple[Request, ...]] = field(default_factory=dict)
    small: bool = False
    sampled: bool = False
    expected: Expectation = UNKNOWN

    @property
    def asked(self) -> list[Request]:
        """All requests, the row count first; equal ones may be there twice."""
        return [ROWS, *(r for some in self.requests.values() for r in some)]

    @property
    def jobs(self) -> list[ScanJob]:
        """The jobs, each one pass and one Spark action."""
        counted = counted_jobs(self.asked, self.schema, self.expected)
        answered: set[Request] = {request for job in counted for request in job.requests}
        columns = frozenset(name.casefold() for name in self.schema.names)
        others = jobs_for(
            (request for request in self.asked if request not in answered),
            self.session,
            columns,
            small=self.small,
            sampled=self.sampled,
        )
        return [*others, *counted]

    def owners(self) -> dict[Request, tuple[AnyAnalyzer, ...]]:
        """Return the analyzers that need each request."""
        owners: dict[Request, tuple[AnyAnalyzer, ...]] = {}
        for analyzer, asked in self.requests.items():
            for request in dict.fromkeys(asked):
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

    Without ``states``, frequencies that no metric needs the values of become group sizes.

    Analyzers whose states would hold values of private columns fail. To find analyzers whose
    expressions Spark cannot resolve, all are resolved together, and one by one only if that fails.
    """
    schema = Schema.from_frame(data)
    schema = schema.without(schema.keys_only)
    made = Plan(capabilities(data.sparkSession), schema, small=small, expected=expected)
    for analyzer in dict.fromkeys(analyzers):
        checked = attempt(partial(_requests, analyzer, schema, private))
        if isinstance(checked, Failure):
            made.failures[analyzer] = checked
        else:
            made.requests[analyzer] = checked.value
    _replace_worker_requests(made, data)
    if not states:
        _leave_out_values(made)
    _drop_unresolved(made, data)
    return made


def _drop_unresolved(made: Plan, data: DataFrame) -> None:
    """Give up analyzers whose expressions do not parse or resolve."""
    written = {a: _written(a, asked) for a, asked in made.requests.items()}
    if unparsed(data, [text for texts in written.values() for text in texts]) is not None:
        for analyzer, texts in written.items():
            _drop(made, analyzer, unparsed(data, texts))
    probes = {a: _probes(a, asked, made.session) for a, asked in made.requests.items()}
    if _unresolved(data, [text for texts in probes.values() for text in texts]) is not None:
        for analyzer, texts in probes.items():
            problem = _unresolved(data, texts)
            _drop(made, analyzer, problem and (_no_condition(data, analyzer) or problem))
    for analyzer, asked in list(made.requests.items()):
        for request in asked:
            job = own_job(request)
            if job is not None:
                _drop(made, analyzer, _unreadable(data, job))


def _replace_worker_requests(made: Plan, data: DataFrame) -> None:
    """Request of Spark what its Python workers cannot answer, because they lack a package."""
    for analyzer, asked in made.requests.items():
        if any(isinstance(request, WorkerRequest) for request in asked):
            if workers_are_equipped(data.sparkSession):
                return
            made.requests[analyzer] = tuple(
                request.instead if isinstance(request, WorkerRequest) else request
                for request in asked
            )


def _leave_out_values(made: Plan) -> None:
    """Request group sizes in place of frequencies whose values no analyzer reads."""
    read = {
        request.expressions
        for analyzer, asked in made.requests.items()
        for request in asked
        if isinstance(request, Frequencies) and not isinstance(analyzer, GroupSizeAnalyzer)
    }
    for analyzer, asked in made.requests.items():
        made.requests[analyzer] = tuple(
            replace(request, values=False)
            if isinstance(request, Frequencies) and request.expressions not in read
            else request
            for request in asked
        )


def _drop(made: Plan, analyzer: AnyAnalyzer, problem: Exception | None) -> None:
    if problem is not None and analyzer in made.requests:
        told = problem if isinstance(problem, UnresolvedExpressionError) else describe(problem)
        error = UnresolvedExpressionError(f"{analyzer!r}: {told}")
        made.failures[analyzer] = Failure(error)
        del made.requests[analyzer]


def _requests(analyzer: AnyAnalyzer, schema: Schema, private: Privacy) -> tuple[Request, ...]:
    analyzer.preconditions(schema)
    requests = analyzer.with_exact_comparisons(schema).requests(schema)
    private.check(requests, schema)
    return requests


def _written(analyzer: AnyAnalyzer, asked: Iterable[Request]) -> list[str]:
    """Return the analyzer's options that are SQL expressions as the user wrote them."""
    if any(own_job(request) is not None for request in asked):
        return []  # a query rather than expressions, which its job checks
    return list(analyzer.expressions())


def _probes(analyzer: AnyAnalyzer, asked: Iterable[Request], session: Capabilities) -> list[str]:
    """Return aggregates that resolve if and only if the requests do."""
    texts = [] if analyzer.where is None else [f"count_if({analyzer.where}\n)"]
    for request in asked:
        match request:
            case Aggregate(text):
                texts.append(text)
            case Frequencies(expressions) | Lookup(expressions):
                texts += [f"count({expression})" for expression in expressions]
                texts.append(count_rows(request.where))
            case Sketch():
                texts.append(request.text if session.is_native(request) else request.probe)
    return texts


@handled_errors()
def _unresolved(data: DataFrame, texts: Sequence[str]) -> Exception | None:
    from pyspark.errors import AnalysisException

    try:
        data.selectExpr(*dict.fromkeys(texts), ROWS.text).schema  # noqa: B018 - forces resolution
    except AnalysisException as error:  # includes ParseException
        return error
    return None


@handled_errors()
def _no_condition(data: DataFrame, analyzer: AnyAnalyzer) -> UnresolvedExpressionError | None:
    """Return an error that names an analyzer's condition that is not true or false; None if all may be."""
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
