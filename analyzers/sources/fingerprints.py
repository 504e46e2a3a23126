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

_WHOLE_TEXT = {
    "spark.sql.debug.maxToStringFields": "100000000",
    "spark.sql.maxMetadataStringLength": "100000000",
}
"""Settings with which Spark prints plans without truncation."""

_RESULT_SETTINGS = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
)
"""Session settings that change the result of the same plan, or whether it fails."""

_ID = re.compile(r"#\d+L?")
"""A column id as plans print it; string literals and names may contain lookalikes."""
_NUMBER = re.compile(r"-?\d[\d.]*")
_PLAN_ID = re.compile(r"\[?plan_id=\d+\]?")
_VIEW = re.compile(r"^[ :+-]*SubqueryAlias (_pyspark_[0-9a-f]{32})$", re.MULTILINE)
"""The random view name that PySpark gives a frame referenced in SQL."""
_SCAN = re.compile(r"FileScan (\w+)")
_DESCRIBES_ITSELF = frozenset({"parquet", "orc", "avro"})
"""Self-describing formats, whose content does not depend on reader options."""
_NODE = re.compile(r"([\s:+-]*)(?:\*\(\d+\) )?(.*)")
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
"""Plan operators whose printed form is complete; those that run user code are not."""


def frame_fingerprint(data: DataFrame, *, options_known: bool = False) -> str | None:
    """Fingerprint a frame: equal text for the same computation over the same files; runs no job.

    Files are identified by path, size and modification time, the computation by Spark's plan. The
    current date and time are constants in the plan, so a frame that uses them gets a new fingerprint as
    they change.

    The plan shows neither the reader options of text formats (CSV, JSON, text) nor the code of Python
    functions. It prints a string or a name such as ``order#17`` like a column, and strings without
    quotes, so that ``IN ('a, b')`` and ``IN ('a', 'b')`` look the same. Frames with any of these, or with
    higher-order functions (lambdas), get a fingerprint that is valid only within one Spark session.

    The session's time zone, ANSI mode and case sensitivity are part of the fingerprint.

    Parameters
    ----------
    data : DataFrame
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
    of = [
        fingerprint(files),
        _renumber_ids(_PLAN_ID.sub("", "\n".join(plan))),
        [spark.conf.get(s) for s in _RESULT_SETTINGS],
    ]
    steps = {_step(line) for line in plan}
    asked = _analyzed_plan(data)
    unclear = asked is None or _has_ambiguous_strings(asked)
    if unclear or not (
        steps <= _TRANSPARENT_OPERATORS and (options_known or formats <= _DESCRIBES_ITSELF)
    ):
        of.append(f"{data.semanticHash()}/{_session_id(spark)}")
    return "frame/2:" + key_of(canonical_json([*of, asked]))


def _session_id(spark: SparkSession) -> str:
    """Return the id of the Spark application."""
    return str(spark.conf.get("spark.app.id", ""))


def _physical_plan(data: DataFrame) -> list[str]:
    """Return the lines of Spark's physical plan."""
    text = _explained(data, "EXPLAIN SELECT * FROM {data}")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("==")]


def _explained(data: DataFrame, query: str) -> str:
    """Run an EXPLAIN query and return the untruncated plan text."""
    spark = data.sparkSession
    with session_settings(spark, _WHOLE_TEXT):
        return str(spark.sql(query, data=data).collect()[0][0])


