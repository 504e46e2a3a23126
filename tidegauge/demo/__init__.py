"""The demonstration: analyse a year of real flights in a Hive table, and explain the anomalies."""
