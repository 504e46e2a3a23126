"""Consistency configuration files: YAML that defines how features of a join are compared."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict

from tidegauge.analyzers.core.errors import SuiteError, TidegaugeError
from tidegauge.consistency import configuration
from tidegauge.consistency.compare.distributions import DEFAULT_MAX_LENGTH, K
from tidegauge.consistency.compare.equality import Tolerance
from tidegauge.consistency.log.query import GROUP_BY, JOIN
from tidegauge.consistency.log.schemas import LogSchema
from tidegauge.files import models
from tidegauge.files.yaml_file import YamlFile
from tidegauge.griffin.dsl.grammar import milliseconds


class _Backfill(models.Document):
    """The source of backfilled features: a table, a query or a function.

    Attributes
    ----------
    table : str
        The table of backfilled features.
    query : str
        Spark SQL that returns them.
    callable : str
        A function that returns them, as ``module:function``.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})
    table: str | None = None
    query: str | None = None
    callable: str | None = None


class _Tolerance(models.Document):
    """Differences that count as equal: absolute, and relative to the larger value."""

    abs: float = 0.0
    rel: float = 0.0


class _Schema(models.Document):
    """Avro schemas of a version's keys and values: as JSON, or the path of a file."""

    key: str
    value: str
    hash: str | None = None


class _GroupBy(models.Document):
    """The features of a group-by.

    Attributes
    ----------
    features : list of str
        Names of the features.
    lag_ms : str
        How much later than the logged time features are seen: milliseconds, or a duration such as ``45m``.
    backfill : dict
        The source of its backfilled features, if it has one of its own.
    """

    features: list[str]
    lag_ms: str = "0"
    backfill: _Backfill | None = None


