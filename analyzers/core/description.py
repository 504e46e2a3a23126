"""Descriptions: frozen, hashable dataclasses of options with a repr that can be parsed back.

Analyzers and detectors are descriptions. One can be a dictionary key, be stored as JSON under a stable
hash, be written in a suite file, and be printed so that it can be pasted into Python.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from typing import Any

from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    SuiteError,
    UnknownNameError,
)


@dataclass(frozen=True, repr=False)
class Description:
    """Base class: a frozen dataclass of options. Text values are converted to the option's type."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = _typed(type(self).__name__, option, getattr(self, option.name))
            object.__setattr__(self, option.name, value)

    def check_parameters(self) -> None:
        """Raise `IllegalAnalyzerParameterError` if an option has an invalid value; no-op here."""

    def options(self) -> dict[str, Any]:
        """Return all options by name.

        An option added after the first release has ``{"since": "0.2"}`` in its field's metadata and is
        omitted while it has its default, so that stored keys stay valid.
        """
        kept = [f for f in fields(self) if "since" not in f.metadata or not _is_default(self, f)]
        return {f.name: getattr(self, f.name) for f in kept}

    def __repr__(self) -> str:
        """Return text that `Registry.parse` can parse."""
        words = []
        for option in sorted(fields(self), key=lambda option: bool(option.kw_only)):
            value = getattr(self, option.name)
            if isinstance(value, tuple):
                value = list(value) if len(value) != 1 else value[0]
            if not _is_default(self, option):
                required = option.default is MISSING and not option.kw_only
                words.append(repr(value) if required else f"{option.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap a description's ``__init__`` so that an unknown option is answered with the nearest."""

    @wraps(init)
    def checked(self: Description, *values: Any, **options: Any) -> None:
        try:
            init(self, *values, **options)
        except TypeError as error:
            name, known = type(self).__name__, {option.name: option for option in fields(self)}
            for option in options:
                if option not in known:
                    raise UnknownNameError(f"option of {name}", option, known) from error
            check_positional(name, values, list(known.values()))
            raise

    return checked


def check_positional(name: str, values: Sequence[Any], options: Sequence[Field[Any]]) -> list[str]:
    """Return the names of options that are given by their place.

    Raises
    ------
    SuiteError
        If more values are given.
    """
    order = [option.name for option in options if not option.kw_only]
    if len(values) > len(order):
        named = [option.name for option in options if option.kw_only]
        hint = f"; give {', '.join(f'{option}=' for option in named)} by name" if named else ""
        msg = f"{name} takes at most {len(order)} values without a name, got {len(values)}{hint}"
        raise SuiteError(msg)
    return order


def check_choice(owner: Description, option: str, values: Sequence[str]) -> None:
    """Raise `IllegalAnalyzerParameterError` unless an option has one of the allowed values."""
    value = getattr(owner, option)
    if value not in values:
        known = ", ".join(map(repr, values))
        msg = f"{type(owner).__name__}: {option} must be one of {known}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg)


def canonical_json(value: Any) -> str:
    """Serialize to canonical JSON: sorted keys, no spaces, tuples as lists."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def key_of(canonical: str) -> str:
    """Return the SHA-256 hex digest of a canonical text, which repositories use as its key."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def _is_default(owner: object, option: Field[Any]) -> bool:
    return option.default is not MISSING and bool(getattr(owner, option.name) == option.default)


# Options come from Python, YAML (all text) and stored JSON; each is converted by its annotation.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def _filter(value: Any) -> str | None:
    return None if value is None else _text(value).strip()


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - one exception type for everything unreadable
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _integer(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError(value)
    return int(value)


def _flag(value: Any) -> bool:
    flags = {True: True, False: False, "true": True, "false": False}
    return flags[value.casefold() if isinstance(value, str) else value]


def _names(value: Any) -> tuple[str, ...]:
    return (_text(value),) if isinstance(value, str) else tuple(map(_text, value))


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(map(_number, value)) if isinstance(value, list | tuple) else (_number(value),)


OPTION_TYPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a text that is not empty", _text),
    "str | None": ("Spark SQL", _filter),
    "float": ("a number", _number),
    "float | None": ("a number or nothing", _number_or_none),
    "int": ("a whole number", _integer),
    "bool": ("true or false", _flag),
    "tuple[str, ...]": ("a name or a list of names", _names),
    "tuple[float, ...]": ("a list of numbers", _numbers),
}


def _annotation(option: Field[Any]) -> str:
    """Return an option's type annotation as text."""
    if isinstance(option.type, type) and not hasattr(option.type, "__args__"):
        return option.type.__name__
    return str(option.type)


def is_supported_type(option: Field[Any]) -> bool:
    """Return whether an option's type can be read from text, YAML and JSON."""
    return _annotation(option) in OPTION_TYPES


def _typed(owner: str, option: Field[Any], value: Any) -> Any:
    wanted, convert = OPTION_TYPES[_annotation(option)]
    try:
        return convert(value)
    except (TypeError, ValueError, KeyError) as error:
        msg = f"{owner}: {option.name} must be {wanted}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg) from error
