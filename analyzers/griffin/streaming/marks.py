"""How far the rounds of a streaming job are, kept beside what its streams wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from analyzers.files import file_system


@dataclass(frozen=True)
class Marks:
    """What a round leaves to the next.

    Attributes
    ----------
    horizon : int or None
        Windows before it are measured no more.
    limits : mapping of str to int
        Of each source: windows before it are no longer needed, and are removed.
    closed : mapping of str to sequence of str
        Of each source: files before the horizon that are still needed for windows behind it.
    late : mapping of str to int
        Rows of each source that came when their window was measured no more, since the job began.
    removing : sequence of str
        Files that are no longer needed and may still be there.
    """

    horizon: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    removing: Sequence[str] = ()


def read_marks(folder: str) -> Marks:
    """Read what the last round left; nothing where there was none."""
    system, path = file_system(f"{folder}/marks.json")
    try:
        with system.open_input_stream(path) as file:
            found = json.loads(file.read())
    except FileNotFoundError:
        return Marks()
    return Marks(**found)


def write_marks(folder: str, marks: Marks) -> None:
    """Replace what the last round left, as a whole or not at all."""
    system, path = file_system(f"{folder}/marks.json")
    system.create_dir(path.rpartition("/")[0])
    with system.open_output_stream(f"{path}.new") as file:
        file.write(json.dumps(asdict(marks)).encode())
    system.move(f"{path}.new", path)


def remove_files(paths: Iterable[str]) -> int:
    """Remove files that may be there, and return how many there were."""
    from pyarrow import fs  # noqa: PLC0415 - heavy

    removed = 0
    for name in paths:
        system, path = file_system(name)
        with suppress(FileNotFoundError):
            system.delete_file(path)
            removed += 1
        if isinstance(system, fs.LocalFileSystem):  # Spark's checksum, and the window's folder
            file = Path(path)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            with suppress(OSError):
                file.parent.rmdir()
    return removed


def forget(folders: Iterable[str]) -> None:
    """Remove folders with all that is in them."""
    for folder in folders:
        system, path = file_system(folder)
        with suppress(FileNotFoundError):
            system.delete_dir(path)
