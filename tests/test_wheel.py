"""Released archives: the wheel contains everything needed to run, the source everything to build it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hatch_build import SCRIPT, readme

ROOT = Path(__file__).parents[1]
NEEDED = (
    "tidegauge/widgets/static/dashboard.js",
    "tidegauge/widgets/static/dashboard.css",
    "tidegauge/widgets/static/page.js",
    "tidegauge/__init__.pyi",
    "tidegauge/py.typed",
)
NOTEBOOK = "tidegauge/demo/notebooks/first_steps.ipynb"
ELSEWHERE = shutil.ignore_patterns(
    ".*", "tests", "site", "dist", "build", "node_modules", "__pycache__", "*.egg-info"
)
"""Files and folders that are not needed to build a wheel."""
MADE_OF = (
    "*.ts",
    "*.mjs",
    "*package*.json",
    "*tsconfig.json",
    "*node_modules*",
    "*.npmrc",
    "tests/*",
)


def built(kind, folder, root=ROOT, **environment):
    if not SCRIPT.exists():
        pytest.skip("the dashboard's script is not built: make widgets")
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(
        build,
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_contains_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert top == {"tidegauge", next(name for name in top if name.endswith(".dist-info"))}
    for needed in (*NEEDED, NOTEBOOK, "tidegauge/migrations/versions/0005_*.py"):
        assert any(fnmatch(name, needed) for name in names), needed
    for pattern in MADE_OF:
        assert not [name for name in names if fnmatch(name, pattern)]


def test_a_wheel_is_the_same_byte_by_byte(wheel, tmp_path):
    """A copy in another folder is built with other file times, permissions, time zone and hash seed."""
    tree = shutil.copytree(ROOT, tmp_path / "tree", symlinks=True, ignore=ELSEWHERE)
    for file in tree.rglob("*.py"):
        os.utime(file, (1_500_000_000, 1_500_000_000))
        file.chmod(0o666)
    made = dict(PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C")
    again = built("wheel", tmp_path / "again", tree, **made)
    assert again.read_bytes() == wheel.read_bytes()


def test_the_bill_of_materials_names_what_is_in_a_wheel_and_what_it_requires(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if "/sboms/" in name)
        bill = json.loads(archive.read(name))
        script = archive.read("tidegauge/widgets/static/dashboard.js").decode()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "tidegauge"
    parts = {part["purl"]: part for part in bill["components"]}
    assert len(parts) == len(bill["components"])
    assert set(bill["dependencies"][0]["dependsOn"]) == {p["bom-ref"] for p in parts.values()}
    bundled = {part["name"]: part for purl, part in parts.items() if purl.startswith("pkg:npm/")}
    sources = (ROOT / "tidegauge/widgets/src").rglob("*.ts")
    imported = re.compile(r"""(?:from|import) ["']([^."'][^"']*)["']""")
    actual = {name for source in sources for name in imported.findall(source.read_text())}
    types = {"@anywidget/types"}  # the script no longer contains them
    assert {name.removesuffix("/dist/uPlot.min.css") for name in actual} - types == set(bundled)
    assert bundled["uplot"]["licenses"] == [{"expression": "MIT"}]
    assert "Copyright (c) 2022 Leon Sorokin" in script  # as its license requires
    assert len(bundled["uplot"]["hashes"][0]["content"]) == 128
    assert parts["pkg:pypi/sqlalchemy"]["scope"] == "required"
    assert parts["pkg:pypi/pyspark"]["scope"] == "optional"
    assert parts["pkg:pypi/alembic"]["properties"][0]["value"].startswith("alembic>=")
    assert "pkg:pypi/ruff" not in parts


def test_the_source_archive_contains_everything_to_build_and_test(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    made_of = (
        "hatch_build.py",
        "tidegauge/widgets/src/dashboard.ts",
        "tidegauge/widgets/build.mjs",
    )
    own = ("migrations/versions/0005_*.py", "tidegauge/widgets/package-lock.json")
    for needed in (*NEEDED, *made_of, *own):
        assert any(fnmatch(name, needed) for name in names), needed
    assert not [name for name in names if "node_modules" in name]
    assert {"analyzers/core/metric.py", "notebooks/first_steps.ipynb"} <= set(names)


@pytest.fixture
def project(wheel, tmp_path):
    """A project with folders and modules named like ours, next to an installed tidegauge."""
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(wheel)], check=True)
    home = tmp_path / "project"
    for name in ("migrations", "repository"):
        (home / name).mkdir(parents=True)
        (home / name / "__init__.py").write_text("raise RuntimeError('not meant')\n")
    (home / "analyzers.py").write_text("raise RuntimeError('not meant')\n")

    def run(code):
        (home / "job.py").write_text(code)
        done = subprocess.run(
            [sys.executable, "job.py"],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.soak
def test_another_project_may_have_folders_with_the_same_names(project):
    lines = project("""
import sys
import tidegauge as tg
with tg.Repository("sqlite:///x.db") as repo:
    repo.record("d", "x", 1.0)
    print(repo.metrics("d")["value"].tolist())
print(tg.__file__.split("/")[-3])
print([name for name in ("analyzers", "repository", "migrations") if name in sys.modules])
""")
    assert lines == ["[1.0]", "site", "[]"]


@pytest.mark.soak
@pytest.mark.spark
def test_a_job_runs_next_to_folders_with_the_same_names_also_in_workers(project):
    """Python workers build a REQ sketch."""
    lines = project("""
import tidegauge as tg
from tidegauge.spark.session import spark_session
spark = spark_session()
data = spark.range(100).selectExpr("id", "'2024-01-0' || (id % 2 + 1) AS ds")
suite = tg.Suite("d", [tg.Size(), tg.ReqQuantile("id", 0.5)], partition_by=["ds"])
with tg.Repository("sqlite:///x.db") as repo:
    run = tg.analyze(data, suite, repository=repo, spark=spark)
    print(repo.metrics("d", name="Size")["value"].tolist())
    print(len(repo.metrics("d", name="ReqQuantile")))
spark.stop()
""")
    assert lines[-2:] == ["[50.0, 50.0]", "2"]


def test_the_readme_of_a_release_links_to_the_site():
    site = "https://tidegauge.example.org"
    links = re.findall(r"\]\(([^)\s]+)\)", readme(site))
    assert f"{site}/flights.svg" in links
    assert f"{site}/cookbook.html#personal-data" in links
    assert f"{site}/security.html" in links
    for link in links:
        page = link.removeprefix(f"{site}/").partition("#")[0]
        if page in {"architecture.html", "changelog.html", "security.html"}:
            continue  # docs/hooks.py generates them
        assert (ROOT / "docs" / page.replace(".html", ".md")).exists(), link
    assert "[Contributing](" in readme("")
    assert " Contributing " in readme(site)
    assert readme("") == (ROOT / "README.md").read_text()


def test_the_package_names_the_site_if_it_is_configured():
    def metadata(**site):
        command = [sys.executable, "-m", "hatchling", "metadata"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **site},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    reported = metadata(TIDEGAUGE_SITE="https://tidegauge.example.org/")
    assert reported["urls"]["Documentation"] == "https://tidegauge.example.org/"
    assert "](docs/" not in reported["readme"]["text"]
    assert "](docs/" in metadata(TIDEGAUGE_SITE="")["readme"]["text"]
