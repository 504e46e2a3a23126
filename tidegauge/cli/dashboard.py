"""The dashboard command."""

from __future__ import annotations

import os
import re
import secrets
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.analyzers.core.errors import DatabaseAccessError, TidegaugeError, UnknownDatasetError
from tidegauge.cli.options import ArtifactsOption, Db, open_repository, say

_LOOPBACK = "127.0.0.1"
_TOKEN = "TIDEGAUGE_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable


class Theme(StrEnum):
    """The colour theme of the page."""

    LIGHT = "light"
    DARK = "dark"


def dashboard(
    db: Db = None,
    artifacts: ArtifactsOption = None,
    dataset: Annotated[str | None, typer.Option(help="The dataset to begin with.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Else 8866, or another that is free.")
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. At any other than this machine's own, the page needs"
            " a token and is read-only; see --no-token and --write."
        ),
    ] = _LOOPBACK,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable labelling.")] = False,
    user_header: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help="The HTTP header in which a reverse proxy names the user, as in X-Forwarded-User."
            " Only the proxy may reach the page, since others could send it, too.",
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="With --host: allow labelling to all who have the token."),
    ] = False,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="With --host: a proxy in front asks for a password."),
    ] = False,
    theme: Annotated[Theme, typer.Option(help="?theme=dark in the address does it, too.")] = (
        Theme.LIGHT
    ),
) -> None:
    """Serve the dashboard on this machine, and open it in the browser.

    With --host, the token is that of TIDEGAUGE_DASHBOARD_TOKEN, else a random one that is printed.
    """
    missing = [name for name in ("anywidget", "ipykernel", "voila") if find_spec(name) is None]
    if missing:
        msg = f"the dashboard needs {' and '.join(missing)}: pip install 'tidegauge[notebook]'"
        raise TidegaugeError(msg)
    from tidegauge.widgets.served import Shown
    from tidegauge.widgets.server import is_loopback, serve

    token = None
    if not is_loopback(host):
        read_only = read_only or not write
        if no_token:
            say(f"everyone who reaches {host} can use this dashboard; there is no password")
        else:
            token = os.environ.pop(_TOKEN, "") or secrets.token_urlsafe(24)
    url, folder = _checked(db, artifacts, dataset, read_only=read_only)
    _check_header(user_header)
    Shown(url, folder, dataset, read_only, user_header).put(os.environ)
    serve(host=host, port=port, browser=browser, theme=theme, user_header=user_header, token=token)


def _check_header(name: str | None) -> None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        msg = f"--user-header {name!r} is no name of an HTTP header, such as X-Forwarded-User"
        raise typer.BadParameter(msg)


def _checked(
    db: str | None, artifacts: str | None, dataset: str | None, *, read_only: bool
) -> tuple[str, str | None]:
    """Check that the repository can be opened; return its URL and folder as absolute paths."""
    from tidegauge.repository.store.config import settings
    from tidegauge.repository.store.database import Database

    url, folder = settings(db, artifacts)
    database = Database.unchecked(url)  # a checked opening would create it
    database.close()
    if not database.is_shared:
        msg = f"{database.name} is in memory, where another process cannot see it; name a file"
        raise DatabaseAccessError(msg)
    if database.file is not None and not database.file.exists():
        msg = (
            f"there is no database {database.file}; name one with --db, or make one: tidegauge run"
        )
        raise DatabaseAccessError(msg)
    whole = database.url
    if database.file is not None:
        whole = whole.set(database=str(database.file.absolute()))
    folder = None if folder is None else str(Path(folder).absolute())
    with open_repository(url, folder, read_only=read_only) as repository:
        there = repository.datasets()
        if dataset is not None and dataset not in there:
            raise UnknownDatasetError(dataset, there)
    return whole.render_as_string(hide_password=False), folder
