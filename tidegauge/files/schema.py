"""JSON Schemas of the files that users write, made from the models that read them.

Editors read YAML 1.2, in which a string can look like a number or a constant. A number can be a variable.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints
from urllib.parse import quote

from pydantic import Field, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tidegauge.analyzers.core.errors import UnknownNameError
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.files.consistency_files import ConsistencyFields
from tidegauge.files.models import VARIABLE_PATTERN, Document
from tidegauge.files.rules_files import RulesFields
from tidegauge.files.suite_files import SuiteFields
from tidegauge.repository.store.config import Settings

FILE_KINDS = ("suite", "rules", "consistency", "settings")
_DIGITS_PATTERN = r"\d+(_\d+)*"
_INTEGER_PATTERN = rf"^\s*[-+]?{_DIGITS_PATTERN}(\.0*)?\s*$|{VARIABLE_PATTERN}"
_NUMBER_PATTERN = (
    rf"^\s*[-+]?({_DIGITS_PATTERN}\.?({_DIGITS_PATTERN})?|\.{_DIGITS_PATTERN})([eE][-+]?{_DIGITS_PATTERN})?\s*$"
    rf"|^\s*[-+]?([Ii][Nn][Ff]([Ii][Nn][Ii][Tt][Yy])?|[Nn][Aa][Nn])\s*$|{VARIABLE_PATTERN}"
)
_FLAG_TEXTS = ("y", "yes", "n", "no", "t", "true", "f", "false", "on", "off", "0", "1")
_FLAG_PATTERN = "|".join(
    "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in text)
    for text in _FLAG_TEXTS
)


class _TomlSchema(GenerateJsonSchema):
    """Schemas without titles, which would repeat the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        written = super().default_schema(schema)
        if written.get("default", ...) is None:
            del written["default"]
        return written

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        written = super().model_schema(schema)
        written.pop("title", None)
        return written


class _YamlSchema(_TomlSchema):
    """Schemas of scalars as editors read them, before they are text."""

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        length_limit = {"minLength": schema["min_length"]} if "min_length" in schema else {}
        return {"type": ["string", "number", "boolean"], **length_limit}

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return {"type": ["integer", "string"], "pattern": _INTEGER_PATTERN}

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {"type": ["number", "string"], "pattern": _NUMBER_PATTERN}

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        return {
            "anyOf": [
                {"type": "boolean"},
                {"enum": [0, 1]},
                {"type": "string", "pattern": f"^({_FLAG_PATTERN})$|{VARIABLE_PATTERN}"},
            ]
        }


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of file.

    Parameters
    ----------
    kind : str
        ``suite``, ``rules``, ``consistency`` or ``settings``.

    Raises
    ------
    UnknownNameError
        If the kind is unknown.

    Examples
    --------
    >>> sorted(json_schema("settings")["properties"])
    ['artifacts', 'dashboard_url', 'db', 'notify', 'private']
    """
    models: dict[str, type[Document]] = {
        "suite": SuiteFields,
        "rules": RulesFields,
        "consistency": ConsistencyFields,
    }
    if kind not in FILE_KINDS:
        raise UnknownNameError("kind of file", kind, FILE_KINDS)
    if kind == "settings":
        schema = _settings().model_json_schema(schema_generator=_TomlSchema)
    else:
        definitions: dict[str, Any] = {}
        written = models[kind].model_json_schema(schema_generator=_YamlSchema)
        schema = _with_variables(written, definitions)
        schema["$defs"] = schema.get("$defs", {}) | definitions
    title = f"Tidegauge {kind} file"
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": title, **schema}


def _settings() -> type[Document]:
    """Return the model of ``tidegauge.toml``."""
    lists: dict[str, Any] = {field.name: (list[str], Field([])) for field in fields(Privacy)}
    hints: dict[str, Any] = get_type_hints(Settings)
    hints["private"] = create_model("Private", __base__=Document, __doc__=Privacy.__doc__, **lists)
    options: dict[str, Any] = {name: (hint, Field(None)) for name, hint in hints.items()}
    return create_model("Settings", __base__=Document, __doc__=Settings.__doc__, **options)


def _with_variables(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema that allows variables as names, and defines schemas with a title only once."""
    if isinstance(schema, list):
        return [_with_variables(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {
        key: part if key == "default" else _with_variables(part, definitions)
        for key, part in schema.items()
    }
    names = parts.get("enum")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        parts.pop("type", None)
        choice = [{"enum": parts.pop("enum")}, {"type": "string", "pattern": VARIABLE_PATTERN}]
        parts["anyOf"] = choice
    title = parts.get("title")
    if isinstance(title, str):
        of_field = {key: parts.pop(key) for key in ("description", "default") if key in parts}
        definitions[title] = parts
        return {"$ref": f"#/$defs/{quote(title)}", **of_field}
    return parts
