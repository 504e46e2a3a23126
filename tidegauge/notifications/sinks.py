"""Notification sinks: logging, apprise services, and plug-ins.

Addresses of sinks contain secrets. Their environment variables are expanded when a sink is read, and messages
show only redacted addresses.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import pbkdf2_hmac
from importlib import import_module
from importlib.util import find_spec
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from tidegauge.analyzers.core.errors import SuiteError, TidegaugeError, UnknownNameError, describe
from tidegauge.analyzers.core.registry import load_plugins
from tidegauge.repository.store.rows import Severity

_VARIABLE_PATTERN = re.compile(r"\$\{(\w+)\}")
_NAME_PATTERN = re.compile(r"[A-Za-z][\w.-]{0,29}")
_SCHEME_PATTERN = re.compile(r"([A-Za-z][\w+.-]{0,29}):(//)?")
_PART_SEPARATOR = re.compile(r"[/:@?&=+,;#\s]+")
_MIN_SECRET_LENGTH = 3
"""Minimum length of a redacted part. Shorter parts are not secret, and occur within other words."""


def expand_variables(text: str) -> str:
    """Replace ``${NAME}`` by environment variables.

    Raises
    ------
    SuiteError
        If a variable is unset or empty.
    """

    def value(match: re.Match[str]) -> str:
        if variable_value := os.environ.get(match[1]):
            return variable_value
        msg = f"the sink {match[0]} needs the environment variable {match[1]}, which is not set"
        raise SuiteError(msg)

    return _VARIABLE_PATTERN.sub(value, text.strip())


def redact(text: str) -> str:
    """Redact a sink's address: keep only the scheme and the names of variables.

    Examples
    --------
    >>> redact("log"), redact("${SLACK}"), redact("mailto://me:hunter2@host?to=${TO}")
    ('log', '${SLACK}', 'mailto://***${TO}')
    """
    if _NAME_PATTERN.fullmatch(text):
        return text
    scheme = _SCHEME_PATTERN.match(text)
    kind = scheme[0] if scheme else ""
    parts = _VARIABLE_PATTERN.split(text[len(kind) :])
    redacted = (
        f"${{{part}}}" if position % 2 else part and "***" for position, part in enumerate(parts)
    )
    return kind + "".join(redacted)


def identity(address: str) -> str:
    """Return an identifier of an address: its scheme, and a short hash of the address.

    The hash is slow (PBKDF2), to prevent guessing of passwords.

    Examples
    --------
    >>> identity("pager"), identity("json://localhost/")
    ('pager', 'json:f9c3a20f')
    """
    kind, colon, _ = address.partition(":")
    if not colon:
        return kind
    return f"{kind}:{pbkdf2_hmac('sha256', address.encode(), b'tidegauge', 100_000, 4).hex()}"


@dataclass(frozen=True, repr=False)
class Mask:
    """Redacts the parts of an address in messages.

    Parameters
    ----------
    address : str

    Examples
    --------
    >>> Mask("slack://T1JJ/A%40B").hide("no such team: t1jj; invalid token A@B")
    'no such team: ***; invalid token ***'
    """

    address: str

    @cached_property
    def _parts(self) -> re.Pattern[str] | None:
        raw = [self.address, *_PART_SEPARATOR.split(self.address.partition(":")[2])]
        parts = {decode(part) for part in raw for decode in (str, unquote, unquote_plus)}
        secrets = sorted(
            (p for p in parts if len(p) >= _MIN_SECRET_LENGTH), key=lambda p: (-len(p), p)
        )
        return re.compile("|".join(map(re.escape, secrets)), re.IGNORECASE) if secrets else None

    def hide(self, text: str) -> str:
        """Redact a message. An address without a colon is a plain name, which is not redacted."""
        if ":" not in self.address or self._parts is None:
            return text
        return self._parts.sub("***", text)


Send = Callable[[str, str, Severity], None]
"""Function that sends a title and a body with a severity. It raises an error if delivery fails."""
ENTRY_POINT_GROUP = "tidegauge.sinks"

_LOG_SINK = "log"
_LOG_LEVELS = {Severity.INFO: 20, Severity.WARNING: 30, Severity.ERROR: 40}
_APPRISE_TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.ERROR: "failure"}
_URL_PATTERN = re.compile(r"[A-Za-z][\w+.-]*://")
_WEBHOOK_PATTERN = re.compile(r"(json\+)?https?://", re.IGNORECASE)
_LEAKY_LOGGERS = (
    "apprise",
    "urllib3",
    "requests",
    "requests_oauthlib",
    "oauthlib",
    "slixmpp",
    "paho",
)
"""Loggers whose records can contain an address while a message is sent."""
_CAPTURED_MESSAGES: ContextVar[list[str] | None] = ContextVar("tidegauge_heard", default=None)


@dataclass(frozen=True)
class NotificationSink:
    """A destination of notifications.

    Attributes
    ----------
    name : str
        Redacted identifier, which is stored and shown.
    mask : Mask
        Redacts the secrets of its address.
    open : callable
        Loads the dependencies, and returns the function that sends a message.
    """

    name: str
    mask: Mask = field(repr=False)
    open: Callable[[], Send] = field(repr=False)


def read_sink(text: str) -> NotificationSink:
    """Parse a sink: ``log``, an address for apprise, or a plug-in with an optional argument after a colon.

    Raises
    ------
    SuiteError, UnknownNameError
        If the sink is unknown, or a dependency is missing.

    Examples
    --------
    >>> read_sink("log").name
    'log'
    """
    address = expand_variables(text)
    if address == _LOG_SINK:
        send: Callable[[], Send] = lambda: _send_to_log  # noqa: E731 - nothing to open
    elif _URL_PATTERN.match(address):
        if find_spec("apprise") is None:
            msg = f"the sink {redact(text)} needs apprise: pip install 'tidegauge[notify]'"
            raise SuiteError(msg)
        send = partial(_open_apprise, address)
    else:
        plugin = _open_plugin(text, address)
        send = lambda: plugin  # noqa: E731
    return NotificationSink(identity(address), Mask(address), send)


def attempt(work: Callable[[], None], seconds: float) -> str:
    """Run a function in a thread with a timeout in seconds; return the error message, or an empty string."""
    outcome: list[str] = []

    def run() -> None:
        try:
            work()
        except TidegaugeError as error:
            outcome.append(str(error))
        except BaseException as error:  # noqa: BLE001 - third-party code may raise anything
            outcome.append(describe(error))
        else:
            outcome.append("")

    thread = Thread(target=run, name="tidegauge-sink", daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0] if outcome else f"no answer within {seconds:g} s"


def _send_to_log(title: str, body: str, severity: Severity) -> None:
    logging.getLogger("tidegauge.incidents").log(_LOG_LEVELS[severity], "%s\n%s", title, body)


def _open_plugin(text: str, address: str) -> Send:
    name, _, argument = address.partition(":")
    plugins = {plugin.name: plugin for plugin in load_plugins(ENTRY_POINT_GROUP)}
    redacted_name = redact(text).partition(":")[0]
    if name not in plugins:
        raise UnknownNameError("sink", redacted_name, [_LOG_SINK, *plugins])
    plugin = plugins[name]
    problem = plugin.problem or ("" if callable(plugin.value) else "it is not a function")
    if problem:
        msg = f"cannot use sink {redacted_name!r} of {plugin.package}: {problem}"
        raise SuiteError(msg)
    return lambda title, body, _: plugin.value(title, body, argument)


class _CapturingFilter(logging.Filter):
    """Log filter that captures records while a message is sent, because they can contain secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        captured = _CAPTURED_MESSAGES.get()
        if captured is None:
            return True
        if record.levelno >= logging.WARNING:
            captured.append(record.getMessage())
        return False


