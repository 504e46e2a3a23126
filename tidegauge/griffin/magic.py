"""``%%griffin``: cell magic that runs one rule in a notebook and displays its metrics.

``%load_ext tidegauge.griffin`` enables it. Its sources are frames of the notebook and tables, by
name::

    %%griffin accuracy --source users --target truth --repository repo
    users.id = truth.id and users.name = truth.name
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from tidegauge.analyzers.core.errors import GriffinError, SuiteError, nearest
from tidegauge.griffin.config import Job, Output, RuleConfig
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.engine import Engine
from tidegauge.griffin.loader import Loader
from tidegauge.griffin.measuring import Round
from tidegauge.griffin.plugins import suggested
from tidegauge.griffin.preparation import has_text
from tidegauge.griffin.reading.rules import DQ_TYPES
from tidegauge.griffin.results import GriffinResult
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Arguments(argparse.ArgumentParser):
    """Parser of the magic's arguments; an error raises instead of exiting the process."""

    def error(self, message: str) -> NoReturn:
        raise SuiteError(f"%%griffin: {message}\n{self.format_usage().strip()}")


def _arguments() -> _Arguments:
    parser = _Arguments(prog="%%griffin", add_help=False)
    parser.add_argument("dq_type", nargs="?", default="profiling")
    parser.add_argument("--source", action="append", default=[])
    parser.add_argument("--target")
    parser.add_argument("--name", default="rule")
    parser.add_argument("--dataset", default="notebook")
    parser.add_argument("--repository", help="name of a variable that holds a repository")
    parser.add_argument("--detail", action="append", default=[], metavar="KEY=VALUE")
    return parser


def griffin(line: str, cell: str, variables: Mapping[str, Any]) -> GriffinResult:
    """Run one rule.

    Parameters
    ----------
    line : str
        ``dq_type --source NAME --target NAME --name NAME --dataset NAME --repository VARIABLE --detail KEY=VALUE``;
        the default type is profiling. Sources are variables that hold DataFrames, or tables.
    cell : str
        Text of the rule.
    variables : mapping
        Variables of the notebook.

    Returns
    -------
    GriffinResult
        The result, displayed as a table of its metrics.

    Raises
    ------
    DslError
        If the rule is invalid.
    SuiteError
        If the line is invalid, or a name is neither a DataFrame nor a table.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        msg = f"%%griffin: the line cannot be read: {error}"
        raise SuiteError(msg) from None
    told = _arguments().parse_args(words)
    names = [*told.source, *([told.target] if told.target else [])]
    if not names:
        raise SuiteError("%%griffin: name a source: --source NAME, a DataFrame or a table")
    kind = DQ_TYPES.get(told.dq_type.replace("-", "").lower())
    if kind is None:
        known = suggested(told.dq_type, dict.fromkeys(DQ_TYPES.values()))
        raise SuiteError(f"%%griffin: unknown kind of rule {told.dq_type!r}; {known}")
    frames = {name: _frame(name, variables) for name in names}
    spark = next(iter(frames.values())).sparkSession
    details = dict(_detail(text) for text in told.detail)
    details |= {"source": names[0]} | ({"target": told.target} if told.target else {})
    rule = RuleConfig(
        1,
        "griffin-dsl",
        cell,
        kind,
        out_name=told.name,
        details=details,
        outputs=(Output("metric"),),
    )
    if has_text(rule):
        parse(cell, dq_type=kind)
    repository = None
    if told.repository is not None:
        repository = variables.get(told.repository)
        if repository is None:
            raise SuiteError(f"%%griffin: there is no variable {told.repository!r}")
        if not hasattr(repository, "store"):
            raise SuiteError(f"%%griffin: the variable {told.repository!r} is no repository")
    loader = Loader(spark, round(time.time() * 1000))
    engine = Engine(Job(told.dataset, rules=(rule,)), spark, repository, holds=loader)
    timed = {name: loader.timed(frame) for name, frame in frames.items()}
    result = engine.run(Round(timed, loader.timestamp))
    if result.failures:
        raise GriffinError(result.failures, result)
    return result


def _frame(name: str, variables: Mapping[str, Any]) -> DataFrame:
    found = variables.get(name)
    if found is not None and hasattr(found, "sparkSession"):
        return found  # type: ignore[no-any-return]
    spark: SparkSession = spark_session()
    if _is_table(spark, name):
        return spark.table(name)
    frames = [key for key, value in variables.items() if hasattr(value, "sparkSession")]
    near = nearest(name, frames)
    hint = f"; did you mean {near!r}?" if near else ""
    raise SuiteError(f"%%griffin: {name!r} is neither a DataFrame nor a table{hint}")


def _is_table(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # not a valid table name
        return False


def _detail(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise SuiteError(f"%%griffin: --detail is KEY=VALUE, not {text!r}")
    return key, value


def load_ipython_extension(ipython: Any) -> None:
    """Register the cell magic; called by Jupyter for ``%load_ext tidegauge.griffin``."""

    def cell_magic(line: str, cell: str) -> GriffinResult:
        return griffin(line, cell, ipython.user_ns)

    ipython.register_magic_function(cell_magic, "cell", "griffin")
