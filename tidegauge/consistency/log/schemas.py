"""Schema registry of the query log: Avro schemas by hash, stored in the log's folder.

Avro types map to Spark types. Numbers in several schema versions are promoted as in Avro.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tidegauge.analyzers.core.errors import SetupError, SuiteError, did_you_mean, nearest
from tidegauge.analyzers.core.filesystems import child, file_system, write_file
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.sql import type_sql

_SPARK_TYPE_BY_AVRO_TYPE = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
_SPARK_TYPE_BY_LOGICAL_TYPE = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_NUMBERS_BY_WIDTH = ("integer", "long", "float", "double")
MAX_DECIMAL_DIGITS = 38
"""The maximum precision of a Spark decimal."""


def need_fastavro() -> Any:
    """Import and return fastavro.

    Raises
    ------
    SetupError
        If fastavro is not installed.
    """
    try:
        import fastavro
    except ModuleNotFoundError:
        raise SetupError("query logs need fastavro: pip install 'tidegauge[avro]'") from None
    return fastavro


def parse_record(schema: str | Mapping[str, Any]) -> dict[str, Any]:
    """Parse and validate the Avro schema of a record; return plain JSON.

    Parameters
    ----------
    schema : str or mapping
        An Avro schema, as a JSON string or parsed.

    Raises
    ------
    SuiteError
        If it is not an Avro schema of a record, or a field has a type without a Spark equivalent.

    Examples
    --------
    >>> parse_record('{"type": "record", "name": "K", "fields": []}')["name"]
    'K'
    """
    fastavro = need_fastavro()
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else dict(schema)
        fastavro.parse_schema(parsed)
    except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException) as error:
        msg = f"not an Avro schema: {str(schema)[:200]!r} ({error or type(error).__name__})"
        raise SuiteError(msg) from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        msg = f"keys and values must be Avro records, not {str(schema)[:200]!r}"
        raise SuiteError(msg)
    record: dict[str, Any] = json.loads(json.dumps(parsed))
    columns_of(record)
    return record


def columns_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a record with their types in Spark's JSON form.

    A union of null and one type has that type, because every column is nullable. Enums are strings, and
    fixed is binary. The logical types date, timestamp in milli- or microseconds, and decimal are mapped.
    Other logical types map to their underlying type: a time of day is a number, and a UUID is a string.
    A field of type null has no column.

    Raises
    ------
    SuiteError
        If a field is a union of several types, recursive, or a decimal with more than 38 digits.

    Examples
    --------
    >>> when = {"type": "long", "logicalType": "timestamp-millis"}
    >>> fields = [{"name": "n", "type": ["null", "int"]}, {"name": "at", "type": when}]
    >>> columns_of({"type": "record", "name": "V", "fields": fields})
    {'n': 'integer', 'at': 'timestamp'}
    """
    expanded: Any = need_fastavro().schema.expand_schema(schema)
    fields = {
        field["name"]: _one_type(field["type"], field["name"]) for field in expanded["fields"]
    }
    return {name: _spark_type(kind, name) for name, kind in fields.items() if kind != "null"}


def _one_type(schema: Any, path: str) -> Any:
    """Return the non-null type of a union."""
    if not isinstance(schema, list):
        return schema
    non_null = [kind for kind in schema if kind != "null"]
    if len(non_null) > 1:
        types = ", ".join(str(k["type"] if isinstance(k, dict) else k) for k in non_null)
        msg = f"field {path!r} is a union of {types}; use one type and null"
        raise SuiteError(msg)
    return non_null[0] if non_null else "null"


