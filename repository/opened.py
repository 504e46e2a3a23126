"""A repository's database and its folder of large states, opened and closed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from analyzers.errors import DatabaseAccessError
from repository.artifacts import Artifacts
from repository.config import settings
from repository.database import Database
from repository.store import SqlRunStore

if TYPE_CHECKING:
    pass


class Opened:
    """What every part of a repository works with; see `Repository` for the parameters."""

    def __init__(
        self,
        url: str | None = None,
        *,
        artifacts: str | Path | None = None,
        read_only: bool = False,
    ) -> None:
        url, artifacts = settings(url, artifacts)
        self.database = Database(url, read_only=read_only)
        if artifacts is None and not self.database.is_shared:
            self._temporary = TemporaryDirectory(prefix="tidegauge-")
            artifacts = self._temporary.name
        try:
            self.artifacts = artifacts_of(self.database, artifacts)
        except BaseException:
            self.database.close()
            raise
        self.store = SqlRunStore(self.database, self.artifacts)

    def __repr__(self) -> str:
        """Name the database, not its password."""
        return f"Repository({self.database.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back connections and temporary files."""
        self.database.close()
        if hasattr(self, "_temporary"):
            self._temporary.cleanup()


def artifacts_of(database: Database, folder: str | Path | None) -> Artifacts:
    """Return the folder of a database's large states: beside a SQLite file if nobody says where.

    Raises
    ------
    DatabaseAccessError
        If nobody says where, and it is PostgreSQL.
    """
    if folder is not None:
        return Artifacts(Path(folder))
    if database.file is not None:
        return Artifacts(database.file.with_name(database.file.name + ".artifacts"))
    if database.is_sqlite:
        return Artifacts(None)
    msg = (
        f"{database.name} needs a folder for large states that all who use it can reach:"
        " Repository(url, artifacts='/shared/folder'), or --artifacts on the command line"
    )
    raise DatabaseAccessError(msg)