class ConsistencyFields(models.Document):
    """A configuration of consistency: how logged features are compared with backfilled ones.

    Attributes
    ----------
    namespace : str
        Database of the query log.
    join, group_by : str
        The name whose features are compared; one of them.
    dataset : str
        Name of the dataset; by the namespace and the name if not given.
    keys : list of str
        Columns that identify a query; rows with the same values are compared.
    time : str
        Column with the time of a query.
    payload : list of str
        Logged columns that are not features.
    schemas : list
        Avro schemas of versions that the log does not hold.
    backfill : dict
        The source of backfilled features.
    group_bys : dict
        Features by group-by, as a list or with options.
    tolerance : dict
        Differences that count as equal, by feature.
    logged_as : dict
        Columns of the log by feature, if their names differ.
    bucket_minutes : int
        Minutes of a bucket of time; null for none.
    sample_percent : float
        Share of the keys that is compared, in percent.
    query_source : list of str
        Sources of queries that are compared.
    segment_by : list of str
        Columns by whose values results are shown.
    since : str
        The first day that is compared.
    monitors : list
        Detectors and the series that they watch.
    k : int
        Accuracy of distributions, even, 4 to 1024: ranks are off by at most 0.16 / k.
    longest : int
        Arrays whose lengths multiply to more than its square are not compared by their edits.
    variables : dict
        Variables and their defaults; ``${name}`` in a string is replaced by the value.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["join"]}, {"required": ["group_by"]}]}
    )
    namespace: str
    join: str | None = None
    group_by: str | None = None
    type: str | None = None
    dataset: str = ""
    keys: list[str]
    time: str = configuration.TIME_COLUMN
    payload: models.Names = []
    schemas: list[_Schema] = []
    backfill: _Backfill | None = None
    group_bys: dict[
        str,
        Annotated[
            Annotated[list[str], models.LIST_TAG] | Annotated[_GroupBy, models.MAPPING_TAG],
            models.forms("a list of features or a mapping"),
        ],
    ] = {}
    tolerance: dict[
        str,
        Annotated[
            Annotated[float, models.SCALAR_TAG] | Annotated[_Tolerance, models.MAPPING_TAG],
            models.forms("a number or a mapping of abs and rel"),
        ],
    ] = {}
    logged_as: dict[str, str] = {}
    bucket_minutes: int | None = 60
    sample_percent: float = 100.0
    query_source: models.Names = []
    segment_by: models.Names = []
    since: str | None = None
    monitors: list[models.MonitorFields] | None = None
    k: int = K
    longest: int = DEFAULT_MAX_LENGTH
    variables: dict[str, str | None] = {}


def load_configuration(
    path: str | Path, variables: Mapping[str, str] | None = None
) -> configuration.Configuration:
    r"""Read a configuration file.

    Parameters
    ----------
    path : str or Path
        Path of the file.
    variables : mapping of str to str, optional
        Values for ``${name}``, in place of those under ``variables:``.

    Raises
    ------
    SuiteError
        With file and line, the problem, and the nearest valid name.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = '''
    ... namespace: shop
    ... join: search
    ... keys: [user]
    ... backfill: {query: "SELECT user, ts, clicks, price FROM logged_keys JOIN offline USING (user)"}
    ... group_bys:
    ...   clicks: {features: [clicks], lag_ms: 45m}
    ...   prices: [price]
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "search.yml"
    ...     _ = file.write_text(text)
    ...     read = load_configuration(file)
    >>> read.dataset, read.group_bys["clicks"].lag_ms, read.group_bys["prices"].features
    ('shop.search', 2700000, ('price',))
    """
    file = YamlFile.read(path, "configuration", "namespace: name", variables)
    fields = file.fields(ConsistencyFields)
    if (fields.join is None) == (fields.group_by is None):
        raise file.error(file.node, "a configuration names either a join or a group_by")
    kind, name = (
        (JOIN, fields.join) if fields.join is not None else (GROUP_BY, fields.group_by or "")
    )
    if fields.group_by is not None and fields.type not in {None, GROUP_BY}:
        raise file.error(file.node, f"a group_by is of type {GROUP_BY}, not {fields.type!r}")
    monitors = models.read_monitors(file, fields.monitors or [])
    try:
        return configuration.Configuration(
            namespace=fields.namespace,
            name=name,
            time=fields.time,
            payload=_names(fields.payload),
            schemas=tuple(
                _schema(schema_fields, name, file.path) for schema_fields in fields.schemas
            ),
            dataset=fields.dataset,
            keys=tuple(fields.keys),
            backfill=_backfill(fields.backfill, file.path),
            group_bys={
                name: _group_by(schema_fields, file.path)
                for name, schema_fields in fields.group_bys.items()
            },
            type=fields.type or kind,
            tolerance={
                name: _tolerance(schema_fields) for name, schema_fields in fields.tolerance.items()
            },
            logged_as=fields.logged_as,
            bucket_minutes=fields.bucket_minutes,
            sample_percent=fields.sample_percent,
            query_sources=_names(fields.query_source),
            segment_by=_names(fields.segment_by),
            since=fields.since,
            monitors=None if fields.monitors is None else tuple(m.to_dict() for m in monitors),
            k=fields.k,
            longest=fields.longest,
        )
    except TidegaugeError as error:
        raise file.locate(error) from error


def _names(names: list[str] | str) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _schema(fields: _Schema, name: str, path: Path) -> LogSchema:
    key, value = (_json(schema, path) for schema in (fields.key, fields.value))
    return LogSchema.from_schemas(name, key, value, fields.hash)


def _json(source: str, path: Path) -> str:
    """Return a JSON string, or the content of the file that it names, relative to the configuration.

    Raises
    ------
    SuiteError
        If the file cannot be read.
    """
    if source.lstrip().startswith("{"):
        return source
    try:
        return (path.parent / source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"cannot read the Avro schema {source!r}: {error}") from error


def _tolerance(value: float | _Tolerance) -> Tolerance:
    return Tolerance.from_value(value.model_dump() if isinstance(value, _Tolerance) else value)


def _group_by(fields: _GroupBy | list[str], path: Path) -> configuration.GroupBy:
    if isinstance(fields, list):
        return configuration.GroupBy(tuple(fields))
    try:
        lag = milliseconds(fields.lag_ms)
    except ValueError as error:
        raise SuiteError(f"group_bys: lag_ms: {error}") from error
    return configuration.GroupBy(tuple(fields.features), lag, _backfill(fields.backfill, path))


def _backfill(fields: _Backfill | None, path: Path) -> configuration.Backfill | None:
    if fields is None:
        return None
    options = fields.model_dump(exclude_none=True)
    match options:
        case {"table": table, **others} if not others:
            return configuration.TableBackfill(table)
        case {"query": query, **others} if not others:
            return configuration.QueryBackfill(query)
        case {"callable": name, **others} if not others:
            return configuration.CallableBackfill(_function(name), name)
    raise SuiteError(f"{path.name}: a backfill is one of table, query and callable")


def _function(name: str) -> Any:
    """Import a function by its module and name, such as ``features.offline:backfill``.

    Raises
    ------
    SuiteError
        If the function does not exist.
    """
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute or "-", None)
    except (ImportError, ValueError) as error:
        raise SuiteError(f"callable {name!r}: {error}") from error
    if not callable(function):
        raise SuiteError(
            f"callable {name!r} is not a function; write 'module:function', such as 'features.offline:backfill'"
        )
    return function
