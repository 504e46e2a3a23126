"""One pass over the data for all partitions and all analyzers.

`plan` sorts the work into jobs: plain aggregations packed so that Spark generates code for each
job, sketches apart from them, and one shuffle for each set of grouping columns. `scan` runs the jobs
side by side, each grouped by the partition columns, and folds every group into states. What one
analyzer does wrong is its own failure and nobody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer, ScanAnalyzer
from analyzers.errors import MetricError, UnresolvedExpressionError, describe
from analyzers.frequencies import COUNT, FrequenciesAndNumRows, GroupingAnalyzer
from analyzers.metric import Failure, Metric, Success, attempt
from analyzers.partitions import NULL
from analyzers.schema import INTEGRAL, Schema
from analyzers.sql import count_rows, literal, one_of, quote, reference
from analyzers.state import State

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

AnyAnalyzer = Analyzer[Any, Any]
Outcome = Success[State] | Failure
Key = tuple[str, ...]
Results = dict[Any, dict[Key, Any] | Failure]

PLAIN_BUFFERS = 90
"""Buffer fields of one job of plain aggregations. Above about a hundred Spark stops generating code
for the aggregate, which was measured to cost 1.6 to 2 times the CPU."""
SKETCHES = 24
"""Sketches of one job; they keep objects, not buffer fields, and are bounded for executor memory."""
JOBS_AT_ONCE = 4
ISOLATING_JOBS = 64
"""How many more jobs may look for the groups in which one expression fails."""

ROWS = count_rows(None)
_FUNCTION = re.compile(r"(?:CAST\()?(\w+)\(")
_BUFFERS = {"avg": 2, "var_pop": 3, "max": 1, "min": 1, "count": 1, "sum": 2}


@dataclass(frozen=True)
class Group:
    """What was found in one group: a partition, or the whole data.

    Attributes
    ----------
    rows : int
        Number of rows.
    states : mapping of Analyzer to Success or Failure
        Every analyzer's state, or why it has none.
    """

    rows: int
    states: Mapping[AnyAnalyzer, Outcome]


@dataclass(frozen=True)
class Scan:
    """What a scan found.

    Attributes
    ----------
    groups : mapping of tuple of str to Group
        By the values of the partition columns as text; null and the empty text are Hive's default
        partition. Only groups that have rows.
    nothing : Group
        What holds for a group without rows.
    """

    groups: Mapping[Key, Group]
    nothing: Group

    @property
    def whole(self) -> Group:
        """The only group of a scan that was not grouped."""
        return self.groups.get((), self.nothing)


@dataclass(frozen=True)
class Aggregation:
    """A job of aggregations that are computed together; results are named by their text."""

    results: tuple[str, ...]

    def only(self, results: tuple[Any, ...]) -> Aggregation:
        """Return the job for some of the results."""
        return Aggregation(results)


@dataclass(frozen=True)
class Grouping:
    """A job that counts groups of rows, once for each filter; results are named by both."""

    columns: tuple[str, ...]
    filters: tuple[str | None, ...]

    @property
    def results(self) -> tuple[tuple[tuple[str, ...], str | None], ...]:
        """The names of the results."""
        return tuple((self.columns, where) for where in self.filters)

    def only(self, results: tuple[Any, ...]) -> Grouping:
        """Return the job for some of the results."""
        return Grouping(self.columns, tuple(where for _, where in results))


Job = Aggregation | Grouping


@dataclass
class Plan:
    """What a scan will do.

    Attributes
    ----------
    failures : dict
        Analyzers that fail before anything is read.
    cells : dict
        The aggregations of each scan analyzer.
    groupings : list of GroupingAnalyzer
    jobs : list of Job
    """

    failures: dict[AnyAnalyzer, Failure] = field(default_factory=dict)
    cells: dict[ScanAnalyzer[Any, Any], tuple[str, ...]] = field(default_factory=dict)
    groupings: list[GroupingAnalyzer[Any, Any]] = field(default_factory=list)

    @property
    def jobs(self) -> list[Job]:
        """The jobs, each one pass and one Spark action."""
        texts = dict.fromkeys([ROWS, *(text for cells in self.cells.values() for text in cells)])
        sketches = [text for text in texts if _is_sketch(text)]
        plain = [text for text in texts if not _is_sketch(text)]
        jobs: list[Job] = [Aggregation(pack) for pack in _packed(plain, PLAIN_BUFFERS, _buffers)]
        jobs += [Aggregation(pack) for pack in _packed(sketches, SKETCHES, lambda _: 1)]
        filters: dict[tuple[str, ...], dict[str | None, None]] = {}
        for a in self.groupings:
            filters.setdefault(a.grouping_columns, {})[a.where] = None
        return jobs + [Grouping(columns, tuple(asked)) for columns, asked in filters.items()]


def _is_sketch(text: str) -> bool:
    return "_sketch_agg" in text.partition("(")[0]


def _buffers(text: str) -> int:
    function = _FUNCTION.match(text)
    return _BUFFERS.get(function[1], 4) if function else 4


def _packed(
    texts: Iterable[str], limit: int, cost: Callable[[str], int]
) -> Iterator[tuple[str, ...]]:
    pack: list[str] = []
    total = 0
    for text in texts:
        if pack and total + cost(text) > limit:
            yield tuple(pack)
            pack, total = [], 0
        pack.append(text)
        total += cost(text)
    if pack:
        yield tuple(pack)


def plan(data: DataFrame, analyzers: Iterable[AnyAnalyzer]) -> Plan:
    """Check every analyzer against the data and sort the rest into jobs; reads nothing.

    Analyzers whose expressions Spark cannot resolve are found by resolving all together, and each
    for itself only if that fails.
    """
    sensitive = data.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    schema = Schema.of(data.schema, case_sensitive=sensitive)
    made = Plan()
    for analyzer in dict.fromkeys(analyzers):
        checked = attempt(partial(_cells, analyzer, schema))
        if isinstance(checked, Failure):
            made.failures[analyzer] = checked
        elif isinstance(analyzer, GroupingAnalyzer):
            made.groupings.append(analyzer)
        elif isinstance(analyzer, ScanAnalyzer):
            made.cells[analyzer] = checked.value
    probes: dict[AnyAnalyzer, tuple[str, ...]]
    probes = {a: _probe(a, schema) for a in (*made.cells, *made.groupings)}
    if _unresolved(data, [text for texts in probes.values() for text in texts]) is not None:
        for analyzer, texts in probes.items():
            problem = _unresolved(data, texts)
            if problem is not None:
                error = UnresolvedExpressionError(f"{analyzer!r}: {describe(problem)}")
                made.failures[analyzer] = Failure(error)
        made.cells = {a: texts for a, texts in made.cells.items() if a not in made.failures}
        made.groupings = [a for a in made.groupings if a not in made.failures]
    return made


def _cells(analyzer: AnyAnalyzer, schema: Schema) -> tuple[str, ...]:
    analyzer.preconditions(schema)
    return tuple(analyzer.aggregations(schema)) if isinstance(analyzer, ScanAnalyzer) else ()


def _probe(analyzer: AnyAnalyzer, schema: Schema) -> tuple[str, ...]:
    # A filter must stand on its own, too: "a) OR (b" would resolve inside the brackets we put.
    alone = () if analyzer.where is None else (f"count_if({analyzer.where}\n)",)
    return alone + (_cells(analyzer, schema) or (count_rows(analyzer.where),))


def _unresolved(data: DataFrame, texts: Sequence[str]) -> Exception | None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

    try:
        data.selectExpr(*dict.fromkeys(texts), ROWS).schema  # noqa: B018 - asking resolves it
    except AnalysisException as error:  # a ParseException is one, too
        return error
    return None


def scan(
    data: DataFrame,
    analyzers: Iterable[AnyAnalyzer],
    by: Sequence[str] = (),
    keep: Callable[[Key], bool] = lambda _: True,
) -> Scan:
    """Measure data in one pass, grouped by some columns.

    Parameters
    ----------
    data : DataFrame
    analyzers : iterable of Analyzer
        Equal ones are measured once.
    by : sequence of str
        The partition columns; none for the whole data.
    keep : callable
        Which groups to fold, by their values as text.
    """
    made = plan(data, analyzers)
    results = _run(data, made.jobs, tuple(by))
    rows = results[ROWS]
    if isinstance(rows, Failure):  # counting rows cannot fail by what the rows hold
        raise rows.error
    if by:
        _isolate(data, made, results, tuple(by), sorted(filter(keep, rows)))
    groups = {key: _fold(made, results, key) for key in sorted(rows) if keep(key)}
    return Scan(groups, _fold(made, results, None))


def _fold(made: Plan, results: Results, key: Key | None) -> Group:
    """Fold one group's cells into states; None is a group without rows."""
    states: dict[AnyAnalyzer, Outcome] = dict(made.failures)
    for analyzer, texts in made.cells.items():
        cells = [_cell(results, text, key) for text in texts]
        failed = next((cell for cell in cells if isinstance(cell, Failure)), None)
        if failed or key is None:
            states[analyzer] = failed or Success(analyzer.state_type())
        else:
            states[analyzer] = attempt(partial(analyzer.fold, cells))
    for grouping in made.groupings:
        found = _cell(results, (grouping.grouping_columns, grouping.where), key)
        states[grouping] = found or Success(grouping.state_type())
    return Group(_cell(results, ROWS, key) or 0, states)


