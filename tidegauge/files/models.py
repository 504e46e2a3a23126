"""Models of YAML files: fields, values, and objects that a file names with their options.

Files are read as strings (`YamlFile.plain`), which fields convert by their types. Analyzers, checks, rules and
other named items are registered classes or methods; a `Catalogue` derives their options, with types and
defaults, from the signature. `tidegauge.files.schema` generates the JSON Schema of a file from the same models.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import (
    PreconditionError,
    SuiteError,
    UnknownNameError,
    nearest,
)
from tidegauge.analyzers.core.registry import Registry
from tidegauge.files.yaml_file import PlainText, YamlFile, located
from tidegauge.repository.detectors.base import DETECTORS
from tidegauge.repository.detectors.monitor import SERIES_SELECTORS, Direction, Monitor, Sensitivity
from tidegauge.repository.detectors.rules import RULES
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

VARIABLE_PATTERN = r"\$\{"
"""Pattern of strings that contain a variable, whose value is unknown to an editor."""
_PARAMETER_DOC = re.compile(r"^(\w+(?:, \w+)*) : .*((?:\n    .*)+)", re.MULTILINE)


def problem(message: object) -> PydanticCustomError:
    """Return an error whose message pydantic does not change."""
    return PydanticCustomError("tidegauge", "{problem}", {"problem": str(message)})


def first_sentence(docstring: str | None) -> str:
    """Return the first sentence of a docstring, without markup.

    Examples
    --------
    >>> first_sentence("The ``where`` of `Size`. By default none.")
    'The where of Size.'
    """
    paragraph = " ".join((docstring or "").strip().partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0].replace("`", "")


def add_descriptions(properties: JsonSchemaValue, sources: Iterable[Any]) -> JsonSchemaValue:
    """Add descriptions to JSON Schemas of fields, from the parameter sections of docstrings."""
    docs = {
        name: first_sentence(text)
        for source in sources
        for names, text in _PARAMETER_DOC.findall(inspect.getdoc(source) or "")
        for name in names.split(", ")
    }
    return {
        name: {**schema, **({"description": docs[name]} if name in docs else {})}
        for name, schema in properties.items()
    }


def check_names(keys: Iterable[str], allowed: Collection[str], unknown: str, *path: str) -> None:
    """Check that all names are known.

    Raises
    ------
    ValidationError
        At the first unknown name, with the nearest known name, or all.
    """
    for name in keys:
        if name not in allowed:
            hint = nearest(name, allowed)
            hint_or_names = (
                f"did you mean {hint!r}?" if hint else f"there are: {', '.join(allowed)}"
            )
            raise located_error(
                problem(f"{unknown} {name!r}; {hint_or_names}"), (*path, name), name
            )


def located_error(
    error: PydanticCustomError | ValidationError, path: tuple[str | int, ...], value: Any
) -> ValidationError:
    """Return an error with the path of the value in the validated document."""
    if isinstance(error, ValidationError):
        first_error = error.errors()[0]
        path, value = (*path, *first_error["loc"]), first_error["input"]
        error = PydanticCustomError(first_error["type"], "{text}", {"text": first_error["msg"]})
    details = InitErrorDetails(type=error, loc=path, input=value)
    return ValidationError.from_exception_data("", [details])


class Document(BaseModel):
    """A mapping of fields; an unknown field is an error that names the nearest field.

    Class attributes
    ----------------
    unknown : str
        Beginning of the message about an unknown field.
    """

    model_config = ConfigDict(extra="forbid")
    unknown: ClassVar[str] = "unknown field"

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        names = [field.alias or name for name, field in cls.model_fields.items()]
        check_names(value if isinstance(value, dict) else (), names, cls.unknown)
        return value

    def set_fields(self) -> dict[str, Any]:
        """Return the fields that the file sets, with their values."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, with descriptions from docstrings."""
        written = handler(schema)
        resolved = handler.resolve_ref_schema(written)
        resolved["description"] = first_sentence(cls.__doc__)
        resolved["properties"] = add_descriptions(
            resolved["properties"], reversed(cls.__mro__[:-2])
        )
        return written


# Values. No key of a file begins with a null character, so the tags of forms are not confused with keys.


def _shape(value: Any) -> str:
    shapes: dict[type, str] = {dict: "\0mapping", list: "\0list"}
    return shapes.get(type(value), "\0scalar")


SCALAR_TAG, LIST_TAG, MAPPING_TAG = Tag("\0scalar"), Tag("\0list"), Tag("\0mapping")
"""Forms of a field that takes several."""


def forms(expected: str) -> Discriminator:
    """Return the choice between the forms of a field by the shape of its value."""
    return Discriminator(
        _shape, custom_error_type="form", custom_error_message=f"Input should be {expected}"
    )


