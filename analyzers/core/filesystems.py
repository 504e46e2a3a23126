"""Local paths and URIs: the Arrow file systems that access them, and atomic writing of files.

Schemes that Arrow does not know go through `fsspec`, if it and the scheme's package are installed.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import DatabaseAccessError, FileSystemError, TidegaugeError
from tidegauge.analyzers.core.formatting import hide_secrets

if TYPE_CHECKING:
    from pyarrow import fs

_URI_PARTS = re.compile(r"([A-Za-z][\w+.-]*)://([^/]*)(.*)", re.DOTALL)
_ARROW_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes, and Arrow's."""
_GLOB_CHARACTERS = re.compile(r"[*?\[{]")
"""Characters that make Hadoop treat a path as a pattern."""
_OBJECT_STORES = {"s3", "gcs", "abfs"}
"""Types of file systems on which a file becomes visible only when its writer closes it."""
_RENAMES_FOLDERS = {"local", "hdfs"}
"""Types of file systems that rename a folder in one step."""


def plain_path(location: str) -> str:
    """Strip the scheme and host from a location.

    Examples
    --------
    >>> plain_path("file:/data/t"), plain_path("hdfs://nn:8020/data/t"), plain_path("/data/t")
    ('/data/t', '/data/t', '/data/t')
    """
    return re.sub(r"^[A-Za-z][\w+.-]*:(//[^/]*)?", "", location)


def comparable(location: str) -> str:
    """Return the normalized form of a location, which is equal for equal locations.

    The spelling of the scheme, the case of the host, HDFS's default port and the form of a local path make no
    difference. Different hosts are different locations, since a copied bucket has the same paths.

    Examples
    --------
    >>> comparable("s3a://Lake/t") == comparable("s3://lake/t"), comparable("file:///data/t")
    (True, '/data/t')
    >>> comparable("hdfs://nn:8020/t"), comparable("s3://old/t") == comparable("s3://new/t")
    ('hdfs://nn/t', False)
    """
    parsed = _URI_PARTS.fullmatch(location)
    if parsed is None or parsed[1].casefold() == "file":
        return plain_path(location)
    scheme, host, path = parsed[1].casefold(), parsed[2].casefold(), parsed[3]
    if scheme == "hdfs":
        host = host.removesuffix(":8020")
    return f"{_ARROW_SCHEMES.get(scheme, scheme)}://{host}{path}"


def absolute(root: str) -> str:
    """Make a local path absolute; URIs are returned unchanged."""
    if re.match(r"[A-Za-z][\w+.-]*:|/", root):
        return root
    return str(Path(root).absolute())


def local_path(root: str | Path) -> Path | None:
    """Return the path of a local folder or file; None for a URI of another scheme.

    Examples
    --------
    >>> local_path("file:///data/t"), local_path("s3a://bucket/t")
    (PosixPath('/data/t'), None)
    """
    root = absolute(str(root))
    if not root.startswith(("/", "file:")):
        return None
    _require_no_host(root)
    return Path(plain_path(root))


def _require_no_host(root: str) -> None:
    """Raise for ``file://tmp/t``, which means the folder ``/t`` of a machine named tmp."""
    host = re.match(r"file://([^/]+)", root)
    if host is not None and host[1] != "localhost":
        msg = (
            f"{root!r} is on a machine named {host[1]!r}; a local folder has three slashes:"
            f" {root.replace('//', '///', 1)}"
        )
        raise FileSystemError(msg)


def child(folder: str | Path, name: str) -> str:
    """Return the location of a file in a folder.

    Examples
    --------
    >>> child("s3://bucket/t/", "a"), child("/", "a")
    ('s3://bucket/t/a', '/a')
    """
    return f"{str(folder).rstrip('/')}/{name}"


