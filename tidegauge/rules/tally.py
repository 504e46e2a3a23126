"""Counting records by rules and fixes in one pass, grouped by their bit words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.errors import MetricError
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.scan import grouping
from tidegauge.analyzers.scan.bisect import find_failures, is_data_error, try_groups
from tidegauge.analyzers.scan.capabilities import to_arrow
from tidegauge.analyzers.scan.jobs import Answers, ScanJob
from tidegauge.analyzers.scan.query_logs import handled_errors
from tidegauge.rules.layout import Tasks
from tidegauge.rules.masks import OWN, Masked, conjunction_sql, mask
from tidegauge.rules.state import RecordCounts, Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 400_000
"""Maximum number of combinations of broken rules, over all groups, that the driver collects; beyond it, only sums."""


Tallies = dict[grouping.Key, Tally]


def count(
    data: DataFrame, tasks: Tasks, groups: grouping.Groups, skip: Iterable[str] = ()
) -> Tallies:
    """Count the records of each group by the outcome of rules and fixes; one action.

    Raises
    ------
    Exception
        Spark's own error, if an expression fails on the data.
    """
    return count_masked(mask(groups.with_keys(data), tasks, skip), groups)


def count_masked(masked: Masked, groups: grouping.Groups) -> Tallies:
    """Count records that already have bit words and group keys; one action."""
    from pyspark.sql import functions as F

    # Spark skips unused columns, so a failing repair would go unnoticed. Hashing forces their evaluation.
    read = [f"bit_xor(hash({cell})) AS {OWN}v{i}" for i, cell in enumerate(masked.values)]
    cells = [F.expr(cell) for cell in (f"count(1) AS {OWN}n", *read)]
    counted = groups.aggregated(masked.frame, cells, masked.words)
    # Most data breaks few rules in few combinations. The limit bounds the driver's memory otherwise.
    table = to_arrow(counted.limit(MOST_ROWS + 1))
    if table.num_rows > MOST_ROWS:
        return _sums(counted, masked, groups)
    found: Tallies = {}
    for key, rows in grouping.split_by_groups(table, groups.names):
        words = [rows[name].to_numpy() for name in masked.words]
        state = masked.tasks.fold(words, rows[f"{OWN}n"].to_numpy())
        found[groups.key_of(key)] = Tally(state, masked.failures)
    return found


def _sums(counted: DataFrame, masked: Masked, groups: grouping.Groups) -> Tallies:
    """Sum the counts of each group in Spark, without the combinations."""
    from pyspark.sql import functions as F

    cells = [
        F.expr(
            f"sum(CASE WHEN {conjunction_sql(tests, masked.words)} THEN {OWN}n ELSE 0L END)"
        ).alias(f"{OWN}c{i}")
        for i, tests in enumerate(masked.tasks.counters.values())
    ]
    names = groups.names
    found: Tallies = {}
    for row in counted.groupBy(*names).agg(*cells).collect():
        counts = tuple(int(cell) for cell in row[len(names) :])
        found[groups.key_of(row)] = Tally(RecordCounts(counts, None), masked.failures)
    return found


@handled_errors()
def tally(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups | None = None,
    *,
    incremental: bool = False,
) -> Tallies:
    """Count like `count`, but isolate tasks that fail on the data and count all others.

    A failing task is marked only in the groups where it fails, as far as 24 more actions can
    isolate them.

    Parameters
    ----------
    data : DataFrame
    tasks : Tasks
    groups : Groups, optional
    incremental : bool
        Whether the partitions are counted a few at a time, so that tasks that look beyond a
        record's own partition fail.
    """
    groups = groups or grouping.Groups()
    masked = mask(groups.with_keys(data), tasks, by=groups.by if incremental else None)
    try:
        return count_masked(masked, groups)
    except Exception as error:
        if not is_data_error(error):
            raise
        failures = {
            **masked.failures,
            **_failing_tasks(data, tasks, groups, error, masked.failures),
        }
        found = {
            key: Tally(one.counts, {**one.failures, **failures})
            for key, one in count(data, tasks, groups, failures).items()
        }
        return found | _count_sound_groups(
            data, tasks, groups, sorted({values for values, _ in found}), error, masked.failures
        )


def _failing_tasks(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups,
    error: Exception,
    unresolved: Iterable[str],
) -> dict[str, MetricError]:
    """Bisect to find the tasks that fail on the data, among those that resolve."""
    left_out = set(unresolved)
    names = [t.name for t in (*tasks.rules, *tasks.fixes) if t.name not in left_out]

    def run(some: Sequence[str]) -> dict[str, Any]:
        count(data, tasks, groups, left_out | (set(names) - set(some)))
        return dict.fromkeys(some)

    outcomes = find_failures(names, run, error)
    return {name: one.error for name, one in outcomes.items() if isinstance(one, Failure)}


def _count_sound_groups(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups,
    values: Sequence[Values],
    error: Exception,
    unresolved: Mapping[str, MetricError],
) -> Tallies:
    """Count the groups in which every task that resolves can be evaluated."""
    if len(values) < 2:
        return {}
    found: Tallies = {}

    def run(some: Sequence[Values]) -> None:
        some_data = grouping.filter_partitions(data, groups.by, some)
        for key, one in count(some_data, tasks, groups, unresolved).items():
            found[key] = Tally(one.counts, {**one.failures, **unresolved})

    try_groups(values, run, error)
    return found


@dataclass(frozen=True)
class RecordRulesJob(ScanJob):
    """Rules and fixes of a `DQM`, counted in a scan. The answer is a `Tally`."""

    kind: ClassVar[str] = "record rules"

    def run(self, data: DataFrame, groups: grouping.Groups) -> Answers:
        """Count the records by combination of violated rules and applied fixes."""
        (request,) = self.requests
        return {request: tally(data, request.tasks, groups, incremental=True)}
