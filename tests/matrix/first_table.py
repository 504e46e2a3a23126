"""Measure a folder with the packages that pip installed, as a new user does; run by `tests.matrix`."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tidegauge as tg


def main() -> None:
    """Run the doctor, measure two days, and compare with numbers computed by hand."""
    doctor = subprocess.run(
        [Path(sys.executable).parent / "tidegauge", "doctor"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    with tempfile.TemporaryDirectory() as folder, tg.Repository("sqlite://") as repository:
        for day in (1, 2):
            place = Path(folder, "orders", f"ds=2026-01-0{day}")
            place.mkdir(parents=True)
            columns = {"id": [1, 2, 3 + day], "email": ["a@x.org", None, "c@x.org"]}
            pq.write_table(pa.table(columns), place / "part.parquet")
        analyzers = [tg.Size(), tg.Completeness("email"), tg.ApproxQuantile("id", 0.5)]
        suite = tg.Suite("orders", [*analyzers, tg.Histogram("email")], partition_by=["ds"])
        spark = tg.spark_session(Path(folder, "warehouse"))
        run = tg.analyze(f"{folder}/orders", suite, repository=repository, spark=spark)
        assert run.status == "complete", run.report
        assert repository.merge("orders", tg.Size()).value == 6
        assert repository.merge("orders", tg.Completeness("email")).value == 4 / 6
        assert repository.merge("orders", tg.ApproxQuantile("id", 0.5)).value == 2
        print(f"Spark {spark.version} measured {run.report.scanned} partitions")
        spark.stop()


if __name__ == "__main__":
    main()
