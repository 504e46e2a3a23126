"""The cookbook's configuration of nginx serves the dashboard to users with passwords."""

import os
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.browser.conftest import leave, wait_for_state
from tests.docs.pages import blocks_run_by
from tests.services.servers import Server, dashboard_server, free_port
from tidegauge.repository.repository import Repository

NGINX = """
daemon off; pid nginx.pid; {user}
events {{}}
http {{
  access_log off;
  {temporary}
  server {{ listen 127.0.0.1:{port}; {recipe} }}
}}
"""


@pytest.fixture
def proxied(tmp_path, coast_copy):
    """The address of nginx in front of a dashboard, configured as in the cookbook."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    (recipe,) = (block.code for block in blocks_run_by(__file__))
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", "secret"], capture_output=True, text=True, check=True
    )
    (tmp_path / "users").write_text(f"ann:{hashed.stdout}")
    port = free_port()
    shown = f"http://quality.localhost:{port}/"  # browsers resolve such names to this machine
    with dashboard_server(
        tmp_path,
        coast_copy,
        *("--user-header", "X-Forwarded-User"),
        TIDEGAUGE_DASHBOARD_URL=shown,
    ) as (_, url):
        for written, real in {
            "/etc/nginx/users": str(tmp_path / "users"),
            "127.0.0.1:8866": url.removeprefix("http://").rstrip("/"),
        }.items():
            assert written in recipe
            recipe = recipe.replace(written, real)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        (tmp_path / "nginx.conf").write_text(
            NGINX.format(
                port=port,
                recipe=recipe,
                user="user root;" if os.geteuid() == 0 else "",
                temporary="".join(f"{kind}_temp_path {kind};" for kind in kinds),
            )
        )
        command = [nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-g", "error_log stderr notice;"]
        server = Server(command, tmp_path / "nginx", dict(os.environ))
        try:
            server.wait_for("start worker process")
            yield shown
        finally:
            server.end()


@pytest.mark.soak
def test_nginx_requires_a_password_and_names_the_user(chromium, proxied, coast_copy):
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(proxied.replace("quality.localhost", "127.0.0.1"))
    context = chromium.new_context(http_credentials={"username": "ann", "password": "secret"})
    page = context.new_page()
    page.set_extra_http_headers({"X-Forwarded-User": "eve"})
    page.goto(f"{proxied}#/incidents")
    root = wait_for_state(page, "drawn")
    assert root.locator(".tg-incident .tg-author").inner_text() == "as ann"
    root.locator(".tg-incident").get_by_role("button", name="Acknowledge").click()
    root.locator(".tg-timeline").get_by_text("acknowledged").wait_for()
    leave(page)
    context.close()
    with Repository(coast_copy, read_only=True) as repo:
        assert repo.labels()["by"].tolist()[-1] == "ann"