def _spark_type(schema: Any, path: str) -> Any:
    schema = _one_type(schema, path)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        inside = [
            (f["name"], _spark_type(f["type"], f"{path}.{f['name']}")) for f in schema["fields"]
        ]
        return struct(dict(inside))
    if kind == "array":
        element = _spark_type(schema["items"], f"{path}[]")
        return {"type": "array", "elementType": element, "containsNull": True}
    if kind == "map":
        value = _spark_type(schema["values"], f"{path}[]")
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
    if kind in {"bytes", "fixed"} and logical == "decimal":
        digits, scale = int(schema["precision"]), int(schema.get("scale", 0))
        if digits > MAX_DECIMAL_DIGITS:
            msg = f"field {path!r} is a decimal of {digits} digits; Spark supports at most {MAX_DECIMAL_DIGITS}"
            raise SuiteError(msg)
        return f"decimal({digits},{scale})"
    if (
        kind not in _SPARK_TYPE_BY_AVRO_TYPE
    ):  # nested null, or a recursive reference to an enclosing record
        problem = "always null" if kind == "null" else f"a {kind!r} inside itself"
        msg = f"field {path!r} is {problem}, which Spark cannot store in a column"
        raise SuiteError(msg)
    return _SPARK_TYPE_BY_LOGICAL_TYPE.get((kind, logical), _SPARK_TYPE_BY_AVRO_TYPE[kind])


