"""Attacks on the served page: it answers only queries, and serves no other file, origin or user."""

import asyncio
import contextlib
import json
import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from importlib.util import find_spec

import pytest

import tidegauge as tg
from tests.services.servers import dashboard_server
from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.analyzers.runs.recording import recording
from tidegauge.cli.main import run_command
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import commit, day
from tidegauge.widgets.backend import Backend

pytestmark = pytest.mark.skipif(find_spec("tornado") is None, reason="Tornado is not installed")

JSON = {"Content-Type": "application/json"}
COMMITS = {"id": "1", "question": "commits"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('served') / 'r.db'}"
    with Repository(url) as repo:
        commit(repo, day(1))
    return url


@pytest.fixture(scope="module")
def address(url, tmp_path_factory):
    with dashboard_server(tmp_path_factory.mktemp("server"), url) as (_, address):
        yield address


def get(address, *, data=None, opener=None, **headers):
    """Return status, headers and body of a response."""
    request = urllib.request.Request(
        address, data, {name.replace("_", "-"): value for name, value in headers.items()}
    )
    try:
        with (opener or urllib.request.build_opener()).open(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def ask(address, message, *, opener=None, **headers):
    """Send a query; return the status and the JSON of the answer, or its body."""
    given = {"Content_Type": "application/json", **headers}
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    status, _, body = get(f"{address}ask", data=data, opener=opener, **given)
    if status != 200:
        return status, body.decode()
    return status, json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])


def test_a_page_does_not_contain_the_address_of_the_repository(address, url):
    status, headers, page = get(address)
    assert status == 200
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"].partition("style-src")[0]
    assert "unsafe-eval" not in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert url.removeprefix("sqlite:///").encode() not in page
    assert b"https://" not in page


def test_an_answer_contains_no_folder_of_this_machine(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with Repository(url) as repo:
        commit(repo, day(1))
        why = f"PermissionError: [Errno 13] Permission denied: '{tmp_path}/days'"
        with pytest.raises(PermissionError), recording(repo.store, RunSpec("t", None, ("ds",))):
            raise PermissionError(13, "Permission denied", f"{tmp_path}/days")
        assert repo.runs("t")["error"][0] == why
        reported = Backend(repo).answer(
            {"id": 1, "question": "failures", "params": {"dataset": "t"}}, None
        )
    assert str(tmp_path) not in str(reported)
    assert "Permission denied: '…/days'" in str(reported)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--no-token"], "such as --user-header X-Forwarded-User"),
        (["--no-token", "--user-header", "X: a"], "Invalid HTTP header"),
    ],
)
def test_without_a_token_the_proxy_must_name_the_user(url, capsys, arguments, said):
    assert run_command(["dashboard", "--db", url, "--host", "0.0.0.0", *arguments]) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_page_has_an_icon(address):
    (icon,) = re.findall(
        r'<link rel="icon" type="image/svg\+xml" href="([^"]+)">', get(address)[2].decode()
    )
    status, headers, image = get(f"{address}{icon}")
    assert (status, headers["Content-Type"]) == (200, "image/svg+xml")
    assert image.startswith(b"<svg")


def test_only_valid_queries_are_answered(address):
    status, reported = ask(address, COMMITS)
    assert (status, reported["id"], set(reported["payload"])) == (200, "1", {"commits"})
    deep = b'{"id": 1, "question": ' + b"[" * 200_000
    odd = (
        b'{"id": NaN, "question": "commits"}',
        b'{"id": 1e999, "question": "commits"}',
        b'{"id": 1, "question": Infinity}',
    )
    for message in (b"", b"x", b"[]", b"1", b'{"question": "commits"}', b"\xff", deep, *odd):
        assert ask(address, message)[0] == 400, message
    for name in ("__class__", "eval", None, ["commits"], {"a": 1}):
        status, reported = ask(address, {"id": 1, "question": name})
        assert (status, reported["kind"]) == (200, "UnknownQuestion"), name
    status, reported = ask(address, {"id": 1, "question": "cell", "params": [1]})
    assert (status, set(reported)) == (200, {"id", "seconds", "error", "kind"})
    for dataset in (1, [], {}, True):  # not UTF-8, unlike the messages of our pages
        status, reported = ask(
            address, {"id": 1, "question": "sides", "params": {"dataset": dataset}}
        )
        assert (status, reported["id"], "error" in reported) == (200, 1, True)
    # the server may hang up or answer
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        assert ask(address, b"x" * ((1 << 20) + 1))[0] in {400, 413}
    assert get(f"{address}ask")[0] == 405
    assert ask(address, COMMITS)[0] == 200


