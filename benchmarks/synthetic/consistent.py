"""A repository of many features whose online values differ slightly from the offline ones.

Needs no Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tidegauge.repository.repository import Repository
from tidegauge.repository.store.consistency_series import PREFIX, QUANTILES
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.user_metrics import Record, write_records

DATASET_NAME = "shop.search"
FIRST_MOMENT = datetime(2023, 1, 1, tzinfo=UTC)
PLAIN_METRICS = ("mismatch", "missing", "extra", "both_null", "total", "smape", "smape_mean")
HEAVY_METRICS = ("delta", "logged", "backfilled")


def make(file: Path, features: int, days: int, *, hourly: bool = False) -> int:
    """Create it, and return the number of facts: ten metrics of each feature, three of them distributions."""
    rng = np.random.default_rng(9)
    step = timedelta(hours=1) if hourly else timedelta(days=1)
    moments = [FIRST_MOMENT + n * step for n in range(days * (24 if hourly else 1))]
    form = "ds=%Y-%m-%d/hr_minute=%H-%M" if hourly else "ds=%Y-%m-%d"
    facts = 0
    size = 24 if hourly else 30
    with Repository(f"sqlite:///{file}") as repo:
        for start in range(0, len(moments), size):
            partitions = [f"{moment:{form}}" for moment in moments[start : start + size]]
            records = []
            for n in range(features):
                instance = f"group_{n % 20:02}.feature_{n:04}"
                columns: dict[str, np.ndarray] = {}
                for metric in PLAIN_METRICS:
                    rate = rng.exponential(0.002 * (1 + n % 7), len(partitions)).clip(0, 0.3)
                    columns[metric] = (
                        np.full(len(partitions), 50_000.0) if metric == "total" else rate
                    )
                for metric in HEAVY_METRICS:
                    sorted_ = np.sort(
                        rng.normal(0, 1 + n % 5, (len(QUANTILES), len(partitions))), axis=0
                    )
                    columns |= {f"{metric}-{q}": sorted_[i] for i, q in enumerate(QUANTILES)}
                records += [
                    Record(
                        DATASET_NAME,
                        Recorded(PREFIX + metric, instance=instance, entity="Column"),
                        "",
                        dict(zip(partitions, numbers.tolist(), strict=True)),
                        {},
                    )
                    for metric, numbers in columns.items()
                ]
            facts += write_records(repo.database, records)
    return facts
