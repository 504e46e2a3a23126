"""Compare features that were logged with those that were backfilled, and measure each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.consistency.comparison import ALL, Comparison
from analyzers.consistency.distributions import (
    LONGEST,
    ConsistencyDistribution,
    ConsistencyEdits,
    ConsistencyEditsSkipped,
    K,
)
from analyzers.consistency.equality import EXACTLY, Tolerance, holds
from analyzers.consistency.joining import pair
from analyzers.consistency.maps import ConsistencyKeys
from analyzers.consistency.measures import (
    COPY,
    LOGGED,
    PRESENCE,
    AnyMeasure,
    ConsistencyCells,
    ConsistencyRows,
    of_numbers,
)
from analyzers.consistency.numbers import ConsistencyNumbers
from analyzers.consistency.pairs import OTHER, Pairs, copy_of, presence_of
from analyzers.consistency.recording import Recorder, record
from analyzers.errors import (
    IllegalAnalyzerParameterError,
    PreconditionError,
    UnknownNameError,
)
from analyzers.scan import Group, Scan, scan
from analyzers.schema import NUMERIC, Schema
from analyzers.segments import Values
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def compare(
    logged: DataFrame,
    backfilled: DataFrame,
    keys: str | Sequence[str],
    time: str = "ts",
    *,
    group_bys: Mapping[str, Sequence[str]] | None = None,
    tolerance: Mapping[str, Any] | None = None,
    bucket_minutes: int | None = 60,
    partition_by: str | Sequence[str] = ("ds",),
    logged_as: Mapping[str, str] | None = None,
    k: int = K,
    longest: int = LONGEST,
    repository: Recorder | None = None,
    dataset: str | None = None,
) -> Comparison:
    """Compare logged features with backfilled ones, row by row, and measure each of them.

    Rows are joined by their keys and time (and by the partition columns that both sides have), null being
    equal to null. Rows on one side only are counted as such; features are measured over matched rows. Both
    sides are kept in Spark's cache while they are measured. To keep the comparison table instead, write
    what `analyzers.consistency.joining.pair` returns, and give it to `measure`.

    Parameters
    ----------
    logged : DataFrame
        What was served online.
    backfilled : DataFrame
        The same, computed offline.
    keys : str or sequence of str
    time : str
        A timestamp, or milliseconds since 1970.
    group_bys : mapping of str to sequence of str, optional
        The features of each group-by; without it all columns that both sides have, in one called ``*``.
    tolerance : mapping, optional
        By feature how far apart equal numbers may lie: a number, or ``{"abs": ..., "rel": ...}``. In arrays,
        maps and structs it holds for the numbers inside.
    bucket_minutes : int or None
        The width of the buckets ``hr_minute``, which divides a day; None for no buckets.
    partition_by : str or sequence of str
        Columns by which results are told apart. ``ds`` is made of the time, in UTC, where no side has it.
    logged_as : mapping of str to str, optional
        What features are called in the log, where that is another name.
    k : int
        How accurate distributions are; see `ReqQuantile`.
    longest : int
        Arrays that differ, whose lengths multiply to more than its square, get no edit distance.
    repository : Repository, optional
        Where what was found is recorded; see `record`.
    dataset : str, optional
        What the history is called there.

    Returns
    -------
    Comparison

    Raises
    ------
    PreconditionError
        Naming all that does not fit: columns that are not there, types that cannot be compared.

    Examples
    --------
    Of two frames with the columns ``user``, ``ts`` and ``age``::

        found = compare(log, backfill, keys=["user"], tolerance={"age": 0.5})
        found.merged(["ds"]).metrics()
    """
    if (repository is None) != (dataset is None):
        raise PreconditionError(
            "what is compared is recorded in a repository under a dataset: name both"
        )
    keys, partition_by = _names(keys), _names(partition_by)
    features = _features(logged, backfilled, keys, time, group_bys, partition_by, logged_as or {})
    named = tuple(dict.fromkeys(name for some in features.values() for name in some))
    if unknown := sorted({*(tolerance or {}), *(logged_as or {})} - set(named)):
        raise UnknownNameError("feature", unknown[0], named)
    pairs = Pairs(keys, named, time, partition_by, bucket_minutes, dict(logged_as or {}))
    table = pair(logged, backfilled, pairs).persist()
    try:
        found = measure(table, features, pairs.by, tolerance, k=k, longest=longest)
    finally:
        table.unpersist()
    if repository is not None and dataset is not None:
        record(found, repository, dataset)
    return found


def measure(
    table: DataFrame,
    group_bys: Mapping[str, Sequence[str]],
    by: Sequence[str] = ("ds", "hr_minute"),
    tolerance: Mapping[str, Any] | None = None,
    *,
    k: int = K,
    longest: int = LONGEST,
    also: Collection[Values] = (),
) -> Comparison:
    """Measure a comparison table, which is read once for some features at a time; see `compare`.

    Groups that are named in ``also`` are there even where they have no row.
    """
    schema = Schema.of_frame(table)
    allowed = {name: Tolerance.of(given) for name, given in (tolerance or {}).items()}
    measures: list[AnyMeasure] = []
    found: list[Scan] = []
    for own, some in _parts(table, group_bys).items():
        part = [
            one
            for group_by, features in some.items()
            for one in _measures(schema, group_by, features, allowed, k, longest)
        ]
        measures += part
        found.append(scan(_rows_of(table, own), part, tuple(by)))
    groups = {
        values: _together([one.groups.get(values, one.nothing) for one in found])
        for values in sorted({*also, *(values for one in found for values in one.groups)})
    }
    return Comparison(table, tuple(by), tuple(measures), groups)


def _parts(
    table: DataFrame, group_bys: Mapping[str, Sequence[str]]
) -> dict[str | None, dict[str, Sequence[str]]]:
    """Return the group-bys by the one whose rows they have, which is None for the rows of all together."""
    parts: dict[str | None, dict[str, Sequence[str]]] = {}
    there = {name.casefold() for name in table.columns}
    for name, features in group_bys.items():
        own = name if presence_of(name).casefold() in there else None
        parts.setdefault(own, {})[name] = features
    return parts


def _rows_of(table: DataFrame, group_by: str | None) -> DataFrame:
    """Return the rows that a group-by has, where it has a backfill of its own."""
    if group_by is None:
        return table
    own = {PRESENCE: presence_of(group_by), COPY: copy_of(group_by)}
    others = [quote(name) for name in table.columns if name not in own]
    # Null in the rows of days that were compared when all had one backfill.
    chosen = [
        f"coalesce({quote(one)}, {quote(name)}) AS {quote(name)}" for name, one in own.items()
    ]
    return table.selectExpr(*others, *chosen).where(f"{quote(PRESENCE)} <> '{OTHER}'")


def _together(groups: Sequence[Group]) -> Group:
    states = {measure: state for group in groups for measure, state in group.states.items()}
    return Group(max(group.rows for group in groups), states)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _features(
    logged: DataFrame,
    backfilled: DataFrame,
    keys: Sequence[str],
    time: str,
    group_bys: Mapping[str, Sequence[str]] | None,
    partition_by: Sequence[str],
    logged_as: Mapping[str, str],
) -> dict[str, tuple[str, ...]]:
    """Return the features of each group-by."""
    if group_bys is not None:
        return {name: tuple(features) for name, features in group_bys.items()}
    taken = {name.casefold() for name in (*keys, time, *partition_by)}
    served = {name.casefold() for name in logged.columns}
    return {
        ALL: tuple(
            name
            for name in backfilled.columns
            if name.casefold() not in taken and logged_as.get(name, name).casefold() in served
        )
    }


def _measures(
    schema: Schema,
    group_by: str,
    features: Iterable[str],
    allowed: Mapping[str, Tolerance],
    k: int,
    longest: int,
) -> Iterator[AnyMeasure]:
    """Yield all that is measured of a group-by: of rows, and of each feature by its type."""
    yield from (ConsistencyRows(metric, group_by) for metric in ConsistencyRows.metrics)
    for name in features:
        field = schema.field(quote(name))
        near = allowed.get(name, EXACTLY)
        if near and not holds(field.type, NUMERIC):
            msg = f"{name!r} is of type {field.kind} and holds no numbers, so it can have no tolerance"
            raise IllegalAnalyzerParameterError(msg)
        of, within = (group_by, name), (near.absolute, near.relative)
        yield from (ConsistencyCells(m, *of, *within) for m in ConsistencyCells.metrics)
        if of_numbers(field) and of_numbers(schema.field(quote(LOGGED + name))):
            yield from (ConsistencyNumbers(m, *of) for m in ConsistencyNumbers.metrics)
            yield from (
                ConsistencyDistribution(m, *of, k) for m in ("delta", "logged", "backfilled")
            )
        if field.kind == "map":
            yield from (ConsistencyKeys(m, *of, *within) for m in ConsistencyKeys.metrics)
        elif field.kind == "array":
            lengths = ("logged_length", "backfilled_length")
            yield from (ConsistencyDistribution(m, *of, k) for m in lengths)
            yield from (
                ConsistencyEdits(m, *of, *within, longest, k) for m in ConsistencyEdits.metrics
            )
            yield ConsistencyEditsSkipped("edit_skipped", *of, *within, longest)
