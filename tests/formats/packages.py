"""Maven packages of Delta Lake and Apache Iceberg for each release line of Spark that has them."""

PACKAGES = {
    "3.5": (
        "io.delta:delta-spark_2.12:3.3.2",
        "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0!",
    ),
    "4.0": (
        "io.delta:delta-spark_4.0_2.13:4.4.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0!",
    ),
    "4.1": (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0!",
    ),
}
