"""Jars for tests, fetched once by Maven."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.paths import ROOT

BUILD = ROOT / "build" / "jars"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def pom(*packages: str) -> str:
    """Return a Maven project for some packages.

    A package is ``group:name:version``, or ``group:name:version:type:classifier``.
    A package followed by ``!`` is fetched without its own dependencies.
    """
    parts = ("groupId", "artifactId", "version", "type", "classifier")
    actual = []
    for package in packages:
        words = zip(parts, package.rstrip("!").split(":"), strict=False)
        reported = "".join(f"<{part}>{word}</{part}>" for part, word in words)
        alone = ALONE if package.endswith("!") else ""
        actual.append(f"    <dependency>{reported}{alone}</dependency>")
    return POM.format(dependencies="\n".join(actual))


def folder_of(project: str) -> Path:
    """Return the folder of a project's jars, which may not exist yet."""
    return BUILD / hashlib.sha256(project.encode()).hexdigest()[:12]


def fetch(project: str) -> str | None:
    """Fetch the jars of a project unless they exist; return the reason for a failure, or None."""
    jars = folder_of(project)
    if jars.exists():
        return None
    maven = shutil.which("mvn")
    if maven is None:
        return "Maven is not installed"
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        (Path(folder) / "pom.xml").write_text(project)
        options = ("-DincludeScope=runtime", "-DoutputDirectory=jars")
        done = subprocess.run(
            [maven, "-q", "-B", "dependency:copy-dependencies", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"Maven fetched nothing: {done.stdout[-2000:]}"
        with contextlib.suppress(OSError):  # another run was faster
            (Path(folder) / "jars").rename(jars)
    return None


def jars_of(*packages: str) -> list[str]:
    """Return the paths of packages' files; fetch them unless they exist."""
    project = pom(*packages)
    problem = fetch(project)
    assert problem is None, problem
    return sorted(map(str, folder_of(project).iterdir()))
