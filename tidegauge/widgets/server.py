"""Serve the dashboard as a web page, from one process that contacts no other host."""

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
from tidegauge.widgets.backend import (
    DashboardConfig,
    DashboardSource,
    current_user,
    error_for_viewers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_LOGGER = logging.getLogger(__name__)
DEFAULT_PORT = 8866
_PORTS_TO_TRY = 50
_MAX_MESSAGE_BYTES = 1 << 20
"""Maximum size of a message from a page; pages send only questions, and answers have no limit."""
_WORKER_THREADS = 8
"""Number of questions answered at the same time, each with a thread and a database connection."""
MAX_WAITING_QUESTIONS = 256
"""Maximum number of unanswered questions; further questions are refused."""
MAX_CONNECTIONS = 512
"""Maximum number of open connections: a page has up to six, and a process often 1024 files."""
MAX_CONNECTIONS_PER_ADDRESS = 64
"""Maximum number of connections from one address without a proxy, so that no client uses up all of them."""
FIRST_REQUEST_SECONDS = 10.0
"""Time limit for the headers of the first request of a connection."""
IDLE_SECONDS = 60.0
"""Time limit for the headers of a later request, including the wait for it."""
QUESTION_SECONDS = 30.0
"""Time limit for the body of a question."""
ANSWER_SECONDS = 300.0
"""Time limit for a page to read an answer, which can have several megabytes on a slow connection."""
_SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGE_TEMPLATE = """<!DOCTYPE html>
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
    """A served dashboard: the repository, and the rules of access.

    Attributes
    ----------
    source : DashboardSource
    dataset : str or None
        The dataset to show first.
    theme : str
        ``light`` or ``dark``.
    user_header : str or None
        HTTP header in which a proxy passes the name of the user.
    token : str or None
        Token that requests must have.
    cookie : str
        Name of the token's cookie; browsers share cookies between all ports of a host.
    local : bool
        Whether only requests to names of this machine, or to `name`, are answered.
    name : str or None
        Public host name of a proxy on this machine.
    secure : bool
        Whether the proxy uses https, so that browsers send the cookie only over https.
    pool : ThreadPoolExecutor
        Threads that answer questions.
    waiting : list of None
        One entry for each unanswered question.
    """

    source: DashboardSource
    dataset: str | None = None
    theme: str = "light"
    user_header: str | None = None
    token: str | None = None
    cookie: str = "tidegauge"
    local: bool = True
    name: str | None = None
    secure: bool = False
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_WORKER_THREADS, "questions")
    )
    waiting: list[None] = field(default_factory=list)


class _Handler(RequestHandler):
    """Base of all handlers, which refuses requests without access to the site."""

    site: Site

    def initialize(self, site: Site) -> None:
        self.site = site

    def set_default_headers(self) -> None:
        for name, value in _SECURITY_HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        # Prevent DNS rebinding: another site could point its name at our address and read this page.
        host = _host_name(self.request.host)
        if self.site.local and not is_loopback(host) and host != self.site.name:
            raise HTTPError(
                403, reason="This dashboard is available only on the machine that runs it"
            )
        if self.site.token is not None:
            cookie = self.get_cookie(self.site.cookie)
            if not self._is_token(None if cookie is None else unquote(cookie)):
                self.admit()

    def admit(self) -> None:
        """Refuse a request without the token."""
        reason = "Token missing: open the address that tidegauge dashboard printed"
        raise HTTPError(403, reason=reason)

    def _is_token(self, token: str | None) -> bool:
        """Return whether a string is the site's token, in constant time."""
        expected = self.site.token or ""
        return bool(expected) and hmac.compare_digest((token or "").encode(), expected.encode())

    def author(self) -> str | None:
        """Return the user named by the reverse proxy, or, without a proxy, the user of the process.

        Raises
        ------
        TidegaugeError
            If the header is missing or empty, because the request did not come through the proxy.
        """
        header = self.site.user_header
        if header is None:
            return current_user()
        name = self.request.headers.get(header, "").strip()
        if not name:
            msg = f"The request has no header {header}. Open this page through the proxy that sets it."
            raise TidegaugeError(msg)
        return name

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> Future[None]:
        """Send the answer, and close the connection if the client does not read it in time."""
        written = super().finish(chunk)
        connection = self.request.connection
        if isinstance(connection, HTTP1Connection):
            close = connection.stream.close
            timeout = asyncio.get_running_loop().call_later(ANSWER_SECONDS, close)
            written.add_done_callback(lambda _: timeout.cancel())
        return written

    def log_exception(self, kind: Any, problem: Any, trace: Any) -> None:
        """Log a failed request without its address and headers, which can contain the token."""
        if not isinstance(problem, HTTPError):
            _LOGGER.error("%s %s failed: %s", self.request.method, self.request.path, kind.__name__)
            _LOGGER.debug("Traceback of the failed request", exc_info=(kind, problem, trace))

    def write_error(self, status_code: int, **_: Any) -> None:
        """Send an error as plain text."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {self._reason}\n")


class _Page(_Handler):
    """Handler of the page."""

    def admit(self) -> None:
        """Store the token of the address in a cookie, and redirect to the address without it."""
        if not self._is_token(self.get_query_argument("token", None)):
            super().admit()
        # Lax instead of strict, because users follow links in notifications from other sites.
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
        """Send the page with its first state."""
        loop = asyncio.get_running_loop()
        try:
            self.author()
            state = await loop.run_in_executor(self.site.pool, self._state)
        except TidegaugeError:
            state = {}  # the page shows the error of its first question
        theme = self.get_query_argument("theme", self.site.theme)
        theme = theme if theme in {"light", "dark"} else self.site.theme
        light, escaped = json.dumps(theme == "light"), html.escape(json.dumps(state))
        self.finish(_PAGE_TEMPLATE.format(theme=theme, light=light, state=escaped))

    def _state(self) -> dict[str, Any]:
        """Return the first view, dataset and options of the page."""
        dataset = self.site.dataset
        if dataset is not None:
            options = {"overview": {"table": dataset}}
            return {"view": "overview", "dataset": dataset, "options": options}
        try:
            backend = self.site.source.backend()
            first_dataset = next(iter(backend.repository.datasets()), None)
            return {"view": backend.first_view(), "dataset": first_dataset}
        except TidegaugeError:
            return {}  # the page shows the error of its first question


class _Ask(_Handler):
    """Handler of questions, which are JSON; answers are JSON and buffers, see `framed`."""

    async def post(self) -> None:
        """Answer a question in a thread of the pool."""
        # Pages of other sites cannot send JSON without a preflight request, which is not answered.
        if self.request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            raise HTTPError(415, reason="Questions must be JSON")
        self._require_same_origin()
        try:
            message = json.loads(self.request.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("id"), str | int):
            raise HTTPError(400, reason="Invalid question")
        if len(self.site.waiting) >= MAX_WAITING_QUESTIONS:
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
        """Refuse questions from pages of other sites."""
        headers = self.request.headers
        site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
        # Behind a proxy, only the browser can compare origins. Without TLS, it sends only its origin.
        same = origin is None or origin.partition("://")[2] == self.request.host
        if (site != "same-origin") if site else not same:
            raise HTTPError(403, reason="Questions from other sites are refused")

    def _answer(self, message: Mapping[str, Any]) -> bytes:
        """Return the answer to a question, or the error, as bytes."""
        try:
            return framed(*self.site.source.backend().answer(message, self.author()))
        except TidegaugeError as problem:
            return framed({"id": message["id"], **error_for_viewers(problem)}, [])
        except Exception as problem:
            # The question is malformed, or there is a bug: the page shows the error and continues.
            _LOGGER.warning("Question failed: %s", describe(problem))
            _LOGGER.debug("Traceback of the failed question", exc_info=True)
            reply = error_for_viewers(problem)
            reply["error"] = f"Cannot answer the question: {reply['error']}"
            return framed({"id": message["id"], **reply}, [])


class _Unknown(_Handler):
    """Handler of all other addresses."""

    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(404)


class _Static(_Handler, StaticFileHandler):
    """Handler of the script and its style; browsers cache them and check for changes."""

    def initialize(self, site: Site) -> None:  # type: ignore[override]
        self.site = site
        StaticFileHandler.initialize(self, str(script.STATIC_FOLDER))

    async def get(self, path: str, include_body: bool = True) -> None:  # noqa: FBT001, FBT002 - signature of the base
        try:
            await super().get(path, include_body)
        except ValueError as problem:  # the path is invalid, for example because of a zero byte
            raise HTTPError(404) from problem

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")


def _refuse_constant(constant: str) -> None:
    """Refuse NaN and infinity, which are not JSON."""
    raise ValueError(constant)


def framed(message: Mapping[str, Any], buffers: list[bytes]) -> bytes:
    r"""Join an answer: the length of its JSON in four bytes (little-endian), the JSON, the buffers.

    Parameters
    ----------
    message : mapping
        JSON part.
    buffers : list of bytes
        Binary part.

    Examples
    --------
    >>> framed({"id": 1}, [b"ab", b"c"])
    b'\x08\x00\x00\x00{"id":1}abc'
    """
    encoded = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    return b"".join([struct.pack("<I", len(encoded)), encoded, *buffers])


def serve(
    config: DashboardConfig,
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
    config : DashboardConfig
        The repository, and what to show of it.
    host : str
        The address to listen on.
    port : int, optional
        Port to listen on (default: 8866, or the next free port).
    browser : bool
        If true, open the page in the browser.
    theme : str
        ``light`` or ``dark``; ``?theme=`` in the address overrides it.
    user_header : str, optional
        HTTP header in which a reverse proxy passes the name of the user.
    token : str, optional
        Token that requests must have: as ``?token=`` in the first address, then as a cookie.
    show_token : bool
        Whether the printed address contains the token; if not, users add it themselves.
    address : str, optional
        Public address of a proxy on this machine. Requests for its host are also answered.

    Raises
    ------
    SetupError
        If the dashboard's script was not built, with the reason.
    TidegaugeError
        If the server cannot listen on the host and port.
    """
    reason = script.problem()
    if reason is not None:
        msg = f"The dashboard cannot start: {reason}; {script.BUILD_HINT}"
        raise SetupError(msg)
    sockets = _listen(host, port)
    logging.getLogger("tornado.general").setLevel(
        logging.ERROR
    )  # it warns about each malformed request
    bound = sockets[0].getsockname()[1]
    site = Site(
        source=DashboardSource(config),
        dataset=config.dataset,
        theme=theme,
        user_header=user_header,
        token=token,
        cookie=f"tidegauge-{bound}",
        local=is_loopback(host),
        name=urlsplit(address).hostname if address else None,
        secure=bool(address) and urlsplit(address).scheme == "https",
    )
    base_url = _address(host, bound)
    url = f"{base_url}?token={quote(token, safe='')}" if token else base_url
    printed_url = url if show_token or not token else f"{base_url}?token=..."
    asyncio.run(_serve(site, sockets, url, printed_url, browser=browser))


class _Server(HTTPServer):
    """A server with time and connection limits, so that idle and slow clients use few resources."""

    def initialize(self, site: Site) -> None:  # type: ignore[override]
        self._open: Counter[str] = Counter()
        self._served_connections: WeakSet[object] = WeakSet()
        # With a proxy, all requests come from the address of the proxy.
        self._limits_addresses = site.user_header is None and site.name is None
        super().initialize(
            application(site),
            max_body_size=_MAX_MESSAGE_BYTES,
            idle_connection_timeout=IDLE_SECONDS,
            body_timeout=QUESTION_SECONDS,
        )

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Accept a connection, or close it if there are too many."""
        limit = MAX_CONNECTIONS_PER_ADDRESS if self._limits_addresses else MAX_CONNECTIONS
        if self._open.total() >= MAX_CONNECTIONS or self._open[address[0]] >= limit:
            stream.close()
            return
        self._open[address[0]] += 1
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: Any) -> Any:
        """Set a shorter time limit for the first request of a connection than for later requests."""
        if server_conn not in self._served_connections:
            self._served_connections.add(server_conn)
            request_conn.params = copy(request_conn.params)
            request_conn.params.header_timeout = min(FIRST_REQUEST_SECONDS, IDLE_SECONDS)
        return super().start_request(server_conn, request_conn)

    def on_close(self, server_conn: Any) -> None:
        """Count a closed connection."""
        address = server_conn.context.address[0]
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]
        super().on_close(server_conn)


def server_of(site: Site) -> HTTPServer:
    """Return the web server of a site, which does not listen on any port yet."""
    return _Server(site)


def application(site: Site) -> Application:
    """Return the web application of a site."""
    arguments = {"site": site}
    return Application(
        [("/", _Page, arguments), ("/ask", _Ask, arguments), ("/static/(.*)", _Static, arguments)],
        default_handler_class=_Unknown,
        default_handler_args=arguments,
        compress_response=True,
        log_function=lambda _: None,  # addresses can contain the token
    )


async def _serve(
    site: Site, sockets: list[socket.socket], url: str, printed_url: str, *, browser: bool
) -> None:
    """Serve a site until the process receives SIGINT or SIGTERM.

    Parameters
    ----------
    site : Site
    sockets : list of socket
    url : str
        Address to open in the browser.
    printed_url : str
        Address to print, which can omit the token.
    browser : bool
        If true, open the page in the browser.
    """
    server = server_of(site)
    server.add_sockets(sockets)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    print(f"Dashboard at {printed_url} (stop with Ctrl-C)", flush=True)
    if browser:
        # Open it in a thread, because some browsers block the process that opens them.
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    await ended.wait()
    server.stop()
    site.pool.shutdown(wait=False, cancel_futures=True)
    site.source.close()


def _listen(host: str, port: int | None) -> list[socket.socket]:
    """Listen on a port; without one, on the first free port from 8866."""
    ports = [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TO_TRY)
    reason: object = "no port is free"
    for number in ports:
        try:
            return bind_sockets(number, host)
        except OSError as error:
            reason = error.strerror or error
            if error.errno != errno.EADDRINUSE:
                break
    msg = f"Cannot listen on {host}: {reason}. Omit --host to listen on this machine only."
    if port is not None:
        msg = f"Cannot listen on {host}, port {port}: {reason}. Omit --port to use a free port."
    raise TidegaugeError(msg)


def _address(host: str, port: int) -> str:
    """Return the address to open, with the machine's name if the server listens on all interfaces."""
    name = socket.gethostname() if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared only
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def _host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without the port; empty if it is invalid."""
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
