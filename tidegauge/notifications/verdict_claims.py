"""Claims on notifications of verdicts: each sink is told once that a check fails, and that it passes again.

A sink is told of an outcome: that a partition passes, or which of its constraints fail and which warn.
Numbers that change while the same constraints fail are no news. A sink that is told of errors only
keeps what it was told of warnings before, so that both may be asked for in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.notifications.claims import is_due
from tidegauge.notifications.messages import RUN, verdict_message
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.listing import retirements
from tidegauge.repository.store.queries import dataset_id
from tidegauge.repository.store.rows import Severity
from tidegauge.repository.store.verdicts import standing_verdicts
from tidegauge.rules.outcome.result import WARNINGS, CheckResult, failure_text

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PASSED = ""
"""Outcome of a verdict that passed, which is what a sink believes that was never told anything."""
_BETWEEN = "/"
"""Stands in an outcome between the hash of what fails and that of what warns, if something warns."""


@dataclass(frozen=True)
class _Standing:
    """The newest verdict of a check on the current content of a partition.

    Of one that failed and is not tidegauge's, nothing is told but that: its JSON may hold records.
    """

    dataset_id: int
    dataset: str
    name: str
    partition: str
    passed: bool
    errors: Sequence[tuple[str, str]]
    warnings: Sequence[tuple[str, str]]
    checked_at: datetime

    @property
    def subject(self) -> str:
        """The key of what a sink is told about."""
        return key_of(canonical_json([self.name, self.partition]))

    @property
    def severity(self) -> Severity:
        """``error`` if it failed, ``warning`` if it only warns, else ``info``."""
        if not self.passed:
            return Severity.ERROR
        return Severity.WARNING if self.warnings else Severity.INFO

    @property
    def failed(self) -> str:
        """The hash of the constraints that fail."""
        return PASSED if self.passed else _hash_of(self.errors)

    def outcome(self, told: str, severity: Severity) -> str:
        """Return a sink's known outcome after this one is sent.

        Parameters
        ----------
        told : str
            The outcome that it was told before.
        severity : Severity
            Minimum severity of what it is told.
        """
        warned = _parts(told)[1]
        if severity is not Severity.ERROR:
            warned = _hash_of(self.warnings) if self.warnings else ""
        return _BETWEEN.join((self.failed, warned)) if warned else self.failed

    def messages(self, severity: Severity) -> list[str]:
        """Return the messages of the constraints that fail, and of those that warn."""
        told = [failure_text(name, message) for name, message in self.errors]
        if severity is not Severity.ERROR:
            told += [f"warning: {failure_text(*warning)}" for warning in self.warnings]
        return told


@dataclass
class VerdictNews:
    """A check of a dataset with partitions whose outcome a sink is still to be told.

    Attributes
    ----------
    database : Database
    sink : str
    least : Severity
        Minimum severity of what the sink is told.
    standing : list of _Standing
        Their verdicts; after `claim`, those that were claimed.
    """

    database: Database
    sink: str
    least: Severity
    standing: list[_Standing] = field(default_factory=list)
    _outcomes: dict[tuple[int, str], str] = field(default_factory=dict, init=False)

    @property
    def numbers(self) -> tuple[int, ...]:
        """No incidents."""
        return ()

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"{self.standing[0].name} of {self.standing[0].dataset}"

    @property
    def severity(self) -> Severity:
        """The worst of its partitions'."""
        found = {self._severity_of(one) for one in self.standing}
        return next(one for one in reversed(Severity) if one in found)

    def _severity_of(self, one: _Standing) -> Severity:
        """Return the severity of a verdict; ``info`` if the sink is not told of it."""
        hidden = one.severity is Severity.WARNING and self.least is Severity.ERROR
        return Severity.INFO if hidden else one.severity

    def claim(self, now: datetime) -> bool:
        """Claim what is still due; return False if that is nothing."""
        subject = self.standing[:1]

        def work(connection: Connection) -> None:
            lock_clock(connection)
            known = _notices(connection, self.sink)
            claimed[:] = [one for one in self.standing if _is_news(one, known, self.least, now)]
            self._outcomes.clear()
            for one in claimed:
                told = _told(one, known)
                outcome = self._outcomes[one.dataset_id, one.subject] = one.outcome(
                    told, self.least
                )
                _keep_claim(connection, one, outcome, self.sink, known, now)

        claimed: list[_Standing] = []
        self.database.write(work)
        self.standing = claimed or subject
        return bool(claimed)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        first = self.standing[0]
        of: dict[Severity, dict[str, list[str]]] = {severity: {} for severity in Severity}
        for one in self.standing:
            of[self._severity_of(one)][one.partition] = one.messages(self.least)
        return verdict_message(
            first.dataset,
            first.name,
            of[Severity.ERROR],
            list(of[Severity.INFO]),
            url,
            warned=of[Severity.WARNING],
        )

    def settle(self, now: datetime, error: str) -> None:
        """Record that it was sent, or the error."""
        n = s.verdict_notice.c

        def work(connection: Connection) -> None:
            for (of, subject), outcome in self._outcomes.items():
                sent = {"sent_at": now, "error": None, "told": outcome}
                connection.execute(
                    sa.update(s.verdict_notice)
                    .where(n.dataset_id == of, n.subject == subject)
                    .where(n.sink == self.sink, n.outcome == outcome, n.sent_at.is_(None))
                    .values(**({"error": error} if error else sent))
                )

        self.database.write(work)


