"""Where files lie: local paths and URIs, and the file systems of Arrow that reach them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs


def plain_path(location: str) -> str:
    """Return a location less its scheme and host.

    Examples
    --------
    >>> plain_path("file:/data/t"), plain_path("hdfs://nn:8020/data/t"), plain_path("/data/t")
    ('/data/t', '/data/t', '/data/t')
    """
    return re.sub(r"^[A-Za-z][\w+.-]*:(//[^/]*)?", "", location)


def absolute(root: str) -> str:
    """Return a path that begins with a slash; URIs stay as they are."""
    if re.match(r"[A-Za-z][\w+.-]*:|/", root):
        return root
    return str(Path(root).absolute())


def file_system(root: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of Arrow that a folder or file lies in, and its path there."""
    from pyarrow import fs  # noqa: PLC0415 - heavy

    root = absolute(root)
    if root.startswith(("/", "file:")):
        return fs.LocalFileSystem(), plain_path(root)
    system, path = fs.FileSystem.from_uri(re.sub(r"^s3[an]:", "s3:", root))
    return system, path
