"""Streaming jobs: what flows in is measured by the engine that measures batches, window by window."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from analyzers.griffin.config import ConnectorConfig, Env, Job
from analyzers.griffin.engine import Engine
from analyzers.griffin.loading import Loader
from analyzers.griffin.measuring import Round
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
    names = [source.name for source in job.sources]
    measured, met = set(), set()
    for rule in job.rules:
        if rule.dsl_type != "griffin-dsl":
            return None, None
        source = str(rule.details.get("source") or names[0])
        target = rule.details.get("target")
        if target is None and rule.dq_type == "accuracy":
            target = next((name for name in names if name != source), None)
        measured.add(source)
        met |= {str(target)} if target else set()
    return measured, met


def _unneeded(job: Job) -> Iterator[str]:
    for rule in job.rules:
        if rule.output("dsc-update") is not None:
            yield (
                f"{rule.name}: dsc-update has no effect in a stream: windows are kept whole, and measured again"
                " when rows come, until they are older than time.range"
            )
