"""Checks of DataFrames, runs and repositories."""
