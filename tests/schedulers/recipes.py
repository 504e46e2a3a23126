"""The cookbook's recipes for schedulers, as printed."""

from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import blocks, name_of
from tests.paths import ROOT

COOKBOOK = ROOT / "docs" / "cookbook.md"


def recipes(test_file: str) -> list[str]:
    """Return the code of the cookbook's blocks that a test file runs, in order.

    Parameters
    ----------
    test_file : str
        The file of the calling test; the marks of its blocks name it.
    """
    name = name_of(Path(test_file))
    return [block.code for block in blocks(COOKBOOK) if name in block.why_not]


def with_real_places(code: str, places: Mapping[str, object]) -> str:
    """Return a recipe with its servers and paths replaced by those of a test, and nothing else.

    Parameters
    ----------
    code : str
    places : mapping of str to object
        The test's places by those that are printed; each must be printed.
    """
    for printed, real in places.items():
        assert printed in code, f"the recipe does not name {printed}"
        code = code.replace(printed, str(real))
    return code
