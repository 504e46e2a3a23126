"""What the served page runs in its kernel: the dashboard of the repository that the command named."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from analyzers.errors import TidegaugeError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_VARIABLE = "TIDEGAUGE_DASHBOARD"


@dataclass(frozen=True)
class Shown:
    """What a served dashboard shows.

    It goes by the environment, which others on the machine cannot read, because a URL may hold a
    password.

    Attributes
    ----------
    db : str
        The database's URL; a file has its whole path, because kernels run in another folder.
    artifacts : str or None
        The folder for large states, with its whole path.
    dataset : str or None
    read_only : bool
    """

    db: str
    artifacts: str | None = None
    dataset: str | None = None
    read_only: bool = False

    def put(self, environment: MutableMapping[str, str]) -> None:
        """Write it into an environment."""
        environment[_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Shown:
        """Read it from an environment.

        Raises
        ------
        TidegaugeError
            If nobody wrote it there.
        """
        text = environment.get(_VARIABLE)
        if text is None:
            msg = "this page is started by: tidegauge dashboard"
            raise TidegaugeError(msg)
        return cls(**json.loads(text))


def dashboard() -> Any:
    """Return the dashboard, or the reason why there is none, for the page's only cell."""
    from repository.repository import Repository  # noqa: PLC0415 - in the kernel only
    from tidegauge.widgets.dashboard import Dashboard  # noqa: PLC0415 - an extra

    try:
        shown = Shown.of(os.environ)
        repository = Repository(shown.db, artifacts=shown.artifacts, read_only=shown.read_only)
        return Dashboard(repository, shown.dataset, height=0)
    except TidegaugeError as error:
        return Problem(str(error))


@dataclass(frozen=True)
class Problem:
    """A sentence in place of the dashboard."""

    text: str

    def _repr_html_(self) -> str:
        return f'<div class="tidegauge" data-state="error" role="alert">{escape(self.text)}</div>'
