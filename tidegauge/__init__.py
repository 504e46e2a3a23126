"""Tidegauge: measure tables once, remember for ever, and tell a storm surge from a spring tide.

>>> import tidegauge as tg
>>> tg.Completeness("email")
Completeness('email')

The public names stand in ``__init__.pyi``, where type checkers find them. They are looked up when
they are first used, so importing this takes neither Spark nor pandas.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """Return the module that each public name lives in."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOME = _homes()
__all__ = sorted(_HOME)  # noqa: PLE0605 - a list of text, read from the stub


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'tidegauge' has no attribute {name!r}"
        raise AttributeError(msg)
    home = _HOME[name]
    value = (
        import_module(f"{home}.{name}")  # a part of this package
        if home == __name__
        else getattr(import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
