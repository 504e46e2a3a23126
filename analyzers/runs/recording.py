"""Lifecycle of a run: hold the lease, open the run, commit batches, close the run with its status.

A run reports its progress to a `Progress`; `tidegauge.display.progress` has the progress bars.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidegauge.analyzers.columnar.engines import Route
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    DatasetMismatchError,
    MetricError,
    NoSuchTableError,
    RepositoryError,
    RetiredDatasetError,
    SuiteError,
)
from tidegauge.analyzers.core.formatting import hide_secrets, plural
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import Partition, SegmentSet
from tidegauge.analyzers.runs.ledger import (
    Change,
    Decision,
    LedgerEntry,
    MeasuredPartition,
    Measurement,
    RunSpec,
    RunStatus,
    RunStore,
    VerdictStore,
)
from tidegauge.analyzers.scan.scan import Outcome, metric_of


def measured_states(
    outcomes: Mapping[AnyAnalyzer, Outcome],
    analyzers: Iterable[AnyAnalyzer],
    segment: str = "",
    segments: SegmentSet | None = None,
) -> list[Measurement]:
    """Return the measurements of a partition, or of one of its segments, with their metrics.

    Parameters
    ----------
    outcomes : mapping of Analyzer to Success or Failure
        The state or the error of each analyzer.
    analyzers : iterable of Analyzer
        The analyzers whose outcomes are stored.
    segment : str
        The segment's name by column values; empty for all rows.
    segments : SegmentSet or None
        The set that the segment belongs to.
    """
    return [
        Measurement(a, outcomes[a], metric_of(a, outcomes[a]), segment, segments) for a in analyzers
    ]


class Progress(Protocol):
    """Protocol for observing the progress of one run."""

    def start(self, dataset: str, partitions: int) -> None:
        """Start a run that will measure this number of partitions."""

    def batch(self, session: Any, partitions: int) -> AbstractContextManager[None]:
        """Return a context in which one batch is measured and committed in this Spark session."""

    def close(self) -> None:
        """End the run."""


class Silent:
    """Progress that reports nothing."""

    def start(self, dataset: str, partitions: int) -> None:
        """Do nothing."""

    def batch(self, session: Any, partitions: int) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing."""


def describe_routes(routes: Mapping[str, int]) -> str:
    """Return numbers of measurements by route in words, the cheapest route first; empty if there are none.

    Examples
    --------
    >>> describe_routes({"metadata": 1})
    '1 of 1 measurement from metadata'
    """
    total = plural(sum(routes.values()), "measurement")
    counts = [(routes.get(route, 0), str(route)) for route in Route]
    words = [f"{count:,} from {route}" for count, route in counts if count]
    return ", ".join(words).replace(" from", f" of {total} from", 1)


WAIT_SECONDS = 3600.0
"""Time that a run waits for another run of the same dataset."""


@dataclass(frozen=True)
class RunReport:
    """Outcome of a run.

    Attributes
    ----------
    run : int
        The run's id in the repository.
    dataset : str
        Name of the dataset.
    status : RunStatus
        Status of the run.
    changes : mapping of str to Change
        The change of each scanned partition.
    skipped : int
        Number of partitions that exist and were not scanned.
    uncompared : int
        Number of skipped partitions that were measured before but have no files to compare, so that
        changes go unnoticed.
    gone : tuple of str
        Partitions in the ledger that the table no longer has.
    failed : mapping of Analyzer to MetricError
        Analyzers that failed in a partition, with the first error. An unresolved failure of an earlier run is
        included if its partition was selected in this run: see `StandingError`.
    unreadable : mapping of str to str
        Partitions with files that cannot be read, and the reason. They are not in the ledger, so the next
        run tries them again.
    routes : mapping of str to int
        Number of measurements by route: ``the observed write``, ``metadata``, ``a columnar scan``, ``a
        columnar scan in Spark's tasks`` or ``Spark SQL``. An analyzer on a partition is one measurement.
    """

    run: int
    dataset: str
    status: RunStatus
    changes: Mapping[str, Change] = field(default_factory=dict)
    skipped: int = 0
    gone: tuple[str, ...] = ()
    failed: Mapping[AnyAnalyzer, MetricError] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    uncompared: int = 0
    routes: Mapping[str, int] = field(default_factory=dict)

    @property
    def scanned(self) -> int:
        """The number of partitions scanned."""
        return len(self.changes)

    @property
    def routes_text(self) -> str:
        """The numbers of measurements by route, in words; empty if there are none.

        Examples
        --------
        >>> routes = {"Spark SQL": 1, "metadata": 31, "a columnar scan": 8}
        >>> RunReport(1, "orders", RunStatus.COMPLETE, routes=routes).routes_text
        '31 of 40 measurements from metadata, 8 from a columnar scan, 1 from Spark SQL'
        """
        return describe_routes(self.routes)

    @property
    def counts(self) -> dict[str, int]:
        """The counts that a repository stores with the run."""
        return {
            "measured": self.scanned,
            "skipped": self.skipped,
            "failed": len(self.failed),
            "gone": len(self.gone),
        }


class Recorder(VerdictStore, Protocol):
    """The part of a repository that runs write to."""

    @property
    def store(self) -> RunStore:
        """The store of runs, batches and the ledger."""

    def record(
        self,
        dataset: str,
        name: str,
        value: Mapping[Partition, float],
        *,
        instance: str = "*",
        segment: str = "",
    ) -> int:
        """Store the values of a custom metric, one per partition."""


