"""The demonstration: analyze a year of real flights in a Hive table, and explain the anomalies."""
