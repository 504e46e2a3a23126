"""MongoDB sink; requires pymongo."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tidegauge.analyzers.core.errors import SetupError
from tidegauge.griffin.sinks.base import Sink, plain


class MongoSink(Sink):
    """Write a document for each job and time to MongoDB; records are not sent.

    Keys: ``url``, ``database``, ``collection``, ``over.time``.

    Parameters
    ----------
    name : str
    config : mapping
    """

    required = ("url", "database", "collection")

    def check(self) -> None:
        """Validate the configuration, and that pymongo is installed."""
        super().check()
        _ = self.time("over.time", 60_000)
        try:
            importlib.import_module("pymongo")
        except ImportError as error:
            msg = f"sink {self.name!r}: MongoDB needs the package pymongo, which is not installed"
            raise SetupError(msg) from error

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Upsert the metrics of a time, replacing existing ones."""
        pymongo = importlib.import_module("pymongo")
        wait = self.time("over.time", 60_000)
        url = str(self.config["url"])
        address = url if "://" in url else f"mongodb://{url}"
        key = {"metricName": self.job, "timestamp": timestamp}
        told = {**key, "value": plain(values), "metadata": {"applicationId": self.application}}
        try:
            with pymongo.MongoClient(address, serverSelectionTimeoutMS=wait) as client:
                collection = client[self.config["database"]][self.config["collection"]]
                collection.replace_one(key, told, upsert=True)
        except Exception as error:
            raise self.failed(error) from error
