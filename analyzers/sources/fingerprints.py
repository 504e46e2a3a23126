"""Fingerprints of DataFrames from their input files and Spark plan, without reading data.

A frame has a fingerprint if it reads only files: every leaf of Spark's physical plan must be a file
scan, and every file must exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import check_frame
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.sources.sources import FileInfo, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNTRUNCATED_SETTINGS = {
    "spark.sql.debug.maxToStringFields": "100000000",
    "spark.sql.maxMetadataStringLength": "100000000",
}
"""Settings that make Spark print plans without truncation."""

_RESULT_SETTINGS = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
)
"""Session settings that change the result of the same plan, or whether it fails."""

_COLUMN_ID = re.compile(r"#\d+L?")
"""A column id as plans print it; string literals and names can contain lookalikes."""
_NUMBER_ARGUMENT = re.compile(r"-?\d[\d.]*")
_PLAN_ID = re.compile(r"\[?plan_id=\d+\]?")
_VIEW_NAME = re.compile(r"^[ :+-]*SubqueryAlias (_pyspark_[0-9a-f]{32})$", re.MULTILINE)
"""The random view name that PySpark gives a frame referenced in SQL."""
_FILE_SCAN = re.compile(r"FileScan (\w+)")
_SELF_DESCRIBING_FORMATS = frozenset({"parquet", "orc", "avro"})
"""Self-describing formats, whose content does not depend on reader options."""
_PLAN_NODE = re.compile(r"([\s:+-]*)(?:\*\(\d+\) )?(.*)")
"""An operator's tree indentation, its optional code generation marker, and the operator."""
_TRANSPARENT_OPERATORS = frozenset(
    {
        "AQEShuffleRead",
        "AdaptiveSparkPlan",
        "BroadcastExchange",
        "BroadcastHashJoin",
        "BroadcastNestedLoopJoin",
        "CartesianProduct",
        "Coalesce",
        "CollectLimit",
        "ColumnarToRow",
        "Exchange",
        "Expand",
        "FileScan",
        "Filter",
        "Generate",
        "GlobalLimit",
        "HashAggregate",
        "LocalLimit",
        "ObjectHashAggregate",
        "Project",
        "RowToColumnar",
        "Sample",
        "ShuffledHashJoin",
        "Sort",
        "SortAggregate",
        "SortMergeJoin",
        "TakeOrderedAndProject",
        "Union",
        "Window",
        "WindowGroupLimit",
    }
)
"""Plan operators whose printed form is complete. Operators that run user code are not included."""


def frame_fingerprint(data: DataFrame, *, options_known: bool = False) -> str | None:
    """Return a fingerprint of a frame, equal for the same computation over the same files; runs no job.

    Files are identified by path, size and modification time, and the computation by Spark's plan. The
    current date and time are constants in the plan, so a frame that uses them gets a new fingerprint when
    they change.

    The plan shows neither the reader options of text formats (CSV, JSON, text) nor the code of Python
    functions. It prints a string or a name such as ``order#17`` like a column, and strings without
    quotes, so that ``IN ('a, b')`` and ``IN ('a', 'b')`` look the same. Frames with any of these, or with
    higher-order functions (lambdas), get a fingerprint that is valid only within one Spark session.

    The session's time zone, ANSI mode and case sensitivity are part of the fingerprint.

    Parameters
    ----------
    data : DataFrame
        The frame.
    options_known : bool
        True if the caller tracks the reader options by other means.

    Returns
    -------
    str or None
        None if a part of the frame is not read from files (it is in memory, from JDBC, cached or
        streaming), if a file does not exist or its file system is not accessible, or if the plan has a
        subquery. Hive SerDe tables (``STORED AS TEXTFILE``) and tables with a log do not count as files.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> spark, folder = tg.spark_session(), f"{tempfile.gettempdir()}/numbers"  # doctest: +SKIP
    >>> spark.range(3).write.mode("overwrite").parquet(folder)  # doctest: +SKIP
    >>> once, again = (tg.frame_fingerprint(spark.read.parquet(folder)) for _ in range(2))  # doctest: +SKIP
    >>> once == again, tg.frame_fingerprint(spark.range(3))  # doctest: +SKIP
    (True, None)
    """
    check_frame(data, streaming=True)
    if data.isStreaming:
        return None
    plan = _physical_plan(data)
    formats = _formats(plan)
    if formats is None:
        return None
    files = _files(data)
    if not files:
        return None
    spark = data.sparkSession
    identity = [
        fingerprint(files),
        _renumber_ids(_PLAN_ID.sub("", "\n".join(plan))),
        [spark.conf.get(s) for s in _RESULT_SETTINGS],
    ]
    steps = {_operator_name(line) for line in plan}
    analyzed = _analyzed_plan(data)
    is_ambiguous = analyzed is None or _has_ambiguous_strings(analyzed)
    if is_ambiguous or not (
        steps <= _TRANSPARENT_OPERATORS and (options_known or formats <= _SELF_DESCRIBING_FORMATS)
    ):
        identity.append(f"{data.semanticHash()}/{_session_id(spark)}")
    return "frame/2:" + key_of(canonical_json([*identity, analyzed]))


def _session_id(spark: SparkSession) -> str:
    """Return the id of the Spark application."""
    return str(spark.conf.get("spark.app.id", ""))


