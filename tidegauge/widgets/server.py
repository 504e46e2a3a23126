"""Serve the dashboard as a web page by Voila, configured to contact no other host."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import webbrowser
from importlib.resources import files
from pathlib import Path
from tempfile import gettempdir
from threading import Thread
from typing import Any
from urllib.parse import quote

from tidegauge.analyzers.core.errors import TidegaugeError

DEFAULT_PORT = 8866
_OTHER_PORTS = 50
_IDLE_SECONDS = 3600
_LONGEST_FOLDER = 42
"""A socket's path has at most 107 bytes, and Voila adds 65 to the temporary folder's."""
MOST_PAGES = 32
"""Pages that may be open at a time: each has a process."""
_LARGEST_MESSAGE = 1 << 20
"""Bytes of a message that a page may send: it sends questions; answers may be larger."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'; style-src 'self' 'unsafe-inline'; font-src 'self' data:;"
        " img-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:"
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address may hold the token
    "Cache-Control": "no-store",
}
_FOLDER = Path(str(files("tidegauge").joinpath("widgets")))


def serve(
    *,
    host: str,
    port: int | None,
    browser: bool,
    theme: str,
    user_header: str | None = None,
    token: str | None = None,
) -> None:
    """Serve the dashboard until Ctrl-C or SIGTERM, then end its kernels.

    The environment configures what it shows; see `tidegauge.widgets.served`.

    Parameters
    ----------
    host : str
        The address to listen on.
    port : int, optional
        Defaults to 8866, or another free port.
    browser : bool
        If true, open the page in the browser.
    theme : str
        ``light`` or ``dark``; ``?theme=`` in the address overrides it.
    user_header : str, optional
        HTTP header that is passed to the kernels, in which a reverse proxy names the user.
    token : str, optional
        If given, pages and kernels answer only those who know it: ``?token=`` in the first address, a
        cookie from then on.

    Raises
    ------
    TidegaugeError
        If it cannot listen there.
    """
    _require_free(host, port)
    # It warns about Jupyter's own settings.
    logging.getLogger("tornado.general").setLevel(logging.ERROR)
    _find_templates()
    from traitlets.config import Config

    config = Config()
    config.Voila = Config(
        notebook_path=str(_FOLDER / "dashboard.ipynb"),
        ip=host,
        port=DEFAULT_PORT if port is None else port,
        port_retries=_OTHER_PORTS if port is None else 0,
        log_level="ERROR",
        config_file_paths=[],  # configuration files in the current folder are for other notebooks
        # Against DNS rebinding: a page elsewhere could point its name at our address, and read this
        # one.
        tornado_settings={
            "allow_remote_access": not is_loopback(host),
            "headers": _HEADERS,
            "websocket_max_message_size": _LARGEST_MESSAGE,
        },
        token=token,
    )
    config.VoilaConfiguration = Config(
        template="tidegauge",
        allow_template_override="NO",
        theme=theme,
        file_allowlist=[],
        prelaunch_hook=_prepare_page,
        http_header_envs=[user_header] if user_header else [],
        # Exclude other installed extensions of JupyterLab.
        extension_allowlist=[
            "anywidget",
            "@jupyter-widgets/jupyterlab-manager",
            "@voila-dashboards/widgets-manager8",
        ],
    )
    if len(gettempdir()) <= _LONGEST_FOLDER:
        config.KernelManager = Config(transport="ipc")  # socket files that other users cannot open
    config.MappingKernelManager = Config(cull_idle_timeout=_IDLE_SECONDS)  # of closed pages
    server = _server(config, browser=browser, token=token)
    server.initialize([])
    server.start()


def _server(config: Any, *, browser: bool, token: str | None) -> Any:
    """Return Voila, which is imported here because that takes seconds."""
    from jupyter_client.kernelspec import KernelSpecManager
    from voila.app import Voila

    class ThisPython(KernelSpecManager):
        """Kernel manager of the current Python only, and none installed under the same name."""

        def _kernel_dirs_default(self) -> list[str]:
            return []

    class Server(Voila):  # type: ignore[misc]  # Voila is untyped
        """Voila that prints its address in one line when it listens."""

        def launch_browser(self) -> None:
            """Print the address, and open it in a browser if asked to."""
            url = self.display_url.partition("?")[0]
            if token:
                url += f"?token={quote(token, safe='')}"
            if ":" in self.ip:  # IPv6
                url = url.replace(self.ip, f"[{self.ip}]", 1)
            print(f"Dashboard at {url} - end with Ctrl-C", flush=True)
            if browser:
                # Some browsers block the process that opens them, and this one is about to serve.
                Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    config.VoilaConfiguration.kernel_spec_manager_class = ThisPython
    return Server(config=config)


def _prepare_page(handler: Any, **_: Any) -> None:
    """Refuse too many pages, and set the XSRF cookie, without which a closed page keeps its kernel."""
    from tornado.web import HTTPError

    if len(handler.kernel_manager.list_kernel_ids()) >= MOST_PAGES:
        raise HTTPError(503, f"{MOST_PAGES} pages are open; close one")
    handler.xsrf_token  # noqa: B018 - reading it sets it


def _find_templates() -> None:
    """Add our template to ``JUPYTER_PATH``, for Voila and the handlers that it starts."""
    ours, others = str(_FOLDER / "jupyter"), os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = os.pathsep.join([ours, others] if others else [ours])


def _require_free(host: str, port: int | None) -> None:
    try:
        family = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port or 0))
    except OSError as error:
        reason = error.strerror or error
        msg = f"cannot listen on {host}: {reason}; leave --host out for this machine alone"
        if port is not None:
            msg = f"cannot listen on {host}, port {port}: {reason}; leave --port out to find a free one"
        raise TidegaugeError(msg) from error


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