def _cell(results: Results, what: object, key: Key | None) -> Any:
    """Return one result for one group, or the failure for all."""
    found = results[what]
    if isinstance(found, Failure):
        return found
    return None if key is None else found.get(key)


def _run(data: DataFrame, jobs: Sequence[Job], by: Key) -> Results:
    """Run the jobs side by side; return each one's results by what they are of, then by group."""
    results: Results = {}
    with ThreadPoolExecutor(min(JOBS_AT_ONCE, len(jobs)), "tidegauge-scan") as pool:
        for found in pool.map(lambda job: _run_alone(data, job, by), jobs):
            results.update(found)
    return results


def _run_alone(data: DataFrame, job: Job, by: Key) -> Results:
    """Run one job; if the data makes an expression fail, run its halves, down to the one that does.

    Under Spark's ANSI mode one bad cast or division fails all that share its job.
    """
    try:
        return _aggregate(data, job, by) if isinstance(job, Aggregation) else _group(data, job, by)
    except Exception as error:
        if not _is_data_error(error):
            raise
        names, half = job.results, len(job.results) // 2
        if not half:
            return {names[0]: Failure(MetricError.of(error).with_traceback(None))}
        return {
            **_run_alone(data, job.only(names[:half]), by),
            **_run_alone(data, job.only(names[half:]), by),
        }


