"""Ask the registries what they know against what is bundled and pinned: advisories, deprecated and yanked versions.

What a registry does not answer is told, and is no problem: mirrors often have no advisories.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDGETS = ROOT / "tidegauge" / "widgets"
PINNED = ROOT / "requirements" / "dev.txt"
_PINS = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)
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
    yield from of_python(PINNED.read_text(encoding="utf-8"))


def of_python(requirements: str) -> Iterator[str]:
    """Yield the vulnerabilities that the index of Python packages knows of pinned versions."""
    from pip._internal.models.index import PyPI

    configured = asked(sys.executable, "-m", "pip", "config", "get", "global.index-url").stdout
    index = os.environ.get("PIP_INDEX_URL") or configured.strip() or PyPI.simple_url
    base = index.rstrip("/").removesuffix("/simple")
    for name, version in _PINS.findall(requirements):
        answer = fetched(f"{base}/pypi/{name}/{version}/json")
        if answer is None:
            print("NOTE: the index of Python packages answers no questions about vulnerabilities")
            return
        yield from (f"{name} {version}: {told}" for told in vulnerabilities(answer))


def vulnerabilities(answer: str) -> list[str]:
    """Return the vulnerabilities in what an index says of a release, without those that were withdrawn.

    Examples
    --------
    >>> vulnerabilities('{"vulnerabilities": [{"id": "PYSEC-1", "summary": "leaks", "fixed_in": ["2.0"]}]}')
    ['PYSEC-1: leaks; fixed in 2.0']
    >>> vulnerabilities('{"vulnerabilities": [{"id": "PYSEC-2", "withdrawn": "2026-01-01"}]}')
    []
    """
    told = []
    for one in json.loads(answer).get("vulnerabilities") or ():
        if not one.get("withdrawn"):
            about = one.get("summary") or (one.get("details") or "").partition("\n")[0]
            fixed = ", ".join(one.get("fixed_in") or ()) or "no version"
            told.append(f"{one['id']}: {about}; fixed in {fixed}")
    return told


def fetched(url: str) -> str | None:
    """Return what an address answers; None if it does not."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())
    except (OSError, ValueError):
        return None


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
