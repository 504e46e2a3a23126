"""The compare and distribution views: two partitions, runs or windows side by side.

The compare view lists metrics of both sides; the distribution view a column's distributions, and its drift.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError, TidegaugeError
from tidegauge.analyzers.core.metric import Scale, flatten
from tidegauge.repository.distributions.stored import columns_with_distribution
from tidegauge.repository.history.versions import partition_names
from tidegauge.repository.store.facts import dimensions_of
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.store.rows import series_key
from tidegauge.widgets import protocol
from tidegauge.widgets.answers import (
    Answer,
    listed_rows,
    matches,
    row_order,
    row_orders,
    seconds,
    shown,
    table,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from tidegauge.repository.distributions.drift import Drifted
    from tidegauge.repository.repository import Repository


MOST = 10_000
"""Maximum number of rows to send; the least surprising of more are left out."""
_WEEK = 7 * 86400.0
_SIDES = frozenset({"baseline", "current"})
_BESIDE = frozenset({"dataset", "catalogue", "kind", "filter", "unusual", "sort", "down", "rows"})
"""Request fields that select no side: the state of the table."""
COMPARED_NUMBERS = ("baseline", "current", "change", "relative", "surprise")
SEARCHED = ("name", "instance", "segment", "status")
_WHERE = re.compile(r"where='((?:[^'\\]|\\.)*)'|where=\"((?:[^\"\\]|\\.)*)\"")
SORTABLE = ("name", "instance", "segment", *COMPARED_NUMBERS, "unusual")
"""Columns of the page that it sorts by; those of windows by `MERGED`, too."""
SERIES = ("segment", "name", "instance", "analyzer")
MERGED = ("merged_baseline", "merged_current")
MOST_MERGED = 200
"""Maximum number of analyzers whose states are merged: each reads those of all partitions of a window."""


def sides(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the sides to choose from: partitions, the newest first, and runs that measured some."""
    dataset = asked["dataset"]
    with repository.database.read() as connection:
        partitions = partition_names(connection, dataset)
    runs = repository.runs(dataset)
    columns = runs[["run_id", "started_at", "measured"]].itertuples(index=False, name=None)
    measured_runs: list[protocol.RunChoice] = [
        {"id": number, "started_at": started, "measured": measured}
        for number, started, measured in columns
        if measured and measured > 0  # None or NaN while the run is in progress
    ]
    # Names are sent untruncated: the script sends partitions back as sides, and groups them by
    # segment.
    names = [row.name for row in partitions]
    within = [row.segment for row in partitions]
    times = np.array([seconds(row.time) for row in partitions], np.float64)
    told: protocol.SidesAnswer = {
        "partitions": names,
        "within": within,
        "runs": measured_runs,
    }
    return Answer(told, {"times": times})


