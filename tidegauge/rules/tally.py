"""Counts and samples of records, which one scan groups by the bit words of rules and fixes.

Samples of records that rules reject or warn about are deterministic: equal rows give equal samples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.errors import MetricError
from tidegauge.analyzers.core.formatting import HIDDEN
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote, words_in
from tidegauge.analyzers.scan import grouping
from tidegauge.analyzers.scan.capabilities import smallest, to_arrow
from tidegauge.analyzers.scan.grouping import hive_text
from tidegauge.analyzers.scan.jobs import Answers, ScanJob
from tidegauge.analyzers.scan.spark_errors import (
    find_failures,
    handled_errors,
    is_data_error,
    try_groups,
)
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.masks import HIDDEN_PREFIX, Masked, conjunction_sql, mask
from tidegauge.rules.record_counts import RecordCounts, Sample, Tally, Tasks
from tidegauge.rules.tasks import Expression, shown_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.sources.sources import Source


MAX_COLLECTED_ROWS = 400_000
"""Limit on rows (combinations of broken rules by group) that the driver collects; above it, Spark sums the counts."""


Tallies = dict[grouping.Key, Tally]


def count(
    data: DataFrame, tasks: Tasks, groups: grouping.Groups, skip: Iterable[str] = ()
) -> Tallies:
    """Count the records of each group by the outcome of rules and fixes, in one action.

    Raises
    ------
    Exception
        Spark's error, if an expression fails on the data.
    """
    return count_masked(mask(groups.with_keys(data), tasks, skip), groups)


def count_masked(masked: Masked, groups: grouping.Groups) -> Tallies:
    """Count records that already have bit words and group keys, in one action."""
    from pyspark.sql import functions as F

    # Spark skips unused columns, so a failing repair would go unnoticed. Hashing forces their evaluation.
    read = [f"bit_xor(hash({cell})) AS {HIDDEN_PREFIX}v{i}" for i, cell in enumerate(masked.values)]
    cells = [F.expr(cell) for cell in (f"count(1) AS {HIDDEN_PREFIX}n", *read)]
    counted = groups.aggregated(masked.frame, cells, masked.words)
    # Most data breaks few rules in few combinations. The limit bounds the driver's memory otherwise.
    table = to_arrow(counted.limit(MAX_COLLECTED_ROWS + 1))
    if table.num_rows > MAX_COLLECTED_ROWS:
        return _sums(counted, masked, groups)
    tallies: Tallies = {}
    for key, rows in grouping.split_by_groups(table, groups.names):
        words = [rows[name].to_numpy() for name in masked.words]
        state = masked.tasks.fold(words, rows[f"{HIDDEN_PREFIX}n"].to_numpy())
        tallies[groups.key_of(key)] = Tally(state, masked.failures)
    return tallies


def _sums(counted: DataFrame, masked: Masked, groups: grouping.Groups) -> Tallies:
    """Sum the counts of each group in Spark, without the combinations."""
    from pyspark.sql import functions as F

    cells = [
        F.expr(
            f"sum(CASE WHEN {conjunction_sql(tests, masked.words)} THEN {HIDDEN_PREFIX}n ELSE 0L END)"
        ).alias(f"{HIDDEN_PREFIX}c{i}")
        for i, tests in enumerate(masked.tasks.counters.values())
    ]
    names = groups.names
    tallies: Tallies = {}
    for row in counted.groupBy(*names).agg(*cells).collect():
        counts = tuple(int(cell) for cell in row[len(names) :])
        tallies[groups.key_of(row)] = Tally(RecordCounts(counts, None), masked.failures)
    return tallies


@handled_errors()
def tally(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups | None = None,
    *,
    incremental: bool = False,
) -> Tallies:
    """Count like `count`, but isolate tasks that fail on the data and count all other tasks.

    A failing task is marked only in the groups in which it fails, as far as 24 additional actions can
    isolate these groups.

    Parameters
    ----------
    data : DataFrame
        The records.
    tasks : Tasks
        The rules and fixes.
    groups : Groups, optional
        The groups (default: one group of all records).
    incremental : bool
        Whether only some partitions are counted at a time, so that tasks that read other partitions
        fail.
    """
    groups = groups or grouping.Groups()
    masked = mask(
        groups.with_keys(data), tasks, partition_by=groups.columns if incremental else None
    )
    try:
        return count_masked(masked, groups)
    except Exception as error:
        if not is_data_error(error):
            raise
        failures = {
            **masked.failures,
            **_failing_tasks(data, tasks, groups, error, masked.failures),
        }
        tallies = {
            key: Tally(group.counts, {**group.failures, **failures})
            for key, group in count(data, tasks, groups, failures).items()
        }
        return tallies | _count_sound_groups(
            data, tasks, groups, sorted({values for values, _ in tallies}), error, masked.failures
        )


def _failing_tasks(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups,
    error: Exception,
    unresolved: Iterable[str],
) -> dict[str, MetricError]:
    """Bisect to find the tasks that fail on the data, among the tasks that resolve."""
    left_out = set(unresolved)
    names = [t.name for t in (*tasks.rules, *tasks.fixes) if t.name not in left_out]

    def run(names_to_run: Sequence[str]) -> dict[str, Any]:
        count(data, tasks, groups, left_out | (set(names) - set(names_to_run)))
        return dict.fromkeys(names_to_run)

    outcomes = find_failures(names, run, error)
    return {
        name: outcome.error for name, outcome in outcomes.items() if isinstance(outcome, Failure)
    }


def _count_sound_groups(
    data: DataFrame,
    tasks: Tasks,
    groups: grouping.Groups,
    values: Sequence[Values],
    error: Exception,
    unresolved: Mapping[str, MetricError],
) -> Tallies:
    """Count the groups in which all tasks that resolve can be evaluated."""
    if len(values) < 2:
        return {}
    tallies: Tallies = {}

    def run(selected: Sequence[Values]) -> None:
        selected_data = grouping.filter_partitions(data, groups.columns, selected)
        for key, group in count(selected_data, tasks, groups, unresolved).items():
            tallies[key] = Tally(group.counts, {**group.failures, **unresolved})

    try_groups(values, run, error)
    return tallies


@dataclass(frozen=True)
class RecordRulesJob(ScanJob):
    """Job of a scan that counts the rules and fixes of a `DQM`. The answer is a `Tally`."""

    kind: ClassVar[str] = "record rules"

    def run(self, data: DataFrame, groups: grouping.Groups) -> Answers:
        """Count the records by combination of violated rules and applied fixes."""
        (request,) = self.requests
        return {request: tally(data, request.tasks, groups, incremental=True)}


DEFAULT_SAMPLES = 10
"""Enough samples to recognize a cause without flooding a report."""
MAX_SHOWN_COLUMNS = 10
"""Limit on the columns of a sample if the columns that a rule reads are unknown."""
MAX_VALUE_LENGTH = 200
"""Limit on the characters of a value in a sample."""
_HASH_COLUMN = f"{HIDDEN_PREFIX}h"
_UNHASHABLE_TYPES = ("map", "variant")


def sample_charged(
    masked: Masked,
    counts: RecordCounts,
    max_samples: int = DEFAULT_SAMPLES,
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    private: Privacy | None = None,
) -> Iterator[Sample]:
    """Yield samples of counted records, without an action if no rule has any or ``max_samples`` is 0.

    The parameters are described at `sample_rejects`.
    """
    count_by_counter = masked.tasks.counts_by_task(counts)
    charged = {
        name: count
        for (kind, name), count in count_by_counter.items()
        if kind == "charged" and count
    }
    if charged and max_samples > 0:
        yield from sample_rejects(masked, charged, max_samples, keys, partition_by, private)


def sample_partitions(
    source: Source,
    tasks: Tasks,
    counted: Mapping[str, RecordCounts],
    max_samples: int = DEFAULT_SAMPLES,
    private: Privacy | None = None,
) -> Iterator[Sample]:
    """Yield samples of counted partitions; only partitions in which records break rules are read again.

    Parameters
    ----------
    source : Source
        The table.
    tasks : Tasks
        The rules and fixes that were counted.
    counted : mapping of str to RecordCounts
        The counts by partition.
    max_samples : int
        Maximum number of records for each rule, over all partitions.
    private : Privacy, optional
        As for `sample_rejects`.
    """
    to_read = {
        name: counts
        for name, counts in counted.items()
        if any(
            count for (kind, _), count in tasks.counts_by_task(counts).items() if kind == "charged"
        )
    }
    if not to_read or max_samples <= 0:
        return
    partitions = [Partition.from_name(name, source.keys) for name in to_read]
    data = source.read(partitions if source.keys else None)
    masked, merged = (
        mask(data, tasks, partition_by=source.keys),
        RecordCounts.merge(to_read.values()),
    )
    yield from sample_charged(masked, merged, max_samples, (), source.keys, private)


def sample_rejects(
    masked: Masked,
    charged: Mapping[str, int],
    max_samples: int,
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    private: Privacy | None = None,
) -> Iterator[Sample]:
    """Yield up to ``max_samples`` records for each rule that has records charged to it, in one action.

    Values of private columns are replaced by ``***``. Records are selected by hash, so the
    sample does not depend on their location or on the time of reading.

    Parameters
    ----------
    masked : Masked
        The frame with the bit words of rules and fixes.
    charged : mapping of str to int
        The number of records charged to each rule.
    max_samples : int
        Maximum number of records for each rule.
    keys : sequence of str
        Columns that identify a record; they come first in each sample.
    partition_by : sequence of str
        The partition columns.
    private : Privacy, optional
        The private columns (default: the private columns of the configuration file).
    """
    privacy = privacy_settings() if private is None else private
    rules = [rule for rule in masked.tasks.rules if charged.get(rule.name)]
    columns_by_rule = {rule.name: _read_by(rule.expression, masked, keys) for rule in rules}
    columns = list(dict.fromkeys(name for names in columns_by_rule.values() for name in names))
    hidden = privacy.holders_of(Schema.from_frame(masked.frame))
    texts = [hive_text(_original(masked, key)) for key in partition_by]
    texts += [
        f"if({_original(masked, name)} IS NULL, NULL, '{HIDDEN}')"
        if name.casefold() in hidden
        else f"left(CAST({_original(masked, name)} AS STRING), {MAX_VALUE_LENGTH})"
        for name in columns
    ]
    row = f"array({', '.join(texts) or 'CAST(NULL AS STRING)'})"
    conditions = [
        f"({masked.breaks_sql(r)} AND {_HASH_COLUMN} <= {_hash_limit(max_samples, charged[r.name])}L)"
        for r in rules
    ]
    rows_by_rule = _rows_with_least_hashes(masked, row, max_samples, " OR ".join(conditions))
    if any(len(rows_by_rule.get(r.name, ())) < min(max_samples, charged[r.name]) for r in rules):
        rows_by_rule = _rows_with_least_hashes(
            masked, row, max_samples
        )  # many equal records have equal hashes above the limit
    for rule in rules:
        for row_cells in rows_by_rule.get(rule.name, ()):
            partition = (
                Partition(tuple(partition_by), tuple(row_cells[: len(partition_by)])).name
                if partition_by
                else ""
            )
            values = dict(zip(columns, row_cells[len(partition_by) :], strict=False))
            record = {name: values[name] for name in columns_by_rule[rule.name]}
            yield Sample(rule.name, record, partition)


def _rows_with_least_hashes(
    masked: Masked, row: str, max_samples: int, condition: str = "true"
) -> dict[str, Any]:
    """Return the rows with the smallest hashes for each rule, among the rows that meet a condition."""
    hashed = masked.frame.selectExpr(
        "*", f"xxhash64({', '.join(_hashable(masked))}) AS {_HASH_COLUMN}"
    )
    charged = hashed.where(condition).selectExpr(
        f"explode({masked.charged_rules_sql()}) AS {HIDDEN_PREFIX}p0",
        f"{row} AS {HIDDEN_PREFIX}p1",
        _HASH_COLUMN,
    )
    return dict(
        smallest(
            charged, f"{HIDDEN_PREFIX}p0", f"{HIDDEN_PREFIX}p1", _HASH_COLUMN, int(max_samples)
        ).collect()
    )


def _hash_limit(max_samples: int, count: int) -> int:
    """Return a hash limit that includes all samples, except with a probability under 1e-60.

    Of records above the limit only the hash is computed, which saves most of the time if there are many rejects.
    """
    share = min(1.0, 30 * (max_samples + 10) / count)
    return int(-(2**63) + share * (2**64 - 1)) if share < 1 else 2**63 - 1


def _original(masked: Masked, column: str) -> str:
    return masked.originals.get(column, quote(column))


def _hashable(masked: Masked) -> list[str]:
    """Return the columns that Spark can hash, with their original values."""
    types = Schema.from_spark(masked.frame.schema).struct["fields"]
    hashable = {f["name"] for f in types if not _contains_type(f["type"], _UNHASHABLE_TYPES)}
    names = [_original(masked, c) for c in masked.columns if c in hashable]
    return names or ["0"]


def _contains_type(kind: Any, kinds: Collection[str]) -> bool:
    """Return whether a type is, or contains, one of the given types."""
    if isinstance(kind, str):
        return kind in kinds
    if isinstance(kind, dict):
        inner_types = kind.get("fields") or [kind.get("elementType"), kind.get("type")]
        return any(_contains_type(part, kinds) for part in inner_types if part is not None)
    return False


def _read_by(expression: Expression, masked: Masked, keys: Sequence[str]) -> list[str]:
    """Return the key columns, then the columns that an expression reads."""
    words = words_in(" ".join(map(shown_text, expression.pieces)))
    columns = [c for c in masked.columns if c.casefold() in words]
    if not columns:  # a function can read any column
        columns = list(masked.columns[:MAX_SHOWN_COLUMNS])
    return list(dict.fromkeys([*keys, *columns]))


def resolve_columns(data: DataFrame, columns: Sequence[str]) -> list[str]:
    """Return column names as the data spells them.

    Raises
    ------
    NoSuchColumnError
        If a column does not exist; the message suggests the nearest name.
    """
    schema = Schema.from_frame(data)
    spelled = {quote(name): name for name in data.columns}
    return [spelled[schema.field(quote(column)).sql] for column in columns]
