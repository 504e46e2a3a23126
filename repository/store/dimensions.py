"""Dimension tables: lookup and creation of the integer ids that key facts.

A series belongs to an analyzer or a substitute: `Recorded` for series that users record, `Watched`
for series that detectors measure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import DatasetMismatchError, SuiteError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.privacy import PARTITIONS
from tidegauge.analyzers.core.registry import (
    Description,
    Registry,
    canonical_json,
    check_choice,
    key_of,
)
from tidegauge.analyzers.runs.ledger import RunSpec, is_same_source, mismatch_text
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import insert_missing
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.analyzers.core.metric import Metric


RECORDED: Registry[Recorded] = Registry("recorded metric")


@RECORDED.add
@dataclass(frozen=True, repr=False)
class Recorded(Description):
    """A metric recorded by a user, not measured; it replaces the analyzer of a series.

    Attributes
    ----------
    metric : str
        The metric's name.
    instance : str
    entity : str
        ``Dataset``, ``Column`` or ``Multicolumn``.
    scale : str
        The scale on which detectors compare its values: ``count``, ``ratio``,
        ``positive``, ``signed``, ``distance``, ``time`` or ``flag``.
    where : str, optional
        The filter of the rows that the metric describes.

    Examples
    --------
    >>> RECORDED.parse("Recorded('revenue', scale='positive')")
    Recorded('revenue', scale='positive')
    """

    metric: str
    instance: str = field(default="*", kw_only=True)
    entity: str = field(default="Dataset", kw_only=True)
    scale: str = field(default="signed", kw_only=True)
    where: str | None = field(default=None, kw_only=True, metadata={"since": "0.2"})

    def check_parameters(self) -> None:
        """Validate ``entity`` and ``scale``."""
        check_choice(self, "entity", [e.value for e in Entity])
        check_choice(self, "scale", [x.value for x in Scale])

    def canonical(self) -> str:
        """Return canonical JSON of the name with all options."""
        return canonical_json({"analyzer": type(self).__name__, **self.options()})

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of the values."""
        return Scale(self.scale)


@dataclass(frozen=True)
class Watched:
    """A detector's metric of whole partitions; it replaces the analyzer of a series.

    Attributes
    ----------
    detector : str
        The detector's text.
    scale : str
        The scale of the values.
    """

    where: ClassVar[str | None] = None

    detector: str
    scale: str

    def __repr__(self) -> str:
        return self.detector

    @property
    def metric(self) -> str:
        """The metric's name: the name of the detector."""
        return self.detector.partition("(")[0]

    def canonical(self) -> str:
        """Return canonical JSON with the detector's text."""
        return canonical_json({"analyzer": type(self).__name__, "detector": self.detector})

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of the values."""
        return Scale(self.scale)


MAX_NAME_LENGTH = 1000
"""In characters. Names of partitions, segments and metrics may be longer."""
UNBOUND_KEYS = canonical_json(None)
"""The keys of a dataset before its first measurement; the first run sets them."""

SeriesKey = tuple[int, str, str]
"""The analyzer's id, the metric's name and instance."""


def visible(text: str) -> str:
    r"""Return text that every database can store: PostgreSQL has no zero character.

    Examples
    --------
    >>> print(visible("a" + chr(0)))
    a\x00
    """
    return text.replace("\0", "\\x00")


class FactMeasure(Protocol):
    """The source of a series: an analyzer, or a substitute such as `Recorded`."""

    @property
    def where(self) -> str | None:
        """The row filter; None if there is none."""

    def canonical(self) -> str:
        """Return canonical JSON with all options."""

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of one flattened metric."""


