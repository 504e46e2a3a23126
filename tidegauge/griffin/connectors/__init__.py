"""Connectors, which read sources: base class and shared functions.

The entry point group ``tidegauge.griffin.connectors`` adds more; each entry point is a subclass of
`Connector`. Filter conditions are parsed by the DSL grammar so that no other SQL is accepted. Sinks
also use the JDBC names and drivers.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.errors import (
    DslError,
    GriffinConfigError,
    GriffinDeprecationWarning,
    SetupError,
)
from tidegauge.analyzers.core.sql import quote
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
                raise GriffinConfigError(f"the key {keys[0]!r} is missing{hint}")

    @abstractmethod
    def batch(self, spark: SparkSession) -> DataFrame:
        """Read the current rows."""

    def columns(self, spark: SparkSession) -> DataFrame:
        """Return a frame with the columns of `batch`, for a check; its rows do not matter."""
        return self.batch(spark)

    def finish(self) -> None:  # noqa: B027 - most connectors have nothing to do
        """Mark the rows of `batch` as read; called after they were measured without failures."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the current and future rows as a streaming frame."""
        raise GriffinConfigError(f"a {type(self).__name__} cannot be read as a stream")

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:
        """Return a source with partition fingerprints, or None if not supported."""
        return None

    def text(self, *keys: str, default: str = "") -> str:
        """Return the value of the first of the keys that is set, as text."""
        value = next(
            (self.config[key] for key in keys if self.config.get(key) is not None), default
        )
        if isinstance(value, str | int | float):
            return str(value)
        raise GriffinConfigError(f"{keys[0]!r} must be text")

    def options(self, key: str = "options") -> dict[str, str]:
        """Return the options for Spark."""
        configured = self.config.get(key) or {}
        if not isinstance(configured, Mapping):
            raise GriffinConfigError(f"{key!r} must be a mapping")
        return {
            str(name): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in configured.items()
        }

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; a single string is a list of one."""
        strings = self.config.get(key) or []
        strings = [strings] if isinstance(strings, str) else strings
        if isinstance(strings, list | tuple) and all(
            isinstance(string, str) and string for string in strings
        ):
            return list(strings)
        raise GriffinConfigError(f"{key!r} must be a list of strings")


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
        raise SetupError(f"Spark cannot read {name!r}: start it with spark.jars.packages={package}")


def spark_package(name: str, group: str = "org.apache.spark", version: str = "") -> str:
    """Return a package's Maven coordinates (default: the group and version of the installed Spark)."""
    import pyspark

    scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"  # of Spark's own wheels
    return f"{group}:{name}_{scala}:{version or pyspark.__version__}"


def custom(config: Mapping[str, Any]) -> Connector:
    """Create a connector of the class named in the configuration.

    Raises
    ------
    GriffinConfigError
        If the class is not of the form ``module:Class``.
    SetupError
        If the import fails.
    """
    connector: Connector = load_class(config.get("class"))(config)
    return connector


_SQL_PIECE = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[(),;]|[^'\"`(),;]+|.", re.DOTALL
)


def expression_text(text: str) -> str:
    """Translate a DSL expression to SQL.

    Raises
    ------
    DslError
        If the string is not a DSL expression.
    """
    from tidegauge.griffin.dsl.parser import parse_expression
    from tidegauge.griffin.measures.sql import expression_sql

    return expression_sql(parse_expression(text))


def selection_sql(text: str) -> str:
    """Translate a selected column, a DSL expression that may have an alias, to SQL.

    Raises
    ------
    DslError
        If the string is not such an expression.
    """
    from tidegauge.griffin.dsl.nodes import Aliased
    from tidegauge.griffin.dsl.parser import parse_item
    from tidegauge.griffin.measures.sql import expression_sql

    item = parse_item(text)
    if isinstance(item, Aliased):
        return f"{expression_sql(item.expression)} AS {quote(item.alias)}"
    return expression_sql(item)


