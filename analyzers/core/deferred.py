"""Deferred imports: objects named as ``module:attribute`` and imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def resolve(name: str) -> Any:
    """Import the object that ``module:attribute`` names.

    Lower layers name what higher ones provide (the scan, the jobs of products, the rendering in
    notebooks), so that imports run one way and are paid for when they are needed.

    Examples
    --------
    >>> resolve("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
