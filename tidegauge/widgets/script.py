"""The dashboard's script, which is built with the package."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
SCRIPT, STYLE = STATIC / "dashboard.js", STATIC / "dashboard.css"
CURE = "`make widgets`, or installing again, builds it"


def source(file: Path) -> Path | str:
    """Return a file as a widget takes it, which reads it at once; nothing where there is none."""
    return file if file.exists() else ""


def problem() -> str | None:
    """Return why there is no script; None if there is one."""
    told = (
        STATIC / "missing.txt"
    )  # what a build left that failed, also where an older script is there
    if told.exists():
        return told.read_text(encoding="utf-8").strip()
    return None if SCRIPT.exists() and STYLE.exists() else "it was never built"
