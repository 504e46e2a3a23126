"""Partitions that are measured before their data are complete.

In some tables the newest partition is incomplete when it is first measured, and is measured again later. Such a
young partition is compared with earlier partitions as they were at the same age, from their stored versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.detectors.base import Detector, ScoreRequest, Scores, Scoring
from tidegauge.repository.detectors.inputs import Matrix
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats


MAX_YOUNG_PARTITIONS = 7
"""Only this many newest partitions can be young."""
HABIT_PARTITIONS, MIN_HABIT_PARTITIONS = 14, 4
"""Whether young partitions change later is decided by the last 14 partitions whose age is known, at least 4."""
MAX_VERSION = int(np.iinfo(np.int64).max)
MIN_CHANGED_SHARE = 0.75
"""Partitions of an age are incomplete if at least this share of the earlier ones changed after it."""


@dataclass(frozen=True)
class YoungHistory:
    """Values of earlier partitions at the age of a young partition.

    Attributes
    ----------
    column : int
        Column of the young partition in the matrix.
    values, weights : array of float, shape (series, column)
        NaN where the value at this age is unknown.
    """

    column: int
    values: Floats
    weights: Floats


@dataclass(frozen=True)
class _Version:
    """A version of a partition: its number, and how many newer partitions were known when it was measured."""

    number: int
    age: int


def read_restated(connection: Connection, segments: Iterable[Sequence[int]]) -> set[int]:
    """Return the recent partitions of partition segments that were measured again, by the ids of all partitions."""
    m = s.metric.c
    recent = [n for ids in segments for n in ids[-HABIT_PARTITIONS - MAX_YOUNG_PARTITIONS :]]
    restated: set[int] = set()
    for chunk in chunks(recent):
        query = sa.select(m.partition_id).where(m.partition_id.in_(chunk), m.version > 1)
        restated.update(connection.execute(query.distinct()).scalars())
    return restated


def maybe_young(restated: AbstractSet[int], partitions: Sequence[int]) -> set[int]:
    """Return the newest partitions of a partition segment, if any of its recent partitions was measured again.

    They age when newer partitions arrive, so they are scored again although they did not change.
    """
    is_restated = not restated.isdisjoint(partitions)
    return set(partitions[-MAX_YOUNG_PARTITIONS:]) if is_restated else set()


def young_histories(connection: Connection, matrix: Matrix, start: int) -> list[YoungHistory]:
    """Return the histories of the young partitions of a matrix, from the column ``start`` on.

    The age of a version is the number of newer partitions that were known when it was measured, so it does not
    depend on the times at which detection runs.
    """
    count = len(matrix.partitions)
    first = max(start, count - MAX_YOUNG_PARTITIONS)
    earlier = max(first - HABIT_PARTITIONS - MAX_YOUNG_PARTITIONS, 0)
    current = matrix.version.max(axis=0, initial=0)
    if first >= count or (current[earlier:] <= 1).all():
        return []
    versions = _read_versions(connection, [int(row["id"]) for row in matrix.partitions])
    histories = []
    for column in range(first, count):
        known = [v for v in versions[column] if v.number <= current[column]]
        if not known:
            continue
        young = known[-1]
        # The rest of a partition that is measured again a day later is not due before that day is over.
        age = count - 1 - column - 1
        if age > young.age:
            young = _Version(MAX_VERSION, age)
        matched = [_version_at(versions[k], young) for k in range(column)]
        if _is_habit([(v, versions[k][-1]) for k, v in enumerate(matched) if v is not None]):
            values, weights = _read_values(connection, matrix, matched)
            histories.append(YoungHistory(column, values, weights))
    return histories


def score_young(
    detector: Detector,
    matrix: Matrix,
    scores: Scores,
    start: int,
    histories: Sequence[YoungHistory],
) -> Scoring[Scores]:
    """Return scores from the column ``start`` on, in which young partitions are compared with their equals.

    A young partition that is complete already is as expected, too: the lower of both scores counts.
    """
    if not histories:
        return scores
    names = ("score", "expected", "lower", "upper", "reason")
    replaced = {name: getattr(scores, name).copy() for name in names}
    for young in histories:
        history = matrix.history.part(slice(0, young.column + 1))
        values, weights = history.values.copy(), history.weights.copy()
        values[:, :-1], weights[:, :-1] = young.values, young.weights
        at_age = replace(history, values=values, weights=weights, empty=None)
        index = slice(young.column - start, young.column - start + 1)
        complete = Scores(*(getattr(scores, name)[:, index] for name in names))
        scored: Scores = yield detector, ScoreRequest(at_age, young.column)
        column = scored.lower_of(complete)
        for name in names:
            replaced[name][:, young.column - start] = getattr(column, name)[:, 0]
    return Scores(**replaced)


def _read_versions(connection: Connection, partitions: Sequence[int]) -> list[list[_Version]]:
    """Return the versions of each partition, in order."""
    m = s.metric.c
    commits: dict[int, dict[int, int]] = {}
    for chunk in chunks(partitions):
        query = (
            sa.select(m.partition_id, m.version, sa.func.min(m.commit_id))
            .where(m.partition_id.in_(chunk), m.version > 0)
            .group_by(m.partition_id, m.version)
        )
        for partition, version, commit in connection.execute(query):
            commits.setdefault(partition, {})[version] = commit
    first_commits = np.array([min(commits.get(n, {0: MAX_VERSION}).values()) for n in partitions])
    return [
        [
            _Version(number, int((first_commits[k + 1 :] <= commit).sum()))
            for number, commit in sorted(commits.get(partition, {}).items())
        ]
        for k, partition in enumerate(partitions)
    ]


def _version_at(versions: Sequence[_Version], young: _Version) -> _Version | None:
    """Return the version of a partition at the age of a young one; None if it was not measured by then.

    Examples
    --------
    >>> versions = [_Version(1, age=0), _Version(2, age=1), _Version(3, age=2)]
    >>> _version_at(versions, _Version(2, age=1)), _version_at([_Version(1, age=30)], versions[0])
    (_Version(number=2, age=1), None)
    """
    known = [v for v in versions if v.age <= young.age and v.number <= young.number]
    return known[-1] if known else None


def _is_habit(pairs: Sequence[tuple[_Version, _Version]]) -> bool:
    """Return whether partitions usually change after an age, by their versions then and now.

    Examples
    --------
    >>> first, last = _Version(1, age=0), _Version(2, age=1)
    >>> _is_habit([(first, last)] * 4), _is_habit([(first, first)] * 9 + [(first, last)] * 5)
    (True, False)
    """
    recent = pairs[-HABIT_PARTITIONS:]
    changed = sum(then != now for then, now in recent)
    return len(recent) >= MIN_HABIT_PARTITIONS and changed >= MIN_CHANGED_SHARE * len(recent)


def _read_values(
    connection: Connection, matrix: Matrix, matched: Sequence[_Version | None]
) -> tuple[Floats, Floats]:
    """Return the values and weights of the matched versions, and NaN elsewhere."""
    m = s.metric.c
    row_of: Mapping[int, int] = {int(row["id"]): i for i, row in enumerate(matrix.series)}
    column_of = {int(matrix.partitions[k]["id"]): k for k in range(len(matched))}
    values = np.full((len(row_of), len(matched)), np.nan)
    weights = values.copy()
    for chunk in chunks([n for n, k in column_of.items() if matched[k] is not None]):
        query = (
            sa.select(m.partition_id, m.series_id, m.version, m.value, m.weight)
            .where(m.partition_id.in_(chunk), m.version > 0)
            .order_by(m.partition_id, m.series_id, m.version)
        )
        for partition, series, version, value, weight in connection.execute(query):
            k, row = column_of[partition], row_of.get(series)
            match = matched[k]
            # A series that did not change in a version keeps its earlier row.
            if row is not None and match is not None and version <= match.number:
                values[row, k] = np.nan if value is None else value
                weights[row, k] = np.nan if weight is None else weight
    return values, weights
