"""Ask the registries what they know against what is bundled and pinned: advisories, deprecated and yanked versions.

What a registry does not answer is told, and is no problem: mirrors often have no advisories.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDGETS = ROOT / "tidegauge" / "widgets"
PINNED = ROOT / "requirements" / "dev.txt"
_YANKED = re.compile(r"yanked version: '([^']+)' candidate \(version (\S+) ")


def problems() -> Iterator[str]:
    """Yield a sentence for each problem that a registry knows of."""
    lock = json.loads((WIDGETS / "package-lock.json").read_text(encoding="utf-8"))
    audited = asked("npm", "audit", "--package-lock-only", "--json", folder=WIDGETS).stdout
    found = advisories(audited)
    if found is None:
        print("NOTE: the registry of npm answers no questions about advisories")
    yield from found or []
    for place, package in lock["packages"].items():
        if place and not package.get("dev"):
            name = f"{place.removeprefix('node_modules/')}@{package['version']}"
            if told := asked("npm", "view", name, "deprecated").stdout.strip():
                yield f"{name} is deprecated: {told}"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--dry-run")
    options = ("--ignore-installed", "--no-deps", "--quiet", "--requirement", str(PINNED))
    done = asked(*pip, *options)
    if done.returncode:
        print(f"NOTE: pip does not tell which versions were yanked: {done.stderr.strip()[-300:]}")
    yield from yanked(done.stderr)


def advisories(answer: str) -> list[str] | None:
    """Return the advisories in an answer of ``npm audit --json``; None if there was no answer.

    Examples
    --------
    >>> advisories('{"vulnerabilities": {}, "auditReportVersion": 2}')
    []
    >>> advisories('{"message": "405 Method Not Allowed"}') is None
    True
    >>> via = '[{"title": "Prototype pollution", "url": "https://example.org/1"}, "other"]'
    >>> advisories('{"vulnerabilities": {"x": {"severity": "high", "range": "<2", "via": %s}}}' % via)
    ['x <2: high: Prototype pollution (https://example.org/1), other']
    """
    try:
        found = json.loads(answer).get("vulnerabilities")
    except ValueError:
        return None
    if found is None:
        return None
    told = []
    for name, one in found.items():
        via = (v if isinstance(v, str) else f"{v['title']} ({v['url']})" for v in one["via"])
        told.append(f"{name} {one['range']}: {one['severity']}: {', '.join(via)}")
    return told


def yanked(told: str) -> list[str]:
    """Return the yanked versions that pip warns of.

    Examples
    --------
    >>> yanked("WARNING: The candidate selected for download or install is a yanked version: 'numpy' "
    ...        "candidate (version 2.4.0 at https://h/x.whl)")
    ['numpy 2.4.0 was yanked']
    """
    return [f"{name} {version} was yanked" for name, version in _YANKED.findall(told)]


def asked(*command: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program of a registry, whatever its status."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    found = list(problems())
    sys.exit("\n".join(found) if found else 0)
