"""Re-evaluation of policies on stored counts, without reading data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.analyzers.core.state import as_state
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.queries import AsOf, Moment, Window, dataset_id
from tidegauge.repository.store.verdicts import VERDICT_COLUMNS, failing_verdicts, verdict_rows
from tidegauge.rules.measures import RecordRules, names_task
from tidegauge.rules.record_counts import RecordCounts, Sample
from tidegauge.rules.verdicts import CheckResult, read_verdict

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.analyzers.runs.recording import RunReport
    from tidegauge.rules.dqm import DQM


def judge(
    repository: Repository | str | Path,
    dataset: str,
    dqm: DQM,
    *,
    since: Moment = None,
    until: Moment = None,
    as_of: AsOf = None,
) -> dict[str, CheckResult]:
    """Judge each partition by the counts that were stored when it was measured.

    Rules and fixes must equal the measured ones. Policies can differ, so limits can be backtested. Unless
    ``as_of`` is given, samples are taken from stored verdicts of the same name.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL.
    dataset : str
        Name of the dataset.
    dqm : DQM
        Rules and fixes that were measured, with the policies to apply.
    since, until, as_of
        As for `Repository.metrics`.

    Raises
    ------
    HistoryError
        If these rules and fixes were never measured on the dataset.
    RuleError
        If a policy needs the data itself.

    Examples
    --------
    >>> import tidegauge as tg
    >>> sql = "SELECT explode(array(34, -1, 210)) AS age, '2026-01-01' AS ds"
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
    >>> suite = tg.Suite("rides", [tg.Size()], partition_by=["ds"], dqm=ages)
    >>> repo = tg.Repository("sqlite://")
    >>> run = tg.analyze(tg.spark_session().sql(sql), suite, repository=repo)  # doctest: +SKIP
    >>> stricter = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(2))
    >>> {name: check.passed for name, check in tg.judge(repo, "rides", stricter).items()}  # doctest: +SKIP
    {'ds=2026-01-01': False}
    >>> repo.close()
    """
    repository = as_repository(repository)
    counted = counts_of(repository, dataset, dqm, since=since, until=until, as_of=as_of)
    if counted is None:
        msg = f"these rules and fixes were never measured on {dataset!r}; analyze with Suite(dqm=) first"
        raise HistoryError(msg)
    verdicts = _judge_counts(repository, dataset, dqm, counted)
    if as_of is None:
        for partition, (_, stored) in _newest_verdicts(repository, dataset, dqm.name).items():
            if partition in verdicts:
                verdicts[partition] = verdicts[partition].with_samples_of(stored)
    return verdicts


def _judge_counts(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    counted: Mapping[str, RecordCounts | None],
    samples: Sequence[Sample] = (),
) -> dict[str, CheckResult]:
    verdicts = {}
    for partition, counts in counted.items():
        if counts is not None:
            state = dqm.tasks.state(counts)
            for sample in samples:
                if sample.partition == partition:
                    state.add_sample(replace(sample, partition=""))
            state.snapshot()
            verdicts[partition] = dqm.judge(state)
    uncounted = [partition for partition, counts in counted.items() if counts is None]
    return verdicts | (
        _verdicts_on_failures(repository, dataset, dqm, uncounted) if uncounted else {}
    )


def counts_of(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    *,
    since: Moment = None,
    until: Moment = None,
    as_of: AsOf = None,
) -> dict[str, RecordCounts | None] | None:
    """Return the stored counts by partition, or None for a partition in which a task could not be evaluated.

    The result is None if these rules and fixes were never measured.
    """
    analyzer = RecordRules(dqm.tasks.identity)
    states = repository.window_states(
        dataset, since=since, until=until, as_of=as_of, allow_missing=True
    )
    stored = states.stored(analyzer)
    if stored is None:
        return None
    return {
        row.partition: None
        if row.payload is None
        else as_state(RecordCounts, states.total(analyzer, [row]))
        for row in stored
    }


def _verdicts_on_failures(
    repository: Repository, dataset: str, dqm: DQM, partitions: Collection[str]
) -> dict[str, CheckResult]:
    """Return the verdict on partitions in which a rule or fix could not be evaluated."""
    metrics = repository.metrics(dataset, analyzer=RecordRules(dqm.tasks.identity))
    failed = metrics[(metrics["status"] == "failed") & metrics["partition"].isin(list(partitions))]
    verdicts = {}
    for row in failed.itertuples():
        error = str(row.error)
        tasks = (*dqm.tasks.rules, *dqm.tasks.fixes)
        name = next((t.name for t in tasks if names_task(error, t.name)), dqm.name)
        verdicts[str(row.partition)] = CheckResult(
            passed=False, error_messages=((name, error),), outcomes=((name, False),)
        )
    return verdicts


def judge_run(
    repository: Repository,
    dataset: str,
    dqm: DQM | None,
    report: RunReport,
    take_samples: Callable[[Mapping[str, RecordCounts]], Iterable[Sample]],
    on_empty: OnEmpty = OnEmpty.PASS,
) -> dict[str, CheckResult]:
    """Judge the partitions that a run scanned or that were never judged, and store the verdicts.

    Failed verdicts of earlier runs on other partitions are also returned while the content of these
    partitions is unchanged. If there are no new partitions, the stored verdicts on all partitions are returned.

    Parameters
    ----------
    repository : Repository
        The repository.
    dataset : str
        Name of the dataset.
    dqm : DQM or None
        The rules, fixes and policies.
    report : RunReport
        The report of the run.
    take_samples : callable
        Returns samples of the scanned partitions, given their counts.
    on_empty : OnEmpty
        Outcome of a partition without records, or of a table without partitions. It is also applied to
        stored verdicts on such partitions.
    """
    if dqm is None:
        return {}
    fingerprint_by_partition = fingerprints(repository, dataset)
    if not fingerprint_by_partition:
        verdict = CheckResult.without_partitions(on_empty)
        keep_without_partitions(repository, dataset, dqm.name, dqm.specification, verdict, report)
        return {"": verdict}
    close_without_partitions(repository, dataset, dqm.name)
    stored = kept_verdicts(repository, dataset, dqm.name, dqm.specification)
    stored_resolved = {name: verdict.resolve_no_data(on_empty) for name, verdict in stored.items()}
    resolved = {
        name: verdict for name, verdict in stored_resolved.items() if verdict != stored[name]
    }
    accepted = {name for name, verdict in stored_resolved.items() if verdict.is_accepted}
    to_judge = (fingerprint_by_partition.keys() - stored_resolved.keys()) | (
        report.changes.keys() & fingerprint_by_partition.keys() - accepted
    )
    counted = counts_of(repository, dataset, dqm) if to_judge else None
    if counted is None:
        _store_verdicts(repository, dataset, dqm, fingerprint_by_partition, resolved, report.run)
        return stored_resolved
    counts_to_judge = {name: counts for name, counts in counted.items() if name in to_judge}
    scanned = {
        name: counts
        for name, counts in counts_to_judge.items()
        if counts is not None and name in report.changes
    }
    judged = _judge_counts(repository, dataset, dqm, counts_to_judge, list(take_samples(scanned)))
    verdicts = {name: verdict.resolve_no_data(on_empty) for name, verdict in judged.items()}
    _store_verdicts(
        repository, dataset, dqm, fingerprint_by_partition, {**resolved, **verdicts}, report.run
    )
    failing = {name: c for name, c in stored_resolved.items() if not c.passed}
    return {**failing, **verdicts} if verdicts else stored_resolved


def _store_verdicts(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    fingerprint_by_partition: Mapping[str, str],
    verdicts: Mapping[str, CheckResult],
    run: int,
) -> None:
    """Store verdicts on partitions."""
    for partition, verdict in verdicts.items():
        repository.keep_verdict(
            dataset,
            name=dqm.name,
            specification=dqm.specification,
            fingerprint=fingerprint_by_partition[partition],
            passed=verdict.passed,
            result=verdict.to_json(),
            partition=partition,
            run=run,
        )


MAX_VERDICTS = 20
"""Maximum number of failed verdicts of a dataset that a report lists."""
NO_PARTITIONS = "no partitions"
"""Fingerprint in a verdict on a table without partitions."""


def keep_without_partitions(
    repository: Repository,
    dataset: str,
    name: str,
    specification: str,
    verdict: CheckResult,
    report: RunReport | None = None,
) -> None:
    """Store the verdict on a table that has no partition."""
    repository.keep_verdict(
        dataset,
        name=name,
        specification=specification,
        fingerprint=NO_PARTITIONS,
        passed=verdict.passed,
        result=verdict.to_json(),
        run=None if report is None else report.run,
    )


def close_without_partitions(repository: Repository, dataset: str, name: str) -> None:
    """Store passing verdicts for verdicts that failed because the table had no partition."""
    with repository.database.read() as connection:
        rows = verdict_rows(connection, dataset, name, partition="", passed=False)
    verdict = CheckResult(passed=True, check_log=("the table has partitions",))
    for row in rows:
        if row["fingerprint"] == NO_PARTITIONS:
            keep_without_partitions(repository, dataset, name, row["specification"], verdict)


def verdicts_named(repository: Repository, dataset: str, name: str) -> pd.DataFrame:
    """Return the verdicts of a name, newest first; empty if the name has no verdicts."""
    with repository.database.read() as connection:
        return frame_of(verdict_rows(connection, dataset, name), VERDICT_COLUMNS)


def kept_verdicts(
    repository: Repository, dataset: str, name: str, specification: str
) -> dict[str, CheckResult]:
    """Return the newest verdict on each current partition, if it was made with this specification.

    A verdict that a later verdict supersedes is skipped, so that reverting to earlier rules makes their
    verdicts current again. Unreadable verdicts cause a warning.
    """
    newest = _newest_verdicts(repository, dataset, name)
    return {
        partition: verdict
        for partition, (judged_with, verdict) in newest.items()
        if judged_with == specification
    }


def _newest_verdicts(
    repository: Repository, dataset: str, name: str
) -> dict[str, tuple[str, CheckResult]]:
    """Return the newest verdict on each current partition, with its specification."""
    fingerprint_by_partition = fingerprints(repository, dataset)
    newest = verdicts_named(repository, dataset, name).drop_duplicates("partition")
    verdicts = {}
    for row in newest.itertuples():
        partition = str(row.partition)
        if fingerprint_by_partition.get(partition) == row.fingerprint:
            verdict = read_verdict(str(row.result), f"{name} of {dataset}, {partition}")
            if verdict is not None:
                verdicts[partition] = str(row.specification), verdict
    return verdicts


def current_failures(
    repository: Repository, dataset: str, since: Moment = None
) -> list[dict[str, Any]]:
    """Return the newest failed verdicts of rules and checks on the current data.

    Parameters
    ----------
    repository : Repository
    dataset : str
    since
        Only verdicts on partitions of this time or later.

    Returns
    -------
    list of dict
        Rows of `Repository.verdicts` with ``is_known`` and ``is_labelled`` as in `failing_verdicts`, newest first.
    """
    with repository.database.read() as connection:
        v = failing_verdicts([dataset_id(connection, dataset)]).c
        query = select(
            *(v[name] for name in VERDICT_COLUMNS if name != "dataset"), v.is_known, v.is_labelled
        )
        query = query.order_by(v.commit_id.desc())
        rows = [row._asdict() for row in connection.execute(query)]
    constants = {"dataset": dataset, "passed": False}
    flags = ("is_known", "is_labelled")
    window = Window.between(since, None)
    return [
        {**row, **constants, **{flag: bool(row[flag]) for flag in flags}}
        for row in rows
        if window.holds(row["time"])
    ]


def close_verdicts(
    repository: Repository, dataset: str, name: str, specification: str, current_name: str
) -> None:
    """Store passing verdicts for failed verdicts that the same rules or checks stored under a former name.

    Nothing is judged under the former name any more, so these verdicts would fail until their data changes.
    """
    if name == current_name:
        return
    result = CheckResult(
        passed=True, check_log=(f"judged as {current_name!r} from now on",)
    ).to_json()
    for row in current_failures(repository, dataset):
        if (row["name"], row["specification"]) == (name, specification):
            repository.keep_verdict(
                dataset,
                name=name,
                specification=f"now {current_name}",  # differs from theirs, with which a file of this name can judge
                fingerprint=row["fingerprint"],
                passed=True,
                result=result,
                partition=row["partition"],
            )


def fingerprints(repository: Repository, dataset: str) -> dict[str, str]:
    """Return the fingerprint of each existing partition; its version if it has no fingerprint."""
    ledger = repository.partitions(dataset)
    ledger = ledger[ledger["gone_at"].isna()]
    rows = zip(ledger["partition"], ledger["fingerprint"], ledger["version"], strict=True)
    return {name: fingerprint or f"version/1:{version}" for name, fingerprint, version in rows}
