"""Claims on notifications, so that one process sends each piece of news to each sink once.

The row of a sink and an incident in the table ``notice`` says what the sink knows. Once a message was sent,
``tried_at`` is the time of the last commit that it took into account, so that what the sink was told can be
compared with what is known now. While further news of the incident is being sent, ``sent_at`` keeps that
time and ``error`` is not null.

Of verdicts each sink is told once that a check fails, and that it passes again. A sink is told of an outcome: that
a partition passes, or which of its constraints fail and which warn. Numbers that change while the same
constraints fail are no news. A sink that is told of errors only keeps what it was told of warnings before, so
that both may be asked for in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.notifications.messages import (
    CLEAREST,
    RUN,
    closing_message,
    group_message,
    incident_message,
    over_message,
    verdict_message,
)
from tidegauge.repository.incidents.anomaly import Anomaly, is_clearly_worse, read_anomalies
from tidegauge.repository.incidents.common_cause import IncidentGroup, grouped_incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    LastLabels,
    last_automatic_note,
    last_labels,
    triage,
)
from tidegauge.repository.store.listing import retirements
from tidegauge.repository.store.queries import Window, dataset_id
from tidegauge.repository.store.rows import Severity
from tidegauge.repository.store.verdicts import standing_verdicts
from tidegauge.rules.verdicts import WARNINGS, CheckResult, failure_text

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 24 * 60))
"""Delays before retries. The last one repeats: what is still news is never given up."""
LOST = timedelta(hours=1)
"""Lease of a claim: after it, a claim without a result counts as abandoned."""
OVER_NEWS_AGE = timedelta(days=7)
"""Age up to which an incident that is over is news: a new sink is not told of all that ever was."""
MAX_SINGLE_MESSAGES = 5
"""Incidents of a dataset that are over, or closed ones, of which more share a message."""


@dataclass
class IncidentNews:
    """News of an incident that a sink is still to be told, or of several in one message.

    Attributes
    ----------
    database : Database
    sink : str
    incidents : sequence of mapping
        Rows as `Repository.incidents` returns them, the gravest first, with a ``note`` that says why they
        are sent, empty for one that is open and new; after `claim`, those that were claimed.
    as_of : datetime
        The time of the last commit when they were read.
    told_at : mapping of int to datetime or None
        What the sink knows of each incident: all until this time; None if nothing.
    group : IncidentGroup, optional
        Their group, which other incidents may belong to, too.
    """

    database: Database
    sink: str
    incidents: Sequence[Mapping[str, Any]]
    as_of: datetime
    told_at: Mapping[int, datetime | None] = field(default_factory=dict)
    group: IncidentGroup | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Their ids."""
        return tuple(int(one["id"]) for one in self.incidents)

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"incident {self.numbers[0]}"

    @property
    def severity(self) -> Severity:
        """The gravest severity; of closed incidents it is information."""
        if not self.incidents[0]["series"]:
            return Severity.INFO
        return Severity(self.incidents[0]["severity"])

    def claim(self, now: datetime) -> bool:
        """Claim them for their sink; return False if other processes did."""
        self.incidents = [
            one
            for one in self.incidents
            if claim(self.database, int(one["id"]), self.sink, now, self.told_at.get(one["id"]))
        ]
        return bool(self.incidents)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        if not self.incidents[0]["series"]:
            return closing_message(self.incidents, url)
        if len(self.incidents) > 1:
            if self.group is None:
                return over_message(self.incidents, url)
            return group_message(self.group, self.incidents, url)
        explanations = clearest(self.database, self.numbers[0], CLEAREST)
        return incident_message(self.incidents[0], explanations, url, self.group)

    def settle(self, now: datetime, error: str) -> None:
        """Record that they were sent, or the error."""
        for number in self.numbers:
            settle(self.database, number, self.sink, now, error, self.as_of)


def due_news(
    database: Database,
    sink: str,
    datasets: Collection[str] | None,
    severity: Severity,
    now: datetime,
) -> list[IncidentNews]:
    """Return what a sink is still to be told of incidents, the oldest first; those of a group together.

    Incidents are news if they are open and the sink does not know them, or if they began and were over
    between two looks at the data; if they got clearly worse since the sink was told, or went beyond what a
    person labelled; and if they were closed after the sink was told. Snoozed ones wait.

    Raises
    ------
    UnknownDatasetError
    """
    grave = list(Severity)[list(Severity).index(severity) :]
    due: list[dict[str, Any]] = []
    with database.read() as connection:
        for name in datasets or ():
            dataset_id(connection, name)
        rows, groups = grouped_incident_rows(connection, None, None, Window())
        reader = _NewsReader(connection, sink, now)
        for row in sorted(rows, key=lambda row: row["id"]):
            asked = datasets is None or row["dataset"] in datasets
            if asked and row["severity"] in grave:
                note = reader.news_of(row)
                if note is not None:
                    due.append({**row, "note": note})
    order = list(Severity)
    return [
        IncidentNews(
            database,
            sink,
            sorted(some, key=lambda row: -order.index(row["severity"])),
            reader.as_of,
            {row["id"]: reader.told_at(row["id"]) for row in some},
            groups.get(some[0]["id"]) if some[0]["group"] else None,
        )
        for some in _messages(due)
    ]


