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
from tidegauge.repository.store.queries import AsOf, Moment, dataset_id
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

    Rules and fixes must be those that were measured; policies may differ, so limits can be
    backtested. Samples are those of stored verdicts of the same name, unless ``as_of`` is given.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL.
    dataset : str
    dqm : DQM
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
    found = _judged(repository, dataset, dqm, counted)
    if as_of is None:
        for partition, (_, kept) in _newest_verdicts(repository, dataset, dqm.name).items():
            if partition in found:
                found[partition] = found[partition].with_samples_of(kept)
    return found


def _judged(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    counted: Mapping[str, RecordCounts | None],
    samples: Sequence[Sample] = (),
) -> dict[str, CheckResult]:
    found = {}
    for partition, counts in counted.items():
        if counts is not None:
            state = dqm.tasks.state(counts)
            for sample in samples:
                if sample.partition == partition:
                    state.add_sample(replace(sample, partition=""))
            state.snapshot()
            found[partition] = dqm.judge(state)
    lacking = [partition for partition, counts in counted.items() if counts is None]
    return found | (_failed(repository, dataset, dqm, lacking) if lacking else {})


def counts_of(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    *,
    since: Moment = None,
    until: Moment = None,
    as_of: AsOf = None,
) -> dict[str, RecordCounts | None] | None:
    """Return the stored counts by partition, None where a task could not be evaluated.

    Returns None instead of a mapping if these rules and fixes were never measured.
    """
    analyzer = RecordRules(dqm.tasks.identity)
    states = repository.window_states(
        dataset, since=since, until=until, as_of=as_of, allow_missing=True
    )
    stored = states.stored(analyzer)
    if stored is None:
        return None
    return {
        one.partition: None
        if one.payload is None
        else as_state(RecordCounts, states.total(analyzer, [one]))
        for one in stored
    }


def _failed(
    repository: Repository, dataset: str, dqm: DQM, partitions: Collection[str]
) -> dict[str, CheckResult]:
    """Return the verdict on partitions in which a rule or fix could not be evaluated."""
    metrics = repository.metrics(dataset, analyzer=RecordRules(dqm.tasks.identity))
    failed = metrics[(metrics["status"] == "failed") & metrics["partition"].isin(list(partitions))]
    found = {}
    for row in failed.itertuples():
        error = str(row.error)
        tasks = (*dqm.tasks.rules, *dqm.tasks.fixes)
        name = next((t.name for t in tasks if names_task(error, t.name)), dqm.name)
        found[str(row.partition)] = CheckResult(
            passed=False, error_messages=((name, error),), outcomes=((name, False),)
        )
    return found


def judge_run(
    repository: Repository,
    dataset: str,
    dqm: DQM | None,
    report: RunReport,
    take_samples: Callable[[Mapping[str, RecordCounts]], Iterable[Sample]],
    on_empty: OnEmpty = OnEmpty.PASS,
) -> dict[str, CheckResult]:
    """Judge and store verdicts on the partitions that a run scanned or that were not judged yet.

    Failed verdicts of earlier runs on the other partitions are returned, too, while their content
    stays as it is: failed data does not pass because something else was run. If nothing is new, the
    stored verdicts on all partitions are returned.

    Parameters
    ----------
    repository : Repository
    dataset : str
    dqm : DQM or None
    report : RunReport
    take_samples : callable
        Returns samples of the scanned partitions by their counts, which verdicts on them tell.
    on_empty : OnEmpty
        What a partition without records counts as, and a table without partitions. Kept verdicts on
        such partitions are resolved anew.
    """
    if dqm is None:
        return {}
    prints = fingerprints(repository, dataset)
    if not prints:
        verdict = CheckResult.without_partitions(on_empty)
        keep_without_partitions(repository, dataset, dqm.name, dqm.specification, verdict, report)
        return {"": verdict}
    close_without_partitions(repository, dataset, dqm.name)
    kept = kept_verdicts(repository, dataset, dqm.name, dqm.specification)
    known = {name: verdict.resolve_no_data(on_empty) for name, verdict in kept.items()}
    resolved = {name: verdict for name, verdict in known.items() if verdict != kept[name]}
    accepted = {name for name, verdict in known.items() if verdict.is_accepted}
    fresh = (prints.keys() - known.keys()) | (report.changes.keys() & prints.keys() - accepted)
    counted = counts_of(repository, dataset, dqm) if fresh else None
    if counted is None:
        _keep(repository, dataset, dqm, prints, resolved, report.run)
        return known
    of_fresh = {name: counts for name, counts in counted.items() if name in fresh}
    scanned = {
        name: counts
        for name, counts in of_fresh.items()
        if counts is not None and name in report.changes
    }
    judged = _judged(repository, dataset, dqm, of_fresh, list(take_samples(scanned)))
    found = {name: verdict.resolve_no_data(on_empty) for name, verdict in judged.items()}
    _keep(repository, dataset, dqm, prints, {**resolved, **found}, report.run)
    standing = {name: c for name, c in known.items() if not c.passed}
    return {**standing, **found} if found else known


