"""Open the repository that a served dashboard shows once, and again if its file was replaced."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import DatabaseAccessError
from tidegauge.repository.repository import Repository
from tidegauge.repository.store.engines import missing_file_message
from tidegauge.widgets.backend import Backend

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Shown:
    """Configuration of a served dashboard.

    Attributes
    ----------
    db : str
        The database's URL.
    artifacts : str or None
        The folder for large states.
    dataset : str or None
        The dataset to begin with.
    read_only : bool
    samples : bool
        Show samples of failing records.
    """

    db: str
    artifacts: str | None = None
    dataset: str | None = None
    read_only: bool = False
    samples: bool = False


class DashboardSource:
    """Backend of all pages of a server.

    Connections outlive the file that they opened, so a restored or replaced SQLite file would never be
    seen: each question looks whether the file is still the same.

    Parameters
    ----------
    shown : Shown
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._opening = Lock()
        self._backend: Backend | None = None
        self._file: tuple[int, int] | None = None

    def backend(self) -> Backend:
        """Return the backend of the current database.

        Raises
        ------
        DatabaseAccessError
            If its file is gone, or cannot be opened.
        """
        with self._opening:
            old = self._backend
            if old is not None and _identity(old.repository.database.file) == self._file:
                return old
            self.close()
            shown = self._shown
            # To look at a database must not upgrade it, which older releases could no longer write to.
            repository = Repository(
                shown.db, artifacts=shown.artifacts, read_only=shown.read_only, upgrade=False
            )
            try:
                self._file = _identity(repository.database.file)
                self._backend = Backend(repository, samples=shown.samples)
            except BaseException:
                repository.close()
                raise
            return self._backend

    def close(self) -> None:
        """Close the connections."""
        if self._backend is not None:
            self._backend.repository.close()
            self._backend = None


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Return device and number of a database's file; None for a server.

    Raises
    ------
    DatabaseAccessError
        If there is no such file.
    """
    if file is None:
        return None
    try:
        found = file.stat()
    except FileNotFoundError as error:
        raise DatabaseAccessError(missing_file_message(file)) from error
    return found.st_dev, found.st_ino
