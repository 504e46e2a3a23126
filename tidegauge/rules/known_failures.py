"""Problems of a run, known failures, and their acceptance."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, RuleError, StandingError
from tidegauge.analyzers.core.partitions import Partition, Selection, parse_selection
from tidegauge.outcome import Cause, Problem
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.dimensions import visible
from tidegauge.repository.store.listing import first_of_last_runs
from tidegauge.repository.store.queries import dataset_id
from tidegauge.repository.store.verdicts import standing_verdicts
from tidegauge.rules.judging import current_failures
from tidegauge.rules.verdicts import CheckResult, failure_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from tidegauge.analysis import Run
    from tidegauge.analyzers.core.analyzer import AnyAnalyzer


@dataclass(frozen=True)
class KnownFailures:
    """The failures of a dataset that do not fail a run.

    A failed verdict is known if it was reported before the last runs and a newer partition arrived since, or if
    the partition's time was labeled since. A run of selected partitions is judged only by these partitions,
    unless they were labeled.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    verdicts : frozenset of (str, str)
        Names of verdicts and partitions.
    past_errors : frozenset of str
        Analyzers that fail only on past partitions, in canonical form. They did not fail in the newest
        partition or when the last runs measured.
    times : mapping of str to datetime or None
        Times of the partitions that have failed verdicts.
    """

    dataset: str
    verdicts: frozenset[tuple[str, str]] = frozenset()
    past_errors: frozenset[str] = frozenset()
    times: Mapping[str, datetime | None] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: Run, partitions: str | Sequence[str] = "new") -> KnownFailures:
        """Read the known failures after a run and its verdicts are stored.

        Parameters
        ----------
        run : Run
            The run.
        partitions : str or sequence of str
            The partitions that the run was asked to measure.
        """
        is_selected = chosen_by(partitions)
        failing = current_failures(run.repository, run.dataset)

        def is_known(row: Mapping[str, Any]) -> bool:
            partition = row["partition"]
            if row["is_labelled"]:
                return True
            if is_selected is not None:
                return not is_selected(partition)
            return row["is_known"] and partition not in run.changes

        verdicts = {(row["name"], row["partition"]) for row in failing if is_known(row)}
        times = {row["partition"]: row["time"] for row in failing}
        # An error of a past partition that the next run retries is not settled.
        past = {
            analyzer.canonical()
            for analyzer, error in run.failed.items()
            if isinstance(error, StandingError) and not error.is_retriable and is_selected is None
        }
        if past:
            with run.repository.database.read() as connection:
                past -= _recent_errors(connection, run.dataset)
        return cls(run.dataset, frozenset(verdicts), frozenset(past), times)

    def has_verdict(self, name: str, partition: str) -> bool:
        """Return whether a failed verdict on a partition is known."""
        return (name, partition) in self.verdicts

    def has_error(self, analyzer: AnyAnalyzer) -> bool:
        """Return whether the failure of an analyzer is known; a failure that the next run retries is not."""
        return analyzer.canonical() in self.past_errors

    def advice(self, failing: Iterable[tuple[str, str]], options: str = "") -> list[str]:
        """Return a line on how to settle the newest failure, preferring failures that are not known.

        Parameters
        ----------
        failing : iterable of (str, str)
            Names of verdicts and partitions.
        options : str
            Options to add to the commands.
        """
        newest = max(((pair not in self.verdicts, pair[1]) for pair in failing), default=None)
        if newest is None:
            return []
        partition = newest[1]
        dataset, quoted = shlex.quote(self.dataset), shlex.quote(partition)
        remedies = ["repair the data"]
        if (time := self.times.get(partition)) is not None:
            day = f"{time:%Y-%m-%dT%H:%M:%S}".removesuffix("T00:00:00")
            label = f"tidegauge dataset label {dataset} bad --since {day} --until {day}{options}"
            remedies.append(f"label the time range: {label}")
        remedies.append(f"accept it: tidegauge dataset accept {dataset} {quoted}{options}")
        return [f"  to settle {partition or self.dataset}: {'; or '.join(remedies)}"]


def problems_of_run(run: Run, known_failures: KnownFailures, name: str = "") -> Iterator[Problem]:
    """Yield the problems of one run: failed analyzers, partitions that cannot be read, failed policies.

    Parameters
    ----------
    run : Run
        The run.
    known_failures : KnownFailures
        The failures that do not fail the run.
    name : str
        Name of the stored verdicts of its policies.
    """
    for analyzer in run.failed:
        is_known = known_failures.has_error(analyzer)
        yield Problem(Cause.ANALYZER, run.dataset, is_known=is_known)
    for _ in run.unreadable:
        yield Problem(Cause.PARTITION, run.dataset)
    yield from problems_of_policies(run, run.checks, known_failures, name)


def problems_of_policies(
    run: Run, checks: Mapping[str, CheckResult], known_failures: KnownFailures, name: str
) -> Iterator[Problem]:
    """Yield failed verdicts of policies as problems, and warnings on partitions that the run measured."""
    for partition, check in checks.items():
        if not check.passed:
            is_known = known_failures.has_verdict(name, partition)
            yield Problem(Cause.POLICY, run.dataset, is_known=is_known)
        elif check.warnings and partition in {"", *run.changes}:
            yield Problem(Cause.POLICY, run.dataset, is_warning=True)


def chosen_by(partitions: str | Sequence[str]) -> Callable[[str], bool] | None:
    """Return the condition for selected partitions; None if a run measures new or all partitions."""
    if not isinstance(partitions, str):
        return set(partitions).__contains__
    if partitions in {"new", "all"}:
        return None

    @cache  # nearly all partitions have the same keys
    def selection(keys: tuple[str, ...]) -> Selection:
        return parse_selection(partitions, keys)

    def chosen(partition_name: str) -> bool:
        partition = Partition.from_name(partition_name)
        return selection(partition.keys)(partition)

    return chosen


def _recent_errors(connection: Connection, dataset: str) -> frozenset[str]:
    """Return the analyzers that failed in the newest partition, or when the last runs measured."""
    dataset_key = sa.literal(dataset_id(connection, dataset))
    m, p, a = s.metric.c, s.partition.c, s.analyzer.c
    newest = s.partition.alias("newest")
    last_time = sa.select(sa.func.max(newest.c.time)).where(newest.c.dataset_id == dataset_key)
    query = (
        sa.select(a.canonical)
        .distinct()
        .join_from(s.partition, s.metric, m.partition_id == p.id)
        .join(s.series, s.series.c.id == m.series_id)
        .join(s.analyzer, a.id == s.series.c.analyzer_id)
        .join(s.commit, s.commit.c.id == m.commit_id)
        .where(p.dataset_id == dataset_key, m.status == "failed", s.holds(s.metric))
        .where(
            (s.commit.c.run_id >= first_of_last_runs(dataset_key))
            | (p.time == last_time.scalar_subquery())
            | (p.name == "")
        )
    )
    return frozenset(connection.execute(query).scalars())


def accept_failures(
    repository: Repository | str | Path,
    dataset: str,
    partition: str,
    *,
    name: str | None = None,
    note: str | None = None,
    by: str | None = None,
    dry_run: bool = False,
) -> list[str]:
    """Accept the failed checks and rules on a partition, so that they pass until the data or they change.

    The failed verdicts can still be read with ``as_of``.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL.
    dataset : str
        Name of the dataset.
    partition : str
        Name of the partition; empty for a table without partitions.
    name : str, optional
        Name of the verdict to accept, as in `Repository.verdicts` (default: all verdicts).
    note, by : str, optional
        The reason and the author, stored with the verdict.
    dry_run : bool
        Whether to only return the failures that would be accepted.

    Returns
    -------
    list of str
        The messages of the failures.

    Raises
    ------
    UnknownDatasetError
    HistoryError
        If nothing fails on the partition, or it was already accepted. The message reports by whom and when,
        or names partitions on which something fails.
    ReadOnlyError

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     case = {"name": "prices", "specification": "5e1f", "fingerprint": "a93c"}
    ...     _ = repo.keep_verdict("orders", **case, passed=False, result="{}", partition="ds=2026-01-01")
    ...     tg.accept_failures(repo, "orders", "ds=2026-01-01", note="a test load", by="ann")
    ...     repo.verdicts("orders")["passed"].tolist()
    ['prices']
    [True]
    """
    repository = as_repository(repository)
    failing = current_failures(repository, dataset)
    rows = [
        row
        for row in failing
        if row["partition"] == partition and (name is None or row["name"] == name)
    ]
    if not rows:
        failing_partitions = sorted({row["partition"] for row in failing})
        hint = (
            f"; failing are {', '.join(map(repr, failing_partitions[-3:]))}"
            if failing_partitions
            else ""
        )
        hint = _acceptance(repository, dataset, partition, name) or hint
        name_suffix = "" if name is None else f" under the name {name!r}"
        msg = f"No check of {dataset!r} fails on {partition!r}{name_suffix}{hint}."
        raise HistoryError(msg)
    accepted = []
    for row in rows:
        messages = failure_messages(str(row["result"]), foreign=False)
        accepted += [f"{row['name']}: {text}" for text in messages] or [row["name"]]
        if not dry_run:
            _accept(repository, dataset, row, messages, note, by)
    return accepted


def _acceptance(
    repository: Repository, dataset: str, partition: str, name: str | None
) -> str | None:
    """Return the author and time of an acceptance of failures on a partition; None without acceptance."""
    with repository.database.read() as connection:
        v = standing_verdicts([dataset_id(connection, dataset)]).c
        query = sa.select(v.name, v.checked_at, v.result).where(v.partition == visible(partition))
        query = query.where(v.passed == 1).order_by(v.commit_id.desc())
        if name is not None:
            query = query.where(v.name == visible(name))
        rows = connection.execute(query).all()
    for row in rows:
        try:
            verdict = CheckResult.from_json(row.result)
        except RuleError:  # a verdict of another program
            continue
        if verdict.is_accepted:
            return (
                f": on {row.checked_at:%Y-%m-%d %H:%M} UTC, {row.name!r} was {verdict.check_log[0]}"
            )
    return None


def _accept(
    repository: Repository,
    dataset: str,
    row: Mapping[str, Any],
    messages: Sequence[str],
    note: str | None,
    by: str | None,
) -> None:
    """Store a passing verdict on the same content, with the author and the accepted failures."""
    repository.keep_verdict(
        dataset,
        name=row["name"],
        specification=row["specification"],
        fingerprint=row["fingerprint"],
        partition=row["partition"],
        passed=True,
        result=CheckResult.accepted(note, by, messages).to_json(),
    )