def _isolate(data: DataFrame, made: Plan, results: Results, by: Key, keys: Sequence[Key]) -> None:
    """Leave each expression that failed on the data only where it does: one dirty row is one group's."""
    jobs = {name: job.only((name,)) for job in made.jobs for name in job.results}
    for name, found in results.items():
        if isinstance(found, Failure):
            results[name] = _blame(data, jobs[name], by, keys, found)


def _blame(
    data: DataFrame, job: Job, by: Key, keys: Sequence[Key], failure: Failure
) -> dict[Key, Any]:
    """Measure halves of the groups, and halves of those that fail, down to the culprits."""
    found: dict[Key, Any] = {}
    suspects, tries = [(keys, failure)], ISOLATING_JOBS
    while suspects:
        some, reason = suspects.pop()
        if len(some) == 1 or tries <= 0:
            found.update(dict.fromkeys(some, reason))
            continue
        half = len(some) // 2
        for part in (some[:half], some[half:]):
            tries -= 1
            (result,) = _run_alone(only_groups(data, by, part), job, by).values()
            if isinstance(result, Failure):
                suspects.append((part, result))
            else:
                found.update(result)
    return found


def _is_data_error(error: Exception) -> bool:
    """Whether Spark says that the data, not the cluster, is at fault: SQLSTATE class 22."""
    state = getattr(error, "getSqlState", None)
    return callable(state) and (state() or "").startswith("22")


def _as_text(column: str) -> str:
    """Return SQL for a value as Hive names it; the empty text and null are one partition."""
    return f"coalesce(nullif(CAST({reference(column)} AS STRING), ''), {literal(NULL)})"


def _keys(by: Key) -> list[str]:
    # By the text itself: two values that print alike, as hours do when clocks go back, are one.
    return [f"{_as_text(column)} AS `_k{i}`" for i, column in enumerate(by)]


