"""What is released: a wheel holds all that is needed and nothing of how it is made, the source both."""

import os
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hatch_build import SCRIPT

ROOT = Path(__file__).parents[1]
NEEDED = (
    "tidegauge/widgets/static/dashboard.js",
    "tidegauge/widgets/static/dashboard.css",
    "tidegauge/widgets/dashboard.ipynb",
    "tidegauge/widgets/jupyter/voila/templates/tidegauge/index.html.j2",
    "tidegauge/__init__.pyi",
    "tidegauge/py.typed",
)
NOTEBOOK = "tidegauge/demo/notebooks/first_steps.ipynb"
MADE_OF = (
    "*.ts",
    "*.mjs",
    "*package*.json",
    "*tsconfig.json",
    "*node_modules*",
    "*.npmrc",
    "tests/*",
)


def built(kind, folder):
    if not SCRIPT.exists():
        pytest.skip("the dashboard's script is not built: make widgets")
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_a_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert top == {"tidegauge", next(name for name in top if name.endswith(".dist-info"))}
    for needed in (*NEEDED, NOTEBOOK, "tidegauge/migrations/versions/0005_*.py"):
        assert any(fnmatch(name, needed) for name in names), needed
    for pattern in MADE_OF:
        assert not [name for name in names if fnmatch(name, pattern)]


def test_the_source(tmp_path):
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
    """A project that has folders and modules of our general names, beside an installed tidegauge."""
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
def test_another_project_may_have_folders_of_the_same_names(project):
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
def test_the_main_job_runs_beside_folders_of_the_same_names_in_sparks_workers_too(project):
    """A REQ sketch is built in Python workers."""
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
