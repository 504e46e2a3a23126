"""Run the notebooks, and keep what their cells gave for the site, in docs/outputs.

python docs/run_notebooks.py sqlite:///.demo/tidegauge.db [NAME ...]

Needs Spark, and for exploring_history the repository that ``make demo`` fills, of which a copy is used. The
notebooks themselves stay without outputs.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTPUTS = ROOT / "docs" / "outputs"
LONGEST = {"html": 40_000, "text": 3_000}
"""Characters that are kept of an output; longer HTML is left out for its text."""
_PLACE = re.compile(r"(?:file:)?/[\w./-]*/(tidegauge-)[\w-]+")
_NOISE = re.compile(r"<style.*?</style>|<script.*?</script>|\n\s*(?=\n)", re.DOTALL)
_WIDGET = "application/vnd.jupyter.widget-view+json"


def key_of(source: str) -> str:
    """Return the key of a cell's outputs: another source has none yet."""
    return sha256(source.encode()).hexdigest()[:16]


def main(url: str, *names: str) -> None:
    """Run all notebooks, or some."""
    sys.path[0] = str(ROOT)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if not names or path.stem in names:
            found = run(path, url)
            text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
            (OUTPUTS / f"{path.stem}.json").write_text(text, encoding="utf-8")
            print(path.stem, len(text), "characters")


def run(path: Path, url: str) -> dict[str, list[dict[str, str]]]:
    """Run a notebook in a folder of its own; return the outputs of its cells by the cells' keys."""
    import nbformat
    from nbclient import NotebookClient

    from tests.services.servers import jupyter_environment

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        database = Path(url.removeprefix("sqlite:///"))
        if path.stem == "exploring_history":
            shutil.copy(database, f"{folder}/flights.db")
            if (artifacts := Path(f"{database}.artifacts")).exists():
                shutil.copytree(artifacts, f"{folder}/flights.db.artifacts")
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(env=jupyter_environment(Path(folder), TMPDIR=folder))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {key_of(cell.source): list(_kept(cell.outputs)) for cell in code}


def _kept(outputs: list[Any]) -> Iterator[dict[str, str]]:
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                yield _text(output.text)
            continue
        data = output.data
        drawn = re.sub('^<svg style="[^"]*"', "<svg", data.get("image/svg+xml") or "")
        html = _clean(drawn or data.get("text/html") or "")  # drawn in the colors of the site
        if _WIDGET in data:
            if "Dashboard" in data.get("text/plain", ""):
                yield {"widget": "dashboard"}
        elif "tidegauge-saved" in html:  # stands in for a widget that is not shown
            continue
        elif html and len(html) <= LONGEST["html"]:
            yield {"html": html}
        else:
            yield _text(data["text/plain"])


def _text(text: str) -> dict[str, str]:
    kept = _PLACE.sub(r"\1…", text).rstrip()
    more = len(kept) > LONGEST["text"]
    return {"text": kept[: LONGEST["text"]] + ("\n…" if more else "")}


def _clean(html: str) -> str:
    return _PLACE.sub(r"\1…", _NOISE.sub("", html)).strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