def only_groups(data: DataFrame, keys: Sequence[str], values: Collection[Key]) -> DataFrame:
    """Keep the rows of some partitions.

    The exact condition is on the values as text, which Spark prunes by itself. Before it stands the
    range of each key's values, which the metastore prunes by: it is quick with a range, and was
    measured to take minutes over a list of a thousand values.
    """
    types = {f.name: f.dataType.typeName() for f in data.schema.fields}
    for i, key in enumerate(keys):
        found = _range({value[i] for value in values}, types[key])
        if found is not None:
            low, high = (literal(value) for value in found)
            data = data.where(f"{quote(key)} >= {low} AND {quote(key)} <= {high}")
    texts = [_as_text(quote(key)) for key in keys]
    together = texts[0] if len(texts) == 1 else f"concat_ws('\\u0001', {', '.join(texts)})"
    return data.where(one_of(together, sorted("\x01".join(value) for value in values)))


def _range(values: set[str], kind: str) -> tuple[str, str] | None:
    """Return the least and greatest value of a type whose order we know; None if there is none."""
    if NULL in values:
        return None
    if kind in {"string", "date"}:
        return min(values), max(values)
    if kind in INTEGRAL:
        return min(values, key=int), max(values, key=int)
    return None


def _aggregate(data: DataFrame, job: Aggregation, by: Key) -> Results:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    cells = [F.expr(text).alias(f"_c{i}") for i, text in enumerate(job.results)]
    rows = data.groupBy(*map(F.expr, _keys(by))).agg(*cells).collect()
    columns = zip(*(row[len(by) :] for row in rows), strict=True)
    keys = [tuple(row[: len(by)]) for row in rows]
    cells_of = dict(zip(job.results, columns, strict=True)) if rows else {}
    return {text: dict(zip(keys, cells_of.get(text, ()), strict=True)) for text in job.results}


def _group(data: DataFrame, job: Grouping, by: Key) -> Results:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    columns = [f"{reference(c)} AS `_g{i}`" for i, c in enumerate(job.columns)]
    counts = [F.expr(count_rows(w)).alias(f"_c{i}") for i, w in enumerate(job.filters)]
    table = data.groupBy(*map(F.expr, [*_keys(by), *columns])).agg(*counts).toArrow()
    slices = list(_slices(table, len(by)))
    return {
        (job.columns, where): {
            key: Success(_frequencies(rows, len(columns), f"_c{i}")) for key, rows in slices
        }
        for i, where in enumerate(job.filters)
    }


def _slices(table: pa.Table, width: int) -> Iterator[tuple[Key, pa.Table]]:
    """Cut a table into runs of rows with equal first columns."""
    import numpy as np  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    names = table.column_names[:width]
    table = table.sort_by([(name, "ascending") for name in names]) if names else table
    changes = np.zeros(max(table.num_rows - 1, 0), dtype=bool)
    for name in names:
        column = table[name].combine_chunks()
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
    for start, end in pairwise(starts):
        if end > start:
            key = tuple(table[name][start].as_py() for name in names)
            yield key, table.slice(start, end - start).drop_columns(names)


def _frequencies(rows: pa.Table, width: int, count: str) -> FrequenciesAndNumRows:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    rows = rows.filter(pc.greater(rows[count], 0))
    nulls = pc.is_null(rows["_g0"])
    for i in range(1, width):
        nulls = pc.and_(nulls, pc.is_null(rows[f"_g{i}"]))
    groups = rows.filter(pc.invert(nulls))
    columns = {str(i): groups[f"_g{i}"].combine_chunks() for i in range(width)}
    counts = groups[count].combine_chunks().cast(pa.int64())
    num_rows = pc.sum(counts).as_py() or 0
    num_nulls = pc.sum(rows.filter(nulls)[count]).as_py() or 0
    if not num_rows:
        return FrequenciesAndNumRows(num_nulls=num_nulls)
    return FrequenciesAndNumRows(pa.table({**columns, COUNT: counts}), num_rows, num_nulls)


def metric_of(analyzer: AnyAnalyzer, outcome: Outcome) -> Metric[Any]:
    """Return an analyzer's metric for what a scan found."""
    match outcome:
        case Success(state):
            return analyzer.compute_metric_from(state)
        case Failure(error):
            return analyzer.to_failure_metric(error)


def calculate(data: DataFrame, analyzers: Sequence[AnyAnalyzer]) -> list[Metric[Any]]:
    """Measure a DataFrame once and return each analyzer's metric, in the order asked."""
    states = scan(data, analyzers).whole.states
    return [metric_of(analyzer, states[analyzer]) for analyzer in analyzers]
