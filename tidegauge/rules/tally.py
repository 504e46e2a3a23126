"""Counts and samples of records: one pass groups them by the bit words of rules and fixes.

Samples of the records that rules reject or warn about are deterministic: the same rows give the same samples.
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
from tidegauge.rules.masks import OWN, Masked, conjunction_sql, mask
from tidegauge.rules.record_counts import RecordCounts, Sample, Tally, Tasks
from tidegauge.rules.tasks import Expression, shown_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.sources.sources import Source


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


SAMPLES = 10
"""Records of each rule that are kept as samples."""
SHOWN = 10
"""Columns shown of a record where the columns that a rule reads are unknown."""
WIDTH = 200
"""Maximum number of characters of a value."""
_HASH = f"{OWN}h"
_UNHASHED = ("map", "variant")


def sample_charged(
    masked: Masked,
    counts: RecordCounts,
    most: int = SAMPLES,
    keys: Sequence[str] = (),
    by: Sequence[str] = (),
    private: Privacy | None = None,
) -> Iterator[Sample]:
    """Yield samples of the records that were counted; no action if no rule has any, or ``most`` is 0.

    Parameters as for `sample_rejects`.
    """
    found = masked.tasks.of(counts)
    charged = {name: count for (kind, name), count in found.items() if kind == "charged" and count}
    if charged and most > 0:
        yield from sample_rejects(masked, charged, most, keys, by, private)


def sample_partitions(
    source: Source,
    tasks: Tasks,
    counted: Mapping[str, RecordCounts],
    most: int = SAMPLES,
    private: Privacy | None = None,
) -> Iterator[Sample]:
    """Yield samples of partitions that were counted; only those with records for a rule are read again.

    Parameters
    ----------
    source : Source
    tasks : Tasks
        The rules and fixes that were counted.
    counted : mapping of str to RecordCounts
        Their counts by partition.
    most, private
        As for `sample_rejects`; ``most`` holds for all partitions together.
    """
    looked = {
        name: counts
        for name, counts in counted.items()
        if any(count for (kind, _), count in tasks.of(counts).items() if kind == "charged")
    }
    if not looked or most <= 0:
        return
    partitions = [Partition.from_name(name, source.keys) for name in looked]
    data = source.read(partitions if source.keys else None)
    masked, whole = mask(data, tasks, by=source.keys), RecordCounts.merge(looked.values())
    yield from sample_charged(masked, whole, most, (), source.keys, private)


def sample_rejects(
    masked: Masked,
    charged: Mapping[str, int],
    most: int,
    keys: Sequence[str] = (),
    by: Sequence[str] = (),
    private: Privacy | None = None,
) -> Iterator[Sample]:
    """Yield up to ``most`` records for each rule that has records charged to it; one action.

    Values of private columns are replaced by ``***``. Records are selected by their hash, so the
    sample does not depend on their location or on the time of reading.

    Parameters
    ----------
    masked : Masked
    charged : mapping of str to int
        The number of records charged to each rule.
    most : int
        Maximum number of records for each rule.
    keys : sequence of str
        Columns that identify a record; they come first in each sample.
    by : sequence of str
        The partition columns.
    private : Privacy, optional
        The private columns; those of the configuration file if not given.
    """
    known = privacy_settings() if private is None else private
    rules = [rule for rule in masked.tasks.rules if charged.get(rule.name)]
    read = {rule.name: _read_by(rule.expression, masked, keys) for rule in rules}
    columns = list(dict.fromkeys(name for names in read.values() for name in names))
    hidden = known.holders_of(Schema.from_frame(masked.frame))
    texts = [hive_text(_original(masked, key)) for key in by]
    texts += [
        f"if({_original(masked, name)} IS NULL, NULL, '{HIDDEN}')"
        if name.casefold() in hidden
        else f"left(CAST({_original(masked, name)} AS STRING), {WIDTH})"
        for name in columns
    ]
    row = f"array({', '.join(texts) or 'CAST(NULL AS STRING)'})"
    low = [f"({masked.breaks_sql(r)} AND {_HASH} <= {_low(most, charged[r.name])}L)" for r in rules]
    found = _least(masked, row, most, " OR ".join(low))
    if any(len(found.get(r.name, ())) < min(most, charged[r.name]) for r in rules):
        found = _least(masked, row, most)  # many equal records have equal hashes above the limit
    for rule in rules:
        for cells in found.get(rule.name, ()):
            partition = Partition(tuple(by), tuple(cells[: len(by)])).name if by else ""
            values = dict(zip(columns, cells[len(by) :], strict=False))
            record = {name: values[name] for name in read[rule.name]}
            yield Sample(rule.name, record, partition)


def _least(masked: Masked, row: str, most: int, where: str = "true") -> dict[str, Any]:
    """Return the rows with the smallest hashes for each rule, among those that meet a condition."""
    hashed = masked.frame.selectExpr("*", f"xxhash64({', '.join(_hashable(masked))}) AS {_HASH}")
    charged = hashed.where(where).selectExpr(
        f"explode({masked.charged_rules_sql()}) AS {OWN}p0", f"{row} AS {OWN}p1", _HASH
    )
    return dict(smallest(charged, f"{OWN}p0", f"{OWN}p1", _HASH, int(most)).collect())


def _low(most: int, count: int) -> int:
    """Return a hash limit below which the samples lie, with an error probability under 1e-60.

    Only the hash is read of the other records: with many rejects, reading them takes most of the
    time.
    """
    share = min(1.0, 30 * (most + 10) / count)
    return int(-(2**63) + share * (2**64 - 1)) if share < 1 else 2**63 - 1


def _original(masked: Masked, column: str) -> str:
    return masked.originals.get(column, quote(column))


def _hashable(masked: Masked) -> list[str]:
    """Return the columns that Spark can hash, with their original values."""
    types = Schema.from_spark(masked.frame.schema).struct["fields"]
    plain = {f["name"] for f in types if not _holds(f["type"], _UNHASHED)}
    names = [_original(masked, c) for c in masked.columns if c in plain]
    return names or ["0"]


def _holds(kind: Any, unwanted: Collection[str]) -> bool:
    """Return whether a type is, or contains, one of the unwanted types."""
    if isinstance(kind, str):
        return kind in unwanted
    if isinstance(kind, dict):
        inside = kind.get("fields") or [kind.get("elementType"), kind.get("type")]
        return any(_holds(part, unwanted) for part in inside if part is not None)
    return False


def _read_by(expression: Expression, masked: Masked, keys: Sequence[str]) -> list[str]:
    """Return the key columns, then those that an expression reads."""
    words = words_in(" ".join(map(shown_text, expression.pieces)))
    read = [c for c in masked.columns if c.casefold() in words]
    if not read:  # a function may read any column
        read = list(masked.columns[:SHOWN])
    return list(dict.fromkeys([*keys, *read]))


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