def condition_sql(where: str) -> str:
    """Translate the filter condition of a source to SQL.

    Parameters
    ----------
    where : str
        A condition, or Griffin's deprecated form: several separated by commas, joined by OR.

    Raises
    ------
    DslError
        If one of them is not a valid expression.
    """
    try:
        return expression_text(where)
    except DslError:
        several = [part.strip() for part in split_outside(where, ",") if part.strip()]
        if len(several) < 2:
            raise
    conditions = [f"({expression_text(part)})" for part in several]
    msg = f"conditions separated by commas are deprecated; use 'or': {where!r}"
    warnings.warn(msg, GriffinDeprecationWarning, stacklevel=2)
    return " OR ".join(conditions)


def split_outside(text: str, mark: str) -> list[str]:
    """Split text at a separator outside of quotes and parentheses.

    Examples
    --------
    >>> split_outside("a = 'x,y', b in (1, 2)", ",")
    ["a = 'x,y'", ' b in (1, 2)']
    """
    parts, depth = [""], 0
    for match in _SQL_PIECE.finditer(text):
        piece = match[0]
        depth += (piece == "(") - (piece == ")")
        if piece == mark and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


_DRIVER_BY_DATABASE = {
    "postgresql": ("org.postgresql.Driver", "org.postgresql:postgresql:42.7.7"),
    "mysql": ("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j:9.1.0"),
    "mariadb": ("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.1"),
}
"""Class and package of the usual driver, by the kind of database that a URL begins with."""
_WORD_PATTERN = r"[^\W\d]\w*"
_QUOTED_PATTERNS = {'"': r'"(?:[^"]|"")+"', "`": r"`(?:[^`]|``)+`"}


def table_name(url: str, name: str) -> str:
    """Return a table's name as SQL in the dialect of a JDBC URL, quoted if necessary.

    Plain and quoted identifiers are unchanged, including dotted ones, so the database decides the letter case
    of plain identifiers. Anything else is quoted as one name.

    Examples
    --------
    >>> table_name("jdbc:postgresql://x", "app.people"), table_name("jdbc:postgresql://x", 'app."People"')
    ('app.people', 'app."People"')
    >>> table_name("jdbc:mysql://x", "a`b; drop"), table_name("jdbc:postgresql://x", 'a"b')
    ('`a``b; drop`', '"a""b"')
    """
    mark = "`" if _kind(url) in {"mysql", "mariadb"} else '"'
    part = f"(?:{_WORD_PATTERN}|{_QUOTED_PATTERNS[mark]})"
    if re.fullmatch(rf"{part}(?:\.{part})*", name):
        return name
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def driver_of(url: str) -> str | None:
    """Return the class of a database's usual driver; None if it is not known.

    Drivers that a session got by ``spark.jars`` are found by their class only.

    Examples
    --------
    >>> driver_of("jdbc:postgresql://x"), driver_of("jdbc:derby:memory:x")
    ('org.postgresql.Driver', None)
    """
    driver = _DRIVER_BY_DATABASE.get(_kind(url))
    return driver and driver[0]


def spark_url(url: str) -> str:
    """Return a URL that makes Spark use the dialect of a database.

    Spark recognizes MariaDB only by the scheme of MySQL. With the scheme of MariaDB, it quotes names as
    strings, and reads these strings instead of the columns. With this option, the driver of MariaDB
    accepts both schemes.

    Examples
    --------
    >>> spark_url("jdbc:mariadb://db/shop"), spark_url("jdbc:mysql://db/shop")
    ('jdbc:mysql://db/shop?permitMysqlScheme=true', 'jdbc:mysql://db/shop')
    """
    if _kind(url) != "mariadb":
        return url
    rest = url.removeprefix("jdbc:mariadb")
    return f"jdbc:mysql{rest}{'&' if '?' in rest else '?'}permitMysqlScheme=true"


def missing_driver(url: str, error: BaseException) -> str:
    """Return how to get the driver if it is missing in Spark; otherwise an empty string.

    Examples
    --------
    >>> error = RuntimeError("java.lang.ClassNotFoundException: org.postgresql.Driver")
    >>> missing_driver("jdbc:postgresql://x", error)
    '; start Spark with spark.jars.packages=org.postgresql:postgresql:42.7.7'
    """
    driver = _DRIVER_BY_DATABASE.get(_kind(url))
    if driver is None or "ClassNotFoundException" not in str(error):
        return ""
    return f"; start Spark with spark.jars.packages={driver[1]}"


def _kind(url: str) -> str:
    return url.removeprefix("jdbc:").partition(":")[0]
