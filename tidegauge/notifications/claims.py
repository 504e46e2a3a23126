"""Claims on notifications: each piece of news is sent to each sink once, by one process.

A row of the table ``notice`` records what a sink received about an incident. After a message was sent,
``tried_at`` is the time of the last commit that the message covers, so that the incident as it was sent can
be compared with the present one. While a further message is being sent, ``sent_at`` keeps that time and
``error`` is not null.

For a verdict, a sink receives one message when a check fails and one when it passes again. The outcome that
is compared is either "passed" or the sets of failing and warning constraints: numbers that change while the
same constraints fail are not news. A sink that receives errors only keeps the warnings that it received
before, so that one sink can be used for both.
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
    MAX_EXPLANATIONS,
    RUN_NAME,
    closing_message,
    group_message,
    incident_message,
    resolved_message,
    verdict_message,
)
from tidegauge.repository.incidents.anomaly import Anomaly, is_clearly_worse, read_anomalies
from tidegauge.repository.incidents.common_cause import IncidentGroup, grouped_incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    NEW_LEVEL,
    NEW_LEVEL_STATUS,
    LastLabels,
    last_automatic_note,
    last_labels,
    triage,
)
from tidegauge.repository.store.listing import retirements
from tidegauge.repository.store.queries import Window, dataset_id
from tidegauge.repository.store.rows import Severity
from tidegauge.repository.store.verdicts import standing_verdicts
from tidegauge.rules.verdicts import WARNINGS_KEY, CheckResult, failure_sentence

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


RETRY_DELAYS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 24 * 60))
"""Delays before retries. The last delay repeats, so that no message is abandoned."""
CLAIM_LEASE = timedelta(hours=1)
"""Time after which a claim without a result counts as abandoned."""
MAX_RESOLVED_NEWS_AGE = timedelta(days=7)
"""Maximum age at which a resolved incident is still news, so that a new sink does not receive the whole history."""
MAX_SINGLE_MESSAGES = 5
"""Maximum number of resolved or closed incidents that get a message each; more share one."""


@dataclass
class IncidentNews:
    """News of one incident, or of several in one message, that a sink has not received yet.

    Attributes
    ----------
    database : Database
    sink : str
    incidents : sequence of mapping
        Rows of `Repository.incidents`, the most severe first. Their ``note`` is the reason for sending them; it is
        empty for a new open incident. After `claim`, only the claimed incidents.
    as_of : datetime
        Time of the last commit when the incidents were read.
    informed_at : mapping of int to datetime or None
        By incident, the time up to which the sink is informed; None if the sink has received nothing.
    group : IncidentGroup, optional
        The group of the incidents, which can contain further incidents.
    """

    database: Database
    sink: str
    incidents: Sequence[Mapping[str, Any]]
    as_of: datetime
    informed_at: Mapping[int, datetime | None] = field(default_factory=dict)
    group: IncidentGroup | None = None

    @property
    def incident_ids(self) -> tuple[int, ...]:
        """The ids of the incidents."""
        return tuple(int(row["id"]) for row in self.incidents)

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"incident {self.incident_ids[0]}"

    @property
    def severity(self) -> Severity:
        """The highest severity; closed incidents count as information."""
        if not self.incidents[0]["series"]:
            return Severity.INFO
        return Severity(self.incidents[0]["severity"])

    def claim(self, now: datetime) -> bool:
        """Claim the incidents for the sink; return False if other processes claimed them all."""
        self.incidents = [
            row
            for row in self.incidents
            if claim(self.database, int(row["id"]), self.sink, now, self.informed_at.get(row["id"]))
        ]
        return bool(self.incidents)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        if not self.incidents[0]["series"]:
            return closing_message(self.incidents, url)
        if len(self.incidents) > 1:
            if self.group is None:
                return resolved_message(self.incidents, url)
            return group_message(self.group, self.incidents, url)
        explanations = clearest_explanations(self.database, self.incident_ids[0], MAX_EXPLANATIONS)
        return incident_message(self.incidents[0], explanations, url, self.group)

    def settle(self, now: datetime, error: str) -> None:
        """Record that the message was sent, or its error."""
        for number in self.incident_ids:
            settle(self.database, number, self.sink, now, error, self.as_of)


def due_news(
    database: Database,
    sink: str,
    datasets: Collection[str] | None,
    severity: Severity,
    now: datetime,
) -> list[IncidentNews]:
    """Return the news of incidents that a sink has not received, the oldest first, one entry per message.

    An incident is news if it is open and the sink has not received it, if it began and ended between two
    runs, if it became clearly worse since the last message or exceeds what a person labeled, or if it was
    closed after the last message. Snoozed incidents wait.

    Raises
    ------
    UnknownDatasetError
    """
    severities = list(Severity)[list(Severity).index(severity) :]
    due_rows: list[dict[str, Any]] = []
    with database.read() as connection:
        for name in datasets or ():
            dataset_id(connection, name)
        rows, groups = grouped_incident_rows(connection, None, None, Window())
        reader = _NewsReader(connection, sink, now)
        for row in sorted(rows, key=lambda row: row["id"]):
            is_requested = datasets is None or row["dataset"] in datasets
            if is_requested and row["severity"] in severities:
                note = reader.news_of(row)
                if note is not None:
                    due_rows.append({**row, "note": note})
    order = list(Severity)
    return [
        IncidentNews(
            database,
            sink,
            sorted(rows_of_message, key=lambda row: -order.index(row["severity"])),
            reader.as_of,
            {row["id"]: reader.informed_at(row["id"]) for row in rows_of_message},
            groups.get(rows_of_message[0]["id"]) if rows_of_message[0]["group"] else None,
        )
        for rows_of_message in _messages(due_rows)
    ]


def _messages(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group incidents into messages: by incident group, and if there are many, by similarity."""

    def similar(row: Mapping[str, Any]) -> tuple[Any, ...]:
        if not row["series"]:
            return ("closed",)
        if row["group"]:
            return "group", row["group"]
        return (row["status"], row["dataset"]) if row["status"] == "open" else (row["status"],)

    counts = Counter(map(similar, rows))
    messages: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = similar(row)
        together = row["group"] or (row["status"] != "open" and counts[key] > MAX_SINGLE_MESSAGES)
        messages.setdefault(key if together else ("incident", row["id"]), []).append(row)
    return list(messages.values())