def compare(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return every metric on both sides, the most surprising first, with id and scale of their series.

    The arrays ``…_order`` are the orders of rows by each column of the page.
    """
    found = compare_frame(repository, asked, with_merged=False)
    # A row with a stored anomaly may rank low by surprise: keep it.
    marked = found.sort_values(["unusual", "anomaly"], ascending=False, kind="stable")
    kept = marked.head(MOST).sort_index()
    told = {"total": len(found), "unusual": int(found["unusual"].sum())}
    answer = table(kept, **told, dataset=shown(asked["dataset"]))
    orders = row_orders(SORTABLE, lambda name, down: _order(kept, name, down=down))
    series = _series(repository, asked["dataset"], kept)
    return Answer(answer.told, {**answer.arrays, **series, **orders})


def _series(
    repository: Repository, dataset: str, found: pd.DataFrame
) -> Mapping[str, NDArray[np.float64]]:
    """Return the ids of series, NaN for those that no longer exist, and which of them are ratios."""
    with repository.database.read() as connection:
        series, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    known = {series_key(row): (row["id"], row["scale"] == Scale.RATIO) for row in series}
    rows = found[list(SERIES)].itertuples(index=False, name=None)
    told = np.array([known.get(row, (np.nan, False)) for row in rows], np.float64).reshape(-1, 2)
    return {"ids": told[:, 0], "ratio": told[:, 1]}


def compare_frame(
    repository: Repository, asked: Mapping[str, Any], *, with_merged: bool = True
) -> pd.DataFrame:
    """Return a comparison; by default of the newest partition with an earlier one.

    It has the ``rows`` that the page lists, by the ids of their series, and without a page those of the
    options. Windows of time also have the metrics of their merged states, as `MERGED`.
    """
    if not set(asked) - _BESIDE:
        asked = {**asked, **_usual(repository, asked)}
    given = sorted(set(asked) - _BESIDE)
    if any(asked.get(name) is None for name in _SIDES) or set(given) != _SIDES:
        msg = (
            "dashboard.options['compare'] needs baseline and current, each {'partition': ...}, {'run': ...}"
            f" or {{'since': ..., 'until': ...}}; there are: {', '.join(given)}"
        )
        raise HistoryError(msg)
    baseline, current = side(asked["baseline"]), side(asked["current"])
    found = repository.compare(asked["dataset"], baseline, current)
    if isinstance(baseline, tuple) and with_merged:
        columns = (_merged(repository, asked["dataset"], found, one) for one in (baseline, current))
        found = found.assign(**dict(zip(MERGED, columns, strict=True)))
    if asked.get("rows") is not None:
        ids = _series(repository, asked["dataset"], found)["ids"]
        return listed_rows(found, ids.tolist(), asked["rows"])
    return _listed(found, asked)


def _listed(found: pd.DataFrame, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a comparison by the options ``filter``, ``unusual``, ``sort`` and ``down``."""
    where = [_where(shown(analyzer)) for analyzer in found["analyzer"]]
    texts = [found[name].map(shown) for name in SEARCHED]
    seen = matches([*texts, where], asked.get("filter"))
    if asked.get("unusual"):
        seen &= found["unusual"].to_numpy()
    found = found[seen]
    order = _order(found, asked.get("sort", "surprise"), down=asked.get("down", True))
    return found.iloc[order].reset_index(drop=True)


def _order(found: pd.DataFrame, sort: str, *, down: bool) -> NDArray[np.int32]:
    """Return the order of a comparison's rows by a column; as they are if there is no such column."""
    key = _relative(found) if sort == "merged" else found.get(sort)
    # The most surprising come first, and those of too little history before those without a difference.
    if key is None or (sort == "surprise" and down):
        return np.arange(len(found), dtype=np.int32)
    return row_order(key, descending=down)


def _where(analyzer: str) -> str:
    """Return the filter in an analyzer's text as the page writes it; empty without one."""
    found = _WHERE.search(analyzer)
    return f" where {found[1] or found[2]}" if found else ""


def _relative(found: pd.DataFrame) -> pd.Series | None:
    """Return the relative change of merged metrics; None if they are not of windows."""
    if not set(MERGED) <= set(found):
        return None
    before, after = (found[name] for name in MERGED)
    return ((after - before) / before.abs().where(before != 0)).mask(before == after, 0.0)


def merged(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the metrics of two windows of time, each of the merged states of all its partitions.

    ``merged`` is the relative change.
    """
    found = compare_frame(repository, asked)
    answer = table(found[[name for name in MERGED if name in found]])
    ids = _series(repository, asked["dataset"], found)["ids"]
    change = _relative(found)
    numbers = {} if change is None else {"merged": change.to_numpy(np.float64)}
    orders = row_orders(["merged"], lambda name, down: _order(found, name, down=down))
    return Answer(answer.told, {**answer.arrays, "ids": ids, **numbers, **orders})


def _merged(
    repository: Repository, dataset: str, found: pd.DataFrame, window: tuple[Any, Any]
) -> NDArray[np.float64]:
    """Return each metric of the merged states of a window; NaN where a partition has no state."""
    values: dict[tuple[str, ...], float] = {}
    analyzers = found[["segment", "analyzer"]].drop_duplicates().head(MOST_MERGED)
    for segment, text in analyzers.itertuples(index=False, name=None):
        since, until = window
        try:
            metric = repository.merge(dataset, text, since=since, until=until, segment=segment)
            numbers = {(one.name, one.instance): one.value for one in flatten(metric)}
        except TidegaugeError:  # it has no states, or not of all partitions
            continue
        values.update({(segment, *key, text): value for key, value in numbers.items()})
    rows = found[list(SERIES)].itertuples(index=False, name=None)
    return np.array([values.get(row, np.nan) for row in rows], np.float64)


def _usual(repository: Repository, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default sides, as `defaultSides` in comparison-sides.ts chooses them: two partitions.

    The newest that has an earlier one in its segment, and the one a week before it, else the one
    before.
    """
    answer = sides(repository, asked)
    names, within = answer.told["partitions"], answer.told["within"]
    times: NDArray[np.float64] = answer.arrays["times"]
    for place, time in enumerate(times.tolist()):
        earlier = [
            n
            for n, other in enumerate(times.tolist())
            if other < time and within[n] == within[place]
        ]
        if earlier:
            week = [n for n in earlier if times[n] == time - _WEEK]
            before = week[0] if week else max(earlier, key=lambda n: times[n])
            break
    else:  # without times, any two
        place, before = 0, 1
    if len(names) <= before:
        msg = f"{asked['dataset']!r} has no two partitions to compare"
        raise HistoryError(msg)
    return {"baseline": {"partition": names[before]}, "current": {"partition": names[place]}}


def side(told: Any) -> Any:
    """Convert a side to an argument of `Repository.compare`: partition, run id, or pair of times."""
    match told:
        case {"partition": str(name)}:
            return name
        case {"run": int(number)}:
            return number
        case {"since": since, "until": until}:
            return since or None, until or None
    msg = f"{told!r} is no side: give partition, run, or since and until"
    raise HistoryError(msg)


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


def distribution_frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
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
