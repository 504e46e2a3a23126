"""Root causes of anomalies: contributions of table parts, and other changes at the same time.

Companions are correlated or unusual series that are not anomalies themselves. Other changes are
partitions that were measured again and partitions whose schema differs from the one before.
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
    unmeasured_breakdowns,
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


MIN_NOTABLE_SCORE = 1.5
"""A p-value of 3%: worth a look next to an anomaly, but not an anomaly itself."""
MIN_CORRELATION = 0.6
MIN_COMMON_CHANGES = 20
MAX_COMPANIONS = 5
_CORRELATION_POINTS = 61


@dataclass(frozen=True)
class Companion:
    """A series that moved along with an anomaly.

    Attributes
    ----------
    subject : str
        The metric in words.
    analyzer, segment : str
        Analyzer and segment of the series.
    score : float
        Highest score in the same partitions; NaN if no score is notable.
    correlation : float
        Spearman's rank correlation of its changes with the anomaly's changes over the last 60
        partitions; NaN if low or unknown, and for parts and bins.
    series : int or None
        Id of the series.
    """

    subject: str
    analyzer: str
    segment: str
    score: float
    correlation: float
    series: int | None = None

    def __str__(self) -> str:
        """Return the relation in one sentence."""
        clauses = []
        if not np.isnan(self.score):
            clauses.append(f"was also unusual (score {self.score:.1f})")
        if not np.isnan(self.correlation):
            direction = "with it" if self.correlation > 0 else "against it"
            clauses.append(f"usually moves {direction} (rank correlation {self.correlation:.2f})")
        return f"{plain(self.subject)} {' and '.join(clauses)}."


def companions(
    connection: Connection,
    dataset: int,
    past: Matrix,
    index: int | None,
    partitions: Sequence[int],
    excluded: Collection[int],
) -> tuple[Companion, ...]:
    """Find the series that moved along with anomalies.

    At most 5 with a notable score come first, then at most 5 with a high correlation.

    Parameters
    ----------
    connection : Connection
    dataset : int
        Id of the dataset.
    past : Matrix
        All series up to the anomaly's partition.
    index : int, optional
        Index of the anomaly's series. If None, nothing is correlated.
    partitions : sequence of int
        Ids of the anomalies' partitions.
    excluded : collection of int
        Ids of the anomalies' series, which are left out.
    """
    scores = _highest_scores(connection, dataset, partitions)
    correlations = {} if index is None else _correlations(past, index)
    candidates = []
    for i, row in enumerate(past.series):
        score = scores.get(row["id"], np.nan)
        correlation = correlations.get(i, np.nan)
        notable = score >= MIN_NOTABLE_SCORE
        if row["id"] not in excluded and (notable or not np.isnan(correlation)):
            names = (subject(row), row["analyzer"], row["segment"])
            numbers = (float(score if notable else np.nan), float(correlation))
            candidates.append(Companion(*names, *numbers, series=int(row["id"])))
    moved = sorted(
        (c for c in candidates if not np.isnan(c.score)), key=lambda c: (-c.score, c.subject)
    )
    related = sorted(
        (c for c in candidates if np.isnan(c.score)), key=lambda c: (-abs(c.correlation), c.subject)
    )
    return (*moved[:MAX_COMPANIONS], *related[:MAX_COMPANIONS])


def _highest_scores(
    connection: Connection, dataset: int, partitions: Sequence[int]
) -> dict[int, float]:
    """Return each series' highest score in some partitions, by any detector."""
    highest: dict[int, float] = {}
    for detector in scorebook.detectors(connection, dataset):
        points = scorebook.read(connection, dataset, detector, partitions)
        for series, score in zip(points.series.tolist(), points.score.tolist(), strict=True):
            highest[series] = max(score, highest.get(series, score))
    return highest


def _correlations(past: Matrix, index: int) -> dict[int, float]:
    """Return the high correlations of a series' changes with other series' changes, by index."""
    changes = np.diff(np.where(np.isinf(past.history.values), np.nan, past.history.values))
    changes = changes[:, -_CORRELATION_POINTS + 1 :]
    reference = changes[index]
    correlations = {}
    for i, row in enumerate(changes):
        both = ~np.isnan(reference) & ~np.isnan(row)
        if not _is_part(past.series[i], past.series[index]) and both.sum() >= MIN_COMMON_CHANGES:
            rho = _spearman(reference[both], row[both])
            if abs(rho) >= MIN_CORRELATION:
                correlations[i] = rho
    return correlations