def file_system(root: str) -> tuple[fs.FileSystem, str]:
    """Return the Arrow file system of a folder or file, and its path within it.

    As in Hadoop, the path of a URI is not decoded: ``%2F`` is three characters.

    Raises
    ------
    FileSystemError
        If no installed package knows the scheme, the address is invalid, or its store cannot be reached.
    """
    from pyarrow import fs

    root = absolute(root)
    if root.startswith(("/", "file:")):
        _require_no_host(root)
        return fs.LocalFileSystem(), plain_path(root)
    parsed = _URI_PARTS.fullmatch(root)
    if parsed is None:
        msg = f"{hide_secrets(root)!r} is neither a path nor a URI such as s3://bucket/folder"
        raise FileSystemError(msg)
    scheme, host, path = parsed.groups()
    try:
        system, base = _connect(f"{_ARROW_SCHEMES.get(scheme, scheme)}://{host}")
    except (ValueError, NotImplementedError, ImportError) as error:  # Arrow does not know it
        return _by_fsspec(root, error)
    except OSError as error:  # no network, no bucket, no libjvm: several lines
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        msg = hide_secrets(f"cannot reach {root!r}: {reason}")
        raise FileSystemError(msg) from error
    return system, f"{base.rstrip('/')}{path}".rstrip("/") or "/"


@functools.lru_cache(maxsize=64)
def _connect(address: str) -> tuple[fs.FileSystem, str]:
    """Open a file system once for a process: it looks up regions and credentials."""
    from pyarrow import fs

    system, base = fs.FileSystem.from_uri(address)
    return system, base


def _by_fsspec(root: str, unknown: Exception) -> tuple[fs.FileSystem, str]:
    from pyarrow import fs

    scheme = root.partition("://")[0]
    cure = f"pip install fsspec and its package for {scheme}:// (https://filesystem-spec.readthedocs.io)"
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        msg = hide_secrets(f"no file system for {root!r}: Arrow says {unknown}; {cure}")
        raise FileSystemError(msg) from unknown
    try:
        system, path = url_to_fs(root)
    except (ValueError, ImportError) as error:
        msg = hide_secrets(f"no file system for {root!r}: {error}; {cure}")
        raise FileSystemError(msg) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def read_file(location: str) -> bytes:
    """Return the content of a file.

    Raises
    ------
    FileNotFoundError
        If it does not exist.
    OSError
        If it cannot be read.
    """
    local = local_path(location)
    if local is not None:
        return local.read_bytes()
    system, path = file_system(location)
    with system.open_input_stream(path) as stream:
        content: bytes = stream.read()
    return content


PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Permissions for the owner only."""


def write_file(location: str, content: bytes, mode: int | None = None) -> None:
    """Write a file atomically: readers see the old content or the new. Folders are created.

    A new local file gets the permissions ``mode``; by default those that the umask leaves.

    Object stores show an object when it is complete. Otherwise a hidden file is written and then renamed; on
    a local disk it is flushed before it is renamed.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    local = local_path(location)
    if local is None:
        _write_remote(location, content)
        return
    local.parent.mkdir(parents=True, exist_ok=True)
    with replacing(local, mode) as partial:
        partial.write_bytes(content)


def create_file(file: Path, mode: int) -> bool:
    """Create an empty file that has its permissions from the start; return False if the file exists."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode & PRIVATE_FILE))
        file.chmod(mode)
        return True
    return False


def create_folder(folder: Path, mode: int) -> None:
    """Create a folder with permissions, ignoring the umask; an existing folder is not changed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=mode)
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | mode)  # keeps an inherited group


def permissions(path: Path) -> int:
    """Return the permissions of a file or folder for its owner, its group and all others."""
    return path.stat().st_mode & 0o777