@pytest.mark.parametrize("host", ["[bad", "[::1", "\xe9", "evil.example"])
def test_a_host_name_of_another_machine_is_refused(address, host):
    """The server answers. It does not log an error, or strangers could fill its log."""
    place = urllib.parse.urlsplit(address)
    with socket.create_connection((place.hostname, place.port), 10) as connection:
        text = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        connection.sendall(text.encode("latin-1"))
        assert connection.makefile("rb").readline().split()[1] in {b"400", b"403"}


def test_a_page_opened_past_the_proxy_shows_nothing(url, tmp_path):
    with dashboard_server(tmp_path, url, "--user-header", "X-Forwarded-User") as (_, own):
        state = re.compile(rb'data-state="([^"]*)"')
        assert state.findall(get(own)[2]) == [b"{}"]
        assert b"dataset" in state.findall(get(own, X_Forwarded_User="ann")[2])[0]
        assert "has no header X-Forwarded-User" in ask(own, COMMITS)[1]["error"]


def test_other_files_are_not_served(address):
    assert get(f"{address}static/page.js")[0] == 200
    for path in (
        "static/../server.py",
        "static/..%2fserver.py",
        "static/..%2f..%2f..%2f..%2f..%2f..%2fetc/passwd",
        "static//etc/passwd",
        "static/",
        "files/etc/passwd",
        "api/kernels",
        "r.db",
    ):
        status, _, text = get(f"{address}{path}")
        assert status in {400, 403, 404}, path
        assert b"root:" not in text
        assert b"import" not in text


@pytest.mark.parametrize(
    "path", ["", "ask", "static/page.js", "api/kernels", "api/kernels/1/channels"]
)
def test_no_channel_to_a_kernel_is_opened(address, path):
    """The page has no kernel and no websocket, which could run code."""
    params = {"Connection": "Upgrade", "Upgrade": "websocket", "Origin": address.rstrip("/")}
    keys = {"Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    status, headers, _ = get(f"{address}{path}", **params, **keys)
    assert status in {200, 404, 405}
    assert "Sec-Websocket-Accept" not in headers
    assert headers.get("Upgrade") is None


def test_pages_of_other_sites_are_refused(address):
    port = address.rstrip("/").rpartition(":")[2]
    assert ask(address, COMMITS, Origin=address.rstrip("/"))[0] == 200
    assert (
        ask(address, COMMITS, Sec_Fetch_Site="same-origin", Origin="https://proxy.example")[0]
        == 200
    )
    for headers in (
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": address.rstrip("/")},
        {"Sec_Fetch_Site": "none"},
    ):
        assert ask(address, COMMITS, **headers)[0] == 403, headers
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
    ):
        assert ask(address, COMMITS, Content_Type=kind)[0] in {400, 415}, (
            "a page elsewhere may send these"
        )
    for host in (
        "elsewhere.example",
        f"elsewhere.example:{port}",
        "127.0.0.1.elsewhere.example",
        "",
    ):
        for status, *_ in (get(address, Host=host), ask(address, COMMITS, Host=host)):
            assert status in {400, 403}, "its name could be given this machine's address"
    for host in ("localhost", "127.0.0.1", f"[::1]:{port}"):
        assert get(address, Host=host)[0] == 200


def test_on_a_network_only_requests_with_the_token_are_answered(url, tmp_path):
    with dashboard_server(tmp_path, url, "--host", "0.0.0.0") as (server, reported):
        token = re.search(r"\?token=([\w-]{32,})", reported)[1]
        address = re.sub(r"//[^:/]+:", "//127.0.0.1:", reported).partition("?")[0]
        for place in (
            "",
            "static/page.js",
            "nothing",
            "?token=",
            f"?token={token[:-1]}x",
            "?token=%ff",
        ):
            status, _, text = get(f"{address}{place}")
            assert status in {400, 403}, place
            assert b"script" not in text
        assert ask(address, COMMITS)[0] == 403
        assert ask(address, COMMITS, Cookie=f"tidegauge-8866={token[:-1]}")[0] == 403
        jar = CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        with opener.open(f"{address}?token={token}&theme=dark") as page:
            assert page.url == f"{address}?theme=dark", "the token does not stay in the address"
            assert b"color-scheme: dark" in page.read()
        (cookie,) = jar
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert ask(address, COMMITS, opener=opener)[0] == 200
        said = {"incident": 1, "action": "acknowledge", "revision": 0, "author": "ann"}
        status, reported = ask(
            address, {"id": 1, "question": "label_incident", "params": said}, opener=opener
        )
        assert (status, "error" in reported) == (200, True)
        status, reported = ask(address, {"id": 1, "question": "catalogue"}, opener=opener)
        assert reported["payload"]["writable"] is False
        assert not server.children()
        assert token not in server.output.replace(f"?token={token}", "", 1)


