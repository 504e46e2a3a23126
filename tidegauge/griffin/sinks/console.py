"""Console sink."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.griffin.sinks.base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ConsoleSink(Sink):
    """Print metrics as JSON and records as tables.

    Keys: ``numRows`` or the old ``max.log.lines``, ``truncate``.

    Parameters
    ----------
    name : str
    config : mapping
    """

    def check(self) -> None:
        """Validate ``numRows`` and ``truncate``."""
        _ = self._rows, self._truncate

    @property
    def _rows(self) -> int:
        return self.number("numRows", self.number("max.log.lines", 20))

    @property
    def _truncate(self) -> bool | int:
        asked = str(self.config.get("truncate", True)).lower()
        return asked == "true" if asked in {"true", "false"} else self.number("truncate", 20)

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Print the metrics of a time."""
        sys.stdout.write(f"{self.document(timestamp, values)}\n")

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Print the first records."""
        sys.stdout.write(f"{self.job} [{timestamp}] records {name}:\n")
        try:
            frame.show(self._rows, self._truncate)
        except Exception as error:
            raise self.failed(error) from error
