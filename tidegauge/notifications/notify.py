"""Notify sinks of open incidents and failed checks: each once, with retries and a timeout."""

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

SECONDS = 10.0
_LONGEST = 300
_logger = logging.getLogger("tidegauge.notifications")


@dataclass(frozen=True)
class Notice:
    """The result of notifying a sink.

    Attributes
    ----------
    sink : str
        Its kind, and a hash of its address.
    incident : int or None
        None if the message is about checks, or the sink itself cannot be used.
    error : str
        Empty if the message was sent.
    checks : str
        Name of the verdicts and the dataset, ``checks of flights``; empty if it is about an incident.
    others : tuple of int
        Incidents of other tables that share its cause and are told in the same message.

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
    others: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        more = f" and {len(self.others)} more" if self.others else ""
        about = self.checks if self.incident is None else f"incident {self.incident}{more}"
        return f"{about}{' to ' if about else ''}{self.sink}: {self.error or 'sent'}"


class _News(Protocol):
    """Pending notification for a sink."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ids of the incidents, if it is about any."""

    @property
    def subject(self) -> str:
        """The subject, for logs."""

    @property
    def severity(self) -> Severity:
        """Its severity."""

    def claim(self, now: datetime) -> bool:
        """Claim it, so that no other process sends it; return False if one did."""

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body, with a link to the dashboard at an address."""

    def settle(self, now: datetime, error: str) -> None:
        """Record that it was sent, or the error."""


def notify(
    repository: Repository | str,
    sinks: str | Sequence[str],
    *,
    dataset: str | Collection[str] | None = None,
    severity: str = "warning",
    seconds: float = SECONDS,
) -> list[Notice]:
    """Notify sinks of open incidents and of failed checks, each sink once.

    Of checks, and of rules with policies, the newest verdict on the current content of each partition is
    told when it fails or warns, when other constraints do than before, and when it passes again: one
    message for each check of a dataset, however many partitions. Incidents of several tables that share
    a cause are one message, too.

    Failures are retried by later calls, after 1, 5 and 30 minutes and 2 hours, and then once a day
    for as long as the incident is open or the verdict stands. A process that dies while it sends may have sent: after an hour, another sends again.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL.
    sinks : sequence of str
        ``log`` (Python's logging, ``tidegauge.incidents``); a webhook, ``https://...`` or
        ``json+https://...``; any address that apprise takes, such as ``slack://...`` or
        ``mailto://...``; or a plug-in's name, with an argument after a colon. ``${NAME}`` is
        replaced by the environment variable. Addresses are neither stored nor shown.
    dataset : str or collection of str, optional
        All if not given.
    severity : str
        Minimum severity of incidents and verdicts: ``info``, ``warning`` or ``error``. A failed check
        is an error; one of which only limits of `Check.warn`, constraints of level ``warning`` or rules
        of severity ``warning`` are broken is a warning.
    seconds : float
        Timeout of a message. A sink whose failures take that long in total is skipped until the
        next call.

    Returns
    -------
    list of Notice
        Messages sent and failed. Failures of sinks are also logged, and never raised.

    Raises
    ------
    UnknownNameError, UnknownDatasetError, ReadOnlyError
    DatabaseAccessError
        If the setting ``dashboard_url``, which messages link to, is no address.

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
        for notice in _tell(repository.database, text, datasets, Severity(severity), seconds, url):
            if notice.error:
                _logger.warning("could not notify: %s", notice)
            notices.append(notice)
    return notices


def notify_all(
    repository: Repository, sinks_of: Mapping[str, Collection[str]], *, seconds: float = SECONDS
) -> list[Notice]:
    """Notify of the incidents and failed checks of some datasets after a run; never raise a failure.

    Parameters
    ----------
    repository : Repository
    sinks_of : mapping of str to collection of str
        The sinks of each dataset, in addition to those of the settings. Datasets that the repository
        does not have are left out: nothing is known of them.
    seconds : float
        As for `notify`.
    """
    notices: list[Notice] = []
    try:
        everywhere = notify_settings()
        datasets_of: dict[str, list[str]] = {}
        known = set(repository.datasets()) if sinks_of else set()
        for dataset, sinks in sinks_of.items():
            if dataset not in known:
                continue
            for sink in dict.fromkeys([*sinks, *everywhere]):
                datasets_of.setdefault(sink, []).append(dataset)
        for sink, datasets in datasets_of.items():
            notices += notify(repository, sink, dataset=datasets, seconds=seconds)
    except Exception as error:  # noqa: BLE001 - a failed notification does not fail the run
        notices.append(Notice("notifications", None, _said(error)))
    return notices


def summarize(notices: Sequence[Notice]) -> str:
    """Summarise notices in one line: what was sent to each sink, the number that failed, and the first failure.

    Examples
    --------
    >>> summarize([Notice("log", 7), Notice("slack:3f2a9c1d", 7, "no answer within 10 s")])
    'notifications: 1 sent (to log: incident 7), 1 failed (incident 7 to slack:3f2a9c1d: no answer within 10 s)'
    >>> summarize([Notice("log", 7, others=(8, 9)), Notice("log", None, checks="checks of flights")])
    'notifications: 2 sent (to log: 3 incidents, checks of flights)'
    """
    failed = [notice for notice in notices if notice.error]
    subjects: dict[str, list[Notice]] = {}
    for notice in notices:
        if not notice.error:
            subjects.setdefault(notice.sink, []).append(notice)
    sent = "; ".join(f"to {sink}: {_subjects(some)}" for sink, some in subjects.items())
    line = f"notifications: {len(notices) - len(failed)} sent{f' ({sent})' if sent else ''}"
    return f"{line}, {len(failed)} failed ({failed[0]})" if failed else line


_MAX_SUBJECTS = 3
"""More checks are counted, not named."""


def _subjects(notices: Sequence[Notice]) -> str:
    """Return what some notices are about: a number of incidents, and the checks."""
    incidents = [
        n for notice in notices for n in (notice.incident, *notice.others) if n is not None
    ]
    checks = [notice.checks for notice in notices if notice.checks]
    told = [f"incident {incidents[0]}" if len(incidents) == 1 else f"{len(incidents):,} incidents"]
    if len(checks) > _MAX_SUBJECTS:
        checks = [f"checks {len(checks):,} times"]
    return ", ".join([*(told if incidents else []), *checks])


def _tell(
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
        yield Notice(redact(text), None, _said(error))
        return
    due: list[_News] = list(due_news(database, sink.name, datasets, severity, _now()))
    due += due_verdicts(database, sink.name, datasets, severity, _now())
    if not due:
        return
    try:
        send = sink.open()
    except Exception as error:  # noqa: BLE001
        yield Notice(sink.name, None, _said(error, sink))
        return
    wasted = 0.0
    for news in due:
        if not news.claim(_now()):
            continue
        title, body = news.message(url)
        grave, began = news.severity, monotonic()
        problem = attempt(lambda: send(title, body, grave), seconds)  # noqa: B023 - called within this iteration
        failure = problem and _said(TidegaugeError(problem), sink)
        news.settle(_now(), failure)
        first, *others = news.numbers or (None,)
        checks = "" if news.numbers else news.subject
        yield Notice(sink.name, first, failure, checks, tuple(filter(None, others)))
        wasted += monotonic() - began if failure else 0.0
        if wasted >= seconds:
            return


def _said(error: Exception, sink: NotificationSink | None = None) -> str:
    text = message_of(error)
    return plain(sink.mask.hide(text) if sink else text, _LONGEST) or "it failed without a word"


def _now() -> datetime:
    return datetime.now(UTC)
