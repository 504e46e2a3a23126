"""What is released: a wheel holds all that is needed and nothing of how it is made, the source both."""

import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from hatch_build import SCRIPT

ROOT = Path(__file__).parents[1]
NEEDED = (
    "tidegauge/widgets/static/dashboard.js",
    "tidegauge/widgets/static/dashboard.css",
    "tidegauge/widgets/dashboard.ipynb",
    "tidegauge/widgets/jupyter/voila/templates/tidegauge/index.html.j2",
    "tidegauge/__init__.pyi",
    "tidegauge/py.typed",
    "migrations/versions/0005_*.py",
)
MADE_OF = (
    "*.ts",
    "*.mjs",
    "*package*.json",
    "*tsconfig.json",
    "*node_modules*",
    "*.npmrc",
    "tests/*",
)


def built(kind, folder):
    if not SCRIPT.exists():
        pytest.skip("the dashboard's script is not built: make widgets")
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.iterdir()
    return file


def test_a_wheel(tmp_path):
    names = zipfile.ZipFile(built("wheel", tmp_path)).namelist()
    for needed in NEEDED:
        assert any(fnmatch(name, needed) for name in names), needed
    for pattern in MADE_OF:
        assert not [name for name in names if fnmatch(name, pattern)]


def test_the_source(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    made_of = (
        "hatch_build.py",
        "tidegauge/widgets/src/dashboard.ts",
        "tidegauge/widgets/build.mjs",
    )
    for needed in (*NEEDED, *made_of, "tidegauge/widgets/package-lock.json"):
        assert any(fnmatch(name, needed) for name in names), needed
    assert not [name for name in names if "node_modules" in name]
