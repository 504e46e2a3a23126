"""On a laptop without Spark, all queries of history work from the repository."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WITHOUT_SPARK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""

LOOK_BACK = """
import json
import tidegauge as tg

repo = tg.Repository(URL)
frame = repo.metrics("flights", name="Completeness", instance="dep_time", where="")
found = repo.detect("flights")
answer = {
    "points": len(frame),
    "blizzard": frame.loc[frame["partition"] == "ds=2013-02-08", "value"].item(),
    "aircraft": repo.merge("flights", tg.ApproxCountDistinct("tailnum")).value,
    "exactly": repo.merge("flights", tg.CountDistinct("tailnum")).value,
    "median": repo.merge("flights", tg.ApproxQuantile("arr_delay", 0.5)).value,
    "anomalies": len(found),
    "days": sorted(set(found["partition"])),
}
try:
    tg.analyze("flights", tg.Suite("flights", [tg.Size()]), repository=repo)
except tg.SourceError as error:
    answer["error"] = str(error)
import sys
answer["spark"] = any(name.partition(".")[0] == "pyspark" for name in sys.modules)
repo.close()
print(json.dumps(answer))
"""


@pytest.mark.spark
def test_queries_of_history_need_no_spark(measured_copy):
    code = WITHOUT_SPARK + LOOK_BACK.replace("URL", repr(str(measured_copy.database.url)))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["points"] == 365
    assert answer["blizzard"] == pytest.approx(458 / 930)
    assert answer["exactly"] == 4043
    assert abs(answer["aircraft"] - 4043) <= 3 * 0.0163 * 4043
    assert -6 <= answer["median"] <= -4
    assert {"ds=2013-02-08", "ds=2013-02-09", "ds=2013-11-28"} <= set(answer["days"])
    assert answer["error"] == "measuring needs Spark: pip install 'tidegauge[spark]'"
    assert answer["spark"] is False


def test_every_module_imports_without_spark():
    code = (
        WITHOUT_SPARK
        + """
import importlib, pkgutil
import tidegauge
for module in pkgutil.walk_packages(tidegauge.__path__, "tidegauge."):
    # Alembic runs the migrations; the others are for where their schedulers are installed.
    elsewhere = ("tidegauge.migrations.", "tidegauge.integrations.airflow", "tidegauge.integrations.dagster")
    if not module.name.startswith(elsewhere):
        importlib.import_module(module.name)
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
