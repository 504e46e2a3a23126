"""The compare and distribution views: two partitions, runs or windows side by side.

The compare view lists the metrics of both sides. The distribution view shows a column's distributions
and its drift.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.distributions.stored import columns_with_distribution
from tidegauge.repository.history.comparison import MEDIAN, MERGED
from tidegauge.repository.history.versions import partition_names
from tidegauge.repository.store.facts import dimensions_of
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.store.rows import series_key
from tidegauge.widgets import protocol
from tidegauge.widgets.answers import (
    SECONDS_PER_DAY,
    Answer,
    listed_rows,
    matches,
    row_order,
    row_orders,
    seconds,
    table,
    truncate,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from tidegauge.repository.distributions.drift import Drifted
    from tidegauge.repository.repository import Repository


MAX_COMPARED_ROWS = 10_000
"""Maximum number of rows in an answer; the least surprising rows are omitted."""
_SIDE_FIELDS = frozenset({"baseline", "current"})
_TABLE_FIELDS = frozenset(
    {"dataset", "catalogue", "kind", "filter", "unusual", "sort", "down", "rows", "summary"}
)
"""Request fields that describe the table instead of a side."""
COMPARED_NUMBERS = ("baseline", "current", "change", "relative", "surprise")
SEARCHED_FIELDS = ("name", "instance", "segment", "status")
_FILTER_PATTERN = re.compile(r"where='((?:[^'\\]|\\.)*)'|where=\"((?:[^\"\\]|\\.)*)\"")
SORTABLE_COLUMNS = ("name", "instance", "segment", *COMPARED_NUMBERS, "unusual")
"""Sortable columns of the page."""
SERIES_FIELDS = ("segment", "name", "instance", "analyzer")
_SIZED_COLUMNS = frozenset({"change", "relative"})
"""Columns that are sorted by size: a fall by half is as large as a rise by half."""
PSI_THRESHOLDS = (0.1, 0.25)
"""PSI from which a drift is called moderate and large, as is usual in credit scoring."""
MIN_SAME_WEEKDAYS = 4
"""Minimum number of earlier partitions of the same weekday, as many weeks as the other baseline has."""
MIN_COMPARED_DRIFTS = 14
"""Minimum number of partitions with which a weekly season is recognised: two of each weekday."""
MAX_MERGED_SERIES = 500
"""Maximum number of series with metrics of whole windows by default: the states of all partitions are read."""


def sides(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return the choices for a side: partitions, the newest first, and runs that measured partitions.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset``.
    """
    dataset = params["dataset"]
    with repository.database.read() as connection:
        partitions = partition_names(connection, dataset)
    runs = repository.runs(dataset)
    columns = runs[["run_id", "started_at", "measured"]].itertuples(index=False, name=None)
    measured_runs: list[protocol.RunChoice] = [
        {"id": number, "started_at": started, "partition_count": measured}
        for number, started, measured in columns
        if measured and measured > 0  # None or NaN while the run is in progress
    ]
    # Names are sent untruncated: the script sends partitions back as sides, and groups them by
    # segment.
    names = [row.name for row in partitions]
    segments = [row.segment for row in partitions]
    times = np.array([seconds(row.time) for row in partitions], np.float64)
    payload: protocol.SidesAnswer = {
        "partitions": names,
        "segments": segments,
        "runs": measured_runs,
    }
    return Answer(payload, {"times": times})


