"""Architecture rules: direction of imports, cost of importing, documentation, sizes, folders of tests."""

import ast
import builtins
import functools
import json
import re
import subprocess
import sys

import pytest

import tidegauge as tg
from tests.paths import ROOT

LINKED = ("analyzers", "repository", "migrations")
LAYERS = [
    "analyzers.core",
    "repository.numerics",
    "analyzers.measures",
    "analyzers.scan",
    "analyzers.columnar",
    "analyzers.sources",
    "analyzers.runs",
    "repository.store",
    "repository.rollups",
    "repository.maintenance",
    "migrations",
    "repository.detectors",
    "repository.distributions",
    "repository.incidents",
    "repository.detection",
    "repository.history",
    "repository",
    "repository.exchange",
    "repository.testing",
    "",  # the public API and the products, which may import each other
    "cli",
    "__main__",
]
"""Layers below tidegauge, from the lowest: each imports only from itself and from lower ones."""
REACHED_BACK = {("migrations", "repository.store.database")}
"""The folder of the revisions is located as a package; it imports the tables when Alembic runs it."""
HANDLES = {"_jvm", "_jdf", "_jsc", "_jsparkSession"}
"""Attributes of PySpark's classic classes that access the JVM."""
MAX_MODULES = 300
"""Code that is read together belongs in one module."""
QUESTION = re.compile(r"(What|Which|How|Who|Whose|When)\b")


@functools.cache
def modules():
    """Return each module's syntax tree by its import name; links are not followed twice."""
    found = {}
    for folder in (*LINKED, "tidegauge"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            linked = parts[0] == "tidegauge" and len(parts) > 2 and parts[1] in LINKED
            if not linked and not {"node_modules", "versions"} & set(parts):
                name = ".".join(parts).removesuffix(".__init__")
                name = name if name.startswith("tidegauge") else f"tidegauge.{name}"
                found[name] = ast.parse(path.read_text())
    return found


@functools.cache
def nodes():
    """Return each node of the syntax trees with its module."""
    return [(module, node) for module, tree in modules().items() for node in ast.walk(tree)]


@functools.cache
def imports(module):
    """Return all imports of a module: with itself, inside functions, and for types only."""
    found = set()
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules() else str(node.module))
    return found


def layer(module):
    room = module.removeprefix("tidegauge").removeprefix(".")
    inside = [name for name in LAYERS if not name or room == name or room.startswith(f"{name}.")]
    return LAYERS.index(max(inside, key=len))


def test_imports_go_from_higher_to_lower_layers():
    """This includes imports for types and inside functions."""
    wrong = [
        f"{module} imports {other}"
        for module in modules()
        for other in imports(module) & modules().keys() - {"tidegauge"}
        if layer(other) > layer(module)
        and (other.removeprefix("tidegauge."), module.removeprefix("tidegauge."))
        not in REACHED_BACK
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_cycle():
    graph = {m: imports(m) & modules().keys() - {"tidegauge", m} for m in modules()}
    while free := [m for m, others in graph.items() if not others & graph.keys()]:
        for module in free:
            del graph[module]
    assert sorted(graph) == []


def test_each_layer_imports_only_its_libraries():
    """Measuring imports no SQL database, the repository no Spark, and the widget no tables."""
    for module in modules():
        roots = {name.partition(".")[0] for name in imports(module)}
        if module.startswith("tidegauge.analyzers"):
            assert not roots & {"sqlalchemy", "alembic"}, module
        if module.startswith(("tidegauge.repository", "tidegauge.migrations")):
            assert not roots & {"pyspark"}, module
        if module.startswith("tidegauge.widgets"):
            assert not roots & {"pyspark", "alembic"}, module
            # Queries pass an open connection on, and use its type; they contain no SQL.
            sql = {name for name in imports(module) if name.startswith("sqlalchemy")}
            assert sql <= {"sqlalchemy.engine"}, module
            assert "tidegauge.repository.store.schema" not in imports(module), module


def test_spark_is_never_imported_with_a_module():
    """They may be inside functions, so that everything imports on a laptop."""
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "pyspark" for name in names), module


def test_nothing_uses_the_jvm_or_pickle():
    used = [
        f"{module}.{node.attr}"
        for module, node in nodes()
        if isinstance(node, ast.Attribute) and node.attr in HANDLES
    ]
    assert used == []
    for module in modules():
        roots = {name.partition(".")[0] for name in imports(module)}
        assert not roots & {"py4j", "pickle", "cloudpickle", "dill"}, module


