"""First steps of PyDeequ: metrics kept in a repository, verification, row results, profile, suggestions.

    SPARK_VERSION=3.5 python deequ_side.py DEEQU.jar FOLDER

It prints its results as JSON on the last line.
"""

import json
import sys
from pathlib import Path


def main(jar, folder):
    """Run the steps."""
    from pydeequ import analyzers as a
    from pydeequ.checks import Check, CheckLevel
    from pydeequ.profiles import ColumnProfilerRunner
    from pydeequ.repository import FileSystemMetricsRepository, ResultKey
    from pydeequ.suggestions import DEFAULT, ConstraintSuggestionRunner
    from pydeequ.verification import VerificationResult, VerificationSuite
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(Path(__file__).parent))
    from tables import ORDER_COLUMNS, ORDERS, REVIEWS

    spark = SparkSession.builder.master("local[1]").config("spark.jars", jar)
    spark = spark.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    spark = spark.getOrCreate()
    orders = spark.createDataFrame(ORDERS, ORDER_COLUMNS)
    reviews = spark.sql(REVIEWS)

    def metrics(data, *some, key=None, repository=None):
        """Return the value of each metric, by its name and instance."""
        run = a.AnalysisRunner(spark).onData(data)
        for one in some:
            run = run.addAnalyzer(one)
        if repository is not None:
            run = run.useRepository(repository).saveOrAppendResult(key)
        rows = a.AnalyzerContext.successMetricsAsDataFrame(spark, run.run()).collect()
        return {f"{row['name']} {row['instance']}": row["value"] for row in rows}

    check = (
        Check(spark, CheckLevel.Warning, "orders")
        .hasSize(lambda n: n >= 3)
        .hasMin("line", lambda low: low == 0)
        .isComplete("price")
        .isUnique("code")
        .isContainedIn("code", ["a-1", "a-2", "a-3"])
        .isNonNegative("line")
    )
    result = VerificationSuite(spark).onData(orders).addCheck(check).run()
    verdicts = VerificationResult.checkResultsAsDataFrame(spark, result).collect()
    by_rows = Check(spark, CheckLevel.Warning, "complete").isComplete("price")
    of_rows = VerificationSuite(spark).onData(orders).addCheck(by_rows).run()
    rows = VerificationResult.rowLevelResultsAsDataFrame(spark, of_rows, orders)
    profiles = ColumnProfilerRunner(spark).onData(reviews).run().profiles
    suggested = ConstraintSuggestionRunner(spark).onData(reviews).addConstraintRule(DEFAULT()).run()
    answers = {
        "first": metrics(
            orders,
            a.Size(),
            a.Completeness("price"),
            repository=FileSystemMetricsRepository(spark, f"{folder}/metrics.json"),
            key=ResultKey(spark, 1_700_000_000_000, {"tag": "walk"}),
        ),
        "tutorial": metrics(
            reviews,
            a.Size(),
            a.Completeness("product"),
            a.ApproxCountDistinct("review"),
            a.Mean("stars"),
            a.Compliance("top", "stars >= 4"),
            a.Correlation("stars", "votes"),
            a.Correlation("stars", "helpful"),
        ),
        "status": result.status,
        "verdicts": [row["constraint_status"] for row in verdicts],
        "rows": {row["code"]: row["complete"] for row in rows.collect()},
        "profile": {
            name: {
                "type": one.dataType,
                "completeness": one.completeness,
                "distinct": one.approximateNumDistinctValues,
                **{
                    statistic: getattr(one, statistic)
                    for statistic in ("minimum", "maximum", "mean", "stdDev")
                    if hasattr(one, statistic)
                },
            }
            for name, one in profiles.items()
        },
        "suggestions": [
            (one["column_name"], one["code_for_constraint"])
            for one in suggested["constraint_suggestions"]
        ],
    }
    print(json.dumps(answers))
    spark.sparkContext._gateway.shutdown_callback_server()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
