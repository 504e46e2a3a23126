"""Checks that the installed packages work with each other, with the command that mends it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from tidegauge.analyzers.core.errors import SetupError

LAST_PYARROW_FOR_NUMPY_1 = 25
"""pyarrow 26 refuses to be imported with NumPy 1, which Spark 3.5 requires."""

ARRAY_PACKAGES = ("numpy", "pyarrow", "pandas")
"""Packages that are compiled for each other, in the order in which they depend on each other."""


def import_problem(package: str) -> str | None:
    """Return why an installed package cannot be imported; None if it can."""
    try:
        import_module(package)
    except ImportError as error:
        return str(error)
    return None


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