def _is_part(row: SeriesIdentity, reference: SeriesIdentity) -> bool:
    """Return whether a series has the metric of another, or is a bin. These are reported as parts."""
    same = (row["name"], row["instance"]) == (reference["name"], reference["instance"])
    return same or any(infix in row["name"] for infix in (".abs.", ".ratio."))


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
    correlation: Any = np.corrcoef(np.stack([a, b]))
    return round(float(correlation[0, 1]), 12)


MAX_RESTATED_PARTITIONS, MAX_UNMEASURED_BREAKDOWNS = 3, 3


@dataclass(frozen=True)
class RestatedPartition:
    """A partition that was measured again.

    Attributes
    ----------
    partition : str
    version : int
        The current version.
    measured_at : datetime
        The time of the current version.
    rows : int
        Number of rows of the current version.
    before : int or None
        Number of rows of the previous version; None if it was deleted.
    """

    partition: str
    version: int
    measured_at: datetime
    rows: int
    before: int | None

    def __str__(self) -> str:
        """Return the restatement as a sentence, with times in UTC.

        Examples
        --------
        >>> at = datetime(2013, 2, 9, 8, 30)
        >>> print(RestatedPartition("ds=2013-02-08", 2, at, 480, 1000))
        ds=2013-02-08 was measured again on 2013-02-09 08:30 UTC: version 2 has 480 rows instead of 1,000.
        >>> print(RestatedPartition("ds=2013-02-08", 3, at, 1, 1))
        ds=2013-02-08 was measured again on 2013-02-09 08:30 UTC: version 3 has 1 row, as before.
        """
        rows = plural(self.rows, "row")
        comparison = "" if self.before is None else f" instead of {self.before:,}"
        comparison = ", as before" if self.rows == self.before else comparison
        sentence_start = f"{plain(self.partition or 'the table')} was measured again"
        moment = f"{self.measured_at:%Y-%m-%d %H:%M} UTC"
        return f"{sentence_start} on {moment}: version {self.version} has {rows}{comparison}."


def restated_partitions(
    connection: Connection, partitions: Collection[int]
) -> tuple[RestatedPartition, ...]:
    """Return the partitions that were measured again, in order of the time of their current versions.

    At most `MAX_RESTATED_PARTITIONS` are returned, the last measured ones.

    Parameters
    ----------
    connection : Connection
    partitions : collection of int
        Ids of the partitions to examine.
    """
    p, current, previous = (
        s.partition.c,
        s.partition_version.alias("now"),
        s.partition_version.alias("old"),
    )
    restated: list[RestatedPartition] = []
    for chunk in chunks(sorted(partitions)):
        query = (
            sa.select(
                p.name, current.c.version, current.c.measured_at, current.c.rows, previous.c.rows
            )
            .select_from(current)
            .join(s.partition, p.id == current.c.partition_id)
            .outerjoin(
                previous,
                (previous.c.partition_id == current.c.partition_id)
                & (previous.c.version == current.c.version - 1),
            )
            .where(current.c.partition_id.in_(chunk), current.c.version > 1, s.holds(current))
        )
        restated += [RestatedPartition(*row) for row in connection.execute(query)]
    return tuple(
        sorted(restated, key=lambda partition: partition.measured_at)[-MAX_RESTATED_PARTITIONS:]
    )


MAX_SCHEMA_DIFFERENCES = 3
_SCHEMA_LOOKBACK = 8
"""Enough to skip a week of partitions that were not measured."""


@dataclass(frozen=True)
class SchemaDifference:
    """Schema changes of a partition since the previous measured partition.

    Attributes
    ----------
    partition, before : str
        Names of the partition and of the previous measured partition.
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
        The schema changed from ds=2013-02-07 to ds=2013-02-08: x is gone, y is new.
        """
        changes = list_changes([plain(change) for change in self.changes])
        return (
            f"The schema changed from {plain(self.before)} to {plain(self.partition)}: {changes}."
        )


