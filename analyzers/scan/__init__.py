"""Scanning: plan the analyzers' requests as Spark jobs and run them in one pass."""
