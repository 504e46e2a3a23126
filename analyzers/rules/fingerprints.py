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
from analyzers.sources import FileInfo, file_system, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE_TEXT = {
    "spark.sql.debug.maxToStringFields": "100000000",
    "spark.sql.maxMetadataStringLength": "100000000",
}
"""With these a plan is printed in full."""

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
    do. Frames with these have a fingerprint too, but another one in each session of Spark.

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
    'frame/1:5b0c...'
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
    session: list[str] = []
    steps = {_step(line) for line in plan}
    if not (steps <= _PLAIN and (options_known or formats <= _DESCRIBES_ITSELF)):
        session.append(f"{data.semanticHash()}/{_session_id(data.sparkSession)}")
    return "frame/1:" + key_of(canonical_json([fingerprint(files), _numbered(plan), *session]))


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
    spark = data.sparkSession
    with configured(spark, _WHOLE_TEXT):
        text = spark.sql("EXPLAIN SELECT * FROM {data}", data=data).collect()[0][0]
    return [line for line in text.splitlines() if line.strip() and not line.startswith("==")]


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


def _numbered(plan: Sequence[str]) -> str:
    """Return the plan with the ids of columns, which differ each time, counted from 0."""
    ids: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return ids.setdefault(match[0], f"#{len(ids)}")

    text = re.sub(r"\[?plan_id=\d+\]?", "", "\n".join(plan))
    return re.sub(r"#\d+L?", number, text)


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
