"""Fingerprints of frames: which files a frame is computed of, and how, without reading them.

A frame has one if all that it reads are files. Spark's own plan tells: every leaf of it must be a scan of
files, and every file must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from analyzers.description import canonical_json, key_of
from analyzers.files import file_system
from analyzers.sources import FileInfo, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE_TEXT = {
    "spark.sql.debug.maxToStringFields": "100000000",
    "spark.sql.maxMetadataStringLength": "100000000",
}
"""With these a plan is printed in full."""

_MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""Settings of the session by which the same plan computes something else, or fails."""

_ID = re.compile(r"#\d+L?")
"""How a plan prints the id of a column, and perhaps a part of a text or of a name."""
_NUMBER = re.compile(r"-?\d[\d.]*")
_PLAN_ID = re.compile(r"\[?plan_id=\d+\]?")
_VIEW = re.compile(r"^[ :+-]*SubqueryAlias (_pyspark_[0-9a-f]{32})$", re.MULTILINE)
"""The random name of a frame within SQL."""
_SCAN = re.compile(r"FileScan (\w+)")
_DESCRIBES_ITSELF = frozenset({"parquet", "orc", "avro"})
"""Formats that no option of a reader makes read as something else."""
_NODE = re.compile(r"([\s:+-]*)(?:\*\(\d+\) )?(.*)")
"""The depth of a step in the tree, a mark of generated code, and the step."""
_PLAIN = frozenset(
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
"""Steps of a plan that print all that they do; what runs users' code does not."""


def frame_fingerprint(data: DataFrame, *, options_known: bool = False) -> str | None:
    """Return text that is equal for the same computation over the same files; no job is run.

    Its files are known by path, size and modification time, the computation by Spark's plan. Dates and times
    of now are in the plan, so a frame that asks for them has another fingerprint then.

    The plan tells neither the options by which texts are read (CSV, JSON, text) nor what functions in Python
    do, prints a text or a name such as ``order#17`` as it prints a column, and texts without quotes, so that
    ``IN ('a, b')`` and ``IN ('a', 'b')`` look alike. Frames with these have a fingerprint too, but another
    one in each session of Spark. So have frames with functions of lambdas.

    The session's time zone, its ANSI mode and whether it minds the case of names are part of it.

    Parameters
    ----------
    data : DataFrame
    options_known : bool
        Whether the caller knows of the reader's options by other means.

    Returns
    -------
    str or None
        None if a part of the frame is not read from files (it was made in memory, by JDBC, is cached or
        streamed), if a file is not there or its file system cannot be asked, or the plan has a subquery.
        Hive's own readers (tables ``STORED AS TEXTFILE``) and tables with a log count as no files.

    Examples
    --------
    >>> import tidegauge as tg
    >>> tg.frame_fingerprint(spark.table("flights"))  # doctest: +SKIP
    'frame/2:5b0c...'
    """
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
        _numbered(_PLAN_ID.sub("", "\n".join(plan))),
        [spark.conf.get(s) for s in _MEANING],
    ]
    steps = {_step(line) for line in plan}
    asked = _asked(data)
    unclear = asked is None or _texts_meet(asked)
    if unclear or not (steps <= _PLAIN and (options_known or formats <= _DESCRIBES_ITSELF)):
        of.append(f"{data.semanticHash()}/{_session_id(spark)}")
    return "frame/2:" + key_of(canonical_json([*of, asked]))


def _session_id(spark: SparkSession) -> str:
    """Return text that tells one application of Spark from others."""
    return str(spark.conf.get("spark.app.id", ""))


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Let settings of the session be others meanwhile."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _physical_plan(data: DataFrame) -> list[str]:
    """Return the lines of the plan that Spark would run."""
    text = _explained(data, "EXPLAIN SELECT * FROM {data}")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("==")]


def _explained(data: DataFrame, query: str) -> str:
    """Return the text of a plan, in full."""
    spark = data.sparkSession
    with configured(spark, _WHOLE_TEXT):
        return str(spark.sql(query, data=data).collect()[0][0])


def _asked(data: DataFrame) -> str | None:
    """Return what is asked for, as Spark understood it, with the ids of columns counted from 0.

    None if it prints something as an id that may be none. Spark gives new ids to a frame that stands in a
    query a second time, but its texts and names stay: what is printed alike both times is no id.
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
    return _numbered(one)


def _texts_meet(plan: str) -> bool:
    """Whether two arguments beside each other could be one text, which is printed without quotes.

    Examples
    --------
    >>> [_texts_meet(p) for p in ("a#0 IN (x,y)", "a#0 IN (1,2)", "(a#0 = x)", "concat(a#0, b, 1)")]
    [True, False, False, True]
    """
    last = [
        ""
    ]  # what the last argument of each open bracket was: a text, a number, or something else
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
    """Return the formats of the files; None if something else is read."""
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
    """Return the name of a line's step."""
    found = _NODE.fullmatch(line)
    return re.split(r"\W", found[2], maxsplit=1)[0] if found else line


def _numbered(plan: str) -> str:
    """Return the plan with the ids of columns, which differ each time, counted from 0."""
    ids: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return ids.setdefault(match[0], f"#{len(ids)}")

    return _ID.sub(number, plan)


def _files(data: DataFrame) -> list[FileInfo] | None:
    """Return the files of a frame as they are now; None if one is not there or cannot be looked at."""
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
