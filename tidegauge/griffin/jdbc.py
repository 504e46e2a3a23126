"""JDBC databases: names of tables, and drivers."""

from __future__ import annotations

import re

_DRIVERS = {
    "postgresql": ("org.postgresql.Driver", "org.postgresql:postgresql:42.7.7"),
    "mysql": ("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j:9.1.0"),
    "mariadb": ("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.1"),
}
"""Class and package of the usual driver, by the kind of database that a URL begins with."""
_WORD = r"[^\W\d]\w*"
_QUOTED = {'"': r'"(?:[^"]|"")+"', "`": r"`(?:[^`]|``)+`"}


def table_name(url: str, name: str) -> str:
    """Return a table's name as SQL in the dialect of a JDBC URL, quoted if necessary.

    Identifiers that are plain or quoted already, also dotted ones, stay as they are, so the database
    decides the letter case of plain ones; anything else is quoted as one name.

    Examples
    --------
    >>> table_name("jdbc:postgresql://x", "app.people"), table_name("jdbc:postgresql://x", 'app."People"')
    ('app.people', 'app."People"')
    >>> table_name("jdbc:mysql://x", "a`b; drop"), table_name("jdbc:postgresql://x", 'a"b')
    ('`a``b; drop`', '"a""b"')
    """
    mark = "`" if _kind(url) in {"mysql", "mariadb"} else '"'
    part = f"(?:{_WORD}|{_QUOTED[mark]})"
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
    found = _DRIVERS.get(_kind(url))
    return found and found[0]


def spark_url(url: str) -> str:
    """Return a URL by which Spark reads a database in its dialect.

    Spark knows the dialect of MariaDB by MySQL's scheme only: by MariaDB's own it quotes names as if
    they were texts, and reads these instead of the columns. MariaDB's driver takes both, if told so.

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
    """Return how to get the driver if an error says that Spark lacks it; else nothing.

    Examples
    --------
    >>> error = RuntimeError("java.lang.ClassNotFoundException: org.postgresql.Driver")
    >>> missing_driver("jdbc:postgresql://x", error)
    '; start Spark with spark.jars.packages=org.postgresql:postgresql:42.7.7'
    """
    known = _DRIVERS.get(_kind(url))
    if known is None or "ClassNotFoundException" not in str(error):
        return ""
    return f"; start Spark with spark.jars.packages={known[1]}"


def _kind(url: str) -> str:
    return url.removeprefix("jdbc:").partition(":")[0]
