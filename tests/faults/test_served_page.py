"""The served page under attack: no code in its kernel, no other file, no other origin, no stranger."""

import asyncio
import json
import os
import re
import urllib.error
import urllib.request
import uuid
from http.cookiejar import CookieJar
from importlib.util import find_spec

import pytest
from tidegauge.repository.repository import Repository
from tidegauge.repository.testing.samples import commit, day

from tests.servers import dashboard_server

pytestmark = [
    pytest.mark.skipif(find_spec("voila") is None, reason="Voila is not installed"),
    pytest.mark.soak,
]


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with Repository(url) as repo:
        commit(repo, day(1))
    return url


def get(address, opener=None, **headers):
    """Return status, headers and text of an answer."""
    request = urllib.request.Request(address, headers=headers)
    try:
        with (opener or urllib.request.build_opener()).open(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode(errors="replace")


def kernel_of(page):
    return re.search(r'"kernelId":\s*"([0-9a-f-]{36})"', page)[1]


def message(kind, content):
    header = {
        "msg_id": uuid.uuid4().hex,
        "username": "x",
        "session": uuid.uuid4().hex,
        "msg_type": kind,
        "version": "5.3",
    }
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content}


async def talk(address, kernel, sent, *, seconds=4.0, **headers):
    """Open the kernel's websocket, send messages to every channel, and return what comes back."""
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    place = f"{address.replace('http', 'ws', 1).rstrip('/')}/api/kernels/{kernel}/channels"
    socket = await websocket_connect(HTTPRequest(place, headers=headers))
    for one in sent:
        for channel in ("shell", "control", "stdin"):
            await socket.write_message(json.dumps({**one, "channel": channel}))
    heard = []
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        try:
            got = await asyncio.wait_for(socket.read_message(), left)
        except TimeoutError:
            break
        if got is None:
            break
        heard.append(json.loads(got)["msg_type"] if isinstance(got, str) else got)
    socket.close()
    return heard


def test_no_code_runs_by_the_websocket_of_a_page(url, tmp_path):
    """By any message that Jupyter's protocol has, on any channel; a question is answered."""
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w').write('x')"
    attacks = [
        message(
            "execute_request", {"code": code, "silent": False, "user_expressions": {"a": code}}
        ),
        message("complete_request", {"code": f"({code}).", "cursor_pos": len(code) + 3}),
        message("inspect_request", {"code": code, "cursor_pos": 1, "detail_level": 1}),
        message("is_complete_request", {"code": code}),
        message("input_reply", {"value": code, "status": "ok"}),
        message("debug_request", {"command": "evaluate", "arguments": {"expression": code}}),
        message("apply_request", {"code": code}),
        message("create_subshell_request", {}),
        message(
            "comm_open",
            {"comm_id": "a", "target_name": "x", "target_module": "antigravity", "data": {}},
        ),
    ]
    with dashboard_server(tmp_path, url) as (server, address):
        status, headers, page = get(address)
        assert status == 200
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert str(tmp_path) not in page
        kernel = kernel_of(page)
        heard = asyncio.run(talk(address, kernel, [*attacks, message("kernel_info_request", {})]))
        assert "kernel_info_reply" in heard
        refused = {"execute_reply", "complete_reply", "inspect_reply", "debug_reply", "error"}
        assert not refused & set(heard)
        assert not mark.exists()
        assert server.children()


def test_pages_elsewhere_and_other_files_are_refused(url, tmp_path):
    from tornado.httpclient import HTTPClientError

    with dashboard_server(tmp_path, url) as (_, address):
        kernel = kernel_of(get(address)[2])
        with pytest.raises(HTTPClientError, match="403"):
            asyncio.run(talk(address, kernel, [], Origin="http://elsewhere.example"))
        for path in (
            "voila/files/dashboard.ipynb",
            "voila/files/../r.db",
            "voila/static/..%2f..%2f..%2fetc/passwd",
            "api/contents",
            "api/kernels",
            "api/sessions",
            "api/terminals",
            "files/etc/passwd",
            "voila/tree",
        ):
            status, _, text = get(f"{address.rstrip('/')}/{path}")
            assert status in {400, 403, 404, 405}, path
            assert "root:" not in text
            assert str(tmp_path) not in text


def test_on_a_network_only_who_knows_the_token_is_answered(url, tmp_path, monkeypatch):
    from tornado.httpclient import HTTPClientError

    with dashboard_server(tmp_path, url, "--host", "0.0.0.0") as (server, told):
        token = re.search(r"\?token=([\w-]{32,})", told)[1]
        address = re.sub(r"//[^:/]+:", "//127.0.0.1:", told).partition("?")[0]
        jar = urllib.request.HTTPCookieProcessor(CookieJar())
        stranger = get(address)
        assert "kernelId" not in stranger[2]
        assert not server.children()
        status, _, page = get(f"{address}?token={token}", urllib.request.build_opener(jar))
        assert status == 200
        kernel = kernel_of(page)
        (process,) = server.children()
        assert json.loads(process.environ()["TIDEGAUGE_DASHBOARD"])["read_only"] is True
        with pytest.raises(HTTPClientError, match="403"):
            asyncio.run(talk(address, kernel, []))
        cookie = "; ".join(f"{one.name}={one.value}" for one in jar.cookiejar)
        info = message("kernel_info_request", {})
        heard = asyncio.run(talk(address, kernel, [info], Cookie=cookie))
        assert "kernel_info_reply" in heard
        assert token not in " ".join(process.cmdline())
    assert os.environ.get("TIDEGAUGE_DASHBOARD_TOKEN") is None
