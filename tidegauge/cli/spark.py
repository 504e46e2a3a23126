"""Options of the Spark session, the same for each command that starts one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tidegauge.cli.options import pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkOptions:
    """Options of a command's Spark session.

    Attributes
    ----------
    warehouse : str, optional
    spark_conf : list of str, optional
        Settings as ``KEY=VALUE``.
    packages, master : str, optional
    """

    warehouse: Annotated[
        str | None, typer.Option(help="Folder of a local warehouse with its metastore.")
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="KEY=VALUE",
            help="A Spark setting, such as spark.driver.memory=4g; may be repeated.",
        ),
    ] = None
    packages: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP:ARTIFACT:VERSION,...",
            help="Maven packages for Spark, such as those of Delta Lake or Iceberg.",
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs, such as local[4], spark://host:7077, yarn or sc://host"
            " (default: as Spark is configured, else on this machine).",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether any option is given."""
        return self != SparkOptions()

    def settings(self) -> dict[str, str]:
        """Return the Spark settings that the options stand for.

        Raises
        ------
        typer.BadParameter
            If a setting or a package is written in another form than the options'.

        Examples
        --------
        >>> SparkOptions(spark_conf=["spark.sql.ansi.enabled=false"], master="local[2]").settings()
        {'spark.sql.ansi.enabled': 'false', 'spark.master': 'local[2]'}
        """
        settings = pairs("--conf", self.spark_conf or [])
        for key in settings:
            if not key.startswith("spark."):
                msg = f"--conf {key}: Spark reads only settings whose names begin with 'spark.'"
                raise typer.BadParameter(msg)
        for package in (self.packages or "").split(",") if self.packages is not None else ():
            if package.count(":") != 2 or not all(package.split(":")):
                msg = f"--packages {package!r}: write GROUP:ARTIFACT:VERSION, several with commas"
                raise typer.BadParameter(msg)
        if self.packages is not None:
            listed = (settings.get("spark.jars.packages"), self.packages)
            settings["spark.jars.packages"] = ",".join(filter(None, listed))
        if self.master is not None:
            settings["spark.master"] = self.master
        return settings

    def start(self, defaults: Mapping[str, str] | None = None) -> SparkSession:
        """Return the active session, or start one, with the options and, below them, other settings."""
        from tidegauge.spark.session import apply_settings, spark_session

        settings = {**(defaults or {}), **self.settings()}
        session = spark_session(self.warehouse, settings=settings)
        apply_settings(session, settings)
        return session


_HINTS = get_type_hints(SparkOptions, include_extras=True)


def takes_spark_options(
    without: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of `SparkOptions`, which it takes as its parameter ``session``.

    Parameters
    ----------
    without : collection of str
        Options that the command does not have.
    """
    names = [name for name in _HINTS if name not in without]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function, eval_str=True)
        own = [p for name, p in signature.parameters.items() if name != "session"]
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [p.replace(kind=keyword) for p in own]
        added = [
            inspect.Parameter(name, keyword, default=None, annotation=_HINTS[name])
            for name in names
        ]

        @wraps(function)
        def command(**arguments: Any) -> Any:
            given = {name: arguments.pop(name) for name in names}
            return function(session=replace(SparkOptions(), **given), **arguments)

        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        return command

    return decorate