@dataclass
class Recording:
    """An open run.

    Attributes
    ----------
    store : RunStore
        The store that the run writes to.
    report : RunReport
        The report so far; its counts are stored when the run is closed.
    errors : list of str
        Failures that did not stop the run. If there are any, the run is closed as failed.
    """

    store: RunStore
    report: RunReport
    errors: list[str] = field(default_factory=list)

    @property
    def run(self) -> int:
        """The run's id."""
        return self.report.run

    def ledger(self) -> Mapping[str, LedgerEntry]:
        """Return the ledger entry of each partition of the dataset, by name."""
        return self.store.ledger(self.report.dataset)

    def leave_out(self, unreadable: Mapping[Partition, str]) -> None:
        """Report partitions that cannot be read. If there are any, the run is closed as failed."""
        reasons = {partition.name: reason for partition, reason in unreadable.items()}
        self.errors += [
            f"{name or 'the table'} cannot be read: {reason}" for name, reason in reasons.items()
        ]
        self.report = replace(self.report, unreadable={**self.report.unreadable, **reasons})

    def commit(self, batch: Sequence[MeasuredPartition]) -> list[Decision]:
        """Commit a batch atomically, and add its changes and failures to the report."""
        decisions = self.store.commit_batch(self.run, batch)
        names = [measured.partition.name for measured in batch]
        changes = dict(zip(names, (d.change for d in decisions), strict=True))
        failed = dict(self.report.failed)
        for measurement in (m for measured in batch for m in measured.measurements):
            if isinstance(measurement.outcome, Failure):
                failed.setdefault(measurement.analyzer, measurement.outcome.error)
        changes = {**self.report.changes, **changes}
        self.report = replace(self.report, changes=changes, failed=failed)
        return decisions

    def count_routes(self, routes: Mapping[str, int]) -> None:
        """Add numbers of measurements to the routes of the report."""
        counts = Counter(self.report.routes)
        counts.update({str(route): count for route, count in routes.items() if count})
        self.report = replace(self.report, routes=dict(counts))

    def report_rest(self, names: set[str], failures: Mapping[AnyAnalyzer, MetricError]) -> None:
        """Add the skipped partitions and the unresolved failures of earlier runs to the report."""
        scanned = self.report.changes.keys() | self.report.unreadable.keys()
        failed = {**failures, **self.report.failed}
        self.report = replace(self.report, skipped=len(names - scanned), failed=failed)


@contextmanager
def recording(store: RunStore, spec: RunSpec, wait: float = WAIT_SECONDS) -> Iterator[Recording]:
    """Hold the dataset's lease and an open run. The run is closed in every case.

    At the end of the block, the run is closed as complete. It is closed as failed if the block raised or
    recorded errors, and as interrupted on KeyboardInterrupt and SystemExit.

    Parameters
    ----------
    store : RunStore
        The store to open the run in.
    spec : RunSpec
        The dataset, and the settings to store with the run.
    wait : float
        Seconds to wait for another run of the dataset.

    Raises
    ------
    LeaseError
        If another run still holds the lease after ``wait`` seconds.
    """
    with store.hold(spec.dataset, wait) as fence:
        try:
            run = store.open_run(spec, fence)
        except DatasetMismatchError as error:
            setattr(error, _RECORDED_BY, store.fail_run(spec, _message(error)))
            raise
        open_run = Recording(store, RunReport(run, spec.dataset, RunStatus.RUNNING))
        try:
            yield open_run
        except BaseException as error:
            is_interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
            status = RunStatus.INTERRUPTED if is_interrupted else RunStatus.FAILED
            open_run.report = replace(open_run.report, status=status)
            report = open_run.report
            store.close_run(run, status, report.counts, _message(error), report.routes)
            setattr(error, _RECORDED_BY, run)
            raise
        status = RunStatus.FAILED if open_run.errors else RunStatus.COMPLETE
        open_run.report = replace(open_run.report, status=status)
        counts = open_run.report.counts
        if open_run.errors:
            counts["failed"] = len(open_run.errors)
        problems = "\n".join(open_run.errors) or None
        store.close_run(run, status, counts, problems, open_run.report.routes)


@contextmanager
def recording_failed_start(store: RunStore, spec: RunSpec) -> Iterator[None]:
    """Store a failed run if the block raises, unless a run within it has recorded the error.

    Parameters
    ----------
    store : RunStore
        The store to write to.
    spec : RunSpec
        The dataset, and the settings to store with the run.

    Raises
    ------
    NoSuchTableError
        If the table does not exist. If it was measured before, the message does not suggest other tables.
    RetiredDatasetError
        If the dataset is retired, whether or not its table can be opened.
    """
    try:
        yield
    except SuiteError:  # the suite is invalid, so no run was requested
        raise
    except Exception as error:
        if hasattr(error, _RECORDED_BY):
            raise
        reported = error
        if isinstance(error, NoSuchTableError) and store.ledger(spec.dataset):
            reported = NoSuchTableError(
                error.problem,
                f"; {spec.dataset!r} was measured before: restore the table, or retire the dataset with"
                f" `tidegauge dataset retire {shlex.quote(spec.dataset)}`",
            )
        try:
            store.fail_run(spec, _message(reported))
        except RetiredDatasetError as retired:
            reported = retired
        except RepositoryError:
            pass  # the repository is not writable; report the error of the source
        if reported is error:
            raise
        raise reported from error


_RECORDED_BY = "_tidegauge_run"
"""Name of the error attribute that holds the id of the run that recorded the error."""


def _message(error: BaseException) -> str:
    return hide_secrets(f"{type(error).__name__}: {error}")
