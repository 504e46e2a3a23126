"""Spark's errors of files that cannot be read, and the errors that explain them to the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from tidegauge.analyzers.core.ddl import parse_columns
from tidegauge.analyzers.core.errors import (
    ConflictingFilesError,
    SourceError,
    TidegaugeError,
    describe,
)
from tidegauge.analyzers.core.secrets import hide_secrets

_SIGNS = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|Encountered error while reading file"
    r"|Could not read (?:footer|file: )|FileNotFoundException|MALFORMED_|Malformed|is not a Parquet file"
    r"|Input path does not exist"
)
"""Signs of Spark's errors of single files: damaged, foreign, or gone since it listed them."""
_OTHER_TYPES = re.compile(r"DATA_TYPE_MISMATCH|cannot be converted|ConvertNotSupported")
"""Signs of files that are sound, but of other types than those by which they were read."""
_FILE = re.compile(
    r"(?:reading file|read file:|not a Parquet file:?) (?P<path>[^\s,]+?)\.?(?=[\s,]|$)"
)
_MERGED = re.compile(r"CANNOT_MERGE_SCHEMAS|Failed merging schema")
_STRUCT = re.compile(r'"?(?:STRUCT|struct)<(?P<columns>.*)>"?')
MAX_FILES_COMPARED = 200
"""Files whose columns are read to name two that conflict."""


def is_read_error(error: BaseException) -> bool:
    """Return whether an error says that a file could not be read, and not that the cluster failed."""
    return isinstance(error, ConflictingFilesError) or bool(_SIGNS.search(str(error)))


@contextmanager
def explained_read_errors() -> Iterator[None]:
    """Raise a `SourceError` that names the file in place of Spark's error of a file.

    Examples
    --------
    >>> with explained_read_errors():
    ...     raise OSError("Encountered error while reading file file:/lake/a.parquet. Details:")
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.SourceError: cannot read file:/lake/a.parquet: OSError: Encountered error while reading file file:/lake/a.parquet. Details:
    """
    try:
        yield
    except TidegaugeError:
        raise
    except Exception as error:
        if not is_read_error(error):
            raise
        raise SourceError(_explained(error)) from error


def _explained(error: BaseException) -> str:
    named = _FILE.search(str(error))
    told = f"cannot read {hide_secrets(named['path']) if named else 'a file'}: {describe(error)}"
    if _OTHER_TYPES.search(str(error)):
        told += ". Files that are read together need the same column types: rewrite the file, or read it apart."
    return told


def is_merge_conflict(error: BaseException) -> bool:
    """Return whether an error says that the columns of files cannot be merged."""
    return bool(_MERGED.search(str(error)))


def merge_conflict(
    error: BaseException,
    folder: str,
    files: Sequence[str] = (),
    types_of: Callable[[str], dict[str, str]] | None = None,
) -> SourceError:
    """Return the error for files whose columns Spark cannot merge.

    Parameters
    ----------
    error : BaseException
    folder : str
        What was read.
    files : sequence of str
        Its files; two of them are named for each column.
    types_of : callable, optional
        Returns the types of a file's columns, as DDL in lower case.

    Examples
    --------
    >>> text = '''[CANNOT_MERGE_SCHEMAS] Failed merging schemas:
    ... Initial schema:
    ... "STRUCT<id: BIGINT, amount: INT>"
    ... Schema that cannot be merged with the initial schema:
    ... "STRUCT<id: BIGINT, amount: STRING>".'''
    >>> print(merge_conflict(ValueError(text), "lake/orders"))
    the files of 'lake/orders' cannot be merged by mergeSchema: column 'amount' is int in some and string in others. Rewrite the files with one type, or leave mergeSchema out.
    """
    schemas = [_types(match["columns"]) for match in islice(_STRUCT.finditer(str(error)), 2)]
    conflicts = {}
    if len(schemas) == 2:
        first, second = schemas
        conflicts = {c: (t, second[c]) for c, t in first.items() if second.get(c, t) != t}
    holders = {} if types_of is None else _first_files(files, types_of, conflicts)
    told = []
    for column, types in conflicts.items():
        places = [holders.get((column, kind)) for kind in types]
        shown = [
            f"{kind} in {place or other}"
            for kind, place, other in zip(types, places, ("some", "others"), strict=True)
        ]
        told.append(f"column {column!r} is {' and '.join(shown)}")
    what = "; ".join(told) or describe(error)
    return SourceError(
        f"the files of {hide_secrets(folder)!r} cannot be merged by mergeSchema: {what}."
        " Rewrite the files with one type, or leave mergeSchema out."
    )


def _types(columns: str) -> dict[str, str]:
    try:
        return {column.name: column.type or "" for column in parse_columns(columns)}
    except ValueError:
        return {}


def _first_files(
    files: Sequence[str],
    types_of: Callable[[str], dict[str, str]],
    conflicts: dict[str, tuple[str, str]],
) -> dict[tuple[str, str], str]:
    """Return the first file that has each conflicting column with each of its types."""
    wanted = {(column, kind) for column, types in conflicts.items() for kind in types}
    holders: dict[tuple[str, str], str] = {}
    for file in files[:MAX_FILES_COMPARED]:
        if len(holders) == len(wanted):
            break
        try:
            types = types_of(file)
        except Exception:  # noqa: BLE001, S112 - a file that cannot be read is no example
            continue
        for key in types.items():
            if key in wanted:
                holders.setdefault(key, file)
    return holders
