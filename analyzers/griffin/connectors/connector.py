"""What every connector is: a way to read one place, checked before anything runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from analyzers.errors import GriffinConfigError, SetupError
from analyzers.griffin.kinds import load_class, suggested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analyzers.sources import Source

_NO_READER = "SQLSTATE: 42K02"


class Connector(ABC):
    """A way to read one place. Subclasses say which keys they need, and read.

    Parameters
    ----------
    config : mapping
        What the file says of it.

    Attributes
    ----------
    required : tuple of tuple of str
        Keys without which it cannot read; of each tuple one is enough.
    """

    required: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)

    def check(self, spark: SparkSession) -> None:  # noqa: ARG002 - those that need a package ask Spark for it
        """Raise if it cannot read whatever the data is.

        Raises
        ------
        GriffinConfigError
            If a key is missing, or says what cannot be.
        SetupError
            If a package is missing, naming it.
        """
        for keys in self.required:
            if not any(self.config.get(key) for key in keys):
                hint = f"; {suggested(keys[0], self.config)}" if self.config else ""
                msg = f"the key {keys[0]!r} is missing{hint}"
                raise GriffinConfigError(msg)

    @abstractmethod
    def batch(self, spark: SparkSession) -> DataFrame:
        """Return what is there now."""

    def stream(self, spark: SparkSession) -> DataFrame:  # noqa: ARG002 - what cannot needs nothing
        """Return what is there and what will come, as a streaming frame."""
        msg = f"a {type(self).__name__} cannot be read as a stream"
        raise GriffinConfigError(msg)

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:  # noqa: ARG002 - as for stream
        """Return what is there as a source of partitions, where it tells which of them changed."""
        return None

    def text(self, *keys: str, default: str = "") -> str:
        """Return what stands under the first of some keys that is there, as text."""
        found = next(
            (self.config[key] for key in keys if self.config.get(key) is not None), default
        )
        if isinstance(found, str | int | float):
            return str(found)
        msg = f"{keys[0]!r} must be text"
        raise GriffinConfigError(msg)

    def options(self, key: str = "options") -> dict[str, str]:
        """Return options of Spark."""
        found = self.config.get(key) or {}
        if not isinstance(found, Mapping):
            msg = f"{key!r} must be a mapping"
            raise GriffinConfigError(msg)
        return {
            str(name): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in found.items()
        }

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, of which one may stand alone."""
        found = self.config.get(key) or []
        found = [found] if isinstance(found, str) else found
        if isinstance(found, list | tuple) and all(
            isinstance(text, str) and text for text in found
        ):
            return list(found)
        msg = f"{key!r} must be a list of texts"
        raise GriffinConfigError(msg)


def has_format(spark: SparkSession, name: str) -> bool:
    """Return whether Spark has a reader of this name."""
    try:
        _ = spark.read.format(name).schema("a INT").load("/there is no such folder").schema
    except Exception as error:  # noqa: BLE001 - it has other reasons not to read where nothing is
        return _NO_READER not in str(error)
    return True


def need_format(spark: SparkSession, name: str, package: str) -> None:
    """Raise `SetupError` that names the package if Spark has no reader of this name."""
    if not has_format(spark, name):
        msg = f"Spark cannot read {name!r}: start it with spark.jars.packages={package}"
        raise SetupError(msg)


def custom(config: Mapping[str, Any]) -> Connector:
    """Return a connector of the class that a file names.

    Raises
    ------
    GriffinConfigError
        If it is written otherwise than ``module:Class``.
    SetupError
        If it cannot be imported.
    """
    found: Connector = load_class(config.get("class"))(config)
    return found
