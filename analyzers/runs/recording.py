"""The lifecycle of a run: hold the lease, open the run, commit batches, close it with its status.

A run reports its progress to a `Progress`; the progress bars are in `tidegauge.display.progress`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    DatasetMismatchError,
    MetricError,
    NoSuchTableError,
    RepositoryError,
    RetiredDatasetError,
    SuiteError,
)
from tidegauge.analyzers.core.formatting import hide_secrets
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
    analyzers : iterable of Analyzer
        Those whose outcomes are stored.
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


WAIT_SECONDS = 3600.0
"""Time that a run waits for another run of the same dataset."""


@dataclass(frozen=True)
class RunReport:
    """Outcome of a run.

    Attributes
    ----------
    run : int
        Its id in the repository.
    dataset : str
    status : RunStatus
    changes : mapping of str to Change
        The change of each partition that was scanned.
    skipped : int
        Partitions that exist and were not scanned.
    uncompared : int
        How many of the skipped were measured before, and have no files that tell whether they changed.
    gone : tuple of str
        Partitions that the ledger knows and the table no longer has.
    failed : mapping of Analyzer to MetricError
        Analyzers that failed in some partition, with the first error. Failures of earlier runs count
        as long as they stand, in partitions that this run was to measure: see `StandingError`.
    unreadable : mapping of str to str
        Partitions with files that cannot be read, and why. They are not in the ledger, so the next run
        tries them again.
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

    @property
    def scanned(self) -> int:
        """The number of partitions scanned."""
        return len(self.changes)

    @property
    def counts(self) -> dict[str, int]:
        """The counts that a repository keeps with the run."""
        return {
            "measured": self.scanned,
            "skipped": self.skipped,
            "failed": len(self.failed),
            "gone": len(self.gone),
        }


class Recorder(VerdictStore, Protocol):
    """A repository, as far as runs write to it."""

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
        """Store a custom metric by partition."""


@dataclass
class Recording:
    """An open run.

    Attributes
    ----------
    store : RunStore
    report : RunReport
        What the run did so far; its counts are stored when the run is closed.
    errors : list of str
        Failures that did not stop the run; with any, it is closed as failed.
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
        """Report partitions that cannot be read; the run is closed as failed if there are any."""
        found = {partition.name: why for partition, why in unreadable.items()}
        self.errors += [
            f"{name or 'the table'} cannot be read: {why}" for name, why in found.items()
        ]
        self.report = replace(self.report, unreadable={**self.report.unreadable, **found})

    def commit(self, batch: Sequence[MeasuredPartition]) -> list[Decision]:
        """Commit a batch, all or nothing, and add its changes and failures to the report."""
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

    def report_rest(self, names: set[str], failures: Mapping[AnyAnalyzer, MetricError]) -> None:
        """Report which of all partitions were skipped, and failures of earlier runs that still stand."""
        scanned = self.report.changes.keys() | self.report.unreadable.keys()
        failed = {**failures, **self.report.failed}
        self.report = replace(self.report, skipped=len(names - scanned), failed=failed)


@contextmanager
def recording(store: RunStore, spec: RunSpec, wait: float = WAIT_SECONDS) -> Iterator[Recording]:
    """Hold the dataset's lease and a run that is closed whatever happens.

    The run is closed as complete at the end of the block; as failed if the block raises or left
    errors; as interrupted on KeyboardInterrupt and SystemExit.

    Parameters
    ----------
    store : RunStore
    spec : RunSpec
    wait : float
        Seconds to wait for another run of the dataset.

    Raises
    ------
    LeaseError
        If another run still holds the dataset then.
    """
    with store.hold(spec.dataset, wait) as fence:
        try:
            run = store.open_run(spec, fence)
        except DatasetMismatchError as error:
            setattr(error, _RECORDED_BY, store.fail_run(spec, _message(error)))
            raise
        found = Recording(store, RunReport(run, spec.dataset, RunStatus.RUNNING))
        try:
            yield found
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
            status = RunStatus.INTERRUPTED if interrupted else RunStatus.FAILED
            found.report = replace(found.report, status=status)
            store.close_run(run, status, found.report.counts, _message(error))
            setattr(error, _RECORDED_BY, run)
            raise
        status = RunStatus.FAILED if found.errors else RunStatus.COMPLETE
        found.report = replace(found.report, status=status)
        counts = found.report.counts
        if found.errors:
            counts["failed"] = len(found.errors)
        store.close_run(run, status, counts, "\n".join(found.errors) or None)


@contextmanager
def recording_failed_start(store: RunStore, spec: RunSpec) -> Iterator[None]:
    """Store a failed run if the block raises, unless a run within it has recorded the error.

    If the table was measured before, the error suggests no other one.

    Raises
    ------
    NoSuchTableError
    RetiredDatasetError
        If the dataset is retired: whether its table can be opened does not matter then.
    """
    try:
        yield
    except SuiteError:  # nothing was asked for that could fail
        raise
    except Exception as error:
        if hasattr(error, _RECORDED_BY):
            raise
        found = error
        if isinstance(error, NoSuchTableError) and store.ledger(spec.dataset):
            found = NoSuchTableError(
                error.problem,
                f"; {spec.dataset!r} was measured before: restore the table, or retire the dataset by"
                f" `tidegauge dataset retire {shlex.quote(spec.dataset)}`",
            )
        try:
            store.fail_run(spec, _message(found))
        except RetiredDatasetError as retired:
            found = retired
        except RepositoryError:
            pass  # the repository cannot be written; the error of the source is the one to report
        if found is error:
            raise
        raise found from error


_RECORDED_BY = "_tidegauge_run"
"""Attribute of an error: the id of the run that was closed with it."""


def _message(error: BaseException) -> str:
    return hide_secrets(f"{type(error).__name__}: {error}")
