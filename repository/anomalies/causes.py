"""Why it is an anomaly: which parts of a table moved a metric, and what else moved with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.display import Markup, Rows, card, note, number, plain, sentence, table
from repository.anomalies import scorebook
from repository.anomalies.companions import Companion, companions
from repository.anomalies.contributions import (
    PART_COLUMNS,
    Dimension,
    additive_parts,
    best_first,
    ratio_parts,
)
from repository.anomalies.finding import subject
from repository.anomalies.matrices import Matrix, grid_of, matrix, timeline
from repository.anomalies.parts import identity, is_additive, is_weighted, part_of
from repository.facts import dimensions_of, read_facts
from repository.frames import frame_of
from repository.history import MetricQuery, dataset_id

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

Row = Mapping[str, Any]
Expected = Mapping[int, float]

TOPICS = 3
"""Metrics of an incident that are explained."""
_WAYS = 2
"""Ways to cut a metric that are shown."""
LATELY = 60
"""Partitions before one that tell what was usual, at least."""
ALIKE = 8
"""Earlier values of the same weekday (and hour) whose median is expected where no detector says."""


@dataclass(frozen=True)
class Move:
    """One metric that moved in one partition, and what moved it.

    Attributes
    ----------
    what : str
        The metric in words.
    partition : str
    value, expected : float
    dimensions : tuple of Dimension
        The one that explains most first; empty if no parts of it are measured.
    """

    what: str
    partition: str
    value: float
    expected: float
    dimensions: tuple[Dimension, ...]

    def frame(self) -> pd.DataFrame:
        """Return a row for each part, with the columns metric, partition, dimension, part, value, expected, change, usual, share."""
        import pandas as pd  # noqa: PLC0415 - heavy

        frames = [dimension.frame() for dimension in self.dimensions]
        found = pd.concat(frames, ignore_index=True) if frames else frame_of([], PART_COLUMNS)
        found.insert(0, "metric", self.what)
        found.insert(1, "partition", self.partition)
        return found

    def __str__(self) -> str:
        """Say it in one or two sentences."""
        told = (
            f"{plain(self.what)} in {plain(self.partition or 'the table')} is {number(self.value)}"
            f" instead of {number(self.expected)}."
        )
        return f"{told} {self.dimensions[0]}" if self.dimensions else told


@dataclass(frozen=True)
class Causes:
    """What is known of why something is an anomaly.

    Attributes
    ----------
    moves : tuple of Move
        The metrics that can be cut into parts, the clearest first.
    companions : tuple of Companion
        Other series that moved along.
    """

    moves: tuple[Move, ...] = ()
    companions: tuple[Companion, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return the parts of all moves; see `Move.frame`."""
        import pandas as pd  # noqa: PLC0415

        frames = [move.frame() for move in self.moves] or [Move("", "", 0, 0, ()).frame()]
        return pd.concat(frames, ignore_index=True)

    def __str__(self) -> str:
        """Say it in a few lines; empty if nothing is known."""
        return "\n".join(map(str, (*self.moves, *self.companions)))

    def _repr_html_(self) -> str:
        return card(self.pieces)

    def pieces(self, most: int, width: int) -> Iterator[Markup]:
        """Yield what a notebook shows: a table of parts for each move, and what moved along."""
        for move in self.moves:
            yield sentence(str(move), 8 * width)
            for dimension in move.dimensions[:_WAYS]:
                rows = [
                    (part.name, part.value, part.expected, part.change, f"{100 * part.share:.0f} %")
                    for part in dimension.parts
                ]
                head = [dimension.name, "value", "expected", "change", "share of the change"]
                yield table(head, Rows.of(rows, max(2, most // 8)), width)
        for one in self.companions[: max(2, most // 4)]:
            yield sentence(str(one), 8 * width)
        if not self.moves and not self.companions:
            yield note("Nothing is known of why: no part of it is measured.")


def causes(connection: Connection, dataset: str, anomalies: Sequence[Row]) -> Causes:
    """Return what moved some anomalies of one dataset, and what moved along.

    Parameters
    ----------
    connection : Connection
    dataset : str
    anomalies : sequence of mapping
        As `anomaly_rows` returns them, the clearest first.
    """
    if not anomalies:
        return Causes()
    of = dataset_id(connection, dataset)
    known = dimensions_of(connection, of, MetricQuery())
    scenes: dict[tuple[int, str], Scene] = {}

    def scene_of(anomaly: Row) -> Scene:
        key = (anomaly["partition_id"], anomaly["detector"])
        if key not in scenes:
            scenes[key] = Scene.at(connection, dataset, of, known, anomaly)
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
    along = companions(connection, of, first.past, first.of(anomalies[0]), at, out)
    return Causes(tuple(moves), along)


def _topics(anomalies: Iterable[Row]) -> list[Row]:
    """Return the clearest anomaly of each metric, that of the whole if it is one; rows come first."""
    found: dict[tuple[str, str], Row] = {}
    for row in anomalies:
        topic = (row["name"], row["instance"])
        before = found.get(topic)
        if before is None or _part(row) < _part(before):
            found[topic] = row
    ranked = sorted(found.values(), key=lambda row: (row["name"] != "Size", -row["score"]))
    return [row for row in ranked if is_additive(row) or is_weighted(row)][: 2 * TOPICS]


def _part(row: Row) -> tuple[bool, int]:
    """Return how small a part of its partition a series is of."""
    return bool(row["filter"]), row["segment"].count("=")


@dataclass(frozen=True)
class Scene:
    """A partition with those before it, all series of them, and what was expected.

    Attributes
    ----------
    past : Matrix
        The partition is its last.
    within : str
        The segment that the partition's own keys make.
    said : mapping of int to float
        What the detector expected, by series.
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
        known: tuple[list[Row], list[Row]],
        anomaly: Row,
    ) -> Scene:
        """Read the scene of an anomaly."""
        partitions = known[1]
        place = next(k for k, p in enumerate(partitions) if p["id"] == anomaly["partition_id"])
        within = partitions[place]["within"]
        places = [k for k in timeline(partitions)[within] if k <= place]
        since = partitions[place]["time"] and partitions[place]["time"] - timedelta(weeks=ALIKE)
        early = [
            k for k in places if since and partitions[k]["time"] and partitions[k]["time"] >= since
        ]
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

    def of(self, anomaly: Row) -> int | None:
        """Return the place of an anomaly's series; None if it is none of those that are measured."""
        ids = [row["id"] for row in self.past.series]
        return ids.index(anomaly["series_id"]) if anomaly["series_id"] in ids else None

    def whole_of(self, own: Row) -> Row:
        """Return the series that another is a part of; itself if that is not measured."""
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

    def cuts(self, whole: Row) -> dict[str, dict[str, int]]:
        """Return the ways to cut a series: names of parts and their places, by dimension."""
        found: dict[str, dict[str, int]] = {}
        for i, row in enumerate(self.past.series):
            for dimension, part in part_of(whole, row):
                found.setdefault(dimension, {}).setdefault(part, i)
        return found

    def move(self, whole: Row) -> Move | None:
        """Return how a series moved, and what moved it; None if its value is no number."""
        place = self.of({"series_id": whole["id"]})
        if place is None:
            return None
        values = self.past.history.values  # noqa: PD011 - no frame
        value, expected = float(values[place, -1]), self._expected(place)
        if not np.isfinite(value) or not np.isfinite(expected):
            return None
        found = [
            self._cut(whole, (value, expected, place), name, parts)
            for name, parts in self.cuts(whole).items()
        ]
        dimensions = best_first([one for one in found if one is not None])
        partition = self.past.partitions[-1]["partition"]
        return Move(subject(whole), partition, value, expected, dimensions)

    def _cut(
        self, whole: Row, at: tuple[float, float, int], name: str, parts: Mapping[str, int]
    ) -> Dimension | None:
        weights = self.past.history.weights[:, -1]
        values = self.past.history.values  # noqa: PD011 - no frame
        if not is_additive(whole):
            triples = {
                part: (float(values[i, -1]), self._expected(i), float(weights[i]))
                for part, i in parts.items()
            }
            return ratio_parts(name, (*at[:2], float(weights[at[2]])), triples)
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
        """Return what a detector expected, else the median of what was before on such days."""
        said = self.said.get(self.past.series[place]["id"])
        if said is not None:
            return said
        known = self.past.history.values  # noqa: PD011 - no frame
        return usual(self.past, known[place] if values is None else values)


def usual(past: Matrix, line: Any) -> float:
    """Return the median of a series' last values on the last partition's weekday (and hour).

    NaN if there is none. Where the partitions are neither days nor hours, the last values of all.
    """
    before = np.isfinite(line[:-1])
    period = 1 if past.history.grid is None else past.history.grid.period
    if period > 1:
        column = past.history.grid.column  # type: ignore[union-attr]  # it has a period
        season = 7 * (period if period > 7 else 1)  # noqa: PLR2004 - hours of a week, or its days
        same = before & ((column[-1] - column[:-1]) % season == 0)
        before = same if same.any() else before
    values = line[:-1][before][-ALIKE:]
    return float(np.median(values)) if len(values) else float("nan")