class _NewsReader:
    """Compares the messages that a sink received with the current incidents."""

    def __init__(self, connection: Connection, sink: str, now: datetime) -> None:
        notice = s.notice.c
        self._connection, self._now = connection, now
        query = sa.select(
            notice.incident_id, notice.attempts, notice.tried_at, notice.sent_at, notice.error
        )
        notices = connection.execute(query.where(notice.sink == sink))
        self._notices = {row.incident_id: row for row in notices}
        self._labels = last_labels(connection)
        self._asleep = {
            number
            for number, state in triage(connection).items()
            if state.snoozed_until is not None and state.snoozed_until > now
        }
        last_commit_time = connection.execute(
            sa.select(sa.func.max(s.commit.c.committed_at))
        ).scalar()
        self.as_of: datetime = last_commit_time or now

    def informed_at(self, incident: int) -> datetime | None:
        """Return the time up to which the sink is informed about an incident; None if it is not."""
        notice = self._notices.get(incident)
        return None if notice is None else informed_until(notice)

    def news_of(self, row: Mapping[str, Any]) -> str | None:
        """Return why an incident is news for the sink; empty if it is new and open, None if it is not news."""
        notice, informed_at = self._notices.get(row["id"]), self.informed_at(row["id"])
        if notice is not None and not (is_settled(notice) or may_retry(notice, self._now)):
            return None
        is_open = row["status"] == "open" and row["id"] not in self._asleep
        if informed_at is not None:
            changed = row["updated_at"] > informed_at
            return self._further_news(row, informed_at, is_open=is_open) if changed else None
        if not row["series"]:
            return None
        return "" if is_open else self._missed(row, tried=notice is not None)

    def _further_news(
        self, row: Mapping[str, Any], informed_at: datetime, *, is_open: bool
    ) -> str | None:
        """Return the news of an incident that changed since the last message about it."""
        if not row["series"]:
            was_there = bool(self._anomalies(row["id"], informed_at))
            return last_automatic_note(self._connection, row["id"]) if was_there else None
        if is_open or self._is_recently_resolved(row, row["updated_at"]):
            return self._worse(row, informed_at)
        return None

    def _missed(self, row: Mapping[str, Any], *, tried: bool) -> str | None:
        """Return the news of an incident that ended before a message about it could be sent."""
        last_label = self._labels.get(row["id"], LastLabels())
        at_once = last_label.at == row["opened_at"]
        if not self._is_recently_resolved(row, row["opened_at"]) or not (tried or at_once):
            return None
        return self._end_phrase(row) if self._has_data(row["id"]) else None

    def _worse(self, row: Mapping[str, Any], informed_at: datetime) -> str | None:
        """Return the news of an incident that is worse than in the last message about it."""
        anomalies_before, anomalies_now = (
            self._anomalies(row["id"], informed_at),
            self._anomalies(row["id"]),
        )
        beyond_at = self._labels.get(row["id"], LastLabels()).beyond_at
        if beyond_at is not None and beyond_at > informed_at:
            note = "it goes beyond the label"
        elif is_clearly_worse(anomalies_before, anomalies_now):
            note = "it has become worse since it was sent" if anomalies_before else "it is back"
        else:
            return None
        return note if row["status"] == "open" else f"{note}; {self._end_phrase(row)}"

    def _is_recently_resolved(self, row: Mapping[str, Any], ended_at: datetime) -> bool:
        """Return whether detection, not a person, resolved an incident a short time ago."""
        author = self._labels.get(row["id"], LastLabels()).by
        automatic = row["status"] in {"resolved", NEW_LEVEL_STATUS} and author == AUTOMATIC_AUTHOR
        return automatic and self._now - ended_at <= MAX_RESOLVED_NEWS_AGE

    def _anomalies(self, incident: int, time: datetime | None = None) -> list[Anomaly]:
        """Return the anomalies of an incident now, or up to a time."""
        commit = None
        if time is not None:
            commits = s.commit.c
            last_commit = sa.select(sa.func.max(commits.id)).where(commits.committed_at <= time)
            commit = self._connection.execute(last_commit).scalar() or 0
        condition = s.finding.c.incident_id == incident
        return read_anomalies(self._connection, condition, {}, commit)

    def _end_phrase(self, row: Mapping[str, Any]) -> str:
        """Return a phrase with the first partition after the end of an incident."""
        if row["status"] == NEW_LEVEL_STATUS:
            return f"it {NEW_LEVEL}"
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
        return "back to normal" if since is None else f"back to normal since {since}"

    def _has_data(self, incident: int) -> bool:
        """Return whether a partition with an anomaly of an incident is still in the table."""
        anomaly, gone = s.anomaly.c, s.absence.c
        missing = sa.exists().where(gone.partition_id == anomaly.partition_id, s.holds(s.absence))
        query = (
            sa.select(anomaly.id)
            .join_from(s.finding, s.anomaly, anomaly.id == s.finding.c.anomaly_id)
            .where(s.finding.c.incident_id == incident, s.holds(s.finding), ~missing)
        )
        return self._connection.execute(query.limit(1)).first() is not None