_CAPTURING_FILTER = _CapturingFilter()
_LOADING_LOCK = Lock()


@contextmanager
def _capture_logs() -> Iterator[list[str]]:
    """Capture the warnings and errors that libraries log; drop their other records."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] in _LEAKY_LOGGERS and isinstance(logger, logging.Logger):
            logger.addFilter(_CAPTURING_FILTER)
    captured: list[str] = []
    token = _CAPTURED_MESSAGES.set(captured)
    try:
        yield captured
    finally:
        _CAPTURED_MESSAGES.reset(token)


def _open_apprise(address: str) -> Send:
    apprise = import_module("apprise")
    # Send one message at a time in our own thread, which has the timeout. Threads of apprise would
    # outlive the timeout.
    asset = apprise.AppriseAsset(async_mode=False, service_timeout=0, app_id="Tidegauge")
    with _capture_logs() as captured, _LOADING_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from imports of apprise's plug-ins
        service = _service(apprise, address, asset)
        if service is None:
            msg = "; ".join(captured) or "apprise cannot read the address"
            raise SuiteError(msg)

    def send(title: str, body: str, severity: Severity) -> None:
        with _capture_logs() as captured:
            messenger = apprise.Apprise(service, asset=asset)
            if not messenger.notify(
                title=title,
                body=body,
                notify_type=_APPRISE_TYPES[severity],
                body_format=apprise.NotifyFormat.TEXT,  # apprise escapes it for services that take HTML
            ):
                raise TidegaugeError("; ".join(captured) or "apprise could not deliver the message")

    return send


def _service(apprise: Any, address: str, asset: Any) -> Any:
    """Return apprise's service for an address; a plain webhook if apprise knows no other."""
    webhook = _WEBHOOK_PATTERN.match(address)
    if not (webhook and webhook[1]):
        service = apprise.Apprise.instantiate(address, asset=asset)
        if service is not None or not webhook:
            return service
    url = urlsplit(address[len(webhook[1] or "") :])
    host = url.hostname or ""
    parts = {
        "schema": "jsons" if url.scheme == "https" else "json",
        "host": f"[{host}]" if ":" in host else host,
        "port": url.port,
        "user": url.username,
        "password": url.password,
        "fullpath": url.path or "/",
        "params": dict(parse_qsl(url.query, keep_blank_values=True)),
    }
    return apprise.Apprise.instantiate(parts, asset=asset)
