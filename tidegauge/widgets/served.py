"""Kernel side of the served page: builds the dashboard that the command configured."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import TidegaugeError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_VARIABLE = "TIDEGAUGE_DASHBOARD"


@dataclass(frozen=True)
class Shown:
    """Configuration of a served dashboard.

    It is passed in the environment, which others on the machine cannot read, because a URL may hold
    a password.

    Attributes
    ----------
    db : str
        The database's URL; a file has its absolute path, because kernels run in another folder.
    artifacts : str or None
        The folder for large states, as an absolute path.
    dataset : str or None
    read_only : bool
    user_header : str or None
        HTTP header in which a reverse proxy names the user.
    """

    db: str
    artifacts: str | None = None
    dataset: str | None = None
    read_only: bool = False
    user_header: str | None = None

    def put(self, environment: MutableMapping[str, str]) -> None:
        """Write the configuration into an environment."""
        environment[_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> Shown:
        """Read the configuration from an environment.

        Raises
        ------
        TidegaugeError
            If it is not set.
        """
        text = environment.get(_VARIABLE)
        if text is None:
            msg = "this page is started by: tidegauge dashboard"
            raise TidegaugeError(msg)
        return cls(**json.loads(text))


def dashboard() -> Any:
    """Return the dashboard, or the error that prevents it, for the page's only cell."""
    from tidegauge.repository.repository import Repository
    from tidegauge.widgets.dashboard import Dashboard

    try:
        shown = Shown.from_environment(os.environ)
        by = "" if shown.user_header is None else _user(shown.user_header, os.environ)
        repository = Repository(shown.db, artifacts=shown.artifacts, read_only=shown.read_only)
        page = Dashboard(repository, shown.dataset, by=by, height=0)
    except TidegaugeError as error:
        return Problem(str(error))
    page.in_address = True
    if shown.dataset is not None:
        page.view, page.options = "overview", {"overview": {"table": shown.dataset}}
    return page


def _user(header: str, environment: MutableMapping[str, str]) -> str:
    """Return the user that the reverse proxy named; Voila passes the header in the environment.

    Raises
    ------
    TidegaugeError
        If the header is missing or empty: the page was not opened through the proxy.
    """
    name = environment.get(f"HTTP_{header.upper().replace('-', '_')}", "").strip()
    if not name:
        msg = f"the request has no header {header}: open this page through the proxy that sets it"
        raise TidegaugeError(msg)
    return name


@dataclass(frozen=True)
class Problem:
    """An error message in place of the dashboard."""

    text: str

    def _repr_html_(self) -> str:
        return f'<div class="tidegauge" data-state="error" role="alert">{escape(self.text)}</div>'
