"""The dashboard's script and style, built with the package."""

from __future__ import annotations

from pathlib import Path

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
