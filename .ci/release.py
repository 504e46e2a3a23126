"""Build a release, check it, and try it in clean environments: `make release`.

Writes the wheel and the source distribution to ``dist/``; publishes nothing. Pythons that are not on this
machine are named, and fail the release unless ``--only-here`` is given.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
TRIED = """
import tidegauge as tg
with tg.Repository("sqlite:///tried.db") as repo:
    days = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
    repo.record("shop", "revenue", {**days, "ds=2026-01-29": 7.0}, scale="positive")
    assert repo.detect("shop")["partition"].tolist() == ["ds=2026-01-29"]
"""
"""A repository is made, filled and watched: what works without Spark."""


def main() -> None:
    """Run all steps; the first that fails ends the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-here", action="store_true", help="only the Pythons of this machine")
    here = parser.parse_args().only_here
    problems = list(unready())
    version = project_version()
    missing = [name for name in PYTHONS if not runs(f"python{name}")]
    if missing and not here:
        names = ", ".join(missing)
        problems.append(
            f"no Python {names} starts here (those of pyenv: name them in PYENV_VERSION)"
        )
    if problems:
        sys.exit("not ready: " + "; ".join(problems))
    run(sys.executable, str(ROOT / ".ci" / "advisories.py"))
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build")
    wheel, source = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
    run(sys.executable, "-m", "check_wheel_contents", str(wheel))
    check_bill_of_materials(wheel)
    if relative := relative_links(wheel):
        sys.exit(f"{relative} links of the README are relative, and lead nowhere on an index")
    for python in PYTHONS:
        if python not in missing:
            for package in (wheel, source):
                try_out(python, package, version)
    print(f"{wheel.name} and {source.name} are ready; the rest is in CONTRIBUTING.md, Releasing")


def project_version() -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def runs(python: str) -> bool:
    """Return whether a Python is there and starts; a version manager's stand-in may not."""
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def check_bill_of_materials(wheel: Path) -> None:
    """End the program unless the wheel's bill of materials keeps to the schema of CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".cdx.json"))
        bill = archive.read(name).decode()
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill)) is not None:
        sys.exit(f"{name} is no CycloneDX 1.6: {wrong}")


def relative_links(wheel: Path) -> int:
    """Return the number of links in the package's description that lead nowhere on an index."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    return len(re.findall(r"\]\((?!\w+:)[^)\s]+\)", text))


def unready() -> Iterator[str]:
    """Yield what stands in the way before anything is built."""
    version = project_version()
    if not os.environ.get("TIDEGAUGE_SITE", "").startswith("https://"):
        yield (
            "TIDEGAUGE_SITE does not say where site/ will be published (https://...), where the"
            " README's links lead on a package index"
        )
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$"
    dated = re.search(heading, changes, re.MULTILINE)
    if dated is None:
        yield f"CHANGELOG.md has no dated section [{version}]"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if f"\nversion: {version}\n" not in citation:
        yield f"CITATION.cff is not of version {version}"
    if dated and f"\ndate-released: {dated[1]}\n" not in citation:
        yield f"CITATION.cff does not say date-released: {dated[1]}, as CHANGELOG.md does"
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    if done.stdout:
        yield "files are not committed"
    if not (ROOT / "tidegauge" / "widgets" / "static" / "dashboard.js").exists():
        yield "the dashboard's script is not built: make widgets"


def try_out(python: str, package: Path, version: str) -> None:
    """Install a package in a new environment and use it, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run(f"python{python}", "-m", "venv", f"{folder}/venv")
        tried = Path(folder) / "venv" / "bin"
        run(str(tried / "python"), "-m", "pip", "install", "--quiet", str(package))
        run(str(tried / "python"), "-W", "error", "-c", TRIED, folder=folder)
        run(str(tried / "tidegauge"), "notebooks", "copied", folder=folder)
        said = run(str(tried / "tidegauge"), "--version", folder=folder)
        assert said.split() == ["tidegauge", version], said
        assert list(Path(folder, "copied").glob("*.ipynb")), "no notebooks in the package"
    print(f"Python {python}: {package.name} works")


def run(*command: str, folder: str | Path = ROOT) -> str:
    """Run a command, print what it says, and return it."""
    print("$", *command[:6], flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    print(done.stdout, end="")
    return done.stdout


if __name__ == "__main__":
    main()
