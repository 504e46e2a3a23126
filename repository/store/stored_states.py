"""Stored states: their payloads, in the database or as files, and folded states.

Small payloads are in the database, large ones are files in an artifacts folder, which may be a prefix
of an object store. Payloads in the database are compressed if that saves space: sketches of numbers
with few digits shrink to a quarter.

A folded state is the sum of the states of several partition versions. These inputs of a fold are
stored as ranges: most are consecutive. States that depend on a column's type are merged only with
states of the same type. If a column contains strings on one day, that day's frequencies cannot be added to
the frequencies of numbers on other days. The ledger has the types of each partition's columns, which
determine the generation of each state.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import (
    CorruptStateError,
    DatabaseAccessError,
    IllegalAnalyzerParameterError,
    SuiteError,
    describe,
)
from tidegauge.analyzers.core.filesystems import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    child,
    create_folder,
    file_system,
    local_path,
    permissions,
    read_file,
    write_file,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State, read_state
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.frames import columns

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.analyzers.core.analyzer import AnyAnalyzer


MAX_DATABASE_BYTES = 256 * 1024
MIN_COMPRESSED_BYTES = 256
"""Bytes below which compression saves too little to be tried."""
_MAX_COMPRESSED_SHARE = 0.9
"""A compressed payload is stored only if it shrinks at least to this share of its bytes."""
_UNFINISHED_PATH = re.compile(r"[0-9a-f]{2}/\.[0-9a-f]{40}-[0-9a-f]{16}")
"""Paths of payload files before `write_file` renames them."""
_READ_MODE = 0o444
_ZLIB_SUFFIX = "+zlib"
"""End of the tags of compressed payloads."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A packed state and its storage location.

    Attributes
    ----------
    tag : str
        The state's kind and layout; with ``+zlib`` if the bytes are compressed.
    payload : bytes or None
        The bytes, if stored in the database.
    artifact : str or None
        The path relative to the artifacts folder, if stored in a file.
    checksum : str
        SHA-256 of the state's bytes, uncompressed, in hexadecimal.
    """

    tag: str
    payload: bytes | None
    artifact: str | None
    checksum: str


def _inside(relative: str) -> str:
    """Return the path if it stays in the folder: others may have written the names in the database."""
    if relative.startswith("/") or ".." in relative.split("/"):
        msg = f"the path {relative!r} of a state leads out of the artifacts' folder"
        raise CorruptStateError(msg)
    return relative


def _is_within(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())


class Artifacts:
    """A folder of payloads, named by checksum (content-addressed), so equal ones are stored once.

    Parameters
    ----------
    root : Path, str or None
        The folder, as a path or a URI that Arrow or fsspec can reach, created on first write; None
        if there is none.
    database : str, optional
        Name of a shared database with large states in the folder, for the error message without a folder.

    Raises
    ------
    FileSystemError
        If no installed package knows the URI's scheme.
    """

    def __init__(self, root: Path | str | None, database: str = "") -> None:
        self._database = database
        self.root = root if root is None else local_path(root) or str(root)
        if isinstance(self.root, str):
            file_system(self.root)

    def require_folder(self) -> None:
        """Raise a `DatabaseAccessError` if a shared database has no folder for large states.

        Reading metrics and labeling need no folder; measuring, merging large states, cleaning and
        backups do.
        """
        if self.root is None and self._database:
            msg = (
                f"{self._database} needs a folder for large states that all its users can reach:"
                " Repository(url, artifacts='/shared/folder'), or --artifacts on the command line"
            )
            raise DatabaseAccessError(msg)

    def require_writable(self) -> None:
        """Write an empty file into the folder and remove it; do nothing without a folder.

        Raises
        ------
        DatabaseAccessError
            If the folder cannot be written.
        """
        if self.root is None:
            return
        is_new = isinstance(self.root, Path) and not self.root.exists()
        # If this process is killed, a cleanup removes the file.
        trial = f"00/.{0:040}-{os.urandom(8).hex()}"
        try:
            self.write(trial, b"")
        except DatabaseAccessError:
            raise
        except Exception as error:  # packages of file systems raise errors of their own
            msg = f"cannot write to the artifacts' folder {self.root}: {describe(error)}"
            raise DatabaseAccessError(msg) from error
        with suppress(Exception):  # a store may let nobody delete
            self.remove(trial)
        if isinstance(self.root, Path):
            for folder in (self.root / "00", *([self.root] if is_new else [])):
                with suppress(OSError):  # it is not empty
                    folder.rmdir()

    def pack(self, state: State) -> Payload:
        """Pack a state; a large one is written to a file atomically."""
        payload = state.pack()
        checksum = hashlib.sha256(payload).hexdigest()
        if len(payload) <= MAX_DATABASE_BYTES:
            return Payload(*_compressed(state.tag, payload), None, checksum)
        if self.root is None:
            self.require_folder()
            msg = (
                f"a state of {len(payload)} bytes is too large for the database;"
                " name a folder: Repository(url, artifacts='/shared/folder')"
            )
            raise DatabaseAccessError(msg)
        relative = f"{checksum[:2]}/{checksum}.parquet"
        self.write(relative, payload)
        return Payload(state.tag, None, relative, checksum)

    def unpack(self, stored: Payload) -> State:
        """Read a stored state and verify its checksum.

        Raises
        ------
        CorruptStateError
            If the bytes are missing or differ from those that were stored.
        """
        payload = stored.payload if stored.artifact is None else self._read(stored.artifact)
        tag = stored.tag.removesuffix(_ZLIB_SUFFIX)
        if payload is not None and tag != stored.tag:
            payload = _decompressed(payload)
        if payload is None or hashlib.sha256(payload).hexdigest() != stored.checksum:
            where = stored.artifact or "the database"
            msg = f"a state tagged {stored.tag!r} in {where} is damaged: its checksum differs"
            raise CorruptStateError(msg)
        return read_state(tag, payload)

    def files(self) -> set[str]:
        """Return all payload files, as paths relative to the folder."""
        return {path for path in self._paths() if path.endswith(".parquet")}

    def unfinished(self) -> set[str]:
        """Return files that writers have not finished: they were killed, or are still writing."""
        return {path for path in self._paths() if _UNFINISHED_PATH.fullmatch(path)}

    def _paths(self) -> set[str]:
        if self.root is None:
            return set()
        if isinstance(self.root, Path):
            entries = (path for path in self.root.rglob("*") if path.is_file())
            return {path.relative_to(self.root).as_posix() for path in entries}
        from pyarrow import fs

        system, base = file_system(self.root)
        entries = system.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return {info.path.removeprefix(base).lstrip("/") for info in entries if info.is_file}

    def modified(self, relative: str) -> datetime:
        """Return a file's time of last modification, in UTC."""
        system, path = file_system(self._path(relative))
        info = system.get_file_info(path)
        if not info.is_file:
            raise FileNotFoundError(path)
        return datetime.fromtimestamp(info.mtime_ns / 1e9, UTC)

    def remove(self, relative: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        system, path = file_system(self._path(relative))
        with suppress(FileNotFoundError):
            system.delete_file(path)

    def read(self, relative: str) -> bytes:
        """Return a file's content.

        Raises
        ------
        OSError
            If it does not exist or cannot be read.
        """
        return read_file(self._path(relative))

    def write(self, relative: str, payload: bytes) -> None:
        """Write a file atomically; if it exists, only update its modification time.

        Raises
        ------
        DatabaseAccessError
            If the folder cannot be written.
        """
        target = self._path(relative)
        try:
            mode = None
            if isinstance(self.root, Path):
                with suppress(OSError):  # missing, or another user's
                    os.utime(target)  # a recent file is not cleaned up as an orphan
                    return
                # Whoever may enter the folder may read its files.
                create_folder(self.root, PRIVATE_FOLDER)
                create_folder(self.root / Path(relative).parent, permissions(self.root))
                mode = permissions(self.root) & _READ_MODE | PRIVATE_FILE
            write_file(target, payload, mode)
        except OSError as error:
            msg = f"cannot write to the artifacts' folder {self.root}: {error}"
            raise DatabaseAccessError(msg) from error

    def _path(self, relative: str) -> str:
        """Return the path of a file; raise an error if it is outside the folder, including through a link."""
        assert self.root is not None
        path = child(self.root, _inside(relative))
        if isinstance(self.root, Path) and not _is_within(Path(path), self.root):
            msg = f"the path {relative!r} of a state leads out of the artifacts' folder through a link"
            raise CorruptStateError(msg)
        return path

    def _read(self, relative: str) -> bytes:
        if self.root is None:
            self.require_folder()
            msg = (
                f"the state in {relative} needs the folder of large states: --artifacts, or"
                " Repository(url, artifacts=...)"
            )
            raise CorruptStateError(msg)
        try:
            return self.read(relative)
        except OSError as error:
            msg = f"the state in {child(self.root, relative)} cannot be read: {error}"
            raise CorruptStateError(msg) from error


def _compressed(tag: str, payload: bytes) -> tuple[str, bytes]:
    """Return the tag and the bytes to store: compressed ones if they are clearly fewer."""
    if len(payload) < MIN_COMPRESSED_BYTES:
        return tag, payload
    smaller = zlib.compress(payload)
    return (
        (tag + _ZLIB_SUFFIX, smaller)
        if len(smaller) < _MAX_COMPRESSED_SHARE * len(payload)
        else (tag, payload)
    )


def _decompressed(payload: bytes) -> bytes | None:
    """Return the original bytes; None if they are damaged, or exceed the limit for the database."""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(payload, MAX_DATABASE_BYTES + 1)
    except zlib.error:
        return None
    return content if stream.eof else None


TOTAL_STATE = "total"
REMOVED_STATE = "removed"
"""Names of the folded states: of all partitions, and of those whose states were cleaned away."""


def encode_inputs(versions: Mapping[int, int]) -> str:
    """Encode partition versions as stored: first and last id of a range, version.

    Examples
    --------
    >>> encode_inputs({1: 1, 2: 1, 3: 2, 5: 2})
    '[[1,2,1],[3,3,2],[5,5,2]]'
    """
    rows: list[list[int]] = []
    for partition, version in sorted(versions.items()):
        if rows and rows[-1][1] == partition - 1 and rows[-1][2] == version:
            rows[-1][1] = partition
        else:
            rows.append([partition, partition, version])
    return canonical_json(rows)


def decode_inputs(text: str) -> dict[int, int]:
    """Decode the string that `encode_inputs` returned.

    Examples
    --------
    >>> decode_inputs("[[1,2,1],[3,3,2]]")
    {1: 1, 2: 1, 3: 2}
    """
    rows = json.loads(text)
    return {p: version for first, last, version in rows for p in range(first, last + 1)}


class Generations:
    """Looks up the generation of states by the schema of their partition.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._schemas: dict[int, Schema | None] = {}
        self._known: dict[tuple[AnyAnalyzer, int], str] = {}

    def find(self, analyzer: AnyAnalyzer | None, schemas: Iterable[int]) -> dict[int, str]:
        """Return the generation for each id of a table schema; see `Analyzer.generation`."""
        schema_ids = set(schemas)
        if analyzer is None or not analyzer.state_type.depends_on_types:
            return dict.fromkeys(schema_ids, "")
        self._load(schema_ids)
        return {number: self._generation(analyzer, number) for number in schema_ids}

    def _generation(self, analyzer: AnyAnalyzer, number: int) -> str:
        key = (analyzer, number)
        if key not in self._known:
            schema = self._schemas[number]
            self._known[key] = "" if schema is None else analyzer.generation(schema)
        return self._known[key]

    def _load(self, schema_ids: set[int]) -> None:
        table_schema = s.table_schema.c
        for chunk in chunks(sorted(schema_ids - self._schemas.keys())):
            query = sa.select(table_schema.id, table_schema["columns"]).where(
                table_schema.id.in_(chunk)
            )
            for number, text in self._connection.execute(query):
                self._schemas[number] = parsed_schema(text)


def parsed_schema(text: str) -> Schema | None:
    """Parse the output of `Schema.canonical`; return None for other strings.

    Examples
    --------
    >>> parsed_schema('[["k","integer"]]').names, parsed_schema("unknown")
    (('k',), None)
    """
    try:
        return Schema.from_types({str(name): kind for name, kind in json.loads(text)})
    except (ValueError, TypeError):
        return None


GENERATION_COLUMNS = columns("analyzer segment generation first last partitions:integer")


def generation_rows(connection: Connection, dataset: int) -> list[dict[str, Any]]:
    """Return the generations of each analyzer's states in order of time; see `Repository.generations`."""
    from tidegauge.analyzers.core.analyzer import ANALYZERS

    partition, partition_version = s.partition.c, s.partition_version.c
    analyzers = (
        sa.select(s.analyzer.c.text, s.analyzer.c.segment, s.analyzer.c.statistic_id)
        .where(s.analyzer.c.dataset_id == dataset, s.analyzer.c.statistic_id.is_not(None))
        .order_by(s.analyzer.c.text, s.analyzer.c.segment)
    )
    state = s.state.c
    generations = Generations(connection)
    rows: list[dict[str, Any]] = []
    for text, segment, statistic in connection.execute(analyzers).all():
        try:
            analyzer = ANALYZERS.parse(text)
        except (SuiteError, IllegalAnalyzerParameterError):  # the package that defines it is gone
            continue
        if not analyzer.state_type.depends_on_types:
            continue
        measured = (
            sa.select(partition.name, partition_version.table_schema_id)
            .join_from(
                s.partition, s.partition_version, partition_version.partition_id == partition.id
            )
            .join(
                s.state,
                (state.partition_id == partition.id)
                & (state.version == partition_version.version)
                & (state.statistic_id == statistic),
            )
            .where(s.holds(s.partition_version))
            .order_by(partition.time.is_(None), partition.time, partition.name)
        )
        partitions = connection.execute(measured).all()
        by_schema = generations.find(analyzer, {row[1] for row in partitions})
        for generation, span in groupby(partitions, key=lambda row: by_schema[row[1]]):
            names = [row[0] for row in span]
            rows.append(
                {
                    "analyzer": text,
                    "segment": segment,
                    "generation": generation,
                    "first": names[0],
                    "last": names[-1],
                    "partitions": len(names),
                }
            )
    return rows


def partitions_text(count: int) -> str:
    """Return a number of partitions in words.

    Examples
    --------
    >>> partitions_text(1), partitions_text(3)
    ('1 partition', '3 partitions')
    """
    return plural(count, "partition")


def mixed_types_text(generations: Sequence[str], partitions: Sequence[str] = ()) -> str:
    """Return the reason why states are not merged: the generations of the partitions, most frequent first.

    Parameters
    ----------
    generations : sequence of str
        The generation of each partition's state.
    partitions : sequence of str
        Names of the partitions; the first of each rarer generation is reported.

    Examples
    --------
    >>> days = ["ds=1", "ds=2", "ds=3"]
    >>> mixed_types_text(["k is a number", "k is a text", "k is a number"], days)
    'k is a number in 2 partitions, k is a text in 1 (ds=2); states of different types are not merged'
    """
    counts = Counter(generations).most_common()
    parts = []
    for rank, (generation, count) in enumerate(counts):
        text = f"{generation} in {partitions_text(count) if rank == 0 else count}"
        if rank and partitions:
            first = partitions[generations.index(generation)]
            text += f" ({first})" if count == 1 else f" (first {first})"
        parts.append(text)
    return f"{', '.join(parts)}; states of different types are not merged"


def fold_generation(
    connection: Connection,
    generations: Generations,
    analyzer: AnyAnalyzer | None,
    inputs: Mapping[int, int],
) -> str | None:
    """Return the generation of a state that was added up from partition versions.

    None if the ledger no longer has any of the versions.
    """
    partition_version = s.partition_version.c
    for chunk in chunks(sorted(inputs)):
        query = sa.select(
            partition_version.partition_id,
            partition_version.version,
            partition_version.table_schema_id,
        ).where(partition_version.partition_id.in_(chunk))
        for partition, version, schema in connection.execute(query):
            if inputs[partition] == version:
                return generations.find(analyzer, [schema])[schema]
    return None
