"""Counting what rules and fixes do to data: one pass, grouped by the bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import analyzers.groups as grouping
from analyzers.culprits import find_failures, is_data_error
from analyzers.errors import MetricError
from analyzers.metric import Failure
from analyzers.rules.layout import Tasks
from analyzers.rules.masks import OWN, Masked, all_of, mask
from analyzers.rules.state import RecordCounts, Tally
from analyzers.segments import Values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ISOLATING_JOBS = 24
MOST_ROWS = 400_000
"""Combinations of broken rules, over all groups, that the driver takes; of more, only sums."""


Tallies = dict[grouping.Key, Tally]


def count(
    data: DataFrame, tasks: Tasks, groups: grouping.Groups, skip: Iterable[str] = ()
) -> Tallies:
    """Count the records of each group by what rules and fixes do to them; one action.

    Raises
    ------
    Exception
        What Spark raises, if the data makes an expression fail.
    """
    return count_masked(mask(groups.keyed(data), tasks, skip), groups)


def count_masked(masked: Masked, groups: grouping.Groups) -> Tallies:
    """Count records whose bits are there already, with the keys of their groups; one action."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    # Values that nobody reads are not computed, and one that fails would not be found here. Hashes read them.
    read = [f"bit_xor(hash({cell})) AS {OWN}v{i}" for i, cell in enumerate(masked.values)]
    cells = [F.expr(cell) for cell in (f"count(1) AS {OWN}n", *read)]
    counted = groups.aggregated(masked.frame, cells, masked.words)
    # Most data breaks few rules in few combinations. Where it does not, what a driver holds is bounded.
    table = counted.limit(MOST_ROWS + 1).toArrow()
    if table.num_rows > MOST_ROWS:
        return _sums(counted, masked, groups)
    found: Tallies = {}
    for key, rows in grouping.slices(table, groups.names):
        words = [rows[name].to_numpy() for name in masked.words]
        state = masked.tasks.fold(words, rows[f"{OWN}n"].to_numpy())
        found[groups.key_of(key)] = Tally(state, masked.failures)
    return found


def _sums(counted: DataFrame, masked: Masked, groups: grouping.Groups) -> Tallies:
    """Add up what was counted for each group in Spark, without the combinations."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    cells = [
        F.expr(f"sum(CASE WHEN {all_of(tests, masked.words)} THEN {OWN}n ELSE 0L END)").alias(
            f"{OWN}c{i}"
        )
        for i, tests in enumerate(masked.tasks.counters.values())
    ]
    names = groups.names
    found: Tallies = {}
    for row in counted.groupBy(*names).agg(*cells).collect():
        counts = tuple(int(cell) for cell in row[len(names) :])
        found[groups.key_of(row)] = Tally(RecordCounts(counts, None), masked.failures)
    return found


def tally(data: DataFrame, tasks: Tasks, groups: grouping.Groups | None = None) -> Tallies:
    """Count as `count` does; a task that the data makes fail is named, and all others are counted.

    It fails only in the groups that make it fail, as far as 24 more actions find them.
    """
    groups = groups or grouping.Groups()
    try:
        return count(data, tasks, groups)
    except Exception as error:
        if not is_data_error(error):
            raise
        failures = _culprits(data, tasks, groups, error)
        found = {
            key: Tally(one.counts, {**one.failures, **failures})
            for key, one in count(data, tasks, groups, failures).items()
        }
        return found | _whole(data, tasks, groups, sorted({values for values, _ in found}), error)


def _culprits(
    data: DataFrame, tasks: Tasks, groups: grouping.Groups, error: Exception
) -> dict[str, MetricError]:
    """Find the tasks that the data makes fail."""
    names = [task.name for task in (*tasks.rules, *tasks.fixes)]

    def run(some: Sequence[str]) -> dict[str, Any]:
        count(data, tasks, groups, set(names) - set(some))
        return dict.fromkeys(some)

    outcomes = find_failures(names, run, error)
    return {name: one.error for name, one in outcomes.items() if isinstance(one, Failure)}


def _whole(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups,
    values: Sequence[Values],
    error: Exception,
) -> Tallies:
    """Count the groups that let every task be evaluated."""
    if len(values) < 2:  # noqa: PLR2004
        return {}
    found: Tallies = {}
    tries = ISOLATING_JOBS

    def run(some: Sequence[Values]) -> dict[Values, Any]:
        nonlocal tries
        tries -= 1
        if tries < 0:
            raise _GaveUpError
        found.update(count(grouping.only_groups(data, groups.by, some), tasks, groups))
        return dict.fromkeys(some)

    with suppress(_GaveUpError):
        find_failures(values, run, error)
    return found


class _GaveUpError(Exception):
    """Too many groups fail for each to be found."""