def compare(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return every metric on both sides, the most surprising first, with id and scale of its series.

    The arrays ``…_order`` are the orders of rows by each column of the page.

    Parameters
    ----------
    repository : Repository
    params : mapping
        Parameters of the request, as `protocol.CompareQuestion`.
    """
    dataset = params["dataset"]
    summary = params.get("summary") or _default_summary(
        repository, dataset, side(params["baseline"])
    )
    comparison = compare_frame(repository, {**params, "summary": summary})
    # Rows with a stored anomaly can rank low by surprise. Put them first, so that they are kept.
    marked = comparison.sort_values(["unusual", "anomaly"], ascending=False, kind="stable")
    sent = marked.head(MAX_COMPARED_ROWS).sort_index()
    totals = {"total": len(comparison), "unusual": int(comparison["unusual"].sum())}
    answer = table(sent, **totals, summary=summary, dataset=truncate(dataset))
    orders = row_orders(SORTABLE_COLUMNS, lambda name, down: _order(sent, name, down=down))
    series = _series_arrays(repository, dataset, sent)
    return Answer(answer.payload, {**answer.arrays, **series, **orders})


def _series_arrays(
    repository: Repository, dataset: str, comparison: pd.DataFrame
) -> Mapping[str, NDArray[np.float64]]:
    """Return the ``ids`` of series and whether each is a ``ratio``; NaN for series that were deleted."""
    with repository.database.read() as connection:
        series, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    entries = {series_key(row): (row["id"], row["scale"] == Scale.RATIO) for row in series}
    rows = comparison[list(SERIES_FIELDS)].itertuples(index=False, name=None)
    pairs = np.array([entries.get(row, (np.nan, False)) for row in rows], np.float64)
    pairs = pairs.reshape(-1, 2)
    return {"ids": pairs[:, 0], "ratio": pairs[:, 1]}


def compare_frame(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return a comparison, as `Repository.compare`.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``baseline`` and ``current`` are the sides; by default, the newest partition is compared with
        an earlier one. ``rows`` are the ids of the series that the page displays; without a page,
        rows follow ``filter``, ``unusual``, ``sort`` and ``down``. ``summary`` is ``merged`` or ``median``,
        as for `Repository.compare`; by default ``merged``, for up to `MAX_MERGED_SERIES` series.

    Raises
    ------
    HistoryError
        If a side is missing or invalid, or if the dataset has only one partition.
    """
    if not set(params) - _TABLE_FIELDS:
        params = {**params, **_default_sides(repository, params)}
    side_names = sorted(set(params) - _TABLE_FIELDS)
    if any(params.get(name) is None for name in _SIDE_FIELDS) or set(side_names) != _SIDE_FIELDS:
        msg = (
            "dashboard.options['compare'] needs baseline and current, each {'partition': ...}, {'run': ...}"
            f" or {{'since': ..., 'until': ...}}; it has: {', '.join(side_names)}"
        )
        raise HistoryError(msg)
    baseline, current = side(params["baseline"]), side(params["current"])
    summary = params.get("summary") or _default_summary(repository, params["dataset"], baseline)
    comparison = repository.compare(params["dataset"], baseline, current, summary=summary)
    if params.get("rows") is not None:
        ids = _series_arrays(repository, params["dataset"], comparison)["ids"]
        return listed_rows(comparison, ids.tolist(), params["rows"])
    return _filter_and_sort(comparison, params)


def _default_summary(repository: Repository, dataset: str, baseline: Any) -> str:
    """Return the summary of a window's partitions: merging the states of many series takes seconds."""
    if isinstance(baseline, str):  # a partition, which has one value
        return MEDIAN
    return MERGED if len(repository.series(dataset)) <= MAX_MERGED_SERIES else MEDIAN


def _filter_and_sort(comparison: pd.DataFrame, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a comparison by the options ``filter``, ``unusual``, ``sort`` and ``down``."""
    filters = [_filter_label(truncate(analyzer)) for analyzer in comparison["analyzer"]]
    columns = [comparison[name].map(truncate) for name in SEARCHED_FIELDS]
    mask = matches([*columns, filters], params.get("filter"))
    if params.get("unusual"):
        mask &= comparison["unusual"].to_numpy()
    comparison = comparison[mask]
    order = _order(comparison, params.get("sort", "surprise"), down=params.get("down", True))
    return comparison.iloc[order].reset_index(drop=True)


def _order(comparison: pd.DataFrame, sort: str, *, down: bool) -> NDArray[np.int32]:
    """Return the order of a comparison's rows by a column; the present order for unknown columns."""
    key = comparison.get(sort)
    if sort in _SIZED_COLUMNS and key is not None:
        key = key.abs()
    # Rows are already ordered by surprise: metrics with too little history come before metrics
    # without a difference.
    if key is None or (sort == "surprise" and down):
        return np.arange(len(comparison), dtype=np.int32)
    return row_order(key, descending=down)


def _filter_label(analyzer: str) -> str:
    """Return the filter of an analyzer as the page displays it; empty if it has none."""
    match = _FILTER_PATTERN.search(analyzer)
    return f" where {match[1] or match[2]}" if match else ""


def _default_sides(repository: Repository, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default sides, as `defaultSides` in comparison-sides.ts: two partitions.

    The current side is the newest partition that has an earlier one in its segment. The baseline is
    the partition one week before, or, without that, the previous partition.
    """
    answer = sides(repository, params)
    names, segments = answer.payload["partitions"], answer.payload["segments"]
    times: NDArray[np.float64] = answer.arrays["times"]
    for current, time in enumerate(times.tolist()):
        earlier = [
            n
            for n, other_time in enumerate(times.tolist())
            if other_time < time and segments[n] == segments[current]
        ]
        if earlier:
            one_week_before = [n for n in earlier if times[n] == time - 7 * SECONDS_PER_DAY]
            baseline = (
                one_week_before[0] if one_week_before else max(earlier, key=lambda n: times[n])
            )
            break
    else:  # without times, the first two
        current, baseline = 0, 1
    if len(names) <= baseline:
        msg = f"Nothing to compare: dataset {params['dataset']!r} has fewer than two partitions."
        raise HistoryError(msg)
    return {"baseline": {"partition": names[baseline]}, "current": {"partition": names[current]}}


def side(value: Any) -> Any:
    """Convert a side to an argument of `Repository.compare`: partition, run id, or pair of times.

    Parameters
    ----------
    value : mapping
        A side, as `protocol.Side`.

    Raises
    ------
    HistoryError
        If the value is not a side.
    """
    match value:
        case {"partition": str(name)}:
            return name
        case {"run": int(number)}:
            return number
        case {"since": since, "until": until}:
            return since or None, until or None
    msg = f"Invalid side {value!r}: use a partition, a run, or since and until."
    raise HistoryError(msg)


def columns(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return the columns with stored distributions.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset``.
    """
    with repository.database.read() as connection:
        answer: protocol.ColumnsAnswer = {
            "names": columns_with_distribution(connection, params["dataset"])
        }
        return Answer(answer)


def distribution(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return both distributions and the distances between them.

    Parameters
    ----------
    repository : Repository
    params : mapping
        Parameters of the request, as `protocol.DistributionQuestion`.
    """
    from tidegauge.repository.distributions.distances import Distances

    drift = _drift(repository, params)
    distances = {field.name: getattr(drift, field.name) for field in fields(Distances)}
    payload: protocol.DistributionAnswer = {
        "kind": drift.kind,
        "distances": cast("protocol.DistanceValues", distances),
        "baseline": truncate(drift.baseline),
        "current": truncate(drift.current),
        "baseline_rows": drift.baseline_rows,
        "current_rows": drift.current_rows,
    }
    arrays = {
        "baseline_values": np.array(drift.baseline_values, np.float64),
        "current_values": np.array(drift.current_values, np.float64),
    }
    if drift.kind == "numeric":
        return Answer(payload, {**arrays, "ranks": np.array(drift.axis, np.float64)})
    payload["categories"] = [truncate(str(category)) for category in drift.axis]
    return Answer(payload, arrays)


def distribution_frame(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return both distributions in tidy format.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``column``, ``baseline`` and ``current``, by default the first column and two partitions as for
        `compare_frame`; ``segment`` is optional.

    Raises
    ------
    HistoryError
        If no distribution is stored, or if there is only one partition.
    """
    return _drift(repository, _with_default_distribution(repository, params)).frame()


def drift_frame(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the drift that the page draws, of each partition in the segment of the current side.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset``, ``column`` and ``current``; ``segment`` overrides the segment.
    """
    params = _with_default_distribution(repository, params)
    dataset, segment = params["dataset"], params.get("segment")
    if segment is None:
        with repository.database.read() as connection:
            segment_by_partition = {
                partition.name: partition.segment
                for partition in partition_names(connection, dataset)
            }
        segment = segment_by_partition.get(params["current"].get("partition"))
    drift, _ = _seasonal_drifts(repository, params, segment=segment or None)
    return drift if segment is None else drift[drift["segment"] == segment]


def _with_default_distribution(
    repository: Repository, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return parameters with the first column and the default sides, where they are missing."""
    given = {name: value for name, value in params.items() if value is not None}
    if "column" not in given:
        names = columns(repository, params).payload["names"]
        if not names:
            msg = (
                f"Dataset {params['dataset']!r} has no stored distribution: measure ApproxQuantile or"
                " Histogram of a column."
            )
            raise HistoryError(msg)
        given["column"] = names[0]
    if not set(given) >= _SIDE_FIELDS:
        given = {**_default_sides(repository, params), **given}
    return given


def _drift(repository: Repository, params: Mapping[str, Any]) -> Drifted:
    """Return the drift between the sides of a request."""
    baseline, current = (side(params.get(name)) for name in ("baseline", "current"))
    segment = params.get("segment") or None
    return repository.drift(params["dataset"], params["column"], baseline, current, segment=segment)


def drifts(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return the drift of each partition from the four weeks, or same weekdays of eight weeks, before it.

    Each segment is compared with its own past.

    Parameters
    ----------
    repository : Repository
    params : mapping
        Parameters of the request, as `protocol.DriftsQuestion`.
    """
    bounds = {name: params.get(name) for name in ("since", "until")}
    segment = params.get("segment") or None
    drift, same_weekday = _seasonal_drifts(repository, params, segment=segment, **bounds)
    return table(drift, same_weekday=same_weekday, thresholds=PSI_THRESHOLDS)


def _seasonal_drifts(
    repository: Repository, params: Mapping[str, Any], **options: Any
) -> tuple[pd.DataFrame, bool]:
    """Return the drift of each partition, and whether it is compared with the same weekday only.

    The baseline with the smaller mean PSI describes the column better. A column without a weekly season
    has the smaller one against all weekdays, because the baseline has more values.
    """
    dataset, column, requested = params["dataset"], params["column"], params.get("same_weekday")
    weekly_options = {**options, "same_weekday": True, "at_least": MIN_SAME_WEEKDAYS}
    if requested is not None:
        drift = repository.drifts(dataset, column, **(weekly_options if requested else options))
        return drift, bool(requested)
    usual = repository.drifts(dataset, column, **options)
    weekly = repository.drifts(dataset, column, **weekly_options)
    keys = ["segment", "partition"]
    shared = usual.merge(weekly, on=keys)[["psi_x", "psi_y"]].dropna()
    is_weekly = (
        len(shared) >= MIN_COMPARED_DRIFTS and shared["psi_y"].mean() < shared["psi_x"].mean()
    )
    return (weekly if is_weekly else usual), bool(is_weekly)
