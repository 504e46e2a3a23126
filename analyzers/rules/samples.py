"""A few of the records that rules do not like, the same ones whenever the same data is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.groups import hive_text
from analyzers.partitions import Partition
from analyzers.rules.expressions import Expression, shown_text
from analyzers.rules.masks import OWN, Masked
from analyzers.rules.state import Sample
from analyzers.schema import Schema
from analyzers.sql import quote, words_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 10
"""Columns of a record, where it is not known which a rule reads."""
WIDTH = 200
"""Characters of one value, at most."""
_HASH = f"{OWN}h"
_UNHASHED = ("map", "variant")


def sample_rejects(
    masked: Masked,
    charged: Mapping[str, int],
    most: int,
    keys: Sequence[str] = (),
    by: Sequence[str] = (),
) -> Iterator[Sample]:
    """Yield at most so many records for each rule that is charged with any; one action.

    Which ones is decided by a hash of the record, not by where it lies or when it is read.

    Parameters
    ----------
    masked : Masked
    charged : mapping of str to int
        How many records each of these rules is charged with.
    most : int
    keys : sequence of str
        Columns that tell a record from others; they come first in each sample.
    by : sequence of str
        The partition columns.
    """
    rules = [rule for rule in masked.tasks.rules if charged.get(rule.name)]
    read = {rule.name: _read_by(rule.expression, masked, keys) for rule in rules}
    columns = list(dict.fromkeys(name for names in read.values() for name in names))
    texts = [hive_text(_original(masked, key)) for key in by]
    texts += [f"left(CAST({_original(masked, name)} AS STRING), {WIDTH})" for name in columns]
    row = f"array({', '.join(texts) or 'CAST(NULL AS STRING)'})"
    low = [f"({masked.breaks(r)} AND {_HASH} <= {_low(most, charged[r.name])}L)" for r in rules]
    found = _least(masked, row, most, " OR ".join(low))
    if any(len(found.get(r.name, ())) < min(most, charged[r.name]) for r in rules):
        found = _least(masked, row, most)  # many records are equal, and so are their hashes
    for rule in rules:
        for cells in found.get(rule.name, ()):
            partition = Partition(tuple(by), tuple(cells[: len(by)])).name if by else ""
            values = dict(zip(columns, cells[len(by) :], strict=False))
            record = {name: values[name] for name in read[rule.name]}
            yield Sample(rule.name, record, partition)


def _least(masked: Masked, row: str, most: int, where: str = "true") -> dict[str, Any]:
    """Return the rows with the least hashes for each rule, of those that a condition lets through."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    hashed = masked.frame.selectExpr("*", f"xxhash64({', '.join(_hashable(masked))}) AS {_HASH}")
    charged = hashed.where(where).selectExpr(
        f"explode({masked.charged()}) AS {OWN}p0", f"{row} AS {OWN}p1", _HASH
    )
    least = F.expr(f"min_by({OWN}p1, {_HASH}, {int(most)})").alias(f"{OWN}p2")
    return dict(charged.groupBy(f"{OWN}p0").agg(least).collect())


def _low(most: int, count: int) -> int:
    """Return a hash below which the wanted records lie, but for a chance of less than 1e-60.

    Of the others nothing but the hash is read: with many rejects that takes most of the time.
    """
    share = min(1.0, 30 * (most + 10) / count)
    return int(-(2**63) + share * (2**64 - 1)) if share < 1 else 2**63 - 1


def _original(masked: Masked, column: str) -> str:
    return masked.originals.get(column, quote(column))


def _hashable(masked: Masked) -> list[str]:
    """Return the columns that Spark has hashes of, with their original values."""
    types = Schema.of(masked.frame.schema).struct["fields"]
    plain = {f["name"] for f in types if not _holds(f["type"], _UNHASHED)}
    names = [_original(masked, c) for c in masked.columns if c in plain]
    return names or ["0"]


def _holds(kind: Any, unwanted: Collection[str]) -> bool:
    """Whether a type is, or has inside, one of some."""
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
    if not read:  # a function may read any
        read = list(masked.columns[:SHOWN])
    return list(dict.fromkeys([*keys, *read]))


def check_columns(data: DataFrame, columns: Sequence[str]) -> list[str]:
    """Return columns as the data spells them.

    Raises
    ------
    NoSuchColumnError
        Naming the nearest.
    """
    schema = Schema.of_frame(data)
    spelled = {quote(name): name for name in data.columns}
    return [spelled[schema.field(quote(column)).sql] for column in columns]
