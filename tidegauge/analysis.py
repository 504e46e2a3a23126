"""Measuring a table into a repository: `analyze`, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from analyzers.display import Markup, Rows, card, heading, marked, note, pairs, sentence, table
from analyzers.errors import MetricError, SourceError
from analyzers.incremental import WAIT_SECONDS, RunReport, Segmentation, run_incremental
from analyzers.ledger import Change, RunSpec
from analyzers.rules.result import CheckResult
from analyzers.sources import FrameSource, PathSource, Source
from analyzers.tables import open_table
from tidegauge.judging import judge_run
from tidegauge.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from analyzers.analyzer import Analyzer
    from analyzers.progress import Progress
    from repository.repository import Repository
    from tidegauge.suite import Suite


@dataclass(frozen=True)
class Run:
    """What `analyze` did, and the way to what it measured.

    Attributes
    ----------
    report : RunReport
    repository : Repository
    checks : mapping of str to CheckResult
        What the policies of the suite's `DQM` say of each partition that was scanned; of those of the last
        run that scanned any, if this one did not.
    """

    report: RunReport
    repository: Repository
    checks: Mapping[str, CheckResult] = field(default_factory=dict)

    @property
    def id(self) -> int:
        """The run's id, which ``as_of`` takes."""
        return self.report.run

    @property
    def dataset(self) -> str:
        """The dataset."""
        return self.report.dataset

    @property
    def status(self) -> str:
        """How the run ended."""
        return str(self.report.status)

    @property
    def changes(self) -> Mapping[str, Change]:
        """What became of each partition that was scanned."""
        return self.report.changes

    @property
    def failed(self) -> Mapping[Analyzer[Any, Any], MetricError]:
        """The analyzers that failed somewhere, with their first error."""
        return self.report.failed

    @property
    def passed(self) -> bool:
        """Whether the policies hold in all of them."""
        return all(check.passed for check in self.checks.values())

    def metrics(self) -> pd.DataFrame:
        """Return what this run stored, as `Repository.metrics` returns it."""
        frame = self.repository.metrics(self.dataset, as_of=self.id)
        return frame[frame["run_id"] == self.id].reset_index(drop=True)

    def __str__(self) -> str:
        """Return one line for a log."""
        words = [f"{self.dataset}: {self.report.scanned} partitions scanned"]
        for change in Change:
            count = sum(c is change for c in self.changes.values())
            if count:
                words.append(f"{count} {change}")
        words.append(f"{self.report.skipped} skipped")
        if self.report.gone:
            words.append(f"{len(self.report.gone)} gone")
        if not self.passed:
            bad = sum(not check.passed for check in self.checks.values())
            words.append(f"policies fail in {bad}")
        if self.failed:
            words.append(f"{len(self.failed)} analyzers failed")
        return ", ".join(words)

    def _repr_html_(self) -> str:
        """Return a small table for a notebook; all text in it is escaped."""
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup(f"Run {self.id} of"), self.dataset, Markup(marked(self.status)))
        became = [
            (str(change), sum(c is change for c in self.changes.values())) for change in Change
        ]
        counts = [("scanned", self.report.scanned), *((k, n) for k, n in became if n)]
        yield pairs(
            [*counts, ("skipped", self.report.skipped), ("gone", len(self.report.gone))], width
        )
        changed = [(name, str(c)) for name, c in self.changes.items() if c is not Change.UNCHANGED]
        changed += [(name, "gone") for name in self.report.gone]
        if changed:
            yield table(
                ["partition", "is"], Rows.of(reversed(changed), most // 4, len(changed)), width
            )
        failed = [
            (repr(analyzer), sentence(error, 4 * width)) for analyzer, error in self.failed.items()
        ]
        if failed:
            yield table(["failed analyzer", "why"], Rows.of(failed, most // 2), width)
        refused = [(name, str(check)) for name, check in self.checks.items() if not check.passed]
        if refused:
            yield table(["partition", "check"], Rows.of(reversed(refused), most // 4), 2 * width)
        yield note(
            "run.metrics(): what it stored; run.repository.detect(run.dataset): what stands out"
        )


def analyze(
    table: str | DataFrame | Source,
    suite: Suite,
    *,
    repository: Repository,
    partitions: str | Sequence[str] = "new",
    tags: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    format: str = "parquet",  # noqa: A002 - Spark's word for it
    options: Mapping[str, str] | None = None,
    rename: bool = False,
    resegment: bool = False,
    progress: Progress | None = None,
    wait: float = WAIT_SECONDS,
) -> Run:
    """Measure what is new in a table, and remember it.

    Parameters
    ----------
    table : str, DataFrame or Source
        A table's name, a folder (anything with a slash), a DataFrame, or whatever lists its own partitions.
    suite : Suite
    repository : Repository
    partitions : str or sequence of str
        ``new``: new and changed partitions, and for the others the analyzers they lack. ``all``.
        Conditions on partition keys, as in ``ds>=2013-02-01 and hr in (07, 08)``. Or names.
    tags : mapping, optional
        Tags of the run, beside the suite's.
    spark : SparkSession, optional
        The active one if not given.
    format, options
        How to read a folder.
    rename : bool
        Whether the dataset's history may go on with another table.
    resegment : bool
        Whether to choose anew which values are segments, by what the scanned partitions hold now. It
        measures the segments of all partitions again; the one of all other values begins a new series.
    progress : Progress, optional
        A bar that suits a terminal or notebook if not given.
    wait : float
        For how many seconds to wait while another run measures the dataset. A run that was killed is
        waited for a minute at most, and on its own machine not at all.

    Returns
    -------
    Run

    Raises
    ------
    SourceError
        If the table cannot be read, or not by the suite's partitions.
    DatasetMismatchError
        If the dataset's history is of another table.
    LeaseError
        If another run still measures the dataset after the wait.
    """
    source = open_source(table, suite, spark, format, options)
    spec = RunSpec(
        dataset=suite.dataset,
        source=source.name,
        keys=source.keys,
        suite=suite.canonical(),
        selection=partitions if isinstance(partitions, str) else ", ".join(partitions),
        tags={**suite.tags, **{str(k): str(v) for k, v in (tags or {}).items()}},
        rename=rename,
    )
    report = run_incremental(
        source,
        spec,
        suite.measured,
        repository.store,
        partitions,
        suite.time_format,
        progress_bar() if progress is None else progress,
        segmentation=Segmentation(tuple(map(tuple, suite.segments)), suite.max_segments, resegment),
        wait=wait,
    )
    if report.changes:
        repository.roll_up(suite.dataset, suite.windows, run=report.run)
    return Run(report, repository, judge_run(repository, suite.dataset, suite.dqm, report))


def open_source(
    table: str | DataFrame | Source,
    suite: Suite,
    spark: SparkSession | None = None,
    format: str = "parquet",  # noqa: A002
    options: Mapping[str, str] | None = None,
) -> Source:
    """Return the source for a table's name, a folder or a DataFrame."""
    if not isinstance(table, str):
        if hasattr(type(table), "list_partitions"):
            return cast("Source", table)
        return FrameSource(cast("DataFrame", table), tuple(suite.partition_by or ()))
    session = spark or _active_session()
    if "/" in table:
        return PathSource(session, table, suite.partition_by, format, options or {})  # type: ignore[arg-type]
    return open_table(session, table, suite.partition_by)


def _active_session() -> SparkSession:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "measuring needs Spark: pip install 'tidegauge[spark]'"
        raise SourceError(msg) from error
    session = SparkSession.getActiveSession()
    if session is None:
        msg = "there is no active Spark session; pass spark=, or start one: tg.spark_session()"
        raise SourceError(msg)
    return session
