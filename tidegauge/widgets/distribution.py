"""The distribution view: a column in two partitions or windows, and how it drifted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.errors import HistoryError
from repository.columns import columns_told
from tidegauge.widgets.answer import Answer, shown, table
from tidegauge.widgets.comparison import side

if TYPE_CHECKING:
    import pandas as pd

    from repository.drift import Drifted
    from repository.repository import Repository


def columns(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the columns whose distribution is stored."""
    with repository.database.read() as connection:
        return Answer({"names": columns_told(connection, asked["dataset"])})


def distribution(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return both distributions, and the distances between them."""
    from repository.anomalies.distances import Distances  # noqa: PLC0415 - scipy's are slow to import

    found = _drifted(repository, asked)
    distances = {field.name: getattr(found, field.name) for field in fields(Distances)}
    told: dict[str, Any] = {"kind": found.kind, "distances": distances}
    told |= {"baseline": shown(found.baseline), "current": shown(found.current)}
    told |= {"baseline_rows": found.baseline_rows, "current_rows": found.current_rows}
    arrays = {
        "baseline_values": np.array(found.baseline_values, np.float64),
        "current_values": np.array(found.current_values, np.float64),
    }
    if found.kind == "numeric":
        return Answer(told, {**arrays, "ranks": np.array(found.axis, np.float64)})
    return Answer({**told, "categories": [shown(str(word)) for word in found.axis]}, arrays)


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return both distributions, tidily."""
    missing = [name for name in ("column", "baseline", "current") if asked.get(name) is None]
    if missing:
        msg = f"dashboard.options['distribution'] needs {' and '.join(missing)}; see the guide"
        raise HistoryError(msg)
    return _drifted(repository, asked).frame()


def _drifted(repository: Repository, asked: Mapping[str, Any]) -> Drifted:
    baseline, current = (side(asked.get(name)) for name in ("baseline", "current"))
    segment = asked.get("segment") or None
    return repository.drift(asked["dataset"], asked["column"], baseline, current, segment=segment)


def drifts(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return how far each partition from ``since`` until ``until`` is from the four weeks before it.

    Of ``segment`` only, if that is given; each segment is compared with its own past.
    """
    found = repository.drifts(
        asked["dataset"],
        asked["column"],
        segment=asked.get("segment") or None,
        since=asked.get("since"),
        until=asked.get("until"),
        record=False,
    )
    return table(found)
