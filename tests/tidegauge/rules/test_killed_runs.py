"""`rules run` killed at random moments: the next run ends with the content of an undisturbed run."""

import time

import pytest

import tidegauge as tg
from tests.conftest import soak
from tests.support.integrity import check
from tests.support.kills import kill, random_moments, start, wait_for
from tidegauge.rules.run import run_rules

pytestmark = [pytest.mark.soak, pytest.mark.spark]
DAYS = 6
SPEC = """
dataset: people
path: {source}
partition_by: [ds]
rules:
  - BoundRule: {{column: age, lower: 0, upper: 150, name: age, policy: {{FailCount: 5}}}}
fixes:
  - Fix: {{condition: age > 25, column: age, value: 25, name: cap}}
quarantine: {folder}/rejects
publish: {folder}/clean
"""
JOB = """
import sys
import tidegauge as tg
from tests.tidegauge.rules.test_killed_runs import run
spark = tg.spark_session()
spark.sql("SELECT 1").collect()
open(sys.argv[2], "w").close()
run(sys.argv[1])
"""


def run(folder):
    with tg.Repository(f"sqlite:///{folder}/r.db") as repository:
        return run_rules([f"{folder}/people.yml"], repository)


def rows(place):
    """Return the rows of a folder by day."""
    import pyarrow.parquet as pq

    actual = {}
    for file in place.glob("ds=*/*.parquet"):
        ages = pq.read_table(file, partitioning=None, columns=["age"])["age"].to_pylist()
        actual.setdefault(file.parent.name, []).extend(ages)
    return {day: sorted(ages, key=str) for day, ages in actual.items()}


def content(folder):
    with tg.Repository(f"sqlite:///{folder}/r.db") as repository:
        assert check(repository.database, repository.artifacts) == []
        metrics = repository.metrics("people")[["partition", "name", "instance", "value"]]
        verdicts = repository.verdicts("people")
        judged = verdicts[["partition", "name", "passed"]].drop_duplicates()
    tables = [  # a verdict on a publication has the name of its folder
        sorted(str(row).replace(str(folder), "") for row in one.itertuples(index=False))
        for one in (metrics, judged)
    ]
    return *tables, rows(folder / "clean"), rows(folder / "rejects")


def test_a_run_of_rules_killed_at_any_moment_is_completed_by_the_next(spark, tmp_path):
    """Every third day fails. On other days, passing records are published, none of them twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = tmp_path / "people"
    for day in range(DAYS):
        path = source / f"ds=2013-01-0{day + 1}"
        path.mkdir(parents=True)
        bad = 5 if day % 3 == 2 else 1
        ages = pa.array([*range(30), *[200 + n for n in range(bad)]], pa.int32())
        pq.write_table(pa.table({"age": ages}), path / "part.parquet")

    def begin(name):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "people.yml").write_text(SPEC.format(source=source, folder=folder))
        process = start(JOB, folder, folder / "ready")
        wait_for(folder / "ready", process)
        return process, folder

    whole, folder = begin("whole")
    began = time.monotonic()
    assert whole.wait(600) == 0
    took = time.monotonic() - began
    expected = content(folder)
    *_, clean, rejects = expected
    good = sorted([*range(26), *[25] * 4], key=str)
    assert clean == {f"ds=2013-01-0{day}": good for day in (1, 2, 4, 5)}
    assert sum(map(len, rejects.values())) == 4 * 1 + 2 * 5
    draw, seed = random_moments()
    print(f"seed {seed}, {took:.2f} s from session to exit")
    left = []
    for number in range(soak(3, 25)):
        process, folder = begin(f"killed{number}")
        time.sleep(draw.uniform(0, took))
        kill(process)
        published = rows(folder / "clean")
        assert published.items() <= clean.items(), f"seed {seed}"
        left.append(len(published))
        run(folder)
        assert content(folder) == expected, f"seed {seed}"
    print(f"days published before each kill: {left}")
