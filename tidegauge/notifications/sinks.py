"""Notification sinks: logging, apprise services, and plug-ins."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tidegauge.analyzers.core.errors import SuiteError, TidegaugeError, UnknownNameError, describe
from tidegauge.analyzers.core.plugins import load_plugins
from tidegauge.notifications.secrets import Mask, expanded, identity, redact
from tidegauge.repository.store.rows import Severity

Send = Callable[[str, str, Severity], None]
"""Function that sends title, body and severity; raises an error if delivery fails."""
GROUP = "tidegauge.sinks"

_LOG = "log"
_LEVELS = {Severity.INFO: 20, Severity.WARNING: 30, Severity.ERROR: 40}
_TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.ERROR: "failure"}
_URL = re.compile(r"[A-Za-z][\w+.-]*://")
_WEB = re.compile(r"(json\+)?https?://", re.IGNORECASE)
_TALKATIVE = ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib", "slixmpp", "paho")
"""Loggers that may leak an address while a message is sent."""
_HEARD: ContextVar[list[str] | None] = ContextVar("tidegauge_heard", default=None)


@dataclass(frozen=True)
class NotificationSink:
    """A destination of notifications.

    Attributes
    ----------
    name : str
        Redacted identifier that is stored and shown.
    mask : Mask
        Redacts its secrets in texts.
    open : callable
        Returns the function that sends a message; loads its dependencies.
    """

    name: str
    mask: Mask = field(repr=False)
    open: Callable[[], Send] = field(repr=False)


def read_sink(text: str) -> NotificationSink:
    """Parse a sink: ``log``, an address for apprise, or a plug-in with an argument after a colon.

    Raises
    ------
    SuiteError, UnknownNameError
        If there is no sink of this name, or a dependency is missing.

    Examples
    --------
    >>> read_sink("log").name
    'log'
    """
    address = expanded(text)
    if address == _LOG:
        send: Callable[[], Send] = lambda: _log  # noqa: E731 - nothing to open
    elif _URL.match(address):
        if find_spec("apprise") is None:
            msg = f"the sink {redact(text)} needs apprise: pip install 'tidegauge[notify]'"
            raise SuiteError(msg)
        send = partial(_apprise, address)
    else:
        plugin = _plugin(text, address)
        send = lambda: plugin  # noqa: E731
    return NotificationSink(identity(address), Mask(address), send)


def attempt(work: Callable[[], None], seconds: float) -> str:
    """Run a function in a thread with a timeout in seconds; return the error, or an empty text."""
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


def _log(title: str, body: str, severity: Severity) -> None:
    logging.getLogger("tidegauge.incidents").log(_LEVELS[severity], "%s\n%s", title, body)


def _plugin(text: str, address: str) -> Send:
    name, _, argument = address.partition(":")
    plugins = {plugin.name: plugin for plugin in load_plugins(GROUP)}
    shown = redact(text).partition(":")[0]
    if name not in plugins:
        raise UnknownNameError("sink", shown, [_LOG, *plugins])
    plugin = plugins[name]
    problem = plugin.problem or ("" if callable(plugin.value) else "it is no function")
    if problem:
        msg = f"sink {shown!r} of {plugin.package} cannot be used: {problem}"
        raise SuiteError(msg)
    return lambda title, body, _: plugin.value(title, body, argument)


class _Discreet(logging.Filter):
    """Log filter that captures records while a message is sent, which may hold secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard = _HEARD.get()
        if heard is None:
            return True
        if record.levelno >= logging.WARNING:
            heard.append(record.getMessage())
        return False


_DISCREET = _Discreet()
_LOADING = Lock()


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Capture the warnings and errors that libraries log, instead of passing log records on."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] in _TALKATIVE and isinstance(logger, logging.Logger):
            logger.addFilter(_DISCREET)
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def _apprise(address: str) -> Send:
    apprise = import_module("apprise")
    # One message at a time, in our own thread, which has the timeout: apprise's threads would
    # outlive it.
    asset = apprise.AppriseAsset(async_mode=False, service_timeout=0, app_id="Tidegauge")
    with _listening() as heard, _LOADING, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from imports of apprise's plug-ins
        service = _service(apprise, address, asset)
        if service is None:
            msg = "; ".join(heard) or "apprise cannot read it"
            raise SuiteError(msg)

    def send(title: str, body: str, severity: Severity) -> None:
        with _listening() as heard:
            carrier = apprise.Apprise(service, asset=asset)
            if not carrier.notify(
                title=title,
                body=body,
                notify_type=_TYPES[severity],
                body_format=apprise.NotifyFormat.TEXT,  # escaped where HTML is sent
            ):
                raise TidegaugeError("; ".join(heard) or "apprise could not deliver it")

    return send


def _service(apprise: Any, address: str, asset: Any) -> Any:
    """Return apprise's service for an address: a known one, or a plain webhook."""
    web = _WEB.match(address)
    if not (web and web[1]):
        service = apprise.Apprise.instantiate(address, asset=asset)
        if service is not None or not web:
            return service
    url = urlsplit(address[len(web[1] or "") :])
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
