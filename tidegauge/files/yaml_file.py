"""Read YAML mappings with line numbers for errors.

Every scalar is read as a string and converted by the type of its field, so ``hr: 07`` and ``NO`` stay strings.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from tidegauge.analyzers.core.errors import PreconditionError, SuiteError, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel


class PlainText(str):
    """An unquoted scalar, which can be a number, a constant, a date or a time."""

    __slots__ = ()


T = TypeVar("T")
Model = TypeVar("Model", bound="BaseModel")
_VARIABLE_SYNTAX = re.compile(r"\$\$\{|\$\{(?:(?P<name>[^}]{0,200})\})?")
"""``$${``, ``${name}``, or a ``${`` that is not closed."""
_VARIABLE_NAME = re.compile(r"\w[\w.-]*")
_LITERAL_HINT = "for a literal ${ write $${"
_MAX_INSERTED_CHARACTERS = 10_000_000
"""Limit on the length of all values of variables that a file inserts, so that a file cannot exhaust memory."""
_MAX_EXPANDED_VALUES = 1_000_000
"""Limit on the values of a file after all aliases are expanded, so that nested aliases cannot exhaust memory."""


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return the number of values below a node with aliases expanded; a recursive alias counts as too many."""
    if id(node) not in sizes:
        sizes[id(node)] = _MAX_EXPANDED_VALUES + 1
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for item in below for part in (item if isinstance(item, tuple) else (item,))]
        sizes[id(node)] = 1 + sum(_expanded_size(part, sizes) for part in parts)
    return sizes[id(node)]


@dataclass(frozen=True)
class YamlFile:
    """A YAML file with a mapping at its root, as nodes with line numbers.

    Attributes
    ----------
    path : Path
        Path of the file.
    node : yaml.MappingNode
        The root of the file.
    """

    path: Path
    node: yaml.MappingNode

    @classmethod
    def read(
        cls,
        path: str | Path,
        kind: str,
        first_line: str = "dataset: name",
        variables: Mapping[str, str] | None = None,
    ) -> YamlFile:
        """Read and parse a file, and replace its variables.

        A file declares its variables and their defaults under ``variables:``. In strings, ``${name}``
        is replaced by the value and ``$${`` by ``${``.

        Parameters
        ----------
        path : str or Path
            Path of the file.
        kind : str
            Kind of file for messages, such as ``suite file``.
        first_line : str
            First line of such a file, for messages.
        variables : mapping of str to str, optional
            Values of variables in place of their defaults.

        Raises
        ------
        SuiteError
            If the file cannot be read, is not YAML or not a mapping, or if a variable is undeclared or has
            no value.
        """
        path = Path(path)
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"cannot read the {kind} {path}: {error}"
            raise SuiteError(msg) from error
        try:
            node = yaml.compose(source, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{path}:{mark.line + 1}" if mark else str(path)
            msg = f"{where}: not YAML: {error.problem}"
            raise SuiteError(msg) from error
        except yaml.reader.ReaderError as error:
            msg = f"{path}: not YAML: invalid character {chr(error.character)!r}"
            raise SuiteError(msg) from error
        except RecursionError as error:
            msg = f"{path}: not YAML of a {kind}: lists are nested too deeply"
            raise SuiteError(msg) from error
        if not isinstance(node, yaml.MappingNode):
            msg = f"{path}: a {kind} is one mapping that begins with {first_line!r}"
            raise SuiteError(msg)
        if _expanded_size(node, {}) > _MAX_EXPANDED_VALUES:
            msg = f"{path}: aliases expand to more than {_MAX_EXPANDED_VALUES} values"
            raise SuiteError(msg)
        file = cls(path, node)
        file._replace_variables(variables or {})
        return file

    def _replace_variables(self, overrides: Mapping[str, str]) -> None:
        """Replace ``${name}`` by its value and ``$${`` by ``${`` in all strings of the file.

        Destinations under ``notify:`` can also contain environment variables, which are read when a
        message is sent.
        """
        node = next((value for key, value in self.node.value if key.value == "variables"), None)
        values = self._variable_values(node, overrides)
        remaining, visited = _MAX_INSERTED_CHARACTERS, set[int]()
        for key, value in self.node.value:
            if key.value != "variables":
                for scalar in (key, *_scalars(value, visited)):
                    remaining -= self._substitute(
                        scalar, values, remaining, keep_undeclared=key.value == "notify"
                    )

    def _variable_values(
        self, node: yaml.Node | None, overrides: Mapping[str, str]
    ) -> dict[str, str | None]:
        """Return the values of the declared variables; None for a variable without one."""
        declared = dict(self.pairs(node)) if isinstance(node, yaml.MappingNode) else {}
        for name in overrides:
            if name not in declared:
                hint = nearest(name, declared)
                hint_or_names = (
                    f"did you mean {hint!r}?" if hint else f"there are: {', '.join(declared)}"
                )
                msg = f"{self.path}: no variable {name!r}; {hint_or_names if declared else 'the file declares none'}"
                raise SuiteError(msg)
        values: dict[str, str | None] = {}
        for name, default_node in declared.items():
            default = self.plain(default_node)
            if not isinstance(default, str | None):
                raise self.error(
                    default_node, f"the variable {name!r} must be a string, not {default!r}"
                )
            value = overrides.get(name, default)
            if name in overrides and not overrides[name].strip() and default != overrides[name]:
                problem = f"the variable {name!r} is given an empty value"
                cure = f"set a value, or allow an empty one with an empty default: variables: {{{name}: ''}}"
                raise self.error(default_node, f"{problem}; {cure}")
            if value is not None:
                inner = next((m for m in _VARIABLE_SYNTAX.finditer(value) if m[0] != "$${"), None)
                if inner is not None:
                    problem = f"the value of the variable {name!r} contains {inner[0]}"
                    raise self.error(
                        default_node,
                        f"{problem}, but variables are not replaced in it; {_LITERAL_HINT}",
                    )
                value = value.replace("$${", "${")
            values[name] = value
        return values

    def _substitute(
        self,
        node: yaml.ScalarNode,
        variables: Mapping[str, str | None],
        max_characters: int,
        *,
        keep_undeclared: bool,
    ) -> int:
        """Replace the variables of a scalar, and return the total length of their values.

        Parameters
        ----------
        node : yaml.ScalarNode
            The scalar, which is changed in place.
        variables : mapping of str to str or None
            Values of the declared variables.
        max_characters : int
            Maximum total length of the inserted values.
        keep_undeclared : bool
            Whether to keep undeclared variables instead of raising an error.
        """
        letters = 0

        def value_of(match: re.Match[str]) -> str:
            nonlocal letters
            if match[0] == "$${":
                return "${"
            name = match["name"]
            value = variables.get(name) if name else None
            if value is None:
                if keep_undeclared and name not in variables:
                    return match[0]
                raise self.error(node, _missing_value(match[0], name, variables))
            letters += len(value)
            if letters > max_characters:
                raise self.error(
                    node,
                    f"the file's variables expand to more than {_MAX_INSERTED_CHARACTERS:,} characters",
                )
            return value

        node.value = _VARIABLE_SYNTAX.sub(value_of, node.value)
        return letters

    def error(self, node: yaml.Node, problem: object) -> SuiteError:
        """Return an error with the file and the line of a node."""
        return SuiteError(f"{self.path}:{line_of(node)}: {problem}")

    def plain(self, node: yaml.Node) -> Any:
        """Convert a node to strings, lists and dictionaries; unquoted ``null``, ``~`` and nothing become None."""
        if isinstance(node, yaml.ScalarNode):
            empty = node.tag == "tag:yaml.org,2002:null" and node.style is None
            if empty and node.value in ("", "~", "null"):
                return None
            return PlainText(node.value) if node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item) for item in node.value]
        return {key: self.plain(value) for key, value in self.pairs(node)}

    def pairs(self, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the keys of a mapping and the nodes of their values; a duplicate key is an error."""
        keys = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error(key, "a key must be a string")
            if key.value in keys:
                raise self.error(key, f"duplicate key {key.value!r}")
            keys.add(key.value)
            yield key.value, value

    def fields(self, model: type[Model]) -> Model:
        """Validate the file against a model.

        Raises
        ------
        SuiteError
            With the line, the value and the fix; for an unknown field with the nearest name, or all names.
        """
        from pydantic import ValidationError

        try:
            return model.model_validate(self.plain(self.node))
        except ValidationError as error:
            details = error.errors()[0]
            path = [step for step in details["loc"] if not str(step).startswith("\0")]
            is_shown = all(field.repr for name, field in model.model_fields.items() if name in path)
            raise self.error(
                _find_node(self.node, path), _error_message(details, path, is_shown=is_shown)
            ) from None

    def located(self, values: Iterable[T], *path: str) -> Iterator[tuple[T, yaml.Node]]:
        """Yield the values of the list at a path of fields with their nodes."""
        yield from zip(values, self.items(*path), strict=True)

    @contextmanager
    def errors_at(self, node: yaml.Node) -> Iterator[None]:
        """Add the line of a node to errors that are raised in the block."""
        try:
            yield
        except (SuiteError, PreconditionError) as error:
            raise self.error(node, error) from error

    def locate(self, problem: object) -> SuiteError:
        """Return an error with the line of the value that a problem quotes.

        Only values of the first field that the problem names are searched. If none is quoted, the error has
        the line of the field; if no field is named, the line of the file's first field.
        """
        message = str(problem)
        field_positions = [
            (match.start(), number)
            for number, (key, _) in enumerate(self.node.value)
            if (match := re.search(rf"\b{re.escape(key.value.removesuffix('s'))}s?\b", message))
        ]
        if not field_positions:
            return self.error(self.node, problem)
        key, value = self.node.value[min(field_positions)[1]]
        quoted = (scalar for scalar in _scalars(value, set()) if repr(scalar.value) in message)
        return self.error(next(quoted, key), problem)

    def items(self, *path: str) -> Iterator[yaml.Node]:
        """Yield the items of the list at a path of fields; nothing if it is not a list."""
        node: yaml.Node | None = self.node
        for step in path:
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            node = next((value for key, value in pairs if key.value == step), None)
        if isinstance(node, yaml.SequenceNode):
            yield from node.value


def line_of(node: yaml.Node) -> int:
    """Return the line number of a node's start, from 1 on."""
    return int(node.start_mark.line) + 1


_EXPECTED_VALUES = {
    "string_type": "a string",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "dict_type": "a mapping",
    "flag": "true or false",
    "model_type": "a mapping",
    "value": "a number, a string, a date, a time, true, false or null",
}
"""Descriptions of the expected values, by the type of pydantic's error."""


def _error_message(error: Any, location: Sequence[str | int], *, is_shown: bool) -> str:
    """Return a message for an error of pydantic: the problem, the value, and the fix.

    Parameters
    ----------
    error : dict
        One of ``ValidationError.errors()``.
    location : sequence of str or int
        Path of keys and indices of the value.
    is_shown : bool
        Whether the message contains the value, which can be a secret.
    """
    kind, input_value, path = error["type"], error["input"], ".".join(map(str, location))
    message = str(error["msg"]).partition(", unable to")[0]
    if kind == "tidegauge":
        return str(error["msg"])
    if kind == "missing":
        return f"{path}: Field required; add {location[-1]}: VALUE"
    example = f"[{input_value}]" if is_shown and isinstance(input_value, str) else "[a, b]"
    value = f", not {'nothing' if input_value is None else repr(input_value)}" if is_shown else ""
    is_list = kind in {"list_type", "too_short"}
    expected = f"a list: {example}" if is_list else _EXPECTED_VALUES.get(kind)
    if kind == "form":
        expected = message.removeprefix("Input should be ")
    names = [number for number, step in enumerate(location) if isinstance(step, str)]
    if expected and any(
        isinstance(step, int) for step in location[: names[-1]]
    ):  # of a list's object
        item = "" if names[-1] == len(location) - 1 else "an item of "
        return f"{item}{location[names[-1]]} is {expected}{'' if is_list else value}"
    if kind in {"model_type", "dict_type"}:
        message = "Input should be a mapping"
    return f"{path}: {message}{f'; write {example}' if is_list else value}"


def _find_node(node: yaml.Node, path: Sequence[str | int]) -> yaml.Node:
    """Return the node at a path of keys and indices, or its nearest existing ancestor."""
    for number, step in enumerate(path, 1):
        if isinstance(node, yaml.MappingNode):
            pair = next((p for p in node.value if p[0].value == step), None)
            if pair is None:
                break
            node = pair[0] if number == len(path) else pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node


def located(path: str, file: Path) -> str:
    """Return a folder that a file names, as seen from the working directory.

    A relative path is relative to the file. Earlier releases resolved it in the working directory: if it
    exists only there, it is read from there, with a warning.

    Examples
    --------
    >>> located("../data/orders/", Path("suites/orders.yml")), located("s3://b/t/", Path("suites/t.yml"))
    ('data/orders/', 's3://b/t/')
    """
    folder = file.parent
    if _is_fixed(path) or folder == Path():
        return as_folder(path)
    slash = "/" if path.endswith("/") else ""
    beside_file = as_folder(os.path.normpath(folder / path) + slash)
    if not _exists(beside_file) and _exists(path):
        warnings.warn(
            f"{file}: {path} does not exist next to the file, but in the working directory, where it is"
            f" read. Paths are relative to their file: write {relative_to(path, folder)}",
            stacklevel=2,
        )
        return as_folder(path)
    return beside_file


def relative_to(path: str, folder: Path) -> str:
    """Return a path of the working directory relative to a folder.

    Examples
    --------
    >>> relative_to("data/orders/", Path("suites")), relative_to("/data/orders", Path("suites"))
    ('../data/orders/', '/data/orders')
    """
    if _is_fixed(path) or folder == Path():
        return path
    return as_folder(os.path.relpath(path, folder) + ("/" if path.endswith("/") else ""))


def _is_fixed(path: str) -> bool:
    """Return whether a path is absolute or a URI."""
    return "://" in path or path.startswith(("/", "~", "file:"))


def _exists(path: str) -> bool:
    """Return whether a file or folder exists at a path or glob."""
    return Path(path).exists() or next(iglob(path), None) is not None  # noqa: PTH207 - also absolute


def as_folder(path: str) -> str:
    """Return a path with a slash, which distinguishes it from a table's name."""
    return path if "/" in path else f"./{path}"


def verdict_name(path: Path, dataset: str, kind: str, default: str = "") -> str:
    """Return the default name of a file's verdicts.

    The name depends only on the file. Several files of one dataset get different names, so their verdicts do
    not replace each other.

    Parameters
    ----------
    path : Path
        Path of the file.
    dataset : str
        Name of the dataset.
    kind : str
        Suffix such as ``checks``, which is added unless the file's name contains it.
    default : str, optional
        The name for a file that is named like its dataset (default: `kind`).

    Examples
    --------
    >>> verdict_name(Path("suites/flights.yml"), "flights", "checks")
    'checks'
    >>> [verdict_name(Path(name), "flights", "checks") for name in ("nightly.yml", "flight_checks.yml")]
    ['nightly checks', 'flight_checks']
    """
    if path.stem == dataset:
        return default or kind
    return path.stem if kind in path.stem else f"{path.stem} {kind}"


def check_verdict_names(files: Iterable[tuple[Path, str, str]]) -> None:
    """Check that no two files store verdicts of a dataset under one name, where they would replace each other.

    Parameters
    ----------
    files : iterable of (Path, str, str)
        Files with their datasets and the names of their verdicts.

    Raises
    ------
    SuiteError
        If two files share a dataset and a name.
    """
    path_by_name: dict[tuple[str, str], Path] = {}
    for path, dataset, name in files:
        other_path = path_by_name.setdefault((dataset, name), path)
        if other_path != path:
            msg = (
                f"{path}: the verdicts on {dataset!r} are called {name!r}, like the verdicts of {other_path};"
                " give one of the files another name:"
            )
            raise SuiteError(msg)


def _matching(path: Path) -> list[Path]:
    """Return the files that a glob matches."""
    base = Path(path.anchor) if path.is_absolute() else Path()
    try:
        return sorted(base.glob(str(path.relative_to(base))))
    except ValueError as error:
        msg = f"invalid glob {str(path)!r}: {error}"
        raise SuiteError(msg) from error


def find_files(patterns: Sequence[str], kind: str) -> list[Path]:
    """Find YAML files by paths, folders (recursively) and globs, without duplicates.

    Raises
    ------
    SuiteError
        If a pattern matches no file.
    """
    files: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            matches = sorted(p for p in path.rglob("*") if p.suffix in {".yml", ".yaml"})
        elif path.exists():
            matches = [path]
        else:
            matches = _matching(path) if set("*?[") & set(pattern) else []
        if not matches:
            msg = f"no {kind} at {pattern!r}"
            raise SuiteError(msg)
        files.update(dict.fromkeys(matches))
    return list(files)


def load_each(paths: Sequence[Path], load: Callable[[Path], T]) -> tuple[list[T], list[str]]:
    """Load files, and return the valid files and the errors of the invalid files.

    The tables of valid files are measured even if another file is invalid.

    Raises
    ------
    SuiteError
        The first error, if no file is valid.
    """
    files: list[T] = []
    errors: list[SuiteError] = []
    for path in paths:
        try:
            files.append(load(path))
        except SuiteError as error:
            errors.append(error)
    if errors and not files:
        raise errors[0]
    return files, [str(error) for error in errors]


def _missing_value(variable: str, name: str | None, variables: Mapping[str, str | None]) -> str:
    """Return a message about a variable without a value, with the fix.

    Parameters
    ----------
    variable : str
        The variable as written in the file.
    name : str or None
        Name of the variable; None if the brace is not closed.
    variables : mapping of str to str or None
        Values of the declared variables.
    """
    if name in variables:
        return f"the variable {name!r} has no value; add --var {name}=VALUE, or a default: variables: {{{name}: VALUE}}"
    if name is None or not _VARIABLE_NAME.fullmatch(name):
        return f"invalid variable {variable!r}; write ${{region}}, for example; {_LITERAL_HINT}"
    close = nearest(name, variables)
    hint = f"did you mean {close!r}? Otherwise declare" if close else "declare"
    return f"no variable {name!r}; {hint} it: variables: {{{name}: VALUE}}; {_LITERAL_HINT}"


def _scalars(node: yaml.Node, visited: set[int]) -> Iterator[yaml.ScalarNode]:
    """Yield all scalars of a node, including keys of mappings; each node with aliases only once."""
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, visited)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(key, visited)
            yield from _scalars(value, visited)