def informed_until(notice: Any) -> datetime | None:
    """Return the time up to which a sink is informed about an incident; None if it is not."""
    time: datetime | None = notice.tried_at if is_settled(notice) else notice.sent_at
    return time


def is_settled(notice: Any) -> bool:
    """Return whether a notification was sent and no further one is being sent."""
    return notice.sent_at is not None and notice.error is None


def may_retry(notice: Any, now: datetime) -> bool:
    """Return whether the delay after an unsuccessful claim has passed."""
    pause = (
        RETRY_DELAYS[min(notice.attempts, len(RETRY_DELAYS)) - 1] if notice.error else CLAIM_LEASE
    )
    return bool(now - notice.tried_at >= pause)


def is_due(notice: Any, now: datetime) -> bool:
    """Return whether a notification that was claimed before is due for another attempt."""
    return notice.sent_at is None and may_retry(notice, now)


def clearest_explanations(database: Database, incident: int, limit: int) -> Sequence[str]:
    """Return the explanations of an incident's highest-scoring anomalies, without duplicates."""
    finding = s.finding.c
    query = (
        sa.select(finding.explanation)
        .where(finding.incident_id == incident, s.holds(s.finding))
        .group_by(finding.explanation)
        .order_by(sa.func.max(finding.score).desc(), finding.explanation)
        .limit(limit)
    )
    with database.read() as connection:
        return list(connection.execute(query).scalars())


