"""The served page under attack: questions only, no other file, no other origin, no stranger."""

import asyncio
import contextlib
import json
import re
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from importlib.util import find_spec

import pytest
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing.samples import commit, day

from tests.servers import dashboard_server

pytestmark = pytest.mark.skipif(find_spec("tornado") is None, reason="Tornado is not installed")

JSON = {"Content-Type": "application/json"}
PULSE = {"id": "1", "ask": "pulse"}


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
    """Return status, headers and bytes of an answer."""
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
    """Ask a question; return the status, and the JSON of the answer, or its text."""
    given = {"Content_Type": "application/json", **headers}
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    status, _, body = get(f"{address}ask", data=data, opener=opener, **given)
    if status != 200:
        return status, body.decode()
    return status, json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])


def test_a_page_tells_nothing_of_the_repositorys_place(address, url):
    status, headers, page = get(address)
    assert status == 200
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"].partition("style-src")[0]
    assert "unsafe-eval" not in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert url.removeprefix("sqlite:///").encode() not in page
    assert b"https://" not in page


def test_a_page_has_an_icon(address):
    (icon,) = re.findall(
        r'<link rel="icon" type="image/svg\+xml" href="([^"]+)">', get(address)[2].decode()
    )
    status, headers, image = get(f"{address}{icon}")
    assert (status, headers["Content-Type"]) == (200, "image/svg+xml")
    assert image.startswith(b"<svg")


def test_only_questions_are_answered(address):
    status, told = ask(address, PULSE)
    assert (status, told["id"], set(told["told"])) == (200, "1", {"commits"})
    for message in (b"", b"x", b"[]", b"1", b'{"ask": "pulse"}', b"\xff"):
        assert ask(address, message)[0] == 400, message
    for name in ("__class__", "eval", None, ["pulse"], {"a": 1}):
        status, told = ask(address, {"id": 1, "ask": name})
        assert (status, told["kind"]) == (200, "UnknownQuestion"), name
    status, told = ask(address, {"id": 1, "ask": "cell", "about": [1]})
    assert (status, set(told)) == (200, {"id", "seconds", "error", "kind"})
    with contextlib.suppress(urllib.error.URLError, ConnectionError):  # it hangs up, or says so
        assert ask(address, b"x" * ((1 << 20) + 1))[0] in {400, 413}
    assert get(f"{address}ask")[0] == 405
    assert ask(address, PULSE)[0] == 200


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


def test_pages_of_other_sites_are_refused(address):
    port = address.rstrip("/").rpartition(":")[2]
    assert ask(address, PULSE, Origin=address.rstrip("/"))[0] == 200
    assert (
        ask(address, PULSE, Sec_Fetch_Site="same-origin", Origin="https://proxy.example")[0] == 200
    )
    for headers in (
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": address.rstrip("/")},
        {"Sec_Fetch_Site": "none"},
    ):
        assert ask(address, PULSE, **headers)[0] == 403, headers
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
    ):
        assert ask(address, PULSE, Content_Type=kind)[0] in {400, 415}, (
            "a page elsewhere may send these"
        )
    for host in (
        "elsewhere.example",
        f"elsewhere.example:{port}",
        "127.0.0.1.elsewhere.example",
        "",
    ):
        for status, *_ in (get(address, Host=host), ask(address, PULSE, Host=host)):
            assert status in {400, 403}, "its name could be given this machine's address"
    for host in ("localhost", "127.0.0.1", f"[::1]:{port}"):
        assert get(address, Host=host)[0] == 200


def test_on_a_network_only_who_knows_the_token_is_answered(url, tmp_path):
    with dashboard_server(tmp_path, url, "--host", "0.0.0.0") as (server, told):
        token = re.search(r"\?token=([\w-]{32,})", told)[1]
        address = re.sub(r"//[^:/]+:", "//127.0.0.1:", told).partition("?")[0]
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
        assert ask(address, PULSE)[0] == 403
        assert ask(address, PULSE, Cookie=f"tidegauge-8866={token[:-1]}")[0] == 403
        jar = CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        with opener.open(f"{address}?token={token}&theme=dark") as page:
            assert page.url == f"{address}?theme=dark", "the token does not stay in the address"
            assert b"color-scheme: dark" in page.read()
        (cookie,) = jar
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert ask(address, PULSE, opener=opener)[0] == 200
        said = {"incident": 1, "action": "acknowledge", "seen": 0, "by": "ann"}
        status, told = ask(address, {"id": 1, "ask": "say", "about": said}, opener=opener)
        assert (status, "error" in told) == (200, True)
        status, told = ask(address, {"id": 1, "ask": "catalogue"}, opener=opener)
        assert told["told"]["writable"] is False
        assert not server.children()
        assert token not in server.said.replace(f"?token={token}", "", 1)


def test_who_asks_too_much_is_refused(url):
    """The queue is bounded, so that memory is."""
    from tidegauge.widgets.server import MOST_WAITING, Site, application
    from tidegauge.widgets.source import Shown, Source
    from tornado.httpclient import AsyncHTTPClient
    from tornado.testing import bind_unused_port

    async def statuses():
        site = Site(Source(Shown(url)))
        listening, port = bind_unused_port()
        server = application(site).listen(port=0)
        server.add_sockets([listening])

        async def status():
            place, body = f"http://127.0.0.1:{port}/ask", json.dumps(PULSE)
            client = AsyncHTTPClient()
            given = {"method": "POST", "body": body, "headers": JSON, "raise_error": False}
            return (await client.fetch(place, **given)).code

        site.waiting.extend([None] * MOST_WAITING)
        full = await status()
        site.waiting.pop()
        found = [full, await status(), len(site.waiting)]
        server.stop()
        site.pool.shutdown()
        site.source.close()
        return found

    assert asyncio.run(statuses()) == [503, 200, MOST_WAITING - 1]
