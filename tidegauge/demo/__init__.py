"""The demonstration: a year of real flights as a Hive table, measured, remembered, explained."""
