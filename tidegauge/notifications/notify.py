"""Notify sinks of open incidents and failed checks, once each, with retries and a timeout."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from tidegauge.analyzers.core.errors import (
    TidegaugeError,
    UnknownNameError,
    message_of,
)
from tidegauge.notifications.claims import due_news, due_verdicts
from tidegauge.notifications.messages import plain
from tidegauge.notifications.sinks import NotificationSink, attempt, read_sink, redact
from tidegauge.repository.repository import as_repository
from tidegauge.repository.store.config import dashboard_url, notify_settings
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.database import Database

MESSAGE_TIMEOUT_SECONDS = 10.0
_MAX_ERROR_LENGTH = 300
_logger = logging.getLogger("tidegauge.notifications")


@dataclass(frozen=True)
class Notice:
    """The result of notifying a sink.

    Attributes
    ----------
    sink : str
        Kind of the sink, and a hash of its address.
    incident : int or None
        Id of the incident; None if the message is about checks, or the sink cannot be used.
    error : str
        Empty if the message was sent.
    checks : str
        Name of the check and the dataset, ``checks of flights``; empty if the message is about an incident.
    other_incidents : tuple of int
        Ids of further incidents in the same message.

    Examples
    --------
    >>> print(Notice("json#1f3a", 7, "timed out"))
    incident 7 to json#1f3a: timed out
    >>> Notice("log", 7).error == ""
    True
    """

    sink: str
    incident: int | None
    error: str = ""
    checks: str = ""
    other_incidents: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        others_text = f" and {len(self.other_incidents)} more" if self.other_incidents else ""
        subject = self.checks if self.incident is None else f"incident {self.incident}{others_text}"
        return f"{subject}{' to ' if subject else ''}{self.sink}: {self.error or 'sent'}"


class _News(Protocol):
    """A pending notification for a sink."""

    @property
    def incident_ids(self) -> tuple[int, ...]:
        """The ids of the incidents; empty if the message is about checks."""

    @property
    def subject(self) -> str:
        """The subject, for logs."""

    @property
    def severity(self) -> Severity:
        """The severity of the message."""

    def claim(self, now: datetime) -> bool:
        """Claim the message, so that no other process sends it; return False if another process did."""

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body, with a link to the dashboard at ``url``."""

    def settle(self, now: datetime, error: str) -> None:
        """Record that the message was sent, or its error."""


def notify(
    repository: Repository | str,
    sinks: str | Sequence[str],
    *,
    dataset: str | Collection[str] | None = None,
    severity: str = "warning",
    seconds: float = MESSAGE_TIMEOUT_SECONDS,
) -> list[Notice]:
    """Notify sinks of open incidents and failed checks; each sink receives each piece of news once.

    For checks, and for rules with policies, a sink receives a message when a partition fails or warns, when
    different constraints fail than before, and when the partition passes again. Only the newest verdict on
    the current content of the partition counts. Each check of a dataset gets one message for all partitions.
    Incidents of several tables that share a cause also get one message.

    If sending fails, later calls retry after 1, 5 and 30 minutes and 2 hours, and then once a day while the
    incident is open or the verdict is current. If a process dies while it sends a message, another process
    sends the message again after an hour.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL.
    sinks : sequence of str
        ``log`` (Python's logger ``tidegauge.incidents``); a webhook, ``https://...`` or
        ``json+https://...``; any address that apprise supports, such as ``slack://...`` or
        ``mailto://...``; or the name of a plug-in, with an optional argument after a colon. ``${NAME}`` is
        replaced by the environment variable. Addresses are neither stored nor shown.
    dataset : str or collection of str, optional
        All datasets if not given.
    severity : str
        Minimum severity of incidents and verdicts: ``info``, ``warning`` or ``error``. A failed check
        is an error. A check is a warning if it breaks only limits of `Check.warn`, constraints of level
        ``warning`` or rules of severity ``warning``.
    seconds : float
        Timeout of a message. If failures of a sink take this long in total, the sink is skipped until
        the next call.

    Returns
    -------
    list of Notice
        Sent and failed messages. Failures of sinks are logged, never raised.

    Raises
    ------
    UnknownNameError, UnknownDatasetError, ReadOnlyError
    DatabaseAccessError
        If the setting ``dashboard_url``, to which messages link, is not an address.

    Examples
    --------
    >>> from tidegauge.repository.repository import Repository
    >>> with Repository("sqlite://") as repo:
    ...     notify(repo, ["log"])
    []
    """
    if severity not in list(Severity):
        raise UnknownNameError("severity", severity, list(Severity))
    if isinstance(repository, str):
        with as_repository(repository) as opened:
            return notify(opened, sinks, dataset=dataset, severity=severity, seconds=seconds)
    repository = as_repository(repository)
    repository.database.require_writable()
    datasets = [dataset] if isinstance(dataset, str) else dataset
    notices = []
    url = dashboard_url()
    for text in dict.fromkeys([sinks] if isinstance(sinks, str) else sinks):
        for notice in _notify_sink(
            repository.database, text, datasets, Severity(severity), seconds, url
        ):
            if notice.error:
                _logger.warning("notification failed: %s", notice)
            notices.append(notice)
    return notices


