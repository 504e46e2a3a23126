"""Suite files: YAML that says what to measure, read with the line of everything in it.

Every scalar is read as text and typed by its field, so ``hr: 07`` and ``NO`` stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from analyzers.catalogue import ANALYZERS
from analyzers.errors import PreconditionError, SuiteError, TidegaugeError, nearest
from analyzers.segments import MAX_SEGMENTS
from repository.anomalies.monitor import Monitor
from tidegauge.suite import AnyAnalyzer, Suite


class _Time(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: str
    key: str | None = None
    keys: list[str] | None = None


class _File(BaseModel):
    """The fields of a suite file."""

    model_config = ConfigDict(extra="forbid")

    dataset: str
    table: str | None = None
    path: str | None = None
    format: str = "parquet"
    options: dict[str, str] = {}
    partition_by: list[str] | None = None
    time: _Time | None = None
    segments: list[list[str]] = []
    analyzers: list[Any]
    monitors: list[dict[str, Any]] = []
    windows: list[str] = []
    tags: dict[str, str] = {}
    max_segments: int = MAX_SEGMENTS
    holidays: str | dict[str, str] | None = None
    notify: list[str] = []


@dataclass(frozen=True)
class SuiteFile:
    """A suite, what it is to be run on, and where in the file each analyzer stands.

    Attributes
    ----------
    path : Path
    suite : Suite
    table : str
        A table's name, or a folder.
    format : str
    options : mapping of str to str
    lines : mapping of Analyzer to int
    """

    path: Path
    suite: Suite
    table: str
    format: str
    options: Mapping[str, str]
    lines: Mapping[AnyAnalyzer, int]

    def explain(self, analyzer: AnyAnalyzer, error: TidegaugeError) -> str:
        """Say what failed, with the line that asked for it."""
        line = self.lines.get(analyzer)  # none for what the rules count
        return f"{self.path}{f':{line}' if line else ''}: {analyzer!r}: {error}"


def load_suite(path: str | Path) -> SuiteFile:
    """Read a suite file.

    Raises
    ------
    SuiteError
        Naming file and line, what is wrong, and the nearest name that there is.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read the suite file {path}: {error}"
        raise SuiteError(msg) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        msg = f"{where}: not YAML: {error.problem}"
        raise SuiteError(msg) from error
    if not isinstance(node, yaml.MappingNode):
        msg = f"{path}: a suite file is one mapping that begins with 'dataset: name'"
        raise SuiteError(msg)
    return _Reader(path, node).read()


class _Reader:
    """Turns a file's nodes into a suite, and knows the line of each."""

    def __init__(self, path: Path, node: yaml.MappingNode) -> None:
        self.path, self.node = path, node

    def read(self) -> SuiteFile:
        fields = self._checked(_plain(self.node, self._fail))
        if (fields.table is None) == (fields.path is None):
            raise self._error(self.node, "a suite file names either a table or a path")
        lines: dict[AnyAnalyzer, int] = {}
        for item in self._items("analyzers"):
            lines.setdefault(self._analyzer(item), _line(item))
        monitors = [self._monitor(item) for item in self._items("monitors")]
        try:
            suite = Suite(
                dataset=fields.dataset,
                analyzers=list(lines),
                partition_by=fields.partition_by,
                time=fields.time.model_dump(exclude_none=True) if fields.time else None,
                segments=fields.segments,
                monitors=monitors,
                windows=fields.windows,
                tags=fields.tags,
                max_segments=fields.max_segments,
                holidays=fields.holidays,
                notify=fields.notify,
            )
        except SuiteError as error:
            raise self._error(self.node, str(error)) from error
        table = fields.table or _as_folder(str(fields.path))
        return SuiteFile(self.path, suite, table, fields.format, fields.options, lines)

    def _checked(self, plain: Any) -> _File:
        try:
            return _File.model_validate(plain)
        except ValidationError as error:
            first = error.errors()[0]
            place = first["loc"]
            node = _find(self.node, place)
            name = str(place[-1])
            if first["type"] == "extra_forbidden":
                known = _Time.model_fields if place[0] == "time" else _File.model_fields
                close = nearest(name, known)
                hint = f"did you mean {close!r}?" if close else f"there are: {', '.join(known)}"
                raise self._error(node, f"unknown field {name!r}; {hint}") from None
            where = ".".join(map(str, place))
            raise self._error(node, f"{where}: {first['msg']}") from None

    def _items(self, field: str) -> Iterator[yaml.Node]:
        for key, value in self.node.value:
            if key.value == field and isinstance(value, yaml.SequenceNode):
                yield from value.value

    def _analyzer(self, item: yaml.Node) -> AnyAnalyzer:
        plain = _plain(item, self._fail)
        try:
            if isinstance(plain, str):
                return ANALYZERS.parse(plain)
            if not isinstance(plain, Mapping) or len(plain) != 1:
                msg = "an analyzer is a name, or a name with its column or options"
                raise SuiteError(msg)  # noqa: TRY301 - given its line below like the others
            ((name, given),) = plain.items()
            if isinstance(given, Mapping):
                return ANALYZERS.build(name, given)
            return ANALYZERS.build(name, {}, [] if given in ("", None) else [given])
        except (SuiteError, PreconditionError) as error:
            raise self._error(item, str(error)) from error

    def _monitor(self, item: yaml.Node) -> Monitor:
        try:
            return Monitor.from_dict(_plain(item, self._fail))
        except (SuiteError, PreconditionError) as error:
            raise self._error(item, str(error)) from error

    def _fail(self, node: yaml.Node, problem: str) -> SuiteError:
        return self._error(node, problem)

    def _error(self, node: yaml.Node, problem: str) -> SuiteError:
        return SuiteError(f"{self.path}:{_line(node)}: {problem}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _plain(node: yaml.Node, fail: Any) -> Any:
    """Return a node as text, lists and dictionaries."""
    if isinstance(node, yaml.ScalarNode):
        empty = node.tag == "tag:yaml.org,2002:null" and node.style is None
        return None if empty and node.value in ("", "~", "null") else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, fail) for item in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise fail(key, "a key must be text")
        if key.value in found:
            raise fail(key, f"{key.value!r} stands here a second time")
        found[key.value] = _plain(value, fail)
    return found


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


def _as_folder(path: str) -> str:
    return path if "/" in path else f"./{path}"


def find_suites(patterns: Sequence[str]) -> list[Path]:
    """Return the suite files that paths, folders and globs name, each once.

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
            msg = f"no suite file at {pattern!r}"
            raise SuiteError(msg)
        found.update(dict.fromkeys(some))
    return list(found)
