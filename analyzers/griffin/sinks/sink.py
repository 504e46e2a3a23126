"""What every sink is, and the document of a metric."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from analyzers.errors import GriffinConfigError
from analyzers.griffin.kinds import load_class, suggested
from analyzers.griffin.reading.keys import milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Sink:
    """A place where results go. Subclasses write what they can; what they do not write is left out.

    Parameters
    ----------
    name : str
    config : mapping
        What the file says of it.

    Attributes
    ----------
    required : tuple of str
        Keys without which it cannot write.
    spark : SparkSession or None
        By which it writes, where it does so by Spark.
    """

    required: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name, self.config = name, dict(config)
        self.spark: SparkSession | None = None
        self.job, self.timestamp, self.application = "", 0, ""

    def check(self) -> None:
        """Raise if it cannot write whatever the results are; called before any rule runs.

        Raises
        ------
        GriffinConfigError
            If a key is missing, or says what cannot be.
        SetupError
            If a package is missing, naming it.
        """
        for key in self.required:
            if not self.config.get(key):
                hint = f"; {suggested(key, self.config)}" if self.config else ""
                msg = f"sink {self.name!r}: the key {key!r} is missing{hint}"
                raise GriffinConfigError(msg)

    def start(self, job: str, timestamp: int, application: str) -> None:
        """Begin a run of a job at a time in milliseconds, by an application of Spark."""
        self.job, self.timestamp, self.application = job, timestamp, application

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Write the metrics of all rules at a time.

        Raises
        ------
        SinkError
        """

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Write a rule's records at a time.

        Raises
        ------
        SinkError
        """

    def finish(self) -> None:
        """End the run."""

    def document(self, timestamp: int, values: Mapping[str, Any]) -> str:
        """Return metrics in Griffin's form, as JSON."""
        told = {
            "name": self.job,
            "tmst": timestamp,
            "value": values,
            "metadata": {"applicationId": self.application},
        }
        return json.dumps(plain(told), ensure_ascii=False, allow_nan=False)

    def number(self, key: str, default: int, most: int | None = None) -> int:
        """Return a whole number of the configuration, not above ``most``."""
        found = self.config.get(key, default)
        if not re.fullmatch(r"[+-]?[0-9]{1,15}", str(found)):
            msg = f"sink {self.name!r}: {key!r} must be a whole number, not {found!r}"
            raise GriffinConfigError(msg)
        number = int(found)
        return number if most is None else min(number, most)

    def time(self, key: str, default: int) -> int:
        """Return a time of the configuration in milliseconds."""
        try:
            return milliseconds(self.config.get(key, default))
        except ValueError as error:
            msg = f"sink {self.name!r}: {key!r}: {error}"
            raise GriffinConfigError(msg) from None


def plain(value: Any) -> Any:
    """Return a value of Spark as JSON has it: what is no number of JSON, and decimals of too many digits, as text.

    Examples
    --------
    >>> plain({"a": float("nan"), "b": (Decimal("0.5"), Decimal("0.1")), "c": dt.date(2024, 2, 29), "d": b"x"})
    {'a': 'NaN', 'b': [0.5, '0.1'], 'c': '2024-02-29', 'd': 'eA=='}
    """
    match value:
        case Mapping():
            found: Any = {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            as_mapping = getattr(value, "asDict", None)  # a row of Spark
            found = plain(as_mapping()) if as_mapping else [plain(item) for item in value]
        case float() if not isfinite(value):
            found = {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
        case Decimal():
            exact = value.is_finite() and Decimal(float(value)) == value
            found = float(value) if exact else str(value)
        case dt.date() | dt.time():
            found = value.isoformat()
        case bytes() | bytearray():
            found = base64.b64encode(value).decode()
        case None | bool() | int() | float() | str():
            found = value
        case _:
            found = str(value)
    return found


def custom(name: str, config: Mapping[str, Any]) -> Sink:
    """Return a sink of the class that a file names.

    Raises
    ------
    GriffinConfigError
        If it is written otherwise than ``module:Class``.
    SetupError
        If it cannot be imported.
    """
    found: Sink = load_class(config.get("class"))(name, config)
    return found
