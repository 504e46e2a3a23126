"""The dashboard's script and style, which are built with the package, and the addresses of its pages.

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
        Address of the dashboard.
    incident : int
        Id of the incident.

    Examples
    --------
    >>> incident_address("https://quality.example/", 337)
    'https://quality.example/#/incidents/337'
    """
    return f"{url}#/incidents/{incident}"


def dataset_address(url: str, dataset: str) -> str:
    """Return the address of the heat map of one table.

    Parameters
    ----------
    url : str
        Address of the dashboard.
    dataset : str

    Examples
    --------
    >>> dataset_address("https://quality.example/", "sales & co")
    'https://quality.example/#/overview?table=sales%20%26%20co'
    """
    return f"{url}#/overview?table={quote(dataset, safe='')}"


STATIC_FOLDER = Path(__file__).parent / "static"
SCRIPT_FILE, STYLE_FILE = STATIC_FOLDER / "dashboard.js", STATIC_FOLDER / "dashboard.css"
BUILD_HINT = "run `make widgets`, or install Tidegauge again"


def source(file: Path) -> Path | str:
    """Return a file for anywidget, which reads it immediately; an empty string if it does not exist."""
    return file if file.exists() else ""


def problem() -> str | None:
    """Return the reason why the script is missing or outdated; None if it is built."""
    reason_file = (
        STATIC_FOLDER / "missing.txt"
    )  # a failed build writes it and keeps an older script
    if reason_file.exists():
        return reason_file.read_text(encoding="utf-8").strip()
    is_built = SCRIPT_FILE.exists() and STYLE_FILE.exists()
    return None if is_built else "its script was not built"
