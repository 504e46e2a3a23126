"""Local paths and URIs, and the Arrow file systems that access them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs


def plain_path(location: str) -> str:
    """Strip the scheme and host from a location.

    Examples
    --------
    >>> plain_path("file:/data/t"), plain_path("hdfs://nn:8020/data/t"), plain_path("/data/t")
    ('/data/t', '/data/t', '/data/t')
    """
    return re.sub(r"^[A-Za-z][\w+.-]*:(//[^/]*)?", "", location)


def absolute(root: str) -> str:
    """Make a local path absolute; URIs are returned unchanged."""
    if re.match(r"[A-Za-z][\w+.-]*:|/", root):
        return root
    return str(Path(root).absolute())


def file_system(root: str) -> tuple[fs.FileSystem, str]:
    """Return the Arrow file system of a folder or file, and its path within it."""
    from pyarrow import fs

    root = absolute(root)
    if root.startswith(("/", "file:")):
        return fs.LocalFileSystem(), plain_path(root)
    system, path = fs.FileSystem.from_uri(re.sub(r"^s3[an]:", "s3:", root))
    return system, path
