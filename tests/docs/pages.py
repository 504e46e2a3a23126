"""Parsed pages of the documentation: code blocks with their marks, headings and links.

Marks are comments, which readers do not see:

- ``<!-- run -->``: the Python blocks from here on run, in one namespace for each page.
- ``<!-- run: flights -->``: they need ``flights.db``, as `tidegauge demo` writes it.
- ``<!-- run: spark -->``: they need a Spark session.
- ``<!-- run: tables -->``: they need both, and the tables of the demonstration.
- ``<!-- run: no (reason) -->``: the next block is not run.
- ``<!-- run: no (tests/... runs it as printed) -->``: that test file gets the block from
  `blocks_run_by` and runs it.
- ``<!-- setup: code -->``: run before the next block.
- ``<!-- check: suite -->``: the next block is a file of that kind; `test_blocks.FILES` has all
kinds.
- ``<!-- printed: name -->``: the next block is printed elsewhere; a test compares it by
`assert_printed`.

A block of ``text`` right after a Python block is its output. In all output, ``...`` matches
anything.
"""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

TOP = (
    *("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "ARCHITECTURE.md"),
    *("CHANGELOG.md", "SECURITY.md"),
)
PAGES = [
    *(ROOT / name for name in TOP),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NEEDS = ("", "flights", "spark", "tables")
"""The fixtures that blocks can need."""
_MARK = re.compile(r"<!-- (run|setup|check|printed)(?:: (.*?))? -->")
_PRINTED = doctest.OutputChecker()
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes
    ----------
    line : int
        The line at which its code begins.
    language, code : str
    needs : str or None
        A key of `NEEDS`; None without a mark.
    why_not : str
        The reason why it is not run, if it is not.
    setup, check, printed : str
    output : str or None
        The output that the page shows.
    """

    line: int
    language: str
    code: str
    needs: str | None = None
    why_not: str = ""
    setup: str = ""
    check: str = ""
    printed: str = ""
    output: str | None = None


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    actual: list[Block] = []
    needs, end = None, 0
    for fence in _FENCE.finditer(text):
        between = text[end : fence.start()]
        marks = dict.fromkeys(("no", "setup", "check", "printed"), "")
        for kind, said in _MARK.findall(between):
            if kind == "run" and said.startswith("no"):
                marks["no"] = said.removeprefix("no").strip(" ()")
                assert marks["no"], f"{name_of(page)}: say why a block is not run"
            elif kind == "run":
                assert said in NEEDS, f"{name_of(page)}: {said!r} is none of {NEEDS}"
                needs = said
            else:
                marks[kind] = said
        _, language, code = fence.groups()
        if (
            language == "text"
            and actual
            and actual[-1].language == "python"
            and not between.strip()
        ):
            actual[-1] = Block(**{**vars(actual[-1]), "output": code})
        else:
            line = text.count("\n", 0, fence.start(3)) + 1
            why_not = marks.pop("no")
            actual.append(Block(line, language, code, needs, why_not, **marks))
        end = fence.end()
    return actual


def blocks_run_by(test_file: str) -> list[Block]:
    """Return the blocks whose marks name a test file that runs them, in order.

    Parameters
    ----------
    test_file : str
        ``__file__`` of the caller.
    """
    reason = f"{name_of(Path(test_file))} runs it as printed"
    return [block for page in PAGES for block in blocks(page) if block.why_not == reason]


def matches(shown: str, printed: str) -> bool:
    """Return whether the output on a page matches the printed output."""
    return _PRINTED.check_output(shown, printed, _SAME)


def assert_printed(name: str, printed: str) -> None:
    """Compare printed output with the block that is marked with a name."""
    (shown,) = (b.code for page in PAGES for b in blocks(page) if b.printed == name)
    assert matches(shown, printed.rstrip() + "\n"), f"{name}: printed was\n{printed}"


def prose(page: Path) -> str:
    """Return the prose of a page, without its code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as MkDocs and GitHub generate them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and images."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page)))
