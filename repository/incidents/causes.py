"""Root causes of anomalies: contributions of table parts, and series that moved along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegauge.analyzers.core.formatting import measured, plain
from tidegauge.analyzers.core.metric_names import subject, written_scale
from tidegauge.analyzers.core.rendering import Rendered
from tidegauge.repository.detectors.matrices import Matrix, grid_of, group_by_segment, matrix
from tidegauge.repository.incidents.companions import Companion, companions
from tidegauge.repository.incidents.contributions import (
    PART_COLUMNS,
    Dimension,
    additive_parts,
    best_first,
    ratio_parts,
)
from tidegauge.repository.incidents.parts import identity, is_additive, is_weighted, part_of
from tidegauge.repository.incidents.restatements import RestatedPartition, restated_partitions
from tidegauge.repository.incidents.schema_changes import SchemaDifference, schema_differences
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.facts import FactDimensions, dimensions_of, read_facts
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.store.rows import AnomalyRow, SeriesRow

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

Expected = Mapping[int, float]

TOPICS = 3
"""Metrics of an incident that are explained."""
LATELY = 60
"""Minimum number of partitions, the anomaly's included, to read as its baseline."""
ALIKE = 8
"""Values of the same weekday (and hour) whose median is expected where no detector gives a value."""


@dataclass(frozen=True)
class Move:
    """A metric's change in one partition, and its contributions by dimension.

    Attributes
    ----------
    what : str
        The metric as text.
    partition : str
    value, expected : float
    dimensions : tuple of Dimension
        The most explanatory dimension first; empty if no parts of the metric are measured.
    series : int or None
        Id of the metric's series.
    part_series : mapping of (str, str) to int
        Ids of the series of parts, by dimension and part name.
    scale : str
        The metric's scale; ``duration`` for lengths of time.
    """

    what: str
    partition: str
    value: float
    expected: float
    dimensions: tuple[Dimension, ...]
    series: int | None = None
    part_series: Mapping[tuple[str, str], int] = field(default_factory=dict, repr=False)
    scale: str = ""

    def frame(self) -> pd.DataFrame:
        """Return one row for each part.

        Columns: metric, partition, dimension, part, value, expected, change, usual, share.
        """
        import pandas as pd

        frames = [dimension.frame() for dimension in self.dimensions]
        found = pd.concat(frames, ignore_index=True) if frames else frame_of([], PART_COLUMNS)
        found.insert(0, "metric", self.what)
        found.insert(1, "partition", self.partition)
        return found

    def __str__(self) -> str:
        """Return the change and its main contributions in one or two sentences."""
        told = (
            f"{plain(self.what)} in {plain(self.partition or 'the table')} is"
            f" {measured(self.value, self.scale)} instead of {measured(self.expected, self.scale)}."
        )
        return f"{told} {self.dimensions[0]}" if self.dimensions else told


