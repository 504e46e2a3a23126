"""How often each value occurs: the state of every analyzer that must know the values exactly.

Frequencies are an Arrow table of the grouping columns and a count. They merge by one union and one
group-by, without Spark, and are packed as a Parquet file, so that large ones can lie beside the
database and be read by anything.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analyzers.analyzer import Analyzer, Filterable, T
from analyzers.description import canonical_json
from analyzers.errors import NoColumnsSpecifiedError, WrongColumnTypeError
from analyzers.metric import Entity
from analyzers.requests import Frequencies, Request
from analyzers.schema import Schema
from analyzers.state import State, mismatch, register_state

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

COUNT = "count"
_ROWS, _NULLS = b"tidegauge.num_rows", b"tidegauge.num_nulls"


@cache
def _nothing() -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - heavy, and not needed to describe

    return pa.table({COUNT: pa.array([], pa.int64())})


_HELD_ROWS = 1_000_000
"""How many groups of different states are held before they are added up."""


def _united(tables: Sequence[pa.Table]) -> pa.Table:
    """Add the counts of equal groups of some tables."""
    import pyarrow as pa  # noqa: PLC0415

    if len(tables) == 1:
        return tables[0]
    keys = tables[0].column_names[:-1]
    for other in tables[1:]:
        if other.column_names[:-1] != keys:
            n, m = len(keys), other.num_columns - 1
            raise mismatch("numbers of grouping columns", n, m)
    try:
        union = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise mismatch("column types", tables[0].schema.types, error) from error
    sums = union.group_by(keys, use_threads=False).aggregate([(COUNT, "sum")])
    return sums.select([*keys, f"{COUNT}_sum"]).rename_columns([*keys, COUNT])


@register_state("frequencies/1")
@dataclass(frozen=True, slots=True, eq=False, init=False)
class FrequenciesAndNumRows(State):
    """Groups of rows with equal values in some columns, with the number of rows in each.

    As in Deequ, rows where all the columns are null form no group and do not count as rows; rows
    where some are null do both.

    Attributes
    ----------
    frequencies : pyarrow.Table
        The grouping columns ``0``, ``1``, ... and ``count``, one row for each group.
    num_rows : int
        Rows in all groups.
    num_nulls : int
        Rows where all grouping columns are null.

    Examples
    --------
    >>> a = FrequenciesAndNumRows.of([(("x",), 2), (("y",), 1)])
    >>> b = FrequenciesAndNumRows.of([(("x",), 1)], num_nulls=4)
    >>> (a + b).as_dict(), (a + b).num_rows, (a + b).num_nulls
    ({('x',): 3, ('y',): 1}, 4, 4)
    """

    frequencies: pa.Table
    num_rows: int
    num_nulls: int

    def __init__(
        self, frequencies: pa.Table | None = None, num_rows: int = 0, num_nulls: int = 0
    ) -> None:
        table = _nothing() if frequencies is None else frequencies
        object.__setattr__(self, "frequencies", table)
        object.__setattr__(self, "num_rows", num_rows)
        object.__setattr__(self, "num_nulls", num_nulls)

    @classmethod
    def of(cls, groups: Iterable[tuple[tuple[Any, ...], int]], num_nulls: int = 0) -> Self:
        """Make one of groups in Python: the values, and the number of rows."""
        import pyarrow as pa  # noqa: PLC0415

        rows = list(groups)
        if not rows:
            return cls(num_nulls=num_nulls)
        columns = {str(i): list(v) for i, v in enumerate(zip(*(k for k, _ in rows), strict=True))}
        counts = [count for _, count in rows]
        table = pa.table({**columns, COUNT: pa.array(counts, pa.int64())})
        return cls(table, sum(counts), num_nulls)

    def combine(self, other: Self) -> Self:
        """Add the counts of equal groups; null equals null."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Add up all by unions and group-bys of many at once, reading no more than these at a time."""
        held: list[pa.Table] = []
        rows = num_rows = num_nulls = 0
        for state in states:
            num_rows += state.num_rows
            num_nulls += state.num_nulls
            if state.frequencies.num_rows:
                held.append(state.frequencies)
                rows += state.frequencies.num_rows
            if rows > max(_HELD_ROWS, 2 * held[0].num_rows if held else 0) and len(held) > 1:
                held = [_united(held)]
                rows = held[0].num_rows
        return cls(_united(held) if held else None, num_rows, num_nulls)

    @property
    def num_groups(self) -> int:
        """The number of distinct values."""
        return int(self.frequencies.num_rows)

    def num_groups_of(self, count: int) -> int:
        """Return the number of groups of exactly this many rows."""
        import pyarrow.compute as pc  # noqa: PLC0415

        return int(pc.sum(pc.equal(self.frequencies[COUNT], count)).as_py() or 0)

    def groups(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Yield each group's values and count, in no order."""
        columns = [column.to_pylist() for column in self.frequencies.columns]
        yield from ((tuple(row[:-1]), row[-1]) for row in zip(*columns, strict=True))

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group, in no order."""
        counts: npt.NDArray[np.int64] = self.frequencies[COUNT].to_numpy()
        return counts

    def as_dict(self) -> dict[tuple[Any, ...], int]:
        """Return the count by values."""
        return dict(self.groups())

    def agrees_with(self, other: Self) -> bool:
        """Whether all groups and counts are equal."""
        return self == other

    def __eq__(self, other: object) -> bool:
        """Compare by content, whatever the order of the groups."""
        if not isinstance(other, FrequenciesAndNumRows):
            return NotImplemented
        totals = (self.num_rows, self.num_nulls, self.num_groups)
        if totals != (other.num_rows, other.num_nulls, other.num_groups):
            return False
        return sorted(map(repr, self.groups())) == sorted(map(repr, other.groups()))

    def __hash__(self) -> int:
        """Hash what is cheap to compare."""
        return hash((self.num_rows, self.num_nulls, self.num_groups))

    def pack(self) -> bytes:
        """Return a Parquet file, with the numbers of rows in its metadata."""
        import pyarrow.parquet as pq  # noqa: PLC0415

        totals = {_ROWS: str(self.num_rows), _NULLS: str(self.num_nulls)}
        sink = io.BytesIO()
        pq.write_table(self.frequencies.replace_schema_metadata(totals), sink, compression="zstd")
        return sink.getvalue()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        # Most are small: threads, and a look for other files, take longer than the reading.
        table = pq.ParquetFile(pa.BufferReader(payload)).read(use_threads=False)
        totals = table.schema.metadata or {}
        if _ROWS not in totals:
            msg = "a Parquet file without the number of rows"
            raise ValueError(msg)
        return cls(table.replace_schema_metadata(None), int(totals[_ROWS]), int(totals[_NULLS]))


@dataclass(frozen=True, repr=False)
class GroupingAnalyzer(Filterable, Analyzer[FrequenciesAndNumRows, T]):
    """An analyzer that groups by columns; all that group by the same ones share one shuffle."""

    state_type: ClassVar[type[State]] = FrequenciesAndNumRows
    state_bytes: ClassVar[int] = 1 << 15

    @property
    @abstractmethod
    def grouping_columns(self) -> tuple[str, ...]:
        """The columns grouped by."""

    @property
    def entity(self) -> Entity:
        """A column, or several."""
        return Entity.COLUMN if len(self.grouping_columns) == 1 else Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """The columns joined by commas."""
        return ",".join(self.grouping_columns)

    def statistic(self) -> str:
        """All that group the same rows by the same columns share one state."""
        columns = list(self.grouping_columns)
        return canonical_json({"state": "frequencies", "columns": columns, "where": self.where})

    def check_schema(self, schema: Schema) -> None:
        """There are columns, and they are not nested."""
        self.grouping_expressions(schema)

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the Spark SQL expressions grouped by; analyzers with equal ones share a shuffle."""
        if not self.grouping_columns:
            msg = f"{type(self).__name__} needs at least one column"
            raise NoColumnsSpecifiedError(msg)
        fields = [schema.plain(column) for column in self.grouping_columns]
        for field in fields:
            if field.kind == "interval":  # Arrow has no such type
                raise WrongColumnTypeError(field.path, field.kind, "a type other than an interval")
        return tuple(field.sql for field in fields)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the frequencies."""
        return (Frequencies(self.grouping_expressions(schema), self.where),)

    def fold(self, cells: Sequence[Any]) -> FrequenciesAndNumRows:
        """Take them; none are the frequencies of nothing."""
        return cells[0] or FrequenciesAndNumRows()
