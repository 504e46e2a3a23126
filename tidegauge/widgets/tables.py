"""The views of tables: the health of all, failures of one, and the calendar of its partitions.

The home view lists all tables, the worst first. Failures are failed checks and rules of a table, and its last run
if that failed. The calendar has measured, late, missing and restated partitions.
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
    Answer,
    listed_rows,
    matches,
    row_order,
    row_orders,
    shown,
    table,
)

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository


MAX_FAILED_CHECKS = 20
"""Maximum number of failed checks to send."""
SAMPLES = 20
"""Maximum number of samples of a check to send."""
SENTENCE = 1000
"""Maximum characters of a sentence."""


def failures(repository: Repository, asked: Mapping[str, Any], *, samples: bool = False) -> Answer:
    """Return the failed checks of a table, and its last run if that failed."""
    dataset = asked["dataset"]
    checks, total = failed_checks(repository, dataset, samples=samples)
    told: protocol.FailuresAnswer = {
        "checks": checks,
        "total": total,
        "run": _failed_run(repository, dataset),
    }
    return Answer(told)


def _failed_run(repository: Repository, dataset: str) -> protocol.FailedRun | None:
    for run in repository.runs(dataset).head(1).to_dict("records"):
        if run["status"] in FAILED_RUNS:
            return {
                "id": run["run_id"],
                "started_at": run["started_at"],
                "status": run["status"],
                "error": shown(hide_folders(run["error"] or ""), SENTENCE),
            }
    return None


def failed_checks(
    repository: Repository,
    dataset: str,
    partitions: Collection[str] | None = None,
    *,
    samples: bool,
) -> tuple[list[protocol.FailedCheck], int]:
    """Return the checks by which current data fails, and how many there are; the newest first, known ones last.

    Nothing is told of a verdict that is not tidegauge's unless samples may be shown: it may hold records.

    Those of some partitions, an empty name being the whole dataset, or of all. Samples of failing
    records, which are data of the table, are sent only if they may be shown.
    """
    found = [
        row
        for row in current_failures(repository, dataset)
        if partitions is None or row["partition"] in partitions
    ]
    found.sort(key=lambda row: row["is_known"])
    checks: list[protocol.FailedCheck] = [
        {
            "name": shown(row["name"]),
            "partition": shown(row["partition"]),
            "reasons": [
                shown(hide_folders(text), SENTENCE)
                for text in failure_messages(str(row["result"]), foreign=samples)
            ],
            "samples": [
                shown(text, SENTENCE)
                for text in failure_samples(str(row["result"]))[: SAMPLES if samples else 0]
            ],
        }
        for row in found[:MAX_FAILED_CHECKS]
    ]
    return checks, len(found)


SEARCHED = ("health", "owner", "tags")


def tables(repository: Repository, _: Mapping[str, Any]) -> Answer:
    """Return the health of all tables; names of datasets untruncated, as the script sends them back."""
    now = datetime.now(UTC)
    found = _health(repository, now)
    answer = table(
        found.drop(columns="dataset"), datasets=found["dataset"].tolist(), now=int(now.timestamp())
    )
    keys = _sort_keys(found)
    orders = row_orders(keys, lambda name, down: row_order(keys[name], descending=down))
    return Answer(answer.told, {**answer.arrays, **orders})


def tables_frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the health of tables: the ``rows`` that the page lists, by name.

    Without a page, they follow the options ``filter``, ``health``, ``sort`` and ``reverse``.
    """
    found = _health(repository, datetime.now(UTC))
    if asked.get("rows") is not None:
        return listed_rows(found, found["dataset"], asked["rows"])
    names = [found[name].fillna("").map(shown) for name in SEARCHED]
    seen = matches([found["dataset"], *names], asked.get("filter"))
    if asked.get("health"):
        seen &= (found["health"] == asked["health"]).to_numpy()
    found = found[seen]
    keys = _sort_keys(found)
    key = keys.get(asked.get("sort") or "health", keys["health"])
    order = row_order(key, descending=bool(asked.get("reverse")))
    return found.iloc[order].reset_index(drop=True)


def _health(repository: Repository, now: datetime) -> pd.DataFrame:
    with repository.database.read() as connection:
        found = frame_of(table_rows(connection, now), TableRow)
        passing = passing_checks(connection)
    counts = [passing.get(name, 0) for name in found["dataset"]]
    found.insert(list(found).index("failing") + 1, "passing", counts)
    return found


def _sort_keys(found: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the key of each column of the page; ascending, the worst, oldest and largest come first."""
    import pandas as pd

    return {
        "health": pd.Series(range(len(found)), index=found.index),
        "dataset": found["dataset"],
        "incidents": -(1e6 * found["errors"] + 1e3 * found["warnings"] + found["infos"]),
        "newest": found["time"],
        "size": -found["size"].fillna(found["rows"]),
        "completeness": found["completeness"],
        "failing": -found["failing"],
        "run": found["run_started_at"],
        "owner": found["owner"],
    }


MAX_DAY_ANOMALIES = 200
"""Maximum number of anomalies of one partition to send; the lowest scores of more are left out."""
OVERDUE = 62
"""Maximum number of missing partitions after a segment's last one to send; days of two months."""
NAMES = ("segment", "name", "instance", "explanation")


def partitions(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the calendar of a dataset; ``overdue`` counts missing partitions not sent, by segment."""
    found = _calendar(repository, asked)
    known = found[found["partition"].notna()]
    # A table that is no longer written would have an unbounded number of missing partitions.
    last = found["segment"].map(known.groupby("segment")["time"].max())
    after = found["partition"].isna() & (found["time"] > last)
    overdue = after & after.astype(int).groupby(found["segment"]).cumsum().gt(OVERDUE)
    left = {
        shown(str(key)): int(count)
        for key, count in overdue.groupby(found["segment"]).sum().items()
    }
    found = found[~overdue]
    # Names are sent untruncated: the script sends them back to request a day.
    names = found["partition"].tolist()
    return table(found.drop(columns="partition"), partitions=names, overdue=left)


def calendar_frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the calendar of a dataset as the page shows it: of one ``segment``, the first if none is chosen."""
    found = _calendar(repository, asked)
    segments = found["segment"].fillna("")
    chosen = asked.get("segment")
    if chosen not in set(segments):
        chosen = min(segments, default="")
    return found[segments == chosen].reset_index(drop=True)


def _calendar(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the full calendar of a dataset."""
    if asked["dataset"] is None:
        msg = "the repository is empty: there is no dataset whose partitions could be shown"
        raise HistoryError(msg)
    return repository.calendar(asked["dataset"])


def day(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the anomalies of a partition, the worst first, and its versions."""
    dataset, name = asked["dataset"], asked["partition"]
    with repository.database.read() as connection:
        time = partition_time(connection, dataset, name)
        window = Window(time, time) if time else Window()
        rows = anomaly_rows(connection, dataset, None, MetricQuery(window=window))
        found = [row for row in rows if row["partition"] == name]
        versions = [v._asdict() for v in partition_versions(connection, dataset, name)]
    anomalies = [
        fields_of(row, protocol.PartitionAnomaly.__annotations__)
        for row in found[:MAX_DAY_ANOMALIES]
    ]
    for one in anomalies:
        one.update({key: shown(one[key]) for key in NAMES})
    told: protocol.DayAnswer = {
        "anomalies": cast("list[protocol.PartitionAnomaly]", anomalies),
        "total": len(found),
        "versions": cast("list[protocol.PartitionVersion]", versions),
    }
    return Answer(told)
