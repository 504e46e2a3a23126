"""Griffin's rules and jobs: ``tg.griffin.parse``, ``tg.griffin.run``, ``%%griffin``."""

from __future__ import annotations

from analyzers.errors import DslError
from analyzers.griffin.frame_ops import frame_operation
from analyzers.griffin.parsing import parse, parse_expression
from analyzers.griffin.reading import read_env, read_job
from analyzers.griffin.results import GriffinResult, RuleResult
from analyzers.griffin.writing import write
from tidegauge.griffin.checking import check
from tidegauge.griffin.magic import load_ipython_extension
from tidegauge.griffin.run import run

__all__ = [
    "DslError",
    "GriffinResult",
    "RuleResult",
    "check",
    "frame_operation",
    "load_ipython_extension",
    "parse",
    "parse_expression",
    "read_env",
    "read_job",
    "run",
    "write",
]
