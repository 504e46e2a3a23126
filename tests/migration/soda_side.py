"""First steps of Soda: a data contract, verified on a table of a Spark session.

    python soda_side.py FOLDER

It prints its results as JSON on the last line.
"""

import json
import os
import sys
from pathlib import Path

CONTRACT = """
dataset: walk/walk/trips
columns:
  - name: id
    data_type: int
    checks:
      - missing:
      - duplicate:
  - name: passengers
    checks:
      - invalid:
          valid_min: 1
          valid_max: 6
  - name: payment
    checks:
      - missing:
          threshold:
            metric: percent
            must_be_less_than: 25
      - invalid:
          valid_values: [card, cash]
  - name: fare
    checks:
      - aggregate:
          function: avg
          threshold:
            must_be_between:
              greater_than_or_equal: 5
              less_than_or_equal: 10
checks:
  - schema:
  - row_count:
      threshold:
        must_be_greater_than: 0
"""


def main(folder):
    """Run the steps."""
    os.environ["SODA_CORE_TELEMETRY_ENABLED"] = "false"
    from pyspark.sql import SparkSession
    from soda_core.contracts import verify_contract_locally
    from soda_sparkdf import SparkDataFrameDataSource

    sys.path.insert(0, str(Path(__file__).parent))
    from tables import TRIP_COLUMNS, TRIPS

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    spark = spark.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sql("CREATE DATABASE IF NOT EXISTS walk")
    spark.sql("USE walk")
    spark.createDataFrame(TRIPS, TRIP_COLUMNS).write.mode("overwrite").saveAsTable("trips")
    (folder / "trips.yml").write_text(CONTRACT)
    source = SparkDataFrameDataSource.from_existing_session(session=spark, name="walk")
    session = verify_contract_locally(
        data_sources=[source], contract_file_path=str(folder / "trips.yml"), publish=False
    )
    (result,) = session.contract_verification_results
    answers = {
        "ok": session.is_ok,
        "errors": session.get_errors_str(),
        "outcomes": {
            f"{one.check.column_name or 'table'} {one.check.type}": one.outcome.value
            for one in result.check_results
        },
    }
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
