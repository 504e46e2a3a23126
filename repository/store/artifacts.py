"""State payloads: small ones in the database, large ones as files in an artifacts folder."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidegauge.analyzers.core.errors import CorruptStateError, DatabaseAccessError
from tidegauge.analyzers.core.state import State, read_state

LARGEST_IN_DATABASE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Payload:
    """A packed state and its storage location.

    Attributes
    ----------
    tag : str
        The state's kind and layout.
    payload : bytes or None
        The bytes, if stored in the database.
    artifact : str or None
        The path relative to the artifacts folder, if stored in a file.
    checksum : str
        SHA-256 of the bytes, in hexadecimal.
    """

    tag: str
    payload: bytes | None
    artifact: str | None
    checksum: str


class Artifacts:
    """A folder of payloads, named by checksum (content-addressed), so equal ones are stored once.

    Parameters
    ----------
    root : Path or None
        The folder, created on first write; None if there is none.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root

    def pack(self, state: State) -> Payload:
        """Pack a state; a large one is written to a file atomically."""
        payload = state.pack()
        checksum = hashlib.sha256(payload).hexdigest()
        if len(payload) <= LARGEST_IN_DATABASE:
            return Payload(state.tag, payload, None, checksum)
        relative = f"{checksum[:2]}/{checksum}.parquet"
        self._write(relative, payload)
        return Payload(state.tag, None, relative, checksum)

    def unpack(self, stored: Payload) -> State:
        """Read a stored state and verify its checksum.

        Raises
        ------
        CorruptStateError
            If the bytes are missing or differ from those that were stored.
        """
        payload = stored.payload if stored.artifact is None else self._read(stored.artifact)
        if payload is None or hashlib.sha256(payload).hexdigest() != stored.checksum:
            where = stored.artifact or "the database"
            msg = f"a state tagged {stored.tag!r} in {where} is damaged: its checksum differs"
            raise CorruptStateError(msg)
        return read_state(stored.tag, payload)

    def files(self) -> set[str]:
        """Return all payload files, as paths relative to the folder."""
        if self.root is None or not self.root.is_dir():
            return set()
        return {p.relative_to(self.root).as_posix() for p in self.root.rglob("*.parquet")}

    def modified(self, relative: str) -> datetime:
        """Return a file's time of last modification, in UTC."""
        return datetime.fromtimestamp(self._at(relative).stat().st_mtime, UTC)

    def remove(self, relative: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        self._at(relative).unlink(missing_ok=True)

    def _at(self, relative: str) -> Path:
        assert self.root is not None
        return self.root / relative

    def _write(self, relative: str, payload: bytes) -> None:
        if self.root is None:
            msg = (
                f"a state of {len(payload)} bytes is too large for the database;"
                " name a folder: Repository(url, artifacts='/shared/folder')"
            )
            raise DatabaseAccessError(msg)
        target = self.root / relative
        if target.exists():
            with suppress(OSError):
                os.utime(target)  # a recent file is not cleaned up as an orphan
                return
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except OSError as error:
            msg = f"cannot write to the artifacts' folder {self.root}: {error}"
            raise DatabaseAccessError(msg) from error

    def _read(self, relative: str) -> bytes:
        if self.root is None:
            msg = f"the state in {relative} needs the folder it lies in: Repository(url, artifacts=...)"
            raise CorruptStateError(msg)
        try:
            return (self.root / relative).read_bytes()
        except OSError as error:
            msg = f"the state in {self.root / relative} cannot be read: {error}"
            raise CorruptStateError(msg) from error
