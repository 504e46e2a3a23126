"""Read YAML mappings with line numbers for errors.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` are not converted.
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
    """A scalar without quotes, which may stand for a number, a constant, a date or a time."""

    __slots__ = ()


T = TypeVar("T")
Model = TypeVar("Model", bound="BaseModel")
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[^}]{0,200})\})?")
"""``$${``, ``${name}``, or a ``${`` that is not closed."""
_VARIABLE_NAME = re.compile(r"\w[\w.-]*")
_LITERAL = "for a literal ${ write $${"
_MOST_LETTERS = 10_000_000
"""Number of letters that the values of variables may take in a file."""
_MOST_NODES = 1_000_000
"""Values of a file with all aliases replaced by what they stand for."""


def _expanded_size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values below a node; an alias in what it stands for counts as too many."""
    if id(node) not in known:
        known[id(node)] = _MOST_NODES + 1
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for item in below for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_expanded_size(part, known) for part in parts)
    return known[id(node)]


@dataclass(frozen=True)
class YamlFile:
    """A YAML file with a mapping at its root, as nodes with line numbers.

    Attributes
    ----------
    path : Path
    node : yaml.MappingNode
    """

    path: Path
    node: yaml.MappingNode

    @classmethod
    def read(
        cls,
        path: str | Path,
        kind: str,
        begins: str = "dataset: name",
        variables: Mapping[str, str] | None = None,
    ) -> YamlFile:
        """Read and parse a file, and replace its variables.

        A file declares its variables and their defaults under ``variables:``. ``${name}`` in a text
        stands for the value, ``$${`` for ``${``.

        Parameters
        ----------
        path : str or Path
        kind : str
            The expected kind of file, for messages: ``suite file``.
        begins : str
            The first line of such a file, for messages.
        variables : mapping of str to str, optional
            Values of variables in place of their defaults.

        Raises
        ------
        SuiteError
            If it cannot be read, is not YAML, is not a mapping, or if a variable is not declared or has
            no value.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"cannot read the {kind} {path}: {error}"
            raise SuiteError(msg) from error
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{path}:{mark.line + 1}" if mark else str(path)
            msg = f"{where}: not YAML: {error.problem}"
            raise SuiteError(msg) from error
        except yaml.reader.ReaderError as error:
            msg = f"{path}: not YAML: it holds the character {chr(error.character)!r}"
            raise SuiteError(msg) from error
        except RecursionError as error:
            msg = f"{path}: not YAML of a {kind}: lists are nested too deeply"
            raise SuiteError(msg) from error
        if not isinstance(node, yaml.MappingNode):
            msg = f"{path}: a {kind} is one mapping that begins with {begins!r}"
            raise SuiteError(msg)
        if _expanded_size(node, {}) > _MOST_NODES:
            msg = f"{path}: aliases of aliases stand for more than {_MOST_NODES} values"
            raise SuiteError(msg)
        file = cls(path, node)
        file._replace_variables(variables or {})
        return file

    def _replace_variables(self, given: Mapping[str, str]) -> None:
        """Replace ``${name}`` in all texts of the file; ``$${`` stands for ``${``.

        The sinks under ``notify:`` may also name variables of the environment, which are read when a
        message is sent.
        """
        node = next((value for key, value in self.node.value if key.value == "variables"), None)
        values = self._variable_values(node, given)
        left, seen = _MOST_LETTERS, set[int]()
        for key, value in self.node.value:
            if key.value != "variables":
                for scalar in (key, *_scalars(value, seen)):
                    left -= self._substitute(scalar, values, left, undeclared=key.value == "notify")

    def _variable_values(
        self, node: yaml.Node | None, given: Mapping[str, str]
    ) -> dict[str, str | None]:
        """Return the values of the declared variables; None for a variable without one."""
        declared = dict(self.pairs(node)) if isinstance(node, yaml.MappingNode) else {}
        for name in given:
            if name not in declared:
                hint = nearest(name, declared)
                known = f"did you mean {hint!r}?" if hint else f"there are: {', '.join(declared)}"
                msg = f"{self.path}: no variable {name!r}; {known if declared else 'the file declares none'}"
                raise SuiteError(msg)
        values: dict[str, str | None] = {}
        for name, default_node in declared.items():
            default = self.plain(default_node)
            if not isinstance(default, str | None):
                raise self.error(default_node, f"the variable {name!r} is a text, not {default!r}")
            value = given.get(name, default)
            if name in given and not given[name].strip() and default != given[name]:
                problem = f"the variable {name!r} is given an empty value"
                cure = f"give it one, or allow it by an empty default: variables: {{{name}: ''}}"
                raise self.error(default_node, f"{problem}; {cure}")
            if value is not None:
                inner = next((m for m in _VARIABLE.finditer(value) if m[0] != "$${"), None)
                if inner is not None:
                    problem = f"the value of the variable {name!r} contains {inner[0]}"
                    raise self.error(
                        default_node, f"{problem}, but variables are not replaced in it; {_LITERAL}"
                    )
                value = value.replace("$${", "${")
            values[name] = value
        return values

    def _substitute(
        self,
        node: yaml.ScalarNode,
        variables: Mapping[str, str | None],
        most: int,
        *,
        undeclared: bool,
    ) -> int:
        """Replace variables in a text, and return how many letters their values take.

        Parameters
        ----------
        node : yaml.ScalarNode
        variables : mapping of str to str or None
        most : int
            Number of letters that their values may take.
        undeclared : bool
            Whether to leave variables that are not declared as they are.
        """
        letters = 0

        def value_of(match: re.Match[str]) -> str:
            nonlocal letters
            if match[0] == "$${":
                return "${"
            name = match["name"]
            value = variables.get(name) if name else None
            if value is None:
                if undeclared and name not in variables:
                    return match[0]
                raise self.error(node, _missing_value(match[0], name, variables))
            letters += len(value)
            if letters > most:
                raise self.error(
                    node, f"the file's variables take more than {_MOST_LETTERS:,} letters"
                )
            return value

        node.value = _VARIABLE.sub(value_of, node.value)
        return letters

    def error(self, node: yaml.Node, problem: object) -> SuiteError:
        """Return an error with the file and the line of a node."""
        return SuiteError(f"{self.path}:{line_of(node)}: {problem}")

    def plain(self, node: yaml.Node) -> Any:
        """Convert a node to text, lists and dictionaries; plain ``null``, ``~`` and nothing to None."""
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
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error(key, "a key must be text")
            if key.value in seen:
                raise self.error(key, f"{key.value!r} stands here a second time")
            seen.add(key.value)
            yield key.value, value

    def fields(self, model: type[Model]) -> Model:
        """Validate the file against a model.

        Raises
        ------
        SuiteError
            With the line, the value and the fix; for an unknown field with the nearest one, or all.
        """
        from pydantic import ValidationError

        try:
            return model.model_validate(self.plain(self.node))
        except ValidationError as error:
            first = error.errors()[0]
            place = [step for step in first["loc"] if not str(step).startswith("\0")]
            shown = all(field.repr for name, field in model.model_fields.items() if name in place)
            raise self.error(_find(self.node, place), _worded(first, place, shown=shown)) from None

    def located(self, values: Iterable[T], *place: str) -> Iterator[tuple[T, yaml.Node]]:
        """Yield the values of the list at a path of fields with their nodes."""
        yield from zip(values, self.items(*place), strict=True)

    @contextmanager
    def errors_at(self, node: yaml.Node) -> Iterator[None]:
        """Give errors of the block the line of a node."""
        try:
            yield
        except (SuiteError, PreconditionError) as error:
            raise self.error(node, error) from error

    def about(self, problem: object) -> SuiteError:
        """Return an error with the line of what the problem is about.

        That is the value that the problem quotes, of the field that it names first; else the field; else
        the file.
        """
        text = str(problem)
        places = [
            (found.start(), number)
            for number, (key, _) in enumerate(self.node.value)
            if (found := re.search(rf"\b{re.escape(key.value.removesuffix('s'))}s?\b", text))
        ]
        if not places:
            return self.error(self.node, problem)
        key, value = self.node.value[min(places)[1]]
        quoted = (scalar for scalar in _scalars(value, set()) if repr(scalar.value) in text)
        return self.error(next(quoted, key), problem)

    def items(self, *place: str) -> Iterator[yaml.Node]:
        """Yield the items of the list at a path of fields; none if there is no list."""
        node: yaml.Node | None = self.node
        for step in place:
            found = node.value if isinstance(node, yaml.MappingNode) else ()
            node = next((value for key, value in found if key.value == step), None)
        if isinstance(node, yaml.SequenceNode):
            yield from node.value


def line_of(node: yaml.Node) -> int:
    """Return the line number of a node's start, from 1 on."""
    return int(node.start_mark.line) + 1


_EXPECTED = {
    "string_type": "a text",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "dict_type": "a mapping",
    "flag": "true or false",
    "model_type": "a mapping",
    "value": "a number, a text, a date, a time, true, false or null",
}
"""Values that an option takes, by the type of pydantic's error."""


def _worded(error: Any, place: Sequence[str | int], *, shown: bool) -> str:
    """Return a message about an error of pydantic: what is wrong, the value, and the fix.

    Parameters
    ----------
    error : dict
        One of ``ValidationError.errors()``.
    place : sequence of str or int
        Path of keys and indices.
    shown : bool
        Whether the value may be shown; it may be a secret.
    """
    kind, given, path = error["type"], error["input"], ".".join(map(str, place))
    message = str(error["msg"]).partition(", unable to")[0]
    if kind == "tidegauge":
        return str(error["msg"])
    if kind == "missing":
        return f"{path}: Field required; add {place[-1]}: VALUE"
    example = f"[{given}]" if shown and isinstance(given, str) else "[a, b]"
    value = f", not {'nothing' if given is None else repr(given)}" if shown else ""
    is_list = kind in {"list_type", "too_short"}
    expected = f"a list: {example}" if is_list else _EXPECTED.get(kind)
    if kind == "form":
        expected = message.removeprefix("Input should be ")
    names = [number for number, step in enumerate(place) if isinstance(step, str)]
    if expected and any(isinstance(step, int) for step in place[: names[-1]]):  # of a list's object
        item = "" if names[-1] == len(place) - 1 else "an item of "
        return f"{item}{place[names[-1]]} is {expected}{'' if is_list else value}"
    if kind in {"model_type", "dict_type"}:
        message = "Input should be a mapping"
    return f"{path}: {message}{f'; write {example}' if is_list else value}"


def _find(node: yaml.Node, place: Sequence[str | int]) -> yaml.Node:
    """Return the node at a path of keys and indices, or its nearest existing ancestor."""
    for number, step in enumerate(place, 1):
        if isinstance(node, yaml.MappingNode):
            pair = next((p for p in node.value if p[0].value == step), None)
            if pair is None:
                break
            node = pair[0] if number == len(place) else pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node


def located(path: str, file: Path) -> str:
    """Return a folder that a file names, as seen from the working directory.

    A relative path is relative to the file. Earlier releases took it as relative to the working directory:
    if it exists only there, that is what is read, with a warning.

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
            f"{file}: {path} does not exist beside the file, but in the working directory, where it is"
            f" read. Paths are relative to their file: write {relative_to(path, folder)}",
            stacklevel=2,
        )
        return as_folder(path)
    return beside_file


def relative_to(path: str, folder: Path) -> str:
    """Return a path, given as seen from the working directory, as a file in a folder names it.

    Examples
    --------
    >>> relative_to("data/orders/", Path("suites")), relative_to("/data/orders", Path("suites"))
    ('../data/orders/', '/data/orders')
    """
    if _is_fixed(path) or folder == Path():
        return path
    return as_folder(os.path.relpath(path, folder) + ("/" if path.endswith("/") else ""))


def _is_fixed(path: str) -> bool:
    """Return whether a path is the same from everywhere: absolute, or a URI."""
    return "://" in path or path.startswith(("/", "~", "file:"))


def _exists(path: str) -> bool:
    """Return whether a file or folder exists, or one that a pattern matches."""
    return Path(path).exists() or next(iglob(path), None) is not None  # noqa: PTH207 - also absolute


def as_folder(path: str) -> str:
    """Return a path with a slash, which distinguishes it from a table's name."""
    return path if "/" in path else f"./{path}"


def verdict_name(path: Path, dataset: str, kind: str, same: str = "") -> str:
    """Return the name of a file's verdicts, if it does not give one.

    The name depends on the file alone, not on what other files there are: several files of one
    dataset are called differently, so their verdicts do not replace each other.

    Parameters
    ----------
    path : Path
    dataset : str
    kind : str
        Such as ``checks``, which stands behind the file's name unless that holds it.
    same : str, optional
        The name if the file is called as its dataset; the kind if not given.

    Examples
    --------
    >>> verdict_name(Path("suites/flights.yml"), "flights", "checks")
    'checks'
    >>> [verdict_name(Path(name), "flights", "checks") for name in ("nightly.yml", "flight_checks.yml")]
    ['nightly checks', 'flight_checks']
    """
    if path.stem == dataset:
        return same or kind
    return path.stem if kind in path.stem else f"{path.stem} {kind}"


def check_verdict_names(files: Iterable[tuple[Path, str, str]]) -> None:
    """Check that no two files keep verdicts of a dataset under one name: they would take turns.

    Parameters
    ----------
    files : iterable of (Path, str, str)
        Files with their datasets and the names of their verdicts.

    Raises
    ------
    SuiteError
    """
    seen: dict[tuple[str, str], Path] = {}
    for path, dataset, name in files:
        first = seen.setdefault((dataset, name), path)
        if first != path:
            msg = (
                f"{path}: the verdicts on {dataset!r} are called {name!r}, as are those of {first};"
                " give one of the files another name:"
            )
            raise SuiteError(msg)


def _matching(path: Path) -> list[Path]:
    """Return the files that a glob matches."""
    base = Path(path.anchor) if path.is_absolute() else Path()
    try:
        return sorted(base.glob(str(path.relative_to(base))))
    except ValueError as error:
        msg = f"{str(path)!r} is no glob: {error}"
        raise SuiteError(msg) from error


def find_files(patterns: Sequence[str], kind: str) -> list[Path]:
    """Find YAML files by paths, folders (recursively) and globs, without duplicates.

    Raises
    ------
    SuiteError
        If one matches nothing.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            some = sorted(p for p in path.rglob("*") if p.suffix in {".yml", ".yaml"})
        elif path.exists():
            some = [path]
        else:
            some = _matching(path) if set("*?[") & set(pattern) else []
        if not some:
            msg = f"no {kind} at {pattern!r}"
            raise SuiteError(msg)
        found.update(dict.fromkeys(some))
    return list(found)


def load_each(paths: Sequence[Path], load: Callable[[Path], T]) -> tuple[list[T], list[str]]:
    """Load files; return those that are valid, and the errors of the others.

    One broken file does not keep the tables of the others from being measured.

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


def _missing_value(text: str, name: str | None, variables: Mapping[str, str | None]) -> str:
    """Return what is wrong with ``${name}`` in a text, and how to give it a value.

    Parameters
    ----------
    text : str
        As it stands in the file.
    name : str or None
        None if it is not closed.
    variables : mapping of str to str or None
        Values of the declared variables.
    """
    if name in variables:
        return f"the variable {name!r} has no value; add --var {name}=VALUE, or a default: variables: {{{name}: VALUE}}"
    if name is None or not _VARIABLE_NAME.fullmatch(name):
        return f"{text!r} names no variable such as ${{region}}; {_LITERAL}"
    close = nearest(name, variables)
    hint = f"did you mean {close!r}? Else declare" if close else "declare"
    return f"no variable {name!r}; {hint} it by variables: {{{name}: VALUE}}; {_LITERAL}"


def _scalars(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    """Yield all texts of a node, keys of mappings among them; what aliases stand for once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, seen)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(key, seen)
            yield from _scalars(value, seen)
