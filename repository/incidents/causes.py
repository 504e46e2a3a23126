"""Root causes of anomalies: contributions of table parts, and what else changed at the same time.

Companions are correlated or unusual series that are no anomalies themselves. Partitions with anomalies
may have been measured again, with other rows than before, or have another schema than the partitions
before them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.formatting import measured, plain, plural
from tidegauge.analyzers.core.metric import subject, written_scale
from tidegauge.analyzers.core.registry import Rendered
from tidegauge.repository.detectors.inputs import Matrix, grid_of, group_by_segment, matrix
from tidegauge.repository.detectors.whole_partitions import list_changes, schema_changes
from tidegauge.repository.incidents.contributions import (
    PART_COLUMNS,
    Dimension,
    additive_parts,
    best_first,
    identity,
    is_additive,
    is_weighted,
    part_of,
    ratio_parts,
)
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.facts import FactDimensions, dimensions_of, read_facts
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.store.rows import AnomalyRow, PartitionRow, SeriesIdentity, SeriesRow

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection


NOTABLE = 1.5
"""Minimum score of a point to be notable without being an anomaly."""
CLOSE = 0.6
"""Minimum absolute rank correlation of a companion."""
COMMON = 20
"""Minimum number of common changes to correlate two series."""
FEW = 5
_WINDOW = 61


@dataclass(frozen=True)
class Companion:
    """A series that moved along with an anomaly.

    Attributes
    ----------
    what : str
        The metric as text.
    analyzer, segment : str
    score : float
        Its highest score in the same partitions; NaN if it has no notable one there.
    correlation : float
        Spearman's rank correlation of its changes with the anomaly's over the last 60 partitions;
        NaN if low or unknown, and for parts and bins.
    series : int or None
        Id of the series.
    """

    what: str
    analyzer: str
    segment: str
    score: float
    correlation: float
    series: int | None = None

    def __str__(self) -> str:
        """Return the relation in one sentence."""
        told = []
        if not np.isnan(self.score):
            told.append(f"was also unusual (score {self.score:.1f})")
        if not np.isnan(self.correlation):
            way = "with it" if self.correlation > 0 else "against it"
            told.append(f"usually moves {way} (rank correlation {self.correlation:.2f})")
        return f"{plain(self.what)} {' and '.join(told)}."


def companions(
    connection: Connection,
    dataset: int,
    past: Matrix,
    of: int | None,
    partitions: Sequence[int],
    out: Collection[int],
) -> tuple[Companion, ...]:
    """Find the series that moved along with anomalies.

    At most 5 with a notable score come first, then at most 5 with a high correlation.

    Parameters
    ----------
    connection : Connection
    dataset : int
    past : Matrix
        Ends with the anomaly's partition.
    of : int, optional
        Index of the anomaly's series; nothing is correlated if not given.
    partitions : sequence of int
        Ids of the anomalies' partitions.
    out : collection of int
        Ids of the anomalies' series, which are left out.
    """
    scores = _scores(connection, dataset, partitions)
    close = {} if of is None else _close(past, of)
    found = []
    for i, row in enumerate(past.series):
        score = scores.get(row["id"], np.nan)
        correlation = close.get(i, np.nan)
        notable = score >= NOTABLE
        if row["id"] not in out and (notable or not np.isnan(correlation)):
            told = (subject(row), row["analyzer"], row["segment"])
            numbers = (float(score if notable else np.nan), float(correlation))
            found.append(Companion(*told, *numbers, series=int(row["id"])))
    moved = sorted((c for c in found if not np.isnan(c.score)), key=lambda c: (-c.score, c.what))
    related = sorted(
        (c for c in found if np.isnan(c.score)), key=lambda c: (-abs(c.correlation), c.what)
    )
    return (*moved[:FEW], *related[:FEW])


def _scores(connection: Connection, dataset: int, partitions: Sequence[int]) -> dict[int, float]:
    """Return each series' highest score in some partitions, by any detector."""
    highest: dict[int, float] = {}
    for detector in scorebook.detectors(connection, dataset):
        points = scorebook.read(connection, dataset, detector, partitions)
        for series, score in zip(points.series.tolist(), points.score.tolist(), strict=True):
            highest[series] = max(score, highest.get(series, score))
    return highest


def _close(past: Matrix, of: int) -> dict[int, float]:
    """Return the high correlations of other series' changes with those of one, by index."""
    changes = np.diff(np.where(np.isinf(past.history.values), np.nan, past.history.values))
    changes = changes[:, -_WINDOW + 1 :]
    own = changes[of]
    found = {}
    for i, line in enumerate(changes):
        both = ~np.isnan(own) & ~np.isnan(line)
        if not _is_part(past.series[i], past.series[of]) and both.sum() >= COMMON:
            rho = _spearman(own[both], line[both])
            if abs(rho) >= CLOSE:
                found[i] = rho
    return found


def _is_part(row: SeriesIdentity, of: SeriesIdentity) -> bool:
    """Return whether a series has another's metric, or is a bin: these are reported as parts."""
    same = (row["name"], row["instance"]) == (of["name"], of["instance"])
    return same or any(mark in row["name"] for mark in (".abs.", ".ratio."))


