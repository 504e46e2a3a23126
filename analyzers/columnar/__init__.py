"""Measuring Parquet files without Spark: from their metadata, or by reading their columns."""
