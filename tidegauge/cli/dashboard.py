"""The dashboard command."""

from __future__ import annotations

import os
import re
import secrets
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.analyzers.core.errors import DatabaseAccessError, TidegaugeError, UnknownDatasetError
from tidegauge.cli.options import ArtifactsOption, Db, say

if TYPE_CHECKING:
    from tidegauge.widgets.source import Shown

_LOOPBACK = "127.0.0.1"
_TOKEN = "TIDEGAUGE_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable

MIN_TOKEN_CHARACTERS = 16
"""Shorter tokens are warned of: nothing slows guessing."""


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
    show_samples: Annotated[
        bool,
        typer.Option(
            "--show-samples",
            help="Show records that failed checks, as they were kept; else only their number.",
        ),
    ] = False,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="With --host and --user-header: a proxy in front asks for a password.",
        ),
    ] = False,
    theme: Annotated[Theme, typer.Option(help="?theme=dark in the address does it, too.")] = (
        Theme.LIGHT
    ),
) -> None:
    """Serve the dashboard on this machine, and open it in the browser.

    With --host, the token is that of TIDEGAUGE_DASHBOARD_TOKEN, else a random one that is printed.
    """
    if find_spec("tornado") is None:
        msg = "the dashboard needs tornado: pip install 'tidegauge[notebook]'"
        raise TidegaugeError(msg)
    from tidegauge.repository.store.config import dashboard_url, settings
    from tidegauge.widgets.server import is_loopback, serve
    from tidegauge.widgets.source import Shown

    token, given = None, ""
    if not is_loopback(host):
        read_only = read_only or not write
        if no_token and user_header is None:
            msg = (
                "--no-token leaves the password to a proxy, which has to name the user: give its"
                " header, as in --user-header X-Forwarded-User"
            )
            raise typer.BadParameter(msg)
        if no_token:
            say(f"only the proxy may reach {host}: others could send the header {user_header}, too")
        else:
            given = os.environ.pop(_TOKEN, "")
            _check_token(given)
            token = given or secrets.token_urlsafe(24)
    _check_header(user_header)
    url, folder = settings(db, artifacts)
    shown = Shown(url, None if folder is None else str(folder), dataset, read_only, show_samples)
    _check(shown)
    serve(
        shown,
        host=host,
        port=port,
        browser=browser,
        theme=theme,
        user_header=user_header,
        token=token,
        show_token=not given,  # what is printed lands in the logs of containers and services
        address=dashboard_url(),
    )


def _check_token(token: str) -> None:
    """Refuse a token that browsers or cookies would change, and warn of one that can be guessed."""
    place = next((n for n, letter in enumerate(token, 1) if not "!" <= letter <= "~"), None)
    if place is not None:
        msg = (
            f"{_TOKEN} has a blank, a control character or a letter beyond ASCII in place {place} of {len(token)}:"
            " use letters, digits and signs of ASCII, such as the output of `openssl rand -hex 16`"
        )
        raise typer.BadParameter(msg)
    if 0 < len(token) < MIN_TOKEN_CHARACTERS:
        say(
            f"{_TOKEN} has {len(token)} characters, which can be guessed: use at least"
            f" {MIN_TOKEN_CHARACTERS}, such as the output of `openssl rand -hex 16`"
        )


def _check_header(name: str | None) -> None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        msg = f"--user-header {name!r} is no name of an HTTP header, such as X-Forwarded-User"
        raise typer.BadParameter(msg)


def _check(shown: Shown) -> None:
    """Check that the repository can be opened, and has the dataset."""
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.database import Database

    database = Database.unchecked(shown.db)  # a checked opening would create it
    database.close()
    if not database.is_shared:
        msg = f"{database.name} is in memory, and empty; name a file"
        raise DatabaseAccessError(msg)
    if database.file is not None and not database.file.exists():
        msg = (
            f"there is no database {database.file}; name one with --db, or make one: tidegauge run"
        )
        raise DatabaseAccessError(msg)
    with Repository(shown.db, artifacts=shown.artifacts, read_only=True) as repository:
        there = repository.datasets()
        if shown.dataset is not None and shown.dataset not in there:
            raise UnknownDatasetError(shown.dataset, there)
