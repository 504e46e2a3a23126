"""Exact uniqueness and distinctness of one or more columns, and duplicate rows.

Rows where all columns are null are excluded; a null beside a value counts as a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import NoColumnsSpecifiedError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.measures.frequencies import (
    GroupSizeAnalyzer,
    Sizes,
)

_MICROSECONDS = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS"
_JSON = (
    "'ignoreNullFields', 'false', 'timeZone', 'UTC',"
    f" 'timestampFormat', '{_MICROSECONDS}', 'timestampNTZFormat', '{_MICROSECONDS}'"
)


@dataclass(frozen=True, repr=False)
class _ColumnsAnalyzer(GroupSizeAnalyzer):
    scale: ClassVar[Scale] = Scale.RATIO

    columns: tuple[str, ...]

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The columns to group by."""
        return self.columns

    def check_parameters(self) -> None:
        """Require at least one column."""
        if not self.columns:
            msg = f"{type(self).__name__} needs at least one column"
            raise NoColumnsSpecifiedError(msg)


@analyzer
class Uniqueness(_ColumnsAnalyzer):
    """Share of rows whose value occurs once. Empty metric at zero rows.

    Parameters
    ----------
    columns : str or sequence of str

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.Uniqueness("x").compute_metric_from(state).value
    0.25
    """

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of values that occur once divided by rows."""
        if not sizes.num_rows:
            raise self.no_data()
        return sizes.num_groups_of(1) / sizes.num_rows


@analyzer
class Distinctness(_ColumnsAnalyzer):
    """Number of distinct values divided by rows. Empty metric at zero rows.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.Distinctness("x").compute_metric_from(state).value
    0.5
    """

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of groups divided by rows."""
        if not sizes.num_rows:
            raise self.no_data()
        return sizes.num_groups / sizes.num_rows


@analyzer
class CountDistinct(_ColumnsAnalyzer):
    """Number of distinct values; 0 for no rows.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a", None), 1), (("b", "c"), 3)])
    >>> tg.CountDistinct(["x", "y"]).compute_metric_from(state).value
    2.0
    """

    scale: ClassVar[Scale] = Scale.COUNT

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of groups."""
        return float(sizes.num_groups)


@analyzer
class UniqueValueRatio(_ColumnsAnalyzer):
    """Share of distinct values that occur once. Empty metric at zero rows.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.UniqueValueRatio("x").compute_metric_from(state).value
    0.5
    """

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of values that occur once divided by distinct values."""
        if not sizes.num_rows:
            raise self.no_data()
        return sizes.num_groups_of(1) / sizes.num_groups

    def weight_of(self, sizes: Sizes) -> float:
        """Return the number of distinct values."""
        return sizes.num_groups


@analyzer
class DuplicateRowCount(_ColumnsAnalyzer):
    """Number of duplicate rows: rows whose value occurs more than once, all occurrences counted.

    0 for no rows.

    Parameters
    ----------
    columns : str or sequence of str, optional
        All columns of the table if not given; rows are then compared by a digest, and only digests
        are stored. Inside arrays and structs 0.0 and -0.0 differ then.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.DuplicateRowCount("x").compute_metric_from(state).value
    3.0
    """

    scale: ClassVar[Scale] = Scale.COUNT

    columns: tuple[str, ...] = ()

    def check_parameters(self) -> None:
        """Allow no columns, which stands for all."""

    @property
    def entity(self) -> Entity:
        """Dataset if all columns are compared, else column or multicolumn."""
        return super().entity if self.columns else Entity.DATASET

    @property
    def instance(self) -> str:
        """The columns joined by commas; ``*`` for all columns."""
        return super().instance if self.columns else "*"

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns, or one digest of all columns."""
        if self.columns:
            return super().grouping_expressions(schema)
        fields = [schema.field(quote(name)) for name in schema.names]
        names = [field.sql for field in fields]
        row = f"to_json(struct({', '.join(field.zero_normalized_sql for field in fields)}), map({_JSON}))"
        nulls = " AND ".join(f"{name} IS NULL" for name in names)
        return (f"CASE WHEN NOT ({nulls}) THEN unhex(md5({row})) END",)

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of rows minus those that occur once."""
        return float(sizes.num_rows - sizes.num_groups_of(1))
