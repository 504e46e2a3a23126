"""A few of the records that rules do not like, the same ones whenever the same data is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.groups import hive_text
from analyzers.partitions import Partition
from analyzers.rules.expressions import Expression, shown_text
from analyzers.rules.masks import OWN, Masked, all_of
from analyzers.rules.state import Sample
from analyzers.rules.tasks import DQMRule
from analyzers.schema import Schema
from analyzers.sql import names_in, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WIDTH = 200
"""Characters of one value, at most."""
RULES_AT_ONCE = 50
_UNHASHED = ("map", "variant")


def sample_rejects(
    masked: Masked,
    rules: Sequence[DQMRule],
    most: int,
    keys: Sequence[str] = (),
    by: Sequence[str] = (),
) -> list[Sample]:
    """Return at most so many records for each of some rules; one action for up to 50 rules.

    Which ones is decided by a hash of the record, not by where it lies or when it is read.

    Parameters
    ----------
    masked : Masked
    rules : sequence of DQMRule
        Those that are charged with records.
    most : int
    keys : sequence of str
        Columns that tell a record from others; they come first in each sample.
    by : sequence of str
        The partition columns.
    """
    found: list[Sample] = []
    for start in range(0, len(rules), RULES_AT_ONCE):
        found += _some(masked, rules[start : start + RULES_AT_ONCE], most, keys, by)
    return found


def _some(
    masked: Masked, rules: Sequence[DQMRule], most: int, keys: Sequence[str], by: Sequence[str]
) -> Iterator[Sample]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    counters = {rule.name: masked.tasks.counters["charged", rule.name] for rule in rules}
    charged = [f"({all_of(tests, masked.words)})" for tests in counters.values()]
    order = f"xxhash64({', '.join(_hashable(masked))})"
    cells: list[Any] = []
    columns: list[list[str]] = []
    for rule, condition in zip(rules, charged, strict=True):
        names = _read_by(rule.expression, masked, keys)
        columns.append(names)
        texts = [hive_text(_original(masked, key)) for key in by]
        texts += [f"left(CAST({_original(masked, name)} AS STRING), {WIDTH})" for name in names]
        row = f"array({', '.join(texts) or 'CAST(NULL AS STRING)'})"
        text = f"min_by({row}, {order}, {int(most)}) FILTER (WHERE {condition})"
        cells.append(F.expr(text).alias(f"{OWN}c{len(cells)}"))
    (answers,) = masked.frame.where(" OR ".join(charged)).agg(*cells).collect()
    for rule, names, rows in zip(rules, columns, answers, strict=True):
        for row in rows or ():
            partition = Partition(tuple(by), tuple(row[: len(by)])).name if by else ""
            yield Sample(rule.name, dict(zip(names, row[len(by) :], strict=False)), partition)


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
    text = "".join(f"(\n{shown_text(piece)}\n)" for piece in expression.pieces)
    words = names_in(text)
    read = [c for c in masked.columns if c.casefold() in words]
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
