"""Sinks: logging, whatever apprise reaches, and plug-ins."""

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

from analyzers.errors import SuiteError, TidegaugeError, UnknownNameError, describe
from analyzers.plugins import load_plugins
from repository.anomalies.monitor import Severity
from tidegauge.notifications.secrets import Mask, discreet, expanded, identity

Send = Callable[[str, str, Severity], None]
"""Takes title, body and severity; raises an error if they cannot be delivered."""
GROUP = "tidegauge.sinks"

_LOG = "log"
_LEVELS = {Severity.INFO: 20, Severity.WARNING: 30, Severity.ERROR: 40}
_TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.ERROR: "failure"}
_URL = re.compile(r"[A-Za-z][\w+.-]*://")
_WEB = re.compile(r"(json\+)?https?://", re.IGNORECASE)
_TALKATIVE = ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib", "slixmpp", "paho")
"""Loggers that may tell an address while a message is sent."""
_HEARD: ContextVar[list[str] | None] = ContextVar("tidegauge_heard", default=None)


@dataclass(frozen=True)
class Sink:
    """Where messages go.

    Attributes
    ----------
    name : str
        What is stored and shown of it.
    mask : Mask
        Takes its secrets out of texts.
    open : callable
        Returns what sends a message; loads what that needs.
    """

    name: str
    mask: Mask
    open: Callable[[], Send] = field(repr=False)


def read_sink(text: str) -> Sink:
    """Read a sink: ``log``, an address for apprise, or a plug-in with an argument after a colon.

    Raises
    ------
    SuiteError, UnknownNameError
        If there is none of this name, or what it needs is not there.

    Examples
    --------
    >>> read_sink("log").name
    'log'
    """
    address = expanded(text)
    if address == _LOG:
        send: Callable[[], Send] = lambda: _log  # noqa: E731 - opening it is nothing
    elif _URL.match(address):
        if find_spec("apprise") is None:
            msg = f"the sink {discreet(text)} needs apprise: pip install 'tidegauge[notify]'"
            raise SuiteError(msg)
        send = partial(_apprise, address)
    else:
        plugin = _plugin(text, address)
        send = lambda: plugin  # noqa: E731
    return Sink(identity(address), Mask(address), send)


def attempt(work: Callable[[], None], seconds: float) -> str:
    """Do some work in a thread, wait no longer than so long, and return what went wrong; empty if nothing."""
    outcome: list[str] = []

    def run() -> None:
        try:
            work()
        except TidegaugeError as error:
            outcome.append(str(error))
        except BaseException as error:  # noqa: BLE001 - whatever a stranger's code raises
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
    shown = discreet(text).partition(":")[0]
    if name not in plugins:
        raise UnknownNameError("sink", shown, [_LOG, *plugins])
    plugin = plugins[name]
    problem = plugin.problem or ("" if callable(plugin.value) else "it is no function")
    if problem:
        msg = f"sink {shown!r} of {plugin.package} cannot be used: {problem}"
        raise SuiteError(msg)
    return lambda title, body, _: plugin.value(title, body, argument)


class _Discreet(logging.Filter):
    """Keeps to itself what is logged while a message is sent."""

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
    """Collect what libraries log, instead of passing it on."""
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
    # One message at a time, in the thread that we wait for: apprise's own would outlive us.
    asset = apprise.AppriseAsset(async_mode=False, service_timeout=0, app_id="Tidegauge")
    with _listening() as heard, _LOADING, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what apprise's plug-ins import
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
    """Return apprise's service for an address: one that it knows, or a plain webhook."""
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
