"""Serve the dashboard as a web page: one process for all pages, which contacts no other host."""

from __future__ import annotations

import asyncio
import errno
import hmac
import html
import ipaddress
import json
import logging
import signal
import socket
import struct
import webbrowser
from asyncio import Future
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit
from weakref import WeakSet

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler

from tidegauge.analyzers.core.errors import (
    SetupError,
    TidegaugeError,
    describe,
)
from tidegauge.widgets import script
from tidegauge.widgets.backend import current_user, error_for_viewers
from tidegauge.widgets.source import DashboardSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.widgets.source import Shown


_LOGGER = logging.getLogger(__name__)
DEFAULT_PORT = 8866
_OTHER_PORTS = 50
_LARGEST_MESSAGE = 1 << 20
"""Bytes of a message that a page may send: it sends questions; answers may be larger."""
_AT_A_TIME = 8
"""Questions that are worked on at a time; as many threads, and connections to the database."""
MOST_WAITING = 256
"""Questions that may wait for their turn."""
MOST_CONNECTIONS = 512
"""Connections that may be open; a page has up to six, and a process often 1024 files."""
MAX_CONNECTIONS_PER_ADDRESS = 64
"""Connections from one address, unless it may be a proxy: nobody takes all of them."""
FIRST_REQUEST_SECONDS = 10.0
"""Time that a new connection may take to send the headers of its first request."""
IDLE_SECONDS = 60.0
"""Time that a connection may be silent before a request, and that its headers may take."""
QUESTION_SECONDS = 30.0
"""Time that the rest of a question may take."""
ANSWER_SECONDS = 300.0
"""Time that a page may take to read an answer: some megabytes, over a bad line."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGE = """<!DOCTYPE html>
<html lang="en" style="color-scheme: {theme}">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1.0">
    <title>Tidegauge</title>
    <link rel="icon" type="image/svg+xml" href="static/icon.svg">
    <link rel="stylesheet" href="static/dashboard.css">
    <link rel="modulepreload" href="static/dashboard.js">
    <script type="module" src="static/page.js"></script>
  </head>
  <body style="margin: 0" data-jp-theme-light="{light}" data-state="{state}">
    <noscript>The dashboard needs JavaScript.</noscript>
  </body>
</html>
"""


@dataclass(frozen=True)
class Site:
    """A served dashboard: the repository, and who may see it."""

    source: DashboardSource
    dataset: str | None = None
    theme: str = "light"
    user_header: str | None = None
    token: str | None = None
    cookie: str = "tidegauge"
    """Name of the token's cookie; cookies are shared by all ports of a host."""
    local: bool = True
    """Whether only names of this machine, and `name`, are answered."""
    name: str | None = None
    """Host name by which a proxy on this machine is known to others."""
    secure: bool = False
    """Whether the proxy is reached by https, so that browsers shall send it the cookie by https only."""
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_AT_A_TIME, "questions")
    )
    waiting: list[None] = field(default_factory=list)
    """An entry for each question that is not answered yet."""


class _Handler(RequestHandler):
    """Answer nobody but whom the site is for."""

    site: Site

    def initialize(self, site: Site) -> None:
        self.site = site

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        # Against DNS rebinding: a page elsewhere could point its name at our address, and read this one.
        host = _host_name(self.request.host)
        if self.site.local and not is_loopback(host) and host != self.site.name:
            raise HTTPError(403, reason="This dashboard answers only on its own machine")
        if self.site.token is not None:
            cookie = self.get_cookie(self.site.cookie)
            if not self._knows(None if cookie is None else unquote(cookie)):
                self.admit()

    def admit(self) -> None:
        """Refuse who did not show the token."""
        reason = "Open the address with the token that tidegauge dashboard printed"
        raise HTTPError(403, reason=reason)

    def _knows(self, token: str | None) -> bool:
        known = self.site.token or ""
        return bool(known) and hmac.compare_digest((token or "").encode(), known.encode())

    def author(self) -> str | None:
        """Return the user that the reverse proxy named; the process's user if there is no proxy.

        Raises
        ------
        TidegaugeError
            If the header is missing or empty: the page was not opened through the proxy.
        """
        header = self.site.user_header
        if header is None:
            return current_user()
        name = self.request.headers.get(header, "").strip()
        if not name:
            msg = (
                f"the request has no header {header}: open this page through the proxy that sets it"
            )
            raise TidegaugeError(msg)
        return name

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> Future[None]:
        """Send the answer, and hang up if it is not read."""
        written = super().finish(chunk)
        connection = self.request.connection
        if isinstance(connection, HTTP1Connection):
            hang_up = connection.stream.close
            late = asyncio.get_running_loop().call_later(ANSWER_SECONDS, hang_up)
            written.add_done_callback(lambda _: late.cancel())
        return written

    def log_exception(self, kind: Any, problem: Any, trace: Any) -> None:
        """Log a failed request without its address and headers, which may hold the token."""
        if not isinstance(problem, HTTPError):
            _LOGGER.error("%s %s failed: %s", self.request.method, self.request.path, kind.__name__)
            _LOGGER.debug("where it failed", exc_info=(kind, problem, trace))

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {self._reason}\n")