def claim(
    database: Database, incident: int, sink: str, now: datetime, informed_at: datetime | None = None
) -> bool:
    """Claim the notification of a sink of an incident; return False if sent, claimed or not yet due.

    Parameters
    ----------
    database : Database
    incident : int
    sink : str
    now : datetime
    informed_at : datetime, optional
        Time up to which the sink was informed when the news was read. The claim fails if another message
        was sent meanwhile.
    """
    is_notice = (s.notice.c.incident_id == incident) & (s.notice.c.sink == sink)

    def work(connection: Connection) -> bool:
        lock_clock(connection)
        notice = connection.execute(sa.select(s.notice).where(is_notice)).one_or_none()
        if notice is None:
            values = {"incident_id": incident, "sink": sink, "attempts": 1, "tried_at": now}
            connection.execute(sa.insert(s.notice).values(**values))
            return True
        was_settled = is_settled(notice)
        if informed_until(notice) != informed_at or not (was_settled or may_retry(notice, now)):
            return False
        values = {
            "attempts": 1 if was_settled else notice.attempts + 1,
            "tried_at": now,
            "sent_at": informed_at,
            "error": None if informed_at is None else _SENDING_AGAIN,
        }
        connection.execute(sa.update(s.notice).where(is_notice).values(**values))
        return True

    return database.write(work)


_SENDING_AGAIN = ""
"""Value of the error column while another message about an incident is being sent."""


def settle(
    database: Database, incident: int, sink: str, now: datetime, error: str, as_of: datetime
) -> None:
    """Record the result of a claim: an error, or that everything up to a time was sent."""
    notice = s.notice.c
    unsettled = notice.sent_at.is_(None) | notice.error.is_not(None)
    is_unsettled_notice = (notice.incident_id == incident) & (notice.sink == sink) & unsettled
    sent = {"sent_at": now, "tried_at": as_of, "error": None}
    values = {"error": error} if error else sent

    def work(connection: Connection) -> None:
        connection.execute(sa.update(s.notice).where(is_unsettled_notice).values(**values))

    database.write(work)


PASSED_OUTCOME = ""
"""Outcome of a passed verdict, which is also assumed for a sink that has received nothing."""
_OUTCOME_SEPARATOR = "/"
"""Separator, in an outcome, between the hash of the failing and the hash of the warning constraints."""


