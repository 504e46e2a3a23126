"""Joining of small files in a folder of a query log, so that a killed process loses nothing."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

MEGABYTES = 128
"""Size up to which files are joined."""
ROWS = 200_000
"""Rows that are held in memory, and written as one row group."""
_OURS = re.compile(r"\d+-[0-9a-f]{32}\.parquet")
"""Names of files that clients and compactions write; those of Spark are left alone."""
_REPLACES = ".replaces"
"""End of the hidden file beside a joined one that lists the files which it replaces."""


def sizes(system: fs.FileSystem, folder: str, *, hidden: bool = False) -> dict[str, int]:
    """Return the sizes of a folder's files by name, in order of names."""
    from pyarrow import fs

    found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {
        one.base_name: one.size
        for one in sorted(found, key=lambda one: str(one.base_name))
        if one.type == fs.FileType.File and one.base_name.startswith(".") == hidden
    }


def joinable(
    system: fs.FileSystem, folder: str, largest: int = MEGABYTES << 20
) -> list[tuple[str, ...]]:
    """Return groups of two or more files that clients wrote, in order of time, to be joined to one each."""
    groups: list[list[str]] = [[]]
    held = 0
    for name, size in sizes(system, folder).items():
        if not _OURS.fullmatch(name) or 2 * size > largest:
            continue
        if held + size > largest:
            groups.append([])
            held = 0
        groups[-1].append(name)
        held += size
    return [tuple(group) for group in groups if len(group) > 1]


def join_files(system: fs.FileSystem, folder: str, names: Sequence[str]) -> str | None:
    """Join files to one, and return its name; None if another process took it for one that was killed.

    What is written first is hidden, and so is the list of the files that it replaces. A process that
    is killed leaves either these, or the joined file beside some of the others and the list:
    `finish` removes what is too much.
    """
    from pyarrow import parquet

    millis = names[0].partition("-")[0]
    name = f"{millis}-{uuid.uuid4().hex}.parquet"
    waiting = f"{folder}/.{name}.tmp"
    tables = (parquet.read_table(f"{folder}/{one}", filesystem=system) for one in names)
    schema = parquet.read_schema(f"{folder}/{names[0]}", filesystem=system)
    with parquet.ParquetWriter(waiting, schema, filesystem=system, compression="zstd") as writer:
        for table in _batches(tables):
            writer.write_table(table)
    with system.open_output_stream(f"{folder}/.{name}{_REPLACES}") as stream:
        stream.write(json.dumps(list(names)).encode())
    try:
        system.move(waiting, f"{folder}/{name}")
    except FileNotFoundError:  # `finish` of another process has deleted it
        return None
    _delete(system, folder, [*names, f".{name}{_REPLACES}"])
    return name


def _batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of about `ROWS` rows."""
    import pyarrow as pa

    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(one.num_rows for one in held) >= ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def finish(system: fs.FileSystem, folder: str) -> bool:
    """Finish what a killed compaction left in a folder; return whether there was anything.

    Files that a joined one replaces are removed only if that is there. One that is not yet there
    never will be: the hidden file is deleted first, of which it would be made.
    """
    hidden = sizes(system, folder, hidden=True)
    lists = [name for name in hidden if name.endswith(_REPLACES)]
    for listed in lists:
        joined = listed.removeprefix(".").removesuffix(_REPLACES)
        _delete(system, folder, hidden.keys() & {f".{joined}.tmp"})
        visible = sizes(system, folder)
        if joined in visible:
            with suppress(FileNotFoundError):  # another process finishes the same
                with system.open_input_stream(f"{folder}/{listed}") as stream:
                    replaced = json.loads(stream.read())
                _delete(system, folder, visible.keys() & set(replaced))
        _delete(system, folder, [listed])
    return bool(lists)


def _delete(system: fs.FileSystem, folder: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):  # another process finishes the same
            system.delete_file(f"{folder}/{name}")
