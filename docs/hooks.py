"""MkDocs hooks: the package as it is installed, and the pages that are made of other files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from run_notebooks import OUTPUTS, key_of  # beside this file, where MkDocs looks while it loads it
from variants import with_variants

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "build" / "docs" / "tidegauge"
LINKED = ("analyzers", "repository", "migrations")
COPIED = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Copy the package to where mkdocstrings reads it, which does not follow links to folders."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    unread = shutil.ignore_patterns("__pycache__", "node_modules", "src", "static", *LINKED)
    shutil.copytree(ROOT / "tidegauge", PACKAGE, ignore=unread)
    for name in LINKED:
        shutil.copytree(ROOT / name, PACKAGE / name, ignore=shutil.ignore_patterns("__pycache__"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the command line's reference, schemas, the notebooks, and pages from the top of the project."""
    from tidegauge.files.schema import FILE_KINDS, json_schema

    for page, source in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, page, content="\n\n".join(_cells(notebook))))
    files.append(File.generated(config, "reference/cli.md", content="\n".join(_cli())))
    for kind in FILE_KINDS:
        schema = json.dumps(json_schema(kind), indent=1)
        files.append(File.generated(config, f"schemas/{kind}.schema.json", content=schema))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show pictures of the dashboard in the variant that fits."""
    return with_variants(html, Path(config.docs_dir))


def _cells(notebook: Path) -> Iterator[str]:
    from tidegauge.display.html import CARD_CSS

    outputs = OUTPUTS / f"{notebook.stem}.json"
    kept = json.loads(outputs.read_text(encoding="utf-8")) if outputs.exists() else {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            yield f"```python\n{text}\n```"
            yield from map(_output, kept.get(key_of(text), ()))  # none: not run since it changed
        else:
            yield re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", text)
    yield f"`tidegauge notebooks` copies this notebook as `{notebook.name}`."
    yield f"<style>{CARD_CSS}</style>"


def _output(output: dict[str, str]) -> str:
    ((kind, text),) = output.items()
    if kind == "text":
        return f"````text\n{text}\n````"
    if kind == "html":
        return f'<div class="output">{text}</div>'
    return "*In a notebook, [the dashboard](../guide/dashboard.md) is drawn here.*"


def _cli() -> Iterator[str]:
    from typer.main import get_command

    from tidegauge.cli.main import app

    yield "# Command line\n"
    yield "`tidegauge COMMAND --help` prints the same text. [Exit status](../guide/operate.md#exit-status): 0, 1 or 2.\n"
    yield "`tidegauge --time-limit MINUTES COMMAND` ends a command after this time.\n"
    yield from _commands("tidegauge", get_command(app))


def _commands(path: str, command: Any) -> Iterator[str]:
    for name, one in sorted(getattr(command, "commands", {}).items()):
        whole = f"{path} {name}"
        if hasattr(one, "commands"):
            yield from _commands(whole, one)
            continue
        arguments = [p for p in one.params if p.param_type_name == "argument"]
        options = [p for p in one.params if p.param_type_name == "option" and p.name != "help"]
        words = [p.metavar or (p.name or "").upper() for p in arguments]
        yield f"## {whole}\n\n{one.help or ''}\n"
        yield "```text\n" + " ".join([whole, *words, "[OPTIONS]" * bool(options)]) + "\n```\n"
        yield "| | Meaning | Default |\n|---|---|---|"
        for word, parameter in zip(words, arguments, strict=True):
            yield _row(word, parameter)
        for option in options:
            yield _row(", ".join([*option.opts, *option.secondary_opts]), option)
        yield ""


def _row(name: str, parameter: Any) -> str:
    meaning = (getattr(parameter, "help", "") or "").replace("|", "\\|")
    default = parameter.default
    shown = getattr(default, "value", default)
    plain = isinstance(shown, str | int | float | Path) and not isinstance(shown, bool)
    return f"| `{name}`{{ .option }} | {meaning} | {f'`{shown}`' if plain else ''} |"
