"""Base class of sinks, and the JSON document of a metric."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.errors import GriffinConfigError, SinkError, describe
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.griffin.dsl.grammar import milliseconds
from tidegauge.griffin.plugins import load_class, suggested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Sink:
    """Destination of results.

    Subclasses override the methods for the results that they write. Other results are ignored.

    Parameters
    ----------
    name : str
        Name of the sink.
    config : mapping
        The sink's configuration.

    Attributes
    ----------
    required : tuple of str
        Required keys.
    spark : SparkSession or None
        Session for sinks that write with Spark.
    """

    required: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name, self.config = name, dict(config)
        self.spark: SparkSession | None = None
        self.job, self.timestamp, self.application = "", 0, ""

    def check(self) -> None:
        """Validate configuration and packages; called before any rule runs.

        Raises
        ------
        GriffinConfigError
            If a key is missing or invalid.
        SetupError
            If a package is missing; the message names it.
        """
        for key in self.required:
            if not self.config.get(key):
                hint = f"; {suggested(key, self.config)}" if self.config else ""
                msg = f"sink {self.name!r}: the key {key!r} is missing{hint}"
                raise GriffinConfigError(msg)

    def failed(self, error: Exception, advice: str = "") -> SinkError:
        """Return the error for a failed write, without the secrets of the configuration."""
        return SinkError(
            f"sink {self.name!r}: {hide_secrets(describe(error), self.config)}{advice}"
        )

    def start(self, job: str, timestamp: int, application: str) -> None:
        """Begin a run of a job, with its time in milliseconds and the Spark application id."""
        self.job, self.timestamp, self.application = job, timestamp, application

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Write the metrics of all rules for a time, in milliseconds.

        Raises
        ------
        SinkError
        """

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Write a rule's records for a time, in milliseconds.

        Raises
        ------
        SinkError
        """

    def finish(self) -> None:
        """End the run."""

    def document(self, timestamp: int, values: Mapping[str, Any]) -> str:
        """Return metrics as JSON in Griffin's format."""
        content = {
            "name": self.job,
            "tmst": timestamp,
            "value": values,
            "metadata": {"applicationId": self.application},
        }
        return json.dumps(plain(content), ensure_ascii=False, allow_nan=False)

    def number(self, key: str, default: int, limit: int | None = None) -> int:
        """Return an integer of the configuration, capped at ``limit``."""
        value = self.config.get(key, default)
        if not re.fullmatch(r"[+-]?[0-9]{1,15}", str(value)):
            msg = f"sink {self.name!r}: {key!r} must be a whole number, not {value!r}"
            raise GriffinConfigError(msg)
        number = int(value)
        return number if limit is None else min(number, limit)

    def time(self, key: str, default: int) -> int:
        """Return a duration of the configuration in milliseconds."""
        try:
            return milliseconds(self.config.get(key, default))
        except ValueError as error:
            msg = f"sink {self.name!r}: {key!r}: {error}"
            raise GriffinConfigError(msg) from None


def plain(value: Any) -> Any:
    """Convert a Spark value to JSON values; non-finite and inexact decimal numbers become strings.

    Examples
    --------
    >>> plain({"a": float("nan"), "b": (Decimal("0.5"), Decimal("0.1")), "c": dt.date(2024, 2, 29), "d": b"x"})
    {'a': 'NaN', 'b': [0.5, '0.1'], 'c': '2024-02-29', 'd': 'eA=='}
    """
    match value:
        case Mapping():
            converted: Any = {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            as_mapping = getattr(value, "asDict", None)  # a Spark Row
            converted = plain(as_mapping()) if as_mapping else [plain(item) for item in value]
        case float() if not isfinite(value):
            converted = {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
        case Decimal():
            exact = value.is_finite() and Decimal(float(value)) == value
            converted = float(value) if exact else str(value)
        case dt.date() | dt.time():
            converted = value.isoformat()
        case bytes() | bytearray():
            converted = base64.b64encode(value).decode()
        case None | bool() | int() | float() | str():
            converted = value
        case _:
            converted = str(value)
    return converted


def custom(name: str, config: Mapping[str, Any]) -> Sink:
    """Make a sink of the class named in the configuration.

    Raises
    ------
    GriffinConfigError
        If the class is not of the form ``module:Class``.
    SetupError
        If the import fails.
    """
    sink: Sink = load_class(config.get("class"))(name, config)
    return sink