def _analyzed_plan(data: DataFrame) -> str | None:
    """Return the analyzed logical plan with column ids counted from 0; None if ids are ambiguous.

    Spark assigns new ids when a frame occurs in a query a second time, while its strings and names stay
    the same. So anything that looks like an id but is printed the same both times is not an id.
    """
    text = _explained(data, "EXPLAIN EXTENDED SELECT * FROM {data} UNION ALL SELECT * FROM {data}")
    _, found, rest = text.partition("== Analyzed Logical Plan ==\n")
    body = rest.partition("\n== Optimized Logical Plan ==")[0].rstrip("\n").split("\n")[2:]
    middle = next((i for i, line in enumerate(body) if line.startswith("+- ")), None)
    if not found or middle is None:
        return None
    for lines, first, more in ((body[:middle], ":- ", ":  "), (body[middle:], "+- ", "   ")):
        if not lines or not lines[0].startswith(first):
            return None
        if not all(line.startswith(more) for line in lines[1:]):
            return None
    one, two = ("\n".join(line[3:] for line in lines) for lines in (body[:middle], body[middle:]))
    ids = zip(_ID.findall(one), _ID.findall(two), strict=False)
    if _ID.split(one) != _ID.split(two) or any(a == b for a, b in ids):
        return None
    for i, view in enumerate(dict.fromkeys(_VIEW.findall(one))):
        one = one.replace(view, f"view {i}")
    return _renumber_ids(one)


def _has_ambiguous_strings(plan: str) -> bool:
    """Return whether two adjacent arguments could be one string, as strings print without quotes.

    Examples
    --------
    >>> [_has_ambiguous_strings(p) for p in ("a#0 IN (x,y)", "a#0 IN (1,2)", "(a#0 = x)", "concat(a#0, b, 1)")]
    [True, False, False, True]
    """
    last = [
        ""
    ]  # kind of the last argument in each open parenthesis: "text", "number", or "" for others
    text, whole = "", True
    for mark in plan:
        if mark not in "(),":
            text += mark
            continue
        kind = _kind_of(text.strip()) if whole and mark != "(" else ""
        if len(last) > 1 and {kind, last[-1]} in ({"text"}, {"text", "number"}):
            return True
        last[-1] = kind
        if mark == "(":
            last.append("")
        elif mark == ")" and len(last) > 1:
            last.pop()
        text, whole = "", mark != ")"
    return False


def _kind_of(argument: str) -> str:
    if not argument or "#" in argument:
        return ""
    return "number" if _NUMBER.fullmatch(argument) else "text"


def _formats(plan: Sequence[str]) -> frozenset[str] | None:
    """Return the file formats that a plan scans; None if it reads anything but files."""
    formats = set()
    steps = [_NODE.fullmatch(line) for line in plan]
    tree = [(len(step[1]), step[2]) for step in steps if step is not None]
    for i, (depth, node) in enumerate(tree):
        if node.startswith("InMemory") or "subquery" in node.casefold():
            return None
        if i + 1 == len(tree) or tree[i + 1][0] <= depth:
            scan = _SCAN.match(node)
            if scan is None:
                return None
            formats.add(scan[1])
    return frozenset(formats)


def _step(line: str) -> str:
    """Return the operator name of a plan line."""
    found = _NODE.fullmatch(line)
    return re.split(r"\W", found[2], maxsplit=1)[0] if found else line


def _renumber_ids(plan: str) -> str:
    """Renumber the column ids of a plan from 0, as they differ on each run."""
    ids: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return ids.setdefault(match[0], f"#{len(ids)}")

    return _ID.sub(number, plan)


def _files(data: DataFrame) -> list[FileInfo] | None:
    """Return a frame's input files as they are now; None if one is missing or not accessible."""
    paths = [unquote(uri) for uri in data.inputFiles()]
    systems: dict[str, list[str]] = {}
    for path in sorted(set(paths)):
        systems.setdefault(re.split(r"(?<=[^/:])/(?!/)", path, maxsplit=1)[0], []).append(path)
    found = []
    for some in systems.values():
        try:
            system, inner = file_system(some[0])
            if not some[0].endswith(inner):
                return None
            before = len(some[0]) - len(inner)
            infos = system.get_file_info([path[before:] for path in some])
        except (OSError, ValueError):
            return None
        for path, info in zip(some, infos, strict=True):
            if not info.is_file:
                return None
            found.append(FileInfo(path, info.size, info.mtime_ns // 1_000_000))
    return found
