"""Run the suite that every supported Spark must pass, each Spark in a separate environment.

``python -m tests.matrix`` runs it on all, ``python -m tests.matrix 3.5 4.1`` on some. The suite
is a selection of the project's tests, and `tests.matrix.test_across`, which merges the states
of each Spark with the states of the earlier ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.formats.packages import PACKAGES
from tests.paths import ROOT
from tests.services.environments import ENVIRONMENTS, REQUIREMENTS, environment

NEWEST = "newest"
"""The environment of development, which has the newest Spark."""
FRESH = "spark35"
"""The extra, and the environment, for which pip chooses all versions."""
SUITE = (
    "tests/matrix",
    "tests/analyzers/columnar",
    "tests/analyzers/measures/test_edges.py",
    "tests/analyzers/measures/test_exactness.py",
    "tests/analyzers/measures/test_semantics.py",
    "tests/analyzers/measures/test_values.py",
    "tests/analyzers/runs",
    "tests/analyzers/scan",
    "tests/tidegauge/checks/test_verify.py",
    "tests/tidegauge/rules/test_verdicts.py",
    "tests/tidegauge/rules/test_file_parser.py",
    "tests/tidegauge/consistency/compare",
    "tests/tidegauge/consistency/test_pipeline.py",
    "tests/tidegauge/griffin/test_frame_operations.py",
    "tests/tidegauge/griffin/test_jobs.py",
    "tests/tidegauge/griffin/execution",
)
PARALLEL = ("--numprocesses", "2", "--dist", "loadfile")
CONNECT = "tests/tidegauge/spark/test_connect.py::test_a_table_is_measured_over_spark_connect"
OF_DEVELOPMENT = (
    "tests/test_dead_code.py",
    "tests/test_laptop.py",
    "tests/test_notebooks.py",
    "tests/test_wheel.py",
    "tests/repository/history/test_plots.py",
    "tests/tidegauge/widgets/test_script.py",
)
"""Tests that need Jupyter's kernels, npm's packages, Altair, or tools of development such as vulture."""
PURE = "not spark and not browser and not kafka and not postgres and not soak"
NEWER = ("3.12", "3.13")
# Old releases of Spark use functions that newer Pythons, pandas and NumPy warn about.
IGNORED = ("DeprecationWarning", "FutureWarning", "ResourceWarning", "UserWarning")


def versions() -> list[str]:
    """Return the release lines with a separate environment, oldest first."""
    actual = [path.stem.removeprefix("spark-") for path in REQUIREMENTS.glob("spark-*.txt")]
    return sorted(actual, key=lambda version: [int(part) for part in version.split(".")])


def python_of(version: str) -> Path:
    """Return the Python of a release line's environment."""
    return Path(sys.executable) if version == NEWEST else environment(f"spark-{version}")


def pythons() -> list[str]:
    """Return the newer Pythons that are installed here and satisfy development's requirements."""
    actual = (shutil.which(f"python{version}") for version in NEWER)
    return [
        Path(path).name
        for path in actual
        if path
        and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    ]


def run_python(name: str) -> tuple[int, float]:
    """Run the tests without Spark and servers on another Python; see `run`."""
    began = time.monotonic()
    python = environment("dev", str(shutil.which(name)), name)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PARALLEL, "-m", PURE]
    known = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, "tests"], cwd=ROOT, env=known, check=False)
    return done.returncode, (time.monotonic() - began) / 60


def run(version: str, more: list[str], formats: str) -> tuple[int, float]:
    """Run the suite on a release line; return the exit status and the duration in minutes."""
    began, older = time.monotonic(), version != NEWEST
    command = [
        *(python_of(version), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("--override-ini", "addopts=--strict-markers --import-mode=importlib"),
        *(word for name in IGNORED for word in ("-W", f"ignore::{name}")),
        *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
    ]
    known = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    known |= {"TIDEGAUGE_MATRIX": str(ENVIRONMENTS / "states"), "PYTHONPATH": str(ROOT)}
    statuses = []

    def test(choice: str, *arguments: str, **variables: str) -> None:
        done = subprocess.run(
            [*command, "-m", choice, *arguments], cwd=ROOT, env={**known, **variables}, check=False
        )
        statuses.append(done.returncode)

    spark = "spark and not soak and not kafka and not browser" + (" and not newest" * older)
    if formats != "only":
        test(spark, *PARALLEL, *(more or SUITE))
        if not more:
            test("spark", CONNECT)
        if not more and version == versions()[0]:  # its packages are the oldest
            left_out = (f"--ignore={path}" for path in OF_DEVELOPMENT)
            # Packages that only development has, such as JupyterLab, may be missing.
            test(PURE, *PARALLEL, "tests", *left_out, TIDEGAUGE_REQUIRE_ALL="0")
    if formats != "no" and version in PACKAGES:  # in a separate session, with their packages
        test(spark, "tests/formats", TIDEGAUGE_SESSION="formats")
    return int(any(statuses)), (time.monotonic() - began) / 60


def run_fresh_install() -> tuple[int, float]:
    """Install Spark 3.5 as in the documentation, without pins, and measure a table; see `run`."""
    began = time.monotonic()
    folder = ENVIRONMENTS / FRESH
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run([*pip, f"{ROOT}[spark35]"], cwd=folder, check=False)
    if done.returncode == 0:
        known = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYSPARK_PYTHON"}}
        script = ROOT / "tests" / "matrix" / "first_table.py"
        done = subprocess.run([python, "-I", script], cwd=folder, env=known, check=False)
    return done.returncode, (time.monotonic() - began) / 60


def main() -> int:
    """Run the suite on the given release lines, or on all of them and the newest."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument(
        "versions", nargs="*", help="such as 3.5 or python3.13; all, if none is named"
    )
    parser.add_argument("--tests", nargs="*", default=[], help="in place of the suite")
    parser.add_argument(
        "--formats",
        choices=("yes", "no", "only"),
        default="yes",
        help="the tests of Delta Lake and Iceberg, where they have packages",
    )
    params = parser.parse_args()
    there = [*versions(), NEWEST, *pythons(), FRESH]
    wrong = [version for version in params.versions if version not in there]
    if wrong:
        parser.error(f"no environment for {', '.join(wrong)}; there are: {', '.join(there)}")
    actual = {}
    for name in params.versions or there:
        if name == FRESH:
            actual[name] = run_fresh_install()
        elif name.startswith("python"):
            actual[name] = run_python(name)
        else:
            actual[name] = run(name, params.tests, params.formats)
    for name, (status, minutes) in actual.items():
        kind = name if name.startswith(("python", FRESH)) else f"Spark {name}"
        print(f"{kind:13} {'passed' if status == 0 else 'FAILED'}  {minutes:5.1f} minutes")
    return int(any(status for status, _ in actual.values()))


if __name__ == "__main__":
    raise SystemExit(main())