@dataclass(frozen=True)
class _CurrentVerdict:
    """The newest verdict of a check on the current content of a partition.

    If another program stored the verdict, messages contain only the failure, because its JSON can hold records.
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
        """The key of the check and partition in notifications."""
        return key_of(canonical_json([self.name, self.partition]))

    @property
    def severity(self) -> Severity:
        """``error`` for a failure, ``warning`` if there are only warnings, else ``info``."""
        if not self.passed:
            return Severity.ERROR
        return Severity.WARNING if self.warnings else Severity.INFO

    @property
    def failed(self) -> str:
        """The hash of the constraints that fail."""
        return PASSED_OUTCOME if self.passed else _hash_of(self.errors)

    def outcome(self, previous_outcome: str, severity: Severity) -> str:
        """Return the outcome that a sink has received once this verdict is sent.

        Parameters
        ----------
        previous_outcome : str
            The outcome that it received before.
        severity : Severity
            Minimum severity of messages to it.
        """
        warned = _parts(previous_outcome)[1]
        if severity is not Severity.ERROR:
            warned = _hash_of(self.warnings) if self.warnings else ""
        return _OUTCOME_SEPARATOR.join((self.failed, warned)) if warned else self.failed

    def messages(self, severity: Severity) -> list[str]:
        """Return the messages of failing and warning constraints."""
        messages = [failure_sentence(name, message) for name, message in self.errors]
        if severity is not Severity.ERROR:
            messages += [f"warning: {failure_sentence(*warning)}" for warning in self.warnings]
        return messages


@dataclass
class VerdictNews:
    """A check of a dataset, with the partitions whose outcome a sink has not received yet.

    Attributes
    ----------
    database : Database
    sink : str
    min_severity : Severity
        Minimum severity of messages to the sink.
    verdicts : list of _CurrentVerdict
        The verdicts of the partitions; after `claim`, only the claimed ones.
    """

    database: Database
    sink: str
    min_severity: Severity
    verdicts: list[_CurrentVerdict] = field(default_factory=list)
    _outcomes: dict[tuple[int, str], str] = field(default_factory=dict, init=False)

    @property
    def incident_ids(self) -> tuple[int, ...]:
        """No incidents."""
        return ()

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"{self.verdicts[0].name} of {self.verdicts[0].dataset}"

    @property
    def severity(self) -> Severity:
        """The highest severity of the partitions."""
        severities = {self._severity_of(verdict) for verdict in self.verdicts}
        return next(verdict for verdict in reversed(Severity) if verdict in severities)

    def _severity_of(self, verdict: _CurrentVerdict) -> Severity:
        """Return the severity of a verdict; ``info`` if it is below the sink's minimum."""
        hidden = verdict.severity is Severity.WARNING and self.min_severity is Severity.ERROR
        return Severity.INFO if hidden else verdict.severity

    def claim(self, now: datetime) -> bool:
        """Claim the verdicts that are still due; return False if there are none."""
        subject = self.verdicts[:1]

        def work(connection: Connection) -> None:
            lock_clock(connection)
            notices = _notices(connection, self.sink)
            claimed[:] = [
                verdict
                for verdict in self.verdicts
                if _is_news(verdict, notices, self.min_severity, now)
            ]
            self._outcomes.clear()
            for verdict in claimed:
                previous_outcome = _previous_outcome(verdict, notices)
                outcome = self._outcomes[verdict.dataset_id, verdict.subject] = verdict.outcome(
                    previous_outcome, self.min_severity
                )
                _keep_claim(connection, verdict, outcome, self.sink, notices, now)

        claimed: list[_CurrentVerdict] = []
        self.database.write(work)
        self.verdicts = claimed or subject
        return bool(claimed)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        first = self.verdicts[0]
        messages_by_severity: dict[Severity, dict[str, list[str]]] = {
            severity: {} for severity in Severity
        }
        for verdict in self.verdicts:
            messages_by_severity[self._severity_of(verdict)][verdict.partition] = verdict.messages(
                self.min_severity
            )
        return verdict_message(
            first.dataset,
            first.name,
            messages_by_severity[Severity.ERROR],
            list(messages_by_severity[Severity.INFO]),
            url,
            warned=messages_by_severity[Severity.WARNING],
        )

    def settle(self, now: datetime, error: str) -> None:
        """Record that the message was sent, or its error."""
        notice = s.verdict_notice.c

        def work(connection: Connection) -> None:
            for (dataset_number, subject), outcome in self._outcomes.items():
                sent = {"sent_at": now, "error": None, "told": outcome}
                connection.execute(
                    sa.update(s.verdict_notice)
                    .where(notice.dataset_id == dataset_number, notice.subject == subject)
                    .where(
                        notice.sink == self.sink,
                        notice.outcome == outcome,
                        notice.sent_at.is_(None),
                    )
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
    """Return the checks whose outcome on some partitions a sink has not received yet.

    Verdicts of a lower severity are left out. A recovery is news for every sink that received the failure.

    Raises
    ------
    UnknownDatasetError
    """
    news_by_check: dict[tuple[str, str], VerdictNews] = {}
    with database.read() as connection:
        dataset_numbers = (
            None if datasets is None else [dataset_id(connection, d) for d in datasets]
        )
        retired = retirements(connection)
        notices = _notices(connection, sink)
        # A passed verdict is news only for a sink that may have received the failure.
        standing = [
            verdict
            for verdict in (
                *_current_verdicts(
                    connection, dataset_numbers, severity, include_passed=bool(notices)
                ),
                *_last_runs(connection, dataset_numbers),
            )
            if verdict.dataset_id not in retired and _is_news(verdict, notices, severity, now)
        ]
    for verdict in standing:
        news = news_by_check.setdefault(
            (verdict.dataset, verdict.name), VerdictNews(database, sink, severity)
        )
        news.verdicts.append(verdict)
    return list(news_by_check.values())


def _current_verdicts(
    connection: Connection,
    datasets: Collection[int] | None,
    severity: Severity,
    *,
    include_passed: bool,
) -> Iterator[_CurrentVerdict]:
    """Yield the current verdicts; with ``include_passed`` also verdicts that passed without a warning."""
    standing, datasets_table = standing_verdicts(datasets), s.dataset.c
    verdict = standing.c
    failed = verdict.passed == 0
    if severity is not Severity.ERROR:
        failed |= verdict.result.contains(f'"{WARNINGS_KEY}": [', autoescape=True)
    result = sa.case((failed, verdict.result), else_="")
    query = (
        sa.select(
            verdict.dataset_id,
            datasets_table.name,
            verdict.name,
            verdict.partition,
            verdict.passed,
            result,
            verdict.checked_at,
        )
        .join_from(standing, s.dataset, datasets_table.id == verdict.dataset_id)
        .order_by(datasets_table.name, verdict.name, verdict.partition)
    )
    if not include_passed:
        query = query.where(failed)
    for (
        dataset_number,
        dataset,
        name,
        partition,
        passed,
        result_json,
        checked_at,
    ) in connection.execute(query):
        errors, warnings = _read_result(result_json)
        yield _CurrentVerdict(
            dataset_number, dataset, name, partition, bool(passed), errors, warnings, checked_at
        )


def _last_runs(
    connection: Connection, datasets: Collection[int] | None
) -> Iterator[_CurrentVerdict]:
    """Yield the last run of each dataset that was not interrupted, as a verdict on the dataset.

    The run passed if it is complete and no analyzer failed.
    """
    r, d = s.run.c, s.dataset.c
    ended = r.status.in_([RunStatus.COMPLETE.value, RunStatus.FAILED.value])
    last_run_ids = sa.select(sa.func.max(r.id)).where(ended).group_by(r.dataset_id)
    query = (
        sa.select(d.id, d.name, r.status, r.error, r.failed, r.finished_at)
        .join_from(s.run, s.dataset, d.id == r.dataset_id)
        .where(r.id.in_(last_run_ids))
        .order_by(d.name)
    )
    if datasets is not None:
        query = query.where(d.id.in_(datasets))
    for dataset_number, dataset, status, error, failed, finished_at in connection.execute(query):
        passed = status == RunStatus.COMPLETE and not failed
        errors = []
        if status != RunStatus.COMPLETE:
            errors.append((RUN_NAME, error or "it failed"))
        elif failed:
            errors.append((RUN_NAME, f"{plural(failed, 'analyzer')} failed"))
        yield _CurrentVerdict(
            dataset_number, dataset, RUN_NAME, "", passed, errors, (), finished_at
        )


def _read_result(result_json: str) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """Return the failures and warnings of a stored verdict; none for JSON that a user's code stored."""
    try:
        verdict = CheckResult.from_json(result_json)
    except RuleError:
        return (), ()
    return verdict.error_messages, verdict.warnings


def _hash_of(constraints: Sequence[tuple[str, str]]) -> str:
    """Return the hash of the names of constraints."""
    return key_of(canonical_json(sorted({name for name, _ in constraints})))


def _parts(outcome: str) -> tuple[str, str]:
    """Return the hashes of the failing and of the warning constraints."""
    failed, _, warned = outcome.partition(_OUTCOME_SEPARATOR)
    return failed, warned


def _notices(connection: Connection, sink: str) -> dict[tuple[int, str], Any]:
    notice = s.verdict_notice.c
    rows = connection.execute(sa.select(s.verdict_notice).where(notice.sink == sink))
    return {(row.dataset_id, row.subject): row for row in rows}


def _previous_outcome(verdict: _CurrentVerdict, notices: Mapping[tuple[int, str], Any]) -> str:
    """Return the outcome that the sink received last."""
    notice = notices.get((verdict.dataset_id, verdict.subject))
    return PASSED_OUTCOME if notice is None else str(notice.told)


def _is_news(
    verdict: _CurrentVerdict,
    notices: Mapping[tuple[int, str], Any],
    severity: Severity,
    now: datetime,
) -> bool:
    """Return whether a verdict is due for a sink, given the notifications it received."""
    previous_outcome = _previous_outcome(verdict, notices)
    outcome = verdict.outcome(previous_outcome, severity)
    if outcome == previous_outcome:
        return False
    notice = notices.get((verdict.dataset_id, verdict.subject))
    return notice is None or outcome != notice.outcome or is_due(notice, now)


def _keep_claim(
    connection: Connection,
    verdict: _CurrentVerdict,
    outcome: str,
    sink: str,
    notices: Mapping[tuple[int, str], Any],
    now: datetime,
) -> None:
    notice: Any = notices.get((verdict.dataset_id, verdict.subject))
    notices_table = s.verdict_notice.c
    is_new_outcome = notice is None or outcome != notice.outcome
    values = {
        "outcome": outcome,
        "attempts": 1 if is_new_outcome else notice.attempts + 1,
        "tried_at": now,
        "sent_at": None,
        "error": None,
    }
    key = {"dataset_id": verdict.dataset_id, "subject": verdict.subject, "sink": sink}
    if notice is None:
        connection.execute(sa.insert(s.verdict_notice).values(**key, told=PASSED_OUTCOME, **values))
    else:
        is_notice = (
            (notices_table.dataset_id == verdict.dataset_id)
            & (notices_table.subject == verdict.subject)
            & (notices_table.sink == sink)
        )
        connection.execute(sa.update(s.verdict_notice).where(is_notice).values(**values))
