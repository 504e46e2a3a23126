"""Spark job that measures pairs of numbers in Python workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.scan.capabilities import to_arrow
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX, Answers, ScanJob
from tidegauge.consistency.compare.measures import MATCHED
from tidegauge.consistency.compare.number_pairs import COUNTS, OfPairs
from tidegauge.consistency.compare.number_pairs_worker import PARTIAL, pair_merger, pair_scanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class NumberPairs(ScanJob):
    """Statistics of pairs of numbers over matched rows.

    Each task makes partial results of all groups, which are shuffled by group and merged, so that the
    driver receives one of each, however many tasks there are.
    """

    requests: tuple[OfPairs, ...]
    kind: ClassVar[str] = "pairs of numbers"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Compute all statistics by group."""
        numbers = {of: i for i, of in enumerate(dict.fromkeys(one.of for one in self.requests))}
        columns = dict.fromkeys(sql for of in numbers for sql in (of.logged, of.backfilled))
        at = {sql: i for i, sql in enumerate(columns)}
        values = [f"{sql} AS {COLUMN_PREFIX}v{i}" for sql, i in at.items()]
        keyed = groups.with_keys(data.where(MATCHED), *values, as_text=True)
        keyed = keyed.select(*groups.names, *(f"{COLUMN_PREFIX}v{i}" for i in at.values()))
        wanted = [(of.kind, at[of.logged], at[of.backfilled], of.options) for of in numbers]
        scanner = pair_scanner(len(groups.by), len(groups.segments), wanted)
        partial = keyed.mapInArrow(scanner, PARTIAL)
        merged = partial.repartition("key", "statistic").mapInArrow(pair_merger(), PARTIAL)
        sketches = {numbers[one.of]: one for one in self.requests if one.of.kind not in COUNTS}
        counted = [one for one in self.requests if one.of.kind in COUNTS]
        answers: Answers = {request: {} for request in self.requests}
        rows = (column.to_pylist() for column in to_arrow(merged).columns)
        for texts, number, counts, sums, sketch in zip(*rows, strict=True):
            key = groups.key_of(texts)
            if number is not None:
                answers[sketches[number]][key] = [sketch]
                continue
            for request in counted:
                i, beyond = numbers[request.of], request.place - COUNTS[request.of.kind]
                cell = counts[5 * i + request.place] if beyond < 0 else sums[3 * i + beyond]
                answers[request][key] = cell
        return answers
