"""The partitions view: a calendar of what was measured, late, missing or restated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.widgets.answer import Answer, table

if TYPE_CHECKING:
    from repository.repository import Repository


def partitions(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the calendar of a dataset."""
    return table(repository.calendar(asked["dataset"]))