class Dimensions:
    """The dimensions of one dataset, read lazily and extended within a transaction."""

    def __init__(self, connection: Connection, dataset: int) -> None:
        self.connection, self.dataset = connection, dataset

    def statistics(self, pairs: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """Return the id for each segment and canonical statistic, adding missing ones."""
        keyed = {(visible(seg), key_of(canonical)): (seg, canonical) for seg, canonical in pairs}
        rows = [
            (self.dataset, segment, key_of(segment), key, keyed[segment, key][1])
            for segment, key in sorted(keyed.keys() - self._statistics.keys())
        ]
        columns = ("dataset_id", "segment", "segment_key", "key", "canonical")
        self._add(s.statistic, columns, rows, "_statistics")
        return {pair: self._statistics[key] for key, pair in keyed.items()}

    def analyzers(
        self,
        measures: Mapping[tuple[str, str], FactMeasure],
        statistics: Mapping[tuple[str, str], int | None],
    ) -> Mapping[tuple[str, str], int]:
        """Return the id for each segment and analyzer key, adding missing ones.

        ``statistics`` has the same keys. If an analyzer's state has changed, its statistic is
        updated. Otherwise, roll-ups would look for states that are no longer stored.
        """
        keyed = {(visible(segment), key): (segment, key) for segment, key in measures}
        for stored_key in keyed.keys() & self._analyzers.keys():
            new = statistics[keyed[stored_key]]
            number, previous = self._analyzers[stored_key]
            if new is not None and previous is not None and new != previous:
                changed = sa.update(s.analyzer).where(s.analyzer.c.id == number)
                self.connection.execute(changed.values(statistic_id=new))
                self._analyzers[stored_key] = number, new
        rows = []
        for segment, key in sorted(keyed.keys() - self._analyzers.keys()):
            analyzer = measures[keyed[segment, key]]
            description = (type(analyzer).__name__, repr(analyzer), analyzer.where)
            statistic = statistics[keyed[segment, key]]
            rows.append(
                (
                    self.dataset,
                    segment,
                    key_of(segment),
                    key,
                    analyzer.canonical(),
                    *description,
                    statistic,
                )
            )
        columns = (
            "dataset_id",
            "segment",
            "segment_key",
            "key",
            "canonical",
            "kind",
            "text",
            "filter",
            "statistic_id",
        )
        self._add(s.analyzer, columns, rows, "_analyzers")
        return {pair: self._analyzers[key][0] for key, pair in keyed.items()}

    def series(
        self, measures: Mapping[SeriesKey, tuple[FactMeasure, Metric[float]]]
    ) -> Mapping[SeriesKey, int]:
        """Return the id for each analyzer id, metric name and instance, adding missing ones.

        If an earlier version of the analyzer gave another scale, the stored scale is corrected.
        """
        keyed = {(a, visible(n), visible(i)): (a, n, i) for a, n, i in measures}
        rows = []
        for key in sorted(keyed.keys() - self._series.keys()):
            analyzer, metric = measures[keyed[key]]
            analyzer_id, name, instance = key
            unique = key_of(canonical_json([name, instance]))
            scale = analyzer.scale_of(metric.name).value
            rows.append((analyzer_id, unique, metric.entity.value, instance, name, scale))
        columns = ("analyzer_id", "key", "entity", "instance", "name", "scale")
        self._add(s.series, columns, rows, "_series")
        for key, pair in keyed.items():
            analyzer, metric = measures[pair]
            number, stored = self._series[key]
            if (scale := analyzer.scale_of(metric.name).value) != stored:
                change = sa.update(s.series).where(s.series.c.id == number)
                self.connection.execute(change.values(scale=scale))
                self._series[key] = number, scale
        return {pair: self._series[key][0] for key, pair in keyed.items()}

    def _add(self, table: sa.Table, columns: tuple[str, ...], rows: list[Any], cache: str) -> None:
        if rows:
            insert_missing(self.connection, table, columns, rows)
            self.__dict__.pop(cache)  # invalidates the cached property

    @cached_property
    def _statistics(self) -> dict[tuple[str, str], int]:
        statistic = s.statistic.c
        query = sa.select(statistic.segment, statistic.key, statistic.id).where(
            statistic.dataset_id == self.dataset
        )
        return {(row[0], row[1]): row[2] for row in self.connection.execute(query)}

    @cached_property
    def _analyzers(self) -> dict[tuple[str, str], tuple[int, int | None]]:
        """Ids of analyzers and of their statistics, by segment and key."""
        analyzer = s.analyzer.c
        query = sa.select(analyzer.segment, analyzer.key, analyzer.id, analyzer.statistic_id).where(
            analyzer.dataset_id == self.dataset
        )
        return {(row[0], row[1]): (row[2], row[3]) for row in self.connection.execute(query)}

    @cached_property
    def _series(self) -> dict[SeriesKey, tuple[int, str]]:
        """Ids and scales of series."""
        series = s.series.c
        query = (
            sa.select(series.analyzer_id, series.name, series.instance, series.id, series.scale)
            .join_from(s.series, s.analyzer)
            .where(s.analyzer.c.dataset_id == self.dataset)
        )
        return {
            (row[0], row[1], row[2]): (row[3], row[4]) for row in self.connection.execute(query)
        }


def dataset_for(connection: Connection, spec: RunSpec) -> int:
    """Return the id of a run's dataset; create it if new, else check its table and keys.

    All data stored by partition passes through this function, so it refuses private partition keys.
    """
    _check_name(spec.dataset)
    privacy_settings().refuse_names(spec.keys, PARTITIONS)
    dataset = s.dataset.c
    row = connection.execute(
        sa.select(dataset.id, dataset.source, dataset["keys"]).where(dataset.name == spec.dataset)
    ).one_or_none()
    keys = canonical_json(list(spec.keys))
    if row is None:
        return _add_dataset(connection, spec.dataset, spec.source, keys)
    if not is_same_source(row.source, spec.source) and not spec.rename:
        raise DatasetMismatchError(mismatch_text(spec, row.source))
    if row[2] not in {keys, UNBOUND_KEYS}:
        msg = (
            f"dataset {spec.dataset!r} was measured by {row[2]}, not by {keys}: its partitions would"
            " not be comparable. To continue its history, write partition_by:"
            f" [{', '.join(json.loads(row[2]))}] in the suite; to start a new history, choose another name"
        )
        raise DatasetMismatchError(msg)
    source = spec.source or row.source
    if (source, keys) != (row.source, row[2]):
        change = sa.update(s.dataset).where(dataset.id == row.id).values(source=source, keys=keys)
        connection.execute(change)
    return int(row.id)


def dataset_named(connection: Connection, name: str) -> int:
    """Return the id of a dataset; create it if new, bound to no table and no partitioning yet."""
    _check_name(name)
    dataset = s.dataset.c
    number = connection.execute(
        sa.select(dataset.id).where(dataset.name == name)
    ).scalar_one_or_none()
    return _add_dataset(connection, name, None, UNBOUND_KEYS) if number is None else int(number)


def _check_name(name: str) -> None:
    if "\0" in name:
        msg = f"a dataset's name must not contain a null character: {name!r}"
        raise SuiteError(msg)
    if len(name) > MAX_NAME_LENGTH:
        msg = f"a dataset's name has at most {MAX_NAME_LENGTH} characters, not {len(name)}"
        raise SuiteError(msg)


def _add_dataset(connection: Connection, name: str, source: str | None, keys: str) -> int:
    now = datetime.now(UTC)
    values = {"name": name, "source": source, "keys": keys, "created_at": now}
    insert = sa.insert(s.dataset).values(values).returning(s.dataset.c.id)
    return int(connection.execute(insert).scalar_one())


def dataset_of(connection: Connection, run: int) -> int:
    """Return the id of a run's dataset."""
    query = sa.select(s.run.c.dataset_id).where(s.run.c.id == run)
    return int(connection.execute(query).scalar_one())
