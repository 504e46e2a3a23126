"""The cookbook's recipes for schedulers, as printed."""

from collections.abc import Mapping


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