def _messages(due: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the incidents of each message: those of a group, and where there are many, similar ones."""

    def similar(row: Mapping[str, Any]) -> tuple[Any, ...]:
        if not row["series"]:
            return ("closed",)
        return ("group", row["group"]) if row["group"] else (row["status"], row["dataset"])

    counts = Counter(map(similar, due))
    messages: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in due:
        key = similar(row)
        together = row["group"] or (row["status"] != "open" and counts[key] > MAX_SINGLE_MESSAGES)
        messages.setdefault(key if together else ("incident", row["id"]), []).append(row)
    return list(messages.values())


class _NewsReader:
    """Compares what a sink knows of incidents with what is known now."""

    def __init__(self, connection: Connection, sink: str, now: datetime) -> None:
        n = s.notice.c
        self._connection, self._now = connection, now
        query = sa.select(n.incident_id, n.attempts, n.tried_at, n.sent_at, n.error)
        notices = connection.execute(query.where(n.sink == sink))
        self._notices = {row.incident_id: row for row in notices}
        self._labels = last_labels(connection)
        self._asleep = {
            number
            for number, state in triage(connection).items()
            if state.snoozed_until is not None and state.snoozed_until > now
        }
        last = connection.execute(sa.select(sa.func.max(s.commit.c.committed_at))).scalar()
        self.as_of: datetime = last or now

    def told_at(self, incident: int) -> datetime | None:
        """Return the time up to which the sink knows of an incident; None if it knows nothing."""
        notice = self._notices.get(incident)
        return None if notice is None else told_at(notice)

    def news_of(self, row: Mapping[str, Any]) -> str | None:
        """Return why an incident is news to the sink, empty if it is new and open; None if it is no news."""
        notice, told = self._notices.get(row["id"]), self.told_at(row["id"])
        if notice is not None and not (is_settled(notice) or may_retry(notice, self._now)):
            return None
        is_open = row["status"] == "open" and row["id"] not in self._asleep
        if told is not None:
            changed = row["updated_at"] > told
            return self._further_news(row, told, is_open=is_open) if changed else None
        if not row["series"]:
            return None
        return "" if is_open else self._missed(row, tried=notice is not None)

    def _further_news(self, row: Mapping[str, Any], told: datetime, *, is_open: bool) -> str | None:
        """Return the news of an incident that changed since the sink was told of it."""
        if not row["series"]:
            was_there = bool(self._anomalies(row["id"], told))
            return last_automatic_note(self._connection, row["id"]) if was_there else None
        if is_open or self._is_just_over(row, row["updated_at"]):
            return self._worse(row, told)
        return None

    def _missed(self, row: Mapping[str, Any], *, tried: bool) -> str | None:
        """Return the news of an incident that was over before the sink could be told of it."""
        last = self._labels.get(row["id"], LastLabels())
        at_once = last.at == row["opened_at"]
        if not self._is_just_over(row, row["opened_at"]) or not (tried or at_once):
            return None
        return self._over(row) if self._has_data(row["id"]) else None

    def _worse(self, row: Mapping[str, Any], told: datetime) -> str | None:
        """Return the news of an incident that is worse than the sink knows."""
        before, after = self._anomalies(row["id"], told), self._anomalies(row["id"])
        beyond_at = self._labels.get(row["id"], LastLabels()).beyond_at
        if beyond_at is not None and beyond_at > told:
            note = "it goes beyond what was labelled"
        elif is_clearly_worse(before, after):
            note = "it got worse since it was sent" if before else "it is back"
        else:
            return None
        return note if row["status"] == "open" else f"{note}; {self._over(row)}"

    def _is_just_over(self, row: Mapping[str, Any], at: datetime) -> bool:
        """Return whether detection, not a person, resolved an incident a short time ago."""
        by = self._labels.get(row["id"], LastLabels()).by
        automatic = row["status"] == "resolved" and by == AUTOMATIC_AUTHOR
        return automatic and self._now - at <= OVER_NEWS_AGE

    def _anomalies(self, incident: int, told: datetime | None = None) -> list[Anomaly]:
        """Return the anomalies of an incident now, or up to a time."""
        commit = None
        if told is not None:
            c = s.commit.c
            until = sa.select(sa.func.max(c.id)).where(c.committed_at <= told)
            commit = self._connection.execute(until).scalar() or 0
        condition = s.finding.c.incident_id == incident
        return read_anomalies(self._connection, condition, {}, commit)

    def _over(self, row: Mapping[str, Any]) -> str:
        """Return since which partition an incident is over."""
        c, p, later = s.course.c, s.partition.c, s.partition.alias("later")
        query = (
            sa.select(later.c.name)
            .join_from(s.course, s.partition, p.id == c.last_partition_id)
            .join(later, (later.c.dataset_id == p.dataset_id) & (later.c.segment == p.segment))
            .where(c.incident_id == row["id"], s.holds(s.course), later.c.time > p.time)
            .order_by(later.c.time)
            .limit(1)
        )
        since = self._connection.execute(query).scalar()
        return "it is over" if since is None else f"it is over since {since}"

    def _has_data(self, incident: int) -> bool:
        """Return whether a partition with an anomaly of an incident is still in the table."""
        n, gone = s.anomaly.c, s.absence.c
        missing = sa.exists().where(gone.partition_id == n.partition_id, s.holds(s.absence))
        query = (
            sa.select(n.id)
            .join_from(s.finding, s.anomaly, n.id == s.finding.c.anomaly_id)
            .where(s.finding.c.incident_id == incident, s.holds(s.finding), ~missing)
        )
        return self._connection.execute(query.limit(1)).first() is not None


def told_at(notice: Any) -> datetime | None:
    """Return the time up to which a sink knows of an incident; None if it knows nothing."""
    at: datetime | None = notice.tried_at if is_settled(notice) else notice.sent_at
    return at


def is_settled(notice: Any) -> bool:
    """Return whether a notification was sent, and no other is being sent."""
    return notice.sent_at is not None and notice.error is None


def may_retry(notice: Any, now: datetime) -> bool:
    """Return whether the pause after a claim without success is over."""
    pause = PAUSES[min(notice.attempts, len(PAUSES)) - 1] if notice.error else LOST
    return bool(now - notice.tried_at >= pause)


def is_due(notice: Any, now: datetime) -> bool:
    """Return whether a notification that was claimed before is due for another attempt."""
    return notice.sent_at is None and may_retry(notice, now)


def clearest(database: Database, incident: int, most: int) -> Sequence[str]:
    """Return the explanations of an incident's highest-scoring anomalies, without duplicates."""
    f = s.finding.c
    query = (
        sa.select(f.explanation)
        .where(f.incident_id == incident, s.holds(s.finding))
        .group_by(f.explanation)
        .order_by(sa.func.max(f.score).desc(), f.explanation)
        .limit(most)
    )
    with database.read() as connection:
        return list(connection.execute(query).scalars())


def claim(
    database: Database, incident: int, sink: str, now: datetime, told: datetime | None = None
) -> bool:
    """Claim the notification of a sink of an incident; return False if sent, claimed or not yet due.

    Parameters
    ----------
    database : Database
    incident : int
    sink : str
    now : datetime
    told : datetime, optional
        The time up to which the sink knew of the incident when the news was found. The claim fails if it
        was told more meanwhile.
    """
    of = (s.notice.c.incident_id == incident) & (s.notice.c.sink == sink)

    def work(connection: Connection) -> bool:
        lock_clock(connection)
        known = connection.execute(sa.select(s.notice).where(of)).one_or_none()
        if known is None:
            values = {"incident_id": incident, "sink": sink, "attempts": 1, "tried_at": now}
            connection.execute(sa.insert(s.notice).values(**values))
            return True
        settled = is_settled(known)
        if told_at(known) != told or not (settled or may_retry(known, now)):
            return False
        values = {
            "attempts": 1 if settled else known.attempts + 1,
            "tried_at": now,
            "sent_at": told,
            "error": None if told is None else _SENDING,
        }
        connection.execute(sa.update(s.notice).where(of).values(**values))
        return True

    return database.write(work)


_SENDING = ""
"""Stands in place of an error while further news of an incident is being sent."""


def settle(
    database: Database, incident: int, sink: str, now: datetime, error: str, as_of: datetime
) -> None:
    """Record the result of a claim: sent, with all that was known until a time, or an error."""
    n = s.notice.c
    unsettled = n.sent_at.is_(None) | n.error.is_not(None)
    of = (n.incident_id == incident) & (n.sink == sink) & unsettled
    sent = {"sent_at": now, "tried_at": as_of, "error": None}
    values = {"error": error} if error else sent

    def work(connection: Connection) -> None:
        connection.execute(sa.update(s.notice).where(of).values(**values))

    database.write(work)


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
            errors.append((RUN, f"{plural(failed, 'analyzer')} failed"))
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