def struct(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return a struct of nullable columns, in Spark's JSON form."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {"type": "struct", "fields": fields}


def readable(schema: Any) -> Any:
    """Return a schema without the logical types that are read as their underlying type."""
    if isinstance(schema, list):
        return [readable(kind) for kind in schema]
    if not isinstance(schema, dict):
        return schema
    logical = schema.get("logicalType")
    is_mapped = logical == "decimal" or (schema["type"], logical) in _SPARK_TYPE_BY_LOGICAL_TYPE
    result = {k: v for k, v in schema.items() if is_mapped or k != "logicalType"}
    for inside in ("type", "items", "values"):
        if inside in result:
            result[inside] = readable(result[inside])
    if "fields" in result:
        result["fields"] = [{**f, "type": readable(f["type"])} for f in result["fields"]]
    return result


def promoted(a: Any, b: Any) -> Any:
    """Return the type that holds the values of two types, as Avro promotes numbers; None if none does.

    A 64-bit integer and a float become a double, which keeps more digits than Avro's promotion.

    Parameters
    ----------
    a, b : str or mapping
        Types in Spark's JSON form.

    Examples
    --------
    >>> promoted("integer", "long"), promoted("long", "float"), promoted("integer", "string")
    ('long', 'double', None)
    >>> promoted({"type": "array", "elementType": "long"}, {"type": "array", "elementType": "integer"})
    {'type': 'array', 'elementType': 'long'}
    >>> promoted(struct({"a": "integer", "b": "string"}), struct({"a": "long", "b": "string"})) == (
    ...     struct({"a": "long", "b": "string"})
    ... )
    True
    """
    if type_sql(a) == type_sql(b):
        return a
    if isinstance(a, str) and isinstance(b, str):
        return _promoted_number(a, b)
    if not isinstance(a, Mapping) or not isinstance(b, Mapping) or a["type"] != b["type"]:
        return None
    if a["type"] == "struct":
        return _promoted_fields(a, b)
    inside = {"array": "elementType", "map": "valueType"}.get(a["type"])
    if inside is None or ("keyType" in a and type_sql(a["keyType"]) != type_sql(b["keyType"])):
        return None
    inner = promoted(a[inside], b[inside])
    return None if inner is None else {**a, inside: inner}


def _promoted_number(a: str, b: str) -> str | None:
    if not {a, b} <= set(_NUMBERS_BY_WIDTH):
        return None
    return "double" if {a, b} == {"long", "float"} else max(a, b, key=_NUMBERS_BY_WIDTH.index)


def _promoted_fields(a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    """Promote the fields of structs with the same names in the same order."""
    if [f["name"] for f in a["fields"]] != [f["name"] for f in b["fields"]]:
        return None
    kinds = [promoted(f["type"], g["type"]) for f, g in zip(a["fields"], b["fields"], strict=True)]
    if any(kind is None for kind in kinds):
        return None
    return {
        **a,
        "fields": [{**f, "type": kind} for f, kind in zip(a["fields"], kinds, strict=True)],
    }


SCHEMAS_FOLDER = "_schemas"
"""Schema folder inside a query log's folder; Spark skips names with a leading underscore."""
OWN_COLUMNS = ("schema_hash", "ts", "query_source", "ds")
"""Columns of a flattened log that are not keys, payload or values."""
_HASH_CHARS = 10


@dataclass(frozen=True)
class LogSchema:
    """Avro schemas of the keys and values of a join's logged queries.

    Attributes
    ----------
    join : str
        Name of the join.
    key, value : str
        Avro schemas of records, as canonical JSON.
    hash : str
        Ten characters that identify the schema in each logged query.
    registered_at : int
        Milliseconds since 1970. It orders versions and is not part of the schema's identity.
    payload : tuple of str or None
        Fields of the key that differ between requests, such as a session id; None if unknown. Not part of
        the schema's identity.
    sample_percent : float
        Percentage of keys whose queries the client logs, as last set by `QueryLog.register`. Not part of
        the schema's identity.

    Examples
    --------
    >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
    >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
    >>> schema = LogSchema.from_schemas("search", key, value)
    >>> schema.join, len(schema.hash)
    ('search', 10)
    """

    join: str
    key: str
    value: str
    hash: str
    registered_at: int = field(default=0, compare=False)
    payload: tuple[str, ...] | None = field(default=None, compare=False)
    sample_percent: float = field(default=100.0, compare=False)

    @classmethod
    def from_schemas(
        cls,
        join: str,
        key: str | Mapping[str, Any],
        value: str | Mapping[str, Any],
        schema_hash: str | None = None,
        payload: Sequence[str] | None = None,
    ) -> LogSchema:
        """Create a schema from two Avro schemas.

        Parameters
        ----------
        join : str
            The name of a join, or of a group-by with its own queries.
        key, value : str or mapping
            Avro schemas of records, as JSON strings or parsed.
        schema_hash : str, optional
            The hash in the log, if another system assigned it.
        payload : sequence of str, optional
            Fields of the key that differ between requests; sampling does not use them.

        Raises
        ------
        SuiteError
            If a schema is not a record, or a field has a type without a Spark equivalent.

        Examples
        --------
        >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
        >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
        >>> schema = LogSchema.from_schemas("team/search", key, value)
        >>> schema.keys, schema.values, len(schema.hash)
        ({'user': 'long'}, {'clicks': 'integer'}, 10)
        """
        if not join:
            raise SuiteError("the name of a join is empty; set it")
        key, value = (canonical_json(parse_record(schema)) for schema in (key, value))
        hash_ = schema_hash or schema_hash_of(join, key, value)
        payload_fields = None if payload is None else tuple(payload)
        schema_ = cls(join, key, value, hash_, time.time_ns() // 1_000_000, payload_fields)
        _check_names(schema_)
        for name in payload_fields or ():
            schema_.require_key(name, "to be payload")
        return schema_

    def require_key(self, name: str, purpose: str) -> None:
        """Raise `SuiteError` unless the key has a field with this name."""
        if name not in self.keys:
            hint = did_you_mean(name, self.keys)
            raise SuiteError(f"{self.join!r} has no key {name!r} {purpose}{hint}")

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The columns of the key, including payload, with their types in Spark's JSON form."""
        return columns_of(json.loads(self.key))

    @cached_property
    def values(self) -> dict[str, Any]:
        """The columns of the value that are not in the key, with their types."""
        columns = columns_of(json.loads(self.value))
        return {name: kind for name, kind in columns.items() if name not in self.keys}

    @property
    def readable(self) -> tuple[str, str]:
        """Both schemas as JSON, without logical types that are read as their underlying type."""
        key, value = (json.dumps(readable(json.loads(schema))) for schema in (self.key, self.value))
        return key, value

    def to_json(self) -> str:
        """Serialize to a JSON string.

        Examples
        --------
        >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
        >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
        >>> schema = LogSchema.from_schemas("search", key, value)
        >>> LogSchema.from_json(schema.to_json()) == schema
        True
        """
        required = {"join_name": self.join, "key_schema": self.key, "value_schema": self.value}
        optional: dict[str, Any] = {} if self.payload is None else {"payload": list(self.payload)}
        if self.sample_percent < 100:
            optional["sample_percent"] = self.sample_percent
        return canonical_json(
            {**required, "hash": self.hash, "registered_at": self.registered_at, **optional}
        )

    @classmethod
    def from_json(cls, source: str) -> LogSchema:
        """Parse the output of `to_json`.

        Raises
        ------
        SuiteError
            If the string is not the output of `to_json`.

        Examples
        --------
        >>> LogSchema.from_json("{}")
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.SuiteError: not the JSON of a query log's schema: '{}' ('join_name')
        """
        try:
            fields = json.loads(source)
            schema = cls.from_schemas(
                fields["join_name"],
                fields["key_schema"],
                fields["value_schema"],
                fields["hash"],
                fields.get("payload"),
            )
            percent = float(fields.get("sample_percent", 100))
            return replace(
                schema, registered_at=int(fields["registered_at"]), sample_percent=percent
            )
        except (ValueError, KeyError, TypeError) as error:
            msg = f"not the JSON of a query log's schema: {source[:200]!r} ({error})"
            raise SuiteError(msg) from error


def schema_hash_of(join: str, key: str, value: str) -> str:
    """Return the first ten characters of the base64 MD5 of a join's name and schemas as JSON."""
    source = canonical_json({"join_name": join, "key_schema": key, "value_schema": value})
    digest = hashlib.md5(source.encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()[:_HASH_CHARS]


def _check_names(schema: LogSchema) -> None:
    """Raise for columns that conflict with each other or with the log's own columns."""
    inside_value = columns_of(json.loads(schema.value))
    for name, kind in inside_value.items():
        if name in schema.keys and type_sql(schema.keys[name]) != type_sql(kind):
            msg = (
                f"{name!r} is {type_sql(schema.keys[name])} in the keys, but {type_sql(kind)} in the values"
                f" of {schema.join!r}; use one type"
            )
            raise SuiteError(msg)
    used = {name: f"the log's own {name!r}" for name in OWN_COLUMNS}
    for name in [*schema.keys, *schema.values]:
        previous = used.setdefault(name.casefold(), repr(name))
        if previous != repr(name):
            msg = f"{schema.join!r} has a field {name!r}, which has the same name as {previous}; rename it"
            raise SuiteError(msg)


class LogSchemas:
    """Schemas by hash.

    Examples
    --------
    >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
    >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
    >>> known = LogSchemas([LogSchema.from_schemas("search", key, value, "abc")])
    >>> known["abc"].join, len(known), [schema.hash for schema in known.of_join("other")]
    ('search', 1, [])
    """

    def __init__(self, schemas: Iterable[LogSchema] = ()) -> None:
        self._by_hash: dict[str, LogSchema] = {}
        for schema in schemas:
            self.add(schema)

    def add(self, schema: LogSchema) -> None:
        """Add a schema. An equal schema that was added earlier stays.

        Raises
        ------
        SuiteError
            If another schema has the same hash.
        """
        previous = self._by_hash.setdefault(schema.hash, schema)
        if previous != schema:
            msg = (
                f"two schemas have the hash {schema.hash!r}: one of {previous.join!r}, the other of"
                f" {schema.join!r}; each version needs its own hash"
            )
            raise SuiteError(msg)

    def of_join(self, join: str) -> list[LogSchema]:
        """Return the versions of a join, earliest first."""
        versions = [schema for schema in self if schema.join == join]
        return sorted(versions, key=lambda schema: (schema.registered_at, schema.hash))

    def __getitem__(self, schema_hash: str) -> LogSchema:
        """Return the schema with a hash; raise KeyError if it does not exist."""
        return self._by_hash[schema_hash]

    def __iter__(self) -> Iterator[LogSchema]:
        """Iterate over the schemas."""
        return iter(self._by_hash.values())

    def __len__(self) -> int:
        """Return the number of schemas."""
        return len(self._by_hash)


def save_schema(folder: str, schema: LogSchema) -> None:
    """Write a schema to a query log's folder, unless the same schema and sample are stored already.

    The file appears atomically. The time of the first registration stays. An unreadable file is replaced.
    """
    name = base64.urlsafe_b64encode(schema.hash.encode()).decode()  # a hash may have a slash
    location = child(child(folder, SCHEMAS_FOLDER), f"{name}.json")
    system, path = file_system(location)
    if system.get_file_info(path).is_file:
        with system.open_input_stream(path) as stream:
            source = stream.read().decode(errors="replace")
        try:
            previous = LogSchema.from_json(source)
        except SuiteError:
            previous = schema
        else:
            if previous.sample_percent == schema.sample_percent:
                return
        schema = replace(schema, registered_at=previous.registered_at)
    write_file(location, schema.to_json().encode())


def load_schemas(folder: str) -> LogSchemas:
    """Read the schemas of a query log from an Arrow filesystem; empty if there are none."""
    from pyarrow import fs

    system, root = file_system(child(folder, SCHEMAS_FOLDER))
    files = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    schemas = LogSchemas()
    for file in sorted(files, key=lambda file: file.path):
        if file.is_file and not file.base_name.startswith("."):
            with system.open_input_stream(file.path) as stream:
                schemas.add(LogSchema.from_json(stream.read().decode(errors="replace")))
    return schemas


@dataclass(frozen=True)
class Columns:
    """Columns of a flattened log except its own columns, with their types in Spark's JSON form.

    Attributes
    ----------
    keys : mapping of str to Any
        Columns that identify an entity.
    payload : mapping of str to Any
        Additional columns of requests, such as a session id.
    values : mapping of str to Any
        The features.
    """

    keys: Mapping[str, Any]
    payload: Mapping[str, Any]
    values: Mapping[str, Any]

    @property
    def all(self) -> dict[str, Any]:
        """All columns, in order."""
        return {**self.keys, **self.payload, **self.values}


def merged(
    schemas: Sequence[LogSchema],
    keys: Sequence[str] | None = None,
    existing: Mapping[str, Any] | None = None,
) -> Columns:
    """Return the columns of all versions together. New columns are appended, removed columns stay.

    A number with different types gets the wider type, as Avro promotes them.

    Parameters
    ----------
    schemas : sequence of LogSchema
        Schema versions, earliest first.
    keys : sequence of str, optional
        Fields of the key that identify an entity (default: all). The other fields are payload.
    existing : mapping of str to Any, optional
        Existing columns of the table.

    Raises
    ------
    SuiteError
        If a field has conflicting names or types (the message names both), or a key is in no version.
    """
    fields: dict[str, tuple[str, Any, str]] = {}  # by name in lower case

    def add(columns: Mapping[str, Any], owner: str) -> None:
        for name, kind in columns.items():
            first_name, previous, where = fields.setdefault(name.casefold(), (name, kind, owner))
            wider = promoted(previous, kind) if first_name == name else None
            if wider is not None:
                fields[name.casefold()] = (name, wider, where)
            else:
                msg = (
                    f"{first_name!r} is {type_sql(previous)} {where}, and {name!r} is {type_sql(kind)} {owner};"
                    " a field keeps its name and type: rename the new field"
                )
                if where == in_table:
                    msg += "; or drop the table, which can be flattened again, and flatten only days of one type"
                raise SuiteError(msg)

    in_table = "in the flattened table"
    add(existing or {}, in_table)
    for schema in schemas:
        add({**schema.keys, **schema.values}, f"in schema {schema.hash}")
    types = {name: kind for name, kind, _ in fields.values()}
    in_keys = list(dict.fromkeys(name for schema in schemas for name in schema.keys))
    for name in keys or ():
        if schemas and name not in in_keys:
            close = nearest(name, in_keys)
            hint = f"; did you mean {close!r}?" if close else f" (there are: {', '.join(in_keys)})"
            msg = f"no schema of {schemas[0].join!r} has a key {name!r}{hint}"
            raise SuiteError(msg)
    chosen = in_keys if keys is None else [name for name in keys if name in types]
    payload = [name for name in in_keys if name not in chosen]
    values = [name for name in types if name not in in_keys and name not in chosen]
    return Columns(*({name: types[name] for name in names} for names in (chosen, payload, values)))
