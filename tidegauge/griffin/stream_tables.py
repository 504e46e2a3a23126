"""Streaming jobs: measure a stream window by window with the batch engine."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.partitions import TMST, Partition
from tidegauge.griffin.config import ConnectorConfig, Env, Job, RuleConfig
from tidegauge.griffin.dsl.nodes import Profiling
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.execution.engine import Engine
from tidegauge.griffin.execution.loader import Loader
from tidegauge.griffin.execution.measuring import Round
from tidegauge.griffin.execution.preparation import has_text
from tidegauge.griffin.results import GriffinResult, combine_results
from tidegauge.griffin.streaming.run import is_stream, run_stream
from tidegauge.repository.testing.memory import MemoryRepository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.core.segments import Values
    from tidegauge.analyzers.runs.recording import Recorder


class StreamingJob:
    """A running streaming job.

    Parameters
    ----------
    job : Job
    env : Env
    engine : Engine
        The engine; without a repository, its results are kept in memory while the job runs.
    """

    def __init__(self, job: Job, env: Env, engine: Engine) -> None:
        self.job, self.env, self.engine = job, env, engine
        if engine.repository is None:
            engine.repository = MemoryRepository()
        self.repository: Recorder = engine.repository
        self.loader = Loader(engine.spark, 0)

    def rounds(self, *, once: bool) -> Iterator[GriffinResult]:
        """Measure round by round, and yield the result of each; without new data it is empty."""
        for rule in self.job.rules:  # report invalid rules before a stream starts
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
            yield combine_results([told, *report.results])

    def _prepare(self, frame: DataFrame, connector: ConnectorConfig) -> DataFrame:
        return self.loader.prepared(frame, connector)

    def _tables(self) -> Mapping[str, DataFrame]:
        self.loader.timestamp = round(time.time() * 1000)
        return {s.name: self.loader.load(s) for s in self.job.sources if not is_stream(s)}

    def _measure(
        self, frames: Mapping[str, DataFrame], prints: Mapping[Partition, str], at: int
    ) -> GriffinResult:
        """Measure windows; frames may hold further windows, in which rows look for their matches."""

        def asked(values: Values) -> Partition | None:
            partition = Partition((TMST,), values)
            return partition if partition in prints else None

        self.engine.holds, self.loader = self.loader, Loader(self.engine.spark, at)
        return self.engine.run(Round(frames, at, (TMST,), prints, asked, only=True))


def sides(job: Job) -> tuple[Collection[str] | None, Collection[str] | None]:
    """Return the measured and the looked-up sources; None for all, if rules do not determine them.

    Examples
    --------
    >>> from tidegauge.griffin.config import RuleConfig, SourceConfig
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
                f"{rule.name}: dsc-update has no effect in a stream: windows are stored as a whole and measured again"
                " when new rows arrive, until they are older than time.range"
            )