class Client:
    """A raw connection to a served page."""

    def __init__(self, port):
        self.port = port

    async def send(self, text=b""):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        self.writer.write(text)
        return self

    async def read_until_closed(self):
        """Return the bytes received until the server hangs up."""
        try:
            async with asyncio.timeout(20):
                return await self.reader.read()
        except ConnectionError:
            return b""
        finally:
            self.writer.close()


ASKED = b"POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n"


@pytest.fixture
def limits(monkeypatch):
    from tidegauge.widgets import server

    monkeypatch.setattr(server, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(server, "QUESTION_SECONDS", 0.3)
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    return server


@contextlib.asynccontextmanager
async def running(server, url, *, read_only=False, **site):
    """Serve in this event loop; yield the port."""
    from tornado.testing import bind_unused_port

    from tidegauge.widgets.backend import DashboardConfig, DashboardSource

    site = server.Site(DashboardSource(DashboardConfig(url, read_only=read_only)), **site)
    listening, port = bind_unused_port()
    web = server.server_of(site)
    web.add_sockets([listening])
    yield port
    web.stop()
    await web.close_all_connections()
    site.pool.shutdown()
    site.source.close()


async def fetch(port, path="", **options):
    """Return the response of a server in this event loop, whatever its status."""
    from tornado.httpclient import AsyncHTTPClient

    given = {"raise_error": False, "follow_redirects": False, **options}
    return await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/{path}", **given)


async def fetch_answer(port, message):
    """Return the JSON of the answer to a query."""
    answer = await fetch(port, "ask", method="POST", body=json.dumps(message), headers=JSON)
    return json.loads(answer.body[4 : 4 + int.from_bytes(answer.body[:4], "little")])


@pytest.mark.parametrize(
    "token",
    [
        "\u043f\u0430\u0440\u043e\u043b\u044c-secret",
        "secret-token-1 ",
        "a\x07b",
        "\u00e9t\u00e9-secret-1234",
    ],
)
def test_tokens_that_browsers_would_change_are_refused(url, capsys, monkeypatch, token):
    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_TOKEN", token)
    assert run_command(["dashboard", "--db", url, "--host", "0.0.0.0", "--no-browser"]) == 1
    output = capsys.readouterr()
    assert (
        "TIDEGAUGE_DASHBOARD_TOKEN has a blank, a control character or a non-ASCII character"
        in " ".join(output.err.split())
    )
    assert "secret" not in output.out + output.err


@pytest.mark.parametrize(
    ("token", "warned"), [("1", True), ("x" * 15, True), ("x" * 16, False), ("", False)]
)
def test_a_token_from_the_environment_is_not_printed(url, capsys, monkeypatch, token, warned):
    """It would end up in the logs of containers and services. A random token has to be printed."""
    from tidegauge.widgets import server

    given = []

    async def serve(*arguments, **_):
        given.append(arguments)

    monkeypatch.setenv("TIDEGAUGE_DASHBOARD_TOKEN", token)
    monkeypatch.setattr(server, "_serve", serve)
    arguments = ["--db", url, "--host", "0.0.0.0", "--no-browser", "--port", "0"]
    monkeypatch.setattr(server, "_listen", lambda *_: [socket.socket()])
    monkeypatch.setattr(
        server.socket.socket, "getsockname", lambda _: ("0.0.0.0", 8866), raising=False
    )
    assert run_command(["dashboard", *arguments[:-2]]) == 0
    ((site, sockets, address, shown),) = given
    sockets[0].close()
    assert address.partition("?token=")[2] == site.token
    assert shown == (f"{address.partition('?')[0]}?token=..." if token else address)
    assert ("is easy to guess" in capsys.readouterr().err) is warned


@pytest.mark.parametrize("token", ["plain-token_1234567", 'a;b,c"d\\e=f%41&g+h/i?j#k'])
def test_any_ascii_token_survives_the_cookie(url, token):
    from tidegauge.widgets import server

    async def statuses():
        async with running(server, url, token=token) as port:
            first = await fetch(port, f"?token={urllib.parse.quote(token, safe='')}")
            cookie = first.headers["Set-Cookie"].partition(";")[0]
            then = await fetch(port, headers={"Cookie": cookie})
            wrong = await fetch(port, headers={"Cookie": cookie + "x"})
            return first.code, then.code, wrong.code

    assert asyncio.run(statuses()) == (302, 200, 403)


def test_the_cookie_of_a_page_behind_tls_is_only_sent_over_tls(url):
    from tidegauge.widgets import server

    async def cookies():
        site = {"token": "t" * 16, "name": "quality.example", "secure": True}
        async with running(server, url, **site) as port:
            for host in ("quality.example", f"127.0.0.1:{port}"):
                answer = await fetch(port, f"?token={'t' * 16}", headers={"Host": host})
                yield answer.headers["Set-Cookie"]

    async def all_cookies():
        return [cookie async for cookie in cookies()]

    by_name, by_address = asyncio.run(all_cookies())
    assert "Secure" in by_name
    assert "Secure" not in by_address


def test_errors_are_logged_without_addresses_and_headers(url, caplog, monkeypatch):
    from tidegauge.widgets import server

    def fail(*_):
        raise RuntimeError("s3cr3t-token")

    monkeypatch.setattr(server._Page, "_state", fail)

    async def status():
        async with running(server, url, token="s3cr3t-token-1234") as port:
            return (await fetch(port, headers={"Cookie": "tidegauge=s3cr3t-token-1234"})).code

    assert asyncio.run(status()) == 500
    assert "GET / failed: RuntimeError" in caplog.text
    assert "s3cr3t" not in "".join(r.getMessage() for r in caplog.records if r.levelname != "DEBUG")


@pytest.mark.parametrize(
    "path", ["static/%00", "static/a%00.js", "static/" + "x" * 5000, "static/%ff"]
)
def test_invalid_file_names_are_not_found_and_not_logged(url, caplog, path):
    from tidegauge.widgets import server

    async def status():
        async with running(server, url) as port:
            return (await fetch(port, path)).code

    assert asyncio.run(status()) in {400, 404}
    assert not [r for r in caplog.records if r.levelname in {"ERROR", "CRITICAL"}]


def test_viewers_see_neither_the_database_address_nor_the_rights_of_the_operator(url):
    from tidegauge.widgets import server

    said = {"incident": 1, "revision": 0, "action": "comment", "note": "x", "author": "m"}
    typed = {"dataset": {"a": 1}, "name": ["x"]}

    async def answers():
        async with running(server, url, read_only=True) as port:
            written = await fetch_answer(
                port, {"id": 1, "question": "label_incident", "params": said}
            )
            odd = [
                await fetch_answer(port, {"id": 1, "question": ask, "params": typed})
                for ask in ("failures", "series", "incidents", "partitions")
            ]
            return written, odd

    written, odd = asyncio.run(answers())
    assert written["kind"] == "ReadOnlyError"
    assert written["error"] == "This page is read-only: it cannot save labels or comments."
    assert not [answer for answer in odd if "sqlite" in str(answer) or "/tmp" in str(answer)]


def test_database_errors_do_not_name_the_server(monkeypatch, repo):
    why = (
        "cannot open or write the database postgresql+psycopg://mallory:***@db.internal:5432/prod: connection to server at"
        ' "db.internal" (10.1.2.3), port 5432 failed: FATAL: password authentication failed for user "mallory"'
    )

    def fail(*_):
        raise tg.DatabaseAccessError(why)

    backend = Backend(repo)
    monkeypatch.setitem(backend.questions, "commits", fail)
    reported, _ = backend.answer({"id": 1, "question": "commits"}, None)
    assert "database …/prod" in reported["error"]
    assert not [
        word for word in ("db.internal", "10.1.2.3", "mallory", "5432") if word in reported["error"]
    ]


@pytest.mark.parametrize("site", [{}, {"user_header": "X-User"}], ids=["direct", "proxy"])
def test_one_address_cannot_take_all_connections(url, limits, monkeypatch, site):
    """Others are served immediately, and silent connections end after 10 seconds.

    Behind a proxy, all have one address.
    """
    assert (limits.MAX_CONNECTIONS_PER_ADDRESS, limits.FIRST_REQUEST_SECONDS) == (64, 10.0)
    monkeypatch.setattr(limits, "IDLE_SECONDS", 60.0)
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 512)
    monkeypatch.setattr(limits, "MAX_CONNECTIONS_PER_ADDRESS", 3)
    monkeypatch.setattr(limits, "FIRST_REQUEST_SECONDS", 1.0)

    async def answer(port, address):
        """Return the status line of a page that is requested in two parts, with a pause between them."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        lines = []
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for _ in range(2):
                writer.write(b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                lines.append(head.partition(b"\r\n")[0])
                await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))
                await asyncio.sleep(1.5)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return lines

    async def answers():
        async with running(limits, url, **site) as port:
            silent = [await Client(port).send() for _ in range(3)]
            await asyncio.sleep(0.2)
            both = await asyncio.gather(answer(port, "127.0.0.2"), answer(port, "127.0.0.1"))
            return *both, [await client.read_until_closed() for client in silent]

    message = b"HTTP/1.1 404 Not Found"
    other, same, silent = asyncio.run(answers())
    assert other == [message, message]
    assert same == ([message, message] if site else [])
    assert silent == [b"", b"", b""]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        ASKED + b'{"id": "1", ',
        b"GET /static/page.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["nothing", "half of the headers", "half of the question", "nothing more"],
)
def test_idle_and_slow_clients_are_disconnected(url, limits, sent):
    async def exchange():
        async with running(limits, url) as port:
            return await (await Client(port).send(sent)).read_until_closed()

    answer = asyncio.run(exchange())
    assert (b"200 OK" in answer) is (b"page.js" in sent)


def test_an_unread_answer_is_dropped(url, limits, monkeypatch):
    """Its bytes would be kept until they are read."""
    whole = b"x" * (64 << 20)
    monkeypatch.setattr(limits._Ask, "_answer", lambda *_: whole)

    async def exchange():
        async with running(limits, url) as port:
            client = await Client(port).send(ASKED + b'{"id": 1, "question": "commits"}')
            began = await client.reader.readexactly(15)
            await asyncio.sleep(1)
            return began, await client.read_until_closed()

    began, rest = asyncio.run(exchange())
    assert began == b"HTTP/1.1 200 OK"
    assert len(rest) < len(whole)


def test_the_number_of_connections_is_bounded(url, limits, monkeypatch):
    monkeypatch.setattr(limits, "IDLE_SECONDS", 60.0)

    async def exchange():
        page = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        async with running(limits, url) as port:
            idle = [await Client(port).send(b"GET ") for _ in range(4)]
            await asyncio.sleep(0.2)
            refused = await (await Client(port).send(page)).read_until_closed()
            idle[0].writer.close()
            served = b""
            for _ in range(100):  # until the server has noticed it
                if served := await (await Client(port).send(page)).read_until_closed():
                    break
                await asyncio.sleep(0.05)
            for client in idle[1:]:
                client.writer.close()
            return refused, served

    refused, served = asyncio.run(exchange())
    assert refused == b""
    assert served.startswith(b"HTTP/1.1 200 OK")


def test_too_many_requests_are_refused(url):
    """The queue is bounded, so memory is bounded."""
    from tornado.httpclient import AsyncHTTPClient
    from tornado.testing import bind_unused_port

    from tidegauge.widgets.backend import DashboardConfig, DashboardSource
    from tidegauge.widgets.server import MAX_WAITING_QUESTIONS, Site, application

    async def statuses():
        site = Site(DashboardSource(DashboardConfig(url)))
        listening, port = bind_unused_port()
        server = application(site).listen(port=0)
        server.add_sockets([listening])

        async def status():
            place, body = f"http://127.0.0.1:{port}/ask", json.dumps(COMMITS)
            client = AsyncHTTPClient()
            given = {"method": "POST", "body": body, "headers": JSON, "raise_error": False}
            return (await client.fetch(place, **given)).code

        site.waiting.extend([None] * MAX_WAITING_QUESTIONS)
        full = await status()
        site.waiting.pop()
        actual = [full, await status(), len(site.waiting)]
        server.stop()
        site.pool.shutdown()
        site.source.close()
        return actual

    assert asyncio.run(statuses()) == [503, 200, MAX_WAITING_QUESTIONS - 1]
