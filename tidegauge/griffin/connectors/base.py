"""Base class of connectors, and checks for Spark readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.errors import GriffinConfigError, SetupError
from tidegauge.griffin.plugins import load_class, suggested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.sources.sources import Source

_NO_READER = "SQLSTATE: 42K02"


class Connector(ABC):
    """Reader of one data source. Subclasses declare their required keys, and read.

    Parameters
    ----------
    config : mapping
        The connector's configuration.

    Attributes
    ----------
    required : tuple of tuple of str
        Required keys; one key of each tuple is sufficient.
    """

    required: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)

    def check(self, spark: SparkSession) -> None:
        """Validate configuration and packages, without reading data.

        Raises
        ------
        GriffinConfigError
            If a key is missing or invalid.
        SetupError
            If a package is missing; the message names it.
        """
        for keys in self.required:
            if not any(self.config.get(key) for key in keys):
                hint = f"; {suggested(keys[0], self.config)}" if self.config else ""
                msg = f"the key {keys[0]!r} is missing{hint}"
                raise GriffinConfigError(msg)

    @abstractmethod
    def batch(self, spark: SparkSession) -> DataFrame:
        """Read the current rows."""

    def columns(self, spark: SparkSession) -> DataFrame:
        """Return a frame with the columns of `batch`, for a check; its rows do not matter."""
        return self.batch(spark)

    def finish(self) -> None:  # noqa: B027 - most connectors have nothing to do
        """Mark the rows of `batch` as read; called once they were measured without failures."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the current and future rows as a streaming frame."""
        msg = f"a {type(self).__name__} cannot be read as a stream"
        raise GriffinConfigError(msg)

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:
        """Return a source with partition fingerprints, or None if not supported."""
        return None

    def text(self, *keys: str, default: str = "") -> str:
        """Return the value of the first of the keys that is set, as text."""
        found = next(
            (self.config[key] for key in keys if self.config.get(key) is not None), default
        )
        if isinstance(found, str | int | float):
            return str(found)
        msg = f"{keys[0]!r} must be text"
        raise GriffinConfigError(msg)

    def options(self, key: str = "options") -> dict[str, str]:
        """Return the options for Spark."""
        found = self.config.get(key) or {}
        if not isinstance(found, Mapping):
            msg = f"{key!r} must be a mapping"
            raise GriffinConfigError(msg)
        return {
            str(name): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in found.items()
        }

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; a single string is a list of one."""
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
    except Exception as error:  # noqa: BLE001 - other errors are expected, as the folder does not exist
        return _NO_READER not in str(error)
    return True


def need_format(spark: SparkSession, name: str, package: str) -> None:
    """Raise a `SetupError` that names the package if Spark has no reader of this name."""
    if not has_format(spark, name):
        msg = f"Spark cannot read {name!r}: start it with spark.jars.packages={package}"
        raise SetupError(msg)


def spark_package(name: str, group: str = "org.apache.spark", version: str = "") -> str:
    """Return a package's Maven coordinates, by default of Spark's own for the installed Spark."""
    import pyspark

    scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"  # of Spark's own wheels
    return f"{group}:{name}_{scala}:{version or pyspark.__version__}"


def custom(config: Mapping[str, Any]) -> Connector:
    """Make a connector of the class named in the configuration.

    Raises
    ------
    GriffinConfigError
        If the class is not of the form ``module:Class``.
    SetupError
        If the import fails.
    """
    found: Connector = load_class(config.get("class"))(config)
    return found