def _keep(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    prints: Mapping[str, str],
    verdicts: Mapping[str, CheckResult],
    run: int,
) -> None:
    """Store verdicts on partitions."""
    for partition, verdict in verdicts.items():
        repository.keep_verdict(
            dataset,
            name=dqm.name,
            specification=dqm.specification,
            fingerprint=prints[partition],
            passed=verdict.passed,
            result=verdict.to_json(),
            partition=partition,
            run=run,
        )


NO_PARTITIONS = "no partitions"
"""Stands for the fingerprint in a verdict on a table that has no partition."""


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
    """Let a verdict pass that failed because the table had no partition, once it has some."""
    with repository.database.read() as connection:
        rows = verdict_rows(connection, dataset, name, partition="", passed=False)
    told = CheckResult(passed=True, check_log=("the table has partitions",))
    for row in rows:
        if row["fingerprint"] == NO_PARTITIONS:
            keep_without_partitions(repository, dataset, name, row["specification"], told)


def verdicts_named(repository: Repository, dataset: str, name: str) -> pd.DataFrame:
    """Return the verdicts of a name, the newest first; none if nothing was judged under it yet."""
    with repository.database.read() as connection:
        return frame_of(verdict_rows(connection, dataset, name), VERDICT_COLUMNS)


def kept_verdicts(
    repository: Repository, dataset: str, name: str, specification: str
) -> dict[str, CheckResult]:
    """Return the newest verdict on each current partition, if it is by this specification.

    One by which a later verdict stands is none: who goes back to an earlier text wants its verdicts
    to be the newest again. Unreadable ones are warned about.
    """
    newest = _newest_verdicts(repository, dataset, name)
    return {
        partition: verdict for partition, (by, verdict) in newest.items() if by == specification
    }


def _newest_verdicts(
    repository: Repository, dataset: str, name: str
) -> dict[str, tuple[str, CheckResult]]:
    """Return the newest verdict on each current partition, with the specification that it is by."""
    prints = fingerprints(repository, dataset)
    newest = verdicts_named(repository, dataset, name).drop_duplicates("partition")
    found = {}
    for row in newest.itertuples():
        partition = str(row.partition)
        if prints.get(partition) == row.fingerprint:
            verdict = read_verdict(str(row.result), f"{name} of {dataset}, {partition}")
            if verdict is not None:
                found[partition] = str(row.specification), verdict
    return found


def standing_failures(repository: Repository, dataset: str) -> list[dict[str, Any]]:
    """Return the newest verdicts, of rules and of checks, by which the current data fails.

    Returns
    -------
    list of dict
        Rows of `Repository.verdicts` with ``is_known`` and ``is_labelled`` as in `failing_verdicts`, the newest first.
    """
    with repository.database.read() as connection:
        v = failing_verdicts([dataset_id(connection, dataset)]).c
        query = select(
            *(v[name] for name in VERDICT_COLUMNS if name != "dataset"), v.is_known, v.is_labelled
        )
        query = query.order_by(v.commit_id.desc())
        rows = [row._asdict() for row in connection.execute(query)]
    told = {"dataset": dataset, "passed": False}
    flags = ("is_known", "is_labelled")
    return [{**row, **told, **{flag: bool(row[flag]) for flag in flags}} for row in rows]


def close_verdicts(
    repository: Repository, dataset: str, name: str, specification: str, now: str
) -> None:
    """Let failed verdicts pass that the same rules or checks kept under another name than now.

    They would stand until their data changes, as nothing judges under that name any more.
    """
    if name == now:
        return
    told = CheckResult(passed=True, check_log=(f"judged as {now!r} from here on",)).to_json()
    for row in standing_failures(repository, dataset):
        if (row["name"], row["specification"]) == (name, specification):
            repository.keep_verdict(
                dataset,
                name=name,
                specification=f"now {now}",  # other than theirs, which a file of this name may judge by
                fingerprint=row["fingerprint"],
                passed=True,
                result=told,
                partition=row["partition"],
            )


def fingerprints(repository: Repository, dataset: str) -> dict[str, str]:
    """Return the fingerprint of each existing partition; its version if it has no fingerprint."""
    ledger = repository.partitions(dataset)
    ledger = ledger[ledger["gone_at"].isna()]
    rows = zip(ledger["partition"], ledger["fingerprint"], ledger["version"], strict=True)
    return {name: print_ or f"version/1:{version}" for name, print_, version in rows}
