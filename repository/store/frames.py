"""Query results as tidy data frames with declared column types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

from tidegauge.analyzers.core.formatting import for_spreadsheet

if TYPE_CHECKING:
    import pandas as pd


class Kind(StrEnum):
    """Type of a column in a result frame."""

    ANY = "any"
    """The type that pandas infers, mostly strings."""
    NUMBER = "number"
    """float64; NaN if unknown."""
    INTEGER = "integer"
    """int64, or nullable Int64 if a value is unknown."""
    FLAG = "flag"
    """bool."""
    TIME = "time"
    """datetime64 in UTC, in microseconds: nanoseconds end in 2262, and many tables have 9999-12-31."""

    HIDDEN = "hidden"
    """Part of records, but not of frames."""


Columns = Mapping[Any, Kind]
"""The columns of a frame by name, in order."""
_KIND_BY_TYPE = {bool: Kind.FLAG, int: Kind.INTEGER, float: Kind.NUMBER, datetime: Kind.TIME}
"""Kind of each annotation of a record; all other annotations are `Kind.ANY`."""


def columns_of(record: type[Any]) -> Columns:
    """Return the columns of a record's frame: its fields, with the kinds of their annotations.

    ``Annotated[..., Kind...]`` sets another type; hidden fields are left out.

    Examples
    --------
    >>> from tidegauge.repository.store.rows import RateRow
    >>> columns = columns_of(RateRow)
    >>> columns["detector"], columns["points"], columns["per_1000"]
    (<Kind.ANY: 'any'>, <Kind.INTEGER: 'integer'>, <Kind.NUMBER: 'number'>)
    """
    hints = get_type_hints(record, include_extras=True)
    kinds = {name: _kind_of(hint) for name, hint in hints.items()}
    return {name: kind for name, kind in kinds.items() if kind is not Kind.HIDDEN}


def _kind_of(hint: Any) -> Kind:
    """Return the type of a column by a field's annotation, which may be optional."""
    for kind in getattr(hint, "__metadata__", ()):
        return Kind(kind)
    types = [argument for argument in (get_args(hint) or (hint,)) if argument is not type(None)]
    return _KIND_BY_TYPE.get(types[0], Kind.ANY) if len(types) == 1 else Kind.ANY


def columns(declaration: str) -> dict[str, Kind]:
    """Declare the columns of a result frame as ``name`` or ``name:kind``.

    Examples
    --------
    >>> columns("dataset time:time value:number")["value"]
    <Kind.NUMBER: 'number'>
    """
    pairs = (word.partition(":") for word in declaration.split())
    return {name: Kind(kind or Kind.ANY) for name, _, kind in pairs}


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows, with None for missing values."""
    values = frame.astype(object).where(frame.notna(), cast("Any", None))
    return [{str(name): value for name, value in row.items()} for row in values.to_dict("records")]


def spreadsheet(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame to write as CSV, whose names and strings a spreadsheet does not run as formulas.

    Examples
    --------
    >>> import pandas as pd
    >>> print(spreadsheet(pd.DataFrame({"=a": ["@b", "c"], "n": [1, 2]})).to_csv(index=False), end="")
    '=a,n
    '@b,1
    c,2
    """
    return frame.apply(_as_texts).rename(columns=for_spreadsheet)


def _as_texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with its strings escaped; numbers and times are unchanged, and whole numbers stay whole."""
    import pandas as pd

    if column.dtype.kind in "iufbmM" or isinstance(column.dtype, pd.DatetimeTZDtype):
        return column
    return pd.Series([for_spreadsheet(value) for value in column], column.index, dtype=object)


def frame_of(rows: Sequence[Mapping[Any, Any]], columns: Columns | type[Any]) -> pd.DataFrame:
    """Return rows as a frame with the declared columns and types, even without rows.

    A record type declares the columns by its fields; see `columns_of`.

    Examples
    --------
    >>> frame_of([{"id": 1, "value": None}], {"id": Kind.INTEGER, "value": Kind.NUMBER}).dtypes.tolist()
    [dtype('int64'), dtype('float64')]
    """
    import pandas as pd

    from tidegauge.repository.store.result_frame import ResultFrame

    if isinstance(columns, type):
        columns = columns_of(columns)
    frame = ResultFrame([[row[c] for c in columns] for row in rows], columns=list(columns))
    for column, kind in columns.items():
        match kind:
            case Kind.TIME:
                moments = [row[column] for row in rows]
                frame[column] = pd.Series(moments, dtype="datetime64[us, UTC]", index=frame.index)
            case Kind.NUMBER:
                frame[column] = frame[column].astype("float64")
            case Kind.FLAG:
                frame[column] = frame[column].astype("bool")
            case Kind.INTEGER:
                is_complete = not any(row[column] is None for row in rows)
                frame[column] = frame[column].astype("int64" if is_complete else "Int64")
            case Kind.ANY | Kind.HIDDEN:
                pass
    return frame