def due_verdicts(
    database: Database,
    sink: str,
    datasets: Collection[str] | None,
    severity: Severity,
    now: datetime,
) -> list[VerdictNews]:
    """Return the checks whose outcome on some partitions a sink does not know yet.

    Those of a lower severity are left out; that a check passes again is told of all that were told.

    Raises
    ------
    UnknownDatasetError
    """
    found: dict[tuple[str, str], VerdictNews] = {}
    with database.read() as connection:
        wanted = None if datasets is None else [dataset_id(connection, d) for d in datasets]
        retired = retirements(connection)
        known = _notices(connection, sink)
        # What passes is news only to a sink that was told, or may have been, that it fails.
        standing = [
            one
            for one in (
                *_standing(connection, wanted, severity, told=bool(known)),
                *_last_runs(connection, wanted),
            )
            if one.dataset_id not in retired and _is_news(one, known, severity, now)
        ]
    for one in standing:
        news = found.setdefault((one.dataset, one.name), VerdictNews(database, sink, severity))
        news.standing.append(one)
    return list(found.values())


def _standing(
    connection: Connection, datasets: Collection[int] | None, severity: Severity, *, told: bool
) -> Iterator[_Standing]:
    """Yield the verdicts that stand; those that pass without a warning only to a sink that was told."""
    standing, d = standing_verdicts(datasets), s.dataset.c
    v = standing.c
    failed = v.passed == 0
    if severity is not Severity.ERROR:
        failed |= v.result.contains(f'"{WARNINGS}": [', autoescape=True)
    result = sa.case((failed, v.result), else_="")
    query = (
        sa.select(v.dataset_id, d.name, v.name, v.partition, v.passed, result, v.checked_at)
        .join_from(standing, s.dataset, d.id == v.dataset_id)
        .order_by(d.name, v.name, v.partition)
    )
    if not told:
        query = query.where(failed)
    for of, dataset, name, partition, passed, text, checked_at in connection.execute(query):
        errors, warnings = _read(text)
        yield _Standing(of, dataset, name, partition, bool(passed), errors, warnings, checked_at)


def _last_runs(connection: Connection, datasets: Collection[int] | None) -> Iterator[_Standing]:
    """Yield the last run of each dataset that ended by itself, as a verdict on the whole dataset.

    It passed if it is complete and no analyzer failed.
    """
    r, d = s.run.c, s.dataset.c
    ended = r.status.in_([RunStatus.COMPLETE.value, RunStatus.FAILED.value])
    last = sa.select(sa.func.max(r.id)).where(ended).group_by(r.dataset_id)
    query = (
        sa.select(d.id, d.name, r.status, r.error, r.failed, r.finished_at)
        .join_from(s.run, s.dataset, d.id == r.dataset_id)
        .where(r.id.in_(last))
        .order_by(d.name)
    )
    if datasets is not None:
        query = query.where(d.id.in_(datasets))
    for of, dataset, status, error, failed, finished_at in connection.execute(query):
        passed = status == RunStatus.COMPLETE and not failed
        errors = []
        if status != RunStatus.COMPLETE:
            errors.append((RUN, error or "it failed"))
        elif failed:
            errors.append((RUN, f"{failed} analyzer{'s' * (failed > 1)} failed"))
        yield _Standing(of, dataset, RUN, "", passed, errors, (), finished_at)


def _read(text: str) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """Return what fails and what warns in a stored verdict; nothing of JSON of a user's own."""
    try:
        found = CheckResult.from_json(text)
    except RuleError:
        return (), ()
    return found.error_messages, found.warnings


def _hash_of(told: Sequence[tuple[str, str]]) -> str:
    """Return the hash of the names of constraints."""
    return key_of(canonical_json(sorted({name for name, _ in told})))


def _parts(outcome: str) -> tuple[str, str]:
    """Return the hashes of what fails and of what warns."""
    failed, _, warned = outcome.partition(_BETWEEN)
    return failed, warned


def _notices(connection: Connection, sink: str) -> dict[tuple[int, str], Any]:
    n = s.verdict_notice.c
    rows = connection.execute(sa.select(s.verdict_notice).where(n.sink == sink))
    return {(row.dataset_id, row.subject): row for row in rows}


def _told(one: _Standing, known: Mapping[tuple[int, str], Any]) -> str:
    """Return the outcome that a sink was told last."""
    notice = known.get((one.dataset_id, one.subject))
    return PASSED if notice is None else str(notice.told)


def _is_news(
    one: _Standing, known: Mapping[tuple[int, str], Any], severity: Severity, now: datetime
) -> bool:
    """Return whether a verdict is due for a sink, given the notices sent to it."""
    told = _told(one, known)
    outcome = one.outcome(told, severity)
    if outcome == told:
        return False
    notice = known.get((one.dataset_id, one.subject))
    return notice is None or outcome != notice.outcome or is_due(notice, now)


def _keep_claim(
    connection: Connection,
    one: _Standing,
    outcome: str,
    sink: str,
    known: Mapping[tuple[int, str], Any],
    now: datetime,
) -> None:
    notice: Any = known.get((one.dataset_id, one.subject))
    n = s.verdict_notice.c
    anew = notice is None or outcome != notice.outcome
    values = {
        "outcome": outcome,
        "attempts": 1 if anew else notice.attempts + 1,
        "tried_at": now,
        "sent_at": None,
        "error": None,
    }
    key = {"dataset_id": one.dataset_id, "subject": one.subject, "sink": sink}
    if notice is None:
        connection.execute(sa.insert(s.verdict_notice).values(**key, told=PASSED, **values))
    else:
        of = (n.dataset_id == one.dataset_id) & (n.subject == one.subject) & (n.sink == sink)
        connection.execute(sa.update(s.verdict_notice).where(of).values(**values))
