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
    WEIGHT,
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
from tidegauge.widgets.answers import Answer, listed_rows, matches, shown

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.repository import Repository

MOST = 6
"""Maximum number of features in one chart."""
KEPT_BYTES = 160_000_000
"""Cache limit for matrices with one value for each feature and time."""
DAYS = {"7": 7, "30": 30, "90": 90, "all": None}
"""Days to show up to the newest partition, by name of the range."""
_DAY = 86400.0

_Key = tuple[Any, ...]


class Consistency:
    """Request handler of the consistency view.

    The metrics that rank features are read once for all features and cached until the next commit:
    the sparklines of rows that scroll into view use the same numbers.

    Parameters
    ----------
    repository : Repository
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._known: tuple[_Key, ConsistencyIndex] | None = None
        self._kept: OrderedDict[_Key, NDArray[np.float64]] = OrderedDict()
        self._reading = Lock()  # several pages send requests in their own threads

    def ranking(self, asked: Mapping[str, Any]) -> Answer:
        """Return all features, the worst first, with their mean rates over the visible range."""
        with self.repository.database.read() as connection:
            look = _Look(self, connection, asked)
            of, at = look.of, look.at
            elsewhere = [] if len(of.features) else datasets_with_consistency(connection)
            means = look.means()
            found = rank_features(look.by())
        places = of.features[found.order].tolist()
        groups = list(dict.fromkeys(of.subjects[place].group_by for place in sorted(places)))
        code = {group: n for n, group in enumerate(groups)}
        told: protocol.ConsistencyAnswer = {
            "features": [shown(of.subjects[place].feature or "") for place in places],
            "groups": [shown(group) for group in groups],
            "segments": of.segments,
            "segment": of.segment,
            "by": look.metric,
            "choices": _choices(of),
            "range": look.range,
            "labels": [] if look.timed else [shown(label) for label in at.labels],
            "elsewhere": elsewhere,
        }
        numbers: dict[str, NDArray[Any]] = {
            "ids": of.ids[of.features][found.order],
            "group": np.array([code[of.subjects[place].group_by] for place in places], np.int32),
            "worst": found.worst[found.order],
            "column": found.column[found.order].astype(np.int32),
            "times": at.times,
            **{cell: mean[found.order] for cell, mean in means.items()},
        }
        return Answer(told, numbers)

    def lines(self, asked: Mapping[str, Any]) -> Answer:
        """Return the ranking metric of some features over the visible range."""
        with self.repository.database.read() as connection:
            look = _Look(self, connection, asked)
            place = {number: n for n, number in enumerate(look.of.ids[look.of.features].tolist())}
            found = look.by()
            rows = [place.get(int(number), -1) for number in asked["ids"]]
        gone = np.full((1, found.shape[1]), np.nan)
        return Answer({}, {"values": np.concatenate([found, gone])[rows].astype(np.float32)})

    def features(self, asked: Mapping[str, Any]) -> Answer:
        """Return all metrics of some features, and the row metrics of their group-bys."""
        of, at, places, metrics, found = self._charts(asked)
        subjects: list[protocol.ConsistencySubject] = [
            {
                "id": int(of.ids[place]),
                "group_by": shown(of.subjects[place].group_by),
                "feature": None if (name := of.subjects[place].feature) is None else shown(name),
                # Index of each metric's line in ``values``.
                "lines": {
                    shown(metric): n * len(places) + m
                    for n, metric in enumerate(metrics)
                    if place in of.series[metric]
                },
            }
            for m, place in enumerate(places)
        ]
        told: protocol.ConsistencyFeaturesAnswer = {
            "subjects": subjects,
            "labels": [shown(label) for label in at.labels],
        }
        return Answer(told, {"times": at.times, "values": found})

    def _charts(
        self, asked: Mapping[str, Any]
    ) -> tuple[ConsistencyIndex, PartitionColumns, list[int], list[str], NDArray[np.float64]]:
        """Return what the charts of some features show: places of subjects, metrics, and their values.

        Values have the shape (metrics, subjects, columns).
        """
        numbers = list(dict.fromkeys(int(number) for number in asked["ids"]))
        if len(numbers) > MOST:
            msg = f"{len(numbers)} features are too many to be drawn together; choose up to {MOST}"
            raise HistoryError(msg)
        with self.repository.database.read() as connection:
            look = _Look(self, connection, asked)
            of, at = look.of, look.at
            known = {number: n for n, number in enumerate(of.ids.tolist())}
            places = [known[number] for number in numbers if number in known]
            groups = {of.subjects[place].group_by for place in places}
            places += [
                n
                for n, one in enumerate(of.subjects)
                if one.feature is None and one.group_by in groups
            ]
            metrics = sorted({metric for place in places for metric in of.metrics_of(place)})
            return of, at, places, metrics, values(connection, of, at, metrics, places)

    def charts(self, asked: Mapping[str, Any]) -> pd.DataFrame:
        """Return the points of the charts: of the features ``ids``, else of the worst one that is listed.

        ``feature`` is null for the row metrics of a group-by.
        """
        import pandas as pd

        ranking = self._ranking(asked)
        known = set(ranking["id"])
        ids = [int(number) for number in asked.get("ids") or () if int(number) in known]
        worst = self._listed(ranking, asked)["id"].head(1).tolist()
        of, at, places, metrics, found = self._charts({**asked, "ids": ids or worst})
        rows = [
            (of.subjects[place].group_by, of.subjects[place].feature, metric, label, value)
            for m, place in enumerate(places)
            for n, metric in enumerate(metrics)
            if place in of.series[metric]
            for label, value in zip(at.labels, found[n, m].tolist(), strict=True)
            if not np.isnan(value)
        ]
        return pd.DataFrame(rows, columns=["group_by", "feature", "metric", "partition", "value"])

    def frame(self, asked: Mapping[str, Any]) -> pd.DataFrame:
        """Return the ranking, the worst first: the ``rows`` that the page lists, by the ids of features.

        Without a page, they follow the options ``group`` and ``filter``.
        """
        return self._listed(self._ranking(asked), asked).drop(columns="id")

    def _ranking(self, asked: Mapping[str, Any]) -> pd.DataFrame:
        """Return the full ranking with the ids of features."""
        import pandas as pd

        with self.repository.database.read() as connection:
            look = _Look(self, connection, asked)
            means = look.means()
            found = rank_features(look.by())
        of, at = look.of, look.at
        subjects = [of.subjects[place] for place in of.features[found.order].tolist()]
        labels = [at.labels[n] if n >= 0 else None for n in found.column[found.order].tolist()]
        return pd.DataFrame(
            {
                "id": of.ids[of.features][found.order],
                "group_by": [one.group_by for one in subjects],
                "feature": [one.feature for one in subjects],
                "worst": found.worst[found.order],
                "partition": labels,
                **{cell: mean[found.order] for cell, mean in means.items()},
            }
        )

    @staticmethod
    def _listed(ranking: pd.DataFrame, asked: Mapping[str, Any]) -> pd.DataFrame:
        if asked.get("rows") is not None:
            return listed_rows(ranking, ranking["id"], asked["rows"])
        features = zip(ranking["group_by"], ranking["feature"], strict=True)
        names = [f"{shown(group)}.{shown(feature)}" for group, feature in features]
        seen = matches([names], asked.get("filter"))
        if (group := asked.get("group")) in set(ranking["group_by"]) - {""}:
            seen &= (ranking["group_by"] == group).to_numpy()
        return ranking[seen].reset_index(drop=True)

    def _measures(self, connection: Connection, key: _Key) -> ConsistencyIndex:
        """Return the available metrics as of the key's commit, from the cache if possible."""
        kept = self._known
        if kept is None or kept[0] != key:
            dataset, segment, _ = key
            kept = self._known = (key, measures(connection, dataset, segment))
        return kept[1]

    def _matrices(self, look: _Look, metrics: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return metrics of all features as matrices; those not cached are read in one query."""
        with self._reading:
            return self._read(look, metrics)

    def _read(self, look: _Look, metrics: Sequence[str]) -> list[NDArray[np.float64]]:
        missing = [metric for metric in metrics if (*look.key, metric) not in self._kept]
        found = {m: self._kept[*look.key, m] for m in metrics if m not in missing}
        if missing:
            read = values(look.connection, look.of, look.at, missing, look.of.features.tolist())
            found |= zip(missing, read, strict=True)
        for metric in metrics:  # evict the least recently used first
            self._kept.pop((*look.key, metric), None)
            self._kept[*look.key, metric] = found[metric]
        while len(self._kept) > 1 and sum(m.nbytes for m in [*self._kept.values()]) > KEPT_BYTES:
            self._kept.popitem(last=False)
        return [found[metric] for metric in metrics]


class _Look:
    """The scope of one request: a dataset's features over a time range, ranked by a metric."""

    def __init__(
        self, owner: Consistency, connection: Connection, asked: Mapping[str, Any]
    ) -> None:
        self.owner, self.connection = owner, connection
        commits, dataset = last_commit(connection), asked["dataset"]
        if dataset is None:
            msg = "the repository is empty: there is no dataset whose consistency could be shown"
            raise HistoryError(msg)
        self.of = owner._measures(connection, (dataset, asked.get("segment"), commits))  # noqa: SLF001 - its helper
        at = moments(connection, dataset)
        self.range, window = _window(at, asked)
        self.at = at if window == Window() else moments(connection, dataset, window)
        self.timed = bool(np.isfinite(self.at.times).all())
        self.key = (dataset, self.of.segment, window, commits)
        self.metric = str(asked.get("by") or WRONG)
        if self.metric != WRONG and self.metric not in self.of.series and len(self.of.features):
            raise UnknownNameError("consistency metric", self.metric, [WRONG, *self.of.series])

    def by(self) -> NDArray[np.float64]:
        """Return the ranking metric, one row for each feature."""
        if self.metric == WRONG:
            return summed(np.stack(self.read(CELLS)))
        return self.read([self.metric])[0]

    def means(self) -> dict[str, NDArray[np.float64]]:
        """Return the mean rates of each feature over all compared rows."""
        *rates, rows = self.read((*CELLS, WEIGHT))
        return {cell: averaged(rate, rows) for cell, rate in zip(CELLS, rates, strict=True)}

    def read(self, metrics: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return some metrics as matrices, a row for each feature."""
        return self.owner._matrices(self, metrics)  # noqa: SLF001 - its helper


def _window(at: PartitionColumns, asked: Mapping[str, Any]) -> tuple[str, Window]:
    """Return the name and window of the visible range.

    ``since`` and ``until`` are in seconds; else ``range`` names a number of days. The default is 90
    days, or 7 for partitions shorter than a day.
    """
    times = at.times[np.isfinite(at.times)]
    since, until = asked.get("since"), asked.get("until")
    if since is not None and until is not None:
        return "", Window(_moment(float(since)), _moment(float(until)))
    steps = np.diff(times)
    usual = "7" if len(steps) and np.median(steps) < _DAY else "90"
    name = str(asked.get("range") or usual)
    if name not in DAYS:
        raise UnknownNameError("range", name, DAYS)
    days = DAYS[name]
    if days is None or not len(times):
        return name, Window()
    newest = _moment(float(times.max()))
    return name, Window(newest - timedelta(days=days) + timedelta(microseconds=1), newest)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _choices(of: ConsistencyIndex) -> list[str]:
    """Return the metrics to rank features by: scalar metrics, then the 5 %, 50 % and 95 % quantiles."""
    features = set(of.features.tolist())
    mine = [metric for metric, places in of.series.items() if features & places.keys()]
    ends = ("p5", "p50", "p95")
    plain = [m for m in mine if "-" not in m and m != WEIGHT]
    return [WRONG, *plain, *(m for m in mine if m.rpartition("-")[2] in ends and "-" in m)]
