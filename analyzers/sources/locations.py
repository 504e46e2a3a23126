"""Locations of tables and folders: which is the parent, and which overlap."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import SourceError, SuiteError
from tidegauge.analyzers.core.filesystems import absolute, file_system
from tidegauge.analyzers.core.sql import folder_of, parts, quote
from tidegauge.analyzers.sources.catalog_tables import open_table
from tidegauge.analyzers.sources.hive_table import HiveTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parent_location(spark: SparkSession, table: str) -> str | None:
    """Return the parent folder of a folder, or the location of a table's database.

    None if the database does not exist or has no location, or if Arrow has no access to it.
    """
    if named := folder_of(table):
        folder = absolute(named).rstrip("/").rpartition("/")[0] or "/"
    else:
        *path, _ = map(str, parts(table))
        name = ".".join(map(quote, path)) if path else quote(spark.catalog.currentDatabase())
        if not spark.catalog.databaseExists(name):
            return None
        folder = spark.catalog.getDatabase(name).locationUri
    try:
        if folder:
            file_system(folder)
    except OSError:  # Arrow cannot access it
        return None
    return folder or None


def check_disjoint_locations(
    places: Mapping[str, str | None], spark: SparkSession | None = None
) -> None:
    """Raise if two locations are the same or one contains the other.

    Parameters
    ----------
    places : mapping of str to str
        Table names, folders or files, by their purpose; None for unused ones.
    spark : SparkSession, optional
        For the current database and the locations of tables. Without it the database is ``default``.

    Raises
    ------
    SuiteError
        If two of them overlap.

    Examples
    --------
    >>> check_disjoint_locations({"table": "flights", "publish": "flights_clean", "quarantine": None})
    >>> check_disjoint_locations({"path": "file:/lake/a/", "publish": "/lake/a"})
    Traceback (most recent call last):
    ...
    tidegauge.analyzers.core.errors.SuiteError: path 'file:/lake/a/' and publish '/lake/a' are one place; give each its own
    """
    given = [(what, text, _places(text, spark)) for what, text in places.items() if text]
    for i, (what, text, lies) in enumerate(given):
        for other, second, there in given[:i]:
            pairs = [(a, b) for a in lies for b in there]
            if any(a == b for a, b in pairs):
                told = "are one place"
            elif any(a.startswith(f"{b}/") or b.startswith(f"{a}/") for a, b in pairs):
                told = "lie one in the other"
            else:
                continue
            msg = f"{other} {second!r} and {what} {text!r} {told}; give each its own"
            raise SuiteError(msg)


def _places(text: str, spark: SparkSession | None) -> list[str]:
    """Return a folder's normalized path, or a table's full name and, if known, its location."""
    if folder := folder_of(text):
        return [_path(folder)]
    path = [str(part).casefold() for part in parts(text)]
    if path[0] == "spark_catalog" and len(path) > 1:
        path = path[1:]
    if len(path) == 1:
        path.insert(0, "default" if spark is None else spark.catalog.currentDatabase().casefold())
    found = [".".join(map(quote, path))]
    if spark is not None and spark.catalog.tableExists(found[0]):
        source = open_table(spark, found[0])
        location = source.description.location if isinstance(source, HiveTable) else None
        found += [_path(str(location))] if location else []
    return found


def _path(text: str) -> str:
    """Normalize a path: absolute, links resolved, no ``file:``, no double or trailing slashes."""
    if "\0" in text:
        msg = f"{text!r} is no path: it has a null character"
        raise SourceError(msg)
    text = re.sub(r"^file:(//[^/]*)?(?=/)", "", absolute(text), flags=re.IGNORECASE)
    if text.startswith("/"):
        return os.path.realpath(text).rstrip("/")
    scheme, _, rest = re.sub(r"^s3[an]:", "s3:", text).partition(":")
    marks = "//" if rest.startswith("//") else ""
    return f"{scheme.casefold()}:{marks}{re.sub('/+', '/', rest.removeprefix(marks)).rstrip('/')}"
