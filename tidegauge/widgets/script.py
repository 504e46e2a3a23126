"""The dashboard's script and style, built with the package, and the addresses of its pages.

The script reads and writes the part of an address after #.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def incident_address(url: str, incident: int) -> str:
    """Return the address of an incident's page.

    Parameters
    ----------
    url : str
        The dashboard's own address.
    incident : int

    Examples
    --------
    >>> incident_address("https://quality.example/", 337)
    'https://quality.example/#/incidents/337'
    """
    return f"{url}#/incidents/{incident}"


def dataset_address(url: str, dataset: str) -> str:
    """Return the address of the heat map of one table.

    Examples
    --------
    >>> dataset_address("https://quality.example/", "sales & co")
    'https://quality.example/#/overview?table=sales%20%26%20co'
    """
    return f"{url}#/overview?table={quote(dataset, safe='')}"


STATIC = Path(__file__).parent / "static"
SCRIPT, STYLE = STATIC / "dashboard.js", STATIC / "dashboard.css"
CURE = "`make widgets`, or installing again, builds it"


def source(file: Path) -> Path | str:
    """Return a file for anywidget, which reads it at once; an empty text if it does not exist."""
    return file if file.exists() else ""


def problem() -> str | None:
    """Return the reason why the script is missing or outdated; None if it is built."""
    told = STATIC / "missing.txt"  # written by a failed build, even if an older script exists
    if told.exists():
        return told.read_text(encoding="utf-8").strip()
    return None if SCRIPT.exists() and STYLE.exists() else "it was never built"
