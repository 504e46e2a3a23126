"""YAML files that are one mapping, read with the line of everything in them.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from analyzers.errors import SuiteError, nearest


class Time(BaseModel):
    """How partitions tell their time, as files write it."""

    model_config = ConfigDict(extra="forbid")

    format: str
    key: str | None = None
    keys: list[str] | None = None


Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class YamlFile:
    """A file that is one mapping, as nodes that know their lines.

    Attributes
    ----------
    path : Path
    node : yaml.MappingNode
    """

    path: Path
    node: yaml.MappingNode

    @classmethod
    def read(cls, path: str | Path, kind: str, begins: str = "dataset: name") -> YamlFile:
        """Read a file.

        Parameters
        ----------
        path : str or Path
        kind : str
            What it should be, for messages: ``suite file``.
        begins : str
            How such a file begins, for messages.

        Raises
        ------
        SuiteError
            If it cannot be read, or is no mapping.
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
        if not isinstance(node, yaml.MappingNode):
            msg = f"{path}: a {kind} is one mapping that begins with {begins!r}"
            raise SuiteError(msg)
        return cls(path, node)

    def error(self, node: yaml.Node, problem: object) -> SuiteError:
        """Return an error that names the file and the line of a node."""
        return SuiteError(f"{self.path}:{line_of(node)}: {problem}")

    def plain(self, node: yaml.Node) -> Any:
        """Return a node as text, lists and dictionaries; an empty one, ``~`` and ``null`` as None."""
        if isinstance(node, yaml.ScalarNode):
            empty = node.tag == "tag:yaml.org,2002:null" and node.style is None
            return None if empty and node.value in ("", "~", "null") else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item) for item in node.value]
        return {key: self.plain(value) for key, value in self.pairs(node)}

    def pairs(self, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the keys of a mapping and the nodes of their values, each key once."""
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error(key, "a key must be text")
            if key.value in seen:
                raise self.error(key, f"{key.value!r} stands here a second time")
            seen.add(key.value)
            yield key.value, value

    def fields(self, model: type[Model], inner: Mapping[str, type[BaseModel]]) -> Model:
        """Return the file as a model.

        Parameters
        ----------
        model : type of BaseModel
        inner : mapping of str to type of BaseModel
            The models of fields that are mappings with fields of their own.

        Raises
        ------
        SuiteError
            Naming the line, and the nearest field that there is.
        """
        plain = self.plain(self.node)
        try:
            return model.model_validate(plain)
        except ValidationError as error:
            first = error.errors()[0]
            place = first["loc"]
            node = _find(self.node, place)
            name = str(place[-1])
            if first["type"] == "extra_forbidden":
                fields = inner.get(str(place[0]), model).model_fields
                known = [field.alias or name for name, field in fields.items()]
                close = nearest(name, known)
                hint = f"did you mean {close!r}?" if close else f"there are: {', '.join(known)}"
                raise self.error(node, f"unknown field {name!r}; {hint}") from None
            where = ".".join(map(str, place))
            raise self.error(node, f"{where}: {first['msg']}") from None

    def items(self, *place: str) -> Iterator[yaml.Node]:
        """Yield the items of a list that a path of fields leads to; none if it is not there."""
        node: yaml.Node | None = self.node
        for step in place:
            found = node.value if isinstance(node, yaml.MappingNode) else ()
            node = next((value for key, value in found if key.value == step), None)
        if isinstance(node, yaml.SequenceNode):
            yield from node.value


def line_of(node: yaml.Node) -> int:
    """Return the line on which a node begins, from 1 on."""
    return int(node.start_mark.line) + 1


def _find(node: yaml.Node, place: Sequence[str | int]) -> yaml.Node:
    """Return the node that a path of keys and positions leads to, or the nearest above it."""
    for step in place:
        if isinstance(node, yaml.MappingNode):
            pair = next((p for p in node.value if p[0].value == step), None)
            if pair is None:
                break
            node = pair[0] if step == place[-1] else pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node


def as_folder(path: str) -> str:
    """Return a path with a slash, which tells it from a table's name."""
    return path if "/" in path else f"./{path}"


def find_files(patterns: Sequence[str], kind: str) -> list[Path]:
    """Return the YAML files that paths, folders and globs name, each once.

    Raises
    ------
    SuiteError
        If one names nothing.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            some = sorted(p for p in path.rglob("*") if p.suffix in {".yml", ".yaml"})
        elif path.exists():
            some = [path]
        else:
            base = Path(path.anchor) if path.is_absolute() else Path()
            some = (
                sorted(base.glob(str(path.relative_to(base)))) if set("*?[") & set(pattern) else []
            )
        if not some:
            msg = f"no {kind} at {pattern!r}"
            raise SuiteError(msg)
        found.update(dict.fromkeys(some))
    return list(found)