class _Page(_Handler):
    """The only page."""

    def admit(self) -> None:
        """Keep the token of the first address in a cookie, and take it out of the address."""
        if not self._knows(self.get_query_argument("token", None)):
            super().admit()
        # Lax, not strict: the links of messages are followed from other sites.
        self.set_cookie(
            self.site.cookie,
            quote(self.site.token or "", safe=""),
            httponly=True,
            samesite="Lax",
            secure=self.site.secure and _host_name(self.request.host) == self.site.name,
        )
        theme = self.get_query_argument("theme", None)
        self.redirect("./" + (f"?theme={quote(theme)}" if theme else ""))

    async def get(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self.author()
            state = await loop.run_in_executor(self.site.pool, self._state)
        except TidegaugeError:
            state = {}  # it tells nothing, and shows the error with which its questions are answered
        theme = self.get_query_argument("theme", self.site.theme)
        theme = theme if theme in {"light", "dark"} else self.site.theme
        light, told = json.dumps(theme == "light"), html.escape(json.dumps(state))
        self.finish(_PAGE.format(theme=theme, light=light, state=told))

    def _state(self) -> dict[str, Any]:
        dataset = self.site.dataset
        if dataset is not None:
            options = {"overview": {"table": dataset}}
            return {"view": "overview", "dataset": dataset, "options": options}
        try:
            backend = self.site.source.backend()
            first = next(iter(backend.repository.datasets()), None)
            return {"view": backend.first_view(), "dataset": first}
        except TidegaugeError:
            return {}  # its first question is answered with the error


class _Ask(_Handler):
    """The questions of pages, as JSON; the answers are JSON and buffers, see `framed`."""

    async def post(self) -> None:
        # Pages of other sites cannot send JSON without asking first, which is not answered.
        if self.request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            raise HTTPError(415, reason="Questions are JSON")
        self._require_same_origin()
        try:
            message = json.loads(self.request.body, parse_constant=_refused)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("id"), str | int):
            raise HTTPError(400, reason="This is not a question")
        if len(self.site.waiting) >= MOST_WAITING:
            raise HTTPError(503, reason="Too many questions are waiting; try again later")
        self.site.waiting.append(None)
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self.site.pool, self._answer, message)
        finally:
            self.site.waiting.pop()
        self.set_header("Content-Type", "application/octet-stream")
        self.finish(answer)

    def _require_same_origin(self) -> None:
        headers = self.request.headers
        site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
        # Behind a proxy the browser alone knows what is the same; without TLS it says the origin only.
        same = origin is None or origin.partition("://")[2] == self.request.host
        if (site != "same-origin") if site else not same:
            raise HTTPError(403, reason="Questions of other sites are not answered")

    def _answer(self, message: Mapping[str, Any]) -> bytes:
        try:
            return framed(*self.site.source.backend().answer(message, self.author()))
        except TidegaugeError as problem:
            return framed({"id": message["id"], **error_for_viewers(problem)}, [])
        except Exception as problem:
            # A question that no page of ours asks, or a mistake of ours: the page says so, and goes on.
            _LOGGER.warning("a question failed: %s", describe(problem))
            _LOGGER.debug("where it failed", exc_info=True)
            told = error_for_viewers(problem)
            told["error"] = f"the question cannot be answered: {told['error']}"
            return framed({"id": message["id"], **told}, [])


class _Unknown(_Handler):
    """Every other address."""

    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(404)


class _Static(_Handler, StaticFileHandler):
    """The script and its style; browsers keep them, and ask whether they changed."""

    def initialize(self, site: Site) -> None:  # type: ignore[override]
        self.site = site
        StaticFileHandler.initialize(self, str(script.STATIC))

    async def get(self, path: str, include_body: bool = True) -> None:  # noqa: FBT001, FBT002 - of its base
        try:
            await super().get(path, include_body)
        except ValueError as problem:  # as of a zero byte: no file has such a name
            raise HTTPError(404) from problem

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")


def _refused(constant: str) -> None:
    """Refuse the numbers that JSON does not know, and answers could not repeat."""
    raise ValueError(constant)


def framed(message: Mapping[str, Any], buffers: list[bytes]) -> bytes:
    r"""Join an answer: the length of its JSON in four bytes, little end first, the JSON, the buffers.

    Examples
    --------
    >>> framed({"id": 1}, [b"ab", b"c"])
    b'\x08\x00\x00\x00{"id":1}abc'
    """
    text = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    return b"".join([struct.pack("<I", len(text)), text, *buffers])


