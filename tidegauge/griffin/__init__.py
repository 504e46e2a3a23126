"""Griffin's rules and jobs: ``tg.griffin.parse``, ``tg.griffin.run``, ``%%griffin``.

The names are looked up when they are first used, so importing this takes neither Spark nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzers.errors import DslError as DslError
    from analyzers.griffin.frame_ops import frame_operation as frame_operation
    from analyzers.griffin.parsing import parse as parse
    from analyzers.griffin.parsing import parse_expression as parse_expression
    from analyzers.griffin.reading import read_env as read_env
    from analyzers.griffin.reading import read_job as read_job
    from analyzers.griffin.results import GriffinResult as GriffinResult
    from analyzers.griffin.results import RuleResult as RuleResult
    from analyzers.griffin.writing import write as write
    from tidegauge.griffin.checking import check as check
    from tidegauge.griffin.magic import load_ipython_extension as load_ipython_extension
    from tidegauge.griffin.run import run as run

_HOME = {
    "DslError": "analyzers.errors",
    "GriffinResult": "analyzers.griffin.results",
    "RuleResult": "analyzers.griffin.results",
    "check": "tidegauge.griffin.checking",
    "frame_operation": "analyzers.griffin.frame_ops",
    "load_ipython_extension": "tidegauge.griffin.magic",
    "parse": "analyzers.griffin.parsing",
    "parse_expression": "analyzers.griffin.parsing",
    "read_env": "analyzers.griffin.reading",
    "read_job": "analyzers.griffin.reading",
    "run": "tidegauge.griffin.run",
    "write": "analyzers.griffin.writing",
}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a list of text


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'tidegauge.griffin' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
