"""Data sources and targets: Hive tables, folders, Iceberg and Delta tables, DataFrames."""
