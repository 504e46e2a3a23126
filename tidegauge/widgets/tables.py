"""The views of tables: the health of all tables, the failures of one, and its calendar of partitions.

The home view lists all tables, the worst first. Failures are a table's failed checks and rules, and its
last run if that failed. The calendar has measured, late, missing and restated partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import hide_folders
from tidegauge.analyzers.runs.ledger import FAILED_RUNS
from tidegauge.repository.history.health import table_rows
from tidegauge.repository.history.versions import partition_time, partition_versions
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.repository.store.rows import TableRow, fields_of
from tidegauge.repository.store.verdicts import passing_checks
from tidegauge.rules.judging import current_failures
from tidegauge.rules.verdicts import failure_messages, failure_samples
from tidegauge.widgets import protocol
from tidegauge.widgets.answers import (
    EMPTY_MESSAGE,
    Answer,
    listed_rows,
    matches,
    row_order,
    row_orders,
    table,
    truncate,
)

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository


MAX_FAILED_CHECKS = 20
"""Maximum number of failed checks in an answer."""
MAX_CHECK_SAMPLES = 20
"""Maximum number of sample records of a check in an answer."""
MAX_SENTENCE_LENGTH = 1000
"""Maximum number of characters of a sentence in an answer."""


def failures(repository: Repository, params: Mapping[str, Any], *, samples: bool = False) -> Answer:
    """Return the failed checks of a table, and its last run if that failed.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset``.
    samples : bool
        If true, include samples of failing records, which are data of the table.
    """
    dataset = params["dataset"]
    checks, total = failed_checks(repository, dataset, samples=samples)
    payload: protocol.FailuresAnswer = {
        "checks": checks,
        "total": total,
        "run": _failed_run(repository, dataset),
    }
    return Answer(payload)


def _failed_run(repository: Repository, dataset: str) -> protocol.FailedRun | None:
    """Return the last run of a dataset if it failed."""
    for run in repository.runs(dataset).head(1).to_dict("records"):
        if run["status"] in FAILED_RUNS:
            return {
                "id": run["run_id"],
                "started_at": run["started_at"],
                "status": run["status"],
                "error": truncate(hide_folders(run["error"] or ""), MAX_SENTENCE_LENGTH),
            }
    return None


def failed_checks(
    repository: Repository,
    dataset: str,
    partitions: Collection[str] | None = None,
    *,
    samples: bool,
) -> tuple[list[protocol.FailedCheck], int]:
    """Return the checks that current data fail, and their number; newest first, known failures last.

    Parameters
    ----------
    repository : Repository
    dataset : str
    partitions : collection of str, optional
        Partitions to include; an empty name is the whole dataset. All if not given.
    samples : bool
        If true, include samples of failing records, which are data of the table, and the results of
        verdicts that other tools wrote, which can contain records.

    Returns
    -------
    checks : list of FailedCheck
        At most `MAX_FAILED_CHECKS`.
    total : int
        Number of all failed checks.
    """
    verdicts = [
        row
        for row in current_failures(repository, dataset)
        if partitions is None or row["partition"] in partitions
    ]
    verdicts.sort(key=lambda row: row["is_known"])
    checks: list[protocol.FailedCheck] = [
        {
            "name": truncate(row["name"]),
            "partition": truncate(row["partition"]),
            "reasons": [
                truncate(hide_folders(message), MAX_SENTENCE_LENGTH)
                for message in failure_messages(str(row["result"]), foreign=samples)
            ],
            "samples": [
                truncate(sample, MAX_SENTENCE_LENGTH)
                for sample in failure_samples(str(row["result"]))[
                    : MAX_CHECK_SAMPLES if samples else 0
                ]
            ],
        }
        for row in verdicts[:MAX_FAILED_CHECKS]
    ]
    return checks, len(verdicts)


SEARCHED_FIELDS = ("health", "owner", "tags")


def tables(repository: Repository, _: Mapping[str, Any]) -> Answer:
    """Return the health of all tables; dataset names are untruncated, as the script sends them back."""
    now = datetime.now(UTC)
    health = _health(repository, now)
    answer = table(
        health.drop(columns="dataset"),
        datasets=health["dataset"].tolist(),
        now=int(now.timestamp()),
    )
    keys = _sort_keys(health)
    orders = row_orders(keys, lambda name, down: row_order(keys[name], descending=down))
    return Answer(answer.payload, {**answer.arrays, **orders})


def tables_frame(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the health of tables.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``rows`` are the names of the tables that the page displays; without a page, rows follow
        ``filter``, ``health``, ``sort`` and ``reverse``.
    """
    health = _health(repository, datetime.now(UTC))
    if params.get("rows") is not None:
        return listed_rows(health, health["dataset"], params["rows"])
    columns = [health[name].fillna("").map(truncate) for name in SEARCHED_FIELDS]
    mask = matches([health["dataset"], *columns], params.get("filter"))
    if params.get("health"):
        mask &= (health["health"] == params["health"]).to_numpy()
    health = health[mask]
    keys = _sort_keys(health)
    key = keys.get(params.get("sort") or "health", keys["health"])
    order = row_order(key, descending=bool(params.get("reverse")))
    return health.iloc[order].reset_index(drop=True)


