"""Streaming jobs: what flows in is measured by the engine that measures batches, window by window."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from analyzers.griffin.config import ConnectorConfig, Env, Job, RuleConfig
from analyzers.griffin.engine import Engine
from analyzers.griffin.loading import Loader
from analyzers.griffin.measuring import Round
from analyzers.griffin.nodes import Profiling
from analyzers.griffin.parsing import parse
from analyzers.griffin.prepared import has_text
from analyzers.griffin.results import GriffinResult, together
from analyzers.griffin.streaming.run import is_stream, run_stream
from analyzers.partitions import TMST, Partition
from repository.memory import MemoryRepository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.griffin.keeping import Recorder
    from analyzers.segments import Values


class Stream:
    """A streaming job on its way.

    Parameters
    ----------
    job : Job
    env : Env
    engine : Engine
        Without a repository, what was measured is remembered as long as this runs.
    """

    def __init__(self, job: Job, env: Env, engine: Engine) -> None:
        self.job, self.env, self.engine = job, env, engine
        if engine.repository is None:
            engine.repository = MemoryRepository()
        self.repository: Recorder = engine.repository
        self.loader = Loader(engine.spark, 0)

    def rounds(self, *, once: bool) -> Iterator[GriffinResult]:
        """Measure round by round, and yield what each found; a round without news finds nothing."""
        for rule in self.job.rules:  # what cannot be is told before a stream begins
            if rule.dsl_type == "griffin-dsl" and has_text(rule):
                parse(rule.rule, rule.dq_type or "", rule.name)
        measured, met = sides(self.job)
        reports = run_stream(
            self.job,
            self.env,
            self.engine.spark,
            self._measure,
            lambda: self.repository.store.ledger(self.engine.dataset),
            prepare=self._prepare,
            tables=self._tables,
            measured=measured,
            met=met,
            once=once,
        )
        for report in reports:
            notices = (*_unneeded(self.job), *report.notices)
            told = GriffinResult(self.engine.dataset, (), notices=notices)
            yield together([told, *report.results])

    def _prepare(self, frame: DataFrame, connector: ConnectorConfig) -> DataFrame:
        return self.loader.prepared(frame, connector)

    def _tables(self) -> Mapping[str, DataFrame]:
        self.loader.timestamp = round(time.time() * 1000)
        return {s.name: self.loader.load(s) for s in self.job.sources if not is_stream(s)}

    def _measure(
        self, frames: Mapping[str, DataFrame], prints: Mapping[Partition, str], at: int
    ) -> GriffinResult:
        """Measure windows; frames may hold others, in which rows find theirs."""

        def asked(values: Values) -> Partition | None:
            partition = Partition((TMST,), values)
            return partition if partition in prints else None

        self.engine.holds, self.loader = self.loader, Loader(self.engine.spark, at)
        return self.engine.run(Round(frames, at, (TMST,), prints, asked, only=True))


def sides(job: Job) -> tuple[Collection[str] | None, Collection[str] | None]:
    """Return the sources that rules measure, and those in which they look; None for all, where SQL may say it.

    Examples
    --------
    >>> from analyzers.griffin.config import RuleConfig, SourceConfig
    >>> rule = RuleConfig(1, "griffin-dsl", "a.id = b.id", "accuracy")
    >>> sides(Job("j", sources=(SourceConfig("a"), SourceConfig("b")), rules=(rule,)))
    ({'a'}, {'b'})
    """
    names = {source.name.casefold(): source.name for source in job.sources}
    first = job.sources[0].name
    measured: set[str] = set()
    met: set[str] = set()
    for rule in job.rules:
        source = str(rule.details.get("source") or first).casefold()
        target = str(rule.details.get("target") or "").casefold()
        if rule.dsl_type != "griffin-dsl" or source not in names or {target} - {"", *names}:
            return None, None
        if rule.dq_type == "profiling" and _names_a_table(rule):
            return None, None
        if not target and rule.dq_type == "accuracy":
            target = next((name for name in names if name != source), "")
        measured.add(names[source])
        met |= {names[target]} if target else set()
    return measured, met


def _names_a_table(rule: RuleConfig) -> bool:
    query = parse(rule.rule, "profiling", rule.name)
    return isinstance(query, Profiling) and query.table is not None


def _unneeded(job: Job) -> Iterator[str]:
    for rule in job.rules:
        if rule.output("dsc-update") is not None:
            yield (
                f"{rule.name}: dsc-update has no effect in a stream: windows are kept whole, and measured again"
                " when rows come, until they are older than time.range"
            )
