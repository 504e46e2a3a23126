"""Virtual environments of tests that need other packages than development: one for each lock file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

REQUIREMENTS = ROOT / "requirements"
ENVIRONMENTS = ROOT / ".matrix"


def environment(lock: str, python: str = sys.executable, name: str | None = None) -> Path:
    """Return the Python of an environment; create it if its lock file changed.

    Parameters
    ----------
    lock : str
        The lock file's name, without its ending.
    python : str
        The interpreter that creates it.
    name : str, optional
        Its folder; by default the name of the lock file.
    """
    pinned, folder = REQUIREMENTS / f"{lock}.txt", ENVIRONMENTS / (name or lock)
    made, done = folder / "bin" / "python", folder / pinned.name
    if done.exists() and done.read_bytes() == pinned.read_bytes():
        return made
    print(f"Making {folder.relative_to(ROOT)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [made, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "--requirement", pinned], check=True)
    shutil.copy(pinned, done)
    return made
