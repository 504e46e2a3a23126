"""The distribution view: a column's distributions in two partitions or windows, and its drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.distributions.stored import columns_with_distribution
from tidegauge.repository.history.points import partition_names
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, shown, table
from tidegauge.widgets.compare import side

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.distributions.drift import Drifted
    from tidegauge.repository.repository import Repository


def columns(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the columns with stored distributions."""
    with repository.database.read() as connection:
        answer: protocol.ColumnsAnswer = {
            "names": columns_with_distribution(connection, asked["dataset"])
        }
        return Answer(answer)


def distribution(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return both distributions and the distances between them."""
    from tidegauge.repository.distributions.distances import Distances

    found = _drifted(repository, asked)
    distances = {field.name: getattr(found, field.name) for field in fields(Distances)}
    told: protocol.DistributionAnswer = {
        "kind": found.kind,
        "distances": cast("protocol.DistanceValues", distances),
        "baseline": shown(found.baseline),
        "current": shown(found.current),
        "baseline_rows": found.baseline_rows,
        "current_rows": found.current_rows,
    }
    arrays = {
        "baseline_values": np.array(found.baseline_values, np.float64),
        "current_values": np.array(found.current_values, np.float64),
    }
    if found.kind == "numeric":
        return Answer(told, {**arrays, "ranks": np.array(found.axis, np.float64)})
    told["categories"] = [shown(str(word)) for word in found.axis]
    return Answer(told, arrays)


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return both distributions in tidy format."""
    missing = [name for name in ("column", "baseline", "current") if asked.get(name) is None]
    if missing:
        msg = f"dashboard.options['distribution'] needs {' and '.join(missing)}; see the guide"
        raise HistoryError(msg)
    return _drifted(repository, asked).frame()


def drift_frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the drift that the page draws: of each partition of the current side's segment."""
    dataset, segment = asked["dataset"], asked.get("segment")
    if segment is None:
        with repository.database.read() as connection:
            within = {one.name: one.segment for one in partition_names(connection, dataset)}
        segment = within.get(asked["current"].get("partition"))
    found = repository.drifts(dataset, asked["column"], segment=segment or None, record=False)
    return found if segment is None else found[found["segment"] == segment]


def _drifted(repository: Repository, asked: Mapping[str, Any]) -> Drifted:
    baseline, current = (side(asked.get(name)) for name in ("baseline", "current"))
    segment = asked.get("segment") or None
    return repository.drift(asked["dataset"], asked["column"], baseline, current, segment=segment)


def drifts(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the drift of each partition, ``since`` to ``until``, from the four weeks before it.

    ``segment`` limits it to one; each segment is compared with its own past.
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
