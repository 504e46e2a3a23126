"""The series of a dataset, single values of them, and frames with a column for each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.store.facts import dimensions_of, read_facts, read_newest
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import AsOf, MetricQuery, dataset_id, partition_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import ListedSeriesRow, SeriesRow

SERIES_COLUMNS = columns("segment name instance where analyzer")
_MOST_TOLD = 8


def series_rows(connection: Connection, dataset: str) -> list[ListedSeriesRow]:
    """Return all series of a dataset, by name and instance."""
    found, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    return [{**row, "where": row["filter"]} for row in found]


def read_value(
    connection: Connection,
    dataset: str,
    query: MetricQuery,
    partition: str | None,
    as_of: AsOf,
) -> float:
    """Return the value of the one series that a query means, in a partition or the newest.

    Raises
    ------
    HistoryError
        If no series or several match, or there is no such partition or value.
    """
    found, _ = dimensions_of(connection, dataset_id(connection, dataset), query)
    if partition is not None:
        only = [partition_id(connection, dataset, partition)]
        facts = read_facts(connection, dataset, query, as_of, partitions=only)
        held = set(facts.of_series.tolist())
        found = [row for place, row in enumerate(facts.series) if place in held] or found
        meant = _meant(found, dataset, query)["id"]
        own = [facts.series[of]["id"] == meant for of in facts.of_series.tolist()]
        facts = facts.taken(np.flatnonzero(own))
    else:
        one = replace(query, series=[_meant(found, dataset, query)["id"]])
        if as_of is None:
            facts = read_newest(connection, dataset, one)
        else:
            facts = read_facts(connection, dataset, one, as_of)
    if not len(facts):
        msg = f"{dataset!r} has no value of {found[0]['name']} in {partition or 'any partition'}"
        raise HistoryError(msg)
    return float(facts.newest().value[-1])


def _meant(found: Sequence[SeriesRow], dataset: str, query: MetricQuery) -> SeriesRow:
    """Return the series that is meant: of several, the one of whole partitions without a filter."""
    plain = [
        row
        for row in found
        if (query.segment is not None or not row["segment"])
        and (query.where is not None or row["filter"] is None)
    ]
    meant = plain if len(found) > 1 and plain else found
    if len(meant) == 1:
        return meant[0]
    if not meant:
        msg = f"no series of {dataset!r} matches; repo.series({dataset!r}) lists all"
        raise HistoryError(msg)
    told = [f"{row['name']} of {row['analyzer']} {row['segment']}".strip() for row in meant]
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    msg = (
        f"{len(told)} series of {dataset!r} are meant: {', '.join(told[:_MOST_TOLD])}{more}; narrow"
        " them by name, instance=, analyzer=, where= or segment="
    )
    raise HistoryError(msg)


def wide_frame(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the values of a tidy frame of metrics with a column for each series.

    Rows are indexed by time, or by partition where times are missing, or a series has several values at one.

    Examples
    --------
    >>> import pandas as pd
    >>> tidy = pd.DataFrame({
    ...     "segment": "", "name": ["Size", "Mean"], "instance": ["*", "x"], "analyzer": ["Size()", "Mean('x')"],
    ...     "partition": "ds=1", "time": pd.Timestamp("2013-01-01"), "value": [3.0, 0.5],
    ... })
    >>> wide_frame(tidy).to_dict("records")
    [{'Size': 3.0, 'Mean of x': 0.5}]
    """
    import pandas as pd

    plain = pd.DataFrame(tidy)
    identity = ["name", "instance", "segment", "analyzer"]
    series = list(plain[identity].drop_duplicates().itertuples(index=False, name=None))
    labels = dict(zip(series, _labels(series), strict=True))
    keys = plain[identity].itertuples(index=False, name=None)
    labelled = plain.assign(label=[labels[key] for key in keys])
    timed = plain["time"].notna().all() and not labelled.duplicated(["time", "label"]).any()
    by = "time" if timed else "partition"
    wide = labelled.pivot(index=by, columns="label", values="value")  # noqa: PD010
    wide = wide.reindex(index=pd.Index(plain[by].drop_duplicates(), name=by))
    wide = wide.reindex(columns=list(labels.values()))
    wide.columns.name = None
    return wide


def _labels(series: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Return a name for each series: as short as tells it from the others."""
    short = [name if instance == "*" else f"{name} of {instance}" for name, instance, *_ in series]
    among = [
        f"{text} in {of[2]}" if of[2] else text for text, of in zip(short, series, strict=True)
    ]
    full = [f"{text} ({of[3]})" for text, of in zip(among, series, strict=True)]
    often, still = Counter(short), Counter(among)
    return [
        a if often[a] == 1 else b if still[b] == 1 else c
        for a, b, c in zip(short, among, full, strict=True)
    ]