def test_no_docstring_begins_with_a_question_word():
    """It begins with the noun or the verb that one would type into a search box."""
    asked = []
    for module, node in nodes():
        text = None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value  # of a constant or an attribute
        if isinstance(text, str) and QUESTION.match(text):
            asked.append(f"{module}.{getattr(node, 'name', '')}: {text.splitlines()[0]}")
    assert asked == []


def test_the_architecture_is_wrapped():
    """At 100 columns, except for tables and drawings."""
    prose = re.sub(r"```.*?```", "", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > 100] == []


def test_the_architecture_names_files_and_folders_that_exist():
    names = re.findall(r"`([\w./…*]+)`", (ROOT / "ARCHITECTURE.md").read_text())
    paths = [name for name in names if "/" in name or name.endswith((".py", ".ts"))]
    paths = [path.rstrip("/") for path in paths if "*" not in path]
    tops = (*LINKED, "tidegauge", "tests", "docs")
    files = {str(path.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*")}
    files |= {f"tidegauge/{name}" for name in LINKED}
    missing = [p for p in paths if not any(f == p or f.endswith(f"/{p}") for f in files)]
    assert len(paths) > 40
    assert missing == []


def test_docstrings_name_existing_types():
    """No section of parameters contains the old name of a renamed class."""
    known = {*vars(builtins), *(name.partition(".")[0] for name in modules())}
    for _, node in nodes():
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.Name(id=name):
                known.add(name)
            case ast.Attribute(attr=name):
                known.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                known |= {alias.asname or alias.name for alias in names}
    unknown = []
    for module, node in nodes():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            types = re.findall(r"^ *[\w, *]+ : (.+)$", ast.get_docstring(node) or "", re.MULTILINE)
            words = {word for line in types for word in re.findall(r"\b[A-Z]\w+", line)}
            unknown += [f"{module}: {word}" for word in words - known]
    assert unknown == []


def documented_parameters(function):
    """Return the parameters that a docstring describes."""
    _, _, section = (ast.get_docstring(function) or "").partition("Parameters\n----------\n")
    section = re.split(r"\n\n[A-Z][\w ]+\n-{3,}\n", section)[0]
    lines = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", section, re.MULTILINE)
    return {name.lstrip("*") for line in lines for name in line.split(", ")}


def test_docstrings_describe_existing_parameters():
    """Functions that take ``**series`` also describe the filters in it."""
    unknown = []
    for module, node in nodes():
        if isinstance(node, ast.FunctionDef) and node.args.kwarg is None:
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            named += filter(None, [arguments.vararg])
            wrong = documented_parameters(node) - {argument.arg for argument in named}
            unknown += [f"{module}.{node.name}: {name}" for name in sorted(wrong)]
    assert unknown == []


def test_no_two_public_classes_share_a_name():
    homes = {}
    for module, node in nodes():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            homes.setdefault(node.name, set()).add(module)
    assert {name: some for name, some in homes.items() if len(some) > 1} == {}


def test_the_number_of_modules_stays_small():
    """Each module has one subject, and is long enough to be read by itself."""
    assert len(modules()) <= MAX_MODULES


@pytest.mark.parametrize("part", ["analyzers", "repository", "tidegauge"])
def test_folders_of_tests_are_named_after_packages(part):
    folders = {p.parent.relative_to(ROOT / "tests") for p in (ROOT / "tests" / part).rglob("*.py")}
    assert [str(f) for f in sorted(folders) if not (ROOT / f / "__init__.py").is_file()] == []


def run_python(code, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done


def test_importing_loads_neither_spark_nor_pandas():
    done = run_python("import tidegauge, sys, json; print(json.dumps(sorted(sys.modules)))")
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    unwanted = {"pyspark", "pandas", "numpy", "pyarrow", "sqlalchemy", "pydantic", "sqlglot"}
    assert not loaded & unwanted


def test_only_one_module_imports_sqlglot_and_only_to_parse():
    importing = [m for m in modules() if any(name.startswith("sqlglot") for name in imports(m))]
    assert importing == ["tidegauge.analyzers.core.sql_parser"]
    run_python(
        "import sys, tidegauge.analyzers.core.conditions, tidegauge.cli.main, tidegauge.griffin;"
        "assert 'sqlglot' not in sys.modules"
    )


def test_opening_a_repository_loads_pandas_and_arrow_only_for_a_frame():
    """It also does not load modules that no history needs: Griffin, rules, consistency."""
    code = """
import json, sys
import tidegauge as tg
with tg.Repository("sqlite://") as repo:
    repo.datasets()
    repo.record("d", "x", 1.0)
    loaded = sorted(sys.modules)
    repo.metrics("d")
print(json.dumps([loaded, "pandas" in sys.modules]))
"""
    loaded, afterwards = json.loads(run_python(code).stdout)
    assert not {name.partition(".")[0] for name in loaded} & {"pandas", "pyarrow", "lark"}
    products = ("tidegauge.griffin", "tidegauge.rules", "tidegauge.consistency")
    assert not [name for name in loaded if name.startswith(products)]
    assert afterwards


def test_nothing_is_imported_by_a_generic_name():
    """Another project's migrations/ or repository/ must not be shadowed."""
    for module in modules():
        for name in imports(module):
            assert name.partition(".")[0] not in LINKED, f"{module} imports {name}"


@pytest.mark.parametrize("kind", ["analyzers", "states", "detectors"])
def test_tables_of_names_are_complete(kind):
    """They contain exactly the names that the modules define."""
    from tidegauge.analyzers.core.registry import ANALYZER_MODULES, STATE_MODULES
    from tidegauge.repository.detectors.registry import DETECTOR_MODULES

    tables = {"analyzers": ANALYZER_MODULES, "states": STATE_MODULES, "detectors": DETECTOR_MODULES}
    mark = {"analyzers": "analyzer", "states": "register_state", "detectors": "detector"}[kind]
    found = {}
    for module, tree in modules().items():
        for node in tree.body:
            for decorator in getattr(node, "decorator_list", ()):
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                if isinstance(call, ast.Name) and call.id == mark:
                    name = node.name
                    if kind == "states":
                        name = ast.literal_eval(decorator.args[0]).partition("/")[0]
                    found.setdefault(module, set()).add(name)
    assert {module: set(names) for module, names in tables[kind].items()} == found


def test_public_names_exist_and_are_documented():
    assert list(tg.__all__) == sorted(tg.__all__) == dir(tg)
    for name in tg.__all__:
        alias = name.endswith("Metric") or name == "PATTERNS"
        assert alias or getattr(tg, name).__doc__, name
    with pytest.raises(AttributeError, match="tidegauge has no .Sise.; did you mean .Size."):
        _ = tg.Sise


def test_all_errors_that_users_meet_are_public_and_in_the_tree():
    from tidegauge.analyzers.core import errors

    classes = {
        n: c
        for n, c in vars(errors).items()
        if isinstance(c, type) and issubclass(c, Exception) and not issubclass(c, Warning)
    }
    assert set(classes) <= set(tg.__all__)
    drawn = [
        line
        for line in str(errors.__doc__).splitlines()
        if "Error" in line and line.startswith("    ")
    ]
    tree, stack = {}, []
    for line in drawn:
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip()) - 4) // 2
        stack[depth:] = [name]
        tree[name] = stack[depth - 1] if depth else "Exception"
    assert set(tree) == set(classes)
    for name, parent in tree.items():
        assert parent in {base.__name__ for base in classes[name].__bases__}, name


def test_every_detector_is_in_the_reference():
    from tidegauge.repository.detectors.base import DETECTORS

    reference = (ROOT / "docs" / "reference" / "detectors.md").read_text()
    for name in DETECTORS:
        assert f"| `{name}(" in reference, name


def test_the_page_of_analyzers_matches_the_registry():
    """Every analyzer occurs once, with all its options and defaults, its type of state and its size."""
    from dataclasses import MISSING, fields

    from tidegauge.analyzers.core.analyzer import ANALYZERS

    rows = {}
    for line in (ROOT / "docs" / "analyzers.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].startswith("`"):
            name = cells[0].strip("`").partition("(")[0]
            assert name not in rows, name
            assert all(cells), f"{name} has an empty cell"
            rows[name] = cells
    assert set(rows) == set(ANALYZERS)
    for name, (signature, _, _, no_rows, state, error) in rows.items():
        cls = ANALYZERS[name]
        options = [
            f.name if f.default is MISSING else f"{f.name}={f.default!r}"
            for f in fields(cls)
            if f.name != "where"
        ]
        assert signature == f"`{name}({', '.join(options)})`"
        assert state.startswith(cls.state_type.tag.partition("/")[0]), name
        assert re.search("empty|0|no bins", no_rows), name
        approximate = cls.interval is not tg.Analyzer.interval
        assert approximate != bool(re.match("exact|to rounding", error)), name


def test_lock_files_contain_no_hosts():
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert "--hash=sha256:" in text