def one_of(names: type[StrEnum]) -> WithJsonSchema:
    """Return the JSON Schema of a name, which is validated by the object that takes it."""
    return WithJsonSchema({"enum": [str(name) for name in names]})


_NUMBER_PATTERN = re.compile(r"-?(0|[1-9]\d*)(?P<fraction>\.\d+)?(?P<power>[eE][+-]?\d+)?")
_DAY_PATTERN = re.compile(r"\d{4}-\d\d-\d\d")
_TIME_PATTERN = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?")
_CONSTANT_VALUES = {"true": True, "false": False, "null": None, "~": None, "": None}
_FLAG_VALUES = {"true": True, "false": False}


def typed_value(value: Any) -> Any:
    """Convert an unquoted scalar that is a number, constant, date or time.

    Examples
    --------
    >>> [typed_value(PlainText(text)) for text in ("1", "-2.5", "1e3", "01", "NO", "true", "null")]
    [1, -2.5, 1000.0, '01', 'NO', True, None]
    >>> typed_value("1"), typed_value(PlainText("2013-02-08")), typed_value(PlainText("2013-02-08 06:30"))
    ('1', datetime.date(2013, 2, 8), datetime.datetime(2013, 2, 8, 6, 30))
    """
    if isinstance(value, list | dict):
        raise PydanticCustomError("value", "Input should be a single value")
    if not isinstance(value, PlainText):
        return value
    string = str(value)
    if string in _CONSTANT_VALUES:
        return _CONSTANT_VALUES[string]
    number = _NUMBER_PATTERN.fullmatch(string)
    if number:
        return float(string) if number["fraction"] or number["power"] else int(string)
    try:
        if _DAY_PATTERN.fullmatch(string):
            return dt.date.fromisoformat(string)
        return dt.datetime.fromisoformat(string) if _TIME_PATTERN.fullmatch(string) else string
    except ValueError:  # an invalid date such as 31 February stays a string
        return string


def _read_flag(value: Any) -> bool:
    if not isinstance(value, str) or value.casefold() not in _FLAG_VALUES:
        raise PydanticCustomError("flag", "Input should be true or false")
    return _FLAG_VALUES[value.casefold()]


