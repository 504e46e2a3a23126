"""Examples of bad values, for the messages of failed constraints."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import VerdictWarning, describe
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.schema import NESTED, TEXT, Field, Schema
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import parts, quote, words_in
from tidegauge.analyzers.measures.counts import Compliance
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.texts import MaxLength, MinLength, PatternMatch
from tidegauge.analyzers.measures.uniqueness import Uniqueness
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.query_logs import handled_errors
from tidegauge.analyzers.scan.row_level import row_outcome
from tidegauge.checks.constraints import Constraint
from tidegauge.checks.rows import row_predicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_CONSTRAINTS = 50
"""Number of constraints for which examples are looked for."""
MOST_COLUMNS = 3
"""Greatest number of columns of a condition whose values are shown."""
WIDTH = 40
"""Maximum characters of a value."""
UNPRINTABLE = NESTED | {"binary", "interval", "void"}


@dataclass(frozen=True)
class BadRows:
    """Bad rows of a constraint: how many there are, or None if they are not counted, and some values."""

    rows: int | None
    values: tuple[str, ...]


@handled_errors()
def examples_of(
    data: DataFrame,
    constraints: Iterable[Constraint],
    private: Privacy | None = None,
    groups: Groups | None = None,
) -> dict[tuple[Values, Constraint], BadRows]:
    """Return up to three bad values of each constraint: the least, the greatest, and any other.

    One Spark job for all constraints on single rows, and one for each on uniqueness. The same data
    always give the same values.

    Parameters
    ----------
    data : DataFrame
    constraints : iterable of Constraint
        Those that values do not explain are left out: on completeness, on nested columns, and
        conditions on many columns.
    private : Privacy, optional
        Columns whose values are not to be shown; constraints on them are left out.
    groups : Groups, optional
        Partition columns: examples are found for each partition.

    Returns
    -------
    dict
        By the partition's values and the constraint; no entry if there is no bad row. Rows are not
        counted for uniqueness.
    """
    groups = groups or Groups()
    schema = Schema.from_frame(data)
    private = private or Privacy()
    asked = [_asked(one, schema, private) for one in dict.fromkeys(constraints)]
    some = [one for one in asked if one is not None][:MOST_CONSTRAINTS]
    together = [one for one in some if not one.duplicates]
    found: dict[tuple[Values, Constraint], BadRows] = {}
    for job in filter(None, [together, *([one] for one in some if one.duplicates)]):
        try:
            found |= dict(_collected(data, job, groups))
        except Exception as error:  # noqa: BLE001 - the verdict stands without examples
            warnings.warn(f"no examples of bad values: {describe(error)}", VerdictWarning, 3)
    return found


@dataclass(frozen=True)
class _Asked:
    """A constraint with the query for its bad values.

    Attributes
    ----------
    constraint : Constraint
    fields : sequence of Field
        The columns whose values are shown.
    bad : str
        SQL for whether a row is bad, or, of duplicates, for whether it counts.
    duplicates : bool
        True if a row is bad because another has the same values.
    """

    constraint: Constraint
    fields: Sequence[Field]
    bad: str
    duplicates: bool = False

    @property
    def values(self) -> str:
        """SQL for the values of a bad row, as a struct; null for all others."""
        columns = ", ".join(field.uncollated_sql for field in self.fields)
        return f"CASE WHEN {self.bad} THEN struct({columns}) END"


def _asked(constraint: Constraint, schema: Schema, private: Privacy) -> _Asked | None:
    """Return how to find bad values; None if none explains the constraint, or they are private."""
    columns = _columns(constraint.analyzer, schema)
    if not 0 < len(columns) <= MOST_COLUMNS:
        return None
    if any(private.covers(column, schema) for column in columns):
        return None
    fields = [schema.field(column) for column in columns]
    if any(field.kind in UNPRINTABLE for field in fields):
        return None
    analyzer = constraint.analyzer.with_exact_comparisons(schema)
    where = "true" if analyzer.where is None else f"(\n{analyzer.where}\n)"
    if isinstance(analyzer, Uniqueness):
        rule = row_predicate(constraint, "true")
        return _Asked(constraint, fields, where, duplicates=True) if rule else None
    rule = row_predicate(constraint, f"({row_outcome(analyzer, schema)})")
    return _Asked(constraint, fields, f"{where} AND NOT {rule}") if rule else None


def _columns(analyzer: AnyAnalyzer, schema: Schema) -> tuple[str, ...]:
    """Return the columns whose values explain a constraint on an analyzer."""
    if isinstance(analyzer, PatternMatch | MinLength | MaxLength | Minimum | Maximum):
        return (analyzer.column,)
    if isinstance(analyzer, Uniqueness):
        return analyzer.columns
    if isinstance(analyzer, Compliance):
        words = words_in(analyzer.predicate)
        return tuple(quote(name) for name in schema.names if name.casefold() in words)
    return ()


def _collected(
    data: DataFrame, asked: Sequence[_Asked], groups: Groups
) -> Iterator[tuple[tuple[Values, Constraint], BadRows]]:
    """Run one job, and yield the examples of each partition and constraint that has any."""
    from pyspark.sql import functions as F

    if asked[0].duplicates:
        keyed = _duplicates(groups.with_keys(data), asked[0], groups)
        values = [f"struct({', '.join(_aliases(asked[0].fields))})"]
    else:  # columns of a projection, so that each condition is evaluated once a row
        values = [f"__tidegauge_bad{i}" for i in range(len(asked))]
        keyed = groups.with_keys(
            data, *(f"{one.values} AS {n}" for one, n in zip(asked, values, strict=True))
        )
    cells = []
    for one, value in zip(asked, values, strict=True):
        hashed = f"CASE WHEN {value} IS NOT NULL THEN xxhash64({value}) END"
        some = (f"min({value})", f"min_by({value}, {hashed})", f"max({value})")
        texts = "STRUCT<" + ", ".join(f"v{i}: STRING" for i in range(len(one.fields))) + ">"
        cells.append(F.expr(f"array({', '.join(f'CAST({cell} AS {texts})' for cell in some)})"))
    named = [cell.alias(f"e{number}") for number, cell in enumerate(cells)]
    named += [F.expr(f"count({value})").alias(f"n{number}") for number, value in enumerate(values)]
    for row in groups.aggregated(keyed, named).collect():
        key, _ = groups.key_of(row)
        for number, one in enumerate(asked):
            bad = dict.fromkeys(tuple(v) for v in row[f"e{number}"] if v is not None)
            if bad:
                rows = None if one.duplicates else row[f"n{number}"]
                told = tuple(_told(one.fields, value) for value in bad)
                yield (key, one.constraint), BadRows(rows, told)


def _duplicates(keyed: DataFrame, asked: _Asked, groups: Groups) -> DataFrame:
    """Return the values that occur more than once, a row for each and its partition."""
    known = " OR ".join(f"{field.sql} IS NOT NULL" for field in asked.fields)
    names = _aliases(asked.fields)
    values = [f"{f.uncollated_sql} AS {n}" for f, n in zip(asked.fields, names, strict=True)]
    rows = keyed.where(f"{asked.bad} AND ({known})").selectExpr(*groups.names, *values)
    return rows.groupBy(*groups.names, *names).count().where("count > 1")


def _aliases(fields: Sequence[Field]) -> list[str]:
    return [f"__tidegauge_v{i}" for i in range(len(fields))]


def _told(fields: Sequence[Field], values: Sequence[str | None]) -> str:
    """Return the values of a row as text: one value alone, several with their columns."""
    texts = [_value(field, value) for field, value in zip(fields, values, strict=True)]
    if len(texts) == 1:
        return texts[0]
    names = (".".join(map(str, parts(field.path))) for field in fields)
    return f"({', '.join(f'{name}: {text}' for name, text in zip(names, texts, strict=True))})"


def _value(field: Field, value: str | None) -> str:
    """Return a value for a message: text in quotes, on one line, cut if it is long."""
    if value is None:
        return "null"
    text = plain(value, WIDTH) if value else ""
    return f"'{text}'" if field.kind in TEXT else text
