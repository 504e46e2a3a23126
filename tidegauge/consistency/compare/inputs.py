"""Both sides of a comparison, for some days of a join's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import PreconditionError, UnknownNameError
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import literal, one_of, quote
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.consistency.backfill import (
    TIME,
    Backfill,
    TableBackfill,
    backfilled,
    logged_keys,
    unshifted,
)
from tidegauge.consistency.compare.alignment import DATE, AlignedPart, Alignment
from tidegauge.consistency.compare.join import pair_parts
from tidegauge.consistency.compare.measures import PRESENCE
from tidegauge.consistency.configuration import Configuration
from tidegauge.consistency.log.flatten import Flattened
from tidegauge.consistency.log.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.scan.views import Views

SOURCE = "query_source"


@dataclass(frozen=True)
class ComparisonInputs:
    """Logged rows and backfills of a join.

    Attributes
    ----------
    spark : SparkSession
    configuration : Configuration
    flattened : Flattened
    views : Views
        Must stay open until all results have been read.
    days : tuple of str
        The days of the log, as ``2023-01-05``.
    """

    spark: SparkSession
    configuration: Configuration
    flattened: Flattened
    views: Views
    days: tuple[str, ...]

    @property
    def by(self) -> tuple[str, ...]:
        """The columns by which results are partitioned, besides the bucket."""
        return (DATE, *self.configuration.segment_by)

    @cached_property
    def logged(self) -> DataFrame:
        """The logged rows: keys, time, features, and the columns for filtering and partitioning."""
        rows = self.spark.table(self.flattened.table)
        beside = {*self.configuration.segment_by, SOURCE}
        columns = self.flattened.columns
        for name in self.configuration.payload:
            if name not in columns.payload and name not in columns.values:
                raise UnknownNameError("payload", name, [*columns.payload, *columns.values])
        left_out = {*beside, *self.configuration.payload}
        features = [name for name in columns.values if name not in left_out]
        if unknown := sorted(set(self.configuration.segment_by) - set(rows.columns)):
            raise PreconditionError(
                f"{self.flattened.table} has no {unknown[0]!r} to tell results apart by"
            )
        kept = dict.fromkeys([*self.configuration.keys, TIME, DATE, *sorted(beside), *features])
        days = [(day,) for day in self.days]
        return filter_partitions(rows, (DATE,), days).select(*map(quote, kept))

    @cached_property
    def chosen(self) -> DataFrame:
        """The logged rows from the configured query sources."""
        sources = self.configuration.query_sources
        return self.logged.where(one_of(SOURCE, sources)) if sources else self.logged

    def backfill_pairs(self, lag_ms: int = 0) -> DataFrame:
        """Return the (key, timestamp) pairs to backfill."""
        return logged_keys(self.chosen, self.configuration.keys, lag_ms)

    @cached_property
    def parts(self) -> tuple[AlignedPart, ...]:
        """The backfills, each computed once for all group-bys that share it and its lag."""
        whole = self.configuration.whole
        if not self.configuration.group_bys:
            found = self._found(self.configuration.backfill_of(whole), 0, ())
            return (AlignedPart(found, {whole: self._common(found)}),)
        groups: dict[tuple[Backfill, int], dict[str, Sequence[str]]] = {}
        for name, one in self.configuration.group_bys.items():
            of = self.configuration.backfill_of(name)
            groups.setdefault((of, one.lag_ms), {})[name] = one.features
        return tuple(
            AlignedPart(self._found(*of, tuple(some)), some) for of, some in groups.items()
        )

    @cached_property
    def group_bys(self) -> Mapping[str, Sequence[str]]:
        """The features of each group-by, in the order of the configuration."""
        found = {name: some for part in self.parts for name, some in part.group_bys.items()}
        return {name: found[name] for name in (self.configuration.group_bys or found)}

    def paired(self) -> DataFrame:
        """Return the comparison table of the days.

        Raises
        ------
        PreconditionError
            Listing all mismatches.
        """
        conf = self.configuration
        by = dict.fromkeys([*self.by, *([SOURCE] if conf.query_sources else [])])
        features = tuple(name for some in self.group_bys.values() for name in some)
        pairs = Alignment(conf.keys, features, TIME, tuple(by), conf.bucket_minutes, conf.logged_as)
        parts = [self._only(part, features) for part in self.parts]
        found = pair_parts(self.logged, parts, pairs).where(one_of(DATE, self.days))
        if conf.query_sources:
            # Backfill-only rows have no source, so they are missing for any choice of sources.
            chosen = one_of(SOURCE, conf.query_sources)
            found = found.where(f"{chosen} OR {PRESENCE} = 'missing'")
        return found

    def _only(self, part: AlignedPart, features: Collection[str]) -> AlignedPart:
        """Keep keys, time and features: a backfill's own partition columns follow its own times."""
        wanted = {name.casefold() for name in (*self.configuration.keys, TIME, *features)}
        kept = [quote(name) for name in part.data.columns if name.casefold() in wanted]
        return AlignedPart(part.data.select(*kept), part.group_bys)

    def _found(self, backfill: Backfill, lag_ms: int, group_bys: Sequence[str]) -> DataFrame:
        """Return a backfill's features; errors name the group-bys that it is of."""
        whose = f" of {', '.join(map(repr, group_bys))}" if group_bys else ""
        asked = self.backfill_pairs(lag_ms)
        found = self._timed(backfilled(backfill, asked, self.views, whose))
        if isinstance(backfill, TableBackfill):
            found = self._of_days(found)
        names = {name.casefold() for name in found.columns}
        time = self.configuration.time
        lacking = [k for k in self.configuration.keys if k.casefold() not in names]
        lacking += [time] if TIME not in names else []
        if lacking:
            told = " and ".join(map(repr, lacking))
            raise PreconditionError(f"{backfill}{whose} gives no {told}, by which rows are joined")
        found = unshifted(found, lag_ms)
        percent = self.configuration.sample_percent
        return found if percent == 100 else sample(found, self.configuration.keys, percent)

    def _timed(self, found: DataFrame) -> DataFrame:
        """Rename the time column to the log's name."""
        time = self.configuration.time.casefold()
        if time == TIME or time not in {name.casefold() for name in found.columns}:
            return found
        kept = [quote(name) for name in found.columns if name.casefold() not in {TIME, time}]
        return found.selectExpr(*kept, f"{quote(self.configuration.time)} AS {TIME}")

    def _of_days(self, found: DataFrame) -> DataFrame:
        """Filter a table to rows that may belong to the days.

        Rows are filtered by ds, with a margin of one day on either side, or else by time.
        """
        first, last = (date.fromisoformat(day) for day in (min(self.days), max(self.days)))
        low, high = first - timedelta(days=1), last + timedelta(days=1)
        schema = Schema.from_frame(found)
        names = {name.casefold() for name in schema.names}
        of_these = f"ds >= {literal(str(low))} AND ds <= {literal(str(high))}"
        kind = schema.field(DATE).kind if DATE in names else ""
        if kind == "date":
            return found.where(of_these)
        if kind == "string":
            # Days in another format, such as 20230105, are not comparable and are kept.
            return found.where(f"{of_these} OR ds NOT RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'")
        if TIME not in names:
            return found  # rejected later, along with other missing columns
        field = schema.field(TIME)
        start, end = ((day - date(1970, 1, 1)).days * 86_400_000 for day in (low, high))
        if field.kind in INTEGRAL:
            return found.where(f"{field.sql} >= {start}L AND {field.sql} < {end}L")
        if field.kind == "timestamp":
            return found.where(
                f"{field.sql} >= timestamp_millis({start}L) AND {field.sql} < timestamp_millis({end}L)"
            )
        return found

    def _common(self, found: DataFrame) -> tuple[str, ...]:
        """Return the features that both sides have, in the backfill's order."""
        conf = self.configuration
        beside = (*conf.keys, TIME, *self.by, SOURCE, *conf.payload)
        taken = {name.casefold() for name in beside}
        served = {name.casefold() for name in self.logged.columns}
        return tuple(
            name
            for name in found.columns
            if name.casefold() not in taken and conf.logged_as.get(name, name).casefold() in served
        )