def schema_differences(
    connection: Connection, partitions: Sequence[PartitionRow], examined: Collection[int]
) -> tuple[SchemaDifference, ...]:
    """Return the schema changes of partitions in order; at most `MAX_SCHEMA_DIFFERENCES`, the first ones.

    Parameters
    ----------
    connection : Connection
    partitions : sequence of mapping
        All partitions of the dataset, in order.
    examined : collection of int
        Ids of the partitions to examine.
    """
    pasts: list[list[PartitionRow]] = []
    for indices in group_by_segment(partitions).values():
        for n, index in enumerate(indices):
            if partitions[index]["id"] in examined:
                pasts.append([partitions[k] for k in indices[max(0, n - _SCHEMA_LOOKBACK) : n + 1]])
    columns = _read_columns(connection, sorted({row["id"] for past in pasts for row in past}))
    differences = []
    for *past, row in pasts:
        previous = next(
            (candidate for candidate in reversed(past) if candidate["id"] in columns), None
        )
        if previous is None or row["id"] not in columns:
            continue
        changes = schema_changes(columns[previous["id"]], columns[row["id"]])
        if changes:
            differences.append(
                SchemaDifference(row["partition"], previous["partition"], tuple(changes))
            )
    return tuple(differences[:MAX_SCHEMA_DIFFERENCES])


