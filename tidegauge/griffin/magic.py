"""``%%griffin``: cell magic that runs one rule in a notebook and displays its metrics.

``%load_ext tidegauge.griffin`` enables it. Its sources are frames of the notebook and tables, under
their own names or the names of a job::

    %%griffin accuracy --source users --target truth --repository repo
    users.id = truth.id and users.name = truth.name

    %%griffin accuracy --source source=users --target target=truth
    source.id = target.id and source.name = target.name

``%griffin --help`` lists all options.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from tidegauge.analyzers.core.errors import (
    GriffinConfigError,
    GriffinError,
    SuiteError,
    TidegaugeError,
    did_you_mean,
)
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.griffin.config import Job, RuleConfig
from tidegauge.griffin.dsl.parser import RULE_TYPE_BY_SPELLING, parse
from tidegauge.griffin.execution.engine import Engine, Round
from tidegauge.griffin.execution.loader import Loader
from tidegauge.griffin.execution.preparation import has_text
from tidegauge.griffin.plugins import suggested
from tidegauge.griffin.reading.keys import MappingReader, ReadLog
from tidegauge.griffin.reading.rules import read_rules
from tidegauge.griffin.results import GriffinResult, sampled
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Arguments(argparse.ArgumentParser):
    """Parser of the magic's arguments; an error raises instead of exiting the process."""

    def error(self, message: str) -> NoReturn:
        raise SuiteError(f"%%griffin: {message}\n{self.format_usage().strip()}")


def _arguments() -> _Arguments:
    kinds = ", ".join(dict.fromkeys(RULE_TYPE_BY_SPELLING.values()))
    parser = _Arguments(
        prog="%%griffin",
        add_help=False,
        description="Run the rule in the cell and show its metrics.",
    )
    parser.add_argument(
        "dq_type", nargs="?", default="profiling", help=f"{kinds}, or spark-sql; default: profiling"
    )
    parser.add_argument(
        "--source", action="append", default=[], metavar="[NAME=]FRAME",
        help="a variable that holds a DataFrame, or a table, and its name in the rule; repeatable",
    )  # fmt: skip
    parser.add_argument("--target", metavar="[NAME=]FRAME", help="the frame to compare with")
    parser.add_argument("--name", default="rule", help="name of the rule")
    parser.add_argument("--dataset", default="notebook", help="name of the history")
    parser.add_argument("--repository", help="name of a variable that holds a repository")
    parser.add_argument(
        "--detail", action="append", default=[], metavar="KEY=VALUE",
        help="a detail of the rule, or error.confs; a value may be JSON, without spaces or in quotes",
    )  # fmt: skip
    parser.add_argument("--records", type=int, default=10, help="how many records to show")
    parser.add_argument("--help", action="store_true", help="show this help")
    return parser


