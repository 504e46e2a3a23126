"""The consistency view: online/offline mismatch rates of features, the worst first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError, UnknownNameError
from tidegauge.repository.history.feature_consistency import (
    WEIGHT_METRIC,
    ConsistencyIndex,
    PartitionColumns,
    averaged,
    datasets_with_consistency,
    measures,
    moments,
    rank_features,
    summed,
    values,
)
from tidegauge.repository.history.versions import last_commit
from tidegauge.repository.store.consistency_series import CELLS, WRONG
from tidegauge.repository.store.queries import Window
from tidegauge.widgets import protocol
from tidegauge.widgets.answers import (
    EMPTY_MESSAGE,
    SECONDS_PER_DAY,
    Answer,
    listed_rows,
    matches,
    truncate,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.repository import Repository

MAX_CHART_FEATURES = 6
"""Maximum number of features in one chart."""
MAX_CACHE_BYTES = 160_000_000
"""Maximum size of the cached matrices, which have one value for each feature and time."""
RANGE_DAYS = {"7": 7, "30": 30, "90": 90, "all": None}
"""Number of days to show before the newest partition, by name of the range."""

_Key = tuple[Any, ...]


class Consistency:
    """Request handler of the consistency view.

    The metrics that rank features are read once for all features and cached until the next commit,
    because the sparklines of rows that scroll into view use the same numbers.

    Parameters
    ----------
    repository : Repository
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._index: tuple[_Key, ConsistencyIndex] | None = None
        self._cache: OrderedDict[_Key, NDArray[np.float64]] = OrderedDict()
        self._cache_lock = Lock()  # several pages send requests in their own threads

    def ranking(self, params: Mapping[str, Any]) -> Answer:
        """Return all features, the worst first, with their mean rates over the displayed range.

        Parameters
        ----------
        params : mapping
            Parameters of the request, as `protocol.ConsistencyQuestion`.
        """
        with self.repository.database.read() as connection:
            request = _Request(self, connection, params)
            index, columns = request.index, request.columns
            alternatives = [] if len(index.features) else datasets_with_consistency(connection)
            means = request.means()
            ranking = rank_features(request.ranking_metric())
        positions = index.features[ranking.order].tolist()
        groups = list(
            dict.fromkeys(index.subjects[position].group_by for position in sorted(positions))
        )
        code = {group: n for n, group in enumerate(groups)}
        payload: protocol.ConsistencyAnswer = {
            "features": [
                truncate(index.subjects[position].feature or "") for position in positions
            ],
            "groups": [truncate(group) for group in groups],
            "segments": index.segments,
            "segment": index.segment,
            "metric": request.metric,
            "metric_choices": _ranking_choices(index),
            "range": request.range,
            "labels": [] if request.timed else [truncate(label) for label in columns.labels],
            "other_datasets": alternatives,
        }
        numbers: dict[str, NDArray[Any]] = {
            "ids": index.ids[index.features][ranking.order],
            "group": np.array(
                [code[index.subjects[position].group_by] for position in positions], np.int32
            ),
            "worst": ranking.worst[ranking.order],
            "column": ranking.column[ranking.order].astype(np.int32),
            "times": columns.times,
            **{cell: mean[ranking.order] for cell, mean in means.items()},
        }
        return Answer(payload, numbers)

    def sparklines(self, params: Mapping[str, Any]) -> Answer:
        """Return the ranking metric of features over the displayed range.

        Parameters
        ----------
        params : mapping
            As for `ranking`. ``ids`` are the features; unknown ids have only NaN.
        """
        with self.repository.database.read() as connection:
            request = _Request(self, connection, params)
            feature_ids = request.index.ids[request.index.features].tolist()
            row_by_feature = {feature_id: n for n, feature_id in enumerate(feature_ids)}
            lines = request.ranking_metric()
            rows = [row_by_feature.get(int(feature_id), -1) for feature_id in params["ids"]]
        unknown = np.full((1, lines.shape[1]), np.nan)
        return Answer({}, {"values": np.concatenate([lines, unknown])[rows].astype(np.float32)})

    def features(self, params: Mapping[str, Any]) -> Answer:
        """Return all metrics of features, and the row metrics of their group-bys.

        Parameters
        ----------
        params : mapping
            As for `ranking`. ``ids`` are the features.
        """
        index, columns, positions, metrics, lines = self._read_charts(params)
        subjects: list[protocol.ConsistencySubject] = [
            {
                "id": int(index.ids[position]),
                "group_by": truncate(index.subjects[position].group_by),
                "feature": None
                if (name := index.subjects[position].feature) is None
                else truncate(name),
                # Index of each metric's line in ``values``.
                "row_by_metric": {
                    truncate(metric): n * len(positions) + m
                    for n, metric in enumerate(metrics)
                    if position in index.series[metric]
                },
            }
            for m, position in enumerate(positions)
        ]
        payload: protocol.ConsistencyFeaturesAnswer = {
            "subjects": subjects,
            "labels": [truncate(label) for label in columns.labels],
        }
        return Answer(payload, {"times": columns.times, "values": lines})

    def _read_charts(
        self, params: Mapping[str, Any]
    ) -> tuple[ConsistencyIndex, PartitionColumns, list[int], list[str], NDArray[np.float64]]:
        """Read the metrics of features and of their group-bys.

        Returns
        -------
        index : ConsistencyIndex
        columns : PartitionColumns
        positions : list of int
            Positions of the features and group-bys among the subjects of the index.
        metrics : list of str
        lines : array of float
            Values with the shape (metrics, subjects, columns).

        Raises
        ------
        HistoryError
            If a chart cannot have so many features.
        """
        ids = list(dict.fromkeys(int(feature_id) for feature_id in params["ids"]))
        if len(ids) > MAX_CHART_FEATURES:
            msg = (
                f"Too many features for one chart: {len(ids)}. Choose at most {MAX_CHART_FEATURES}."
            )
            raise HistoryError(msg)
        with self.repository.database.read() as connection:
            request = _Request(self, connection, params)
            index, columns = request.index, request.columns
            position_by_id = {subject_id: n for n, subject_id in enumerate(index.ids.tolist())}
            positions = [
                position_by_id[feature_id] for feature_id in ids if feature_id in position_by_id
            ]
            groups = {index.subjects[position].group_by for position in positions}
            positions += [
                n
                for n, subject in enumerate(index.subjects)
                if subject.feature is None and subject.group_by in groups
            ]
            metrics = sorted(
                {metric for position in positions for metric in index.metrics_of(position)}
            )
            lines = values(connection, index, columns, metrics, positions)
            return index, columns, positions, metrics, lines

    def charts(self, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return the points of the charts; ``feature`` is null for the row metrics of a group-by.

        Parameters
        ----------
        params : mapping
            As for `frame`. ``ids`` are the features; without any known id, the worst feature that
            the page displays.
        """
        import pandas as pd

        params = _request_params(params)
        ranking = self._ranking(params)
        feature_ids = set(ranking["id"])
        ids = [
            int(feature_id)
            for feature_id in params.get("ids") or ()
            if int(feature_id) in feature_ids
        ]
        worst = self._listed(ranking, params)["id"].head(1).tolist()
        index, columns, positions, metrics, lines = self._read_charts(
            {**params, "ids": ids or worst}
        )
        rows = [
            (
                index.subjects[position].group_by,
                index.subjects[position].feature,
                metric,
                label,
                value,
            )
            for m, position in enumerate(positions)
            for n, metric in enumerate(metrics)
            if position in index.series[metric]
            for label, value in zip(columns.labels, lines[n, m].tolist(), strict=True)
            if not np.isnan(value)
        ]
        return pd.DataFrame(rows, columns=["group_by", "feature", "metric", "partition", "value"])

    def frame(self, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return the ranking, the worst feature first.

        Parameters
        ----------
        params : mapping
            As for `ranking`, but ``by`` is the ranking metric, as in the options of the page.
            ``rows`` are the ids of the features that the page displays; without a page, rows follow
            ``group`` and ``filter``.
        """
        params = _request_params(params)
        return self._listed(self._ranking(params), params).drop(columns="id")

    def _ranking(self, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return the full ranking with the ids of features."""
        import pandas as pd

        with self.repository.database.read() as connection:
            request = _Request(self, connection, params)
            means = request.means()
            ranking = rank_features(request.ranking_metric())
        index, columns = request.index, request.columns
        subjects = [index.subjects[position] for position in index.features[ranking.order].tolist()]
        labels = [
            columns.labels[n] if n >= 0 else None for n in ranking.column[ranking.order].tolist()
        ]
        return pd.DataFrame(
            {
                "id": index.ids[index.features][ranking.order],
                "group_by": [subject.group_by for subject in subjects],
                "feature": [subject.feature for subject in subjects],
                "worst": ranking.worst[ranking.order],
                "partition": labels,
                **{cell: mean[ranking.order] for cell, mean in means.items()},
            }
        )

    @staticmethod
    def _listed(ranking: pd.DataFrame, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return the rows of the ranking that the page displays, or that match the options."""
        if params.get("rows") is not None:
            return listed_rows(ranking, ranking["id"], params["rows"])
        features = zip(ranking["group_by"], ranking["feature"], strict=True)
        names = [f"{truncate(group)}.{truncate(feature)}" for group, feature in features]
        mask = matches([names], params.get("filter"))
        if (group := params.get("group")) in set(ranking["group_by"]) - {""}:
            mask &= (ranking["group_by"] == group).to_numpy()
        return ranking[mask].reset_index(drop=True)

    def _read_index(self, connection: Connection, key: _Key) -> ConsistencyIndex:
        """Return the index of a dataset's metrics, from the cache if possible.

        Parameters
        ----------
        connection : Connection
        key : tuple
            Dataset, segment and number of commits.
        """
        cached = self._index
        if cached is None or cached[0] != key:
            dataset, segment, _ = key
            cached = self._index = (key, measures(connection, dataset, segment))
        return cached[1]

    def _matrices(self, request: _Request, metrics: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return metrics of all features as matrices; uncached metrics are read in one query."""
        with self._cache_lock:
            return self._read_matrices(request, metrics)

    def _read_matrices(
        self, request: _Request, metrics: Sequence[str]
    ) -> list[NDArray[np.float64]]:
        """Read and cache matrices; the caller holds the lock."""
        missing = [metric for metric in metrics if (*request.key, metric) not in self._cache]
        matrices = {m: self._cache[*request.key, m] for m in metrics if m not in missing}
        if missing:
            read = values(
                request.connection,
                request.index,
                request.columns,
                missing,
                request.index.features.tolist(),
            )
            matrices |= zip(missing, read, strict=True)
        # Move the metrics to the end of the cache, then evict the least recently used matrices.
        for metric in metrics:
            self._cache.pop((*request.key, metric), None)
            self._cache[*request.key, metric] = matrices[metric]
        while (
            len(self._cache) > 1
            and sum(m.nbytes for m in [*self._cache.values()]) > MAX_CACHE_BYTES
        ):
            self._cache.popitem(last=False)
        return [matrices[metric] for metric in metrics]


class _Request:
    """Scope of one request: a dataset's features over a time range, ranked by a metric.

    Parameters
    ----------
    owner : Consistency
        Handler of the request, which caches the results of reading.
    connection : Connection
    params : mapping
        Parameters of the request, as `protocol.ConsistencyQuestion`.

    Raises
    ------
    HistoryError
        If the repository is empty.
    UnknownNameError
        If the dataset has no such ranking metric.
    """

    def __init__(
        self, owner: Consistency, connection: Connection, params: Mapping[str, Any]
    ) -> None:
        self.owner, self.connection = owner, connection
        commits, dataset = last_commit(connection), params["dataset"]
        if dataset is None:
            raise HistoryError(EMPTY_MESSAGE)
        self.index = owner._read_index(connection, (dataset, params.get("segment"), commits))  # noqa: SLF001 - its helper
        columns = moments(connection, dataset)
        self.range, window = _range_window(columns, params)
        self.columns = columns if window == Window() else moments(connection, dataset, window)
        self.timed = bool(np.isfinite(self.columns.times).all())
        self.key = (dataset, self.index.segment, window, commits)
        self.metric = str(params.get("metric") or WRONG)
        if (
            self.metric != WRONG
            and self.metric not in self.index.series
            and len(self.index.features)
        ):
            raise UnknownNameError("consistency metric", self.metric, [WRONG, *self.index.series])

    def ranking_metric(self) -> NDArray[np.float64]:
        """Return the ranking metric, one row for each feature."""
        if self.metric == WRONG:
            return summed(np.stack(self.read(CELLS)))
        return self.read([self.metric])[0]

    def means(self) -> dict[str, NDArray[np.float64]]:
        """Return the mean rates of each feature over all compared rows."""
        *rates, rows = self.read((*CELLS, WEIGHT_METRIC))
        return {cell: averaged(rate, rows) for cell, rate in zip(CELLS, rates, strict=True)}

    def read(self, metrics: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return metrics as matrices, a row for each feature."""
        return self.owner._matrices(self, metrics)  # noqa: SLF001 - its helper


def _request_params(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a page as parameters of a request: ``by`` is the ranking ``metric``."""
    return {**options, "metric": options.get("by")}


def _range_window(columns: PartitionColumns, params: Mapping[str, Any]) -> tuple[str, Window]:
    """Return the name and window of the displayed range.

    Parameters
    ----------
    columns : PartitionColumns
        All columns of the dataset.
    params : mapping
        ``since`` and ``until`` are in seconds; without both, ``range`` is the name of a number of
        days. The default is 90 days, or 7 if partitions are shorter than a day.

    Returns
    -------
    name : str
        Empty if the window has a start and an end.
    window : Window
    """
    times = columns.times[np.isfinite(columns.times)]
    since, until = params.get("since"), params.get("until")
    if since is not None and until is not None:
        return "", Window(_to_datetime(float(since)), _to_datetime(float(until)))
    steps = np.diff(times)
    default = "7" if len(steps) and np.median(steps) < SECONDS_PER_DAY else "90"
    name = str(params.get("range") or default)
    if name not in RANGE_DAYS:
        raise UnknownNameError("range", name, RANGE_DAYS)
    days = RANGE_DAYS[name]
    if days is None or not len(times):
        return name, Window()
    newest = _to_datetime(float(times.max()))
    return name, Window(newest - timedelta(days=days) + timedelta(microseconds=1), newest)


def _to_datetime(seconds: float) -> datetime:
    """Convert seconds since 1970 to a time."""
    return datetime.fromtimestamp(seconds, UTC)


def _ranking_choices(index: ConsistencyIndex) -> list[str]:
    """Return the metrics to rank features by: scalar metrics, then 5%, 50% and 95% quantiles."""
    features = set(index.features.tolist())
    metrics = [metric for metric, positions in index.series.items() if features & positions.keys()]
    quantiles = ("p5", "p50", "p95")
    scalars = [m for m in metrics if "-" not in m and m != WEIGHT_METRIC]
    return [
        WRONG,
        *scalars,
        *(m for m in metrics if m.rpartition("-")[2] in quantiles and "-" in m),
    ]