def _health(repository: Repository, now: datetime) -> pd.DataFrame:
    """Return the health of all tables, the worst first, with the number of passing checks."""
    with repository.database.read() as connection:
        health = frame_of(table_rows(connection, now), TableRow)
        passing = passing_checks(connection)
    counts = [passing.get(name, 0) for name in health["dataset"]]
    health.insert(list(health).index("failing") + 1, "passing", counts)
    return health


def _sort_keys(health: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the sort key of each page column; ascending, the worst, oldest and largest come first."""
    import pandas as pd

    return {
        "health": pd.Series(range(len(health)), index=health.index),
        "dataset": health["dataset"],
        "incidents": -(1e6 * health["errors"] + 1e3 * health["warnings"] + health["infos"]),
        "newest": health["time"],
        "size": -health["size"].fillna(health["rows"]),
        "completeness": health["completeness"],
        "failing": -health["failing"],
        "run": health["run_started_at"],
        "owner": health["owner"],
    }


MAX_PARTITION_ANOMALIES = 200
"""Maximum number of anomalies of one partition in an answer; the lowest scores are omitted."""
MAX_OVERDUE_PARTITIONS = 62
"""Maximum number of missing partitions after a segment's last partition: the days of two months."""
TRUNCATED_FIELDS = ("segment", "name", "instance", "explanation")


def partitions(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return the calendar of a dataset.

    ``overdue`` is the number of missing partitions that are omitted, by segment.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset``.
    """
    calendar = _calendar(repository, params)
    present = calendar[calendar["partition"].notna()]
    # A table that is no longer written would have an unbounded number of missing partitions.
    last = calendar["segment"].map(present.groupby("segment")["time"].max())
    late = calendar["partition"].isna() & (calendar["time"] > last)
    position = late.astype(int).groupby(calendar["segment"]).cumsum()
    overdue = late & position.gt(MAX_OVERDUE_PARTITIONS)
    omitted = {
        truncate(str(key)): int(count)
        for key, count in overdue.groupby(calendar["segment"]).sum().items()
    }
    calendar = calendar[~overdue]
    # Names are sent untruncated: the script sends them back to request a partition.
    names = calendar["partition"].tolist()
    return table(calendar.drop(columns="partition"), partitions=names, overdue=omitted)


def calendar_frame(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the calendar of one segment of a dataset, as the page displays it.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset`` and ``segment``; the first segment if not given.
    """
    calendar = _calendar(repository, params)
    segments = calendar["segment"].fillna("")
    segment = params.get("segment")
    if segment not in set(segments):
        segment = min(segments, default="")
    return calendar[segments == segment].reset_index(drop=True)


def _calendar(repository: Repository, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the full calendar of a dataset."""
    if params["dataset"] is None:
        raise HistoryError(EMPTY_MESSAGE)
    return repository.calendar(params["dataset"])


def partition(repository: Repository, params: Mapping[str, Any]) -> Answer:
    """Return the anomalies of a partition, the worst first, and its versions.

    Parameters
    ----------
    repository : Repository
    params : mapping
        ``dataset`` and ``partition``.
    """
    dataset, name = params["dataset"], params["partition"]
    with repository.database.read() as connection:
        time = partition_time(connection, dataset, name)
        window = Window(time, time) if time else Window()
        rows = anomaly_rows(connection, dataset, None, MetricQuery(window=window))
        partition_rows = [row for row in rows if row["partition"] == name]
        versions = [v._asdict() for v in partition_versions(connection, dataset, name)]
    anomalies = [
        fields_of(row, protocol.PartitionAnomaly.__annotations__)
        for row in partition_rows[:MAX_PARTITION_ANOMALIES]
    ]
    for anomaly in anomalies:
        anomaly.update({key: truncate(anomaly[key]) for key in TRUNCATED_FIELDS})
    payload: protocol.PartitionAnswer = {
        "anomalies": cast("list[protocol.PartitionAnomaly]", anomalies),
        "total": len(partition_rows),
        "versions": cast("list[protocol.PartitionVersion]", versions),
    }
    return Answer(payload)
