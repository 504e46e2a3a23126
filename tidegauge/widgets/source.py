"""Open the repository of a served dashboard once, and reopen it if its file was replaced."""

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
class DashboardConfig:
    """Configuration of a served dashboard.

    Attributes
    ----------
    db : str
        URL of the database.
    artifacts : str or None
        Folder of large states.
    dataset : str or None
        The dataset to show first.
    read_only : bool
        If true, incidents cannot be labeled.
    samples : bool
        If true, show samples of failing records, which are data of the tables.
    """

    db: str
    artifacts: str | None = None
    dataset: str | None = None
    read_only: bool = False
    samples: bool = False


class DashboardSource:
    """Source of the backend of a server, which all pages share.

    Connections outlive the file that they opened, so they would not notice a restored or replaced
    SQLite file. Each question therefore checks whether the file is still the same.

    Parameters
    ----------
    config : DashboardConfig
    """

    def __init__(self, config: DashboardConfig) -> None:
        self._config = config
        self._opening_lock = Lock()
        self._backend: Backend | None = None
        self._file: tuple[int, int] | None = None

    def backend(self) -> Backend:
        """Return the backend of the current database.

        Raises
        ------
        DatabaseAccessError
            If its file is missing or cannot be opened.
        """
        with self._opening_lock:
            old = self._backend
            if old is not None and _identity(old.repository.database.file) == self._file:
                return old
            self.close()
            config = self._config
            # The dashboard must not upgrade the database: older releases could not write to it anymore.
            repository = Repository(
                config.db, artifacts=config.artifacts, read_only=config.read_only, upgrade=False
            )
            try:
                self._file = _identity(repository.database.file)
                self._backend = Backend(repository, samples=config.samples)
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
    """Return the device and inode of a database file; None for a database server.

    Raises
    ------
    DatabaseAccessError
        If the file does not exist.
    """
    if file is None:
        return None
    try:
        status = file.stat()
    except FileNotFoundError as error:
        raise DatabaseAccessError(missing_file_message(file)) from error
    return status.st_dev, status.st_ino
