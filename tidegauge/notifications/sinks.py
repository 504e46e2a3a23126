"""Notification sinks: logging, apprise services, and plug-ins.

Addresses of sinks are secrets or contain them: they are expanded when a sink is read, and redacted where shown.
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

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z][\w.-]{0,29}")
_SCHEME = re.compile(r"([A-Za-z][\w+.-]{0,29}):(//)?")
_BETWEEN = re.compile(r"[/:@?&=+,;#\s]+")
_SHORTEST = 3
"""Shortest part to redact: shorter ones are no secrets and occur in other words."""


def expanded(text: str) -> str:
    """Substitute environment variables for ``${NAME}`` in a text.

    Raises
    ------
    SuiteError
        If a variable is not set or empty.
    """

    def value(found: re.Match[str]) -> str:
        if given := os.environ.get(found[1]):
            return given
        msg = f"a sink is {found[0]}, but the environment has no {found[1]}"
        raise SuiteError(msg)

    return _VARIABLE.sub(value, text.strip())


def redact(text: str) -> str:
    """Redact a sink's text to what may be stored and shown: its kind and its variables.

    Examples
    --------
    >>> redact("log"), redact("${SLACK}"), redact("mailto://me:hunter2@host?to=${TO}")
    ('log', '${SLACK}', 'mailto://***${TO}')
    """
    if _NAME.fullmatch(text):
        return text
    scheme = _SCHEME.match(text)
    kind = scheme[0] if scheme else ""
    parts = _VARIABLE.split(text[len(kind) :])
    shown = (f"${{{part}}}" if at % 2 else part and "***" for at, part in enumerate(parts))
    return kind + "".join(shown)


def identity(address: str) -> str:
    """Return an identifier of an address: its scheme, and a short hash of the whole.

    The hash is slow (PBKDF2), so that a password cannot be found by trying many.

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
    """Redaction of the parts of an address in texts.

    Parameters
    ----------
    address : str

    Examples
    --------
    >>> Mask("slack://T1JJ/A%40B").hide("no such team: t1jj; A@B is no token")
    'no such team: ***; *** is no token'
    """

    address: str

    @cached_property
    def _parts(self) -> re.Pattern[str] | None:
        raw = [self.address, *_BETWEEN.split(self.address.partition(":")[2])]
        parts = {way(part) for part in raw for way in (str, unquote, unquote_plus)}
        some = sorted((p for p in parts if len(p) >= _SHORTEST), key=lambda p: (-len(p), p))
        return re.compile("|".join(map(re.escape, some)), re.IGNORECASE) if some else None

    def hide(self, text: str) -> str:
        """Redact a text; if the address has no colon, it is a plain name and nothing is redacted."""
        if ":" not in self.address or self._parts is None:
            return text
        return self._parts.sub("***", text)


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
