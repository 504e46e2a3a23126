"""MongoDB, where pymongo is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from analyzers.errors import SetupError, SinkError, describe
from analyzers.griffin.sinks.sink import Sink, plain


class MongoSink(Sink):
    """A document for each job and time: ``url``, ``database``, ``collection``, ``over.time``. Records are not sent.

    Parameters
    ----------
    name : str
    config : mapping
    """

    required = ("url", "database", "collection")

    def check(self) -> None:
        """Raise if a key is missing or pymongo is not installed."""
        super().check()
        _ = self.time("over.time", 60_000)
        try:
            importlib.import_module("pymongo")
        except ImportError as error:
            msg = f"sink {self.name!r}: MongoDB needs the package pymongo, which is not installed"
            raise SetupError(msg) from error

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Write the metrics of a time in the place of those that were there."""
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
            msg = f"sink {self.name!r}: {describe(error)}"
            raise SinkError(msg) from error
