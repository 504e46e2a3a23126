"""Claims on notifications of verdicts: each sink is told once that a check fails, and that it passes again.

A sink is told of an outcome: that a partition passes, or by which of its constraints it fails. Numbers
that change while the same constraints fail are no news.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.notifications.claims import PAUSES, is_due
from tidegauge.notifications.messages import verdict_message
from tidegauge.repository.detectors.severity import Severity
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.queries import dataset_id
from tidegauge.repository.store.verdicts import standing_verdicts
from tidegauge.rules.result import CheckResult

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PASSED = ""
"""Outcome of a verdict that passed, which is what a sink believes that was never told anything."""


@dataclass(frozen=True)
class _Standing:
    """The newest verdict of a check on the current content of a partition."""

    dataset_id: int
    dataset: str
    name: str
    partition: str
    passed: bool
    result: str
    checked_at: datetime

    @property
    def subject(self) -> str:
        """The key of what a sink is told about."""
        return key_of(canonical_json([self.name, self.partition]))

    @property
    def outcome(self) -> str:
        """The hash of the constraints that fail."""
        if self.passed:
            return PASSED
        return key_of(canonical_json(sorted({name for name, _ in self._failures})))

    @property
    def messages(self) -> list[str]:
        """The messages of the constraints that fail; of a verdict that is not tidegauge's, none."""
        return [f"{name}: {message}" for name, message in self._failures]

    @property
    def _failures(self) -> Sequence[tuple[str, str]]:
        try:
            return CheckResult.from_json(self.result).error_messages
        except RuleError:  # JSON of a user's own, which may hold records
            return ()


@dataclass
class VerdictNews:
    """A check of a dataset with partitions whose outcome a sink is still to be told.

    Attributes
    ----------
    database : Database
    sink : str
    standing : list of _Standing
        Their verdicts; after `claim`, those that were claimed.
    """

    database: Database
    sink: str
    standing: list[_Standing] = field(default_factory=list)

    @property
    def number(self) -> None:
        """No incident's."""

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"{self.standing[0].name} of {self.standing[0].dataset}"

    @property
    def severity(self) -> Severity:
        """``error`` if a partition fails, else ``info``."""
        return Severity.INFO if all(one.passed for one in self.standing) else Severity.ERROR

    def claim(self, now: datetime) -> bool:
        """Claim what is still due; return False if that is nothing."""
        subject = self.standing[:1]

        def work(connection: Connection) -> None:
            lock_clock(connection)
            known = _notices(connection, self.sink)
            claimed[:] = [one for one in self.standing if _is_news(one, known, now)]
            for one in claimed:
                _keep_claim(connection, one, self.sink, known, now)

        claimed: list[_Standing] = []
        self.database.write(work)
        self.standing = claimed or subject
        return bool(claimed)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        first = self.standing[0]
        failed = {one.partition: one.messages for one in self.standing if not one.passed}
        recovered = [one.partition for one in self.standing if one.passed]
        return verdict_message(first.dataset, first.name, failed, recovered, url)

    def settle(self, now: datetime, error: str) -> None:
        """Record that it was sent, or the error."""
        n = s.verdict_notice.c

        def work(connection: Connection) -> None:
            for one in self.standing:
                sent = {"sent_at": now, "error": None, "told": one.outcome}
                connection.execute(
                    sa.update(s.verdict_notice)
                    .where(n.dataset_id == one.dataset_id, n.subject == one.subject)
                    .where(n.sink == self.sink, n.outcome == one.outcome, n.sent_at.is_(None))
                    .values(**({"error": error} if error else sent))
                )

        self.database.write(work)


def due_verdicts(
    database: Database, sink: str, datasets: Collection[str] | None, now: datetime
) -> list[VerdictNews]:
    """Return the checks whose outcome on some partitions a sink does not know yet.

    Raises
    ------
    UnknownDatasetError
    """
    found: dict[tuple[str, str], VerdictNews] = {}
    with database.read() as connection:
        wanted = None if datasets is None else [dataset_id(connection, d) for d in datasets]
        known = _notices(connection, sink)
        # What passes is news only to a sink that was told, or may have been, that it fails.
        standing = [
            one
            for one in _standing(connection, wanted, failed_only=not known)
            if _is_news(one, known, now)
        ]
    for one in standing:
        news = found.setdefault((one.dataset, one.name), VerdictNews(database, sink))
        news.standing.append(one)
    return list(found.values())


def _standing(
    connection: Connection, datasets: Collection[int] | None, *, failed_only: bool
) -> Iterator[_Standing]:
    standing, d = standing_verdicts(), s.dataset.c
    v = standing.c
    result = sa.case((v.passed == 0, v.result), else_="")
    query = (
        sa.select(v.dataset_id, d.name, v.name, v.partition, v.passed, result, v.checked_at)
        .join_from(standing, s.dataset, d.id == v.dataset_id)
        .order_by(d.name, v.name, v.partition)
    )
    if datasets is not None:
        query = query.where(v.dataset_id.in_(datasets))
    if failed_only:
        query = query.where(v.passed == 0)
    for of, dataset, name, partition, passed, *told in connection.execute(query):
        yield _Standing(of, dataset, name, partition, bool(passed), *told)


def _notices(connection: Connection, sink: str) -> dict[tuple[int, str], Any]:
    n = s.verdict_notice.c
    rows = connection.execute(sa.select(s.verdict_notice).where(n.sink == sink))
    return {(row.dataset_id, row.subject): row for row in rows}


def _is_news(one: _Standing, known: Mapping[tuple[int, str], Any], now: datetime) -> bool:
    """Return whether a sink that was told the known notices is due to be told a verdict."""
    notice, outcome = known.get((one.dataset_id, one.subject)), one.outcome
    if notice is None:
        return outcome != PASSED
    if outcome == notice.told:
        return False
    return _is_anew(one, notice) or is_due(notice, now)


def _is_anew(one: _Standing, notice: Any) -> bool:
    """Return whether attempts are counted anew: for another outcome, or one that came back."""
    given_up = notice.attempts > len(PAUSES)
    return one.outcome != notice.outcome or (given_up and bool(one.checked_at > notice.tried_at))


def _keep_claim(
    connection: Connection,
    one: _Standing,
    sink: str,
    known: Mapping[tuple[int, str], Any],
    now: datetime,
) -> None:
    notice: Any = known.get((one.dataset_id, one.subject))
    n = s.verdict_notice.c
    anew = notice is None or _is_anew(one, notice)
    values = {
        "outcome": one.outcome,
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
