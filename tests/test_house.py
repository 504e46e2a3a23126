"""The rules of the house: which way imports run, what importing costs, what is documented."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge as tg

ROOT = Path(__file__).parents[1]
PACKAGES = ("analyzers", "repository", "migrations", "tidegauge")
SPARK_SIDE = {
    f"analyzers.{name}"
    for name in (
        "griffin.connectors",
        "griffin.connectors.avro",
        "griffin.connectors.connector",
        "griffin.connectors.elastic",
        "griffin.connectors.files",
        "griffin.connectors.kafka",
        "griffin.connectors.tables",
        "griffin.connectors.text_dir",
        "griffin.engine",
        "griffin.frame_ops",
        "griffin.keeping",
        "griffin.loading",
        "griffin.measuring",
        "griffin.partitioned",
        "griffin.prepared",
        "griffin.sinks.database",
        "griffin.streaming.ingest",
        "griffin.streaming.marks",
        "griffin.streaming.rounds",
        "griffin.streaming.run",
        "griffin.streaming.windows",
        "consistency.lag",
        "consistency.pipeline",
        "consistency.sides",
        "consistency.tables",
        "consistency.decoding",
        "consistency.flatten",
        "consistency.log_table",
        "consistency.retention",
        "consistency.comparison",
        "consistency.comparing",
        "consistency.joining",
        "consistency.recording",
        "views",
        "groups",
        "incremental",
        "jobs",
        "logged",
        "plan",
        "rows",
        "rules.applied",
        "rules.attached",
        "rules.dqm",
        "rules.fingerprints",
        "rules.masks",
        "rules.parsing",
        "rules.publish",
        "rules.recording",
        "rules.samples",
        "rules.tally",
        "rules.targets",
        "rules.validation",
        "rules.verdicts",
        "scan",
        "sources",
        "tables",
    )
}
# An analyzer can measure a DataFrame by itself; everything else runs one way.
ALLOWED = {("analyzers.analyzer", "analyzers.scan")}


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "versions" not in path.parts:
                yield (
                    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
                        ".__init__"
                    ),
                    path,
                )


def imports(path):
    """Every module imported, inside functions too, but not for types only."""

    def walk(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                yield from walk(child)
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    return set(walk(ast.parse(path.read_text())))


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda x: str(x) if isinstance(x, str) else ""
)
def test_imports_run_one_way(module, path):
    package = module.partition(".")[0]
    found = {name for name in imports(path) if (module, name) not in ALLOWED}
    found = {
        name
        for name in found
        if not any(
            name.startswith(target + ".") and (module, target) in ALLOWED for target in SPARK_SIDE
        )
    }
    roots = {name.partition(".")[0] for name in found}
    if package == "analyzers":
        assert not roots & {"repository", "migrations", "tidegauge", "sqlalchemy", "alembic"}
        if module not in SPARK_SIDE:
            assert not {
                name
                for name in found
                if any(name == s or name.startswith(s + ".") for s in SPARK_SIDE)
            }
    if package in {"repository", "migrations"}:
        assert not roots & {"tidegauge", "pyspark"}
        assert not {
            name for name in found if any(name == s or name.startswith(s + ".") for s in SPARK_SIDE)
        }
    if "repository.anomalies" in module:
        assert "pyspark" not in roots


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda x: str(x) if isinstance(x, str) else ""
)
def test_spark_is_never_imported_with_a_module(module, path):
    """Inside functions only, so that everything imports on a laptop."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [a.name for a in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            )
            assert not any(name.partition(".")[0] == "pyspark" for name in names)


def test_no_jvm_and_no_pickle():
    for _, path in modules():
        text = path.read_text()
        for word in (
            "._jvm",
            "._jdf",
            "._jsc",
            "._jsparkSession",
            "py4j",
            "import pickle",
            "cloudpickle",
        ):
            assert word not in text, f"{path}: {word}"


def run_python(code, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done


def test_importing_is_quick_and_takes_neither_spark_nor_pandas():
    done = run_python(
        "import tidegauge, sys, json; print(json.dumps(sorted(sys.modules)))", "-X", "importtime"
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"pyspark", "pandas", "numpy", "pyarrow", "sqlalchemy", "pydantic"}
    total = [line for line in done.stderr.splitlines() if line.rstrip().endswith("| tidegauge")]
    assert (
        int(total[0].split("|")[1]) > 0
    )  # microseconds; the benchmark prints them, no test judges them


def test_public_names_are_real_and_documented():
    assert list(tg.__all__) == sorted(tg.__all__) == dir(tg)
    for name in tg.__all__:
        assert getattr(tg, name).__doc__ or name in {
            "DoubleMetric",
            "KeyedDoubleMetric",
            "PATTERNS",
        }, name
    with pytest.raises(AttributeError, match="has no attribute 'Sise'"):
        _ = tg.Sise


def test_all_errors_that_users_meet_are_public_and_drawn_in_the_tree():
    from analyzers import errors

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


def test_every_detector_is_in_the_guide():
    from repository.anomalies.catalogue import DETECTORS

    guide = "\n".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    for name in DETECTORS:
        assert f"`{name}" in guide, f"docs/ does not mention {name}"


def test_the_page_of_analyzers_says_what_the_registry_says():
    """Every analyzer once, with all its options and defaults, its kind of state and its size."""
    import re
    from dataclasses import MISSING, fields

    from analyzers.catalogue import ANALYZERS

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


def test_locks_hold_no_hosts():
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert "--hash=sha256:" in text


def test_the_readme_and_the_guide_name_only_commands_and_files_that_exist():
    import re

    from tidegauge.cli import app
    from typer.main import get_command

    commands = set(get_command(app).commands)
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = path.read_text()
        for word in re.findall(r"^ *(?:\$ )?tidegauge ([a-z]+)", text, re.MULTILINE):
            assert word in commands, f"{path.name}: tidegauge {word}"
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
        for target in re.findall(r"make ([a-z]+)", text):
            assert f"\n{target}:" in (ROOT / "Makefile").read_text() or target in {
                "it",
                "sure",
                "a",
                "up",
                "their",
            }, target
