"""Report code of the product that nothing in the product uses: ``python -m tests.dead_code``.

Tests and doctests do not count as uses: code that only they need belongs to the tests. Two
searches complement each other. Vulture covers methods, fields and variables, but considers a
name used if any object has an attribute of that name. `unreferenced` follows imports, so it
finds an unused function, class or constant that shares its name with something else.

Names on the pages of the reference count as used, with the members of documented classes. So do
keys of typed dictionaries, names in strings such as ``"tidegauge.rules.tally:RecordRulesJob"``,
and definitions with a decorator of `REGISTERING`. `ALLOWED` lists the rest, and `main` fails for
an entry that is no longer needed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture

from tests.paths import ROOT

FOLDERS = ("analyzers", "migrations", "repository", "tidegauge")
REGISTERING = [
    "@*.callback",
    "@*.command",
    "@*.register",
    "@*.validate",
    "@analyzer",
    "@compiles",
    "@detector",
    "@frame_operation",
    "@rule",
    "@sa.event.listens_for",
]
"""Decorators that register a function or class in a table, where the product looks it up."""
ALLOWED: Mapping[str, str] = {
    "modules define them for Python": "__all__ __dir__ __getattr__",
    "Airflow calls them": "airflow_provider ti_key",
    "Click calls it": "format_commands",
    "DataSketches calls them": "get_size to_bytes",
    "IPython calls them": "_ipython_display_ _render_traceback_",
    "Lark calls them, by the names of the grammar's rules": (
        "accuracy all_of between_listed bracketed from_clause group_clause like limit_clause"
        " null_test order_clause order_item where_clause"
    ),
    "Lark reads it": "always_accept",
    "pandas calls it": "_constructor",
    "Pydantic reads or calls them": (
        "at_most bool_schema exactly field_title_should_be_set float_schema int_schema less_than"
        " model_config more_than rel str_schema"
    ),
    "PyIceberg calls or passes them": "new_output seekable",
    "Python's warnings, threads and SQLite read them": (
        "daemon filename isolation_level lineno showwarning"
    ),
    "SQLAlchemy reads them": (
        "cache_ok impl inherit_cache load_dialect_impl process_bind_param process_result_value"
    ),
    "Tornado calls or reads them": (
        "header_timeout log_exception post set_default_headers set_extra_headers write_error"
    ),
    "Typer reads the values of an option": "DARK",
    "sqlglot reads it": "COMMANDS",
    "the dashboard's script has their types": "ErrorReply Reply Request",
    "nothing is deprecated yet, and docs/stability.md promises how it will be": (
        "deprecated deprecated_names renamed_parameters"
    ),
    "code reads them with getattr": "key_hash null_keys temporal unmatched",
    "keys of Griffin's files, which are checked and have no effect": "log_level updatable",
    "notebooks and examples make their tables with them": "log_search make_features",
}
"""Names that count as used, separated by spaces, by the reason."""

Trees = Mapping[str, ast.Module]


def parse(root: Path = ROOT, folders: Iterable[str] = FOLDERS) -> dict[str, ast.Module]:
    """Return the syntax trees of the product's modules and stubs, by path; links are not followed."""
    paths = [
        path
        for folder in folders
        for path in sorted((root / folder).rglob("*.py*"))
        if path.suffix in {".py", ".pyi"} and not {"node_modules", "versions"} & set(path.parts)
    ]
    linked = [root / "tidegauge" / folder for folder in folders if folder != "tidegauge"]
    return {
        str(path.relative_to(root)): ast.parse(path.read_text())
        for path in paths
        if not any(path.is_relative_to(link) for link in linked)
    }


def documented(root: Path = ROOT) -> set[str]:
    """Return the names that have an entry on a page of the reference."""
    pages = (root / "docs" / "reference" / "api").glob("*.md")
    text = "\n".join(page.read_text() for page in pages)
    return {entry.rpartition(".")[2] for entry in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}


