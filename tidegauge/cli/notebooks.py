"""The command that copies the example notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegauge import demo
from tidegauge.analyzers.core.errors import SetupError
from tidegauge.analyzers.core.filesystems import write_output

FOLDER = Path(demo.__file__).parent / "notebooks"


def notebooks(
    folder: Annotated[Path, typer.Argument(help="Where to; created if it does not exist.")] = Path(
        "tidegauge-notebooks"
    ),
) -> None:
    """Copy the example notebooks into a folder; none that is there already is replaced."""
    sources = sorted(FOLDER.glob("*.ipynb"))
    if not sources:
        msg = f"the notebooks are not in {FOLDER}; install tidegauge again"
        raise SetupError(msg)
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; name a folder"
        raise typer.BadParameter(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        target = folder / source.name
        if target.exists():
            print(f"{target} is there already and stays as it is")
        else:
            write_output(target, source.read_text(encoding="utf-8"))
            print(target)
    print(f"Open them: pip install 'tidegauge[notebook]' jupyterlab, then jupyter lab {folder}")
