"""Persistent progress of a streaming job, stored beside the data of its streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tidegauge.analyzers.core.filesystems import child, file_system, read_file, write_file

_FILE = "marks.json"


@dataclass(frozen=True)
class Marks:
    """Progress after a round.

    Attributes
    ----------
    horizon : int or None
        Windows before it are not measured again.
    limits : mapping of str to int
        Retention limit of each source: windows before it are no longer needed, and are removed.
    closed : mapping of str to sequence of str
        Files of each source before the horizon that are still needed for windows after it.
    late : mapping of str to int
        Number of late rows of each source since the job began: rows that arrived after the horizon
        had passed their window.
    removing : sequence of str
        Files that are no longer needed and may still exist.
    """

    horizon: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    removing: Sequence[str] = ()


def read_marks(folder: str) -> Marks:
    """Read the progress after the last round; empty if there was none."""
    try:
        found = json.loads(read_file(child(folder, _FILE)))
    except FileNotFoundError:
        return Marks()
    return Marks(**found)


def write_marks(folder: str, marks: Marks) -> None:
    """Replace the progress atomically."""
    write_file(child(folder, _FILE), json.dumps(asdict(marks)).encode())


def remove_files(paths: Iterable[str]) -> int:
    """Remove files, ignoring missing ones, and return the number of removed files."""
    from pyarrow import fs

    removed = 0
    for name in paths:
        system, path = file_system(name)
        with suppress(FileNotFoundError):
            system.delete_file(path)
            removed += 1
        if isinstance(system, fs.LocalFileSystem):  # Spark's checksum, and the empty folder
            file = Path(path)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            with suppress(OSError):
                file.parent.rmdir()
    return removed


def forget(folders: Iterable[str]) -> None:
    """Remove folders recursively."""
    for folder in folders:
        system, path = file_system(folder)
        with suppress(FileNotFoundError):
            system.delete_dir(path)