@contextmanager
def replacing(file: Path, mode: int | None = None) -> Iterator[Path]:
    """Yield a hidden path next to a file to write to, and rename it to the file at the end.

    Readers see either the old or the new content. A killed process leaves the hidden file at most. Links are
    followed. An existing file keeps its permissions; a new file gets ``mode``, by default the permissions that
    the umask allows. Special files (``/dev/stdout``, a named pipe) are written directly.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if file.exists() and not file.is_file():
        yield file
        return
    target = file.resolve()
    partial = target.with_name(_partial(target.name))
    try:
        # Fail before the work is done if the file cannot be written.
        partial.touch(0o666 if mode is None else PRIVATE_FILE, exist_ok=False)
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        if mode is not None:
            partial.chmod(mode)
        with suppress(FileNotFoundError):
            shutil.copymode(target, partial)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def output_file(file: Path, mode: int | None = None) -> Iterator[Path]:
    """Yield a path for a user's output file, which becomes visible when it is complete.

    A new file gets the permissions ``mode``, by default the permissions that the umask allows.

    Raises
    ------
    DatabaseAccessError
        If the file cannot be written. The message has the file and the reason.
    """
    try:
        with replacing(file, mode) as partial:
            yield partial
    except TidegaugeError:
        raise
    except OSError as error:
        raise DatabaseAccessError(f"cannot write {file}: {error.strerror or error}") from error


def write_output(file: Path, text: str) -> Path:
    """Write a text file for the user, which becomes visible when it is complete, and return its path.

    Raises
    ------
    DatabaseAccessError
        If the file cannot be written.
    """
    with output_file(file) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return file


def _write_remote(location: str, content: bytes) -> None:
    system, path = file_system(location)
    if system.type_name in _OBJECT_STORES:
        with system.open_output_stream(path) as stream:
            stream.write(content)
        return
    folder, _, name = path.rpartition("/")
    system.create_dir(folder, recursive=True)
    partial = f"{folder}/{_partial(name)}"
    try:
        with system.open_output_stream(partial) as stream:
            stream.write(content)
        try:
            system.move(partial, path)
        except FileExistsError:  # HDFS replaces nothing by renaming
            system.delete_file(path)
            system.move(partial, path)
    except BaseException:
        with suppress(OSError):
            system.delete_file(partial)
        raise


def delete_folder(location: str) -> None:
    """Delete a folder with all that is in it; a missing one is ignored.

    Raises
    ------
    OSError
        If it cannot be deleted, or if no installed package knows its scheme.
    """
    from pyarrow import fs

    system, path = file_system(location)
    if system.get_file_info(path).type != fs.FileType.NotFound:
        system.delete_dir(path)


def is_file(location: str) -> bool:
    """Return whether a file exists; False if its file system cannot determine that."""
    from pyarrow import fs

    try:
        system, path = file_system(location)
        return bool(system.get_file_info(path.rstrip("/")).type == fs.FileType.File)
    except OSError:
        return False


def data_folder(location: str) -> str:
    """Return the folder that holds the files of a location: a folder, a pattern, or a single file.

    Examples
    --------
    >>> data_folder("s3://lake/orders/ds=2026-01-*/hr=0?"), data_folder("/no/such/folder")
    ('s3://lake/orders', '/no/such/folder')
    """
    wildcard = _GLOB_CHARACTERS.search(location)
    if wildcard is not None:
        return location[: wildcard.start()].rpartition("/")[0]
    return location.rpartition("/")[0] if is_file(location) else location


def can_rename_folder(folder: str) -> bool:
    """Return whether a folder exists and its file system renames folders in one step.

    Links are not renamed, and mount points cannot be.

    Examples
    --------
    >>> import tempfile
    >>> can_rename_folder(tempfile.mkdtemp()), can_rename_folder("/no/such/folder")
    (True, False)
    """
    from pyarrow import fs

    try:
        system, path = file_system(folder)
        is_folder = system.get_file_info(path).type == fs.FileType.Directory
    except OSError:
        return False
    if system.type_name == "local" and (Path(path).is_symlink() or Path(path).is_mount()):
        return False
    return is_folder and system.type_name in _RENAMES_FOLDERS


def rename_folder(folder: str, to: str) -> None:
    """Rename a folder in one step, on a file system for which `can_rename_folder` returns True.

    Raises
    ------
    FileExistsError
        If ``to`` already exists.
    OSError
        If it cannot be renamed.
    """
    from pyarrow import fs

    system, path = file_system(folder)
    _, target = file_system(to)
    # rename(2) would replace an empty folder.
    if system.get_file_info(target).type != fs.FileType.NotFound:
        raise FileExistsError(f"cannot rename {folder}: {to} already exists")
    system.move(path, target)


MAX_PARTIAL_NAME = 40
"""Number of characters of a file's name in the name of its hidden file."""


def _partial(name: str) -> str:
    return f".{name[:MAX_PARTIAL_NAME]}-{os.urandom(8).hex()}"
