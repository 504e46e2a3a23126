"""Leave out partitions whose files cannot be read, so that the others of a batch are measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar
from urllib.parse import unquote

from tidegauge.analyzers.core.errors import message_of
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.scan.spark_errors import is_read_error

T = TypeVar("T")
S = TypeVar("S")

_STEP = re.compile(r"[^/\s'\"]+=[^/\s'\"]*")


def named_partitions(error: BaseException, among: Collection[Partition]) -> set[Partition]:
    """Return the partitions in whose folders the files lie that an error names.

    Examples
    --------
    >>> days = [Partition(("ds",), (day,)) for day in ("2024-01-01", "2024-01-02")]
    >>> error = OSError("Encountered error while reading file file:/t/ds=2024-01-02/hr=1/a.parquet.")
    >>> [day.name for day in named_partitions(error, days)]
    ['ds=2024-01-02']
    >>> named_partitions(ValueError("ds=2024-01-02 is no number"), days)
    set()
    """
    folders = [
        {unquote(step) for step in _STEP.findall(path)}
        for path in str(error).split()
        if "/" in path and "=" in path[path.index("/") : path.rindex("/")]
    ]
    return {p for p in among if any(set(p.name.split("/")) <= steps for steps in folders)}


def measure_readable(
    tasks: Sequence[T],
    partition_of: Callable[[T], Partition],
    measure: Callable[[Sequence[T]], Sequence[S]],
) -> tuple[list[S], dict[Partition, str]]:
    """Measure a batch without the partitions that cannot be read; return their errors by partition.

    The error of the batch mostly names the file. If it does not, halves are tried, so that one
    partition among n costs at most 2 log2 n further scans.

    Raises
    ------
    Exception
        Any error that is not one of reading a file.
    """
    broken: dict[Partition, str] = {}
    left = list(tasks)
    while left:
        try:
            return list(measure(left)), broken
        except Exception as error:
            if not is_read_error(error):
                raise
            named = named_partitions(error, [partition_of(task) for task in left])
            if not named and len(left) > 1:
                return _by_halves(left, partition_of, measure, broken)
            named = named or {partition_of(left[0])}
            broken |= dict.fromkeys(named, message_of(error))
            left = [task for task in left if partition_of(task) not in named]
    return [], broken


def _by_halves(
    left: list[T],
    partition_of: Callable[[T], Partition],
    measure: Callable[[Sequence[T]], Sequence[S]],
    broken: dict[Partition, str],
) -> tuple[list[S], dict[Partition, str]]:
    measured: list[S] = []
    middle = len(left) // 2
    for half in (left[:middle], left[middle:]):
        measured_half, unreadable = measure_readable(half, partition_of, measure)
        measured += measured_half
        broken = {**broken, **unreadable}
    return measured, broken