def notify_all(
    repository: Repository,
    sinks_of: Mapping[str, Collection[str]],
    *,
    seconds: float = MESSAGE_TIMEOUT_SECONDS,
) -> list[Notice]:
    """Notify the sinks of some datasets after a run; failures are returned, never raised.

    Parameters
    ----------
    repository : Repository
    sinks_of : mapping of str to collection of str
        The sinks of each dataset, in addition to the sinks of the settings. Datasets that the repository
        does not have are skipped.
    seconds : float
        Timeout of a message, as in `notify`.
    """
    notices: list[Notice] = []
    try:
        default_sinks = notify_settings()
        datasets_of: dict[str, list[str]] = {}
        datasets_in_repository = set(repository.datasets()) if sinks_of else set()
        for dataset, sinks in sinks_of.items():
            if dataset not in datasets_in_repository:
                continue
            for sink in dict.fromkeys([*sinks, *default_sinks]):
                datasets_of.setdefault(sink, []).append(dataset)
        for sink, datasets in datasets_of.items():
            notices += notify(repository, sink, dataset=datasets, seconds=seconds)
    except Exception as error:  # noqa: BLE001 - a failed notification does not fail the run
        notices.append(Notice("notifications", None, _error_text(error)))
    return notices


def summarize(notices: Sequence[Notice]) -> str:
    """Summarize notices in one line: sent messages by sink, the number of failures, and the first failure.

    Examples
    --------
    >>> summarize([Notice("log", 7), Notice("slack:3f2a9c1d", 7, "no answer within 10 s")])
    'notifications: 1 sent (to log: incident 7), 1 failed (incident 7 to slack:3f2a9c1d: no answer within 10 s)'
    >>> summarize([Notice("log", 7, other_incidents=(8, 9)), Notice("log", None, checks="checks of flights")])
    'notifications: 2 sent (to log: 3 incidents, checks of flights)'
    """
    failed = [notice for notice in notices if notice.error]
    subjects: dict[str, list[Notice]] = {}
    for notice in notices:
        if not notice.error:
            subjects.setdefault(notice.sink, []).append(notice)
    sent = "; ".join(
        f"to {sink}: {_subjects(sent_notices)}" for sink, sent_notices in subjects.items()
    )
    line = f"notifications: {len(notices) - len(failed)} sent{f' ({sent})' if sent else ''}"
    return f"{line}, {len(failed)} failed ({failed[0]})" if failed else line


_MAX_SUBJECTS = 3
"""Maximum number of named checks; more are counted."""


def _subjects(notices: Sequence[Notice]) -> str:
    """Return the subjects of notices: the number of incidents, and the checks."""
    incidents = [
        n for notice in notices for n in (notice.incident, *notice.other_incidents) if n is not None
    ]
    checks = [notice.checks for notice in notices if notice.checks]
    incidents_text = [
        f"incident {incidents[0]}" if len(incidents) == 1 else f"{len(incidents):,} incidents"
    ]
    if len(checks) > _MAX_SUBJECTS:
        checks = [f"checks {len(checks):,} times"]
    return ", ".join([*(incidents_text if incidents else []), *checks])


def _notify_sink(
    database: Database,
    text: str,
    datasets: Collection[str] | None,
    severity: Severity,
    seconds: float,
    url: str | None,
) -> Iterator[Notice]:
    try:
        sink = read_sink(text)
    except Exception as error:  # noqa: BLE001 - plug-ins may raise anything
        yield Notice(redact(text), None, _error_text(error))
        return
    pending: list[_News] = list(due_news(database, sink.name, datasets, severity, _now()))
    pending += due_verdicts(database, sink.name, datasets, severity, _now())
    if not pending:
        return
    try:
        send = sink.open()
    except Exception as error:  # noqa: BLE001
        yield Notice(sink.name, None, _error_text(error, sink))
        return
    failed_seconds = 0.0
    for news in pending:
        if not news.claim(_now()):
            continue
        title, body = news.message(url)
        severity_of_news, started = news.severity, monotonic()
        problem = attempt(lambda: send(title, body, severity_of_news), seconds)  # noqa: B023 - called within this iteration
        failure = problem and _error_text(TidegaugeError(problem), sink)
        news.settle(_now(), failure)
        first_id, *further_ids = news.incident_ids or (None,)
        checks = "" if news.incident_ids else news.subject
        yield Notice(sink.name, first_id, failure, checks, tuple(filter(None, further_ids)))
        failed_seconds += monotonic() - started if failure else 0.0
        if failed_seconds >= seconds:
            return


def _error_text(error: Exception, sink: NotificationSink | None = None) -> str:
    text = message_of(error)
    return (
        plain(sink.mask.hide(text) if sink else text, _MAX_ERROR_LENGTH)
        or "failed without an error message"
    )


def _now() -> datetime:
    return datetime.now(UTC)
