"""Checks that the installed packages work with each other, with the command that mends it."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegauge.analyzers.core.errors import SetupError, describe
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.spark.java import cache_folder

LAST_PYARROW_FOR_NUMPY_1 = 25
"""pyarrow 26 refuses to be imported with NumPy 1, which Spark 3.5 requires."""

ARRAY_PACKAGES = ("numpy", "pyarrow", "pandas")
"""Packages that are compiled for each other, in the order in which they depend on each other."""


def import_problem(package: str) -> str | None:
    """Return why an installed package cannot be imported; None if it can."""
    try:
        import_module(package)
    except Exception as error:  # noqa: BLE001 - a package compiled for another NumPy raises a ValueError
        return describe(error)
    return None


def import_problems() -> dict[str, str | None]:
    """Return why each of the array packages cannot be imported.

    Importing them takes longer than all other checks of ``tidegauge doctor``. So the files that could be
    imported are remembered in the cache folder, and are imported again only if one of them changed.
    """
    stamp = _stamp()
    verified = cache_folder() / "imported.json"
    with suppress(OSError, ValueError):
        if json.loads(verified.read_text()) == stamp:
            return dict.fromkeys(ARRAY_PACKAGES)
    problems = {package: import_problem(package) for package in ARRAY_PACKAGES}
    if not any(problems.values()):
        with suppress(OSError):
            verified.parent.mkdir(parents=True, exist_ok=True)
            write_output(verified, json.dumps(stamp))
    return problems


def _stamp() -> list[list[Any]]:
    """Return the interpreter, and the path, time of change and version of each array package."""
    stamp: list[list[Any]] = [[sys.executable, sys.version]]
    for package in ARRAY_PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            return [[package, "not installed"]]  # which no file says: it is imported, and fails
        changed_ns = Path(spec.origin).stat().st_mtime_ns
        stamp.append([package, version(package), spec.origin, changed_ns])
    return stamp


def import_cure(package: str) -> str:
    """Return the command that makes an installed package work with the installed NumPy.

    Examples
    --------
    >>> import_cure("pandas")
    'pip install --force-reinstall pandas'
    """
    if package == "pyarrow" and _major("numpy") == 1:
        return f"pip install 'pyarrow<{LAST_PYARROW_FOR_NUMPY_1 + 1}'"
    return f"pip install --force-reinstall {package}"


def _major(package: str) -> int | None:
    try:
        return int(version(package).partition(".")[0])
    except (PackageNotFoundError, ValueError):
        return None


@cache
def require_array_packages() -> None:
    """Raise if NumPy, pyarrow or pandas cannot be imported together.

    Raises
    ------
    SetupError
        With the package's own reason and the command that mends it.
    """
    for package in ARRAY_PACKAGES:
        problem = import_problem(package)
        if problem is not None:
            msg = f"{package} cannot be imported: {problem}. Run: {import_cure(package)}"
            raise SetupError(msg)
