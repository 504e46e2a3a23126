"""Policies asked of what a repository remembers: no data is read."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from analyzers.errors import HistoryError
from analyzers.rules.measures import RecordRules
from analyzers.rules.result import CheckResult
from analyzers.rules.state import RecordCounts
from analyzers.state import as_state
from repository.history import AsOf, Moment

if TYPE_CHECKING:
    from analyzers.incremental import RunReport
    from analyzers.rules.dqm import DQM
    from repository.repository import Repository


def judge(
    repository: Repository,
    dataset: str,
    dqm: DQM,
    *,
    since: Moment = None,
    until: Moment = None,
    as_of: AsOf = None,
) -> dict[str, CheckResult]:
    """Return what policies say of each partition, by what was counted when it was measured.

    Rules and fixes must be those that were measured; policies may be others, so limits can be tried on the
    past.

    Parameters
    ----------
    repository : Repository
    dataset : str
    dqm : DQM
    since, until, as_of
        As for `Repository.metrics`.

    Raises
    ------
    HistoryError
        If these rules and fixes were never measured on the dataset.
    RuleError
        If a policy looks at the data.

    Examples
    --------
    >>> import tidegauge as tg
    >>> stricter = tg.DQM().add(tg.BoundRule("dep_delay", -60, 1440), tg.FailPercent(0.001))
    >>> tg.judge(repo, "flights", stricter, since="2013-02-01")  # doctest: +SKIP
    """
    analyzer = RecordRules(dqm.tasks.identity)
    states = repository.window_states(
        dataset, since=since, until=until, as_of=as_of, allow_missing=True
    )
    stored = states.stored(analyzer)
    if stored is None:
        msg = f"these rules and fixes were never measured on {dataset!r}; analyze with Suite(dqm=) first"
        raise HistoryError(msg)
    found = {}
    for one in stored:
        if one.payload is not None:
            state = dqm.tasks.state(as_state(RecordCounts, states.total(analyzer, [one])))
            state.snapshot()
            found[one.partition] = dqm.judge(state)
    lacking = [one.partition for one in stored if one.payload is None]
    return found | (_failed(repository, dataset, dqm, lacking) if lacking else {})


def _failed(
    repository: Repository, dataset: str, dqm: DQM, partitions: Collection[str]
) -> dict[str, CheckResult]:
    """Return the verdict on partitions in which a rule or fix could not be evaluated."""
    metrics = repository.metrics(dataset, analyzer=RecordRules(dqm.tasks.identity))
    failed = metrics[(metrics["status"] == "failed") & metrics["partition"].isin(list(partitions))]
    return {
        str(row.partition): CheckResult(
            passed=False,
            error_messages=((dqm.name, str(row.error)),),
            outcomes=((dqm.name, False),),
        )
        for row in failed.itertuples()
    }


def judge_run(
    repository: Repository, dataset: str, dqm: DQM | None, report: RunReport
) -> dict[str, CheckResult]:
    """Judge the partitions that a run scanned, and keep the verdicts.

    A run that scanned nothing is given the verdicts of the last one that did: what failed does not pass
    because it is asked again.
    """
    if dqm is None:
        return {}
    if not report.changes:
        kept = repository.verdicts(dataset, name=dqm.name)
        kept = kept[kept["specification"] == dqm.specification]
        last = kept[kept["run_id"] == kept["run_id"].max()]
        return {row.partition: CheckResult.from_json(row.result) for row in last.itertuples()}
    verdicts = judge(repository, dataset, dqm)
    ledger = repository.partitions(dataset).set_index("partition")
    found = {}
    for partition, verdict in verdicts.items():
        if partition in report.changes:
            known = ledger.loc[partition]
            # A frame has no fingerprint; its versions number what differs.
            print_ = known["fingerprint"] or f"version/1:{known['version']}"
            repository.keep_verdict(
                dataset,
                name=dqm.name,
                specification=dqm.specification,
                fingerprint=print_,
                passed=verdict.passed,
                result=verdict.to_json(),
                partition=partition,
                run=report.run,
            )
            found[partition] = verdict
    return found