def _spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation; 0 if either side is constant.

    Examples
    --------
    >>> _spearman(np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 0.0]))
    -1.0
    """
    from scipy.stats import rankdata

    a, b = (np.asarray(rankdata(z), dtype=np.float64) for z in (x, y))
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    found: Any = np.corrcoef(np.stack([a, b]))
    return round(float(found[0, 1]), 12)


MAX_RESTATED_PARTITIONS = 3
"""Maximum number of partitions to tell of."""


@dataclass(frozen=True)
class RestatedPartition:
    """A partition whose current version is not its first.

    Attributes
    ----------
    partition : str
    version : int
    measured_at : datetime
        The time of the current version.
    rows : int
        Number of rows of the current version.
    before : int or None
        Number of rows of the version before it; None if that one was cleaned away.
    """

    partition: str
    version: int
    measured_at: datetime
    rows: int
    before: int | None

    def __str__(self) -> str:
        """Return the restatement as a sentence; times are UTC.

        Examples
        --------
        >>> at = datetime(2013, 2, 9, 8, 30)
        >>> print(RestatedPartition("ds=2013-02-08", 2, at, 480, 1000))
        ds=2013-02-08 was measured again on 2013-02-09 08:30 UTC: version 2 has 480 rows instead of 1,000.
        >>> print(RestatedPartition("ds=2013-02-08", 3, at, 1, 1))
        ds=2013-02-08 was measured again on 2013-02-09 08:30 UTC: version 3 has 1 row, as before.
        """
        rows = plural(self.rows, "row")
        than = "" if self.before is None else f" instead of {self.before:,}"
        than = ", as before" if self.rows == self.before else than
        what = f"{plain(self.partition or 'the table')} was measured again"
        moment = f"{self.measured_at:%Y-%m-%d %H:%M} UTC"
        return f"{what} on {moment}: version {self.version} has {rows}{than}."


def restated_partitions(
    connection: Connection, at: Collection[int]
) -> tuple[RestatedPartition, ...]:
    """Return the restated ones among some partitions, by id, in order of their current versions.

    Of many, the ones that were measured last.
    """
    p, now, old = s.partition.c, s.partition_version.alias("now"), s.partition_version.alias("old")
    found: list[RestatedPartition] = []
    for some in chunks(sorted(at)):
        query = (
            sa.select(p.name, now.c.version, now.c.measured_at, now.c.rows, old.c.rows)
            .select_from(now)
            .join(s.partition, p.id == now.c.partition_id)
            .outerjoin(
                old,
                (old.c.partition_id == now.c.partition_id) & (old.c.version == now.c.version - 1),
            )
            .where(now.c.partition_id.in_(some), now.c.version > 1, s.holds(now))
        )
        found += [RestatedPartition(*row) for row in connection.execute(query)]
    return tuple(sorted(found, key=lambda one: one.measured_at)[-MAX_RESTATED_PARTITIONS:])


MAX_SCHEMA_DIFFERENCES = 3
"""Maximum number of partitions to tell of."""
_BACK = 8
"""Maximum number of partitions to look back for one that was measured."""


@dataclass(frozen=True)
class SchemaDifference:
    """Columns of a partition that differ from those of the measured partition before it.

    Attributes
    ----------
    partition, before : str
    changes : tuple of str
        Such as ``tail is gone``, ``distance is double, not int``.
    """

    partition: str
    before: str
    changes: tuple[str, ...]

    def __str__(self) -> str:
        """Return the difference as a sentence.

        Examples
        --------
        >>> print(SchemaDifference("ds=2013-02-08", "ds=2013-02-07", ("x is gone", "y is new")))
        The schema of ds=2013-02-08 differs from that of ds=2013-02-07: x is gone, y is new.
        """
        told = list_changes([plain(change) for change in self.changes])
        return f"The schema of {plain(self.partition)} differs from that of {plain(self.before)}: {told}."


def schema_differences(
    connection: Connection, partitions: Sequence[PartitionRow], at: Collection[int]
) -> tuple[SchemaDifference, ...]:
    """Return the schema changes of some partitions, in order; of the first few if there are many.

    Parameters
    ----------
    connection : Connection
    partitions : sequence of mapping
        All partitions of the dataset, in order.
    at : collection of int
        Ids of the partitions to look at.
    """
    pasts: list[list[PartitionRow]] = []
    for places in group_by_segment(partitions).values():
        for n, place in enumerate(places):
            if partitions[place]["id"] in at:
                pasts.append([partitions[k] for k in places[max(0, n - _BACK) : n + 1]])
    columns = _columns(connection, sorted({row["id"] for past in pasts for row in past}))
    found = []
    for *past, row in pasts:
        before = next((one for one in reversed(past) if one["id"] in columns), None)
        if before is None or row["id"] not in columns:
            continue
        changes = schema_changes(columns[before["id"]], columns[row["id"]])
        if changes:
            found.append(SchemaDifference(row["partition"], before["partition"], tuple(changes)))
    return tuple(found[:MAX_SCHEMA_DIFFERENCES])


def _columns(connection: Connection, partitions: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the columns of the measured ones among some partitions."""
    v, t = s.partition_version.c, s.table_schema.c
    schema_of: dict[int, int] = {}
    for some in chunks(partitions):
        query = sa.select(v.partition_id, v.table_schema_id).where(
            v.partition_id.in_(some), s.holds(s.partition_version)
        )
        schema_of.update({row[0]: row[1] for row in connection.execute(query)})
    columns: dict[int, dict[str, str]] = {}
    for some in chunks(sorted(set(schema_of.values()))):
        texts = sa.select(t.id, t.columns).where(t.id.in_(some))
        columns.update({row[0]: dict(json.loads(row[1])) for row in connection.execute(texts)})
    return {of: columns[key] for of, key in schema_of.items()}


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

    renderer: ClassVar[str] = "tidegauge.display.cards:render_causes"

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
