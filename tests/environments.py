"""Virtual environments of tests that need other packages than development: one for each lock file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

REQUIREMENTS = ROOT / "requirements"
ENVIRONMENTS = ROOT / ".matrix"


def environment(name: str) -> Path:
    """Return the Python of the environment of a lock file; make it if the file changed."""
    lock, folder = REQUIREMENTS / f"{name}.txt", ENVIRONMENTS / name
    python, done = folder / "bin" / "python", folder / lock.name
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return python
    print(f"Making {folder.relative_to(ROOT)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "--requirement", lock], check=True)
    shutil.copy(lock, done)
    return python