@dataclass(frozen=True)
class Causes(Rendered):
    """Likely causes of an anomaly: parts that moved it, and related series.

    Attributes
    ----------
    moves : tuple of Move
        The metrics that can be broken down into parts, the most significant first.
    companions : tuple of Companion
        Other series that moved along.
    schema : tuple of SchemaDifference
        Columns that changed with the partitions.
    restated : tuple of RestatedPartition
        The partitions that were measured again.
    """

    renderer: ClassVar[str] = "tidegauge.display.history:render_causes"

    moves: tuple[Move, ...] = ()
    companions: tuple[Companion, ...] = ()
    schema: tuple[SchemaDifference, ...] = ()
    restated: tuple[RestatedPartition, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any causes."""
        return bool(self.moves or self.companions or self.schema or self.restated)

    def frame(self) -> pd.DataFrame:
        """Return the parts of all moves, as `Move.frame` does."""
        import pandas as pd

        frames = [move.frame() for move in self.moves] or [Move("", "", 0, 0, ()).frame()]
        return pd.concat(frames, ignore_index=True)

    def __str__(self) -> str:
        """Return the causes as text, one line each; empty if there are none."""
        return "\n".join(map(str, (*self.moves, *self.companions, *self.restated, *self.schema)))


def causes(connection: Connection, dataset: str, anomalies: Sequence[AnomalyRow]) -> Causes:
    """Find the contributions to some anomalies of one dataset, and the series that moved along.

    Parameters
    ----------
    connection : Connection
    dataset : str
    anomalies : sequence of mapping
        As `anomaly_rows` returns them, the highest score first.
    """
    if not anomalies:
        return Causes()
    of = dataset_id(connection, dataset)
    known = dimensions_of(connection, of, MetricQuery())
    scenes: dict[tuple[int, str], PartitionContext] = {}

    def scene_of(anomaly: AnomalyRow) -> PartitionContext:
        key = (anomaly["partition_id"], anomaly["detector"])
        if key not in scenes:
            scenes[key] = PartitionContext.at(connection, dataset, of, known, anomaly)
        return scenes[key]

    series = {row["id"]: row for row in known[0]}
    moves: list[Move] = []
    for anomaly in _topics(anomalies):
        if len(moves) == TOPICS:
            break
        scene = scene_of(anomaly)
        own = series[anomaly["series_id"]]
        whole = scene.whole_of(own) if len(anomalies) > 1 or not scene.cuts(own) else own
        move = scene.move(whole)
        if move is not None and move.dimensions:
            moves.append(move)
    first = scene_of(anomalies[0])
    at = sorted({row["partition_id"] for row in anomalies})
    out = {row["series_id"] for row in anomalies}
    along = companions(connection, of, first.past, first.place(anomalies[0]["series_id"]), at, out)
    schema = schema_differences(connection, known[1], at)
    return Causes(tuple(moves), along, schema, restated_partitions(connection, at))


def _topics(anomalies: Iterable[AnomalyRow]) -> list[AnomalyRow]:
    """Return one anomaly for each metric, of its largest part; row counts come first, then by score."""
    found: dict[tuple[str, str], AnomalyRow] = {}
    for row in anomalies:
        topic = (row["name"], row["instance"])
        before = found.get(topic)
        if before is None or _part(row) < _part(before):
            found[topic] = row
    ranked = sorted(found.values(), key=lambda row: (row["name"] != "Size", -row["score"]))
    return [row for row in ranked if is_additive(row) or is_weighted(row)][: 2 * TOPICS]


def _part(row: AnomalyRow) -> tuple[bool, int]:
    """Return a sort key that grows as a series covers a smaller part of its partition."""
    return bool(row["filter"]), row["segment"].count("=")


@dataclass(frozen=True)
class PartitionContext:
    """A partition with its past: all series and the expected values.

    Attributes
    ----------
    past : Matrix
        Ends with the partition.
    within : str
        Partition segment: the segment that the partition's non-time keys form.
    said : mapping of int to float
        The detector's expected values, by series id; finite ones only.
    """

    past: Matrix
    within: str
    said: Expected

    @classmethod
    def at(
        cls,
        connection: Connection,
        dataset: str,
        of: int,
        known: FactDimensions,
        anomaly: AnomalyRow,
    ) -> PartitionContext:
        """Read the partition of an anomaly and its past."""
        partitions = known[1]
        place = next(k for k, p in enumerate(partitions) if p["id"] == anomaly["partition_id"])
        within = partitions[place]["within"]
        places = [k for k in group_by_segment(partitions)[within] if k <= place]
        at = partitions[place]["time"]
        since = at and at - timedelta(weeks=ALIKE)
        times = ((k, partitions[k]["time"]) for k in places)
        early = [k for k, time in times if since and time and time >= since]
        places = places[-max(LATELY, len(early)) :]
        ids = [partitions[k]["id"] for k in places]
        facts = read_facts(connection, dataset, MetricQuery(), None, ids, known)
        past = matrix(facts, places, lambda _: True, 1, None, grid_of(partitions, places))
        points = scorebook.read(connection, of, anomaly["detector"], ids[-1:])
        line = {row["id"]: i for i, row in enumerate(past.series)}
        said = {
            series: expected
            for series, version, expected in zip(
                points.series.tolist(),
                points.version.tolist(),
                points.expected.tolist(),
                strict=True,
            )
            if series in line and past.version[line[series], -1] == version
        }
        return cls(past, within, {k: v for k, v in said.items() if np.isfinite(v)})

    def place(self, series: int) -> int | None:
        """Return the index of a series by its id; None if it is not measured."""
        ids = [row["id"] for row in self.past.series]
        return ids.index(series) if series in ids else None

    def whole_of(self, own: SeriesRow) -> SeriesRow:
        """Return the unfiltered series of the whole partition; the series itself if there is none."""
        if own["segment"] == self.within and not own["filter"]:
            return own
        among = (row for row in self.past.series if row["name"] == own["name"])
        wanted = identity(own)
        return next(
            (
                row
                for row in among
                if row["segment"] == self.within and not row["filter"] and identity(row) == wanted
            ),
            own,
        )

    def cuts(self, whole: SeriesRow) -> dict[str, dict[str, int]]:
        """Return the breakdowns of a series: indices of its parts by dimension and part name."""
        found: dict[str, dict[str, int]] = {}
        for i, row in enumerate(self.past.series):
            for dimension, part in part_of(whole, row):
                found.setdefault(dimension, {}).setdefault(part, i)
        return found

    def move(self, whole: SeriesRow) -> Move | None:
        """Return a series' change and its contributions; None if value or expectation is not finite."""
        place = self.place(whole["id"])
        if place is None:
            return None
        values = self.past.history.values  # noqa: PD011 - no frame
        value, expected = float(values[place, -1]), self._expected(place)
        if not np.isfinite(value) or not np.isfinite(expected):
            return None
        cuts = self.cuts(whole)
        found = [
            self._cut(whole, (value, expected, place), name, parts) for name, parts in cuts.items()
        ]
        dimensions = best_first([one for one in found if one is not None])
        partition = self.past.partitions[-1]["partition"]
        ids = {
            (name, part): int(self.past.series[i]["id"])
            for name, parts in cuts.items()
            for part, i in parts.items()
        }
        told = (subject(whole), partition, value, expected, dimensions)
        scale = written_scale(whole["name"], whole["scale"])
        return Move(*told, series=int(whole["id"]), part_series=ids, scale=scale)

    def _cut(
        self, whole: SeriesRow, at: tuple[float, float, int], name: str, parts: Mapping[str, int]
    ) -> Dimension | None:
        weights = self.past.history.weights[:, -1]
        values = self.past.history.values  # noqa: PD011 - no frame
        if not is_additive(whole):
            triples = {
                part: (float(values[i, -1]), self._expected(i), float(weights[i]))
                for part, i in parts.items()
            }
            total = (*at[:2], float(weights[at[2]]))
            scale = written_scale(whole["name"], whole["scale"])
            return ratio_parts(name, total, triples, scale)
        rows = list(parts.values())
        measured: Any = ~np.isnan(values[rows]).all(axis=0)
        if not measured[-1]:
            return None
        filled = np.where(np.isnan(values[rows]) & measured, 0.0, values[rows])
        pairs = {
            part: (float(line[-1]), self._expected(i, line))
            for (part, i), line in zip(parts.items(), filled, strict=True)
        }
        return additive_parts(name, at[:2], pairs)

    def _expected(self, place: int, values: Any = None) -> float:
        """Return the detector's expected value, else the seasonal median of earlier values."""
        said = self.said.get(self.past.series[place]["id"])
        if said is not None:
            return said
        known = self.past.history.values  # noqa: PD011 - no frame
        return usual(self.past, known[place] if values is None else values)


def usual(past: Matrix, line: Any) -> float:
    """Return the median of a series' recent values on the last partition's weekday (and hour).

    NaN if there is none. On a grid of months, the month of the year takes the weekday's part. Uses
    the most recent values of any partition if there is no season, or none falls on that weekday.
    """
    before = np.isfinite(line[:-1])
    grid = past.history.grid
    if grid is not None and grid.period > 1:
        same = before & ((grid.column[-1] - grid.column[:-1]) % grid.cycle == 0)
        before = same if same.any() else before
    values = line[:-1][before][-ALIKE:]
    return float(np.median(values)) if len(values) else float("nan")
