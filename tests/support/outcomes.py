"""Twelve outcomes of a run, without Spark, for the contract of everything that reports outcomes.

Each is stored in a repository as a run stores it, and has the summary that `tidegauge run`
prints. The tests of the schedulers run it in the environments of Airflow and Dagster, without
pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tidegauge as tg
from tidegauge.analysis import Run
from tidegauge.analyzers.core.errors import NoSuchColumnError, NoSuchTableError
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.analyzers.runs.ledger import Change, RunStatus
from tidegauge.analyzers.runs.recording import RunReport, recording, recording_failed_start
from tidegauge.files.checked import check_table
from tidegauge.files.runs import SuiteReport, SuiteResult
from tidegauge.files.suite_files import load_suite
from tidegauge.repository.testing import SIZE, day, measurement, spec
from tidegauge.rules.known_failures import KnownFailures
from tidegauge.rules.verdicts import CheckResult

HEAD = "dataset: d\ntable: db.t\nanalyzers: [Size]\n"
GOOD = HEAD + "checks:\n  - has_size: {at_least: 10}\n"
FULL = HEAD + "checks:\n  - has_size: {at_least: 900}\n"
WARNS = HEAD + "checks:\n  - has_size: {at_least: 900, level: warning}\n"
FILTERED = HEAD + "checks:\n  - is_complete: {column: x, where: y > 1}\n"
RULES = (
    HEAD + "dqm:\n  rules:\n    - NotNullRule: fare\n  policies: [FailTotalRuleCountPolicy: 1]\n"
)
REFUSED = CheckResult(False, (("fare", "3 records, none allowed"),), outcomes=(("fare", False),))
MISSING = tg.Mean("nope")
PARTLY_EMPTY = tg.Completeness("x", where="y > 1")


@dataclass
class Case:
    """One outcome, and its expected reports.

    Attributes
    ----------
    repository : Repository
    summary : SuiteResult
    outcome : str
    fails_by : str
        The cause of a failure or error; empty if there is none.
    health : str
        The health of the table on the home page.
    messages : int
        The number of messages that a sink for errors gets, in addition to messages of earlier runs.
    fail_on_anomaly : bool
    """

    repository: tg.Repository
    summary: SuiteResult
    outcome: str
    fails_by: str
    health: str
    messages: int
    fail_on_anomaly: bool = False


class Making:
    """Stores runs of a suite file in a repository."""

    def __init__(self, repository: tg.Repository, folder: Path) -> None:
        self.repository, self.folder = repository, folder
        self.summary = SuiteResult()

    def run(
        self,
        text: str,
        *days: Any,
        failed: Any = None,
        unreadable: Any = None,
        policies: CheckResult | None = None,
        allow_empty: bool = False,
        partitions: str = "new",
    ) -> None:
        """Store a run that measured some days, and check it; its summary replaces the previous one."""
        path = self.folder / "d.yml"
        path.write_text(text)
        file = replace(load_suite(path), allow_empty=allow_empty)
        number = self._stored(days, unreadable)
        report = RunReport(
            number,
            "d",
            RunStatus.FAILED if unreadable else RunStatus.COMPLETE,
            changes={one.partition.name: Change.NEW for one in days},
            failed=failed or {},
            unreadable=unreadable or {},
        )
        run = Run(
            report, self.repository, dict.fromkeys(report.changes, policies) if policies else {}
        )
        for partition, check in run.checks.items():
            self.repository.keep_verdict(
                "d",
                name=file.suite.dqm.name,
                specification=file.suite.dqm.specification,
                fingerprint="a",
                partition=partition,
                passed=check.passed,
                result=check.to_json(),
                run=number,
            )
        known, checked = KnownFailures.of_run(run, partitions), None
        if file.checks:
            unread = replace(run, report=replace(report, changes={}))  # no examples from its rows
            checked = check_table(file, unread, SimpleNamespace(name="db.t"), partitions)
            known = KnownFailures.of_run(run, partitions)
            checked = replace(checked, run=run, known_failures=known)
        self.summary = SuiteResult([SuiteReport(file, run, known, checked)])

    def _stored(self, days: Any, unreadable: Any) -> int:
        """Store a run as the runner does: it failed if a partition cannot be read."""
        store = self.repository.store
        with recording(store, spec()) as run:
            if days:
                run.commit(days)
            if unreadable:
                run.leave_out({Partition.from_name(k): why for k, why in unreadable.items()})
        return run.run


def size(number: int, rows: int = 1000) -> Any:
    """Return a day with a number of rows."""
    return day(number, rows=rows, only=[SIZE])


def _passed(making: Making) -> None:
    making.run(GOOD, size(1))


def _check_fails(making: Making) -> None:
    making.run(FULL, size(1, rows=10))


def _check_warns(making: Making) -> None:
    making.run(WARNS, size(1, rows=10))


def _policy_fails(making: Making) -> None:
    making.run(RULES, size(1), policies=REFUSED)


def _analyzer_fails(making: Making) -> None:
    error = NoSuchColumnError("nope", ["x", "s"])
    failed = day(1, only=[SIZE, MISSING])
    making.run(HEAD + "checks: [has_size: 10]\n", failed, failed={MISSING: error})


def _partition_is_unreadable(making: Making) -> None:
    making.run(GOOD, size(1), unreadable={"ds=2013-01-02": "CORRUPT_FOOTER"})


def _table_is_missing(making: Making) -> None:
    try:
        with recording_failed_start(making.repository.store, spec()):
            raise NoSuchTableError("no table db.t")
    except NoSuchTableError as error:
        making.summary = SuiteResult(failed=[f"d.yml: {error}"])


def _partition_has_no_data(making: Making) -> None:
    empty = measurement(PARTLY_EMPTY, NumMatchesAndCount(0, 0))
    making.run(FILTERED, day(1, only=[SIZE, PARTLY_EMPTY], extra=[empty]))


def _table_has_no_partition(making: Making) -> None:
    making.run(GOOD)


def _no_data_is_allowed(making: Making) -> None:
    empty = measurement(PARTLY_EMPTY, NumMatchesAndCount(0, 0))
    making.run(FILTERED, day(1, only=[SIZE, PARTLY_EMPTY], extra=[empty]), allow_empty=True)


def _anomaly(making: Making) -> None:
    making.run(GOOD, *(size(n, rows=1000 + n % 3) for n in range(1, 28)))
    making.run(GOOD, size(28, rows=100))
    found = making.repository.detect("d")
    making.summary.anomalies.append(found[found["partition"] == "ds=2013-01-28"])


def _failure_is_known(making: Making) -> None:
    making.run(FULL, size(1, rows=10))
    tg.notify(making.repository, "log", severity="error")
    making.run(FULL, size(2))


@dataclass(frozen=True)
class _Expected:
    make: Callable[[Making], None]
    outcome: str
    fails_by: str = ""
    health: str = "not scored"
    messages: int = 0
    fail_on_anomaly: bool = False


CASES = {
    "everything passes": _Expected(_passed, "passed"),
    "a check fails": _Expected(_check_fails, "failed", "check", "failing checks", 1),
    "a check warns": _Expected(_check_warns, "warning"),
    "a policy fails": _Expected(_policy_fails, "failed", "policy", "failing checks", 1),
    "an analyzer fails": _Expected(_analyzer_fails, "error", "analyzer", "failed analyzers", 1),
    "a partition cannot be read": _Expected(
        _partition_is_unreadable, "error", "partition", "failed run", 1
    ),
    "a table is missing": _Expected(_table_is_missing, "error", "table", "failed run", 1),
    "a partition has no data": _Expected(
        _partition_has_no_data, "failed", "check", "failing checks", 1
    ),
    "a table has no partition": _Expected(
        _table_has_no_partition, "failed", "check", "failing checks", 1
    ),
    "no data is allowed": _Expected(_no_data_is_allowed, "passed"),
    "an anomaly is a failure": _Expected(_anomaly, "failed", "anomaly", "error", 1, True),
    "a failure is known": _Expected(_failure_is_known, "passed"),
}
"""The outcomes by name."""


@contextmanager
def case_of(name: str, folder: Path) -> Iterator[Case]:
    """Create one outcome in a separate repository in memory."""
    expected = CASES[name]
    with tg.Repository("sqlite://") as repository:
        making = Making(repository, folder)
        expected.make(making)
        yield Case(
            repository,
            making.summary,
            expected.outcome,
            expected.fails_by,
            expected.health,
            expected.messages,
            expected.fail_on_anomaly,
        )