def reached(trees: Trees, public: set[str]) -> set[str]:
    """Return the names of the product that are reached in other ways than by its code.

    Parameters
    ----------
    trees : mapping of str to ast.Module
        The syntax trees by path.
    public : set of str
        Documented names. Members of documented classes, and of their bases, are public as well.
    """
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, []).append(node)
    names, waiting = set(public), [name for name in public if name in classes]
    seen = set(waiting)
    while waiting:
        for node in classes[waiting.pop()]:
            names.update(name for name, _ in members(node) if not name.startswith("_"))
            bases = {base for base in bases_of(node) if base in classes} - seen
            seen |= bases
            waiting += bases
    typed = {"TypedDict"}
    while more := {n for n in classes if any(typed & {*bases_of(c)} for c in classes[n])} - typed:
        typed |= more
    names |= {name for n in typed & classes.keys() for c in classes[n] for name, _ in members(c)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(re.findall(r"^[\w.]*:(\w+)$", node.value))
    return names


def bases_of(node: ast.ClassDef) -> list[str]:
    """Return the names of a class's bases, without their modules and parameters."""
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def members(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that a module or class defines in its body, each with its statement."""
    for part in node.body:
        match part:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, part
            case ast.Assign(targets=targets):
                yield from ((n.id, part) for t in targets for n in ast.walk(t) if _is_bound(n))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, part


def loaded(tree: ast.AST) -> Iterator[str]:
    """Yield the names that code reads, as often as it reads them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def unreferenced(trees: Trees) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and name of module-level definitions without a use in any module."""
    modules = {module_of(path) for path in trees}
    uses = {use for path, tree in trees.items() for use in imported(path, tree, modules)}
    for path, tree in trees.items():
        loads = list(loaded(tree))
        for name, node in members(tree) if path.endswith(".py") else ():
            elsewhere = loads.count(name) > list(loaded(node)).count(name)
            if not elsewhere and f"{module_of(path)}.{name}" not in uses and not registers(node):
                decorators = getattr(node, "decorator_list", ())
                yield path, min(part.lineno for part in (node, *decorators)), name


def module_of(path: str) -> str:
    """Return the import name of a file's module."""
    name = re.sub(r"(/__init__)?\.pyi?$", "", path).replace("/", ".")
    return name if name.startswith("tidegauge") else f"tidegauge.{name}"


def imported(path: str, tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """Yield the full names that a module imports, or reads as attributes of imported modules."""
    package = module_of(path) if "/__init__" in path else module_of(path).rpartition(".")[0]
    local = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = package if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                if f"{base}.{alias.name}" in modules:
                    local[alias.asname or alias.name] = f"{base}.{alias.name}"
                else:
                    yield f"{base}.{alias.name}"
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in local:
                yield f"{local[name]}.{attribute}"


def registers(node: ast.stmt) -> bool:
    """Return whether a definition has a decorator of `REGISTERING`."""
    decorators = [ast.unparse(d).partition("(")[0] for d in getattr(node, "decorator_list", ())]
    return any(fnmatch(f"@{name}", pattern) for name in decorators for pattern in REGISTERING)


def dead(root: Path = ROOT, folders: Iterable[str] = FOLDERS) -> dict[str, list[str]]:
    """Return the places of unused definitions by name, before `ALLOWED` is applied."""
    trees = parse(root, folders)
    vulture = Vulture(ignore_decorators=REGISTERING)
    places: dict[str, list[str]] = {}
    for path in trees:
        vulture.scan((root / path).read_text(), filename=Path(path))
    for item in vulture.get_unused_code():
        places.setdefault(item.name, []).append(f"{item.filename}:{item.first_lineno}")
    for path, line, name in unreferenced(trees):
        if f"{path}:{line}" not in places.get(name, ()):
            places.setdefault(name, []).append(f"{path}:{line}")
    used = reached(trees, documented(root))
    return {name: places[name] for name in sorted(places) if name not in used}


def complaints(unused: Mapping[str, list[str]], allowed: Iterable[str]) -> list[str]:
    """Return a line for each unused definition that is not allowed, and each needless allowance."""
    lines = [
        f"{place}: nothing in the product uses {name!r}: delete it"
        for name, places in unused.items()
        if name not in allowed
        for place in places
    ]
    return lines + [
        f"{name!r} is used, or gone: delete it from ALLOWED"
        for name in allowed
        if name not in unused
    ]


def main() -> int:
    """Print the complaints, and return the exit status."""
    lines = complaints(dead(), " ".join(ALLOWED.values()).split())
    print("\n".join(lines) or "no dead code")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
