"""The cookbook's recipes for schedulers, as printed."""

from collections.abc import Mapping


def with_real_places(code: str, places: Mapping[str, object]) -> str:
    """Return a recipe in which only its servers and paths are replaced.

    Parameters
    ----------
    code : str
    places : mapping of str to object
        The replacement for each printed server or path; each must be printed.
    """
    for printed, real in places.items():
        assert printed in code, f"the recipe does not name {printed}"
        code = code.replace(printed, str(real))
    return code
