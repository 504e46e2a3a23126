"""Rows as tidy frames, with columns of the same types whatever is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas as pd


_NUMBERS = frozenset(
    {"value", "weight", "expected", "lower", "upper", "score", "p_value"}
    | {"old", "new", "change", "low", "high", "mean", "usual", "share"}
    | {"psi", "js", "ks", "wasserstein", "wasserstein_iqr", "unseen", "lost"}
    | {"per_1000", "false_share", "precision", "recall", "seconds", "delay"}
)
_FLAGS = frozenset({"passed"})
_WHOLE = frozenset(
    {
        "id",
        "version",
        "run_id",
        "old_run",
        "new_run",
        "anomaly_id",
        "incident_id",
        "rows",
        "anomalies",
    }
)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows, with None wherever nothing is known."""
    known = frame.astype(object).where(frame.notna(), cast("Any", None))
    return [{str(name): value for name, value in row.items()} for row in known.to_dict("records")]


def frame_of(rows: Sequence[Mapping[Any, Any]], columns: Sequence[Any]) -> pd.DataFrame:
    """Return rows as a frame: times in UTC, numbers as floats, ids as integers that may be missing."""
    import pandas as pd  # noqa: PLC0415 - heavy, and not needed to write

    from repository.shown import Shown  # noqa: PLC0415

    frame = Shown([[row[c] for c in columns] for row in rows], columns=list(columns))
    for column in columns:
        if column in {"time", "start", "end"} or str(column).endswith("_at"):
            # Microseconds, because nanoseconds end in 2262 and 9999-12-31 is a day of many tables.
            moments = [row[column] for row in rows]
            frame[column] = pd.Series(moments, dtype="datetime64[us, UTC]", index=frame.index)
        elif column in _NUMBERS:
            frame[column] = frame[column].astype("float64")
        elif column in _FLAGS:
            frame[column] = frame[column].astype("bool")
        elif column in _WHOLE:
            whole = not any(row[column] is None for row in rows)
            frame[column] = frame[column].astype("int64" if whole else "Int64")
    return frame