def _physical_plan(data: DataFrame) -> list[str]:
    """Return the lines of Spark's physical plan."""
    plan = _explained(data, "EXPLAIN SELECT * FROM {data}")
    return [line for line in plan.splitlines() if line.strip() and not line.startswith("==")]


def _explained(data: DataFrame, query: str) -> str:
    """Run an EXPLAIN query and return the untruncated plan text."""
    spark = data.sparkSession
    with session_settings(spark, _UNTRUNCATED_SETTINGS):
        return str(spark.sql(query, data=data).collect()[0][0])


def _analyzed_plan(data: DataFrame) -> str | None:
    """Return the analyzed logical plan with column ids counted from 0; None if ids are ambiguous.

    If a frame occurs twice in a query, Spark assigns new ids to the second occurrence, while strings and
    names stay the same. So a string that looks like an id, but is the same in both, is not an id.
    """
    explained = _explained(
        data, "EXPLAIN EXTENDED SELECT * FROM {data} UNION ALL SELECT * FROM {data}"
    )
    _, heading, after_heading = explained.partition("== Analyzed Logical Plan ==\n")
    body = after_heading.partition("\n== Optimized Logical Plan ==")[0].rstrip("\n").split("\n")[2:]
    middle = next((i for i, line in enumerate(body) if line.startswith("+- ")), None)
    if not heading or middle is None:
        return None
    for lines, first_indent, indent in (
        (body[:middle], ":- ", ":  "),
        (body[middle:], "+- ", "   "),
    ):
        if not lines or not lines[0].startswith(first_indent):
            return None
        if not all(line.startswith(indent) for line in lines[1:]):
            return None
    first_plan, second_plan = (
        "\n".join(line[3:] for line in lines) for lines in (body[:middle], body[middle:])
    )
    ids = zip(_COLUMN_ID.findall(first_plan), _COLUMN_ID.findall(second_plan), strict=False)
    if _COLUMN_ID.split(first_plan) != _COLUMN_ID.split(second_plan) or any(a == b for a, b in ids):
        return None
    for i, view in enumerate(dict.fromkeys(_VIEW_NAME.findall(first_plan))):
        first_plan = first_plan.replace(view, f"view {i}")
    return _renumber_ids(first_plan)


def _has_ambiguous_strings(plan: str) -> bool:
    """Return whether two adjacent arguments could be one string, as strings print without quotes.

    Examples
    --------
    >>> [_has_ambiguous_strings(p) for p in ("a#0 IN (x,y)", "a#0 IN (1,2)", "(a#0 = x)", "concat(a#0, b, 1)")]
    [True, False, False, True]
    """
    # Kind of the last argument in each open parenthesis: "text", "number", or "" for other arguments.
    last_kinds = [""]
    argument, is_complete = "", True
    for mark in plan:
        if mark not in "(),":
            argument += mark
            continue
        kind = _argument_kind(argument.strip()) if is_complete and mark != "(" else ""
        if len(last_kinds) > 1 and {kind, last_kinds[-1]} in ({"text"}, {"text", "number"}):
            return True
        last_kinds[-1] = kind
        if mark == "(":
            last_kinds.append("")
        elif mark == ")" and len(last_kinds) > 1:
            last_kinds.pop()
        argument, is_complete = "", mark != ")"
    return False


def _argument_kind(argument: str) -> str:
    if not argument or "#" in argument:
        return ""
    return "number" if _NUMBER_ARGUMENT.fullmatch(argument) else "text"


def _formats(plan: Sequence[str]) -> frozenset[str] | None:
    """Return the file formats that a plan scans; None if it reads anything other than files."""
    formats = set()
    steps = [_PLAN_NODE.fullmatch(line) for line in plan]
    tree = [(len(step[1]), step[2]) for step in steps if step is not None]
    for i, (depth, node) in enumerate(tree):
        if node.startswith("InMemory") or "subquery" in node.casefold():
            return None
        if i + 1 == len(tree) or tree[i + 1][0] <= depth:
            scan = _FILE_SCAN.match(node)
            if scan is None:
                return None
            formats.add(scan[1])
    return frozenset(formats)


def _operator_name(line: str) -> str:
    """Return the operator name of a plan line."""
    match = _PLAN_NODE.fullmatch(line)
    return re.split(r"\W", match[2], maxsplit=1)[0] if match else line


def _renumber_ids(plan: str) -> str:
    """Renumber the column ids of a plan from 0, since they differ on each run."""
    ids: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return ids.setdefault(match[0], f"#{len(ids)}")

    return _COLUMN_ID.sub(number, plan)


def _files(data: DataFrame) -> list[FileInfo] | None:
    """Return a frame's current input files; None if a file is missing or not accessible."""
    paths = [unquote(uri) for uri in data.inputFiles()]
    systems: dict[str, list[str]] = {}
    for path in sorted(set(paths)):
        systems.setdefault(re.split(r"(?<=[^/:])/(?!/)", path, maxsplit=1)[0], []).append(path)
    infos_by_path = []
    for system_paths in systems.values():
        try:
            system, inner = file_system(system_paths[0])
            if not system_paths[0].endswith(inner):
                return None
            prefix_length = len(system_paths[0]) - len(inner)
            infos = system.get_file_info([path[prefix_length:] for path in system_paths])
        except (OSError, ValueError):
            return None
        for path, info in zip(system_paths, infos, strict=True):
            if not info.is_file:
                return None
            infos_by_path.append(FileInfo(path, info.size, info.mtime_ns // 1_000_000))
    return infos_by_path