def griffin(line: str, cell: str, variables: Mapping[str, Any]) -> GriffinResult | None:
    """Run one rule.

    Parameters
    ----------
    line : str
        ``dq_type --source [NAME=]FRAME --target [NAME=]FRAME --name NAME --dataset NAME
        --repository VARIABLE --detail KEY=VALUE --records NUMBER``; the default type is profiling,
        and ``spark-sql`` is a query. Frames are variables that hold DataFrames, or tables.
    cell : str
        Text of the rule; empty for ``%griffin``, which is for ``--help``.
    variables : mapping
        Variables of the notebook.

    Returns
    -------
    GriffinResult or None
        The result, displayed as a table of its metrics and its first records; None for ``--help``,
        which is printed.

    Raises
    ------
    DslError
        If the rule is invalid.
    GriffinConfigError
        If a detail is invalid.
    SuiteError
        If the line is invalid, or a name is neither a DataFrame nor a table.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SuiteError(f"%%griffin: the line cannot be read: {error}") from None
    parser = _arguments()
    arguments = parser.parse_args(words)
    if arguments.help:
        sys.stdout.write(parser.format_help())
        return None
    if not cell.strip():
        raise SuiteError(
            "%griffin: the rule is empty; write %%griffin, and the rule in the lines below"
        )
    frame_names = dict(
        map(_split_frame, [*arguments.source, *([arguments.target] if arguments.target else [])])
    )
    if not frame_names:
        raise SuiteError("%%griffin: name a source: --source NAME, a DataFrame or a table")
    target = _split_frame(arguments.target)[0] if arguments.target else None
    rule = _rule(arguments, cell, next(iter(frame_names)), target)
    frames = {name: _frame(variable, variables) for name, variable in frame_names.items()}
    spark = next(iter(frames.values())).sparkSession
    if rule.dsl_type == "griffin-dsl" and has_text(rule):
        parse(cell, dq_type=str(rule.dq_type))
    repository = _repository(arguments.repository, variables)
    loader = Loader(spark, round(time.time() * 1000))
    engine = Engine(Job(arguments.dataset, rules=(rule,)), spark, repository, holds=loader)
    timed = {name: loader.timed(frame) for name, frame in frames.items()}
    result = engine.run(Round(timed, loader.timestamp))
    if result.failures:
        raise GriffinError(result.failures, result)
    records = result.records(arguments.name)
    if records is None or arguments.records < 1:
        return result
    return replace(
        result, displayed_records={arguments.name: sampled(records.drop(TMST), arguments.records)}
    )


def _rule(arguments: argparse.Namespace, cell: str, source: str, target: str | None) -> RuleConfig:
    """Return the rule, read as one of a job."""
    sql = arguments.dq_type.replace("-", "").lower() == "sparksql"
    kind = None if sql else RULE_TYPE_BY_SPELLING.get(arguments.dq_type.replace("-", "").lower())
    if kind is None and not sql:
        hint = suggested(
            arguments.dq_type, dict.fromkeys([*RULE_TYPE_BY_SPELLING.values(), "spark-sql"])
        )
        raise SuiteError(f"%%griffin: unknown kind of rule {arguments.dq_type!r}; {hint}")
    details = dict(_detail(text) for text in arguments.detail)
    errors = details.pop("error.confs", None)
    if not sql:
        details |= {"source": source} | ({"target": target} if target else {})
    written = {
        "dsl.type": "spark-sql" if sql else "griffin-dsl",
        "dq.type": kind,
        "rule": cell,
        "out.dataframe.name": arguments.name,
        "details": details,
        "error.confs": errors,
        "out": [{"type": "metric"}],
    }
    log = ReadLog()
    (rule,) = read_rules([MappingReader(written, "%%griffin", log)])
    if log.problems:
        raise GriffinConfigError("; ".join(dict.fromkeys(log.problems)))
    return rule


def _repository(name: str | None, variables: Mapping[str, Any]) -> Any:
    if name is None:
        return None
    value = variables.get(name)
    if value is None:
        raise SuiteError(f"%%griffin: variable {name!r} does not exist")
    if not hasattr(value, "store"):
        raise SuiteError(f"%%griffin: the variable {name!r} is not a repository")
    return value


def _split_frame(text: str) -> tuple[str, str]:
    """Return the name of a frame in the rule, and the variable or table that it is."""
    name, equals, frame = text.partition("=")
    return (name, frame) if equals else (text, text)


def _frame(name: str, variables: Mapping[str, Any]) -> DataFrame:
    variable = variables.get(name)
    if variable is not None and hasattr(variable, "sparkSession"):
        return variable  # type: ignore[no-any-return]
    spark: SparkSession = spark_session()
    if _is_table(spark, name):
        return spark.table(name)
    frames = [key for key, value in variables.items() if hasattr(value, "sparkSession")]
    hint = did_you_mean(name, frames)
    raise SuiteError(f"%%griffin: {name!r} is neither a DataFrame nor a table{hint}")


def _is_table(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # not a valid table name
        return False


def _detail(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise SuiteError(f"%%griffin: --detail is KEY=VALUE, not {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def load_ipython_extension(ipython: Any) -> None:
    """Register ``%%griffin``, and ``%griffin`` for its help; called by Jupyter for ``%load_ext tidegauge.griffin``.

    Examples
    --------
    In a notebook::

        %load_ext tidegauge.griffin

    or in Python:

    >>> from IPython.core.interactiveshell import InteractiveShell  # doctest: +SKIP
    >>> shell = InteractiveShell()  # doctest: +SKIP
    >>> load_ipython_extension(shell)  # doctest: +SKIP
    >>> "griffin" in shell.magics_manager.magics["cell"]  # doctest: +SKIP
    True
    """

    def magic(line: str, cell: str = "") -> GriffinResult | None:
        try:
            return griffin(line, cell, ipython.user_ns)
        except TidegaugeError as error:
            # The message says it all; IPython would print the stack of the engine around it.
            lines = f"{type(error).__name__}: {error}".splitlines()
            error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
            raise

    # IPython refuses a cell magic without a body before it is called: the help is the line magic's.
    ipython.register_magic_function(magic, "line_cell", "griffin")