def _read_columns(connection: Connection, partitions: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the column types of each measured partition, by partition id."""
    v, t = s.partition_version.c, s.table_schema.c
    schema_of: dict[int, int] = {}
    for chunk in chunks(partitions):
        query = sa.select(v.partition_id, v.table_schema_id).where(
            v.partition_id.in_(chunk), s.holds(s.partition_version)
        )
        schema_of.update({row[0]: row[1] for row in connection.execute(query)})
    columns: dict[int, dict[str, str]] = {}
    for chunk in chunks(sorted(set(schema_of.values()))):
        schema_query = sa.select(t.id, t.columns).where(t.id.in_(chunk))
        columns.update(
            {row[0]: dict(json.loads(row[1])) for row in connection.execute(schema_query)}
        )
    return {partition: columns[key] for partition, key in schema_of.items()}


Expected = Mapping[int, float]

MAX_EXPLAINED_METRICS = 3
MIN_BASELINE_PARTITIONS = 60
"""About two months of daily partitions, including the partition of the anomaly."""
MIN_WEEKDAY_VALUES = 8
"""Values of the same weekday (and hour) whose median replaces a missing expected value of a detector."""


@dataclass(frozen=True)
class Move:
    """A metric's change in one partition, and its contributions by dimension.

    Attributes
    ----------
    subject : str
        The metric in words.
    partition : str
    value, expected : float
    dimensions : tuple of Dimension
        The most explanatory dimension first. Empty if no parts of the metric are measured.
    series : int or None
        Id of the metric's series.
    part_series : mapping of (str, str) to int
        Ids of the series of parts, by dimension and part name.
    scale : str
        The metric's scale; ``duration`` for lengths of time.
    """

    subject: str
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
        parts = pd.concat(frames, ignore_index=True) if frames else frame_of([], PART_COLUMNS)
        parts.insert(0, "metric", self.subject)
        parts.insert(1, "partition", self.partition)
        return parts

    def __str__(self) -> str:
        """Return the change and its main contributions in one or two sentences."""
        sentence = (
            f"{plain(self.subject)} in {plain(self.partition or 'the table')} is"
            f" {measured(self.value, self.scale)} instead of {measured(self.expected, self.scale)}."
        )
        return f"{sentence} {self.dimensions[0]}" if self.dimensions else sentence


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
        Schema changes of the partitions.
    restated : tuple of RestatedPartition
        The partitions that were measured again.
    unmeasured : tuple of str
        Sentences that name by which columns the most significant metric is not measured, although others
        are, and what to add to the suite. At most three.
    """

    renderer: ClassVar[str] = "tidegauge.display.cards:render_causes"

    moves: tuple[Move, ...] = ()
    companions: tuple[Companion, ...] = ()
    schema: tuple[SchemaDifference, ...] = ()
    restated: tuple[RestatedPartition, ...] = ()
    unmeasured: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any causes."""
        return bool(self.moves or self.companions or self.schema or self.restated)

    def frame(self) -> pd.DataFrame:
        """Return the parts of all moves, as `Move.frame` does."""
        import pandas as pd

        frames = [move.frame() for move in self.moves] or [Move("", "", 0, 0, ()).frame()]
        return pd.concat(frames, ignore_index=True)

    def __str__(self) -> str:
        """Return the causes and what is not measured, one per line; empty if there are none."""
        found = (*self.moves, *self.companions, *self.restated, *self.schema)
        return "\n".join(map(str, (*found, *self.unmeasured)))


def causes(connection: Connection, dataset: str, anomalies: Sequence[AnomalyRow]) -> Causes:
    """Find the contributions to anomalies of a dataset, and the series that moved along.

    Parameters
    ----------
    connection : Connection
    dataset : str
    anomalies : sequence of mapping
        Anomalies as `anomaly_rows` returns them, the highest score first.
    """
    if not anomalies:
        return Causes()
    dataset_key = dataset_id(connection, dataset)
    dimensions = dimensions_of(connection, dataset_key, MetricQuery())
    contexts: dict[tuple[int, str], PartitionContext] = {}

    def context_of(anomaly: AnomalyRow) -> PartitionContext:
        key = (anomaly["partition_id"], anomaly["detector"])
        if key not in contexts:
            contexts[key] = PartitionContext.at(
                connection, dataset, dataset_key, dimensions, anomaly
            )
        return contexts[key]

    series = {row["id"]: row for row in dimensions[0]}
    moves: list[Move] = []
    for anomaly in _select_topics(anomalies):
        if len(moves) == MAX_EXPLAINED_METRICS:
            break
        context = context_of(anomaly)
        anomaly_series = series[anomaly["series_id"]]
        total = (
            context.find_total(anomaly_series)
            if len(anomalies) > 1 or not context.cuts(anomaly_series)
            else anomaly_series
        )
        move = context.move(total)
        if move is not None and move.dimensions:
            moves.append(move)
    first_context = context_of(anomalies[0])
    partitions = sorted({row["partition_id"] for row in anomalies})
    excluded = {row["series_id"] for row in anomalies}
    row = first_context.series_index(anomalies[0]["series_id"])
    moved_along = companions(connection, dataset_key, first_context.past, row, partitions, excluded)
    schema = schema_differences(connection, dimensions[1], partitions)
    main = series.get(moves[0].series) if moves and moves[0].series is not None else None
    main = main or first_context.find_total(series[anomalies[0]["series_id"]])
    return Causes(
        tuple(moves),
        moved_along,
        schema,
        restated_partitions(connection, partitions),
        tuple(unmeasured_breakdowns(main, dimensions[0])[:MAX_UNMEASURED_BREAKDOWNS]),
    )


def _select_topics(anomalies: Iterable[AnomalyRow]) -> list[AnomalyRow]:
    """Return the anomaly of the largest part of each metric; row counts first, then by score."""
    best: dict[tuple[str, str], AnomalyRow] = {}
    for row in anomalies:
        topic = (row["name"], row["instance"])
        previous = best.get(topic)
        if previous is None or _part_depth(row) < _part_depth(previous):
            best[topic] = row
    ranked = sorted(best.values(), key=lambda row: (row["name"] != "Size", -row["score"]))
    return [row for row in ranked if is_additive(row) or is_weighted(row)][
        : 2 * MAX_EXPLAINED_METRICS
    ]


def _part_depth(row: AnomalyRow) -> tuple[bool, int]:
    """Return a sort key that grows as a series covers a smaller part of its partition."""
    return bool(row["filter"]), row["segment"].count("=")


@dataclass(frozen=True)
class PartitionContext:
    """A partition with its past: all series and the expected values.

    Attributes
    ----------
    past : Matrix
        All series up to the partition.
    within : str
        Partition segment: the segment that the partition's non-time keys form.
    expected : mapping of int to float
        Finite expected values of the detector, by series id.
    """

    past: Matrix
    within: str
    expected: Expected

    @classmethod
    def at(
        cls,
        connection: Connection,
        dataset: str,
        dataset_key: int,
        dimensions: FactDimensions,
        anomaly: AnomalyRow,
    ) -> PartitionContext:
        """Read the partition of an anomaly and its past."""
        partitions = dimensions[1]
        index = next(k for k, p in enumerate(partitions) if p["id"] == anomaly["partition_id"])
        within = partitions[index]["within"]
        indices = [k for k in group_by_segment(partitions)[within] if k <= index]
        time_of_partition = partitions[index]["time"]
        since = time_of_partition and time_of_partition - timedelta(weeks=MIN_WEEKDAY_VALUES)
        times = ((k, partitions[k]["time"]) for k in indices)
        recent = [k for k, time in times if since and time and time >= since]
        indices = indices[-max(MIN_BASELINE_PARTITIONS, len(recent)) :]
        ids = [partitions[k]["id"] for k in indices]
        facts = read_facts(connection, dataset, MetricQuery(), None, ids, dimensions)
        past = matrix(facts, indices, lambda _: True, 1, None, grid_of(partitions, indices))
        points = scorebook.read(connection, dataset_key, anomaly["detector"], ids[-1:])
        row_by_series = {row["id"]: i for i, row in enumerate(past.series)}
        expected_values = {
            series: expected
            for series, version, expected in zip(
                points.series.tolist(),
                points.version.tolist(),
                points.expected.tolist(),
                strict=True,
            )
            if series in row_by_series and past.version[row_by_series[series], -1] == version
        }
        return cls(past, within, {k: v for k, v in expected_values.items() if np.isfinite(v)})

    def series_index(self, series: int) -> int | None:
        """Return the index of a series by its id; None if the series is not measured."""
        ids = [row["id"] for row in self.past.series]
        return ids.index(series) if series in ids else None

    def find_total(self, series: SeriesRow) -> SeriesRow:
        """Return the unfiltered series of the whole partition; the series itself if none exists."""
        if series["segment"] == self.within and not series["filter"]:
            return series
        candidates = (row for row in self.past.series if row["name"] == series["name"])
        key = identity(series)
        return next(
            (
                row
                for row in candidates
                if row["segment"] == self.within and not row["filter"] and identity(row) == key
            ),
            series,
        )

    def cuts(self, total: SeriesRow) -> dict[str, dict[str, int]]:
        """Return the breakdowns of a series: indices of its parts by dimension and part name."""
        breakdowns: dict[str, dict[str, int]] = {}
        for i, row in enumerate(self.past.series):
            for dimension, part in part_of(total, row):
                breakdowns.setdefault(dimension, {}).setdefault(part, i)
        return breakdowns

    def move(self, total: SeriesRow) -> Move | None:
        """Return a series' change and its contributions; None if a value is not finite."""
        index = self.series_index(total["id"])
        if index is None:
            return None
        values = self.past.history.values  # noqa: PD011 - no frame
        value, expected = float(values[index, -1]), self._expected(index)
        if not np.isfinite(value) or not np.isfinite(expected):
            return None
        cuts = self.cuts(total)
        breakdowns = [
            self._cut(total, (value, expected, index), name, parts) for name, parts in cuts.items()
        ]
        dimensions = best_first([dimension for dimension in breakdowns if dimension is not None])
        partition = self.past.partitions[-1]["partition"]
        ids = {
            (name, part): int(self.past.series[i]["id"])
            for name, parts in cuts.items()
            for part, i in parts.items()
        }
        numbers = (subject(total), partition, value, expected, dimensions)
        scale = written_scale(total["name"], total["scale"])
        return Move(*numbers, series=int(total["id"]), part_series=ids, scale=scale)

    def _cut(
        self,
        total_series: SeriesRow,
        total_point: tuple[float, float, int],
        name: str,
        parts: Mapping[str, int],
    ) -> Dimension | None:
        weights = self.past.history.weights[:, -1]
        values = self.past.history.values  # noqa: PD011 - no frame
        if not is_additive(total_series):
            triples = {
                part: (float(values[i, -1]), self._expected(i), float(weights[i]))
                for part, i in parts.items()
            }
            total = (*total_point[:2], float(weights[total_point[2]]))
            scale = written_scale(total_series["name"], total_series["scale"])
            return ratio_parts(name, total, triples, scale)
        rows = list(parts.values())
        measured: Any = ~np.isnan(values[rows]).all(axis=0)
        if not measured[-1]:
            return None
        filled = np.where(np.isnan(values[rows]) & measured, 0.0, values[rows])
        pairs = {
            part: (float(row[-1]), self._expected(i, row))
            for (part, i), row in zip(parts.items(), filled, strict=True)
        }
        return additive_parts(name, total_point[:2], pairs)

    def _expected(self, index: int, values: Any = None) -> float:
        """Return the detector's expected value, or else the seasonal median of earlier values."""
        expected = self.expected.get(self.past.series[index]["id"])
        if expected is not None:
            return expected
        measured = self.past.history.values  # noqa: PD011 - no frame
        return usual(self.past, measured[index] if values is None else values)


def usual(past: Matrix, history: Any) -> float:
    """Return the median of a series' recent values on the last partition's weekday (and hour).

    On a grid of months, the month of the year replaces the weekday. Without a season, or without values
    on that weekday, the most recent values of any partition are used. NaN without any value.
    """
    is_known = np.isfinite(history[:-1])
    grid = past.history.grid
    if grid is not None and grid.period > 1:
        same_season = is_known & ((grid.column[-1] - grid.column[:-1]) % grid.cycle == 0)
        is_known = same_season if same_season.any() else is_known
    values = history[:-1][is_known][-MIN_WEEKDAY_VALUES:]
    return float(np.median(values)) if len(values) else float("nan")
