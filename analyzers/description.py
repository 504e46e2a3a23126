"""Descriptions: frozen values of names and numbers that read back from their own text.

Analyzers and detectors are descriptions. One can be a dictionary key, be stored as JSON under a hash
that never changes, be written in a suite file, and be printed so that it can be pasted into Python.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Generic, TypeVar

from analyzers.errors import IllegalAnalyzerParameterError, SuiteError, UnknownNameError
from analyzers.plugins import guard, load_plugins

D = TypeVar("D", bound="Description")
C = TypeVar("C", bound="type[Description]")


@dataclass(frozen=True, repr=False)
class Description:
    """A frozen dataclass of options. Values given as text are read as what the option is."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = _typed(type(self).__name__, option, getattr(self, option.name))
            object.__setattr__(self, option.name, value)

    def check_parameters(self) -> None:
        """Raise `IllegalAnalyzerParameterError` if an option has a value that it cannot have."""

    def options(self) -> dict[str, Any]:
        """Return all options by name.

        An option that came after the first release says so in its field's metadata
        (``{"since": "0.2"}``) and is left out while it has its default, so stored keys stay valid.
        """
        kept = [f for f in fields(self) if "since" not in f.metadata or not _is_default(self, f)]
        return {f.name: getattr(self, f.name) for f in kept}

    def __repr__(self) -> str:
        """Return text that `Registry.parse` reads back."""
        words = []
        for option in sorted(fields(self), key=lambda option: bool(option.kw_only)):
            value = getattr(self, option.name)
            if isinstance(value, tuple):
                value = list(value) if len(value) != 1 else value[0]
            if not _is_default(self, option):
                required = option.default is MISSING and not option.kw_only
                words.append(repr(value) if required else f"{option.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"


class Registry(Generic[D]):
    """Classes of descriptions by name.

    Parameters
    ----------
    kind : str
        What they are, for error messages. Plug-ins add theirs under ``tidegauge.<kind>s``, and are
        looked for when a name is not known or all are asked for.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[D]] = guard({})

    def __iter__(self) -> Iterator[str]:
        load_plugins(f"tidegauge.{self.kind}s")
        return iter(sorted(self._classes))

    def __getitem__(self, name: str) -> type[D]:
        """Return a class; raise `UnknownNameError` with the nearest name if there is none."""
        if name not in self._classes:
            load_plugins(f"tidegauge.{self.kind}s")
        if name not in self._classes:
            raise UnknownNameError(self.kind, name, self._classes)
        return self._classes[name]

    def add(self, cls: C) -> C:
        """Register a class under its own name.

        Raises
        ------
        ValueError
            If the name is taken, or an option has a type that cannot be written in a suite.
        """
        if cls.__name__ in self._classes:
            msg = f"the {self.kind} {cls.__name__} is already registered"
            raise ValueError(msg)
        for option in fields(cls):
            if _annotation(option) not in _TYPES:
                msg = f"{cls.__name__}.{option.name} must be one of {', '.join(_TYPES)}"
                raise ValueError(msg)
        self._classes[cls.__name__] = cls  # type: ignore[assignment]  # C is a type of D by use
        return cls

    def build(self, name: str, options: Mapping[str, Any], positional: Sequence[Any] = ()) -> D:
        """Make a description from a name and options; numbers may come as text.

        Raises
        ------
        UnknownNameError
            If there is no such name or option, with the nearest that there is.
        SuiteError
            If an option is missing, given twice, or there are too many.
        IllegalAnalyzerParameterError
            If an option's value cannot be.

        Examples
        --------
        >>> from analyzers.catalogue import ANALYZERS
        >>> ANALYZERS.build("ApproxQuantile", {"column": "delay", "quantile": "0.5"})
        ApproxQuantile('delay', 0.5)
        """
        cls = self[name]
        known = {option.name: option for option in fields(cls)}
        for option in options:
            if option not in known:
                kind = f"option of {name}"
                raise UnknownNameError(kind, option, known)
        order = [option.name for option in known.values() if not option.kw_only]
        if len(positional) > len(order):
            msg = f"{name} takes at most {len(order)} values without a name, got {len(positional)}"
            raise SuiteError(msg)
        given = dict(zip(order, positional, strict=False))
        if twice := given.keys() & options.keys():
            msg = f"{name} got {min(twice)!r} twice"
            raise SuiteError(msg)
        given.update(options)
        missing = [n for n, option in known.items() if n not in given and option.default is MISSING]
        if missing:
            msg = f"{name} needs {' and '.join(map(repr, missing))}"
            raise SuiteError(msg)
        made = cls(**given)
        made.check_parameters()
        return made

    def parse(self, text: str) -> D:
        """Read a description from the text that it prints as; nothing is evaluated but literals.

        Raises
        ------
        SuiteError
            If the text is not one name or call with literal arguments.

        Examples
        --------
        >>> from analyzers.catalogue import ANALYZERS
        >>> ANALYZERS.parse('''Size(where="origin = 'EWR'")''')
        Size(where="origin = 'EWR'")
        """
        try:
            node = ast.parse(text.strip(), mode="eval").body
            if isinstance(node, ast.Name):
                node = ast.Call(node, [], [])
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                raise ValueError(text)  # noqa: TRY004, TRY301 - one sentence for all that cannot be read
            positional = [_literal(argument) for argument in node.args]
            options = {str(k.arg): _literal(k.value) for k in node.keywords}
        except (SyntaxError, ValueError) as error:
            msg = f"cannot read {text!r} as an {self.kind}; write it as in Name('column', option=1)"
            raise SuiteError(msg) from error
        return self.build(node.func.id, options, positional)


def one_of_these(owner: Description, option: str, values: Sequence[str]) -> None:
    """Raise `IllegalAnalyzerParameterError` unless an option has one of some values."""
    value = getattr(owner, option)
    if value not in values:
        known = ", ".join(map(repr, values))
        msg = f"{type(owner).__name__}: {option} must be one of {known}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg)


def _literal(node: ast.expr) -> Any:
    """Return a literal's value; ``inf`` is one here, as Python prints it."""
    sign = -1.0 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1.0
    name = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(name, ast.Name) and name.id == "inf":
        return sign * float("inf")
    return ast.literal_eval(node)


def canonical_json(value: Any) -> str:
    """Return JSON that is equal for equal values: sorted keys, no spaces, tuples as lists."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def key_of(canonical: str) -> str:
    """Return the hash by which a repository knows a canonical text."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def _is_default(owner: object, option: Field[Any]) -> bool:
    return option.default is not MISSING and bool(getattr(owner, option.name) == option.default)


# Options arrive from Python, YAML (all text) and stored JSON; each is typed by its annotation.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def _filter(value: Any) -> str | None:
    return None if value is None else _text(value).strip()


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - one kind for all that cannot be read
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


_TYPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a text that is not empty", _text),
    "str | None": ("a Spark SQL condition", _filter),
    "float": ("a number", _number),
    "float | None": ("a number or nothing", _number_or_none),
    "int": ("a whole number", _integer),
    "bool": ("true or false", _flag),
    "tuple[str, ...]": ("a column or a list of columns", _names),
    "tuple[float, ...]": ("a list of numbers", _numbers),
}


def _annotation(option: Field[Any]) -> str:
    """Return an option's type as it is written."""
    if isinstance(option.type, type) and not hasattr(option.type, "__args__"):
        return option.type.__name__
    return str(option.type)


def _typed(owner: str, option: Field[Any], value: Any) -> Any:
    wanted, convert = _TYPES[_annotation(option)]
    try:
        return convert(value)
    except (TypeError, ValueError, KeyError) as error:
        msg = f"{owner}: {option.name} must be {wanted}, not {value!r}"
        raise IllegalAnalyzerParameterError(msg) from error