Value = Annotated[
    Any,
    PlainValidator(typed_value),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
Flag = Annotated[
    bool,
    PlainValidator(_read_flag),
    WithJsonSchema(
        {
            "type": ["boolean", "string"],
            "pattern": f"^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$|{VARIABLE_PATTERN}",
        }
    ),
]
Names = Annotated[
    Annotated[str, SCALAR_TAG] | Annotated[list[str], LIST_TAG], forms("a name or a list of names")
]
SomeNames = Annotated[list[str], Field(min_length=1)]


# Objects that files name.

Options = dict[str, tuple[TypeAdapter[Any], Any]]
"""Types and defaults of options; a required option has the default ``...``."""
STRING_TYPE: TypeAdapter[Any] = TypeAdapter(str)


def options_of(source: Any, types: Mapping[str, TypeAdapter[Any]]) -> Options:
    """Return the parameters of a class or method as options.

    Parameters
    ----------
    source : type or function
        The class or method.
    types : mapping of str to TypeAdapter
        Types by annotation; an option with another annotation is a string.
    """
    return {
        name: (
            types.get(_annotation(p), STRING_TYPE),
            ... if p.default is p.empty else p.default,
        )
        for name, p in inspect.signature(source).parameters.items()
        if p.kind is not p.VAR_KEYWORD and name not in {"self", "part"}
    }


def _annotation(parameter: inspect.Parameter) -> str:
    """Return an annotation as a string, as modules with postponed annotations have it."""
    annotation = parameter.annotation
    is_class = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    return annotation.__name__ if is_class else str(annotation)


class Catalogue:
    """Classes or methods that a file names: ``Name``, ``Name: option`` or ``Name: {option: value}``.

    A catalogue annotates a field, whose values become pairs of a name and its options.

    Parameters
    ----------
    kind : str
        Kind of item for messages, such as ``rule``.
    example : str
        An item, for messages.
    entries : mapping of str to object, or Registry
        The classes or methods by name.
    options : callable
        Returns the options of a class or method.
    replaced_by : mapping of str to tuple of str
        Alternatives of a required option.
    """

    takes_first_option = True
    """Whether the name of the first option can be omitted."""

    def __init__(
        self,
        kind: str,
        example: str,
        entries: Mapping[str, Any] | Registry[Any],
        options: Callable[[Any], Options],
        replaced_by: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.kind, self.title, self.example, self.entries = kind, kind, example, entries
        self.options = cache(lambda name: options(entries[name]))
        self._replaced_by = replaced_by or {}

    def needs(self, name: str) -> list[tuple[str, ...]]:
        """Return the required options, each with its alternatives."""
        needed = (option for option, (_, default) in self.options(name).items() if default is ...)
        return [(option, *self._replaced_by.get(option, ())) for option in needed]

    def item(self, item: Any) -> tuple[str, Any]:
        """Return the name of an item and its argument or options."""
        if isinstance(item, str) and item:
            item = {str(item): {}}
        if not isinstance(item, dict) or len(item) != 1:
            example = f"such as {self.example}"
            raise problem(f"a {self.kind} is one name with its options, {example}")
        ((name, values),) = item.items()
        if name not in self.entries:
            raise problem(UnknownNameError(self.kind, name, sorted(self.entries)))
        return name, values

    def read(self, item: Any) -> Any:
        """Return the item of a file; errors are raised as pydantic's, with the path in the item."""
        name, values = self.item(item)
        options = self.options(name)
        if not isinstance(values, dict):
            values = {next(iter(options)): values}
        check_names(values, options, f"unknown option of {name}", name)
        missing = [
            "a limit such as at_least" if names[0] == "assertion" else repr(names[0])
            for names in self.needs(name)
            if not set(names) & values.keys()
        ]
        if missing:
            raise problem(f"{name} needs {' and '.join(missing)}")
        converted = {}
        for option, value in values.items():
            try:
                converted[option] = options[option][0].validate_python(value)
            except ValidationError as error:
                raise located_error(error, (name, option), value) from error
        return name, converted

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Return pydantic's schema for validation."""
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the forms of an item: a name that needs no options, or one name with its options."""
        names = sorted(self.entries)
        with_options = {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {
                name: {
                    "description": first_sentence(inspect.getdoc(self.entries[name])),
                    "anyOf": self.argument_schemas(name, handler),
                }
                for name in names
            },
        }
        alone = [name for name in names if not self.needs(name)]
        return {"title": self.title, "anyOf": [*self.text_schemas(alone), with_options]}

    def argument_schemas(self, name: str, handler: GetJsonSchemaHandler) -> list[JsonSchemaValue]:
        """Return the JSON Schemas of a name's value: its first option, or a mapping of its options."""
        options, needs = self.options(name), self.needs(name)
        # As items of a list: pydantic applies annotations within a schema, but not at its root.
        written = {
            n: handler(core_schema.list_schema(kind.core_schema))
            for n, (kind, _) in options.items()
        }
        properties = {option: schema["items"] for option, schema in written.items()}
        by_name: JsonSchemaValue = {
            "type": "object",
            "additionalProperties": False,
            "properties": add_descriptions(properties, [self.entries[name]]),
        }
        by_name["required"] = [names[0] for names in needs if len(names) == 1]
        if alternatives := [names for names in needs if len(names) > 1]:
            by_name["allOf"] = [
                {"anyOf": [{"required": [n]} for n in names]} for names in alternatives
            ]
        parameters = inspect.signature(self.entries[name]).parameters.values()
        positional = (p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        first = next((option for option in positional if option in properties), "")
        if not first or not self.takes_first_option or not all(first in n for n in needs):
            return [by_name]
        return [{**properties[first], "not": {"type": "object"}}, by_name]  # a mapping is options

    def text_schemas(self, alone: list[str]) -> list[JsonSchemaValue]:
        """Return the JSON Schemas of items that are strings, given the names without required options."""
        return [{"enum": alone}] if alone else []


_Filled = Annotated[str, Field(min_length=1)]
REGISTERED_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "str": TypeAdapter(_Filled),
    "str | None": TypeAdapter(str | None),
    "float": TypeAdapter(float),
    "float | None": TypeAdapter(float | None),
    "int": TypeAdapter(int),
    "bool": TypeAdapter(Flag),
    "tuple[str, ...]": TypeAdapter(_Filled | list[_Filled]),
    "tuple[float, ...]": TypeAdapter(float | list[float]),
}
"""Types of the options of analyzers, detectors and decision rules, see `registry.OPTION_TYPES`."""


class Registered(Catalogue):
    """Classes of a registry; the field's values are their instances.

    Parameters
    ----------
    registry : Registry
        The classes by name.
    takes_first_option : bool
        Whether the name of the first option can be omitted.
    """

    def __init__(self, registry: Registry[Any], *, takes_first_option: bool = True) -> None:
        self.registry, self.takes_first_option = registry, takes_first_option
        super().__init__(registry.kind, "", registry, partial(options_of, types=REGISTERED_TYPES))

    def read(self, item: Any) -> Any:
        """Return the object that a file describes by a call such as ``Size()`` or by a name with options."""
        name, options = None, None
        if isinstance(item, dict) and len(item) == 1:
            ((name, options),) = _exact(item).items()
        is_first = options not in (None, "") and not isinstance(options, dict)
        try:
            if isinstance(item, str):
                return self.registry.parse(str(item))
            if name is not None and (not is_first or self.takes_first_option):
                by_name, first = ({}, [options]) if is_first else (options or {}, [])
                return self.registry.build(name, by_name, first)
        except (SuiteError, PreconditionError) as error:
            raise problem(error) from error
        article = "an" if self.kind[0] in "aeiou" else "a"
        column = "column or " if self.takes_first_option else ""
        raise problem(f"{article} {self.kind} is a name, or a name with its {column}options")

    def argument_schemas(self, name: str, handler: GetJsonSchemaHandler) -> list[JsonSchemaValue]:
        """Return the JSON Schemas of a name's value, which can be empty if no option is required."""
        nothing = [] if self.needs(name) else [{"enum": [None, ""]}]
        return [*super().argument_schemas(name, handler), *nothing]

    def text_schemas(self, alone: list[str]) -> list[JsonSchemaValue]:
        """Return the JSON Schemas of names and of calls such as ``Size()``."""
        call = rf"^\s*({'|'.join(sorted(self.entries))})\s*\(|{VARIABLE_PATTERN}"
        return [{"enum": alone}, {"type": "string", "pattern": call}]


def _exact(tree: Any) -> Any:
    """Convert the strings of a tree to the type str, which can be stored."""
    if isinstance(tree, dict):
        return {key: _exact(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_exact(item) for item in tree]
    return str(tree) if isinstance(tree, str) else tree


AnalyzerItem = Annotated[Any, Registered(ANALYZERS)]
_DETECTOR_CATALOGUE = Registered(DETECTORS, takes_first_option=False)
_DECISION_RULES = Registered(RULES, takes_first_option=False)
_DECISION_RULES.title = "decision rule"  # records have rules, too


class MonitorFields(Document):
    """The options of a `Monitor`."""

    unknown = "unknown option of a monitor"
    series: Annotated[
        dict[str, str], Field(json_schema_extra={"propertyNames": {"enum": [*SERIES_SELECTORS]}})
    ] = {}
    detector: Annotated[Any, _DETECTOR_CATALOGUE] = "Seasonal()"
    severity: Annotated[str, one_of(Severity)] | None = None
    rule: Annotated[Any, _DECISION_RULES] | None = None
    direction: Annotated[str, one_of(Direction)] = Direction.BOTH
    least_effect: float = 0.0
    sensitivity: Annotated[str, one_of(Sensitivity)] | None = None


MonitorFields.__doc__ = Monitor.__doc__  # which describes the options, for the JSON Schema


def read_monitors(file: YamlFile, monitor_fields: Sequence[MonitorFields]) -> list[Monitor]:
    """Return the monitors of a file.

    Raises
    ------
    SuiteError
        With the line and the problem.
    """
    monitors = []
    for fields, node in file.located(monitor_fields, "monitors"):
        with file.errors_at(node):
            monitors.append(Monitor(**fields.set_fields()))
    return monitors


# Fields of files.


class TimeFields(Document):
    """The time format and keys of partitions, as files specify them.

    Attributes
    ----------
    format : str
        Format of the partition's time, such as ``%Y-%m-%d``.
    key : str
        The partition key that holds the time.
    keys : list of str
        The partition keys that together hold the time.
    """

    format: str
    key: str | None = None
    keys: list[str] | None = None


class TableFields(Document):
    """Fields of every file about one table: the dataset, its table or folder, and its partitions.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    name : str
        Name of the stored verdicts (default: derived from the file's name).
    table, path : str
        The table, or the folder or file; exactly one is required.
    format : str
        Format of the files of a folder.
    options : dict
        Options of Spark's reader.
    partition_by : list of str
        The partition keys.
    time : TimeFields
        The time of a partition, as its keys hold it.
    tags : dict
        Labels of the dataset, such as its team.
    notify : list of str
        Destinations of notifications, see the guide.
    private : list of str
        Columns whose values are neither stored nor shown.
    variables : dict
        Variables and their defaults; ``${name}`` in a string is replaced by the value.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["table"]}, {"required": ["path"]}]}
    )
    dataset: str
    name: str | None = None
    table: str | None = None
    path: str | None = None
    format: str = "parquet"
    options: dict[str, str] = Field({}, repr=False)
    partition_by: list[str] | None = None
    time: TimeFields | None = None
    tags: dict[str, str] = {}
    notify: list[str] = Field([], repr=False)
    private: list[str] = []
    variables: dict[str, str | None] = {}

    def source(self, file: YamlFile, kind: str) -> str:
        """Return the table's name, or the folder with a slash.

        Raises
        ------
        SuiteError
            If neither or both are given.
        """
        if (self.table is None) == (self.path is None):
            raise file.error(file.node, f"a {kind} names either a table or a path")
        return self.table or located(str(self.path), file.path)

    def time_options(self) -> dict[str, Any] | None:
        """Return the time format as a `Suite` takes it; None if there is none."""
        return self.time.model_dump(exclude_none=True) if self.time else None