def serve(
    shown: Shown,
    *,
    host: str,
    port: int | None,
    browser: bool,
    theme: str,
    user_header: str | None = None,
    token: str | None = None,
    show_token: bool = True,
    address: str | None = None,
) -> None:
    """Serve the dashboard until Ctrl-C or SIGTERM.

    Parameters
    ----------
    shown : Shown
        The repository.
    host : str
        The address to listen on.
    port : int, optional
        Defaults to 8866, or another free port.
    browser : bool
        If true, open the page in the browser.
    theme : str
        ``light`` or ``dark``; ``?theme=`` in the address overrides it.
    user_header : str, optional
        HTTP header in which a reverse proxy names the user.
    token : str, optional
        If given, only those who know it are answered: ``?token=`` in the first address, a cookie from
        then on.
    show_token : bool
        Whether the printed address has the token; if not, who knows it adds it.
    address : str, optional
        Where a proxy on this machine shows the page to others; requests for its host are answered, too.

    Raises
    ------
    SetupError
        If the dashboard's script was not built, with the reason.
    TidegaugeError
        If it cannot listen there.
    """
    why = script.problem()
    if why is not None:
        msg = f"the dashboard has no script: {why}; {script.CURE}"
        raise SetupError(msg)
    sockets = _listen(host, port)
    logging.getLogger("tornado.general").setLevel(logging.ERROR)  # it warns of each odd request
    bound = sockets[0].getsockname()[1]
    site = Site(
        source=DashboardSource(shown),
        dataset=shown.dataset,
        theme=theme,
        user_header=user_header,
        token=token,
        cookie=f"tidegauge-{bound}",
        local=is_loopback(host),
        name=urlsplit(address).hostname if address else None,
        secure=bool(address) and urlsplit(address).scheme == "https",
    )
    plain = _address(host, bound)
    url = f"{plain}?token={quote(token, safe='')}" if token else plain
    shown_url = url if show_token or not token else f"{plain}?token=..."
    asyncio.run(_serve(site, sockets, url, shown_url, browser=browser))


class _Server(HTTPServer):
    """A server with limits of time and of connections, so that idle and slow clients cost little."""

    def initialize(self, site: Site) -> None:  # type: ignore[override]
        self._open: Counter[str] = Counter()
        self._known: WeakSet[object] = WeakSet()
        # All requests through a proxy come from its address.
        self._limits_addresses = site.user_header is None and site.name is None
        super().initialize(
            application(site),
            max_body_size=_LARGEST_MESSAGE,
            idle_connection_timeout=IDLE_SECONDS,
            body_timeout=QUESTION_SECONDS,
        )

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        most = MAX_CONNECTIONS_PER_ADDRESS if self._limits_addresses else MOST_CONNECTIONS
        if self._open.total() >= MOST_CONNECTIONS or self._open[address[0]] >= most:
            stream.close()
            return
        self._open[address[0]] += 1
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: Any) -> Any:
        """Wait for the first request of a connection for a shorter time than for later ones."""
        if server_conn not in self._known:
            self._known.add(server_conn)
            request_conn.params = copy(request_conn.params)
            request_conn.params.header_timeout = min(FIRST_REQUEST_SECONDS, IDLE_SECONDS)
        return super().start_request(server_conn, request_conn)

    def on_close(self, server_conn: Any) -> None:
        address = server_conn.context.address[0]
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]
        super().on_close(server_conn)


def server_of(site: Site) -> HTTPServer:
    """Return the web server of a site, which listens to nothing yet."""
    return _Server(site)


def application(site: Site) -> Application:
    """Return the web application of a site."""
    given = {"site": site}
    return Application(
        [("/", _Page, given), ("/ask", _Ask, given), ("/static/(.*)", _Static, given)],
        default_handler_class=_Unknown,
        default_handler_args=given,
        compress_response=True,
        log_function=lambda _: None,  # addresses may hold the token
    )


async def _serve(
    site: Site, sockets: list[socket.socket], url: str, shown_url: str, *, browser: bool
) -> None:
    server = server_of(site)
    server.add_sockets(sockets)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    print(f"Dashboard at {shown_url} - end with Ctrl-C", flush=True)
    if browser:
        # Some browsers block the process that opens them, and this one is about to serve.
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    await ended.wait()
    server.stop()
    site.pool.shutdown(wait=False, cancel_futures=True)
    site.source.close()


def _listen(host: str, port: int | None) -> list[socket.socket]:
    """Bind the port, or, if none is asked for, the first free one from 8866 on."""
    tried = [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + _OTHER_PORTS)
    reason: object = "no port is free"
    for number in tried:
        try:
            return bind_sockets(number, host)
        except OSError as error:
            reason = error.strerror or error
            if error.errno != errno.EADDRINUSE:
                break
    msg = f"cannot listen on {host}: {reason}; leave --host out for this machine alone"
    if port is not None:
        msg = f"cannot listen on {host}, port {port}: {reason}; leave --port out to find a free one"
    raise TidegaugeError(msg)


def _address(host: str, port: int) -> str:
    """Return the address to open; where all interfaces are listened on, by the machine's name."""
    name = socket.gethostname() if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared only
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def _host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without the port; empty if it is no name."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address, reachable only from this machine.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
