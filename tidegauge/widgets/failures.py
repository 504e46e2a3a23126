"""Failed checks and rules of a table, and its last run if that failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.secrets import hide_folders
from tidegauge.analyzers.runs.ledger import FAILED_RUNS
from tidegauge.rules.outcome.judging import standing_failures
from tidegauge.rules.outcome.result import failure_messages, failure_samples
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, shown

if TYPE_CHECKING:
    from tidegauge.repository.repository import Repository

MOST = 20
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
        for row in standing_failures(repository, dataset)
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
        for row in found[:MOST]
    ]
    return checks, len(found)
