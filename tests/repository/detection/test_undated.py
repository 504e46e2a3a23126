"""Partitions without a time, beside those of days and weeks; and days that are long past."""

import numpy as np
import pytest
from tidegauge.repository.repository import Repository

UNDATED = "ds=__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(("step", "count"), [(7, 60), (1, 120)])
def test_a_partition_without_a_time_stops_neither_detection_nor_seasons(step, count):
    days = np.datetime64("2023-01-02") + step * np.arange(count)
    values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)}
    values[f"ds={days[-1]}"] = 10.0
    with Repository("sqlite://") as repo:
        repo.record("orders", "rows", values | {UNDATED: 3.0}, scale="count")
        found = repo.detect("orders")
        assert f"ds={days[-1]}" in found["partition"].tolist()
        assert len(repo.seasons("orders")) == 1


def test_seasons_of_a_table_whose_month_ends_are_long_past():
    """Days before a gap of eight months are not among the recent ones of any day of the month."""
    before = np.arange("2024-01-01", "2024-03-11", dtype="M8[D]")
    days = np.concatenate([before, np.arange("2024-11-11", "2024-11-25", dtype="M8[D]")])
    with Repository("sqlite://") as repo:
        values = {f"ds={day}": 1000.0 + n % 5 for n, day in enumerate(days)}
        repo.record("orders", "rows", values, scale="count")
        assert len(repo.seasons("orders")) == 1
