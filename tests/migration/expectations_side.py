"""First steps of Great Expectations: one expectation, a suite, and a suite exported from Tidegauge.

    python expectations_side.py SUITE.json

It prints its results as JSON on the last line.
"""

import json
import os
import sys
from pathlib import Path


def main(file):
    """Run the steps."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(Path(__file__).parent))
    from tables import TRIP_COLUMNS, TRIPS

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    trips = spark.createDataFrame(TRIPS, TRIP_COLUMNS)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark").add_dataframe_asset("trips")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": trips})

    def outcome(result):
        """Return whether an expectation holds, and the number of unexpected values."""
        return [bool(result.success), result.result.get("unexpected_count")]

    expect = gx.expectations
    expected = [
        expect.ExpectColumnValuesToBeBetween(column="passengers", min_value=1, max_value=6),
        expect.ExpectColumnValuesToBeBetween(column="fare", min_value=0, max_value=100),
        expect.ExpectColumnValuesToNotBeNull(column="payment"),
        expect.ExpectColumnValuesToNotBeNull(column="payment", mostly=0.8),
        expect.ExpectColumnValuesToBeInSet(column="payment", value_set=["card", "cash"]),
        expect.ExpectColumnValuesToBeUnique(column="id"),
        expect.ExpectTableRowCountToBeBetween(min_value=1, max_value=10),
        expect.ExpectColumnMeanToBeBetween(column="fare", min_value=5, max_value=10),
        expect.ExpectColumnToExist(column="tip"),
    ]
    suite = gx.ExpectationSuite("exported", **json.loads(Path(file).read_text()))
    exported = batch.validate(context.suites.add(suite))
    answers = {
        "first": outcome(batch.validate(expected[0])),
        "suite": [outcome(batch.validate(one)) for one in expected],
        "exported": {
            one.expectation_config.meta["from"]: bool(one.success) for one in exported.results
        },
    }
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
