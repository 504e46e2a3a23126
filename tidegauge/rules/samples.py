"""Deterministic samples of the records that rules reject or warn about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.secrets import HIDDEN
from tidegauge.analyzers.core.sql import quote, words_in
from tidegauge.analyzers.scan.capabilities import smallest
from tidegauge.analyzers.scan.grouping import hive_text
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.expressions import Expression, shown_text
from tidegauge.rules.masks import OWN, Masked, mask
from tidegauge.rules.state import RecordCounts, Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.sources.sources import Source
    from tidegauge.rules.layout import Tasks

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
